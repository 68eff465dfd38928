//! Erasure-coded blocks that arrive at an endpoint: when to ask for what one lacks, and which are
//! to be restored.

use super::Endpoint;
use crate::flow::open_blocks::OpenBlock;
use crate::flow::rx::Answer;
use crate::sched::Scheduler;
use crate::segment::{Restore, RxSegment};
use crate::time::Instant;
use crate::wire::Body;

impl<S: Scheduler> Endpoint<S> {
    /// Whether `rx` is parity whose bytes would have to be kept, as far as is known now.
    ///
    /// A driver whose memory for parity is bounded asks this of parity that it has no room for,
    /// before [`Endpoint::handle_burst`], and keeps to itself what would be kept: its block is
    /// asked for like one that has lost it. It is never false for parity that then is kept.
    #[must_use]
    pub fn would_keep(&self, rx: &RxSegment) -> bool {
        let Body::Data(data) = rx.hdr.body else { return false };
        if data.parity_index().is_none() || rx.trimmed {
            return false;
        }
        let flow = self.known_flow(rx, &data);
        flow.is_none_or(|flow| !flow.has_arrived(data.psn, &self.rx_buffers))
    }

    /// The blocks of the last burst that wait to be restored.
    pub(crate) fn restores(&self) -> impl Iterator<Item = &Restore> {
        self.restores.iter()
    }

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

    /// Asks for what blocks lack of which nothing has arrived for long enough.
    pub(super) fn ask_for_blocks(&mut self, now: Instant) {
        while let Some(open) = self.blocks.pop_due(now) {
            let Some(timed) = self.rx_flows.get(open.flow) else { continue };
            let missing = timed.flow.missing(open.span, &self.rx_buffers);
            let have = open.span.packets - u8::try_from(missing.count_ones()).unwrap_or(0);
            if missing == 0 {
                continue;
            }
            if have > open.have {
                self.blocks.wait_for(OpenBlock { since: now, asked: 0, have, ..open });
            } else {
                self.acks.answer(Answer::Block(open), &mut self.stats);
                self.blocks.wait_again(open, now);
            }
        }
        self.clean_blocks();
    }
}
