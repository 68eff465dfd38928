//! The parameters in the name of a network: words with commas between, behind a colon.

use super::NamedNetwork;
use crate::input::{InputError, number};
use crate::topology::spec::{GBPS_MAX, LATENCY_NS_MAX, NODES_MAX, RADIX_MAX};

/// One parameter of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkParameter {
    /// The word that stands for the parameter in lists, in capitals.
    pub name: &'static str,
    /// The kind of the parameter.
    pub kind: Kind,
    /// Whether the parameter must be given. Parameters that may be left out follow all others.
    pub required: bool,
}

/// The kind of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number above 0.
    Number,
    /// The speed of links in Gb/s, from 1 to [`GBPS_MAX`].
    Speed,
    /// A time in nanoseconds, up to [`LATENCY_NS_MAX`].
    Delay,
}

/// The most parameters of a network.
pub(super) const PARAMETERS_MAX: usize = 5;

/// The values in a name, in the order of the parameters; `None` for one that was left out.
pub type Values = [Option<u32>; PARAMETERS_MAX];

/// The speed of links where a name leaves it out.
pub(super) const GBPS_DEFAULT: u32 = 100;

/// A parameter that must be given.
pub(super) const fn required(name: &'static str, kind: Kind) -> NetworkParameter {
    NetworkParameter { name, kind, required: true }
}

/// A parameter that may be left out.
pub(super) const fn optional(name: &'static str, kind: Kind) -> NetworkParameter {
    NetworkParameter { name, kind, required: false }
}

/// The name with its parameters as lists print it: `dumbbell:HOSTS_PER_SIDE[,GBPS[,DELAY]]`.
pub(super) fn pattern(name: &str, parameters: &[NetworkParameter]) -> String {
    let mut pattern = name.to_owned();
    for (at, parameter) in parameters.iter().enumerate() {
        pattern.push_str(if parameter.required { "" } else { "[" });
        pattern.push(if at == 0 { ':' } else { ',' });
        pattern.push_str(parameter.name);
    }
    let optional = parameters.iter().filter(|parameter| !parameter.required).count();
    pattern + &"]".repeat(optional)
}

/// The values in `text`, what stands behind the colon of `name`.
pub(super) fn read(text: &str, name: &str, network: &NamedNetwork) -> Result<Values, InputError> {
    let wrong = || {
        let expected = format!("{}, positive integers", network.pattern());
        InputError::new(format!("topology `{name}`"), expected)
            .help(format!("at most {NODES_MAX} hosts, {RADIX_MAX} ports"))
    };
    let mut values = [None; PARAMETERS_MAX];
    let mut words = text.split(',');
    for (value, parameter) in values.iter_mut().zip(network.parameters) {
        *value = match (words.next().map(str::trim), parameter.kind) {
            (None, _) if parameter.required => return Err(wrong()),
            (None, _) => None,
            (Some(word), Kind::Number) => Some(count(word).ok_or_else(wrong)?),
            (Some(word), Kind::Speed) => {
                Some(count(word).filter(|gbps| *gbps <= GBPS_MAX).ok_or_else(|| {
                    let found = format!("speed `{word}` of topology `{name}`");
                    let expected = format!("whole Gb/s from 1 to {GBPS_MAX}");
                    InputError::new(found, expected).help(network.pattern())
                })?)
            }
            (Some(word), Kind::Delay) => Some(delay_ns(word).ok_or_else(|| {
                let found = format!("delay `{word}` of topology `{name}`");
                let help = format!("{}; a delay is like 886.5us or 20ms", network.pattern());
                InputError::new(found, "a time up to 1s").help(help)
            })?),
        };
    }
    let (most, more) = (network.parameters.len(), words.count());
    if more == 0 {
        return Ok(values);
    }
    let found = format!("{} values in topology `{name}`", most + more);
    Err(InputError::new(found, format!("at most {most}, {}", network.pattern())))
}

fn count(word: &str) -> Option<u32> {
    let value = u32::try_from(number::integer(word.as_bytes()).ok()?).ok()?;
    (value > 0).then_some(value)
}

/// A time in whole nanoseconds, microseconds when it has no unit.
fn delay_ns(word: &str) -> Option<u32> {
    let ns = u32::try_from(number::duration(word).ok()?.as_ps() / 1000).ok()?;
    (ns <= LATENCY_NS_MAX).then_some(ns)
}
