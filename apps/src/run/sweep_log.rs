//! How far a sweep is: a line for each run that ends, and between them the time left, as a bar on a
//! terminal and as lines elsewhere.

use std::sync::mpsc;

use experiments::forecast::Forecast;
use experiments::measure::Sample;
use experiments::progress::{Progress, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget};

use super::experiment::Experiment;
use super::order::Sweep;
use super::results::Ran;
use crate::args::{RunArgs, World};
use crate::console::Console;
use crate::estimate::{Done, Runs};
use crate::failure::Failure;
use crate::interrupt;
use crate::progress::{DRAW_EVERY_S, FIRST_LINE_S, LINE_EVERY_S, Total, drawn};
use crate::stopwatch::Stopwatch;

/// What a thread that runs has to report of a run of that number.
pub(super) enum Event {
    /// What is done of it.
    Done(usize, Done),
    /// The run is over.
    Ended(usize, Box<Result<Ran, Failure>>),
}

/// Reports the share of a run that is done.
pub(super) struct Reported {
    at: usize,
    total: Total,
    give: mpsc::Sender<Event>,
    stopwatch: Stopwatch,
    /// Real seconds at which the next report is due.
    next_s: f64,
}

impl Reported {
    /// Reports that the run of that number begins.
    pub(super) fn new(at: usize, experiment: &Experiment, give: mpsc::Sender<Event>) -> Self {
        let total = Total::of(&experiment.plan, experiment.world);
        let mut reported = Self { at, total, give, stopwatch: Stopwatch::start(), next_s: 0.0 };
        reported.report(&Progress::default());
        reported
    }

    fn report(&mut self, progress: &Progress) {
        // Without a receiver the sweep is over, and the run's end will show it.
        let _ = self.give.send(Event::Done(self.at, self.total.done(progress)));
    }
}

impl Watch for Reported {
    fn goes_on(&mut self, progress: &Progress) -> bool {
        let seconds = self.stopwatch.seconds();
        if seconds >= self.next_s {
            self.next_s = seconds + DRAW_EVERY_S;
            self.report(progress);
        }
        !interrupt::requested()
    }

    /// Without a directory for results no one reads them.
    fn on_samples(&mut self, samples: &mut Vec<Sample>) {
        samples.clear();
    }
}

/// The log of a sweep.
pub(super) struct Log {
    quiet: bool,
    stopwatch: Stopwatch,
    runs: Runs,
    names: Vec<String>,
    bar: Option<ProgressBar>,
    /// Real seconds at which the next line about the time left is due.
    next_s: f64,
}

/// Parts of a whole sweep in its bar.
const PARTS: u32 = 1000;

/// A share in them.
fn parts(share: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 or more")]
    let parts = (share.max(0.0) * f64::from(PARTS)) as u64;
    parts
}

impl Log {
    /// The log of a sweep of which nothing has run.
    pub(super) fn new(sweep: &Sweep, args: &RunArgs, console: &Console<'_>) -> Self {
        let work = |run: &Experiment| Forecast::of(&run.plan).time.as_us_f64();
        let works = sweep.chosen.iter().map(|(_, run)| work(run)).collect();
        // Runs in real time are alone on the machine.
        let simulates = sweep.chosen.iter().any(|(_, run)| run.world == World::Sim);
        let bar = (console.err_is_terminal && !args.quiet).then(|| {
            drawn(ProgressBar::with_draw_target(Some(PARTS.into()), ProgressDrawTarget::stderr()))
        });
        Self {
            quiet: args.quiet,
            stopwatch: Stopwatch::start(),
            runs: Runs::new(works, if simulates { args.jobs.into() } else { 1 }),
            names: sweep.chosen.iter().map(|(name, _)| name.clone()).collect(),
            next_s: if bar.is_some() { DRAW_EVERY_S } else { FIRST_LINE_S },
            bar,
        }
    }

    /// Takes a run that need not run out of the work.
    pub(super) fn skip(&mut self, at: usize) {
        self.runs.skip(at);
    }

    /// Notes how far a run is, and shows now and then how long all of them will take.
    pub(super) fn note(
        &mut self,
        at: usize,
        done: Done,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let seconds = self.stopwatch.seconds();
        self.runs.note(at, seconds, done);
        if self.quiet || seconds < self.next_s {
            return Ok(());
        }
        let left = self.left();
        let done = format!("{}/{} runs", self.runs.over(), self.names.len());
        match &self.bar {
            Some(bar) => {
                bar.set_position(parts(self.runs.share()));
                bar.set_message(format!("{left}, {done}, {}", self.names[at]));
                self.next_s = seconds + DRAW_EVERY_S;
            }
            None => {
                let share = self.runs.share() * 100.0;
                writeln!(console.err, "{seconds:.0} s: {done}, {share:.0} % of the work, {left}")?;
                self.next_s = seconds + LINE_EVERY_S;
            }
        }
        Ok(())
    }

    fn left(&self) -> String {
        let left = self.runs.left();
        left.map_or_else(
            || "time left unknown".to_owned(),
            |left| format!("about {left:.0} s left"),
        )
    }

    /// Notes that a run is over, and writes its line.
    pub(super) fn line(
        &mut self,
        at: usize,
        slowdown: &Option<f64>,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let seconds = self.stopwatch.seconds();
        self.runs.end(at, seconds);
        if self.quiet {
            return Ok(());
        }
        let (count, all) = (self.runs.over(), self.names.len());
        let slowdown = slowdown.map_or_else(|| "unfinished".to_owned(), |x| format!("{x:.3}"));
        let (name, left) = (&self.names[at], self.left());
        let mut write = || {
            writeln!(
                console.err,
                "[{count}/{all}] {name}: slowdown {slowdown}; {seconds:.0} s, {left}"
            )
        };
        Ok(match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }?)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
