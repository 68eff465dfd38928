//! Hosts that begin anew in the middle of a run: another process, which has no state of any flow.

use fabric::Network;
use transport::{Config, Endpoint, HostId, Instant, Rng, Settings, Stats};

use super::{Environment, HORIZON, Hosts};
use crate::workload::FlowIndex;

/// Stands for the new beginning of a host among the flows that it starts.
pub(super) const RESTART: FlowIndex = FlowIndex(u32::MAX);

/// What hosts need that begin anew, and what their earlier processes have counted.
pub(super) struct Lives {
    configs: Vec<Config>,
    rng: Rng,
    /// The sum of the counters of processes that are over.
    pub(super) former: Stats,
    /// New beginnings of each host so far.
    counts: Vec<u16>,
}

impl Lives {
    /// All hosts are in their first life.
    pub(super) fn new(configs: &[Config], rng: &Rng) -> Self {
        let rng = rng.fork("restarted", 0);
        let (configs, counts) = (configs.to_vec(), vec![0; configs.len()]);
        Self { configs, rng, former: Stats::default(), counts }
    }
}

impl Hosts<'_> {
    /// `host` is to begin anew at `at`.
    pub(in crate::virtual_time) fn restart_at(
        &mut self,
        host: HostId,
        at: Instant,
        network: &mut Network,
    ) {
        let place = self.index_of(host);
        let starts = &mut self.hosts[place].starts;
        let behind = starts.partition_point(|(start, _)| *start <= at);
        starts.insert(behind, (at, RESTART));
        network.wake_host(host, Instant::ZERO, at);
    }

    /// Another process takes the place of `host`. Packets that were given to its card leave all the
    /// same.
    #[cold]
    pub(super) fn restart(&mut self, host: HostId, now: Instant, env: &mut Environment<'_>) {
        let place = self.index_of(host);
        let Lives { configs, rng, former, counts } = &mut self.lives;
        let count = &mut counts[place];
        let state = &mut self.hosts[place];
        let conductor = &mut env.conductor;
        state.report(now, conductor);
        conductor.on_restart(host, &env.packets.tags());
        former.add(state.endpoint.stats());
        *count = count.saturating_add(1);
        let config = &configs[place];
        let incarnation = (*count % 4095) + 1;
        let next = Config::new(Settings { incarnation, ..(**config).clone() });
        let rng = rng.fork("host", u64::from(host.0) << 16 | u64::from(*count));
        state.endpoint = Endpoint::new(&next.unwrap_or_else(|_| config.clone()), host, rng);
        state.endpoint.keep_until_departure(HORIZON);
        state.timer = Instant::FAR_FUTURE;
        state.waiting.clear();
        state.refused.clear();
        let own = self.plan.matrix.flows.iter().enumerate().filter(|(_, spec)| spec.src == host);
        own.for_each(|(line, _)| self.flows[conductor.connection(line)] = None);
    }
}
