//! Which switches write telemetry, as text: `auto`, `off`, or switches with commas between.

use std::fmt;
use std::str::FromStr;

use crate::input::InputError;
use crate::topology::programs::Switches;

/// The switches whose ports write telemetry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stamping {
    /// All, where some flow's controller reads it.
    #[default]
    Auto,
    /// No switch.
    Off,
    /// The switches of this list; packets of all flows have room for telemetry.
    At(Vec<Switches>),
}

impl FromStr for Stamping {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            list => {
                let named = list.split(',').map(str::parse).collect::<Result<_, _>>();
                named.map(Self::At).map_err(|error: InputError| {
                    let expected = "auto, off, or switches with commas between: all, tor, agg, \
                                    core or border, or one of a tier: tor:3";
                    InputError { expected: expected.to_owned(), ..error }
                })
            }
        }
    }
}

impl fmt::Display for Stamping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Off => f.write_str("off"),
            Self::At(switches) => {
                let names: Vec<_> = switches.iter().map(ToString::to_string).collect();
                f.write_str(&names.join(","))
            }
        }
    }
}
