//! A run in which everything is decided: traffic, network, endpoints, faults and seed. Every world
//! runs a [`Plan`].
//!
//! A [`Draft`] collects settings from defaults, presets, scenarios, flags and `--set`, each with
//! its source; [`Plan::new`] puts them together with a matrix and a topology and checks that they
//! fit.

mod bounds;
mod checks;
mod dcsim;
pub mod draft;
mod error;
mod facts;
mod ideal;
pub mod keys;
mod labels;
mod link_faults;
mod mlcc;
mod outages;
mod pfc;
mod pods;
mod policy_keys;
mod real_pod;
mod restarts;
mod sites;
mod stamping;
mod telemetry;
pub mod transports;
mod trim;
mod values;
mod zeropod;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use transport::ec::EcKind;
use transport::path::NetworkFacts;
use transport::sched::Ranks;
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::frame::header_overhead;
use transport::{Bytes, Config, ConfigError, Duration, HostId, LossSettings, Path, Rate, Settings};

pub use draft::{ClockSettings, Draft, NicSettings, Origin, SwitchSettings, VdevSettings};
pub use error::RunError;
use fabric::{Blueprint, QdiscKind};
pub use link_faults::LinkFault;
pub use real_pod::Measured;
pub use sites::longest_inside;
pub use stamping::Stamping;
pub use zeropod::check_matcher;

use crate::input::InputError;
use crate::topology::programs::{self, AssignError};
use crate::topology::{FabricParams, FatTree, FatTreeSpec, TIERS_MAX, base_rtt};
use crate::workload::matrix::LineMeaning;
use crate::workload::{FlowSpec, Matrix};

/// A run, wholly decided.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The traffic.
    pub matrix: Matrix,
    /// The network.
    pub tree: FatTree,
    /// How its switches behave.
    pub fabric: FabricParams,
    /// The settings of endpoints; table sizes follow for each host.
    pub settings: Settings,
    /// The draft, with the origins of all values and the settings that only one world reads.
    pub draft: Draft,
    /// Root of all chance.
    pub seed: u64,
    /// Network time after which the run ends unfinished.
    pub limit: Option<Duration>,
    /// Base RTTs by how far up a path climbs: 1 to 3 tiers, or to another site.
    base_rtts: [Duration; TIERS_MAX],
    /// Base RTTs that were measured, by sender and receiver; they replace those.
    measured_rtts: BTreeMap<(HostId, HostId), Duration>,
}

impl Plan {
    /// Puts a run together.
    ///
    /// # Errors
    /// When the parts do not fit.
    pub fn new(
        draft: &Draft,
        mut matrix: Matrix,
        topology: &FatTreeSpec,
    ) -> Result<Self, RunError> {
        matrix.message = draft.message;
        checks::check_hosts(&matrix, topology)?;
        let mut draft = draft.with_faults_of_network(topology.faults)?;
        trim::fit(&mut draft);
        mlcc::fit(&mut draft, topology.wan.is_some())?;
        telemetry::fit(&mut draft, &matrix, topology)?;
        let tree = FatTree::new(with_queues(&draft, topology))?;
        let mut settings = draft.settings.clone();
        settings.line_rate = topology.tier[0].link_rate();
        // Legal so far? Then lengths can be asked for.
        let config = config_of(&draft, settings.clone())?;
        let mut fabric = fabric_params(&draft, &config);
        let bdp = scaled(tree.site_bdp(&fabric), draft.switch.queue_bdp);
        fabric.buffer = Some(draft.switch.queue.unwrap_or_else(|| in_packets(bdp, &config)));
        checks::check_settings(&draft, &matrix, topology, &config)?;
        if draft.switch.queue.is_none() {
            let own = fabric.buffer.unwrap_or_default();
            fabric.buffer = Some(pfc::buffer(&blueprint(&draft, &tree, &fabric)?, own));
            fabric.buffer = fabric.buffer.max(dcsim::least_buffer(&fabric));
        }
        let blueprint = blueprint(&draft, &tree, &fabric)?;
        pfc::check(&draft, topology, (&fabric, &blueprint))?;
        let base_rtts = base_rtts(&draft, &tree, &fabric);
        let farthest = HostId(topology.nodes - 1);
        let inter = base_rtts[usize::from(topology.meeting_tier(HostId(0), farthest))];
        checks::check_round_trip(&draft, topology, inter)?;
        let facts = facts::with_loop(&draft, &tree, &fabric, &base_rtts);
        draft.fit_to(base_rtts[usize::from(topology.tiers - 1)], inter, &facts);
        fabric.programs = draft.switch.programs.clone();
        (settings.base_rtt, settings.ack_delay) = (inter, draft.settings.ack_delay);
        (settings.far.rtt, settings.ec_params) = (draft.settings.far.rtt, draft.ec_params());
        settings.loss = loss_settings(&draft);
        let acting = draft.acting();
        let Settings { cc_params, lb_params, rc_params, sched_params, .. } = acting;
        (settings.cc_params, settings.lb_params) = (cc_params, lb_params);
        settings.code_params = acting.code_params;
        (settings.rc_params, settings.sched_params) = (rc_params, sched_params);
        fabric.sched = settings.sched_params.clone();
        mlcc::check_round_trips(&draft, &settings)?;
        let most = Most::on_one_flow(&matrix, &settings);
        settings.msg_window = settings.msg_window.min(most.messages);
        settings.psn_window =
            draft.psn_window.unwrap_or_else(|| settings.psn_window_for(config.mtu(), most.packets));
        let config = config_of(&draft, settings.clone())?;
        fabric.qdiscs.bufferless.loose |= zeropod::expects_collisions(&draft, &config, &tree);
        dcsim::check(&draft, (&config, facts.propagation_rtt), &fabric, (topology, &blueprint))?;
        labels::check(config.sched, &matrix)?;
        restarts::check(&draft, tree.spec().nodes)?;
        let rtt = |tier: u8| base_rtts[usize::from(tier)];
        let cc_at =
            |tier| config.policies(&Path { base_rtt: rtt(tier), ..config.default_path() }).cc;
        mlcc::check(&draft, &config, &matrix, (&tree, &base_rtts, cc_at))?;
        telemetry::check(&draft, &config, &matrix, (topology, cc_at))?;
        ideal::check(&draft, &matrix)?;
        zeropod::check(&draft, &config, &fabric, &tree)?;
        trim::check(&draft)?;
        checks::check_ways(&draft, &matrix, topology)?;
        let (seed, limit, measured_rtts) = (draft.seed, draft.limit, BTreeMap::new());
        let plan =
            Self { matrix, tree, fabric, settings, draft, seed, limit, base_rtts, measured_rtts };
        // Faults of links that are not there are found before anything runs.
        plan.link_faults()?;
        Ok(plan)
    }

    /// This run with base RTTs that were measured, by sender and receiver.
    ///
    /// # Errors
    /// When sites decide which flows are far, and `far.rtt` does not lie between base RTTs inside a
    /// site and across.
    pub fn with_measured_rtts(
        mut self,
        rtts: BTreeMap<(HostId, HostId), Duration>,
    ) -> Result<Self, RunError> {
        self.measured_rtts = rtts;
        self.check_sides()?;
        Ok(self)
    }

    /// This run with other settings.
    ///
    /// # Errors
    /// When they do not fit.
    pub fn with(&self, change: impl FnOnce(&mut Draft)) -> Result<Self, RunError> {
        let mut draft = self.draft.clone();
        change(&mut draft);
        Self::new(&draft, self.matrix.clone(), self.tree.spec())
    }

    /// The network of this run.
    #[must_use]
    pub fn blueprint(&self) -> Blueprint {
        // Every program was for a switch of this tree when the plan was made.
        blueprint(&self.draft, &self.tree, &self.fabric)
            .unwrap_or_else(|_| self.tree.blueprint(&self.fabric))
    }

    /// How many hosts the network has; those without traffic are idle.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        self.tree.spec().nodes
    }

    /// How emulated hosts are addressed: headers of 42 bytes are IPv4's, IPv6's are longer.
    #[must_use]
    pub fn addressing(&self) -> Addressing {
        let v4 = header_overhead(IpVersion::V4);
        let is_v4 = self.settings.frame_overhead == v4;
        let version = if is_v4 { IpVersion::V4 } else { IpVersion::V6 };
        Addressing::emulated(version).with_udp_port(self.draft.udp_port)
    }

    /// The path between two hosts, as the sender's controller sees it.
    #[must_use]
    pub fn path(&self, src: HostId, dst: HostId) -> Path {
        let tier = self.tree.spec().meeting_tier(src, dst);
        let measured = self.measured_rtts.get(&(src, dst));
        let base = self.base_rtts[usize::from(tier)];
        Path {
            base_rtt: measured.map_or(base, |rtt| self.on_its_side(*rtt, tier)),
            line_rate: self.settings.line_rate.min(facts::path_rate(&self.tree, tier)),
            mtu: Bytes(u64::from(self.fabric.mtu)),
        }
    }

    /// Whether a simulation measures how long data takes from its host's line to its arrival. It
    /// does where flows are of collectives or a scheduler does more than give flows turns. NICs
    /// must also send in order, without pauses, so that the start of data follows from what waits
    /// before it.
    #[must_use]
    pub fn measures_delay(&self) -> bool {
        let collective = |flow: &FlowSpec| flow.collective != 0;
        let is_asked_for = !self.settings.sched.facts().only_takes_turns
            || self.matrix.flows.iter().any(collective);
        let in_order = self.fabric.nic_qdisc.keeps_order();
        let pauses = self.draft.programs.iter().filter_map(|spec| spec.program.qdisc());
        let qdiscs = pauses.chain([self.fabric.qdisc, self.fabric.nic_qdisc]);
        is_asked_for && in_order && !qdiscs.into_iter().any(|qdisc| qdisc.needs_pauses())
    }

    /// The value in data by which ports rank it: what its flow has left, or whether its slot was
    /// granted; `None` where no port uses such a value.
    #[must_use]
    pub fn ranks_data(&self) -> Option<Ranks> {
        let Self { fabric, settings, .. } = self;
        let qdiscs = [Some(fabric.qdisc), fabric.border_qdisc, Some(fabric.nic_qdisc)];
        let ranks = settings.sched.ranks()?;
        let mut used = qdiscs.into_iter().flatten().filter_map(QdiscKind::ranks_by);
        used.any(|by| by == ranks).then_some(ranks)
    }

    /// The configuration of each host's endpoint: tables as large as its traffic needs.
    ///
    /// # Errors
    /// When a setting is out of range.
    pub fn host_configs(&self) -> Result<Vec<Config>, RunError> {
        let mut needs = vec![Needs::default(); self.hosts() as usize];
        for flow in &self.matrix.flows {
            let messages = self.matrix.messages(flow.size);
            let src = &mut needs[flow.src.0 as usize];
            (src.tx_flows, src.tx_msgs) = (src.tx_flows + 1, src.tx_msgs.saturating_add(messages));
            let dst = &mut needs[flow.dst.0 as usize];
            (dst.rx_flows, dst.rx_msgs) = (dst.rx_flows + 1, dst.rx_msgs.saturating_add(messages));
        }
        // A process may have a flow under each key that its sender gives it: one more for each time
        // that the host begins anew.
        let mut lives = vec![1; needs.len()];
        self.host_restarts().iter().for_each(|(_, host)| lives[host.0 as usize] += 1);
        for (needs, lives) in needs.iter_mut().zip(lives) {
            needs.rx_flows *= lives;
            needs.rx_msgs = needs.rx_msgs.saturating_mul(lives);
        }
        let clamp = |n: u64| u32::try_from(n.clamp(1, 1 << 20)).unwrap_or(1 << 20);
        // Hosts with tables of one size share a configuration, and so its place in the cache.
        let mut shared = BTreeMap::new();
        let mut config = |needs: Needs| {
            let msgs = clamp(needs.tx_msgs.max(needs.rx_msgs));
            let sizes = (clamp(needs.tx_flows), clamp(needs.rx_flows), msgs);
            match shared.entry(sizes) {
                Entry::Occupied(same) => Ok(Config::clone(same.get())),
                Entry::Vacant(vacant) => {
                    let (tx_flows_max, rx_flows_max, msgs_max) = sizes;
                    let settings = self.settings.clone();
                    let settings = Settings { tx_flows_max, rx_flows_max, msgs_max, ..settings };
                    Ok(vacant.insert(Config::new(settings)?).clone())
                }
            }
        };
        needs.into_iter().map(&mut config).collect()
    }

    /// The round trip of the shortest control loop of flows. Where a flow stays inside a site, or a
    /// border switch takes part in control, it is that of a site. With one site, it is that between
    /// the farthest hosts.
    #[must_use]
    pub fn shortest_loop(&self) -> Duration {
        let spec = self.tree.spec();
        let mut flows = self.matrix.flows.iter();
        let mut inside = || flows.any(|flow| self.crosses(flow.src, flow.dst) == Some(false));
        let bordered = || self.draft.programs.iter().any(|spec| spec.program.ends_loops());
        if spec.sites() > 1 && (bordered() || inside()) {
            self.site_rtt()
        } else {
            self.settings.base_rtt
        }
    }

    /// True when some flow's messages are erasure-coded: an erasure code was chosen, and a path is
    /// long enough.
    #[must_use]
    pub fn codes(&self) -> bool {
        let far = self.settings.base_rtt >= self.settings.ec_params.base_rtt_min;
        self.settings.ec != EcKind::Uncoded && far
    }

    /// Whether coded blocks wait longer than the settings say, since the world needs it.
    #[must_use]
    pub fn raises_block_timeout(&self) -> bool {
        let set = self.draft.settings.ec_params.patience();
        self.codes() && set < self.draft.block_timeout_min
    }

    /// The keys of this run's policies whose values change at hosts that poll their devices, with
    /// the values that they get there.
    #[must_use]
    pub fn changes_on_devices(&self) -> Vec<(String, String)> {
        policy_keys::resolved_of_chosen(&self.draft, &NetworkFacts::of_devices())
    }
}

/// How many table entries one host's traffic needs.
#[derive(Clone, Copy, Default)]
struct Needs {
    tx_flows: u64,
    rx_flows: u64,
    tx_msgs: u64,
    rx_msgs: u64,
}

/// The network with its programs.
fn blueprint(draft: &Draft, tree: &FatTree, fabric: &FabricParams) -> Result<Blueprint, RunError> {
    let mut blueprint = tree.blueprint(fabric);
    programs::assign(&draft.programs, tree, &mut blueprint).map_err(|error| {
        let given = programs::show(&draft.programs);
        let (expected, help) = match error {
            AssignError::Absent(_) => {
                ("switches of this network", "see the tiers with `headrace list topologies`")
            }
            AssignError::Replaced(_) => {
                ("a switch that is left to each program", "leave it out, or write it last")
            }
            AssignError::Unpaused(_) => (
                "ports that drop what they have no room for",
                "choose another discipline than lossless there: --set switch.border_qdisc=ecn for \
                 border switches, else --set switch.qdisc=ecn",
            ),
        };
        InputError::new(format!("`{given}`: {error}"), expected)
            .at("switch.program", 0, 0)
            .help(help)
    })?;
    telemetry::stamp(draft, tree, &mut blueprint)?;
    pods::place(draft, tree, &mut blueprint);
    blueprint.outages = outages::outages(draft, tree, &blueprint.programs)?;
    Ok(blueprint)
}

/// Room for the packets of a BDP, which is counted in packets so that what only first segments
/// carry takes none of their room.
fn in_packets(bdp: Bytes, config: &Config) -> Bytes {
    let packets = bdp.0.div_ceil(config.mtu().0).max(1);
    Bytes(packets.saturating_mul(config.packet_max().0))
}

fn fabric_params(draft: &Draft, config: &Config) -> FabricParams {
    let by_trim = if draft.trim { QdiscKind::Trim } else { QdiscKind::Ecn };
    let narrow = |len: Bytes| u16::try_from(len.0).unwrap_or(u16::MAX);
    FabricParams {
        qdisc: draft.switch.qdisc.unwrap_or(by_trim),
        mtu: narrow(config.mtu()),
        ack_len: narrow(config.ack_len()),
        probe_len: narrow(config.probe_len()),
        per_probe: dcsim::per_probe(draft),
        buffer: None,
        control_buffer: draft.switch.control_queue,
        mark: (draft.switch.kmin, draft.switch.kmax),
        border_qdisc: draft.switch.border_qdisc,
        nic_qdisc: zeropod::nic_qdisc(draft),
        qdiscs: draft.switch.qdiscs.clone(),
        programs: draft.switch.programs.clone(),
        explicit: draft.switch.explicit,
        packet_max: config.packet_max(),
        detection_delay: draft.switch.detection.unwrap_or(Duration::MAX),
        ..FabricParams::default()
    }
}

/// The topology with the queues of settings that replace its own.
fn with_queues(draft: &Draft, topology: &FatTreeSpec) -> FatTreeSpec {
    let mut topology = topology.clone();
    let replace = |queue: &mut Option<Bytes>, by: Option<Bytes>| *queue = by.or(*queue);
    for tier in &mut topology.tier {
        replace(&mut tier.queue_down, draft.switch.queue);
        replace(&mut tier.queue_up, draft.switch.queue);
    }
    if topology.wan.is_some() {
        let border = usize::from(topology.tiers);
        let by = draft.switch.border_queue;
        replace(&mut topology.tier[border - 1].queue_up, by);
        replace(&mut topology.tier[border].queue_down, by);
        replace(&mut topology.tier[border].queue_up, by);
    }
    topology
}

fn base_rtts(draft: &Draft, tree: &FatTree, fabric: &FabricParams) -> [Duration; TIERS_MAX] {
    let spec = tree.spec();
    // A host one ToR, one pod, one core and one site away, as far as there are such.
    let far = |n: u32| HostId(n.min(spec.nodes - 1));
    let [data, ack] = [fabric.mtu, fabric.ack_len].map(u64::from);
    let two_tiers = spec.tiers == 2;
    let core = if two_tiers { spec.site_hosts() } else { spec.podsize };
    let away = [(0, 1), (1, spec.tier[0].radix_down), (2, core), (3, spec.site_hosts())];
    let mut rtts = away.map(|(tier, hosts)| {
        // Behind the last host of a site is one of the other: the way to the tier counts.
        let has_none = tier < spec.tiers && hosts >= spec.site_hosts() && spec.sites() > 1;
        let measured = match has_none {
            true => spec.rtt_via(tier, Bytes(data), Bytes(ack)),
            false => base_rtt(tree, HostId(0), far(hosts), data, ack),
        };
        let inside = draft.site_rtt.filter(|_| tier < spec.tiers);
        inside.or(draft.base_rtt).unwrap_or(measured + draft.rtt_allowance)
    });
    sites::part(draft, spec, &mut rtts);
    rtts
}

/// Settings of loss detection. Trimming reports nearly every loss, so inference may be patient: one
/// path may have three full queues, and another none. Without trimming losses are found by
/// inference.
fn loss_settings(draft: &Draft) -> LossSettings {
    let default = if draft.trim { 12 } else { 2 };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 1..=4000"
    )]
    let quarters = |rtts: f64| (rtts * 4.0).clamp(1.0, 4000.0) as u16;
    let in_order = draft.reorder_window == Some(Some(0.0));
    LossSettings {
        reorder_window_quarters: match draft.reorder_window {
            None => Some(default),
            // Of flows that do not keep one path.
            Some(_) if in_order => Some(default),
            Some(window) => window.map(quarters),
        },
        in_order,
        tail_probe: draft.tail_probe.unwrap_or(!draft.trim),
        ..draft.settings.loss
    }
}

/// The most that one transport flow of a matrix carries: a receiver keeps windows of both for every
/// flow, and none needs to be larger than the flow can fill.
struct Most {
    messages: u16,
    packets: u64,
}

impl Most {
    fn on_one_flow(matrix: &Matrix, settings: &Settings) -> Self {
        if matrix.flows.iter().any(|flow| flow.message != LineMeaning::Flow) {
            return Self { messages: u16::MAX, packets: u64::MAX };
        }
        let longest = matrix.flows.iter().map(|flow| flow.size.0).max().unwrap_or(1);
        Self {
            messages: u16::try_from(matrix.messages(Bytes(longest))).unwrap_or(u16::MAX).max(1),
            packets: with_parity(longest.div_ceil(u64::from(settings.payload_max)), settings),
        }
    }
}

/// Segments and the parity that goes with them, where flows are coded.
fn with_parity(segments: u64, settings: &Settings) -> u64 {
    if settings.ec == EcKind::Uncoded {
        return segments;
    }
    let shape = settings.ec_shape;
    let blocks = segments.div_ceil(u64::from(shape.data())) + 1;
    segments.saturating_add(blocks.saturating_mul(u64::from(shape.parity())))
}

/// The settings of an endpoint where there is no topology: one link of `line_rate`, all of whose
/// paths have `base_rtt` unless the draft says otherwise. The caller sets table sizes.
///
/// # Errors
/// When a setting is out of range, or the transport needs more of a network than a link.
pub fn link_settings(
    draft: &Draft,
    line_rate: Rate,
    base_rtt: Duration,
) -> Result<Settings, RunError> {
    draft.check_on_link()?;
    draft.check_real_world()?;
    let mut settings = draft.acting();
    settings.line_rate = line_rate;
    settings.base_rtt = draft.base_rtt.unwrap_or(base_rtt);
    settings.loss = loss_settings(draft);
    let mtu = config_of(draft, settings.clone())?.mtu();
    settings.psn_window =
        draft.psn_window.unwrap_or_else(|| settings.psn_window_for(mtu, u64::MAX));
    Ok(settings)
}

/// The configuration of these settings.
///
/// # Errors
/// The first setting that is out of its range, with its value and where `draft` has it from.
fn config_of(draft: &Draft, settings: Settings) -> Result<Config, RunError> {
    let base_rtt = settings.base_rtt;
    Config::new(settings).map_err(|error| {
        let ConfigError::Setting { name, expected } = &error else { return error.into() };
        let Some(mut value) = keys::show(draft, name) else { return error.into() };
        if *name == "base_rtt" {
            value = base_rtt.to_string();
        }
        let found = format!("`{}={value}`", draft.written(name));
        let help = format!("headrace list settings says more of {name}");
        let error = InputError::new(found, *expected).help(help);
        error.at(name, 0, 0).into()
    })
}

fn scaled(bytes: Bytes, factor: f64) -> Bytes {
    #[expect(clippy::cast_precision_loss, reason = "buffers are below 2^53 bytes")]
    let product = bytes.0 as f64 * factor;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    Bytes((product as u64).max(1))
}
