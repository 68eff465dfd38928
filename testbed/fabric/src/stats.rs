//! Counters of a network while it runs: for each port, in all, and how long its queues were.
//!
//! Bytes are wire bytes. Nothing here allocates after `new`.

use transport::histogram::{Histogram, buckets};
use transport::stats::DropCounts;
use transport::{Duration, Instant};

/// A time in which the data of a port was paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The port's number.
    pub port: u32,
    /// When the port obeyed the pause frame.
    pub from: Instant,
    /// When the port went on; the end of the run where it did not.
    pub until: Instant,
}

/// Counters of one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets that the port transmitted.
    pub hops: u64,
    /// Bytes that the port transmitted.
    pub bytes: u64,
    /// Packets that the port trimmed.
    pub trimmed: u64,
    /// Packets that the port marked.
    pub marked: u64,
    /// Packets that were lost at the port, for any reason.
    pub dropped: u64,
    /// Most data bytes that waited at once; a packet that meets an idle link does not wait.
    pub data_peak: u64,
    /// Pause frames that the port sent, without those that let a link go on.
    pub pauses: u64,
    /// How long its own data class was paused; a pause counts when it is over.
    pub paused: Duration,
}

impl PortStats {
    /// Adds `other`'s counts; the peak is the higher of the two.
    pub(super) fn merge(&mut self, other: &Self) {
        self.hops += other.hops;
        self.bytes += other.bytes;
        self.trimmed += other.trimmed;
        self.marked += other.marked;
        self.dropped += other.dropped;
        self.data_peak = self.data_peak.max(other.data_peak);
        self.pauses += other.pauses;
        self.paused += other.paused;
    }
}

/// Packets of the whole network.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PacketCounts {
    pub(super) hops: u64,
    pub(super) injected: u64,
    pub(super) duplicated: u64,
    pub(super) originated: u64,
    pub(super) consumed: u64,
    pub(super) delivered: u64,
    pub(super) on_wire: u64,
    pub(super) dropped: DropCounts,
}

impl PacketCounts {
    /// Adds the counts of another part.
    pub(super) fn add(&mut self, other: &Self) {
        self.hops += other.hops;
        self.injected += other.injected;
        self.duplicated += other.duplicated;
        self.originated += other.originated;
        self.consumed += other.consumed;
        self.delivered += other.delivered;
        self.on_wire += other.on_wire;
        self.dropped.add(&other.dropped);
    }
}

/// Data backlogs of switch ports in bytes, sampled whenever a data packet leaves: the bytes that it
/// leaves behind.
pub type QueueStats = Eighths;

/// Values of 64 bits, eight buckets an octave: a quantile is at most 1/8 too high. 4 KiB.
pub type Eighths = Histogram<3, { buckets(3, 64) }>;
