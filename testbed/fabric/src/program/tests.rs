//! Tests of programmed switches: books balance, and windows, late drivers and parts do not change
//! what happens.

use std::collections::BTreeMap;
use std::num::NonZeroU8;

use proptest::prelude::*;
use transport::rc::MlccHalf;
use transport::rng::mix;
use transport::units::Key;
use transport::wire::class::TrafficClass;
use transport::wire::data::Glance;
use transport::wire::int::Hop;
use transport::wire::{Ext, Header};
use transport::{Bytes, Duration, FlowId, HostId, Instant, Rate, Rng, TxSegment};

use super::context::Agenda;
use super::*;
use crate::fault::{FaultKind, FaultSpec};
use crate::frames::Driver;
use crate::qdisc::Verdict;
use crate::{
    Flags, Frames, Headers, Network, NoFrames, Output, Packet, Parts, QdiscKind, QdiscParams,
    leaf_spine,
};

const MTU: u16 = 4160;

/// Frames of a driver that keeps headers alone: those of packets that programs have made, by
/// handles from [`MADE`] on, each with its copies under way; for other handles the copies alone.
#[derive(Clone, Debug, Default)]
struct Kept {
    kept: Vec<(Header, u32)>,
    others: BTreeMap<u32, i64>,
    made: u64,
}

const MADE: u32 = 1 << 31;

impl Kept {
    fn place(packet: &Packet) -> usize {
        packet.handle.checked_sub(MADE).unwrap() as usize
    }

    /// Copies of packets that programs have made.
    fn live(&self) -> u32 {
        self.kept.iter().map(|(_, copies)| copies).sum()
    }

    fn keep(&mut self, header: Header) -> u32 {
        self.kept.push((header, 1));
        MADE + u32::try_from(self.kept.len() - 1).unwrap()
    }
}

impl Headers for Kept {
    fn read(&self, packet: &Packet, look: &mut dyn FnMut(HostId, &Header, &Ext)) {
        // The packets of hosts are without headers here.
        if packet.handle < MADE {
            return;
        }
        let (header, copies) = &self.kept[Self::place(packet)];
        assert!(*copies > 0, "a packet that has ended is read");
        look(HostId(0), header, &Ext::VACANT);
    }
}

impl Frames for Kept {
    fn rewrite(
        &mut self,
        packet: &mut Packet,
        change: &mut dyn FnMut(&mut Header, &mut Ext),
    ) -> bool {
        if packet.handle < MADE {
            return false;
        }
        let (header, copies) = &mut self.kept[Self::place(packet)];
        assert!(*copies > 0, "a packet that has ended is edited");
        if *copies > 1 {
            *copies -= 1;
            let own = *header;
            packet.handle = self.keep(own);
        }
        change(&mut self.kept[Self::place(packet)].0, &mut Ext::VACANT.clone());
        true
    }

    fn stamp(&mut self, _packet: &mut Packet, _hops: &[Hop]) -> bool {
        false
    }

    fn make(&mut self, segment: &TxSegment, _ext: &Ext, _from: HostId) -> Option<Packet> {
        self.made += 1;
        let handle = self.keep(segment.hdr);
        let flags = Flags::of(segment.class());
        Some(Packet { handle, dst: segment.peer, hash: 1, len: 64, trim_len: 64, flags })
    }

    fn duplicate(&mut self, packet: &Packet) {
        match packet.handle >= MADE {
            true => self.kept[Self::place(packet)].1 += 1,
            false => *self.others.entry(packet.handle).or_default() += 1,
        }
    }

    fn end(&mut self, packet: Packet) {
        if packet.handle < MADE {
            *self.others.entry(packet.handle).or_default() -= 1;
            return;
        }
        let copies = &mut self.kept[Self::place(&packet)].1;
        *copies = copies.checked_sub(1).expect("a packet ends once");
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
    // The last one that names a switch holds.
    for (switch, program) in programs.iter().copied().collect::<BTreeMap<_, _>>() {
        blueprint.assign(switch, program).unwrap();
    }
    Network::new(blueprint, &Rng::new(seed))
}

/// Gap in picoseconds, source, destination, length, control.
type Injection = (u64, u32, u32, u16, bool);

fn injections() -> impl Strategy<Value = Vec<Injection>> {
    let one = (0u64..60_000, 0u32..16, 0u32..16, 64u16..=MTU, prop::bool::weighted(0.1));
    prop::collection::vec(one, 1..400)
}

/// Programs for any of the six switches.
fn mixtures() -> impl Strategy<Value = Vec<(u32, ProgramKind)>> {
    let kind = prop_oneof![prop::sample::select(ProgramKind::ALL), Just(ProgramKind::Example)];
    prop::collection::vec((0u32..6, kind), 0..7)
}

/// Feeds `injections`, running the network up to every `late`-th; 0 runs it in single instants.
/// Some links become slower before injection `slower_at`.
fn feed(
    network: &mut Network,
    frames: &mut Kept,
    injections: &[Injection],
    (late, slower_at): (usize, Option<u32>),
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
        if slower_at == Some(handle) {
            network.run_until(now, frames, &mut out);
            slow_down(network);
        } else if (handle as usize).is_multiple_of(late.max(1)) {
            network.run_until(now, frames, &mut out);
        }
        let injected = packet(handle, *dst, *len, *urgent);
        network.inject(HostId(*src), injected, now, frames, &mut out);
        assert_eq!(network.audit().check(), Ok(()));
    }
    if late == 0 {
        while network.step(frames, &mut out).is_some() {
            assert_eq!(network.audit().check(), Ok(()));
        }
    } else {
        network.run_until(Instant::ZERO + Duration::from_ms(1), frames, &mut out);
    }
    out
}

/// Halves the rates of some ports, of NICs and of switches, while packets wait at them.
fn slow_down(network: &mut Network) {
    let ports: Vec<PortId> = (0..40).step_by(3).map(PortId).collect();
    let (from, until) = (network.now(), network.now() + Duration::from_us(5));
    let spec = FaultSpec { from, until, kind: FaultKind::Degrade { share: 0.5 } };
    network.add_fault(&ports, spec).unwrap();
}

/// Every seventh port sends some packets twice from the beginning.
fn double(network: &mut Network) {
    let ports: Vec<PortId> = (0..40).step_by(7).map(PortId).collect();
    let (from, until) = (Instant::ZERO, Instant::FAR_FUTURE);
    let spec = FaultSpec { from, until, kind: FaultKind::Duplicate { p: 0.2 } };
    network.add_fault(&ports, spec).unwrap();
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
        injections in injections(), programs in mixtures(), late in 1usize..100,
        slower_at in prop::option::of(0u32..100), seed: u64,
    ) {
        let runs = [QdiscKind::Trim, QdiscKind::Trim, QdiscKind::Paced].into_iter();
        for (qdisc, doubles) in runs.zip([false, true, false]) {
            let mut exact = network(qdisc, &programs, seed);
            if doubles {
                double(&mut exact);
            }
            let mut lazy = exact.clone();
            let mut frames = [Kept::default(), Kept::default()];
            let [on_time, whenever] = &mut frames;
            let out = feed(&mut exact, on_time, &injections, (0, slower_at));
            let audit = exact.audit();
            prop_assert_eq!(audit.check(), Ok(()));
            prop_assert_eq!(audit.inside(), 0);
            prop_assert_eq!(on_time.live(), 0);
            let made = on_time.made;
            prop_assert_eq!((audit.originated, audit.injected), (made, injections.len() as u64));
            prop_assert!(doubles || on_time.others.values().all(|copies| *copies <= 0));
            let other = feed(&mut lazy, whenever, &injections, (late, slower_at));
            prop_assert_eq!(arrivals(&out), arrivals(&other));
            prop_assert!(exact.port_stats().eq(lazy.port_stats()));
            prop_assert_eq!(lazy.audit().originated, made);
            prop_assert_eq!((whenever.live(), &whenever.others), (0, &on_time.others));
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
fn an_idle_network_has_nothing_to_come_whatever_programs_it_runs() {
    for kind in ProgramKind::ALL.iter().copied().chain([ProgramKind::Example]) {
        let mut network = network(QdiscKind::Trim, &[(0, kind), (4, kind)], 1);
        feed(&mut network, &mut Kept::default(), &crossing(), (1, None));
        assert_eq!(network.next_event_at(), None, "{}", kind.name());
    }
}

#[test]
fn programs_hold_originate_edit_and_consume_packets() {
    let mut network =
        network(QdiscKind::Trim, &[(0, ProgramKind::Example), (3, ProgramKind::Example)], 1);
    let mut frames = Kept::default();
    let mut plain = self::network(QdiscKind::Trim, &[], 1);
    let out = feed(&mut network, &mut frames, &crossing(), (0, None));
    let without = feed(&mut plain, &mut Kept::default(), &crossing(), (0, None));
    // 640 data packets cross both leaves: a report each 32.
    let audit = network.audit();
    assert_eq!((audit.originated, audit.consumed), (40, 40));
    assert_eq!(frames.made, 40);
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
    network.inject(HostId(0), packet(1, 12, MTU, false), Instant::ZERO, &mut NoFrames, &mut out);
    let there = Instant::ZERO + Duration::from_ns(1100);
    network.run_until(there, &mut NoFrames, &mut out);
    let audit = network.audit();
    assert_eq!((audit.held, audit.in_queues, audit.on_wire), (1, 0, 0));
    assert_eq!(audit.check(), Ok(()));
    let queued: u64 = network.look_at_queues().iter().map(|switch| switch.held_bytes).sum();
    assert_eq!(queued, u64::from(MTU));
}

#[test]
fn a_packet_for_a_switch_without_an_end_is_refused_and_one_for_a_program_is_not() {
    let mut network =
        network(QdiscKind::Trim, &[(1, ProgramKind::Pfc), (2, ProgramKind::Example)], 1);
    let mut frames = Kept::default();
    for switch in 0..7 {
        let made = TxSegment { peer: HostId(16 + switch), ..TxSegment::VACANT };
        let made = frames.make(&made, &Ext::VACANT, HostId(0)).unwrap();
        let mut out = Vec::new();
        network.inject(HostId(0), made, Instant::ZERO, &mut frames, &mut out);
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
    let mut networks = network.split(&parts);
    // The first leaf holds a packet, the third three; each runs in the part of its hosts.
    let mut frames = Kept::default();
    for (host, packets) in [(0, 1), (8, 3)] {
        let part = parts.hosts.iter().position(|hosts| hosts.contains(&host)).unwrap();
        let (network, mut out) = (&mut networks[part], Vec::new());
        for handle in 0..packets {
            let packet = packet(handle, host + 1, MTU, false);
            network.inject(HostId(host), packet, Instant::ZERO, &mut frames, &mut out);
        }
        let soon = Instant::ZERO + Duration::from_ns(1500);
        network.run_until(soon, &mut frames, &mut out);
    }
    let whole = Network::join(networks, &parts);
    let held = |program: &Programmed| (program.switch, program.program_holds().data_packets);
    let held: Vec<_> = whole.programs.iter().map(held).collect();
    assert_eq!(held, [(0, 1), (2, 3), (4, 0), (5, 0)]);
}

/// The first switch of `network` at work at time zero.
fn context<'a>(
    network: &'a mut Network,
    agenda: &'a mut Agenda,
    driver: Driver<'a>,
) -> Context<'a> {
    Context {
        ports: &mut network.ports,
        transit: &mut network.links,
        wiring: &network.wiring,
        driver,
        agenda,
        switch: 0,
        now: Instant::ZERO,
        handles_all: true,
    }
}

#[test]
fn a_packet_that_leaves_at_once_is_on_its_link_where_the_program_leaves_departures_alone() {
    let mut network = network(QdiscKind::Trim, &[(0, ProgramKind::Example)], 1);
    let mut out = Vec::new();
    let mut agenda = Agenda::new(network.blueprint().switches[0].ports());
    let driver = Driver { out: &mut out, frames: &mut NoFrames };
    let mut cx = context(&mut network, &mut agenda, driver);
    cx.handles_all = false;
    let port = PortId(16);
    assert_eq!(cx.send(port, packet(1, 0, MTU, false)), SendFate::Leaves);
    assert_eq!((cx.agenda.leaving.len(), cx.transit.counts.hops), (0, 1));
    // A packet that its port has kept waits for the program.
    assert_eq!(cx.send(port, packet(2, 0, MTU, false)), SendFate::Waits);
    cx.now = cx.free_at(port);
    assert_eq!(cx.send(port, packet(3, 0, MTU, false)), SendFate::Waits);
    assert_eq!((cx.agenda.leaving.len(), cx.transit.counts.hops), (1, 1));
}

#[test]
fn a_packet_is_said_to_leave_when_it_has_left_its_queue() {
    let mut network = network(QdiscKind::Trim, &[(0, ProgramKind::Example)], 1);
    let mut out = Vec::new();
    let mut agenda = Agenda::new(network.blueprint().switches[0].ports());
    let driver = Driver { out: &mut out, frames: &mut NoFrames };
    let mut cx = context(&mut network, &mut agenda, driver);
    // Data takes the idle link; control, which would have gone first, comes after it.
    let port = PortId(16);
    assert_eq!(cx.send(port, packet(1, 0, MTU, false)), SendFate::Leaves);
    assert_eq!(cx.send(port, packet(2, 0, 64, true)), SendFate::Waits);
    assert_eq!(cx.send(port, packet(3, 0, MTU, false)), SendFate::Waits);
    assert_eq!(cx.port(port).queued.packets(), 2);
    let left = |agenda: &Agenda| {
        agenda.leaving.iter().map(|leaving| leaving.departure.packet.handle).collect::<Vec<_>>()
    };
    assert_eq!(left(cx.agenda), [1]);
    // When the link is free, control that waits leaves before data that comes then.
    cx.now = cx.port(port).busy_until;
    assert_eq!(cx.send(port, packet(4, 0, MTU, false)), SendFate::Waits);
    assert_eq!(left(cx.agenda), [1, 2]);
    let queued: u64 = network.queued(port).data_bytes;
    assert_eq!(network.ports[16].stats.data_peak, queued, "two packets wait");
}

/// Packets that are data of MLCC, each of a flow of its own.
struct Flows;

impl Headers for Flows {
    fn glance(&self, packet: &Packet) -> Option<Glance> {
        let key = Key(u64::from(packet.handle) + 1);
        let half = NonZeroU8::new(MlccHalf::NUMBER)?;
        Some(Glance { key, src_flow: FlowId::UNKNOWN, half, has_hops: false })
    }
}

impl Frames for Flows {
    fn duplicate(&mut self, _packet: &Packet) {}

    fn end(&mut self, _packet: Packet) {}
}

#[test]
fn a_border_switch_gives_a_port_the_next_packet_when_its_link_is_free() {
    let mut network = network(QdiscKind::Trim, &[(0, ProgramKind::Dci)], 1);
    let mut out = Vec::new();
    for host in 4..16 {
        let packet = packet(host, 0, MTU, false);
        network.inject(HostId(host), packet, Instant::ZERO, &mut Flows, &mut out);
    }
    network.run_until(Instant::ZERO + Duration::from_ms(1), &mut Flows, &mut out);
    assert_eq!(arrivals(&out).len(), 12);
    let AnyProgram::Dci(dci) = &network.programs[0].program else { panic!("no border switch") };
    assert!(dci.stats().queue_bytes_peak > u64::from(MTU), "packets wait in queues of flows");
    assert_eq!(network.ports[16].stats.data_peak, 0, "none waits in the port's own");
}

#[test]
fn a_port_of_a_programmed_switch_has_its_turns_with_its_switch() {
    let mut network = network(QdiscKind::Trim, &[(0, ProgramKind::Example)], 1);
    let port = &mut network.ports[16].port;
    port.pause(true, Instant::ZERO);
    let verdict = port.enqueue(packet(1, 0, MTU, false), Instant::ZERO, &mut None);
    assert_eq!(verdict, Verdict::Queued);
    // What waits for the pause to end sees the end of the fault as well.
    let until = Instant::ZERO + Duration::from_us(5);
    let kind = FaultKind::Degrade { share: 0.5 };
    let spec = FaultSpec { from: Instant::ZERO, until, kind };
    network.add_fault(&[PortId(16)], spec).unwrap();
    let window = network.open(until + Duration::from_ns(1));
    let (plain, programmed) = window.switches(network.ports.len());
    assert_eq!((plain.len(), programmed.len()), (0, 1));
}

#[test]
fn a_program_sees_the_rate_that_a_fault_leaves_to_an_idle_port() {
    let mut network = network(QdiscKind::Trim, &[(0, ProgramKind::Example)], 1);
    let (port, from) = (PortId(16), Instant::ZERO + Duration::from_us(5));
    let kind = FaultKind::Degrade { share: 0.5 };
    let spec = FaultSpec { from, until: from + Duration::from_us(5), kind };
    network.add_fault(&[port], spec).unwrap();
    let full = network.ports[16].port.rate();
    let half = Rate::from_bps(full.as_bps() / 2);
    let mut out = Vec::new();
    let mut agenda = Agenda::new(network.blueprint().switches[0].ports());
    let driver = Driver { out: &mut out, frames: &mut NoFrames };
    let mut cx = context(&mut network, &mut agenda, driver);
    for (us, rate) in [(0, full), (5, half), (7, half), (10, full)] {
        cx.now = Instant::ZERO + Duration::from_us(us);
        assert_eq!((cx.port(port).rate, cx.hop(port).rate()), (rate, rate), "at {us} us");
    }
}
