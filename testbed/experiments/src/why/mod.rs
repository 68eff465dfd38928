//! Why flows took as long as they did: where the time of each went, part by part.
//!
//! If `Observe::why` asks for it, a simulation keeps a journal of its packets. A walk goes from the
//! end of each flow back to its start, along the cause for which each step waited. The parts add up
//! to the flow completion time to the picosecond. Without `Observe::why` none of this code runs.

mod bottleneck;
mod demands;
pub(crate) mod journal;
mod open;
mod pauses;
mod walk;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::conductor::{Conductor, FlowRecord};
use crate::plan::Plan;
use bottleneck::{Busy, Fates};
use demands::{CauseAtPort, PodDemands};
use fabric::{Pause, PodWaits};
use journal::Journal;
use pauses::Pauses;
use transport::{HostId, Instant};
use walk::Charges;
use words::NamedLinks;

/// A part of the time of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePart {
    /// The way of its last packet and of the acknowledgement, without queues.
    Path,
    /// The flow's own bytes at the rate of its host's line.
    Sending,
    /// The host's line sent something else.
    Turn,
    /// The window was full: round trips without queues.
    Window,
    /// The controller spread the packets.
    Pacing,
    /// The scheduler held the flow back: credit, tokens, slots.
    Scheduler,
    /// The receiver took that long to answer.
    Receiver,
    /// Queues of switches.
    Queue,
    /// Links that switches had paused (PFC).
    Paused,
    /// From the loss of packets until the sender detected it.
    Retransmission,
    /// Anything else.
    Other,
}

impl TimePart {
    /// Every part, in the order in which results have them.
    pub const ALL: [Self; 11] = [
        Self::Path,
        Self::Sending,
        Self::Turn,
        Self::Window,
        Self::Pacing,
        Self::Scheduler,
        Self::Receiver,
        Self::Queue,
        Self::Paused,
        Self::Retransmission,
        Self::Other,
    ];

    /// The part's name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Sending => "sending",
            Self::Turn => "turn",
            Self::Window => "window",
            Self::Pacing => "pacing",
            Self::Scheduler => "scheduler",
            Self::Receiver => "receiver",
            Self::Queue => "queue",
            Self::Paused => "paused",
            Self::Retransmission => "retransmission",
            Self::Other => "other",
        }
    }
}

/// How a sender detects a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LossNews {
    Answer,
    Timer,
    /// No event has shown the loss.
    None,
}

impl LossNews {
    const fn name(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Timer => "timer",
            Self::None => "none",
        }
    }
}

/// Why a transmission was repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Repair {
    /// The name of the reason.
    cause: &'static str,
    /// The port at which the packet was lost.
    port: Option<u32>,
    /// How the sender detected the loss.
    by: LossNews,
}

/// Where the time of a flow went: a line of why.jsonl.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowWhy {
    /// The line of the matrix, from 0.
    pub flow: usize,
    /// The sending host.
    pub src: u32,
    /// The receiving host.
    pub dst: u32,
    /// Bytes.
    pub size: u64,
    /// Picoseconds from the start to the last acknowledgement; null when the flow did not finish.
    pub fct_ps: Option<u64>,
    /// Picoseconds from the start until the run ended or the flow was given up, where it did not
    /// finish; left out for a flow that finished, and for one that did not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_ps: Option<u64>,
    /// Whether the flow was given up; left out where it was not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
    /// By name of a [`TimePart`]: picoseconds. Their sum is `fct_ps`, or `open_ps` where the flow
    /// did not finish.
    pub parts_ps: BTreeMap<String, u64>,
    /// The queues of `parts_ps.queue`, the longest wait first.
    pub queues: Vec<QueueWait>,
    /// The links whose full queues were the reason of the pauses of `parts_ps.paused`, the longest
    /// first; left out where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paused: Vec<QueueWait>,
    /// The causes of `parts_ps.scheduler` where a pod's scheduler decides, the longest first; left
    /// out where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub demands: Vec<DemandTime>,
    /// The causes of times of `queues` in Cores of pods, the longest first; left out where there
    /// are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_cores: Vec<DemandTime>,
    /// The causes of `parts_ps.retransmission`, the longest first.
    pub retransmissions: Vec<RepairTime>,
    /// The link that held it up most, by queues, pauses that its queue caused, marks, trims and how
    /// busy it was; null where none did.
    pub bottleneck: Option<Bottleneck>,
    /// Data packets of the flow, by their fate.
    pub packets: PacketFates,
    /// The cause in words.
    pub sentence: String,
}

/// A link that holds a flow up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// The link, as faults name links.
    pub link: String,
    /// The far end of the link.
    pub to: String,
    /// Flows whose data takes the link during the run.
    pub flows: usize,
    /// Picoseconds of the flow's time in which the link sent data.
    pub busy_ps: u64,
    /// Picoseconds in which the link sent data of this flow.
    pub own_ps: u64,
}

/// Time in the queue of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueWait {
    /// The link, as faults name links.
    pub link: String,
    /// The far end of the link.
    pub to: String,
    /// Picoseconds.
    pub ps: u64,
    /// Flows whose data takes the link during the run.
    pub flows: usize,
}

/// Time in which cells waited for epochs of a pod's scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DemandTime {
    /// The link that the cells were to take, as faults name links: of their host, or of a Core.
    pub link: String,
    /// `request` until a decision has the request, `decision` from there to the first epoch that
    /// this decision is about. Then what decisions did about the demand: a name of a
    /// [`DemandFate`](fabric::pod::scheduler::DemandFate), or `cores` where the links to all Cores
    /// had the epoch for other hosts.
    pub cause: String,
    /// Whether a demand of a smaller size had the link of the sender's host, or that of a receiver
    /// in the same pod. Never for links to Cores.
    pub smaller: bool,
    /// Picoseconds.
    pub ps: u64,
}

/// Time until a loss was known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairTime {
    /// `trimmed`, the reason of a drop, `corrupt`, or `not_lost` for a copy that was not needed.
    pub cause: String,
    /// The link, as faults name links; null where there is none.
    pub link: Option<String>,
    /// How the sender detected the loss: `timer` or `answer`; `none` where it had not when the
    /// flow's time ended.
    pub by: String,
    /// Picoseconds.
    pub ps: u64,
    /// How many waits that were.
    pub times: u32,
}

/// What became of data packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketFates {
    /// Transmissions.
    pub sent: u64,
    /// Transmissions that were marked (ECN), by link.
    pub marked: BTreeMap<String, u64>,
    /// Transmissions that were trimmed, by link.
    pub trimmed: BTreeMap<String, u64>,
    /// Transmissions that were lost, by link and reason.
    pub lost: BTreeMap<String, u64>,
    /// Answers to packets of its connection that were lost, by link and reason.
    #[serde(default)]
    pub answers_lost: BTreeMap<String, u64>,
}

/// What a run has kept to explain itself.
#[derive(Debug)]
pub(crate) struct RunLog {
    pub(crate) journal: Box<Journal>,
    pub(crate) pauses: Vec<Pause>,
    pub(crate) waits: Vec<PodWaits>,
    /// By line of the matrix: when the flow was given up.
    pub(crate) given_up: BTreeMap<u32, Instant>,
}

/// What a run has kept, for the walk along a flow.
#[derive(Clone, Copy)]
struct Seen<'a> {
    journal: &'a Journal,
    pauses: &'a Pauses,
    links: &'a NamedLinks<'a>,
    /// Whether the schedulers of pods grant all data.
    in_pods: bool,
}

/// The time of a flow: from its start to its last acknowledgement. Where that did not come, the
/// flow is open until it was given up, or until the run ended. `None` where it did not start.
#[derive(Clone, Copy, Debug)]
struct FlowSpan {
    start: Instant,
    end: Instant,
    open: bool,
}

impl FlowSpan {
    fn of(record: &FlowRecord, given_up: Option<Instant>, run_ends: Instant) -> Option<Self> {
        let start = record.start;
        if record.fct().is_some() {
            return Some(Self { start, end: record.acked_at, open: false });
        }
        let end = given_up.unwrap_or(run_ends);
        (start <= end).then_some(Self { start, end, open: true })
    }

    fn ps(self) -> u64 {
        self.end.since(self.start).as_ps()
    }
}

/// Explains the flows of a run that ended at `run_ends`. O(packets).
pub(crate) fn explain(
    plan: &Plan,
    RunLog { journal, pauses, waits, given_up }: &RunLog,
    (conductor, records): (&Conductor<'_>, &[FlowRecord]),
    run_ends: Instant,
) -> Vec<FlowWhy> {
    let users = users(journal);
    let pauses = Pauses::of(journal, pauses);
    let answers = bottleneck::lost_answers(journal);
    let links = &NamedLinks::of(plan);
    let demands = PodDemands::new(waits, links);
    let seen = Seen { journal, pauses: &pauses, links, in_pods: !demands.is_empty() };
    let flow = |(flow, record): (usize, &FlowRecord)| {
        let conn = conductor.connection(flow);
        let given_up = given_up.get(&line(flow)).copied();
        let span = FlowSpan::of(record, given_up, run_ends);
        let spec = &plan.matrix.flows[flow];
        let mut why = FlowWhy {
            flow,
            src: spec.src.0,
            dst: spec.dst.0,
            size: spec.size.0,
            fct_ps: record.fct().map(transport::Duration::as_ps),
            open_ps: span.filter(|span| span.open).map(FlowSpan::ps),
            given_up: given_up.is_some(),
            parts_ps: BTreeMap::new(),
            queues: Vec::new(),
            paused: Vec::new(),
            demands: Vec::new(),
            in_cores: Vec::new(),
            retransmissions: Vec::new(),
            bottleneck: None,
            packets: PacketFates::default(),
            sentence: String::new(),
        };
        let fates = Fates::of(journal, line(flow), conn);
        why.packets = fates.named(links, answers.get(&line(flow)));
        let held_at = span.map(|span| {
            let charges = fill(&mut why, seen, (line(conn), span), &users);
            fill_demands(&mut why, &demands, links, &charges);
            (span, bottleneck::candidates(&charges, &fates, links))
        });
        (why, held_at)
    };
    let mut flows: Vec<_> = records.iter().enumerate().map(flow).collect();
    let held_at = flows.iter().filter_map(|(_, held_at)| held_at.as_ref());
    let ports = held_at.flat_map(|(_, ports)| ports.iter().map(|(port, _)| *port));
    let busy = Busy::of(journal, links, ports);
    for (why, held_at) in &mut flows {
        let of = |span: &FlowSpan| (span.start, span.end);
        let port = held_at.as_ref().and_then(|(span, ports)| {
            busy.held_by(ports, of(span), line(why.flow)).map(|port| (port, of(span)))
        });
        let of_port = |(port, span): (u32, (Instant, Instant))| {
            let (busy_ps, own_ps) = busy.share(port, span, line(why.flow));
            let (link, to) = (links.name(port), links.end(port));
            let flows = users.get(&port).copied().unwrap_or(0);
            Bottleneck { link, to, flows, busy_ps, own_ps }
        };
        why.bottleneck = port.map(of_port);
        why.sentence = words::sentence(why);
    }
    flows.into_iter().map(|(why, _)| why).collect()
}

/// Fills in where the time of a flow went.
fn fill(
    why: &mut FlowWhy,
    seen: Seen<'_>,
    (conn, span): (u32, FlowSpan),
    users: &BTreeMap<u32, usize>,
) -> Charges {
    let charges = walk::walk(seen, (line(why.flow), conn, HostId(why.dst)), span);
    let links = seen.links;
    let parts = TimePart::ALL.into_iter().zip(charges.parts).filter(|(_, ps)| *ps > 0);
    why.parts_ps = parts.map(|(part, ps)| (part.name().to_owned(), ps)).collect();
    let queue = |(port, ps): (u32, u64)| {
        let (link, to) = (links.name(port), links.end(port));
        QueueWait { link, to, ps, flows: users.get(&port).copied().unwrap_or(0) }
    };
    let waits = |by_port: &BTreeMap<u32, u64>| {
        let mut waits: Vec<_> = by_port.iter().map(|(port, ps)| queue((*port, *ps))).collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.ps));
        waits
    };
    (why.queues, why.paused) = (waits(&charges.queues), waits(&charges.paused));
    let repair = |(repair, (ps, times)): (Repair, (u64, u32))| RepairTime {
        cause: repair.cause.to_owned(),
        link: repair.port.map(|port| links.name(port)),
        by: repair.by.name().to_owned(),
        ps,
        times,
    };
    let repairs = charges.repairs.iter().map(|(cause, time)| repair((*cause, *time)));
    why.retransmissions = repairs.collect();
    why.retransmissions.sort_by_key(|repair| std::cmp::Reverse(repair.ps));
    charges
}

/// Fills in what the flow waited for at the schedulers of its pods.
fn fill_demands(
    why: &mut FlowWhy,
    demands: &PodDemands<'_>,
    links: &NamedLinks<'_>,
    charges: &Charges,
) {
    if demands.is_empty() {
        return;
    }
    let causes = demands.divide((HostId(why.src), HostId(why.dst)), &charges.waits);
    let (at_hosts, in_cores): (Vec<_>, Vec<_>) = causes
        .into_iter()
        .filter(|(_, ps)| *ps > 0)
        .partition(|((port, ..), _)| links.is_nic(*port));
    let times = |causes: Vec<(CauseAtPort, u64)>| {
        let time = |((port, cause, smaller), ps)| DemandTime {
            link: links.name(port),
            cause: String::from(cause),
            smaller,
            ps,
        };
        let mut times: Vec<DemandTime> = causes.into_iter().map(time).collect();
        times.sort_by_key(|time| std::cmp::Reverse(time.ps));
        times
    };
    (why.demands, why.in_cores) = (times(at_hosts), times(in_cores));
}

/// The number of a line or of a connection as the journal has it.
fn line(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// For each port: how many flows send data through it.
fn users(journal: &Journal) -> BTreeMap<u32, usize> {
    let mut pairs = BTreeSet::new();
    for record in journal.records.iter().filter(|record| record.is_data) {
        let mut hop = journal.hops.get(record.hops as usize);
        while let Some(passed) = hop {
            pairs.insert((passed.port, record.flow));
            hop = journal.hops.get(passed.before as usize);
        }
    }
    let mut users = BTreeMap::new();
    for (port, _) in pairs {
        *users.entry(port).or_default() += 1;
    }
    users
}

/// Writes lines of why.jsonl: one a flow.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(flows: &[FlowWhy], out: &mut impl Write) -> io::Result<()> {
    flows.iter().try_for_each(|flow| {
        serde_json::to_writer(&mut *out, flow)?;
        out.write_all(b"\n")
    })
}

impl FlowWhy {
    /// Picoseconds of the flow's time, until its end or for as long as it was open; `None` where it
    /// did not start.
    #[must_use]
    pub fn time_ps(&self) -> Option<u64> {
        self.fct_ps.or(self.open_ps)
    }

    /// Picoseconds that a part took.
    #[must_use]
    pub fn part(&self, part: TimePart) -> u64 {
        self.parts_ps.get(part.name()).copied().unwrap_or(0)
    }
}
