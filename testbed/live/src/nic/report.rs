//! Combines the records of all hosts into the outcome of the whole run, in the schema of all
//! worlds.
//!
//! Every host gets all reports and computes the same outcome. The switches of a real network report
//! nothing: the packets that they drop are those that left hosts and did not arrive, and how many
//! they mark, queue or forward is unknown.

use std::collections::BTreeMap;

use experiments::conductor::{Conductor, FlowRecord};
use experiments::measure::audit::DriverCount;
use experiments::measure::collectives::DcSimResult;
use experiments::measure::summary::GoneHost;
use experiments::measure::{Audit, Lateness, Outcome, Summary, join, total};
use experiments::plan::Plan;
use transport::{HostId, Instant, Stats};

use super::message::{DriverPart, HostReport, ReceivedFlow, SentFlow};
use transport::stats::DropReason;

/// The results of this host's flows.
pub(super) fn flows(conductor: &Conductor<'_>, own: u32) -> (Vec<SentFlow>, Vec<ReceivedFlow>) {
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let lines = conductor.matrix().flows.iter().zip(conductor.records());
    for (flow, (spec, record)) in (0..).zip(lines) {
        if spec.src.0 == own {
            sent.push(SentFlow {
                flow,
                start_ps: known(record.start),
                acked_ps: known(record.acked_at),
                acked: record.acked,
                begun: record.begun_acked,
                failed: record.failed,
            });
        }
        if spec.dst.0 == own && record.delivered + record.begun > 0 {
            received.push(ReceivedFlow {
                flow,
                delivered_ps: known(record.delivered_at),
                delivered: record.delivered,
                begun: record.begun,
            });
        }
    }
    (sent, received)
}

fn known(at: Instant) -> Option<u64> {
    (at < Instant::FAR_FUTURE).then(|| at.as_ps())
}

fn instant(at: Option<u64>) -> Instant {
    at.map_or(Instant::FAR_FUTURE, Instant::from_ps)
}

/// Hosts that are gone, and why.
type Gone = BTreeMap<HostId, String>;

/// The outcome of the run of `plan`, from the reports of all hosts of `names` except those in
/// `gone`. The counts of hosts that are gone are unknown, so there are then no figures of packets
/// between hosts.
pub(super) fn outcome(
    plan: &Plan,
    reports: &[HostReport],
    (names, gone): (&[String], &Gone),
    stopped: bool,
) -> Outcome {
    let matrix = &plan.matrix;
    let mut records = records(plan, reports);
    for (spec, record) in matrix.flows.iter().zip(&mut records) {
        if gone.contains_key(&spec.src) || gone.contains_key(&spec.dst) {
            *record = FlowRecord { start: record.start, failed: true, ..FlowRecord::UNSTARTED };
        }
    }
    let mut conductor = Conductor::of_records(matrix, records);
    let mut stats = Stats::default();
    let mut driver = DriverPart::default();
    reports.iter().for_each(|report| {
        stats.add(&report.stats);
        driver.add(&report.driver);
    });
    let strays = [DropReason::NotHeadrace, DropReason::OtherPort, DropReason::WrongHost];
    let strays = total(strays.map(|reason| stats.drops.of(reason)));
    // Switches have sent the notes for controllers: no host has.
    let of_no_host = total([strays, driver.answered, stats.switch_notes]);
    let arrived = driver.received.saturating_sub(of_no_host);
    let taken = driver.taken.saturating_sub(driver.asked);
    let count = DriverCount {
        handed_over: driver.taken,
        given: driver.received,
        lost_before: driver.lost,
        dropped_sending: driver.stuck,
        ..DriverCount::default()
    };
    let audit = if gone.is_empty() {
        Audit::of_hosts(&conductor, &stats, (count, driver.asked), arrived)
    } else {
        Audit::of_survivors(&conductor, &stats, count)
    };
    let lost_by_timeout = stats.lost_by_timeout;
    let end = reports.iter().map(|report| report.end_ps).max().unwrap_or(0);
    let end = Instant::from_ps(end);
    let mut outcome = Outcome::new(plan, &mut conductor, stats, None, audit, end);
    let summary = &mut outcome.summary;
    summary.world = "nic";
    // Packets that devices still held may have been any host's.
    let in_network = taken.saturating_sub(total([driver.lost, arrived, driver.left]));
    let in_network = if gone.is_empty() { in_network } else { 0 };
    // A frame of another protocol is none of ours that was dropped.
    let dropped = summary.packets.dropped.saturating_sub(strays);
    summary.packets.dropped = dropped.saturating_add(in_network);
    for (name, count) in [("lost_in_network", in_network), ("left_in_device", driver.left)] {
        if count > 0 {
            summary.drops.insert(name, count);
        }
    }
    find(summary, reports);
    summary.dcsim = of_dcsim(reports, lost_by_timeout);
    let lateness = worst(reports.iter().map(|report| report.seen.lateness));
    summary.lateness = lateness;
    for report in reports {
        join(&mut summary.counters, &report.seen.counters);
    }
    summary.per_host = reports.iter().map(|report| report.seen.clone()).collect();
    let named = |(host, reason): (&HostId, &String)| GoneHost {
        name: names.get(host.0 as usize).cloned().unwrap_or_default(),
        reason: reason.clone(),
    };
    summary.gone = gone.iter().map(named).collect();
    Outcome { stopped, lateness, ..outcome }
}

/// What hosts of DCsim counted together, with a warning where switches do not limit SIMs; `None`
/// where no host runs it.
fn of_dcsim(reports: &[HostReport], lost_by_timeout: u64) -> Option<DcSimResult> {
    let all = reports.iter().filter_map(|report| report.dcsim);
    let mut dcsim = all.reduce(DcSimResult::joined)?;
    dcsim.judge_switches(lost_by_timeout);
    if dcsim.switches_unaware == Some(true) {
        tracing::warn!(
            "{lost_by_timeout} segments were lost and no SIM: switches do not limit SIMs; set \
             their queues as docs/OPERATING.md says, \"Four queues for DCsim\""
        );
    }
    Some(dcsim)
}

/// Adds what hosts found by themselves to the audit.
fn find(summary: &mut Summary, reports: &[HostReport]) {
    for report in reports {
        let name = &report.seen.name;
        if report.wrong > 0 {
            let count = report.wrong;
            let text =
                format!("payload: {count} messages were delivered on {name} with wrong bytes");
            summary.audit.find(text);
        }
        if report.driver.unsendable > 0 {
            let count = report.driver.unsendable;
            let text = format!("packets: {count} segments without bytes or address on {name}");
            summary.audit.find(text);
        }
        report.findings.iter().for_each(|found| summary.audit.find(format!("{name}: {found}")));
    }
}

/// The records of all flows: times of the sender, and deliveries of the receiver, whose times are
/// corrected by the drift of its clock from the first host's.
fn records(plan: &Plan, reports: &[HostReport]) -> Vec<FlowRecord> {
    let mut records = vec![FlowRecord::UNSTARTED; plan.matrix.flows.len()];
    let mut starts = vec![(0, 0); records.len()];
    for report in reports {
        for flow in &report.sent {
            let Some(record) = records.get_mut(flow.flow as usize) else { continue };
            record.start = instant(flow.start_ps);
            record.acked_at = instant(flow.acked_ps);
            (record.acked, record.begun_acked) = (flow.acked, flow.begun);
            record.failed = flow.failed;
            starts[flow.flow as usize] = (report.offset_change_ps, report.end_ps);
        }
    }
    for report in reports {
        for flow in &report.received {
            let Some(record) = records.get_mut(flow.flow as usize) else { continue };
            (record.delivered, record.begun) = (flow.delivered, flow.begun);
            record.delivered_at = flow.delivered_ps.map_or(Instant::FAR_FUTURE, |at| {
                let on_first = drifted(at, report.offset_change_ps, report.end_ps);
                // Back to the sender's clock, by which its other times are.
                let (change, end) = starts[flow.flow as usize];
                let there = Instant::from_ps(drifted(on_first, change.saturating_neg(), end));
                // Clocks are compared to some microseconds; nothing is delivered before it starts,
                // nor after all of it was acknowledged.
                let last = record.acked_at.max(record.start);
                there.max(record.start).min(last)
            });
        }
    }
    records
}

/// `at` with its share of a drift of `change` picoseconds until `end`.
fn drifted(at: u64, change: i64, end: u64) -> u64 {
    let share = i128::from(change) * i128::from(at) / i128::from(end.max(1));
    let moved = i128::from(at) + share;
    u64::try_from(moved.max(0)).unwrap_or(u64::MAX)
}

/// Each figure that of the worst host.
fn worst(all: impl Iterator<Item = Lateness>) -> Option<Lateness> {
    all.reduce(|a, b| Lateness {
        p50_us: a.p50_us.max(b.p50_us),
        p99_us: a.p99_us.max(b.p99_us),
        max_us: a.max_us.max(b.max_us),
        late_share: a.late_share.max(b.late_share),
        ..a
    })
}

/// The network is real, so late polls cost time but falsify nothing.
pub(super) fn of_real_network(lateness: Lateness) -> Lateness {
    Lateness { valid: true, late_share_max: 1.0, ..lateness }
}

impl DriverPart {
    fn add(&mut self, other: &Self) {
        for (own, more) in [
            (&mut self.taken, other.taken),
            (&mut self.lost, other.lost),
            (&mut self.stuck, other.stuck),
            (&mut self.unsendable, other.unsendable),
            (&mut self.received, other.received),
            (&mut self.left, other.left),
            (&mut self.asked, other.asked),
            (&mut self.answered, other.answered),
        ] {
            *own = own.saturating_add(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use experiments::measure::own::OfDcSim;
    use experiments::plan::Draft;
    use experiments::topology::by_name;
    use experiments::workload::{FlowSpec, Matrix};
    use transport::Bytes;

    use super::*;

    /// A report whose every number is the greatest.
    fn boundless(name: &str) -> HostReport {
        let most = u64::MAX;
        let mut stats = Stats::from_values([most; Stats::COUNTERS.len()]);
        DropReason::ALL.iter().take(1).for_each(|reason| stats.drops.count_many(*reason, most));
        let mut dcsim = OfDcSim::default().result(None);
        dcsim.sims.sent = most;
        HostReport {
            sent: vec![SentFlow {
                flow: 0,
                start_ps: Some(0),
                acked_ps: Some(most - 1),
                acked: most,
                begun: most,
                failed: false,
            }],
            received: (0..2)
                .map(|flow| ReceivedFlow {
                    flow,
                    delivered_ps: Some(most - 1),
                    delivered: most,
                    begun: most,
                })
                .collect(),
            stats,
            driver: DriverPart {
                taken: most,
                lost: most,
                stuck: most,
                unsendable: most,
                received: most,
                left: most,
                asked: most,
                answered: most,
            },
            wrong: most,
            findings: Vec::new(),
            end_ps: most,
            offset_change_ps: i64::MIN,
            seen: experiments::measure::HostSeen {
                name: name.to_owned(),
                counters: [("starved".to_owned(), most)].into(),
                ..experiments::measure::HostSeen::default()
            },
            dcsim: Some(dcsim),
        }
    }

    #[test]
    fn counts_beyond_any_number_are_the_greatest_number_and_the_audit_refuses_them() {
        let mut matrix = Matrix { nodes: 2, ..Matrix::default() };
        for (src, dst) in [(0, 1), (1, 0)] {
            matrix.push_flow(FlowSpec::new(HostId(src), HostId(dst), Bytes(1000))).unwrap();
        }
        let plan = Plan::new(&Draft::default(), matrix, &by_name("leaf-spine:1,1,2").unwrap());
        let names = ["a", "b"].map(str::to_owned);
        let reports = [boundless("a"), boundless("b")];
        for gone in [Gone::new(), [(HostId(1), "silent".to_owned())].into()] {
            let plan = plan.as_ref().unwrap();
            let outcome = outcome(plan, &reports, (&names, &gone), false);
            outcome.write_flows(plan, 0, &mut Vec::new()).unwrap();
            let Summary { audit, packets, counters, dcsim, .. } = &outcome.summary;
            assert!(!audit.ok, "{gone:?}");
            assert_eq!((packets.data_new, packets.nacks), (u64::MAX, u64::MAX));
            assert_eq!(counters.get("starved"), Some(&u64::MAX));
            assert_eq!(dcsim.map(|dcsim| dcsim.sims.sent), Some(u64::MAX));
        }
    }
}
