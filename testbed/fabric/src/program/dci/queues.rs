//! Paced queues of flows: one queue a flow, emptied at a rate of its own and, with a clock, by the
//! credits of its receiver.
//!
//! ```text
//!   push --> queue of the flow --ready at next_at, with allowance left--> order of its port
//!                 ^ rate, credit: a new allowance                             take_turn v
//! ```
//!
//! A port serves its queues in the order in which they became ready. Which packet leaves next, and
//! when it may, is a function of state, never of when [`Queues::ready_at`] is asked. A queue that
//! is late, because the link was taken, catches up by one packet. A queue whose credits have
//! stopped for good is emptied at its rate. The pool is bounded: a flow that finds it exhausted has
//! no queue. A queue that has been empty for some time is free again.
//!
//! Nothing is allocated once the pool and its queues have reached their largest size. Each packet
//! costs O(log n) of the queues of its port that wait, and O(1) where these become ready in turn.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use transport::units::Key;
use transport::{ByKey, Bytes, Duration, HostId, Instant, KeyHash, Rate};

use super::ready::{Ready, ReadyOrder};
use super::recent::{NEVER, Recent};
use crate::packet::Packet;

/// What bounds the queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Queues at most.
    pub(super) queues: usize,
    /// Bytes in all queues at most.
    pub(super) bytes: u64,
    /// How long an empty queue stays its flow's.
    pub(super) idle: Duration,
    /// Flows to a host are counted over such spans.
    pub(super) span: Duration,
    /// RTT_D: the least time between two credits.
    pub(super) rtt: Duration,
    /// Bytes that may leave under one credit, as a multiple of the bytes that the rate sends in
    /// RTT_D; 0: any number.
    pub(super) clock: f32,
    /// Bytes that leave under one credit however low the rate is.
    pub(super) allowance_least: u64,
    /// Bytes of the longest packet.
    pub(super) packet_max: u64,
}

/// After so many RTT_D without a credit a queue still gets a small allowance.
const PATIENCE: u64 = 10;

/// After so many silences in a row the control loop counts as gone: only the rate bounds the queue
/// then, until a credit comes. (Acknowledgements of a flow that has moved to another border switch
/// pass that one.)
const SILENCES_MAX: u8 = 2;

/// Why a packet has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PushError {
    /// No queue is free.
    Exhausted,
    /// The buffer is full.
    Full,
}

/// What the turn of a queue came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueTurn {
    /// The first packet leaves.
    Leaves(Popped),
    /// The queue moves to another port, since its first packet takes that one now.
    Moves(usize),
}

/// A packet that leaves its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Popped {
    pub(super) packet: Packet,
    /// C_D: the last credit; 0 before the first.
    pub(super) credit: u16,
    /// Bytes left in the queue.
    pub(super) left: u64,
    /// Bytes that have left the queue.
    pub(super) sent: u64,
}

/// The queue of one flow.
#[derive(Clone, Debug)]
struct Queue {
    packets: VecDeque<Packet>,
    bytes: u64,
    sent: u64,
    key: Key,
    host: HostId,
    /// The span of time in which it was counted last among the flows to `host`.
    counted: u64,
    port: usize,
    rate: Rate,
    credit: Option<u16>,
    /// When the last credit came, or the queue began.
    credit_at: Instant,
    /// Bytes that may leave under this credit.
    allowance: u64,
    /// Silences in a row after which there was no credit.
    silences: u8,
    /// When the pace lets the next packet go.
    next_at: Instant,
    /// The number of its entry in the order of its port; 0 without one. Others are old.
    entry: u64,
    emptied_at: Instant,
    /// Whether the queue is in the list of queues that were empty.
    listed: bool,
}

/// The queues of one port that wait.
#[derive(Clone, Debug, Default)]
struct Waiting {
    /// The first entry is not old.
    order: ReadyOrder,
    /// Entries that are old.
    old: usize,
}

/// So many old entries of a port stay in any case.
const OLD_MIN: usize = 64;

/// The queues of one switch.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    limits: Limits,
    queues: Vec<Queue>,
    /// The queue of each flow, by its key. A switch is no end of flows, so packets carry no index
    /// of the switch's tables. Never iterated.
    of: ByKey<u32>,
    /// Flows to each host that have sent lately.
    recent: Recent,
    free: Vec<u32>,
    /// Queues that were empty, the one that was first on top; each once.
    empty: BinaryHeap<Reverse<(Instant, u32)>>,
    /// For each port: when its queues are ready.
    waiting: Vec<Waiting>,
    entries: u64,
    bytes: u64,
}

impl Queues {
    /// Queues for `ports` ports, all empty; `hash` finds those of flows.
    pub(super) fn new(limits: Limits, ports: usize, hash: KeyHash) -> Self {
        Self {
            limits,
            queues: Vec::new(),
            of: ByKey::with_hasher(hash),
            recent: Recent::new(limits.span),
            free: Vec::new(),
            empty: BinaryHeap::new(),
            waiting: vec![Waiting::default(); ports],
            entries: 0,
            bytes: 0,
        }
    }

    /// Queues that belong to a flow.
    pub(super) fn open(&self) -> usize {
        self.of.len()
    }

    /// Forgets all flows; returns the packets that waited, with their ports.
    pub(super) fn clear(&mut self) -> Vec<(usize, Packet)> {
        let ports = self.waiting.len();
        let fresh = Self::new(self.limits, ports, *self.of.hasher());
        let old = std::mem::replace(self, fresh);
        let of_one = |queue: Queue| queue.packets.into_iter().map(move |one| (queue.port, one));
        old.queues.into_iter().flat_map(of_one).collect()
    }

    /// The flows that have a queue: their keys, the bytes in it, and its rate.
    pub(super) fn of_flows(&self) -> impl Iterator<Item = (Key, Bytes, Rate)> + '_ {
        let is_open = |(index, queue): &(u32, &Queue)| self.of.get(&queue.key.0) == Some(index);
        let open = (0..).zip(&self.queues).filter(is_open);
        open.map(|(_, queue)| (queue.key, Bytes(queue.bytes), queue.rate))
    }

    /// Flows with a queue that have sent to `host` lately, at `now`. A queue stays open for long
    /// after its flow has ended, so open queues show little of which flows share the link.
    pub(super) fn flows_to(&self, host: HostId, now: Instant) -> u16 {
        self.recent.flows_to(host, now)
    }

    /// Queues `packet` of the flow of `key` for `port`; a new queue has the rate that `initial`
    /// gives for the number of flows with a queue that have sent to its host lately. Returns
    /// whether the next packet of the port may leave earlier than before.
    ///
    /// # Errors
    /// Why there is no place.
    pub(super) fn push(
        &mut self,
        key: Key,
        (packet, port): (Packet, usize),
        initial: impl FnOnce(u16) -> Rate,
        now: Instant,
    ) -> Result<bool, PushError> {
        if self.bytes + packet.wire_bytes() > self.limits.bytes {
            return Err(PushError::Full);
        }
        let index = match self.of.get(&key.0) {
            Some(index) => *index,
            None => {
                let rate = initial(self.flows_to(packet.dst, now));
                self.open_queue(key, packet.dst, rate, now).ok_or(PushError::Exhausted)?
            }
        };
        self.bytes += packet.wire_bytes();
        let queue = &mut self.queues[index as usize];
        self.recent.count(queue.host, &mut queue.counted, now);
        queue.bytes += packet.wire_bytes();
        queue.packets.push_back(packet);
        if queue.packets.len() > 1 {
            return Ok(false);
        }
        queue.port = port;
        queue.next_at = queue.next_at.max(now);
        let before = self.ready_at(port);
        Ok(self.file(index, now) < before)
    }

    /// The receiver of the flow of `key` has sent `credit` with a rate for its queue. Returns the
    /// port of the queue; `None` when there is no queue, or the credit is older than the one that
    /// it has. A wait that remains from a lower rate is cut to the time of a packet at the new
    /// rate.
    pub(super) fn advise(
        &mut self,
        key: Key,
        credit: u16,
        rate: Rate,
        now: Instant,
    ) -> Option<usize> {
        let index = self.of.get(&key.0).copied()?;
        let fresh = self.allowance(rate);
        let queue = &mut self.queues[index as usize];
        //= mlcc#alg1
        let ahead = queue.credit.map_or(1, |known| credit.wrapping_sub(known));
        if ahead >= 1 << 15 {
            return None;
        }
        queue.rate = rate;
        queue.credit = Some(credit);
        let port = queue.port;
        let soonest = now + rate.time_for(Bytes(self.limits.packet_max));
        let mut is_changed = queue.next_at > soonest;
        queue.next_at = queue.next_at.min(soonest);
        if ahead > 0 {
            is_changed |= queue.allowance == 0;
            (queue.allowance, queue.credit_at, queue.silences) = (fresh, now, 0);
        }
        if is_changed && !queue.packets.is_empty() {
            queue.next_at = queue.next_at.max(now);
            self.unfile(index);
            self.file(index, now);
        }
        Some(port)
    }

    /// When the next packet for `port` may leave.
    #[inline]
    pub(super) fn ready_at(&self, port: usize) -> Instant {
        self.waiting[port].order.first().map_or(Instant::FAR_FUTURE, |first| first.at)
    }

    /// Runs the turn of the queue of `port` that is ready by `now`, if there is one. `route` finds
    /// the port that a packet takes now. The transmission of a packet that leaves starts at `now`.
    pub(super) fn take_turn(
        &mut self,
        port: usize,
        now: Instant,
        route: impl FnOnce(&Packet) -> usize,
    ) -> Option<QueueTurn> {
        let first = self.waiting[port].order.first();
        let index = first.filter(|first| first.at <= now)?.queue;
        let to = route(self.queues[index as usize].packets.front()?);
        if to != port {
            self.unfile(index);
            self.queues[index as usize].port = to;
            self.file(index, now);
            return Some(QueueTurn::Moves(to));
        }
        let waiting = &mut self.waiting[port];
        waiting.order.pop();
        waiting.drop_old(&self.queues);
        self.pop(index, now).map(QueueTurn::Leaves)
    }

    /// Takes a packet that leaves at `now` out of a queue that has no entry any more.
    #[inline]
    fn pop(&mut self, index: u32, now: Instant) -> Option<Popped> {
        let least = self.limits.allowance_least;
        let queue = &mut self.queues[index as usize];
        if queue.allowance == 0 {
            // No credit for too long: acknowledgements were lost, or the receiver is gone.
            queue.silences = (queue.silences + 1).min(SILENCES_MAX);
            let is_gone = queue.silences == SILENCES_MAX;
            queue.allowance = if is_gone { u64::MAX } else { least };
            queue.credit_at = now;
            queue.next_at = queue.next_at.max(now);
        }
        let packet = queue.packets.pop_front()?;
        let len = packet.wire_bytes();
        let sent = queue.sent;
        queue.bytes -= len;
        queue.sent += len;
        queue.allowance = queue.allowance.saturating_sub(len);
        queue.next_at = (queue.next_at + queue.rate.time_for(Bytes(len))).max(now);
        let popped = Popped { packet, credit: queue.credit.unwrap_or(0), left: queue.bytes, sent };
        self.bytes -= len;
        queue.entry = 0;
        if queue.packets.is_empty() {
            queue.emptied_at = now;
            if !queue.listed {
                queue.listed = true;
                self.empty.push(Reverse((now, index)));
            }
        } else {
            self.file(index, now);
        }
        Some(popped)
    }

    /// A new queue; `None` when none is free.
    fn open_queue(&mut self, key: Key, host: HostId, rate: Rate, now: Instant) -> Option<u32> {
        self.free_idle(now);
        let queue = Queue {
            packets: VecDeque::new(),
            bytes: 0,
            sent: 0,
            key,
            host,
            counted: NEVER,
            port: 0,
            rate,
            credit: None,
            credit_at: now,
            allowance: self.allowance(rate),
            silences: 0,
            next_at: now,
            entry: 0,
            emptied_at: now,
            listed: false,
        };
        let index = match self.free.pop() {
            Some(index) => {
                let place = &mut self.queues[index as usize];
                let packets = std::mem::take(&mut place.packets);
                *place = Queue { packets, ..queue };
                index
            }
            None if self.queues.len() < self.limits.queues => {
                self.queues.push(queue);
                u32::try_from(self.queues.len() - 1).ok()?
            }
            None => return None,
        };
        self.of.insert(key.0, index);
        Some(index)
    }

    /// Frees queues that have been empty for long.
    fn free_idle(&mut self, now: Instant) {
        while let Some(Reverse((since, index))) = self.empty.peek().copied()
            && since + self.limits.idle <= now
        {
            self.empty.pop();
            let queue = &mut self.queues[index as usize];
            if !queue.packets.is_empty() {
                queue.listed = false;
            } else if queue.emptied_at > since {
                self.empty.push(Reverse((queue.emptied_at, index)));
            } else {
                queue.listed = false;
                self.of.remove(&queue.key.0);
                self.free.push(index);
            }
        }
    }

    /// Bytes that may leave under a credit at `rate`; [`u64::MAX`] without a clock.
    fn allowance(&self, rate: Rate) -> u64 {
        if self.limits.clock <= 0.0 {
            return u64::MAX;
        }
        //= mlcc#3.2.2
        // DEVIATION(mlcc#3.2.2): the paper's queue sends at its rate until the next credit, however
        // long a round becomes while queues inside the site grow.
        let round = rate.bytes_in(self.limits.rtt).scaled(f64::from(self.limits.clock));
        round.0.max(self.limits.allowance_least)
    }

    /// Enters a queue that waits, and has no entry, in the order of its port. Returns when it is
    /// ready.
    #[inline]
    fn file(&mut self, index: u32, now: Instant) -> Instant {
        self.entries += 1;
        let queue = &mut self.queues[index as usize];
        debug_assert_eq!(queue.entry, 0, "one entry a queue");
        queue.entry = self.entries;
        let at = if queue.allowance > 0 {
            queue.next_at
        } else {
            queue.next_at.max(queue.credit_at + self.limits.rtt * PATIENCE).max(now)
        };
        self.waiting[queue.port].order.push(Ready { at, entry: queue.entry, queue: index });
        at
    }

    /// Makes the entry of a queue an old one, if it has any.
    fn unfile(&mut self, index: u32) {
        let queue = &mut self.queues[index as usize];
        if std::mem::take(&mut queue.entry) > 0 {
            let port = queue.port;
            self.waiting[port].old += 1;
            self.waiting[port].drop_old(&self.queues);
        }
    }
}

impl Waiting {
    /// Drops the first entries as long as they are old, and all old ones once they are the greater
    /// part: advice can make an entry old whose turn is a minute away.
    #[inline(always)]
    fn drop_old(&mut self, queues: &[Queue]) {
        if self.old > 0 {
            self.drop_some(queues);
        }
    }

    /// [`Waiting::drop_old`] where some are old.
    #[inline(never)]
    fn drop_some(&mut self, queues: &[Queue]) {
        while self.old > 0
            && let Some(first) = self.order.first()
            && queues[first.queue as usize].entry != first.entry
        {
            self.order.pop();
            self.old -= 1;
        }
        if self.old > OLD_MIN && 2 * self.old > self.order.len() {
            self.order.retain(|ready| queues[ready.queue as usize].entry == ready.entry);
            self.old = 0;
        }
    }
}

#[cfg(test)]
mod tests;
