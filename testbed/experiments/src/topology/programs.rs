//! Which switches run which programs, as text: `NAME@SWITCHES`, several with commas between.
//!
//! Switches are `all`, a tier (`tor`, `agg`, `core`, `border`) or one of a tier, counted from 0
//! across the network, as faults name it: `pfc@tor:3,example@core`.

use core::fmt;
use core::str::FromStr;
use std::collections::{BTreeMap, BTreeSet};

use fabric::{Blueprint, ProgramKind, Unpaused};

use super::fat_tree::FatTree;
use super::links::SelectorError;
use crate::input::{InputError, did_you_mean};
use crate::workload::matrix::SwitchTier;

/// A program for some switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramSpec {
    /// The program that the switches run.
    pub program: ProgramKind,
    /// The switches that run it.
    pub switches: Switches,
}

/// Some switches of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switches {
    /// Every switch.
    All,
    /// Every switch of a tier.
    Tier(SwitchTier),
    /// One switch of a tier, from 0 across the network.
    One(SwitchTier, u32),
}

const TIERS: [SwitchTier; 4] =
    [SwitchTier::Tor, SwitchTier::Agg, SwitchTier::Core, SwitchTier::Border];

impl Switches {
    /// Whether a switch of `tier` may be among them.
    #[must_use]
    pub fn may_hold(&self, tier: Option<SwitchTier>) -> bool {
        match *self {
            Self::All => true,
            Self::Tier(named) | Self::One(named, _) => tier == Some(named),
        }
    }

    /// Whether every switch of `tier` is among them.
    #[must_use]
    pub fn holds_all(&self, tier: Option<SwitchTier>) -> bool {
        !matches!(self, Self::One(..)) && self.may_hold(tier)
    }
}

impl FromStr for Switches {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        let expected = "all, tor, agg, core or border, or one of a tier: tor:3";
        let wrong = || InputError::new(format!("`{text}`"), expected);
        let (tier, number) =
            text.split_once(':').map_or((text, None), |(tier, number)| (tier, Some(number)));
        let tier = TIERS.into_iter().find(|known| known.name().eq_ignore_ascii_case(tier));
        match (tier, number) {
            (None, None) if text == "all" => Ok(Self::All),
            (Some(tier), None) => Ok(Self::Tier(tier)),
            (Some(tier), Some(number)) => Ok(Self::One(tier, number.parse().map_err(|_| wrong())?)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Switches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Tier(tier) => f.write_str(tier.word()),
            Self::One(tier, number) => {
                write!(f, "{}:{number}", tier.word())
            }
        }
    }
}

impl FromStr for ProgramSpec {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        let expected = "NAME@SWITCHES, where SWITCHES is all, tor, agg, core or border, or one of \
                        a tier: pfc@tor:3";
        let wrong = || InputError::new(format!("`{text}`"), expected);
        let (name, switches) = text.split_once('@').ok_or_else(wrong)?;
        let program = ProgramKind::by_name(name).ok_or_else(|| {
            let known = ProgramKind::NAMES;
            InputError::new(
                format!("switch program `{name}`"),
                format!("one of {}", known.join(", ")),
            )
            .help(did_you_mean(name, known))
        })?;
        Ok(Self { program, switches: switches.parse().map_err(|_| wrong())? })
    }
}

impl fmt::Display for ProgramSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.program.name(), self.switches)
    }
}

/// The programs that `text` names; none for `none`.
///
/// # Errors
/// The first part that is no program for some switches.
pub fn read(text: &str) -> Result<Vec<ProgramSpec>, InputError> {
    if text == "none" {
        return Ok(Vec::new());
    }
    text.split(',').map(str::parse).collect()
}

/// `programs` as [`read`] takes them.
#[must_use]
pub fn show(programs: &[ProgramSpec]) -> String {
    if programs.is_empty() {
        return "none".to_owned();
    }
    programs.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Runs `programs` in the switches of `blueprint`, which `tree` has made. The last one that names a
/// switch holds for it.
///
/// # Errors
/// When one names a switch that is not there, cannot run in a switch that it names, or runs in no
/// switch, since later ones hold for all that it names.
pub fn assign(
    programs: &[ProgramSpec],
    tree: &FatTree,
    blueprint: &mut Blueprint,
) -> Result<(), AssignError> {
    let mut chosen = BTreeMap::new();
    for (number, spec) in programs.iter().enumerate() {
        let switches = tree.switches(&spec.switches).map_err(AssignError::Absent)?;
        chosen.extend(switches.map(|switch| (switch, number)));
    }
    let runs: BTreeSet<usize> = chosen.values().copied().collect();
    if let Some(number) = (0..programs.len()).find(|number| !runs.contains(number)) {
        return Err(AssignError::Replaced(programs[number]));
    }
    for (switch, number) in chosen {
        blueprint.assign(switch, programs[number].program).map_err(AssignError::Unpaused)?;
    }
    Ok(())
}

/// Why programs cannot run in the switches that they name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssignError {
    /// A switch is not there.
    Absent(SelectorError),
    /// Later programs hold for all switches of this one.
    Replaced(ProgramSpec),
    /// The switch would have to pause links.
    Unpaused(Unpaused),
}

impl fmt::Display for AssignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(error) => error.fmt(f),
            Self::Replaced(spec) => {
                write!(f, "{spec} runs nowhere: a switch runs the last program that names it")
            }
            Self::Unpaused(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for AssignError {}

#[cfg(test)]
mod tests {
    use fabric::QdiscKind;

    use super::*;
    use crate::topology::{FabricParams, by_name};

    #[test]
    fn every_way_to_name_switches_is_read_as_it_is_shown() {
        for text in ["none", "pfc@all", "pfc@tor,pfc@agg:1", "pfc@core:7,pfc@border:0"] {
            assert_eq!(show(&read(text).unwrap()), text);
        }
        for wrong in
            ["", "pfc", "pfc@", "pfc@tor:", "pfc@tor:x", "pfc@all:1", "pcf@all", "pfc@rack"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read("pcf@all").unwrap_err().help.contains("pfc"));
    }

    #[test]
    fn programs_run_where_they_are_named_and_the_last_one_holds() {
        let tree = FatTree::new(by_name("ft128-8os").unwrap()).unwrap();
        let [tors, aggs, cores] = [0, 1, 2].map(|tier| tree.spec().switches(tier));
        let mut blueprint = tree.blueprint(&FabricParams::default());
        let mut specs = read("pfc@agg,pfc@agg:1,pfc@core:0").unwrap();
        specs[1].program = ProgramKind::Example;
        assign(&specs, &tree, &mut blueprint).unwrap();
        let expected: Vec<u32> = (tors..=tors + aggs).collect();
        assert_eq!(blueprint.programs.keys().copied().collect::<Vec<_>>(), expected);
        let examples: Vec<u32> = blueprint.switches_with(ProgramKind::Example).collect();
        assert_eq!(examples, [tors + 1]);
        // The ports of the one that does not pause stay as they were.
        let kinds = |blueprint: &Blueprint, switch: u32| {
            let ports = blueprint.switches[switch as usize].ports();
            let kinds = ports.map(|port| blueprint.ports[port as usize].qdisc);
            kinds.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(kinds(&blueprint, tors + 1), [QdiscKind::Trim]);
        assert_eq!(kinds(&blueprint, tors), [QdiscKind::Lossless]);
        let absent = read(&format!("pfc@core:{cores}")).unwrap();
        let error = assign(&absent, &tree, &mut blueprint).unwrap_err();
        let AssignError::Absent(error) = error else { panic!("{error}") };
        assert_eq!((error.given, error.count), (cores, cores));
    }

    #[test]
    fn a_program_that_others_replace_everywhere_is_refused() {
        let tree = FatTree::new(by_name("two-dc-leaf").unwrap()).unwrap();
        let replaced = |text: &str| {
            let mut blueprint = tree.blueprint(&FabricParams::default());
            match assign(&read(text).unwrap(), &tree, &mut blueprint) {
                Err(AssignError::Replaced(spec)) => spec.to_string(),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(replaced("pfc@border,dci@border"), "pfc@border");
        assert_eq!(replaced("pfc@tor,dci@border:0,pfc@border"), "dci@border:0");
        assert_eq!(replaced("pfc@tor,pfc@all"), "pfc@tor");
        assert_eq!(replaced("pfc@all,dci@border"), "Ok(())");
    }

    #[test]
    fn a_switch_with_lossless_ports_has_to_pause_links() {
        let tree = FatTree::new(by_name("ft128-8os").unwrap()).unwrap();
        let params = FabricParams { qdisc: QdiscKind::Lossless, ..FabricParams::default() };
        let mut specs = read("pfc@tor:1").unwrap();
        assert_eq!(assign(&specs, &tree, &mut tree.blueprint(&params)), Ok(()));
        specs[0].program = ProgramKind::Example;
        let error = assign(&specs, &tree, &mut tree.blueprint(&params)).unwrap_err();
        assert_eq!(error, AssignError::Unpaused(Unpaused(ProgramKind::Example)));
    }
}
