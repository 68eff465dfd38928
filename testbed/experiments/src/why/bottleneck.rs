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
    lost: Losses,
}

/// Packets that were lost, by port and reason.
pub(super) type Losses = BTreeMap<(u32, &'static str), u64>;

/// By line of the matrix: answers to its packets that were lost.
pub(super) fn lost_answers(journal: &Journal) -> BTreeMap<u32, Losses> {
    let mut lost: BTreeMap<u32, Losses> = BTreeMap::new();
    for record in journal.records.iter().filter(|record| !record.is_data) {
        let answered = journal.records.get(record.answers as usize);
        if let (Some(answered), Fate::Lost(port, reason)) = (answered, record.fate) {
            let of_flow = lost.entry(answered.flow).or_default();
            *of_flow.entry((port, reason.name())).or_default() += 1;
        }
    }
    lost
}

impl Fates {
    /// The fates of data of line `flow` of the matrix, which is on connection `conn`.
    pub(super) fn of(journal: &Journal, flow: u32, conn: usize) -> Self {
        let data = journal.conns[conn].data.iter().map(|at| &journal.records[*at as usize]);
        let mut fates = Self::default();
        for record in data.filter(|record| record.flow == flow) {
            fates.sent += 1;
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

    pub(super) fn named(
        &self,
        links: &NamedLinks<'_>,
        answers_lost: Option<&Losses>,
    ) -> PacketFates {
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
            answers_lost: answers_lost.into_iter().flatten().map(of_loss).collect(),
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

/// The ports of switches that may hold a flow up most, by the sum of three times. The first is the
/// time in the port's queue. The second is the pauses of other links that this queue caused. The
/// third is a part of the time in which the flow's controller held data back: the port's share of
/// the signals to the controller.
pub(super) fn candidates(
    charges: &Charges,
    fates: &Fates,
    links: &NamedLinks<'_>,
) -> Vec<(u32, u128)> {
    let signals = fates.signals();
    let all: u64 = signals.values().sum();
    let held = [TimePart::Window, TimePart::Pacing, TimePart::Retransmission];
    let held: u64 = held.iter().map(|part| charges.parts[*part as usize]).sum();
    let mut score: BTreeMap<u32, u128> =
        charges.queues.iter().map(|(port, ps)| (*port, u128::from(*ps))).collect();
    for (port, ps) in &charges.paused {
        *score.entry(*port).or_default() += u128::from(*ps);
    }
    for (port, count) in signals {
        let share = u128::from(held) * u128::from(count) / u128::from(all.max(1));
        *score.entry(port).or_default() += share;
    }
    let switch = score.into_iter().filter(|(port, score)| *score > 0 && !links.is_nic(*port));
    let mut ports: Vec<(u32, u128)> = switch.collect();
    ports.sort_by_key(|(_, score)| std::cmp::Reverse(*score));
    ports.truncate(CANDIDATES);
    ports
}

/// Ports that are looked at for a flow.
const CANDIDATES: usize = 4;

const NANOSECOND: u64 = 1000;

/// When some links sent data, and of which flow.
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
                    let on_link = links.delay(passed.port) + passed.held;
                    let on_line = on_line.saturating_sub(on_link);
                    sent.push((passed.start, passed.start + on_line, record.flow));
                }
                hop = journal.hops.get(passed.before as usize);
            }
        }
        by_port.values_mut().for_each(|sent| sent.sort_unstable());
        Self { by_port }
    }

    /// The candidate that held `flow` up most in a span of time: the score of a port is multiplied
    /// by the part of the span for which it was busy.
    pub(super) fn held_by(
        &self,
        candidates: &[(u32, u128)],
        span: (Instant, Instant),
        flow: u32,
    ) -> Option<u32> {
        let busy = |port: u32| u128::from(self.share(port, span, flow).0 / NANOSECOND);
        let held = |(port, score): &&(u32, u128)| (score / u128::from(NANOSECOND)) * busy(*port);
        candidates.iter().max_by_key(held).map(|(port, _)| *port)
    }

    /// How long `port` sent data in a span of time, and how long of `flow`; picoseconds.
    pub(super) fn share(&self, port: u32, span: (Instant, Instant), flow: u32) -> (u64, u64) {
        let Some(sent) = self.by_port.get(&port) else { return (0, 0) };
        let first = sent.partition_point(|(_, end, _)| *end <= span.0);
        let (mut busy, mut own) = (Duration::ZERO, Duration::ZERO);
        for (start, end, of) in sent[first..].iter().take_while(|(start, ..)| *start < span.1) {
            let within = (*end).min(span.1).since((*start).max(span.0));
            busy += within;
            if *of == flow {
                own += within;
            }
        }
        (busy.as_ps(), own.as_ps())
    }
}
