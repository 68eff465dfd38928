//! DCQCN, the congestion control of RoCEv2: a rate that notifications cut and timers raise. Source:
//! \[dcqcn\] sec. 3 and 5, eq. 1 to 4; hyper increase as in \[qcn\].
//!
//! ```text
//!   notification, at most one in cnp_interval:
//!            target = rate, rate * (1 - alpha / 2), alpha * (1 - g) + g, counters start again
//!   alpha_timer without one:  alpha * (1 - g)
//!   every timer, and every byte_counter bytes:
//!            fewer than F of both   rate = (target + rate) / 2       fast recovery
//!            more than F of one     target + rate_ai, then the same   additive increase
//!            more than F of both    target + i * rate_hai, the same   hyper increase
//! ```
//!
//! The echo of a mark in an acknowledgement stands for the receiver's notification packet; this
//! file keeps the receiver's rule of one notification in `cnp_interval`. Bytes are counted when
//! they are acknowledged, because a controller gets no other report of them.
//!
//! Units: bits a second, picoseconds. The rate is the control. The window is a fixed bound on the
//! memory of a flow, meant to be too large to matter. It does not choose paths and reads no RTT.

use super::global_t::{self, GlobalT};
use super::{AckSample, CcParams, CongestionControl, Controller, LossSample, Path, Window};
use crate::params::params;
use crate::path::NetworkFacts;
use crate::registry::Registered;
use crate::time::{Duration, Instant, Rate};
use crate::units::Bytes;

params! {
    /// Settings of [`Dcqcn`]. Rates are shares of the line rate, so that they fit any.
    pub struct DcqcnParams {
        /// g: weight of a notification in alpha.
        gain: f32 = 0.003_906_25, in 0.0..=1.0;
        /// Notifications come at most this often.
        cnp_interval: Duration = Duration::from_us(50), in Duration::ZERO..=Duration::from_s(1);
        /// Time between two reductions of alpha while no notification comes.
        alpha_timer: Duration = PERIOD, in Duration::from_ns(1)..=Duration::from_s(1);
        /// The rate is raised this often.
        timer: Duration = PERIOD, in Duration::from_ns(1)..=Duration::from_s(1);
        /// The rate is raised after so many bytes, too.
        byte_counter: u32 = 10_000_000, in 1..=4294967295;
        /// F: raises that only return to the target.
        fast_recovery: u16 = 5, in 0..=1000;
        /// Additive increase of the target: the paper's 40 Mb/s of 40 Gb/s.
        rate_ai: f32 = 0.001, in 0.0..=1.0;
        /// Hyper increase of the target, times its step; see `RATE_HAI`.
        rate_hai: f32 = RATE_HAI, in 0.0..=1.0;
        /// Whether every notification sets the target to the rate; off: the first after a raise.
        clamp_target: bool = true;
        /// Smallest rate.
        rate_min: f32 = 0.001, in 0.000001..=1.0;
        /// The window in BDPs.
        window_max: f32 = 4.0, in 0.01..=64.0;
        /// The window of every flow is that of the network's longest base RTT, as the simulator's
        /// configuration has it; off: each flow has that of its own path.
        global_t: bool = false;
        /// The longest base RTT, for global_t; 0 is that of the network.
        longest_rtt: Duration = Duration::ZERO, in Duration::ZERO..=Duration::from_s(2),
            of_network "0ns";
    }
}

/// The default of both timers: K, of alpha, and T, of the rate.
const PERIOD: Duration = Duration::from_us(55);
/// Ten times the additive increase, as network cards have it; the paper gives no number.
const RATE_HAI: f32 = 0.01;

/// One flow's DCQCN state.
#[derive(Clone, Debug)]
pub struct Dcqcn {
    /// R_C, the rate in force, bit/s, `least..=line`.
    rate: f64,
    /// R_T, where fast recovery goes back to, bit/s, up to `line`.
    target: f64,
    /// Estimated extent of congestion, 0..=1.
    alpha: f64,
    /// When alpha last changed; `None` before the first notification, which finds it at 1.
    alpha_at: Option<Instant>,
    /// The earliest next notification.
    cnp_at: Instant,
    /// The timer's next raise; `None` at line rate.
    raise_at: Option<Instant>,
    /// T: raises by the timer since the notification; saturates.
    by_timer: u16,
    /// BC: raises by the byte counter since the notification; saturates.
    by_bytes: u16,
    /// Bytes towards the next raise, below the setting.
    bytes: u64,
    /// The line rate, bit/s.
    line: f64,
    /// The window, bytes, at least one packet.
    cwnd: Bytes,
    /// The base RTT from which `cwnd` was computed.
    base_rtt: Duration,
    params: DcqcnParams,
}

impl Dcqcn {
    /// The initial state on `path`: line rate.
    #[must_use]
    pub fn new(params: &DcqcnParams, path: &Path) -> Self {
        //= dcqcn#3.1
        // A flow starts at line rate.
        let line = Bytes(path.line_rate.as_bps()).as_f64();
        Self {
            rate: line,
            target: line,
            alpha: 1.0,
            alpha_at: None,
            cnp_at: Instant::ZERO,
            raise_at: None,
            by_timer: 0,
            by_bytes: 0,
            bytes: 0,
            line,
            cwnd: window(params, path),
            base_rtt: path.base_rtt,
            params: *params,
        }
    }

    fn follow(&mut self, path: &Path) {
        if path.base_rtt != self.base_rtt {
            self.base_rtt = path.base_rtt;
            self.cwnd = window(&self.params, path);
        }
    }

    fn notify(&mut self, now: Instant) {
        if now < self.cnp_at {
            return;
        }
        self.cnp_at = now + self.params.cnp_interval;
        self.age(now);
        //= dcqcn#eq1
        // Network cards may keep the target until a raise has come: cuts in a row are one then.
        if self.params.clamp_target || self.by_timer > 0 || self.by_bytes > 0 {
            self.target = self.rate;
        }
        let least = self.line * f64::from(self.params.rate_min);
        self.rate = (self.rate * (1.0 - self.alpha / 2.0)).max(least);
        let gain = f64::from(self.params.gain);
        self.alpha = (1.0 - gain) * self.alpha + gain;
        self.alpha_at = Some(now);
        (self.by_timer, self.by_bytes, self.bytes) = (0, 0, 0);
        self.raise_at = Some(now + self.params.timer);
    }

    /// Applies all periods of the alpha timer up to `now` at once, since alpha is read only at
    /// notifications.
    fn age(&mut self, now: Instant) {
        //= dcqcn#eq2
        let span = self.alpha_at.map_or(Duration::ZERO, |at| now.since(at));
        let periods = span.as_ps() / self.params.alpha_timer.as_ps().max(1);
        let kept = 1.0 - f64::from(self.params.gain);
        self.alpha *= libm::pow(kept, Bytes(periods).as_f64());
    }

    fn raise(&mut self) {
        let more = self.by_timer.max(self.by_bytes);
        let fewer = self.by_timer.min(self.by_bytes);
        let first = self.params.fast_recovery;
        //= dcqcn#3.1
        if more >= first {
            let step = if fewer > first {
                f64::from(fewer - first) * f64::from(self.params.rate_hai)
            } else {
                //= dcqcn#eq4
                f64::from(self.params.rate_ai)
            };
            self.target = (self.target + self.line * step).min(self.line);
        }
        //= dcqcn#eq3
        self.rate = f64::midpoint(self.target, self.rate);
        // Steps of half the way never reach the line rate: one additive increase below it the
        // limiter is released.
        let slack = self.line * f64::from(self.params.rate_ai).max(SLACK_MIN);
        if self.line - self.rate <= slack {
            (self.rate, self.target) = (self.line, self.line);
            self.raise_at = None;
        }
    }

    const fn is_limited(&self) -> bool {
        self.raise_at.is_some()
    }
}

/// Share of the line rate below which the limiter is released when nothing is added to the target.
const SLACK_MIN: f64 = 1e-4;

impl Registered for Dcqcn {
    const ABOUT: &'static str =
        "a rate cut by notifications and raised by timers, as RoCEv2 has it";
    type Params = DcqcnParams;

    fn resolve(params: &mut DcqcnParams, facts: &NetworkFacts) {
        params.longest_rtt = global_t::longest(params.longest_rtt, facts);
    }
}

impl Controller for Dcqcn {
    fn build(params: &CcParams, path: &Path) -> Self {
        Self::new(&params.dcqcn, path)
    }

    fn window_max(params: &CcParams) -> f32 {
        params.dcqcn.window_max
    }
}

impl CongestionControl for Dcqcn {
    #[inline]
    fn window(&self) -> Window {
        let rate = Bytes(1).scaled(self.rate).0.max(1);
        let pacing = self.is_limited().then_some(Rate::from_bps(rate));
        Window { cwnd: self.cwnd, pacing, wake_at: self.raise_at }
    }

    fn on_ack(&mut self, ack: &AckSample, path: &Path) {
        self.follow(path);
        if ack.ecn {
            self.notify(ack.now);
        }
        if !self.is_limited() {
            return;
        }
        self.bytes = self.bytes.saturating_add(ack.acked.0);
        let every = u64::from(self.params.byte_counter);
        if self.bytes >= every {
            // An acknowledgement that covers several periods is one raise, as it is one report.
            self.bytes %= every;
            self.by_bytes = self.by_bytes.saturating_add(1);
            self.raise();
        }
    }

    fn on_nack(&mut self, loss: &LossSample, path: &Path) {
        self.follow(path);
        // DEVIATION(dcqcn#3): the paper's network loses nothing, and marks alone are reported to
        // its controller. A full queue says more than a mark, and ignoring it would let a network
        // without flow control collapse: it counts as a notification, under the same rule of one in
        // `cnp_interval`. So does silence.
        self.notify(loss.now);
    }

    fn on_timeout(&mut self, loss: &LossSample, path: &Path) {
        self.on_nack(loss, path);
    }

    fn on_wake(&mut self, now: Instant, _path: &Path) {
        if self.raise_at.is_some_and(|at| at <= now) {
            self.raise_at = Some(now + self.params.timer);
            self.by_timer = self.by_timer.saturating_add(1);
            self.raise();
        }
    }
}

fn window(params: &DcqcnParams, path: &Path) -> Bytes {
    let path = GlobalT::new(params.global_t, params.longest_rtt).on(path);
    path.bdp().scaled(f64::from(params.window_max)).max(path.mtu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Inference;

    const MTU: Bytes = Bytes(4000);
    const PATH: Path =
        Path { base_rtt: Duration::from_us(12), line_rate: Rate::from_gbps(100), mtu: MTU };

    fn us(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    fn new(settings: &[(&str, &str)]) -> Dcqcn {
        let mut params = DcqcnParams::default();
        settings.iter().for_each(|(key, value)| params.set(key, value).unwrap());
        Dcqcn::new(&params, &PATH)
    }

    fn ack(cc: &mut Dcqcn, at_us: u64, acked: Bytes, ecn: bool) {
        let (rtt, held) = (PATH.base_rtt, Duration::ZERO);
        cc.on_ack(
            &AckSample { now: us(at_us), rtt, held, acked, in_flight: MTU, ecn, sharers: 0 },
            &PATH,
        );
    }

    /// Lets every timer fire up to `until`; returns how often one did.
    fn wake(cc: &mut Dcqcn, until: Instant) -> u32 {
        let mut woken = 0;
        while let Some(at) = cc.window().wake_at.filter(|at| *at <= until) {
            cc.on_wake(at, &PATH);
            woken += 1;
        }
        woken
    }

    fn gbps(cc: &Dcqcn) -> f64 {
        cc.rate / 1e9
    }

    #[test]
    fn a_target_that_is_not_clamped_survives_cuts_in_a_row_and_a_raise_ends_that() {
        let mut cc = new(&[("clamp_target", "off")]);
        ack(&mut cc, 100, MTU, true);
        ack(&mut cc, 200, MTU, true);
        assert!(gbps(&cc) < 40.0 && cc.target == cc.line);
        let raise = cc.raise_at.unwrap();
        wake(&mut cc, raise);
        let raised = cc.rate;
        assert!(raised > 0.6 * cc.line, "half the way to the line");
        cc.notify(raise + Duration::from_us(100));
        assert_eq!(cc.target, raised);
    }

    #[test]
    fn marks_cut_the_rate_once_per_interval_and_the_first_by_half() {
        let mut cc = new(&[]);
        assert_eq!(cc.window().pacing, None);
        for at in 100..150 {
            ack(&mut cc, at, MTU, true);
        }
        assert_eq!(cc.window().pacing, Some(Rate::from_gbps(50)));
        ack(&mut cc, 150, MTU, true);
        // alpha is still 1: (1 - g) x 1 + g.
        assert_eq!(gbps(&cc), 25.0);
    }

    #[test]
    fn a_refusal_or_silence_is_a_notification_like_any() {
        let loss = |at_us, silent: bool| LossSample {
            now: us(at_us),
            sent_at: us(at_us - 12),
            bytes: MTU,
            in_flight: MTU,
            sharers: 0,
            by: silent.then_some(Inference::Silence),
        };
        let mut cc = new(&[]);
        cc.on_nack(&loss(100, false), &PATH);
        assert_eq!(gbps(&cc), 50.0);
        // One notification in 50 us, from marks, refusals and timeouts together.
        cc.on_timeout(&loss(149, true), &PATH);
        ack(&mut cc, 149, MTU, true);
        assert_eq!(gbps(&cc), 50.0);
        cc.on_timeout(&loss(150, true), &PATH);
        assert_eq!(gbps(&cc), 25.0);
    }

    #[test]
    fn fast_recovery_halves_the_way_back_and_then_the_target_rises() {
        let mut cc = new(&[]);
        ack(&mut cc, 100, MTU, true);
        ack(&mut cc, 150, MTU, true);
        for missing in [12.5, 6.25, 3.125, 1.5625] {
            let next = cc.window().wake_at.unwrap();
            assert_eq!(wake(&mut cc, next), 1);
            assert_eq!(50.0 - gbps(&cc), missing);
        }
        let next = cc.window().wake_at.unwrap();
        wake(&mut cc, next);
        assert!((cc.target / 1e9 - 50.1).abs() < 1e-6, "{}", cc.target);
        // The byte counter alone has not reached F: additive, however long the timer runs.
        let next = cc.window().wake_at.unwrap();
        wake(&mut cc, next);
        assert!((cc.target / 1e9 - 50.2).abs() < 1e-6, "{}", cc.target);
    }

    #[test]
    fn hyper_increase_needs_both_counters_and_grows_with_its_steps() {
        let mut cc = new(&[("byte_counter", "4000"), ("fast_recovery", "1")]);
        ack(&mut cc, 100, Bytes::ZERO, true);
        ack(&mut cc, 150, Bytes::ZERO, true);
        for _ in 0..3 {
            let next = cc.window().wake_at.unwrap();
            wake(&mut cc, next);
            ack(&mut cc, 151, MTU, false);
        }
        assert_eq!((cc.by_timer, cc.by_bytes), (3, 3));
        // By the timer, bytes, timer (1 each over, additive), bytes (i = 1), timer (1), bytes (2).
        let steps = 0.1 * 3.0 + 1.0 + 1.0 + 2.0;
        assert!((cc.target / 1e9 - 50.0 - steps).abs() < 1e-4, "{}", cc.target / 1e9);
    }

    #[test]
    fn without_notifications_alpha_decays_and_the_limiter_is_released_in_the_end() {
        let mut cc = new(&[("rate_ai", "0.01")]);
        ack(&mut cc, 100, MTU, true);
        // 50, 75, 87.5 ... to within an additive increase of the line rate.
        assert_eq!(wake(&mut cc, us(1_000_000)), 6);
        assert_eq!((cc.window().pacing, cc.window().wake_at), (None, None));
        // 55 us x 256 later alpha is 1 / e.
        ack(&mut cc, 100 + 55 * 256, MTU, true);
        assert!((gbps(&cc) - 100.0 * (1.0 - 0.3679 / 2.0)).abs() < 0.1, "{}", gbps(&cc));
    }

    #[test]
    fn the_rate_never_falls_below_its_least_and_the_window_does_not_move() {
        let mut cc = new(&[]);
        let cwnd = cc.window().cwnd;
        for i in 1..100 {
            ack(&mut cc, 60 * i, MTU, true);
        }
        assert!((gbps(&cc) - 0.1).abs() < 1e-6, "{}", gbps(&cc));
        assert_eq!((cc.window().cwnd, cwnd), (cwnd, Bytes(600_000)));
    }
}
