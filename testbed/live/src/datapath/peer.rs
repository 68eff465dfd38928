//! The far end of a measured link: an endpoint that receives and acknowledges, without memory.
//!
//! The peer parses the headers of every frame, lets the endpoint of the receiving host decide, and
//! builds each acknowledgement in an mbuf. What it leaves out is the payload: nothing is placed,
//! and no payload checksum is verified; that is the receiver's cost, not the sender's.

use std::sync::Arc;

use transport::wire::addressing::Addressing;
use transport::wire::checksum::Checksum;
use transport::wire::frame::{self, Ecn, FrameSpec, TrafficClass, UdpCheck};
use transport::wire::template::FrameTemplate;
use transport::{BURST, Burst, Config, Endpoint, HostId, Instant, Placement, Rng, RxSegment};
use transport_dpdk::{MbufBurst, Pool};

/// Longest frame, bytes.
const FRAME_MAX: usize = 9216;

/// Bytes of a frame that hold all its headers.
pub(super) const HEAD_MAX: usize = frame::HEADERS_MAX as usize;

/// The receiving host.
#[derive(Debug)]
pub(super) struct Peer {
    endpoint: Endpoint,
    addressing: Addressing,
    /// The template of frames to the one sender.
    answers: FrameTemplate,
    /// Whether frames to the sender carry a UDP checksum.
    summed: bool,
    pool: Arc<Pool>,
    /// A frame's head with room for the payload, which stays as it is.
    scratch: Box<[u8]>,
    received: Vec<RxSegment>,
    places: [Placement; BURST],
    tx: Burst<transport::TxSegment>,
    /// Acknowledgements to send.
    out: MbufBurst,
    /// Frames that were no segment: never without a bug.
    strange: u64,
}

impl Peer {
    /// The host `host`, which answers `sender` with frames from `pool`; `None` when one of them has
    /// no address.
    pub(super) fn new(
        config: &Config,
        [host, sender]: [HostId; 2],
        addressing: Addressing,
        summed: bool,
        pool: Arc<Pool>,
    ) -> Option<Self> {
        let addrs = addressing.pair(host, sender)?;
        let spec = FrameSpec { addrs, ecn: Ecn::NotEct, class: TrafficClass::Control };
        Some(Self {
            answers: FrameTemplate::new(&spec),
            summed,
            endpoint: Endpoint::new(config, host, Rng::new(1).fork("peer", 0)),
            addressing,
            pool,
            scratch: vec![0; FRAME_MAX].into_boxed_slice(),
            received: Vec::with_capacity(BURST),
            places: [Placement::Release; BURST],
            tx: Burst::with_limit(BURST),
            out: MbufBurst::new(),
            strange: 0,
        })
    }

    /// Whether there is room for a burst of answers.
    pub(super) fn is_ready(&self) -> bool {
        self.out.is_empty()
    }

    /// Takes a frame of `len` bytes that starts with `head`; at most 32 between answers.
    pub(super) fn receive(&mut self, head: &[u8], len: usize, now: Instant) {
        let head = &head[..head.len().min(HEAD_MAX)];
        let Some(frame) = self.scratch.get_mut(..len.max(head.len())) else {
            self.strange += 1;
            return;
        };
        frame[..head.len()].copy_from_slice(head);
        match frame::parse(frame, &self.addressing, UdpCheck::Skip) {
            Ok(parsed) => self.received.push(RxSegment {
                hdr: parsed.header,
                at: now,
                from: parsed.src,
                payload_len: parsed.payload_len,
                ce: parsed.ecn == Ecn::Ce,
                trimmed: parsed.trimmed,
            }),
            Err(_) => self.strange += 1,
        }
    }

    /// Lets the endpoint handle the received segments, and builds its answers.
    pub(super) fn answer(&mut self, now: Instant) -> &mut MbufBurst {
        for burst in self.received.chunks(BURST) {
            self.endpoint.handle_burst(now, burst, &mut self.places);
            while self.endpoint.poll_event().is_some() {}
        }
        self.received.clear();
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        let room = self.out.room();
        self.tx.reset(room);
        self.endpoint.poll_transmit(now, &mut self.tx);
        let from = self.out.len();
        if !self.pool.alloc_burst(&mut self.out, self.tx.len()) {
            self.strange += self.tx.len() as u64;
            return &mut self.out;
        }
        for (index, segment) in self.tx.iter().enumerate() {
            let Some(mbuf) = self.out.get_mut(from + index) else { continue };
            let len = self.answers.overhead() + segment.hdr.emit_len();
            let sum = self.summed.then(Checksum::new);
            match mbuf.append(len) {
                Some(head) => _ = self.answers.emit(&segment.hdr, self.tx.ext(index), 0, sum, head),
                None => self.strange += 1,
            }
        }
        &mut self.out
    }

    /// Frames that were no segment, and answers without a buffer.
    pub(super) const fn strange(&self) -> u64 {
        self.strange
    }
}
