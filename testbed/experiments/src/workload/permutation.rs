//! Permutation: every host sends one flow and receives one, never its own.
//!
//! Either a random derangement, or the full-bisection variant in which host s sends to s + N/2, so
//! that every flow crosses the core. Lines come in random order; all start at time zero.

use transport::{Bytes, HostId, Rng};

use super::matrix::{FlowSpec, Matrix};
use super::params::{Parameter, Params, first_size};
use super::{Workload, does_not_fit};
use crate::input::InputError;

/// The parameters of a permutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permutation {
    /// Bytes of each flow, at least 1.
    pub size: Bytes,
    /// Host s sends to s + N/2 instead of a random other.
    pub full_bisection: bool,
    /// Bytes of the first flow, when it differs.
    pub first_size: Option<Bytes>,
}

impl Permutation {
    /// The sentence that `headrace list` prints beside the name.
    pub const ABOUT: &'static str = "every host sends to one and receives from one";
    /// The parameters that [`Permutation::from_params`] reads.
    pub const PARAMETERS: &'static [Parameter] = &[
        Parameter { name: "size", about: "bytes of each flow (2MiB)" },
        Parameter { name: "full_bisection", about: "host s sends to s + N/2 (false)" },
        Parameter { name: "first_size", about: "bytes of the first flow (size)" },
    ];

    /// Reads the parameters.
    ///
    /// # Errors
    /// When a value is wrong.
    pub fn from_params(params: &Params) -> Result<Self, InputError> {
        Ok(Self {
            size: params.bytes("size", Bytes(2 << 20))?,
            full_bisection: params.boolean("full_bisection", false)?,
            first_size: first_size(params)?,
        })
    }
}

impl Workload for Permutation {
    fn generate(&self, nodes: u32, rng: &mut Rng) -> Result<Matrix, InputError> {
        if nodes < 2 {
            return Err(does_not_fit(format!("{nodes} hosts"), "at least two"));
        }
        let mut sources: Vec<u32> = (0..nodes).collect();
        shuffle(&mut sources, rng);
        let targets = if self.full_bisection {
            (0..nodes).map(|host| (host + nodes / 2) % nodes).collect()
        } else {
            derangement(nodes, rng)
        };
        let mut matrix = Matrix { nodes, ..Matrix::default() };
        for (at, src) in sources.into_iter().enumerate() {
            let dst = targets[src as usize];
            let size = self.first_size.filter(|_| at == 0).unwrap_or(self.size);
            matrix.push_flow(FlowSpec::new(HostId(src), HostId(dst), size));
        }
        Ok(matrix)
    }
}

/// Fisher-Yates.
pub(super) fn shuffle(items: &mut [u32], rng: &mut Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(last + 1, rng));
    }
}

/// A uniform index in `0..len`.
fn below(len: usize, rng: &mut Rng) -> usize {
    usize::try_from(rng.below(len as u64)).unwrap_or(0)
}

/// A uniform permutation of `0..nodes` without a fixed point: shuffles until it has none, e tries
/// on average; after [`TRIES_MAX`] a single random cycle (Sattolo 1986), which cannot have one.
fn derangement(nodes: u32, rng: &mut Rng) -> Vec<u32> {
    let mut targets: Vec<u32> = (0..nodes).collect();
    for _ in 0..TRIES_MAX {
        shuffle(&mut targets, rng);
        if targets.iter().zip(0..).all(|(&target, host)| target != host) {
            return targets;
        }
    }
    targets = (0..nodes).collect();
    for last in (1..targets.len()).rev() {
        targets.swap(last, below(last, rng));
    }
    targets
}

/// All tries fail with probability (1 - 1/e)^64, below 2^-42.
const TRIES_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_sends_once_and_receives_once_from_another() {
        for nodes in [2, 3, 16, 1024] {
            for full_bisection in [false, true] {
                let permutation = Permutation { size: Bytes(9), full_bisection, first_size: None };
                let matrix = permutation.generate(nodes, &mut Rng::new(7)).unwrap();
                let mut received = vec![0; nodes as usize];
                let mut sent = received.clone();
                for flow in &matrix.flows {
                    sent[flow.src.0 as usize] += 1;
                    received[flow.dst.0 as usize] += 1;
                    assert_ne!(flow.src, flow.dst);
                }
                assert!(sent.iter().chain(&received).all(|&count| count == 1));
            }
        }
    }

    #[test]
    fn full_bisection_sends_half_the_network_away() {
        let first_size = Some(Bytes(18));
        let permutation = Permutation { size: Bytes(9), full_bisection: true, first_size };
        let matrix = permutation.generate(1024, &mut Rng::new(1)).unwrap();
        assert!(matrix.flows.iter().all(|flow| flow.dst.0 == (flow.src.0 + 512) % 1024));
        assert_eq!((matrix.flows[0].size, matrix.flows[1].size), (Bytes(18), Bytes(9)));
        assert!(matrix.flows.iter().zip(0..).any(|(flow, at)| flow.src.0 != at));
    }
}
