//! When hosts begin anew. That is a border of windows: every host has run up to the instant, and
//! none beyond it. So what is known then of messages is the same in windows of any length, and on
//! any number of threads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::DerefMut;

use transport::wire::{Body, Header};
use transport::{Config, FlowId, HostId, Instant, Rng, Settings};

use super::part::Part;
use crate::conductor::restarts::{Known, Repeats};
use crate::measure::Counters;
use crate::plan::{Plan, RunError};

/// The hosts that have still to begin anew.
pub(super) struct Restarts {
    /// Ascending.
    due: VecDeque<Restart>,
}

/// A host that is to begin anew.
struct Restart {
    at: Instant,
    host: HostId,
    /// Of the process that begins, which is of an incarnation of its own.
    config: Config,
    rng: Rng,
}

/// Messages of which data is under way that names no flow: it opens one where it arrives.
#[derive(Default)]
struct Openings {
    /// By sender, key of the flow, and number of the message in the flow.
    messages: BTreeMap<(HostId, u64, u32), Opening>,
}

/// What is under way of a message.
#[derive(Default)]
struct Opening {
    /// 0 where its first segment is not under way.
    tag: u64,
    /// Length of the message, bytes.
    len: u32,
    /// Bytes of payload, by PSN.
    segments: BTreeMap<u32, u16>,
}

impl Restarts {
    /// The restarts of `plan`.
    ///
    /// # Errors
    /// When a setting is out of range.
    pub(super) fn new(plan: &Plan, rng: &Rng) -> Result<Self, RunError> {
        let (mut due, mut lives) = (VecDeque::new(), BTreeMap::<HostId, u64>::new());
        let restarts = plan.host_restarts();
        if restarts.is_empty() {
            return Ok(Self { due });
        }
        let configs = plan.host_configs()?;
        for (at, host) in restarts {
            let life = lives.entry(host).or_default();
            *life += 1;
            let before = &configs[host.0 as usize];
            // 1..=4095, as the setting's range is.
            let incarnation = (u64::from(before.incarnation) - 1 + *life) % 4095 + 1;
            let incarnation = u16::try_from(incarnation).unwrap_or(1);
            let config = Config::new(Settings { incarnation, ..Settings::clone(before) })?;
            let rng = rng.fork("restarted", u64::from(host.0)).fork("life", *life);
            due.push_back(Restart { at, host, config, rng });
        }
        Ok(Self { due })
    }

    /// Whether no host begins anew any more.
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// When the next host begins anew.
    pub(super) fn next_at(&self) -> Instant {
        self.due.front().map_or(Instant::FAR_FUTURE, |next| next.at)
    }

    /// Lets hosts begin anew that are to do so at `now` or before it; all of `parts` are at `now`,
    /// and have exchanged what they have for each other.
    pub(super) fn catch_up<'a>(
        &mut self,
        now: Instant,
        parts: &mut [impl DerefMut<Target = Part<'a>>],
    ) {
        while self.next_at() <= now
            && let Some(restart) = self.due.pop_front()
        {
            begin_anew(restart, parts);
        }
    }
}

/// What is so of messages to `host`, which begins anew.
fn known<'a>(host: HostId, parts: &mut [impl DerefMut<Target = Part<'a>>]) -> Known {
    let (mut known, mut openings) = (Known::default(), Openings::default());
    // Keys of flows of which an answer of the host is under way.
    let mut answered = BTreeSet::new();
    for part in parts.iter_mut() {
        part.receive();
        known.unacked.extend(part.hosts.unacked());
        let packets = part.env.packets.under_way();
        let packets = packets.map(|packet| (packet.from, &packet.hdr, packet.payload_len));
        let waiting = part.hosts.kept();
        let waiting = waiting.map(|(from, sent)| (from, &sent.hdr, sent.payload.len));
        for (from, hdr, len) in packets.chain(waiting) {
            openings.note(from, hdr, len);
            if from == host {
                answered.insert(hdr.key.0);
            }
        }
    }
    known.kept = openings.whole();
    for part in parts.iter() {
        let unnamed = part.hosts.unnamed(host, &part.env.conductor);
        let unnamed = unnamed.filter(|(_, key)| answered.contains(key));
        known.unnamed.extend(unnamed.map(|(flow, _)| flow));
    }
    known
}

#[cold]
fn begin_anew<'a>(restart: Restart, parts: &mut [impl DerefMut<Target = Part<'a>>]) {
    let Restart { host, config, rng, .. } = restart;
    let known = known(host, parts);
    if let Some(part) = parts.iter_mut().find(|part| part.hosts.has(host)) {
        let Part { hosts, env, .. } = &mut **part;
        env.conductor.on_restart(host, &known);
        hosts.begin_anew(host, (&config, rng), &env.conductor);
    }
}

impl Openings {
    /// A packet that `from` has sent is under way.
    fn note(&mut self, from: HostId, hdr: &Header, payload_len: u16) {
        let Body::Data(data) = &hdr.body else { return };
        let Some(open) = data.open.filter(|_| hdr.dst_flow == FlowId::UNKNOWN) else { return };
        let message = self.messages.entry((from, hdr.key.0, data.msg.0)).or_default();
        message.len = open.msg_len.get();
        message.tag = message.tag.max(data.tag);
        message.segments.insert(data.psn.0, payload_len);
    }

    /// The tags of messages that are wholly under way. Parity counts as data: with enough of it, a
    /// message is whole that lacks a segment.
    fn whole(&self) -> BTreeSet<u64> {
        let is_whole = |message: &&Opening| {
            let bytes: u64 = message.segments.values().map(|len| u64::from(*len)).sum();
            message.tag != 0 && bytes >= u64::from(message.len)
        };
        self.messages.values().filter(is_whole).map(|message| message.tag).collect()
    }
}

/// Adds how many messages came again by another process, and how many by the same one.
pub(super) fn count(repeats: Repeats, counters: &mut Counters) {
    let counts = [("again", repeats.again), ("twice", repeats.twice)];
    for (how, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        counters.insert(format!("messages.delivered_{how}"), count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;
    use transport::wire::{Data, Open};
    use transport::{EntropyValue, Psn};

    #[test]
    fn a_message_is_kept_only_where_all_of_it_is_under_way_and_names_no_flow() {
        let open = NonZeroU32::new(20).map(|msg_len| Open { src_flow: FlowId::UNKNOWN, msg_len });
        let packet = |psn: u32, named: FlowId| {
            let tag = if psn == 0 { 7 } else { 0 };
            let data = Data { psn: Psn(psn), offset: psn * 10, open, tag, ..Data::VACANT };
            Header::new(EntropyValue(0), named, Body::Data(data))
        };
        let named = FlowId::new(5, 1);
        for (packets, is_kept) in [
            (&[(0, FlowId::UNKNOWN), (1, FlowId::UNKNOWN)][..], true),
            (&[(0, FlowId::UNKNOWN)], false),
            (&[(0, FlowId::UNKNOWN), (0, FlowId::UNKNOWN)], false),
            (&[(0, FlowId::UNKNOWN), (1, named)], false),
            (&[(1, FlowId::UNKNOWN), (2, FlowId::UNKNOWN)], false),
        ] {
            let mut openings = Openings::default();
            packets.iter().for_each(|(psn, to)| openings.note(HostId(1), &packet(*psn, *to), 10));
            assert_eq!(openings.whole().contains(&7), is_kept, "{packets:?}");
        }
    }
}
