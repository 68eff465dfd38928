//! Two endpoints, a virtual clock, real bytes and a network that loses, duplicates, reorders and
//! trims by a seed. Every message must arrive once and intact, whatever the network does.
//!
//! A parity packet here is a copy of its block: the bytes of a restored segment must have arrived
//! in some packet, and no more packets may be restored than parity packets have arrived. The code
//! itself has its own tests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use proptest::prelude::*;
use transport::cc::{CcKind, Path};
use transport::ec::{BlockShape, BlockTimer, EcKind, EcParams, Resend};
use transport::lb::LbKind;
use transport::sched::credit::CreditParams;
use transport::sched::{SchedKind, SchedParams};
use transport::wire::{Body, Ext, Header};
use transport::{
    BURST, Burst, Bytes, Coding, Config, DropReason, Duration, Endpoint, Event, FlowId, HostId,
    Instant, LossSettings, MsgId, MsgSpec, Placement, Policies, Psn, Rate, Restore, Rng, RxSegment,
    Settings, TxSegment, Wait,
};

#[path = "pair/coding.rs"]
mod coding;
#[path = "pair/forged.rs"]
mod forged;
#[path = "pair/forgotten.rs"]
mod forgotten;
#[path = "pair/gone.rs"]
mod gone;
#[path = "pair/messages.rs"]
mod messages;
#[path = "pair/paths.rs"]
mod paths;
#[path = "pair/patience.rs"]
mod patience;
#[path = "pair/probes.rs"]
mod probes;
#[path = "pair/silence.rs"]
mod silence;
#[path = "pair/telemetry.rs"]
mod telemetry;

/// The faults of the network between the two, for each packet.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    loss: f64,
    duplicate: f64,
    reorder: f64,
    trim: f64,
    mark: f64,
}

/// One end: the endpoint, the bytes it sends and the bytes it has received.
struct Host {
    endpoint: Endpoint,
    outgoing: BTreeMap<u32, Vec<u8>>,
    incoming: BTreeMap<u32, Incoming>,
    delivered: Vec<(u64, Vec<u8>)>,
    ended: Vec<Event>,
}

/// A message on its way in.
#[derive(Default)]
struct Incoming {
    bytes: Vec<u8>,
    /// Offsets of the segments that are in place.
    placed: BTreeSet<u32>,
    /// Kept parity by block and number, with the bytes of the block.
    parity: BTreeMap<(u32, u8), Vec<u8>>,
}

/// Where a packet goes, and all that it carries.
type Flight = (usize, RxSegment, Ext, Vec<u8>);

struct Pair {
    payload_max: usize,
    /// Drops a packet for which it returns true, beside the random faults.
    drops: fn(&TxSegment) -> bool,
    /// Cuts the payload off a packet for which it returns true.
    trims: fn(&TxSegment) -> bool,
    hosts: [Host; 2],
    /// Packets on the way, by arrival and a tie-breaking count, with payload.
    wire: BTreeMap<(Instant, u64), Flight>,
    count: u64,
    rng: Rng,
    weather: Weather,
    /// How long a packet is under way without faults.
    delay: Duration,
    now: Instant,
    /// What is added to the numbers of both hosts.
    alias: u32,
}

const DELAY: Duration = Duration::from_us(5);

fn config(change: impl FnOnce(&mut Settings)) -> Config {
    let mut settings = Settings { base_rtt: Duration::from_us(12), ..Settings::default() };
    change(&mut settings);
    Config::new(settings).unwrap()
}

impl Pair {
    fn new(config: &Config, seed: u64, weather: Weather) -> Self {
        let rng = Rng::new(seed);
        let host = |i: u32| Host {
            endpoint: Endpoint::new(config, HostId(i), rng.fork("host", u64::from(i))),
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            delivered: Vec::new(),
            ended: Vec::new(),
        };
        let hosts = [host(0), host(1)];
        let (wire, payload_max) = (BTreeMap::new(), usize::from(config.payload_max));
        let (drops, trims) = (|_: &TxSegment| false, |_: &TxSegment| false);
        let (delay, now, alias) = (DELAY, Instant::ZERO, 0);
        Self { payload_max, drops, trims, hosts, wire, count: 0, rng, weather, delay, now, alias }
    }

    fn post(&mut self, from: usize, flow: FlowId, bytes: Vec<u8>, tag: u64) -> MsgId {
        let len = NonZeroU32::new(u32::try_from(bytes.len()).unwrap()).unwrap();
        let host = &mut self.hosts[from];
        let msg = host.endpoint.post_send(self.now, MsgSpec { flow, len, tag }).unwrap();
        host.outgoing.insert(msg.0, bytes);
        msg
    }

    /// Runs everything that is due next; false when nothing ever will be.
    fn step(&mut self) -> bool {
        for from in 0..2 {
            loop {
                let mut burst = Burst::with_limit(BURST);
                self.hosts[from].endpoint.poll_transmit(self.now, &mut burst);
                if burst.is_empty() {
                    break;
                }
                for (index, segment) in burst.iter().enumerate() {
                    self.send(from, segment, burst.ext(index));
                }
            }
        }
        let next = [
            self.wire.keys().next().map(|&(at, _)| at),
            self.hosts[0].endpoint.poll_timeout(),
            self.hosts[1].endpoint.poll_timeout(),
        ];
        let Some(next) = next.into_iter().flatten().min() else { return false };
        self.now = self.now.max(next);
        while let Some(entry) = self.wire.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let (to, segment, ext, payload) = entry.remove();
            self.receive(to, &segment, &ext, &payload);
        }
        for host in &mut self.hosts {
            host.endpoint.handle_timeout(self.now);
            host.drain();
        }
        true
    }

    fn send(&mut self, from: usize, tx: &TxSegment, ext: &Ext) {
        let mut bytes = [0; 256];
        let len = tx.hdr.emit(ext, &mut bytes);
        let parsed = Header::parse(tx.hdr.ev, &bytes[..len]);
        let (hdr, mut ext, _) = parsed.expect("what was emitted parses");
        assert_eq!(hdr, tx.hdr);
        if let (Body::Data(_), Some(int)) = (&hdr.body, hdr.ext.int_mut(&mut ext)) {
            // A switch on the way, with a port for each direction.
            int.stamp(telemetry::hop(self.now, from));
        }
        let payload = self.hosts[from].outgoing.get(&tx.payload.msg.0).map_or(Vec::new(), |msg| {
            let start = tx.payload.offset as usize;
            let len = match (tx.payload.coding, tx.hdr.body) {
                (Coding::Parity(_), Body::Data(data)) => {
                    let segments = data.code.map_or(0, |code| usize::from(code.data()));
                    (segments * self.payload_max).min(msg.len() - start)
                }
                _ => usize::from(tx.payload.len),
            };
            msg[start..start + len].to_vec()
        });
        let payload = if !tx.class().is_data() { Vec::new() } else { payload };
        if (self.drops)(tx) || self.rng.chance(self.weather.loss) {
            return;
        }
        let copies = 1 + u32::from(self.rng.chance(self.weather.duplicate));
        for _ in 0..copies {
            let trimmed = tx.class().is_data() && self.rng.chance(self.weather.trim);
            let trimmed = trimmed || (self.trims)(tx);
            let late = if self.rng.chance(self.weather.reorder) { 40_000 } else { 0 };
            let at = self.now + self.delay + Duration::from_ns(self.rng.below(late));
            let payload = if trimmed { Vec::new() } else { payload.clone() };
            let segment = RxSegment {
                hdr,
                at,
                from: HostId(self.alias + u32::try_from(from).unwrap()),
                payload_len: if trimmed { 0 } else { tx.payload.len },
                ce: self.rng.chance(self.weather.mark),
                trimmed,
            };
            self.count += 1;
            self.wire.insert((at, self.count), (1 - from, segment, ext, payload));
        }
    }

    fn receive(&mut self, to: usize, segment: &RxSegment, ext: &Ext, payload: &[u8]) {
        let mut place = [Placement::Release];
        let received = (&[*segment][..], &[*ext][..]);
        self.hosts[to].endpoint.handle_extended(self.now, received, &mut place);
        let host = &mut self.hosts[to];
        match place[0] {
            Placement::Release => {}
            Placement::Place { msg, offset, msg_len } => {
                let message = host.incoming(msg, msg_len);
                let start = offset as usize;
                message.bytes[start..start + payload.len()].copy_from_slice(payload);
                assert!(message.placed.insert(offset), "a segment is placed once");
            }
            Placement::Parity { msg, offset, msg_len, index } => {
                let message = host.incoming(msg, msg_len);
                assert!(message.parity.insert((offset, index), payload.to_vec()).is_none());
            }
        }
        while let Some(restore) = host.endpoint.poll_restore() {
            let message = host.incoming(restore.msg, restore.msg_len);
            message.restore(&restore, self.payload_max);
        }
        host.drain();
    }

    /// Runs until all that is left is that receivers forget flows, or until `limit` of virtual
    /// time.
    fn run(&mut self, limit: Duration, done: impl Fn(&Self) -> bool) {
        let end = self.now + limit;
        while !done(self) {
            assert!(self.step(), "nothing left to happen, yet not done");
            assert!(self.now < end, "not done in {limit}: {:?}", self.hosts[0].endpoint.stats());
        }
    }
}

impl Incoming {
    fn restore(&mut self, restore: &Restore, payload_max: usize) {
        let offset = |packet: u8| restore.offset as usize + usize::from(packet) * payload_max;
        let (mut have, mut block) = (0, Vec::new());
        for packet in 0..restore.data {
            let there = self.placed.contains(&u32::try_from(offset(packet)).unwrap());
            have |= u64::from(there) << packet;
        }
        for index in 0..restore.parity {
            if let Some(bytes) = self.parity.remove(&(restore.offset, index)) {
                have |= 1 << (restore.data + index);
                block = bytes;
            }
        }
        assert_eq!(have, restore.have, "what has arrived of the block at {}", restore.offset);
        assert!(have.count_ones() >= u32::from(restore.data), "too few packets: {have:b}");
        for packet in (0..restore.data).filter(|packet| have & 1 << packet == 0) {
            let (start, within) = (offset(packet), usize::from(packet) * payload_max);
            let end = (start + payload_max).min(self.bytes.len());
            self.bytes[start..end].copy_from_slice(&block[within..within + end - start]);
        }
    }
}

impl Host {
    fn incoming(&mut self, msg: MsgId, msg_len: u32) -> &mut Incoming {
        let new = || Incoming { bytes: vec![0; msg_len as usize], ..Incoming::default() };
        self.incoming.entry(msg.0).or_insert_with(new)
    }

    fn drain(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            if let Event::Delivered { msg, len, tag, .. } = event {
                let message = self.incoming.remove(&msg.0);
                let Incoming { bytes, parity, .. } =
                    message.expect("a delivered message has bytes");
                assert!(parity.is_empty(), "parity is kept for a message that is over");
                assert_eq!(bytes.len(), len as usize);
                self.delivered.push((tag, bytes));
            }
            self.ended.push(event);
        }
    }
}

/// An erasure code of this many data and parity packets for every flow, asked for after so many
/// microseconds.
fn coded(code: Option<(u8, u8)>, patience: u64) -> (EcKind, BlockShape, EcParams) {
    let (data, parity) = code.unwrap_or((8, 2));
    let kind = if code.is_some() { EcKind::Mds } else { EcKind::Uncoded };
    let block_timeout = Some(Duration::from_us(patience));
    let params = EcParams { base_rtt_min: Duration::ZERO, block_timeout, ..EcParams::default() };
    (kind, BlockShape::new(data, parity).unwrap(), params)
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..len).map(|_| rng.next_u32().to_le_bytes()[0]).collect()
}

fn exchange(config: &Config, seed: u64, weather: Weather, sizes: &[usize]) -> Pair {
    exchange_over(Pair::new(config, seed, weather), config, seed, sizes)
}

fn exchange_over(mut pair: Pair, config: &Config, seed: u64, sizes: &[usize]) -> Pair {
    let path = config.default_path();
    let flows: Vec<FlowId> = (0..2u32)
        .map(|i| pair.hosts[i as usize].endpoint.open_flow(HostId(1 - i), path).unwrap())
        .collect();
    let mut sent = [Vec::new(), Vec::new()];
    for (i, &size) in sizes.iter().enumerate() {
        let (from, tag) = (i % 2, i as u64 + 1);
        let bytes = pattern(seed ^ tag, size);
        sent[from].push((tag, bytes.clone()));
        pair.post(from, flows[from], bytes, tag);
    }
    let wanted = sizes.len();
    pair.run(Duration::from_s(20), |p| {
        let sent: usize = p.hosts.iter().map(|h| h.count_sent()).sum();
        sent == wanted
    });
    for (from, mut sent) in sent.into_iter().enumerate() {
        let mut got = pair.hosts[1 - from].delivered.clone();
        got.sort();
        sent.sort();
        assert!(got == sent, "what arrived is not what was sent");
    }
    pair
}

impl Host {
    fn count_sent(&self) -> usize {
        self.ended.iter().filter(|e| matches!(e, Event::Sent { .. })).count()
    }
}

#[test]
fn an_endpoint_has_near_and_far_policies_at_once_each_flow_its_own_window() {
    let near =
        Path { base_rtt: Duration::from_us(12), line_rate: Rate::from_gbps(100), mtu: Bytes(4160) };
    let far = Path { base_rtt: Duration::from_ms(2), ..near };
    let config = config(|s| {
        s.far.cc = Some(CcKind::UnoCc);
        s.far.lb = Some(LbKind::Subflow);
    });
    let mut endpoint = Endpoint::new(&config, HostId(0), Rng::new(1));
    let flows = [far, near, far].map(|path| endpoint.open_flow(HostId(1), path).unwrap());
    let chosen = flows.map(|flow| endpoint.flow_policies(flow).unwrap());
    let across = Policies { cc: CcKind::UnoCc, lb: LbKind::Subflow };
    let inside = Policies { cc: CcKind::Smartt, lb: LbKind::Reps };
    assert_eq!(chosen, [across, inside, across]);
    let cwnd = flows.map(|flow| endpoint.flow_window(flow).unwrap().0.cwnd);
    assert!(cwnd[0].0 > cwnd[1].0 * 10 && cwnd[0] == cwnd[2], "{cwnd:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn every_message_arrives_once_and_intact_in_any_weather(
        seed in any::<u64>(),
        sizes in proptest::collection::vec(1usize..60_000, 1..12),
        loss in 0.0..0.2f64, duplicate in 0.0..0.2f64, reorder in 0.0..0.5f64,
        trim in 0.0..0.3f64, mark in 0.0..0.5f64,
        ack_every in 1u16..20, probe in any::<bool>(), window in prop::option::of(2u16..20),
        sched in prop::sample::select(with_a_link_alone().copied().collect::<Vec<_>>()),
        first_window in 0.0..1.5f32, ahead in 0.01..2.0f32, quantum in 1u16..8,
        code in prop::option::of((1u8..=20, 0u8..=4)), patience in 5u64..200,
        payload_max in prop::sample::select(&[200, 1024, 4096][..]),
        psn_window in prop::sample::select(&[256, 4096][..]),
    ) {
        let config = config(|s| {
            s.sched = sched;
            let credit = CreditParams { first_window, ahead, quantum, ..CreditParams::default() };
            s.sched_params.credit = credit;
            s.ack_every = ack_every;
            (s.payload_max, s.psn_window) = (payload_max, psn_window);
            (s.ec, s.ec_shape, s.ec_params) = coded(code, patience);
            s.loss = LossSettings {
                tail_probe: probe, reorder_window_quarters: window, retries_max: 64, ..s.loss
            };
        });
        exchange(&config, seed, Weather { loss, duplicate, reorder, trim, mark }, &sizes);
    }
}

#[test]
fn fair_weather_needs_no_retransmission_and_one_ack_a_segment() {
    let config = config(|_| {});
    let pair = exchange(&config, 1, Weather::default(), &[1_000_000]);
    let stats = pair.hosts[0].endpoint.stats();
    assert_eq!((stats.data_new, stats.retransmitted), (245, 0));
    assert_eq!(pair.hosts[1].endpoint.stats().acks_sent, 245);
    assert_eq!(pair.hosts[1].endpoint.stats().drops.total(), 0);
}

/// Blocks of (8,2) for every flow, asked for after 100 microseconds.
fn blocks(change: impl FnOnce(&mut Settings)) -> Config {
    config(|s| {
        (s.ec, s.ec_shape, s.ec_params) = coded(Some((8, 2)), 100);
        change(s);
    })
}

/// One message of `segments` segments over a network that drops the packets for which `drops` is
/// true.
fn over(config: &Config, segments: usize, drops: fn(&TxSegment) -> bool) -> Pair {
    let pair = Pair { drops, ..Pair::new(config, 1, Weather::default()) };
    exchange_over(pair, config, 1, &[segments * 4096])
}

/// Which packet of its block a segment sent for the first time is.
fn first_of(tx: &TxSegment) -> Option<u8> {
    let Body::Data(data) = tx.hdr.body else { return None };
    data.code.filter(|_| !data.retransmission).map(|code| code.packet())
}

#[test]
fn a_coded_flow_sends_the_parity_of_each_block_and_nothing_twice() {
    let pair = over(&blocks(|_| {}), 18, |_| false);
    let [sent, received] = [0, 1].map(|i: usize| *pair.hosts[i].endpoint.stats());
    assert_eq!((sent.data_new, sent.parity_new, sent.retransmitted), (18, 6, 0));
    assert_eq!((received.restored, received.block_nacks_sent, received.parity_kept), (0, 0, 0));
    assert_eq!((received.acks_sent, received.drops.total()), (24, 0));
}

#[test]
fn as_many_losses_a_block_as_it_has_parity_are_made_up_for_without_sending_again() {
    let pair = over(&blocks(|_| {}), 64, |tx| matches!(first_of(tx), Some(0 | 5)));
    let [sent, received] = [0, 1].map(|i: usize| *pair.hosts[i].endpoint.stats());
    assert_eq!((sent.data_new, sent.parity_new, sent.retransmitted), (64, 16, 0));
    assert_eq!((received.restored, received.block_nacks_sent), (16, 0));
    assert_eq!(sent.lost_by_timeout + sent.lost_by_block + sent.lost_by_sack, 0);
}

#[test]
fn of_a_block_that_lost_more_all_that_is_lost_is_sent_again_or_as_much_as_it_needs() {
    for (resend, again) in [(Resend::Lost, 32), (Resend::Needed, 16)] {
        // The timeout is far behind the request.
        let config = blocks(|s| {
            s.loss.rto_quarters = 4000;
            s.ec_params.resend = resend;
        });
        let pair = over(&config, 64, |tx| matches!(first_of(tx), Some(0 | 3 | 5 | 8)));
        let [sent, received] = [0, 1].map(|i: usize| *pair.hosts[i].endpoint.stats());
        assert_eq!((received.block_nacks_sent, sent.block_nacks_received), (8, 8));
        assert_eq!((sent.lost_by_block, sent.lost_by_timeout), (32, 0));
        assert_eq!((sent.retransmitted, received.restored), (again, 8), "{resend:?}");
    }
}

#[test]
fn a_block_that_is_lost_whole_is_sent_again_after_the_timeout_without_its_parity_if_set_so() {
    for (resend, again) in [(Resend::Lost, 10), (Resend::Needed, 8)] {
        let config = blocks(|s| s.ec_params.resend = resend);
        let pair = over(&config, 8, |tx| first_of(tx).is_some());
        let sent = *pair.hosts[0].endpoint.stats();
        assert_eq!((sent.retransmitted, sent.lost_by_timeout), (again, 10));
    }
}

#[test]
fn one_request_for_a_block_names_all_that_dead_paths_carry() {
    // Half of the paths are dead, and all requests but the first are lost.
    fn drops(tx: &TxSegment) -> bool {
        matches!(&tx.hdr.body, Body::BlockNack(nack) if nack.psn != Psn(0))
            || first_of(tx).is_some() && tx.hdr.ev.0.is_multiple_of(2)
    }
    let config = blocks(|s| (s.lb, s.loss.rto_quarters) = (LbKind::Subflow, 4000));
    let pair = over(&config, 64, drops);
    let sent = *pair.hosts[0].endpoint.stats();
    assert_eq!((sent.block_nacks_received, sent.lost_by_timeout), (1, 0));
    assert!(sent.lost_by_block >= 3 * 8, "{}", sent.lost_by_block);
}

#[test]
fn a_block_is_not_asked_for_while_more_of_it_arrives_unless_its_whole_time_counts() {
    for (timer, asks) in [(BlockTimer::Pause, 0), (BlockTimer::Whole, 2)] {
        let config = blocks(|s| {
            s.cc = CcKind::Fixed;
            s.cc_params.fixed.bdps = 0.0;
            // A packet each round trip: a block takes eight.
            s.ec_params.block_timeout = Some(s.base_rtt * 5);
            s.ec_params.block_timer = timer;
        });
        let pair = over(&config, 18, |_| false);
        assert_eq!(pair.hosts[1].endpoint.stats().block_nacks_sent, asks, "{timer:?}");
    }
}

#[test]
fn parity_of_a_block_that_is_whole_already_is_not_sent() {
    let config = blocks(|s| {
        s.cc = CcKind::Fixed;
        s.cc_params.fixed.bdps = 0.0;
    });
    let pair = over(&config, 18, |_| false);
    let [sent, received] = [0, 1].map(|i: usize| *pair.hosts[i].endpoint.stats());
    assert_eq!((sent.data_new, sent.parity_new, received.parity_unneeded), (18, 0, 0));
}

#[test]
fn a_lost_request_for_a_block_is_made_again() {
    fn drops(tx: &TxSegment) -> bool {
        use std::sync::atomic::{AtomicU32, Ordering};
        static LOST: AtomicU32 = AtomicU32::new(0);
        let asks = matches!(tx.hdr.body, Body::BlockNack(_));
        asks && LOST.fetch_add(1, Ordering::Relaxed) < 2 || matches!(first_of(tx), Some(1..=3))
    }
    // Here, too.
    let pair = over(&blocks(|s| s.loss.rto_quarters = 4000), 8, drops);
    let [sent, received] = [0, 1].map(|i: usize| *pair.hosts[i].endpoint.stats());
    assert_eq!((received.block_nacks_sent, sent.block_nacks_received), (3, 1));
    assert_eq!((sent.retransmitted, sent.lost_by_timeout), (3, 0));
}

#[test]
fn acknowledgements_can_be_coalesced() {
    let config = config(|s| s.ack_every = 8);
    let pair = exchange(&config, 1, Weather::default(), &[1_000_000]);
    assert_eq!(pair.hosts[0].endpoint.stats().retransmitted, 0);
    assert!(pair.hosts[1].endpoint.stats().acks_sent <= 245 / 8 + 10);
}

#[test]
fn a_trimmed_segment_is_refused_and_sent_again_within_a_round_trip() {
    let config = config(|_| {});
    let weather = Weather { trim: 0.2, ..Weather::default() };
    let pair = exchange(&config, 3, weather, &[100_000]);
    let stats = pair.hosts[0].endpoint.stats();
    assert!(stats.nacks_received > 0);
    assert_eq!(stats.retransmitted, stats.nacks_received);
    assert_eq!(stats.lost_by_timeout, 0);
}

/// Every scheduler, and the one of credit both with and without a first window.
fn schedulers() -> impl Iterator<Item = (SchedKind, SchedParams)> {
    let credit = CreditParams { first_window: 0.0, ..CreditParams::default() };
    let asking = (SchedKind::Credits, SchedParams { credit, ..SchedParams::default() });
    with_a_link_alone().map(|&kind| (kind, SchedParams::default())).chain([asking])
}

/// The schedulers that need nothing but a link between two hosts.
fn with_a_link_alone() -> impl Iterator<Item = &'static SchedKind> {
    SchedKind::ALL.iter().filter(|kind| !kind.facts().needs_network)
}

/// Schedulers that send a lost segment again as soon as it is known to be lost: with DCsim its
/// probe has to be answered first, with pHost and dcPIM a token has to come.
fn with_own_retransmissions() -> impl Iterator<Item = &'static SchedKind> {
    let waits =
        |kind: &SchedKind| matches!(kind, SchedKind::DcSim | SchedKind::Phost | SchedKind::DcPim);
    with_a_link_alone().filter(move |kind| !waits(kind))
}

#[test]
fn a_silent_peer_fails_the_message_by_name() {
    for (sched, sched_params) in schedulers() {
        silent_peer(&config(|s| {
            s.loss.retries_max = 3;
            (s.sched, s.sched_params) = (sched, sched_params);
        }));
    }
}

fn silent_peer(config: &Config) {
    let mut pair = Pair::new(config, 1, Weather { loss: 1.0, ..Weather::default() });
    let flow = pair.hosts[0].endpoint.open_flow(HostId(1), config.default_path()).unwrap();
    let msg = pair.post(0, flow, vec![7; 10_000], 0);
    pair.run(Duration::from_s(10), |p| !p.hosts[0].ended.is_empty());
    assert!(matches!(pair.hosts[0].ended[0], Event::Failed { msg: failed, .. } if failed == msg));
    let again = MsgSpec { flow, len: NonZeroU32::new(1).unwrap(), tag: 0 };
    assert_eq!(
        pair.hosts[0].endpoint.post_send(pair.now, again),
        Err(transport::PostError::FlowFailed)
    );
}

#[test]
fn a_probed_tail_does_not_put_off_giving_up() {
    for len in [1, 10_000] {
        let config = config(|s| s.loss.tail_probe = true);
        let mut pair = Pair::new(&config, 1, Weather { loss: 1.0, ..Weather::default() });
        let flow = pair.hosts[0].endpoint.open_flow(HostId(1), config.default_path()).unwrap();
        pair.post(0, flow, vec![7; len], 0);
        let patience = config.give_up_after(&config.default_path());
        pair.run(patience * 2, |p| !p.hosts[0].ended.is_empty());
        let ended = &pair.hosts[0].ended;
        assert!(matches!(ended[0], Event::Failed { .. }), "{len} bytes: {ended:?}");
    }
}

#[test]
fn after_a_long_silence_the_next_loss_waits_for_no_more_than_one_timeout() {
    for &sched in with_own_retransmissions() {
        long_silence(&config(|s| s.sched = sched));
    }
}

fn long_silence(config: &Config) {
    let path = config.default_path();
    let mut pair = Pair::new(config, 1, Weather::default());
    let flow = pair.hosts[0].endpoint.open_flow(HostId(1), path).unwrap();
    let mut send = |len, loss, timeouts, sent| {
        pair.weather.loss = loss;
        let posted = pair.now;
        if len > 0 {
            pair.post(0, flow, vec![7; len], 1);
        }
        pair.run(Duration::from_s(1), |p| {
            let host = &p.hosts[0];
            (host.endpoint.stats().lost_by_timeout, host.count_sent()) == (timeouts, sent)
        });
        pair.now.since(posted)
    };
    send(100, 1.0, 6, 0);
    send(0, 0.0, 6, 1);
    // The timeout had doubled six times when a packet got through.
    let waited = send(100, 1.0, 7, 1);
    assert!(waited <= config.rto(&path) + Duration::from_us(1), "{:?}: {waited}", config.sched);
}

#[test]
fn a_peer_that_refuses_everything_is_not_given_up_as_silent() {
    for (sched, sched_params) in schedulers() {
        refusing_peer(&config(|s| {
            s.loss.retries_max = 1;
            (s.sched, s.sched_params) = (sched, sched_params);
        }));
    }
}

fn refusing_peer(config: &Config) {
    let mut pair = Pair::new(config, 1, Weather { trim: 1.0, ..Weather::default() });
    let flow = pair.hosts[0].endpoint.open_flow(HostId(1), config.default_path()).unwrap();
    pair.post(0, flow, vec![7; 10_000], 0);
    let patience = config.give_up_after(&config.default_path());
    while pair.now < Instant::ZERO + patience * 4 {
        assert!(pair.step());
    }
    assert!(pair.hosts[0].ended.is_empty(), "{:?}", pair.hosts[0].ended);
    pair.weather = Weather::default();
    pair.run(patience * 8, |p| !p.hosts[0].ended.is_empty());
    assert!(matches!(pair.hosts[0].ended[0], Event::Sent { .. }));
}

fn credits(change: impl FnOnce(&mut CreditParams)) -> Config {
    let mut credit = CreditParams::default();
    change(&mut credit);
    let sched_params = SchedParams { credit, ..SchedParams::default() };
    config(|s| {
        (s.sched, s.sched_params) = (SchedKind::Credits, sched_params);
        // Credit decides, not the window.
        s.cc_params.smartt.window_start = 1.5;
    })
}

#[test]
fn credit_costs_a_packet_a_segment_behind_the_first_window_and_none_when_idle() {
    let config = credits(|_| {});
    let mut pair = exchange(&config, 1, Weather::default(), &[1_000_000]);
    let [sender, receiver] = [0, 1].map(|i: usize| *pair.hosts[i].endpoint.stats());
    // All of them leave before any answer arrives, so each of them opens the flow.
    let opening = config.mtu().0 + u64::from(transport::wire::data::OPEN_LEN);
    let unasked = config.default_path().bdp().0.div_ceil(opening);
    assert_eq!((sender.data_new, sender.retransmitted, sender.control_sent), (245, 0, 0));
    assert_eq!(receiver.control_sent, 245 - unasked);
    // All that is left is that receivers forget flows.
    let sent = |pair: &Pair| pair.count;
    let before = sent(&pair);
    while pair.step() {}
    assert_eq!(sent(&pair), before);
}

#[test]
fn without_a_first_window_a_flow_asks_once_and_then_its_segments_do() {
    let config = credits(|credit| credit.first_window = 0.0);
    let pair = exchange(&config, 1, Weather::default(), &[1_000_000]);
    let [sender, receiver] = [0, 1].map(|i: usize| *pair.hosts[i].endpoint.stats());
    assert_eq!((sender.data_new, sender.retransmitted, sender.control_sent), (245, 0, 1));
    // One grant for each segment, and one at the end for the opening octets; the answer is the
    // first.
    assert!((245..=246).contains(&receiver.control_sent), "{}", receiver.control_sent);
}

#[test]
fn a_peer_that_gives_no_credit_is_given_up_by_name() {
    let config = credits(|_| {});
    let mut pair = Pair::new(&config, 1, Weather::default());
    let plain = self::config(|_| {});
    pair.hosts[1].endpoint = Endpoint::new(&plain, HostId(1), Rng::new(1));
    let flow = pair.hosts[0].endpoint.open_flow(HostId(1), config.default_path()).unwrap();
    let short = pair.post(0, flow, vec![1; 100_000], 1);
    pair.run(Duration::from_s(1), |p| !p.hosts[0].ended.is_empty());
    assert_eq!(pair.hosts[0].ended[0], Event::Sent { msg: short });
    let long = pair.post(0, flow, vec![1; 1_000_000], 2);
    pair.run(Duration::from_s(10), |p| p.hosts[0].ended.len() > 1);
    assert!(matches!(pair.hosts[0].ended[1], Event::Failed { msg, .. } if msg == long));
    assert!(pair.hosts[1].endpoint.stats().drops.of(DropReason::BadSegment) > 0);
}

#[test]
fn a_flow_that_waits_for_credit_says_so() {
    let config = credits(|_| {});
    let mut pair = Pair::new(&config, 1, Weather::default());
    let flow = pair.hosts[0].endpoint.open_flow(HostId(1), config.default_path()).unwrap();
    pair.post(0, flow, vec![1; 1_000_000], 1);
    assert!(pair.step());
    assert_eq!(pair.hosts[0].endpoint.flow_wait(flow), Some(Wait::Scheduler));
}

#[test]
fn a_closed_flow_is_forgotten_at_both_ends_and_its_place_is_used_again() {
    let config = config(|s| (s.tx_flows_max, s.rx_flows_max) = (1, 1));
    let mut pair = Pair::new(&config, 1, Weather::default());
    for round in 0..3usize {
        let flow = pair.hosts[0].endpoint.open_flow(HostId(1), config.default_path()).unwrap();
        pair.post(0, flow, vec![1; 5000], 0);
        pair.hosts[0].endpoint.close_flow(pair.now, flow);
        pair.run(Duration::from_s(1), |p| p.hosts[1].delivered.len() > round);
        let busy = pair.hosts[0].endpoint.open_flow(HostId(1), config.default_path());
        assert_eq!(busy, Err(transport::PostError::FlowTableFull));
        while pair.step() {}
    }
    assert_eq!(pair.hosts[1].delivered.len(), 3);
}

#[test]
fn a_message_of_a_gibibyte_is_accepted_and_segmented() {
    let config = config(|_| {});
    let rng = Rng::new(1);
    let mut endpoint = Endpoint::new(&config, HostId(0), rng);
    let flow = endpoint.open_flow(HostId(1), config.default_path()).unwrap();
    let len = NonZeroU32::new(1 << 30).unwrap();
    endpoint.post_send(Instant::ZERO, MsgSpec { flow, len, tag: 0 }).unwrap();
    let mut burst = Burst::with_limit(BURST);
    endpoint.poll_transmit(Instant::ZERO, &mut burst);
    assert_eq!(burst.len(), BURST);
}

/// Two flows share a burst segment by segment, and the one that has more goes on alone.
#[test]
fn flows_take_turns_within_a_burst_and_the_last_has_the_rest() {
    let config = config(|_| {});
    let mut endpoint = Endpoint::new(&config, HostId(0), Rng::new(1));
    for (peer, segments) in [(1, 100), (2, 3)] {
        let flow = endpoint.open_flow(HostId(peer), config.default_path()).unwrap();
        let len = NonZeroU32::new(u32::from(config.payload_max) * segments).unwrap();
        endpoint.post_send(Instant::ZERO, MsgSpec { flow, len, tag: 0 }).unwrap();
    }
    let mut burst = Burst::with_limit(10);
    endpoint.poll_transmit(Instant::ZERO, &mut burst);
    let peers: Vec<u32> = burst.iter().map(|segment| segment.peer.0).collect();
    assert_eq!(peers, [1, 2, 1, 2, 1, 2, 1, 1, 1, 1]);
    let offsets = burst.iter().filter(|segment| segment.peer == HostId(1));
    let offsets: Vec<u32> = offsets.map(|segment| segment.payload.offset).collect();
    let expected: Vec<u32> = (0..7).map(|at| at * u32::from(config.payload_max)).collect();
    assert_eq!(offsets, expected);
}

/// A process that ends and its successor at the same address, on either side.
#[test]
fn nothing_of_a_process_is_taken_for_its_successors() {
    let config = config(|_| {});
    for restarted in 0..2 {
        let mut pair = Pair::new(&config, 1, Weather::default());
        let open = |pair: &mut Pair| {
            let path = config.default_path();
            pair.hosts[0].endpoint.open_flow(HostId(1), path).unwrap()
        };
        let flow = open(&mut pair);
        pair.post(0, flow, pattern(1, 600_000), 1);
        // In the middle of the message.
        while pair.hosts[1].incoming.is_empty() {
            assert!(pair.step());
        }
        assert!(pair.hosts[1].delivered.is_empty());
        let next = Config::new(Settings { incarnation: 2, ..(*config).clone() }).unwrap();
        let host = &mut pair.hosts[restarted];
        let id = host.endpoint.host();
        host.endpoint = Endpoint::new(&next, id, Rng::new(2));
        (host.outgoing, host.incoming) = Default::default();
        let flow = open(&mut pair);
        pair.post(0, flow, pattern(2, 600_000), 2);
        pair.run(Duration::from_s(1), |pair| {
            pair.hosts[1].delivered.iter().any(|(tag, _)| *tag == 2)
        });
        for (tag, bytes) in &pair.hosts[1].delivered {
            assert!(*bytes == pattern(*tag, 600_000), "message {tag}");
        }
    }
}
