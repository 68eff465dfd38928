//! Takes a sample of a run at fixed intervals of network time. It has no clock: the driver says
//! when.

use transport::{Duration, Instant};

use super::series::{FLOWS_SHOWN, Sample};
use crate::conductor::Conductor;
use crate::fabric::{Network, PortId};
use crate::plan::Plan;

/// The samples so far, and when the next is due.
pub(crate) struct Sampler {
    interval: Option<Duration>,
    next_at: Instant,
    delivered_before: u64,
    series: Vec<Sample>,
}

impl Sampler {
    /// A sampler as the plan asks for; one that never samples when it does not.
    pub(crate) fn new(plan: &Plan) -> Self {
        let interval = plan.draft.sampling;
        let next_at = if interval.is_some() { Instant::ZERO } else { Instant::FAR_FUTURE };
        Self { interval, next_at, delivered_before: 0, series: Vec::new() }
    }

    /// When the next sample is due; [`Instant::FAR_FUTURE`] when none is.
    pub(crate) fn next_at(&self) -> Instant {
        self.next_at
    }

    /// Takes the samples due before `now`, of the state that has lasted until `now`. `cwnd` tells
    /// the window of a line of the matrix, bytes, where it can be seen.
    pub(crate) fn catch_up(
        &mut self,
        now: Instant,
        network: &Network,
        conductor: &Conductor<'_>,
        cwnd: impl Fn(usize) -> Option<u64>,
    ) {
        let Some(interval) = self.interval else { return };
        while self.next_at <= now {
            self.take(interval, network, conductor, &cwnd);
            self.next_at += interval;
        }
    }

    fn take(
        &mut self,
        interval: Duration,
        network: &Network,
        conductor: &Conductor<'_>,
        cwnd: &impl Fn(usize) -> Option<u64>,
    ) {
        let delivered = conductor.delivered().0;
        let ports =
            network.hosts()..u32::try_from(network.port_stats().count()).unwrap_or(u32::MAX);
        let queues = ports.map(|port| network.backlog(PortId(port)).data_bytes);
        let (queue_max_bytes, queue_sum_bytes) =
            queues.fold((0, 0), |(max, sum), bytes| (bytes.max(max), sum + bytes));
        let shown = conductor.matrix().flows.len().min(FLOWS_SHOWN);
        #[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
        let goodput_gbps =
            (delivered - self.delivered_before) as f64 * 8.0 / (interval.as_us_f64() * 1000.0);
        self.series.push(Sample {
            t_us: self.next_at.as_us_f64(),
            goodput_gbps,
            queue_max_bytes,
            queue_sum_bytes,
            trimmed: network.totals().trimmed,
            flows_finished: conductor.finished() as u64,
            cwnd_bytes: (0..shown).map(cwnd).collect(),
            delivered_bytes: conductor.records()[..shown].iter().map(|r| r.delivered).collect(),
        });
        self.delivered_before = delivered;
    }

    /// The samples.
    pub(crate) fn into_series(self) -> Vec<Sample> {
        self.series
    }
}
