//! Erasure-coded blocks of which some packet has arrived, and when to ask for the packets that they
//! lack. Source: \[uno\] sec. 4.2.
//!
//! One list serves all flows of an endpoint: every block has the same time to arrive, so the list
//! is in order of time, and one timer is enough. When the time of a block is over and more of its
//! packets have arrived meanwhile, it gets the same time again: its sender is slow, or sends again
//! (`ec.block_timer=pause`). Otherwise the receiver asks for the missing packets. A block that was
//! asked for moves to a further list. Its time is one round trip longer there, and doubles after
//! each request without an answer. The flow's bitmap of PSNs says which packets of a block have
//! arrived (their PSNs are consecutive). A complete block is removed when it reaches the head of
//! the list. Bounded: the oldest block of a list is dropped when there is no room; its sender's
//! timeout remains.

use alloc::collections::VecDeque;

use super::recovery::BlockSpan;
use crate::config::Config;
use crate::ec::{BlockTimer, EcKind};
use crate::time::{Duration, Instant};
use crate::units::{EntropyValue, FlowId};

/// A block that was not whole when it was last looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OpenBlock {
    /// When its first packet arrived, or it was last looked at.
    pub(crate) since: Instant,
    /// Unanswered requests for the block; counts up to the last list.
    pub(crate) asked: u8,
    /// Packets of the block that had arrived when it was last looked at, 1..=64.
    pub(crate) have: u8,
    /// The incoming flow.
    pub(crate) flow: FlowId,
    /// The packets of the block.
    pub(crate) span: BlockSpan,
    /// The path that its first packet took.
    pub(crate) ev: EntropyValue,
}

const _: () = assert!(size_of::<OpenBlock>() <= 24);

/// The open blocks of an endpoint.
#[derive(Debug)]
pub(crate) struct OpenBlocks {
    /// Lists by the number of unanswered requests.
    lists: [List; LISTS],
    /// Blocks in all lists.
    waiting: usize,
}

/// Blocks in order of time, all with the same time to wait.
#[derive(Debug)]
struct List {
    blocks: VecDeque<OpenBlock>,
    wait: Duration,
    /// Blocks at most.
    capacity: usize,
}

/// Blocks of a list at least.
const CAPACITY: usize = 2048;
/// Blocks of a list at most: 1.5 MB.
const CAPACITY_MAX: u64 = 1 << 16;
/// The time to wait doubles up to 64 times its first value.
const LISTS: usize = 8;

impl OpenBlocks {
    /// Empty lists, with memory for as many blocks as there may be.
    pub(crate) fn new(config: &Config) -> Self {
        let first = config.block_wait();
        let list = |asked: usize| {
            let again = (first + config.base_rtt) * (1 << asked.saturating_sub(1));
            let (wait, capacity) = match asked {
                0 => (first, opened_within(first, config)),
                _ => (again, CAPACITY),
            };
            let capacity = if config.ec == EcKind::Uncoded { 0 } else { capacity };
            List { blocks: VecDeque::with_capacity(capacity), wait, capacity }
        };
        Self { lists: core::array::from_fn(list), waiting: 0 }
    }

    /// A block has been asked for at `now`: it waits again, longer.
    pub(crate) fn wait_again(&mut self, block: OpenBlock, now: Instant) {
        self.wait_for(OpenBlock { since: now, asked: block.asked.saturating_add(1), ..block });
    }

    /// The first packet of a block has arrived.
    pub(crate) fn wait_for(&mut self, block: OpenBlock) {
        let list = &mut self.lists[usize::from(block.asked).min(LISTS - 1)];
        if list.blocks.len() == list.capacity {
            list.blocks.pop_front();
            self.waiting -= 1;
        }
        list.blocks.push_back(block);
        self.waiting += 1;
    }

    /// When the next block is due.
    #[inline]
    pub(crate) fn poll_at(&self) -> Option<Instant> {
        if self.waiting == 0 {
            return None;
        }
        let due = |list: &List| list.blocks.front().map(|block| block.since + list.wait);
        self.lists.iter().filter_map(due).min()
    }

    /// Takes a block that is due by `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<OpenBlock> {
        let due = self.lists.iter_mut().find_map(|list| {
            let due = list.blocks.front().is_some_and(|block| block.since + list.wait <= now);
            if due { list.blocks.pop_front() } else { None }
        });
        self.waiting -= usize::from(due.is_some());
        due
    }

    /// Takes blocks that are `over` off the front of each list. Amortised O(1).
    #[inline]
    pub(crate) fn clean(&mut self, over: impl Fn(&OpenBlock) -> bool) {
        if self.waiting == 0 {
            return;
        }
        for list in &mut self.lists {
            while list.blocks.front().is_some_and(&over) {
                list.blocks.pop_front();
                self.waiting -= 1;
            }
        }
    }
}

/// Blocks in the first list at most. Behind a block that waits for all of `span` stand all blocks
/// that opened meanwhile, and with `ec.block_timer=pause` as many that wait again. A block that
/// waits has at least two packets of data, of which one may be short, and its parity. The number is
/// at most [`CAPACITY_MAX`]; beyond it the oldest block is left to its sender's timeout.
fn opened_within(span: Duration, config: &Config) -> usize {
    let shortest = u64::from(config.payload_max) * (1 + u64::from(config.ec_shape.parity()));
    let opened = config.line_rate.bytes_in(span).0 / shortest.max(1);
    let times = match config.ec_params.block_timer {
        BlockTimer::Pause => 2,
        BlockTimer::Whole => 1,
    };
    usize::try_from((times * opened).min(CAPACITY_MAX)).unwrap_or(CAPACITY).max(CAPACITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::time::Rate;
    use crate::units::Psn;
    use alloc::vec::Vec;

    fn block_at(us: u64) -> OpenBlock {
        let span = BlockSpan { first: Psn(u32::try_from(us).unwrap()), packets: 10 };
        let since = Instant::ZERO + Duration::from_us(us);
        OpenBlock { asked: 0, have: 1, since, flow: FlowId::new(1, 1), span, ev: EntropyValue(7) }
    }

    #[test]
    fn a_block_is_due_a_timeout_after_it_opened_and_ever_later_once_asked_for() {
        let settings = Settings { ec: EcKind::Mds, ..Settings::default() };
        let config = Config::new(settings).unwrap();
        let mut blocks = OpenBlocks::new(&config);
        let after = |us, more| Instant::ZERO + Duration::from_us(us) + more;
        let wait = config.ec_params.patience();
        blocks.wait_for(block_at(1));
        blocks.wait_for(block_at(5));
        blocks.wait_again(block_at(0), after(2, Duration::ZERO));
        assert_eq!(blocks.poll_at(), Some(after(1, wait)));
        assert_eq!(blocks.pop_due(after(0, wait)), None);
        assert_eq!(blocks.pop_due(after(1, wait)), Some(block_at(1)));
        assert_eq!(blocks.poll_at(), Some(after(5, wait)));
        blocks.clean(|open| open.span.first == Psn(5));
        let again = (wait + config.base_rtt) * 64;
        assert_eq!(blocks.poll_at(), Some(after(2, wait + config.base_rtt)));
        for asked in 1..100 {
            let open = blocks.pop_due(Instant::FAR_FUTURE).unwrap();
            assert_eq!(open.asked, asked);
            blocks.wait_again(open, Instant::ZERO);
        }
        assert_eq!(blocks.poll_at(), Some(after(0, again)));
        blocks.clean(|_| true);
        assert_eq!((blocks.poll_at(), blocks.waiting), (None, 0));
    }

    #[test]
    fn a_whole_block_has_the_time_that_it_takes_on_a_line_of_any_rate() {
        let (set, auto) = (Some(Duration::from_us(80)), None);
        for (gbps, timer, timeout, longer) in [
            (1, BlockTimer::Whole, auto, true),
            (100, BlockTimer::Whole, auto, true),
            (1, BlockTimer::Whole, set, false),
            (1, BlockTimer::Pause, auto, false),
        ] {
            let mut settings = Settings { ec: EcKind::Mds, ..Settings::default() };
            settings.line_rate = Rate::from_gbps(gbps);
            (settings.ec_params.block_timer, settings.ec_params.block_timeout) = (timer, timeout);
            let config = Config::new(settings).unwrap();
            let mut blocks = OpenBlocks::new(&config);
            blocks.wait_for(block_at(0));
            // Eight packets of data and two of parity.
            let block = config.line_rate.time_for(config.mtu()) * 10;
            let transmission = if longer { block } else { Duration::ZERO };
            let due = Instant::ZERO + Duration::from_us(80) + transmission;
            assert_eq!(blocks.poll_at(), Some(due), "{gbps} {timer:?} {timeout:?}");
        }
    }

    #[test]
    fn all_blocks_that_open_while_one_waits_for_its_time_have_a_place() {
        let spans = [(100, 80), (100, 6000), (400, 6000)];
        let timers = [(BlockTimer::Whole, 1), (BlockTimer::Pause, 2)];
        let rows = spans.iter().flat_map(|span| timers.map(|timer| (*span, timer)));
        for ((gbps, wait_us), (timer, times)) in rows {
            let mut settings = Settings { ec: EcKind::Mds, ..Settings::default() };
            settings.line_rate = Rate::from_gbps(gbps);
            settings.ec_params.block_timeout = Some(Duration::from_us(wait_us));
            settings.ec_params.block_timer = timer;
            let payload = u64::from(settings.payload_max);
            let config = Config::new(settings).unwrap();
            // Eight packets of data or one and a byte, and two of parity.
            for bytes in [10 * payload, 3 * payload + 1] {
                let opened = config.line_rate.bytes_in(Duration::from_us(wait_us)).0 / bytes;
                let mut blocks = OpenBlocks::new(&config);
                (0..times * opened).for_each(|us| blocks.wait_for(block_at(us)));
                let first = blocks.pop_due(Instant::FAR_FUTURE);
                assert_eq!(first, Some(block_at(0)), "{gbps} {wait_us} {timer:?} {bytes}");
                (0..=CAPACITY_MAX).for_each(|us| blocks.wait_for(block_at(us)));
                assert!(blocks.waiting as u64 <= CAPACITY_MAX);
            }
        }
    }

    #[test]
    fn when_there_is_no_room_the_oldest_is_forgotten_and_nothing_grows() {
        let settings = Settings { ec: EcKind::Mds, ..Settings::default() };
        let mut blocks = OpenBlocks::new(&Config::new(settings).unwrap());
        blocks.lists[0].capacity = 3;
        (0..9).for_each(|us| blocks.wait_for(block_at(us)));
        let far = Instant::FAR_FUTURE;
        let left: Vec<_> = core::iter::from_fn(|| blocks.pop_due(far)).collect();
        assert_eq!(left, [6, 7, 8].map(block_at));
        assert_eq!(blocks.waiting, 0);
    }
}
