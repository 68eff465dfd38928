//! Tests of what a run of DCsim reports: delays by arithmetic, reordering, second names.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use experiments::measure::Outcome;
use experiments::plan::{Draft, Origin, Plan};
use experiments::progress::Unwatched;
use experiments::topology;
use experiments::virtual_time;
use experiments::workload::{FlowSpec, Matrix};
use transport::{Bytes, HostId};

/// Packets of 9000 bytes on the wire, SIMs of 64.
const SIZES: [(&str, &str); 3] =
    [("mtu", "8936"), ("wire.data_overhead", "64"), ("wire.control", "64")];

/// Flows of so many packets of 9000 bytes, each from one host to another.
type Flow = (u32, u32, u64);

/// Runs flows in the paper's network, all of which finish.
fn run(transport: &str, set: &[(&str, &str)], flows: &[Flow]) -> Outcome {
    let outcome = run_to_limit(transport, set, flows);
    assert_eq!(outcome.summary.flows.finished, flows.len() as u64);
    outcome
}

/// [`run`] for flows that need not finish.
fn run_to_limit(transport: &str, set: &[(&str, &str)], flows: &[Flow]) -> Outcome {
    let mut draft = Draft::default();
    draft.set_transport(transport, Origin::Set).unwrap();
    for (key, value) in SIZES.iter().chain(set) {
        draft.set(key, value, Origin::Set).unwrap();
    }
    let mut matrix = Matrix { nodes: 128, ..Matrix::default() };
    for &(src, dst, packets) in flows {
        let flow = FlowSpec::new(HostId(src), HostId(dst), Bytes(packets * 8936));
        matrix.push_flow(FlowSpec { collective: 1, ..flow }).unwrap();
    }
    let plan = Plan::new(&draft, matrix, &topology::by_name("dcsim").unwrap()).unwrap();
    let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
    let summary = &outcome.summary;
    assert!(summary.audit.ok, "{:?}", summary.audit);
    outcome
}

/// A ring among all hosts, each far from the next.
fn permutation(packets: u64) -> Vec<Flow> {
    (0..128).map(|host| (host, (host + 61) % 128, packets)).collect()
}

/// Six links of 650 ns, each behind the 90 ns that a packet takes to be sent.
const ALONE_US: f64 = 6.0 * (0.650 + 0.090);

#[test]
fn data_that_meets_nothing_takes_six_links() {
    let delay = run("dcsim", &[], &[(0, 127, 50)]).summary.wire_delay_us.unwrap();
    // A SIM or its answer may be on a line before it: 0.64 ns a port.
    assert!((ALONE_US..ALONE_US + 0.01).contains(&delay.mean), "{delay:?}");
    assert!((ALONE_US..ALONE_US + 0.02).contains(&delay.max), "{delay:?}");
    assert!((ALONE_US * 31.0 / 32.0..=delay.max).contains(&delay.p50), "{delay:?}");
    // What waits in its own NIC has not started: the first of a window is sent at once.
    for qdisc in ["drop-tail", "ecn", "phantom"] {
        let run = run("fixed-window", &[("nic.qdisc", qdisc)], &[(0, 127, 50)]);
        let delay = run.summary.wire_delay_us.unwrap();
        assert!((ALONE_US..ALONE_US + 0.01).contains(&delay.max), "{qdisc}: {delay:?}");
    }
    // Where a NIC may send in another order, or is paused, the start of data is not known.
    for qdisc in ["pfabric", "lossless"] {
        let run = run("fixed-window", &[("nic.qdisc", qdisc)], &[(0, 127, 50)]);
        assert!(run.summary.wire_delay_us.is_none(), "{qdisc}");
    }
}

#[test]
fn packets_on_one_path_keep_their_order_and_sprayed_ones_do_not() {
    let of = |transport| run(transport, &[], &permutation(40)).summary.reordered.unwrap();
    assert!(of("hpcc").abs() < 1e-9);
    let sprayed = of("fixed-window");
    assert!((0.05..0.95).contains(&sprayed), "{sprayed}");
}

#[test]
fn flows_without_end_use_what_arrived_until_the_limit() {
    let endless = [(0, 64, 1_000_000), (64, 0, 1_000_000)];
    let of = |limit: &str| {
        let summary = run_to_limit("dcsim", &[("run.limit", limit)], &endless).summary;
        assert_eq!(summary.flows.finished, 0);
        // Two hosts of 128 send.
        summary.utilisation.unwrap() * 64.0
    };
    // Data has 98.5 % of a line from RTT_max and the way of the first packet on, 18.9 us.
    assert!((0.985..0.986).contains(&(of("4ms") / (1.0 - 18.9 / 4000.0))), "{}", of("4ms"));
    assert!(of("18us") < 1e-9);
}

#[test]
fn sims_on_their_way_at_the_limit_are_counted() {
    let summary = run_to_limit("dcsim", &[("run.limit", "10us")], &[(0, 64, 1000)]).summary;
    let sims = summary.dcsim.unwrap().sims;
    assert_eq!(sims.sent, sims.acked + sims.timed_out + sims.open, "{sims:?}");
    // A round trip of 7.8 us holds 85 SIMs, one in each slot of 91 ns.
    assert!((80..=90).contains(&sims.open), "{sims:?}");
}

/// Each of 64 hosts sends to six others, and the first twelve to one.
fn crossing(packets: u64) -> Vec<Flow> {
    let mut flows: Vec<Flow> = (0..64)
        .flat_map(|host| (1..7).map(move |step| (host, (host + 19 * step) % 128, packets)))
        .collect();
    flows.extend((0..12).map(|host| (host, 100, packets)));
    flows
}

//= dcsim#2.5: theorem 2.
#[test]
fn no_sim_takes_longer_than_the_bound_and_no_data_is_lost() {
    let of = |set: &[(&str, &str)]| run("dcsim", set, &crossing(60)).summary;
    let (paper, tight) = (22.03..22.05, 14.3..14.45);
    // Queues of SIMs were full.
    let (waits, waits_longer) = (10.0..tight.start, tight.end..paper.start);
    for (set, rtt_max, longest) in [
        (&[][..], &tight, &waits),
        (&[("sched.dcsim.rtt_max", "paper")], &paper, &waits),
        // With one token the tight bound is none. Where flows draw ports, their SIMs wait longer.
        (&[("switch.dcsim.bucket", "1"), ("sched.dcsim.stay", "false")], &paper, &waits_longer),
    ] {
        let summary = of(set);
        let dcsim = summary.dcsim.unwrap();
        assert!(rtt_max.contains(&dcsim.rtt_max_us), "{set:?}: {dcsim:?}");
        assert!(dcsim.sims.dropped > Some(1000) && dcsim.sims.late == 0, "{set:?}: {dcsim:?}");
        assert!(longest.contains(&dcsim.sim_rtt_us.max), "{set:?}: {dcsim:?}");
        assert_eq!(summary.drops.get("data_queue_full"), None, "{set:?}");
    }
}

#[test]
fn two_threads_measure_what_one_does() {
    let of = |threads| {
        let set = [("sim.threads", threads), ("sampling.interval", "2us")];
        let summary = run("dcsim", &set, &crossing(40)).summary;
        (summary.wire_delay_us, summary.reordered, summary.dcsim)
    };
    assert_eq!(of("1"), of("2"));
}

//= dcsim#4.4: figure 10(a).
#[test]
fn data_arrives_a_delay_behind_its_sims() {
    let of = |set: &[(&str, &str)]| run("dcsim", set, &crossing(60)).summary.dcsim.unwrap().follow;
    assert_eq!(of(&[]), None, "nothing is sampled");
    for rtt_max in ["tight", "paper", "30us"] {
        let set = [("sched.dcsim.rtt_max", rtt_max), ("sampling.interval", "1us")];
        let found = of(&set).unwrap();
        assert!((0.93..1.05).contains(&found.lag_rtt_max), "{rtt_max}: {found:?}");
        assert!(found.correlation > 0.6, "{rtt_max}: {found:?}");
        assert!(found.unshifted.unwrap() < found.correlation, "{rtt_max}: {found:?}");
    }
}

#[test]
fn second_names_of_the_switches_settings_are_the_first() {
    let of = |set: &[(&str, &str)]| run("dcsim", set, &permutation(5)).summary.dcsim.unwrap();
    for (name, second, value) in [
        ("switch.dcsim.queue", "switch.sim.queue", "6"),
        ("switch.dcsim.bucket", "switch.sim.bucket", "4"),
        ("switch.dcsim.overhead", "switch.sim.overhead", "5"),
    ] {
        assert_eq!(of(&[(name, value)]), of(&[(second, value)]));
        assert_ne!(of(&[(second, value)]), of(&[]), "{second}");
    }
}

#[test]
fn copies_fill_idle_lines_and_cost_no_data_its_place() {
    let of = |transport, flows: &[Flow]| run(transport, &[], flows).summary;
    // A BDP of 87 packets: nothing waits for RTT_max unless a copy is dropped.
    let (plain, fast) = (of("dcsim", &permutation(87)), of("dcsim-fast", &permutation(87)));
    let of_plain = plain.completion_us.unwrap();
    assert!((of_plain / 40.9 - 1.0).abs() < 0.03, "{of_plain}");
    assert!(fast.completion_us.unwrap() <= 20.0, "{:?}", fast.completion_us);
    // Where ports are full, copies are dropped in the place of data, and hardly delay it.
    // `dcsim-fast` draws ports, too.
    let draws = [("sched.dcsim.stay", "false")];
    let plain = run("dcsim", &draws, &crossing(60)).summary;
    let fast = of("dcsim-fast", &crossing(60));
    assert!(fast.drops.get("unscheduled_queue_full").is_some_and(|count| *count > 100));
    assert_eq!(fast.drops.get("data_queue_full"), None, "{:?}", fast.drops);
    let [plain, fast] = [plain, fast].map(|summary| summary.completion_us.unwrap());
    assert!(fast <= plain * 1.05, "{fast} {plain}");
}

//= dcsim#2.4: the first DATA that waits is associated when the SIM-ACK comes.
#[test]
fn lone_flows_are_in_better_order_where_sim_acks_bind_segments() {
    let of = |bind| {
        let set = [("sched.dcsim.bind", bind)];
        run("dcsim-paper", &set, &permutation(87)).summary.reordered.unwrap()
    };
    let (ack, departure) = (of("ack"), of("departure"));
    assert!((0.3..0.55).contains(&ack) && departure > ack + 0.05, "{ack} {departure}");
}

#[test]
fn a_long_queue_of_data_drains() {
    // The links of these eight hosts are busy both ways, so a queue that has grown would stay.
    let pairs = (0..3 * 64).map(|n| (n % 8 * 16, n / 8 % 8 * 16, 40 + u64::from(n) * 37 % 81));
    let flows: Vec<Flow> = pairs.filter(|(src, dst, _)| src != dst).collect();
    let of = |drain| {
        let summary = run("dcsim", &[("sched.dcsim.drain", drain)], &flows).summary;
        (summary.queue_bytes.unwrap().mean, summary.dcsim.unwrap().sims.unused)
    };
    let ((stays, none), (drained, unused)) = (of("0"), of("8"));
    assert!(drained < 0.9 * stays, "{drained} {stays}");
    assert!(none == 0 && (100..168 * 80 / 8).contains(&unused), "{none} {unused}");
}

#[test]
fn queues_drain_in_the_preset_of_the_paper_where_buckets_hold_two_tokens() {
    // Round trips over slow core switches are long, as those through long queues are.
    let slow = [0, 4, 8, 12].map(|n| format!("degrade:0.01@core:{n}:down"));
    let unused = |set: &[(&str, &str)]| {
        let faults = slow.iter().map(|fault| ("fault", fault.as_str()));
        let set: Vec<_> = faults.chain(set.iter().copied()).collect();
        run("dcsim-paper", &set, &permutation(400)).summary.dcsim.unwrap().sims.unused
    };
    let tokens = |count| ("switch.sim.bucket", count);
    let auto = ("sched.dcsim.drain", "auto");
    let [two, any] = [unused(&[tokens("2")]), unused(&[tokens("12"), auto])];
    assert!(two > 50 && any > 50, "{two} {any}");
    // The bucket of these switches is not known to hosts.
    let plain = [("switch.qdisc", "drop-tail")];
    assert_eq!([unused(&[tokens("3")]), unused(&[]), unused(&plain)], [0; 3]);
}

#[test]
fn segments_of_a_collective_keep_their_order_where_its_flows_stay_on_their_ports() {
    // Sixteen all-to-alls of eight hosts, each host at a ToR of its own.
    let members = |first: u32| (0..8).map(move |member| first + 16 * member);
    let pairs = (0..16).flat_map(|first| {
        members(first).flat_map(move |src| members(first).map(move |dst| (src, dst)))
    });
    let flows: Vec<Flow> = pairs
        .filter(|(src, dst)| src != dst)
        .map(|(src, dst)| (src, dst, 30 + u64::from(7 * src + dst) % 60))
        .collect();
    let of = |stay| run("dcsim", &[("sched.dcsim.stay", stay)], &flows).summary;
    let (stays, draws) = (of("true"), of("false"));
    let [in_order, sprayed] = [&stays, &draws].map(|summary| summary.reordered.unwrap());
    assert!(in_order < sprayed / 4.0, "{in_order} {sprayed}");
    let [stays, draws] = [stays, draws].map(|summary| summary.completion_us.unwrap());
    // No host receives more than another, so paths bound these runs, and staying has a price.
    assert!(stays < 1.3 * draws, "{stays} {draws}");
}

#[test]
fn paths_that_failed_are_tried_less() {
    let of = |set: &[(&str, &str)]| {
        let slow = [0, 2, 4, 6, 8, 10, 12, 14].map(|n| format!("degrade:0.01@core:{n}:down"));
        let faults = slow.iter().map(|fault| ("fault", fault.as_str()));
        let set: Vec<_> = faults.chain(set.iter().copied()).collect();
        run("dcsim", &set, &crossing(60)).summary
    };
    // Flows that stay keep ports for their next stay, others for their next SIMs.
    let drawn = ("sched.dcsim.stay", "false");
    let (kept, drawn) = (of(&[drawn]), of(&[drawn, ("sched.dcsim.recycle", "0")]));
    assert!(kept.completion_us.unwrap() < 0.85 * drawn.completion_us.unwrap());
    for summary in [kept, drawn] {
        assert_eq!(summary.drops.get("data_queue_full"), None, "{:?}", summary.drops);
    }
}
