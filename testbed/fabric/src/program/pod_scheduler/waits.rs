//! What the decisions of a pod's scheduler did about demands, with the instants of their epochs.
//!
//! Source: ours, for reports. An epoch at a Core begins a hop later than at hosts.

use transport::{Duration, Instant};

use super::{Pod, PodScheduler};
use crate::pod::To;
use crate::pod::scheduler::{Client, DemandLog, FateSpan};

/// What decisions did about the demands of one pod.
#[derive(Clone, Debug)]
pub struct PodWaits {
    /// The address of its first host, and how many hosts it has.
    pub hosts: (u32, u32),
    /// The address of the first Core, and how many Cores there are; `None` where there are none.
    pub cores: Option<(u32, u32)>,
    /// The length of an epoch.
    pub epoch: Duration,
    /// Epochs from a decision to the epoch that it is about.
    pub lead: u64,
    /// By how much epochs begin later at Cores.
    pub behind: Duration,
    log: DemandLog,
}

impl PodWaits {
    /// The decisions about the demand of `from` to a host of the pod or to another pod.
    #[must_use]
    pub fn of(&self, from: Client, to: To) -> &[FateSpan] {
        self.log.of(from, to)
    }

    /// When a decision is made.
    #[must_use]
    pub fn decided_at(&self, decision: u64) -> Instant {
        Instant::ZERO + self.epoch * decision
    }

    /// When the epoch begins that a decision is about, where `from` sends its cells.
    #[must_use]
    pub fn begins_at(&self, decision: u64, from: Client) -> Instant {
        let behind = match from {
            Client::Host(_) => Duration::ZERO,
            Client::Core(_) => self.behind,
        };
        Instant::ZERO + self.epoch * (decision + self.lead) + behind
    }
}

impl PodScheduler {
    /// Keeps from now on what decisions do about demands, for [`PodScheduler::take_waits`].
    pub fn keep_waits(&mut self) {
        if let Some(pod) = &mut self.pod {
            pod.scheduler.keep_waits();
        }
    }

    /// What decisions did about demands; `None` where the switch is no pod's scheduler.
    #[must_use]
    pub fn take_waits(&mut self) -> Option<PodWaits> {
        self.pod.as_mut().map(|pod| pod.take_waits())
    }
}

impl Pod {
    fn take_waits(&mut self) -> PodWaits {
        let Self { members, timing, scheduler, .. } = self;
        let hosts = u32::try_from(members.hosts()).unwrap_or(u32::MAX);
        let (first_core, cores) = (members.address(Client::Core(0)), members.shape.cores());
        let cores = u32::try_from(cores).ok();
        PodWaits {
            hosts: (members.address(Client::Host(0)).0, hosts),
            cores: cores.filter(|cores| *cores > 0).map(|cores| (first_core.0, cores)),
            epoch: timing.epoch,
            lead: timing.lead,
            behind: timing.hop,
            log: scheduler.take_waits(),
        }
    }
}
