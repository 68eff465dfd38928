//! Flows that arrive over time: how soon the short ones are there, and what the network carries
//! while they arrive.
//!
//! Source: the metrics of \[zeropod\] V-A, completion of mice and goodput. A flow ends here when
//! its last byte is at the receiver. After the last arrival a network drains, at the pace of its
//! longest flow, so goodput is measured up to there. The progress of a flow at that instant is not
//! recorded, so its bytes count as delivered evenly from its start to its end.

use serde::Serialize;
use transport::Instant;

use super::fct::Fct;
use crate::conductor::FlowRecord;
use crate::plan::Plan;
use crate::workload::FlowSpec;
use crate::workload::matrix::Start;

/// Flows that arrive over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Arrivals {
    /// Payload delivered to a host until the last flow starts, Gb/s, in the mean over all hosts.
    pub host_gbps: f64,
    /// Time from start to delivery of flows of at most 100,000 bytes, microseconds.
    pub mice_us: Fct,
    /// Time from start to delivery of flows of less than 2560 bytes, microseconds.
    pub short_us: Fct,
}

/// The longest mouse, bytes.
//= zeropod#V-A
const MOUSE: u64 = 100_000;
/// A flow of so many bytes has as much as five cells.
//= zeropod#V-A
const SHORT: u64 = 2560;

impl Arrivals {
    /// The result of a run; `None` unless flows of several sizes start by time, at several times,
    /// and all are delivered: percentiles of those that were would be of the fastest alone.
    #[must_use]
    pub fn of(plan: &Plan, records: &[FlowRecord]) -> Option<Self> {
        let flows = &plan.matrix.flows;
        let timed = |flow: &FlowSpec| matches!(flow.start, Start::At(_));
        let sizes = flows.iter().any(|flow| flow.size != flows[0].size);
        let starts = flows.iter().any(|flow| flow.start != flows[0].start);
        if !sizes || !starts || !flows.iter().all(timed) {
            return None;
        }
        if records.iter().any(|record| record.delivered_at == Instant::FAR_FUTURE) {
            return None;
        }
        let starts = || records.iter().map(|record| record.start);
        let (first, last) = (starts().min()?, starts().max()?);
        let lines = || flows.iter().zip(records);
        let bytes: f64 = lines().map(|(spec, record)| delivered_by(last, spec, record)).sum();
        let below = |most: u64| {
            let these = lines().filter(|(spec, _)| spec.size.0 <= most);
            Fct::of(these.map(|(_, record)| record.delivered_at.since(record.start)))
        };
        let (hosts, span) = (f64::from(plan.hosts()), last.since(first).as_us_f64());
        Some(Self {
            host_gbps: bytes * 8.0 / hosts / (span * 1000.0),
            mice_us: below(MOUSE),
            short_us: below(SHORT - 1),
        })
    }
}

/// Bytes of a flow that were delivered by `at`, as if evenly.
#[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
fn delivered_by(at: Instant, spec: &FlowSpec, record: &FlowRecord) -> f64 {
    let size = spec.size.0 as f64;
    if record.delivered_at <= at {
        return size;
    }
    if record.start >= at {
        return 0.0;
    }
    let all = record.delivered_at.since(record.start).as_us_f64();
    size * at.since(record.start).as_us_f64() / all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Draft;
    use crate::topology::by_name;
    use crate::workload::Matrix;
    use transport::{Bytes, Duration, HostId};

    #[test]
    fn a_flow_counts_as_delivered_evenly() {
        let at = Instant::from_ps;
        let spec = FlowSpec::new(HostId(0), HostId(1), Bytes(1000));
        let (start, delivered_at) = (at(2_000_000), at(6_000_000));
        let record = FlowRecord { start, delivered_at, ..FlowRecord::UNSTARTED };
        for (now, bytes) in [(1, 0.0), (2, 0.0), (3, 250.0), (6, 1000.0), (9, 1000.0)] {
            let delivered = delivered_by(at(now * 1_000_000), &spec, &record);
            assert!((delivered - bytes).abs() < 1e-9, "{now}: {delivered}");
        }
    }

    #[test]
    fn a_run_that_left_flows_undelivered_has_no_percentiles_of_the_others() {
        let mut matrix = Matrix { nodes: 4, ..Matrix::default() };
        for (us, size) in [(0, 1000), (5, 2000)] {
            let start = Start::At(Duration::from_us(us));
            let flow = FlowSpec::new(HostId(0), HostId(1), Bytes(size));
            matrix.push_flow(FlowSpec { start, ..flow });
        }
        let plan =
            Plan::new(&Draft::default(), matrix, &by_name("paper-testbed").unwrap()).unwrap();
        let at = |us| Instant::ZERO + Duration::from_us(us);
        let record =
            |start, delivered_at| FlowRecord { start, delivered_at, ..FlowRecord::UNSTARTED };
        let mut records = [record(at(0), at(4)), record(at(5), at(9))];
        assert_eq!(Arrivals::of(&plan, &records).unwrap().mice_us.max, Some(4.0));
        records[1].delivered_at = Instant::FAR_FUTURE;
        assert_eq!(Arrivals::of(&plan, &records), None);
    }
}
