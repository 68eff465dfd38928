//! The answers of an endpoint's receiving flows until they leave, and the telemetry that they echo.

use alloc::collections::VecDeque;

use super::Answer;
use crate::config::Config;
use crate::ec::EcKind;
use crate::flow::halves::Halves;
use crate::flow::notice::Notice;
use crate::flow::pending::PendingAck;
use crate::sched::AckMode;
use crate::segment::BURST;
use crate::stats::Stats;
use crate::units::FlowId;
use crate::wire::int::Int;

/// Acknowledgements that wait for the device.
#[derive(Debug)]
pub(crate) struct AckQueue {
    queue: VecDeque<Answer>,
    /// Answers that wait at most: `acks_waiting_max`, or fewer where no packet acknowledges or asks
    /// for segments.
    capacity: usize,
    /// What switches wrote into segments, for the acknowledgements in `queue` that echo it.
    echoes: VecDeque<Int>,
    /// Acknowledgements beyond so many go without.
    echoes_max: usize,
}

/// Most acknowledgements with telemetry that wait.
const ECHOES_MAX: usize = 8 * BURST;

impl AckQueue {
    /// An empty queue with the room that `config` says.
    pub(crate) fn new(config: &Config) -> Self {
        let most = config.acks_waiting_max as usize;
        let few = config.ack_mode() == AckMode::Reported && config.ec == EcKind::Uncoded;
        // Then only answers to a burst wait, and a KEEP for each outgoing flow.
        let others = 2 * BURST + config.tx_flows_max as usize;
        let capacity = if few { most.min(others) } else { most };
        let echoes_max = if config.has_extensions() { ECHOES_MAX } else { 0 };
        let (queue, echoes) =
            (VecDeque::with_capacity(capacity), VecDeque::with_capacity(echoes_max));
        Self { queue, capacity, echoes, echoes_max }
    }

    /// Whether no answer waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Queues `ack`; the oldest is discarded when there is no room.
    #[inline]
    pub(crate) fn push(&mut self, flow: FlowId, ack: PendingAck, stats: &mut Stats) {
        self.answer(Answer::Segment(flow, ack), stats);
    }

    /// Queues any answer; the oldest is discarded when there is no room.
    #[inline]
    pub(crate) fn answer(&mut self, answer: Answer, stats: &mut Stats) {
        if self.queue.len() >= self.capacity {
            if self.queue.pop_front().is_some_and(|oldest| oldest.has_echo()) {
                self.echoes.pop_front();
            }
            stats.acks_discarded += 1;
        }
        self.queue.push_back(answer);
    }

    /// Queues a PRESENCE while less than half of the queue is taken; true when it is queued.
    #[cold]
    pub(crate) fn push_if_room(&mut self, notice: Notice) -> bool {
        let has_room = self.queue.len() * 2 < self.capacity;
        if has_room {
            self.queue.push_back(Answer::Presence(notice));
        }
        has_room
    }

    /// Adds to the newest answer what `halves` has of its segment, if the answer is of `flow`.
    #[cold]
    pub(crate) fn echo(&mut self, flow: FlowId, halves: &mut Halves) {
        if self.echoes.len() < self.echoes_max
            && let Some(Answer::Segment(of, ack)) = self.queue.back_mut()
            && *of == flow
            && !ack.echo
            && let Some(int) = halves.echo(flow, (ack.psn, ack.sent_at))
        {
            ack.echo = true;
            self.echoes.push_back(int);
        }
    }

    /// Keeps an answer that was the oldest and may not leave yet, with what it echoes.
    #[cold]
    pub(crate) fn put_back(&mut self, answer: Answer, echo: Option<Int>) {
        if let Some(int) = echo {
            self.echoes.push_front(int);
        }
        self.queue.push_front(answer);
    }

    /// Queues a proof, which is to leave before the packets that need it.
    #[cold]
    pub(crate) fn push_first(&mut self, notice: Notice) {
        if self.queue.len() < self.capacity {
            self.queue.push_front(Answer::Presence(notice));
        }
    }

    /// The oldest answer, if it is a PRESENCE.
    #[inline]
    pub(crate) fn pop_presence(&mut self) -> Option<Notice> {
        let Some(Answer::Presence(notice)) = self.queue.front() else { return None };
        let notice = *notice;
        self.queue.pop_front();
        Some(notice)
    }

    /// The oldest; the caller asks [`AckQueue::echoed`] of it next.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Answer> {
        let first = self.queue.pop_front();
        if self.queue.is_empty() {
            // From the start again, where the cache is warm.
            self.queue.clear();
        }
        first
    }

    /// The telemetry that the answer which was taken last echoes.
    #[cold]
    pub(crate) fn echoed(&mut self, answer: &Answer) -> Option<Int> {
        if answer.has_echo() { self.echoes.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::flow::notice::NoticeKind;
    use crate::time::{Duration, Instant};
    use crate::units::{EntropyValue, HostId, Key, Psn};
    use crate::wire::Receipt;

    #[test]
    fn an_answer_that_is_put_back_keeps_its_place_and_its_telemetry() {
        let config = Settings { int_always: true, ..Settings::default() };
        let mut acks = AckQueue::new(&Config::new(config).unwrap());
        let (flow, ev) = (FlowId::new(1, 1), EntropyValue(1));
        for psn in 0..2 {
            let ack = PendingAck {
                at: Instant::ZERO,
                psn: Psn(psn),
                sent_at: 0,
                ev,
                ce: false,
                trimmed: false,
                receipt: Receipt::First,
                echo: true,
            };
            acks.push(flow, ack, &mut Stats::default());
            acks.echoes.push_back(Int::with_room(1 + u8::try_from(psn).unwrap()));
        }
        let first = acks.pop().unwrap();
        let echo = acks.echoed(&first);
        acks.put_back(first, echo);
        for room in 1..=2 {
            let answer = acks.pop().unwrap();
            assert_eq!(acks.echoed(&answer), Some(Int::with_room(room)));
        }
    }

    #[test]
    fn where_segments_are_reported_a_burst_of_strangers_and_a_keep_for_each_flow_have_room() {
        let settings = Settings { tx_flows_max: 9, ..Settings::default() };
        let config = Config::new(settings).unwrap();
        let config = config.acknowledging(AckMode::Reported, Duration::ZERO);
        let (mut acks, mut stats) = (AckQueue::new(&config), Stats::default());
        let notice = Notice {
            key: Key::default(),
            to: HostId(1),
            flow: FlowId::new(1, 1),
            ev: EntropyValue(0),
            kind: NoticeKind::Unknown,
        };
        assert!((0..BURST).all(|_| acks.push_if_room(notice)));
        for _ in 0..BURST + 9 {
            acks.answer(Answer::Presence(notice), &mut stats);
        }
        assert_eq!((acks.queue.len(), stats.acks_discarded), (2 * BURST + 9, 0));
        acks.answer(Answer::Presence(notice), &mut stats);
        assert_eq!((acks.queue.len(), stats.acks_discarded), (2 * BURST + 9, 1));
    }
}
