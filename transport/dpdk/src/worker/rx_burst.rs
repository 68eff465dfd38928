//! The segments of one received burst, and the memory that they will take.

use std::num::NonZeroU32;

use transport::units::Key;
use transport::wire::{Body, Ext};
use transport::{BURST, Endpoint, FlowId, HostId, MsgNo, Placement, RxSegment};

use crate::payload::store::IncomingBytes;
use crate::security::Opened;
use crate::worker::sealing::OpenedFrame;

/// The segments of one received burst.
#[derive(Debug)]
pub(super) struct RxBurst {
    /// Received segments; the first `len` are valid.
    pub(super) segments: [RxSegment; BURST],
    /// The extension header of each segment.
    pub(super) exts: [Ext; BURST],
    pub(super) len: usize,
    /// For each frame of a burst, what became of its seal.
    pub(super) opened: [OpenedFrame; BURST],
    /// For each segment: its frame, and the offset of its payload there.
    pub(super) sources: [(usize, usize); BURST],
    pub(super) places: [Placement; BURST],
    /// Messages that this burst begins, with no memory yet.
    begun: Begun,
    /// Messages that segments of no use would begin.
    of_strangers: Begun,
    /// Segments of no use that have memory, by place; capacity [`BURST`].
    strangers: Vec<usize>,
    /// Parity in this burst.
    parity: usize,
}

/// A message: its sender, the sender's flow and the flow's key, its number and length. One sender
/// may have flows of one name under several keys.
type Beginning = (HostId, FlowId, Key, MsgNo, NonZeroU32);

/// Messages that begin.
#[derive(Debug)]
struct Begun {
    /// Capacity [`BURST`].
    messages: Vec<Beginning>,
    bytes: u64,
}

impl Begun {
    fn new() -> Self {
        Self { messages: Vec::with_capacity(BURST), bytes: 0 }
    }

    fn clear(&mut self) {
        self.messages.clear();
        self.bytes = 0;
    }
}

impl RxBurst {
    pub(super) fn new() -> Self {
        Self {
            segments: [RxSegment::VACANT; BURST],
            exts: [Ext::VACANT; BURST],
            len: 0,
            opened: [Ok(Opened::Whole); BURST],
            sources: [(0, 0); BURST],
            places: [Placement::Release; BURST],
            begun: Begun::new(),
            of_strangers: Begun::new(),
            strangers: Vec::with_capacity(BURST),
            parity: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.begun.clear();
        self.of_strangers.clear();
        self.strangers.clear();
        self.parity = 0;
    }

    /// Whether the store can take segment `len`, as far as it is parity: `false` when the endpoint
    /// would keep it and the parity of this burst already fills the room. Called once for each
    /// segment, before the endpoint sees any of the burst.
    #[inline]
    pub(super) fn reserve_parity<P: IncomingBytes>(
        &mut self,
        endpoint: &Endpoint,
        store: &P,
    ) -> bool {
        let segment = &self.segments[self.len];
        let Body::Data(data) = &segment.hdr.body else { return true };
        if data.parity_index().is_none() {
            return true;
        }
        self.parity += 1;
        self.parity <= store.parity_room() || !endpoint.would_keep(segment)
    }

    /// Whether the store has memory for the message of segment `len`, beside the messages that
    /// begin earlier in this burst. Called once for each segment, before the endpoint sees any of
    /// the burst.
    ///
    /// Segments that are of no use take no memory from others, since forged ones would keep those
    /// out. They reach the endpoint in any case, which answers them; without memory they do so as
    /// if a switch had trimmed them.
    #[inline]
    pub(super) fn reserve<P: IncomingBytes>(&mut self, endpoint: &Endpoint, store: &P) -> bool {
        let segment = &self.segments[self.len];
        let Body::Data(data) = &segment.hdr.body else { return true };
        let Some(len) = endpoint.would_open(segment) else { return true };
        // Memory is counted twice when the segment has no opening part, which names its sender's
        // flow, and when two segments of a message give different lengths.
        let flow = data.open.map_or(segment.hdr.dst_flow, |open| open.src_flow);
        let message = (segment.from, flow, segment.hdr.key, data.msg, len);
        let strange = endpoint.is_of_no_use(segment);
        if strange && segment.hdr.dst_flow != FlowId::UNKNOWN {
            self.cut(self.len);
            return true;
        }
        let begun = if strange { &mut self.of_strangers } else { &mut self.begun };
        let bytes = begun.bytes + u64::from(len.get());
        let counted = data.open.is_some() && begun.messages.contains(&message);
        let fits = counted || store.has_room(begun.messages.len() + 1, bytes);
        if fits && !counted {
            begun.messages.push(message);
            begun.bytes = bytes;
        }
        match (strange, fits) {
            (true, true) => self.strangers.push(self.len),
            (true, false) => self.cut(self.len),
            (false, _) => {}
        }
        fits || strange
    }

    /// Lets segments that are of no use keep their payload, if there is memory for their
    /// messages beside all others of the burst. Called once the whole burst has been looked at.
    pub(super) fn give_strangers_what_is_left<P: IncomingBytes>(&mut self, store: &P) {
        if self.strangers.is_empty() {
            return;
        }
        let messages = self.begun.messages.len() + self.of_strangers.messages.len();
        if !store.has_room(messages, self.begun.bytes + self.of_strangers.bytes) {
            (0..self.strangers.len()).for_each(|at| self.cut(self.strangers[at]));
        }
    }

    /// Takes the payload from a segment.
    fn cut(&mut self, at: usize) {
        (self.segments[at].trimmed, self.segments[at].payload_len) = (true, 0);
    }
}
