//! The forecast before a simulation: prints the cost of a long one, and refuses one that memory
//! cannot hold.

use std::cmp::Reverse;

use experiments::forecast::Forecast;
use experiments::plan::Plan;
use transport::{Bytes, Duration};

use crate::console::Console;
use crate::doctor::{self, Machine};
use crate::failure::Failure;
use crate::table;

/// A run that takes no longer than this needs no announcement.
const SHORT: Duration = Duration::from_s(2);

/// Prints what `plans`, of which `jobs` run at a time, will cost, on standard error, unless that is
/// little or `quiet`.
///
/// # Errors
/// When they need more memory than there is, or than `run.memory` allows.
pub(super) fn print(
    plans: &[&Plan],
    jobs: usize,
    quiet: bool,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let mut forecasts: Vec<Forecast> = plans.iter().map(|plan| Forecast::of(plan)).collect();
    // The most that may run at the same time.
    forecasts.sort_unstable_by_key(|forecast| Reverse(forecast.memory));
    let memory = forecasts.iter().take(jobs.max(1)).map(|forecast| forecast.memory.0);
    let all = Forecast {
        hops: forecasts.iter().map(|forecast| forecast.hops).fold(0, u64::saturating_add),
        time: forecasts.iter().fold(Duration::ZERO, |sum, forecast| sum + forecast.time),
        memory: Bytes(memory.fold(0, u64::saturating_add)),
    };
    tracing::debug!(hops = all.hops, seconds = all.time.as_us_f64() / 1e6, "forecast");
    if let Some(refusal) = refusal(plans, &all, doctor::room_bytes(&Machine::this())) {
        return Err(Failure::Unfit(refusal));
    }
    if all.time > SHORT && !quiet {
        writeln!(console.err, "forecast: {all}")?;
    }
    Ok(())
}

/// The reason why runs that need `forecast` cannot be started where there is only `room`.
fn refusal(plans: &[&Plan], forecast: &Forecast, room: Option<u64>) -> Option<String> {
    let (limit, whose) = match plans.iter().filter_map(|plan| plan.draft.memory).max() {
        Some(Bytes(limit)) => (limit, "run.memory allows"),
        None => (room?, "this machine has free"),
    };
    if forecast.memory.0 <= limit {
        return None;
    }
    let flows = plans.iter().map(|plan| plan.matrix.flows.len()).max().unwrap_or(0);
    let hosts = plans.iter().map(|plan| plan.hosts()).max().unwrap_or(0);
    let needed = forecast.memory.0.div_ceil(MB);
    #[expect(clippy::cast_precision_loss, reason = "a display; 53 bits are plenty")]
    let limit = table::size(limit as f64);
    Some(format!(
        "memory: the run is expected to need {needed} MB ({flows} flows, {hosts} hosts), {whose} \
         {limit}\n  help: use a machine with more memory, or a matrix with fewer flows or \
         hosts; --set run.memory={needed}MB starts it all the same"
    ))
}

/// Bytes of a megabyte, as `run.memory` counts.
const MB: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use experiments::plan::{Draft, Origin};
    use experiments::topology;
    use experiments::workload::{FlowSpec, Matrix};
    use transport::HostId;

    use super::*;

    fn plan(settings: &[(&str, &str)]) -> Plan {
        let mut draft = Draft::default();
        for (key, value) in settings {
            draft.set(key, value, Origin::Set).unwrap();
        }
        let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(1), Bytes(1 << 20)));
        Plan::new(&draft, matrix, &topology::by_name("paper-testbed").unwrap()).unwrap()
    }

    #[test]
    fn a_run_is_refused_where_there_is_too_little_memory_unless_the_user_says_otherwise() {
        let plan_of = |settings: &[(&str, &str)]| {
            let plan = plan(settings);
            let forecast = Forecast::of(&plan);
            (plan, forecast)
        };
        let (plan, forecast) = plan_of(&[]);
        assert_eq!(refusal(&[&plan], &forecast, None), None);
        assert_eq!(refusal(&[&plan], &forecast, Some(forecast.memory.0)), None);
        let text = refusal(&[&plan], &forecast, Some(forecast.memory.0 - 1)).unwrap();
        let help = text.split_once("--set run.memory=").unwrap().1;
        let allowed = help.split_whitespace().next().unwrap();
        let (plan, forecast) = plan_of(&[("run.memory", allowed)]);
        assert_eq!(refusal(&[&plan], &forecast, Some(0)), None);
        let (plan, forecast) = plan_of(&[("run.memory", "1MB")]);
        let text = refusal(&[&plan], &forecast, None).unwrap();
        assert!(text.contains("run.memory allows 1.0 MB"), "{text}");
        // Without a unit they are bytes.
        let (plan, forecast) = plan_of(&[("run.memory", "512")]);
        let text = refusal(&[&plan], &forecast, None).unwrap();
        assert!(text.contains("run.memory allows 512 B"), "{text}");
    }
}
