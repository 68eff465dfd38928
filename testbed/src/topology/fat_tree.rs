//! Fat trees of two and three tiers, oversubscribed or not; a leaf-spine is one of two.
//!
//! Source: the `.topo` format of the field: hosts hang below ToRs, ToRs of a pod below the
//! aggregation switches of that pod, those below cores. A ToR's up port i goes to aggregation
//! switch i / bundle of its pod; up port j of the a-th aggregation switch of a pod goes to core
//! j / bundle of group a. With two tiers the whole network is one pod and its aggregation switches,
//! the spines, have no way up. Ports are numbered NICs first, then tier by tier, switch by switch,
//! down ports before up ports. Units: bytes on the wire, picoseconds.

use transport::{Bytes, Duration};

use super::spec::{FatTreeSpec, SpecError};
use crate::fabric::{Blueprint, Node, PauseParams, PortSpec, QdiscKind, QdiscParams, SwitchSpec};

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
    /// Control buffer of a switch port; as much as for data when `None`.
    pub control_buffer: Option<Bytes>,
    /// Kmin and Kmax as shares of the data buffer, 0 ..= 1.
    pub mark: (f64, f64),
    /// When lossless switches pause a link.
    pub pause: PauseParams,
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
            mark: QdiscParams::MARK,
            pause: PauseParams { packet_max: Bytes(4160), xoff: None, xon: None },
            nic_buffer: Bytes(64 << 20),
            detection_delay: Duration::from_us(100),
        }
    }
}

/// A tree whose numbers fit together, with its ports numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatTree {
    spec: FatTreeSpec,
    /// First port of each tier.
    port_base: [u32; 3],
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
        let mut tree = Self { spec, port_base: [0; 3], ports: 0 };
        let spec = &tree.spec;
        let tors = spec.nodes;
        let aggs = tors + spec.tors() * (spec.tier[0].radix_down + spec.tier[0].radix_up);
        let cores = aggs + spec.aggs() * (spec.tier[1].radix_down + tree.agg_ups());
        tree.ports = cores + spec.cores() * tree.core_downs();
        tree.port_base = [tors, aggs, cores];
        Ok(tree)
    }

    /// The shape it was made from.
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
        let mtu = u64::from(params.mtu.max(1));
        let bdp = self.spec.tier[0].link_rate().bytes_in(self.base_rtt(params)).0;
        Bytes(bdp.div_ceil(mtu).saturating_mul(mtu))
    }

    /// The network of this tree.
    #[must_use]
    pub fn blueprint(&self, params: &FabricParams) -> Blueprint {
        let mut ports = Vec::with_capacity(self.ports as usize);
        let builder = PortBuilder { tree: self, params, buffer: self.buffer(params) };
        ports.extend((0..self.spec.nodes).map(|host| builder.nic(host)));
        for tor in 0..self.spec.tors() {
            ports.extend((0..self.spec.tier[0].radix_down).map(|i| builder.tor_down(tor, i)));
            ports.extend((0..self.spec.tier[0].radix_up).map(|i| builder.tor_up(tor, i)));
        }
        for agg in 0..self.spec.aggs() {
            ports.extend((0..self.spec.tier[1].radix_down).map(|i| builder.agg_down(agg, i)));
            ports.extend((0..self.agg_ups()).map(|i| builder.agg_up(agg, i)));
        }
        for core in 0..self.spec.cores() {
            ports.extend((0..self.core_downs()).map(|i| builder.core_down(core, i)));
        }
        let tors = (0..self.spec.tors()).map(|tor| self.tor_switch(tor));
        let aggs = (0..self.spec.aggs()).map(|agg| self.agg_switch(agg));
        let cores = (0..self.spec.cores()).map(|core| self.core_switch(core));
        Blueprint {
            hosts: self.spec.nodes,
            ports,
            switches: tors.chain(aggs).chain(cores).collect(),
            detection_delay: params.detection_delay,
        }
    }

    fn buffer(&self, params: &FabricParams) -> Bytes {
        params.buffer.unwrap_or_else(|| self.bdp(params))
    }

    fn tor_switch(&self, tor: u32) -> SwitchSpec {
        let tier = &self.spec.tier[0];
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
        let tier = &self.spec.tier[1];
        SwitchSpec {
            first_host: agg / self.spec.aggs_per_pod() * self.spec.podsize,
            hosts: self.spec.podsize,
            child_hosts: self.spec.tier[0].radix_down,
            bundle: tier.bundle,
            down_port: self.agg_port(agg, 0),
            up_port: self.agg_port(agg, tier.radix_down),
            ups: self.agg_ups(),
        }
    }

    fn core_switch(&self, core: u32) -> SwitchSpec {
        SwitchSpec {
            first_host: 0,
            hosts: self.spec.nodes,
            child_hosts: self.spec.podsize,
            bundle: self.spec.tier[2].bundle,
            down_port: self.core_port(core, 0),
            up_port: 0,
            ups: 0,
        }
    }

    pub(super) fn agg_ups(&self) -> u32 {
        if self.spec.tiers == 3 { self.spec.tier[1].radix_up } else { 0 }
    }

    pub(super) fn core_downs(&self) -> u32 {
        if self.spec.tiers == 3 { self.spec.tier[2].radix_down } else { 0 }
    }

    /// Port `i` of a ToR: down ports first, then up ports.
    pub(super) fn tor_port(&self, tor: u32, i: u32) -> u32 {
        self.port_base[0] + tor * (self.spec.tier[0].radix_down + self.spec.tier[0].radix_up) + i
    }

    /// Port `i` of an aggregation switch: down ports first, then up ports.
    pub(super) fn agg_port(&self, agg: u32, i: u32) -> u32 {
        self.port_base[1] + agg * (self.spec.tier[1].radix_down + self.agg_ups()) + i
    }

    /// Down port `i` of a core.
    pub(super) fn core_port(&self, core: u32, i: u32) -> u32 {
        self.port_base[2] + core * self.core_downs() + i
    }

    /// The aggregation switch at the end of a ToR's up port, and the down port of it at that link.
    pub(super) fn above_tor(&self, tor: u32, up: u32) -> (u32, u32) {
        let bundle = self.spec.tier[1].bundle;
        let agg = tor / self.spec.tors_per_pod() * self.spec.aggs_per_pod() + up / bundle;
        (agg, tor % self.spec.tors_per_pod() * bundle + up % bundle)
    }

    /// The core at the end of an aggregation switch's up port, and the down port of it at that
    /// link.
    pub(super) fn above_agg(&self, agg: u32, up: u32) -> (u32, u32) {
        let bundle = self.spec.tier[2].bundle.max(1);
        let group = agg % self.spec.aggs_per_pod() * (self.agg_ups() / bundle);
        (group + up / bundle, agg / self.spec.aggs_per_pod() * bundle + up % bundle)
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
        let tier = &self.tree.spec.tier[0];
        let limit = self.params.nic_buffer;
        PortSpec {
            rate: tier.link_rate(),
            delay: tier.link_latency() + tier.switch_latency(),
            qdisc: QdiscKind::DropTail,
            params: QdiscParams::for_buffer(
                limit,
                Bytes(u64::from(self.params.mtu)),
                self.params.mark,
            ),
            owner: Node::Host(host),
            to: Node::Switch(host / tier.radix_down),
        }
    }

    fn tor_down(&self, tor: u32, i: u32) -> PortSpec {
        let host = tor * self.tree.spec.tier[0].radix_down + i;
        self.down(0, Node::Switch(tor), Node::Host(host), Duration::ZERO)
    }

    fn tor_up(&self, tor: u32, i: u32) -> PortSpec {
        let (agg, _) = self.tree.above_tor(tor, i);
        self.up(0, tor, self.tree.spec.tors() + agg)
    }

    fn agg_down(&self, agg: u32, i: u32) -> PortSpec {
        let tree = self.tree;
        let pod = agg / tree.spec.aggs_per_pod();
        let tor = pod * tree.spec.tors_per_pod() + i / tree.spec.tier[1].bundle;
        let traversal = tree.spec.tier[0].switch_latency();
        self.down(1, Node::Switch(tree.spec.tors() + agg), Node::Switch(tor), traversal)
    }

    fn agg_up(&self, agg: u32, i: u32) -> PortSpec {
        let tree = self.tree;
        let (core, _) = tree.above_agg(agg, i);
        self.up(1, tree.spec.tors() + agg, tree.spec.tors() + tree.spec.aggs() + core)
    }

    fn core_down(&self, core: u32, i: u32) -> PortSpec {
        let tree = self.tree;
        let bundle = tree.spec.tier[2].bundle;
        let group = core / (tree.agg_ups() / bundle);
        let agg = i / bundle * tree.spec.aggs_per_pod() + group;
        let owner = Node::Switch(tree.spec.tors() + tree.spec.aggs() + core);
        let traversal = tree.spec.tier[1].switch_latency();
        self.down(2, owner, Node::Switch(tree.spec.tors() + agg), traversal)
    }

    fn down(&self, tier: usize, owner: Node, to: Node, traversal: Duration) -> PortSpec {
        let spec = &self.tree.spec.tier[tier];
        PortSpec {
            rate: spec.link_rate(),
            delay: spec.link_latency() + traversal,
            qdisc: self.params.qdisc,
            params: self.queue(spec.queue_down),
            owner,
            to,
        }
    }

    /// An up port of `tier` goes to the tier above, whose numbers describe the link.
    fn up(&self, tier: usize, owner: u32, to: u32) -> PortSpec {
        let above = &self.tree.spec.tier[tier + 1];
        PortSpec {
            rate: above.link_rate(),
            delay: above.link_latency() + above.switch_latency(),
            qdisc: self.params.qdisc,
            params: self.queue(self.tree.spec.tier[tier].queue_up),
            owner: Node::Switch(owner),
            to: Node::Switch(to),
        }
    }

    fn queue(&self, own: Option<Bytes>) -> QdiscParams {
        let limit = own.unwrap_or(self.buffer);
        let mtu = Bytes(u64::from(self.params.mtu));
        let params = QdiscParams::for_buffer(limit, mtu, self.params.mark);
        let control_limit = self.params.control_buffer.unwrap_or(params.control_limit);
        QdiscParams { control_limit, pause: self.params.pause, ..params }
    }
}

#[cfg(test)]
#[path = "fat_tree/tests.rs"]
pub(super) mod tests;
