//! Bounds on the flows, the messages under way and their bytes that one host, or one group of
//! hosts, holds at this receiver. Only proven flows count.
//!
//! A sender that has proved its address may still try to take all places. So each host has a bound.
//! Each group of hosts with a common address prefix has one, too, since one machine may have many
//! addresses of its own prefix but none of another prefix. A host that has reached a bound is
//! refused with an answer that names the reason; hosts of other prefixes are not affected. A host's
//! own flows at rest are dropped first, and flows at rest of its group where the group is full.
//! Flows without proof do not count here, because their source may be forged: they have bounds of
//! their own (`proof.rs`). Their messages count here once they are proven.
//!
//! Amortised O(1), for packets that open a flow or a message, or end one.

use super::Endpoint;
use super::lookup::{HeldBy, KeyHash};
use crate::config::{Config, ShareMax};
use crate::sched::Scheduler;
use crate::segment::RxSegment;
use crate::stats::DropReason;
use crate::units::HostId;
use crate::wire::Body;
use crate::wire::addressing::Groups;

/// A part of the receiver's tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Held {
    pub(super) flows: u32,
    /// Messages that have begun and are not whole.
    pub(super) messages: u32,
    /// The length of these messages.
    pub(super) bytes: u64,
}

impl Held {
    /// A message of `len` bytes.
    pub(super) fn message(len: u32) -> Self {
        Self { flows: 0, messages: 1, bytes: len.into() }
    }

    /// The sum of two shares.
    pub(super) const fn and(self, more: Self) -> Self {
        Self {
            flows: self.flows.saturating_add(more.flows),
            messages: self.messages.saturating_add(more.messages),
            bytes: self.bytes.saturating_add(more.bytes),
        }
    }

    /// What is left when `part` is taken off, which is contained in it.
    pub(super) fn without(self, part: Self) -> Self {
        let is_part = part.flows <= self.flows && part.messages <= self.messages;
        debug_assert!(is_part && part.bytes <= self.bytes, "{part:?} of {self:?}");
        Self {
            flows: self.flows.saturating_sub(part.flows),
            messages: self.messages.saturating_sub(part.messages),
            bytes: self.bytes.saturating_sub(part.bytes),
        }
    }

    const fn is_within(&self, most: &ShareMax) -> bool {
        self.flows <= most.flows && self.messages <= most.messages && self.bytes <= most.bytes
    }
}

/// The shares of all hosts and groups.
#[derive(Debug)]
pub(super) struct Shares {
    peer_max: ShareMax,
    group_max: ShareMax,
    groups: Groups,
    of_hosts: HeldBy,
    of_groups: HeldBy,
}

impl Shares {
    /// The shares of a table with so many places.
    pub(super) fn new(config: &Config, places: usize, look_up: KeyHash) -> Self {
        // Twice the flows: removals leave marks that must not force a rehash.
        let table = || HeldBy::with_capacity_and_hasher(2 * places, look_up);
        Self {
            peer_max: config.peer_max,
            group_max: config.group_max,
            groups: config.groups.clone(),
            of_hosts: table(),
            of_groups: table(),
        }
    }

    /// Whether `from` may have `more`.
    pub(super) fn room_for(&self, from: HostId, more: Held) -> Result<(), DropReason> {
        let held = |by: &HeldBy, number| by.get(&number).copied().unwrap_or_default().and(more);
        if !held(&self.of_hosts, from.0).is_within(&self.peer_max) {
            return Err(DropReason::PeerShare);
        }
        let group = self.groups.of(from);
        if group.is_some_and(|group| !held(&self.of_groups, group).is_within(&self.group_max)) {
            return Err(DropReason::GroupShare);
        }
        Ok(())
    }

    /// Adds `more` to what `from` holds, even beyond its bounds.
    pub(super) fn take(&mut self, from: HostId, more: Held) {
        let add = |by: &mut HeldBy, number| {
            let held = by.entry(number).or_default();
            *held = held.and(more);
        };
        add(&mut self.of_hosts, from.0);
        if let Some(group) = self.groups.of(from) {
            add(&mut self.of_groups, group);
        }
    }

    /// `from` has so much less.
    pub(super) fn give_back(&mut self, from: HostId, less: Held) {
        let sub = |by: &mut HeldBy, number| {
            let Some(held) = by.get_mut(&number) else { return };
            *held = held.without(less);
            if *held == Held::default() {
                by.remove(&number);
            }
        };
        sub(&mut self.of_hosts, from.0);
        if let Some(group) = self.groups.of(from) {
            sub(&mut self.of_groups, group);
        }
    }
}

impl<S: Scheduler> Endpoint<S> {
    /// Makes room for a flow of `from` and what it holds already, if `from` may have that.
    pub(super) fn admit(&mut self, from: HostId, held: Held) -> Result<(), DropReason> {
        let flow = Held { flows: 1, ..Held::default() };
        // A flow at rest has no message under way, so forgetting it makes no room for messages.
        self.proofs.shares.room_for(from, held)?;
        // Bounded: a flow of the host's own may have to go, and then one of its group.
        for _ in 0..2 {
            let Err(reason) = self.proofs.shares.room_for(from, flow) else { break };
            let groups = self.proofs.shares.groups.clone();
            let group = groups.of(from).filter(|_| reason == DropReason::GroupShare);
            let fits = |host| host == from || group.is_some() && groups.of(host) == group;
            if !self.evict_of(fits) {
                return Err(reason);
            }
        }
        self.proofs.shares.room_for(from, flow.and(held))
    }

    /// Whether `rx` would begin a message beyond the bounds of its host or its group: it will be
    /// refused, unless a message of theirs ends earlier in the burst.
    #[must_use]
    pub fn is_beyond_share(&self, rx: &RxSegment) -> bool {
        let Body::Data(data) = &rx.hdr.body else { return false };
        let Some(open) = data.open.filter(|_| self.proofs.matter()) else { return false };
        let flow = self.known_flow(rx, data).filter(|flow| !self.proofs.lacks(flow.id));
        flow.is_some_and(|flow| flow.would_begin(data, &self.rx_buffers))
            && self.proofs.shares.room_for(rx.from, Held::message(open.msg_len.get())).is_err()
    }
}
