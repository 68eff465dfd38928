//! Takes a sample of a run at fixed intervals of network time. It has no clock: the driver calls
//! it.

use std::collections::BTreeMap;
use std::ops::Range;

use fabric::{AnyProgram, Network, ProgramKind, SwitchQueues};
use transport::units::Key;
use transport::{Duration, Instant, Rate};

use crate::conductor::Conductor;
use crate::conductor::begun::Begun;
use crate::plan::Plan;
use crate::progress::Watch;
use crate::series::{FLOWS_SHOWN, Sample};

/// The samples so far, and when the next is due.
pub struct Sampler {
    interval: Option<Duration>,
    next_at: Instant,
    /// When the sample before was taken; zero before the first.
    before: Instant,
    arrived_before: u64,
    /// The most bytes of each shown flow that were ever in place: a receiver that forgets a message
    /// takes none of them back.
    delivered_most: Vec<u64>,
    /// The flows that samples show one by one: their lines of the matrix, from 0.
    lines: Vec<usize>,
    /// Whether samples name their lines: those that are shown are not the default ones.
    names_lines: bool,
    /// The tiers of the network by their names, with their switches.
    tiers: Vec<(&'static str, Range<u32>)>,
    series: Vec<Sample>,
}

/// The state of a run at an instant, for a sample.
#[derive(Default)]
pub struct Seen {
    /// For each switch.
    queues: Vec<SwitchQueues>,
    /// Whether some switch runs a program.
    has_programs: bool,
    trimmed: u64,
    /// Bytes that have ever arrived, which are goodput; the count never falls.
    arrived: u64,
    flows_finished: u64,
    flows: Vec<Option<FlowSeen>>,
    /// For each flow: bytes that are its own by its receiver, and bytes acknowledged at its
    /// sender. A receiver cannot name the flow of a message whose first segment has not come.
    carried_bytes: Vec<[u64; 2]>,
    /// The queues of flows at border switches; `None` where no switch has such queues.
    borders: Option<BorderQueues>,
}

/// The state of a flow at its sender.
#[derive(Clone, Copy, Debug)]
pub struct FlowSeen {
    /// The window of the flow, bytes; `None` where it has not begun or has ended.
    pub cwnd_bytes: Option<u64>,
    /// The pacing rate of the flow; `None` when the window alone limits it, and without a window.
    pub rate: Option<Rate>,
    /// The key of the flow; `None` when the endpoint has forgotten the flow.
    pub key: Option<Key>,
}

impl Seen {
    /// The state of a run, or of a part of it, with these `lines` of the matrix one by one; peaks
    /// are those since the last call. `flow` gives the state of a line at its sender, where it can
    /// be seen.
    pub fn of(
        network: &mut Network,
        conductor: &Conductor<'_>,
        lines: &[usize],
        flow: impl Fn(usize) -> Option<FlowSeen>,
    ) -> Self {
        Self {
            queues: network.look_at_queues(),
            has_programs: network.programs().next().is_some(),
            trimmed: network.totals().trimmed,
            arrived: conductor.delivered().0,
            flows_finished: conductor.finished() as u64,
            flows: lines.iter().map(|line| flow(*line)).collect(),
            carried_bytes: conductor.carried_of(lines).collect(),
            borders: queues_at_borders(network),
        }
    }

    /// The state of a run whose senders cannot be seen: it shows no queues of single flows.
    pub fn without_senders(
        network: &mut Network,
        conductor: &Conductor<'_>,
        lines: &[usize],
    ) -> Self {
        Self { borders: None, ..Self::of(network, conductor, lines, |_| None) }
    }

    /// The receivers have counted `placed` bytes as they arrived, of messages too that are not
    /// whole.
    pub(crate) fn with_placed(self, placed: u64) -> Self {
        Self { arrived: placed, ..self }
    }

    /// Adds bytes of messages that are not whole to those of their flows, as the hosts of a part
    /// have them.
    pub(crate) fn add_begun(&mut self, begun: impl Iterator<Item = Begun>, lines: &[usize]) {
        for message in begun {
            let place = message.line().and_then(|line| lines.binary_search(&line).ok());
            if let Some(of_flow) = place.and_then(|place| self.carried_bytes.get_mut(place)) {
                of_flow[usize::from(message.acked)] += u64::from(message.len);
            }
        }
    }

    /// Adds the state of another part.
    pub(crate) fn add(mut self, other: &Self) -> Self {
        for (mine, theirs) in self.queues.iter_mut().zip(&other.queues) {
            mine.add(theirs);
        }
        self.trimmed += other.trimmed;
        self.arrived += other.arrived;
        self.flows_finished += other.flows_finished;
        for (mine, theirs) in self.flows.iter_mut().zip(&other.flows) {
            *mine = mine.or(*theirs);
        }
        for (mine, theirs) in self.carried_bytes.iter_mut().zip(&other.carried_bytes) {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        }
        if let (Some(mine), Some(theirs)) = (&mut self.borders, &other.borders) {
            mine.add(theirs.0.iter().map(|(key, queue)| (*key, *queue)));
        }
        self
    }

    /// The longest queue of each tier since the last look.
    fn peaks(&self, tiers: &[(&'static str, Range<u32>)]) -> BTreeMap<&'static str, u64> {
        let of_tier = |(name, switches): &(&'static str, Range<u32>)| {
            let own = self.queues.get(switches.start as usize..switches.end as usize);
            let peaks = own.into_iter().flatten().map(|switch| switch.port_peak);
            (*name, peaks.max().unwrap_or(0))
        };
        let held = self.queues.iter().map(|switch| switch.held_peak).max();
        let held = held.filter(|_| self.has_programs).map(|peak| ("held", peak));
        tiers.iter().map(of_tier).chain(held).collect()
    }

    /// The time since the last look is over: what waits now is the peak of what follows.
    fn begin_peaks(&mut self) {
        for switch in &mut self.queues {
            (switch.port_peak, switch.held_peak) = (switch.port_bytes, switch.held_bytes);
        }
    }

    /// For each flow: its bytes at border switches and its highest rate there; empty without such
    /// switches.
    fn at_borders(&self) -> Vec<Option<(u64, Rate)>> {
        let Some(borders) = &self.borders else { return Vec::new() };
        let at = |flow: &Option<FlowSeen>| borders.0.get(&flow.as_ref()?.key?.0).copied();
        self.flows.iter().map(at).collect()
    }
}

/// For each key of a flow: the bytes that wait at all border switches together, and the highest
/// rate of these queues. A flow that changes its path may have a queue at several borders.
#[derive(Debug, Default, PartialEq)]
struct BorderQueues(BTreeMap<u64, (u64, Rate)>);

impl BorderQueues {
    /// Adds queues, each of a key: bytes and rate. The result does not depend on the order.
    fn add(&mut self, queues: impl Iterator<Item = (u64, (u64, Rate))>) {
        for (key, (bytes, rate)) in queues {
            let (sum, highest) = self.0.entry(key).or_default();
            *sum += bytes;
            *highest = (*highest).max(rate);
        }
    }
}

fn queues_at_borders(network: &Network) -> Option<BorderQueues> {
    network.blueprint().switches_with(ProgramKind::Dci).next()?;
    let mut all = BorderQueues::default();
    for program in network.programs() {
        if let AnyProgram::Dci(border) = program {
            let queues = border.queues_of_flows();
            all.add(queues.map(|(key, bytes, rate)| (key.0, (bytes.0, rate))));
        }
    }
    Some(all)
}

/// Samples that are held before a watch is offered them: they are a kilobyte and more each.
const HELD: usize = 1024;

impl Sampler {
    /// A sampler as the plan asks for; one that never samples when it does not.
    pub fn new(plan: &Plan) -> Self {
        let interval = plan.draft.sampling;
        let next_at = if interval.is_some() { Instant::ZERO } else { Instant::FAR_FUTURE };
        let (sampled, flows) = (plan.draft.sampled.as_ref(), plan.matrix.flows.len());
        let lines = sampled.map(|set| set.lines(flows).collect());
        let names_lines = lines.is_some();
        let lines: Vec<usize> = lines.unwrap_or_else(|| (0..flows.min(FLOWS_SHOWN)).collect());
        let tiers = plan.tree.tiers().map(|(tier, switches)| (tier.word(), switches)).collect();
        Self {
            interval,
            next_at,
            before: Instant::ZERO,
            arrived_before: 0,
            delivered_most: vec![0; lines.len()],
            lines,
            names_lines,
            tiers,
            series: Vec::new(),
        }
    }

    /// When the next sample is due; [`Instant::FAR_FUTURE`] when none is.
    pub fn next_at(&self) -> Instant {
        self.next_at
    }

    /// Takes the samples due before `now`, of the state that has lasted until `now`. `look` gives
    /// that state for the lines of the matrix that it gets. A long silence has many samples, so
    /// `watch` is offered them in between.
    pub fn catch_up(
        &mut self,
        now: Instant,
        watch: &mut dyn Watch,
        look: impl FnOnce(&[usize]) -> Seen,
    ) {
        let Some(interval) = self.interval.filter(|_| self.next_at <= now) else { return };
        let mut seen = look(&self.lines);
        while self.next_at <= now {
            if self.series.len() >= HELD {
                self.show_to(watch);
            }
            self.take(self.next_at, interval, &seen);
            seen.begin_peaks();
            self.next_at += interval;
        }
    }

    /// Takes the samples that are due when the run ends, at `end`, and one of the end itself. The
    /// last one covers the time since the sample before it, which may be less than an interval.
    pub fn end(
        &mut self,
        end: Instant,
        watch: &mut dyn Watch,
        mut look: impl FnMut(&[usize]) -> Seen,
    ) {
        self.catch_up(end, watch, &mut look);
        if self.interval.is_some() && self.before < end {
            let seen = look(&self.lines);
            self.take(end, end.since(self.before), &seen);
        }
    }

    fn take(&mut self, at: Instant, span: Duration, seen: &Seen) {
        let bytes = seen.arrived.saturating_sub(self.arrived_before);
        #[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
        let goodput_gbps = bytes as f64 * 8.0 / (span.as_us_f64() * 1000.0);
        let at_borders = seen.at_borders();
        let flow_rate = |flow: &Option<FlowSeen>| flow.as_ref()?.rate.map(Rate::as_gbps_f64);
        // What is acknowledged has been delivered.
        for (most, [placed, acked]) in self.delivered_most.iter_mut().zip(&seen.carried_bytes) {
            *most = (*most).max(*placed).max(*acked);
        }
        let shows_rates = seen.borders.is_some();
        let longest =
            seen.queues.iter().map(|switch| switch.port_bytes.max(switch.held_bytes)).max();
        self.series.push(Sample {
            t_us: at.as_us_f64(),
            goodput_gbps,
            queue_max_bytes: longest.unwrap_or(0),
            queue_sum_bytes: seen.queues.iter().map(|switch| switch.sum_bytes).sum(),
            queue_peak_bytes: seen.peaks(&self.tiers),
            trimmed: seen.trimmed,
            flows_finished: seen.flows_finished,
            flows: if self.names_lines { self.lines.clone() } else { Vec::new() },
            cwnd_bytes: seen.flows.iter().map(|flow| flow.as_ref()?.cwnd_bytes).collect(),
            delivered_bytes: self.delivered_most.clone(),
            dci_queue_bytes: at_borders.iter().map(|at| at.map(|(bytes, _)| bytes)).collect(),
            dci_rate_gbps: at_borders
                .iter()
                .map(|at| at.map(|(_, rate)| rate.as_gbps_f64()))
                .collect(),
            rate_gbps: seen.flows.iter().filter(|_| shows_rates).map(flow_rate).collect(),
        });
        (self.before, self.arrived_before) = (at, seen.arrived);
    }

    /// Offers the samples so far to a watch.
    pub fn show_to(&mut self, watch: &mut dyn Watch) {
        watch.on_samples(&mut self.series);
    }

    /// The samples that were not taken.
    pub fn into_series(self) -> Vec<Sample> {
        self.series
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Progress;

    /// Takes all samples that are offered.
    #[derive(Default)]
    struct Taker {
        most: usize,
        taken: usize,
    }

    impl Watch for Taker {
        fn goes_on(&mut self, _: &Progress) -> bool {
            true
        }

        fn on_samples(&mut self, samples: &mut Vec<Sample>) {
            self.most = self.most.max(samples.len());
            self.taken += samples.drain(..).count();
        }
    }

    /// A sampler of the lines 2 and 7 of a matrix.
    fn of_two_lines() -> Sampler {
        Sampler {
            interval: Some(Duration::from_us(1)),
            next_at: Instant::ZERO,
            before: Instant::ZERO,
            arrived_before: 0,
            delivered_most: vec![0; 2],
            lines: vec![2, 7],
            names_lines: true,
            tiers: Vec::new(),
            series: Vec::new(),
        }
    }

    #[test]
    fn bytes_whose_flow_is_not_named_yet_count_when_they_are_acknowledged() {
        let mut sampler = of_two_lines();
        let message = |tag, len, acked| Begun { tag, len, acked };
        // The first segment of line 2 has not come; line 7 has more in place than is acknowledged.
        let begun = [
            message(0, 9000, false),
            message(3, 5000, true),
            message(8, 8000, false),
            message(8, 4000, true),
        ];
        let mut seen = Seen { carried_bytes: vec![[0; 2], [100, 100]], ..Seen::default() };
        seen.add_begun(begun.into_iter(), &[2, 7]);
        sampler.take(Instant::ZERO, Duration::from_us(1), &seen);
        assert_eq!(sampler.into_series()[0].delivered_bytes, [5000, 8100]);
    }

    #[test]
    fn queues_of_a_flow_at_several_borders_are_added_in_any_order() {
        let queues = [(7, 5000, 2), (9, 100, 1), (7, 0, 3)]
            .map(|(key, bytes, gbps)| (key, (bytes, Rate::from_gbps(gbps))));
        let [mut one, mut other] = [BorderQueues::default(), BorderQueues::default()];
        one.add(queues.into_iter());
        other.add(queues.into_iter().rev());
        assert_eq!(one, other);
        let seen = |queues| Seen { borders: Some(queues), ..Seen::default() };
        let both = seen(one).add(&seen(other)).borders.unwrap();
        assert_eq!(both.0[&7], (10_000, Rate::from_gbps(3)));
    }

    #[test]
    fn a_long_silence_is_sampled_without_being_held() {
        let mut sampler = of_two_lines();
        let mut taker = Taker::default();
        let seen = Seen { arrived: 1000, ..Seen::default() };
        sampler.catch_up(Instant::ZERO + Duration::from_ms(100), &mut taker, |lines| {
            assert_eq!(lines, [2, 7]);
            seen
        });
        let left = sampler.into_series();
        assert!(taker.most <= HELD && left.len() <= HELD, "{} and {}", taker.most, left.len());
        assert_eq!(taker.taken + left.len(), 100_001);
        assert_eq!(left.last().map(|sample| sample.t_us), Some(100_000.0));
        assert_eq!(left.last().map(|sample| &sample.flows[..]), Some(&[2, 7][..]));
    }
}
