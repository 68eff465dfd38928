//! The run itself: starts own flows, passes pokes of triggers on, and finds out that all is over.
//!
//! The first host decides. Nothing is under way when every host is idle, has received every poke
//! that the first host passed on to it (it passes on all, and gets a host's pokes before that
//! host's word of being idle), and all that was acknowledged anywhere has been delivered to its
//! application, which may poke. A host repeats its word whenever it changes. A word may be older
//! than what others report, so the first host then asks all once more: the run is over when the
//! second answers add up to the same counts as the first (Mattern's four counters).
//!
//! A host other than the first that fails during the run is lost: its flows fail at their other
//! ends, the rest goes on, and only reports of hosts that have been notified of all losses count.
//! Without the first host no host could find the end of the run, so the others end, too.

use experiments::conductor::{FlowCounts, Poke};
use experiments::plan::{Plan, RunError};
use experiments::progress::{Progress, Watch};
use transport::{Duration, HostId, Instant};
use transport_dpdk::{Idle, IdleMode, SharedKeys};

use super::meeting::Meeting;
use super::message::{Say, Standing};
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
    /// Their file is looked at during the run.
    keys: Option<SharedKeys>,
    /// Pokes received from others.
    pokes_received: u64,
    /// Hosts that are gone.
    lost: u64,
    /// Questions of the first host: received, or sent by it.
    asked: u64,
    /// Flows acknowledged and delivered, as answers to the last question but one added up (first
    /// host only).
    counted: Option<(u64, u64)>,
    /// The standing that this host reported last.
    said: Option<Standing>,
    /// For each host: pokes passed on to it, and the standing that it reported last (first host
    /// only).
    others: Vec<(u64, Option<Standing>)>,
    stop_said: bool,
}

/// Time between two looks at whether the run is over.
const LOOK_EVERY: Duration = Duration::from_ms(1);

/// Time between two looks at the watch.
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
            others: meeting.names().iter().map(|_| (0, None)).collect(),
            meeting,
            control,
            gaps: Gaps::new(plan.settings.base_rtt),
            clock,
            now: Instant::ZERO,
            limit: plan.limit.map_or(Instant::FAR_FUTURE, |limit| Instant::ZERO + limit),
            pokes_received: 0,
            lost: 0,
            asked: 0,
            counted: None,
            said: None,
            stop_said: false,
        }
    }

    /// Runs until the first host reports the end; true when the run was ended early.
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

    /// Gives keys that have changed to the workers; those before stay where the file of keys cannot
    /// be read.
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
        pokes.into_iter().try_for_each(|poke| self.pass_on(0, poke))
    }

    /// Passes a poke on: to the first host, or by it to all others but `from`.
    fn pass_on(&mut self, from: u32, poke: Poke) -> Result<(), RunError> {
        if !self.meeting.is_first() {
            return self.meeting.say(0, &Say::Poke(poke));
        }
        for (to, other) in (0..).zip(&mut self.others).skip(1) {
            if to != from {
                other.0 += 1;
                self.meeting.say(to, &Say::Poke(poke))?;
            }
        }
        Ok(())
    }

    /// Handles messages of other hosts; returns whether, and how, the run has ended.
    fn listen(&mut self) -> Result<Option<bool>, RunError> {
        while let Some((from, say)) = self.meeting.poll()? {
            match say {
                Say::Poke(poke) => {
                    let flows = self.control.conductor().matrix().flows.len();
                    if (poke.flow as usize) < flows {
                        let now = self.now;
                        self.control.conductor_mut().on_poke(poke, now);
                    }
                    self.pokes_received += 1;
                    if self.meeting.is_first() {
                        self.pass_on(from, poke)?;
                    }
                }
                Say::Idle(standing) => {
                    if let Some(other) = self.others.get_mut(from as usize) {
                        other.1 = Some(standing);
                    }
                }
                Say::Ask => self.asked += 1,
                Say::Lost { host, reason } => self.on_lost(host, &reason),
                Say::Stop if self.meeting.is_first() => return self.end(true).map(Some),
                Say::End { stopped } => return Ok(Some(stopped)),
                other => self.meeting.stale(from, &other)?,
            }
        }
        Ok(None)
    }

    /// Host `host` is gone: its flows fail.
    fn on_lost(&mut self, host: u32, reason: &str) {
        let Some(name) = self.meeting.names().get(host as usize) else { return };
        tracing::error!("host `{name}` failed during the run: {reason}; the others go on");
        self.control.conductor_mut().on_gone(HostId(host));
        self.lost += 1;
    }

    /// Looks whether this host is idle, and the first host whether all are; `ends` when it is time
    /// to end in any case.
    fn look(&mut self, ends: bool) -> Result<Option<bool>, RunError> {
        let conductor = self.control.conductor();
        let FlowCounts { acked, delivered, .. } = conductor.counts();
        let (pokes_received, lost, asked) = (self.pokes_received, self.lost, self.asked);
        let own = Standing { pokes_received, lost, asked, acked, delivered };
        let own = Some(own).filter(|_| conductor.is_idle());
        if self.meeting.is_first() {
            let over = match own {
                Some(own) => self.is_over(own)?,
                None => false,
            };
            return if over || ends { self.end(!over).map(Some) } else { Ok(None) };
        }
        if ends && !self.stop_said {
            self.stop_said = true;
            self.meeting.say(0, &Say::Stop)?;
        }
        if let Some(standing) = own.filter(|_| own != self.said) {
            self.said = own;
            self.meeting.say(0, &Say::Idle(standing))?;
        }
        Ok(None)
    }

    /// Whether nothing is under way anywhere; asks all hosts once more where it seems so.
    fn is_over(&mut self, own: Standing) -> Result<bool, RunError> {
        let counted = self.count(own).filter(|(acked, delivered)| delivered >= acked);
        if counted.is_none() || counted == self.counted {
            return Ok(counted.is_some());
        }
        self.counted = counted;
        self.asked += 1;
        self.meeting.say_all(&Say::Ask)?;
        Ok(false)
    }

    /// Flows acknowledged and delivered, when all hosts are idle and have answered the last ask.
    fn count(&self, own: Standing) -> Option<(u64, u64)> {
        let (mut acked, mut delivered) = (own.acked, own.delivered);
        for (host, (passed, said)) in (0..).zip(&self.others).skip(1) {
            if self.meeting.has_lost(host) {
                continue;
            }
            let expected = (*passed, own.lost, own.asked);
            let said = said.filter(|s| (s.pokes_received, s.lost, s.asked) == expected)?;
            acked += said.acked;
            delivered += said.delivered;
        }
        Some((acked, delivered))
    }

    fn end(&mut self, stopped: bool) -> Result<bool, RunError> {
        self.meeting.say_all(&Say::End { stopped })?;
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
