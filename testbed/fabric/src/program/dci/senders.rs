//! The flows of a site that send to others, as far as its border switch has seen them. The switch
//! keeps where notes about a flow go, when the last one went, and how many flows send to the same
//! host.
//!
//! The switch finds them in packets that name the sender's flow: packets that open it, and answers
//! to it. Their number is bounded: flows beyond the bound get no notes until others have been
//! silent for long.

use transport::units::Key;
use transport::{ByKey, Duration, FlowId, HostId, Instant, KeyHash};

use super::recent::{NEVER, Recent};

/// The most flows in the table.
const FLOWS_MAX: usize = 1 << 16;

#[derive(Clone, Copy, Debug)]
struct Sender {
    host: HostId,
    flow: FlowId,
    /// When the next note may go.
    next_at: Instant,
    /// The span of time in which it was counted last.
    counted: u64,
    seen_at: Instant,
}

/// The sending flows of a site.
#[derive(Clone, Debug)]
pub(super) struct Senders {
    /// By their keys, as queues are.
    flows: ByKey<Sender>,
    /// The flows that send to each host of another site.
    to: Recent,
    gap: Duration,
    idle: Duration,
    /// When silent flows were last looked for.
    swept_at: Instant,
}

/// A note that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DueNote {
    /// The sender.
    pub(super) host: HostId,
    /// The sender's flow.
    pub(super) flow: FlowId,
    /// Flows of the site to the same host, including this flow.
    pub(super) sharers: u16,
}

impl Senders {
    /// No senders. Notes about one flow are `gap` apart, a flow that is silent for `idle` may be
    /// forgotten, and flows to a host are counted over `span`. `hash` finds flows.
    pub(super) const fn new(
        (gap, idle, span): (Duration, Duration, Duration),
        hash: KeyHash,
    ) -> Self {
        let flows = ByKey::with_hasher(hash);
        Self { flows, to: Recent::new(span), gap, idle, swept_at: Instant::ZERO }
    }

    /// Forgets all flows at `now`.
    pub(super) fn clear(&mut self, now: Instant) {
        self.flows.clear();
        self.to.clear();
        self.swept_at = now;
    }

    /// The flow of `key` is `flow` at `host`.
    pub(super) fn learn(&mut self, key: Key, (host, flow): (HostId, FlowId), now: Instant) {
        if flow == FlowId::UNKNOWN {
            return;
        }
        if let Some(known) = self.flows.get_mut(&key.0) {
            (known.host, known.flow, known.seen_at) = (host, flow, now);
            return;
        }
        // Once in `idle` at most, so a flood of flows costs a constant each.
        if self.flows.len() >= FLOWS_MAX && self.swept_at + self.idle <= now {
            self.swept_at = now;
            self.flows.retain(|_, sender| sender.seen_at + self.idle > now);
        }
        if self.flows.len() < FLOWS_MAX {
            let sender = Sender { host, flow, next_at: now, counted: NEVER, seen_at: now };
            self.flows.insert(key.0, sender);
        }
    }

    /// Data of the flow of `key` passes on its way to the host `to`: the note about it, if one is
    /// due.
    pub(super) fn due(&mut self, key: Key, to: HostId, now: Instant) -> Option<DueNote> {
        let sender = self.flows.get_mut(&key.0)?;
        sender.seen_at = now;
        self.to.count(to, &mut sender.counted, now);
        if sender.next_at > now {
            return None;
        }
        sender.next_at = now + self.gap;
        let sharers = self.to.flows_to(to, now);
        Some(DueNote { host: sender.host, flow: sender.flow, sharers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_us(100);
    const TO: HostId = HostId(9);
    const HASH: KeyHash = KeyHash::new([1, 2]);

    fn us(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    #[test]
    fn a_flow_gets_a_note_at_once_and_then_one_a_gap() {
        let mut senders = Senders::new((Duration::from_us(6), Duration::from_ms(12), SPAN), HASH);
        assert_eq!(senders.due(Key(1), TO, us(0)), None, "not known");
        let name = (HostId(3), FlowId(1 << 20));
        senders.learn(Key(1), name, us(0));
        senders.learn(Key(2), (HostId(4), FlowId::UNKNOWN), us(0));
        assert_eq!(senders.due(Key(2), TO, us(0)), None);
        let due = [0, 1, 5, 6, 7, 11, 12].map(|at| senders.due(Key(1), TO, us(at)).is_some());
        assert_eq!(due, [true, false, false, true, false, false, true]);
        senders.learn(Key(1), name, us(13));
        assert_eq!(senders.due(Key(1), TO, us(13)), None, "learnt again, not earlier");
        let sharers = 1;
        let due = DueNote { host: name.0, flow: name.1, sharers };
        assert_eq!(senders.due(Key(1), TO, us(18)), Some(due));
    }

    #[test]
    fn a_full_table_forgets_silent_flows_and_no_others() {
        let mut senders = Senders::new((Duration::ZERO, Duration::from_us(10), SPAN), HASH);
        let name = (HostId(0), FlowId(1 << 20));
        (0..FLOWS_MAX as u64).for_each(|key| senders.learn(Key(key), name, us(1)));
        senders.due(Key(5), TO, us(8));
        senders.learn(Key(u64::MAX), name, us(9));
        assert_eq!(senders.due(Key(u64::MAX), TO, us(9)), None);
        senders.learn(Key(u64::MAX), name, us(12));
        assert!(senders.due(Key(u64::MAX), TO, us(12)).is_some());
        assert!(
            senders.due(Key(5), TO, us(12)).is_some() && senders.due(Key(6), TO, us(12)).is_none()
        );
    }

    #[test]
    fn flows_to_one_host_are_counted_while_they_send() {
        let mut senders = Senders::new((Duration::ZERO, Duration::from_ms(12), SPAN), HASH);
        let name = (HostId(0), FlowId(1 << 20));
        (0..4).for_each(|key| senders.learn(Key(key), name, us(0)));
        let mut sharers =
            |key, to, at| senders.due(Key(key), HostId(to), us(at)).map(|due| due.sharers);
        assert_eq!([0, 1, 2].map(|key| sharers(key, 9, 10)), [Some(1), Some(2), Some(3)]);
        assert_eq!(sharers(3, 8, 10), Some(1), "another host");
        assert_eq!(sharers(0, 9, 20), Some(3), "each once");
        assert_eq!(sharers(0, 9, 110), Some(3), "as many as in the span before");
        assert_eq!(sharers(0, 9, 210), Some(1), "the others have fallen silent");
    }
}
