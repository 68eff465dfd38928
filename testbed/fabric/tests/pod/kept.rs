//! Faster code decides the same: results of runs are kept, and follow from every grant and from
//! every random number that a matcher draws.

use fabric::pod::load::DemandPattern;
use fabric::pod::matcher::{Match, Matcher, MatcherKind, MatcherSetup};
use fabric::pod::{Chance, DemandOrder, Demands, Grant, IdlePorts, Kernel, Ladder, Shape, To};
use transport::rng::mix;

/// Pods of every kind: full and not, small and large, with Cores and without.
fn shapes() -> Vec<Shape> {
    let square = |hosts| Shape::square(hosts).unwrap();
    vec![
        square(16),
        square(64),
        square(250),
        square(256),
        square(1024),
        Shape::new(90, 6, 11).unwrap(),
        Shape::new(60, 20, 3).unwrap(),
        square(16).with_cores(7, 1, 8, 0).unwrap(),
        square(64).with_cores(11, 3, 5, 2).unwrap().with_mice_first(true),
    ]
}

/// Demands inside the pod, and some to other pods, from Cores, and of mice.
fn demands(shape: &Shape, load: DemandPattern, ladder: Ladder, chance: &mut Chance) -> Demands {
    let mut demands = load.demands(shape, ladder, chance);
    let mut outside = |sender: usize, to: To, bytes: u32| {
        if demands.has(sender, to) {
            demands.ask(sender, to, bytes, 0);
            if bytes.is_multiple_of(3) {
                demands.set_mouse(sender, to, 600);
            }
        }
    };
    for sender in (0..shape.senders()).filter(|_| shape.cores() > 0) {
        for _ in 0..3 {
            let to = if sender < shape.hosts() {
                To::Pod(u16::try_from(chance.below(8)).unwrap())
            } else {
                let hosts = u32::try_from(shape.hosts()).unwrap();
                To::Host(u16::try_from(chance.below(hosts)).unwrap())
            };
            outside(sender, to, 1 << chance.below(24));
        }
    }
    demands
}

/// Ports of which some are taken.
fn ports(shape: &Shape, taken: usize, chance: &mut Chance) -> IdlePorts {
    let mut ports = IdlePorts::idle(shape);
    let mut below = |n: usize| u16::try_from(chance.below(u32::try_from(n).unwrap())).unwrap();
    for _ in 0..taken {
        let (sender, to) = (below(shape.senders()), To::Host(below(shape.hosts())));
        let agg = u8::try_from(below(shape.aggs())).unwrap();
        // What does not fit is not taken either.
        let _ = ports.occupy(shape, &Grant { sender, to, agg, core: None });
    }
    ports
}

fn digest(of: u64, grant: &Grant) -> u64 {
    let to = match grant.to {
        To::Host(host) => u64::from(host),
        To::Pod(pod) => 1 << 16 | u64::from(pod),
    };
    let core = grant.core.map_or(0, |core| 1 + u64::from(core));
    let grant = u64::from(grant.sender) << 48 | to << 24 | u64::from(grant.agg) << 16 | core;
    mix(of ^ grant)
}

/// Decisions of a matcher in all pods under all loads, as one number.
fn decisions(kind: MatcherKind, kernel: Kernel, shapes: &[Shape]) -> u64 {
    let mut chance = Chance::new(18);
    let mut all = 0;
    for shape in shapes {
        let mut matcher =
            Matcher::new(kind, shape, MatcherSetup { kernel, ..MatcherSetup::default() });
        let mut grants = Vec::with_capacity(shape.senders());
        for ladder in Ladder::ALL {
            for (each, taken) in [(usize::MAX, 0), (24, 30), (9, 0), (3, 12)] {
                let demands = demands(shape, DemandPattern::Some(each), ladder, &mut chance);
                let pair = |(at, to): (usize, To)| (u16::try_from(at).unwrap(), to);
                let first: Vec<_> =
                    demands.in_order(DemandOrder::Turn).map(pair).take(taken / 4).collect();
                let mut ports = ports(shape, taken, &mut chance);
                grants.clear();
                matcher.decide(&first, &demands, &mut ports, &mut chance, &mut grants);
                all = grants.iter().fold(all, digest);
                // As many random numbers were drawn.
                all = mix(all ^ chance.clone().next());
            }
        }
    }
    all
}

#[test]
fn decisions_are_those_of_the_results_that_are_kept() {
    let shapes = shapes();
    let kept = [
        (MatcherKind::Iterative, 56_573_720_087_987_553),
        (MatcherKind::Greedy, 2_630_076_364_970_467_065),
        (MatcherKind::Exact, 8_254_171_889_487_517_385),
    ];
    for kernel in Kernel::ALL.iter().filter(|kernel| kernel.is_supported()) {
        let found = kept.map(|(kind, _)| (kind, decisions(kind, *kernel, &shapes)));
        assert_eq!(found, kept, "{}", kernel.name());
    }
}
