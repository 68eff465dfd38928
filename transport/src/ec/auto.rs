//! Coding by measured loss: the code of [`Mds`], for the blocks of flows over lossy paths alone.
//! Source: ours; \[uno\] sec. 4.2 codes all flows between sites.
//!
//! ```text
//!             enough losses of links                 `hold` has passed without one
//!   uncoded ------------------------> coded for `hold` ---------------------------> uncoded
//! ```
//!
//! A loss is taken for one of a link where nothing shows that queues were full when the segment
//! passed them: in the round trip in which it left, most segments arrived, few were marked or
//! trimmed, and these did not wait long. Otherwise it is taken for congestion, which parity would
//! make worse, and changes nothing.
//!
//! Segments that are lost long before the end of their message are sent again while the rest of it
//! leaves, which costs no time, and parity would. So only the last windows of a message are coded.
//!
//! Evidence is kept by path, not by flow ([`PathLosses`]): all flows of an endpoint over paths
//! about as long share it, so a new flow to a lossy site is coded from its first block on. A
//! receiver needs no state of this, since each packet says whether its block is coded.
//!
//! Parity hides the losses that it repairs. So `hold` is also how long a lossy path stays coded
//! until it is measured again, unless blocks that could not be decoded show more losses before.

use alloc::boxed::Box;
use alloc::vec;
use core::num::NonZeroU8;

use super::{Block, BlockShape, Code, CodeParams, ErasureCode, Mds};
use crate::params::params;
use crate::registry::Registered;
use crate::time::{Duration, Instant};
use crate::units::Bytes;

params! {
    /// Settings of [`Auto`].
    pub struct AutoParams {
        /// Losses of links after which flows are coded, at least.
        losses: u16 = 2, in 1..=1000;
        /// How many windows before its end a message is coded: a loss is found within so many.
        tail: f32 = 1.5, in 0.0..=1_000_000.0;
        /// Share of segments that have to be lost so, at least.
        rate: f32 = 0.00005, in 0.0..=1.0;
        /// How long flows are coded after such a loss, and how old other evidence may be.
        hold: Duration = Duration::from_s(1), in Duration::from_ms(1)..=Duration::from_s(3600);
        /// Queues may be full where segments wait longer in the mean of a round trip.
        queue: Duration = Duration::from_us(40), in Duration::ZERO..=Duration::from_s(2);
        /// Queues may be full where more than this share of its segments was marked or trimmed.
        marked: f32 = 0.05, in 0.0..=1.0;
        /// Queues were full, or the path is dead, where more than this share of them was lost.
        share: f32 = 0.125, in 0.0..=1.0;
    }
}

/// An `(x, y)` code for some blocks.
#[derive(Clone, Debug)]
pub struct Auto {
    code: Mds,
}

impl Registered for Auto {
    const ABOUT: &'static str =
        "--ec auto, or auto:X,Y: (8,2), or X,Y, for far flows from when links lose segments";
    type Params = AutoParams;
}

impl Code for Auto {
    fn build(shape: BlockShape, _params: &CodeParams) -> Self {
        Self { code: Mds::new(shape) }
    }

    /// Blocks are those of the plain code, so that either end may have that.
    fn number() -> Option<NonZeroU8> {
        Mds::number()
    }

    fn rule(params: &CodeParams) -> Option<AutoParams> {
        Some(params.auto)
    }
}

impl ErasureCode for Auto {
    fn shape(&self) -> BlockShape {
        self.code.shape()
    }

    fn is_decodable(&self, block: &Block, have: u64) -> bool {
        self.code.is_decodable(block, have)
    }
}

/// What is known of paths about as long.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathLoss {
    /// Losses of links.
    lost: u32,
    /// Wire bytes that arrived.
    arrived: Bytes,
    /// When the latest loss of a link was found.
    found: Instant,
    /// Blocks that begin before this instant are coded.
    coded_until: Instant,
}

/// What an endpoint has found of its paths: base RTTs between two powers of two share one entry.
#[derive(Debug)]
pub struct PathLosses {
    /// By the number of bits of the base RTT in picoseconds; empty where no code is chosen by loss.
    by_length: Box<[PathLoss]>,
}

impl PathLosses {
    /// Nothing is known; `kept`: a code is chosen by loss.
    #[must_use]
    pub fn new(kept: bool) -> Self {
        Self { by_length: vec![PathLoss::default(); if kept { 64 } else { 0 }].into_boxed_slice() }
    }

    /// The entry of paths of `base_rtt`.
    fn of(&mut self, base_rtt: Duration) -> Option<&mut PathLoss> {
        let bits = u64::BITS - base_rtt.as_ps().leading_zeros();
        self.by_length.get_mut(bits.min(63) as usize)
    }
}

/// The segments that left in one round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Wire bytes that arrived.
    arrived: Bytes,
    /// Sum over acknowledgements of the time that segments waited on the way.
    waited: Duration,
    /// Acknowledgements and refusals, and how many of them were marked or refusals.
    answers: u32,
    marked: u32,
    /// Segments that were found lost.
    lost: u32,
    /// How many of them count as losses of links.
    counted: u32,
}

/// Round trips whose losses can be judged: more than the silence that counts as loss.
const ROUNDS: usize = 16;

/// What one flow has seen of its path: which of its losses are losses of links, and whether the
/// block that it sends is coded.
#[derive(Clone, Debug)]
pub struct LossWatch {
    rule: AutoParams,
    base_rtt: Duration,
    mtu: Bytes,
    /// Whether the block being sent is coded.
    pub(crate) coding: bool,
    /// When the segments of the present round began to leave.
    begun: Instant,
    /// The rounds by number; that of `round` is the present one.
    rounds: [Round; ROUNDS],
    round: usize,
}

impl LossWatch {
    /// The watch of a flow that has sent nothing over a path with `base_rtt` and segments of `mtu`.
    #[must_use]
    pub fn new(rule: AutoParams, base_rtt: Duration, mtu: Bytes) -> Self {
        let rounds = [Round::default(); ROUNDS];
        let begun = Instant::ZERO;
        Self { rule, base_rtt, mtu, coding: false, begun, rounds, round: 0 }
    }

    /// Decides at `now` whether the block that begins is coded. With it `left` bytes of its message
    /// are to be sent, through a window of `cwnd`.
    #[expect(clippy::cast_precision_loss, reason = "a bound that need not be exact")]
    pub(crate) fn begin_block(
        &mut self,
        now: Instant,
        (left, cwnd): (u32, Bytes),
        paths: &mut PathLosses,
    ) {
        let Some(known) = paths.of(self.base_rtt) else { return };
        // All losses that one acknowledgement shows are here by now.
        if known.lost >= u32::from(self.rule.losses) && self.is_enough(known) {
            *known = PathLoss {
                coded_until: known.found + self.rule.hold,
                found: known.found,
                ..PathLoss::default()
            };
        }
        self.coding = now < known.coded_until && left as f32 <= cwnd.0 as f32 * self.rule.tail;
    }

    /// A segment that left at `sent_at` was answered, and `arrived` became known with it. It waited
    /// for so long on its way; `marked`: by a switch, or it was trimmed.
    pub(crate) fn on_answer(
        &mut self,
        sent_at: Instant,
        waited: Duration,
        marked: bool,
        arrived: Bytes,
        paths: &mut PathLosses,
    ) {
        if sent_at >= self.begun + self.base_rtt {
            self.next_round(sent_at, paths);
        }
        let round = &mut self.rounds[self.round];
        round.arrived += arrived;
        round.waited += waited;
        round.answers += 1;
        round.marked += u32::from(marked);
    }

    /// Begins the round of a segment that left at `sent_at`, after the present one.
    #[cold]
    fn next_round(&mut self, sent_at: Instant, paths: &mut PathLosses) {
        if let Some(known) = paths.of(self.base_rtt) {
            known.arrived += self.rounds[self.round].arrived;
            if known.arrived > HALVED_AT {
                (known.lost, known.arrived) = (known.lost / 2, Bytes(known.arrived.0 / 2));
            }
        }
        let passed = sent_at.since(self.begun).as_ps() / self.base_rtt.as_ps().max(1);
        self.begun = self.begun + Duration::from_ps(passed * self.base_rtt.as_ps());
        // All rounds are past after as many as there are.
        for _ in 0..passed.min(ROUNDS as u64) {
            self.round = (self.round + 1) % ROUNDS;
            self.rounds[self.round] = Round::default();
        }
    }

    /// The round in which a segment left at `sent_at`; `None` when that was too long ago.
    fn round_of(&self, sent_at: Instant) -> Option<usize> {
        if sent_at >= self.begun {
            return Some(self.round);
        }
        let before = self.begun.since(sent_at).as_ps() - 1;
        let ago = usize::try_from(before / self.base_rtt.as_ps().max(1) + 1).unwrap_or(ROUNDS);
        (ago < ROUNDS).then(|| (self.round + ROUNDS - ago) % ROUNDS)
    }

    /// True when marks or delays show that the queues on the path were long in `round`.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn is_loaded(&self, round: &Round) -> bool {
        let marked = round.marked as f32 > round.answers as f32 * self.rule.marked;
        marked || round.waited > self.rule.queue * u64::from(round.answers)
    }

    /// True when nothing shows that queues were full in `round`.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn is_clear(&self, round: &Round) -> bool {
        let segments = round.arrived.0 as f32 / self.mtu.0 as f32 + round.lost as f32;
        // One loss alone is no share.
        let few = round.lost.saturating_sub(1) as f32 <= segments * self.rule.share;
        round.answers > 0 && few && !self.is_loaded(round)
    }

    /// A segment that left at `sent_at` was found lost at `now`, and was not trimmed.
    #[cold]
    pub(crate) fn on_loss(&mut self, sent_at: Instant, now: Instant, paths: &mut PathLosses) {
        let Some(at) = self.round_of(sent_at) else { return };
        self.rounds[at].lost += 1;
        let Some(known) = paths.of(self.base_rtt) else { return };
        let round = self.rounds[at];
        if !self.is_clear(&round) {
            // Losses that looked like those of a link were the first of many.
            known.lost = known.lost.saturating_sub(round.counted);
            self.rounds[at].counted = 0;
            return;
        }
        if now > known.found + self.rule.hold {
            (known.lost, known.arrived) = (0, Bytes::ZERO);
        }
        self.rounds[at].counted += 1;
        known.lost += 1;
        known.found = now;
    }

    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn is_enough(&self, known: &PathLoss) -> bool {
        let lost = self.mtu.0 * u64::from(known.lost);
        lost as f32 >= (known.arrived.0 + lost) as f32 * self.rule.rate
    }

    /// A segment that was taken for lost has arrived.
    #[cold]
    pub(crate) fn on_spurious(&mut self, paths: &mut PathLosses) {
        if let Some(known) = paths.of(self.base_rtt) {
            known.lost = known.lost.saturating_sub(1);
        }
    }
}

/// Bytes that arrived after which older ones count half, with their losses.
const HALVED_AT: Bytes = Bytes(1 << 30);

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_ms(2);
    const MTU: Bytes = Bytes(4096);

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    /// A flow of which `segments` left in each of the first `rounds` round trips. All were answered
    /// after they had waited for so long, and `marked` in a hundred of them with a mark.
    fn watched(
        (rounds, segments): (u64, u64),
        waited: Duration,
        marked: u64,
        paths: &mut PathLosses,
    ) -> LossWatch {
        let mut watch = LossWatch::new(AutoParams::default(), RTT, MTU);
        for segment in 0..rounds * segments {
            let sent_at = Instant::ZERO + RTT * segment / segments;
            watch.on_answer(sent_at, waited, segment % 100 < marked, MTU, paths);
        }
        watch
    }

    /// Segments that left at these times, us, are found lost at 9 ms.
    fn two_lost(watch: &mut LossWatch, sent_us: [u64; 2], paths: &mut PathLosses) {
        for us in sent_us {
            watch.on_loss(at(us), at(9000), paths);
        }
    }

    fn codes(watch: &mut LossWatch, now: Instant, paths: &mut PathLosses) -> bool {
        watch.begin_block(now, (1, MTU), paths);
        watch.coding
    }

    #[test]
    fn losses_of_a_link_turn_the_code_on_for_every_flow_over_such_a_path() {
        let mut paths = PathLosses::new(true);
        let mut watch = watched((4, 1000), Duration::ZERO, 1, &mut paths);
        watch.on_loss(at(3000), at(9000), &mut paths);
        assert!(!codes(&mut watch, at(9000), &mut paths), "one may be chance");
        watch.on_loss(at(5000), at(9001), &mut paths);
        assert!(codes(&mut watch, at(9001), &mut paths));
        for (rtt, coded) in [(RTT, true), (RTT * 9 / 10, true), (RTT * 4, false)] {
            let mut other = LossWatch::new(AutoParams::default(), rtt, MTU);
            assert_eq!(codes(&mut other, at(9002), &mut paths), coded, "{rtt}");
        }
        let hold = AutoParams::default().hold;
        assert!(codes(&mut watch, at(9000) + hold, &mut paths));
        assert!(!codes(&mut watch, at(9001) + hold, &mut paths), "no loss since");
    }

    #[test]
    fn losses_of_coded_blocks_prolong_the_time() {
        let mut paths = PathLosses::new(true);
        let mut watch = watched((4, 1000), Duration::ZERO, 0, &mut paths);
        two_lost(&mut watch, [3000, 5000], &mut paths);
        let hold = AutoParams::default().hold;
        let (late, end) = (at(8000) + hold, at(9000) + hold);
        watch.on_answer(late, Duration::ZERO, false, MTU, &mut paths);
        (0..2).for_each(|_| watch.on_loss(late, late, &mut paths));
        assert!(codes(&mut watch, end, &mut paths));
        assert!(!codes(&mut watch, late + hold, &mut paths));
    }

    #[test]
    fn losses_where_queues_are_full_or_paths_dead_are_no_losses_of_links() {
        let wait = AutoParams::default().queue;
        for (case, waited, marked, lost, coded) in [
            ("clear", Duration::ZERO, 1, 20, true),
            ("some are marked", Duration::ZERO, 10, 20, false),
            ("segments wait", wait + wait, 0, 20, false),
            ("many are lost", Duration::ZERO, 0, 400, false),
        ] {
            let mut paths = PathLosses::new(true);
            let mut watch = watched((4, 1000), waited, marked, &mut paths);
            (0..lost).for_each(|_| watch.on_loss(at(5000), at(9000), &mut paths));
            assert_eq!(codes(&mut watch, at(9000), &mut paths), coded, "{case}");
        }
    }

    #[test]
    fn the_last_windows_of_a_message_are_coded() {
        let mut paths = PathLosses::new(true);
        let mut watch = watched((4, 1000), Duration::ZERO, 0, &mut paths);
        two_lost(&mut watch, [3000, 5000], &mut paths);
        for (left, coded) in [(150_001, false), (150_000, true), (1, true)] {
            watch.begin_block(at(9000), (left, Bytes(100_000)), &mut paths);
            assert_eq!(watch.coding, coded, "{left}");
        }
    }

    #[test]
    fn a_rare_loss_old_losses_and_segments_that_arrived_after_all_count_for_nothing() {
        let mut paths = PathLosses::new(true);
        let mut watch = watched((4, 20_000), Duration::ZERO, 0, &mut paths);
        two_lost(&mut watch, [5000, 5000], &mut paths);
        assert!(!codes(&mut watch, at(9000), &mut paths), "2 in 60000");
        watch.on_spurious(&mut paths);
        two_lost(&mut watch, [5000, 5000], &mut paths);
        assert!(!codes(&mut watch, at(9000), &mut paths), "3 in 60000");

        let mut paths = PathLosses::new(true);
        let mut watch = watched((4, 1000), Duration::ZERO, 0, &mut paths);
        watch.on_loss(at(5000), at(9000), &mut paths);
        let late = at(9001) + AutoParams::default().hold;
        watch.on_answer(late, Duration::ZERO, false, MTU, &mut paths);
        watch.on_loss(late, late, &mut paths);
        assert!(!codes(&mut watch, late, &mut paths), "the first was long ago");
    }

    #[test]
    fn a_loss_of_a_round_trip_that_is_forgotten_or_was_never_answered_is_not_judged() {
        let mut paths = PathLosses::new(true);
        let mut watch = watched((40, 100), Duration::ZERO, 0, &mut paths);
        (0..9).for_each(|_| watch.on_loss(at(5000), at(90_000), &mut paths));
        assert!(!codes(&mut watch, at(90_000), &mut paths));
        let mut silent = LossWatch::new(AutoParams::default(), RTT, MTU);
        (0..9).for_each(|_| silent.on_loss(at(5000), at(19_000), &mut paths));
        assert!(!codes(&mut silent, at(19_000), &mut paths));
    }

    #[test]
    fn rounds_are_found_by_the_time_at_which_segments_left() {
        let mut paths = PathLosses::new(true);
        let mut watch = watched((20, 10), Duration::ZERO, 0, &mut paths);
        assert_eq!((watch.begun, watch.round), (at(38_000), 19 % ROUNDS));
        let found = [(39_000, Some(3)), (38_000, Some(3)), (37_999, Some(2)), (36_000, Some(2))];
        let older = [(35_999, Some(1)), (8_000, Some(4)), (7_999, None)];
        for (us, round) in found.into_iter().chain(older) {
            assert_eq!(watch.round_of(at(us)), round, "{us}");
        }
        watch.on_answer(at(1_000_000), Duration::ZERO, false, MTU, &mut paths);
        assert_eq!(watch.begun, at(1_000_000));
        assert_eq!(watch.rounds.iter().filter(|round| round.answers > 0).count(), 1);
    }
}
