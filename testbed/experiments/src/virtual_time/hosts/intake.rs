//! Data that a host takes in without sending anything for it: most turns of a host whose scheduler
//! reports arrivals at times of its own, as Zeropod's does.

use fabric::{Flight, Network};
use transport::{HostId, Instant};

use super::Hosts;
use crate::virtual_time::environment::Environment;

impl Hosts<'_> {
    /// Whether `host` only has to take in data of `flights` at `now`.
    #[inline(never)]
    pub(super) fn takes_in_alone(
        &self,
        host: HostId,
        flights: &[Flight],
        now: Instant,
        network: &Network,
    ) -> bool {
        let state = &self.hosts[self.index_of(host)];
        let due = flights.iter().take_while(|flight| flight.at <= now);
        state.timer > now
            && state.clock.is_exact()
            && state.waiting.is_empty()
            && state.kept.front().is_none_or(|kept| kept.at > now)
            && state.starts.front().is_none_or(|&(at, _)| at > now)
            && self.posted.is_none()
            && network.nic_turn(host) > now
            && due.into_iter().all(|flight| flight.packet.is_data() || flight.is_wake())
    }

    /// Reports the messages that end with data which `host` has taken in. True where this leaves
    /// the host nothing to send; then its endpoint is not asked for packets. A host of a pod would
    /// otherwise be asked for each cell, each time in vain.
    #[inline(never)]
    pub(super) fn take_in(
        &mut self,
        host: HostId,
        now: Instant,
        env: &mut Environment<'_>,
    ) -> bool {
        let place = self.index_of(host);
        let state = &mut self.hosts[place];
        if !state.endpoint.owes_nothing() {
            return false;
        }
        state.report(now, &mut env.conductor);
        state.timer = state.endpoint.poll_timeout().unwrap_or(Instant::FAR_FUTURE);
        !env.conductor.has_triggered()
    }
}
