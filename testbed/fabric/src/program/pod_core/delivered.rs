//! The origins of the cells that a Core has sent, so that their delivery can be reported to their
//! hosts.

use transport::units::Psn;
use transport::wire::Body;
use transport::{FlowId, HostId};

use crate::packet::Packet;
use crate::program::Context;

/// The segment that a cell is, at its sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourceSegment {
    /// The host that sent the cell.
    pub(super) from: HostId,
    /// The flow there.
    pub(super) flow: FlowId,
    /// The segment of that flow.
    pub(super) psn: Psn,
}

impl SourceSegment {
    /// The origin of a cell; `None` for a packet that is none.
    pub(super) fn of(packet: &Packet, cx: &Context<'_>) -> Option<Self> {
        let Body::Data(data) = cx.header(packet)?.body else { return None };
        let flow = data.open.map_or(FlowId::UNKNOWN, |open| open.src_flow);
        Some(Self { from: cx.sender(packet)?, flow, psn: data.psn })
    }
}

/// Cells in the table at most: 32 for each epoch that a receipt may cover.
const SENT_MAX: u32 = 64 * 32;

/// The cells that a Core's port has sent last, by a number of its own that rises with each.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    ring: Vec<Option<(Psn, SourceSegment)>>,
    next: Psn,
}

impl Sent {
    pub(super) fn new() -> Self {
        Self { ring: vec![None; SENT_MAX as usize], next: Psn(0) }
    }

    /// A cell is sent: its number.
    pub(super) fn note(&mut self, origin: SourceSegment) -> Psn {
        let number = self.next;
        self.ring[place(number)] = Some((number, origin));
        self.next = number.plus(1);
        number
    }

    /// The origin of the cell of that number, once.
    pub(super) fn origin(&mut self, number: Psn) -> Option<SourceSegment> {
        let sent = self.ring[place(number)].take_if(|(known, _)| *known == number);
        sent.map(|(_, origin)| origin)
    }
}

const fn place(number: Psn) -> usize {
    (number.0 % SENT_MAX) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_known_once_until_as_many_others_have_been_sent() {
        let mut sent = Sent::new();
        let origin = |psn| SourceSegment { from: HostId(1), flow: FlowId(7), psn: Psn(psn) };
        for psn in 0..SENT_MAX + 3 {
            assert_eq!(sent.note(origin(psn)), Psn(psn));
        }
        for forgotten in 0..3 {
            assert!(sent.origin(Psn(forgotten)).is_none());
        }
        for known in 3..SENT_MAX + 3 {
            assert_eq!(sent.origin(Psn(known)).map(|origin| origin.psn), Some(Psn(known)));
            assert!(sent.origin(Psn(known)).is_none(), "once");
        }
    }
}
