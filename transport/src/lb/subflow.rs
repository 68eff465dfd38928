//! UnoLB: a flow's segments go round a few subflows, each with a path of its own, so that the
//! packets of an erasure-coded block meet different failures; a subflow that loses is moved to the
//! path of one that does not. Source: \[uno\] sec. 4.2, algorithm 2.
//!
//! ```text
//!   segment      0    1    2   ...   9   10   11      next = (next + 1) mod subflows
//!   subflow      0    1    2   ...   9    0    1
//!                     |
//!                     NACK or timeout, none in the last base RTT: takes the path of a subflow
//!                     that was acknowledged in the last base RTT
//! ```
//!
//! With as many subflows as a block has packets, each packet of a block takes another one. It does
//! not react to marks: congestion is the controller's.

use super::{LbParams, LoadBalancer, PathFeedback, draw};
use crate::params::words;
use crate::path::Path;
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use crate::units::EntropyValue;

words! {
    /// Where a subflow that loses is moved.
    pub enum Reroute: "acked or drawn" {
        /// To the path of a subflow that was acknowledged lately, as the paper has it.
        Acked = "acked",
        /// To a new path; with it go all subflows that have not been acknowledged for half a base
        /// RTT, as in the simulator that the paper's figures were made with.
        Drawn = "drawn",
    }
}

/// Subflows at most: the packets of a (16,4) block.
const SUBFLOWS_MAX: u8 = 20;
/// Draws until two subflows share a path all the same: one in 10^9 with twice as many paths as
/// subflows.
const DRAWS: u8 = 32;

/// One subflow.
#[derive(Clone, Copy, Debug)]
struct Lane {
    ev: EntropyValue,
    /// When a segment of it was last acknowledged, in wire time: half the size, and an
    /// acknowledgement looks new again only after 4.4 s.
    acked_at: u32,
}

/// The subflows of one flow.
#[derive(Clone, Debug)]
pub struct Subflow {
    /// The first `count` are meaningful.
    lanes: [Lane; SUBFLOWS_MAX as usize],
    /// Subflows that were ever acknowledged on their present path, as a bitmap.
    acked: u32,
    /// Subflows to be moved when their turn comes, as a bitmap: only then chance is at hand.
    moving: u32,
    /// 1..=`SUBFLOWS_MAX`.
    count: u8,
    /// Whose turn is next, 0..`count`.
    next: u8,
    paths: u16,
    reroute: Reroute,
    base_rtt: Duration,
    /// When subflows were last moved.
    rerouted_at: Option<Instant>,
}

const _: () = assert!(SUBFLOWS_MAX as u32 <= u32::BITS);
const _: () = assert!(size_of::<Subflow>() <= 216);

impl Subflow {
    /// Draws a path for each subflow, all different while there are enough.
    #[must_use]
    pub fn new(params: &LbParams, path: &Path, rng: &mut Rng) -> Self {
        let count = u8::try_from(params.subflows).unwrap_or(SUBFLOWS_MAX).clamp(1, SUBFLOWS_MAX);
        let unknown = Lane { ev: EntropyValue(0), acked_at: 0 };
        let mut all = Self {
            lanes: [unknown; SUBFLOWS_MAX as usize],
            acked: 0,
            moving: 0,
            count,
            next: 0,
            paths: params.paths,
            reroute: params.reroute,
            base_rtt: path.base_rtt,
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

    /// The path of one of the other subflows that were acknowledged in the last base RTT, each
    /// alike; a new one when there is none, because all known ones may be dead.
    fn draw_alive(&self, now: Instant, rng: &mut Rng) -> EntropyValue {
        let failed = self.lanes[usize::from(self.next)].ev;
        let alive = || {
            let lanes = self.lanes().iter().enumerate();
            let others = lanes.filter(|(_, lane)| lane.ev != failed);
            others.filter(|(i, _)| self.is_alive(*i, now, self.base_rtt)).map(|(_, lane)| lane.ev)
        };
        let Ok(count @ 1..) = u64::try_from(alive().count()) else { return self.draw_unused(rng) };
        let picked = usize::try_from(rng.below(count)).unwrap_or(0);
        alive().nth(picked).unwrap_or(failed)
    }

    /// A segment that travelled with `ev` is lost: which subflows are to move.
    fn suspect(&mut self, ev: EntropyValue, now: Instant) {
        //= uno#alg2
        // Lines 6 to 8.
        if self.rerouted_at.is_some_and(|at| now.since(at) <= self.base_rtt) {
            return;
        }
        let mut moving = 0;
        for (i, lane) in self.lanes().iter().enumerate() {
            let moves = match self.reroute {
                Reroute::Acked => lane.ev == ev,
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

impl LoadBalancer for Subflow {
    fn next_ev(&mut self, now: Instant, rng: &mut Rng) -> EntropyValue {
        let lane = usize::from(self.next);
        let bit = 1 << self.next;
        if self.moving & bit != 0 {
            self.moving &= !bit;
            let ev = match self.reroute {
                Reroute::Acked => self.draw_alive(now, rng),
                Reroute::Drawn => self.draw_unused(rng),
            };
            self.lanes[lane].ev = ev;
            self.acked &= !bit;
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
                    }
                }
            }
            PathFeedback::Nack | PathFeedback::Timeout => self.suspect(ev, now),
        }
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
        let params = LbParams { reroute, ..LbParams::default() };
        (Subflow::new(&params, &PATH, &mut rng), rng)
    }

    fn round(lb: &mut Subflow, now: Instant, rng: &mut Rng) -> Vec<EntropyValue> {
        (0..10).map(|_| lb.next_ev(now, rng)).collect()
    }

    #[test]
    fn each_packet_of_a_block_of_ten_takes_another_path_and_the_next_block_the_same_ones() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let mut lb = Subflow::new(&LbParams::default(), &PATH, &mut rng);
            let first = round(&mut lb, at(1), &mut rng);
            assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 10, "{first:?}");
            assert_eq!(round(&mut lb, at(2), &mut rng), first);
        }
    }

    #[test]
    fn a_subflow_that_loses_moves_to_a_path_that_was_acknowledged_lately() {
        let (mut lb, mut rng) = new(Reroute::Acked);
        let evs = round(&mut lb, at(10), &mut rng);
        // 3 and 4 are alive; 5 was, more than a base RTT ago.
        lb.on_feedback(evs[5], PathFeedback::Good, at(150));
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
    fn subflows_move_once_per_base_rtt() {
        let (mut lb, mut rng) = new(Reroute::Acked);
        let evs = round(&mut lb, at(10), &mut rng);
        lb.on_feedback(evs[9], PathFeedback::Good, at(200));
        lb.on_feedback(evs[0], PathFeedback::Nack, at(250));
        lb.on_feedback(evs[1], PathFeedback::Nack, at(250));
        lb.on_feedback(evs[2], PathFeedback::Timeout, at(350));
        let moved = round(&mut lb, at(260), &mut rng);
        assert_eq!((moved[0], &moved[1..]), (evs[9], &evs[1..]));
        lb.on_feedback(evs[9], PathFeedback::Good, at(340));
        lb.on_feedback(evs[1], PathFeedback::Nack, at(351));
        assert_eq!(round(&mut lb, at(351), &mut rng)[1], evs[9]);
    }

    #[test]
    fn with_nothing_acknowledged_a_new_path_is_drawn() {
        let (mut lb, mut rng) = new(Reroute::Acked);
        let evs = round(&mut lb, at(10), &mut rng);
        lb.on_feedback(evs[4], PathFeedback::Timeout, at(500));
        let moved = round(&mut lb, at(500), &mut rng);
        assert!(!evs.contains(&moved[4]), "{moved:?}");
    }

    #[test]
    fn drawing_anew_moves_all_that_have_been_silent_for_half_a_base_rtt() {
        let (mut lb, mut rng) = new(Reroute::Drawn);
        let evs = round(&mut lb, at(10), &mut rng);
        for ev in &evs[..7] {
            lb.on_feedback(*ev, PathFeedback::Good, at(200));
        }
        lb.on_feedback(evs[7], PathFeedback::Good, at(140));
        lb.on_feedback(evs[8], PathFeedback::Nack, at(240));
        let moved = round(&mut lb, at(240), &mut rng);
        assert_eq!(moved[..7], evs[..7]);
        assert!(moved[7..].iter().all(|ev| !evs.contains(ev)), "{moved:?} of {evs:?}");
    }

    #[test]
    fn news_of_a_path_that_was_left_moves_nothing() {
        let (mut lb, mut rng) = new(Reroute::Acked);
        let evs = round(&mut lb, at(10), &mut rng);
        lb.on_feedback(evs[0], PathFeedback::Nack, at(250));
        let moved = round(&mut lb, at(250), &mut rng);
        lb.on_feedback(evs[0], PathFeedback::Timeout, at(600));
        assert_eq!(round(&mut lb, at(600), &mut rng), moved);
    }
}
