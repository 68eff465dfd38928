//! The border of one part of a network: what leaves the part waits here until the window is over.

use std::sync::Arc;

use super::calendar::Flight;

/// What leaves a part.
#[derive(Clone, Debug)]
pub(super) struct Border {
    /// The number of the part.
    pub(super) part: u32,
    /// By target of flights: its part.
    pub(super) homes: Arc<[u32]>,
    /// By part: what goes there, in the order in which it left.
    pub(super) crossed: Vec<Vec<Flight>>,
}

impl Border {
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
