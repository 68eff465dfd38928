//! The claims about MLCC in docs/RESULTS.md, at a size that tests can run: two sites of 32 hosts,
//! 1 ms apart, packets of 1000 bytes.
//!
//! Source: \[mlcc\] fig. 2, 8 and 9: flows inside a site and as many from the other into the same
//! hosts.

use std::fmt::Write as _;

use experiments::measure::Sample;

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
    for (at, (jain, sum, least)) in shares.iter().filter(|(at, _)| *at > 10_000.0) {
        assert!(*jain >= 0.95, "{jain} at {at} us");
        // 0.95 of two links of 25 Gb/s, without headers.
        assert!(*sum >= 0.9 * 43.6, "{sum} at {at} us");
        assert!(*least >= 7.0, "{least} at {at} us");
    }
}

//= mlcc#2.2
#[test]
fn without_its_loops_far_flows_starve_near_ones() {
    let (shares, _) = series("hpcc", "10ms");
    let starved = shares.iter().filter(|(at, (_, _, least))| *at > 3000.0 && *least < 1.0);
    assert!(starved.count() >= 2, "{shares:?}");
}
