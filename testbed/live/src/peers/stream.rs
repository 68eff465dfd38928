//! The messages of one direction: posted and acknowledged at one end, counted and verified at the
//! other.
//!
//! Messages are numbered from 0. Number n goes over flow n mod flows and carries the bytes of slot
//! n mod slots, which both ends compute; a region holds them, so that devices can read them in
//! place. Every byte is verified, and nothing is copied for that.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;

use transport::rng::mix;
use transport::{Duration, Instant};
use transport_dpdk::{Eal, MessageBytes, Pattern, Region, Request};

use super::protocol::{Kind, Tag, Totals};
use super::terms::SessionTerms;

/// Different messages, by bytes: few enough to be summed before a session starts.
const SLOTS: u32 = 8;

/// The bytes of a session's messages.
#[derive(Debug)]
pub(super) struct Slots {
    sources: Vec<MessageBytes>,
    /// The checksum with which each message is delivered.
    checksums: Vec<u64>,
    len: NonZeroU32,
}

impl Slots {
    /// The slots of `session`: both ends make equal ones.
    pub(super) fn new(eal: &Eal, session: u64, terms: &SessionTerms) -> Self {
        let len = NonZeroU32::new(terms.message_bytes).unwrap_or(NonZeroU32::MIN);
        let count = (LONGEST / u64::from(len.get())).clamp(1, u64::from(SLOTS));
        let (mut sources, mut checksums) = (Vec::new(), Vec::new());
        for tag in 0..count {
            let pattern = Pattern { seed: session, tag };
            let mut bytes = vec![0; len.get() as usize].into_boxed_slice();
            pattern.read(0, &mut bytes);
            checksums.push(if terms.verify { pattern.checksum(len.get()) } else { 0 });
            sources.push(Self::source(eal, bytes));
        }
        Self { sources, checksums, len }
    }

    /// The source of a message. Where devices use physical addresses, bytes are copied out of
    /// ordinary memory.
    fn source(eal: &Eal, bytes: Box<[u8]>) -> MessageBytes {
        if eal.iova_is_va()
            && let Ok(region) = Region::new(eal, bytes.clone())
        {
            return MessageBytes::Region { region: Arc::new(region), offset: 0 };
        }
        MessageBytes::Owned(bytes.into())
    }

    /// The bytes of message `number`.
    pub(super) fn source_of(&self, number: u32) -> MessageBytes {
        self.sources[number as usize % self.sources.len()].clone()
    }

    pub(super) const fn len(&self) -> NonZeroU32 {
        self.len
    }

    /// Whether message `number` may have come with `checksum` and of this length.
    pub(super) fn fits(&self, number: u32, checksum: u64, len: usize) -> bool {
        let expected = self.checksums[number as usize % self.checksums.len()];
        len == self.len.get() as usize && (expected == 0 || expected == checksum)
    }
}

/// Bytes of all slots together.
const LONGEST: u64 = 64 << 20;

/// One end sends.
#[derive(Debug)]
pub(super) struct Sender {
    session: u16,
    flows: u32,
    depth: u32,
    /// Under way, by flow.
    under_way: Vec<u32>,
    next: u32,
    posted: u64,
    len: u64,
    /// Posts nothing from here on.
    until: Option<Instant>,
    /// Posts no more bytes than these.
    bytes_max: u64,
    acked: Totals,
    /// A message was not sent, and why.
    failed: Option<String>,
}

impl Sender {
    /// Starts at `now`.
    pub(super) fn new(
        terms: &SessionTerms,
        session: u64,
        (duration, bytes_max): (Option<Duration>, Option<u64>),
        now: Instant,
    ) -> Self {
        Self {
            session: short(session),
            flows: terms.flows.into(),
            depth: terms.depth.into(),
            under_way: vec![0; terms.flows.into()],
            next: 0,
            posted: 0,
            len: terms.message_bytes.into(),
            until: duration.map(|duration| now + duration),
            bytes_max: bytes_max.unwrap_or(u64::MAX),
            acked: Totals::default(),
            failed: None,
        }
    }

    /// Appends the messages that may leave to `requests`, which has room for `room` of them.
    /// Returns whether there were any. Connection `1 + flow` is a flow's.
    pub(super) fn post(
        &mut self,
        slots: &Slots,
        requests: &mut VecDeque<Request>,
        room: usize,
        now: Instant,
    ) -> bool {
        let mut posted = 0;
        while posted < room && self.may_post(now) {
            let flow = self.next % self.flows;
            let under_way = &mut self.under_way[flow as usize];
            if *under_way >= self.depth {
                break;
            }
            *under_way += 1;
            let tag = Tag { kind: Kind::Data, session: self.session, number: self.next };
            requests.push_back(Request::Send {
                connection: 1 + flow,
                source: slots.source_of(self.next),
                len: slots.len(),
                tag: tag.pack(),
                cookie: tag.pack(),
            });
            self.next = self.next.wrapping_add(1);
            self.posted += 1;
            posted += 1;
        }
        posted > 0
    }

    fn may_post(&mut self, now: Instant) -> bool {
        let in_time = self.until.is_none_or(|until| now < until);
        in_time && self.failed.is_none() && self.posted * self.len < self.bytes_max
    }

    /// Message `number` is acknowledged as a whole.
    pub(super) fn sent(&mut self, number: u32) {
        let flow = (number % self.flows) as usize;
        self.under_way[flow] = self.under_way[flow].saturating_sub(1);
        self.acked.count(number, self.len);
    }

    /// Message `number` was not.
    pub(super) fn fail(&mut self, number: u32, reason: String) {
        let flow = (number % self.flows) as usize;
        self.under_way[flow] = self.under_way[flow].saturating_sub(1);
        self.failed.get_or_insert(reason);
    }

    /// Posts nothing more.
    pub(super) fn stop(&mut self, now: Instant) {
        self.until = Some(now);
    }

    /// Whether all that will be posted is acknowledged, or has failed.
    pub(super) fn is_over(&mut self, now: Instant) -> bool {
        !self.may_post(now) && self.under_way.iter().all(|count| *count == 0)
    }

    /// Totals of acknowledged messages.
    pub(super) const fn acked(&self) -> Totals {
        self.acked
    }

    /// Why a message failed, once one has.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }
}

/// Counters of the receiving end.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    got: Totals,
}

impl Receiver {
    /// Counts message `number`.
    pub(super) fn count(&mut self, slots: &Slots, number: u32, checksum: u64, len: usize) {
        self.got.count(number, len as u64);
        self.got.wrong += u64::from(!slots.fits(number, checksum, len));
    }

    pub(super) const fn got(&self) -> Totals {
        self.got
    }
}

impl Totals {
    fn count(&mut self, number: u32, len: u64) {
        self.messages += 1;
        self.bytes += len;
        self.fingerprint = self.fingerprint.wrapping_add(mix(u64::from(number) + 1));
    }

    /// Whether the same messages were counted.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        (self.messages, self.bytes, self.fingerprint)
            == (other.messages, other.bytes, other.fingerprint)
    }
}

/// The bits of a session's number that tags carry.
pub(super) fn short(session: u64) -> u16 {
    u16::try_from(session & 0xFFF).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(terms: &SessionTerms) -> Slots {
        let bytes = |tag: u8| vec![tag; terms.message_bytes as usize];
        Slots {
            sources: (0..3).map(|tag| MessageBytes::Owned(bytes(tag).into())).collect(),
            checksums: vec![10, 11, 12],
            len: NonZeroU32::new(terms.message_bytes).unwrap(),
        }
    }

    fn numbers(requests: &VecDeque<Request>) -> Vec<(u32, u32)> {
        requests
            .iter()
            .map(|request| match request {
                Request::Send { connection, tag, .. } => {
                    (*connection, Tag::unpack(*tag).unwrap().number)
                }
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn flows_take_turns_and_hold_no_more_than_their_depth() {
        let terms =
            SessionTerms { flows: 2, depth: 2, message_bytes: 10, ..SessionTerms::default() };
        let (slots, mut requests) = (slots(&terms), VecDeque::new());
        let mut sender = Sender::new(&terms, 5, (None, Some(60)), Instant::ZERO);
        assert!(sender.post(&slots, &mut requests, 100, Instant::ZERO));
        assert_eq!(numbers(&requests), [(1, 0), (2, 1), (1, 2), (2, 3)]);
        requests.clear();
        sender.sent(1);
        assert!(!sender.post(&slots, &mut requests, 100, Instant::ZERO), "flow 0 is next");
        sender.sent(0);
        assert!(sender.post(&slots, &mut requests, 100, Instant::ZERO));
        assert_eq!(numbers(&requests), [(1, 4), (2, 5)]);
        // Sixty bytes are posted: no more.
        [2, 3, 4].into_iter().for_each(|number| sender.sent(number));
        assert!(!sender.is_over(Instant::ZERO));
        sender.sent(5);
        assert!(sender.is_over(Instant::ZERO) && sender.acked().bytes == 60);
    }

    #[test]
    fn a_sender_that_is_stopped_waits_for_what_is_under_way() {
        let terms = SessionTerms { message_bytes: 10, ..SessionTerms::default() };
        let (slots, mut requests) = (slots(&terms), VecDeque::new());
        let mut sender = Sender::new(&terms, 5, (None, None), Instant::ZERO);
        assert!(sender.post(&slots, &mut requests, 1, Instant::ZERO));
        sender.stop(Instant::ZERO);
        assert!(!sender.is_over(Instant::ZERO));
        sender.fail(0, "the peer is silent".to_owned());
        assert!(sender.is_over(Instant::ZERO) && sender.failure().is_some());
    }

    #[test]
    fn totals_agree_only_when_every_message_was_counted_once() {
        let terms = SessionTerms { message_bytes: 10, ..SessionTerms::default() };
        let slots = slots(&terms);
        let count = |numbers: &[u32]| {
            let mut receiver = Receiver::default();
            for number in numbers {
                receiver.count(&slots, *number, 10 + u64::from(number % 3), 10);
            }
            receiver.got()
        };
        assert!(count(&[0, 1, 2]).agrees(&count(&[2, 0, 1])));
        assert!(!count(&[0, 1, 2]).agrees(&count(&[0, 1, 1])));
        assert!(!count(&[0, 1]).agrees(&count(&[0, 1, 2])));
        assert_eq!(count(&[0, 1, 2]).wrong, 0);
    }

    #[test]
    fn other_bytes_or_another_length_are_wrong() {
        let terms = SessionTerms { message_bytes: 10, ..SessionTerms::default() };
        let slots = slots(&terms);
        assert!(slots.fits(4, 11, 10) && !slots.fits(4, 10, 10) && !slots.fits(4, 11, 9));
    }
}
