//! Tests of lossless networks: nothing is dropped, pauses balance, and what pauses cost.

use proptest::prelude::*;
use transport::rng::mix;
use transport::wire::class::TrafficClass;
use transport::{Duration, HostId, Rng};

use super::super::{AnyProgram, ProgramKind};
use super::*;
use crate::calendar::Flight;
use crate::wiring::ports_back;
use crate::{Blueprint, Flags, Network, NoFrames, Node, Output, Packet, QdiscParams, leaf_spine};

const DATA: Flags = Flags::ECT;
const MTU: u16 = 4160;

/// The network of [`leaf_spine`] with `buffer` bytes for each link in, or the least that there may
/// be.
fn blueprint(qdisc: QdiscKind, buffer: Option<u64>, xoff: Option<u64>) -> Blueprint {
    let (buffer, packet_max) = (Bytes(buffer.unwrap_or(1 << 40)), Bytes(u64::from(MTU)));
    let params = QdiscParams::for_buffer(buffer, packet_max, QdiscParams::MARK);
    let mut blueprint = leaf_spine::blueprint(qdisc, params);
    blueprint.program_settings.pfc.xoff = xoff.map(Bytes);
    blueprint
}

/// A lossless network with the least buffers for this XOFF.
fn tight(xoff: u64, seed: u64) -> Network {
    let least = blueprint(QdiscKind::Lossless, None, Some(xoff)).least_buffer().0;
    let blueprint = blueprint(QdiscKind::Lossless, Some(least), Some(xoff));
    assert_eq!(blueprint.check_buffers(), Ok(()));
    Network::new(blueprint, &Rng::new(seed))
}

fn packet(handle: u32, dst: u32, len: u16, flags: Flags) -> Packet {
    let hash = u32::try_from(mix(u64::from(handle)) >> 32).unwrap();
    Packet { handle, dst: HostId(dst), hash, len, trim_len: 64, flags }
}

fn ns(ns: u64) -> Instant {
    Instant::ZERO + Duration::from_ns(ns)
}

fn run_out(network: &mut Network, out: &mut Vec<Output>) {
    while network.step(&mut NoFrames, out).is_some() {}
}

fn delivered(out: &[Output]) -> Vec<(u32, Instant)> {
    let of = |output: &Output| match output {
        Output::Delivered { packet, at, .. } => Some((packet.handle, *at)),
        _ => None,
    };
    out.iter().filter_map(of).collect()
}

/// The pauses of every switch.
fn pauses(network: &Network) -> impl Iterator<Item = &Pfc> {
    network.programs.iter().filter_map(|programmed| {
        if let AnyProgram::Pfc(pfc) = &programmed.program { Some(pfc) } else { None }
    })
}

/// Checks that nothing waits, nothing is paused, and everything that was counted has been given
/// back.
fn is_at_rest(network: &Network) -> bool {
    let links = |pfc: &Pfc| pfc.links.iter().all(|link| link.bytes == 0 && !link.paused);
    let empty = |pfc: &Pfc| {
        pfc.origins.iter().all(VecDeque::is_empty) && pfc.pool.is_none_or(|pool| pool.bytes == 0)
    };
    let ports = network.ports.iter().all(|state| !state.port.is_paused());
    ports && pauses(network).all(|pfc| links(pfc) && empty(pfc))
}

/// Checks that the bytes counted for each link are those that wait in the switch at its end.
fn counts_agree(network: &Network) -> bool {
    pauses(network).zip(network.blueprint().switches_with(ProgramKind::Pfc)).all(|(pfc, switch)| {
        let ports = network.blueprint().switches[switch as usize].ports();
        let counted: u64 = pfc.links.iter().map(|link| link.bytes).sum();
        let waits = ports.map(|port| network.queued(PortId(port)).data_bytes);
        let within = match &pfc.pool {
            Some(pool) => pool.bytes == counted && counted <= pool.limit,
            None => pfc.links.iter().all(|link| link.bytes <= link.limit),
        };
        counted == waits.sum::<u64>() && within
    })
}

/// Gap in picoseconds, source, destination, length, control.
type Injection = (u64, u32, u32, u16, bool);

/// Bursts towards few destinations.
fn injections() -> impl Strategy<Value = Vec<Injection>> {
    let gap = prop_oneof![4 => Just(0u64), 1 => 0u64..200_000];
    let one = (gap, 0u32..16, 0u32..3, 64u16..=MTU, prop::bool::weighted(0.1));
    prop::collection::vec(one, 1..900)
}

/// Feeds `injections`, running the network up to every `late`-th; 0 runs it in single instants.
fn feed(network: &mut Network, injections: &[Injection], late: usize) -> Vec<Output> {
    let mut out = Vec::new();
    let mut now = Instant::ZERO;
    for (handle, (gap, src, dst, len, control)) in (0..).zip(injections) {
        now += Duration::from_ps(*gap);
        if late == 0 {
            while network.next_event_at().is_some_and(|at| at <= now) {
                network.step(&mut NoFrames, &mut out);
            }
        }
        if (handle as usize).is_multiple_of(late.max(1)) {
            network.run_until(now, &mut NoFrames, &mut out);
        }
        let flags = if *control { Flags::of(TrafficClass::Control) } else { DATA };
        network.inject(
            HostId(*src),
            packet(handle, *dst, *len, flags),
            now,
            &mut NoFrames,
            &mut out,
        );
    }
    if late == 0 {
        run_out(network, &mut out);
    } else {
        network.run_until(ns(1_000_000_000), &mut NoFrames, &mut out);
    }
    out
}

proptest! {
    #[test]
    fn nothing_is_ever_dropped_and_all_pauses_end(
        injections in injections(), packets in 1u64..30, seed: u64,
    ) {
        let mut network = tight(packets * u64::from(MTU), seed);
        let out = feed(&mut network, &injections, 0);
        prop_assert_eq!(delivered(&out).len(), injections.len());
        prop_assert_eq!(network.audit().check(), Ok(()));
        prop_assert_eq!(network.totals().dropped, 0);
        prop_assert!(is_at_rest(&network));
    }

    #[test]
    fn results_depend_neither_on_windows_nor_on_when_a_driver_looks(
        injections in injections(), packets in 1u64..10, late in 1usize..200, seed: u64,
    ) {
        let mut exact = tight(packets * u64::from(MTU), seed);
        let mut lazy = exact.clone();
        let by_time = |mut all: Vec<(u32, Instant)>| {
            all.sort_by_key(|(handle, at)| (*at, *handle));
            all
        };
        let on_time = feed(&mut exact, &injections, 0);
        let whenever = feed(&mut lazy, &injections, late);
        prop_assert_eq!(by_time(delivered(&on_time)), by_time(delivered(&whenever)));
        prop_assert!(exact.port_stats().eq(lazy.port_stats()));
    }

    #[test]
    fn counters_say_what_waits_at_every_instant(injections in injections(), seed: u64) {
        let mut network = tight(3 * u64::from(MTU), seed);
        let mut out = Vec::new();
        for (handle, (_, src, dst, len, _)) in (0..).zip(&injections) {
            let packet = packet(handle, *dst, *len, DATA);
            network.inject(HostId(*src), packet, ns(0), &mut NoFrames, &mut out);
        }
        while network.step(&mut NoFrames, &mut out).is_some() {
            prop_assert!(counts_agree(&network));
            prop_assert_eq!(network.audit().check(), Ok(()));
        }
    }
}

/// `packets` full packets from each of `sources` to host 0, all at once.
fn incast(network: &mut Network, sources: std::ops::Range<u32>, packets: u32) -> Vec<Output> {
    let mut out = Vec::new();
    for handle in 0..packets {
        for src in sources.clone() {
            let packet = packet(handle * 16 + src, 0, MTU, DATA);
            network.inject(HostId(src), packet, ns(0), &mut NoFrames, &mut out);
        }
    }
    run_out(network, &mut out);
    out
}

#[test]
fn an_incast_of_all_hosts_pauses_all_and_loses_nothing() {
    let mut network = tight(32 * u64::from(MTU), 1);
    let out = incast(&mut network, 1..16, 200);
    assert_eq!(delivered(&out).len(), 15 * 200);
    assert!(is_at_rest(&network));
    // Every NIC had to wait, and the link to the receiver never did.
    let serial = Duration::from_ps(41_600 * 15 * 200);
    let end = network.now().since(Instant::ZERO);
    assert!(end < serial + Duration::from_us(5), "{end:?}");
    let paused = |host: usize| network.port_stats().nth(host).unwrap().paused;
    assert!((1..16).all(|host| paused(host) > Duration::ZERO));
    assert_eq!(paused(0), Duration::ZERO);
}

/// The network of [`blueprint`] whose switches have one buffer of `buffer` bytes each, or the least
/// that there may be.
fn sharing(alpha: f32, buffer: Option<u64>) -> Blueprint {
    let with = |buffer| {
        let mut blueprint = blueprint(QdiscKind::Lossless, buffer, None);
        blueprint.program_settings.pfc.alpha = alpha;
        blueprint
    };
    with(Some(buffer.unwrap_or_else(|| with(None).least_buffer().0)))
}

proptest! {
    #[test]
    fn a_shared_buffer_of_any_alpha_loses_nothing_with_the_least_room(
        injections in injections(), alpha in 0.01f32..40.0, more in 0u64..200_000, seed: u64,
        late in 1usize..200,
    ) {
        let least = sharing(alpha, None);
        prop_assert_eq!(least.check_buffers(), Ok(()));
        let buffer = least.least_buffer().0 + more;
        let mut network = Network::new(sharing(alpha, Some(buffer)), &Rng::new(seed));
        let mut lazy = network.clone();
        let out = feed(&mut network, &injections, 0);
        prop_assert_eq!(delivered(&out).len(), injections.len());
        prop_assert_eq!(network.totals().dropped, 0);
        prop_assert!(is_at_rest(&network));
        feed(&mut lazy, &injections, late);
        prop_assert!(network.port_stats().eq(lazy.port_stats()));
    }
}

#[test]
fn links_are_paused_at_alpha_of_what_the_others_leave_of_the_shared_bytes() {
    // Hosts of leaf 0 fill the port to host 0. With alpha 1/8 two links are paused at a tenth of
    // the shared bytes each, and three at an eleventh.
    let most = |alpha: f32, sources: std::ops::Range<u32>| {
        let blueprint = sharing(alpha, Some(2_000_000));
        let back = ports_back(&blueprint.ports);
        let rooms = blueprint.switches[0].ports().map(|number| {
            let number = number as usize;
            headroom(&blueprint.ports[back[number] as usize], &blueprint.ports[number])
        });
        let shared = 2_000_000 - rooms.sum::<u64>();
        let mut network = Network::new(blueprint, &Rng::new(1));
        let mut out = Vec::new();
        for handle in 0..400 {
            for src in sources.clone() {
                let packet = packet(handle * 16 + src, 0, MTU, DATA);
                network.inject(HostId(src), packet, ns(0), &mut NoFrames, &mut out);
            }
        }
        // The first pause of host 1's link is decided above the threshold.
        let mut first = 0;
        while network.step(&mut NoFrames, &mut out).is_some() {
            let pfc = pauses(&network).next().unwrap();
            if first == 0 && pfc.links[1].paused {
                first = pfc.links[1].bytes;
            }
        }
        assert_eq!(network.totals().dropped, 0);
        Bytes(first).as_f64() / Bytes(shared).as_f64()
    };
    let two = most(0.125, 1..3);
    assert!((0.1..0.105).contains(&two), "{two}");
    let three = most(0.125, 1..4);
    assert!((1.0 / 11.0..0.096).contains(&three), "{three}");
    let half = most(0.5, 1..3);
    assert!((0.25..0.255).contains(&half), "{half}");
}

#[test]
fn an_incast_that_fills_a_shared_buffer_finds_the_headroom_of_every_link_free() {
    // So large an alpha pauses no link before the shared bytes are gone.
    for alpha in [0.125, 2.0, 64.0] {
        let mut network = Network::new(sharing(alpha, None), &Rng::new(1));
        let out = incast(&mut network, 1..16, 400);
        assert_eq!((delivered(&out).len(), network.totals().dropped), (15 * 400, 0), "{alpha}");
        assert!(is_at_rest(&network));
    }
}

#[test]
fn a_shared_buffer_that_is_overrun_drops_and_holds_no_more_than_it_has() {
    let least = sharing(64.0, None).least_buffer().0;
    let mut network = Network::new(sharing(64.0, Some(least / 2)), &Rng::new(1));
    let mut out = Vec::new();
    for handle in 0..200 {
        for src in 1..16 {
            let packet = packet(handle * 16 + src, 0, MTU, DATA);
            network.inject(HostId(src), packet, ns(0), &mut NoFrames, &mut out);
        }
    }
    while network.step(&mut NoFrames, &mut out).is_some() {
        assert!(counts_agree(&network));
    }
    assert!(network.audit().dropped.of(DropReason::DataQueueFull) > 0);
    assert!(is_at_rest(&network));
}

#[test]
fn thresholds_of_their_own_hold_beside_a_shared_buffer() {
    // A lot is free: XOFF and XON are those of the settings.
    let mtu = u64::from(MTU);
    let mut blueprint = sharing(8.0, Some(4_000_000));
    let pfc = &mut blueprint.program_settings.pfc;
    (pfc.xoff, pfc.xon) = (Some(Bytes(4 * mtu)), Some(Bytes(mtu)));
    let mut network = Network::new(blueprint, &Rng::new(1));
    let mut out = Vec::new();
    for handle in 0..100 {
        for src in [1, 2] {
            let packet = packet(handle * 16 + src, 0, MTU, DATA);
            network.inject(HostId(src), packet, ns(0), &mut NoFrames, &mut out);
        }
    }
    let (mut at_pause, mut at_resume, mut was) = (Vec::new(), Vec::new(), false);
    while network.step(&mut NoFrames, &mut out).is_some() {
        let link = pauses(&network).next().unwrap().links[1];
        if link.paused != was {
            let list = if link.paused { &mut at_pause } else { &mut at_resume };
            list.push(link.bytes);
            was = link.paused;
        }
    }
    assert!(at_pause.len() > 1 && at_pause.iter().all(|bytes| *bytes == 5 * mtu), "{at_pause:?}");
    assert!(at_resume.iter().all(|bytes| *bytes == mtu), "{at_resume:?}");
}

#[test]
fn a_port_of_another_size_leaves_the_shared_buffer_as_it_is() {
    for odd in [600_000, 128_000_000] {
        let mut blueprint = sharing(0.125, Some(22_000_000));
        let port = blueprint.switches[0].ports().end - 1;
        blueprint.ports[port as usize].params.data_limit = Bytes(odd);
        assert_eq!(blueprint.check_buffers(), Ok(()), "{odd}");
        let network = Network::new(blueprint, &Rng::new(1));
        assert_eq!(pauses(&network).next().unwrap().pool.unwrap().limit, 22_000_000, "{odd}");
    }
}

#[test]
fn a_shared_buffer_needs_the_headroom_of_all_links() {
    let least = sharing(0.125, None).least_buffer().0;
    let of_one = blueprint(QdiscKind::Lossless, None, Some(u64::from(MTU))).least_buffer().0;
    assert!(least > 2 * of_one, "{least} and {of_one}");
    let short = sharing(0.125, Some(least - 1)).check_buffers().unwrap_err();
    assert!(short.is_shared && short.buffer.0 == least - 1 && short.least().0 == least);
}

#[test]
fn half_the_headroom_is_not_enough() {
    let xoff = 4 * u64::from(MTU);
    let least = blueprint(QdiscKind::Lossless, None, Some(xoff)).least_buffer().0;
    let small = blueprint(QdiscKind::Lossless, Some((xoff + least) / 2), Some(xoff));
    let short = small.check_buffers().unwrap_err();
    assert_eq!((short.xoff, short.buffer.0), (Bytes(xoff), (xoff + least) / 2));
    let mut network = Network::new(small, &Rng::new(1));
    let out = incast(&mut network, 1..16, 200);
    assert!(network.audit().dropped.of(DropReason::DataQueueFull) > 0);
    assert_eq!(out.len(), 15 * 200, "each was delivered or dropped");
    assert!(is_at_rest(&network));
}

#[test]
fn without_thresholds_the_buffer_beyond_the_headroom_is_used() {
    let buffer = 1_000_000;
    let blueprint = blueprint(QdiscKind::Lossless, Some(buffer), None);
    let back = ports_back(&blueprint.ports);
    let network = Network::new(blueprint.clone(), &Rng::new(1));
    let switches = blueprint.switches_with(ProgramKind::Pfc);
    for (pfc, switch) in pauses(&network).zip(switches) {
        for (link, number) in pfc.links.iter().zip(blueprint.switches[switch as usize].ports()) {
            let port = &blueprint.ports[back[number as usize] as usize];
            let back = &blueprint.ports[number as usize];
            assert_eq!((back.owner, back.to), (Node::Switch(switch), port.owner));
            assert_eq!(link.xoff, buffer - headroom(port, back));
            assert_eq!(link.xon, link.xoff - 2 * u64::from(MTU));
        }
    }
    assert_eq!(pauses(&network).count(), blueprint.switches.len());
}

/// When packets of host 4 to its neighbour 5 arrive. Host 4 sends one packet to host 0 for each of
/// these; hosts 8 to 15 send to host 0, too.
fn victim(qdisc: QdiscKind) -> Instant {
    let xoff = Some(8 * u64::from(MTU));
    let mut network = Network::new(blueprint(qdisc, Some(1 << 30), xoff), &Rng::new(1));
    let mut out = Vec::new();
    for handle in 0..200 {
        let to_victim = packet(1_000_000 + handle, 5, MTU, DATA);
        network.inject(HostId(4), to_victim, ns(0), &mut NoFrames, &mut out);
        for src in (8..16).chain([4]) {
            let packet = packet(handle * 16 + src, 0, MTU, DATA);
            network.inject(HostId(src), packet, ns(0), &mut NoFrames, &mut out);
        }
    }
    run_out(&mut network, &mut out);
    assert_eq!(delivered(&out).len(), 10 * 200);
    let of_victim = delivered(&out).into_iter().filter(|(handle, _)| *handle >= 1_000_000);
    of_victim.map(|(_, at)| at).max().unwrap()
}

#[test]
fn pauses_slow_a_flow_that_has_no_part_in_the_congestion() {
    let [free, paused] = [QdiscKind::Ecn, QdiscKind::Lossless].map(victim);
    let serial = 400 * 41_600;
    assert!(free.as_ps() < serial + 3_000_000, "{free:?}");
    assert!(paused.as_ps() > 3 * free.as_ps(), "{paused:?} {free:?}");
}

#[test]
fn a_nic_is_paused_after_the_frame_and_the_way_back_and_control_goes_on() {
    let mut network = tight(u64::from(MTU), 1);
    let mut out = Vec::new();
    // Hosts 1 and 2 share the link to host 0. It takes the first packet of host 1 at once, and the
    // first of host 2 while the second ones come. The third of host 2 finds the second waiting and
    // exceeds XOFF.
    for handle in 0..6 {
        for src in [1, 2] {
            let packet = packet(handle * 2 + src, 0, MTU, DATA);
            network.inject(HostId(src), packet, ns(0), &mut NoFrames, &mut out);
        }
    }
    let spec = &network.blueprint().ports[2];
    let serial = spec.rate.time_for(Bytes(u64::from(MTU)));
    let third = Instant::ZERO + serial + serial + serial + spec.delay;
    let back = ports_back(&network.blueprint().ports)[2] as usize;
    let frame = spec.rate.time_for(Bytes(u64::from(Flight::PAUSE_FRAME)));
    let paused_at = third + frame + network.blueprint().ports[back].delay;
    network.run_until(Instant::from_ps(paused_at.as_ps() - 1), &mut NoFrames, &mut out);
    assert!(!network.nic_is_paused(HostId(2)));
    network.run_until(paused_at, &mut NoFrames, &mut out);
    assert!(network.nic_is_paused(HostId(2)));
    let before = network.nic_queued(HostId(2));
    network.inject(
        HostId(2),
        packet(99, 1, 64, Flags::of(TrafficClass::Control)),
        paused_at,
        &mut NoFrames,
        &mut out,
    );
    let soon = paused_at + serial + Duration::from_ns(20);
    network.run_until(soon, &mut NoFrames, &mut out);
    let after = network.nic_queued(HostId(2));
    assert!(network.nic_is_paused(HostId(2)) && before.data_bytes == after.data_bytes);
    assert_eq!(after.control_bytes, 0, "it left");
    run_out(&mut network, &mut out);
    assert_eq!(delivered(&out).len(), 13);
}

/// The network of [`leaf_spine`] with drop-tail switches of `buffer` bytes a port, of which leaf 0
/// alone pauses links, with room for `xoff`.
fn one_of_many(buffer: u64, xoff: u64) -> Blueprint {
    let mut blueprint = blueprint(QdiscKind::DropTail, Some(buffer), Some(xoff));
    blueprint.assign(0, ProgramKind::Pfc).unwrap();
    let least = blueprint.least_buffer();
    for port in blueprint.switches[0].ports() {
        blueprint.ports[port as usize].params.data_limit = least;
    }
    assert_eq!(blueprint.check_buffers(), Ok(()));
    blueprint
}

proptest! {
    #[test]
    fn one_lossless_switch_among_dropping_ones_drops_nothing_itself(
        injections in injections(), packets in 1u64..20, late in 1usize..200, seed: u64,
    ) {
        let mtu = u64::from(MTU);
        let mut exact =
            Network::new(one_of_many(6 * mtu, packets * mtu), &Rng::new(seed));
        let mut lazy = exact.clone();
        let out = feed(&mut exact, &injections, 0);
        let leaf = exact.blueprint().switches[0].ports();
        for (port, stats) in (0..).zip(exact.port_stats()) {
            prop_assert!(!leaf.contains(&port) || stats.dropped == 0);
            prop_assert!(leaf.contains(&port) || stats.pauses == 0, "plain switches pause no link");
        }
        let lost = out.len() - delivered(&out).len();
        prop_assert_eq!(exact.totals().dropped, lost as u64);
        prop_assert_eq!(exact.audit().check(), Ok(()));
        prop_assert!(is_at_rest(&exact) && counts_agree(&exact));
        let by_time = |mut all: Vec<(u32, Instant)>| {
            all.sort_by_key(|(handle, at)| (*at, *handle));
            all
        };
        let whenever = feed(&mut lazy, &injections, late);
        prop_assert_eq!(by_time(delivered(&out)), by_time(delivered(&whenever)));
        prop_assert!(exact.port_stats().eq(lazy.port_stats()));
    }
}

#[test]
fn a_plain_switch_obeys_the_pauses_of_a_lossless_one_and_drops_what_it_cannot_hold() {
    let mtu = u64::from(MTU);
    let mut network = Network::new(one_of_many(100 * mtu, 4 * mtu), &Rng::new(1));
    let out = incast(&mut network, 4..16, 300);
    let leaf = network.blueprint().switches[0].ports();
    let stats: Vec<_> = network.port_stats().collect();
    let of = |ports: std::ops::Range<u32>| &stats[ports.start as usize..ports.end as usize];
    assert!(of(leaf.clone()).iter().any(|port| port.pauses > 0));
    assert!(of(leaf).iter().all(|port| port.dropped == 0));
    for spine in 4..6 {
        let down = network.blueprint().switches[spine].down_port;
        let to_leaf = &of(down..down + 1)[0];
        assert!(to_leaf.paused > Duration::ZERO && to_leaf.dropped > 0, "{to_leaf:?}");
    }
    let lost = out.len() - delivered(&out).len();
    assert_eq!(network.totals().dropped, lost as u64);
    assert!(is_at_rest(&network));
}
