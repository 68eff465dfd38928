//! Counters of one endpoint, and why a packet was dropped.

use crate::wire::class::TrafficClass;
use crate::wire::{ExtRefusal, ParseError};

/// Declares a structure of counters, each of which has a name and a text for reports: `COUNTERS`
/// and `values`, in the order of declaration, and `add`. Fields behind `and` have types with an
/// `add` of their own and are reported separately.
#[macro_export]
macro_rules! counters {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[doc = $doc:literal])+ pub $field:ident: u64,)+
        }
        $(and { $($(#[doc = $other_doc:literal])+ pub $other:ident: $type:ty,)+ })?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: u64,)+
            $($($(#[doc = $other_doc])+ pub $other: $type,)+)?
        }

        impl $name {
            /// Name and meaning of each counter, in the order of declaration.
            pub const COUNTERS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($field), concat!($($doc),+))),+];

            /// The counters, in the order of [`Self::COUNTERS`].
            #[must_use]
            pub const fn values(&self) -> [u64; Self::COUNTERS.len()] {
                [$(self.$field),+]
            }

            /// The structure with these counters, in the order of [`Self::COUNTERS`]; fields behind
            /// `and` are empty.
            #[must_use]
            pub fn from_values(values: [u64; Self::COUNTERS.len()]) -> Self {
                let [$($field),+] = values;
                Self { $($field,)+ $($($other: Default::default(),)+)? }
            }

            /// Adds `other` to these; a sum beyond the greatest number is that number, since
            /// `other` may be the count of another process.
            pub fn add(&mut self, other: &Self) {
                $(self.$field = self.$field.saturating_add(other.$field);)+
                $($(self.$other.add(&other.$other);)+)?
            }
        }
    };
}

macro_rules! reasons {
    ($($(#[$meta:meta])* $variant:ident => $name:literal),+ $(,)?) => {
        /// Why a packet did not go on. One variant, one counter, printed everywhere.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum DropReason { $($(#[$meta])* $variant),+ }

        impl DropReason {
            /// Every reason, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The reason's name in reports and results, snake case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }
    };
}

reasons! {
    /// A data queue was full and the packet could not be trimmed.
    DataQueueFull => "data_queue_full",
    /// The control queue was full: a control packet, or a header that trimming left.
    ControlQueueFull => "control_queue_full",
    /// The queue of answers to probes was full.
    ProbeAckQueueFull => "probe_ack_queue_full",
    /// The queue of probes was full; such drops may be intended and no loss of data.
    ProbeQueueFull => "probe_queue_full",
    /// There was no room for a copy that leaves ahead of its turn; its segment still waits for it.
    UnscheduledQueueFull => "unscheduled_queue_full",
    /// A cell, or a packet between cells, met another in a switch without buffers, though all
    /// clocks keep within the guard: a bug.
    Collision => "collision",
    /// A cell, or a packet between cells, met another in a switch without buffers, where clocks may
    /// be off by more than the guard.
    ClockCollision => "clock_collision",
    /// A cell that left without a grant met another packet in a switch without buffers; expected,
    /// and no loss of data: it is sent again as granted.
    Optimistic => "optimistic",
    /// Independent random loss of a fault schedule.
    RandomLoss => "random_loss",
    /// Correlated loss of a fault schedule: `burst-loss` or `block-loss`.
    BurstLoss => "burst_loss",
    /// The packet left on a link that was down, or was on the link when the link went down.
    LinkDown => "link_down",
    /// The destination is not a host of the network.
    NoRoute => "no_route",
    /// Damaged on the way: the UDP checksum does not match.
    Corrupt => "corrupt",
    /// Shorter than its header.
    Truncated => "truncated",
    /// The frame is not UDP in IPv4 or IPv6.
    NotHeadrace => "not_headrace",
    /// UDP to another port than ours: another protocol's, or of a peer that is set to another one.
    OtherPort => "other_port",
    /// No bytes, another wire version, an unknown kind or a field out of range.
    Malformed => "malformed",
    /// Addressed to another host, or from or to an address of no known host.
    WrongHost => "wrong_host",
    /// Names a flow that is not here (closed, forged, or another's).
    UnknownFlow => "unknown_flow",
    /// Names a flow that is here without its key: forged, or of a process that was here before.
    WrongKey => "wrong_key",
    /// Opens a flow while many are unproven: its sender has to prove its address first, and is
    /// asked for that as far as questions may leave.
    Unproven => "unproven",
    /// The sending host has as many flows, messages or bytes here as allowed.
    PeerShare => "peer_share",
    /// The hosts of the sender's address prefix have as many flows, messages or bytes as allowed.
    GroupShare => "group_share",
    /// A PSN further ahead than the receive window.
    PsnOutOfWindow => "psn_out_of_window",
    /// Contradicts what is known: an offset, length or number of a message, or an answer that a
    /// scheduler does not wait for.
    BadSegment => "bad_segment",
    /// The endpoint has no room for another incoming flow or message.
    TableFull => "table_full",
    /// There is no buffer to receive into, or for a switch's copy of a packet that it writes
    /// telemetry into.
    NoBuffer => "no_buffer",
    /// The device took no more for too long.
    DeviceStuck => "device_stuck",
    /// Sealed, at a host without keys: set up this host as its peer (`--security`).
    Sealed => "sealed",
    /// The packet has no seal, and this host has keys: its sender has none, or forges.
    Unsealed => "unsealed",
    /// Sealed with another key, damaged or forged: the tag does not match.
    BadTag => "bad_tag",
    /// Sealed with a shared key whose number is not in this host's file.
    UnknownKey => "unknown_key",
    /// Sealed and received before, or too far behind what has been received.
    Replayed => "replayed",
    /// The seal's start is before this host's or far ahead of its clock: sent again by another
    /// host, or clocks of hosts are not set.
    StaleSeal => "stale_seal",
    /// Sealed under a derived key that is not at hand, beyond the number of such frames that are
    /// tried: forged ones, or very many flows that open at once.
    SealFlood => "seal_flood",
    /// Trimmed, so without a tag, and of a flow that is not here: not accepted at a host with keys.
    TrimmedStranger => "trimmed_stranger",
}

impl DropReason {
    /// The reason of a drop where the queue of `class` had no room.
    #[must_use]
    pub const fn queue_full(class: TrafficClass) -> Self {
        match class {
            TrafficClass::Data => Self::DataQueueFull,
            TrafficClass::Unscheduled => Self::UnscheduledQueueFull,
            TrafficClass::Trimmed | TrafficClass::Control => Self::ControlQueueFull,
            TrafficClass::ProbeAck => Self::ProbeAckQueueFull,
            TrafficClass::Probe => Self::ProbeQueueFull,
        }
    }
}

impl From<ParseError> for DropReason {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Truncated => Self::Truncated,
            ParseError::NotHeadrace => Self::NotHeadrace,
            ParseError::Port => Self::OtherPort,
            ParseError::Checksum => Self::Corrupt,
            ParseError::Address => Self::WrongHost,
            ParseError::Sealed => Self::Sealed,
            ParseError::Version | ParseError::Kind | ParseError::Field => Self::Malformed,
        }
    }
}

/// One counter per [`DropReason`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DropCounts {
    by_reason: [u64; DropReason::ALL.len()],
    /// The sum of `by_reason`, which a worker asks for in every turn that received something.
    total: u64,
}

impl Default for DropCounts {
    fn default() -> Self {
        Self { by_reason: [0; DropReason::ALL.len()], total: 0 }
    }
}

impl DropCounts {
    /// Counts one drop.
    pub fn count(&mut self, reason: DropReason) {
        self.count_many(reason, 1);
    }

    /// Counts `count` drops.
    pub fn count_many(&mut self, reason: DropReason, count: u64) {
        self.by_reason[reason as usize] += count;
        self.total += count;
    }

    /// The number of drops for `reason`.
    #[must_use]
    pub fn of(&self, reason: DropReason) -> u64 {
        self.by_reason[reason as usize]
    }

    /// The number of all drops.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Every reason with its count, in the order of declaration.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.iter().map(|&reason| (reason, self.of(reason)))
    }

    /// Adds `other` to these; a sum beyond the greatest number is that number.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.by_reason.iter_mut().zip(other.by_reason) {
            *mine = mine.saturating_add(theirs);
        }
        self.total = self.total.saturating_add(other.total);
    }
}

counters! {
    /// SIMs and their answers at one host.
    pub struct SimCounts {
        /// SIMs sent.
        pub sent: u64,
        /// SIM-ACKs that came in time, each of which let a DATA leave, was `wasted` or `unused`.
        pub acked: u64,
        /// SIM-ACKs that came when their SIM had been given up, or a second time.
        pub late: u64,
        /// SIMs that nothing answered in time.
        pub timed_out: u64,
        /// SIM-ACKs that found no DATA waiting, or none of whose DATAs was to be sent any more.
        pub wasted: u64,
        /// SIM-ACKs of which no use was made, so that queues of DATA drain.
        pub unused: u64,
        /// SIM-ACKs that answer nothing that was sent.
        pub forged: u64,
        /// SIM-ACKs sent.
        pub answered: u64,
        /// SIMs that went unanswered, since too many SIM-ACKs waited.
        pub unanswered: u64,
    }
}

counters! {
    /// Counters of one endpoint. Packets unless said otherwise.
    pub struct Stats {
        /// DATA sent for the first time.
        pub data_new: u64,
        /// DATA sent as copies: early, before the turn in which the segment itself is sent.
        pub copies: u64,
        /// DATA and PARITY sent again.
        pub retransmitted: u64,
        /// DATA sent again to probe silences of flows that follow border switches; part of
        /// `retransmitted`.
        pub probes: u64,
        /// PARITY sent for the first time.
        pub parity_new: u64,
        /// Blocks that `ec=auto` coded.
        pub ec_auto_coded: u64,
        /// Blocks that `ec=auto` did not code though links were found to lose segments: too few, or
        /// long ago, or queues lost as many, or the block is long before the end of its message.
        pub ec_auto_uncoded: u64,
        /// Payload bytes of `data_new`.
        pub data_new_bytes: u64,
        /// ACKs sent.
        pub acks_sent: u64,
        /// NACKs sent.
        pub nacks_sent: u64,
        /// BLOCK_NACKs sent.
        pub block_nacks_sent: u64,
        /// DATA received with payload and placed.
        pub data_placed: u64,
        /// DATA and PARITY received for the first time after a later one of its flow.
        pub reordered: u64,
        /// Payload bytes placed or restored: each byte of a message once.
        pub data_placed_bytes: u64,
        /// Segments restored from parity.
        pub restored: u64,
        /// PARITY received for a block that is not whole yet.
        pub parity_kept: u64,
        /// PARITY received for a block that is whole.
        pub parity_unneeded: u64,
        /// DATA received that had been received, or restored, before.
        pub duplicates: u64,
        /// Outgoing flows opened anew because their receiver had forgotten them.
        pub flows_reopened: u64,
        /// Incoming flows at rest that were forgotten to make room for others.
        pub flows_evicted: u64,
        /// DATA and PARITY received without payload.
        pub trimmed: u64,
        /// ACKs received for a flow that is here.
        pub acks_received: u64,
        /// ACKs received that report CE.
        pub ecn_echoes: u64,
        /// NACKs received for a flow that is here.
        pub nacks_received: u64,
        /// BLOCK_NACKs received for a flow that is here.
        pub block_nacks_received: u64,
        /// Packets declared lost because a receiver asked for what their block lacks.
        pub lost_by_block: u64,
        /// Segments declared lost because later ones were acknowledged.
        pub lost_by_sack: u64,
        /// Segments declared lost by silence.
        pub lost_by_timeout: u64,
        /// Segments declared lost that had arrived after all.
        pub spurious: u64,
        /// Acknowledgements discarded unsent because the device took none for too long.
        pub acks_discarded: u64,
        /// Answers to senders without a proven address that were not sent: too many were due.
        pub answers_withheld: u64,
        /// Packets of the scheduler's own protocol sent.
        pub control_sent: u64,
        /// Packets of the scheduler's own protocol received that were for it.
        pub control_received: u64,
        /// NOTEs received for the controller of a flow, used or dropped: switches send these.
        pub switch_notes: u64,
        /// Telemetry of switches refused: time or counters of a port run backwards or stand still,
        /// or more hops than a path has. Packets were overtaken, a switch began anew, a flow rested
        /// for more than 2.15 s (times wrap after 4.29 s), or telemetry is forged.
        pub int_refused: u64,
        /// Advice that senders refuse: a rate of zero. What border switches drop is
        /// `mlcc.advice_refused` of summary.json.
        pub advice_refused: u64,
        /// Messages delivered.
        pub messages_delivered: u64,
        /// Messages wholly acknowledged.
        pub messages_sent: u64,
        /// Messages given up.
        pub messages_failed: u64,
    }
    and {
        /// Received packets dropped, by reason.
        pub drops: DropCounts,
    }
}

impl Stats {
    /// Counts what a controller, or its half, refuses of a packet's extensions. Notes are not
    /// counted here, since they are dropped.
    #[inline]
    pub(crate) fn refuse(&mut self, refusal: Option<ExtRefusal>) {
        match refusal {
            Some(ExtRefusal::Int) => self.int_refused += 1,
            Some(ExtRefusal::Advice) => self.advice_refused += 1,
            Some(ExtRefusal::Note) | None => {}
        }
    }

    /// Packets received and not dropped: those of flows that are here, under their keys, whichever
    /// host sent them, and those of the scheduler's own protocol.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        let data = self.data_placed + self.duplicates + self.trimmed;
        let parity = self.parity_kept + self.parity_unneeded;
        let answers = self.acks_received + self.nacks_received + self.block_nacks_received;
        data + parity + answers + self.control_received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_its_name_its_value_and_its_sum() {
        let mut sum = Stats { data_new: 1, messages_failed: 2, ..Stats::default() };
        sum.drops.count(DropReason::Corrupt);
        let once = sum;
        sum.add(&once);
        let named = |stats: &Stats, name: &str| {
            let at = Stats::COUNTERS.iter().position(|(known, _)| *known == name);
            at.map(|at| stats.values()[at])
        };
        assert_eq!((named(&sum, "data_new"), named(&sum, "messages_failed")), (Some(2), Some(4)));
        assert_eq!(sum.values().iter().sum::<u64>(), 6);
        assert_eq!(sum.drops.of(DropReason::Corrupt), 2);
        assert_eq!(Stats::COUNTERS[0].1.trim(), "DATA sent for the first time.");
    }

    #[test]
    fn a_sum_beyond_the_greatest_number_is_that_number() {
        let mut sum = Stats::from_values([u64::MAX; Stats::COUNTERS.len()]);
        sum.drops.count_many(DropReason::Corrupt, u64::MAX);
        let once = sum;
        sum.add(&once);
        assert_eq!(sum, once);
    }
}
