//! Tests of telemetry: what ports write into packets that leave them.

use proptest::prelude::*;
use transport::wire::int::{HOPS_MAX, Hop, Int};
use transport::{Bytes, DropReason, Duration, HostId, Instant, Rate, Rng};

use crate::{
    FaultKind, FaultSpec, Flags, Frames, Headers, Network, Output, Packet, PortId, QdiscKind,
    QdiscParams, leaf_spine,
};

/// A multiple of the unit of telemetry.
const MTU: u16 = 65 * 64;
const RATE: Rate = Rate::from_gbps(800);

/// Telemetry by handle, and how many copies of the packet travel.
#[derive(Clone, Debug, Default)]
struct Stamps(Vec<(Int, u32)>);

/// Frames of a driver that has no buffers left.
struct Exhausted;

impl Headers for Exhausted {}

impl Frames for Exhausted {
    fn stamp(&mut self, _packet: &mut Packet, _hops: &[Hop]) -> bool {
        false
    }

    fn duplicate(&mut self, _packet: &Packet) {}

    fn end(&mut self, _packet: Packet) {}
}

impl Headers for Stamps {}

impl Frames for Stamps {
    fn stamp(&mut self, packet: &mut Packet, hops: &[Hop]) -> bool {
        let (int, copies) = &mut self.0[packet.handle as usize];
        if *copies > 1 {
            *copies -= 1;
            let own = (*int, 1);
            packet.handle = u32::try_from(self.0.len()).unwrap();
            self.0.push(own);
        }
        let int = &mut self.0[packet.handle as usize].0;
        hops.iter().for_each(|hop| int.stamp(*hop));
        true
    }

    fn duplicate(&mut self, packet: &Packet) {
        self.0[packet.handle as usize].1 += 1;
    }

    fn end(&mut self, packet: Packet) {
        self.0[packet.handle as usize].1 -= 1;
    }
}

/// Leaves and spines of which `switches` write telemetry: 0..=3 are leaves of four hosts, 4 and 5
/// are spines.
fn network(switches: &[u32]) -> Network {
    let params = QdiscParams::for_buffer(Bytes(1 << 22), Bytes(MTU.into()), QdiscParams::MARK);
    let mut blueprint = leaf_spine::blueprint(QdiscKind::Trim, params);
    switches.iter().for_each(|switch| blueprint.stamp(*switch));
    Network::new(blueprint, &Rng::new(1))
}

const ALL: [u32; 6] = [0, 1, 2, 3, 4, 5];

/// Gap in picoseconds, source, destination.
type Injection = (u64, u32, u32);

/// Runs `injections` of packets with room, up to each `late`-th at once; 0 runs single instants.
/// Returns the hops of each packet that arrived, by number of the packet.
fn run(mut network: Network, injections: &[Injection], late: usize) -> Vec<(u32, Vec<Hop>)> {
    let mut frames = Stamps::default();
    let (mut now, mut out, mut arrived) = (Instant::ZERO, Vec::new(), Vec::new());
    let mut numbers = Vec::new();
    let mut settle = |frames: &mut Stamps, out: &mut Vec<Output>, numbers: &mut Vec<u32>| {
        for output in out.drain(..) {
            let Output::Delivered { packet, .. } = output else { continue };
            let hops = frames.0[packet.handle as usize].0.hops().to_vec();
            // A copy with a frame of its own is as its original in all else.
            arrived.push((numbers.get(packet.hash as usize).copied().unwrap(), hops));
        }
    };
    for (number, (gap, src, dst)) in (0..).zip(injections) {
        now += Duration::from_ps(*gap);
        if late == 0 {
            while network.next_event_at().is_some_and(|at| at <= now) {
                network.step(&mut frames, &mut out);
                settle(&mut frames, &mut out, &mut numbers);
            }
        } else if (number as usize).is_multiple_of(late) {
            network.run_until(now, &mut frames, &mut out);
            settle(&mut frames, &mut out, &mut numbers);
        }
        let handle = u32::try_from(frames.0.len()).unwrap();
        frames.0.push((Int::with_room(u8::try_from(HOPS_MAX).unwrap()), 1));
        numbers.push(number);
        let flags = Flags::ECT.with(Flags::TRIMMABLE).with(Flags::INT);
        let packet =
            Packet { handle, dst: HostId(*dst), hash: number, len: MTU, trim_len: 64, flags };
        network.inject(HostId(*src), packet, now, &mut frames, &mut out);
    }
    while network.step(&mut frames, &mut out).is_some() {
        settle(&mut frames, &mut out, &mut numbers);
    }
    // Copies of one packet arrive in any order.
    arrived.sort_by_key(|(number, hops)| (*number, format!("{hops:?}")));
    arrived
}

#[test]
fn a_packet_has_a_hop_of_each_switch_of_its_path_in_their_order() {
    let across = run(network(&ALL), &[(0, 0, 12), (0, 1, 2)], 0);
    let [(_, far), (_, near)] = &across[..] else { panic!("{across:?}") };
    assert_eq!((far.len(), near.len()), (3, 1));
    for pair in far.windows(2) {
        assert!(pair[1].since(&pair[0]).is_some_and(|gap| gap > Duration::ZERO));
        assert_ne!(pair[0].port(), pair[1].port());
    }
    assert!(far.iter().all(|hop| hop.rate() == RATE && hop.waiting() == Bytes::ZERO));
    let some = run(network(&[0, 3]), &[(0, 0, 12)], 0);
    assert_eq!(some[0].1, [far[0], far[2]], "a spine that writes nothing");
    assert!(run(network(&[]), &[(0, 0, 12)], 0)[0].1.is_empty());
}

#[test]
fn a_packet_whose_hop_cannot_be_written_is_lost() {
    let mut network = network(&[4, 5]);
    let flags = Flags::ECT.with(Flags::INT);
    for (handle, dst) in (0..).zip([12, 2]) {
        let packet = Packet { handle, dst: HostId(dst), hash: 0, len: MTU, trim_len: 64, flags };
        network.inject(HostId(0), packet, Instant::ZERO, &mut Exhausted, &mut Vec::new());
    }
    let mut out = Vec::new();
    network.run_until(Instant::ZERO + Duration::from_us(100), &mut Exhausted, &mut out);
    let is_lost = |output: &&Output| {
        matches!(output, Output::Dropped { packet, reason: DropReason::NoBuffer, .. }
            if packet.handle == 0)
    };
    let arrived =
        |output: &&Output| matches!(output, Output::Delivered { packet, .. } if packet.handle == 1);
    assert_eq!(out.iter().filter(is_lost).count(), 1, "{out:?}");
    assert_eq!(out.iter().filter(arrived).count(), 1, "no spine on its path: {out:?}");
    network.audit().check().unwrap();
}

#[test]
fn a_hop_says_what_was_sent_before_and_what_waits_behind() {
    // Three hosts of a leaf send ten packets each to the fourth, which takes one at a time.
    let burst: Vec<Injection> = (0..30).map(|n| (0, n % 3, 3)).collect();
    let arrived = run(network(&ALL), &burst, 0);
    let mut hops: Vec<Hop> = arrived.iter().map(|(_, hops)| hops[0]).collect();
    let first = hops.iter().find(|hop| hops.iter().all(|other| other.since(hop).is_some()));
    let first = *first.unwrap();
    hops.sort_by_key(|hop| hop.since(&first).unwrap());
    let serialisation = RATE.time_for(Bytes(MTU.into()));
    for (n, pair) in (1u64..).zip(hops.windows(2)) {
        assert_eq!(pair[1].sent_since(&pair[0]), Some(Bytes(MTU.into())));
        // Telemetry has a resolution of a nanosecond.
        let gap = pair[1].since(&pair[0]).unwrap().as_ps().abs_diff(serialisation.as_ps());
        assert!(gap < 1000, "{n}");
        // When packet n left, n before it had left and n of each host had come.
        let come = (3 * n).min(30);
        assert_eq!(pair[1].waiting(), Bytes((come - n - 1) * u64::from(MTU)), "{n}");
    }
}

/// The network in which every switch writes, and `ports` send some packets twice.
fn doubling(ports: &[PortId], p: f64) -> Network {
    let mut network = network(&ALL);
    let twice = FaultKind::Duplicate { p };
    let spec = FaultSpec { from: Instant::ZERO, until: Instant::FAR_FUTURE, kind: twice };
    network.add_fault(ports, spec).unwrap();
    network
}

#[test]
fn copies_of_a_packet_have_the_hops_of_their_own_way() {
    let network = doubling(&[PortId(0)], 1.0);
    let arrived = run(network, &[(0, 0, 12), (0, 0, 13)], 0);
    assert_eq!(arrived.len(), 4);
    for (number, hops) in &arrived {
        assert_eq!(hops.len(), 3, "packet {number}");
    }
    assert_ne!(arrived[0].1, arrived[1].1, "they left one after the other");
}

proptest! {
    #[test]
    fn late_polls_change_no_hop(
        injections in prop::collection::vec((0u64..60_000, 0u32..16, 0u32..16), 1..200),
        late in 1usize..50,
    ) {
        let exact = run(network(&ALL), &injections, 0);
        prop_assert_eq!(exact.len(), injections.len());
        prop_assert_eq!(&exact, &run(network(&ALL), &injections, late));
        let length = |number: u32| {
            let (_, src, dst) = injections[number as usize];
            if src / 4 == dst / 4 { 1 } else { 3 }
        };
        for (number, hops) in exact {
            prop_assert_eq!(hops.len(), length(number));
        }
        // Copies that a NIC, or a switch, makes during a late poll have hops of their own.
        let ports: Vec<PortId> = (0..16).step_by(2).chain(20..32).map(PortId).collect();
        let exact = run(doubling(&ports, 0.3), &injections, 0);
        prop_assert!(exact.len() >= injections.len());
        prop_assert_eq!(&exact, &run(doubling(&ports, 0.3), &injections, late));
        for (number, hops) in exact {
            prop_assert_eq!(hops.len(), length(number));
        }
    }
}
