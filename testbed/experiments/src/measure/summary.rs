//! summary.json: the result schema of both worlds.
//!
//! Times are microseconds of network time, rates gigabits a second; null where not applicable.

use fabric::{AnyProgram, Network, ProgramKind};
use serde::{Deserialize, Serialize};
use transport::cc::CcKind;
use transport::ec::EcKind;
use transport::lb::LbKind;
use transport::wire::AccountedSizes;
use transport::{Duration, Instant, Stats};

use super::arrivals::Arrivals;
use super::audit::Audit;
use super::collectives::{CollectiveResults, DcSimResult, SpanResult, utilisation};
use super::fct::{Fct, jain};
use super::scheduler::SchedulerResult;
use super::{Counters, Lateness, own, total};
use crate::conductor::{Conductor, FlowRecord};
use crate::plan::Plan;
use crate::workload::FlowSpec;

/// The summary of a run; field order is the schema's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Version of this schema.
    pub schema: u32,
    /// `sim`, `vdev` or `nic`.
    pub world: &'static str,
    /// The preset.
    pub transport: String,
    /// Congestion control; `NEAR+FAR` where far paths have another.
    pub cc: String,
    /// Load balancer; as `cc`.
    pub lb: String,
    /// Root of all chance.
    pub seed: u64,
    /// Hosts of the network.
    pub hosts: u32,
    /// How many flows there were and finished.
    pub flows: Flows,
    /// Flow completion times.
    pub fct_us: Fct,
    /// When the last byte of the last flow was delivered; null unless all were.
    pub completion_us: Option<f64>,
    /// The lower bound for this matrix on this topology, the latest of the bounds of its cuts and
    /// of its flows alone. A cut counts from the first start of the flows that cross it. Where
    /// flows start at different times, this leaves out the time in which the cut had nothing to do.
    pub ideal_us: f64,
    /// `completion_us / ideal_us`.
    pub slowdown: Option<f64>,
    /// Bytes delivered over the time from the first start to the last delivery.
    pub goodput_gbps: Option<f64>,
    /// Jain's index of size over completion time of the flows; null unless all finished.
    pub jain: Option<f64>,
    /// Packets, by kind and fate.
    pub packets: Packets,
    /// Data queues of switch ports, seen by departing packets; null where they cannot be seen.
    pub queue_bytes: Option<QueueBytes>,
    /// Message bytes.
    pub bytes: ByteCounts,
    /// Conservation.
    pub audit: Audit,
    /// Real seconds; the caller's to fill in.
    pub wall_s: f64,
    /// Link traversals a real second; the caller's to fill in.
    pub hops_per_s: f64,
    /// Peak resident memory, bytes; the caller's to fill in.
    pub peak_rss_bytes: u64,
    /// Real time per network time; 1 in virtual time.
    pub time_scale: f64,
    /// Packets dropped, by reason; only reasons that occurred.
    pub drops: std::collections::BTreeMap<&'static str, u64>,
    /// How late the polls of a real-time run were; null in virtual time.
    pub lateness: Option<Lateness>,
    /// Counters of erasure coding; null where it is off.
    pub ec: Option<CodeCounts>,
    /// Sizes of packets that were accounted instead of those of the headers; null where none was.
    pub wire: Option<AccountedBytes>,
    /// Counters of lossless switches; null where switches do not pause.
    pub pfc: Option<PauseCounts>,
    /// Completion times of flows inside datacentres; null where there is one only.
    pub fct_intra_us: Option<Fct>,
    /// Completion times of flows between datacentres; null where there is one only.
    pub fct_inter_us: Option<Fct>,
    /// Completion times over those of the same flows alone in an idle network.
    pub fct_slowdown: Fct,
    /// Collectives; null where the matrix has none.
    pub collectives: Option<CollectiveResults>,
    /// Share of the hosts' lines that data took. It counts from the first start to the last
    /// delivery, or to the limit of the run where not all was delivered; null without a limit in
    /// that case. Data is what carries messages, each packet once: parity is not counted.
    pub utilisation: Option<f64>,
    /// Share of the data segments that arrived after a later one of their flow; null when none
    /// arrived.
    pub reordered: Option<f64>,
    /// Times from the start of a data packet on its host's line to its arrival; null in real time,
    /// and where neither a collective nor a scheduler's own protocol asks for them.
    pub wire_delay_us: Option<SpanResult>,
    /// What hosts of DCsim counted; null with other schedulers, and where they cannot be seen.
    pub dcsim: Option<DcSimResult>,
    /// What border switches of MLCC counted; null without them, and where they cannot be seen.
    pub mlcc: Option<MlccCounts>,
    /// Schedulers of pods; null where there are none, and where they cannot be seen.
    pub scheduler: Option<SchedulerResult>,
    /// Short flows, and goodput while flows arrive; null unless flows of several sizes start by
    /// time, at several times, and all are delivered.
    pub arrivals: Option<Arrivals>,
    /// Counters of workers and their devices, by name (docs/PERFORMANCE.md), and counters that
    /// policies keep of their own; missing where nothing is counted.
    #[serde(skip_serializing_if = "Counters::is_empty")]
    pub counters: Counters,
    /// The machines of a real network; not there in other worlds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub per_host: Vec<HostSeen>,
    /// Machines of a real network that failed during the run, whose flows did not finish.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<GoneHost>,
    /// What the result is of; null until the caller fills it in.
    pub provenance: Option<Provenance>,
}

/// What a result is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The matrix: its file, or the scenario and generator that made it.
    pub matrix: String,
    /// The network: a file or a built-in name.
    pub topology: String,
    /// What set the value: a flag, a scenario, or a default.
    pub topology_source: String,
    /// Version of the program.
    pub version: String,
    /// The commit that the program was built from; null outside of a Git tree.
    pub commit: Option<String>,
    /// Version of libdpdk; null in a build without it.
    pub dpdk: Option<String>,
    /// Processor, cores and kernel.
    pub machine: String,
}

/// A machine of a real network that failed during the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoneHost {
    /// The name of the host.
    pub name: String,
    /// The last report of the host, or how its connection ended.
    pub reason: String,
}

/// A machine of a real network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSeen {
    /// The name of the host.
    pub name: String,
    /// The host's device: its kind, and its offloads.
    pub device: String,
    /// Least base RTT that the host measured to a peer that it sends to.
    pub base_rtt_min_us: Option<f64>,
    /// Greatest base RTT that the host measured to a peer that it sends to.
    pub base_rtt_max_us: Option<f64>,
    /// How far its clock may be off the first host's.
    pub clock_error_us: f64,
    /// Frames of other protocols.
    pub strays: u64,
    /// Answers to requests for the host's MAC, and to requests for an echo.
    pub answers: u64,
    /// Packets for which its device had no room, as the device counts them.
    pub device_missed: u64,
    /// The clock that measures round trips: `device`, `poll`, or `device and poll`.
    pub rtt_by: String,
    /// Packets received whose time of arrival the device gave.
    pub stamped: u64,
    /// How late its polls were.
    pub lateness: Lateness,
    /// Counters of its worker and its device, by name; those that are 0 are missing.
    #[serde(default, skip_serializing_if = "Counters::is_empty")]
    pub counters: Counters,
}

/// Erasure coding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CodeCounts {
    /// Segments restored from parity.
    pub restored: u64,
    /// Parity that arrived when its block was whole already.
    pub unneeded: u64,
    /// Requests of receivers for packets that a block lacked.
    pub block_nacks: u64,
}

/// Sizes of packets as emulated links count them, bytes; null where the headers count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AccountedBytes {
    /// Around the payload of DATA.
    pub data_overhead: Option<u16>,
    /// The least payload that DATA counts as; 0 where payload counts as it is.
    pub data_min: u16,
    /// A packet without payload.
    pub control: Option<u16>,
}

impl AccountedBytes {
    fn of(plan: &Plan) -> Option<Self> {
        let AccountedSizes { data_overhead, control, data_min } = plan.settings.accounted;
        plan.settings.accounted.differ().then_some(Self { data_overhead, data_min, control })
    }
}

/// Pauses of links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PauseCounts {
    /// Pause frames that switches sent.
    pub pauses: u64,
    /// How long links were paused, summed over them.
    pub paused_us: f64,
}

/// Border switches of MLCC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MlccCounts {
    /// Notes with telemetry that border switches sent to senders of their site.
    pub switch_int: u64,
    /// Advice of receivers that their queues took.
    pub advised: u64,
    /// Most queues open at once in one of them.
    pub queues_peak: u64,
    /// Most bytes in all queues of one of them.
    pub queue_bytes_peak: u64,
    /// Packets that found no queue free.
    pub pool_exhausted: u64,
    /// Advice that border switches dropped: a rate of zero, or beyond the hosts' links. What
    /// senders refuse is `advice_refused` among the counters.
    pub advice_refused: u64,
}

/// Flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Flows {
    /// Flows of the matrix.
    pub total: u64,
    /// Delivered and acknowledged.
    pub finished: u64,
}

/// Packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Packets {
    /// DATA for the first time.
    pub data_new: u64,
    /// DATA and parity again.
    pub retransmitted: u64,
    /// Parity of erasure codes for the first time.
    pub parity: u64,
    /// ACKs sent.
    pub acks: u64,
    /// NACKs sent, of segments and of blocks.
    pub nacks: u64,
    /// Trimmed by switches.
    pub trimmed: u64,
    /// Dropped anywhere.
    pub dropped: u64,
    /// Marked by switches; null where they cannot be seen.
    pub ecn_marked: Option<u64>,
    /// Link traversals; null where they cannot be seen.
    pub hops: Option<u64>,
    /// Made by programs of switches; not there without such programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub originated: Option<u64>,
    /// Ended by programs of switches; not there without such programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumed: Option<u64>,
}

/// Queue lengths, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct QueueBytes {
    /// Mean.
    pub mean: f64,
    /// 99th percentile.
    pub p99: u64,
    /// Longest.
    pub max: u64,
}

/// Message bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByteCounts {
    /// Bytes of the matrix.
    pub offered: u64,
    /// Bytes of all flows at their receivers. At the end of a run that was cut short, these include
    /// bytes of messages that are not whole.
    pub delivered: u64,
    /// Bytes that receivers have put in their places. This is more than `delivered` by two kinds of
    /// bytes. One is bytes of messages that have begun without their first segment, which names the
    /// flow. The other is bytes that came twice since their flow was opened again.
    pub placed: u64,
}

impl CodeCounts {
    fn of(plan: &Plan, stats: &Stats) -> Option<Self> {
        (plan.settings.ec != EcKind::Uncoded).then_some(Self {
            restored: stats.restored,
            unneeded: stats.parity_unneeded,
            block_nacks: stats.block_nacks_sent,
        })
    }
}

impl Packets {
    fn of(stats: &Stats, network: Option<&Network>) -> Self {
        let totals = network.map(Network::totals);
        let programmed = |network: &&Network| !network.blueprint().programs.is_empty();
        let ends = network.filter(programmed).map(Network::audit);
        Self {
            data_new: stats.data_new,
            retransmitted: stats.retransmitted,
            parity: stats.parity_new,
            acks: stats.acks_sent,
            nacks: total([stats.nacks_sent, stats.block_nacks_sent]),
            // Where switches cannot be read, the trimmed packets that receivers saw.
            trimmed: totals.map_or(stats.trimmed, |totals| totals.trimmed),
            dropped: total([totals.map_or(0, |totals| totals.dropped), stats.drops.total()]),
            ecn_marked: totals.map(|totals| totals.marked),
            hops: totals.map(|totals| totals.hops),
            originated: ends.map(|ends| ends.originated),
            consumed: ends.map(|ends| ends.consumed),
        }
    }
}

impl QueueBytes {
    fn of(network: &Network) -> Self {
        let queue = network.queue_stats();
        let (mean, p99, max) = (queue.mean(), queue.quantile(0.99), network.totals().data_peak);
        Self { mean, p99, max }
    }
}

impl PauseCounts {
    fn of(network: &Network) -> Option<Self> {
        let totals = network.totals();
        let counts = Self { pauses: totals.pauses, paused_us: totals.paused.as_us_f64() };
        network.blueprint().switches_with(ProgramKind::Pfc).next().map(|_| counts)
    }
}

impl MlccCounts {
    /// The counts of all border switches of `network`; `None` without one.
    #[must_use]
    pub fn of(network: &Network) -> Option<Self> {
        let borders = network.programs().filter_map(|program| match program {
            AnyProgram::Dci(border) => Some(border.stats()),
            _ => None,
        });
        borders.fold(None, |all: Option<Self>, one| {
            let all = all.unwrap_or_default();
            Some(Self {
                switch_int: all.switch_int + one.switch_int,
                advised: all.advised + one.advised,
                queues_peak: all.queues_peak.max(one.queues_peak),
                queue_bytes_peak: all.queue_bytes_peak.max(one.queue_bytes_peak),
                pool_exhausted: all.pool_exhausted + one.pool_exhausted,
                advice_refused: all.advice_refused + one.advice_refused,
            })
        })
    }
}

/// Bytes of messages that are not whole, at their receivers.
fn begun(records: &[FlowRecord]) -> u64 {
    total(records.iter().map(|record| record.begun))
}

impl Summary {
    /// The summary of a run in virtual time; other worlds change what differs.
    #[must_use]
    pub fn new(
        plan: &Plan,
        conductor: &Conductor<'_>,
        stats: &Stats,
        network: Option<&Network>,
        audit: Audit,
    ) -> Self {
        let records = conductor.records();
        let offered = plan.matrix.total_bytes().0;
        let (delivered, placed) = (conductor.delivered().0, stats.data_placed_bytes);
        let first = records.iter().map(|record| record.start).min().unwrap_or_default();
        let last = records.iter().map(|record| record.delivered_at).max().unwrap_or_default();
        let completion = (last < Instant::FAR_FUTURE).then(|| last.as_us_f64());
        let ideal_us = plan.ideal().as_us_f64();
        let finished = conductor.finished() as u64;
        let is_whole = finished == plan.matrix.flows.len() as u64;
        let (near, far) = (&plan.settings, plan.settings.far);
        Self {
            schema: 1,
            world: "sim",
            transport: plan.draft.transport.name.to_owned(),
            cc: near_and_far(near.cc.name(), far.cc.map(CcKind::name)),
            lb: near_and_far(near.lb.name(), far.lb.map(LbKind::name)),
            seed: plan.seed,
            hosts: plan.hosts(),
            flows: Flows { total: plan.matrix.flows.len() as u64, finished },
            jain: jain(rates(plan, records)).filter(|_| is_whole),
            fct_us: Fct::of(records.iter().filter_map(FlowRecord::fct)),
            completion_us: completion,
            ideal_us,
            slowdown: completion.filter(|_| ideal_us > 0.0).map(|us| us / ideal_us),
            goodput_gbps: completion.map(|_| gbps(delivered, last.since(first))),
            packets: Packets::of(stats, network),
            queue_bytes: network.map(QueueBytes::of),
            bytes: ByteCounts { offered, delivered: total([delivered, begun(records)]), placed },
            audit,
            wall_s: 0.0,
            hops_per_s: 0.0,
            peak_rss_bytes: 0,
            time_scale: 1.0,
            drops: drops(stats, network),
            lateness: None,
            ec: CodeCounts::of(plan, stats),
            wire: AccountedBytes::of(plan),
            pfc: network.and_then(PauseCounts::of),
            fct_intra_us: fct_of(plan, records, false),
            fct_inter_us: fct_of(plan, records, true),
            fct_slowdown: fct_slowdown(plan, records),
            collectives: CollectiveResults::of(plan, records),
            utilisation: utilisation(plan, stats, (first, completion.map(|_| last))),
            reordered: reordered(stats),
            wire_delay_us: None,
            dcsim: None,
            mlcc: network.and_then(MlccCounts::of),
            scheduler: None,
            arrivals: Arrivals::of(plan, records),
            counters: network.map(own::of_network).unwrap_or_default(),
            per_host: Vec::new(),
            gone: Vec::new(),
            provenance: None,
        }
    }

    /// Every flow finished, no host failed, the books balance, and the run is valid.
    #[must_use]
    pub fn is_success(&self) -> bool {
        let valid = self.lateness.is_none_or(|lateness| lateness.valid) && self.gone.is_empty();
        self.flows.finished == self.flows.total && self.audit.ok && valid
    }
}

/// The rate of each flow that finished, from its start to its end, Gb/s.
fn rates(plan: &Plan, records: &[FlowRecord]) -> impl Iterator<Item = f64> {
    let lines = plan.matrix.flows.iter().zip(records);
    lines.filter_map(|(spec, record)| Some(gbps(spec.size.0, record.fct()?)))
}

/// The completion times of the flows that go to another datacentre, or of those that do not.
fn fct_of(plan: &Plan, records: &[FlowRecord], inter: bool) -> Option<Fct> {
    let lines = plan.matrix.flows.iter().zip(records);
    let these = lines.filter(|(spec, _)| plan.crosses(spec.src, spec.dst) == Some(inter));
    let sites = plan.tree.spec().sites();
    (sites > 1).then(|| Fct::of(these.filter_map(|(_, record)| record.fct())))
}

fn fct_slowdown(plan: &Plan, records: &[FlowRecord]) -> Fct {
    let lines = plan.matrix.flows.iter().zip(records);
    let slowdown = |(spec, record): (&FlowSpec, &FlowRecord)| {
        Some(record.fct()?.as_us_f64() / plan.fct_alone(spec.src, spec.dst, spec.size).as_us_f64())
    };
    Fct::of_values(lines.filter_map(slowdown).collect())
}

fn reordered(stats: &Stats) -> Option<f64> {
    let arrived = total([stats.data_placed, stats.parity_kept]);
    #[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
    let share = stats.reordered as f64 / arrived as f64;
    (arrived > 0).then_some(share)
}

fn near_and_far(near: &str, far: Option<&str>) -> String {
    match far.filter(|far| *far != near) {
        None => near.to_owned(),
        Some(far) => format!("{near}+{far}"),
    }
}

fn drops(
    stats: &Stats,
    network: Option<&Network>,
) -> std::collections::BTreeMap<&'static str, u64> {
    let mut drops = std::collections::BTreeMap::new();
    let fabric = network.map(|network| network.audit().dropped).unwrap_or_default();
    let by_name = fabric.iter().map(|(reason, count)| (reason.name(), count));
    for (name, count) in by_name.chain(stats.drops.iter().map(|(r, n)| (r.name(), n))) {
        if count > 0 {
            *drops.entry(name).or_insert(0) += count;
        }
    }
    drops
}

#[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
fn gbps(bytes: u64, time: Duration) -> f64 {
    let ns = time.as_us_f64() * 1000.0;
    if ns > 0.0 { bytes as f64 * 8.0 / ns } else { 0.0 }
}
