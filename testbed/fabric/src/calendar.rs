//! The calendar: flights on the links by their time, in a hierarchical wheel of slots.
//!
//! A slot spans a power of two picoseconds. The near level has a slot for each of the next 2048; a
//! far level has 256 slots, each as wide as the whole level below. A flight is filed at the level
//! of the highest group of bits in which its slot differs from the calendar's own. It moves down
//! when the calendar comes near, so a delay of milliseconds costs one or two moves and no memory. A
//! slot is a list of chunks of one pool, so memory follows the flights under way.
//!
//! A slot is a list, not sorted: the code that takes a span of time sorts what it needs. Flights
//! come slot by slot, and flights of one origin with one arrival in the order in which they were
//! filed, which is the order in which they left.
//!
//! Idea: \[varghese\] scheme 7, with buckets instead of single timers.

use transport::Instant;

use super::packet::{Flags, Packet};
use transport::HostId;

/// A packet on a link, a pause frame, or a call to look at a port again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The instant of arrival.
    pub at: Instant,
    /// The port that the packet left; breaks ties.
    pub(super) origin: u32,
    /// The port that the packet goes to. The NIC of a host stands for the host.
    pub(super) target: u32,
    /// The packet; of length 0, which no packet has, in a wake-up and a pause.
    pub packet: Packet,
}

const _: () = assert!(size_of::<Flight>() == 32, "two to a cache line");

impl Flight {
    /// A call to look at `port` at the instant `at`.
    pub(super) const fn wake(port: u32, at: Instant) -> Self {
        let packet =
            Packet { handle: 0, dst: HostId(0), hash: 0, len: 0, trim_len: 0, flags: Flags::NONE };
        Self { at, origin: port, target: port, packet }
    }

    /// Bytes of a pause frame on the wire, the least that a frame of Ethernet has.
    pub(super) const PAUSE_FRAME: u16 = 64;

    /// Makes the transmitter `port` pause its data, or go on; `(origin, target)` are as for a
    /// packet.
    pub(super) const fn pause_frame(
        paused: bool,
        port: u32,
        (origin, target): (u32, u32),
        at: Instant,
    ) -> Self {
        let wake = Self::wake(target, at);
        let trim_len = if paused { PAUSE } else { RESUME };
        Self { origin, packet: Packet { handle: port, trim_len, ..wake.packet }, ..wake }
    }

    /// The crash of the switch `target` at the instant `at`.
    pub(super) const fn crash(target: u32, at: Instant) -> Self {
        let wake = Self::wake(target, at);
        Self { packet: Packet { trim_len: CRASH, ..wake.packet }, ..wake }
    }

    /// Whether the event is the crash of a switch.
    pub(super) const fn is_crash(&self) -> bool {
        self.packet.len == 0 && self.packet.trim_len == CRASH
    }

    /// A packet that a driver gives to the NIC of `host` at `at`, after all other events of that
    /// instant.
    pub(super) const fn handed_in(host: u32, packet: Packet, at: Instant) -> Self {
        Self { at, origin: HANDED_IN, target: host, packet }
    }

    /// Whether the event is a packet that a driver hands in.
    pub(super) const fn is_handed_in(&self) -> bool {
        self.origin == HANDED_IN
    }

    /// Whether the event is a packet.
    #[inline]
    pub const fn is_packet(&self) -> bool {
        self.packet.len > 0
    }

    /// Whether the event is a wake-up.
    pub const fn is_wake(&self) -> bool {
        self.packet.len == 0 && self.packet.trim_len == 0
    }

    /// Whether a port has to pause, or may go on; `None` for anything but a pause frame.
    #[inline]
    pub const fn pause(&self) -> Option<bool> {
        match self.packet.trim_len {
            _ if self.packet.len != 0 => None,
            PAUSE => Some(true),
            RESUME => Some(false),
            _ => None,
        }
    }
}

/// The origin of packets that a driver hands in; no port has this number.
const HANDED_IN: u32 = u32::MAX;

/// The kind of a flight that is no packet, in the place of a header's length. A wake-up has 0.
const PAUSE: u8 = 1;
const RESUME: u8 = 2;
const CRASH: u8 = 3;

/// Flights to come. O(1) amortised a flight.
#[derive(Clone, Debug)]
pub(super) struct Calendar {
    /// log2 of a slot in picoseconds.
    shift: u32,
    /// The first slot that is not open: flights before it are in `opened`, others in a list.
    tick: u64,
    /// Flights of slots that have been taken in part.
    opened: Vec<Flight>,
    near: Vec<List>,
    near_used: [u64; NEAR / 64],
    /// `FAR` lists a level.
    far: Vec<List>,
    far_used: [[u64; FAR / 64]; LEVELS],
    pool: Pool,
}

/// Flights that are due, most of them still in their chunks, so that they are read where they are.
#[derive(Clone, Debug, Default)]
pub(super) struct DueFlights {
    /// Flights out of slots opened before.
    opened: Vec<Flight>,
    /// Whole chunks, slot by slot: the place of a chunk, and how many flights it has.
    chunks: Vec<(u32, u32)>,
    /// Flights out of the last slot, which has later ones too.
    partial: Vec<Flight>,
    len: usize,
}

const NEAR_BITS: u32 = 11;
const NEAR: usize = 1 << NEAR_BITS;
const FAR_BITS: u32 = 8;
const FAR: usize = 1 << FAR_BITS;
/// Levels enough for slots of a picosecond.
const LEVELS: usize = (u64::BITS - NEAR_BITS).div_ceil(FAR_BITS) as usize;
const NIL: u32 = u32::MAX;
/// Flights of a chunk: no power of two, so that the chunks which grow at one time spread over the
/// sets of a cache.
const CHUNK: u32 = 31;

/// A list of chunks, all full but the last; `head` is [`NIL`] when it is empty.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    /// The flights of the last chunk.
    tail_len: u32,
}

const EMPTY: List = List { head: NIL, tail: NIL, tail_len: 0 };

/// The chunks of all lists. The links between them are stored apart from them, so lists are built
/// and walked without reading flights that have left the caches.
#[derive(Clone, Debug)]
struct Pool {
    chunks: Vec<Chunk>,
    /// For each chunk, the next of its list or of the free ones, or [`NIL`].
    next: Vec<u32>,
    /// The first of the free chunks, or [`NIL`].
    free: u32,
}

/// Aligned so that no flight lies in two cache lines.
#[derive(Clone, Debug)]
#[repr(align(32))]
struct Chunk([Flight; CHUNK as usize]);

/// A list by its place.
#[derive(Clone, Copy, Debug)]
enum ListId {
    Near(usize),
    Far(usize, usize),
}

impl Calendar {
    /// An empty calendar with slots of `1 << shift` picoseconds.
    pub(super) fn new(shift: u32) -> Self {
        Self {
            shift,
            tick: 0,
            opened: Vec::new(),
            near: vec![EMPTY; NEAR],
            near_used: [0; NEAR / 64],
            far: vec![EMPTY; LEVELS * FAR],
            far_used: [[0; FAR / 64]; LEVELS],
            pool: Pool { chunks: Vec::new(), next: Vec::new(), free: NIL },
        }
    }

    /// An empty calendar with slots of the same length.
    pub(super) fn empty(&self) -> Self {
        Self::new(self.shift)
    }

    /// Adds a flight. O(1).
    #[inline]
    pub(super) fn push(&mut self, flight: Flight) {
        let slot = flight.at.as_ps() >> self.shift;
        let differs = slot ^ self.tick;
        if slot < self.tick {
            self.opened.push(flight);
        } else if differs < NEAR as u64 {
            let index = near_index(slot);
            self.near_used[index / 64] |= 1 << (index % 64);
            self.pool.append(&mut self.near[index], flight);
        } else {
            self.push_far(flight, slot, differs);
        }
    }

    #[cold]
    fn push_far(&mut self, flight: Flight, slot: u64, differs: u64) {
        let level = ((differs.ilog2() - NEAR_BITS) / FAR_BITS) as usize;
        let index = far_index(slot, level);
        self.far_used[level][index / 64] |= 1 << (index % 64);
        self.pool.append(&mut self.far[level * FAR + index], flight);
    }

    /// Takes back the packet `handle` that left `origin` and is to arrive at `at`; a wake-up takes
    /// its place. False where there is no such flight. O(flights of a slot).
    #[cold]
    pub(super) fn cancel(&mut self, at: Instant, origin: u32, handle: u32) -> bool {
        let is_it = |flight: &&mut Flight| {
            flight.is_packet()
                && (flight.at, flight.origin) == (at, origin)
                && flight.packet.handle == handle
        };
        let slot = at.as_ps() >> self.shift;
        let differs = slot ^ self.tick;
        let list = if slot < self.tick {
            None
        } else if differs < NEAR as u64 {
            Some(self.near[near_index(slot)])
        } else {
            let level = ((differs.ilog2() - NEAR_BITS) / FAR_BITS) as usize;
            Some(self.far[level * FAR + far_index(slot, level)])
        };
        let Some(list) = list else {
            let found = self.opened.iter_mut().find(is_it);
            return found.map(|flight| *flight = Flight::wake(flight.target, at)).is_some();
        };
        let chunks: Vec<(u32, u32)> = self.pool.walk(list).collect();
        for (chunk, len) in chunks {
            let flights = &mut self.pool.chunks[chunk as usize].0[..len as usize];
            if let Some(flight) = flights.iter_mut().find(is_it) {
                *flight = Flight { origin, ..Flight::wake(flight.target, at) };
                return true;
            }
        }
        false
    }

    /// When the next flight is due. O(flights of a slot).
    pub(super) fn peek(&self) -> Option<Instant> {
        if let Some(least) = self.opened.iter().map(|flight| flight.at).min() {
            return Some(least);
        }
        let chunks = self.pool.walk(self.list(self.first()?));
        let flights = chunks.flat_map(|chunk| self.pool.flights(chunk));
        Some(flights.fold(Instant::FAR_FUTURE, |least, flight| least.min(flight.at)))
    }

    /// Takes every flight due before `end`. `due` must be back from [`Calendar::recycle`].
    pub(super) fn take_before(&mut self, end: Instant, due: &mut DueFlights) {
        due.opened.extend(self.opened.extract_if(.., |flight| flight.at < end));
        due.len = due.opened.len();
        let end_slot = end.as_ps() >> self.shift;
        while let Some(place) = self.first() {
            let slot = self.start(place);
            if slot > end_slot || slot << self.shift >= end.as_ps() {
                break;
            }
            match place {
                ListId::Far(level, index) => {
                    self.tick = slot;
                    self.spill(level, index);
                }
                ListId::Near(index) => {
                    self.near_used[index / 64] &= !(1 << (index % 64));
                    let list = std::mem::replace(&mut self.near[index], EMPTY);
                    if slot < end_slot {
                        self.take_chunks(list, due);
                    } else {
                        self.open(list, end, due);
                    }
                    self.advance(slot + 1);
                }
            }
        }
        if end_slot > self.tick {
            self.advance(end_slot);
        }
    }

    fn take_chunks(&self, list: List, due: &mut DueFlights) {
        for (at, len) in self.pool.walk(list) {
            due.chunks.push((at, len));
            due.len += len as usize;
        }
    }

    /// Takes the due flights of a slot, and keeps the rest open.
    fn open(&mut self, list: List, end: Instant, due: &mut DueFlights) {
        for flight in self.pool.walk(list).flat_map(|chunk| self.pool.flights(chunk)) {
            let to = if flight.at < end { &mut due.partial } else { &mut self.opened };
            to.push(*flight);
        }
        self.pool.release(list);
        due.len += due.partial.len();
    }

    /// The flights that were taken, slot by slot.
    pub(super) fn flights<'a>(&'a self, due: &'a DueFlights) -> impl Iterator<Item = &'a Flight> {
        let whole = due.chunks.iter().flat_map(|chunk| self.pool.flights(*chunk));
        due.opened.iter().chain(whole).chain(&due.partial)
    }

    /// Takes back the memory of flights that were taken.
    pub(super) fn recycle(&mut self, due: &mut DueFlights) {
        for (at, _) in due.chunks.drain(..) {
            self.pool.release_one(at);
        }
        due.opened.clear();
        due.partial.clear();
        due.len = 0;
    }

    /// Moves the calendar's own time on to `slot`; nothing is due before it.
    fn advance(&mut self, slot: u64) {
        if slot ^ self.tick >= NEAR as u64 {
            // A far list around the new time would hide from its near level: file it anew.
            while let Some(ListId::Far(level, index)) = self.first() {
                let start = self.start(ListId::Far(level, index));
                if start > slot {
                    break;
                }
                self.tick = start;
                self.spill(level, index);
            }
        }
        self.tick = slot;
    }

    /// Files the flights of a far list anew; the calendar's time is the start of the list.
    fn spill(&mut self, level: usize, index: usize) {
        self.far_used[level][index / 64] &= !(1 << (index % 64));
        let mut rest = std::mem::replace(&mut self.far[level * FAR + index], EMPTY);
        while let Some((at, len)) = self.pool.pop(&mut rest) {
            for i in 0..len as usize {
                self.push(self.pool.chunks[at as usize].0[i]);
            }
            self.pool.release_one(at);
        }
    }

    /// The list that is due first. Near lists are all before far ones, lower levels before higher.
    fn first(&self) -> Option<ListId> {
        if let Some(index) = first_bit(&self.near_used) {
            return Some(ListId::Near(index));
        }
        let levels = self.far_used.iter().enumerate();
        levels
            .filter_map(|(level, used)| first_bit(used).map(|index| ListId::Far(level, index)))
            .next()
    }

    fn list(&self, place: ListId) -> List {
        match place {
            ListId::Near(index) => self.near[index],
            ListId::Far(level, index) => self.far[level * FAR + index],
        }
    }

    /// The first slot of a list: the calendar's, with its group of bits replaced and the lower ones
    /// zero.
    fn start(&self, place: ListId) -> u64 {
        let (low, bits, index) = match place {
            ListId::Near(index) => (0, NEAR_BITS, index),
            ListId::Far(level, index) => (far_low(level), FAR_BITS, index),
        };
        let high = low + bits;
        let kept = if high >= u64::BITS { 0 } else { self.tick >> high << high };
        kept | (index as u64) << low
    }
}

impl DueFlights {
    /// The number of flights.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Pool {
    /// Adds `flight` to the end of `list`.
    #[inline]
    fn append(&mut self, list: &mut List, flight: Flight) {
        if let Some(chunk) = self.chunks.get_mut(list.tail as usize)
            && let Some(place) = chunk.0.get_mut(list.tail_len as usize)
        {
            *place = flight;
            list.tail_len += 1;
            return;
        }
        self.lengthen(list, flight);
    }

    /// Adds a chunk to `list` that begins with `flight`.
    #[cold]
    fn lengthen(&mut self, list: &mut List, flight: Flight) {
        let at = self.free;
        let at = if let Some(chunk) = self.chunks.get_mut(at as usize) {
            self.free = std::mem::replace(&mut self.next[at as usize], NIL);
            chunk.0[0] = flight;
            at
        } else {
            self.chunks.push(Chunk([flight; CHUNK as usize]));
            self.next.push(NIL);
            u32::try_from(self.chunks.len() - 1).unwrap_or(NIL)
        };
        match self.next.get_mut(list.tail as usize) {
            Some(next) => *next = at,
            None => list.head = at,
        }
        (list.tail, list.tail_len) = (at, 1);
    }

    /// Takes the first chunk off `list`: its place, and how many flights it has.
    #[inline]
    fn pop(&self, list: &mut List) -> Option<(u32, u32)> {
        let at = list.head;
        list.head = *self.next.get(at as usize)?;
        Some((at, if at == list.tail { list.tail_len } else { CHUNK }))
    }

    /// The chunks of `list`.
    fn walk(&self, mut list: List) -> impl Iterator<Item = (u32, u32)> + '_ {
        std::iter::from_fn(move || self.pop(&mut list))
    }

    #[inline]
    fn flights(&self, (at, len): (u32, u32)) -> &[Flight] {
        &self.chunks[at as usize].0[..len as usize]
    }

    /// Takes back all chunks of `list`.
    fn release(&mut self, mut list: List) {
        while let Some((at, _)) = self.pop(&mut list) {
            self.release_one(at);
        }
    }

    fn release_one(&mut self, at: u32) {
        self.next[at as usize] = self.free;
        self.free = at;
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the mask leaves less than NEAR")]
const fn near_index(slot: u64) -> usize {
    (slot & (NEAR as u64 - 1)) as usize
}

#[expect(clippy::cast_possible_truncation, reason = "the mask leaves less than FAR")]
const fn far_index(slot: u64, level: usize) -> usize {
    ((slot >> far_low(level)) & (FAR as u64 - 1)) as usize
}

/// The lowest bit of a slot that a far level looks at.
#[expect(clippy::cast_possible_truncation, reason = "there are less than ten levels")]
const fn far_low(level: usize) -> u32 {
    NEAR_BITS + FAR_BITS * level as u32
}

fn first_bit(words: &[u64]) -> Option<usize> {
    let word = words.iter().position(|word| *word != 0)?;
    Some(word * 64 + words[word].trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flight(at: u64, origin: u32, seq: u32) -> Flight {
        let packet = Packet { handle: seq, len: 1, ..Flight::wake(0, Instant::ZERO).packet };
        Flight { at: Instant::from_ps(at), origin, target: 0, packet }
    }

    fn take_before(calendar: &mut Calendar, end: Instant) -> Vec<Flight> {
        let mut due = DueFlights::default();
        calendar.take_before(end, &mut due);
        let flights: Vec<_> = calendar.flights(&due).copied().collect();
        assert_eq!(flights.len(), due.len());
        calendar.recycle(&mut due);
        flights
    }

    /// Whether every chunk is free, once.
    fn is_all_free(pool: &Pool) -> bool {
        let mut seen = vec![false; pool.chunks.len()];
        let mut at = pool.free;
        while let Some(next) = pool.next.get(at as usize) {
            if std::mem::replace(&mut seen[at as usize], true) {
                return false;
            }
            at = *next;
        }
        seen.iter().all(|seen| *seen)
    }

    proptest! {
        #[test]
        fn it_gives_what_a_sorted_list_gives(
            // Delays after the present, flights at each, and by how much the present moves on then.
            steps in prop::collection::vec(
                (
                    prop_oneof![0u64..50_000, Just(641_600), Just(10_000_000_000), any::<u64>()],
                    prop_oneof![Just(1u32), 1u32..4 * CHUNK],
                    prop_oneof![0u64..100_000, Just(0), Just(5_000_000_000)],
                ),
                1..60,
            ),
            shift in prop_oneof![Just(0u32), Just(7), Just(13)],
        ) {
            let mut calendar = Calendar::new(shift);
            let mut oracle: Vec<Flight> = Vec::new();
            let mut now = 0u64;
            let mut seq = 0;
            for (delay, count, step) in steps {
                for _ in 0..count {
                    let flight = flight(now.saturating_add(delay), seq % 5, seq);
                    calendar.push(flight);
                    oracle.push(flight);
                    seq += 1;
                }
                prop_assert_eq!(calendar.peek(), oracle.iter().map(|flight| flight.at).min());
                now += step;
                let end = Instant::from_ps(now);
                let mut batch = take_before(&mut calendar, end);
                let mut expected: Vec<_> = oracle.extract_if(.., |f| f.at < end).collect();
                // Only the order of one origin is promised.
                expected.sort_by_key(|flight| (flight.at, flight.origin));
                batch.sort_by_key(|flight| (flight.at, flight.origin));
                prop_assert_eq!(&batch, &expected);
                prop_assert_eq!(calendar.peek(), oracle.iter().map(|flight| flight.at).min());
            }
            // The last instant of all is before no end: it stays.
            let last = Instant::FAR_FUTURE;
            take_before(&mut calendar, last);
            if oracle.iter().all(|flight| flight.at < last) {
                prop_assert!(calendar.peek().is_none() && is_all_free(&calendar.pool));
            }
        }
    }

    #[test]
    fn flights_come_slot_by_slot_and_within_one_as_they_were_filed() {
        let mut calendar = Calendar::new(10);
        for (seq, at) in (0..).zip([5_000, 1_500, 1_100, 1 << 30, 9_999_999_999, 1_100]) {
            calendar.push(flight(at, 3, seq));
        }
        let batch = take_before(&mut calendar, Instant::FAR_FUTURE);
        let order: Vec<u32> = batch.iter().map(|flight| flight.packet.handle).collect();
        assert_eq!(order, [1, 2, 5, 0, 3, 4]);
    }

    #[test]
    fn memory_follows_the_flights_under_way() {
        let mut calendar = Calendar::new(13);
        for now in 0..100_000u64 {
            calendar.push(flight(now * 41_600 + 10_000_000_000, 0, 0));
            calendar.push(flight(now * 41_600 + 641_600, 1, 0));
            take_before(&mut calendar, Instant::from_ps(now * 41_600));
        }
        let under_way = 100_000 / CHUNK as usize;
        assert!(calendar.pool.chunks.len() < 2 * under_way, "{}", calendar.pool.chunks.len());
    }
}
