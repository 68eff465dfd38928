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
use crate::pod::shape::{LANES, Shape, Words};

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
    /// For each ToR that sends and ToR that receives: demands of the class at hand.
    counts: [Words; LANES],
    /// The demands of the class at hand, as sender and receiver, while they are few.
    few: Vec<(u16, To)>,
    /// The most demands that count as few. The capacity of `few` may be larger.
    few_max: usize,
    /// For each Agg and ToR that sends: the places of the first requests.
    places: Vec<Words>,
    /// For each ToR that sends and ToR that receives: the last request granted of the class at
    /// hand, or [`NONE`].
    taken: [[u16; LANES]; LANES],
    granted: Vec<Request>,
    /// For each sender and each receiver: the request kept, and how many of its class there were.
    kept: [Vec<(u16, u16)>; 2],
}

const NONE: u16 = u16::MAX;

impl Scratch {
    fn new(shape: &Shape) -> Self {
        let all = shape.senders() * shape.hosts() + shape.hosts() * shape.pods();
        // Demands across pods have no places; then all demands are drawn one by one.
        let few = if shape.cores() > 0 { all } else { FEW * shape.senders() };
        let links = shape.aggs() * shape.tors() + shape.cores();
        Self {
            shape: *shape,
            wide: shape.tors().max(shape.aggs()) > LANES / 2,
            counts: [Words::ZERO; LANES],
            few: Vec::with_capacity(few),
            few_max: few,
            places: vec![Words::ZERO; shape.aggs() * shape.tors()],
            taken: [[NONE; LANES]; LANES],
            granted: Vec::with_capacity(links),
            kept: [vec![(NONE, 0); shape.senders()], vec![(NONE, 0); shape.hosts()]],
        }
    }

    /// Grant 2 and Accept: the best request of each sender, then of each receiver.
    fn accept(&mut self, ports: &mut IdlePorts, chance: &mut Chance, grants: &mut Vec<Grant>) {
        let Self { shape, granted, kept: [senders, receivers], .. } = self;
        senders.fill((NONE, 0));
        receivers.fill((NONE, 0));
        for at in 0..granted.len() {
            keep(&mut senders[usize::from(granted[at].grant.sender)], granted, at, chance);
        }
        for (kept, _) in senders.iter().filter(|(kept, _)| *kept != NONE) {
            let at = usize::from(*kept);
            if let To::Host(host) = granted[at].grant.to {
                keep(&mut receivers[usize::from(host)], granted, at, chance);
            }
        }
        for (kept, _) in senders.iter().filter(|(kept, _)| *kept != NONE) {
            let grant = granted[usize::from(*kept)].grant;
            let accepted = match grant.to {
                To::Host(host) => receivers[usize::from(host)].0 == *kept,
                To::Pod(_) => true,
            };
            if accepted {
                let fits = ports.occupy(shape, &grant);
                debug_assert!(fits, "Grant 1 keeps ports apart");
                grants.push(grant);
            }
        }
    }
}

/// Keeps request number `at` if its class is better than that of the one kept. Among requests of
/// one class each is kept with the same probability.
#[expect(clippy::cast_possible_truncation, reason = "requests are below 2^16")]
fn keep(kept: &mut (u16, u16), granted: &[Request], at: usize, chance: &mut Chance) {
    let class = |at: u16| granted[usize::from(at)].class;
    let here = at as u16;
    if kept.0 == NONE || class(here) < class(kept.0) {
        *kept = (here, 1);
    } else if class(here) == class(kept.0) {
        kept.1 += 1;
        if chance.below(kept.1.into()) == 0 {
            kept.0 = here;
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
        while classes != 0 {
            let class = classes.trailing_zeros() as usize;
            classes &= classes - 1;
            let all = if self.demands.ladder().classes() == 1 {
                self.collect::<O, true>(class)
            } else {
                self.collect::<O, false>(class)
            };
            if all {
                self.collect_outside::<O>(class);
                self.literal::<O>(class);
            } else {
                self.dense::<O>(class);
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "hosts, ToRs and Aggs fit")]
impl Iteration<'_> {
    /// Counts the demands of a class that could still win, by ToRs; true when all of them are in
    /// the list `few` too.
    #[inline(always)]
    fn collect<O: Ops, const ONE: bool>(&mut self, class: usize) -> bool {
        let Scratch { shape, wide, counts, few, few_max, .. } = &mut *self.memory;
        let recv = &self.before.recv;
        few.clear();
        let (mut total, room) = (0, *few_max);
        for (tor, counts) in counts.iter_mut().enumerate().take(shape.tors()) {
            *counts = Words::ZERO;
            let up = self.ports.up.0[tor];
            let open = O::candidates(up, &self.ports.down, &Words::ALL, recv, *wide);
            if open == 0 {
                continue;
            }
            for bit in bits(self.before.send.0[tor]) {
                let sender = tor * shape.per_tor() + bit;
                if ONE {
                    O::count(self.demands.row(sender), recv, counts, *wide);
                    continue;
                }
                for to in bits(self.demands.tors(sender, class) & open) {
                    let bytes = self.demands.class_bytes(sender, to);
                    let hosts = O::equal(bytes, class as u8) & recv.0[to];
                    counts.0[to] += hosts.count_ones();
                    total += hosts.count_ones() as usize;
                    if total <= room {
                        list(few, shape, sender, to, hosts);
                    }
                }
            }
            if ONE {
                let sum: u32 = bits(open).map(|to| counts.0[to]).sum();
                total += sum as usize;
            }
        }
        if ONE && total <= room {
            for tor in (0..shape.tors()).filter(|tor| counts[*tor] != Words::ZERO) {
                for bit in bits(self.before.send.0[tor]) {
                    let sender = tor * shape.per_tor() + bit;
                    for to in 0..shape.tors() {
                        let hosts = self.demands.row(sender).0[to] & recv.0[to];
                        if self.ports.up.0[tor] & self.ports.down.0[to] != 0 {
                            list(few, shape, sender, to, hosts);
                        }
                    }
                }
            }
        }
        total <= room
    }

    /// Adds demands to and from Cores to the list.
    #[inline(always)]
    fn collect_outside<O: Ops>(&mut self, class: usize) {
        let Scratch { shape, few, .. } = &mut *self.memory;
        if shape.cores() == 0 {
            return;
        }
        for tor in 0..shape.tors() {
            for bit in bits(self.before.send.0[tor]) {
                let host = tor * shape.per_tor() + bit;
                let pods = O::equal(self.demands.pods(host), class as u8);
                few.extend(bits(pods).map(|pod| (host as u16, To::Pod(pod as u16))));
            }
        }
        for core in 0..shape.cores() {
            let (agg, layer) = shape.core_place(core);
            if self.before.from_core[layer] >> agg & 1 == 1 {
                let sender = shape.hosts() + core;
                for tor in bits(self.demands.tors(sender, class)) {
                    let hosts = O::equal(self.demands.class_bytes(sender, tor), class as u8);
                    list(few, shape, sender, tor, hosts & self.before.recv.0[tor]);
                }
            }
        }
    }

    /// Every demand of the list draws a path; Aggs grant in random order.
    #[inline(always)]
    fn literal<O: Ops>(&mut self, class: usize) {
        let mut few = mem::take(&mut self.memory.few);
        shuffle(&mut few, self.chance);
        for (sender, to) in &few {
            if let Some(grant) = self.draw_path::<O>(*sender, *to)
                && grant_port(self.ports, &self.memory.shape, &grant)
            {
                self.memory.granted.push(Request { grant, class: class as u8, before: NONE });
            }
        }
        self.memory.few = few;
    }

    /// One of the idle paths of a demand.
    #[inline(always)]
    fn draw_path<O: Ops>(&mut self, sender: u16, to: To) -> Option<Grant> {
        let shape = &self.memory.shape;
        let at = usize::from(sender);
        let up = match at.checked_sub(shape.hosts()).map(|core| shape.core_place(core)) {
            Some((agg, _)) => 1 << agg,
            None => self.before.up.0[shape.place(at).0],
        };
        match to {
            To::Host(host) => {
                let idle = up & self.before.down.0[shape.place(usize::from(host)).0];
                if idle == 0 {
                    return None;
                }
                let agg = O::nth_bit(idle, self.chance.below(idle.count_ones())) as u8;
                Some(Grant { sender, to, agg, core: None })
            }
            To::Pod(pod) => {
                let mouse = self.demands.has_mouse(at, to);
                let pod = usize::from(pod);
                let (agg, core) = draw_core::<O>(shape, self.before, self.chance, up, pod, mouse)?;
                Some(Grant { sender, to, agg: agg as u8, core: Some(core as u16) })
            }
        }
    }

    /// Draws the places of first requests, and lets each Agg grant in their order.
    #[inline(always)]
    fn dense<O: Ops>(&mut self, class: usize) {
        let (tors, aggs, wide) =
            (self.memory.shape.tors(), self.memory.shape.aggs(), self.memory.wide);
        let mut lanes = Words::ZERO;
        for lane in &mut lanes.0 {
            // A generator of this kind stops at 0.
            *lane = self.chance.next() as u32 | 1;
        }
        for tor in 0..tors {
            self.memory.taken[tor] = [NONE; LANES];
            let mut left = self.memory.counts[tor];
            let mut mass = Mass([0.0; LANES]);
            let up = self.before.up.0[tor];
            O::paths(up, &self.before.down, &mut mass, wide);
            for agg in bits(self.ports.up.0[tor]) {
                let open = &self.ports.down;
                let places = &mut self.memory.places[agg * tors + tor];
                O::places(&mut left, &mut mass, (open, agg as u32), &mut lanes, places, wide);
            }
        }
        for agg in 0..aggs {
            self.grant_of_agg::<O>(agg, class);
        }
    }

    /// Grant 1 of one Agg. Requests taken in the order of their places give the only stable
    /// matching: no two ToRs would both prefer each other. ToRs that propose and are displaced find
    /// it without sorting.
    #[inline(always)]
    fn grant_of_agg<O: Ops>(&mut self, agg: usize, class: usize) {
        let (tors, wide) = (self.memory.shape.tors(), self.memory.wide);
        let mut held = Words([NO_PLACE; LANES]);
        let mut owners = [u8::MAX; LANES];
        for tor in 0..tors {
            if self.ports.up.0[tor] >> agg & 1 == 0 {
                continue;
            }
            let mut proposer = tor;
            // Each turn puts an earlier place into `held`, so there is an end.
            while let Some((to, place)) =
                O::first(&self.memory.places[agg * tors + proposer], &held, wide)
            {
                held.0[to] = place;
                let displaced = mem::replace(&mut owners[to], proposer as u8);
                if displaced == u8::MAX {
                    break;
                }
                proposer = usize::from(displaced);
            }
        }
        for (to, from) in owners.iter().enumerate().take(tors) {
            if *from == u8::MAX {
                continue;
            }
            let from = usize::from(*from);
            let Some((sender, host)) = self.draw_demand::<O>(from, to, class) else { continue };
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
    fn draw_demand<O: Ops>(&mut self, from: usize, to: usize, class: usize) -> Option<(u16, u16)> {
        let per_tor = self.memory.shape.per_tor();
        let (senders, receivers) = (self.before.send.0[from], self.before.recv.0[to]);
        let taken = self.memory.taken[from][to];
        for _ in 0..TRIES {
            let drawn = self.chance.next();
            let sender = O::nth_bit(senders, scale(drawn as u32, senders.count_ones())) as usize;
            let nth = scale((drawn >> 32) as u32, receivers.count_ones());
            let bit = O::nth_bit(receivers, nth) as usize;
            let sender = from * per_tor + sender;
            let asked = usize::from(self.demands.class_byte(sender, (to, bit))) == class;
            let host = (to * per_tor + bit) as u16;
            if asked && !self.memory.has_taken(taken, sender as u16, host) {
                return Some((sender as u16, host));
            }
        }
        let mut wanted = [0u32; LANES];
        let mut count = 0;
        for bit in bits(senders) {
            let sender = from * per_tor + bit;
            let asked = O::equal(self.demands.class_bytes(sender, to), class as u8);
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

/// Adds a sender's demands for some hosts of a ToR.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "hosts and Cores fit")]
fn list(few: &mut Vec<(u16, To)>, shape: &Shape, sender: usize, tor: usize, hosts: u32) {
    let first = tor * shape.per_tor();
    few.extend(bits(hosts).map(|bit| (sender as u16, To::Host((first + bit) as u16))));
}

/// Marks the switches' ports of a request; false when one is taken.
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
