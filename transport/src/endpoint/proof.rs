//! State is kept only for senders that receive packets at the address which their packets name.
//!
//! ```text
//!   sender                              receiver, with many unproven flows
//!     |  OPEN of a flow, with its key      |
//!     | ---------------------------------> |  keeps nothing
//!     |  PRESENCE: prove it, cookie        |
//!     | <--------------------------------- |
//!     |  PRESENCE: proof, cookie           |
//!     | ---------------------------------> |  takes a place for the flow
//!     |  OPEN again                        |
//!     | ---------------------------------> |
//! ```
//!
//! A cookie is SipHash of the receiver's secret over the sender, its flow, its key and the time in
//! periods. It is good for this flow, for one or two periods, and costs the receiver no memory. A
//! host that forges the address of another does not receive the cookie. The exchange is QUIC's
//! Retry (RFC 9000, 8.1.2).
//!
//! While few flows are unproven ([`unproven_max`]), a flow is opened by its first packet. Its
//! sender is asked for proof beside the first packets that name the flow as this host does. So
//! flows in use become proven without waiting. All messages that unproven flows open share
//! [`unproven_bytes`], and no unproven flow opens a second message once half of the table of
//! messages is taken. A full table forgets unproven flows first. It keeps an unproven flow that has
//! delivered a message until the flow's sender has given up. An unproven flow that is silent is
//! forgotten. When the table has no room for a sender's flow, the sender gets the answer `Refused`,
//! goes on trying, and reports `PeerFull` when it gives up.
//!
//! What the proven flows of a host hold, and of the hosts of one address prefix, is bounded, too
//! (`shares.rs`).
//!
//! Where the table has room for [`unproven_max`] flows beside those in use, packets with forged
//! sources can take no more than these flows and [`unproven_bytes`]. When they have, a flow whose
//! sender gives a proof begins one round trip later.
//!
//! Where all hosts are trusted, as in simulations, none of this happens.
//!
//! [`unproven_max`]: crate::Settings::unproven_max
//! [`unproven_bytes`]: crate::Settings::unproven_bytes

use alloc::vec;
use alloc::vec::Vec;

use super::lookup::KeyHash;
use super::shares::{Held, Shares};
use super::timers::{DueTimer, Timed, rearm};
use super::{Endpoint, SenderFlow};
use crate::config::Config;
use crate::flow::notice::{Notice, NoticeKind};
use crate::sched::Scheduler;
use crate::segment::RxSegment;
use crate::stats::DropReason;
use crate::time::Instant;
use crate::units::{EntropyValue, FlowId, HostId};
use crate::wire::{Body, Presence};

/// How often the sender of a known flow is asked for proof, since some questions may be lost. The
/// questions are a base RTT apart, so that no single burst of loss takes all of them. A question
/// that was withheld for lack of budget or room does not count.
const ASKS: u8 = 3;

/// The incoming flows whose sender has proved its address; empty where all hosts are trusted.
#[derive(Debug)]
pub(super) struct Proofs {
    /// What each flow has begun and lacks, by slab index. Empty where all hosts are trusted.
    places: Vec<Known>,
    /// Flows that are not proven.
    unproven: u32,
    /// Bytes of the messages that flows without proof have opened.
    bytes: u64,
    /// What proven flows hold, by host.
    pub(super) shares: Shares,
}

/// A flow: what it has begun, and the proof that it lacks.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The messages that the flow has begun.
    held: Held,
    /// How often its sender may still be asked for proof, plus one; 0 is proven or no flow.
    asks: u8,
    /// Bytes of the messages that it opened without proof.
    bytes: u64,
    /// Instant before which its sender is not asked again.
    ask_at: Instant,
}

impl Proofs {
    pub(super) fn new(config: &Config, look_up: KeyHash) -> Self {
        let trusting = config.unproven_max == u32::MAX;
        let places = if trusting { 0 } else { config.rx_flows_max as usize };
        let shares = Shares::new(config, places, look_up);
        Self { places: vec![Known::default(); places], unproven: 0, bytes: 0, shares }
    }

    /// True when the flow is not proven, where that matters.
    #[inline]
    pub(super) fn lacks(&self, flow: FlowId) -> bool {
        // Where all flows are proven, which is usual, no place is read.
        self.unproven > 0 && self.is_unproven(flow)
    }

    fn is_unproven(&self, flow: FlowId) -> bool {
        self.places.get(flow.index()).is_some_and(|place| place.asks > 0)
    }

    /// False where all hosts are trusted.
    #[inline]
    pub(super) fn matter(&self) -> bool {
        !self.places.is_empty()
    }

    /// A flow is new.
    pub(super) fn on_new(&mut self, flow: FlowId) {
        if let Some(place) = self.places.get_mut(flow.index()) {
            *place = Known { asks: ASKS + 1, ..Known::default() };
            self.unproven += 1;
        }
    }

    /// A flow of `from` is proven.
    fn on_proven(&mut self, flow: FlowId, from: HostId) {
        if self.lacks(flow) {
            self.take_back(flow);
            self.shares.take(from, Held { flows: 1, ..self.held(flow) });
        }
    }

    /// The messages that a flow has begun.
    fn held(&self, flow: FlowId) -> Held {
        self.places.get(flow.index()).map_or(Held::default(), |place| place.held)
    }

    /// Whether a message of `len` bytes may begin on a flow of `from`: one of a proven flow has to
    /// be within the shares. The messages of other flows are bounded before
    /// ([`Endpoint::look_at_proof`]).
    #[cold]
    pub(super) fn admit_message(
        &self,
        flow: FlowId,
        from: HostId,
        len: u32,
    ) -> Result<(), DropReason> {
        let is_proven = self.places.get(flow.index()).is_some_and(|place| place.asks == 0);
        if is_proven { self.shares.room_for(from, Held::message(len)) } else { Ok(()) }
    }

    /// A message of a flow of `from` has begun, or is over.
    #[cold]
    pub(super) fn on_message(&mut self, flow: FlowId, from: HostId, len: u32, begun: bool) {
        let is_proven = !self.lacks(flow);
        let Some(place) = self.places.get_mut(flow.index()) else { return };
        let message = Held::message(len);
        if begun {
            place.held = place.held.and(message);
        } else {
            place.held = place.held.without(message);
        }
        match (is_proven, begun) {
            (false, _) => {}
            (true, true) => self.shares.take(from, message),
            (true, false) => self.shares.give_back(from, message),
        }
    }

    /// A flow of `from` is forgotten.
    pub(super) fn on_forgotten(&mut self, flow: FlowId, from: HostId) {
        if self.lacks(flow) {
            self.take_back(flow);
        } else if self.matter() {
            self.shares.give_back(from, Held { flows: 1, ..self.held(flow) });
        }
        if let Some(place) = self.places.get_mut(flow.index()) {
            *place = Known::default();
        }
    }

    /// A flow lacks nothing any more.
    fn take_back(&mut self, flow: FlowId) {
        if let Some(place) = self.places.get_mut(flow.index()) {
            self.bytes -= place.bytes;
            *place = Known { held: place.held, ..Known::default() };
            self.unproven -= 1;
        }
    }

    /// True when a flow's sender may be asked at `now`.
    fn may_ask(&self, flow: FlowId, now: Instant) -> bool {
        let place = self.places.get(flow.index());
        place.is_some_and(|place| place.asks > 1 && now >= place.ask_at)
    }

    /// A flow's sender is being asked; it is not asked again before `ask_at`.
    fn on_asked(&mut self, flow: FlowId, ask_at: Instant) {
        if let Some(place) = self.places.get_mut(flow.index()) {
            (place.asks, place.ask_at) = (place.asks.saturating_sub(1), ask_at);
        }
    }

    /// Takes `bytes` for a message of an unproven flow, if no more than `most` are taken then.
    fn take(&mut self, flow: FlowId, bytes: u64, most: u64) -> bool {
        let place = self.places.get_mut(flow.index()).filter(|_| self.bytes + bytes <= most);
        let taken = place.map(|place| place.bytes += bytes).is_some();
        self.bytes += if taken { bytes } else { 0 };
        taken
    }
}

impl<S: Scheduler> Endpoint<S> {
    /// True when a flow that is not known has to prove its sender's address first.
    pub(super) fn must_prove(&self) -> bool {
        let max = self.config.unproven_max;
        self.proofs.matter() && (self.proofs.unproven >= max || self.rx_flows.is_full())
    }

    /// Asks the sender of a flow for proof, if that may be asked at `now`; false when it may not.
    /// The question is shorter than any packet that opens a flow.
    #[cold]
    pub(super) fn ask_for_proof(
        &mut self,
        (to, flow, key): SenderFlow,
        (ev, now): (EntropyValue, Instant),
    ) -> bool {
        self.answer_stranger(Notice { key, to, flow, ev, kind: NoticeKind::Prove }, now)
    }

    /// Reports to a sender that there is no room for its flow, if that may be answered at `now`.
    #[cold]
    pub(super) fn refuse(
        &mut self,
        (to, flow, key): SenderFlow,
        (ev, now): (EntropyValue, Instant),
    ) {
        self.answer_stranger(Notice { key, to, flow, ev, kind: NoticeKind::Refused }, now);
    }

    /// A segment of an unproven flow arrived: its sender may be asked for proof, and may not take
    /// much memory.
    #[cold]
    pub(super) fn look_at_proof(&mut self, flow: FlowId, rx: &RxSegment) -> Result<(), DropReason> {
        let crowded = self.rx_msgs.len() * 2 >= self.config.msgs_max as usize;
        let Some(timed) = self.rx_flows.get(flow) else { return Ok(()) };
        let known = &timed.flow;
        let sender = (known.from, known.src_flow, known.key);
        let receiving = known.is_receiving();
        let named = rx.hdr.dst_flow != FlowId::UNKNOWN;
        let asks = named && self.proofs.may_ask(flow, rx.at);
        if asks && self.ask_for_proof(sender, (rx.hdr.ev, rx.at)) {
            self.proofs.on_asked(flow, rx.at + self.config.base_rtt);
        }
        let Some(len) = self.would_open(rx) else { return Ok(()) };
        let most = self.config.unproven_bytes;
        if crowded && receiving || !self.proofs.take(flow, len.get().into(), most) {
            self.ask_for_proof(sender, (rx.hdr.ev, rx.at));
            return Err(DropReason::Unproven);
        }
        Ok(())
    }

    /// Whether `rx` proves at `now` the address of `sender`.
    pub(super) fn proves(&self, rx: &RxSegment, sender: SenderFlow, now: Instant) -> bool {
        let Body::Presence(Presence::Proof { cookie }) = rx.hdr.body else { return false };
        (rx.from, rx.hdr.dst_flow, rx.hdr.key) == sender && self.is_cookie_of(sender, cookie, now)
    }

    /// Whether `sender` was asked to return `cookie`, and `now` is not too late.
    fn is_cookie_of(&self, sender: SenderFlow, cookie: u64, now: Instant) -> bool {
        [0, 1].into_iter().any(|age| self.secret.cookie(sender, now, age) == cookie)
    }

    /// Handles a proof of a sender's address: the sender's flow takes a place, if it has none.
    pub(super) fn take_proof(
        &mut self,
        rx: &RxSegment,
        cookie: u64,
        now: Instant,
    ) -> Result<(), DropReason> {
        let sender = (rx.from, rx.hdr.dst_flow, rx.hdr.key);
        if !self.is_cookie_of(sender, cookie, now) {
            return Err(DropReason::WrongKey);
        }
        let known = self.rx_by_sender.get(&sender).copied();
        // A flow that gave way in this burst gets no place in it, so none may give way to it.
        if known.is_none() && self.evicted.contains(&sender) {
            return Err(DropReason::NoBuffer);
        }
        let counts = known.is_some_and(|flow| !self.proofs.lacks(flow));
        let held = known.map_or(Held::default(), |flow| self.proofs.held(flow));
        let admitted = if counts { Ok(()) } else { self.admit(rx.from, held) };
        if admitted.is_err() {
            self.refuse(sender, (rx.hdr.ev, rx.at));
            return admitted;
        }
        let flow = match known {
            Some(flow) => flow,
            None => self.new_flow(sender, (rx.hdr.ev, rx.at))?,
        };
        let forget_at = rx.at + self.linger;
        self.proofs.on_proven(flow, rx.from);
        let Some(timed) = self.rx_flows.get_mut(flow) else { return Ok(()) };
        if known.is_none() {
            timed.flow.received_at = rx.at;
            rearm(&mut self.wheel, &mut timed.timer, Some(forget_at), DueTimer::Rx(flow));
        }
        Ok(())
    }

    /// The receiver of an outgoing flow asks for proof, or has no room for it.
    pub(super) fn on_asked_for_proof(
        &mut self,
        rx: &RxSegment,
        cookie: Option<u64>,
        now: Instant,
    ) -> Result<(), DropReason> {
        let flow = rx.hdr.dst_flow;
        let timed = self.sending_flow(rx)?;
        let Some(open) = timed.open_mut().filter(|open| !open.has_failed()) else { return Ok(()) };
        let Some(cookie) = cookie else {
            open.note_refusal();
            return Ok(());
        };
        let Some(own) = open.prove(cookie, now) else { return Ok(()) };
        let (key, to, is_new) = (open.key, open.peer, open.is_new());
        self.acks.push_first(Notice { key, to, flow: own, ev: rx.hdr.ev, kind: NoticeKind::Proof });
        if is_new {
            self.sched.on_reopened(flow);
        }
        self.update_tx(flow, now);
        Ok(())
    }

    /// The cookie of a PRESENCE that leaves.
    pub(super) fn cookie_of(&self, notice: &Notice, now: Instant) -> u64 {
        match notice.kind {
            NoticeKind::Prove => self.secret.cookie((notice.to, notice.flow, notice.key), now, 0),
            NoticeKind::Proof => {
                let open = self.tx_flows.get(notice.flow).and_then(Timed::open);
                open.map_or(0, crate::flow::tx::TxFlow::proof)
            }
            NoticeKind::Unknown
            | NoticeKind::Forgotten
            | NoticeKind::Keep
            | NoticeKind::Refused => 0,
        }
    }
}
