//! Fat trees of two and three tiers, oversubscribed or not; a leaf-spine is one of two.
//!
//! Source: the `.topo` format of the field: hosts hang below ToRs, ToRs of a pod below the
//! aggregation switches of that pod, those below cores. A ToR's up port i goes to aggregation switch
//! i / bundle of its pod; up port j of the a-th aggregation switch of a pod goes to core
//! j / bundle of group a. With two tiers the whole network is one pod and its aggregation
//! switches, the spines, have no way up. Ports are numbered NICs first, then tier by tier, switch by
//! switch, down ports before up ports. Units: bytes on the wire, picoseconds.

use core::fmt;

use transport::{Bytes, Duration, Rate};

use super::ideal::base_rtt_of_hops;
use super::spec::FatTreeSpec;
use crate::fabric::{Blueprint, Node, PortSpec, QdiscKind, QdiscParams, SwitchSpec};

/// The shape of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeSpec {
    /// Hosts in all.
    pub hosts: u32,
    /// Hosts of a pod; all of them in a tree of two tiers.
    pub pod_hosts: u32,
    /// ToR, aggregation and, with three tiers, core.
    pub tiers: Vec<TierSpec>,
}

/// The switches of one tier and the links below them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierSpec {
    /// Rate of the links going down, in both directions.
    pub down_rate: Rate,
    /// Propagation of the links going down.
    pub down_latency: Duration,
    /// Traversal of a switch.
    pub switch_latency: Duration,
    /// Down ports of a switch.
    pub radix_down: u32,
    /// Up ports of a switch; not looked at in the top tier.
    pub radix_up: u32,
    /// Parallel links between a switch and each child; 1 in tier 0.
    pub bundle: u32,
    /// Buffer of a down port, if not the run's.
    pub queue_down: Option<Bytes>,
    /// Buffer of an up port, if not the run's.
    pub queue_up: Option<Bytes>,
}

/// How the switches of a run behave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FabricParams {
    /// Discipline of switch ports; NICs are drop-tail.
    pub qdisc: QdiscKind,
    /// Bytes of a full data packet on the wire.
    pub mtu: u16,
    /// Bytes of an acknowledgement on the wire.
    pub ack_len: u16,
    /// Buffer of a switch port; 1 BDP of the network when `None`.
    pub buffer: Option<Bytes>,
    /// Buffer of a switch port for control; as much as for data when `None`.
    pub control_buffer: Option<Bytes>,
    /// Shares of the buffer up to which nothing and above which everything is marked.
    pub mark: (f64, f64),
    /// Limit of each class of a NIC's queue; the driver is meant to stay far below.
    pub nic_buffer: Bytes,
    /// How long a dead link is still used by the switch at it.
    pub detection_delay: Duration,
}

impl Default for FabricParams {
    fn default() -> Self {
        Self {
            qdisc: QdiscKind::Trim,
            mtu: 4160,
            ack_len: 64,
            buffer: None,
            control_buffer: None,
            mark: (0.2, 0.8),
            nic_buffer: Bytes(64 << 20),
            detection_delay: Duration::from_us(100),
        }
    }
}

/// A tree whose numbers fit together, with what follows from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatTree {
    spec: TreeSpec,
    pub(super) tors: u32,
    pub(super) tors_per_pod: u32,
    pub(super) aggs: u32,
    pub(super) aggs_per_pod: u32,
    pub(super) cores: u32,
    /// First port of each tier.
    port_base: [u32; 3],
    ports: u32,
}

/// Why a shape is not a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeError {
    /// There are two or three tiers.
    Tiers {
        /// What was given.
        given: usize,
    },
    /// A number must be positive.
    Zero {
        /// Which.
        what: &'static str,
        /// In which tier.
        tier: usize,
    },
    /// One number must be a multiple of another.
    NotAMultiple {
        /// Which.
        what: &'static str,
        /// Its value.
        value: u32,
        /// Of what.
        of: &'static str,
        /// The value of that.
        divisor: u32,
    },
    /// A number follows from the others and is something else.
    Mismatch {
        /// Which.
        what: &'static str,
        /// Its value.
        value: u32,
        /// What it must be.
        expected: u32,
    },
    /// More ports than can be numbered.
    TooLarge,
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tiers { given } => write!(f, "topology: {given} tiers; give 2 or 3"),
            Self::Zero { what, tier } => {
                write!(f, "topology: {what} of tier {tier} is zero; give at least 1")
            }
            Self::NotAMultiple { what, value, of, divisor } => {
                write!(f, "topology: {what} ({value}) must be a multiple of {of} ({divisor})")
            }
            Self::Mismatch { what, value, expected } => {
                write!(f, "topology: {what} is {value}; the other numbers make it {expected}")
            }
            Self::TooLarge => write!(f, "topology: more than 2^31 ports; make it smaller"),
        }
    }
}

impl std::error::Error for TreeError {}

impl From<&FatTreeSpec> for TreeSpec {
    fn from(file: &FatTreeSpec) -> Self {
        let tier = |spec: &super::spec::TierSpec| TierSpec {
            down_rate: spec.link_rate(),
            down_latency: spec.link_latency(),
            switch_latency: spec.switch_latency(),
            radix_down: spec.radix_down,
            radix_up: spec.radix_up,
            bundle: spec.bundle,
            queue_down: spec.queue_down,
            queue_up: spec.queue_up,
        };
        let tiers = file.tier[..usize::from(file.tiers)].iter().map(tier).collect();
        Self { hosts: file.nodes, pod_hosts: file.podsize, tiers }
    }
}

impl TreeSpec {
    /// `tors` leaves with `hosts_per_tor` hosts each below `spines` spines, every link alike.
    #[must_use]
    pub fn leaf_spine(
        tors: u32,
        hosts_per_tor: u32,
        spines: u32,
        rate: Rate,
        link_latency: Duration,
        switch_latency: Duration,
    ) -> Self {
        let leaf = TierSpec {
            down_rate: rate,
            down_latency: link_latency,
            switch_latency,
            radix_down: hosts_per_tor,
            radix_up: spines,
            bundle: 1,
            queue_down: None,
            queue_up: None,
        };
        let spine = TierSpec { radix_down: tors, radix_up: 0, ..leaf };
        let hosts = tors.saturating_mul(hosts_per_tor);
        Self { hosts, pod_hosts: hosts, tiers: vec![leaf, spine] }
    }

    fn check(&self) -> Result<(), TreeError> {
        if !matches!(self.tiers.len(), 2 | 3) {
            return Err(TreeError::Tiers { given: self.tiers.len() });
        }
        let top = self.tiers.len() - 1;
        for (tier, spec) in self.tiers.iter().enumerate() {
            let numbers = [
                ("radix_down", u64::from(spec.radix_down)),
                ("radix_up", if tier == top { 1 } else { u64::from(spec.radix_up) }),
                ("bundle", u64::from(spec.bundle)),
                ("downlink_speed", spec.down_rate.as_bps()),
                ("podsize", u64::from(self.pod_hosts)),
                ("nodes", u64::from(self.hosts)),
            ];
            if let Some((what, _)) = numbers.into_iter().find(|(_, number)| *number == 0) {
                return Err(TreeError::Zero { what, tier });
            }
        }
        let [tor, agg] = [&self.tiers[0], &self.tiers[1]];
        equals("bundle of tier 0", tor.bundle, 1)?;
        divides("nodes", self.hosts, "podsize", self.pod_hosts)?;
        divides("podsize", self.pod_hosts, "radix_down of tier 0", tor.radix_down)?;
        divides("radix_up of tier 0", tor.radix_up, "bundle of tier 1", agg.bundle)?;
        let tors_per_pod = self.pod_hosts / tor.radix_down;
        let links_down = tors_per_pod.checked_mul(agg.bundle).ok_or(TreeError::TooLarge)?;
        equals("radix_down of tier 1", agg.radix_down, links_down)?;
        let pods = self.hosts / self.pod_hosts;
        match self.tiers.get(2) {
            None => equals("nodes / podsize", pods, 1),
            Some(core) => {
                divides("radix_up of tier 1", agg.radix_up, "bundle of tier 2", core.bundle)?;
                let links_down = pods.checked_mul(core.bundle).ok_or(TreeError::TooLarge)?;
                equals("radix_down of tier 2", core.radix_down, links_down)
            }
        }
    }
}

fn divides(
    what: &'static str,
    value: u32,
    of: &'static str,
    divisor: u32,
) -> Result<(), TreeError> {
    if value.is_multiple_of(divisor) {
        Ok(())
    } else {
        Err(TreeError::NotAMultiple { what, value, of, divisor })
    }
}

fn equals(what: &'static str, value: u32, expected: u32) -> Result<(), TreeError> {
    if value == expected { Ok(()) } else { Err(TreeError::Mismatch { what, value, expected }) }
}

impl FatTree {
    /// Checks the numbers of `spec` against each other.
    ///
    /// # Errors
    /// The first number that does not fit.
    pub fn new(spec: TreeSpec) -> Result<Self, TreeError> {
        spec.check()?;
        let [tor, agg] = [spec.tiers[0], spec.tiers[1]];
        let pods = spec.hosts / spec.pod_hosts;
        let times = |a: u32, b: u32| a.checked_mul(b).ok_or(TreeError::TooLarge);
        let tors_per_pod = spec.pod_hosts / tor.radix_down;
        let aggs_per_pod = tor.radix_up / agg.bundle;
        let tors = times(pods, tors_per_pod)?;
        let aggs = times(pods, aggs_per_pod)?;
        let (agg_ups, cores, core_ports) = match spec.tiers.get(2) {
            None => (0, 0, 0),
            Some(core) => {
                let cores = times(aggs_per_pod, agg.radix_up / core.bundle)?;
                (agg.radix_up, cores, times(cores, core.radix_down)?)
            }
        };
        let tor_ports = u64::from(tors) * (u64::from(tor.radix_down) + u64::from(tor.radix_up));
        let agg_ports = u64::from(aggs) * (u64::from(agg.radix_down) + u64::from(agg_ups));
        let bases = [
            u64::from(spec.hosts),
            u64::from(spec.hosts) + tor_ports,
            u64::from(spec.hosts) + tor_ports + agg_ports,
        ];
        let ports = bases[2] + u64::from(core_ports);
        if ports > 1 << 31 {
            return Err(TreeError::TooLarge);
        }
        let narrow = |ports: u64| u32::try_from(ports).unwrap_or(u32::MAX);
        let [port_base, ports] = [bases.map(narrow), [narrow(ports); 3]];
        let ports = ports[0];
        Ok(Self { spec, tors, tors_per_pod, aggs, aggs_per_pod, cores, port_base, ports })
    }

    /// The shape it was made from.
    #[must_use]
    pub const fn spec(&self) -> &TreeSpec {
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
        base_rtt_of_hops(self, self.top_level(), params.mtu, params.ack_len)
    }

    /// Bandwidth-delay product of the longest path at the rate of a host, in whole packets of
    /// `mtu`, rounded up.
    #[must_use]
    pub fn bdp(&self, params: &FabricParams) -> Bytes {
        let mtu = u64::from(params.mtu.max(1));
        let bdp = self.spec.tiers[0].down_rate.bytes_in(self.base_rtt(params)).0;
        Bytes(bdp.div_ceil(mtu).saturating_mul(mtu))
    }

    /// How many tiers a packet climbs at most, 1 ..= 3: 3 where it crosses a core.
    #[must_use]
    pub const fn top_level(&self) -> u32 {
        if self.spec.hosts > self.spec.pod_hosts {
            3
        } else if self.tors > 1 {
            2
        } else {
            1
        }
    }

    /// The network of this tree.
    #[must_use]
    pub fn blueprint(&self, params: &FabricParams) -> Blueprint {
        let mut ports = Vec::with_capacity(self.ports as usize);
        let builder = PortBuilder { tree: self, params, buffer: self.buffer(params) };
        ports.extend((0..self.spec.hosts).map(|host| builder.nic(host)));
        for tor in 0..self.tors {
            ports.extend((0..self.spec.tiers[0].radix_down).map(|i| builder.tor_down(tor, i)));
            ports.extend((0..self.spec.tiers[0].radix_up).map(|i| builder.tor_up(tor, i)));
        }
        for agg in 0..self.aggs {
            ports.extend((0..self.spec.tiers[1].radix_down).map(|i| builder.agg_down(agg, i)));
            ports.extend((0..self.agg_ups()).map(|i| builder.agg_up(agg, i)));
        }
        for core in 0..self.cores {
            ports.extend((0..self.core_downs()).map(|i| builder.core_down(core, i)));
        }
        let tors = (0..self.tors).map(|tor| self.tor_switch(tor));
        let aggs = (0..self.aggs).map(|agg| self.agg_switch(agg));
        let cores = (0..self.cores).map(|core| self.core_switch(core));
        Blueprint {
            hosts: self.spec.hosts,
            ports,
            switches: tors.chain(aggs).chain(cores).collect(),
            detection_delay: params.detection_delay,
        }
    }

    fn buffer(&self, params: &FabricParams) -> Bytes {
        params.buffer.unwrap_or_else(|| self.bdp(params))
    }

    fn tor_switch(&self, tor: u32) -> SwitchSpec {
        let tier = &self.spec.tiers[0];
        SwitchSpec {
            first_host: tor * tier.radix_down,
            hosts: tier.radix_down,
            child_hosts: 1,
            bundle: 1,
            down_port: self.tor_port(tor, 0),
            up_port: self.tor_port(tor, tier.radix_down),
            ups: tier.radix_up,
        }
    }

    fn agg_switch(&self, agg: u32) -> SwitchSpec {
        let tier = &self.spec.tiers[1];
        SwitchSpec {
            first_host: agg / self.aggs_per_pod * self.spec.pod_hosts,
            hosts: self.spec.pod_hosts,
            child_hosts: self.spec.tiers[0].radix_down,
            bundle: tier.bundle,
            down_port: self.agg_port(agg, 0),
            up_port: self.agg_port(agg, tier.radix_down),
            ups: self.agg_ups(),
        }
    }

    fn core_switch(&self, core: u32) -> SwitchSpec {
        SwitchSpec {
            first_host: 0,
            hosts: self.spec.hosts,
            child_hosts: self.spec.pod_hosts,
            bundle: self.spec.tiers[2].bundle,
            down_port: self.core_port(core, 0),
            up_port: 0,
            ups: 0,
        }
    }

    pub(super) fn agg_ups(&self) -> u32 {
        if self.cores > 0 { self.spec.tiers[1].radix_up } else { 0 }
    }

    pub(super) fn core_downs(&self) -> u32 {
        self.spec.tiers.get(2).map_or(0, |core| core.radix_down)
    }

    /// Port `i` of a ToR: down ports first, then up ports.
    pub(super) fn tor_port(&self, tor: u32, i: u32) -> u32 {
        self.port_base[0] + tor * (self.spec.tiers[0].radix_down + self.spec.tiers[0].radix_up) + i
    }

    /// Port `i` of an aggregation switch: down ports first, then up ports.
    pub(super) fn agg_port(&self, agg: u32, i: u32) -> u32 {
        self.port_base[1] + agg * (self.spec.tiers[1].radix_down + self.agg_ups()) + i
    }

    /// Down port `i` of a core.
    pub(super) fn core_port(&self, core: u32, i: u32) -> u32 {
        self.port_base[2] + core * self.core_downs() + i
    }

    /// The aggregation switch at the end of a ToR's up port, and the down port of it at that link.
    pub(super) fn above_tor(&self, tor: u32, up: u32) -> (u32, u32) {
        let bundle = self.spec.tiers[1].bundle;
        let agg = tor / self.tors_per_pod * self.aggs_per_pod + up / bundle;
        (agg, tor % self.tors_per_pod * bundle + up % bundle)
    }

    /// The core at the end of an aggregation switch's up port, and the down port of it at that link.
    pub(super) fn above_agg(&self, agg: u32, up: u32) -> (u32, u32) {
        let bundle = self.spec.tiers.get(2).map_or(1, |core| core.bundle);
        let group = agg % self.aggs_per_pod * (self.agg_ups() / bundle);
        (group + up / bundle, agg / self.aggs_per_pod * bundle + up % bundle)
    }
}

/// Makes the ports of a tree one by one.
struct PortBuilder<'a> {
    tree: &'a FatTree,
    params: &'a FabricParams,
    /// Buffer of ports whose tier does not say.
    buffer: Bytes,
}

impl PortBuilder<'_> {
    fn nic(&self, host: u32) -> PortSpec {
        let tier = &self.tree.spec.tiers[0];
        let limit = self.params.nic_buffer;
        PortSpec {
            rate: tier.down_rate,
            delay: tier.down_latency + tier.switch_latency,
            qdisc: QdiscKind::DropTail,
            params: QdiscParams::for_buffer(limit, Bytes(u64::from(self.params.mtu))),
            owner: Node::Host(host),
            to: Node::Switch(host / tier.radix_down),
        }
    }

    fn tor_down(&self, tor: u32, i: u32) -> PortSpec {
        let host = tor * self.tree.spec.tiers[0].radix_down + i;
        self.down(0, Node::Switch(tor), Node::Host(host), Duration::ZERO)
    }

    fn tor_up(&self, tor: u32, i: u32) -> PortSpec {
        let (agg, _) = self.tree.above_tor(tor, i);
        self.up(0, tor, self.tree.tors + agg)
    }

    fn agg_down(&self, agg: u32, i: u32) -> PortSpec {
        let tree = self.tree;
        let pod = agg / tree.aggs_per_pod;
        let tor = pod * tree.tors_per_pod + i / tree.spec.tiers[1].bundle;
        let traversal = tree.spec.tiers[0].switch_latency;
        self.down(1, Node::Switch(tree.tors + agg), Node::Switch(tor), traversal)
    }

    fn agg_up(&self, agg: u32, i: u32) -> PortSpec {
        let tree = self.tree;
        let (core, _) = tree.above_agg(agg, i);
        self.up(1, tree.tors + agg, tree.tors + tree.aggs + core)
    }

    fn core_down(&self, core: u32, i: u32) -> PortSpec {
        let tree = self.tree;
        let bundle = tree.spec.tiers[2].bundle;
        let group = core / (tree.agg_ups() / bundle);
        let agg = i / bundle * tree.aggs_per_pod + group;
        let owner = Node::Switch(tree.tors + tree.aggs + core);
        let traversal = tree.spec.tiers[1].switch_latency;
        self.down(2, owner, Node::Switch(tree.tors + agg), traversal)
    }

    fn down(&self, tier: usize, owner: Node, to: Node, traversal: Duration) -> PortSpec {
        let spec = &self.tree.spec.tiers[tier];
        PortSpec {
            rate: spec.down_rate,
            delay: spec.down_latency + traversal,
            qdisc: self.params.qdisc,
            params: self.queue(spec.queue_down),
            owner,
            to,
        }
    }

    /// An up port of `tier` goes to the tier above, whose numbers describe the link.
    fn up(&self, tier: usize, owner: u32, to: u32) -> PortSpec {
        let above = &self.tree.spec.tiers[tier + 1];
        PortSpec {
            rate: above.down_rate,
            delay: above.down_latency + above.switch_latency,
            qdisc: self.params.qdisc,
            params: self.queue(self.tree.spec.tiers[tier].queue_up),
            owner: Node::Switch(owner),
            to: Node::Switch(to),
        }
    }

    fn queue(&self, own: Option<Bytes>) -> QdiscParams {
        let data_limit = own.unwrap_or(self.buffer);
        let (kmin, kmax) = self.params.mark;
        QdiscParams {
            data_limit,
            control_limit: self.params.control_buffer.unwrap_or(data_limit),
            kmin: share_of(data_limit, kmin),
            kmax: share_of(data_limit, kmax),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "buffers are below 2^53 bytes"
)]
#[expect(clippy::cast_possible_truncation, reason = "a share is not more than the whole")]
fn share_of(whole: Bytes, share: f64) -> Bytes {
    Bytes((whole.0 as f64 * share.clamp(0.0, 1.0)) as u64)
}

#[cfg(test)]
#[path = "fat_tree/tests.rs"]
pub(super) mod tests;
