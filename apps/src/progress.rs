//! The progress of a command: how far its runs are and how long they will still take, on standard
//! error. Passes the user's wish to stop on to the runs.
//!
//! One run and the runs of a sweep are shown alike: a bar with the time left on a terminal; a plain
//! line every few seconds elsewhere, the first one after a second. `-vvv` logs how far each run was
//! when.

use std::io::{self, Write};
use std::time::Duration as RealDuration;

use experiments::forecast::Forecast;
use experiments::measure::Sample;
use experiments::plan::Plan;
use experiments::progress::{Progress, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use transport::Duration;

use crate::args::World;
use crate::console::Console;
use crate::estimate::{Done, Runs};
use crate::interrupt;
use crate::stopwatch::{self, Stopwatch};
use crate::table;

/// The whole work of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Total {
    /// Flows of the matrix.
    pub(crate) flows: u64,
    /// Bytes of all flows, at least 1 to be a share of.
    pub(crate) bytes: u64,
    /// Hops that emulated switches are expected to count; 0 on a real network.
    pub(crate) hops: u64,
    /// Seconds of a processor that a simulation is expected to take on each of its threads; 0 in
    /// real time.
    pub(crate) processor_s: f64,
    /// The network time after which the run ends; zero without a limit.
    pub(crate) limit: Duration,
}

impl Total {
    /// The work of `plan` in a world. O(flows + ports).
    pub(crate) fn of(plan: &Plan, world: World) -> Self {
        let forecast = (world != World::Nic).then(|| Forecast::of(plan));
        let simulated = forecast.filter(|_| world == World::Sim);
        let threads = f64::from(u32::try_from(plan.draft.threads).unwrap_or(u32::MAX).max(1));
        Self {
            flows: plan.matrix.flows.len() as u64,
            bytes: plan.matrix.total_bytes().0,
            hops: forecast.map_or(0, |forecast| forecast.hops),
            processor_s: simulated.map_or(0.0, |all| all.time.as_us_f64() / 1e6 / threads),
            limit: plan.limit.unwrap_or(Duration::ZERO),
        }
    }

    /// The part of it that is done, when a thread has had so many seconds of a processor.
    fn done(&self, progress: &Progress, processor_s: f64) -> Done {
        let expects = self.processor_s > 0.0;
        Done {
            bytes: share(progress.bytes_delivered, self.bytes),
            hops: share(progress.hops, self.hops),
            time: if expects { processor_s / self.processor_s } else { 0.0 },
            limit: share(progress.now.as_ps(), self.limit.as_ps()),
        }
    }
}

/// Watches one run: passes on its progress ten times a second, and the user's wish to stop to the
/// run.
pub(crate) struct Watched<F> {
    total: Total,
    stopwatch: Stopwatch,
    /// Seconds of a processor that the thread had had before; `None` where they are not known.
    processor_s: Option<f64>,
    /// Real seconds at which the next progress is due.
    next_s: f64,
    /// What the run waits for as long as there is no progress.
    waits_for: Option<String>,
    pass: F,
}

impl<F: FnMut(&Progress, Done, Option<&str>)> Watched<F> {
    /// Passes on that a run begins, on the thread that runs it.
    pub(crate) fn new(total: Total, pass: F) -> Self {
        let (stopwatch, processor_s) = (Stopwatch::start(), stopwatch::processor_s());
        let mut watched =
            Self { total, stopwatch, processor_s, next_s: 0.0, waits_for: None, pass };
        watched.goes_on(&Progress::default());
        watched
    }
}

impl<F: FnMut(&Progress, Done, Option<&str>)> Watch for Watched<F> {
    fn goes_on(&mut self, progress: &Progress) -> bool {
        let seconds = self.stopwatch.seconds();
        if seconds >= self.next_s {
            // Where only real time is known, nothing else is thought to run.
            let had = stopwatch::processor_s().zip(self.processor_s);
            let processor_s = had.map_or(seconds, |(now, before)| now - before);
            tracing::trace!(
                seconds,
                processor_s,
                now_us = progress.now.as_us_f64(),
                flows = progress.flows_finished,
                bytes = progress.bytes_delivered,
                hops = progress.hops,
                "progress"
            );
            let waits_for = self.waits_for.as_deref().filter(|_| *progress == Progress::default());
            (self.pass)(progress, self.total.done(progress, processor_s), waits_for);
            self.next_s = seconds + DRAW_EVERY_S;
        }
        !interrupt::requested()
    }

    fn on_wait(&mut self, what: &str) {
        self.waits_for = Some(what.to_owned());
    }

    /// Without a directory for results there is no reader of them.
    fn on_samples(&mut self, samples: &mut Vec<Sample>) {
        samples.clear();
    }
}

/// Watches one run alone, and shows how far it is.
pub(crate) fn shown(total: Total, quiet: bool, console: &mut Console<'_>) -> impl Watch {
    let mut meter = ProgressMeter::new(Runs::new(vec![1.0], 1), quiet, console.err_is_terminal);
    let err = &mut *console.err;
    Watched::new(total, move |progress, done, waits_for| {
        let words = || ProgressWords {
            done: format!("{}/{} flows", progress.flows_finished, total.flows),
            of: "bytes",
            at: format!("{} of network time", table::time(progress.now.as_us_f64())),
        };
        // A log that cannot be written is no reason to end a run.
        let _ = match waits_for {
            Some(what) => meter.wait(0, what, err),
            None => meter.note(0, done, words, err),
        };
    })
}

/// How far runs are, in words.
pub(crate) struct ProgressWords {
    /// The count of what is done, with its noun.
    pub(crate) done: String,
    /// The whole that the share refers to.
    pub(crate) of: &'static str,
    /// The point that the runs have reached.
    pub(crate) at: String,
}

/// How far the runs of a command are, and its display.
pub(crate) struct ProgressMeter {
    style: Style,
    stopwatch: Stopwatch,
    runs: Runs,
    /// Real seconds at which the next display is due.
    next_s: f64,
}

enum Style {
    Quiet,
    Lines,
    Bar(ProgressBar),
    /// What is done of a run, for the process that started this one.
    Raw,
}

/// Real seconds between plain lines: rare enough for a log.
const LINE_EVERY_S: f64 = 5.0;
/// Real seconds before the first one.
const FIRST_LINE_S: f64 = 1.0;
/// Real seconds between redraws, and between points of a track.
const DRAW_EVERY_S: f64 = 0.1;
/// Parts of the whole in a bar.
const PARTS: u32 = 1000;

impl ProgressMeter {
    /// Begins with runs of which none has run; shows nothing when `quiet`.
    pub(crate) fn new(runs: Runs, quiet: bool, on_terminal: bool) -> Self {
        let style = match (quiet, on_terminal) {
            (true, _) => Style::Quiet,
            (false, true) => Style::Bar(bar(ProgressDrawTarget::stderr())),
            (false, false) => Style::Lines,
        };
        let next_s = if on_terminal { DRAW_EVERY_S } else { FIRST_LINE_S };
        Self { style, stopwatch: Stopwatch::start(), runs, next_s }
    }

    /// Begins with runs of which none has run, and writes what is done of each for the process that
    /// started this one.
    pub(crate) fn raw(runs: Runs) -> Self {
        Self { style: Style::Raw, stopwatch: Stopwatch::start(), runs, next_s: 0.0 }
    }

    /// Takes a run that need not run out of the work.
    pub(crate) fn skip(&mut self, at: usize) {
        self.runs.skip(at);
    }

    /// How many runs are over.
    pub(crate) fn over(&self) -> usize {
        self.runs.over()
    }

    /// Notes what is done of a run, and shows now and then, in `words`, how far all runs are.
    ///
    /// # Errors
    /// When `err` fails.
    pub(crate) fn note(
        &mut self,
        at: usize,
        done: Done,
        words: impl FnOnce() -> ProgressWords,
        err: &mut dyn Write,
    ) -> io::Result<()> {
        self.note_at(self.stopwatch.seconds(), (at, done), words, err)
    }

    /// [`ProgressMeter::note`] so many real seconds after the beginning.
    fn note_at(
        &mut self,
        seconds: f64,
        (at, done): (usize, Done),
        words: impl FnOnce() -> ProgressWords,
        err: &mut dyn Write,
    ) -> io::Result<()> {
        self.runs.note(at, seconds, done);
        if seconds < self.next_s {
            return Ok(());
        }
        let (left, share) = (self.left(), self.runs.share());
        match &self.style {
            Style::Quiet => {}
            Style::Raw => writeln!(err, "{}", done.line())?,
            Style::Bar(bar) => {
                let ProgressWords { done, at, .. } = words();
                bar.set_position(parts(share));
                bar.set_message(format!("{left}, {done}, {at}"));
                self.next_s = seconds + DRAW_EVERY_S;
            }
            Style::Lines => {
                let ProgressWords { done, of, at } = words();
                let share = share * 100.0;
                writeln!(err, "{seconds:.0} s: {done}, {share:.1} % of {of}, {at}, {left}")?;
                self.next_s = seconds + LINE_EVERY_S;
            }
        }
        Ok(())
    }

    /// Notes that a run has not begun, and shows now and then what it waits for.
    ///
    /// # Errors
    /// When `err` fails.
    pub(crate) fn wait(&mut self, at: usize, what: &str, err: &mut dyn Write) -> io::Result<()> {
        self.wait_at(self.stopwatch.seconds(), (at, what), err)
    }

    /// [`ProgressMeter::wait`] so many real seconds after the beginning.
    fn wait_at(
        &mut self,
        seconds: f64,
        (at, what): (usize, &str),
        err: &mut dyn Write,
    ) -> io::Result<()> {
        self.runs.wait(at);
        if seconds < self.next_s {
            return Ok(());
        }
        match &self.style {
            Style::Quiet | Style::Raw => {}
            Style::Bar(bar) => {
                bar.set_message(format!("waits for {what}"));
                self.next_s = seconds + DRAW_EVERY_S;
            }
            Style::Lines => {
                writeln!(err, "{seconds:.0} s: waits for {what}")?;
                self.next_s = seconds + LINE_EVERY_S;
            }
        }
        Ok(())
    }

    /// Notes that a run is over. Writes the line that `text` makes of the number of runs that are
    /// over and the time that the others will take.
    ///
    /// # Errors
    /// When `err` fails.
    pub(crate) fn end(
        &mut self,
        at: usize,
        text: impl FnOnce(usize, &str) -> String,
        err: &mut dyn Write,
    ) -> io::Result<()> {
        let seconds = self.stopwatch.seconds();
        self.runs.end(at, seconds);
        let times = format!("{seconds:.0} s, {}", self.left());
        let write = || writeln!(err, "{}", text(self.runs.over(), &times));
        match &self.style {
            Style::Quiet | Style::Raw => Ok(()),
            Style::Bar(bar) => bar.suspend(write),
            Style::Lines => write(),
        }
    }

    /// Writes a line that is no progress: what a run in another process says.
    ///
    /// # Errors
    /// When `err` fails.
    pub(crate) fn pass(&self, text: &str, err: &mut dyn Write) -> io::Result<()> {
        let mut write = || writeln!(err, "{text}");
        match &self.style {
            Style::Bar(bar) => bar.suspend(write),
            Style::Quiet | Style::Raw | Style::Lines => write(),
        }
    }

    /// The time left, in words.
    fn left(&self) -> String {
        match self.runs.left() {
            None => "time left unknown".to_owned(),
            Some(left) if left < 120.0 => format!("about {left:.0} s left"),
            Some(left) if left < 7200.0 => format!("about {:.0} min left", left / 60.0),
            Some(left) => format!("about {:.1} h left", left / 3600.0),
        }
    }
}

impl Drop for ProgressMeter {
    fn drop(&mut self) {
        if let Style::Bar(bar) = &self.style {
            bar.finish_and_clear();
        }
    }
}

/// A share in parts of the whole.
fn parts(share: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 or more")]
    let parts = (share.max(0.0) * f64::from(PARTS)) as u64;
    parts
}

fn bar(target: ProgressDrawTarget) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(PARTS.into()), target);
    // `wide_msg` takes what the terminal's width leaves, and is cut there: the time left comes
    // first.
    let template = "{percent:>3} % [{bar:12}] {wide_msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(RealDuration::from_millis(500));
    bar
}

#[expect(clippy::cast_precision_loss, reason = "a display; 53 bits are plenty")]
fn share(done: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { done as f64 / total as f64 }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use experiments::plan::Draft;
    use experiments::topology;
    use experiments::workload::{FlowSpec, Matrix};
    use indicatif::TermLike;
    use transport::{Bytes, HostId};

    use super::*;

    /// A terminal of a width, and what it was to write.
    #[derive(Clone, Debug)]
    struct Narrow(u16, Arc<Mutex<Vec<String>>>);

    impl TermLike for Narrow {
        fn width(&self) -> u16 {
            self.0
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, line: &str) -> io::Result<()> {
            self.write_str(line)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.1.lock().unwrap().push(text.to_owned());
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A meter of one run, which shows in `style` what it notes first.
    fn one(style: Style) -> ProgressMeter {
        let runs = Runs::new(vec![1.0], 1);
        ProgressMeter { style, stopwatch: Stopwatch::start(), runs, next_s: 0.0 }
    }

    /// Notes that a quarter of the bytes is there after so many seconds.
    fn note_a_quarter(meter: &mut ProgressMeter, seconds: f64) -> String {
        let mut err = Vec::new();
        let words = || ProgressWords {
            done: "1/4 flows".to_owned(),
            of: "bytes",
            at: "7.00 us of network time".to_owned(),
        };
        meter.runs.note(0, 0.0, Done::default());
        let done = Done { bytes: 0.25, ..Done::default() };
        meter.note_at(seconds, (0, done), words, &mut err).unwrap();
        String::from_utf8(err).unwrap()
    }

    #[test]
    fn a_bar_is_no_wider_than_the_terminal_and_begins_with_the_time_left() {
        for width in [40, 80] {
            let terminal = Narrow(width, Arc::default());
            let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
            let mut meter = one(Style::Bar(bar(target)));
            assert_eq!(note_a_quarter(&mut meter, 400.0), "");
            let Style::Bar(bar) = &meter.style else { panic!("a bar") };
            bar.force_draw();
            drop(meter);
            let written = terminal.1.lock().unwrap();
            assert!(written.iter().any(|text| text.contains("20 min left")), "{written:?}");
            for text in written.iter() {
                assert!(text.chars().count() <= usize::from(width), "{width}: {text:?}");
            }
        }
    }

    #[test]
    fn a_plain_line_says_how_far_it_is_and_how_long_it_takes() {
        let mut meter = one(Style::Lines);
        let line = note_a_quarter(&mut meter, 3.0);
        let expected = "3 s: 1/4 flows, 25.0 % of bytes, 7.00 us of network time, about 9 s left\n";
        assert_eq!(line, expected);
        assert_eq!(note_a_quarter(&mut meter, 4.0), "", "a line again after 5 s");
        assert_ne!(note_a_quarter(&mut meter, 8.0), "");
        assert_eq!(note_a_quarter(&mut one(Style::Quiet), 3.0), "");
    }

    #[test]
    fn a_run_that_waits_says_for_what_and_its_time_counts_from_its_beginning() {
        let mut meter = one(Style::Lines);
        let waits = |meter: &mut ProgressMeter, seconds| {
            let mut err = Vec::new();
            meter.wait_at(seconds, (0, "host `a`"), &mut err).unwrap();
            String::from_utf8(err).unwrap()
        };
        meter.runs.note(0, 0.0, Done::default());
        assert_eq!(waits(&mut meter, 1.0), "1 s: waits for host `a`\n");
        assert_eq!(waits(&mut meter, 5.0), "", "a line again after 5 s");
        assert_eq!(waits(&mut meter, 6.0), "6 s: waits for host `a`\n");
        let mut note =
            |seconds, bytes| meter.runs.note(0, seconds, Done { bytes, ..Done::default() });
        note(9.0, 0.0);
        note(12.0, 0.25);
        assert_eq!(meter.left(), "about 9 s left");
        assert_eq!(waits(&mut one(Style::Quiet), 1.0), "");
    }

    #[test]
    fn a_wait_is_passed_on_until_there_is_progress() {
        let mut noted = Vec::new();
        let pass =
            |_: &Progress, _: Done, waits: Option<&str>| noted.push(waits.map(str::to_owned));
        let mut watched = Watched::new(Total::default(), pass);
        watched.on_wait("host `a`");
        let under_way = Progress { now: Duration::from_us(1), ..Progress::default() };
        for progress in [Progress::default(), under_way] {
            watched.next_s = 0.0;
            assert!(watched.goes_on(&progress));
        }
        assert_eq!(noted, [None, Some("host `a`".to_owned()), None]);
    }

    #[test]
    fn hops_are_expected_wherever_switches_are_emulated() {
        let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(1), Bytes(1 << 20)));
        let tree = topology::by_name("paper-testbed").unwrap();
        let plan = Plan::new(&Draft::default(), matrix, &tree).unwrap();
        let [sim, vdev, nic] =
            [World::Sim, World::Vdev, World::Nic].map(|world| Total::of(&plan, world));
        // In `vdev` a message counts when it is whole: hops alone move before.
        assert!(sim.hops > 0 && sim.hops == vdev.hops && nic.hops == 0);
        assert!(sim.processor_s > 0.0 && vdev.processor_s == 0.0);
    }

    #[test]
    fn a_run_is_passed_on_when_it_begins_and_when_it_is_due() {
        let mut noted = Vec::new();
        let total = Total { flows: 4, bytes: 1000, ..Total::default() };
        let mut watched = Watched::new(total, |_, done, _| noted.push(done.bytes));
        let quarter = Progress { bytes_delivered: 250, ..Progress::default() };
        for due in [f64::INFINITY, 0.0] {
            watched.next_s = due;
            assert!(watched.goes_on(&quarter));
        }
        assert_eq!(noted, [0.0, 0.25]);
    }
}
