//! The starts from which on a receiver accepts keys that it does not have at hand, by sender.
//!
//! When the window of a derived key is given up, frames that it has seen could be accepted again.
//! So from then on keys of its sender must start later. Each sender has a floor of its own as long
//! as there is room in its set. When a set is full, its lowest floor is merged into the floor of
//! all senders that have none of their own. So no floor is ever lower than a window of that sender
//! that was given up.

use super::derive::KeyName;

/// Sets of senders; 100 KB in all.
const SETS: usize = 512;
const WAYS: usize = 8;

/// Floors of a receiver, ns since 1970.
pub(super) struct Floors {
    sets: Box<[[Floor; WAYS]]>,
    /// The floor of all senders that have none of their own.
    others: u64,
}

/// The floor of one sender; free while it is 0.
#[derive(Clone, Copy, Default)]
struct Floor {
    src: [u8; 16],
    start: u64,
}

impl Floors {
    /// Floors at `start` for all senders.
    pub(super) fn new(start: u64) -> Self {
        Self { sets: vec![[Floor::default(); WAYS]; SETS].into_boxed_slice(), others: start }
    }

    /// The start that a key of the sender of `name` must be later than.
    pub(super) fn of(&self, name: &KeyName) -> u64 {
        let own = self.sets[set_of(name)].iter().find(|floor| floor.src == name.src);
        own.map_or(0, |floor| floor.start).max(self.others)
    }

    /// Raises the floor of the sender of `name`: keys of that sender that are not at hand have to
    /// start later than the key of `name`.
    pub(super) fn raise(&mut self, name: &KeyName) {
        let set = &mut self.sets[set_of(name)];
        let own = set.iter_mut().find(|floor| floor.start > 0 && floor.src == name.src);
        if let Some(floor) = own {
            floor.start = floor.start.max(name.start);
            return;
        }
        if let Some(lowest) = set.iter_mut().min_by_key(|floor| floor.start) {
            self.others = self.others.max(lowest.start);
            *lowest = Floor { src: name.src, start: name.start };
        }
    }
}

fn set_of(name: &KeyName) -> usize {
    usize::try_from(name.sender_print() % SETS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn name(sender: u16, start: u64) -> KeyName {
        let mut src = [0; 16];
        src[..2].copy_from_slice(&sender.to_be_bytes());
        KeyName { src, dst: [0; 16], flow: 9, start, key: 1, encrypted: true }
    }

    proptest! {
        /// The oracle keeps every sender's floor.
        #[test]
        fn no_floor_is_lower_than_a_window_of_its_sender(
            raised in prop::collection::vec((any::<u16>(), 101_u64..1000), 1..9000)
        ) {
            let mut floors = Floors::new(100);
            let mut exact = BTreeMap::new();
            for (sender, start) in raised {
                floors.raise(&name(sender, start));
                let floor = exact.entry(sender).or_insert(100);
                *floor = start.max(*floor);
            }
            for (sender, floor) in exact {
                prop_assert!(floors.of(&name(sender, 0)) >= floor);
            }
        }
    }

    #[test]
    fn one_sender_does_not_raise_the_floor_of_another() {
        let mut floors = Floors::new(100);
        // With 1000 senders no set of 512 has more than eight: a mean of two.
        (0..1000).for_each(|sender| floors.raise(&name(sender, 200)));
        floors.raise(&name(0, 1 << 60));
        assert_eq!(floors.of(&name(0, 0)), 1 << 60);
        assert!((1..1000).all(|sender| floors.of(&name(sender, 0)) == 200));
        assert!((1000..2000).all(|sender| floors.of(&name(sender, 0)) == 100));
    }
}
