//! The link that holds a flow up, and what else uses it.

use std::collections::BTreeMap;

use transport::{Duration, Instant};

use super::journal::{Fate, Journal, NONE};
use super::walk::Charges;
use super::words::NamedLinks;
use super::{PacketFates, TimePart};

/// What became of the data of a flow, by port.
#[derive(Clone, Debug, Default)]
pub(super) struct Fates {
    sent: u64,
    marked: BTreeMap<u32, u64>,
    trimmed: BTreeMap<u32, u64>,
    lost: BTreeMap<(u32, &'static str), u64>,
}

impl Fates {
    pub(super) fn of(journal: &Journal, conn: usize) -> Self {
        let data = &journal.conns[conn].data;
        let mut fates = Self { sent: data.len() as u64, ..Self::default() };
        for record in data.iter().map(|at| &journal.records[*at as usize]) {
            if record.marked != NONE {
                *fates.marked.entry(record.marked).or_default() += 1;
            }
            match record.fate {
                Fate::Trimmed(port) => *fates.trimmed.entry(port).or_default() += 1,
                Fate::Lost(port, reason) => {
                    *fates.lost.entry((port, reason.name())).or_default() += 1;
                }
                Fate::Whole | Fate::Corrupt => {}
            }
        }
        fates
    }

    pub(super) fn named(&self, links: &NamedLinks<'_>) -> PacketFates {
        let named = |counts: &BTreeMap<u32, u64>| {
            counts.iter().map(|(port, count)| (links.name(*port), *count)).collect()
        };
        let of_loss = |((port, reason), count): (&(u32, &str), &u64)| {
            (format!("{} {reason}", links.name(*port)), *count)
        };
        PacketFates {
            sent: self.sent,
            marked: named(&self.marked),
            trimmed: named(&self.trimmed),
            lost: self.lost.iter().map(of_loss).collect(),
        }
    }

    /// By port: the packets by which it signalled congestion.
    fn signals(&self) -> BTreeMap<u32, u64> {
        let mut signals = self.marked.clone();
        for (port, count) in &self.trimmed {
            *signals.entry(*port).or_default() += count;
        }
        for ((port, reason), count) in &self.lost {
            if *reason == "data_queue_full" {
                *signals.entry(*port).or_default() += count;
            }
        }
        signals
    }
}

/// The port of a switch that holds a flow up most: its queue, and its share of the signals by which
/// the flow's controller kept the window small.
pub(super) fn of(charges: &Charges, fates: &Fates, links: &NamedLinks<'_>) -> Option<u32> {
    let signals = fates.signals();
    let all: u64 = signals.values().sum();
    let held = [TimePart::Window, TimePart::Pacing, TimePart::Retransmission];
    let held: u64 = held.iter().map(|part| charges.parts[*part as usize]).sum();
    let mut score: BTreeMap<u32, u128> =
        charges.queues.iter().map(|(port, ps)| (*port, u128::from(*ps))).collect();
    for (port, count) in signals {
        let share = u128::from(held) * u128::from(count) / u128::from(all.max(1));
        *score.entry(port).or_default() += share;
    }
    let switch = score.into_iter().filter(|(port, score)| *score > 0 && !links.is_nic(*port));
    switch.max_by_key(|(_, score)| *score).map(|(port, _)| port)
}

/// When some links sent data, and of which connection.
pub(super) struct Busy {
    by_port: BTreeMap<u32, Vec<(Instant, Instant, u32)>>,
}

impl Busy {
    pub(super) fn of(
        journal: &Journal,
        links: &NamedLinks<'_>,
        ports: impl Iterator<Item = u32>,
    ) -> Self {
        let mut by_port: BTreeMap<u32, Vec<_>> = ports.map(|port| (port, Vec::new())).collect();
        for record in journal.records.iter().filter(|record| record.is_data) {
            let mut hop = journal.hops.get(record.hops as usize);
            while let Some(passed) = hop {
                if let Some(sent) = by_port.get_mut(&passed.port) {
                    let on_line = passed.arrival.since(passed.start);
                    let on_line = on_line.saturating_sub(links.delay(passed.port));
                    sent.push((passed.start, passed.start + on_line, record.conn));
                }
                hop = journal.hops.get(passed.before as usize);
            }
        }
        by_port.values_mut().for_each(|sent| sent.sort_unstable());
        Self { by_port }
    }

    /// How long `port` sent data in a span of time, and how long of connection `conn`; picoseconds.
    pub(super) fn share(&self, port: u32, span: (Instant, Instant), conn: usize) -> (u64, u64) {
        let Some(sent) = self.by_port.get(&port) else { return (0, 0) };
        let first = sent.partition_point(|(_, end, _)| *end <= span.0);
        let (mut busy, mut own) = (Duration::ZERO, Duration::ZERO);
        for (start, end, of) in sent[first..].iter().take_while(|(start, ..)| *start < span.1) {
            let within = (*end).min(span.1).since((*start).max(span.0));
            busy += within;
            if *of as usize == conn {
                own += within;
            }
        }
        (busy.as_ps(), own.as_ps())
    }
}
