//! `exact`: pairs first, then a path for each by edge colouring. Maximal; with as many Aggs as a
//! ToR has hosts, every permutation is routed in full. Source: \[konig\].
//!
//! A pod is a bipartite graph. One side has the ToRs that send, the other the ToRs that receive.
//! Each pair of hosts is an edge between two of them, and Aggs are colours. By König's theorem
//! there are enough colours if there are as many as the busiest ToR has edges, and his proof is the
//! method. Where no Agg is idle at both ends of an edge, one Agg is idle at the sender's ToR and
//! another at the receiver's. These two alternate along a path from the receiver's ToR, and are
//! exchanged there.
//!
//! Demands across pods have their Core's Agg, and links may be down: these colours are not
//! exchanged. A pair that gets no path for one of these reasons is given up. Hosts without a grant
//! are matched once more with the ports that are idle.

use transport::params::NoParams;
use transport::registry::Registered;

use super::greedy::FirstIdle;
use super::pass::{Pass, Router, Work};
use super::{Built, Match, MatcherSetup, Pair};
use crate::pod::chance::Chance;
use crate::pod::demands::{Demands, To};
use crate::pod::kernel::Kernel;
use crate::pod::ops::{KernelJob, Ops};
use crate::pod::ports::{Grant, IdlePorts, bits, first_from};
use crate::pod::shape::{LANES, Shape, Words};

/// The matcher.
#[derive(Clone, Debug)]
pub struct Exact {
    kernel: Kernel,
    pass: Pass,
    colours: Colours,
}

impl Exact {
    /// A matcher for `shape`.
    #[must_use]
    pub fn new(shape: &Shape, kernel: Kernel) -> Self {
        Self { kernel, pass: Pass::new(shape), colours: Colours::new(shape) }
    }
}

impl Registered for Exact {
    const ABOUT: &'static str =
        "one pass without paths, then a path for each pair by edge colouring";
    type Params = NoParams;
}

impl Built for Exact {
    fn build(shape: &Shape, setup: MatcherSetup) -> Self {
        Self::new(shape, setup.kernel)
    }
}

impl Match for Exact {
    fn decide(
        &mut self,
        first: &[Pair],
        demands: &Demands,
        ports: &mut IdlePorts,
        chance: &mut Chance,
        grants: &mut Vec<Grant>,
    ) {
        let Self { kernel, pass, colours } = self;
        kernel.run(Decision { pass, colours, first, demands, ports, chance, grants });
    }
}

struct Decision<'a> {
    pass: &'a mut Pass,
    colours: &'a mut Colours,
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
        let Self { pass, colours, first, demands, ports, chance, grants } = self;
        pass.draw(chance);
        let given = grants.len();
        let mut router = PathCount::new(ports, colours.shape.tors());
        let work = &mut Work { demands, ports, router: &mut router, chance, grants };
        pass.serve_first::<O, _>(work, first);
        pass.run::<O, _>(work);
        colours.first = pass.first_agg;
        if colours.route(ports, grants, given) {
            let router = &mut FirstIdle { first: pass.first_agg };
            let work = &mut Work { demands, ports, router, chance, grants };
            pass.serve_first::<O, _>(work, first);
            pass.run::<O, _>(work);
        }
    }
}

/// Counts the paths of a ToR instead of choosing them.
struct PathCount {
    /// For each ToR: links that are left, up and down.
    left: [[u8; LANES]; 2],
    /// For each ToR: all bits while links are left, else none.
    up: Words,
    down: Words,
    open_down: u32,
}

impl PathCount {
    #[inline(always)]
    fn new(ports: &IdlePorts, tors: usize) -> Self {
        let mut this =
            Self { left: [[0; LANES]; 2], up: Words::ZERO, down: Words::ZERO, open_down: 0 };
        for tor in 0..tors.min(LANES) {
            let counts = [ports.up.0[tor], ports.down.0[tor]].map(u32::count_ones);
            #[expect(clippy::cast_possible_truncation, reason = "at most 32")]
            let [up, down] = counts.map(|count| count as u8);
            (this.left[0][tor], this.left[1][tor]) = (up, down);
            this.up.0[tor] = if up > 0 { !0 } else { 0 };
            this.down.0[tor] = if down > 0 { !0 } else { 0 };
            this.open_down |= u32::from(down > 0) << tor;
        }
        this
    }
}

impl Router for PathCount {
    #[inline(always)]
    fn up(&self, _ports: &IdlePorts, tor: usize) -> u32 {
        self.up.0[tor]
    }

    #[inline(always)]
    fn down<'a>(&'a self, _ports: &'a IdlePorts) -> &'a Words {
        &self.down
    }

    #[inline(always)]
    fn take(&mut self, _ports: &mut IdlePorts, from: usize, to: usize) -> u8 {
        self.took_up(from);
        self.took_down(to);
        0
    }

    #[inline(always)]
    fn open_down(&self) -> u32 {
        self.open_down
    }

    #[inline(always)]
    fn took_up(&mut self, tor: usize) {
        self.left[0][tor] -= 1;
        if self.left[0][tor] == 0 {
            self.up.0[tor] = 0;
        }
    }

    #[inline(always)]
    fn took_down(&mut self, tor: usize) {
        self.left[1][tor] -= 1;
        if self.left[1][tor] == 0 {
            self.down.0[tor] = 0;
            self.open_down &= !(1 << tor);
        }
    }
}

/// No edge: the colour is idle, or a grant that cannot be moved holds it.
const NONE: u16 = u16::MAX;
/// ToRs of both sides.
const SIDES: usize = 2 * LANES;
/// An alternating path visits a ToR of a side at most once.
const PATH: usize = SIDES;

/// The colouring of one decision. ToRs that send are 0..32, ToRs that receive are 32..64.
#[derive(Clone, Debug)]
struct Colours {
    shape: Shape,
    first: u32,
    /// For each ToR and Agg: the edge that has it, as a number of [`Self::ends`].
    edges: [[u16; LANES]; SIDES],
    /// For each edge: its two ToRs, its Agg and its grant.
    ends: Vec<Edge>,
    /// Grants that are given up, in rising order.
    given_up: Vec<u16>,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    tors: [u8; 2],
    agg: u8,
    grant: u16,
}

impl Edge {
    /// The ToR at the end that is not on the side of `tor`.
    #[inline(always)]
    fn other(&self, tor: usize) -> usize {
        usize::from(self.tors[usize::from(tor < LANES)])
    }
}

#[expect(clippy::cast_possible_truncation, reason = "numbers of grants, ToRs and Aggs fit")]
impl Colours {
    fn new(shape: &Shape) -> Self {
        Self {
            shape: *shape,
            first: 0,
            edges: [[NONE; LANES]; SIDES],
            ends: Vec::with_capacity(shape.hosts()),
            given_up: Vec::with_capacity(shape.hosts()),
        }
    }

    /// Gives an Agg to each grant inside the pod from number `given` on, and marks its links.
    /// Grants for which there is none are removed, their ports free again; true when there are any.
    #[inline(always)]
    fn route(&mut self, ports: &mut IdlePorts, grants: &mut Vec<Grant>, given: usize) -> bool {
        let (tors, per_tor, hosts) = (self.shape.tors(), self.shape.per_tor(), self.shape.hosts());
        for side in self.edges.chunks_exact_mut(LANES) {
            side[..tors].fill([NONE; LANES]);
        }
        self.ends.clear();
        self.given_up.clear();
        for (at, grant) in grants.iter().enumerate().skip(given) {
            let To::Host(to) = grant.to else { continue };
            if usize::from(grant.sender) >= hosts {
                continue;
            }
            let (from, to) = (usize::from(grant.sender) / per_tor, usize::from(to) / per_tor);
            let edge = self.ends.len() as u16;
            let both = ports.up.0[from] & ports.down.0[to];
            let agg = if both != 0 {
                first_from(both, self.first)
            } else {
                self.exchange(ports, from, to)
            };
            if agg as usize >= LANES {
                self.given_up.push(at as u16);
                continue;
            }
            let tors = [from as u8, (LANES + to) as u8];
            self.ends.push(Edge { tors, agg: agg as u8, grant: at as u16 });
            ports.up.0[from] &= !(1 << agg);
            ports.down.0[to] &= !(1 << agg);
            self.edges[from][agg as usize] = edge;
            self.edges[LANES + to][agg as usize] = edge;
        }
        for edge in &self.ends {
            grants[usize::from(edge.grant)].agg = edge.agg;
        }
        for at in self.given_up.iter().rev() {
            let grant = grants.remove(usize::from(*at));
            self.release(ports, &grant);
        }
        !self.given_up.is_empty()
    }

    /// Frees the sender and the receiver of a grant.
    fn release(&self, ports: &mut IdlePorts, grant: &Grant) {
        let To::Host(to) = grant.to else { return };
        for (word, host) in [(&mut ports.send, grant.sender), (&mut ports.recv, to)] {
            let (tor, bit) = self.shape.place(host.into());
            word.0[tor] |= 1 << bit;
        }
    }

    /// Makes an Agg idle at both ToRs, which have no idle Agg in common, and returns it; [`LANES`]
    /// when grants that cannot be moved are on every path.
    #[inline(never)]
    fn exchange(&mut self, ports: &mut IdlePorts, from: usize, to: usize) -> u32 {
        let mut path = [0; PATH];
        for mine in bits(ports.up.0[from]) {
            for theirs in bits(ports.down.0[to]) {
                let Some(len) = self.walk(ports, LANES + to, [mine, theirs], &mut path) else {
                    continue;
                };
                for tor in &path[..len] {
                    let edges = &mut self.edges[usize::from(*tor)];
                    edges.swap(mine, theirs);
                    for agg in [mine, theirs] {
                        if let Some(edge) = self.ends.get_mut(usize::from(edges[agg])) {
                            edge.agg = agg as u8;
                        }
                    }
                }
                let flip = 1 << mine | 1 << theirs;
                ports.down.0[to] ^= flip;
                let last = usize::from(path[len - 1]);
                let end = if last < LANES {
                    &mut ports.up.0[last]
                } else {
                    &mut ports.down.0[last - LANES]
                };
                *end ^= flip;
                return mine as u32;
            }
        }
        LANES as u32
    }

    /// The ToRs along the path from `start` whose edges have two colours by turns, to the first
    /// that has the next colour idle; `None` when a grant that cannot be moved holds it.
    #[inline(always)]
    fn walk(
        &self,
        ports: &IdlePorts,
        start: usize,
        colours: [usize; 2],
        path: &mut [u8; PATH],
    ) -> Option<usize> {
        let mut tor = start;
        for step in 0..PATH {
            path[step] = tor as u8;
            let colour = colours[step % 2];
            let edge = self.edges[tor][colour];
            if edge == NONE {
                let idle = if tor < LANES { ports.up.0[tor] } else { ports.down.0[tor - LANES] };
                return (idle >> colour & 1 == 1).then_some(step + 1);
            }
            tor = self.ends[usize::from(edge)].other(tor);
        }
        None
    }
}
