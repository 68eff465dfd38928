//! Ctrl-C: the first one asks the run to end with its results so far, the second one ends the
//! process. A command that has no results to keep ends at the first one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Exit;

static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Takes over SIGINT and SIGTERM. Without it they end the process at once.
pub(crate) fn catch() {
    let requested = Arc::clone(REQUESTED.get_or_init(Arc::default));
    for signal in [SIGINT, SIGTERM] {
        let code = i32::from(Exit::Interrupted.code());
        // The order matters: the second signal finds the flag set and ends the process.
        let registered = flag::register_conditional_shutdown(signal, code, Arc::clone(&requested))
            .and_then(|_| flag::register(signal, Arc::clone(&requested)));
        if let Err(error) = registered {
            tracing::debug!("signal {signal} keeps its default action: {error}");
        }
    }
}

/// Lets the next signal end the process, since no code checks for signals any more.
pub(crate) fn end_at_once() {
    if let Some(requested) = REQUESTED.get() {
        requested.store(true, Ordering::Relaxed);
    }
}

/// Whether the user asked to stop.
pub(crate) fn requested() -> bool {
    REQUESTED.get().is_some_and(|requested| requested.load(Ordering::Relaxed))
}
