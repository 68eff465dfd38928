//! Cost of a balancer alone: a steady flow of 1000 packets a base RTT, each of which is answered or
//! found lost a tenth of that later than it could be.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant as Wall;

use transport::cc::Path;
use transport::lb::{Lb, LbKind, LbParams, LoadBalancer as _, PathFeedback};
use transport::{Bytes, Duration, EntropyValue, Instant, Rate, Rng};

/// The paths that are dead, and whether the flow is coded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// None.
    Healthy,
    /// An eighth of them, as one of eight links.
    DeadLink,
    /// All.
    Unplugged,
    /// As in `DeadLink`, for a flow with blocks of 8 packets and 2 of parity. The first two losses
    /// of a block are not reported.
    Coded,
}

impl Case {
    /// All, with their names.
    pub(crate) const ALL: [(&'static str, Self); 4] = [
        ("healthy", Self::Healthy),
        ("dead-link", Self::DeadLink),
        ("unplugged", Self::Unplugged),
        ("coded", Self::Coded),
    ];

    /// Whether a packet on this path arrives.
    fn arrives(self, ev: EntropyValue) -> bool {
        match self {
            Self::Healthy => true,
            Self::DeadLink | Self::Coded => !ev.0.is_multiple_of(8),
            Self::Unplugged => false,
        }
    }

    /// Packets of a block; 0 without code.
    fn block(self) -> u8 {
        if self == Self::Coded { 10 } else { 0 }
    }
}

/// One flow's balancer and its virtual time.
pub(crate) struct Steady {
    lb: Lb,
    case: Case,
    rng: Rng,
    now: Instant,
    /// Packets without an answer, [`FLYING`] at most.
    flying: VecDeque<EntropyValue>,
    /// Packets of this block that were answered, and how many of these were lost.
    answered: u8,
    lost: u8,
}

const PACKET: Duration = Duration::from_ns(42);
const RTT: Duration = Duration::from_us(42);
/// Packets until the fate of one is known.
const FLYING: usize = 1100;

impl Steady {
    /// A flow's balancer that has sent nothing.
    pub(crate) fn new(kind: LbKind, case: Case) -> Self {
        let mut rng = Rng::new(1);
        let path = Path { base_rtt: RTT, line_rate: Rate::from_gbps(800), mtu: Bytes(4160) };
        let lb = Lb::new(kind, &LbParams::default(), &path, case.block(), &mut rng);
        let flying = VecDeque::with_capacity(FLYING);
        Self { lb, case, rng, now: Instant::ZERO, flying, answered: 0, lost: 0 }
    }

    /// Runs `count` packets; nanoseconds for each.
    pub(crate) fn run(&mut self, count: u64) -> f64 {
        let start = Wall::now();
        (0..count).for_each(|_| self.packet());
        start.elapsed().as_nanos() as f64 / count as f64
    }

    /// Reports the fate of a packet, if the flow is notified of it.
    fn answer(&mut self, ev: EntropyValue) {
        if self.answered == self.case.block() {
            (self.answered, self.lost) = (0, 0);
        }
        self.answered += u8::from(self.case.block() > 0);
        let fate = if self.case.arrives(ev) {
            PathFeedback::Good
        } else {
            self.lost += 1;
            if self.case == Case::Coded && self.lost <= 2 {
                return;
            }
            PathFeedback::Lost
        };
        part_on_feedback(&mut self.lb, ev, fate, self.now);
    }

    /// Sends a packet, behind the answer to one before it.
    fn packet(&mut self) {
        self.now += PACKET;
        let due = if self.flying.len() == FLYING { self.flying.pop_front() } else { None };
        if let Some(ev) = due {
            self.answer(black_box(ev));
        }
        self.flying.push_back(part_next_ev(&mut self.lb, self.now, &mut self.rng));
    }
}

/// A function of its own, so that callgrind shows it.
#[inline(never)]
fn part_next_ev(lb: &mut Lb, now: Instant, rng: &mut Rng) -> EntropyValue {
    lb.next_ev(now, rng)
}

/// As [`part_next_ev`].
#[inline(never)]
fn part_on_feedback(lb: &mut Lb, ev: EntropyValue, what: PathFeedback, now: Instant) {
    lb.on_feedback(ev, what, now);
}
