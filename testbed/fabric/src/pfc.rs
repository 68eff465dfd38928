//! Priority flow control: switches that pause a link before they would have to drop.
//!
//! Source: \[qbb\]; the thresholds as in \[dcqcn\] sec. 4. A switch counts the data bytes that
//! wait in it by the link they came by, whatever port they wait at. Above XOFF it pauses that
//! link's transmitter, at XON it lets it go on. A pause frame goes before everything that waits for
//! the link back and after what is being sent, and takes the way of any packet, with the traversal
//! at its end standing for the time that a transmitter takes to obey. The transmitter, a switch's
//! port or a NIC, finishes its packet and sends no data from then on; control packets go on.
//!
//! ```text
//!   port P ---- data ----> switch S: bytes by P > XOFF
//!     ^                        |
//!     +-- pause, by S's port --+   until bytes by P <= XON: resume
//! ```
//!
//! Room beyond XOFF, the *headroom*, holds what is still to come when a link is paused; a buffer is
//! `switch.queue` bytes for each link into a switch. A pause is on or off: quanta, which would let
//! it run out, and the frames that renew them are not modelled, so faults of links leave pause
//! frames alone. Faults that hold packets back or slow the link that pauses take can overrun the
//! headroom: that is a counted drop. Routes go up, then down, so no cycle of links can wait for
//! itself: a link that leads down waits for links that lead further down and, last, for hosts,
//! which pause nobody.
//!
//! The ports of a lossless switch share its counters, so they are run together, in the order of
//! (time, departures before arrivals, port or origin). A pause takes effect elsewhere no sooner
//! than a packet does: windows hold. It allocates nothing once queues have reached their largest
//! size.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use transport::{Bytes, DropReason, Duration, Instant};

use super::blueprint::{Blueprint, Node, PortSpec};
use super::calendar::Flight;
use super::network::Output;
use super::qdisc::QdiscKind;
use super::transit::{Links, PortState};

/// Bytes of a pause frame on the wire, the least that a frame of Ethernet has.
const FRAME: u16 = 64;

/// Pause frames that may be before the one that matters, with itself: a resume can be.
const FRAMES: u64 = 2;

/// XON is so many of the longest packets below XOFF.
//= dcqcn#4
const HYSTERESIS: u64 = 2;

/// Says that a link's buffer cannot hold what it must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// What the buffer holds.
    pub buffer: Bytes,
    /// What is counted before the link is paused, at least a packet.
    pub xoff: Bytes,
    /// What may come after that.
    pub headroom: Bytes,
}

/// The pauses of a network of lossless switches.
#[derive(Clone, Debug)]
pub(super) struct Pfc {
    /// By port: the link it transmits on, as the switch at the far end sees it.
    links: Vec<Incoming>,
    /// By port: by which links what waits in its data class has come, in the same order.
    origins: Vec<VecDeque<u32>>,
    switches: Vec<Agenda>,
}

/// What came by one link and waits in the switch at its end.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    /// Bytes, up to `limit`.
    bytes: u64,
    limit: u64,
    xoff: u64,
    xon: u64,
    /// The port that leads back.
    back: u32,
    /// Who runs the transmitter: its host, or the target that stands for its switch.
    sender: u32,
    /// The last that was said was to pause.
    paused: bool,
    /// Since when the transmitter obeys.
    paused_since: Instant,
}

/// When the ports of a switch have something to send.
#[derive(Clone, Debug)]
struct Agenda {
    /// Of each port with a departure to come an entry at `PortState::wake_at`; others are old.
    departures: BinaryHeap<Reverse<(Instant, u32)>>,
    /// The earliest wake-up in the calendar; [`Instant::FAR_FUTURE`] without one.
    wake_at: Instant,
}

/// A switch at work: the pauses and all ports, of which it touches its own.
pub(super) struct SwitchRun<'a> {
    pub(super) pfc: &'a mut Pfc,
    pub(super) ports: &'a mut [PortState],
    pub(super) links: &'a mut Links,
    pub(super) out: &'a mut Vec<Output>,
    pub(super) switch: u32,
    /// How the calendar calls the switch.
    pub(super) target: u32,
}

/// Whether the switches of `blueprint` are lossless.
///
/// # Panics
/// When some are and some are not: a bug of a topology.
pub(super) fn is_lossless(blueprint: &Blueprint) -> bool {
    let mut kinds = blueprint.ports.iter().skip(blueprint.hosts as usize).map(|port| port.qdisc);
    let Some(first) = kinds.next() else { return false };
    let lossless = |kind| kind == QdiscKind::Lossless;
    assert!(kinds.all(|kind| lossless(kind) == lossless(first)), "all switches pause or none");
    lossless(first)
}

/// By switch: what any of its queues may have to hold, all that came by its links.
pub(super) fn room(blueprint: &Blueprint) -> Vec<Bytes> {
    let mut room = vec![Bytes::ZERO; blueprint.switches.len()];
    for port in &blueprint.ports {
        if let Node::Switch(switch) = port.owner {
            let room = &mut room[switch as usize];
            *room = Bytes(room.0.saturating_add(port.params.data_limit.0));
        }
    }
    room
}

/// The least buffer with which every link into a switch of `blueprint` is lossless.
#[must_use]
pub fn least_buffer(blueprint: &Blueprint) -> Bytes {
    needs(blueprint).map(|need| need.least()).max().unwrap_or_default()
}

/// Whether the buffer for every link into a switch of `blueprint` is large enough.
///
/// # Errors
/// Of those that are not the one that needs most.
pub fn check_buffers(blueprint: &Blueprint) -> Result<(), Shortage> {
    let short = needs(blueprint).filter(|need| need.buffer < need.least());
    short.max_by_key(Shortage::least).map_or(Ok(()), Err)
}

/// What each link into a switch has and needs.
fn needs(blueprint: &Blueprint) -> impl Iterator<Item = Shortage> {
    let links = blueprint.ports.iter().zip(ports_back(blueprint));
    links.filter_map(|(port, back)| {
        let back = blueprint.ports.get(back as usize)?;
        let pause = &back.params.pause;
        Some(Shortage {
            buffer: back.params.data_limit,
            xoff: pause.xoff.unwrap_or(pause.packet_max),
            headroom: Bytes(headroom(port, back)),
        })
    })
}

impl Shortage {
    /// The least buffer that would do.
    #[must_use]
    pub const fn least(&self) -> Bytes {
        Bytes(self.xoff.0.saturating_add(self.headroom.0))
    }
}

/// What may come by the link of `port` once the switch has decided to pause it by `back`: what the
/// link carries until the pause is obeyed and the last packet is there, a packet being sent then,
/// and the one that went above XOFF.
fn headroom(port: &PortSpec, back: &PortSpec) -> u64 {
    let longest = back.params.pause.packet_max.0;
    let wait = back.rate.time_for(Bytes(longest + FRAMES * u64::from(FRAME)));
    let deaf: Duration = wait + back.delay + port.delay;
    port.rate.bytes_in(deaf).0 + 1 + 2 * longest
}

/// By port: the port that leads back from where its link ends, `u32::MAX` from a host. The i-th of
/// parallel links leads back by the i-th.
fn ports_back(blueprint: &Blueprint) -> Vec<u32> {
    let key = |node: Node| match node {
        Node::Host(host) => (0, host),
        Node::Switch(switch) => (1, switch),
    };
    let sorted = |by: fn(&PortSpec) -> (Node, Node)| {
        let mut order: Vec<_> = (0u32..).zip(&blueprint.ports).collect();
        order.sort_by_key(|(number, port)| {
            let (first, second) = by(port);
            (key(first), key(second), *number)
        });
        order
    };
    let there = sorted(|port| (port.owner, port.to));
    let here = sorted(|port| (port.to, port.owner));
    let mut back = vec![u32::MAX; blueprint.ports.len()];
    for ((number, port), (other, reverse)) in there.into_iter().zip(here) {
        assert!((port.owner, port.to) == (reverse.to, reverse.owner), "links go both ways");
        if let Node::Switch(_) = port.to {
            back[number as usize] = other;
        }
    }
    back
}

impl Pfc {
    /// Nothing waits and nothing is paused.
    pub(super) fn new(blueprint: &Blueprint) -> Self {
        let link = |(port, back): (&PortSpec, u32)| {
            let sender = match port.owner {
                Node::Host(host) => host,
                Node::Switch(switch) => blueprint.hosts + switch,
            };
            let idle = Incoming {
                bytes: 0,
                limit: 0,
                xoff: 0,
                xon: 0,
                back,
                sender,
                paused: false,
                paused_since: Instant::ZERO,
            };
            let Some(spec) = blueprint.ports.get(back as usize) else { return idle };
            let (limit, pause) = (spec.params.data_limit.0, &spec.params.pause);
            let left = limit.saturating_sub(headroom(port, spec));
            let xoff = pause.xoff.map_or(left, |xoff| xoff.0);
            let below = xoff.saturating_sub(HYSTERESIS * pause.packet_max.0);
            let xon = pause.xon.map_or(below, |xon| xon.0.min(xoff));
            Incoming { limit, xoff, xon, ..idle }
        };
        let agenda = Agenda { departures: BinaryHeap::new(), wake_at: Instant::FAR_FUTURE };
        Self {
            links: blueprint.ports.iter().zip(ports_back(blueprint)).map(link).collect(),
            origins: vec![VecDeque::new(); blueprint.ports.len()],
            switches: vec![agenda; blueprint.switches.len()],
        }
    }

    /// A pause frame, or a resume, is at the transmitter that it is for.
    pub(super) fn obey(&mut self, state: &mut PortState, paused: bool, at: Instant) {
        state.port.pause(paused, at);
        let link = &mut self.links[state.number as usize];
        if paused {
            link.paused_since = at;
        } else {
            state.stats.paused += at.since(link.paused_since);
        }
    }
}

impl SwitchRun<'_> {
    /// Hands the switch the flights of a window that ends just after `last`.
    pub(super) fn run(&mut self, flights: &[Flight], last: Instant) {
        for flight in flights.iter().filter(|flight| !flight.is_wake()) {
            self.depart_until(flight.at);
            match flight.pause() {
                Some(paused) => {
                    let port = flight.packet.handle;
                    self.pfc.obey(&mut self.ports[port as usize], paused, flight.at);
                    self.expect(port);
                }
                None => self.arrive(flight),
            }
        }
        self.depart_until(last);
        let agenda = &mut self.pfc.switches[self.switch as usize];
        if agenda.wake_at <= last {
            agenda.wake_at = Instant::FAR_FUTURE;
        }
        if let Some(Reverse((at, _))) = agenda.departures.peek()
            && *at < agenda.wake_at
        {
            agenda.wake_at = *at;
            self.links.calendar.push(Flight::wake(self.target, *at));
        }
    }

    /// Runs the departures of all ports due by `at`, in the order of time.
    fn depart_until(&mut self, at: Instant) {
        while let Some((start, port)) = self.next_due(at) {
            let state = &mut self.ports[port as usize];
            if let Some(departure) = self.links.depart_next(state, start, self.out)
                && departure.packet.is_data()
                && let Some(origin) = self.pfc.origins[port as usize].pop_front()
            {
                self.give_back(origin, departure.packet.wire_bytes(), start);
            }
            self.expect(port);
        }
    }

    /// The next departure due by `at`.
    fn next_due(&mut self, at: Instant) -> Option<(Instant, u32)> {
        loop {
            let departures = &mut self.pfc.switches[self.switch as usize].departures;
            let Reverse((start, port)) = *departures.peek().filter(|next| next.0.0 <= at)?;
            departures.pop();
            let state = &mut self.ports[port as usize];
            if state.wake_at != start {
                continue;
            }
            state.wake_at = Instant::FAR_FUTURE;
            if self.links.next_turn(state) == Some(start) {
                return Some((start, port));
            }
            // A pause, or a pause frame, has come before it.
            self.expect(port);
        }
    }

    /// Sees to it that the next departure of `port` is run.
    fn expect(&mut self, port: u32) {
        let state = &mut self.ports[port as usize];
        if let Some(at) = self.links.next_turn(state).filter(|at| *at < state.wake_at) {
            state.wake_at = at;
            self.pfc.switches[self.switch as usize].departures.push(Reverse((at, port)));
        }
    }

    /// A packet has arrived.
    fn arrive(&mut self, flight: &Flight) {
        let Flight { at, origin, packet, .. } = *flight;
        self.links.counts.on_wire -= 1;
        let Some(port) = self.links.route(self.switch, &packet, at) else {
            let state = &mut self.ports[origin as usize];
            self.links.lose(state, packet, DropReason::NoRoute, at, self.out);
            return;
        };
        let link = &mut self.pfc.links[origin as usize];
        let state = &mut self.ports[port as usize];
        if packet.is_data() && link.bytes + packet.wire_bytes() > link.limit {
            self.links.lose(state, packet, DropReason::DataQueueFull, at, self.out);
            return;
        }
        let before = state.port.queued().data_bytes;
        self.links.offer(state, packet, at, self.out);
        // Otherwise it is a control packet, has left at once or is lost.
        if state.port.queued().data_bytes > before {
            link.bytes += packet.wire_bytes();
            self.pfc.origins[port as usize].push_back(origin);
            if link.bytes > link.xoff && !link.paused {
                self.tell(origin, true, at);
            }
        }
        self.expect(port);
    }

    /// Bytes that came by the link of `origin` have left the switch.
    fn give_back(&mut self, origin: u32, bytes: u64, at: Instant) {
        let link = &mut self.pfc.links[origin as usize];
        link.bytes -= bytes;
        if link.paused && link.bytes <= link.xon {
            self.tell(origin, false, at);
        }
    }

    /// Tells the transmitter of a link to pause, or to go on.
    fn tell(&mut self, origin: u32, paused: bool, at: Instant) {
        let link = &mut self.pfc.links[origin as usize];
        link.paused = paused;
        let back = &mut self.ports[link.back as usize];
        back.stats.pauses += u64::from(paused);
        let arrival = back.port.interject(FRAME, at);
        let frame = Flight::pause_frame(paused, origin, (link.back, link.sender), arrival);
        self.links.file(frame);
    }
}

#[cfg(test)]
#[path = "pfc/tests.rs"]
mod tests;
