//! Priority flow control: switches that pause a link before they would have to drop.
//!
//! Source: \[qbb\]; the thresholds as in \[dcqcn\] sec. 4. A switch counts the data bytes that wait
//! in it by the link they came by, whatever port they wait at. Above XOFF it pauses that link's
//! transmitter, at XON it lets it go on. A pause frame goes before everything that waits for the
//! link back and after what is being sent. It takes the way of any packet. The traversal at its end
//! stands for the time that a transmitter takes to obey. The transmitter, a switch's port or a NIC,
//! finishes its packet and sends no data from then on; control packets go on.
//!
//! ```text
//!   port P ---- data ----> switch S: bytes by P > XOFF
//!     ^                        |
//!     +-- pause, by S's port --+   until bytes by P <= XON: resume
//! ```
//!
//! Only ports whose discipline is `lossless` count; a packet that waits at another port of the
//! switch may be dropped there, and pauses no link. Room beyond XOFF, the *headroom*, holds what is
//! still to come when a link is paused; a buffer is `switch.queue` bytes for each link into a
//! switch. With `alpha` there is one buffer for all links. The part of it beyond the headroom of
//! every link is shared, and a link is paused above `alpha` times the free bytes of that part. A
//! pause is on or off: quanta, which would let it run out, and the frames that renew them are not
//! modelled, so faults of links leave pause frames alone. Faults that hold packets back, or that
//! slow the link of the pause frames, can overrun the headroom; these drops are counted. A paused
//! port of a plain switch fills that switch's queue, which drops. Routes go up, then down, so no
//! cycle of links can wait for itself. A link that leads down waits for links that lead further
//! down and, last, for hosts, which pause no link.
//!
//! A pause takes effect elsewhere no sooner than a packet does. Nothing is allocated once queues
//! have reached their largest size.

mod buffers;

pub use buffers::Shortage;
pub(crate) use buffers::{needs, room};

use std::collections::VecDeque;

use transport::params::params;
use transport::registry::Registered;
use transport::{Bytes, DropReason, Instant};

use self::buffers::{headroom, shared_size};
use super::{Context, LinkSpec, Program, ProgramSettings, ProgramSetup, SendFate, SwitchProgram};
use crate::elements::PortId;
use crate::packet::Packet;
use crate::qdisc::QdiscKind;

/// XON is so many of the longest packets below XOFF.
//= dcqcn#4
const HYSTERESIS: u64 = 2;

params! {
    /// When a switch pauses a link.
    pub struct PfcParams {
        /// Share of the free shared buffer above which a link is paused, switch.queue being that of
        /// the whole switch then; 0: each link into the switch has a buffer of its own.
        alpha: f32 = 0.0, in 0.0..=64.0;
        /// Bytes of one link above which a lossless switch pauses it, or auto: the queue without
        /// the headroom.
        xoff: Option<Bytes> = None;
        /// Bytes of one link at which a paused one goes on, at most switch.pfc.xoff, or auto: two
        /// packets less.
        xon: Option<Bytes> = None;
    }
}

/// The pauses of one switch.
#[derive(Clone, Debug)]
pub struct Pfc {
    /// The number of its first port.
    first: u32,
    /// For each port of the switch, from `first` on: the state of the link that comes in by it.
    links: Vec<Incoming>,
    /// The buffer that all links share; `None` where each has its own.
    pool: Option<SharedBuffer>,
    /// For each port of the switch: the ports by which the packets in its data class came, in the
    /// order of these packets. A packet that leaves at once has no entry: no data waits at its port
    /// then, so the list of that port is empty. Empty at ports where drops are allowed.
    origins: Vec<VecDeque<u32>>,
}

/// The packets that came by one link and wait in the switch at its end.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    /// Bytes, up to `limit`.
    bytes: u64,
    limit: u64,
    xoff: u64,
    xon: u64,
    /// How far XON is below a threshold that moves.
    gap: u64,
    /// Whether the last frame to the transmitter was a pause.
    paused: bool,
    /// Whether packets that wait at the port that leads back along the link are counted.
    counts: bool,
}

/// A buffer for all links of a switch, with a dynamic threshold.
#[derive(Clone, Copy, Debug)]
struct SharedBuffer {
    /// Share of the free bytes that one link may have.
    alpha: f64,
    /// Bytes that wait in the switch, up to `limit`.
    bytes: u64,
    limit: u64,
    /// Bytes beyond the headroom of all links.
    shared: u64,
}

impl SharedBuffer {
    /// The empty buffer of a switch with `links`.
    fn new(links: &[LinkSpec], alpha: f32) -> Self {
        let limit = shared_size(links.iter().map(|link| link.port.params.data_limit.0).collect());
        let reserved: u64 = links.iter().map(|link| headroom(&link.back, &link.port)).sum();
        let shared = limit.saturating_sub(reserved);
        Self { alpha: f64::from(alpha), bytes: 0, limit, shared }
    }

    /// Bytes of one link above which it is paused, as the buffer is now.
    fn xoff(&self) -> u64 {
        Bytes(self.shared.saturating_sub(self.bytes)).scaled(self.alpha).0
    }
}

impl Registered for Pfc {
    const ABOUT: &'static str = "links that send too much are paused: data never drops in it";
    type Params = PfcParams;
}

impl SwitchProgram for Pfc {
    /// A state in which nothing waits and nothing is paused.
    fn build(settings: &ProgramSettings, setup: &ProgramSetup<'_>) -> Self {
        let pfc = &settings.pfc;
        Self {
            first: setup.first_port.0,
            origins: vec![VecDeque::new(); setup.links.len()],
            links: setup.links.iter().map(|link| Incoming::new(link, pfc)).collect(),
            pool: (pfc.alpha > 0.0).then(|| SharedBuffer::new(setup.links, pfc.alpha)),
        }
    }

    fn qdisc() -> Option<QdiscKind> {
        Some(QdiscKind::Lossless)
    }

    fn begins_anew() -> bool {
        true
    }
}

impl Pfc {
    #[inline]
    fn index_of(&self, port: PortId) -> usize {
        (port.0 - self.first) as usize
    }

    /// Whether `len` bytes more by the link at `by` have no place.
    fn is_full(&self, by: usize, len: u64) -> bool {
        match &self.pool {
            Some(pool) => pool.bytes + len > pool.limit,
            None => self.links[by].bytes + len > self.links[by].limit,
        }
    }

    /// Bytes of the link at `by` above which it is paused, and at which it goes on.
    #[inline]
    fn thresholds(&self, by: usize) -> (u64, u64) {
        let Incoming { xoff, xon, gap, .. } = self.links[by];
        let Some(pool) = &self.pool else { return (xoff, xon) };
        let dynamic = pool.xoff();
        (xoff.min(dynamic), xon.min(dynamic.saturating_sub(gap)))
    }

    /// Changes whether the transmitter of the link that `from` leads back along is paused.
    fn signal(&mut self, from: PortId, paused: bool, cx: &mut Context<'_>) {
        let place = self.index_of(from);
        self.links[place].paused = paused;
        cx.pause_link(from, paused);
    }
}

impl Incoming {
    /// The state of a link by which nothing has come.
    fn new(LinkSpec { port, back }: &LinkSpec, settings: &PfcParams) -> Self {
        let limit = port.params.data_limit.0;
        let left = limit.saturating_sub(headroom(back, port));
        let xoff = settings.xoff.map_or(left, |xoff| xoff.0);
        let gap = HYSTERESIS * port.params.packet_max.0;
        let below = xoff.saturating_sub(gap);
        let xon = settings.xon.map_or(below, |xon| xon.0.min(xoff));
        let counts = port.qdisc.needs_pauses();
        Self { bytes: 0, limit, xoff, xon, gap, paused: false, counts }
    }
}

impl Program for Pfc {
    #[inline]
    fn on_arrival(&mut self, packet: Packet, from: PortId, _now: Instant, cx: &mut Context<'_>) {
        let Some(port) = cx.route(&packet) else {
            cx.drop_at(from, packet, DropReason::NoRoute);
            return;
        };
        let (by, at) = (self.index_of(from), self.index_of(port));
        let is_counted = packet.is_data() && self.links[at].counts;
        let len = packet.wire_bytes();
        if is_counted && self.is_full(by, len) {
            cx.drop_at(port, packet, DropReason::DataQueueFull);
            return;
        }
        let sent = cx.send(port, packet);
        if !is_counted || sent != SendFate::Waits {
            let passes = is_counted && sent == SendFate::Leaves;
            debug_assert!(!passes || self.origins[at].is_empty(), "data leaves in order");
            return;
        }
        self.origins[at].push_back(from.0);
        self.links[by].bytes += len;
        if let Some(pool) = &mut self.pool {
            pool.bytes += len;
        }
        let (xoff, _) = self.thresholds(by);
        if self.links[by].bytes > xoff && !self.links[by].paused {
            self.signal(from, true, cx);
        }
    }

    #[inline]
    fn on_departure(
        &mut self,
        packet: &mut Packet,
        port: PortId,
        _now: Instant,
        cx: &mut Context<'_>,
    ) {
        let at = self.index_of(port);
        if !packet.is_data() || !self.links[at].counts {
            return;
        }
        let Some(from) = self.origins[at].pop_front() else { return };
        let by = self.index_of(PortId(from));
        let len = packet.wire_bytes();
        self.links[by].bytes -= len;
        if let Some(pool) = &mut self.pool {
            pool.bytes -= len;
        }
        let (_, xon) = self.thresholds(by);
        let link = self.links[by];
        // XON is 0 in a full buffer: a link by which nothing waits any more goes on, since no later
        // departure would say so.
        if link.paused && link.bytes <= xon {
            self.signal(PortId(from), false, cx);
        }
    }
}

#[cfg(test)]
#[path = "pfc/tests.rs"]
mod tests;
