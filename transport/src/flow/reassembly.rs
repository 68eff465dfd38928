//! Messages arriving on one flow: which are open, which are done, and when one is whole.
//!
//! Placement is by (message, offset), so the order of arrival does not matter. That each byte is
//! counted once follows from PSNs: the caller passes every PSN at most once.

use crate::units::{FlowId, HostId, MsgId, MsgNo};

/// One message on its way in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RxMsg {
    /// The flow that the message arrives on.
    pub(crate) flow: FlowId,
    /// The host that sends the message.
    pub(crate) from: HostId,
    /// Whole length, bytes.
    pub(crate) len: u32,
    /// Bytes that have arrived, 0..=len.
    pub(crate) received: u32,
    /// Some packet of it, parity included, has been kept: there is memory for it.
    pub(crate) kept: bool,
    /// The sender's tag, once the segment of offset 0 has arrived; 0 is no tag.
    pub(crate) tag: u64,
}

/// The state of one message number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MsgState {
    /// No segment has arrived.
    Unseen,
    /// Some segments have arrived.
    Open(MsgId),
    /// All segments have arrived.
    Done,
}

/// The messages of a flow from the first unfinished one: a ring by number. The ring, of a power of
/// two, is lent to every call: while no message is open or done ahead of its turn it holds nothing,
/// and a flow can do without it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MsgWindow {
    first: MsgNo,
    /// Messages that are open.
    open: u16,
    /// Messages after `first` that are done.
    done: u16,
}

impl MsgWindow {
    /// True when a message is done.
    pub(crate) fn has_done(&self) -> bool {
        self.done > 0 || self.first != MsgNo(0)
    }

    /// The state of message `no`; `None` beyond the window, to which senders never come.
    pub(crate) fn state(&self, ring: &[MsgState], no: MsgNo) -> Option<MsgState> {
        let ahead = no.distance_from(self.first);
        if ahead < 0 {
            return Some(MsgState::Done);
        }
        let within = (ahead.unsigned_abs() as usize) < ring.len();
        within.then(|| ring[slot(ring, no)])
    }

    /// Notes that `no` is being received as `msg`.
    pub(crate) fn open(&mut self, ring: &mut [MsgState], no: MsgNo, msg: MsgId) {
        debug_assert_eq!(self.state(ring, no), Some(MsgState::Unseen));
        ring[slot(ring, no)] = MsgState::Open(msg);
        self.open += 1;
    }

    /// Notes that `no`, which was open, is whole; slides the window. Amortised O(1).
    pub(crate) fn finish(&mut self, ring: &mut [MsgState], no: MsgNo) {
        ring[slot(ring, no)] = MsgState::Done;
        self.open -= 1;
        self.done += 1;
        while ring[slot(ring, self.first)] == MsgState::Done {
            ring[slot(ring, self.first)] = MsgState::Unseen;
            self.first = self.first.plus(1);
            self.done -= 1;
        }
    }

    /// True while a message is open.
    pub(crate) fn has_open(&self) -> bool {
        self.open > 0
    }

    /// True when no message of the ring is open or done.
    pub(crate) fn is_vacant(&self) -> bool {
        self.open == 0 && self.done == 0
    }
}

/// The messages of a ring that are open, which fail when the flow ends.
pub(crate) fn open_messages(ring: &[MsgState]) -> impl Iterator<Item = MsgId> {
    ring.iter().filter_map(|state| match state {
        MsgState::Open(msg) => Some(*msg),
        MsgState::Unseen | MsgState::Done => None,
    })
}

fn slot(ring: &[MsgState], no: MsgNo) -> usize {
    no.0 as usize & (ring.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_slides_when_its_first_message_is_whole() {
        let (mut window, ring) = (MsgWindow::default(), &mut [MsgState::Unseen; 2]);
        assert!(window.is_vacant());
        window.open(ring, MsgNo(0), MsgId(10));
        window.open(ring, MsgNo(1), MsgId(11));
        assert_eq!(window.state(ring, MsgNo(2)), None);
        window.finish(ring, MsgNo(1));
        assert_eq!(window.state(ring, MsgNo(2)), None);
        assert!(window.has_open() && !window.is_vacant());
        window.finish(ring, MsgNo(0));
        assert_eq!(window.state(ring, MsgNo(0)), Some(MsgState::Done));
        assert_eq!(window.state(ring, MsgNo(1)), Some(MsgState::Done));
        assert_eq!(window.state(ring, MsgNo(2)), Some(MsgState::Unseen));
        assert_eq!(window.state(ring, MsgNo(3)), Some(MsgState::Unseen));
        assert_eq!(window.state(ring, MsgNo(4)), None);
        assert!(window.is_vacant() && *ring == [MsgState::Unseen; 2]);
    }

    #[test]
    fn a_message_done_before_its_turn_is_recorded() {
        let (mut window, ring) = (MsgWindow::default(), &mut [MsgState::Unseen; 4]);
        window.open(ring, MsgNo(2), MsgId(12));
        window.finish(ring, MsgNo(2));
        assert!(!window.has_open() && !window.is_vacant());
        assert_eq!(window.state(ring, MsgNo(2)), Some(MsgState::Done));
    }

    #[test]
    fn only_open_messages_fail_with_the_flow() {
        let (mut window, ring) = (MsgWindow::default(), &mut [MsgState::Unseen; 4]);
        window.open(ring, MsgNo(0), MsgId(10));
        window.open(ring, MsgNo(2), MsgId(12));
        window.finish(ring, MsgNo(0));
        assert!(open_messages(ring).eq([MsgId(12)]));
    }
}
