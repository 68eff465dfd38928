//! Recordings of all inputs of an endpoint, from which a run can be repeated.
//!
//! A [`Recorder`] stands before an endpoint and, when switched on, writes every input in order
//! with a digest of what the endpoint answered. [`replay()`] builds the endpoint anew and feeds it
//! the same inputs: since the core has no other source of time or chance, every answer must be the
//! same bit for bit. Recording is part of the core because replaying needs no device: a recording
//! made by a DPDK run is replayed by a build without DPDK. It writes bytes, not files.
//!
//! Layout, little-endian: `HRREC` and the format's version, 8 octets; host, 4; name of the random
//! stream, 8; number of words of the configuration, 4; the words, 8 each; digest, 8. Then calls: a
//! kind octet, the call's input, 4 octets of the digest with the input, and 8 of the digest with
//! the answer too. The digest runs through all calls, so every changed octet is found: damage is
//! found before it reaches the endpoint, and a replay names the first call whose answer differs.
//! The last call marks the end and has the number of calls, so a recording that was cut short is
//! found, too.

mod call;
mod reader;
mod replay;
mod settings;
mod tape;

pub use call::CallKind;
pub use replay::{ReplayError, ReplayReport, replay};
pub use tape::Recorder;

/// The format that this code writes, and the only one it reads.
pub const FORMAT: [u8; 8] = *b"HRREC\0\0\x02";

/// Why bytes are not a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FormatError {
    /// The first octets are not those of a recording, or those of another version.
    NotARecording,
    /// The bytes end within the call that starts at this octet.
    Truncated(usize),
    /// The octets from this one on are not what was written.
    Malformed(usize),
    /// The configuration has other settings than this version's, or illegal ones.
    Configuration,
    /// Octets follow the end, from this one on.
    Trailing(usize),
}

impl core::fmt::Display for FormatError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotARecording => {
                f.write_str("not a recording: expected HRREC version 2; record again")
            }
            Self::Truncated(at) => {
                write!(f, "the recording ends within the call at octet {at}: it was cut short")
            }
            Self::Malformed(at) => {
                write!(f, "the call at octet {at} is damaged: copy the recording again")
            }
            Self::Configuration => f.write_str(
                "another version's configuration: replay with the version that recorded",
            ),
            Self::Trailing(at) => write!(f, "octets follow the end, from octet {at} on"),
        }
    }
}

impl core::error::Error for FormatError {}

#[cfg(test)]
mod tests;
