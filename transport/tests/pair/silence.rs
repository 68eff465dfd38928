//! Flows that are idle for long, and restarts of either end in between: the next message arrives,
//! once.

use transport::FailReason;
use transport::wire::Presence;

use super::*;

/// Silences in virtual time: shorter than a receiver's memory of a flow, and longer.
const SILENCES: [Duration; 3] =
    [Duration::from_s(10), Duration::from_s(180), Duration::from_s(900)];

pub(super) fn opened(pair: &mut Pair, config: &Config) -> FlowId {
    pair.hosts[0].endpoint.open_flow(HostId(1), config.default_path()).unwrap()
}

impl Pair {
    /// Another process takes the place of a host: it has none of its state.
    pub(super) fn restart(&mut self, host: usize, config: &Config, incarnation: u16) {
        let next = Config::new(Settings { incarnation, ..(**config).clone() }).unwrap();
        let host = &mut self.hosts[host];
        let id = host.endpoint.host();
        host.endpoint = Endpoint::new(&next, id, Rng::new(incarnation.into()));
        host.incoming.clear();
        if id == HostId(0) {
            host.outgoing.clear();
        }
    }

    /// Nothing is posted for `span`.
    pub(super) fn idle(&mut self, span: Duration) {
        let end = self.now + span;
        while self.hosts.iter().filter_map(|host| host.endpoint.poll_timeout()).any(|at| at < end)
            || self.wire.keys().any(|(at, _)| *at < end)
        {
            self.step();
        }
        self.now = end;
        for host in &mut self.hosts {
            host.endpoint.handle_timeout(end);
            host.drain();
        }
    }

    /// How often message `tag` has been delivered, with the right bytes each time.
    fn copies(&self, tag: u64, len: usize) -> usize {
        let all = self.hosts[1].delivered.iter().filter(|(other, _)| *other == tag);
        all.inspect(|(_, bytes)| assert!(*bytes == pattern(tag, len), "message {tag}")).count()
    }

    pub(super) fn failures(&self) -> Vec<FailReason> {
        let ended = self.hosts[0].ended.iter();
        ended
            .filter_map(|e| if let Event::Failed { reason, .. } = e { Some(*reason) } else { None })
            .collect()
    }

    pub(super) fn reopened(&self) -> u64 {
        self.hosts[0].endpoint.stats().flows_reopened
    }
}

/// Every kind of flow: plain, coded, with credit.
fn kinds() -> Vec<Config> {
    let coded_flows = config(|s| (s.ec, s.ec_shape, s.ec_params) = coded(Some((4, 2)), 100_000));
    let credited = config(|s| {
        s.sched = SchedKind::Credits;
        s.sched_params = SchedParams {
            credit: CreditParams { first_window: 0.0, ..CreditParams::default() },
            ..SchedParams::default()
        };
    });
    vec![config(|_| {}), config(|s| s.ack_every = 16), coded_flows, credited]
}

#[test]
fn after_a_silence_the_next_message_arrives_once_whichever_end_restarts() {
    const LEN: usize = 50_000;
    for config in kinds() {
        for restarted in [None, Some(0), Some(1)] {
            let mut pair = Pair::new(&config, 1, Weather::default());
            let mut flow = opened(&mut pair, &config);
            let mut tag = 0;
            for (silence, incarnation) in SILENCES.iter().zip(2..) {
                tag += 1;
                pair.post(0, flow, pattern(tag, LEN), tag);
                pair.run(Duration::from_s(1), |p| p.copies(tag, LEN) == 1);
                pair.idle(*silence);
                if let Some(host) = restarted {
                    pair.restart(host, &config, incarnation);
                }
                if restarted == Some(0) {
                    flow = opened(&mut pair, &config);
                }
            }
            tag += 1;
            pair.post(0, flow, pattern(tag, LEN), tag);
            pair.run(Duration::from_s(1), |p| p.copies(tag, LEN) == 1);
            pair.idle(Duration::from_s(1));
            assert!((1..=tag).all(|tag| pair.copies(tag, LEN) == 1), "{restarted:?}");
            assert_eq!(pair.failures(), []);
            assert_eq!(pair.reopened(), if restarted == Some(1) { 3 } else { 0 });
        }
    }
}

#[test]
fn a_receiver_that_restarts_in_the_middle_gets_whole_messages_and_each_once() {
    const LEN: usize = 300_000;
    for config in kinds() {
        let bad = Weather { loss: 0.02, duplicate: 0.02, reorder: 0.05, ..Weather::default() };
        for seed in 0..8 {
            let mut pair = Pair::new(&config, seed, bad);
            let flow = opened(&mut pair, &config);
            for tag in 1..=4 {
                pair.post(0, flow, pattern(tag, LEN), tag);
            }
            for _ in 0..seed * 40 + 30 {
                pair.step();
            }
            let before: Vec<usize> = (1..=4).map(|tag| pair.copies(tag, LEN)).collect();
            let sent = pair.hosts[0].count_sent();
            pair.restart(1, &config, 2);
            pair.run(Duration::from_s(5), |p| p.hosts[0].count_sent() == 4);
            pair.idle(Duration::from_ms(10));
            let after = (1..=4).zip(before).map(|(tag, before)| pair.copies(tag, LEN) - before);
            // Messages that were acknowledged are not sent again; all others arrive at the new
            // process.
            let after: Vec<usize> = after.collect();
            assert!(after.iter().all(|copies| *copies <= 1), "{after:?}");
            assert_eq!(after.iter().sum::<usize>(), 4 - sent, "seed {seed}: {after:?}");
            assert_eq!(pair.failures(), []);
        }
    }
}

#[test]
fn a_message_that_may_have_been_delivered_fails_and_is_not_delivered_again() {
    let config = config(|s| s.rx_flows_max = 1);
    let mut pair = Pair::new(&config, 1, Weather::default());
    let flow = opened(&mut pair, &config);
    pair.post(0, flow, pattern(1, 100), 1);
    pair.run(Duration::from_s(1), |p| p.hosts[0].count_sent() == 1);
    // The next one arrives, and no acknowledgement of it.
    pair.drops = |tx| matches!(tx.hdr.body, Body::Ack(_));
    pair.post(0, flow, pattern(2, 100), 2);
    pair.run(Duration::from_s(1), |p| p.copies(2, 100) == 1);
    // The sender stands still for longer than its flow is kept, and another takes its place.
    let sender = std::mem::replace(
        &mut pair.hosts[0].endpoint,
        Endpoint::new(&config, HostId(0), Rng::new(9)),
    );
    pair.wire.clear();
    pair.idle(config.give_up_after(&config.default_path()) * 3);
    pair.drops = |_| false;
    let other = opened(&mut pair, &config);
    pair.post(0, other, pattern(3, 100), 3);
    pair.run(Duration::from_s(1), |p| p.copies(3, 100) == 1);
    pair.hosts[0].endpoint = sender;
    // It goes on with a message that cannot have been delivered.
    pair.idle(config.give_up_after(&config.default_path()) * 3);
    pair.post(0, flow, pattern(4, 100), 4);
    pair.run(Duration::from_s(1), |p| p.copies(4, 100) == 1);
    assert_eq!(pair.failures(), [FailReason::PeerForgot]);
    assert_eq!((pair.copies(2, 100), pair.reopened()), (1, 1));
}

#[test]
fn a_flow_that_was_forgotten_while_it_was_idle_carries_the_next_message() {
    let config = config(|s| s.rx_flows_max = 1);
    let mut pair = Pair::new(&config, 1, Weather::default());
    let flow = opened(&mut pair, &config);
    pair.post(0, flow, pattern(1, 100), 1);
    pair.run(Duration::from_s(1), |p| p.hosts[0].count_sent() == 1);
    pair.idle(config.give_up_after(&config.default_path()) * 3);
    let other = opened(&mut pair, &config);
    pair.post(0, other, pattern(2, 100), 2);
    pair.run(Duration::from_s(1), |p| p.hosts[0].count_sent() == 2);
    pair.idle(config.give_up_after(&config.default_path()) * 3);
    assert_eq!(pair.hosts[1].endpoint.stats().flows_evicted, 1);
    // All of it has left when the answer comes.
    pair.post(0, flow, pattern(3, 100), 3);
    pair.run(Duration::from_s(1), |p| p.copies(3, 100) == 1);
    pair.idle(Duration::from_s(1));
    assert_eq!((pair.copies(3, 100), pair.reopened(), pair.failures()), (1, 1, vec![]));
}

#[test]
fn a_flow_outlasts_silence_if_it_is_kept_and_a_restart_is_noticed_before_the_next_message() {
    let every = Duration::from_s(1);
    let config = config(|s| {
        (s.keep_alive, s.rx_flows_max, s.loss.give_up) = (Some(every), 1, every * 2);
    });
    let mut pair = Pair::new(&config, 1, Weather::default());
    let flow = opened(&mut pair, &config);
    pair.post(0, flow, pattern(1, 100), 1);
    pair.run(Duration::from_s(1), |p| p.hosts[0].count_sent() == 1);
    let before = pair.hosts[0].endpoint.stats().control_sent;
    pair.idle(every * 100);
    let kept = pair.hosts[0].endpoint.stats().control_sent - before;
    assert!((99..=100).contains(&kept), "{kept} in 100 s");
    assert_eq!(pair.hosts[1].endpoint.stats().control_received, kept);
    let received_at = pair.hosts[1].endpoint.received_from(HostId(0)).unwrap();
    assert!(pair.now.since(received_at) <= every * 2, "{received_at:?}");
    assert_eq!(pair.hosts[1].endpoint.received_from(HostId(7)), None);
    pair.restart(1, &config, 2);
    pair.idle(every * 3);
    assert_eq!(pair.reopened(), 1, "and once, since nothing is said about a flow not opened");
    pair.post(0, flow, pattern(2, 100), 2);
    pair.run(Duration::from_s(1), |p| p.copies(2, 100) == 1);
    assert_eq!(pair.reopened(), 1);
}

#[test]
fn a_message_after_a_kept_silence_is_sent_again_as_soon_as_any_other() {
    let ordinary = [SchedKind::RoundRobin, SchedKind::Credits, SchedKind::Pfabric];
    let every = Duration::from_s(10);
    let kept = |sched| (sched, Some(every), every * 2);
    for sched in ordinary.into_iter().chain([SchedKind::Phost, SchedKind::DcPim]) {
        let config = config(|s| (s.sched, s.keep_alive, s.loss.give_up) = kept(sched));
        let mut pair = Pair::new(&config, 1, Weather::default());
        let flow = opened(&mut pair, &config);
        pair.post(0, flow, pattern(1, 100), 1);
        pair.run(Duration::from_s(1), |p| p.hosts[0].count_sent() == 1);
        pair.idle(Duration::from_s(1));
        let sent = |pair: &Pair| pair.hosts[0].endpoint.stats().data_new;
        let (before, from) = (sent(&pair), pair.now);
        pair.drops = |tx| matches!(tx.hdr.body, Body::Data(_));
        pair.post(0, flow, pattern(2, 100), 2);
        pair.run(Duration::from_s(1), |p| sent(p) > before);
        pair.drops = |_| false;
        assert_eq!(pair.copies(2, 100), 0, "{sched:?}: its only segment is lost");
        pair.run(Duration::from_s(20), |p| p.copies(2, 100) == 1);
        let took = pair.now.since(from);
        assert!(took < Duration::from_s(1), "{sched:?}: sent again after {took}");
    }
}

#[test]
fn an_answer_about_an_unknown_flow_is_short_rare_and_good_for_one_use() {
    // The host's share has one each 2 ms, and that of a flow six.
    let config = config(|s| s.answers_max = Some(8 * 64 * 500));
    let mut pair = Pair::new(&config, 1, Weather::default());
    let flow = opened(&mut pair, &config);
    pair.post(0, flow, pattern(1, 100), 1);
    pair.run(Duration::from_s(1), |p| p.hosts[0].count_sent() == 1);
    pair.restart(1, &config, 2);
    pair.post(0, flow, pattern(2, 3_000_000), 2);
    let answers = |pair: &Pair| pair.hosts[1].endpoint.stats().control_sent;
    // Packets of before keep coming: what answers them is bounded, and changes nothing twice.
    pair.run(Duration::from_s(1), |p| p.copies(2, 3_000_000) == 1);
    assert!(answers(&pair) >= 1 && pair.reopened() == 1);
    pair.idle(Duration::from_s(1));
    let stale = packet_of_another_life();
    let (from, now) = (answers(&pair), pair.now);
    for n in 0..40_000 {
        pair.now = now + Duration::from_us(n);
        pair.receive(1, &RxSegment { at: pair.now, ..stale }, &Ext::VACANT, &[0; 100]);
        let mut burst = Burst::with_limit(BURST);
        pair.hosts[1].endpoint.poll_transmit(pair.now, &mut burst);
        let answers = burst.iter().filter(|tx| matches!(tx.hdr.body, Body::Presence(_)));
        for answer in answers {
            assert!(answer.hdr.emit_len() <= stale.hdr.emit_len());
            let echoed = answer.hdr.key == stale.hdr.key && answer.peer == stale.from;
            let unknown = Presence::Unknown { named: stale.hdr.dst_flow };
            assert!(echoed && answer.hdr.body == Body::Presence(unknown), "{answer:?}");
        }
    }
    let answered = answers(&pair) - from;
    // Up to 8 ms more or less count: answers count from one instant in each 4 ms on.
    let [at_once, later, more] = [1024 + 32, 20 * (1 + 6), 4 * (1 + 6)];
    assert!(answered.abs_diff(at_once + later) <= more, "{answered}");
}

/// A segment without extensions, of a flow that no process here has known.
pub(super) fn packet_of_another_life() -> RxSegment {
    let data = transport::wire::Data {
        psn: Psn(7),
        msg: transport::MsgNo(1),
        ..transport::wire::Data::VACANT
    };
    let hdr = Header::new(transport::EntropyValue(3), FlowId::new(5, 900), Body::Data(data));
    let (hdr, at) = (hdr.keyed(transport::units::Key(77)), Instant::ZERO);
    RxSegment { hdr, at, from: HostId(0), payload_len: 100, ce: false, trimmed: false }
}

#[test]
fn where_every_sender_has_to_prove_itself_a_message_arrives_once_a_round_trip_later() {
    const LEN: usize = 200_000;
    for kind in kinds() {
        let strict = |max| Settings { unproven_max: max, secret: [3, 4], ..(*kind).clone() };
        let mut took = [Duration::ZERO; 2];
        for (took, max) in took.iter_mut().zip([u32::MAX, 0]) {
            let config = Config::new(strict(max)).unwrap();
            let mut pair = Pair::new(&config, 1, Weather::default());
            let flow = opened(&mut pair, &config);
            pair.post(0, flow, pattern(1, LEN), 1);
            pair.run(Duration::from_s(1), |p| p.hosts[0].count_sent() == 1);
            *took = pair.now.since(Instant::ZERO);
            assert_eq!(pair.copies(1, LEN), 1);
        }
        let more = took[1].saturating_sub(took[0]);
        assert!(
            more >= DELAY && more < DELAY * 8,
            "{more} more than {}, {:?}",
            took[0],
            kind.sched
        );
        for seed in 0..2 {
            let config = Config::new(strict(0)).unwrap();
            let bad = Weather { loss: 0.1, duplicate: 0.05, reorder: 0.1, ..Weather::default() };
            exchange(&config, seed, bad, &[10, 70_000, 1, 200_000]);
        }
    }
}

#[test]
fn a_flow_in_use_is_proven_without_waiting_and_a_flood_of_forged_ones_keeps_no_other_out() {
    const LEN: usize = 100_000;
    let config = config(|s| (s.unproven_max, s.rx_flows_max, s.secret) = (4, 8, [5, 6]));
    let mut pair = Pair::new(&config, 1, Weather::default());
    let flow = opened(&mut pair, &config);
    pair.post(0, flow, pattern(1, LEN), 1);
    pair.run(Duration::from_s(1), |p| p.hosts[0].count_sent() == 1);
    let retransmitted = pair.hosts[0].endpoint.stats().retransmitted;
    assert_eq!(retransmitted, 0, "it waited for nothing");
    let mut forged = 0;
    for tag in 2..6 {
        // From an address where no one answers.
        for _ in 0..100 {
            forged += 1;
            let stale = packet_of_another_life();
            let Body::Data(mut data) = stale.hdr.body else { panic!() };
            let src_flow = FlowId::new(forged, 9);
            let msg_len = NonZeroU32::new(5000).unwrap();
            (data.open, data.psn, data.msg) =
                (Some(transport::wire::Open { src_flow, msg_len }), Psn(0), transport::MsgNo(0));
            let hdr = Header { dst_flow: FlowId::UNKNOWN, body: Body::Data(data), ..stale.hdr };
            pair.receive(
                1,
                &RxSegment { hdr, at: pair.now, from: HostId(77), ..stale },
                &Ext::default(),
                &[0; 100],
            );
        }
        pair.post(0, flow, pattern(tag, LEN), tag);
        let other = opened(&mut pair, &config);
        pair.post(0, other, pattern(tag + 100, LEN), tag + 100);
        let both = |p: &Pair| p.copies(tag, LEN) + p.copies(tag + 100, LEN) == 2;
        pair.run(Duration::from_ms(100), both);
        pair.run(Duration::from_ms(100), |p| p.hosts[0].count_sent() as u64 == 2 * tag - 1);
        let now = pair.now;
        pair.hosts[0].endpoint.close_flow(now, other);
        pair.idle(config.give_up_after(&config.default_path()) * 5);
    }
    assert_eq!(pair.failures(), []);
    assert!(pair.hosts[1].endpoint.stats().drops.of(DropReason::Unproven) > 350);
}

#[test]
fn each_message_fails_once_its_receiver_has_lost_it_65_times_and_none_before() {
    const MESSAGES: usize = 6;
    let config = config(|_| {});
    let mut pair = Pair::new(&config, 1, Weather::default());
    let flow = opened(&mut pair, &config);
    for tag in 0..MESSAGES as u64 {
        pair.post(0, flow, pattern(tag, 1_000_000), tag);
    }
    let acks = |pair: &Pair| pair.hosts[0].endpoint.stats().acks_received;
    let mut lost = vec![];
    let mut incarnation = 2;
    while lost.len() < MESSAGES {
        let (reopened, before) = (pair.reopened(), acks(&pair));
        pair.run(Duration::from_s(10), |p| acks(p) > before);
        pair.restart(1, &config, incarnation);
        incarnation += 1;
        let failed = pair.failures().len();
        pair.run(Duration::from_s(10), |p| p.reopened() > reopened);
        lost.extend((failed..pair.failures().len()).map(|_| pair.reopened()));
    }
    assert_eq!(pair.failures(), [FailReason::PeerForgot; MESSAGES]);
    assert_eq!(lost, [65, 130, 195, 260, 325, 390], "a message that waits has lost nothing");
}
