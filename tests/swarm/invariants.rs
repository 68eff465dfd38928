//! Invariants that hold after every run, whatever was drawn.
//!
//! Bytes are conserved (the audit). Each flow is delivered exactly once or has failed by name, and
//! fails only where a fault may outlast its sender's patience. Windows keep their bounds. Nothing
//! is faster than the network. Work is bounded by what there is to do. One plan always gives the
//! same results, however time is cut into windows and on any number of threads.

use experiments::conductor::FlowRecord;
use experiments::measure::Outcome;
use experiments::plan::Plan;
use experiments::progress::{Progress, Watch};
use experiments::topology::base_one_way;
use experiments::virtual_time;
use experiments::workload::FlowSpec;
use fabric::QdiscKind;
use transport::cc::CcKind;
use transport::ec::EcKind;
use transport::sched::zeropod::Zeropod;
use transport::sched::{Receiving as _, SchedKind};
use transport::{Bytes, Config, DropReason, Duration, HostId, Instant, Path, Rng};

use crate::case::Case;

/// The properties that the cases had.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) flows: u64,
    pub(crate) failed: u64,
    pub(crate) retransmitted: u64,
    pub(crate) trimmed: u64,
    pub(crate) dropped: u64,
    pub(crate) hops: u64,
    pub(crate) samples: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.flows += other.flows;
        self.failed += other.failed;
        self.retransmitted += other.retransmitted;
        self.trimmed += other.trimmed;
        self.dropped += other.dropped;
        self.hops += other.hops;
        self.samples += other.samples;
    }
}

/// Stops a run that does more than could be necessary.
struct Budget {
    hops: u64,
    /// Looks of the watch, each after the same number of packets and windows.
    looks: u64,
    spent: bool,
}

impl Watch for Budget {
    fn goes_on(&mut self, progress: &Progress) -> bool {
        self.looks = self.looks.saturating_sub(1);
        self.spent = self.looks == 0 || progress.hops > self.hops;
        !self.spent
    }
}

/// Link traversals and looks (of 2^16 packets and windows) that `packets` DATA packets may cost:
/// far more than any case needs, far less than a livelock takes. A window that never moves overruns
/// full queues again and again, and so does one that sees neither marks nor losses.
fn budget(plan: &Plan) -> Budget {
    let payload = u64::from(plan.settings.payload_max);
    // A message ends with a packet of its own, however short.
    let message = plan.draft.message.map_or(u64::MAX, |bytes| u64::from(bytes.get()));
    // So does a block, and each has all of its parity.
    let (coded, shape) = (plan.settings.ec != EcKind::Uncoded, plan.settings.ec_shape);
    let parity = if coded { u64::from(shape.parity()) } else { 0 };
    let packets_in = |bytes: u64| {
        let packets = bytes.div_ceil(payload);
        packets + packets.div_ceil(shape.data().into()) * parity
    };
    let packets_of = |flow: &FlowSpec| {
        let (full, rest) = (flow.size.0 / message, flow.size.0 % message);
        full * packets_in(message) + packets_in(rest)
    };
    let packets: u64 = plan.matrix.flows.iter().map(packets_of).sum();
    let factor = |cc| match cc {
        // Windows that step down to their share are trimmed on the way.
        CcKind::Swift | CcKind::Mprdma | CcKind::Dctcp | CcKind::Dcqcn | CcKind::UnoCc => 5,
        CcKind::Smartt | CcKind::Gemini => 1,
        _ => 20,
    };
    let near = plan.settings.cc;
    let packets = packets * factor(near).max(factor(plan.settings.far.cc.unwrap_or(near)));
    // Where a link is far slower than the hosts' lines, pHost and dcPIM take tokens on their way
    // for dead and give them again, timeout by timeout.
    let tokens = matches!(plan.settings.sched, SchedKind::Phost | SchedKind::DcPim);
    let again = if tokens { 4 } else { 1 };
    let packets = packets * again;
    let kept_up = requests_kept_up(plan);
    let (hops, looks) = (20_000 + packets * 200 + kept_up, 4 + packets / 50 + kept_up / 10_000);
    Budget { hops, looks, spent: false }
}

/// Link traversals of requests and answers that hosts send as long as a run lasts: where a pod has
/// a backup of its scheduler, each host sends a request in one of two epochs, and requests for
/// cells in others. So the number follows from time, not from packets. A flow whose cells or
/// receipts were lost in a failure waits for one timeout, which is 20 ms between pods, and up to
/// four flows wait for one another. Zero in other networks.
fn requests_kept_up(plan: &Plan) -> u64 {
    let spec = plan.tree.spec();
    let Ok(mut configs) = plan.host_configs() else { return 0 };
    if spec.schedulers < 2 {
        return 0;
    }
    let pod = Zeropod::new(&configs.swap_remove(0).sched_setup(HostId(0), Rng::new(0)));
    let epochs = (pod.rto_min() * 4).as_ps() / pod.timing().epoch.as_ps();
    // To the ToR and to the scheduler, and back.
    epochs * u64::from(spec.nodes) * 4
}

/// Runs `case` and checks it; runs it again in windows of at most `window` on `threads` threads,
/// and compares.
pub(crate) fn check(case: &Case, window: Duration, threads: usize) -> Result<Tally, String> {
    let plan = Plan::new(&case.draft(), case.matrix.clone(), &case.topology);
    let plan = plan.map_err(|error| format!("no plan: {error}"))?;
    let outcome = run(&plan, Duration::MAX)?;
    let audit = &outcome.summary.audit;
    if !audit.ok {
        return Err(format!("the audit found {:?}", audit.findings));
    }
    let some_failed = outcome.records.iter().any(|record| record.failed);
    for (line, (spec, record)) in plan.matrix.flows.iter().zip(&outcome.records).enumerate() {
        flow(case, &plan, spec, record, some_failed)
            .map_err(|found| format!("flow {line}: {found}"))?;
    }
    windows(case, &plan, &outcome)?;
    lossless(case, &plan, &outcome)?;
    speed(&plan, &outcome)?;
    borders(&plan, &outcome)?;
    probes(&outcome)?;
    let mut plan = plan;
    plan.draft.threads = threads;
    let again = run(&plan, window)?;
    let how = format!("in windows of {window:?} on {threads} threads");
    if flows_of(&plan, &again) != flows_of(&plan, &outcome) {
        return Err(format!("the flows of a run {how} differ"));
    }
    if (&again.summary, &again.series) != (&outcome.summary, &outcome.series) {
        return Err(format!("the figures of a run {how} differ"));
    }
    let packets = outcome.summary.packets;
    Ok(Tally {
        flows: outcome.records.len() as u64,
        failed: outcome.records.iter().filter(|record| record.failed).count() as u64,
        retransmitted: packets.retransmitted,
        trimmed: packets.trimmed,
        dropped: packets.dropped,
        hops: packets.hops.unwrap_or(0),
        samples: outcome.series.len() as u64,
    })
}

/// Runs a plan in windows of at most this length until it ends or its budget is spent; whether it
/// is.
pub(crate) fn run_within_budget(plan: &Plan, window: Duration) -> Result<(Outcome, bool), String> {
    let mut budget = budget(plan);
    let outcome = virtual_time::run_in_windows(plan, window, &mut budget);
    Ok((outcome.map_err(|error| error.to_string())?, budget.spent))
}

fn run(plan: &Plan, window: Duration) -> Result<Outcome, String> {
    let (outcome, spent) = run_within_budget(plan, window)?;
    if spent {
        let hops = outcome.summary.packets.hops.unwrap_or(0);
        return Err(format!("starved: {hops} hops until {:?} and no end", outcome.end));
    }
    if outcome.stopped {
        return Err(format!("not over at the limit, {:?}", outcome.end));
    }
    Ok(outcome)
}

fn config(plan: &Plan) -> Result<Config, String> {
    Config::new(plan.settings.clone()).map_err(|error| error.to_string())
}

pub(crate) fn flow(
    case: &Case,
    plan: &Plan,
    spec: &FlowSpec,
    record: &FlowRecord,
    others_failed: bool,
) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{what}: {spec:?} {record:?}"));
    if record.start == Instant::FAR_FUTURE && spec.waits_for().is_some() && others_failed {
        return Ok(());
    }
    if let Some(fct) = record.fct() {
        if record.failed {
            return wrong("finished and failed");
        }
        if (record.delivered, record.acked) != (spec.size.0, spec.size.0) {
            return wrong("finished, but not with its bytes");
        }
        if fct < plan.settings.line_rate.time_for(spec.size) {
            return wrong("faster than its link");
        }
        return Ok(());
    }
    let patience = config(plan)?.give_up_after(&plan.path(spec.src, spec.dst));
    // Several outages may follow each other, and the first retries fall before any of them.
    if case.outage * 6 < patience {
        return wrong("failed without a fault that explains it");
    }
    if record.delivered > spec.size.0 {
        return wrong("failed with more than its bytes");
    }
    if record.failed { Ok(()) } else { wrong("neither finished nor failed") }
}

fn windows(case: &Case, plan: &Plan, outcome: &Outcome) -> Result<(), String> {
    let mtu = config(plan)?.mtu();
    let has_global_t = case.settings.iter().any(|(key, _)| key.ends_with(".global_t"));
    for sample in &outcome.series {
        for (spec, cwnd) in plan.matrix.flows.iter().zip(&sample.cwnd_bytes) {
            let Some(cwnd) = *cwnd else { continue };
            let path = plan.path(spec.src, spec.dst);
            let cc = plan.settings.policies(&path).cc;
            // Some have the longest path's, as a setting says.
            let longest = Path { base_rtt: plan.settings.base_rtt, ..path };
            let bdp = if has_global_t { longest.bdp() } else { path.bdp() };
            let bdps = cc.window_max(&plan.settings.cc_params);
            // The BDP and the product are rounded down here; a controller may round once.
            let most = (bdp + Bytes(1)).scaled(f64::from(bdps)).max(mtu) + Bytes(1);
            if cwnd < mtu.0 || cwnd > most.0 {
                let at = sample.t_us;
                return Err(format!("at {at} us: window {cwnd} not in {mtu:?} ..= {most:?}"));
            }
        }
    }
    Ok(())
}

/// Lossless switches drop nothing for want of room, unless a fault overruns the headroom.
fn lossless(case: &Case, plan: &Plan, outcome: &Outcome) -> Result<(), String> {
    if plan.fabric.qdisc != QdiscKind::Lossless || case.has_faults() {
        return Ok(());
    }
    match outcome.summary.drops.get(DropReason::DataQueueFull.name()) {
        Some(dropped) => Err(format!("lossless switches dropped {dropped} packets")),
        None => Ok(()),
    }
}

/// Every SIM is answered in time or given up, once, or is on its way as the run ends.
fn probes(outcome: &Outcome) -> Result<(), String> {
    let Some(dcsim) = outcome.summary.dcsim else { return Ok(()) };
    let sims = dcsim.sims;
    if sims.sent != sims.acked + sims.timed_out + sims.open {
        return Err(format!("SIMs that did not end once: {sims:?}"));
    }
    if sims.wasted + sims.unused > sims.acked {
        return Err(format!("more SIM-ACKs without DATA than came in time: {sims:?}"));
    }
    Ok(())
}

/// Checks the counts of border switches. Notes are packets that they made, and no advice of a
/// receiver is refused. A flow has no queue of its own only where there are few queues.
fn borders(plan: &Plan, outcome: &Outcome) -> Result<(), String> {
    let Some(counts) = outcome.summary.mlcc else { return Ok(()) };
    let queues = u64::from(plan.draft.switch.programs.dci.queues);
    let made = outcome.summary.packets.originated.unwrap_or(0);
    let wrong = [
        ("notes that no switch made", counts.switch_int > made),
        ("refused advice", counts.advice_refused > 0),
        ("more queues than there are", counts.queues_peak > queues),
        ("an early end of the pool", counts.pool_exhausted > 0 && counts.queues_peak < queues),
    ];
    match wrong.into_iter().find(|(_, is_wrong)| *is_wrong) {
        Some((what, _)) => Err(format!("{what}: {counts:?}")),
        None => Ok(()),
    }
}

/// Checks that nothing beats the lower bound, which is exact up to the difference between the
/// longest path and the shortest.
fn speed(plan: &Plan, outcome: &Outcome) -> Result<(), String> {
    let Some(completion) = outcome.summary.completion_us else { return Ok(()) };
    let far = HostId(plan.hosts() - 1);
    let longest = base_one_way(&plan.tree, HostId(0), far, u64::from(plan.fabric.mtu));
    let least = outcome.summary.ideal_us - longest.as_us_f64();
    if completion < least {
        return Err(format!("done after {completion} us, {least} us at best"));
    }
    let offered: Bytes = plan.matrix.total_bytes();
    if outcome.summary.bytes.delivered == offered.0 {
        return Ok(());
    }
    Err(format!("{:?} of {offered:?} delivered", outcome.summary.bytes))
}

/// The lines of flows.jsonl.
pub(crate) fn flows_of(plan: &Plan, outcome: &Outcome) -> String {
    let mut lines = Vec::new();
    let written = outcome.write_flows(plan, 0, &mut lines);
    written.map_or_else(|error| error.to_string(), |()| String::from_utf8_lossy(&lines).into())
}
