//! Reports to applications and to the meter: messages that are over or have come in, and counters.

use transport::{Event, Instant, MsgId};

use super::Worker;
use crate::app::descriptor::{Completion, Failure};
use crate::clock::poll_clock::Clock;
use crate::io::in_place::InPlace;
use crate::io::packet_io::PacketIo;
use crate::io::upkeep::Upkeep;
use crate::payload::memory::Received;
use crate::payload::store::{IncomingBytes, OutgoingBytes};
use crate::telemetry::meter::TurnReport;

impl<Io, P, C> Worker<Io, P, C>
where
    Io: PacketIo + Upkeep + InPlace,
    P: OutgoingBytes + IncomingBytes<Received = Received>,
    C: Clock,
{
    /// Empties the endpoint's queue of events. The next message may take a message's place at once,
    /// so completions for which the application has no room wait in the outbox.
    pub(super) fn collect_events(&mut self, now: Instant) {
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Sent { msg } => {
                    if let Some(meter) = &self.meter {
                        meter.sent(msg, now);
                    }
                    self.end_message(msg, None, now);
                }
                Event::Failed { msg, reason } => self.end_message(msg, Some(reason.into()), now),
                Event::Delivered { msg, from, tag, .. } => {
                    let memory = self.store.deliver(msg);
                    debug_assert!(memory.is_some(), "a delivered message has bytes");
                    self.report(
                        application_of(tag),
                        memory.map_or(Completion::Aborted { from, at: now }, |memory| {
                            Completion::Delivered { from, tag, checksum: 0, memory, at: now }
                        }),
                    );
                }
                Event::Aborted { msg, from } => {
                    self.store.abort(msg);
                    // The tag may never have arrived, so the first application is informed.
                    self.report(0, Completion::Aborted { from, at: now });
                }
            }
        }
    }

    /// Reports that a message is over, once the device is done with its memory too.
    fn end_message(&mut self, msg: MsgId, failed: Option<Failure>, at: Instant) {
        let lent = self.store.release(msg);
        let lent = lent.and_then(|memory| self.io.message_over(memory, failed.is_none()));
        let app = self.owners.get(msg.index()).map_or(0, |owner| usize::from(*owner));
        let names = self.apps.get_mut(app).and_then(|app| app.connections.end_message(msg));
        let Some((connection, cookie)) = names else { return };
        let completion = match failed {
            None => Completion::Sent { cookie, connection, at },
            Some(reason) => Completion::Failed { cookie, connection, reason, at },
        };
        match lent {
            // In order: also behind completions that are ready but wait for an earlier one.
            Some(memory) if memory.holders() > 1 || !self.lingering.is_empty() => {
                self.lingering.push_back((memory, app, completion));
            }
            Some(_) | None => self.report(app, completion),
        }
    }

    /// Reports messages whose memory no device reads any more. In a turn without work the device is
    /// made to free frames that it has sent and kept.
    pub(super) fn end_lingering(&mut self, busy: bool) {
        if self.lingering.is_empty() {
            return;
        }
        if !busy {
            self.io.tx_reclaim();
        }
        // Bounded by the messages that wait here; each is taken out once.
        while self.lingering.front().is_some_and(|(memory, ..)| memory.holders() == 1) {
            let Some((_, app, completion)) = self.lingering.pop_front() else { return };
            self.report(app, completion);
        }
    }

    /// Puts `completion` in line for application `app`, or for the first when there is no such one.
    fn report(&mut self, app: usize, completion: Completion) {
        let app = if app < self.apps.len() { app } else { 0 };
        self.apps[app].outbox.push(completion);
    }

    /// Reports a turn to the meter and, when it is due, everything that is counted.
    pub(super) fn measure_turn(&mut self, turn: TurnReport) {
        let application = self.apps.iter().any(|app| !app.outbox.is_empty());
        let waiting = [application, self.kept > 0, !self.lingering.is_empty()];
        let due =
            self.meter.as_mut().is_some_and(|meter| meter.turned(TurnReport { waiting, ..turn }));
        if due {
            self.publish();
        }
    }
}

/// The number, among those of a worker, of the application that a message with `tag` is for: its
/// upper 16 bits.
#[must_use]
pub fn application_of(tag: u64) -> usize {
    usize::try_from(tag >> 48).unwrap_or(0)
}
