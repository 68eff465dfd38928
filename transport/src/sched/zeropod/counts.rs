//! What a host of a pod has counted, and why it refuses answers.

use crate::time::{Duration, Instant};

/// Why an answer was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Odd {
    /// The sender of the answer is not the pod's scheduler, or does not have the scheduler's key.
    Forged,
    /// The answer is of a term that is over.
    OldTerm,
    /// The answer grants what was not asked for: another receiver, more bytes or more cells than an
    /// epoch has.
    Unasked,
    /// The note is no answer.
    Malformed,
    /// The answer is for an epoch that lies further ahead than any answer can.
    FarEpoch,
    /// The answer is for an epoch that has a grant already.
    Doubled,
    /// The answer names a route that the pod does not have.
    NoRoute,
    /// The answer is of a later term while those of the present one come.
    EarlyTerm,
}

impl Odd {
    const COUNT: usize = 8;
}

/// What a host has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PodCounts {
    /// Cells sent in granted epochs.
    pub cells: u64,
    /// Cells of these that were no packets of their own: those of trains, without the first of
    /// each.
    pub joined: u64,
    /// Cells that arrived here as part of a train, without the first of each.
    pub joined_here: u64,
    /// Cells that were granted and not sent: nothing waited for their receiver any more, their
    /// slots had passed, or a lost train was longer than they are.
    pub unused: u64,
    /// Cells sent without a grant.
    pub optimistic_sent: u64,
    /// When the first and the last of these left.
    pub optimistic_span: Option<(Instant, Instant)>,
    /// Cells without a grant that arrived here.
    pub optimistic_delivered: u64,
    /// Requests sent.
    pub requests: u64,
    /// Introductions sent to a scheduler that is a process of its own.
    pub joins: u64,
    /// Notes received, whether they made sense or not.
    pub answers: u64,
    /// Requests sent again, because no answer had come.
    pub repeated: u64,
    /// Answers for epochs that had begun.
    pub late: u64,
    /// Flows that were given up because their scheduler was silent.
    pub given_up: u64,
    /// Since when that scheduler has been silent, and the number of its pod; of several hosts, the
    /// silence that began first.
    pub silent_since: Option<(Instant, u32)>,
    /// The longest time for which the host was without a scheduler. It begins when an answer is due
    /// that a working scheduler sends, but not before the last granted epoch is over. It ends when
    /// an answer comes. Where that is of another term, it ends when the term may grant.
    pub outage: Duration,
    /// The epoch in which a clock that was off had settled, the last one of several hosts; 0 where
    /// none was off.
    pub settled_in: u64,
    refused: [u64; Odd::COUNT],
}

impl PodCounts {
    /// Adds the counts of another host.
    pub fn add(&mut self, other: &Self) {
        self.cells += other.cells;
        self.joined += other.joined;
        self.joined_here += other.joined_here;
        self.unused += other.unused;
        self.optimistic_sent += other.optimistic_sent;
        other.optimistic_span.iter().for_each(|span| self.widen_optimistic(*span));
        self.optimistic_delivered += other.optimistic_delivered;
        self.requests += other.requests;
        self.joins += other.joins;
        self.answers += other.answers;
        self.repeated += other.repeated;
        self.late += other.late;
        self.given_up += other.given_up;
        self.silent_since = self.silent_since.into_iter().chain(other.silent_since).min();
        self.outage = self.outage.max(other.outage);
        self.settled_in = self.settled_in.max(other.settled_in);
        for (count, other) in self.refused.iter_mut().zip(&other.refused) {
            *count += other;
        }
    }

    /// Cells without a grant left in the span from `first` to `last`.
    pub(super) fn widen_optimistic(&mut self, (first, last): (Instant, Instant)) {
        let known = self.optimistic_span.unwrap_or((first, last));
        self.optimistic_span = Some((known.0.min(first), known.1.max(last)));
    }

    pub(super) fn refuse(&mut self, why: Odd) {
        self.refused[why as usize] += 1;
    }

    /// The answers that were refused, by reason.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names: [_; Odd::COUNT] = [
            "forged_answer",
            "old_answer",
            "unasked_answer",
            "malformed_answer",
            "far_answer",
            "doubled_answer",
            "routeless_answer",
            "early_answer",
        ];
        names.into_iter().zip(self.refused)
    }

    /// The answers that were refused, for all reasons.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.iter().sum()
    }
}
