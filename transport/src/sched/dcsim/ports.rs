//! The source ports of a host's SIMs and DATAs: drawn at random, none used twice at a time.
//!
//! Source: \[dcsim\] sec. 2.4: a random port selects a random path, and differs from all ports in
//! use.

use alloc::boxed::Box;

use crate::rng::Rng;
use crate::units::EntropyValue;

/// Ports to choose from: the dynamic range, of which a host uses a few hundred at a time.
const PORTS: u16 = 1 << 14;

const WORDS: usize = PORTS as usize / 64;

/// Which ports are in use.
#[derive(Clone, Debug)]
pub(super) struct PortsInUse {
    busy: Box<[u64; WORDS]>,
    in_use: u16,
}

/// The first port of the dynamic range.
//= rfc6335#6
const FIRST: u16 = 49_152;

const _: () = assert!(u16::MAX - PORTS + 1 == FIRST, "ports end with the range");

impl PortsInUse {
    /// Number of ports to choose from.
    pub(super) const COUNT: u16 = PORTS;

    pub(super) fn new() -> Self {
        Self { busy: Box::new([0; WORDS]), in_use: 0 }
    }

    /// Draws a port that is not in use; `None` when all are in use. Few draws are needed while few
    /// ports are in use.
    pub(super) fn draw(&mut self, rng: &mut Rng) -> Option<EntropyValue> {
        if self.in_use == PORTS {
            return None;
        }
        let mut path = (rng.next_u64() >> 50) as u16;
        // Bounded: after a few draws the search goes on from port to port.
        for draw in 0..=PORTS {
            let bit = 1 << (path % 64);
            let word = &mut self.busy[usize::from(path / 64)];
            if *word & bit == 0 {
                *word |= bit;
                self.in_use += 1;
                return Some(EntropyValue(FIRST + path));
            }
            let next = if draw < 16 { (rng.next_u64() >> 50) as u16 } else { path + 1 };
            path = next % PORTS;
        }
        None
    }

    /// Takes the port `ev`; false when it is in use.
    pub(super) fn take(&mut self, ev: EntropyValue) -> bool {
        let path = ev.0.wrapping_sub(FIRST);
        let Some(word) = self.busy.get_mut(usize::from(path / 64)) else { return false };
        let bit = 1 << (path % 64);
        let free = *word & bit == 0;
        *word |= bit;
        self.in_use += u16::from(free);
        free
    }

    /// Draws a port, in use or not.
    pub(super) fn any(rng: &mut Rng) -> EntropyValue {
        EntropyValue(FIRST + (rng.next_u64() >> 50) as u16)
    }

    /// Gives a port back that was drawn.
    pub(super) fn free(&mut self, ev: EntropyValue) {
        let path = ev.0.wrapping_sub(FIRST);
        let Some(word) = self.busy.get_mut(usize::from(path / 64)) else { return };
        let bit = 1 << (path % 64);
        debug_assert!(*word & bit != 0, "a port is given back once");
        self.in_use -= u16::from(*word & bit != 0);
        *word &= !bit;
    }

    /// Ports in use.
    #[inline]
    pub(super) fn in_use(&self) -> u16 {
        self.in_use
    }
}

/// The ports that a flow keeps, first in first out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeptPorts {
    ports: [EntropyValue; KeptPorts::MOST],
    len: u8,
}

impl KeptPorts {
    const MOST: usize = 8;

    pub(super) fn push(&mut self, ev: EntropyValue, most: u16) {
        let len = usize::from(self.len);
        if len < Self::MOST.min(most.into()) {
            self.ports[len] = ev;
            self.len += 1;
        }
    }

    pub(super) fn pop(&mut self) -> Option<EntropyValue> {
        let first = (self.len > 0).then_some(self.ports[0])?;
        self.ports.rotate_left(1);
        self.len -= 1;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn all_ports_can_be_in_use_and_none_is_twice() {
        let (mut ports, mut rng) = (PortsInUse::new(), Rng::new(1));
        let mut drawn = BTreeSet::new();
        while let Some(ev) = ports.draw(&mut rng) {
            assert!(ev.0 >= FIRST && drawn.insert(ev), "{ev:?}");
        }
        assert_eq!((drawn.len(), ports.in_use()), (usize::from(PORTS), PORTS));
        let back = EntropyValue(60_000);
        ports.free(back);
        assert_eq!(ports.draw(&mut rng), Some(back), "the only one that is free");
        drawn.into_iter().for_each(|ev| ports.free(ev));
        assert_eq!(ports.in_use(), 0);
    }
}
