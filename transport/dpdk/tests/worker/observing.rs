//! Workers that are observed: what their boards and taps say is what has happened.

use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::frame::{self, UdpCheck};
use transport::{Duration, HostId};
use transport_dpdk::telemetry::{COUNTERS, Group, HistogramName};
use transport_dpdk::{Telemetry, tap};

use crate::rig::{DELAY, Rig, Sizes, Weather};

const SECOND: Duration = Duration::from_s(1);
const MESSAGES: u64 = 20;

/// Host 0 sends 20 messages of 50 KB to host 1; `observe` has a look at the
/// workers before.
fn sent(weather: Weather, observe: impl FnOnce(&mut Rig, &Sizes)) -> Rig {
    let sizes = Sizes::ample();
    let mut rig = Rig::new(&sizes, 3, weather);
    observe(&mut rig, &sizes);
    rig.open(0, 0, &sizes);
    (1..=MESSAGES).for_each(|tag| rig.send(0, 0, 50_000, tag));
    rig.run(SECOND, 64, |rig| rig.sent(0).len() as u64 == MESSAGES);
    rig
}

/// Meters for both hosts.
fn metered(telemetry: &Telemetry, rig: &mut Rig, sizes: &Sizes) {
    for (host, id) in rig.hosts.iter_mut().zip(0..) {
        let interval = Duration::from_us(100);
        host.worker.observe(telemetry.meter(HostId(id), sizes.config.msgs_max, interval));
    }
}

#[test]
fn a_board_says_what_worker_and_endpoint_have_counted() {
    let telemetry = Telemetry::default();
    let weather = Weather { loss: 0.02, corrupt: 0.02, ..Weather::default() };
    let mut rig = sent(weather, |rig, sizes| metered(&telemetry, rig, sizes));
    for (host, board) in rig.hosts.iter_mut().zip(telemetry.workers()) {
        let worker = &mut host.worker;
        // While it ran, it was brought up to date without being asked.
        assert!(board.counters().iter().any(|counter| *counter > 0));
        worker.publish();
        let of = |group| {
            let shown = COUNTERS.iter().zip(board.counters());
            shown.filter(move |(counter, _)| counter.group == group).map(|(_, value)| value)
        };
        assert!(of(Group::Endpoint).eq(worker.stats().values()));
        assert!(of(Group::Drops).eq(worker.stats().drops.iter().map(|(_, count)| count)));
        assert!(of(Group::Worker).eq(worker.counts().values()));
        let (stats, counts) = (*worker.stats(), *worker.counts());
        let picture = |name| board.histogram(name).picture();
        assert_eq!(picture(HistogramName::RxBurst).sum, counts.received);
        assert_eq!(picture(HistogramName::TxBurst).sum, counts.handed_over);
        assert_eq!(picture(HistogramName::MessageTime).count(), stats.messages_sent);
        let rtts = picture(HistogramName::Rtt);
        assert_eq!(rtts.count(), stats.acks_received + stats.nacks_received);
        let base_ns = 2 * DELAY.as_ps() / 1000;
        assert!(rtts.count() == 0 || rtts.quantile(0.0) >= base_ns, "{}", rtts.quantile(0.0));
    }
    assert_eq!(rig.hosts[0].worker.stats().messages_sent, MESSAGES);
}

#[test]
fn an_application_that_does_not_listen_shows_as_pressure() {
    let turns = |listen| {
        let telemetry = Telemetry::default();
        let sizes = Sizes { completions: 1, ..Sizes::ample() };
        let mut rig = Rig::new(&sizes, 3, Weather::default());
        metered(&telemetry, &mut rig, &sizes);
        rig.open(0, 0, &sizes);
        (1..=MESSAGES).for_each(|tag| rig.send(0, 0, 5_000, tag));
        (0..20_000).for_each(|_| rig.step(listen));
        rig.hosts[1].worker.publish();
        let counters = telemetry.worker(1).unwrap().counters();
        let is_it = |group, name| group == Group::Pressure && name == "application";
        let at = COUNTERS.iter().position(|counter| is_it(counter.group, counter.name));
        counters[at.unwrap()]
    };
    // With room for one completion, some wait for a turn or two even when all are taken.
    let (read, unread) = (turns(64), turns(0));
    assert!(unread > 10_000 && read * 100 < unread, "{read} and {unread} turns");
}

#[test]
fn a_tap_holds_every_frame_both_ways_as_it_was() {
    let mut readers = Vec::new();
    let rig = sent(Weather::default(), |rig, _| {
        for host in &mut rig.hosts {
            let (tap, reader) = tap(1 << 24, u32::MAX, 1);
            host.worker.capture(tap);
            readers.push(reader);
        }
    });
    let addressing = Addressing::emulated(IpVersion::V4);
    for (host, reader) in rig.hosts.iter().zip(&mut readers) {
        let (mut filled, mut received) = (0, 0);
        let mut bytes = Vec::new();
        while let Some(taken) = reader.next(&mut bytes) {
            let parsed = frame::parse(&bytes, &addressing, UdpCheck::Required).unwrap();
            let own = if taken.sent { parsed.src } else { parsed.dst };
            assert_eq!(own, host.worker.endpoint().host());
            filled += u64::from(taken.sent);
            received += u64::from(!taken.sent);
            bytes.clear();
        }
        let counts = host.worker.counts();
        assert_eq!((filled, received), (counts.filled, counts.received));
        assert_eq!((reader.seen(), reader.lost()), (filled + received, 0));
    }
}
