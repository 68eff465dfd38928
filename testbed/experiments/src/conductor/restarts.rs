//! Messages of runs in which hosts begin anew: each counts once, however often it is delivered.
//!
//! `transport/src/endpoint/presence.rs` says what may be delivered more than once. Across a restart
//! of the receiver, a message that was not wholly acknowledged is delivered once by the process
//! that runs now; the earlier one may have delivered it, too. Neither process delivers it twice,
//! except where the restart is in the first round trip of its flow, so that packets which name no
//! flow carry the whole message to the new process. Any other repetition is a finding of the audit.

use std::collections::{BTreeMap, BTreeSet};

use transport::{HostId, Instant};

use super::Conductor;
use crate::workload::FlowIndex;

/// Deliveries of messages that had been delivered before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeats {
    /// By another process than before, without an acknowledgement at the sender in between.
    pub again: u64,
    /// By the same process, of messages that packets without the name of a flow may have carried.
    pub twice: u64,
    /// Against what the transport says.
    pub wrong: u64,
}

/// What the processes of hosts have delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Lives {
    /// By line, and by number in the line: messages that were delivered, or may be twice.
    messages: BTreeMap<(FlowIndex, u32), MessageFate>,
    /// Lines any of whose messages may be delivered twice by the present process.
    unnamed: BTreeSet<FlowIndex>,
    repeats: Repeats,
}

/// What has become of a message.
#[derive(Clone, Copy, Debug, Default)]
struct MessageFate {
    /// Some process has delivered it.
    delivered: bool,
    /// The present process has.
    here: bool,
    /// An earlier process delivered it, and its sender had no acknowledgement then.
    unacked: bool,
    /// All of it was under way when the present process began, in packets that name no flow.
    kept: bool,
    /// The present process has delivered it twice.
    twice: bool,
}

/// What is so of messages, by their tags, when a host begins anew.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Messages that senders still have to send, or of which they lack acknowledgements.
    pub(crate) unacked: BTreeSet<u64>,
    /// Messages of which the network has every packet, each of which names no flow.
    pub(crate) kept: BTreeSet<u64>,
    /// Lines whose packets name no flow yet, while the first answer of the host is under way.
    pub(crate) unnamed: BTreeSet<FlowIndex>,
}

/// The tag of a message of a line, by its number.
pub(super) fn tag_of(flow: FlowIndex, number: u32) -> u64 {
    (u64::from(flow.0) + 1) | u64::from(number) << 32
}

/// The line of the matrix that a tag names, and the number of the message in it.
pub(crate) fn message_of(tag: u64) -> Option<(FlowIndex, u32)> {
    let (line, number) = (tag & u64::from(u32::MAX), tag >> 32);
    let line = u32::try_from(line).ok()?.checked_sub(1)?;
    Some((FlowIndex(line), u32::try_from(number).ok()?))
}

impl MessageFate {
    /// The message is delivered; `unnamed` if the line is one of those.
    fn deliver(&mut self, unnamed: bool, repeats: &mut Repeats) {
        match *self {
            Self { delivered: false, .. } => {}
            Self { here: false, unacked, kept, .. } if unacked || kept => repeats.again += 1,
            Self { here: true, twice: false, kept, .. } if kept || unnamed => {
                self.twice = true;
                repeats.twice += 1;
            }
            _ => repeats.wrong += 1,
        }
        (self.delivered, self.here) = (true, true);
    }
}

impl Conductor<'_> {
    /// Hosts will begin anew: messages are counted by their numbers from now on.
    pub(crate) fn expect_restarts(&mut self) {
        self.lives = Some(Lives::default());
    }

    /// The message with this tag is in place at its receiver. It counts as
    /// [`Conductor::on_delivered`] says, if no process of the receiver has delivered it before.
    pub(crate) fn on_message(&mut self, tag: u64, len: u32, now: Instant) {
        let Some((flow, number)) = message_of(tag) else { return };
        if let Some(Lives { messages, unnamed, repeats }) = &mut self.lives {
            let message = messages.entry((flow, number)).or_default();
            let is_first = !message.delivered;
            message.deliver(unnamed.contains(&flow), repeats);
            if !is_first {
                return;
            }
        }
        self.on_delivered(flow, u64::from(len), now);
    }

    /// Another process takes the place of `host`, which is one of this part. Flows that it sends
    /// have failed; those that are not due yet start in the new process. O(flows + messages).
    pub(crate) fn on_restart(&mut self, host: HostId, known: &Known) {
        let flows = &self.matrix.flows;
        if let Some(Lives { messages, unnamed, .. }) = &mut self.lives {
            let is_its =
                |flow: FlowIndex| flows.get(flow.index()).is_some_and(|spec| spec.dst == host);
            unnamed.retain(|flow| !is_its(*flow));
            unnamed.extend(&known.unnamed);
            let kept = known.kept.iter().filter_map(|tag| message_of(*tag));
            for at in kept.filter(|(flow, _)| is_its(*flow)) {
                messages.entry(at).or_default();
            }
            let its = messages.iter_mut().filter(|((flow, _), _)| is_its(*flow));
            for (&(flow, number), message) in its {
                let tag = tag_of(flow, number);
                (message.here, message.twice) = (false, false);
                message.unacked = message.delivered && known.unacked.contains(&tag);
                message.kept = known.kept.contains(&tag);
            }
        }
        let sent = (0..).map(FlowIndex).zip(flows).filter(|(_, spec)| spec.src == host);
        for (flow, _) in sent {
            let record = &self.records[flow.index()];
            if record.start < Instant::FAR_FUTURE && record.acked_at == Instant::FAR_FUTURE {
                self.on_failed(flow);
            }
        }
    }

    /// Whether some process has delivered the message with this tag, in runs in which hosts begin
    /// anew.
    pub(super) fn has_delivered(&self, tag: u64) -> bool {
        let lives = self.lives.as_ref().zip(message_of(tag));
        let message = lives.and_then(|(lives, at)| lives.messages.get(&at));
        message.is_some_and(|message| message.delivered)
    }

    /// Messages that were delivered more than once; none in runs in which no host begins anew.
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
            own.unnamed.append(&mut part.unnamed);
            own.repeats.again += part.repeats.again;
            own.repeats.twice += part.repeats.twice;
            own.repeats.wrong += part.repeats.wrong;
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
        Repeats { again, twice, wrong }
    }

    #[test]
    fn a_message_that_comes_twice_does_not_stand_for_one_that_is_lost() {
        let matrix = matrix();
        let (mut conductor, [first, second]) = started(&matrix);
        conductor.on_message(first, 10, at(1));
        let known = Known { unacked: [first, second].into(), ..Known::default() };
        conductor.on_restart(HostId(1), &known);
        conductor.on_message(first, 10, at(2));
        let record = conductor.records()[0];
        assert_eq!((record.delivered, record.delivered_at), (10, Instant::FAR_FUTURE));
        assert_eq!((conductor.repeats(), findings(&conductor).len()), (repeats(1, 0, 0), 0));
        // Its sender has acknowledgements of both messages, and one was lost.
        conductor.on_acked(LINE, 20, at(3));
        assert!(!conductor.is_over() && findings(&conductor)[0].contains("10 acknowledged beyond"));
        conductor.on_message(second, 10, at(4));
        assert_eq!(conductor.records()[0].delivered_at, at(4));
        assert!(conductor.is_over() && findings(&conductor).is_empty());
    }

    #[test]
    fn a_message_comes_again_only_by_another_process_and_without_an_acknowledgement() {
        let matrix = matrix();
        let (mut conductor, [first, second]) = started(&matrix);
        conductor.on_message(first, 10, at(1));
        conductor.on_message(second, 10, at(1));
        conductor.on_restart(HostId(1), &Known { unacked: [second].into(), ..Known::default() });
        conductor.on_message(second, 10, at(2));
        assert_eq!(conductor.repeats(), repeats(1, 0, 0));
        conductor.on_message(second, 10, at(3));
        assert_eq!(conductor.repeats(), repeats(1, 0, 1));
        conductor.on_message(first, 10, at(3));
        assert_eq!(conductor.repeats(), repeats(1, 0, 2));
        assert!(findings(&conductor).iter().any(|finding| finding.contains("2 delivered again")));
    }

    #[test]
    fn one_process_delivers_a_message_twice_only_where_packets_without_a_name_carried_it() {
        let matrix = matrix();
        let (mut conductor, [first, second]) = started(&matrix);
        conductor.on_restart(HostId(1), &Known { kept: [first].into(), ..Known::default() });
        for tag in [first, first, first, second, second] {
            conductor.on_message(tag, 10, at(1));
        }
        assert_eq!(conductor.repeats(), repeats(0, 1, 2));
        for is_unnamed in [false, true] {
            let (mut conductor, [first, _]) = started(&matrix);
            let lines = is_unnamed.then_some(LINE).into_iter().collect();
            conductor.on_restart(HostId(1), &Known { unnamed: lines, ..Known::default() });
            (0..2).for_each(|_| conductor.on_message(first, 10, at(1)));
            let is_unnamed = u64::from(is_unnamed);
            assert_eq!(conductor.repeats(), repeats(0, is_unnamed, 1 - is_unnamed));
        }
    }

    #[test]
    fn a_restart_in_one_part_says_nothing_of_messages_to_hosts_of_another() {
        let mut matrix = matrix();
        matrix.push_flow(FlowSpec::new(HostId(1), HostId(0), Bytes(20)));
        let back = tag_of(FlowIndex(1), 0);
        let mut parts = started(&matrix).0.split(&[0..1, 1..2]);
        parts[0].on_message(back, 10, at(1));
        let known = Known { unacked: [back].into(), kept: [back].into(), ..Known::default() };
        parts[0].on_restart(HostId(0), &known);
        parts[1].on_restart(HostId(1), &known);
        let mut whole = Conductor::join(parts);
        whole.on_begun(Begun { tag: back, len: 5, acked: false });
        assert_eq!(whole.records()[1].begun, 0);
        whole.on_message(back, 10, at(2));
        assert_eq!(whole.repeats(), repeats(1, 0, 0));
    }

    #[test]
    fn a_restart_fails_what_the_host_sends_and_excuses_nothing_elsewhere() {
        let matrix = matrix();
        let (mut conductor, [first, _]) = started(&matrix);
        conductor.on_message(first, 10, at(1));
        conductor.on_restart(HostId(0), &Known { kept: [first].into(), ..Known::default() });
        assert!(conductor.records()[0].failed && conductor.is_over());
        conductor.on_message(first, 10, at(2));
        assert_eq!(conductor.repeats(), repeats(0, 0, 1));
    }
}
