//! Tests of programmed switches: books balance, and neither windows nor late drivers nor parts
//! change what happens.

use proptest::prelude::*;
use transport::rng::mix;
use transport::wire::class::TrafficClass;
use transport::wire::int::Hop;
use transport::wire::{Ext, Header};
use transport::{Bytes, Duration, HostId, Instant, Rng, TxSegment};

use super::*;
use crate::{
    Flags, Frames, Network, NoFrames, Output, Packet, Parts, QdiscKind, QdiscParams, leaf_spine,
};

const MTU: u16 = 4160;

/// Frames of a driver that keeps headers alone: those that programs have made, by handles from
/// [`MADE`] on.
#[derive(Clone, Debug, Default)]
struct Headers(Vec<Option<Header>>);

const MADE: u32 = 1 << 31;

impl Headers {
    fn place(packet: &Packet) -> usize {
        packet.handle.checked_sub(MADE).unwrap() as usize
    }

    fn live(&self) -> usize {
        self.0.iter().flatten().count()
    }
}

impl Frames for Headers {
    fn header(&self, packet: &Packet) -> Option<Header> {
        self.0[Self::place(packet)]
    }

    fn ext(&self, _packet: &Packet) -> Option<Ext> {
        Some(Ext::VACANT)
    }

    fn rewrite(
        &mut self,
        packet: &mut Packet,
        change: &mut dyn FnMut(&mut Header, &mut Ext),
    ) -> bool {
        let header = self.0[Self::place(packet)].as_mut();
        let mut ext = Ext::VACANT;
        header.map(|header| change(header, &mut ext)).is_some()
    }

    fn stamp(&mut self, _packet: &mut Packet, _hop: &Hop) -> bool {
        false
    }

    fn make(&mut self, segment: &TxSegment, _ext: &Ext, _from: HostId) -> Option<Packet> {
        self.0.push(Some(segment.hdr));
        let handle = MADE + u32::try_from(self.0.len() - 1).unwrap();
        let flags = Flags::of(segment.class());
        Some(Packet { handle, dst: segment.peer, hash: 1, len: 64, trim_len: 64, flags })
    }

    fn end(&mut self, packet: Packet) {
        assert!(self.0[Self::place(&packet)].take().is_some(), "a packet ends once");
    }
}

fn packet(handle: u32, dst: u32, len: u16, urgent: bool) -> Packet {
    let hash = u32::try_from(mix(u64::from(handle)) >> 32).unwrap();
    let flags = if urgent { Flags::of(TrafficClass::Control) } else { Flags::ECT };
    Packet { handle, dst: HostId(dst), hash, len, trim_len: 64, flags }
}

/// A network of plain leaves and spines but for `programs`, by switch.
fn network(qdisc: QdiscKind, programs: &[(u32, ProgramKind)], seed: u64) -> Network {
    let packet_max = Bytes(u64::from(MTU));
    let params = QdiscParams::for_buffer(Bytes(1 << 20), packet_max, QdiscParams::MARK);
    let mut blueprint = leaf_spine::blueprint(qdisc, params);
    for (switch, program) in programs {
        blueprint.assign(*switch, *program);
    }
    Network::new(blueprint, &Rng::new(seed))
}

/// Gap in picoseconds, source, destination, length, control.
type Injection = (u64, u32, u32, u16, bool);

fn injections() -> impl Strategy<Value = Vec<Injection>> {
    let one = (0u64..60_000, 0u32..16, 0u32..16, 64u16..=MTU, prop::bool::weighted(0.1));
    prop::collection::vec(one, 1..400)
}

/// Programs for any of the six switches; the last in the registry is likely on several.
fn mixtures() -> impl Strategy<Value = Vec<(u32, ProgramKind)>> {
    let kind = prop::sample::select(ProgramKind::ALL);
    prop::collection::vec((0u32..6, kind), 0..7)
}

/// Feeds `injections`, running the network up to every `late`-th; 0 runs it in single instants.
fn feed(
    network: &mut Network,
    frames: &mut Headers,
    injections: &[Injection],
    late: usize,
) -> Vec<Output> {
    let mut out = Vec::new();
    let mut now = Instant::ZERO;
    for (handle, (gap, src, dst, len, urgent)) in (0..).zip(injections) {
        now += Duration::from_ps(*gap);
        if late == 0 {
            while network.next_event_at().is_some_and(|at| at <= now) {
                network.step(frames, &mut out);
            }
        }
        if (handle as usize).is_multiple_of(late.max(1)) {
            network.run_until(now, frames, &mut out);
        }
        network.inject(HostId(*src), packet(handle, *dst, *len, *urgent), now, &mut out);
        assert_eq!(network.audit().check(), Ok(()));
    }
    if late == 0 {
        while network.step(frames, &mut out).is_some() {
            assert_eq!(network.audit().check(), Ok(()));
        }
    } else {
        network.run_until(Instant::ZERO + Duration::from_ms(1), frames, &mut out);
    }
    for output in &out {
        if let Output::Dropped { packet, .. } = output
            && packet.handle >= MADE
        {
            frames.end(*packet);
        }
    }
    out
}

/// Handles and instants of what arrived, in order of time.
fn arrivals(out: &[Output]) -> Vec<(Instant, u32)> {
    let of = |output: &Output| match output {
        Output::Delivered { packet, at, .. } => Some((*at, packet.handle)),
        _ => None,
    };
    let mut all: Vec<_> = out.iter().filter_map(of).collect();
    all.sort_unstable();
    all
}

proptest! {
    #[test]
    fn books_balance_with_any_mixture_of_programs_and_plain_switches(
        injections in injections(), programs in mixtures(), late in 1usize..100, seed: u64,
    ) {
        for qdisc in [QdiscKind::Trim, QdiscKind::Paced] {
            let mut exact = network(qdisc, &programs, seed);
            let mut lazy = exact.clone();
            let mut frames = [Headers::default(), Headers::default()];
            let [on_time, whenever] = &mut frames;
            let out = feed(&mut exact, on_time, &injections, 0);
            let audit = exact.audit();
            prop_assert_eq!(audit.check(), Ok(()));
            prop_assert_eq!(audit.inside(), 0);
            prop_assert_eq!(on_time.live(), 0);
            let made = on_time.0.len() as u64;
            prop_assert_eq!((audit.originated, audit.injected), (made, injections.len() as u64));
            let other = feed(&mut lazy, whenever, &injections, late);
            prop_assert_eq!(arrivals(&out), arrivals(&other));
            prop_assert!(exact.port_stats().eq(lazy.port_stats()));
            prop_assert_eq!(lazy.audit().originated, made);
        }
    }
}

/// The sum of the reports that the example in `switch` has received.
fn reported(network: &Network, switch: u32) -> u64 {
    let program = network.programs.iter().find(|program| program.switch == switch).unwrap();
    let AnyProgram::Example(example) = &program.program else { panic!("no example") };
    example.reported()
}

/// 640 packets from the first leaf to the last.
fn crossing() -> Vec<Injection> {
    (0..640u16).map(|n| (41_600, u32::from(n % 4), 12 + u32::from(n % 3), MTU, false)).collect()
}

#[test]
fn programs_hold_originate_edit_and_consume_packets() {
    let mut network =
        network(QdiscKind::Trim, &[(0, ProgramKind::Example), (3, ProgramKind::Example)], 1);
    let mut frames = Headers::default();
    let mut plain = self::network(QdiscKind::Trim, &[], 1);
    let out = feed(&mut network, &mut frames, &crossing(), 0);
    let without = feed(&mut plain, &mut Headers::default(), &crossing(), 0);
    // 640 data packets cross both leaves: a report each 32.
    let audit = network.audit();
    assert_eq!((audit.originated, audit.consumed), (40, 40));
    assert_eq!(frames.0.len(), 40);
    // Each report left with the packets held then: a microsecond of line rate is 24.
    let said = [reported(&network, 0), reported(&network, 3)];
    assert!(said.iter().all(|sum| (20..=20 * 30).contains(sum)), "{said:?}");
    // Two microseconds later than without, one each.
    let delays = arrivals(&out).into_iter().zip(arrivals(&without));
    assert_eq!(arrivals(&out).len(), 640);
    let least = delays.map(|((late, _), (early, _))| late.since(early)).min().unwrap();
    assert!(least >= Duration::from_us(2), "{least:?}");
    assert!(network.totals().data_peak > 10 * u64::from(MTU), "what is held counts as queued");
}

#[test]
fn what_a_program_holds_is_in_the_books_and_in_the_queues() {
    let mut network = network(QdiscKind::Trim, &[(0, ProgramKind::Example)], 1);
    let mut out = Vec::new();
    network.inject(HostId(0), packet(1, 12, MTU, false), Instant::ZERO, &mut out);
    let there = Instant::ZERO + Duration::from_ns(1100);
    network.run_until(there, &mut NoFrames, &mut out);
    let audit = network.audit();
    assert_eq!((audit.held, audit.in_queues, audit.on_wire), (1, 0, 0));
    assert_eq!(audit.check(), Ok(()));
    let queued: u64 = network.switch_queues().map(|queue| queue.data_bytes).sum();
    assert_eq!(queued, u64::from(MTU));
}

#[test]
fn a_packet_for_a_switch_without_an_end_is_refused_and_one_for_a_program_is_not() {
    let mut network =
        network(QdiscKind::Trim, &[(1, ProgramKind::Pfc), (2, ProgramKind::Example)], 1);
    let mut frames = Headers::default();
    for switch in 0..7 {
        let made = TxSegment { peer: HostId(16 + switch), ..TxSegment::VACANT };
        let made = frames.make(&made, &Ext::VACANT, HostId(0)).unwrap();
        let mut out = Vec::new();
        network.inject(HostId(0), made, Instant::ZERO, &mut out);
        assert_eq!(out.is_empty(), switch == 2, "switch {switch}");
    }
    let mut out = Vec::new();
    while network.step(&mut frames, &mut out).is_some() {}
    assert_eq!((network.audit().consumed, network.audit().check()), (1, Ok(())));
}

#[test]
fn parts_of_a_programmed_network_have_each_program_once() {
    let programs = [0, 2, 4, 5].map(|switch| (switch, ProgramKind::Example));
    let network = network(QdiscKind::Trim, &programs, 1);
    let parts = Parts::new(network.blueprint(), &[1; 16], 3);
    let whole = Network::join(network.split(&parts), &parts);
    let switches: Vec<_> = whole.programs.iter().map(|program| program.switch).collect();
    assert_eq!(switches, [0, 2, 4, 5]);
}
