//! All-to-all with a size of its own for each pair, as in the exchange of unevenly split data
//! (MPI_Alltoallv, expert parallelism).
//!
//! Sizes are drawn uniformly between two bounds, or from a distribution in a file. Order and window
//! as in `all_to_all.rs`.

use transport::{Bytes, Rng};

use super::Workload;
use super::all_to_all::{COLL, collective, window, windowed};
use super::cdf::Cdf;
use super::matrix::Matrix;
use super::params::{Parameter, Params};
use super::stream::{Sink, Streamed};
use crate::input::InputError;

/// The parameters of an uneven all-to-all.
#[derive(Clone, Debug, PartialEq)]
pub struct AllToAllV {
    /// The source of each pair's size.
    pub sizes: Sizes,
    /// Flows that a host has active at a time; `None` for all at once.
    pub window: Option<u32>,
    /// The collective that all flows are of; 0 is none.
    pub collective: u32,
}

/// The source of sizes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Sizes uniform between these bounds, both included and in this order.
    Uniform(Bytes, Bytes),
    /// Sizes drawn from a distribution.
    Cdf(Cdf),
}

impl AllToAllV {
    /// The sentence that `headrace list` prints beside the name.
    pub const ABOUT: &'static str = "all-to-all with a size drawn for each pair";
    /// The parameters that [`AllToAllV::from_params`] reads.
    pub const PARAMETERS: &'static [Parameter] = &[
        Parameter { name: "size_min", about: "smallest size (4KiB)" },
        Parameter { name: "size_max", about: "largest size (1MiB)" },
        Parameter { name: "cdf", about: "a distribution's name or file, instead of the two" },
        Parameter { name: "window", about: "flows a host has active at a time; 0 for all (8)" },
        COLL,
    ];

    /// Reads the parameters.
    ///
    /// # Errors
    /// When a value is wrong or the file of the distribution is.
    pub fn from_params(params: &Params) -> Result<Self, InputError> {
        params.expect_alone("size_min", "cdf")?;
        params.expect_alone("size_max", "cdf")?;
        let min = params.bytes("size_min", Bytes(4 << 10))?;
        let max = params.bytes("size_max", Bytes(1 << 20).max(min))?;
        if max < min {
            let found = format!("size_max = {}", max.0);
            return Err(params.error("size_max", &found, &format!("at least size_min, {}", min.0)));
        }
        let sizes = match params.cdf("cdf")? {
            Some(cdf) => Sizes::Cdf(cdf),
            None => Sizes::Uniform(min, max),
        };
        Ok(Self { sizes, window: window(params)?, collective: collective(params)? })
    }
}

impl Sizes {
    fn draw(&self, rng: &mut Rng) -> Bytes {
        match self {
            Self::Uniform(min, max) => {
                let span = max.0.saturating_sub(min.0).saturating_add(1);
                Bytes(min.0.saturating_add(rng.below(span)))
            }
            Self::Cdf(cdf) => cdf.sample(rng),
        }
    }
}

impl Workload for AllToAllV {
    fn generate(&self, nodes: u32, rng: &mut Rng) -> Result<Matrix, InputError> {
        self.collect(nodes, rng)
    }

    fn streamed(&self) -> Option<&dyn Streamed> {
        Some(self)
    }
}

impl Streamed for AllToAllV {
    fn stream(&self, nodes: u32, rng: &mut Rng, sink: &mut dyn Sink) -> Result<(), InputError> {
        let how = (self.window, self.collective);
        windowed(nodes, how, rng, |rng| self.sizes.draw(rng), sink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fill_the_bounds_and_differ() {
        let sizes = Sizes::Uniform(Bytes(10), Bytes(13));
        let all = AllToAllV { sizes, window: None, collective: 0 };
        let matrix = all.generate(9, &mut Rng::new(1)).unwrap();
        let mut sizes: Vec<u64> = matrix.flows.iter().map(|flow| flow.size.0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        assert_eq!(sizes, [10, 11, 12, 13]);
        assert!(matrix.triggers.is_empty());
    }

    #[test]
    fn a_distribution_replaces_both_bounds() {
        for (bound, flag) in [("size-min", "--size-min"), ("size-max", "--size-max")] {
            let params = Params::from_pairs([(bound, "5"), ("cdf", "websearch")]);
            let said = AllToAllV::from_params(&params).unwrap_err().to_string();
            assert!(said.starts_with(flag) && said.contains("beside cdf"), "{said}");
        }
    }

    #[test]
    fn bounds_in_the_wrong_order_are_refused() {
        let params = Params::from_pairs([("size-min", "9"), ("size-max", "8")]);
        assert!(AllToAllV::from_params(&params).unwrap_err().expected.contains("size_min, 9"));
    }
}
