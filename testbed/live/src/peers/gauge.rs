//! Measures the vitals of one end of a session.
//!
//! Round trips are those of all acknowledgements, without the time for which the receiver held
//! them. Windows are sampled at most 20 times a second; a flow that has nothing under way is left
//! out.

use std::fs;

use transport::{Duration, Instant};
use transport_dpdk::telemetry::Picture;

use super::host::PeerHost;
use super::vitals::{RoundTrips, Vitals};

/// Gathers the vitals of a session.
#[derive(Debug)]
pub(super) struct Gauge {
    began: Instant,
    cpu: Option<Duration>,
    /// Windows of the session, and of the interval under way.
    windows: [Mean; 2],
    /// When the next sample of the windows is due.
    samples_at: Instant,
    /// Round trips up to the end of the last interval.
    before: Option<Picture>,
}

/// Time between two samples of the windows.
const SAMPLE_EVERY: Duration = Duration::from_ms(50);
/// Time until the next attempt where nothing was under way.
const RETRY_EVERY: Duration = Duration::from_ms(1);

/// A sum and how many values it has.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: u64,
    count: u64,
}

impl Mean {
    fn add(&mut self, (sum, count): (u64, u64)) {
        self.sum += sum;
        self.count += count;
    }

    fn value(self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }
}

impl Gauge {
    pub(super) fn new(now: Instant) -> Self {
        let (cpu, windows) = (processor_time(), Default::default());
        Self { began: now, cpu, windows, samples_at: now, before: None }
    }

    /// Samples the windows of `host` when that is due.
    pub(super) fn sample(&mut self, host: &PeerHost, now: Instant) {
        if now < self.samples_at {
            return;
        }
        let windows = host.windows();
        self.windows.iter_mut().for_each(|mean| mean.add(windows));
        self.samples_at = now + if windows.1 > 0 { SAMPLE_EVERY } else { RETRY_EVERY };
    }

    /// Round trips and mean window since the last call.
    pub(super) fn interval(&mut self, host: &PeerHost) -> (Option<RoundTrips>, Option<u64>) {
        let now = host.round_trips();
        let rtt = now.as_ref().and_then(|now| RoundTrips::of(now, self.before.as_ref()));
        self.before = now;
        let [_, interval] = &mut self.windows;
        (rtt, std::mem::take(interval).value())
    }

    /// The vitals of the whole session, which ends `now`.
    pub(super) fn whole(&self, host: &PeerHost, now: Instant) -> Vitals {
        let cpu = self.cpu.zip(processor_time()).map(|(before, after)| {
            let took = now.since(self.began).as_us_f64();
            100.0 * after.saturating_sub(before).as_us_f64() / took.max(1.0)
        });
        let [segments, retransmitted] = host.segments();
        Vitals {
            cpu_percent: cpu,
            rtt_us: host.round_trips().and_then(|all| RoundTrips::of(&all, None)),
            cwnd_bytes: self.windows[0].value(),
            segments,
            retransmitted,
        }
    }
}

impl RoundTrips {
    /// The round trips of `all` that came after `before`; `None` when there are none.
    fn of(all: &Picture, before: Option<&Picture>) -> Option<Self> {
        let new = before.map_or_else(|| all.clone(), |before| all.since(before));
        let count = Some(new.count()).filter(|count| *count > 0)?;
        #[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
        let us = |ns: u64| ns as f64 / 1e3;
        #[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
        let mean = us(new.sum) / count as f64;
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| us(new.quantile(share)));
        Some(Self { count, mean, p50, p99, max })
    }
}

/// The time that all threads of this process have had a core; `None` where the system does not say.
fn processor_time() -> Option<Duration> {
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let times = tasks.map_while(Result::ok).filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    let ns: u64 = times.sum();
    (ns > 0).then(|| Duration::from_ns(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_grows_while_something_is_computed() {
        let Some(before) = processor_time() else { return };
        let mut sum = 0_u64;
        while processor_time().unwrap() < before + Duration::from_ms(2) {
            sum = (0..100_000).fold(sum, u64::wrapping_add);
        }
        assert!(processor_time().unwrap() > before, "{sum}");
    }

    #[test]
    fn a_mean_of_nothing_is_none() {
        let mut mean = Mean::default();
        assert_eq!(mean.value(), None);
        mean.add((10, 4));
        mean.add((2, 2));
        assert_eq!(mean.value(), Some(2));
    }
}
