//! What the schedulers of pods and their hosts counted.

use std::collections::BTreeMap;

use fabric::pod::Shape;
use fabric::{AnyProgram, CoreCounters, Network, PodCounters, PodWaits};
use serde::Serialize;
use transport::sched::zeropod::PodCounts;
use transport::{DropReason, Duration, Instant};

/// Schedulers of pods, all together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SchedulerResult {
    /// Decisions made while hosts asked for something.
    pub epochs: u64,
    /// Grants, each of an epoch to a pair of hosts.
    pub grants: u64,
    /// Hosts that sent in an epoch that was decided, of all hosts.
    pub matched: f64,
    /// Packets that met others in switches without buffers: a bug.
    pub collisions: u64,
    /// Packets that met others, where clocks may be off by more than the guard.
    pub clock_collisions: u64,
    /// Cells that hosts sent in granted slots.
    pub cells: u64,
    /// Cells that were granted and not sent.
    pub unused: u64,
    /// Cells that hosts sent without a grant, to be sent again as granted.
    pub optimistic_sent: u64,
    /// Cells that hosts sent without a grant and that arrived.
    pub optimistic_delivered: u64,
    /// The cells without a grant beside the paper's equations. The field is not there where hosts
    /// sent none, or where there are several pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unscheduled: Option<UnscheduledResult>,
    /// Requests that hosts sent.
    pub requests: u64,
    /// Requests among those that repeated a total, because no answer had come.
    pub repeated: u64,
    /// Answers that came after the beginning of their epoch.
    pub late: u64,
    /// Requests and answers that made no sense.
    pub refused: u64,
    /// Requests and answers that made no sense, by reason; only reasons that occurred.
    pub refusals: BTreeMap<&'static str, u64>,
    /// Most cells that waited in a port of a Core at once; 0 without Cores.
    pub core_cells_max: u32,
    /// Most bytes that waited in one Core at once.
    pub core_bytes_max: u64,
    /// Times that a port of a Core asked for no more cells.
    pub core_pauses: u64,
    /// The longest time for which a host or a port of a Core was without a scheduler, microseconds.
    /// A working scheduler answers some requests in a known time: each request where the pod has a
    /// backup, else one that repeats a total. The time begins when such an answer is due, but not
    /// before the last granted epoch is over. It ends when an answer comes. Where that one is of
    /// another term, it ends with the first epoch that the term may grant. A time that lasts when
    /// the run ends counts, without a backup until flows are given up. A demand that waits for
    /// others makes no outage.
    pub outage_us: f64,
    /// Times that a link was accused of losing cells, and then avoided.
    pub accused: u64,
    /// The highest term.
    pub term: u32,
    /// The most by which a request was early or late, once the clock of its host had settled,
    /// nanoseconds; 0 where clocks are exact.
    pub clock_error_ns: f64,
    /// Epochs after which the clocks of all hosts had settled; 0 where clocks are exact.
    pub clock_epochs: u64,
    /// The scheduler that was silent for so long that flows were given up; of several, the one
    /// whose silence began first. The field is not there where no flow was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent: Option<SilentScheduler>,
}

/// How many cells without a grant arrived, and how many the equations say for a pod without any
/// other cells. Loads and goodputs are in cells of a host in the time of one cell, over the time in
/// which hosts sent such cells.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct UnscheduledResult {
    /// The load, G.
    pub load: f64,
    /// The share of these cells that arrived, P.
    pub share: f64,
    /// P by equation 6, at this load.
    pub share_eq6: f64,
    /// The goodput, S.
    pub goodput: f64,
    /// S by equation 7, at this load.
    pub goodput_eq7: f64,
}

impl UnscheduledResult {
    /// The result of a run; `None` where there are several pods, or no such cells.
    fn of(network: &Network, hosts: &PodCounts) -> Option<Self> {
        let mut schedulers = network.programs().filter_map(|program| match program {
            AnyProgram::PodScheduler(pod) => pod.dimensions(),
            _ => None,
        });
        let (shape, cell) = schedulers.next().filter(|(shape, _)| shape.pods() <= 1)?;
        Self::in_pod(&shape, cell, hosts)
    }

    /// The result of a pod whose links send a cell in `cell`, with the counts of all its hosts.
    #[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
    fn in_pod(shape: &Shape, cell: Duration, hosts: &PodCounts) -> Option<Self> {
        let (first, last) = hosts.optimistic_span?;
        let cells = |count: u64| {
            let of_host = count as f64 / shape.hosts() as f64;
            of_host * cell.as_us_f64() / (last.since(first) + cell).as_us_f64()
        };
        let (load, goodput) = (cells(hosts.optimistic_sent), cells(hosts.optimistic_delivered));
        let share = share_eq6(load, shape.per_tor() as f64);
        Some(Self {
            load,
            share: goodput / load,
            share_eq6: share,
            goodput,
            goodput_eq7: load * share,
        })
    }
}

/// The share of unscheduled cells that arrive in a pod with `m` hosts a ToR, at load `load`.
//= zeropod#eq6
fn share_eq6(load: f64, m: f64) -> f64 {
    libm::exp(2.0 * load * (2.0 / m - 3.0))
}

/// A scheduler that answered no more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SilentScheduler {
    /// The number of its pod.
    pub pod: u32,
    /// When it was asked first since its last answer, microseconds.
    pub since_us: f64,
    /// Flows that were given up for such silence, in all pods.
    pub given_up: u64,
}

impl SchedulerResult {
    /// The result of a run with the counts of its hosts; `None` where no pod has a scheduler.
    #[must_use]
    pub fn of(network: &Network, hosts: &PodCounts) -> Option<Self> {
        let pods = pods(network)?;
        #[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
        let matched = pods.grants as f64 / (pods.chances.max(1) as f64);
        let (cores, ports) = cores(network);
        let mut refusals = BTreeMap::new();
        let of_ends = hosts.refusals().chain(ports.refusals());
        for (reason, count) in pods.refusals().chain(of_ends) {
            if count > 0 {
                *refusals.entry(reason).or_default() += count;
            }
        }
        Some(Self {
            epochs: pods.epochs,
            grants: pods.grants,
            matched,
            collisions: network.audit().dropped.of(DropReason::Collision),
            clock_collisions: network.audit().dropped.of(DropReason::ClockCollision),
            cells: hosts.cells,
            unused: hosts.unused + ports.unused,
            optimistic_sent: hosts.optimistic_sent,
            optimistic_delivered: hosts.optimistic_delivered,
            unscheduled: UnscheduledResult::of(network, hosts),
            requests: hosts.requests + ports.requests,
            repeated: hosts.repeated + ports.repeated,
            late: hosts.late + ports.late,
            refused: refusals.values().sum(),
            refusals,
            core_cells_max: cores.cells_max,
            core_bytes_max: cores.bytes_max,
            core_pauses: cores.pauses,
            outage_us: hosts.outage.max(ports.outage).as_us_f64(),
            accused: pods.accused,
            term: pods.term,
            clock_error_ns: pods.clock_error.as_us_f64() * 1000.0,
            clock_epochs: hosts.settled_in,
            silent: hosts.silent_since.map(|(since, pod)| SilentScheduler {
                pod,
                since_us: since.since(Instant::ZERO).as_us_f64(),
                given_up: hosts.given_up,
            }),
        })
    }
}

/// The counts of Cores, as such and as ends of their pods.
fn cores(network: &Network) -> (CoreCounters, PodCounts) {
    let (mut cores, mut ports) = (CoreCounters::default(), PodCounts::default());
    for program in network.programs() {
        if let AnyProgram::PodCore(core) = program {
            cores = cores.with(&core.counters());
            ports.add(&core.pod_counts());
        }
    }
    (cores, ports)
}

/// Keeps from now on what the schedulers of pods do about demands, for [`take_waits`].
pub(crate) fn keep_waits(network: &mut Network) {
    for program in network.programs_mut() {
        if let AnyProgram::PodScheduler(pod) = program {
            pod.keep_waits();
        }
    }
}

/// What the schedulers of pods did about demands; nothing is in there unless it is kept.
pub(crate) fn take_waits(network: &mut Network) -> Vec<PodWaits> {
    let pods = network.programs_mut().filter_map(|program| match program {
        AnyProgram::PodScheduler(pod) => pod.take_waits(),
        _ => None,
    });
    pods.collect()
}

/// The counts of the schedulers of pods; `None` without any.
#[must_use]
pub fn pods(network: &Network) -> Option<PodCounters> {
    let pods = network.programs().filter_map(|program| match program {
        AnyProgram::PodScheduler(pod) => Some(pod.counters()),
        _ => None,
    });
    pods.reduce(|all, pod| all.with(&pod))
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss, reason = "small numbers")]
mod tests {
    use super::*;

    /// The reference's table for 16 hosts a ToR, and the maximum of eq. 7.
    //= zeropod#eq7
    #[test]
    fn equations_6_and_7_have_the_values_of_the_reference() {
        for (load, share) in [(0.01, 0.944), (0.05, 0.750), (0.10, 0.563), (0.30, 0.178)] {
            assert!((share_eq6(load, 16.0) - share).abs() < 6e-4, "{load}");
        }
        let goodput = |load: f64| load * share_eq6(load, 16.0);
        let at = 1.0 / (6.0 - 4.0 / 16.0);
        let most = at / std::f64::consts::E;
        assert!((goodput(at) - most).abs() < 1e-12);
        assert!(goodput(at * 0.99) < most && goodput(at * 1.01) < most);
    }

    /// P as equations 2 to 5 have it: two factors, for cells from hosts of the same ToR and for
    /// cells from the other hosts, each with the chance that such a cell takes another path.
    //= zeropod#eq2
    fn share_by_parts(load: f64, m: f64) -> f64 {
        let (one, others) = (1.0 / m, (m - 1.0) / m);
        let (from_own, from_others) = (m * load, m * (m - 1.0) * load);
        let own_apart = others * (others + one * others);
        let others_apart = one * others + others * (others + one * others);
        let factor = |rate: f64, apart: f64| (2.0 * rate * (apart - 1.0)).exp();
        factor(from_own, own_apart) * factor(from_others, others_apart)
    }

    /// Pods of several shapes and loads: each figure beside one that is computed another way.
    //= zeropod#eq6 zeropod#eq7
    #[test]
    fn loads_shares_and_goodputs_are_those_of_counts_and_of_the_parts_of_the_equations() {
        let cell = Duration::from_ps(44_160);
        for m in [2, 4, 8, 16, 32_usize] {
            let shape = Shape::new(m * m, m, m).unwrap();
            for (sent, arrived, slots) in [(900, 700, 1000), (40, 40, 25), (5000, 1, 77), (1, 0, 1)]
            {
                // The first cell leaves in the first slot, and the last one in the last slot.
                let first = Instant::ZERO + Duration::from_us(30);
                let mut counts = PodCounts::default();
                (counts.optimistic_sent, counts.optimistic_delivered) = (sent, arrived);
                counts.optimistic_span = Some((first, first + cell * (slots - 1)));
                let result = UnscheduledResult::in_pod(&shape, cell, &counts).unwrap();
                // Slots of all hosts, and those that had a cell.
                let all = (m * m) as f64 * slots as f64;
                let load = sent as f64 / all;
                let by_parts = share_by_parts(load, m as f64);
                let expected = [
                    (result.load, load),
                    (result.share, arrived as f64 / sent as f64),
                    (result.goodput, arrived as f64 / all),
                    (result.share_eq6, by_parts),
                    (result.goodput_eq7, sent as f64 / all * by_parts),
                ];
                for (place, (is, should_be)) in expected.into_iter().enumerate() {
                    let off = (is - should_be).abs();
                    assert!(off < 1e-9, "{place} of {m} and {counts:?}: {is}, not {should_be}");
                }
            }
        }
        let none =
            UnscheduledResult::in_pod(&Shape::square(16).unwrap(), cell, &PodCounts::default());
        assert_eq!(none, None);
    }
}
