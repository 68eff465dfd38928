//! The claims about MLCC in docs/RESULTS.md, at a size that tests can run: two sites of 32 hosts,
//! 1 ms apart, packets of 1000 bytes.
//!
//! Source: \[mlcc\] fig. 2, 8 and 9: flows inside a site and as many from the other into the same
//! hosts.

use std::fmt::Write as _;

use experiments::measure::Sample;
use experiments::plan::RunError;
use transport::cc::MlccLaw;

use super::*;

const TOPOLOGY: &str = "two-dc-leaf:1ms,100,1,8";

/// Two flows inside the second site and two from the first, into the same two hosts.
fn into_the_same_hosts() -> Matrix {
    let mut text = "Nodes 64\nConnections 4\n".to_owned();
    for (id, (from, to)) in [(32, 40), (33, 41), (0, 40), (1, 41)].into_iter().enumerate() {
        writeln!(text, "{from}->{to} id {} start 100 size 200000000", id + 1).unwrap();
    }
    cm::read(text.as_bytes(), "recv.cm", cm::StartUnit::Us).unwrap().matrix
}

fn settings<'a>(transport: &'a str, limit: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("transport", transport),
        ("mtu", "1000"),
        ("sampling.interval", "1ms"),
        ("run.message", "128KiB"),
        ("msg_window", "1024"),
        ("run.limit", limit),
        // D_t and theta of the paper are a sixth and three of its RTT_C.
        ("rc.mlcc.dt", "333us"),
        ("rc.mlcc.theta", "6ms"),
    ]
}

/// Jain's index, the sum and the least of the flows' goodput, Gbit/s.
type Shares = (f64, f64, f64);

/// The shares between two samples.
fn shares(before: &Sample, after: &Sample) -> Shares {
    let span = after.t_us - before.t_us;
    let gbps = |(after, before): (&u64, &u64)| Bytes(after - before).as_f64() * 8e-3 / span;
    let rates: Vec<f64> =
        after.delivered_bytes.iter().zip(&before.delivered_bytes).map(gbps).collect();
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(s, q), r| (s + r, q + r * r));
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    (sum * sum / (4.0 * squares), sum, least)
}

/// Shares in each millisecond, by its end.
fn series(transport: &str, limit: &str) -> (Vec<(f64, Shares)>, Outcome) {
    let plan = plan(&settings(transport, limit), into_the_same_hosts(), TOPOLOGY);
    let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
    let pairs = outcome.series.windows(2);
    let shares: Vec<_> = pairs.map(|pair| (pair[1].t_us, shares(&pair[0], &pair[1]))).collect();
    (shares, outcome)
}

//= mlcc#4.2
#[test]
fn near_and_far_flows_share_a_port_within_five_round_trips_and_nothing_is_lost() {
    let (shares, outcome) = series("mlcc", "30ms");
    assert!(outcome.summary.drops.is_empty(), "{:?}", outcome.summary.drops);
    assert!(shares.len() > 25, "{}", shares.len());
    for (at, (jain, sum, least)) in shares.iter().filter(|(at, _)| *at > 10_000.0) {
        assert!(*jain >= 0.95, "{jain} at {at} us");
        // 0.95 of two links of 25 Gb/s, without headers.
        assert!(*sum >= 0.9 * 43.6, "{sum} at {at} us");
        assert!(*least >= 7.0, "{least} at {at} us");
    }
    let peak = |name: &str, from: f64| {
        let later = outcome.series.iter().filter(|sample| sample.t_us > from);
        later.map(|sample| sample.queue_peak_bytes[name]).max().unwrap()
    };
    assert!(peak("tor", 0.0) <= 200_000, "{}", peak("tor", 0.0));
    assert!(peak("tor", 10_000.0) <= 20_000, "{}", peak("tor", 10_000.0));
    assert_eq!(peak("held", -1.0), outcome.summary.mlcc.unwrap().queue_bytes_peak);
    let all = ["tor", "agg", "border", "held"].map(|name| peak(name, -1.0));
    assert_eq!(
        all.into_iter().max(),
        outcome.summary.queue_bytes.map(|queue| queue.max),
        "{all:?}"
    );
}

//= mlcc#2.2
#[test]
fn without_its_loops_far_flows_starve_near_ones() {
    let (shares, _) = series("hpcc", "10ms");
    let starved = shares.iter().filter(|(at, (_, _, least))| *at > 3000.0 && *least < 1.0);
    assert!(starved.count() >= 2, "{shares:?}");
}

/// Flows of 2 MB across, eight of them to one host, and some inside, under `faults`: flows, the
/// summary.
fn under(faults: &[(&str, &str)], threads: &str) -> (Vec<u8>, Outcome) {
    over(TOPOLOGY, faults, threads)
}

/// The flows of [`under`] on two sites of 32 hosts.
fn over(topology: &str, more: &[(&str, &str)], threads: &str) -> (Vec<u8>, Outcome) {
    let across = (0..8).map(|host| (host * 3, 40));
    let inside = [(32, 41), (33, 41), (1, 9), (2, 10)];
    between(&across.chain(inside).collect::<Vec<_>>(), topology, (more, threads))
}

/// A flow of 2 MB for each pair of hosts, on two sites of 32 hosts.
fn between(
    pairs: &[(u32, u32)],
    topology: &str,
    (more, threads): (&[(&str, &str)], &str),
) -> (Vec<u8>, Outcome) {
    let mut text = format!("Nodes 64\nConnections {}\n", pairs.len());
    for (id, (from, to)) in pairs.iter().enumerate() {
        writeln!(text, "{from}->{to} id {} start 10 size 2000000", id + 1).unwrap();
    }
    let matrix = cm::read(text.as_bytes(), "border.cm", cm::StartUnit::Us).unwrap().matrix;
    let settings = [&settings("mlcc", "2s"), more, &[("sim.threads", threads)]].concat();
    let plan = plan(&settings, matrix, topology);
    let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
    let mut flows = Vec::new();
    outcome.write_flows(&plan, 0, &mut flows).unwrap();
    (flows, outcome)
}

#[test]
fn border_switches_under_faults_lose_no_flow_and_any_number_of_threads_gives_the_same() {
    let all: &[(&str, &str)] = &[
        ("fault", "burst-loss:0.001@border,burst=3"),
        ("fault", "duplicate:0.01@border"),
        ("fault", "reorder:0.01@border,delay_us=30"),
        ("fault", "corrupt:0.001@all"),
        ("loss.reorder_window", "1"),
    ];
    for faults in [&[], all] {
        let (flows, Outcome { summary, series, .. }) = under(faults, "1");
        assert!(summary.is_success(), "{:?} {:?}", summary.flows, summary.audit);
        let counts = summary.mlcc.unwrap();
        assert!(counts.switch_int > 1000 && counts.advised > 1000, "{counts:?}");
        assert_eq!((counts.queues_peak, counts.pool_exhausted), (8, 0));
        assert_eq!(counts.advice_refused, 0);
        assert!(!faults.is_empty() || probes(&summary) == 0, "{:?}", summary.packets);
        assert!(summary.packets.originated >= Some(counts.switch_int));
        for threads in ["2", "3"] {
            let (again, outcome) = under(faults, threads);
            assert!(again == flows && outcome.summary.mlcc == Some(counts), "{threads} threads");
            assert_eq!(outcome.series, series, "{threads} threads");
        }
    }
}

/// Where switches of the lowest tier alone write telemetry, both copies of a duplicate reach the
/// receiver's border switch with one frame. The queue's hop then makes a copy of it, which may wait
/// for the port behind acknowledgements.
#[test]
fn copies_with_one_frame_leave_a_border_switch() {
    let more: &[(&str, &str)] = &[("switch.int", "tor"), ("fault", "duplicate:0.05@wan")];
    let both_ways: Vec<_> =
        (0..12).flat_map(|host| [(host, 32 + host), (44 + host, host)]).collect();
    let (flows, outcome) = between(&both_ways, TOPOLOGY, (more, "1"));
    let summary = outcome.summary;
    assert!(summary.is_success(), "{:?} {:?}", summary.flows, summary.audit);
    for threads in ["2", "3"] {
        assert!(between(&both_ways, TOPOLOGY, (more, threads)).0 == flows, "{threads} threads");
    }
}

/// Segments sent again to find out what has arrived.
fn probes(summary: &Summary) -> u64 {
    summary.counters.get("probes").copied().unwrap_or(0)
}

/// The longest time from `until`, us, for which a flow that has bytes left delivers none, in RTT_C
/// of 2.05 ms.
fn longest_wait(outcome: &Outcome, until: f64) -> f64 {
    let end = &outcome.series.last().unwrap().delivered_bytes;
    let samples = || outcome.series.iter().filter(|sample| sample.t_us >= until);
    let wait = |flow: usize| {
        let (mut since, mut bytes, mut longest) = (until, 0, 0.0);
        for sample in samples() {
            let now = sample.delivered_bytes[flow];
            longest =
                if bytes == end[flow] { longest } else { f64::max(longest, sample.t_us - since) };
            (since, bytes) = if now == bytes { (since, bytes) } else { (sample.t_us, now) };
        }
        longest
    };
    (0..end.len()).map(wait).fold(0.0, f64::max) / 2050.0
}

#[test]
fn flows_go_on_within_four_round_trips_of_the_return_of_a_border_however_long_it_was_dead() {
    let mut all = 0;
    // Timeouts alone, which double, wait for up to 45 RTT_C.
    for (switch, at, dead) in [0, 1].into_iter().flat_map(|switch| {
        let cases = [(20, 9000), (1500, 30_000), (2600, 5000), (4000, 100_000)];
        cases.map(|(at, dead)| (switch, at, dead))
    }) {
        let fault = format!("crash@border:{switch},from_us={at},until_us={}", at + dead);
        let (_, outcome) = under(&[("fault", &fault), ("sampling.interval", "100us")], "1");
        let summary = &outcome.summary;
        assert!(summary.is_success(), "{fault}: {:?} {:?}", summary.flows, summary.audit);
        let waited = longest_wait(&outcome, f64::from(at + dead));
        assert!(waited <= 4.0, "{fault}: {waited} RTT_C");
        all += probes(summary);
    }
    assert!(all > 0, "silences were probed");
}

/// Two sites of 32 hosts with four links between their border switches.
const PARALLEL: &str = "two-dc-leaf:1ms,100,4,8";

#[test]
fn nothing_is_sent_again_without_loss_near_or_far_where_links_across_are_parallel() {
    for (seed, mtu) in [("1", "1000"), ("2", "1000"), ("3", "4096")] {
        for transport in ["mlcc", "mlcc-paper"] {
            let more = [("seed", seed), ("mtu", mtu), ("transport", transport)];
            let summary = over(PARALLEL, &more, "1").1.summary;
            assert!(summary.is_success() && summary.drops.is_empty(), "{:?}", summary.drops);
            assert_eq!(summary.packets.retransmitted, 0, "{more:?}");
        }
    }
}

#[test]
fn the_least_window_for_reordering_holds_for_flows_on_one_path_alone() {
    let burst = ("fault", "burst-loss:0.002@wan,burst=3");
    let differs = |more: &[(&str, &str)]| {
        let with =
            |window| over(PARALLEL, &[more, &[("loss.reorder_window", window)]].concat(), "1").0;
        with("0") != with("auto")
    };
    assert!(differs(&[burst]));
    assert!(!differs(&[burst, ("lb", "plb")]));
    let sprayed = [("transport", "dctcp"), ("lb", "spray"), ("far.lb", "subflow"), burst];
    assert!(!differs(&sprayed));
    let far = [("transport", "dctcp"), ("lb", "spray"), ("far.lb", "ecmp"), burst];
    assert!(differs(&far), "far flows keep one path");
}

#[test]
fn a_border_switch_that_crashes_keeps_no_flow_waiting_for_four_round_trips() {
    let completion = |outcome: &Outcome| outcome.summary.completion_us.unwrap();
    let whole = completion(&under(&[], "1").1);
    // RTT_C is 2.05 ms: before, while and after the first data is at each border.
    for (switch, at, dead) in
        [(0, 20, 1), (1, 1100, 1), (0, 2200, 500), (1, 2600, 500), (0, 5000, 1)]
    {
        let until = at + dead;
        let fault = format!("crash@border:{switch},from_us={at},until_us={until}");
        let (flows, outcome) = under(&[("fault", &fault)], "1");
        let summary = &outcome.summary;
        assert!(summary.is_success(), "{fault}: {:?} {:?}", summary.flows, summary.audit);
        assert!(summary.drops["link_down"] > 0, "{fault}: {:?}", summary.drops);
        let took = completion(&outcome);
        assert!(took < whole + f64::from(dead) + 4.0 * 2050.0, "{fault}: {took} us, {whole}");
        let (again, other) = under(&[("fault", &fault)], "3");
        assert!(again == flows && other.summary.mlcc == summary.mlcc, "{fault}");
    }
    let queue = under(&[("fault", "crash@border:1,from_us=2000,until_us=2001")], "1").1;
    let held = |sample: &&Sample| sample.dci_queue_bytes.iter().flatten().sum::<u64>();
    assert!(queue.series.iter().any(|sample| held(&sample) > 0), "queues come again");
}

#[test]
fn only_a_switch_whose_program_can_begin_anew_crashes() {
    let tree = topology::by_name("zeropod:4,2,1").unwrap();
    let refusal = |switch: &str| {
        let fault = format!("crash@{switch},from_us=1,until_us=2");
        let text = format!("Nodes {}\nConnections 1\n0->2 id 1 start 0 size 1000\n", tree.nodes);
        let matrix = cm::read(text.as_bytes(), "one.cm", cm::StartUnit::Us).unwrap().matrix;
        let set = [("transport", "zeropod"), ("fault", fault.as_str())];
        let plan = Plan::new(&draft(&set), matrix, &tree);
        plan.map_or_else(|error| error.to_string(), |_| String::new())
    };
    assert_eq!(refusal("tor:0"), "", "a plain switch crashes");
    let refused = refusal("core:0");
    assert!(refused.contains("pod-core") && refused.contains("use down"), "{refused}");
}

#[test]
fn receivers_have_the_round_trips_of_their_network_and_short_links_are_crossed_too() {
    for (topology, rtt_us) in [(TOPOLOGY, 2044), (PAPERS, 6044), ("two-dc-leaf:10us,100,1,8", 64)] {
        let plan = plan(&[("transport", "mlcc"), ("mtu", "1000")], across(topology), topology);
        let half = plan.settings.rc_params.mlcc;
        let whole = Duration::from_us(rtt_us);
        assert!(half.rtt_c >= whole && half.rtt_c < whole + Duration::from_us(3), "{}", half.rtt_c);
        assert_eq!(half.theta, half.rtt_c.scaled(3.0), "{topology}");
        assert!(half.dt > half.rtt_c.scaled(0.166) && half.dt < half.rtt_c.scaled(0.167));
        assert!(half.rtt_d < Duration::from_us(26), "{}", half.rtt_d);
        let path = plan.path(HostId(0), HostId(plan.hosts() - 1));
        assert_eq!(plan.settings.policies(&path).cc, CcKind::Mlcc, "{topology}");
        let summary = virtual_time::run(&plan, &mut Unwatched).unwrap().summary;
        assert!(summary.is_success() && summary.mlcc.unwrap().advised > 0, "{topology}");
    }
}

#[test]
fn times_that_are_set_by_hand_count_instead_of_round_trips() {
    let half = |set: &[(&str, &str)]| {
        let set = [&[("transport", "mlcc"), ("mtu", "1000")], set].concat();
        plan(&set, across(TOPOLOGY), TOPOLOGY).settings.rc_params.mlcc
    };
    let (theta, dt) = (("cc.mlcc.theta", "9ms"), ("cc.mlcc.dt", "700us"));
    let (both, one) = (half(&[theta, dt]), half(&[theta]));
    assert_eq!((both.theta, both.dt), (Duration::from_ms(9), Duration::from_us(700)));
    assert_eq!((one.theta, one.dt), (Duration::from_ms(9), half(&[]).dt));
    let count = ("cc.mlcc.theta_rtts", "5");
    let counted = half(&[theta, count]);
    assert_eq!(counted.theta, counted.rtt_c.scaled(5.0), "the last one that is set acts");
    assert_eq!(half(&[count, theta]).theta, Duration::from_ms(9));
    let paper = plan(&[("transport", "mlcc-paper"), ("mtu", "1000")], across(TOPOLOGY), TOPOLOGY);
    let paper = paper.settings.rc_params.mlcc;
    assert_eq!((paper.theta, paper.dt), (Duration::from_ms(18), Duration::from_ms(1)));
}

#[test]
fn receivers_halves_have_the_target_and_the_least_rate_that_are_set_for_senders() {
    let half = |own: &[(&str, &str)]| {
        let cc = [("cc.mlcc.target", "0.8"), ("cc.mlcc.rate_min", "0.1")];
        let set = [&[("transport", "mlcc"), ("mtu", "1000")], &cc[..], own].concat();
        let half = plan(&set, across(TOPOLOGY), TOPOLOGY).settings.rc_params.mlcc;
        (half.target, half.rate_min)
    };
    assert_eq!(half(&[]), (0.8, 0.1));
    let own = [("rc.mlcc.target", "0.9"), ("rc.mlcc.rate_min", "0.2")];
    assert_eq!(half(&own), (0.9, 0.2), "a half may have its own");
}

/// Four far flows into one host, 8 ms away. With the paper's theta of 18 ms, which is little more
/// than RTT_C, they fill the border's buffer of 128 MB.
#[test]
fn the_queue_at_the_border_stays_short_where_sites_are_far_apart() {
    let text: String = (0..4).fold("Nodes 256\nConnections 4\n".to_owned(), |text, host| {
        text + &format!("{host}->160 id {} start 0 size 2000000000\n", host + 1)
    });
    let matrix = cm::read(text.as_bytes(), "far.cm", cm::StartUnit::Us).unwrap().matrix;
    let set = [
        ("transport", "mlcc"),
        ("mtu", "1000"),
        ("run.message", "1MiB"),
        ("msg_window", "1024"),
        ("run.limit", "80ms"),
    ];
    let plan = plan(&set, matrix, "two-dc-leaf:8ms");
    let summary = virtual_time::run(&plan, &mut Unwatched).unwrap().summary;
    let peak = summary.mlcc.unwrap().queue_bytes_peak;
    assert!(peak < 64_000_000 && summary.drops.is_empty(), "{peak}: {:?}", summary.drops);
}

#[test]
fn a_site_of_one_rack_has_a_round_trip_of_its_own() {
    let dumbbell = "testbed/scenarios/mlcc/dumbbell.topo";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(dumbbell);
    let tree = topology::topo_file::read_path(&path).unwrap();
    let text = "Nodes 4\nConnections 1\n0->3 id 1 start 0 size 100000\n";
    let matrix = cm::read(text.as_bytes(), "across.cm", cm::StartUnit::Us).unwrap().matrix;
    let plan = Plan::new(&draft(&[("transport", "mlcc"), ("mtu", "1000")]), matrix, &tree).unwrap();
    // As long as to the spine and back: 1 and 5 us a link, and what packets take.
    let half = &plan.settings.rc_params.mlcc;
    assert!((24..27).contains(&(half.rtt_d.as_ps() / 1_000_000)), "{}", half.rtt_d);
    assert!(half.rtt_c > Duration::from_us(2000), "{}", half.rtt_c);
}

#[test]
fn whether_a_flow_is_far_follows_from_sites_whatever_round_trips_were_measured() {
    let [us, ms] = [Duration::from_us, Duration::from_ms];
    let text = "Nodes 4\nConnections 2\n0->1 id 1 start 0 size 9000\n0->3 id 2 start 0 size 9000\n";
    let matrix = cm::read(text.as_bytes(), "both.cm", cm::StartUnit::Us).unwrap().matrix;
    let tree = topology::by_name("two-sites:2,1").unwrap();
    let planned = |set: &[(&str, &str)], base: Option<Duration>, site: Option<Duration>| {
        let mut draft = draft(&[&[("transport", "mlcc"), ("mtu", "1000")], set].concat());
        (draft.base_rtt, draft.site_rtt) = (base.or(draft.base_rtt), site);
        Plan::new(&draft, matrix.clone(), &tree)
    };
    let [near, far] = [(HostId(0), HostId(1)), (HostId(0), HostId(3))];
    let sided = |plan: &Plan| {
        let [near, far] = [near, far].map(|(src, dst)| {
            let path = plan.path(src, dst);
            (path.base_rtt, plan.settings.policies(&path).cc)
        });
        assert_eq!((near.1, far.1), (CcKind::PowerTcp, CcKind::Mlcc), "{near:?} {far:?}");
        [near.0, far.0]
    };
    sided(&planned(&[], None, None).unwrap());
    let set = sided(&planned(&[("base_rtt", "7ms")], None, None).unwrap());
    assert_eq!(set, [ms(7) - Duration::from_ns(2), ms(7)]);
    // Polls that are late make a path inside a site look longer than one across.
    let cut = ms(6) - Duration::from_ns(1) - Duration::from_ps(1);
    for (inside, short) in [(us(300), us(300)), (ms(9), cut), (ms(6), cut)] {
        let plan = planned(&[], Some(ms(6)), Some(inside)).unwrap();
        assert_eq!(plan.settings.rc_params.mlcc.rtt_c, ms(6));
        let measured = [(near, inside), (far, ms(6))].into();
        assert_eq!(sided(&plan.with_measured_rtts(measured).unwrap()), [short, ms(6)]);
    }
    // No border switch takes part, so what was measured counts.
    let alone = planned(&[("cc.mlcc.signal", "off")], Some(ms(6)), Some(ms(9))).unwrap();
    let alone = alone.with_measured_rtts([(near, ms(9)), (far, ms(6))].into()).unwrap();
    assert_eq!([near, far].map(|(a, b)| alone.path(a, b).base_rtt), [ms(9), ms(6)]);
}

/// A value of `far.rtt` that was given leaves base RTTs as they were measured, and lies between
/// them.
#[test]
fn a_far_rtt_that_was_given_lies_between_measured_round_trips() {
    let us = Duration::from_us;
    let text = "Nodes 4\nConnections 2\n0->1 id 1 start 0 size 9000\n0->3 id 2 start 0 size 9000\n";
    let tree = topology::by_name("two-sites:2,1").unwrap();
    let measured = |far: &str, [inside, across, other]: [u64; 3]| {
        let mut draft = draft(&[("transport", "mlcc"), ("mtu", "1000"), ("far.rtt", far)]);
        (draft.base_rtt, draft.site_rtt) = (Some(us(other)), Some(us(inside)));
        let matrix = cm::read(text.as_bytes(), "both.cm", cm::StartUnit::Us).unwrap().matrix;
        let pairs = [(0, 1, inside), (0, 3, across), (1, 3, other)];
        let rtts = pairs.map(|(a, b, rtt)| ((HostId(a), HostId(b)), us(rtt)));
        let plan = Plan::new(&draft, matrix, &tree)?.with_measured_rtts(rtts.into())?;
        Ok::<_, RunError>(pairs.map(|(a, b, _)| plan.path(HostId(a), HostId(b)).base_rtt))
    };
    assert_eq!(measured("150us", [100, 190, 200]).unwrap(), [100, 190, 200].map(us));
    for (far, rtts, words) in [
        ("5ms", [100, 200, 200], ["5000.000us, by --set", "at most 200.000us"]),
        ("150us", [160, 190, 200], ["150.000us, by --set", "longer than 160.000us"]),
        ("195us", [100, 190, 200], ["a site (100.000us)", "across (190.000us)"]),
        ("150us", [250, 190, 200], ["150.000us, by --set", "longer than 250.000us"]),
    ] {
        let said = measured(far, rtts).unwrap_err().to_string();
        let all = words.iter().chain(&["far.rtt: found", "leave far.rtt out"]);
        assert!(all.clone().all(|word| said.contains(word)), "{rtts:?}: {said}");
    }
}

/// A network whose sites are as far apart as the paper's.
const PAPERS: &str = "two-dc-leaf:3ms,100,1,8";

/// One flow from the first host of `topology` to the last.
fn across(topology: &str) -> Matrix {
    let nodes = topology::by_name(topology).unwrap().nodes;
    let text =
        format!("Nodes {nodes}\nConnections 1\n0->{} id 1 start 0 size 1000000\n", nodes - 1);
    cm::read(text.as_bytes(), "across.cm", cm::StartUnit::Us).unwrap().matrix
}

#[test]
fn the_loops_follow_what_flows_inside_follow_unless_a_setting_says_otherwise() {
    let laws = |set: &[(&str, &str)]| {
        let set = [&settings("mlcc", "1ms"), set].concat();
        let settings = plan(&set, into_the_same_hosts(), TOPOLOGY).settings;
        let (own, half) = (settings.cc_params.mlcc, settings.rc_params.mlcc);
        assert_eq!(own.rate_ai.to_bits(), half.rate_ai.to_bits(), "{set:?}");
        (own.law, half.law, own.rate_ai)
    };
    let (hpcc, power) = (MlccLaw::Hpcc, MlccLaw::PowerTcp);
    assert_eq!(laws(&[]), (power, power, 0.006));
    assert_eq!(laws(&[("cc", "hpcc")]), (hpcc, hpcc, 0.002));
    assert_eq!(laws(&[("cc", "hpcc"), ("cc.hpcc.rate_ai", "0.01")]), (hpcc, hpcc, 0.01));
    assert_eq!(laws(&[("cc", "dctcp")]), (hpcc, hpcc, 0.002));
    assert_eq!(laws(&[("rc.mlcc.law", "hpcc")]), (power, hpcc, 0.006));
    assert_eq!(laws(&[("cc.mlcc.law", "hpcc")]), (hpcc, hpcc, 0.002));
}

#[test]
fn the_loops_have_the_gamma_of_what_flows_inside_follow_unless_a_setting_says_otherwise() {
    let gammas = |set: &[(&str, &str)]| {
        let set = [&settings("mlcc", "1ms"), set].concat();
        let settings = plan(&set, into_the_same_hosts(), TOPOLOGY).settings;
        (settings.cc_params.mlcc.gain, settings.rc_params.mlcc.gain)
    };
    assert_eq!(gammas(&[]), (0.9, 0.9));
    assert_eq!(gammas(&[("cc.powertcp.gain", "0.5")]), (0.5, 0.5));
    assert_eq!(gammas(&[("cc.mlcc.gain", "0.7")]), (0.7, 0.7));
    assert_eq!(gammas(&[("cc.mlcc.gain", "0.7"), ("rc.mlcc.gain", "0.6")]), (0.7, 0.6));
}

/// The time after which nine tenths of two far flows of 30 MB have come, which have a host each,
/// us. All of it comes; the last packets' losses are a matter of timeouts.
fn time_under(faults: &[(&str, &str)]) -> f64 {
    let text = "Nodes 64\nConnections 2\n0->40 id 1 start 0 size 30000000\n\
                8->41 id 2 start 0 size 30000000\n";
    let matrix = cm::read(text.as_bytes(), "far.cm", cm::StartUnit::Us).unwrap().matrix;
    let often = [("mtu", "4096"), ("sampling.interval", "50us")];
    let all = [&settings("mlcc", "1s"), &often[..], faults].concat();
    let outcome = virtual_time::run(&plan(&all, matrix, TOPOLOGY), &mut Unwatched).unwrap();
    assert!(outcome.summary.is_success(), "{faults:?}: {:?}", outcome.summary.audit);
    let has_most = |sample: &&Sample| sample.delivered_bytes.iter().sum::<u64>() >= 54_000_000;
    outcome.series.iter().find(has_most).unwrap().t_us
}

#[test]
fn a_loop_that_loses_its_packets_costs_at_most_a_fifth_of_goodput() {
    let whole = time_under(&[]);
    for faults in [
        &[("fault", "burst-loss:0.001@wan,burst=3")][..],
        // Acknowledgements on their way back.
        &[("fault", "loss:0.05@border:1:up:0")],
        // Notes of the border switch, and acknowledgements behind it.
        &[("fault", "loss:0.5@border:0:down:0"), ("fault", "loss:0.5@border:0:down:1")],
        &[("fault", "duplicate:0.01@wan"), ("fault", "corrupt:0.0001@all")],
        &[("fault", "reorder:0.01@wan,delay_us=30"), ("loss.reorder_window", "1")],
        &[("fault", "duplicate:0.1@wan")],
    ] {
        let under = time_under(faults);
        assert!(under <= whole / 0.8, "{faults:?}: {under} us, {whole} without");
    }
    // Of the seven links of a path each doubles a packet in twenty: copies alone take the time.
    let (copies, under) = (1.05_f64.powi(7), time_under(&[("fault", "duplicate:0.05@all")]));
    assert!(under <= whole * copies, "{under} us, {whole} without, {copies} packets for one");
}

#[test]
fn samples_have_a_window_of_a_flow_from_its_start_to_its_last_acknowledgement_and_no_longer() {
    for threads in ["1", "2"] {
        let (_, outcome) = under(&[("sampling.interval", "100us")], threads);
        for (flow, record) in outcome.records.iter().enumerate() {
            let [start, end] = [record.start, record.acked_at].map(|at| at.as_us_f64());
            for sample in outcome.series.iter().filter(|sample| sample.t_us != end) {
                let is_open = (start..end).contains(&sample.t_us);
                let shown = sample.cwnd_bytes[flow].is_some();
                assert_eq!(shown, is_open, "{flow} at {} us: {start} to {end}", sample.t_us);
                assert!(is_open || sample.rate_gbps[flow].is_none(), "{flow}: {}", sample.t_us);
            }
        }
    }
}

#[test]
fn samples_show_the_border_queue_and_the_rates_of_each_flow_where_there_are_any() {
    let (_, outcome) = under(&[("sampling.interval", "100us")], "1");
    let peak = outcome.summary.mlcc.unwrap().queue_bytes_peak;
    let sums = outcome.series.iter().map(|s| s.dci_queue_bytes.iter().flatten().sum::<u64>());
    let most = sums.max().unwrap();
    assert!(most <= peak && most > peak / 2, "{most} of {peak} bytes");
    let has_queue = |flow: usize| {
        let with = outcome.series.iter().filter(|s| s.dci_queue_bytes[flow].is_some());
        (with.clone().count() > 0)
            .then(|| with.filter_map(|s| s.dci_rate_gbps[flow]).fold(0.0, f64::max))
    };
    for flow in 0..8 {
        // An eighth of the link at first, and never beyond it.
        let rate = has_queue(flow).unwrap();
        assert!((3.0..=25.0).contains(&rate), "{flow}: {rate}");
    }
    // Flows inside a site, and after them those that have come across the other way.
    assert_eq!([8, 9].map(has_queue), [None, None]);
    let rates = outcome.series.iter().flat_map(|s| s.rate_gbps.iter().flatten());
    assert!(rates.clone().count() > 100 && rates.clone().all(|r| (0.1..=25.0).contains(r)));
    let (_, plain) = series("hpcc", "2ms");
    assert!(plain.series.iter().all(|s| s.dci_queue_bytes.is_empty() && s.rate_gbps.is_empty()));
}

/// Sites whose switches pause links by a shared buffer, beside border switches that drop.
const SHARED: &[(&str, &str)] = &[("switch.pfc.alpha", "0.125"), ("switch.queue", "2MB")];

#[test]
fn sites_with_a_shared_buffer_pause_where_a_border_that_drops_is_beside_them() {
    // Eight hosts across and four inside into one host, beyond what the leaf has room for.
    let mut text = "Nodes 64\nConnections 12\n".to_owned();
    let sources = (0..8).map(|host| host * 3).chain([33, 34, 48, 49]);
    for (id, from) in sources.enumerate() {
        writeln!(text, "{from}->40 id {} start 10 size 3000000", id + 1).unwrap();
    }
    let run = |transport, programs, more: &[(&str, &str)]| {
        let matrix = cm::read(text.as_bytes(), "incast.cm", cm::StartUnit::Us).unwrap().matrix;
        let programs = [("switch.program", programs)];
        let set = [&settings(transport, "2s"), SHARED, &programs, more].concat();
        virtual_time::run(&plan(&set, matrix, TOPOLOGY), &mut Unwatched).unwrap().summary
    };
    let pausing = run("dcqcn-hpcc", "pfc@tor,pfc@agg", &[]);
    assert!(pausing.is_success() && pausing.packets.dropped == 0, "{:?}", pausing.drops);
    let pauses = pausing.pfc.unwrap();
    assert!(pauses.pauses > 20 && pauses.paused_us > 100.0, "{pauses:?}");
    let dropping = run("dcqcn-hpcc", "none", &[]);
    assert!(dropping.packets.dropped > 100 && dropping.pfc.is_none(), "{:?}", dropping.drops);
    let mlcc = run("mlcc", "pfc@tor,pfc@agg,dci@border", &[]);
    assert!(mlcc.is_success() && mlcc.packets.dropped == 0, "{:?}", mlcc.drops);
    assert!(mlcc.pfc.unwrap().pauses <= pauses.pauses / 10, "{:?}", mlcc.pfc);
    assert!(mlcc.mlcc.unwrap().advised > 1000);
}

#[test]
fn delay_inside_the_site_bounds_the_queues_of_far_flows_and_they_share_fairly() {
    let run = |signal| {
        let set = [&settings("mlcc", "30ms")[..], &[("cc.mlcc.signal", signal)]].concat();
        let plan = plan(&set, into_the_same_hosts(), TOPOLOGY);
        let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
        let (before, after) = (&outcome.series[15], outcome.series.last().unwrap());
        let of = |flow: usize| after.delivered_bytes[flow] - before.delivered_bytes[flow];
        ([0, 1, 2, 3].map(of), outcome.summary)
    };
    let (by_hops, _) = run("auto");
    assert_eq!(run("int").0, by_hops, "hops come here, so auto follows them");
    // Flows inside the site follow hops and leave no queue: far ones see no delay, so the
    // share of the near ones is not bounded from below here.
    let ([_, _, one, other], summary) = run("delay");
    assert_ne!([one, other], by_hops[2..], "the delay decides");
    assert!(one.abs_diff(other) < one / 10, "{one} and {other} bytes");
    let counts = summary.mlcc.unwrap();
    assert!(summary.drops.is_empty() && counts.queue_bytes_peak < 10_000_000, "{counts:?}");
}

#[test]
fn flows_between_sites_are_far_however_near_the_sites_are() {
    let set = settings("mlcc", "3ms");
    let plan = plan(&set, into_the_same_hosts(), "two-dc-leaf:20us,100,1,8");
    let summary = virtual_time::run(&plan, &mut Unwatched).unwrap().summary;
    assert!(summary.mlcc.is_some_and(|counts| counts.advised > 100), "{:?}", summary.mlcc);
    // The loops have the network's round trips, not those of the paper's.
    let (half, across) = (&plan.settings.rc_params.mlcc, plan.path(HostId(0), HostId(40)).base_rtt);
    assert!(
        half.rtt_c.saturating_sub(across) < Duration::from_ns(1) && half.rtt_c >= across,
        "{:?} {across:?}",
        half.rtt_c
    );
    assert_eq!(half.rtt_d, plan.settings.cc_params.mlcc.rtt_d);
}

#[test]
fn a_shared_buffer_of_no_given_size_has_a_bdp_for_each_link_beyond_the_headroom() {
    let set = [("transport", "roce"), ("mtu", "1000"), ("switch.pfc.alpha", "0.125")];
    let buffers = |set: &[(&str, &str)]| {
        let blueprint = plan(set, into_the_same_hosts(), "leaf-spine:16,8,4").blueprint();
        let ports = blueprint.switches[0].ports();
        let buffer = blueprint.ports[ports.start as usize].params.data_limit;
        (buffer.0, blueprint.least_buffer().0, u64::from(ports.end - ports.start))
    };
    let (own, ..) = buffers(&set[..2]);
    let (shared, least, links) = buffers(&set);
    assert!(shared >= least + links * own / 2, "{shared}, {least} and {links} times {own}");
}

#[test]
fn advice_beyond_the_hosts_links_is_dropped_and_counted() {
    let (_, outcome) = under(&[("switch.dci.host_gbps", "10")], "1");
    let counts = outcome.summary.mlcc.unwrap();
    assert!(outcome.summary.is_success() && counts.advice_refused > 100, "{counts:?}");
}

#[test]
fn flows_that_find_no_queue_share_the_ports_own_and_are_counted() {
    let (_, outcome) = under(&[("dci.queues", "3")], "1");
    let counts = outcome.summary.mlcc.unwrap();
    assert!(outcome.summary.is_success());
    assert!(counts.queues_peak == 3 && counts.pool_exhausted > 100, "{counts:?}");
}

#[test]
fn flows_to_one_host_from_one_site_do_not_start_at_line_rate_each() {
    let peak = |set: &[(&str, &str)]| under(set, "1").1.summary.mlcc.unwrap().queue_bytes_peak;
    let blind = peak(&[("cc.mlcc.equal", "off"), ("cc.mlcc.first", "auto")]);
    let shared = peak(&[]);
    assert!(4 * shared < blind, "{shared} and {blind} bytes");
}

/// The message with which a plan with `set`, or one of its faults, is refused; empty where it is
/// accepted.
fn refusal(set: &[(&str, &str)], topology: &str) -> String {
    let draft = draft(&[&[("transport", "mlcc"), ("mtu", "1000")], set].concat());
    let topology = topology::by_name(topology).unwrap();
    let plan = Plan::new(&draft, into_the_same_hosts(), &topology);
    let faults = plan.and_then(|plan| plan.link_faults());
    faults.map_or_else(|error| error.to_string(), |_| String::new())
}

/// Settings, a topology, and words of the message with which they are refused.
type RefusedPlan<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a [&'a str]);

fn check_refusals(cases: &[RefusedPlan<'_>]) {
    for (set, topology, words) in cases {
        let said = refusal(set, topology);
        for word in *words {
            assert!(said.contains(word), "{set:?} {topology}: no `{word}` in `{said}`");
        }
    }
}

#[test]
fn a_network_without_what_mlcc_needs_is_refused() {
    assert_eq!(refusal(&[], TOPOLOGY), "");
    check_refusals(&[
        (&[], "leaf-spine:16,8,4", &["topology", "one site", "two-dc-leaf", "signal=off"]),
        (&[("switch.program", "none")], TOPOLOGY, &["switch.program", "dci@border", "signal=off"]),
        (&[("switch.program", "dci@border:0")], TOPOLOGY, &["switch.program", "dci@border"]),
        (&[("far.cc", "same"), ("cc", "mlcc")], TOPOLOGY, &["cc", "no border switch", "far.cc"]),
        (&[("far.rtt", "1us")], TOPOLOGY, &["far.rtt: found 1.000us", "by --set", "leave far.rtt"]),
        (
            &[("far.rtt", "1s")],
            TOPOLOGY,
            &["far.rtt: found 1.000s", "the base RTT across", "leave"],
        ),
        (
            &[("cc.mlcc.theta", "300us")],
            TOPOLOGY,
            &["cc.mlcc.theta: found", "300.000us", "cc.mlcc.dt_rtts, 0.1666667 of RTT_C"],
        ),
        (
            &[("rc.mlcc.dt_rtts", "20")],
            TOPOLOGY,
            &["rc.mlcc.dt_rtts: found 20 of", "shorter than cc.mlcc.theta_rtts, 3 of"],
        ),
        (
            &[("cc.mlcc.theta_rtts", "0.1")],
            TOPOLOGY,
            &["cc.mlcc.theta_rtts: found 0.1 of RTT_C, ", "by --set", "than cc.mlcc.dt_rtts"],
        ),
    ]);
    // Without border switches no flow across reads telemetry, and one site is enough.
    let alone = [("cc.mlcc.signal", "off")];
    for topology in [TOPOLOGY, "leaf-spine:16,8,4"] {
        assert_eq!(refusal(&alone, topology), "", "{topology}");
    }
}

#[test]
fn switches_that_keep_telemetry_or_pauses_from_flows_across_are_refused() {
    check_refusals(&[
        (
            &[("switch.qdisc", "lossless")],
            TOPOLOGY,
            &["switch.program", "ports of its switch are lossless", "switch.border_qdisc=ecn"],
        ),
        (&[("lb", "spray")], TOPOLOGY, &["lb", "compares hops", "--lb ecmp"]),
        (
            &[
                ("far.cc", "same"),
                ("cc", "hpcc"),
                ("switch.int_room", "5"),
                ("switch.program", "none"),
            ],
            TOPOLOGY,
            &["switch.int_room", "room for 6", "switch.int_cut"],
        ),
        (
            &[
                ("switch.program", "pfc@all"),
                ("cc.mlcc.signal", "off"),
                ("switch.border_queue", "10MB"),
            ],
            TOPOLOGY,
            &["switch.border_queue: found", "lossless switch", "switch.border_queue=250"],
        ),
        // A shared buffer has room for the headroom of all links.
        (
            &[
                ("switch.program", "pfc@tor,pfc@agg,dci@border"),
                ("switch.pfc.alpha", "0.125"),
                ("switch.queue", "600kB"),
            ],
            TOPOLOGY,
            &["switch.queue: found", "all links into a lossless switch", "switch.pfc.alpha=0"],
        ),
        (&[("switch.int_room", "4")], "two-dc:8,1,1ms", &["switch.int_room", "room for 5"]),
        (
            &[("far.cc", "same"), ("cc", "hpcc"), ("fault", "degrade:0.0009@border:0")],
            TOPOLOGY,
            &["switch.int", "degrade:0.0009", "0.09 Gb/s", "at least 0.1 Gb/s"],
        ),
    ]);
}

#[test]
fn border_switches_take_part_however_near_the_sites_are() {
    for delay in ["0", "1ns", "1us", "5us", "20us"] {
        let mut text = "Nodes 64\nConnections 2\n".to_owned();
        for (id, (from, to)) in [(32, 40), (0, 40)].into_iter().enumerate() {
            writeln!(text, "{from}->{to} id {} start 0 size 1000000", id + 1).unwrap();
        }
        let matrix = cm::read(text.as_bytes(), "near.cm", cm::StartUnit::Us).unwrap().matrix;
        let topology = format!("two-dc-leaf:{delay},100,1,8");
        let mlcc = run(&[("transport", "mlcc")], matrix, &topology).summary.mlcc.unwrap();
        assert!(mlcc.switch_int > 0 && mlcc.advised > 0, "{delay}: {mlcc:?}");
    }
}

/// A preset is made for the networks of its paper; paths of others have more switches.
#[test]
fn packets_of_a_preset_have_room_for_every_switch_of_a_path() {
    for (transport, hops) in [("mlcc", 5), ("hpcc", 8), ("powertcp", 8), ("theta-powertcp", 8)] {
        let across = matrix("permutation", 32, 1, &[("size", "64KiB")]);
        let plan = plan(&[("transport", transport)], across, "two-dc:4,1,20us");
        assert_eq!(plan.settings.int_room, hops, "{transport}");
        let inside = cm::read(
            &b"Nodes 32\nConnections 1\n0->9 id 1 start 0 size 1000\n"[..],
            "inside.cm",
            cm::StartUnit::Us,
        );
        let topology = topology::by_name("two-dc:4,1,20us").unwrap();
        let draft = draft(&[("transport", transport)]);
        let room = draft.settings.int_room;
        let plan = Plan::new(&draft, inside.unwrap().matrix, &topology).unwrap();
        assert_eq!(plan.settings.int_room, room.max(5), "{transport}: no longer than needed");
    }
}
