//! The run itself: starts own flows, passes pokes of triggers on, and finds out that the run is
//! over.
//!
//! The leading host, which is the first one or another in its place, decides when the run is over.
//! Nothing is under way when three conditions hold. Every host is idle. Every host has received all
//! pokes that the leading host passed on to it. All that was acknowledged anywhere has been
//! delivered to its application, which may poke. (The leading host passes on all pokes, and gets a
//! host's pokes before that host's report of being idle.) A host reports again whenever its state
//! changes. A report may be older than those of others, so the leading host then asks all hosts
//! once more. The run is over when the second answers add up to the same counts as the first
//! (Mattern's four counters).
//!
//! A host that fails during the run is lost. Its flows fail at their other ends, and all other
//! flows go on. From then on only reports of hosts that have been notified of all losses count.
//! When the lost host led, another host leads from then on: all counts between hosts begin anew,
//! and every host repeats its pokes, each of which takes effect once.

use std::collections::BTreeSet;

use experiments::conductor::{FlowCounts, Poke};
use experiments::plan::{Plan, RunError};
use experiments::progress::{Progress, Watch};
use transport::{Duration, HostId, Instant};
use transport_dpdk::{Idle, IdleMode, SharedKeys};

use super::meeting::Meeting;
use super::message::{IdleReport, Say};
use crate::workers::control::Control;
use crate::workers::hosts::{Pollers, RunClock};
use crate::workers::lateness::Gaps;

/// A run under way on one host.
pub(super) struct OngoingRun<'a, 'm> {
    meeting: &'m mut Meeting,
    pub(super) control: Control<'a>,
    pub(super) gaps: Gaps,
    pub(super) clock: RunClock,
    pub(super) now: Instant,
    limit: Instant,
    /// The keys of `--security`; their file is read again during the run when it has changed.
    keys: Option<SharedKeys>,
    /// Hosts that are gone.
    lost: u64,
    /// Pokes of this host.
    own_pokes: Vec<Poke>,
    /// Pokes of other hosts that have had their effect: the flow, and which end of it.
    poked: BTreeSet<(u32, bool)>,
    /// The host that leads.
    leader: u32,
    books: Books,
}

/// The reports of hosts to each other under one leading host.
#[derive(Debug, Default)]
struct Books {
    /// Pokes received from the leading host.
    pokes_received: u64,
    /// Questions of the leading host: received, or sent by it.
    asked: u64,
    /// Flows acknowledged and delivered, as answers to the last question but one added up (leading
    /// host only).
    counted: Option<(u64, u64)>,
    /// The standing that this host reported last.
    said: Option<IdleReport>,
    /// For each host: pokes passed on to it, and the standing that it reported last (leading host
    /// only).
    others: Vec<(u64, Option<IdleReport>)>,
    stop_said: bool,
}

impl Books {
    fn new(hosts: usize) -> Self {
        Self { others: vec![(0, None); hosts], ..Self::default() }
    }

    /// Flows acknowledged and delivered, when all other hosts that count are idle and have answered
    /// the last question. `own` is the standing of the leading host.
    fn count(&self, own: IdleReport, counts: impl Fn(u32) -> bool) -> Option<(u64, u64)> {
        let (mut acked, mut delivered) = (own.acked, own.delivered);
        for (_, (passed, said)) in (0..).zip(&self.others).filter(|(host, _)| counts(*host)) {
            let expected = (*passed, own.lost, own.asked);
            let said = said.filter(|s| (s.pokes_received, s.lost, s.asked) == expected)?;
            acked = acked.saturating_add(said.acked);
            delivered = delivered.saturating_add(said.delivered);
        }
        Some((acked, delivered))
    }
}

/// Time between two checks of whether the run is over.
const LOOK_EVERY: Duration = Duration::from_ms(1);

/// Time between two calls of the watch.
const WATCH_EVERY: Duration = Duration::from_ms(20);

/// How long the last acknowledgements are waited for when all is over.
const SETTLE: Duration = Duration::from_ms(50);

impl<'a, 'm> OngoingRun<'a, 'm> {
    pub(super) fn new(
        plan: &'a Plan,
        meeting: &'m mut Meeting,
        control: Control<'a>,
        clock: RunClock,
        keys: Option<SharedKeys>,
    ) -> Self {
        Self {
            keys,
            books: Books::new(meeting.names().len()),
            leader: meeting.leader(),
            meeting,
            control,
            gaps: Gaps::new(plan.settings.base_rtt),
            clock,
            now: Instant::ZERO,
            limit: plan.limit.map_or(Instant::FAR_FUTURE, |limit| Instant::ZERO + limit),
            lost: 0,
            own_pokes: Vec::new(),
            poked: BTreeSet::new(),
        }
    }

    /// Runs until the leading host reports the end; true when the run was ended early.
    pub(super) fn until_over(
        &mut self,
        pollers: &Pollers,
        watch: &mut dyn Watch,
    ) -> Result<bool, RunError> {
        let mut idle = Idle::new(IdleMode::Adaptive);
        let (mut look_at, mut watch_at) = (Instant::ZERO, Instant::ZERO);
        loop {
            let busy = self.poll();
            self.send_pokes()?;
            if let Some(stopped) = self.listen()? {
                if !stopped {
                    self.settle();
                }
                return Ok(stopped);
            }
            let mut ends = false;
            if self.now >= watch_at {
                watch_at = self.now + WATCH_EVERY;
                if pollers.is_broken() {
                    let what = "the thread that polls the device has ended";
                    return Err(RunError::Environment(what.to_owned()));
                }
                ends = !watch.goes_on(&self.progress());
            }
            if self.now >= look_at {
                look_at = self.now + LOOK_EVERY;
                self.rotate(pollers);
                if let Some(stopped) = self.look(ends || self.now > self.limit)? {
                    if !stopped {
                        self.settle();
                    }
                    return Ok(stopped);
                }
            }
            idle.turn(busy);
        }
    }

    /// Gives keys that have changed to the workers; where the file of keys cannot be read, the
    /// former keys stay.
    fn rotate(&mut self, pollers: &Pollers) {
        let Some(keys) = &mut self.keys else { return };
        match keys.changed(self.now) {
            None => {}
            Some(Ok(keys)) => {
                pollers.rotate(keys);
                tracing::warn!("keys have changed");
            }
            Some(Err(error)) => tracing::error!("{error}; the keys before stay in use"),
        }
    }

    fn poll(&mut self) -> bool {
        self.now = self.clock.now().max(self.now);
        self.gaps.poll(self.now);
        self.control.poll(self.now)
    }

    /// Waits until packets under way have arrived.
    fn settle(&mut self) {
        let until = self.now + SETTLE;
        let mut idle = Idle::new(IdleMode::Adaptive);
        while self.now < until {
            let busy = self.poll();
            idle.turn(busy);
        }
    }

    fn send_pokes(&mut self) -> Result<(), RunError> {
        let pokes = self.control.conductor_mut().take_pokes();
        for poke in pokes {
            self.own_pokes.push(poke);
            self.pass_on(self.meeting.own, poke)?;
        }
        Ok(())
    }

    /// Passes a poke on: to the leading host, or by it to all others but `from`.
    fn pass_on(&mut self, from: u32, poke: Poke) -> Result<(), RunError> {
        if self.meeting.leader() != self.leader {
            // Counts begin anew as soon as that is handled, and all pokes are repeated.
            return Ok(());
        }
        if !self.meeting.leads() {
            return self.meeting.say(self.meeting.leader(), &Say::Poke(poke));
        }
        for (to, other) in (0..).zip(&mut self.books.others) {
            if to != from && to != self.meeting.own {
                other.0 += 1;
                self.meeting.say(to, &Say::Poke(poke))?;
            }
        }
        Ok(())
    }

    /// Handles messages of other hosts; returns whether, and how, the run has ended. Only messages
    /// of the present leading host count: a message of the host that led before may still wait here
    /// when counts begin anew.
    fn listen(&mut self) -> Result<Option<bool>, RunError> {
        while let Some((from, say)) = self.meeting.poll()? {
            match say {
                Say::Poke(poke) => {
                    let flows = self.control.conductor().matrix().flows.len();
                    let is_known = (poke.flow as usize) < flows;
                    if is_known && self.poked.insert((poke.flow, poke.received)) {
                        let now = self.now;
                        self.control.conductor_mut().on_poke(poke, now);
                    }
                    self.books.pokes_received += u64::from(from == self.leader);
                    if self.meeting.leads() {
                        self.pass_on(from, poke)?;
                    }
                }
                Say::Idle(standing) => {
                    if let Some(other) = self.books.others.get_mut(from as usize) {
                        other.1 = Some(standing);
                    }
                }
                Say::Ask => self.books.asked += u64::from(from == self.leader),
                Say::Lost { host, reason } => self.on_lost(host, &reason)?,
                Say::Stop if self.meeting.leads() => return self.end(true).map(Some),
                Say::End { stopped } => return Ok(Some(stopped)),
                other => self.meeting.stale(from, &other)?,
            }
        }
        Ok(None)
    }

    /// Host `host` is gone: its flows fail.
    fn on_lost(&mut self, host: u32, reason: &str) -> Result<(), RunError> {
        let names = self.meeting.names();
        let Some(name) = names.get(host as usize) else { return Ok(()) };
        tracing::error!("host `{name}` failed during the run: {reason}; the others go on");
        self.control.conductor_mut().on_gone(HostId(host));
        self.lost += 1;
        let leader = self.meeting.leader();
        if leader != self.leader {
            self.leader = leader;
            tracing::warn!("host `{}` leads the run now", names[leader as usize]);
            self.books = Books::new(names.len());
            let own = self.own_pokes.clone();
            own.into_iter().try_for_each(|poke| self.pass_on(self.meeting.own, poke))?;
        }
        Ok(())
    }

    /// Checks whether this host is idle; the leading host checks whether all are. `ends` is set
    /// when it is time to end in any case.
    fn look(&mut self, ends: bool) -> Result<Option<bool>, RunError> {
        let conductor = self.control.conductor();
        let FlowCounts { acked, delivered, .. } = conductor.counts();
        let Books { pokes_received, asked, .. } = self.books;
        let lost = self.lost;
        let own = IdleReport { pokes_received, lost, asked, acked, delivered };
        let own = Some(own).filter(|_| conductor.is_idle());
        if self.meeting.leads() {
            let over = match own {
                Some(own) => self.is_over(own)?,
                None => false,
            };
            return if over || ends { self.end(!over).map(Some) } else { Ok(None) };
        }
        let leader = self.meeting.leader();
        if ends && !self.books.stop_said {
            self.books.stop_said = true;
            self.meeting.say(leader, &Say::Stop)?;
        }
        // Messages under one leading host are void under the next.
        if leader == self.leader
            && let Some(standing) = own.filter(|_| own != self.books.said)
        {
            self.books.said = own;
            self.meeting.say(leader, &Say::Idle(standing))?;
        }
        Ok(None)
    }

    /// Whether nothing is under way anywhere; asks all hosts once more where it seems so.
    fn is_over(&mut self, own: IdleReport) -> Result<bool, RunError> {
        let counts = |host| host != self.meeting.own && !self.meeting.has_lost(host);
        let counted = self.books.count(own, counts).filter(|(acked, delivered)| delivered >= acked);
        if counted.is_none() || counted == self.books.counted {
            return Ok(counted.is_some());
        }
        self.books.counted = counted;
        self.books.asked += 1;
        self.meeting.say_all(&Say::Ask)?;
        Ok(false)
    }

    fn end(&mut self, stopped: bool) -> Result<bool, RunError> {
        self.meeting.end(stopped)?;
        Ok(stopped)
    }

    fn progress(&self) -> Progress {
        let conductor = self.control.conductor();
        Progress {
            now: self.now.since(Instant::ZERO),
            flows_finished: conductor.counts().acked,
            bytes_delivered: conductor.delivered().0,
            hops: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_hosts_add_up_without_those_that_are_lost_and_do_not_overflow() {
        let most = IdleReport { acked: u64::MAX, delivered: u64::MAX, ..IdleReport::default() };
        let mut books = Books { others: vec![(0, Some(most)); 3], ..Books::default() };
        let own = IdleReport { acked: 1, delivered: 2, ..IdleReport::default() };
        assert_eq!(books.count(own, |host| host > 0), Some((u64::MAX, u64::MAX)));
        assert_eq!(books.count(own, |_| false), Some((1, 2)));
        books.others[2].1 = None;
        assert_eq!(books.count(own, |_| true), None);
    }
}
