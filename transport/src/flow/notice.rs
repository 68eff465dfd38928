//! A report of one end of a flow about the flow's existence, until the report leaves.

use crate::units::{EntropyValue, FlowId, HostId, Key};
use crate::wire::{Body, Header, Presence};

/// A PRESENCE that waits for the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Notice {
    pub(crate) key: Key,
    pub(crate) to: HostId,
    /// UNKNOWN, FORGOTTEN: the name that the answered packet gave; KEEP: the receiver's name of the
    /// flow; else the sender's.
    pub(crate) flow: FlowId,
    pub(crate) ev: EntropyValue,
    pub(crate) kind: NoticeKind,
}

/// The kind of a notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoticeKind {
    Unknown,
    Forgotten,
    Keep,
    Prove,
    Proof,
    Refused,
}

impl Notice {
    /// The notice as a packet, with `cookie` where its kind has one.
    pub(crate) fn header(&self, cookie: u64) -> Header {
        let (dst_flow, presence) = match self.kind {
            NoticeKind::Unknown => (FlowId::UNKNOWN, Presence::Unknown { named: self.flow }),
            NoticeKind::Forgotten => (FlowId::UNKNOWN, Presence::Forgotten { named: self.flow }),
            NoticeKind::Keep => (self.flow, Presence::Keep),
            NoticeKind::Prove => (self.flow, Presence::Prove { cookie }),
            NoticeKind::Proof => (self.flow, Presence::Proof { cookie }),
            NoticeKind::Refused => (self.flow, Presence::Refused),
        };
        Header::new(self.ev, dst_flow, Body::Presence(presence)).keyed(self.key)
    }
}
