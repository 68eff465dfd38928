//! The boards as OpenMetrics text.
//!
//! Source: OpenMetrics 1.0. Names are `headrace_<group>_<counter>_total`, drops
//! `headrace_drops_total` by reason, histograms `headrace_<name>_seconds` or `_frames`; all are
//! labelled with worker and host. Times are seconds of network time, exposed at powers of two of a
//! nanosecond.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::{Board, COUNTERS, Counter, Group, HISTOGRAMS, HistogramName, Telemetry};

/// The metrics of all workers now, up to and with `# EOF`.
///
/// # Errors
/// Never: text grows.
pub fn exposition(telemetry: &Telemetry) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("headrace");
    registry.register_collector(Box::new(telemetry.clone()));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

impl Collector for Telemetry {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let boards = self.workers();
        let readings: Vec<_> = boards.iter().map(|board| (&**board, board.counters())).collect();
        for (at, counter) in COUNTERS.iter().enumerate() {
            if counter.group == Group::Drops {
                continue;
            }
            let name = format!("{}_{}", counter.group.name(), counter.name);
            let help = counter.help.trim();
            let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
            for (board, values) in &readings {
                family
                    .encode_family(&labels(board))?
                    .encode_counter::<NoLabelSet, u64, f64>(&values[at], None)?;
            }
        }
        let help = "Received packets dropped.";
        let mut family = encoder.encode_descriptor("drops", help, None, MetricType::Counter)?;
        let is_drop = |(_, counter): &(usize, &Counter)| counter.group == Group::Drops;
        for (board, values) in &readings {
            for (at, counter) in COUNTERS.iter().enumerate().filter(is_drop) {
                let [worker, host] = labels(board);
                family
                    .encode_family(&[worker, host, ("reason", counter.name.to_owned())])?
                    .encode_counter::<NoLabelSet, u64, f64>(&values[at], None)?;
            }
        }
        HISTOGRAMS.into_iter().try_for_each(|name| histogram(&mut encoder, name, &readings))
    }
}

type Reading<'a> = (&'a Board, [u64; COUNTERS.len()]);

fn histogram(
    encoder: &mut DescriptorEncoder<'_>,
    name: HistogramName,
    readings: &[Reading<'_>],
) -> fmt::Result {
    let (unit, scale) = if name.is_time() { ("seconds", 1e-9) } else { ("frames", 1.0) };
    // Not as `# UNIT`: not every parser accepts one for histograms.
    let named = format!("{}_{unit}", name.name());
    let kind = MetricType::Histogram;
    let mut family = encoder.encode_descriptor(&named, name.help(), None, kind)?;
    for (board, _) in readings {
        let picture = board.histogram(name).picture();
        let (first, last) = name.octaves();
        let mut buckets = Vec::new();
        let mut below = 0;
        for octave in first..=last {
            let count = picture.up_to(octave);
            buckets.push((f64::from(1u32 << octave) * scale, count - below));
            below = count;
        }
        let count = picture.count();
        buckets.push((f64::INFINITY, count - below));
        let sum = precise(picture.sum) * scale;
        family
            .encode_family(&labels(board))?
            .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}

fn labels(board: &Board) -> [(&'static str, String); 2] {
    [("worker", board.worker().to_string()), ("host", board.host().0.to_string())]
}

#[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
fn precise(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use openmetrics_parser::openmetrics::parse_openmetrics;
    use transport::{Duration, HostId, Instant, Stats};

    use crate::io::upkeep::IoCounts;
    use crate::telemetry::counts::WorkerCounts;
    use crate::telemetry::meter::TurnReport;

    fn busy(telemetry: &Telemetry) {
        for host in 0..3 {
            let mut meter = telemetry.meter(HostId(host), 4, Duration::from_ms(1));
            let at = |us: u64| Instant::ZERO + Duration::from_us(us);
            for us in 1..=5 {
                let turn = TurnReport { now: at(us), busy: true, sent: 32, waiting: [false; 3] };
                assert!(meter.turned(turn), "the first turn");
            }
            meter.received(7, &[]);
            let mut stats = Stats { data_new: 40 + u64::from(host), ..Stats::default() };
            stats.drops.count(transport::DropReason::Corrupt);
            meter.publish(at(9), &stats, &WorkerCounts::default(), &IoCounts::default());
        }
    }

    #[test]
    fn the_exposition_is_openmetrics_and_says_what_was_counted() {
        let telemetry = Telemetry::default();
        busy(&telemetry);
        let text = exposition(&telemetry).unwrap();
        assert!(text.ends_with("# EOF\n"));
        let parsed = parse_openmetrics(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        // Counters but for the reasons, which are one family, and histograms.
        let drops = COUNTERS.iter().filter(|counter| counter.group == Group::Drops).count();
        assert_eq!(parsed.families.len(), COUNTERS.len() - drops + 1 + HISTOGRAMS.len());
        for line in [
            "headrace_endpoint_data_new_total{worker=\"2\",host=\"2\"} 42\n",
            "headrace_drops_total{worker=\"0\",host=\"0\",reason=\"corrupt\"} 1\n",
            "headrace_rx_burst_frames_bucket{le=\"8.0\",worker=\"1\",host=\"1\"} 1\n",
            "headrace_rx_burst_frames_bucket{le=\"4.0\",worker=\"1\",host=\"1\"} 0\n",
            "headrace_tx_burst_frames_sum{worker=\"1\",host=\"1\"} 160.0\n",
            "headrace_poll_seconds_count{worker=\"1\",host=\"1\"} 4\n",
            "headrace_poll_seconds_bucket{le=\"+Inf\",worker=\"1\",host=\"1\"} 4\n",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }

    #[test]
    fn without_workers_there_are_families_and_an_end() {
        let text = exposition(&Telemetry::default()).unwrap();
        assert!(text.ends_with("# EOF\n") && !text.contains("worker=\""));
    }
}
