//! Hosts as workers on polling threads, for every world in real time.
//!
//! [`hosts`] makes the workers and their threads, and [`control`] is the application of each.
//! [`observers`] shows them while they run, [`counters`] collects what they counted, and
//! [`lateness`] judges whether their polls came in time.

pub(crate) mod control;
pub(crate) mod counters;
pub(crate) mod hosts;
pub(crate) mod lateness;
pub(crate) mod observers;

use experiments::measure::Adapted;
use experiments::plan::{Plan, RunError};
use transport::{Config, Duration};
use transport_dpdk::{SharedKeys, TimeScale};

use crate::dpdk_error::unfit;

pub use lateness::LATE_SHARE_MAX;

/// The settings of policies that [`keyed`] changes at the hosts of `plan`, since they poll.
pub(crate) fn changed_by_polling(plan: &Plan) -> impl Iterator<Item = Adapted> {
    let why = "hosts poll their devices, so a packet waits for the next poll";
    let changes = plan.changes_on_devices().into_iter();
    changes.map(move |(key, value)| Adapted::new(&key, value, why))
}

/// `config` with a secret of the operating system's, so that no other host can guess flows' keys,
/// and with what [`transport_dpdk::keyed`] changes beside it.
///
/// # Errors
/// When the operating system gives no random octets, or the settings do not fit with keys.
pub(crate) fn keyed(config: &Config) -> Result<Config, RunError> {
    transport_dpdk::keyed(config).map_err(|error| match error.kind() {
        // Not the lack of octets: the settings do not fit with keys in the headers.
        std::io::ErrorKind::InvalidInput => unfit(&error),
        _ => no_chance(&error),
    })
}

/// [`keyed`], and with the lengths of sealed packets where there are `keys`.
///
/// # Errors
/// As [`keyed`].
pub(crate) fn secured(config: &Config, keys: Option<&SharedKeys>) -> Result<Config, RunError> {
    let config = keyed(config)?;
    if keys.is_none() {
        return Ok(config);
    }
    transport_dpdk::sealed(&config).map_err(|error| unfit(&error))
}

/// A number that no other host can guess.
///
/// # Errors
/// When the operating system gives no random octets.
pub(crate) fn random() -> Result<u64, RunError> {
    transport_dpdk::random().map_err(|error| no_chance(&error))
}

fn no_chance(error: &std::io::Error) -> RunError {
    RunError::Environment(format!("no random octets from the operating system: {error}"))
}

/// `real` time in network time.
pub(crate) fn network_time(real: Duration, scale: TimeScale) -> Duration {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "scale is >= 1")]
    Duration::from_ps((real.as_us_f64() * 1e6 / scale.factor()) as u64)
}
