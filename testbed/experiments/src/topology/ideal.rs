//! How fast a topology could be at best: delays of empty paths, completion of a traffic matrix.
//!
//! Source: the result schema and uet-htsim's "ideal completion time": the busiest cut of the
//! network serialises the bytes that cross it, and one base one-way delay brings the last packet
//! there. The reference adds a whole round trip because its flows end at an acknowledgement; here a
//! flow is complete when it is delivered. Bytes are wire bytes, headers included; every hop stores
//! a packet before it forwards it.
//!
//! The bounds hold for packets in any order over any paths. A short packet, as the last one of a
//! message may be, is stored for less time at each hop than a full one, and may overtake full ones
//! on another path. So a cut has two bounds: one of all its packets with the delay of the shortest
//! packet, and one of only the longest packets with their delay. The greater one holds.

use fabric::serialisation;
use transport::{Bytes, Duration, HostId, Instant, Rate};

use super::fat_tree::FatTree;

/// One flow of a traffic matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The sender.
    pub src: HostId,
    /// The receiver.
    pub dst: HostId,
    /// The packets that carry the transfer's bytes.
    pub packets: FlowPackets,
    /// When the transfer may start.
    pub start: Instant,
}

/// The packets of a flow by their length on the wire: the full ones, the last ones of its whole
/// messages, the last one of all. Lengths and counts are 0 for those that it has none of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowPackets {
    /// (length, count), the longest first.
    lengths: [(u64, u64); 3],
}

impl FlowPackets {
    /// Packets of these lengths, and how many of each there are; in any order.
    #[must_use]
    pub fn new(mut lengths: [(u64, u64); 3]) -> Self {
        lengths.iter_mut().filter(|(_, count)| *count == 0).for_each(|none| *none = (0, 0));
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        Self { lengths }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.lengths.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Bytes of all packets together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.at_least().last().map_or(0, |(bytes, _)| bytes)
    }

    /// For each length, the longest first: the bytes of all packets that are at least as long, and
    /// the length.
    fn at_least(&self) -> impl Iterator<Item = (u64, u64)> {
        let some = self.lengths.into_iter().filter(|(_, count)| *count > 0);
        some.scan(0u64, |sum, (len, count)| {
            *sum = sum.saturating_add(len.saturating_mul(count));
            Some((*sum, len))
        })
    }

    /// The length of the full packets and that of the short one, where there are full ones and one
    /// other.
    fn full_and_short(&self) -> Option<(u64, u64)> {
        let [(full, _), (short, 1), (_, 0)] = self.lengths else { return None };
        Some((full, short))
    }
}

/// Time from the first bit of a packet of `len` bytes leaving `src` to its last bit being at `dst`,
/// through empty queues. Through the ToR and back for `src == dst`.
#[must_use]
pub fn base_one_way(tree: &FatTree, src: HostId, dst: HostId, len: u64) -> Duration {
    one_way_via(tree, tree.spec().meeting_tier(src, dst), len)
}

/// A data packet of `data_len` bytes from `src` to `dst` and an acknowledgement of `ack_len` back,
/// through empty queues.
#[must_use]
pub fn base_rtt(tree: &FatTree, src: HostId, dst: HostId, data_len: u64, ack_len: u64) -> Duration {
    base_one_way(tree, src, dst, data_len) + base_one_way(tree, dst, src, ack_len)
}

/// The least time from the start of a flow of `packets` that is alone in the network to its
/// delivery. Its bytes go through the line of its hosts, and through all links together that it
/// crosses above them.
#[must_use]
pub fn delivery_alone(tree: &FatTree, src: HostId, dst: HostId, packets: &FlowPackets) -> Duration {
    let top = tree.spec().meeting_tier(src, dst);
    let crossed = Level::all(tree).into_iter().filter(|level| level.tier <= top);
    alone_over(tree, crossed, top, packets)
}

/// [`delivery_alone`] over a path that turns at tier `top` and crosses these levels.
fn alone_over(
    tree: &FatTree,
    crossed: impl Iterator<Item = Level>,
    top: u8,
    packets: &FlowPackets,
) -> Duration {
    let rest = |len, rate| one_way_via(tree, top, len) - serialisation(len, rate);
    let over = |level: Level| {
        let sets = packets.at_least();
        sets.map(move |(bytes, len)| level.capacity.time_for(Bytes(bytes)) + rest(len, level.rate))
    };
    let bound = crossed.flat_map(over).max().unwrap_or_default();
    bound.max(one_short(tree, top, packets).unwrap_or_default())
}

/// The bound of a flow whose packets are all full but one, over the line of its receiver. The line
/// is busy from the first full packet on. So the flow takes as long as if the short packet were
/// full at each hop. The exception is a short packet that leaves last and arrives before the first
/// full one. If a full packet leaves last, the flow takes no less.
fn one_short(tree: &FatTree, top: u8, packets: &FlowPackets) -> Option<Duration> {
    let (full, short) = packets.full_and_short()?;
    let line = tree.spec().tier[0].link_rate();
    // From the first bit on the sender's line to the first bit on the receiver's.
    let before = |len| one_way_via(tree, top, len) - serialisation(len, line);
    let (all, first) = (line.time_for(Bytes(packets.bytes())), before(full));
    let overtaking = all + before(short) - serialisation(short, line);
    if overtaking >= first {
        return Some(all + first);
    }
    let last = first.max(overtaking + serialisation(short, line));
    Some(line.time_for(Bytes(packets.bytes() - short)) + last)
}

/// When `transfers` could all be delivered at best: the latest of two kinds of bounds. Zero without
/// transfers; bytes beyond 64 bits saturate.
///
/// - Each cut of the network has a bound: the transmitter and the receiver of each host, and the
///   links up from and down to each ToR, each pod and each site. It is the first start, plus the
///   bytes that cross by the capacity there, plus the shortest one-way delay among the transfers
///   that cross, less the one packet counted in both. It leaves out the time in which a cut has
///   nothing to do before a later start. So no transport can beat the bound, but where transfers
///   start at different times it may be out of reach for all.
/// - Each transfer has a bound: when it would be delivered alone.
#[must_use]
pub fn ideal_completion(tree: &FatTree, transfers: &[Transfer]) -> Instant {
    let mut cuts = Cuts::new(tree);
    transfers.iter().for_each(|transfer| cuts.add(transfer));
    cuts.completion()
}

/// One way of a packet that turns at tier `top`.
fn one_way_via(tree: &FatTree, top: u8, len: u64) -> Duration {
    let spec = tree.spec();
    let links = spec.tiers_via(top).iter().map(|tier| serialisation(len, tier.link_rate()) * 2);
    let wan = spec.wan_via(top).map(|wan| serialisation(len, wan.link_rate()));
    links.chain(wan).fold(spec.latency_via(top), |sum, links| sum + links)
}

/// The links up from, and the links down to, groups of hosts of one size, where traffic can pile
/// up. A group is a single host, or the hosts of a ToR, of a pod, of a site at its top switches, or
/// of a site at its border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Hosts of a group.
    pub hosts: u32,
    /// A path crosses the links when it turns at this tier or higher.
    pub tier: u8,
    /// The rate of one link.
    pub rate: Rate,
    /// The rate of all links of a group together, one way.
    pub capacity: Rate,
}

impl Level {
    /// The levels of `tree`, from single hosts up.
    #[must_use]
    pub fn all(tree: &FatTree) -> Vec<Self> {
        let spec = tree.spec();
        let level = |hosts: u32, tier: u8, rate: Rate, links: u64| {
            let capacity = Rate::from_bps(rate.as_bps().saturating_mul(links));
            Self { hosts, tier, rate, capacity }
        };
        let rate = |tier: usize| spec.tier[tier].link_rate();
        let ups = |tier: u8, switches: u32| u64::from(tree.ups_of_pod(tier, switches));
        let mut levels =
            vec![level(1, 0, rate(0), 1), level(spec.tier[0].radix_down, 1, rate(1), ups(0, 1))];
        if spec.levels() > 2 {
            levels.push(level(spec.podsize, 2, rate(2), ups(1, spec.aggs_per_pod())));
        }
        if spec.levels() > 3 {
            levels.push(level(spec.site_hosts(), 3, rate(3), ups(2, spec.cores_per_site())));
        }
        if let Some(wan) = &spec.wan {
            let tier = spec.tiers;
            levels.push(level(spec.site_hosts(), tier, wan.link_rate(), ups(tier, spec.borders())));
        }
        levels
    }

    /// How many groups there are among `nodes` hosts.
    #[must_use]
    pub fn groups(&self, nodes: u32) -> usize {
        nodes.div_ceil(self.hosts) as usize
    }

    /// The group of a host.
    #[must_use]
    pub fn group_of(&self, host: HostId) -> usize {
        (host.0 / self.hosts) as usize
    }
}

/// What crosses the links of every level.
struct Cuts<'a> {
    tree: &'a FatTree,
    levels: Vec<(Level, BothWays)>,
    /// When the transfer that would be last without the others would end.
    alone: Instant,
}

/// The links of each group of a level, by direction.
struct BothWays {
    up: Vec<Cut>,
    down: Vec<Cut>,
}

#[derive(Clone, Copy)]
struct Cut {
    start: Instant,
    all: Crossing,
    /// The longest packets of each transfer.
    longest: Crossing,
}

/// Packets that cross a cut.
#[derive(Clone, Copy)]
struct Crossing {
    bytes: u64,
    /// Shortest one-way delay without the serialisation on this cut's own link.
    rest: Duration,
}

impl Crossing {
    const NONE: Self = Self { bytes: 0, rest: Duration::MAX };

    fn add(&mut self, bytes: u64, rest: Duration) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.rest = self.rest.min(rest);
    }
}

const IDLE: Cut = Cut { start: Instant::FAR_FUTURE, all: Crossing::NONE, longest: Crossing::NONE };

impl<'a> Cuts<'a> {
    fn new(tree: &'a FatTree) -> Self {
        let with_cuts = |level: Level| {
            let idle = vec![IDLE; level.groups(tree.spec().nodes)];
            (level, BothWays { up: idle.clone(), down: idle })
        };
        let levels = Level::all(tree).into_iter().map(with_cuts).collect();
        Self { tree, levels, alone: Instant::ZERO }
    }

    fn add(&mut self, transfer: &Transfer) {
        let spec = self.tree.spec();
        if transfer.src.0 >= spec.nodes || transfer.dst.0 >= spec.nodes {
            return;
        }
        let top = spec.meeting_tier(transfer.src, transfer.dst);
        let mut sets = transfer.packets.at_least();
        let Some(longest) = sets.next() else { return };
        let all = sets.last().unwrap_or(longest);
        let crossed = self.levels.iter().map(|(level, _)| *level);
        let crossed = crossed.filter(|level| level.tier <= top);
        let alone = alone_over(self.tree, crossed, top, &transfer.packets);
        self.alone = self.alone.max(transfer.start + alone);
        for (level, cuts) in self.levels.iter_mut().filter(|(level, _)| level.tier <= top) {
            let [up, down] = [transfer.src, transfer.dst].map(|host| level.group_of(host));
            let rest = |len| one_way_via(self.tree, top, len) - serialisation(len, level.rate);
            for cut in [&mut cuts.up[up], &mut cuts.down[down]] {
                cut.start = cut.start.min(transfer.start);
                cut.all.add(all.0, rest(all.1));
                cut.longest.add(longest.0, rest(longest.1));
            }
        }
    }

    fn completion(&self) -> Instant {
        let of_level = |(level, cuts): &(Level, BothWays)| {
            let busy = cuts.up.iter().chain(&cuts.down).filter(|cut| cut.all.bytes > 0);
            let time = |set: Crossing| level.capacity.time_for(Bytes(set.bytes)) + set.rest;
            busy.map(|cut| cut.start + time(cut.all).max(time(cut.longest))).max()
        };
        self.levels.iter().filter_map(of_level).fold(self.alone, Instant::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::by_name;

    #[test]
    fn a_late_transfer_ends_no_sooner_than_it_would_alone() {
        let tree = one_to_one();
        let late = Instant::ZERO + Duration::from_us(500);
        let transfer = |start| Transfer {
            src: HostId(0),
            dst: HostId(1000),
            packets: FlowPackets::new([(4160, 10), (0, 0), (0, 0)]),
            start,
        };
        let alone = late
            + Duration::from_ps(9 * 41_600)
            + base_one_way(&tree, HostId(0), HostId(1000), 4160);
        assert_eq!(ideal_completion(&tree, &[transfer(Instant::ZERO), transfer(late)]), alone);
    }

    fn one_to_one() -> FatTree {
        FatTree::new(by_name("ft1024-1os").unwrap()).unwrap()
    }

    fn eight_to_one() -> FatTree {
        FatTree::new(by_name("ft1024-8os").unwrap()).unwrap()
    }

    fn transfer(src: u32, dst: u32, packets: u64) -> Transfer {
        Transfer {
            src: HostId(src),
            dst: HostId(dst),
            packets: FlowPackets::new([(4160, packets), (0, 0), (0, 0)]),
            start: Instant::ZERO,
        }
    }

    #[test]
    fn delays_grow_with_the_tiers_climbed() {
        let tree = one_to_one();
        let ps = |dst| base_one_way(&tree, HostId(0), HostId(dst), 4160).as_ps();
        // Two links of 600 ns and 41.6 ns and a switch of 400 ns a tier, and one switch more down.
        assert_eq!(ps(1), 2 * 641_600 + 400_000);
        assert_eq!(ps(9), 4 * 641_600 + 3 * 400_000);
        assert_eq!(ps(1000), 6 * 641_600 + 5 * 400_000);
        let rtt = base_rtt(&tree, HostId(0), HostId(1000), 4160, 64);
        assert_eq!(rtt, Duration::from_ps(11_453_440));
    }

    #[test]
    fn an_incast_is_bound_by_its_receiver() {
        let tree = one_to_one();
        let transfers: Vec<_> = (0..8).map(|i| transfer(512 + i, 0, 16)).collect();
        let expected = 8 * 16 * 41_600 + 6 * 641_600 + 5 * 400_000 - 41_600;
        assert_eq!(ideal_completion(&tree, &transfers), Instant::from_ps(expected));
    }

    #[test]
    fn a_permutation_is_bound_by_the_oversubscribed_cut() {
        let tree = eight_to_one();
        let transfers: Vec<_> = (0..1024).map(|i| transfer(i, (i + 512) % 1024, 512)).collect();
        // 64 hosts of a pod share 2 x 4 links up.
        let expected = 8 * 512 * 41_600 + 6 * 641_600 + 5 * 400_000 - 41_600;
        assert_eq!(ideal_completion(&tree, &transfers), Instant::from_ps(expected));
    }

    #[test]
    fn what_goes_to_another_site_is_bound_by_the_links_between() {
        let tree = FatTree::new(by_name("two-dc:8,2").unwrap()).unwrap();
        let transfers: Vec<_> = (0..16).map(|i| transfer(i * 8, 128 + i * 8, 1000)).collect();
        // Two links of 100 Gb/s for sixteen hosts; the cut's own packet counts once.
        let packet = 4160 * 80;
        let one_way = 8 * 1_000_000 + 886_500_000 + 9 * packet;
        let expected = 16 * 1000 * packet / 2 + one_way - packet;
        assert_eq!(ideal_completion(&tree, &transfers), Instant::from_ps(expected));
        let one = base_one_way(&tree, HostId(0), HostId(128), 4160);
        assert_eq!(one, Duration::from_ps(one_way));
    }

    #[test]
    fn more_bytes_than_can_be_counted_take_for_ever() {
        let tree = one_to_one();
        let huge = |src| transfer(src, 0, u64::MAX);
        let ideal = ideal_completion(&tree, &[huge(1), huge(2), huge(3)]);
        assert_eq!(ideal, Instant::FAR_FUTURE);
    }

    #[test]
    fn a_late_start_counts_and_no_transfers_take_no_time() {
        let tree = one_to_one();
        assert_eq!(ideal_completion(&tree, &[]), Instant::ZERO);
        let late = Transfer { start: Instant::from_ps(7), ..transfer(0, 1, 1) };
        let expected = 7 + 2 * 641_600 + 400_000;
        assert_eq!(ideal_completion(&tree, &[late]), Instant::from_ps(expected));
    }
}
