//! Hosts that begin anew in the middle of a run, without the state of any flow, in the swarm's
//! scenarios; in half of them a switch forges and replays control packets beside them.
//!
//! Flows that such a host sends fail, and no other flow does: a sender opens its flow to it anew
//! and sends all that was not acknowledged. The process that runs now may deliver a message which
//! an earlier one has delivered, if its sender lacked an acknowledgement. An acknowledged message
//! comes again only under the key of its earlier delivery. One process delivers a message twice
//! only if the flow was opened anew, under two keys, of which one is that of the process's
//! beginning. The audit finds any other repetition. The books balance, and neither the length of
//! windows nor the number of threads changes anything.

use experiments::conductor::FlowRecord;
use experiments::measure::Outcome;
use experiments::plan::{Origin, Plan};
use experiments::topology::programs::ProgramSpec;
use experiments::workload::FlowSpec;
use fabric::ProgramKind;
use transport::{DropReason, Duration, HostId, Instant, Rng};

use super::case::{Case, below, micros};
use super::invariants::{self, flows_of, run_within_budget};

/// What restarts did in a case.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// Flows that failed since their sender began anew.
    pub(crate) ended: u64,
    /// Flows that their senders opened again, since their receiver had forgotten them.
    pub(crate) reopened: u64,
    /// Packets without the key of their flow, dropped by hosts.
    pub(crate) forged: u64,
    /// Messages delivered.
    pub(crate) messages: u64,
    /// Messages that another process had delivered before.
    pub(crate) again: u64,
    /// Messages that one process delivered twice, under two keys of their flow.
    pub(crate) twice: u64,
}

impl Done {
    pub(crate) fn add(&mut self, other: &Self) {
        self.ended += other.ended;
        self.reopened += other.reopened;
        self.forged += other.forged;
        self.messages += other.messages;
        self.again += other.again;
        self.twice += other.twice;
    }
}

/// Instants at which a host of `case` begins anew: from a part of a round trip after the start to
/// the time in which its flows are long under way.
fn restarts(case: &Case, rng: &mut Rng) -> Vec<(Instant, HostId)> {
    let (mut all, rtt) = (Vec::new(), case.round_trip().as_us_f64());
    for _ in 0..=below(rng, 3) {
        let flow = &case.matrix.flows[below(rng, case.matrix.flows.len())];
        let host = if rng.chance(0.6) { flow.dst } else { flow.src };
        let octave = (0..below(rng, 7)).fold(0.5, |span, _| span * 2.0);
        let at = micros(rtt * octave * (0.5 + rng.next_f64()));
        all.push((Instant::ZERO + at, host));
    }
    all
}

/// The plan of a case with these restarts; `None` for a scheduler whose peers still have state of a
/// host that begins anew.
fn plan(
    case: &Case,
    restarts: &[(Instant, HostId)],
    rng: &mut Rng,
) -> Result<Option<Plan>, String> {
    let mut draft = case.draft();
    if draft.settings.sched.facts().left_by_restarts.is_some() {
        return Ok(None);
    }
    for (at, HostId(host)) in restarts {
        let us = at.since(Instant::ZERO).as_us_f64();
        let fault = format!("restart@host:{host},from_us={us:.6}");
        draft.set("fault", &fault, Origin::Set).map_err(|error| error.to_string())?;
    }
    let with = |programs: Vec<ProgramSpec>| {
        let mut draft = draft.clone();
        draft.programs.extend(programs);
        Plan::new(&draft, case.matrix.clone(), &case.topology)
    };
    let mut meddler: ProgramSpec = "pfc@tor:0".parse().unwrap();
    meddler.program = ProgramKind::Meddler;
    if rng.chance(0.5)
        && let Ok(plan) = with(vec![meddler])
    {
        return Ok(Some(plan));
    }
    with(Vec::new()).map(Some).map_err(|error| format!("no plan: {error}"))
}

/// Runs the case `number` of `seed` with restarts, twice; `None` where no host can begin anew.
pub(crate) fn check(seed: u64, number: u64) -> Result<Option<Done>, String> {
    let case = Case::new(seed, number);
    let mut rng = Rng::new(seed).fork("restarts", number);
    let restarts = restarts(&case, &mut rng);
    let Some(mut plan) = plan(&case, &restarts, &mut rng)? else { return Ok(None) };
    let found = |what: String| format!("{what}\nrestarts: {restarts:?}");
    let outcome = ended(&plan, Duration::MAX).map_err(found)?;
    let done = judged(&case, &plan, &outcome, &restarts).map_err(found)?;
    let window = if number.is_multiple_of(2) { Duration::ZERO } else { Duration::from_ns(200) };
    let threads = usize::try_from(number / 2 % 3).unwrap() + 1;
    plan.draft.threads = threads;
    let again = ended(&plan, window).map_err(found)?;
    let differs = (&again.summary, &again.series) != (&outcome.summary, &outcome.series);
    if differs || flows_of(&plan, &again) != flows_of(&plan, &outcome) {
        return Err(found(format!("a run in windows of {window:?} on {threads} threads differs")));
    }
    Ok(Some(done))
}

fn ended(plan: &Plan, window: Duration) -> Result<Outcome, String> {
    let (outcome, spent) = run_within_budget(plan, window)?;
    if spent || outcome.stopped { Err("no end".to_owned()) } else { Ok(outcome) }
}

fn judged(
    case: &Case,
    plan: &Plan,
    outcome: &Outcome,
    restarts: &[(Instant, HostId)],
) -> Result<Done, String> {
    let audit = &outcome.summary.audit;
    if !audit.ok {
        return Err(format!("the audit found {:?}", audit.findings));
    }
    let drops = |reason: DropReason| outcome.summary.drops.get(reason.name()).copied();
    // A forged announcement may take the last place of a table, and a true one finds none then.
    let crowded = !plan.draft.programs.is_empty() && drops(DropReason::TableFull).is_some();
    let some_failed = outcome.records.iter().any(|record| record.failed);
    let count = |name: &str| outcome.summary.counters.get(name).copied().unwrap_or(0);
    let lines = || plan.matrix.flows.iter().zip(&outcome.records);
    let forgot = |spec: &FlowSpec, record: &FlowRecord| {
        let ends = |(at, host): &(Instant, HostId)| *host == spec.src && *at >= record.start;
        record.failed && restarts.iter().any(ends)
    };
    let ended = count("flows.ended_by_restart");
    let candidates = lines().filter(|(spec, record)| forgot(spec, record)).count() as u64;
    for (line, (spec, record)) in lines().enumerate() {
        // Where a flow had failed before its sender began anew, a fault has to explain each.
        if ended == candidates && forgot(spec, record) {
            continue;
        }
        if record.failed && crowded {
            continue;
        }
        invariants::flow(case, plan, spec, record, some_failed)
            .map_err(|found| format!("flow {line}: {found}"))?;
    }
    let forged = drops(DropReason::WrongKey).unwrap_or(0);
    Ok(Done {
        ended,
        reopened: outcome.stats.flows_reopened,
        forged,
        messages: outcome.stats.messages_delivered,
        again: count("messages.delivered_again"),
        twice: count("messages.delivered_twice"),
    })
}
