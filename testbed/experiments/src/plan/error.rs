//! Why a run does not begin, or does not end as it should.

use std::fmt;

use fabric::FaultError;
use transport::ConfigError;

use crate::input::InputError;
use crate::scenario::fault;
use crate::topology::{LinkSelector, SelectorError, SpecError};
use crate::workload::cm::MatrixLine;

/// Why a run cannot be started.
#[derive(Clone, Debug)]
pub enum RunError {
    /// A setting is out of range.
    Config(ConfigError),
    /// The numbers of the topology contradict each other.
    Tree(SpecError),
    /// A fault of the draft does not fit the run.
    OfFault(fault::FaultSpec, Box<InputError>),
    /// A fault makes no sense.
    Fault(FaultError),
    /// Something else that the user wrote.
    Input(InputError),
    /// A line of the matrix does not fit the run.
    Matrix(MatrixLine, Box<InputError>),
    /// A number of the topology does not fit the run: this key of this tier, or of the header where
    /// there is no tier. The error's place, where it has one, is `topology` or a setting that takes
    /// the number's place.
    Topology(Option<u8>, &'static str, Box<InputError>),
    /// The `vdev` world has a device for each host, and not that many devices.
    TooManyHosts {
        /// Hosts of the topology.
        hosts: u32,
        /// Hosts of the matrix.
        matrix: u32,
        /// Hosts it can have.
        most: u32,
        /// The kind of device.
        pmd: String,
    },
    /// The machine is not fit for the world, for this reason.
    Environment(String),
    /// The user ended it before anything ran.
    Interrupted,
    /// The hosts of a real network cannot run together.
    Disagree(String),
    /// Another host of a real network ended the run.
    Peer {
        /// The name of the host.
        host: String,
        /// The reason that it reported, or how the connection ended.
        reason: String,
        /// Whether flows had begun.
        running: bool,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Tree(error) => error.fmt(f),
            Self::OfFault(_, error) => error.fmt(f),
            Self::Fault(error) => error.fmt(f),
            Self::Input(error) => error.fmt(f),
            Self::Matrix(_, error) => error.fmt(f),
            Self::Topology(tier, key, error) if error.file.is_empty() => {
                let of = tier.map_or_else(String::new, |tier| format!(" of tier {tier}"));
                (**error).clone().at(&format!("{key}{of}"), 0, 0).fmt(f)
            }
            Self::Topology(_, _, error) => error.fmt(f),
            Self::TooManyHosts { hosts, matrix, most, pmd } => {
                let within = format!("2 to {most} over {pmd}, one device each");
                if matrix > most {
                    return write!(
                        f,
                        "the matrix has {matrix} hosts, but the vdev world runs {within}: run it \
                         with --world sim, or a matrix of fewer hosts"
                    );
                }
                write!(
                    f,
                    "the topology has {hosts} hosts, but the vdev world runs {within}: choose a \
                     smaller topology with --topo, or run it with --world sim"
                )
            }
            Self::Environment(reason) => write!(
                f,
                "{reason}; `headrace doctor` checks this machine, and --world sim needs nothing \
                 of it"
            ),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Disagree(what) => write!(f, "the hosts do not agree: {what}"),
            Self::Peer { host, reason, running } => {
                let when = if *running { "during the run" } else { "before the run" };
                write!(f, "host `{host}` failed {when}: {reason}")
            }
        }
    }
}

impl std::error::Error for RunError {}

impl RunError {
    /// A fault of the draft that does not fit the run.
    pub(super) fn of_fault(
        fault: &fault::FaultSpec,
        expected: impl Into<String>,
        help: &str,
    ) -> Self {
        Self::at_fault(fault, InputError::new(format!("`{fault}`"), expected).help(help))
    }

    /// A fault of the draft on links or a scheduler that this network does not have.
    pub(super) fn absent(fault: &fault::FaultSpec, error: SelectorError) -> Self {
        let help = match fault.links {
            LinkSelector::Scheduler { backup: true, .. } if error.count == 0 => {
                "schedulers have backups in a topology like zeropod-ha:K"
            }
            LinkSelector::Scheduler { .. } if error.count == 0 => {
                "pods have a scheduler in a topology like zeropod:K"
            }
            _ => "name one that is there, or leave the fault out",
        };
        let found = format!("`{fault}`: {error}");
        let expected = "links of this network, or a scheduler";
        Self::at_fault(fault, InputError::new(found, expected).help(help))
    }

    /// An error about a line of the matrix.
    pub(super) fn at_line(line: MatrixLine, error: InputError) -> Self {
        Self::Matrix(line, Box::new(error.at(&line.to_string(), 0, 0)))
    }

    /// An error about a number of the topology.
    pub(super) fn at_topology(tier: Option<u8>, key: &'static str, error: InputError) -> Self {
        Self::Topology(tier, key, Box::new(error.at("topology", 0, 0)))
    }

    /// An error about a fault of the draft.
    pub(super) fn at_fault(fault: &fault::FaultSpec, error: InputError) -> Self {
        Self::OfFault(*fault, Box::new(error.at("fault", 0, 0)))
    }

    /// The exit code of a command that fails with it. 3: the machine, or another one of the run, is
    /// not fit. 1: another host failed while flows were under way. 130: the user ended it. 2: the
    /// user's input is wrong.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Environment(_) | Self::Peer { running: false, .. } => 3,
            Self::Peer { running: true, .. } => 1,
            Self::Interrupted => 130,
            _ => 2,
        }
    }
}

macro_rules! from_errors {
    ($($error:ty => $variant:ident),+) => {$(
        impl From<$error> for RunError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        }
    )+};
}

from_errors!(ConfigError => Config, SpecError => Tree, FaultError => Fault, InputError => Input);
