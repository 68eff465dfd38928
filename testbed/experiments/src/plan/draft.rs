//! A plan in the making: every setting with its value and where the value came from.
//!
//! Later origins win: defaults, then the transport's preset, then the scenario, then flags, then
//! `--set`. The caller applies them in that order; a draft only stores values with their origins.

mod choices;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

use fabric::{ProgramSettings, QdiscKind, QdiscSettings};
use transport::path::RealPod;
use transport::wire::addressing::UDP_PORT;
use transport::{Bytes, Duration, Settings};

use super::stamping::Stamping;
use super::transports::{self, Transport};
use crate::flow_set::FlowSet;
use crate::input::{InputError, Located, meant};
use crate::scenario::FaultSpec;
use crate::topology::programs::ProgramSpec;
use crate::workload::cm::StartUnit;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The value was not set.
    Default,
    /// The transport's preset.
    Transport(&'static str),
    /// The network of the run.
    Topology,
    /// The world of the run.
    World(&'static str),
    /// The scenario of this name; the line and column are those of the value.
    Scenario(Located<String>),
    /// The hosts file of a real network.
    HostsFile,
    /// A flag of the command line.
    Flag(&'static str),
    /// `--set` on the command line.
    Set,
}

impl Origin {
    /// The scenario of this name as a whole.
    #[must_use]
    pub fn scenario(name: &str) -> Self {
        Self::Scenario(Located { value: name.to_owned(), ..Located::default() })
    }

    /// The name that `text` means: a flag may cut it short, a file may not, since a policy that is
    /// added later could make a short name ambiguous.
    fn meant<'a>(&self, text: &'a str, names: &[&'a str]) -> &'a str {
        match self {
            Self::Flag(_) => meant(text, names.iter().copied()).unwrap_or(text),
            _ => text,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Transport(name) => write!(f, "transport {name}"),
            Self::Topology => f.write_str("topology"),
            Self::World(name) => write!(f, "default for --world {name}"),
            Self::Scenario(name) => write!(f, "scenario {}", name.value),
            Self::HostsFile => f.write_str("hosts file"),
            Self::Flag(flag) => write!(f, "flag --{flag}"),
            Self::Set => f.write_str("--set"),
        }
    }
}

/// The behaviour of switches, beyond the topology.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchSettings {
    /// Queue discipline; by `trim` when `None`.
    pub qdisc: Option<QdiscKind>,
    /// Data bytes a port buffers; the topology's, else `queue_bdp`, when `None`.
    pub queue: Option<Bytes>,
    /// Data a port buffers, in bandwidth-delay products of a site.
    pub queue_bdp: f64,
    /// Data bytes that ports at links of border switches buffer; as others when `None`.
    pub border_queue: Option<Bytes>,
    /// The queue discipline of border switches; that of other switches when `None`.
    pub border_qdisc: Option<QdiscKind>,
    /// Share of the queue up to which nothing is marked.
    //= smartt#III-J
    pub kmin: f64,
    /// Share of the queue above which everything is marked.
    pub kmax: f64,
    /// The settings of disciplines.
    pub qdiscs: QdiscSettings,
    /// Control bytes a port buffers; as much as data when `None`.
    pub control_queue: Option<Bytes>,
    /// The entropy value of a packet names its way, instead of a hash.
    pub explicit: bool,
    /// The settings of programs.
    pub programs: ProgramSettings,
    /// How long a dead link is used before its switch notices; it never does when `None`.
    pub detection: Option<Duration>,
}

/// Settings of the `vdev` world.
#[derive(Clone, Debug, PartialEq)]
pub struct VdevSettings {
    /// Which virtual device stands for a host's NIC.
    pub pmd: String,
    /// Real time per network time, at least 1; measured when `None`.
    pub time_scale: Option<f64>,
    /// Threads that run hosts; all cores but the switch's when `None`.
    pub workers: Option<usize>,
    /// Memory for buffers without hugepages, MiB.
    pub memory_mb: Option<u32>,
    /// Whether to use hugepages; `None` uses them when there are any.
    pub hugepages: Option<bool>,
    /// Keep every input of every endpoint, for replay.
    pub record: bool,
}

/// NICs of hosts: emulated ones, and those of the `nic` world.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NicSettings {
    /// Queue discipline of an emulated NIC.
    pub qdisc: QdiscKind,
    /// Packets that a simulated NIC holds beyond the one that it sends; of data alone where control
    /// has a depth of its own.
    pub depth: usize,
    /// Control packets that a simulated NIC holds beside data; within `depth` when `None`.
    pub control_depth: Option<usize>,
    /// How long hosts of a real network wait for each other to begin.
    pub patience: Duration,
}

/// How far the clocks of simulated hosts are off network time. Each host draws its own offset and
/// drift, uniformly, from the seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockSettings {
    /// The most by which a clock is ahead of network time, or behind it.
    pub offset: Duration,
    /// The most by which a clock runs faster or slower, parts in a million, 0..=10000.
    pub drift_ppm: f64,
    /// The most by which a reading is late.
    pub jitter: Duration,
}

impl ClockSettings {
    /// Every clock shows network time.
    pub const EXACT: Self = Self { offset: Duration::ZERO, drift_ppm: 0.0, jitter: Duration::ZERO };
}

/// A plan in the making.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The preset.
    pub transport: &'static Transport,
    /// The settings of endpoints; path values follow from the topology.
    pub settings: Settings,
    /// Overrides the base RTT that follows from the topology.
    pub base_rtt: Option<Duration>,
    /// The longest base RTT inside a site, where `base_rtt` was measured between sites; `None`
    /// where `base_rtt` holds inside sites, too.
    pub site_rtt: Option<Duration>,
    /// The sites that a hosts file names; a topology may have more. 1 where there is no such file,
    /// or it names none.
    pub sites: u32,
    /// Added to every base RTT that follows from the topology: the time that hosts of the world
    /// take to answer a packet. Zero in virtual time; the world sets it.
    pub rtt_allowance: Duration,
    /// The least time of a block of coded flows, which the world sets: what it takes in real time
    /// may delay a packet for longer than the network does. Zero in virtual time.
    pub block_timeout_min: Duration,
    /// Reorder window in base RTTs; chosen by `trim` when `None`. The inner `None` is off.
    pub reorder_window: Option<Option<f64>>,
    /// PSNs a flow may have outstanding; by the network's BDP when `None`.
    pub psn_window: Option<u32>,
    /// Whether silent tails are probed; when switches do not trim when `None`.
    pub tail_probe: Option<bool>,
    /// Whether switches trim.
    pub trim: bool,
    /// The behaviour of switches.
    pub switch: SwitchSettings,
    /// Programs of switches.
    pub programs: Vec<ProgramSpec>,
    /// Switches that write telemetry.
    pub stamping: Stamping,
    /// Whether a path may have more of them than packets have room for.
    pub int_cut: bool,
    /// Root of all chance.
    pub seed: u64,
    /// Network time after which a run ends unfinished.
    pub limit: Option<Duration>,
    /// The longest message that carries part of a flow; as long as messages can be when `None`.
    pub message: Option<NonZeroU32>,
    /// Threads that run a simulation, 1..=64.
    pub threads: usize,
    /// Memory that a simulation may need; `None` is the machine's memory.
    pub memory: Option<Bytes>,
    /// Time between samples of the series; none when `None`.
    pub sampling: Option<Duration>,
    /// The flows that samples show one by one; the first ones when `None`.
    pub sampled: Option<FlowSet>,
    /// Unit of `start` in `.cm` files.
    pub start_unit: StartUnit,
    /// UDP port that hosts listen at, not 0.
    pub udp_port: u16,
    /// The clocks of simulated hosts.
    pub clocks: ClockSettings,
    /// Faults, each with its origin at the same place of `fault_origins`.
    pub(super) faults: Vec<FaultSpec>,
    fault_origins: Vec<Origin>,
    /// The `vdev` world.
    pub vdev: VdevSettings,
    /// The `nic` world.
    pub nic: NicSettings,
    /// The pod that Zeropod's hosts are in on a real network.
    pub(super) real_pod: Option<RealPod>,
    origins: BTreeMap<String, Origin>,
    /// How a key was written when it was set last.
    written: BTreeMap<String, String>,
}

impl Draft {
    /// An error about a fault. Where the scenario in `file` has the fault, the place becomes the
    /// one there.
    #[must_use]
    pub fn located_fault(&self, fault: &FaultSpec, error: &InputError, file: &str) -> InputError {
        let number = self.faults.iter().position(|other| other == fault);
        match number.and_then(|number| self.fault_origins.get(number)) {
            Some(Origin::Scenario(at)) if at.line > 0 => error.clone().at(file, at.line, at.column),
            _ => error.clone(),
        }
    }
}

impl Default for Draft {
    fn default() -> Self {
        let mut draft = Self {
            transport: &transports::TRANSPORTS[0],
            settings: Settings::default(),
            base_rtt: None,
            site_rtt: None,
            sites: 1,
            rtt_allowance: Duration::ZERO,
            block_timeout_min: Duration::ZERO,
            reorder_window: None,
            psn_window: None,
            tail_probe: None,
            trim: true,
            switch: SwitchSettings {
                qdisc: None,
                queue: None,
                queue_bdp: 1.0,
                border_queue: None,
                border_qdisc: None,
                kmin: 0.2,
                kmax: 0.8,
                qdiscs: QdiscSettings::default(),
                control_queue: None,
                explicit: false,
                programs: ProgramSettings::default(),
                detection: Some(Duration::from_us(100)),
            },
            programs: Vec::new(),
            stamping: Stamping::Auto,
            int_cut: false,
            seed: 1,
            limit: None,
            message: None,
            threads: 1,
            memory: None,
            sampling: None,
            sampled: None,
            start_unit: StartUnit::Us,
            udp_port: UDP_PORT,
            clocks: ClockSettings::EXACT,
            faults: Vec::new(),
            fault_origins: Vec::new(),
            vdev: VdevSettings {
                pmd: "net_ring".to_owned(),
                time_scale: None,
                workers: None,
                memory_mb: None,
                hugepages: None,
                record: false,
            },
            nic: NicSettings {
                qdisc: QdiscKind::DropTail,
                depth: 2,
                control_depth: None,
                patience: Duration::from_s(60),
            },
            real_pod: None,
            origins: BTreeMap::new(),
            written: BTreeMap::new(),
        };
        draft.apply_preset(&transports::TRANSPORTS[0]);
        draft
    }
}
