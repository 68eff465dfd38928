//! The plan that a network is built from: its ports and switches, and the programs that run in
//! switches.
//!
//! A topology makes one of these. Port `h` is the NIC of host `h`; the ports of switches follow,
//! those of a switch contiguous: down ports first, each group of parallel ports contiguous.

use std::collections::{BTreeMap, BTreeSet};

use transport::sched::SchedParams;
use transport::{Bytes, Duration, HostId, Instant};

use super::elements::{Node, PortId, PortSpec, SwitchSpec};
use super::packet::Ends;
use super::program::pfc::{Shortage, needs};
use super::program::{ProgramKind, ProgramSettings};
use super::qdisc::QdiscSettings;

/// A whole network, before it runs.
#[derive(Clone, Debug)]
pub struct Blueprint {
    /// Hosts, numbered from 0.
    pub hosts: u32,
    /// Every port: the NICs of the hosts first, in the order of hosts.
    pub ports: Vec<PortSpec>,
    /// Every switch.
    pub switches: Vec<SwitchSpec>,
    /// The programs that switches run, by switch. A switch without one is plain.
    pub programs: BTreeMap<u32, ProgramKind>,
    /// The settings of disciplines, the same at every port.
    pub qdiscs: QdiscSettings,
    /// The settings of programs, the same in every switch that runs one.
    pub program_settings: ProgramSettings,
    /// The settings of the hosts' schedulers, for programs that work with them.
    pub sched: SchedParams,
    /// From when until when programs are down, by switch; ascending. A program that can fail loses
    /// its state then.
    pub outages: BTreeMap<u32, Vec<(Instant, Instant)>>,
    /// Switches take the way that the entropy value of a packet names, instead of one by its hash.
    pub explicit: bool,
    /// The border switches of two sites that have several each: those of the first site come first,
    /// and both sites have equally many. Empty otherwise. The ports up of a border switch lead to
    /// the border switches of the other site in turn, equally many to each. The ports up of a
    /// switch below border switches lead to these in the same way.
    pub borders: Vec<u32>,
    /// Ports whose packets leave the network for good. The driver gets each packet when its
    /// transmission starts, with the instant at which it is at the far end.
    pub outward: BTreeSet<PortId>,
    /// How long after a link went down (or up again) the switch at it stops (or resumes) using it.
    pub detection_delay: Duration,
}

/// The error of a program that pauses no links, in a switch with lossless ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpaused(pub ProgramKind);

impl core::fmt::Display for Unpaused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "`{}` pauses no links, and ports of its switch are lossless", self.0.name())
    }
}

impl core::error::Error for Unpaused {}

impl Blueprint {
    /// Runs `program` in `switch`, once for each switch. A program that needs a discipline at the
    /// ports of its switch gives it to them: ports of a switch that pauses links hold the packets
    /// that arrive until the pause is obeyed.
    ///
    /// # Errors
    /// When the switch has lossless ports and `program` does not pause links: data would drop.
    pub fn assign(&mut self, switch: u32, program: ProgramKind) -> Result<(), Unpaused> {
        let ports = self.switches[switch as usize].ports();
        let ports = &mut self.ports[ports.start as usize..ports.end as usize];
        if let Some(qdisc) = program.qdisc() {
            ports.iter_mut().for_each(|port| port.qdisc = qdisc);
        } else if ports.iter().any(|port| port.qdisc.needs_pauses()) {
            return Err(Unpaused(program));
        }
        self.programs.insert(switch, program);
        Ok(())
    }

    /// Has every port of `switch` write its telemetry into packets that have room for it.
    pub fn stamp(&mut self, switch: u32) {
        let ports = self.switches[switch as usize].ports();
        for port in &mut self.ports[ports.start as usize..ports.end as usize] {
            port.stamps = true;
        }
    }

    /// Runs the program that pauses links in every plain switch with a lossless port.
    pub fn pause_where_lossless(&mut self) {
        for port in self.ports.iter().filter(|port| port.qdisc.needs_pauses()) {
            if let Node::Switch(switch) = port.owner {
                self.programs.entry(switch).or_insert(ProgramKind::Pfc);
            }
        }
    }

    /// The least buffer with which every link into a switch that pauses is lossless; 0 without one.
    #[must_use]
    pub fn least_buffer(&self) -> Bytes {
        self.needs().iter().map(Shortage::least).max().unwrap_or_default()
    }

    /// Whether the buffer for every link into a switch that pauses is large enough.
    ///
    /// # Errors
    /// The shortage of the link that needs most.
    pub fn check_buffers(&self) -> Result<(), Shortage> {
        let short = self.needs().into_iter().filter(|need| need.buffer < need.least());
        short.max_by_key(Shortage::least).map_or(Ok(()), Err)
    }

    fn needs(&self) -> Vec<Shortage> {
        if self.switches_with(ProgramKind::Pfc).next().is_none() {
            return Vec::new();
        }
        let pauses = |switch| self.runs(switch, ProgramKind::Pfc);
        needs(&self.ports, pauses, &self.program_settings.pfc)
    }

    /// How the ends of packets are hashed: both directions have the same hash where a flow and its
    /// acknowledgements have to pass the same border switches.
    #[must_use]
    pub const fn ends(&self) -> Ends {
        if self.borders.is_empty() { Ends::Ordered } else { Ends::Either }
    }

    /// The switches that run `program`, ascending.
    pub fn switches_with(&self, program: ProgramKind) -> impl Iterator<Item = u32> + '_ {
        let running = self.programs.iter().filter(move |(_, running)| **running == program);
        running.map(|(switch, _)| *switch)
    }

    /// Whether `switch` runs `program`.
    #[must_use]
    pub fn runs(&self, switch: u32, program: ProgramKind) -> bool {
        self.programs.get(&switch) == Some(&program)
    }

    /// The number under which packets are sent to the program of `switch`: hosts come first.
    #[must_use]
    pub const fn address_of(&self, switch: u32) -> HostId {
        HostId(self.hosts + switch)
    }
}
