//! BBR: a rate and a window from the bottleneck's bandwidth and the path's round-trip time, both
//! measured. Marks have no effect, and losses have little. Source: \[bbr\], version 1.
//!
//! ```text
//!   STARTUP -- bandwidth grew by < 1/4 in three rounds --> DRAIN -- in flight <= BDP --> PROBE_BW
//!                                                                                          ^  |
//!       only when RTprop is measured: 10 s without a new minimum --> PROBE_RTT, 200 ms ----+ <+
//! ```
//!
//! Units: packets, picoseconds, bits a second. The bandwidth is measured once a round: the bytes
//! that were acknowledged from the sending of a segment to its acknowledgement, divided by that
//! time. BBR draws no random numbers: PROBE_BW starts where \[uno\]'s simulator starts it.

use super::bounds::Bounds;
use super::{
    AckSample, CcParams, CongestionControl, Controller, Inference, LossSample, Path, Window,
};
use crate::params::{params, words};
use crate::registry::Registered;
use crate::time::{Duration, Instant, Rate};
use crate::units::Bytes;

words! {
    /// The source of RTprop.
    pub enum RtProp: "base or measured" {
        /// The path's base RTT, which this stack has, so that it need not probe.
        Base = "base",
        /// The smallest RTT of the last ten seconds, with PROBE_RTT.
        Measured = "measured",
    }
}

words! {
    /// The window after a timeout.
    pub enum OnTimeout: "one or left" {
        /// One packet, from which it doubles each RTT, as TCP's does.
        One = "one",
        /// The packets in flight, as after any other loss.
        Left = "left",
    }
}

params! {
    /// Settings of [`Bbr`].
    pub struct BbrParams {
        /// The source of RTprop; the comparison of \[uno\] has the base RTT.
        rtprop: RtProp = RtProp::Base;
        /// Gain of rate and window in STARTUP; 2 / ln 2 is the least that doubles the rate a round.
        startup_gain: f32 = STARTUP_GAIN, in 1.0..=16.0;
        /// Window in PROBE_BW, in BDPs as measured.
        cwnd_gain: f32 = 2.0, in 1.0..=16.0;
        /// The window after a timeout; the comparison of \[uno\] has one packet.
        on_timeout: OnTimeout = OnTimeout::One;
        /// Initial window in BDPs of the line rate, as in the comparison of \[uno\].
        initial: f32 = 1.0, in 0.0..=64.0;
        /// Largest window in BDPs of the line rate, as in the comparison of \[uno\].
        window_max: f32 = 1.0, in 0.01..=64.0;
    }
}

//= bbr#4.3.2
const STARTUP_GAIN: f32 = 2.885;
//= bbr#4.3.2.2: out of it when three rounds added less than a quarter each.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u8 = 3;
//= bbr#4.3.4: a quarter more, then a quarter less, then six phases of neither.
const GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
//= bbr#4.1.1.3: the maximum of ten rounds.
const BANDWIDTH_ROUNDS: usize = 10;
//= bbr#4.1.2.3
const RTPROP_SPAN: Duration = Duration::from_s(10);
//= bbr#4.3.5
const PROBE_RTT_SPAN: Duration = Duration::from_ms(200);
/// Window in PROBE_RTT, and the least that a measurement makes of it, packets.
const WINDOW_MIN: f64 = 4.0;
/// A round that ends with less in flight than this share of the measured BDP was short of data, not
/// of bandwidth. The gain of draining is 3/4, so a flow that always has data has more in flight.
const FILLED: f64 = 0.5;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Startup,
    Drain,
    /// PROBE_BW: the phase of [`GAINS`], and the instant at which it began.
    ProbeBw(u8, Instant),
    /// PROBE_RTT: when it ends, and whether the pipe was full before.
    ProbeRtt(Instant, bool),
}

/// A round: the time from the sending of a segment to its acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Round {
    from: Instant,
    /// Packets acknowledged since the round began.
    delivered: f64,
}

/// One flow's BBR state.
#[derive(Clone, Debug)]
pub struct Bbr {
    /// Packets, within `bounds`.
    cwnd: f64,
    bounds: Bounds,
    state: State,
    /// Packets a second of the last rounds, the latest at `latest`; 0 where there was none.
    bandwidths: [f64; BANDWIDTH_ROUNDS],
    latest: u8,
    /// The bandwidth that STARTUP compares growth with, packets a second.
    full_bandwidth: f64,
    /// Rounds in a row in which the bandwidth did not grow by [`FULL_GROWTH`].
    flat_rounds: u8,
    /// `None` before the first acknowledgement.
    round: Option<Round>,
    /// Smallest RTT lately, and when it was measured.
    rtprop: Duration,
    rtprop_at: Instant,
    /// Losses of segments sent before this instant belong to a loss that was reacted to.
    recovered_at: Instant,
    line_rate: Rate,
    params: BbrParams,
}

impl Bbr {
    /// The initial state on `path`: STARTUP.
    #[must_use]
    pub fn new(params: &BbrParams, path: &Path) -> Self {
        let bounds = Bounds::new(path, params.window_max);
        Self {
            cwnd: bounds.bdps(params.initial),
            bounds,
            state: State::Startup,
            bandwidths: [0.0; BANDWIDTH_ROUNDS],
            latest: 0,
            full_bandwidth: 0.0,
            flat_rounds: 0,
            round: None,
            rtprop: path.base_rtt,
            rtprop_at: Instant::ZERO,
            recovered_at: Instant::ZERO,
            line_rate: path.line_rate,
            params: *params,
        }
    }

    fn follow(&mut self, path: &Path) {
        if self.bounds.follow(path) {
            self.rtprop = path.base_rtt;
            self.cwnd = self.bounds.clamp(self.cwnd);
        }
    }

    /// BtlBw, packets a second.
    fn bandwidth(&self) -> f64 {
        self.bandwidths.iter().fold(0.0, |most, sample| sample.max(most))
    }

    /// The measured BDP, packets.
    fn bdp(&self) -> f64 {
        self.bandwidth() * seconds(self.rtprop)
    }

    /// Gains of the rate and of the window.
    fn gains(&self) -> (f64, f64) {
        let startup = f64::from(self.params.startup_gain);
        match self.state {
            State::Startup => (startup, startup),
            //= bbr#4.3.3
            State::Drain => (1.0 / startup, startup),
            State::ProbeBw(phase, _) => {
                (GAINS[usize::from(phase) % GAINS.len()], f64::from(self.params.cwnd_gain))
            }
            State::ProbeRtt(..) => (1.0, 1.0),
        }
    }

    /// Ends a round that has delivered at `bandwidth`.
    // DEVIATION(bbr#4.1.1.3): one sample a round instead of one a segment needs no state in
    // segments, and averages the rate that a burst of acknowledgements would overstate.
    fn end_round(&mut self, bandwidth: f64, in_flight: f64) {
        //= bbr#4.1.1.5
        if in_flight < self.bdp() * FILLED && bandwidth < self.bandwidth() {
            return;
        }
        self.latest = (self.latest + 1) % BANDWIDTHS;
        self.bandwidths[usize::from(self.latest)] = bandwidth;
        if self.state != State::Startup {
            return;
        }
        if bandwidth >= self.full_bandwidth * FULL_GROWTH {
            self.full_bandwidth = bandwidth;
            self.flat_rounds = 0;
            return;
        }
        self.flat_rounds += 1;
        if self.flat_rounds >= FULL_ROUNDS {
            self.state = State::Drain;
        }
    }

    /// Updates RTprop; true when it is so old that PROBE_RTT has to begin.
    fn update_rtprop(&mut self, ack: &AckSample, path: &Path) -> bool {
        if self.params.rtprop == RtProp::Base {
            self.rtprop = path.base_rtt;
            return false;
        }
        let expired = ack.now.since(self.rtprop_at) > RTPROP_SPAN;
        let first = self.round.is_none();
        if ack.rtt > Duration::ZERO && (ack.rtt <= self.rtprop || expired || first) {
            self.rtprop = ack.rtt;
            self.rtprop_at = ack.now;
        }
        expired && !first
    }

    fn advance(&mut self, now: Instant, in_flight: f64, expired: bool) {
        if expired && !matches!(self.state, State::ProbeRtt(..)) {
            let filled = self.state != State::Startup;
            self.state = State::ProbeRtt(now + PROBE_RTT_SPAN.max(self.rtprop), filled);
        }
        match self.state {
            State::Startup => {}
            State::Drain if in_flight <= self.bdp() => self.state = State::ProbeBw(0, now),
            State::Drain => {}
            State::ProbeBw(phase, since) => {
                let passed = now.since(since) > self.rtprop;
                // The queue that probing has built may be gone sooner.
                let drained = phase == 1 && in_flight <= self.bdp();
                if passed || drained {
                    self.state = State::ProbeBw((phase + 1) % 8, now);
                }
            }
            State::ProbeRtt(until, filled) => {
                if now >= until {
                    self.rtprop_at = now;
                    self.state = if filled { State::ProbeBw(0, now) } else { State::Startup };
                }
            }
        }
    }

    fn set_window(&mut self, acked: f64) {
        if matches!(self.state, State::ProbeRtt(..)) {
            self.cwnd = self.bounds.clamp(self.cwnd.min(WINDOW_MIN));
            return;
        }
        let target = (self.bdp() * self.gains().1).max(WINDOW_MIN);
        //= bbr#4.2.3.6
        // In STARTUP it only grows: the measured bandwidth is still that of a smaller window.
        let grown = self.cwnd + acked;
        let cwnd = if self.state == State::Startup {
            if self.cwnd < target { grown } else { self.cwnd }
        } else {
            grown.min(target)
        };
        self.cwnd = self.bounds.clamp(cwnd);
    }

    /// Limits the window to the packets in flight after a loss, and to one packet after a timeout,
    /// once for all packets that were in flight together; acknowledgements let it grow again.
    //= bbr#4.2.3.4
    fn on_lost(&mut self, loss: &LossSample) {
        if loss.sent_at >= self.recovered_at {
            self.recovered_at = loss.now;
            let restarts =
                loss.by == Some(Inference::Silence) && self.params.on_timeout == OnTimeout::One;
            let left = if restarts { 0.0 } else { self.bounds.packets(loss.in_flight) };
            self.cwnd = self.bounds.clamp(self.cwnd.min(left + 1.0));
        }
    }
}

/// [`BANDWIDTH_ROUNDS`] in the type of the index.
const BANDWIDTHS: u8 = 10;
const _: () = assert!(BANDWIDTHS as usize == BANDWIDTH_ROUNDS);

impl Registered for Bbr {
    const ABOUT: &'static str = "BBR, version 1: a rate from measured bandwidth, marks are ignored";
    type Params = BbrParams;
}

impl Controller for Bbr {
    fn build(params: &CcParams, path: &Path) -> Self {
        Self::new(&params.bbr, path)
    }

    fn window_max(params: &CcParams) -> f32 {
        params.bbr.window_max
    }
}

impl CongestionControl for Bbr {
    fn window(&self) -> Window {
        let bandwidth = self.bandwidth();
        // Before anything was measured: the window in a base RTT.
        let packets_a_second =
            if bandwidth > 0.0 { bandwidth } else { self.cwnd / seconds(self.bounds.base_rtt) };
        let bits = self.bounds.bytes(1.0).as_f64() * 8.0;
        let bps = Bytes(1).scaled(packets_a_second * self.gains().0 * bits).0;
        let pacing = Rate::from_bps(bps.clamp(1, self.line_rate.as_bps().max(1)));
        Window { cwnd: self.bounds.bytes(self.cwnd), pacing: Some(pacing), wake_at: None }
    }

    fn on_ack(&mut self, ack: &AckSample, path: &Path) {
        self.follow(path);
        let sent_at = ack.sent_at();
        let acked = self.bounds.packets(ack.acked);
        let in_flight = self.bounds.packets(ack.in_flight);
        let expired = self.update_rtprop(ack, path);
        let fresh = Round { from: ack.now, delivered: 0.0 };
        let round = self.round.get_or_insert(fresh);
        let starts = round.from == ack.now;
        round.delivered += if starts { 0.0 } else { acked };
        if sent_at >= round.from && !starts {
            let bandwidth = round.delivered / seconds(ack.now.since(round.from));
            *round = fresh;
            self.end_round(bandwidth, in_flight);
        }
        self.advance(ack.now, in_flight, expired);
        self.set_window(acked);
    }

    fn on_nack(&mut self, loss: &LossSample, path: &Path) {
        self.follow(path);
        self.on_lost(loss);
    }

    fn on_timeout(&mut self, loss: &LossSample, path: &Path) {
        self.follow(path);
        self.on_lost(loss);
    }
}

/// Seconds, at least one picosecond, to divide by.
fn seconds(span: Duration) -> f64 {
    Bytes(span.as_ps().max(1)).as_f64() * 1e-12
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: Bytes = Bytes(4000);
    /// 500 packets of BDP.
    const PATH: Path =
        Path { base_rtt: Duration::from_us(160), line_rate: Rate::from_gbps(100), mtu: MTU };

    /// One flow that always has data, through a queue that serves `share` of the line rate: rate
    /// and window limit the packets that leave, the queue limits those that arrive.
    struct Pipe {
        cc: Bbr,
        now: Instant,
        /// Instants at which packets left the sender and will be acknowledged.
        in_flight: alloc::collections::VecDeque<(Instant, Instant)>,
        next_send: Instant,
        queue_free: Instant,
    }

    impl Pipe {
        fn new(settings: &[(&str, &str)]) -> Self {
            let mut params = BbrParams::default();
            settings.iter().for_each(|(key, value)| params.set(key, value).unwrap());
            Self {
                cc: Bbr::new(&params, &PATH),
                now: Instant::ZERO,
                in_flight: alloc::collections::VecDeque::new(),
                next_send: Instant::ZERO,
                queue_free: Instant::ZERO,
            }
        }

        /// A packet of an RTT ago is lost, 100 are in flight.
        fn loss(&self, silent: bool) -> LossSample {
            LossSample {
                now: self.now,
                sent_at: Instant::from_ps(self.now.as_ps() - RTT.as_ps()),
                bytes: MTU,
                in_flight: Bytes(MTU.0 * 100),
                sharers: 0,
                by: silent.then_some(Inference::Silence),
            }
        }

        /// Runs for `span`; at most `limit` packets are in flight, for want of data.
        fn run(&mut self, span: Duration, gbps: u64, limit: usize) {
            let end = self.now + span;
            let service = Rate::from_gbps(gbps).time_for(MTU);
            loop {
                let window = self.cc.window();
                let open = (self.in_flight.len() as u64 + 1) * MTU.0 <= window.cwnd.0;
                let may_send = open && self.in_flight.len() < limit;
                let ack_at = self.in_flight.front().map_or(Instant::FAR_FUTURE, |it| it.1);
                let send_at =
                    if may_send { self.next_send.max(self.now) } else { Instant::FAR_FUTURE };
                self.now = send_at.min(ack_at);
                if self.now >= end {
                    self.now = end;
                    return;
                }
                if send_at <= ack_at {
                    self.queue_free = self.queue_free.max(self.now) + service;
                    self.in_flight.push_back((self.now, self.queue_free + PATH.base_rtt));
                    self.next_send = self.now + window.pacing.unwrap().time_for(MTU);
                } else {
                    let (sent_at, _) = self.in_flight.pop_front().unwrap();
                    let ack = AckSample {
                        now: self.now,
                        rtt: self.now.since(sent_at),
                        held: Duration::ZERO,
                        acked: MTU,
                        in_flight: Bytes(self.in_flight.len() as u64 * MTU.0),
                        ecn: false,
                        sharers: 0,
                    };
                    self.cc.on_ack(&ack, &PATH);
                }
            }
        }

        fn gbps(&self) -> f64 {
            self.cc.bandwidth() * MTU.as_f64() * 8.0 / 1e9
        }
    }

    const RTT: Duration = PATH.base_rtt;

    #[test]
    fn it_finds_the_bandwidth_of_the_bottleneck_and_settles_to_probe() {
        for gbps in [100, 40, 7] {
            // At 7 Gb/s STARTUP leaves a queue of many RTTs.
            let mut pipe = Pipe::new(&[]);
            pipe.run(RTT * 200, gbps, usize::MAX);
            let found = pipe.gbps();
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let expected = gbps as f64;
            assert!((found / expected - 1.0).abs() < 0.03, "{found} of {gbps}");
            assert!(matches!(pipe.cc.state, State::ProbeBw(..)), "{:?}", pipe.cc.state);
        }
    }

    #[test]
    fn it_starts_from_a_small_window_and_fills_the_path() {
        let mut pipe = Pipe::new(&[("initial", "0.01"), ("window_max", "2")]);
        pipe.run(RTT * 4, 100, usize::MAX);
        assert_eq!(pipe.cc.state, State::Startup);
        pipe.run(RTT * 60, 100, usize::MAX);
        assert!(pipe.gbps() > 97.0, "{}", pipe.gbps());
    }

    #[test]
    fn probing_goes_round_eight_phases_and_leaves_no_standing_queue() {
        let mut pipe = Pipe::new(&[("window_max", "4")]);
        pipe.run(RTT * 60, 50, usize::MAX);
        let (mut seen, mut shortest) = ([false; 8], usize::MAX);
        for _ in 0..400 {
            pipe.run(RTT / 20, 50, usize::MAX);
            if let State::ProbeBw(phase, _) = pipe.cc.state {
                seen[usize::from(phase)] = true;
            }
            shortest = shortest.min(pipe.in_flight.len());
        }
        assert_eq!(seen, [true; 8]);
        // 250 packets are the BDP at 50 Gb/s: the queue is empty once in a cycle.
        assert!(shortest <= 255, "{shortest}");
    }

    #[test]
    fn less_bandwidth_is_accepted_after_ten_rounds_and_more_at_once() {
        let mut pipe = Pipe::new(&[]);
        pipe.run(RTT * 60, 80, usize::MAX);
        pipe.run(RTT * 30, 40, usize::MAX);
        assert!((pipe.gbps() - 40.0).abs() < 2.0, "{}", pipe.gbps());
        pipe.run(RTT * 60, 80, usize::MAX);
        assert!((pipe.gbps() - 80.0).abs() < 4.0, "{}", pipe.gbps());
    }

    #[test]
    fn a_flow_with_little_to_send_does_not_forget_the_bandwidth() {
        let mut pipe = Pipe::new(&[]);
        pipe.run(RTT * 60, 80, usize::MAX);
        pipe.run(RTT * 100, 80, 20);
        assert!(pipe.gbps() > 75.0, "{}", pipe.gbps());
    }

    #[test]
    fn a_measured_rtprop_is_probed_for_every_ten_seconds_with_four_packets() {
        let mut pipe = Pipe::new(&[("rtprop", "measured"), ("window_max", "4")]);
        pipe.run(RTT * 60, 2, usize::MAX);
        assert!(pipe.cc.rtprop >= RTT, "{:?}", pipe.cc.rtprop);
        pipe.run(Duration::from_s(10), 2, usize::MAX);
        let mut probed = false;
        for _ in 0..1000 {
            pipe.run(Duration::from_ms(1), 2, usize::MAX);
            if matches!(pipe.cc.state, State::ProbeRtt(..)) {
                probed = true;
                assert!(pipe.cc.cwnd <= WINDOW_MIN, "{}", pipe.cc.cwnd);
            }
        }
        assert!(probed && matches!(pipe.cc.state, State::ProbeBw(..)), "{:?}", pipe.cc.state);
    }

    #[test]
    fn losses_of_one_flight_cut_the_window_to_what_is_left_once_and_it_grows_back() {
        let mut pipe = Pipe::new(&[]);
        pipe.run(RTT * 60, 100, usize::MAX);
        let before = pipe.cc.cwnd;
        let loss = pipe.loss(false);
        pipe.cc.on_timeout(&loss, &PATH);
        assert!((pipe.cc.cwnd - 101.0).abs() < 0.01, "{}", pipe.cc.cwnd);
        pipe.cc.on_nack(&LossSample { in_flight: Bytes(MTU.0 * 50), ..loss }, &PATH);
        assert!((pipe.cc.cwnd - 101.0).abs() < 0.01, "{}", pipe.cc.cwnd);
        pipe.run(RTT * 5, 100, usize::MAX);
        assert!(pipe.cc.cwnd > before * 0.9, "{}", pipe.cc.cwnd);
    }

    #[test]
    fn a_timeout_leaves_one_packet_that_doubles_each_rtt() {
        for (on_timeout, left, later) in [("one", 1.0, 7.5..8.5), ("left", 101.0, 400.0..501.0)] {
            let mut pipe = Pipe::new(&[("on_timeout", on_timeout)]);
            pipe.run(RTT * 60, 100, usize::MAX);
            pipe.cc.on_timeout(&pipe.loss(true), &PATH);
            assert!((pipe.cc.cwnd - left).abs() < 0.01, "{on_timeout}: {}", pipe.cc.cwnd);
            pipe.in_flight.clear();
            pipe.run(RTT * 3 + RTT / 2, 100, usize::MAX);
            assert!(later.contains(&pipe.cc.cwnd), "{on_timeout}: {}", pipe.cc.cwnd);
        }
    }
}
