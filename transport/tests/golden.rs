//! Golden curves: every registered controller and balancer is driven through fixed cases, and its
//! decisions are compared, as integers, with tests/golden. A change of behaviour shows as a diff;
//! after an intended change, `UPDATE_GOLDEN=1 cargo test -p transport --test golden` rewrites the
//! files.

#![allow(missing_docs, unreachable_pub, dead_code, reason = "a test, sharing a model with another")]
#![allow(clippy::unwrap_used, reason = "a test")]

mod model;

use std::fmt::Write as _;
use std::path::PathBuf;

use model::{BASE_RTT, FlowSpec, Net, Trace, run};
use transport::cc::{CcKind, CcParams, Path};
use transport::lb::{Lb, LbKind, LbParams, LoadBalancer, PathFeedback};
use transport::{Bytes, Duration, Instant, Rate, Rng};

const MIB: u64 = 1 << 20;

fn flow(start_us: u64, bytes: u64) -> FlowSpec {
    FlowSpec { start: Duration::from_us(start_us), bytes, base_rtt: BASE_RTT }
}

/// The cases: a name, the network, the flows. Flow 0 is the one that is written down.
fn cases() -> Vec<(&'static str, Net, Vec<FlowSpec>)> {
    let us = Duration::from_us;
    let net = Net::paper(us(400));
    let alone = vec![flow(0, 1024 * MIB)];
    let pair = vec![flow(0, 1024 * MIB); 2];
    vec![
        ("clean", net.clone(), alone),
        ("ecn-step", Net { mark: Some((us(100), us(200))), ..net.clone() }, pair.clone()),
        ("incast", net.clone(), vec![flow(0, 4 * MIB); 16]),
        ("loss", Net { trimming: false, loss_every: 512, ..net.clone() }, pair.clone()),
        ("rtt-step", Net { rtt_step: Some((us(100), us(10))), ..net }, pair),
    ]
}

/// Compares, or writes when `UPDATE_GOLDEN` is set; the message of a difference, if any.
fn check(name: &str, actual: &str) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/golden")
        .join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).unwrap();
        return None;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = expected.lines().zip(actual.lines()).position(|(old, new)| old != new);
    (expected != actual).then(|| match differs {
        Some(at) => format!(
            "{name}.txt line {}: was `{}`, is `{}`",
            at + 1,
            expected.lines().nth(at).unwrap(),
            actual.lines().nth(at).unwrap()
        ),
        None => format!("{name}.txt: {} bytes, now {}", expected.len(), actual.len()),
    })
}

fn assert_golden(found: Vec<String>) {
    assert!(found.is_empty(), "UPDATE_GOLDEN=1 rewrites, if this is meant:\n{}", found.join("\n"));
}

#[test]
fn every_controller_follows_its_golden_curves() {
    let mut found = Vec::new();
    for kind in CcKind::ALL {
        for (case, net, flows) in cases() {
            let trace = run(*kind, &CcParams::default(), &net, &flows).swap_remove(0);
            let paced = trace.pacing.iter().any(Option::is_some);
            let mut text = String::from("# time_us cwnd_bytes");
            text += if paced { " pacing_mbps, - is none\n" } else { "\n" };
            for ((time, cwnd), pacing) in trace.cwnd.iter().zip(&trace.pacing) {
                write!(text, "{} {cwnd}", time.as_ps() / 1_000_000).unwrap();
                match pacing.filter(|_| paced) {
                    Some(rate) => write!(text, " {}", rate.as_bps() / 1_000_000).unwrap(),
                    None if paced => text += " -",
                    None => {}
                }
                text.push('\n');
            }
            let end = trace.finished.map_or(0, |at| at.as_ps() / 1_000_000);
            let Trace { nacks, timeouts, .. } = trace;
            writeln!(text, "# finished_us {end} nacks {nacks} timeouts {timeouts}").unwrap();
            found.extend(check(&format!("{}-{case}", kind.name()), &text));
        }
    }
    assert_golden(found);
}

/// The fate of a segment in a balancer's case, by its path and its number.
type Judge = fn(u16, u64) -> PathFeedback;

#[test]
fn every_balancer_repeats_its_golden_sequence() {
    // The name, the packets of a block, and what becomes of packets.
    let cases: [(&str, u8, Judge); 4] = [
        ("clean", 0, |_, _| PathFeedback::Good),
        ("ecn-step", 0, |path, number| {
            if number >= 500 && path.is_multiple_of(4) {
                PathFeedback::Ecn
            } else {
                PathFeedback::Good
            }
        }),
        ("failure", 0, |path, number| {
            if number >= 500 && path.is_multiple_of(8) {
                PathFeedback::Timeout
            } else {
                PathFeedback::Good
            }
        }),
        // An eighth of the paths is dead at first and in the end.
        ("coded", 10, |path, number| {
            if (500..1500).contains(&number) || !path.is_multiple_of(8) {
                PathFeedback::Good
            } else {
                PathFeedback::Lost
            }
        }),
    ];
    let mut found = Vec::new();
    // Short, so that the failure case also thaws.
    let mut params = LbParams::default();
    params.reps.freeze = Duration::from_us(10);
    let path = Path { base_rtt: BASE_RTT, line_rate: Rate::from_gbps(800), mtu: Bytes(model::MTU) };
    for kind in LbKind::ALL {
        for (case, block, judge) in &cases {
            let mut rng = Rng::new(11);
            let mut lb = Lb::new(*kind, &params, &path, *block, &mut rng);
            let mut in_flight = std::collections::VecDeque::new();
            // 256 lines of 8 values: readable in a diff, and every value counts.
            let mut text = String::new();
            for number in 0..2048_u64 {
                let now = Instant::from_ps(number * 41_600);
                if in_flight.len() == 64 {
                    let ev: transport::EntropyValue = in_flight.pop_front().unwrap();
                    lb.on_feedback(ev, judge(ev.0, number), now);
                }
                let ev = lb.next_ev(now, &mut rng);
                in_flight.push_back(ev);
                let gap = if number % 8 == 7 { "\n" } else { " " };
                write!(text, "{}{gap}", ev.0).unwrap();
            }
            found.extend(check(&format!("lb-{}-{case}", kind.name()), &text));
        }
    }
    assert_golden(found);
}

#[test]
fn a_golden_run_repeats_itself() {
    let (_, net, flows) = cases().swap_remove(2);
    let first = run(CcKind::Smartt, &CcParams::default(), &net, &flows);
    let second = run(CcKind::Smartt, &CcParams::default(), &net, &flows);
    for (one, two) in first.iter().zip(&second) {
        assert_eq!(one.cwnd, two.cwnd);
    }
}
