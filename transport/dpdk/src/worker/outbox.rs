//! Completions that wait for the application, in order, and the checksums of received messages.
//!
//! A delivered message is reported with the XXH3-64 of its bytes, where that is wanted. Long
//! messages are summed over several polls, 256 KiB each (some 25 us), so that no message holds up
//! the device. Only the first waiting message is being summed. Its length is bounded by the
//! messages that endpoint and memory can hold.

use std::collections::VecDeque;
use std::fmt;

use transport::BURST;
use xxhash_rust::xxh3::Xxh3;

use crate::app::descriptor::Completion;
use crate::app::ring::WorkerEnd;

/// The waiting completions.
pub(crate) struct Outbox {
    waiting: VecDeque<Completion>,
    /// Over the first bytes of the first waiting message.
    hash: Xxh3,
    hashed: usize,
    /// Whether messages are summed at all.
    digest: bool,
}

/// Bytes summed in one poll.
const HASHED_A_POLL: usize = 256 << 10;

impl Outbox {
    pub(crate) fn new(msgs_max: u32, digest: bool) -> Self {
        let room = 2 * msgs_max as usize + BURST;
        Self { waiting: VecDeque::with_capacity(room), hash: Xxh3::new(), hashed: 0, digest }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn push(&mut self, completion: Completion) {
        self.waiting.push_back(completion);
    }

    /// Passes on completions that are ready and fit, at most 32, and continues a checksum. Returns
    /// how many were passed or summed. All are dropped once the application has ended, so that its
    /// last requests are taken.
    #[inline]
    pub(crate) fn flush(&mut self, app: &mut WorkerEnd) -> usize {
        let most = self.waiting.len().min(BURST);
        if most == 0 {
            return 0;
        }
        let most = most.min(app.room());
        if most == 0 && app.is_unread() {
            self.waiting.clear();
            self.hash.reset();
            self.hashed = 0;
        }
        let ready = if self.digest { self.sum(most) } else { most };
        app.complete(self.waiting.drain(..ready));
        ready + usize::from(ready < most)
    }

    /// Sums on over the first `most` messages, and returns how many of them are done.
    fn sum(&mut self, most: usize) -> usize {
        let mut budget = HASHED_A_POLL;
        for (done, completion) in self.waiting.iter_mut().take(most).enumerate() {
            let Completion::Delivered { memory, checksum, .. } = completion else { continue };
            let rest = &memory[self.hashed..];
            let length = rest.len().min(budget);
            self.hash.update(&rest[..length]);
            self.hashed += length;
            budget -= length;
            if self.hashed < memory.len() {
                return done;
            }
            *checksum = self.hash.digest();
            self.hash.reset();
            self.hashed = 0;
        }
        most
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outbox({} waiting)", self.waiting.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::ring::app_ring;
    use transport::Instant;

    #[test]
    fn completions_wait_for_an_application_and_not_for_one_that_has_ended() {
        let (app, mut worker) = app_ring(1, 2);
        let mut outbox = Outbox::new(4, true);
        for cookie in 0..5 {
            outbox.push(Completion::Sent { cookie, connection: 0, at: Instant::ZERO });
        }
        assert_eq!((outbox.flush(&mut worker), outbox.flush(&mut worker)), (2, 0));
        assert!(!outbox.is_empty());
        drop(app);
        outbox.flush(&mut worker);
        assert!(outbox.is_empty());
    }
}
