//! Events that an endpoint reports to its application.

use core::fmt;

use crate::units::{HostId, MsgId};

/// An event for the application. Each outgoing message ends in exactly one of `Sent` and
/// `Failed`, each incoming one in exactly one of `Delivered` and `Aborted`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// An outgoing message is wholly acknowledged; its memory is the application's again once the
    /// device is done with it.
    Sent {
        /// The message, by the id that `post_send` returned.
        msg: MsgId,
    },
    /// An outgoing message was given up. It may have arrived in part or, if only acknowledgements
    /// were lost, as a whole.
    Failed {
        /// The message, by the id that `post_send` returned.
        msg: MsgId,
        /// The cause of the failure.
        reason: FailReason,
    },
    /// An incoming message is whole; reported once.
    Delivered {
        /// The message, by the id that placements use.
        msg: MsgId,
        /// The sending host.
        from: HostId,
        /// Length, bytes.
        len: u32,
        /// The sender's tag; 0 is none.
        tag: u64,
    },
    /// An incoming message will never be whole: its sender fell silent.
    Aborted {
        /// The message, by the id that placements use.
        msg: MsgId,
        /// The sending host.
        from: HostId,
    },
}

/// Why an outgoing message failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailReason {
    /// The peer acknowledged nothing through all retries.
    PeerSilent,
    /// The peer has forgotten the flow since every byte of the message was sent, or 64 times since
    /// its first byte was: the message may have been delivered.
    PeerForgot,
    /// The peer had no room for the flow or message through all retries.
    PeerFull,
}

impl fmt::Display for FailReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerSilent => f.write_str("the peer acknowledged nothing through all retries"),
            Self::PeerFull => {
                f.write_str("the peer had no room for the flow or message through all retries")
            }
            Self::PeerForgot => {
                f.write_str("the peer has forgotten the flow, and may have delivered the message")
            }
        }
    }
}
