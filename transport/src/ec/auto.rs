//! Coding by measured loss: the code of [`Mds`], for the blocks of flows over lossy paths alone.
//! Source: ours; \[uno\] sec. 4.2 codes all flows between sites.
//!
//! ```text
//!             enough losses of links                 `hold` has passed without one
//!   uncoded ------------------------> coded for `hold` ---------------------------> uncoded
//! ```
//!
//! A loss is one of a link where nothing shows that queues were full when the segment passed them.
//! So a flow counts its segments by slices of the time at which they left, a fraction of a round
//! trip each. A slice is judged once, when all its segments have arrived or are lost. If few of its
//! segments, and of those of the next slice, met a long queue or were lost, it is calm: its
//! segments and losses are evidence. Otherwise both count for nothing, because parity makes
//! congestion worse. The next slice counts, too, because a queue that overflows at the end of a
//! slice is long in the next one. Parity and segments that are sent again are no evidence.
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
use crate::path::NetworkFacts;
use crate::registry::Registered;
use crate::time::{Duration, Instant};
use crate::units::Bytes;

params! {
    /// Settings of [`Auto`].
    pub struct AutoParams {
        /// Losses of links after which flows are coded, at least.
        losses: u16 = 2, in 1..=1000;
        /// The part of a message that is coded: the bytes of so many windows before its end, each
        /// of a BDP at most. Segments that are lost before are sent again while these leave.
        tail: f32 = 1.5, in 0.0..=1_000_000.0;
        /// Share of segments that links have to lose, at least.
        rate: f32 = 0.00005, in 0.0..=1.0;
        /// How long flows are coded after such a loss, and the age at which evidence counts half.
        hold: Duration = Duration::from_s(1), in Duration::from_ms(1)..=Duration::from_s(3600);
        /// A segment that waits longer has met a queue that may be full; auto: half the delay of
        /// the longest path's shortest queue when it is full, or 40us where queues are not known.
        queue: Option<Duration> = None,
            in None..=Some(Duration::from_s(2)), of_network "auto";
        /// Queues may be full where more than this share of segments waited so long, was marked or
        /// was trimmed.
        marked: f32 = 0.05, in 0.0..=1.0;
        /// Queues were full, or the path is dead, where more than this share of segments was lost.
        share: f32 = 0.125, in 0.0..=1.0;
    }
}

/// The wait that shows a queue where queues are not known: half of 1 MB at 100 Gb/s.
const QUEUE: Duration = Duration::from_us(40);

/// An `(x, y)` code for some blocks.
#[derive(Clone, Debug)]
pub struct Auto {
    code: Mds,
}

impl Registered for Auto {
    const ABOUT: &'static str =
        "--ec auto, or auto:X,Y: (8,2), or X,Y, for far flows from when links lose segments";
    type Params = AutoParams;

    fn resolve(params: &mut AutoParams, facts: &NetworkFacts) {
        if let (None, Some(queues)) = (params.queue, facts.queues) {
            params.queue = Some((queues.least / 2).min(Duration::from_s(2)));
        }
    }
}

impl Code for Auto {
    fn build(shape: BlockShape, _params: &CodeParams) -> Self {
        Self { code: Mds::new(shape) }
    }

    /// Blocks are those of the plain code, so that either end may have that.
    fn number() -> Option<NonZeroU8> {
        Mds::number()
    }

    fn is_by_loss() -> bool {
        true
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

/// The evidence about paths about as long.
#[derive(Clone, Copy, Debug, Default)]
struct PathLoss {
    /// Segments of calm slices, and how many of them were lost.
    sent: u64,
    lost: u64,
    /// When both were last halved.
    halved: Instant,
    /// Blocks that begin before this instant are coded.
    coded_until: Instant,
}

impl PathLoss {
    /// Takes in the segments of a calm slice, judged at `now`.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn count(&mut self, slice: &Slice, rule: &AutoParams, now: Instant) {
        let ages = now.since(self.halved).as_ps() / rule.hold.as_ps().max(1);
        if ages > 0 {
            let halvings = u32::try_from(ages).unwrap_or(u32::MAX);
            self.sent = self.sent.checked_shr(halvings).unwrap_or(0);
            self.lost = self.lost.checked_shr(halvings).unwrap_or(0);
            self.halved = now;
        }
        self.sent += u64::from(slice.sent);
        self.lost += u64::from(slice.lost);
        let enough = self.lost >= u64::from(rule.losses);
        if slice.lost > 0 && enough && self.lost as f32 >= self.sent as f32 * rule.rate {
            self.coded_until = now + rule.hold;
        }
    }
}

/// The evidence of an endpoint: base RTTs between two powers of two share one entry.
#[derive(Debug)]
pub(crate) struct PathLosses {
    /// By the number of bits of the base RTT in picoseconds; empty where no code is chosen by loss.
    by_length: Box<[PathLoss]>,
}

impl PathLosses {
    /// No evidence; `kept`: a code is chosen by loss.
    pub(crate) fn new(kept: bool) -> Self {
        Self { by_length: vec![PathLoss::default(); if kept { 64 } else { 0 }].into_boxed_slice() }
    }

    /// The entry of paths of `base_rtt`.
    fn of(&mut self, base_rtt: Duration) -> Option<&mut PathLoss> {
        let bits = u64::BITS - base_rtt.as_ps().leading_zeros();
        self.by_length.get_mut(bits.min(63) as usize)
    }
}

/// The segments that left for the first time in one slice of time.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    /// Segments that left.
    sent: u32,
    /// Acknowledgements and refusals, and how many of them show a long queue.
    answers: u32,
    queued: u32,
    /// Segments that were found lost and were not trimmed.
    lost: u32,
}

impl Slice {
    /// True when nothing shows that queues were full.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn is_calm(&self, rule: &AutoParams) -> bool {
        let free = self.queued as f32 <= self.answers as f32 * rule.marked;
        // One loss alone is no share.
        let few = self.lost.saturating_sub(1) as f32 <= self.sent as f32 * rule.share;
        self.sent == 0 || (self.answers > 0 && free && few)
    }
}

/// Slices that are kept, a power of two: 8 to 16 base RTTs, more than the silence that counts as
/// loss.
const SLICES: usize = 64;

/// The evidence of one flow that is not judged yet, and whether the block that it sends is coded.
#[derive(Clone, Debug)]
pub(crate) struct LossWatch {
    rule: AutoParams,
    base_rtt: Duration,
    /// Most bytes that count as a window.
    bdp: Bytes,
    /// Whether the block being sent is coded.
    pub(crate) coding: bool,
    /// Offset in its message at which the next block begins.
    boundary: u32,
    /// A slice lasts 2 to the power of this, picoseconds.
    shift: u32,
    /// Slices by number, modulo [`SLICES`]: `first` is the oldest that is not judged, `end` the one
    /// after the newest in which a segment left.
    slices: [Slice; SLICES],
    first: u64,
    end: u64,
}

// One for each flow that may be coded by loss.
const _: () = assert!(size_of::<LossWatch>() <= 1136);

impl LossWatch {
    /// The watch of a flow that has sent nothing over a path with these.
    pub(crate) fn new(rule: AutoParams, base_rtt: Duration, bdp: Bytes) -> Self {
        let shift = (base_rtt.as_ps() / 4).max(1).ilog2();
        let slices = [Slice::default(); SLICES];
        Self { rule, base_rtt, bdp, coding: false, boundary: 0, shift, slices, first: 0, end: 0 }
    }

    /// Decides whether the block at `offset` of a message is coded, if one of so many `bytes`
    /// begins there. With it `left` bytes of the message are to be sent, through a window of
    /// `cwnd`.
    #[expect(clippy::cast_precision_loss, reason = "a bound that need not be exact")]
    pub(crate) fn on_offset(
        &mut self,
        (offset, left, bytes): (u32, u32, u32),
        (now, cwnd): (Instant, Bytes),
        paths: &mut PathLosses,
    ) {
        if offset != 0 && offset != self.boundary {
            return;
        }
        self.boundary = offset.saturating_add(bytes);
        let lossy = paths.of(self.base_rtt).is_some_and(|path| now < path.coded_until);
        self.coding = lossy && left as f32 <= cwnd.min(self.bdp).0 as f32 * self.rule.tail;
    }

    /// A segment leaves at `now` for the first time.
    pub(crate) fn on_sent(&mut self, now: Instant, paths: &mut PathLosses) {
        let number = now.as_ps() >> self.shift;
        if number >= self.end {
            // A slice whose place is needed is judged by what is found until then.
            let oldest = (number + 1).saturating_sub(SLICES as u64);
            self.judge_until(oldest, now, paths);
            self.first = if self.first == self.end { number } else { self.first.max(oldest) };
            self.end = number + 1;
        }
        if let Some(slice) = self.slice_at(now) {
            slice.sent += 1;
        }
    }

    /// The slice of a segment that left at `sent_at`; `None` when it is judged.
    fn slice_at(&mut self, sent_at: Instant) -> Option<&mut Slice> {
        let number = sent_at.as_ps() >> self.shift;
        let at = usize::try_from(number % SLICES as u64).unwrap_or(0);
        (self.first..self.end).contains(&number).then(|| &mut self.slices[at])
    }

    /// A segment that left at `sent_at` was answered. It waited for so long on its way; `marked`:
    /// by a switch, or it was trimmed.
    pub(crate) fn on_answer(&mut self, sent_at: Instant, waited: Duration, marked: bool) {
        let queued = marked || waited > self.rule.queue.unwrap_or(QUEUE);
        if let Some(slice) = self.slice_at(sent_at) {
            slice.answers += 1;
            slice.queued += u32::from(queued);
        }
    }

    /// A segment that left at `sent_at` for the first time was found lost, and was not trimmed.
    #[cold]
    pub(crate) fn on_loss(&mut self, sent_at: Instant) {
        if let Some(slice) = self.slice_at(sent_at) {
            slice.lost += 1;
        }
    }

    /// A segment that left at `sent_at` and was taken for lost has arrived.
    #[cold]
    pub(crate) fn on_spurious(&mut self, sent_at: Instant) {
        if let Some(slice) = self.slice_at(sent_at) {
            slice.lost = slice.lost.saturating_sub(1);
        }
    }

    /// All segments that left before `limit` have arrived or are lost.
    pub(crate) fn judge(&mut self, limit: Instant, now: Instant, paths: &mut PathLosses) {
        // The slice after a judged one is over, too.
        let over = (limit.as_ps() >> self.shift).saturating_sub(1);
        if over > self.first {
            self.judge_until(over, now, paths);
        }
    }

    /// All segments have arrived.
    pub(crate) fn judge_all(&mut self, now: Instant, paths: &mut PathLosses) {
        self.judge_until(self.end, now, paths);
    }

    /// Judges all slices before number `until`.
    fn judge_until(&mut self, until: u64, now: Instant, paths: &mut PathLosses) {
        let Some(path) = paths.of(self.base_rtt) else { return };
        // Bounded by the slices that are kept.
        while self.first < until.min(self.end) {
            let [at, next] = [0, 1]
                .map(|ahead| usize::try_from((self.first + ahead) % SLICES as u64).unwrap_or(0));
            let slice = core::mem::take(&mut self.slices[at]);
            let is_last = self.first + 1 == self.end;
            if slice.is_calm(&self.rule) && (is_last || self.slices[next].is_calm(&self.rule)) {
                path.count(&slice, &self.rule, now);
            }
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const RTT: Duration = Duration::from_ms(2);
    const WINDOW: Bytes = Bytes(100_000);

    /// A flow whose answers come after a round trip, and whose losses are found three later, each
    /// while further segments leave.
    struct Flow {
        watch: LossWatch,
        paths: PathLosses,
        /// What happens to the segments of each slice.
        slices: Vec<Slice>,
        /// Whether some block could have been coded.
        coded: bool,
    }

    /// A slice of a hundred segments.
    fn slice(lost: u32, queued: u32) -> Slice {
        Slice { sent: 100, answers: 100 - lost, queued, lost }
    }

    fn is_coded(watch: &mut LossWatch, now: Instant, paths: &mut PathLosses) -> bool {
        watch.on_offset((0, 1, 1), (now, WINDOW), paths);
        watch.coding
    }

    impl Flow {
        fn new() -> Self {
            let watch = LossWatch::new(AutoParams::default(), RTT, WINDOW);
            Self { watch, paths: PathLosses::new(true), slices: Vec::new(), coded: false }
        }

        fn at(&self, number: usize) -> Instant {
            Instant::from_ps((number as u64) << self.watch.shift)
        }

        fn now(&self) -> Instant {
            self.at(self.slices.len())
        }

        /// The next slice begins.
        fn step(&mut self, slice: Slice) {
            let (now, number) = (self.now(), self.slices.len());
            self.slices.push(slice);
            (0..slice.sent).for_each(|_| self.watch.on_sent(now, &mut self.paths));
            if let Some(answered) = number.checked_sub(8) {
                let (slice, sent_at) = (self.slices[answered], self.at(answered));
                for answer in 0..slice.answers {
                    let waited = if answer < slice.queued { QUEUE * 2 } else { QUEUE / 2 };
                    self.watch.on_answer(sent_at, waited, false);
                }
            }
            if let Some(over) = number.checked_sub(32) {
                for _ in 0..self.slices[over].lost {
                    self.watch.on_loss(self.at(over));
                    self.coded |= self.is_coded();
                }
                self.watch.judge(self.at(over + 1), now, &mut self.paths);
            }
            self.coded |= self.is_coded();
        }

        fn is_coded(&mut self) -> bool {
            let now = self.now();
            is_coded(&mut self.watch, now, &mut self.paths)
        }

        /// So many slices without a loss.
        fn rest(&mut self, slices: usize) {
            (0..slices).for_each(|_| self.step(slice(0, 0)));
        }
    }

    /// Whether a flow is coded at any time after these slices, between others without a loss.
    fn coded_after(slices: &[Slice]) -> bool {
        let mut flow = Flow::new();
        flow.rest(40);
        slices.iter().for_each(|slice| flow.step(*slice));
        flow.rest(80);
        flow.coded
    }

    #[test]
    fn two_losses_of_a_link_turn_the_code_on_for_every_flow_over_such_a_path() {
        assert!(!coded_after(&[slice(1, 0)]), "one may be chance");
        assert!(coded_after(&[slice(2, 0)]));
        let mut flow = Flow::new();
        for lost in [1, 0, 1] {
            flow.step(slice(lost, 0));
        }
        flow.rest(40);
        assert!(flow.is_coded());
        let now = flow.now();
        for (rtt, coded) in [(RTT, true), (RTT * 9 / 10, true), (RTT * 4, false)] {
            let mut other = LossWatch::new(AutoParams::default(), rtt, WINDOW);
            assert_eq!(is_coded(&mut other, now, &mut flow.paths), coded, "{rtt}");
        }
    }

    #[test]
    fn losses_where_queues_are_full_or_paths_are_dead_never_turn_it_on() {
        let dead = Slice { sent: 100, answers: 0, queued: 0, lost: 2 };
        for (case, slices) in [
            ("segments wait", &[slice(3, 10)][..]),
            ("segments wait in the next slice", &[slice(3, 0), slice(0, 10)]),
            ("many are lost", &[slice(30, 0)]),
            ("many are lost in the next slice", &[slice(3, 0), slice(30, 0)]),
            ("no answer", &[dead]),
            ("no answer in the next slice", &[slice(3, 0), dead]),
            ("a burst over several", &[slice(2, 0), slice(20, 50), slice(9, 90)]),
        ] {
            assert!(!coded_after(slices), "{case}");
        }
        assert!(coded_after(&[slice(3, 0), slice(0, 0), slice(3, 10)]), "two slices before");
        assert!(coded_after(&[slice(3, 4)]), "few wait");
    }

    #[test]
    fn marks_and_refusals_show_queues_as_waiting_does() {
        let mut watch = LossWatch::new(AutoParams::default(), RTT, WINDOW);
        let mut paths = PathLosses::new(true);
        for (waited, marked, queued) in
            [(QUEUE, false, 0), (QUEUE + Duration::from_ps(1), false, 1), (QUEUE, true, 2)]
        {
            watch.on_sent(Instant::ZERO, &mut paths);
            watch.on_answer(Instant::ZERO, waited, marked);
            assert_eq!(watch.slices[0].queued, queued);
        }
    }

    #[test]
    fn a_flow_is_coded_for_so_long_after_its_latest_loss_of_a_link() {
        let (mut flow, hold) = (Flow::new(), AutoParams::default().hold);
        flow.rest(1);
        flow.step(slice(2, 0));
        while !flow.is_coded() {
            flow.rest(1);
        }
        let begun = flow.now();
        let coded = |flow: &mut Flow, at| is_coded(&mut flow.watch, at, &mut flow.paths);
        assert!(coded(&mut flow, begun.before(RTT) + hold) && !coded(&mut flow, begun + hold));
        // One of a coded block, which parity did not repair, is enough.
        flow.step(slice(1, 0));
        flow.rest(40);
        let later = begun + hold + RTT;
        assert!(coded(&mut flow, later) && !coded(&mut flow, later + RTT * 10));
    }

    #[test]
    fn segments_and_losses_age_together() {
        let rule = AutoParams::default();
        let mut path = PathLoss { halved: Instant::ZERO, ..PathLoss::default() };
        let at = |holds: u64| Instant::ZERO + rule.hold * holds;
        path.count(&Slice { sent: 4000, lost: 1, ..Slice::default() }, &rule, at(0));
        path.count(&Slice { sent: 100, lost: 1, ..Slice::default() }, &rule, at(1));
        assert_eq!((path.sent, path.lost, path.coded_until), (2100, 1, Instant::ZERO));
        path.count(&Slice { sent: 100, lost: 1, ..Slice::default() }, &rule, at(1));
        assert_eq!((path.sent, path.lost, path.coded_until), (2200, 2, at(2)));
        path.count(&Slice::default(), &rule, at(1000));
        assert_eq!((path.sent, path.lost), (0, 0));
    }

    #[test]
    fn losses_that_are_rare_among_all_segments_of_such_paths_are_left_to_resending() {
        let (mut long, rule) = (Flow::new(), AutoParams::default());
        for lost in [1, 0, 0, 0, 1] {
            let sent = 10_000;
            long.step(Slice { sent, lost, answers: sent - lost, queued: 0 });
        }
        long.rest(80);
        assert!(!long.coded);
        // As many segments in flows shorter than a slice.
        let mut paths = PathLosses::new(true);
        for flow in 0..600_u64 {
            let mut watch = LossWatch::new(rule, RTT, WINDOW);
            let sent_at = Instant::ZERO + RTT * flow;
            assert!(!is_coded(&mut watch, sent_at, &mut paths), "{flow}");
            (0..100).for_each(|_| watch.on_sent(sent_at, &mut paths));
            (0..99).for_each(|_| watch.on_answer(sent_at, Duration::ZERO, false));
            (0..u32::from(flow % 400 == 199)).for_each(|_| watch.on_loss(sent_at));
            watch.judge_all(sent_at + RTT * 5, &mut paths);
        }
        assert!(paths.of(RTT).is_some_and(|path| path.lost == 1 && path.sent > 30_000));
    }

    #[test]
    fn the_last_windows_of_a_message_are_coded() {
        let mut flow = Flow::new();
        flow.step(slice(2, 0));
        flow.rest(40);
        let now = flow.now();
        for (left, cwnd, coded) in [
            (150_001, WINDOW, false),
            (150_000, WINDOW, true),
            (150_001, Bytes(u64::MAX), false),
            (15_001, Bytes(10_000), false),
        ] {
            flow.watch.on_offset((0, left, 1), (now, cwnd), &mut flow.paths);
            assert_eq!(flow.watch.coding, coded, "{left}");
        }
    }

    #[test]
    fn a_block_is_coded_as_a_whole() {
        let mut flow = Flow::new();
        let coded = |flow: &mut Flow, offset| {
            let now = flow.now();
            flow.watch.on_offset((offset, 1, 800), (now, WINDOW), &mut flow.paths);
            flow.watch.coding
        };
        assert!(!coded(&mut flow, 0));
        flow.slices.push(slice(0, 0));
        flow.paths.of(RTT).unwrap().coded_until = flow.now() + RTT;
        let found = [100, 700, 800, 900, 1600].map(|offset| coded(&mut flow, offset));
        assert_eq!(found, [false, false, true, true, true]);
        (0..80).for_each(|_| flow.slices.push(slice(0, 0)));
        // A message that is begun again begins with a block.
        assert_eq!([1700, 0, 100].map(|offset| coded(&mut flow, offset)), [true, false, false]);
    }

    #[test]
    fn segments_that_arrive_after_all_were_not_lost() {
        let (mut watch, mut paths) =
            (LossWatch::new(AutoParams::default(), RTT, WINDOW), PathLosses::new(true));
        let at = Instant::ZERO + RTT;
        (0..100).for_each(|_| watch.on_sent(at, &mut paths));
        (0..100).for_each(|_| watch.on_answer(at, Duration::ZERO, false));
        (0..2).for_each(|_| watch.on_loss(at));
        // One of a time at which nothing left takes nothing away.
        watch.on_spurious(at + RTT);
        assert_eq!(watch.slice_at(at).unwrap().lost, 2);
        watch.on_spurious(at);
        watch.judge_all(at + RTT, &mut paths);
        let path = paths.of(RTT).unwrap();
        assert_eq!((path.sent, path.lost), (100, 1));
        watch.on_spurious(at);
        watch.on_loss(at);
        assert_eq!(watch.first, watch.end);
    }

    #[test]
    fn a_slice_is_judged_once_and_when_its_place_is_needed_at_the_latest() {
        let (mut watch, mut paths) =
            (LossWatch::new(AutoParams::default(), RTT, WINDOW), PathLosses::new(true));
        let at = |number: u64| Instant::from_ps(number << watch.shift);
        let times = [0, 1, 5, 63, 64, 70, 300, 301].map(at);
        let mut sent = 0;
        for now in times {
            watch.on_sent(now, &mut paths);
            watch.on_answer(now, Duration::ZERO, false);
            sent += 1;
            let kept: u32 = watch.slices.iter().map(|slice| slice.sent).sum();
            assert_eq!(u64::from(kept) + paths.of(RTT).unwrap().sent, sent);
            assert!(watch.end - watch.first <= SLICES as u64);
        }
        assert_eq!((watch.first, watch.end), (300, 302));
        watch.judge(times[7], times[7], &mut paths);
        assert_eq!((watch.first, paths.of(RTT).unwrap().sent), (300, 6));
        watch.judge_all(times[7], &mut paths);
        watch.judge_all(times[7], &mut paths);
        assert_eq!((watch.first, paths.of(RTT).unwrap().sent), (302, 8));
    }

    #[test]
    fn the_wait_that_shows_a_queue_is_half_of_the_shortest_one() {
        let queues = crate::path::QueueFacts { least: QUEUE, ..Default::default() };
        let facts = NetworkFacts { queues: Some(queues), ..NetworkFacts::default() };
        for (set, found) in [(None, QUEUE / 2), (Some(QUEUE * 3), QUEUE * 3)] {
            let mut params = AutoParams { queue: set, ..AutoParams::default() };
            Auto::resolve(&mut params, &facts);
            assert_eq!((params.queue, params.validate()), (Some(found), Ok(())));
        }
        let mut unknown = AutoParams::default();
        Auto::resolve(&mut unknown, &NetworkFacts::default());
        assert_eq!(unknown.queue, None);
    }
}
