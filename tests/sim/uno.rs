//! Two datacentres with phantom queues: distances, black holes, correlated losses, threads.
//!
//! Source: \[uno\] sec. 2.4 and 5.1; hosts 0 to 127 are the first site's, 128 to 255 the second's.

use experiments::workload::FlowSpec;
use experiments::workload::matrix::Start;
use transport::{Duration, HostId};

use super::*;

const TOPOLOGY: &str = "two-dc";

/// UnoCC as its paper has it, for switches with phantom queues that drop.
const UNO: [(&str, &str); 4] =
    [("cc", "unocc"), ("lb", "spray"), ("trim", "off"), ("switch.qdisc", "phantom")];

fn with<'a>(settings: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&UNO[..], settings].concat()
}

/// Flows of `size` bytes that all start at once.
fn flows_of(pairs: &[(u32, u32)], size: u64) -> Matrix {
    let mut matrix = Matrix { nodes: 256, ..Matrix::default() };
    for &(src, dst) in pairs {
        matrix.push_flow(FlowSpec::new(HostId(src), HostId(dst), Bytes(size))).unwrap();
    }
    matrix
}

//= uno#5.1
#[test]
fn controllers_are_given_how_far_each_pair_is_and_how_wide_a_site_is() {
    let plan = plan(&UNO, flows_of(&[(0, 255)], 4096), TOPOLOGY);
    let rtt = |src, dst| plan.path(HostId(src), HostId(dst)).base_rtt.as_us_f64();
    // Links of 1 us; two, four, six, or eight of them and the one of 886.5 us.
    for (src, dst, least) in [(0, 1, 4.0), (0, 4, 8.0), (0, 127, 12.0), (255, 128, 12.0)] {
        assert!((0.0..2.1).contains(&(rtt(src, dst) - least)), "{src} to {dst}");
    }
    for (src, dst) in [(0, 128), (255, 127)] {
        assert!((0.0..3.1).contains(&(rtt(src, dst) - 1789.0)), "{src} to {dst}");
    }
    let params = &plan.settings.cc_params;
    let site = Duration::from_ns(14_000);
    assert!(
        params.unocc.intra_rtt > site && params.unocc.intra_rtt < site + Duration::from_ns(100)
    );
    assert!(params.mprdma_bbr.inter_rtt > params.unocc.intra_rtt);
    assert!(params.gemini.inter_rtt.as_us_f64() > 1792.0);
}

#[test]
fn a_flow_alone_takes_what_its_path_takes() {
    for pair in [(0, 1), (0, 127), (3, 200)] {
        let outcome = run(&UNO, flows_of(&[pair], 40_960), TOPOLOGY);
        let slowdown = slowdown(&outcome.summary);
        assert!(slowdown < 1.01, "{pair:?}: {slowdown}");
    }
}

#[test]
fn two_sites_on_two_threads_give_the_same_bytes_with_losses_and_phantom_queues() {
    let pairs = [(0, 120), (1, 120), (130, 120), (140, 120), (5, 250), (9, 250)];
    let losses = ("fault", "block-loss:0.01/0.005/0.001@border,block=10");
    let run = |threads| {
        let settings = with(&[losses, ("sim.threads", threads), ("switch.queue", "1MB")]);
        flows(&settings, flows_of(&pairs, 2_000_000), TOPOLOGY)
    };
    assert_eq!(String::from_utf8(run("1")).unwrap(), String::from_utf8(run("2")).unwrap());
}

//= uno#2.4
#[test]
fn links_to_the_other_site_lose_packets_at_the_rate_of_the_table() {
    // A tenth of the blocks lose one packet and a tenth lose two: 3 % of packets, on each of three
    // links, and nothing inside a site.
    let settings = with(&[("fault", "block-loss:0.1/0.1@border,block=10")]);
    let outcome = run(&settings, flows_of(&[(0, 200)], 8_192_000), TOPOLOGY);
    let packets = outcome.summary.packets;
    let sent = packets.data_new + packets.retransmitted;
    let expected = 3 * (sent + packets.acks) * 3 / 100;
    let dropped = outcome.summary.drops["burst_loss"];
    assert!(dropped.abs_diff(expected) * 4 < expected, "{dropped} of {sent}, {expected} expected");
    let near = run(&settings, flows_of(&[(0, 100)], 8_192_000), TOPOLOGY);
    assert_eq!(near.summary.packets.dropped, 0);
}

#[test]
fn a_dead_link_between_sites_is_a_black_hole_until_switches_notice() {
    let lost = |detection| {
        let settings = with(&[
            ("fault", "down@border:0:up:0,until_us=6000"),
            ("switch.detection", detection),
            ("loss.retries_max", "64"),
        ]);
        let outcome = run(&settings, flows_of(&[(0, 200)], 8_192_000), TOPOLOGY);
        outcome.summary.drops.get("link_down").copied().unwrap_or(0)
    };
    // One of eight links is dead; no sender is informed, or all are from the start.
    let unnoticed = lost("never");
    assert!((150..600).contains(&unnoticed), "{unnoticed} of 2000 packets");
    assert_eq!(lost("0us"), 0);
}

#[test]
fn flows_inside_and_across_are_kept_apart_and_controlled_by_policies_of_their_own() {
    let pairs = [(0, 120), (1, 120), (130, 121), (2, 250)];
    let auto = [("transport", "auto")];
    let plan = plan(&auto, flows_of(&pairs, 40_960), TOPOLOGY);
    let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
    let mut lines = Vec::new();
    outcome.write_flows(&plan, 0, &mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let near = r#""inter":false,"cc":"smartt","lb":"reps""#;
    let far = r#""inter":true,"cc":"unocc","lb":"wary""#;
    for (line, expected) in lines.lines().zip([near, near, far, far]) {
        assert!(line.contains(expected), "{line}");
    }
    let summary = outcome.summary;
    let (intra, inter) = (summary.fct_intra_us.unwrap(), summary.fct_inter_us.unwrap());
    assert!(intra.max.unwrap() < 100.0 && inter.min.unwrap() > 1789.0, "{intra:?} {inter:?}");
    assert_eq!((summary.fct_us.min, summary.fct_us.max), (intra.min, inter.max));
    let alone = summary.fct_slowdown;
    assert!(alone.min.unwrap() >= 1.0 && alone.p50.unwrap() < 1.05, "{alone:?}");
    let one_site = run(&auto, matrix("incast", 16, 1, &[("degree", "2")]), "paper-testbed");
    assert_eq!(one_site.summary.fct_inter_us, None);
}

/// Silence after which a segment is lost, as in the simulator of \[uno\].
const TIMERS: [(&str, &str); 2] = [("loss.rto", "1.25"), ("loss.rto_min", "414us")];

//= uno#5.2
#[test]
fn uno_is_ahead_of_what_it_is_compared_with_inside_and_across_and_no_preset_is_behind_it() {
    let sizes = [("intra_cdf", "ali-storage"), ("inter_cdf", "websearch")];
    let params = [&sizes[..], &[("load", "0.4"), ("flows", "600")]].concat();
    let matrix = matrix("poisson-two-dc", 32, 2, &params);
    let measures = |settings: &[(&str, &str)]| {
        let settings = [&TIMERS[..], settings].concat();
        let summary = run(&settings, matrix.clone(), "two-dc:4").summary;
        let all = [Some(summary.fct_us), summary.fct_intra_us, summary.fct_inter_us];
        all.map(|fct| fct.unwrap()).map(|fct| [fct.mean.unwrap(), fct.p99.unwrap()])
    };
    let phantom = [("switch.phantom.kmin", "0.02"), ("switch.phantom.kmax", "0.6")];
    let subflows = with(&[("lb", "subflow"), phantom[0], phantom[1]]);
    let uno = measures(&subflows);
    let one_path = [("lb", "ecmp"), ("trim", "off"), ("switch.border_qdisc", "drop-tail")];
    for cc in ["gemini", "mprdma-bbr"] {
        let other = measures(&[&one_path[..], &[("cc", cc)]].concat());
        let ahead =
            uno.iter().flatten().zip(other.iter().flatten()).all(|(ours, theirs)| ours < theirs);
        assert!(ahead, "{cc}: {other:?}, Uno: {uno:?}");
        assert!(other[1][1] > 1.25 * uno[1][1], "{cc}: {other:?}, Uno: {uno:?}");
    }
    for preset in ["uno", "auto"] {
        let ours = measures(&[("transport", preset)]);
        let level =
            ours.iter().flatten().zip(uno.iter().flatten()).all(|(ours, uno)| *ours < 1.05 * uno);
        assert!(level, "{preset}: {ours:?}, Uno: {uno:?}");
    }
}

#[test]
fn a_lone_flow_of_one_site_fills_most_of_its_line_at_any_rate_and_mtu() {
    let slowdown = |topology: &str, mtu: &str| {
        let matrix = Matrix { nodes: 8, ..flows_of(&[(0, 7)], 10_000_000) };
        let outcome = run(&[("transport", "uno"), ("mtu", mtu)], matrix, topology);
        outcome.summary.slowdown.unwrap()
    };
    for gbps in [1, 10, 25, 100, 400] {
        let topology = format!("leaf-spine:2,2,4,{gbps}");
        for mtu in ["1000", "4160", "8960"] {
            let slowdown = slowdown(&topology, mtu);
            assert!(slowdown < 1.35, "{slowdown} at {gbps} Gb/s and {mtu} bytes");
        }
    }
    // Sites so near to each other that a BDP across is 42 packets.
    let near = slowdown("two-dc:4,2,5us", "4160");
    assert!(near < 1.35, "{near}");
}

#[test]
fn flows_of_one_datacentre_gain_windows_before_they_end() {
    let longest = |set: &[(&'static str, &'static str)], seed| {
        let flows = matrix("permutation", 32, seed, &[("size", "2MiB")]);
        let settings = [&[("transport", "uno")], set].concat();
        run(&settings, flows, "leaf-spine:4,4,8,100").summary.fct_us.max.unwrap()
    };
    let sum = |set: &[_]| (1..=3).map(|seed| longest(set, seed)).sum::<f64>();
    // With the alpha of several datacentres a window that came down to a packet stays there.
    let (small, own) = (sum(&[("cc.unocc.alpha", "0.001")]), sum(&[]));
    assert!(own < 0.9 * small, "{own} {small}");
}

#[test]
fn auto_is_behind_neither_of_its_parts_where_near_and_far_flows_share_a_port() {
    let pairs = [129, 145, 161, 177, 1, 17, 33, 49].map(|src| (src, 240));
    let completion = |transport| {
        let flows = flows_of(&pairs, 30_000_000);
        let outcome = run(&[("transport", transport)], flows, "two-dc:8,8,214.5us");
        outcome.summary.fct_us.max.unwrap()
    };
    let [auto, near, far] = ["auto", "smartt", "uno"].map(completion);
    assert!(auto < 1.02 * near.min(far), "{auto}, {near} {far}");
}

#[test]
fn bursts_that_overflow_the_links_between_sites_fit_when_they_are_sent_again() {
    // 64 hosts send 1 MB each over eight links at once: a timeout of 2.24 ms, an RTT and 0.6 ms of
    // the links, or all that and another timeout.
    let pairs: Vec<_> = (0..64).map(|host| (host, 128 + host)).collect();
    let longest_ms = |early| {
        let settings = [("transport", "uno"), ("cc.unocc.qa_early", early)];
        let summary = run(&settings, flows_of(&pairs, 1_000_000), TOPOLOGY).summary;
        summary.fct_us.max.unwrap() / 1e3
    };
    let (early, late) = (longest_ms("0.95"), longest_ms("0"));
    assert!((4.0..5.0).contains(&early) && late > 6.0, "{early} {late}");
}

#[test]
fn what_switches_trim_of_bursts_between_sites_fits_when_it_is_sent_again_and_meets_no_dead_link() {
    let dead = [
        ("switch.queue", "1800KB"),
        ("fault", "down@border:0:up:0"),
        ("switch.detection", "never"),
        ("loss.retries_max", "64"),
    ];
    // Most of what 40 hosts send at once is trimmed. With 24 hosts little is, after a round trip,
    // when nothing shows yet that a link is dead. `uno` waits for silence, which shows both.
    for (hosts, size, settings) in
        [(40, 600_000, &[("switch.queue", "400KB")][..]), (24, 1_200_000, &dead[..])]
    {
        let pairs: Vec<_> = (0..hosts).map(|host| (host, 128 + host)).collect();
        let longest = |transport| {
            let settings = [&[("transport", transport)][..], settings].concat();
            run(&settings, flows_of(&pairs, size), TOPOLOGY).summary.fct_us.max.unwrap()
        };
        let (auto, uno) = (longest("auto"), longest("uno"));
        assert!(auto < 1.02 * uno, "{hosts} hosts: {auto} {uno}");
    }
}

/// `flows` with `uno` and the code `ec`, over links with `fault`.
fn coded(ec: &str, flows: Matrix, fault: &str) -> Outcome {
    let settings = [("transport", "uno"), ("ec", ec), ("switch.queue", "1MB"), ("fault", fault)];
    run(&settings, flows, TOPOLOGY)
}

/// Every 16th host sends eight flows of `size` bytes, one each 4 ms, to the host `ahead` of it.
fn rows(ahead: u32, size: u64) -> Matrix {
    let mut matrix = Matrix { nodes: 256, ..Matrix::default() };
    for (host, row) in (0..8).flat_map(|host| (0..8).map(move |row| (16 * host, row))) {
        let flow = FlowSpec::new(HostId(host), HostId(host + ahead), Bytes(size));
        let start = Start::At(Duration::from_ms(4 * row));
        matrix.push_flow(FlowSpec { start, ..flow }).unwrap();
    }
    matrix
}

#[test]
fn losses_of_links_between_sites_are_coded_against_and_cost_little_more_than_with_the_code() {
    let (lossy, flows) = ("loss:0.001@border", || rows(128, 2_000_000));
    let mean = |outcome: &Outcome| outcome.summary.fct_us.mean.unwrap();
    let [off, code, auto] = ["off", "8,2", "auto"].map(|ec| coded(ec, flows(), lossy));
    assert!(auto.summary.packets.parity > 0);
    let chosen = |outcome: &Outcome| outcome.summary.counters.get("ec_auto_coded").copied();
    assert_eq!((chosen(&off), chosen(&code)), (None, None));
    assert!(chosen(&auto).unwrap() * 2 >= auto.summary.packets.parity);
    // Half the flows of a host are over before it has found two losses.
    let gain = (mean(&off) - mean(&auto)) / (mean(&off) - mean(&code));
    assert!(gain > 0.4, "{gain}: {} {} {}", mean(&off), mean(&code), mean(&auto));
}

/// Far flows of 16 MB, and 1.6 ms after each the flows of so many hosts of the second site to its
/// receiver, of 60 KB each.
fn bursts(hosts: u32) -> Matrix {
    let mut matrix = Matrix { nodes: 256, ..Matrix::default() };
    let at = |us| Start::At(Duration::from_us(us));
    for us in (0..6).map(|row| row * 5000) {
        let far = FlowSpec::new(HostId(0), HostId(128), Bytes(16_000_000));
        matrix.push_flow(FlowSpec { start: at(us), ..far }).unwrap();
        for src in (0..hosts).map(|host| HostId(129 + host * 127 / hosts)) {
            let near = FlowSpec::new(src, HostId(128), Bytes(60_000));
            matrix.push_flow(FlowSpec { start: at(us + 1600), ..near }).unwrap();
        }
    }
    matrix
}

#[test]
fn short_bursts_and_shallow_queues_that_overflow_are_no_reason_to_code() {
    let crossing: Vec<_> = (0..32).map(|host| (4 * host, 128 + 4 * host)).collect();
    let crossing = flows_of(&crossing, 8_000_000);
    let shallow = ("switch.border_queue", "200KB");
    for (case, transport, flows, queue) in [
        ("bursts", "uno", bursts(30), ("switch.border_queue", "1MB")),
        ("more bursts", "uno", bursts(45), ("switch.border_queue", "1MB")),
        ("shallow", "mprdma-bbr", crossing.clone(), shallow),
        ("shallow", "gemini", crossing, shallow),
    ] {
        let settings = [("transport", transport), ("ec", "auto"), ("switch.queue", "1MB"), queue];
        let packets = run(&settings, flows, TOPOLOGY).summary.packets;
        assert_eq!(packets.parity, 0, "{case} {transport}");
        assert!(packets.dropped > 1000, "{case} {transport}: {}", packets.dropped);
    }
}

#[test]
fn nothing_is_coded_without_loss_nor_near_nor_where_queues_overflow() {
    let bursts = flows_of(&(0..16).map(|src| (src, 240)).collect::<Vec<_>>(), 5_000_000);
    for (case, flows, fault) in [
        ("clean", rows(128, 2_000_000), "loss:0@border"),
        ("near", rows(8, 2_000_000), "loss:0.001@fabric"),
        ("full queues", bursts, "loss:0@border"),
    ] {
        let [off, auto] = ["off", "auto"].map(|ec| coded(ec, flows.clone(), fault).summary);
        assert_eq!(auto.packets.parity, 0, "{case}");
        assert_eq!(auto.counters.get("ec_auto_coded"), None, "{case}");
        assert_eq!((auto.fct_us.mean, auto.packets), (off.fct_us.mean, off.packets), "{case}");
        assert_eq!(auto.packets.retransmitted > 0, case != "clean", "{case}");
    }
}
