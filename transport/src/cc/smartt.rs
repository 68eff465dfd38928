//! SMaRTT: a window moved by ECN and delay, with QuickAdapt on trims. Source: \[smartt\] sec. III,
//! whole.
//!
//! ```text
//!              ack, still ignoring ------------------------------> count only
//!              ack -> QuickAdapt due? -> FastIncrease? -> four core cases:
//!                                   rtt <= target            rtt > target
//!                   no mark     proportional + fair          fair increase
//!                   mark        nothing: the balancer moves  multiplicative decrease
//!              trim -> window - size, QuickAdapt armed
//! ```
//!
//! Units: wire bytes, picoseconds. Additive gains are integers. Each acknowledgement adds
//! `size * gain` to a numerator, which is divided by the window when it is applied. The remainder
//! is kept, so no byte is lost to rounding. The adjustment variants of sec. III-G only differ in
//! when they divide. SMaRTT does not choose paths, retransmit, pace, or serve windows below one
//! packet.
//!
//! Cost: one division per unmarked acknowledgement above target, two below it, none while ignoring
//! or when fast increasing. State: 96 bytes a flow and a pointer to the constants of its path,
//! which all flows of an endpoint over equal paths share. The paper stores 19 bytes a flow and 28
//! globally, with clocks and counters of its NIC's width; here each of seven clocks has 64 bits.

mod params;
mod recent;
mod share;

use alloc::sync::Arc;

pub use params::{
    Adjustment, DecreaseBy, DecreaseOf, Increase, OnEcnLowDelay, QaShare, Signals, SmarttParams,
    StartOf,
};

use recent::Recent;

use super::{AckSample, CcParams, CongestionControl, Controller, LossSample, Path, Window};
use crate::path::NetworkFacts;
use crate::registry::Registered;
use crate::time::{Duration, Instant};
use crate::units::Bytes;

/// The BDP at which the increase constants are 1: 100 Gb/s x 12 us, the reference simulator's
/// scaling point.
const REFERENCE_BDP_BYTES: f64 = 150_000.0;
const REFERENCE_RTT: Duration = Duration::from_us(12);
/// Larger RTT samples count as this, 70 s, so that products of times fit 64 bits.
const RTT_MAX: Duration = Duration::from_ps(1 << 46);

/// One flow's SMaRTT state.
#[derive(Clone, Debug)]
pub struct Smartt {
    /// Wire bytes, `at.mtu ..= at.cwnd_max`.
    cwnd: u32,
    /// Bytes received in the current measurement of QuickAdapt; saturates.
    acked: u32,
    /// Bytes whose acknowledgements are still to be ignored.
    to_ignore: u32,
    /// Contiguous bytes acknowledged without congestion; saturates.
    uncongested: u32,
    /// Numerator of the increase not applied yet: bytes x bytes per window.
    pending: u64,
    /// Bytes acknowledged since the increase was applied, or since the last sample.
    pending_bytes: u32,
    /// Acknowledgements until the next sample.
    until_sample: u16,
    /// Flows that share the receiver, by its last report; 0 before.
    sharers: u16,
    /// Whether a trim has asked for QuickAdapt.
    trigger_qa: bool,
    /// Whether FastIncrease is active.
    increasing: bool,
    /// Whether the flow has its start window.
    started: bool,
    /// End of the current measurement; zero before the first.
    measure_end: Instant,
    /// When QuickAdapt last acted; zero if never.
    adapted_at: Instant,
    /// The earliest instant at which the receiver's share may set the window again.
    share_end: Instant,
    /// The earliest next multiplicative decrease.
    decrease_at: Instant,
    /// The latest instant at which an accumulated increase is applied.
    adjust_at: Instant,
    /// When the flow next takes part in its host's mean window, and may gain eta.
    round_end: Instant,
    /// EWMA of the RTT over the acknowledgements that are not ignored.
    avg_rtt: Duration,
    /// Shared with every clone.
    at: Arc<Scale>,
}

const _: () = assert!(size_of::<Smartt>() == 96 + size_of::<usize>());

/// The constants of one path, the settings they follow from, and the mean window of its flows.
#[derive(Debug)]
struct Scale {
    base_rtt: Duration,
    target_rtt: Duration,
    /// The base RTT with which eq. 1 reckons, at least `base_rtt`.
    decrease_rtt: Duration,
    /// RTTs up to this one count as the base RTT.
    fast_rtt: Duration,
    mtu: u32,
    /// Bytes that the path carries in one target RTT.
    bytes_per_target: u32,
    /// The largest window, bytes, at least `mtu`.
    cwnd_max: u32,
    /// The window with which a flow starts, bytes.
    start: u32,
    /// Bytes per window of acknowledgements.
    fair_gain: u32,
    /// Bytes per window of acknowledgements and per unit of (target - rtt) / rtt.
    proportional_gain: u32,
    /// Bytes that a small window gains in a base RTT, under marks and long delay, too.
    eta: u32,
    /// Windows below this one are small.
    eta_below: u32,
    /// Gain of the moving average, parts of 2^16.
    ewma_gain: u32,
    params: SmarttParams,
    /// Mean window of the flows that share these constants.
    recent: Recent,
}

impl Scale {
    fn new(params: &SmarttParams, path: &Path) -> Self {
        let target_rtt = if params.target_queue == Duration::ZERO {
            times(path.base_rtt, f64::from(params.target_rtt))
        } else {
            path.base_rtt + params.target_queue
        };
        let mtu = small(path.mtu).max(1);
        //= smartt#III-J
        // DEVIATION(smartt#alg4): line 23 caps the window at one BDP, the text at 1.5 "to manage
        // transient bursts". The text is later and says why, and the reference simulator agrees
        // with it.
        let cwnd_max = small(path.bdp().scaled(f64::from(params.window_max))).max(mtu);
        //= smartt#III-J
        // Constants scale with the BDP, so that a ramp from nothing to one BDP takes the same time
        // anywhere.
        let bdp = match params.increase {
            Increase::Fair => path.bdp(),
            Increase::Additive => path.line_rate.bytes_in(REFERENCE_RTT),
        };
        let gain = |packets: f64| {
            let bytes = path.mtu.scaled(packets * as_f64(bdp) / REFERENCE_BDP_BYTES);
            small(bytes).min(cwnd_max)
        };
        let start = small(path.bdp().scaled(f64::from(params.window_start)))
            .max(mtu.saturating_mul(u32::from(params.window_start_packets)))
            .clamp(mtu, cwnd_max);
        Self {
            base_rtt: path.base_rtt,
            target_rtt,
            decrease_rtt: path.base_rtt.max(params.decrease_rtt),
            fast_rtt: times(path.base_rtt, 1.0 + f64::from(params.fast_slack)),
            mtu,
            bytes_per_target: small(path.line_rate.bytes_in(target_rtt)),
            cwnd_max,
            start,
            fair_gain: gain(f64::from(params.fi)),
            //= smartt#III-I4
            // pi = brtt / (trtt - brtt), so that an empty queue gives one (scaled) packet per RTT.
            proportional_gain: gain(
                f64::from(params.pi) * as_f64(Bytes(path.base_rtt.as_ps()))
                    / as_f64(Bytes((target_rtt - path.base_rtt).as_ps())),
            ),
            eta: gain(f64::from(params.eta)),
            eta_below: small(path.bdp().scaled(f64::from(params.eta_below))),
            ewma_gain: small(Bytes(1 << 16).scaled(f64::from(params.ewma_gain))),
            params: *params,
            recent: Recent::new(),
        }
    }
}

impl Smartt {
    /// Bytes of the constants that clones share.
    pub const SHARED_BYTES: usize = size_of::<Scale>();

    /// The initial state on `path`, with a window that fills it: a short message is sent at once.
    #[must_use]
    pub fn new(params: &SmarttParams, path: &Path) -> Self {
        let at = Arc::new(Scale::new(params, path));
        Self {
            cwnd: at.start,
            acked: 0,
            to_ignore: 0,
            uncongested: 0,
            pending: 0,
            pending_bytes: 0,
            until_sample: 0,
            sharers: 0,
            trigger_qa: false,
            increasing: false,
            started: params.start_of == StartOf::Path,
            measure_end: Instant::ZERO,
            adapted_at: Instant::ZERO,
            share_end: Instant::ZERO,
            decrease_at: Instant::ZERO,
            adjust_at: Instant::ZERO,
            round_end: Instant::ZERO,
            avg_rtt: path.base_rtt.min(RTT_MAX),
            at,
        }
    }

    /// Takes over a changed base RTT, for which it allocates; rate and MTU of a flow are fixed.
    #[inline]
    fn follow(&mut self, path: &Path) {
        if path.base_rtt != self.at.base_rtt {
            self.rescale(path);
        }
    }

    #[cold]
    fn rescale(&mut self, path: &Path) {
        self.at = Arc::new(Scale::new(&self.at.params, path));
        self.bound();
    }

    fn bound(&mut self) {
        //= smartt#III-J
        self.cwnd = self.cwnd.clamp(self.at.mtu, self.at.cwnd_max);
    }

    /// True once in a base RTT.
    #[inline]
    fn ends_round(&mut self, now: Instant) -> bool {
        let ends = now >= self.round_end;
        if ends {
            self.round_end = now + self.at.base_rtt;
        }
        ends
    }

    /// What a flow does once in a base RTT, at an acknowledgement: it takes part in its host's mean
    /// window, and gains eta. Where a trim comes first, it only takes part.
    #[inline(never)]
    fn end_round(&mut self, ack: &AckSample) {
        self.note(ack);
        // DEVIATION(smartt#alg4): a window of one packet grows neither under marks nor above the
        // target, and each trim costs such a flow a round trip: it falls behind for good. The
        // reference simulator gives eta to all windows. Larger ones recover without it, and those
        // that have their share of a receiver are not behind.
        if self.cwnd < self.at.eta_below && !self.has_share(ack.sharers) {
            self.cwnd = self.cwnd.saturating_add(self.at.eta);
            self.bound();
        }
    }

    /// The bytes that this acknowledgement stands for, or `None` when it is not a sample.
    fn sample(&mut self, size: u32) -> Option<u32> {
        let Adjustment::Sample(every) = self.at.params.adjustment else { return Some(size) };
        //= smartt#III-G
        self.pending_bytes = self.pending_bytes.saturating_add(size);
        if self.until_sample > 1 {
            self.until_sample -= 1;
            return None;
        }
        self.until_sample = every;
        Some(core::mem::take(&mut self.pending_bytes))
    }

    /// Algorithm 2. True when the window was set.
    #[inline]
    fn quick_adapt(&mut self, now: Instant, in_flight: Bytes) -> bool {
        //= smartt#alg2
        self.at.params.quick_adapt && now >= self.measure_end && self.measured(now, in_flight)
    }

    /// Ends a measurement. True when the window was set.
    #[inline(never)]
    fn measured(&mut self, now: Instant, in_flight: Bytes) -> bool {
        let span = now.since(self.measure_end) + self.at.target_rtt;
        let started = self.measure_end != Instant::ZERO;
        // DEVIATION(smartt#alg2): a measurement that went on for another target RTT shows that the
        // flow was idle or ignoring, and not how much the network carries, so it is taken anew. A
        // measurement that ended late is scaled to one target RTT, which is what line 7 means.
        let fresh = span.as_ps() < self.at.target_rtt.as_ps().saturating_mul(2);
        let adapted = self.trigger_qa && started && fresh;
        if adapted {
            let share = as_f64(Bytes(self.at.target_rtt.as_ps())) / as_f64(Bytes(span.as_ps()));
            let received = Bytes(u64::from(self.acked));
            let window = small(received.scaled(share * f64::from(self.at.params.qa_scaling)));
            self.set_window(window, now, in_flight);
        }
        self.measure_end = now + self.at.target_rtt;
        self.acked = 0;
        adapted
    }

    /// QuickAdapt's effect: a new window, and no reaction to packets that were in flight before.
    fn set_window(&mut self, window: u32, now: Instant, in_flight: Bytes) {
        self.trigger_qa = false;
        self.cwnd = window;
        self.bound();
        self.to_ignore = if self.at.params.ignore { small(in_flight) } else { 0 };
        self.adapted_at = now;
        self.pending = 0;
        self.uncongested = 0;
        self.increasing = false;
    }

    /// Without trimming, a long delay together with few received bytes calls for QuickAdapt, at the
    /// end of a measurement.
    fn watch_for_collapse(&mut self, ack: &AckSample) {
        //= smartt#III-E
        if self.at.params.trimming
            || ack.now < self.measure_end
            || self.measure_end == Instant::ZERO
        {
            return;
        }
        let high = times(self.at.target_rtt, f64::from(self.at.params.qa_high_rtt));
        // Bytes in flight stand in for the window, so that a flow with little to send does not
        // count as starved.
        let in_use = ack.in_flight.min(Bytes(u64::from(self.cwnd)));
        let low = in_use.scaled(f64::from(self.at.params.qa_low_acked));
        if ack.rtt > high && Bytes(u64::from(self.acked)) < low {
            self.trigger_qa = true;
        }
    }

    /// Algorithm 3. True while active.
    fn fast_increase(&mut self, size: u32, ack: &AckSample) -> bool {
        //= smartt#alg3
        if !self.is_idle(ack) || !self.at.params.fast_increase {
            self.congested();
            return false;
        }
        self.uncongested = self.uncongested.saturating_add(size);
        if self.uncongested > self.cwnd || self.increasing {
            // The paper adds k MTUs per ACK of one packet; an ACK here may cover several, or a
            // short one.
            let grown = Bytes(u64::from(size)).scaled(f64::from(self.at.params.k));
            self.cwnd = self.cwnd.saturating_add(small(grown));
            self.bound();
            self.increasing = true;
        }
        self.increasing
    }

    /// True when no queue on the path marked or delayed the acknowledged segment. With marks as the
    /// only signal this is never true: they do not show that a queue is empty.
    fn is_idle(&self, ack: &AckSample) -> bool {
        match self.at.params.signals {
            Signals::Both => !ack.ecn && ack.rtt <= self.at.fast_rtt,
            Signals::DelayOnly => ack.rtt <= self.at.fast_rtt,
            Signals::EcnOnly => false,
        }
    }

    fn congested(&mut self) {
        self.uncongested = 0;
        self.increasing = false;
    }

    /// Algorithm 1.
    fn core_cases(&mut self, size: u32, ack: &AckSample) {
        //= smartt#alg1
        let above = ack.rtt > self.at.target_rtt;
        let (marked, above) = match self.at.params.signals {
            Signals::Both => (ack.ecn, above),
            Signals::DelayOnly => (above, above),
            Signals::EcnOnly if ack.ecn => return self.reduce(size),
            Signals::EcnOnly => (false, true),
        };
        match (marked, above) {
            (true, true) => self.multiplicative_decrease(ack.now),
            // The flow reports the mark to the balancer, which changes the path.
            (true, false) => match self.at.params.on_ecn_low_delay {
                OnEcnLowDelay::NoOp => {}
                OnEcnLowDelay::Reduce => self.reduce(size),
            },
            (false, true) => self.increase(self.fair(size), size, ack.now),
            (false, false) => {
                //= smartt#III-I4
                // A proportional increase is followed by a fair one.
                let both = self.proportional(size, ack.rtt).saturating_add(self.fair(size));
                self.increase(both, size, ack.now);
            }
        }
    }

    fn multiplicative_decrease(&mut self, now: Instant) {
        if now < self.decrease_at || self.avg_rtt <= self.at.target_rtt {
            return;
        }
        //= smartt#eq1
        let excess = as_f64(Bytes((self.avg_rtt - self.at.target_rtt).as_ps()));
        let whole = match self.at.params.decrease_by {
            DecreaseBy::Rtt => self.avg_rtt + (self.at.decrease_rtt - self.at.base_rtt),
            DecreaseBy::Queueing => self.avg_rtt - self.at.base_rtt,
        };
        let relative = excess / as_f64(Bytes(whole.as_ps()));
        let factor = (1.0 - relative * f64::from(self.at.params.md_factor)).max(0.5);
        // The cut is rounded down, so that at least half is left.
        let cut = Bytes(u64::from(self.cwnd)).scaled(1.0 - factor);
        self.cwnd -= small(cut).min(self.cwnd);
        self.bound();
        //= smartt#III-I2
        // Once per base RTT.
        self.decrease_at = now + self.at.decrease_rtt;
    }

    /// The per-packet reaction of MPRDMA to a mark, from which the paper starts: half of the marked
    /// bytes.
    fn reduce(&mut self, size: u32) {
        self.cwnd = self.cwnd.saturating_sub(size / 2);
        self.bound();
    }

    /// Numerator of the fair increase.
    fn fair(&self, size: u32) -> u64 {
        //= smartt#eq2
        u64::from(size) * u64::from(self.at.fair_gain)
    }

    /// Numerator of the proportional increase. An RTT below the base RTT counts as the base RTT.
    fn proportional(&self, size: u32, rtt: Duration) -> u64 {
        //= smartt#eq3
        let rtt_ps = rtt.max(self.at.base_rtt).as_ps().max(1);
        let room_ps = self.at.target_rtt.as_ps().saturating_sub(rtt_ps);
        let relative_q16 = room_ps.min(RTT_MAX.as_ps()) * (1 << 16) / rtt_ps;
        let gain = u64::from(size) * u64::from(self.at.proportional_gain);
        let product = (u128::from(gain) * u128::from(relative_q16)) >> 16;
        // min(size, ..) of eq. 3, as a numerator.
        u64::try_from(product).unwrap_or(u64::MAX).min(u64::from(size) * u64::from(self.cwnd))
    }

    /// Gathers an increase, and divides when the adjustment variant requires it.
    #[inline]
    fn increase(&mut self, numerator: u64, size: u32, now: Instant) {
        self.pending = self.pending.saturating_add(numerator);
        if let Adjustment::Accumulate(limit) = self.at.params.adjustment {
            //= smartt#III-G
            self.pending_bytes = self.pending_bytes.saturating_add(size);
            if self.pending_bytes < limit && now < self.adjust_at {
                return;
            }
            self.pending_bytes = 0;
            self.adjust_at = now + self.at.base_rtt;
        }
        let window = u64::from(self.cwnd);
        let grown = u32::try_from(self.pending / window).unwrap_or(u32::MAX);
        self.pending %= window;
        self.cwnd = self.cwnd.saturating_add(grown);
        self.bound();
    }

    /// Counts a loss by trim or timeout; false when QuickAdapt has already reacted to it.
    fn count_loss(&mut self, loss: &LossSample) -> bool {
        self.congested();
        let size = small(loss.bytes);
        if self.at.params.ignore && loss.sent_at < self.adapted_at {
            // DEVIATION(smartt#alg4): lines 16 and 17 react to trims even while ignoring. That
            // would reduce a window which QuickAdapt has just set to one packet. Sec. III-E ignores
            // all packets that were in flight.
            self.to_ignore = self.to_ignore.saturating_sub(size);
            return false;
        }
        self.cwnd = self.cwnd.saturating_sub(size);
        self.bound();
        true
    }
}

impl Registered for Smartt {
    const ABOUT: &'static str = "ECN and delay, QuickAdapt on trims, FastIncrease, FairIncrease";
    type Params = SmarttParams;

    fn resolve(params: &mut SmarttParams, facts: &NetworkFacts) {
        params.resolve(facts);
    }
}

impl Controller for Smartt {
    fn build(params: &CcParams, path: &Path) -> Self {
        Self::new(&params.smartt, path)
    }

    fn window_max(params: &CcParams) -> f32 {
        params.smartt.window_max
    }
}

impl CongestionControl for Smartt {
    #[inline]
    fn window(&self) -> Window {
        // The first message wakes the flow, which then looks at its host's mean window.
        let wake_at = if self.started { None } else { Some(Instant::ZERO) };
        Window { cwnd: Bytes(u64::from(self.cwnd)), pacing: None, wake_at }
    }

    fn on_wake(&mut self, now: Instant, _path: &Path) {
        self.started = true;
        self.start(now);
    }

    fn on_ack(&mut self, ack: &AckSample, path: &Path) {
        //= smartt#alg4
        self.follow(path);
        if self.ends_round(ack.now) {
            self.end_round(ack);
        }
        let size = small(ack.acked);
        // DEVIATION(smartt#alg4): line 2 counts trimmed packets, too. Sec. III-E counts "the bytes
        // that have been received": these came through the bottleneck and are this flow's share of
        // it, and only to that share an incast converges in one step.
        self.acked = self.acked.saturating_add(size);
        self.split(ack.sharers);
        if self.to_ignore > 0 {
            self.to_ignore = self.to_ignore.saturating_sub(size);
            if self.to_ignore > 0 {
                return;
            }
        }
        let Some(size) = self.sample(size) else { return };
        let gain = u64::from(self.at.ewma_gain);
        self.avg_rtt = average(self.avg_rtt, ack.rtt.min(RTT_MAX), gain);
        self.watch_for_collapse(ack);
        if self.quick_adapt(ack.now, ack.in_flight) || self.fast_increase(size, ack) {
            return;
        }
        self.core_cases(size, ack);
    }

    fn on_nack(&mut self, loss: &LossSample, path: &Path) {
        self.follow(path);
        if self.ends_round(loss.now) {
            self.note_loss(loss);
        }
        if !self.count_loss(loss) {
            return;
        }
        //= smartt#alg4
        // Lines 15 to 21.
        self.trigger_qa = self.at.params.quick_adapt;
        if self.adapt_to_share(loss) {
            return;
        }
        if self.to_ignore == 0 {
            self.quick_adapt(loss.now, loss.in_flight);
        }
    }

    fn on_timeout(&mut self, loss: &LossSample, path: &Path) {
        self.follow(path);
        //= smartt#III-E
        // A timeout comes long after the congestion that caused it: it takes the lost bytes off the
        // window, and never triggers QuickAdapt.
        self.count_loss(loss);
    }
}

/// `avg + (sample - avg) * gain / 2^16`.
fn average(avg: Duration, sample: Duration, gain: u64) -> Duration {
    let step = |span: Duration| Duration::from_ps((span.as_ps() * gain) >> 16);
    if sample >= avg { avg + step(sample - avg) } else { avg - step(avg - sample) }
}

/// Windows and counters have 32 bits: a path with a BDP of more than 4 GB counts as one of 4 GB.
fn small(bytes: Bytes) -> u32 {
    u32::try_from(bytes.0).unwrap_or(u32::MAX)
}

fn times(span: Duration, factor: f64) -> Duration {
    Duration::from_ps(Bytes(span.as_ps()).scaled(factor).0)
}

#[expect(clippy::cast_precision_loss, reason = "53 bits are more than a controller measures")]
fn as_f64(bytes: Bytes) -> f64 {
    bytes.0 as f64
}
