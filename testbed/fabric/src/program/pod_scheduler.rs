//! The scheduler of a pod: takes requests of hosts, decides every epoch which host sends to which
//! other by which route, and sends the answers so that they slip in between the cells of others.
//!
//! Source: \[zeropod\] III-B2, IV-A, IV-C. The decision itself is the crate `transport-pod`; this
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
//! A host with nothing to say sends no request and gets no answer, and no decision is made while
//! there is no demand: an idle pod costs nothing. The slots for these packets stay empty.

use std::collections::VecDeque;

use transport::params::NoParams;
use transport::registry::Registered;
use transport::sched::zeropod::timing::{Terms, Timing};
use transport::sched::zeropod::{Classes, Kernel, Matcher, ZeropodParams};
use transport::wire::pod::{Grant, Mouse, Place, Rts, Schd};
use transport::wire::{Body, Ext, Header};
use transport::{DropReason, EntropyValue, FlowId, HostId, Instant, PayloadRef, TxSegment};
use transport_pod::matcher::{MatcherKind, Setup as MatcherSetup};
use transport_pod::scheduler::{self, Answer, Client, Receipt, Refused, Update};
use transport_pod::{Ladder, Scheduler, Shape, To};

use super::{Context, Program, ProgramSettings, Setup, SwitchProgram};
use crate::elements::{Node, PortId};
use crate::packet::Packet;
use crate::qdisc::Queued;

/// The scheduler of one pod.
#[derive(Clone, Debug)]
pub struct PodScheduler {
    address: HostId,
    first_port: u32,
    /// The first host of the pod.
    first_host: u32,
    /// `None` where the switch is no pod's scheduler: it consumes what it gets.
    pod: Option<Box<Pod>>,
}

/// The state of a pod's scheduler.
#[derive(Clone, Debug)]
struct Pod {
    timing: Timing,
    scheduler: Scheduler,
    per_tor: u16,
    /// Requests that wait for their decision, by the epoch in which they left.
    requests: VecDeque<(u64, u16, Rts)>,
    /// For each host: its requests among those.
    waiting: Vec<u8>,
    /// The last decision made.
    decided: Option<u64>,
    /// The next one to be made; [`NEVER`] while there is nothing to decide.
    next: u64,
    /// Epochs between whose cells answers slip in, ascending.
    windows: VecDeque<u64>,
    /// For each host: the epoch of cells of its own, and which of them arrived.
    receipts: Vec<Option<(u32, u32)>>,
    /// Demands whose totals hosts repeated, with the bytes granted to them, by the window in which
    /// this is answered: behind all grants that are among those bytes.
    standings: VecDeque<(u64, u16, (Place, u32))>,
    /// For each host: its grant of the window at work.
    grants: Vec<Option<Grant>>,
    /// Answers that wait for their instant, ascending.
    answers: VecDeque<(Instant, u16, Schd)>,
}

const NEVER: u64 = u64::MAX;

/// Requests of a host that wait at most: it sends one an epoch, and each waits for a few epochs.
const REQUESTS_MAX: u8 = 16;

/// What the schedulers of pods have counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PodCounters {
    /// Decisions made while some demand was open.
    pub epochs: u64,
    /// Grants of all decisions.
    pub grants: u64,
    /// Hosts that could have been granted something in these decisions, whether they asked or not.
    pub chances: u64,
    /// Requests, or parts of some, that made no sense, in the order of [`Refused::ALL`].
    refused: [u64; Refused::ALL.len()],
    /// The term, the highest of all.
    pub term: u32,
}

impl PodCounters {
    /// The sums of these counters and those of other pods.
    #[must_use]
    pub const fn with(mut self, other: &Self) -> Self {
        self.epochs += other.epochs;
        self.grants += other.grants;
        self.chances += other.chances;
        let mut reason = 0;
        while reason < self.refused.len() {
            self.refused[reason] += other.refused[reason];
            reason += 1;
        }
        if other.term > self.term {
            self.term = other.term;
        }
        self
    }
}

impl PodCounters {
    /// The requests, or parts of some, that made no sense, by reason.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Refused::ALL.iter().map(|reason| reason.name()).zip(self.refused)
    }
}

impl Registered for PodScheduler {
    const ABOUT: &'static str =
        "grants hosts of a pod slots and routes without collisions, Zeropod";
    type Params = NoParams;
}

impl SwitchProgram for PodScheduler {
    fn build(_settings: &ProgramSettings, setup: &Setup<'_>) -> Self {
        let tors = setup.links.iter().filter_map(|link| match link.port.to {
            Node::Switch(switch) => setup.switches.get(switch as usize),
            Node::Host(_) => None,
        });
        let tors: Vec<_> = tors.filter(|switch| switch.child_hosts == 1).collect();
        let first_host = tors.iter().map(|tor| tor.first_host).min().unwrap_or(0);
        let hosts = tors.iter().map(|tor| tor.hosts).sum::<u32>();
        let per_tor = tors.iter().map(|tor| tor.hosts).max().unwrap_or(0);
        let aggs = setup.links.len() - tors.len();
        let shape = Shape::new(hosts as usize, per_tor as usize, aggs).ok();
        Self {
            address: setup.address,
            first_port: setup.first_port.0,
            first_host,
            pod: shape.and_then(|shape| Pod::new(shape, setup)).map(Box::new),
        }
    }
}

impl Pod {
    /// The scheduler of a pod of `shape`; `None` when its settings do not fit.
    fn new(shape: Shape, setup: &Setup<'_>) -> Option<Self> {
        let params = &setup.sched.zeropod;
        let link = setup.links.first()?.port;
        let timing = Timing::new(&Terms {
            cell: link.params.packet_max,
            control: link.params.sizes.probe,
            rate: link.rate,
            hop: link.delay,
            cells: params.cells,
            guard: params.guard,
            delay: params.delay,
        });
        let settings = settings(params, &timing)?;
        let seed = setup.rng.fork("pod", 0).next_u64();
        let scheduler = Scheduler::new(shape, settings, seed).ok()?;
        Some(Self {
            timing,
            scheduler,
            per_tor: u16::try_from(shape.per_tor()).ok()?,
            requests: VecDeque::with_capacity(shape.hosts() * usize::from(REQUESTS_MAX)),
            waiting: vec![0; shape.hosts()],
            decided: None,
            next: NEVER,
            windows: VecDeque::with_capacity(64),
            receipts: vec![None; shape.hosts()],
            standings: VecDeque::with_capacity(shape.hosts()),
            grants: vec![None; shape.hosts()],
            answers: VecDeque::with_capacity(shape.hosts()),
        })
    }

    /// The epoch near the one at `now` that is `epoch` modulo 2^32.
    fn full(&self, epoch: u32, now: Instant) -> u64 {
        let own = self.timing.epoch_at(now);
        #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
        let ahead = epoch.wrapping_sub(own as u32).cast_signed();
        own.saturating_add_signed(ahead.into())
    }

    /// A request has arrived. It waits for its decision, so that how late it leaves within its
    /// epoch changes nothing. A host's own requests bound what waits, and none waits for an epoch
    /// that is far away, so that no host takes the place of another.
    fn take(&mut self, host: u16, rts: Rts, now: Instant) -> Result<(), Refused> {
        let (epoch, own) = (self.full(rts.epoch, now), self.timing.epoch_at(now));
        if epoch > own {
            return Err(Refused::FutureEpoch);
        }
        if own - epoch > self.timing.lead {
            return Err(Refused::PastEpoch);
        }
        let waiting = self.waiting.get_mut(usize::from(host)).ok_or(Refused::UnknownSender)?;
        if *waiting >= REQUESTS_MAX {
            return Err(Refused::TooManyWaiting);
        }
        *waiting += 1;
        // One that comes too late for its decision counts in the next one.
        let decision = (epoch + self.timing.to_decision).max(self.timing.epoch_at(now) + 1);
        let first = self.decided.map_or(0, |decided| decided + 1);
        self.next = self.next.min(decision).max(first);
        let behind = self.requests.partition_point(|(other, ..)| *other <= epoch);
        self.requests.insert(behind, (epoch, host, rts));
        Ok(())
    }

    /// When the next decision is made; [`Instant::FAR_FUTURE`] while there is nothing to decide.
    fn decision_at(&self) -> Instant {
        if self.next == NEVER { Instant::FAR_FUTURE } else { self.timing.start(self.next) }
    }

    /// When the answers of the next window are known.
    fn window_at(&self) -> Instant {
        let start = |window: &u64| self.timing.start(*window) + self.timing.answers_at;
        self.windows.front().map_or(Instant::FAR_FUTURE, start)
    }

    fn answer_at(&self) -> Instant {
        self.answers.front().map_or(Instant::FAR_FUTURE, |(at, ..)| *at)
    }

    /// Makes the decision that is due.
    fn decide(&mut self) {
        let decision = self.next;
        // Bounded by the requests of a few epochs.
        while let Some((epoch, host, rts)) = self.requests.front().copied()
            && epoch + self.timing.to_decision <= decision
        {
            self.requests.pop_front();
            self.waiting[usize::from(host)] -= 1;
            self.handle(epoch, host, &rts, decision);
        }
        let before = self.scheduler.counters().grants;
        if self.scheduler.demands().open() > 0 {
            self.scheduler.decide(decision);
        }
        self.decided = Some(decision);
        if self.scheduler.counters().grants > before {
            self.open_window(decision + self.timing.to_answers);
        }
        let asked = self.requests.front().map(|(epoch, ..)| epoch + self.timing.to_decision);
        self.next = if self.scheduler.demands().open() > 0 {
            decision + 1
        } else {
            asked.map_or(NEVER, |next| next.max(decision + 1))
        };
    }

    /// Hands a request to the scheduler, and its receipt to the host that sent the cells. A total
    /// that the host repeats is answered by what it has been granted so far.
    fn handle(&mut self, epoch: u64, host: u16, rts: &Rts, decision: u64) {
        let update = rts.update.map(|(to, total)| Update { to: demand(to), total });
        let mut mice = [scheduler::Mouse { to: To::Host(0), bytes: 0 }; scheduler::MICE];
        for (place, mouse) in mice.iter_mut().zip(rts.mice()) {
            *place = scheduler::Mouse { to: demand(mouse.to), bytes: Mouse::bytes(mouse.size) };
        }
        let sent_in = epoch.checked_sub(self.timing.to_receipt);
        let arrived = sent_in.filter(|_| rts.arrived != 0);
        let request = scheduler::Rts {
            from: Client::Host(host),
            pod: 0,
            // A host that has had no answer yet has no term to name.
            term: if rts.term == 0 { self.scheduler.term() } else { rts.term.into() },
            epoch,
            updates: update.as_slice(),
            mice: &mice[..rts.mice().len()],
            paused: 0,
            receipt: arrived.map(|epoch| Receipt { epoch, arrived: true }),
        };
        if !self.scheduler.handle_rts(&request, decision) {
            return;
        }
        // The first window that begins no earlier than the decision.
        let ahead = self.timing.answers_at.as_ps() / self.timing.epoch.as_ps();
        let window = decision.saturating_sub(ahead);
        if let Some((to, total)) = self.scheduler.take_standing(Client::Host(host)) {
            let window = decision + self.timing.to_answers;
            self.standings.push_back((window, host, (place(to), total)));
            self.open_window(window);
        }
        let sender = arrived.and_then(|sent_in| {
            let sender = self.scheduler.sender_to(Client::Host(host), sent_in)?;
            Some((sender, sent_in))
        });
        if let Some((Client::Host(sender), sent_in)) = sender {
            #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
            let sent_in = sent_in as u32;
            self.receipts[usize::from(sender)] = Some((sent_in, rts.arrived));
            self.open_window(window);
        }
    }

    /// The standing that `host` is given in `window`.
    fn standing(&self, window: u64, host: u16) -> Option<(Place, u32)> {
        let due = self.standings.iter().take_while(|(due, ..)| *due <= window);
        due.filter(|(_, to, _)| *to == host).map(|(.., standing)| *standing).next()
    }

    /// Answers leave between the cells of `window`.
    fn open_window(&mut self, window: u64) {
        let at = self.windows.partition_point(|other| *other < window);
        if self.windows.get(at) != Some(&window) {
            self.windows.insert(at, window);
        }
    }

    /// Places the answers of the window that is due.
    //= zeropod#IV-C
    fn place_answers(&mut self) {
        let Some(window) = self.windows.pop_front() else { return };
        while let Some(answer) = self.scheduler.poll_answer(window) {
            if let Client::Host(host) = answer.client {
                self.grants[usize::from(host)] = grant(&answer);
            }
        }
        let start = self.timing.start(window) + self.timing.answers_at;
        let term = u16::try_from(self.scheduler.term()).unwrap_or(u16::MAX);
        for (number, host) in (0_u16..).zip(0..self.grants.len()) {
            let (grant, receipt) = (self.grants[host].take(), self.receipts[host].take());
            let standing = self.standing(window, number);
            if grant.is_none() && receipt.is_none() && standing.is_none() {
                continue;
            }
            let peer = match self.scheduler.sender_to(Client::Host(number), window) {
                Some(Client::Host(sender)) => Some(sender % self.per_tor),
                Some(Client::Core(_)) | None => None,
            };
            let at = start + self.timing.answer_at(number % self.per_tor, peer);
            self.answers.push_back((at, number, Schd { term, grant, receipt, standing }));
        }
        while self.standings.front().is_some_and(|(due, ..)| *due <= window) {
            self.standings.pop_front();
        }
        self.answers.make_contiguous().sort_by_key(|(at, host, _)| (*at, *host));
    }
}

/// The settings of the decision.
fn settings(params: &ZeropodParams, timing: &Timing) -> Option<scheduler::Settings> {
    let matcher = match params.matcher {
        Matcher::Iterative => MatcherKind::Iterative,
        Matcher::Greedy => MatcherKind::Greedy,
        Matcher::Exact => MatcherKind::Exact,
    };
    let kernel = match params.kernel {
        Kernel::Auto => transport_pod::Kernel::best(),
        Kernel::Scalar => transport_pod::Kernel::Scalar,
        Kernel::Avx2 => transport_pod::Kernel::Avx2,
        Kernel::Avx512 => transport_pod::Kernel::Avx512,
    };
    let ladder = match params.classes {
        Classes::One => Ladder::One,
        Classes::Pias => Ladder::Pias,
        Classes::Mice => Ladder::Mice,
        Classes::Sizes => Ladder::Sizes,
    };
    let payload = u32::from(params.cell);
    Some(scheduler::Settings {
        matcher,
        setup: MatcherSetup { kernel, iterations: params.iterations.into() },
        ladder,
        cell: payload,
        cells: params.cells,
        lead: timing.lead,
        delay: timing.to_answers,
        fair_every: params.fair_every.into(),
        backlog: BACKLOG_MAX.checked_div(payload)? * payload,
        silent_after: 0,
        judge_after: timing.to_receipt + timing.to_decision + JUDGED_LATER,
        ..scheduler::Settings::default()
    })
}

/// Bytes of one demand that wait at most: what a total can raise at once.
const BACKLOG_MAX: u32 = (1 << 31) - 1;

/// Epochs after which the receipts of an epoch are judged, beyond those that they take.
const JUDGED_LATER: u64 = 4;

const fn demand(to: Place) -> To {
    match to {
        Place::Host(host) => To::Host(host),
        Place::Pod(pod) => To::Pod(pod),
    }
}

const fn place(to: To) -> Place {
    match to {
        To::Host(host) => Place::Host(host),
        To::Pod(pod) => Place::Pod(pod),
    }
}

/// The grant of an answer; `None` for one that a packet cannot carry.
fn grant(answer: &Answer) -> Option<Grant> {
    let to = place(answer.to);
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
    let epoch = answer.epoch as u32;
    let cells = u8::try_from(answer.cells).ok()?;
    let (agg, total, mice_only) = (answer.agg, answer.total, answer.mice_only);
    Some(Grant { epoch, to, agg, layer: None, cells, total, mice_only })
}

impl PodScheduler {
    /// What this scheduler has counted.
    #[must_use]
    pub fn counters(&self) -> PodCounters {
        let Some(pod) = &self.pod else { return PodCounters::default() };
        let counters = pod.scheduler.counters();
        let hosts = pod.grants.len() as u64;
        PodCounters {
            epochs: counters.epochs,
            grants: counters.grants,
            chances: counters.epochs * hosts,
            refused: core::array::from_fn(|reason| counters.refused(Refused::ALL[reason])),
            term: pod.scheduler.term(),
        }
    }

    /// The request in a packet that came by `from`, and the host that sent it. A host's packets
    /// have its address and come by its ToR; a request in the name of another host is refused.
    fn request(
        &self,
        packet: &Packet,
        from: PortId,
        cx: &Context<'_>,
    ) -> Result<(u16, Rts), Refused> {
        let header = cx.header(packet).ok_or(Refused::Malformed)?;
        let Body::Note(note) = header.body else { return Err(Refused::Malformed) };
        let (host, rts) = (header.ev.0, Rts::of(&note).ok_or(Refused::Malformed)?);
        let per_tor = self.pod.as_ref().map_or(1, |pod| pod.per_tor);
        let address = HostId(self.first_host + u32::from(host));
        let by_its_tor = u32::from(host / per_tor) == from.0 - self.first_port;
        if !by_its_tor || cx.sender(packet) != Some(address) {
            return Err(Refused::ForgedSender);
        }
        Ok((host, rts))
    }

    fn send(&self, host: u16, schd: &Schd, per_tor: u16, cx: &mut Context<'_>) {
        let hdr = Header::new(EntropyValue(0), FlowId::UNKNOWN, Body::Note(schd.note()));
        let peer = HostId(self.first_host + u32::from(host));
        let segment = TxSegment { hdr, payload: PayloadRef::NONE, peer };
        if let Some(packet) = cx.make(&segment, &Ext::VACANT, self.address) {
            cx.send(PortId(self.first_port + u32::from(host / per_tor)), packet);
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
        let request = self.request(&packet, from, cx);
        if let Some(pod) = &mut self.pod
            && let Err(why) = request.and_then(|(host, rts)| pod.take(host, rts, now))
        {
            pod.scheduler.refuse(why);
        }
        cx.consume(packet);
    }

    fn on_departure(&mut self, _: &mut Packet, _: PortId, _: Instant, _: &mut Context<'_>) {}

    fn poll_at(&self) -> Instant {
        let Some(pod) = &self.pod else { return Instant::FAR_FUTURE };
        pod.decision_at().min(pod.window_at()).min(pod.answer_at())
    }

    fn on_time(&mut self, now: Instant, cx: &mut Context<'_>) {
        let Some(mut pod) = self.pod.take() else { return };
        // Bounded: each turn makes a decision, ends a window or sends an answer.
        loop {
            let (decision, window, answer) = (pod.decision_at(), pod.window_at(), pod.answer_at());
            if decision.min(window).min(answer) > now {
                break;
            }
            if decision <= window && decision <= answer {
                pod.decide();
            } else if window <= answer {
                pod.place_answers();
            } else if let Some((_, host, schd)) = pod.answers.pop_front() {
                self.send(host, &schd, pod.per_tor, cx);
            }
        }
        self.pod = Some(pod);
    }

    fn held(&self) -> Queued {
        Queued::default()
    }

    fn is_end(&self) -> bool {
        true
    }
}
