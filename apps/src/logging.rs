//! Logs go to standard error: warnings by default, more by `-v`, all by RUST_LOG.

use std::io::IsTerminal as _;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// Starts logging; a second call changes nothing. `verbose` counts the `-v` flags; RUST_LOG wins.
pub(crate) fn start(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Escapes in a log file are noise.
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .with_target(false);
    // Fails when tests in one process start it again, which is fine.
    let _ = subscriber.try_init();
}

/// The flag with which another process logs as much as this one; `None` for warnings alone.
pub(crate) fn flag() -> Option<&'static str> {
    match LevelFilter::current() {
        LevelFilter::TRACE => Some("-vvv"),
        LevelFilter::DEBUG => Some("-vv"),
        LevelFilter::INFO => Some("-v"),
        _ => None,
    }
}
