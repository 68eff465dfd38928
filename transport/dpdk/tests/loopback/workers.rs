//! Two workers with real mbufs: their devices joined by a wire that moves frames between the rings.

use std::num::NonZeroU32;
use std::sync::Arc;

use transport::cc::CcKind;
use transport::record::Recorder;
use transport::sched::{Label, SchedKind};
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::frame::header_overhead;
use transport::{Config, Duration, HostId, Instant, Rate, Rng, Settings};
use transport_dpdk::CALIBRATION_MIN;
use transport_dpdk::neighbour::{Resolution, Resolver, Station};
use transport_dpdk::{
    AppEnd, AppMemory, Calibration, Completion, DilatedClock, Eal, Link, LinkConfig, LinkEnd,
    MbufBurst, MemoryConfig, MessageBytes, Pattern, Pool, PoolConfig, PortIo, Request, TimeScale,
    TimestampField, UdpSums, Worker, WorkerConfig, WorkerEnd, app_ring,
};

use crate::Outcome::{self, Passed};
use crate::traffic;

pub(crate) const CHECKS: &[crate::Check] = &[
    ("workers_exchange_20_mb_both_ways_over_rings_and_return_every_mbuf", ring),
    ("workers_exchange_2_mb_both_ways_over_memif_in_chains", memif),
    ("a_polling_worker_answers_every_request_for_its_address", asked),
];

pub(crate) type PortWorker = Worker<PortIo, AppMemory, DilatedClock>;

struct Host {
    worker: PortWorker,
    app: AppEnd,
    wire: LinkEnd,
    kept: MbufBurst,
    delivered: u32,
    sent: u32,
}

/// A worker at `io`, and its application.
pub(crate) fn worker(
    id: u32,
    io: PortIo,
    (clock, udp): (DilatedClock, UdpSums),
) -> (PortWorker, AppEnd) {
    let (app, end) = app_ring(64, 64);
    (shared_worker(id, io, (clock, udp), vec![end]), app)
}

/// A worker at `io` with several applications.
pub(crate) fn shared_worker(
    id: u32,
    io: PortIo,
    (clock, udp): (DilatedClock, UdpSums),
    ends: Vec<WorkerEnd>,
) -> PortWorker {
    worker_of(&config(), id, io, (clock, udp), ends)
}

/// A worker whose endpoint has other settings.
pub(crate) fn worker_of(
    config: &Config,
    id: u32,
    io: PortIo,
    (clock, udp): (DilatedClock, UdpSums),
    ends: Vec<WorkerEnd>,
) -> PortWorker {
    let store = AppMemory::new(
        config,
        &MemoryConfig {
            bytes_max: 1 << 26,
            messages_max: 100,
            parity_max: MemoryConfig::PARITY_MAX,
        },
    );
    let worker_config = WorkerConfig {
        addressing: Addressing::emulated(IpVersion::V6),
        connections_max: 4,
        msgs_max: config.msgs_max,
        stuck_after: Duration::from_s(10),
        udp,
        digest: true,
    };
    let core = Recorder::off(config, HostId(id), Rng::new(1).fork("host", u64::from(id)));
    Worker::shared(core, (io, store, clock), ends, worker_config)
}

/// Holds a full frame in one segment, as sending requires.
pub(crate) fn wide_pool(eal: &Eal, room: u16) -> Arc<Pool> {
    let config = PoolConfig { count: 4095, room, cache: 64, socket: -1 };
    Arc::new(Pool::new(eal, config).unwrap())
}

pub(crate) fn config() -> Config {
    // A machine that is busy otherwise may leave a worker alone for milliseconds.
    let settings = Settings {
        line_rate: Rate::from_gbps(10),
        base_rtt: Duration::from_ms(1),
        tx_flows_max: 4,
        rx_flows_max: 4,
        msgs_max: 16,
        ..Settings::default()
    };
    Config::new(settings).unwrap()
}

/// These settings with DCsim, for frames of IPv6.
pub(crate) fn of_dcsim(settings: Settings) -> Settings {
    let mut settings = Settings { cc: CcKind::Fixed, sched: SchedKind::DcSim, ..settings };
    settings.cc_params.fixed.bdps = 64.0;
    settings.frame_overhead = header_overhead(IpVersion::V6);
    settings.loss.reorder_window_quarters = None;
    settings
}

fn asked(eal: &Eal) -> Outcome {
    let config = traffic::link_config(eal, 9014);
    let Link { host, mut switch_side } = Link::ring(eal, &config).unwrap();
    let station = |last| Station {
        mac: [2, 0, 0, 0, 0, last],
        ip: [10, 0, 0, last].into(),
        prefix: 24,
        gateway: None,
    };
    let pool = Arc::clone(&config.host_pool);
    let io = PortIo::of_port(host, pool, None).unwrap().answering(station(1));
    let clock = Calibration::measure(CALIBRATION_MIN).unwrap().clock(TimeScale::REAL);
    let (mut worker, _app) = worker(0, io, (clock, UdpSums::Software));
    let patience = Duration::from_s(1);
    let mut resolver = Resolver::new(station(2), &[(station(1).ip, None)], Instant::ZERO, patience);
    let mut request = [0; 64];
    let length = resolver.poll_transmit(Instant::ZERO, &mut request).unwrap();
    let mut burst = MbufBurst::new();
    for frame in [&request[..length], &[7; 60], &request[..length]] {
        burst.push(traffic::packet(&config.switch_pool, frame).unwrap()).unwrap();
    }
    assert_eq!(switch_side.tx_burst(&mut burst), 3);
    worker.poll_once();
    assert_eq!((worker.counts().malformed, worker.io().answers()), (3, 2));
    assert_eq!(switch_side.rx_burst(&mut burst), 2);
    assert!(resolver.handle_frame(burst.get(0).unwrap().data()));
    assert_eq!(resolver.peer(0), Resolution::Known(station(1).mac));
    drop((burst, worker, switch_side));
    assert_eq!((config.host_pool.in_use(), config.switch_pool.in_use()), (0, 0));
    Passed
}

fn host(eal: &Eal, id: u32, link: Link, pool: &Arc<Pool>, clock: DilatedClock) -> Host {
    let config = config();
    let stamps = TimestampField::register(eal).unwrap();
    let io = PortIo::of_port(link.host, Arc::clone(pool), Some(stamps)).unwrap();
    let io = io.paced(config.line_rate, config.mtu());
    let (worker, app) = worker(id, io, (clock, UdpSums::Software));
    let (wire, kept) = (link.switch_side, MbufBurst::new());
    Host { worker, app, wire, kept, delivered: 0, sent: 0 }
}

impl Host {
    fn ask(&mut self, peer: u32, messages: u32, len: u32) {
        let path = config().default_path();
        self.app
            .submit(Request::Open { connection: 0, peer: HostId(peer), path, label: Label::NONE })
            .unwrap();
        for tag in 0..messages {
            let source =
                MessageBytes::Pattern(Pattern { seed: u64::from(peer), tag: u64::from(tag) });
            let len = NonZeroU32::new(len).unwrap();
            let (tag, cookie) = (u64::from(tag), 0);
            self.app.submit(Request::Send { connection: 0, source, len, tag, cookie }).unwrap();
        }
    }

    fn listen(&mut self) {
        while let Some(completion) = self.app.poll() {
            match completion {
                Completion::Delivered { tag, checksum, memory, .. } => {
                    let seed = u64::from(self.worker.endpoint().host().0);
                    let len = u32::try_from(memory.len()).unwrap();
                    assert_eq!(checksum, Pattern { seed, tag }.checksum(len), "message {tag}");
                    self.delivered += 1;
                }
                Completion::Sent { .. } => self.sent += 1,
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Frames that `from` has sent go to `to`; what does not fit waits.
fn carry(from: &mut Host, to: &mut Host) {
    from.wire.rx_burst(&mut from.kept);
    to.wire.tx_burst(&mut from.kept);
}

fn exchange(mut hosts: [Host; 2], (messages, len): (u32, u32)) {
    hosts[0].ask(1, messages, len);
    hosts[1].ask(0, messages, len);
    let started = hosts[0].worker.poll_once().now;
    let [a, b] = &mut hosts;
    while a.delivered + b.delivered + a.sent + b.sent < 4 * messages {
        let progress = a.worker.poll_once();
        b.worker.poll_once();
        carry(a, b);
        carry(b, a);
        a.listen();
        b.listen();
        let late = progress.now.since(started) > Duration::from_s(30);
        assert!(!late, "{:?} {:?}", a.worker.stats(), b.worker.stats());
    }
    for host in [a, b] {
        let (counts, stats) = (*host.worker.counts(), *host.worker.stats());
        assert_eq!(stats.data_placed_bytes, u64::from(messages) * u64::from(len));
        assert_eq!(counts.filled, counts.handed_over);
        assert_eq!((counts.malformed, counts.stuck, counts.unsendable), (0, 0, 0));
        assert_eq!(host.worker.store().held_messages(), 0);
    }
}

fn ring(eal: &Eal) -> Outcome {
    let clock = Calibration::measure(CALIBRATION_MIN).unwrap().clock(TimeScale::REAL);
    let pools = [wide_pool(eal, 4608), wide_pool(eal, 4608)];
    let [one, two] = [0, 1].map(|i: usize| {
        let (host_pool, switch_pool) = (Arc::clone(&pools[i]), Arc::clone(&pools[i]));
        let config = LinkConfig { max_frame: 4300, depth: 512, host_pool, switch_pool };
        Link::ring(eal, &config).unwrap()
    });
    let hosts = [host(eal, 0, one, &pools[0], clock), host(eal, 1, two, &pools[1], clock)];
    exchange(hosts, (10, 2_000_000));
    assert_eq!((pools[0].in_use(), pools[1].in_use()), (0, 0));
    Passed
}

fn memif(eal: &Eal) -> Outcome {
    let clock = Calibration::measure(CALIBRATION_MIN).unwrap().clock(TimeScale::REAL);
    let pools = [wide_pool(eal, 4608), wide_pool(eal, 4608)];
    let narrow = wide_pool(eal, 2048);
    let links = [0, 1].map(|i: usize| {
        let (host_pool, switch_pool) = (Arc::clone(&narrow), Arc::clone(&pools[i]));
        let config = LinkConfig { max_frame: 4300, depth: 512, host_pool, switch_pool };
        Link::memif(eal, &config).unwrap()
    });
    for link in &links {
        assert!(link.wait_up(10_000), "memif connects within seconds");
    }
    let [one, two] = links;
    let hosts = [host(eal, 0, one, &pools[0], clock), host(eal, 1, two, &pools[1], clock)];
    exchange(hosts, (4, 500_000));
    assert_eq!((pools[0].in_use(), pools[1].in_use(), narrow.in_use()), (0, 0, 0));
    Passed
}
