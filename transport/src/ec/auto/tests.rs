//! Tests of coding by measured loss.

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
                self.watch.on_answer(sent_at, waited, QueueSign::None);
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
    assert!(coded_after(&[slice(3, 0), slice(0, 0), slice(2, 10)]), "two slices before");
    let most = [slice(20, 10), slice(0, 0), slice(5, 0), slice(0, 0), slice(5, 0)].repeat(4);
    assert!(!coded_after(&most), "most losses are of full queues");
    assert!(coded_after(&[slice(3, 4)]), "few wait");
}

#[test]
fn refusals_and_marks_with_some_waiting_show_queues_as_long_waiting_does() {
    let mut watch = LossWatch::new(AutoParams::default(), RTT, WINDOW);
    let mut paths = PathLosses::new(true);
    let more = Duration::from_ps(1);
    for (waited, sign, queued) in [
        (QUEUE, QueueSign::None, 0),
        (QUEUE + more, QueueSign::None, 1),
        // A phantom queue marks while nothing waits.
        (QUEUE / 4, QueueSign::Marked, 1),
        (QUEUE / 4 + more, QueueSign::Marked, 2),
        (Duration::ZERO, QueueSign::Refused, 3),
    ] {
        watch.on_sent(Instant::ZERO, &mut paths);
        watch.on_answer(Instant::ZERO, waited, sign);
        assert_eq!(watch.slices[0].queued, queued);
    }
}

#[test]
fn a_queue_that_overflows_ends_the_coding_that_losses_of_links_began() {
    let mut flow = Flow::new();
    flow.rest(1);
    flow.step(slice(2, 0));
    while !flow.is_coded() {
        flow.rest(1);
    }
    flow.rest(1);
    assert!(flow.is_coded());
    flow.step(slice(40, 60));
    (0..100).for_each(|_| flow.rest(1));
    assert!(!flow.is_coded(), "before `hold` has passed");
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
    path.count(&Slice { sent: 4000, lost: 1, ..Slice::default() }, true, &rule, at(0));
    path.count(&Slice { sent: 100, lost: 1, ..Slice::default() }, true, &rule, at(1));
    assert_eq!((path.sent, path.lost, path.coded_until), (2100, 1, Instant::ZERO));
    path.count(&Slice { sent: 100, lost: 1, ..Slice::default() }, true, &rule, at(1));
    assert_eq!((path.sent, path.lost, path.coded_until), (2200, 2, at(2)));
    path.count(&Slice::default(), true, &rule, at(1000));
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
        (0..99).for_each(|_| watch.on_answer(sent_at, Duration::ZERO, QueueSign::None));
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
fn the_choice_for_a_block_counts_once_and_only_where_links_were_found_to_lose() {
    let mut flow = Flow::new();
    let choice = |flow: &mut Flow, offset, left| {
        let now = flow.now();
        flow.watch.on_offset((offset, left, 800), (now, WINDOW), &mut flow.paths);
        flow.watch.begun()
    };
    assert_eq!(choice(&mut flow, 0, 1), None);
    flow.step(slice(1, 0));
    flow.rest(40);
    assert_eq!(choice(&mut flow, 0, 1), Some(BlockChoice::Uncoded), "one may be chance");
    flow.step(slice(2, 0));
    flow.rest(40);
    assert_eq!(choice(&mut flow, 0, 1_000_000), Some(BlockChoice::Uncoded), "too early");
    let found = [100, 700, 800, 900, 1600].map(|offset| choice(&mut flow, offset, 1));
    let coded = Some(BlockChoice::Coded);
    assert_eq!(found, [None, None, coded, None, coded]);
    // A first segment that has to wait is asked about again.
    let now = flow.now();
    (0..3).for_each(|_| flow.watch.on_offset((0, 1, 800), (now, WINDOW), &mut flow.paths));
    assert_eq!([flow.watch.begun(), flow.watch.begun()], [coded, None]);
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
    (0..100).for_each(|_| watch.on_answer(at, Duration::ZERO, QueueSign::None));
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
        watch.on_answer(now, Duration::ZERO, QueueSign::None);
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
