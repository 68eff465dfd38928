//! What keeps a flow from sending, by the flow's state alone: for a driver that explains a run.

use super::{TxFlow, TxMsg, Wait};
use crate::config::Config;
use crate::slab::Slab;
use crate::time::Instant;
use crate::units::{Bytes, MsgId};

/// What an outgoing flow waits for at an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The obstacle; `None` when a segment may leave as soon as the host's line and its scheduler
    /// serve the flow.
    pub wait: Option<Wait>,
    /// When the obstacle is gone, by the endpoint's clock; `None` where an event removes it.
    pub until: Option<Instant>,
    /// Segments that are known to be lost and have not been sent again.
    pub lost: u32,
}

impl TxFlow {
    /// The flow's standing at `now`, without a look at the scheduler. O(1), and changes nothing.
    #[cold]
    pub(crate) fn standing(
        &self,
        now: Instant,
        config: &Config,
        msgs: &Slab<MsgId, TxMsg>,
    ) -> Standing {
        let lost = self.recovery.lost();
        let (wait, until) = match self.obstacle(now, config, msgs) {
            None => (None, None),
            Some((wait, until)) => (Some(wait), until),
        };
        Standing { wait, until, lost }
    }

    /// The obstacles in the order in which sending meets them.
    fn obstacle(
        &self,
        now: Instant,
        config: &Config,
        msgs: &Slab<MsgId, TxMsg>,
    ) -> Option<(Wait, Option<Instant>)> {
        if self.failed {
            return Some((Wait::Failed, None));
        }
        let resends = self.recovery.has_lost() || self.parity.left > 0;
        if !resends && self.unsent == 0 {
            let waiting = !self.unfinished.is_empty();
            return Some((if waiting { Wait::Acknowledgement } else { Wait::Application }, None));
        }
        if self.window.pacing.is_some() && self.pacer.next_at() > now {
            return Some((Wait::Pacing, Some(self.pacer.next_at())));
        }
        if self.held_until > now {
            return Some((Wait::Refusals, Some(self.held_until)));
        }
        let payload = match self.recovery.next_lost() {
            Some((_, packet)) => packet.payload_len,
            None if self.parity.left > 0 => config.payload_max,
            None => match self.next_payload(config, msgs) {
                Ok(len) => len,
                Err(wait) => return Some((wait, None)),
            },
        };
        let len = Bytes(u64::from(self.overhead + payload));
        let in_flight = self.recovery.in_flight();
        let fits = in_flight == Bytes::ZERO || in_flight + len <= self.cwnd();
        (!fits).then(|| (self.full(), None))
    }

    /// Payload bytes of the next segment that was never sent, or what is in its way.
    fn next_payload(&self, config: &Config, msgs: &Slab<MsgId, TxMsg>) -> Result<u16, Wait> {
        let parity = self.code.as_ref().map_or(0, |_| 1);
        if self.recovery.room() <= parity {
            return Err(Wait::PsnWindow);
        }
        let ahead = self.unfinished.len() - self.unsent as usize;
        if ahead >= usize::from(config.msg_window) {
            return Err(Wait::MsgWindow);
        }
        let msg = self.unfinished.get(ahead).and_then(|msg| msgs.get(*msg));
        let left = msg.map_or(0, |msg| msg.len.get() - msg.next_offset);
        Ok(u16::try_from(left).unwrap_or(u16::MAX).min(config.payload_max))
    }
}
