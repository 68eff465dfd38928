//! Tests that every registered discipline passes, and the figures of RED and trimming.

use proptest::prelude::*;
use transport::wire::class::TrafficClass;
use transport::{HostId, Rng};

use super::*;
use crate::packet::Flags;

const PARAMS: QdiscParams = QdiscParams {
    data_limit: Bytes(10_000),
    control_limit: Bytes(1_000),
    kmin: Bytes(2_000),
    kmax: Bytes(8_000),
    path_bdp: Some(Bytes(10_000)),
    packet_max: Bytes(4_160),
    sizes: PacketSizes { probed: Bytes(4_160), probe: Bytes(64) },
};

/// A phantom queue with the occupancy of the real queue: its marks begin with the real queue's.
const PHANTOM: PhantomParams =
    PhantomParams { drain: 1.0, size: None, kmin: 0.9, kmax: 1.0, physical: true };

fn built(kind: QdiscKind) -> AnyQdisc {
    let settings = QdiscSettings { phantom: PHANTOM, ..QdiscSettings::default() };
    AnyQdisc::new(kind, &settings, &PARAMS, Rate::from_gbps(100))
}

fn data(handle: u32, len: u16) -> Packet {
    let flags = Flags::ECT.with(Flags::TRIMMABLE);
    Packet { handle, dst: HostId(0), hash: 0, len, trim_len: 64, flags }
}

fn control(handle: u32, len: u16) -> Packet {
    Packet { flags: Flags::of(TrafficClass::Control), ..data(handle, len) }
}

fn at(ps: u64) -> Instant {
    Instant::from_ps(ps)
}

#[test]
fn every_name_is_found_and_builds_an_empty_queue() {
    for (name, &kind) in QdiscKind::NAMES.iter().zip(QdiscKind::ALL) {
        assert_eq!(QdiscKind::by_name(name), Some(kind));
        assert_eq!(kind.name(), *name);
        let mut qdisc = built(kind);
        assert_eq!(qdisc.queued(), Queued::default());
        assert_eq!(qdisc.dequeue(at(0), &mut Rng::new(1)), None);
    }
    assert_eq!(QdiscKind::by_name("fq-codel"), None);
}

#[test]
fn control_overtakes_data_and_each_class_is_first_in_first_out() {
    // Without a buffer no packet waits to be overtaken.
    for kind in paced::and_registered().filter(|kind| *kind != QdiscKind::Bufferless) {
        let mut rng = Rng::new(1);
        let mut qdisc = built(kind);
        let offered = [data(1, 500), control(2, 64), data(3, 500), control(4, 64)];
        for (ps, packet) in (10..).zip(offered) {
            assert_eq!(qdisc.enqueue(packet, at(ps), &mut None), Verdict::Queued);
        }
        let mut order = Vec::new();
        while let Some(departure) = qdisc.dequeue(at(20), &mut rng) {
            order.push(departure.packet.handle);
        }
        assert_eq!(order, [2, 4, 1, 3], "{}", kind.name());
    }
}

#[test]
fn disciplines_state_whether_data_leaves_in_the_order_in_which_it_came() {
    let order = |kind: QdiscKind, packets: u32| {
        let (mut rng, mut qdisc) = (Rng::new(1), built(kind));
        // An unscheduled packet, one of the last rank, one that may be trimmed, one with less left
        // than all before it, and so on.
        for handle in 0..packets {
            let packet = data(handle, 1_000);
            let packet = match handle % 4 {
                0 => Packet { flags: Flags::of(TrafficClass::Unscheduled), ..packet },
                1 => packet.ranked_by(u32::MAX),
                2 => packet,
                _ => packet.ranked_by(packets - handle),
            };
            qdisc.enqueue(packet, at(0), &mut None);
        }
        let mut order = Vec::new();
        while let Some(departure) = qdisc.dequeue(at(1), &mut rng) {
            order.push(departure.packet.handle);
        }
        order
    };
    for kind in QdiscKind::ALL {
        // There is room for all of 8, and not for all of 16.
        let orders = [8, 16].map(|packets| order(*kind, packets));
        let keeps_order = orders.iter().all(|order| order.is_sorted());
        assert_eq!(keeps_order, kind.keeps_order(), "{}: {orders:?}", kind.name());
    }
}

#[test]
fn what_a_discipline_promises_to_let_through_passes_and_changes_nothing() {
    for kind in paced::and_registered() {
        let mut qdisc = built(kind);
        let idle = format!("{qdisc:?}");
        let longest = u16::try_from(qdisc.service().passes.0).unwrap_or(u16::MAX);
        for len in [1, longest / 2, longest].into_iter().filter(|len| (1..=longest).contains(len)) {
            for packet in [data(1, len), control(2, len)] {
                assert!(qdisc.passes(&packet, at(5)), "{}: {packet:?}", kind.name());
                assert_eq!(format!("{qdisc:?}"), idle, "{}", kind.name());
            }
        }
    }
    // Both FIFOs of a plain discipline have to have room.
    assert_eq!(built(QdiscKind::DropTail).service().passes, PARAMS.control_limit);
}

#[test]
fn a_data_packet_that_does_not_fit_is_dropped_or_trimmed() {
    for kind in paced::and_registered() {
        let mut qdisc = built(kind);
        assert_eq!(qdisc.enqueue(data(1, 7_000), at(0), &mut None), Verdict::Queued);
        let verdict = qdisc.enqueue(data(2, 4_000), at(0), &mut None);
        let refused = matches!(verdict, Verdict::Trimmed | Verdict::Dropped(_));
        assert!(refused, "{}: {verdict:?}", kind.name());
    }
    for (kind, expected) in [
        (QdiscKind::DropTail, Verdict::Dropped(DropReason::DataQueueFull)),
        (QdiscKind::Ecn, Verdict::Dropped(DropReason::DataQueueFull)),
        (QdiscKind::Lossless, Verdict::Dropped(DropReason::DataQueueFull)),
        (QdiscKind::PhantomEcn, Verdict::Dropped(DropReason::DataQueueFull)),
        (QdiscKind::DcSim, Verdict::Dropped(DropReason::DataQueueFull)),
        (QdiscKind::Pfabric, Verdict::Dropped(DropReason::DataQueueFull)),
        (QdiscKind::Bufferless, Verdict::Dropped(DropReason::Collision)),
        (QdiscKind::Trim, Verdict::Trimmed),
        (QdiscKind::PhantomTrim, Verdict::Trimmed),
    ] {
        let mut qdisc = built(kind);
        qdisc.enqueue(data(1, 7_000), at(0), &mut None);
        assert_eq!(qdisc.enqueue(data(2, 4_000), at(0), &mut None), expected, "{}", kind.name());
    }
}

#[test]
fn a_header_is_dropped_when_the_control_queue_is_full_and_plain_data_is_never_trimmed() {
    let mut qdisc = built(QdiscKind::Trim);
    qdisc.enqueue(data(1, 10_000), at(0), &mut None);
    let fixed = Packet { flags: Flags::ECT, ..data(2, 4_000) };
    let full = Verdict::Dropped(DropReason::DataQueueFull);
    assert_eq!(qdisc.enqueue(fixed, at(0), &mut None), full);
    qdisc.enqueue(control(3, 1_000), at(0), &mut None);
    let full = Verdict::Dropped(DropReason::ControlQueueFull);
    assert_eq!(qdisc.enqueue(data(4, 4_000), at(0), &mut None), full);
}

/// The share of 4000 dequeues that mark when `behind` data bytes are left behind the packet.
fn marked_share(kind: QdiscKind, behind: u16, flags: Flags) -> f64 {
    let mut rng = Rng::new(5);
    let mut marked = 0;
    for _ in 0..4000 {
        let mut qdisc = built(kind);
        qdisc.enqueue(Packet { flags, ..data(1, 1_000) }, at(0), &mut None);
        qdisc.enqueue(data(2, behind), at(0), &mut None);
        let departure = qdisc.dequeue(at(0), &mut rng).unwrap();
        assert_eq!(departure.marked, departure.packet.flags.has(Flags::CE));
        marked += u32::from(departure.marked);
    }
    f64::from(marked) / 4000.0
}

#[test]
fn red_marks_linearly_between_kmin_and_kmax_by_what_is_left_behind() {
    let [ecn, trim] = [QdiscKind::PhantomEcn, QdiscKind::PhantomTrim];
    for kind in [QdiscKind::Ecn, QdiscKind::Trim, QdiscKind::Lossless, ecn, trim] {
        assert!(marked_share(kind, 2_000, Flags::ECT) <= 0.0);
        assert!((marked_share(kind, 3_500, Flags::ECT) - 0.25).abs() < 0.03);
        assert!((marked_share(kind, 6_500, Flags::ECT) - 0.75).abs() < 0.03);
        assert!(marked_share(kind, 8_001, Flags::ECT) >= 1.0);
        assert!(marked_share(kind, 8_001, Flags::NONE) <= 0.0);
    }
    assert!(marked_share(QdiscKind::DropTail, 8_001, Flags::ECT) <= 0.0);
}

#[test]
fn the_papers_thresholds_come_out_as_the_reference_has_them() {
    let params = QdiscParams::for_buffer(Bytes(1_148_160), Bytes(4_160), QdiscParams::MARK);
    assert_eq!((params.kmin, params.kmax), (Bytes(232_960), Bytes(919_360)));
}

proptest! {
    #[test]
    fn limits_hold_and_nothing_is_lost_silently(
        operations in prop::collection::vec((any::<bool>(), any::<bool>(), 1u16..6_000), 1..300),
    ) {
        for kind in paced::and_registered() {
            let mut rng = Rng::new(3);
            let mut qdisc = built(kind);
            let mut waiting = 0usize;
            let mut bytes = 0u64;
            for (now, (enqueue, urgent, len)) in (0..).zip(&operations) {
                if *enqueue {
                    let packet = if *urgent { control(0, *len) } else { data(0, *len) };
                    match qdisc.enqueue(packet, at(now), &mut None) {
                        Verdict::Queued => { waiting += 1; bytes += u64::from(*len); }
                        Verdict::Trimmed => { waiting += 1; bytes += u64::from((*len).min(64)); }
                        Verdict::Evicted | Verdict::Cut => unreachable!("no packet has a rank"),
                        Verdict::Slips => unreachable!("no packet is a train"),
                        Verdict::Dropped(_) => {}
                    }
                } else if qdisc.ready_at() <= at(now) {
                    let departure = qdisc.dequeue(at(now), &mut rng).unwrap();
                    waiting -= 1;
                    bytes -= departure.packet.wire_bytes();
                }
                if waiting == 0 {
                    prop_assert_eq!(qdisc.ready_at(), Instant::FAR_FUTURE);
                }
                let queued = qdisc.queued();
                prop_assert_eq!(queued.packets(), waiting);
                prop_assert_eq!(queued.data_bytes + queued.control_bytes, bytes);
                prop_assert!(queued.data_bytes <= PARAMS.data_limit.0);
                // DCsim's small queues are limited by packets; without a buffer one is at work.
                let most = match kind {
                    QdiscKind::DcSim => 12 * 6_000,
                    QdiscKind::Bufferless => 6_000,
                    _ => PARAMS.control_limit.0,
                };
                prop_assert!(queued.control_bytes <= most);
            }
        }
    }
}
