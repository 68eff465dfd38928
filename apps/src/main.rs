//! The `headrace` program. Everything is in the library, so that tests run it in their own process.

use std::process::ExitCode;

fn main() -> ExitCode {
    headrace::main_of_process()
}
