//! The receiver's half of MLCC: the rate at which the border switch of the receiver's site empties
//! the flow's queue, and the rate that the sender may have. Source: \[mlcc\] sec. 3.2.2, 3.3.1,
//! alg. 1 and 2.
//!
//! ```text
//!   segment with C_D = C_R:   C_R + 1, R_credit from the hops inside the site, a step of DQM
//!   each segment:             a token step of DQM
//!   each acknowledgement:     C_R, R_credit, Rbar
//! ```
//!
//! The first hop of a segment is its flow's queue at the border switch, whose number is C_D; the
//! others are ports on the way from there. A segment without such a hop has passed no queue of its
//! own: it moves no round. The report's number is C_R, its values are R_credit and Rbar in kb/s.
//!
//! Units: bits a second, bytes, seconds.

mod dqm;

use super::{HalfReport, HalfSetup, ReceiverHalf, Reporter, SegmentArrival};
use crate::params::{params, words};
use crate::path::NetworkFacts;
use crate::registry::Registered;
use crate::telemetry::{Law, LawConstants, Load, RateLaw, rate_of};
use crate::time::{Duration, Instant, Rate};
use crate::wire::ExtRefusal;
use crate::wire::int::Hop;
use dqm::{Dqm, DqmConstants};

words! {
    /// The rate DQM aims at while the predicted delay is below its threshold.
    pub enum Below: "credit, eq5 or stale" {
        /// R_credit: a flow that is limited elsewhere builds no queue.
        Credit = "credit",
        /// Eq. 5 with both signs: builds a queue up to the threshold.
        Eq5 = "eq5",
        /// The value stays, since alg. 2 has no branch for this case.
        Stale = "stale",
    }
}

words! {
    /// The rate of a flow whose queue is new.
    pub enum Initial: "line or equal" {
        /// The rate of the receiver's link.
        Line = "line",
        /// An equal share of that rate for each flow that the receiver is receiving.
        Equal = "equal",
    }
}

words! {
    /// What moves R_credit.
    pub enum Signal: "auto, int or delay" {
        /// Hops of ports inside the site. Where at most one hop comes, as from a border switch
        /// whose site writes none, the larger load of that hop and of the delay in the site. Hops
        /// alone where hosts poll their devices.
        Auto = "auto",
        /// Hops alone.
        Int = "int",
        /// The delay from the border switch to the receiver alone.
        Delay = "delay",
    }
}

params! {
    /// Settings of [`Mlcc`].
    pub struct MlccParams {
        /// D_t: the queueing delay at the border switch that is aimed at. The last of dt and
        /// dt_rtts that is set acts; mlcc has a dt_rtts of 1/6.
        dt: Duration = Duration::from_ms(1), in Duration::from_ns(1)..=Duration::from_s(1);
        /// theta: the time in which the queueing delay returns to dt, longer than RTT_C for calm.
        /// The last of theta and theta_rtts that is set acts; mlcc has a theta_rtts of 3.
        theta: Duration = Duration::from_ms(18), in Duration::from_us(1)..=Duration::from_s(10);
        /// theta in RTT_C, which sets theta; 0: theta is a time of its own.
        theta_rtts: f32 = 0.0, in 0.0..=1000.0;
        /// D_t in RTT_C, which sets dt; 0: dt is a time of its own.
        dt_rtts: f32 = 0.0, in 0.0..=1000.0;
        /// m: the rounds over which the rate that empties the queue is averaged.
        m: u16 = 5, in 1..=5;
        /// alpha: tokens of a segment when both rates are equal; 0.5 holds the rate.
        alpha: f32 = 0.5, in 0.01..=1.0;
        /// Whether the dynamic window loses an RTT_C's share with each segment; off: as printed in
        /// the paper, which oscillates without damping.
        leak: bool = true;
        /// The rate aimed at below the threshold.
        below: Below = Below::Credit;
        /// The rate of a new flow; switch.dci.equal follows it unless that is set.
        initial: Initial = Initial::Equal;
        /// What moves R_credit; cc.mlcc.signal sets it, too.
        signal: Signal = Signal::Auto;
        /// What R_credit follows; cc.mlcc.law sets it, too.
        law: Law = Law::Auto;
        /// RTT_D: from the border switch to the receiver and back; taken over from the network.
        rtt_d: Duration = Duration::from_us(24), in Duration::from_ns(100)..=Duration::from_ms(10);
        /// RTT_C: between hosts of two sites; taken over from the network.
        rtt_c: Duration = Duration::from_ms(6), in Duration::from_us(1)..=Duration::from_s(1);
        /// eta: the utilisation to aim at inside the site; cc.mlcc.target sets it, too.
        target: f32 = 0.95, in 0.01..=1.0;
        /// gamma of PowerTCP where the law is its; cc.mlcc.gain sets it, too.
        gain: f32 = 0.9, in 0.01..=1.0;
        /// Additive increase of R_credit, share of the line rate; cc.mlcc.rate_ai sets it, too.
        rate_ai: f32 = 0.002, in 0.0..=1.0;
        /// Smallest rate, share of the line rate; cc.mlcc.rate_min sets it, too.
        rate_min: f32 = 0.004, in 0.000001..=1.0;
    }
}

/// Rounds of additive increase before a multiplicative one, as in HPCC.
const STAGES: u16 = 5;

/// Ports from the border switch, its own included, to a receiver: a site of three tiers at most.
const HOPS: usize = 4;

/// A round opens by itself after so many RTT_D without its credit.
const PATIENCE: u64 = 10;

/// What the least delay grows by in a round, ns: 40 ppm of the shortest one.
const DRIFT_NS: u32 = 1;

/// A delay up to this part of RTT_D beyond the least one is no queue.
const SLACK: u32 = 8;

/// Unit of reported rates, bit/s.
const UNIT: f64 = 1000.0;

/// The receiver's half of one flow.
#[derive(Clone, Debug)]
pub struct Mlcc {
    law: RateLaw,
    dqm: Dqm,
    load: Load<HOPS>,
    fixed: DqmConstants,
    rtt_d_ns: u32,
    /// Additive increase, share of the line rate.
    rate_ai: f32,
    target: f32,
    /// C_R; `None` before the first segment through a queue.
    credit: Option<u16>,
    initial: Initial,
    started: bool,
    /// Whether there is a `least_ns`.
    timed: bool,
    /// The shortest time so far from the border switch to this host, by both clocks, ns that wrap.
    least_ns: u32,
}

impl Registered for Mlcc {
    const ABOUT: &'static str = "MLCC: credits for the flow's queue at the border, and its delay";
    type Params = MlccParams;

    fn resolve(params: &mut MlccParams, facts: &NetworkFacts) {
        if facts.hosts_poll == Some(true) && params.signal == Signal::Auto {
            // A late poll counts as a queue. So many polls are late that rates would fall to the
            // least.
            params.signal = Signal::Int;
        }
        params.rtt_d = facts.site_rtt.unwrap_or(params.rtt_d);
        params.rtt_c = facts.inter_rtt.unwrap_or(params.rtt_c);
        let rtts = |count: f32| params.rtt_c.scaled(count.into());
        if params.theta_rtts > 0.0 {
            params.theta = rtts(params.theta_rtts);
        }
        if params.dt_rtts > 0.0 {
            params.dt = rtts(params.dt_rtts);
        }
    }
}

impl Reporter for Mlcc {
    fn build(setup: &HalfSetup<'_>) -> Self {
        let params = &setup.params.mlcc;
        let line = rate_of(setup.line_rate).max(1.0);
        let least = line * f64::from(params.rate_min);
        let fixed = DqmConstants::new(params, setup.mtu, (least, line));
        Self {
            law: RateLaw::new(line).with_gain(params.gain),
            dqm: Dqm::new(line),
            load: Load::new(),
            fixed,
            rtt_d_ns: u32::try_from(params.rtt_d.as_ps() / 1000).unwrap_or(u32::MAX),
            rate_ai: params.rate_ai,
            target: params.target,
            credit: None,
            initial: params.initial,
            started: false,
            timed: false,
            least_ns: 0,
        }
    }

    fn number() -> u8 {
        Self::NUMBER
    }
}

impl Mlcc {
    /// The half's number on the wire: border switches act on reports of this half alone.
    pub const NUMBER: u8 = 2;

    /// The rates of a report, R_credit and Rbar; `None` when one is zero.
    #[must_use]
    pub fn rates(values: [u32; 2]) -> Option<[Rate; 2]> {
        let rate = |value: u32| Rate::from_bps(u64::from(value) * 1000);
        values.iter().all(|value| *value > 0).then(|| values.map(rate))
    }

    fn rtt_d(&self) -> Duration {
        Duration::from_ns(self.rtt_d_ns.into())
    }

    /// The first segment: the rates are what a new queue has.
    fn start(&mut self, arrival: &SegmentArrival<'_>) {
        self.started = true;
        let sharers = match self.initial {
            Initial::Line => 1,
            Initial::Equal => arrival.sharers.max(1),
        };
        let rate = self.fixed.clamp(self.fixed.line() / f64::from(sharers));
        self.law = self.law.anew(rate);
        self.law.begin_round(arrival.at);
        self.dqm = Dqm::new(rate);
    }

    /// The load of the busiest link inside the site, by the time from the queue's hop to `at`. It
    /// is the load of a full link with the bytes that wait at it, or the load that is aimed at
    /// where the delay is within the slack. Clocks may differ by any offset: the least time counts
    /// as without queues, and is forgotten so slowly that clocks may drift.
    fn delayed(&mut self, queue: &Hop, at: Instant) -> f64 {
        // DEVIATION(mlcc#3.2.2): the paper's switches all write telemetry.
        let took = Hop::time_of(at).wrapping_sub(queue.time());
        let least = if self.timed { self.least_ns.wrapping_add(DRIFT_NS) } else { took };
        let beyond = took.wrapping_sub(least);
        let (least, delay) = if beyond < 1 << 31 { (least, beyond) } else { (took, 0) };
        (self.least_ns, self.timed) = (least, true);
        match delay.checked_sub(self.rtt_d_ns / SLACK) {
            Some(queued) if queued > 0 => 1.0 + f64::from(queued) / f64::from(self.rtt_d_ns.max(1)),
            _ => f64::from(self.target) * (1.0 - f64::EPSILON),
        }
    }

    /// A segment that has left its queue under C_D, with `left` bytes behind it.
    fn on_queue(&mut self, queue: &Hop, hops: &[Hop], at: Instant) -> Option<ExtRefusal> {
        let credit_seen = queue.number();
        let expected = *self.credit.get_or_insert_with(|| next(credit_seen));
        //= mlcc#alg1
        if credit_seen == expected {
            self.credit = Some(next(expected));
        } else if at.since(self.law.round_at()) < self.rtt_d() * PATIENCE {
            return None;
        } else if credit_seen.wrapping_sub(expected) < 1 << 15 {
            // The queue is ahead: this half is younger than the state in the switch.
            self.credit = Some(next(credit_seen));
        }
        self.law.begin_round(at);
        let law = LawConstants {
            target: self.target,
            stages: STAGES,
            increase: self.fixed.line() * f64::from(self.rate_ai),
            least: self.fixed.clamp(0.0),
            line: self.fixed.line(),
        };
        // One hop is as a rule that of the border's own port, which shows no queue in the site.
        let by_delay = match self.fixed.signal {
            Signal::Auto => hops.len() <= 1,
            Signal::Int => false,
            Signal::Delay => true,
        };
        let delayed = by_delay.then(|| self.delayed(queue, at));
        let by_hops = self.fixed.signal != Signal::Delay;
        let by = self.fixed.law;
        let measured = by_hops
            .then(|| self.load.measure(hops, self.rtt_d(), |sample, rtt| by.load(sample, rtt)));
        let (measured, refusal) = match measured {
            Some(Ok(load)) => (load, None),
            Some(Err(refusal)) => (None, Some(refusal)),
            None => (None, None),
        };
        let loads = [delayed, measured];
        if let Some(load) = loads.into_iter().flatten().reduce(f64::max) {
            self.fixed.law.follow(&mut self.law, load, true, &law);
        }
        self.dqm.on_round(at, self.law.rate(), queue.waiting().as_f64(), &self.fixed);
        refusal
    }
}

/// The credit after `credit`; 0 is that of a queue without any.
const fn next(credit: u16) -> u16 {
    match credit.wrapping_add(1) {
        0 => 1,
        next => next,
    }
}

impl ReceiverHalf for Mlcc {
    fn on_segment(&mut self, arrival: &SegmentArrival<'_>) -> Option<ExtRefusal> {
        if !self.started {
            self.start(arrival);
        }
        let int = arrival.extensions.int().filter(|int| !int.is_cut());
        let refusal = match int.map(|int| int.hops()) {
            Some([queue, hops @ ..]) if queue.is_queue() => self.on_queue(queue, hops, arrival.at),
            _ => None,
        };
        self.dqm.on_segment(self.law.rate(), &self.fixed);
        refusal
    }

    fn report(&mut self, _now: Instant) -> Option<HalfReport> {
        let rates = [self.law.rate(), self.dqm.advised(self.law.rate(), &self.fixed)];
        let values = rates.map(|rate| Rate::from_bps(dqm::whole(rate / UNIT + 0.5)).as_bps());
        let values = values.map(|value| u32::try_from(value).unwrap_or(u32::MAX).max(1));
        self.started.then(|| HalfReport { number: self.credit.unwrap_or(1), values })
    }
}

#[cfg(test)]
mod tests;
