//! The network as a program sees it, with everything that a program can do.

use std::ops::Range;

use transport::wire::data::Glance;
use transport::wire::int::Hop;
use transport::wire::{Ext, Header};
use transport::{DropReason, HostId, Instant, Rate, TxSegment};

use super::turns::PortTurns;
use crate::calendar::Flight;
use crate::elements::PortId;
use crate::frames::Driver;
use crate::packet::Packet;
use crate::port::Departure;
use crate::qdisc::{Queued, Verdict};
use crate::transit::{NO_FAULT, PortState, Transit, note_trimmed};
use crate::wiring::Wiring;

/// The network that a switch at work belongs to. The switch touches only its own ports.
pub(crate) struct Surroundings<'a> {
    pub(crate) ports: &'a mut [PortState],
    pub(crate) transit: &'a mut Transit,
    pub(crate) wiring: &'a Wiring,
    pub(crate) driver: Driver<'a>,
}

/// The view and the actions of a program during one call.
pub struct Context<'a> {
    pub(super) ports: &'a mut [PortState],
    pub(super) transit: &'a mut Transit,
    pub(super) wiring: &'a Wiring,
    pub(super) driver: Driver<'a>,
    pub(super) agenda: &'a mut Agenda,
    pub(super) switch: u32,
    pub(super) now: Instant,
    /// `HANDLES_ALL_DEPARTURES` of the program at work.
    pub(super) handles_all: bool,
}

/// When the ports of a switch, and its program, have something to do.
#[derive(Clone, Debug)]
pub(super) struct Agenda {
    /// The next turn of each port. Between two calls of the program it is that of
    /// `Transit::next_turn`.
    turns: PortTurns,
    /// Packets that have left their queues during a call, in that order.
    pub(super) leaving: Vec<Leaving>,
    /// The earliest wake-up in the calendar; [`Instant::FAR_FUTURE`] without one.
    pub(super) wake_at: Instant,
}

/// A packet that has left the queue of its port and is to be put on the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub(super) port: u32,
    pub(super) departure: Departure,
    /// When the packet arrives at the far end of the link.
    pub(super) arrival: Instant,
}

/// The fate of a packet that a program sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFate {
    /// The packet leaves at once.
    Leaves,
    /// The packet waits at its port.
    Waits,
    /// The packet goes on without its payload.
    Trimmed,
    /// The packet is lost.
    Dropped,
}

/// A port as a program sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortView {
    /// The packets that wait.
    pub queued: Queued,
    /// Bytes transmitted so far.
    pub sent_bytes: u64,
    /// The rate now.
    pub rate: Rate,
    /// When the link is free.
    pub busy_until: Instant,
}

impl Context<'_> {
    /// The port that `packet` takes from here; `None` when there is no way.
    #[inline]
    #[must_use]
    pub fn route(&self, packet: &Packet) -> Option<PortId> {
        self.transit.route(self.switch, packet, self.now).map(PortId)
    }

    /// The state of a port as a program sees it.
    #[must_use]
    pub fn port(&self, port: PortId) -> PortView {
        let state = &self.ports[port.0 as usize];
        let port = &state.port;
        PortView {
            queued: port.queued(),
            sent_bytes: port.sent().1,
            rate: self.transit.rate_at(state, self.now),
            busy_until: port.busy_until(),
        }
    }

    /// When the link of `port` is free.
    #[inline]
    #[must_use]
    pub fn free_at(&self, port: PortId) -> Instant {
        self.ports[port.0 as usize].port.busy_until()
    }

    /// The hop that telemetry would record if a packet left `port` now, behind all packets sent and
    /// before all that wait.
    #[must_use]
    pub fn hop(&self, port: PortId) -> Hop {
        let state = &self.ports[port.0 as usize];
        state.hop(self.now, state.port.sent().1, self.transit.rate_at(state, self.now))
    }

    /// Gives `packet` to the queue of `port`. A packet that leaves at once has left the queue when
    /// this returns, be it this one or one that waited for this instant. The program's
    /// `on_departure` is called when the present call of the program is over, if it is called at
    /// all: see [`Program::HANDLES_ALL_DEPARTURES`](super::Program::HANDLES_ALL_DEPARTURES).
    #[inline(always)]
    pub fn send(&mut self, port: PortId, mut packet: Packet) -> SendFate {
        if self.passes(port, &mut packet, None) {
            return SendFate::Leaves;
        }
        self.enqueue(port.0, packet)
    }

    /// [`Context::send`] of a packet with room for telemetry, to which `hop` is added before that
    /// of `port`. A packet that does not leave at once may have another handle after this: it has
    /// the hop of this instant in a frame of its own.
    #[inline(always)]
    pub fn send_stamped(&mut self, port: PortId, packet: &mut Packet, hop: &Hop) -> SendFate {
        if self.passes(port, packet, Some(hop)) {
            return SendFate::Leaves;
        }
        self.driver.frames.stamp(packet, &[*hop]);
        self.enqueue(port.0, *packet)
    }

    /// Lets `packet` leave by `port` at once, where nothing waits there and the link is free.
    #[inline(always)]
    fn passes(&mut self, port: PortId, packet: &mut Packet, own: Option<&Hop>) -> bool {
        let (state, start) = (&mut self.ports[port.0 as usize], self.now);
        if state.fault == NO_FAULT
            && let Some(arrival) = state.port.pass(packet, start)
        {
            let times = (start, arrival);
            if self.handles_all {
                self.keep_leaving(port, *packet, own, times);
            } else {
                self.transit.leave_at_once(state, (packet, own), times, &mut self.driver);
            }
            return true;
        }
        false
    }

    /// Keeps a packet that leaves at once until the call of the program is over.
    fn keep_leaving(
        &mut self,
        port: PortId,
        mut packet: Packet,
        own: Option<&Hop>,
        (start, arrival): (Instant, Instant),
    ) {
        if let Some(own) = own {
            self.driver.frames.stamp(&mut packet, &[*own]);
        }
        let departure = Departure { packet, marked: false, data_left: 0, start };
        self.agenda.leaving.push(Leaving { port: port.0, departure, arrival });
    }

    /// Gives `packet` to the queue of `port`, and runs the departure that this makes possible now.
    #[inline(never)]
    fn enqueue(&mut self, port: u32, packet: Packet) -> SendFate {
        let noted = self.transit.next_turn(&self.ports[port as usize]);
        let state = self.port_now(port);
        let state = &mut self.ports[state];
        let was_empty = state.port.waiting() == 0;
        let mut lost = None;
        let due = state.port.busy_until() + state.port.delay();
        let verdict = state.port.enqueue(packet, self.now, &mut lost);
        match verdict {
            Verdict::Queued => {}
            Verdict::Evicted => {
                self.transit.lose_evicted(state, lost, self.now, &mut self.driver);
            }
            Verdict::Cut => {
                self.transit.cut(state, lost, (due, self.now), &mut self.driver);
            }
            Verdict::Slips => {
                let (start, arrival) = (self.now, state.port.slip(&packet, self.now));
                let departure = Departure { packet, marked: false, data_left: 0, start };
                self.agenda.leaving.push(Leaving { port, departure, arrival });
                return SendFate::Leaves;
            }
            Verdict::Trimmed => note_trimmed(state, &packet, &mut self.driver),
            Verdict::Dropped(reason) => {
                self.transit.lose(state, packet, reason, self.now, &mut self.driver);
                self.expect(port);
                return SendFate::Dropped;
            }
        }
        let mut leaves = false;
        if let Some((departure, arrival)) = state.port.depart(self.now, &mut state.rng) {
            leaves = was_empty || departure.packet.handle == packet.handle;
            self.agenda.leaving.push(Leaving { port, departure, arrival });
        }
        state.note_peak();
        if self.transit.next_turn(state) != noted {
            self.expect(port);
        }
        match verdict {
            Verdict::Trimmed => SendFate::Trimmed,
            _ if leaves => SendFate::Leaves,
            _ => SendFate::Waits,
        }
    }

    /// Loses `packet` at `port`.
    pub fn drop_at(&mut self, port: PortId, packet: Packet, reason: DropReason) {
        let state = &mut self.ports[port.0 as usize];
        self.transit.lose(state, packet, reason, self.now, &mut self.driver);
    }

    /// Sends a pause or resume frame by `port` to the transmitter at the far end of its link,
    /// before all packets that wait at `port`. The transmitter obeys when the frame arrives,
    /// whatever runs in its switch.
    pub fn pause_link(&mut self, port: PortId, paused: bool) {
        let state = self.port_now(port.0);
        let state = &mut self.ports[state];
        state.stats.pauses += u64::from(paused);
        let arrival = state.port.interject(Flight::PAUSE_FRAME, self.now);
        let transmitter = self.wiring.back[port.0 as usize];
        let target = self.wiring.target[transmitter as usize];
        self.transit.file(Flight::pause_frame(paused, transmitter, (port.0, target), arrival));
        self.expect(port.0);
    }

    /// Makes a packet without payload, sent by `from`, with the extensions that its header names;
    /// `None` when the driver has no buffer left or one of both ends has no address. The program
    /// sends it or holds it.
    pub fn make(&mut self, segment: &TxSegment, ext: &Ext, from: HostId) -> Option<Packet> {
        let packet = self.driver.frames.make(segment, ext, from)?;
        self.transit.counts.originated += 1;
        Some(packet)
    }

    /// Ends `packet` in this switch.
    pub fn consume(&mut self, packet: Packet) {
        self.transit.counts.consumed += 1;
        self.driver.frames.end(packet);
    }

    /// The header of `packet`, as far as the driver can read it.
    #[must_use]
    pub fn header(&self, packet: &Packet) -> Option<Header> {
        self.driver.frames.header(packet)
    }

    /// The host that has sent `packet`, as far as the driver can read it.
    #[must_use]
    pub fn sender(&self, packet: &Packet) -> Option<HostId> {
        self.driver.frames.sender(packet)
    }

    /// Lets `change` edit the header of `packet` and the content of its extensions; see
    /// [`Frames::rewrite`](crate::Frames::rewrite).
    pub fn rewrite(
        &mut self,
        packet: &mut Packet,
        change: &mut dyn FnMut(&mut Header, &mut Ext),
    ) -> bool {
        self.driver.frames.rewrite(packet, change)
    }

    /// The host that has sent a packet, its header and its extensions, all copied; `None` when its
    /// frame cannot be read.
    #[must_use]
    pub fn frame(&self, packet: &Packet) -> Option<(HostId, Header, Ext)> {
        let mut found = None;
        self.read(packet, &mut |from, header, ext| found = Some((from, *header, *ext)));
        found
    }

    /// Shows `look` the host that has sent a packet, its header and the extensions that the header
    /// names; see [`Headers::read`](crate::Headers::read).
    pub fn read(&self, packet: &Packet, look: &mut dyn FnMut(HostId, &Header, &Ext)) {
        self.driver.frames.read(packet, look);
    }

    /// What a border switch looks at in a packet.
    #[must_use]
    pub fn glance(&self, packet: &Packet) -> Option<Glance> {
        self.driver.frames.glance(packet)
    }

    /// Takes all hops out of the telemetry of a packet.
    pub fn clear_hops(&mut self, packet: &mut Packet) {
        self.driver.frames.clear_hops(packet);
    }

    /// The index of `port`, with the rate that its link has now: an idle port has had no turn at
    /// the instant at which a fault changed it.
    #[inline]
    fn port_now(&mut self, port: u32) -> usize {
        let state = &mut self.ports[port as usize];
        if state.fault != NO_FAULT {
            self.transit.change_rates(state, self.now);
        }
        port as usize
    }

    /// The transmitter `port` obeys a pause frame.
    pub(super) fn obey(&mut self, port: u32, paused: bool) {
        let state = self.port_now(port);
        self.transit.obey(&mut self.ports[state], paused, self.now);
        self.expect(port);
    }

    /// Notes the next turn of `port`, whose state may have changed.
    #[inline(always)]
    pub(super) fn expect(&mut self, port: u32) {
        let turn = self.transit.next_turn(&self.ports[port as usize]);
        self.agenda.turns.set(port, turn);
    }

    /// When the switch has its next turn; [`Instant::FAR_FUTURE`] when it has none.
    #[inline]
    pub(super) fn next_turn_at(&self) -> Instant {
        debug_assert!(
            self.next_turn().is_none_or(|(at, port)| {
                self.transit.next_turn(&self.ports[port as usize]) == at
            }),
            "every change of a port is noted"
        );
        self.agenda.turns.first_at()
    }

    /// The next turn of the switch, and its port.
    #[inline]
    pub(super) fn next_turn(&self) -> Option<(Instant, u32)> {
        self.agenda.turns.first()
    }
}

impl Agenda {
    /// An agenda without turns, for a switch with `ports`.
    pub(super) fn new(ports: Range<u32>) -> Self {
        Self { turns: PortTurns::new(ports), leaving: Vec::new(), wake_at: Instant::FAR_FUTURE }
    }
}
