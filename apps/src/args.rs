//! The flags of the command line, apart from those of `headrace gen`.
//!
//! Names of policies, topologies and settings are texts here; the registries check them and suggest
//! the nearest name.

pub(crate) mod dci;
pub(crate) mod perf;
pub(crate) mod scheduler;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use experiments::flow_set::FlowSet;
use experiments::input::InputError;
use experiments::observe::Observe;
use transport::ec::BlockShape;

/// The measurements of `headrace bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// The cost of a segment on one core: SMaRTT over a DPDK virtual device, every segment
    /// acknowledged.
    Datapath(DatapathArgs),
    /// The cost of a small message on one core, and its time from application to application and
    /// back.
    Messages(MessagesArgs),
    /// The cost of a decision of Zeropod's pod scheduler on one core, and how many hosts it lets
    /// send. With --device, the cost of an epoch at a device, and how long requests wait there.
    Scheduler(BenchSchedulerArgs),
    /// The cost of a packet in MLCC's border switch on one core, from another site through the
    /// queue of its flow, beside dpdk-testpmd forwarding between two devices of the same kind.
    Dci(BenchDciArgs),
}

/// The devices, segments and queues that `headrace bench dci` measures.
#[derive(Debug, Args)]
pub(crate) struct BenchDciArgs {
    /// Kind of both devices; may be given several times [default: net_ring, net_memif].
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Vec<String>,
    /// Payload bytes of a segment, 64 to 8960; may be given several times [default: 256, 1500,
    /// 4096, 8960].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(64..=8960))]
    pub(crate) segment: Vec<u16>,
    /// Flows that have a queue; may be given several times [default: 1, 100, 4096].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) queues: Vec<u32>,
    /// Packets to pass in each case.
    #[arg(long, value_name = "N", default_value_t = 500_000,
          value_parser = clap::value_parser!(u64).range(20_000..=1_000_000_000))]
    pub(crate) packets: u64,
    /// Leaves dpdk-testpmd out.
    #[arg(long)]
    pub(crate) no_testpmd: bool,
    /// Prints JSON and nothing else on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The pods, matchers and demands to measure.
#[derive(Debug, Args)]
pub(crate) struct BenchSchedulerArgs {
    /// Hosts of the pod, 2 to 1024; may be given several times [default: 16, 64, 256, 1024].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=1024))]
    pub(crate) hosts: Vec<u16>,
    /// A matcher of `headrace list matchers`; may be given several times [default: all].
    #[arg(long, value_name = "NAME")]
    pub(crate) matcher: Vec<String>,
    /// Measures the scheduler at a device instead, as `headrace scheduler` runs it, with generated
    /// requests: net_ring or net_memif; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Vec<String>,
    /// Epochs to measure at a device [default: those of two million requests].
    #[arg(long, value_name = "N", requires = "device",
          value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    pub(crate) epochs: Option<u64>,
    /// Microseconds of an epoch in which waiting for answers at a device is measured [default: half
    /// as long again as an epoch costs].
    #[arg(long, value_name = "US", requires = "device",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) epoch_us: Option<u32>,
    /// Demands of each host: `all` for one to every other host, or a number of other hosts.
    #[arg(long, value_name = "all|D", default_value = "all")]
    pub(crate) demand: String,
    /// At a device, flows of web search that take up so many percent of each host's epochs, instead
    /// of an epoch's cells in every epoch.
    #[arg(long, value_name = "PERCENT", requires = "device",
          value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) load: Option<u8>,
    /// At a device, sched.zeropod.ask_every.
    #[arg(long, value_name = "N", requires = "device", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) ask_every: u8,
    /// At a device, sched.zeropod.superepoch.
    #[arg(long, value_name = "N", requires = "device", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) superepoch: u8,
    /// Iterations of `iterative`, 1 to 255.
    #[arg(long, value_name = "I", default_value_t = 6,
          value_parser = clap::value_parser!(u8).range(1..=255))]
    pub(crate) iterations: u8,
    /// Gives demands 64 classes of priority instead of one.
    #[arg(long)]
    pub(crate) classes: bool,
    /// Seed of demands and ties.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Prints JSON and nothing else on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The messages to measure, and how many.
#[derive(Debug, Args)]
pub(crate) struct MessagesArgs {
    /// Bytes of a message, 1 to 1024.
    #[arg(long, value_name = "BYTES", default_value_t = 64,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) bytes: u16,
    /// Messages of a measurement.
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u64).range(100_000..=1_000_000_000))]
    pub(crate) count: u64,
    #[command(flatten)]
    pub(crate) observe: ObserveArgs,
    /// Round trips; 0 measures none, for a machine without two cores to spare.
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    pub(crate) trips: u64,
    /// Prints JSON and nothing else on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is done to payloads of sealed frames.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum SealMode {
    /// Encrypted and authenticated.
    Psk,
    /// Authenticated alone.
    PskAuth,
}

/// The devices and segments to measure, and for how long.
#[derive(Debug, Args)]
pub(crate) struct DatapathArgs {
    /// Device; may be given several times [default: net_null, net_ring, net_memif].
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Vec<String>,
    /// Payload bytes of a segment, 64 to 8960; may be given several times [default: 256, 1500,
    /// 4096, 8960].
    #[arg(long, value_name = "BYTES")]
    pub(crate) segment: Vec<u16>,
    /// Segments to send in a measurement; each case is measured three times.
    #[arg(long, value_name = "N", default_value_t = 2_000_000,
          value_parser = clap::value_parser!(u64).range(100_000..=1_000_000_000))]
    pub(crate) segments: u64,
    /// Segments that one acknowledgement answers at most, 1 to 64. SMaRTT's paper has one
    /// acknowledgement for each segment.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) ack_every: u16,
    /// Copies and sums payload also where the device could read it in place.
    #[arg(long)]
    pub(crate) copy: bool,
    /// Codes messages: data and parity segments of a block. The cost of a segment then includes its
    /// share of the cost of parity.
    #[arg(long, value_name = "X,Y")]
    pub(crate) ec: Option<BlockShape>,
    /// Measures sealing and opening of frames in memory, beside the library that does it, and no
    /// device; segments of 1500 and 4096 bytes unless given.
    #[arg(long, value_name = "MODE", conflicts_with_all = ["device", "ec", "copy"])]
    pub(crate) security: Option<SealMode>,
    /// Transport of both ends, as `headrace list transports` names it, over a line that never
    /// limits it [default: smartt].
    #[arg(long, value_name = "NAME", conflicts_with = "security")]
    pub(crate) transport: Option<String>,
    /// Leaves dpdk-testpmd out.
    #[arg(long)]
    pub(crate) no_testpmd: bool,
    #[command(flatten)]
    pub(crate) observe: ObserveArgs,
    /// Prints JSON and nothing else on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The policies of a run, and their settings. In `headrace run`, values with commas between them
/// are compared: every combination runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct PolicyArgs {
    /// Preset of policies (headrace list transports).
    #[arg(long, value_name = "NAME")]
    pub(crate) transport: Option<String>,
    /// Congestion control (headrace list cc).
    #[arg(long, value_name = "NAME")]
    pub(crate) cc: Option<String>,
    /// Load balancer (headrace list lb).
    #[arg(long, value_name = "NAME")]
    pub(crate) lb: Option<String>,
    /// Changes one setting; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl RunArgs {
    /// The first of the inputs; the only one where values have been chosen.
    pub(crate) fn input(&self) -> &Path {
        self.inputs.first().map_or(Path::new(""), PathBuf::as_path)
    }
}

impl PolicyArgs {
    /// The settings that are changed: keys and values.
    ///
    /// # Errors
    /// A text without `=`.
    pub(crate) fn settings<'a>(&'a self) -> Result<Vec<(&'a str, &'a str)>, InputError> {
        let parted = |text: &'a String| match text.split_once('=') {
            Some((key, value)) => Ok((key.trim(), value.trim())),
            None => {
                let error = InputError::new(format!("`{text}`"), "KEY=VALUE").at("--set", 0, 0);
                Err(error.help("headrace list settings"))
            }
        };
        self.set.iter().map(parted).collect()
    }
}

/// One part of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartOf {
    /// The number of the part, below `count`.
    pub(crate) number: usize,
    /// How many parts there are, at least 1.
    pub(crate) count: usize,
}

impl FromStr for PartOf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(number, count)| {
            Some(Self { number: number.parse().ok()?, count: count.parse().ok()? })
        });
        match numbers {
            Some(part) if part.number < part.count => Ok(part),
            Some(part) => Err(format!(
                "{}/{} is no part: give I/N with I below N, like 0/4",
                part.number, part.count
            )),
            None => Err("give I/N, like 0/4".to_owned()),
        }
    }
}

/// Roots of chance: `7`, `1,5,9` or `1..10`, a range with both its ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seeds(pub(crate) Vec<u64>);

/// The most seeds of one command.
const SEEDS_MAX: u64 = 1000;

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let parsed = text.trim().parse::<u64>();
            parsed.map_err(|_| format!("`{text}` is no seed: give N, N,M or FROM..TO"))
        };
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let (from, to) = part.split_once("..").unwrap_or((part, part));
            let (from, to) = (number(from)?, number(to)?);
            if from > to {
                return Err(format!("`{part}` is empty: the first seed is above the last"));
            }
            if to - from >= SEEDS_MAX {
                return Err(format!("`{part}`: at most {SEEDS_MAX} seeds"));
            }
            seeds.extend(from..=to);
        }
        Ok(Self(seeds))
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(u64::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

/// The run, and how it runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    /// A matrix, a scenario, or the name of a built-in scenario (headrace list scenarios). Several
    /// matrices run one after the other, and are compared. Given the manifest.json of an earlier
    /// run, that run is repeated, and the last line says whether the results are the same to the
    /// byte. A matrix may come from standard input, as `-`.
    #[arg(value_name = "MATRIX.cm|SCENARIO.toml|manifest.json", required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// The world to run in: virtual time (default), DPDK virtual devices, or network cards.
    #[arg(long, value_enum)]
    pub(crate) world: Option<World>,
    /// The network: a file, or a built-in name (headrace list topologies).
    #[arg(long, value_name = "FILE.topo|NAME")]
    pub(crate) topo: Option<String>,
    /// The hosts of a real network, for --world nic.
    #[arg(long, value_name = "HOSTS.toml")]
    pub(crate) hosts: Option<PathBuf>,
    /// The name of this machine in the hosts file.
    #[arg(long, value_name = "NAME", requires = "hosts")]
    pub(crate) host: Option<String>,
    #[command(flatten)]
    pub(crate) policies: PolicyArgs,
    /// Erasure code of far flows: data and parity segments of a block; auto codes (8,2), or X,Y,
    /// only where links lose segments.
    #[arg(long, value_name = "X,Y|auto|auto:X,Y|off")]
    pub(crate) ec: Option<String>,
    /// Whether switches trim packets that do not fit.
    #[arg(long, value_enum)]
    pub(crate) trim: Option<OnOff>,
    /// The seed of all random numbers: N, or several seeds to compare, as 1,5 or 1..10 (both ends
    /// run).
    #[arg(long, value_name = "N|FROM..TO")]
    pub(crate) seed: Option<Seeds>,
    /// Threads that run a simulation, 1 to 64; results are the same on any number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) threads: Option<u8>,
    /// UDP port that hosts listen at, the same on all of them [default: that of the hosts file, or
    /// 4797].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) udp_port: Option<u16>,
    /// Seals packets of --world nic by the keys of a file that all hosts have: psk:FILE encrypts
    /// payloads, psk-auth:FILE leaves them readable. Without this flag packets are plain.
    #[arg(long, value_name = "psk:FILE")]
    pub(crate) security: Option<String>,
    /// Appends the keys that seal and open packets of --security to a file of mode 600, for
    /// dissectors of captures. With this file captures can be read and packets can be forged.
    #[arg(long, value_name = "FILE", requires = "security")]
    pub(crate) key_log: Option<PathBuf>,
    /// Runs only the variants of this name, or those whose names have these parts, like
    /// smartt,size=1MiB; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Vec<String>,
    /// Variants that run at the same time in virtual time.
    #[arg(long, value_name = "N", default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: u16,
    /// Runs part I of N parts of several runs, I from 0. Parts may run on different machines and in
    /// any order; headrace gather puts their results together.
    #[arg(long, value_name = "I/N", requires = "out")]
    pub(crate) part: Option<PartOf>,
    /// Prints a batch script for Slurm and runs nothing: a job array with a task for each run, of
    /// as many processors as the run uses threads (headrace run ... --slurm | sbatch). With
    /// --resume a task whose results are there already ends at once.
    #[arg(long, requires = "out", conflicts_with_all = ["part", "json"])]
    pub(crate) slurm: bool,
    /// Keeps the results in --out that are whole and of the same code, traffic, inputs and
    /// settings, and runs only the others.
    #[arg(long, requires = "out")]
    pub(crate) resume: bool,
    /// Writes manifest.json, summary.json, flows.jsonl and series.jsonl into this directory; the
    /// files of a variant go into a directory of its name.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Prints summary.json and nothing else on standard output; for a scenario with variants it
    /// prints an array, each element with its `variant`.
    #[arg(long)]
    pub(crate) json: bool,
    /// Prints a line for each flow, too.
    #[arg(long, conflicts_with = "json")]
    pub(crate) flows: bool,
    /// Shows no progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Shows progress in lines that a program reads: `headrace run` starts others like this.
    #[arg(long, hide = true)]
    pub(crate) progress_lines: bool,
    /// Keeps a journal of every packet, and writes why.jsonl into --out, which says where the time
    /// of each flow went (headrace why); in virtual time only, on one thread.
    #[arg(long, requires = "out")]
    pub(crate) why: bool,
    #[command(flatten)]
    pub(crate) observe: ObserveArgs,
    /// Writes the frames that hosts send and receive as pcapng. snap=N keeps at most N bytes of a
    /// frame, every=N one frame of every N, host=I those of one host. A simulation has headers
    /// only.
    #[arg(long, value_name = "FILE[,snap=N][,every=N][,host=I]")]
    pub(crate) capture: Option<String>,
}

/// The results to draw, and where to write.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Directories that headrace run --out has written; or the numbers that an earlier report wrote
    /// beside its picture, to draw it again.
    #[arg(required = true, value_name = "DIR|NAME.json")]
    pub(crate) dirs: Vec<PathBuf>,
    /// Writes NAME.json and the chosen formats into this directory for each scenario.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Formats, with commas between.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "svg",
        value_name = "FORMAT,.."
    )]
    pub(crate) format: Vec<Format>,
    /// Draws these flows over time, a panel for each run. A flow is named by its line of the
    /// matrix, from 1. Runs have samples with --set sampling.interval=1us, of the first 64 flows or
    /// those of --set sampling.flows=1,5,10..20. In the world vdev goodput moves by whole messages,
    /// which --set run.message=64KiB makes short; in sim it moves by bytes as they arrive, without
    /// that setting.
    #[arg(long, value_name = "1,5,10..20")]
    pub(crate) flows: Option<FlowSet>,
    /// Makes axes logarithmic in panels whose numbers are all above 0; the HTML page begins with
    /// these axes.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "x,y")]
    pub(crate) log: Vec<LogAxis>,
    /// Draws the matrix and the network, too, as NAME-inputs in each format. The HTML page always
    /// has them.
    #[arg(long)]
    pub(crate) inputs: bool,
    /// Results of another simulator to put beside ours.
    #[arg(long, value_name = "FILE.json")]
    pub(crate) reference: Option<PathBuf>,
    /// Brings the tables of this document up to date, between its markers
    /// `<!-- results: NAME -->` and `<!-- end -->`.
    #[arg(long, value_name = "FILE.md")]
    pub(crate) page: Option<PathBuf>,
}

/// An axis that is to be logarithmic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogAxis {
    /// The axes along x.
    X,
    /// The axes along y.
    Y,
}

/// The formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A picture without loss at any size.
    Svg,
    /// A picture of pixels, two for each unit of the SVG.
    Png,
    /// A picture for a paper.
    Pdf,
    /// The runs, a line each, and the points of the curves.
    Csv,
    /// All figures on one page that needs no network: a click hides or shows a curve, the pointer
    /// shows values, the wheel zooms, and tables can be sorted.
    Html,
}

/// The world in which a matrix runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum World {
    /// Virtual time: deterministic, any number of hosts.
    Sim,
    /// DPDK virtual devices and a soft switch in this process.
    Vdev,
    /// Real devices: this process is one of the hosts in --hosts.
    Nic,
}

impl World {
    /// The words, in the order of the variants.
    pub(crate) const NAMES: [&'static str; 3] = ["sim", "vdev", "nic"];

    /// The world of that name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        [Self::Sim, Self::Vdev, Self::Nic].into_iter().find(|world| world.name() == name)
    }

    /// The word on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Vdev => "vdev",
            Self::Nic => "nic",
        }
    }
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnOff {
    /// The setting is on.
    On,
    /// The setting is off.
    Off,
}

/// The counters of workers to show while they run.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ObserveArgs {
    /// Serves counters and histograms as OpenMetrics at this unix socket during the run; over DPDK
    /// only.
    #[arg(long, value_name = "PATH")]
    pub(crate) metrics: Option<PathBuf>,
    /// Opens DPDK's telemetry socket (dpdk-telemetry.py), with commands under /headrace/; over
    /// DPDK only.
    #[arg(long)]
    pub(crate) telemetry: bool,
}

impl ObserveArgs {
    /// The observations that the flags ask for.
    pub(crate) fn wanted(&self) -> Observe {
        Observe { metrics: self.metrics.clone(), telemetry: self.telemetry, ..Observe::default() }
    }
}
