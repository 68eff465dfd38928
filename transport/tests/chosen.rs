//! A scheduler of another crate that chooses path, instant and copy of every segment, speaks to
//! hosts and governs acknowledgements: departures are exact, every message arrives once, and all
//! packets are accounted for.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::num::{NonZeroU16, NonZeroU32};

use proptest::prelude::*;
use transport::cc::CcKind;
use transport::sched::{
    AckMode, Arrival, Backlog, Choice, Granted, Label, Protocol, Receiving, RoundRobin, Sending,
    Turn,
};
use transport::wire::{Body, Header, Note};
use transport::{
    BURST, Burst, Bytes, Config, DropReason, Duration, Endpoint, EntropyValue, Event, FlowId,
    HostId, Instant, MsgSpec, Path, PayloadRef, Placement, Rng, RxSegment, Settings, Stats,
    TxSegment,
};

#[path = "chosen/backlogs.rs"]
mod backlogs;
#[path = "chosen/trains.rs"]
mod trains;

/// One slot of the schedule, and slots an epoch.
const SLOT: Duration = Duration::from_ns(400);
const EPOCH: u64 = 16;
/// The first of the entropy values that no balancer chooses.
const FIRST_EV: u16 = 60_000;

/// Sends in slots: one segment each, an epoch in one call.
#[derive(Clone, Debug)]
struct Slotted {
    flows: RoundRobin,
    /// The first slot that is not used.
    next_slot: u64,
    /// Every n-th turn is a copy; 0 for none.
    copies: u64,
    /// Turns name the segment behind up to so many others.
    skips: u16,
    /// Turns are for trains of up to so many segments more than one, now of more, now of fewer.
    trains: u16,
    carries_trains: bool,
    turns: u64,
    /// Turns that leave everything to the flow.
    open: bool,
    /// Flows that have a turn first, whatever they have to send, with an instant or without.
    first: VecDeque<(FlowId, Option<Instant>)>,
    named: Option<Choice>,
    /// Each turn whose segment was sent.
    sent: Vec<Choice>,
    wake_at: Option<Instant>,
    ack_mode: AckMode,
    grants: VecDeque<Granted>,
    /// Grants nothing.
    withholds: bool,
    notes: Vec<(HostId, Note)>,
    outbox: VecDeque<(TxSegment, Instant)>,
    labels: Vec<Label>,
    backlog: Backlog,
}

fn slot(number: u64) -> Instant {
    Instant::ZERO + SLOT * number
}

impl Slotted {
    fn new(copies: u64, ack_mode: AckMode) -> Self {
        Self {
            flows: RoundRobin::new(64),
            next_slot: 0,
            copies,
            skips: 0,
            trains: 0,
            carries_trains: true,
            turns: 0,
            open: false,
            first: VecDeque::new(),
            named: None,
            sent: Vec::new(),
            wake_at: None,
            ack_mode,
            grants: VecDeque::new(),
            withholds: false,
            notes: Vec::new(),
            outbox: VecDeque::new(),
            labels: Vec::new(),
            backlog: Backlog::default(),
        }
    }

    /// The end of the epoch of `now`.
    fn epoch_end(now: Instant) -> u64 {
        (now.as_ps() / (SLOT.as_ps() * EPOCH) + 1) * EPOCH
    }
}

impl Sending for Slotted {
    fn on_open(&mut self, flow: FlowId, peer: HostId, path: &Path, label: Label) {
        self.labels.push(label);
        self.flows.on_open(flow, peer, path, label);
    }

    fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, now: Instant) {
        self.backlog = *backlog;
        self.flows.on_backlog(flow, backlog, now);
        if backlog.sendable > Bytes::ZERO && self.wake_at.is_none() {
            self.wake_at = Some(slot(Self::epoch_end(now)));
        }
    }

    fn next_turn(&mut self, now: Instant, until: Instant) -> Option<Turn> {
        if let Some((flow, at)) = self.first.pop_front() {
            return Some(Turn::chosen(flow, Choice { at, ..Choice::default() }));
        }
        if self.open {
            return self.flows.next_turn(now, until);
        }
        let first = now.as_ps().div_ceil(SLOT.as_ps());
        let number = self.next_slot.max(first);
        let at = slot(number);
        if number >= Self::epoch_end(now) || at > until {
            return None;
        }
        let Turn { flow, .. } = self.flows.next_turn(now, until)?;
        self.turns += 1;
        let copy = self.copies > 0 && self.turns.is_multiple_of(self.copies);
        let ev = EntropyValue(FIRST_EV + u16::try_from(self.turns % 64).unwrap());
        let skip = u16::try_from(self.turns * 7 % (u64::from(self.skips) + 1)).unwrap();
        let nth = (self.skips > 0).then_some(skip);
        let more = u16::try_from(self.turns * 7 % (u64::from(self.trains) + 1)).unwrap();
        let train = NonZeroU16::MIN.saturating_add(more);
        let choice = Choice { ev: Some(ev), at: Some(at), copy, nth, train, ..Choice::default() };
        self.next_slot = number + 1;
        self.named = Some(choice);
        Some(Turn::chosen(flow, choice))
    }

    fn on_sent(
        &mut self,
        _flow: FlowId,
        _segment: &mut TxSegment,
        _backlog: impl FnOnce() -> Backlog,
        _now: Instant,
    ) {
        self.sent.extend(self.named.take());
    }

    fn holds(&self, _flow: FlowId) -> bool {
        false
    }
}

impl Receiving for Slotted {
    fn on_arrival(&mut self, flow: FlowId, _arrival: &Arrival<'_>, now: Instant) {
        let granted = self.ack_mode == AckMode::Granted && !self.withholds;
        if granted && self.grants.iter().all(|grant| grant.flow != flow) {
            let at = slot(Self::epoch_end(now));
            let ev = Some(EntropyValue(FIRST_EV - 1));
            self.grants.push_back(Granted { flow, ev, at: Some(at) });
            self.wake_at.get_or_insert(at);
        }
    }

    fn on_forgotten(&mut self, _flow: FlowId) {}

    fn ack_mode(&self) -> AckMode {
        self.ack_mode
    }

    /// Sends at the end of an epoch, so that an acknowledgement answers all of the epoch.
    fn next_granted(&mut self, now: Instant, _until: Instant) -> Option<Granted> {
        let ready = self.grants.front()?.at? <= now;
        if ready { self.grants.pop_front() } else { None }
    }
}

impl Protocol for Slotted {
    fn on_control(&mut self, _: FlowId, _: HostId, _: &Header, _: Instant) -> bool {
        false
    }

    /// A note of protocol 1 is answered by one of protocol 2, two slots later.
    fn on_host_control(
        &mut self,
        from: HostId,
        hdr: &Header,
        note: &Note,
        now: Instant,
    ) -> Result<(), DropReason> {
        self.notes.push((from, *note));
        if note.protocol == 1 {
            let answer = Note::new(2, note.said()).unwrap();
            self.outbox.push_back((note_to(from, hdr.ev, answer), now + SLOT * 2));
        }
        if note.protocol < 3 { Ok(()) } else { Err(DropReason::BadSegment) }
    }

    fn poll_control(&mut self, _now: Instant, until: Instant, out: &mut Burst<TxSegment>) {
        while out.room() > 0 && self.outbox.front().is_some_and(|(_, at)| *at <= until) {
            let Some((segment, at)) = self.outbox.pop_front() else { return };
            out.push_at(segment, at);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let note = self.outbox.front().map(|(_, at)| *at);
        self.wake_at.into_iter().chain(note).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.wake_at.is_some_and(|at| at <= now) {
            self.wake_at = Some(slot(Self::epoch_end(now)));
        }
    }

    fn next_given_up(&mut self) -> Option<FlowId> {
        None
    }
}

fn note_to(peer: HostId, ev: EntropyValue, note: Note) -> TxSegment {
    let hdr = Header::new(ev, FlowId::UNKNOWN, Body::Note(note));
    TxSegment { hdr, payload: PayloadRef::NONE, peer }
}

/// Two hosts and a network that loses, repeats and delays.
struct Pair {
    hosts: [Endpoint<Slotted>; 2],
    now: Instant,
    rng: Rng,
    /// Packets lost of 100, repeated of 100, and delayed by up to so many slots more.
    loss: u64,
    repeat: u64,
    jitter: u64,
    /// The packets that are lost in any case, by their number from 1.
    lose: &'static [u64],
    /// Packets of data marked, of 100.
    marks: u64,
    /// Packets that a poll may give.
    burst: usize,
    /// Packets under way: when they arrive, in which order they left, the host, the packet.
    wire: BinaryHeap<Reverse<(Instant, u64)>>,
    packets: BTreeMap<u64, (usize, RxSegment)>,
    number: u64,
    /// Counters of packets by their fate.
    taken: u64,
    lost: u64,
    repeated: u64,
    arrived: u64,
    /// Bursts of host 0 with a segment of data, and its segments: (departure, header).
    bursts: u64,
    data: Vec<(Instant, Header)>,
    payloads: Vec<PayloadRef>,
    /// When packets of host 1 left.
    answered: Vec<Instant>,
    events: [Vec<Event>; 2],
}

fn config(change: impl FnOnce(&mut Settings)) -> Config {
    let mut settings = Settings {
        payload_max: 1000,
        tx_flows_max: 64,
        rx_flows_max: 64,
        msgs_max: 64,
        ..Settings::default()
    };
    change(&mut settings);
    Config::new(settings).unwrap()
}

impl Pair {
    fn new(config: &Config, scheds: [Slotted; 2]) -> Self {
        let rng = Rng::new(5);
        let mut id = 0;
        let carries_trains = scheds[0].carries_trains;
        let hosts = scheds.map(|sched| {
            let host = HostId(id);
            id += 1;
            let rng = rng.fork("host", u64::from(host.0));
            let mut endpoint = Endpoint::with_scheduler(config, host, rng, sched);
            endpoint.keep_until_departure(SLOT * EPOCH);
            if carries_trains {
                endpoint.carry_trains();
            }
            endpoint
        });
        Self {
            hosts,
            now: Instant::ZERO,
            rng: rng.fork("weather", 0),
            loss: 0,
            repeat: 0,
            jitter: 0,
            lose: &[],
            marks: 0,
            burst: BURST,
            wire: BinaryHeap::new(),
            packets: BTreeMap::new(),
            number: 0,
            taken: 0,
            lost: 0,
            repeated: 0,
            arrived: 0,
            bursts: 0,
            data: Vec::new(),
            payloads: Vec::new(),
            answered: Vec::new(),
            events: [Vec::new(), Vec::new()],
        }
    }

    fn post(&mut self, flow: FlowId, len: u32) {
        let spec = MsgSpec { flow, len: NonZeroU32::new(len).unwrap(), tag: 0 };
        self.hosts[0].post_send(self.now, spec).unwrap();
    }

    fn carry(&mut self, from: usize, segment: &TxSegment, leaves: Instant) {
        self.taken += 1;
        if self.rng.below(100) < self.loss || self.lose.contains(&self.taken) {
            self.lost += 1;
            return;
        }
        let again = self.rng.below(100) < self.repeat;
        self.repeated += u64::from(again);
        for _ in 0..=u64::from(again) {
            let at = leaves + Duration::from_us(5) + SLOT * self.rng.below(self.jitter + 1);
            let payload_len = segment.payload.len;
            let from_host = HostId(u32::try_from(from).unwrap());
            let ce = payload_len > 0 && self.rng.below(100) < self.marks;
            let (hdr, trimmed) = (segment.hdr, false);
            let arrival = RxSegment { hdr, at, from: from_host, payload_len, ce, trimmed };
            self.wire.push(Reverse((at, self.number)));
            self.packets.insert(self.number, (1 - from, arrival));
            self.number += 1;
        }
    }

    /// Runs until nothing is due before `end`.
    fn run(&mut self, end: Instant) {
        loop {
            let arrival = self.wire.peek().map(|Reverse((at, _))| *at);
            let timers = self.hosts.iter().map(Endpoint::poll_timeout);
            let next = timers.chain([arrival]).flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { return };
            self.now = self.now.max(next);
            while let Some(Reverse((_, number))) =
                self.wire.peek().copied().filter(|Reverse((at, _))| *at <= self.now)
            {
                self.wire.pop();
                let (to, segment) = self.packets.remove(&number).unwrap();
                self.arrived += 1;
                self.hosts[to].handle_burst(self.now, &[segment], &mut [Placement::Release]);
            }
            for host in 0..2 {
                self.hosts[host].handle_timeout(self.now);
                self.transmit(host);
            }
        }
    }

    fn transmit(&mut self, host: usize) {
        let mut burst = Burst::with_limit(self.burst);
        loop {
            burst.reset(self.burst);
            self.hosts[host].poll_transmit(self.now, &mut burst);
            let mut any = false;
            for (index, segment) in burst.iter().enumerate() {
                let leaves = burst.departure(index, self.now);
                assert!(leaves >= self.now);
                if host == 1 {
                    self.answered.push(leaves);
                }
                if host == 0 && matches!(segment.hdr.body, Body::Data(_)) {
                    self.data.push((leaves, segment.hdr));
                    self.payloads.push(segment.payload);
                    any = true;
                }
                let segment = *segment;
                self.carry(host, &segment, leaves);
            }
            self.bursts += u64::from(any);
            while let Some(event) = self.hosts[host].poll_event() {
                self.events[host].push(event);
            }
            if burst.room() > 0 {
                return;
            }
        }
    }

    /// Everything that was taken from endpoints was lost or given to one, and counted there.
    fn audit(&self) {
        let mut sum = Stats::default();
        self.hosts.iter().for_each(|host| sum.add(host.stats()));
        let under_way = self.packets.len() as u64;
        assert_eq!(self.taken + self.repeated, self.lost + self.arrived + under_way);
        let data = sum.data_new + sum.copies + sum.retransmitted;
        assert_eq!(data + sum.acks_sent + sum.nacks_sent + sum.control_sent, self.taken);
        let counted = sum.data_placed + sum.duplicates + sum.acks_received + sum.control_received;
        assert_eq!(counted + sum.drops.total(), self.arrived);
    }
}

fn path(config: &Config) -> Path {
    config.default_path()
}

fn long() -> Instant {
    Instant::ZERO + Duration::from_ms(40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn departures_are_exact_and_every_message_arrives_once(
        lens in prop::collection::vec(1u32..60_000, 1..6),
        copies in prop_oneof![Just(0u64), 2u64..5],
        skips in prop_oneof![Just(0u16), 1u16..9],
        trains in prop_oneof![Just(0u16), 2u16..6],
        (loss, repeat, jitter, marks) in (0u64..15, 0u64..15, 0u64..12, 0u64..15),
        burst in prop_oneof![1usize..4, Just(BURST)],
        ack_mode in prop::sample::select(vec![
            AckMode::Free,
            AckMode::Every { segments: 16, delay: Duration::from_us(10) },
            AckMode::Granted,
        ]),
    ) {
        let config = config(|_| ());
        let scheds = [Slotted::new(copies, AckMode::Free), Slotted::new(0, ack_mode)];
        let scheds = scheds.map(|sched| Slotted { skips, trains, ..sched });
        let mut pair = Pair::new(&config, scheds);
        (pair.loss, pair.repeat, pair.jitter, pair.marks) = (loss, repeat, jitter, marks);
        pair.burst = burst;
        let flows = [(); 2].map(|()| pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap());
        for (len, flow) in lens.iter().zip(flows.iter().cycle()) {
            pair.post(*flow, *len);
        }
        pair.run(long());
        let sent = pair.events[0].iter().filter(|event| matches!(event, Event::Sent { .. }));
        prop_assert_eq!(sent.count(), lens.len());
        let mut delivered: Vec<u32> = pair.events[1]
            .iter()
            .filter_map(|event| match event {
                Event::Delivered { len, .. } => Some(*len),
                _ => None,
            })
            .collect();
        let mut lens = lens;
        delivered.sort_unstable();
        lens.sort_unstable();
        prop_assert_eq!(delivered, lens);
        pair.audit();
        let Backlog { waiting, segments, .. } = pair.hosts[0].scheduler().backlog;
        prop_assert_eq!((waiting, segments), (Bytes::ZERO, 0), "all has been sent");
        // Each segment left in the slot and on the path of its turn, and its header agrees.
        let turns = pair.hosts[0].scheduler().sent.clone();
        prop_assert_eq!(turns.len(), pair.data.len());
        for (turn, (leaves, hdr)) in turns.iter().zip(&pair.data) {
            prop_assert_eq!((turn.at, turn.ev), (Some(*leaves), Some(hdr.ev)));
            let Body::Data(data) = hdr.body else { unreachable!() };
            prop_assert_eq!(data.sent_at, leaves.to_wire());
        }
        let mut slots: Vec<_> = pair.data.iter().map(|(leaves, _)| *leaves).collect();
        slots.dedup();
        prop_assert_eq!(slots.len(), pair.data.len(), "a slot has one segment");
    }
}

#[test]
fn an_epoch_of_slots_takes_one_call() {
    let config = config(|s| s.cc = CcKind::Fixed);
    let mut pair = Pair::new(&config, [0; 2].map(|_| Slotted::new(0, AckMode::Free)));
    let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
    pair.post(flow, 64_000);
    pair.run(long());
    assert_eq!(pair.data.len(), 64);
    assert_eq!(pair.bursts, 64 / EPOCH);
}

#[test]
fn a_turn_takes_the_segment_that_it_names_and_psns_stay_in_the_order_of_the_message() {
    let run = |copies, skips| {
        let config = config(|s| s.cc = CcKind::Fixed);
        let sched = Slotted { skips, ..Slotted::new(copies, AckMode::Free) };
        let mut pair = Pair::new(&config, [sched, Slotted::new(0, AckMode::Free)]);
        let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
        pair.post(flow, 6000);
        pair.run(long());
        pair.audit();
        assert_eq!(pair.events[0].len(), 1, "the message is whole");
        let stats = *pair.hosts[0].stats();
        assert_eq!((stats.copies, stats.retransmitted), (copies, 0));
        let data = pair.data.iter().map(|(_, hdr)| {
            let Body::Data(data) = hdr.body else { unreachable!() };
            assert_eq!(data.offset, data.psn.0 * 1000, "PSNs are in the order of the message");
            (data.psn.0, data.retransmission)
        });
        data.collect::<Vec<_>>()
    };
    // Turns 1 to 6 pass over 1, 0, 1, 0, 1, 0 segments that wait.
    let once = |psns: [u32; 6]| psns.map(|psn| (psn, false)).to_vec();
    assert_eq!(run(0, 1), once([1, 0, 3, 2, 5, 4]));
    // Each second turn is a copy, as long as there is one; each other turn passes over segment 0
    // until nothing else waits. Copies have their turns behind all that has not left.
    let mut sent = once([1, 2, 3, 4, 5, 0]);
    sent.splice(5..5, [(2, true), (4, true)]);
    assert_eq!(run(2, 1), sent);
}

#[test]
fn copies_that_were_lost_do_not_stop_a_flow_whose_window_of_psns_they_fill() {
    let config = config(|s| (s.cc, s.psn_window) = (CcKind::Fixed, 128));
    // All turns are copies, and all copies are lost.
    let sched = Slotted { skips: 1, ..Slotted::new(1, AckMode::Free) };
    let mut pair = Pair::new(&config, [sched, Slotted::new(0, AckMode::Free)]);
    let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
    pair.post(flow, 100_000);
    pair.loss = 100;
    pair.run(Instant::ZERO + SLOT * EPOCH * 4);
    pair.loss = 0;
    assert!(pair.hosts[0].stats().copies >= 32, "{:?}", pair.hosts[0].stats());
    pair.hosts[0].scheduler_mut().copies = 0;
    pair.run(long());
    assert_eq!(pair.events[0].len(), 1, "the message is whole");
}

#[test]
fn a_copy_leaves_the_segment_to_be_sent_unless_it_is_acknowledged() {
    // The second turn is a copy.
    let run = |loss: u64| {
        let config = config(|_| ());
        let mut pair = Pair::new(&config, [2, 0].map(|n| Slotted::new(n, AckMode::Free)));
        let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
        pair.post(flow, 2000);
        pair.loss = loss;
        pair.run(Instant::ZERO + SLOT * EPOCH + Duration::from_us(1));
        pair.loss = 0;
        pair.run(long());
        pair.audit();
        assert_eq!(pair.events[0].len(), 1, "the message is whole");
        *pair.hosts[0].stats()
    };
    // The segment is sent in the slot behind its copy, before an acknowledgement can arrive.
    let stats = run(0);
    assert_eq!((stats.copies, stats.data_new, stats.retransmitted), (1, 2, 0));
    assert_eq!((stats.data_new_bytes, stats.spurious, stats.lost_by_timeout), (2000, 0, 0));
    let stats = run(100);
    assert_eq!((stats.copies, stats.data_new), (1, 2));
    assert!(stats.retransmitted >= 2);
}

#[test]
fn the_balancer_gets_no_feedback_of_paths_that_the_scheduler_chose() {
    let config = config(|s| s.lb = transport::lb::LbKind::Reps);
    let mut pair = Pair::new(&config, [0; 2].map(|_| Slotted::new(0, AckMode::Free)));
    let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
    pair.post(flow, 64_000);
    pair.run(long());
    assert!(pair.data.iter().all(|(_, hdr)| hdr.ev.0 >= FIRST_EV));
    let chosen = pair.data.len();
    pair.hosts[0].scheduler_mut().open = true;
    pair.post(flow, 64_000);
    pair.transmit(0);
    pair.run(pair.now + Duration::from_ms(1));
    assert_eq!(pair.data.len(), chosen + 64);
    assert!(pair.data[chosen..].iter().all(|(_, hdr)| hdr.ev.0 < FIRST_EV));
}

#[test]
fn a_note_for_a_host_opens_no_flow_and_is_answered_at_its_departure() {
    // Drivers keep packets for an epoch, or keep none: then the scheduler keeps them.
    for kept in [SLOT * EPOCH, Duration::ZERO] {
        note_for_a_host(kept);
    }
}

fn note_for_a_host(kept: Duration) {
    let config = config(|s| s.rx_flows_max = 1);
    let mut pair = Pair::new(&config, [0; 2].map(|_| Slotted::new(0, AckMode::Free)));
    pair.hosts.iter_mut().for_each(|host| host.keep_until_departure(kept));
    for protocol in [1, 3] {
        let note = note_to(HostId(1), EntropyValue(9), Note::new(protocol, b"slot").unwrap());
        pair.hosts[0].scheduler_mut().outbox.push_back((note, slot(3)));
    }
    pair.transmit(0);
    pair.run(long());
    let question = Note::new(1, b"slot").unwrap();
    assert_eq!(pair.hosts[1].scheduler().notes[0], (HostId(0), question));
    let answer = Note::new(2, b"slot").unwrap();
    assert_eq!(pair.hosts[0].scheduler().notes, [(HostId(1), answer)]);
    assert_eq!(pair.now, slot(3) + Duration::from_us(5) * 2 + SLOT * 2);
    assert_eq!(pair.hosts[1].stats().drops.total(), 1, "no scheduler there has protocol 3");
    pair.audit();
    // The only place for an incoming flow is free.
    let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
    pair.post(flow, 10);
    pair.run(long() + Duration::from_ms(1));
    assert_eq!(pair.hosts[1].stats().messages_delivered, 1);
}

#[test]
fn a_note_for_a_flow_goes_to_its_controller_and_to_no_other_peers() {
    let config = config(|_| ());
    let mut pair = Pair::new(&config, [0; 2].map(|_| Slotted::new(0, AckMode::Free)));
    let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
    pair.post(flow, 10);
    pair.transmit(0);
    let key = pair.data[0].1.key;
    let body = Body::Note(Note::new(1, &[]).unwrap());
    let hdr = Header::new(EntropyValue(1), flow, body).keyed(key);
    let at = Instant::ZERO;
    for (from, reason) in
        [(HostId(1), DropReason::BadSegment), (HostId(2), DropReason::UnknownFlow)]
    {
        let rx = RxSegment { hdr, at, from, payload_len: 0, ce: false, trimmed: false };
        pair.hosts[0].handle_burst(at, &[rx], &mut [Placement::Release]);
        assert_eq!(
            pair.hosts[0].stats().drops.of(reason),
            1,
            "no controller here has a use for it"
        );
    }
    assert!(pair.hosts[0].scheduler().notes.is_empty());
}

/// Acknowledgement packets for 1000 segments that are reordered by up to 100 slots.
fn acks(ack_mode: AckMode, change: impl FnOnce(&mut Settings)) -> (u64, Stats) {
    let config = config(change);
    let mut pair = Pair::new(&config, [Slotted::new(0, AckMode::Free), Slotted::new(0, ack_mode)]);
    pair.jitter = 100;
    let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
    pair.post(flow, 1_000_000);
    pair.run(long());
    pair.audit();
    assert_eq!(pair.hosts[0].stats().messages_sent, 1);
    (pair.hosts[1].stats().acks_sent, *pair.hosts[0].stats())
}

#[test]
fn one_acknowledgement_for_16_segments_holds_however_they_are_reordered() {
    let wide = |s: &mut Settings| {
        s.cc = CcKind::Fixed;
        s.base_rtt = Duration::from_us(100);
        s.ack_every = 16;
    };
    let every = AckMode::Every { segments: 16, delay: Duration::from_us(25) };
    let (governed, sender) = acks(every, wide);
    // An acknowledgement and a report for each 16, and one at the end.
    assert!(governed <= 2 * (1000 / 16 + 1), "{governed}");
    assert_eq!((sender.retransmitted, sender.spurious), (0, 0));
    let (free, _) = acks(AckMode::Free, wide);
    assert!(free > 2 * governed, "{free} against {governed}");
}

#[test]
fn granted_acknowledgements_leave_at_their_grant_and_no_other_time() {
    let config = config(|_| ());
    let mut pair =
        Pair::new(&config, [Slotted::new(0, AckMode::Free), Slotted::new(0, AckMode::Granted)]);
    let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
    pair.post(flow, 8_000);
    pair.run(long());
    // Sent from 6.4 us on, the eight arrive in two epochs, from 11.4 to 14.2 us.
    assert_eq!((pair.hosts[1].stats().acks_sent, pair.hosts[0].stats().messages_sent), (2, 1));
    assert_eq!(pair.answered, [slot(EPOCH * 2), slot(EPOCH * 3)]);
    pair.audit();
}

#[test]
fn a_flow_whose_last_acknowledgement_was_granted_is_not_forgotten_at_rest() {
    let config = config(|s| s.loss.retries_max = 1);
    let mut pair =
        Pair::new(&config, [Slotted::new(0, AckMode::Free), Slotted::new(0, AckMode::Granted)]);
    let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
    for delivered in 1..3 {
        pair.post(flow, 8_000);
        pair.run(pair.now + config.give_up_after(&path(&config)) * 3);
        let receiver = pair.hosts[1].stats();
        assert_eq!((receiver.messages_delivered, receiver.drops.total()), (delivered, 0));
    }
}

#[test]
fn what_was_never_granted_is_forgotten_with_its_flow() {
    let config = config(|s| {
        (s.rx_flows_max, s.tx_flows_max, s.loss.retries_max) = (1, 2, 1);
    });
    let mut pair =
        Pair::new(&config, [Slotted::new(0, AckMode::Free), Slotted::new(0, AckMode::Granted)]);
    let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
    pair.post(flow, 8_000);
    pair.hosts[1].scheduler_mut().withholds = true;
    pair.run(Instant::ZERO + Duration::from_ms(100));
    assert_eq!((pair.answered.len(), pair.hosts[0].stats().messages_sent), (0, 0));
    assert_eq!(pair.hosts[1].stats().messages_delivered, 1);
    // The place and the buffer of the first serve the next.
    pair.hosts[1].scheduler_mut().withholds = false;
    let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
    pair.post(flow, 2_000);
    pair.run(pair.now + Duration::from_ms(5));
    assert_eq!(pair.hosts[0].stats().messages_sent, 1);
    assert_eq!(pair.hosts[1].stats().messages_delivered, 2);
    pair.audit();
}

#[test]
fn one_loss_before_hundreds_of_segments_is_one_retransmission() {
    let config = config(|s| {
        s.cc = CcKind::Fixed;
        s.base_rtt = Duration::from_us(400);
        s.line_rate = transport::Rate::from_gbps(100);
        s.ack_every = 16;
    });
    let every = AckMode::Every { segments: 16, delay: Duration::from_us(25) };
    let mut pair = Pair::new(&config, [Slotted::new(0, AckMode::Free), Slotted::new(0, every)]);
    let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
    pair.post(flow, 1_000_000);
    pair.lose = &[100];
    pair.run(long());
    let sender = pair.hosts[0].stats();
    assert_eq!((sender.messages_sent, sender.retransmitted, sender.spurious), (1, 1, 0));
    assert!(pair.data.len() > 1000);
    pair.audit();
}

#[test]
fn turns_of_flows_that_have_nothing_to_send_do_not_end_a_poll() {
    let config = config(|_| ());
    let mut pair = Pair::new(&config, [0; 2].map(|_| Slotted::new(0, AckMode::Free)));
    let path = path(&config);
    let idle: Vec<_> =
        (0..BURST + 8).map(|_| pair.hosts[0].open_flow(HostId(1), path).unwrap()).collect();
    let flow = pair.hosts[0].open_flow(HostId(1), path).unwrap();
    pair.post(flow, 1_000);
    let turns = idle.into_iter().chain([flow]).map(|flow| (flow, None));
    pair.hosts[0].scheduler_mut().first.extend(turns);
    let mut burst = Burst::with_limit(BURST);
    pair.hosts[0].poll_transmit(pair.now, &mut burst);
    assert_eq!(burst.len(), 1);
}

#[test]
fn no_segment_is_given_ahead_to_leave_before_one_whose_instant_was_chosen() {
    let config = config(|s| s.cc = CcKind::Bbr);
    let mut pair = Pair::new(&config, [0; 2].map(|_| Slotted::new(0, AckMode::Free)));
    pair.hosts[0].send_ahead(SLOT * EPOCH);
    let path = path(&config);
    let [steered, paced] = [0; 2].map(|_| pair.hosts[0].open_flow(HostId(1), path).unwrap());
    pair.post(steered, 1_000);
    pair.post(paced, 64_000);
    let chosen = slot(8);
    pair.hosts[0].scheduler_mut().open = true;
    pair.hosts[0].scheduler_mut().first.push_back((steered, Some(chosen)));
    let mut burst = Burst::with_limit(1);
    pair.hosts[0].poll_transmit(pair.now, &mut burst);
    assert_eq!(burst.departure(0, pair.now), chosen);
    // The pacer lets segments of the other flow leave at instants before and behind the chosen one.
    let mut early = 0;
    for ns in (50..10_000).step_by(50) {
        pair.now = Instant::ZERO + Duration::from_ns(ns);
        burst.reset(1);
        pair.hosts[0].handle_timeout(pair.now);
        pair.hosts[0].poll_transmit(pair.now, &mut burst);
        for (index, _) in burst.iter().enumerate() {
            let leaves = burst.departure(index, pair.now);
            early += u32::from(leaves > pair.now);
            assert!(leaves == pair.now || leaves >= chosen, "{leaves:?}");
        }
    }
    assert!(early > 0, "some were given ahead");
}
