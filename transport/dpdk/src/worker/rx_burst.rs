//! The segments of one received burst, and the memory that they will take.

use std::num::NonZeroU32;

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
    /// Messages that this burst begins, with no memory yet; capacity [`BURST`].
    begun: Vec<(HostId, FlowId, MsgNo, NonZeroU32)>,
    begun_bytes: u64,
    /// Parity in this burst.
    parity: usize,
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
            begun: Vec::with_capacity(BURST),
            begun_bytes: 0,
            parity: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.begun.clear();
        self.begun_bytes = 0;
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
    #[inline]
    pub(super) fn reserve<P: IncomingBytes>(&mut self, endpoint: &Endpoint, store: &P) -> bool {
        let segment = &self.segments[self.len];
        let Body::Data(data) = &segment.hdr.body else { return true };
        let Some(len) = endpoint.would_open(segment) else { return true };
        // Memory is counted twice when the segment has no opening part, which names its sender's
        // flow, and when two segments of a message give different lengths.
        let key = data.open.map(|open| (segment.from, open.src_flow, data.msg, len));
        if key.is_some_and(|key| self.begun.contains(&key)) {
            return true;
        }
        let bytes = self.begun_bytes + u64::from(len.get());
        if !store.has_room(self.begun.len() + 1, bytes) {
            return false;
        }
        self.begun.push(key.unwrap_or((segment.from, segment.hdr.dst_flow, data.msg, len)));
        self.begun_bytes = bytes;
        true
    }
}
