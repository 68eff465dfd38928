//! pFabric: the data whose flow has the least left leaves first, and the data whose flow has the
//! most left is lost when the queue is full.
//!
//! Source: \[pfabric\] sec. 4. The rank of a packet is in eight bits ([`Packet::rank`]). Packets of
//! one rank leave in the order in which they came. The remainders of one flow's packets are near
//! each other, so these packets seldom overtake each other.
// DEVIATION(pfabric#4): the paper sends the oldest packet of the flow that the best packet belongs
// to; sprayed packets do not show a switch which flow is theirs.
//! Control goes before data in a FIFO of its own. Units: bytes on the wire.

use std::collections::VecDeque;

use transport::params::NoParams;
use transport::registry::Registered;
use transport::sched::Ranks;
use transport::{Bytes, DropReason, Instant, Rate, Rng};

use super::{
    Dequeued, Discipline, LinkState, Qdisc, QdiscParams, QdiscSettings, Queued, Service, Verdict,
};
use crate::packet::Packet;

/// The ranks of a packet.
const RANKS: usize = 1 << 8;

/// Data by rank, and control before it.
#[derive(Clone, Debug)]
pub struct Pfabric {
    /// Data of each rank, least first; a bit of `held` for each rank that has some.
    ranks: Box<[VecDeque<Packet>; RANKS]>,
    held: [u128; 2],
    control: VecDeque<Packet>,
    queued: Queued,
    data_limit: u64,
    control_limit: u64,
    paused: bool,
}

// Every port has room for the largest discipline.
const _: () = assert!(size_of::<Pfabric>() <= 144);

impl Registered for Pfabric {
    const ABOUT: &'static str =
        "data whose flow has the least left first; a full queue loses what has the most left";
    type Params = NoParams;
}

impl Discipline for Pfabric {
    fn marks() -> bool {
        false
    }

    fn ranks_by() -> Option<Ranks> {
        Some(Ranks::Left)
    }

    fn build(_settings: &QdiscSettings, port: &QdiscParams, _rate: Rate) -> Self {
        Self {
            ranks: Box::new([const { VecDeque::new() }; RANKS]),
            held: [0; 2],
            control: VecDeque::new(),
            queued: Queued::default(),
            data_limit: port.data_limit.0,
            control_limit: port.control_limit.0,
            paused: false,
        }
    }
}

impl Pfabric {
    fn hold(&mut self, rank: usize, holds: bool) {
        let bit = 1 << (rank % 128);
        let half = &mut self.held[rank / 128];
        *half = if holds { *half | bit } else { *half & !bit };
    }

    /// The least rank that waits.
    fn least(&self) -> Option<usize> {
        let [low, high] = self.held;
        let (half, base) = if low != 0 { (low, 0) } else { (high, 128) };
        (half != 0).then(|| base + half.trailing_zeros() as usize)
    }

    /// The greatest rank that waits.
    fn greatest(&self) -> Option<usize> {
        let [low, high] = self.held;
        let (half, base) = if high != 0 { (high, 128) } else { (low, 0) };
        (half != 0).then(|| base + half.ilog2() as usize)
    }

    fn push_data(&mut self, packet: Packet) {
        let rank = usize::from(packet.rank());
        self.ranks[rank].push_back(packet);
        self.hold(rank, true);
        self.queued.add(&packet);
    }

    /// Counts out a packet that `take` has taken from the data of `rank`.
    fn take(
        &mut self,
        rank: usize,
        take: fn(&mut VecDeque<Packet>) -> Option<Packet>,
    ) -> Option<Packet> {
        let packet = take(&mut self.ranks[rank])?;
        if self.ranks[rank].is_empty() {
            self.hold(rank, false);
        }
        self.queued.remove(&packet);
        Some(packet)
    }

    /// Takes out the packet that is lost so that `packet` may wait: the newest of those with the
    /// most left, if they have more left than `packet` and the room is then enough.
    //= pfabric#4
    fn evict_for(&mut self, packet: &Packet) -> Option<Packet> {
        let rank = self.greatest().filter(|rank| *rank > usize::from(packet.rank()))?;
        let freed = self.ranks[rank].back()?.wire_bytes();
        let bytes = self.queued.data_bytes - freed + packet.wire_bytes();
        if bytes > self.data_limit {
            return None;
        }
        self.take(rank, VecDeque::pop_back)
    }

    fn enqueue_control(&mut self, packet: Packet) -> Verdict {
        if self.queued.control_bytes + packet.wire_bytes() > self.control_limit {
            return Verdict::Dropped(DropReason::queue_full(packet.class()));
        }
        self.queued.add(&packet);
        self.control.push_back(packet);
        Verdict::Queued
    }
}

impl Qdisc for Pfabric {
    #[inline(always)]
    fn enqueue(&mut self, packet: Packet, _now: Instant, lost: &mut Option<Packet>) -> Verdict {
        if !packet.is_data() {
            return self.enqueue_control(packet);
        }
        if self.queued.data_bytes + packet.wire_bytes() <= self.data_limit {
            self.push_data(packet);
            return Verdict::Queued;
        }
        *lost = self.evict_for(&packet);
        if lost.is_none() {
            return Verdict::Dropped(DropReason::DataQueueFull);
        }
        self.push_data(packet);
        Verdict::Evicted
    }

    #[inline(always)]
    fn dequeue(&mut self, _now: Instant, _rng: &mut Rng) -> Option<Dequeued> {
        let packet = match self.control.pop_front() {
            Some(packet) => {
                self.queued.remove(&packet);
                packet
            }
            None if self.paused => return None,
            None => self.take(self.least()?, VecDeque::pop_front)?,
        };
        Some(Dequeued { packet, marked: false })
    }

    fn ready_at(&self) -> Instant {
        let data = self.queued.data_packets > 0 && !self.paused;
        let waits = data || self.queued.control_packets > 0;
        if waits { Instant::ZERO } else { Instant::FAR_FUTURE }
    }

    fn service(&self) -> Service {
        let passes = Bytes(self.data_limit.min(self.control_limit));
        Service { work_conserving: true, passes, cell: None }
    }

    fn set_link(&mut self, link: LinkState, _now: Instant) {
        self.paused = link.paused;
    }

    fn queued(&self) -> Queued {
        self.queued
    }

    fn passes(&mut self, packet: &Packet, _now: Instant) -> bool {
        let limit = if packet.is_data() { self.data_limit } else { self.control_limit };
        packet.wire_bytes() <= limit && !(self.paused && packet.is_data())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use transport::wire::class::TrafficClass;
    use transport::{HostId, Rng};

    use super::*;
    use crate::packet::Flags;

    /// A queue of `packets` full packets.
    fn queue(packets: u64) -> Pfabric {
        let port = QdiscParams::for_buffer(Bytes(1000 * packets), Bytes(1000), QdiscParams::MARK);
        Pfabric::build(&QdiscSettings::default(), &port, Rate::from_gbps(800))
    }

    fn data(handle: u32, left: u32) -> Packet {
        let flags = Flags::NONE;
        let packet = Packet { handle, dst: HostId(0), hash: 0, len: 1000, trim_len: 64, flags };
        packet.ranked_by(left)
    }

    fn order(queue: &mut Pfabric) -> Vec<u32> {
        let mut rng = Rng::new(1);
        std::iter::from_fn(|| queue.dequeue(Instant::ZERO, &mut rng))
            .map(|dequeued| dequeued.packet.handle)
            .collect()
    }

    #[test]
    fn the_least_left_leaves_first_and_one_rank_in_the_order_of_arrival() {
        let mut queue = queue(9);
        for (handle, left) in [(1, 7), (2, 900_000), (3, 7), (4, 1), (5, 40), (6, 41)] {
            assert_eq!(
                queue.enqueue(data(handle, left), Instant::ZERO, &mut None),
                Verdict::Queued
            );
        }
        let control = Packet { flags: Flags::of(TrafficClass::Control), ..data(7, 1) };
        assert_eq!(queue.enqueue(control, Instant::ZERO, &mut None), Verdict::Queued);
        // 40 and 41 segments have one rank.
        assert_eq!(order(&mut queue), [7, 4, 1, 3, 5, 6, 2]);
    }

    #[test]
    fn a_full_queue_loses_the_newest_of_those_with_the_most_left() {
        let mut queue = queue(3);
        let mut enqueue = |packet| {
            let mut lost = None;
            (queue.enqueue(packet, Instant::ZERO, &mut lost), lost)
        };
        for (handle, left) in [(1, 9), (2, 5), (3, 9)] {
            assert_eq!(enqueue(data(handle, left)), (Verdict::Queued, None));
        }
        let full = (Verdict::Dropped(DropReason::DataQueueFull), None);
        assert_eq!(enqueue(data(4, 9)), full, "nothing that waits has more left");
        assert_eq!(enqueue(data(5, 30)), full);
        assert_eq!(enqueue(data(6, 8)), (Verdict::Evicted, Some(data(3, 9))));
        assert_eq!(enqueue(data(7, 1)), (Verdict::Evicted, Some(data(1, 9))));
        let large = Packet { len: 1001, ..data(8, 1) };
        assert_eq!(enqueue(large), full, "one lost packet does not make room enough");
        assert_eq!(order(&mut queue), [7, 2, 6]);
    }

    proptest! {
        #[test]
        fn a_sorted_list_agrees(
            steps in prop::collection::vec((any::<bool>(), 1u32..400), 1..300)
        ) {
            let mut queue = queue(8);
            let mut rng = Rng::new(1);
            let mut oracle: Vec<Packet> = Vec::new();
            for (handle, (comes, left)) in (0..).zip(steps) {
                if !comes {
                    let least = oracle.iter().map(Packet::rank).min();
                    let at = oracle.iter().position(|packet| Some(packet.rank()) == least);
                    let expected = at.map(|at| oracle.remove(at));
                    let left = queue.dequeue(Instant::ZERO, &mut rng);
                    prop_assert_eq!(left.map(|dequeued| dequeued.packet), expected);
                    continue;
                }
                let packet = data(handle, left);
                oracle.push(packet);
                let mut left = None;
                let verdict = queue.enqueue(packet, Instant::ZERO, &mut left);
                let mut expected = (Verdict::Queued, None);
                if oracle.len() > 8 {
                    let most = oracle.iter().map(Packet::rank).max();
                    let at = oracle.iter().rposition(|packet| Some(packet.rank()) == most);
                    let lost = oracle.remove(at.unwrap());
                    expected = if lost == packet {
                        (Verdict::Dropped(DropReason::DataQueueFull), None)
                    } else {
                        (Verdict::Evicted, Some(lost))
                    };
                }
                prop_assert_eq!((verdict, left), expected);
                prop_assert_eq!(queue.queued().data_packets, oracle.len());
            }
        }
    }
}
