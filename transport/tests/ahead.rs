//! Paced segments that are given to the driver ahead of their departure: when they leave, in which
//! order, and how long round trips are, however late the polls are. The network is perfect.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use proptest::prelude::*;
use transport::cc::CcKind;
use transport::record::{Recorder, replay};
use transport::wire::Body;
use transport::{
    BURST, Burst, Config, Duration, Event, FlowId, HostId, Instant, MsgSpec, Placement, Rate, Rng,
    RxSegment, Settings, TxSegment,
};

const DELAY: Duration = Duration::from_us(150);

/// Longer than the network's base RTT, so that a window in a base RTT is a pace below the window's
/// limit.
const BASE_RTT: Duration = Duration::from_us(400);

/// A sender that is polled now and then, and a receiver that always is.
struct Pair {
    ends: [Recorder; 2],
    flows: Vec<FlowId>,
    wire: BTreeMap<(Instant, u64), (usize, RxSegment)>,
    count: u64,
    now: Instant,
    /// For every segment of the sender: when it was given, when it leaves, its flow at the sender.
    given: Vec<(Instant, Instant, usize)>,
    rtts: BTreeSet<Duration>,
    sent: usize,
}

impl Pair {
    /// Messages of 0.4 to 1.7 MB, or `times` as long.
    fn new(cc: CcKind, flows: usize, times: u32, horizon: Duration) -> Self {
        let settings = Settings {
            line_rate: Rate::from_gbps(10),
            base_rtt: BASE_RTT,
            cc,
            ..Settings::default()
        };
        let config = Config::new(settings).unwrap();
        let rng = Rng::new(5);
        let end = |host| Recorder::on(&config, HostId(host), rng.fork("host", u64::from(host)));
        let mut ends = [end(0), end(1)];
        if horizon > Duration::ZERO {
            ends[0].send_ahead(horizon);
        }
        let path = config.default_path();
        let open = |_| ends[0].open_flow(HostId(1), path).unwrap();
        let flows: Vec<FlowId> = (0..flows).map(open).collect();
        for (&flow, kb) in flows.iter().zip([900, 1700, 400].iter().cycle()) {
            let len = NonZeroU32::new(kb * 1000 * times).unwrap();
            ends[0].post_send(Instant::ZERO, MsgSpec { flow, len, tag: 1 }).unwrap();
        }
        let (wire, given, rtts) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        Self { ends, flows, wire, count: 0, now: Instant::ZERO, given, rtts, sent: 0 }
    }

    /// End `at` is polled.
    fn poll(&mut self, at: usize) {
        let now = self.now;
        let mut burst = Vec::new();
        let due =
            |(&(due, _), &(to, _)): (&(Instant, u64), &(usize, RxSegment))| due <= now && to == at;
        while let Some((&key, _)) = self.wire.iter().find(|entry| due(*entry)) {
            burst.push(self.wire.remove(&key).unwrap().1);
        }
        for rx in burst.chunks(BURST) {
            for segment in rx {
                let Body::Ack(ack) = segment.hdr.body else { continue };
                let rtt = segment.at.round_trip(ack.echo_sent_at);
                self.rtts.insert(rtt.saturating_sub(Duration::from_wire(ack.held)));
            }
            let mut places = [Placement::Release; BURST];
            self.ends[at].handle_burst(now, rx, &mut places);
        }
        self.ends[at].handle_timeout(now);
        let mut tx = Burst::with_limit(BURST);
        loop {
            tx.reset(BURST);
            self.ends[at].poll_transmit(now, &mut tx);
            if tx.is_empty() {
                break;
            }
            tx.iter().for_each(|segment| self.leave(at, segment));
        }
        while let Some(event) = self.ends[at].poll_event() {
            self.sent += usize::from(matches!(event, Event::Sent { .. }));
        }
    }

    fn leave(&mut self, at: usize, segment: &TxSegment) {
        let leaves = segment.departure(self.now);
        if at == 0 {
            let flow = usize::try_from(segment.payload.msg.0).unwrap();
            self.given.push((self.now, leaves, flow));
        }
        let rx = RxSegment {
            hdr: segment.hdr,
            at: leaves + DELAY,
            from: HostId(u32::try_from(at).unwrap()),
            payload_len: segment.payload.len,
            ce: false,
            trimmed: false,
        };
        self.count += 1;
        self.wire.insert((rx.at, self.count), (1 - at, rx));
    }

    /// Until all is sent: the sender's turns are `gap` apart, the receiver's half a microsecond.
    fn run(&mut self, gap: impl Fn(u64) -> Duration) {
        let (mut turn, mut next) = (0, Instant::ZERO);
        while self.sent < self.flows.len() {
            if self.now >= next {
                self.poll(0);
                turn += 1;
                next = self.now + gap(turn);
            }
            self.poll(1);
            self.now += Duration::from_ns(500);
            assert!(self.now < Instant::ZERO + Duration::from_s(1), "{} sent", self.sent);
        }
    }

    /// How many of 100 departures in the second half share their instant with the departure before
    /// of the same flow.
    fn back_to_back(&self) -> usize {
        let half = self.given.len() / 2;
        let mut last = BTreeMap::new();
        let same = |(_, leaves, flow): &&(Instant, Instant, usize)| {
            last.insert(*flow, *leaves) == Some(*leaves)
        };
        self.given[half..].iter().filter(same).count() * 100 / half
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn segments_leave_within_the_horizon_and_behind_those_given_at_an_earlier_instant(
        flows in 1usize..6,
        horizon_us in 0u64..50,
        late_us in 1u64..30,
        seed in any::<u64>(),
    ) {
        let horizon = Duration::from_us(horizon_us);
        let mut pair = Pair::new(CcKind::Bbr, flows, 1, horizon);
        pair.run(|turn| {
            let draw = seed.rotate_left(u32::try_from(turn % 64).unwrap());
            Duration::from_us(1 + draw % late_us)
        });
        let (mut instant, mut before, mut latest) = (Instant::ZERO, Instant::ZERO, Instant::ZERO);
        for &(now, leaves, _) in &pair.given {
            if now > instant {
                (instant, before) = (now, latest);
            }
            prop_assert!(leaves >= now && leaves <= now + horizon, "{leaves:?} at {now:?}");
            prop_assert!(leaves == now || leaves >= before, "{leaves:?} behind {before:?}");
            latest = latest.max(leaves);
        }
        // Round trips contain the network alone, although polls are late by up to 30 us.
        for rtt in &pair.rtts {
            prop_assert!(rtt.as_ps().abs_diff(2 * DELAY.as_ps()) < 5000, "{rtt:?}");
        }
        prop_assert!(!pair.rtts.is_empty());
        let tape = pair.ends[0].finish();
        let replayed = replay(&tape).unwrap();
        prop_assert_eq!(replayed.sent, pair.given.len() as u64);
    }
}

#[test]
fn given_ahead_a_paced_flow_leaves_one_by_one_where_late_polls_send_bursts() {
    let gap = |_| Duration::from_us(12);
    let [mut now, mut ahead] =
        [0, 20].map(|us| Pair::new(CcKind::UnoCc, 1, 10, Duration::from_us(us)));
    now.run(gap);
    ahead.run(gap);
    let (without, with) = (now.back_to_back(), ahead.back_to_back());
    assert!(without > 50, "{without} %: late polls send bursts");
    assert!(with < 10, "{with} %");
}
