//! Zeropod's hosts in a run of this world: their scheduler is a process, and their epochs follow
//! from what all of them have measured.

use experiments::hosts_file::HostsFile;
use experiments::input::InputError;
use experiments::plan::{Draft, Measured, Plan, RunError};
use transport::sched::SchedKind;
use transport::sched::zeropod::PodCounts;
use transport::{Config, Duration};

use super::message::MeasurePart;
use super::real_network::RealNetwork;

const WHY: &str = "measured: the jitter of echoes between hosts and to the scheduler, nine of ten";

/// Whether hosts of `plan` are in a pod.
fn is_pod(plan: &Plan) -> bool {
    plan.settings.sched == SchedKind::Zeropod
}

/// The number of the scheduler behind that of the last host, where hosts are in a pod.
pub(super) fn scheduler(plan: &Plan, network: &HostsFile) -> Option<u32> {
    let has = is_pod(plan) && network.scheduler.is_some();
    has.then(|| u32::try_from(network.hosts.len()).unwrap_or(u32::MAX))
}

/// Refuses keys: the scheduler has none.
pub(super) fn check(plan: &Plan, network: &RealNetwork) -> Result<(), RunError> {
    if !is_pod(plan) || network.keys.is_none() {
        return Ok(());
    }
    let error = InputError::new("keys, with sched=zeropod", "packets that the scheduler can read");
    Err(error.at("--security", 0, 0).help("leave it out, or use another transport").into())
}

/// More than any network's round trip: base RTTs end there.
const MEASURED_MAX: Duration = Duration::from_s(2);

/// Has epochs follow from the measurements of all hosts, and the longest base RTT between two of
/// them; the settings that do, with why.
pub(super) fn fit(
    draft: &mut Draft,
    plan: &Plan,
    (measured, longest): (&[MeasurePart], Option<Duration>),
) -> Result<Vec<(&'static str, String, &'static str)>, RunError> {
    if !is_pod(plan) {
        return Ok(Vec::new());
    }
    let scheduler = measured.iter().filter_map(|part| part.scheduler_ps).map(Duration::from_ps);
    let longest = scheduler.chain(longest).max().unwrap_or_default();
    let jitter = measured.iter().map(|part| part.jitter_ps).max().unwrap_or(0);
    // The first host's, of 16 bits and above 0.
    let chance = measured.first().map_or(0, |part| part.chance);
    let run = u16::try_from(chance % u64::from(u16::MAX)).unwrap_or(0) + 1;
    let measured = Measured {
        // Any host can name any time.
        jitter: Duration::from_ps(jitter).min(MEASURED_MAX),
        base_rtt: longest.min(MEASURED_MAX),
        run,
    };
    let config = Config::new(plan.settings.clone())?;
    let fitted = draft.fit_epochs(&measured, &config)?;
    Ok(fitted.into_iter().map(|(key, value)| (key, value, WHY)).collect())
}

/// The finding about a host whose scheduler was silent for so long that flows were given up.
pub(super) fn findings(pod: &PodCounts, plan: &Plan, network: &HostsFile) -> Option<String> {
    let scheduler = network.scheduler.as_ref().filter(|_| pod.given_up > 0)?;
    let (name, ip, file) = (&scheduler.name, scheduler.ip, &network.file);
    let (flows, after) = (pod.given_up, plan.settings.loss.give_up);
    Some(format!(
        "the scheduler {name} ({ip}) did not answer for {after} (loss.give_up), so {flows} flows \
         were given up: start headrace scheduler --hosts {file} there, and look at what is between"
    ))
}

/// What a host of a pod has counted, by name; nothing elsewhere.
pub(super) fn counters(pod: &PodCounts) -> impl Iterator<Item = (String, u64)> {
    let own = [
        ("cells", pod.cells),
        ("unused", pod.unused),
        ("requests", pod.requests),
        ("repeated", pod.repeated),
        ("late", pod.late),
        ("joins", pod.joins),
        ("answers", pod.answers),
        ("given_up", pod.given_up),
    ];
    let named = own.into_iter().chain(pod.refusals()).filter(|(_, count)| *count > 0);
    named.map(|(name, count)| (format!("zeropod_{name}"), count)).collect::<Vec<_>>().into_iter()
}
