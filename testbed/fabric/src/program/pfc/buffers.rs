//! Buffers of switches that pause links: how much they may hold, and how much they need to lose
//! nothing.

use transport::{Bytes, Duration};

use super::PfcParams;
use crate::calendar::Flight;
use crate::elements::{Node, PortSpec};
use crate::wiring::ports_back;

/// Pause frames that may be before the one that matters, with itself: a resume can be.
const FRAMES: u64 = 2;

/// A link's buffer that is too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Bytes that the buffer holds.
    pub buffer: Bytes,
    /// Bytes of the link above which it is paused, at least a packet.
    pub xoff: Bytes,
    /// Bytes that may arrive after the decision to pause.
    pub headroom: Bytes,
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

/// The buffer that each link into a switch that `pauses` has, and the one that it needs.
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
        })
    };
    ports.iter().zip(ports_back(ports)).filter_map(need).collect()
}

/// Bytes that may arrive by the link of `port` after the switch has decided to pause it by `back`:
/// those on the link until the pause is obeyed and the last packet has arrived, a packet being sent
/// then, and the one that exceeded XOFF.
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
