//! The window of a flow that starts while other flows of its host meet congestion. This is an
//! improvement of ours over the paper, whose flows all start alike; `start_of` chooses it.
//!
//! ```text
//!   once per base RTT and flow
//!     path idle                         ->  recent moves an eighth of the way to the start window
//!     flow has its share of a receiver  ->  recent stays
//!     else                              ->  recent moves an eighth of the way to the flow's window
//!   no flow took part for 8 base RTTs   ->  recent begins again at the start window
//!   a flow starts                       ->  window = recent, if less than half the start window
//! ```
//!
//! Where each host sends to many others over an oversubscribed network, flows have windows of a few
//! packets, and a flow that ends is followed by the next. A next flow that sent a BDP at once would
//! fill the queue that all share, and most of its packets would be trimmed. Flows that wait for
//! room at one receiver say nothing about the way to other receivers.
//!
//! A mean belongs to clones of one controller: an endpoint clones one for its flows over equal
//! paths. Paths that differ in base RTT, rate or MTU, for example within a rack, have means of
//! their own; beyond the first 16 paths of an endpoint each flow has one, and starts as with
//! `path`. Where base RTTs are measured for each peer, each peer may have one. A maker of custom
//! controllers that gives clones to several endpoints would let them share a mean, and results
//! would then depend on the order in which threads run.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::Smartt;
use crate::cc::{AckSample, LossSample};
use crate::time::{Duration, Instant};

/// The weight of a new window is 1 in 2^3.
const GAIN_SHIFT: u32 = 3;
/// For how many base RTTs the windows of other flows count.
const FRESH_RTTS: u64 = 8;

/// The mean window of flows whose controllers are clones of one. Only the endpoint's thread uses
/// it, with plain loads and stores; the fields are atomic so that flows may move to another thread
/// with their endpoint.
#[derive(Debug)]
pub(super) struct Recent {
    /// Wire bytes.
    window: AtomicU32,
    /// When the last flow took part, picoseconds; 0 before the first.
    noted_at: AtomicU64,
}

impl Recent {
    pub(super) const fn new() -> Self {
        Self { window: AtomicU32::new(0), noted_at: AtomicU64::new(0) }
    }

    /// The mean window, unless no flow has taken part for a while.
    fn window(&self, now: Instant, base_rtt: Duration) -> Option<u32> {
        let noted_at = self.noted_at.load(Relaxed);
        let age = now.as_ps().saturating_sub(noted_at);
        let fresh = noted_at > 0 && age <= base_rtt.as_ps().saturating_mul(FRESH_RTTS);
        fresh.then(|| self.window.load(Relaxed))
    }

    /// Moves `mean` an eighth of the way to `window`, as of `now`.
    fn note(&self, mean: u32, window: u32, now: Instant) {
        let step = |apart: u32| apart >> GAIN_SHIFT;
        let moved =
            if window > mean { mean + step(window - mean) } else { mean - step(mean - window) };
        self.window.store(moved, Relaxed);
        self.noted_at.store(now.as_ps(), Relaxed);
    }
}

impl Smartt {
    /// `start_of=recent`: starts with the window that other flows have, where that is less than
    /// half the start window of the path. Two flows that take turns in a queue have half each, and
    /// a flow that starts with less takes long to get its part of it.
    pub(super) fn start(&mut self, now: Instant) {
        if let Some(window) = self.at.recent.window(now, self.at.base_rtt)
            && window < self.at.start / 2
        {
            self.cwnd = window;
            self.bound();
        }
    }

    /// Takes part in the mean, after an acknowledgement.
    pub(super) fn note(&self, ack: &AckSample) {
        let window = if self.is_idle(ack) {
            self.at.start
        } else if self.has_share(ack.sharers) {
            return;
        } else {
            self.cwnd
        };
        self.move_mean(window, ack.now);
    }

    /// Takes part in the mean, after a loss.
    pub(super) fn note_loss(&self, loss: &LossSample) {
        if !self.has_share(loss.sharers) {
            self.move_mean(self.cwnd, loss.now);
        }
    }

    /// A mean that is no longer fresh begins again at the start window.
    fn move_mean(&self, window: u32, now: Instant) {
        let mean = self.at.recent.window(now, self.at.base_rtt).unwrap_or(self.at.start);
        self.at.recent.note(mean, window, now);
    }

    /// True when the flow has at least half of an equal share of its receiver: its bottleneck is
    /// there.
    pub(super) fn has_share(&self, sharers: u16) -> bool {
        sharers >= 2 && self.cwnd >= self.share_of(sharers) / 2
    }
}
