//! The pod scheduler: requests in, one decision an epoch, answers out.
//! Source: \[zeropod\] IV-A, IV-B1, IV-E.
//!
//! ```text
//!  handle_rts --> demands --> decide(epoch) --> history --> poll_answer(epoch + delay)
//!                    ^          |    ^             |
//!                    +- grants -+    +--- links <--+-- receipts of epoch + lead
//! ```
//!
//! Epochs are numbers that the driver counts. The decision of epoch e is about epoch e + `lead` and
//! leaves from epoch e + `delay` on, so as many decisions are on their way as the delay has epochs.
//! A decision takes its grants off the demands at once: the next decision gets what is left.
//!
//! Nothing that a client sends can take away grants of another client, or stop the scheduler; a
//! request that makes no sense is counted by name ([`Refused`]) and changes nothing.

mod history;
mod intake;
mod links;
mod messages;
mod runs;
mod turns;
mod waits;

use core::fmt;

pub use links::PodLink;
pub use messages::{Answer, Client, Counters, Mouse, Refused, Rts, Update};
pub use waits::{DemandFate, DemandLog, FateSpan};

use crate::pod::chance::Chance;
use crate::pod::demands::{Demands, To};
use crate::pod::ladder::Ladder;
use crate::pod::matcher::{Match, Matcher, MatcherKind, MatcherSetup};
use crate::pod::ports::{Grant, IdlePorts};
use crate::pod::shape::{LAYERS, OutOfRange, PODS, Shape};

use history::History;
use links::Links;
use runs::{Runs, settle};
use turns::Turns;

/// Mice of a request at most.
pub const MICE: usize = 32;
/// Updates of a request at most.
pub const UPDATES: usize = 1024;

/// Epochs of a run at most.
pub const RUN_MAX: u16 = 8;

/// The term of a scheduler that no other one preceded.
const FIRST_TERM: u32 = 1;

/// Epochs without a request of a Core for which its pauses hold: longer than a request takes.
const PAUSE_KEPT: u64 = 32;

/// How a scheduler works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The matcher.
    pub matcher: MatcherKind,
    /// The matcher's kernel and iterations; 1 to 255 iterations.
    pub setup: MatcherSetup,
    /// How sizes become classes of priority.
    pub ladder: Ladder,
    /// Payload bytes of a data cell, 1 to 9000.
    pub cell: u32,
    /// Data cells of an epoch, 1 to 1024.
    pub cells: u16,
    /// Epochs from a decision to the epoch for which it decides, 1 to 4096.
    pub lead: u64,
    /// Epochs from a decision until its answers leave, 0 to `lead`.
    pub delay: u64,
    /// Decisions among which one goes round the demands and one by age, instead of size; 0: none
    /// does.
    pub fair_every: u32,
    /// Bytes of one demand that may wait at most, at least a cell.
    pub backlog: u32,
    /// Epochs without a request after which a client neither sends nor receives; 0: no such limit.
    /// In the first term each client counts as if it had sent a request in epoch `silent_after`, so
    /// that it has time to send one.
    pub silent_after: u64,
    /// Epochs from the first request of a client in a later term to the first epoch for which it
    /// may send or receive. All that another scheduler has granted it is over then. 0 where there
    /// is no other scheduler.
    pub joins_after: u64,
    /// Epochs after which the receipts of an epoch are judged, 1 to 4096.
    pub judge_after: u64,
    /// Epochs in a row of suspicion for which a link is accused, up to 255; 0: none is.
    pub misses: u8,
    /// Epochs after which an accused link is tried again, 1 to 2^32; they double up to 64 times.
    pub retry_after: u64,
    /// Epochs of a superepoch, 1 to [`RUN_MAX`]: a demand that fills what is left of a superepoch
    /// is granted all of it at once.
    pub superepoch: u16,
}

impl Default for Settings {
    /// The paper's single pod; turns by age, which are ours.
    fn default() -> Self {
        Self {
            matcher: MatcherKind::Exact,
            setup: MatcherSetup::default(),
            ladder: Ladder::Sizes,
            cell: 512, //= zeropod#V-A
            cells: 16, //= zeropod#V-A
            lead: 30,
            delay: 21,
            // DEVIATION(zeropod#IV-B1): smallest first alone starves a large demand beside small
            // ones that never end.
            fair_every: 16,
            backlog: 1 << 30,
            silent_after: 3,
            joins_after: 0,
            judge_after: 16,
            misses: 3,
            retry_after: 400,
            superepoch: 1,
        }
    }
}

impl Settings {
    fn check(&self) -> Result<(), OutOfRange> {
        let within = |name, value: u64, min: u64, max: u64| {
            let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
            let error =
                OutOfRange { name, value: number(value), min: number(min), max: number(max) };
            if (min..=max).contains(&value) { Ok(()) } else { Err(error) }
        };
        within("iterations", self.setup.iterations.into(), 1, 255)?;
        within("cell", self.cell.into(), 1, 9000)?;
        within("cells", self.cells.into(), 1, 1024)?;
        within("lead", self.lead, 1, 4096)?;
        within("delay", self.delay, 0, self.lead)?;
        within("backlog", self.backlog.into(), self.cell.into(), (1 << 31) - 1)?;
        within("judge_after", self.judge_after, 1, 4096)?;
        within("retry_after", self.retry_after, 1, 1 << 32)?;
        within("superepoch", self.superepoch.into(), 1, RUN_MAX.into())
    }

    /// Payload bytes of an epoch.
    fn epoch_bytes(&self) -> u32 {
        self.cell * u32::from(self.cells)
    }
}

/// The state of a client.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The epoch of its last request in this term.
    spoke: Option<u64>,
    /// The first epoch for which the client may be granted anything.
    joins: u64,
    /// The demand whose total its last request repeated.
    repeated: Option<To>,
    /// The sender of the cells whose arrival its last request reported.
    reported: Option<u16>,
    /// How many mice its last request reported.
    mice_len: u8,
}

// Every request changes one, so mice are apart: most requests report none.
const _: () = assert!(size_of::<Known>() == 40);

/// The scheduler of one pod. Nothing is allocated after [`PodDecider::new`].
#[derive(Clone)]
pub struct PodDecider {
    shape: Shape,
    settings: Settings,
    demands: Demands,
    matcher: Matcher,
    links: Links,
    history: History,
    chance: Chance,
    clients: Vec<Known>,
    /// For each client: the demands whose mice its last request reported, in the first `mice_len`
    /// places.
    mice: Vec<[To; MICE]>,
    /// For each pod and layer: Cores, by their Agg, that take no more cells for it.
    paused: [[u32; LAYERS]; PODS],
    /// Whether any is.
    pauses: bool,
    grants: Vec<Grant>,
    counters: Counters,
    term: u32,
    /// The first epoch that the term may grant.
    fence: u64,
    /// The next epoch in which a decision is due.
    next: u64,
    turns: Turns,
    runs: Runs,
    /// What decisions did about demands, where a driver asks for it.
    waits: Option<Box<DemandLog>>,
}

impl fmt::Debug for PodDecider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shape, settings, term, next, counters, .. } = self;
        f.debug_struct("PodDecider")
            .field("shape", shape)
            .field("settings", settings)
            .field("term", term)
            .field("next", next)
            .field("counters", counters)
            .finish_non_exhaustive()
    }
}

impl PodDecider {
    /// A scheduler whose first term is 1 and whose first epoch is 0. All chance comes from `seed`.
    ///
    /// # Errors
    /// Settings out of range.
    pub fn new(shape: Shape, settings: Settings, seed: u64) -> Result<Self, OutOfRange> {
        settings.check()?;
        let kept = usize::try_from(settings.lead + settings.judge_after + 1).unwrap_or(usize::MAX);
        let silent = Known { spoke: None, joins: 0, repeated: None, reported: None, mice_len: 0 };
        Ok(Self {
            shape,
            settings,
            demands: Demands::new(shape, settings.ladder),
            matcher: Matcher::new(settings.matcher, &shape, settings.setup),
            links: Links::new(&shape, settings.misses, settings.retry_after),
            history: History::new(&shape, kept),
            chance: Chance::new(seed),
            clients: vec![silent; shape.senders()],
            mice: vec![[To::Host(0); MICE]; shape.senders()],
            paused: [[0; LAYERS]; PODS],
            pauses: false,
            grants: Vec::with_capacity(shape.senders()),
            counters: Counters::default(),
            term: FIRST_TERM,
            fence: 0,
            next: 0,
            turns: Turns::new(&shape),
            runs: Runs::new(&shape, settings.superepoch),
            waits: None,
        })
    }

    /// The term.
    #[inline]
    #[must_use]
    pub const fn term(&self) -> u32 {
        self.term
    }

    /// The first epoch that the term may grant.
    #[inline]
    #[must_use]
    pub const fn fence(&self) -> u64 {
        self.fence
    }

    /// The counters.
    #[inline]
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The matrices.
    #[inline]
    #[must_use]
    pub const fn demands(&self) -> &Demands {
        &self.demands
    }

    /// The sender number of a client of this pod.
    #[inline]
    fn sender(&self, client: Client) -> Option<usize> {
        let (number, first, end) = match client {
            Client::Host(host) => (host, 0, self.shape.hosts()),
            Client::Core(core) => (core, self.shape.hosts(), self.shape.senders()),
        };
        let sender = first + usize::from(number);
        (sender < end).then_some(sender)
    }

    /// The client of a sender number.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "hosts and Cores fit")]
    fn client(&self, sender: u16) -> Client {
        match usize::from(sender).checked_sub(self.shape.hosts()) {
            Some(core) => Client::Core(core as u16),
            None => Client::Host(sender),
        }
    }

    /// A request arrived in epoch `now`; false when none of it counts. Take
    /// [the standing](Self::take_standing) and [the report](Self::take_reported) of its sender
    /// after it.
    pub fn handle_rts(&mut self, rts: &Rts<'_>, now: u64) -> bool {
        let admitted = match self.sender(rts.from) {
            Some(sender) => self.admit(sender, rts, now).map(|()| sender),
            None => Err(Refused::UnknownSender),
        };
        match admitted {
            Ok(sender) => self.admitted(sender, rts, now),
            Err(why) => self.counters.refuse(why),
        }
        admitted.is_ok()
    }

    /// A request of `client` that names the demand for `to` is handled soon: a driver that has
    /// several to handle calls this for all of them before.
    #[inline]
    pub fn expect(&self, client: Client, to: To) {
        if let Some(sender) = self.sender(client) {
            self.demands.prefetch(sender, to);
        }
    }

    /// The driver has refused a packet that did not become a request.
    pub fn refuse(&mut self, why: Refused) {
        self.counters.refuse(why);
    }

    /// The demand whose total the last request of `client` repeated, and the bytes granted to it so
    /// far. A client repeats a total because no answer has come. Its grants may have been lost, and
    /// where nothing is left to be granted, no other answer would report that.
    #[inline]
    pub fn take_standing(&mut self, client: Client) -> Option<(To, u32)> {
        let sender = self.sender(client)?;
        let to = self.clients[sender].repeated.take()?;
        Some((to, self.demands.granted(sender, to)))
    }

    /// The client that has sent the cells whose arrival the last request of `client` reported;
    /// `None` where it reported none, or none that had been granted.
    #[inline]
    pub fn take_reported(&mut self, client: Client) -> Option<Client> {
        let sender = self.sender(client)?;
        let reported = self.clients[sender].reported.take()?;
        Some(self.client(reported))
    }

    /// The client that has sent the cells of `epoch` whose arrival `receiver` reports beside its
    /// last request; `None` where none had been granted, which counts as refused.
    #[inline]
    pub fn handle_report(&mut self, receiver: Client, epoch: u64, now: u64) -> Option<Client> {
        let receiver = self.sender(receiver)?;
        let sender = if epoch > now { None } else { self.history.note_arrived(receiver, epoch) };
        if sender.is_none() {
            self.counters.refuse(Refused::UnknownReceipt);
        }
        sender.map(|sender| self.client(sender))
    }

    /// Epochs of a superepoch.
    #[inline]
    #[must_use]
    pub const fn superepoch(&self) -> u16 {
        self.settings.superepoch
    }

    /// Forgets the pauses of Cores that have not repeated them. A Core does so every epoch, so the
    /// request that would have ended them is lost.
    fn end_pauses(&mut self, epoch: u64) {
        if !self.pauses {
            return;
        }
        let first = self.shape.hosts();
        for core in 0..self.shape.cores() {
            let spoke = self.clients[first + core].spoke;
            if spoke.is_none_or(|spoke| epoch.saturating_sub(spoke) > PAUSE_KEPT) {
                self.pause(core, 0);
            }
        }
        self.pauses = self.paused.iter().flatten().any(|cores| *cores != 0);
    }

    /// Decides what the pod does in epoch `epoch + lead`. Epochs rise; a repeated one is a no-op.
    /// Poll answers from epoch `epoch + delay` on.
    pub fn decide(&mut self, epoch: u64) {
        if epoch < self.next {
            return;
        }
        self.next = epoch + 1;
        self.links.retry(epoch);
        self.end_pauses(epoch);
        let known = (epoch + 1).saturating_sub(self.settings.judge_after);
        self.counters.accused += self.history.judge(known, epoch, &mut self.links);
        let about = epoch + self.settings.lead;
        self.grants.clear();
        self.grants.extend_from_slice(self.runs.begin(about));
        let ongoing = self.grants.len();
        let mut rest = 1;
        if about >= self.fence {
            rest = self.match_up(epoch, ongoing);
            let granted = &self.grants[ongoing..];
            self.links.try_out(granted, about + self.settings.judge_after + 1);
            if self.links.any_accused() {
                // On trial a link carries the cells of one epoch, and others may fail soon.
                rest = 1;
            }
        } else if self.waits.is_some() {
            self.note_waits(epoch, None);
        }
        self.counters.epochs += 1;
        self.counters.grants += self.grants.len() as u64;
        let Self { settings, shape, demands, counters, grants, history, runs, .. } = self;
        let granted = &grants[ongoing..];
        granted.iter().for_each(|grant| demands.prefetch(grant.sender.into(), grant.to));
        granted.iter().for_each(|grant| demands.prefetch_neighbours(grant.sender.into(), grant.to));
        history.store((about, epoch + settings.delay), grants, ongoing, |number, grant| {
            if let Some(worth) = runs.worth(number).filter(|_| number < ongoing) {
                return worth;
            }
            let (bytes, worth) = settle((settings, rest), shape, demands, grant);
            counters.granted_bytes += u64::from(bytes);
            if worth.epochs > 1 {
                runs.add(shape, *grant, worth);
            }
            worth
        });
    }

    /// Whether a decision of `epoch` has to be made though no demand may be open: runs that were
    /// granted before go on in it.
    #[inline]
    #[must_use]
    pub const fn has_runs(&self, epoch: u64) -> bool {
        self.runs.go_on(epoch + self.settings.lead)
    }

    /// Fills `grants` behind the first `ongoing` ones, which are of runs. Returns the epochs that a
    /// grant is for where its demand fills them: those that are left of the superepoch, or one in
    /// turns, which give each demand no more than its share.
    fn match_up(&mut self, epoch: u64, ongoing: usize) -> u16 {
        let mut ports = self.ports(epoch);
        self.runs.hold(&mut ports);
        let rest = self.runs.rest(epoch + self.settings.lead);
        let turn = self.turns.next(self.settings.fair_every, rest == self.settings.superepoch);
        self.turns.list(turn, &self.demands, modulo(epoch));
        let Self { turns, demands, chance, grants, .. } = self;
        self.matcher.decide(turns.first(), demands, &mut ports, chance, grants);
        if self.waits.is_some() {
            self.note_waits(epoch, Some(&ports));
        }
        if turn.is_some() {
            for grant in &self.grants[ongoing..] {
                self.demands.send_back(usize::from(grant.sender), grant.to, modulo(epoch));
            }
            return 1;
        }
        rest
    }

    /// The ports that a decision of `epoch` may use.
    fn ports(&self, epoch: u64) -> IdlePorts {
        let mut ports = self.links.usable;
        if self.pauses {
            for (relay, paused) in ports.relay.iter_mut().zip(&self.paused) {
                for (relay, paused) in relay.iter_mut().zip(paused) {
                    *relay &= !paused;
                }
            }
        }
        if self.settings.silent_after > 0 {
            let about = epoch + self.settings.lead;
            let joins = |at: usize| about < self.clients[at].joins;
            for sender in 0..self.shape.senders() {
                if self.is_silent_at(sender, epoch) || joins(sender) {
                    ports.leave_out(&self.shape, sender);
                }
            }
        }
        ports
    }

    #[inline]
    fn is_silent_at(&self, sender: usize, epoch: u64) -> bool {
        let after = self.settings.silent_after;
        let spoke = self.clients[sender].spoke.or((self.term == FIRST_TERM).then_some(after));
        after > 0 && spoke.is_none_or(|spoke| epoch.saturating_sub(spoke) > after)
    }

    /// Whether a client has sent no request for so long, as of `epoch`, that nothing is granted to
    /// it.
    #[inline]
    #[must_use]
    pub fn is_silent(&self, client: Client, epoch: u64) -> bool {
        self.sender(client).is_none_or(|sender| self.is_silent_at(sender, epoch))
    }

    /// Whether no other scheduler can have granted cells to or from a client in `epoch`.
    #[inline]
    #[must_use]
    pub fn has_to_itself(&self, client: Client, epoch: u64) -> bool {
        let joined = |sender: usize| self.clients[sender].joins <= epoch;
        epoch >= self.fence
            && self.sender(client).is_some_and(joined)
            && !self.is_silent(client, epoch)
    }

    /// The next answer that may leave in epoch `now` or has been able to before. Call until `None`.
    #[inline]
    pub fn poll_answer(&mut self, now: u64) -> Option<Answer> {
        let (epoch, grant, worth) = self.history.next(now)?;
        Some(Answer {
            client: self.client(grant.sender),
            term: self.term,
            epoch,
            to: grant.to,
            agg: grant.agg,
            core: grant.core,
            cells: worth.cells,
            epochs: worth.epochs,
            total: worth.total,
            mice_only: worth.mice_only,
        })
    }

    /// The client from which `receiver` gets cells in `epoch`; `None` where none does, or the
    /// decision is not kept any more.
    #[inline]
    #[must_use]
    pub fn sender_to(&self, receiver: Client, epoch: u64) -> Option<Client> {
        let sender = self.history.sender_to(self.sender(receiver)?, epoch)?;
        Some(self.client(sender))
    }

    /// Takes a link down, or puts it to work again; false when the pod has no such link.
    pub fn set_link(&mut self, link: PodLink, works: bool) -> bool {
        let known = self.links.has(link);
        if known {
            self.links.set(link, works);
        }
        known
    }

    /// Whether no grant uses a link, because it is down or accused.
    #[must_use]
    pub fn avoids(&self, link: PodLink) -> bool {
        self.links.has(link) && self.links.is_avoided(link)
    }

    /// Begins a term, as a backup that takes over does: forgets all demands and decisions, and
    /// grants nothing for epochs before `fence`, the first for which the former scheduler cannot
    /// have granted anything. False, and nothing done, when `term` is not a later one.
    pub fn begin_term(&mut self, term: u32, fence: u64) -> bool {
        if term <= self.term {
            return false;
        }
        (self.term, self.fence) = (term, fence);
        self.demands.clear();
        self.history.clear();
        self.runs.clear();
        for client in &mut self.clients {
            (client.spoke, client.mice_len) = (None, 0);
            (client.repeated, client.reported) = (None, None);
        }
        true
    }
}

/// An epoch modulo 2^32, as demands keep it.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
const fn modulo(epoch: u64) -> u32 {
    epoch as u32
}
