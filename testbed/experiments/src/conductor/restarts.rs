//! Messages of runs in which hosts begin anew: each counts once, however often it is delivered.
//!
//! `transport/src/endpoint/presence.rs` says what may be delivered more than once. A new process
//! may deliver a message that an earlier one has delivered in two cases: its sender lacked an
//! acknowledgement, or packets that name no flow carried the whole message to both. The packets
//! have the key of the earlier delivery. One process may deliver a message twice where its sender
//! opened the flow anew: once under the key that the flow had when the process began, and once
//! under another. Any other repetition is a finding of the audit.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use transport::{HostId, Instant, Key};

use super::Conductor;
use super::tags::{message_of, tag_of};
use crate::workload::FlowIndex;

/// Deliveries of messages that had been delivered before, and flows that restarts ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeats {
    /// Deliveries by another process than before.
    pub again: u64,
    /// Second deliveries by one process, under another key than the first.
    pub twice: u64,
    /// Deliveries that presence.rs does not allow.
    pub wrong: u64,
    /// Flows that failed because their sender began anew.
    pub ended: u64,
}

/// What the processes of hosts have delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Lives {
    /// Messages that were delivered, by line, and by number in the line.
    messages: BTreeMap<(FlowIndex, u32), DeliveredMessage>,
    /// The key that a line's flow had at its sender when its receiver began anew.
    keys: BTreeMap<FlowIndex, Key>,
    repeats: Repeats,
}

/// A message that some process has delivered.
#[derive(Clone, Copy, Debug)]
struct DeliveredMessage {
    /// The key of the flow at the latest delivery.
    key: Key,
    /// The receiver's present process has delivered the message.
    here: bool,
    /// The sender lacked an acknowledgement of the message when the present process began.
    unacked: bool,
    /// The present process has delivered the message twice.
    twice: bool,
}

/// The state of messages and flows to a host, at the instant at which it begins anew.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Tags of messages that senders still have to send, or of which they lack acknowledgements.
    pub(crate) unacked: BTreeSet<u64>,
    /// Keys of the lines' flows at their senders.
    pub(crate) keys: BTreeMap<FlowIndex, Key>,
}

impl DeliveredMessage {
    /// The message comes again, under `key`. Its flow had the key `then` at its sender when the
    /// present process began; `None` if it had none.
    fn repeat(&mut self, key: Key, then: Option<Key>, repeats: &mut Repeats) {
        let changed = self.key != key && [Some(self.key), Some(key)].contains(&then);
        match *self {
            Self { here: false, unacked, .. } if unacked || self.key == key => repeats.again += 1,
            Self { here: true, twice: false, .. } if changed => {
                self.twice = true;
                repeats.twice += 1;
            }
            _ => repeats.wrong += 1,
        }
        (self.key, self.here) = (key, true);
    }
}

impl Conductor<'_> {
    /// Hosts will begin anew: messages are counted by their numbers from now on.
    pub(crate) fn expect_restarts(&mut self) {
        self.lives = Some(Lives::default());
    }

    /// Whether hosts begin anew in this run.
    #[inline]
    pub(crate) fn expects_restarts(&self) -> bool {
        self.lives.is_some()
    }

    /// The message with this tag, of a flow with this key, is in place at its receiver. It counts
    /// as [`Conductor::on_delivered`] says, if no process of the receiver has delivered it before.
    pub(crate) fn on_message(&mut self, (tag, key): (u64, Key), len: u32, now: Instant) {
        let Some((flow, number)) = message_of(tag) else { return };
        if let Some(Lives { messages, keys, repeats }) = &mut self.lives {
            match messages.entry((flow, number)) {
                Entry::Vacant(place) => {
                    let (here, unacked, twice) = (true, false, false);
                    place.insert(DeliveredMessage { key, here, unacked, twice });
                }
                Entry::Occupied(mut place) => {
                    place.get_mut().repeat(key, keys.get(&flow).copied(), repeats);
                    return;
                }
            }
        }
        self.on_delivered(flow, u64::from(len), now);
    }

    /// Another process takes the place of `host`, which is one of this part. Flows that it sends
    /// have failed; those that are not due yet start in the new process. O(flows + messages).
    pub(crate) fn on_restart(&mut self, host: HostId, known: &Known) {
        let flows = &self.matrix.flows;
        if let Some(Lives { messages, keys, .. }) = &mut self.lives {
            let is_its =
                |flow: FlowIndex| flows.get(flow.index()).is_some_and(|spec| spec.dst == host);
            keys.retain(|flow, _| !is_its(*flow));
            keys.extend(known.keys.iter().filter(|(flow, _)| is_its(**flow)));
            for (&(flow, number), message) in messages.iter_mut() {
                if is_its(flow) {
                    (message.here, message.twice) = (false, false);
                    message.unacked = known.unacked.contains(&tag_of(flow, number));
                }
            }
        }
        let sent = (0..).map(FlowIndex).zip(flows).filter(|(_, spec)| spec.src == host);
        let mut ended = 0;
        for (flow, _) in sent {
            let record = &self.records[flow.index()];
            if record.start < Instant::FAR_FUTURE && record.acked_at == Instant::FAR_FUTURE {
                ended += u64::from(!record.failed);
                self.on_failed(flow);
            }
        }
        if let Some(lives) = &mut self.lives {
            lives.repeats.ended += ended;
        }
    }

    /// Whether some process has delivered the message with this tag, in runs in which hosts begin
    /// anew.
    pub(super) fn has_delivered(&self, tag: u64) -> bool {
        let lives = self.lives.as_ref().zip(message_of(tag));
        lives.is_some_and(|(lives, at)| lives.messages.contains_key(&at))
    }

    /// Messages that were delivered more than once, and flows that restarts ended; none in runs in
    /// which no host begins anew.
    #[must_use]
    pub fn repeats(&self) -> Repeats {
        self.lives.as_ref().map(|lives| lives.repeats).unwrap_or_default()
    }

    /// Bytes that were acknowledged and not delivered, in runs in which hosts begin anew. O(flows).
    #[must_use]
    pub fn lost(&self) -> u64 {
        let records = self.lives.iter().flat_map(|_| &self.records);
        records.map(|record| record.acked.saturating_sub(record.delivered)).sum()
    }

    /// Adds what another part has delivered: messages to hosts of its own.
    pub(super) fn add_lives(&mut self, part: Option<Lives>) {
        if let (Some(own), Some(mut part)) = (&mut self.lives, part) {
            debug_assert!(part.messages.keys().all(|at| !own.messages.contains_key(at)));
            own.messages.append(&mut part.messages);
            own.keys.append(&mut part.keys);
            own.repeats.again += part.repeats.again;
            own.repeats.twice += part.repeats.twice;
            own.repeats.wrong += part.repeats.wrong;
            own.repeats.ended += part.repeats.ended;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conductor::begun::Begun;
    use crate::measure::Audit;
    use crate::measure::audit::DriverCount;
    use crate::topology::{self, FabricParams, FatTree};
    use crate::workload::{FlowSpec, Matrix};
    use fabric::Network;
    use transport::{Bytes, Duration, Rng, Stats};

    const LINE: FlowIndex = FlowIndex(0);

    /// A flow of two messages from host 0 to host 1, which begins anew some time.
    fn matrix() -> Matrix {
        let mut matrix = Matrix { nodes: 2, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(1), Bytes(20)));
        matrix
    }

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    /// A conductor whose flow of `matrix` has started, and the tags of its messages.
    fn started(matrix: &Matrix) -> (Conductor<'_>, [u64; 2]) {
        let mut conductor = Conductor::new(matrix);
        conductor.expect_restarts();
        let order = conductor.next_order(at(0)).unwrap();
        (conductor, [order.tag_of(0), order.tag_of(1)])
    }

    /// What the audit finds of messages and bytes.
    fn findings(conductor: &Conductor<'_>) -> Vec<String> {
        let tree = FatTree::new(topology::by_name("paper-testbed").unwrap()).unwrap();
        let network = Network::new(tree.blueprint(&FabricParams::default()), &Rng::new(1));
        let stats = Stats { data_placed_bytes: 100, ..Stats::default() };
        Audit::of(conductor, &stats, &network, DriverCount::default()).findings
    }

    fn repeats(again: u64, twice: u64, wrong: u64) -> Repeats {
        Repeats { again, twice, wrong, ended: 0 }
    }

    #[test]
    fn a_message_that_comes_twice_does_not_stand_for_one_that_is_lost() {
        let matrix = matrix();
        let (mut conductor, [first, second]) = started(&matrix);
        conductor.on_message((first, Key(1)), 10, at(1));
        let known = Known { unacked: [first, second].into(), ..Known::default() };
        conductor.on_restart(HostId(1), &known);
        conductor.on_message((first, Key(2)), 10, at(2));
        let record = conductor.records()[0];
        assert_eq!((record.delivered, record.delivered_at), (10, Instant::FAR_FUTURE));
        assert_eq!((conductor.repeats(), findings(&conductor).len()), (repeats(1, 0, 0), 0));
        // Its sender has acknowledgements of both messages, and one was lost.
        conductor.on_acked(LINE, 20, at(3));
        assert!(!conductor.is_over() && findings(&conductor)[0].contains("10 acknowledged beyond"));
        conductor.on_message((second, Key(2)), 10, at(4));
        assert_eq!(conductor.records()[0].delivered_at, at(4));
        assert!(conductor.is_over() && findings(&conductor).is_empty());
    }

    #[test]
    fn a_new_process_repeats_what_was_not_acknowledged_or_has_the_key_of_before() {
        for (unacked, key, is_allowed) in
            [(true, 2, true), (true, 1, true), (false, 1, true), (false, 2, false)]
        {
            let matrix = matrix();
            let (mut conductor, [first, second]) = started(&matrix);
            conductor.on_message((first, Key(1)), 10, at(1));
            let unacked = [if unacked { first } else { second }].into();
            conductor.on_restart(HostId(1), &Known { unacked, keys: [(LINE, Key(1))].into() });
            conductor.on_message((first, Key(key)), 10, at(2));
            let (again, wrong) = (u64::from(is_allowed), u64::from(!is_allowed));
            assert_eq!(conductor.repeats(), repeats(again, 0, wrong), "{key}");
            // The present process has delivered it now.
            conductor.on_message((first, Key(key)), 10, at(3));
            assert_eq!(conductor.repeats(), repeats(again, 0, wrong + 1), "{key}");
            let finding = format!("{} delivered again", wrong + 1);
            assert!(findings(&conductor).iter().any(|found| found.contains(&finding)));
        }
    }

    #[test]
    fn one_process_repeats_a_message_once_under_the_key_of_its_beginning_and_another() {
        let then = Some(1);
        for (then, keys, expected) in [
            (then, &[1, 2][..], repeats(0, 1, 0)),
            (then, &[2, 1], repeats(0, 1, 0)),
            (then, &[1, 1], repeats(0, 0, 1)),
            (then, &[2, 2], repeats(0, 0, 1)),
            (then, &[2, 3], repeats(0, 0, 1)),
            (then, &[1, 2, 2], repeats(0, 1, 1)),
            (then, &[1, 2, 1], repeats(0, 1, 1)),
            (None, &[1, 2], repeats(0, 0, 1)),
        ] {
            let matrix = matrix();
            let (mut conductor, [first, _]) = started(&matrix);
            let keys_then = then.map(|key| (LINE, Key(key))).into_iter().collect();
            conductor.on_restart(HostId(1), &Known { keys: keys_then, ..Known::default() });
            for key in keys {
                conductor.on_message((first, Key(*key)), 10, at(1));
            }
            assert_eq!(conductor.repeats(), expected, "{then:?} {keys:?}");
        }
    }

    #[test]
    fn a_restart_in_one_part_says_nothing_of_messages_to_hosts_of_another() {
        let mut matrix = matrix();
        matrix.push_flow(FlowSpec::new(HostId(1), HostId(0), Bytes(20)));
        let back = tag_of(FlowIndex(1), 0);
        let mut parts = started(&matrix).0.split(&[0..1, 1..2]);
        parts[0].on_message((back, Key(1)), 10, at(1));
        let keys = [(FlowIndex(1), Key(1))].into();
        let known = Known { unacked: [back].into(), keys };
        parts[0].on_restart(HostId(0), &known);
        parts[1].on_restart(HostId(1), &Known { keys: [(FlowIndex(1), Key(5))].into(), ..known });
        let mut whole = Conductor::join(parts);
        whole.on_begun(Begun { tag: back, len: 5, acked: false });
        assert_eq!(whole.records()[1].begun, 0);
        whole.on_message((back, Key(2)), 10, at(2));
        whole.on_message((back, Key(1)), 10, at(2));
        assert_eq!(whole.repeats(), Repeats { ended: 1, ..repeats(1, 1, 0) });
    }

    #[test]
    fn a_restart_ends_what_the_host_sends_and_excuses_nothing_elsewhere() {
        let matrix = matrix();
        let (mut conductor, [first, _]) = started(&matrix);
        conductor.on_message((first, Key(1)), 10, at(1));
        let known = Known { unacked: [first].into(), keys: [(LINE, Key(1))].into() };
        conductor.on_restart(HostId(0), &known);
        assert!(conductor.records()[0].failed && conductor.is_over());
        conductor.on_message((first, Key(2)), 10, at(2));
        assert_eq!(conductor.repeats(), Repeats { ended: 1, ..repeats(0, 0, 1) });
        // A flow that had failed before was not ended by a restart.
        conductor.on_restart(HostId(0), &known);
        assert_eq!(conductor.repeats().ended, 1);
    }
}
