//! What a network is built from: ports, switches and how they hang together.
//!
//! A topology makes one of these; nobody else needs to. Port `h` is the NIC of host `h`; the ports
//! of switches follow, each group of parallel ports contiguous.

use transport::{Duration, Rate};

use super::qdisc::{QdiscKind, QdiscParams};

/// A whole network, before it runs.
#[derive(Clone, Debug)]
pub struct Blueprint {
    /// Hosts, numbered from 0.
    pub hosts: u32,
    /// Every port: the NICs of the hosts first, in the order of hosts.
    pub ports: Vec<PortSpec>,
    /// Every switch.
    pub switches: Vec<SwitchSpec>,
    /// How long after a link went down (or up again) the switch at it stops (or resumes) using it.
    pub detection_delay: Duration,
}

/// One port.
#[derive(Clone, Copy, Debug)]
pub struct PortSpec {
    /// Line rate.
    pub rate: Rate,
    /// Propagation, plus the traversal of the switch at the far end if there is one.
    pub delay: Duration,
    /// Its queue discipline.
    pub qdisc: QdiscKind,
    /// The sizes of its queue.
    pub params: QdiscParams,
    /// Whose port it is.
    pub owner: Node,
    /// Where its link ends.
    pub to: Node,
}

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// The host of that number.
    Host(u32),
    /// The switch of that index in `Blueprint::switches`.
    Switch(u32),
}

/// One switch: a contiguous range of hosts below it, the rest above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchSpec {
    /// The lowest host below.
    pub first_host: u32,
    /// How many hosts are below.
    pub hosts: u32,
    /// Hosts below each child, at least 1: 1 where the children are the hosts.
    pub child_hosts: u32,
    /// Parallel links to each child, at least 1.
    pub bundle: u32,
    /// First of its down ports: `bundle` for each child, in the order of children.
    pub down_port: u32,
    /// First of its up ports; any number when there are none.
    pub up_port: u32,
    /// How many up ports it has.
    pub ups: u32,
}
