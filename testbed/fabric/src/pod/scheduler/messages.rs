//! Requests of hosts and Cores to the scheduler, and its answers, as plain data.
//! Source: \[zeropod\] III-A, IV-B1, IV-E.

use crate::pod::demands::To;

/// An end that sends requests to the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Client {
    /// A host of the pod.
    Host(u16),
    /// A Core's port in the pod.
    Core(u16),
}

/// A request to send (RTS). Totals instead of differences, so that the next one makes up for one
/// that was lost.
#[derive(Clone, Copy, Debug)]
pub struct Rts<'a> {
    /// The sender.
    pub from: Client,
    /// The pod for which the request is meant.
    pub pod: u16,
    /// The term of the scheduler for which it is meant.
    pub term: u32,
    /// The epoch in which the request was sent.
    pub epoch: u64,
    /// Totals asked for so far, by demand. Demands without an entry stay as they are.
    pub updates: &'a [Update],
    /// The demands with the shortest flows. They replace those of the sender's last RTS.
    pub mice: &'a [Mouse],
    /// Pods for which a Core takes no more cells, a bit each; 0 from hosts.
    pub paused: u32,
    /// An earlier epoch of which cells arrived here.
    pub arrived: Option<u64>,
    /// An earlier epoch in which the sender sent cells, as it was granted, and of which it got no
    /// receipt.
    pub lost: Option<u64>,
}

/// One demand's total.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Update {
    /// The receiver.
    pub to: To,
    /// Bytes asked for since the term began, modulo 2^32.
    pub total: u32,
}

/// One demand's shortest flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mouse {
    /// The receiver.
    pub to: To,
    /// The bytes of the flow.
    pub bytes: u32,
}

/// An answer (SCHD): a client may send in an epoch, by a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The client that may send.
    pub client: Client,
    /// The term of the scheduler that answers.
    pub term: u32,
    /// The epoch in which to send, the first of `epochs`.
    pub epoch: u64,
    /// The receiver.
    pub to: To,
    /// The Agg of the route.
    pub agg: u8,
    /// The Core of a route that leaves the pod.
    pub core: Option<u16>,
    /// Cells that are granted in each epoch, at least 1; the epoch's others stay free.
    pub cells: u16,
    /// Epochs in a row that are granted, 1 to [`RUN_MAX`](super::RUN_MAX).
    pub epochs: u16,
    /// Bytes granted to this demand since the term began, these among them, modulo 2^32.
    pub total: u32,
    /// Only mice may be sent: the Core carries nothing else.
    pub mice_only: bool,
}

/// Why a request, or a part of one, was refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Refused {
    /// The sender is no host or Core of the pod.
    UnknownSender,
    /// The request is for another pod.
    ForeignPod,
    /// The request is for an older term.
    OldTerm,
    /// The request is for a term that has not begun.
    FutureTerm,
    /// The request is from an epoch that is too long ago.
    PastEpoch,
    /// The request is from an epoch that has not begun.
    FutureEpoch,
    /// A request of this epoch, or of a later one, has been handled already.
    Repeated,
    /// The receiver of a demand does not exist or is the sender itself.
    UnknownReceiver,
    /// A total that went back, or forward by 2^31 or more.
    TotalJump,
    /// A total beyond what may wait. The part that fits counts.
    BeyondBacklog,
    /// More mice, or more updates, than a request has room for. The first ones count.
    TooMany,
    /// A receipt, or the lack of one, for an epoch whose decision is not kept, or that granted no
    /// such cells to or from its sender.
    UnknownReceipt,
    /// A packet to the scheduler that is no request. Drivers count it.
    Malformed,
    /// A request in the name of a host that is not its sender. Drivers count it.
    ForgedSender,
    /// A request beyond those of its sender that may wait. Drivers count it.
    TooManyWaiting,
    /// A request to a scheduler that has restarted and does not serve yet. Drivers count it.
    StandingBy,
}

impl Refused {
    /// All reasons.
    pub const ALL: &'static [Self] = &[
        Self::UnknownSender,
        Self::ForeignPod,
        Self::OldTerm,
        Self::FutureTerm,
        Self::PastEpoch,
        Self::FutureEpoch,
        Self::Repeated,
        Self::UnknownReceiver,
        Self::TotalJump,
        Self::BeyondBacklog,
        Self::TooMany,
        Self::UnknownReceipt,
        Self::Malformed,
        Self::ForgedSender,
        Self::TooManyWaiting,
        Self::StandingBy,
    ];

    /// The name of its counter.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownSender => "unknown_sender",
            Self::ForeignPod => "foreign_pod",
            Self::OldTerm => "old_term",
            Self::FutureTerm => "future_term",
            Self::PastEpoch => "past_epoch",
            Self::FutureEpoch => "future_epoch",
            Self::Repeated => "repeated",
            Self::UnknownReceiver => "unknown_receiver",
            Self::TotalJump => "total_jump",
            Self::BeyondBacklog => "beyond_backlog",
            Self::TooMany => "too_many",
            Self::UnknownReceipt => "unknown_receipt",
            Self::Malformed => "malformed",
            Self::ForgedSender => "forged_sender",
            Self::TooManyWaiting => "too_many_waiting",
            Self::StandingBy => "standing_by",
        }
    }
}

/// The counters of a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Epochs decided.
    pub epochs: u64,
    /// Grants.
    pub grants: u64,
    /// Bytes asked for.
    pub asked_bytes: u64,
    /// Bytes granted.
    pub granted_bytes: u64,
    /// Times that a link was accused.
    pub accused: u64,
    refused: [u64; Refused::ALL.len()],
}

impl Counters {
    /// How often something was refused for a reason.
    #[must_use]
    pub const fn refused(&self, why: Refused) -> u64 {
        self.refused[why as usize]
    }

    /// How often something was refused, for all reasons.
    #[must_use]
    pub fn refused_in_all(&self) -> u64 {
        self.refused.iter().sum()
    }

    pub(in crate::pod) const fn refuse(&mut self, why: Refused) {
        self.refused[why as usize] += 1;
    }
}
