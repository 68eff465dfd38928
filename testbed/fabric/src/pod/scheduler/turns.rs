//! Which decisions do not go by size alone, and which demands these serve first.
//!
//! DEVIATION(zeropod#IV-B1): the paper has no turns of these kinds, and there a large demand beside
//! small ones that never end waits without end. One of `fair_every` decisions goes round: it serves
//! the demands whose last service by such a turn is longest ago, so that every demand has its turn.
//! Half of `fair_every` decisions later one goes by age: it serves demands that have been open for
//! [`OLD`] rounds, whatever they were granted since. Small demands do not get that old, so a large
//! demand beside them has these turns for itself until it is closed.

use crate::pod::demands::{DemandOrder, Demands};
use crate::pod::matcher::Pair;
use crate::pod::shape::Shape;

/// Demands that a turn considers, for each sender: more than fit, since some exclude others.
const LOOKED_AT: usize = 4;

/// Rounds of `fair_every` decisions after which an open demand is old.
const OLD: u32 = 32;

/// A decision that does not go by size alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FairTurn {
    /// Demands that were served longest ago go first.
    Round,
    /// Demands that have been open for so many epochs go first, by doublings of their age; in one
    /// doubling the one that was served longest ago.
    Age(u32),
}

/// Counts decisions, and lists the demands that go first.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    /// Decisions since the last round.
    decisions: u32,
    /// Whether a decision since the last round went by age.
    aged_once: bool,
    most: usize,
    first: Vec<Pair>,
    /// What the last round listed.
    round: Vec<Pair>,
    /// Each demand with its key: the binary logarithm of its age in the upper 32 bits, the epochs
    /// since its last turn in the lower 32. Memory of [`Self::list`].
    aged: Vec<(u64, Pair)>,
}

impl Turns {
    pub(super) fn new(shape: &Shape) -> Self {
        let most = LOOKED_AT * shape.senders();
        let (first, round) = (Vec::with_capacity(most), Vec::with_capacity(most));
        let aged = Vec::with_capacity(most);
        Self { decisions: 0, aged_once: false, most, first, round, aged }
    }

    /// The turn of the next decision, where every `every`th goes round; `None` when it goes by
    /// size. A turn waits for the first decision of a superepoch, in which no run holds a port.
    /// Where both have waited, the one by age comes first, and the round in the next such decision.
    pub(super) fn next(&mut self, every: u32, begins_superepoch: bool) -> Option<FairTurn> {
        if every == 0 {
            return None;
        }
        self.decisions += 1;
        if !begins_superepoch {
            return None;
        }
        if self.decisions >= every && (self.aged_once || every == 1) {
            (self.decisions, self.aged_once) = (0, false);
            return Some(FairTurn::Round);
        }
        let is_due = self.decisions >= every.div_ceil(2) && !self.aged_once;
        is_due.then(|| {
            self.aged_once = true;
            FairTurn::Age(every.saturating_mul(OLD))
        })
    }

    /// Lists the demands that `turn` serves first, in `epoch` modulo 2^32.
    #[expect(clippy::cast_possible_truncation, reason = "senders are below 2^16")]
    pub(super) fn list(&mut self, turn: Option<FairTurn>, demands: &Demands, epoch: u32) {
        let Self { most, first, round, aged, .. } = self;
        first.clear();
        let pair = |(sender, to)| (sender as u16, to);
        // A walk along a list waits for the line of the cache of each demand of a large pod. The
        // first demands are usually those of the last such turn.
        let expect = |(sender, to): &Pair| demands.prefetch(usize::from(*sender), *to);
        match turn {
            None => {}
            Some(FairTurn::Round) => {
                round.iter().for_each(expect);
                round.clear();
                round.extend(demands.in_order(DemandOrder::Turn).map(pair).take(*most));
                first.extend_from_slice(round);
            }
            Some(FairTurn::Age(old)) => {
                let waits = demands.in_order(DemandOrder::Age).map(|(sender, to)| {
                    let (age, since) = demands.waits(sender, to, epoch);
                    (age, since, pair((sender, to)))
                });
                let waits = waits.take_while(|(age, ..)| *age >= old).take(*most);
                aged.iter().for_each(|(_, pair)| expect(pair));
                aged.clear();
                // Ages that differ by less than a doubling count as alike, so that demands that
                // opened one after another share.
                aged.extend(waits.map(|(age, since, pair)| {
                    (u64::from(age.ilog2()) << 32 | u64::from(since), pair)
                }));
                aged.sort_unstable_by(|one, other| other.cmp(one));
                first.extend(aged.iter().map(|(_, pair)| *pair));
            }
        }
    }

    /// What [`Self::list`] listed.
    pub(super) fn first(&self) -> &[Pair] {
        &self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::{Ladder, To};

    #[test]
    fn of_so_many_decisions_one_goes_round_and_one_by_age() {
        for every in [1, 2, 16] {
            let mut turns = Turns::new(&Shape::square(4).unwrap());
            let drawn: Vec<_> = (0..every * 4).map(|_| turns.next(every, true)).collect();
            let rounds = drawn.iter().filter(|turn| **turn == Some(FairTurn::Round)).count();
            let ages = drawn.iter().filter(|turn| matches!(turn, Some(FairTurn::Age(_)))).count();
            assert_eq!((rounds, ages), (4, if every > 1 { 4 } else { 0 }), "{every}");
        }
        let mut turns = Turns::new(&Shape::square(4).unwrap());
        assert!((0..100).all(|_| turns.next(0, true).is_none()));
    }

    #[test]
    fn both_kinds_of_turns_come_however_rarely_ports_are_free() {
        for (every, superepoch) in [(8, 8), (3, 8), (2, 5)] {
            let mut turns = Turns::new(&Shape::square(4).unwrap());
            let drawn =
                (0..superepoch * 8).map(|decision| turns.next(every, decision % superepoch == 0));
            let drawn: Vec<_> = drawn.flatten().collect();
            let (age, round) = (FairTurn::Age(every * OLD), FairTurn::Round);
            // A first decision is too early for one of eight.
            let first = usize::from(every <= 2);
            assert_eq!(drawn.len(), 7 + first, "{every} {superepoch}");
            let in_turns = drawn.chunks_exact(2).all(|pair| pair == [age, round]);
            assert!(in_turns, "{every} {superepoch}: {drawn:?}");
        }
        // Where superepochs are no longer than half of the decisions, they change no share.
        let mut turns = Turns::new(&Shape::square(4).unwrap());
        let drawn = (1..=160).filter_map(|decision| turns.next(16, decision % 8 == 0));
        let rounds = drawn.filter(|turn| *turn == FairTurn::Round).count();
        assert_eq!(rounds, 10);
    }

    #[test]
    fn old_demands_come_by_doublings_of_age_and_then_by_their_last_turn() {
        let shape = Shape::square(16).unwrap();
        let mut demands = Demands::new(shape, Ladder::One);
        for (host, opened) in [(0, 0), (1, 10), (2, 500), (3, 600), (4, 990)] {
            demands.ask(host, To::Host(9), 1, opened);
        }
        demands.send_back(0, To::Host(9), 700);
        let mut turns = Turns::new(&shape);
        turns.list(Some(FairTurn::Age(100)), &demands, 1000);
        let senders: Vec<u16> = turns.first().iter().map(|(sender, _)| *sender).collect();
        assert_eq!(senders, [1, 0, 2, 3], "512 to 1000 epochs, then 256 to 511");
        turns.list(Some(FairTurn::Round), &demands, 1000);
        let senders: Vec<u16> = turns.first().iter().map(|(sender, _)| *sender).collect();
        assert_eq!(senders, [1, 2, 3, 4, 0]);
    }
}
