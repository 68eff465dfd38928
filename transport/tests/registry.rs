//! Registries and settings of another crate: `registry!`, `params!` and `words!` as the fabric uses
//! them, outside of `transport`.

use transport::params::{ParamError, params, words};
use transport::registry::registry;

words! {
    /// A direction.
    enum Direction: "up or down" {
        /// Up.
        Up = "up",
        /// Down.
        Down = "down",
    }
}

params! {
    /// Settings of [`Counter`].
    pub struct CounterParams {
        /// Where it counts to.
        direction: Direction = Direction::Up;
        /// How far at once.
        step: u16 = 2, in 1..=9;
    }
}

/// What a registered policy can do.
trait Policy {
    fn count(&mut self, by: u16) -> i32;
    fn total(&self) -> i32;
}

/// Counts.
#[derive(Clone, Debug)]
pub struct Counter {
    params: CounterParams,
    total: i32,
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

registry! {
    /// Names.
    pub enum AnyKind;
    /// Policies.
    pub enum Any: Policy;
    new(params: &CounterParams);
    {
        /// [`Counter`].
        "counter" => Counter: Counter { params: *params, total: 0 },
    }
    fn count(&mut self, by: u16) -> i32;
    fn total(&self) -> i32;
}

#[test]
fn a_registry_of_another_crate_builds_and_dispatches_by_name() {
    let mut params = CounterParams::default();
    params.set("direction", "down").unwrap();
    assert_eq!(params.set("step", "10"), Err(ParamError::OutOfRange(&CounterParams::KEYS[1])));
    let kind = AnyKind::by_name("counter").unwrap();
    let mut policy = Any::new(kind, &params);
    assert_eq!((policy.count(3), policy.total(), policy.kind()), (-6, -6, kind));
    assert_eq!(params.show("direction").as_deref(), Some("down"));
}
