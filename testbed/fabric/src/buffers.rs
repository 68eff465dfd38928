//! Buffers of switches that pause links: how much they may hold, and how much they need to lose
//! nothing.

use transport::Bytes;

use super::blueprint::Blueprint;
use super::elements::{Node, PortSpec};
use super::program::{ProgramKind, headroom};
use super::wiring::ports_back;

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
pub(super) fn room(blueprint: &Blueprint) -> Vec<Bytes> {
    let mut room = vec![Bytes::ZERO; blueprint.switches.len()];
    for port in &blueprint.ports {
        if let Node::Switch(switch) = port.owner {
            let room = &mut room[switch as usize];
            *room = Bytes(room.0.saturating_add(port.params.data_limit.0));
        }
    }
    room
}

/// The least buffer with which every link into a switch that pauses is lossless; 0 without one.
#[must_use]
pub fn least_buffer(blueprint: &Blueprint) -> Bytes {
    needs(blueprint).iter().map(Shortage::least).max().unwrap_or_default()
}

/// Whether the buffer for every link into a switch that pauses is large enough.
///
/// # Errors
/// The shortage of the link that needs most.
pub fn check_buffers(blueprint: &Blueprint) -> Result<(), Shortage> {
    let short = needs(blueprint).into_iter().filter(|need| need.buffer < need.least());
    short.max_by_key(Shortage::least).map_or(Ok(()), Err)
}

/// The buffer that each link into a switch that pauses has, and the one that it needs.
fn needs(blueprint: &Blueprint) -> Vec<Shortage> {
    if blueprint.switches_with(ProgramKind::Pfc).next().is_none() {
        return Vec::new();
    }
    let links = blueprint.ports.iter().zip(ports_back(&blueprint.ports));
    let need = |(port, back): (&PortSpec, u32)| {
        let Node::Switch(switch) = port.to else { return None };
        let back = &blueprint.ports[back as usize];
        blueprint.runs(switch, ProgramKind::Pfc).then(|| Shortage {
            buffer: back.params.data_limit,
            xoff: blueprint.program_settings.pfc.xoff.unwrap_or(back.params.packet_max),
            headroom: Bytes(headroom(port, back)),
        })
    };
    links.filter_map(need).collect()
}

impl Shortage {
    /// The least buffer that would do.
    #[must_use]
    pub const fn least(&self) -> Bytes {
        Bytes(self.xoff.0.saturating_add(self.headroom.0))
    }
}
