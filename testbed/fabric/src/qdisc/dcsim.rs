//! DCsim's port: four FIFOs in strict order of priority, the first at a limited rate.
//!
//! Source: \[dcsim\] sec. 2.3 and fig. 1. SIMs (class Probe) leave first, each with a token of a
//! bucket; the bucket's rate keeps the line free for the DATA that follows them. Then come SIM-ACKs
//! (ProbeAck), DATA-ACKs with all other control, and DATA. A FIFO of a small class holds a few
//! packets, the FIFO of DATA the rest of the buffer; a full FIFO drops the packet that comes.
//! Unscheduled data, which the paper does not have, leaves last. It enters only while it and DATA
//! together take less than its share of DATA's room. DATA that finds no room pushes out the
//! unscheduled packet that came last and is long enough. A packet that is being sent does not
//! count. Nothing is marked or trimmed. Units: bytes on the wire, packets, picoseconds.

use std::collections::VecDeque;

use transport::params::params;
use transport::registry::Registered;
use transport::token_bucket::{ProbeShare, TokenBucket};
use transport::wire::class::TrafficClass;
use transport::{Bytes, DropReason, Instant, Rate, Rng};

use super::{
    Dequeued, Discipline, LinkState, PacketSizes, Qdisc, QdiscParams, QdiscSettings, Queued,
    Verdict,
};
use crate::packet::Packet;

params! {
    /// Settings of [`DcSim`]; hosts that run the scheduler of this name obey them too.
    pub struct DcSimParams {
        /// Packets of each small class that a port holds: B.
        //= dcsim#4.1
        queue: u16 = 12, in 1..=1024;
        /// Tokens for SIMs that a port holds, from 1 to B: 2 keeps bursts short.
        //= dcsim#3.2
        bucket: u16 = 2, in 1..=1024;
        /// Packets as long as a SIM that a port leaves room for beside each DATA: a SIM, a SIM-ACK,
        /// a tenth of a DATA-ACK.
        //= dcsim#eq2
        overhead: f32 = 2.1, in 1.0..=64.0;
        /// Share of the room for DATA up to which unscheduled data enters, behind all else.
        unscheduled: f32 = 0.6, in 0.0..=1.0;
    }
}

/// SIMs with tokens, SIM-ACKs, other control, DATA, unscheduled data.
#[derive(Clone, Debug)]
pub struct DcSim {
    bucket: TokenBucket,
    share: ProbeShare,
    data: VecDeque<Packet>,
    data_bytes: u64,
    data_limit: u64,
    /// FIFOs of small classes by [`Small`], of at most `limit` packets, and of unscheduled data.
    beside: Box<[VecDeque<Packet>; 4]>,
    /// Packets in each FIFO of a small class.
    waiting: [u16; LAST],
    limit: u16,
    /// The link's data class is paused.
    paused: bool,
    /// Bytes in the FIFOs of the small classes.
    small_bytes: u32,
    /// Bytes of unscheduled data.
    last_bytes: u32,
    /// Bytes of DATA and unscheduled data together up to which unscheduled data enters.
    last_limit: u32,
}

// Every port has room for the largest discipline.
const _: () = assert!(size_of::<DcSim>() <= 128);

/// The small classes, highest priority first.
#[derive(Clone, Copy)]
enum Small {
    Sim = 0,
    SimAck = 1,
    Control = 2,
}

/// The place of unscheduled data in `beside`.
const LAST: usize = 3;

/// The FIFO of a small class; `None` for data.
const fn small(class: TrafficClass) -> Option<Small> {
    match class {
        TrafficClass::Probe => Some(Small::Sim),
        TrafficClass::ProbeAck => Some(Small::SimAck),
        TrafficClass::Control | TrafficClass::Trimmed => Some(Small::Control),
        TrafficClass::Data | TrafficClass::Unscheduled => None,
    }
}

/// Lengths of queues are kept in 32 bits.
fn narrow(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl DcSim {
    /// An empty queue of a port whose link has `rate`.
    #[must_use]
    pub fn new(params: &DcSimParams, port: &QdiscParams, rate: Rate) -> Self {
        let PacketSizes { probed, probe } = port.sizes;
        let share = ProbeShare { data: probed, probe, overhead: params.overhead };
        //= dcsim#2.3: DATA has the remainder of the buffer.
        let small = 3 * u64::from(params.queue) * probe.0;
        let data_limit = port.data_limit.0.saturating_sub(small);
        Self {
            bucket: TokenBucket::new(share.interval(rate), params.bucket.into()),
            share,
            data: VecDeque::new(),
            data_bytes: 0,
            data_limit,
            beside: Box::default(),
            waiting: [0; LAST],
            limit: params.queue,
            paused: false,
            small_bytes: 0,
            last_bytes: 0,
            last_limit: narrow(Bytes(data_limit).scaled(params.unscheduled.into()).0),
        }
    }

    /// Whether a packet waits that needs no token.
    #[inline]
    fn has_free(&self) -> bool {
        let data = (self.data_bytes > 0 || self.last_bytes > 0) && !self.paused;
        data || self.waiting[1] > 0 || self.waiting[2] > 0
    }

    fn pop_small(&mut self, class: Small) -> Option<Packet> {
        let packet = self.beside[class as usize].pop_front()?;
        self.waiting[class as usize] -= 1;
        self.small_bytes -= u32::from(packet.len);
        Some(packet)
    }

    fn pop_data(&mut self) -> Option<Packet> {
        if self.paused {
            return None;
        }
        if self.data_bytes == 0 {
            return self.pop_last();
        }
        let packet = self.data.pop_front()?;
        self.data_bytes -= packet.wire_bytes();
        Some(packet)
    }

    #[cold]
    fn pop_last(&mut self) -> Option<Packet> {
        let packet = self.beside[LAST].pop_front()?;
        self.last_bytes -= u32::from(packet.len);
        Some(packet)
    }

    /// Takes out the packet of unscheduled data that came last of those whose place is enough for
    /// DATA to take `data_bytes`; `None` without one. O(unscheduled packets that are too short).
    #[cold]
    fn make_room(&mut self, data_bytes: u64) -> Option<Packet> {
        let over = (data_bytes + u64::from(self.last_bytes)).saturating_sub(self.data_limit);
        let last = &mut self.beside[LAST];
        let at = last.iter().rposition(|packet| packet.wire_bytes() >= over)?;
        let packet = last.remove(at)?;
        self.last_bytes -= u32::from(packet.len);
        Some(packet)
    }

    /// Adds unscheduled data; false where there is no room for it.
    #[cold]
    fn push_last(&mut self, packet: Packet) -> bool {
        let last_bytes = u64::from(self.last_bytes) + packet.wire_bytes();
        if self.data_bytes + last_bytes > u64::from(self.last_limit) {
            return false;
        }
        self.last_bytes = narrow(last_bytes);
        self.beside[LAST].push_back(packet);
        true
    }
}

impl Registered for DcSim {
    const ABOUT: &'static str =
        "probes with tokens, their answers, control, data: what DCsim's switches do";
    type Params = DcSimParams;
}

impl Discipline for DcSim {
    fn marks() -> bool {
        false
    }
    fn build(settings: &QdiscSettings, port: &QdiscParams, rate: Rate) -> Self {
        Self::new(&settings.dcsim, port, rate)
    }
}

impl Qdisc for DcSim {
    #[inline]
    fn enqueue(&mut self, packet: Packet, _now: Instant, lost: &mut Option<Packet>) -> Verdict {
        let full = Verdict::Dropped(DropReason::queue_full(packet.class()));
        match small(packet.class()) {
            Some(class) => {
                let class = class as usize;
                if self.waiting[class] >= self.limit {
                    return full;
                }
                self.waiting[class] += 1;
                self.small_bytes += u32::from(packet.len);
                self.beside[class].push_back(packet);
            }
            None if packet.class() == TrafficClass::Unscheduled => {
                if !self.push_last(packet) {
                    return full;
                }
            }
            None => {
                let bytes = self.data_bytes + packet.wire_bytes();
                if bytes + u64::from(self.last_bytes) > self.data_limit {
                    *lost = self.make_room(bytes);
                    if lost.is_none() {
                        return full;
                    }
                }
                self.data_bytes = bytes;
                self.data.push_back(packet);
            }
        }
        if lost.is_some() { Verdict::Evicted } else { Verdict::Queued }
    }

    #[inline]
    fn dequeue(&mut self, now: Instant, _rng: &mut Rng) -> Option<Dequeued> {
        let sim = self.waiting[0] > 0 && self.bucket.ready_at() <= now;
        let packet = if sim {
            self.bucket.take(now);
            self.pop_small(Small::Sim)
        } else if self.waiting[1] > 0 {
            self.pop_small(Small::SimAck)
        } else if self.waiting[2] > 0 {
            self.pop_small(Small::Control)
        } else {
            self.pop_data()
        };
        let packet = packet?;
        Some(Dequeued { packet, marked: false })
    }

    #[inline]
    fn ready_at(&self) -> Instant {
        if self.has_free() {
            Instant::ZERO
        } else if self.waiting[0] > 0 {
            self.bucket.ready_at()
        } else {
            Instant::FAR_FUTURE
        }
    }

    /// A degraded link lets SIMs through at its present rate.
    fn set_link(&mut self, LinkState { rate, paused }: LinkState, now: Instant) {
        self.bucket.set_interval(self.share.interval(rate), now);
        self.paused = paused;
    }

    #[inline]
    fn queued(&self) -> Queued {
        Queued {
            data_bytes: self.data_bytes + u64::from(self.last_bytes),
            data_packets: self.data.len() + self.beside[LAST].len(),
            control_bytes: self.small_bytes.into(),
            control_packets: self.waiting.iter().map(|&n| usize::from(n)).sum(),
        }
    }

    #[inline]
    fn passes(&mut self, packet: &Packet, now: Instant) -> bool {
        match small(packet.class()) {
            Some(Small::Sim) if self.bucket.ready_at() > now => false,
            Some(Small::Sim) => {
                self.bucket.take(now);
                true
            }
            Some(Small::SimAck | Small::Control) => true,
            None => {
                let last = packet.class() == TrafficClass::Unscheduled;
                let limit = if last { self.last_limit.into() } else { self.data_limit };
                !self.paused && packet.wire_bytes() <= limit
            }
        }
    }
}

#[cfg(test)]
mod tests;
