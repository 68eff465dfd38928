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
    /// The columns of the terminal that shows `out`; `None` where there is none, or its width is
    /// not known.
    pub(crate) out_width: Option<usize>,
    /// Whether a person watches `err`.
    pub(crate) err_is_terminal: bool,
}

impl<'a> Console<'a> {
    /// A console that no person reads.
    pub(crate) fn plain(out: &'a mut dyn Write, err: &'a mut dyn Write) -> Self {
        Self { out, err, out_is_terminal: false, out_width: None, err_is_terminal: false }
    }
}
