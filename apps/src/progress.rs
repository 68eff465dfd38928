//! Shows the progress of a run on standard error, and passes the user's wish to stop on to the run.
//!
//! A bar with the time left on a terminal; a plain line every few seconds elsewhere, the first one
//! after a second. The share that is shown is that of the bytes delivered; the time left follows
//! from hops and from the time limit, too. `-vvv` logs how far the run was when.

use std::io::Write;
use std::time::Duration as RealDuration;

use experiments::forecast::Forecast;
use experiments::measure::Sample;
use experiments::plan::Plan;
use experiments::progress::{Progress, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use transport::Duration;

use crate::args::World;
use crate::console::Console;
use crate::estimate::{Done, Track};
use crate::interrupt;
use crate::stopwatch::Stopwatch;

/// Watches one run.
pub(crate) struct Shown<'a> {
    style: Style<'a>,
    watch: Stopwatch,
    total: Total,
    track: Track,
    /// Real seconds at which the track has its next point.
    note_s: f64,
    /// Real seconds at which the next line is due.
    next_s: f64,
}

/// The whole work of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Total {
    /// Flows of the matrix.
    pub(crate) flows: u64,
    /// Bytes of all flows, at least 1 to be a share of.
    pub(crate) bytes: u64,
    /// Hops that a simulation is expected to take; 0 in real time.
    pub(crate) hops: u64,
    /// The network time after which it ends; zero without a limit.
    pub(crate) limit: Duration,
}

impl Total {
    /// The work of `plan` in a world. O(flows + ports).
    pub(crate) fn of(plan: &Plan, world: World) -> Self {
        Self {
            flows: plan.matrix.flows.len() as u64,
            bytes: plan.matrix.total_bytes().0,
            hops: if world == World::Sim { Forecast::of(plan).hops } else { 0 },
            limit: plan.limit.unwrap_or(Duration::ZERO),
        }
    }

    /// The part of it that is done.
    pub(crate) fn done(&self, progress: &Progress) -> Done {
        Done {
            bytes: share(progress.bytes_delivered, self.bytes),
            hops: share(progress.hops, self.hops),
            limit: share(progress.now.as_ps(), self.limit.as_ps()),
        }
    }
}

enum Style<'a> {
    Quiet,
    Lines(&'a mut dyn Write),
    Bar(ProgressBar),
}

/// Real seconds between plain lines: rare enough for a log.
pub(crate) const LINE_EVERY_S: f64 = 5.0;
/// Real seconds before the first one.
pub(crate) const FIRST_LINE_S: f64 = 1.0;
/// Real seconds between redraws, and between points of a track.
pub(crate) const DRAW_EVERY_S: f64 = 0.1;

impl<'a> Shown<'a> {
    /// Starts to watch; shows nothing when `quiet`.
    pub(crate) fn new(total: Total, quiet: bool, console: &'a mut Console<'_>) -> Self {
        let style = match (quiet, console.err_is_terminal) {
            (true, _) => Style::Quiet,
            (false, true) => Style::Bar(bar(total)),
            (false, false) => Style::Lines(&mut *console.err),
        };
        let next_s = if matches!(style, Style::Bar(_)) { DRAW_EVERY_S } else { FIRST_LINE_S };
        let (watch, track) = (Stopwatch::start(), Track::default());
        Self { style, watch, total, track, note_s: 0.0, next_s }
    }

    fn note(&mut self, progress: &Progress, seconds: f64) {
        tracing::trace!(
            seconds,
            now_us = progress.now.as_us_f64(),
            flows = progress.flows_finished,
            bytes = progress.bytes_delivered,
            hops = progress.hops,
            "progress"
        );
        self.track.note(seconds, self.total.done(progress));
        self.note_s = seconds + DRAW_EVERY_S;
    }

    fn show(&mut self, progress: &Progress, seconds: f64) {
        let done = format!("{}/{} flows", progress.flows_finished, self.total.flows);
        let left = self.track.left();
        match &mut self.style {
            Style::Quiet => {}
            Style::Bar(bar) => {
                bar.set_position(progress.bytes_delivered);
                let left = left.map_or_else(String::new, |left| format!("{left:.0} s left, "));
                let now = progress.now.as_us_f64();
                bar.set_message(format!("{left}{done}, {now:.0} us of network time"));
            }
            Style::Lines(err) => {
                let share = share(progress.bytes_delivered, self.total.bytes);
                let left =
                    left.map_or_else(String::new, |left| format!(", about {left:.0} s left"));
                let now = progress.now.as_us_f64();
                // A log that cannot be written is no reason to end a run.
                let _ = writeln!(
                    err,
                    "{seconds:.0} s: {done}, {:.1} % of bytes, {now:.0} us of network time{left}",
                    share * 100.0
                );
            }
        }
    }
}

impl Watch for Shown<'_> {
    fn goes_on(&mut self, progress: &Progress) -> bool {
        let seconds = self.watch.seconds();
        if seconds >= self.note_s {
            self.note(progress, seconds);
        }
        if seconds >= self.next_s {
            self.show(progress, seconds);
            let step =
                if matches!(self.style, Style::Bar(_)) { DRAW_EVERY_S } else { LINE_EVERY_S };
            self.next_s = seconds + step;
        }
        !interrupt::requested()
    }

    /// Without a directory for results no one reads them.
    fn on_samples(&mut self, samples: &mut Vec<Sample>) {
        samples.clear();
    }
}

/// Shows nothing and passes on the user's wish to stop.
pub(crate) struct Silent;

impl Watch for Silent {
    fn goes_on(&mut self, _: &Progress) -> bool {
        !interrupt::requested()
    }

    /// Without a directory for results no one reads them.
    fn on_samples(&mut self, samples: &mut Vec<Sample>) {
        samples.clear();
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if let Style::Bar(bar) = &self.style {
            bar.finish_and_clear();
        }
    }
}

fn bar(total: Total) -> ProgressBar {
    drawn(ProgressBar::with_draw_target(Some(total.bytes), ProgressDrawTarget::stderr()))
}

/// Gives a bar its look.
pub(crate) fn drawn(bar: ProgressBar) -> ProgressBar {
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

    use indicatif::TermLike;

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

    #[test]
    fn a_bar_is_no_wider_than_the_terminal_and_begins_with_the_time_left() {
        for width in [40, 80] {
            let terminal = Narrow(width, Arc::default());
            let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
            let style =
                Style::Bar(drawn(ProgressBar::with_draw_target(Some(1_000_000_000_000), target)));
            let total = Total { bytes: 1_000_000_000_000, ..Total::default() };
            let (watch, track) = (Stopwatch::start(), Track::default());
            let mut shown = Shown { style, watch, total, track, note_s: 0.0, next_s: 0.0 };
            let progress = Progress {
                now: Duration::from_s(1000),
                flows_finished: 123_456,
                bytes_delivered: 250_000_000_000,
                hops: 9,
            };
            shown.note(&progress, 400.0);
            shown.show(&progress, 400.0);
            let Style::Bar(bar) = &shown.style else { panic!("a bar") };
            bar.force_draw();
            drop(shown);
            let written = terminal.1.lock().unwrap();
            assert!(written.iter().any(|text| text.contains("1200 s left")), "{written:?}");
            for text in written.iter() {
                assert!(text.chars().count() <= usize::from(width), "{width}: {text:?}");
            }
        }
    }

    #[test]
    fn a_plain_line_says_how_far_it_is_and_how_long_it_takes() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console::plain(&mut out, &mut err);
        let total = Total { flows: 4, bytes: 1000, ..Total::default() };
        let mut shown = Shown::new(total, false, &mut console);
        let progress = Progress {
            now: Duration::from_us(7),
            flows_finished: 1,
            bytes_delivered: 250,
            hops: 9,
        };
        shown.note(&progress, 3.0);
        shown.show(&progress, 3.0);
        assert!(shown.goes_on(&progress));
        drop(shown);
        let line = String::from_utf8(err).unwrap();
        let expected = "3 s: 1/4 flows, 25.0 % of bytes, 7 us of network time, about 9 s left\n";
        assert_eq!(line, expected);
        assert!(out.is_empty());
    }
}
