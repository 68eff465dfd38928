//! `iterative`: Algorithm 1 of the paper. Source: \[zeropod\] IV-A3, alg. 1.
//!
//! Each iteration has four phases. *Request*: every open demand whose sender and receiver are free
//! draws one of the paths that are idle. *Grant 1*: each Agg takes its requests in the order of
//! priority, equal ones in random order, while their ports are free. *Grant 2*: each sender keeps
//! one grant. *Accept*: each receiver keeps one. Ports of what is not kept are free again.
//!
//! Requests of a class are drawn one by one while there are few of them (`literal`). Where there
//! are many, as under dense demand, only requests that can win are drawn. For two ToRs and an Agg,
//! the first request in the random order wins, or none does. So its place in that order is drawn
//! (`Ops::places`), with the distribution that it has when every demand draws. The demand that a
//! winner belongs to is drawn afterwards, uniformly.

mod accept;
mod listed;

use core::mem;

use transport::params::NoParams;
use transport::registry::Registered;

use super::greedy::FirstPairs;
use super::pass::{Pass, draw_core};
use super::{Built, Match, MatcherSetup, Pair};
use crate::pod::chance::{Chance, scale, shuffle};
use crate::pod::demands::{Demands, To};
use crate::pod::kernel::Kernel;
use crate::pod::ops::{KernelJob, Mass, NO_PLACE, Ops};
use crate::pod::ports::{Grant, IdlePorts, bits};
use crate::pod::shape::{LANES, Shape, Words, low_bits};
use accept::KeptRequest;
use listed::{DemandList, ListedDemand};

/// Requests of a class that are drawn one by one, for each sender of the pod.
const FEW: usize = 4;
/// Demands of two ToRs that are drawn blindly before they are counted.
const TRIES: u32 = 4;

/// The matcher.
#[derive(Clone, Debug)]
pub struct Iterative {
    kernel: Kernel,
    iterations: u32,
    pass: Pass,
    memory: Box<Scratch>,
}

impl Iterative {
    /// A matcher for `shape`.
    #[must_use]
    pub fn new(shape: &Shape, kernel: Kernel, iterations: u32) -> Self {
        let memory = Box::new(Scratch::new(shape));
        Self { kernel, iterations, pass: Pass::new(shape), memory }
    }
}

impl Registered for Iterative {
    const ABOUT: &'static str =
        "Zeropod's Algorithm 1: request, two grants and accept, several times";
    type Params = NoParams;
}

impl Built for Iterative {
    fn build(shape: &Shape, setup: MatcherSetup) -> Self {
        Self::new(shape, setup.kernel, setup.iterations)
    }
}

impl Match for Iterative {
    fn decide(
        &mut self,
        first: &[Pair],
        demands: &Demands,
        ports: &mut IdlePorts,
        chance: &mut Chance,
        grants: &mut Vec<Grant>,
    ) {
        let Self { kernel, iterations, pass, memory } = self;
        if !first.is_empty() {
            kernel.run(FirstPairs { pass, first, demands, ports, chance, grants });
        }
        for _ in 0..*iterations {
            let before = *ports;
            memory.granted.clear();
            let work = Iteration { memory, demands, before: &before, ports, chance };
            kernel.run(work);
            *ports = before;
            if memory.granted.is_empty() {
                break;
            }
            memory.accept(ports, chance, grants);
        }
    }
}

/// The number of no request.
const NONE: u16 = u16::MAX;

/// A request that has been granted by its Agg.
#[derive(Clone, Copy, Debug)]
struct Request {
    grant: Grant,
    class: u8,
    /// The request granted before between the same ToRs, or [`NONE`]; of dense classes.
    before: u16,
}

/// Memory that is kept from decision to decision, without its contents.
#[derive(Clone, Debug)]
struct Scratch {
    shape: Shape,
    wide: bool,
    /// For each ToR that sends: ToRs with a free receiver to which a path is still idle.
    open: [u32; LANES],
    /// ToRs that send and have any of them.
    open_from: u32,
    /// For each ToR that sends and ToR that receives: demands of a dense class that have not drawn
    /// an Agg.
    counts: [Words; LANES],
    /// For each ToR that sends and ToR that receives: Aggs that are left to draw from.
    mass: [Mass; LANES],
    /// For each ToR that sends: generators of the places of its requests.
    generators: [Words; LANES],
    /// The demands of the class at hand, while they are few.
    few: DemandList,
    /// For each ToR that sends: the places of the first requests at the Agg at hand.
    places: [Words; LANES],
    /// For each ToR that sends and ToR that receives: the last request granted of the class at
    /// hand, or [`NONE`].
    taken: [[u16; LANES]; LANES],
    granted: Vec<Request>,
    /// For each sender and each receiver: the request that is kept.
    kept: [Vec<KeptRequest>; 2],
}

impl Scratch {
    fn new(shape: &Shape) -> Self {
        let all = shape.senders() * shape.hosts() + shape.hosts() * shape.pods();
        // Demands across pods have no places; then all demands are drawn one by one.
        let few = if shape.cores() > 0 { all } else { FEW * shape.senders() };
        let links = shape.aggs() * shape.tors() + shape.cores();
        Self {
            shape: *shape,
            wide: shape.tors().max(shape.aggs()) > LANES / 2,
            open: [0; LANES],
            open_from: 0,
            counts: [Words::ZERO; LANES],
            mass: [Mass([0.0; LANES]); LANES],
            generators: [Words::ZERO; LANES],
            few: DemandList::new(few),
            places: [Words::ZERO; LANES],
            taken: [[NONE; LANES]; LANES],
            granted: Vec::with_capacity(links),
            kept: [shape.senders(), shape.hosts()].map(|ends| vec![KeptRequest::NONE; ends]),
        }
    }
}

/// Request and Grant 1 of one iteration.
struct Iteration<'a> {
    memory: &'a mut Scratch,
    demands: &'a Demands,
    /// The ports that are idle as the iteration begins, of which paths are drawn.
    before: &'a IdlePorts,
    /// The ports that have not been granted since.
    ports: &'a mut IdlePorts,
    chance: &'a mut Chance,
}

impl KernelJob for Iteration<'_> {
    type Out = ();

    #[inline(always)]
    fn run<O: Ops>(mut self) {
        let shape = self.memory.shape;
        let mut classes = 0;
        for tor in 0..shape.tors() {
            for bit in bits(self.before.send.0[tor]) {
                classes |= self.demands.present(tor * shape.per_tor() + bit);
            }
        }
        for core in 0..shape.cores() {
            classes |= self.demands.present(shape.hosts() + core);
        }
        let ladder = self.demands.ladder().classes();
        self.memory.open_from = low_bits(shape.tors());
        self.find_open::<O>();
        while classes != 0 && (self.memory.open_from != 0 || shape.cores() > 0) {
            let class = classes.trailing_zeros() as usize;
            classes &= classes - 1;
            let before = self.memory.granted.len();
            let few = if ladder == 1 { self.collect_one::<O>() } else { self.collect::<O>(class) };
            if few {
                self.collect_outside::<O>(class);
                self.literal::<O>(class);
            } else if ladder == 1 {
                self.dense::<O, true>(class);
            } else {
                self.dense::<O, false>(class);
            }
            if self.memory.granted.len() > before {
                self.find_open::<O>();
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "hosts, ToRs and Aggs fit")]
impl Iteration<'_> {
    /// Finds the ToRs between which a path is still idle.
    #[inline(always)]
    fn find_open<O: Ops>(&mut self) {
        let Scratch { wide, open, open_from, .. } = &mut *self.memory;
        let IdlePorts { up, down, .. } = &*self.ports;
        // What was not open has not opened since.
        for tor in bits(*open_from) {
            open[tor] = O::candidates(up.0[tor], down, &Words::ALL, &self.before.recv, *wide);
            if open[tor] == 0 {
                *open_from &= !(1 << tor);
            }
        }
    }

    /// Lists the demands of a class that could still win, by their senders; false when they are too
    /// many. Then they are counted by ToRs instead.
    #[inline(always)]
    fn collect<O: Ops>(&mut self, class: usize) -> bool {
        let Scratch { shape, open, open_from, few, .. } = &mut *self.memory;
        let recv = &self.before.recv;
        few.clear();
        for tor in bits(*open_from) {
            for from in bits(self.before.send.0[tor]) {
                let sender = tor * shape.per_tor() + from;
                for to in bits(self.demands.tors(sender, class) & open[tor]) {
                    let asked = O::equal(self.demands.class_bytes(sender, to), class as u8);
                    let hosts = asked & recv.0[to];
                    if !few.add(ListedDemand::inside(tor, from, to), hosts) {
                        self.count::<O>(class);
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Counts the demands of a class that could still win, by ToRs.
    #[inline(always)]
    fn count<O: Ops>(&mut self, class: usize) {
        let Scratch { shape, open, open_from, counts, .. } = &mut *self.memory;
        let recv = &self.before.recv;
        counts[..shape.tors()].fill(Words::ZERO);
        for tor in bits(*open_from) {
            for from in bits(self.before.send.0[tor]) {
                let sender = tor * shape.per_tor() + from;
                for to in bits(self.demands.tors(sender, class) & open[tor]) {
                    let asked = O::equal(self.demands.class_bytes(sender, to), class as u8);
                    counts[tor].0[to] += (asked & recv.0[to]).count_ones();
                }
            }
        }
    }

    /// Counts the demands that could still win, by ToRs, where there is one class alone; true when
    /// they are few, and then listed.
    #[inline(always)]
    fn collect_one<O: Ops>(&mut self) -> bool {
        let Scratch { shape, wide, open, open_from, counts, few, .. } = &mut *self.memory;
        let recv = &self.before.recv;
        few.clear();
        let mut total = 0;
        counts[..shape.tors()].fill(Words::ZERO);
        for tor in bits(*open_from) {
            for from in bits(self.before.send.0[tor]) {
                let row = self.demands.row(tor * shape.per_tor() + from);
                O::count(row, recv, &mut counts[tor], *wide);
            }
            for to in bits(open[tor]) {
                total += counts[tor].0[to] as usize;
            }
        }
        if total > few.room() {
            return false;
        }
        for tor in bits(*open_from) {
            for from in bits(self.before.send.0[tor]) {
                let row = self.demands.row(tor * shape.per_tor() + from);
                for to in bits(open[tor]) {
                    let hosts = row.0[to] & recv.0[to];
                    let has_room = few.add(ListedDemand::inside(tor, from, to), hosts);
                    debug_assert!(has_room, "all were counted");
                }
            }
        }
        true
    }

    /// Adds demands to and from Cores to the list.
    #[inline(always)]
    fn collect_outside<O: Ops>(&mut self, class: usize) {
        let Scratch { shape, few, .. } = &mut *self.memory;
        if shape.cores() == 0 {
            return;
        }
        for tor in 0..shape.tors() {
            for from in bits(self.before.send.0[tor]) {
                let host = tor * shape.per_tor() + from;
                let pods = O::equal(self.demands.pods(host), class as u8);
                let has_room = few.add(ListedDemand::to_pods(tor, from), pods);
                debug_assert!(has_room, "with Cores there is room for all");
            }
        }
        for core in 0..shape.cores() {
            let (agg, layer) = shape.core_place(core);
            if self.before.from_core[layer] >> agg & 1 == 1 {
                let sender = shape.hosts() + core;
                for to in bits(self.demands.tors(sender, class)) {
                    let hosts = O::equal(self.demands.class_bytes(sender, to), class as u8);
                    let hosts = hosts & self.before.recv.0[to];
                    let has_room = few.add(ListedDemand::from_core(core, to), hosts);
                    debug_assert!(has_room, "with Cores there is room for all");
                }
            }
        }
    }

    /// Every demand of the list draws a path; Aggs grant in random order.
    #[inline(always)]
    fn literal<O: Ops>(&mut self, class: usize) {
        let mut few = mem::take(&mut self.memory.few);
        shuffle(few.listed(), self.chance);
        for demand in few.listed() {
            let grant = match demand.tors() {
                Some(tors) => self.draw_inside::<O>(*demand, tors),
                None => self.draw_outside::<O>(*demand),
            };
            if let Some(grant) = grant {
                self.memory.granted.push(Request { grant, class: class as u8, before: NONE });
            }
        }
        self.memory.few = few;
    }

    /// Draws one of the idle paths of a demand inside the pod; the grant, if no other request has
    /// been granted a port of it.
    #[inline(always)]
    fn draw_inside<O: Ops>(
        &mut self,
        demand: ListedDemand,
        (from, to): (usize, usize),
    ) -> Option<Grant> {
        let (up, down) = (&mut self.ports.up.0[from], &mut self.ports.down.0[to]);
        // What is listed had an idle path, so it draws one, even where all have been granted since.
        let drawn = self.chance.next();
        if *up & *down == 0 {
            return None;
        }
        let idle = self.before.up.0[from] & self.before.down.0[to];
        let agg = O::nth_bit(idle, scale((drawn >> 32) as u32, idle.count_ones()));
        let link = 1 << agg;
        if *up & *down & link == 0 {
            return None;
        }
        *up &= !link;
        *down &= !link;
        let (sender, to) = demand.ends(&self.memory.shape);
        Some(Grant { sender, to, agg: agg as u8, core: None })
    }

    /// Draws one of the idle paths of a demand to or from a Core; the grant, if no other request
    /// has been granted a port of it.
    #[inline(always)]
    fn draw_outside<O: Ops>(&mut self, demand: ListedDemand) -> Option<Grant> {
        let shape = &self.memory.shape;
        let (sender, to) = demand.ends(shape);
        let at = usize::from(sender);
        let grant = match to {
            To::Host(host) => {
                let (agg, _) = shape.core_place(at - shape.hosts());
                let idle = 1 << agg & self.before.down.0[shape.place(usize::from(host)).0];
                if idle == 0 {
                    return None;
                }
                // There is one path. The draw keeps the order of all later ones.
                self.chance.next();
                Grant { sender, to, agg: agg as u8, core: None }
            }
            To::Pod(pod) => {
                let up = self.before.up.0[shape.place(at).0];
                let mouse = self.demands.has_mouse(at, to);
                let pod = usize::from(pod);
                let (agg, core) = draw_core::<O>(shape, self.before, self.chance, up, pod, mouse)?;
                Grant { sender, to, agg: agg as u8, core: Some(core as u16) }
            }
        };
        grant_port(self.ports, shape, &grant).then_some(grant)
    }

    /// Draws the places of first requests, and lets each Agg grant in their order.
    #[inline(always)]
    fn dense<O: Ops, const ONE: bool>(&mut self, class: usize) {
        let (tors, aggs, wide) =
            (self.memory.shape.tors(), self.memory.shape.aggs(), self.memory.wide);
        let mut lanes = Words::ZERO;
        for lane in &mut lanes.0 {
            // A generator of this kind stops at 0.
            *lane = self.chance.next() as u32 | 1;
        }
        let Scratch { taken, mass, generators, .. } = &mut *self.memory;
        for tor in 0..tors {
            taken[tor] = [NONE; LANES];
            mass[tor] = paths(self.before.up.0[tor], &self.before.down);
            // One generator a lane serves all ToRs in turn: each takes it at the state at which the
            // ToR before leaves it. So an Agg's places do not have to wait for each other.
            generators[tor] = lanes;
            O::advance(&mut lanes, self.ports.up.0[tor].count_ones(), wide);
        }
        for agg in 0..aggs {
            let Scratch { counts, mass, generators, places, .. } = &mut *self.memory;
            for tor in 0..tors {
                if self.ports.up.0[tor] >> agg & 1 == 0 {
                    continue;
                }
                let (left, mass) = (&mut counts[tor], &mut mass[tor]);
                let (lanes, out) = (&mut generators[tor], &mut places[tor]);
                O::places(left, mass, (&self.ports.down, agg as u32), lanes, out, wide);
            }
            self.grant_of_agg::<O, ONE>(agg, class);
        }
    }

    /// Grant 1 of one Agg. Requests taken in the order of their places give the only stable
    /// matching: no two ToRs would both prefer each other. ToRs that propose and are displaced find
    /// it without sorting.
    #[inline(always)]
    fn grant_of_agg<O: Ops, const ONE: bool>(&mut self, agg: usize, class: usize) {
        let (tors, wide) = (self.memory.shape.tors(), self.memory.wide);
        let places = &self.memory.places;
        let mut held = Words([NO_PLACE; LANES]);
        // A processor waits where it reads as a vector what it has just written as a word. Most
        // ToRs get the place that was their first while nothing was held, so all are found before.
        let mut firsts = [None; LANES];
        for tor in 0..tors {
            if self.ports.up.0[tor] >> agg & 1 == 1 {
                firsts[tor] = O::first(&places[tor], &held, wide);
            }
        }
        let mut owners = [u8::MAX; LANES];
        for (tor, first) in firsts.iter().enumerate().take(tors) {
            let (mut proposer, mut first) = (tor, *first);
            if first.is_some_and(|(to, place)| place >= held.0[to]) {
                first = O::first(&places[proposer], &held, wide);
            }
            // Each turn puts an earlier place into `held`, so there is an end.
            while let Some((to, place)) = first {
                held.0[to] = place;
                let displaced = mem::replace(&mut owners[to], proposer as u8);
                if displaced == u8::MAX {
                    break;
                }
                proposer = usize::from(displaced);
                first = O::first(&places[proposer], &held, wide);
            }
        }
        for (to, from) in owners.iter().enumerate().take(tors) {
            if *from == u8::MAX {
                continue;
            }
            let from = usize::from(*from);
            let Some((sender, host)) = self.draw_demand::<O, ONE>(from, to, class) else {
                continue;
            };
            let number = self.memory.granted.len() as u16;
            let before = mem::replace(&mut self.memory.taken[from][to], number);
            self.ports.up.0[from] &= !(1 << agg);
            self.ports.down.0[to] &= !(1 << agg);
            let grant = Grant { sender, to: To::Host(host), agg: agg as u8, core: None };
            self.memory.granted.push(Request { grant, class: class as u8, before });
        }
    }

    /// Draws a demand of a class between two ToRs that is not taken yet, all with the same
    /// probability.
    #[inline(always)]
    fn draw_demand<O: Ops, const ONE: bool>(
        &mut self,
        from: usize,
        to: usize,
        class: usize,
    ) -> Option<(u16, u16)> {
        let per_tor = self.memory.shape.per_tor();
        let (senders, receivers) = (self.before.send.0[from], self.before.recv.0[to]);
        let taken = self.memory.taken[from][to];
        for _ in 0..TRIES {
            let drawn = self.chance.next();
            let sender = O::nth_bit(senders, scale(drawn as u32, senders.count_ones())) as usize;
            let nth = scale((drawn >> 32) as u32, receivers.count_ones());
            let bit = O::nth_bit(receivers, nth) as usize;
            let sender = from * per_tor + sender;
            // A bit for each demand takes an eighth of the memory of its class.
            let asked = if ONE {
                self.demands.row(sender).0[to] >> bit & 1 == 1
            } else {
                usize::from(self.demands.class_byte(sender, (to, bit))) == class
            };
            let host = (to * per_tor + bit) as u16;
            if asked && !self.memory.has_taken(taken, sender as u16, host) {
                return Some((sender as u16, host));
            }
        }
        let mut wanted = [0u32; LANES];
        let mut count = 0;
        for bit in bits(senders) {
            let sender = from * per_tor + bit;
            let asked = if ONE {
                self.demands.row(sender).0[to]
            } else {
                O::equal(self.demands.class_bytes(sender, to), class as u8)
            };
            wanted[bit] = asked & receivers;
            count += wanted[bit].count_ones();
        }
        let mut at = taken;
        while at != NONE {
            let request = self.memory.granted[usize::from(at)];
            if let To::Host(host) = request.grant.to {
                let word = &mut wanted[usize::from(request.grant.sender) % per_tor];
                *word &= !(1 << (usize::from(host) % per_tor));
                count -= 1;
            }
            at = request.before;
        }
        if count == 0 {
            return None;
        }
        let mut nth = self.chance.below(count);
        for (bit, wanted) in wanted.iter().enumerate() {
            if nth < wanted.count_ones() {
                let host = to * per_tor + O::nth_bit(*wanted, nth) as usize;
                return Some(((from * per_tor + bit) as u16, host as u16));
            }
            nth -= wanted.count_ones();
        }
        None
    }
}

impl Scratch {
    /// Whether a demand is among the requests granted from number `at` on.
    #[inline(always)]
    fn has_taken(&self, mut at: u16, sender: u16, host: u16) -> bool {
        while at != NONE {
            let request = &self.granted[usize::from(at)];
            if request.grant.sender == sender && request.grant.to == To::Host(host) {
                return true;
            }
            at = request.before;
        }
        false
    }
}

/// How many Aggs a ToR with the idle links `up` has in common with each ToR.
#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "at most 32")]
fn paths(up: u32, down: &Words) -> Mass {
    let mut mass = Mass([0.0; LANES]);
    for (mass, down) in mass.0.iter_mut().zip(&down.0) {
        *mass = (up & down).count_ones() as f32;
    }
    mass
}

/// Marks the switches' ports of a request to or from a Core; false when one is taken.
#[inline(always)]
fn grant_port(ports: &mut IdlePorts, shape: &Shape, grant: &Grant) -> bool {
    let bit = 1u32 << grant.agg;
    let sender = usize::from(grant.sender);
    let first = match sender.checked_sub(shape.hosts()).map(|core| shape.core_place(core)) {
        Some((_, layer)) => &mut ports.from_core[layer],
        None => &mut ports.up.0[shape.place(sender).0],
    };
    let second = match (grant.to, grant.core) {
        (To::Host(host), _) => &mut ports.down.0[shape.place(usize::from(host)).0],
        (_, core) => &mut ports.to_core[shape.core_place(usize::from(core.unwrap_or(0))).1],
    };
    if *first & *second & bit == 0 {
        return false;
    }
    *first &= !bit;
    *second &= !bit;
    true
}
