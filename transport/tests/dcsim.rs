//! Hosts that run DCsim over a wire that loses, repeats and delays packets of every class: every
//! message arrives once, every probe ends once, and all packets are accounted for.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::NonZeroU32;

use proptest::prelude::*;
use transport::cc::CcKind;
use transport::sched::dcsim::LongQueues::{Auto, Datas, TwoTokens};
use transport::sched::dcsim::{Bind, DcSim, SimCounts, Unscheduled};
use transport::sched::{Label, Sched, SchedKind};
use transport::wire::AccountedSizes;
use transport::wire::class::TrafficClass;
use transport::{
    BURST, Burst, Config, Duration, Endpoint, Event, HostId, Instant, MsgSpec, Placement, Rate,
    Rng, RxSegment, Settings, Stats, TxSegment,
};

const HOSTS: u32 = 3;
const CLASSES: usize = TrafficClass::ALL.len();

/// What the wire does to packets of one class, of 100.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    loss: u64,
    repeat: u64,
    /// Longest delay beyond 4 us.
    jitter_ns: u64,
}

struct Net {
    hosts: Vec<Endpoint>,
    now: Instant,
    rng: Rng,
    /// By class.
    weather: [Weather; CLASSES],
    wire: BinaryHeap<Reverse<(Instant, u64)>>,
    packets: BTreeMap<u64, (u32, RxSegment)>,
    number: u64,
    taken: u64,
    lost: u64,
    repeated: u64,
    arrived: u64,
    events: Vec<Event>,
    /// Departures of each host: when, what class, how long it takes the line.
    left: Vec<Vec<(Instant, TrafficClass)>>,
}

fn config(change: impl FnOnce(&mut Settings)) -> Config {
    let mut settings = Settings {
        payload_max: 8936,
        line_rate: Rate::from_gbps(800),
        base_rtt: Duration::from_us(8),
        accounted: AccountedSizes { data_overhead: Some(64), control: Some(64), data_min: 0 },
        cc: CcKind::Fixed,
        sched: SchedKind::DcSim,
        tx_flows_max: 64,
        rx_flows_max: 64,
        msgs_max: 64,
        ..Settings::default()
    };
    settings.cc_params.fixed.bdps = 64.0;
    settings.loss.reorder_window_quarters = None;
    settings.loss.backoff_max = 4;
    // Weather may let one SIM-ACK of hundreds come in time: it is not to be given up for that.
    settings.loss.retries_max = 64;
    settings.sched_params.dcsim.rtt_p = Some(Duration::from_us(8));
    change(&mut settings);
    Config::new(settings).unwrap()
}

impl Net {
    fn new(config: &Config, seed: u64) -> Self {
        let rng = Rng::new(seed);
        let host = |id| Endpoint::new(config, HostId(id), rng.fork("host", u64::from(id)));
        Self {
            hosts: (0..HOSTS).map(host).collect(),
            now: Instant::ZERO,
            rng: rng.fork("weather", 0),
            weather: [Weather::default(); CLASSES],
            wire: BinaryHeap::new(),
            packets: BTreeMap::new(),
            number: 0,
            taken: 0,
            lost: 0,
            repeated: 0,
            arrived: 0,
            events: Vec::new(),
            left: (0..HOSTS).map(|_| Vec::new()).collect(),
        }
    }

    fn carry(&mut self, from: u32, segment: &TxSegment) {
        self.taken += 1;
        let class = segment.class();
        self.left[from as usize].push((self.now, class));
        let Weather { loss, repeat, jitter_ns } = self.weather[class as usize];
        if self.rng.below(100) < loss {
            self.lost += 1;
            return;
        }
        let again = self.rng.below(100) < repeat;
        self.repeated += u64::from(again);
        for _ in 0..=u64::from(again) {
            let late = Duration::from_ns(self.rng.below(jitter_ns + 1));
            let at = self.now + Duration::from_us(4) + late;
            let (hdr, payload_len) = (segment.hdr, segment.payload.len);
            let (from, ce, trimmed) = (HostId(from), false, false);
            let arrival = RxSegment { hdr, at, from, payload_len, ce, trimmed };
            self.wire.push(Reverse((at, self.number)));
            self.packets.insert(self.number, (segment.peer.0, arrival));
            self.number += 1;
        }
    }

    fn run(&mut self, end: Instant) {
        loop {
            let arrival = self.wire.peek().map(|Reverse((at, _))| *at);
            let timers = self.hosts.iter().map(Endpoint::poll_timeout);
            let next = timers.chain([arrival]).flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { return };
            self.now = self.now.max(next);
            while let Some(Reverse((_, number))) =
                self.wire.peek().copied().filter(|Reverse((at, _))| *at <= self.now)
            {
                self.wire.pop();
                let (to, segment) = self.packets.remove(&number).unwrap();
                self.arrived += 1;
                let host = &mut self.hosts[to as usize];
                host.handle_burst(self.now, &[segment], &mut [Placement::Release]);
            }
            for host in 0..HOSTS {
                self.hosts[host as usize].handle_timeout(self.now);
                self.transmit(host);
            }
        }
    }

    fn transmit(&mut self, host: u32) {
        let mut burst = Burst::with_limit(BURST);
        loop {
            burst.reset(BURST);
            self.hosts[host as usize].poll_transmit(self.now, &mut burst);
            for segment in burst.iter().copied().collect::<Vec<_>>() {
                self.carry(host, &segment);
            }
            while let Some(event) = self.hosts[host as usize].poll_event() {
                self.events.push(event);
            }
            if burst.room() > 0 {
                return;
            }
        }
    }

    fn post(&mut self, from: u32, to: u32, collective: u32, len: u32, path: transport::Path) {
        let label = Label { collective, ..Label::NONE };
        let host = &mut self.hosts[from as usize];
        let flow = host.open_labelled(HostId(to), path, label).unwrap();
        let len = NonZeroU32::new(len).unwrap();
        host.post_send(self.now, MsgSpec { flow, len, tag: 0 }).unwrap();
    }

    fn sched(&self, host: usize) -> &DcSim {
        match self.hosts[host].scheduler() {
            Sched::DcSim(sched) => sched,
            other => panic!("{other:?}"),
        }
    }

    fn audit(&self) {
        let mut sum = Stats::default();
        self.hosts.iter().for_each(|host| sum.add(host.stats()));
        assert_eq!(self.taken + self.repeated, self.lost + self.arrived);
        let data = sum.data_new + sum.copies + sum.retransmitted;
        assert_eq!(data + sum.acks_sent + sum.nacks_sent + sum.control_sent, self.taken);
        let counted = sum.data_placed + sum.duplicates + sum.acks_received + sum.control_received;
        assert_eq!(counted + sum.drops.total(), self.arrived);
    }
}

fn weather() -> impl Strategy<Value = [Weather; CLASSES]> {
    let one = (0_u64..40, 0_u64..30, 0_u64..30_000).prop_map(|(loss, repeat, jitter_ns)| Weather {
        loss,
        repeat,
        jitter_ns,
    });
    let calm = Just(Weather::default());
    prop::collection::vec(prop_oneof![2 => calm, 1 => one], CLASSES).prop_map(|all| {
        let mut weather = [Weather::default(); CLASSES];
        weather.copy_from_slice(&all);
        weather
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_message_arrives_once_and_every_probe_ends_once(
        weather in weather(), seed: u64,
        fraction in prop_oneof![Just(1.0_f32), Just(0.0), 0.0_f32..1.0],
        per_sim in 1_u16..4, queue in 1_u16..16, bucket in 1_u16..4,
        (bind, tail) in (prop::sample::select(vec![Bind::Ack, Bind::Departure]), any::<bool>()),
        unscheduled in prop_oneof![Just(0_u64), 0_u64..1_000_000],
        (recycle, stay, refund) in (0_u16..9, any::<bool>(), prop_oneof![Just(0_u16), 1_u16..8]),
        drain in prop::sample::select(vec![Auto, TwoTokens, Datas(0), Datas(1), Datas(8)]),
        flows in prop::collection::vec(
            (0_u32..HOSTS, 1_u32..HOSTS, 0_u32..2, 1_u32..300_000), 1..16,
        ),
    ) {
        let config = config(|settings| {
            let params = &mut settings.sched_params.dcsim;
            (params.fraction, params.per_sim) = (fraction, per_sim);
            (params.queue, params.bucket) = (queue, bucket);
            (params.bind, params.tail) = (bind, tail);
            params.unscheduled = Unscheduled::Bytes(unscheduled);
            (params.recycle, params.stay) = (recycle, stay);
            (params.refund, params.drain) = (refund, drain);
        });
        let mut net = Net::new(&config, seed);
        net.weather = weather;
        for (from, step, collective, len) in &flows {
            net.post(*from, (from + step) % HOSTS, *collective, *len, config.default_path());
        }
        (0..HOSTS).for_each(|host| net.transmit(host));
        net.run(Instant::ZERO + Duration::from_ms(2_000));
        let sent = net.events.iter().filter(|event| matches!(event, Event::Sent { .. })).count();
        prop_assert_eq!(sent, flows.len(), "{:?}", net.events);
        let mut delivered: Vec<u32> = net
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Delivered { len, .. } => Some(*len),
                _ => None,
            })
            .collect();
        let mut lens: Vec<u32> = flows.iter().map(|(.., len)| *len).collect();
        delivered.sort_unstable();
        lens.sort_unstable();
        prop_assert_eq!(delivered, lens);
        net.audit();
        let mut all = SimCounts::default();
        for host in 0..HOSTS as usize {
            let sims = &net.sched(host).figures().sims;
            prop_assert_eq!(sims.sent, sims.acked + sims.timed_out, "each probe ends once");
            prop_assert!(sims.forged == 0, "{sims:?}");
            all.add(sims);
        }
        let mut sum = Stats::default();
        net.hosts.iter().for_each(|host| sum.add(host.stats()));
        prop_assert!(sum.data_new + sum.retransmitted <= all.acked * u64::from(per_sim));
        prop_assert!(all.answered <= sum.control_received);
        let most = unscheduled.div_ceil(config.mtu().0) * flows.len() as u64;
        prop_assert!(sum.copies <= most, "{} copies of {most}", sum.copies);
        // Where a token comes back, more probes leave.
        if refund == 0 {
            check_rate(&net, per_sim, bucket)?;
        }
    }
}

/// In any span t a host sends at most bucket + t / T' probes.
fn check_rate(net: &Net, per_sim: u16, bucket: u16) -> Result<(), TestCaseError> {
    let slot = (9000.0 * f64::from(per_sim) + 134.4) * 10.0;
    for left in &net.left {
        let sims: Vec<f64> = left
            .iter()
            .filter(|(_, class)| *class == TrafficClass::Probe)
            .map(|(at, _)| at.as_us_f64() * 1e6)
            .collect();
        for (first, from) in sims.iter().enumerate() {
            for (count, to) in (1..40).zip(&sims[first..]) {
                let most = f64::from(bucket) + (to - from) / slot + 0.001;
                prop_assert!(f64::from(count) <= most, "{count} probes in {} ps", to - from);
            }
        }
    }
    Ok(())
}

#[test]
fn on_a_good_wire_nothing_is_sent_twice_and_a_flow_ends_after_rtt_max_and_its_slots() {
    let config = config(|_| ());
    let mut net = Net::new(&config, 1);
    net.post(0, 1, 0, 87 * 8936, config.default_path());
    net.transmit(0);
    net.run(Instant::ZERO + Duration::from_ms(1));
    net.audit();
    let stats = net.hosts[0].stats();
    assert_eq!((stats.data_new, stats.retransmitted, stats.spurious), (87, 0, 0));
    let sims = net.sched(0).figures().sims;
    assert_eq!((sims.sent, sims.acked, sims.late, sims.wasted), (87, 87, 0, 0));
    let last = net.left[0].iter().rfind(|(_, class)| *class == TrafficClass::Data);
    let expected = net.sched(0).rtt_max() + Duration::from_ps(91_344 * 85 + 640);
    let late = last.unwrap().0.since(Instant::ZERO + expected);
    assert!(late <= Duration::from_ns(100), "{late} behind its time");
    // One DATA-ACK for 16, or after 24 us, and one at the end.
    assert!((87 / 16..=87 / 16 + 3).contains(&net.hosts[1].stats().acks_sent));
    assert_eq!(net.hosts[1].stats().control_sent, 87, "SIM-ACKs");
}
