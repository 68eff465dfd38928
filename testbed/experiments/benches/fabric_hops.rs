//! The cost of a packet-hop, in the fabric alone and in a full simulation.
//!
//! Over the paper's trees of 1024 hosts without and with oversubscription. The fabric alone carries
//! a permutation with 16 packets in flight a host, each delivery followed by another packet, and
//! no hosts at the ends: through plain switches, through lossless ones, and through a mixed network
//! whose switches at hosts pause links. The full simulation is a permutation of 2 MiB flows across
//! the core. Prints the median of some rounds, in processor time where the system gives it.
//! Run: `cargo bench -p experiments --bench fabric_hops`. With `-- full ft1024-1os 2MiB ROUNDS` or
//! `-- plain ft1024-1os ROUNDS` (or `lossless`, or `mixed`) it prints the nanoseconds a hop of each
//! round of one part: for rounds of two builds in turn, and for callgrind. Not a test: what a busy
//! machine does in a nanosecond varies; compare the fastest quarters of builds that ran in the same
//! minute, and instructions where they can be counted.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use std::time::Instant as Wall;

use experiments::plan::{Draft, Plan};
use experiments::progress::Unwatched;
use experiments::topology::{FabricParams, FatTree, by_name};
use experiments::virtual_time;
use experiments::workload::{self, Params};
use fabric::{Flags, Network, NoFrames, Output, Packet, ProgramKind, QdiscKind, SwitchSpec};
use transport::rng::mix;
use transport::{HostId, Rng};

const HOPS: u64 = 10_000_000;
const IN_FLIGHT: u32 = 16;
const ROUNDS: usize = 5;

/// The flows of a full simulation.
const SIZE: &str = "2MiB";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => all(),
        ["full", name, size, rounds] => print_each(rounds, || full(name, size)),
        [part, name, rounds] => {
            let switches = SwitchMix::ALL.into_iter().find(|switches| switches.name() == part);
            let switches = switches.unwrap_or_else(|| panic!("not a part: {part}"));
            print_each(rounds, || fabric(name, switches));
        }
        _ => panic!("not a part: {args:?}"),
    }
}

/// Prints every round by itself.
fn print_each(rounds: &str, round: impl Fn() -> Figure) {
    (0..rounds.parse::<u32>().expect("a number")).for_each(|_| println!("{:.2}", round().ns));
}

/// Prints the medians of all parts.
fn all() {
    for name in ["ft1024-1os", "ft1024-8os"] {
        let [plain, paused @ ..] = SwitchMix::ALL;
        let alone = Figure::median(|| fabric(name, plain));
        println!("{name}: fabric alone, {} switches {alone}", plain.name());
        for switches in paused {
            let figure = Figure::median(|| fabric(name, switches));
            let (kind, ratio) = (switches.name(), figure.ns / alone.ns);
            println!("{name}: fabric alone, {kind} switches {figure}, {ratio:.2} times plain ones");
        }
        let full = Figure::median(|| full(name, SIZE));
        let ratio = full.ns / alone.ns;
        println!("{name}: full simulation {full}, {ratio:.1} times the fabric alone");
    }
}

/// The switches that a fabric alone consists of.
#[derive(Clone, Copy)]
enum SwitchMix {
    /// Every switch is without a program, and trims.
    Plain,
    /// Every switch pauses links (PFC) and drops nothing.
    Lossless,
    /// Switches at hosts pause links, all others are plain.
    Mixed,
}

impl SwitchMix {
    const ALL: [Self; 3] = [Self::Plain, Self::Lossless, Self::Mixed];

    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Lossless => "lossless",
            Self::Mixed => "mixed",
        }
    }

    /// The tree called `name` of these switches.
    fn network(self, name: &str) -> Network {
        let tree = by_name(name).map(FatTree::new).expect("a built-in name").expect("a sound tree");
        let mut params = FabricParams::default();
        if matches!(self, Self::Lossless) {
            params.qdisc = QdiscKind::Lossless;
        }
        let mut blueprint = tree.blueprint(&params);
        if matches!(self, Self::Mixed) {
            let at_hosts = |spec: &SwitchSpec| spec.child_hosts == 1;
            let switches = (0..).zip(&blueprint.switches).filter(|(_, spec)| at_hosts(spec));
            let switches: Vec<u32> = switches.map(|(switch, _)| switch).collect();
            for switch in switches {
                blueprint.assign(switch, ProgramKind::Pfc).expect("a plain switch");
            }
        }
        blueprint.check_buffers().expect("room for what comes until a pause is obeyed");
        Network::new(blueprint, &Rng::new(1))
    }
}

/// The measurement of one round.
#[derive(Clone, Copy)]
struct Figure {
    /// Nanoseconds a hop.
    ns: f64,
    hops: u64,
}

impl Figure {
    fn new(seconds: f64, hops: u64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a figure to print")]
        Self { ns: seconds * 1e9 / hops as f64, hops }
    }

    fn median(round: impl Fn() -> Self) -> Self {
        let mut figures: Vec<_> = (0..ROUNDS).map(|_| round()).collect();
        figures.sort_by(|a, b| a.ns.total_cmp(&b.ns));
        figures[ROUNDS / 2]
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { ns, hops } = self;
        write!(f, "{ns:.1} ns/hop, {:.1} M hops/s ({hops} hops)", 1e3 / ns)
    }
}

/// Processor time of this thread where Linux gives it, else the wall clock's.
struct Clock {
    wall: Wall,
    cpu: Option<f64>,
}

impl Clock {
    fn start() -> Self {
        Self { wall: Wall::now(), cpu: cpu_seconds() }
    }

    fn seconds(&self) -> f64 {
        let cpu = cpu_seconds().zip(self.cpu).map(|(now, then)| now - then);
        cpu.unwrap_or_else(|| self.wall.elapsed().as_secs_f64())
    }
}

fn cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: f64 = text.split(' ').next()?.parse().ok()?;
    Some(nanoseconds / 1e9)
}

fn full(name: &str, size: &str) -> Figure {
    let mut params = Params::from_pairs([]);
    params.push("size", size, 0, 0);
    params.push("full_bisection", "true", 0, 0);
    let permutation = workload::by_name("permutation", &params).expect("a known workload");
    let matrix = permutation.generate(1024, &mut Rng::new(1)).expect("two halves");
    let tree = by_name(name).expect("a built-in name");
    let plan = Plan::new(&Draft::default(), matrix, &tree).expect("a sound plan");
    let clock = Clock::start();
    let outcome = virtual_time::run(&plan, &mut Unwatched).expect("a sound plan");
    let seconds = clock.seconds();
    assert!(outcome.summary.is_success());
    Figure::new(seconds, outcome.summary.packets.hops.unwrap_or(0))
}

/// The fabric alone, after a warm-up.
fn fabric(name: &str, switches: SwitchMix) -> Figure {
    let mut network = switches.network(name);
    let mut sent = 0;
    let mut out = Vec::new();
    for host in 0..1024 * IN_FLIGHT {
        send(&mut network, host % 1024, &mut sent, &mut out);
    }
    run(&mut network, &mut sent, HOPS / 10);
    let before = network.hops();
    let clock = Clock::start();
    run(&mut network, &mut sent, HOPS);
    let seconds = clock.seconds();
    network.audit().check().expect("conservation");
    Figure::new(seconds, network.hops() - before)
}

/// Runs about `hops` hops: each packet delivered is followed by another from the same source, at
/// the end of the window.
fn run(network: &mut Network, sent: &mut u64, hops: u64) {
    let goal = network.hops() + hops;
    let (mut out, mut more) = (Vec::new(), Vec::new());
    while network.hops() < goal {
        network.run_until(network.now() + network.lookahead(), &mut NoFrames, &mut out);
        for output in out.drain(..) {
            if let Output::Delivered { packet, .. } = output {
                send(network, packet.handle, sent, &mut more);
            }
        }
        more.clear();
    }
}

fn send(network: &mut Network, src: u32, sent: &mut u64, out: &mut Vec<Output>) {
    *sent += 1;
    let packet = Packet {
        handle: src,
        dst: HostId((src + 512) % 1024),
        hash: u32::try_from(mix(*sent) >> 32).unwrap_or(0),
        len: 4160,
        trim_len: 64,
        flags: Flags::ECT.with(Flags::TRIMMABLE),
    };
    network.inject(HostId(src), packet, network.now(), &mut NoFrames, out);
}
