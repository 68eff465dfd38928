//! Entries under keys that go stale: index and generation in one small id. Flows and messages are
//! kept here.
//!
//! O(1) everywhere, no allocation after [`Slab::new`]. Freed places are used again last in first
//! out, so the places in use are warm in the cache. A key whose entry was removed finds nothing
//! until its generation comes round again, 4095 removals of the same place later.

use alloc::vec::Vec;

use crate::units::{FlowId, MsgId};

/// A key of a slab: an index and the generation of the entry there.
pub trait SlabKey: Copy {
    /// Indices are below this.
    const CAPACITY: usize;
    /// Generations are 1 ..= this.
    const GENERATION_MAX: u32;
    /// Puts a key together; `index` and `generation` are in range.
    fn pack(index: u32, generation: u32) -> Self;
    /// The index of the entry's place.
    fn slot(self) -> usize;
    /// The generation of the entry, never zero for one that exists.
    fn age(self) -> u32;
}

macro_rules! slab_keys {
    ($($key:ty),*) => {$(
        impl SlabKey for $key {
            const CAPACITY: usize = <$key>::CAPACITY;
            const GENERATION_MAX: u32 = <$key>::GENERATION_MAX;
            fn pack(index: u32, generation: u32) -> Self {
                <$key>::new(index, generation)
            }
            fn slot(self) -> usize {
                self.index()
            }
            fn age(self) -> u32 {
                self.generation()
            }
        }
    )*};
}

slab_keys!(FlowId, MsgId);

/// A fixed number of places for `T`.
#[derive(Clone, Debug)]
pub struct Slab<K, T> {
    /// Grows to the capacity and never shrinks; reserved at once.
    entries: Vec<Entry<T>>,
    /// Head of the list of freed places, [`END`] when there is none.
    free: u32,
    len: usize,
    capacity: usize,
    /// Generation that places start with.
    first: u32,
    /// Entries that were taken out; stops at its largest value.
    removals: u32,
    key: core::marker::PhantomData<K>,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    /// Generation of the entry here, or, when free, of the next one.
    generation: u32,
    place: Content<T>,
}

#[derive(Clone, Debug)]
enum Content<T> {
    Full(T),
    /// The next free place.
    Free(u32),
}

const END: u32 = u32::MAX;

impl<K: SlabKey, T> Slab<K, T> {
    /// Room for `capacity` entries, at most `K::CAPACITY` of them, allocated here.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self::aged(capacity, 1)
    }

    /// Room for `capacity` entries, with `generation`, brought in range, as the first of every
    /// place.
    #[must_use]
    pub fn aged(capacity: usize, generation: u32) -> Self {
        let capacity = capacity.min(K::CAPACITY);
        Self {
            entries: Vec::with_capacity(capacity),
            free: END,
            len: 0,
            capacity,
            first: generation.clamp(1, K::GENERATION_MAX),
            removals: 0,
            key: core::marker::PhantomData,
        }
    }

    /// How many entries there are, `0..=capacity`.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True when there is no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True when the next [`Slab::insert`] will be refused.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.len == self.capacity
    }

    /// Keeps `value` and returns its key; `None` when full, and `value` is dropped.
    pub fn insert(&mut self, value: T) -> Option<K> {
        self.insert_with(|_| value)
    }

    /// Keeps what `make` returns for the key it is given; `None`, without a call, when full.
    pub fn insert_with(&mut self, make: impl FnOnce(K) -> T) -> Option<K> {
        if self.is_full() {
            return None;
        }
        let index = if self.free == END {
            self.entries.push(Entry { generation: self.first, place: Content::Free(END) });
            u32::try_from(self.entries.len() - 1).ok()?
        } else {
            self.free
        };
        let entry = self.entries.get_mut(usize::try_from(index).ok()?)?;
        if let Content::Free(next) = entry.place {
            self.free = next;
        }
        let key = K::pack(index, entry.generation);
        entry.place = Content::Full(make(key));
        self.len += 1;
        Some(key)
    }

    /// The entry of `key`, unless it was removed or never was.
    #[must_use]
    pub fn get(&self, key: K) -> Option<&T> {
        match self.entries.get(key.slot()) {
            Some(Entry { generation, place: Content::Full(value) }) if *generation == key.age() => {
                Some(value)
            }
            _ => None,
        }
    }

    /// The entry of `key`, to change.
    #[must_use]
    pub fn get_mut(&mut self, key: K) -> Option<&mut T> {
        match self.entries.get_mut(key.slot()) {
            Some(Entry { generation, place: Content::Full(value) }) if *generation == key.age() => {
                Some(value)
            }
            _ => None,
        }
    }

    /// The entry at place `index` and its key, if the place is full.
    #[must_use]
    pub fn at(&self, index: u32) -> Option<(K, &T)> {
        let entry = self.entries.get(usize::try_from(index).ok()?)?;
        match &entry.place {
            Content::Full(value) => Some((K::pack(index, entry.generation), value)),
            Content::Free(_) => None,
        }
    }

    /// True when `key` may have been handed out and its entry removed since. False for a key of
    /// another slab of the same kind, as far as generations show. After as many removals as there
    /// are generations, this is true for every place that was ever used.
    #[must_use]
    pub fn has_given(&self, key: K) -> bool {
        let Some(entry) = self.entries.get(key.slot()) else { return false };
        let ahead_of_first = |age: u32| (age + K::GENERATION_MAX - self.first) % K::GENERATION_MAX;
        self.removals >= K::GENERATION_MAX
            || ahead_of_first(key.age()) < ahead_of_first(entry.generation)
    }

    /// Takes the entry of `key` out; the key is stale from here on.
    pub fn remove(&mut self, key: K) -> Option<T> {
        self.get(key)?;
        let entry = self.entries.get_mut(key.slot())?;
        let place = core::mem::replace(&mut entry.place, Content::Free(self.free));
        entry.generation = entry.generation % K::GENERATION_MAX + 1;
        self.free = u32::try_from(key.slot()).ok()?;
        self.len -= 1;
        self.removals = self.removals.saturating_add(1);
        match place {
            Content::Full(value) => Some(value),
            Content::Free(_) => None,
        }
    }

    /// All entries by index; touches every place that was ever used, so not for the hot path.
    pub fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        self.entries.iter().zip(0_u32..).filter_map(|(entry, index)| match &entry.place {
            Content::Full(value) => Some((K::pack(index, entry.generation), value)),
            Content::Free(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u16),
        Remove(usize),
        Mutate(usize, u16),
        Forge(u32),
    }

    fn steps() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => any::<u16>().prop_map(Step::Insert),
            2 => any::<usize>().prop_map(Step::Remove),
            1 => (any::<usize>(), any::<u16>()).prop_map(|(at, value)| Step::Mutate(at, value)),
            1 => any::<u32>().prop_map(Step::Forge),
        ]
    }

    proptest! {
        #[test]
        fn a_slab_is_a_map_from_live_keys(all in proptest::collection::vec(steps(), 0..200)) {
            let mut slab: Slab<MsgId, u16> = Slab::new(9);
            let mut oracle: BTreeMap<MsgId, u16> = BTreeMap::new();
            let mut issued = Vec::new();
            for step in all {
                match step {
                    Step::Insert(value) => {
                        let key = slab.insert(value);
                        prop_assert_eq!(key.is_none(), oracle.len() == 9);
                        if let Some(key) = key {
                            prop_assert!(oracle.insert(key, value).is_none());
                            issued.push(key);
                        }
                    }
                    Step::Remove(at) if !issued.is_empty() => {
                        let key = issued[at % issued.len()];
                        prop_assert_eq!(slab.remove(key), oracle.remove(&key));
                    }
                    Step::Mutate(at, value) if !issued.is_empty() => {
                        let key = issued[at % issued.len()];
                        prop_assert_eq!(slab.get_mut(key).copied(), oracle.get(&key).copied());
                        let both = (slab.get_mut(key), oracle.get_mut(&key));
                        if let (Some(ours), Some(theirs)) = both {
                            (*ours, *theirs) = (value, value);
                        }
                    }
                    Step::Forge(raw) => {
                        let key = MsgId(raw);
                        prop_assert_eq!(slab.get(key), oracle.get(&key));
                    }
                    Step::Remove(_) | Step::Mutate(..) => {}
                }
                prop_assert_eq!(slab.len(), oracle.len());
                for key in &issued {
                    prop_assert_eq!(slab.get(*key), oracle.get(key));
                }
                for key in &issued {
                    let at = u32::try_from(key.index()).unwrap();
                    let live = oracle.keys().find(|live| live.index() == key.index());
                    prop_assert_eq!(slab.at(at).map(|(key, _)| key), live.copied());
                }
                let listed = slab.iter().map(|(key, value)| (key, *value));
                let listed: BTreeMap<MsgId, u16> = listed.collect();
                prop_assert_eq!(&listed, &oracle);
            }
        }
    }

    #[test]
    fn generations_wrap_without_ever_being_zero() {
        let mut slab: Slab<FlowId, ()> = Slab::new(1);
        for round in 0..FlowId::GENERATION_MAX * 2 {
            let key = slab.insert(()).unwrap();
            assert_eq!(key.generation(), round % FlowId::GENERATION_MAX + 1);
            slab.remove(key).unwrap();
        }
    }

    #[test]
    fn every_place_of_an_aged_slab_starts_with_its_generation() {
        let mut slab: Slab<FlowId, u8> = Slab::aged(2, FlowId::GENERATION_MAX);
        let [one, two] = [7, 8].map(|value| slab.insert(value).unwrap());
        assert_eq!([one, two].map(FlowId::generation), [FlowId::GENERATION_MAX; 2]);
        slab.remove(two);
        assert_eq!(slab.insert(9).unwrap().generation(), 1);
        let mut young: Slab<FlowId, u8> = Slab::aged(1, 0);
        assert_eq!(young.insert(7).unwrap().generation(), 1);
    }

    #[test]
    fn the_place_freed_last_is_used_first_and_a_full_slab_refuses() {
        let mut slab: Slab<FlowId, u8> = Slab::new(3);
        let keys: Vec<FlowId> = (0..3).map(|value| slab.insert(value).unwrap()).collect();
        assert_eq!(slab.insert_with(|_| unreachable!("full")), None);
        slab.remove(keys[0]);
        slab.remove(keys[2]);
        assert_eq!(slab.insert(7).unwrap().index(), 2);
        assert_eq!(slab.insert(8).unwrap().index(), 0);
    }
}
