//! Tests of explanations: every picosecond of every flow has a part, the run is as without, and the
//! cause that is named is the true one.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

mod plans;

use std::num::NonZeroU32;

use experiments::measure::Outcome;
use experiments::observe::Observe;
use experiments::plan::{Origin, Plan};
use experiments::progress::Unwatched;
use experiments::virtual_time;
use experiments::why::{DemandTime, FlowWhy, TimePart};
use experiments::workload::FlowSpec;
use experiments::workload::matrix::LineMeaning;
use transport::{Bytes, HostId, Instant};

use plans::plan_of;

/// A flow: source, destination, bytes.
type Flow = (u32, u32, u64);

fn plan(network: &str, transport: &str, set: &[(&str, &str)], flows: &[Flow]) -> Plan {
    let spec = |&(src, dst, bytes): &Flow| FlowSpec::new(HostId(src), HostId(dst), Bytes(bytes));
    plan_of(network, transport, set, flows.iter().map(spec))
}

/// Explains a run; checks that all parts of each flow add up to its completion time, and that the
/// run is the one without explanations.
fn explain(plan: &Plan) -> Outcome {
    let observe = Observe { why: true, ..Observe::default() };
    let outcome = virtual_time::run_observed(plan, &observe, &mut Unwatched).unwrap();
    let plain = virtual_time::run(plan, &mut Unwatched).unwrap();
    assert_eq!(outcome.records, plain.records);
    assert!(plain.why.is_empty());
    for (why, record) in outcome.why.iter().zip(&outcome.records) {
        assert_eq!(why.fct_ps, record.fct().map(transport::Duration::as_ps));
        let sum: u64 = why.parts_ps.values().sum();
        assert_eq!(sum, why.time_ps().unwrap_or(0), "{why:?}");
        let (started, open) = (record.start < Instant::FAR_FUTURE, record.fct().is_none());
        assert_eq!(why.open_ps.is_some(), started && open, "{why:?}");
        assert!(!why.given_up || record.failed, "{why:?}");
        let queues: u64 = why.queues.iter().map(|wait| wait.ps).sum();
        assert_eq!(queues, why.part(TimePart::Queue));
        let paused: u64 = why.paused.iter().map(|wait| wait.ps).sum();
        assert_eq!(paused, why.part(TimePart::Paused));
        let repairs: u64 = why.retransmissions.iter().map(|repair| repair.ps).sum();
        assert_eq!(repairs, why.part(TimePart::Retransmission));
        let epochs: u64 = why.demands.iter().map(|time| time.ps).sum();
        assert!(why.demands.is_empty() || epochs == why.part(TimePart::Scheduler), "{why:?}");
        let in_cores: u64 = why.in_cores.iter().map(|time| time.ps).sum();
        assert!(in_cores <= queues, "{why:?}");
        // A link sends one packet at a time.
        let link = why.bottleneck.as_ref();
        assert!(link.is_none_or(|link| link.busy_ps <= why.time_ps().unwrap_or(0)), "{why:?}");
    }
    outcome
}

fn slowest(outcome: &Outcome) -> &FlowWhy {
    outcome.why.iter().max_by_key(|why| why.fct_ps.unwrap_or(u64::MAX)).unwrap()
}

fn share(why: &FlowWhy, part: TimePart) -> f64 {
    why.part(part) as f64 / why.time_ps().unwrap() as f64
}

/// `degree` hosts send to host 0.
fn incast(degree: u32, bytes: u64) -> Vec<Flow> {
    (0..degree).map(|sender| (64 + sender, 0, bytes)).collect()
}

/// A ring among `hosts`, each to one that is `far` away.
fn ring(hosts: u32, far: u32, bytes: u64) -> Vec<Flow> {
    (0..hosts).map(|host| (host, (host + far) % hosts, bytes)).collect()
}

#[test]
fn parts_add_up_to_the_picosecond_with_every_transport() {
    let faults: [&[(&str, &str)]; 3] = [
        &[],
        &[("fault", "loss:0.01@all")],
        &[("fault", "duplicate:0.05@all"), ("fault", "reorder:0.05@all,delay_us=20")],
    ];
    let one_site = ["smartt", "swift", "dctcp", "eqds", "phost", "dcpim", "pfabric", "roce"];
    // Switches write telemetry for these.
    let informed = ["hpcc", "powertcp"];
    let one_site = one_site.into_iter().chain(informed).map(|name| ("paper-testbed", name));
    for (network, transport) in one_site.chain([("two-dc-leaf:20us,100,1,8", "mlcc")]) {
        for set in faults {
            let flows = [ring(16, 5, 100_000), incast_of_16()].concat();
            let outcome = explain(&plan(network, transport, set, &flows));
            let total: u64 = outcome.why.iter().filter_map(|why| why.fct_ps).sum();
            let other: u64 = outcome.why.iter().map(|why| why.part(TimePart::Other)).sum();
            assert!(other * 20 <= total, "{transport} {set:?}: {other} of {total} unexplained");
        }
    }
}

/// Seven hosts send to host 8, and a flow of host 3 goes to an idle rack. Switches pause the ToR of
/// host 3 for that incast, and the ToR pauses host 3. With one spine the incast waits there; with
/// two it waits at the ToR of its receiver, too, which pauses the spines.
#[test]
fn a_flow_that_is_paused_for_an_incast_elsewhere_names_the_queue_of_that_one() {
    let mut flows: Vec<Flow> = [0, 1, 2, 4, 5, 6, 12].map(|src| (src, 8, 1_000_000)).to_vec();
    flows.push((3, 15, 100_000));
    let cases = [("leaf-spine:4,1,4", "agg:0:down:2"), ("leaf-spine:4,2,4", "tor:2:down:0")];
    for (network, reason) in cases {
        let outcome = explain(&plan(network, "roce", &[], &flows));
        let why = outcome.why.last().unwrap();
        assert_eq!(why.part(TimePart::Turn), 0, "host 3 sends nothing else: {why:?}");
        assert!(share(why, TimePart::Paused) > 0.25, "{network}: {why:?}");
        assert!(why.paused.iter().any(|wait| wait.link == reason), "{why:?}");
        let link = why.bottleneck.as_ref().unwrap();
        assert_eq!((link.link.as_str(), link.flows, link.own_ps), (reason, 7, 0), "{why:?}");
        let words = ["had paused", &format!("The link {reason} to "), "which it does not use"];
        assert!(words.iter().all(|words| why.sentence.contains(words)), "{}", why.sentence);
    }
}

/// The incast waits at the first link that all of it shares: that of its receiver, or one above the
/// receiver's ToR where that ToR has no faster way in.
#[test]
fn a_lossless_incast_is_explained_by_the_first_link_that_all_of_it_shares() {
    for (network, link) in [("ft128-1os", "tor:0:down:0"), ("ft128-8os", "agg:0:down:0")] {
        let outcome = explain(&plan(network, "roce", &[], &incast(32, 256 << 10)));
        let words = &slowest(&outcome).sentence;
        let named = |why: &&FlowWhy| why.bottleneck.as_ref().is_some_and(|of| of.link == link);
        assert_eq!(outcome.why.iter().filter(named).count(), 32, "{network}: {words}");
        let paused = outcome.why.iter().flat_map(|why| &why.paused);
        let (all, of_link) = paused.fold((0, 0), |(all, own), wait| {
            (all + wait.ps, own + if wait.link == link { wait.ps } else { 0 })
        });
        assert!(all > 0 && of_link * 10 > all * 9, "{network}: {of_link} of {all}: {words}");
    }
}

#[test]
fn a_run_with_clocks_that_jitter_explains_itself_too() {
    // Readings of these clocks draw chance: one more of them would be another run.
    let set = [("sched.zeropod.clock_jitter", "5ns")];
    explain(&plan("zeropod:8", "zeropod", &set, &ring(16, 5, 100_000)));
}

#[test]
fn a_slow_line_of_the_host_sends_the_flow_alone() {
    let set = [("fault", "degrade:0.1@host:0")];
    let outcome = explain(&plan("paper-testbed", "smartt", &set, &[(0, 8, 400_000)]));
    let why = &outcome.why[0];
    assert_eq!(why.part(TimePart::Turn), 0, "no other flow has a turn: {why:?}");
}

#[test]
fn a_link_is_busy_while_it_sends_and_not_while_a_fault_holds_packets_back() {
    let set = [("fault", "reorder:0.5@all,delay_us=20")];
    let outcome = explain(&plan("paper-testbed", "smartt", &set, &incast_of_16()));
    // Some link is named, and `explain` has looked at how busy it was.
    assert!(outcome.why.iter().any(|why| why.bottleneck.is_some()));
}

#[test]
fn a_packet_with_a_copy_that_arrives_is_not_lost() {
    let set = [("fault", "duplicate:1@host:0"), ("fault", "loss:0.3@tor:0:up")];
    let plan = plan("paper-testbed", "dctcp", &set, &[(0, 9, 4 << 20)]);
    let outcome = explain(&plan.with(|draft| draft.set_trim(false, Origin::Flag("trim"))).unwrap());
    let packets = &outcome.why[0].packets;
    let lost: u64 = packets.lost.values().sum();
    // Both copies of 9 % of them; one or both of half of them.
    assert!(lost > 0 && lost * 100 < 15 * packets.sent, "{packets:?}");
}

fn incast_of_16() -> Vec<Flow> {
    (1..8).map(|sender| (sender, 0, 60_000)).collect()
}

#[test]
fn a_lone_flow_spends_its_time_on_its_own_bytes() {
    let outcome = explain(&plan("paper-testbed", "smartt", &[], &[(0, 9, 8 << 20)]));
    let why = slowest(&outcome);
    assert!(share(why, TimePart::Sending) > 0.9, "{}", why.sentence);
    assert!(why.sentence.contains("its host's line was sending its own bytes"), "{}", why.sentence);
}

#[test]
fn two_flows_of_one_host_wait_for_their_turns() {
    let flows = [(0, 9, 4 << 20), (0, 13, 4 << 20)];
    let outcome = explain(&plan("paper-testbed", "smartt", &[], &flows));
    let why = slowest(&outcome);
    assert!(
        share(why, TimePart::Turn) > 0.35 && share(why, TimePart::Sending) > 0.35,
        "{}",
        why.sentence
    );
}

#[test]
fn an_incast_is_explained_by_the_link_of_its_receiver() {
    for (transport, trim) in [("smartt", "on"), ("dctcp", "off")] {
        let mut plan = plan("ft128-1os", transport, &[], &incast(32, 256 << 10));
        plan = plan.with(|draft| draft.set_trim(trim == "on", Origin::Flag("trim"))).unwrap();
        let outcome = explain(&plan);
        let why = slowest(&outcome);
        let link = why.bottleneck.as_ref().unwrap();
        assert_eq!(
            (link.link.as_str(), link.to.as_str(), link.flows),
            ("tor:0:down:0", "host 0", 32)
        );
        assert!(link.busy_ps * 10 > why.fct_ps.unwrap() * 7, "{}", why.sentence);
        assert!(link.own_ps * 10 < link.busy_ps, "{}", why.sentence);
        assert!(why.sentence.contains("32 flows to that host share it"), "{}", why.sentence);
    }
}

#[test]
fn messages_on_one_connection_are_flows_of_their_own() {
    let message = |at: u32| FlowSpec {
        id: NonZeroU32::new(1),
        message: if at == 0 { LineMeaning::Flow } else { LineMeaning::Next },
        ..FlowSpec::new(HostId(5), HostId(0), Bytes(200_000))
    };
    let other = FlowSpec::new(HostId(9), HostId(0), Bytes(400_000));
    let plan = plan_of("paper-testbed", "smartt", &[], (0..3).map(message).chain([other]));
    let outcome = explain(&plan);
    let link = slowest(&outcome).bottleneck.clone().unwrap();
    assert_eq!((link.to.as_str(), link.flows), ("host 0", 4));
    let sent: Vec<u64> = outcome.why.iter().map(|why| why.packets.sent).collect();
    let least = 200_000 / 4096;
    assert!(sent[..3].iter().all(|sent| (least..2 * least).contains(sent)), "{sent:?}");
    // The bytes before its own on the connection are others'.
    let last = &outcome.why[2];
    assert!(share(last, TimePart::Sending) < 0.5, "{}", last.sentence);
}

#[test]
fn a_permutation_over_few_links_is_explained_by_a_link_above_a_tor() {
    let plan = plan("ft128-8os", "smartt", &[], &ring(128, 61, 256 << 10));
    let plan = plan.with(|draft| draft.set_lb("ecmp", Origin::Flag("lb")).unwrap()).unwrap();
    let outcome = explain(&plan);
    let why = slowest(&outcome);
    let link = why.bottleneck.as_ref().unwrap();
    assert!(link.link.contains(":up:") || link.link.starts_with("core:"), "{}", why.sentence);
    assert!(link.flows > 4, "{}", why.sentence);
    assert!(link.busy_ps * 10 > why.fct_ps.unwrap() * 7, "{}", why.sentence);
}

#[test]
fn a_flow_across_a_dead_link_is_explained_by_that_link() {
    let set = [("fault", "down@tor:0:up,from_us=10,until_us=400"), ("switch.detection", "never")];
    let plan = plan("paper-testbed", "dctcp", &set, &ring(16, 5, 512 << 10));
    let outcome = explain(&plan.with(|draft| draft.set_trim(false, Origin::Flag("trim"))).unwrap());
    let why = slowest(&outcome);
    assert!(share(why, TimePart::Retransmission) > 0.5, "{}", why.sentence);
    let repair = &why.retransmissions[0];
    assert_eq!((repair.cause.as_str(), repair.by.as_str()), ("link_down", "timer"));
    let link = repair.link.as_deref().unwrap();
    assert!(link.starts_with("tor:0:up:"), "{link}");
    let words = format!("lost at {link}, a link that is down");
    assert!(why.sentence.contains(&words), "{}", why.sentence);
}

#[test]
fn a_flow_that_never_ends_names_where_its_packets_are_lost() {
    let set = [("fault", "down@host:3"), ("run.limit", "2ms")];
    let outcome = explain(&plan("paper-testbed", "smartt", &set, &[(0, 3, 1 << 20)]));
    let why = slowest(&outcome);
    assert_eq!(why.fct_ps, None);
    assert!(why.sentence.starts_with("It did not finish: of "), "{}", why.sentence);
    let words = "were lost at tor:0:down:3, a link that is down. It was open for ";
    assert!(why.sentence.contains(words), "{}", why.sentence);
    assert!(why.sentence.contains("until the run ended."), "{}", why.sentence);
    assert_eq!(why.open_ps, Some(2_000_000_000));
    assert!(share(why, TimePart::Retransmission) > 0.9, "{why:?}");
    let repairs = &why.retransmissions;
    assert!(repairs.iter().all(|it| it.link.as_deref() == Some("tor:0:down:3")), "{repairs:?}");
}

/// Cells to a receiver that is gone need grants as others do, but the wait for a receipt is by far
/// the longest part of the time between two transmissions.
#[test]
fn a_flow_of_zeropod_to_a_dead_receiver_waits_for_its_timeout() {
    for (limit, given_up) in [("60ms", false), ("2s", true)] {
        let set = [("fault", "down@tor:0:down:3,from_us=15"), ("run.limit", limit)];
        let flows = [(0, 3, 100_000), (1, 9, 100_000)];
        let outcome = explain(&plan("zeropod:8", "zeropod", &set, &flows));
        assert!(outcome.why[1].fct_ps.is_some(), "its receiver is there");
        let why = &outcome.why[0];
        assert_eq!((why.fct_ps, why.given_up), (None, given_up));
        assert!(share(why, TimePart::Retransmission) > 0.97, "{limit}: {why:?}");
        let epochs = outcome.why[1].part(TimePart::Scheduler);
        let rounds = why.packets.sent / 196;
        assert!(why.part(TimePart::Scheduler) < 2 * rounds * epochs, "{limit}: {why:?}");
        let (last, timeouts): (Vec<_>, Vec<_>) =
            why.retransmissions.iter().partition(|repair| repair.by == "none");
        assert!(last.iter().all(|repair| repair.times == 1), "{last:?}");
        assert!(timeouts.iter().all(|repair| repair.by == "timer"), "{timeouts:?}");
        let times: u64 = timeouts.iter().map(|repair| u64::from(repair.times)).sum();
        assert_eq!(times + 1, rounds, "{limit}: {:?}", why.retransmissions);
        let words = "it waited until the sender knew that packets had been lost at \
                     tor:0:down:3, a link that is down (a timer found it, ";
        assert!(why.sentence.contains(words), "{}", why.sentence);
    }
}

/// Losses at several instants are found at several instants, too, some of them while cells wait for
/// the grant of an earlier one. Before each first cell a request takes 4 epochs to its decision,
/// and up to one more to its own slot; a timeout takes more than ten times as long.
#[test]
fn timeouts_of_flows_of_zeropod_are_no_waits_for_requests() {
    let outages: [&[(u32, u32)]; 5] = [
        &[(30, 31)],
        &[(30, 31), (40, 41)],
        &[(30, 31), (35, 36), (40, 41)],
        &[(25, 29), (33, 34), (62, 63)],
        &[(15, 300)],
    ];
    let at = |(from, until)| format!("down@tor:0:down:3,from_us={from},until_us={until}");
    let outages = outages.map(|times| times.iter().copied().map(at).collect::<Vec<_>>());
    let random = ["loss:0.02@tor:0:down:3", "loss:0.1@tor:0:down:3"].map(|loss| vec![loss.into()]);
    let mut timeouts = 0;
    for faults in outages.iter().chain(&random) {
        let set: Vec<_> = faults.iter().map(|fault| ("fault", fault.as_str())).collect();
        // The last one fills the window of sequence numbers.
        for bytes in [100_000, 300_000, 1_000_000] {
            let outcome = explain(&plan("zeropod:8", "zeropod", &set, &[(0, 3, bytes)]));
            let why = &outcome.why[0];
            let times: u32 = why.retransmissions.iter().map(|repair| repair.times).sum();
            let request = cause_of(&why.demands, "request");
            let bound = 5 * 712_960 * u64::from(times + 1);
            assert!(request <= bound, "{faults:?}, {bytes}: {request} of {bound}: {why:?}");
            timeouts += times;
        }
    }
    assert!(timeouts > 21, "only {timeouts} timeouts in 21 runs");
}

/// The answer that reports a trimmed packet was in a queue behind the packets of others, and that
/// time is in the queue whether the packet that it lets leave is new or is sent again.
#[test]
fn an_incast_whose_packets_are_trimmed_waits_in_the_queue_of_its_receiver() {
    let outcome = explain(&plan("paper-testbed", "smartt", &[], &incast_of_16()));
    let (mut queued, mut whole, mut trimmed) = (0, 0, 0);
    for why in &outcome.why {
        queued += why.part(TimePart::Queue);
        whole += why.fct_ps.unwrap();
        trimmed += why.packets.trimmed.values().sum::<u64>();
    }
    assert!(trimmed > 0 && queued * 100 > whole * 38, "{queued} of {whole} ps");
}

/// Runs that end while flows are under way, with every kind of part: the times of open flows add up
/// to the picosecond, too.
#[test]
fn parts_of_flows_that_are_open_add_up_with_every_transport() {
    let (mut open, mut whole, mut other) = (0, 0, 0);
    for (network, transport) in [
        ("paper-testbed", "smartt"),
        ("paper-testbed", "dctcp"),
        ("paper-testbed", "eqds"),
        ("paper-testbed", "uno"),
        ("paper-testbed", "dcsim"),
        ("paper-testbed", "roce"),
        ("zeropod:8", "zeropod"),
        ("zeropod:8,2,4", "zeropod"),
    ] {
        for limit in ["15us", "33us", "60us", "90us", "140us"] {
            for fault in ["loss:0.02@all", "down@tor:1:up,from_us=20,until_us=70"] {
                let flows = [ring(16, 5, 200_000), ring(16, 3, 3000)].concat();
                let set = [("run.limit", limit), ("fault", fault)];
                let outcome = explain(&plan(network, transport, &set, &flows));
                let left = outcome.why.iter().filter(|why| why.open_ps.is_some());
                for why in left {
                    open += 1;
                    whole += why.open_ps.unwrap();
                    other += why.part(TimePart::Other);
                    let until = "until the run ended";
                    assert!(why.sentence.contains(until), "{transport}: {}", why.sentence);
                }
            }
        }
    }
    assert!(open > 200, "{open}");
    assert!(other < whole / 10, "{other} of {whole} ps have no cause");
}

/// The scheduler is gone for good: all that waits waits for it, until the run ends or the flow is
/// given up.
#[test]
fn flows_whose_scheduler_is_gone_are_open_and_wait_for_it() {
    for (limit, given_up) in [("5ms", false), ("4s", true)] {
        let set = [("fault", "kill@scheduler:0,from_us=40"), ("run.limit", limit)];
        let outcome = explain(&plan("zeropod:8", "zeropod", &set, &ring(16, 5, 400_000)));
        for why in &outcome.why {
            let open = why.open_ps.unwrap();
            assert_eq!(why.given_up, given_up);
            assert!(given_up || open == 5_000_000_000, "{why:?}");
            assert!(why.part(TimePart::Scheduler) * 10 > open * 9, "{why:?}");
            let request = cause_of(&why.demands, "request");
            assert!(request * 10 > open * 9, "no decision had it: {why:?}");
            let ends = if given_up { "until it was given up." } else { "until the run ended." };
            assert!(why.sentence.contains(ends), "{}", why.sentence);
            let words = "it waited for epochs of its pod's scheduler: until a decision";
            assert!(why.sentence.contains(words), "{}", why.sentence);
        }
    }
}

/// The scheduler of the receivers' pod is gone: cells wait in Cores, whose demands no decision has.
#[test]
fn open_flows_across_pods_wait_in_cores_for_the_scheduler_of_the_other_pod() {
    let set = [("fault", "kill@scheduler:1,from_us=35"), ("run.limit", "1ms")];
    let flows: Vec<Flow> = (0..8).map(|src| (src, 16 + src % 2, 20_000)).collect();
    let outcome = explain(&plan("zeropod:8,2,2", "zeropod", &set, &flows));
    let open = outcome.why.iter().filter(|why| why.open_ps.is_some());
    let waited =
        open.filter(|why| cause_of(&why.in_cores, "request") * 10 > why.open_ps.unwrap() * 8);
    assert!(waited.count() > 4, "{:?}", outcome.why);
}

#[test]
fn a_flow_whose_answers_are_lost_names_where() {
    // Data comes down another link than the one that answers go up.
    let set = [("fault", "down@tor:0:up"), ("switch.detection", "never"), ("run.limit", "2ms")];
    let plan = plan("paper-testbed", "dctcp", &set, &[(5, 0, 1 << 20)]);
    let plan = plan.with(|draft| draft.set_trim(false, Origin::Flag("trim"))).unwrap();
    let outcome =
        explain(&plan.with(|draft| draft.set_lb("ecmp", Origin::Flag("lb")).unwrap()).unwrap());
    let why = slowest(&outcome);
    assert!(why.packets.lost.is_empty(), "{why:?}");
    let words = "was lost, but ";
    assert!(why.sentence.contains(words), "{}", why.sentence);
    assert!(why.sentence.contains("answers to them were lost at tor:0:up:"), "{}", why.sentence);
}

/// What a cause took of the times that cells waited for epochs.
fn cause_of(times: &[DemandTime], cause: &str) -> u64 {
    times.iter().filter(|time| time.cause == cause).map(|time| time.ps).sum()
}

/// 16 hosts, 4 at a ToR. A demand waits for D = 30 epochs before its first cell: until a decision
/// has its request, and then until the first epoch that this decision is about.
#[test]
fn a_lone_flow_in_a_pod_waits_for_its_request_and_the_answer() {
    let outcome = explain(&plan("zeropod:8", "zeropod-paper", &[], &[(0, 9, 100_000)]));
    let why = &outcome.why[0];
    let first = ["request", "decision"].map(|cause| cause_of(&why.demands, cause));
    let epochs = |ps: u64| ps as f64 / 712_960.0;
    // The request leaves in the first of them, and a decision is about the epoch 26 later.
    assert_eq!(first.map(epochs), [4.0, 26.0], "{:?}", why.demands);
    let rest = why.part(TimePart::Scheduler) - first[0] - first[1];
    assert!(rest * 100 < why.fct_ps.unwrap(), "gaps for control cells: {why:?}");
    assert_eq!(why.part(TimePart::Other), 0, "{why:?}");
    assert!(why.sentence.contains("until the answer's epoch"), "{}", why.sentence);
}

#[test]
fn flows_of_a_pod_name_the_end_whose_link_was_granted_to_others() {
    let incast: Vec<Flow> = (4..12).map(|src| (src, 0, 100_000)).collect();
    let fan_out: Vec<Flow> = (4..12).map(|dst| (0, dst, 100_000)).collect();
    let cases = [(incast, "receiver", "other senders"), (fan_out, "sender", "other receivers")];
    for (flows, cause, words) in cases {
        let outcome = explain(&plan("zeropod:8", "zeropod-paper", &[], &flows));
        let why = slowest(&outcome);
        let held = cause_of(&why.demands, cause);
        assert!(held * 2 > why.fct_ps.unwrap(), "{cause}: {why:?}");
        assert!(why.sentence.contains(words), "{}", why.sentence);
        let other: u64 = outcome.why.iter().map(|why| why.part(TimePart::Other)).sum();
        assert_eq!(other, 0, "{cause}");
    }
}

/// A flow across pods waits for the scheduler of its own pod, and then in a Core for that of the
/// other one.
#[test]
fn a_flow_across_pods_waits_for_both_schedulers() {
    let flows: Vec<Flow> = (0..8).map(|src| (src, 16 + src % 2, 200_000)).collect();
    let outcome = explain(&plan("zeropod:8,2,2", "zeropod", &[], &flows));
    let all = |times: fn(&FlowWhy) -> &[DemandTime], cause| {
        outcome.why.iter().map(|why| cause_of(times(why), cause)).sum::<u64>()
    };
    let at_hosts = |cause| all(|why| &why.demands, cause);
    let in_cores = |cause| all(|why| &why.in_cores, cause);
    assert!(at_hosts("cores") > 0 && in_cores("receiver") > 0, "{:?}", outcome.why);
    // Each cell waits in its Core for a decision that has the request for it.
    assert!(in_cores("decision") > 0);
    let named = outcome.why.iter().flat_map(|why| &why.in_cores);
    assert!(named.into_iter().all(|time| time.link.starts_with("core:")));
}

/// The last grants of a scheduler that is killed do not come, and its backup grants nothing before
/// its fence.
#[test]
fn a_flow_whose_scheduler_was_killed_waited_for_grants_that_were_lost_and_for_the_fence() {
    let set = [("fault", "kill@scheduler:0,from_us=40")];
    let outcome = explain(&plan("zeropod-ha:8", "zeropod", &set, &ring(16, 5, 400_000)));
    let why = slowest(&outcome);
    let took = ["granted", "fence"].map(|cause| cause_of(&why.demands, cause));
    assert!(took[0] > 10_000_000 && took[1] > 1_000_000, "{why:?}");
}
