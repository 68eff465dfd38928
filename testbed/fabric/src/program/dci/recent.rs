//! How many flows to each host have sent lately: those of the span of time under way, or of the
//! one before where these are more.
//!
//! Each flow has a record of the span in which it was counted last, so it counts once in each span.
//! A count of spans gone by means nothing, so hosts need not be forgotten: there is a place for
//! each of the network, as far as the highest that a flow has sent to.

use transport::{Duration, HostId, Instant};

/// Flows by their destination host.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    /// By the number of the host; 16 bytes each.
    hosts: Vec<Count>,
    span: Duration,
    /// The span asked for last: its number, and from when until when it is.
    last: (u64, Instant, Instant),
}

/// Flows to one host, by the number of the span under way.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    span: u64,
    now: u16,
    before: u16,
}

/// The span of a flow that was never counted.
pub(super) const NEVER: u64 = u64::MAX;

impl Count {
    /// The count in the span `span`.
    fn in_span(self, span: u64) -> Self {
        if self.span == span {
            return self;
        }
        let before = if self.span + 1 == span { self.now } else { 0 };
        Self { span, now: 0, before }
    }
}

impl Recent {
    /// No flows; they are counted over `span`.
    pub(super) const fn new(span: Duration) -> Self {
        Self { hosts: Vec::new(), span, last: (0, Instant::ZERO, Instant::ZERO) }
    }

    fn span_at(&self, now: Instant) -> u64 {
        now.as_ps() / self.span.as_ps().max(1)
    }

    /// [`Recent::span_at`] without the division, within one span.
    #[inline]
    fn pass_to(&mut self, now: Instant) -> u64 {
        let (number, from, until) = self.last;
        if (from..until).contains(&now) {
            return number;
        }
        let number = self.span_at(now);
        let from = Instant::ZERO + self.span * number;
        self.last = (number, from, from + self.span);
        number
    }

    /// A flow that was counted last in `counted` sends to `host` at `now`. O(1).
    #[inline]
    pub(super) fn count(&mut self, host: HostId, counted: &mut u64, now: Instant) {
        let span = self.pass_to(now);
        if *counted != span {
            *counted = span;
            self.count_in(span, host);
        }
    }

    /// A flow sends to `host` for the first time in `span`. Allocates up to the highest number of
    /// an end of the network, and no more.
    fn count_in(&mut self, span: u64, host: HostId) {
        let place = host.0 as usize;
        if place >= self.hosts.len() {
            self.hosts.resize(place + 1, Count::default());
        }
        let count = &mut self.hosts[place];
        *count = count.in_span(span);
        count.now = count.now.saturating_add(1);
    }

    /// Flows to `host` at `now`.
    pub(super) fn flows_to(&self, host: HostId, now: Instant) -> u16 {
        let count = self.hosts.get(host.0 as usize).copied().unwrap_or_default();
        let Count { now, before, .. } = count.in_span(self.span_at(now));
        now.max(before)
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.hosts.clear();
    }
}
