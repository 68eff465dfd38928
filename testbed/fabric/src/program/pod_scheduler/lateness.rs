//! How late requests come, and answers for all hosts in every epoch, or in turns where requests
//! come on change. By both, a host whose clock is off keeps the pod's time.
//!
//! Source: \[zeropod\] IV-E. The clock here is the pod's. A request says whether it left behind a
//! gap, so the instant at which it should come is known; how much later it came goes back to its
//! host with an answer.

use transport::sched::zeropod::timing::Timing;
use transport::wire::pod::{ClockState, Stamp};
use transport::{Duration, Instant};

use super::{OWED, Pod};

/// Requests of each host whose lateness is kept. A request takes the place of an earlier one, and
/// comes after the window that reports how late the earlier one was. It does so by at least two
/// cells, however short epochs are. The time between is [`KEPT`] - [`Stamp::BEHIND`] epochs and
/// `control_flight`, less `answers_at`, which has three cells beside propagation.
const KEPT: usize = 8;
const _: () = assert!(Stamp::BEHIND + 5 <= KEPT as u64);

/// Turns that may pass between two answers that say how late a host's requests are, before the host
/// counts as silent: one of two requests in a row may be lost.
const SILENT_TURNS: u64 = 2;

/// How late the last requests of each host came.
#[derive(Clone, Debug)]
pub(super) struct Lateness {
    /// By host: its last requests, by the number of their epoch modulo [`KEPT`].
    of_hosts: Vec<[Late; KEPT]>,
    /// By host: the last window whose answer said how late a request was; 0 before the first.
    said_in: Vec<u64>,
    /// [`Stamp::unit`], in picoseconds.
    unit: i64,
    /// The most that a request of a host whose clock had settled was early or late by.
    most: Duration,
}

/// How late a request came.
#[derive(Clone, Copy, Debug)]
struct Late {
    /// The epoch in which it left, modulo 2^32.
    epoch: u32,
    /// In units of [`Stamp::unit`]; `None` where there is no such request, or one further off.
    units: Option<i16>,
}

const _: () = assert!(size_of::<[Late; KEPT]>() == 64, "a line of cache a host");

impl Lateness {
    pub(super) fn new(hosts: usize, epoch: Duration) -> Self {
        let of_hosts = vec![[Late { epoch: 0, units: None }; KEPT]; hosts];
        let unit = Stamp::unit(epoch).as_ps().cast_signed();
        Self { of_hosts, said_in: vec![0; hosts], unit, most: Duration::ZERO }
    }

    pub(super) const fn most(&self) -> Duration {
        self.most
    }

    /// Whether no request has come, and no answer said how late one was.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let requests = self.of_hosts.iter().flatten();
        requests.map(|late| late.units).all(|units| units.is_none())
            && self.said_in.iter().all(|window| *window == 0)
    }

    /// Forgets all requests, and what answers said of them.
    pub(super) fn clear(&mut self) {
        self.of_hosts.fill([Late { epoch: 0, units: None }; KEPT]);
        self.said_in.fill(0);
    }
}

/// When the request of `epoch` of a host with slot `own` comes, behind a gap or not.
#[inline]
fn due(timing: &Timing, epoch: u64, (own, gap): (u16, bool)) -> Instant {
    timing.start(epoch) + timing.request_behind(own, gap) + timing.control_flight
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
const fn modulo(epoch: u64) -> u32 {
    epoch as u32
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "below KEPT")]
const fn place(epoch: u64) -> usize {
    (epoch % KEPT as u64) as usize
}

/// How late the request of `epoch` came; `None` where none has come.
#[inline]
fn late_in(of_host: &[Late; KEPT], epoch: u64) -> Option<i16> {
    let late = of_host[place(epoch)];
    late.units.filter(|_| late.epoch == modulo(epoch))
}

impl Pod {
    /// A request that left in `epoch` has come at `now`.
    #[inline]
    pub(super) fn note_lateness(
        &mut self,
        member: u16,
        clock: Option<ClockState>,
        (epoch, now): (u64, Instant),
    ) {
        let client = self.members.client(member);
        let (Some(lateness), Some(clock)) = (&mut self.lateness, clock) else { return };
        let due = due(&self.timing, epoch, (self.members.slot(client), clock.behind_gap));
        let late = now.as_ps().wrapping_sub(due.as_ps()).cast_signed();
        if clock.settled {
            lateness.most = lateness.most.max(Duration::from_ps(late.unsigned_abs()));
        }
        if let Some(of_host) = lateness.of_hosts.get_mut(usize::from(member)) {
            let units = i16::try_from(late / lateness.unit).ok();
            let units = units.filter(|units| *units != i16::MIN);
            of_host[place(epoch)] = Late { epoch: modulo(epoch), units };
        }
    }

    /// The stamp of an answer to `member` in `window`, which leaves behind a gap or not and has a
    /// grant or not; `None` for Cores, and where clocks are exact.
    #[inline]
    pub(super) fn stamp(
        &self,
        member: u16,
        window: u64,
        (behind_gap, has_grant): (bool, bool),
    ) -> Option<Stamp> {
        let of_host = self.lateness.as_ref()?.of_hosts.get(usize::from(member))?;
        let late = window.checked_sub(Stamp::BEHIND).and_then(|epoch| late_in(of_host, epoch));
        let window = (!has_grant).then_some(modulo(window));
        Some(Stamp { window, behind_gap, late })
    }

    /// Every host gets an answer in `window`, where their clocks may be off and this scheduler
    /// serves. Where requests come on change, only those do that [`Pod::answer_in_turn`] names.
    pub(super) fn answer_always(&mut self, window: u64) {
        if self.lateness.is_none() || !self.terms.serves {
            return;
        }
        if self.ask_every == 1 {
            self.due[..self.members.hosts()].fill(OWED);
        }
        self.open_window(window);
    }

    /// Where requests come on change, a host whose clock may be off gets an answer in the one
    /// `window` that can say how late its request was. Where no answer has done so for long, the
    /// host sends no requests, or sends them later than that window. It may have lost its time, or
    /// never had it, and gets an answer in turns.
    pub(super) fn answer_in_turn(&mut self, window: u64) {
        let Some(lateness) = self.lateness.as_mut().filter(|_| self.ask_every > 1) else { return };
        if !self.terms.serves {
            return;
        }
        let asked_in = window.wrapping_sub(Stamp::BEHIND);
        let asked = lateness.of_hosts.iter().zip(&mut lateness.said_in).zip(&mut self.due);
        for (host, ((late, said_in), due)) in (0_u64..).zip(asked) {
            if late_in(late, asked_in).is_some() {
                (*said_in, *due) = (window, OWED);
                continue;
            }
            let is_silent = *said_in == 0 || window > *said_in + SILENT_TURNS * self.ask_every;
            if is_silent && (window + host).is_multiple_of(self.ask_every) {
                *due = OWED;
            }
        }
    }
}
