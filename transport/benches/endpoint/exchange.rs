//! Two endpoints and the link between them, whose queue swings.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Instant as Wall;

use transport::cc::{Cc, CcKind, Custom};
use transport::wire::{Body, Header};
use transport::{
    BURST, Burst, Bytes, Config, Duration, Endpoint, Event, FlowId, HostId, Instant, MsgSpec, Path,
    Placement, Rate, Rng, RxSegment, Settings, TxSegment,
};

/// Nanoseconds a DATA segment, one value for each full burst.
#[derive(Default)]
pub(crate) struct Nanos {
    /// `poll_transmit` of the sender.
    pub(crate) send: Vec<f64>,
    /// `handle_burst` and `poll_transmit` of the receiver.
    pub(crate) receive: Vec<f64>,
    /// `handle_burst` of the sender, an acknowledgement.
    pub(crate) ack: Vec<f64>,
}

const BASE_RTT: Duration = Duration::from_us(12);
const RATE: Rate = Rate::from_gbps(800);
const WIRE_LEN: u64 = 4160;
const MESSAGE: NonZeroU32 = NonZeroU32::new(1 << 20).expect("not zero");
/// Bursts in which the queue grows from nothing and shrinks back to it.
const SWING: u64 = 256;

/// One sender, one receiver, and the packets under way between them.
pub(crate) struct Exchange {
    sender: Endpoint,
    receiver: Endpoint,
    data: VecDeque<RxSegment>,
    acks: VecDeque<RxSegment>,
    arrived: Vec<RxSegment>,
    burst: Burst<TxSegment>,
    limit: usize,
    now: Instant,
    turns: u64,
}

/// The settings of both ends; tables for `flows`.
pub(crate) fn config(cc: CcKind, flows: u32) -> Config {
    let mut settings = Settings {
        cc,
        line_rate: RATE,
        base_rtt: BASE_RTT,
        tx_flows_max: flows,
        rx_flows_max: flows,
        // Two messages for each flow, and room for those whose last acknowledgement is on its way.
        msgs_max: 4 * flows,
        ..Settings::default()
    };
    if cc == CcKind::Custom {
        // The reference behind a pointer: what it costs more is the price of the pointer.
        let params = settings.cc_params.clone();
        let make = move |path: &Path| Cc::new(crate::REFERENCE, &params, path);
        settings.cc_params.custom = Custom::built_by(settings.cc_params.fixed.bdps, make);
    }
    Config::new(settings).expect("legal")
}

impl Exchange {
    /// `flows` flows, each with always two messages to send, in bursts of `limit` segments.
    pub(crate) fn new(cc: CcKind, flows: u32, limit: usize) -> Self {
        Self::with(&config(cc, flows), flows, limit)
    }

    /// An exchange as on a real network, where senders have to prove their addresses.
    pub(crate) fn proven(cc: CcKind, flows: u32) -> Self {
        let mut settings = (*config(cc, flows)).clone();
        (settings.rx_flows_max, settings.unproven_max) = (2 * flows, flows);
        Self::with(&Config::new(settings).expect("legal"), flows, BURST)
    }

    fn with(config: &Config, flows: u32, limit: usize) -> Self {
        let mut this = Self {
            sender: Endpoint::new(config, HostId(0), Rng::new(1)),
            receiver: Endpoint::new(config, HostId(1), Rng::new(2)),
            data: VecDeque::new(),
            acks: VecDeque::new(),
            arrived: Vec::new(),
            burst: Burst::with_limit(limit),
            limit,
            now: Instant::ZERO,
            turns: 0,
        };
        for _ in 0..flows {
            let flow = this.sender.open_flow(HostId(1), config.default_path()).expect("room");
            this.post(flow);
            this.post(flow);
        }
        this
    }

    fn post(&mut self, flow: FlowId) {
        // The tag names the flow that has to post the next message once this one is delivered.
        let spec = MsgSpec { flow, len: MESSAGE, tag: u64::from(flow.0) };
        self.sender.post_send(self.now, spec).expect("room");
    }

    /// Exchanges about `segments` segments, and notes the time of each part.
    pub(crate) fn run(&mut self, segments: u64, taken: &mut Nanos) {
        let before = self.sender.stats().data_new;
        while self.sender.stats().data_new - before < segments {
            self.turn(taken);
        }
    }

    /// The header of a segment that is under way, and that of an acknowledgement.
    pub(crate) fn headers(&self) -> [Header; 2] {
        let is_of_flow = |rx: &&RxSegment| matches!(rx.hdr.body, Body::Data(_) | Body::Ack(_));
        [&self.data, &self.acks].map(|wire| wire.iter().rfind(is_of_flow).expect("one").hdr)
    }

    fn turn(&mut self, taken: &mut Nanos) {
        self.now += RATE.time_for(Bytes(WIRE_LEN * self.limit as u64));
        self.turns += 1;
        let phase = (self.turns * self.limit as u64 / BURST as u64) % SWING;
        let level = phase.min(SWING - phase);
        let queue = BASE_RTT * level / (SWING / 2);

        self.burst.reset(self.limit);
        let spent = timed(|| part_send(&mut self.sender, self.now, &mut self.burst));
        self.note(self.burst.len(), spent, &mut taken.send);
        for segment in self.burst.iter() {
            let arrives = arrival(segment, HostId(0), self.now + BASE_RTT / 2 + queue);
            self.data.push_back(RxSegment { ce: level > SWING / 4, ..arrives });
        }

        self.arrivals(|this| &mut this.data);
        self.burst.reset(self.limit);
        let spent = timed(|| {
            part_receive(&mut self.receiver, self.now, &self.arrived, &mut self.burst);
        });
        self.note(self.arrived.len(), spent, &mut taken.receive);
        for segment in self.burst.iter() {
            self.acks.push_back(arrival(segment, HostId(1), self.now + BASE_RTT / 2));
        }

        self.arrivals(|this| &mut this.acks);
        let spent = timed(|| part_ack(&mut self.sender, self.now, &self.arrived));
        self.note(self.arrived.len(), spent, &mut taken.ack);
        self.settle();
    }

    fn note(&self, segments: usize, spent: f64, taken: &mut Vec<f64>) {
        if segments == self.limit {
            taken.push(spent / segments as f64);
        }
    }

    /// Runs timers and the application.
    fn settle(&mut self) {
        self.sender.handle_timeout(self.now);
        self.receiver.handle_timeout(self.now);
        while let Some(event) = self.sender.poll_event() {
            assert!(matches!(event, Event::Sent { .. }), "nothing is lost here: {event:?}");
        }
        while let Some(event) = self.receiver.poll_event() {
            let Event::Delivered { tag, .. } = event else { panic!("lost: {event:?}") };
            self.post(FlowId(u32::try_from(tag).expect("a tag of ours")));
        }
    }

    /// Moves packets that have arrived from a wire to `arrived`, at most one burst.
    fn arrivals(&mut self, wire: fn(&mut Self) -> &mut VecDeque<RxSegment>) {
        self.arrived.clear();
        while self.arrived.len() < self.limit {
            let now = self.now;
            let wire = wire(self);
            let due = wire.front().is_some_and(|first| first.at <= now);
            if !due {
                return;
            }
            let first = wire.pop_front();
            self.arrived.extend(first);
        }
    }
}

/// Nanoseconds that `part` took, the clock's own included.
pub(crate) fn timed(part: impl FnOnce()) -> f64 {
    let start = Wall::now();
    part();
    start.elapsed().as_nanos() as f64
}

fn arrival(segment: &TxSegment, from: HostId, at: Instant) -> RxSegment {
    let payload_len = segment.payload.len;
    RxSegment { hdr: segment.hdr, at, from, payload_len, ce: false, trimmed: false }
}

/// Each part is a function of its own, so that callgrind shows it.
#[inline(never)]
fn part_send(sender: &mut Endpoint, now: Instant, burst: &mut Burst<TxSegment>) {
    sender.poll_transmit(now, burst);
}

#[inline(never)]
fn part_receive(
    receiver: &mut Endpoint,
    now: Instant,
    rx: &[RxSegment],
    acks: &mut Burst<TxSegment>,
) {
    receiver.handle_burst(now, rx, &mut [Placement::Release; BURST][..rx.len()]);
    receiver.poll_transmit(now, acks);
}

#[inline(never)]
fn part_ack(sender: &mut Endpoint, now: Instant, rx: &[RxSegment]) {
    sender.handle_burst(now, rx, &mut [Placement::Release; BURST][..rx.len()]);
}
