//! Which flows send at each instant, and how fast: the flow with the least left first, pre-emptive.
//!
//! Source: algorithm 1 of \[pfabric\], in which a flow sends at the rate of its host's line or not
//! at all, because only hosts' lines can be busy there. In this code the links above the hosts can
//! be busy, too. Flows before it leave some rate on each link that a flow crosses, and it sends at
//! the least of these rates. Where no link above the hosts is narrower than their lines together,
//! this is algorithm 1.
//!
//! Bits flow evenly; a flow may be pre-empted inside a packet. All numbers are integers, so an
//! instant is exact to the picosecond that follows it.

use transport::{Duration, HostId, Instant};

use crate::topology::{FatTree, Level};
use crate::workload::FlowIndex;

/// The flows that have bits left, and the rate of each.
pub(super) struct Srpt {
    /// The state is that of this instant.
    now: Instant,
    /// Levels of the tree whose links can be full before the lines of the hosts below them are.
    levels: Vec<NarrowLevel>,
    /// For each place, the groups of links of all levels: its rate, bit/s.
    capacity: Vec<u64>,
    /// The rate that is left at each place.
    free: Vec<u64>,
    /// In the order of service.
    flows: Vec<Sender>,
    /// When the rates or the order may change.
    next_at: Instant,
}

/// A level, and where its places begin: first those of links up, then those of links down.
struct NarrowLevel {
    level: Level,
    first_up: usize,
    first_down: usize,
}

/// A flow that has bits left.
#[derive(Clone, Copy, Debug)]
struct Sender {
    /// Bits left times 10^12: a rate of r bit/s takes r of them in a picosecond.
    left: u128,
    flow: FlowIndex,
    /// The rate of the flow until the next decision, bit/s.
    rate: u64,
    /// The places that the flow crosses: the first `crossed` of these.
    places: [u32; PLACES_MAX],
    crossed: u8,
}

/// Both ways of five levels: hosts, ToRs, pods, sites, and what joins the sites.
const PLACES_MAX: usize = 10;

const PS_PER_S: u128 = 1_000_000_000_000;

impl Srpt {
    /// No flow, in the network `tree`.
    pub(super) fn new(tree: &FatTree) -> Self {
        let nodes = tree.spec().nodes;
        let line = tree.spec().tier[0].link_rate().as_bps();
        let (mut levels, mut capacity) = (Vec::new(), Vec::new());
        for level in Level::all(tree) {
            let below = line.saturating_mul(u64::from(level.hosts));
            if level.hosts > 1 && level.capacity.as_bps() >= below {
                continue;
            }
            let groups = level.groups(nodes);
            let first_up = capacity.len();
            capacity.resize(first_up + 2 * groups, level.capacity.as_bps());
            levels.push(NarrowLevel { level, first_up, first_down: first_up + groups });
        }
        debug_assert!(2 * levels.len() <= PLACES_MAX);
        let (free, flows) = (capacity.clone(), Vec::new());
        let (now, next_at) = (Instant::ZERO, Instant::FAR_FUTURE);
        Self { now, levels, capacity, free, flows, next_at }
    }

    /// When a flow ends, or the order of flows changes, if none is added before.
    pub(super) fn next_at(&self) -> Instant {
        self.next_at
    }

    /// How many flows have bits left.
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    /// Adds a flow of `bits` that crosses every level up to tier `top`; [`Srpt::decide`] is to be
    /// called after the last one of an instant.
    pub(super) fn add(
        &mut self,
        flow: FlowIndex,
        (src, dst): (HostId, HostId),
        top: u8,
        bits: u128,
    ) {
        let (mut places, mut crossed) = ([0; PLACES_MAX], 0);
        for narrow in self.levels.iter().filter(|narrow| narrow.level.tier <= top) {
            let up = narrow.first_up + narrow.level.group_of(src);
            let down = narrow.first_down + narrow.level.group_of(dst);
            for place in [up, down] {
                places[usize::from(crossed)] = u32::try_from(place).unwrap_or(u32::MAX);
                crossed += 1;
            }
        }
        self.flows.push(Sender { left: bits * PS_PER_S, flow, rate: 0, places, crossed });
    }

    /// Lets time pass until `now`, which is no later than [`Srpt::next_at`], and appends the flows
    /// whose last bit has left; [`Srpt::decide`] is to be called after that. O(flows).
    pub(super) fn advance(&mut self, now: Instant, ended: &mut Vec<FlowIndex>) {
        let span = u128::from(now.since(self.now).as_ps());
        self.now = now;
        self.flows.retain_mut(|sender| {
            sender.left = sender.left.saturating_sub(u128::from(sender.rate) * span);
            if sender.left == 0 {
                ended.push(sender.flow);
            }
            sender.left > 0
        });
    }

    /// Decides which flows send from now on. Flows with equally much left are served in the order
    /// of the matrix. O(flows log flows), and O(flows) where few have overtaken others.
    pub(super) fn decide(&mut self) {
        self.flows.sort_by_key(|sender| (sender.left, sender.flow));
        self.free.copy_from_slice(&self.capacity);
        let mut span = u128::MAX;
        let mut before: Option<Sender> = None;
        for sender in &mut self.flows {
            let places = &sender.places[..usize::from(sender.crossed)];
            let left_of = |place: &u32| self.free[*place as usize];
            sender.rate = places.iter().map(left_of).min().unwrap_or(0);
            if sender.rate == 0 {
                continue;
            }
            for place in places {
                self.free[*place as usize] -= sender.rate;
            }
            span = span.min(sender.left.div_ceil(u128::from(sender.rate)));
            if let Some(slower) = before.filter(|before| before.rate < sender.rate) {
                let faster = u128::from(sender.rate - slower.rate);
                span = span.min((sender.left - slower.left) / faster + 1);
            }
            before = Some(*sender);
        }
        let span = u64::try_from(span).map_or(Duration::MAX, Duration::from_ps);
        self.next_at = if span == Duration::MAX { Instant::FAR_FUTURE } else { self.now + span };
    }

    /// The flows that send, in the order of service, and how fast.
    #[cfg(test)]
    fn sending(&self) -> impl Iterator<Item = (FlowIndex, u64)> + '_ {
        let sending = self.flows.iter().filter(|sender| sender.rate > 0);
        sending.map(|sender| (sender.flow, sender.rate))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use transport::Bytes;

    use super::*;
    use crate::topology::by_name;

    /// Two ToRs of four hosts each, with one link of 250 Gb/s up.
    fn uneven() -> FatTree {
        let mut spec = by_name("leaf-spine:2,1,4").unwrap();
        spec.tier[1].downlink_mbps = 250_000;
        spec.tier[0].oversubscribed = 1;
        FatTree::new(spec).unwrap()
    }

    fn tree(name: &str) -> FatTree {
        FatTree::new(by_name(name).unwrap()).unwrap()
    }

    fn after_ns(ns: u64) -> Instant {
        Instant::ZERO + Duration::from_ns(ns)
    }

    impl Srpt {
        /// Adds a flow as long as `ns` nanoseconds at 100 Gb/s.
        fn add_ns(&mut self, tree: &FatTree, flow: u32, (src, dst): (u32, u32), ns: u64) {
            let ends = (HostId(src), HostId(dst));
            let top = tree.spec().meeting_tier(ends.0, ends.1);
            self.add(FlowIndex(flow), ends, top, u128::from(ns) * 100);
        }

        /// The flows that send, with their rates in Gb/s.
        fn rates(&self) -> Vec<(u32, u64)> {
            self.sending().map(|(flow, rate)| (flow.0, rate / 1_000_000_000)).collect()
        }
    }

    #[test]
    fn only_links_that_can_be_full_before_the_hosts_below_count() {
        let levels = |name: &str| Srpt::new(&tree(name)).levels.len();
        assert_eq!(levels("zeropod:8"), 1);
        assert_eq!(levels("zeropod:8,2,16"), 1);
        assert_eq!(levels("zeropod:8,2,7"), 2);
        assert_eq!(levels("two-dc:8,2"), 2);
        assert_eq!(Srpt::new(&uneven()).levels.len(), 2);
    }

    #[test]
    fn the_least_left_sends_and_what_it_blocks_waits() {
        let tree = tree("zeropod:8");
        let mut srpt = Srpt::new(&tree);
        srpt.add_ns(&tree, 0, (0, 8), 300);
        srpt.add_ns(&tree, 1, (4, 8), 200);
        srpt.add_ns(&tree, 2, (4, 9), 250);
        srpt.add_ns(&tree, 3, (0, 9), 400);
        srpt.decide();
        // Flow 0 waits for the receiver of flow 1, flow 2 for its sender, so that flow 3 sends.
        assert_eq!(srpt.rates(), [(1, 100), (3, 100)]);
        assert_eq!(srpt.next_at(), after_ns(200));
        let mut ended = Vec::new();
        srpt.advance(after_ns(200), &mut ended);
        assert_eq!(ended, [FlowIndex(1)]);
        srpt.decide();
        // Flow 3 has 200 left, less than the others.
        assert_eq!(srpt.rates(), [(3, 100)]);
    }

    #[test]
    fn a_flow_that_has_overtaken_another_one_is_served_before_it() {
        let tree = uneven();
        let mut srpt = Srpt::new(&tree);
        for (flow, ns) in [(0, 1000), (1, 1000), (2, 1010), (3, 1050)] {
            srpt.add_ns(&tree, flow, (flow, 4 + flow), ns);
        }
        // Flow 4 stays below its ToR, and its receiver is that of nothing else.
        srpt.add_ns(&tree, 4, (3, 2), 1040);
        srpt.decide();
        assert_eq!(srpt.rates(), [(0, 100), (1, 100), (2, 50), (4, 100)]);
        // Flow 4 is 30 ns behind flow 2 and 50 Gb/s faster: it catches up after 60 ns.
        assert_eq!(srpt.next_at(), after_ns(60) + Duration::from_ps(1));
        srpt.advance(srpt.next_at(), &mut Vec::new());
        srpt.decide();
        assert_eq!(srpt.rates(), [(0, 100), (1, 100), (4, 100), (2, 50)]);
        assert_eq!(srpt.next_at(), after_ns(1000));
    }

    #[derive(Clone, Copy, Debug)]
    struct Drawn {
        ends: (u32, u32),
        ns: u64,
        start_ns: u64,
    }

    fn drawn(hosts: u32) -> impl Strategy<Value = Vec<Drawn>> {
        let flow = (0..hosts, 1..hosts, 1_u64..4000, 0_u64..3000);
        let flow = flow.prop_map(move |(src, by, ns, start_ns)| {
            let ends = (src, (src + by) % hosts);
            Drawn { ends, ns, start_ns }
        });
        prop::collection::vec(flow, 1..60)
    }

    /// No place carries more than its rate. Each flow that does not have its whole line crosses a
    /// place which is full with this flow and flows that have no more left.
    fn check(srpt: &Srpt, line: u64) {
        let at = |sender: &Sender| sender.places[..usize::from(sender.crossed)].to_vec();
        let rate_of = |place: u32, of: &dyn Fn(&Sender) -> bool| -> u64 {
            let flows = srpt.flows.iter().filter(|flow| at(flow).contains(&place) && of(flow));
            flows.map(|flow| flow.rate).sum()
        };
        for (place, capacity) in (0..).zip(&srpt.capacity) {
            assert!(rate_of(place, &|_| true) <= *capacity, "place {place} carries too much");
        }
        for flow in srpt.flows.iter().filter(|flow| flow.rate < line) {
            let no_later = |other: &Sender| other.left <= flow.left;
            let full = |place: &u32| rate_of(*place, &no_later) == srpt.capacity[*place as usize];
            assert!(at(flow).iter().any(full), "{flow:?} could send more");
        }
    }

    fn run(tree: &FatTree, drawn: &[Drawn]) {
        let mut srpt = Srpt::new(tree);
        let mut starts: Vec<(u64, u32)> =
            (0..).zip(drawn).map(|(flow, drawn)| (drawn.start_ns, flow)).collect();
        starts.sort_unstable();
        let (mut starts, mut ended) = (starts.into_iter().peekable(), Vec::new());
        let mut sent = vec![0_u128; drawn.len()];
        while ended.len() < drawn.len() {
            let start = starts.peek().map(|(start, _)| after_ns(*start));
            let next = start.unwrap_or(Instant::FAR_FUTURE).min(srpt.next_at());
            // Between two decisions nothing is out of order either.
            let span = next.since(srpt.now);
            let half = srpt.now + Duration::from_ps(span.as_ps() / 2);
            for at in [half, next] {
                let passed = u128::from(at.since(srpt.now).as_ps());
                for sender in &srpt.flows {
                    let most = u128::from(sender.rate) * passed;
                    sent[sender.flow.index()] += most.min(sender.left);
                }
                srpt.advance(at, &mut ended);
                if at < next {
                    check(&srpt, 100_000_000_000);
                }
            }
            while let Some((_, flow)) = starts.next_if(|(start, _)| after_ns(*start) <= next) {
                let Drawn { ends, ns, .. } = drawn[flow as usize];
                srpt.add_ns(tree, flow, ends, ns);
            }
            srpt.decide();
            check(&srpt, 100_000_000_000);
        }
        for (sent, drawn) in sent.iter().zip(drawn) {
            assert_eq!(*sent, u128::from(drawn.ns) * 100 * PS_PER_S);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_link_is_shared_beyond_its_rate_and_none_idles_that_the_shortest_could_use(
            one_pod in drawn(16), two_pods in drawn(32), two_racks in drawn(8),
        ) {
            run(&tree("zeropod:8"), &one_pod);
            run(&tree("zeropod:8,2,3"), &two_pods);
            run(&uneven(), &two_racks);
        }
    }

    #[test]
    fn the_longest_flows_outlast_the_clock_and_no_number() {
        let tree = tree("zeropod:8");
        let mut srpt = Srpt::new(&tree);
        let bits = u128::from(Bytes(u64::MAX).0) * 8;
        srpt.add(FlowIndex(0), (HostId(0), HostId(1)), 0, bits);
        srpt.decide();
        assert_eq!(srpt.next_at(), Instant::FAR_FUTURE);
    }
}
