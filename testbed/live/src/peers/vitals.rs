//! What one end of a session measures of its own traffic: round trips, windows, segments sent
//! again, and the processor time that the process takes.

use serde::{Deserialize, Serialize};

/// Round trips of a time, microseconds. Percentiles are exact to an eighth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundTrips {
    /// Acknowledgements that were measured.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// An upper bound of the longest.
    pub max: f64,
}

/// What one end of a session measures of its own traffic and process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Vitals {
    /// Processor time of the process, percent of one core; `None` where the system does not say.
    pub cpu_percent: Option<f64>,
    /// Round trips of its segments; `None` where none were measured.
    pub rtt_us: Option<RoundTrips>,
    /// Mean window of a flow that has something under way, bytes; `None` where there was none.
    pub cwnd_bytes: Option<u64>,
    /// Segments of data that this end sent for the first time.
    pub segments: u64,
    /// Segments that this end sent again, because it counted them as lost.
    pub retransmitted: u64,
}
