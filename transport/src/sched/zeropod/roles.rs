//! The registration of a host's scheduler, and its roles beside sending: cells that arrive are
//! noted for its requests, and answers of the scheduler are taken in.

use super::counts::Odd;
use super::timing::Timing;
use super::{ACROSS, Zeropod, ZeropodParams};
use crate::path::NetworkFacts;
use crate::registry::Registered;
use crate::sched::{
    AckMode, Arrival, Protocol, Ranks, Receiving, Reported, SchedFacts, SchedParams, SchedSetup,
    Scheduling, Slots,
};
use crate::segment::{Burst, PayloadRef, TxSegment};
use crate::stats::DropReason;
use crate::time::{Duration, Instant, earliest};
use crate::units::{EntropyValue, FlowId, HostId};
use crate::wire::pod::{CellName, DemandEnd, Invite, Schd};
use crate::wire::{Header, Note};

impl Registered for Zeropod {
    const ABOUT: &'static str =
        "cells in slots and on routes that a pod's scheduler grants, as Zeropod";
    type Params = ZeropodParams;
    fn resolve(params: &mut ZeropodParams, facts: &NetworkFacts) {
        params.resolve(facts);
    }
    fn own_counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("joined", self.counts.joined);
    }
}

impl Scheduling for Zeropod {
    fn build(setup: &SchedSetup<'_>) -> Self {
        Self::new(setup)
    }

    fn facts() -> SchedFacts {
        SchedFacts {
            needs_network: true,
            departs_in_slots: true,
            left_by_restarts: Some("whose slots outlive a host that begins anew"),
            ..SchedFacts::DEFAULT
        }
    }

    fn slots(params: &SchedParams) -> Option<Slots> {
        let ZeropodParams { early, per_tor, .. } = params.zeropod;
        Some(Slots { early, per_switch: per_tor })
    }

    /// The scheduler of a pod orders demands by their sizes alone (\[zeropod\] IV-B).
    fn serves_prio() -> bool {
        false
    }

    fn ranks() -> Option<Ranks> {
        Some(Ranks::Granted)
    }

    /// The answers of a scheduler acknowledge cells.
    fn control_packets(_params: &SchedParams, _segments: u64, _acks: u64) -> u64 {
        0
    }
}

impl Receiving for Zeropod {
    fn on_arrival(&mut self, _flow: FlowId, arrival: &Arrival<'_>, now: Instant) {
        if !self.is_settled() {
            // No cell is for a host that has not asked; its time is not the pod's.
            return;
        }
        if self.sends_at_its_times() {
            // The driver need not poll for packets, which would do it.
            self.advance(self.pod_time(now));
        }
        let cells = self.cells_of(arrival.len);
        self.counts.joined_here += u64::from(cells - 1);
        // A train is here with its last cell.
        let behind = self.timing.cell * u64::from(cells - 1);
        let sent = self.time_of_arrival(arrival.at).before(self.timing.flight + behind);
        let name = CellName::of(arrival.ev);
        if name.unscheduled {
            // No packet of a host depends on it.
            self.counts.optimistic_delivered += 1;
            return;
        }
        if matches!(self.demand_end_of(arrival.from), DemandEnd::Pod(_)) {
            // The name is of the way to the Core. The Core's epochs are late by as much as its
            // cells are sooner here, and the gaps of an epoch are less than a cell. Half of what
            // they leave of a cell is for a clock that is behind.
            let gaps = self.timing.control * 2 + self.timing.slot_guard;
            let spare = self.timing.cell.saturating_sub(gaps);
            let sent = sent + Duration::from_ps(spare.as_ps() / 2);
            let epoch = self.timing.epoch_at(sent);
            let within = sent.since(self.timing.start(epoch)).as_ps();
            let slot = within / self.timing.cell.as_ps().max(1);
            let last = u64::from(self.timing.cells) - 1;
            self.arrivals.note(epoch, 1 << (slot.min(last) & 31));
            return;
        }
        if self.lags() {
            // However late it is, it has left before.
            let about = self.timing.epoch_at(self.time_of_arrival(arrival.at)) + 1;
            self.arrivals
                .note(about.saturating_sub(name.epochs_before(about)), 1 << (name.slot & 31));
            return;
        }
        // The name has the epoch modulo 4, so a clock may be wrong by an epoch.
        let about = self.timing.epoch_at(sent) + 1;
        let behind = (about + 4 - u64::from(name.epoch)) % 4;
        let slots = (u32::MAX >> (u32::BITS - u32::from(cells.min(32)))) << (name.slot & 31);
        self.arrivals.note(about.saturating_sub(behind), slots);
    }

    fn on_forgotten(&mut self, _flow: FlowId) {}

    fn ack_mode(&self) -> AckMode {
        AckMode::Reported
    }

    /// A host that makes its packets early makes some at every poll.
    fn sends_at_its_times(&self) -> bool {
        self.timing.early == Duration::ZERO
    }

    /// A cell is lost when no receipt has come in the time that a demand takes: a receipt takes
    /// less.
    fn rto_min(&self) -> Duration {
        let Timing { epoch, to_receipt, to_gather, .. } = self.timing;
        let timeout = epoch * (2 * self.timing.request_to_data() + to_receipt + to_gather);
        if self.params.pods > 1 { timeout.max(ACROSS) } else { timeout }
    }
}

impl Protocol for Zeropod {
    fn on_control(&mut self, _: FlowId, _: HostId, _: &Header, _: Instant) -> bool {
        false
    }

    fn on_host_control(
        &mut self,
        from: HostId,
        hdr: &Header,
        note: &Note,
        at: Instant,
    ) -> Result<(), DropReason> {
        self.counts.answers += 1;
        let answer = match (Schd::of(note), Invite::of(note)) {
            _ if !self.is_scheduler(from) => Err(Odd::Forged),
            (None, Some(invite)) => self.on_invite(&invite, hdr.key, at),
            _ if hdr.key != self.key() => Err(Odd::Forged),
            (Some(schd), _) => self.on_answer(from, &schd, at),
            (None, _) => Err(Odd::Malformed),
        };
        answer.map_err(|why| {
            self.counts.refuse(why);
            DropReason::BadSegment
        })
    }

    fn next_reported(&mut self) -> Option<Reported> {
        // Bounded by the epochs that are kept, and by their cells.
        while self.reports.is_empty()
            && (self.records.send_again(&mut self.reports)
                || self.records.expire(self.epoch, &mut self.reports))
        {}
        self.reports.pop_front().or_else(|| self.next_overdue())
    }

    fn poll_control(&mut self, now: Instant, _until: Instant, out: &mut Burst<TxSegment>) {
        if out.room() > 0
            && let Some(join) = self.next_join(now)
        {
            out.push(join);
        }
        let now = self.pod_time(now);
        self.advance(now);
        if self.has_time()
            && out.room() > 0
            && let Some((at, peer, rts)) = self.request(now, false)
        {
            // There is one way to the scheduler, so the entropy value names the host that asks.
            let number = EntropyValue(self.pod_end.number);
            let hdr = rts.note().for_host(number, self.key());
            let segment = TxSegment { hdr, payload: PayloadRef::NONE, peer };
            if at > now && !self.lags() {
                out.push_at(segment, self.local_time(at));
            } else {
                out.push(segment);
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if !self.has_time() {
            return self.joins_at();
        }
        let asks = !self.dirty.is_empty() || self.awaited.has_overdue() || self.has_former();
        // The earlier its epoch, the earlier a request: the first epoch of all kinds is enough.
        let reports = earliest(self.reports_from(), self.records.lost_due());
        let reports = earliest(reports, self.next_turn_epoch());
        let reports = earliest(reports, self.probes_from());
        let request = if asks { Some(0) } else { earliest(reports, self.asks_from()) };
        let request = request.map(|epoch| self.next_request(epoch, self.asked_at));
        let begins = earliest(self.grants.first(), self.awaited.due());
        let begins = earliest(begins, self.records.expires());
        let begins = earliest(begins, (!self.reports.is_empty()).then_some(self.epoch));
        let begins = earliest(begins, self.overdue_at());
        let begins = begins.map(|epoch| self.start(epoch));
        let next = earliest(earliest(request, begins), self.next_copy_at());
        earliest(self.joins_at(), next.map(|at| self.local_time(self.made_at(at))))
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.advance(self.pod_time(now));
    }

    fn next_given_up(&mut self) -> Option<FlowId> {
        let since = self.silence.since();
        let flow = self.silence.next_given_up(&mut self.queues)?;
        self.counts.given_up += 1;
        self.give_up_outage();
        let pod = self.pod_end.first / u32::from(self.params.hosts.max(1));
        let silent = since.map(|since| (since, pod));
        self.counts.silent_since = self.counts.silent_since.or(silent);
        Some(flow)
    }
}
