//! The emulated network of a border switch: the switch, and the other sites as a single one behind
//! its long link.
//!
//! ```text
//!   hosts of the site --+                                        +-- hosts of other sites
//!    (LAN devices)      +- border switch -- wan_rate, delay -----+    (WAN device)
//! ```
//!
//! Frames come in at the border switch when a device has received them. Packets leave the network
//! at the ports of that switch. Packets for hosts of the site leave when their transmission starts,
//! others when they would arrive at the far end of the long link. The elements behind those ports
//! serve routing alone.

use std::collections::BTreeMap;

use experiments::plan::Draft;
use fabric::{
    Blueprint, Node, PortId, PortSpec, ProgramKind, QdiscKind, QdiscParams, QdiscSettings,
    SwitchSpec,
};
use transport::{Bytes, Duration, Rate};

/// The network's numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Hosts of the site; numbers from 0.
    pub(super) near: u32,
    /// Hosts of other sites; the numbers behind.
    pub(super) far: u32,
    /// Rate towards a host of the site.
    pub(super) lan_rate: Rate,
    /// Rate towards other sites.
    pub(super) wan_rate: Rate,
    /// Time to other sites, one way.
    pub(super) wan_delay: Duration,
    /// The longest frame.
    pub(super) frame: Bytes,
    /// Bytes that wait at one port at most.
    pub(super) buffer: Bytes,
    /// Where ports mark data; none do without it.
    pub(super) marks: Option<Marks>,
}

/// The backlog of a port from which data that leaves it is marked, more and more often, and that
/// from which all is. Source: \[smartt\] sec. II-A b, RED at departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Bytes up to which nothing is marked.
    pub kmin: Bytes,
    /// Bytes above which everything is marked; at least `kmin`.
    pub kmax: Bytes,
}

/// The switch of the site.
pub(super) const BORDER: u32 = 0;
/// All other sites.
const OTHERS: u32 = 1;
/// A link that costs a packet next to nothing.
const WIRE_RATE: Rate = Rate::from_gbps(10_000);
const WIRE: Duration = Duration::from_ns(100);

impl Shape {
    /// The port whose link brings what other sites send to the border switch. The link of a host of
    /// the site is that of the port with its number.
    pub(super) const fn port_of_others(&self) -> PortId {
        let hosts = self.near + self.far;
        PortId(hosts + self.near + 1 + self.far)
    }

    /// The network, with the programs' settings of `draft`.
    pub(super) fn blueprint(&self, draft: &Draft) -> Blueprint {
        let mut params = QdiscParams::for_buffer(self.buffer, self.frame, QdiscParams::MARK);
        let mut qdisc = QdiscKind::DropTail;
        if let Some(Marks { kmin, kmax }) = self.marks {
            (params.kmin, params.kmax, qdisc) = (kmin, kmax, QdiscKind::Ecn);
        }
        let link = |(owner, to), rate, delay| PortSpec {
            rate,
            delay,
            qdisc,
            params,
            stamps: owner == Node::Switch(BORDER),
            owner,
            to,
        };
        let hosts = self.near + self.far;
        let at = |host| Node::Switch(if host < self.near { BORDER } else { OTHERS });
        let nics = (0..hosts).map(|host| link((Node::Host(host), at(host)), WIRE_RATE, WIRE));
        let mut ports: Vec<PortSpec> = nics.collect();
        let (near, far) = (0..self.near, self.near..hosts);
        let (border, others) = (Node::Switch(BORDER), Node::Switch(OTHERS));
        ports.extend(near.map(|host| link((border, Node::Host(host)), self.lan_rate, WIRE)));
        ports.push(link((border, others), self.wan_rate, self.wan_delay.max(WIRE)));
        ports.extend(far.map(|host| link((others, Node::Host(host)), WIRE_RATE, WIRE)));
        ports.push(link((others, border), WIRE_RATE, WIRE));
        let switch = |first_host, hosts, down_port| SwitchSpec {
            first_host,
            hosts,
            child_hosts: 1,
            bundle: 1,
            down_port,
            up_port: down_port + hosts,
            ups: 1,
            asides: 0,
        };
        Blueprint {
            hosts,
            ports,
            switches: vec![
                switch(0, self.near, hosts),
                switch(self.near, self.far, hosts + self.near + 1),
            ],
            programs: BTreeMap::from([(BORDER, ProgramKind::Dci)]),
            qdiscs: QdiscSettings::default(),
            program_settings: draft.switch.programs.clone(),
            sched: draft.settings.sched_params.clone(),
            outages: BTreeMap::new(),
            borders: Vec::new(),
            outward: (hosts..=hosts + self.near).map(PortId).collect(),
            explicit: false,
            detection_delay: Duration::ZERO,
        }
    }
}
