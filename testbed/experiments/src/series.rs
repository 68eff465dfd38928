//! series.jsonl: the state of a run over time.

use std::collections::BTreeMap;

use serde::Serialize;
use transport::Duration;

/// The least time between samples.
pub(crate) const INTERVAL_MIN: Duration = Duration::from_ns(10);

/// One sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Network time, microseconds.
    pub t_us: f64,
    /// Goodput since the sample before, Gb/s. In a simulation bytes count as they arrive, elsewhere
    /// when their message is whole. Bytes of a message that its receiver has forgotten count again
    /// when they arrive again.
    pub goodput_gbps: f64,
    /// Data bytes in the longest switch queue.
    pub queue_max_bytes: u64,
    /// Data bytes in all switch queues.
    pub queue_sum_bytes: u64,
    /// The most data bytes that waited in one queue since the sample before. They are given for the
    /// ports of the switches of each tier (`tor`, `agg`, `core`, `border`), and for programs of
    /// switches (`held`), where there are any.
    pub queue_peak_bytes: BTreeMap<&'static str, u64>,
    /// Packets trimmed so far.
    pub trimmed: u64,
    /// Flows finished so far.
    pub flows_finished: u64,
    /// The lines of the matrix, from 0, that the following lists are of; left out where no flows
    /// were chosen: then they are the first [`FLOWS_SHOWN`], or all of a shorter matrix.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<usize>,
    /// The windows of the flows that are shown, bytes; null before a flow has begun and after its
    /// sender has its last acknowledgement.
    pub cwnd_bytes: Vec<Option<u64>>,
    /// Bytes of those flows delivered so far, which never fall. In a simulation of flows that are
    /// not cut into messages (`run.message`) they count as they arrive, but only once the first
    /// segment of their flow is there. In other runs they count when their message is whole.
    pub delivered_bytes: Vec<u64>,
    /// Bytes of those flows in their queues at a border switch of MLCC; null without a queue. This
    /// and the rates are missing where no switch runs its program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dci_queue_bytes: Vec<Option<u64>>,
    /// The rates at which those queues are emptied (R_credit), Gb/s; null without a queue.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dci_rate_gbps: Vec<Option<f64>>,
    /// The rates at which the senders of those flows may send, Gb/s; null where the window is, and
    /// for a flow that has only a window.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rate_gbps: Vec<Option<f64>>,
}

/// How many flows a sample shows one by one where `sampling.flows` does not say which.
pub const FLOWS_SHOWN: usize = 64;
