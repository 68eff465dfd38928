//! Faster code decides the same: results of runs are kept, and follow from every grant and from
//! every random number that a matcher draws. The constants are of the code before it became faster.

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
        // More Aggs than ToRs, ToRs of one host, and the smallest pod.
        Shape::new(30, 2, 20).unwrap(),
        Shape::new(32, 1, 1).unwrap(),
        square(2),
        square(16).with_cores(7, 1, 8, 0).unwrap(),
        square(64).with_cores(11, 3, 5, 2).unwrap().with_mice_first(true),
    ]
}

/// Demands inside the pod, and some to other pods, from Cores, and of mice.
fn demands(shape: &Shape, load: DemandPattern, ladder: Ladder, chance: &mut Chance) -> Demands {
    let mut demands = load.demands(shape, ladder, chance);
    for sender in (0..shape.senders()).filter(|_| shape.cores() > 0) {
        for _ in 0..3 {
            let to = if sender < shape.hosts() {
                To::Pod(below(shape.pods(), chance))
            } else {
                To::Host(below(shape.hosts(), chance))
            };
            let (bytes, has_mouse) = (1 << chance.below(24), chance.below(3) == 0);
            if demands.has(sender, to) {
                demands.ask(sender, to, bytes, 0);
                if has_mouse {
                    demands.set_mouse(sender, to, 600);
                }
            }
        }
    }
    demands
}

fn below(n: usize, chance: &mut Chance) -> u16 {
    u16::try_from(chance.below(u32::try_from(n).unwrap())).unwrap()
}

/// Ports of which some are taken by grants inside the pod, and others by grants that use a link in
/// one direction alone.
fn ports(shape: &Shape, taken: usize, one_way: usize, chance: &mut Chance) -> IdlePorts {
    // Only paths to and from Cores use one link of a ToR. A matcher reads no ports of Cores that
    // its pod lacks.
    let joined = match shape.cores() {
        0 => shape.with_cores(2 * shape.aggs(), 0, 2, 0).unwrap(),
        _ => *shape,
    };
    let mut ports = IdlePorts::idle(&joined);
    // What does not fit is not taken either.
    for _ in 0..taken {
        let (sender, to) = (below(shape.senders(), chance), To::Host(below(shape.hosts(), chance)));
        let agg = u8::try_from(below(shape.aggs(), chance)).unwrap();
        let _ = ports.occupy(&joined, &Grant { sender, to, agg, core: None });
    }
    for _ in 0..one_way {
        let (host, core) = (below(shape.hosts(), chance), below(joined.cores(), chance));
        let agg = u8::try_from(joined.core_place(core.into()).0).unwrap();
        let from_core = u16::try_from(joined.hosts()).unwrap() + core;
        let other = To::Pod(u16::from(joined.pod() == 0));
        let grant = match chance.below(3) {
            0 => Grant { sender: host, to: other, agg, core: Some(core) },
            _ => Grant { sender: from_core, to: To::Host(host), agg, core: None },
        };
        let _ = ports.occupy(&joined, &grant);
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
    let (mut all, mut mice, mut on_mice_cores) = (0, 0, 0);
    for shape in shapes {
        let mut matcher =
            Matcher::new(kind, shape, MatcherSetup { kernel, ..MatcherSetup::default() });
        let mut grants = Vec::with_capacity(shape.senders());
        let first_mice = shape.cores() - shape.mice_cores();
        for ladder in Ladder::ALL {
            for (each, taken, one_way) in
                [(usize::MAX, 0, 0), (24, 30, 0), (9, 0, 0), (3, 12, 0), (40, 0, 40), (6, 4, 20)]
            {
                let demands = demands(shape, DemandPattern::Some(each), ladder, &mut chance);
                let pair = |(at, to): (usize, To)| (u16::try_from(at).unwrap(), to);
                let open = || demands.in_order(DemandOrder::Turn);
                mice += open().filter(|(at, to)| demands.has_mouse(*at, *to)).count();
                let first: Vec<_> = open().map(pair).take(taken / 4).collect();
                let mut ports = ports(shape, taken, one_way, &mut chance);
                grants.clear();
                matcher.decide(&first, &demands, &mut ports, &mut chance, &mut grants);
                let of_mice =
                    |grant: &&Grant| grant.core.is_some_and(|at| usize::from(at) >= first_mice);
                on_mice_cores += grants.iter().filter(of_mice).count();
                all = grants.iter().fold(all, digest);
                // As many random numbers were drawn.
                all = mix(all ^ chance.clone().next());
            }
        }
    }
    let name = kind.name();
    assert!(mice > 0 && on_mice_cores > 0, "{name}: {mice} mice, {on_mice_cores} on their Cores");
    all
}

#[test]
fn decisions_are_those_of_the_results_that_are_kept() {
    let shapes = shapes();
    let kept = [
        (MatcherKind::Iterative, 15_694_198_147_684_470_697),
        (MatcherKind::Greedy, 6_813_863_184_845_320_631),
        (MatcherKind::Exact, 11_391_725_290_426_387_705),
    ];
    for kernel in Kernel::ALL.iter().filter(|kernel| kernel.is_supported()) {
        let found = kept.map(|(kind, _)| (kind, decisions(kind, *kernel, &shapes)));
        assert_eq!(found, kept, "{}", kernel.name());
    }
}
