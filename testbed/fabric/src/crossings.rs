//! Packets that leave one part of a network: they wait here until the window is over.

use std::sync::Arc;

use super::calendar::Flight;

/// The flights that leave a part.
#[derive(Clone, Debug)]
pub(super) struct Crossings {
    /// The number of the part.
    pub(super) part: u32,
    /// The part of each target of flights.
    pub(super) homes: Arc<[u32]>,
    /// The flights to each part, in the order in which they left.
    pub(super) crossed: Vec<Vec<Flight>>,
}

impl Crossings {
    /// The part that a flight to `target` leaves for; `None` when it stays.
    #[inline]
    pub(super) fn leads_to(&self, target: u32) -> Option<u32> {
        let home = self.homes[target as usize];
        (home != self.part).then_some(home)
    }

    /// Keeps a flight to part `to`.
    pub(super) fn keep(&mut self, to: u32, flight: Flight) {
        self.crossed[to as usize].push(flight);
    }
}
