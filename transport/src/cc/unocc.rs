//! UnoCC: one window for flows inside a datacentre and across. ECN marks move it, mostly those of a
//! phantom queue, and QuickAdapt keeps it from collapse. Source: \[uno\] sec. 4.1, algorithm 1,
//! table 2.
//!
//! ```text
//!   unmarked ack        cwnd + alpha * acked / cwnd
//!   end of an epoch     marked: cwnd * (1 - E * 4K / (K + BDP) * MD_scale)
//!                       MD_scale is 1 when the delay says that a real queue stands, else small
//!   end of an RTT       acked < beta * cwnd: cwnd = acked, then an RTT without either cut;
//!                       ours: at the first loss of a burst shorter than an RTT, see `early`
//!   losses              ours: cwnd - lost; losses of one window take at most a quarter of it
//!   RTTs without any    ours: cwnd + fast * acked, fast = 1/4, 1/2, 3/4, 1 after 1, 2, 3, 4 of
//!   congestion          them, and 1 from the start until congestion is met
//!   more flows at the   ours: at most an equal share of the receiver's line, unless others leave
//!   receiver            theirs unused; fewer: what that took comes back, see `share`
//! ```
//!
//! Epochs are equally long for flows of every RTT: `T_epoch` moves on by one intra-datacentre RTT
//! at a time, and an acknowledgement of a segment that was sent at or after `T_epoch` ends an
//! epoch.
//!
//! ```text
//!   send times   ----|======|======|======|------------------> time
//!                    ^ T_epoch     ^ each ends when the first segment sent after it is acked
//! ```
//!
//! Units: packets, picoseconds. The paper and the simulator that its figures were made with differ;
//! `uno-paper` and `uno-artifact` are presets of both (`headrace list transports`). UnoCC does not
//! choose paths or code blocks: see `lb` and `ec`.

mod early;
mod params;
mod share;

pub use params::{Epoch, Gentle, OnEcnFalling, OnLoss, QaMeasure, Share, UnoCcParams};

use super::bounds::Bounds;
use super::{AckSample, CcParams, CongestionControl, Controller, LossSample, Path, Window};
use crate::path::NetworkFacts;
use crate::registry::Registered;
use crate::time::{Duration, Instant, Rate};
use crate::units::Bytes;
use core::num::NonZeroU64;

/// E above which a marked epoch decreases even though E falls, in the simulator.
const ECN_HIGH: f64 = 0.9;
/// Packets that the additive increase gains, without a mark, before the fast increase begins. A
/// flow that shares a link, near or far, gets about one mark for every sixth of a packet that it
/// gains. So a flow that gains this much without a mark is alone, however small its window is.
const GAINED_MIN: f32 = 3.0;
/// RTTs without congestion after which the fast increase is no faster.
const FAST_RTTS: u32 = 4;
/// Smallest compounded factor: smaller ones change no window.
const MD_SCALE_MIN: f32 = 1e-6;

/// Counts of the present epoch.
#[derive(Clone, Copy, Default, Debug)]
struct EpochCounts {
    /// Packets acknowledged or refused.
    all: f32,
    /// Packets with a mark, 0..=`all`; a refused one counts as marked.
    marked: f32,
}

/// One period of QuickAdapt.
#[derive(Clone, Copy, Debug)]
struct Measurement {
    from: Instant,
    /// Packets acknowledged since `from`.
    acked: f64,
    /// When the last of these packets were acknowledged.
    until: Instant,
    /// The longest time between two acknowledgements from `from` to `until`, picoseconds; at least
    /// 1, so that `None` takes no room. Acknowledgements of one poll have one time, so over a
    /// device this may be most of the span.
    pause_ps: NonZeroU64,
    /// Packets that were in flight at its start.
    in_flight: f32,
    /// Packets that were sent in the period before, to which its acknowledgements answer.
    sent: f32,
}

impl Measurement {
    /// Packets were acknowledged at `now`, before the period is over.
    #[inline]
    fn extend(&mut self, now: Instant) {
        let pause_ps = now.since(self.until).as_ps();
        if pause_ps > self.pause_ps.get() {
            self.pause_ps = NonZeroU64::new(pause_ps).unwrap_or(self.pause_ps);
        }
        self.until = now;
    }
}

/// One flow's UnoCC state.
#[derive(Clone, Debug)]
pub struct UnoCc {
    /// Packets, within `bounds`.
    cwnd: f64,
    bounds: Bounds,
    /// The average share of marked bytes, E, 0..=1.
    ecn: f64,
    /// MD_scale, the factor of the gentle reduction, 0..=1.
    md_scale: f32,
    /// T_epoch; zero before the first acknowledgement.
    epoch: Instant,
    seen: EpochCounts,
    /// QuickAdapt's present period; `None` before the first acknowledgement, and while QuickAdapt
    /// skips an RTT.
    measurement: Option<Measurement>,
    /// When QuickAdapt last acted; zero if never. Reports about segments that were sent earlier do
    /// not count against the window that it set.
    adapted_at: Instant,
    /// When the newest segment that is known to have met congestion was sent; zero if none did.
    congested_at: Instant,
    /// Packets that the additive increase has gained from segments sent after `congested_at`.
    gained: f32,
    /// Packets in flight when QuickAdapt's period began, less those that were acknowledged or lost
    /// since. Packets in flight beyond this number have been sent since.
    outset: f32,
    /// Flows that share the receiver, by the count that the window follows; 0 before the first.
    counted: u16,
    /// The count nearest to `counted` since the present wait began.
    nearest: u16,
    /// Flows for which the receiver's count has cut the window; 1 if it has not.
    shared: f32,
    /// When the present wait ends, and the window follows another count;
    /// [`Instant::FAR_FUTURE`] while the receiver counts as many as `counted`.
    share_at: Instant,
    /// Window before QuickAdapt acted early, to which it grows back; 0 if it did not.
    former: f32,
    /// When a loss last began a series of reductions; zero if never. Losses of segments sent before
    /// this instant belong to the same window.
    reduced_at: Instant,
    /// Packets that are left of a window at least, however many of its packets are lost.
    reduced_min: f32,
    at: Scale,
    params: UnoCcParams,
}

const _: () = assert!(size_of::<UnoCc>() <= 320, "one for each flow that sends");

/// The constants of one path.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// Packets that an RTT of unmarked acknowledgements adds.
    alpha: f64,
    /// 4K / (K + BDP).
    md: f64,
    /// RTTs above this one have met a real queue.
    empty_rtt: Duration,
    /// How long QuickAdapt counts.
    qa_period: Duration,
    /// Bits a second for each packet of window, so that a window takes one base RTT.
    bps_per_packet: f64,
    /// Time that a packet takes on the line, picoseconds.
    packet_ps: f64,
}

impl Scale {
    /// The pacing rate of a window of `cwnd` packets, at most a BDP.
    fn rate(&self, cwnd: f64) -> Rate {
        Rate::from_bps(Bytes(1).scaled(cwnd * self.bps_per_packet).0.max(1))
    }

    /// Packets that a period acknowledges at the rate of the packets in `done`, which is at most
    /// the line rate.
    fn in_a_period(&self, done: &Measurement) -> f64 {
        let line_ps = done.acked * self.packet_ps;
        let busy_ps = Bytes(done.until.since(done.from).as_ps()).as_f64().max(line_ps);
        if busy_ps > 0.0 {
            done.acked * Bytes(self.qa_period.as_ps()).as_f64() / busy_ps
        } else {
            0.0
        }
    }

    fn new(params: &UnoCcParams, path: &Path) -> Self {
        let mtu = path.mtu.max(Bytes(1)).as_f64();
        let bdp = path.bdp().as_f64() / mtu;
        // On a path with less than the datacentre's RTT, K is relative to the path's own BDP, or
        // the window would lose more than half at once.
        let near = path.line_rate.bytes_in(params.intra_rtt.min(path.base_rtt)).as_f64() / mtu;
        let k = near * f64::from(params.k);
        let times = |span: Duration, factor: f32| {
            Duration::from_ps(Bytes(span.as_ps()).scaled(f64::from(factor)).0)
        };
        // DEVIATION(uno#alg1): line 9 asks for a delay of zero. One packet of another flow in
        // front is no queue, and clocks have a grain.
        let slack = times(path.line_rate.time_for(path.mtu), params.empty_packets)
            .max(params.empty_delay)
            .max(times(path.base_rtt, params.empty_rtts));
        Self {
            //= uno#4.1.1
            // alpha is a fraction of the BDP.
            alpha: bdp * f64::from(params.alpha),
            //= uno#4.1.1
            md: if bdp > 0.0 { (4.0 * k / (k + bdp)).min(1.0) } else { 0.0 },
            empty_rtt: path.base_rtt + slack,
            qa_period: times(path.base_rtt, params.qa_rtts),
            bps_per_packet: Bytes(path.line_rate.as_bps()).as_f64() / bdp.max(1.0),
            packet_ps: Bytes(path.line_rate.time_for(path.mtu).as_ps()).as_f64(),
        }
    }
}

/// A window or a count of packets, of which seven digits are enough.
#[expect(clippy::cast_possible_truncation, reason = "seven digits are enough")]
const fn short(packets: f64) -> f32 {
    packets as f32
}

impl UnoCc {
    /// The initial state on `path`.
    #[must_use]
    pub fn new(params: &UnoCcParams, path: &Path) -> Self {
        let bounds = Bounds::new(path, params.window_max);
        Self {
            cwnd: bounds.bdps(params.initial),
            bounds,
            ecn: 0.0,
            md_scale: 1.0,
            epoch: Instant::ZERO,
            seen: EpochCounts::default(),
            measurement: None,
            adapted_at: Instant::ZERO,
            congested_at: Instant::ZERO,
            gained: 0.0,
            outset: 0.0,
            counted: 0,
            nearest: 0,
            former: 0.0,
            shared: 1.0,
            share_at: Instant::FAR_FUTURE,
            reduced_at: Instant::ZERO,
            reduced_min: 0.0,
            at: Scale::new(params, path),
            params: *params,
        }
    }

    /// Takes over a changed base RTT.
    #[inline]
    fn follow(&mut self, path: &Path) {
        if path.base_rtt != self.bounds.base_rtt {
            self.rescale(path);
        }
    }

    /// Scales the constants of the path, and the bounds of the window, to its new base RTT.
    #[cold]
    fn rescale(&mut self, path: &Path) {
        self.bounds.follow(path);
        self.at = Scale::new(&self.params, path);
        self.set(self.cwnd);
    }

    #[inline]
    fn set(&mut self, cwnd: f64) {
        let (least, most) = (f64::from(self.params.window_min), self.bounds.most());
        // `clamp` asserts what ranges of settings ensure, and a panic needs a frame on the stack.
        debug_assert!(least <= most, "a window of one packet is allowed on any path");
        let raised = if cwnd < least { least } else { cwnd };
        self.cwnd = if raised > most { most } else { raised };
    }

    /// One acknowledgement's share of the additive increase.
    #[inline(always)]
    fn increase(&mut self, acked: f64) {
        //= uno#alg1
        // Line 3.
        self.set(self.cwnd + self.at.alpha * acked / self.cwnd);
    }

    /// Ends the epoch, or begins the first one: a segment that was sent after it began is
    /// acknowledged.
    fn next_epoch(&mut self, sent_at: Instant, ack: &AckSample, path: &Path) {
        //= uno#4.1.1
        // The first epoch starts with the first acknowledgement.
        let started = if self.epoch == Instant::ZERO { ack.now } else { self.epoch };
        self.epoch = started;
        if sent_at < started {
            return;
        }
        let period = match self.params.epoch {
            Epoch::Intra => self.params.intra_rtt,
            // DEVIATION(uno#4.1.1): a flow below one switch has a shorter RTT than the datacentre,
            // and alpha adds a part of a BDP in each. Its epochs are as short, or it would gain
            // more often than it gives way, and take several times the share of others.
            Epoch::Least => self.params.intra_rtt.min(path.base_rtt),
            Epoch::Rtt => {
                let (intra, base) = (self.params.intra_rtt.as_ps(), path.base_rtt.as_ps().max(1));
                ack.rtt.mul_ratio(intra, base)
            }
        };
        //= uno#4.1.1
        // T_epoch is increased, not set to now: it stays one RTT behind, so that a far flow, too,
        // ends an epoch each period.
        let next = started + period;
        // DEVIATION(uno#4.1.1): after a pause T_epoch would lie far behind, and every
        // acknowledgement would end an epoch until it has caught up. Epochs in which nothing was
        // sent are skipped.
        self.epoch = if next > sent_at { next } else { sent_at + period };
        let seen = core::mem::take(&mut self.seen);
        if seen.all > 0.0 {
            self.end_epoch(seen, ack.rtt > self.at.empty_rtt);
        }
    }

    /// Multiplicative decrease, if the epoch saw marks.
    fn end_epoch(&mut self, seen: EpochCounts, queueing: bool) {
        let before = self.ecn;
        let gain = f64::from(self.params.ewma_gain);
        self.ecn += (f64::from(seen.marked) / f64::from(seen.all) - self.ecn) * gain;
        if seen.marked <= 0.0 {
            return;
        }
        let eases = self.params.on_ecn_falling == OnEcnFalling::Increase;
        if eases && self.ecn < before && self.ecn <= ECN_HIGH {
            self.increase(f64::from(seen.all));
            return;
        }
        //= uno#alg1
        // Lines 9 to 14.
        let gentle = self.params.md_scale;
        self.md_scale = match (queueing, self.params.gentle) {
            (true, _) => 1.0,
            (false, Gentle::Compound) => (self.md_scale * gentle).max(MD_SCALE_MIN),
            (false, Gentle::Flat) => gentle,
        };
        self.set(self.cwnd * (1.0 - self.ecn * self.at.md * f64::from(self.md_scale)));
    }

    /// Counts towards QuickAdapt, which acts at the end of a period.
    #[inline]
    fn on_qa(&mut self, acked: f64, ack: &AckSample, path: &Path) {
        if !self.params.quick_adapt {
            return;
        }
        let Some(measurement) = &mut self.measurement else {
            self.measurement = Some(self.measure(ack));
            return;
        };
        measurement.acked += acked;
        if ack.now.since(measurement.from) < self.at.qa_period {
            measurement.extend(ack.now);
            return;
        }
        self.on_period(ack, path);
    }

    /// A period of QuickAdapt has ended.
    #[inline(never)]
    fn on_period(&mut self, ack: &AckSample, path: &Path) {
        let Some(done) = &self.measurement.take() else { return };
        let span = ack.now.since(done.from);
        self.measurement = Some(self.measure(ack));
        // A period that ended late has counted more than one period's packets.
        let share = Bytes(self.at.qa_period.as_ps()).as_f64() / Bytes(span.as_ps()).as_f64();
        let acked = done.acked * share.min(1.0);
        let expected = self.expected(done, ack.rtt, path);
        // A flow of a packet an RTT or less has RTTs without an acknowledgement.
        let decides = expected > 1.0 || self.params.window_min >= 1.0;
        //= uno#alg1
        // Line 19.
        if decides && acked < expected * f64::from(self.params.qa_factor) {
            let acked = match self.params.qa_measure {
                QaMeasure::Bytes => acked,
                // Where less than a window was sent, its part that arrived is that of a window.
                QaMeasure::Rate => {
                    let part = acked * self.cwnd / expected;
                    part.max(self.at.in_a_period(done)).min(self.cwnd)
                }
            };
            self.former = 0.0;
            self.adapt(acked.max(1.0), ack.now, ack.in_flight);
        }
    }

    /// Packets that the period `done` may acknowledge where the path carries the whole window.
    fn expected(&self, done: &Measurement, rtt: Duration, path: &Path) -> f64 {
        let mut expected = self.cwnd;
        if self.params.qa_in_flight {
            expected = expected.min(f64::from(done.in_flight));
        }
        if self.params.qa_sent {
            // DEVIATION(uno#alg1): lost packets are in flight until that is known. While they fill
            // a window that was cut after they left, little is sent, and little can come back.
            let base = Bytes(path.base_rtt.as_ps().max(1)).as_f64();
            let rtts = (Bytes(rtt.as_ps()).as_f64() / base).max(1.0);
            expected = expected.min(f64::from(done.sent) * rtts);
        }
        expected
    }

    /// Begins a period of QuickAdapt.
    fn measure(&mut self, ack: &AckSample) -> Measurement {
        let in_flight = short(self.bounds.packets(ack.in_flight));
        let sent = in_flight - core::mem::replace(&mut self.outset, in_flight);
        let (from, until, pause_ps) = (ack.now, ack.now, NonZeroU64::MIN);
        Measurement { from, acked: 0.0, until, pause_ps, in_flight, sent }
    }

    /// QuickAdapt's cut to what `acked` packets in its RTT allow, with `in_flight` left.
    fn adapt(&mut self, acked: f64, now: Instant, in_flight: Bytes) {
        self.adapt_to(acked * f64::from(self.params.qa_scaling), now, in_flight);
    }

    /// Sets a window that is new to the packets in flight: they were sent with an earlier one.
    fn adapt_to(&mut self, cwnd: f64, now: Instant, in_flight: Bytes) {
        self.set(cwnd);
        self.outset = short(self.bounds.packets(in_flight));
        //= uno#4.1.2
        // Packets in flight now were sent with the old window; answers to the new one come an RTT
        // later. The next epoch, too, begins with them.
        self.adapted_at = now;
        self.meet_congestion(now);
        self.measurement = None;
        self.seen = EpochCounts::default();
        self.epoch = now + self.params.intra_rtt;
    }

    /// A packet sent at `sent_at` was marked, lost or queued.
    #[inline]
    fn meet_congestion(&mut self, sent_at: Instant) {
        // Zero is for none.
        self.congested_at = self.congested_at.max(sent_at).max(Instant::from_ps(1));
        self.gained = 0.0;
    }

    /// A packet sent at `sent_at` met no congestion: applies the fast increase, if no packet has
    /// met congestion for at least a base RTT.
    #[inline]
    fn meet_no_flow(&mut self, sent_at: Instant, acked: f64, ack: &AckSample, path: &Path) {
        let clear = match self.congested_at {
            // A flow that has met none since it began may take what it finds.
            Instant::ZERO => Duration::MAX,
            at => sent_at.since(at),
        };
        if self.params.fast_increase <= 0.0 || clear == Duration::ZERO {
            return;
        }
        self.gained += short(self.at.alpha * acked / self.cwnd);
        let is_full = self.bounds.packets(ack.in_flight) * 2.0 >= self.cwnd;
        if clear > path.base_rtt && self.gained >= GAINED_MIN && is_full {
            // At most four comparisons instead of a division for each acknowledgement.
            let rtts =
                (1..=FAST_RTTS).take_while(|&n| clear >= path.base_rtt * u64::from(n)).last();
            let times = f64::from(rtts.unwrap_or(0));
            self.set(self.cwnd + acked * times * f64::from(self.params.fast_increase));
        }
    }

    /// An acknowledgement with another base RTT, or with a count that the window may follow.
    #[inline(never)]
    fn on_changed(&mut self, ack: &AckSample, path: &Path) {
        self.follow(path);
        let acked = self.bounds.packets(ack.acked);
        self.outset -= short(acked);
        self.share(ack.sharers, ack.now, ack.in_flight);
        self.react(acked, ack, path);
    }

    /// Reacts to `acked` packets, by marks, delay and time.
    #[inline(always)]
    fn react(&mut self, acked: f64, ack: &AckSample, path: &Path) {
        let sent_at = ack.sent_at();
        if !ack.ecn {
            self.increase(acked);
        }
        if ack.ecn || ack.rtt > self.at.empty_rtt {
            self.meet_congestion(sent_at);
        } else {
            self.meet_no_flow(sent_at, acked, ack, path);
        }
        if sent_at < self.adapted_at {
            return;
        }
        if self.former > 0.0 {
            self.regrow(sent_at, acked, ack);
        }
        let acknowledged = short(acked);
        self.seen.all += acknowledged;
        if ack.ecn {
            self.seen.marked += acknowledged;
        }
        if sent_at >= self.epoch {
            return self.on_epoch(sent_at, acked, ack, path);
        }
        self.on_qa(acked, ack, path);
    }

    /// The acknowledgement of a segment sent at `sent_at` ends an epoch, and perhaps a period.
    #[inline(never)]
    fn on_epoch(&mut self, sent_at: Instant, acked: f64, ack: &AckSample, path: &Path) {
        self.next_epoch(sent_at, ack, path);
        self.on_qa(acked, ack, path);
    }

    fn on_lost(&mut self, loss: &LossSample) {
        self.outset -= short(self.bounds.packets(loss.bytes));
        self.meet_congestion(loss.sent_at);
        if loss.sent_at >= self.adapted_at && self.adapt_early(loss) {
            return;
        }
        // DEVIATION(uno#alg1): the paper has no reaction to losses. Where marks come too late or
        // not at all, a window would stay at up to twice the bytes that arrive, because QuickAdapt
        // acts only when less than half of the window arrives.
        if self.params.on_loss == OnLoss::Reduce && loss.sent_at >= self.adapted_at {
            self.reduce(loss);
        }
    }

    /// Takes a loss off the window, down to the least that the losses of one window leave.
    fn reduce(&mut self, loss: &LossSample) {
        if loss.sent_at >= self.reduced_at {
            self.reduced_at = loss.now;
            self.reduced_min = short(self.cwnd) * (1.0 - self.params.loss_max);
        }
        // Losses leave a packet; marks alone bring a window below one.
        let reduced = self.cwnd - self.bounds.packets(loss.bytes);
        self.set(reduced.max(f64::from(self.reduced_min).max(1.0).min(self.cwnd)));
    }
}

impl Registered for UnoCc {
    const ABOUT: &'static str =
        "UnoCC: ECN of phantom queues, one epoch for near and far flows, QuickAdapt";
    type Params = UnoCcParams;

    fn resolve(params: &mut UnoCcParams, facts: &NetworkFacts) {
        params.resolve(facts);
    }
}

impl Controller for UnoCc {
    fn build(params: &CcParams, path: &Path) -> Self {
        Self::new(&params.unocc, path)
    }

    fn window_max(params: &CcParams) -> f32 {
        params.unocc.window_max
    }
}

impl CongestionControl for UnoCc {
    #[inline]
    fn window(&self) -> Window {
        let cwnd = self.bounds.bytes(self.cwnd);
        // A window above the BDP is not faster than the line.
        let paced = self.cwnd.min(self.bounds.bdp().max(1.0));
        let pacing = self.params.pacing.then(|| self.at.rate(paced));
        Window { cwnd, pacing, wake_at: None }
    }

    fn on_ack(&mut self, ack: &AckSample, path: &Path) {
        // Whatever is rare ends this function as a call of another one, so that most
        // acknowledgements save no registers.
        if path.base_rtt != self.bounds.base_rtt || self.moves_by(ack.sharers) {
            return self.on_changed(ack, path);
        }
        let acked = self.bounds.packets(ack.acked);
        self.outset -= short(acked);
        self.end_wait(ack.sharers);
        self.react(acked, ack, path);
    }

    fn on_nack(&mut self, loss: &LossSample, path: &Path) {
        self.follow(path);
        self.share(loss.sharers, loss.now, loss.in_flight);
        if loss.sent_at >= self.adapted_at {
            // A trimmed segment met a full queue: it counts as marked.
            let refused = short(self.bounds.packets(loss.bytes));
            self.seen.all += refused;
            self.seen.marked += refused;
        }
        self.on_lost(loss);
    }

    fn on_timeout(&mut self, loss: &LossSample, path: &Path) {
        self.follow(path);
        self.on_lost(loss);
    }
}

#[cfg(test)]
mod tests;
