//! dcPIM: hosts match senders and receivers in rounds, and each receiver sends tokens over the
//! channels that it has been matched to.
//!
//! Source: \[dcpim\] sec. 3; the public dcPIM simulator for constants and for the early use of
//! channels. A host has k channels in each direction, each a k-th of its link. An epoch of r rounds
//! matches while the channels of the epoch before carry segments:
//!
//! ```text
//!   receiver (receiver.rs)                 source (source.rs)
//!   round begins: owed segments
//!     --request: channels, shortest flow-->
//!                                          half a round later: gives its channels, in the first
//!     <--grant: some of them-------------- round to the shortest flows, later at random
//!   round ends: takes grants likewise
//!     --accept-------------------------->
//!   epoch ends: tokens at the rate of the channels, each for one segment (tokens.rs)
//! ```
//!
//! Flows of no more than a BDP leave at once and without tokens. Channels of the next epoch that
//! neither end needs in this one are used early. dcPIM decides no path and infers no loss.
// DEVIATION(dcpim#3): the paper gives tokens and blind flows priorities in the network; here hosts
// alone prefer the flow with the least left, and switches have control above data.

mod places;
mod receiver;
mod source;
mod stages;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::tokens::{Spender, TokenConstants, Unrequested, spends_tokens};
use super::{AckMode, Arrival, Protocol, Receiving, SchedSetup, Scheduling};
use crate::params::{params, words};
use crate::path::NetworkFacts;
use crate::registry::Registered;
use crate::segment::{Burst, PayloadRef, TxSegment};
use crate::stats::DropReason;
use crate::time::{Duration, Instant};
use crate::units::{EntropyValue, FlowId, HostId};
use crate::wire::dcpim::{MatchStep, Offer};
use crate::wire::{Body, Header, Note, data};
use receiver::Receiver;
use source::{Requested, Source};
use stages::Stages;

words! {
    /// How channels are used before their epoch begins.
    pub enum Early: "off, windows or tokens" {
        /// Channels are not used early.
        Off = "off",
        /// A window of tokens, and another after each timeout, as in the public simulator.
        Windows = "windows",
        /// Tokens go out early as in the epoch of the channels.
        Tokens = "tokens",
    }
}

params! {
    /// Settings of [`DcPim`].
    pub struct DcPimParams {
        /// Round trip of a message, of which a round is made, and the BDP of flows that leave at
        /// once; auto: that of the network's longest path, without the time to send packets.
        rtt: Option<Duration> = None, of_network "auto";
        /// Round trip of a token and its segment, of which the BDP of a window is made; auto: that
        /// of the path that holds most.
        token_rtt: Option<Duration> = None, of_network "auto";
        /// Channels of a host in each direction, k.
        channels: u16 = 4, in 1..=64;
        /// Rounds of an epoch, r. A single round would leave no time for a message that is late.
        rounds: u16 = 4, in 2..=16;
        /// Length of a round in round trips, beta.
        slack: f32 = 1.3, in 1.0..=16.0;
        /// Rounds of an epoch, from its first, in which the shortest flow goes first.
        by_size: u16 = 1, in 0..=16;
        /// Whether channels of the next epoch that are not needed in this one are used early.
        early: Early = Early::Windows;
        /// Flows that leave at once, in BDPs.
        short: f32 = 1.0, in 0.0..=16.0;
        /// Tokens that may be outstanding over all channels, in BDPs.
        window: f32 = 1.0, in 0.01..=16.0;
        /// Silence after which tokens are taken for dead, in the time that a BDP takes to send.
        timeout: f32 = 1.1, in 1.0..=64.0;
        /// How long a token lives at the sender, in the time that a full segment takes to send.
        life: u16 = 8, in 1..=4096;
        /// Segments that one acknowledgement answers.
        ack_every: u16 = 16, in 1..=64;
    }
}

/// The constants of the matching at one host.
#[derive(Clone, Copy, Debug)]
struct Matching {
    channels: u8,
    rounds: u8,
    by_size: u8,
    early: Early,
    /// Segments that a channel carries in an epoch.
    per_channel: u64,
}

impl Matching {
    /// Whether the shortest flow goes first in a round, counted from 0 in its epoch.
    fn by_size(&self, in_epoch: u64) -> bool {
        in_epoch < self.by_size.into()
    }

    /// Channels that may be used early where `used` are taken.
    fn room_early(&self, used: u8) -> u8 {
        match self.early {
            Early::Off => 0,
            Early::Windows | Early::Tokens => self.channels.saturating_sub(used),
        }
    }
}

/// Messages of the matching that wait until they leave.
#[derive(Clone, Debug)]
struct Outbox {
    messages: VecDeque<(HostId, Offer)>,
    /// The stage in which messages leave that are put in now.
    stage: u64,
}

impl Outbox {
    fn new(capacity: usize) -> Self {
        Self { messages: VecDeque::with_capacity(capacity), stage: 0 }
    }

    /// Adds a message if there is room; without room it is lost, as any message may be.
    fn put(&mut self, to: HostId, offer: Offer) {
        if self.messages.len() < self.messages.capacity() {
            #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
            let stage = self.stage as u32;
            self.messages.push_back((to, Offer { stage, ..offer }));
        }
    }

    /// The next step after `offer`, for so many channels.
    fn answer(&mut self, to: HostId, offer: &Offer, step: MatchStep, (channels, early): (u8, u8)) {
        self.put(to, Offer { step, channels, early, ..*offer });
    }
}

/// The scheduler of one host.
#[derive(Clone, Debug)]
pub struct DcPim {
    constants: TokenConstants,
    ack_every: u16,
    stages: Stages,
    /// The next stage to go through.
    next_stage: u64,
    /// When that begins.
    next_at: Instant,
    spender: Spender,
    source: Source,
    receiver: Box<Receiver>,
    outbox: Outbox,
    /// The first stage in which a request for a flow that is not here may be answered.
    disowns_from: u64,
    /// Paths that messages take in turn.
    evs: [EntropyValue; 8],
    sent: usize,
}

/// Messages that wait to leave at most, beside one for each source.
const OUTBOX_MIN: usize = 256;

/// The shortest round that matches anything: each of its two messages may find two segments in
/// front of it at its host and another one at each link. The base RTT has the time of one segment
/// at each link, beside what a message without any takes, `rtt`.
fn slowest_round(setup: &SchedSetup<'_>, rtt: Duration) -> Duration {
    let behind = setup.base_rtt.saturating_sub(rtt) + setup.line_rate.time_for(setup.mtu) * 2;
    rtt + behind * 2
}

impl DcPim {
    /// A scheduler without flows.
    #[must_use]
    pub fn new(setup: &SchedSetup<'_>) -> Self {
        let params = &setup.params.dcpim;
        let constants = TokenConstants::new(setup, params.token_rtt, params.life.into());
        let rtt = params.rtt.unwrap_or(setup.base_rtt);
        //= dcpim#3
        let round = rtt.scaled(f64::from(params.slack)).max(slowest_round(setup, rtt));
        let stages = Stages::new(round, params.rounds.into());
        let packets = stages.epoch().as_ps() / constants.packet_time.as_ps().max(1);
        let small = |value: u16| u8::try_from(value).unwrap_or(u8::MAX);
        let matching = Matching {
            channels: small(params.channels),
            rounds: small(params.rounds),
            by_size: small(params.by_size),
            early: params.early,
            per_channel: (packets / u64::from(params.channels)).max(1),
        };
        // No more leaves at once than the path that holds most has room for.
        let first =
            TokenConstants::within(setup, rtt, params.short).min(constants.window(params.short));
        let tokens =
            (constants.window(params.window), constants.time(constants.bdp, params.timeout));
        Self {
            constants,
            ack_every: params.ack_every,
            stages,
            next_stage: 0,
            next_at: Instant::ZERO,
            spender: Spender::new(setup, Unrequested::Short(first), constants.life),
            source: Source::new(setup, matching),
            receiver: Box::new(Receiver::new(setup, matching, constants, tokens)),
            outbox: Outbox::new(setup.rx_flows_max as usize + OUTBOX_MIN),
            disowns_from: 0,
            evs: setup.control_evs,
            sent: 0,
        }
    }

    /// Performs all stages that have begun by `now`. Bounded by the stages of two epochs: all
    /// earlier matches are over.
    fn advance(&mut self, now: Instant) {
        if now < self.next_at {
            return;
        }
        let stage = self.stages.at(now);
        self.next_stage = self.next_stage.max(stage.saturating_sub(2 * self.stages.of_epoch()));
        while self.next_stage <= stage {
            let at = self.next_stage;
            self.next_stage += 1;
            self.outbox.stage = stage;
            self.go_through(at, at + 1 >= stage);
        }
        self.next_at = self.stages.start(self.next_stage);
    }

    /// Performs one stage. In a stage that is over no source is asked.
    fn go_through(&mut self, stage: u64, lasts: bool) {
        let round = stage / 2;
        if stage % 2 == 1 {
            return self.source.grant(&self.stages, stage, &mut self.outbox);
        }
        self.receiver.accept(&self.stages, stage, &mut self.outbox);
        if self.stages.in_epoch(round) == 0 {
            self.receiver.begin(self.stages.epoch_of(round), self.stages.start(stage));
        }
        if lasts {
            self.receiver.ask(&self.stages, stage, &mut self.outbox);
        }
    }

    /// The instant of the next stage in which this host has something to do.
    fn stage_at(&self) -> Option<Instant> {
        let grants = self.source.waits().then_some(self.next_stage | 1);
        let rounds = self.receiver.rounds_from().map(|from| {
            let next = self.next_stage.max(self.stages.at(from));
            next + next % 2
        });
        [grants, rounds].into_iter().flatten().min().map(|stage| self.stages.start(stage))
    }

    /// Answers a request that names a flow which is not here, such as one of an earlier process of
    /// this host. A receiver asks for the shortest flow that it has of a source. If that flow is
    /// gone, no other flow of the source gets channels until the receiver has forgotten it. At most
    /// one such answer leaves in a stage, since any host can cause it.
    fn disown(&mut self, from: HostId, offer: &Offer, now: Instant) {
        let stage = self.stages.at(now);
        if stage >= self.disowns_from {
            self.disowns_from = stage + 1;
            self.outbox.answer(from, &Offer { left: 0, ..*offer }, MatchStep::Return, (0, 0));
        }
    }

    /// Takes in a message of the matching, unless it is an answer to nothing.
    fn on_offer(&mut self, from: HostId, offer: &Offer, now: Instant) -> Result<(), DropReason> {
        let round = Stages::near(offer.round, self.stages.at(now) / 2);
        let epoch = self.stages.epoch_of(round);
        let known = match offer.step {
            MatchStep::Request | MatchStep::Accept if !self.spender.has(offer.flow, from) => {
                if offer.step == MatchStep::Request {
                    self.disown(from, offer, now);
                }
                return Err(DropReason::UnknownFlow);
            }
            MatchStep::Request | MatchStep::Accept => true,
            MatchStep::Grant => self.receiver.on_grant(from, offer, self.stages.in_epoch(round)),
            MatchStep::Return => self.receiver.on_return(from, offer, epoch),
        };
        if !known {
            return Err(DropReason::BadSegment);
        }
        self.stages.follow(offer.stage, now);
        self.next_at = self.stages.start(self.next_stage);
        self.advance(now);
        if round > self.stages.at(now) / 2 {
            // The sender has not begun that round: otherwise this host would have followed its
            // clock.
            return Err(DropReason::BadSegment);
        }
        match offer.step {
            MatchStep::Request => self.on_request(from, offer, round, epoch),
            MatchStep::Accept => self.source.on_accept(from, offer, round, &mut self.outbox),
            MatchStep::Grant | MatchStep::Return => {}
        }
        Ok(())
    }

    /// A receiver asks for channels in the name of a flow that is here.
    fn on_request(&mut self, from: HostId, offer: &Offer, round: u64, epoch: u64) {
        match self.source.on_request(from, *offer, round, epoch) {
            // The flow was given up, or is finished and the report of that was lost. The return
            // ends its needs, and channels are granted for other flows from this host to the
            // receiver, which declines them if there are none.
            Requested::Waits if self.spender.is_idle(offer.flow) => {
                let ended = Offer { left: 0, ..*offer };
                self.outbox.answer(from, &ended, MatchStep::Return, (0, 0));
            }
            // The sender is behind, and follows the clock of the answer.
            Requested::Late => self.outbox.answer(from, offer, MatchStep::Return, (0, 0)),
            Requested::Waits | Requested::Again => {}
        }
    }
}

impl Registered for DcPim {
    const ABOUT: &'static str =
        "senders and receivers matched in rounds, tokens over the channels matched, as dcPIM";
    type Params = DcPimParams;
    fn resolve(params: &mut DcPimParams, facts: &NetworkFacts) {
        params.rtt = facts.propagation_rtt.or(params.rtt);
        params.token_rtt = facts.loop_rtt.or(params.token_rtt);
    }
}

impl Scheduling for DcPim {
    fn build(setup: &SchedSetup<'_>) -> Self {
        Self::new(setup)
    }

    fn serves_prio() -> bool {
        true
    }

    fn data_overhead() -> u16 {
        data::DEMAND_LEN
    }
}

spends_tokens!(DcPim);

impl Receiving for DcPim {
    fn on_arrival(&mut self, flow: FlowId, arrival: &Arrival<'_>, now: Instant) {
        self.advance(now);
        self.receiver.issuer.on_arrival(flow, arrival);
        self.receiver.review(flow, arrival.from, now);
    }

    fn on_forgotten(&mut self, flow: FlowId) {
        self.receiver.on_forgotten(flow);
    }

    fn ack_mode(&self) -> AckMode {
        self.constants.ack_mode(self.ack_every)
    }

    fn rto_min(&self) -> Duration {
        self.constants.rto_min()
    }
}

impl Protocol for DcPim {
    fn on_control(&mut self, flow: FlowId, from: HostId, hdr: &Header, now: Instant) -> bool {
        match hdr.body {
            Body::Credit(credit) => self.spender.on_credit(flow, credit.upto, now),
            Body::Request(request) => {
                self.advance(now);
                let taken = self.receiver.issuer.on_request(flow, from, &request, hdr.ev);
                self.receiver.review(flow, from, now);
                taken
            }
            _ => false,
        }
    }

    fn on_host_control(
        &mut self,
        from: HostId,
        _: &Header,
        note: &Note,
        at: Instant,
    ) -> Result<(), DropReason> {
        self.advance(at);
        let offer = Offer::of(note).ok_or(DropReason::BadSegment)?;
        self.on_offer(from, &offer, at)
    }

    fn poll_control(&mut self, _now: Instant, _until: Instant, out: &mut Burst<TxSegment>) {
        self.receiver.issuer.poll_control(out);
        self.spender.poll_control(out);
        while out.room() > 0 {
            let Some((peer, offer)) = self.outbox.messages.pop_front() else { return };
            let ev = self.evs[self.sent % self.evs.len()];
            self.sent = self.sent.wrapping_add(1);
            let hdr = Header::new(ev, FlowId::UNKNOWN, Body::Note(offer.note()));
            out.push(TxSegment { hdr, payload: PayloadRef::NONE, peer });
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let timers = [self.stage_at(), self.receiver.poll_timeout(), self.spender.poll_timeout()];
        timers.into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        self.receiver.issue(now);
        self.spender.handle_timeout(now);
    }

    fn next_given_up(&mut self) -> Option<FlowId> {
        self.spender.next_given_up()
    }
}
