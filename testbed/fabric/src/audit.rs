//! The audit of a network: every packet that came in is accounted for.

use core::fmt;

use transport::stats::DropCounts;

/// Counts of packets: how they came in, where they are, and how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketBalance {
    /// Packets that drivers handed in.
    pub injected: u64,
    /// Second copies that faults made.
    pub duplicated: u64,
    /// Packets that switch programs made.
    pub originated: u64,
    /// Packets handed to hosts.
    pub delivered: u64,
    /// Packets that ended at switch programs.
    pub consumed: u64,
    /// Packets lost, by reason.
    pub dropped: DropCounts,
    /// Packets waiting in queues now.
    pub in_queues: u64,
    /// Packets that switch programs hold now.
    pub held: u64,
    /// Packets on links now.
    pub on_wire: u64,
}

/// The counts do not balance, which is a bug of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imbalance {
    /// Injected, duplicated and originated.
    pub came_in: u64,
    /// Delivered, consumed, dropped, queued, held and on links.
    pub accounted: u64,
}

impl fmt::Display for Imbalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { came_in, accounted } = self;
        write!(f, "fabric: {came_in} packets came in but {accounted} are accounted for; ")?;
        write!(f, "this is a bug, please report it with the run's manifest")
    }
}

impl std::error::Error for Imbalance {}

impl PacketBalance {
    /// Packets that are in the network now.
    #[must_use]
    pub const fn inside(&self) -> u64 {
        self.in_queues + self.held + self.on_wire
    }

    /// Whether every packet is accounted for.
    ///
    /// # Errors
    /// Both sums, when they differ.
    pub fn check(&self) -> Result<(), Imbalance> {
        let came_in = self.injected + self.duplicated + self.originated;
        let ended = self.delivered + self.consumed + self.dropped.total();
        let accounted = ended + self.inside();
        if came_in == accounted { Ok(()) } else { Err(Imbalance { came_in, accounted }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_packet_is_found() {
        let books = PacketBalance {
            injected: 5,
            duplicated: 1,
            originated: 2,
            delivered: 3,
            consumed: 1,
            in_queues: 2,
            held: 1,
            ..PacketBalance::default()
        };
        let error = books.check().unwrap_err();
        assert_eq!(error, Imbalance { came_in: 8, accounted: 7 });
        assert_eq!(PacketBalance { on_wire: 1, ..books }.check(), Ok(()));
    }
}
