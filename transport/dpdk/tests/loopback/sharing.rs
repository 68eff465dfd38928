//! Shared resources: memory that a device still reads, a pool that is empty, a device that several
//! workers share.

use std::num::NonZeroU32;
use std::sync::Arc;

use transport::ec::EcKind;
use transport::sched::Label;
use transport::wire::addressing::{Addressing, IpVersion};
use transport::{Config, Duration, HostId, Instant, Settings};
use transport_dpdk::CALIBRATION_MIN;
use transport_dpdk::{
    AppEnd, Calibration, Completion, DilatedClock, Eal, Link, LinkConfig, LinkEnd, Mbuf, MbufBurst,
    MessageBytes, PacketIo, Pattern, Pool, PoolConfig, PortIo, Region, Request, Rung, TimeScale,
    UdpSums, app_ring, share,
};

use crate::Outcome::{self, Passed, Skipped};
use crate::workers::{PortWorker, config, shared_worker, wide_pool, worker, worker_of};

pub(crate) const CHECKS: &[crate::Check] = &[
    ("a_region_is_free_again_only_when_acknowledged_and_freed_by_the_device", held_back),
    ("a_region_arrives_in_place_with_and_without_udp_checksums", in_place),
    ("coded_segments_in_a_region_are_attached_and_restored_from_parity", coded),
    ("what_is_sent_again_is_copied", sent_again),
    ("a_worker_without_buffers_waits_and_loses_nothing", starved),
    ("three_threads_share_two_workers_and_a_full_ring_loses_nothing", threads),
    ("no_packet_of_a_flow_reaches_two_workers_of_a_device_that_sprays", steered),
    ("a_worker_reads_its_own_queue_and_full_rings_in_turn", in_turn),
];

const LEN: u32 = 100_000;

/// One end of a link between two workers of one thread.
struct End {
    worker: PortWorker,
    app: AppEnd,
    wire: LinkEnd,
    frames: MbufBurst,
    completions: Vec<Completion>,
}

fn clock() -> DilatedClock {
    Calibration::measure(CALIBRATION_MIN).unwrap().clock(TimeScale::REAL)
}

fn link_config(pool: &Arc<Pool>) -> LinkConfig {
    let (host_pool, switch_pool) = (Arc::clone(pool), Arc::clone(pool));
    LinkConfig { max_frame: 4300, depth: 512, host_pool, switch_pool }
}

/// Headers only.
fn small_pool(eal: &Eal, count: u32) -> Arc<Pool> {
    let config = PoolConfig { count, room: 128, cache: 0, socket: -1 };
    Arc::new(Pool::new(eal, config).unwrap())
}

impl End {
    fn new(eal: &Eal, id: u32, pools: [&Arc<Pool>; 2], clock: DilatedClock) -> Self {
        Self::with(eal, id, pools, (clock, UdpSums::Software))
    }

    fn with(eal: &Eal, id: u32, pools: [&Arc<Pool>; 2], clock: (DilatedClock, UdpSums)) -> Self {
        Self::of(eal, pools, |io| worker(id, io, clock))
    }

    fn of(
        eal: &Eal,
        pools: [&Arc<Pool>; 2],
        worker: impl FnOnce(PortIo) -> (PortWorker, AppEnd),
    ) -> Self {
        let link = Link::ring(eal, &link_config(pools[0])).unwrap();
        let io = PortIo::of_port(link.host, Arc::clone(pools[0]), None).unwrap();
        let (worker, app) = worker(io.attaching(Arc::clone(pools[1])));
        let (wire, frames) = (link.switch_side, MbufBurst::new());
        Self { worker, app, wire, frames, completions: Vec::new() }
    }

    fn open(&mut self, connection: u32, peer: u32) {
        let path = config().default_path();
        self.app
            .submit(Request::Open { connection, peer: HostId(peer), path, label: Label::NONE })
            .unwrap();
    }

    fn send(&mut self, connection: u32, source: MessageBytes, tag: u64) {
        let len = NonZeroU32::new(LEN).unwrap();
        let request = Request::Send { connection, source, len, tag, cookie: tag };
        self.app.submit(request).unwrap();
    }

    fn turn(&mut self) {
        self.worker.poll_once();
        self.completions.extend(std::iter::from_fn(|| self.app.poll()));
        self.wire.rx_burst(&mut self.frames);
    }

    fn delivered(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.completions.iter().filter_map(|completion| match completion {
            Completion::Delivered { tag, memory, .. } => Some((*tag, &**memory)),
            _ => None,
        })
    }

    fn sent(&self) -> usize {
        self.completions
            .iter()
            .filter(|completion| matches!(completion, Completion::Sent { .. }))
            .count()
    }
}

/// The far end gets copies of all frames; `held` keeps the frames themselves, as a device that is
/// slow to give them back.
fn copies(from: &mut End, to: &mut End, pool: &Pool, held: &mut Vec<Mbuf>) {
    let mut copies = MbufBurst::new();
    for mbuf in from.frames.drain() {
        let mut copy = mbuf.deep_copy(pool).unwrap();
        assert!(copy.nb_segs() == 1 || copy.linearize());
        copies.push(copy).unwrap();
        held.push(mbuf);
    }
    to.wire.tx_burst(&mut copies);
    assert!(copies.is_empty(), "the link takes them all");
}

fn expected() -> Vec<u8> {
    let mut bytes = vec![0; LEN as usize];
    Pattern { seed: 3, tag: 1 }.read(0, &mut bytes);
    bytes
}

/// A region of `bytes`, or why devices have none here.
fn region_of(eal: &Eal, bytes: Vec<u8>) -> Result<Arc<Region>, Outcome> {
    let region = Region::new(eal, bytes.into_boxed_slice()).map(Arc::new);
    region.map_err(|refused| Skipped(refused.to_string()))
}

fn held_back(eal: &Eal) -> Outcome {
    let clock = clock();
    let (wide, small) = (wide_pool(eal, 4608), small_pool(eal, 1023));
    let region = match region_of(eal, expected()) {
        Ok(region) => region,
        Err(refused) => return refused,
    };
    let mut region = Some(region);
    let mut held = Vec::new();
    {
        let mut one = End::new(eal, 0, [&wide, &small], clock);
        let mut two = End::new(eal, 1, [&wide, &small], clock);
        one.open(0, 1);
        let shared = Arc::clone(region.as_ref().unwrap());
        one.send(0, MessageBytes::Region { region: shared, offset: 0 }, 1);
        let mut acks = Vec::new();
        // Far longer than the exchange takes: everything is acknowledged, nothing is reported.
        for _ in 0..20_000 {
            one.turn();
            two.turn();
            copies(&mut one, &mut two, &wide, &mut held);
            copies(&mut two, &mut one, &wide, &mut acks);
        }
        assert!(two.delivered().eq([(1, &*expected())]));
        assert_eq!(one.worker.stats().messages_sent, 1, "it is wholly acknowledged");
        let attached = one.worker.counts().attached;
        assert_eq!((attached, one.sent()), (LEN.div_ceil(4096).into(), 0));
        assert!(!one.worker.is_abandoned());
        assert!(Arc::get_mut(region.as_mut().unwrap()).is_none(), "a device reads it");
        // All but one are given back: still not enough.
        let last = held.iter().rposition(|mbuf| mbuf.nb_segs() == 2).unwrap();
        let last = held.swap_remove(last);
        held.clear();
        one.turn();
        assert_eq!(one.sent(), 0);
        drop(last);
        one.turn();
        assert_eq!(one.sent(), 1);
    }
    let bytes = Arc::get_mut(region.as_mut().unwrap()).expect("it is the application's again");
    bytes.bytes_mut().fill(0);
    assert_eq!((wide.in_use(), small.in_use()), (0, 0));
    Passed
}

/// Frames in two pieces, the second of them the sender's memory, go from worker to worker.
fn in_place(eal: &Eal) -> Outcome {
    let clock = clock();
    let (wide, small) = (wide_pool(eal, 4608), small_pool(eal, 1023));
    let bytes = [&b"odd"[..], &expected()].concat();
    let region = match region_of(eal, bytes) {
        Ok(region) => region,
        Err(refused) => return refused,
    };
    for udp in [UdpSums::Software, UdpSums::Without] {
        let mut one = End::with(eal, 0, [&wide, &small], (clock, udp));
        let mut two = End::with(eal, 1, [&wide, &small], (clock, udp));
        one.open(0, 1);
        one.send(0, MessageBytes::Region { region: Arc::clone(&region), offset: 3 }, 1);
        run(&mut one, &mut two);
        assert!(two.delivered().eq([(1, &*expected())]));
        assert_eq!(one.worker.counts().attached, u64::from(LEN.div_ceil(4096)));
        assert_eq!(two.worker.stats().drops.total(), 0);
        drop((one, two));
        assert_eq!((wide.in_use(), small.in_use(), Arc::strong_count(&region)), (0, 0, 1));
    }
    Passed
}

/// Turns both, and carries their frames, until `one` has its report that the message is over.
fn run(one: &mut End, two: &mut End) {
    run_with_losses(one, two, |_| false);
}

/// [`run`] with loss: frames of `one` whose number, from 0, `is_lost` do not arrive.
fn run_with_losses(one: &mut End, two: &mut End, is_lost: impl Fn(u64) -> bool) {
    let (started, mut carried) = (one.worker.poll_once().now, 0);
    while one.sent() == 0 {
        one.turn();
        two.turn();
        let mut arrive = MbufBurst::new();
        for mbuf in one.frames.drain() {
            if !is_lost(carried) {
                arrive.push(mbuf).unwrap();
            }
            carried += 1;
        }
        two.wire.tx_burst(&mut arrive);
        one.wire.tx_burst(&mut two.frames);
        let late = one.worker.poll_once().now.since(started) > Duration::from_s(20);
        assert!(!late, "{:?}", one.worker.stats());
    }
}

/// A region goes in erasure-coded blocks, each of which loses two frames.
fn coded(eal: &Eal) -> Outcome {
    let clock = clock();
    let (wide, small) = (wide_pool(eal, 4608), small_pool(eal, 1023));
    let region = match region_of(eal, expected()) {
        Ok(region) => region,
        Err(refused) => return refused,
    };
    let settings = Settings { ec: EcKind::Mds, ..(*config()).clone() };
    let config = Config::new(settings).unwrap();
    let end = |id| {
        End::of(eal, [&wide, &small], |io| {
            let (app, ring) = app_ring(64, 64);
            (worker_of(&config, id, io, (clock, UdpSums::Software), vec![ring]), app)
        })
    };
    let (mut one, mut two) = (end(0), end(1));
    one.open(0, 1);
    one.send(0, MessageBytes::Region { region: Arc::clone(&region), offset: 0 }, 1);
    // The first two of ten are lost.
    run_with_losses(&mut one, &mut two, |frame| frame % 10 < 2);
    assert!(two.delivered().eq([(1, &*expected())]));
    // 25 segments in blocks of 8, 8, 8 and 1, each with two of parity.
    let (sent, counts) = (*one.worker.stats(), *one.worker.counts());
    assert!(two.worker.stats().restored >= 6, "{:?}", two.worker.stats());
    assert_eq!((sent.data_new, counts.unsendable), (25, 0));
    assert!(counts.attached == 25 && counts.attached < counts.filled, "parity is copied");
    drop((one, two));
    assert_eq!((wide.in_use(), small.in_use(), Arc::strong_count(&region)), (0, 0, 1));
    Passed
}

/// Cards need it so: an acknowledgement proves that they have read what was attached.
fn sent_again(eal: &Eal) -> Outcome {
    let clock = clock();
    let (wide, small) = (wide_pool(eal, 4608), small_pool(eal, 1023));
    let region = match region_of(eal, expected()) {
        Ok(region) => region,
        Err(refused) => return refused,
    };
    let mut one = End::new(eal, 0, [&wide, &small], clock);
    let mut two = End::new(eal, 1, [&wide, &small], clock);
    one.open(0, 1);
    one.send(0, MessageBytes::Region { region: Arc::clone(&region), offset: 0 }, 1);
    run_with_losses(&mut one, &mut two, |frame| frame % 4 == 3);
    assert!(two.delivered().eq([(1, &*expected())]));
    let (sent, counts) = (*one.worker.stats(), *one.worker.counts());
    assert!(sent.retransmitted >= 6, "{sent:?}");
    assert_eq!((sent.data_new, counts.attached), (25, 25));
    drop((one, two));
    assert_eq!((wide.in_use(), small.in_use(), Arc::strong_count(&region)), (0, 0, 1));
    Passed
}

fn starved(eal: &Eal) -> Outcome {
    let clock = clock();
    let (wide, small) = (wide_pool(eal, 4608), small_pool(eal, 64));
    let narrow = PoolConfig { count: 31, room: 4608, cache: 0, socket: -1 };
    let narrow = Arc::new(Pool::new(eal, narrow).unwrap());
    {
        let mut one = End::new(eal, 0, [&narrow, &small], clock);
        let mut two = End::new(eal, 1, [&wide, &small], clock);
        one.open(0, 1);
        one.send(0, MessageBytes::Pattern(Pattern { seed: 3, tag: 1 }), 1);
        // Another holder has every buffer.
        let taken: Vec<Mbuf> = std::iter::from_fn(|| narrow.alloc()).collect();
        (0..100).for_each(|_| one.turn());
        assert!(one.frames.is_empty() && one.worker.io().starved() >= 99);
        drop(taken);
        run(&mut one, &mut two);
        assert!(two.delivered().eq([(1, &*expected())]));
    }
    assert_eq!((wide.in_use(), small.in_use(), narrow.in_use()), (0, 0, 0));
    Passed
}

const THREADS: u64 = 3;
const MESSAGES: u64 = 60;

/// An application thread: sends through the first worker, listens at the second, and gives back
/// what it received and how often a ring was full.
fn application(number: u64, mut out: AppEnd, mut inn: AppEnd) -> (Vec<u64>, u64) {
    let path = config().default_path();
    out.submit(Request::Open { connection: 0, peer: HostId(1), path, label: Label::NONE }).unwrap();
    let (mut completions, mut full, mut next, mut sent) = (Vec::new(), 0, 0, 0);
    while completions.len() < usize::try_from(MESSAGES).unwrap() || sent < MESSAGES {
        while next < MESSAGES {
            let tag = number << 48 | next;
            let source = MessageBytes::Pattern(Pattern { seed: 3, tag });
            let len = NonZeroU32::new(3000).unwrap();
            let send = Request::Send { connection: 0, source, len, tag, cookie: tag };
            if out.submit(send).is_err() {
                full += 1;
                break;
            }
            next += 1;
        }
        while let Some(completion) = out.poll() {
            let Completion::Sent { cookie, .. } = completion else { panic!("{completion:?}") };
            assert_eq!(cookie >> 48, number, "another thread's message");
            sent += 1;
        }
        while let Some(completion) = inn.poll() {
            let Completion::Delivered { tag, checksum, .. } = completion else {
                panic!("{completion:?}")
            };
            assert_eq!(checksum, Pattern { seed: 3, tag }.checksum(3000));
            completions.push(tag);
        }
        std::thread::yield_now();
    }
    (completions, full)
}

/// Rings of two descriptors, so that both directions are full most of the time.
fn threads(eal: &Eal) -> Outcome {
    let clock = (clock(), UdpSums::Software);
    let pool = wide_pool(eal, 4608);
    let (one, two) = Link::ring_pair(eal, &link_config(&pool)).unwrap();
    let io = |port| PortIo::of_port(port, Arc::clone(&pool), None).unwrap();
    let (outs, out_ends): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| app_ring(2, 2)).unzip();
    let (ins, in_ends): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| app_ring(2, 2)).unzip();
    let mut one = shared_worker(0, io(one), clock, out_ends);
    let mut two = shared_worker(1, io(two), clock, in_ends);
    let threads: Vec<_> = (0..THREADS)
        .zip(outs.into_iter().zip(ins))
        .map(|(number, (out, inn))| std::thread::spawn(move || application(number, out, inn)))
        .collect();
    let started = one.poll_once().now;
    while !threads.iter().all(std::thread::JoinHandle::is_finished) {
        let now = one.poll_once().now;
        two.poll_once();
        std::thread::yield_now();
        assert!(now.since(started) < Duration::from_s(30), "{:?} {:?}", one.stats(), two.stats());
    }
    for (number, thread) in (0..).zip(threads) {
        let (mut completions, full) = thread.join().unwrap();
        completions.sort_unstable();
        assert!(completions.into_iter().eq((0..MESSAGES).map(|next| number << 48 | next)));
        assert!(full > 0, "a ring of two was never full");
    }
    assert!(one.is_abandoned() && two.is_abandoned());
    drop((one, two));
    assert_eq!(pool.in_use(), 0);
    Passed
}

const WORKERS: u32 = 4;

/// Hosts 0 ..= 3 share a device of four queues; hosts 4 ..= 7 are on links of their own. Every
/// frame to the shared device goes to the next queue, whichever host it is for.
fn steered(eal: &Eal) -> Outcome {
    let clock = clock();
    let (wide, small) = (wide_pool(eal, 4608), small_pool(eal, 1023));
    {
        let addressing = Addressing::emulated(IpVersion::V6);
        let hosts: Vec<HostId> = (0..WORKERS).map(HostId).collect();
        let queues = u16::try_from(WORKERS).unwrap();
        let (port, wires) = Link::ring_queues(eal, &link_config(&wide), queues).unwrap();
        assert_eq!(port.caps().queues, queues);
        let shared = share(eal, port, &wide, (&hosts, &addressing), 256).unwrap();
        // A ring takes no rules and has no hash: every step down must leave it working.
        assert_eq!(shared[0].queue().caps().steering, Rung::Software);
        let queues = shared.into_iter().zip(wires);
        let mut near: Vec<End> = (0..WORKERS)
            .zip(queues)
            .map(|(id, (io, wire))| {
                let (worker, app) = worker(id, io, (clock, UdpSums::Software));
                End { worker, app, wire, frames: MbufBurst::new(), completions: Vec::new() }
            })
            .collect();
        let far = |id| End::new(eal, id, [&wide, &small], clock);
        let mut far: Vec<End> = (WORKERS..2 * WORKERS).map(far).collect();
        for (host, end) in (0..).zip(near.iter_mut().chain(&mut far)) {
            // Two flows to different hosts of the other side.
            let base = if host < WORKERS { WORKERS } else { 0 };
            for (connection, step) in [(0, 0), (1, 1)] {
                end.open(connection, base + (host + step) % WORKERS);
                let tag = u64::from(host * 2 + connection + 1);
                end.send(connection, MessageBytes::Pattern(Pattern { seed: 3, tag }), tag);
            }
        }
        exchange(&mut near, &mut far);
        check_steering(&mut near);
    }
    assert_eq!((wide.in_use(), small.in_use()), (0, 0));
    Passed
}

/// The queue of worker 0, and the ring from worker 1 to it, bring a burst each round.
fn in_turn(eal: &Eal) -> Outcome {
    let (wide, small) = (wide_pool(eal, 4608), small_pool(eal, 1023));
    {
        let addressing = Addressing::emulated(IpVersion::V6);
        let hosts = [HostId(0), HostId(1)];
        let (port, mut wires) = Link::ring_queues(eal, &link_config(&wide), 2).unwrap();
        let mut shared = share(eal, port, &wide, (&hosts, &addressing), 64).unwrap();
        let mut far = End::new(eal, 4, [&wide, &small], clock());
        far.open(0, 0);
        far.send(0, MessageBytes::Pattern(Pattern { seed: 3, tag: 1 }), 1);
        while far.frames.is_empty() {
            far.turn();
        }
        let frame = crate::traffic::bytes(far.frames.get(0).unwrap());
        let mut received = 0;
        for _ in 0..64 {
            for wire in &mut wires {
                let mut burst = MbufBurst::new();
                while burst.room() > 0 {
                    burst.push(crate::traffic::packet(&wide, &frame).unwrap()).unwrap();
                }
                wire.tx_burst(&mut burst);
            }
            assert_eq!(shared[1].rx_burst(Instant::ZERO), 0, "frames of another worker's host");
            received += shared[0].rx_burst(Instant::ZERO) as u64;
        }
        let taken = shared[0].hand_over().taken;
        let least = taken.min(received - taken);
        assert!(least * 3 >= received, "{taken} of {received} frames by the ring");
    }
    assert_eq!((wide.in_use(), small.in_use()), (0, 0));
    Passed
}

/// Runs until every end has sent and received both of its messages.
fn exchange(near: &mut [End], far: &mut [End]) {
    let started = near[0].worker.poll_once().now;
    let mut next = 0;
    let is_done = |end: &End| end.sent() == 2 && end.delivered().count() == 2;
    while !near.iter().chain(&*far).all(is_done) {
        for end in near.iter_mut().chain(&mut *far) {
            end.turn();
        }
        for from in &mut *far {
            for mbuf in from.frames.drain() {
                let mut one = MbufBurst::new();
                one.push(mbuf).unwrap();
                near[next % 4].wire.tx_burst(&mut one);
                next += 1;
            }
        }
        // Frames of the near hosts are routed by the addresses in them.
        for from in &mut *near {
            for mbuf in from.frames.drain() {
                let route = transport::wire::frame::route_of(
                    mbuf.data(),
                    &Addressing::emulated(IpVersion::V6),
                );
                let to = usize::try_from(route.unwrap().dst.0 - WORKERS).unwrap();
                let mut one = MbufBurst::new();
                one.push(mbuf).unwrap();
                far[to].wire.tx_burst(&mut one);
            }
        }
        let late = near[0].worker.poll_once().now.since(started) > Duration::from_s(30);
        assert!(!late, "{:?}", near[0].worker.stats());
    }
    // The last acknowledgements are still on the wires and in the rings between workers. A round
    // that brings no frame leaves all of them empty.
    let mut before = None;
    while before != Some(brought(near)) {
        before = Some(brought(near));
        near.iter_mut().for_each(End::turn);
    }
}

/// Frames that came from the wires so far, and those that came through rings once more.
fn brought(near: &mut [End]) -> u64 {
    let of = |end: &mut End| end.worker.counts().received + end.worker.io().hand_over().given;
    near.iter_mut().map(of).sum()
}

fn check_steering(near: &mut [End]) {
    let mut handed = (0, 0);
    for end in near {
        for (tag, bytes) in end.delivered() {
            let mut expected = vec![0; LEN as usize];
            Pattern { seed: 3, tag }.read(0, &mut expected);
            assert!(bytes == expected, "message {tag} is damaged");
        }
        // A packet of another's flow would be foreign, or name a flow that is not here.
        let counts = *end.worker.counts();
        assert_eq!((counts.foreign, counts.malformed, counts.refused), (0, 0, 0));
        assert_eq!(end.worker.stats().drops.total(), 0);
        assert_eq!(end.worker.stats().data_placed_bytes, u64::from(2 * LEN));
        let over = end.worker.io().hand_over();
        assert!(over.given > 0 && over.taken > 0 && over.ring_full == 0, "{over:?}");
        handed = (handed.0 + over.given, handed.1 + over.taken);
    }
    assert_eq!(handed.0, handed.1, "what is given is taken");
}
