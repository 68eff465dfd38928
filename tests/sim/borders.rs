//! Sites with several border switches each, and border switches that die: flows go on with what is
//! left, and come back.
//!
//! Source: ours; \[mlcc\] has one border switch a site.

use std::fmt::Write as _;

use super::*;

/// Two sites of 32 hosts, 1 ms apart, with two border switches each: every two of them are joined
/// by a link of 100 Gb/s.
const TOPOLOGY: &str = "two-dc-leaf:1ms,100,1,8,2";
/// The round trip between the sites.
const RTT_US: f64 = 2044.0;
const FLOWS: u32 = 8;

/// Flows of 30 MB from hosts of the first site to hosts of the second, each to its own.
fn across() -> Matrix {
    let mut text = format!("Nodes 64\nConnections {FLOWS}\n");
    for flow in 0..FLOWS {
        let (from, to) = (flow * 3, 32 + flow * 4);
        writeln!(text, "{from}->{to} id {} start 10 size 30000000", flow + 1).unwrap();
    }
    cm::read(text.as_bytes(), "borders.cm", cm::StartUnit::Us).unwrap().matrix
}

/// The lines of flows, and all else, under `faults`.
fn under(transport: &str, faults: &[&str], threads: &str) -> (Vec<u8>, Outcome) {
    on(TOPOLOGY, transport, (faults, threads))
}

/// The lines of flows, and all else, on `topology`.
fn on(topology: &str, transport: &str, (faults, threads): (&[&str], &str)) -> (Vec<u8>, Outcome) {
    let mut set = vec![
        ("transport", transport),
        ("mtu", "4000"),
        ("sampling.interval", "100us"),
        ("run.message", "128KiB"),
        ("msg_window", "1024"),
        ("run.limit", "3s"),
        ("rc.mlcc.dt", "333us"),
        ("rc.mlcc.theta", "6ms"),
        ("sim.threads", threads),
    ];
    set.extend(faults.iter().map(|fault| ("fault", *fault)));
    let plan = plan(&set, across(), topology);
    let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
    let mut flows = Vec::new();
    outcome.write_flows(&plan, 0, &mut flows).unwrap();
    (flows, outcome)
}

/// For each flow the longest time in which nothing of it arrives, after the first of it has and
/// before all of it has, us.
fn silences(outcome: &Outcome) -> Vec<f64> {
    let flow = |flow: usize| {
        let (mut longest, mut last) = (0.0_f64, None);
        let all = outcome.series.last().unwrap().delivered_bytes[flow];
        for pair in outcome.series.windows(2) {
            let [before, after] = [&pair[0], &pair[1]].map(|sample| sample.delivered_bytes[flow]);
            if after > before {
                longest = longest.max(last.map_or(0.0, |last| pair[1].t_us - last));
                last = Some(pair[1].t_us);
            }
            if after == all {
                break;
            }
        }
        longest
    };
    (0..FLOWS as usize).map(flow).collect()
}

/// Checks the silences and the completion of a case, at one thread and at three.
fn check(faults: &[&str], whole_us: f64) {
    let (flows, outcome) = under("mlcc", faults, "1");
    let summary = &outcome.summary;
    assert!(summary.is_success(), "{faults:?}: {:?} {:?}", summary.flows, summary.audit);
    assert!(summary.drops["link_down"] > 100, "{faults:?}: {:?}", summary.drops);
    let (silences, took) = (silences(&outcome), summary.completion_us.unwrap());
    let longest = silences.iter().copied().fold(0.0, f64::max);
    assert!(longest < 4.0 * RTT_US, "{faults:?}: {silences:?}");
    assert!(took < whole_us + 4.0 * RTT_US, "{faults:?}: {took} us, {whole_us}");
    let (again, other) = under("mlcc", faults, "3");
    assert!(again == flows && other.summary.mlcc == summary.mlcc, "{faults:?}");
}

#[test]
fn flows_go_on_by_the_border_switches_that_are_left_within_four_round_trips() {
    let whole = under("mlcc", &[], "1").1.summary;
    assert!(whole.is_success() && whole.drops.is_empty(), "{:?}", whole.drops);
    let took = whole.completion_us.unwrap();
    // Borders 0 and 1 are the senders', 2 and 3 the receivers'.
    for switch in 0..4 {
        check(&[&format!("crash@border:{switch},from_us=5000,until_us=5000000")], took);
    }
    // One link of four between the sites.
    check(&["down@border:0:up:0,from_us=5000,until_us=5000000"], took);
}

#[test]
fn what_waits_in_a_queue_leaves_by_the_link_that_is_left() {
    let set = [
        ("transport", "mlcc"),
        ("run.limit", "3s"),
        ("fault", "down@border:1:down:1,from_us=1500"),
    ];
    let matrix = bulk_into_three_hosts();
    let plan = plan(&set, matrix, "two-dc-leaf:1ms,100,1,8");
    let summary = virtual_time::run(&plan, &mut Unwatched).unwrap().summary;
    assert!(summary.is_success(), "{:?} {:?}", summary.flows, summary.audit);
    // The switch is unaware of the dead link for 100 us, which is 300 packets at line rate. The
    // queues hold more than a thousand then.
    assert!((50..300).contains(&summary.drops["link_down"]), "{:?}", summary.drops);
    assert!(summary.mlcc.unwrap().queue_bytes_peak > 4_000_000, "{:?}", summary.mlcc);
}

/// Flows of 5 MB from eight hosts of the first site into three hosts of the second.
fn bulk_into_three_hosts() -> Matrix {
    let mut text = "Nodes 64\nConnections 8\n".to_owned();
    for flow in 0..8 {
        let start = flow * 20;
        writeln!(text, "{flow}->{} id {} start {start} size 5000000", 32 + flow % 3, flow + 1)
            .unwrap();
    }
    cm::read(text.as_bytes(), "bulk.cm", cm::StartUnit::Us).unwrap().matrix
}

#[test]
fn flows_come_back_to_a_border_switch_that_is_there_again() {
    let took = under("mlcc", &[], "1").1.summary.completion_us.unwrap();
    check(&["crash@border:3,from_us=5000,until_us=9000"], took);
    // The second one dies when the first is back: without it nothing would be left.
    let first = "crash@border:2,from_us=3000,until_us=6000";
    check(&[first, "crash@border:3,from_us=11000,until_us=5000000"], took);
    let never = "crash@border:2,from_us=3000,until_us=5000000";
    let (_, cut) = under("mlcc", &[never, "crash@border:3,from_us=11000,until_us=2000000"], "1");
    assert!(cut.summary.completion_us.unwrap() > 2_000_000.0, "nothing is left until 2 s");
}

#[test]
fn acknowledgements_pass_the_border_switch_that_has_the_queue_of_their_flow() {
    let advised = |topology: &str| {
        let set = [("transport", "mlcc"), ("mtu", "1000")];
        let plan = plan(&set, across(), topology);
        let summary = virtual_time::run(&plan, &mut Unwatched).unwrap().summary;
        assert!(
            summary.is_success() && summary.drops.is_empty(),
            "{topology}: {:?}",
            summary.drops
        );
        (summary.mlcc.unwrap().advised, summary.packets.acks)
    };
    for topology in ["two-dc-leaf:1ms,100,1,8,1", TOPOLOGY, "two-dc-leaf:1ms,25,2,8,3"] {
        let (advised, acks) = advised(topology);
        assert!(advised * 100 > acks * 99, "{topology}: {advised} of {acks}");
    }
}

#[test]
fn other_transports_go_on_by_what_is_left_too() {
    let (_, outcome) = under("dcqcn-hpcc", &["crash@border:1,from_us=5000,until_us=5000000"], "1");
    assert!(outcome.summary.is_success(), "{:?}", outcome.summary.flows);
}

#[test]
fn a_border_switch_that_stays_dead_gets_half_as_much_with_each_timeout() {
    // The only one of the senders' site, then that of the receivers', while notes of the senders'
    // own still come. What was on its way is sent again once, then half of it, and so on: together
    // less than twice as much.
    for dead in ["border:0", "border:1"] {
        let fault = format!("crash@{dead},from_us=3000,until_us=5000000");
        let resent = |transport| {
            let ran = on("two-dc-leaf:1ms,100,1,8", transport, (&[&fault], "1"));
            (ran.1.summary.packets.retransmitted, ran.1.summary.packets.data_new)
        };
        let ((mlcc, new), (hpcc, _)) = (resent("mlcc"), resent("hpcc"));
        assert!(mlcc < new && mlcc < 2 * hpcc, "{dead}: {mlcc} and {hpcc} resent, {new} new");
    }
}
