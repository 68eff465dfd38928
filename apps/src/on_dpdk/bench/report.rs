//! The rows of `headrace bench datapath`.

use live::datapath::{Case, Cost, PolicyCosts};
use serde::Serialize;
use serde_json::{Map, Value};

use super::maybe;
use crate::bench::shown::{ShownRow, header, round};

/// One device at one size. Nanoseconds are of the sending core, a segment.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    device: &'static str,
    segment_bytes: u16,
    /// `attached`: read by the device where it lies, and not summed; else `copied` and summed.
    payload: &'static str,
    headrace_mpps: f64,
    headrace_gbps: f64,
    testpmd_mpps: Option<f64>,
    ratio: Option<f64>,
    ns_per_segment: f64,
    /// The cost while counters and histograms are kept for readers.
    observed_ns: f64,
    /// The cost by stage; `core` is without `cc` and `lb`, which are measured alone.
    stages_ns: Map<String, Value>,
    /// The peer's, which is not in `ns_per_segment`.
    peer_ns: f64,
    segments: u64,
    retransmitted: u64,
    /// The erasure code, and the parity packets that it sent; their cost is the segments'.
    ec: Option<String>,
    parity: u64,
}

impl Row {
    pub(super) fn new(
        case: &Case,
        cost: &Cost,
        policies: PolicyCosts,
        testpmd_mpps: Option<f64>,
    ) -> Self {
        let headrace_mpps = 1000.0 / cost.ns_per_segment;
        let bits = f64::from(case.segment_bytes) * 8.0;
        let stages_ns = stages(cost, policies);
        Self {
            device: case.device.name(),
            segment_bytes: case.segment_bytes,
            payload: if cost.attached { "attached" } else { "copied" },
            headrace_mpps: round(headrace_mpps),
            headrace_gbps: round(headrace_mpps * bits / 1000.0),
            testpmd_mpps: testpmd_mpps.map(round),
            ratio: testpmd_mpps.map(|mpps| round(headrace_mpps / mpps)),
            ns_per_segment: round(cost.ns_per_segment),
            observed_ns: round(cost.observed_ns),
            stages_ns,
            peer_ns: round(cost.peer_ns),
            segments: cost.segments,
            retransmitted: cost.retransmitted,
            ec: case.code.map(|code| code.to_string()),
            parity: cost.parity,
        }
    }
}

/// The stages of `cost`, with the policies' part of the core's.
pub(super) fn stages(cost: &Cost, policies: PolicyCosts) -> Map<String, Value> {
    let mut stages = Map::new();
    for (name, ns) in &cost.stages {
        let policies = policies.cc_ns + policies.lb_ns;
        let ns = if *name == "core" { ns - policies } else { *ns };
        stages.insert((*name).to_owned(), rounded(ns));
    }
    stages.insert("cc".to_owned(), rounded(policies.cc_ns));
    stages.insert("lb".to_owned(), rounded(policies.lb_ns));
    stages
}

fn rounded(value: f64) -> Value {
    Value::from(round(value))
}

impl ShownRow for Row {
    const WORDS: usize = 1;

    fn header(rows: &[Self]) -> Vec<String> {
        let mut names = header([
            "device",
            "bytes",
            "payload",
            "Mpps",
            "Gb/s",
            "testpmd Mpps",
            "ratio",
            "ns",
            "observed",
        ]);
        names.extend(rows.first().iter().flat_map(|row| row.stages_ns.keys().cloned()));
        names.push("(peer)".to_owned());
        names
    }

    fn lines(&self) -> Vec<Vec<String>> {
        let mut cells = vec![
            self.device.to_owned(),
            self.segment_bytes.to_string(),
            self.payload.to_owned(),
            format!("{:.2}", self.headrace_mpps),
            format!("{:.1}", self.headrace_gbps),
            maybe(self.testpmd_mpps),
            maybe(self.ratio),
            format!("{:.1}", self.ns_per_segment),
            format!("{:.1}", self.observed_ns),
        ];
        let ns = |value: &Value| format!("{:.1}", value.as_f64().unwrap_or(0.0));
        cells.extend(self.stages_ns.values().map(ns));
        cells.push(format!("{:.1}", self.peer_ns));
        vec![cells]
    }
}
