//! The estimates of recorded runs and of sweeps that are played from them, against how long they
//! took. No test reads a clock.
//!
//! `tracks.txt` has runs that each take some seconds of a processor. A line has the name, the work
//! in the forecast (s) and the whole time (s). A line for each point of the run follows: seconds,
//! share of bytes delivered, share of the forecast hops, share of the time limit. `-vvv` logs these
//! points; seconds here are those of the processor (`processor_s`), since the machine did other
//! things beside.

use super::*;

/// A run that was recorded.
struct Recorded {
    name: &'static str,
    /// Seconds in the forecast.
    work: f64,
    /// Seconds that the run took.
    seconds: f64,
    points: Vec<(f64, Done)>,
}

fn recorded() -> Vec<Recorded> {
    let mut all: Vec<Recorded> = Vec::new();
    for line in include_str!("tracks.txt").lines() {
        let words: Vec<&'static str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<f64>().unwrap();
        if words.len() == 3 {
            let (work, seconds) = (number(1), number(2));
            all.push(Recorded { name: words[0], work, seconds, points: Vec::new() });
        } else {
            let run = all.last_mut().unwrap();
            let time = number(0) / run.work;
            let done = Done { bytes: number(1), hops: number(2), time, limit: number(3) };
            run.points.push((number(0), done));
        }
    }
    all
}

impl Recorded {
    /// What was done after so many seconds.
    fn done(&self, seconds: f64) -> Done {
        let next = self.points.partition_point(|point| point.0 <= seconds);
        let start = (0.0, Done::default());
        let before = if next == 0 { start } else { self.points[next - 1] };
        let Some(after) = self.points.get(next) else { return before.1 };
        let share = (seconds - before.0) / (after.0 - before.0);
        let mix = |of: fn(&Done) -> f64| of(&before.1) + share * (of(&after.1) - of(&before.1));
        let time = seconds / self.work;
        Done { bytes: mix(|d| d.bytes), hops: mix(|d| d.hops), time, limit: mix(|d| d.limit) }
    }

    fn track(&self, until: f64) -> Track {
        let mut track = Track::default();
        let steps = (0..).map(|at| f64::from(at) / 10.0).take_while(|seconds| *seconds <= until);
        steps.for_each(|seconds| track.note(seconds, self.done(seconds)));
        track
    }
}

/// The seconds before the end, or the last tenth, in which an estimate need not be right.
const END: f64 = 1.0;

#[test]
fn a_run_is_foreseen_within_a_factor_of_two_from_its_first_second_on() {
    let mut wrong = Vec::new();
    for run in recorded() {
        for at in 0..u32::MAX {
            let now = 1.0 + f64::from(at) / 5.0;
            let truth = run.seconds - now;
            if truth < END.max(run.seconds / 10.0) {
                break;
            }
            let left = run.track(now).left().unwrap_or(f64::INFINITY);
            if !(0.5..=2.0).contains(&(left / truth)) {
                wrong.push(format!("{} after {now:.1} s: {left:.1} of {truth:.1} s", run.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A run of a sweep: its progress after so many seconds, the seconds that it takes, and the work
/// that was expected.
type Played<'a> = (&'a dyn Fn(f64) -> Done, f64, f64);

/// The ratio of an estimate to the truth `now` seconds after the begin of a sweep; `None` when it
/// is over by then.
fn ratio(runs: &[Played<'_>], jobs: usize, now: f64) -> Option<f64> {
    let mut estimate = Runs::new(runs.iter().map(|run| run.2).collect(), jobs);
    // Seconds at which each thread is free.
    let mut free = vec![0.0_f64; jobs];
    for (at, (done, seconds, _)) in runs.iter().enumerate() {
        let thread = free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
        let (begin, end) = (*thread, *thread + seconds);
        *thread = end;
        for step in 0..u32::MAX {
            let noted = begin + f64::from(step) / 10.0;
            if noted > now.min(end) {
                break;
            }
            estimate.note(at, noted, done(noted - begin));
        }
        if end <= now {
            estimate.end(at, end);
        }
    }
    let truth = free.into_iter().fold(0.0, f64::max) - now;
    (truth > END).then(|| estimate.left().unwrap_or(f64::INFINITY) / truth)
}

#[test]
fn a_sweep_of_recorded_runs_is_foreseen_after_a_second_whatever_it_mixes() {
    let known = recorded();
    let (mut played, mut wrong, mut late) = (0, Vec::new(), (0, 0));
    for stride in [1, 2, 3, 5, 7, 11, 13, 17] {
        for first in 0..known.len() {
            let runs = (0..10).map(|at| &known[(first + at * stride) % known.len()]);
            let runs: Vec<&Recorded> = runs.collect();
            let done: Vec<_> = runs.iter().map(|run| |seconds: f64| run.done(seconds)).collect();
            let parts: Vec<Played<'_>> = done
                .iter()
                .zip(&runs)
                .map(|(done, run)| (done as &dyn Fn(f64) -> Done, run.seconds, run.work))
                .collect();
            for jobs in [1, 2] {
                played += 1;
                let right = |ratio: &f64| (0.5..=2.0).contains(ratio);
                let at_first = ratio(&parts, jobs, 1.0).unwrap();
                assert!((0.4..=2.5).contains(&at_first), "{stride} {first} {jobs}: {at_first}");
                if !right(&at_first) {
                    wrong.push(format!("{stride} {first} {jobs}: {at_first:.2}"));
                }
                let later = [3.0, 6.0, 10.0, 15.0, 20.0, 30.0].map(|now| ratio(&parts, jobs, now));
                late.0 += later.iter().flatten().count();
                late.1 += later.iter().flatten().filter(|ratio| !right(ratio)).count();
            }
        }
    }
    // One run is a measure for ten others, of any kind, after a second of it.
    assert!(wrong.len() * 33 <= played, "{} of {played}: {wrong:#?}", wrong.len());
    assert!(late.1 * 33 <= late.0, "later {} of {} are wrong", late.1, late.0);
}

/// Plays a sweep of runs that take so many seconds each, with forecasts that are off by the factors
/// beside. Every estimate from the first second on is right within a factor of two.
fn plays(runs: &[(f64, f64)], jobs: usize) {
    let done: Vec<_> = runs
        .iter()
        .map(|(seconds, off)| {
            move |now: f64| {
                let share = now / seconds;
                let expected = share / off;
                Done { bytes: share, hops: expected * HOPS_USUAL, time: expected, limit: 0.0 }
            }
        })
        .collect();
    let parts: Vec<Played<'_>> = done
        .iter()
        .zip(runs)
        .map(|(done, (seconds, off))| (done as &dyn Fn(f64) -> Done, *seconds, seconds * off))
        .collect();
    for step in 0..u32::MAX {
        let now = 1.0 + f64::from(step) / 2.0;
        let Some(ratio) = ratio(&parts, jobs, now) else { break };
        assert!((0.5..=2.0).contains(&ratio), "after {now} s: {ratio:.2} of the truth");
    }
}

#[test]
fn a_sweep_of_uneven_runs_is_foreseen_before_the_first_one_ends() {
    let sizes = [8.0, 1.0, 2.0, 16.0, 4.0, 1.0, 1.0, 2.0, 8.0, 4.0].map(|s| (s, 1.0));
    plays(&sizes, 1);
    plays(&sizes, 2);
    plays(&sizes, 4);
    // The last one alone takes as long as all before.
    plays(&[(2.0, 1.0), (2.0, 1.0), (2.0, 1.0), (2.0, 1.0), (16.0, 1.0)], 2);
    // Forecasts that are off by half as much again, each in its own direction.
    plays(&[(5.0, 0.7), (5.0, 1.4), (8.0, 1.0), (3.0, 0.8), (6.0, 1.2)], 2);
}

/// A run of which `share` of the bytes is delivered, without a forecast.
fn bytes(share: f64) -> Done {
    Done { bytes: share, ..Done::default() }
}

#[test]
fn without_a_forecast_bytes_alone_count() {
    let mut track = Track::default();
    assert_eq!(track.left(), None);
    track.note(1.0, bytes(0.5));
    // A time in which nothing moves is no end.
    track.note(4.0, bytes(0.5));
    assert_eq!(track.left(), Some(4.0));
    track.note(5.0, bytes(1.0));
    assert_eq!(track.left(), Some(0.0));
}

#[test]
fn a_run_that_delivers_nothing_is_foreseen_by_its_hops() {
    let mut track = Track::default();
    track.note(2.0, Done { hops: 0.2 * HOPS_USUAL, ..Done::default() });
    assert!((track.left().unwrap() - 8.0).abs() < 1e-9, "{:?}", track.left());
    // More hops than were expected are no end.
    track.note(20.0, Done { hops: 2.0 * HOPS_USUAL, ..Done::default() });
    assert!(track.left().unwrap() > 1.0, "{:?}", track.left());
}

#[test]
fn a_run_ends_at_its_time_limit() {
    let mut track = Track::default();
    let done = Done { bytes: 0.1, hops: 0.1, time: 0.1, limit: 0.5 };
    track.note(0.0, Done::default());
    track.note(3.0, done);
    assert_eq!(track.left(), Some(3.0));
}

#[test]
fn a_long_track_stays_short() {
    let mut track = Track::default();
    (1..=10_000).for_each(|at| track.note(f64::from(at), bytes(f64::from(at) / 20_000.0)));
    assert!(track.points.len() <= usize::from(POINTS));
    assert!((track.left().unwrap() - 10_000.0).abs() < 100.0, "{:?}", track.left());
}

#[test]
fn a_long_run_goes_on_as_in_the_latest_part_of_its_time() {
    let mut track = Track::default();
    for at in 1..=18_000_u32 {
        let seconds = f64::from(at) / 10.0;
        track.note(seconds, bytes(((seconds - 900.0) / 1000.0).max(0.0)));
    }
    // At 1800 s, 0.9 is done, all of it since 900 s.
    let left = track.left().unwrap();
    assert!((left - 100.0).abs() < 5.0, "{left}");
}

#[test]
fn runs_that_are_kept_are_no_work() {
    let mut runs = Runs::new(vec![10.0, 10.0], 1);
    runs.skip(0);
    assert_eq!((runs.left(), runs.share(), runs.over()), (None, 0.0, 1));
    runs.note(1, 0.0, bytes(0.0));
    runs.note(1, 2.0, bytes(0.25));
    assert_eq!((runs.left(), runs.share()), (Some(6.0), 0.25));
    runs.end(1, 8.0);
    assert_eq!((runs.left(), runs.share(), runs.over()), (Some(0.0), 1.0, 2));
}
