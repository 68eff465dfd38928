//! Traffic: matrices read from `.cm` files and generators that make them.
//!
//! A generator is one file and one line of `generators!` below. It is built from [`Params`], then
//! makes a [`Matrix`] for a number of hosts. Nothing here runs a flow; see [`Triggers`] for what
//! starts when.

pub mod cdf;
pub mod check;
pub mod cm;
pub mod cm_write;
pub mod distributions;
mod lines;
pub mod matrix;
pub mod params;
pub mod stream;
pub mod triggers;
mod two_dc;

use std::fmt::Debug;

use transport::{Rate, Rng};

pub use cdf::Cdf;
pub use matrix::{FlowIndex, FlowSpec, Matrix};
pub use params::{Parameter, Params};
pub use stream::Streamed;
pub use triggers::Triggers;

use crate::input::{InputError, did_you_mean};

/// A recipe for a matrix.
pub trait Workload: Debug {
    /// Checks that `network` has the capacities that loads of `nodes` hosts are shares of.
    ///
    /// # Errors
    /// When the network has less.
    fn check(&self, _nodes: u32, _network: &Capacities) -> Result<(), InputError> {
        Ok(())
    }

    /// The matrix for `nodes` hosts. One generator, number and `rng` always give one matrix.
    ///
    /// # Errors
    /// When the recipe does not fit that many hosts, or makes more flows than a matrix holds.
    fn generate(&self, nodes: u32, rng: &mut Rng) -> Result<Matrix, InputError>;

    /// The recipe of a matrix that is made part by part, where it can be.
    fn streamed(&self) -> Option<&dyn Streamed> {
        None
    }
}

/// The rates of a network that bound what its hosts can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacities {
    /// The number of hosts.
    pub nodes: u32,
    /// The rate of a host's link.
    pub host: Rate,
    /// The number of the links between two sites, and the rate of each; `None` with one site.
    pub across: Option<(u32, Rate)>,
}

/// A generator: its name, its sentence, its parameters, and its constructor.
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

/// Registers generators. A line declares the module of the generator's file and takes `ABOUT`,
/// `PARAMETERS` and `from_params` from the type there.
///
/// `registry!` does not fit. It makes one enum, stored inline, with one set of numbers as settings
/// for a run. Generators have parameters for each use of them, some of them texts, and are boxed
/// once a run.
macro_rules! generators {
    ($($name:literal => $module:ident::$type:ident,)*) => {
        $(pub mod $module;)*

        /// The names of all generators.
        pub const NAMES: &[&str] = &[$($name),*];
        /// All generators, in the order of [`NAMES`].
        pub const GENERATORS: &[Generator] = &[$(Generator {
            name: $name,
            about: $module::$type::ABOUT,
            parameters: $module::$type::PARAMETERS,
            build: |params| {
                params.expect_only($module::$type::PARAMETERS)?;
                Ok(Box::new($module::$type::from_params(params)?))
            },
        }),*];
    };
}

generators! {
    "incast" => incast::Incast,
    "incast-mice" => incast_mice::IncastMice,
    "permutation" => permutation::Permutation,
    "all-to-all" => all_to_all::AllToAll,
    "all-to-all-v" => all_to_all_v::AllToAllV,
    "collectives" => collectives::Collectives,
    "ring" => ring::Ring,
    "poisson" => poisson::Poisson,
    "poisson-two-dc" => poisson_two_dc::PoissonTwoDc,
    "allreduce" => allreduce::Allreduce,
    "incast-two-dc" => incast_two_dc::IncastTwoDc,
    "pairs-two-dc" => pairs_two_dc::PairsTwoDc,
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
                    // The default incast needs more senders than two hosts have.
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
        for name in NAMES {
            let workload = by_name(name, &Params::default()).unwrap();
            let make = |seed| workload.generate(16, &mut Rng::new(seed)).unwrap();
            assert_eq!(make(1), make(1), "{name}");
            assert!(!drawn.contains(name) || make(1) != make(2), "{name}");
        }
    }

    #[test]
    fn a_misspelt_generator_suggests_the_nearest() {
        let error = by_name("incats", &Params::default()).unwrap_err();
        assert!(error.help.contains("did you mean `incast`"), "{error}");
    }
}
