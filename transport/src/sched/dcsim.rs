//! DCsim: a small probe goes before each segment on the path that the segment will take, a fixed
//! time ahead of it. A segment leaves only if its probe was answered.
//!
//! Source: \[dcsim\] sec. 2. SIM, SIM-ACK, DATA-ACK and DATA are four classes in strict order of
//! priority at every port, those of hosts included (file `line.rs`). The fabric's discipline of
//! this name decides what a switch port does with SIMs beyond its rate, and with more than B of
//! them. Units: wire bytes, picoseconds, all of the sender's own clock.
//!
//! ```text
//!   sender                                            receiver
//!   t_SIM          --- SIM, random port ------------>
//!                  <--------------------- SIM-ACK ---  at once; keeps nothing, opens no flow
//!   t_SIM+RTT_max  --- DATA, same port ------------->
//!                  <------------ DATA-ACK of 16 ----- or 3 RTT_p after the first
//! ```
//!
//! A SIM-ACK that does not come within RTT_max is no longer waited for. DATA is lost when the
//! flow's timer says so, and then waits at the head again. Nothing here infers loss or moves a
//! window; the transport's preset has one that is wide enough and leaves loss to the timer.

mod account;
mod copies;
mod drain;
mod figures;
mod line;
mod params;
mod ports;
mod records;
mod sender;
#[cfg(test)]
mod tests;
mod turns;

use alloc::boxed::Box;
use alloc::collections::VecDeque;

pub use crate::stats::SimCounts;
pub use figures::Figures;
pub use params::{Bind, DcSimParams, LongQueues, RttMax, SimOrder, TIGHT_BUCKET, Unscheduled};

use super::{
    AckMode, Arrival, Backlog, Choice, Label, Protocol, Receiving, SchedParams, SchedSetup,
    Scheduling, Sending, Turn,
};
use crate::path::{NetworkFacts, Path};
use crate::registry::Registered;
use crate::segment::{BURST, Burst, PayloadRef, TxSegment};
use crate::stats::DropReason;
use crate::time::{Duration, Instant};
use crate::units::{Bytes, EntropyValue, FlowId, HostId};
use crate::wire::class::TrafficClass;
use crate::wire::sim::{self, Sim};
use crate::wire::{Body, Header, Note, WireSizes};
use line::Line;
use params::HostConstants;
use sender::Sender;

/// DATA-ACKs wait at most this many RTT_p for further segments to acknowledge.
//= dcsim#2.4
const ACK_DELAY_RTTS: u64 = 3;

/// The timer of a DATA in RTT_max. The paper says "large"; no DATA-ACK takes longer at full rates.
//= dcsim#2.4
const TIMER_RTTS: u64 = 4;

/// Where the device sends packets at their time, they are handed over ahead by this part of RTT_max
/// at most. When a SIM-ACK comes within this time before its DATA may leave, packets that leave
/// later may have been handed over already, and the DATA goes behind them.
const AHEAD_SHARE: u64 = 16;

/// The scheduler of one host.
#[derive(Clone, Debug)]
pub struct DcSim {
    constants: HostConstants,
    /// How long before its start a packet is handed over at most.
    ahead: Duration,
    sender: Sender,
    line: Line,
    /// SIMs that wait to be answered: at most B, and more where a late call brings several at once.
    answers: VecDeque<DueAnswer>,
    /// Acknowledgements of segments wait for the line.
    acks_wait: bool,
    ack_every: u16,
    /// The last instant at which the driver could have taken packets.
    asked_at: Instant,
    /// The value of `asked_at` before the present one.
    asked_before: Instant,
    sim_len: u16,
    sizes: WireSizes,
    figures: Box<Figures>,
}

/// A SIM that waits to be answered.
#[derive(Clone, Copy, Debug)]
struct DueAnswer {
    to: HostId,
    ev: EntropyValue,
    sim: Sim,
    since: Instant,
}

impl DcSim {
    /// A scheduler without flows.
    #[must_use]
    pub fn new(setup: &SchedSetup<'_>) -> Self {
        let sizes = setup.wire_sizes;
        let sim_len = sizes.accounted.control.unwrap_or(sizes.frame_overhead + sim::LEN);
        let constants = HostConstants::new(setup, Bytes(sim_len.into()));
        let params = &setup.params.dcsim;
        let flows = setup.tx_flows_max as usize;
        // The time for which a flow goes on without answers to its segments.
        let patience = setup.patience(setup.rto.max(constants.rtt_max * TIMER_RTTS));
        Self {
            constants,
            ahead: Duration::ZERO,
            sender: Sender::new(&constants, params, flows, setup.rng.clone(), patience),
            line: Line::new(setup.line_rate, constants.slot, constants.bucket),
            answers: VecDeque::with_capacity(constants.queue + BURST),
            acks_wait: false,
            ack_every: params.ack_every,
            asked_at: Instant::ZERO,
            asked_before: Instant::ZERO,
            sim_len,
            sizes,
            figures: Box::default(),
        }
    }

    /// The delay between a SIM and its DATA.
    #[must_use]
    pub fn rtt_max(&self) -> Duration {
        self.constants.rtt_max
    }

    /// The time of a segment and its small packets on the line, T'.
    #[must_use]
    pub fn slot(&self) -> Duration {
        self.constants.slot
    }

    /// SIMs on their way: neither answered nor given up. Walks all records.
    #[must_use]
    pub fn sims_open(&self) -> u64 {
        self.sender.sims_open()
    }

    /// The counters and measurements of this host.
    #[must_use]
    pub fn figures(&self) -> &Figures {
        &self.figures
    }
}

impl DcSim {
    fn asked(&mut self, now: Instant) {
        if now > self.asked_at {
            self.asked_before = core::mem::replace(&mut self.asked_at, now);
        }
    }

    /// When the next SIM may start, and the far future when none waits.
    #[inline]
    fn sim_at(&self) -> Instant {
        self.sender.sim_since().map_or(Instant::FAR_FUTURE, |since| self.line.sim_at(since))
    }

    /// Whether a SIM goes before data that starts at `start`, where packets are handed over ahead.
    /// At all other hosts, SIMs that may leave at `now` have already left when data is asked for.
    #[inline]
    fn is_behind_sim(&self, start: Instant, now: Instant) -> bool {
        self.ahead > Duration::ZERO && self.sim_at() <= start.max(now)
    }

    /// How many answers may wait at `at`, the instant at which a SIM arrived: B, and as many as a
    /// punctual host would have sent by then.
    fn answers_max(&self, at: Instant) -> usize {
        let since = self.answers.front().map_or(at, |answer| answer.since);
        let idle = at.since(since.max(self.line.free_at()));
        let sent = idle.as_ps() / self.line.time_of(self.sim_len).as_ps().max(1);
        let most = self.answers.capacity();
        usize::try_from(sent).unwrap_or(most).saturating_add(self.constants.queue).min(most)
    }
}

/// Hands over a note for `peer` on the path `ev`; it starts at `starts`, no earlier than `now`.
#[inline]
fn push(
    out: &mut Burst<TxSegment>,
    note: Note,
    (peer, ev): (HostId, EntropyValue),
    (starts, now): (Instant, Instant),
) {
    let hdr = Header::new(ev, FlowId::UNKNOWN, Body::Note(note));
    *out.place() = TxSegment { hdr, payload: PayloadRef::NONE, peer };
    if starts > now { out.commit_at(starts) } else { out.commit() }
}

impl Registered for DcSim {
    const ABOUT: &'static str =
        "a probe before each segment on its path; what is answered follows, as DCsim";
    type Params = DcSimParams;
    fn resolve(params: &mut DcSimParams, facts: &NetworkFacts) {
        params.resolve(facts);
    }
}

impl Scheduling for DcSim {
    fn build(setup: &SchedSetup<'_>) -> Self {
        Self::new(setup)
    }

    fn serves_prio() -> bool {
        true
    }

    /// A probe and its answer; reports are few.
    fn control_packets(params: &SchedParams, segments: u64, _acks: u64) -> u64 {
        segments.div_ceil(u64::from(params.dcsim.per_sim.max(1))).saturating_mul(2)
    }
}

impl Sending for DcSim {
    fn on_open(&mut self, flow: FlowId, peer: HostId, path: &Path, label: Label) {
        self.sender.on_open(flow, peer, path, label);
    }

    fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, now: Instant) {
        self.sender.on_backlog(flow, backlog, now, &mut self.figures);
    }

    fn next_turn(&mut self, now: Instant, _until: Instant) -> Option<Turn> {
        if !self.line.is_free(now + self.ahead) {
            return None;
        }
        let start = self.line.start(self.sender.data_since()?);
        // This DATA was released too soon where packets are handed over less far ahead than before.
        if start > now + self.ahead || self.is_behind_sim(start, now) {
            return None;
        }
        let at = (start > now).then_some(start);
        let (flow, choice) = if self.sender.has_due() {
            let due = self.sender.next_due(&mut self.figures)?;
            (due.flow, Choice { ev: Some(due.port.ev), at, nth: due.nth, ..Choice::default() })
        } else {
            let (flow, ev) = self.sender.next_copy()?;
            (flow, Choice { ev: Some(ev), at, copy: true, ..Choice::default() })
        };
        Some(Turn::chosen(flow, choice))
    }

    fn on_sent(
        &mut self,
        _flow: FlowId,
        segment: &mut TxSegment,
        _backlog: impl FnOnce() -> Backlog,
        now: Instant,
    ) {
        let len = self.sizes.of(&segment.hdr, segment.payload.len);
        if let Some(due) = self.sender.on_sent(&mut self.figures) {
            let start = self.line.occupy(len, due.at);
            self.figures.departure_error.note(start.max(now).since(due.at));
            self.figures.departure_lateness.note(now.since(start));
        } else if let Some(since) = self.sender.on_copied() {
            self.line.occupy(len, since);
        }
    }

    fn holds(&self, flow: FlowId) -> bool {
        self.sender.holds(flow)
    }

    fn send_ahead(&mut self, horizon: Duration) {
        self.ahead = horizon.min(self.constants.rtt_max / AHEAD_SHARE);
        self.sender.send_ahead(self.ahead);
    }
}

impl Receiving for DcSim {
    fn on_arrival(&mut self, _flow: FlowId, _arrival: &Arrival<'_>, _now: Instant) {}

    fn on_forgotten(&mut self, _flow: FlowId) {}

    fn ack_mode(&self) -> AckMode {
        AckMode::Paced { segments: self.ack_every, delay: self.constants.rtt_p * ACK_DELAY_RTTS }
    }

    fn rto_min(&self) -> Duration {
        self.constants.rtt_max * TIMER_RTTS
    }

    fn may_acknowledge(&mut self, len: u16, now: Instant) -> bool {
        let free = self.line.is_free(now + self.ahead);
        if free {
            // It became due after the call before, and would have left then.
            let since = self.asked_before;
            self.line.occupy_before(len, since, self.sender.data_since());
        }
        self.acks_wait = !free;
        free
    }
}

impl Protocol for DcSim {
    fn on_control(&mut self, _: FlowId, _: HostId, _: &Header, _: Instant) -> bool {
        false
    }

    /// Answers a SIM of any host and for any flow; takes a SIM-ACK if it answers a SIM that waits
    /// for one.
    fn on_host_control(
        &mut self,
        from: HostId,
        hdr: &Header,
        note: &Note,
        now: Instant,
    ) -> Result<(), DropReason> {
        let used = match (note.class, Sim::of(note)) {
            (TrafficClass::Probe, Some(sim)) => {
                if self.answers.len() < self.answers_max(now) {
                    self.answers.push_back(DueAnswer { to: from, ev: hdr.ev, sim, since: now });
                } else {
                    self.figures.sims.unanswered += 1;
                }
                true
            }
            (TrafficClass::ProbeAck, Some(ack)) => {
                self.sender.on_sim_ack(from, hdr.ev, &ack, now, &mut self.figures)
            }
            _ => false,
        };
        if used { Ok(()) } else { Err(DropReason::BadSegment) }
    }

    /// Sends SIMs and SIM-ACKs, the two classes before acknowledgements, while the line is free.
    /// Packets that are handed over ahead go in the order of their starts, and packets that start
    /// together in the order of their classes.
    fn poll_control(&mut self, now: Instant, _until: Instant, out: &mut Burst<TxSegment>) {
        self.acks_wait = false;
        self.asked(now);
        self.sender.fill(now);
        let until = now + self.ahead;
        if self.ahead > Duration::ZERO {
            // What is handed over takes the line in the order of its starts, so all that starts by
            // `until` has to be known before.
            self.sender.release_ripe(now);
        }
        while out.room() > 0 && self.line.is_free(until) {
            let data = self.sender.data_since();
            let answer = self.answers.front().map(|answer| answer.since.min(now));
            let starts = |since| self.line.start(since).max(now);
            let answer_starts = answer.map_or(Instant::FAR_FUTURE, starts);
            let sim_at = self.sim_at();
            let sim_starts = sim_at.max(now);
            if data.is_some_and(|since| starts(since) < sim_starts.min(answer_starts)) {
                return;
            }
            if sim_starts <= until.min(answer_starts) {
                let Some((peer, ev, sim)) = self.sender.next_sim(sim_starts) else {
                    self.sender.fill(now);
                    continue;
                };
                self.line.take_token(sim_at);
                self.line.occupy_before(self.sim_len, sim_at, data);
                self.figures.sims.sent += 1;
                push(out, sim.probe(), (peer, ev), (sim_starts, now));
                // The next SIM would have waited since this one left, had the call not been late.
                self.sender.fill(sim_at);
            } else if let Some(DueAnswer { to, ev, sim, since }) = self.answers.pop_front() {
                self.line.occupy_before(self.sim_len, since, data);
                self.figures.sims.answered += 1;
                push(out, sim.answer(), (to, ev), (answer_starts, now));
            } else {
                return;
            }
        }
    }

    // Asked in each turn of a host, so without iterators: they cost a simulation 4 % of its time.
    fn poll_timeout(&self) -> Option<Instant> {
        let waits = self.acks_wait || !self.answers.is_empty();
        let line = match self.sender.data_since() {
            _ if waits => self.line.free_at(),
            Some(since) => self.line.start(since).min(self.sim_at()),
            None => self.sim_at(),
        };
        let line = if line < Instant::FAR_FUTURE { line.before(self.ahead) } else { line };
        let mut at = self.sender.poll_at();
        // A driver that had no room for a packet at that instant polls again when it has.
        if line > self.asked_at {
            at = at.min(line);
        }
        (at < Instant::FAR_FUTURE).then_some(at)
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.asked(now);
        self.sender.handle_timeout(now, &mut self.line, &mut self.figures);
    }

    fn next_given_up(&mut self) -> Option<FlowId> {
        self.sender.next_given_up()
    }
}
