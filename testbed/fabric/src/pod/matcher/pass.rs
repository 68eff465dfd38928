//! One pass over the senders, class by class: what `greedy` and `exact` share. The result is
//! maximal: no open demand is left whose sender, receiver and a path are free.
//!
//! Senders come in random order, each with its best class. A sender that finds no receiver in a
//! class comes again with its next class, among the senders that have that class already. It first
//! tries its *partner*, a host that no other sender has as partner in this decision, and then any
//! free host, all with the same chance. Partners of the hosts of one ToR are below one ToR, so that
//! under dense demand their paths do not meet either.

use core::mem;

use super::Pair;
use crate::pod::chance::{Chance, scale, shuffle};
use crate::pod::demands::{Demands, To};
use crate::pod::ladder::CLASSES;
use crate::pod::ops::{Ops, SMALL, candidates_of_few};
use crate::pod::ports::{Grant, IdlePorts};
use crate::pod::shape::{LANES, LAYERS, Shape, Words};

/// How the pass gets the links of a path inside the pod: it takes them at once, or counts them and
/// leaves the choice for later.
pub(super) trait Router {
    /// Aggs by which a host of `tor` could send, as far as its own links go.
    fn up(&self, ports: &IdlePorts, tor: usize) -> u32;
    /// For each ToR: Aggs by which a host of it could receive.
    fn down<'a>(&'a self, ports: &'a IdlePorts) -> &'a Words;
    /// Takes a path that exists; its Agg, or any number where Aggs are chosen later.
    fn take(&mut self, ports: &mut IdlePorts, from: usize, to: usize) -> u8;
    /// ToRs to which a path from outside may still lead.
    fn open_down(&self) -> u32;
    /// Notes that a path with a given Agg uses a link of `tor` up.
    fn took_up(&mut self, tor: usize);
    /// Notes that a path with a given Agg uses a link of `tor` down.
    fn took_down(&mut self, tor: usize);
}

/// Memory of a pass, and its draws for this decision.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    shape: Shape,
    wide: bool,
    /// Whether hosts of this pod can have demands to other pods.
    has_pods: bool,
    order: Vec<u16>,
    /// The first sender of the chain of each class, and the next of each sender; [`END`] at its
    /// end.
    heads: [u16; CLASSES],
    nexts: Vec<u16>,
    /// For each ToR: the ToR of its hosts' partners, and how far their numbers differ.
    partners: [(u8, u8); LANES],
    /// The Agg that is tried first.
    pub(super) first_agg: u32,
}

const END: u16 = u16::MAX;

/// The input and output of a pass.
pub(super) struct Work<'a, R> {
    pub(super) demands: &'a Demands,
    pub(super) ports: &'a mut IdlePorts,
    pub(super) router: &'a mut R,
    pub(super) chance: &'a mut Chance,
    pub(super) grants: &'a mut Vec<Grant>,
}

#[expect(clippy::cast_possible_truncation, reason = "numbers of hosts, ToRs and Cores fit")]
impl Pass {
    pub(super) fn new(shape: &Shape) -> Self {
        Self {
            shape: *shape,
            wide: shape.tors().max(shape.aggs()) > LANES / 2,
            has_pods: shape.cores() > 0,
            order: (0..shape.senders() as u16).collect(),
            heads: [END; CLASSES],
            nexts: vec![END; shape.senders()],
            partners: [(0, 0); LANES],
            first_agg: 0,
        }
    }

    /// Draws once for a decision: the order of the senders, and their partners.
    #[inline(always)]
    pub(super) fn draw(&mut self, chance: &mut Chance) {
        shuffle(&mut self.order, chance);
        let (tors, hosts) = (self.shape.tors() as u32, self.shape.per_tor() as u32);
        let (tor_shift, shift) = (chance.below(tors), chance.below(hosts));
        // No host is its own partner.
        let own = if hosts > 1 { 1 + chance.below(hosts - 1) } else { 0 };
        for tor in 0..tors {
            let partner = if tor + tor_shift < tors { tor } else { tor.wrapping_sub(tors) };
            let partner = partner.wrapping_add(tor_shift);
            let shift = if partner == tor { own } else { shift };
            self.partners[tor as usize] = (partner as u8, shift as u8);
        }
        self.first_agg = self.draw_agg(chance);
    }

    /// The ToR of a host and the host's number there. A pod has no more ToRs than [`Words`], and
    /// the remainder shows this to the compiler, so that no index is checked.
    #[inline(always)]
    fn place(&self, host: usize) -> (usize, usize) {
        let (tor, bit) = self.shape.place(host);
        (tor % LANES, bit)
    }

    /// Any Agg.
    #[inline(always)]
    pub(super) fn draw_agg(&self, chance: &mut Chance) -> u32 {
        chance.below(self.shape.aggs() as u32)
    }

    /// Grants the open demands of `first`, in their order, as far as they fit.
    #[inline(always)]
    pub(super) fn serve_first<O: Ops, R: Router>(&self, work: &mut Work<'_, R>, first: &[Pair]) {
        for &(sender, to) in first {
            let sender = usize::from(sender);
            if work.demands.class(sender, to).is_none() {
                continue;
            }
            if sender >= self.shape.hosts() {
                self.serve_core_pair(work, sender, to);
                continue;
            }
            let (tor, bit) = self.place(sender);
            let up = work.router.up(work.ports, tor);
            if work.ports.send.0[tor] >> bit & 1 == 0 || up == 0 {
                continue;
            }
            let done = match to {
                To::Host(host) => self.serve_host_pair(work, sender, up, usize::from(host)),
                To::Pod(pod) => self.serve_pod_pair::<O, R>(work, sender, usize::from(pod)),
            };
            if done {
                work.ports.send.0[tor] &= !(1 << bit);
            }
        }
    }

    /// A grant from a host to a given host.
    #[inline(always)]
    fn serve_host_pair<R: Router>(
        &self,
        work: &mut Work<'_, R>,
        sender: usize,
        up: u32,
        host: usize,
    ) -> bool {
        let (tor, bit) = self.place(host);
        let free = work.ports.recv.0[tor] >> bit & 1 == 1;
        if !free || up & work.router.down(work.ports).0[tor] == 0 {
            return false;
        }
        let agg = work.router.take(work.ports, self.place(sender).0, tor);
        self.give(work, sender, (tor, bit), agg);
        true
    }

    /// A grant from a Core to a given host.
    #[inline(always)]
    fn serve_core_pair<R: Router>(&self, work: &mut Work<'_, R>, sender: usize, to: To) {
        let To::Host(host) = to else { return };
        let (agg, layer) = self.shape.core_place(sender - self.shape.hosts());
        let (tor, bit) = self.place(usize::from(host));
        let ports = &work.ports;
        let free = ports.from_core[layer] & ports.down.0[tor] & 1 << agg != 0;
        if free && work.router.open_down() >> tor & 1 == 1 && ports.recv.0[tor] >> bit & 1 == 1 {
            self.take_core(work, sender, (tor, bit));
        }
    }

    /// Grants until nothing more fits.
    #[inline(always)]
    pub(super) fn run<O: Ops, R: Router>(&mut self, work: &mut Work<'_, R>) {
        if work.demands.ladder().classes() == 1 {
            for &sender in &self.order {
                let sender = usize::from(sender);
                if work.demands.present(sender) != 0 {
                    self.serve::<O, R, true>(work, sender, 0);
                }
            }
            return;
        }
        let mut waiting = 0u64;
        let order = mem::take(&mut self.order);
        for &sender in &order {
            self.enqueue(&mut waiting, sender, work.demands.present(usize::from(sender)));
        }
        self.order = order;
        while waiting != 0 {
            let class = waiting.trailing_zeros() as usize;
            let sender = self.heads[class];
            self.heads[class] = self.nexts[usize::from(sender)];
            if self.heads[class] == END {
                waiting &= waiting - 1;
            }
            if !self.serve::<O, R, false>(work, usize::from(sender), class) {
                let later = work.demands.present(usize::from(sender)) & (!1 << class);
                self.enqueue(&mut waiting, sender, later);
            }
        }
    }

    /// Chains a sender to others with the same best class, if it has any.
    #[inline(always)]
    fn enqueue(&mut self, waiting: &mut u64, sender: u16, classes: u64) {
        if classes == 0 {
            return;
        }
        let class = classes.trailing_zeros() as usize;
        self.nexts[usize::from(sender)] = self.heads[class];
        self.heads[class] = sender;
        *waiting |= 1 << class;
    }

    /// Gives a sender one grant of a class; false when it may come again with another class. `ONE`
    /// says that there is one class alone.
    #[inline(always)]
    fn serve<O: Ops, R: Router, const ONE: bool>(
        &self,
        work: &mut Work<'_, R>,
        sender: usize,
        class: usize,
    ) -> bool {
        if sender >= self.shape.hosts() {
            return self.serve_core::<O, R, ONE>(work, sender, class);
        }
        let (tor, bit) = self.place(sender);
        let up = work.router.up(work.ports, tor);
        if work.ports.send.0[tor] >> bit & 1 == 0 || up == 0 {
            return true;
        }
        let to_pods = self.has_pods && work.demands.pod_classes(sender) >> class & 1 == 1;
        // Both kinds of one class have the same chance to go first.
        let pods_first = to_pods && work.chance.below(2) == 0;
        let done = (pods_first && self.serve_pod::<O, R>(work, sender, class))
            || self.serve_host::<O, R, ONE>(work, (sender, tor, bit), up, class)
            || (to_pods && !pods_first && self.serve_pod::<O, R>(work, sender, class));
        if done {
            work.ports.send.0[tor] &= !(1 << bit);
        }
        done
    }

    /// A grant from a host, of which the ToR and its number there are given, to a host.
    #[inline(always)]
    fn serve_host<O: Ops, R: Router, const ONE: bool>(
        &self,
        work: &mut Work<'_, R>,
        (sender, tor, bit): (usize, usize, usize),
        up: u32,
        class: usize,
    ) -> bool {
        let (to_tor, shift) = self.partners[tor];
        let (to_tor, hosts) = (usize::from(to_tor) % LANES, self.shape.per_tor());
        let to_bit = bit + usize::from(shift);
        let to_bit = if to_bit < hosts { to_bit } else { to_bit - hosts };
        let asked = if ONE {
            work.demands.row(sender).0[to_tor] >> to_bit & 1 == 1
        } else {
            usize::from(work.demands.class_byte(sender, (to_tor, to_bit))) == class
        };
        let free = work.ports.recv.0[to_tor] >> to_bit & 1 == 1;
        let chosen = if asked && free && up & work.router.down(work.ports).0[to_tor] != 0 {
            (to_tor, to_bit)
        } else {
            let down = work.router.down(work.ports);
            let free = &work.ports.recv;
            let found = self.find::<O, ONE>(work.demands, work.chance, sender, class, |row| {
                (self.candidates::<O>(up, down, row, free), free)
            });
            let Some(found) = found else { return false };
            found
        };
        let agg = work.router.take(work.ports, tor, chosen.0);
        self.give(work, sender, chosen, agg);
        true
    }

    /// A grant from a Core to a host; true also when the Core is busy, as it has nothing else to
    /// try.
    #[inline(always)]
    fn serve_core<O: Ops, R: Router, const ONE: bool>(
        &self,
        work: &mut Work<'_, R>,
        sender: usize,
        class: usize,
    ) -> bool {
        let (agg, layer) = self.shape.core_place(sender - self.shape.hosts());
        if work.ports.from_core[layer] >> agg & 1 == 0 {
            return true;
        }
        let (down, free) = (&work.ports.down, &work.ports.recv);
        let open = work.router.open_down();
        let found = self.find::<O, ONE>(work.demands, work.chance, sender, class, |row| {
            (self.candidates::<O>(1 << agg, down, row, free) & open, free)
        });
        let Some(chosen) = found else { return false };
        self.take_core(work, sender, chosen);
        true
    }

    /// Takes the links from a Core to a host, which are idle.
    #[inline(always)]
    fn take_core<R: Router>(&self, work: &mut Work<'_, R>, sender: usize, to: (usize, usize)) {
        let (agg, layer) = self.shape.core_place(sender - self.shape.hosts());
        work.ports.from_core[layer] &= !(1 << agg);
        work.ports.down.0[to.0] &= !(1 << agg);
        work.router.took_down(to.0);
        self.give(work, sender, to, agg as u8);
    }

    /// ToRs with a free receiver of `row`, to which one of the Aggs `up` has an idle link.
    #[inline(always)]
    fn candidates<O: Ops>(&self, up: u32, down: &Words, row: &Words, free: &Words) -> u32 {
        if self.shape.tors() <= SMALL {
            return candidates_of_few(up, down, row, free);
        }
        O::candidates(up, down, row, free, self.wide)
    }

    /// Any receiver of a class, all with the same chance by ToR and below it. `candidates` has the
    /// ToRs that can be reached, given hosts that are wanted, and the free hosts.
    #[inline(always)]
    fn find<'a, O: Ops, const ONE: bool>(
        &self,
        demands: &Demands,
        chance: &mut Chance,
        sender: usize,
        class: usize,
        candidates: impl FnOnce(&Words) -> (u32, &'a Words),
    ) -> Option<(usize, usize)> {
        let (mut tors, free) = if ONE {
            candidates(demands.row(sender))
        } else {
            let (tors, free) = candidates(&Words::ALL);
            (tors & demands.tors(sender, class), free)
        };
        while tors != 0 {
            let drawn = chance.next();
            let tor = O::nth_bit(tors, scale(drawn as u32, tors.count_ones())) as usize % LANES;
            let wanted = if ONE {
                demands.row(sender).0[tor]
            } else {
                O::equal(demands.class_bytes(sender, tor), class as u8)
            };
            let hosts = wanted & free.0[tor];
            if hosts != 0 {
                let bit = O::nth_bit(hosts, scale((drawn >> 32) as u32, hosts.count_ones()));
                return Some((tor, bit as usize));
            }
            tors &= !(1 << tor);
        }
        None
    }

    #[inline(always)]
    fn give<R>(&self, work: &mut Work<'_, R>, sender: usize, to: (usize, usize), agg: u8) {
        work.ports.recv.0[to.0] &= !(1 << to.1);
        let host = (to.0 * self.shape.per_tor() + to.1) as u16;
        work.grants.push(Grant { sender: sender as u16, to: To::Host(host), agg, core: None });
    }

    /// A grant from a host to a pod through any Core that is idle and takes it.
    #[inline(always)]
    fn serve_pod<O: Ops, R: Router>(
        &self,
        work: &mut Work<'_, R>,
        sender: usize,
        class: usize,
    ) -> bool {
        let mut pods = O::equal(work.demands.pods(sender), class as u8);
        while pods != 0 {
            let pod = O::nth_bit(pods, work.chance.below(pods.count_ones()));
            pods &= !(1 << pod);
            if self.serve_pod_pair::<O, R>(work, sender, pod as usize) {
                return true;
            }
        }
        false
    }

    /// A grant from a host to a given pod, through any Core that is idle and takes it.
    #[inline(always)]
    fn serve_pod_pair<O: Ops, R: Router>(
        &self,
        work: &mut Work<'_, R>,
        sender: usize,
        pod: usize,
    ) -> bool {
        let (tor, _) = self.place(sender);
        let to = To::Pod(pod as u16);
        let has_mouse = work.demands.has_mouse(sender, to);
        let up = work.ports.up.0[tor];
        let chosen = draw_core::<O>(&self.shape, work.ports, work.chance, up, pod, has_mouse);
        let Some((agg, core)) = chosen else { return false };
        let (_, layer) = self.shape.core_place(core);
        work.ports.up.0[tor] &= !(1 << agg);
        work.ports.to_core[layer] &= !(1 << agg);
        work.router.took_up(tor);
        let (sender, core) = (sender as u16, Some(core as u16));
        work.grants.push(Grant { sender, to, agg: agg as u8, core });
        true
    }
}

/// Any Core that takes a cell for `pod` from a ToR with idle links `up`, all with the same chance;
/// its Agg and its number. For a mouse one of those for mice alone, where the pod says so and one
/// is idle.
#[inline(always)]
pub(super) fn draw_core<O: Ops>(
    shape: &Shape,
    ports: &IdlePorts,
    chance: &mut Chance,
    up: u32,
    pod: usize,
    has_mouse: bool,
) -> Option<(usize, usize)> {
    let mut idle = [0; LAYERS];
    let mut count = 0;
    for (layer, idle) in idle.iter_mut().enumerate().take(shape.layers()) {
        *idle = ports.relays(up, pod, layer, has_mouse);
        count += idle.count_ones();
    }
    if count == 0 {
        return None;
    }
    if has_mouse && shape.mice_first() {
        let own = core::array::from_fn(|layer| idle[layer] & ports.mice[layer]);
        let of_own = own.iter().map(|idle: &u32| idle.count_ones()).sum();
        if of_own > 0 {
            (idle, count) = (own, of_own);
        }
    }
    let mut nth = chance.below(count);
    for (layer, idle) in idle.into_iter().enumerate() {
        if nth < idle.count_ones() {
            let agg = O::nth_bit(idle, nth) as usize;
            return Some((agg, layer * shape.aggs() + agg));
        }
        nth -= idle.count_ones();
    }
    None
}
