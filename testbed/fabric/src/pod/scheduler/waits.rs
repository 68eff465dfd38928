//! Why demands wait: what each decision did about each open demand, kept for reports.
//!
//! A decision is about one epoch, so its entry says why the demand sends in that epoch or does not.
//! Nothing is kept unless [`PodDecider::keep_waits`] is called, and nothing of this changes a
//! decision. A decision takes O(n log n) time for n open demands, and up to 24 octets of memory for
//! each: nothing bounds the log but the length of the run.

use std::collections::BTreeMap;

use super::{Client, PodDecider};
use crate::pod::demands::{DemandOrder, To};
use crate::pod::ports::{Grant, IdlePorts};

/// What a decision did about an open demand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DemandFate {
    /// The demand has the epoch.
    Granted,
    /// The sender's link has the epoch for another receiver.
    Sender,
    /// The receiver's link has the epoch for another sender. For a demand to another pod: every
    /// link to a Core that takes its cells.
    Receiver,
    /// Both links have the epoch for others.
    Ends,
    /// Both ends are idle, but no route between them has only idle links.
    Routes,
    /// No Core takes more cells for the pod.
    Paused,
    /// No route has only links that work and are not accused.
    Broken,
    /// The sender or the receiver has sent no request for too long; for a demand to another pod,
    /// all Cores.
    Silent,
    /// The scheduler, or one of the ends, has come from another term, whose grants are not over;
    /// for a demand to another pod, each Core that is not silent.
    Fence,
    /// There was an idle route, and the matcher has not found it.
    Unmatched,
}

impl DemandFate {
    /// The name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Sender => "sender",
            Self::Receiver => "receiver",
            Self::Ends => "ends",
            Self::Routes => "routes",
            Self::Paused => "paused",
            Self::Broken => "broken",
            Self::Silent => "silent",
            Self::Fence => "fence",
            Self::Unmatched => "unmatched",
        }
    }
}

/// Decisions in a row that did the same about a demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FateSpan {
    /// The epochs of the first and the last decision.
    pub decisions: (u64, u64),
    /// What they did.
    pub fate: DemandFate,
    /// Whether a demand of a smaller size had the link of the sender, or of a host that receives.
    pub smaller: bool,
}

/// What decisions did about each demand that was open. The spans of a demand ascend.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DemandLog(BTreeMap<(Client, To), Vec<FateSpan>>);

impl DemandLog {
    /// The spans of a demand.
    #[must_use]
    pub fn of(&self, from: Client, to: To) -> &[FateSpan] {
        self.0.get(&(from, to)).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, demand: (Client, To), decision: u64, fate: DemandFate, smaller: bool) {
        let spans = self.0.entry(demand).or_default();
        match spans.last_mut() {
            Some(last)
                if last.decisions.1 + 1 == decision
                    && (last.fate, last.smaller) == (fate, smaller) =>
            {
                last.decisions.1 = decision;
            }
            _ => spans.push(FateSpan { decisions: (decision, decision), fate, smaller }),
        }
    }
}

/// The grants of one decision by their ends, and the ports before and after it.
struct Decided<'a> {
    by_sender: Vec<Option<&'a Grant>>,
    by_host: Vec<Option<&'a Grant>>,
    before: IdlePorts,
    left: &'a IdlePorts,
}

impl PodDecider {
    /// Keeps from now on what decisions do about demands, for [`PodDecider::take_waits`].
    pub fn keep_waits(&mut self) {
        self.waits = Some(Box::default());
    }

    /// What decisions have done about demands; empty unless it is kept.
    #[must_use]
    pub fn take_waits(&mut self) -> DemandLog {
        self.waits.take().map_or_else(DemandLog::default, |log| *log)
    }

    /// Notes what the decision of `epoch` does about each open demand. `left` are the ports that it
    /// leaves idle; `None` where it is about an epoch before the fence.
    #[cold]
    #[inline(never)]
    pub(super) fn note_waits(&mut self, epoch: u64, left: Option<&IdlePorts>) {
        let Some(mut log) = self.waits.take() else { return };
        let decided = left.map(|left| self.decided(epoch, left));
        for (sender, to) in self.demands.in_order(DemandOrder::Age) {
            let fate = decided.as_ref().map(|decided| self.fate_of(sender, to, epoch, decided));
            let (fate, smaller) = fate.unwrap_or((DemandFate::Fence, false));
            log.add((self.client(narrow(sender)), to), epoch, fate, smaller);
        }
        // Runs go on though their demands may be closed.
        for grant in &self.grants {
            if self.demands.opened(grant.sender.into(), grant.to).is_none() {
                let demand = (self.client(grant.sender), grant.to);
                log.add(demand, epoch, DemandFate::Granted, false);
            }
        }
        self.waits = Some(log);
    }

    fn decided<'a>(&'a self, epoch: u64, left: &'a IdlePorts) -> Decided<'a> {
        let mut by_sender = vec![None; self.shape.senders()];
        let mut by_host = vec![None; self.shape.hosts()];
        for grant in &self.grants {
            by_sender[usize::from(grant.sender)] = Some(grant);
            if let To::Host(host) = grant.to {
                by_host[usize::from(host)] = Some(grant);
            }
        }
        Decided { by_sender, by_host, before: self.ports(epoch), left }
    }

    /// What a decision does about an open demand, and whether a smaller one has a link that it
    /// needs.
    fn fate_of(
        &self,
        sender: usize,
        to: To,
        epoch: u64,
        decided: &Decided<'_>,
    ) -> (DemandFate, bool) {
        let of_sender = decided.by_sender[sender];
        if of_sender.is_some_and(|grant| grant.to == to) {
            return (DemandFate::Granted, false);
        }
        if let Some(fate) = self.shut_out(sender, to, epoch, &decided.before) {
            return (fate, false);
        }
        let mouse = self.demands.has_mouse(sender, to);
        let (of_receiver, receives) = match to {
            To::Host(host) => {
                let grant = decided.by_host[usize::from(host)];
                (grant, grant.is_some())
            }
            To::Pod(pod) => {
                let relays = |layer| decided.left.relays(u32::MAX, pod.into(), layer, mouse) != 0;
                (None, !(0..self.shape.layers()).any(relays))
            }
        };
        let fate = match (of_sender.is_some(), receives) {
            (true, true) => DemandFate::Ends,
            (true, false) => DemandFate::Sender,
            (false, true) => DemandFate::Receiver,
            (false, false) if decided.left.has_route(&self.shape, sender, to, mouse) => {
                DemandFate::Unmatched
            }
            (false, false) => DemandFate::Routes,
        };
        let own = self.demands.class(sender, to);
        let class = |grant: &Grant| self.demands.class(grant.sender.into(), grant.to);
        let is_smaller = |grant: &Grant| class(grant).is_some_and(|class| Some(class) < own);
        (fate, of_sender.into_iter().chain(of_receiver).any(is_smaller))
    }

    /// Why a demand could not be granted whatever else is asked for; `None` where it could.
    fn shut_out(
        &self,
        sender: usize,
        to: To,
        epoch: u64,
        before: &IdlePorts,
    ) -> Option<DemandFate> {
        let mouse = self.demands.has_mouse(sender, to);
        let usable = &self.links.usable;
        if !usable.has_route(&self.shape, sender, to, mouse) {
            return Some(DemandFate::Broken);
        }
        let receiver = match to {
            To::Host(host) => Some(usize::from(host)),
            To::Pod(_) => None,
        };
        let mut ends = receiver.into_iter().chain([sender]);
        if ends.clone().any(|end| self.is_silent_at(end, epoch)) {
            return Some(DemandFate::Silent);
        }
        let about = epoch + self.settings.lead;
        if ends.any(|end| about < self.clients[end].joins) {
            return Some(DemandFate::Fence);
        }
        if before.has_route(&self.shape, sender, to, mouse) {
            return None;
        }
        // The links that work lead to Cores alone that take no more cells for the pod, that are
        // silent, or that come from another term.
        let unpaused = IdlePorts { relay: usable.relay, ..*before };
        if unpaused.has_route(&self.shape, sender, to, mouse) {
            return Some(DemandFate::Paused);
        }
        let mut speaking = *usable;
        let cores = self.shape.hosts()..self.shape.senders();
        for core in cores.filter(|core| self.is_silent_at(*core, epoch)) {
            speaking.leave_out(&self.shape, core);
        }
        let speaks = speaking.has_route(&self.shape, sender, to, mouse);
        Some(if speaks { DemandFate::Fence } else { DemandFate::Silent })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "senders are below 2^16")]
const fn narrow(sender: usize) -> u16 {
    sender as u16
}
