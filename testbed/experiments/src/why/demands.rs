//! What a flow's time with a pod's scheduler was spent on: what each decision did about its demand.
//!
//! ```text
//!   cells wait at their host, or in a Core
//!   |-- request --|-- decision --|-- one entry an epoch: granted, receiver, sender, ... --|
//!                 ^              ^
//!                 a decision     the first epoch that such a decision is about
//!                 has the request
//! ```
//!
//! A decision is about one epoch. So each epoch in which cells wait has the cause that the decision
//! about it had. No decision that had the request is about the epochs before the first such one:
//! until the decision the request is to be made, or under way; from then on its answer is.

use std::collections::BTreeMap;

use fabric::PodWaits;
use fabric::pod::To;
use fabric::pod::scheduler::{Client, DemandFate};
use transport::{HostId, Instant};

use super::words::NamedLinks;

/// A time in which cells of a flow waited at a port.
pub(super) type WaitAtPort = (u32, Instant, Instant);

/// A cause: the port, the name of the cause, and whether smaller demands went before.
pub(super) type CauseAtPort = (u32, &'static str, bool);

/// Until a decision has the request.
pub(super) const REQUEST: &str = "request";
/// From that decision to the first epoch that it is about.
pub(super) const DECISION: &str = "decision";
/// No link to a Core that takes cells for the pod is idle.
pub(super) const CORES: &str = "cores";

/// The schedulers of a run's pods.
#[derive(Clone, Copy)]
pub(super) struct PodDemands<'a> {
    pods: &'a [PodWaits],
    links: &'a NamedLinks<'a>,
}

/// A demand as its scheduler has it, and the schedulers of its pod, one after the other.
struct OfFlow<'a> {
    from: Client,
    to: To,
    pods: Vec<&'a PodWaits>,
}

/// What a decision did, from when until when.
#[derive(Clone, Copy)]
struct Piece {
    from: Instant,
    until: Instant,
    decided: Instant,
    cause: &'static str,
    smaller: bool,
}

impl<'a> PodDemands<'a> {
    pub(super) const fn new(pods: &'a [PodWaits], links: &'a NamedLinks<'a>) -> Self {
        Self { pods, links }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The causes of the waits of a flow from `src` to `dst`, picoseconds; waits at ports that are
    /// neither of hosts nor of Cores have none.
    pub(super) fn divide(
        &self,
        (src, dst): (HostId, HostId),
        waits: &[WaitAtPort],
    ) -> BTreeMap<CauseAtPort, u64> {
        let mut causes = BTreeMap::new();
        for (port, from, until) in waits {
            let Some(demand) = self.demand((src, dst), *port) else { continue };
            demand.divide((*from, *until), |cause, smaller, ps| {
                *causes.entry((*port, cause, smaller)).or_default() += ps;
            });
        }
        causes
    }

    /// The demand that the cells of a flow wait for at a port.
    fn demand(&self, (src, dst): (HostId, HostId), port: u32) -> Option<OfFlow<'a>> {
        let is_of = |pod: &&PodWaits, host: HostId| within(host.0, pod.hosts).is_some();
        let at_host = self.links.is_nic(port);
        let asks = if at_host { src } else { dst };
        let pods: Vec<&PodWaits> = self.pods.iter().filter(|pod| is_of(pod, asks)).collect();
        let pod = pods.first()?;
        let number = |host: HostId| u16::try_from(host.0 - pod.hosts.0).ok();
        let to = if is_of(pod, dst) {
            To::Host(number(dst)?)
        } else {
            To::Pod(u16::try_from(dst.0 / pod.hosts.1).ok()?)
        };
        let from = if at_host {
            Client::Host(number(src)?)
        } else {
            core(self.links.address_of_owner(port)?, pod.cores)?
        };
        Some(OfFlow { from, to, pods })
    }
}

/// The number of an address among so many from the first one on; `None` where it is none of them.
fn within(address: u32, (first, count): (u32, u32)) -> Option<u32> {
    address.checked_sub(first).filter(|number| *number < count)
}

/// The Core with the address of a switch; `None` where the switch is none.
fn core(address: u32, cores: Option<(u32, u32)>) -> Option<Client> {
    let number = within(address, cores?)?;
    u16::try_from(number).ok().map(Client::Core)
}

impl OfFlow<'_> {
    /// Divides a wait by cause.
    fn divide(
        &self,
        (from, until): (Instant, Instant),
        mut each: impl FnMut(&'static str, bool, u64),
    ) {
        let mut at = from;
        // Bounded: each turn ends the wait or goes to the end of a piece.
        while at < until {
            let next = self.pods.iter().filter_map(|pod| self.piece_after(pod, at));
            // A scheduler that has taken over may be asked before the grants of the former end.
            let next = next.min_by_key(|piece| (piece.from.max(at), piece.cause != GRANTED));
            let begins = next.map_or(until, |piece| piece.from.clamp(at, until));
            if begins > at {
                let decided = next.map_or(begins, |piece| piece.decided.clamp(at, begins));
                each(REQUEST, false, decided.since(at).as_ps());
                each(DECISION, false, begins.since(decided).as_ps());
            }
            at = begins;
            if let Some(piece) = next.filter(|piece| piece.from <= at) {
                let ends = piece.until.min(until).max(at);
                each(piece.cause, piece.smaller, ends.since(at).as_ps());
                at = ends;
            }
        }
    }

    /// What the decision about the epoch at `at` did, or the next one that did something about the
    /// demand.
    fn piece_after(&self, pod: &PodWaits, at: Instant) -> Option<Piece> {
        let spans = pod.of(self.from, self.to);
        let end = |decision: u64| pod.begins_at(decision + 1, self.from);
        let span = spans.get(spans.partition_point(|span| end(span.decisions.1) <= at))?;
        let across = matches!(self.to, To::Pod(_));
        let cause = match span.fate {
            DemandFate::Receiver if across => CORES,
            fate => fate.name(),
        };
        Some(Piece {
            from: pod.begins_at(span.decisions.0, self.from),
            until: end(span.decisions.1),
            decided: pod.decided_at(span.decisions.0),
            cause,
            smaller: span.smaller,
        })
    }
}

const GRANTED: &str = DemandFate::Granted.name();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_switches_among_the_cores_are_cores() {
        let found = [39, 40, 43, 44].map(|address| core(address, Some((40, 4))));
        assert_eq!(found, [None, Some(Client::Core(0)), Some(Client::Core(3)), None]);
        assert_eq!(core(16, None), None, "a ToR of a single pod");
    }
}
