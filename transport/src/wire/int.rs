//! INT on the wire: 4 octets and 16 for each hop that there is room for.
//!
//! Telemetry that switches write into a packet on its way. DATA and PARITY carry the room, which
//! their sender reserves, since the length of a packet is fixed when it is sent; ACK and NACK echo
//! the hops that the segment had when it arrived. Layout and units:
//! docs/WIRE.md. Rates, counters and times are those of a port at the instant at which the packet
//! leaves it. Source of what is measured: \[hpcc\] sec. 3.1; the widths are ours, wide enough for
//! queues of a border switch and for round trips of seconds.

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ParseError;
use super::checksum::Checksum;
use crate::time::{Duration, Instant, Rate};
use crate::units::Bytes;

/// Hops that a packet has room for at most: those of a path between two sites of three tiers, each
/// with a border switch.
pub const HOPS_MAX: usize = ROOM_MAX as usize;
/// Octets of the extension without its hops.
pub const LEN: u16 = 4;
/// Octets of a hop.
pub const HOP_LEN: u16 = 16;
/// Octets of the longest extension.
pub const LEN_MAX: u16 = len_with(ROOM_MAX);

const ROOM_MAX: u8 = 8;

/// Unit of [`Hop::sent`] and [`Hop::waiting`].
const UNIT: u64 = 64;
/// Unit of [`Hop::rate`], bit/s.
const RATE_UNIT: u64 = 100_000_000;
/// Unit of [`Hop::time`].
const PS_PER_NS: u64 = 1000;
/// [`Hop::rate`] of what is not a link but a flow's queue.
const QUEUE: u16 = u16::MAX;

/// The state of one port at the instant at which a packet leaves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hop {
    /// Nanoseconds of the switch's clock; wraps after 4.29 s.
    time: u32,
    /// Bytes that the port has sent before this packet, in units of 64; wraps after 275 GB.
    sent: u32,
    /// Bytes that wait at the port behind this packet, in units of 64.
    waiting: u32,
    /// Rate of the link, in whole units of 100 Mb/s, at least 1; [`QUEUE`] for the queue of a flow.
    /// The rate is rounded down: a controller that gets too high a rate fills the link for ever.
    rate: u16,
    /// Names the port. A controller starts anew when a path changes.
    port: u16,
}

impl Hop {
    /// The slowest rate that a hop can state; slower links appear with this rate.
    pub const RATE_LEAST: Rate = Rate::from_bps(RATE_UNIT);

    /// The hop of a port at `time`, when it has sent `sent` bytes and `waiting` bytes are queued.
    #[must_use]
    pub fn new(time: Instant, sent: Bytes, waiting: Bytes, rate: Rate, port: u16) -> Self {
        let units = rate.as_bps() / RATE_UNIT;
        Self {
            time: wrapped(time.as_ps() / PS_PER_NS),
            sent: wrapped(sent.0 / UNIT),
            waiting: u32::try_from(waiting.0 / UNIT).unwrap_or(u32::MAX),
            rate: u16::try_from(units).unwrap_or(u16::MAX).clamp(1, QUEUE - 1),
            port,
        }
    }

    /// The hop of a queue of one flow, which is no port: a switch that keeps such a queue writes
    /// this hop into the flow's own packets. `number` is that of the last advice to the queue.
    #[must_use]
    pub fn of_queue(time: Instant, sent: Bytes, waiting: Bytes, number: u16) -> Self {
        Self { rate: QUEUE, ..Self::new(time, sent, waiting, Rate::ZERO, number) }
    }

    /// Whether this is the hop of a flow's queue, which has a [`Hop::number`] and no port.
    #[must_use]
    pub const fn is_queue(&self) -> bool {
        self.rate == QUEUE
    }

    /// The switch's clock, nanoseconds that wrap after 4.29 s.
    #[must_use]
    pub const fn time(&self) -> u32 {
        self.time
    }

    /// An instant as [`Hop::time`] has it.
    #[must_use]
    pub const fn time_of(at: Instant) -> u32 {
        wrapped(at.as_ps() / PS_PER_NS)
    }

    /// Time between the packet of `earlier` and this one at the same port. `None` for a difference
    /// of more than half the range, which in wrapped time may be the past as well as the far
    /// future.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Duration> {
        forward(earlier.time, self.time).map(|ns| Duration::from_ns(ns.into()))
    }

    /// Bytes that the port sent between the packet of `earlier` and this one; `None` as in
    /// [`Hop::since`].
    #[must_use]
    pub fn sent_since(&self, earlier: &Self) -> Option<Bytes> {
        forward(earlier.sent, self.sent).map(|units| Bytes(u64::from(units) * UNIT))
    }

    /// Bytes that waited at the port.
    #[must_use]
    pub fn waiting(&self) -> Bytes {
        Bytes(u64::from(self.waiting) * UNIT)
    }

    /// Rate of the port's link, above zero.
    #[must_use]
    pub fn rate(&self) -> Rate {
        Rate::from_bps(u64::from(self.rate) * RATE_UNIT)
    }

    /// The number of the advice that a flow's queue obeys.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.port
    }

    /// The name of the port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Writes the hop to `place` of a frame, and adds the difference to `change`.
    #[inline]
    fn write(&self, place: &mut [u8; HOP_LEN as usize], change: &mut Checksum) {
        let ([time, sent, waiting, link], _) = place.as_chunks_mut() else { return };
        put(time, self.time.to_be_bytes(), change);
        put(sent, self.sent.to_be_bytes(), change);
        put(waiting, self.waiting.to_be_bytes(), change);
        put(link, (u32::from(self.rate) << 16 | u32::from(self.port)).to_be_bytes(), change);
    }
}

/// The low half.
#[expect(clippy::cast_possible_truncation, reason = "counters on the wire wrap")]
const fn wrapped(value: u64) -> u32 {
    value as u32
}

/// The distance from `from` to `to` on a wrapping counter; `None` when `to` is behind.
const fn forward(from: u32, to: u32) -> Option<u32> {
    let ahead = to.wrapping_sub(from);
    if ahead <= u32::MAX / 2 { Some(ahead) } else { None }
}

/// The telemetry of one packet.
#[derive(Clone, Copy, Debug)]
pub struct Int {
    /// Hops that there is room for, 1..=[`HOPS_MAX`]; 0 in a place to be filled.
    room: u8,
    /// Hops written, 0..=`room`.
    used: u8,
    /// The path had more ports than there is room for.
    cut: bool,
    /// The hops, of which the first `used` are written.
    hops: [Hop; HOPS_MAX],
}

impl PartialEq for Int {
    fn eq(&self, other: &Self) -> bool {
        (self.room, self.cut, self.hops()) == (other.room, other.cut, other.hops())
    }
}

impl Eq for Int {}

impl Int {
    /// A place to be filled.
    pub(super) const VACANT: Self = Self {
        room: 0,
        used: 0,
        cut: false,
        hops: [Hop { time: 0, sent: 0, waiting: 0, rate: 0, port: 0 }; HOPS_MAX],
    };

    /// Telemetry with room for `room` hops, 1..=[`HOPS_MAX`], and without any.
    #[must_use]
    pub fn with_room(room: u8) -> Self {
        let mut int = Self::VACANT;
        int.reserve(room);
        int
    }

    /// [`Int::with_room`] in place.
    pub(crate) fn reserve(&mut self, room: u8) {
        self.room = room.clamp(1, ROOM_MAX);
        (self.used, self.cut) = (0, false);
    }

    /// Adds the hop of a port. Where there is no room left, it notes that hops are missing, so that
    /// a reader does not mistake the other hops for the whole path.
    pub fn stamp(&mut self, hop: Hop) {
        match self.hops.get_mut(usize::from(self.used)) {
            Some(place) if self.used < self.room => {
                *place = hop;
                self.used += 1;
            }
            _ => self.cut = true,
        }
    }

    /// Makes room for one more hop, where that is possible: for a packet that is made from another.
    pub fn widen(&mut self) {
        self.room = self.room.saturating_add(1).min(ROOM_MAX);
    }

    /// Takes all hops out; the room stays.
    pub fn clear(&mut self) {
        (self.used, self.cut) = (0, false);
    }

    /// The hops, in the order of the path.
    #[must_use]
    pub fn hops(&self) -> &[Hop] {
        &self.hops[..usize::from(self.used)]
    }

    /// Whether ports of the path are missing, because there was no room.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.cut
    }

    /// The recorded hops without room for more, as an answer carries them; `None` when there are
    /// none.
    #[must_use]
    pub fn echo(&self) -> Option<Self> {
        (self.used > 0).then_some(Self { room: self.used, ..*self })
    }

    /// Octets on the wire.
    #[must_use]
    pub fn wire_len(&self) -> u16 {
        len_with(self.room)
    }
}

/// Octets of the extension with room for so many hops.
#[must_use]
pub const fn len_with(room: u8) -> u16 {
    LEN + HOP_LEN * room as u16
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    room: u8,
    used: u8,
    flags: u8,
    reserved: u8,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct HopOctets {
    time: U32,
    sent: U32,
    waiting: U32,
    rate: U16,
    port: U16,
}

const _: () = assert!(size_of::<Head>() == LEN as usize);
const _: () = assert!(size_of::<HopOctets>() == HOP_LEN as usize);

const FLAG_CUT: u8 = 1;

impl From<&Hop> for HopOctets {
    fn from(hop: &Hop) -> Self {
        Self {
            time: hop.time.into(),
            sent: hop.sent.into(),
            waiting: hop.waiting.into(),
            rate: hop.rate.into(),
            port: hop.port.into(),
        }
    }
}

/// Writes the extension to the front of `out`.
pub(super) fn emit(int: &Int, out: &mut [u8]) -> u16 {
    let len = int.wire_len();
    let (head, hops) = out[..usize::from(len)].split_at_mut(usize::from(LEN));
    let flags = if int.cut { FLAG_CUT } else { 0 };
    let fixed = Head { room: int.room, used: int.used, flags, reserved: 0 };
    head.copy_from_slice(fixed.as_bytes());
    hops.fill(0);
    for (hop, place) in int.hops().iter().zip(hops.chunks_exact_mut(usize::from(HOP_LEN))) {
        place.copy_from_slice(HopOctets::from(hop).as_bytes());
    }
    len
}

/// Reads the extension at the front of `bytes` into `int`.
pub(super) fn read(int: &mut Int, bytes: &[u8]) -> Result<(), ParseError> {
    let (head, rest) = Head::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
    let room = usize::from(head.room);
    if room == 0 || room > HOPS_MAX || head.used > head.room || head.reserved != 0 {
        return Err(ParseError::Field);
    }
    // Hops are missing only where there is no room for them.
    if head.flags & !FLAG_CUT != 0 || head.flags != 0 && head.used < head.room {
        return Err(ParseError::Field);
    }
    let octets = rest.get(..room * usize::from(HOP_LEN)).ok_or(ParseError::Truncated)?;
    (int.room, int.used, int.cut) = (head.room, head.used, head.flags != 0);
    let (used, unused) = octets.split_at(usize::from(head.used) * usize::from(HOP_LEN));
    for (octets, hop) in used.chunks_exact(usize::from(HOP_LEN)).zip(&mut int.hops) {
        let octets = HopOctets::ref_from_bytes(octets).map_err(|_| ParseError::Truncated)?;
        *hop = Hop {
            time: octets.time.get(),
            sent: octets.sent.get(),
            waiting: octets.waiting.get(),
            rate: octets.rate.get(),
            port: octets.port.get(),
        };
        if hop.rate == 0 {
            return Err(ParseError::Field);
        }
    }
    let (unused, _) = unused.as_chunks::<{ HOP_LEN as usize }>();
    if unused.iter().any(|hop| u128::from_ne_bytes(*hop) != 0) {
        return Err(ParseError::Field);
    }
    Ok(())
}

/// Octets of the extension at the front of `bytes`; `None` when it is cut short or has no legal
/// room.
#[inline]
pub(super) fn len_of(bytes: &[u8]) -> Option<u16> {
    let (head, _) = Head::ref_from_prefix(bytes).ok()?;
    let legal = (1..=HOPS_MAX).contains(&usize::from(head.room));
    legal.then(|| len_with(head.room))
}

/// Whether the extension at the front of `octets` has hops, or lacks some.
#[inline]
pub(super) fn has_hops(octets: &[u8]) -> bool {
    Head::ref_from_prefix(octets).is_ok_and(|(head, _)| head.used > 0 || head.flags != 0)
}

/// [`Int::clear`] of the extension at the front of `octets`; the result is as in [`stamp_octets`].
pub(super) fn clear_octets(octets: &mut [u8]) -> Option<Checksum> {
    let (head, _) = Head::ref_from_prefix(octets).ok()?;
    let (room, used) = (head.room, head.used.min(head.room));
    let whole = octets.get_mut(..usize::from(len_with(used)))?;
    let mut change = Checksum::new();
    change.remove(whole);
    whole.fill(0);
    whole[0] = room;
    change.add(whole);
    Some(change)
}

/// [`Int::stamp`] of the extension at the front of `octets`, which keep their number, with each of
/// `hops`. The sum of what is there now without what was there before; `None` where there is no
/// whole extension.
#[inline]
pub(super) fn stamp_octets(octets: &mut [u8], hops: &[Hop]) -> Option<Checksum> {
    let (head, rest) = octets.split_first_chunk_mut()?;
    let [room, mut used, mut flags, mut reserved] = *head;
    let places = rest.get_mut(..usize::from(room) * usize::from(HOP_LEN))?;
    let (places, _) = places.as_chunks_mut::<{ HOP_LEN as usize }>();
    let mut change = Checksum::new();
    for hop in hops {
        if let Some(place) = places.get_mut(usize::from(used)) {
            used += 1;
            hop.write(place, &mut change);
        } else {
            (flags, reserved) = (FLAG_CUT, 0);
        }
    }
    put(head, [room, used, flags, reserved], &mut change);
    Some(change)
}

/// Writes `new` to a place at an even offset, and adds the difference to `change`.
#[inline]
const fn put(place: &mut [u8; 4], new: [u8; 4], change: &mut Checksum) {
    change.replace(*place, new);
    *place = new;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(us: u64, sent: u64) -> Hop {
        Hop::new(Instant::from_ps(us * 1_000_000), Bytes(sent), Bytes(0), Rate::from_gbps(100), 7)
    }

    #[test]
    fn a_hop_says_what_it_was_made_of_in_its_units() {
        let rate = Rate::from_gbps(25);
        let made = Hop::new(Instant::from_ps(5_000_999), Bytes(6400), Bytes(191), rate, 3);
        assert_eq!((made.waiting(), made.rate(), made.port()), (Bytes(128), rate, 3));
        let later = Hop::new(Instant::from_ps(9_001_000), Bytes(12_863), Bytes(0), rate, 3);
        assert_eq!(later.since(&made), Some(Duration::from_ns(4001)));
        assert_eq!(later.sent_since(&made), Some(Bytes(6400)));
    }

    #[test]
    fn slow_and_endless_links_have_a_rate_and_a_queue_beyond_the_field_is_its_largest() {
        let at = |rate| Hop::new(Instant::ZERO, Bytes(0), Bytes(u64::MAX), rate, 0);
        assert_eq!(at(Rate::from_bps(1)).rate(), Rate::from_bps(RATE_UNIT));
        assert_eq!(at(Rate::from_bps(u64::MAX)).rate(), Rate::from_bps(65_534 * RATE_UNIT));
        assert!(!at(Rate::from_bps(u64::MAX)).is_queue());
        let below = |units: u64| Rate::from_bps(units * RATE_UNIT - 1);
        assert_eq!(at(below(20)).rate(), Rate::from_bps(19 * RATE_UNIT), "never faster than it is");
        assert_eq!(at(Rate::from_bps(1)).waiting(), Bytes(u64::from(u32::MAX) * UNIT));
    }

    #[test]
    fn the_queue_of_a_flow_is_no_link_and_has_the_number_of_its_advice() {
        let queue = Hop::of_queue(Instant::ZERO, Bytes(640), Bytes(1280), 65_535);
        assert!(queue.is_queue());
        assert_eq!((queue.number(), queue.waiting()), (65_535, Bytes(1280)));
        let earlier = Hop::of_queue(Instant::ZERO, Bytes(0), Bytes(0), 1);
        assert_eq!(queue.sent_since(&earlier), Some(Bytes(640)));
    }

    #[test]
    fn counters_that_wrap_are_subtracted_and_those_that_run_backwards_are_not() {
        let (before, after) = (hop(4_294_967, 275_000_000_000), hop(4_294_969, 275_000_000_064));
        assert_eq!(after.since(&before), Some(Duration::from_us(2)));
        assert_eq!(before.since(&after), None);
        let (full, wrapped) = (hop(0, (1 << 38) - 64), hop(0, (1 << 38) + 64));
        assert_eq!(wrapped.sent_since(&full), Some(Bytes(128)));
        assert_eq!(full.sent_since(&wrapped), None);
    }

    #[test]
    fn a_path_longer_than_the_room_is_cut_and_says_so() {
        let mut int = Int::with_room(2);
        int.stamp(hop(1, 0));
        int.stamp(hop(2, 0));
        assert!(!int.is_cut());
        int.stamp(hop(3, 0));
        assert!(int.is_cut() && int.hops() == [hop(1, 0), hop(2, 0)]);
        int.clear();
        assert!(!int.is_cut() && int.hops().is_empty() && int.wire_len() == len_with(2));
    }

    #[test]
    fn an_echo_has_the_hops_and_no_room() {
        let mut int = Int::with_room(5);
        assert_eq!(int.echo(), None);
        int.stamp(hop(1, 0));
        let echo = int.echo().unwrap();
        assert_eq!((echo.hops(), echo.wire_len()), (int.hops(), len_with(1)));
    }
}
