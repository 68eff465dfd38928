//! Messages arriving on one flow: which are open, which are done, and when one is whole.
//!
//! Placement is by (message, offset), so the order of arrival does not matter. That each byte is
//! counted once follows from PSNs: the caller passes every PSN at most once.

use alloc::boxed::Box;
use alloc::vec;

use crate::units::{FlowId, HostId, MsgId, MsgNo};

/// One message on its way in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RxMsg {
    /// The flow it arrives on.
    pub(crate) flow: FlowId,
    /// Who sends it.
    pub(crate) from: HostId,
    /// Whole length, bytes.
    pub(crate) len: u32,
    /// Bytes that have arrived, 0..=len.
    pub(crate) received: u32,
    /// The sender's tag, once the segment of offset 0 has arrived; 0 is no tag.
    pub(crate) tag: u64,
}

/// What is known of one message number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MsgState {
    /// No segment has arrived.
    Unseen,
    /// Some have.
    Open(MsgId),
    /// All have.
    Done,
}

/// The messages of a flow from the first unfinished one, at most `window` of them: a ring by
/// number.
#[derive(Clone, Debug)]
pub(crate) struct MsgWindow {
    ring: Box<[MsgState]>,
    first: MsgNo,
}

impl MsgWindow {
    /// Nothing seen; `window` is rounded up to a power of two.
    pub(crate) fn new(window: u16) -> Self {
        let len = usize::from(window).next_power_of_two();
        Self { ring: vec![MsgState::Unseen; len].into_boxed_slice(), first: MsgNo(0) }
    }

    /// Forgets everything; no allocation.
    pub(crate) fn reset(&mut self) {
        self.ring.fill(MsgState::Unseen);
        self.first = MsgNo(0);
    }

    /// What is known of message `no`; `None` beyond the window, where no honest sender is.
    pub(crate) fn state(&self, no: MsgNo) -> Option<MsgState> {
        let ahead = no.distance_from(self.first);
        if ahead < 0 {
            return Some(MsgState::Done);
        }
        let within = (ahead.unsigned_abs() as usize) < self.ring.len();
        within.then(|| self.ring[self.slot(no)])
    }

    /// Notes that `no` is being received as `msg`.
    pub(crate) fn open(&mut self, no: MsgNo, msg: MsgId) {
        debug_assert_eq!(self.state(no), Some(MsgState::Unseen));
        let slot = self.slot(no);
        self.ring[slot] = MsgState::Open(msg);
    }

    /// Notes that `no` is whole; slides the window. Amortised O(1).
    pub(crate) fn finish(&mut self, no: MsgNo) {
        let slot = self.slot(no);
        self.ring[slot] = MsgState::Done;
        while self.ring[self.slot(self.first)] == MsgState::Done {
            let slot = self.slot(self.first);
            self.ring[slot] = MsgState::Unseen;
            self.first = self.first.plus(1);
        }
    }

    /// The messages that are open: those that fail when the flow dies.
    pub(crate) fn open_messages(&self) -> impl Iterator<Item = MsgId> {
        self.ring.iter().filter_map(|state| match state {
            MsgState::Open(msg) => Some(*msg),
            MsgState::Unseen | MsgState::Done => None,
        })
    }

    fn slot(&self, no: MsgNo) -> usize {
        no.0 as usize & (self.ring.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_slides_when_its_first_message_is_whole() {
        let mut window = MsgWindow::new(2);
        window.open(MsgNo(0), MsgId(10));
        window.open(MsgNo(1), MsgId(11));
        assert_eq!(window.state(MsgNo(2)), None);
        window.finish(MsgNo(1));
        assert_eq!(window.state(MsgNo(2)), None);
        window.finish(MsgNo(0));
        assert_eq!(window.state(MsgNo(0)), Some(MsgState::Done));
        assert_eq!(window.state(MsgNo(1)), Some(MsgState::Done));
        assert_eq!(window.state(MsgNo(2)), Some(MsgState::Unseen));
        assert_eq!(window.state(MsgNo(3)), Some(MsgState::Unseen));
        assert_eq!(window.state(MsgNo(4)), None);
    }

    #[test]
    fn only_open_messages_fail_with_the_flow() {
        let mut window = MsgWindow::new(4);
        window.open(MsgNo(0), MsgId(10));
        window.open(MsgNo(2), MsgId(12));
        window.finish(MsgNo(0));
        assert!(window.open_messages().eq([MsgId(12)]));
    }
}
