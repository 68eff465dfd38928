//! The scheduler of a pod. It takes requests of hosts, and decides in every epoch which host sends
//! to which other host, by which route. It sends the answers so that they slip in between the cells
//! of others.
//!
//! Source: \[zeropod\] III-B2, IV-A, IV-C. The decision itself is made in `crate::pod`; this
//! program counts epochs, keeps the time that a decision takes, and turns requests and answers into
//! packets. Its switch has one link to every ToR and to every aggregation switch of its pod, in
//! this order.
//!
//! ```text
//!   requests of epoch e --> decision e + to_decision --> answers between the cells of epoch
//!                                 |                      decision + to_answers
//!                                 +--> receipts, with the next answers
//! ```
//!
//! A host without a demand, a receipt or lost cells to report sends no request and gets no answer.
//! No decision is made while there is no demand. So an idle pod without a backup costs nothing.
//! Unused slots stay empty. With a backup every member sends a request every second epoch.

mod answers;
mod asked;
mod counters;
mod delivered;
mod lateness;
mod members;
mod receipts;
mod server;
mod settings;
mod terms;
mod waits;

use std::collections::VecDeque;
use std::mem;

use transport::params::NoParams;
use transport::registry::Registered;
use transport::sched::zeropod::ZeropodParams;
use transport::sched::zeropod::timing::Timing;
use transport::wire::pod::{CoreRts, Delivered, DemandEnd, MICE_MAX, Mouse, Rts};
use transport::wire::{Body, Ext, Header, Note};
use transport::{
    DropReason, Duration, EntropyValue, FlowId, HostId, Instant, PayloadRef, TxSegment,
};

use super::{Context, Program, ProgramSettings, ProgramSetup, SwitchProgram};
use crate::elements::PortId;
use crate::packet::Packet;
use crate::pod::scheduler::{self, Client, Refused, Update};
use crate::pod::{PodDecider, To};
use answers::{Answers, DueGrants};
use asked::{Asked, Requests, Waiting};
pub use counters::PodCounters;
use delivered::CellRuns;
use lateness::Lateness;
use members::Members;
pub(super) use members::{all_hosts, first_core};
use receipts::Receipts;
pub use server::PodServer;
pub(super) use settings::timing;
pub use settings::{kernel, matcher};
use terms::{TermStep, Terms};
pub use waits::PodWaits;

/// The scheduler of one pod.
#[derive(Clone, Debug)]
pub struct PodScheduler {
    address: HostId,
    /// `None` where the switch is no pod's scheduler: it consumes what it gets.
    pod: Option<Box<Pod>>,
}

/// The state of a pod's scheduler.
#[derive(Clone, Debug)]
struct Pod {
    members: Members,
    timing: Timing,
    /// Epochs by which a request may come sooner or later than one in a pod.
    slack: u64,
    /// When a window opens, from the beginning of its epoch on: the first answer of it may leave
    /// then, one to a Core where there are any.
    opens: Duration,
    /// Whole epochs of that.
    opens_after: u64,
    /// An epoch and its beginning: the one that a request came in last.
    looked_at: (u64, Instant),
    terms: Terms,
    scheduler: PodDecider,
    /// Requests that wait for their decision, by the epoch in which they left.
    requests: Requests,
    /// For each member: its requests among those.
    waiting: Vec<u8>,
    /// The last decision made.
    decided: Option<u64>,
    /// The next one to be made; [`NEVER`] while there is nothing to decide.
    next: u64,
    /// Epochs between whose cells answers slip in, ascending.
    windows: VecDeque<u64>,
    /// No decision is due before, and no window opens.
    busy_at: Instant,
    /// For each member: which cells of its own arrived.
    receipts: Vec<Receipts>,
    /// Epochs among which members send a request that asks for nothing.
    ask_every: u64,
    /// Demands whose totals hosts repeated, with the bytes granted to them. They are ordered by the
    /// window of the answer, which is behind all grants that are among those bytes.
    standings: VecDeque<(u64, u16, (DemandEnd, u32))>,
    /// For each member: its grants with the windows of their answers, ascending.
    grants: Vec<DueGrants>,
    /// For each host, where there are Cores: cells of its own that have been delivered in other
    /// pods, as Cores say.
    delivered: Vec<CellRuns>,
    /// For each member: the first window in which a receipt, a grant or delivered cells leave for
    /// it; [`OWED`] for the next window, [`NEVER`] for none. Standings are apart.
    due: Vec<u64>,
    /// For each member: the decision that its last request counts in, in whatever term.
    asked_for: Vec<u64>,
    /// Members that have not asked in this term, all to be notified of it until its fence.
    unaware: Vec<bool>,
    /// Answers that wait for their instant.
    answers: Answers,
    /// How late requests come, where clocks of hosts may be off.
    lateness: Option<Lateness>,
}

const NEVER: u64 = u64::MAX;
/// The window of an answer that leaves with the next ones.
const OWED: u64 = 0;
/// Requests of a host that wait at most: it sends one an epoch, and each waits for a few epochs.
const REQUESTS_MAX: u8 = 16;

impl Registered for PodScheduler {
    const ABOUT: &'static str =
        "grants hosts of a pod slots and routes without collisions, Zeropod";
    type Params = NoParams;
}

impl SwitchProgram for PodScheduler {
    fn build(_settings: &ProgramSettings, setup: &ProgramSetup<'_>) -> Self {
        Self { address: setup.address, pod: Pod::new(setup).map(Box::new) }
    }
}

impl Pod {
    /// The scheduler of the pod whose switches the links lead to; `None` when its settings do not
    /// fit.
    fn new(setup: &ProgramSetup<'_>) -> Option<Self> {
        let params = &setup.sched.zeropod;
        let members = Members::of(setup, params)?;
        let timing = timing(params, setup.links.first()?);
        let settings = settings::settings(params, &timing)?;
        let seed = setup.rng.fork("pod", 0).next_u64();
        let terms = Terms::of(setup, &timing);
        let mut pod = Self::of(members, (timing, terms), settings, (params, seed))?;
        pod.answer_always(0);
        pod.greet();
        Some(pod)
    }

    /// The scheduler of these members; `None` when its settings do not fit.
    fn of(
        members: Members,
        (timing, terms): (Timing, Terms),
        settings: scheduler::Settings,
        (params, seed): (&ZeropodParams, u64),
    ) -> Option<Self> {
        let scheduler = PodDecider::new(members.shape, settings, seed).ok()?;
        let count = members.count();
        let has_cores = count > members.hosts();
        let runs = CellRuns::new(has_cores);
        let lateness = params.follow.then(|| Lateness::new(members.hosts(), timing.epoch));
        let opens = if has_cores { timing.core_answers_at } else { timing.answers_at };
        Some(Self {
            members,
            timing,
            slack: 0,
            opens,
            opens_after: opens.as_ps() / timing.epoch.as_ps(),
            looked_at: (0, Instant::ZERO),
            terms,
            scheduler,
            requests: Requests::new(count * usize::from(REQUESTS_MAX)),
            waiting: vec![0; count],
            decided: None,
            next: NEVER,
            windows: VecDeque::with_capacity(64),
            busy_at: Instant::ZERO,
            receipts: (0..count).map(|_| Receipts::new()).collect(),
            ask_every: params.ask_every.into(),
            standings: VecDeque::with_capacity(count),
            grants: vec![DueGrants::NONE; count],
            delivered: vec![runs; if has_cores { members.hosts() } else { 0 }],
            due: vec![NEVER; count],
            asked_for: vec![0; count],
            unaware: vec![false; count],
            answers: Answers::new(&members, &timing),
            lateness,
        })
    }

    /// Handles a request that has arrived. `read` reads it into the place where it will wait, and
    /// returns false for a packet that is no request. A request waits for its decision, so it makes
    /// no difference when it leaves within its epoch. The number of waiting requests of each host
    /// is bounded, and none waits for an epoch that is far away, so that no host takes the place of
    /// another.
    #[inline]
    fn take(
        &mut self,
        member: u16,
        read: impl FnOnce(&mut Asked) -> bool,
        now: Instant,
    ) -> Result<(), Refused> {
        if !self.requests.read(member, read) {
            return Err(Refused::Malformed);
        }
        let own = self.epoch_at(now);
        let Rts { term, epoch, clock, .. } = *self.requests.last_read();
        let epoch = full(epoch, own);
        if epoch > own + self.slack {
            return Err(Refused::FutureEpoch);
        }
        if own.saturating_sub(epoch) > self.timing.lead + self.slack {
            return Err(Refused::PastEpoch);
        }
        let waiting = self.waiting.get_mut(usize::from(member)).ok_or(Refused::UnknownSender)?;
        if *waiting >= REQUESTS_MAX {
            return Err(Refused::TooManyWaiting);
        }
        let (term, counts_in) = (term.into(), epoch + self.timing.to_decision);
        let asked_for = &mut self.asked_for[usize::from(member)];
        let silence = counts_in.saturating_sub(*asked_for);
        *asked_for = counts_in.max(*asked_for);
        match self.terms.on_request(term, self.scheduler.term(), (counts_in, own), silence)? {
            TermStep::Goes => {}
            TermStep::Begins(term) => self.begin_term(term, own),
            TermStep::Ends => {
                self.stop();
                return Ok(());
            }
        }
        self.note_lateness(member, clock, (epoch, now));
        self.waiting[usize::from(member)] += 1;
        // One that comes too late for its decision counts in the next one.
        let decision = counts_in.max(own + 1);
        let first = self.decided.map_or(0, |decided| decided + 1);
        self.next = self.next.min(decision).max(first);
        self.busy_at = Instant::ZERO;
        self.requests.keep(epoch);
        Ok(())
    }

    /// The epoch of `now`: usually that of the last call, or the next one.
    #[inline]
    fn epoch_at(&mut self, now: Instant) -> u64 {
        let (epoch, start) = self.looked_at;
        if now < start || now >= start + self.timing.epoch {
            let epoch = self.timing.epoch_at(now);
            self.looked_at = (epoch, self.timing.start(epoch));
            return epoch;
        }
        epoch
    }

    /// When the next decision is made; [`Instant::FAR_FUTURE`] while there is nothing to decide.
    #[inline]
    fn decision_at(&self) -> Instant {
        if self.next == NEVER { Instant::FAR_FUTURE } else { self.timing.start(self.next) }
    }

    /// When the answers of the next window are known.
    #[inline]
    fn window_at(&self) -> Instant {
        let start = |window: &u64| self.timing.start(*window) + self.opens;
        self.windows.front().map_or(Instant::FAR_FUTURE, start)
    }

    #[inline]
    fn poll_at(&self) -> Instant {
        let next = self.decision_at().min(self.window_at()).min(self.answers.next_at());
        next.min(self.terms.wakes_at())
    }

    /// Makes the decision that is due.
    fn decide(&mut self) {
        let decision = self.next;
        // Bounded by the requests of a few epochs, which are in the order of these.
        let to_decision = self.timing.to_decision;
        let mut requests = mem::take(&mut self.requests);
        let is_due = |request: &&Waiting| request.epoch + to_decision <= decision;
        let mut due = 0;
        for Waiting { member, asked, .. } in requests.waiting().iter().take_while(is_due) {
            due += 1;
            if let Some((to, _)) = asked.rts.update {
                self.scheduler.expect(self.members.client(*member), demand(to));
            }
        }
        for Waiting { epoch, member, asked } in requests.waiting().iter().take(due) {
            self.waiting[usize::from(*member)] -= 1;
            self.handle(*epoch, *member, asked, decision);
        }
        requests.end(due);
        self.requests = requests;
        let before = self.scheduler.counters().grants;
        self.decided = Some(decision);
        if self.scheduler.demands().open() > 0 && self.terms.is_cut_off(decision) {
            self.stop();
            return;
        }
        if self.is_busy(decision) {
            self.scheduler.decide(decision);
        }
        if self.scheduler.counters().grants > before {
            self.open_window(decision + self.timing.to_answers);
        }
        let asked =
            self.requests.waiting().first().map(|first| first.epoch + self.timing.to_decision);
        self.next = if self.is_busy(decision + 1) {
            decision + 1
        } else {
            asked.map_or(NEVER, |next| next.max(decision + 1))
        };
    }

    /// Whether there is something to decide in epoch `decision`.
    fn is_busy(&self, decision: u64) -> bool {
        self.scheduler.demands().open() > 0 || self.scheduler.has_runs(decision)
    }

    /// Hands a request to the scheduler, and its receipt to the host that sent the cells. A total
    /// that the host repeats is answered by what it has been granted so far.
    fn handle(&mut self, epoch: u64, member: u16, asked: &Asked, decision: u64) {
        let (rts, client) = (&asked.rts, self.members.client(member));
        let update = rts.update.map(|(to, total)| Update { to: demand(to), total });
        let mut mice = [scheduler::Mouse { to: To::Host(0), bytes: 0 }; MICE_MAX as usize];
        // Most requests of a loaded pod name none.
        if !rts.mice().is_empty() {
            copy_mice(rts.mice(), &mut mice);
        }
        let reported = epoch.checked_sub(self.timing.to_receipt).filter(|_| rts.arrived != 0);
        let arrived = reported.filter(|_| rts.arrived_in & 1 == 1);
        let request = scheduler::Rts {
            from: client,
            pod: self.members.pod(),
            // A host that has had no answer yet has no term to name.
            term: if rts.term == 0 { self.scheduler.term() } else { rts.term.into() },
            epoch,
            updates: update.as_slice(),
            mice: &mice[..rts.mice().len()],
            paused: asked.paused,
            arrived,
            lost: epoch.checked_sub(self.timing.to_lost).filter(|_| rts.lost),
        };
        let window = self.window_of(decision);
        let counts = self.scheduler.handle_rts(&request, decision);
        // A host that was not notified of the term is notified now.
        if u32::from(rts.term) == self.scheduler.term() {
            self.unaware[usize::from(member)] = false;
        }
        let unheard = rts.term != 0 && u32::from(rts.term) < self.scheduler.term();
        if self.terms.guarded || (!counts && unheard) {
            self.owe(usize::from(member));
            self.open_window(window);
        }
        if !counts {
            return;
        }
        if let Some((to, total)) = self.scheduler.take_standing(client) {
            let window = decision + self.to_answers(client);
            // Answers to Cores take longer than answers to hosts.
            let at = self.standings.partition_point(|(due, ..)| *due <= window);
            self.standings.insert(at, (window, member, (demand_end(to), total)));
            self.open_window(window);
        }
        if let Some(sender) = self.scheduler.take_reported(client)
            && let Some(sent_in) = arrived
        {
            self.pass_on((sender, sent_in, rts.arrived), decision);
        }
        // Bounded by the bits.
        let mut earlier = if reported.is_some() { rts.arrived_in & !1 } else { 0 };
        while let Some(sent_in) = reported.filter(|_| earlier != 0) {
            let sent_in = sent_in.saturating_sub(earlier.trailing_zeros().into());
            earlier &= earlier - 1;
            if let Some(sender) = self.scheduler.handle_report(client, sent_in, decision) {
                self.pass_on((sender, sent_in, rts.arrived), decision);
            }
        }
        if let Some((host, delivered)) = asked.delivered {
            self.note_delivered(host, delivered);
            self.open_window(window);
        }
    }

    /// The first window that begins no earlier than an epoch.
    #[inline]
    const fn window_of(&self, epoch: u64) -> u64 {
        epoch.saturating_sub(self.opens_after)
    }

    /// Epochs from a decision to the window of its answer to a member.
    #[inline]
    const fn to_answers(&self, client: Client) -> u64 {
        match client {
            Client::Host(_) => self.timing.to_answers,
            Client::Core(_) => self.timing.to_core_answers,
        }
    }

    /// A Core says that cells of a host have been delivered.
    fn note_delivered(&mut self, host: u16, delivered: Delivered) {
        let refused = match self.delivered.get_mut(usize::from(host)) {
            None => Some(Refused::UnknownSender),
            Some(runs) => {
                let is_full = !runs.add(delivered);
                self.owe(usize::from(host));
                is_full.then_some(Refused::TooManyWaiting)
            }
        };
        if let Some(why) = refused {
            self.scheduler.refuse(why);
        }
    }

    /// Answers leave between the cells of `window`.
    #[inline]
    fn open_window(&mut self, window: u64) {
        // As a rule another member has opened it.
        if self.windows.back() == Some(&window) || self.windows.front() == Some(&window) {
            return;
        }
        let at = self.windows.partition_point(|other| *other < window);
        if self.windows.get(at) != Some(&window) {
            self.windows.insert(at, window);
            self.busy_at = Instant::ZERO;
        }
    }
}

/// The epoch near `own` that is `epoch` modulo 2^32.
#[inline]
const fn full(epoch: u32, own: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
    let ahead = epoch.wrapping_sub(own as u32).cast_signed();
    own.saturating_add_signed(ahead as i64)
}

/// Copies the mice of a request into the first places of `mice`.
fn copy_mice(from: &[Mouse], mice: &mut [scheduler::Mouse]) {
    for (place, mouse) in mice.iter_mut().zip(from) {
        *place = scheduler::Mouse { to: demand(mouse.to), bytes: Mouse::bytes(mouse.size) };
    }
}

#[inline]
const fn demand(to: DemandEnd) -> To {
    match to {
        DemandEnd::Host(host) => To::Host(host),
        DemandEnd::Pod(pod) => To::Pod(pod),
    }
}

#[inline]
const fn demand_end(to: To) -> DemandEnd {
    match to {
        To::Host(host) => DemandEnd::Host(host),
        To::Pod(pod) => DemandEnd::Pod(pod),
    }
}

impl PodScheduler {
    /// What this scheduler has counted.
    #[must_use]
    pub fn counters(&self) -> PodCounters {
        self.pod.as_ref().map(|pod| pod.counters()).unwrap_or_default()
    }

    /// The request in a packet that came by `from`, and the member that sent it. A member's packets
    /// have its address and come by its switch; a request in the name of another one is refused.
    fn request(
        &self,
        packet: &Packet,
        from: PortId,
        cx: &Context<'_>,
    ) -> Result<(u16, Asked), Refused> {
        let header = cx.header(packet).ok_or(Refused::Malformed)?;
        let Body::Note(note) = header.body else { return Err(Refused::Malformed) };
        let Some(members) = self.pod.as_ref().map(|pod| pod.members) else {
            return Err(Refused::UnknownSender);
        };
        let (member, of_core) = (header.ev.0, CoreRts::of(&note));
        let asked = of_core.as_ref().map(Asked::of_core).or(Rts::of(&note).map(Asked::of_host));
        let asked = asked.ok_or(Refused::Malformed)?;
        let client = members.client(member);
        let is_core = matches!(client, Client::Core(_));
        let by_its_switch = members.port(client) == from;
        let is_known = usize::from(member) < members.count();
        let is_its = cx.sender(packet) == Some(members.address(client));
        if !is_known || !by_its_switch || !is_its || is_core != of_core.is_some() {
            return Err(Refused::ForgedSender);
        }
        Ok((member, asked))
    }

    fn send(&self, (member, note): (u16, Note), yields: bool, pod: &Pod, cx: &mut Context<'_>) {
        let (members, client) = (&pod.members, pod.members.client(member));
        let hdr = Header::new(EntropyValue(0), FlowId::UNKNOWN, Body::Note(note));
        let segment = TxSegment { hdr, payload: PayloadRef::NONE, peer: members.address(client) };
        if let Some(packet) = cx.make(&segment, &Ext::VACANT, self.address) {
            let packet = if yields { packet.yielding() } else { packet };
            cx.send(members.port(client), packet);
        }
    }
}

impl Program for PodScheduler {
    fn on_arrival(&mut self, packet: Packet, from: PortId, now: Instant, cx: &mut Context<'_>) {
        if packet.dst != self.address {
            match cx.route(&packet) {
                Some(port) => {
                    cx.send(port, packet);
                }
                None => cx.drop_at(from, packet, DropReason::NoRoute),
            }
            return;
        }
        if let Some(pod) = &mut self.pod {
            pod.pass_outages(now);
            if pod.terms.is_down(now) {
                cx.drop_at(from, packet, DropReason::LinkDown);
                return;
            }
        }
        let request = self.request(&packet, from, cx);
        if let Some(pod) = &mut self.pod
            && let Err(why) = request.and_then(|(member, asked)| {
                let read = |place: &mut Asked| {
                    *place = asked;
                    true
                };
                pod.take(member, read, now)
            })
        {
            pod.scheduler.refuse(why);
        }
        cx.consume(packet);
    }

    #[inline]
    fn poll_at(&self) -> Instant {
        self.pod.as_ref().map_or(Instant::FAR_FUTURE, |pod| pod.poll_at())
    }

    fn on_time(&mut self, now: Instant, cx: &mut Context<'_>) {
        let Some(mut pod) = self.pod.take() else { return };
        pod.pass_outages(now);
        pod.return_alone(now);
        while let Some(answer) = pod.next_answer(now).copied() {
            self.send((answer.member, answer.note), answer.yields, &pod, cx);
        }
        self.pod = Some(pod);
    }

    fn is_end(&self) -> bool {
        true
    }
}
