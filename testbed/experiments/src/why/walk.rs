//! The walk from the end of a flow back to its start, along the cause for which each step waited.
//!
//! ```text
//!   last ack <- its data <- the flow was ready <- an ack opened the window <- its data <- .. start
//!            |          |                      |
//!            queues,    queues, links          turn at the NIC
//!            links
//! ```
//!
//! Every picosecond between start and end is charged to one part, so the parts add up to the FCT.

use std::collections::BTreeMap;

use transport::{Duration, HostId, Instant, Wait};

use super::demands::WaitAtPort;
use super::journal::{Fate, Journal, NONE, PacketHop, Record, SendCause};
use super::pauses::Pauses;
use super::words::NamedLinks;
use super::{FlowSpan, LossNews, Repair, Seen, TimePart};

/// Where the time of a flow went.
#[derive(Clone, Debug, Default)]
pub(super) struct Charges {
    pub(super) parts: [u64; TimePart::ALL.len()],
    /// By port: picoseconds in its queue.
    pub(super) queues: BTreeMap<u32, u64>,
    /// By port whose queue was the reason: picoseconds for which links were paused.
    pub(super) paused: BTreeMap<u32, u64>,
    /// By cause: picoseconds, and how often.
    pub(super) repairs: BTreeMap<Repair, (u64, u32)>,
    /// The times that the scheduler of the flow's host held it back, and those in queues.
    pub(super) waits: Vec<WaitAtPort>,
}

pub(super) struct Walk<'j> {
    pub(super) journal: &'j Journal,
    pauses: &'j Pauses,
    pub(super) links: &'j NamedLinks<'j>,
    in_pods: bool,
    hosts: u32,
    /// The flow's host.
    pub(super) src: u32,
    pub(super) dst: HostId,
    /// The flow's start; no time before it is charged.
    start: Instant,
    pub(super) flow: u32,
    /// The part that the time on links without queues belongs to.
    pub(super) mode: TimePart,
    pub(super) charges: Charges,
}

/// Where the walk stands: the time is charged from the end down to `at`.
#[derive(Clone, Copy)]
pub(super) enum Standpoint {
    /// At the arrival of a packet, or after it.
    Arrival(u32),
    /// At the departure of data.
    Departure(u32),
    /// The walk is over: the rest of the time belongs to this part.
    Rest(TimePart),
}

/// The charges of line `flow` of the matrix, to `dst` on connection `conn`, in its whole time.
pub(super) fn walk(
    Seen { journal, pauses, links, in_pods }: Seen<'_>,
    (flow, conn, dst): (u32, u32, HostId),
    FlowSpan { start, end, open }: FlowSpan,
) -> Charges {
    let hosts = u32::try_from(journal.hosts.len()).unwrap_or(u32::MAX);
    let (mode, charges) = (TimePart::Path, Charges::default());
    let src = journal.conns[conn as usize].src.0;
    let mut walk =
        Walk { journal, pauses, links, in_pods, hosts, src, dst, start, flow, mode, charges };
    let (mut at, mut step) = if open { walk.open(conn, end) } else { walk.last(conn, end) };
    // Bounded: each step goes to a packet that was sent earlier.
    while at > start {
        (at, step) = match step {
            Standpoint::Arrival(packet) => walk.arrival(packet, at),
            Standpoint::Departure(data) => walk.departure(data, at),
            Standpoint::Rest(part) => (walk.charge(part, start, at), step),
        };
    }
    walk.charges
}

impl Walk<'_> {
    /// Where the walk begins: at the last packet of connection `conn` that came back by `end`. A
    /// pod's scheduler reports arrivals in answers of its own. Where no packet has come back, the
    /// walk begins at the arrival of the flow's last data, which the receiver was to report.
    fn last(&mut self, conn: u32, end: Instant) -> (Instant, Standpoint) {
        let (journal, conn) = (self.journal, &self.journal.conns[conn as usize]);
        let record = |at: &u32| &journal.records[*at as usize];
        if let Some(last) = conn.feedback.iter().rev().find(|at| record(at).arrived <= end) {
            return (end, Standpoint::Arrival(*last));
        }
        let own = conn.data.iter().filter(|at| record(at).flow == self.flow);
        let last = own.filter(|at| record(at).arrived <= end).max_by_key(|at| record(at).arrived);
        let Some(last) = last else { return (end, Standpoint::Rest(TimePart::Other)) };
        (self.charge(TimePart::Receiver, record(last).arrived, end), Standpoint::Arrival(*last))
    }

    pub(super) fn record(&self, number: u32) -> Option<&Record> {
        self.journal.records.get(number as usize)
    }

    /// Charges the time between two instants, as far as it is of the flow; returns the earlier one.
    pub(super) fn charge(&mut self, part: TimePart, from: Instant, to: Instant) -> Instant {
        let from = from.max(self.start);
        if to > from {
            self.charges.parts[part as usize] += to.since(from).as_ps();
            if part == TimePart::Scheduler {
                self.charges.waits.push((self.src, from, to));
            }
        }
        from.min(to)
    }

    /// Charges the part of the time from `from` to `to` for which the data of `port` was paused,
    /// less `other`, which is charged elsewhere; returns how long that was.
    fn charge_pauses(
        &mut self,
        port: u32,
        (from, to): (Instant, Instant),
        other: Duration,
    ) -> Duration {
        let room = to.since(from).saturating_sub(other);
        let mut charged = Duration::ZERO;
        for (time, cause) in self.pauses.within(port, from, to) {
            let time = time.min(room - charged);
            if time > Duration::ZERO {
                charged += time;
                self.charges.parts[TimePart::Paused as usize] += time.as_ps();
                *self.charges.paused.entry(cause).or_default() += time.as_ps();
            }
        }
        charged
    }

    /// Charges the time from `from` to `to` in the queue of `port`: to pauses of its link, which
    /// hold back only data, and to the queue.
    pub(super) fn charge_queue(
        &mut self,
        port: u32,
        is_data: bool,
        from: Instant,
        to: Instant,
    ) -> Instant {
        let from = from.max(self.start).min(to);
        let all = if is_data { Duration::ZERO } else { to.since(from) };
        let paused = self.charge_pauses(port, (from, to), all);
        let before = self.charges.parts[TimePart::Queue as usize];
        self.charge(TimePart::Queue, from + paused, to);
        let more = self.charges.parts[TimePart::Queue as usize] - before;
        if more > 0 {
            *self.charges.queues.entry(port).or_default() += more;
            self.charges.waits.push((port, from + paused, to));
        }
        from
    }

    /// From the arrival of a packet back to its departure.
    fn arrival(&mut self, number: u32, at: Instant) -> (Instant, Standpoint) {
        let Some(&packet) = self.record(number).filter(|packet| packet.sent < at) else {
            return (at, Standpoint::Rest(TimePart::Other));
        };
        let mut at = self.charge(self.mode, packet.arrived, at);
        let mut hop = self.journal.hops.get(packet.hops as usize).copied();
        // Bounded by the hops of the packet.
        while let Some(PacketHop { before, port, start, .. }) = hop {
            at = self.charge(self.mode, start, at);
            hop = self.journal.hops.get(before as usize).copied();
            let queued = hop.map_or(packet.sent, |hop| hop.arrival).max(packet.sent);
            if port >= self.hosts {
                at = self.charge_queue(port, packet.is_data, queued, at);
            } else if !packet.is_data {
                at = self.charge(TimePart::Receiver, queued, at);
            } else {
                at = self.charge_line(port, queued, at);
            }
        }
        at = self.charge(self.mode, packet.sent, at);
        if packet.is_data {
            return (at, Standpoint::Departure(number));
        }
        let Some(cause) = self.record(packet.answers).copied() else {
            return (
                at,
                Standpoint::Rest(if self.mode == TimePart::Path {
                    TimePart::Other
                } else {
                    self.mode
                }),
            );
        };
        at = self.charge(TimePart::Receiver, cause.arrived, at);
        (at, Standpoint::Arrival(packet.answers))
    }

    /// From the departure of data back to what let it leave.
    fn departure(&mut self, number: u32, at: Instant) -> (Instant, Standpoint) {
        let Some(&data) = self.record(number) else {
            return (at, Standpoint::Rest(TimePart::Other));
        };
        let host = self.journal.conns.get(data.conn as usize).map_or(NONE, |conn| conn.src.0);
        let known = self.record(data.again).map(|again| again.known_lost);
        if let Some(known) = known.filter(|known| *known >= data.ready && *known <= at) {
            let at = self.charge_line(host, known, at);
            return self.repair(data.again, at);
        }
        if let Some(step) = self.behind_own(&data, host, at) {
            return step;
        }
        let ready = data.ready.min(at);
        let at = if data.chosen {
            self.charge(TimePart::Scheduler, ready, at)
        } else {
            self.charge_line(host, ready, at)
        };
        if self.in_pods && data.resumed <= at {
            // Until the loss was found, the flow asked the scheduler for nothing.
            let at = self.charge(TimePart::Scheduler, data.resumed, at);
            return self.repair(data.again, at);
        }
        self.let_send((data.waited, data.opened, data.before), host, at)
    }

    /// Where the line was still sending the flow's packet before when this one became ready, it
    /// could not have left earlier whatever else it waited for.
    fn behind_own(
        &mut self,
        data: &Record,
        host: u32,
        at: Instant,
    ) -> Option<(Instant, Standpoint)> {
        let before = self.record(data.before)?;
        let first = self.first_hop(before)?;
        let line = &self.journal.hosts.get(host as usize)?.line;
        let place = line.binary_search_by_key(&first.start, |sent| sent.start).ok()?;
        let busy_until = line[place].end;
        if data.opened == SendCause::Posted || busy_until < data.ready || first.start >= at {
            return None;
        }
        let at = self.charge_line(host, first.start, at);
        Some((at, Standpoint::Departure(data.before)))
    }

    fn first_hop(&self, packet: &Record) -> Option<PacketHop> {
        let mut hop = *self.journal.hops.get(packet.hops as usize)?;
        // Bounded by the hops of the packet.
        while let Some(before) = self.journal.hops.get(hop.before as usize) {
            hop = *before;
        }
        (hop.port < self.hosts).then_some(hop)
    }

    /// From the instant at which a flow could send back to the event that let it: what it waited
    /// for until then, what ended that wait, and the flow's packet before.
    pub(super) fn let_send(
        &mut self,
        (waited, opened, before): (Wait, SendCause, u32),
        host: u32,
        at: Instant,
    ) -> (Instant, Standpoint) {
        let waited = part_of(waited);
        match opened {
            SendCause::Posted => (at, Standpoint::Rest(TimePart::Other)),
            // A packet that no host has sent is not in the journal.
            SendCause::Arrival(packet) if packet != NONE => {
                self.mode = waited;
                (at, Standpoint::Arrival(packet))
            }
            SendCause::Arrival(_) | SendCause::Time => {
                let Some(&last) = self.record(before).filter(|last| last.sent < at) else {
                    return (at, Standpoint::Rest(waited));
                };
                let own = self.own_line(host, last.sent, at);
                let paced = self.charge(waited, last.sent + own, at);
                let at = self.charge(TimePart::Sending, last.sent, paced);
                (at, Standpoint::Departure(before))
            }
        }
    }

    /// Charges the time between a transmission that was lost and the instant at which the sender
    /// detected the loss.
    fn repair(&mut self, number: u32, at: Instant) -> (Instant, Standpoint) {
        let silent = self.record(number).is_some_and(|lost| lost.silent);
        self.repair_by(number, if silent { LossNews::Timer } else { LossNews::Answer }, at)
    }

    /// How long the NIC of `host` sent packets of the flow between two instants.
    fn own_line(&self, host: u32, from: Instant, to: Instant) -> Duration {
        let Some(log) = self.journal.hosts.get(host as usize) else { return Duration::ZERO };
        let first = log.line.partition_point(|sent| sent.end <= from);
        let of_flow = log.line[first..].iter().take_while(|sent| sent.start < to);
        let own = of_flow.filter(|sent| sent.flow == self.flow);
        let overlap = own.map(|sent| sent.end.min(to).since(sent.start.max(from)).as_ps());
        Duration::from_ps(overlap.sum())
    }

    /// Charges the time in which a packet that was ready waited for the NIC of its host. The parts
    /// are the bytes of its own flow that went before it, pauses of the link, and the packet's
    /// turn.
    pub(super) fn charge_line(&mut self, host: u32, from: Instant, to: Instant) -> Instant {
        let from = from.max(self.start).min(to);
        let own = self.own_line(host, from, to);
        let paused = self.charge_pauses(host, (from, to), own);
        self.charge(TimePart::Turn, from + own + paused, to);
        self.charge(TimePart::Sending, from, from + own);
        from
    }
}

/// The part that a wait belongs to.
pub(super) const fn part_of(wait: Wait) -> TimePart {
    match wait {
        Wait::Window | Wait::PsnWindow | Wait::MsgWindow | Wait::Acknowledgement => {
            TimePart::Window
        }
        Wait::Scheduler => TimePart::Scheduler,
        Wait::Pacing => TimePart::Pacing,
        Wait::Refusals | Wait::Opening => TimePart::Receiver,
        Wait::Application | Wait::Failed => TimePart::Other,
    }
}

impl Repair {
    pub(super) fn of(fate: Fate, by: LossNews) -> Self {
        let (cause, port) = match fate {
            Fate::Trimmed(port) => ("trimmed", port),
            Fate::Lost(port, reason) => (reason.name(), port),
            Fate::Corrupt => ("corrupt", NONE),
            Fate::Whole => ("not_lost", NONE),
        };
        Self { cause, port: Some(port).filter(|port| *port != NONE), by }
    }
}
