//! Pauses of links (PFC): when the data of a port was paused, and the queue that was the reason.
//!
//! A switch pauses a link when too much data that came by it waits. So the reason of a pause is the
//! port of that switch at which most data of the link waited meanwhile. Where that port was paused
//! itself, the reason of its own pause is the reason of both pauses.

use std::collections::BTreeMap;

use fabric::Pause;
use transport::{Duration, Instant};

use super::journal::Journal;

/// The pauses of a run.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// By port, in the order of time.
    by_port: BTreeMap<u32, Vec<Paused>>,
}

/// A pause of a port.
#[derive(Clone, Copy, Debug)]
struct Paused {
    from: Instant,
    until: Instant,
    /// The port whose queue was the reason; the paused one itself where none was found.
    cause: u32,
}

impl Paused {
    fn overlap(&self, from: Instant, until: Instant) -> Duration {
        self.until.min(until).since(self.from.max(from).min(until))
    }
}

/// Switches that a pause may come from, one behind the other.
const DEPTH_MAX: usize = 16;

/// For each paused port: how long the data that it had sent waited in the next switch.
type Waits = BTreeMap<u32, Vec<Wait>>;

/// A packet of a paused port in the next switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wait {
    from: Instant,
    until: Instant,
    /// The port at which the packet waited.
    at: u32,
}

impl Pauses {
    /// The pauses of a run, with their reasons. O(packets + pauses x (packets that wait at once +
    /// pauses of a port on the way)).
    pub(super) fn of(journal: &Journal, pauses: &[Pause]) -> Self {
        let mut by_port: BTreeMap<u32, Vec<Paused>> = BTreeMap::new();
        for &Pause { port, from, until } in pauses {
            by_port.entry(port).or_default().push(Paused { from, until, cause: port });
        }
        if by_port.is_empty() {
            return Self::default();
        }
        by_port.values_mut().for_each(|pauses| pauses.sort_unstable_by_key(|pause| pause.from));
        let mut direct = by_port;
        let waits = waits(journal, &direct);
        for (port, pauses) in &mut direct {
            let Some(waits) = waits.get(port) else { continue };
            let longest = waits.iter().map(|wait| wait.until.since(wait.from)).max();
            for pause in pauses {
                pause.cause =
                    longest_queue(waits, longest.unwrap_or_default(), pause).unwrap_or(pause.cause);
            }
        }
        let root = |pause: &Paused| Paused { cause: root(&direct, *pause), ..*pause };
        let rooted = direct.iter().map(|(port, all)| (*port, all.iter().map(root).collect()));
        Self { by_port: rooted.collect() }
    }

    /// How long the data of `port` was paused between two instants, pause by pause, with the port
    /// whose queue was the reason.
    pub(super) fn within(
        &self,
        port: u32,
        from: Instant,
        to: Instant,
    ) -> impl Iterator<Item = (Duration, u32)> + use<'_> {
        let pauses = self.by_port.get(&port).map_or(&[][..], Vec::as_slice);
        let first = pauses.partition_point(|pause| pause.until <= from);
        let these = pauses[first..].iter().take_while(move |pause| pause.from < to);
        these.map(move |pause| (pause.overlap(from, to), pause.cause))
    }
}

/// The waits of data behind the ports of `paused`, in the order of time.
fn waits(journal: &Journal, paused: &BTreeMap<u32, Vec<Paused>>) -> Waits {
    let mut waits = Waits::new();
    for record in journal.records.iter().filter(|record| record.is_data) {
        let mut hop = journal.hops.get(record.hops as usize);
        while let Some(passed) = hop {
            hop = journal.hops.get(passed.before as usize);
            if let Some(before) = hop.filter(|before| paused.contains_key(&before.port)) {
                let wait = Wait { from: before.arrival, until: passed.start, at: passed.port };
                waits.entry(before.port).or_default().push(wait);
            }
        }
    }
    waits.values_mut().for_each(|waits| waits.sort_unstable());
    waits
}

/// The port at which data waited longest during a pause, summed over packets; `longest` is the
/// longest of the waits.
fn longest_queue(waits: &[Wait], longest: Duration, pause: &Paused) -> Option<u32> {
    let since = Instant::ZERO + pause.from.since(Instant::ZERO).saturating_sub(longest);
    let first = waits.partition_point(|wait| wait.from < since);
    let mut at: BTreeMap<u32, u64> = BTreeMap::new();
    for wait in waits[first..].iter().take_while(|wait| wait.from < pause.until) {
        let time = pause.overlap(wait.from, wait.until);
        if time > Duration::ZERO {
            *at.entry(wait.at).or_default() += time.as_ps();
        }
    }
    at.into_iter().max_by_key(|(_, time)| *time).map(|(port, _)| port)
}

/// The queue that a pause comes from in the end: the first port on its way whose own data was not
/// paused for half of the time.
fn root(direct: &BTreeMap<u32, Vec<Paused>>, pause: Paused) -> u32 {
    let mut cause = pause.cause;
    for _ in 0..DEPTH_MAX {
        let Some(pauses) = direct.get(&cause) else { break };
        let mut by_cause: BTreeMap<u32, u64> = BTreeMap::new();
        for own in pauses {
            let time = own.overlap(pause.from, pause.until).as_ps();
            *by_cause.entry(own.cause).or_default() += time;
        }
        let all: u64 = by_cause.values().sum();
        let most = by_cause.into_iter().max_by_key(|(_, time)| *time);
        let Some((of, _)) = most.filter(|(of, time)| *time > 0 && *of != cause) else { break };
        if all.saturating_mul(2) < pause.until.since(pause.from).as_ps() {
            break;
        }
        cause = of;
    }
    cause
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    fn paused(from: u64, until: u64, cause: u32) -> Paused {
        Paused { from: at(from), until: at(until), cause }
    }

    #[test]
    fn the_reason_of_a_pause_is_the_port_where_its_data_waited() {
        let wait = |from, until, port| Wait { from: at(from), until: at(until), at: port };
        let waits = [wait(0, 30, 7), wait(2, 4, 8), wait(12, 14, 8), wait(25, 90, 8)];
        let queue =
            |from, until| longest_queue(&waits, Duration::from_us(65), &paused(from, until, 1));
        assert_eq!((queue(10, 20), queue(28, 50), queue(95, 99)), (Some(7), Some(8), None));
    }

    #[test]
    fn a_pause_that_passes_one_on_has_its_reason() {
        let direct = BTreeMap::from([
            (1, vec![paused(10, 20, 2)]),
            (2, vec![paused(0, 4, 9), paused(12, 22, 3)]),
            (3, vec![paused(18, 19, 4)]),
        ]);
        assert_eq!(root(&direct, direct[&1][0]), 3);
        let many =
            BTreeMap::from([(2, vec![paused(10, 13, 9), paused(14, 16, 3), paused(17, 19, 3)])]);
        assert_eq!(root(&many, paused(10, 20, 2)), 3, "the sum of its pauses is longer");
        let pauses = Pauses { by_port: direct };
        let within: Vec<_> = pauses.within(2, at(2), at(14)).collect();
        assert_eq!(within, [(Duration::from_us(2), 9), (Duration::from_us(2), 3)]);
    }
}
