//! Mixed networks: the swarm's scenarios with programs in some of the switches and none in others.
//! Programs hold, make and consume packets, pause links, forge and replay. After each run the books
//! must balance, and the number of threads must change nothing; bounds of plain networks do not
//! apply.

use experiments::plan::Plan;
use experiments::topology::programs::ProgramSpec;
use fabric::ProgramKind;
use transport::{DropReason, Duration, Rng};

use super::case::Case;
use super::invariants::{flows_of, run_within_budget};

/// What programs did in a case.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) made: u64,
    /// Packets without the key of their flow, dropped by hosts.
    pub(crate) forged: u64,
    pub(crate) pauses: u64,
}

/// Programs for half of the switches of `case`, some that pause and some examples. Every second
/// case is hostile: a further quarter of its switches forges and replays control packets.
fn programs(case: &Case, rng: &mut Rng) -> Vec<ProgramSpec> {
    let mut all = Vec::new();
    let hostile = rng.fork("hostile", 0).chance(0.5);
    for (tier, name) in (0..).zip(["tor", "agg", "core"]) {
        let switches = if tier < case.topology.tiers { case.topology.switches(tier) } else { 0 };
        for switch in 0..switches {
            let mut spec: ProgramSpec = format!("pfc@{name}:{switch}").parse().unwrap();
            match rng.below(4) {
                0 => {}
                1 => spec.program = ProgramKind::Example,
                2 if hostile => spec.program = ProgramKind::Meddler,
                _ => continue,
            }
            all.push(spec);
        }
    }
    all
}

/// The plan of a case with as many of these programs as can run: buffers may be too small for
/// pauses, and lossless ports take no other program.
fn plan(case: &Case, mut programs: Vec<ProgramSpec>) -> Option<Plan> {
    let with = |programs: &[ProgramSpec]| {
        let mut draft = case.draft();
        draft.programs = programs.to_vec();
        Plan::new(&draft, case.matrix.clone(), &case.topology).ok()
    };
    with(&programs).or_else(|| {
        programs.retain(|spec| spec.program != ProgramKind::Pfc);
        with(&programs)
    })
}

/// Runs the case `number` of `seed` with programs, on one thread and on several; `None` where no
/// program can run.
pub(crate) fn check(seed: u64, number: u64) -> Result<Option<Done>, String> {
    let case = Case::new(seed, number);
    let mut rng = Rng::new(seed).fork("programs", number);
    let Some(mut plan) = plan(&case, programs(&case, &mut rng)) else { return Ok(None) };
    let (outcome, spent) = run_within_budget(&plan, Duration::MAX)?;
    let audit = &outcome.summary.audit;
    if !audit.ok {
        return Err(format!("the audit found {:?}", audit.findings));
    }
    // Where a transport does not finish under such delays, the audit holds nevertheless.
    if !spent {
        plan.draft.threads = 2 + usize::try_from(number % 2).unwrap();
        let (again, _) = run_within_budget(&plan, Duration::MAX)?;
        if flows_of(&plan, &again) != flows_of(&plan, &outcome) || again.summary != outcome.summary
        {
            return Err(format!("a run on {} threads differs", plan.draft.threads));
        }
    }
    let summary = &outcome.summary;
    let pauses = summary.pfc.as_ref().map_or(0, |pfc| pfc.pauses);
    let forged = summary.drops.get(DropReason::WrongKey.name()).copied().unwrap_or(0);
    Ok(Some(Done { forged, made: summary.packets.originated.unwrap_or(0), pauses }))
}
