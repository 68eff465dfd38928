//! Window changes by the receiver's report of how many flows share it. This is an improvement of
//! ours over the paper, in which senders only measure; two settings choose it.
//!
//! ```text
//!   qa_share     first trim, n flows  ->  window = what the path carries in one target RTT / n
//!   share_split  n flows, now m < n   ->  window x n / m, at most that of m flows
//! ```
//!
//! An incast converges half a base RTT after its first trim, and all its flows then have equal
//! windows. When some of them end, the others take over their shares at the next acknowledgement. A
//! flow that is alone at its receiver has its bottleneck elsewhere, so only measurements set its
//! share. Flows that share a receiver but have their bottleneck before it keep the windows that
//! measurements gave them. `qa_share` never raises a window, and `share_split` raises it only by
//! the shares of flows that have ended.

use super::{QaShare, Smartt, small};
use crate::cc::LossSample;
use crate::units::Bytes;

impl Smartt {
    /// [`QaShare::Receiver`]. True when the window was set.
    pub(super) fn adapt_to_share(&mut self, loss: &LossSample) -> bool {
        let asked = self.at.params.qa_share == QaShare::Receiver && self.at.params.quick_adapt;
        if !asked || loss.sharers < 2 || loss.now < self.share_end {
            return false;
        }
        let window = self.share_of(loss.sharers);
        if window >= self.cwnd {
            return false;
        }
        self.share_end = loss.now + self.at.target_rtt;
        self.set_window(window, loss.now, loss.in_flight);
        self.measure_end = loss.now + self.at.target_rtt;
        self.acked = 0;
        true
    }

    /// `share_split`: `sharers` is the count in the newest acknowledgement, 0 where the receiver
    /// reports none.
    #[inline]
    pub(super) fn split(&mut self, sharers: u16) {
        if sharers == self.sharers || sharers == 0 {
            return;
        }
        let before = core::mem::replace(&mut self.sharers, sharers);
        // A flow that is alone now grows by FastIncrease, which looks at the path, not the
        // receiver.
        if self.at.params.share_split && (2..before).contains(&sharers) {
            self.split_among(before, sharers);
        }
    }

    fn split_among(&mut self, before: u16, sharers: u16) {
        let share = self.share_of(sharers);
        if share > self.cwnd {
            let grown = u64::from(self.cwnd) * u64::from(before) / u64::from(sharers);
            self.cwnd = small(Bytes(grown)).min(share);
            self.bound();
        }
    }

    /// The window of one of `sharers` equal flows: at least one.
    pub(super) fn share_of(&self, sharers: u16) -> u32 {
        let share = f64::from(self.at.params.qa_scaling) / f64::from(sharers);
        small(Bytes(u64::from(self.at.bytes_per_target)).scaled(share))
    }
}
