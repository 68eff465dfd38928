//! When hosts begin anew. That is a border of windows: every host has run up to the instant, and
//! none beyond it. So what is known then of messages is the same in windows of any length, and on
//! any number of threads.

use std::collections::{BTreeMap, VecDeque};
use std::ops::DerefMut;

use transport::{Config, HostId, Instant, Rng, Settings};

use super::part::Part;
use crate::conductor::restarts::{Known, Repeats};
use crate::measure::Counters;
use crate::plan::{Plan, RunError};

/// The hosts that have still to begin anew.
pub(super) struct Restarts {
    /// Ascending.
    due: VecDeque<Restart>,
}

/// A host that is to begin anew.
struct Restart {
    at: Instant,
    host: HostId,
    /// The configuration of the process that begins, with an incarnation of its own.
    config: Config,
    rng: Rng,
}

impl Restarts {
    /// The restarts of `plan`.
    ///
    /// # Errors
    /// When a setting is out of range.
    pub(super) fn new(plan: &Plan, rng: &Rng) -> Result<Self, RunError> {
        let (mut due, mut lives) = (VecDeque::new(), BTreeMap::<HostId, u64>::new());
        let restarts = plan.host_restarts();
        if restarts.is_empty() {
            return Ok(Self { due });
        }
        let configs = plan.host_configs()?;
        for (at, host) in restarts {
            let life = lives.entry(host).or_default();
            *life += 1;
            let before = &configs[host.0 as usize];
            // 1..=4095, as the setting's range is.
            let incarnation = (u64::from(before.incarnation) - 1 + *life) % 4095 + 1;
            let incarnation = u16::try_from(incarnation).unwrap_or(1);
            let config = Config::new(Settings { incarnation, ..Settings::clone(before) })?;
            let rng = rng.fork("restarted", u64::from(host.0)).fork("life", *life);
            due.push_back(Restart { at, host, config, rng });
        }
        Ok(Self { due })
    }

    /// Whether no host begins anew any more.
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// When the next host begins anew.
    pub(super) fn next_at(&self) -> Instant {
        self.due.front().map_or(Instant::FAR_FUTURE, |next| next.at)
    }

    /// Lets hosts begin anew that are to do so at `now` or before it; all of `parts` are at `now`,
    /// and have exchanged what they have for each other.
    pub(super) fn catch_up<'a>(
        &mut self,
        now: Instant,
        parts: &mut [impl DerefMut<Target = Part<'a>>],
    ) {
        while self.next_at() <= now
            && let Some(restart) = self.due.pop_front()
        {
            begin_anew(restart, parts);
        }
    }
}

/// The state of messages and flows to `host`, at the instant at which it begins anew.
fn known<'a>(host: HostId, parts: &[impl DerefMut<Target = Part<'a>>]) -> Known {
    let mut known = Known::default();
    for part in parts {
        known.unacked.extend(part.hosts.unacked());
        known.keys.extend(part.hosts.keys_to(host, &part.env.conductor));
    }
    known
}

#[cold]
fn begin_anew<'a>(restart: Restart, parts: &mut [impl DerefMut<Target = Part<'a>>]) {
    let Restart { host, config, rng, .. } = restart;
    let known = known(host, parts);
    if let Some(part) = parts.iter_mut().find(|part| part.hosts.has(host)) {
        let Part { hosts, env, .. } = &mut **part;
        env.conductor.on_restart(host, &known);
        hosts.begin_anew(host, (&config, rng), &env.conductor);
    }
}

/// Adds how many messages came again by another process, and how many by the same one, and how many
/// flows restarts ended.
pub(super) fn count(repeats: Repeats, counters: &mut Counters) {
    let counts = [
        ("messages.delivered_again", repeats.again),
        ("messages.delivered_twice", repeats.twice),
        ("flows.ended_by_restart", repeats.ended),
    ];
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        counters.insert(name.to_owned(), count);
    }
}
