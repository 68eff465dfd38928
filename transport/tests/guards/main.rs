//! Every check that protects an endpoint's state from false packets, tried with a packet that no
//! other check refuses. Each test fails when its check is taken out.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU32;

use transport::units::Key;
use transport::wire::{Ack, Body, Data, Header, Open, Receipt};
use transport::{
    BURST, Burst, Config, DropReason, Endpoint, EntropyValue, Event, FlowId, HostId, Instant,
    MsgNo, MsgSpec, Placement, Psn, Rng, RxSegment, Settings, TxSegment,
};

mod blocks;
mod hints;
mod lifetime;
mod proof;
mod receiver;
mod refusals;
mod sender;
mod shares;

/// The host whose endpoint is tested.
const HERE: HostId = HostId(1);
/// The peer of [`HERE`], played by the test.
const PEER: HostId = HostId(0);
/// A host that has no flow with either.
const STRANGER: HostId = HostId(9);
/// The peer's name of the flow it sends on.
const SRC: FlowId = FlowId::new(3, 7);
/// The key of the flow that the peer sends on.
const KEY: Key = Key(0x1234_5678_9ABC_DEF0);
/// Payload of a full segment.
const FULL: u16 = 4096;

/// One endpoint and its time; a test hands it packets one by one.
struct End {
    config: Config,
    endpoint: Endpoint,
    now: Instant,
    /// The key of the flow that it last sent on.
    key: Key,
}

impl End {
    fn new(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings { payload_max: FULL, ..Settings::default() };
        change(&mut settings);
        let config = Config::new(settings).unwrap();
        let endpoint = Endpoint::new(&config, HERE, Rng::new(1));
        Self { config, endpoint, now: Instant::ZERO, key: Key(0) }
    }

    /// Hands one packet in; the endpoint's placement of its bytes.
    fn take(&mut self, rx: &RxSegment) -> Placement {
        let mut out = [Placement::Release];
        self.endpoint.handle_burst(self.now, &[RxSegment { at: self.now, ..*rx }], &mut out);
        out[0]
    }

    /// All segments that may leave now.
    fn sent(&mut self) -> Vec<TxSegment> {
        let mut all = Vec::new();
        loop {
            let mut burst = Burst::with_limit(BURST);
            self.endpoint.poll_transmit(self.now, &mut burst);
            all.extend(burst.iter().copied());
            let data = burst.iter().filter(|tx| matches!(tx.hdr.body, Body::Data(_)));
            self.key = data.map(|tx| tx.hdr.key).last().unwrap_or(self.key);
            if burst.len() < BURST {
                return all;
            }
        }
    }

    /// A packet of the peer for the flow that it last sent on.
    fn reply(&self, flow: FlowId, body: Body) -> RxSegment {
        let reply = packet(flow, body, 0);
        RxSegment { hdr: Header { key: self.key, ..reply.hdr }, ..reply }
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.endpoint.poll_event()).collect()
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.endpoint.stats().drops.of(reason)
    }

    /// Hands in a packet that has to be dropped for `reason` and to change nothing else that shows.
    #[track_caller]
    fn refuses(&mut self, rx: &RxSegment, reason: DropReason) {
        let before = self.dropped(reason);
        assert_eq!(self.take(rx), Placement::Release);
        assert_eq!(self.dropped(reason), before + 1, "not dropped as {reason:?}");
        assert_eq!(self.events(), []);
    }

    /// Hands in a packet that has to be dropped for `reason`, whatever happened before.
    #[track_caller]
    fn refuses_quietly(&mut self, rx: &RxSegment, reason: DropReason) {
        self.events();
        self.refuses(rx, reason);
    }

    /// Hands in a segment that has to be placed.
    #[track_caller]
    fn places(&mut self, rx: &RxSegment) {
        let placed = self.take(rx);
        assert!(!matches!(placed, Placement::Release), "{rx:?} was released");
    }

    /// The lengths of the messages delivered since the last call.
    fn delivered(&mut self) -> Vec<u32> {
        let events = self.events();
        let lengths = events.iter().filter_map(|event| match event {
            Event::Delivered { len, .. } => Some(*len),
            _ => None,
        });
        lengths.collect()
    }

    /// The endpoint's own name of the flow that it last acknowledged.
    fn acked_flow(&mut self) -> FlowId {
        let acks = self.sent();
        let mut flows = acks.iter().filter_map(|tx| match tx.hdr.body {
            Body::Ack(ack) | Body::Nack(ack) => Some(ack.src_flow),
            _ => None,
        });
        flows.next_back().unwrap()
    }

    /// Posts a message of `len` bytes to the peer.
    fn post(&mut self, flow: FlowId, len: u32) {
        let len = NonZeroU32::new(len).unwrap();
        self.endpoint.post_send(self.now, MsgSpec { flow, len, tag: 0 }).unwrap();
    }

    /// A flow to the peer.
    fn open(&mut self) -> FlowId {
        self.endpoint.open_flow(PEER, self.config.default_path()).unwrap()
    }
}

/// A packet from the peer.
fn packet(dst_flow: FlowId, body: Body, payload_len: u16) -> RxSegment {
    let hdr = Header::new(EntropyValue(5), dst_flow, body).keyed(KEY);
    RxSegment { hdr, at: Instant::ZERO, from: PEER, payload_len, ce: false, trimmed: false }
}

/// A copy of `packet` from a host that does not have the key.
fn without_key(rx: &RxSegment) -> RxSegment {
    RxSegment { hdr: Header { key: Key(rx.hdr.key.0 ^ 1), ..rx.hdr }, ..*rx }
}

/// A segment's header.
fn data(psn: u32, msg: u32, offset: u32) -> Data {
    Data { psn: Psn(psn), msg: MsgNo(msg), offset, ..Data::VACANT }
}

/// The header of a segment that opens its message of `len` bytes.
fn opening(psn: u32, msg: u32, offset: u32, len: u32) -> Data {
    let msg_len = NonZeroU32::new(len).unwrap();
    Data { open: Some(Open { src_flow: SRC, msg_len }), ..data(psn, msg, offset) }
}

/// A segment of a flow that is not known yet.
fn first(data: Data, payload_len: u16) -> RxSegment {
    packet(FlowId::UNKNOWN, Body::Data(data), payload_len)
}

/// A segment of a flow that the endpoint has named.
fn later(flow: FlowId, data: Data, payload_len: u16) -> RxSegment {
    packet(flow, Body::Data(data), payload_len)
}

/// An acknowledgement by the peer of one segment, and of all before `cumulative`.
fn ack(psn: u32, cumulative: u32) -> Ack {
    Ack {
        src_flow: FlowId::new(4, 2),
        psn: Psn(psn),
        cumulative: Psn(cumulative),
        sack: 0,
        echo_sent_at: 0,
        held: 0,
        sharers: 1,
        ce: false,
        receipt: Receipt::First,
    }
}
