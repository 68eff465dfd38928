//! Traffic: matrices read from `.cm` files and generators that make them.
//!
//! A generator is one file and one line in the registry below. It is built from [`Params`], then
//! makes a [`Matrix`] for a number of hosts. Nothing here runs a flow; see [`Triggers`] for what
//! starts when.

pub mod all_to_all;
pub mod all_to_all_v;
pub mod allreduce;
pub mod cdf;
pub mod check;
pub mod cm;
pub mod cm_write;
pub mod distributions;
pub mod incast;
pub mod incast_mice;
pub mod incast_two_dc;
mod lines;
pub mod matrix;
pub mod pairs_two_dc;
pub mod params;
pub mod permutation;
pub mod poisson;
pub mod poisson_two_dc;
pub mod ring;
pub mod triggers;
mod two_dc;

use std::fmt::Debug;

use transport::Rng;

pub use cdf::Cdf;
pub use matrix::{FlowIndex, FlowSpec, Matrix};
pub use params::{Parameter, Params};
pub use triggers::Triggers;

use crate::input::{InputError, did_you_mean};

/// A recipe for a matrix.
pub trait Workload: Debug {
    /// The matrix for `nodes` hosts. The same generator, number and `rng` give the same matrix.
    ///
    /// # Errors
    /// When the recipe does not fit that many hosts, or makes more flows than a matrix holds.
    fn generate(&self, nodes: u32, rng: &mut Rng) -> Result<Matrix, InputError>;
}

/// A generator's name, what it is, what it takes, and how it is built.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// The name in scenarios and on the command line.
    pub name: &'static str,
    /// One line for lists.
    pub about: &'static str,
    /// The parameters of the generator.
    pub parameters: &'static [Parameter],
    build: fn(&Params) -> Result<Box<dyn Workload>, InputError>,
}

/// Registers generators: type => name, description.
macro_rules! generators {
    ($($type:path => $name:literal, $about:literal;)*) => {
        /// The names of all generators.
        pub const NAMES: &[&str] = &[$($name),*];
        /// All generators, in the order of [`NAMES`].
        pub const GENERATORS: &[Generator] = &[$(Generator {
            name: $name,
            about: $about,
            parameters: <$type>::PARAMETERS,
            build: |params| {
                params.expect_only(<$type>::PARAMETERS)?;
                Ok(Box::new(<$type>::from_params(params)?))
            },
        }),*];
    };
}

generators! {
    incast::Incast => "incast", "many senders, one receiver";
    incast_mice::IncastMice => "incast-mice", "an incast, and short flows to the same receiver";
    permutation::Permutation => "permutation", "every host sends to one and receives from one";
    all_to_all::AllToAll => "all-to-all", "every host to every other, a window of flows at a time";
    all_to_all_v::AllToAllV => "all-to-all-v", "all-to-all with a size drawn for each pair";
    ring::Ring => "ring", "all-to-all in steps: step i sends to the i-th neighbour";
    poisson::Poisson => "poisson", "flows of drawn sizes at random times, up to a load";
    poisson_two_dc::PoissonTwoDc => "poisson-two-dc", "the same inside and between two datacentres";
    allreduce::Allreduce => "allreduce", "training across two datacentres: compute, sum, repeat";
    incast_two_dc::IncastTwoDc => "incast-two-dc", "an incast from the own and another datacentre";
    pairs_two_dc::PairsTwoDc => "pairs-two-dc", "flows across, each with its own two hosts";
}

/// Builds the generator of that name.
///
/// # Errors
/// When there is none of that name, or its parameters are wrong.
pub fn by_name(name: &str, params: &Params) -> Result<Box<dyn Workload>, InputError> {
    match GENERATORS.iter().find(|generator| generator.name == name) {
        Some(generator) => (generator.build)(params),
        None => Err(params
            .error("kind", &format!("workload `{name}`"), "a known workload")
            .help(did_you_mean(name, NAMES))),
    }
}

/// More flows than a matrix holds, or fewer hosts than a recipe needs.
pub(crate) fn does_not_fit(found: String, expected: &str) -> InputError {
    InputError::new(found, expected).at("workload", 0, 0)
}

#[cfg(test)]
mod tests {
    use transport::Rng;

    use super::*;
    use crate::workload::cm::StartUnit;

    #[test]
    fn every_generator_makes_sound_matrices_that_survive_a_file() {
        for name in NAMES {
            for nodes in [2, 3, 7, 16] {
                let workload = by_name(name, &Params::default()).unwrap();
                let matrix = match workload.generate(nodes, &mut Rng::new(1)) {
                    Ok(matrix) => matrix,
                    // The default incast wants more senders than two hosts have.
                    Err(error) => panic!("{name} {nodes}: {error}"),
                };
                assert_eq!(check::check(&matrix), Ok(()), "{name} {nodes}");
                assert_eq!(matrix.nodes, nodes);
                assert!(!matrix.flows.is_empty());
                let text = cm_write::to_text(&matrix);
                let read = cm::read(text.as_bytes(), name, StartUnit::Us).unwrap();
                assert_eq!(read.matrix, matrix, "{name} {nodes}");
            }
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_matrix_and_another_seed_another() {
        let drawn = ["permutation", "all-to-all", "all-to-all-v", "poisson", "poisson-two-dc"];
        for name in drawn {
            let workload = by_name(name, &Params::default()).unwrap();
            let make = |seed| workload.generate(16, &mut Rng::new(seed)).unwrap();
            assert_eq!(make(1), make(1));
            assert_ne!(make(1), make(2), "{name}");
        }
    }

    #[test]
    fn a_misspelt_generator_suggests_the_nearest() {
        let error = by_name("incats", &Params::default()).unwrap_err();
        assert!(error.help.contains("did you mean `incast`"), "{error}");
    }
}
