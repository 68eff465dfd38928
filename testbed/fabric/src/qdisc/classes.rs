//! FIFOs with a limit each, in strict order of priority: what disciplines are made of.
//!
//! Source: \[smartt\] sec. III: each port has a high-priority queue for control packets such as
//! trims and acknowledgements, and a lower-priority queue for data. Which classes share a FIFO is
//! the discipline's choice; the lowest FIFO holds data, and a pause of the link holds it back.
//! Not registered by itself: it neither marks nor trims. Units: bytes on the wire.

use std::collections::VecDeque;

use transport::{Bytes, DropReason, Instant};

use super::{LinkState, QdiscParams, Queued, Service};
use crate::packet::Packet;

/// FIFOs by priority, lowest first.
#[derive(Clone, Debug)]
pub struct Classes<const N: usize> {
    fifos: [Fifo; N],
    /// Whether the link's data class is paused.
    paused: bool,
}

/// A FIFO for data and one, with priority over it, for every other class.
pub type DataAndControl = Classes<2>;

/// The data FIFO of any [`Classes`].
const DATA: usize = 0;

/// Packets in the order of arrival. The ring grows to the largest backlog it has had, never beyond
/// `limit`.
#[derive(Clone, Debug)]
struct Fifo {
    packets: VecDeque<Packet>,
    /// Bytes queued, 0 ..= limit.
    bytes: u64,
    limit: u64,
}

impl DataAndControl {
    /// Two empty FIFOs with the limits of `params`.
    #[must_use]
    pub fn for_params(params: &QdiscParams) -> Self {
        Self::new([params.data_limit, params.control_limit])
    }

    /// Queues `packet` in the FIFO of its class.
    ///
    /// # Errors
    /// The reason when that FIFO has no room; nothing is queued then.
    #[inline]
    pub fn push(&mut self, packet: Packet) -> Result<(), DropReason> {
        self.push_to(usize::from(!packet.is_data()), packet)
    }

    /// `Qdisc::service`: what is within the limits of both FIFOs passes.
    #[must_use]
    pub fn service(&self) -> Service {
        let limit = self.fifos.iter().map(|fifo| fifo.limit).min();
        Service { work_conserving: true, passes: Bytes(limit.unwrap_or(0)), cell: None }
    }

    /// `Qdisc::passes`: a packet within the limit of its FIFO that meets empty queues leaves as it
    /// came, unless a pause holds it back. Nothing is left behind it, so nothing could mark it.
    #[inline]
    #[must_use]
    pub fn passes(&self, packet: &Packet, _now: Instant) -> bool {
        let fifo = &self.fifos[usize::from(!packet.is_data())];
        packet.wire_bytes() <= fifo.limit && !(self.paused && packet.is_data())
    }
}

impl<const N: usize> Classes<N> {
    /// Empty FIFOs with these limits, that of the lowest priority, data, first.
    #[must_use]
    pub fn new(limits: [Bytes; N]) -> Self {
        Self { fifos: limits.map(Fifo::new), paused: false }
    }

    /// Queues `packet` in FIFO `at`.
    ///
    /// # Errors
    /// The reason when that FIFO has no room; nothing is queued then.
    #[inline]
    pub fn push_to(&mut self, at: usize, packet: Packet) -> Result<(), DropReason> {
        self.fifos[at].push(packet).ok_or_else(|| DropReason::queue_full(packet.class()))
    }

    /// The next packet that may leave: the highest priority that waits, first in first out within
    /// it. Data waits while it is paused.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        for fifo in self.fifos[DATA + 1..].iter_mut().rev() {
            if let Some(packet) = fifo.pop() {
                return Some(packet);
            }
        }
        if self.paused { None } else { self.fifos[DATA].pop() }
    }

    /// `Qdisc::ready_at` of a discipline that sends whenever [`Classes::pop`] gives something.
    #[inline]
    #[must_use]
    pub fn ready_at(&self) -> Instant {
        let first = if self.paused { DATA + 1 } else { DATA };
        let waits = self.fifos[first..].iter().any(|fifo| fifo.bytes > 0);
        if waits { Instant::ZERO } else { Instant::FAR_FUTURE }
    }

    /// Holds data back, or lets it go again.
    pub const fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// `Qdisc::set_link` of a discipline to which only pauses matter.
    pub const fn set_link(&mut self, link: LinkState, _now: Instant) {
        self.paused = link.paused;
    }

    /// Data bytes queued.
    #[inline]
    #[must_use]
    pub const fn data_bytes(&self) -> u64 {
        self.fifos[DATA].bytes
    }

    /// The packets that wait in all FIFOs.
    #[inline]
    #[must_use]
    pub fn queued(&self) -> Queued {
        let data = &self.fifos[DATA];
        let mut queued = Queued {
            data_bytes: data.bytes,
            data_packets: data.packets.len(),
            ..Queued::default()
        };
        for fifo in &self.fifos[DATA + 1..] {
            queued.control_bytes += fifo.bytes;
            queued.control_packets += fifo.packets.len();
        }
        queued
    }
}

impl Fifo {
    const fn new(limit: Bytes) -> Self {
        Self { packets: VecDeque::new(), bytes: 0, limit: limit.0 }
    }

    #[inline]
    fn push(&mut self, packet: Packet) -> Option<()> {
        let bytes = self.bytes + packet.wire_bytes();
        if bytes > self.limit {
            return None;
        }
        self.bytes = bytes;
        self.packets.push_back(packet);
        Some(())
    }

    #[inline]
    fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.wire_bytes();
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use transport::HostId;
    use transport::wire::class::TrafficClass;

    use super::*;
    use crate::packet::Flags;

    fn packet(handle: u32, class: TrafficClass) -> Packet {
        let flags = Flags::of(class);
        Packet { handle, dst: HostId(0), hash: 0, len: 100, trim_len: 64, flags }
    }

    #[test]
    fn each_class_has_its_limit_its_place_in_the_order_and_its_reason_to_drop() {
        let mut classes = Classes::new([100, 200, 100, 300].map(Bytes));
        let class_of = [
            TrafficClass::Data,
            TrafficClass::Control,
            TrafficClass::ProbeAck,
            TrafficClass::Probe,
        ];
        for round in 0..4 {
            for (at, class) in class_of.into_iter().enumerate() {
                let handle = u32::try_from(at).unwrap();
                let full = Err(DropReason::queue_full(class));
                let room = [1, 2, 1, 3][at];
                let expected = if round < room { Ok(()) } else { full };
                assert_eq!(classes.push_to(at, packet(handle, class)), expected);
            }
        }
        let queued = classes.queued();
        assert_eq!((queued.data_packets, queued.control_packets), (1, 6));
        assert_eq!((queued.data_bytes, queued.control_bytes), (100, 600));
        classes.pause(true);
        let order: Vec<_> = std::iter::from_fn(|| classes.pop()).map(|p| p.handle).collect();
        assert_eq!(order, [3, 3, 3, 2, 1, 1]);
        assert_eq!(classes.ready_at(), Instant::FAR_FUTURE);
        classes.pause(false);
        assert_eq!(classes.ready_at(), Instant::ZERO);
        assert_eq!(classes.pop().map(|packet| packet.handle), Some(0));
        assert_eq!(classes.ready_at(), Instant::FAR_FUTURE);
    }
}
