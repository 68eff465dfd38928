//! A phantom queue beside a trimming one: `phantom.rs` with `trim.rs` as the real queue. Its
//! settings are those of `phantom`.

use transport::Rate;
use transport::params::NoParams;
use transport::registry::Registered;

use super::phantom::Phantom;
use super::{Discipline, QdiscParams, QdiscSettings, Trim};

/// A phantom queue beside a trimming one.
pub type PhantomTrim = Phantom<Trim>;

impl Registered for PhantomTrim {
    const ABOUT: &'static str =
        "as trim, and a counter that drains more slowly than the link marks, too";
    type Params = NoParams;
}

impl Discipline for PhantomTrim {
    fn build(settings: &QdiscSettings, port: &QdiscParams, rate: Rate) -> Self {
        Self::beside(Trim::new, &settings.phantom, port, rate)
    }
}
