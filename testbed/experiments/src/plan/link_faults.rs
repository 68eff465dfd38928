//! The links that faults and failures act on.

use std::cell::LazyCell;
use std::ops::Deref;

use fabric::{Blueprint, FaultKind, FaultSpec, PortId, ProgramKind};
use transport::Instant;

use super::{Plan, RunError, telemetry};
use crate::input::InputError;
use crate::scenario::fault;
use crate::topology::LinkSelector;
use crate::topology::programs::Switches;
use crate::workload::cm::MatrixLine;
use crate::workload::matrix::LinkFailure;

/// A fault with the ports it acts on.
#[derive(Clone, Debug)]
pub struct LinkFault {
    /// The transmitters.
    pub ports: Vec<PortId>,
    /// The fault and its time.
    pub spec: FaultSpec,
}

impl Plan {
    /// The faults of the draft and the failures of the matrix, with the ports they act on.
    ///
    /// # Errors
    /// When one names links that the topology does not have.
    pub fn link_faults(&self) -> Result<Vec<LinkFault>, RunError> {
        let failures = (0..).zip(&self.matrix.failures);
        let failures = failures.map(|(number, failure)| self.failure(number, failure));
        let of_links = self.draft.faults.iter().filter(|fault| !fault.kind.is_of_end());
        let network = LazyCell::new(|| self.blueprint());
        let faults = of_links.map(|fault| self.fault(fault, &network));
        failures.chain(faults).collect()
    }

    fn failure(&self, number: u32, failure: &LinkFailure) -> Result<LinkFault, RunError> {
        let LinkFailure { tier, switch, link } = *failure;
        let ports = self.tree.link(tier, switch, link).map_err(|error| {
            let found = format!("a failure of {} {switch} link {link}: {error}", tier.name());
            let error =
                InputError::new(found, "a link of this network: one up, or one down at the top")
                    .help("correct switch_type, switch_id or link_id, or leave the failure out");
            RunError::at_line(MatrixLine::Failure(number), error)
        })?;
        let until = Instant::FAR_FUTURE;
        let spec = FaultSpec { from: Instant::ZERO, until, kind: FaultKind::Down };
        Ok(LinkFault { ports: ports.into(), spec })
    }

    fn fault(
        &self,
        fault: &fault::FaultSpec,
        network: &impl Deref<Target = Blueprint>,
    ) -> Result<LinkFault, RunError> {
        self.check_crash(fault, network)?;
        let named = fault.on(&self.tree);
        let (ports, spec) = named.map_err(|error| RunError::absent(fault, error))?;
        if matches!(fault.kind, fault::FaultKind::Degrade(_)) {
            telemetry::check_degraded(fault, &ports, network)?;
        }
        Ok(LinkFault { ports, spec })
    }

    /// A switch that crashes runs a program that can begin anew, or none.
    fn check_crash(
        &self,
        fault: &fault::FaultSpec,
        network: &impl Deref<Target = Blueprint>,
    ) -> Result<(), RunError> {
        let LinkSelector::Switch { tier, switch, .. } = fault.links else { return Ok(()) };
        if fault.kind != fault::FaultKind::Crash {
            return Ok(());
        }
        let at = Switches::One(tier, switch);
        let number = self.tree.switches(&at).ok().and_then(|mut range| range.next());
        let runs = number.and_then(|number| network.programs.get(&number).copied());
        let Some(program) = runs.filter(|program| !program.begins_anew()) else { return Ok(()) };
        let found = format!("`{fault}`, a switch with the program {}", program.name());
        let anew = ProgramKind::ALL.iter().filter(|program| program.begins_anew());
        let names: Vec<&str> = anew.map(|program| program.name()).collect();
        let expected = format!("a switch without a program, or with {}", names.join(" or "));
        let error = InputError::new(found, expected).help("use down on its links instead");
        Err(RunError::at_fault(fault, error))
    }
}
