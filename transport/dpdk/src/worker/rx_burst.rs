//! The segments of one received burst, and the memory that they will take.

use std::num::NonZeroU32;

use transport::wire::{Body, Ext};
use transport::{BURST, Endpoint, FlowId, HostId, MsgNo, Placement, RxSegment};

use crate::payload::store::IncomingBytes;

/// The segments of one received burst.
#[derive(Debug)]
pub(super) struct RxBurst {
    /// The first `len` are.
    pub(super) segments: [RxSegment; BURST],
    /// The extension header of each segment.
    pub(super) exts: [Ext; BURST],
    pub(super) len: usize,
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

    /// Whether the segment behind the last is no parity that would have to be kept without room for
    /// it, counting the parity of this burst; asked as [`RxBurst::reserve`] is.
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

    /// Whether there will be memory for the message of the segment behind the last, counting what
    /// this burst begins; it is asked for before the endpoint sees any segment of the burst.
    #[inline]
    pub(super) fn reserve<P: IncomingBytes>(&mut self, endpoint: &Endpoint, store: &P) -> bool {
        let segment = &self.segments[self.len];
        let Body::Data(data) = &segment.hdr.body else { return true };
        let Some(len) = endpoint.would_open(segment) else { return true };
        // Without an opening part its sender's flow is not named; then memory is counted twice.
        // So it is when a sender contradicts itself about its length.
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
