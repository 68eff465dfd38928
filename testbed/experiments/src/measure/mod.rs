//! The measurements of a run: records of flows, the summary of the result schema, the audit and the
//! series.

pub mod arrivals;
pub mod audit;
pub mod collectives;
pub mod fct;
pub mod following;
pub mod own;
pub mod sampler;
pub mod scheduler;
pub mod summary;

use std::collections::BTreeMap;
use std::io::{self, Write};

use fabric::Network;
use serde::{Deserialize, Serialize};
use transport::{Duration, Instant, Stats};

use crate::capture::Unwritten;
use crate::conductor::{Conductor, FlowRecord};
use crate::plan::Plan;
use crate::why::FlowWhy;

pub use crate::series::Sample;
pub use audit::Audit;
pub use summary::{HostSeen, MlccCounts, Summary};

/// Counts by name, in the order of the alphabet; a counter that was never raised may be missing.
pub type Counters = BTreeMap<String, u64>;

/// Adds the counters of `more` to `all`; a sum beyond the greatest number is that number.
pub fn join(all: &mut Counters, more: &Counters) {
    for (name, count) in more {
        let sum = all.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
}

/// The sum of `counts`, of which some may be those of other processes; beyond the greatest number
/// it is that number.
#[must_use]
pub fn total(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// Everything a run leaves behind.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The result schema's summary; wall time and memory are the caller's to fill in.
    pub summary: Summary,
    /// Records of flows by line of the matrix.
    pub records: Vec<FlowRecord>,
    /// Samples in the order of time that the run's watch has not taken; empty without sampling.
    pub series: Vec<Sample>,
    /// The sum of all endpoints' counters.
    pub stats: Stats,
    /// The run was stopped before its end.
    pub stopped: bool,
    /// Network time at the end.
    pub end: Duration,
    /// How late the polls of a real-time run were; `None` in virtual time.
    pub lateness: Option<Lateness>,
    /// Settings that the world changed to fit.
    pub adapted: Vec<Adapted>,
    /// For each host: all input of its endpoint, for `transport::record::replay`; empty unless
    /// recorded.
    pub recordings: Vec<Vec<u8>>,
    /// Where the time of each flow went, by line of the matrix; empty unless asked for.
    pub why: Vec<FlowWhy>,
    /// The capture, when it is not whole.
    pub unwritten: Option<Unwritten>,
}

/// A setting that the world changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Adapted {
    /// The key, as in the effective configuration.
    pub key: String,
    /// The value that the run used.
    pub value: String,
    /// The reason of the world.
    pub why: &'static str,
}

impl Adapted {
    /// The setting `key`, which the world gives `value` for the reason `why`.
    #[must_use]
    pub fn new(key: &str, value: String, why: &'static str) -> Self {
        Self { key: key.to_owned(), value, why }
    }
}

/// How late a real-time run's polls were, in real time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Median gap between two polls, microseconds; as all figures, that of the worst thread.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Longest gap.
    pub max_us: f64,
    /// Share of real time spent in gaps longer than half a base RTT (in real time).
    pub late_share: f64,
    /// The run is valid: see `late_share_max` and `late_departures`.
    pub valid: bool,
    /// Runs with a larger share are invalid.
    pub late_share_max: f64,
    /// More than one of 100 segments of DCsim left a slot T' or more later than its SIM and its
    /// line allowed, so that it met other traffic than its SIM. Such a run is invalid, too.
    pub late_departures: bool,
}

/// One line of flows.jsonl.
#[derive(Serialize)]
struct FlowLine {
    flow: usize,
    id: Option<u32>,
    src: u32,
    dst: u32,
    size: u64,
    start_us: Option<f64>,
    fct_us: Option<f64>,
    /// The completion time that the flow would have alone in the network.
    alone_us: f64,
    delivered_us: Option<f64>,
    delivered: u64,
    acked: u64,
    /// Bytes of `delivered` whose messages are not whole; left out where there are none.
    #[serde(skip_serializing_if = "is_zero")]
    begun: u64,
    /// Bytes of `acked` whose messages are not whole; left out where there are none.
    #[serde(skip_serializing_if = "is_zero")]
    begun_acked: u64,
    failed: bool,
    /// Whether the flow goes to another datacentre; left out where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    inter: Option<bool>,
    /// The collective of the flow; left out where the flow is of none.
    #[serde(skip_serializing_if = "Option::is_none")]
    coll: Option<u32>,
    /// Controller and balancer; left out where all flows have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    cc: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lb: Option<&'static str>,
}

impl Outcome {
    /// Puts the outcome of a finished run together, with the conductor's own records: there may be
    /// too many for a copy.
    #[must_use]
    pub fn new(
        plan: &Plan,
        conductor: &mut Conductor<'_>,
        stats: Stats,
        network: Option<&Network>,
        audit: Audit,
        end: Instant,
    ) -> Self {
        let summary = Summary::new(plan, conductor, &stats, network, audit);
        let records = conductor.take_records();
        Self {
            summary,
            records,
            series: Vec::new(),
            stats,
            stopped: false,
            end: end.since(Instant::ZERO),
            lateness: None,
            adapted: Vec::new(),
            recordings: Vec::new(),
            why: Vec::new(),
            unwritten: None,
        }
    }

    /// Writes flows.jsonl from the line `from` on: one line a flow, in the order of the matrix.
    /// Byte-identical for identical runs.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn write_flows(&self, plan: &Plan, from: usize, out: &mut impl Write) -> io::Result<()> {
        let mut lines = self.records.iter().enumerate().skip(from);
        lines.try_for_each(|(flow, record)| write_flow(plan, flow, record, out))
    }
}

/// Writes the line of flows.jsonl of one flow, the line `flow` of the matrix.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_flow(
    plan: &Plan,
    flow: usize,
    record: &FlowRecord,
    out: &mut impl Write,
) -> io::Result<()> {
    let spec = &plan.matrix.flows[flow];
    let policies = plan.settings.policies(&plan.path(spec.src, spec.dst));
    let policies = Some(policies).filter(|_| plan.settings.far_differs());
    let line = FlowLine {
        flow,
        id: spec.id.map(Into::into),
        src: spec.src.0,
        dst: spec.dst.0,
        size: spec.size.0,
        start_us: known(record.start),
        fct_us: record.fct().map(Duration::as_us_f64),
        alone_us: plan.fct_alone(spec.src, spec.dst, spec.size).as_us_f64(),
        delivered_us: known(record.delivered_at),
        delivered: total([record.delivered, record.begun]),
        acked: total([record.acked, record.begun_acked]),
        begun: record.begun,
        begun_acked: record.begun_acked,
        failed: record.failed,
        inter: plan.crosses(spec.src, spec.dst),
        coll: Some(spec.collective).filter(|collective| *collective != 0),
        cc: policies.map(|policies| policies.cc.name()),
        lb: policies.map(|policies| policies.lb.name()),
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

/// Writes lines of series.jsonl: one a sample.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_series(samples: &[Sample], out: &mut impl Write) -> io::Result<()> {
    samples.iter().try_for_each(|sample| {
        serde_json::to_writer(&mut *out, sample)?;
        out.write_all(b"\n")
    })
}

impl FlowRecord {
    /// Time from the start to the last acknowledgement at the sender; `None` until then.
    #[must_use]
    pub fn fct(&self) -> Option<Duration> {
        let done = self.acked_at < Instant::FAR_FUTURE && self.delivered_at < Instant::FAR_FUTURE;
        done.then(|| self.acked_at.since(self.start))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

fn known(at: Instant) -> Option<f64> {
    (at < Instant::FAR_FUTURE).then(|| at.as_us_f64())
}
