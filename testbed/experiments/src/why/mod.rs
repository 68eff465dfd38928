//! Why flows took as long as they did: where the time of each went, part by part.
//!
//! If `Observe::why` asks for it, a simulation keeps a journal of its packets. A walk goes from the
//! end of each flow back to its start, along the cause for which each step waited. The parts add up
//! to the flow completion time to the picosecond. Without `Observe::why` none of this code runs.

mod bottleneck;
mod demands;
pub(crate) mod journal;
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
use transport::HostId;
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

/// Why a transmission was repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Repair {
    /// The name of the reason.
    cause: &'static str,
    /// The port at which the packet was lost.
    port: Option<u32>,
    /// Whether a timer found the loss.
    silent: bool,
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
    /// By name of a [`TimePart`]: picoseconds. Their sum is `fct_ps`; empty when the flow did not
    /// finish.
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
    /// How the sender detected the loss: `timer` or `answer`.
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
}

/// Explains the flows of a run. O(packets).
pub(crate) fn explain(
    plan: &Plan,
    RunLog { journal, pauses, waits }: &RunLog,
    conductor: &Conductor<'_>,
    records: &[FlowRecord],
) -> Vec<FlowWhy> {
    let users = users(journal);
    let pauses = Pauses::of(journal, pauses);
    let answers = bottleneck::lost_answers(journal);
    let links = &NamedLinks::of(plan);
    let demands = PodDemands::new(waits, links);
    let flow = |(flow, record): (usize, &FlowRecord)| {
        let conn = conductor.connection(flow);
        let spec = &plan.matrix.flows[flow];
        let mut why = FlowWhy {
            flow,
            src: spec.src.0,
            dst: spec.dst.0,
            size: spec.size.0,
            fct_ps: record.fct().map(transport::Duration::as_ps),
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
        let ports = record.fct().map(|_| {
            let charges = fill(&mut why, links, (journal, &pauses), (line(conn), record), &users);
            fill_demands(&mut why, &demands, links, &charges);
            bottleneck::candidates(&charges, &fates, links)
        });
        (why, ports.unwrap_or_default())
    };
    let mut flows: Vec<(FlowWhy, Vec<(u32, u128)>)> =
        records.iter().enumerate().map(flow).collect();
    let ports = flows.iter().flat_map(|(_, ports)| ports.iter().map(|(port, _)| *port));
    let busy = Busy::of(journal, links, ports);
    for ((why, ports), record) in flows.iter_mut().zip(records) {
        let port = busy.held_by(ports, (record.start, record.acked_at), line(why.flow));
        let of_port = |port: u32| {
            let span = (record.start, record.acked_at);
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

/// Fills in where the time of a finished flow went.
fn fill(
    why: &mut FlowWhy,
    links: &NamedLinks<'_>,
    seen: (&Journal, &Pauses),
    (conn, record): (u32, &FlowRecord),
    users: &BTreeMap<u32, usize>,
) -> Charges {
    let charges = walk::walk(seen, (line(why.flow), conn), (record.start, record.acked_at));
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
        by: if repair.silent { "timer" } else { "answer" }.to_owned(),
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
    /// Picoseconds that a part took.
    #[must_use]
    pub fn part(&self, part: TimePart) -> u64 {
        self.parts_ps.get(part.name()).copied().unwrap_or(0)
    }
}
