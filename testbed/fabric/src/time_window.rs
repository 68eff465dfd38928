//! The flights of a window of time, grouped by target.
//!
//! Within a window shorter than the lookahead the ports do not affect each other. So each port gets
//! all its flights at once: its memory is touched once, and no event is needed between. In a group
//! flights are in the order that decides ties: (arrival, origin, departure).

use super::calendar::{Calendar, DueFlights, Flight};
use transport::Instant;

/// The flights of one window of time; empty between two windows.
#[derive(Clone, Debug, Default)]
pub struct TimeWindow {
    due: DueFlights,
    len: usize,
    /// How many of `groups` are hosts.
    host_groups: usize,
    hosts: u32,
    /// Flights by group; those beyond the last group are old.
    flights: Vec<Flight>,
    groups: Vec<Group>,
    /// For each target: the number of its flights, then the place of the next; all zero between two
    /// windows.
    places: Vec<u32>,
    /// A bit for each target, set while it has flights; all zero between two windows.
    marks: Vec<u64>,
    /// Scratch for few flights: target and place of each, sorted; and the place it then has.
    order: Vec<u64>,
    ranks: Vec<usize>,
}

/// The flights to one target: `from..to` of the window's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The target: the number of a port, or of a host's port.
    pub target: u32,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Counting by target pays when there is a flight for this many words of marks.
const SPARSE: usize = 16;

/// Targets whose marks share a word.
const MARKS: usize = u64::BITS as usize;

impl TimeWindow {
    /// An empty window, for targets below `targets`, of which the first `hosts` are hosts.
    pub(super) fn new(targets: usize, hosts: u32) -> Self {
        let marks = vec![0; targets.div_ceil(MARKS)];
        Self { places: vec![0; targets], marks, hosts, ..Self::default() }
    }

    /// Takes the flights that are due before `end` from the calendar. O(flights), and a word for 64
    /// targets when there are many.
    pub(super) fn take(&mut self, calendar: &mut Calendar, end: Instant) {
        self.groups.clear();
        calendar.take_before(end, &mut self.due);
        self.len = self.due.len();
        if self.flights.len() < self.len {
            self.flights.resize(self.len, Flight::wake(0, end));
        }
        if self.len * SPARSE < self.marks.len() {
            self.group_few(calendar);
        } else {
            self.group_many(calendar);
        }
        calendar.recycle(&mut self.due);
        self.host_groups = self.groups.partition_point(|group| group.target < self.hosts);
    }

    fn group_many(&mut self, calendar: &Calendar) {
        calendar.flights(&self.due).for_each(|flight| {
            let target = flight.target as usize;
            let count = &mut self.places[target];
            if *count == 0 {
                self.marks[target / MARKS] |= 1 << (target % MARKS);
            }
            *count += 1;
        });
        let mut from = 0;
        for (first, word) in (0..).step_by(MARKS).zip(&mut self.marks) {
            let mut marks = std::mem::take(word);
            while marks != 0 {
                let target = first + marks.trailing_zeros();
                marks &= marks - 1;
                let place = &mut self.places[target as usize];
                let to = from + *place;
                self.groups.push(Group { target, from: from as usize, to: to as usize });
                *place = from;
                from = to;
            }
        }
        calendar.flights(&self.due).for_each(|flight| {
            let place = &mut self.places[flight.target as usize];
            self.flights[*place as usize] = *flight;
            *place += 1;
        });
        for group in &self.groups {
            self.places[group.target as usize] = 0;
            sort(&mut self.flights[group.from..group.to]);
        }
    }

    fn group_few(&mut self, calendar: &Calendar) {
        let place_max = u64::from(u32::MAX);
        self.order.clear();
        let due = (0u64..).zip(calendar.flights(&self.due));
        self.order.extend(due.map(|(at, flight)| u64::from(flight.target) << 32 | at));
        self.order.sort_unstable();
        self.ranks.resize(self.order.len(), 0);
        for (to, key) in self.order.iter().enumerate() {
            let target = u32::try_from(key >> 32).unwrap_or(u32::MAX);
            match self.groups.last_mut() {
                Some(group) if group.target == target => group.to = to + 1,
                _ => self.groups.push(Group { target, from: to, to: to + 1 }),
            }
            self.ranks[usize::try_from(key & place_max).unwrap_or(usize::MAX)] = to;
        }
        for (flight, to) in calendar.flights(&self.due).zip(&self.ranks) {
            self.flights[*to] = *flight;
        }
        for group in &self.groups {
            sort(&mut self.flights[group.from..group.to]);
        }
    }

    /// How many flights there are.
    pub fn flight_count(&self) -> usize {
        self.len
    }

    /// The groups of hosts, ascending.
    pub fn hosts(&self) -> &[Group] {
        &self.groups[..self.host_groups]
    }

    /// The groups of the ports of switches, ascending, and those of targets from `ports` on, which
    /// are whole switches.
    pub(super) fn switches(&self, ports: usize) -> (&[Group], &[Group]) {
        let groups = &self.groups[self.host_groups..];
        let first = groups.partition_point(|group| (group.target as usize) < ports);
        groups.split_at(first)
    }

    /// The flights of a group.
    #[inline]
    pub fn flights(&self, group: Group) -> &[Flight] {
        &self.flights[group.from..group.to]
    }
}

/// Sorts by (arrival, origin), stable. Flights come slot by slot, so they are nearly in order and
/// insertion is the fastest. Most are not moved.
fn sort(flights: &mut [Flight]) {
    for from in 1..flights.len() {
        if !is_after(&flights[from - 1], &flights[from]) {
            continue;
        }
        let flight = flights[from];
        let mut to = from;
        while to > 0 && is_after(&flights[to - 1], &flight) {
            flights[to] = flights[to - 1];
            to -= 1;
        }
        flights[to] = flight;
    }
}

/// Whether `one` comes after `other` in a group.
#[inline]
fn is_after(one: &Flight, other: &Flight) -> bool {
    one.at > other.at || (one.at == other.at && one.origin > other.origin)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::Packet;

    proptest! {
        #[test]
        fn groups_are_what_a_stable_sort_by_target_time_and_origin_gives(
            flights in prop::collection::vec((0u64..30_000, 0u32..4, 0u32..600), 0..300),
            targets in prop_oneof![Just(600usize), Just(100_000)],
        ) {
            let mut calendar = Calendar::new(10);
            let mut expected = Vec::new();
            for (handle, (at, origin, target)) in (0..).zip(flights) {
                let packet = Packet { handle, ..Flight::wake(0, Instant::ZERO).packet };
                let flight = Flight { at: Instant::from_ps(at), origin, target, packet };
                calendar.push(flight);
                expected.push(flight);
            }
            expected.sort_by_key(|flight| (flight.target, flight.at, flight.origin));
            let mut window = TimeWindow::new(targets, 99);
            // Twice: nothing is left over from the first.
            for _ in 0..2 {
                window.take(&mut calendar, Instant::from_ps(20_000));
                let groups = window.hosts().iter().chain(window.switches(targets).0);
                let found: Vec<_> = groups.flat_map(|group| window.flights(*group)).collect();
                let due = |flight: &&Flight| flight.at < Instant::from_ps(20_000);
                let expected: Vec<_> = expected.iter().filter(due).collect();
                prop_assert_eq!(window.flight_count(), expected.len());
                prop_assert_eq!(found, expected.clone());
                let ascending = window.groups.iter().map(|group| group.target);
                prop_assert!(ascending.is_sorted_by(|a, b| a < b));
                prop_assert!(window.hosts().iter().all(|group| group.target < 99));
                prop_assert!(window.switches(targets).0.iter().all(|group| group.target >= 99));
                expected.into_iter().for_each(|flight| calendar.push(*flight));
            }
        }
    }
}
