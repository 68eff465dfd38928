//! How a programmed switch is run: the departures of all its ports, its arrivals and its own time,
//! in the order of time.
//!
//! ```text
//!   flights of a span --> before each: departures due by it, the program's time before it
//!                              |
//!                         on_arrival --> Context::send --> departures of this instant
//!                              |                               |
//!                         at last: departures and time      on_departure --> launch
//!                         due by the end of the span
//! ```

use transport::Instant;

use super::context::{Agenda, Context, Leaving, Surroundings};
use super::{AnyProgram, Program};
use crate::calendar::Flight;
use crate::elements::PortId;
use crate::qdisc::Queued;

/// A switch with a program.
#[derive(Clone, Debug)]
pub(crate) struct Programmed {
    pub(crate) switch: u32,
    /// How the calendar calls the switch.
    target: u32,
    pub(crate) program: AnyProgram,
    agenda: Agenda,
    /// The packets that the program held after its last call.
    held: Queued,
    /// When the switch crashes.
    pub(crate) crashes: Vec<Instant>,
    /// Most data bytes that the program held at once.
    pub(crate) held_peak: u64,
}

/// A programmed switch at work.
pub(crate) struct SwitchRun<'a> {
    program: &'a mut AnyProgram,
    held: &'a mut Queued,
    held_peak: &'a mut u64,
    target: u32,
    cx: Context<'a>,
}

impl Programmed {
    /// `program` in `switch`, before anything has happened.
    pub(crate) fn new(switch: u32, target: u32, program: AnyProgram) -> Self {
        Self {
            switch,
            target,
            program,
            agenda: Agenda::new(),
            held: Queued::default(),
            crashes: Vec::new(),
            held_peak: 0,
        }
    }

    /// How the calendar calls the switch.
    pub(crate) const fn target(&self) -> u32 {
        self.target
    }

    /// The first flights of a calendar that is empty: the wake-up for the program's own time, and
    /// the crashes.
    pub(crate) fn first_flights(&mut self) -> impl Iterator<Item = Flight> + '_ {
        self.agenda.wake_at = self.program.poll_at();
        let (at, target) = (self.agenda.wake_at, self.target);
        let wake = (at < Instant::FAR_FUTURE).then(|| Flight::wake(target, at));
        wake.into_iter().chain(self.crashes.iter().map(move |at| Flight::crash(target, *at)))
    }
}

impl<'a> SwitchRun<'a> {
    /// Sets a switch to work.
    pub(crate) fn new(programmed: &'a mut Programmed, around: Surroundings<'a>) -> Self {
        let Programmed { switch, target, program, agenda, held, held_peak, .. } = programmed;
        let Surroundings { ports, transit, wiring, driver } = around;
        let (switch, now) = (*switch, Instant::ZERO);
        let cx = Context { ports, transit, wiring, driver, agenda, switch, now };
        Self { program, held, held_peak, target: *target, cx }
    }

    /// Hands the switch the flights of a span that ends just after `last`.
    pub(crate) fn run(mut self, flights: &[Flight], last: Instant) {
        for flight in flights.iter().filter(|flight| !flight.is_wake()) {
            self.advance(flight.at, false);
            self.cx.now = flight.at;
            if let Some(paused) = flight.pause() {
                self.cx.obey(flight.packet.handle, paused);
                continue;
            }
            if flight.is_crash() {
                self.program.crash(flight.at, &mut self.cx);
                self.after_call();
                continue;
            }
            self.cx.transit.counts.on_wire -= 1;
            let from = PortId(self.cx.wiring.back[flight.origin as usize]);
            self.program.on_arrival(flight.packet, from, flight.at, &mut self.cx);
            self.after_call();
        }
        self.advance(last, true);
        self.wake_again(last);
    }

    /// Makes sure that `port`, whose next departure may have moved, has its next turn.
    pub(crate) fn expect(mut self, port: u32) {
        self.cx.expect(port);
        self.wake_again(Instant::ZERO);
    }

    /// Runs the departures due by `until` and the program's time before `until`, or by it when that
    /// is `included`.
    fn advance(&mut self, until: Instant, included: bool) {
        loop {
            let timer = self.program.poll_at();
            match self.cx.next_turn() {
                Some((at, port)) if at <= until && at <= timer => {
                    self.cx.now = at;
                    self.cx.take_turn(port);
                    self.depart(port);
                    self.after_call();
                }
                _ if timer < until || (included && timer == until) => {
                    self.cx.now = timer.max(self.cx.now);
                    self.program.on_time(self.cx.now, &mut self.cx);
                    assert!(self.program.poll_at() > timer, "a program's time goes on");
                    self.after_call();
                }
                _ => return,
            }
        }
    }

    /// Runs the departures that a call of the program has caused at its instant, and measures the
    /// packets that the program holds.
    #[inline]
    fn after_call(&mut self) {
        let mut next = 0;
        while let Some(leaving) = self.cx.agenda.leaving.get(next).copied() {
            next += 1;
            self.launch(leaving);
        }
        self.cx.agenda.leaving.clear();
        let held = self.program.held();
        if held != *self.held {
            self.measure(held);
        }
    }

    /// Notes a change of the packets that the program holds. Like a port's queue it is measured
    /// when data leaves.
    fn measure(&mut self, held: Queued) {
        if held.data_packets < self.held.data_packets {
            self.cx.transit.queue_stats.sample(held.data_bytes);
        }
        *self.held_peak = (*self.held_peak).max(held.data_bytes);
        *self.held = held;
    }

    /// Runs the next departure of `port`, if it is due now.
    fn depart(&mut self, port: u32) {
        if let Some(leaving) = self.cx.depart(port) {
            self.launch(leaving);
        }
        self.cx.expect(port);
    }

    /// Lets the program edit a packet that has left its queue, and puts it on the link.
    fn launch(&mut self, Leaving { port, mut departure, arrival }: Leaving) {
        let (len, start) = (departure.packet.len, departure.start);
        self.program.on_departure(&mut departure.packet, PortId(port), start, &mut self.cx);
        assert_eq!(departure.packet.len, len, "a departing packet keeps its length");
        let state = &mut self.cx.ports[port as usize];
        self.cx.transit.after_departure(state, &departure, arrival, &mut self.cx.driver);
    }

    /// Makes sure that the switch has its next turn after a span that ends just after `last`.
    fn wake_again(&mut self, last: Instant) {
        if self.cx.agenda.wake_at <= last {
            self.cx.agenda.wake_at = Instant::FAR_FUTURE;
        }
        let turn = self.cx.next_turn().map_or(Instant::FAR_FUTURE, |(at, _)| at);
        let at = turn.min(self.program.poll_at());
        if at < self.cx.agenda.wake_at {
            self.cx.agenda.wake_at = at;
            self.cx.transit.calendar.push(Flight::wake(self.target, at));
        }
    }
}
