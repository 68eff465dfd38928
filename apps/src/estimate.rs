//! How long runs will still take, from how far they have come. Has no clock: seconds are handed in.
//!
//! The beginning of a run says little about the rest: windows open, first packets are lost. So a
//! run goes on as it did in the latest half of its time. A run that has not begun takes as long for
//! its work, which a forecast gives, as the others do for theirs; a free thread takes the next one.

/// The way of one run: how far it was when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    /// Seconds since its beginning, and the share that was done, ascending and about evenly apart.
    points: Vec<(f64, f64)>,
    /// The last note, which may be too close to the last point to be one.
    last: Option<(f64, f64)>,
    /// The least seconds between two points; they grow with the track.
    apart: f64,
}

/// The most points of a track: an estimate needs the one at half the time, about.
const POINTS: u16 = 256;

impl Track {
    /// Notes that `share` of the run is done after so many seconds.
    pub(crate) fn note(&mut self, seconds: f64, share: f64) {
        self.last = Some((seconds, share));
        if self.points.last().is_none_or(|(before, _)| seconds > before + self.apart) {
            self.points.push((seconds, share));
        }
        if self.points.len() > usize::from(POINTS) {
            self.apart = 2.0 * seconds / f64::from(POINTS);
            let mut kept = f64::NEG_INFINITY;
            self.points.retain(|(at, _)| {
                let keeps = *at > kept + self.apart;
                kept = if keeps { *at } else { kept };
                keeps
            });
        }
    }

    /// The share that was done when it was noted last.
    fn share(&self) -> f64 {
        self.last.map_or(0.0, |(_, share)| share.clamp(0.0, 1.0))
    }

    /// Seconds from the last point to the end; `None` where nothing is done yet.
    pub(crate) fn left(&self) -> Option<f64> {
        let (now, share) = self.last?;
        let before = self.points.iter().rev().find(|(seconds, _)| *seconds <= now / 2.0);
        let before = before.copied().unwrap_or_default();
        // In a time in which nothing moves, the whole way is the better guide.
        let (since, from) = if share > before.1 { before } else { (0.0, 0.0) };
        let rate = (share - from) / (now - since);
        (rate > 0.0 && rate.is_finite()).then(|| (1.0 - share).max(0.0) / rate)
    }
}

/// Several runs, so many of which go on at a time.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    jobs: usize,
    all: Vec<Run>,
}

/// A run among others.
#[derive(Clone, Debug)]
struct Run {
    /// What it is expected to cost, in any unit.
    work: f64,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Waiting,
    Going {
        /// When it began.
        since: f64,
        track: Track,
    },
    /// How long it took; `None` for a run that need not run.
    Over(Option<f64>),
}

impl Runs {
    /// Runs that are expected to cost so much each, `jobs` at a time, in their order.
    pub(crate) fn new(works: Vec<f64>, jobs: usize) -> Self {
        let run = |work: f64| Run { work: work.max(f64::MIN_POSITIVE), state: State::Waiting };
        Self { jobs: jobs.max(1), all: works.into_iter().map(run).collect() }
    }

    /// Takes out a run that need not run.
    pub(crate) fn skip(&mut self, at: usize) {
        self.all[at].state = State::Over(None);
    }

    /// Notes that `share` of a run is done; the first time it begins.
    pub(crate) fn note(&mut self, at: usize, seconds: f64, share: f64) {
        let state = &mut self.all[at].state;
        if matches!(state, State::Waiting) {
            *state = State::Going { since: seconds, track: Track::default() };
        }
        if let State::Going { since, track } = state {
            track.note(seconds - *since, share);
        }
    }

    /// Notes that a run is over.
    pub(crate) fn end(&mut self, at: usize, seconds: f64) {
        let since = match &self.all[at].state {
            State::Going { since, .. } => *since,
            _ => 0.0,
        };
        self.all[at].state = State::Over(Some(seconds - since));
    }

    /// How many are over.
    pub(crate) fn over(&self) -> usize {
        self.all.iter().filter(|run| matches!(run.state, State::Over(_))).count()
    }

    /// The share of the work that is done.
    pub(crate) fn share(&self) -> f64 {
        let of = |run: &Run| match &run.state {
            State::Waiting | State::Over(None) => 0.0,
            State::Going { track, .. } => run.work * track.share(),
            State::Over(Some(_)) => run.work,
        };
        let due = self.all.iter().filter(|run| !matches!(run.state, State::Over(None)));
        let all: f64 = due.map(|run| run.work).sum();
        if all > 0.0 { self.all.iter().map(of).sum::<f64>() / all } else { 1.0 }
    }

    /// Seconds until all are over; `None` where nothing is done yet.
    pub(crate) fn left(&self) -> Option<f64> {
        // Seconds and work of what is known: runs that are over, and what others will have taken.
        let known = |run: &Run| match &run.state {
            State::Waiting | State::Over(None) => None,
            State::Over(Some(seconds)) => Some((*seconds, run.work)),
            State::Going { track, .. } => {
                let (now, _) = track.last?;
                Some((now + track.left()?, run.work))
            }
        };
        let (seconds, work) = self
            .all
            .iter()
            .filter_map(known)
            .fold((0.0, 0.0), |sum, (seconds, work)| (sum.0 + seconds, sum.1 + work));
        if work <= 0.0 {
            return None;
        }
        let rate = seconds / work;
        let mut threads = vec![0.0_f64; self.jobs];
        let rest = |run: &Run| match &run.state {
            State::Going { track, .. } => Some(track.left().unwrap_or(rate * run.work)),
            _ => None,
        };
        let waiting = |run: &Run| matches!(run.state, State::Waiting).then(|| rate * run.work);
        let going = self.all.iter().filter_map(rest);
        for seconds in going.chain(self.all.iter().filter_map(waiting)) {
            if let Some(next) = threads.iter_mut().min_by(|a, b| a.total_cmp(b)) {
                *next += seconds;
            }
        }
        threads.into_iter().reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each estimate of a run that went this way is right within a factor of two, from one
    /// second on, until a tenth of a second before its end.
    fn is_right(way: &[(f64, f64)]) -> Result<(), String> {
        let (end, _) = *way.last().unwrap();
        let mut track = Track::default();
        for (seconds, share) in way {
            track.note(*seconds, *share);
            let truth = end - seconds;
            if *seconds < 1.0 || truth < 0.1 {
                continue;
            }
            let left = track.left().ok_or_else(|| format!("none after {seconds} s"))?;
            if !(0.5..=2.0).contains(&(left / truth)) {
                return Err(format!("after {seconds} s: {left:.2} s, in truth {truth:.2} s"));
            }
        }
        Ok(())
    }

    #[test]
    fn a_run_that_goes_evenly_or_begins_slowly_is_foreseen() {
        let steps = || (1..=200).map(|at| f64::from(at) / 10.0);
        let even: Vec<(f64, f64)> = steps().map(|s| (s, s / 20.0)).collect();
        assert_eq!(is_right(&even), Ok(()));
        // Nothing but lost packets for half a second, and slower by and by.
        let slowing = |s: f64| (s, (s - 0.5).max(0.0).powf(0.9) / 19.5f64.powf(0.9));
        assert_eq!(is_right(&steps().map(slowing).collect::<Vec<_>>()), Ok(()));
    }

    #[test]
    fn a_time_in_which_nothing_moves_is_no_end() {
        let mut track = Track::default();
        assert_eq!(track.left(), None);
        track.note(1.0, 0.5);
        track.note(4.0, 0.5);
        assert_eq!(track.left(), Some(4.0));
        track.note(5.0, 1.0);
        assert_eq!(track.left(), Some(0.0));
    }

    #[test]
    fn a_long_track_stays_short() {
        let mut track = Track::default();
        (1..=10_000).for_each(|at| track.note(f64::from(at), f64::from(at) / 20_000.0));
        assert!(track.points.len() <= usize::from(POINTS));
        assert!((track.left().unwrap() - 10_000.0).abs() < 100.0, "{:?}", track.left());
    }

    #[test]
    fn a_long_run_goes_on_as_in_the_latest_half_of_its_time() {
        let mut track = Track::default();
        for at in 1..=18_000_u32 {
            let seconds = f64::from(at) / 10.0;
            track.note(seconds, ((seconds - 900.0) / 1000.0).max(0.0));
        }
        // At 1800 s, 0.9 is done, all of it since 900 s.
        let left = track.left().unwrap();
        assert!((left - 100.0).abs() < 5.0, "{left}");
    }

    /// Plays a sweep of runs that take so many seconds each, and forecasts that are off by the
    /// factors beside; every estimate from the first second on is right within a factor of two.
    fn plays(runs: &[(f64, f64)], jobs: usize) {
        let play = |until: f64, estimate: &mut Option<Runs>| -> f64 {
            // Seconds at which each thread is free, and the runs in their order.
            let mut free = vec![0.0_f64; jobs];
            for (at, (seconds, _)) in runs.iter().enumerate() {
                let thread = free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
                let (begin, end) = (*thread, *thread + seconds);
                *thread = end;
                let Some(all) = estimate else { continue };
                let mut now = begin;
                while now < until.min(end) {
                    all.note(at, now, (now - begin) / seconds);
                    now += 0.1;
                }
                if end <= until {
                    all.end(at, end);
                }
            }
            free.into_iter().fold(0.0, f64::max)
        };
        let whole = play(0.0, &mut None);
        let mut now = 1.0;
        while now < whole - 0.5 {
            let works = runs.iter().map(|(seconds, off)| seconds * off).collect();
            let mut estimate = Some(Runs::new(works, jobs));
            play(now, &mut estimate);
            let left = estimate.unwrap().left().unwrap();
            let ratio = left / (whole - now);
            let truth = whole - now;
            assert!((0.5..=2.0).contains(&ratio), "after {now} s: {left:.1} of {truth:.1} s");
            now += 0.5;
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

    #[test]
    fn runs_that_are_kept_are_no_work() {
        let mut runs = Runs::new(vec![10.0, 10.0], 1);
        runs.skip(0);
        assert_eq!((runs.left(), runs.share(), runs.over()), (None, 0.0, 1));
        runs.note(1, 0.0, 0.0);
        runs.note(1, 2.0, 0.25);
        assert_eq!((runs.left(), runs.share()), (Some(6.0), 0.25));
        runs.end(1, 8.0);
        assert_eq!((runs.left(), runs.share(), runs.over()), (Some(0.0), 1.0, 2));
    }
}
