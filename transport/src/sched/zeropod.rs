//! Zeropod: hosts ask a pod's scheduler for epochs in which their cells meet no other cells. They
//! send these cells slot by slot, on the route that the scheduler names, through switches without
//! buffers.
//!
//! Source: \[zeropod\] III, IV. The scheduler itself is a program of the fabric; this file has what
//! hosts do. All instants follow from `timing.rs`. Units: cells, epochs, picoseconds of the host's
//! clock.
//!
//! ```text
//!   sender                       pod's scheduler                       receiver
//!   RTS: cells asked for  ------------>  decides
//!                         <------------  SCHD: epoch, receiver, route
//!   epoch: cells  ---------------------------------------------------->  notes which arrive
//!                          <--  a receipt in its RTS  -----------------
//!                         <------------  SCHD of another epoch, with that receipt
//! ```
//!
//! No acknowledgement is a packet of its own: a packet outside of the slots would meet others. A
//! receiver's request says which cells of an epoch arrived. The scheduler has the cells' sender on
//! record, and passes the report on. The sender has on record which segments these cells were.

mod arrivals;
mod awaited;
mod clock;
mod counts;
mod epochs;
mod gathering;
mod joining;
mod optimistic;
mod overdue;
mod params;
mod pod_end;
mod queues;
mod records;
mod roles;
mod silence;
mod slots;
#[cfg(test)]
mod tests;
pub mod timing;
mod trains;
mod watch;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::num::NonZeroU16;

pub use arrivals::Unreported;
pub use counts::PodCounts;
pub use gathering::turn_from;
pub use overdue::REPORTS_KEPT;
pub use params::{Kernel, SizeClasses, ZeropodParams};
pub use pod_end::PodEnd;
pub use slots::Slots;
pub use watch::{is_later, next_term};

use super::{Backlog, Choice, Label, Receiving, Reported, SchedSetup, Sending, Turn};
use crate::path::Path;
use crate::segment::TxSegment;
use crate::time::{Duration, Instant};
use crate::units::{Bytes, FlowId, HostId};
use crate::wire::Body;
use crate::wire::pod::{CellName, DemandEnd, Grant, MICE_MAX, Mouse, Rts, Schd};
use awaited::Awaited;
use clock::PodClock;
use counts::Odd;
use joining::Joining;
use optimistic::Optimistic;
use overdue::Overdue;
use queues::Queues;
use records::{Grants, Records, report_delivered};
use silence::{Outage, Silence};
use timing::Timing;
use watch::PodWatch;

/// Bytes of a demand that are asked for and not granted at most: a total that jumps further is not
/// accepted.
const ASKED_MAX: u32 = 1 << 30;

/// Epochs ahead for which a host keeps answers.
const AHEAD_MAX: u64 = 64;
const _: () = assert!(AHEAD_MAX <= records::GRANTS_MAX as u64, "an epoch has room for its grant");

/// Silence after which a cell is lost in a network of several pods: cells may wait in a Core for as
/// long as others go before them, and no packet reports that.
const ACROSS: Duration = Duration::from_ms(20);

/// An epoch that is being filled with cells.
#[derive(Clone, Copy, Debug)]
struct Filling {
    grant: Grant,
    epoch: u64,
    /// The place of the receiver's queue.
    queue: usize,
    /// The slot that is filled next, and the end of the granted slots.
    slot: u16,
    end: u16,
}

/// The scheduler of one host.
#[derive(Clone, Debug)]
pub struct Zeropod {
    timing: Timing,
    params: ZeropodParams,
    /// Payload bytes of a cell.
    cell: u32,
    /// Cells of a train at most; 1 where there are no trains.
    train_max: u16,
    pod_end: PodEnd,
    queues: Queues,
    /// Places of queues with something to ask for, in the order in which they have it. There is
    /// room for all queues.
    dirty: VecDeque<usize>,
    awaited: Awaited,
    silence: Silence,
    outage: Outage,
    overdue: Overdue,
    grants: Grants,
    /// Epochs before this one are over.
    epoch: u64,
    /// When the epoch ends.
    epoch_ends: Instant,
    filling: Option<Filling>,
    /// The epochs filled last with their grants, ascending, where hosts are early.
    filled: VecDeque<(u64, Grant)>,
    /// `None` where no cell leaves without a grant.
    optimistic: Option<Box<Optimistic>>,
    /// The cell that a flow was asked for last.
    offered: Option<(FlowId, CellName)>,
    records: Box<Records>,
    arrivals: Unreported,
    reports: VecDeque<Reported>,
    /// The mice of the last request.
    mice: [Mouse; MICE_MAX as usize],
    mice_len: u8,
    /// Requests leave in epochs from this one on.
    request_from: u64,
    /// The last instant at which the driver could have taken a request.
    asked_at: Instant,
    term: u16,
    watch: PodWatch,
    /// The pod's time, where the host's clock may be off. All instants and epochs here are of the
    /// pod's time; those that the endpoint hands in and gets are of the host's clock.
    clock: Option<Box<PodClock>>,
    /// Where the scheduler is a process that has its settings from hosts.
    joining: Option<Box<Joining>>,
    counts: Box<PodCounts>,
}

impl Zeropod {
    /// A scheduler without flows. It sends nothing where its settings name no pod's scheduler.
    #[must_use]
    pub fn new(setup: &SchedSetup<'_>) -> Self {
        let params = setup.params.zeropod;
        let inputs = params.timing_inputs(setup);
        let joining = Joining::new(&params, &inputs, setup);
        let inputs = joining.as_ref().map_or(inputs, Joining::timing_inputs);
        let joining = joining.map(Box::new);
        let timing = Timing::new(&inputs).asking_every(params.ask_every);
        let hosts = params.hosts.max(1);
        let pod = setup.host.0 / u32::from(hosts);
        let number = setup.host.0 % u32::from(hosts);
        let number = u16::try_from(number).unwrap_or(0);
        let pod_end = PodEnd {
            scheduler: HostId(params.scheduler + pod),
            backup: (params.backup > 0).then_some(HostId(params.backup + pod)),
            first: pod * u32::from(hosts),
            number,
            own: number % params.per_tor.max(1),
            behind: Duration::ZERO,
        };
        let mut sched = Self::at(pod_end, &params, timing, setup.tx_flows_max as usize);
        let patience = setup.patience(setup.rto.max(sched.rto_min()));
        sched.silence = match &joining {
            Some(joining) => Silence::new(joining.gives_up_after(setup.give_up), true),
            None => Silence::new(patience, false),
        };
        let lag = if joining.is_some() { timing.early } else { Duration::ZERO };
        let clock = params.follow.then(|| Box::new(PodClock::new(lag)));
        // A scheduler that is a process of its own has no list of the links.
        if joining.is_some() {
            *sched.records = Records::new(sched.timing.cells, None);
        }
        let train_max = trains::longest(setup, &sched.timing);
        let optimistic = Optimistic::new(setup).map(Box::new);
        Self { optimistic, clock, joining, train_max, ..sched }
    }

    /// The scheduler of one end of a pod, a host or the port of a Core, with room for `flows`
    /// flows.
    #[must_use]
    pub fn at(pod_end: PodEnd, params: &ZeropodParams, timing: Timing, flows: usize) -> Self {
        let hosts = usize::from(params.hosts.max(1));
        let pods = usize::from(params.pods);
        let records = Records::new(timing.cells, Some(timing.to_lost)).resending(pods > 1);
        let early = timing.early > Duration::ZERO;
        // Of each epoch that an answer reports, all cells may be of different flows. A request
        // reports several where it waited for its turn, or where a host that is polled late left
        // one out. Such a host may begin to send in an epoch before it looks at those overdue.
        let several = if early || params.ask_every > 1 { u16::BITS as usize + 1 } else { 1 };
        let reported = if early { several.max(records.expiring_max()) } else { several };
        Self {
            timing,
            params: *params,
            cell: params.cell.max(1).into(),
            train_max: 1,
            pod_end,
            queues: Queues::new(flows, hosts, pods),
            dirty: VecDeque::new(),
            awaited: Awaited::new(timing.request_to_data()),
            silence: Silence::new(Duration::MAX, false),
            outage: Outage::default(),
            overdue: Overdue::default(),
            grants: Grants::new(),
            epoch: 0,
            epoch_ends: Instant::ZERO,
            filling: None,
            filled: VecDeque::with_capacity(if early { 64 } else { 0 }),
            optimistic: None,
            offered: None,
            records: Box::new(records),
            arrivals: Unreported::new(timing.to_receipt, params.ask_every == 1),
            reports: VecDeque::with_capacity(usize::from(timing.cells) * reported),
            mice: [Rts::NO_MOUSE; MICE_MAX as usize],
            mice_len: 0,
            request_from: 0,
            asked_at: Instant::ZERO,
            term: 0,
            watch: PodWatch::new(pod_end.backup),
            clock: None,
            joining: None,
            counts: Box::default(),
        }
    }

    /// The timing of the pod.
    #[must_use]
    pub const fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Whether this host introduces itself to a scheduler that is a process.
    #[must_use]
    pub const fn introduces_itself(&self) -> bool {
        self.joining.is_some()
    }

    /// The destination of a demand for `peer`.
    fn demand_end_of(&self, peer: HostId) -> DemandEnd {
        let hosts = u32::from(self.params.hosts.max(1));
        let number = peer.0.wrapping_sub(self.pod_end.first);
        let narrow = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
        if number < hosts {
            DemandEnd::Host(narrow(number))
        } else {
            DemandEnd::Pod(narrow(peer.0 / hosts))
        }
    }

    /// The number of a grant's receiver under its switch: a host's under its ToR, a Core's layer
    /// under its aggregation switch.
    fn receiver(&self, grant: &Grant) -> u16 {
        match grant.to {
            DemandEnd::Host(host) => host % self.params.per_tor.max(1),
            DemandEnd::Pod(_) => grant.layer.unwrap_or(0).into(),
        }
    }

    /// The epoch of an instant here.
    #[inline]
    fn epoch_at(&self, at: Instant) -> u64 {
        // Nearly always the present one, and a division costs more than all else here.
        if at < self.epoch_ends && at >= self.start(self.epoch) {
            return self.epoch;
        }
        self.timing.epoch_at(at.before(self.pod_end.behind))
    }

    /// The beginning of an epoch here.
    fn start(&self, epoch: u64) -> Instant {
        self.timing.start(epoch) + self.pod_end.behind
    }

    /// Cells of a demand that are asked for and not granted at most.
    fn asked_max(&self) -> u32 {
        ASKED_MAX / self.cell
    }

    /// Notes that a queue has something to ask for.
    fn review(&mut self, place: usize) {
        let most = self.asked_max();
        let queue = self.queues.queue(place);
        if !queue.dirty && queue.lacking(most) > 0 {
            queue.dirty = true;
            self.dirty.push_back(place);
        }
    }

    /// The next request, when it leaves and to which scheduler, if a request is to be made at
    /// `now`. A request that asks for nothing is made only where `anyway` is true.
    fn request(&mut self, now: Instant, anyway: bool) -> Option<(Instant, HostId, Rts)> {
        let last = self.last_request(now);
        if last.is_some() {
            return last;
        }
        let (epoch, at) = self.due_request(now)?;
        let wants = self.wants();
        let asks = self.asks_from().is_some_and(|from| from <= epoch);
        if wants || asks {
            self.watch(epoch);
        }
        let lost = self.records.take_lost(epoch);
        let takes_turns = self.is_turn(epoch);
        let update = if self.is_settled() {
            let asked = self.next_update(epoch).or_else(|| self.next_repeat(epoch));
            asked.or_else(|| self.next_probe(epoch))
        } else {
            None
        };
        let asks = asks || anyway || lost || takes_turns || update.is_some();
        let (arrived, arrived_in) = self.take_arrivals(epoch, asks);
        if !asks && arrived == 0 {
            return None;
        }
        self.request_from = epoch + 1;
        self.counts.requests += 1;
        self.name_mice();
        let clock = self.clock_state(epoch);
        #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
        let epoch = epoch as u32;
        let (term, mice, mice_len) = (self.term, self.mice, self.mice_len);
        let rts = Rts { term, epoch, update, arrived, arrived_in, lost, mice, mice_len, clock };
        Some((at, self.pod_end.scheduler, rts))
    }

    /// The next cell of the epoch that is being filled.
    fn granted_turn(&mut self, now: Instant) -> Option<Turn> {
        let (peer, epoch) = {
            let filling = self.filling.as_ref()?;
            (self.receiver(&filling.grant), filling.epoch)
        };
        let (start, own) = (self.start(epoch), self.pod_end.own);
        let at = |slot| start + self.timing.cell_at(slot, own, peer);
        let lags = self.lags();
        let Filling { slot, end, .. } = self.filling?;
        let next = (slot..end).find(|slot| at(*slot) >= now).unwrap_or(end);
        let leaves = at(next);
        if next > slot {
            self.pass_over_slots(next);
        }
        let filling = self.filling.filter(|filling| filling.slot < filling.end)?;
        let (flow, _) = self.queues.front(filling.queue, filling.grant.mice_only)?;
        #[expect(clippy::cast_possible_truncation, reason = "below 32, and modulo 4")]
        let name = CellName {
            agg: filling.grant.agg,
            layer: filling.grant.layer.unwrap_or(0),
            slot: filling.slot as u8,
            epoch: (filling.epoch % 4) as u8,
            unscheduled: false,
        };
        let name = if lags { name.of_epoch(epoch) } else { name };
        self.offered = Some((flow, name));
        let trains = self.train_max > 1;
        let train = if trains { self.train(flow, &filling) } else { NonZeroU16::MIN };
        let (ev, at) = (Some(name.ev()), Some(leaves));
        let choice = Choice { ev, at, train, ..Choice::default() };
        Some(Turn::chosen(flow, choice))
    }

    /// Finds the destinations with the shortest flows.
    //= zeropod#IV-B1
    fn name_mice(&mut self) {
        let most = usize::from(self.params.top_k.min(MICE_MAX));
        let mut len = 0;
        if most == 0 {
            return;
        }
        let open = self.queues.backlogged().filter(|(_, queue)| queue.waiting > queue.pending);
        for (place, queue) in open {
            let Some(bytes) = self.queues.mouse(place, self.cell) else { continue };
            let mouse = Mouse { to: queue.to, size: Mouse::step(bytes) };
            let at = self.mice[..len].partition_point(|other| other.size <= mouse.size);
            if at < most {
                len = (len + 1).min(most);
                self.mice.copy_within(at..len - 1, at + 1);
                self.mice[at] = mouse;
            }
        }
        self.mice_len = u8::try_from(len).unwrap_or(0);
    }

    /// Takes in an answer that came at `local` time.
    fn on_answer(&mut self, from: HostId, schd: &Schd, local: Instant) -> Result<(), Odd> {
        self.advance(self.pod_time(local));
        self.admit(from, schd, local)?;
        self.note_heeded(schd);
        let standing = schd.standing.map(|(to, _)| to);
        self.note_answer(self.pod_time(local), standing);
        let granted = schd.grant.map(|grant| self.full(grant.epoch));
        self.end_outage(self.pod_time(local), granted);
        self.note_answered(local);
        self.follow(schd, local);
        if let Some(delivered) = schd.delivered {
            report_delivered(delivered, &mut self.reports);
        }
        if let Some((epoch, arrived)) = schd.receipt {
            let epoch = self.full_of_16(epoch);
            self.report(epoch, arrived, schd.also);
        }
        if let Some((to, total)) = schd.standing {
            let place = self.on_total(to, total)?;
            self.review(place);
        }
        schd.grant.map_or(Ok(()), |grant| self.on_grant(&grant))
    }

    /// The epoch near the present one that is `epoch` modulo 2^32.
    fn full(&self, epoch: u32) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
        let ahead = epoch.wrapping_sub(self.epoch as u32).cast_signed();
        self.epoch.saturating_add_signed(ahead.into())
    }

    /// The epoch near the present one that is `epoch` modulo 2^16. No packet is under way for half
    /// as many epochs, 23 ms with the paper's numbers: none waits in a pod.
    fn full_of_16(&self, epoch: u16) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "modulo 2^16")]
        let ahead = epoch.wrapping_sub(self.epoch as u16).cast_signed();
        self.epoch.saturating_add_signed(ahead.into())
    }

    /// Takes in the bytes granted for a destination so far; returns the place of its queue, which
    /// is to be reviewed: grants that did not arrive here are asked for again.
    fn on_total(&mut self, to: DemandEnd, total: u32) -> Result<usize, Odd> {
        let place = self.queues.place(to).ok_or(Odd::Unasked)?;
        let epoch = self.epoch;
        let queue = self.queues.queue(place);
        let news = total.wrapping_sub(queue.granted.wrapping_mul(self.cell)) / self.cell;
        if news > queue.outstanding() {
            return Err(Odd::Unasked);
        }
        queue.granted = queue.granted.wrapping_add(news);
        queue.since = epoch;
        if news > 0 {
            queue.tries = 0;
        }
        Ok(place)
    }

    fn on_grant(&mut self, grant: &Grant) -> Result<(), Odd> {
        if u16::from(grant.cells) > self.timing.cells {
            return Err(Odd::Unasked);
        }
        if !self.params.has_route(grant) {
            return Err(Odd::NoRoute);
        }
        let place = self.on_total(grant.to, grant.total)?;
        let kept = self.keep(grant, place);
        // The total counts in any case: the host asks again for what it cannot use. Until a grant
        // is kept, its cells look like those of a grant that did not arrive.
        self.review(place);
        kept
    }

    /// Keeps a grant for each of its epochs that the host can still use.
    fn keep(&mut self, grant: &Grant, place: usize) -> Result<(), Odd> {
        let (epoch, own) = (self.full(grant.epoch), self.epoch);
        for epoch in epoch..epoch + u64::from(grant.epochs) {
            // The request of an epoch leaves by the place of its receiver.
            if epoch <= own || epoch < self.request_from {
                self.counts.late += 1;
                continue;
            }
            if epoch - own > AHEAD_MAX {
                return Err(Odd::FarEpoch);
            }
            if !self.grants.insert(epoch, *grant) {
                return Err(Odd::Doubled);
            }
            self.note_granted(epoch);
            self.queues.queue(place).pending += u32::from(grant.cells);
        }
        Ok(())
    }
}

impl Sending for Zeropod {
    fn on_open(&mut self, flow: FlowId, peer: HostId, _path: &Path, _label: Label) {
        self.open(flow, peer);
    }

    fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, now: Instant) {
        self.advance(self.pod_time(now));
        let sendable = backlog.sendable > Bytes::ZERO;
        let mut waiting = if sendable { backlog.segments } else { 0 };
        if self.train_max > 1 {
            waiting = self.review_train(flow, waiting);
        }
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        self.note_in_flight(flow, backlog.in_flight > Bytes::ZERO);
        if let Some(place) = self.queues.update(flow, waiting) {
            self.review(place);
        }
        self.review_optimistic(flow, backlog);
    }

    fn next_turn(&mut self, now: Instant, _until: Instant) -> Option<Turn> {
        let now = self.pod_time(now);
        self.advance(now);
        self.offered = None;
        let mut turn = self.granted_turn(now).or_else(|| self.optimistic_turn(now));
        if let Some(choice) = turn.as_mut().and_then(|turn| turn.choice.as_mut()) {
            choice.at = choice.at.filter(|_| !self.lags()).map(|at| self.local_time(at));
        }
        turn
    }

    fn on_sent(
        &mut self,
        flow: FlowId,
        segment: &mut TxSegment,
        _backlog: impl FnOnce() -> Backlog,
        now: Instant,
    ) {
        let Some((offered, name)) = self.offered.take() else { return };
        debug_assert_eq!(offered, flow);
        if name.unscheduled {
            return self.on_copied(flow, now);
        }
        let cells = self.cells_of(segment.payload.len);
        let Some(filling) = &mut self.filling else { return };
        let slot = u16::from(name.slot);
        filling.slot = slot + cells;
        let queue = self.queues.queue(filling.queue);
        queue.pending = queue.pending.saturating_sub(cells.into());
        if let Body::Data(data) = &segment.hdr.body {
            let to = filling.grant.to;
            let (slots, segment) = (slot..slot + cells, (flow, data.psn));
            self.records.sent((filling.epoch, slots), segment, to, &mut self.reports);
            self.note_in_flight(flow, true);
        }
        self.counts.cells += u64::from(cells);
        self.counts.joined += u64::from(cells - 1);
        self.queues.sent(flow, cells, segment.payload.len);
    }

    fn holds(&self, flow: FlowId) -> bool {
        self.queues.holds(flow)
    }
}
