//! Completion times of collectives, and the counts of DCsim's hosts.

use std::collections::BTreeMap;

use fabric::Network;
use serde::{Deserialize, Serialize};
use transport::histogram::Spans;
use transport::{DropReason, Duration, Instant, Stats};

use crate::conductor::FlowRecord;
use crate::measure::following::Follow;
use crate::measure::own::OfDcSim;
use crate::measure::total;
use crate::plan::Plan;

/// The collectives of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CollectiveResults {
    /// Collectives in the matrix.
    pub count: u64,
    /// Times from the first start of a collective's flows to the delivery of its last byte.
    pub cct_us: Cct,
}

/// Completion times of collectives, microseconds; null unless all are complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cct {
    /// Mean.
    pub mean: Option<f64>,
    /// Completion time of the slowest collective.
    pub max: Option<f64>,
}

impl CollectiveResults {
    /// The collectives of a run; `None` where no flow is part of a collective.
    #[must_use]
    pub fn of(plan: &Plan, records: &[FlowRecord]) -> Option<Self> {
        let mut spans: BTreeMap<u32, (Instant, Instant)> = BTreeMap::new();
        for (flow, record) in plan.matrix.flows.iter().zip(records) {
            if flow.collective != 0 {
                let span = spans.entry(flow.collective).or_insert((record.start, Instant::ZERO));
                span.0 = span.0.min(record.start);
                span.1 = span.1.max(record.delivered_at);
            }
        }
        if spans.is_empty() {
            return None;
        }
        let whole = spans.values().all(|(_, end)| *end < Instant::FAR_FUTURE);
        let times = || spans.values().map(|(start, end)| end.since(*start).as_us_f64());
        #[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
        let mean = times().sum::<f64>() / spans.len() as f64;
        let cct_us = if whole {
            Cct { mean: Some(mean), max: times().reduce(f64::max) }
        } else {
            Cct::default()
        };
        Some(Self { count: spans.len() as u64, cct_us })
    }
}

/// The share of the hosts' lines that data on the wire took, without parity. The time counts from
/// the first start, `first`, to the last delivery, `completion`, or to the limit of the run where
/// not all was delivered. `None` where not all was delivered and the run has no limit, and over no
/// time.
#[must_use]
pub fn utilisation(
    plan: &Plan,
    stats: &Stats,
    (first, completion): (Instant, Option<Instant>),
) -> Option<f64> {
    let (bytes, end) = if let Some(end) = completion {
        let sizes = plan.matrix.flows.iter().map(|flow| plan.wire_bytes(flow.size));
        (sizes.fold(0, u64::saturating_add), end)
    } else {
        let header = u64::from(plan.fabric.mtu - plan.settings.payload_max);
        let headers = stats.data_placed.saturating_mul(header);
        (total([stats.data_placed_bytes, headers]), Instant::ZERO + plan.limit?)
    };
    let us = end.since(first.min(end)).as_us_f64();
    #[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
    let (bits, bps) = (bytes as f64 * 8.0, plan.settings.line_rate.as_bps() as f64);
    let capacity = |us: f64| us * 1e-6 * bps * f64::from(plan.hosts());
    (us > 0.0).then(|| bits / capacity(us))
}

/// Counts and times of DCsim's hosts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DcSimResult {
    /// Delay between a SIM and its DATA.
    pub rtt_max_us: f64,
    /// Times from a SIM's departure to its SIM-ACK, for SIM-ACKs in time.
    pub sim_rtt_us: SpanResult,
    /// SIMs by their fate.
    pub sims: Sims,
    /// Time between two SIMs of a host's line, T', nanoseconds; the longest of all hosts.
    #[serde(default)]
    pub slot_ns: f64,
    /// How much later than it might a DATA left its host, nanoseconds.
    pub departure_error_ns: SpanResult,
    /// The part of it that the host's polls added, nanoseconds: how long a DATA that might leave
    /// waited while its host's line was free. A run in `vdev` is invalid where the 99th percentile
    /// reaches `slot_ns`.
    #[serde(default)]
    pub departure_lateness_ns: SpanResult,
    /// Whether switches do not limit SIMs, and so lose data in place of SIMs. Emulated switches
    /// have another discipline then; in a real network data was lost under load but no SIM. Null
    /// where emulated switches limit SIMs.
    #[serde(default)]
    pub switches_unaware: Option<bool>,
    /// How data follows SIMs at the hosts of a simulation whose state is sampled; else null.
    #[serde(default)]
    pub follow: Option<Follow>,
}

/// Spans of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpanResult {
    /// Mean.
    pub mean: f64,
    /// Median, a 32nd too short at most.
    pub p50: f64,
    /// 99th percentile, a 32nd too short at most.
    pub p99: f64,
    /// Longest.
    pub max: f64,
}

/// SIMs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sims {
    /// Sent by hosts.
    pub sent: u64,
    /// Dropped by full queues of switches; null where they cannot be seen.
    pub dropped: Option<u64>,
    /// Answered in time.
    pub acked: u64,
    /// Answers that came late, or a second time.
    pub late: u64,
    /// Given up, for want of an answer in time.
    pub timed_out: u64,
    /// Neither answered in time nor given up when the run ended, or when their host began anew.
    #[serde(default)]
    pub open: u64,
    /// Answered in time, with nothing to be sent any more.
    pub wasted: u64,
    /// Answered in time and not used, so that queues of data drain.
    #[serde(default)]
    pub unused: u64,
    /// Answers to SIMs that were never sent.
    pub forged: u64,
    /// SIMs of other hosts that hosts answered.
    #[serde(default)]
    pub answered: u64,
    /// SIMs of other hosts that hosts did not answer, because too many answers waited for the line.
    #[serde(default)]
    pub unanswered: u64,
}

impl SpanResult {
    /// `spans` in units of `unit`.
    #[must_use]
    pub fn of(spans: &Spans, unit: Duration) -> Self {
        let of = |span: Duration| span.as_us_f64() / unit.as_us_f64();
        let [p50, p99] = [50, 99].map(|percent| of(spans.percentile(percent)));
        Self { mean: of(spans.mean()), p50, p99, max: of(spans.max()) }
    }

    /// Each figure the greater of two.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        Self {
            mean: self.mean.max(other.mean),
            p50: self.p50.max(other.p50),
            p99: self.p99.max(other.p99),
            max: self.max.max(other.max),
        }
    }
}

impl Sims {
    fn plus(self, other: Self) -> Self {
        let sum = u64::saturating_add;
        Self {
            sent: sum(self.sent, other.sent),
            dropped: self.dropped.zip(other.dropped).map(|(a, b)| sum(a, b)),
            acked: sum(self.acked, other.acked),
            late: sum(self.late, other.late),
            timed_out: sum(self.timed_out, other.timed_out),
            open: sum(self.open, other.open),
            wasted: sum(self.wasted, other.wasted),
            unused: sum(self.unused, other.unused),
            forged: sum(self.forged, other.forged),
            answered: sum(self.answered, other.answered),
            unanswered: sum(self.unanswered, other.unanswered),
        }
    }
}

impl DcSimResult {
    /// The measurements of all hosts, with what `network` dropped where it is emulated.
    #[must_use]
    pub fn of(hosts: &OfDcSim, network: Option<&Network>) -> Self {
        let (us, ns) = (Duration::from_us(1), Duration::from_ns(1));
        let OfDcSim { rtt_max, slot, open, figures } = hosts;
        let counts = &figures.sims;
        let dropped = |network: &Network| network.audit().dropped.of(DropReason::ProbeQueueFull);
        Self {
            rtt_max_us: rtt_max.as_us_f64(),
            sim_rtt_us: SpanResult::of(&figures.sim_rtt, us),
            sims: Sims {
                sent: counts.sent,
                dropped: network.map(dropped),
                acked: counts.acked,
                late: counts.late,
                timed_out: counts.timed_out,
                open: *open,
                wasted: counts.wasted,
                unused: counts.unused,
                forged: counts.forged,
                answered: counts.answered,
                unanswered: counts.unanswered,
            },
            slot_ns: slot.as_us_f64() / ns.as_us_f64(),
            departure_error_ns: SpanResult::of(&figures.departure_error, ns),
            departure_lateness_ns: SpanResult::of(&figures.departure_lateness, ns),
            switches_unaware: None,
            follow: None,
        }
    }

    /// The counts of two sets of hosts together, and each time that of the worse.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        Self {
            rtt_max_us: self.rtt_max_us.max(other.rtt_max_us),
            sim_rtt_us: self.sim_rtt_us.worse(other.sim_rtt_us),
            sims: self.sims.plus(other.sims),
            slot_ns: self.slot_ns.max(other.slot_ns),
            departure_error_ns: self.departure_error_ns.worse(other.departure_error_ns),
            departure_lateness_ns: self.departure_lateness_ns.worse(other.departure_lateness_ns),
            switches_unaware: None,
            follow: None,
        }
    }

    /// The figures of collectives with what the plan of emulated switches says of them.
    #[must_use]
    pub fn in_view(self, plan: &Plan) -> Self {
        Self { switches_unaware: plan.qdisc_without_sims().map(|_| true), ..self }
    }

    /// Whether switches that cannot be seen have DCsim's classes, by the losses of hosts: `data`
    /// segments, found by their timers. Where a port limits SIMs, a busy one loses SIMs and no
    /// data. A few timeouts, or fewer than one in a thousand SIMs, are no sign: an acknowledgement
    /// may be late.
    pub fn judge_switches(&mut self, data: u64) {
        let many = data >= TIMEOUTS_MIN && data.saturating_mul(1000) > self.sims.sent;
        self.switches_unaware = Some(many && self.sims.timed_out == 0);
    }
}

/// Timeouts of data that may each be of an acknowledgement that was late.
const TIMEOUTS_MIN: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Draft;
    use crate::topology::by_name;
    use crate::workload::{FlowSpec, Matrix};
    use transport::{Bytes, HostId};

    #[test]
    fn lost_data_without_lost_sims_shows_switches_that_limit_no_sims() {
        let result = |sent, timed_out, mean| DcSimResult {
            rtt_max_us: mean,
            sim_rtt_us: SpanResult { mean, ..SpanResult::default() },
            sims: Sims { sent, timed_out, ..Sims::default() },
            slot_ns: 0.0,
            departure_error_ns: SpanResult::default(),
            departure_lateness_ns: SpanResult::default(),
            switches_unaware: None,
            follow: None,
        };
        for (sent, timed_out, data, unaware) in [
            (10, 0, 0, false),
            (10, 0, 2, false),
            (10, 0, 3, true),
            (10, 2, 3, false),
            (10_000, 0, 3, false),
            (10_000, 0, 300, true),
        ] {
            let mut both = result(sent, timed_out, 4.0).joined(result(10, 0, 9.0));
            assert_eq!((both.sims.sent, both.sims.timed_out), (sent + 10, timed_out));
            assert!((both.rtt_max_us - 9.0).abs() + (both.sim_rtt_us.mean - 9.0).abs() < 1e-9);
            both.judge_switches(data);
            assert_eq!(both.switches_unaware, Some(unaware), "{timed_out} {data}");
        }
    }

    #[test]
    fn a_collective_lasts_from_its_first_start_to_its_last_delivery() {
        let mut matrix = Matrix { nodes: 4, ..Matrix::default() };
        for (collective, dst) in [(0, 1), (7, 1), (7, 2), (9, 3)] {
            let flow = FlowSpec::new(HostId(0), HostId(dst), Bytes(1000));
            matrix.push_flow(FlowSpec { collective, ..flow });
        }
        let plan =
            Plan::new(&Draft::default(), matrix, &by_name("paper-testbed").unwrap()).unwrap();
        let at = |us| Instant::ZERO + Duration::from_us(us);
        let record = |start, end| FlowRecord {
            start: at(start),
            delivered_at: at(end),
            ..FlowRecord::UNSTARTED
        };
        let mut records = [record(0, 900), record(3, 10), record(2, 12), record(5, 9)];
        let of = CollectiveResults::of(&plan, &records).unwrap();
        assert_eq!((of.count, of.cct_us.mean, of.cct_us.max), (2, Some(7.0), Some(10.0)));
        records[3].delivered_at = Instant::FAR_FUTURE;
        assert_eq!(CollectiveResults::of(&plan, &records).unwrap().cct_us, Cct::default());
    }
}
