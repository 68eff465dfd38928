//! Demands: the scheduler's three matrices, by class of priority and by age.
//! Source: \[zeropod\] IV-A1, IV-B1.
//!
//! | Matrix | Sender | Receiver |
//! |---|---|---|
//! | E2E | host | host |
//! | E2P | host | pod |
//! | C2E | Core | host |
//!
//! Senders are numbered hosts first, then Cores. A demand is *open* while bytes of it wait for a
//! grant. Beside the sizes there are indices for matchers, kept up to date with every change. They
//! have, by ToR, a bit and a byte (its class) for each open demand. For each sender they have the
//! ToRs and the classes in which it has open demands. Open demands are also in a list for each
//! [`DemandOrder`].

mod lists;

use core::fmt;

use zerocopy::FromZeros;

use crate::pod::ladder::{CLASSES, CLOSED, Ladder};
use crate::pod::ops::equal;
use crate::pod::shape::{PODS, Shape, Words};

pub use lists::DemandOrder;
use lists::{ListEnds, NO_ENDS, Neighbours, ORDERS};

/// The far end of a demand, as its sender names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum To {
    /// A host of this pod.
    Host(u16),
    /// Another pod, through any Core.
    Pod(u16),
}

impl fmt::Display for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => write!(f, "host {host}"),
            Self::Pod(pod) => write!(f, "pod {pod}"),
        }
    }
}

/// One entry of a matrix. The entry of a demand that has never been open is all zeros.
// Aligned to 16 bytes, not to half a line of the cache: the allocator has zeroed memory for
// alignments up to 16. For larger ones the library writes zeros, which touches every page. So an
// entry may be in two lines, and both are prefetched.
#[derive(Clone, Copy, PartialEq, Eq, FromZeros, Debug)]
#[repr(C, align(16))]
struct MatrixEntry {
    /// Bytes asked for so far, modulo 2^32.
    asked: u32,
    /// Bytes asked for and not granted.
    backlog: u32,
    /// The epoch in which the demand opened, modulo 2^32.
    opened: u32,
    /// The epoch in which the demand opened or was last sent back, modulo 2^32.
    served: u32,
    /// The neighbours in both lists, by [`DemandOrder`], of a demand that is open.
    places: [Neighbours; ORDERS.len()],
}

const _: () = assert!(size_of::<MatrixEntry>() == 32);

/// The matrices of one pod. Nothing is allocated after [`Demands::new`].
#[derive(Clone, Debug)]
pub struct Demands {
    shape: Shape,
    ladder: Ladder,
    slots: Vec<MatrixEntry>,
    /// For each entry: bytes of the shortest flow, 0 when unknown.
    mice: Vec<u32>,
    /// For each sender: entries of which the shortest flow is known. Most senders of a loaded pod
    /// have none, and then nothing of `mice` is read.
    with_mouse: Vec<u16>,
    /// The ends of the lists by [`DemandOrder`].
    ends: [ListEnds; ORDERS.len()],
    open: usize,
    /// For each sender: the hosts to which it has an open demand, a bit each, a word a ToR.
    rows: Vec<Words>,
    /// For each sender, ToR and host of the ToR: the class of its demand. `width` bytes a ToR.
    classes: Vec<u8>,
    /// 16 or 32, the first that has room for the hosts of a ToR.
    width: usize,
    /// For each sender and class: ToRs of hosts to which it has such a demand.
    tors: Vec<[u32; CLASSES]>,
    /// For each sender: classes of which it has any.
    present: Vec<u64>,
    /// For each host and pod: the class of its demand.
    pods: Vec<[u8; PODS]>,
    /// For each sender: classes of which it has a demand to a pod; a Core has none.
    pod_classes: Vec<u64>,
}

impl Demands {
    /// Empty matrices. An entry takes memory when it, or another one of its page, is first written:
    /// a large pod has many more entries than flows.
    ///
    /// # Panics
    /// When there is no memory for the matrices.
    #[must_use]
    pub fn new(shape: Shape, ladder: Ladder) -> Self {
        let width = if shape.per_tor() <= 16 { 16 } else { 32 };
        let senders = shape.senders();
        let entries = senders * shape.hosts() + shape.hosts() * shape.pods();
        Self {
            shape,
            ladder,
            slots: MatrixEntry::new_vec_zeroed(entries).expect("memory for a pod's matrices"),
            mice: vec![0; entries],
            with_mouse: vec![0; senders],
            ends: [NO_ENDS; 2],
            open: 0,
            rows: vec![Words::ZERO; senders],
            classes: vec![CLOSED; senders * shape.tors() * width],
            width,
            tors: vec![[0; CLASSES]; senders],
            present: vec![0; senders],
            pods: vec![[CLOSED; PODS]; shape.hosts()],
            pod_classes: vec![0; senders],
        }
    }

    /// The pod.
    #[inline]
    #[must_use]
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How sizes become classes.
    #[inline]
    #[must_use]
    pub const fn ladder(&self) -> Ladder {
        self.ladder
    }

    /// Demands that are open.
    #[inline]
    #[must_use]
    pub const fn open(&self) -> usize {
        self.open
    }

    /// Whether the entry exists: its sender is of this pod, its receiver is a host of this pod or,
    /// for hosts that send, another pod, and not the sender itself.
    #[inline]
    #[must_use]
    pub fn has(&self, sender: usize, to: To) -> bool {
        let shape = &self.shape;
        match to {
            To::Host(host) => {
                sender < shape.senders()
                    && usize::from(host) < shape.hosts()
                    && usize::from(host) != sender
            }
            To::Pod(pod) => {
                sender < shape.hosts()
                    && usize::from(pod) < shape.pods()
                    && usize::from(pod) != shape.pod()
            }
        }
    }

    /// The entry of a demand, which [exists](Self::has).
    #[inline]
    fn index(&self, sender: usize, to: To) -> usize {
        debug_assert!(self.has(sender, to));
        let hosts = self.shape.hosts();
        match to {
            To::Host(host) => sender * hosts + usize::from(host),
            To::Pod(pod) => {
                self.shape.senders() * hosts + sender * self.shape.pods() + usize::from(pod)
            }
        }
    }

    /// The demand of an entry.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "hosts and pods are below 2^16")]
    fn demand(&self, index: usize) -> (usize, To) {
        let hosts = self.shape.hosts();
        let pods = self.shape.senders() * hosts;
        if index < pods {
            (index / hosts, To::Host((index % hosts) as u16))
        } else {
            let (host, pod) =
                ((index - pods) / self.shape.pods(), (index - pods) % self.shape.pods());
            (host, To::Pod(pod as u16))
        }
    }

    /// Bytes asked for and not granted.
    #[inline]
    #[must_use]
    pub fn backlog(&self, sender: usize, to: To) -> u32 {
        self.slots[self.index(sender, to)].backlog
    }

    /// Bytes asked for so far, modulo 2^32.
    #[inline]
    #[must_use]
    pub fn asked(&self, sender: usize, to: To) -> u32 {
        self.slots[self.index(sender, to)].asked
    }

    /// Bytes granted so far, modulo 2^32.
    #[inline]
    #[must_use]
    pub fn granted(&self, sender: usize, to: To) -> u32 {
        let slot = &self.slots[self.index(sender, to)];
        slot.asked.wrapping_sub(slot.backlog)
    }

    /// The epoch, modulo 2^32, in which a demand opened; `None` when it is closed.
    #[must_use]
    pub fn opened(&self, sender: usize, to: To) -> Option<u32> {
        let slot = &self.slots[self.index(sender, to)];
        (slot.backlog > 0).then_some(slot.opened)
    }

    /// Epochs until `now` since a demand opened, and since it was sent back; 0 when it is closed.
    #[must_use]
    pub fn waits(&self, sender: usize, to: To, now: u32) -> (u32, u32) {
        let slot = &self.slots[self.index(sender, to)];
        let since = |epoch: u32| if slot.backlog > 0 { now.wrapping_sub(epoch) } else { 0 };
        (since(slot.opened), since(slot.served))
    }

    /// Bytes of the shortest flow of a demand, 0 when none is known.
    #[inline]
    #[must_use]
    pub fn mouse(&self, sender: usize, to: To) -> u32 {
        self.mouse_at(sender, self.index(sender, to))
    }

    /// [`Self::mouse`] of an entry of `sender`.
    #[inline]
    fn mouse_at(&self, sender: usize, index: usize) -> u32 {
        if self.with_mouse[sender] > 0 { self.mice[index] } else { 0 }
    }

    /// Takes note of the bytes of the shortest flow of an entry of `sender`.
    #[inline]
    fn note_mouse(&mut self, sender: usize, index: usize, bytes: u32) {
        let was = self.mouse_at(sender, index);
        if was != bytes {
            self.mice[index] = bytes;
            self.with_mouse[sender] -= u16::from(was > 0);
            self.with_mouse[sender] += u16::from(bytes > 0);
        }
    }

    /// Whether a mouse waits in a demand.
    #[inline]
    #[must_use]
    pub fn has_mouse(&self, sender: usize, to: To) -> bool {
        self.mouse(sender, to) > 0
    }

    /// The class of a demand, when it is open.
    #[inline]
    #[must_use]
    pub fn class(&self, sender: usize, to: To) -> Option<u8> {
        let class = match to {
            To::Host(host) => self.class_byte(sender, self.shape.place(usize::from(host))),
            To::Pod(pod) => self.pods[sender][usize::from(pod)],
        };
        (class != CLOSED).then_some(class)
    }

    /// Adds `bytes` to what a demand asks for, in `epoch`.
    #[inline]
    pub fn ask(&mut self, sender: usize, to: To, bytes: u32, epoch: u32) {
        let index = self.index(sender, to);
        let slot = &mut self.slots[index];
        let added = slot.backlog.saturating_add(bytes) - slot.backlog;
        if added == 0 {
            return;
        }
        let opens = slot.backlog == 0;
        slot.asked = slot.asked.wrapping_add(added);
        slot.backlog += added;
        let backlog = slot.backlog;
        if opens {
            (slot.opened, slot.served) = (epoch, epoch);
            self.open += 1;
            ORDERS.into_iter().for_each(|order| self.link(index, order));
        }
        self.classify(sender, to, (backlog, self.mouse_at(sender, index)));
    }

    /// Notes the bytes of the shortest flow of a demand; 0 when none is short.
    #[inline]
    pub fn set_mouse(&mut self, sender: usize, to: To, bytes: u32) {
        let index = self.index(sender, to);
        self.note_mouse(sender, index, bytes);
        self.classify(sender, to, (self.slots[index].backlog, bytes));
    }

    /// Takes up to `bytes` off a demand; returns the bytes taken.
    #[inline]
    pub fn grant(&mut self, sender: usize, to: To, bytes: u32) -> u32 {
        let index = self.index(sender, to);
        let slot = &mut self.slots[index];
        let taken = slot.backlog.min(bytes);
        slot.backlog -= taken;
        let (backlog, closes) = (slot.backlog, slot.backlog == 0 && taken > 0);
        let mut mouse = self.mouse_at(sender, index);
        if mouse > 0 {
            mouse = if closes { 0 } else { mouse.saturating_sub(taken) };
            self.note_mouse(sender, index, mouse);
        }
        if closes {
            self.open -= 1;
            ORDERS.into_iter().for_each(|order| self.unlink(index, order));
        }
        self.classify(sender, to, (backlog, mouse));
        taken
    }

    /// Closes every demand and forgets all totals. All entries take memory afterwards.
    pub fn clear(&mut self) {
        self.slots.fill(MatrixEntry::new_zeroed());
        self.mice.fill(0);
        self.with_mouse.fill(0);
        (self.ends, self.open) = ([NO_ENDS; 2], 0);
        self.rows.fill(Words::ZERO);
        self.classes.fill(CLOSED);
        self.tors.fill([0; CLASSES]);
        self.present.fill(0);
        self.pods.fill([CLOSED; PODS]);
        self.pod_classes.fill(0);
    }

    /// Brings the indices in line with an entry: its backlog, and the bytes of its shortest flow.
    #[inline]
    fn classify(&mut self, sender: usize, to: To, (backlog, mouse): (u32, u32)) {
        // A mouse counts instead of all that waits behind it.
        //= zeropod#IV-B1
        let size = if mouse > 0 { mouse.min(backlog) } else { backlog };
        let class = if backlog > 0 { self.ladder.class(size) } else { CLOSED };
        match to {
            To::Host(host) => self.classify_host(sender, usize::from(host), class),
            To::Pod(pod) => self.classify_pod(sender, usize::from(pod), class),
        }
    }

    #[inline]
    fn classify_host(&mut self, sender: usize, host: usize, class: u8) {
        let (tor, bit) = self.shape.place(host);
        let block = (sender * self.shape.tors() + tor) * self.width;
        let was = self.classes[block + bit];
        if was == class {
            return;
        }
        if was == CLOSED {
            self.rows[sender].0[tor] |= 1 << bit;
        } else {
            // Before the byte is written: a processor waits for a byte that it has just written
            // where it reads a word with it.
            if self.alike(block, was) == 1 << bit {
                self.tors[sender][usize::from(was)] &= !(1 << tor);
            }
            self.leave(sender, was);
        }
        self.classes[block + bit] = class;
        if class == CLOSED {
            self.rows[sender].0[tor] &= !(1 << bit);
        } else {
            self.tors[sender][usize::from(class)] |= 1 << tor;
            self.enter(sender, class);
        }
    }

    /// The hosts of a ToR, whose classes begin at `block`, to which a demand is of `class`.
    #[inline]
    fn alike(&self, block: usize, class: u8) -> u32 {
        let bytes = &self.classes[block..block + self.width];
        match bytes.first_chunk::<16>() {
            // With a fixed length of 16 the comparison is one sequence of instructions without a
            // loop.
            Some(of_few) if bytes.len() == of_few.len() => equal(of_few, class),
            _ => equal(bytes, class),
        }
    }

    fn classify_pod(&mut self, host: usize, pod: usize, class: u8) {
        let was = self.pods[host][pod];
        if was == class {
            return;
        }
        self.pods[host][pod] = class;
        if was != CLOSED {
            if equal(&self.pods[host], was) == 0 {
                self.pod_classes[host] &= !(1 << was);
            }
            self.leave(host, was);
        }
        if class != CLOSED {
            self.pod_classes[host] |= 1 << class;
            self.enter(host, class);
        }
    }

    #[inline]
    fn enter(&mut self, sender: usize, class: u8) {
        self.present[sender] |= 1 << class;
    }

    /// A demand of `class` is closed or in another class. Call it after `tors` or `pod_classes` has
    /// changed.
    #[inline]
    fn leave(&mut self, sender: usize, class: u8) {
        let to_pods = self.pod_classes[sender] >> class & 1 == 1;
        if !to_pods && self.tors[sender][usize::from(class)] == 0 {
            self.present[sender] &= !(1 << class);
        }
    }

    /// The hosts to which a sender has an open demand.
    #[inline(always)]
    pub(super) fn row(&self, sender: usize) -> &Words {
        &self.rows[sender]
    }

    /// The class of a sender's demand to a host at `place`, or [`CLOSED`].
    #[inline(always)]
    pub(super) fn class_byte(&self, sender: usize, (tor, bit): (usize, usize)) -> u8 {
        self.classes[(sender * self.shape.tors() + tor) * self.width + bit]
    }

    /// The classes of a sender's demands to the hosts of a ToR, 16 or 32 bytes.
    #[inline(always)]
    pub(super) fn class_bytes(&self, sender: usize, tor: usize) -> &[u8] {
        let at = (sender * self.shape.tors() + tor) * self.width;
        &self.classes[at..at + self.width]
    }

    /// The ToRs of hosts to which a sender has a demand of `class`.
    #[inline(always)]
    pub(super) fn tors(&self, sender: usize, class: usize) -> u32 {
        self.tors[sender][class]
    }

    /// The classes of a sender's open demands, a bit each.
    #[inline(always)]
    pub(super) fn present(&self, sender: usize) -> u64 {
        self.present[sender]
    }

    /// The classes of a host's demands to pods, [`CLOSED`] where it has no demand.
    #[inline(always)]
    pub(super) fn pods(&self, host: usize) -> &[u8; PODS] {
        &self.pods[host]
    }

    /// The classes in which a host has a demand to a pod, a bit each.
    #[inline(always)]
    pub(super) fn pod_classes(&self, host: usize) -> u64 {
        self.pod_classes[host]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Ask(usize, u16, bool, u32),
        Grant(usize, u16, bool, u32),
        Mouse(usize, u16, bool, u32),
        Back(usize, u16, bool),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let bytes = prop_oneof![0u32..4000, any::<u32>()];
        let step = (0usize..13, 0u16..9, any::<bool>(), bytes, 0..4).prop_map(
            |(sender, to, pod, bytes, what)| match what {
                0 => Step::Ask(sender, to, pod, bytes),
                1 => Step::Grant(sender, to, pod, bytes),
                2 => Step::Mouse(sender, to, pod, bytes),
                _ => Step::Back(sender, to, pod),
            },
        );
        prop::collection::vec(step, 1..200)
    }

    /// Compares every index with one computed anew from the sizes.
    fn check_indices(demands: &Demands) {
        let shape = *demands.shape();
        for sender in 0..shape.senders() {
            let mut classes = 0u64;
            for host in 0..shape.hosts() {
                let (tor, bit) = shape.place(host);
                let to = To::Host(u16::try_from(host).unwrap());
                let class = if demands.has(sender, to) { demands.class(sender, to) } else { None };
                let open = demands.row(sender).0[tor] >> bit & 1 == 1;
                assert_eq!(open, class.is_some());
                assert_eq!(demands.class_byte(sender, (tor, bit)), class.unwrap_or(CLOSED));
                if let Some(class) = class {
                    classes |= 1 << class;
                    let (backlog, mouse) = (demands.backlog(sender, to), demands.mouse(sender, to));
                    let size = if mouse > 0 { mouse } else { backlog };
                    assert_eq!(class, demands.ladder().class(size.min(backlog)));
                }
            }
            for class in 0..CLASSES {
                let tors = (0..shape.tors()).filter(|tor| {
                    equal(demands.class_bytes(sender, *tor), u8::try_from(class).unwrap()) != 0
                });
                let tors = tors.fold(0, |mask, tor| mask | 1 << tor);
                assert_eq!(demands.tors(sender, class), tors);
            }
            if sender < shape.hosts() {
                let pods = demands.pods(sender).iter().filter(|class| **class != CLOSED);
                let pods = pods.fold(0u64, |mask, class| mask | 1 << class);
                assert_eq!(demands.pod_classes(sender), pods);
                classes |= pods;
            }
            assert_eq!(demands.present(sender), classes);
        }
    }

    proptest! {
        #[test]
        fn sizes_and_indices_follow_a_map(
            steps in steps(),
            ladder in prop::sample::select(Ladder::ALL.to_vec()),
        ) {
            let shape = Shape::new(9, 3, 3).unwrap().with_cores(4, 1, 5, 2).unwrap();
            let mut demands = Demands::new(shape, ladder);
            let mut model: BTreeMap<(usize, To), (u32, u32)> = BTreeMap::new();
            let (mut ages, mut turns) = (Vec::new(), Vec::new());
            for (epoch, step) in steps.into_iter().enumerate() {
                let epoch = u32::try_from(epoch).unwrap();
                let (Step::Ask(sender, to, pod, _)
                | Step::Grant(sender, to, pod, _)
                | Step::Mouse(sender, to, pod, _)
                | Step::Back(sender, to, pod)) = step;
                let to = if pod { To::Pod(to) } else { To::Host(to) };
                if !demands.has(sender, to) {
                    continue;
                }
                let key = (sender, to);
                let (asked, backlog) = model.entry(key).or_default();
                match step {
                    Step::Ask(.., bytes) => {
                        let bytes = bytes.min(u32::MAX - *backlog);
                        if *backlog == 0 && bytes > 0 {
                            ages.push(key);
                            turns.push(key);
                        }
                        *asked = asked.wrapping_add(bytes);
                        *backlog += bytes;
                        demands.ask(sender, to, bytes, epoch);
                    }
                    Step::Grant(.., bytes) => {
                        let taken = bytes.min(*backlog);
                        if taken > 0 && taken == *backlog {
                            ages.retain(|other| *other != key);
                            turns.retain(|other| *other != key);
                        }
                        *backlog -= taken;
                        prop_assert_eq!(demands.grant(sender, to, bytes), taken);
                    }
                    Step::Mouse(.., bytes) => demands.set_mouse(sender, to, bytes),
                    Step::Back(..) => {
                        if *backlog > 0 {
                            turns.retain(|other| *other != key);
                            turns.push(key);
                        }
                        demands.send_back(sender, to, epoch);
                    }
                }
                prop_assert_eq!(demands.asked(sender, to), *asked);
                prop_assert_eq!(demands.backlog(sender, to), *backlog);
                prop_assert_eq!(demands.granted(sender, to), asked.wrapping_sub(*backlog));
                let back = matches!(step, Step::Back(..)) && *backlog > 0;
                prop_assert!(!back || demands.waits(sender, to, epoch + 7).1 == 7);
                for (order, model) in [(DemandOrder::Age, &ages), (DemandOrder::Turn, &turns)] {
                    prop_assert_eq!(&demands.in_order(order).collect::<Vec<_>>(), model);
                }
                prop_assert_eq!(demands.open(), ages.len());
            }
            check_indices(&demands);
            demands.clear();
            check_indices(&demands);
            prop_assert_eq!(demands.open() + demands.in_order(DemandOrder::Turn).count(), 0);
        }
    }
}
