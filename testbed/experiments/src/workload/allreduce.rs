//! Training across two datacentres: groups of hosts sum their gradients (Allreduce), compute, and
//! begin again.
//!
//! Source: \[uno\] sec. 5.1: data parallelism, a replica in each datacentre, a burst across in
//! every iteration, as many sends as there are groups. Where the paper leaves points open, this is
//! the usual hierarchy:
//!
//! ```text
//!   inside:  reduce-scatter, a ring of the group's m hosts of a datacentre    m - 1 steps of V/m
//!   across:  each host and its counterpart sum their share and exchange it        2 steps of V/2m
//!   inside:  all-gather, the same ring                                        m - 1 steps of V/m
//! ```
//!
//! A host begins a step when it has received all of the step before. It begins an iteration when it
//! has received all of the last one and has computed. Each step has a trigger of its own, so hosts
//! drift apart as they do in practice. A group has V bytes, such that all groups send `size` bytes
//! each way in an iteration.

use transport::{Bytes, Duration, HostId, Rng};

use super::matrix::{FLOWS_MAX, FlowSpec, Matrix, Start, TriggerIndex, TriggerKind};
use super::params::{Parameter, Params};
use super::two_dc::{Division, TwoDc};
use super::{Workload, does_not_fit};
use crate::input::InputError;

/// The parameters of training across datacentres.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allreduce {
    /// Bytes that an iteration sends from each datacentre to the other.
    pub size: Bytes,
    /// Groups that sum by themselves; eight, or as many as there is room for, when `None`.
    pub groups: Option<u32>,
    /// Hosts of a group in each datacentre, at least 1.
    pub ranks: u32,
    /// Number of iterations.
    pub iterations: u32,
    /// Time from the end of one iteration to the beginning of the next, at each host.
    pub compute: Duration,
    /// The division of hosts between the datacentres.
    pub division: Division,
}

impl Allreduce {
    /// The sentence that `headrace list` prints beside the name.
    pub const ABOUT: &'static str = "training across two datacentres: compute, sum, repeat";
    /// The parameters that [`Allreduce::from_params`] reads.
    pub const PARAMETERS: &'static [Parameter] = &[
        Parameter { name: "size", about: "bytes each way across in an iteration (70MiB)" },
        Parameter { name: "groups", about: "groups that sum by themselves (up to 8)" },
        Parameter { name: "ranks", about: "hosts of a group in each datacentre (1)" },
        Parameter { name: "iterations", about: "number of iterations (10)" },
        Parameter { name: "compute", about: "time between iterations at each host (1ms)" },
        Division::DC0_HOSTS,
    ];

    /// Reads the parameters.
    ///
    /// # Errors
    /// When a value is wrong.
    pub fn from_params(params: &Params) -> Result<Self, InputError> {
        let groups = params.integer("groups", 1, 1, u32::MAX)?;
        Ok(Self {
            //= uno#5.1
            size: params.bytes("size", Bytes(70 << 20))?,
            groups: Some(groups).filter(|_| params.has("groups")),
            ranks: params.integer("ranks", 1, 1, u32::MAX)?,
            iterations: params.integer("iterations", 10, 1, u32::MAX)?,
            compute: params.duration("compute", Duration::from_ms(1))?,
            division: Division::from_params(params)?,
        })
    }

    /// The number of groups, when there is room for them and their flows.
    fn groups_in(&self, hosts: TwoDc) -> Result<u32, InputError> {
        let room = [0, 1].map(|dc| hosts.hosts(dc)).map(|range| range.end - range.start);
        let room = room[0].min(room[1]) / self.ranks;
        let groups = self.groups.unwrap_or(room.min(GROUPS));
        if groups == 0 || groups > room {
            let found = format!("{groups} groups of {} hosts in each datacentre", self.ranks);
            return Err(does_not_fit(found, "no more hosts than each has"));
        }
        let flows = [2, u64::from(groups), u64::from(self.ranks), u64::from(self.iterations)]
            .iter()
            .try_fold(2 * u64::from(self.ranks), |n, &m| n.checked_mul(m));
        if flows.is_none_or(|flows| flows > u64::from(FLOWS_MAX)) {
            let found = format!("{} iterations of {groups} groups", self.iterations);
            return Err(does_not_fit(found, "at most 10^8 flows; fewer of any"));
        }
        Ok(groups)
    }
}

/// Groups of the training job of the paper's last figure.
const GROUPS: u32 = 8;

/// A step: the neighbour that each host receives from, and how much.
#[derive(Clone, Copy)]
struct Step {
    across: bool,
    size: Bytes,
}

impl Workload for Allreduce {
    fn generate(&self, nodes: u32, _rng: &mut Rng) -> Result<Matrix, InputError> {
        let hosts = self.division.divide(nodes)?;
        let groups = self.groups_in(hosts)?;
        let vector = self.size.0.div_ceil(u64::from(groups)).max(1);
        let share = vector.div_ceil(u64::from(self.ranks));
        let inside = Step { across: false, size: Bytes(share) };
        let across = Step { across: true, size: Bytes(share.div_ceil(2)) };
        let ring = (1..self.ranks).map(|_| inside);
        let steps: Vec<Step> = ring.clone().chain([across; 2]).chain(ring).collect();
        let mut matrix = Matrix { nodes, ..Matrix::default() };
        let members: Vec<[u32; 2]> = (0..groups * self.ranks)
            .map(|place| [0, 1].map(|dc| hosts.hosts(dc).start + place))
            .collect();
        // For each place and datacentre: the trigger that the host there waits for.
        let mut waits_for: Vec<[Option<TriggerIndex>; 2]> = vec![[None; 2]; members.len()];
        for iteration in 1..=self.iterations {
            for (at, step) in steps.iter().enumerate() {
                let ends = at + 1 == steps.len();
                let last = ends && iteration == self.iterations;
                let delay = if ends { self.compute } else { Duration::ZERO };
                waits_for = self.step(*step, last, delay, &members, &waits_for, &mut matrix);
            }
        }
        Ok(matrix)
    }
}

impl Allreduce {
    /// Appends the flows of one step; returns the triggers that the hosts of the next step wait
    /// for.
    fn step(
        &self,
        step: Step,
        last: bool,
        delay: Duration,
        members: &[[u32; 2]],
        waits_for: &[[Option<TriggerIndex>; 2]],
        matrix: &mut Matrix,
    ) -> Vec<[Option<TriggerIndex>; 2]> {
        let mut next = vec![[None; 2]; members.len()];
        for (place, hosts) in members.iter().enumerate() {
            for dc in 0..2 {
                let (to_place, to_dc) =
                    if step.across { (place, 1 - dc) } else { (self.successor(place), dc) };
                let dst = HostId(members[to_place][to_dc]);
                let mut flow = FlowSpec::new(HostId(hosts[dc]), dst, step.size);
                if let Some(trigger) = waits_for[place][dc] {
                    flow.start = Start::On(trigger);
                }
                if !last {
                    flow.recv_done = matrix.push_delayed_trigger(TriggerKind::Oneshot, delay);
                }
                next[to_place][to_dc] = flow.recv_done;
                matrix.push_flow(flow);
            }
        }
        next
    }

    /// The next in the ring of a group's hosts of one datacentre.
    fn successor(&self, place: usize) -> usize {
        let ranks = self.ranks as usize;
        let first = place - place % ranks;
        first + (place + 1 - first) % ranks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::triggers::Triggers;

    fn training(ranks: u32, iterations: u32) -> Allreduce {
        Allreduce {
            size: Bytes(8_000_000),
            groups: Some(2),
            ranks,
            iterations,
            compute: Duration::from_us(500),
            division: Division::default(),
        }
    }

    #[test]
    fn an_iteration_sends_the_burst_each_way_and_rings_stay_inside() {
        for ranks in [1, 2, 4] {
            let matrix = training(ranks, 3).generate(16, &mut Rng::new(1)).unwrap();
            let mut across = [0u64; 2];
            let mut inside = 0;
            for flow in &matrix.flows {
                let (src, dst) = (flow.src.0 / 8, flow.dst.0 / 8);
                if src == dst {
                    let group = |host: u32| host % 8 / ranks;
                    assert_eq!(group(flow.src.0), group(flow.dst.0));
                    inside += flow.size.0;
                } else {
                    assert_eq!(flow.src.0 % 8, flow.dst.0 % 8, "counterparts");
                    across[src as usize] += flow.size.0;
                }
            }
            assert_eq!(across, [3 * 8_000_000; 2], "{ranks}");
            // Twice (m - 1) / m of the vector a host, and m hosts in each of four rings.
            assert_eq!(inside, 3 * 4 * u64::from(ranks - 1) * 2 * 4_000_000, "{ranks}");
        }
    }

    #[test]
    fn each_host_has_one_flow_at_a_time_and_computes_between_iterations() {
        let matrix = training(2, 2).generate(16, &mut Rng::new(1)).unwrap();
        let mut triggers = Triggers::new(&matrix);
        let mut running = triggers.start().to_vec();
        let mut started = running.len();
        assert_eq!(running.len(), 8);
        let mut delays = 0;
        while let Some(flow) = running.pop() {
            let receiver = matrix.flows[flow.index()].dst;
            for &next in triggers.on_recv_done(flow) {
                assert_eq!(matrix.flows[next.index()].src, receiver);
                delays += u32::from(matrix.delay_of(next) == Duration::from_us(500));
                running.push(next);
                started += 1;
            }
        }
        assert_eq!((started, delays), (matrix.flows.len(), 8));
        assert!(!Triggers::couple_hosts(&matrix));
    }

    #[test]
    fn more_groups_than_hosts_and_endless_training_are_refused() {
        for (ranks, groups, iterations) in [(1, Some(9), 1), (9, None, 1), (1, None, u32::MAX)] {
            let training = Allreduce { groups, ..training(ranks, iterations) };
            assert!(training.generate(16, &mut Rng::new(1)).is_err());
        }
    }
}
