//! Flows that one end has forgotten: how the other end is notified, and what becomes of messages.
//!
//! ```text
//!   sender                              receiver
//!     |  DATA for flow 7 with its key      |
//!     | ---------------------------------> |  restarted, or has forgotten flow 7
//!     |  PRESENCE: flow 7 is unknown       |
//!     | <--------------------------------- |
//!     |  OPEN of the flow with a new key   |
//!     | ---------------------------------> |
//! ```
//!
//! When a packet names a flow that is not here, the receiver answers with that name and the
//! packet's key. The answer is no longer than the packet. Answers are limited, since any host can
//! cause them: in all to [`answers_max`] a second. An answer is taken from the share of the
//! sender's host. When that is used up, it is taken from the share of the host's group, and then
//! from the share of the flow. There are [`SHARES`] of each kind. A hash that only this endpoint
//! can compute chooses the share of a host, a group, and a flow with its source and key. So packets
//! from one host, or from hosts of one group, keep no answer from a host of another. Packets that
//! forge a host's address use up that host's share, since an endpoint without keys cannot
//! distinguish them. A flow of the host is then answered only when one of its packets comes first
//! in the share of the flow. The answers `Prove` and `Refused` (`proof.rs`) have a budget of their
//! own, which packets of flows that are not here do not use. It is [`Settings::QUESTIONS_MAX`] a
//! second. Openings that forge the address of a new client compete with its own: of 143,000 a
//! second one in 24 is answered. So a flow that has no answer yet tries again within 10 ms or,
//! where its shortest timeout is longer than 8 ms, after that timeout and up to a quarter more. It
//! waits for 24 attempts in the mean (`flow/recovery.rs`).
//!
//! [`answers_max`]: Settings::answers_max
//!
//! A sender that gets this answer opens its flow anew: under a new key, so that no earlier packet
//! is taken for a present one, and with PSNs and messages numbered from 0. Every message that is
//! not wholly acknowledged is sent again from its start. The sender accepts an answer that has the
//! flow's key, comes from its peer, and names the flow as the receiver does now. An answer cannot
//! be used twice, since the key has changed then, and it ends no flow.
//!
//! What an application may rely on:
//! - While both ends run, a message is delivered once, or its sender gets an error. A receiver that
//!   has forgotten a flow since it started answers `Forgotten`. It forgets no flow that has
//!   delivered a message before `linger` of silence. So a message that was posted less than
//!   `linger` ago was not delivered, and a message of which some byte was never sent cannot be
//!   whole. Both are sent again. An older message may have been delivered while only its
//!   acknowledgements were lost, so it fails, as does one that has begun again 64 times. Names that
//!   a receiver gives differ by their generation; when a table's places have been used so often
//!   that generations may have come round, it answers `Forgotten`.
//! - Across a restart of the receiver, a message that was not wholly acknowledged is delivered once
//!   by the process that runs now. The earlier process may have delivered it, too, and no host has
//!   a record of that. Neither process delivers it twice, with one exception: the restart is in the
//!   first round trip of the flow. Packets that left before the sender had an answer name no flow,
//!   so they open it at the new process, under the earlier key. If they carry a whole message, and
//!   the earlier process had answered, then the sender opens the flow anew and the message comes
//!   again. A message that was wholly acknowledged is delivered again by a new process only if
//!   copies of all its packets, which name no flow, are under way during the restart.
//! - A restart of the sender ends its flows. Its messages that were not whole are aborted at the
//!   receiver after a time of silence. Flows of the new process have other keys, so no packet of an
//!   old flow is taken for theirs.
//!
//! An outgoing flow may be kept at its receiver while it is idle (`keep_alive` of the settings): a
//! KEEP makes the receiver keep it for longer, or report now that the flow is unknown there.

use alloc::boxed::Box;
use core::hash::BuildHasher as _;
use core::ops::Range;

use super::lookup::KeyHash;
use super::secret::Secret;
use super::timers::{DueTimer, Timed, rearm};
use super::tx_context;
use super::{Endpoint, SenderFlow};
use crate::config::Settings;
use crate::flow::notice::{Notice, NoticeKind};
use crate::flow::rx::{Answer, RxFlow};
use crate::flow::tx::TxContext;
use crate::sched::Scheduler;
use crate::segment::{Burst, PayloadRef, RxSegment, TxSegment};
use crate::stats::DropReason;
use crate::time::{Duration, Instant};
use crate::token_bucket::TokenBucket;
use crate::units::{EntropyValue, FlowId};
use crate::wire::{Body, Presence};

/// Shares of hosts, of groups of hosts, and of flows.
const SHARES: usize = 64;

/// What the shares of hosts, groups and flows have: eighths of all answers of a second, and answers
/// that may leave at once, of each share. A share that has more in two times [`LUMP`] allows all of
/// them at once. A host may have a thousand flows when their receiver restarts. Of packets that
/// forge a host's address all compete for the shares of that host and its group, and a 64th for the
/// share of one of its flows.
const KINDS: [(u64, u32); 3] = [(1, 1024), (1, 1024), (6, 32)];

/// Each period of this length has one instant from which tokens of shares count; two instants
/// follow each other within 8 ms. Under a flood, the shares answer together then, so a device gets
/// many answers in one burst. A device of the kernel takes a system call for each burst. A secret
/// chooses the instants. If they could be foreseen, a flood in bursts just behind each would take
/// most answers with few packets. A host that sees an answer learns that an instant has come.
const LUMP: Duration = Duration::from_ms(4);

/// How many answers may leave to senders whose address is not proven.
#[derive(Clone, Debug)]
pub(super) struct Allowed {
    /// Chooses shares.
    shares: KeyHash,
    /// Chooses the instants from which tokens count.
    secret: Secret,
    /// The latest such instant, and the next one.
    lump: Range<Instant>,
    /// Budget of answers that a flow is not here.
    absent: Box<Budget>,
    /// Budget of questions for proof and of refusals.
    questions: Box<Budget>,
}

/// The shares of each kind.
type Budget = [Shares; KINDS.len()];

/// The shares of one kind: buckets that differ in nothing but the instant at which they are full.
#[derive(Clone, Copy, Debug)]
struct Shares {
    bucket: TokenBucket,
    full_at: [Instant; SHARES],
}

impl Allowed {
    /// Budgets of so many answers a second, above zero, that a flow is not here.
    pub(super) fn new(answers_max: u32, shares: KeyHash, secret: Secret) -> Self {
        let budget = |most: u32| {
            Box::new(KINDS.map(|(eighths, at_once)| {
                let every = Duration::from_s(8 * SHARES as u64) / (eighths * u64::from(most));
                let between_lumps = (LUMP * 2).as_ps().div_ceil(every.as_ps());
                let depth = at_once.max(u32::try_from(between_lumps).unwrap_or(u32::MAX));
                let bucket = TokenBucket::new(every, depth);
                Shares { bucket, full_at: [bucket.full_at(); SHARES] }
            }))
        };
        let [absent, questions] = [answers_max, Settings::QUESTIONS_MAX].map(budget);
        Self { shares, secret, lump: Instant::ZERO..Instant::ZERO, absent, questions }
    }

    /// The latest instant, not after `now`, from which tokens count.
    fn lump(&mut self, now: Instant) -> Instant {
        if !self.lump.contains(&now) {
            let number = now.as_ps() / LUMP.as_ps();
            let begin = |number: u64| {
                let within = self.secret.lump(number) % LUMP.as_ps();
                Instant::from_ps(number.saturating_mul(LUMP.as_ps()).saturating_add(within))
            };
            let (last, this) = (number.checked_sub(1).map_or(Instant::ZERO, begin), begin(number));
            self.lump = if now < this { last..this } else { this..begin(number + 1) };
        }
        self.lump.start
    }

    /// Takes an answer of `kind` at `now` for a flow of `sender`, whose host is in `group`; false
    /// when no share has one.
    fn take(
        &mut self,
        kind: NoticeKind,
        sender: SenderFlow,
        group: Option<u32>,
        now: Instant,
    ) -> bool {
        let lump = self.lump(now);
        let Some((mut bucket, full_at)) = self.share(kind, sender, group, now) else {
            return false;
        };
        bucket.take(lump);
        *full_at = bucket.full_at();
        true
    }

    /// The share that has an answer of `kind` at `now` for a flow of `sender`, whose host is in
    /// `group`, if one has: its bucket, and the place of that bucket's `full_at`.
    fn share(
        &mut self,
        kind: NoticeKind,
        sender: SenderFlow,
        group: Option<u32>,
        now: Instant,
    ) -> Option<(TokenBucket, &mut Instant)> {
        let asks = matches!(kind, NoticeKind::Prove | NoticeKind::Refused);
        let of_host = self.shares.hash_one(sender.0);
        let of_group = group.map(|group| self.shares.hash_one(group));
        let of_flow = self.shares.hash_one(sender);
        let lump = self.lump(now);
        let budget = if asks { &mut self.questions } else { &mut self.absent };
        let mut kinds = budget.iter_mut().zip([Some(of_host), of_group, Some(of_flow)]);
        kinds.find_map(|(shares, hash)| {
            let share = usize::try_from(hash? % SHARES as u64).ok()?;
            let full_at = shares.full_at.get_mut(share)?;
            let bucket = shares.bucket.with_full_at(*full_at);
            (bucket.ready_at() <= lump).then_some((bucket, full_at))
        })
    }
}

impl<S: Scheduler> Endpoint<S> {
    /// Answers a packet from a sender that named a flow, if the flow is not here.
    #[cold]
    pub(super) fn disown(&mut self, rx: &RxSegment, now: Instant) {
        let (named, key) = (rx.hdr.dst_flow, rx.hdr.key);
        let known = |timed: &Timed<RxFlow>| timed.flow.key == key && timed.flow.from == rx.from;
        if named == FlowId::UNKNOWN || self.rx_flows.get(named).is_some_and(known) {
            return;
        }
        let kind = if self.rx_flows.has_given(named) {
            NoticeKind::Forgotten
        } else {
            NoticeKind::Unknown
        };
        let notice = Notice { key, to: rx.from, flow: named, ev: rx.hdr.ev, kind };
        self.answer_stranger(notice, now);
    }

    /// Queues an answer to a sender that is not proven, within the budget of its share, and only
    /// while half of the queue is left to others. An answer that is lost is given again. Returns
    /// false when the answer is withheld.
    #[cold]
    pub(super) fn answer_stranger(&mut self, notice: Notice, now: Instant) -> bool {
        let sender = (notice.to, notice.flow, notice.key);
        let group = self.config.groups.of(notice.to);
        let taken = self.allowed.take(notice.kind, sender, group, now);
        let queued = taken && self.acks.push_if_room(notice);
        self.stats.answers_withheld += u64::from(!queued);
        queued
    }

    /// Withholds the question for proof to the sender of `rx`, where `rx` names no flow, its sender
    /// has to prove its address, and no question for that may leave; returns whether that is so.
    /// The caller then drops `rx` without reading its payload, and counts that. `earlier` has the
    /// packets of the same burst before `rx`: one may be the proof. Nothing has to be polled
    /// afterwards.
    #[cold]
    pub fn withhold_question(&mut self, rx: &RxSegment, earlier: &[RxSegment]) -> bool {
        let Body::Data(data) = &rx.hdr.body else { return false };
        let opening = data.open.filter(|_| rx.hdr.dst_flow == FlowId::UNKNOWN);
        let Some(open) = opening else { return false };
        if !self.must_prove() || self.known_flow(rx, data).is_some() {
            return false;
        }
        let sender = (rx.from, open.src_flow, rx.hdr.key);
        let group = self.config.groups.of(rx.from);
        let withheld = self.allowed.share(NoticeKind::Prove, sender, group, rx.at).is_none()
            && !earlier.iter().any(|earlier| self.proves(earlier, sender, rx.at));
        self.stats.answers_withheld += u64::from(withheld);
        withheld
    }

    /// Sends a PRESENCE that waited.
    #[cold]
    pub(super) fn transmit_presence(
        &mut self,
        notice: &Notice,
        now: Instant,
        tx: &mut Burst<TxSegment>,
    ) {
        self.stats.control_sent += 1;
        let hdr = notice.header(self.cookie_of(notice, now));
        tx.push(TxSegment { hdr, payload: PayloadRef::default(), peer: notice.to });
    }

    /// A PRESENCE arrived.
    #[cold]
    pub(super) fn on_presence(&mut self, rx: &RxSegment, presence: Presence, now: Instant) {
        let taken = match presence {
            Presence::Unknown { named } => self.reopen(rx, named, false, now),
            Presence::Forgotten { named } => self.reopen(rx, named, true, now),
            Presence::Keep => self.keep(rx, now),
            Presence::Prove { cookie } => self.on_asked_for_proof(rx, Some(cookie), now),
            Presence::Refused => self.on_asked_for_proof(rx, None, now),
            Presence::Proof { cookie } => self.take_proof(rx, cookie, now),
        };
        match taken {
            Ok(()) => self.stats.control_received += 1,
            Err(reason) => self.stats.drops.count(reason),
        }
    }

    /// The receiver of an outgoing flow does not have it: the flow is opened anew.
    fn reopen(
        &mut self,
        rx: &RxSegment,
        named: FlowId,
        forgotten: bool,
        now: Instant,
    ) -> Result<(), DropReason> {
        let index = self.secret.index_of(rx.hdr.key);
        let flow = self.tx_flows.at(index).map(|(flow, _)| flow);
        let flow = flow.ok_or(DropReason::UnknownFlow)?;
        let timed = self.tx_flows.get_mut(flow).filter(|timed| timed.peer() == rx.from);
        let timed = timed.ok_or(DropReason::UnknownFlow)?;
        if timed.key() != rx.hdr.key {
            return Err(DropReason::WrongKey);
        }
        let open = timed.open_mut().filter(|open| !open.has_failed());
        let open = open.ok_or(DropReason::UnknownFlow)?;
        if !open.is_called(named) {
            return Err(DropReason::BadSegment);
        }
        let key = self.secret.key(self.host, self.flows_opened, flow.index());
        self.flows_opened += 1;
        // Half, since the receiver's clock and settings are its own.
        let before = now.as_ps().checked_sub((self.linger / 2).as_ps()).map(Instant::from_ps);
        let before = before.filter(|_| forgotten);
        let mut cx = tx_context!(self);
        open.reopen(key, before, now, &mut cx);
        self.stats.flows_reopened += 1;
        self.sched.on_reopened(flow);
        self.update_tx(flow, now);
        Ok(())
    }

    /// A KEEP arrived: the incoming flow is to be kept for longer.
    fn keep(&mut self, rx: &RxSegment, now: Instant) -> Result<(), DropReason> {
        let flow = rx.hdr.dst_flow;
        let timed = self.rx_flows.get_mut(flow).filter(|timed| timed.flow.from == rx.from);
        let Some(timed) = timed.filter(|timed| timed.flow.key == rx.hdr.key) else {
            self.disown(rx, now);
            return Err(DropReason::UnknownFlow);
        };
        timed.flow.received_at = rx.at;
        let forget_at = rx.at + self.linger;
        rearm(&mut self.wheel, &mut timed.timer, Some(forget_at), DueTimer::Rx(flow));
        Ok(())
    }

    /// Sends what keeps an idle outgoing flow at its receiver, if that is due.
    pub(super) fn keep_alive(&mut self, flow: FlowId, now: Instant) {
        let Some(open) = self.tx_flows.get_mut(flow).and_then(Timed::open_mut) else { return };
        let Some(name) = open.take_keep(now, &self.config) else { return };
        let notice = Notice {
            key: open.key,
            to: open.peer,
            flow: name,
            ev: EntropyValue(0),
            kind: NoticeKind::Keep,
        };
        self.acks.answer(Answer::Presence(notice), &mut self.stats);
    }
}
