//! The demands of a class while they are few. Each is one word, so that a list of them is quickly
//! put in random order.

use zerocopy::FromZeros;

use crate::pod::demands::To;
use crate::pod::shape::{LANES, Shape};

/// Bits of the number of a ToR, and of a host below it.
const PLACE: u32 = LANES.ilog2();
/// Bits of an end, which is a host by its place, a Core or a pod by its number.
const END: u32 = 2 * PLACE;
const TO_POD: u32 = 1 << 31;
const FROM_CORE: u32 = 1 << 30;

/// A demand by both its ends. A host is kept by its place: each draw needs its ToR, and only a
/// grant needs its number.
#[derive(Clone, Copy, PartialEq, Eq, FromZeros, Debug)]
pub(super) struct ListedDemand(u32);

#[expect(clippy::cast_possible_truncation, reason = "hosts, Cores and pods are below 2^10")]
impl ListedDemand {
    /// The demand of host `from` of ToR `tor` for a host of ToR `to`, the first one.
    #[inline(always)]
    pub(super) const fn inside(tor: usize, from: usize, to: usize) -> Self {
        Self((place(tor, from) << END) as u32 | place(to, 0) as u32)
    }

    /// The demand of a Core for a host of ToR `to`, the first one.
    #[inline(always)]
    pub(super) const fn from_core(core: usize, to: usize) -> Self {
        Self(FROM_CORE | (core << END) as u32 | place(to, 0) as u32)
    }

    /// The demand of host `from` of ToR `tor` for the first pod.
    #[inline(always)]
    pub(super) const fn to_pods(tor: usize, from: usize) -> Self {
        Self(TO_POD | (place(tor, from) << END) as u32)
    }

    /// The demand of its sender for host number `bit` of the ToR, or for that pod.
    #[inline(always)]
    const fn to_bit(self, bit: u32) -> Self {
        Self(self.0 | bit)
    }

    /// The ToRs of both ends, of a demand inside the pod; `None` of others.
    #[inline(always)]
    pub(super) const fn tors(self) -> Option<(usize, usize)> {
        if self.0 & (TO_POD | FROM_CORE) != 0 {
            return None;
        }
        Some(((self.0 >> (END + PLACE)) as usize % LANES, (self.0 >> PLACE) as usize % LANES))
    }

    /// The number of the sender, and the receiver.
    #[inline(always)]
    pub(super) const fn ends(self, shape: &Shape) -> (u16, To) {
        let (from, to) = ((self.0 >> END) as usize % (1 << END), self.0 as usize % (1 << END));
        let sender = if self.0 & FROM_CORE != 0 { shape.hosts() + from } else { host(shape, from) };
        let to = if self.0 & TO_POD != 0 {
            To::Pod(to as u16)
        } else {
            To::Host(host(shape, to) as u16)
        };
        (sender as u16, to)
    }
}

/// Demands, at most as many as there is room for. Nothing is allocated after [`DemandList::new`].
#[derive(Default, Debug)]
pub(super) struct DemandList {
    all: Box<[ListedDemand]>,
    len: usize,
}

impl DemandList {
    /// An empty list with room for `room` demands, which takes memory as it is first filled: with
    /// Cores there is room for every demand of the pod, and few are listed at a time.
    ///
    /// # Panics
    /// When there is no memory for the list.
    pub(super) fn new(room: usize) -> Self {
        let all = ListedDemand::new_vec_zeroed(room).expect("memory for a list of demands");
        Self { all: all.into(), len: 0 }
    }

    /// Demands that there is room for.
    #[inline(always)]
    pub(super) fn room(&self) -> usize {
        self.all.len()
    }

    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds demands that differ from `first` in the bits of their far end; false, and nothing
    /// added, when there is no room.
    #[inline(always)]
    #[must_use]
    pub(super) fn add(&mut self, first: ListedDemand, mut to: u32) -> bool {
        let end = self.len + to.count_ones() as usize;
        let Some(places) = self.all.get_mut(self.len..end) else { return false };
        for place in places {
            *place = first.to_bit(to.trailing_zeros());
            to &= to.wrapping_sub(1);
        }
        self.len = end;
        true
    }

    /// All that were added.
    #[inline(always)]
    pub(super) fn listed(&mut self) -> &mut [ListedDemand] {
        &mut self.all[..self.len]
    }
}

impl Clone for DemandList {
    // What no demand is in is not copied, and takes no memory in the copy either.
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.room());
        copy.all[..self.len].copy_from_slice(&self.all[..self.len]);
        copy.len = self.len;
        copy
    }
}

const fn place(tor: usize, bit: usize) -> usize {
    tor << PLACE | bit
}

/// The number of the host at a place.
#[inline(always)]
const fn host(shape: &Shape, place: usize) -> usize {
    (place >> PLACE) * shape.per_tor() + place % LANES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_those_that_were_listed() {
        let shape = Shape::new(700, 23, 32).unwrap().with_cores(256, 0, 32, 0).unwrap();
        for host in 0..700u16 {
            let (tor, bit) = shape.place(host.into());
            let other = (host + 399) % 700;
            let (to_tor, to_bit) = shape.place(other.into());
            let to_bit = u32::try_from(to_bit).unwrap();
            let inside = ListedDemand::inside(tor, bit, to_tor).to_bit(to_bit);
            assert_eq!(inside.tors(), Some((tor, to_tor)));
            assert_eq!(inside.ends(&shape), (host, To::Host(other)));
            let to_pod = ListedDemand::to_pods(tor, bit).to_bit(31);
            assert_eq!((to_pod.tors(), to_pod.ends(&shape)), (None, (host, To::Pod(31))));
            let core = usize::from(host) % 256;
            let from_core = ListedDemand::from_core(core, to_tor).to_bit(to_bit);
            let sender = u16::try_from(700 + core).unwrap();
            assert_eq!(from_core.ends(&shape), (sender, To::Host(other)));
            assert_eq!(from_core.tors(), None);
        }
    }

    #[test]
    fn a_list_takes_no_more_than_it_has_room_for() {
        let (mut list, first) = (DemandList::new(5), ListedDemand::inside(3, 1, 2));
        assert!(list.add(first, 0b1_0110) && list.add(first, 0));
        assert!(!list.add(first, 0b111));
        let bits = [1, 2, 4].map(|bit| first.to_bit(bit));
        assert_eq!((list.listed().to_vec(), list.room()), (bits.to_vec(), 5));
        assert!(list.add(first, 0b11) && !list.add(first, 1));
        list.clear();
        assert!(list.listed().is_empty() && list.add(first, 0b1_1111));
    }

    #[test]
    fn a_copy_has_the_demands_and_the_room_of_its_list() {
        let (mut list, first) = (DemandList::new(5), ListedDemand::inside(3, 1, 2));
        assert!(list.add(first, 0b110));
        let mut copy = list.clone();
        assert_eq!((copy.listed().to_vec(), copy.room()), (list.listed().to_vec(), 5));
        assert!(copy.add(first, 0b111) && !copy.add(first, 1));
    }
}
