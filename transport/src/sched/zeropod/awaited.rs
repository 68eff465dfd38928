//! Demands whose answers are awaited: a total to which no answer has come is asked for again.
//!
//! Source: \[zeropod\] IV-C has no losses. Requests and answers carry totals, so repeating the last
//! total makes up for a lost request, and the answer to it for a lost answer.

use alloc::collections::VecDeque;

use super::queues::Queues;
use super::{DemandEnd, Zeropod};

/// The patience with one demand doubles at most this often.
const DOUBLINGS: u8 = 5;

/// Makes room for so many entries in all.
pub(super) fn reserve<T>(list: &mut VecDeque<T>, entries: usize) {
    list.reserve(entries.saturating_sub(list.len()));
}

/// Demands that wait for answers. Bounded by the destinations of a host.
#[derive(Clone, Debug)]
pub(super) struct Awaited {
    /// Epochs until an answer comes, where nothing delays it.
    patience: u64,
    /// When each demand is looked at, and the place of its queue; ascending.
    checks: VecDeque<(u64, usize)>,
    /// Places of queues whose totals are to be asked for again.
    overdue: VecDeque<usize>,
}

impl Awaited {
    /// Nothing is awaited yet.
    pub(super) const fn new(patience: u64) -> Self {
        Self { patience, checks: VecDeque::new(), overdue: VecDeque::new() }
    }

    /// Makes room for the demands of so many queues.
    pub(super) fn reserve(&mut self, queues: usize) {
        reserve(&mut self.checks, queues);
        reserve(&mut self.overdue, queues);
    }

    /// A demand has been asked for in `epoch`.
    pub(super) fn asked(&mut self, queues: &mut Queues, place: usize, epoch: u64) {
        let queue = queues.queue(place);
        queue.since = epoch;
        if !queue.awaited {
            queue.awaited = true;
            self.checks.push_back((epoch + self.patience, place));
        }
    }

    /// Looks at the demands whose turn has come by `epoch`. Bounded by the destinations.
    pub(super) fn advance(&mut self, queues: &mut Queues, epoch: u64) {
        while let Some((_, place)) = self.checks.front().copied().filter(|(at, _)| *at <= epoch) {
            self.checks.pop_front();
            let queue = queues.queue(place);
            if queue.outstanding() == 0 {
                (queue.awaited, queue.tries) = (false, 0);
                continue;
            }
            if queue.since + (self.patience << queue.tries) <= epoch && !queue.overdue {
                queue.overdue = true;
                self.overdue.push_back(place);
            }
            self.checks.push_back((epoch + self.patience, place));
        }
    }

    /// Forgets all demands.
    pub(super) fn clear(&mut self, queues: &mut Queues) {
        for place in 0..queues.len() {
            let queue = queues.queue(place);
            (queue.awaited, queue.overdue, queue.since) = (false, false, 0);
        }
        self.checks.clear();
        self.overdue.clear();
    }

    /// The next demand to be asked for again.
    pub(super) fn next(&mut self, queues: &mut Queues, epoch: u64) -> Option<usize> {
        let place = self.first_overdue(queues)?;
        self.overdue.pop_front();
        let queue = queues.queue(place);
        (queue.overdue, queue.since) = (false, epoch);
        queue.tries = (queue.tries + 1).min(DOUBLINGS);
        Some(place)
    }

    /// The first demand that is to be asked for again. Forgets those before it that have been
    /// granted since.
    pub(super) fn first_overdue(&mut self, queues: &mut Queues) -> Option<usize> {
        // Bounded: each turn takes a queue off the list.
        while let Some(place) = self.overdue.front().copied() {
            let queue = queues.queue(place);
            if queue.outstanding() > 0 {
                return Some(place);
            }
            queue.overdue = false;
            self.overdue.pop_front();
        }
        None
    }

    /// Whether something may have to be asked for again.
    pub(super) fn has_overdue(&self) -> bool {
        !self.overdue.is_empty()
    }

    /// The next epoch in which a demand is looked at.
    pub(super) fn due(&self) -> Option<u64> {
        self.checks.front().map(|(at, _)| *at)
    }
}

impl Zeropod {
    /// Whether a request has something to ask for. An epoch in which no request is sent does not
    /// count as one with a request.
    pub(super) fn wants(&mut self) -> bool {
        self.first_lacking().is_some() || self.awaited.first_overdue(&mut self.queues).is_some()
    }

    /// The first demand that has grown, and by how many cells. Forgets those before it that have
    /// been granted since.
    fn first_lacking(&mut self) -> Option<(usize, u32)> {
        let most = self.asked_max();
        // Bounded: each turn takes a queue off the list.
        while let Some(place) = self.dirty.front().copied() {
            let queue = self.queues.queue(place);
            let lacking = queue.lacking(most);
            if lacking > 0 {
                return Some((place, lacking));
            }
            queue.dirty = false;
            self.dirty.pop_front();
        }
        None
    }

    /// The next demand that has grown, and the bytes asked for it so far.
    pub(super) fn next_update(&mut self, epoch: u64) -> Option<(DemandEnd, u32)> {
        let (place, lacking) = self.first_lacking()?;
        self.dirty.pop_front();
        let queue = self.queues.queue(place);
        (queue.dirty, queue.asked) = (false, queue.asked.wrapping_add(lacking));
        self.awaited.asked(&mut self.queues, place, epoch);
        self.note_asked(epoch);
        Some(self.total(place))
    }

    /// The next demand to which no answer has come, and the bytes asked for it so far. Demands that
    /// have grown go first.
    pub(super) fn next_repeat(&mut self, epoch: u64) -> Option<(DemandEnd, u32)> {
        let place = self.awaited.next(&mut self.queues, epoch)?;
        Some(self.repeat(place, epoch))
    }

    /// A request in `epoch` repeats the total of a queue: a working scheduler answers it.
    pub(super) fn repeat(&mut self, place: usize, epoch: u64) -> (DemandEnd, u32) {
        self.note_asked(epoch);
        if self.joining.is_none() {
            self.outage.asked(epoch);
        }
        self.counts.repeated += 1;
        self.total(place)
    }

    /// Notes that a request in `epoch` asks for something. Where hosts introduce themselves, only
    /// introductions show whether the scheduler is there.
    fn note_asked(&mut self, epoch: u64) {
        if self.joining.is_none() {
            self.silence.asked(self.timing.start(epoch));
        }
    }

    /// The destination of a queue, and the bytes asked for so far, modulo 2^32.
    fn total(&mut self, place: usize) -> (DemandEnd, u32) {
        let queue = self.queues.queue(place);
        (queue.to, queue.asked.wrapping_mul(self.cell))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_a_check_of_each_queue_and_all_may_be_overdue() {
        let mut awaited = Awaited::new(1);
        awaited.reserve(3);
        awaited.checks.push_back((0, 0));
        awaited.reserve(100);
        assert!(awaited.checks.capacity() >= 100 && awaited.overdue.capacity() >= 100);
    }
}
