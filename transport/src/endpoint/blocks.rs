//! Erasure-coded blocks that arrive at an endpoint: when to ask for what one lacks, and which are
//! to be restored.

use super::Endpoint;
use crate::flow::rx::Answer;
use crate::segment::Restore;
use crate::time::Instant;

impl Endpoint {
    /// The next block of the last burst to be restored, once its placements have been obeyed.
    pub fn poll_restore(&mut self) -> Option<Restore> {
        self.restores.pop_front()
    }

    /// Takes blocks that are whole off the front of those that are waited for.
    #[inline]
    pub(super) fn clean_blocks(&mut self) {
        let (flows, buffers) = (&self.rx_flows, &self.rx_buffers);
        self.blocks.clean(|open| {
            let flow = flows.get(open.flow);
            flow.is_none_or(|timed| timed.flow.missing(open.span, buffers) == 0)
        });
    }

    /// Asks for what blocks lack that have waited long enough.
    pub(super) fn ask_for_blocks(&mut self, now: Instant) {
        while let Some(open) = self.blocks.pop_due(now) {
            let Some(timed) = self.rx_flows.get(open.flow) else { continue };
            if timed.flow.missing(open.span, &self.rx_buffers) != 0 {
                self.acks.answer(Answer::Block(open), &mut self.stats);
                self.blocks.wait_again(open, now);
            }
        }
        self.clean_blocks();
    }
}
