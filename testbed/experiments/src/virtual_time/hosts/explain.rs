//! Reports of hosts to the journal of a run that explains itself: arrivals and waits.
//!
//! A report reads the endpoints and changes nothing of them, so a run is the same with it and
//! without.

use fabric::{Flags, Packet};
use transport::{HostId, Instant};

use super::Hosts;
use crate::virtual_time::environment::Environment;
use crate::why::journal::{HostEvent, Journal};

impl Hosts<'_> {
    /// Reports to the journal what hosts do from now on.
    pub(in crate::virtual_time) fn explain(&mut self) {
        self.posted = Some(Vec::new());
    }

    /// A packet has arrived at `host`, whose endpoint has handled it.
    #[cold]
    pub(super) fn note_arrival(
        &self,
        host: HostId,
        packet: &Packet,
        now: Instant,
        env: &mut Environment<'_>,
    ) {
        let sent = *env.packets.of(packet.handle);
        let Some(mut journal) = env.packets.journal.take() else { return };
        let corrupt = packet.flags.has(Flags::CORRUPT);
        journal.on_arrived(
            (packet.handle, &sent.hdr),
            (sent.from, host),
            packet.class(),
            corrupt,
            now,
        );
        match journal.conn_at(&sent.hdr, host).filter(|_| sent.hdr.is_feedback()) {
            Some(conn) if self.schedules_alone(host) => {
                self.look(host, conn, HostEvent::Arrival, now, &mut journal);
            }
            _ => self.look_at_all(host, HostEvent::Arrival, now, &mut journal),
        }
        env.packets.journal = Some(journal);
    }

    /// Something has happened that may concern all flows of `host`.
    #[cold]
    pub(super) fn note_all(
        &self,
        host: HostId,
        event: HostEvent,
        now: Instant,
        env: &mut Environment<'_>,
    ) {
        let Some(mut journal) = env.packets.journal.take() else { return };
        self.look_at_all(host, event, now, &mut journal);
        env.packets.journal = Some(journal);
    }

    /// Looks at the flows for which messages were posted.
    #[cold]
    pub(super) fn note_posted(&mut self, host: HostId, now: Instant, env: &mut Environment<'_>) {
        let Some(posted) = &mut self.posted else { return };
        let conns = std::mem::take(posted);
        let Some(journal) = &mut env.packets.journal else { return };
        for conn in conns {
            let at = conn as usize;
            let Some(flow) = self.flows.get(at).copied().flatten() else { continue };
            let endpoint = &self.hosts[self.index_of(host)].endpoint;
            if let Some(key) = endpoint.flow_key(flow) {
                journal.name(at, host, key.0);
            }
            self.look(host, conn, HostEvent::Posted, now, journal);
        }
    }

    /// Looks at the flows of `host` that have sent.
    #[cold]
    pub(super) fn note_sent(&self, host: HostId, now: Instant, env: &mut Environment<'_>) {
        let Some(journal) = &mut env.packets.journal else { return };
        for conn in journal.take_senders() {
            self.look(host, conn, HostEvent::Sent, now, journal);
        }
    }

    /// Whether an arrival for one flow of `host` lets no other flow send.
    fn schedules_alone(&self, host: HostId) -> bool {
        let scheduler = self.hosts[self.index_of(host)].endpoint.scheduler();
        scheduler.kind().facts().only_takes_turns
    }

    fn look_at_all(&self, host: HostId, event: HostEvent, now: Instant, journal: &mut Journal) {
        for conn in journal.conns_of(host) {
            self.look(host, conn, event, now, journal);
        }
    }

    fn look(&self, host: HostId, conn: u32, event: HostEvent, now: Instant, journal: &mut Journal) {
        let Some(flow) = self.flows.get(conn as usize).copied().flatten() else { return };
        let state = &self.hosts[self.index_of(host)];
        // By the network's clock: that of the host may draw chance when it is read.
        let Some(standing) = state.endpoint.flow_standing(flow, now) else { return };
        if let Some(key) = state.endpoint.flow_key(flow).filter(|key| !journal.has_flow(key.0)) {
            journal.name(conn as usize, host, key.0);
        }
        let until = standing.until.map(|at| state.clock.when(at));
        journal.on_standing(conn, (standing, until), event, now);
    }
}
