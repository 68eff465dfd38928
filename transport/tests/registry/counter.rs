//! A policy in a file of its own, for which the registry has one line.

use transport::params::{params, words};
use transport::path::NetworkFacts;
use transport::registry::Registered;

use super::{AnyParams, Policy, Registration};

words! {
    /// A direction.
    pub enum Direction: "up or down" {
        /// Up.
        Up = "up",
        /// Down.
        Down = "down",
    }
}

params! {
    /// Settings of [`Counter`].
    pub struct CounterParams {
        /// The direction in which it counts.
        direction: Direction = Direction::Up;
        /// How far at once.
        step: u16 = 2, in 1..=9;
    }
}

/// Counts.
#[derive(Clone, Debug)]
pub struct Counter {
    params: CounterParams,
    total: i32,
}

impl Registered for Counter {
    const ABOUT: &'static str = "counts";
    type Params = CounterParams;

    fn resolve(params: &mut CounterParams, facts: &NetworkFacts) {
        if facts.trims == Some(false) {
            params.step = 1;
        }
    }
}

impl Registration for Counter {
    fn build(params: &AnyParams, total: i32) -> Self {
        Self { params: params.counter, total }
    }

    fn largest(params: &AnyParams) -> u16 {
        params.counter.step
    }
}

impl Policy for Counter {
    fn count(&mut self, by: u16) -> i32 {
        let step = i32::from(by * self.params.step);
        self.total += if self.params.direction == Direction::Up { step } else { -step };
        self.total
    }

    fn total(&self) -> i32 {
        self.total
    }
}
