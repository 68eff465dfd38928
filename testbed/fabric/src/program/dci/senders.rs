//! The flows of a site that send to others, as its border switch knows them: where notes about a
//! flow go, and when the last one went.
//!
//! Learnt from packets that name the sender's flow: those that open it, and answers to it. Bounded:
//! flows beyond the bound get no notes until others have been silent for long.

use std::collections::BTreeMap;

use transport::units::Key;
use transport::{Duration, FlowId, HostId, Instant};

/// Flows known at most.
const FLOWS_MAX: usize = 1 << 16;

#[derive(Clone, Copy, Debug)]
struct Sender {
    host: HostId,
    flow: FlowId,
    /// When the next note may go.
    next_at: Instant,
    seen_at: Instant,
}

/// The sending flows of a site.
#[derive(Clone, Debug)]
pub(super) struct Senders {
    flows: BTreeMap<u64, Sender>,
    gap: Duration,
    idle: Duration,
    /// When silent flows were last looked for.
    swept_at: Instant,
}

impl Senders {
    /// None; notes about one flow are `gap` apart, and a flow that is silent for `idle` may be
    /// forgotten.
    pub(super) const fn new(gap: Duration, idle: Duration) -> Self {
        Self { flows: BTreeMap::new(), gap, idle, swept_at: Instant::ZERO }
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
            self.flows.insert(key.0, Sender { host, flow, next_at: now, seen_at: now });
        }
    }

    /// Data of the flow of `key` passes: where a note about it goes, if one is due.
    pub(super) fn due(&mut self, key: Key, now: Instant) -> Option<(HostId, FlowId)> {
        let sender = self.flows.get_mut(&key.0)?;
        sender.seen_at = now;
        if sender.next_at > now {
            return None;
        }
        sender.next_at = now + self.gap;
        Some((sender.host, sender.flow))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    #[test]
    fn a_flow_gets_a_note_at_once_and_then_one_a_gap() {
        let mut senders = Senders::new(Duration::from_us(6), Duration::from_ms(12));
        assert_eq!(senders.due(Key(1), us(0)), None, "not known");
        let name = (HostId(3), FlowId(1 << 20));
        senders.learn(Key(1), name, us(0));
        senders.learn(Key(2), (HostId(4), FlowId::UNKNOWN), us(0));
        assert_eq!(senders.due(Key(2), us(0)), None);
        let due = [0, 1, 5, 6, 7, 11, 12].map(|at| senders.due(Key(1), us(at)).is_some());
        assert_eq!(due, [true, false, false, true, false, false, true]);
        senders.learn(Key(1), name, us(13));
        assert_eq!(senders.due(Key(1), us(13)), None, "learnt again, not earlier");
        assert_eq!(senders.due(Key(1), us(18)), Some(name));
    }

    #[test]
    fn a_full_table_forgets_silent_flows_and_no_others() {
        let mut senders = Senders::new(Duration::ZERO, Duration::from_us(10));
        let name = (HostId(0), FlowId(1 << 20));
        (0..FLOWS_MAX as u64).for_each(|key| senders.learn(Key(key), name, us(1)));
        senders.due(Key(5), us(8));
        senders.learn(Key(u64::MAX), name, us(9));
        assert_eq!(senders.due(Key(u64::MAX), us(9)), None);
        senders.learn(Key(u64::MAX), name, us(12));
        assert!(senders.due(Key(u64::MAX), us(12)).is_some());
        assert!(senders.due(Key(5), us(12)).is_some() && senders.due(Key(6), us(12)).is_none());
    }
}
