//! Derived keys at hand: a table of fixed size in sets of eight. When a set is full, the key goes
//! whose last use is longest ago. A key that is not in the table is derived again.

use aws_lc_rs::aead::LessSafeKey;

use super::derive::KeyName;

const WAYS: usize = 8;
/// Flows that have room for their keys; some kilobyte a place.
const FLOWS_MAX: u32 = 1 << 11;
/// Places of a flow. One or two keys of a flow are in use, so a set is a quarter full in the mean,
/// and hardly ever full. When it is full, the key that has to go costs a derivation at both ends.
const PLACES_A_FLOW: usize = 8;

/// Derived keys with a state `T` each.
pub(super) struct Contexts<T> {
    /// [`KeyName::print`] of each place, 0 where it is free: a set is one cache line, and all keys
    /// of a flow are in one set.
    prints: Box<[[u64; WAYS]]>,
    places: Box<[Option<DerivedKey<T>>]>,
    uses: u64,
}

/// A derived key.
pub(super) struct DerivedKey<T> {
    pub(super) name: KeyName,
    pub(super) key: LessSafeKey,
    pub(super) state: T,
    used: u64,
}

impl<T> DerivedKey<T> {
    pub(super) const fn new(name: KeyName, key: LessSafeKey, state: T) -> Self {
        Self { name, key, state, used: 0 }
    }
}

impl<T> Contexts<T> {
    /// Room for the keys of so many flows.
    pub(super) fn with_room(flows: u32) -> Self {
        let places = PLACES_A_FLOW * flows.min(FLOWS_MAX) as usize;
        let sets = places.div_ceil(WAYS).next_power_of_two();
        Self {
            prints: vec![[0; WAYS]; sets].into_boxed_slice(),
            places: (0..sets * WAYS).map(|_| None).collect(),
            uses: 0,
        }
    }

    #[inline]
    fn set_of(&self, print: u64) -> usize {
        usize::try_from(print >> 1).unwrap_or(0) & (self.prints.len() - 1)
    }

    /// The place of the key whose print is `print` and for which `is` holds.
    #[inline]
    pub(super) fn find(&self, print: u64, is: impl Fn(&DerivedKey<T>) -> bool) -> Option<usize> {
        let set = self.set_of(print);
        let ways = self.prints[set].iter().enumerate().filter(|(_, other)| **other == print);
        let mut places = ways.map(|(way, _)| set * WAYS + way);
        places.find(|place| self.places[*place].as_ref().is_some_and(&is))
    }

    /// The key at `place`, which is used now.
    #[inline]
    pub(super) fn at(&mut self, place: usize) -> Option<&mut DerivedKey<T>> {
        self.uses += 1;
        let context = self.places.get_mut(place)?.as_mut()?;
        context.used = self.uses;
        Some(context)
    }

    /// Puts a key into its set; returns the key that had to go, if one had to.
    pub(super) fn put(&mut self, print: u64, context: DerivedKey<T>) -> Option<DerivedKey<T>> {
        let set = self.set_of(print);
        let age = |way: &usize| self.places[set * WAYS + way].as_ref().map_or(0, |key| key.used);
        let way = (0..WAYS).min_by_key(age).unwrap_or(0);
        self.prints[set][way] = print;
        self.replace(set * WAYS + way, context)
    }

    /// Puts a key where one of the same print was.
    pub(super) fn replace(
        &mut self,
        place: usize,
        context: DerivedKey<T>,
    ) -> Option<DerivedKey<T>> {
        self.uses += 1;
        self.places[place].replace(DerivedKey { used: self.uses, ..context })
    }

    /// Takes out all keys for which `stays` does not hold, and passes their names to `gone`.
    pub(super) fn retain(
        &mut self,
        stays: impl Fn(&KeyName) -> bool,
        mut gone: impl FnMut(&KeyName),
    ) {
        let prints = self.prints.iter_mut().flatten();
        for (place, print) in self.places.iter_mut().zip(prints) {
            if let Some(context) = place.take_if(|context| !stays(&context.name)) {
                *print = 0;
                gone(&context.name);
            }
        }
    }
}
