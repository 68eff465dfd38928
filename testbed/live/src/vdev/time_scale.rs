//! The time scale: how much slower than real time a run's network time passes, so that this machine
//! keeps up.
//!
//! A scale has to satisfy two conditions. The first is the processor's: all hosts that send at line
//! rate must cost at most a quarter of one core. The second is that of the control loops. The
//! kernel's scheduler takes a core away for 4 ms at a time, or for several times that on a busy
//! machine. This disturbs a base RTT of less than some 40 ms of real time. Between sites the
//! shortest loop counts: flows inside a site lose rate where pollers add to their round trip. The
//! first condition always holds; the second is followed as long as the run stays short. The cost of
//! a packet is measured with this build on this machine, by sending some through the run's own
//! network; the hosts' part is a multiple of that. The lateness of polls is measured again during
//! the run (`lateness`).

use transport::{Bytes, Duration, HostId, Instant, Rng};
use transport_dpdk::ClockError;
use transport_dpdk::{Calibration, TimeScale};

use crate::workers::network_time;
use experiments::plan::{Plan, RunError};
use fabric::{Flags, Network, NoFrames, Packet};

/// Real time that a base RTT takes at best: ten scheduler slices.
const RTT_WANTED: Duration = Duration::from_ms(40);

/// Real time that a base RTT takes at least: a few ticks of the kernel, 8 to 16 us each.
const RTT_MIN: Duration = Duration::from_us(50);

/// Real time that the ideal run may take for the sake of [`RTT_WANTED`].
const RUN_WANTED: Duration = Duration::from_s(3);

/// Real time of a base RTT that a longer run is slowed down for: four scheduler slices. With half
/// of that, one busy neighbour on two cores makes a long run invalid.
const RTT_SOUND: Duration = Duration::from_ms(16);

/// Real time that the ideal run may take for the sake of [`RTT_SOUND`].
const RUN_SOUND: Duration = Duration::from_s(60);

/// Real time of the shortest retransmission timeout: longer than most breaks that a scheduler
/// makes.
const RTO_MIN: Duration = Duration::from_ms(25);

/// Costs of both hosts, with emitting, parsing, checksums and copies, in costs of the network.
const HOSTS_FACTOR: f64 = 6.0;

/// Share of one core that may be busy when all hosts send at line rate.
const LOAD_MAX: f64 = 0.25;

/// Packets that the cost is measured with.
const PROBES: u32 = 2048;

/// The scale for `plan`: the one that it sets, else one that fits. `device_ns` is the cost of one
/// packet in devices.
pub(super) fn choose(
    plan: &Plan,
    rate: Calibration,
    device_ns: f64,
) -> Result<TimeScale, RunError> {
    let factor = plan.draft.vdev.time_scale.unwrap_or_else(|| {
        let packet_ns = network_ns(plan, rate) * (1.0 + HOSTS_FACTOR) + device_ns;
        fitting(plan, packet_ns)
    });
    TimeScale::new(factor).map_err(|error: ClockError| RunError::Environment(error.to_string()))
}

/// Real time that a run takes before its network time begins, and after it ends: DPDK starts, the
/// clock and the cost of a packet are measured.
const AROUND: Duration = Duration::from_ms(650);

/// Real nanoseconds that a packet costs at both hosts and in the network, where that has not been
/// measured yet.
const PACKET_USUAL_NS: f64 = 2500.0;

/// Real time that a run of `plan` is expected to take: its network time at best, as slow as it is
/// likely to pass.
#[must_use]
pub fn expected(plan: &Plan) -> Duration {
    let scale = plan.draft.vdev.time_scale.unwrap_or_else(|| fitting(plan, PACKET_USUAL_NS));
    let ideal = plan.ideal().since(Instant::ZERO);
    let time = plan.limit.map_or(ideal, |limit| limit.min(ideal));
    AROUND + time.scaled(scale)
}

/// The shortest timeout in network time.
pub(super) fn rto_min(scale: TimeScale) -> Duration {
    network_time(RTO_MIN, scale)
}

/// A scale at which `packet_ns` of real time a packet are affordable, rounded up to two digits.
fn fitting(plan: &Plan, packet_ns: f64) -> f64 {
    let mut senders: Vec<HostId> = plan.matrix.flows.iter().map(|flow| flow.src).collect();
    senders.sort_unstable();
    senders.dedup();
    let mtu = Bytes(u64::from(plan.fabric.mtu));
    let packet_time_ns = plan.settings.line_rate.time_for(mtu).as_us_f64() * 1000.0;
    // Each packet is acknowledged.
    #[expect(clippy::cast_precision_loss, reason = "hosts are few")]
    let packets_per_ns = 2.0 * senders.len() as f64 / packet_time_ns;
    let by_load = packets_per_ns * packet_ns / LOAD_MAX;
    let base_rtt_us = plan.shortest_loop().as_us_f64();
    let floor = by_load.max(RTT_MIN.as_us_f64() / base_rtt_us);
    let ideal_us = plan.ideal().as_us_f64().max(base_rtt_us);
    let at_most = |rtt: Duration, run: Duration| {
        (rtt.as_us_f64() / base_rtt_us).min(run.as_us_f64() / ideal_us)
    };
    let wanted = at_most(RTT_WANTED, RUN_WANTED).max(at_most(RTT_SOUND, RUN_SOUND));
    two_digits(floor.max(wanted)).clamp(1.0, 1e6)
}

/// Rounded up to two significant digits: a scale that people can read.
fn two_digits(value: f64) -> f64 {
    let unit = libm::pow(10.0, libm::floor(libm::log10(value.max(1.0))) - 1.0).max(1.0);
    libm::ceil(value / unit) * unit
}

/// Real nanoseconds that one packet costs in the network of `plan`, the better of two rounds.
fn network_ns(plan: &Plan, rate: Calibration) -> f64 {
    let clock = rate.clock(TimeScale::REAL);
    let hosts = plan.hosts();
    let mtu = plan.fabric.mtu;
    let spacing = plan.settings.line_rate.time_for(Bytes(u64::from(mtu)));
    let mut network = Network::new(plan.blueprint(), &Rng::new(plan.seed));
    let mut out = Vec::new();
    let mut best = f64::MAX;
    let mut at = Instant::ZERO;
    for _ in 0..2 {
        let start = clock.now();
        for handle in 0..PROBES {
            let (src, dst) =
                (HostId(handle % hosts), HostId((handle + 1 + handle / hosts) % hosts));
            let flags = Flags::ECT.with(Flags::TRIMMABLE);
            let hash = handle.wrapping_mul(0x9e37_79b1);
            network.inject(
                src,
                Packet { handle, dst, hash, len: mtu, trim_len: 64, flags },
                at,
                &mut NoFrames,
                &mut out,
            );
            at += if handle % hosts == 0 { spacing } else { Duration::ZERO };
            network.run_until(at, &mut NoFrames, &mut out);
            out.clear();
        }
        at += plan.settings.base_rtt;
        network.run_until(at, &mut NoFrames, &mut out);
        best = best.min(clock.now().since(start).as_us_f64() * 1000.0 / f64::from(PROBES));
    }
    best
}

#[cfg(test)]
mod tests {
    use experiments::plan::{Draft, Origin};
    use experiments::topology;
    use experiments::workload::{FlowSpec, Matrix};

    use super::*;

    fn plan(size: u64) -> Plan {
        let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(1), HostId(0), Bytes(size)));
        Plan::new(&Draft::default(), matrix, &topology::by_name("paper-testbed").unwrap()).unwrap()
    }

    #[test]
    fn a_short_run_gets_a_base_rtt_of_several_scheduler_slices() {
        let plan = plan(1 << 20);
        let scale = fitting(&plan, 1000.0);
        let rtt_real_us = plan.settings.base_rtt.as_us_f64() * scale;
        assert!((40_000.0..44_000.0).contains(&rtt_real_us), "{scale}");
    }

    #[test]
    fn flows_inside_a_site_set_the_scale_of_those_across() {
        let plan = |src, transport| {
            let mut matrix = Matrix { nodes: 32, ..Matrix::default() };
            matrix.push_flow(FlowSpec::new(HostId(0), HostId(20), Bytes(1 << 20)));
            matrix.push_flow(FlowSpec::new(HostId(src), HostId(20), Bytes(1 << 20)));
            let mut draft = Draft::default();
            draft.set_transport(transport, Origin::Set).unwrap();
            let network = topology::by_name("two-dc-leaf:3ms,100,1,4").unwrap();
            Plan::new(&draft, matrix, &network).unwrap()
        };
        let [across, near] = [1, 17].map(|src| plan(src, "hpcc"));
        assert_eq!(across.shortest_loop(), across.settings.base_rtt);
        assert_eq!(near.shortest_loop(), near.path(HostId(16), HostId(20)).base_rtt);
        assert!(fitting(&near, 1000.0) > 3.0 * fitting(&across, 1000.0));
        // A border switch that takes part answers within its site.
        let (border, inside) = (plan(1, "mlcc").shortest_loop(), near.shortest_loop());
        // Packets of the two have room for telemetry of different lengths.
        assert!(border.scaled(0.99) < inside && inside < border.scaled(1.01));
    }

    #[test]
    fn a_long_run_is_as_slow_as_the_processor_demands_and_no_slower() {
        let plan = plan(1 << 38);
        let (cheap, dear) = (fitting(&plan, 500.0), fitting(&plan, 50_000.0));
        assert!((6.0..20.0).contains(&cheap) && dear > 80.0 * cheap, "{cheap} {dear}");
    }

    #[test]
    fn a_run_is_expected_to_take_its_network_time_as_slow_as_it_passes() {
        let plan = plan(1 << 30);
        let at = |scale: Option<f64>, limit: Option<Duration>| {
            let changed = plan.with(|draft| {
                draft.vdev.time_scale = scale;
                draft.limit = limit;
            });
            (expected(&changed.unwrap()) - AROUND).as_us_f64()
        };
        let ideal_us = plan.ideal().as_us_f64();
        let is = |us: f64, times: f64| (us / (ideal_us * times) - 1.0).abs() < 1e-6;
        assert!(is(at(Some(7.0), None), 7.0));
        assert!(is(at(None, None), fitting(&plan, PACKET_USUAL_NS)));
        assert!(is(at(Some(7.0), Some(plan.ideal().since(Instant::ZERO).scaled(0.5))), 3.5));
        assert!(is(at(Some(7.0), Some(Duration::from_s(1000))), 7.0));
    }

    #[test]
    fn the_timeout_is_25_ms_of_real_time() {
        let scale = TimeScale::new(1000.0).unwrap();
        assert_eq!(rto_min(scale), Duration::from_us(25));
    }

    #[test]
    fn scales_are_rounded_up_to_two_digits() {
        assert_eq!([1.0, 9.2, 101.0, 1234.0].map(two_digits), [1.0, 10.0, 110.0, 1300.0]);
    }

    #[test]
    fn a_packet_costs_something_measurable() {
        let rate = Calibration::measure(Duration::from_ms(200)).unwrap();
        let ns = network_ns(&plan(1 << 20), rate);
        assert!((10.0..1e6).contains(&ns), "{ns}");
    }
}
