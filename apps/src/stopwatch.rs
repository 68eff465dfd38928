//! Real time and memory of this process: the cost of a run, not its results.
#![expect(clippy::disallowed_types, reason = "it measures real time; no result depends on it")]

use std::time::Instant as RealInstant;

/// Real time since the stopwatch was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(RealInstant);

impl Stopwatch {
    /// Starts now.
    pub(crate) fn start() -> Self {
        Self(RealInstant::now())
    }

    /// Seconds since the start.
    pub(crate) fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// Seconds for which this thread has had a processor; `None` where the system does not say.
pub(crate) fn processor_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let ns = text.split_whitespace().next()?.parse::<f64>().ok()?;
    Some(ns / 1e9).filter(|seconds| *seconds > 0.0)
}

/// The most memory this process ever had in RAM, bytes; 0 when the system does not report it.
pub(crate) fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    let kb = line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok());
    kb.unwrap_or(0).saturating_mul(1024)
}
