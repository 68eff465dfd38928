//! Tests of whole networks: conservation, determinism, late polls, and what packets experience.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use experiments::topology::{
    FabricParams, FatTree, FatTreeSpec, FlowPackets, TierSpec, Transfer, base_one_way,
    ideal_completion,
};
use fabric::{
    FaultKind, FaultSpec, Flags, Frames, Headers, Network, NoFrames, Output, Packet, PortId,
    QdiscKind, Queued,
};
use proptest::prelude::*;
use transport::rng::mix;
use transport::stats::DropReason;
use transport::wire::class::TrafficClass;
use transport::{Bytes, Duration, HostId, Instant, Rng};

const DATA: Flags = Flags::ECT.with(Flags::TRIMMABLE);

/// Eight hosts, two pods, 2:1 above the ToRs.
fn small_tree() -> FatTree {
    let tier = |radix_down, radix_up| TierSpec {
        downlink_mbps: 800_000,
        radix_down,
        radix_up,
        bundle: 1,
        oversubscribed: 1,
        switch_latency_ns: 400,
        downlink_latency_ns: 600,
        ..TierSpec::default()
    };
    let tier = [tier(2, 2), tier(2, 1), tier(2, 0), TierSpec::default()];
    FatTree::new(FatTreeSpec { nodes: 8, tiers: 3, podsize: 4, tier, ..FatTreeSpec::default() })
        .unwrap()
}

fn ports(links: &str) -> Vec<PortId> {
    small_tree().select(&links.parse().unwrap()).unwrap()
}

fn params(qdisc: QdiscKind, buffer: u64) -> FabricParams {
    FabricParams {
        qdisc,
        buffer: Some(Bytes(buffer)),
        detection_delay: Duration::from_us(5),
        ..FabricParams::default()
    }
}

fn network(qdisc: QdiscKind, buffer: u64, seed: u64) -> Network {
    Network::new(small_tree().blueprint(&params(qdisc, buffer)), &Rng::new(seed))
}

fn packet(handle: u32, dst: u32, len: u16, flags: Flags) -> Packet {
    let hash = u32::try_from(mix(u64::from(handle)) >> 32).unwrap();
    Packet { handle, dst: HostId(dst), hash, len, trim_len: 64, flags }
}

fn us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

/// Runs the network up to and at its next event, and returns the instant of that event.
fn step(network: &mut Network, frames: &mut dyn Frames, out: &mut Vec<Output>) -> Option<Instant> {
    let at = network.next_event_at()?;
    network.run_until(at, frames, out);
    Some(at)
}

fn run_out(network: &mut Network, out: &mut Vec<Output>) {
    while step(network, &mut NoFrames, out).is_some() {}
}

/// One injection: gap to the one before in picoseconds, source, destination, length, control.
type Injection = (u64, u32, u32, u16, bool);

fn injections() -> impl Strategy<Value = Vec<Injection>> {
    let one = (0u64..50_000, 0u32..8, 0u32..8, 1u16..5_000, any::<bool>());
    prop::collection::vec(one, 1..300)
}

fn fault_kinds() -> [FaultKind; 7] {
    [
        FaultKind::Loss { p: 0.05 },
        FaultKind::BurstLoss { enter: 0.02, leave: 0.2, loss: 0.9 },
        FaultKind::Duplicate { p: 0.1 },
        FaultKind::Reorder { p: 0.1, extra_max: Duration::from_us(3) },
        FaultKind::Corrupt { p: 0.1 },
        FaultKind::Down,
        FaultKind::Degrade { share: 0.15 },
    ]
}

/// Each fault on a link of its own, `n` of them.
fn break_links(network: &mut Network, n: usize) {
    let names = ["host:0", "tor:0:up:1", "agg:1", "core:0", "hosts", "tor:1:up:0", "fabric"];
    for (kind, name) in fault_kinds().into_iter().zip(names).take(n) {
        let spec = FaultSpec { from: us(1), until: us(8), kind };
        network.add_fault(&ports(name), spec).unwrap();
    }
}

/// Copies by handle, as the network says that they begin and end; those delivered have not ended.
#[derive(Default)]
struct Copies(Vec<i64>);

impl Headers for Copies {}

impl Frames for Copies {
    fn duplicate(&mut self, packet: &Packet) {
        self.0[packet.handle as usize] += 1;
    }

    fn end(&mut self, packet: Packet) {
        self.0[packet.handle as usize] -= 1;
    }
}

/// Feeds `injections`; `late` of 0 runs the network exactly up to each, else only now and then. The
/// outputs, and for each injection the copies that have neither ended nor been delivered.
fn feed(network: &mut Network, injections: &[Injection], late: usize) -> (Vec<Output>, Vec<i64>) {
    let (mut out, mut copies) = (Vec::new(), Copies::default());
    let mut now = Instant::ZERO;
    for (handle, (gap, src, dst, len, control)) in (0..).zip(injections) {
        now += Duration::from_ps(*gap);
        if late == 0 || (handle as usize).is_multiple_of(late) {
            network.run_until(now, &mut copies, &mut out);
        }
        copies.0.push(1);
        let flags = if *control { Flags::of(TrafficClass::Control) } else { DATA };
        let packet = packet(handle, *dst, *len, flags);
        network.inject(HostId(*src), packet, now, &mut copies, &mut out);
    }
    while step(network, &mut copies, &mut out).is_some() {}
    for output in &out {
        if let Output::Delivered { packet, .. } = output {
            copies.0[packet.handle as usize] -= 1;
        }
    }
    (out, copies.0)
}

/// Sorts outputs by time, as a driver that polls late would have to for a comparison.
fn by_time(mut outputs: Vec<Output>) -> Vec<String> {
    let at = |output: &Output| match output {
        Output::Delivered { at, .. } | Output::Dropped { at, .. } => *at,
    };
    outputs.sort_by_key(|output| (at(output), format!("{output:?}")));
    outputs.iter().map(|output| format!("{output:?}")).collect()
}

proptest! {
    #[test]
    fn every_packet_ends_exactly_once_whatever_breaks(
        injections in injections(), faults in 0usize..8, buffer in 0u64..40_000, seed: u64,
    ) {
        for qdisc in QdiscKind::ALL {
            let mut network = network(*qdisc, buffer, seed);
            break_links(&mut network, faults);
            let (_, left) = feed(&mut network, &injections, 0);
            prop_assert_eq!(left, vec![0; injections.len()]);
            let audit = network.audit();
            prop_assert_eq!(audit.check(), Ok(()));
            prop_assert_eq!((audit.in_queues, audit.on_wire), (0, 0));
            prop_assert_eq!(audit.injected, injections.len() as u64);
        }
    }

    #[test]
    fn the_books_balance_at_every_instant(injections in injections(), seed: u64) {
        let mut network = network(QdiscKind::Trim, 9_000, seed);
        break_links(&mut network, 5);
        let mut out = Vec::new();
        for (handle, (_, src, dst, len, _)) in (0..).zip(&injections) {
            let packet = packet(handle, *dst, *len, DATA);
            network.inject(HostId(*src), packet, us(0), &mut NoFrames, &mut out);
        }
        while step(&mut network, &mut NoFrames, &mut out).is_some() {
            prop_assert_eq!(network.audit().check(), Ok(()));
        }
    }

    #[test]
    fn a_late_driver_sees_what_an_exact_one_sees(
        injections in injections(), faults in 0usize..8, late in 1usize..40, seed: u64,
    ) {
        for qdisc in QdiscKind::ALL {
            let mut exact = network(*qdisc, 20_000, seed);
            break_links(&mut exact, faults);
            let mut lazy = exact.clone();
            let (on_time, _) = feed(&mut exact, &injections, 0);
            let (whenever, left) = feed(&mut lazy, &injections, late);
            prop_assert_eq!(by_time(on_time), by_time(whenever));
            prop_assert_eq!(left, vec![0; injections.len()]);
            prop_assert!(exact.port_stats().eq(lazy.port_stats()));
        }
    }

    #[test]
    fn one_seed_gives_one_trace(injections in injections(), seed: u64) {
        let run = |seed| {
            let mut network = network(QdiscKind::Trim, 9_000, seed);
            break_links(&mut network, 7);
            feed(&mut network, &injections, 0).0
        };
        prop_assert_eq!(run(seed), run(seed));
    }

    #[test]
    fn limits_hold_at_every_port(injections in injections(), buffer in 100u64..20_000) {
        // The limit of a lossless switch is that of links, see `pfc`.
        let own_limit = |qdisc: &&QdiscKind| **qdisc != QdiscKind::Lossless;
        for qdisc in QdiscKind::ALL.iter().filter(own_limit) {
            let mut network = network(*qdisc, buffer, 1);
            let mut out = Vec::new();
            for (handle, (_, src, dst, len, _)) in (0..).zip(&injections) {
                let packet = packet(handle, *dst, *len, DATA);
                network.inject(HostId(*src), packet, us(0), &mut NoFrames, &mut out);
            }
            while step(&mut network, &mut NoFrames, &mut out).is_some() {
                for (port, stats) in (0..).zip(network.port_stats()).skip(8) {
                    let queued = network.queued(PortId(port));
                    prop_assert!(queued.data_bytes <= buffer && stats.data_peak <= buffer);
                    prop_assert!(queued.control_bytes <= buffer);
                }
            }
        }
    }
}

#[test]
fn an_empty_network_delivers_in_the_base_one_way_delay() {
    let tree = small_tree();
    for dst in 1..8 {
        let mut network = network(QdiscKind::Trim, 1 << 20, 1);
        let mut out = Vec::new();
        network.inject(HostId(0), packet(7, dst, 4160, DATA), us(2), &mut NoFrames, &mut out);
        assert_eq!(out, [], "a packet that meets an idle link makes no room");
        run_out(&mut network, &mut out);
        let at = us(2) + base_one_way(&tree, HostId(0), HostId(dst), 4160);
        let sent = packet(7, dst, 4160, DATA);
        assert_eq!(out, [Output::Delivered { host: HostId(dst), packet: sent, at }]);
        assert_eq!(network.totals().hops, [2, 4, 4, 6, 6, 6, 6][dst as usize - 1]);
    }
}

#[test]
fn an_incast_fills_its_queue_marks_trims_and_comes_as_fast_as_the_link_allows() {
    let mut network = network(QdiscKind::Trim, 83_200, 3);
    let mut out = Vec::new();
    for handle in 0..210u32 {
        let src = HostId(1 + handle % 7);
        network.inject(src, packet(handle, 0, 4160, DATA), us(0), &mut NoFrames, &mut out);
    }
    run_out(&mut network, &mut out);
    let totals = network.totals();
    assert!(totals.trimmed > 50 && totals.marked > 20, "{totals:?}");
    assert_eq!((totals.dropped, totals.data_peak), (0, 83_200));
    assert!(network.queue_stats().quantile(0.99) > 66_000);
    let whole = |output: &Output| match output {
        Output::Delivered { packet, at, .. } if packet.is_data() => Some(*at),
        _ => None,
    };
    let arrivals: Vec<_> = out.iter().filter_map(whole).collect();
    assert_eq!(arrivals.len() as u64 + totals.trimmed, 210);
    let spacing = arrivals.windows(2).map(|pair| pair[1].since(pair[0]).as_ps());
    assert!(spacing.clone().all(|gap| gap >= 41_600), "never above the rate of the link");
    assert!(spacing.filter(|gap| *gap == 41_600).count() > arrivals.len() / 2);
}

#[test]
fn an_incast_never_beats_the_ideal() {
    let tree = small_tree();
    let mut network = network(QdiscKind::DropTail, 1 << 30, 3);
    let mut out = Vec::new();
    let mut transfers = Vec::new();
    for src in 4..8 {
        for handle in 0..50 {
            network.inject(
                HostId(src),
                packet(handle, 0, 4160, DATA),
                us(0),
                &mut NoFrames,
                &mut out,
            );
        }
        let packets = FlowPackets::new([(4160, 50), (0, 0), (0, 0)]);
        let [src, dst] = [HostId(src), HostId(0)];
        transfers.push(Transfer { src, dst, packets, start: us(0) });
    }
    run_out(&mut network, &mut out);
    let ideal = ideal_completion(&tree, &transfers);
    assert!(network.now() >= ideal, "{:?} < {ideal:?}", network.now());
    assert!(network.now().since(ideal) < Duration::from_us(2), "{:?} {ideal:?}", network.now());
}

#[test]
fn a_dead_link_loses_packets_until_it_is_detected_and_is_used_again_afterwards() {
    let mut network = network(QdiscKind::Trim, 1 << 20, 1);
    let link = ports("tor:0:up:0");
    let spec = FaultSpec { from: us(10), until: us(40), kind: FaultKind::Down };
    network.add_fault(&link, spec).unwrap();
    let mut lost = Vec::new();
    for time in 0..60 {
        for handle in 0..40 {
            let mut out = Vec::new();
            let sent = packet(time * 40 + handle, 6, 64, DATA);
            network.inject(HostId(0), sent, us(u64::from(time)), &mut NoFrames, &mut out);
            network.run_until(us(u64::from(time)), &mut NoFrames, &mut out);
            lost.extend(out.iter().filter_map(|output| match output {
                Output::Dropped { reason, at, .. } => Some((*reason, *at)),
                _ => None,
            }));
        }
    }
    assert!(!lost.is_empty());
    let in_time = |at: Instant| us(8) < at && at < us(16);
    assert!(lost.iter().all(|(why, at)| *why == DropReason::LinkDown && in_time(*at)), "{lost:?}");
    let down = usize::try_from(link[0].0).unwrap();
    let hops: Vec<_> = network.port_stats().map(|port| port.hops).collect();
    let all = hops[down] + hops[down + 1];
    // Unused from 15 us to 45 us: half of the packets in half of the time.
    let share = hops[down] * 100 / all;
    assert!((20..40).contains(&share), "{share} % by the link that was down half of the time");
}

#[test]
fn a_degraded_link_halves_what_arrives() {
    let mut network = network(QdiscKind::Trim, 1 << 20, 1);
    let kind = FaultKind::Degrade { share: 0.5 };
    let spec = FaultSpec { from: us(0), until: us(100), kind };
    network.add_fault(&ports("host:0"), spec).unwrap();
    let mut out = Vec::new();
    for handle in 0..10 {
        network.inject(HostId(0), packet(handle, 1, 4160, DATA), us(0), &mut NoFrames, &mut out);
    }
    run_out(&mut network, &mut out);
    let last = base_one_way(&small_tree(), HostId(0), HostId(1), 4160).as_ps();
    assert_eq!(network.now().as_ps(), last + 10 * 41_600 + 9 * 41_600);
}

#[test]
fn an_idle_port_sends_at_the_rate_that_a_fault_has_given_it_meanwhile() {
    for qdisc in QdiscKind::ALL {
        let arrival = |degraded: bool| {
            let mut network = network(*qdisc, 1 << 20, 1);
            if degraded {
                let kind = FaultKind::Degrade { share: 0.5 };
                let spec = FaultSpec { from: us(1), until: us(100), kind };
                network.add_fault(&ports("tor:0:up"), spec).unwrap();
            }
            let mut out = Vec::new();
            network.inject(HostId(0), packet(0, 7, 4160, DATA), us(5), &mut NoFrames, &mut out);
            run_out(&mut network, &mut out);
            network.now()
        };
        assert_eq!(arrival(true), arrival(false) + Duration::from_ps(41_600), "{}", qdisc.name());
    }
}

#[test]
fn hosts_that_do_not_exist_and_empty_packets_are_counted_drops() {
    let mut network = network(QdiscKind::Trim, 1 << 20, 1);
    let mut out = Vec::new();
    network.inject(HostId(8), packet(0, 1, 64, DATA), us(0), &mut NoFrames, &mut out);
    network.inject(HostId(0), packet(1, 8, 64, DATA), us(0), &mut NoFrames, &mut out);
    network.inject(HostId(0), packet(2, 1, 0, DATA), us(0), &mut NoFrames, &mut out);
    let audit = network.audit();
    assert_eq!(audit.dropped.of(DropReason::NoRoute), 2);
    assert_eq!(audit.dropped.of(DropReason::Malformed), 1);
    assert_eq!((audit.check(), out.len()), (Ok(()), 3));
    assert_eq!(network.nic_queued(HostId(8)), Queued::default());
}

#[test]
fn an_injection_in_the_past_counts_as_now() {
    let delivery = |injected_at| {
        let mut network = network(QdiscKind::Trim, 1 << 20, 1);
        let mut out = Vec::new();
        network.run_until(us(5), &mut NoFrames, &mut out);
        network.inject(HostId(0), packet(0, 1, 64, DATA), injected_at, &mut NoFrames, &mut out);
        run_out(&mut network, &mut out);
        out
    };
    assert_eq!(delivery(us(1)), delivery(us(5)));
    assert_ne!(delivery(us(5)), delivery(us(6)));
}
