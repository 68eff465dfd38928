//! Two workers of one process at two devices that something else connects: a cable, a switch, a
//! virtual machine's hub. Started with `--pair DEVICE DEVICE [KEY=VALUE]...` the binary runs them
//! in a fresh EAL, and checks every byte and the devices' own counters. It reports on standard
//! output: a line `port ...` for each device and a line `pair ...` at the end.
//!
//! | Key | Is | Unless given |
//! |---|---|---|
//! | `frame` | longest frame, bytes without FCS | 1514 |
//! | `messages`, `bytes` | messages each way, and their length | 8, 1 000 000 |
//! | `seconds` | after which it has failed | 60 |
//! | `workers` | workers at each device, with a queue each | 1 |
//! | `attach` | `yes`, `no`: devices must, must not read payload where it lies | neither |
//! | `transport` | `smartt` or `dcsim` | `smartt` |
//!
//! Every other message lies in a region, which must be the application's again when its message is
//! reported as sent, and is overwritten then; the rest is made up where it is sent.
//!
//! With several workers a line `worker ...` shows what came to each queue and what was handed over;
//! a packet of a flow at another worker than the flow's would be foreign there, and fail.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::process::{Command, ExitCode, Stdio};
use std::str::FromStr;
use std::sync::Arc;

use transport::sched::{Label, Sched};
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::frame::PLAIN_HEADERS_MAX;
use transport::{Config, Duration, Endpoint, HostId, LossSettings, Rate, Settings};
use transport_dpdk::CALIBRATION_MIN;
use transport_dpdk::{
    AppEnd, Calibration, Completion, DeviceName, DevicePort, Eal, EalOptions, LogLevel,
    MessageBytes, Pattern, Pool, PoolConfig, PortConfig, PortIo, Region, Request, TimeScale,
    UdpSums, app_ring, share,
};

use crate::Outcome::{self, Passed};
use crate::workers::{PortWorker, of_dcsim, worker_of};

pub(crate) const CHECKS: &[crate::Check] =
    &[("a_pair_at_two_devices_named_by_the_user_exchanges_16_mb", memif_pair)];

/// RTT_p of DCsim. Emulated processors stand still for tens of milliseconds, and a SIM-ACK that
/// comes later than RTT_max, which is RTT_p and the time in queues, counts as lost.
const DCSIM_RTT: Duration = Duration::from_ms(20);

/// One device with its worker and its application.
struct End {
    name: String,
    driver: String,
    worker: PortWorker,
    app: AppEnd,
    /// Regions by tag; messages whose bytes are a pattern have none.
    regions: Vec<Option<Arc<Region>>>,
    delivered: u32,
    sent: u32,
}

fn memif_pair(_eal: &Eal) -> Outcome {
    for transport in ["smartt", "dcsim"] {
        let socket = format!("socket=hr-pair-{},socket-abstract=yes,id=0", std::process::id());
        let child = Command::new(std::env::current_exe().unwrap())
            .arg("--pair")
            .args([format!("net_memif0,{socket}"), format!("net_memif1,role=client,{socket}")])
            .args(["frame=2000", "messages=8", "bytes=1000000", "attach=yes"])
            .arg(format!("transport={transport}"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let (printed, errors) =
            (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
        assert!(child.status.success(), "{printed}{errors}");
        assert!(printed.contains("pair net_memif ok 16000000 B"), "{printed}");
        assert_eq!(printed.contains("SIMs"), transport == "dcsim", "{printed}");
    }
    Passed
}

/// The value of `key` among the arguments.
fn value<T: FromStr>(options: &BTreeMap<&str, &str>, key: &str, default: T) -> T {
    let parse = |text: &&str| text.parse().unwrap_or_else(|_| panic!("{key}={text}: no number"));
    options.get(key).map_or(default, parse)
}

/// The child, or the guest's first program.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let (names, options) = arguments.split_at(2.min(arguments.len()));
    let [one, two] = names else { panic!("--pair DEVICE DEVICE [KEY=VALUE]...") };
    let options: BTreeMap<_, _> = options.iter().filter_map(|text| text.split_once('=')).collect();
    let names = [one, two].map(|name| name.parse().unwrap_or_else(|error| panic!("{error}")));
    let names = names.map(|name: DeviceName| name.resolved().unwrap_or_else(|e| panic!("{e}")));
    let start =
        EalOptions { memory_mb: 160, log_level: LogLevel::Warning, ..EalOptions::default() };
    let start = names.iter().fold(start, |start, name| name.allowed_in(start));
    let eal = Eal::start(&start).unwrap_or_else(|error| panic!("{error}"));
    let _thread = eal.register_thread().unwrap();
    let (messages, bytes) = (value(&options, "messages", 8), value(&options, "bytes", 1_000_000));
    let limit = Duration::from_s(value(&options, "seconds", 60));
    let sizes = (value(&options, "frame", 1514), value(&options, "workers", 1));
    let transport = options.get("transport").copied().unwrap_or("smartt");
    let (ends, pools, config) = open(&eal, &names, sizes, transport);
    let attached = exchange(&eal, ends, &config, (messages, bytes), limit);
    assert_eq!(pools.map(|pool| pool.in_use()), [0; 3], "buffers are held");
    if let Some(wanted) = options.get("attach") {
        assert_eq!(attached > 0, *wanted == "yes", "{attached} segments attached");
    }
    ExitCode::SUCCESS
}

/// Both devices, the pools that they send from and receive into, and their endpoints' settings.
fn open(
    eal: &Eal,
    names: &[DeviceName; 2],
    (max_frame, workers): (u32, u16),
    transport: &str,
) -> (Vec<End>, [Arc<Pool>; 3], Config) {
    let clock = Calibration::measure(CALIBRATION_MIN).unwrap().clock(TimeScale::REAL);
    let room = u16::try_from(max_frame.max(2048)).unwrap();
    let config_of = PoolConfig { count: 4095, room, cache: 64, socket: -1 };
    let pools = [0, 1].map(|_| Arc::new(Pool::new(eal, config_of).unwrap()));
    let [mut one, mut two] = [0, 1].map(|i: usize| {
        // One sums in software, so that no device's sums are checked by the same device only.
        let checksums = i == 0;
        let wish = PortConfig { max_frame, checksums, queues: workers, ..PortConfig::default() };
        let port = names[i].open(eal, &wish, Arc::clone(&pools[i]));
        port.unwrap_or_else(|error| panic!("{error}"))
    });
    if one.caps().driver == "net_memif" {
        two.tie_to(&mut one);
    }
    for port in [&one, &two] {
        assert!(port.wait_link(15_000), "the link of {} stays down", port.name());
    }
    let small = PoolConfig { room: 256, ..config_of };
    let small = Arc::new(Pool::new(eal, small).unwrap());
    let config = config(&one, (max_frame, workers), transport);
    let ends = |first: u32, port: DevicePort, pool: &Arc<Pool>| -> Vec<End> {
        let (name, driver) = (port.name().to_owned(), port.caps().driver.clone());
        let hosts: Vec<HostId> = (first..first + u32::from(workers)).map(HostId).collect();
        let addressing = Addressing::emulated(IpVersion::V6);
        let shared = share(eal, port, pool, (&hosts, &addressing), 256);
        let shared = shared.unwrap_or_else(|error| panic!("{error}"));
        println!("port {name} {}", shared[0].queue().caps());
        let end = |(host, io): (&HostId, PortIo)| {
            let io = io.attaching(Arc::clone(&small));
            let (app, end) = app_ring(64, 64);
            let worker = worker_of(&config, host.0, io, (clock, UdpSums::Software), vec![end]);
            let (name, driver) = (name.clone(), driver.clone());
            End { name, driver, worker, app, regions: Vec::new(), delivered: 0, sent: 0 }
        };
        hosts.iter().zip(shared).map(end).collect()
    };
    let mut all = ends(0, one, &pools[0]);
    all.extend(ends(u32::from(workers), two, &pools[1]));
    let [left, right] = pools;
    (all, [left, right, small], config)
}

/// Segments that fill `max_frame`, a window for the device's speed and an emulator's delays.
fn config(port: &DevicePort, (max_frame, workers): (u32, u16), transport: &str) -> Config {
    // Emulated processors stand still for tens of milliseconds.
    let rto_min = Duration::from_ms(200);
    let loss = LossSettings { retries_max: 64, rto_min, ..LossSettings::default() };
    let link = port.caps().link_mbps.unwrap_or(10_000) / 1000;
    let rate = match workers {
        1 => Rate::from_gbps(u64::from(link.max(1))),
        // Cards of several queues are connected by a bridge before an emulator, which drops bursts.
        _ => Rate::from_bps(100_000_000),
    };
    let settings = Settings {
        payload_max: u16::try_from(max_frame - u32::from(PLAIN_HEADERS_MAX)).unwrap(),
        line_rate: rate,
        base_rtt: Duration::from_ms(1),
        tx_flows_max: 4,
        rx_flows_max: 4,
        msgs_max: 16,
        loss,
        ..Settings::default()
    };
    let settings = match transport {
        "smartt" => settings,
        "dcsim" => of_dcsim(Settings { base_rtt: DCSIM_RTT, ..settings }),
        other => panic!("transport={other}: smartt or dcsim"),
    };
    Config::new(settings).unwrap()
}

impl End {
    fn ask(&mut self, eal: &Eal, config: &Config, peer: u32, (messages, len): (u32, u32)) {
        let (path, peer_id) = (config.default_path(), HostId(peer));
        self.app
            .submit(Request::Open { connection: 0, peer: peer_id, path, label: Label::NONE })
            .unwrap();
        for tag in (0..messages).map(u64::from) {
            let pattern = Pattern { seed: u64::from(peer), tag };
            let mut bytes = vec![0; len as usize].into_boxed_slice();
            pattern.read(0, &mut bytes);
            let region =
                if tag % 2 == 0 { Region::new(eal, bytes).ok().map(Arc::new) } else { None };
            let source = region.clone().map_or(MessageBytes::Pattern(pattern), |region| {
                MessageBytes::Region { region, offset: 0 }
            });
            self.regions.push(region);
            let (len, cookie) = (NonZeroU32::new(len).unwrap(), tag);
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
                Completion::Sent { cookie, .. } => {
                    let region = self.regions.get_mut(usize::try_from(cookie).unwrap());
                    if let Some(region) = region.and_then(Option::as_mut) {
                        let region = Arc::get_mut(region).expect("no device reads it any more");
                        region.bytes_mut().fill(0xee);
                    }
                    self.sent += 1;
                }
                other => panic!("{}: {other:?}", self.name),
            }
        }
    }

    /// Checks that packets reached the worker that they are for.
    fn check_steering(&mut self) {
        let counts = *self.worker.counts();
        let over = self.worker.io().hand_over();
        let host = self.worker.endpoint().host();
        assert_eq!((counts.foreign, over.ring_full), (0, 0), "host {host}: {over:?}");
        let queue = counts.received + over.given - over.taken;
        println!("worker {} host {host}: {queue} frames at its queue, {over:?}", self.name);
    }

    /// The device must have seen what the worker counts as sent and received.
    fn check_counters(&mut self) {
        let counts = *self.worker.counts();
        let device = self.worker.io().queue().stats();
        assert_eq!((counts.filled, counts.stuck, counts.unsendable), (counts.handed_over, 0, 0));
        assert!(device.tx_packets >= counts.handed_over, "{}: {device:?} {counts:?}", self.name);
        assert!(device.rx_packets >= counts.received, "{}: {device:?} {counts:?}", self.name);
        let of = |(name, count): &(String, u64)| (*count > 0).then(|| format!("{name}={count}"));
        let named: Vec<_> = self.worker.io().queue().xstats().iter().filter_map(of).collect();
        println!("counters {} {}", self.name, named.join(" "));
    }
}

/// Both ends send all messages; turns on one thread, so that no scheduler stands between them.
/// Returns how many segments were not copied.
fn exchange(
    eal: &Eal,
    mut ends: Vec<End>,
    config: &Config,
    (messages, len): (u32, u32),
    limit: Duration,
) -> u64 {
    // Each worker of one device with one of the other's.
    let count = u32::try_from(ends.len()).unwrap();
    for (host, end) in (0..).zip(&mut ends) {
        end.ask(eal, config, (host + count / 2) % count, (messages, len));
    }
    let started = ends[0].worker.poll_once().now;
    let mut now = started;
    let is_done = |end: &End| end.delivered + end.sent == 2 * messages;
    while !ends.iter().all(is_done) {
        for end in &mut ends {
            now = end.worker.poll_once().now;
            end.listen();
        }
        let stats = || ends.iter().map(|end| end.worker.stats()).collect::<Vec<_>>();
        assert!(now.since(started) < limit, "not done after {limit:?}: {:?}", stats());
    }
    let one_way = u64::from(messages) * u64::from(len);
    let bytes = u64::from(count) * one_way;
    let mut sum = [0; 4];
    for end in &mut ends {
        end.check_counters();
        end.check_steering();
        let stats = end.worker.stats();
        assert_eq!(stats.data_placed_bytes, one_way, "every byte is placed once");
        for (sum, count) in sum.iter_mut().zip([
            stats.data_new,
            stats.retransmitted,
            stats.lost_by_timeout,
            stats.duplicates,
        ]) {
            *sum += count;
        }
    }
    let ms = now.since(started).as_ps() / 1_000_000_000;
    let mbps = bytes * 8 / 1000 / ms.max(1);
    let [segments, again, silence, twice] = sum;
    let attached = ends.iter().map(|end| end.worker.counts().attached).sum();
    let sims: String = ends.iter().map(|end| sims_of(end.worker.endpoint())).collect();
    println!(
        "pair {} ok {bytes} B in {ms} ms, {mbps} Mbit/s, {segments} segments, {attached} attached, \
         {again} sent again ({silence} after silence), {twice} received twice{sims}",
        ends[0].driver
    );
    attached
}

/// What became of a host's SIMs; empty without DCsim.
fn sims_of(endpoint: &Endpoint) -> String {
    let Sched::DcSim(sched) = endpoint.scheduler() else { return String::new() };
    let sims = &sched.figures().sims;
    format!(", {} SIMs acknowledged, {} of them wasted", sims.acked, sims.wasted)
}
