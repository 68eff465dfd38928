//! Erasure-coded blocks that arrive at an endpoint: when to ask for packets that a block lacks, and
//! which blocks are to be restored.

use super::Endpoint;
use crate::ec::BlockTimer;
use crate::flow::open_blocks::OpenBlock;
use crate::flow::rx::Answer;
use crate::sched::Scheduler;
use crate::segment::{Restore, RxSegment};
use crate::time::Instant;
use crate::wire::Body;

impl<S: Scheduler> Endpoint<S> {
    /// Whether, in the present state, `rx` is parity whose bytes would have to be kept.
    ///
    /// A driver with bounded memory for parity calls this before [`Endpoint::handle_burst`] for
    /// each parity packet that it has no room for, and drops the packet where the answer is true.
    /// The block is then asked for as if the packet had been lost. The answer is never false for
    /// parity that the endpoint then asks to keep.
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

    /// The next block to restore. Call it after the placements of a burst are obeyed and before the
    /// next burst, until it returns `None`. Nothing else has to be polled afterwards.
    pub fn poll_restore(&mut self) -> Option<Restore> {
        self.restores.pop_front()
    }

    /// Takes whole blocks off the front of the lists of open blocks.
    #[inline]
    pub(super) fn clean_blocks(&mut self) {
        let (flows, buffers) = (&self.rx_flows, &self.rx_buffers);
        self.blocks.clean(|open| {
            let flow = flows.get(open.flow);
            flow.is_none_or(|timed| timed.flow.missing(open.span, buffers) == 0)
        });
    }

    /// Asks for the missing packets of blocks whose time is over.
    pub(super) fn ask_for_blocks(&mut self, now: Instant) {
        let pauses = self.config.ec_params.block_timer == BlockTimer::Pause;
        while let Some(open) = self.blocks.pop_due(now) {
            let Some(timed) = self.rx_flows.get(open.flow) else { continue };
            let missing = timed.flow.missing(open.span, &self.rx_buffers);
            let have = open.span.packets - u8::try_from(missing.count_ones()).unwrap_or(0);
            if missing == 0 {
                continue;
            }
            if pauses && have > open.have {
                self.blocks.wait_for(OpenBlock { since: now, asked: 0, have, ..open });
            } else {
                self.acks.answer(Answer::Block(open), &mut self.stats);
                self.blocks.wait_again(open, now);
            }
        }
        self.clean_blocks();
    }
}
