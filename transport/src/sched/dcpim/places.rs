//! Sources of incoming flows, each with a place of its own, and which flows of each want tokens.

use alloc::vec;
use alloc::vec::Vec;

use crate::units::HostId;

/// No flow.
const NONE: u32 = u32::MAX;

/// A flow in the list of its source.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The place of its source; [`NONE`] while it wants no tokens.
    place: u32,
    before: u32,
    after: u32,
}

/// Sources and flows that want tokens; as many sources as flows at most.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// Flows by slab index.
    entries: Vec<Entry>,
    /// Hosts and first flows by place; no host where the place is free.
    sources: Vec<(Option<HostId>, u32)>,
    /// The places that are taken, by host.
    order: Vec<(HostId, u32)>,
    free: Vec<u32>,
}

impl Places {
    /// Places for the sources of `flows` flows, and for `beside` that have none.
    pub(super) fn new(flows: usize, beside: usize) -> Self {
        let sources = flows + beside;
        let count = u32::try_from(sources).unwrap_or(NONE);
        Self {
            entries: vec![Entry { place: NONE, before: NONE, after: NONE }; flows],
            sources: vec![(None, NONE); sources],
            order: Vec::with_capacity(sources),
            free: (0..count).rev().collect(),
        }
    }

    /// Puts the flow at `index`, of source `from`, among those that want tokens, or takes it out.
    /// Returns the place of its source when it wants some, and whether that is new. A new source is
    /// put into an order: that moves the entries of those behind it. Where all places are taken,
    /// those without flows for which `idle` is true are freed.
    pub(super) fn set(
        &mut self,
        index: usize,
        from: HostId,
        wants: bool,
        idle: impl FnMut(u32) -> bool,
    ) -> Option<(u32, bool)> {
        let Entry { place, .. } = self.entries[index];
        let stays = wants && place != NONE && self.sources[place as usize].0 == Some(from);
        if stays {
            return Some((place, false));
        }
        self.take_out(index);
        if !wants {
            return None;
        }
        let (place, new) = self.place_of(from, idle)?;
        let head = &mut self.sources[place as usize].1;
        let after = core::mem::replace(head, u32::try_from(index).unwrap_or(NONE));
        self.entries[index] = Entry { place, before: NONE, after };
        if let Some(after) = self.entries.get_mut(after as usize) {
            after.before = u32::try_from(index).unwrap_or(NONE);
        }
        Some((place, new))
    }

    fn take_out(&mut self, index: usize) {
        let vacant = Entry { place: NONE, before: NONE, after: NONE };
        let Entry { place, before, after } = core::mem::replace(&mut self.entries[index], vacant);
        if place == NONE {
            return;
        }
        match self.entries.get_mut(before as usize) {
            Some(before) => before.after = after,
            None => self.sources[place as usize].1 = after,
        }
        if let Some(after) = self.entries.get_mut(after as usize) {
            after.before = before;
        }
    }

    /// The place of a source, which gets one if it has none. `None` when no place is free.
    fn place_of(&mut self, host: HostId, idle: impl FnMut(u32) -> bool) -> Option<(u32, bool)> {
        match self.order.binary_search_by_key(&host, |(host, _)| *host) {
            Ok(at) => Some((self.order[at].1, false)),
            Err(_) => {
                if self.free.is_empty() {
                    self.forget(idle);
                }
                let at = self.order.partition_point(|(other, _)| *other < host);
                let place = self.free.pop()?;
                self.sources[place as usize] = (Some(host), NONE);
                self.order.insert(at, (host, place));
                Some((place, true))
            }
        }
    }

    /// Frees the places of sources without flows that want tokens, where `idle` agrees.
    pub(super) fn forget(&mut self, mut idle: impl FnMut(u32) -> bool) {
        let Self { sources, order, free, .. } = self;
        order.retain(|(_, place)| {
            let source = &mut sources[*place as usize];
            let gone = source.1 == NONE && idle(*place);
            if gone {
                source.0 = None;
                free.push(*place);
            }
            !gone
        });
    }

    /// The host at a place.
    pub(super) fn host(&self, place: u32) -> Option<HostId> {
        self.sources.get(place as usize)?.0
    }

    /// Sources that have places.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// The source of that number in the order of hosts, and its place.
    pub(super) fn nth(&self, number: usize) -> (HostId, u32) {
        self.order[number]
    }

    /// All sources, and their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = (HostId, u32)> {
        self.order.iter().copied()
    }

    /// Slab indices of the flows of a place that want tokens, the last that came first.
    pub(super) fn flows(&self, place: u32) -> impl Iterator<Item = usize> {
        let of = |flow: u32| (flow != NONE).then_some(flow as usize);
        let first = of(self.sources[place as usize].1);
        core::iter::successors(first, move |flow| of(self.entries[*flow].after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::{BTreeMap, BTreeSet};

    #[test]
    fn each_source_has_the_flows_that_want_tokens_whatever_is_put_in_and_taken_out() {
        let mut rng = Rng::new(7);
        let mut places = Places::new(12, 0);
        let mut oracle: BTreeMap<HostId, BTreeSet<usize>> = BTreeMap::new();
        for _ in 0..20_000 {
            let index = usize::try_from(rng.below(12)).unwrap();
            let host = HostId(rng.next_u32() % 20);
            let wants = rng.chance(0.6);
            let place = places.set(index, host, wants, |_| true);
            oracle.values_mut().for_each(|flows| {
                flows.remove(&index);
            });
            if wants {
                oracle.entry(host).or_default().insert(index);
                assert_eq!(places.host(place.unwrap().0), Some(host));
            }
            oracle.retain(|_, flows| !flows.is_empty());
            places.forget(|_| true);
            let found: BTreeMap<HostId, BTreeSet<usize>> =
                places.iter().map(|(host, place)| (host, places.flows(place).collect())).collect();
            assert_eq!(found, oracle);
        }
    }
}
