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
//!
//! The loop is compiled separately for each program ([`RunSpan`]). Calls of the program become part
//! of it, and hooks that a program leaves to the defaults of [`Program`] cost nothing.

use std::ops::Range;

use transport::Instant;

use super::context::{Agenda, Context, Leaving, Surroundings};
use super::{AnyProgram, Program, SwitchProgram};
use crate::calendar::Flight;
use crate::elements::PortId;
use crate::port::Departure;
use crate::qdisc::Queued;
use crate::transit::NO_FAULT;

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

/// A programmed switch at work, without its program.
pub(crate) struct SwitchRun<'a> {
    held: &'a mut Queued,
    held_peak: &'a mut u64,
    target: u32,
    cx: Context<'a>,
}

/// A program that runs in its switch.
pub(crate) trait RunSpan {
    /// Hands the switch `run` the flights of a span that ends just after `last`.
    fn run_span(&mut self, run: SwitchRun<'_>, flights: &[Flight], last: Instant);
}

impl<P: SwitchProgram> RunSpan for P {
    fn run_span(&mut self, run: SwitchRun<'_>, flights: &[Flight], last: Instant) {
        run.run(self, flights, last);
    }
}

impl Programmed {
    /// `program` in `switch`, which has `ports`, before anything has happened.
    pub(crate) fn new(switch: u32, target: u32, ports: Range<u32>, program: AnyProgram) -> Self {
        Self {
            switch,
            target,
            program,
            agenda: Agenda::new(ports),
            held: Queued::default(),
            crashes: Vec::new(),
            held_peak: 0,
        }
    }

    /// The packets that the program holds.
    pub(crate) fn program_holds(&self) -> Queued {
        self.program.held().unwrap_or_default()
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

    /// Hands the switch the flights of a span that ends just after `last`.
    pub(crate) fn run<'a>(
        &'a mut self,
        around: Surroundings<'a>,
        flights: &[Flight],
        last: Instant,
    ) {
        let (program, run) = self.at_work(around);
        program.run_span(run, flights, last);
    }

    /// Makes sure that `port`, whose next departure may have moved, has its next turn.
    pub(crate) fn expect<'a>(&'a mut self, around: Surroundings<'a>, port: u32) {
        let (program, mut run) = self.at_work(around);
        run.cx.expect(port);
        run.wake_again(program.poll_at(), Instant::ZERO);
    }

    /// The program, and its switch at work.
    fn at_work<'a>(&'a mut self, around: Surroundings<'a>) -> (&'a mut AnyProgram, SwitchRun<'a>) {
        let Self { switch, target, program, agenda, held, held_peak, .. } = self;
        let Surroundings { ports, transit, wiring, driver } = around;
        let (switch, now) = (*switch, Instant::ZERO);
        let handles_all = true;
        let cx = Context { ports, transit, wiring, driver, agenda, switch, now, handles_all };
        (program, SwitchRun { held, held_peak, target: *target, cx })
    }
}

impl SwitchRun<'_> {
    /// Hands the switch, which runs `program`, the flights of a span that ends just after `last`.
    fn run<P: Program>(mut self, program: &mut P, flights: &[Flight], last: Instant) {
        self.cx.handles_all = P::HANDLES_ALL_DEPARTURES;
        let mut flights = flights.iter().filter(|flight| !flight.is_wake());
        loop {
            let flight = flights.next();
            self.advance(program, flight.map_or(last, |flight| flight.at), flight.is_none());
            let Some(flight) = flight else { break };
            self.cx.now = flight.at;
            if flight.is_packet() {
                self.cx.transit.counts.on_wire -= 1;
                let from = PortId(self.cx.wiring.back[flight.origin as usize]);
                program.on_arrival(flight.packet, from, flight.at, &mut self.cx);
            } else {
                self.other(program, flight);
            }
        }
        self.wake_again(program.poll_at(), last);
    }

    /// A pause frame has come, or the switch crashes.
    #[cold]
    fn other<P: Program>(&mut self, program: &mut P, flight: &Flight) {
        if let Some(paused) = flight.pause() {
            self.cx.obey(flight.packet.handle, paused);
        } else if flight.is_crash() {
            program.crash(flight.at, &mut self.cx);
        }
    }

    /// Runs what follows from the call of the program before. Then runs the departures due by
    /// `until` and the program's time before `until`, or by it when that is `included`.
    // A part of the loop, as `launch` is: the call alone would cost a hop 18 instructions.
    #[inline(always)]
    fn advance<P: Program>(&mut self, program: &mut P, until: Instant, included: bool) {
        loop {
            self.after_call(program);
            let timer = program.poll_at();
            if self.cx.next_turn_at() <= until.min(timer)
                && let Some((at, port)) = self.cx.next_turn()
            {
                self.cx.now = at;
                self.take_turn(program, port);
            } else if timer < until || (included && timer == until) {
                self.cx.now = timer.max(self.cx.now);
                program.on_time(self.cx.now, &mut self.cx);
                assert!(program.poll_at() > timer, "a program's time goes on");
            } else {
                return;
            }
        }
    }

    /// Runs the turn of `port`: its next departure, if it is due now.
    #[inline]
    fn take_turn<P: Program>(&mut self, program: &mut P, port: u32) {
        let state = &mut self.cx.ports[port as usize];
        if state.fault != NO_FAULT {
            self.cx.transit.change_rates(state, self.cx.now);
        }
        // The departure stays in the option: see `Transit::leave`.
        let mut departed = state.port.depart(self.cx.now, &mut state.rng);
        if let Some((departure, arrival)) = &mut departed {
            self.launch(program, port, departure, *arrival);
        }
        self.cx.expect(port);
    }

    /// Runs the departures that a call of the program has caused at its instant, and measures the
    /// packets that the program holds.
    #[inline]
    fn after_call<P: Program>(&mut self, program: &mut P) {
        if !self.cx.agenda.leaving.is_empty() {
            self.launch_all(program);
        }
        if let Some(held) = program.held()
            && held != *self.held
        {
            self.measure(held);
        }
    }

    /// Runs the departures that a call of the program has caused.
    fn launch_all<P: Program>(&mut self, program: &mut P) {
        let mut next = 0;
        while next < self.cx.agenda.leaving.len() {
            let Leaving { port, mut departure, arrival } = self.cx.agenda.leaving[next];
            next += 1;
            self.launch(program, port, &mut departure, arrival);
        }
        self.cx.agenda.leaving.clear();
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

    /// Lets the program edit a packet that has left its queue, and puts it on the link.
    #[inline(always)]
    fn launch<P: Program>(
        &mut self,
        program: &mut P,
        port: u32,
        departure: &mut Departure,
        arrival: Instant,
    ) {
        let (len, start) = (departure.packet.len, departure.start);
        program.on_departure(&mut departure.packet, PortId(port), start, &mut self.cx);
        assert_eq!(departure.packet.len, len, "a departing packet keeps its length");
        let state = &mut self.cx.ports[port as usize];
        self.cx.transit.after_departure(state, departure, arrival, &mut self.cx.driver);
    }

    /// Makes sure that the switch, whose program has its next time at `timer`, has its next turn
    /// after a span that ends just after `last`.
    fn wake_again(&mut self, timer: Instant, last: Instant) {
        if self.cx.agenda.wake_at <= last {
            self.cx.agenda.wake_at = Instant::FAR_FUTURE;
        }
        let at = self.cx.next_turn_at().min(timer);
        if at < self.cx.agenda.wake_at {
            self.cx.agenda.wake_at = at;
            self.cx.transit.calendar.push(Flight::wake(self.target, at));
        }
    }
}
