//! Packets between a worker and its device, in bursts of at most [`transport::BURST`] frames.
//!
//! One implementation a binary, all calls inlined. A device keeps the frames of its bursts itself
//! and lends their bytes, because only the device can pass 32 of them to C at once. Times are
//! network time, lengths are bytes without FCS. What a device offers, and what it needs beside the
//! path of packets, is in `upkeep.rs`.

use std::ops::Range;

use transport::Instant;
use transport::wire::addressing::IpVersion;

use crate::buffers::ext_buf::ExtBuf;

/// One received frame, lent by the device until [`PacketIo::rx_release`].
#[derive(Clone, Copy, Debug)]
pub struct RxFrame<'a> {
    /// The octets from the destination MAC on; all headers at least.
    pub bytes: &'a [u8],
    /// The bytes that follow, where the device has put them into a second buffer.
    pub tail: &'a [u8],
    /// When the frame arrived, where the device reports it.
    pub stamp: Option<Instant>,
    /// The device's result for the checksums of the frame.
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

/// The device's result for the checksums of a received frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RxCheck {
    /// The device has not checked: software must.
    Unknown,
    /// The checksums are right.
    Good,
    /// A checksum is wrong: the frame was damaged.
    Bad,
}

/// A frame to be sent.
#[derive(Clone, Debug)]
pub struct TxFrame<'a> {
    /// Bytes lent to be written: the whole frame, or the headers before the attached payload.
    pub len: u16,
    /// Memory and range of the bytes that follow without a copy. First transmissions only: see
    /// [`Upkeep::message_over`](super::upkeep::Upkeep::message_over).
    pub attached: Option<(&'a ExtBuf, Range<usize>)>,
    /// The departure: the time of the turn, or later by at most the device's horizon.
    pub at: Instant,
    /// Asks the device to complete the UDP checksum; the headers will hold the sum of the
    /// pseudo-header.
    pub udp_sum: Option<IpVersion>,
}

/// The outcome of handing a burst to a device, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandedOver {
    /// Taken by the device.
    pub taken: usize,
    /// Kept in order; they go first next time.
    pub kept: usize,
}

/// A device that moves packets.
pub trait PacketIo {
    /// Receives a burst at `now`, keeps it, and returns the number of its frames.
    fn rx_burst(&mut self, now: Instant) -> usize;
    /// Frame `index` of the burst; `None` when there is none, or its chain is longer than any frame
    /// of ours. A chain is gathered first.
    fn rx_frame(&mut self, index: usize) -> Option<RxFrame<'_>>;
    /// Frees the burst.
    fn rx_release(&mut self);
    /// Full-sized frames for which [`PacketIo::tx_frame`] surely has room at `now`, 0..=32: limited
    /// by the device, its buffers and its pace.
    fn tx_room(&mut self, now: Instant) -> usize;
    /// Appends `frame` to the burst and lends its bytes, with arbitrary content, to be written.
    /// `None`, with nothing changed, without [`PacketIo::tx_room`]; for attached payload also when
    /// the device or the memory requires a copy at this moment.
    fn tx_frame(&mut self, frame: TxFrame<'_>) -> Option<&mut [u8]>;
    /// Takes back the frame that was appended last: there was nothing to write into it.
    fn tx_cancel(&mut self);
    /// Hands the burst to the device.
    fn tx_burst(&mut self) -> HandedOver;
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
