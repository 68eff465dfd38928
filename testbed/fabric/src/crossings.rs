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
    /// Keeps `flight` when it leaves the part.
    #[inline]
    pub(super) fn crosses(&mut self, flight: &Flight) -> bool {
        let home = self.homes[flight.target as usize];
        if home == self.part {
            return false;
        }
        self.crossed[home as usize].push(*flight);
        true
    }
}
