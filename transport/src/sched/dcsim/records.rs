//! The SIMs of a host that are on their way: one FIFO, and no timer.
//!
//! Source: \[dcsim\] sec. 2.4 (1) and (4). SIMs leave one after the other. Each has two instants, a
//! fixed time after its departure: its DATA may leave (`delay`), and it counts as lost if no
//! SIM-ACK has come (`timeout`). So both happen in the order of the FIFO.
//!
//! ```text
//!   popped <- | timed out |  ripe: DATA may leave  |  not yet ripe  | <- pushed
//!               timeout      delay
//! ```

use alloc::collections::VecDeque;

use super::ports::SourcePort;
use crate::time::{Duration, Instant};
use crate::units::{EntropyValue, FlowId};
use crate::wire::sim::Sim;

/// One SIM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    /// The instant at which the SIM left on the host's line.
    pub(super) sent_at: Instant,
    /// The flow that the SIM was sent for.
    pub(super) flow: FlowId,
    pub(super) nonce: u32,
    /// How many SIM-ACKs of the host had bound segments before its own; wraps.
    pub(super) order: u32,
    pub(super) port: SourcePort,
    /// Number of DATAs that leave for its SIM-ACK.
    pub(super) bound: u8,
    pub(super) state: State,
}

/// Whether a SIM has an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// The SIM waits for its SIM-ACK.
    Open,
    /// The SIM-ACK has come in time.
    Answered,
}

/// Why a SIM-ACK is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// The SIM was given up, or answered before.
    Late,
    /// The SIM-ACK answers no SIM that was sent.
    Forged,
}

/// SIMs in the order in which they left.
#[derive(Clone, Debug)]
pub(super) struct Records {
    fifo: VecDeque<Record>,
    /// The number of the first SIM in `fifo`; wraps.
    first: u32,
    /// How many at the front are ripe.
    ripe: usize,
    delay: Duration,
    timeout: Duration,
    /// How long before its DATA may leave a record counts as ripe.
    pub(super) ahead: Duration,
}

/// A SIM-ACK is late if its number is at most this far behind the oldest SIM; with any other number
/// it is forged.
const LATE_MAX: u32 = 1 << 20;

impl Records {
    /// Records without SIMs, with room for `most`; `delay` is no longer than `timeout`.
    pub(super) fn new(delay: Duration, timeout: Duration, most: usize) -> Self {
        let ahead = Duration::ZERO;
        Self { fifo: VecDeque::with_capacity(most), first: 0, ripe: 0, delay, timeout, ahead }
    }

    /// The instant from which on the DATAs of `record` may leave.
    #[inline]
    pub(super) fn due(&self, record: &Record) -> Instant {
        record.sent_at + self.delay
    }

    /// How many there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.fifo.len()
    }

    /// Room for SIMs, for tests.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.fifo.capacity()
    }

    /// The number of the SIM that leaves next.
    pub(super) fn next_number(&self) -> u32 {
        self.first.wrapping_add(u32::try_from(self.fifo.len()).unwrap_or(u32::MAX))
    }

    /// Adds a SIM that leaves, no earlier than the one before.
    pub(super) fn push(&mut self, record: Record) {
        debug_assert!(self.fifo.back().is_none_or(|last| last.sent_at <= record.sent_at));
        self.fifo.push_back(record);
        if self.delay == Duration::ZERO {
            // Ripe as it leaves: nothing has answered it, so there is nothing to do.
            self.ripe = self.fifo.len();
        }
    }

    /// Finds the record that the SIM-ACK `ack` with source port `ev` answers, and whether it is
    /// ripe.
    pub(super) fn answer(
        &mut self,
        ack: &Sim,
        ev: EntropyValue,
        now: Instant,
    ) -> Result<(&mut Record, bool), Refused> {
        let place = ack.number.wrapping_sub(self.first);
        let index = usize::try_from(place).unwrap_or(usize::MAX);
        let ripe = index < self.ripe;
        let Some(record) = self.fifo.get_mut(index) else {
            let late = self.first.wrapping_sub(ack.number) <= LATE_MAX;
            return Err(if late { Refused::Late } else { Refused::Forged });
        };
        if (record.nonce, record.port.ev, record.flow) != (ack.nonce, ev, ack.src_flow) {
            return Err(Refused::Forged);
        }
        if record.state != State::Open || record.sent_at + self.timeout < now {
            return Err(Refused::Late);
        }
        record.state = State::Answered;
        Ok((record, ripe))
    }

    /// The next record whose DATAs may leave by `now`, or soon after it where they are handed over
    /// ahead, and the instant from which on they may.
    pub(super) fn next_ripe(&mut self, now: Instant) -> Option<(Record, Instant)> {
        let record = *self.fifo.get(self.ripe)?;
        let due = self.due(&record);
        if due > now + self.ahead {
            return None;
        }
        self.ripe += 1;
        Some((record, due))
    }

    /// Takes out the next record whose time is over at `now`, after [`Records::next_ripe`] has
    /// returned all that are ripe by then.
    pub(super) fn next_over(&mut self, now: Instant) -> Option<Record> {
        let front = self.fifo.front()?;
        if front.sent_at + self.timeout > now {
            return None;
        }
        self.first = self.first.wrapping_add(1);
        self.ripe = self.ripe.saturating_sub(1);
        self.fifo.pop_front()
    }

    /// The records that are not ripe and have bound segments.
    pub(super) fn bound(&self) -> impl Iterator<Item = &Record> {
        self.fifo.iter().skip(self.ripe).filter(|record| record.bound > 0)
    }

    /// The next instant at which a record becomes ripe or its time is over; the far future without
    /// records.
    #[inline]
    pub(super) fn poll_at(&self) -> Instant {
        let Some(first) = self.fifo.front() else { return Instant::FAR_FUTURE };
        let over = first.sent_at + self.timeout;
        match self.fifo.get(self.ripe) {
            Some(record) => self.due(record).before(self.ahead).min(over),
            None => over,
        }
    }

    /// The SIMs without a SIM-ACK.
    pub(super) fn open(&self) -> impl Iterator<Item = &Record> {
        self.fifo.iter().filter(|record| record.state == State::Open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn record(at: u64, nonce: u32) -> Record {
        Record {
            sent_at: Instant::from_ps(at),
            flow: FlowId::new(1, 1),
            nonce,
            order: 0,
            port: SourcePort::exclusive(EntropyValue(50_000)),
            bound: 0,
            state: State::Open,
        }
    }

    fn ack(number: u32, nonce: u32) -> Sim {
        Sim { number, nonce, src_flow: FlowId::new(1, 1) }
    }

    #[test]
    fn only_what_answers_an_open_sim_is_taken_and_once() {
        let mut records = Records::new(Duration::from_ps(50), Duration::from_ps(100), 4);
        records.push(record(0, 7));
        records.push(record(10, 8));
        let (ev, at) = (EntropyValue(50_000), Instant::from_ps);
        for (sim, port) in [
            (ack(0, 8), ev),
            (ack(1, 8), EntropyValue(50_001)),
            (Sim { src_flow: FlowId::new(2, 1), ..ack(1, 8) }, ev),
            (ack(2, 0), ev),
            (ack(1 << 30, 0), ev),
        ] {
            assert_eq!(records.answer(&sim, port, at(1)).unwrap_err(), Refused::Forged, "{sim:?}");
        }
        assert!(!records.answer(&ack(0, 7), ev, at(1)).unwrap().1, "not ripe");
        assert_eq!(records.answer(&ack(0, 7), ev, at(2)).unwrap_err(), Refused::Late);
        assert_eq!(
            records.next_ripe(at(60)).map(|(record, due)| (record.nonce, due)),
            Some((7, at(50)))
        );
        assert_eq!(
            records.next_ripe(at(60)).map(|(record, due)| (record.nonce, due)),
            Some((8, at(60)))
        );
        assert_eq!(records.answer(&ack(1, 8), ev, at(111)).unwrap_err(), Refused::Late, "too late");
        assert!(records.answer(&ack(1, 8), ev, at(110)).unwrap().1, "ripe");
        assert_eq!(records.next_over(at(99)), None);
        assert_eq!(records.next_over(at(100)).map(|record| record.state), Some(State::Answered));
        assert_eq!(records.answer(&ack(0, 7), ev, at(100)).unwrap_err(), Refused::Late);
    }

    proptest! {
        /// The oracle has a timer for each SIM.
        #[test]
        fn one_fifo_does_what_timers_would(
            gaps in prop::collection::vec(0_u64..80, 1..60),
            delay in 1_u64..100, more in 0_u64..100, late in 0_u64..50,
        ) {
            let (delay, timeout) = (Duration::from_ps(delay), Duration::from_ps(delay + more));
            let mut records = Records::new(delay, timeout, 64);
            let mut timers = Vec::new();
            let mut at = 0;
            for (nonce, gap) in (0..).zip(&gaps) {
                at += gap;
                records.push(record(at, nonce));
                timers.push((Instant::from_ps(at) + delay, 0, nonce));
                timers.push((Instant::from_ps(at) + timeout, 1, nonce));
            }
            timers.sort_unstable();
            let mut done = Vec::new();
            while records.len() > 0 {
                let due = records.poll_at();
                let now = due + Duration::from_ps(late);
                while let Some((record, due)) = records.next_ripe(now) {
                    done.push((due, 0, record.nonce));
                }
                while let Some(record) = records.next_over(now) {
                    done.push((record.sent_at + timeout, 1, record.nonce));
                }
            }
            done.sort_unstable();
            prop_assert_eq!(done, timers);
        }
    }
}
