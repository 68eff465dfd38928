//! Counters that a run shows while it goes on.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The sum of the counters of this name, with this label, that a run shows at the socket `metrics`;
/// `None` when it shows none.
#[must_use]
pub fn counted(metrics: &Path, name: &str, label: &str) -> Option<u64> {
    let mut client = UnixStream::connect(metrics).ok()?;
    let mut answer = String::new();
    client.write_all(b"GET /metrics HTTP/1.1\r\nHost: headrace\r\n\r\n").ok()?;
    client.read_to_string(&mut answer).ok()?;
    let lines = answer.lines().filter(|line| line.starts_with(name) && line.contains(label));
    let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    counts.reduce(|sum, count| sum + count)
}
