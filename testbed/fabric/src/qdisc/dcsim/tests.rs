//! SIMs, their places and their bucket, and the classes beside them.

use super::*;
use crate::packet::Flags;
use crate::port::Port;
use transport::{Duration, HostId};

const RATE: Rate = Rate::from_gbps(800);
/// L and l on an 800G link.
const DATA_PS: u64 = 90_000;
const SIM_PS: u64 = 640;

fn at(ps: u64) -> Instant {
    Instant::from_ps(ps)
}

fn qdisc(change: impl FnOnce(&mut DcSimParams)) -> DcSim {
    within(500_000, change)
}

/// The queue of a port with a buffer of so many bytes.
fn within(buffer: u64, change: impl FnOnce(&mut DcSimParams)) -> DcSim {
    let mut params = DcSimParams::default();
    change(&mut params);
    let sizes = PacketSizes { probed: Bytes(9000), probe: Bytes(64) };
    let port = QdiscParams {
        sizes,
        ..QdiscParams::for_buffer(Bytes(buffer), Bytes(9000), QdiscParams::MARK)
    };
    DcSim::new(&params, &port, RATE)
}

fn packet(handle: u32, class: TrafficClass) -> Packet {
    let len = if class.is_data() { 9000 } else { 64 };
    Packet { handle, dst: HostId(0), hash: 0, len, trim_len: 64, flags: Flags::of(class) }
}

/// The start and class of each packet that leaves a port until `end`; its queue of SIMs is
/// refilled whenever one leaves. With `follow`, a DATA arrives that long after each SIM;
/// without, DATAs always wait.
fn departures(
    change: impl FnOnce(&mut DcSimParams),
    follow: Option<Duration>,
    end: Instant,
) -> Vec<(Instant, TrafficClass)> {
    let mut port = Port::new(RATE, Duration::ZERO, qdisc(change));
    let mut rng = Rng::new(1);
    let mut data = VecDeque::new();
    let mut left = Vec::new();
    for _ in 0..4 {
        port.enqueue(packet(0, TrafficClass::Probe), at(0), &mut None);
    }
    if follow.is_none() {
        (0..4).for_each(|_| {
            port.enqueue(packet(0, TrafficClass::Data), at(0), &mut None);
        });
    }
    loop {
        let next = port.next_departure();
        let comes = data.front().copied().unwrap_or(Instant::FAR_FUTURE);
        if next.min(comes) > end {
            return left;
        }
        if comes < next {
            data.pop_front();
            port.enqueue(packet(0, TrafficClass::Data), comes, &mut None);
            continue;
        }
        let (departure, _) = port.depart(next, &mut rng).unwrap();
        let class = departure.packet.class();
        left.push((next, class));
        match (class, follow) {
            (TrafficClass::Probe, Some(after)) => data.push_back(next + after),
            (TrafficClass::Data, Some(_)) => continue,
            _ => {}
        }
        port.enqueue(packet(0, class), next, &mut None);
    }
}

//= dcsim#3.1: theorem 1.
#[test]
fn sims_and_their_data_alternate_and_fill_the_line_at_the_rate_of_equation_1() {
    let wait = Duration::from_ns(22_041);
    let end = at(2_000_000_000);
    let left = departures(|params| params.overhead = 1.0, Some(wait), end);
    let first = left.iter().position(|(_, class)| *class == TrafficClass::Data).unwrap();
    for pair in left[first..].windows(2) {
        let [(start, class), (next, next_class)] = pair else { unreachable!() };
        assert_ne!(class, next_class, "strict alternation from {start:?} on");
        let busy = if *class == TrafficClass::Data { DATA_PS } else { SIM_PS };
        assert_eq!(*next, *start + Duration::from_ps(busy), "the link never idles");
    }
    assert!(left.len() > 40_000);
}

//= dcsim#eq2
#[test]
fn with_room_for_acknowledgements_data_has_its_share_of_the_line() {
    let wait = Duration::from_ns(22_041);
    let end = at(4_000_000_000);
    let left = departures(|_| (), Some(wait), end);
    let since = at(1_000_000_000);
    let data = left.iter().filter(|(start, class)| *class == TrafficClass::Data && *start >= since);
    let share = data.count() as f64 * DATA_PS as f64 / 3_000_000_000.0;
    assert!((share / (9000.0 / 9134.4) - 1.0).abs() < 0.001, "{share}");
}

//= dcsim#3.2: theorem 3.
#[test]
fn one_token_falls_behind_behind_data_and_two_do_not() {
    let sims = |bucket| {
        let left = departures(|params| params.bucket = bucket, None, at(1_000_000_000));
        left.iter().filter(|(_, class)| *class == TrafficClass::Probe).count()
    };
    let full = 1_000_000_000 / 91_344;
    assert!(sims(1) <= full * 51 / 100, "{} of {full}", sims(1));
    for bucket in [2, 3, 12] {
        let sent = sims(bucket);
        assert!((full..=full + 1 + usize::from(bucket)).contains(&sent), "{bucket}: {sent}");
    }
}

#[test]
fn classes_leave_in_the_papers_order_and_a_sim_without_token_lets_others_go() {
    let mut port = Port::new(RATE, Duration::ZERO, qdisc(|params| params.bucket = 1));
    let mut rng = Rng::new(1);
    port.enqueue(packet(0, TrafficClass::Data), at(0), &mut None);
    assert_eq!(port.depart(at(0), &mut rng).unwrap().0.packet.handle, 0);
    for (handle, class) in [
        (5, TrafficClass::Data),
        (4, TrafficClass::Trimmed),
        (3, TrafficClass::Control),
        (2, TrafficClass::ProbeAck),
        (1, TrafficClass::Probe),
        (6, TrafficClass::Probe),
    ] {
        port.enqueue(packet(handle, class), at(1), &mut None);
    }
    let left: Vec<_> = std::iter::from_fn(|| port.depart(at(1 << 30), &mut rng))
        .map(|(departure, _)| (departure.packet.handle, departure.start.as_ps()))
        .collect();
    let first = DATA_PS;
    let order = [
        (1, first),
        (2, first + SIM_PS),
        (4, first + 2 * SIM_PS),
        (3, first + 3 * SIM_PS),
        (5, first + 4 * SIM_PS),
        (6, first + 4 * SIM_PS + DATA_PS),
    ];
    assert_eq!(left, order, "the second SIM's token came while the DATA was sent");
}

#[test]
fn a_sim_that_waits_for_a_token_alone_is_overtaken_by_what_comes() {
    let mut port = Port::new(RATE, Duration::ZERO, qdisc(|params| params.bucket = 1));
    let mut rng = Rng::new(1);
    port.enqueue(packet(1, TrafficClass::Probe), at(0), &mut None);
    port.enqueue(packet(2, TrafficClass::Probe), at(0), &mut None);
    assert_eq!(port.depart(at(0), &mut rng).unwrap().0.packet.handle, 1);
    assert_eq!(port.next_departure(), at(91_344));
    assert_eq!(port.pass(&packet(3, TrafficClass::Data), at(50_000)), None, "one waits");
    port.enqueue(packet(3, TrafficClass::Data), at(50_000), &mut None);
    let (departure, _) = port.depart(at(50_000), &mut rng).unwrap();
    assert_eq!((departure.packet.handle, departure.start), (3, at(50_000)));
    assert_eq!(port.next_departure(), at(140_000), "behind the data");
    // At a hundredth of the rate tokens come a hundred times slower.
    port.set_rate(Rate::from_gbps(8), at(50_000));
    assert_eq!(port.next_departure(), at(50_000 + 4_134_400));
}

#[test]
fn a_small_queue_holds_b_packets_and_data_what_is_left_of_the_buffer() {
    let mut queue = qdisc(|_| ());
    for class in [TrafficClass::Probe, TrafficClass::ProbeAck, TrafficClass::Control] {
        for handle in 0..20 {
            let verdict = queue.enqueue(packet(handle, class), at(0), &mut None);
            let full = Verdict::Dropped(DropReason::queue_full(class));
            assert_eq!(verdict, if handle < 12 { Verdict::Queued } else { full });
        }
    }
    // 500,000 - 3 * 12 * 64 bytes are 55 DATAs of 9000.
    for handle in 0..60 {
        let verdict = queue.enqueue(packet(handle, TrafficClass::Data), at(0), &mut None);
        let full = Verdict::Dropped(DropReason::DataQueueFull);
        assert_eq!(verdict, if handle < 55 { Verdict::Queued } else { full });
    }
    let queued = queue.queued();
    assert_eq!((queue.data_limit, queued.data_packets), (497_696, 55));
    assert_eq!((queued.control_packets, queued.control_bytes), (36, 36 * 64));
}

/// Sends packets of `class` through a port, with SIM-ACKs that come at `acks`. Returns when
/// each has left, and its handle; those that are dropped are missing.
fn through(
    queue: DcSim,
    class: TrafficClass,
    arrivals: &[(u64, u32)],
    acks: &[u64],
) -> Vec<(u64, u32)> {
    const ACK: u32 = u32::MAX;
    let (mut port, mut rng) = (Port::new(RATE, Duration::ZERO, queue), Rng::new(1));
    let mut comes: Vec<_> = arrivals.to_vec();
    comes.extend(acks.iter().map(|ps| (*ps, ACK)));
    comes.sort_unstable();
    comes.push((u64::MAX / 2, ACK));
    let mut left = Vec::new();
    for (ps, handle) in comes {
        while port.next_departure() <= at(ps) {
            let departure = port.depart(at(ps), &mut rng).unwrap().0;
            let busy = if departure.packet.is_data() { DATA_PS } else { SIM_PS };
            left.push((departure.start.as_ps() + busy, departure.packet.handle));
        }
        let class = if handle == ACK { TrafficClass::ProbeAck } else { class };
        port.enqueue(packet(handle, class), at(ps), &mut None);
    }
    left.retain(|(_, handle)| *handle != ACK);
    left
}

/// Three packets come before those of the sources A, B and C. B and C share a switch, and the
/// SIM of B finds the next one full. So the DATA of C, which follows no DATA of B there, comes
/// a slot sooner than its SIM did, when the DATA of A has the place that C's SIM had.
//= dcsim#3.1: figure 3.
#[test]
fn the_counterexample_loses_its_one_data_unless_there_is_room_for_twice_as_many() {
    const FIRST: [(u64, u32); 3] = [(2, 1), (2000, 2), (2001, 3)];
    const A: u32 = 10;
    const B: u32 = 11;
    const C: u32 = 12;
    let port = |data: u64| {
        within(data * 9000 + 3 * 2 * 64, |params| (params.queue, params.bucket) = (2, 1))
    };
    let pass = |class, shared: &[(u64, u32)], acks: &[u64], data| {
        let mut comes = FIRST.to_vec();
        comes.push((93_000, A));
        comes.extend(through(port(data), class, shared, &[]));
        let left = through(port(data), class, &comes, acks);
        left.iter().map(|(_, handle)| *handle).collect::<Vec<_>>()
    };
    let sims = pass(TrafficClass::Probe, &[(93_100, B), (93_101, C)], &[], 2);
    assert_eq!(sims, [1, 2, 3, A, C]);
    // Two SIM-ACKs a slot, for which equation 2 leaves room.
    let acks = [0, 1, 50_000, 50_001, 100_000, 100_001];
    let data = |room| pass(TrafficClass::Data, &[(93_101, C)], &acks, room);
    assert_eq!(data(2), [1, 2, 3, A], "the DATA of C is lost");
    assert_eq!(data(4), [1, 2, 3, A, C]);
}

#[test]
fn unscheduled_data_leaves_last_enters_up_to_its_share_and_gives_way_to_data() {
    let mut port = Port::new(RATE, Duration::ZERO, within(92_304, |p| p.unscheduled = 0.4));
    let mut rng = Rng::new(1);
    let mut lost = None;
    let mut enqueue = |port: &mut Port<DcSim>, handle, class| {
        lost = None;
        let verdict = port.enqueue(packet(handle, class), at(0), &mut lost);
        (verdict, lost.map(|packet| packet.handle))
    };
    let full = Verdict::Dropped(DropReason::UnscheduledQueueFull);
    // The line is busy with the first. Room for ten of data, and for four unscheduled.
    enqueue(&mut port, 0, TrafficClass::Data);
    port.depart(at(0), &mut rng).unwrap();
    for handle in 1..=4 {
        let verdict = enqueue(&mut port, handle, TrafficClass::Unscheduled);
        assert_eq!(verdict, (Verdict::Queued, None));
    }
    assert_eq!(enqueue(&mut port, 5, TrafficClass::Unscheduled), (full, None));
    for handle in 11..=16 {
        assert_eq!(enqueue(&mut port, handle, TrafficClass::Data), (Verdict::Queued, None));
    }
    for (handle, evicted) in (17..=20).zip([4, 3, 2, 1]) {
        let verdict = enqueue(&mut port, handle, TrafficClass::Data);
        assert_eq!(verdict, (Verdict::Evicted, Some(evicted)));
    }
    let full = Verdict::Dropped(DropReason::DataQueueFull);
    assert_eq!(enqueue(&mut port, 21, TrafficClass::Data), (full, None));
    for _ in 0..8 {
        port.depart(at(1 << 40), &mut rng).unwrap();
    }
    assert_eq!(enqueue(&mut port, 6, TrafficClass::Unscheduled), (Verdict::Queued, None));
    assert_eq!(enqueue(&mut port, 22, TrafficClass::Data), (Verdict::Queued, None));
    let left = std::iter::from_fn(|| port.depart(at(1 << 40), &mut rng));
    let left: Vec<_> = left.map(|(departure, _)| departure.packet.handle).collect();
    assert_eq!(left, [19, 20, 22, 6]);
}

#[test]
fn data_pushes_out_unscheduled_data_that_is_long_enough() {
    let mut queue = within(20_304, |p| p.unscheduled = 1.0);
    let mut lost = None;
    let mut enqueue = |handle, class, len| {
        lost = None;
        let verdict = queue.enqueue(Packet { len, ..packet(handle, class) }, at(0), &mut lost);
        (verdict, lost.map(|packet| packet.handle), queue.queued().data_packets)
    };
    let all = (Verdict::Queued, None);
    for (handle, len) in [(1, 9000), (2, 8900), (3, 100)] {
        let (verdict, evicted, count) = enqueue(handle, TrafficClass::Unscheduled, len);
        assert_eq!(((verdict, evicted), count), (all, handle as usize));
    }
    // The last is too short, and so is the one before it.
    let data = enqueue(4, TrafficClass::Data, 9000);
    assert_eq!(data, (Verdict::Evicted, Some(1), 3));
    let full = Verdict::Dropped(DropReason::DataQueueFull);
    assert_eq!(enqueue(5, TrafficClass::Data, 9000), (full, None, 3));
    assert_eq!(enqueue(6, TrafficClass::Data, 8000), (Verdict::Evicted, Some(2), 3));
}
