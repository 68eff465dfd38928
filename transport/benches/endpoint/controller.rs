//! Cost of a controller alone: streams of acknowledgements that keep it in one case.

use std::hint::black_box;
use std::time::Instant as Wall;

use transport::cc::{AckSample, Cc, CcKind, CcParams, CongestionControl as _, LossSample, Path};
use transport::{Bytes, Duration, Instant, Rate};

/// The state of the path that the acknowledgements of a stream report.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// No queue.
    FastIncrease,
    /// A queue below target.
    Proportional,
    /// A queue above target, no marks.
    Fair,
    /// A queue above target, marked.
    Decrease,
    /// A queue below target, marked.
    Marked,
    /// A trim at the end of the measurement that began with the trim before it.
    QuickAdapt,
}

impl Case {
    /// All, with their names.
    pub(crate) const ALL: [(&'static str, Self); 6] = [
        ("quick-adapt", Self::QuickAdapt),
        ("fast-increase", Self::FastIncrease),
        ("proportional-increase", Self::Proportional),
        ("fair-increase", Self::Fair),
        ("decrease", Self::Decrease),
        ("marked-below-target", Self::Marked),
    ];
}

/// One controller and its virtual time.
pub(crate) struct Alone {
    cc: Cc,
    path: Path,
    now: Instant,
}

const MTU: Bytes = Bytes(4160);

const NEAR: Path =
    Path { base_rtt: Duration::from_us(12), line_rate: Rate::from_gbps(800), mtu: MTU };
/// Between two datacentres of Uno's paper.
const FAR: Path =
    Path { base_rtt: Duration::from_ms(2), line_rate: Rate::from_gbps(100), mtu: MTU };

impl Alone {
    /// A controller on the path of SMaRTT's paper, [`FAR`] for UnoCC.
    pub(crate) fn new(kind: CcKind) -> Self {
        let path = if kind == CcKind::UnoCc { FAR } else { NEAR };
        let cc = Cc::new(kind, &CcParams::default(), &path);
        Self { cc, path, now: Instant::ZERO + path.base_rtt }
    }

    /// Runs `count` acknowledgements, 64 of each case in turn; nanoseconds for each.
    pub(crate) fn run(&mut self, count: u64) -> f64 {
        let cases = Case::ALL.iter().filter(|(_, case)| *case != Case::QuickAdapt);
        let mut turns = cases.map(|(_, case)| *case).cycle();
        let start = Wall::now();
        for _ in 0..count / 64 {
            let case = turns.next().unwrap_or(Case::Fair);
            (0..64).for_each(|_| self.ack(case));
        }
        start.elapsed().as_nanos() as f64 / (count / 64 * 64) as f64
    }

    /// One acknowledgement.
    pub(crate) fn ack(&mut self, case: Case) {
        let base = self.path.base_rtt;
        let (rtt, ecn) = match case {
            Case::FastIncrease | Case::QuickAdapt => (base, false),
            Case::Proportional => (base * 6 / 5, false),
            Case::Fair => (base * 8 / 5, false),
            Case::Decrease => (base * 8 / 5, true),
            Case::Marked => (base * 6 / 5, true),
        };
        self.now += Duration::from_ns(42);
        // With nothing in flight QuickAdapt ignores nothing afterwards.
        let in_flight = if case == Case::QuickAdapt { Bytes::ZERO } else { Bytes(100 * MTU.0) };
        if case == Case::QuickAdapt {
            let (now, sent_at) = (self.now, self.now);
            let loss = LossSample { now, sent_at, bytes: MTU, in_flight, sharers: 0, by: None };
            self.cc.on_nack(&loss, &self.path);
            self.now += base * 2;
        }
        let held = Duration::ZERO;
        let sample = AckSample { now: self.now, rtt, held, acked: MTU, in_flight, ecn, sharers: 0 };
        part_on_ack(&mut self.cc, black_box(&sample), &self.path);
    }
}

/// A function of its own, so that callgrind shows it.
#[inline(never)]
fn part_on_ack(cc: &mut Cc, sample: &AckSample, path: &Path) {
    cc.on_ack(sample, path);
}
