//! The network as policies see it: a [`Path`] describes the way between two hosts, one value a
//! flow, and [`NetworkFacts`] the whole network. Neither has the topology or other traffic.

use crate::time::{Duration, Rate};
use crate::units::Bytes;

/// The path of one flow as its policies see it. All paths of a flow share one window, so this is
/// one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Round-trip time of a full segment and its acknowledgement in an idle network.
    pub base_rtt: Duration,
    /// The rate of the narrowest place that the flow always crosses: its host's link, or all links
    /// together that lead up from a rack, a pod or a site, where these are slower.
    pub line_rate: Rate,
    /// Wire bytes of a full segment.
    pub mtu: Bytes,
}

impl Path {
    /// Bandwidth-delay product, wire bytes.
    #[must_use]
    pub fn bdp(&self) -> Bytes {
        self.line_rate.bytes_in(self.base_rtt)
    }
}

/// Facts about a whole network that policies may use beyond the path of a flow. `None` is a fact
/// that is not known, or not yet.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct NetworkFacts {
    /// Base RTT of the longest path of the network.
    pub base_rtt: Option<Duration>,
    /// Base RTT of the network's longest path where no path is far: all flows then have the
    /// policies of near paths.
    pub near_rtt: Option<Duration>,
    /// Datacentres that the network's hosts are in, whatever its base RTTs are.
    pub sites: Option<u32>,
    /// Base RTT between the farthest hosts of one site.
    pub site_rtt: Option<Duration>,
    /// Base RTT between the farthest hosts of different sites; equals `site_rtt` where there is one
    /// site.
    pub inter_rtt: Option<Duration>,
    /// Base RTT from which on a path leads to another site; longer than all base RTTs where there
    /// is one site.
    pub far_rtt: Option<Duration>,
    /// Whether switches trim.
    pub trims: Option<bool>,
    /// Whether hosts poll their devices, and so see a packet some packet times after its arrival.
    pub hosts_poll: Option<bool>,
    /// Round trip of the longest path without the time that packets take to be sent.
    pub propagation_rtt: Option<Duration>,
    /// The time in which a host's line sends the largest BDP of a path: of its base RTT, at the
    /// rate of the narrowest place that it crosses.
    pub loop_rtt: Option<Duration>,
    /// Links of the longest path, one way.
    pub hops: Option<u16>,
    /// Time that the links of the longest path take to send a packet, over the time that as many
    /// links of a host's rate take: 1 where all links have that rate.
    pub stretch: Option<f32>,
    /// Rate of the hosts' links.
    pub line_rate: Option<Rate>,
    /// How switches treat probes; `None` where they have no queue for probes.
    pub probes: Option<ProbeFacts>,
    /// The queues on the longest path.
    pub queues: Option<QueueFacts>,
    /// The pods of the network, where each has a scheduler.
    pub pod: Option<PodFacts>,
}

impl NetworkFacts {
    /// What is known of hosts that send and receive through devices: such hosts poll their devices.
    #[must_use]
    pub fn of_devices() -> Self {
        Self { hosts_poll: Some(true), ..Self::default() }
    }
}

/// Pods of hosts, all alike, each with a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PodFacts {
    /// Hosts of a ToR.
    pub per_tor: u16,
    /// Hosts of a pod.
    pub hosts: u16,
    /// Aggregation switches of a pod.
    pub aggs: u16,
    /// Pods.
    pub pods: u16,
    /// Cores that join the pods: Core c has a link to aggregation switch c modulo `aggs` of each
    /// pod.
    pub cores: u16,
    /// Payload bytes of a full segment.
    pub cell: u16,
    /// Address of the scheduler of the first pod; those of the others follow.
    pub scheduler: u32,
    /// Address of the backup of the first pod's scheduler; those of the others follow. 0 where
    /// there are none.
    pub backup: u32,
    /// Propagation of a link, the traversal of a switch included.
    pub hop: Duration,
    /// The most by which readings of hosts' clocks are late; `None` where all clocks show one time.
    pub clock_jitter: Option<Duration>,
    /// The values that follow from measurements, where the pod is a real network and its scheduler
    /// a process.
    pub real: Option<RealPod>,
}

/// The settings of a pod on a real network, whose switches queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RealPod {
    /// Address of the scheduler.
    pub scheduler: u32,
    /// Number of the run; 0 until its hosts have measured.
    pub run: u16,
    /// Data cells of an epoch.
    pub cells: u16,
    /// The time that a decision takes, an epoch at least.
    pub delay: Duration,
    /// How late hosts and links may be before packets meet others.
    pub guard: Duration,
    /// How late a host may be and still send in an epoch.
    pub early: Duration,
    /// A quarter of the longest base RTT: what a hop to or from the scheduler takes.
    pub hop: Duration,
}

/// How ports queue probes, as the discipline for them is set.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProbeFacts {
    /// Packets that a port holds of each class beside data.
    pub queue: u16,
    /// Tokens for probes that a port holds.
    pub bucket: u16,
    /// Packets as long as a probe that a port leaves room for beside the data that it stands for.
    pub overhead: f32,
}

/// The queues of switches on the longest path, one way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueFacts {
    /// How long a packet waits in all of them, when all are full.
    pub full: Duration,
    /// How long a packet waits in the one that is the first to be full, when that is full.
    pub least: Duration,
    /// The time that a full data packet takes on a host's line.
    pub packet: Duration,
}
