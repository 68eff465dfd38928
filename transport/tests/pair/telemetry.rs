//! Telemetry and reports of receivers' halves, from the segment to the controller.

use std::sync::{Arc, Mutex};

use transport::cc::{AckSample, CongestionControl, Custom, LossSample, Window};
use transport::rc::{ArrivalRate, RcKind};
use transport::wire::int::Hop;
use transport::wire::{ExtRefusal, Extensions};

use super::*;

/// What the switch between the two writes into a segment of `from` that leaves at `at`.
pub(super) fn hop(at: Instant, from: usize) -> Hop {
    let port = u16::try_from(from).unwrap() + 1;
    Hop::new(at, Bytes::ZERO, Bytes::ZERO, Rate::from_gbps(100), port)
}

/// One acknowledgement as the controller saw it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    sent_at: Instant,
    hop: Option<Hop>,
    share: Option<Rate>,
}

/// A window that never moves, with a record of its samples.
#[derive(Clone, Debug)]
struct Watcher {
    cwnd: Bytes,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl CongestionControl for Watcher {
    fn window(&self) -> Window {
        Window { cwnd: self.cwnd, pacing: None, wake_at: None }
    }
    fn on_ack(&mut self, ack: &AckSample, _path: &Path) {
        let seen = Seen { sent_at: ack.sent_at(), hop: None, share: None };
        self.seen.lock().unwrap().push(seen);
    }
    fn on_ack_with(
        &mut self,
        ack: &AckSample,
        extensions: Extensions<'_>,
        _path: &Path,
    ) -> Option<ExtRefusal> {
        let hops = extensions.int().map_or(&[][..], |int| int.hops());
        assert!(hops.len() <= 1, "one switch");
        let advice = extensions.advice();
        assert!(advice.is_none_or(|advice| advice.half == RcKind::ArrivalRate.half()));
        let share = advice.and_then(|advice| ArrivalRate::share(advice.values));
        let seen = Seen { sent_at: ack.sent_at(), hop: hops.first().copied(), share };
        self.seen.lock().unwrap().push(seen);
        None
    }
    fn on_nack(&mut self, _loss: &LossSample, _path: &Path) {}
    fn on_timeout(&mut self, _loss: &LossSample, _path: &Path) {}
}

/// Sends messages both ways under `weather`; what the controllers of host 0 saw.
fn run(weather: Weather, seed: u64, change: impl FnOnce(&mut Settings)) -> Vec<Seen> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let both = config(|s| {
        s.cc = CcKind::Custom;
        s.cc_params.custom =
            Custom::built_by(1.0, move |path| Watcher { cwnd: path.bdp(), seen: Arc::clone(&log) })
                .with_int()
                .with_half(RcKind::ArrivalRate);
        s.int_room = 3;
        change(s);
    });
    let mut pair = Pair::new(&both, seed, weather);
    let flow = pair.hosts[0].endpoint.open_flow(HostId(1), both.default_path()).unwrap();
    let messages: Vec<Vec<u8>> = (1..=6u8).map(|n| vec![n; usize::from(n) * 30_000]).collect();
    for (tag, message) in (1..).zip(&messages) {
        pair.post(0, flow, message.clone(), tag);
    }
    pair.run(Duration::from_s(2), |pair| pair.hosts[0].ended.len() == messages.len());
    let mut delivered = pair.hosts[1].delivered.clone();
    delivered.sort();
    assert_eq!(delivered, (1..).zip(messages).collect::<Vec<_>>(), "intact");
    drop(pair);
    let seen = seen.lock().unwrap();
    seen.clone()
}

/// Every hop that was seen was written into the segment that the sample is of.
fn are_of_their_segments(seen: &[Seen]) {
    for Seen { sent_at, hop: echoed, .. } in seen {
        if let Some(echoed) = echoed {
            let at = hop(*sent_at, 0);
            // Send times are on the wire in 1024 picoseconds, hops in nanoseconds.
            let off = at.since(echoed).or(echoed.since(&at)).unwrap();
            assert!(off <= Duration::from_ns(3), "{off} from {sent_at:?}");
            assert_eq!(echoed.port(), 1);
        }
    }
}

#[test]
fn each_acknowledgement_echoes_its_segment_and_reports_what_the_half_says() {
    let seen = run(Weather::default(), 1, |_| ());
    are_of_their_segments(&seen);
    assert!(seen.len() > 100);
    assert!(seen.iter().all(|seen| seen.hop.is_some()), "nothing was lost");
    assert!(seen.iter().all(|seen| seen.share == Some(Rate::from_gbps(100))), "alone");
}

#[test]
fn acknowledgements_of_several_segments_echo_the_one_that_they_name() {
    let seen = run(Weather::default(), 2, |s| s.ack_every = 4);
    are_of_their_segments(&seen);
    let with = seen.iter().filter(|seen| seen.hop.is_some()).count();
    assert!(with * 10 >= seen.len() * 9, "{with} of {}", seen.len());
}

/// In this run a segment arrives once more, resent, while an acknowledgement of its first
/// transmission still waits: the answer has no telemetry rather than that of the other one.
#[test]
fn the_acknowledgement_of_one_transmission_never_echoes_another() {
    let weather = Weather {
        loss: 0.037_390_758_497_533_996,
        duplicate: 0.066_836_221_019_487_83,
        reorder: 0.152_407_521_693_964_04,
        trim: 0.161_705_040_957_211_2,
        mark: 0.1,
    };
    are_of_their_segments(&run(weather, 3_332_040_663_932_458_249, |s| s.ack_every = 3));
}

#[test]
fn where_nothing_asks_for_telemetry_no_packet_has_room_for_it() {
    let seen = run(Weather::default(), 3, |s| {
        s.cc = CcKind::Smartt;
        assert!(!s.has_extensions() && s.headers_max() == 128);
    });
    assert!(seen.is_empty());
    let seen = run(Weather::default(), 3, |s| s.int_room = 0);
    assert!(seen.iter().all(|seen| seen.hop.is_none() && seen.share.is_some()));
}

#[test]
fn segments_with_room_count_as_long_as_they_are() {
    let plain = config(|_| ());
    let always = config(|s| (s.int_always, s.int_room) = (true, 3));
    let room = u64::from(transport::wire::int::len_with(3));
    assert_eq!(always.mtu(), plain.mtu() + Bytes(room));
    assert_eq!(always.packet_max(), plain.packet_max() + Bytes(room));
    assert_eq!(always.ack_len(), plain.ack_len() + Bytes(room));
    // Far flows alone have some: then it is in the packets of some.
    let far = config(|s| {
        s.far.cc = Some(CcKind::Custom);
        s.cc_params.custom =
            Custom::built_by(1.0, |path| Watcher { cwnd: path.mtu, seen: Arc::default() })
                .with_int();
        s.int_room = 3;
    });
    assert_eq!(far.mtu(), plain.mtu());
    assert_eq!(far.packet_max(), plain.packet_max() + Bytes(room));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn whatever_the_network_does_echoes_are_right_and_messages_whole(
        seed: u64, loss in 0.0..0.1, duplicate in 0.0..0.1, reorder in 0.0..0.3, trim in 0.0..0.2,
        ack_every in 1u16..6,
    ) {
        let weather = Weather { loss, duplicate, reorder, trim, mark: 0.1 };
        let seen = run(weather, seed, |s| s.ack_every = ack_every);
        are_of_their_segments(&seen);
        prop_assert!(seen.iter().any(|seen| seen.hop.is_some()));
        prop_assert!(seen.iter().any(|seen| seen.share.is_some()));
    }
}
