//! Starts the flows of a matrix when they are due and keeps the record of each.
//!
//! All worlds use it: the driver posts the messages of [`Conductor::next_order`], and reports the
//! events of endpoints. It has neither endpoint nor clock. A flow longer than one message may be is
//! carried by several messages in a row; lines of a `.cm` file that are messages on one connection
//! share one transport flow.

pub mod begun;
pub(crate) mod restarts;
pub mod tags;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use transport::{Bytes, Duration, HostId, Instant};

use crate::workload::matrix::{LineMeaning, Start};
use crate::workload::{FlowIndex, Matrix, Triggers};

/// A message to post now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostOrder {
    /// The line of the matrix, for the report back.
    pub flow: FlowIndex,
    /// The transport flow that carries it, dense from 0.
    pub connection: u32,
    /// The sender.
    pub src: HostId,
    /// The receiver.
    pub dst: HostId,
    /// Bytes, at least 1.
    pub size: u64,
    /// The longest message that carries part of it, at least 1.
    pub message_max: u32,
    /// The last message of the connection: close it afterwards.
    pub last: bool,
    /// Whether the tags of messages have their number, beside the line.
    pub numbered: bool,
}

impl PostOrder {
    /// The lengths of the messages that carry it, all but the last as long as they may be.
    pub fn messages(&self) -> impl Iterator<Item = NonZeroU32> + use<> {
        let (size, longest) = (self.size, u64::from(self.message_max));
        (0..size.div_ceil(longest)).filter_map(move |i| {
            let len = (size - i * longest).min(longest);
            u32::try_from(len).ok().and_then(NonZeroU32::new)
        })
    }

    /// The tag of one of its messages, counted from 0: a receiver distinguishes flows by it.
    #[must_use]
    pub fn tag_of(&self, number: usize) -> u64 {
        let number = if self.numbered { u32::try_from(number).unwrap_or(u32::MAX) } else { 0 };
        tags::tag_of(self.flow, number)
    }
}

/// The record of one flow. Instants are [`Instant::FAR_FUTURE`] until they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// When the flow was posted.
    pub start: Instant,
    /// When its last byte was at the receiver.
    pub delivered_at: Instant,
    /// When the sender had its last acknowledgement: the end of the flow's FCT.
    pub acked_at: Instant,
    /// Bytes delivered so far.
    pub delivered: u64,
    /// Bytes acknowledged so far.
    pub acked: u64,
    /// Bytes at the receiver of messages that are not whole, at the end of the run; not in
    /// `delivered`.
    pub begun: u64,
    /// Bytes acknowledged of messages that are not whole, at the end of the run; not in `acked`.
    pub begun_acked: u64,
    /// The transport gave it up.
    pub failed: bool,
}

impl FlowRecord {
    /// The record of a flow that has not started.
    pub const UNSTARTED: Self = Self {
        start: Instant::FAR_FUTURE,
        delivered_at: Instant::FAR_FUTURE,
        acked_at: Instant::FAR_FUTURE,
        delivered: 0,
        acked: 0,
        begun: 0,
        begun_acked: 0,
        failed: false,
    };
}

/// The state of a matrix being run, or of a part of it: the flows that some hosts send.
#[derive(Clone, Debug)]
pub struct Conductor<'a> {
    matrix: &'a Matrix,
    triggers: Triggers,
    /// How many of the flows that start at a given time have been ordered.
    timed_done: usize,
    /// Started by a trigger, with the instant of its event, not yet ordered.
    triggered: VecDeque<(Instant, FlowIndex)>,
    /// Flows to be started by a trigger that has fired, by the instant of their start.
    delayed: BTreeSet<(Instant, FlowIndex)>,
    /// The connection of each flow.
    connections: Vec<u32>,
    /// For each connection: lines not yet ordered.
    lines_left: Vec<u32>,
    records: Vec<FlowRecord>,
    /// Flows ordered and neither finished nor failed.
    active: usize,
    finished: usize,
    delivered_bytes: u64,
    /// Hosts that send the flows whose records it keeps.
    senders: Range<u32>,
    /// Deliveries here of flows whose records other parts keep.
    remote_deliveries: Vec<RemoteDelivery>,
    counts: FlowCounts,
    /// Pokes for other hosts, where hosts are apart; `None` where one conductor has all flows.
    pokes: Option<Vec<Poke>>,
    /// Hosts that are gone: none of their flows starts any more, finishes, or is counted.
    gone: BTreeSet<HostId>,
    /// What processes of hosts have delivered, where hosts begin anew.
    lives: Option<restarts::Lives>,
}

/// Counts of flows by their progress, in one part, without flows of hosts that are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Own flows ordered.
    pub ordered: u64,
    /// Own flows wholly acknowledged.
    pub acked: u64,
    /// Own flows given up.
    pub failed: u64,
    /// Flows wholly delivered here.
    pub delivered: u64,
}

/// A flow has come so far that a trigger of the matrix is poked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Poke {
    /// The line of the matrix.
    pub flow: u32,
    /// True when the receiver has everything, false when the sender has everything acknowledged.
    pub received: bool,
}

/// A message of `flow` was delivered, where another part keeps the record of the flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteDelivery {
    flow: FlowIndex,
    len: u64,
    at: Instant,
}

impl<'a> Conductor<'a> {
    /// A conductor of which no flow has started. O(flows log flows).
    #[must_use]
    pub fn new(matrix: &'a Matrix) -> Self {
        let (connections, lines_left) = connect(matrix);
        Self {
            matrix,
            triggers: Triggers::new(matrix),
            timed_done: 0,
            triggered: VecDeque::new(),
            delayed: BTreeSet::new(),
            connections,
            lines_left,
            records: vec![FlowRecord::UNSTARTED; matrix.flows.len()],
            active: 0,
            finished: 0,
            delivered_bytes: 0,
            senders: 0..u32::MAX,
            remote_deliveries: Vec::new(),
            counts: FlowCounts::default(),
            pokes: None,
            gone: BTreeSet::new(),
            lives: None,
        }
    }

    /// The conductor of one host in a network of machines: it starts that host's flows, and keeps
    /// the deliveries of other hosts' flows there. Flows end when they are acknowledged.
    #[must_use]
    pub fn of_host(matrix: &'a Matrix, host: HostId) -> Self {
        let mut own = Self::new(matrix);
        own.senders = host.0..host.0.saturating_add(1);
        let is_own = |flow: FlowIndex| matrix.flows[flow.index()].src == host;
        own.triggers.keep_starts(is_own);
        own.pokes = Some(Vec::new());
        own
    }

    /// The whole of a run that is over, from the parts that hosts kept of it.
    #[must_use]
    pub fn of_records(matrix: &'a Matrix, records: Vec<FlowRecord>) -> Self {
        let mut whole = Self::new(matrix);
        let is_whole = |record: &&FlowRecord| record.fct().is_some() && !record.failed;
        whole.finished = records.iter().filter(is_whole).count();
        let delivered = records.iter().map(|record| record.delivered);
        whole.delivered_bytes = delivered.fold(0, u64::saturating_add);
        whole.records = records;
        whole
    }

    /// How far flows have come here.
    #[must_use]
    pub fn counts(&self) -> FlowCounts {
        self.counts
    }

    /// Whether no flow of this part is under way or due; triggers that others poke may start more.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.counts.ordered == self.counts.acked + self.counts.failed && self.next_start().is_none()
    }

    /// Host `host` is gone and does not come back: flows from and to it have failed, also those
    /// that are not due yet. O(flows).
    pub fn on_gone(&mut self, host: HostId) {
        if !self.gone.insert(host) {
            return;
        }
        let flows = &self.matrix.flows;
        self.triggers.keep_starts_from(self.timed_done, |flow| flows[flow.index()].dst != host);
        for (spec, record) in self.matrix.flows.iter().zip(&mut self.records) {
            let never = Instant::FAR_FUTURE;
            if self.senders.contains(&spec.src.0) && spec.dst == host {
                let started = record.start < never;
                if started && !record.failed && record.acked_at == never {
                    self.active -= 1;
                }
                self.counts.ordered -= u64::from(started);
                self.counts.failed -= u64::from(record.failed);
                self.counts.acked -= u64::from(record.acked_at < never);
                record.failed = true;
            } else if spec.src == host && record.delivered_at < never {
                self.counts.delivered -= 1;
            }
        }
    }

    /// Whether one end of `flow` is gone.
    fn is_gone(&self, flow: FlowIndex) -> bool {
        if self.gone.is_empty() {
            return false;
        }
        let spec = &self.matrix.flows[flow.index()];
        self.gone.contains(&spec.src) || self.gone.contains(&spec.dst)
    }

    /// Pokes that other hosts must get, since the last call.
    pub fn take_pokes(&mut self) -> Vec<Poke> {
        self.pokes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Handles an event of another host. Flows that it starts here are due at once, or after their
    /// trigger's delay.
    pub fn on_poke(&mut self, poke: Poke, now: Instant) {
        let flow = FlowIndex(poke.flow);
        let poked = if poke.received {
            self.triggers.on_recv_done(flow)
        } else {
            self.triggers.on_send_done(flow)
        };
        let (senders, flows) = (&self.senders, &self.matrix.flows);
        let is_own = |flow: &&FlowIndex| senders.contains(&flows[flow.index()].src.0);
        for &flow in poked.iter().filter(is_own) {
            match self.matrix.delay_of(flow) {
                Duration::ZERO => self.triggered.push_back((now, flow)),
                delay => drop(self.delayed.insert((now + delay, flow))),
            }
        }
    }

    /// Pokes the trigger of `flow`, and notes it for the other hosts.
    fn poke(&mut self, flow: FlowIndex, received: bool, now: Instant) {
        let spec = &self.matrix.flows[flow.index()];
        let trigger = if received { spec.recv_done } else { spec.send_done };
        if trigger.is_none() {
            return;
        }
        let poke = Poke { flow: flow.0, received };
        if let Some(pokes) = &mut self.pokes {
            pokes.push(poke);
        }
        self.on_poke(poke, now);
    }

    /// How many transport flows there are.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.lines_left.len()
    }

    /// The connection of a line of the matrix.
    #[must_use]
    pub fn connection(&self, flow: usize) -> usize {
        self.connections[flow] as usize
    }

    /// When the next flow starts by time; `None` when all have. A flow started by a trigger is due
    /// at once.
    #[must_use]
    pub fn next_start(&self) -> Option<Instant> {
        if self.has_triggered() {
            return Some(Instant::ZERO);
        }
        self.next_timed().map(|(start, _)| start)
    }

    /// The next flow whose start is known, of those by time and those that a trigger delays.
    fn next_timed(&self) -> Option<(Instant, FlowIndex)> {
        let timed = self.triggers.start().get(self.timed_done);
        let timed = timed.map(|&flow| (self.start_of(flow), flow));
        timed.into_iter().chain(self.delayed.first().copied()).min()
    }

    fn start_of(&self, flow: FlowIndex) -> Instant {
        match self.matrix.flows[flow.index()].start {
            Start::At(after) => Instant::ZERO + after,
            Start::On(_) => Instant::FAR_FUTURE,
        }
    }

    /// The next flow to post at `now`; ask again until `None`. A flow does not start before the
    /// event that triggers it: hosts on threads of their own report events later than `now`.
    pub fn next_order(&mut self, now: Instant) -> Option<PostOrder> {
        // Bounded by the flows: each turn takes one.
        loop {
            let timed = |own: &mut Self| own.take_timed(|start| start <= now);
            let (at, flow) = self.triggered.pop_front().or_else(|| timed(self))?;
            if !self.is_gone(flow) {
                return Some(self.order(flow, now.max(at)));
            }
        }
    }

    /// Whether triggers have started flows that nothing has taken.
    pub(crate) fn has_triggered(&self) -> bool {
        !self.triggered.is_empty()
    }

    /// Takes a flow that a trigger has started: it is to be ordered at once.
    pub fn take_triggered(&mut self) -> Option<FlowIndex> {
        self.triggered.pop_front().map(|(_, flow)| flow)
    }

    /// Takes the next flow that starts by time, if its start is `due`: it is to be ordered then.
    pub fn take_timed(&mut self, due: impl Fn(Instant) -> bool) -> Option<(Instant, FlowIndex)> {
        let next = self.next_timed()?;
        due(next.0).then(|| {
            if !self.delayed.remove(&next) {
                self.timed_done += 1;
            }
            next
        })
    }

    /// The message to post for a flow that was taken, at `now`. To be called once a flow, for the
    /// flows of one sender in the order in which they are to leave.
    pub fn order(&mut self, flow: FlowIndex, now: Instant) -> PostOrder {
        let spec = &self.matrix.flows[flow.index()];
        let connection = self.connections[flow.index()];
        let left = &mut self.lines_left[connection as usize];
        *left -= 1;
        let last = *left == 0;
        self.records[flow.index()].start = now;
        self.active += 1;
        self.counts.ordered += 1;
        let (src, dst, size) = (spec.src, spec.dst, spec.size.0);
        let (message_max, numbered) = (self.matrix.message_max(), self.lives.is_some());
        PostOrder { flow, connection, src, dst, size, message_max, last, numbered }
    }

    /// Whether an event at one host can start a flow of another. Then hosts must meet at every
    /// instant.
    #[must_use]
    pub fn couples_hosts(&self) -> bool {
        Triggers::couple_hosts(self.matrix)
    }

    /// The shortest delay of a trigger that has one.
    #[must_use]
    pub fn delay_min(&self) -> Option<Duration> {
        let delays = self.matrix.triggers.iter().map(|trigger| trigger.delay);
        delays.filter(|&delay| delay > Duration::ZERO).min()
    }

    /// A message of `flow` is wholly acknowledged. Flows that this starts are due at once, or after
    /// their trigger's delay.
    pub fn on_acked(&mut self, flow: FlowIndex, len: u64, now: Instant) {
        if self.is_gone(flow) {
            return;
        }
        let record = &mut self.records[flow.index()];
        record.acked += len;
        if record.acked < self.matrix.flows[flow.index()].size.0 {
            return;
        }
        record.acked_at = now;
        self.counts.acked += 1;
        self.poke(flow, false, now);
        self.end_if_complete(flow);
    }

    /// A message of `flow` is in place at its receiver. Flows that this starts are due at once, or
    /// after their trigger's delay.
    pub fn on_delivered(&mut self, flow: FlowIndex, len: u64, now: Instant) {
        if flow.index() >= self.records.len() || self.is_gone(flow) {
            return;
        }
        self.delivered_bytes += len;
        if self.note_delivered(flow, len, now) {
            self.counts.delivered += 1;
            self.poke(flow, true, now);
        }
        if !self.keeps(flow) && self.pokes.is_none() {
            self.remote_deliveries.push(RemoteDelivery { flow, len, at: now });
        }
    }

    /// Notes a delivery in the record; true when the flow is whole.
    fn note_delivered(&mut self, flow: FlowIndex, len: u64, now: Instant) -> bool {
        let record = &mut self.records[flow.index()];
        record.delivered += len;
        if record.delivered < self.matrix.flows[flow.index()].size.0 {
            return false;
        }
        record.delivered_at = now;
        self.end_if_complete(flow);
        true
    }

    /// Whether this part keeps the record of `flow`.
    fn keeps(&self, flow: FlowIndex) -> bool {
        self.senders.contains(&self.matrix.flows[flow.index()].src.0)
    }

    /// A conductor for the flows of each range of hosts, of a matrix that does not couple hosts and
    /// has not started. Deliveries for flows of another part are exchanged by
    /// [`Conductor::on_remote_deliveries`].
    pub(crate) fn split(self, hosts: &[Range<u32>]) -> Vec<Self> {
        let mut parts = Vec::with_capacity(hosts.len());
        parts.resize_with(hosts.len().saturating_sub(1), || self.clone());
        parts.push(self);
        if hosts.len() > 1 {
            for (part, senders) in parts.iter_mut().zip(hosts) {
                part.senders = senders.clone();
                let flows = &part.matrix.flows;
                part.triggers.keep_starts(|flow| senders.contains(&flows[flow.index()].src.0));
            }
        }
        parts
    }

    /// Takes the deliveries of other parts' flows.
    pub(crate) fn take_delivered_for_others(&mut self) -> Vec<RemoteDelivery> {
        std::mem::take(&mut self.remote_deliveries)
    }

    /// Notes what other parts have delivered of the flows of this one.
    pub(crate) fn on_remote_deliveries(&mut self, remote_deliveries: &[RemoteDelivery]) {
        for &RemoteDelivery { flow, len, at } in remote_deliveries {
            if self.keeps(flow) {
                self.note_delivered(flow, len, at);
            }
        }
    }

    /// The whole with the records and counts of all parts, which have exchanged everything.
    pub(crate) fn join(mut parts: Vec<Self>) -> Self {
        let mut whole = parts.remove(0);
        let first = std::mem::replace(&mut whole.senders, 0..u32::MAX);
        debug_assert!(parts.iter().all(|part| part.senders.start >= first.end));
        for part in parts {
            let lines = whole.records.iter_mut().zip(&part.records).zip(&whole.matrix.flows);
            for ((record, own), _) in lines.filter(|(_, flow)| part.senders.contains(&flow.src.0)) {
                *record = *own;
            }
            whole.active += part.active;
            whole.finished += part.finished;
            whole.delivered_bytes += part.delivered_bytes;
            whole.add_lives(part.lives);
        }
        whole
    }

    /// How many bytes of the flows of these lines are delivered, and how many of these are
    /// acknowledged, of whole messages; 0 of the flows of other parts.
    pub(crate) fn carried_of(&self, lines: &[usize]) -> impl Iterator<Item = [u64; 2]> {
        lines.iter().map(|line| {
            let (record, flow) = (&self.records[*line], &self.matrix.flows[*line]);
            let is_own = self.senders.contains(&flow.src.0);
            if is_own { [record.delivered, record.acked] } else { [0; 2] }
        })
    }

    fn end_if_complete(&mut self, flow: FlowIndex) {
        let record = &self.records[flow.index()];
        let both = record.acked_at.max(record.delivered_at) < Instant::FAR_FUTURE;
        if both && !record.failed {
            self.active -= 1;
            self.finished += 1;
        }
    }

    /// A message of `flow` was given up: the flow will not finish.
    pub fn on_failed(&mut self, flow: FlowIndex) {
        let record = &mut self.records[flow.index()];
        if !record.failed {
            record.failed = true;
            self.active -= 1;
            self.counts.failed += 1;
        }
    }

    /// True when no flow is active and none will start any more; every flow that was taken must
    /// have been ordered.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.active == 0 && self.next_start().is_none()
    }

    /// Flows that finished.
    #[must_use]
    pub fn finished(&self) -> usize {
        self.finished
    }

    /// Message bytes delivered.
    #[must_use]
    pub fn delivered(&self) -> Bytes {
        Bytes(self.delivered_bytes)
    }

    /// The records, by line of the matrix.
    #[must_use]
    pub fn records(&self) -> &[FlowRecord] {
        &self.records
    }

    /// Whether a line of the matrix was posted and is neither wholly acknowledged nor given up.
    #[must_use]
    pub fn is_under_way(&self, line: usize) -> bool {
        let FlowRecord { start, acked_at, failed, .. } = self.records[line];
        start < Instant::FAR_FUTURE && acked_at == Instant::FAR_FUTURE && !failed
    }

    /// The record of a line of the matrix that has finished, so that it stays as it is; `None` for
    /// those of other parts.
    pub fn settled(&self, line: usize) -> Option<&FlowRecord> {
        let record = self.records.get(line)?;
        let is_whole = record.acked_at.max(record.delivered_at) < Instant::FAR_FUTURE;
        let is_own = self.senders.contains(&self.matrix.flows[line].src.0);
        (is_whole && is_own && !record.failed).then_some(record)
    }

    /// The records, when all is over; the conductor keeps none.
    pub fn take_records(&mut self) -> Vec<FlowRecord> {
        std::mem::take(&mut self.records)
    }

    /// The matrix.
    #[must_use]
    pub fn matrix(&self) -> &'a Matrix {
        self.matrix
    }
}

/// The connection of each line, dense from 0 in file order, and how many lines each carries.
fn connect(matrix: &Matrix) -> (Vec<u32>, Vec<u32>) {
    let mut shared: BTreeMap<(HostId, HostId, u32), u32> = BTreeMap::new();
    let has_messages = matrix.flows.iter().any(|flow| flow.message != LineMeaning::Flow);
    let mut lines: Vec<u32> = Vec::new();
    let connections = matrix.flows.iter().map(|flow| {
        let next = u32::try_from(lines.len()).unwrap_or(u32::MAX);
        let connection = match flow.id {
            // An id may be a connection that later lines are messages on.
            Some(id) if has_messages => {
                *shared.entry((flow.src, flow.dst, id.get())).or_insert(next)
            }
            _ => next,
        };
        if connection == next {
            lines.push(0);
        }
        lines[connection as usize] += 1;
        connection
    });
    let connections = connections.collect();
    (connections, lines)
}

#[cfg(test)]
mod tests;
