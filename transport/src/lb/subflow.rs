//! UnoLB: a flow's segments go round a few subflows, each with a path of its own. So the packets of
//! an erasure-coded block meet different failures. A subflow that loses packets is moved to the
//! path of one that does not. Source: \[uno\] sec. 4.2, algorithm 2.
//!
//! ```text
//!   segment      0    1    2   ...   9   10   11      next = (next + 1) mod subflows
//!   subflow      0    1    2   ...   9    0    1
//!                     |
//!                     NACK or timeout, none in the last base RTT: takes the path of a subflow
//!                     that was acknowledged in the last base RTT. All silent subflows move with
//!                     it: those with a segment sent over a base RTT ago and not answered.
//! ```
//!
//! With as many subflows as a block has packets, each packet of a block takes another one. It does
//! not react to marks: congestion is the controller's.

use super::{Balancer, LbParams, LoadBalancer, PathFeedback, draw};
use crate::params::{params, words};
use crate::path::Path;
use crate::registry::Registered;
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use crate::units::EntropyValue;

words! {
    /// The path to which subflows that lose packets are moved.
    pub enum Reroute: "acked, mixed or drawn" {
        /// The path of a subflow that was acknowledged lately, as the paper has it.
        Acked = "acked",
        /// A silent subflow moves as in `acked`. A subflow that loses packets but gets answers
        /// moves to a new path: its path is full, not dead, and two subflows on one path would fill
        /// that one, too.
        Mixed = "mixed",
        /// All subflows that have not been acknowledged for half a base RTT move to new paths, as
        /// in the simulator that the paper's figures were made with.
        Drawn = "drawn",
    }
}

params! {
    /// Settings of [`Subflow`].
    pub struct SubflowParams {
        /// UnoLB: subflows of a flow; the default is the packets of an (8,2) block.
        subflows: u16 = 10, in 1..=20;
        /// UnoLB: where a subflow that loses is moved.
        reroute: Reroute = Reroute::Acked;
    }
}

/// Subflows at most: the packets of a (16,4) block.
const SUBFLOWS_MAX: u8 = 20;
/// Attempts to draw a path that no subflow has, before a path is shared. With twice as many paths
/// as subflows, a path is shared once in 10^9 draws.
const DRAWS: u8 = 32;

/// One subflow.
#[derive(Clone, Copy, Debug)]
struct Lane {
    ev: EntropyValue,
    /// When the first segment after its last acknowledgement left, in ticks; wraps.
    sent_at: u16,
    /// When a segment of this lane was last acknowledged, in wire time: half the size, and an
    /// acknowledgement looks new again only after 4.4 s.
    acked_at: u32,
}

/// The subflows of one flow.
#[derive(Clone, Debug)]
pub struct Subflow {
    /// The subflows, of which the first `count` exist.
    lanes: [Lane; SUBFLOWS_MAX as usize],
    /// Subflows that were ever acknowledged on their present path, as a bitmap.
    acked: u32,
    /// Subflows that have sent since they were last acknowledged, as a bitmap.
    asking: u32,
    /// Subflows to be moved when their turn comes, as a bitmap: only then is an `Rng` available.
    moving: u32,
    /// 1..=`SUBFLOWS_MAX`.
    count: u8,
    /// The subflow that is next, 0..`count`.
    next: u8,
    paths: u16,
    reroute: Reroute,
    base_rtt: Duration,
    /// A tick is 2 to the power of this many picoseconds, a 64th of a base RTT or up to half of
    /// that.
    tick_bits: u8,
    /// When subflows were last moved.
    rerouted_at: Option<Instant>,
}

const _: () = assert!(SUBFLOWS_MAX as u32 <= u32::BITS);
const _: () = assert!(size_of::<Subflow>() <= 224);

impl Subflow {
    /// Draws a path for each subflow, all different while there are enough.
    #[must_use]
    pub fn new(params: &LbParams, path: &Path, rng: &mut Rng) -> Self {
        let count =
            u8::try_from(params.subflow.subflows).unwrap_or(SUBFLOWS_MAX).clamp(1, SUBFLOWS_MAX);
        let unknown = Lane { ev: EntropyValue(0), acked_at: 0, sent_at: 0 };
        let mut all = Self {
            lanes: [unknown; SUBFLOWS_MAX as usize],
            acked: 0,
            asking: 0,
            moving: 0,
            count,
            next: 0,
            paths: params.common.paths,
            reroute: params.subflow.reroute,
            base_rtt: path.base_rtt,
            tick_bits: u8::try_from((path.base_rtt.as_ps() / 64).max(1).ilog2()).unwrap_or(0),
            rerouted_at: None,
        };
        for lane in 0..usize::from(count) {
            all.lanes[lane].ev = all.draw_unused(rng);
        }
        all
    }

    fn lanes(&self) -> &[Lane] {
        &self.lanes[..usize::from(self.count)]
    }

    /// A path that no subflow has.
    // DEVIATION(uno#4.2): the simulator lets subflows collide, which is two packets of a block on
    // one path.
    fn draw_unused(&self, rng: &mut Rng) -> EntropyValue {
        let mut ev = draw(self.paths, rng);
        for _ in 1..DRAWS {
            if self.lanes().iter().all(|lane| lane.ev != ev) {
                break;
            }
            ev = draw(self.paths, rng);
        }
        ev
    }

    /// Whether subflow `lane` was acknowledged within `span` before `now`.
    fn is_alive(&self, lane: usize, now: Instant, span: Duration) -> bool {
        self.acked & 1 << lane != 0 && now.since_wire(self.lanes[lane].acked_at) <= span
    }

    /// Whether an answer of subflow `lane` is overdue.
    fn is_overdue(&self, lane: usize, now: Instant) -> bool {
        let waited = self.tick(now.as_ps()).wrapping_sub(self.lanes[lane].sent_at);
        self.asking & 1 << lane != 0 && waited > self.tick(self.base_rtt.as_ps())
    }

    /// A time in ticks. 65536 ticks are at least 512 base RTTs; after that time a silent subflow
    /// does not count as silent for one RTT.
    fn tick(&self, ps: u64) -> u16 {
        u16::try_from(ps >> self.tick_bits & 0xffff).unwrap_or(0)
    }

    /// Draws one of the subflows on other paths that were acknowledged in the last base RTT and are
    /// not silent, all with the same probability.
    fn draw_alive(&self, now: Instant, rng: &mut Rng) -> Option<usize> {
        let failed = self.lanes[usize::from(self.next)].ev;
        let alive = || {
            let is_good = |i| self.is_alive(i, now, self.base_rtt) && !self.is_overdue(i, now);
            (0..usize::from(self.count)).filter(move |i| self.lanes[*i].ev != failed && is_good(*i))
        };
        let count @ 1.. = u64::try_from(alive().count()).unwrap_or(0) else { return None };
        alive().nth(usize::try_from(rng.below(count)).unwrap_or(0))
    }

    /// Moves the subflow whose turn it is to another path.
    fn leave(&mut self, now: Instant, rng: &mut Rng) {
        let lane = usize::from(self.next);
        let copies = match self.reroute {
            Reroute::Acked => true,
            Reroute::Mixed => self.is_overdue(lane, now),
            Reroute::Drawn => false,
        };
        let alive = if copies { self.draw_alive(now, rng) } else { None };
        let had = |bits: u32| alive.is_some_and(|other| bits & 1 << other != 0);
        let (acked, asking) = (had(self.acked), had(self.asking));
        self.lanes[lane] = match alive {
            // The state of the other subflow on that path is taken over, too.
            Some(other) => self.lanes[other],
            // All known paths may be dead.
            None => Lane { ev: self.draw_unused(rng), ..self.lanes[lane] },
        };
        self.acked = self.acked & !(1 << lane) | u32::from(acked) << lane;
        self.asking = self.asking & !(1 << lane) | u32::from(asking) << lane;
    }

    /// Marks the subflows that have to move after the loss of a segment sent with `ev`.
    fn suspect(&mut self, ev: EntropyValue, now: Instant) {
        //= uno#alg2
        // Lines 6 to 8.
        if self.rerouted_at.is_some_and(|at| now.since(at) <= self.base_rtt) {
            return;
        }
        let mut moving = 0;
        for (i, lane) in self.lanes().iter().enumerate() {
            let moves = match self.reroute {
                Reroute::Acked | Reroute::Mixed => lane.ev == ev || self.is_overdue(i, now),
                Reroute::Drawn => !self.is_alive(i, now, self.base_rtt / 2),
            };
            moving |= u32::from(moves) << i;
        }
        if moving != 0 {
            self.moving |= moving;
            self.rerouted_at = Some(now);
        }
    }
}

impl Registered for Subflow {
    const ABOUT: &'static str =
        "UnoLB: subflows in turn, one that loses moves to a path that delivers";
    type Params = SubflowParams;
}

impl Balancer for Subflow {
    fn build(params: &LbParams, path: &Path, _block: u8, rng: &mut Rng) -> Self {
        Self::new(params, path, rng)
    }
}

impl LoadBalancer for Subflow {
    fn next_ev(&mut self, now: Instant, rng: &mut Rng) -> EntropyValue {
        let lane = usize::from(self.next);
        let bit = 1 << self.next;
        if self.moving & bit != 0 {
            self.moving &= !bit;
            self.leave(now, rng);
        }
        if self.asking & bit == 0 {
            self.asking |= bit;
            self.lanes[lane].sent_at = self.tick(now.as_ps());
        }
        //= uno#alg2
        // Lines 2 and 3.
        self.next = if self.next + 1 == self.count { 0 } else { self.next + 1 };
        self.lanes[lane].ev
    }

    fn on_feedback(&mut self, ev: EntropyValue, what: PathFeedback, now: Instant) {
        match what {
            PathFeedback::Good | PathFeedback::Ecn => {
                let count = usize::from(self.count);
                for (i, lane) in self.lanes[..count].iter_mut().enumerate() {
                    if lane.ev == ev {
                        lane.acked_at = now.to_wire();
                        self.acked |= 1 << i;
                        self.asking &= !(1 << i);
                    }
                }
            }
            PathFeedback::Nack | PathFeedback::Lost | PathFeedback::Timeout => {
                self.suspect(ev, now);
            }
        }
    }

    fn is_silent(&self, ev: EntropyValue, now: Instant) -> bool {
        let mut lanes = self.lanes().iter().enumerate();
        lanes.any(|(i, lane)| lane.ev == ev && self.is_overdue(i, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Rate;
    use crate::units::Bytes;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    const RTT: Duration = Duration::from_us(100);
    const PATH: Path = Path { base_rtt: RTT, line_rate: Rate::from_gbps(100), mtu: Bytes(4160) };

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    fn new(reroute: Reroute) -> (Subflow, Rng) {
        let mut rng = Rng::new(7);
        let mut params = LbParams::default();
        params.subflow.reroute = reroute;
        (Subflow::new(&params, &PATH, &mut rng), rng)
    }

    fn round(lb: &mut Subflow, now: Instant, rng: &mut Rng) -> Vec<EntropyValue> {
        (0..10).map(|_| lb.next_ev(now, rng)).collect()
    }

    /// A flow whose subflows `acked` were acknowledged at `now`, and that has sent on none since.
    fn acknowledged_on(
        reroute: Reroute,
        acked: &[usize],
        now: Instant,
    ) -> (Subflow, Rng, Vec<EntropyValue>) {
        let (mut lb, mut rng) = new(reroute);
        let evs = round(&mut lb, at(10), &mut rng);
        for &lane in acked {
            lb.on_feedback(evs[lane], PathFeedback::Good, now);
        }
        (lb, rng, evs)
    }

    const ALL: [usize; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
    const RULES: [Reroute; 3] = [Reroute::Acked, Reroute::Mixed, Reroute::Drawn];

    #[test]
    fn each_packet_of_a_block_takes_another_path_and_the_next_block_the_same_ones() {
        for subflows in 1..=20 {
            for seed in 0..20 {
                let mut rng = Rng::new(seed);
                let mut params = LbParams::default();
                params.subflow.subflows = subflows;
                let mut lb = Subflow::new(&params, &PATH, &mut rng);
                let mut block =
                    || -> Vec<_> { (0..subflows).map(|_| lb.next_ev(at(1), &mut rng)).collect() };
                let first = block();
                let paths = first.iter().collect::<BTreeSet<_>>().len();
                assert_eq!(paths, usize::from(subflows), "{first:?}");
                assert_eq!(block(), first);
            }
        }
    }

    #[test]
    fn a_subflow_that_loses_moves_to_a_path_that_was_acknowledged_lately() {
        let (mut lb, mut rng, evs) = acknowledged_on(Reroute::Acked, &ALL, at(150));
        // Subflows 3 and 4 are acknowledged again.
        lb.on_feedback(evs[3], PathFeedback::Good, at(200));
        lb.on_feedback(evs[4], PathFeedback::Ecn, at(210));
        lb.on_feedback(evs[0], PathFeedback::Timeout, at(260));
        let moved = round(&mut lb, at(260), &mut rng);
        assert!(moved[0] == evs[3] || moved[0] == evs[4], "{moved:?} of {evs:?}");
        assert_eq!(moved[1..], evs[1..]);
    }

    #[test]
    fn every_path_that_is_alive_is_taken_over_about_equally() {
        let mut counts = [0_u32; 10];
        for seed in 0..900 {
            let mut rng = Rng::new(seed);
            let mut lb = Subflow::new(&LbParams::default(), &PATH, &mut rng);
            let evs = round(&mut lb, at(10), &mut rng);
            for ev in &evs[1..] {
                lb.on_feedback(*ev, PathFeedback::Good, at(200));
            }
            lb.on_feedback(evs[0], PathFeedback::Nack, at(250));
            let moved = lb.next_ev(at(250), &mut rng);
            counts[evs.iter().position(|ev| *ev == moved).unwrap()] += 1;
        }
        assert_eq!(counts[0], 0);
        assert!(counts[1..].iter().all(|count| (60..140).contains(count)), "{counts:?}");
    }

    #[test]
    fn all_that_are_silent_move_with_the_one_that_loses() {
        for reroute in [Reroute::Acked, Reroute::Mixed] {
            let (mut lb, mut rng, evs) = acknowledged_on(reroute, &[0, 1, 2, 3, 4, 5, 8], at(200));
            // Answers to subflows 6, 7 and 9 are overdue since 110; one to subflow 5 will be at
            // 301.
            for now in [201, 300] {
                let sent = round(&mut lb, at(now), &mut rng);
                assert_eq!(sent, evs);
            }
            lb.on_feedback(evs[9], PathFeedback::Timeout, at(300));
            let moved = round(&mut lb, at(300), &mut rng);
            assert_eq!((&moved[..6], moved[8]), (&evs[..6], evs[8]));
            for lane in [6, 7, 9] {
                let from = evs.iter().position(|ev| *ev == moved[lane]);
                assert!(from.is_some_and(|from| from < 6 || from == 8), "{moved:?} of {evs:?}");
            }
        }
    }

    #[test]
    fn a_path_is_dead_while_an_answer_of_it_is_overdue() {
        let (lb, _, evs) = acknowledged_on(Reroute::Mixed, &[0, 1], at(60));
        // Subflow 2 sent at 10 and got no answer.
        assert!(!lb.is_silent(evs[2], at(105)) && lb.is_silent(evs[2], at(120)));
        assert!(!lb.is_silent(evs[0], at(120)) && !lb.is_silent(EntropyValue(1), at(120)));
    }

    #[test]
    fn a_subflow_with_nothing_to_answer_is_not_silent() {
        let (mut lb, mut rng, evs) = acknowledged_on(Reroute::Acked, &ALL, at(120));
        lb.on_feedback(evs[1], PathFeedback::Good, at(9990));
        lb.on_feedback(evs[0], PathFeedback::Nack, at(9999));
        let moved = round(&mut lb, at(9999), &mut rng);
        assert_eq!((moved[0], &moved[1..]), (evs[1], &evs[1..]));
    }

    #[test]
    fn what_loses_and_is_answered_moves_to_a_new_path_if_mixed() {
        let (mut lb, mut rng, evs) = acknowledged_on(Reroute::Mixed, &ALL, at(200));
        lb.on_feedback(evs[2], PathFeedback::Nack, at(240));
        let moved = round(&mut lb, at(240), &mut rng);
        assert!(!evs.contains(&moved[2]), "{moved:?} of {evs:?}");
        assert_eq!((&moved[..2], &moved[3..]), (&evs[..2], &evs[3..]));
    }

    #[test]
    fn subflows_move_once_per_base_rtt() {
        for reroute in RULES {
            let (mut lb, mut rng, evs) = acknowledged_on(reroute, &ALL[1..], at(200));
            lb.on_feedback(evs[0], PathFeedback::Nack, at(250));
            let first = round(&mut lb, at(250), &mut rng);
            assert_ne!(first[0], evs[0]);
            // Losses of any subflow move none until a base RTT has passed.
            for us in 251..=350 {
                for ev in &first {
                    lb.on_feedback(*ev, PathFeedback::Timeout, at(us));
                }
                assert_eq!(round(&mut lb, at(us), &mut rng), first, "{reroute:?} after {us} us");
            }
            lb.on_feedback(first[4], PathFeedback::Nack, at(351));
            assert_ne!(round(&mut lb, at(351), &mut rng)[4], first[4], "{reroute:?}");
        }
    }

    #[test]
    fn no_subflow_moves_to_an_untried_path_while_another_one_is_acknowledged() {
        for seed in 0..300 {
            let (mut lb, _) = new(Reroute::Acked);
            let mut rng = Rng::new(seed);
            let mut acked = alloc::collections::BTreeMap::new();
            let mut before = round(&mut lb, at(0), &mut rng);
            for step in 1..200 {
                let now = at(step * 19);
                let ev = before[usize::try_from(rng.below(10)).unwrap()];
                if rng.below(3) == 0 {
                    lb.on_feedback(ev, PathFeedback::Timeout, now);
                } else {
                    lb.on_feedback(ev, PathFeedback::Good, now);
                    acked.insert(ev, now);
                }
                let lately =
                    |ev: &EntropyValue| acked.get(ev).is_some_and(|when| now.since(*when) <= RTT);
                let after = round(&mut lb, now, &mut rng);
                // Subflows move one after the other, each to a path that earlier moves have left.
                for lane in 0..10 {
                    let others = before.iter().filter(|ev| **ev != before[lane] && lately(ev));
                    if before[lane] != after[lane] && others.count() > 0 {
                        assert!(lately(&after[lane]), "seed {seed}, step {step}");
                    }
                    before[lane] = after[lane];
                }
                acked.retain(|ev, _| after.contains(ev));
            }
        }
    }

    #[test]
    fn with_nothing_acknowledged_a_new_path_is_drawn() {
        for reroute in RULES {
            let (mut lb, mut rng, evs) = acknowledged_on(reroute, &[], at(0));
            lb.on_feedback(evs[4], PathFeedback::Timeout, at(500));
            let moved = round(&mut lb, at(500), &mut rng);
            assert!(!evs.contains(&moved[4]), "{moved:?}");
        }
    }

    #[test]
    fn drawing_anew_moves_all_that_have_been_silent_for_half_a_base_rtt() {
        let (mut lb, mut rng, evs) = acknowledged_on(Reroute::Drawn, &ALL[..7], at(200));
        lb.on_feedback(evs[7], PathFeedback::Good, at(140));
        lb.on_feedback(evs[8], PathFeedback::Nack, at(240));
        let moved = round(&mut lb, at(240), &mut rng);
        assert_eq!(moved[..7], evs[..7]);
        assert!(moved[7..].iter().all(|ev| !evs.contains(ev)), "{moved:?} of {evs:?}");
    }

    #[test]
    fn news_of_a_path_that_was_left_moves_nothing() {
        let (mut lb, mut rng, evs) = acknowledged_on(Reroute::Acked, &ALL, at(200));
        lb.on_feedback(evs[0], PathFeedback::Nack, at(250));
        let moved = round(&mut lb, at(250), &mut rng);
        for ev in &moved {
            lb.on_feedback(*ev, PathFeedback::Good, at(400));
        }
        lb.on_feedback(evs[0], PathFeedback::Timeout, at(600));
        assert_eq!(round(&mut lb, at(600), &mut rng), moved);
    }
}
