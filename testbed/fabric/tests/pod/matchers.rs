//! Properties of every registered matcher, on every kernel, for any demands and any broken ports.

use fabric::pod::load::DemandPattern;
use fabric::pod::matcher::{Match, Matcher, MatcherKind, MatcherSetup, Pair};
use fabric::pod::{Chance, DemandOrder, Demands, Grant, IdlePorts, Kernel, Ladder, Shape, To};
use proptest::prelude::*;
use transport::params::{ParamValue as _, PolicyName};

/// A pod, what is asked for in it, and what is busy before the decision.
#[derive(Clone, Debug)]
struct State {
    shape: Shape,
    demands: Demands,
    ports: IdlePorts,
}

/// Every demand of the pod that there can be.
fn all(shape: &Shape) -> Vec<(usize, To)> {
    let number = |at: usize| u16::try_from(at).unwrap();
    let empty = Demands::new(*shape, Ladder::One);
    let hosts = (0..shape.hosts()).map(|host| To::Host(number(host)));
    let to: Vec<To> = hosts.chain((0..shape.pods()).map(|pod| To::Pod(number(pod)))).collect();
    let pairs = (0..shape.senders()).flat_map(|from| to.iter().map(move |to| (from, *to)));
    pairs.filter(|(from, to)| empty.has(*from, *to)).collect()
}

fn shapes() -> impl Strategy<Value = Shape> {
    let square = (2usize..=9).prop_map(|m| Shape::square(m * m).unwrap());
    let general = (1usize..=20, 1usize..=20).prop_flat_map(|(per_tor, aggs)| {
        (2..=per_tor * 8).prop_map(move |hosts| Shape::new(hosts.max(2), per_tor, aggs).unwrap())
    });
    let inside = prop_oneof![4 => square, 4 => general, 1 => Just(Shape::square(1024).unwrap())];
    (inside, any::<bool>(), 1usize..=9, 2usize..=6).prop_map(|(shape, outside, cores, pods)| {
        if outside {
            let joined = shape.with_cores(cores.min(shape.aggs() * 8), cores / 3, pods, 1);
            joined.unwrap_or(shape).with_mice_first(cores % 2 == 0)
        } else {
            shape
        }
    })
}

fn states() -> impl Strategy<Value = State> {
    let ladder = prop::sample::select(vec![Ladder::One, Ladder::Pias, Ladder::Mice, Ladder::Sizes]);
    (shapes(), ladder, 0u32..5, 0u32..4, any::<u64>()).prop_map(
        |(shape, ladder, density, broken, seed)| {
            let mut chance = Chance::new(seed);
            let mut demands = Demands::new(shape, ladder);
            let pairs = all(&shape);
            // From one in a sender's row to all of them.
            let of = [pairs.len(), shape.hosts(), 16, 4, 1][density as usize];
            for (from, to) in pairs {
                if chance.below(u32::try_from(of).unwrap()) == 0 {
                    demands.ask(from, to, 1 << chance.below(26), 0);
                    if chance.below(3) == 0 {
                        demands.set_mouse(from, to, 100);
                    }
                }
            }
            let mut ports = IdlePorts::idle(&shape);
            for _ in 0..broken * u32::try_from(shape.hosts()).unwrap() / 4 {
                let below = |chance: &mut Chance, n: usize| {
                    u16::try_from(chance.below(u32::try_from(n).unwrap())).unwrap()
                };
                let grant = Grant {
                    sender: below(&mut chance, shape.senders()),
                    to: To::Host(below(&mut chance, shape.hosts())),
                    agg: u8::try_from(below(&mut chance, shape.aggs())).unwrap(),
                    core: None,
                };
                // What does not fit is not busy either.
                let _ = ports.occupy(&shape, &grant);
            }
            State { shape, demands, ports }
        },
    )
}

fn decide(state: &State, kind: MatcherKind, kernel: Kernel, seed: u64) -> (Vec<Grant>, IdlePorts) {
    decide_with(state, &[], kind, kernel, seed)
}

fn decide_with(
    state: &State,
    first: &[Pair],
    kind: MatcherKind,
    kernel: Kernel,
    seed: u64,
) -> (Vec<Grant>, IdlePorts) {
    let mut matcher =
        Matcher::new(kind, &state.shape, MatcherSetup { kernel, ..MatcherSetup::default() });
    let mut grants = Vec::with_capacity(state.shape.senders());
    let mut ports = state.ports;
    // The second decision begins with what the first one left in the matcher.
    for round in 0..2 {
        grants.clear();
        ports = state.ports;
        let chance = &mut Chance::new(seed ^ round);
        matcher.decide(first, &state.demands, &mut ports, chance, &mut grants);
    }
    (grants, ports)
}

/// Whether a demand could still be granted.
fn fits(state: &State, ports: &IdlePorts, sender: usize, to: To) -> bool {
    let shape = &state.shape;
    if sender < shape.hosts() && !ports.may_send(shape, sender)
        || matches!(to, To::Host(host) if !ports.may_receive(shape, usize::from(host)))
    {
        return false;
    }
    let cores = || 0..state.shape.cores();
    let core_is_for = |core: usize| {
        let first_mice = state.shape.cores() - state.shape.mice_cores();
        core < first_mice || state.demands.has_mouse(sender, to)
    };
    let mut routes = (0..state.shape.aggs()).flat_map(|agg| match to {
        To::Host(_) => vec![(agg, None)],
        To::Pod(_) => {
            cores().filter(|core| core_is_for(*core)).map(|core| (agg, Some(core))).collect()
        }
    });
    routes.any(|(agg, core)| {
        let number = |at: usize| u16::try_from(at).unwrap();
        let agg = u8::try_from(agg).unwrap();
        let grant = Grant { sender: number(sender), to, agg, core: core.map(number) };
        ports.clone().occupy(&state.shape, &grant)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn pairs_that_come_first_are_granted_before_all_others(state in states(), seed: u64) {
        let mut chance = Chance::new(seed);
        let pair = |(at, to): (usize, To)| (u16::try_from(at).unwrap(), to);
        let all: Vec<Pair> = state.demands.in_order(DemandOrder::Age).map(pair).collect();
        prop_assume!(!all.is_empty());
        let count = u32::try_from(all.len()).unwrap();
        let first: Vec<Pair> = (0..20).map(|_| all[chance.below(count) as usize]).collect();
        let (sender, to) = first[0];
        for kind in MatcherKind::ALL {
            // Where links leave the pod, `exact` may have no path left for a pair.
            if *kind == MatcherKind::Exact && state.shape.cores() > 0
                || !fits(&state, &state.ports, sender.into(), to)
            {
                continue;
            }
            let (grants, left) = decide_with(&state, &first, *kind, Kernel::Scalar, seed);
            let granted = grants.iter().any(|grant| (grant.sender, grant.to) == (sender, to));
            prop_assert!(granted, "{}: {sender} to {to:?}", kind.name());
            let mut ports = state.ports;
            let apart = grants.iter().all(|grant| ports.occupy(&state.shape, grant));
            prop_assert!(apart && ports == left, "{}", kind.name());
        }
    }

    #[test]
    fn grants_are_for_open_demands_and_take_every_port_once(state in states(), seed: u64) {
        for kind in MatcherKind::ALL {
            let (grants, left) = decide(&state, *kind, Kernel::Scalar, seed);
            let mut ports = state.ports;
            for grant in &grants {
                let sender = usize::from(grant.sender);
                prop_assert!(state.demands.backlog(sender, grant.to) > 0, "{:?}", grant);
                prop_assert!(ports.occupy(&state.shape, grant), "{}: {:?}", kind.name(), grant);
                if let Some(core) = grant.core {
                    let first_mice = state.shape.cores() - state.shape.mice_cores();
                    let mouse = state.demands.has_mouse(sender, grant.to);
                    prop_assert!(usize::from(core) < first_mice || mouse);
                }
            }
            prop_assert_eq!(ports, left, "{}", kind.name());
        }
    }

    #[test]
    fn all_kernels_give_the_same_grants(state in states(), seed: u64) {
        for kind in MatcherKind::ALL {
            let oracle = decide(&state, *kind, Kernel::Scalar, seed);
            for kernel in Kernel::ALL.iter().filter(|kernel| kernel.is_supported()) {
                let found = decide(&state, *kind, *kernel, seed);
                prop_assert_eq!(&found, &oracle, "{} {:?}", kind.name(), kernel);
            }
        }
    }

    #[test]
    fn greedy_and_exact_leave_nothing_that_fits(state in states(), seed: u64) {
        for kind in [MatcherKind::Greedy, MatcherKind::Exact] {
            let (_, ports) = decide(&state, kind, Kernel::best(), seed);
            for (sender, to) in all(&state.shape) {
                if state.demands.backlog(sender, to) > 0 {
                    let left = fits(&state, &ports, sender, to);
                    prop_assert!(!left, "{} {sender} {to}", kind.name());
                }
            }
        }
    }
}

#[test]
fn mice_take_a_core_of_their_own_where_one_is_idle_and_the_pod_says_so() {
    let plain = Shape::square(16).unwrap().with_cores(7, 2, 8, 0).unwrap();
    for (shape, first) in [(plain, false), (plain.with_mice_first(true), true)] {
        let mut demands = Demands::new(shape, Ladder::Sizes);
        for (host, mouse) in [(0, true), (5, true), (10, true), (15, false)] {
            demands.ask(host, To::Pod(3), 1000, 0);
            if mouse {
                demands.set_mouse(host, To::Pod(3), 1000);
            }
        }
        let state = State { shape, demands, ports: IdlePorts::idle(&shape) };
        for (kind, seed) in MatcherKind::ALL.iter().flat_map(|kind| (0..20).map(|s| (*kind, s))) {
            let (grants, _) = decide(&state, kind, Kernel::Scalar, seed);
            let core_of = |host| {
                grants.iter().find(|grant| grant.sender == host).and_then(|grant| grant.core)
            };
            assert!(core_of(15).is_some_and(|core| core < 5), "{kind:?}: {grants:?}");
            let own = [0, 5, 10].into_iter().filter_map(core_of).filter(|core| *core >= 5);
            // Two of the three find one of the two idle; the last takes any other.
            assert!(!first || kind == MatcherKind::Iterative || own.count() == 2, "{grants:?}");
        }
    }
}

/// A matcher whose name is no [`PolicyName`] would be listed and could not be chosen.
#[test]
fn every_name_can_be_set() {
    for name in MatcherKind::NAMES {
        assert!(PolicyName::parse(name).is_some_and(|named| named.show() == *name), "{name}");
    }
}

/// A clone keeps no spare room, which must not change what it decides.
#[test]
fn a_cloned_matcher_decides_as_its_original() {
    let shape = Shape::square(64).unwrap();
    for kind in MatcherKind::ALL {
        for wanted in [1, 4, 63] {
            let demands =
                DemandPattern::Some(wanted).demands(&shape, Ladder::One, &mut Chance::new(3));
            let mut original = Matcher::new(*kind, &shape, MatcherSetup::default());
            for seed in 0..8 {
                let decide = |matcher: &mut Matcher| {
                    let (mut grants, mut ports) = (Vec::new(), IdlePorts::idle(&shape));
                    matcher.decide(&[], &demands, &mut ports, &mut Chance::new(seed), &mut grants);
                    grants
                };
                let mut clone = original.clone();
                assert_eq!(decide(&mut clone), decide(&mut original), "{}", kind.name());
            }
        }
    }
}

fn permutation(hosts: usize, chance: &mut Chance) -> Vec<u16> {
    let mut order: Vec<u16> = (0..u16::try_from(hosts).unwrap()).collect();
    for at in (1..hosts).rev() {
        order.swap(at, chance.below(u32::try_from(at + 1).unwrap()) as usize);
    }
    order
}

#[test]
fn exact_routes_every_permutation_in_full() {
    let mut chance = Chance::new(18);
    for m in 2..=32 {
        let shape = Shape::square(m * m).unwrap();
        let mut matcher = Matcher::new(MatcherKind::Exact, &shape, MatcherSetup::default());
        let mut grants = Vec::with_capacity(shape.senders());
        let mut demands = Demands::new(shape, Ladder::One);
        for _ in 0..40 {
            demands.clear();
            for (from, to) in permutation(shape.hosts(), &mut chance).into_iter().enumerate() {
                if usize::from(to) != from {
                    demands.ask(from, To::Host(to), 1, 0);
                }
            }
            grants.clear();
            let mut ports = IdlePorts::idle(&shape);
            matcher.decide(&[], &demands, &mut ports, &mut chance, &mut grants);
            assert_eq!(grants.len(), demands.open(), "m = {m}");
        }
    }
}
