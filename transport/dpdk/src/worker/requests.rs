//! Requests of applications: taken from their rings, in turns, while there is room for their
//! effects.

use transport::{BURST, Instant};

use super::{Application, Worker};
use crate::clock::poll_clock::Clock;
use crate::io::in_place::InPlace;
use crate::io::packet_io::PacketIo;
use crate::io::upkeep::Upkeep;
use crate::payload::memory::Received;
use crate::payload::store::{IncomingBytes, OutgoingBytes};
use crate::worker::connections::RequestOutcome;

impl<Io, P, C> Worker<Io, P, C>
where
    Io: PacketIo + Upkeep + InPlace,
    P: OutgoingBytes + IncomingBytes<Received = Received>,
    C: Clock,
{
    /// Takes requests while there is room for all their effects, at most 32; another application
    /// comes first each time. Returns how many.
    pub(super) fn take_requests(&mut self, now: Instant) -> usize {
        let count = self.apps.len();
        let (mut taken, first) = (0, self.first);
        self.first = if first + 1 < count { first + 1 } else { 0 };
        for at in (first..count).chain(0..first) {
            taken += self.take_from(at, BURST - taken, now);
        }
        taken
    }

    /// Takes at most `most` requests of application `at`. Returns how many.
    fn take_from(&mut self, at: usize, most: usize, now: Instant) -> usize {
        let host = self.core.endpoint().host();
        let addressing = &self.config.addressing;
        let reachable = |peer| addressing.pair(host, peer).is_some();
        let Application { end, connections, outbox } = &mut self.apps[at];
        let mut taken = 0;
        while taken < most && outbox.is_empty() {
            let store = &mut self.store;
            match connections.step(end, &mut self.core, store, reachable, now) {
                Some(RequestOutcome::Posted(msg)) => {
                    if let Some(owner) = self.owners.get_mut(msg.index()) {
                        *owner = u16::try_from(at).unwrap_or(0);
                    }
                    if let Some(meter) = &mut self.meter {
                        meter.posted(msg, now);
                    }
                }
                Some(RequestOutcome::Answered(completion)) => outbox.push(completion),
                Some(RequestOutcome::Done) => {}
                None => break,
            }
            taken += 1;
        }
        taken
    }
}
