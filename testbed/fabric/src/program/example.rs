//! An example of a switch program, which does all that a program can: it holds packets, keeps time,
//! makes packets, edits them as they leave, and consumes what is sent to it. Tests run it; no text
//! chooses it.
//!
//! Each packet is held for `HOLD`, in order, as a middlebox would. Every `REPORT_EVERY`-th data
//! packet makes the switch send a report to the next switch that runs an example. The report leaves
//! with the number of packets held then. The other example adds it up and ends it. With a single
//! example in a network there are no reports.

use std::collections::VecDeque;

use transport::params::NoParams;
use transport::registry::Registered;
use transport::units::Credit;
use transport::wire::{Allowance, Body, Ext, Header};
use transport::{
    DropReason, Duration, EntropyValue, FlowId, HostId, Instant, PayloadRef, TxSegment,
};

use super::{Context, Program, ProgramSettings, ProgramSetup, SwitchProgram};
use crate::elements::PortId;
use crate::packet::Packet;
use crate::qdisc::Queued;

/// How long each packet is held.
const HOLD: Duration = Duration::from_us(1);

/// Data packets from one report to the next.
const REPORT_EVERY: u64 = 32;

/// Packets held at most; more are dropped.
const HELD_MAX: usize = 1 << 16;

/// The flow that reports name: a packet on a real network has to name one.
const REPORT: FlowId = FlowId::new(0, 1);

/// A switch that holds and reports.
#[derive(Clone, Debug)]
pub struct Example {
    address: HostId,
    /// The address of the switch that gets its reports.
    peer: Option<HostId>,
    /// Packets that wait for the instants at which they go on, ascending.
    held: VecDeque<Held>,
    queued: Queued,
    /// Data packets that have arrived.
    seen: u64,
    /// Reports that it has received.
    reports: u64,
    /// The sum of the numbers in them.
    reported: u64,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    until: Instant,
    packet: Packet,
    /// The port that counts the packet as lost if there is no way on.
    from: PortId,
}

impl Registered for Example {
    const ABOUT: &'static str = "holds each packet for a microsecond and reports to other examples";
    type Params = NoParams;

    /// Reports that it has received, and what they say together.
    fn own_counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("reports", self.reports);
        each("reported", self.reported);
    }
}

impl SwitchProgram for Example {
    /// Holds nothing.
    fn build(_settings: &ProgramSettings, setup: &ProgramSetup<'_>) -> Self {
        let next = setup.peers.iter().find(|peer| **peer > setup.address);
        Self {
            address: setup.address,
            peer: next.or(setup.peers.first()).copied(),
            held: VecDeque::new(),
            queued: Queued::default(),
            seen: 0,
            reports: 0,
            reported: 0,
        }
    }
}

impl Example {
    /// The sum of the numbers in the reports that this switch has received.
    #[must_use]
    pub const fn reported(&self) -> u64 {
        self.reported
    }

    fn hold(&mut self, packet: Packet, from: PortId, now: Instant) {
        self.queued.add(&packet);
        self.held.push_back(Held { until: now + HOLD, packet, from });
    }

    /// A report to `peer`, on its way like any other packet.
    fn report(&mut self, peer: HostId, from: PortId, now: Instant, cx: &mut Context<'_>) {
        let allowance = Allowance { src_flow: REPORT, upto: Credit::START };
        let hdr = Header::new(EntropyValue(0), FlowId::UNKNOWN, Body::Request(allowance));
        let segment = TxSegment { hdr, payload: PayloadRef::NONE, peer };
        if let Some(packet) = cx.make(&segment, &Ext::VACANT, self.address) {
            self.hold(packet, from, now);
        }
    }
}

impl Program for Example {
    fn on_arrival(&mut self, packet: Packet, from: PortId, now: Instant, cx: &mut Context<'_>) {
        if packet.dst == self.address {
            if let Some(Header { body: Body::Request(report), .. }) = cx.header(&packet) {
                self.reports += 1;
                self.reported += u64::from(report.upto.number() - 1);
            }
            cx.consume(packet);
            return;
        }
        if self.held.len() >= HELD_MAX {
            cx.drop_at(from, packet, DropReason::TableFull);
            return;
        }
        self.hold(packet, from, now);
        self.seen += u64::from(packet.is_data());
        if let Some(peer) = self.peer
            && packet.is_data()
            && self.seen.is_multiple_of(REPORT_EVERY)
        {
            self.report(peer, from, now, cx);
        }
    }

    fn on_departure(
        &mut self,
        packet: &mut Packet,
        _port: PortId,
        _now: Instant,
        cx: &mut Context<'_>,
    ) {
        if Some(packet.dst) != self.peer {
            return;
        }
        let held = u32::try_from(self.held.len()).unwrap_or(u32::MAX);
        cx.rewrite(packet, &mut |header, _| {
            if let Body::Request(report) = &mut header.body {
                report.upto = Credit::START.plus(held);
            }
        });
    }

    fn poll_at(&self) -> Instant {
        self.held.front().map_or(Instant::FAR_FUTURE, |held| held.until)
    }

    fn on_time(&mut self, now: Instant, cx: &mut Context<'_>) {
        while let Some(Held { packet, from, .. }) = self.held.front().copied()
            && self.poll_at() <= now
        {
            self.held.pop_front();
            self.queued.remove(&packet);
            match cx.route(&packet) {
                Some(port) => {
                    cx.send(port, packet);
                }
                None => cx.drop_at(from, packet, DropReason::NoRoute),
            }
        }
    }

    fn held(&self) -> Option<Queued> {
        Some(self.queued)
    }

    fn is_end(&self) -> bool {
        true
    }
}
