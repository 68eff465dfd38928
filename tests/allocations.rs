//! The hot path allocates nothing: a multi-flow exchange with losses under a counting allocator.
//!
//! Messages are posted first, which allocates; then two endpoints exchange them over links that
//! lose, trim and mark. After a warm-up no call of `handle_burst`, `poll_transmit`,
//! `handle_timeout` or `poll_event` may allocate. The harness's own queues have their final size
//! from the start.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "allocations/hours.rs"]
mod hours;

use std::collections::VecDeque;
use std::num::NonZeroU32;

use transport::cc::CcKind;
use transport::lb::LbKind;
use transport::sched::SchedKind;
use transport::wire::Ext;
use transport::wire::int::Hop;
use transport::{
    BURST, Burst, Config, Duration, Endpoint, Event, HostId, Instant, LossSettings, MsgSpec,
    Placement, Rng, RxSegment, Settings, TxSegment,
};

const FLOWS: u32 = 8;
const MESSAGES: u32 = 6;
const SIZE: u32 = 400_000;
const DELAY: Duration = Duration::from_us(5);

/// Two hosts and the packets between them, by arrival.
struct Pair {
    hosts: [Endpoint; 2],
    wires: [VecDeque<(Instant, RxSegment, Ext)>; 2],
    /// When the link of each host is free again.
    free: [Instant; 2],
    burst: Burst<TxSegment>,
    rng: Rng,
    now: Instant,
    sent: u32,
    losses: u32,
}

impl Pair {
    fn new(config: &Config) -> Self {
        let rng = Rng::new(7);
        let host = |id: u32| Endpoint::new(config, HostId(id), rng.fork("host", id.into()));
        let mut hosts = [host(0), host(1)];
        for (from, host) in hosts.iter_mut().enumerate() {
            let peer = HostId(if from == 0 { 1 } else { 0 });
            for _ in 0..FLOWS {
                let flow = host.open_flow(peer, config.default_path()).unwrap();
                for tag in 0..MESSAGES {
                    let (len, tag) = (NonZeroU32::new(SIZE).unwrap(), tag.into());
                    host.post_send(Instant::ZERO, MsgSpec { flow, len, tag }).unwrap();
                }
            }
        }
        Self {
            hosts,
            wires: [(); 2].map(|()| VecDeque::with_capacity(1 << 14)),
            free: [Instant::ZERO; 2],
            burst: Burst::with_limit(BURST),
            rng,
            now: Instant::ZERO,
            sent: 0,
            losses: 0,
        }
    }

    /// Everything at one instant; false when nothing is left to happen.
    fn step(&mut self, config: &Config) -> bool {
        for from in 0..2 {
            self.transmit(from, config);
        }
        let arrivals = self.wires.iter().filter_map(|wire| wire.front()).map(|first| first.0);
        let timers = self.hosts.iter().filter_map(Endpoint::poll_timeout);
        let Some(next) = arrivals.chain(timers).min() else { return false };
        self.now = self.now.max(next);
        for to in 0..2 {
            while self.wires[to].front().is_some_and(|first| first.0 <= self.now) {
                let Some((_, segment, ext)) = self.wires[to].pop_front() else { break };
                let mut place = [Placement::Release];
                self.hosts[to].handle_extended(self.now, (&[segment], &[ext]), &mut place);
            }
            self.hosts[to].handle_timeout(self.now);
            while let Some(event) = self.hosts[to].poll_event() {
                assert!(!matches!(event, Event::Failed { .. } | Event::Aborted { .. }));
                self.sent += u32::from(matches!(event, Event::Sent { .. }));
            }
        }
        true
    }

    fn transmit(&mut self, from: usize, config: &Config) {
        loop {
            self.burst.reset(BURST);
            self.hosts[from].poll_transmit(self.now, &mut self.burst);
            if self.burst.is_empty() {
                return;
            }
            for (index, segment) in self.burst.iter().enumerate() {
                let len = transport::Bytes(u64::from(segment.payload.len) + 100);
                self.free[from] = self.free[from].max(self.now) + config.line_rate.time_for(len);
                let control = !segment.class().is_data();
                if self.rng.chance(0.02) {
                    self.losses += 1;
                    continue;
                }
                let trimmed = !control && self.rng.chance(0.02);
                let received = RxSegment {
                    hdr: segment.hdr,
                    at: self.free[from] + DELAY,
                    from: self.hosts[from].host(),
                    payload_len: if trimmed { 0 } else { segment.payload.len },
                    ce: !control && self.rng.chance(0.1),
                    trimmed,
                };
                let mut ext = *self.burst.ext(index);
                if !control && segment.hdr.ext.has_int() {
                    let sent = transport::Bytes(u64::from(self.sent));
                    ext.int.stamp(Hop::new(received.at, sent, sent, config.line_rate, 1));
                }
                self.wires[1 - from].push_back((received.at, received, ext));
            }
        }
    }
}

fn config(cc: CcKind, lb: LbKind, sched: SchedKind, int: bool) -> Config {
    let loss = LossSettings {
        tail_probe: true,
        reorder_window_quarters: Some(4),
        ..LossSettings::default()
    };
    let flows = 2 * FLOWS;
    Config::new(Settings {
        cc,
        lb,
        sched,
        loss,
        tx_flows_max: flows,
        rx_flows_max: flows,
        msgs_max: flows * MESSAGES,
        trace_capacity: 256,
        int_always: int,
        int_room: 3,
        ..Settings::default()
    })
    .unwrap()
}

#[test]
fn nothing_on_the_hot_path_allocates_once_it_is_warm() {
    // A thread counts its own allocations, so two share the controllers.
    std::thread::scope(|scope| {
        for first in 0..2 {
            scope.spawn(move || (first..CcKind::ALL.len()).step_by(2).for_each(with));
        }
    });
}

/// Counts the allocations of the controller of this number under all balancers and all schedulers.
/// Each family takes turns: over all controllers, every balancer meets every scheduler.
fn with(number: usize) {
    let cc = CcKind::ALL[number];
    let scheds = SchedKind::ALL.iter().filter(|sched| !sched.facts().needs_network);
    let scheds: Vec<SchedKind> = scheds.copied().collect();
    assert!(CcKind::ALL.len() >= scheds.len(), "some balancers would not meet some schedulers");
    for turn in 0..scheds.len().max(LbKind::ALL.len()) {
        let lb = LbKind::ALL[turn % LbKind::ALL.len()];
        let sched = scheds[(number + turn) % scheds.len()];
        // With room for telemetry in packets of every other case.
        let config = config(cc, lb, sched, (number / 2 + turn) % 2 == 1);
        let mut pair = Pair::new(&config);
        let all = 2 * FLOWS * MESSAGES;
        // Until one message in eight is through: every flow is open and has lost something.
        while pair.sent < all / 8 {
            assert!(pair.step(&config), "stuck in the warm-up");
        }
        let before = pair.losses;
        let mut steps = 0u64;
        let counted = allocation_counter::measure(|| {
            while pair.sent < all && pair.step(&config) {
                steps += 1;
            }
        });
        let (cc, lb, sched) = (cc.name(), lb.name(), sched.name());
        let losses = pair.losses - before;
        assert_eq!(pair.sent, all, "{cc} {lb} {sched}");
        assert!(
            losses > 100 && steps > 1000,
            "{cc} {lb} {sched}: {losses} losses in {steps} steps"
        );
        assert_eq!(counted.count_total, 0, "{cc} {lb} {sched}: {counted:?}");
    }
}

#[test]
fn the_counter_counts() {
    let counted = allocation_counter::measure(|| drop(std::hint::black_box(vec![0u8; 100])));
    assert_eq!(counted.count_total, 1);
}
