//! Where the walk of a flow begins that did not finish: at what the flow waits for when its time
//! ends, because the run ends then or the flow is given up.
//!
//! ```text
//!   has something to send: its losses were known   -> it waits to send them again <- lost <- ..
//!                          else                    -> it waits to send            <- sent <- ..
//!   waits for an answer:   a segment did not arrive -> lost, in a queue or on a link <- sent <- ..
//!                          all arrived              -> the receiver's answer <- arrived <- ..
//! ```

use transport::{Instant, Wait};

use super::TimePart;
use super::journal::{Fate, NONE, Record, SendCause, State};
use super::walk::{Standpoint, Walk, part_of};
use super::{LossNews, Repair};

impl Walk<'_> {
    /// The beginning of the walk of a flow on connection `conn` that is open at `end`.
    pub(super) fn open(&mut self, conn: u32, end: Instant) -> (Instant, Standpoint) {
        let state = self.journal.conns[conn as usize].state;
        let (waited, opened, at) = match state {
            State::Waiting { wait: Wait::Acknowledgement | Wait::Application, .. } => {
                return self.unanswered(conn, end);
            }
            State::Waiting { wait, .. } => (wait, SendCause::Time, end),
            State::Ready { since, waited, opened } => {
                let since = since.min(end);
                (waited, opened, self.charge_line(self.src, since, end))
            }
        };
        let part = part_of(waited);
        if at == end && matches!(part, TimePart::Window | TimePart::Receiver) {
            // An answer to what is in flight would let it send.
            self.mode = part;
            return self.unanswered(conn, end);
        }
        if let Some(step) = self.known_losses(conn, at) {
            return step;
        }
        let before = self.journal.conns[conn as usize].last_sent;
        self.let_send((waited, opened, before), self.src, at)
    }

    /// Where losses of the flow are known, and nothing has been sent since: the time since then,
    /// in which it waits to send again, and the loss.
    fn known_losses(&mut self, conn: u32, end: Instant) -> Option<(Instant, Standpoint)> {
        let journal = self.journal;
        let of = &journal.conns[conn as usize];
        let last = self.record(of.last_sent)?;
        if of.lost == 0 || of.loss_at < last.sent || of.loss_at > end {
            return None;
        }
        let lost = self.last_segment(conn, of.loss_at, |sent| !sent.has_arrived())?;
        let part = match of.state {
            State::Waiting { wait, .. } => part_of(wait),
            State::Ready { .. } => TimePart::Turn,
        };
        let at = self.charge(part, of.loss_at, end);
        let by = if of.loss_silent { LossNews::Timer } else { LossNews::Answer };
        Some(self.repair_by(lost, by, at))
    }

    /// The beginning where the flow waits for the acknowledgement of some segment.
    fn unanswered(&mut self, conn: u32, end: Instant) -> (Instant, Standpoint) {
        let missing = self.last_segment(conn, end, |sent| sent.arrived > end);
        let Some(number) = missing else {
            let arrived = self.last_segment(conn, end, |sent| sent.arrived <= end);
            let Some((number, sent)) = arrived.and_then(|at| Some((at, *self.record(at)?))) else {
                return (end, Standpoint::Rest(TimePart::Other));
            };
            return (
                self.charge(TimePart::Receiver, sent.arrived, end),
                Standpoint::Arrival(number),
            );
        };
        match self.record(number).map(|sent| sent.fate) {
            Some(Fate::Whole) => (self.queue_at_end(number, end), Standpoint::Arrival(number)),
            _ => self.repair_by(number, LossNews::None, end),
        }
    }

    /// The segment of this flow that left last before `end`, of those whose last transmission is
    /// as asked.
    fn last_segment(&self, conn: u32, end: Instant, is: impl Fn(&Record) -> bool) -> Option<u32> {
        let sent = self.journal.conns[conn as usize].last_transmissions();
        let own = sent.filter_map(|number| Some((number, self.record(number)?)));
        let own = own.filter(|(_, sent)| sent.flow == self.flow && sent.sent < end && is(sent));
        own.max_by_key(|(number, sent)| (sent.sent, *number)).map(|(number, _)| number)
    }

    /// Charges the time for which a packet has waited in the queue of a switch at `end`. Its port
    /// is not in the journal yet: it is known where one port alone leads to the receiver.
    fn queue_at_end(&mut self, number: u32, end: Instant) -> Instant {
        let hops = self.record(number).map_or(NONE, |packet| packet.hops);
        let Some(last) = self.journal.hops.get(hops as usize).filter(|hop| hop.arrival < end)
        else {
            return end;
        };
        match self.links.down_port(last.port, self.dst) {
            Some(port) => self.charge_queue(port, true, last.arrival, end),
            None => self.charge(TimePart::Other, last.arrival, end),
        }
    }

    /// Charges the time between a transmission that was lost and `at`, when the loss was known, or
    /// when the time of the flow ended.
    pub(super) fn repair_by(
        &mut self,
        number: u32,
        by: LossNews,
        at: Instant,
    ) -> (Instant, Standpoint) {
        let Some(&lost) = self.record(number) else {
            return (at, Standpoint::Rest(TimePart::Other));
        };
        let before = self.charges.parts[TimePart::Retransmission as usize];
        let at = self.charge(TimePart::Retransmission, lost.sent, at);
        let more = self.charges.parts[TimePart::Retransmission as usize] - before;
        let (time, count) = self.charges.repairs.entry(Repair::of(lost.fate, by)).or_default();
        (*time, *count) = (*time + more, *count + 1);
        (at, Standpoint::Departure(number))
    }
}
