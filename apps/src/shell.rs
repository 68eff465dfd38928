//! Completions for shells and manual pages, made from the definition of the command line.

use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::Cli;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{OutDir, OutputError};

/// Prints the completions of `shell`.
///
/// # Errors
/// When standard output fails.
pub(crate) fn completions(shell: Shell, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    // The generator panics where it cannot write, so it writes to memory.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    console.out.write_all(&text)?;
    Ok(Exit::Finished)
}

/// Writes a page of section 1 for each command to the directory `to`.
///
/// # Errors
/// When a page cannot be written.
pub(crate) fn man(to: &Path, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let dir = OutDir::create(to)?;
    let pages = write_pages(command, &dir)?;
    writeln!(console.err, "{pages} pages are in {}", to.display())?;
    Ok(Exit::Finished)
}

/// Writes the page of `command` and those of its subcommands; returns how many.
fn write_pages(command: Command, dir: &OutDir) -> Result<usize, OutputError> {
    let mut pages = 1;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let name = format!("{}-{}", command.get_name(), sub.get_name());
        pages += write_pages(sub.clone().name(name), dir)?;
    }
    let file = format!("{}.1", command.get_name());
    dir.write(&file, |out| Man::new(command).render(out))?;
    Ok(pages)
}
