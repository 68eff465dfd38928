//! When schedulers of pods are down: the faults `kill` and `restart` of a scenario, by the switch
//! of the scheduler.

use std::collections::BTreeMap;

use fabric::ProgramKind;
use transport::{Duration, Instant};

use super::{Draft, RunError};
use crate::scenario::fault::{FaultKind, FaultSpec};
use crate::topology::{FatTree, LinkSelector};

/// The time for which a scheduler is down that restarts and was not killed before.
const RESTART: Duration = Duration::from_ns(1);

/// From when until when each scheduler is down, ascending.
///
/// # Errors
/// A fault of a scheduler that is not there or does not run, and one that is killed twice.
pub(super) fn outages(
    draft: &Draft,
    tree: &FatTree,
    programs: &BTreeMap<u32, ProgramKind>,
) -> Result<BTreeMap<u32, Vec<(Instant, Instant)>>, RunError> {
    let mut faults: Vec<&FaultSpec> =
        draft.faults.iter().filter(|fault| fault.kind.is_of_end()).collect();
    faults.sort_by_key(|fault| fault.from);
    let mut outages: BTreeMap<u32, Vec<(Instant, Instant)>> = BTreeMap::new();
    for fault in faults {
        let LinkSelector::Scheduler { pod, backup, .. } = fault.links else { continue };
        let switch = tree.scheduler_at(pod, backup);
        let switch = switch.map_err(|error| RunError::absent(fault, error))?;
        if programs.get(&switch) != Some(&ProgramKind::PodScheduler) {
            let help = "use --transport zeropod, or leave it out";
            let expected = "a scheduler that runs: with sched=zeropod";
            return Err(RunError::of_fault(fault, expected, help));
        }
        let of_switch = outages.entry(switch).or_default();
        let from = Instant::ZERO + fault.from;
        let until = fault.until.map_or(Instant::FAR_FUTURE, |until| Instant::ZERO + until);
        match of_switch.last_mut().filter(|(_, until)| *until > from) {
            Some(last) if fault.kind == FaultKind::Restart => last.1 = from,
            Some(_) => {
                let help = "write a restart before it, or leave one of the two out";
                let expected = "a scheduler that runs: an earlier fault killed it";
                return Err(RunError::of_fault(fault, expected, help));
            }
            None if fault.kind == FaultKind::Restart => of_switch.push((from, from + RESTART)),
            None => of_switch.push((from, until)),
        }
    }
    Ok(outages)
}
