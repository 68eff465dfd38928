//! Fat trees of two and three tiers, oversubscribed or not, alone or two of them joined by border
//! switches; a leaf-spine is one of two tiers.
//!
//! Source: the `.topo` format of the field: hosts hang below ToRs, ToRs of a pod below the
//! aggregation switches of that pod, those below cores. A ToR's up port i goes to aggregation
//! switch i / bundle of its pod. Up port j of the a-th aggregation switch of a pod goes to core j /
//! bundle of group a. With two tiers the whole network is one pod and its aggregation switches, the
//! spines, have no way up. Core switches may be dealt out in turn instead, in any number: then up
//! port j of the a-th of m aggregation switches goes to core a + j m. Where sites are joined, every
//! switch of the top tier has `bundle` links to its site's border switch, and link i of a border
//! switch up ends at link i of the other. Ports are numbered NICs first, then tier by tier, switch
//! by switch, down ports before up ports. Where a site has several border switches, up port j of a
//! top switch goes to border switch j / bundle. Up port j of a border switch goes to border switch
//! j / n of the other site, where n is the number of links between two. Units: bytes on the wire,
//! picoseconds.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fabric::{
    Blueprint, Node, PacketSizes, PortSpec, ProgramSettings, QdiscKind, QdiscParams, QdiscSettings,
    SwitchSpec,
};
use transport::sched::SchedParams;
use transport::{Bytes, Duration, Rate};

use super::spec::{FatTreeSpec, SpecError, TIERS_MAX};

/// How the switches of a run behave.
#[derive(Clone, Debug, PartialEq)]
pub struct FabricParams {
    /// Discipline of switch ports.
    pub qdisc: QdiscKind,
    /// Discipline of NICs.
    pub nic_qdisc: QdiscKind,
    /// Discipline of ports at links of border switches; as all others when `None`.
    pub border_qdisc: Option<QdiscKind>,
    /// Bytes of a full data packet on the wire.
    pub mtu: u16,
    /// Bytes of an acknowledgement on the wire.
    pub ack_len: u16,
    /// Bytes of a probe on the wire.
    pub probe_len: u16,
    /// Full data packets that a probe stands for.
    pub per_probe: u16,
    /// Buffer of a switch port; 1 BDP of the network when `None`.
    pub buffer: Option<Bytes>,
    /// Control buffer of a switch port; when `None` as much as for data, and room for
    /// 64 acknowledgements at least.
    pub control_buffer: Option<Bytes>,
    /// Kmin and Kmax as shares of the data buffer, 0 ..= 1.
    pub mark: (f64, f64),
    /// The settings of disciplines.
    pub qdiscs: QdiscSettings,
    /// The settings of programs.
    pub programs: ProgramSettings,
    /// The settings of the hosts' schedulers, for programs that work with them.
    pub sched: SchedParams,
    /// Switches take the way that the entropy value of a packet names.
    pub explicit: bool,
    /// Bytes on the wire of the longest packet of the data class.
    pub packet_max: Bytes,
    /// Limit of each class of a NIC's queue; the driver is meant to stay far below.
    pub nic_buffer: Bytes,
    /// How long a dead link is still used by the switch at it.
    pub detection_delay: Duration,
}

impl Default for FabricParams {
    fn default() -> Self {
        Self {
            qdisc: QdiscKind::Trim,
            nic_qdisc: QdiscKind::DropTail,
            border_qdisc: None,
            mtu: 4160,
            ack_len: 64,
            probe_len: 64,
            per_probe: 1,
            buffer: None,
            control_buffer: None,
            mark: QdiscParams::MARK,
            qdiscs: QdiscSettings::default(),
            programs: ProgramSettings::default(),
            sched: SchedParams::default(),
            explicit: false,
            packet_max: Bytes(4160),
            nic_buffer: Bytes(64 << 20),
            detection_delay: Duration::from_us(100),
        }
    }
}

/// Acknowledgements that a control queue holds at least. A data queue of a packet or two is a
/// choice; a control queue of so few headers would lose refusals, and flows without feedback give
/// up.
const CONTROL_MIN: u64 = 64;

/// A tree whose numbers fit together, with its ports numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatTree {
    spec: FatTreeSpec,
    /// First port of each tier.
    port_base: [u32; TIERS_MAX],
    /// First switch of each tier, as the fabric numbers them.
    switch_base: [u32; TIERS_MAX],
    /// First port and first switch of the pods' schedulers, if there are any.
    schedulers: Option<(u32, u32)>,
    ports: u32,
}

impl FatTree {
    /// Checks `spec` and numbers its ports.
    ///
    /// # Errors
    /// The first contradiction in `spec`.
    pub fn new(spec: FatTreeSpec) -> Result<Self, SpecError> {
        // A checked tree has at most 2^24 hosts and 2^28 links in each tier, so ports fit 32 bits.
        spec.check()?;
        let ports = spec.nodes;
        let (port_base, switch_base) = ([0; TIERS_MAX], [0; TIERS_MAX]);
        let mut tree = Self { spec, port_base, switch_base, schedulers: None, ports };
        let mut switches = 0;
        for tier in 0..tree.spec.levels() {
            let at = usize::from(tier);
            (tree.port_base[at], tree.switch_base[at]) = (tree.ports, switches);
            tree.ports += tree.ports_before(tier, tree.spec.switches(tier));
            switches += tree.spec.switches(tier);
        }
        if tree.spec.schedulers > 0 {
            tree.schedulers = Some((tree.ports, switches));
            tree.ports += tree.scheduler_count() * tree.scheduler_links();
        }
        Ok(tree)
    }

    /// The shape that the tree was made from.
    #[must_use]
    pub const fn spec(&self) -> &FatTreeSpec {
        &self.spec
    }

    /// Links between two ends, both directions counted as one.
    #[must_use]
    pub const fn links(&self) -> u32 {
        self.ports / 2
    }

    /// Base round-trip time of the longest path: a full packet out, an acknowledgement back.
    #[must_use]
    pub fn base_rtt(&self, params: &FabricParams) -> Duration {
        self.spec.base_rtt(Bytes(u64::from(params.mtu)), Bytes(u64::from(params.ack_len)))
    }

    /// Bandwidth-delay product of the longest path at the rate of a host, in whole packets of
    /// `mtu`, rounded up.
    #[must_use]
    pub fn bdp(&self, params: &FabricParams) -> Bytes {
        self.product(params, self.base_rtt(params))
    }

    /// Bandwidth-delay product of the longest path inside a site, as [`FatTree::bdp`].
    #[must_use]
    pub fn site_bdp(&self, params: &FabricParams) -> Bytes {
        let [data, ack] = [params.mtu, params.ack_len].map(|len| Bytes(u64::from(len)));
        self.product(params, self.spec.site_rtt(data, ack))
    }

    fn product(&self, params: &FabricParams, rtt: Duration) -> Bytes {
        let mtu = u64::from(params.mtu.max(1));
        let bdp = self.spec.tier[0].link_rate().bytes_in(rtt).0;
        Bytes(bdp.div_ceil(mtu).saturating_mul(mtu))
    }

    /// The network of this tree.
    #[must_use]
    pub fn blueprint(&self, params: &FabricParams) -> Blueprint {
        let mut ports = Vec::with_capacity(self.ports as usize);
        let mut switches = Vec::new();
        let buffer = params.buffer.unwrap_or_else(|| self.site_bdp(params));
        let builder = PortBuilder { tree: self, params, buffer, path_bdp: self.bdp(params) };
        ports.extend((0..self.spec.nodes).map(|host| builder.nic(host)));
        for tier in 0..self.spec.levels() {
            for switch in 0..self.spec.switches(tier) {
                ports.extend((0..self.downs(tier)).map(|i| builder.down(tier, switch, i)));
                ports.extend((0..self.ups_of(tier, switch)).map(|i| builder.up(tier, switch, i)));
                let asides = 0..self.spec.asides(tier);
                ports.extend(asides.map(|i| builder.aside(tier, switch, i)));
                switches.push(self.switch(tier, switch));
            }
        }
        for scheduler in 0..self.scheduler_count() {
            ports.extend((0..self.scheduler_links()).map(|i| builder.of_scheduler(scheduler, i)));
            switches.push(self.scheduler(scheduler));
        }
        let mut blueprint = Blueprint {
            hosts: self.spec.nodes,
            ports,
            switches,
            programs: BTreeMap::new(),
            outages: BTreeMap::new(),
            outward: BTreeSet::new(),
            qdiscs: params.qdiscs.clone(),
            program_settings: params.programs.clone(),
            sched: params.sched.clone(),
            explicit: params.explicit,
            borders: self.borders(),
            detection_delay: params.detection_delay,
        };
        blueprint.pause_where_lossless();
        blueprint
    }

    /// The border switches where a site has several, site by site.
    fn borders(&self) -> Vec<u32> {
        let (first, count) = (self.switch_base[usize::from(self.spec.tiers)], self.spec.borders());
        if count > 1 { (first..first + self.spec.sites() * count).collect() } else { Vec::new() }
    }

    /// The first switch of a tier, as the fabric numbers them.
    pub(super) const fn first_switch(&self, tier: u8) -> u32 {
        self.switch_base[tier as usize]
    }

    /// The routing data of a switch. A border switch has a single child, its site, to which all its
    /// ports down lead.
    fn switch(&self, tier: u8, switch: u32) -> SwitchSpec {
        let spec = &self.spec;
        let [site, pod, tor] = [spec.site_hosts(), spec.podsize, spec.tier[0].radix_down];
        let bundle = spec.tier[usize::from(tier)].bundle;
        let (parent, hosts, child_hosts, bundle) = match tier {
            0 => (switch, tor, 1, 1),
            1 => (switch / spec.aggs_per_pod(), pod, tor, bundle),
            2 if spec.tiers == 3 => (switch / spec.cores_per_site(), site, pod, bundle),
            _ => (switch / spec.borders(), site, site, self.downs(tier)),
        };
        SwitchSpec {
            first_host: parent * hosts,
            hosts,
            child_hosts,
            bundle,
            down_port: self.port(tier, switch, 0),
            up_port: self.port(tier, switch, self.downs(tier)),
            ups: self.ups_of(tier, switch),
            asides: self.spec.asides(tier),
        }
    }

    /// The number of the scheduler's switch of a pod; `None` where pods have none.
    #[must_use]
    pub fn scheduler_of(&self, pod: u32) -> Option<u32> {
        self.schedulers.map(|(_, first)| first + pod)
    }

    /// The number of the switch of the backup of a pod's scheduler; `None` where pods have none.
    #[must_use]
    pub fn backup_of(&self, pod: u32) -> Option<u32> {
        let first = self.scheduler_of(0).filter(|_| self.spec.schedulers > 1)?;
        Some(first + self.spec.pods() + pod)
    }

    /// Schedulers of all pods, the backups behind all others.
    pub(super) fn scheduler_count(&self) -> u32 {
        self.spec.pods() * self.spec.schedulers
    }

    /// The ports of the links of a scheduler, first those at the scheduler, then those at the other
    /// ends in the same order: of that pod's first one, or of its backup.
    pub(super) fn scheduler_ports(&self, pod: u32, backup: bool) -> Vec<u32> {
        let spec = &self.spec;
        let of_pod = [spec.tors_per_pod(), spec.aggs_per_pod()];
        let number = pod + if backup { spec.pods() } else { 0 };
        let own = self.scheduler(number).down_port;
        let mut ports: Vec<u32> = (own..own + self.scheduler_links()).collect();
        for (tier, count) in (0..).zip(of_pod) {
            for switch in pod * count..(pod + 1) * count {
                let first = self.port(tier, switch, self.downs(tier) + self.ups_of(tier, switch));
                ports.push(first + u32::from(backup));
            }
        }
        ports
    }

    /// The switches of Cores, as the fabric numbers them; none with two tiers.
    #[must_use]
    pub fn core_switches(&self) -> Range<u32> {
        let cores = if self.spec.tiers == 3 { self.spec.cores() } else { 0 };
        self.switch_base[2]..self.switch_base[2] + cores
    }

    /// Links of a pod's scheduler: to its ToRs, then to its aggregation switches.
    pub(super) const fn scheduler_links(&self) -> u32 {
        self.spec.tors_per_pod() + self.spec.aggs_per_pod()
    }

    /// The switch of a scheduler, which has no hosts.
    fn scheduler(&self, number: u32) -> SwitchSpec {
        let (first_port, _) = self.schedulers.unwrap_or_default();
        let asides = self.scheduler_links();
        let port = first_port + number * asides;
        SwitchSpec {
            first_host: number % self.spec.pods() * self.spec.podsize,
            hosts: 0,
            child_hosts: 1,
            bundle: 1,
            down_port: port,
            up_port: port,
            ups: 0,
            asides,
        }
    }

    pub(super) const fn downs(&self, tier: u8) -> u32 {
        self.spec.tier[tier as usize].radix_down
    }

    /// Ports up of a switch of a tier.
    pub(super) const fn ups_of(&self, tier: u8, switch: u32) -> u32 {
        let short = self.short_from(tier);
        let is_short = short > 0 && switch % self.spec.aggs_per_pod() >= short;
        self.spec.tier[tier as usize].radix_up - is_short as u32
    }

    /// Ports up of `switches` switches of a tier, the first ones of a pod.
    pub(super) const fn ups_of_pod(&self, tier: u8, switches: u32) -> u32 {
        self.spec.tier[tier as usize].radix_up * switches - self.short_before(tier, switches)
    }

    /// The first aggregation switch of a pod with a port up less; 0 where all are alike.
    const fn short_from(&self, tier: u8) -> u32 {
        match self.spec.dealt_cores {
            Some(cores) if tier == 1 => cores % self.spec.aggs_per_pod(),
            _ => 0,
        }
    }

    /// How many of the first `switches` switches of a tier have a port up less.
    const fn short_before(&self, tier: u8, switches: u32) -> u32 {
        let short = self.short_from(tier);
        if short == 0 {
            return 0;
        }
        let aggs = self.spec.aggs_per_pod();
        switches / aggs * (aggs - short) + (switches % aggs).saturating_sub(short)
    }

    /// Ports of the first `switches` switches of a tier.
    const fn ports_before(&self, tier: u8, switches: u32) -> u32 {
        let ups = self.spec.tier[tier as usize].radix_up;
        let radix = self.downs(tier) + ups + self.spec.asides(tier);
        switches * radix - self.short_before(tier, switches)
    }

    /// Port `i` of a switch: down ports first, then up ports.
    pub(super) const fn port(&self, tier: u8, switch: u32, i: u32) -> u32 {
        self.port_base[tier as usize] + self.ports_before(tier, switch) + i
    }

    /// The switch at the end of up port `up` of one below it, and the down port of it at that
    /// link. Not for border switches, whose links up end at a peer.
    pub(super) fn above(&self, tier: u8, switch: u32, up: u32) -> (u32, u32) {
        let spec = &self.spec;
        let bundle = spec.tier[usize::from(tier) + 1].bundle.max(1);
        let (first, child) = match tier {
            _ if tier + 1 == spec.tiers => {
                let tops = spec.tops_per_site();
                (switch / tops * spec.borders(), switch % tops)
            }
            0 => {
                let tors = spec.tors_per_pod();
                (switch / tors * spec.aggs_per_pod(), switch % tors)
            }
            _ if spec.dealt_cores.is_some() => {
                let aggs = spec.aggs_per_pod();
                return (switch % aggs + up * aggs, switch / aggs);
            }
            _ => {
                let (pod, group) = (switch / spec.aggs_per_pod(), switch % spec.aggs_per_pod());
                let site = pod / spec.pods_per_site() * spec.cores_per_site();
                (site + group * spec.cores_per_group(), pod % spec.pods_per_site())
            }
        };
        (first + up / bundle, child * bundle + up % bundle)
    }

    /// The reverse: the switch at the end of down port `down` of one above the ToRs, and the up
    /// port of it, counted among those, at that link.
    pub(super) fn below(&self, tier: u8, switch: u32, down: u32) -> (u32, u32) {
        let spec = &self.spec;
        let bundle = spec.tier[usize::from(tier)].bundle.max(1);
        let child = down / bundle;
        let (below, place) = match tier {
            _ if tier == spec.tiers => {
                let (site, place) = (switch / spec.borders(), switch % spec.borders());
                (site * spec.tops_per_site() + child, place)
            }
            1 => {
                let pod = switch / spec.aggs_per_pod();
                (pod * spec.tors_per_pod() + child, switch % spec.aggs_per_pod())
            }
            _ if spec.dealt_cores.is_some() => {
                let aggs = spec.aggs_per_pod();
                return (child * aggs + switch % aggs, switch / aggs);
            }
            _ => {
                let (site, core) = (switch / spec.cores_per_site(), switch % spec.cores_per_site());
                let pod = site * spec.pods_per_site() + child;
                let group = core / spec.cores_per_group();
                (pod * spec.aggs_per_pod() + group, core % spec.cores_per_group())
            }
        };
        (below, place * bundle + down % bundle)
    }

    /// The border switch at the end of up port `up` of border switch `switch`, and the up port of
    /// it, counted among those, at that link.
    pub(super) fn across(&self, switch: u32, up: u32) -> (u32, u32) {
        let borders = self.spec.borders().max(1);
        let links = (self.spec.border().radix_up / borders).max(1);
        let (site, place) = (switch / borders, switch % borders);
        ((1 - site.min(1)) * borders + up / links, place * links + up % links)
    }

    fn node(&self, tier: u8, switch: u32) -> Node {
        Node::Switch(self.switch_base[usize::from(tier)] + switch)
    }
}

/// Makes the ports of a tree one by one.
struct PortBuilder<'a> {
    tree: &'a FatTree,
    params: &'a FabricParams,
    /// Buffer of ports whose tier sets none.
    buffer: Bytes,
    /// BDP of the longest path.
    path_bdp: Bytes,
}

impl PortBuilder<'_> {
    fn sizes(&self) -> PacketSizes {
        let FabricParams { mtu, probe_len, per_probe, .. } = *self.params;
        let probed = Bytes(u64::from(mtu) * u64::from(per_probe));
        PacketSizes { probed, probe: Bytes(probe_len.into()) }
    }

    fn nic(&self, host: u32) -> PortSpec {
        let tier = &self.tree.spec.tier[0];
        let limit = self.params.nic_buffer;
        PortSpec {
            rate: tier.link_rate(),
            delay: tier.link_latency() + tier.switch_latency(),
            qdisc: self.params.nic_qdisc,
            params: QdiscParams {
                sizes: self.sizes(),
                ..QdiscParams::for_buffer(
                    limit,
                    Bytes(u64::from(self.params.mtu)),
                    self.params.mark,
                )
            },
            stamps: false,
            owner: Node::Host(host),
            to: Node::Switch(host / tier.radix_down),
        }
    }

    fn down(&self, tier: u8, switch: u32, i: u32) -> PortSpec {
        let tree = self.tree;
        let spec = &tree.spec.tier[usize::from(tier)];
        let (to, traversal) = match tier {
            0 => (Node::Host(switch * spec.radix_down + i), Duration::ZERO),
            _ => {
                let (below, _) = tree.below(tier, switch, i);
                let traversal = tree.spec.tier[usize::from(tier) - 1].switch_latency();
                (tree.node(tier - 1, below), traversal)
            }
        };
        PortSpec {
            delay: spec.link_latency() + traversal,
            owner: tree.node(tier, switch),
            to,
            ..self.port(spec.link_rate(), spec.queue_down, tier == tree.spec.tiers)
        }
    }

    /// An up port goes to the tier above, whose numbers describe the link; a border switch's to
    /// one of the other site.
    fn up(&self, tier: u8, switch: u32, i: u32) -> PortSpec {
        let tree = self.tree;
        let own = &tree.spec.tier[usize::from(tier)];
        let (rate, delay, to) = match &tree.spec.wan {
            Some(wan) if tier == tree.spec.tiers => {
                let latency = Duration::from_ns(u64::from(wan.latency_ns)) + own.switch_latency();
                (wan.link_rate(), latency, tree.node(tier, tree.across(switch, i).0))
            }
            _ => {
                let above = &tree.spec.tier[usize::from(tier) + 1];
                let delay = above.link_latency() + above.switch_latency();
                (above.link_rate(), delay, tree.node(tier + 1, tree.above(tier, switch, i).0))
            }
        };
        let border = tier + 1 >= tree.spec.tiers;
        PortSpec {
            delay,
            owner: tree.node(tier, switch),
            to,
            ..self.port(rate, own.queue_up, border)
        }
    }

    /// Port `i` of a ToR or an aggregation switch to schedulers of its pod.
    fn aside(&self, tier: u8, switch: u32, i: u32) -> PortSpec {
        let tree = self.tree;
        let spec = &tree.spec;
        let of_pod = if tier == 0 { spec.tors_per_pod() } else { spec.aggs_per_pod() };
        let (_, first) = tree.schedulers.unwrap_or_default();
        let to = Node::Switch(first + i * spec.pods() + switch / of_pod.max(1));
        PortSpec { owner: tree.node(tier, switch), to, ..self.pod_link() }
    }

    /// Port `i` of a scheduler.
    fn of_scheduler(&self, number: u32, i: u32) -> PortSpec {
        let tree = self.tree;
        let pod = number % tree.spec.pods();
        let (tors, aggs) = (tree.spec.tors_per_pod(), tree.spec.aggs_per_pod());
        let (_, first) = tree.schedulers.unwrap_or_default();
        let to = match i.checked_sub(tors) {
            Some(agg) => tree.node(1, pod * aggs + agg),
            None => tree.node(0, pod * tors + i),
        };
        PortSpec { owner: Node::Switch(first + number), to, ..self.pod_link() }
    }

    /// A link of a pod's scheduler: like those between ToRs and aggregation switches, without a
    /// switch to traverse.
    fn pod_link(&self) -> PortSpec {
        let spec = &self.tree.spec.tier[1];
        let link = self.port(spec.link_rate(), spec.queue_down, false);
        PortSpec { delay: spec.link_latency(), ..link }
    }

    /// A port's queue, with ends to be filled in; `border` is true for a link of a border switch.
    fn port(&self, rate: Rate, own: Option<Bytes>, border: bool) -> PortSpec {
        let limit = own.unwrap_or(self.buffer);
        let mtu = Bytes(u64::from(self.params.mtu));
        let params = QdiscParams::for_buffer(limit, mtu, self.params.mark);
        let least = Bytes(CONTROL_MIN * u64::from(self.params.ack_len));
        let auto = params.control_limit.max(least);
        let control_limit = self.params.control_buffer.unwrap_or(auto);
        PortSpec {
            rate,
            delay: Duration::ZERO,
            qdisc: self.params.border_qdisc.filter(|_| border).unwrap_or(self.params.qdisc),
            params: QdiscParams {
                control_limit,
                path_bdp: Some(self.path_bdp),
                packet_max: self.params.packet_max,
                sizes: self.sizes(),
                ..params
            },
            stamps: false,
            owner: Node::Host(0),
            to: Node::Host(0),
        }
    }
}

#[cfg(test)]
#[path = "fat_tree/tests.rs"]
pub(super) mod tests;
