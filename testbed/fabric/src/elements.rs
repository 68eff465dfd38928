//! The elements of a network: ports, the ends of their links, and switches.

use std::ops::Range;

use transport::{Duration, Rate};

use super::qdisc::{QdiscKind, QdiscParams};

/// A port by its index in the blueprint; the NIC of host `h` is port `h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortId(pub u32);

/// One port.
#[derive(Clone, Copy, Debug)]
pub struct PortSpec {
    /// Line rate.
    pub rate: Rate,
    /// Propagation, plus the traversal of the switch at the far end if there is one.
    pub delay: Duration,
    /// The queue discipline of the port.
    pub qdisc: QdiscKind,
    /// The sizes of the port's queue.
    pub params: QdiscParams,
    /// Writes its telemetry (INT) into packets that have room for it; of no meaning at a NIC.
    pub stamps: bool,
    /// The host or switch that has the port.
    pub owner: Node,
    /// The far end of the link.
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
    /// How many up ports the switch has.
    pub ups: u32,
    /// Ports behind those, each to a switch that has no hosts, such as the scheduler of a pod. Only
    /// packets to programs take them.
    pub asides: u32,
}

impl SwitchSpec {
    /// The ports up.
    #[must_use]
    pub const fn up_ports(&self) -> Range<u32> {
        self.up_port..self.up_port + self.ups
    }

    /// The ports of the switch.
    #[must_use]
    pub const fn ports(&self) -> Range<u32> {
        let downs = self.hosts.div_ceil(self.child_hosts) * self.bundle;
        self.down_port..self.down_port + downs + self.ups + self.asides
    }
}
