//! All-to-all: every host sends to every other, with a window of flows active at a time.
//!
//! With window k, each host's destinations form batches of k. The first batch starts at time zero.
//! A flow of batch b + 1 starts when one of batch b is acknowledged, by a multishot trigger. So k
//! flows are active until the last batch. Destinations of a batch lie apart from each other, and
//! hosts stand in random order, so that the load spreads over receivers. This is the pattern of
//! uet-htsim's windowed all-to-all files.

use transport::{Bytes, HostId, Rng};

use super::matrix::{FLOWS_MAX, FlowSpec, Matrix, Start, TriggerIndex, TriggerKind};
use super::params::{Parameter, Params};
use super::permutation::shuffle;
use super::stream::{Sink, Streamed};
use super::{Workload, does_not_fit};
use crate::input::InputError;

/// The parameters of an all-to-all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllToAll {
    /// Bytes of each flow, at least 1.
    pub size: Bytes,
    /// Flows that a host has active at a time; `None` for all at once.
    pub window: Option<u32>,
    /// Only every n-th host takes part, n at least 1.
    pub every: u32,
    /// The collective that all flows are of; 0 is none.
    pub collective: u32,
}

/// The parameter that makes an all-to-all one collective.
pub(super) const COLL: Parameter =
    Parameter { name: "coll", about: "the collective that all flows are of; 0 for none (0)" };

impl AllToAll {
    /// The sentence that `headrace list` prints beside the name.
    pub const ABOUT: &'static str = "every host to every other, a window of flows at a time";
    /// The parameters that [`AllToAll::from_params`] reads.
    pub const PARAMETERS: &'static [Parameter] = &[
        Parameter { name: "size", about: "bytes of each flow (64KiB)" },
        Parameter { name: "window", about: "flows a host has active at a time; 0 for all (8)" },
        Parameter { name: "every", about: "only every n-th host takes part (1)" },
        COLL,
    ];

    /// Reads the parameters.
    ///
    /// # Errors
    /// When a value is wrong.
    pub fn from_params(params: &Params) -> Result<Self, InputError> {
        let every = params.integer("every", 1, 1, u32::MAX)?;
        let size = params.bytes("size", Bytes(65_536))?;
        Ok(Self { size, window: window(params)?, every, collective: collective(params)? })
    }
}

impl Workload for AllToAll {
    fn generate(&self, nodes: u32, rng: &mut Rng) -> Result<Matrix, InputError> {
        self.collect(nodes, rng)
    }

    fn streamed(&self) -> Option<&dyn Streamed> {
        Some(self)
    }
}

impl Streamed for AllToAll {
    fn stream(&self, nodes: u32, rng: &mut Rng, sink: &mut dyn Sink) -> Result<(), InputError> {
        let mut apart = Apart { every: self.every, sink };
        let hosts = nodes.div_ceil(self.every);
        windowed(hosts, (self.window, self.collective), rng, |_| self.size, &mut apart)
    }
}

/// Numbers hosts so that others lie between them.
struct Apart<'s> {
    every: u32,
    sink: &'s mut dyn Sink,
}

impl Sink for Apart<'_> {
    fn flow(&mut self, flow: FlowSpec) {
        let [src, dst] = [flow.src, flow.dst].map(|host| HostId(host.0 * self.every));
        self.sink.flow(FlowSpec { src, dst, ..flow });
    }

    fn trigger(&mut self, kind: TriggerKind) -> Option<TriggerIndex> {
        self.sink.trigger(kind)
    }
}

/// The parameter `window`, in which 0 stands for no limit.
pub(super) fn window(params: &Params) -> Result<Option<u32>, InputError> {
    params.integer("window", 8, 0, u32::MAX).map(|window| Some(window).filter(|&k| k > 0))
}

/// The parameter [`COLL`].
pub(super) fn collective(params: &Params) -> Result<u32, InputError> {
    params.integer(COLL.name, 0, 0, u32::MAX)
}

/// Gives `sink` a windowed all-to-all with a size for each pair, as flows of one collective.
pub(super) fn windowed(
    nodes: u32,
    (window, collective): (Option<u32>, u32),
    rng: &mut Rng,
    mut size: impl FnMut(&mut Rng) -> Bytes,
    sink: &mut dyn Sink,
) -> Result<(), InputError> {
    if nodes < 2 {
        return Err(does_not_fit(format!("{nodes} hosts"), "at least two"));
    }
    let others = nodes - 1;
    let pairs = u64::from(nodes) * u64::from(others);
    if pairs > u64::from(FLOWS_MAX) {
        return Err(does_not_fit(format!("{pairs} flows"), "at most 10^8 flows; fewer hosts"));
    }
    let window = window.unwrap_or(others).min(others);
    // Full batches; the rest makes a last, smaller one.
    let (batches, left) = (others / window, others % window);
    let mut order: Vec<u32> = (0..nodes).collect();
    shuffle(&mut order, rng);
    for place in 0..nodes {
        let src = HostId(order[place as usize]);
        let mut opened_by = None;
        for batch in 0..=batches {
            // Distances 1..=batches * window in strides of `batches`, then the rest.
            let distances: Vec<u32> = if batch < batches {
                (0..window).map(|lane| 1 + batch + lane * batches).collect()
            } else {
                (1 + batches * window..=others).collect()
            };
            if distances.is_empty() {
                break;
            }
            let has_next = batch + 1 < batches || (batch < batches && left > 0);
            let opens = if has_next { sink.trigger(TriggerKind::Multishot) } else { None };
            for distance in distances {
                let dst = HostId(order[((place + distance) % nodes) as usize]);
                let mut flow = FlowSpec::new(src, dst, size(rng));
                if let Some(trigger) = opened_by {
                    flow.start = Start::On(trigger);
                }
                (flow.send_done, flow.collective) = (opens, collective);
                sink.flow(flow);
            }
            opened_by = opens;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::by_name;
    use crate::workload::triggers::Triggers;

    #[test]
    fn the_papers_case_has_the_counts_of_the_reference_file() {
        let all = AllToAll { size: Bytes(65_536), window: Some(8), every: 1, collective: 0 };
        let matrix = all.generate(128, &mut Rng::new(1)).unwrap();
        assert_eq!((matrix.flows.len(), matrix.triggers.len()), (16_256, 1_920));
    }

    #[test]
    fn every_pair_appears_once() {
        for (nodes, window) in [(2, 1), (9, 8), (10, 3), (16, 4), (16, 100)] {
            let all = AllToAll { size: Bytes(1), window: Some(window), every: 1, collective: 0 };
            let matrix = all.generate(nodes, &mut Rng::new(2)).unwrap();
            let mut pairs: Vec<_> = matrix.flows.iter().map(|f| (f.src.0, f.dst.0)).collect();
            pairs.sort_unstable();
            pairs.dedup();
            let count = (nodes * (nodes - 1)) as usize;
            assert_eq!((pairs.len(), matrix.flows.len()), (count, count), "{nodes} {window}");
        }
    }

    #[test]
    fn all_flows_are_of_the_collective_that_is_named() {
        for coll in [0, 7] {
            let text = coll.to_string();
            let params = Params::from_pairs([("coll", text.as_str()), ("window", "2")]);
            for name in ["all-to-all", "all-to-all-v"] {
                let all = by_name(name, &params).unwrap();
                let matrix = all.generate(5, &mut Rng::new(2)).unwrap();
                assert_eq!(matrix.flows.len(), 20, "{name}");
                assert!(matrix.flows.iter().all(|flow| flow.collective == coll), "{name}");
            }
        }
    }

    #[test]
    fn of_so_many_hosts_in_a_row_the_first_takes_part() {
        for (nodes, every, hosts) in [(256, 16, 16), (10, 4, 3), (5, 1, 5)] {
            let all = AllToAll { size: Bytes(1), window: None, every, collective: 0 };
            let matrix = all.generate(nodes, &mut Rng::new(2)).unwrap();
            assert_eq!((matrix.nodes, matrix.flows.len()), (nodes, hosts * (hosts - 1)));
            let all = matrix.flows.iter().flat_map(|flow| [flow.src.0, flow.dst.0]);
            assert!(all.into_iter().all(|host| host < nodes && host % every == 0));
        }
        let one = AllToAll { size: Bytes(1), window: None, every: 8, collective: 0 };
        assert!(one.generate(8, &mut Rng::new(2)).is_err(), "a host alone");
    }

    #[test]
    fn no_host_has_more_than_its_window_active_and_all_flows_run() {
        let all = AllToAll { size: Bytes(1), window: Some(3), every: 1, collective: 0 };
        let matrix = all.generate(11, &mut Rng::new(3)).unwrap();
        let mut triggers = Triggers::new(&matrix);
        let mut active = vec![0u32; 11];
        let mut running = triggers.start().to_vec();
        let src = |flow: &crate::workload::FlowIndex| matrix.flows[flow.index()].src.0 as usize;
        running.iter().for_each(|flow| active[src(flow)] += 1);
        let mut done = 0;
        while let Some(flow) = running.pop() {
            done += 1;
            active[src(&flow)] -= 1;
            for next in triggers.on_send_done(flow) {
                active[src(next)] += 1;
                running.push(*next);
            }
            assert!(active.iter().all(|&count| count <= 3), "{active:?}");
        }
        assert_eq!((done, triggers.still_waiting()), (110, 0));
    }
}
