//! Services of a device beside the path of its packets: its offers, its counters, and regular work.

use transport::{Duration, Instant, counters};

use crate::buffers::ext_buf::ExtBuf;
use crate::clock::poll_clock::Clock;

/// The offers of a device to its worker, at one turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offers {
    /// How far ahead of their departure frames may be given; zero but for a device that sends at a
    /// time.
    pub send_ahead: Duration,
    /// The device computes UDP checksums of frames that ask for it.
    pub udp_sums: bool,
}

counters! {
    /// Counters of a device, and of its source of buffers, for one worker.
    pub struct IoCounts {
        /// Polls that could not send because the pool was empty.
        pub starved: u64,
        /// Frames that the device can never send: too long, or in too many pieces.
        pub refused: u64,
        /// Frames handed over ahead of their departure, which was given to the device.
        pub timed: u64,
        /// Answers sent to requests for the host's address, and to echo requests.
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

/// Services of a device for its worker beside packets. The defaults suit a device of vectors.
pub trait Upkeep {
    /// The offers of the device, read once a turn, before frames are given.
    #[inline]
    fn offers(&self) -> Offers {
        Offers::default()
    }
    /// The counters of the device.
    fn counts(&self) -> IoCounts {
        IoCounts::default()
    }
    /// Frame `index` of the received burst is no packet of Headrace: a device with an address may
    /// answer a request in it. Called for no other frame.
    fn rx_stray(&mut self, _index: usize) {}
    /// A turn ends that began at `now`; `busy` says whether it had work. A device with a clock of
    /// its own may compare that clock with `clock`, the worker's. A device whose frames wait for
    /// the link may send them.
    #[inline]
    fn look_after<C: Clock>(&mut self, _now: Instant, _busy: bool, _clock: &mut C) {}
    /// The message that `memory` was attached for is over, acknowledged to its last byte or not.
    /// Returns memory that the device may still read, until the memory has one holder.
    fn message_over(&mut self, memory: ExtBuf, _acknowledged: bool) -> Option<ExtBuf> {
        Some(memory)
    }
    /// Has the device free frames that it has sent and kept.
    fn tx_reclaim(&mut self) {}
    /// Frees the frames kept by [`PacketIo::tx_burst`](super::packet_io::PacketIo::tx_burst),
    /// because the device takes nothing for too long; returns their number.
    fn tx_discard(&mut self) -> usize;
}
