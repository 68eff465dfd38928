//! A part of a run: some hosts and ports, with all that they need, so that a thread can run it
//! through a window by itself. A run on one thread has one part, which is the whole.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::MutexGuard;

use fabric::{Flight, Network, Parts};
use transport::wire::Ext;
use transport::{Instant, Rng};

use super::environment::Environment;
use super::hosts::Hosts;
use super::packets::{InFlight, PacketSlab, SlabFrames};
use crate::capture::Capture;
use crate::conductor::Conductor;
use crate::measure::sampler::Seen;
use crate::measure::scheduler::{keep_waits, take_waits};
use crate::plan::{Plan, RunError};
use crate::why::RunLog;
use crate::why::journal::Journal;
use crate::workload::FlowIndex;

/// A window of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The first thing due.
    pub(super) next: Instant,
    /// The end of the window: nothing at it or later is run.
    pub(super) end: Instant,
}

/// An item on its way from one part to another: a packet with its segment, or a pause.
pub(super) struct Parcel {
    flight: Flight,
    packet: Option<InFlight>,
    /// When its host's line started to send the packet, where the run measures that.
    start: Option<Instant>,
}

/// The items that go from one part to another in a window.
#[derive(Default)]
struct Mail {
    parcels: Vec<Parcel>,
    /// In the order of parcels: the extensions of each whose header names some.
    exts: Vec<Ext>,
}

/// Some hosts and ports of a run.
pub(super) struct Part<'a> {
    pub(super) hosts: Hosts<'a>,
    pub(super) env: Environment<'a>,
    /// Hosts have to meet at every instant.
    coupled: bool,
    /// For each part: the items that came from it in the window before.
    inbox: Vec<Mail>,
    /// For each part: the items that go to it.
    outbox: Vec<Mail>,
    /// When the first parcel is due.
    parcel_at: Instant,
    /// Flights of the last window.
    pub(super) flights: usize,
}

/// The parts of `plan`, as `parts` says, before anything has happened.
///
/// # Errors
/// When the plan does not fit together.
pub(super) fn build<'a>(
    plan: &'a Plan,
    rng: &Rng,
    parts: &Parts,
    (network, conductor): (Network, Conductor<'a>),
    coupled: bool,
    (capture, explains): (Option<&Capture>, bool),
) -> Result<Vec<Part<'a>>, RunError> {
    let mut configs = plan.host_configs()?.into_iter();
    // Captures and journals show each cell.
    let trains = plan.may_have_trains() && capture.is_none() && !explains;
    let networks = network.split(parts).into_iter();
    let conductors = conductor.split(&parts.hosts).into_iter();
    let built = networks.zip(conductors).zip(&parts.hosts);
    Ok(built
        .map(|((network, conductor), Range { start, end })| {
            let own = configs.by_ref().take((end - start) as usize).collect();
            let boxes = || std::iter::repeat_with(Mail::default).take(parts.count()).collect();
            let ends = network.blueprint().ends();
            Part {
                hosts: Hosts::new(plan, *start, own, (rng, capture), trains),
                env: Environment {
                    network,
                    conductor,
                    packets: PacketSlab::new(ends),
                    out: Vec::new(),
                },
                coupled,
                inbox: boxes(),
                outbox: boxes(),
                parcel_at: Instant::FAR_FUTURE,
                flights: 0,
            }
        })
        .collect())
}

impl Part<'_> {
    /// Keeps a journal from now on. This part is the whole of `plan`.
    pub(super) fn explain(&mut self, plan: &Plan) {
        let delays = plan.blueprint().ports.iter().map(|port| port.delay).collect();
        let connections = self.env.conductor.connections();
        let journal = Journal::new(plan.hosts(), connections, delays);
        self.env.packets.journal = Some(Box::new(journal));
        self.env.network.keep_journal();
        keep_waits(&mut self.env.network);
        self.hosts.explain();
    }

    /// What this part has kept to explain itself; `None` where it keeps no journal.
    pub(super) fn take_log(&mut self) -> Option<RunLog> {
        let journal = self.env.packets.journal.take()?;
        let network = &mut self.env.network;
        let line = |flow: FlowIndex| u32::try_from(flow.index()).unwrap_or(u32::MAX);
        let mut given_up = BTreeMap::new();
        for (flow, at) in self.hosts.given_up() {
            given_up.entry(line(flow)).or_insert(at);
        }
        let (pauses, waits) = (network.take_pauses(), take_waits(network));
        Some(RunLog { journal, pauses, waits, given_up })
    }

    /// When something is due here; parcels that wait here are not looked at.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let start = self.env.conductor.next_start();
        start.into_iter().chain(self.env.network.next_event_at()).min()
    }

    /// When the first of the parcels that this part has sent is due.
    pub(super) fn parcel_at(&self) -> Instant {
        self.parcel_at
    }

    /// Runs everything in `span`, which is no longer than the lookahead.
    pub(super) fn run_window(&mut self, span: Span) {
        self.receive();
        let (hosts, env) = (&mut self.hosts, &mut self.env);
        while let Some((start, flow)) = env.conductor.take_timed(|start| start < span.end) {
            hosts.start_at(flow, start, &mut env.network);
        }
        let window = env.network.open(span.end);
        if self.coupled {
            hosts.run_together(&window, span.next, span.end, env);
        } else {
            hosts.run_apart(&window, span.end, env);
        }
        let mut frames = SlabFrames::new(&mut env.packets, hosts.sizes());
        env.network.run_switches(&window, span.end, &mut frames, &mut env.out);
        env.out.clear();
        self.flights = window.flight_count();
        env.network.close(window, span.end);
        self.send();
    }

    /// Takes in what other parts have sent.
    pub(super) fn receive(&mut self) {
        for Mail { parcels, exts } in &mut self.inbox {
            let mut exts = exts.drain(..);
            for Parcel { mut flight, packet, start } in parcels.drain(..) {
                if let Some(packet) = packet {
                    let ext = if packet.hdr.ext.is_some() { exts.next() } else { None };
                    let ext = ext.as_ref().unwrap_or(&Ext::VACANT);
                    flight.packet.handle = self.env.packets.keep(packet, ext);
                    if let Some(at) = start {
                        self.env.packets.note_start(flight.packet.handle, at);
                    }
                }
                self.env.network.admit(flight);
            }
        }
    }

    /// Packs the flights that have left for other parts.
    fn send(&mut self) {
        self.parcel_at = Instant::FAR_FUTURE;
        let Environment { network, packets, .. } = &mut self.env;
        for (to, Mail { parcels, exts }) in self.outbox.iter_mut().enumerate() {
            parcels.extend(network.crossed(to).map(|flight| {
                self.parcel_at = self.parcel_at.min(flight.at);
                let is_packet = flight.is_packet();
                let start = packets.start_of(flight.packet.handle).filter(|_| is_packet);
                let packet = is_packet.then(|| {
                    let handle = flight.packet.handle;
                    if packets.of(handle).hdr.ext.is_some() {
                        exts.push(*packets.ext(handle));
                    }
                    packets.let_go(handle)
                });
                Parcel { flight, packet, start }
            }));
        }
    }

    /// The state of this part for a sample that shows these lines of the matrix. Where flows are
    /// cut into messages, the bytes of a flow count when their message is whole; otherwise as they
    /// arrive.
    pub(super) fn seen(&mut self, lines: &[usize]) -> Seen {
        let (hosts, conductor) = (&self.hosts, &self.env.conductor);
        let flow = |flow: usize| {
            let (src, connection) =
                (conductor.matrix().flows[flow].src, conductor.connection(flow));
            hosts.seen(src, connection, conductor.is_under_way(flow))
        };
        let seen = Seen::of(&mut self.env.network, conductor, lines, flow);
        let mut seen = seen.with_placed(self.hosts.placed_bytes());
        let conductor = &self.env.conductor;
        if conductor.matrix().message.is_none() {
            let begun = self.hosts.begun().filter(|message| conductor.counts_begun(message));
            seen.add_begun(begun, lines);
        }
        seen
    }
}

/// Hands over what parts have for each other after a window: parcels, by a swap of buffers, and
/// what was delivered of flows whose records another part keeps.
pub(super) fn exchange(parts: &mut [MutexGuard<'_, Part<'_>>]) {
    for to in 0..parts.len() {
        let remote_deliveries = parts[to].env.conductor.take_delivered_for_others();
        for from in 0..parts.len() {
            if from != to {
                parts[from].env.conductor.on_remote_deliveries(&remote_deliveries);
                let parcels = std::mem::take(&mut parts[from].outbox[to]);
                let empty = std::mem::replace(&mut parts[to].inbox[from], parcels);
                parts[from].outbox[to] = empty;
            }
        }
    }
}
