//! Whether the scheduler serves the labels of flows.

use transport::sched::{Label, SchedKind};

use super::RunError;
use crate::input::InputError;
use crate::workload::cm::MatrixLine;
use crate::workload::{FlowIndex, Matrix};

/// Refuses the first flow with a priority where the scheduler serves none.
pub(super) fn check(sched: SchedKind, matrix: &Matrix) -> Result<(), RunError> {
    let urgent = (0..).zip(&matrix.flows).find(|(_, flow)| flow.prio != Label::PRIO_NONE);
    let Some((index, flow)) = urgent.filter(|_| !sched.serves_prio()) else { return Ok(()) };
    let found = format!("`prio {}`", flow.prio);
    let expected = format!("no `prio` with sched={}, which serves none", sched.name());
    let serving: Vec<_> = SchedKind::ALL.iter().filter(|kind| kind.serves_prio()).collect();
    let names = serving.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
    let help = format!("leave it out, or use sched=NAME, one of {names}");
    let line = MatrixLine::Flow(FlowIndex(index));
    Err(RunError::at_line(line, InputError::new(found, expected).help(help)))
}
