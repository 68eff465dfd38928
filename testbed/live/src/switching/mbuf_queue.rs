//! Frames that wait for a device, or for one end of a link.

use std::collections::VecDeque;

use transport_dpdk::{Mbuf, MbufBurst};

/// Frames in the order in which they leave: a burst, and those behind it.
#[derive(Debug, Default)]
pub(crate) struct MbufQueue {
    next: MbufBurst,
    /// Empty unless `next` is full.
    more: VecDeque<Mbuf>,
}

impl MbufQueue {
    /// Puts a frame at the end. False, and the frame is freed, where `most` frames wait behind the
    /// first burst.
    #[inline]
    pub(crate) fn push(&mut self, mbuf: Mbuf, most: usize) -> bool {
        if self.more.len() >= most {
            return false;
        }
        if self.more.is_empty() && self.next.room() > 0 {
            // There is room, so the push cannot fail.
            drop(self.next.push(mbuf));
        } else {
            self.more.push_back(mbuf);
        }
        true
    }

    /// Gives bursts to `transmit`, which takes frames from the front and returns how many, until
    /// frames of a burst are left. Returns how many frames have left.
    #[inline]
    pub(crate) fn send(&mut self, mut transmit: impl FnMut(&mut MbufBurst) -> usize) -> u64 {
        let mut sent = 0;
        while !self.next.is_empty() {
            sent += transmit(&mut self.next) as u64;
            let is_stuck = !self.next.is_empty();
            while self.next.room() > 0
                && let Some(mbuf) = self.more.pop_front()
            {
                // There is room, so the push cannot fail.
                drop(self.next.push(mbuf));
            }
            if is_stuck {
                break;
            }
        }
        sent
    }

    /// Frees all frames, and returns how many there were.
    pub(crate) fn clear(&mut self) -> u64 {
        let waiting = self.len();
        self.more.clear();
        self.next.clear();
        waiting
    }

    /// Frames that wait.
    pub(crate) fn len(&self) -> u64 {
        (self.next.len() + self.more.len()) as u64
    }
}
