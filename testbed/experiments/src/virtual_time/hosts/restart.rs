//! Hosts that begin anew in the middle of a run: another process, which has no state of any flow.

use transport::{Config, Endpoint, HostId, Instant, Key, Rng};

use super::Hosts;
use crate::conductor::Conductor;
use crate::virtual_time::nics::HORIZON;
use crate::workload::FlowIndex;

/// The endpoint of a process of `host`, which has no state of any flow; it may make trains where
/// `trains` says so.
pub(super) fn endpoint(config: &Config, host: HostId, rng: Rng, trains: bool) -> Endpoint {
    let mut endpoint = Endpoint::new(config, host, rng);
    endpoint.keep_until_departure(HORIZON);
    if trains {
        endpoint.carry_trains();
    }
    endpoint
}

impl Hosts<'_> {
    /// Whether `host` is one of these.
    pub(in crate::virtual_time) fn has(&self, host: HostId) -> bool {
        let place = host.0.checked_sub(self.first);
        place.is_some_and(|place| (place as usize) < self.hosts.len())
    }

    /// Another process takes the place of `host`. Packets that were given to its card leave all the
    /// same.
    pub(in crate::virtual_time) fn begin_anew(
        &mut self,
        host: HostId,
        (config, rng): (&Config, Rng),
        conductor: &Conductor<'_>,
    ) {
        let place = self.index_of(host);
        let state = &mut self.hosts[place];
        self.former.add(&state.endpoint);
        // Where hosts begin anew, something may happen to one cell alone.
        state.endpoint = endpoint(config, host, rng, false);
        state.timer = Instant::FAR_FUTURE;
        state.waiting.clear();
        state.refused.clear();
        let lines = self.plan.matrix.flows.iter().enumerate();
        for (line, _) in lines.filter(|(_, spec)| spec.src == host) {
            self.flows[conductor.connection(line)] = None;
        }
    }

    /// The lines from these hosts to `to`, each with the key that its flow has now. O(lines).
    pub(in crate::virtual_time) fn keys_to(
        &self,
        to: HostId,
        conductor: &Conductor<'_>,
    ) -> impl Iterator<Item = (FlowIndex, Key)> {
        let lines = (0..).map(FlowIndex).zip(&self.plan.matrix.flows);
        let own = lines.filter(move |(_, spec)| spec.dst == to && self.has(spec.src));
        own.filter_map(|(line, spec)| {
            let flow = self.flows[conductor.connection(line.index())]?;
            let key = self.hosts[self.index_of(spec.src)].endpoint.flow_key(flow)?;
            Some((line, key))
        })
    }

    /// The tags of messages that hosts have not got wholly acknowledged. O(messages).
    pub(in crate::virtual_time) fn unacked(&self) -> impl Iterator<Item = u64> {
        self.hosts.iter().flat_map(|host| host.endpoint.departing()).map(|(tag, _)| tag)
    }
}
