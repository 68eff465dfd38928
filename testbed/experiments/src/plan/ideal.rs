//! What a plan refuses of the transport `ideal`, which is computed without packets: all that needs
//! packets, queues or links.

use super::{Draft, Origin, Plan, RunError};
use crate::input::InputError;
use crate::workload::cm::MatrixLine;
use crate::workload::matrix::PRIO_DEFAULT;
use crate::workload::{FlowIndex, Matrix};

impl Plan {
    /// Whether this run is computed flow by flow ([`crate::ideal`]) instead of simulated packet by
    /// packet.
    #[must_use]
    pub fn is_ideal(&self) -> bool {
        self.draft.transport.is_ideal()
    }
}

/// Checks that nothing asks for packets where there are none.
pub(super) fn check(draft: &Draft, matrix: &Matrix) -> Result<(), RunError> {
    if !draft.transport.is_ideal() {
        return Ok(());
    }
    let refused = |at: &str, found: String, expected: &str, help: &str| {
        Err(InputError::new(found, expected).at(at, 0, 0).help(help).into())
    };
    let faults = draft.faults.len() + matrix.failures.len();
    if faults > 0 {
        let found = format!("{faults} faults with the transport ideal, which has no links");
        let help = "leave them out, and a topology that has some; or choose another transport";
        return refused("fault", found, "no faults", help);
    }
    if let Some(interval) = draft.sampling {
        let us = interval.as_us_f64();
        let found = format!("sampling every {us} us with the transport ideal, which has no queues");
        let help = "add --set sampling.interval=none, or choose another transport";
        return refused("sampling.interval", found, "no sampling", help);
    }
    let urgent = (0..).zip(&matrix.flows).find(|(_, flow)| flow.prio != PRIO_DEFAULT);
    if let Some((index, flow)) = urgent {
        let found = format!("`prio {}` with the transport ideal", flow.prio);
        let error = InputError::new(found, "no `prio`: the least left is first");
        let line = MatrixLine::Flow(FlowIndex(index));
        return Err(RunError::at_line(line, error.help("leave it out")));
    }
    let policies = ["cc", "lb", "sched", "ec", "trim"];
    let chosen = |key: &&str| matches!(draft.origin(key), Origin::Flag(_) | Origin::Set);
    match policies.into_iter().find(chosen) {
        None => Ok(()),
        Some(key) => {
            let found = format!("`{key}` by {} with the transport ideal", draft.origin(key));
            let expected = "neither controller, balancer, scheduler nor code: no packets are sent";
            refused(key, found, expected, "leave it out, or choose another transport")
        }
    }
}

#[cfg(test)]
mod tests {
    use transport::{Bytes, HostId};

    use super::*;
    use crate::topology;
    use crate::workload::FlowSpec;

    fn refusal(change: impl FnOnce(&mut Draft)) -> String {
        refusal_of(FlowSpec::new(HostId(0), HostId(1), Bytes(1)), change)
    }

    fn refusal_of(flow: FlowSpec, change: impl FnOnce(&mut Draft)) -> String {
        let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
        matrix.push_flow(flow);
        let mut draft = Draft::default();
        draft.set_transport("ideal", Origin::Flag("transport")).unwrap();
        change(&mut draft);
        let plan = Plan::new(&draft, matrix, &topology::by_name("paper-testbed").unwrap());
        plan.map_or_else(|error| error.to_string(), |plan| plan.is_ideal().to_string())
    }

    #[test]
    fn what_needs_packets_is_refused() {
        assert_eq!(refusal(|_| ()), "true");
        let set = |key: &'static str, value: &'static str| {
            refusal(move |draft| draft.set(key, value, Origin::Set).unwrap())
        };
        assert!(set("sampling.interval", "5us").contains("which has no queues"));
        assert!(set("fault", "down@host:0").contains("which has no links"));
        assert!(set("sched", "credit").contains("`sched` by --set"));
        assert!(set("ec", "8,2").contains("`ec` by --set"));
        let cc = refusal(|draft| draft.set_cc("swift", Origin::Flag("cc")).unwrap());
        assert!(cc.contains("`cc` by flag --cc"), "{cc}");
        let lb = refusal(|draft| draft.set_lb("ecmp", Origin::Flag("lb")).unwrap());
        assert!(lb.contains("`lb` by flag --lb"), "{lb}");
        let urgent = FlowSpec { prio: 1, ..FlowSpec::new(HostId(0), HostId(1), Bytes(1)) };
        assert!(refusal_of(urgent, |_| ()).contains("`prio 1` with the transport ideal"));
        // A scenario's other variants may have a balancer.
        let scenario = Origin::scenario("s");
        assert_eq!(refusal(|draft| draft.set_lb("ecmp", scenario).unwrap()), "true");
    }

    #[test]
    fn only_a_simulation_computes_it() {
        let mut draft = Draft::default();
        draft.set_transport("ideal", Origin::Flag("transport")).unwrap();
        for refused in [draft.check_real_world(), draft.check_soft_switch()] {
            assert!(refused.unwrap_err().to_string().contains("--world sim"));
        }
    }
}
