//! Window changes by the receiver's count of the flows that share it: an improvement of ours, as
//! SMaRTT's (`smartt::share`).
//!
//! ```text
//!   more flows for a wait, at least m  ->  window at most BDP / m, cut for s flows;
//!                                          as it was where it has more than 2 BDP / n, n before
//!   m < s flows at most for a wait     ->  window x s / m, and s = m
//!
//!   `share=leaving`, inside a datacentre, too
//!   fewer flows for a wait             ->  the fast increase after an RTT without congestion
//! ```
//!
//! Marks and QuickAdapt need several round trips to bring flows to equal shares, and alpha takes
//! hundreds to take over what a flow that ends leaves. A receiver has the count at once. The count
//! gives back no more than it took: a flow with less than an equal share has its bottleneck
//! elsewhere, and keeps its window. Where marks hold a flow a little below its share, it gets the
//! same part of its new share. Without these two rules, flows that come and go by the thousand
//! would raise windows against all marks. The count changes for a moment when a flow of a few
//! packets comes, and when a flow pauses between two messages: a count has to last for the wait,
//! `share_wait`. The first one acts at once.

use super::{GAINED_MIN, UnoCc, short};
use crate::time::Instant;
use crate::units::Bytes;

/// A window of more than so many shares is cut: acknowledgements of packets in flight are then no
/// evidence about the new window.
const OTHER_WINDOW: f64 = 2.0;
/// A window of more than so many shares shows that others leave theirs unused.
const SEVERAL: f64 = 2.0;
/// Part of an equal share from which on a flow counts as one that has it.
const PART_MIN: f64 = 0.75;

impl UnoCc {
    /// Takes in the count of an acknowledgement; 0 is none.
    #[inline]
    pub(super) fn share(&mut self, sharers: u16, now: Instant, in_flight: Bytes) {
        self.end_wait(sharers);
        if self.moves_by(sharers) {
            self.wait(sharers, now, in_flight);
        }
    }

    /// Ends the wait where the count is again the one that the window follows.
    #[inline]
    pub(super) fn end_wait(&mut self, sharers: u16) {
        if sharers == self.counted {
            self.share_at = Instant::FAR_FUTURE;
        }
    }

    /// Whether a count may move the window, or begin the fast increase.
    #[inline]
    pub(super) fn moves_by(&self, sharers: u16) -> bool {
        let differs = sharers != self.counted && sharers != 0;
        differs && (self.params.increases_on_leave() || self.params.counts(self.bounds.base_rtt))
    }

    /// Handles a count that differs from the one that the window follows. When all counts have been
    /// on the same side for the wait, the window follows the nearest of them.
    #[inline(never)]
    fn wait(&mut self, sharers: u16, now: Instant, in_flight: Bytes) {
        let rises = sharers > self.counted;
        let begins = self.share_at == Instant::FAR_FUTURE;
        if begins || rises != (self.nearest > self.counted) {
            self.begin_wait(sharers, now);
        } else if rises {
            self.nearest = self.nearest.min(sharers);
        } else {
            self.nearest = self.nearest.max(sharers);
        }
        // The first count finds a window that is a guess: nothing is gained by a wait.
        let is_first = self.counted == 0;
        if now < self.share_at && !is_first {
            return;
        }
        self.share_at = Instant::FAR_FUTURE;
        self.share_among(self.nearest, now, in_flight);
        if sharers != self.counted {
            self.begin_wait(sharers, now);
        }
    }

    fn begin_wait(&mut self, sharers: u16, now: Instant) {
        self.nearest = sharers;
        self.share_at = now + self.params.intra_rtt.scaled(f64::from(self.params.share_wait));
    }

    fn share_among(&mut self, sharers: u16, now: Instant, in_flight: Bytes) {
        let (before, flows) = (core::mem::replace(&mut self.counted, sharers), f32::from(sharers));
        if sharers < before && self.params.increases_on_leave() {
            // Enough for the fast increase once an RTT has passed without congestion.
            self.gained = GAINED_MIN;
        }
        if !self.params.counts(self.bounds.base_rtt) {
            return;
        }
        if flows < self.shared {
            let grows = self.shared / flows;
            self.shared = flows;
            self.set(self.cwnd * f64::from(grows));
            return;
        }
        // A count that falls is no reason to cut, even a window above the new share: alpha may have
        // taken over what others left.
        if sharers < before {
            return;
        }
        let share = self.bounds.bdp() / f64::from(sharers);
        // Where others leave their shares unused, an equal share of the path says nothing about
        // what one more flow will use. Marks do.
        let has_several = self.cwnd * f64::from(before) > self.bounds.bdp() * SEVERAL;
        if self.cwnd <= share || has_several {
            return;
        }
        // Marks hold a flow that follows the count a little below its share, as far below the new
        // one: a count that falls and rises again leaves the window as it was.
        let part = self.cwnd * f64::from(self.shared) / self.bounds.bdp();
        let follows = self.shared > 1.0 && part >= PART_MIN;
        let share = if follows { share * part.min(1.0) } else { share };
        let took = self.shared * short(self.cwnd / share);
        self.shared = if before == 0 || follows { flows } else { took.min(flows) };
        if self.cwnd > share * OTHER_WINDOW {
            self.former = 0.0;
            self.adapt_to(share, now, in_flight);
        } else {
            self.set(share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::UnoCcParams;
    use super::*;
    use crate::cc::{AckSample, CongestionControl as _, Path};
    use crate::time::{Duration, Rate};

    const FAR: Path = Path {
        base_rtt: Duration::from_us(1600),
        line_rate: Rate::from_gbps(100),
        mtu: Bytes(4000),
    };
    const NEAR: Path = Path { base_rtt: Duration::from_us(14), ..FAR };
    /// `share_wait` of the defaults, microseconds.
    const WAIT: u64 = 8 * 14;

    /// A flow on `path` that starts with a whole BDP of 5000 or 43.75 packets.
    fn flow(path: &Path, settings: &[(&str, &str)]) -> UnoCc {
        let mut params = UnoCcParams { alpha: 0.0, ..Default::default() };
        for (key, value) in settings {
            params.set(key, value).unwrap();
        }
        UnoCc::new(&params, path)
    }

    /// One acknowledgement without a queue, with this count.
    fn count(cc: &mut UnoCc, path: &Path, now: Instant, sharers: u16) {
        let (rtt, held, acked) = (path.base_rtt, Duration::ZERO, Bytes(0));
        let in_flight = Bytes(4000);
        cc.on_ack(&AckSample { now, rtt, held, acked, in_flight, ecn: false, sharers }, path);
    }

    /// This count for as long as windows wait.
    fn stay(cc: &mut UnoCc, path: &Path, sharers: u16) {
        for wait in [0, WAIT] {
            let now = Instant::ZERO + path.base_rtt * 2 + Duration::from_us(wait);
            count(cc, path, now, sharers);
        }
    }

    #[test]
    fn flows_that_come_leave_an_equal_share_and_flows_that_go_give_theirs_back() {
        let mut cc = flow(&FAR, &[]);
        // 0 is a receiver that does not count.
        for (sharers, cwnd) in [(1, 5000.0), (4, 1250.0), (5, 1000.0), (0, 1000.0), (2, 2500.0)] {
            stay(&mut cc, &FAR, sharers);
            assert!((cc.cwnd / cwnd - 1.0).abs() < 1e-3, "{sharers}: {}", cc.cwnd);
        }
        stay(&mut cc, &FAR, 1);
        assert!((cc.cwnd / 5000.0 - 1.0).abs() < 1e-3, "{}", cc.cwnd);
    }

    #[test]
    fn a_flow_whose_bottleneck_is_elsewhere_keeps_its_window_when_others_come_and_go() {
        let mut cc = flow(&FAR, &[("initial", "0.125")]);
        for sharers in [1, 2, 7, 3, 1] {
            stay(&mut cc, &FAR, sharers);
            assert_eq!(cc.cwnd, 625.0, "{sharers}");
        }
        // The count returns what it took, and no more.
        stay(&mut cc, &FAR, 25);
        assert!((cc.cwnd - 200.0).abs() < 0.1, "{}", cc.cwnd);
        stay(&mut cc, &FAR, 1);
        assert!((cc.cwnd - 625.0).abs() < 0.1, "{}", cc.cwnd);
    }

    #[test]
    fn a_count_that_falls_cuts_no_window() {
        let mut cc = flow(&FAR, &[("initial", "0.1")]);
        stay(&mut cc, &FAR, 8);
        assert!((cc.cwnd - 500.0).abs() < 0.1, "{}: less than a share of 8", cc.cwnd);
        // Alpha has taken over what others left.
        cc.set(2500.0);
        for sharers in [4, 3] {
            stay(&mut cc, &FAR, sharers);
            assert!((cc.cwnd - 2500.0).abs() < 0.1, "{sharers}: {}", cc.cwnd);
        }
        stay(&mut cc, &FAR, 4);
        assert!((cc.cwnd - 1250.0).abs() < 0.1, "{}: a flow that comes", cc.cwnd);
    }

    #[test]
    fn a_window_of_several_shares_that_others_leave_unused_is_not_cut() {
        // One flow was cut to its share of 40; the window of the other one was below its share.
        for (initial, first) in [("1", 40), ("0.01", 7)] {
            let mut cc = flow(&FAR, &[("initial", initial)]);
            stay(&mut cc, &FAR, first);
            // Others have their bottleneck elsewhere, and alpha has taken over the path.
            cc.set(4000.0);
            for sharers in [first + 1, first, first + 1, first, 2 * first, first] {
                stay(&mut cc, &FAR, sharers);
                assert!((cc.cwnd / 4000.0 - 1.0).abs() < 1e-3, "{sharers}: {}", cc.cwnd);
            }
            // Less than two shares may be what others gave up for a moment.
            cc.set(1.9 * 5000.0 / f64::from(first));
            stay(&mut cc, &FAR, first + 1);
            let share = 5000.0 / f64::from(first + 1);
            assert!((cc.cwnd / share - 1.0).abs() < 1e-3, "{first}: {}", cc.cwnd);
        }
    }

    #[test]
    fn short_flows_that_come_and_go_raise_no_window_that_marks_hold() {
        let mut cc = flow(&FAR, &[]);
        stay(&mut cc, &FAR, 8);
        // 625 packets are a share of 8, 555.6 one of 9, 714.3 one of 7.
        for held in [500.0, 560.0, 600.0, 625.0] {
            cc.set(held);
            for sharers in [9, 8, 9, 10, 7, 8, 7, 9, 8] {
                stay(&mut cc, &FAR, sharers);
            }
            assert!((cc.cwnd / held - 1.0).abs() < 1e-3, "{held}: {}", cc.cwnd);
        }
    }

    #[test]
    fn the_first_count_moves_the_window_at_once() {
        let mut cc = flow(&FAR, &[]);
        let now = Instant::ZERO + FAR.base_rtt;
        count(&mut cc, &FAR, now, 10);
        assert!((cc.cwnd - 500.0).abs() < 0.1, "{}", cc.cwnd);
        count(&mut cc, &FAR, now + FAR.base_rtt, 20);
        assert!((cc.cwnd - 500.0).abs() < 0.1, "{}", cc.cwnd);
    }

    #[test]
    fn only_counts_that_last_for_the_wait_move_windows() {
        let mut cc = flow(&FAR, &[]);
        stay(&mut cc, &FAR, 8);
        cc.set(600.0);
        let mut now = Instant::ZERO + FAR.base_rtt * 3;
        let mut counts = |cc: &mut UnoCc, sharers: &[u16]| {
            for &sharers in sharers {
                now += Duration::from_us(WAIT / 4);
                count(cc, &FAR, now, sharers);
            }
            cc.cwnd
        };
        // Flows that pause, flows of a few packets, and both at a time.
        for sharers in [[8, 6, 7, 6, 6], [8, 9, 11, 9, 9], [7, 7, 9, 9, 7]] {
            for _ in 0..10 {
                assert_eq!(counts(&mut cc, &sharers), 600.0, "{sharers:?}");
            }
        }
        // Of the counts in a wait the nearest one moves the window, and the next wait the rest.
        let near = |cwnd: f64, expected: f64| {
            assert!((cwnd / expected - 1.0).abs() < 1e-3, "{cwnd} {expected}");
        };
        assert_eq!(counts(&mut cc, &[8, 6, 7, 6, 6]), 600.0);
        near(counts(&mut cc, &[6]), 600.0 * 8.0 / 7.0);
        near(counts(&mut cc, &[6, 6, 6]), 600.0 * 8.0 / 7.0);
        near(counts(&mut cc, &[6]), 800.0);
        near(counts(&mut cc, &[6; 16]), 800.0);
        assert!(counts(&mut cc, &[8, 10, 9, 8]) > 799.0);
        near(counts(&mut cc, &[8]), 600.0);
        near(counts(&mut cc, &[8, 8, 9, 8]), 600.0);
    }

    #[test]
    fn which_flows_follow_the_count_is_a_setting() {
        for (share, far, near) in [
            ("measured", 5000.0, 43.75),
            ("across", 1250.0, 43.75),
            ("leaving", 1250.0, 43.75),
            ("receiver", 1250.0, 10.9375),
        ] {
            for (path, cwnd) in [(FAR, far), (NEAR, near)] {
                let mut cc = flow(&path, &[("share", share)]);
                stay(&mut cc, &path, 4);
                assert_eq!(cc.cwnd, cwnd, "{share} {path:?}");
            }
        }
    }

    /// Acknowledgements of a packet each on [`NEAR`], see [`gain_on`].
    fn gain(cc: &mut UnoCc, now: &mut Instant, sharers: u16, rtts: u64, ecn: bool) -> f64 {
        gain_on(&NEAR, NEAR.mtu, cc, now, (sharers, rtts, ecn))
    }

    /// Acknowledgements of so many bytes each, five in an RTT of `path`, for `rtts` of them without
    /// a queue: what the window gains.
    fn gain_on(
        path: &Path,
        acked: Bytes,
        cc: &mut UnoCc,
        now: &mut Instant,
        (sharers, rtts, ecn): (u16, u64, bool),
    ) -> f64 {
        let (rtt, held) = (path.base_rtt, Duration::ZERO);
        let before = cc.cwnd;
        for _ in 0..5 * rtts {
            *now += rtt / 5;
            let in_flight = Bytes(1).scaled(cc.cwnd * 4000.0);
            cc.on_ack(&AckSample { now: *now, rtt, held, acked, in_flight, ecn, sharers }, path);
        }
        cc.cwnd - before
    }

    #[test]
    fn a_near_flow_increases_fast_when_others_have_left_until_it_meets_congestion() {
        for (share, alpha, grows) in [
            ("leaving", "0.001", true),
            ("across", "0.001", false),
            // Such an alpha, which this test takes away, gains three packets in a few RTTs.
            ("leaving", "0.032", false),
        ] {
            let settings = [("share", share), ("alpha", alpha), ("quick_adapt", "off")];
            let mut cc = flow(&NEAR, &settings);
            cc.at.alpha = 0.0;
            let mut now = Instant::ZERO + NEAR.base_rtt;
            gain(&mut cc, &mut now, 4, 1, true);
            // The last marked epoch ends.
            gain(&mut cc, &mut now, 4, 2, false);
            cc.set(5.0);
            assert_eq!(gain(&mut cc, &mut now, 4, 100, false), 0.0, "{share}: nothing leaves");
            assert_eq!(gain(&mut cc, &mut now, 3, 8, false), 0.0, "{share}: it does not last");
            assert_eq!(gain(&mut cc, &mut now, 4, 10, false), 0.0, "{share}");
            assert_eq!(gain(&mut cc, &mut now, 6, 20, false), 0.0, "{share}: flows come");
            assert_eq!(gain(&mut cc, &mut now, 5, 12, false) > 5.0, grows, "{share}: they leave");
            cc.set(5.0);
            gain(&mut cc, &mut now, 5, 1, true);
            gain(&mut cc, &mut now, 5, 2, false);
            cc.set(5.0);
            assert_eq!(gain(&mut cc, &mut now, 5, 100, false), 0.0, "{share}: congestion");
        }
    }

    /// Marks held the window far below its share, and the count gives back no more than it took.
    #[test]
    fn a_far_flow_increases_fast_when_others_have_left_too() {
        for (share, grows) in [("leaving", true), ("across", false)] {
            for (held, back) in [(300.0, 600.0), (5.0, 10.0)] {
                let mut cc = flow(&FAR, &[("share", share), ("quick_adapt", "off")]);
                stay(&mut cc, &FAR, 4);
                let mut now = Instant::ZERO + FAR.base_rtt * 4;
                let acked = Bytes(1).scaled(held * 800.0);
                let mut gain = |cc: &mut UnoCc, sharers, rtts, ecn| {
                    gain_on(&FAR, acked, cc, &mut now, (sharers, rtts, ecn))
                };
                gain(&mut cc, 4, 1, true);
                gain(&mut cc, 4, 2, false);
                cc.set(held);
                assert_eq!(gain(&mut cc, 4, 4, false), 0.0, "{share}: nothing leaves");
                gain(&mut cc, 2, 1, false);
                let least = cc.cwnd / back;
                assert!((1.0..=2.0).contains(&least), "{share}: {} of {back}", cc.cwnd);
                let gained = gain(&mut cc, 2, 2, false);
                assert_eq!(gained > held / 4.0, grows, "{share}: {gained} of {held}");
            }
        }
    }

    #[test]
    fn a_window_that_is_cut_to_less_than_half_ignores_what_was_sent_before() {
        for (sharers, ignores) in [(2, false), (3, true)] {
            let mut cc = flow(&FAR, &[]);
            stay(&mut cc, &FAR, sharers);
            assert_eq!(cc.adapted_at > Instant::ZERO, ignores, "{sharers}");
        }
    }
}
