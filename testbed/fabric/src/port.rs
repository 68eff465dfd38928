//! A port: one link's transmitter with the queue before it.
//!
//! Source: the departure rule of the style guide. A departure starts when the link is free and the
//! discipline lets a packet go, whatever the time of the call. So a late poll costs no rate. A
//! caller that enqueues at `t` first runs every departure due by `t`, so late polls and exact
//! events agree bit for bit. For each port one instant says when the next departure starts. It is a
//! function of state: the latest of the instants at which the link is free, the state last changed,
//! and the discipline is ready. Store and forward: a packet is at the far end when its last bit is.
//! Faults and routing are the network's business.

use std::mem::Discriminant;

use transport::{Bytes, Duration, Instant, Rate, Rng};

use super::packet::Packet;
use super::qdisc::{Dequeued, LinkState, Qdisc, Queued, Service, Verdict};
use super::train::Train;

/// One link transmitter. The fields for a packet that need not wait are in the first cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Port<Q> {
    /// When the link is free again.
    busy_until: Instant,
    /// When the next departure starts; [`Instant::FAR_FUTURE`] when nothing that waits may leave.
    starts_at: Instant,
    /// Picoseconds a byte takes where that is a whole number, else 0.
    ps_per_byte: u64,
    /// Time from the last bit sent to the packet being at the far end's queue: propagation plus the
    /// far switch's traversal.
    delay: Duration,
    /// Packets in `qdisc`.
    waiting: u32,
    /// Data has to wait.
    paused: bool,
    /// Anything that waits may leave when the link is free, unless data is paused.
    work_conserving: bool,
    /// The longest packet that passes an idle port for certain, unless data is paused.
    passes_up_to: u16,
    /// Bytes of data in `qdisc`.
    data_bytes: u64,
    /// Packets transmitted.
    sent: u64,
    /// Bytes transmitted.
    sent_bytes: u64,
    rate: Rate,
    /// The longest packet that is no train: a cell, where there are cells.
    cell: u16,
    /// A train is at the far end of the link with its last cell, not its first.
    ends: bool,
    /// Cells transmitted in trains, without the first of each.
    joined: u64,
    qdisc: Q,
}

/// A packet that has left its queue, and the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The packet; CE is set in it when `marked`.
    pub packet: Packet,
    /// Whether its queue set CE as it left.
    pub marked: bool,
    /// Data bytes that still wait behind it.
    pub data_left: u64,
    /// When its transmission starts.
    pub start: Instant,
}

impl<Q: Qdisc> Port<Q> {
    /// An idle port with an empty queue. A rate of zero counts as one bit a second.
    #[must_use]
    pub fn new(rate: Rate, delay: Duration, qdisc: Q) -> Self {
        debug_assert_eq!(qdisc.queued().packets(), 0, "an idle port");
        let Service { work_conserving, passes, cell } = qdisc.service();
        debug_assert!(cell.is_none() || passes == Bytes::ZERO, "a train is no packet");
        let narrow = |bytes: Bytes| u16::try_from(bytes.0).unwrap_or(u16::MAX);
        let mut port = Self {
            busy_until: Instant::ZERO,
            starts_at: Instant::FAR_FUTURE,
            ps_per_byte: 0,
            delay,
            waiting: 0,
            paused: false,
            work_conserving,
            passes_up_to: narrow(passes),
            data_bytes: 0,
            sent: 0,
            sent_bytes: 0,
            rate,
            cell: cell.map_or(u16::MAX, narrow),
            ends: false,
            joined: 0,
            qdisc,
        };
        port.set_rate(rate, Instant::ZERO);
        port
    }

    /// The port of a link to a host, which gets a train with its last cell.
    #[must_use]
    pub fn to_end(mut self) -> Self {
        self.ends = true;
        self
    }

    /// Changes the rate at `now`; a packet being sent is not disturbed. Every departure due before
    /// `now` must have been run. A rate of zero counts as one bit a second.
    pub fn set_rate(&mut self, rate: Rate, now: Instant) {
        debug_assert!(self.starts_at >= now, "run what is due first");
        let bps = rate.as_bps().max(1);
        self.rate = Rate::from_bps(bps);
        self.ps_per_byte = if BYTE_PS.is_multiple_of(bps) { BYTE_PS / bps } else { 0 };
        self.link_changes(now);
    }

    /// The rate now.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// When the link is free.
    #[inline]
    #[must_use]
    pub const fn busy_until(&self) -> Instant {
        self.busy_until
    }

    /// Time from the last bit sent to the packet being at the far end's queue.
    #[inline]
    #[must_use]
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// Packets that wait.
    #[inline]
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting as usize
    }

    /// Whether data has to wait.
    #[inline]
    #[must_use]
    pub const fn is_paused(&self) -> bool {
        self.paused
    }

    /// Packets and bytes transmitted so far; each cell of a train is a packet.
    #[must_use]
    pub const fn sent(&self) -> (u64, u64) {
        (self.sent + self.joined, self.sent_bytes)
    }

    /// Cells transmitted in trains, without the first of each.
    pub(crate) const fn joined(&self) -> u64 {
        self.joined
    }

    /// Bytes of data that wait.
    #[inline]
    #[must_use]
    pub const fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// The discipline.
    pub(crate) const fn qdisc(&self) -> &Q {
        &self.qdisc
    }

    /// Reads the first bytes of the discipline, for a caller that needs its memory in a cache.
    #[inline]
    pub(crate) fn touch(&self) -> Discriminant<Q> {
        std::mem::discriminant(&self.qdisc)
    }

    /// The packets that wait.
    #[inline]
    #[must_use]
    pub fn queued(&self) -> Queued {
        self.qdisc.queued()
    }

    /// Notes when the next departure starts, after a change of state at `change`. A waiting packet
    /// may not leave before the change that allows it.
    #[inline(always)]
    fn settle(&mut self, change: Instant) {
        let free = self.busy_until.max(change);
        self.starts_at = if self.waiting == 0 {
            Instant::FAR_FUTURE
        } else if self.work_conserving && !self.paused {
            debug_assert_eq!(self.qdisc.ready_at(), Instant::ZERO, "work-conserving");
            free
        } else {
            free.max(self.qdisc.ready_at())
        };
    }

    /// Gives a packet to the queue; `lost` is as in [`Qdisc::enqueue`]. Every departure due before
    /// `now` must have been run, and those due at `now`, too, unless only packets enqueued at `now`
    /// have made them possible.
    #[inline]
    pub fn enqueue(&mut self, packet: Packet, now: Instant, lost: &mut Option<Packet>) -> Verdict {
        debug_assert!(self.waiting == 0 || self.starts_at >= now, "run what is due first");
        let verdict = self.qdisc.enqueue(packet, now, lost);
        if !matches!(verdict, Verdict::Dropped(_) | Verdict::Slips) {
            self.waiting += 1;
            if verdict == Verdict::Evicted
                && let Some(lost) = lost
            {
                self.waiting -= 1;
                self.data_bytes -= lost.wire_bytes();
            }
            if packet.is_data() && verdict != Verdict::Trimmed {
                self.data_bytes += packet.wire_bytes();
            }
            if verdict == Verdict::Cut {
                self.busy_until = now;
            }
            self.settle(now);
        }
        debug_assert_eq!(self.data_bytes, self.qdisc.queued().data_bytes, "data that waits");
        verdict
    }

    /// Sends a packet that [`Verdict::Slips`] into the transmission of another; when it is at the
    /// far end.
    pub(crate) fn slip(&mut self, packet: &Packet, now: Instant) -> Instant {
        self.count(packet);
        now + self.time_for(packet.len) + self.delay
    }

    /// Pauses the data class at `now`, or lets it go on. Every departure due by `now` must have
    /// been run; a packet being sent is not disturbed.
    pub fn pause(&mut self, paused: bool, now: Instant) {
        debug_assert!(self.starts_at > now, "run what is due first");
        self.paused = paused;
        self.link_changes(now);
    }

    fn link_changes(&mut self, now: Instant) {
        self.qdisc.set_link(LinkState { rate: self.rate, paused: self.paused }, now);
        self.settle(now);
    }

    /// Sends `len` bytes of the link's own, before all packets that wait and after the one being
    /// sent; returns when they are at the far end.
    pub fn interject(&mut self, len: u16, now: Instant) -> Instant {
        self.busy_until = self.busy_until.max(now) + self.time_for(len);
        self.settle(now);
        self.busy_until + self.delay
    }

    /// Enqueues `packet` and runs its departure at once, unmarked, if nothing waits and the link is
    /// free: the outcome of `enqueue` and `depart`, cheaper. Returns when it is at the far end;
    /// `None` when it has to go through the queue.
    #[inline(always)]
    pub fn pass(&mut self, packet: &Packet, now: Instant) -> Option<Instant> {
        let is_idle = self.waiting == 0 && self.busy_until <= now;
        if !is_idle {
            return None;
        }
        if packet.len <= self.passes_up_to && !self.paused {
            debug_assert!(self.qdisc.passes(packet, now), "a promise of the discipline");
            return Some(self.transmit_whole(packet, now));
        }
        if self.qdisc.passes(packet, now) { Some(self.transmit(packet, now)) } else { None }
    }

    /// When the next departure starts; [`Instant::FAR_FUTURE`] when nothing that waits may leave.
    #[inline]
    #[must_use]
    pub const fn next_departure(&self) -> Instant {
        self.starts_at
    }

    /// Runs the next departure if it starts by `now`; returns the packet, and when it is at the far
    /// end. The departure started at [`Port::next_departure`]; call until `None`.
    #[inline(always)]
    pub fn depart(&mut self, now: Instant, rng: &mut Rng) -> Option<(Departure, Instant)> {
        // Most calls end here.
        if self.starts_at > now { None } else { self.depart_due(rng) }
    }

    /// Runs the next departure, if there is one.
    fn depart_due(&mut self, rng: &mut Rng) -> Option<(Departure, Instant)> {
        if self.starts_at == Instant::FAR_FUTURE {
            return None;
        }
        let start = self.starts_at;
        let dequeued = self.qdisc.dequeue(start, rng);
        debug_assert!(dequeued.is_some(), "a discipline that is ready gives a packet");
        let Dequeued { packet, marked } = dequeued?;
        self.waiting -= 1;
        if packet.is_data() {
            self.data_bytes -= packet.wire_bytes();
        }
        debug_assert_eq!(self.data_bytes, self.qdisc.queued().data_bytes, "data that waits");
        let arrival = self.transmit(&packet, start);
        self.settle(start);
        Some((Departure { packet, marked, data_left: self.data_bytes, start }, arrival))
    }

    /// Occupies the link with a packet from `start` on; when it is at the far end.
    #[inline]
    fn transmit(&mut self, packet: &Packet, start: Instant) -> Instant {
        let arrival = self.transmit_whole(packet, start);
        match self.train(packet) {
            Some(train) => self.transmit_train(&train, start),
            None => arrival,
        }
    }

    /// Occupies the link with a packet as with one that is no train.
    #[inline(always)]
    fn transmit_whole(&mut self, packet: &Packet, start: Instant) -> Instant {
        self.count(packet);
        self.busy_until = start + self.time_for(packet.len);
        self.busy_until + self.delay
    }

    #[inline(always)]
    fn count(&mut self, packet: &Packet) {
        self.sent += 1;
        self.sent_bytes += packet.wire_bytes();
    }

    /// Occupies the link with the cells of a train; when the first of them is at the far end, or
    /// the last one where that is an end.
    // Out of line, for the sake of ports that have no trains.
    #[inline(never)]
    fn transmit_train(&mut self, train: &Train, start: Instant) -> Instant {
        self.joined += train.cells - 1;
        self.busy_until = start + train.span();
        if self.ends { self.busy_until + self.delay } else { start + train.cell + self.delay }
    }

    /// The packet as a train on this link; `None` where it is none.
    #[inline]
    pub(crate) fn train(&self, packet: &Packet) -> Option<Train> {
        // Ports without trains have no longer packets, and the rest is out of line.
        if packet.len <= self.cell { None } else { self.train_of(packet) }
    }

    #[inline(never)]
    fn train_of(&self, packet: &Packet) -> Option<Train> {
        Train::of(packet, self.cell, |len| self.time_for(len))
    }

    /// The result of `Rate::time_for`, without its 128-bit division: a packet's bits in picoseconds
    /// fit 64 bits.
    #[inline]
    fn time_for(&self, len: u16) -> Duration {
        let bytes = u64::from(len);
        Duration::from_ps(if self.ps_per_byte != 0 {
            bytes * self.ps_per_byte
        } else {
            (bytes * BYTE_PS).div_ceil(self.rate.as_bps())
        })
    }
}

/// Picoseconds a byte takes at one bit a second.
const BYTE_PS: u64 = 8_000_000_000_000;
const _: () = assert!(u16::MAX as u64 <= u64::MAX / BYTE_PS, "time_for stays in 64 bits");

/// How long `len` bytes take at `rate`, for bounds and tests.
#[must_use]
pub fn serialisation(len: u64, rate: Rate) -> Duration {
    rate.time_for(Bytes(len))
}

#[cfg(test)]
mod tests;
