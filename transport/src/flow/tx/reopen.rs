//! A flow whose receiver has forgotten it, and one that is kept there while it has nothing to send.

use super::blocks::ParityDue;
use super::{TxContext, TxFlow};
use crate::config::Config;
use crate::event::{Event, FailReason};
use crate::time::Instant;
use crate::units::{Bytes, FlowId, Key, MsgNo};

/// How often a message is sent again from its start, since its receiver has lost it: more often
/// than any receiver restarts while one message is under way. Without a bound a host on the path
/// that answers in the receiver's place could keep a message under way for ever.
const BEGUN_AGAIN_MAX: u8 = 64;

impl TxFlow {
    /// The receiver's name of this flow, and the key.
    pub(crate) fn name(&self) -> (FlowId, Key) {
        (self.dst_flow, self.key)
    }

    /// True while the receiver is not known to have the flow.
    pub(crate) fn is_new(&self) -> bool {
        self.dst_flow == FlowId::UNKNOWN
    }

    /// True when the receiver names this flow so, and the sender uses that name.
    pub(crate) fn is_called(&self, name: FlowId) -> bool {
        self.dst_flow == name && name != FlowId::UNKNOWN
    }

    /// The receiver has no state of this flow: it begins again under `key`, with every message that
    /// is not wholly acknowledged. `forgotten`: the receiver had the flow since it started, and may
    /// have received its messages until it forgot the flow. A message of that time of which every
    /// byte was sent may have been delivered, so it fails. So does a message that has begun again
    /// [`BEGUN_AGAIN_MAX`] times. Allocates.
    pub(crate) fn reopen(
        &mut self,
        key: Key,
        forgotten: Option<Instant>,
        now: Instant,
        cx: &mut TxContext<'_>,
    ) {
        self.key = key;
        self.dst_flow = FlowId::UNKNOWN;
        self.recovery.restart();
        self.parity = ParityDue::default();
        (self.unsent, self.unsent_segments, self.unsent_bytes) = (0, 0, Bytes::ZERO);
        (self.reported, self.held_until) = (Bytes::ZERO, Instant::ZERO);
        (self.rtt, self.refused_again, self.refused_rounds, self.alone) = (0, 0, 0, None);
        // Whether there is room now is asked again.
        self.refused_flow = false;
        self.next_msg = MsgNo(0);
        for id in core::mem::take(&mut self.unfinished) {
            // Those that are finished have given up their place.
            let Some(msg) = cx.msgs.get_mut(id) else { continue };
            let sent = msg.next_offset == msg.len.get();
            let begun = msg.next_offset > 0;
            let in_vain = begun && msg.begun_again >= BEGUN_AGAIN_MAX;
            if in_vain || sent && forgotten.is_some_and(|before| msg.since <= before) {
                cx.msgs.remove(id);
                cx.stats.messages_failed += 1;
                cx.events.push_back(Event::Failed { msg: id, reason: FailReason::PeerForgot });
                continue;
            }
            msg.no = self.next_msg;
            msg.begun_again += u8::from(begun);
            (msg.next_offset, msg.acked, msg.opened, msg.since) = (0, 0, false, now);
            let len = msg.len.get();
            self.post(cx.config, id, len, now);
        }
    }

    /// The receiver asks for proof that this host receives packets at the address which its packets
    /// name. Returns the flow as this host names it, when the proof is to be given. A new flow
    /// gives its proof once a timeout: each segment of its flight causes a question, and all of
    /// them are sent again. A flow that the receiver has is asked once a base RTT, and a lost proof
    /// is then given again.
    pub(crate) fn prove(&mut self, cookie: u64, now: Instant) -> Option<FlowId> {
        let apart = if self.is_new() { self.recovery.rto() } else { self.path.base_rtt / 2 };
        let (at, given) = self.proved;
        if given == cookie && now < at + apart {
            return None;
        }
        self.proved = (now, cookie);
        if self.is_new() {
            self.recovery.resend_all(now);
        }
        Some(self.id)
    }

    /// The cookie that proves this host's address to the receiver.
    pub(crate) fn proof(&self) -> u64 {
        self.proved.1
    }

    /// The receiver has no room for this flow; it may have later.
    pub(crate) fn note_refusal(&mut self) {
        self.refused_flow = true;
    }

    /// When the receiver is next to be reminded of this flow; `None` when it need not be.
    #[inline]
    pub(super) fn keep_at(&mut self, now: Instant, config: &Config) -> Option<Instant> {
        let every = config.keep_alive?;
        if !self.unfinished.is_empty() || self.dst_flow == FlowId::UNKNOWN {
            self.kept_at = now;
            return None;
        }
        Some(self.kept_at + every)
    }

    /// The receiver's name of this flow, when the receiver is to be reminded of it now.
    pub(crate) fn take_keep(&mut self, now: Instant, config: &Config) -> Option<FlowId> {
        let due = !self.failed && !self.closing && self.keep_at(now, config)? <= now;
        if due {
            self.kept_at = now;
        }
        due.then_some(self.dst_flow)
    }
}
