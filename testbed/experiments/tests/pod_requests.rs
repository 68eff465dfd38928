//! Requests that hosts of a pod should not send: in the name of another host, from epochs that are
//! not, with totals that jump, twice, too many at once. Each is counted by its name, and what other
//! hosts get stays what they get without it.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use std::collections::BTreeMap;

use experiments::measure::scheduler::pods;
use experiments::plan::{Draft, Origin, Plan};
use experiments::topology::{self, FatTree};
use experiments::workload::{FlowSpec, Matrix};
use fabric::{Flags, Frames, Headers, Network, Output, Packet};
use transport::sched::zeropod::timing::{Terms, Timing};
use transport::wire::class::TrafficClass;
use transport::wire::pod::{CoreRts, Delivered, Grant, MICE_MAX, Place, Rts, Schd};
use transport::wire::{Body, Ext, Header, Note};
use transport::{
    Bytes, Duration, EntropyValue, FlowId, HostId, Instant, Psn, Rate, Rng, TxSegment,
};

const ASKED: u32 = 40 * 512;

/// The headers of packets, and the hosts that sent them.
#[derive(Default)]
struct Notes(Vec<(HostId, Header)>);

impl Notes {
    fn packet(&mut self, from: HostId, dst: HostId, header: Header) -> Packet {
        self.0.push((from, header));
        let handle = u32::try_from(self.0.len() - 1).unwrap();
        let flags = Flags::of(TrafficClass::Control);
        Packet { handle, dst, hash: header.ev.0.into(), len: 40, trim_len: 40, flags }
    }
}

impl Headers for Notes {
    fn read(&self, packet: &Packet, look: &mut dyn FnMut(HostId, &Header, &Ext)) {
        let (from, header) = &self.0[packet.handle as usize];
        look(*from, header, &Ext::VACANT);
    }
}

impl Frames for Notes {
    fn make(&mut self, segment: &TxSegment, _ext: &Ext, from: HostId) -> Option<Packet> {
        Some(self.packet(from, segment.peer, segment.hdr))
    }

    fn duplicate(&mut self, _packet: &Packet) {}

    fn end(&mut self, _packet: Packet) {}
}

/// A packet to the scheduler: its true sender, the host that it names, its epoch, its note.
type Sent = (u32, u16, u64, Note);

fn timing() -> Timing {
    Timing::new(&Terms {
        cell: Bytes(552),
        control: Bytes(40),
        rate: Rate::from_gbps(100),
        hop: Duration::from_us(1),
        cells: 16,
        guard: Duration::ZERO,
        delay: Duration::from_us(15),
        layers: 0,
        early: Duration::ZERO,
        guards_answers: false,
    })
}

fn rts(epoch: u32, to: Place, total: u32) -> Rts {
    let mice = [Rts::NO_MOUSE; MICE_MAX as usize];
    Rts { term: 1, epoch, update: Some((to, total)), arrived: 0, mice, mice_len: 0, clock: None }
}

/// Runs a pod to which `sent` is sent, as [`run_in`] does.
fn run(sent: Vec<Sent>) -> (BTreeMap<&'static str, u64>, BTreeMap<u32, u32>) {
    run_in("zeropod:8", sent)
}

/// Runs pods to the first of which `sent` is sent, each packet in the slot of its true sender in
/// its epoch. Returns what the scheduler refused, by name, and the cells that each host was
/// granted.
fn run_in(
    topology: &str,
    mut sent: Vec<Sent>,
) -> (BTreeMap<&'static str, u64>, BTreeMap<u32, u32>) {
    let mut draft = Draft::default();
    draft.set_transport("zeropod", Origin::Set).unwrap();
    for (key, value) in [("sched.zeropod.cells", "16"), ("sched.zeropod.delay", "15us")] {
        draft.set(key, value, Origin::Set).unwrap();
    }
    let tree = topology::by_name(topology).unwrap();
    let scheduler = FatTree::new(tree.clone()).unwrap().scheduler_of(0).unwrap();
    let scheduler = HostId(tree.nodes + scheduler);
    let mut matrix = Matrix { nodes: tree.nodes, ..Matrix::default() };
    matrix.push_flow(FlowSpec::new(HostId(0), HostId(1), Bytes(1))).unwrap();
    let plan = Plan::new(&draft, matrix, &tree).unwrap();
    let mut network = Network::new(plan.blueprint(), &Rng::new(1));
    let (mut notes, mut out, timing) = (Notes::default(), Vec::new(), timing());
    let at = |(from, _, epoch, _): &Sent| {
        timing.start(*epoch) + timing.request_at(u16::try_from(from % 4).unwrap(), None)
    };
    sent.sort_by_key(at);
    for packet in &sent {
        let (from, named, _, note) = *packet;
        network.run_until(at(packet), &mut notes, &mut out);
        let header = Header::new(EntropyValue(named), FlowId::UNKNOWN, Body::Note(note));
        let made = notes.packet(HostId(from), scheduler, header);
        network.inject(HostId(from), made, at(packet), &mut notes, &mut out);
    }
    network.run_until(Instant::ZERO + timing.epoch * 400, &mut notes, &mut out);
    let mut cells = BTreeMap::new();
    for output in &out {
        let Output::Delivered { packet, .. } = output else { continue };
        let Body::Note(note) = notes.0[packet.handle as usize].1.body else { unreachable!() };
        let granted = Schd::of(&note).unwrap().grant.map_or(0, |grant: Grant| grant.cells.into());
        *cells.entry(packet.dst.0).or_default() += granted;
    }
    let counters = pods(&network).unwrap();
    (counters.refusals().filter(|(_, count)| *count > 0).collect(), cells)
}

/// Two honest hosts, beside `others`.
fn beside(others: Vec<Sent>) -> (BTreeMap<&'static str, u64>, BTreeMap<u32, u32>) {
    let ask = |epoch, from: u16, to| {
        let epoch_named = u32::try_from(epoch).unwrap();
        (u32::from(from), from, epoch, rts(epoch_named, Place::Host(to), ASKED).note())
    };
    let honest = [ask(60, 0, 9), ask(61, 6, 3)];
    run(honest.into_iter().chain(others).collect())
}

fn honest() -> BTreeMap<u32, u32> {
    BTreeMap::from([(0, 40), (6, 40)])
}

#[test]
fn requests_that_make_no_sense_are_counted_by_name_and_change_nothing() {
    assert_eq!(beside(Vec::new()), (BTreeMap::new(), honest()));
    let (host, much) = (Place::Host, 1 << 20);
    let note = |epoch, to, total| rts(epoch, to, total).note();
    let next_term = Rts { term: 2, ..rts(50, host(9), much) }.note();
    let cases: [(&str, Sent); 11] = [
        ("forged_sender", (1, 0, 50, note(50, host(9), much))),
        ("forged_sender", (1, 6, 50, note(50, host(3), much))),
        ("forged_sender", (5, 999, 50, note(50, host(3), much))),
        (
            "malformed",
            (
                1,
                1,
                50,
                Schd {
                    term: 1,
                    grant: None,
                    receipt: None,
                    standing: None,
                    delivered: None,
                    stamp: None,
                }
                .note(),
            ),
        ),
        ("malformed", (1, 1, 50, Note::new(9, &[1; 18]).unwrap())),
        ("future_term", (1, 1, 50, next_term)),
        ("future_epoch", (1, 1, 50, note(70, host(9), much))),
        ("past_epoch", (1, 1, 50, note(1, host(9), much))),
        ("total_jump", (1, 1, 50, note(50, host(9), 1 << 31))),
        ("unknown_receiver", (1, 1, 50, note(50, host(16), much))),
        ("unknown_receiver", (1, 1, 50, note(50, Place::Pod(1), much))),
    ];
    for (reason, packet) in cases {
        assert_eq!(beside(vec![packet]), (BTreeMap::from([(reason, 1)]), honest()), "{packet:?}");
    }
}

#[test]
fn a_host_that_poses_as_a_core_pauses_no_pod_and_asks_for_nothing() {
    let delivered = Delivered { flow: FlowId(1), first: Psn(0), arrived: !0 };
    let core = CoreRts {
        term: 1,
        epoch: 50,
        update: Some((Place::Host(9), 1 << 20)),
        paused: !0,
        delivered: Some((0, delivered)),
    };
    // Its own number, that of a Core, that of no member; a request of hosts in a Core's name.
    let as_host = rts(50, Place::Host(9), 1 << 20).note();
    for topology in ["zeropod:8", "zeropod:8,2,2"] {
        for (named, note) in [(1, core.note()), (16, core.note()), (99, core.note()), (16, as_host)]
        {
            let honest = (6, 6, 61, rts(61, Place::Host(3), ASKED).note());
            let (refusals, cells) = run_in(topology, vec![honest, (1, named, 50, note)]);
            assert_eq!(refusals, BTreeMap::from([("forged_sender", 1)]), "{topology} {named}");
            assert_eq!(cells, BTreeMap::from([(6, 40)]));
        }
    }
}

#[test]
fn a_request_that_comes_twice_or_late_counts_once() {
    let again = |at, epoch| (2, 2, at, rts(epoch, Place::Host(9), 512).note());
    let (refusals, cells) =
        beside(vec![again(20, 20), again(21, 20), again(23, 22), again(24, 21)]);
    assert_eq!(refusals, BTreeMap::from([("repeated", 2)]));
    assert_eq!(cells.get(&2), Some(&1));
}

#[test]
fn a_host_that_floods_the_scheduler_takes_no_place_of_others() {
    // Epochs that never come would fill any queue that all hosts share.
    let far = |n: u32| (3, 3, u64::from(n % 50), rts(1 << 30 | n, Place::Host(9), 512).note());
    let mut sent: Vec<Sent> = (0..50).map(far).collect();
    // As would requests of the past.
    sent.extend((0..50).map(|n| (7, 7, 100 + n, rts(0x9000_0000, Place::Host(3), 512).note())));
    let (refusals, cells) = beside(sent);
    assert_eq!(refusals, BTreeMap::from([("future_epoch", 50), ("past_epoch", 50)]));
    assert_eq!(cells, honest());
}
