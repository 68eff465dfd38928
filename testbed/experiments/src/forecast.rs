//! The cost of a simulation, computed before it runs: link traversals, time, memory.
//!
//! An estimate from the matrix, the topology and the tables of endpoints, meant to be right within
//! a factor of two. It shows a user that a run takes minutes; a run that does not fit into the
//! machine's memory is not begun. Nothing is measured here; the constants are those of this program
//! on 64-bit machines, and tests compare them with the cost of runs.
//!
//! Memory of a run, bytes:
//!
//! ```text
//!   PROCESS + threads x ports x PORT + hosts x HOST + flows x FLOW
//!           + open flows x (OPEN + PSN x segments of the flow, at most psn_window)
//!           + packets under way x PACKET
//! ```
//!
//! The time of a hop grows with the memory that is touched between two hops: the endpoints of hosts
//! that take part, and the flows that are open at once. This memory may or may not be in caches:
//!
//! ```text
//!   HOP x (touched / TOUCHED_LEAST)^(1/6), where more than TOUCHED_LEAST is touched
//! ```
//!
//! The root is a fit over 39 runs of incasts, permutations, all-to-alls and Poisson arrivals with 8
//! to 8191 senders. They took 100 to 880 ns a hop, on a machine with other work.
//!
//! A flow is open from its start until its last acknowledgement; a host has at most one window of
//! packets under way, since its NIC is handed few packets ahead.

use std::fmt;

use transport::{Bytes, Duration, Instant, Settings};

use crate::plan::Plan;
use crate::workload::matrix::Start;

/// The program itself with one thread.
pub const PROCESS: u64 = 5 << 20;
/// A port of the network, for each thread.
pub const PORT: u64 = 450;
/// Memory of a host's endpoint and queues that is touched without flows; more is reserved.
pub const HOST: u64 = 10 << 10;
/// A flow at both ends: its places in tables, its line of the matrix, its record and its result.
pub const FLOW: u64 = 1000;
/// Memory that an open flow takes beyond `FLOW`, without its segments.
pub const OPEN: u64 = 700;
/// A segment that an open flow can have outstanding.
pub const PSN: u64 = 32;
/// A packet that is somewhere, at the peak of the lists it is in.
pub const PACKET: u64 = 144;

/// Memory that stays in the nearest caches.
const TOUCHED_LEAST: u64 = 100_000;

/// Processor time of a hop, endpoints included, where no more is touched.
const HOP: Duration = Duration::from_ns(110);

/// Processor time of a hop that overruns add: its memory is in no cache.
const LOST_HOP: Duration = Duration::from_ns(330);

/// Processor time of opening and closing a flow at both ends.
const FLOW_TIME: Duration = Duration::from_ns(2500);

/// Processor time of a flow that is computed without packets. A flow takes 15 us where 100,000
/// flows come at a load of 0.5. It takes 100 us where 400,000 come at 0.9 and more of them are
/// under way.
const IDEAL_FLOW_TIME: Duration = Duration::from_us(40);

/// What each flow that starts at the same time adds to that: all flows under way are looked at when
/// one starts, ends or lands.
const IDEAL_OPEN_TIME: Duration = Duration::from_ns(15);

/// Hops that losses and waiting add to those of segments and acknowledgements.
const ADDED_PERCENT: u64 = 25;

/// The approximate cost of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Link traversals of segments and acknowledgements.
    pub hops: u64,
    /// Time on one thread of a core that has nothing else to do.
    pub time: Duration,
    /// Memory at the peak.
    pub memory: Bytes,
}

impl Forecast {
    /// The cost of `plan` in virtual time. O(flows).
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let flows = plan.matrix.flows.len() as u64;
        let whole = if plan.is_ideal() {
            let memory = Bytes(flows.saturating_mul(FLOW).saturating_add(PROCESS));
            let each = IDEAL_FLOW_TIME + IDEAL_OPEN_TIME * open(plan).0;
            Self { hops: 0, time: each * flows, memory }
        } else {
            let (hops, lost) = (hops(plan), lost_hops(plan));
            let time = slowed(HOP * hops + LOST_HOP * lost, touched(plan)) + FLOW_TIME * flows;
            Self { hops: hops.saturating_add(lost), time, memory: memory(plan) }
        };
        let (ideal, limit) = (plan.ideal().since(Instant::ZERO), plan.limit);
        match limit.filter(|limit| *limit < ideal) {
            Some(limit) => whole.cut(limit.as_us_f64() / ideal.as_us_f64()),
            None => whole,
        }
    }

    /// The cost of a run whose time limit leaves this share of its time.
    fn cut(self, share: f64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` saturates"
        )]
        let hops = (self.hops as f64 * share) as u64;
        Self { hops, time: self.time.scaled(share), ..self }
    }
}

/// Every segment goes to its receiver, with the packets that it causes.
fn hops(plan: &Plan) -> u64 {
    let tree = plan.tree.spec();
    let ways = plan.matrix.flows.iter().map(|flow| {
        let links = tree.links_via(tree.meeting_tier(flow.src, flow.dst));
        let segments = plan.segments(flow.size);
        segments.saturating_add(control(plan, segments)).saturating_mul(links)
    });
    let least = ways.fold(0u64, u64::saturating_add);
    least.saturating_add(least / 100 * ADDED_PERCENT)
}

/// Packets without data that so many segments cause.
fn control(plan: &Plan, segments: u64) -> u64 {
    let acks = segments.div_ceil(u64::from(plan.settings.ack_every.max(1)));
    let Settings { sched, sched_params, .. } = &plan.settings;
    sched.control_packets(sched_params, segments, acks)
}

/// Hops of segments that are lost at receivers. The first flows of a receiver, all started at once,
/// may send more than its link and queue take in the time of a window. Each segment above that is
/// trimmed, refused and sent again. A sender with many flows gives each its share.
fn lost_hops(plan: &Plan) -> u64 {
    let hosts = plan.hosts() as usize;
    let starts = plan.matrix.flows.iter().filter_map(|flow| match flow.start {
        Start::At(at) => Some(at),
        Start::On(_) => None,
    });
    let first = starts.min().unwrap_or_default();
    let at_first = || plan.matrix.flows.iter().filter(move |flow| flow.start == Start::At(first));
    let (mut sends, mut sent, mut widest) = (vec![0u64; hosts], vec![0u64; hosts], vec![0; hosts]);
    at_first().for_each(|flow| sends[flow.src.0 as usize] += 1);
    for flow in at_first() {
        let dst = flow.dst.0 as usize;
        let window = window(plan, plan.path(flow.src, flow.dst).base_rtt);
        let share = window / sends[flow.src.0 as usize];
        sent[dst] = plan.segments(flow.size).min(share).saturating_add(sent[dst]);
        widest[dst] = window.max(widest[dst]);
    }
    let lost = sent.iter().zip(&widest).map(|(sent, window)| sent.saturating_sub(2 * window));
    let lost = lost.fold(0u64, u64::saturating_add);
    let tiers = u64::from(plan.tree.spec().tiers);
    lost.saturating_mul(2 * 2 * tiers)
}

/// Segments of a window on a path of that round trip.
fn window(plan: &Plan, rtt: Duration) -> u64 {
    let bdp = plan.settings.line_rate.bytes_in(rtt).0;
    bdp.div_ceil(u64::from(plan.fabric.mtu).max(1)) * 3 / 2
}

/// Memory that a run touches over and over.
fn touched(plan: &Plan) -> u64 {
    let mut takes_part = vec![false; plan.hosts() as usize];
    for flow in &plan.matrix.flows {
        takes_part[flow.src.0 as usize] = true;
        takes_part[flow.dst.0 as usize] = true;
    }
    let hosts = takes_part.iter().filter(|takes_part| **takes_part).count() as u64;
    let (open, _) = open(plan);
    (hosts * HOST).saturating_add(open.saturating_mul(2 * OPEN))
}

/// The time of hops that would take `time` if so much memory were at hand.
fn slowed(time: Duration, touched: u64) -> Duration {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let times = touched.max(TOUCHED_LEAST) as f64 / TOUCHED_LEAST as f64;
    time.scaled(libm::cbrt(libm::sqrt(times)))
}

fn memory(plan: &Plan) -> Bytes {
    let ports = plan.blueprint().ports.len() as u64 * plan.draft.threads as u64;
    let flows = plan.matrix.flows.len() as u64;
    let (open, segments) = open(plan);
    let window = u64::from(plan.settings.psn_window);
    let rings = open.saturating_mul(OPEN + PSN * segments.next_power_of_two().clamp(16, window));
    let bytes = [
        PROCESS,
        ports * PORT,
        u64::from(plan.hosts()) * HOST,
        flows.saturating_mul(FLOW),
        rings,
        under_way(plan, open.saturating_mul(segments)).saturating_mul(PACKET),
    ];
    Bytes(bytes.into_iter().fold(0, u64::saturating_add))
}

/// Flows that are open at once, and how many segments one of them has.
fn open(plan: &Plan) -> (u64, u64) {
    let (mut first, mut last) = (Duration::MAX, Duration::ZERO);
    let (mut timed, mut busy, mut all) = (0u64, 0u128, 0u64);
    for flow in &plan.matrix.flows {
        all = all.saturating_add(plan.segments(flow.size));
        let Start::At(at) = flow.start else { continue };
        (first, last) = (first.min(at), last.max(at));
        timed += 1;
        let rtt = plan.path(flow.src, flow.dst).base_rtt;
        let alone = plan.settings.line_rate.time_for(flow.size) + rtt;
        busy += 2 * u128::from(alone.as_ps());
    }
    let mean = all / (plan.matrix.flows.len() as u64).max(1);
    let span = u128::from(last.as_ps().saturating_sub(first.as_ps()));
    // Spread over a time, only some are open at any instant of it; others come by trigger when one
    // is done.
    let at_once = busy.checked_div(span).map_or(timed, |open| u64::try_from(open).unwrap_or(timed));
    (at_once.clamp(1, timed.max(1)), mean.max(1))
}

/// Packets in the network at once: a window a sender, of what its flows have.
fn under_way(plan: &Plan, segments: u64) -> u64 {
    let mut sends = vec![false; plan.hosts() as usize];
    for flow in &plan.matrix.flows {
        sends[flow.src.0 as usize] = true;
    }
    let senders = sends.iter().filter(|sends| **sends).count() as u64;
    senders.saturating_mul(window(plan, plan.settings.base_rtt)).min(segments)
}

impl fmt::Display for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "a forecast; 53 bits are plenty")]
        let [hops, memory] = [self.hops, self.memory.0].map(|count| count as f64 / 1e6);
        let seconds = self.time.as_us_f64() / 1e6;
        let digits = usize::from(seconds < 10.0);
        write!(f, "~{hops:.0} M hops, ~{seconds:.digits$} s, ~{memory:.0} MB")
    }
}

#[cfg(test)]
mod tests {
    use transport::HostId;

    use super::*;
    use crate::plan::{Draft, Origin};
    use crate::topology;
    use crate::workload::{FlowSpec, Matrix};

    #[test]
    fn more_segments_than_can_be_counted_are_the_most_that_can() {
        let mut draft = Draft::default();
        draft.set("mtu", "64", Origin::Set).unwrap();
        let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
        for at in 0..300 {
            let size = Bytes(crate::workload::matrix::FLOW_BYTES_MAX);
            matrix.push_flow(FlowSpec::new(HostId(1 + at % 15), HostId(0), size));
        }
        let tree = topology::by_name("paper-testbed").unwrap();
        let forecast = Forecast::of(&Plan::new(&draft, matrix, &tree).unwrap());
        assert_eq!((forecast.hops, forecast.time), (u64::MAX, Duration::MAX));
    }

    /// The forecast of flows of 1 MiB between neighbours.
    fn forecast(network: &str, flows: u32, settings: &[(&str, &str)]) -> Forecast {
        let mut draft = Draft::default();
        settings.iter().for_each(|(key, value)| draft.set(key, value, Origin::Set).unwrap());
        let tree = topology::by_name(network).unwrap();
        let mut matrix = Matrix { nodes: flows * 2, ..Matrix::default() };
        for at in 0..flows {
            matrix.push_flow(FlowSpec::new(HostId(2 * at), HostId(2 * at + 1), Bytes(1 << 20)));
        }
        Forecast::of(&Plan::new(&draft, matrix, &tree).unwrap())
    }

    #[test]
    fn a_hop_costs_more_where_more_is_touched_and_a_time_limit_cuts_what_it_ends() {
        let hop = |cost: &Forecast| cost.time.as_us_f64() / cost.hops as f64;
        let (few, many) = (forecast("ft1024-1os", 2, &[]), forecast("ft1024-1os", 512, &[]));
        let ratio = hop(&many) / hop(&few);
        assert!((2.0..2.6).contains(&ratio), "{ratio}");
        // A flow of 1 MiB takes some 13 us alone.
        let cut = forecast("ft1024-1os", 2, &[("run.limit", "6us")]);
        assert!(few.hops > 2 * cut.hops && few.hops < 3 * cut.hops, "{} {}", few.hops, cut.hops);
        assert_eq!(forecast("ft1024-1os", 2, &[("run.limit", "1ms")]), few);
    }

    #[test]
    fn a_flow_that_is_computed_costs_more_the_more_flows_are_open() {
        let mut draft = Draft::default();
        draft.set_transport("ideal", Origin::Set).unwrap();
        let tree = topology::by_name("paper-testbed").unwrap();
        let time_of = |apart: Duration| {
            let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
            for at in 0..300 {
                let spec = FlowSpec::new(HostId(at % 15), HostId(15), Bytes(1000));
                matrix.push_flow(FlowSpec { start: Start::At(apart * u64::from(at)), ..spec });
            }
            Forecast::of(&Plan::new(&draft, matrix, &tree).unwrap()).time
        };
        assert_eq!(time_of(Duration::ZERO), Duration::from_ns(300 * (40_000 + 300 * 15)));
        assert_eq!(time_of(Duration::from_ms(1)), Duration::from_ns(300 * (40_000 + 15)));
    }
}
