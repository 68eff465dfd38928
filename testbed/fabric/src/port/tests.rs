//! Ports: departures, and that late polls agree with exact events.

use proptest::prelude::*;
use transport::wire::class::TrafficClass;
use transport::{HostId, Rng};

use super::*;
use crate::packet::Flags;
use crate::qdisc::{
    AnyQdisc, PacketSizes, PhantomParams, QdiscKind, QdiscParams, QdiscSettings, paced,
};

const PHANTOM: PhantomParams =
    PhantomParams { drain: 0.1, size: None, kmin: 0.05, kmax: 0.8, physical: true };

/// Steps of a test: the gap before a step in picoseconds, how late a poll in between is, and
/// the step.
type Schedule = Vec<(u64, u64, Step)>;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A packet of a length and a class comes.
    Packet(u16, TrafficClass),
    Pause(bool),
    /// The rate changes, gigabits a second.
    Rate(u64),
    /// A frame of the link's own goes first.
    Interject,
}

fn class() -> impl Strategy<Value = TrafficClass> {
    prop::sample::select(TrafficClass::ALL.to_vec())
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let step = prop_oneof![
        20 => (1u16..5_000, class()).prop_map(|(len, class)| Step::Packet(len, class)),
        2 => any::<bool>().prop_map(Step::Pause),
        1 => (1u64..900).prop_map(Step::Rate),
        1 => Just(Step::Interject),
    ];
    prop::collection::vec((0u64..90_000, 0u64..200_000, step), 1..200)
}

fn port(kind: QdiscKind, rate: Rate) -> Port<AnyQdisc> {
    let params = QdiscParams {
        data_limit: Bytes(20_000),
        control_limit: Bytes(2_000),
        kmin: Bytes(2_000),
        kmax: Bytes(16_000),
        path_bdp: Some(Bytes(60_000)),
        packet_max: Bytes(5_000),
        sizes: PacketSizes { probed: Bytes(5_000), probe: Bytes(64) },
    };
    let settings = QdiscSettings { phantom: PHANTOM, ..QdiscSettings::default() };
    let qdisc = AnyQdisc::new(kind, &settings, &params, rate);
    Port::new(rate, Duration::from_ns(600), qdisc)
}

/// The results of a port: verdicts with what was lost, and departures with their arrival.
#[derive(Debug, Default, PartialEq)]
struct Trace {
    verdicts: Vec<(Verdict, Option<Packet>)>,
    departures: Vec<(Departure, Instant)>,
}

/// Runs `schedule`; `polls(port, from, to)` says when to poll between two enqueues.
fn run(
    mut port: Port<AnyQdisc>,
    schedule: &Schedule,
    mut poll: impl FnMut(&mut Port<AnyQdisc>, &mut Rng, &mut Trace, u64, Instant),
) -> Trace {
    let mut trace = Trace::default();
    let mut rng = Rng::new(9);
    let mut now = Instant::ZERO;
    for (handle, (gap, late, step)) in (0..).zip(schedule) {
        now += Duration::from_ps(*gap);
        poll(&mut port, &mut rng, &mut trace, *late, now);
        depart_all(&mut port, &mut rng, &mut trace, now);
        match *step {
            Step::Packet(len, class) => {
                let packet = of_class(handle, len, class);
                // Half of the data has a rank, so that a full queue may lose what waits.
                let ranks = packet.is_data() && handle % 2 == 1;
                let packet = if ranks { packet.ranked_by(handle % 40) } else { packet };
                let mut lost = None;
                let verdict = port.enqueue(packet, now, &mut lost);
                trace.verdicts.push((verdict, lost));
            }
            Step::Pause(paused) => port.pause(paused, now),
            Step::Rate(gbps) => port.set_rate(Rate::from_gbps(gbps), now),
            Step::Interject => {
                port.interject(64, now);
            }
        }
    }
    depart_all(&mut port, &mut rng, &mut trace, now);
    port.pause(false, now);
    depart_all(&mut port, &mut rng, &mut trace, Instant::FAR_FUTURE);
    assert_eq!((port.waiting(), port.queued().packets()), (0, 0), "everything has left");
    trace
}

fn depart_all(port: &mut Port<AnyQdisc>, rng: &mut Rng, trace: &mut Trace, now: Instant) {
    trace.departures.extend(std::iter::from_fn(|| port.depart(now, rng)));
}

fn packet(handle: u32, len: u16, urgent: bool) -> Packet {
    let class = if urgent { TrafficClass::Control } else { TrafficClass::Data };
    of_class(handle, len, class)
}

fn of_class(handle: u32, len: u16, class: TrafficClass) -> Packet {
    let flags = match class {
        TrafficClass::Data => Flags::ECT.with(Flags::TRIMMABLE),
        _ => Flags::of(class),
    };
    Packet { handle, dst: HostId(0), hash: 0, len, trim_len: 64, flags }
}

proptest! {
    #[test]
    fn late_polls_and_exact_events_agree_bit_for_bit(
        schedule in schedule(),
        gbps in prop_oneof![Just(800u64), Just(400), Just(3), 1u64..900],
    ) {
        for kind in paced::and_registered() {
            let port = port(kind, Rate::from_gbps(gbps));
            let exact = run(port.clone(), &schedule, |port, rng, trace, _, until| {
                while port.next_departure() <= until {
                    let at = port.next_departure();
                    trace.departures.extend(port.depart(at, rng));
                }
            });
            let never = run(port.clone(), &schedule, |_, _, _, _, _| {});
            let sloppy = run(port, &schedule, |port, rng, trace, late, until| {
                let at = Instant::from_ps(until.as_ps().saturating_sub(late));
                trace.departures.extend(port.depart(at, rng));
            });
            prop_assert_eq!(&exact, &never);
            prop_assert_eq!(&exact, &sloppy);
            prop_assert!(exact.departures.is_sorted_by_key(|(_, arrival)| *arrival));
        }
    }

    #[test]
    fn passing_an_idle_port_is_enqueuing_and_departing(
        schedule in prop::collection::vec((0u64..200_000, 1u16..25_000, class()), 1..99),
    ) {
        for kind in paced::and_registered() {
            let mut quick = port(kind, Rate::from_gbps(800));
            let mut slow = quick.clone();
            let mut rngs = [Rng::new(1), Rng::new(1)];
            let mut now = Instant::ZERO;
            for (handle, (gap, len, class)) in (0..).zip(&schedule) {
                now += Duration::from_ps(*gap);
                let packet = of_class(handle, *len, *class);
                let [left, right] = &mut rngs;
                while let Some(departed) = slow.depart(now, right) {
                    prop_assert_eq!(quick.depart(now, left), Some(departed));
                }
                match quick.pass(&packet, now) {
                    Some(arrival) => {
                        prop_assert_eq!(slow.enqueue(packet, now, &mut None), Verdict::Queued);
                        let departure =
                            Departure { packet, marked: false, data_left: 0, start: now };
                        prop_assert_eq!(slow.depart(now, right), Some((departure, arrival)));
                    }
                    None => {
                        let verdict = slow.enqueue(packet, now, &mut None);
                        prop_assert_eq!(quick.enqueue(packet, now, &mut None), verdict);
                    }
                }
                prop_assert_eq!(quick.queued(), slow.queued());
                prop_assert_eq!(quick.waiting(), quick.queued().packets());
                prop_assert_eq!(quick.sent(), slow.sent());
            }
        }
    }

    #[test]
    fn serialisation_is_what_the_rate_says(bps in 1u64..2_000_000_000_000, len: u16) {
        let port = port(QdiscKind::DropTail, Rate::from_bps(bps));
        prop_assert_eq!(port.time_for(len), serialisation(u64::from(len), Rate::from_bps(bps)));
    }
}

#[test]
fn a_late_poll_costs_no_rate() {
    let mut port = port(QdiscKind::DropTail, Rate::from_gbps(800));
    let mut rng = Rng::new(1);
    for handle in 0..3 {
        while port.depart(Instant::ZERO, &mut rng).is_some() {}
        port.enqueue(packet(handle, 4160, false), Instant::ZERO, &mut None);
    }
    let late = Instant::from_ps(1_000_000_000);
    let arrivals: Vec<_> =
        std::iter::from_fn(|| port.depart(late, &mut rng)).map(|(_, at)| at.as_ps()).collect();
    assert_eq!(arrivals, [683_200, 724_800], "the first left before the second was enqueued");
}

#[test]
fn a_paused_port_sends_control_alone_and_goes_on_where_it_stopped() {
    let at = Instant::from_ps;
    let mut port = port(QdiscKind::Ecn, Rate::from_gbps(800));
    let mut rng = Rng::new(1);
    port.pause(true, at(0));
    assert_eq!(port.pass(&packet(1, 1000, false), at(0)), None);
    port.enqueue(packet(1, 1000, false), at(0), &mut None);
    assert_eq!((port.next_departure(), port.waiting()), (Instant::FAR_FUTURE, 1));
    port.enqueue(packet(2, 1000, true), at(5), &mut None);
    let (departure, _) = port.depart(at(5), &mut rng).unwrap();
    assert_eq!((departure.packet.handle, departure.data_left), (2, 1000));
    assert_eq!(port.depart(Instant::FAR_FUTURE, &mut rng), None);
    port.pause(false, at(7));
    assert_eq!(port.next_departure(), at(10_005), "after the control packet");
    // A pause frame of 64 bytes goes first.
    assert_eq!(port.interject(64, at(8)), at(10_645) + Duration::from_ns(600));
    assert_eq!(port.next_departure(), at(10_645));
    assert_eq!(port.depart(at(10_645), &mut rng).unwrap().0.packet.handle, 1);
}

#[test]
fn a_new_rate_holds_from_the_next_departure() {
    let mut port = port(QdiscKind::DropTail, Rate::from_gbps(800));
    port.set_rate(Rate::from_gbps(400), Instant::ZERO);
    assert_eq!(port.time_for(4160), Duration::from_ps(83_200));
    port.set_rate(Rate::ZERO, Instant::ZERO);
    assert_eq!(port.rate(), Rate::from_bps(1));
}

#[test]
fn a_head_that_waits_leaves_at_its_time_and_control_does_not_wait_for_it() {
    let at = Instant::from_ps;
    let mut port = port(QdiscKind::Paced, Rate::from_gbps(800));
    let mut rng = Rng::new(1);
    for handle in 0..2 {
        port.enqueue(packet(handle, 1000, false), at(1), &mut None);
    }
    assert_eq!(port.next_departure(), at(50_000), "the next slot");
    assert_eq!(port.depart(at(49_999), &mut rng), None);
    port.enqueue(packet(2, 1000, true), at(30_000), &mut None);
    assert_eq!(port.next_departure(), at(30_000), "brought forward");
    let order: Vec<_> = std::iter::from_fn(|| port.depart(at(1_000_000), &mut rng))
        .map(|(departure, _)| (departure.packet.handle, departure.start))
        .collect();
    assert_eq!(order, [(2, at(30_000)), (0, at(50_000)), (1, at(70_000))]);
}
