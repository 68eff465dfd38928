//! The command line inside the process of a test.

/// Runs the command with these arguments: its exit code, its output and its messages.
pub(crate) fn headrace(args: &[&str]) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let line = std::iter::once("headrace").chain(args.iter().copied()).map(Into::into);
    let code = headrace::main_with(line, &mut out, &mut err);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}
