//! The devices of a run: EAL, buffers, and one link between each host and the soft switch.
//!
//! | `vdev.pmd` | a packet crosses by | hosts | payload |
//! |---|---|---|---|
//! | `net_ring` | a pointer in a ring | 32 | any |
//! | `net_memif` | a copy through shared memory | 16 | any |
//! | `net_tap` | the kernel, in a private network namespace (root) | 16 | up to MTU 1500 |
//! | `net_null` | nothing: what is sent is swallowed | 32 | any |
//!
//! DPDK has room for 32 devices in a process; memif and TAP links take two each. Sizes are bytes,
//! counts are buffers.

use std::sync::Arc;

use experiments::plan::{Plan, RunError};
use transport_dpdk::NetnsError;
use transport_dpdk::{
    DevicePort, Eal, EalOptions, Link, LinkConfig, LinkEnd, MbufError, MemoryMode, Netns, Pool,
    PoolConfig, PortError, TimestampField,
};

use crate::dpdk_error::unfit;

/// The kinds of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pmd {
    Ring,
    Memif,
    Tap,
    Null,
}

/// The drivers that `vdev.pmd` names.
pub(super) const PMDS: [(&str, Pmd); 4] = [
    ("net_ring", Pmd::Ring),
    ("net_memif", Pmd::Memif),
    ("net_tap", Pmd::Tap),
    ("net_null", Pmd::Null),
];

/// Packets that a link holds in each direction.
const DEPTH: u16 = 512;

/// Least data bytes of a buffer: the AF_PACKET driver needs a whole frame slot of the kernel, 2048.
const ROOM_MIN: u16 = 2048;

/// Buffers for copies of duplicated, trimmed and corrupted packets.
const COPIES: u32 = 2047;

/// Buffers for each host that sends in slots: its packets wait only at the host, which makes them a
/// few epochs before they leave.
const SLOTTED_BUFFERS: u32 = 1024;

/// Buffers that threads may keep in their caches.
const CACHE: u32 = 128;

/// Memory that DPDK needs beside the pools.
const EAL_MB: u64 = 64;

/// Memory that a link needs beside the pools: queues and interrupts of two devices that copy,
/// measured with 16 of them. Devices that pass pointers need next to nothing.
const COPYING_LINK_MB: u64 = 16;

/// Milliseconds within which a link comes up; memif needs a second.
const UP_MS: u32 = 10_000;

/// Everything a run has of DPDK.
#[derive(Debug)]
pub(super) struct Devices {
    /// The hosts' ends, by host.
    pub(super) ports: Vec<DevicePort>,
    /// The switch's ends, by host.
    pub(super) ends: Vec<LinkEnd>,
    pub(super) pools: Pools,
    pub(super) stamp: TimestampField,
    pub(super) eal: Eal,
}

/// The packet buffers of a run.
#[derive(Clone, Debug)]
pub(super) struct Pools {
    /// The pool of all hosts.
    pub(super) hosts: Arc<Pool>,
    /// The pool of the switch.
    pub(super) switch: Arc<Pool>,
}

impl Pmd {
    /// The kind called `name`; the default for a name that the settings would have refused.
    pub(super) fn by_name(name: &str) -> Self {
        PMDS.iter().find(|(known, _)| *known == name).map_or(Self::Ring, |(_, pmd)| *pmd)
    }

    /// Hosts that there are devices for.
    pub(super) const fn hosts_max(self) -> u32 {
        match self {
            Self::Ring | Self::Null => 32,
            Self::Memif | Self::Tap => 16,
        }
    }

    /// The longest payload of a segment behind `headers` octets, when frames are limited: those of
    /// MTU 1500.
    pub(super) const fn payload_max(self, headers: u16) -> Option<u16> {
        match self {
            Self::Tap => Some(1500 + 14 - headers),
            Self::Ring | Self::Memif | Self::Null => None,
        }
    }

    /// The cost of one packet on its way to the switch and back, real nanoseconds, measured once on
    /// one machine; the time scale is chosen by it.
    pub(super) const fn packet_ns(self) -> f64 {
        match self {
            Self::Ring | Self::Null => 50.0,
            Self::Memif => 1_000.0,
            Self::Tap => 40_000.0,
        }
    }

    /// Whether the hosts' stamps reach the switch, and the switch's the hosts.
    pub(super) const fn keeps_stamps(self) -> bool {
        matches!(self, Self::Ring | Self::Null)
    }

    /// Whether the kernel may lose packets on the link, or add some of its own.
    pub(super) const fn is_lossy(self) -> bool {
        matches!(self, Self::Tap)
    }
}

impl Devices {
    /// Starts EAL, with its `telemetry` socket or without, and connects every host of `plan`.
    pub(super) fn open(plan: &Plan, pmd: Pmd, telemetry: bool) -> Result<Self, RunError> {
        let frame = plan.settings.payload_max + plan.settings.headers_max();
        let room = frame.next_multiple_of(64).max(ROOM_MIN);
        // Devices that copy keep buffers of the receiver in every place of their queues.
        let receiving = if pmd.keeps_stamps() { 0 } else { plan.hosts() * u32::from(DEPTH) };
        let [hosts, switch] = [buffers(plan) + receiving, COPIES + receiving];
        let vdev = &plan.draft.vdev;
        let options = EalOptions {
            memory: match vdev.hugepages {
                None => MemoryMode::Auto,
                Some(true) => MemoryMode::Hugepages,
                Some(false) => MemoryMode::NoHuge,
            },
            telemetry,
            memory_mb: vdev.memory_mb.unwrap_or_else(|| memory_mb(plan, pmd, hosts + switch, room)),
            ..EalOptions::default()
        };
        let eal = Eal::start(&options).map_err(|error| unfit(&error))?;
        let stamp = TimestampField::register(&eal).map_err(|error| unfit(&error))?;
        let pool = |count| {
            let config = PoolConfig { count, room, cache: CACHE, socket: -1 };
            Pool::new(&eal, config).map(Arc::new).map_err(|error: MbufError| match vdev.memory_mb {
                Some(mb) => RunError::Environment(format!(
                    "{error}; vdev.memory_mb is {mb}, and {} is enough here",
                    memory_mb(plan, pmd, hosts + switch, room)
                )),
                None => unfit(&error),
            })
        };
        let pools = Pools { hosts: pool(hosts)?, switch: pool(switch)? };
        let config = LinkConfig {
            max_frame: u32::from(frame),
            depth: DEPTH,
            host_pool: Arc::clone(&pools.hosts),
            switch_pool: Arc::clone(&pools.switch),
        };
        let (mut ports, mut ends) = (Vec::new(), Vec::new());
        for link in connect(&eal, pmd, plan.hosts(), &config)? {
            ports.push(link.host);
            ends.push(link.switch_side);
        }
        Ok(Self { ports, ends, pools, stamp, eal })
    }
}

impl Pools {
    /// Buffers that are out, of the hosts and of the switch. Exact when no thread polls.
    pub(super) fn in_use(&self) -> [(&'static str, u32); 2] {
        [("hosts", self.hosts.in_use()), ("switch", self.switch.in_use())]
    }
}

fn connect(eal: &Eal, pmd: Pmd, hosts: u32, config: &LinkConfig) -> Result<Vec<Link>, RunError> {
    let netns = match pmd {
        Pmd::Tap => Some(Arc::new(Netns::private().map_err(|error: NetnsError| unfit(&error))?)),
        Pmd::Ring | Pmd::Memif | Pmd::Null => None,
    };
    let mut links = Vec::new();
    for _ in 0..hosts {
        let link = match (pmd, &netns) {
            (Pmd::Tap, Some(netns)) => Link::tap(eal, netns, config),
            (Pmd::Memif, _) => Link::memif(eal, config),
            (Pmd::Null, _) => Link::null(eal, config),
            (Pmd::Ring | Pmd::Tap, _) => Link::ring(eal, config),
        };
        links.push(link.map_err(|error: PortError| unfit(&error))?);
    }
    match links.iter().position(|link| !link.wait_up(UP_MS)) {
        None => Ok(links),
        Some(host) => Err(RunError::Environment(format!(
            "the link of host {host} did not come up within {UP_MS} ms: choose another device with \
             --set vdev.pmd=net_ring"
        ))),
    }
}

/// Buffers for all that hosts may have outstanding: windows of 1.5 BDP for every flow that can send
/// at once, as many acknowledgements, and full links. A host's flows share its link. So where there
/// are many flows, one may fill its window, but not all of them.
fn buffers(plan: &Plan) -> u32 {
    if plan.settings.sched.facts().departs_in_slots {
        return (plan.hosts() * SLOTTED_BUFFERS).next_power_of_two() - 1;
    }
    let mut flows = vec![0u64; plan.hosts() as usize];
    plan.matrix.flows.iter().for_each(|flow| flows[flow.src.0 as usize] += 1);
    let bdp = plan.settings.line_rate.bytes_in(plan.settings.base_rtt).0;
    let window = (bdp * 3 / 2).div_ceil(u64::from(plan.fabric.mtu)).max(1);
    let outstanding = |flows: &u64| (2 * flows * window).clamp(256, (2 * window).max(4096));
    let all: u64 = flows.iter().map(outstanding).sum();
    let links = u64::from(plan.hosts()) * 128;
    // 2^k - 1 fits DPDK's rings best.
    let count = (all + links).next_power_of_two() - 1;
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn memory_mb(plan: &Plan, pmd: Pmd, count: u32, room: u16) -> u32 {
    let bytes = Pool::memory(count, room);
    let link_mb = if pmd.keeps_stamps() { 1 } else { COPYING_LINK_MB };
    let links_mb = u64::from(plan.hosts()) * link_mb;
    u32::try_from(bytes.div_ceil(1 << 20) + links_mb + EAL_MB).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use experiments::plan::keys;

    use super::*;

    #[test]
    fn every_device_that_can_be_set_is_known_here() {
        assert!(keys::PMDS.iter().copied().eq(PMDS.iter().map(|(name, _)| *name)));
        for (name, pmd) in PMDS {
            assert_eq!(Pmd::by_name(name), pmd);
        }
    }
}
