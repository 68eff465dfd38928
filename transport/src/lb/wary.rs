//! Wary spraying: all paths in turn until one is dead, and then the paths that have answered. A
//! coded flow begins with a few paths and tries others once these have answered. It is the
//! project's own; the first paths of a coded flow are as in \[uno\] sec. 4.2.
//!
//! ```text
//!   coded      +-------+  each has answered or is silent,       +------+
//!   flow ----> | first | -------------------------------------> | wary |
//!              +-------+  or a path is dead                     +------+
//!   other      +-------+             a path is dead              ^    |
//!   flow ----> | well  | ----------------------------------------+    |
//!              +-------+ <--------------------------------------------+
//!                              every path of the flow is good
//! ```
//!
//! - *First*: the packets of each block take the same few paths. A dead link then costs every block
//!   of a flow the same packets, and most flows can do without them. Nothing better is possible
//!   before the first answer.
//! - *Well*: spraying, in rounds over all paths. Flows load all links alike.
//! - *Wary*: rounds over the good paths, which have answered and were not found dead since. Beside
//!   these, one packet in 17 to 65 tries a path that is neither good nor waits for an answer. Each
//!   packet that was found lost or trimmed puts the next try off by one packet. A flow sends again
//!   before it sends anew, so that what was lost is not lost again on a path that is tried.
//!
//! A path has answered when a packet of it was acknowledged or trimmed: a trimmed header has passed
//! the path, too. A path is dead when a packet on it is lost and it has not answered since one was
//! sent on it a base RTT or longer before. A full queue loses packets, too, but lets others of the
//! same path pass. Dead paths are forgotten within 256 base RTTs in which the flow sends, and tried
//! again. Neither a mark nor a trim takes a path away: congestion is the controller's.
//!
//! A balancer is not notified of losses in blocks that can be decoded. So silence alone ends
//! *first* once some path has answered, and a path that never answered is not good. A good path
//! that dies stays good until a loss on it is reported. With `ack_every` above 1 only the path of
//! the segment that an acknowledgement names has answered; paths of other segments may seem silent.
//!
//! A packet costs at most three epochs, three searches of a bitmap and a step of `Rounds`, which
//! passes over numbers beyond the paths.

use super::paths::{Paths, paths_max};
use super::rounds::Rounds;
use super::{Balancer, LbParams, LoadBalancer, PathFeedback, entropy};
use crate::params::params;
use crate::path::Path;
use crate::registry::Registered;
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use crate::units::EntropyValue;

params! {
    /// Settings of [`Wary`].
    pub struct WaryParams {
        /// Wary: whether each block of a coded flow takes the same paths, one for each of its
        /// packets, until these have answered. Without it a flow is sprayed from its first packet
        /// on, and a dead link leaves every flow some blocks that cannot be decoded.
        wary_first: bool = true;
    }
}

/// Packets on good paths between two that try others: as many as there are good paths, within these
/// bounds.
const GAP: core::ops::RangeInclusive<u32> = 16..=64;

/// How the next path is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Each block takes the first paths of the rounds.
    First,
    /// All paths in rounds.
    Well,
    /// Good paths in rounds, and now and then another one.
    Wary,
}

/// The paths of one flow.
#[derive(Clone, Debug)]
pub struct Wary {
    /// Paths that have answered, and were not found dead since.
    good: Paths,
    /// The good paths that this round over them has not taken yet.
    left: Paths,
    /// Paths without an answer since a packet was sent on them in this epoch, in the one before, or
    /// in an earlier one: the last are silent, as are dead paths. No path is in two of these sets.
    waiting: [Paths; 3],
    /// The order of all paths. A round over good paths takes the good one that follows each.
    rounds: Rounds,
    base_rtt: Duration,
    /// When this epoch ends; means nothing before the first packet.
    epoch_end: Instant,
    mode: Mode,
    /// Whether a packet was sent.
    began: bool,
    /// Paths that each block of a coded flow takes at first; 0 where it takes all from the start.
    firsts: u8,
    /// How many of these this block has taken, 0..=`firsts`.
    taken: u8,
    /// Packets before the next one that tries a path.
    until_try: u16,
    /// Epochs since dead paths were forgotten; wraps.
    epochs: u8,
}

// With more a flow would be larger for every balancer.
const _: () = assert!(size_of::<Wary>() <= 200);

impl Wary {
    /// Begins the epochs that are due, each of a base RTT. The first is short: what a flow sends at
    /// once is silent an RTT later, and later packets after one to two RTTs. O(1): at most three.
    #[inline]
    fn turn(&mut self, now: Instant) {
        if !self.began || now >= self.epoch_end {
            self.begin_epochs(now);
        }
    }

    #[cold]
    fn begin_epochs(&mut self, now: Instant) {
        if !self.began {
            self.began = true;
            self.epoch_end = now + self.base_rtt / 32;
            return;
        }
        for _ in 0..self.waiting.len() {
            if now < self.epoch_end {
                return;
            }
            self.begin_epoch();
            self.epoch_end += self.base_rtt;
        }
        if now >= self.epoch_end {
            // After a pause no epoch is made up for.
            self.epoch_end = now + self.base_rtt;
        }
    }

    fn begin_epoch(&mut self) {
        let [new, before, silent] = &mut self.waiting;
        self.epochs = self.epochs.wrapping_add(1);
        if self.epochs == 0 {
            *silent = Paths::default();
        }
        silent.insert_all(before);
        (*before, *new) = (*new, Paths::default());
        if self.mode == Mode::First && !self.good.is_empty() {
            let mut known = self.good;
            known.insert_all(&self.waiting[2]);
            if known.count() >= u32::from(self.firsts) {
                self.watch();
            }
        }
    }

    fn is_waiting(&self, path: u16) -> bool {
        self.waiting.iter().any(|paths| paths.has(path))
    }

    /// Counts a packet on its way over `path`.
    fn send_on(&mut self, path: u16) {
        if !self.is_waiting(path) {
            self.waiting[0].insert(path);
        }
    }

    /// The next path of a block whose predecessors took the same paths.
    fn next_first(&mut self, rng: &mut Rng) -> u16 {
        if self.taken == self.firsts {
            self.taken = 0;
            self.rounds.again();
        }
        self.taken += 1;
        self.rounds.next(rng)
    }

    /// The next path while some may be dead.
    fn next_wary(&mut self, rng: &mut Rng) -> u16 {
        match self.until_try.checked_sub(1) {
            Some(left) => self.until_try = left,
            None => {
                self.await_try();
                if let Some(path) = self.unknown(rng) {
                    return path;
                }
            }
        }
        if self.left.is_empty() {
            self.left = self.good;
        }
        let turn = self.rounds.next(rng);
        // Where no path is good all are taken in turn.
        let path = self.left.next_from(turn).unwrap_or(turn);
        self.left.remove(path);
        path
    }

    /// A path to be tried: one that is neither good nor waits for an answer.
    fn unknown(&self, rng: &mut Rng) -> Option<u16> {
        let paths = self.rounds.paths();
        let mut unknown = Paths::below(paths);
        unknown.remove_all(&self.good);
        self.waiting.iter().for_each(|paths| unknown.remove_all(paths));
        if unknown.is_empty() {
            return None;
        }
        let start = rng.below(u64::from(paths));
        unknown.next_from(u16::try_from(start).unwrap_or(0))
    }

    /// Puts off the next try.
    fn await_try(&mut self) {
        let gap = self.good.count().clamp(*GAP.start(), *GAP.end());
        self.until_try = u16::try_from(gap).unwrap_or(u16::MAX);
    }

    /// Puts off the next try by a packet: one that is sent again.
    fn await_again(&mut self) {
        self.until_try = self.until_try.saturating_add(1);
    }

    /// The number of the path of `ev`, if it is one of this flow's.
    fn path_of(&self, ev: EntropyValue) -> Option<u16> {
        let path = ev.0.wrapping_sub(entropy(0).0);
        (path < self.rounds.paths()).then_some(path)
    }

    /// A packet on `path` has arrived, or its header has.
    fn answer(&mut self, path: u16) {
        self.waiting.iter_mut().for_each(|paths| paths.remove(path));
        if self.good.has(path) {
            return;
        }
        self.good.insert(path);
        let good = self.good.count();
        if good == u32::from(self.rounds.paths()) {
            self.mode = Mode::Well;
        } else if self.mode == Mode::First && good >= u32::from(self.firsts) {
            self.watch();
        }
    }

    /// A packet was found lost on `path`.
    fn suspect(&mut self, path: u16, now: Instant) {
        self.turn(now);
        if self.waiting[2].has(path) {
            self.good.remove(path);
            self.left.remove(path);
            self.watch();
        }
    }

    /// Keeps to good paths from now on.
    fn watch(&mut self) {
        if self.mode != Mode::Wary {
            self.mode = Mode::Wary;
            self.left = self.good;
            self.await_try();
        }
    }
}

impl Registered for Wary {
    const ABOUT: &'static str = "sprays until a path is dead, then over paths that answer";
    type Params = WaryParams;
}

impl Balancer for Wary {
    fn build(params: &LbParams, path: &Path, block: u8, rng: &mut Rng) -> Self {
        // A legal configuration has no more.
        let paths = params.common.paths.min(Paths::MAX);
        let firsts = if params.wary.wary_first { u16::from(block).min(paths) } else { 0 };
        Self {
            good: Paths::default(),
            left: Paths::default(),
            waiting: [Paths::default(); 3],
            rounds: Rounds::new(paths, rng),
            base_rtt: path.base_rtt,
            epoch_end: Instant::ZERO,
            mode: if firsts == 0 { Mode::Well } else { Mode::First },
            began: false,
            firsts: u8::try_from(firsts).unwrap_or(u8::MAX),
            taken: 0,
            until_try: 0,
            epochs: 0,
        }
    }

    fn paths_expected(paths: u16) -> Option<&'static str> {
        (paths > Paths::MAX).then_some(concat!("at most ", paths_max!(), " with the balancer wary"))
    }
}

impl LoadBalancer for Wary {
    fn next_ev(&mut self, now: Instant, rng: &mut Rng) -> EntropyValue {
        self.turn(now);
        let path = match self.mode {
            Mode::First => self.next_first(rng),
            Mode::Well => self.rounds.next(rng),
            Mode::Wary => self.next_wary(rng),
        };
        self.send_on(path);
        entropy(path)
    }

    fn on_feedback(&mut self, ev: EntropyValue, what: PathFeedback, now: Instant) {
        let Some(path) = self.path_of(ev) else { return };
        match what {
            PathFeedback::Good | PathFeedback::Ecn => self.answer(path),
            PathFeedback::Nack => {
                self.answer(path);
                self.await_again();
            }
            PathFeedback::Lost | PathFeedback::Timeout => {
                self.suspect(path, now);
                self.await_again();
            }
        }
    }

    fn is_silent(&self, ev: EntropyValue, _now: Instant) -> bool {
        self.path_of(ev).is_some_and(|path| self.waiting[2].has(path))
    }
}

#[cfg(test)]
mod tests;
