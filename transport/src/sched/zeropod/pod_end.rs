//! An end of a pod: a host, or the port of a Core, which asks and sends as hosts do.
//!
//! Source: \[zeropod\] III-C, IV-C. A Core has such a scheduler for each pod, with a flow for each
//! host of the pod.

use super::awaited::reserve;
use super::{Rts, Zeropod};
use crate::time::{Duration, Instant};
use crate::units::{FlowId, HostId};

/// An end of a pod: its numbers, its scheduler and its offset in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PodEnd {
    /// The pod's scheduler.
    pub scheduler: HostId,
    /// The backup of the pod's scheduler, where there is one.
    pub backup: Option<HostId>,
    /// The first host of the pod.
    pub first: u32,
    /// The number in the pod, hosts and then Cores, as the entropy value of requests.
    pub number: u16,
    /// The control slot: a host's number under its ToR, a Core's layer.
    pub own: u16,
    /// Time by which epochs begin later than at hosts.
    pub behind: Duration,
}

impl Zeropod {
    /// The term of the scheduler that this end asks; 0 before its first answer.
    #[must_use]
    pub const fn term(&self) -> u16 {
        self.term
    }

    /// Whether an answer is overdue that a working scheduler would have sent. It is so until the
    /// next answer, and where it is one to a probe, until a probe is answered.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.outage_since().is_some() || self.is_probe_overdue()
    }

    /// The end of the pod that this scheduler sends for.
    #[must_use]
    pub const fn pod_end(&self) -> &PodEnd {
        &self.pod_end
    }

    /// A flow to `peer` is opened. False when there is no such destination.
    pub fn open(&mut self, flow: FlowId, peer: HostId) -> bool {
        let to = self.demand_end_of(peer);
        let opened = self.queues.open(flow, to);
        let queues = self.queues.len();
        reserve(&mut self.dirty, queues);
        self.awaited.reserve(queues);
        opened
    }

    /// The request that leaves at `now` and its scheduler, if there is one: one that asks for
    /// nothing only where `anyway` says so. For ends that put more into a request than a host does;
    /// poll [`Zeropod::next_request_at`] afterwards.
    pub fn poll_request(&mut self, now: Instant, anyway: bool) -> Option<(HostId, Rts)> {
        self.advance(now);
        self.request(now, anyway).map(|(_, to, rts)| (to, rts))
    }

    /// The next instant at which a request may leave, after the last one asked for.
    #[must_use]
    pub fn next_request_at(&self) -> Instant {
        self.next_request(0, self.asked_at)
    }
}
