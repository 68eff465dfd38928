//! Buffers of switches that pause links: how much they may hold, and how much they need to lose
//! nothing.

use std::collections::BTreeMap;

use transport::{Bytes, Duration};

use super::PfcParams;
use crate::calendar::Flight;
use crate::elements::{Node, PortSpec};
use crate::wiring::ports_back;

/// Pause frames up to and including the one that matters: a resume may be before it.
const FRAMES: u64 = 2;

/// A buffer that is too small: that of a link, or of a switch whose links share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Bytes that the buffer holds.
    pub buffer: Bytes,
    /// Bytes of a link above which it is paused, at least a packet.
    pub xoff: Bytes,
    /// Bytes that may arrive after the decision to pause, by the link or by all links.
    pub headroom: Bytes,
    /// Whether links share the buffer.
    pub is_shared: bool,
}

/// The most bytes that any queue of a switch may have to hold, all from its links, by switch.
pub(crate) fn room(ports: &[PortSpec], switches: usize) -> Vec<Bytes> {
    let mut room = vec![Bytes::ZERO; switches];
    for port in ports {
        if let Node::Switch(switch) = port.owner {
            let room = &mut room[switch as usize];
            *room = Bytes(room.0.saturating_add(port.params.data_limit.0));
        }
    }
    room
}

/// The size of the buffer that the links of a switch share, whose ports have `sizes`: their lower
/// median. A port to a larger switch may have that switch's size, and one to another site a
/// smaller one; neither is the size of this switch.
pub(super) fn shared_size(mut sizes: Vec<u64>) -> u64 {
    sizes.sort_unstable();
    sizes.get(sizes.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

/// The buffer that each link into a switch that `pauses` has, and the one that it needs. Where
/// links share a buffer, there is one entry for each such switch.
pub(crate) fn needs(
    ports: &[PortSpec],
    pauses: impl Fn(u32) -> bool,
    settings: &PfcParams,
) -> Vec<Shortage> {
    let need = |(port, back): (&PortSpec, u32)| {
        let Node::Switch(switch) = port.to else { return None };
        let back = &ports[back as usize];
        pauses(switch).then(|| Shortage {
            buffer: back.params.data_limit,
            xoff: settings.xoff.unwrap_or(back.params.packet_max),
            headroom: Bytes(headroom(port, back)),
            is_shared: false,
        })
    };
    let each = ports.iter().zip(ports_back(ports));
    if settings.alpha <= 0.0 {
        return each.filter_map(need).collect();
    }
    let mut shared = BTreeMap::<u32, (Shortage, Vec<u64>)>::new();
    for (port, back) in each {
        let (Node::Switch(switch), Some(one)) = (port.to, need((port, back))) else { continue };
        // XOFF moves with what is free: a packet beyond the headroom is the least that works.
        let xoff = ports[back as usize].params.packet_max;
        let empty = Shortage { buffer: Bytes::ZERO, xoff, headroom: Bytes::ZERO, is_shared: true };
        let (all, sizes) = shared.entry(switch).or_insert((empty, Vec::new()));
        sizes.push(one.buffer.0);
        all.headroom = Bytes(all.headroom.0.saturating_add(one.headroom.0));
    }
    let whole = |(all, sizes)| Shortage { buffer: Bytes(shared_size(sizes)), ..all };
    shared.into_values().map(whole).collect()
}

/// Bytes that may arrive by the link of `port` after the switch has decided to pause it by `back`.
/// These bytes are the ones on the link until the pause is obeyed and the last packet has arrived,
/// a packet that is being sent then, and the packet that exceeded XOFF.
pub(super) fn headroom(port: &PortSpec, back: &PortSpec) -> u64 {
    let longest = back.params.packet_max.0;
    let wait = back.rate.time_for(Bytes(longest + FRAMES * u64::from(Flight::PAUSE_FRAME)));
    let delay: Duration = wait + back.delay + port.delay;
    port.rate.bytes_in(delay).0 + 1 + 2 * longest
}

impl Shortage {
    /// The least buffer that would do.
    #[must_use]
    pub const fn least(&self) -> Bytes {
        Bytes(self.xoff.0.saturating_add(self.headroom.0))
    }
}
