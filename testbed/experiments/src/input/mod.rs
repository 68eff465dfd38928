//! Parts shared by all readers of a user's text: the diagnostic, the line tokenizer, spelled
//! quantities, and the suggestion of the nearest known name.
//!
//! Nothing here depends on a file format. No reader that uses these parts panics, whatever the
//! bytes.

pub(crate) mod file;
pub mod nearest;
pub(crate) mod table;
pub mod tokens;

use std::error::Error;
use std::fmt;
use std::io::ErrorKind;

pub use file::is_standard_input;
pub use nearest::{did_you_mean, meant, nearest};
pub use tokens::{LineReader, TextLine, Token};
pub use transport::number;

/// Why an input was refused: where it is, what was found, what was expected, and how to mend it.
///
/// Prints as `incast.cm:3:12: found ..., expected ...` with the help on a line of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputError {
    /// The file as the user named it, or another name of the source such as `command line`.
    pub file: String,
    /// Line, counted from 1; 0 when the error is about the file as a whole.
    pub line: u32,
    /// Column in characters, counted from 1; 0 when the error is about the line as a whole.
    pub column: u32,
    /// The text that was found.
    pub found: String,
    /// The text that would have been accepted.
    pub expected: String,
    /// A hint how to mend the input; empty when `expected` is enough.
    pub help: String,
}

/// Something legal that is probably not meant; printed like an error, the run goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub InputError);

/// A value and where it was written, so that a later check can still point at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Line, from 1; 0 when the value came from no file.
    pub line: u32,
    /// Column in characters, from 1; 0 when the value came from no file.
    pub column: u32,
}

impl InputError {
    /// An error without a place; add one with [`InputError::at`].
    #[must_use]
    pub fn new(found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { found: found.into(), expected: expected.into(), ..Self::default() }
    }

    /// This error at a place; see the fields for what zero means.
    #[must_use]
    pub fn at(mut self, file: &str, line: u32, column: u32) -> Self {
        file.clone_into(&mut self.file);
        (self.line, self.column) = (line, column);
        self
    }

    /// This error with advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }

    /// A file that could not be opened or read.
    #[must_use]
    pub fn io(file: &str, error: &std::io::Error) -> Self {
        // Errors of decoders have one of their own inside; those of the standard library do not.
        // Files that may be compressed are read as bytes, so what is no text here is none of them.
        let help = match (error.kind(), error.get_ref().is_some()) {
            (ErrorKind::InvalidData, false) => {
                let found = "bytes that are no text in UTF-8";
                let help = "name a file of text, or save it as UTF-8";
                return Self::new(found, "text").at(file, 0, 0).help(help);
            }
            (ErrorKind::IsADirectory, _) => {
                "name a file: of a directory of results, its manifest.json"
            }
            (ErrorKind::UnexpectedEof, _) | (_, true) => {
                "the file is cut short or damaged: copy or compress it once more"
            }
            _ => "check the path and the permissions",
        };
        Self::new(format!("an unreadable file ({error})"), "a readable file")
            .at(file, 0, 0)
            .help(help)
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, &self.file, self.line, self.column)?;
        write_body(f, self)
    }
}

impl Error for InputError {}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, &self.0.file, self.0.line, self.0.column)?;
        f.write_str("warning: ")?;
        write_body(f, &self.0)
    }
}

fn write_place(f: &mut fmt::Formatter<'_>, file: &str, line: u32, column: u32) -> fmt::Result {
    match (line, column) {
        (0, _) => write!(f, "{file}: "),
        (line, 0) => write!(f, "{file}:{line}: "),
        (line, column) => write!(f, "{file}:{line}:{column}: "),
    }
}

fn write_body(f: &mut fmt::Formatter<'_>, error: &InputError) -> fmt::Result {
    write!(f, "found {}, expected {}", error.found, error.expected)?;
    if !error.help.is_empty() {
        write!(f, "\n  help: {}", error.help)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_text_damaged_or_out_of_reach_is_said_to_be_so() {
        use std::io::{Error, Read as _};
        let mut text = String::new();
        let binary = (&[b'a', 0xff][..]).read_to_string(&mut text).unwrap_err();
        let damaged = Error::new(ErrorKind::InvalidInput, "corrupt deflate stream");
        let missing = std::fs::File::open("/nowhere/at/all").unwrap_err();
        for (error, words) in [
            (binary, ["found bytes that are no text in UTF-8, expected text", "save it as UTF-8"]),
            (damaged, ["a.cm: found an unreadable file (corrupt", "cut short or damaged"]),
            (ErrorKind::UnexpectedEof.into(), ["unreadable file", "cut short or damaged"]),
            (missing, ["unreadable file (No such file", "check the path"]),
        ] {
            let said = InputError::io("a.cm", &error).to_string();
            words.iter().for_each(|word| assert!(said.contains(word), "{word}: {said}"));
            // Compression is spoken of where there is some.
            assert_eq!(said.contains("compress"), said.contains("damaged"), "{said}");
        }
    }

    #[test]
    fn an_error_names_place_finding_expectation_and_cure() {
        let error = InputError::new("host 16", "a host in 0..=15")
            .at("incast.cm", 3, 12)
            .help("raise Nodes");
        assert_eq!(
            error.to_string(),
            "incast.cm:3:12: found host 16, expected a host in 0..=15\n  help: raise Nodes"
        );
        assert!(error.clone().at("x.cm", 3, 0).to_string().starts_with("x.cm:3: found"));
        assert!(Warning(error).to_string().contains("3:12: warning: found"));
    }
}
