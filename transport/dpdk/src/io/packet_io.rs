//! A device as a worker sees it.
//!
//! One implementation a binary, all calls inlined. A device keeps the frames of its bursts itself
//! and lends their bytes, because only it knows how to hand 32 of them to C at once. Times are
//! network time, lengths are bytes without FCS. Nothing here does anything.

use std::ops::Range;

use transport::wire::addressing::IpVersion;
use transport::{Duration, Instant, counters};

use crate::buffers::ext_buf::ExtBuf;
use crate::clock::poll_clock::Clock;

/// One received frame, lent by the device until [`PacketIo::rx_release`].
#[derive(Clone, Copy, Debug)]
pub struct RxFrame<'a> {
    /// From the destination MAC on; all headers at least.
    pub bytes: &'a [u8],
    /// What follows, when the device left it in a second buffer.
    pub tail: &'a [u8],
    /// When it arrived, where the device says so.
    pub stamp: Option<Instant>,
    /// What the device knows of its checksums.
    pub check: RxCheck,
}

impl<'a> RxFrame<'a> {
    /// The `len` bytes from `start` on, in the first buffer and behind it; shorter where the frame
    /// ends.
    #[inline]
    #[must_use]
    pub fn split(&self, start: usize, len: usize) -> (&'a [u8], &'a [u8]) {
        let end = start.saturating_add(len);
        let split = self.bytes.len();
        let near = self.bytes.get(start.min(split)..end.min(split)).unwrap_or_default();
        let behind = |at: usize| at.saturating_sub(split).min(self.tail.len());
        let far = self.tail.get(behind(start)..behind(end)).unwrap_or_default();
        (near, far)
    }
}

/// What a device knows of the checksums of a received frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RxCheck {
    /// Nothing: software must look.
    Unknown,
    /// They hold.
    Good,
    /// One does not: the frame was damaged.
    Bad,
}

counters! {
    /// What a device, and what gives it buffers, have counted for one worker.
    pub struct IoCounts {
        /// Polls that could not send because the pool was empty.
        pub starved: u64,
        /// Frames that the device can never send: too long, or in too many pieces.
        pub refused: u64,
        /// Frames handed over ahead of their departure, of which the device was told.
        pub timed: u64,
        /// Answers sent to who asks for the host's address, or whether it lives.
        pub answers: u64,
        /// Frames received whose time of arrival is the device's, not the poll's.
        pub stamped: u64,
        /// Times of arrival by the device that could not be true; the poll's counted.
        pub stamps_refused: u64,
        /// Readings of the device's clock.
        pub clock_readings: u64,
        /// Times that the device's clock jumped, and was learnt anew.
        pub clock_jumps: u64,
        /// 1 when the device's clock was given up: it stood still, or jumped again and again.
        pub clock_lost: u64,
        /// Received frames given to other workers at the device.
        pub given: u64,
        /// Frames taken from other workers at the device.
        pub taken: u64,
        /// Received frames dropped because another worker's ring was full.
        pub ring_full: u64,
    }
}

/// A device as a worker sees it: bursts of at most [`transport::BURST`] frames each way.
pub trait PacketIo {
    /// Receives a burst at `now`, keeps it, and says how many frames it holds.
    fn rx_burst(&mut self, now: Instant) -> usize;
    /// Frame `index` of the burst; `None` when there is none, or its chain is longer than any frame
    /// of ours. A chain is gathered first.
    fn rx_frame(&mut self, index: usize) -> Option<RxFrame<'_>>;
    /// Frame `index` is no packet of ours: a device that owes others answers (who has this
    /// address?) may look at it. Not called for anything else.
    fn rx_stray(&mut self, _index: usize) {}
    /// Frees the burst.
    fn rx_release(&mut self);
    /// A turn ends that began at `now` and was busy or not: time to look after a clock of the
    /// device's own, by `clock`, which tells the worker's time.
    #[inline]
    fn look_after_clock<C: Clock>(&mut self, _now: Instant, _busy: bool, _clock: &mut C) {}

    /// Full-sized frames that [`PacketIo::tx_frame`] gives for sure at `now`, 0..=32: what the
    /// device, its buffers and its pace allow.
    fn tx_room(&mut self, now: Instant) -> usize;
    /// How far ahead of their departure frames may be given: zero but for a device that sends at a
    /// time. Asked once a turn, before frames are given.
    #[inline]
    fn send_ahead(&self) -> Duration {
        Duration::ZERO
    }
    /// Appends a frame of `len` bytes to the burst, to leave at `at`, the time of the turn or up to
    /// [`PacketIo::send_ahead`] later, and lends its bytes to be written; whatever was there before
    /// shows through. `None` only without [`PacketIo::tx_room`].
    fn tx_frame(&mut self, len: u16, at: Instant) -> Option<&mut [u8]>;
    /// Appends a frame of `head` bytes, which it lends to be written, and the bytes of `memory` at
    /// `range`, which are not copied. `None`, and nothing is changed, when this device, or this
    /// memory, or the moment asks for a copy. First transmissions only: see [`PacketIo::tx_over`].
    fn tx_attached(
        &mut self,
        _head: u16,
        _memory: &ExtBuf,
        _range: Range<usize>,
        _at: Instant,
    ) -> Option<&mut [u8]> {
        None
    }
    /// The message that `memory` was attached for is over, acknowledged to its last byte or not.
    /// Returns what may still be read by the device, and is to be asked until it has one holder.
    fn tx_over(&mut self, memory: ExtBuf, _acknowledged: bool) -> Option<ExtBuf> {
        Some(memory)
    }
    /// Whether the device computes the UDP checksums of frames for which [`PacketIo::tx_sum`] asks.
    fn sums_udp(&self) -> bool {
        false
    }
    /// Asks the device to complete the UDP checksum of the frame given last, whose headers hold the
    /// sum of the pseudo-header.
    fn tx_sum(&mut self, _ip: IpVersion) {}
    /// Asks the device for frames that are sent and not yet freed; it may have none to give.
    fn tx_reclaim(&mut self) {}
    /// Takes back the frame given last: there was nothing to write into it.
    fn tx_cancel(&mut self);
    /// Hands the burst to the device and says how many frames it took; the rest is kept in order
    /// and goes first next time.
    fn tx_burst(&mut self) -> usize;
    /// Frames kept.
    fn tx_kept(&self) -> usize;
    /// Frees what is kept, because the device takes nothing for too long; says how many.
    fn tx_discard(&mut self) -> usize;
    /// What it has counted beside that; nothing where nothing can happen.
    fn counts(&self) -> IoCounts {
        IoCounts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_found_on_both_sides_of_a_border() {
        let check = RxCheck::Unknown;
        let frame = RxFrame { bytes: b"abcd", tail: b"efgh", stamp: None, check };
        let whole = |start, len| [frame.split(start, len).0, frame.split(start, len).1].concat();
        for start in 0..10 {
            for len in 0..10 {
                let end = (start + len).min(8);
                assert_eq!(whole(start, len), &b"abcdefgh"[start.min(8)..end]);
            }
        }
        assert_eq!(frame.split(4, 4), (&b""[..], &b"efgh"[..]));
        assert_eq!(frame.split(2, 2), (&b"cd"[..], &b""[..]));
    }
}
