//! The networks that have names: the papers' trees and families with parameters.
//!
//! A file here has one or more networks, each with its name, its parameters, the sentence of
//! `headrace list topologies` and the numbers of its tree; a line of `networks!` below adds them. A
//! name is never read as that of a file.

mod parameters;
mod shapes;

pub use parameters::{Kind, NetworkParameter, Values};

use super::spec::FatTreeSpec;
use crate::input::{InputError, did_you_mean};

/// A network with a name, or a family of networks with parameters behind it.
#[derive(Clone, Copy, Debug)]
pub struct NamedNetwork {
    /// The name, without parameters.
    pub name: &'static str,
    /// Parameters that follow the name behind a colon; empty for a network without parameters.
    pub parameters: &'static [NetworkParameter],
    /// One line for lists.
    pub about: &'static str,
    /// The tree of these values, or the rule that the parameters break. Whether its numbers fit
    /// together is checked afterwards.
    spec: fn(&Values) -> Result<FatTreeSpec, &'static str>,
}

impl NamedNetwork {
    /// The name with its parameters: capitals stand for values, brackets for optional parts.
    #[must_use]
    pub fn pattern(&self) -> String {
        parameters::pattern(self.name, self.parameters)
    }
}

/// Registers the networks of files: a line declares the module and takes `NETWORKS` from it.
///
/// `registry!` does not fit: networks are values without methods, several to a file, and their
/// parameters follow the name.
macro_rules! networks {
    ($($module:ident,)+) => {
        $(mod $module;)+
        const FILES: &[&[NamedNetwork]] = &[$($module::NETWORKS),+];
    };
}

networks! {
    paper_testbed,
    three_tiers,
    dcsim,
    zeropod,
    leaf_spine,
    dumbbell,
    two_dc,
    two_dc_leaf,
    two_sites,
}

/// All networks, in the order of their files.
pub fn networks() -> impl Iterator<Item = &'static NamedNetwork> {
    FILES.iter().copied().flatten()
}

/// The network of that name.
///
/// # Errors
/// An [`InputError`] without a place, with the nearest name, when there is none of that name or its
/// parameters are wrong.
pub fn by_name(name: &str) -> Result<FatTreeSpec, InputError> {
    let (head, rest) = name.split_once(':').map_or((name, None), |(head, rest)| (head, Some(rest)));
    let is_meant = |known: &&NamedNetwork| {
        let fits = match rest {
            Some(_) => !known.parameters.is_empty(),
            None => !known.parameters.iter().any(|parameter| parameter.required),
        };
        known.name == head && fits
    };
    let wrong = |expected: &str| InputError::new(format!("topology `{name}`"), expected);
    let network = networks().find(is_meant).ok_or_else(|| {
        let patterns: Vec<String> = networks().map(NamedNetwork::pattern).collect();
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        wrong("a file, or a built-in topology").help(did_you_mean(name, &patterns))
    })?;
    let values = match rest {
        Some(rest) => parameters::read(rest, name, network)?,
        None => Values::default(),
    };
    let tree = (network.spec)(&values)
        .map_err(|expected| wrong(&format!("{}, {expected}", network.pattern())))?;
    tree.check().map_err(|error| {
        InputError::new(format!("topology `{name}`: {error}"), "numbers that fit together")
    })?;
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::scenario::FaultSpec;
    use crate::topology::FatTree;

    #[test]
    fn every_name_without_parameters_is_a_sound_network_and_each_pattern_stands_once() {
        let mut patterns = BTreeSet::new();
        for network in networks() {
            assert!(patterns.insert(network.pattern()), "{}", network.name);
            assert!(!network.about.is_empty(), "{}", network.name);
            let required = network.parameters.iter().map(|parameter| parameter.required);
            assert!(required.rev().is_sorted(), "{}: what may be left out is last", network.name);
            assert!(network.parameters.len() <= parameters::PARAMETERS_MAX, "{}", network.name);
            if network.parameters.is_empty() {
                let tree = FatTree::new(by_name(network.name).unwrap()).unwrap();
                for fault in tree.spec().faults {
                    let fault: FaultSpec = fault.parse().unwrap();
                    assert!(!fault.on(&tree).unwrap().0.is_empty(), "{}: {fault}", network.name);
                }
            }
        }
    }

    #[test]
    fn a_pattern_says_what_may_be_left_out() {
        let pattern = |name| {
            let mut with = networks().filter(|known| !known.parameters.is_empty());
            with.find(|known| known.name == name).unwrap().pattern()
        };
        assert_eq!(pattern("leaf-spine"), "leaf-spine:LEAVES,SPINES,HOSTS_PER_LEAF[,GBPS]");
        assert_eq!(pattern("dumbbell"), "dumbbell:HOSTS_PER_SIDE[,GBPS[,DELAY]]");
    }

    #[test]
    fn wrong_names_and_parameters_say_what_would_be_right() {
        let error = by_name("ft1024-8so").unwrap_err();
        assert!(error.help.contains("did you mean `ft1024-8os`"), "{error}");
        let error = by_name("two-dc:7").unwrap_err();
        assert!(error.expected.ends_with("an even radix up to 128"), "{error}");
        let error = by_name("dumbbell:2,100,x").unwrap_err();
        assert!(error.found.starts_with("delay `x`"), "{error}");
        for name in ["leaf-spine:2,2,8,5000000", "dumbbell:2,5000000", "two-dc:8,8,1ms,5000000"] {
            let error = by_name(name).unwrap_err();
            assert!(error.found.starts_with("speed `5000000` of"), "{error}");
            assert_eq!(error.expected, "whole Gb/s from 1 to 1000000");
        }
        let error = by_name("zeropod:8,8,7,1").unwrap_err();
        assert_eq!(error.found, "4 values in topology `zeropod:8,8,7,1`");
        assert!(error.expected.starts_with("at most 3, zeropod:K"), "{error}");
        assert!(by_name("leaf-spine:2,2,8,1000000").is_ok());
        for name in [
            "paper-testbed:",
            "leaf-spine",
            "leaf-spine:4,4",
            "leaf-spine:4,4,4,100,9",
            "leaf-spine:0,1,1",
            "dumbbell:x",
            "leaf-spine:65536,65536,65536",
            "dumbbell:4294967295",
            "dumbbell:",
            "dumbbell:2,100,1ms,4",
            "two-dc:",
            "two-dc:8,0",
            "two-dc:8,8,2s",
            "two-dc:8,8,1ms,100,3",
            "two-dc:1000000",
        ] {
            assert!(by_name(name).is_err(), "{name}");
        }
    }
}
