//! The flights of a stretch of time, grouped by where they go.
//!
//! Within a stretch shorter than the lookahead the ports do not affect each other, so each is
//! handed all its flights at once: its memory is touched once, and no event is needed between. In a
//! group flights are in the order that decides ties: (arrival, origin, departure).

use super::calendar::{Calendar, Flight};
use transport::Instant;

/// The flights of one stretch of time; empty between two.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// As the calendar gave them.
    taken: Vec<Flight>,
    /// By group; what lies beyond the last group is old.
    flights: Vec<Flight>,
    groups: Vec<Group>,
    /// By target: flights, then the place of the next; all zero between two windows.
    places: Vec<u32>,
    /// Scratch: target and place of few flights.
    order: Vec<u64>,
}

/// The flights to one target: `from..to` of the window's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) target: u32,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Counting by target pays when there is a flight for this many targets.
const SPARSE: usize = 16;

impl Window {
    /// An empty one, for targets below `targets`.
    pub(super) fn new(targets: usize) -> Self {
        Self { places: vec![0; targets], ..Self::default() }
    }

    /// Takes what is due before `end` from the calendar. O(flights), and O(targets) when there are
    /// many.
    pub(super) fn take(&mut self, calendar: &mut Calendar, end: Instant) {
        self.taken.clear();
        self.groups.clear();
        calendar.take_before(end, &mut self.taken);
        if let (Some(first), true) = (self.taken.first(), self.flights.len() < self.taken.len()) {
            self.flights.resize(self.taken.len(), *first);
        }
        if self.taken.len() * SPARSE < self.places.len() {
            self.group_few();
        } else {
            self.group_many();
        }
        for group in &self.groups {
            sort(&mut self.flights[group.from..group.to]);
        }
    }

    fn group_many(&mut self) {
        for flight in &self.taken {
            self.places[flight.target as usize] += 1;
        }
        let mut from = 0;
        for (target, place) in (0..).zip(&mut self.places) {
            if *place > 0 {
                let to = from + *place;
                self.groups.push(Group { target, from: from as usize, to: to as usize });
                *place = from;
                from = to;
            }
        }
        for flight in &self.taken {
            let place = &mut self.places[flight.target as usize];
            self.flights[*place as usize] = *flight;
            *place += 1;
        }
        for group in &self.groups {
            self.places[group.target as usize] = 0;
        }
    }

    fn group_few(&mut self) {
        self.order.clear();
        let keys = (0u64..).zip(&self.taken).map(|(at, f)| u64::from(f.target) << 32 | at);
        self.order.extend(keys);
        self.order.sort_unstable();
        for (to, key) in self.order.iter().enumerate() {
            let flight = self.taken[(key & u64::from(u32::MAX)) as usize];
            self.flights[to] = flight;
            match self.groups.last_mut() {
                Some(group) if group.target == flight.target => group.to = to + 1,
                _ => self.groups.push(Group { target: flight.target, from: to, to: to + 1 }),
            }
        }
    }

    /// How many flights there are.
    pub(super) fn len(&self) -> usize {
        self.taken.len()
    }

    /// The groups, ascending by target.
    pub(super) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The flights of a group.
    #[inline]
    pub(super) fn flights(&self, group: Group) -> &[Flight] {
        &self.flights[group.from..group.to]
    }
}

/// By (arrival, origin), stable. Flights come slot by slot, so they are nearly in order and
/// insertion is what is fastest.
fn sort(flights: &mut [Flight]) {
    let key = |flight: &Flight| (flight.at, flight.origin);
    for from in 1..flights.len() {
        let flight = flights[from];
        let mut to = from;
        while to > 0 && key(&flights[to - 1]) > key(&flight) {
            flights[to] = flights[to - 1];
            to -= 1;
        }
        flights[to] = flight;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fabric::packet::Packet;

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
            let mut window = Window::new(targets);
            // Twice: nothing is left over from the first.
            for _ in 0..2 {
                window.take(&mut calendar, Instant::from_ps(20_000));
                let groups = window.groups().iter();
                let found: Vec<_> = groups.flat_map(|group| window.flights(*group)).collect();
                let due = |flight: &&Flight| flight.at < Instant::from_ps(20_000);
                let expected: Vec<_> = expected.iter().filter(due).collect();
                prop_assert_eq!(window.len(), expected.len());
                prop_assert_eq!(found, expected.clone());
                let targets = window.groups().iter().map(|group| group.target);
                prop_assert!(targets.is_sorted_by(|a, b| a < b));
                expected.into_iter().for_each(|flight| calendar.push(*flight));
            }
        }
    }
}
