//! Hosts over a wire that delays, loses and repeats, without endpoints around them.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::*;
use crate::config::{Config, Settings};
use crate::rng::Rng;
use crate::sched::{Backlog, Label, Sending};
use crate::segment::BURST;
use crate::time::Rate;
use crate::units::{Bytes, Credit};
use crate::wire::{Data, Open};

/// Flows of a host to each other host; a flow has this index at both ends.
const FLOWS: u32 = 4;
/// One way of the wire: the round trip is 8 us.
const DELAY: Duration = Duration::from_us(4);
/// Time between two looks at all hosts.
const STEP: Duration = Duration::from_ns(100);

struct Host {
    sched: DcPim,
    /// By slab index of the flow.
    backlogs: Vec<Backlog>,
    sent: Vec<u32>,
    credited: Vec<u32>,
    /// How far its clock is ahead.
    clock: Duration,
}

/// Hosts, and what is on its way between them: arrival, sender, receiver, packet.
struct World {
    hosts: Vec<Host>,
    wire: Vec<(Instant, u32, u32, TxSegment)>,
    now: Instant,
    rng: Rng,
    loss: f64,
    channels: u8,
    /// CREDITs that left.
    credits: u64,
    /// Messages of the matching that arrived, with their epochs in full, senders and receivers.
    offers: Vec<(u64, u32, u32, Offer)>,
}

/// Settings of hosts whose segments take 80 ns: a BDP of 100, 127 to a channel.
fn settings(hosts: u32, edit: impl Fn(&mut DcPimParams)) -> Config {
    let flows = hosts * FLOWS;
    let mut settings = Settings {
        tx_flows_max: flows,
        rx_flows_max: flows,
        line_rate: Rate::from_gbps(800),
        ..Settings::default()
    };
    settings.payload_max = 8000;
    settings.base_rtt = Duration::from_us(8);
    settings.sched_params.dcpim.rtt = Some(Duration::from_us(8));
    edit(&mut settings.sched_params.dcpim);
    Config::new(settings).unwrap()
}

impl World {
    fn new(hosts: u32, seed: u64, edit: impl Fn(&mut DcPimParams)) -> Self {
        Self::of(hosts, seed, &settings(hosts, edit))
    }

    fn of(hosts: u32, seed: u64, config: &Config) -> Self {
        let flows = (hosts * FLOWS) as usize;
        let host = |host| Host {
            sched: DcPim::new(&config.sched_setup(HostId(host), Rng::new(seed))),
            backlogs: vec![Backlog::default(); flows],
            sent: vec![0; flows],
            credited: vec![0; flows],
            clock: Duration::ZERO,
        };
        Self {
            hosts: (0..hosts).map(host).collect(),
            wire: Vec::new(),
            now: Instant::ZERO,
            rng: Rng::new(seed),
            loss: 0.0,
            channels: u8::try_from(config.sched_params.dcpim.channels).unwrap(),
            credits: 0,
            offers: Vec::new(),
        }
    }

    /// A flow at its sender.
    fn flow(to: u32, number: u32) -> FlowId {
        FlowId::new(to * FLOWS + number, 1)
    }

    fn open(&mut self, from: u32, to: u32, number: u32, segments: u64) {
        let config = settings(2, |_| {});
        let host = &mut self.hosts[from as usize];
        let flow = Self::flow(to, number);
        let waiting = Bytes(segments * 8000);
        let cwnd = Bytes(1 << 40);
        let backlog = Backlog { sendable: waiting, waiting, segments, cwnd, ..Backlog::default() };
        host.backlogs[flow.index()] = backlog;
        host.sched.on_open(flow, HostId(to), &config.default_path(), Label::NONE);
        host.sched.on_backlog(flow, &backlog, self.now + host.clock);
    }

    fn put(&mut self, from: u32, segment: TxSegment) {
        self.credits += u64::from(matches!(segment.hdr.body, Body::Credit(_)));
        let copies = if self.loss > 0.0 { self.rng.below(3) } else { 1 };
        for _ in 0..copies {
            let late = if self.loss > 0.0 { self.rng.below(3) } else { 0 };
            let at = self.now + DELAY + Duration::from_us(late);
            if !self.rng.chance(self.loss) {
                self.wire.push((at, from, segment.peer.0, segment));
            }
        }
    }

    /// The next look: what has arrived, timers, and what leaves, one segment a host.
    fn step(&mut self) {
        self.now += STEP;
        let now = self.now;
        let (due, later) = self.wire.drain(..).partition::<Vec<_>, _>(|(at, ..)| *at <= now);
        self.wire = later;
        for (_, from, to, segment) in due {
            self.deliver(from, to, &segment);
        }
        for number in 0..u32::try_from(self.hosts.len()).unwrap() {
            let host = &mut self.hosts[number as usize];
            let local = now + host.clock;
            host.sched.handle_timeout(local);
            assert!(host.sched.poll_timeout().is_none_or(|at| at > local), "late at {local:?}");
            let mut out = Burst::with_limit(BURST);
            host.sched.poll_control(local, local, &mut out);
            let mut leave: Vec<TxSegment> = out.iter().copied().collect();
            leave.extend(host.send(local));
            for segment in leave {
                self.put(number, segment);
            }
            self.within_channels(number);
        }
    }

    fn within_channels(&self, number: u32) {
        let DcPim { source, receiver, .. } = &self.hosts[number as usize].sched;
        let ((_, given, busy), (_, next, early, taken)) = (source.given(), receiver.taken());
        let most = self.channels;
        assert!(given <= most && busy <= most && next <= most && early + taken <= most);
    }

    fn deliver(&mut self, from: u32, to: u32, segment: &TxSegment) {
        let host = &mut self.hosts[to as usize];
        let now = self.now + host.clock;
        let from_id = HostId(from);
        // At its receiver a flow has the number of its sender's host.
        let incoming = |src: FlowId| {
            let number = u32::try_from(src.index()).unwrap() % FLOWS;
            FlowId::new(from * FLOWS + number, 1)
        };
        match &segment.hdr.body {
            Body::Note(note) => {
                let offer = Offer::of(note).unwrap();
                let round = Stages::near(offer.round, host.sched.stages.at(now) / 2);
                let epoch = host.sched.stages.epoch_of(round);
                self.offers.push((epoch, from, to, offer));
                let _ = host.sched.on_host_control(from_id, &segment.hdr, note, now);
            }
            Body::Credit(credit) => {
                let flow = segment.hdr.dst_flow;
                let given = &mut host.credited[flow.index()];
                *given = (*given).max(credit.upto.ahead_of(Credit::START));
                assert!(host.sched.on_control(flow, from_id, &segment.hdr, now));
            }
            Body::Request(request) => {
                let flow = incoming(request.src_flow);
                assert!(host.sched.on_control(flow, from_id, &segment.hdr, now));
            }
            Body::Data(data) => {
                let src_flow = data.open.unwrap().src_flow;
                let arrival = Arrival {
                    from: from_id,
                    at: now,
                    src_flow,
                    ev: segment.hdr.ev,
                    data,
                    len: 4096,
                    missing: Bytes::ZERO,
                };
                host.sched.on_arrival(incoming(src_flow), &arrival, now);
            }
            other => panic!("{other:?}"),
        }
    }

    fn run(&mut self, us: u64) {
        let end = self.now + Duration::from_us(us);
        while self.now < end {
            self.step();
        }
    }

    fn sent(&self, from: u32, to: u32, number: u32) -> u32 {
        self.hosts[from as usize].sent[Self::flow(to, number).index()]
    }

    /// Channels that acceptances took and returns took back, by epoch, source and receiver.
    fn matches(&self) -> BTreeMap<(u64, u32, u32), i32> {
        let mut matches = BTreeMap::new();
        for (epoch, from, to, offer) in &self.offers {
            let channels = i32::from(offer.channels);
            match offer.step {
                MatchStep::Accept => *matches.entry((*epoch, *to, *from)).or_default() += channels,
                MatchStep::Return => *matches.entry((*epoch, *from, *to)).or_default() -= channels,
                _ => {}
            }
        }
        matches
    }
}

impl Host {
    /// The segment that leaves now.
    fn send(&mut self, now: Instant) -> Option<TxSegment> {
        let flow = self.sched.next_turn(now, now)?.flow;
        let backlog = &mut self.backlogs[flow.index()];
        backlog.segments -= 1;
        backlog.waiting -= Bytes(8000);
        backlog.in_flight += Bytes(8000);
        backlog.sendable = backlog.waiting;
        let left = *backlog;
        self.sent[flow.index()] += 1;
        let msg_len = NonZeroU32::MIN;
        let data = Data { open: Some(Open { src_flow: flow, msg_len }), ..Data::VACANT };
        let hdr = Header::new(EntropyValue(1), FlowId::UNKNOWN, Body::Data(data));
        let peer = HostId(u32::try_from(flow.index()).unwrap() / FLOWS);
        let mut segment = TxSegment { hdr, payload: PayloadRef::NONE, peer };
        self.sched.on_sent(flow, &mut segment, || left, now);
        Some(segment)
    }
}

#[test]
fn a_flow_of_a_bdp_leaves_at_once_and_a_longer_one_not_before_its_tokens() {
    let mut world = World::new(2, 1, |_| {});
    let config = settings(2, |_| {});
    let setup = config.sched_setup(HostId(0), Rng::new(1));
    let bdp = TokenConstants::within(&setup, Duration::from_us(8), 1.0);
    world.open(0, 1, 0, bdp.into());
    world.open(0, 1, 1, u64::from(bdp) + 1);
    world.run(8);
    assert!(world.sent(0, 1, 0) > 70, "one a step: {}", world.sent(0, 1, 0));
    assert_eq!(world.sent(0, 1, 1), 0);
    world.run(100);
    assert_eq!((world.sent(0, 1, 0), world.sent(0, 1, 1)), (bdp, bdp + 1));
}

#[test]
fn the_first_tokens_come_after_the_second_round_and_no_faster_than_the_channels() {
    // The flow asks in the first round, asked for in the second, and its one channel used
    // early: tokens leave at 20.8 us.
    let mut world = World::new(2, 1, |dcpim| dcpim.early = Early::Tokens);
    world.open(0, 1, 0, 120);
    world.run(24);
    assert_eq!(world.sent(0, 1, 0), 0);
    let begin = world.now;
    world.run(4);
    let first = world.sent(0, 1, 0);
    let between = world.hosts[0].sched.constants.packet_time * 4;
    let most = world.now.since(begin).as_ps() / between.as_ps() + 1;
    assert!((1..=most).contains(&u64::from(first)), "{first} of at most {most}");
    let mut late = World::new(2, 1, |dcpim| dcpim.early = Early::Off);
    late.open(0, 1, 0, 120);
    late.run(45);
    assert_eq!(late.sent(0, 1, 0), 0, "its epoch begins at 41.6 us");
    late.run(1);
    assert!(late.sent(0, 1, 0) > 0);
}

#[test]
fn credits_take_an_eighth_of_the_line_at_most_however_short_segments_are() {
    for payload in [64, 256, 4096] {
        let mut settings = Settings::clone(&settings(2, |_| {}));
        (settings.payload_max, settings.line_rate) = (payload, Rate::from_gbps(10));
        let config = Config::new(settings).unwrap();
        let mut world = World::of(2, 1, &config);
        world.open(0, 1, 0, 100_000);
        world.run(400);
        let line = config.line_rate.bytes_in(world.now.since(Instant::ZERO)).0;
        assert!(world.credits * 66 * 8 < line * 11 / 10, "{payload}: {}", world.credits);
        let most = line / config.mtu().0;
        let sent = u64::from(world.sent(0, 1, 0));
        assert!(sent * 2 > most, "{payload}: {sent} of {most}");
    }
}

/// Every host has segments for every other.
fn crowd(hosts: u32, seed: u64, segments: u64, edit: impl Fn(&mut DcPimParams)) -> World {
    let mut world = World::new(hosts, seed, edit);
    for from in 0..hosts {
        for to in (0..hosts).filter(|to| *to != from) {
            world.open(from, to, 0, segments);
        }
    }
    world
}

#[test]
fn what_is_matched_in_an_epoch_is_a_matching_of_k_channels() {
    for (channels, seed) in [(1, 1), (4, 2), (7, 3)] {
        let mut world = crowd(6, seed, 300, |dcpim| dcpim.channels = channels);
        world.run(300);
        let matches = world.matches();
        assert!(matches.len() > 20, "{matches:?}");
        let mut ends: BTreeMap<(u64, bool, u32), i32> = BTreeMap::new();
        for ((epoch, source, receiver), taken) in matches {
            assert!(taken >= 0);
            *ends.entry((epoch, true, source)).or_default() += taken;
            *ends.entry((epoch, false, receiver)).or_default() += taken;
        }
        let most = i32::from(channels);
        assert!(ends.values().all(|taken| *taken <= most), "{ends:?}");
        assert!(ends.values().any(|taken| *taken == most), "all channels are used somewhere");
    }
}

#[test]
fn an_acceptance_has_its_grant_and_a_grant_its_request_of_that_round() {
    let mut world = crowd(5, 4, 300, |_| {});
    world.run(200);
    let mut asked = BTreeMap::new();
    let mut granted = BTreeMap::new();
    for (_, from, to, offer) in &world.offers {
        let (channels, early) = (offer.channels, offer.early);
        assert!(early <= channels && offer.step != MatchStep::Return, "{offer:?}");
        match offer.step {
            MatchStep::Request => {
                assert!(asked.insert((*to, *from, offer.round), channels).is_none());
            }
            MatchStep::Grant => {
                let most = asked[&(*from, *to, offer.round)];
                assert!(channels <= most);
                assert!(granted.insert((*from, *to, offer.round), channels).is_none());
            }
            _ => {
                let most = granted.remove(&(*to, *from, offer.round)).expect("a grant, once");
                assert!(channels <= most);
            }
        }
    }
    assert!(granted.len() < asked.len());
}

#[test]
fn the_first_round_prefers_the_shortest_flow_at_both_ends() {
    for (short, long) in [((0, 2), (1, 2)), ((2, 0), (2, 1))] {
        let mut world = World::new(3, 9, |dcpim| {
            (dcpim.channels, dcpim.rounds, dcpim.by_size) = (1, 2, 2);
        });
        // Both flows have asked before the first round that is looked at.
        world.open(short.0, short.1, 0, 200);
        world.open(long.0, long.1, 0, 900);
        world.run(40);
        let (epoch, ..) = world.offers.iter().find(|o| o.3.step == MatchStep::Accept).unwrap();
        let first = world.matches().into_iter().filter(|((of, ..), _)| of == epoch);
        assert_eq!(first.collect::<Vec<_>>(), [((*epoch, short.0, short.1), 1)]);
    }
}

#[test]
fn no_token_is_used_twice_and_every_flow_ends_over_a_bad_wire() {
    for seed in 0..12 {
        let mut world = crowd(4, seed, 150, |dcpim| {
            dcpim.early = [Early::Off, Early::Windows, Early::Tokens][(seed % 3) as usize];
            dcpim.short = 0.0;
        });
        world.loss = 0.2;
        // Clocks are far apart for some, and a little for others.
        for (number, host) in (0..).zip(&mut world.hosts) {
            host.clock = Duration::from_us([3, 77, 1000][(seed % 3) as usize] * number);
        }
        for _ in 0..1000 {
            world.run(50);
            if world.hosts.iter().all(|host| host.sent.iter().sum::<u32>() == 3 * 150) {
                break;
            }
            for host in &world.hosts {
                let used = host.sent.iter().zip(&host.credited);
                assert!(used.clone().all(|(sent, given)| sent <= given), "seed {seed}");
            }
        }
        for (from, host) in (0..).zip(&world.hosts) {
            for to in (0..4).filter(|to| *to != from) {
                let sent = host.sent[World::flow(to, 0).index()];
                assert_eq!(sent, 150, "seed {seed}, {from} to {to}");
            }
        }
    }
}

#[test]
fn rounds_that_are_shorter_than_their_messages_match_all_the_same() {
    for (rounds, clock) in [(2, 0), (2, 3), (4, 50)] {
        let mut world = crowd(3, 5, 150, |dcpim| (dcpim.rounds, dcpim.slack) = (rounds, 1.0));
        for (number, host) in (0..).zip(&mut world.hosts) {
            host.clock = Duration::from_us(clock * number);
        }
        world.run(2000);
        let sent = world.hosts.iter().map(|host| host.sent.iter().sum::<u32>());
        assert_eq!(sent.collect::<Vec<_>>(), [300; 3], "{rounds} rounds, {clock} us");
    }
}

#[test]
fn hosts_whose_clocks_differ_come_together() {
    let mut world = crowd(4, 1, 5000, |_| {});
    for (number, host) in (0..).zip(&mut world.hosts) {
        host.clock = Duration::from_us(170 * number);
    }
    world.run(400);
    let stage = |host: &Host| host.sched.stages.at(world.now + host.clock);
    let all: Vec<_> = world.hosts.iter().map(stage).collect();
    let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
    assert!(most - least <= 1, "{all:?}");
}

/// Delivers a message of the matching to host 0, as though from `from`.
fn forge(world: &mut World, from: u32, offer: Offer) -> Result<(), DropReason> {
    let note = offer.note();
    let hdr = Header::new(EntropyValue(1), FlowId::UNKNOWN, Body::Note(note));
    let now = world.now;
    world.hosts[0].sched.on_host_control(HostId(from), &hdr, &note, now)
}

#[test]
fn strangers_and_messages_that_answer_nothing_change_nothing() {
    let mut world = crowd(3, 1, 300, |_| {});
    world.run(15);
    let request = world.offers.iter().find(|(_, from, to, _)| (*from, *to) == (0, 1)).unwrap().3;
    assert_eq!(request.step, MatchStep::Request);
    let far = request.stage + 1000;
    let before = world.hosts[0].sched.stages.at(world.now);
    for step in [MatchStep::Request, MatchStep::Grant, MatchStep::Accept, MatchStep::Return] {
        let unknown = FlowId::new(5, 3);
        let offer = Offer { step, flow: unknown, stage: far, asked: 1, ..request };
        let stranger = Offer { step, stage: far, ..request };
        let reason = match step {
            MatchStep::Request | MatchStep::Accept => DropReason::UnknownFlow,
            MatchStep::Grant | MatchStep::Return => DropReason::BadSegment,
        };
        assert_eq!(forge(&mut world, 1, offer), Err(reason), "{step:?}");
        assert_eq!(forge(&mut world, 9, stranger), Err(reason), "{step:?}");
    }
    assert_eq!(world.hosts[0].sched.stages.at(world.now), before);
    // A request of a round that no host has begun.
    let ahead = request.round.wrapping_add(100);
    let ahead = Offer { flow: World::flow(1, 0), round: ahead, ..request };
    assert_eq!(forge(&mut world, 1, ahead), Err(DropReason::BadSegment));
    // A grant that does not repeat what was asked.
    let own = world.hosts[0].sched.receiver.taken();
    let grant = Offer { step: MatchStep::Grant, asked: request.asked ^ 1, ..request };
    assert_eq!(forge(&mut world, 1, grant), Err(DropReason::BadSegment));
    assert_eq!(world.hosts[0].sched.receiver.taken(), own);
    // An acceptance without a grant gives no channel.
    let accept = Offer { step: MatchStep::Accept, flow: World::flow(1, 0), channels: 4, ..request };
    forge(&mut world, 1, accept).unwrap();
    assert_eq!(world.hosts[0].sched.source.given().1, 0);
}

/// Messages of the matching that host 0 sends now.
fn answers(world: &mut World) -> Vec<Offer> {
    let mut out = Burst::with_limit(BURST);
    world.hosts[0].sched.poll_control(world.now, world.now, &mut out);
    let offer = |sent: &TxSegment| match &sent.hdr.body {
        Body::Note(note) => Offer::of(note),
        _ => None,
    };
    out.iter().filter_map(offer).collect()
}

#[test]
fn requests_and_acceptances_that_come_again_change_nothing() {
    let mut world = crowd(3, 1, 300, |_| {});
    let mut asked = 0;
    let accept = loop {
        world.step();
        let said = world.offers.iter().rev().filter(|o| (o.1, o.2) == (1, 0)).map(|o| o.3);
        let said: Vec<Offer> = said.collect();
        let request = said.iter().find(|offer| offer.step == MatchStep::Request);
        if let Some(&offer) = request.filter(|offer| offer.round >= asked) {
            asked = offer.round + 1;
            let before = world.hosts[0].sched.source.requests();
            (0..10).for_each(|_| assert_eq!(forge(&mut world, 1, offer), Ok(())));
            assert_eq!(world.hosts[0].sched.source.requests(), before);
        }
        if let Some(&accept) = said.iter().find(|offer| offer.step == MatchStep::Accept) {
            break accept;
        }
    };
    assert!(asked > 0);
    let given = world.hosts[0].sched.source.given();
    for _ in 0..10 {
        forge(&mut world, 1, accept).unwrap();
        let returned = answers(&mut world).into_iter().find(|o| o.step == MatchStep::Return);
        assert_eq!((returned, world.hosts[0].sched.source.given()), (None, given));
    }
    // One that was never granted gets its channels back.
    forge(&mut world, 1, Offer { granted: accept.granted ^ 1, ..accept }).unwrap();
    assert!(answers(&mut world).iter().any(|o| o.step == MatchStep::Return));
}

#[test]
fn a_host_that_stood_still_grants_nothing_to_requests_of_a_former_epoch() {
    let grants = |epochs: u64| {
        let mut world = crowd(3, 1, 300, |_| {});
        while world.hosts[0].sched.source.requests() == 0 {
            world.step();
        }
        world.now += world.hosts[0].sched.stages.epoch() * epochs;
        let now = world.now;
        world.hosts[0].sched.handle_timeout(now);
        answers(&mut world).iter().filter(|offer| offer.step == MatchStep::Grant).count()
    };
    assert!(grants(1) > 0);
    assert_eq!(grants(5), 0);
}

#[test]
fn a_peer_whose_stages_run_ahead_for_ever_does_not_stop_the_others() {
    let sent = |ahead: u32| {
        let mut world = crowd(3, 1, 30_000, |_| {});
        for _ in 0..4000 {
            world.run(1);
            // The first request of host 1, again and again, from ever later stages.
            let said =
                |o: &&(u64, u32, u32, Offer)| (o.1, o.2, o.3.step) == (1, 0, MatchStep::Request);
            if let Some(&(.., offer)) = world.offers.iter().find(said).filter(|_| ahead > 0) {
                let host = &world.hosts[0].sched;
                #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
                let stage = (host.stages.at(world.now) as u32).wrapping_add(ahead);
                forge(&mut world, 1, Offer { stage, ..offer }).unwrap();
            }
        }
        world.sent(2, 0, 0) + world.sent(0, 2, 0)
    };
    let undisturbed = sent(0);
    // What is left is what hosts reach whose stages are apart by up to a flight: messages of one of
    // them come too late for their stage. Where every step is followed nothing is sent at all.
    let disturbed = [1, 5, 16, 64].map(sent);
    assert!(disturbed.iter().all(|sent| sent * 8 > undisturbed), "{disturbed:?} of {undisturbed}");
}

#[test]
fn flows_of_a_former_process_keep_no_flow_of_the_present_one_from_its_channels() {
    let mut world = World::new(2, 1, |dcpim| dcpim.short = 0.0);
    let others = World::new(2, 1, |dcpim| dcpim.short = 0.0);
    world.open(0, 1, 0, 50);
    // The receiver has the flow's needs and has matched nothing when the sender begins anew.
    world.run(9);
    assert_eq!(world.hosts[1].sched.receiver.issuer.needs(World::flow(0, 0).index()), 50);
    world.hosts[0] = others.hosts.into_iter().next().unwrap();
    world.open(0, 1, 1, 300);
    world.run(200);
    assert_eq!(world.sent(0, 1, 1), 300);
    assert_eq!(world.hosts[1].sched.receiver.issuer.needs(World::flow(0, 0).index()), 0);
}

#[test]
fn a_source_that_has_a_flow_no_more_counts_as_one_that_has_answered() {
    let mut world = World::new(2, 1, |dcpim| dcpim.short = 0.0);
    let others = World::new(2, 1, |dcpim| dcpim.short = 0.0);
    world.open(0, 1, 0, 50);
    world.run(9);
    world.hosts[0] = others.hosts.into_iter().next().unwrap();
    world.run(20);
    let receiver = &world.hosts[1].sched.receiver;
    assert_eq!(receiver.issuer.needs(World::flow(0, 0).index()), 0);
    // The answer ends the row of requests without one.
    assert_eq!(receiver.unanswered(0), 0);
}

#[test]
fn requests_for_flows_that_are_not_here_leave_no_state_and_get_one_answer_in_a_half_round() {
    let mut world = crowd(3, 1, 300, |_| {});
    world.run(15);
    let request = world.offers.iter().find(|(_, from, to, _)| (*from, *to) == (0, 1)).unwrap().3;
    answers(&mut world);
    let state = |world: &World| {
        let DcPim { source, stages, receiver, .. } = &world.hosts[0].sched;
        let stage = stages.at(world.now);
        (source.requests(), source.given(), receiver.taken(), stage)
    };
    for _ in 0..3 {
        let before = state(&world);
        for number in 0..100 {
            // Flows that were never here, earlier ones at their indices, and those to other hosts.
            let flow = [FlowId::new(number, 9), World::flow(1, 0), World::flow(2, 1)];
            let (from, flow) = (3 + number, flow[number as usize % 3]);
            let forged = Offer { flow, stage: request.stage + 1000, ..request };
            assert_eq!(forge(&mut world, from, forged), Err(DropReason::UnknownFlow));
            let forged = Offer { step: MatchStep::Accept, ..forged };
            assert_eq!(forge(&mut world, from, forged), Err(DropReason::UnknownFlow));
        }
        assert_eq!(state(&world), before);
        let answers = answers(&mut world);
        let [answer] = answers[..] else { panic!("{} answers", answers.len()) };
        assert_eq!((answer.step, answer.left, answer.channels), (MatchStep::Return, 0, 0));
        world.now = world.hosts[0].sched.stages.start(before.3 + 1);
        world.hosts[0].sched.handle_timeout(world.now);
        self::answers(&mut world);
    }
}

/// How long a flow of 300 segments takes beside `others` that need as many tokens and were given up
/// when their receiver had their needs.
fn takes_beside_given_up(others: u32) -> u64 {
    let mut world = World::new(2, 1, |dcpim| dcpim.short = 0.0);
    (0..others).for_each(|number| world.open(0, 1, number, 250));
    world.run(9);
    for number in 0..others {
        let flow = World::flow(1, number);
        let needs = world.hosts[1].sched.receiver.issuer.needs(World::flow(0, number).index());
        assert_eq!(needs, 250);
        let host = &mut world.hosts[0];
        host.backlogs[flow.index()] = Backlog::default();
        host.sched.on_backlog(flow, &Backlog::default(), world.now);
    }
    world.open(0, 1, others, 300);
    (1..).find(|_| (world.run(1), world.sent(0, 1, others)).1 == 300).unwrap()
}

#[test]
fn flows_that_were_given_up_take_no_channels_from_another_one_of_their_hosts() {
    let (alone, beside) = (takes_beside_given_up(0), takes_beside_given_up(3));
    assert!(beside <= alone * 2, "{beside} us, {alone} us without them");
}

#[test]
fn what_a_source_grants_for_a_flow_that_was_given_up_is_left_to_others() {
    let mut world = World::new(2, 1, |dcpim| dcpim.short = 0.0);
    world.open(0, 1, 0, 250);
    world.run(9);
    let flow = World::flow(1, 0);
    world.hosts[0].backlogs[flow.index()] = Backlog::default();
    world.hosts[0].sched.on_backlog(flow, &Backlog::default(), world.now);
    world.run(200);
    let steps: Vec<_> = world.offers.iter().map(|(.., offer)| offer.step).collect();
    let [MatchStep::Request, rest @ ..] = &steps[..] else { panic!("{steps:?}") };
    assert!(rest.contains(&MatchStep::Return), "{steps:?}");
    assert!(!steps.contains(&MatchStep::Accept), "{steps:?}");
    assert_eq!(steps.iter().filter(|step| **step == MatchStep::Request).count(), 1);
    // A flow that is used again reports again.
    world.open(0, 1, 0, 300);
    world.run(100);
    assert_eq!(world.sent(0, 1, 0), 300);
}

#[test]
fn a_source_that_is_silent_is_asked_ever_more_rarely() {
    let mut world = World::new(2, 1, |_| {});
    world.open(0, 1, 0, 500);
    world.run(6);
    // Its REQUEST has come; nothing of the source comes any more.
    let mut asked = Vec::new();
    for _ in 0..40_000 {
        world.now += Duration::from_us(1);
        let host = &mut world.hosts[1].sched;
        host.handle_timeout(world.now);
        let mut out = Burst::with_limit(BURST);
        host.poll_control(world.now, world.now, &mut out);
        asked.extend(out.iter().filter(|s| matches!(s.hdr.body, Body::Note(_))).map(|_| world.now));
    }
    let half = world.now.since(asked[0]) / 2;
    let late = asked.iter().filter(|at| at.since(asked[0]) > half).count();
    assert!((200..400).contains(&asked.len()), "{}", asked.len());
    assert!(late < 6, "{late} in the second half");
}
