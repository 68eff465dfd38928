//! The program in this process: what one call of the command line leaves.

use std::ffi::OsString;

/// The result of one call: exit code, standard output, standard error.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Calls `headrace` with `args`.
pub(crate) fn headrace(args: &[&str]) -> Ran {
    let args = std::iter::once("headrace").chain(args.iter().copied()).map(OsString::from);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = headrace::main_with(args, &mut out, &mut err);
    Ran { code, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap() }
}
