//! A policy without settings.

use transport::params::NoParams;
use transport::registry::Registered;

use super::{AnyParams, Policy, Registration};

/// Stays where it is.
#[derive(Clone, Debug)]
pub struct Still(i32);

impl Registered for Still {
    const ABOUT: &'static str = "stays where it is";
    type Params = NoParams;
}

impl Registration for Still {
    fn build(_params: &AnyParams, total: i32) -> Self {
        Self(total)
    }

    fn largest(_params: &AnyParams) -> u16 {
        0
    }
}

impl Policy for Still {
    fn count(&mut self, _by: u16) -> i32 {
        self.0
    }

    fn total(&self) -> i32 {
        self.0
    }
}
