//! Facts about slots for drivers: how early packets are made, and where trains have gaps.

use crate::time::Duration;
use crate::units::{EntropyValue, HostId};
use crate::wire::pod::CellName;

/// How data departs in slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slots {
    /// How long before its slot a host makes a packet.
    pub early: Duration,
    /// Hosts of a switch: each has a control slot, by its number among them.
    pub per_switch: u16,
}

impl Slots {
    /// The control slots between the cells of a train with so many cells, from one host to another:
    /// how many of its cells go before each, ascending, 0 for none. `ev` is the path of the train,
    /// which names its first slot.
    //= zeropod#IV-C
    #[must_use]
    pub fn gaps(&self, ev: EntropyValue, cells: u8, (from, to): (HostId, HostId)) -> [u8; 2] {
        let number = |host: HostId| host.0 % u32::from(self.per_switch.max(1));
        let slot = u32::from(CellName::of(ev).slot);
        let after = |number: u32| {
            let cells_before = u8::try_from(number.checked_sub(slot)?).ok()?;
            (1..cells).contains(&cells_before).then_some(cells_before)
        };
        let (own, peer) = (number(from), number(to));
        match [own.min(peer), own.max(peer)].map(after) {
            [Some(first), second] => [first, second.unwrap_or(0)],
            [None, second] => [second.unwrap_or(0), 0],
        }
    }
}
