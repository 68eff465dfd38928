//! OpenMetrics on a unix socket, as much HTTP as a scraper needs.
//!
//! One request a connection, served by a thread of its own that sleeps in between, so no worker
//! ever waits for a scraper. A slow or silent client is disconnected after two seconds at most. The
//! socket is made with the server and removed with it. A socket that a killed process has left
//! behind is replaced; a socket at which a process listens is not.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thiserror::Error;

use super::{Telemetry, exposition};

/// Why there are no metrics.
#[derive(Debug, Error)]
pub enum MetricsError {
    /// A process answers there.
    #[error("a process serves `{}` already: choose another path for the metrics", .0.display())]
    InUse(PathBuf),
    /// Something else is there.
    #[error("`{}` exists and is no socket: choose another path for the metrics", .0.display())]
    NoSocket(PathBuf),
    /// The system refuses.
    #[error(
        "cannot serve metrics at `{}` ({error}): its directory must exist and be writable, and \
         the path have at most 107 bytes",
        path.display()
    )]
    Io {
        /// The path of the socket.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// Serves the boards of a process until it is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    path: PathBuf,
    /// Device and inode of our socket: the path may have become another's.
    identity: (u64, u64),
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How long a client may be silent, and in how many pieces its request may come: 2 s in all.
const SILENCE: Duration = Duration::from_millis(250);
const PIECES: usize = 8;
/// Bytes taken at once; the head of a request is shorter.
const REQUEST_MAX: usize = 4096;

impl MetricsServer {
    /// Serves `telemetry` at `path`.
    ///
    /// # Errors
    /// [`MetricsError`].
    pub fn start(path: &Path, telemetry: Telemetry) -> Result<Self, MetricsError> {
        let failed = |error| MetricsError::Io { path: path.to_owned(), error };
        let listener = listen(path)?;
        let meta = fs::symlink_metadata(path).map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            for client in listener.incoming() {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                // A client that goes away, or sends nonsense, harms no other.
                let served = client.and_then(|client| serve(client, &telemetry));
                if let Err(error) = served {
                    tracing::debug!(%error, "a scrape failed");
                    // Some errors last, as a lack of descriptors does.
                    thread::sleep(Duration::from_millis(10));
                }
            }
        });
        let thread = Some(thread.map_err(failed)?);
        let identity = (meta.dev(), meta.ino());
        Ok(Self { path: path.to_owned(), identity, stop, thread })
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|meta| (meta.dev(), meta.ino()) == self.identity);
        // The thread waits for a client: this is one. Where the path is gone, it stays asleep and
        // ends with the process.
        if ours && UnixStream::connect(&self.path).is_ok() {
            if let Some(thread) = self.thread.take() {
                drop(thread.join());
            }
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Takes the path, from a dead process too.
fn listen(path: &Path) -> Result<UnixListener, MetricsError> {
    let failed = |error| MetricsError::Io { path: path.to_owned(), error };
    match UnixListener::bind(path) {
        Ok(listener) => return Ok(listener),
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(failed(error)),
        Err(_) => {}
    }
    let kind = fs::symlink_metadata(path).map_err(failed)?.file_type();
    if !kind.is_socket() {
        return Err(MetricsError::NoSocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        _ => return Err(MetricsError::InUse(path.to_owned())),
    }
    fs::remove_file(path).map_err(failed)?;
    UnixListener::bind(path).map_err(failed)
}

/// Answers one request.
fn serve(mut client: UnixStream, telemetry: &Telemetry) -> io::Result<()> {
    client.set_write_timeout(Some(SILENCE))?;
    client.set_read_timeout(Some(SILENCE))?;
    let mut request = Vec::new();
    let mut piece = [0; REQUEST_MAX];
    let is_whole = |request: &[u8]| request.windows(4).any(|end| end == b"\r\n\r\n");
    for _ in 0..PIECES {
        match client.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => request.extend_from_slice(&piece[..length]),
        }
        if is_whole(&request) {
            break;
        }
    }
    if !is_whole(&request) {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut words = request.split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or(b""), words.next().unwrap_or(b""));
    let path = target.split(|byte| *byte == b'?').next().unwrap_or(b"");
    let (status, body) = match (method, path) {
        (b"GET" | b"HEAD", b"/" | b"/metrics") => {
            ("200 OK", exposition(telemetry).map_err(io::Error::other)?)
        }
        (b"GET" | b"HEAD", _) => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET\n".to_owned()),
    };
    let kind = if status.starts_with("200") { OPENMETRICS } else { "text/plain; charset=utf-8" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes())?;
    if method != b"HEAD" {
        client.write_all(body.as_bytes())?;
    }
    Ok(())
}

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// A path of this test's own.
    fn path() -> PathBuf {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        std::env::temp_dir().join(format!("headrace-{}-{number}.sock", std::process::id()))
    }

    fn ask(path: &Path, request: &str) -> String {
        let mut client = UnixStream::connect(path).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_scrape_gets_the_exposition_and_the_socket_goes_with_the_server() {
        let path = path();
        let server = MetricsServer::start(&path, Telemetry::default()).unwrap();
        for target in ["/metrics", "/", "/metrics?name=x"] {
            let answer = ask(&path, &format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains(OPENMETRICS));
            assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
            assert!(body.ends_with("# EOF\n"));
        }
        assert!(ask(&path, "GET /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(ask(&path, "POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(ask(&path, "HEAD / HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        drop(server);
        assert!(!path.exists());
    }

    #[test]
    fn a_client_that_goes_away_does_not_end_the_service() {
        let path = path();
        let _server = MetricsServer::start(&path, Telemetry::default()).unwrap();
        drop(UnixStream::connect(&path).unwrap());
        UnixStream::connect(&path).unwrap().write_all(b"GET").unwrap();
        assert!(ask(&path, "GET / HTTP/1.0\r\n\r\n").contains("200 OK"));
    }

    #[test]
    fn a_dead_socket_is_replaced_a_live_one_and_a_file_are_not() {
        let path = path();
        // Dropping a listener closes it and leaves its path, as a killed process does.
        drop(UnixListener::bind(&path).unwrap());
        let server = MetricsServer::start(&path, Telemetry::default()).unwrap();
        let second = MetricsServer::start(&path, Telemetry::default());
        assert!(matches!(second, Err(MetricsError::InUse(_))), "{second:?}");
        assert!(ask(&path, "GET / HTTP/1.1\r\n\r\n").contains("200 OK"));
        drop(server);
        fs::write(&path, "precious").unwrap();
        let refused = MetricsServer::start(&path, Telemetry::default());
        assert!(matches!(refused, Err(MetricsError::NoSocket(_))), "{refused:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_path_that_cannot_be_is_an_error_with_the_path() {
        let path = Path::new("/nonexistent/headrace.sock");
        let error = MetricsServer::start(path, Telemetry::default()).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/headrace.sock"), "{error}");
    }
}
