//! Frames that a device sends at their time, at a queue of their own.
//!
//! A queue sends in order: a frame that has to wait holds back what is behind it. So frames whose
//! time has come, acknowledgements above all, go by the worker's own queue, and those that were
//! given ahead of their time by this one, in the order of their departures. The device's clock says
//! when that is; while it is not known nothing is given ahead.
//!
//! Source: DPDK's guide to mlx5, `tx_pp`; `rte_mbuf_dyn_tx_timestamp_register`.

use transport::{Duration, Instant};

use crate::buffers::burst::MbufBurst;
use crate::buffers::mbuf::Mbuf;
use crate::buffers::stamp_field::TimestampField;
use crate::clock::device_clock::DeviceClock;
use crate::device::port::PortQueue;

/// How far ahead of its departure a frame may be given to a device. It is longer than the lateness
/// of most polls on a core of their own, and short compared with the time in which a rate changes.
pub const HORIZON: Duration = Duration::from_us(20);

/// The queue, and the frames that wait to be handed to it.
#[derive(Debug)]
pub(crate) struct Timed {
    queue: PortQueue,
    field: TimestampField,
    horizon: Duration,
    /// Frames by departure up to `sorted`, the rest as they came.
    frames: MbufBurst,
    sorted: usize,
    /// Handed over.
    sent: u64,
}

impl Timed {
    pub(crate) fn new(queue: PortQueue, field: TimestampField, horizon: Duration) -> Self {
        let frames = MbufBurst::new();
        Self { queue, field, horizon, frames, sorted: 0, sent: 0 }
    }

    /// How far ahead frames may be given now.
    #[inline]
    pub(crate) fn horizon(&self, clock: Option<&DeviceClock>) -> Duration {
        if clock.is_some_and(DeviceClock::is_known) { self.horizon } else { Duration::ZERO }
    }

    /// Takes a frame that leaves at `at`.
    ///
    /// # Errors
    /// Gives it back when the clock is not known or there is no room.
    #[inline]
    pub(crate) fn keep(
        &mut self,
        mut frame: Mbuf,
        at: Instant,
        clock: Option<&DeviceClock>,
    ) -> Result<(), Mbuf> {
        let Some(ticks) = clock.and_then(|clock| clock.fit().ticks_at(at)) else {
            return Err(frame);
        };
        self.field.set(&mut frame, ticks);
        self.frames.push(frame)
    }

    pub(crate) fn frames(&self) -> &MbufBurst {
        &self.frames
    }

    pub(crate) fn frames_mut(&mut self) -> &mut MbufBurst {
        &mut self.frames
    }

    /// Hands over the frames that the device takes, the earliest first; the rest is kept.
    #[inline]
    pub(crate) fn burst(&mut self) -> usize {
        if self.frames.is_empty() {
            return 0;
        }
        if self.frames.len() > self.sorted + 1 {
            self.sort();
        }
        let sent = self.queue.tx_burst(&mut self.frames);
        self.sorted = self.frames.len();
        self.sent += sent as u64;
        sent
    }

    /// Frames of one poll come flow by flow.
    fn sort(&mut self) {
        let field = self.field;
        let first = self.frames.get(0).and_then(|mbuf| field.get(mbuf)).unwrap_or(0);
        // Serial order: the clock may wrap around.
        let key = |mbuf: &Mbuf| field.get(mbuf).unwrap_or(first).wrapping_sub(first).cast_signed();
        self.frames.sort_by_key(key);
    }

    /// Frees the frames that are kept.
    pub(crate) fn discard(&mut self) {
        self.frames.clear();
        self.sorted = 0;
    }

    /// Frames handed over with a departure.
    pub(crate) const fn sent(&self) -> u64 {
        self.sent
    }

    /// Frames that the device can never send.
    pub(crate) const fn refused(&self) -> u64 {
        self.queue.refused()
    }

    pub(crate) fn reclaim(&mut self) {
        self.queue.reclaim();
    }
}
