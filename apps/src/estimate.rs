//! How long runs will still take, estimated from their progress. This code has no clock: seconds
//! are passed in.
//!
//! The progress of a run has three measures. The share of its bytes that is delivered is exact at
//! the end, but says little while packets are lost and nothing arrives. Hops, as a share of those
//! that a forecast expects, move from the first instant on. But the forecast is off by a factor,
//! and a hop costs less while each sender sends many packets in turn than it does later. The
//! processor time of the forecast is off by a factor, too, but from the first instant on it
//! includes what is to come later. Each measure gives a time left, as if it went on as in the
//! latest part of the run's time. The time left of the run is the geometric mean of these. The more
//! bytes are delivered, the more they weigh in it. The time of the forecast counts only while
//! hardly any bytes are delivered. A forecast gives the work of a run that has not begun. Such a
//! run is expected to take as long for its work as the others do for theirs; a free thread takes
//! the next run.

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Done {
    /// The share of its bytes that is delivered, 0 to 1.
    pub(crate) bytes: f64,
    /// Hops as a share of those in the forecast, which a run can exceed; 0 without a forecast.
    pub(crate) hops: f64,
    /// Processor time that it has had, as a share of that in the forecast, which it can exceed; 0
    /// without a forecast.
    pub(crate) time: f64,
    /// The share of the time limit that is over; 0 without a limit.
    pub(crate) limit: f64,
}

/// The beginning of a line with the progress of a run.
const DONE: &str = "progress:";

impl Done {
    /// The line that reports the progress to another process.
    pub(crate) fn line(&self) -> String {
        let Self { bytes, hops, time, limit } = self;
        format!("{DONE} {bytes} {hops} {time} {limit}")
    }

    /// The progress in a line; `None` for any other line.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        let numbers = line.strip_prefix(DONE)?.split_ascii_whitespace();
        let numbers: Vec<f64> = numbers.map(str::parse).collect::<Result<_, _>>().ok()?;
        let [bytes, hops, time, limit] = numbers[..] else { return None };
        Some(Self { bytes, hops, time, limit })
    }
}

/// The track of one run: its progress over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    /// Seconds since its beginning, and what was done, ascending and about evenly apart.
    points: Vec<(f64, Done)>,
    /// The last note, which may be too close to the last point to become a point.
    last: Option<(f64, Done)>,
    /// The least seconds between two points; they grow with the track.
    apart: f64,
}

/// The most points of a track: an estimate needs the one at [`BEFORE`] of the time, about.
const POINTS: u16 = 256;
/// The share of a run's time that is no evidence about the rest.
const BEFORE: f64 = 0.6;
/// The share of the forecast hops that a run takes without losses: the forecast has a margin.
const HOPS_USUAL: f64 = 0.8;
/// The share of bytes delivered from which on they weigh more than hops.
const BYTES_COUNT: f64 = 0.05;
/// The share of bytes delivered from which on the observed progress weighs more than the time in
/// the forecast.
const SEEN_COUNTS: f64 = 0.01;

impl Track {
    /// Notes what is done of the run after so many seconds.
    pub(crate) fn note(&mut self, seconds: f64, done: Done) {
        self.last = Some((seconds, done));
        if self.points.last().is_none_or(|(before, _)| seconds > before + self.apart) {
            self.points.push((seconds, done));
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

    /// The share of bytes that was delivered when it was noted last.
    fn share(&self) -> f64 {
        self.last.map_or(0.0, |(_, done)| done.bytes.clamp(0.0, 1.0))
    }

    /// Seconds from the last point to the end; `None` where nothing is done yet.
    pub(crate) fn left(&self) -> Option<f64> {
        let bytes = self.seconds_for(|done| done.bytes, |share| 1.0 - share);
        let hops = self.seconds_for(|done| done.hops / HOPS_USUAL, expected_left);
        let time = self.seconds_for(|done| done.time, expected_left);
        let seen = self.mean(bytes, hops, BYTES_COUNT);
        let left = self.mean(seen, time, SEEN_COUNTS)?;
        let limit = self.seconds_for(|done| done.limit, |share| 1.0 - share);
        Some(limit.map_or(left, |limit| left.min(limit)))
    }

    /// The geometric mean of two times left, in which both weigh the same when `even` of the bytes
    /// is delivered, and the first one more after that.
    fn mean(&self, first: Option<f64>, other: Option<f64>, even: f64) -> Option<f64> {
        let (Some(first), Some(other)) = (first, other) else { return first.or(other) };
        let weight = self.share() / (self.share() + even);
        Some(libm::pow(first, weight) * libm::pow(other, 1.0 - weight))
    }

    /// Seconds for what is left of a measure; `None` where it does not move.
    fn seconds_for(&self, of: impl Fn(&Done) -> f64, left: impl FnOnce(f64) -> f64) -> Option<f64> {
        let (now, done) = self.last.as_ref()?;
        let before = self.points.iter().rev().find(|(seconds, _)| *seconds <= now * BEFORE);
        let (since, from) = before.map_or((0.0, 0.0), |(seconds, done)| (*seconds, of(done)));
        let share = of(done);
        // In a time in which nothing moves, the whole way is the better guide.
        let (since, from) = if share > from { (since, from) } else { (0.0, 0.0) };
        let rate = (share - from) / (now - since);
        (rate > 0.0 && rate.is_finite()).then(|| left(share).max(0.0) / rate)
    }
}

/// The share that is left of what a forecast expects: all others until half is done. Then the
/// forecast counts the less the closer it comes; both lines meet with the same slope.
fn expected_left(done: f64) -> f64 {
    if done < 0.5 { 1.0 - done } else { 0.25 / done }
}

/// Several runs, so many of which go on at a time.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    jobs: usize,
    all: Vec<RunCost>,
}

/// A run among others.
#[derive(Clone, Debug)]
struct RunCost {
    /// The cost that is expected of the run, in any unit.
    work: f64,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Waiting,
    Going {
        /// When the run began.
        since: f64,
        track: Track,
    },
    /// How long the run took; `None` for a run that need not run.
    Over(Option<f64>),
}

impl Runs {
    /// Runs that are expected to cost so much each, `jobs` at a time, in their order.
    pub(crate) fn new(works: Vec<f64>, jobs: usize) -> Self {
        let run = |work: f64| RunCost { work: work.max(f64::MIN_POSITIVE), state: State::Waiting };
        Self { jobs: jobs.max(1), all: works.into_iter().map(run).collect() }
    }

    /// Takes out a run that need not run.
    pub(crate) fn skip(&mut self, at: usize) {
        self.all[at].state = State::Over(None);
    }

    /// Notes what is done of a run; the first time it begins.
    pub(crate) fn note(&mut self, at: usize, seconds: f64, done: Done) {
        let state = &mut self.all[at].state;
        if matches!(state, State::Waiting) {
            *state = State::Going { since: seconds, track: Track::default() };
        }
        if let State::Going { since, track } = state {
            track.note(seconds - *since, done);
        }
    }

    /// Notes that a run waits: it begins when something is noted of it the next time.
    pub(crate) fn wait(&mut self, at: usize) {
        self.all[at].state = State::Waiting;
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
        let of = |run: &RunCost| match &run.state {
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
        let known = |run: &RunCost| match &run.state {
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
        // Of a run that has not moved yet, only the time that is over is known.
        let expected = |run: &RunCost, track: &Track| {
            let over = track.last.map_or(0.0, |(seconds, _)| seconds);
            (rate * run.work - over).max(0.0)
        };
        let rest = |run: &RunCost| match &run.state {
            State::Going { track, .. } => Some(track.left().unwrap_or(expected(run, track))),
            _ => None,
        };
        let waiting = |run: &RunCost| matches!(run.state, State::Waiting).then(|| rate * run.work);
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
mod tests;
