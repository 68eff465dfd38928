//! The hosts and Cores of a pod as its scheduler sees them: their numbers, their addresses, and the
//! ports that lead to them.
//!
//! Source: \[zeropod\] III-A, III-C. A member is a host by its number in the pod, or a Core by its
//! number behind the last host.

use transport::HostId;
use transport::sched::zeropod::ZeropodParams;

use crate::elements::{Node, PortId, SwitchSpec};
use crate::pod::Shape;
use crate::pod::scheduler::Client;
use crate::program::ProgramSetup;

/// The hosts and Cores of one pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Members {
    pub(super) shape: Shape,
    /// The port of the scheduler to the first ToR; those to the other ToRs and to the aggregation
    /// switches follow.
    first_port: u32,
    first_host: u32,
    /// The address of the first Core; those of the others follow.
    first_core: u32,
}

/// Every Core of a network of pods has all hosts below, pod by pod. The number of the first one's
/// switch; `None` where there is none.
pub(in crate::program) fn first_core(switches: &[SwitchSpec], pod_hosts: u32) -> Option<u32> {
    let is_core = |switch: &SwitchSpec| switch.child_hosts == pod_hosts && switch.hosts > pod_hosts;
    switches.iter().position(is_core).and_then(|at| u32::try_from(at).ok())
}

/// Hosts of the whole network.
pub(in crate::program) fn all_hosts(switches: &[SwitchSpec]) -> u32 {
    switches.iter().map(|switch| switch.first_host + switch.hosts).max().unwrap_or(0)
}

impl Members {
    /// The members of the pod whose scheduler's switch has these links; `None` where they make no
    /// pod.
    pub(super) fn of(setup: &ProgramSetup<'_>, params: &ZeropodParams) -> Option<Self> {
        let switches = setup.links.iter().filter_map(|link| match link.port.to {
            Node::Switch(switch) => setup.switches.get(switch as usize),
            Node::Host(_) => None,
        });
        let (tors, aggs): (Vec<&SwitchSpec>, Vec<&SwitchSpec>) =
            switches.partition(|switch| switch.child_hosts == 1 && switch.ups > 0);
        let first_host = tors.iter().map(|tor| tor.first_host).min()?;
        let hosts = tors.iter().map(|tor| tor.hosts).sum::<u32>();
        let per_tor = tors.iter().map(|tor| tor.hosts).max()?;
        let cores: u32 = aggs.iter().map(|agg| agg.ups).sum();
        let shape = Shape::new(hosts as usize, per_tor as usize, aggs.len()).ok()?;
        let mut members = Self { shape, first_port: setup.first_port.0, first_host, first_core: 0 };
        if cores > 0 {
            let all = all_hosts(setup.switches);
            let (pods, pod) = (all / hosts, first_host / hosts);
            let (cores, mice) = (cores as usize, params.mice_cores.into());
            let shape = shape.with_cores(cores, mice, pods as usize, pod as usize).ok()?;
            members.shape = shape.with_mice_first(params.mice_first);
            members.first_core = all + first_core(setup.switches, hosts)?;
        }
        Some(members)
    }

    /// The hosts of `shape` alone, which have the first addresses.
    pub(super) const fn first_ones(shape: Shape) -> Self {
        Self { shape, first_port: 0, first_host: 0, first_core: 0 }
    }

    /// Hosts and Cores.
    #[inline]
    pub(super) const fn count(&self) -> usize {
        self.shape.senders()
    }

    #[inline]
    pub(super) const fn hosts(&self) -> usize {
        self.shape.hosts()
    }

    /// The pod's number.
    #[inline]
    pub(super) fn pod(&self) -> u16 {
        u16::try_from(self.shape.pod()).unwrap_or(u16::MAX)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "members have 16 bits")]
    pub(super) const fn client(&self, member: u16) -> Client {
        match (member as usize).checked_sub(self.shape.hosts()) {
            Some(core) => Client::Core(core as u16),
            None => Client::Host(member),
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "members have 16 bits")]
    pub(super) const fn member(&self, client: Client) -> u16 {
        match client {
            Client::Host(host) => host,
            Client::Core(core) => core + self.shape.hosts() as u16,
        }
    }

    /// The control slot of a member: a host's number under its ToR, a Core's layer.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "at most 32")]
    pub(super) const fn slot(&self, client: Client) -> u16 {
        match client {
            Client::Host(host) => self.shape.place(host as usize).1 as u16,
            Client::Core(core) => self.shape.core_place(core as usize).1 as u16,
        }
    }

    /// All members in the order of their control slots.
    pub(super) fn by_slot(&self) -> Vec<u16> {
        let mut members: Vec<u16> =
            (0..self.count()).filter_map(|at| u16::try_from(at).ok()).collect();
        members.sort_by_key(|member| self.slot(self.client(*member)));
        members
    }

    /// The address of a member.
    #[inline]
    pub(super) const fn address(&self, client: Client) -> HostId {
        match client {
            Client::Host(host) => HostId(self.first_host + host as u32),
            Client::Core(core) => HostId(self.first_core + core as u32),
        }
    }

    /// The port that leads to a member.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "at most 64 ports")]
    pub(super) const fn port(&self, client: Client) -> PortId {
        let place = match client {
            Client::Host(host) => self.shape.place(host as usize).0,
            Client::Core(core) => self.shape.tors() + self.shape.core_place(core as usize).0,
        };
        PortId(self.first_port + place as u32)
    }
}
