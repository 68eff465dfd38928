//! The books of a network: every packet that came in is somewhere.

use core::fmt;

use transport::stats::DropCounts;

/// Where all packets are, counted from both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Packets that drivers handed in.
    pub injected: u64,
    /// Second copies that faults made.
    pub duplicated: u64,
    /// Packets handed to hosts.
    pub delivered: u64,
    /// Packets lost, by reason.
    pub dropped: DropCounts,
    /// Packets waiting in queues now.
    pub in_queues: u64,
    /// Packets on links now.
    pub on_wire: u64,
}

/// The books do not balance: a bug of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imbalance {
    /// Injected and duplicated.
    pub came_in: u64,
    /// Delivered, dropped, queued and on links.
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

impl Audit {
    /// Whether every packet is accounted for.
    ///
    /// # Errors
    /// Both sums, when they differ.
    pub fn check(&self) -> Result<(), Imbalance> {
        let came_in = self.injected + self.duplicated;
        let accounted = self.delivered + self.dropped.total() + self.in_queues + self.on_wire;
        if came_in == accounted { Ok(()) } else { Err(Imbalance { came_in, accounted }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_packet_is_found() {
        let books =
            Audit { injected: 5, duplicated: 1, delivered: 3, in_queues: 2, ..Audit::default() };
        let error = books.check().unwrap_err();
        assert_eq!(error, Imbalance { came_in: 6, accounted: 5 });
        assert_eq!(Audit { on_wire: 1, ..books }.check(), Ok(()));
    }
}
