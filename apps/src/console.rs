//! The streams of a command: results go to `out`, everything else to `err`.

use std::io::Write;

/// The outputs of a command.
pub(crate) struct Console<'a> {
    /// Results and nothing else.
    pub(crate) out: &'a mut dyn Write,
    /// Messages and progress.
    pub(crate) err: &'a mut dyn Write,
    /// Whether a person reads `out`.
    pub(crate) out_is_terminal: bool,
    /// Whether a person watches `err`.
    pub(crate) err_is_terminal: bool,
}
