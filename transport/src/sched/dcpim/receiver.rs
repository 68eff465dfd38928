//! The receiving side: which sources owe segments, the channels asked of them and taken, and the
//! tokens sent over these channels.

use alloc::vec;
use alloc::vec::Vec;

use super::places::Places;
use super::stages::Stages;
use super::{Early, Matching, Outbox};
use crate::rng::Rng;
use crate::sched::SchedSetup;
use crate::sched::tokens::{Issuer, TokenConstants};
use crate::time::{Duration, Instant};
use crate::units::{FlowId, HostId};
use crate::wire::dcpim::{MatchStep, Offer};

/// Channels from one source, and the tokens that go over them.
#[derive(Clone, Copy, Debug, Default)]
struct SourceChannels {
    channels: u8,
    /// When the next token may leave.
    at: Instant,
    /// True when no flow of the source may have a token now.
    idle: bool,
    /// When a flow of the source may have a token, if nothing arrives before.
    wake: Option<Instant>,
}

impl SourceChannels {
    /// Begins, with as many channels more.
    fn open(&mut self, channels: u8, now: Instant) {
        (self.idle, self.wake, self.at) = (false, None, self.at.max(now));
        self.channels += channels;
    }

    /// A flow may have become ready.
    fn stir(&mut self, now: Instant) {
        if self.idle {
            (self.idle, self.wake, self.at) = (false, None, self.at.max(now));
        }
    }

    fn due(&self) -> Option<Instant> {
        if self.channels == 0 {
            None
        } else if self.idle {
            self.wake
        } else {
            Some(self.at)
        }
    }
}

/// A source that owes segments, or of which channels are taken.
#[derive(Clone, Copy, Debug, Default)]
struct Owing {
    /// A bit for each round of the epoch in which the source was asked and has granted nothing, and
    /// the bits of the epoch before.
    asked: [u32; 2],
    /// Requests in a row without an answer or a segment.
    unanswered: u32,
    /// The first round in which the source may be asked again.
    ask_from: u64,
    /// Channels taken for the next epoch.
    next: u8,
    /// Channels of this epoch.
    now: SourceChannels,
    /// Channels of the next epoch that are used already.
    early: SourceChannels,
}

impl Owing {
    /// The source has answered, or a segment of it has come: it may be asked in each round again.
    fn answered(&mut self) {
        (self.unanswered, self.ask_from) = (0, 0);
    }

    /// Whether no channel is taken.
    const fn is_free(&self) -> bool {
        self.next == 0 && self.now.channels == 0 && self.early.channels == 0
    }
}

/// A grant that waits for the end of its round.
#[derive(Clone, Copy, Debug)]
struct Offered {
    from: HostId,
    offer: Offer,
    tie: u32,
}

/// The receiving side of one host.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    matching: Matching,
    constants: TokenConstants,
    /// Tokens that may be outstanding over all channels.
    window: u32,
    pub(super) issuer: Issuer,
    places: Places,
    /// By place.
    owing: Vec<Owing>,
    /// Places of which channels are taken.
    linked: Vec<u32>,
    offers: Vec<Offered>,
    /// Channels taken for the next epoch, how many of these are used already, and channels of this
    /// epoch.
    next: u8,
    early: u8,
    now: u8,
    /// The epoch that is being matched.
    epoch: u64,
    /// When a source may have to be asked.
    quiet_until: Instant,
    /// The random number of this epoch's requests, and that of the epoch before.
    nonce: u32,
    nonce_before: u32,
    rng: Rng,
}

/// Requests in a row without an answer after which a source is asked less often. Up to this number
/// it counts as late and not as gone.
const PATIENT: u32 = 256;
/// Doublings of the time between requests at most.
const DOUBLINGS_MAX: u32 = 12;
/// Grants of a round that are kept at most.
const OFFERS_MAX: usize = 4096;
/// No source needs to be asked.
const NEVER: Instant = Instant::from_ps(u64::MAX);

impl Receiver {
    pub(super) fn new(
        setup: &SchedSetup<'_>,
        matching: Matching,
        constants: TokenConstants,
        (window, timeout): (u32, Duration),
    ) -> Self {
        let flows = setup.rx_flows_max as usize;
        let mut rng = setup.rng.fork("dcpim.receiver", setup.host.0.into());
        let nonce = rng.next_u32();
        // A channel that is taken keeps the place of its source.
        let linked = usize::from(matching.channels) * (usize::from(matching.rounds) + 2);
        Self {
            matching,
            constants,
            window,
            issuer: Issuer::new(setup, timeout, u32::MAX),
            places: Places::new(flows, linked),
            owing: vec![Owing::default(); flows + linked],
            linked: Vec::with_capacity(linked),
            offers: Vec::with_capacity(flows.min(OFFERS_MAX)),
            next: 0,
            early: 0,
            now: 0,
            epoch: 0,
            quiet_until: NEVER,
            nonce,
            nonce_before: nonce,
            rng,
        }
    }

    /// Puts a flow among those of its source that want tokens, or takes it out, and lets tokens go
    /// on.
    pub(super) fn review(&mut self, flow: FlowId, from: HostId, now: Instant) {
        let index = flow.index();
        let owing = &self.owing;
        let idle = |place| owing[place as usize].is_free();
        let wants = self.issuer.needs(index) > 0;
        let Some((place, new)) = self.places.set(index, from, wants, idle) else { return };
        let owing = &mut self.owing[place as usize];
        if new {
            *owing = Owing::default();
        }
        owing.answered();
        self.quiet_until = self.quiet_until.min(now);
        owing.now.stir(now);
        if self.matching.early == Early::Tokens {
            owing.early.stir(now);
        }
        if owing.now.channels > 0 || owing.early.channels > 0 {
            self.run(place, now);
        }
    }

    pub(super) fn on_forgotten(&mut self, flow: FlowId) {
        self.issuer.on_forgotten(flow);
        self.places.set(flow.index(), HostId(0), false, |_| false);
    }

    /// The segments that a source owes without a token, the shortest flow with such segments, and
    /// when other flows of the source will want tokens again.
    fn owed(&self, place: u32, now: Instant) -> (u64, Option<(u64, usize)>, Option<Instant>) {
        let (mut owed, mut shortest, mut later) = (0, None, None);
        for index in self.places.flows(place) {
            match self.issuer.wants(index, now) {
                Ok(segments) => {
                    owed += u64::from(segments);
                    let rank = Some((self.issuer.rank(index), index));
                    shortest = if shortest.is_none() { rank } else { shortest.min(rank) };
                }
                Err(at) => later = Some(later.map_or(at, |before: Instant| before.min(at))),
            }
        }
        (owed, shortest, later)
    }

    /// Asks every source that owes more than its channels carry for others: the first half of a
    /// round.
    pub(super) fn ask(&mut self, stages: &Stages, stage: u64, out: &mut Outbox) {
        let (round, at) = (stage / 2, stages.start(stage));
        let room = self.matching.channels - self.next;
        let room_early = self.matching.room_early(self.now + self.early);
        if room == 0 {
            return;
        }
        let owing = &self.owing;
        self.places.forget(|place| owing[place as usize].is_free());
        self.quiet_until = NEVER;
        for number in 0..self.places.len() {
            let (host, place) = self.places.nth(number);
            let (owed, shortest, later) = self.owed(place, at);
            let Some((rank, index)) = shortest else {
                self.quiet_until = self.quiet_until.min(later.unwrap_or(NEVER));
                continue;
            };
            let owing = &mut self.owing[place as usize];
            if owing.ask_from > round {
                self.quiet_until = self.quiet_until.min(stages.start(2 * owing.ask_from));
                continue;
            }
            self.quiet_until = self.quiet_until.min(at);
            let wanted = owed.div_ceil(self.matching.per_channel.max(1));
            let wanted = wanted.saturating_sub((owing.now.channels + owing.next).into());
            let channels = u8::try_from(wanted).unwrap_or(u8::MAX).min(room);
            if channels == 0 {
                continue;
            }
            owing.asked[0] |= 1 << stages.in_epoch(round);
            owing.unanswered = owing.unanswered.saturating_add(1);
            if let Some(times) = owing.unanswered.checked_sub(PATIENT) {
                owing.ask_from = round + (1 << times.min(DOUBLINGS_MAX));
            }
            let left = u32::try_from(rank >> 32).unwrap_or(u32::MAX);
            let flow = self.issuer.src_flow(index);
            let early = channels.min(room_early);
            #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
            let (round, asked) = (round as u32, self.nonce);
            let (step, stage, granted) = (MatchStep::Request, 0, 0);
            let offer =
                Offer { step, channels, early, round, stage, left, flow, place, asked, granted };
            out.put(host, offer);
        }
    }

    /// Takes in a source's grant of channels. False when they were not asked for in this epoch or
    /// the one before; a grant that comes again is ignored.
    pub(super) fn on_grant(&mut self, from: HostId, offer: &Offer, in_epoch: u64) -> bool {
        let nonces = [self.nonce, self.nonce_before];
        let asked = nonces.iter().position(|nonce| *nonce == offer.asked);
        let Some(asked) = asked.filter(|_| self.places.host(offer.place) == Some(from)) else {
            return false;
        };
        let owing = &mut self.owing[offer.place as usize];
        let bit = 1 << in_epoch;
        let full = self.offers.len() == self.offers.capacity();
        if owing.asked[asked] & bit == 0 || full {
            return true;
        }
        owing.asked[asked] &= !bit;
        owing.answered();
        let tie = self.rng.next_u32();
        self.offers.push(Offered { from, offer: *offer, tie });
        true
    }

    /// Takes what was granted, as far as there are channels: the end of a round.
    pub(super) fn accept(&mut self, stages: &Stages, stage: u64, out: &mut Outbox) {
        let (round, at) = ((stage / 2).saturating_sub(1), stages.start(stage));
        let by_size = self.matching.by_size(stages.in_epoch(round));
        self.offers.sort_unstable_by_key(|offered| {
            (if by_size { offered.offer.left } else { 0 }, offered.tie)
        });
        for number in 0..self.offers.len() {
            let Offered { from, offer, .. } = self.offers[number];
            if self.places.host(offer.place) != Some(from) {
                // Another source has the place by now.
                continue;
            }
            let channels = offer.channels.min(self.matching.channels - self.next);
            if channels == 0 {
                break;
            }
            let room_early = self.matching.room_early(self.now + self.early);
            let early = offer.early.min(channels).min(room_early);
            self.next += channels;
            self.early += early;
            self.link(offer.place);
            let owing = &mut self.owing[offer.place as usize];
            owing.next += channels;
            if early > 0 {
                owing.early.open(early, at);
            }
            out.answer(from, &offer, MatchStep::Accept, (channels, early));
        }
        self.offers.clear();
    }

    fn link(&mut self, place: u32) {
        if !self.linked.contains(&place) {
            self.linked.push(place);
        }
    }

    /// A source takes back channels that it granted in `epoch`, or has nothing to send in the flow
    /// of `offer`, whose `left` is then 0. False when it was not asked in this epoch or the one
    /// before.
    pub(super) fn on_return(&mut self, from: HostId, offer: &Offer, epoch: u64) -> bool {
        let nonces = [self.nonce, self.nonce_before];
        if self.places.host(offer.place) != Some(from) || !nonces.contains(&offer.asked) {
            return false;
        }
        if offer.left == 0 {
            self.end(offer);
            let owes = self.places.flows(offer.place).next().is_some();
            let owing = &mut self.owing[offer.place as usize];
            owing.answered();
            if owes {
                // The next round asks for the flows that are left.
                self.quiet_until = Instant::ZERO;
            } else {
                // What the source may grant yet is left to others.
                owing.asked = [0; 2];
                self.offers.retain(|offered| offered.offer.place != offer.place);
            }
            return true;
        }
        let owing = &mut self.owing[offer.place as usize];
        if epoch == self.epoch || owing.now.channels == 0 {
            let early = offer.early.min(owing.early.channels);
            let channels = offer.channels.min(owing.next);
            owing.early.channels -= early;
            owing.next -= channels;
            (self.next, self.early) = (self.next - channels, self.early - early);
        } else {
            let channels = offer.channels.min(owing.now.channels);
            owing.now.channels -= channels;
            self.now -= channels;
        }
        true
    }

    /// The source has nothing to send in the flow of `offer`, and so no use for tokens.
    fn end(&mut self, offer: &Offer) {
        let named = |index: &usize| self.issuer.src_flow(*index) == offer.flow;
        let gone = self.places.flows(offer.place).find(named);
        if let Some(index) = gone {
            self.issuer.end(index);
            self.places.set(index, HostId(0), false, |_| false);
        }
    }

    /// Begins to match `epoch`: what was matched in the one before carries segments from now on,
    /// unless that one was missed.
    pub(super) fn begin(&mut self, epoch: u64, at: Instant) {
        let missed = epoch > self.epoch + 1;
        let owing = &mut self.owing;
        self.linked.retain(|place| {
            let owing = &mut owing[*place as usize];
            let channels = if missed { 0 } else { owing.next };
            owing.now = SourceChannels::default();
            owing.now.open(channels, at);
            (owing.next, owing.early) = (0, SourceChannels::default());
            channels > 0
        });
        for (_, place) in self.places.iter() {
            let asked = &mut owing[place as usize].asked;
            *asked = [0, if missed { 0 } else { asked[0] }];
        }
        self.now = if missed { 0 } else { self.next };
        (self.next, self.early, self.epoch) = (0, 0, epoch);
        self.nonce_before = core::mem::replace(&mut self.nonce, self.rng.next_u32());
        self.offers.clear();
    }

    /// Sends the tokens that are due by `now`.
    pub(super) fn issue(&mut self, now: Instant) {
        for number in 0..self.linked.len() {
            self.run(self.linked[number], now);
        }
    }

    /// Sends the tokens of one source that are due by `now`.
    fn run(&mut self, place: u32, now: Instant) {
        let mut links = [self.owing[place as usize].now, self.owing[place as usize].early];
        for link in &mut links {
            self.run_link(link, place, now);
        }
        let owing = &mut self.owing[place as usize];
        [owing.now, owing.early] = links;
    }

    fn run_link(&mut self, link: &mut SourceChannels, place: u32, now: Instant) {
        if link.due().is_none_or(|at| at > now) {
            return;
        }
        link.idle = false;
        // Tokens that a late call did not send are not made up for beyond a round trip.
        let floor = now.as_ps().saturating_sub(self.constants.base_rtt.as_ps());
        link.at = link.at.max(Instant::from_ps(floor)).max(link.wake.take().unwrap_or(link.at));
        let (of_all, all) = (u64::from(link.channels), u64::from(self.matching.channels));
        let window = u64::from(self.window) * of_all / all;
        let window = u32::try_from(window).unwrap_or(u32::MAX).max(1);
        // Bounded: each turn moves `at` on.
        while link.at <= now {
            match self.ready(place, window, now) {
                Ok(index) => {
                    let most = self.constants.per_credit;
                    let (_, tokens) = self.issuer.issue_up_to(most, index, window, now);
                    link.at += self.constants.until_next(tokens).mul_ratio(all, of_all);
                }
                Err(wake) => {
                    (link.idle, link.wake) = (true, wake);
                    return;
                }
            }
        }
    }

    /// The flow of a source with the least left that may have a token now, or when a flow may have
    /// one. O(flows of the source that want tokens).
    fn ready(&self, place: u32, window: u32, now: Instant) -> Result<usize, Option<Instant>> {
        let (mut best, mut wake): (Option<(u64, usize)>, _) = (None, None);
        for index in self.places.flows(place) {
            match self.issuer.ready_at(index, window) {
                Some(at) if at <= now => {
                    let rank = (self.issuer.rank(index), index);
                    best = Some(best.map_or(rank, |before| before.min(rank)));
                }
                Some(at) => wake = Some(wake.map_or(at, |before: Instant| before.min(at))),
                None => {}
            }
        }
        best.map(|(_, index)| index).ok_or(wake)
    }

    /// When tokens are due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let due = |place: &u32| {
            let owing = &self.owing[*place as usize];
            [owing.now.due(), owing.early.due()].into_iter().flatten().min()
        };
        self.linked.iter().filter_map(due).min()
    }

    /// From when on a round is needed: now for channels and grants that wait, later for sources
    /// that are to be asked again.
    pub(super) fn rounds_from(&self) -> Option<Instant> {
        if self.next > 0 || !self.offers.is_empty() {
            return Some(Instant::ZERO);
        }
        (self.quiet_until < NEVER).then_some(self.quiet_until)
    }

    /// Channels taken for the next epoch, how many of these are used early, and channels of this
    /// epoch.
    #[cfg(test)]
    pub(super) const fn taken(&self) -> (u64, u8, u8, u8) {
        (self.epoch, self.next, self.early, self.now)
    }

    /// Requests in a row to the source at `place` that have no answer.
    #[cfg(test)]
    pub(super) fn unanswered(&self, place: usize) -> u32 {
        self.owing[place].unanswered
    }
}
