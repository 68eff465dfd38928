//! The progress of a sweep: a line for each run that ends, and between them the time left.

use std::sync::mpsc;

use experiments::progress::Watch;

use super::experiment::Experiment;
use super::order::Sweep;
use super::results::Ran;
use crate::args::{RunArgs, World};
use crate::console::Console;
use crate::estimate::{Done, Runs};
use crate::failure::Failure;
use crate::on_dpdk;
use crate::progress::{ProgressMeter, ProgressWords, Total, Watched};

/// Reports of a thread about the run of that number.
pub(super) enum Event {
    /// The part of the run that is done.
    Done(usize, Done),
    /// The run is over.
    Ended(usize, Box<Result<Ran, Failure>>),
}

/// Reports what is done of the run of that number.
pub(super) fn reported(
    at: usize,
    experiment: &Experiment,
    give: mpsc::Sender<Event>,
) -> impl Watch + use<> {
    let total = Total::of(&experiment.plan, experiment.world);
    // Without a receiver the sweep is over, and the run's end will show it.
    Watched::new(total, move |_, done, _| _ = give.send(Event::Done(at, done)))
}

/// Seconds that a run is expected to take: of its threads in virtual time; of its network time, as
/// slow as it passes, in real time.
fn expected_s(run: &Experiment) -> f64 {
    let plan = &run.plan;
    match run.world {
        World::Sim => Total::of(plan, run.world).processor_s,
        World::Vdev => on_dpdk::expected_vdev(plan).as_us_f64() / 1e6,
        // The only run of its sweep.
        World::Nic => 1.0,
    }
}

/// The log of a sweep.
pub(super) struct Log {
    meter: ProgressMeter,
    names: Vec<String>,
}

impl Log {
    /// The log of a sweep of which nothing has run.
    pub(super) fn new(sweep: &Sweep, args: &RunArgs, console: &Console<'_>) -> Self {
        let works = sweep.chosen.iter().map(|(_, run)| expected_s(run)).collect();
        // Runs in real time are alone on the machine.
        let simulates = sweep.chosen.iter().any(|(_, run)| run.world == World::Sim);
        let runs = Runs::new(works, if simulates { args.jobs.into() } else { 1 });
        let meter = if args.progress_lines {
            ProgressMeter::raw(runs)
        } else {
            ProgressMeter::new(runs, args.quiet, console.err_is_terminal)
        };
        Self { meter, names: sweep.chosen.iter().map(|(name, _)| name.clone()).collect() }
    }

    /// Takes a run that need not run out of the work.
    pub(super) fn skip(&mut self, at: usize) {
        self.meter.skip(at);
    }

    /// Notes the progress of a run, and shows from time to time how long all runs will take.
    pub(super) fn note(&mut self, at: usize, done: Done, console: &mut Console<'_>) {
        let (over, names) = (self.meter.over(), &self.names);
        let words = || ProgressWords {
            done: format!("{over}/{} runs", names.len()),
            of: "the work",
            at: names[at].clone(),
        };
        // A line that cannot be shown is no reason to end a run.
        let _ = self.meter.note(at, done, words, console.err);
    }

    /// Notes that a run has not begun, and shows now and then what it waits for.
    pub(super) fn wait(&mut self, at: usize, what: &str, console: &mut Console<'_>) {
        // A line that cannot be shown is no reason to end a run.
        let _ = self.meter.wait(at, what, console.err);
    }

    /// Shows what a run in another process says.
    pub(super) fn pass(&self, text: &str, console: &mut Console<'_>) {
        // A line that cannot be shown is no reason to end a run.
        let _ = self.meter.pass(text, console.err);
    }

    /// Notes that a run is over, and writes its line.
    pub(super) fn line(
        &mut self,
        at: usize,
        slowdown: &Option<f64>,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        let (all, name) = (self.names.len(), &self.names[at]);
        let slowdown = slowdown.map_or_else(|| "unfinished".to_owned(), |x| format!("{x:.3}"));
        let text = |over: usize, times: &str| {
            format!("[{over}/{all}] {name}: slowdown {slowdown}; {times}")
        };
        Ok(self.meter.end(at, text, console.err)?)
    }
}
