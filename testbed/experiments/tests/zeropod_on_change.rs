//! Tests of a pod whose hosts ask on change, and whose scheduler grants several epochs at once: all
//! bytes arrive and nothing meets, also where requests, answers or schedulers are lost.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]
#![allow(clippy::cast_possible_truncation, reason = "numbers of a few hosts")]

mod plans;
mod pods;

use experiments::measure::Outcome;
use experiments::progress::Unwatched;
use experiments::virtual_time;
use transport::Rng;

use pods::{Flow, plan};

const ON_CHANGE: [(&str, &str); 2] =
    [("sched.zeropod.ask_every", "8"), ("sched.zeropod.superepoch", "8")];

fn run(topology: &str, set: &[(&str, &str)], flows: &[Flow]) -> Outcome {
    let plan = plan(topology, "zeropod", set, flows);
    let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
    let summary = &outcome.summary;
    assert!(summary.audit.ok, "{set:?}: {:?}", summary.audit);
    assert_eq!(summary.flows.finished, flows.len() as u64, "{set:?}");
    assert_eq!(summary.scheduler.as_ref().unwrap().collisions, 0, "{set:?}");
    outcome
}

/// `ON_CHANGE` and further settings.
fn with<'a>(set: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&ON_CHANGE, set].concat()
}

/// Flows of up to 2^`octaves` bytes, which start within 100 us.
fn mixed(hosts: u64, flows: u64, octaves: u64, seed: u64) -> Vec<Flow> {
    let mut rng = Rng::new(seed);
    let flow = |_| {
        let src = rng.below(hosts);
        let dst = (src + 1 + rng.below(hosts - 1)) % hosts;
        let octave = 4 + rng.below(octaves - 3);
        (src as u32, dst as u32, 1 + rng.below(1 << octave), rng.below(100_000_000))
    };
    let mut flows: Vec<Flow> = (0..flows).map(flow).collect();
    flows.sort_by_key(|flow| flow.3);
    flows
}

#[test]
fn every_byte_arrives_and_nothing_is_lost_sent_again_or_refused() {
    for (topology, hosts) in [("zeropod:8", 16), ("zeropod:16", 64), ("zeropod:8,2,2", 32)] {
        for (ask_every, superepoch) in [("8", "8"), ("1", "8"), ("8", "1"), ("3", "5")] {
            let set =
                [("sched.zeropod.ask_every", ask_every), ("sched.zeropod.superepoch", superepoch)];
            let outcome = run(topology, &set, &mixed(hosts, 300, 19, hosts));
            let pods = outcome.summary.scheduler.as_ref().unwrap();
            assert!(outcome.summary.drops.is_empty(), "{topology} {set:?}");
            assert_eq!(outcome.stats.retransmitted, 0, "{topology} {set:?}");
            assert_eq!((pods.late, pods.refused), (0, 0), "{topology} {set:?}: {pods:?}");
        }
    }
}

#[test]
fn requests_become_fewer_by_what_they_gather() {
    let flows: Vec<Flow> = (0..64).map(|host| (host, (host + 9) % 64, 1 << 20, 0)).collect();
    let requests = |set: &[(&str, &str)]| {
        let outcome = run("zeropod:16", set, &flows);
        outcome.summary.scheduler.unwrap().requests
    };
    let (each, few) = (requests(&[]), requests(&ON_CHANGE));
    assert!(few * 7 < each, "{few} of {each}");
}

#[test]
fn a_permutation_goes_at_full_rate_by_superepochs() {
    let flows: Vec<Flow> = (0..64).map(|host| (host, (host + 9) % 64, 1 << 20, 0)).collect();
    let took = |set: &[(&str, &str)]| run("zeropod:16", set, &flows).summary.completion_us.unwrap();
    assert!((took(&[]) - took(&ON_CHANGE)).abs() < 1e-9);
}

#[test]
fn a_new_demand_is_asked_for_as_soon_as_without() {
    // Nothing else waits for the receiver, though its sender asks in turns since a while.
    let flows = [(3, 200, 3_000_000, 0), (3, 90, 512, 100_000_000), (77, 90, 512, 100_300_000)];
    let took = |set: &[(&str, &str)]| run("zeropod:32", set, &flows).records[2].delivered_at;
    assert_eq!(took(&[]), took(&[("sched.zeropod.ask_every", "8")]));
    assert_eq!(took(&[]), took(&ON_CHANGE));
}

#[test]
fn threads_change_nothing() {
    for (topology, hosts) in [("zeropod:16", 64), ("zeropod:8,4,2", 64)] {
        let flows = mixed(hosts, 300, 18, 9);
        let of = |threads| {
            let outcome = run(topology, &with(&[("sim.threads", threads)]), &flows);
            outcome.records.iter().map(|r| (r.delivered_at, r.acked_at)).collect::<Vec<_>>()
        };
        assert_eq!(of("1"), of("3"));
    }
}

#[test]
fn requests_and_answers_that_are_lost_are_made_up_for() {
    for fault in ["loss:0.05@hosts", "loss:0.05@tor:0", "loss:0.1@scheduler:0"] {
        for octaves in [10, 18] {
            let flows = mixed(8, 200, octaves, 5);
            let outcome = run("zeropod:16", &with(&[("fault", fault)]), &flows);
            assert!(outcome.stats.retransmitted > 0 || octaves == 10, "{fault}");
        }
    }
}

#[test]
fn a_link_is_accused_while_runs_last_and_nothing_meets() {
    let flows: Vec<Flow> = (0..16).map(|src| (src, (src + 5) % 16, 3_000_000, 0)).collect();
    for fault in ["down@tor:0:up:0,from_us=100", "down@agg:2:down:1,from_us=100"] {
        let [without, outcome] = [&[][..], &ON_CHANGE]
            .map(|set| run("zeropod:8", &[set, &[("fault", fault)]].concat(), &flows));
        let lost = |outcome: &Outcome| outcome.summary.drops.values().sum::<u64>();
        let accused = outcome.summary.scheduler.as_ref().unwrap().accused;
        // The accusation comes later by a turn of requests, and what was granted before it lasts
        // for up to a superepoch: that is 18 and 17 epochs here, with 16 cells each.
        let (lost, least) = (lost(&outcome), lost(&without));
        let bound = least + (8 + 8 + 4) * 16;
        assert!(accused > 0 && lost > 0 && lost < bound, "{fault}: {lost} {least}");
    }
}

/// Cells across pods are granted epoch by epoch. Receipts for them are in the octets of an answer
/// in which runs are.
#[test]
fn hosts_that_send_across_pods_are_given_runs_inside_their_own() {
    let inside = (0..16).map(|src| (src, (src + 5) % 16, 1_000_000, 0));
    let across = (0..16).map(|src| (src, 16 + (src + 3) % 16, 200_000, 0));
    let flows: Vec<Flow> = inside.chain(across).collect();
    let [runs, without] =
        [&ON_CHANGE[..], &ON_CHANGE[..1]].map(|set| run("zeropod:8,2,2", set, &flows));
    assert!(runs.summary.drops.is_empty());
    assert_eq!(runs.stats.retransmitted, 0);
    let answers = |outcome: &Outcome| outcome.summary.packets.originated.unwrap();
    let (runs, without) = (answers(&runs), answers(&without));
    // 0.71 of the answers.
    assert!(runs * 4 < without * 3, "{runs} {without}");
}

#[test]
fn a_scheduler_that_restarts_grants_nothing_while_its_runs_last() {
    let flows = mixed(16, 60, 19, 3);
    for at in 0..12 {
        let fault = format!("restart@scheduler:0,from_us={}", 40 + 3 * at);
        run("zeropod:8", &with(&[("fault", &fault)]), &flows);
    }
}

#[test]
fn a_scheduler_that_is_killed_is_replaced_by_its_backup() {
    let flows = mixed(16, 120, 18, 4);
    for at in 0..12 {
        let fault = format!("kill@scheduler:0,from_us={}", 30 + 9 * at);
        let outcome = run("zeropod-ha:8", &with(&[("fault", &fault)]), &flows);
        let pods = outcome.summary.scheduler.unwrap();
        assert!(pods.term == 2 || outcome.summary.completion_us < Some(140.0), "{pods:?}");
    }
}

#[test]
fn clocks_are_followed_by_requests_in_turns() {
    for (topology, hosts) in [("zeropod:8", 16), ("zeropod:16", 64)] {
        let clocks = [("sched.zeropod.clock_offset", "100us"), ("sched.zeropod.clock_drift", "50")];
        let outcome = run(topology, &with(&clocks), &mixed(hosts, 300, 18, 2));
        let pods = outcome.summary.scheduler.as_ref().unwrap();
        // Eight epochs until the first answer, and then as many as without turns.
        assert!((1..=28).contains(&pods.clock_epochs), "{pods:?}");
        assert!(pods.clock_error_ns < 5.0, "half of the guard: {pods:?}");
        assert!(outcome.summary.drops.is_empty());
    }
}
