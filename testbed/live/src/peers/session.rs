//! State of a session that both ends keep: its terms, its messages, and its last report.

use experiments::measure::Counters;
use transport::{Duration, HostId, Instant};
use transport_dpdk::Completion;

use super::gauge::Gauge;
use super::host::PeerHost;
use super::protocol::{Kind, Tag};
use super::stream::{Receiver, Sender, Slots, short};
use super::terms::{Job, SessionTerms};
use super::{Interval, SessionEvent, SessionMonitor};

/// One end of a session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) number: u64,
    pub(super) peer: HostId,
    pub(super) terms: SessionTerms,
    pub(super) slots: Slots,
    /// What sends in this session; `None` before it begins to send.
    pub(super) sender: Option<Sender>,
    pub(super) receiver: Receiver,
    pub(super) began: Instant,
    /// The host's counters when the session began.
    pub(super) counted_before: Counters,
    /// When the session began, or the peer was last seen to have acknowledged something.
    pub(super) acked_at: Instant,
    /// The bytes that the peer had acknowledged then, as [`PeerHost::acknowledged_by`] counts.
    acked: u64,
    /// When the application looks at its ring again.
    looks_at: Instant,
    /// Whether both ends are ready for it.
    pub(super) has_started: bool,
    /// Until when, and how much: sent, received, sent again.
    reported: (Duration, [u64; 3]),
    pub(super) gauge: Gauge,
    pub(super) intervals: Intervals,
}

/// The intervals of a session so far.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    /// The first intervals, at most [`INTERVALS_MAX`].
    pub(super) kept: Vec<Interval>,
    /// How many intervals followed `kept`.
    pub(super) omitted: u64,
}

impl Intervals {
    fn push(&mut self, interval: Interval) {
        if self.kept.len() < INTERVALS_MAX {
            self.kept.push(interval);
        } else {
            self.omitted += 1;
        }
    }
}

/// Intervals that are kept: a day of seconds.
const INTERVALS_MAX: usize = 86_400;
/// Completions taken in a turn.
const COMPLETIONS: usize = 64;

impl Session {
    /// A session that has not started; its slots are filled, which takes time.
    pub(super) fn new(
        slots: Slots,
        number: u64,
        peer: HostId,
        terms: SessionTerms,
        now: Instant,
    ) -> Self {
        Self {
            slots,
            number,
            peer,
            terms,
            sender: None,
            receiver: Receiver::default(),
            began: now,
            counted_before: Counters::new(),
            acked_at: now,
            acked: 0,
            looks_at: now,
            has_started: false,
            reported: Default::default(),
            gauge: Gauge::new(now),
            intervals: Intervals::default(),
        }
    }

    /// Starts the session's clock, and to send, if the job has this end send.
    pub(super) fn start(&mut self, sends: bool, now: Instant) {
        self.began = now;
        self.has_started = true;
        self.reported = Default::default();
        self.gauge = Gauge::new(now);
        if let Job::Perf { duration_ms, bytes, .. } = self.terms.job
            && sends
        {
            let duration = duration_ms.map(Duration::from_ms);
            self.sender = Some(Sender::new(&self.terms, self.number, (duration, bytes), now));
        }
    }

    /// Posts messages that may be sent; true when there were any.
    pub(super) fn post(&mut self, host: &mut PeerHost, now: Instant) -> bool {
        let Some(sender) = &mut self.sender else { return false };
        let room = host.room();
        sender.post(&self.slots, &mut host.waiting, room, now)
    }

    /// Completions that the application takes at `now`: none between two looks.
    pub(super) fn appetite(&mut self, now: Instant) -> usize {
        if self.terms.think_us == 0 {
            return COMPLETIONS;
        }
        if now < self.looks_at {
            return 0;
        }
        self.looks_at = now + Duration::from_us(self.terms.think_us);
        1
    }

    /// Whether a message labelled `tag`, from `from`, belongs to it.
    pub(super) fn owns(&self, tag: Tag, from: HostId) -> bool {
        tag.session == short(self.number) && from == self.peer
    }

    /// Takes `completion` if it is about the data of this session; else gives it back.
    pub(super) fn take(&mut self, completion: Completion) -> Option<Completion> {
        let tag = match &completion {
            Completion::Sent { cookie: tag, .. }
            | Completion::Failed { cookie: tag, .. }
            | Completion::Delivered { tag, .. } => Tag::unpack(*tag),
            Completion::Refused { .. } | Completion::Closed { .. } | Completion::Aborted { .. } => {
                None
            }
        };
        let Some(tag) = tag.filter(|tag| tag.kind == Kind::Data) else { return Some(completion) };
        match completion {
            Completion::Delivered { from, checksum, memory, .. } if self.owns(tag, from) => {
                self.receiver.count(&self.slots, tag.number, checksum, memory.len());
            }
            Completion::Sent { .. } => {
                self.sender.iter_mut().for_each(|sender| sender.sent(tag.number));
            }
            Completion::Failed { reason, .. } => {
                let reason = reason.to_string();
                self.sender.iter_mut().for_each(|sender| sender.fail(tag.number, reason.clone()));
            }
            // A message of a session that is over is ignored.
            _ => {}
        }
        None
    }

    /// Since when no packet of the peer has shown that it is there, whatever other hosts send.
    pub(super) fn silent_since(&mut self, host: &PeerHost, now: Instant) -> Instant {
        let acked = host.acknowledged_by(self.peer);
        if acked != self.acked {
            (self.acked, self.acked_at) = (acked, now);
        }
        host.received_from(self.peer).map_or(self.acked_at, |at| at.max(self.acked_at))
    }

    /// Samples the windows when that is due.
    pub(super) fn sample_windows(&mut self, host: &PeerHost, now: Instant) {
        if self.has_started {
            self.gauge.sample(host, now);
        }
    }

    /// Reports the traffic since the last report when that is due.
    pub(super) fn report_interval(
        &mut self,
        host: &PeerHost,
        now: Instant,
        monitor: &mut dyn SessionMonitor,
    ) {
        let (until, every) = (now.since(self.began), self.terms.interval_ms);
        let is_due = every > 0 && until >= self.reported.0 + Duration::from_ms(every);
        if self.has_started && is_due {
            self.report(host, until, monitor);
        }
    }

    /// Reports what was carried since the last interval: with it, intervals add up to the session.
    pub(super) fn report_rest(
        &mut self,
        host: &PeerHost,
        now: Instant,
        monitor: &mut dyn SessionMonitor,
    ) {
        let is_wanted = self.has_started && self.terms.interval_ms > 0;
        if is_wanted && self.sums(host) != self.reported.1 {
            self.report(host, now.since(self.began), monitor);
        }
    }

    /// Bytes sent and received, and segments sent again, since the beginning.
    fn sums(&self, host: &PeerHost) -> [u64; 3] {
        let sent = self.sender.as_ref().map_or(0, |sender| sender.acked().bytes);
        let [_, again] = host.segments();
        [sent, self.receiver.got().bytes, again]
    }

    fn report(&mut self, host: &PeerHost, until: Duration, monitor: &mut dyn SessionMonitor) {
        let (sums, (last, former)) = (self.sums(host), self.reported);
        self.reported = (until, sums);
        let [sent, received, retransmitted] = std::array::from_fn(|i| sums[i] - former[i]);
        let length = until - last;
        let (rtt, cwnd_bytes) = self.gauge.interval(host);
        let interval = Interval { until, length, sent, received, retransmitted, rtt, cwnd_bytes };
        self.intervals.push(interval);
        monitor.on_event(&SessionEvent::Interval(interval));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_beyond_those_that_are_kept_are_counted() {
        let interval = Interval {
            until: Duration::from_s(1),
            length: Duration::from_s(1),
            sent: 1,
            received: 2,
            retransmitted: 3,
            rtt: None,
            cwnd_bytes: None,
        };
        let mut intervals = Intervals::default();
        (0..INTERVALS_MAX + 3).for_each(|_| intervals.push(interval));
        assert_eq!((intervals.kept.len(), intervals.omitted), (INTERVALS_MAX, 3));
    }
}
