//! Coding by measured loss: the code of [`Mds`], for the blocks of flows over lossy paths alone.
//! Source: ours; \[uno\] sec. 4.2 codes all flows between sites.
//!
//! ```text
//!             enough losses of links               `hold` has passed without one,
//!   uncoded ------------------------> coded for    or at least as many losses in
//!                                      `hold`      queues ---------------------> uncoded
//! ```
//!
//! A loss is one of a link where nothing shows that queues were full when the segment passed them.
//! So a flow counts its segments by slices of the time at which they left, a fraction of a round
//! trip each. A slice is judged once, when all its segments have arrived or are lost. If few of its
//! segments, and of those of the next slice, met a long queue or were lost, it is calm: its
//! segments and losses are evidence. Otherwise both count for nothing, because parity makes
//! congestion worse. The next slice counts, too, because a queue that overflows at the end of a
//! slice is long in the next one. Parity and segments that are sent again are no evidence. Where
//! other slices have at least as many losses as calm ones, nothing is coded: a queue that overflows
//! is not always seen.
//!
//! Segments that are lost long before the end of their message are sent again while the rest of it
//! leaves, which costs no time, and parity would. So only the last windows of a message are coded.
//!
//! Evidence is kept by path, not by flow (`PathLosses`): all flows of an endpoint over paths
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
        /// A segment that takes longer than the base RTT that is set by more than this has met a
        /// queue that may be full, a marked one by more than a quarter of it. auto: half the delay
        /// of the longest path's shortest queue when it is full, or 40us where none is known.
        queue: Option<Duration> = None,
            in None..=Some(Duration::from_s(2)), of_network "auto";
        /// Queues may be full where more than this share of segments waited so long or was trimmed.
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
    /// Losses of other slices.
    congested: u64,
    /// When these were last halved.
    halved: Instant,
    /// Blocks that begin before this instant are coded.
    coded_until: Instant,
}

impl PathLoss {
    /// Takes in a slice that is judged at `now`; `calm`: it and the next one are.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn count(&mut self, slice: &Slice, calm: bool, rule: &AutoParams, now: Instant) {
        let ages = now.since(self.halved).as_ps() / rule.hold.as_ps().max(1);
        if ages > 0 {
            let halvings = u32::try_from(ages).unwrap_or(u32::MAX);
            for count in [&mut self.sent, &mut self.lost, &mut self.congested] {
                *count = count.checked_shr(halvings).unwrap_or(0);
            }
            self.halved = now;
        }
        if !calm {
            self.congested += u64::from(slice.lost);
            if slice.lost > 0 && self.congested >= self.lost {
                self.coded_until = self.coded_until.min(now);
            }
            return;
        }
        self.sent += u64::from(slice.sent);
        self.lost += u64::from(slice.lost);
        // Where queues overflow, some of their losses look like those of links.
        let enough = self.lost >= u64::from(rule.losses) && self.lost > self.congested;
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

/// What an answer says of the queues that its segment passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QueueSign {
    /// Nothing.
    None,
    /// A switch marked the segment.
    Marked,
    /// A switch trimmed it.
    Refused,
}

/// A marked segment has met a queue that may be full where it waited for this part of
/// `ec.auto.queue`: phantom queues mark, too, while real ones are empty.
const MARKED_PART: u64 = 4;

/// What was chosen for a block where links were found to lose segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockChoice {
    /// The block is coded.
    Coded,
    /// The block is not coded: losses were too few, or long ago, or at least as many were in
    /// queues, or the block is long before the end of its message.
    Uncoded,
}

/// The evidence of one flow that is not judged yet, and whether the block that it sends is coded.
#[derive(Clone, Debug)]
pub(crate) struct LossWatch {
    rule: AutoParams,
    base_rtt: Duration,
    /// Most bytes that count as a window.
    bdp: Bytes,
    /// Whether the block being sent is coded.
    pub(crate) coding: bool,
    /// The choice for the block being sent, until a segment of it has left; `None` where no loss of
    /// a link was found.
    begins: Option<BlockChoice>,
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
        let (coding, begins, boundary, first, end) = (false, None, 0, 0, 0);
        Self { rule, base_rtt, bdp, coding, begins, boundary, shift, slices, first, end }
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
        let path = paths.of(self.base_rtt).copied().unwrap_or_default();
        let lossy = now < path.coded_until;
        self.coding = lossy && left as f32 <= cwnd.min(self.bdp).0 as f32 * self.rule.tail;
        self.begins = match self.coding {
            true => Some(BlockChoice::Coded),
            false => (path.lost > 0).then_some(BlockChoice::Uncoded),
        };
    }

    /// The choice for the block whose first segment has just left, once.
    pub(crate) const fn begun(&mut self) -> Option<BlockChoice> {
        self.begins.take()
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

    /// A segment that left at `sent_at` was answered. It waited for so long on its way.
    pub(crate) fn on_answer(&mut self, sent_at: Instant, waited: Duration, sign: QueueSign) {
        let queue = self.rule.queue.unwrap_or(QUEUE);
        let queued = match sign {
            QueueSign::None => waited > queue,
            QueueSign::Marked => waited > queue / MARKED_PART,
            QueueSign::Refused => true,
        };
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
            let calm = [Some(&slice), (!is_last).then_some(&self.slices[next])];
            let calm = calm.into_iter().flatten().all(|slice| slice.is_calm(&self.rule));
            path.count(&slice, calm, &self.rule, now);
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests;
