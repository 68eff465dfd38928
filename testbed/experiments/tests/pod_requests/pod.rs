//! A pod whose scheduler is sent requests by hand.

use std::collections::BTreeMap;

use experiments::measure::scheduler::pods;
use experiments::plan::{Draft, Origin, Plan};
use experiments::topology::{self, FatTree};
use experiments::workload::{FlowSpec, Matrix};
use fabric::{Flags, Frames, Headers, Network, Output, Packet};
use transport::sched::zeropod::Zeropod;
use transport::sched::zeropod::timing::Timing;
use transport::wire::class::TrafficClass;
use transport::wire::pod::{DemandEnd, Grant, Rts, Schd};
use transport::wire::{Body, Ext, Header, Note};
use transport::{Bytes, EntropyValue, FlowId, HostId, Instant, Rng, TxSegment};

/// Bytes that each honest host asks for.
pub(crate) const ASKED: u32 = 40 * 512;

/// The headers of packets, and the hosts that sent them.
#[derive(Default)]
struct Notes(Vec<(HostId, Header)>);

impl Notes {
    fn packet(&mut self, from: HostId, dst: HostId, header: Header) -> Packet {
        self.0.push((from, header));
        let handle = u32::try_from(self.0.len() - 1).unwrap_or(u32::MAX);
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
pub(crate) type Sent = (u32, u16, u64, Note);

/// What two honest hosts, 0 and 6, ask for.
pub(crate) fn honest() -> [Sent; 2] {
    let ask = |epoch: u32, from: u16, to| {
        (from.into(), from, epoch.into(), rts(epoch, DemandEnd::Host(to), ASKED).note())
    };
    [ask(60, 0, 9), ask(61, 6, 3)]
}

/// The timing of the hosts of a plan's pods.
fn timing(plan: &Plan) -> Timing {
    let config = plan.host_configs().expect("hosts").swap_remove(0);
    *Zeropod::new(&config.sched_setup(HostId(0), Rng::new(0))).timing()
}

/// The request of a host, in this epoch, for as many bytes in all to one place.
pub(crate) fn rts(epoch: u32, to: DemandEnd, total: u32) -> Rts {
    Rts { term: 1, epoch, update: Some((to, total)), ..Rts::VACANT }
}

/// What a scheduler made of what it was sent.
pub(crate) struct Ran {
    /// What it refused, by name.
    pub(crate) refusals: BTreeMap<&'static str, u64>,
    /// The cells that it granted each host.
    pub(crate) cells: BTreeMap<u32, u32>,
}

/// Pods, the first of which is sent requests.
pub(crate) struct Pod {
    plan: Plan,
    scheduler: HostId,
}

impl Pod {
    pub(crate) fn new(topology: &str) -> Self {
        let mut draft = Draft::default();
        draft.set_transport("zeropod", Origin::Set).expect("a transport");
        for (key, value) in [("sched.zeropod.cells", "16"), ("sched.zeropod.delay", "15us")] {
            draft.set(key, value, Origin::Set).expect("a setting");
        }
        let tree = topology::by_name(topology).expect("a topology");
        let place = FatTree::new(tree.clone()).expect("a network").scheduler_of(0);
        let scheduler = HostId(tree.nodes + place.expect("a scheduler"));
        let mut matrix = Matrix { nodes: tree.nodes, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(1), Bytes(1))).expect("a flow");
        Self { plan: Plan::new(&draft, matrix, &tree).expect("a plan"), scheduler }
    }

    /// Runs the pods anew. Each packet is sent in the slot of its true sender in its epoch.
    pub(crate) fn run(&self, mut sent: Vec<Sent>) -> Ran {
        let mut network = Network::new(self.plan.blueprint(), &Rng::new(1));
        let (mut notes, mut out, timing) = (Notes::default(), Vec::new(), timing(&self.plan));
        let at = |(from, _, epoch, _): &Sent| {
            let place = u16::try_from(from % 4).unwrap_or_default();
            timing.start(*epoch) + timing.request_at(place, None)
        };
        sent.sort_by_key(at);
        for packet in &sent {
            let (from, named, _, note) = *packet;
            network.run_until(at(packet), &mut notes, &mut out);
            let header = Header::new(EntropyValue(named), FlowId::UNKNOWN, Body::Note(note));
            let made = notes.packet(HostId(from), self.scheduler, header);
            network.inject(HostId(from), made, at(packet), &mut notes, &mut out);
        }
        network.run_until(Instant::ZERO + timing.epoch * 400, &mut notes, &mut out);
        let mut cells = BTreeMap::new();
        for output in &out {
            let Output::Delivered { packet, .. } = output else { continue };
            let Body::Note(note) = notes.0[packet.handle as usize].1.body else { continue };
            let grant = Schd::of(&note).expect("an answer").grant;
            let granted = grant.map_or(0, |grant: Grant| grant.cells.into());
            *cells.entry(packet.dst.0).or_default() += granted;
        }
        let counters = pods(&network).expect("a scheduler");
        let refusals = counters.refusals().filter(|(_, count)| *count > 0).collect();
        Ran { refusals, cells }
    }
}
