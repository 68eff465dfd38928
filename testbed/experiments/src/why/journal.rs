//! The journal of a simulation: for each packet when it was sent, why not earlier, and its way.
//!
//! A run keeps one only when it is asked to explain itself. A packet takes about 100 bytes, and 32
//! for each of its hops. Indices are 32 bits wide: four thousand million packets and hops.

mod entries;

use std::collections::BTreeMap;

use fabric::PacketStep;
use transport::wire::class::TrafficClass;
use transport::wire::{Body, Data, Header};
use transport::{Duration, HostId, Instant, Standing, Wait};

pub(super) use entries::{Fate, NONE, OnLine, PacketHop, Record, SendCause};

/// What a flow does at present.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// The flow could send.
    Ready { since: Instant, waited: Wait, opened: SendCause },
    /// The flow waits; where known, until when.
    Waiting { wait: Wait, until: Option<Instant> },
}

impl State {
    /// Whether the flow waits for an answer to what it has sent, and asks for nothing else.
    const fn is_for_answer(self) -> bool {
        let Self::Waiting { wait, .. } = self else { return false };
        matches!(wait, Wait::Acknowledgement | Wait::Window | Wait::PsnWindow | Wait::MsgWindow)
    }
}

/// A sender's end of a connection.
#[derive(Clone, Debug)]
pub(super) struct Conn {
    pub(super) src: HostId,
    /// By PSN: the last transmission, and the last one that arrived.
    sent: Vec<u32>,
    arrived: Vec<u32>,
    /// Packets that arrived for the sender, in their order.
    pub(super) feedback: Vec<u32>,
    /// All its data.
    pub(super) data: Vec<u32>,
    /// By number of the message: the line of the matrix that it carries.
    flows: Vec<u32>,
    pub(super) state: State,
    pub(super) last_sent: u32,
    last_arrived: u32,
    /// Segments that were lost and not sent again when it was looked at last.
    pub(super) lost: u32,
    /// When that number last rose, and whether a timer was the reason.
    pub(super) loss_at: Instant,
    pub(super) loss_silent: bool,
    /// When that number last rose while the flow waited only for an answer.
    idle_loss_at: Instant,
}

impl Conn {
    /// The last transmission of each segment.
    pub(super) fn last_transmissions(&self) -> impl Iterator<Item = u32> {
        self.sent.iter().copied().filter(|number| *number != NONE)
    }
}

/// What a host has done.
#[derive(Clone, Debug, Default)]
pub(super) struct HostLog {
    /// Connections that the host sends on.
    conns: Vec<u32>,
    /// By the sending host: the last packet that came from there.
    last_from: BTreeMap<u32, u32>,
    /// The last packet that arrived.
    last: u32,
    /// What its NIC has sent, in order.
    pub(super) line: Vec<OnLine>,
}

/// A packet that a host sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent<'a> {
    pub(crate) handle: u32,
    pub(crate) hdr: &'a Header,
    pub(crate) from: HostId,
    pub(crate) to: HostId,
    /// Whether the segment waited for a departure that was chosen before.
    pub(crate) chosen: bool,
}

/// The journal of a run.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    pub(super) records: Vec<Record>,
    pub(super) hops: Vec<PacketHop>,
    pub(super) conns: Vec<Conn>,
    pub(super) hosts: Vec<HostLog>,
    /// For each port: the delay of its link.
    delays: Vec<Duration>,
    /// For each handle of a packet under way: its record.
    of_handle: Vec<u32>,
    /// By key: the connection.
    by_key: BTreeMap<u64, u32>,
    /// Connections that have sent data and were not looked at since.
    senders: Vec<u32>,
}

impl Journal {
    /// An empty journal of a network: its hosts, its connections, the delays of its links by port.
    pub(crate) fn new(hosts: u32, connections: usize, delays: Vec<Duration>) -> Self {
        let conn = Conn {
            src: HostId(NONE),
            sent: Vec::new(),
            arrived: Vec::new(),
            feedback: Vec::new(),
            data: Vec::new(),
            flows: Vec::new(),
            state: State::Waiting { wait: Wait::Application, until: None },
            last_sent: NONE,
            last_arrived: NONE,
            lost: 0,
            loss_at: Instant::ZERO,
            loss_silent: false,
            idle_loss_at: Instant::ZERO,
        };
        let host = HostLog { last: NONE, ..HostLog::default() };
        Self {
            records: Vec::new(),
            hops: Vec::new(),
            conns: vec![conn; connections],
            hosts: vec![host; hosts as usize],
            delays,
            of_handle: Vec::new(),
            by_key: BTreeMap::new(),
            senders: Vec::new(),
        }
    }

    /// Connection `conn` of `src` is open under `key`.
    pub(crate) fn name(&mut self, conn: usize, src: HostId, key: u64) {
        let number = index(conn);
        if self.conns[conn].src != src {
            self.conns[conn].src = src;
            self.hosts[src.0 as usize].conns.push(number);
        }
        self.by_key.insert(key, number);
    }

    /// Whether a connection has this key.
    pub(crate) fn has_flow(&self, key: u64) -> bool {
        self.by_key.contains_key(&key)
    }

    /// The connections that `host` sends on.
    pub(crate) fn conns_of(&self, host: HostId) -> Vec<u32> {
        self.hosts[host.0 as usize].conns.clone()
    }

    /// The connection of a packet with this header, when `host` is its sender.
    pub(crate) fn conn_at(&self, hdr: &Header, host: HostId) -> Option<u32> {
        let conn = *self.by_key.get(&hdr.key.0)?;
        (self.conns[conn as usize].src == host).then_some(conn)
    }

    /// `packet` is given to the NIC of its host.
    pub(crate) fn on_sent(&mut self, packet: &Sent<'_>, now: Instant) {
        let conn = self.by_key.get(&packet.hdr.key.0).copied().unwrap_or(NONE);
        let mut record = Record {
            sent: now,
            arrived: Instant::FAR_FUTURE,
            ready: now,
            known_lost: Instant::FAR_FUTURE,
            opened: SendCause::Time,
            waited: Wait::Application,
            conn,
            flow: NONE,
            again: NONE,
            before: NONE,
            answers: NONE,
            hops: NONE,
            fate: Fate::Whole,
            marked: NONE,
            trimmed: NONE,
            is_data: false,
            chosen: packet.chosen,
            silent: false,
            resumed: Instant::FAR_FUTURE,
        };
        let number = index(self.records.len());
        match &packet.hdr.body {
            Body::Data(data) if conn != NONE => {
                record.flow = self.flow_of(conn, data);
                self.fill_data(&mut record, data.psn.0, (number, packet.from), now);
                if self.senders.last() != Some(&conn) {
                    self.senders.push(conn);
                }
            }
            body => record.answers = self.answered(body, conn, packet),
        }
        self.set_handle(packet.handle, number);
        self.records.push(record);
    }

    /// The line of the matrix that a segment carries: the first one of a message names it.
    fn flow_of(&mut self, conn: u32, data: &Data) -> u32 {
        let flow = at_psn(&mut self.conns[conn as usize].flows, data.msg.0);
        if let Some((line, _)) = crate::conductor::tags::message_of(data.tag) {
            *flow = line.0;
        }
        *flow
    }

    fn fill_data(
        &mut self,
        record: &mut Record,
        psn: u32,
        (number, host): (u32, HostId),
        now: Instant,
    ) {
        let last = self.hosts[host.0 as usize].last;
        let conn = &mut self.conns[record.conn as usize];
        (record.ready, record.waited, record.opened) = match conn.state {
            State::Ready { since, waited, opened } => (since, waited, opened),
            State::Waiting { wait: Wait::Pacing, until: Some(until) } => {
                (until.min(now), Wait::Pacing, SendCause::Time)
            }
            // The estimate of its next packet's length was too long.
            State::Waiting { wait, .. } => {
                let just = self.records.get(last as usize).filter(|last| last.arrived == now);
                (now, wait, just.map_or(SendCause::Time, |_| SendCause::Arrival(last)))
            }
        };
        record.is_data = true;
        record.before = conn.last_sent;
        conn.last_sent = number;
        conn.data.push(number);
        let sent = at_psn(&mut conn.sent, psn);
        record.again = std::mem::replace(sent, number);
        if let Some(again) = self.records.get_mut(record.again as usize)
            && again.known_lost == Instant::FAR_FUTURE
            && conn.loss_at >= again.sent
        {
            (again.known_lost, again.silent) = (conn.loss_at, conn.loss_silent);
        }
        // The flow has sent nothing since that loss was found.
        let last_at = self.records.get(record.before as usize).map(|before| before.sent);
        let is_first = last_at.is_some_and(|last_at| last_at < conn.idle_loss_at);
        if is_first && record.again != NONE && conn.idle_loss_at <= record.ready {
            record.resumed = conn.idle_loss_at;
        }
    }

    /// The packet that one without payload answers.
    fn answered(&self, body: &Body, conn: u32, packet: &Sent<'_>) -> u32 {
        let of_conn = self.conns.get(conn as usize).filter(|conn| conn.src == packet.to);
        let exact = match (body, of_conn) {
            (Body::Ack(ack) | Body::Nack(ack), Some(conn)) => {
                conn.arrived.get(ack.psn.0 as usize).copied()
            }
            (_, Some(conn)) => Some(conn.last_arrived),
            _ => None,
        };
        let last = || self.hosts.get(packet.from.0 as usize)?.last_from.get(&packet.to.0).copied();
        exact.filter(|record| *record != NONE).or_else(last).unwrap_or(NONE)
    }

    /// The packet of `handle` arrives at `host`.
    pub(crate) fn on_arrived(
        &mut self,
        (handle, hdr): (u32, &Header),
        (from, host): (HostId, HostId),
        class: TrafficClass,
        corrupt: bool,
        now: Instant,
    ) {
        let number = self.of_handle.get(handle as usize).copied().unwrap_or(NONE);
        let log = &mut self.hosts[host.0 as usize];
        log.last = number;
        log.last_from.insert(from.0, number);
        let Some(record) = self.records.get_mut(number as usize) else { return };
        let is_first = !record.has_arrived();
        record.arrived = record.arrived.min(now);
        // Of several copies the one that arrives whole counts, else the first one that arrives.
        if !corrupt && class != TrafficClass::Trimmed {
            record.fate = Fate::Whole;
        } else if is_first && corrupt {
            record.fate = Fate::Corrupt;
        } else if is_first && !matches!(record.fate, Fate::Trimmed(_)) {
            record.fate = Fate::Trimmed(record.trimmed);
        }
        let Some(conn) = self.conns.get_mut(record.conn as usize) else { return };
        if conn.src != host {
            conn.last_arrived = number;
            if let Body::Data(data) = &hdr.body {
                *at_psn(&mut conn.arrived, data.psn.0) = number;
            }
            return;
        }
        conn.feedback.push(number);
        if let Body::Nack(nack) = &hdr.body
            && let Some(lost) = conn.sent.get(nack.psn.0 as usize)
            && let Some(lost) = self.records.get_mut(*lost as usize)
        {
            lost.known_lost = lost.known_lost.min(now);
        }
    }

    /// The connections that have sent since this was called last.
    pub(crate) fn take_senders(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.senders)
    }

    /// The standing of connection `conn` at `now`, after what `event` says.
    pub(crate) fn on_standing(
        &mut self,
        conn: u32,
        (standing, until): (Standing, Option<Instant>),
        event: HostEvent,
        now: Instant,
    ) {
        if standing.wait == Some(Wait::Failed) {
            // What it waited for before is the cause.
            return;
        }
        let host = self.conns[conn as usize].src;
        let opened = match event {
            HostEvent::Posted => SendCause::Posted,
            HostEvent::Arrival => SendCause::Arrival(self.hosts[host.0 as usize].last),
            HostEvent::Timer | HostEvent::Sent => SendCause::Time,
        };
        let conn = &mut self.conns[conn as usize];
        if standing.lost > conn.lost {
            (conn.loss_at, conn.loss_silent) = (now, event == HostEvent::Timer);
            if conn.state.is_for_answer() {
                conn.idle_loss_at = now;
            }
        }
        conn.lost = standing.lost;
        conn.state = match (standing.wait, conn.state) {
            (None, ready @ State::Ready { .. }) => ready,
            (None, State::Waiting { wait: Wait::Pacing, until }) => {
                let since = until.unwrap_or(now).min(now);
                State::Ready { since, waited: Wait::Pacing, opened: SendCause::Time }
            }
            (None, State::Waiting { wait, .. }) => {
                State::Ready { since: now, waited: wait, opened }
            }
            (Some(wait), _) => State::Waiting { wait, until },
        };
    }

    /// A step of a packet in the network.
    pub(crate) fn on_step(&mut self, packet: &fabric::Packet, step: PacketStep) {
        let number = self.of_handle.get(packet.handle as usize).copied().unwrap_or(NONE);
        let Some(record) = self.records.get_mut(number as usize) else { return };
        match step {
            PacketStep::Left { port, start, arrival } => {
                if packet.flags.has(fabric::Flags::CE) && record.marked == NONE {
                    record.marked = port;
                }
                if let Some(host) = self.hosts.get_mut(port as usize) {
                    // Its line may be slower than it is by its specification.
                    let sending = arrival.since(start).saturating_sub(self.delays[port as usize]);
                    let end = start + sending;
                    host.line.push(OnLine { start, end, flow: record.flow });
                }
                let held = Duration::ZERO;
                self.hops.push(PacketHop { before: record.hops, port, start, arrival, held });
                record.hops = index(self.hops.len() - 1);
            }
            PacketStep::Held(extra) => {
                if let Some(hop) = self.hops.get_mut(record.hops as usize) {
                    hop.arrival += extra;
                    hop.held += extra;
                }
            }
            // A copy of a packet that has arrived takes nothing away from it.
            PacketStep::Trimmed { port } => {
                record.trimmed = port;
                if !record.has_arrived() && matches!(record.fate, Fate::Whole | Fate::Lost(..)) {
                    record.fate = Fate::Trimmed(port);
                }
            }
            PacketStep::Lost { port, reason } => {
                // Of two copies one may be trimmed and the other one lost whole.
                let is_other = matches!(record.fate, Fate::Trimmed(_)) && packet.is_data();
                if !record.has_arrived() && !is_other {
                    record.fate = Fate::Lost(port, reason);
                }
            }
        }
    }

    /// The packet of `handle` goes by `other` from now on.
    pub(crate) fn rename(&mut self, handle: u32, other: u32) {
        let number = self.of_handle.get(handle as usize).copied().unwrap_or(NONE);
        self.set_handle(other, number);
    }

    /// A packet that no host sent has the handle `handle`.
    pub(crate) fn forget(&mut self, handle: u32) {
        self.set_handle(handle, NONE);
    }

    fn set_handle(&mut self, handle: u32, number: u32) {
        *at_psn(&mut self.of_handle, handle) = number;
    }
}

/// The event after which a standing is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostEvent {
    /// A message was posted.
    Posted,
    /// A packet arrived.
    Arrival,
    /// A timer was due.
    Timer,
    /// The host has sent.
    Sent,
}

/// The place of `number` in a list that grows to have it.
fn at_psn(list: &mut Vec<u32>, number: u32) -> &mut u32 {
    let at = number as usize;
    if list.len() <= at {
        list.resize(at + 1, NONE);
    }
    &mut list[at]
}

fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(NONE)
}

#[cfg(test)]
mod tests {
    use transport::{EntropyValue, FlowId};

    use super::*;
    use transport::stats::DropReason;

    /// What becomes of one of the two copies of a packet.
    #[derive(Clone, Copy, Debug)]
    enum End {
        Lost,
        Trimmed,
        Corrupt,
        Whole,
    }

    const PORT: u32 = 5;
    const LOST: Fate = Fate::Lost(PORT, DropReason::RandomLoss);

    const SRC: HostId = HostId(0);
    const DST: HostId = HostId(1);

    /// The journal of one packet that was sent, its header and the packet.
    fn sent() -> (Journal, Header, fabric::Packet) {
        let mut journal = Journal::new(2, 1, vec![Duration::ZERO; 8]);
        let hdr = Header::new(EntropyValue(7), FlowId::UNKNOWN, Body::Data(Data::VACANT));
        let sent = Sent { handle: 3, hdr: &hdr, from: SRC, to: DST, chosen: false };
        journal.on_sent(&sent, Instant::ZERO);
        let flags = fabric::Flags::of(TrafficClass::Data);
        let (handle, dst) = (3, DST);
        (journal, hdr, fabric::Packet { handle, dst, hash: 0, len: 1000, trim_len: 64, flags })
    }

    /// The fate of a packet whose copies end like this, one after the other.
    fn fate_of(copies: &[End]) -> Fate {
        let (mut journal, hdr, whole) = sent();
        for (at, copy) in (1..).zip(copies) {
            let at = Instant::from_ps(at);
            let is_trimmed = matches!(copy, End::Trimmed);
            let packet = if is_trimmed { whole.trimmed() } else { whole };
            if is_trimmed {
                journal.on_step(&whole, PacketStep::Trimmed { port: PORT });
            }
            journal.on_step(&packet, PacketStep::Left { port: PORT, start: at, arrival: at });
            if matches!(copy, End::Lost) {
                let reason = DropReason::RandomLoss;
                journal.on_step(&packet, PacketStep::Lost { port: PORT, reason });
            } else {
                let corrupt = matches!(copy, End::Corrupt);
                journal.on_arrived((3, &hdr), (SRC, DST), packet.class(), corrupt, at);
            }
        }
        journal.records[0].fate
    }

    #[test]
    fn the_port_that_trimmed_a_packet_is_named_whatever_becomes_of_its_copy() {
        let (journal, hdr, whole) = sent();
        let left = |port| {
            let at = Instant::from_ps(u64::from(port));
            PacketStep::Left { port, start: at, arrival: at }
        };
        let lost = |port| PacketStep::Lost { port, reason: DropReason::RandomLoss };
        let (trims, header) = (PacketStep::Trimmed { port: 3 }, whole.trimmed());
        let first = [(whole, trims), (header, left(3))];
        // The other copy is lost before this one arrives, goes on, or was lost before.
        let others =
            [vec![(whole, left(4)), (whole, lost(4))], vec![(whole, left(4)), (whole, left(6))]];
        for other in &others {
            for steps in [[&first[..], other].concat(), [&other[..], &first].concat()] {
                let mut journal = journal.clone();
                steps.iter().for_each(|(packet, step)| journal.on_step(packet, *step));
                journal.on_step(&header, left(7));
                let (end, class) = (Instant::from_ps(9), TrafficClass::Trimmed);
                journal.on_arrived((3, &hdr), (SRC, DST), class, false, end);
                assert_eq!(journal.records[0].fate, Fate::Trimmed(3), "{steps:?}");
            }
        }
        // A header that is lost behind the port that made it.
        let mut journal = journal;
        first.iter().for_each(|(packet, step)| journal.on_step(packet, *step));
        journal.on_step(&header, lost(5));
        assert_eq!(journal.records[0].fate, Fate::Lost(5, DropReason::RandomLoss));
    }

    #[test]
    fn a_packet_is_lost_when_no_copy_of_it_arrives() {
        use End::{Corrupt, Lost, Trimmed, Whole};
        for (copies, fate) in [
            (&[Lost][..], LOST),
            (&[Lost, Lost], LOST),
            (&[Lost, Whole], Fate::Whole),
            (&[Whole, Lost], Fate::Whole),
            (&[Whole, Trimmed], Fate::Whole),
            (&[Whole, Corrupt], Fate::Whole),
            (&[Corrupt, Whole], Fate::Whole),
            (&[Trimmed], Fate::Trimmed(PORT)),
            (&[Trimmed, Lost], Fate::Trimmed(PORT)),
            (&[Lost, Trimmed], Fate::Trimmed(PORT)),
            (&[Trimmed, Whole], Fate::Whole),
            (&[Corrupt, Lost], Fate::Corrupt),
            (&[Lost, Corrupt], Fate::Corrupt),
        ] {
            assert_eq!(fate_of(copies), fate, "{copies:?}");
        }
    }
}
