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
    /// Messages that segments which will be refused would begin: those of strangers, and of hosts
    /// that have as much as they may.
    of_refused: Begun,
    /// Segments that will be refused and have memory, by place; capacity [`BURST`].
    refused: Vec<usize>,
    /// Whether an opening segment of this burst may begin its message without memory: it came
    /// trimmed, or may lose its payload here.
    unbacked: bool,
    /// Parity in this burst that is not of strangers.
    parity: usize,
    /// Parity that strangers open flows with; its segments are among `refused`, or have no payload.
    parity_of_refused: usize,
}

/// A message: its sender, the sender's flow and the flow's key, its number and length. One sender
/// may have flows of one name under several keys, so the key is part of the name. A segment without
/// an opening part does not name its sender's flow, and counts as a message of its own.
type Beginning = (HostId, Option<FlowId>, Key, MsgNo, NonZeroU32);

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
            of_refused: Begun::new(),
            refused: Vec::with_capacity(BURST),
            unbacked: false,
            parity: 0,
            parity_of_refused: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.begun.clear();
        self.of_refused.clear();
        self.refused.clear();
        self.unbacked = false;
        self.parity = 0;
        self.parity_of_refused = 0;
    }

    /// Whether the store can take segment `len`, as far as it is parity: `false` when the endpoint
    /// would keep it and the parity of this burst already fills the room. Called once for each
    /// segment, before the endpoint sees any of the burst, and before [`RxBurst::reserve`].
    ///
    /// Parity that the endpoint will refuse takes no room from other parity. It loses its payload
    /// where it names no flow, or one that is not here. Other parity that will be refused loses its
    /// payload where no room is left behind the whole burst.
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
        if endpoint.would_refuse(segment) {
            if segment.hdr.dst_flow != FlowId::UNKNOWN || data.open.is_none() {
                self.cut(self.len);
            } else {
                self.parity_of_refused += 1;
            }
            return true;
        }
        self.parity += 1;
        self.parity <= store.parity_room() || !endpoint.would_keep(segment)
    }

    /// Whether the store has memory for the message of segment `len`, beside the messages that
    /// begin earlier in this burst. Called once for each segment, before the endpoint sees any of
    /// the burst.
    ///
    /// A segment that the endpoint will refuse takes no memory from others, which forged ones would
    /// otherwise keep out. It reaches the endpoint, which answers it, without its payload where no
    /// memory is left.
    #[inline]
    pub(super) fn reserve<P: IncomingBytes>(&mut self, endpoint: &Endpoint, store: &P) -> bool {
        let segment = &self.segments[self.len];
        let Body::Data(data) = &segment.hdr.body else { return true };
        let Some(len) = endpoint.would_open(segment) else {
            self.unbacked |= segment.trimmed && data.open.is_some();
            // Its message may begin in this burst, without memory.
            if self.unbacked && data.open.is_none() && !endpoint.has_message_of(segment) {
                self.cut(self.len);
            }
            return true;
        };
        // Memory is counted twice when the segment has no opening part, which names its sender's
        // flow, and when two segments of a message give different lengths.
        let flow = data.open.map(|open| open.src_flow);
        let message = (segment.from, flow, segment.hdr.key, data.msg, len);
        let strange = endpoint.would_refuse(segment);
        let refused = strange || endpoint.is_beyond_share(segment);
        self.unbacked |= refused;
        if strange && segment.hdr.dst_flow != FlowId::UNKNOWN {
            self.cut(self.len);
            return true;
        }
        let begun = if refused { &mut self.of_refused } else { &mut self.begun };
        let bytes = begun.bytes + u64::from(len.get());
        let counted = flow.is_some() && begun.messages.contains(&message);
        let fits = counted || store.has_room(begun.messages.len() + 1, bytes);
        if fits && !counted {
            begun.messages.push(message);
            begun.bytes = bytes;
        }
        match (refused, fits) {
            (true, true) => self.refused.push(self.len),
            (true, false) => self.cut(self.len),
            (false, _) => {}
        }
        fits || refused
    }

    /// Lets segments that will be refused keep their payload, if there is memory for their
    /// messages beside all others of the burst. Called once the whole burst has been looked at.
    pub(super) fn give_refused_what_is_left<P: IncomingBytes>(&mut self, store: &P) {
        if self.refused.is_empty() {
            return;
        }
        let messages = self.begun.messages.len() + self.of_refused.messages.len();
        let parity = self.parity + self.parity_of_refused;
        let kept = self.parity_of_refused == 0 || parity <= store.parity_room();
        if !kept || !store.has_room(messages, self.begun.bytes + self.of_refused.bytes) {
            (0..self.refused.len()).for_each(|at| self.cut(self.refused[at]));
        }
    }

    /// Takes the payload from a segment.
    fn cut(&mut self, at: usize) {
        (self.segments[at].trimmed, self.segments[at].payload_len) = (true, 0);
    }
}
