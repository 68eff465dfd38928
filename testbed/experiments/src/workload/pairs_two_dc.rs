//! Flows from one datacentre to the other, each with a sender and a receiver of its own.
//!
//! Source: \[uno\] sec. 5.2.4: the effects of losses and dead links between datacentres. Senders
//! and receivers are spread evenly, so that flows share hardly anything except the links between
//! the datacentres. All flows start at time zero.

use transport::{Bytes, HostId, Rng};

use super::matrix::{FlowSpec, Matrix};
use super::params::{Parameter, Params};
use super::two_dc::Division;
use super::{Workload, does_not_fit};
use crate::input::InputError;

/// The parameters of flows across.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairsTwoDc {
    /// How many; eight, or as many as there is room for, when `None`.
    pub count: Option<u32>,
    /// Bytes of each flow, at least 1.
    pub size: Bytes,
    /// The division of hosts between the datacentres.
    pub division: Division,
}

/// Number of the links between the paper's datacentres.
const COUNT: u32 = 8;

impl PairsTwoDc {
    /// The sentence that `headrace list` prints beside the name.
    pub const ABOUT: &'static str = "flows across, each with its own two hosts";
    /// The parameters that [`PairsTwoDc::from_params`] reads.
    pub const PARAMETERS: &'static [Parameter] = &[
        Parameter { name: "count", about: "flows (up to 8)" },
        Parameter { name: "size", about: "bytes of each flow (1MiB)" },
        Division::DC0_HOSTS,
    ];

    /// Reads the parameters.
    ///
    /// # Errors
    /// When a value is wrong.
    pub fn from_params(params: &Params) -> Result<Self, InputError> {
        let count = params.integer("count", 1, 1, u32::MAX)?;
        Ok(Self {
            count: Some(count).filter(|_| params.has("count")),
            size: params.bytes("size", Bytes(1 << 20))?,
            division: Division::from_params(params)?,
        })
    }
}

impl Workload for PairsTwoDc {
    fn generate(&self, nodes: u32, _rng: &mut Rng) -> Result<Matrix, InputError> {
        let hosts = self.division.divide(nodes)?;
        let [senders, receivers] = [0, 1].map(|dc| hosts.hosts(dc));
        let room = senders.len().min(receivers.len());
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let count = self.count.unwrap_or(room.min(COUNT));
        if count > room {
            let found = format!("{count} pairs of {nodes} hosts");
            return Err(does_not_fit(found, "no more than each datacentre has hosts"));
        }
        let stride = room / count;
        let mut matrix = Matrix { nodes, ..Matrix::default() };
        for place in (0..count).map(|pair| pair * stride) {
            // A third of the way to the next: another place in its pod than the sender has.
            let (src, dst) = (senders.start + place, receivers.start + place + stride / 3);
            matrix.push_flow(FlowSpec::new(HostId(src), HostId(dst), self.size));
        }
        Ok(matrix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)], nodes: u32) -> Result<Matrix, InputError> {
        let params = Params::from_pairs(pairs.iter().copied());
        PairsTwoDc::from_params(&params).unwrap().generate(nodes, &mut Rng::new(1))
    }

    #[test]
    fn every_flow_crosses_and_has_both_its_ends_for_itself() {
        for (count, nodes) in [("1", 256), ("8", 256), ("128", 256), ("3", 7)] {
            let matrix = pairs(&[("count", count)], nodes).unwrap();
            assert_eq!(matrix.flows.len(), count.parse::<usize>().unwrap());
            let dc0 = nodes / 2;
            assert!(matrix.flows.iter().all(|flow| flow.src.0 < dc0 && flow.dst.0 >= dc0));
            let mut ends: Vec<u32> =
                matrix.flows.iter().flat_map(|flow| [flow.src.0, flow.dst.0]).collect();
            ends.sort_unstable();
            ends.dedup();
            assert_eq!(ends.len(), 2 * matrix.flows.len());
        }
    }

    #[test]
    fn more_pairs_than_hosts_are_refused() {
        assert!(pairs(&[("count", "129")], 256).is_err());
        assert!(pairs(&[("count", "2"), ("dc0_hosts", "1")], 256).is_err());
    }
}
