//! A small network for the tests of this crate: 4 leaves of 4 hosts each below 2 spines, 800 Gb/s.
//! Tests run it from one event to the next.
//!
//! Real topologies are built by the crate above this one, which tests here must not need.

use std::collections::{BTreeMap, BTreeSet};

use transport::{Bytes, Duration, Instant, Rate};

use crate::{
    Blueprint, Frames, Network, Node, Output, PortSpec, ProgramSettings, QdiscKind, QdiscParams,
    QdiscSettings, SwitchSpec,
};

const LEAVES: u32 = 4;
const SPINES: u32 = 2;
const HOSTS_PER_LEAF: u32 = 4;
const HOSTS: u32 = LEAVES * HOSTS_PER_LEAF;

/// Ports of one leaf: down to its hosts, then up to the spines.
const LEAF_PORTS: u32 = HOSTS_PER_LEAF + SPINES;

/// A link, and a switch behind it.
const LINK: Duration = Duration::from_ns(600);
const LINK_AND_SWITCH: Duration = Duration::from_ns(1000);

/// Limit of each class of a NIC's queue.
const NIC_BUFFER: Bytes = Bytes(64 << 20);

/// The network, whose switch ports all have the discipline `qdisc` with `params`.
pub(crate) fn blueprint(qdisc: QdiscKind, params: QdiscParams) -> Blueprint {
    let rate = Rate::from_gbps(800);
    let nic = |host| PortSpec {
        rate,
        delay: LINK_AND_SWITCH,
        qdisc: QdiscKind::DropTail,
        params: QdiscParams::for_buffer(NIC_BUFFER, params.packet_max, QdiscParams::MARK),
        stamps: false,
        owner: Node::Host(host),
        to: Node::Switch(host / HOSTS_PER_LEAF),
    };
    let mut ports: Vec<PortSpec> = (0..HOSTS).map(nic).collect();
    let mut switches = Vec::new();
    let mut link = |switch, to, delay| {
        let owner = Node::Switch(switch);
        ports.push(PortSpec { rate, delay, qdisc, params, stamps: false, owner, to });
    };
    for leaf in 0..LEAVES {
        let (first_host, down_port) = (leaf * HOSTS_PER_LEAF, HOSTS + leaf * LEAF_PORTS);
        (0..HOSTS_PER_LEAF).for_each(|i| link(leaf, Node::Host(first_host + i), LINK));
        (0..SPINES).for_each(|i| link(leaf, Node::Switch(LEAVES + i), LINK_AND_SWITCH));
        switches.push(SwitchSpec {
            first_host,
            hosts: HOSTS_PER_LEAF,
            child_hosts: 1,
            bundle: 1,
            down_port,
            up_port: down_port + HOSTS_PER_LEAF,
            ups: SPINES,
            asides: 0,
        });
    }
    for spine in 0..SPINES {
        let down_port = HOSTS + LEAVES * LEAF_PORTS + spine * LEAVES;
        (0..LEAVES).for_each(|leaf| link(LEAVES + spine, Node::Switch(leaf), LINK_AND_SWITCH));
        switches.push(SwitchSpec {
            first_host: 0,
            hosts: HOSTS,
            child_hosts: HOSTS_PER_LEAF,
            bundle: 1,
            down_port,
            up_port: down_port + LEAVES,
            ups: 0,
            asides: 0,
        });
    }
    let mut blueprint = Blueprint {
        hosts: HOSTS,
        ports,
        switches,
        programs: BTreeMap::new(),
        qdiscs: QdiscSettings::default(),
        program_settings: ProgramSettings::default(),
        sched: transport::sched::SchedParams::default(),
        outages: BTreeMap::new(),
        borders: Vec::new(),
        outward: BTreeSet::new(),
        explicit: false,
        detection_delay: Duration::from_us(100),
    };
    blueprint.pause_where_lossless();
    blueprint
}

impl Network {
    /// Runs the network up to and at its next event, and returns the instant of that event; `None`
    /// when there is none.
    pub(crate) fn step(
        &mut self,
        frames: &mut dyn Frames,
        out: &mut Vec<Output>,
    ) -> Option<Instant> {
        let at = self.next_event_at()?;
        self.run_until(at, frames, out);
        Some(at)
    }
}
