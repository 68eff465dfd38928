//! A small closed loop for controllers: flows through one bottleneck queue, one virtual clock, one
//! event a packet. Output-queued, RED at dequeue, trims or drops when full, control packets never
//! queue. It models no topology and no wire format; its purpose is to move a controller through its
//! cases.
//!
//! Units: picoseconds and wire bytes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use transport::cc::{
    AckSample, Cc, CcKind, CcParams, CongestionControl, Inference, LossSample, Path, mlcc_note,
};
use transport::rc::{HalfReport, HalfSetup, Rc, RcParams, ReceiverHalf, SegmentArrival};
use transport::units::Psn;
use transport::wire::advice::Advice;
use transport::wire::int::{Hop, Int};
use transport::wire::{Ext, ExtRefusal, Extensions, Extent};
use transport::{Bytes, Duration, Instant, Rate, Rng};

/// Packet size, payload and headers.
pub const MTU: u64 = 4160;

/// One flow of an experiment.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    pub start: Duration,
    /// Bytes to deliver.
    pub bytes: u64,
    pub base_rtt: Duration,
}

/// Events besides the queue.
#[derive(Clone, Debug)]
pub struct Net {
    pub rate: Rate,
    /// Size of the bottleneck queue, bytes.
    pub queue_bytes: u64,
    pub trimming: bool,
    /// Every so many-th packet is lost on the link after the queue; 0 for none.
    pub loss_every: u64,
    /// Marks every packet in this span, whatever the queue.
    pub mark: Option<(Duration, Duration)>,
    /// From this time every round trip takes longer by so much.
    pub rtt_step: Option<(Duration, Duration)>,
    pub rto: Duration,
    pub until: Duration,
    pub sample_every: Duration,
}

impl Net {
    /// The paper's link: 800 Gb/s, a queue of one BDP of 12 us, trimming, RTO of 7 base RTTs.
    pub fn paper(until: Duration) -> Self {
        let rate = Rate::from_gbps(800);
        Self {
            rate,
            queue_bytes: rate.bytes_in(BASE_RTT).0,
            trimming: true,
            loss_every: 0,
            mark: None,
            rtt_step: None,
            rto: Duration::from_us(84),
            until,
            sample_every: Duration::from_us(4),
        }
    }
}

pub const BASE_RTT: Duration = Duration::from_us(12);

/// The record of one flow.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// (time, cwnd) on every sampling instant since the flow's start until its end.
    pub cwnd: Vec<(Duration, u64)>,
    /// The pacing rate on the same instants.
    pub pacing: Vec<Option<Rate>>,
    /// Bytes acknowledged by each sampling instant.
    pub acked: Vec<u64>,
    pub finished: Option<Duration>,
    pub nacks: u64,
    pub timeouts: u64,
}

impl Trace {
    /// The window at the last sampling instant not after `at`.
    pub fn cwnd_at(&self, at: Duration) -> u64 {
        let sample = self.cwnd.iter().rev().find(|(time, _)| *time <= at);
        sample.expect("a sample before that time").1
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Start(usize),
    Arrive(Packet),
    Depart,
    Feedback(Packet, Fate),
    Rto(Packet),
    /// The pacer lets the flow send.
    Paced(usize),
    /// The instant that the controller asked for.
    Wake(usize),
    Sample,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Packet {
    flow: usize,
    psn: u64,
    sent_at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fate {
    Clean,
    Marked,
    Trimmed,
}

struct Flow {
    kind: CcKind,
    cc: Cc,
    /// The controller's half at the receiver, with its report.
    half: Option<(Rc, Option<HalfReport>)>,
    path: Path,
    base_rtt: Duration,
    to_send: u64,
    unacked: u64,
    next_psn: u64,
    outstanding: BTreeMap<u64, Instant>,
    resend: BTreeSet<u64>,
    /// The host's link is busy until then.
    link_free: Instant,
    /// The pacer is closed until then.
    paced_until: Instant,
    /// Instants of the pacer's and the controller's next events, so that each is queued once.
    paced_at: Option<Instant>,
    wake_at: Option<Instant>,
    started: bool,
    trace: Trace,
}

/// The running experiment.
pub struct Model {
    net: Net,
    flows: Vec<Flow>,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    order: u64,
    queue: VecDeque<Packet>,
    departed: u64,
    /// What the queue wrote into packets whose feedback is on its way, where the controller reads
    /// it.
    hops: Option<BTreeMap<Packet, Hop>>,
    rng: Rng,
}

/// Runs `flows` under one controller and returns what each did.
pub fn run(kind: CcKind, params: &CcParams, net: &Net, flows: &[FlowSpec]) -> Vec<Trace> {
    let mut model = Model {
        net: net.clone(),
        flows: Vec::new(),
        events: BinaryHeap::new(),
        order: 0,
        queue: VecDeque::new(),
        departed: 0,
        hops: kind.reads_int(params).then(BTreeMap::new),
        rng: Rng::new(1),
    };
    for (index, spec) in flows.iter().enumerate() {
        let path = Path { base_rtt: spec.base_rtt, line_rate: net.rate, mtu: Bytes(MTU) };
        model.flows.push(Flow {
            kind,
            cc: Cc::new(kind, params, &path),
            half: kind.half(params).map(|half| {
                let setup = HalfSetup {
                    params: &RcParams::default(),
                    line_rate: net.rate,
                    base_rtt: spec.base_rtt,
                    mtu: Bytes(MTU),
                };
                (Rc::new(half, &setup), None)
            }),
            path,
            base_rtt: spec.base_rtt,
            to_send: spec.bytes.div_ceil(MTU),
            unacked: spec.bytes.div_ceil(MTU),
            next_psn: 0,
            outstanding: BTreeMap::new(),
            resend: BTreeSet::new(),
            link_free: Instant::ZERO,
            paced_until: Instant::ZERO,
            paced_at: None,
            wake_at: None,
            started: false,
            trace: Trace::default(),
        });
        model.at(Instant::ZERO + spec.start, Event::Start(index));
    }
    model.at(Instant::ZERO, Event::Sample);
    while let Some(Reverse((now, _, event))) = model.events.pop() {
        if now > Instant::ZERO + net.until {
            break;
        }
        model.step(now, event);
    }
    model.flows.into_iter().map(|flow| flow.trace).collect()
}

impl Flow {
    /// Takes an acknowledgement whose segment the queue has written `hop` into. A controller with a
    /// half has its report, and a note about the same hop, as of a switch nearby.
    fn acknowledged(&mut self, sample: &AckSample, hop: Hop, packet: Packet) {
        let mut int = Int::with_room(2);
        int.stamp(hop);
        let mut ext = Ext { int, ..Ext::VACANT };
        let mut extent = Extent::NONE.with_int(&int);
        if let Some((half, report)) = &mut self.half {
            let note = mlcc_note(packet.sent_at.to_wire(), 1);
            let noted =
                self.cc.on_note(&note, Extensions::new(extent, &ext), sample.now, &self.path);
            assert_ne!(noted, Err(ExtRefusal::Note));
            // The queue is the flow's own, too, and obeys the last report at once.
            let credit = report.map_or(0, |report| report.number);
            let mut seen = Int::with_room(2);
            seen.stamp(Hop::of_queue(sample.now, Bytes(packet.psn * MTU), hop.waiting(), credit));
            seen.stamp(hop);
            let seen = Ext { int: seen, ..Ext::VACANT };
            let psn = Psn(u32::try_from(packet.psn).expect("a short run"));
            half.on_segment(&SegmentArrival {
                at: sample.now,
                psn,
                bytes: Bytes(MTU),
                ce: sample.ecn,
                trimmed: false,
                sharers: 1,
                extensions: Extensions::new(Extent::NONE.with_int(&seen.int), &seen),
            });
            *report = half.report(sample.now);
            if let (Some(report), Some(kind)) = (*report, self.kind.half(&CcParams::default())) {
                let HalfReport { number, values } = report;
                ext.advice = Advice { half: kind.half(), number, values };
                extent = extent.with_advice();
            }
        }
        self.cc.on_ack_with(sample, Extensions::new(extent, &ext), &self.path);
    }
}

impl Model {
    fn at(&mut self, when: Instant, event: Event) {
        self.order += 1;
        self.events.push(Reverse((when, self.order, event)));
    }

    fn packet_time(&self) -> Duration {
        self.net.rate.time_for(Bytes(MTU))
    }

    /// Propagation one way: half of the base RTT less two serialisations.
    fn one_way(&self, flow: usize, now: Instant) -> Duration {
        let stretched = match self.net.rtt_step {
            Some((from, more)) if now >= Instant::ZERO + from => more,
            _ => Duration::ZERO,
        };
        (self.flows[flow].base_rtt - self.packet_time() * 2 + stretched) / 2
    }

    fn step(&mut self, now: Instant, event: Event) {
        match event {
            Event::Start(flow) => {
                self.flows[flow].started = true;
                self.flows[flow].link_free = now;
                self.send(flow, now);
            }
            Event::Arrive(packet) => self.arrive(packet, now),
            Event::Depart => self.depart(now),
            Event::Feedback(packet, fate) => self.feedback(packet, fate, now),
            Event::Rto(packet) => self.rto(packet, now),
            Event::Paced(flow) => {
                self.flows[flow].paced_at = None;
                self.send(flow, now);
            }
            Event::Wake(flow) => self.wake(flow, now),
            Event::Sample => {
                for flow in self.flows.iter_mut().filter(|flow| flow.started) {
                    if flow.trace.finished.is_none() {
                        let window = flow.cc.window();
                        flow.trace.cwnd.push((now.since(Instant::ZERO), window.cwnd.0));
                        flow.trace.pacing.push(window.pacing);
                        let acked = flow.next_psn.saturating_sub(flow.outstanding.len() as u64);
                        flow.trace.acked.push(acked.saturating_sub(flow.resend.len() as u64) * MTU);
                    }
                }
                self.at(now + self.net.sample_every, Event::Sample);
            }
        }
    }

    fn wake(&mut self, index: usize, now: Instant) {
        let flow = &mut self.flows[index];
        flow.wake_at = None;
        if flow.cc.window().wake_at.is_some_and(|at| at <= now) {
            flow.cc.on_wake(now, &flow.path);
        }
        self.send(index, now);
    }

    /// Sends what window and pacer allow, and queues the events at which either may allow more.
    fn send(&mut self, index: usize, now: Instant) {
        self.send_allowed(index, now);
        let flow = &mut self.flows[index];
        let window = flow.cc.window();
        let finished = flow.trace.finished.is_some();
        let wake_at = window.wake_at.filter(|_| !finished).map(|at| at.max(now));
        if let Some(at) = wake_at.filter(|at| flow.wake_at.is_none_or(|armed| *at < armed)) {
            flow.wake_at = Some(at);
            self.at(at, Event::Wake(index));
        }
        let flow = &mut self.flows[index];
        let work = !finished && (flow.to_send > 0 || !flow.resend.is_empty());
        if work && window.pacing.is_some() && flow.paced_until > now && flow.paced_at.is_none() {
            let at = flow.paced_until;
            flow.paced_at = Some(at);
            self.at(at, Event::Paced(index));
        }
    }

    fn send_allowed(&mut self, index: usize, now: Instant) {
        loop {
            let serialisation = self.packet_time();
            let flow = &mut self.flows[index];
            let in_flight = flow.outstanding.len() as u64 * MTU;
            let window = flow.cc.window();
            if in_flight + MTU > window.cwnd.0 && in_flight > 0 {
                return;
            }
            if window.pacing.is_some() && flow.paced_until > now {
                return;
            }
            let psn = if let Some(psn) = flow.resend.pop_first() {
                psn
            } else if flow.to_send > 0 {
                flow.to_send -= 1;
                flow.next_psn += 1;
                flow.next_psn - 1
            } else {
                return;
            };
            if let Some(rate) = window.pacing {
                flow.paced_until = flow.paced_until.max(now) + rate.time_for(Bytes(MTU));
            }
            let sent_at = flow.link_free.max(now);
            flow.link_free = sent_at + serialisation;
            flow.outstanding.insert(psn, sent_at);
            let packet = Packet { flow: index, psn, sent_at };
            // Jitter of up to a packet's time: flows in lockstep would lose or win every race for a
            // place.
            let jitter = self.rng.below(serialisation.as_ps());
            let arrival = sent_at + serialisation + Duration::from_ps(jitter);
            self.at(arrival, Event::Arrive(packet));
            self.at(sent_at + self.net.rto, Event::Rto(packet));
        }
    }

    fn arrive(&mut self, packet: Packet, now: Instant) {
        if (self.queue.len() as u64 + 1) * MTU > self.net.queue_bytes {
            if self.net.trimming {
                let back = now + self.one_way(packet.flow, now) * 2;
                self.at(back, Event::Feedback(packet, Fate::Trimmed));
            }
            return;
        }
        self.queue.push_back(packet);
        if self.queue.len() == 1 {
            let done = now + self.packet_time();
            self.at(done, Event::Depart);
        }
    }

    /// Removes the head of the queue; RED looks at the rest.
    fn depart(&mut self, now: Instant) {
        let packet = self.queue.pop_front().expect("a departure has a packet");
        if !self.queue.is_empty() {
            let done = now + self.packet_time();
            self.at(done, Event::Depart);
        }
        let (sent, waiting) = (self.departed * MTU, self.queue.len() as u64 * MTU);
        self.departed += 1;
        if self.net.loss_every > 0 && self.departed.is_multiple_of(self.net.loss_every) {
            return;
        }
        let fill = (self.queue.len() as u64 * MTU) as f64 / self.net.queue_bytes as f64;
        let red = self.rng.chance((fill - 0.2) / 0.6);
        let forced =
            self.net.mark.is_some_and(|(from, to)| (from..to).contains(&now.since(Instant::ZERO)));
        let fate = if red || forced { Fate::Marked } else { Fate::Clean };
        if let Some(hops) = &mut self.hops {
            hops.insert(packet, Hop::new(now, Bytes(sent), Bytes(waiting), self.net.rate, 1));
        }
        let back = now + self.one_way(packet.flow, now) * 2;
        self.at(back, Event::Feedback(packet, fate));
    }

    fn feedback(&mut self, packet: Packet, fate: Fate, now: Instant) {
        let flow = &mut self.flows[packet.flow];
        let known = flow.outstanding.get(&packet.psn) == Some(&packet.sent_at);
        if known {
            flow.outstanding.remove(&packet.psn);
        }
        let in_flight = Bytes(flow.outstanding.len() as u64 * MTU);
        match fate {
            Fate::Trimmed if known => {
                flow.trace.nacks += 1;
                flow.resend.insert(packet.psn);
                let loss = LossSample {
                    now,
                    sent_at: packet.sent_at,
                    bytes: Bytes(MTU),
                    in_flight,
                    sharers: 0,
                    by: None,
                };
                flow.cc.on_nack(&loss, &flow.path);
            }
            Fate::Trimmed => {}
            Fate::Clean | Fate::Marked => {
                let acked = Bytes(if known { MTU } else { 0 });
                let rtt = now.since(packet.sent_at);
                let ecn = fate == Fate::Marked;
                let held = Duration::ZERO;
                let sample = AckSample { now, rtt, held, acked, in_flight, ecn, sharers: 0 };
                match self.hops.as_mut().and_then(|hops| hops.remove(&packet)) {
                    Some(hop) => flow.acknowledged(&sample, hop, packet),
                    None => flow.cc.on_ack(&sample, &flow.path),
                }
                if known {
                    flow.unacked -= 1;
                }
                if flow.unacked == 0 && flow.trace.finished.is_none() {
                    flow.trace.finished = Some(now.since(Instant::ZERO));
                }
            }
        }
        self.send(packet.flow, now);
    }

    fn rto(&mut self, packet: Packet, now: Instant) {
        let flow = &mut self.flows[packet.flow];
        if flow.outstanding.get(&packet.psn) != Some(&packet.sent_at) {
            return;
        }
        flow.outstanding.remove(&packet.psn);
        flow.resend.insert(packet.psn);
        flow.trace.timeouts += 1;
        let in_flight = Bytes(flow.outstanding.len() as u64 * MTU);
        let loss = LossSample {
            now,
            sent_at: packet.sent_at,
            bytes: Bytes(MTU),
            in_flight,
            sharers: 0,
            by: Some(Inference::Silence),
        };
        flow.cc.on_timeout(&loss, &flow.path);
        self.send(packet.flow, now);
    }
}
