//! How late requests come, and answers for all hosts in every epoch: from both a host whose clock
//! is off keeps the pod's time.
//!
//! Source: \[zeropod\] IV-E. The clock here is the pod's. A request says whether it left behind a
//! gap, so the instant at which it should come is known; how much later it came goes back to its
//! host with an answer.

use transport::sched::zeropod::timing::Timing;
use transport::wire::pod::{Rts, Stamp};
use transport::{Duration, Instant};

use super::Pod;

/// Requests of each host whose lateness is kept. A request takes the place of an earlier one, and
/// comes after the window that reports how late the earlier one was. It does so by at least two
/// cells, however short epochs are. The time between is [`KEPT`] - [`Stamp::BEHIND`] epochs and
/// `control_flight`, less `answers_at`, which has three cells beside propagation.
const KEPT: usize = 8;
const _: () = assert!(Stamp::BEHIND + 5 <= KEPT as u64);

/// How late the last requests of each host came.
#[derive(Clone, Debug)]
pub(super) struct Lateness {
    /// By host: the epochs of its last requests, by their number modulo [`KEPT`], and how late each
    /// was in units of [`Stamp::unit`].
    of_hosts: Vec<[Option<(u64, i16)>; KEPT]>,
    /// The most that a request of a host whose clock had settled was early or late by.
    most: Duration,
}

impl Lateness {
    pub(super) fn new(hosts: usize) -> Self {
        Self { of_hosts: vec![[None; KEPT]; hosts], most: Duration::ZERO }
    }

    pub(super) const fn most(&self) -> Duration {
        self.most
    }
}

/// When the request of `epoch` of a host with slot `own` comes, behind a gap or not.
fn due(timing: &Timing, epoch: u64, (own, gap): (u16, bool)) -> Instant {
    timing.start(epoch) + timing.request_behind(own, gap) + timing.control_flight
}

#[expect(clippy::cast_possible_truncation, reason = "below KEPT")]
const fn place(epoch: u64) -> usize {
    (epoch % KEPT as u64) as usize
}

impl Pod {
    /// A request that left in `epoch` has come at `now`.
    pub(super) fn note_lateness(&mut self, member: u16, rts: &Rts, (epoch, now): (u64, Instant)) {
        let client = self.members.client(member);
        let (Some(lateness), Some(clock)) = (&mut self.lateness, rts.clock) else { return };
        let due = due(&self.timing, epoch, (self.members.slot(client), clock.behind_gap));
        let late = now.as_ps().wrapping_sub(due.as_ps()).cast_signed();
        if clock.settled {
            lateness.most = lateness.most.max(Duration::from_ps(late.unsigned_abs()));
        }
        if let Some(of_host) = lateness.of_hosts.get_mut(usize::from(member)) {
            let units = late / Stamp::unit(self.timing.epoch).as_ps().cast_signed();
            let units = i16::try_from(units).ok().filter(|units| *units != i16::MIN);
            of_host[place(epoch)] = units.map(|units| (epoch, units));
        }
    }

    /// The stamp of an answer to `member` in `window`, which leaves behind a gap or not and has a
    /// grant or not; `None` for Cores, and where clocks are exact.
    pub(super) fn stamp(
        &self,
        member: u16,
        window: u64,
        (behind_gap, has_grant): (bool, bool),
    ) -> Option<Stamp> {
        let of_host = self.lateness.as_ref()?.of_hosts.get(usize::from(member))?;
        let late = window.checked_sub(Stamp::BEHIND).and_then(|epoch| {
            of_host[place(epoch)].filter(|(of, _)| *of == epoch).map(|(_, late)| late)
        });
        #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
        let window = (!has_grant).then_some(window as u32);
        Some(Stamp { window, behind_gap, late })
    }

    /// Every host gets an answer in `window`, where their clocks may be off and this scheduler
    /// serves.
    pub(super) fn answer_always(&mut self, window: u64) {
        if self.lateness.is_none() || !self.terms.serves {
            return;
        }
        for member in 0..self.members.hosts() {
            self.owed[member] = true;
        }
        self.open_window(window);
    }
}
