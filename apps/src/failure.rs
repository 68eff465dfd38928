//! Why a command could not do its work, what it prints then, and its exit code.

use std::io::{self, Write};

use experiments::input::InputError;
use experiments::plan::RunError;

use crate::exit::Exit;
use crate::output::OutputError;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something in a file or a flag is wrong, and where.
    Input(InputError),
    /// The inputs do not fit together.
    Plan(RunError),
    /// The command line is wrong; the text is complete.
    CommandLine(String),
    /// Results could not be written to files.
    Output(OutputError),
    /// The run is over, and its results could not all be written.
    Incomplete(OutputError),
    /// The environment cannot run this; missing things have been printed.
    Unfit(String),
    /// The other process did not answer, or fell silent.
    #[allow(dead_code, reason = "a build without DPDK has no other process")]
    Peer(String),
    /// The user wanted an end before there was a result.
    Interrupted(String),
    /// Standard output or error failed.
    Stream(io::Error),
}

impl Failure {
    /// The code of the process.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Plan(error) => match error.exit_code() {
                1 => Exit::Unfinished,
                3 => Exit::Unfit,
                130 => Exit::Interrupted,
                _ => Exit::BadInput,
            },
            Self::Input(_) | Self::CommandLine(_) => Exit::BadInput,
            Self::Output(error) if error.is_mistake() => Exit::BadInput,
            Self::Output(_) | Self::Incomplete(_) | Self::Unfit(_) => Exit::Unfit,
            Self::Stream(error) if is_full(error) => Exit::Unfit,
            Self::Stream(error) if is_unread(error) => Exit::Unread,
            Self::Peer(_) | Self::Stream(_) => Exit::Unfinished,
            Self::Interrupted(_) => Exit::Interrupted,
        }
    }

    /// Writes the message for the user.
    pub(crate) fn write(&self, err: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Input(error) => writeln!(err, "error: {error}"),
            Self::Plan(error) => writeln!(err, "error: {error}"),
            Self::CommandLine(text) => writeln!(err, "{text}"),
            Self::Unfit(text) | Self::Peer(text) | Self::Interrupted(text) => {
                writeln!(err, "error: {text}")
            }
            Self::Output(error) => writeln!(err, "error: {error}"),
            Self::Incomplete(error) => {
                writeln!(err, "error: {error}")?;
                writeln!(err, "  the run is over; what there was room for is there, as *.part")
            }
            // The reader has ended, as in `headrace list scenarios | head -1`: the rest is not
            // read.
            Self::Stream(error) if is_unread(error) => Ok(()),
            Self::Stream(error) if is_full(error) => {
                writeln!(err, "error: standard output cannot be written: {error}")?;
                writeln!(err, "  help: free some space, or send the output to another disk")
            }
            Self::Stream(error) => writeln!(err, "error: cannot write the result: {error}"),
        }
    }
}

/// Whether a disk has no room.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether the reader of a stream has ended.
fn is_unread(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Self::Input(error)
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        Self::Output(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Stream(error)
    }
}
