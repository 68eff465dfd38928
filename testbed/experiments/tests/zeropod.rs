//! Tests of Zeropod in a pod: when cells arrive, to the picosecond where a formula says it, that
//! none meet, and what hosts that break the rules can do.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]
#![allow(clippy::cast_possible_truncation, reason = "numbers of a few hosts")]

mod plans;
mod pods;

use experiments::measure::Outcome;
use experiments::progress::Unwatched;
use experiments::virtual_time;
use transport::sched::zeropod::timing::{Timing, TimingInputs};
use transport::{Bytes, Duration, Instant, Rate, Rng};

use pods::{Flow, plan};

/// Runs flows, all of which finish without a loss or a queue.
fn run(topology: &str, transport: &str, flows: &[Flow]) -> Outcome {
    let outcome =
        virtual_time::run(&plan(topology, transport, &[], flows), &mut Unwatched).unwrap();
    assert_clean(&outcome, flows.len() as u64);
    outcome
}

fn assert_clean(outcome: &Outcome, flows: u64) {
    let summary = &outcome.summary;
    assert!(summary.audit.ok, "{:?}", summary.audit);
    assert_eq!(summary.flows.finished, flows);
    assert!(summary.drops.is_empty(), "{:?}", summary.drops);
    assert_eq!((outcome.stats.retransmitted, summary.queue_bytes.unwrap().max), (0, 0));
    let pods = summary.scheduler.as_ref().unwrap();
    assert_eq!((pods.collisions, pods.late, pods.refused), (0, 0, 0));
    assert_eq!((pods.cells, pods.unused), (outcome.stats.data_new, 0), "all that was granted");
}

fn timing(gbps: u64) -> Timing {
    Timing::new(&TimingInputs {
        cell: Bytes(552),
        control: Bytes(40),
        rate: Rate::from_gbps(gbps),
        hop: Duration::from_us(1),
        cells: 16,
        guard: Duration::ZERO,
        delay: Duration::from_us(15),
        layers: 0,
        early: Duration::ZERO,
        guards_answers: false,
    })
}

/// When the last cell of a flow of `size` bytes arrives. The flow starts with an epoch, and its
/// host gets one epoch in `per_tor`. The time has four parts: D epochs after the request, all of
/// its epochs, the slot, the way.
fn arrival(timing: &Timing, (src, dst, size): (u32, u32, u64), per_tor: u32) -> Duration {
    let cells = size.div_ceil(512);
    let (epochs, last) = ((cells - 1) / 16, (cells - 1) % 16);
    let number = |host: u32| u16::try_from(host % per_tor).unwrap();
    let slot = timing.cell_at(u16::try_from(last).unwrap(), number(src), number(dst));
    timing.epoch * (timing.request_to_data() + epochs) + slot + timing.flight
}

#[test]
fn a_lone_flow_arrives_when_its_epochs_and_slots_say() {
    let mut rng = Rng::new(4);
    for (topology, gbps) in [("zeropod:32", 100), ("zeropod-2x:32", 200)] {
        let timing = timing(gbps);
        for transport in ["zeropod", "zeropod-paper"] {
            for size in [1, 512, 513, 10_000, 100_000, 1_000_000] {
                let src = rng.below(256) as u32;
                let dst = (src + 1 + rng.below(255) as u32) % 256;
                let outcome = run(topology, transport, &[(src, dst, size, 0)]);
                let expected = arrival(&timing, (src, dst, size), 16);
                let record = &outcome.records[0];
                assert_eq!(
                    record.delivered_at.since(Instant::ZERO),
                    expected,
                    "{src} {dst} {size}"
                );
                // The receipt is back before the next demand could be answered.
                let known = record.acked_at.since(record.delivered_at);
                assert!(known < timing.epoch * timing.request_to_data());
            }
        }
    }
}

#[test]
fn the_papers_set_up_takes_as_long_as_the_timing_budget_says() {
    for (topology, size, us) in [
        ("zeropod:32", 512, 25.6),
        ("zeropod:32", 10_000, 26.4),
        ("zeropod:32", 100_000, 34.3),
        ("zeropod:32", 10_000_000, 895.9),
        ("zeropod-2x:32", 512, 24.4),
        ("zeropod-2x:32", 100_000, 28.8),
    ] {
        let outcome = run(topology, "zeropod", &[(3, 200, size, 0)]);
        let took = outcome.summary.completion_us.unwrap();
        assert!((took - us).abs() < 0.06, "{topology}, {size} bytes: {took} us, not {us}");
    }
}

#[test]
fn an_incast_takes_one_epoch_after_another() {
    for senders in [4, 32, 255] {
        let flows: Vec<Flow> = (1..=senders).map(|host| (host, 0, 100_000, 0)).collect();
        let outcome = run("zeropod:32", "zeropod", &flows);
        let timing = timing(100);
        // 196 cells are 13 epochs of a sender, the last with 4 cells.
        let epochs = timing.request_to_data() + 13 * u64::from(senders) - 1;
        let expected = timing.epoch * epochs + timing.cell_at(3, 0, 0) + timing.flight;
        let took = outcome.summary.completion_us.unwrap();
        assert!((took / expected.as_us_f64() - 1.0).abs() < 1e-3, "{senders}: {took}");
    }
}

#[test]
fn exact_routing_lets_every_permutation_through_at_full_rate() {
    let timing = timing(100);
    for seed in 0..3 {
        let mut rng = Rng::new(seed);
        let mut to: Vec<u32> = (0..64).collect();
        // One cycle through all hosts.
        for at in (1..64).rev() {
            to.swap(at, rng.below(at as u64) as usize);
        }
        let flows: Vec<Flow> = (0..64).map(|host| (host, to[host as usize], 200_000, 0)).collect();
        // Turns by age included.
        let outcome = run("zeropod:16", "zeropod", &flows);
        for (record, (src, dst, size, _)) in outcome.records.iter().zip(&flows) {
            let expected = arrival(&timing, (*src, *dst, *size), 8);
            assert_eq!(record.delivered_at.since(Instant::ZERO), expected);
        }
        let paper = run("zeropod:16", "zeropod-paper", &flows);
        assert!(paper.summary.completion_us > outcome.summary.completion_us);
    }
}

#[test]
fn an_all_to_all_of_one_host_a_rack_ends_within_eight_percent_of_its_bound() {
    for (hosts, apart, size) in [(16, 16, 600_000), (16, 1, 300_000), (8, 32, 700_000)] {
        let pairs = (0..hosts).flat_map(|src| (0..hosts).map(move |dst| (src, dst)));
        let pairs = pairs.filter(|(src, dst)| src != dst);
        let flows: Vec<Flow> =
            pairs.map(|(src, dst)| (src * apart, dst * apart, size, 0)).collect();
        let outcome = run("zeropod:32", "zeropod", &flows);
        let timing = timing(100);
        let epochs = size.div_ceil(512 * 16) * u64::from(hosts - 1);
        let bound = timing.epoch * (timing.request_to_data() + epochs) + timing.flight;
        let took = outcome.summary.completion_us.unwrap() / bound.as_us_f64();
        assert!(took < 1.08, "{hosts} hosts, {apart} apart: {took} times the bound");
    }
}

/// Flows of all sizes at any time, so many that hosts and links are busy.
fn mixed(hosts: u64, flows: u64, seed: u64) -> Vec<Flow> {
    let mut rng = Rng::new(seed);
    let flow = |_| {
        let src = rng.below(hosts);
        let dst = (src + 1 + rng.below(hosts - 1)) % hosts;
        let octave = 4 + rng.below(14);
        let size = 1 + rng.below(1 << octave);
        (src as u32, dst as u32, size, rng.below(100_000_000))
    };
    let mut flows: Vec<Flow> = (0..flows).map(flow).collect();
    flows.sort_by_key(|flow| flow.3);
    flows
}

#[test]
fn cells_requests_and_answers_never_meet_whatever_is_sent() {
    for (topology, hosts) in [("zeropod:4", 4), ("zeropod:8", 16), ("zeropod:16", 64)] {
        for transport in ["zeropod", "zeropod-paper"] {
            let flows = mixed(hosts, 400, hosts);
            let outcome = run(topology, transport, &flows);
            let pods = outcome.summary.scheduler.as_ref().unwrap();
            assert!(pods.grants > 400 && pods.matched > 0.0);
        }
    }
}

#[test]
fn threads_change_nothing() {
    let flows = mixed(64, 300, 9);
    let of = |threads| {
        let plan = plan("zeropod:16", "zeropod", &[("sim.threads", threads)], &flows);
        let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
        assert_clean(&outcome, 300);
        outcome.records.iter().map(|r| (r.delivered_at, r.acked_at)).collect::<Vec<_>>()
    };
    assert_eq!(of("1"), of("3"));
}

#[test]
fn threads_change_nothing_where_cells_without_a_grant_are_cut_off() {
    for (topology, hosts) in [("zeropod:16", 64), ("zeropod:8,4,2", 64)] {
        let flows = mixed(hosts, 600, 11);
        let of = |threads| {
            let set = [
                ("sched.zeropod.optimistic", "5"),
                ("sched.zeropod.optimistic_copies", "3"),
                ("sim.threads", threads),
            ];
            let plan = plan(topology, "zeropod", &set, &flows);
            let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
            let lost = outcome.summary.drops.get("optimistic").copied().unwrap_or(0);
            assert!(outcome.summary.audit.ok && lost > 20, "{topology}: {lost} cells are lost");
            let times = outcome.records.iter().map(|r| (r.delivered_at, r.acked_at));
            (times.collect::<Vec<_>>(), lost)
        };
        assert_eq!(of("1"), of("4"), "{topology}");
    }
}

#[test]
fn a_short_flow_goes_before_a_long_one_to_the_same_host() {
    let flows = [(1, 40, 4_000_000, 0), (1, 40, 2_000, 60_000_000)];
    let outcome = run("zeropod:16", "zeropod", &flows);
    let took = outcome.records[1].delivered_at.since(Instant::from_ps(60_000_000));
    // It takes the next epoch that the long one was granted.
    assert!(took < timing(100).flight + timing(100).epoch * 2, "{took}");
}

#[test]
fn a_host_that_has_been_idle_for_long_sends_to_another_host() {
    // Its first flow is forgotten by then, and the second one takes its place.
    run("zeropod:16", "zeropod", &[(0, 1, 1_000, 0), (0, 11, 16_384, 587_351_000_000)]);
}

#[test]
fn requests_and_answers_that_are_lost_are_made_up_for() {
    // Links of hosts lose requests, those of a ToR lose answers too; so many flows of a cell or two
    // that some are lost that nothing follows.
    for fault in ["loss:0.05@hosts", "loss:0.05@tor:0"] {
        let short = |flow: Flow| (flow.0, flow.1, flow.2 % 600 + 1, flow.3);
        let flows: Vec<Flow> = mixed(8, 300, 5).into_iter().map(short).collect();
        let plan = plan("zeropod:16", "zeropod", &[("fault", fault)], &flows);
        let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
        let summary = &outcome.summary;
        assert!(summary.audit.ok && summary.flows.finished == 300, "{fault}: {:?}", summary.flows);
        let pods = summary.scheduler.as_ref().unwrap();
        assert!(pods.repeated > 0 && pods.collisions == 0, "{fault}: {pods:?}");
    }
}

#[test]
fn cells_that_a_link_loses_are_sent_again() {
    let set = [("fault", "loss:0.02@tor:0:up")];
    let flows: Vec<Flow> = (0..8).map(|host| (host, 63 - host, 100_000, 0)).collect();
    let plan = plan("zeropod:16", "zeropod", &set, &flows);
    let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
    let summary = &outcome.summary;
    assert!(summary.audit.ok && summary.flows.finished == 8, "{:?}", summary.audit);
    assert!(outcome.stats.retransmitted > 0 && summary.drops.contains_key("random_loss"));
    assert_eq!(summary.scheduler.as_ref().unwrap().collisions, 0);
}

#[test]
fn cells_without_a_grant_change_nothing_but_when_their_own_flows_are_there() {
    for (topology, hosts, copies) in [("zeropod:8", 16, "1"), ("zeropod:16", 64, "3")] {
        let flows = mixed(hosts, 500, hosts);
        let of = |optimistic| {
            let set = [
                ("sched.zeropod.optimistic", optimistic),
                ("sched.zeropod.optimistic_copies", copies),
            ];
            let plan = plan(topology, "zeropod", &set, &flows);
            virtual_time::run(&plan, &mut Unwatched).unwrap()
        };
        let (without, with) = (of("0"), of("5"));
        assert_clean(&without, 500);
        let mut sooner = 0;
        for ((one, other), flow) in without.records.iter().zip(&with.records).zip(&flows) {
            assert_eq!(one.acked_at, other.acked_at, "{flow:?}");
            assert!(other.delivered_at <= one.delivered_at, "{flow:?}");
            assert!(one.delivered_at == other.delivered_at || flow.2 < 5 * 512, "{flow:?}");
            sooner += usize::from(other.delivered_at < one.delivered_at);
        }
        let (pods, lost) = (with.summary.scheduler.as_ref().unwrap(), &with.summary.drops);
        let lost = lost.get("optimistic").copied().unwrap_or(0);
        assert!(sooner > 20 && lost > 20, "{sooner} flows are there sooner, {lost} cells are lost");
        assert_eq!(pods.optimistic_sent, pods.optimistic_delivered + lost);
        assert!(with.summary.audit.ok && with.summary.drops.len() == 1);
        let granted = without.summary.scheduler.as_ref().unwrap();
        assert_eq!((pods.collisions, pods.cells, pods.grants), (0, granted.cells, granted.grants));
        assert_eq!(with.summary.queue_bytes.unwrap().max, 0);
    }
}

#[test]
fn a_lone_short_flow_is_there_after_its_way_and_its_wait_for_a_request_and_slots() {
    let timing = timing(100);
    for (src, dst, size) in [(0, 63, 1), (5, 2, 512), (7, 6, 2559)] {
        let set = [("sched.zeropod.optimistic", "5")];
        let plan = plan("zeropod:16", "zeropod-paper", &set, &[(src, dst, size, 0)]);
        let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
        // The request is in slot `src`, copies of the cells in those from there on.
        let own = (src % 8) as u16;
        let last = own + size.div_ceil(512) as u16 - 1;
        let expected = timing.cell_at(last, own, u16::MAX) + timing.flight;
        let record = &outcome.records[0];
        assert_eq!(record.delivered_at.since(Instant::ZERO), expected, "{src} {dst} {size}");
        assert!(record.acked_at > Instant::ZERO + timing.epoch * timing.request_to_data());
    }
    // A flow of five cells is none of them.
    let plan =
        plan("zeropod:16", "zeropod", &[("sched.zeropod.optimistic", "5")], &[(0, 1, 2560, 0)]);
    let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
    assert_eq!(outcome.summary.scheduler.unwrap().optimistic_sent, 0);
}

/// Each of 16 hosts posts a flow of one cell every 5 us, so the load follows from the flows.
#[test]
fn cells_without_a_grant_are_reported_beside_the_equations_at_the_load_of_their_flows() {
    let (rounds, apart) = (40_u64, 5_000_000);
    let mut rng = Rng::new(12);
    let mut flow = |host: u32, round: u64| {
        let to = (host + 1 + rng.below(15) as u32) % 16;
        (host, to, 512, round * apart)
    };
    let flows: Vec<Flow> = (0..rounds)
        .flat_map(|round| (0..16).map(move |host| (host, round)))
        .map(|(host, round)| flow(host, round))
        .collect();
    let set = [("sched.zeropod.optimistic", "5"), ("sched.zeropod.optimistic_copies", "1")];
    let plan = plan("zeropod:8", "zeropod-paper", &set, &flows);
    let summary = virtual_time::run(&plan, &mut Unwatched).unwrap().summary;
    let pods = summary.scheduler.unwrap();
    let cells = pods.unscheduled.unwrap();
    assert_eq!(pods.optimistic_sent, 16 * rounds);
    // The last cells leave within the epoch that begins after their flows, and one more.
    let timing = timing(100);
    let slots = |ps: u64| ps as f64 / timing.cell.as_ps() as f64;
    let last = (rounds - 1) * apart;
    let most = rounds as f64 / slots(last);
    let least = rounds as f64 / slots(last + 2 * timing.epoch.as_ps());
    assert!((least..most).contains(&cells.load), "{} of {least} to {most}", cells.load);
    let lost = summary.drops["optimistic"];
    let share = 1.0 - lost as f64 / pods.optimistic_sent as f64;
    assert!(lost > 0 && (cells.share - share).abs() < 1e-9, "{cells:?}, {lost} lost");
    assert!((cells.goodput - cells.load * share).abs() < 1e-9, "{cells:?}");
    // With 4 hosts a ToR, eq. 6 is e^(-5 G).
    let of_equation = (-5.0 * cells.load).exp();
    assert!((cells.share_eq6 - of_equation).abs() < 1e-9, "{cells:?}, {of_equation}");
    assert!((cells.goodput_eq7 - cells.load * of_equation).abs() < 1e-9, "{cells:?}");
}

/// A permutation of 16 hosts with flows of `size` bytes, where a link from a ToR to an Agg loses
/// everything.
fn over_a_lossy_link(size: u64, fault: &str, threads: &str) -> Outcome {
    let flow = |src| (src, (src + 5) % 16, size, 0);
    let flows: Vec<Flow> = (0..16).map(flow).collect();
    let set = [("fault", fault), ("sim.threads", threads)];
    let outcome =
        virtual_time::run(&plan("zeropod:8", "zeropod", &set, &flows), &mut Unwatched).unwrap();
    let summary = &outcome.summary;
    assert!(summary.audit.ok, "{:?}", summary.audit);
    assert_eq!(summary.flows.finished, 16);
    assert_eq!(summary.scheduler.as_ref().unwrap().collisions, 0);
    outcome
}

fn lost(outcome: &Outcome) -> u64 {
    outcome.summary.drops.values().sum()
}

#[test]
fn a_link_that_loses_cells_is_accused_and_larger_flows_lose_no_more() {
    for fault in ["down@tor:0:up:0", "down@agg:2:down:1", "crash@agg:1"] {
        let [few, many] = [1_000_000, 3_000_000].map(|size| over_a_lossy_link(size, fault, "1"));
        let pods = many.summary.scheduler.as_ref().unwrap();
        // Each link carries cells until the first ones are judged, and then those of a few trials.
        let links = if fault.starts_with("crash") { 8 } else { 1 };
        assert!((1..=2 * links + 8).contains(&pods.accused), "{fault}: {pods:?}");
        assert!(lost(&many) > 0 && lost(&few) <= 1200 * links, "{fault}: {}", lost(&few));
        assert!(lost(&many) <= lost(&few) + 64 * links, "{fault}: {} {}", lost(&few), lost(&many));
        // Three of the four links of a ToR are left to its four hosts.
        let end = many.summary.completion_us.unwrap();
        assert!(end < 2.5 * many.summary.ideal_us, "{fault}: {end} of {}", many.summary.ideal_us);
    }
}

#[test]
fn threads_change_nothing_where_links_are_accused() {
    let of = |threads| {
        let outcome = over_a_lossy_link(300_000, "down@tor:0:up:0", threads);
        assert!(outcome.summary.scheduler.as_ref().unwrap().accused > 0);
        outcome.records.iter().map(|r| (r.delivered_at, r.acked_at)).collect::<Vec<_>>()
    };
    assert_eq!(of("1"), of("3"));
}

#[test]
fn a_host_that_is_gone_slows_no_other_host_of_its_rack() {
    // From other racks to host 8, and to the three hosts beside it.
    let flow = |(src, dst)| (src, dst, 3_000_000, 0);
    let flows = [(0, 8), (4, 8), (12, 8), (1, 9), (5, 10), (13, 11)].map(flow);
    let end = |set: &[(&str, &str)]| {
        let set = [&[("run.limit", "2ms")], set].concat();
        let outcome =
            virtual_time::run(&plan("zeropod:8", "zeropod", &set, &flows), &mut Unwatched).unwrap();
        let end = outcome.records[3..].iter().map(|record| record.delivered_at).max().unwrap();
        (end.since(Instant::ZERO), outcome.summary.scheduler.unwrap().accused)
    };
    let (all, gone) = (end(&[]), end(&[("fault", "down@host:8")]));
    assert!(gone.0 <= all.0 && gone.1 == 0, "{gone:?} after {all:?}");
}

#[test]
fn a_repaired_link_is_used_again() {
    let end = |fault| over_a_lossy_link(6_000_000, fault, "1").summary.completion_us.unwrap();
    let (broken, repaired) = (end("down@tor:0:up:0"), end("down@tor:0:up:0,until_us=100"));
    assert!(repaired < 0.9 * broken, "{repaired} of {broken} us");
}

#[test]
fn flows_whose_scheduler_stays_away_are_given_up() {
    for fault in ["kill@scheduler:0", "crash@tor:0"] {
        let flows: Vec<Flow> = vec![(0, 5, 100_000, 0), (1, 9, 100, 0), (12, 5, 100_000, 0)];
        let set = [("fault", fault)];
        let outcome =
            virtual_time::run(&plan("zeropod:8", "zeropod", &set, &flows), &mut Unwatched).unwrap();
        let finished = u64::from(fault.starts_with("crash"));
        assert!(outcome.summary.audit.ok && outcome.summary.flows.finished == finished, "{fault}");
        let silent = outcome.summary.scheduler.as_ref().unwrap().silent.unwrap();
        assert_eq!((silent.pod, silent.given_up), (0, 3 - finished), "{fault}: {silent:?}");
        assert!(silent.since_us < 10.0, "{fault}: {silent:?}");
    }
}

/// A receiver forgets a flow after a while of silence, and what comes of it later is refused.
#[test]
fn a_flow_that_waits_long_for_shorter_ones_is_not_forgotten() {
    // The long flow has begun when short ones take its receiver for 4 ms.
    let short = (0..500).map(|n| (2 + n % 14, 1, 100_000, 100_000_000 + u64::from(n) * 8_000_000));
    let flows: Vec<Flow> = [(0, 1, 2_000_000, 0)].into_iter().chain(short).collect();
    let run = |give_up: &[(&str, &str)]| {
        let set = [&[("loss.retries_max", "2")], give_up].concat();
        let plan = plan("zeropod:8", "zeropod-paper", &set, &flows);
        virtual_time::run(&plan, &mut Unwatched).unwrap()
    };
    assert_clean(&run(&[]), 501);
    let forgotten = run(&[("loss.give_up", "0s")]);
    assert!(forgotten.summary.flows.finished < 501, "{:?}", forgotten.summary.drops);
}
