//! A plan in the making: every setting with its value and where the value came from.
//!
//! Later origins win: defaults, then the transport's preset, then the scenario, then flags, then
//! `--set`. The caller applies them in that order; a draft only remembers.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

use fabric::{ProgramSettings, QdiscKind, QdiscSettings};
use transport::cc::CcKind;
use transport::ec::EcParams;
use transport::lb::LbKind;
use transport::path::{NetworkFacts, RealPod};
use transport::wire::addressing::UDP_PORT;
use transport::{Bytes, Duration, Settings};

use super::telemetry::Stamping;
use super::transports::{self, Transport};
use super::{keys, policy_keys};
use crate::flow_set::FlowSet;
use crate::input::{InputError, did_you_mean, meant};
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
    /// The scenario of this name.
    Scenario(String),
    /// The hosts file of a real network.
    HostsFile,
    /// A flag of the command line.
    Flag(&'static str),
    /// `--set` on the command line.
    Set,
}

impl Origin {
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
            Self::Scenario(name) => write!(f, "scenario {name}"),
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

impl Default for Draft {
    fn default() -> Self {
        let mut draft = Self {
            transport: &transports::TRANSPORTS[0],
            settings: Settings::default(),
            base_rtt: None,
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

impl Draft {
    fn apply_preset(&mut self, preset: &'static Transport) {
        for (key, _) in self.transport.set() {
            if let (Origin::Transport(_), Some(value)) = (self.origin(key), keys::default_of(key)) {
                self.set_checked(key, &value);
                self.origins.remove(key);
            }
        }
        self.transport = preset;
        self.settings.cc = preset.cc;
        self.settings.lb = preset.lb;
        self.settings.sched = preset.sched;
        self.trim = preset.trim;
        let parts = ["cc", "lb", "sched", "trim"];
        for key in parts.into_iter().chain(preset.set().map(|(key, _)| key)) {
            self.origins.insert(key.to_owned(), Origin::Transport(preset.name));
        }
        for (key, value) in preset.set() {
            self.set_checked(key, value);
        }
    }

    /// Sets a value that this crate itself chooses; a test checks that all of these are legal.
    fn set_checked(&mut self, key: &str, value: &str) {
        let set = keys::set(self, key, value);
        debug_assert!(set.is_ok(), "{key}={value}: {set:?}");
    }

    /// Chooses the preset called `name`.
    ///
    /// # Errors
    /// When there is none, with the nearest name.
    pub fn set_transport(&mut self, name: &str, origin: Origin) -> Result<(), InputError> {
        let name = origin.meant(name, &transports::names());
        let preset = transports::by_name(name)
            .ok_or_else(|| unknown("transport", name, &transports::names()))?;
        self.apply_preset(preset);
        self.origins.insert("transport".to_owned(), origin);
        Ok(())
    }

    /// Chooses the controller called `name`.
    ///
    /// # Errors
    /// As [`Draft::set_transport`].
    pub fn set_cc(&mut self, name: &str, origin: Origin) -> Result<(), InputError> {
        let name = origin.meant(name, CcKind::NAMES);
        self.settings.cc = CcKind::by_name(name)
            .ok_or_else(|| unknown("congestion control", name, CcKind::NAMES))?;
        self.origins.insert("cc".to_owned(), origin);
        Ok(())
    }

    /// Chooses the load balancer called `name`.
    ///
    /// # Errors
    /// As [`Draft::set_transport`].
    pub fn set_lb(&mut self, name: &str, origin: Origin) -> Result<(), InputError> {
        let name = origin.meant(name, LbKind::NAMES);
        self.settings.lb =
            LbKind::by_name(name).ok_or_else(|| unknown("load balancer", name, LbKind::NAMES))?;
        self.origins.insert("lb".to_owned(), origin);
        Ok(())
    }

    /// Chooses the erasure code of far flows: `X,Y` or `off`.
    ///
    /// # Errors
    /// For anything else.
    pub fn set_ec(&mut self, text: &str, origin: Origin) -> Result<(), InputError> {
        self.set("ec", text, origin)
    }

    /// Sets the switches that write telemetry. Where some are named, packets of all flows have room
    /// for it.
    pub(super) fn set_stamping(&mut self, stamping: Stamping) {
        self.settings.int_always = matches!(stamping, Stamping::At(_));
        self.stamping = stamping;
    }

    /// Sets whether switches trim.
    pub fn set_trim(&mut self, trim: bool, origin: Origin) {
        self.trim = trim;
        self.origins.insert("trim".to_owned(), origin);
    }

    /// Sets the root of all chance.
    pub fn set_seed(&mut self, seed: u64, origin: Origin) {
        self.seed = seed;
        self.origins.insert("seed".to_owned(), origin);
    }

    /// Sets how many threads run a simulation.
    pub fn set_threads(&mut self, threads: usize, origin: Origin) {
        self.threads = threads;
        self.origins.insert("sim.threads".to_owned(), origin);
    }

    /// Sets the time between samples.
    pub fn set_sampling(&mut self, interval: Duration, origin: Origin) {
        self.sampling = Some(interval);
        self.origins.insert("sampling.interval".to_owned(), origin);
    }

    /// Sets a dotted key from text.
    ///
    /// # Errors
    /// When there is no such key, with the nearest one, or the value is none of its values.
    pub fn set(&mut self, key: &str, value: &str, origin: Origin) -> Result<(), InputError> {
        keys::set(self, key, value)?;
        self.written.insert(keys::canonical(key).to_owned(), key.to_owned());
        self.fault_origins.resize(self.faults.len(), origin.clone());
        self.origins.insert(keys::canonical(key).to_owned(), origin);
        Ok(())
    }

    /// Adds a fault.
    pub fn add_fault(&mut self, fault: FaultSpec, origin: Origin) {
        self.faults.push(fault);
        self.fault_origins.push(origin);
    }

    /// Sets what policies take over from the network unless it was set: `intra`, the base RTT
    /// between the farthest hosts of a site, and `inter`, that across sites, equal where there is
    /// only one.
    /// `known` is what else is known of it.
    pub fn fit_to(&mut self, intra: Duration, inter: Duration, known: &NetworkFacts) {
        // Settings are text of whole nanoseconds.
        let whole = |span: Duration| Duration::from_ns(span.as_ps().div_ceil(1000));
        let (site, inter) = (whole(intra), whole(inter));
        let far = if inter > site { whole(intra + Duration::from_ns(1)) } else { FAR_NOWHERE };
        let of_network = matches!(self.origin("far.rtt"), Origin::Default | Origin::Topology);
        if of_network && far < inter && self.settings.far.cc.is_some_and(CcKind::follows_borders) {
            // Flows across follow border switches however near the sites are.
            self.settings.far.rtt = far;
            self.origins.insert("far.rtt".to_owned(), Origin::Topology);
        }
        let facts = NetworkFacts {
            site_rtt: Some(site),
            inter_rtt: Some(inter),
            far_rtt: Some(far),
            propagation_rtt: known.propagation_rtt.map(whole),
            loop_rtt: known.loop_rtt.map(whole),
            ..*known
        };
        for (key, value) in policy_keys::resolved(self, &facts) {
            let given = !matches!(self.origin(&key), Origin::Default | Origin::Topology);
            if !(given && policy_keys::is_set(self, &key)) && keys::set(self, &key, &value).is_ok()
            {
                self.origins.insert(key, Origin::Topology);
            }
        }
    }

    /// Checks that no setting is set that only a simulation can obey: the lengths of real frames
    /// and the readings of real clocks cannot be chosen.
    ///
    /// # Errors
    /// Names the first setting of a simulation that is not at its default.
    pub fn check_real_world(&self) -> Result<(), InputError> {
        self.check_simulated(true)
    }

    /// [`Draft::check_real_world`] for emulated switches between real hosts: where hosts send in
    /// slots, the switches count packets as long as a simulation does.
    ///
    /// # Errors
    /// As [`Draft::check_real_world`].
    pub fn check_soft_switch(&self) -> Result<(), InputError> {
        self.check_simulated(!self.settings.sched.departs_in_slots())
    }

    /// Checks that the transport is one that hosts can run.
    ///
    /// # Errors
    /// Names a transport that is computed.
    pub fn check_sends(&self) -> Result<(), InputError> {
        if !self.transport.is_ideal() {
            return Ok(());
        }
        let found = format!("`ideal` by {}, which no host can run", self.origin("transport"));
        let error = InputError::new(found, "a transport that sends packets");
        Err(error.at("transport", 0, 0).help("choose another, or use --world sim"))
    }

    fn check_simulated(&self, with_sizes: bool) -> Result<(), InputError> {
        self.check_sends()?;
        let (sizes, clocks) = (&self.settings.accounted, &self.clocks);
        let simulated = [
            ("wire.data_overhead", with_sizes && sizes.data_overhead.is_some()),
            ("wire.control", with_sizes && sizes.control.is_some()),
            ("wire.data_min", with_sizes && sizes.data_min > 0),
            ("host.offset", clocks.offset > Duration::ZERO),
            ("host.drift_ppm", clocks.drift_ppm > 0.0),
            ("host.jitter", clocks.jitter > Duration::ZERO),
        ];
        let Some((key, _)) = simulated.into_iter().find(|(_, set)| *set) else { return Ok(()) };
        let value = keys::show(self, key).unwrap_or_default();
        let default = keys::default_of(key).unwrap_or_default();
        let found = format!("`{value}` by {}", self.origin(key));
        let expected = format!("`{default}` in a world with real frames and clocks");
        let by_preset = |key: &str| matches!(self.origin(key), Origin::Transport(_));
        let preset = simulated.iter().filter(|(key, set)| *set && by_preset(key));
        let away: String = preset
            .map(|(key, _)| format!(" --set {key}={}", keys::default_of(key).unwrap_or_default()))
            .collect();
        let help = if by_preset(key) {
            format!("replace what the transport sets:{away}; or run it with --world sim")
        } else {
            "leave it out, or run it with --world sim".to_owned()
        };
        Err(InputError::new(found, expected).at(key, 0, 0).help(help))
    }

    /// The settings with the policies' parameters as they act: none waits for trims where switches
    /// do not trim.
    #[must_use]
    pub fn acting(&self) -> Settings {
        let mut settings = self.settings.clone();
        settings.resolve(&self.switch_facts());
        settings
    }

    /// The settings of coded flows as they act: no block takes less time than the world needs.
    pub(super) fn ec_params(&self) -> EcParams {
        let least = self.block_timeout_min;
        let ec = self.settings.ec_params;
        if ec.patience() < least { EcParams { block_timeout: Some(least), ..ec } } else { ec }
    }

    fn switch_facts(&self) -> NetworkFacts {
        NetworkFacts { trims: Some(self.trim), ..NetworkFacts::default() }
    }

    /// The origin of the value of `key`.
    #[must_use]
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    /// The name of the setting `key` for messages: as it was written when it was set, else its
    /// second name, the one in documents.
    #[must_use]
    pub fn written<'a>(&'a self, key: &'a str) -> &'a str {
        self.written.get(key).map_or(keys::familiar(key), String::as_str)
    }

    /// Every setting with its value as text and its origin, in the order of the key table, then
    /// those of the chosen controller and balancer. Each fault has a line of its own.
    #[must_use]
    pub fn effective(&self) -> Vec<(String, String, Origin)> {
        let mut all = vec![
            ("transport", self.transport.name.to_owned()),
            ("cc", self.settings.cc.name().to_owned()),
            ("lb", self.settings.lb.name().to_owned()),
            ("trim", (if self.trim { "on" } else { "off" }).to_owned()),
            ("seed", self.seed.to_string()),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect::<Vec<_>>();
        all.extend(keys::effective(self));
        let by_trim = policy_keys::resolved(self, &self.switch_facts());
        let sourced = |(key, value): (String, String)| match key.as_str() {
            "fault" if !self.faults.is_empty() => {
                let faults = self.faults.iter().zip(&self.fault_origins);
                faults.map(|(f, origin)| (key.clone(), f.to_string(), origin.clone())).collect()
            }
            _ if by_trim.iter().any(|(changed, _)| *changed == key) => {
                vec![(key, value, self.origin("trim"))]
            }
            _ => {
                let origin = self.origin(&key);
                vec![(key, value, origin)]
            }
        };
        all.into_iter().flat_map(sourced).collect()
    }
}

/// The threshold that no base RTT reaches, where no other site is.
const FAR_NOWHERE: Duration = Duration::from_s(2);

fn unknown(what: &str, name: &str, known: &[&str]) -> InputError {
    InputError::new(format!("{what} `{name}`"), format!("a known {what}"))
        .help(did_you_mean(name, known))
}
