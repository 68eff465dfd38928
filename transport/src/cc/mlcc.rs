//! MLCC, the sender's part: the smaller of the rate that the links of its own site allow and the
//! rate that the receiver advises. Source: \[mlcc\] sec. 3.2.1, 3.3.2, eq. 10.
//!
//! ```text
//!   note of the own site's border switch   R_NS from its hops, its reference once an RTT_D
//!   advice of the receiver's half          Rbar
//!   rate = min(R_NS, Rbar); before the first advice min(R_NS, line / sharers, first window)
//! ```
//!
//! The rate is the control; the window is a bound above the bytes that the rate can have in flight,
//! with the queue at the far border. While the receiver is silent, timeouts halve the rate once a
//! round, and leave the window the same share as of the line rate. An answer of the receiver ends
//! this. Notes of the own border switch do not: they say nothing of what lies behind it. Flows
//! inside a site have another controller (`far.cc`). MLCC does not choose paths.
//!
//! In the first RTT_C a flow has no advice. If it sends at line rate all that time, it fills the
//! far queue with an RTT_C's worth of bytes. With `first` it sends only so many bytes at line rate
//! and goes on with a share of that rate. Notes say how many flows of the site send to the same
//! host: with `equal` the flow has no more than its share of a link like its own.
//!
//! Units: bits a second, picoseconds.

use super::{
    AckSample, CcParams, CongestionControl, Controller, Inference, LossSample, Path, Window,
};
use crate::params::{params, words};
use crate::path::NetworkFacts;
use crate::rc::{MlccHalf as Half, RcKind};
use crate::registry::Registered;
pub use crate::telemetry::Law;
use crate::telemetry::{LawConstants, Load, RateLaw, rate_of, to_rate};
use crate::time::{Duration, Instant};
use crate::units::Bytes;
use crate::wire::{ExtRefusal, Extensions, Note};

words! {
    /// Whether border switches take part.
    pub enum Signal: "auto, int, delay or off" {
        /// Border switches write telemetry; a network without border switches is refused. The
        /// receiver follows hops; where at most one comes and hosts do not poll devices, the larger
        /// load of that hop and of the delay inside its site.
        Auto = "auto",
        /// The receiver follows hops alone.
        Int = "int",
        /// The receiver follows the delay from the border switch alone.
        Delay = "delay",
        /// Border switches take no part: the flow obeys only the receiver's share.
        Off = "off",
    }
}

params! {
    /// Settings of [`Mlcc`]. Rates are shares of the line rate.
    pub struct MlccParams {
        /// Whether border switches take part, and what the receiver follows: hops (int), the delay
        /// inside its site, hops with the delay where at most one hop comes (auto), or, without
        /// border switches, its share alone (off).
        signal: Signal = Signal::Auto;
        /// Whether the loop of the own site acts.
        near: bool = true;
        /// RTT_D: from a sender to its border switch and back; taken over from the network.
        rtt_d: Duration = Duration::from_us(24), in Duration::from_ns(100)..=Duration::from_ms(10);
        /// What the rate inside the site follows.
        law: Law = Law::Auto;
        /// eta: the utilisation to aim at inside the site.
        target: f32 = 0.95, in 0.01..=1.0;
        /// gamma of PowerTCP where the law is its; taken over from the controller of flows inside.
        gain: f32 = 0.9, in 0.01..=1.0;
        /// Rounds of additive increase before a multiplicative one.
        stages: u16 = 5, in 0..=1000;
        /// Additive increase, 50 Mb/s of 25 Gb/s; taken over from the controller of flows inside.
        rate_ai: f32 = 0.002, in 0.0..=1.0;
        /// Smallest rate; 100 Mb/s of 25 Gb/s.
        rate_min: f32 = 0.004, in 0.000001..=1.0;
        /// Bytes at line rate before the first advice; auto: no bound.
        first: Option<Bytes> = Some(Bytes(4_000_000));
        /// The rate after the bytes of `first`, until the first advice.
        first_share: f32 = 0.5, in 0.000001..=1.0;
        /// Whether flows to one host share a link's rate before the first advice.
        equal: bool = true;
        /// The window in BDPs: an RTT_C and a half, with the delay at the far border.
        window_max: f32 = 1.75, in 0.01..=64.0;
    }
}

impl MlccParams {
    /// Whether no border switch takes part.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.signal == Signal::Off
    }
}

/// Ports of the own site: three tiers' at most, and the border switch's own.
const HOPS: usize = 4;

/// Feedback of a loop that is older than so many base RTTs does not bind any more.
const STALE: u64 = 4;

/// One flow's MLCC state.
#[derive(Clone, Debug)]
pub struct Mlcc {
    load: Load<HOPS>,
    /// The rate by the near network, R_NS.
    law: RateLaw,
    constants: LawConstants,
    /// When the border switch of the own site last wrote.
    near_at: Option<Instant>,
    /// The last advised rate Rbar, bit/s, and when it came.
    advised: Option<(f64, Instant)>,
    /// When the first window ends; `None` before the first news, and without such a window.
    first_until: Option<Instant>,
    /// The first window is over, and no advice has come.
    first_over: bool,
    /// Flows of the site that send to the same host, at least 1.
    sharers: u16,
    base_rtt: Duration,
    cwnd: Bytes,
    /// The share of the line rate that the receiver's silence leaves; 1 while it answers.
    silence: f32,
    /// When the silence last halved the rate, or ended. Timeouts of segments that left before are
    /// no news.
    silence_at: Instant,
    params: MlccParams,
}

impl Mlcc {
    /// The number of its notes: [`Note::protocol`].
    pub const PROTOCOL: u8 = 2;

    /// The initial state on `path`: line rate.
    #[must_use]
    pub fn new(params: &MlccParams, path: &Path) -> Self {
        let line = rate_of(path.line_rate).max(1.0);
        let constants = LawConstants {
            target: params.target,
            stages: params.stages,
            increase: line * f64::from(params.rate_ai),
            least: line * f64::from(params.rate_min),
            line,
        };
        Self {
            load: Load::new(),
            law: RateLaw::new(line).with_gain(params.gain),
            constants,
            near_at: None,
            advised: None,
            first_until: None,
            first_over: false,
            sharers: 1,
            base_rtt: path.base_rtt,
            cwnd: window(params, path),
            silence: 1.0,
            silence_at: Instant::ZERO,
            params: *params,
        }
    }

    fn follow(&mut self, path: &Path) {
        if path.base_rtt != self.base_rtt {
            self.base_rtt = path.base_rtt;
            self.cwnd = self.bound(path);
        }
    }

    /// The bound of the bytes in flight. Silence leaves a share of it, that of its rate in the
    /// line's.
    fn bound(&self, path: &Path) -> Bytes {
        window(&self.params, path).scaled(self.silence.into()).max(path.mtu)
    }

    /// The rate in force, bit/s.
    fn rate(&self) -> f64 {
        let line = self.constants.line;
        let first = if self.first_over { line * f64::from(self.params.first_share) } else { line };
        let first = first.min(line / f64::from(self.sharers));
        let advised = self.advised.map_or(first, |(rate, _)| rate);
        //= mlcc#eq10
        let near = if self.near_at.is_some() { self.law.rate() } else { line };
        near.min(advised).min(line * f64::from(self.silence)).clamp(self.constants.least, line)
    }

    /// The receiver has answered, which ends its silence.
    fn on_answer(&mut self, now: Instant, path: &Path) {
        self.on_feedback(now, path);
        if self.silence < 1.0 {
            (self.silence, self.silence_at) = (1.0, now);
            self.cwnd = self.bound(path);
        }
    }

    /// The receiver or a border switch has answered: leaves a loop whose other end has fallen
    /// silent.
    fn on_feedback(&mut self, now: Instant, path: &Path) {
        self.follow(path);
        let is_stale = |at: Instant| now.since(at) > self.base_rtt * STALE;
        if self.advised.is_some_and(|(_, at)| is_stale(at)) {
            self.advised = None;
        }
        if self.near_at.is_some_and(is_stale) {
            self.near_at = None;
            self.law = self.law.anew(self.constants.line);
        }
    }
}

/// The note of a border switch about a segment that left at `sent_at`, by the sender's clock, one
/// of `sharers` flows of the site to the same host.
///
/// # Panics
/// Never: six octets fit.
#[must_use]
pub fn note(sent_at: u32, sharers: u16) -> Note {
    let [a, b, c, d] = sent_at.to_be_bytes();
    let [e, f] = sharers.to_be_bytes();
    Note::new(Mlcc::PROTOCOL, &[a, b, c, d, e, f]).expect("six octets fit")
}

/// What a note of a border switch says: when the segment that caused it left, and the sharers.
fn said(note: &Note) -> Option<(u32, u16)> {
    let [a, b, c, d, e, f]: [u8; 6] = note.said().try_into().ok()?;
    let said = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]));
    (note.protocol == Mlcc::PROTOCOL && said.1 > 0).then_some(said)
}

impl Registered for Mlcc {
    const ABOUT: &'static str = "MLCC: loops inside both sites and one across, by telemetry";
    type Params = MlccParams;

    fn resolve(params: &mut MlccParams, facts: &NetworkFacts) {
        params.rtt_d = facts.site_rtt.unwrap_or(params.rtt_d);
    }
}

impl Controller for Mlcc {
    fn build(params: &CcParams, path: &Path) -> Self {
        Self::new(&params.mlcc, path)
    }

    fn window_max(params: &CcParams) -> f32 {
        params.mlcc.window_max
    }

    fn half(_params: &CcParams) -> Option<RcKind> {
        Some(RcKind::Mlcc)
    }

    fn reads_int(params: &CcParams) -> bool {
        !params.mlcc.is_alone()
    }

    fn follows_borders() -> bool {
        true
    }
}

impl CongestionControl for Mlcc {
    #[inline]
    fn window(&self) -> Window {
        let waits = !self.first_over && self.advised.is_none();
        let wake_at = self.first_until.filter(|_| waits);
        Window { cwnd: self.cwnd, pacing: Some(to_rate(self.rate())), wake_at }
    }

    fn on_ack(&mut self, ack: &AckSample, path: &Path) {
        self.on_answer(ack.now, path);
    }

    fn on_ack_with(
        &mut self,
        ack: &AckSample,
        extensions: Extensions<'_>,
        path: &Path,
    ) -> Option<ExtRefusal> {
        self.on_ack(ack, path);
        let advice = extensions.advice().filter(|advice| advice.half.get() == Half::NUMBER)?;
        // The first advice is that of a receiver which has seen no queue yet: it is still a rate.
        let Some([_, rate]) = Half::rates(advice.values) else { return Some(ExtRefusal::Advice) };
        // The rate may be beyond the line, since the receiver's link may be faster.
        self.advised = Some((rate_of(rate), ack.now));
        None
    }

    fn on_nack(&mut self, loss: &LossSample, path: &Path) {
        self.on_answer(loss.now, path);
    }

    fn on_timeout(&mut self, loss: &LossSample, path: &Path) {
        self.follow(path);
        // DEVIATION(mlcc#3.3.2): the paper's rate depends on feedback alone. Where nothing comes
        // back the far border may be full, or gone: half the rate, once a round. The whole window
        // would be sent again at each timeout, however slowly.
        if loss.by == Some(Inference::Silence) && loss.sent_at >= self.silence_at {
            #[expect(clippy::cast_possible_truncation, reason = "a share")]
            let share = (self.rate() / 2.0 / self.constants.line) as f32;
            self.silence = share.max(self.params.rate_min);
            self.silence_at = loss.now;
            self.cwnd = self.bound(path);
        }
    }

    fn on_wake(&mut self, now: Instant, _path: &Path) {
        self.first_over |= self.first_until.is_some_and(|until| until <= now);
    }

    fn on_note(
        &mut self,
        note: &Note,
        extensions: Extensions<'_>,
        now: Instant,
        path: &Path,
    ) -> Result<(), ExtRefusal> {
        self.on_feedback(now, path);
        let (sent_at, sharers) = said(note).ok_or(ExtRefusal::Note)?;
        let int = extensions.int().filter(|int| !int.is_cut()).ok_or(ExtRefusal::Note)?;
        self.sharers = if self.params.equal { sharers } else { 1 };
        if let Some(first) = self.params.first
            && self.first_until.is_none()
        {
            self.first_until = Some(now + path.line_rate.time_for(first));
        }
        if !self.params.near {
            return Ok(());
        }
        self.near_at = Some(now);
        let law = self.params.law;
        let load = |sample: &_, rtt| law.load(sample, rtt);
        if let Some(load) = self.load.measure(int.hops(), self.params.rtt_d, load)? {
            let ago = now.round_trip(sent_at);
            let sent_at = Instant::from_ps(now.as_ps().saturating_sub(ago.as_ps()));
            let ends_round = self.law.ends_round(sent_at, now);
            law.follow(&mut self.law, load, ends_round, &self.constants);
        }
        Ok(())
    }
}

fn window(params: &MlccParams, path: &Path) -> Bytes {
    path.bdp().scaled(f64::from(params.window_max)).max(path.mtu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Rate;
    use crate::wire::advice::Advice;
    use crate::wire::int::{Hop, Int};
    use crate::wire::{Ext, Extent};

    const PATH: Path = Path {
        base_rtt: Duration::from_us(6000),
        line_rate: Rate::from_gbps(25),
        mtu: Bytes(1090),
    };

    fn us(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    fn new() -> Mlcc {
        Mlcc::new(&MlccParams::default(), &PATH)
    }

    /// A note at `at` of a segment that left 24 us before, by a link of 25 Gb/s that has sent
    /// `sent` bytes and keeps `waiting`.
    fn note(cc: &mut Mlcc, at: u64, (sent, waiting): (u64, u64)) -> Result<(), ExtRefusal> {
        let mut int = Int::with_room(3);
        int.stamp(Hop::new(us(at), Bytes(sent), Bytes(waiting), PATH.line_rate, 1));
        let ext = Ext { int, ..Ext::VACANT };
        let note = super::note(us(at.saturating_sub(24)).to_wire(), 1);
        cc.on_note(&note, Extensions::new(Extent::NONE.with_int(&int), &ext), us(at), &PATH)
    }

    fn advice(cc: &mut Mlcc, at: u64, half: u8, values: [u32; 2]) -> Option<ExtRefusal> {
        let half = core::num::NonZeroU8::new(half).unwrap();
        let ext = Ext { advice: Advice { half, number: 1, values }, ..Ext::VACANT };
        let extensions = Extensions::new(Extent::NONE.with_advice(), &ext);
        let (acked, in_flight) = (PATH.mtu, PATH.mtu);
        let (rtt, held) = (PATH.base_rtt, Duration::ZERO);
        let ack = AckSample { now: us(at), rtt, held, acked, in_flight, ecn: false, sharers: 0 };
        cc.on_ack_with(&ack, extensions, &PATH)
    }

    fn mbps(cc: &Mlcc) -> u64 {
        cc.window().pacing.unwrap().as_bps() / 1_000_000
    }

    #[test]
    fn the_rate_is_the_smaller_of_both_loops() {
        let mut cc = new();
        assert_eq!(mbps(&cc), 25_000);
        advice(&mut cc, 6000, Half::NUMBER, [9_000_000, 20_000_000]);
        assert_eq!(mbps(&cc), 20_000, "R_credit is for the queue alone");
        // 75,000 bytes in 24 us fill the link, and as much stands before it.
        note(&mut cc, 6010, (0, 75_000)).unwrap();
        note(&mut cc, 6034, (75_000, 75_000)).unwrap();
        assert!((11_800..12_000).contains(&mbps(&cc)), "{}", mbps(&cc));
        advice(&mut cc, 6040, Half::NUMBER, [9_000_000, 5_000_000]);
        assert_eq!(mbps(&cc), 5000);
        advice(&mut cc, 6050, Half::NUMBER, [9_000_000, 0]);
        advice(&mut cc, 6050, Half::NUMBER + 1, [9_000_000, 9_000_000]);
        assert_eq!(mbps(&cc), 5000, "no rate, and another half's");
        advice(&mut cc, 6050, Half::NUMBER, [1, 1]);
        assert_eq!(mbps(&cc), 100, "the least rate");
        advice(&mut cc, 6050, Half::NUMBER, [1, u32::MAX]);
        assert!(mbps(&cc) <= 25_000, "never beyond the line");
    }

    #[test]
    fn the_first_window_ends_after_its_bytes_and_advice_ends_it_for_good() {
        let mut cc = new();
        assert_eq!(cc.window().wake_at, None);
        note(&mut cc, 24, (0, 0)).unwrap();
        let until = cc.window().wake_at.unwrap();
        assert_eq!(until, us(24 + 1280));
        cc.on_wake(until, &PATH);
        assert_eq!((mbps(&cc), cc.window().wake_at), (12_500, None));
        advice(&mut cc, 6000, Half::NUMBER, [20_000_000; 2]);
        assert_eq!(mbps(&cc), 20_000);
        let none = MlccParams { first: None, ..MlccParams::default() };
        let mut cc = Mlcc::new(&none, &PATH);
        note(&mut cc, 24, (0, 0)).unwrap();
        assert_eq!(cc.window().wake_at, None);
    }

    #[test]
    fn a_border_that_falls_silent_binds_no_more_after_four_round_trips() {
        let mut cc = new();
        advice(&mut cc, 6000, Half::NUMBER, [25_000_000; 2]);
        note(&mut cc, 6010, (0, 750_000)).unwrap();
        note(&mut cc, 6034, (75_000, 750_000)).unwrap();
        let bound = mbps(&cc);
        assert!(bound < 3000, "{bound}");
        advice(&mut cc, 6034 + 24_000, Half::NUMBER, [25_000_000; 2]);
        assert_eq!(mbps(&cc), bound);
        advice(&mut cc, 6035 + 24_000, Half::NUMBER, [25_000_000; 2]);
        assert_eq!(mbps(&cc), 25_000);
    }

    #[test]
    fn a_border_that_writes_again_after_silence_begins_anew() {
        let mut cc = new();
        advice(&mut cc, 6000, Half::NUMBER, [5_000_000; 2]);
        note(&mut cc, 6010, (0, 750_000)).unwrap();
        note(&mut cc, 6034, (75_000, 750_000)).unwrap();
        assert!(mbps(&cc) < 3000);
        note(&mut cc, 6035 + 24_000, (150_000, 0)).unwrap();
        assert!(mbps(&cc) > 12_000, "{}: by neither loop of before", mbps(&cc));
    }

    #[test]
    fn notes_of_other_protocols_and_without_hops_are_refused() {
        let mut cc = new();
        let other = Note::new(Mlcc::PROTOCOL + 1, &[1; 6]).unwrap();
        assert_eq!(cc.on_note(&other, Extensions::NONE, us(9), &PATH), Err(ExtRefusal::Note));
        let bare = super::note(0, 1);
        assert_eq!(cc.on_note(&bare, Extensions::NONE, us(9), &PATH), Err(ExtRefusal::Note));
        let longer = Note::new(Mlcc::PROTOCOL, &[1; 8]).unwrap();
        assert_eq!(cc.on_note(&longer, Extensions::NONE, us(9), &PATH), Err(ExtRefusal::Note));
        assert_eq!(note(&mut cc, 10, (0, 0)), Ok(()));
        assert_eq!(note(&mut cc, 10, (0, 0)), Err(ExtRefusal::Int), "time stands");
        assert_eq!(note(&mut cc, 9, (0, 0)), Err(ExtRefusal::Int), "time runs backwards");
    }

    fn silent(at: u64, sent: u64) -> LossSample {
        LossSample {
            now: us(at),
            sent_at: us(sent),
            bytes: PATH.mtu,
            in_flight: Bytes(0),
            sharers: 0,
            by: Some(Inference::Silence),
        }
    }

    fn answer(cc: &mut Mlcc, at: u64, path: &Path) {
        let (acked, in_flight, held) = (PATH.mtu, PATH.mtu, Duration::ZERO);
        let (now, rtt) = (us(at), path.base_rtt);
        cc.on_ack(&AckSample { now, rtt, held, acked, in_flight, ecn: false, sharers: 0 }, path);
    }

    #[test]
    fn silence_halves_rate_and_window_once_a_round_until_the_receiver_answers() {
        let mut cc = new();
        let whole = cc.window().cwnd;
        cc.on_timeout(&silent(20_000, 1000), &PATH);
        cc.on_timeout(&silent(20_001, 1001), &PATH);
        assert_eq!(mbps(&cc), 12_500);
        // Timeouts back off: each comes later than feedback counts as fresh.
        cc.on_timeout(&silent(60_000, 20_001), &PATH);
        cc.on_timeout(&silent(140_000, 60_001), &PATH);
        assert_eq!(mbps(&cc), 3125);
        assert_eq!(cc.window().cwnd, whole.scaled(0.125), "the window follows");
        // Longer paths, as after a detour, keep the share.
        let longer = Path { base_rtt: PATH.base_rtt * 2, ..PATH };
        cc.on_timeout(&silent(140_001, 60_002), &longer);
        assert_eq!(cc.window().cwnd, whole.scaled(0.25));
        answer(&mut cc, 170_000, &PATH);
        assert_eq!((mbps(&cc), cc.window().cwnd), (25_000, whole));
        cc.on_timeout(&silent(180_000, 169_999), &PATH);
        assert_eq!((mbps(&cc), cc.window().cwnd), (25_000, whole), "it left before the answer");
        cc.on_timeout(&silent(190_000, 170_000), &PATH);
        assert_eq!((mbps(&cc), cc.window().cwnd), (12_500, whole.scaled(0.5)));
    }

    #[test]
    fn silence_halves_the_rate_in_force_and_leaves_the_window_its_share_of_the_line() {
        let mut cc = new();
        let whole = cc.window().cwnd;
        advice(&mut cc, 6000, Half::NUMBER, [9_000_000, 5_000_000]);
        cc.on_timeout(&silent(20_000, 6000), &PATH);
        assert_eq!((mbps(&cc), cc.window().cwnd), (2500, whole.scaled(0.1)));
    }

    #[test]
    fn notes_do_not_end_the_receivers_silence() {
        for near in [true, false] {
            let mut cc = Mlcc::new(&MlccParams { near, ..MlccParams::default() }, &PATH);
            cc.on_timeout(&silent(20_000, 1000), &PATH);
            let halved = (mbps(&cc), cc.window().cwnd);
            assert_eq!(halved.0, 12_500);
            for at in [20_100, 20_200, 100_000] {
                note(&mut cc, at, (at, 0)).unwrap();
                assert_eq!((mbps(&cc), cc.window().cwnd), halved, "near {near}, {at}");
            }
        }
    }

    #[test]
    fn flows_to_one_host_share_a_link_until_advice_comes() {
        let mut cc = new();
        let reported = |cc: &mut Mlcc, sharers| {
            let mut int = Int::with_room(3);
            int.stamp(Hop::new(us(24), Bytes(0), Bytes(0), PATH.line_rate, 1));
            let ext = Ext { int, ..Ext::VACANT };
            let extensions = Extensions::new(Extent::NONE.with_int(&int), &ext);
            cc.on_note(&super::note(us(0).to_wire(), sharers), extensions, us(24), &PATH)
        };
        assert_eq!(reported(&mut cc, 8), Ok(()));
        assert_eq!(mbps(&cc), 3125);
        assert_eq!(reported(&mut cc, 0), Err(ExtRefusal::Note), "the flow itself is one");
        assert_eq!(reported(&mut cc, 2), Err(ExtRefusal::Int), "its hops are those of before");
        assert_eq!(mbps(&cc), 12_500);
        advice(&mut cc, 6000, Half::NUMBER, [20_000_000; 2]);
        assert_eq!(mbps(&cc), 20_000);
        // Advice that has not been renewed for long does not bind.
        let (acked, in_flight, held) = (PATH.mtu, PATH.mtu, Duration::ZERO);
        let (now, rtt) = (us(6000 + 24_001), PATH.base_rtt);
        let ack = AckSample { now, rtt, held, acked, in_flight, ecn: false, sharers: 0 };
        cc.on_ack(&ack, &PATH);
        assert_eq!(mbps(&cc), 12_500);
    }
}
