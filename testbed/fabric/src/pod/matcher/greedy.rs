//! `greedy`: one pass over the senders, each of which gets the first receiver and path that fit.
//! The result is maximal. But the path of each pair is chosen at once, so some pairs find no path
//! although another choice of paths would have left one.

use transport::params::NoParams;
use transport::registry::Registered;

use super::pass::{Pass, Router, Work};
use super::{Built, Match, MatcherSetup, Pair};
use crate::pod::chance::Chance;
use crate::pod::demands::Demands;
use crate::pod::kernel::Kernel;
use crate::pod::ops::{KernelJob, Ops};
use crate::pod::ports::{Grant, IdlePorts, first_from};
use crate::pod::shape::{Shape, Words};

/// The matcher.
#[derive(Clone, Debug)]
pub struct Greedy {
    kernel: Kernel,
    pass: Pass,
}

impl Greedy {
    /// A matcher for `shape`.
    #[must_use]
    pub fn new(shape: &Shape, kernel: Kernel) -> Self {
        Self { kernel, pass: Pass::new(shape) }
    }
}

impl Registered for Greedy {
    const ABOUT: &'static str =
        "one pass; each sender takes a free receiver and the first idle Agg";
    type Params = NoParams;
}

impl Built for Greedy {
    fn build(shape: &Shape, setup: MatcherSetup) -> Self {
        Self::new(shape, setup.kernel)
    }
}

impl Match for Greedy {
    fn decide(
        &mut self,
        first: &[Pair],
        demands: &Demands,
        ports: &mut IdlePorts,
        chance: &mut Chance,
        grants: &mut Vec<Grant>,
    ) {
        self.kernel.run(Decision { pass: &mut self.pass, first, demands, ports, chance, grants });
    }
}

struct Decision<'a> {
    pass: &'a mut Pass,
    first: &'a [Pair],
    demands: &'a Demands,
    ports: &'a mut IdlePorts,
    chance: &'a mut Chance,
    grants: &'a mut Vec<Grant>,
}

impl KernelJob for Decision<'_> {
    type Out = ();

    #[inline(always)]
    fn run<O: Ops>(self) {
        let Self { pass, first, demands, ports, chance, grants } = self;
        pass.draw(chance);
        let router = &mut FirstIdle { first: pass.first_agg };
        let work = &mut Work { demands, ports, router, chance, grants };
        pass.serve_first::<O, _>(work, first);
        pass.run::<O, _>(work);
    }
}

/// Grants only the pairs of `first`, as far as they fit.
pub(super) struct FirstPairs<'a> {
    pub(super) pass: &'a Pass,
    pub(super) first: &'a [Pair],
    pub(super) demands: &'a Demands,
    pub(super) ports: &'a mut IdlePorts,
    pub(super) chance: &'a mut Chance,
    pub(super) grants: &'a mut Vec<Grant>,
}

impl KernelJob for FirstPairs<'_> {
    type Out = ();

    #[inline(always)]
    fn run<O: Ops>(self) {
        let Self { pass, first, demands, ports, chance, grants } = self;
        let router = &mut FirstIdle { first: pass.draw_agg(chance) };
        pass.serve_first::<O, _>(&mut Work { demands, ports, router, chance, grants }, first);
    }
}

/// Takes the first idle Agg, from a given one on.
pub(super) struct FirstIdle {
    pub(super) first: u32,
}

impl Router for FirstIdle {
    #[inline(always)]
    fn up(&self, ports: &IdlePorts, tor: usize) -> u32 {
        ports.up.0[tor]
    }

    #[inline(always)]
    fn down<'a>(&'a self, ports: &'a IdlePorts) -> &'a Words {
        &ports.down
    }

    #[inline(always)]
    fn take(&mut self, ports: &mut IdlePorts, from: usize, to: usize) -> u8 {
        let agg = first_from(ports.up.0[from] & ports.down.0[to], self.first);
        ports.up.0[from] &= !(1 << agg);
        ports.down.0[to] &= !(1 << agg);
        #[expect(clippy::cast_possible_truncation, reason = "below 32")]
        let agg = agg as u8;
        agg
    }

    #[inline(always)]
    fn open_down(&self) -> u32 {
        !0
    }

    #[inline(always)]
    fn took_up(&mut self, _tor: usize) {}

    #[inline(always)]
    fn took_down(&mut self, _tor: usize) {}
}
