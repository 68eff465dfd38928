//! A generator that `tests/adding.rs` adds: every other host sends to one. It shows all that a
//! generator's file has to state.

use transport::{Bytes, HostId, Rng};

use super::Workload;
use super::matrix::{FlowSpec, Matrix};
use super::params::{Parameter, Params};
use crate::input::InputError;

/// Everything to host 0.
#[derive(Clone, Copy, Debug)]
pub struct Gather {
    size: Bytes,
}

impl Gather {
    /// The sentence that `headrace list` prints beside the name.
    pub const ABOUT: &'static str = "all hosts send to the first, added by a test";
    /// The parameters that [`Gather::from_params`] reads.
    pub const PARAMETERS: &'static [Parameter] =
        &[Parameter { name: "size", about: "bytes of each flow (1MiB)" }];

    /// Reads the parameters.
    ///
    /// # Errors
    /// When a value is wrong.
    pub fn from_params(params: &Params) -> Result<Self, InputError> {
        Ok(Self { size: params.bytes("size", Bytes(1 << 20))? })
    }
}

impl Workload for Gather {
    fn generate(&self, nodes: u32, _rng: &mut Rng) -> Result<Matrix, InputError> {
        let mut matrix = Matrix { nodes, ..Matrix::default() };
        for src in 1..nodes {
            matrix.push_flow(FlowSpec::new(HostId(src), HostId(0), self.size));
        }
        Ok(matrix)
    }
}
