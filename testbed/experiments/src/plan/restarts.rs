//! When hosts begin anew: the faults `restart` of a scenario that name a host.

use std::collections::BTreeSet;

use transport::{HostId, Instant};

use super::{Draft, Plan, RunError};
use crate::scenario::fault::FaultSpec;

impl Plan {
    /// When hosts begin anew, without the state of any flow, ascending; each once at an instant.
    #[must_use]
    pub fn host_restarts(&self) -> Vec<(Instant, HostId)> {
        let restarts = self.draft.faults.iter().filter_map(restart);
        restarts.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// When a host begins anew, where `fault` is that.
fn restart(fault: &FaultSpec) -> Option<(Instant, HostId)> {
    fault.host_restart().map(|host| (Instant::ZERO + fault.from, HostId(host)))
}

/// Checks the restarts of hosts in a network of so many `hosts`.
///
/// # Errors
/// A host that is not there, one that begins anew twice at one instant, and hosts whose transport
/// leaves state at peers or schedulers that another process of the host cannot take up.
pub(super) fn check(draft: &Draft, hosts: u32) -> Result<(), RunError> {
    let mut restarts = BTreeSet::new();
    for fault in &draft.faults {
        let Some((at, host)) = restart(fault) else { continue };
        if host.0 >= hosts {
            let expected = format!("a host of this network: 0 to {}", hosts.saturating_sub(1));
            return Err(RunError::of_fault(fault, expected, "write the number of another host"));
        }
        if let Some(state) = draft.settings.sched.facts().left_by_restarts {
            let name = draft.settings.sched.name();
            let expected = format!("another transport than {name}, {state}");
            return Err(RunError::of_fault(
                fault,
                expected,
                "leave it out, or choose another transport",
            ));
        }
        if !restarts.insert((at, host)) {
            let expected = "one restart of the host at that instant";
            return Err(RunError::of_fault(fault, expected, "leave one of the two out"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use transport::{Bytes, Duration};

    use super::*;
    use crate::plan::Origin;
    use crate::topology;
    use crate::workload::{FlowSpec, Matrix};

    /// What is said of these faults of a flow from host 0 to host 1, and when hosts begin anew.
    fn planned(
        topology: &str,
        transport: &str,
        set: &[(&str, &str)],
    ) -> Result<Vec<(Instant, HostId)>, String> {
        let topology = topology::by_name(topology).unwrap();
        let mut draft = Draft::default();
        draft.set_transport(transport, Origin::Set).unwrap();
        set.iter().for_each(|(key, value)| draft.set(key, value, Origin::Set).unwrap());
        let mut matrix = Matrix { nodes: 2, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(1), Bytes(1)));
        let plan = Plan::new(&draft, matrix, &topology).map_err(|error| {
            let RunError::OfFault(_, input) = &error else { return error.to_string() };
            format!("{input} {}", input.help)
        })?;
        Ok(plan.host_restarts())
    }

    #[test]
    fn hosts_begin_anew_in_the_order_of_time() {
        let faults = ["restart@host:3,from_us=9", "restart@host:1,from_us=2"];
        let set = faults.map(|fault| ("fault", fault));
        let at = |us, host| (Instant::ZERO + Duration::from_us(us), HostId(host));
        assert_eq!(planned("paper-testbed", "smartt", &set), Ok(vec![at(2, 1), at(9, 3)]));
    }

    #[test]
    fn restarts_that_cannot_be_are_refused_with_the_reason() {
        let drift = ("sched.zeropod.clock_drift", "50");
        let of = |fault| ("fault", fault);
        let one = of("restart@host:1,from_us=2");
        for (topology, transport, set, words) in [
            ("paper-testbed", "smartt", &[of("restart@host:16")][..], &["host:16", "0 to "][..]),
            ("paper-testbed", "smartt", &[one, one], &["from_us=2", "one restart"]),
            ("zeropod:8", "zeropod", &[one], &["host:1", "than zeropod", "slots"]),
            ("zeropod:8", "zeropod", &[one, drift], &["host:1", "than zeropod", "slots"]),
            ("paper-testbed", "ideal", &[one], &["transport ideal", "no faults"]),
        ] {
            let said = planned(topology, transport, set).unwrap_err();
            for word in ["fault"].iter().chain(words) {
                assert!(said.contains(word), "{set:?} with {transport}: {said}");
            }
        }
        let apart = [one, of("restart@host:1,from_us=3"), of("restart@host:2,from_us=2")];
        for transport in ["smartt", "phost", "dcpim"] {
            assert_eq!(planned("paper-testbed", transport, &apart).unwrap().len(), 3);
        }
    }
}
