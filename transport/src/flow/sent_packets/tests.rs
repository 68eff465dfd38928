//! The ring against a map and two queues, and the marks of its segments.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

fn packet(offset: u32) -> SentPacket {
    SentPacket { offset, fate: Fate::InFlight, ..VACANT }
}

/// The oracle: segments that are outstanding and not acknowledged, by PSN, and the two orders.
#[derive(Default)]
struct Oracle {
    packets: BTreeMap<u32, SentPacket>,
    lost: VecDeque<u32>,
    resent: VecDeque<u32>,
    next: u32,
}

/// Notes that one PSN arrived; its entry as it was before, when that was not known.
fn ack(ring: &mut SentPackets, psn: u32) -> Option<SentPacket> {
    let news = ring.note(Psn(psn & !63), 1 << (psn & 63));
    let before = (news != 0).then(|| ring.arrive(Psn(psn)));
    ring.advance();
    before
}

fn agree(subject: &SentPackets, oracle: &Oracle) -> Result<(), TestCaseError> {
    let base = oracle.packets.keys().next().copied().unwrap_or(oracle.next);
    prop_assert_eq!(subject.base().0, base);
    prop_assert_eq!(subject.next().0, oracle.next);
    prop_assert_eq!(subject.first_lost().map(|(psn, _)| psn.0), oracle.lost.front().copied());
    prop_assert_eq!(subject.has_lost(), !oracle.lost.is_empty());
    let resent = subject.first_resent().map(|(psn, _)| psn.0);
    prop_assert_eq!(resent, oracle.resent.front().copied());
    prop_assert_eq!(subject.has_resent(), !oracle.resent.is_empty());
    for word in (base & !63..=oracle.next).step_by(64) {
        let want = (0..64)
            .filter(|i| oracle.packets.contains_key(&(word + i)))
            .fold(0, |bits, i| bits | 1u64 << i);
        prop_assert_eq!(subject.clone().note(Psn(word), u64::MAX), want);
    }
    Ok(())
}

proptest! {
    #[test]
    fn agrees_with_a_map_and_two_queues(
        first in prop_oneof![Just(0u32), Just(40)],
        larger in prop_oneof![Just(64u32), Just(256)],
        steps in proptest::collection::vec((0u8..10, 0u32..200), 1..600),
    ) {
        let mut subject = SentPackets::new();
        subject.reserve(32);
        let mut oracle = Oracle { next: first, ..Oracle::default() };
        (subject.base, subject.next) = (Psn(first), Psn(first));
        for (what, arg) in steps {
            let psn = oracle.next.saturating_sub(arg % (subject.outstanding() + 3));
            let sent = oracle.packets.get(&psn).copied();
            match what {
                0 | 1 if !subject.is_full() => {
                    prop_assert_eq!(subject.push(packet(oracle.next * 7)), Psn(oracle.next));
                    oracle.packets.insert(oracle.next, packet(oracle.next * 7));
                    oracle.next += 1;
                }
                2 => {
                    let acked = ack(&mut subject, psn).map(|p| p.offset);
                    prop_assert_eq!(acked, oracle.packets.remove(&psn).map(|p| p.offset));
                    oracle.lost.retain(|lost| *lost != psn);
                    oracle.resent.retain(|resent| *resent != psn);
                }
                3 | 9 => {
                    let flies = sent.is_some_and(|p| p.fate == Fate::InFlight);
                    let lose = [SentPackets::lose, SentPackets::lose_first];
                    let place = [oracle.lost.len(), 0][usize::from(what == 9)];
                    let lost = lose[usize::from(what == 9)](&mut subject, Psn(psn));
                    prop_assert_eq!(lost.is_some(), flies);
                    if let Some(entry) = oracle.packets.get_mut(&psn).filter(|_| flies) {
                        entry.fate = Fate::Lost;
                        oracle.lost.insert(place, psn);
                        oracle.resent.retain(|resent| *resent != psn);
                    }
                }
                4 => {
                    let Some(psn) = oracle.lost.pop_front() else { continue };
                    let again =
                        SentPacket { marks: Marks::default().again(), ..packet(psn * 7) };
                    subject.resend(Psn(psn), again);
                    oracle.packets.insert(psn, again);
                    oracle.resent.push_back(psn);
                }
                5 if arg == 0 => subject.reserve(larger),
                6 => {
                    let flies = sent.is_some_and(|p| p.fate == Fate::InFlight);
                    prop_assert_eq!(subject.spare(Psn(psn)).is_some(), flies);
                    if let Some(entry) = oracle.packets.get_mut(&psn).filter(|_| flies) {
                        entry.fate = Fate::Spare;
                        oracle.resent.retain(|resent| *resent != psn);
                    }
                }
                7 => {
                    let spare = oracle.packets.get_mut(&psn);
                    if let Some(entry) = spare.filter(|p| p.fate == Fate::Spare) {
                        subject.want(Psn(psn));
                        entry.fate = Fate::Lost;
                        oracle.lost.push_back(psn);
                    }
                }
                8 if arg < 20 && !subject.is_full() => {
                    subject.pass_over();
                    oracle.next += 1;
                }
                _ => {}
            }
            agree(&subject, &oracle)?;
        }
    }
}

#[test]
fn marks_separate_parity_from_segments_whether_sent_again_or_not() {
    for marks in [Marks::default(), Marks::parity(0), Marks::parity(15)] {
        assert!(!marks.resent() && marks.again().resent());
        assert_eq!(marks.again().parity_index(), marks.parity_index());
    }
    let again = Marks::default().again();
    assert!(again.is_retransmission() && again.again() == again && !again.copied());
    let turn = Marks::COPY.again();
    assert!(turn.resent() && !turn.is_retransmission() && turn.again().is_retransmission());
    assert!(Marks::COPY.copied() && turn.copied() && !Marks::PASSED_OVER.copied());
    assert_eq!(turn.again().parity_index(), None);
    assert_eq!(Marks::default().parity_index(), None);
    let first = Marks::PASSED_OVER.again();
    assert!(first.resent() && !first.repeats() && !first.is_retransmission());
    assert!(first.again().repeats() && first.again().is_retransmission());
    assert!(Marks::PASSED_OVER.awaits_turn() && Marks::COPY.awaits_turn());
    assert!(!first.awaits_turn() && !turn.awaits_turn() && turn.repeats());
    assert_eq!(Marks::parity(15).parity_index(), Some(15));
}

#[test]
fn growing_keeps_what_is_outstanding() {
    let mut ring = SentPackets::new();
    ring.reserve(16);
    for i in 0..16 {
        ring.push(packet(i));
    }
    ack(&mut ring, 3);
    ring.lose(Psn(4));
    assert!(ring.is_full());
    ring.reserve(100);
    assert!(!ring.is_full());
    assert_eq!(ring.entry(Psn(5)).unwrap().offset, 5);
    assert_eq!(ring.first_lost().unwrap().0, Psn(4));
    assert_eq!(ring.note(Psn(0), 0b11100), 0b10100);
}

#[test]
fn psns_and_news_go_over_the_wrap() {
    let mut ring = SentPackets::new();
    ring.reserve(128);
    (ring.base, ring.next) = (Psn(u32::MAX - 1), Psn(u32::MAX - 1));
    for i in 0..4 {
        ring.push(packet(i));
    }
    assert_eq!(ring.clone().note(Psn(u32::MAX - 63), u64::MAX), 0b11 << 62);
    assert_eq!(ring.clone().note(Psn(0), u64::MAX), 0b11);
    ack(&mut ring, u32::MAX);
    ack(&mut ring, u32::MAX - 1);
    assert_eq!((ring.base(), ring.outstanding()), (Psn(0), 2));
}

#[test]
fn the_base_passes_over_all_that_has_arrived_in_however_many_words() {
    for first in [0, 40, 63, 64] {
        let mut ring = SentPackets::new();
        ring.reserve(256);
        (ring.base, ring.next) = (Psn(first), Psn(first));
        let psns = first..first + 200;
        psns.clone().for_each(|psn| _ = ring.push(packet(psn)));
        let holes = [first, 65, 127, 128, 190];
        psns.clone().filter(|psn| !holes.contains(psn)).for_each(|psn| _ = ack(&mut ring, psn));
        for (hole, next) in holes.into_iter().zip([65, 127, 128, 190, psns.end]) {
            assert_eq!(ring.base(), Psn(hole));
            ack(&mut ring, hole);
            assert_eq!(ring.base(), Psn(next), "{first}");
        }
    }
}

#[test]
fn copies_leave_again_in_order_of_time_among_the_oldest_64() {
    let mut ring = SentPackets::new();
    ring.reserve(128);
    let at =
        |ns: u64, marks: Marks| SentPacket { sent_at: Instant::from_ps(ns), marks, ..packet(0) };
    ring.push(at(1, Marks::default()));
    for (ns, marks) in [(30, Marks::COPY), (20, Marks::COPY), (10, Marks::PASSED_OVER)] {
        ring.push_waiting(at(ns, marks));
    }
    (4..64).for_each(|psn| _ = ring.push(at(psn, Marks::default())));
    // A loss is no copy, and a copy beyond the oldest 64 waits.
    ring.lose(Psn(5));
    ring.push_waiting(at(2, Marks::COPY));
    let oldest = |ring: &SentPackets| ring.oldest_copy().map(|(psn, entry)| (psn.0, entry.ev.0));
    assert_eq!((oldest(&ring), ring.copies(), ring.lost()), (Some((2, 0)), 3, 5));
    ring.copy_again(Psn(2), &SentPacket { ev: EntropyValue(9), ..at(40, Marks::COPY) });
    assert_eq!(oldest(&ring), Some((1, 0)));
    let turn = SentPacket { fate: Fate::InFlight, ..at(50, Marks::COPY.again()) };
    ring.resend(Psn(1), turn);
    assert_eq!((oldest(&ring), ring.copies(), ring.lost()), (Some((2, 9)), 2, 4));
    let waiting = |copies| (0..3).map_while(|nth| Some(ring.nth_lost(nth, copies)?.0.0)).collect();
    let (copies, others): (Vec<u32>, Vec<u32>) = (waiting(true), waiting(false));
    assert_eq!((copies, others), (Vec::from([2, 64]), Vec::from([3, 5])));
    ack(&mut ring, 0);
    assert_eq!(oldest(&ring), Some((64, 0)));
    for psn in [64, 2] {
        ack(&mut ring, psn);
    }
    assert_eq!((oldest(&ring), ring.copies(), ring.lost()), (None, 0, 2));
}
