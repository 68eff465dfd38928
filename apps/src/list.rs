//! `headrace list`: everything that has a name, one line each.

use std::path::Path;

use clap::ValueEnum;
use experiments::input::InputError;
use experiments::plan::keys::{self, Listed};
use experiments::plan::transports::TRANSPORTS;
use experiments::scenario::{AxisPoint, Run, Scenario};
use experiments::workload::distributions::DISTRIBUTIONS;
use experiments::{topology, workload};
use fabric::pod::matcher::MatcherKind;
use fabric::{ProgramKind, QdiscKind};
use serde::Serialize;
use transport::cc::CcKind;
use transport::ec::EcKind;
use transport::lb::LbKind;
use transport::rc::RcKind;
use transport::sched::SchedKind;

use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::fit;
use crate::run::experiment;
use crate::scenarios::{BUILT_IN, BuiltIn};

/// The kinds of things that can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Presets of controller, load balancer, scheduler and switch features.
    Transports,
    /// Congestion controllers.
    Cc,
    /// Receivers' halves of congestion controllers.
    Halves,
    /// Load balancers.
    Lb,
    /// Erasure codes.
    Ec,
    /// Schedulers: which flow sends next, and when.
    Schedulers,
    /// Queue disciplines of switch ports.
    Qdiscs,
    /// Programs for switches.
    Programs,
    /// Matchers of Zeropod's scheduler: which hosts of a pod send in an epoch.
    Matchers,
    /// Built-in networks.
    Topologies,
    /// Generators of matrices.
    Workloads,
    /// Flow sizes for generators: distributions that come with the program.
    Distributions,
    /// Named experiments that come with the program.
    Scenarios,
    /// The runs of a scenario, each with what differs.
    Variants,
    /// Keys of --set.
    Settings,
}

/// One name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Entry {
    name: String,
    about: String,
    /// The default of a setting, as text that sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<String>,
    /// The form of a setting's values, and their range.
    #[serde(skip_serializing_if = "Option::is_none")]
    takes: Option<String>,
}

impl Entry {
    fn new(name: &str, about: &str) -> Self {
        Self { name: name.to_owned(), about: about.to_owned(), default: None, takes: None }
    }

    /// The line of a list: its sentence, and for a setting its possible values and its default.
    fn line(&self) -> String {
        let takes = self.takes.as_ref().map(|takes| format!("takes {takes}"));
        let default = self.default.as_ref().filter(|default| !default.is_empty());
        let default = default.map(|default| format!("default {default}"));
        let more: Vec<String> = takes.into_iter().chain(default).collect();
        match more.is_empty() {
            true => self.about.clone(),
            false => format!("{} [{}]", self.about, more.join("; ")),
        }
    }
}

/// Prints the list.
///
/// # Errors
/// When standard output fails, or the variants' scenario cannot be read.
pub(crate) fn run(
    what: What,
    of: Option<&Path>,
    json: bool,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let entries = match (what, of) {
        (What::Variants, Some(input)) => variants(input)?,
        (_, None) => entries(what),
        (_, Some(input)) => {
            let error = InputError::new(format!("`{}`", input.display()), "nothing behind it");
            return Err(error.at("headrace list", 0, 0).into());
        }
    };
    if json {
        serde_json::to_writer_pretty(&mut *console.out, &entries).map_err(std::io::Error::from)?;
        writeln!(console.out)?;
        return Ok(Exit::Finished);
    }
    let width = entries.iter().map(|entry| entry.name.chars().count()).max().unwrap_or(0);
    let has_room = console.out_width.is_none_or(|columns| (width + 2) * 2 <= columns);
    let indent = if has_room { width + 2 } else { 4 };
    for entry in &entries {
        let (name, line) = (&entry.name, entry.line());
        let line = format!("{name:<width$}  {line}");
        fit::write_line(line.trim_end(), indent, console)?;
    }
    Ok(Exit::Finished)
}

fn entries(what: What) -> Vec<Entry> {
    let entry = Entry::new;
    match what {
        What::Transports => TRANSPORTS.iter().map(|known| entry(known.name, known.about)).collect(),
        What::Workloads => {
            workload::GENERATORS.iter().map(|known| entry(known.name, known.about)).collect()
        }
        What::Distributions => {
            DISTRIBUTIONS.iter().map(|known| entry(known.name, known.about)).collect()
        }
        What::Cc => CcKind::ALL.iter().map(|kind| entry(kind.name(), kind.about())).collect(),
        What::Halves => RcKind::ALL.iter().map(|kind| entry(kind.name(), kind.about())).collect(),
        What::Lb => LbKind::ALL.iter().map(|kind| entry(kind.name(), kind.about())).collect(),
        What::Ec => EcKind::ALL.iter().map(|kind| entry(kind.name(), kind.about())).collect(),
        What::Schedulers => {
            SchedKind::ALL.iter().map(|kind| entry(kind.name(), kind.about())).collect()
        }
        What::Qdiscs => {
            QdiscKind::ALL.iter().map(|kind| entry(kind.name(), kind.about())).collect()
        }
        What::Programs => {
            ProgramKind::ALL.iter().map(|kind| entry(kind.name(), kind.about())).collect()
        }
        What::Matchers => {
            MatcherKind::ALL.iter().map(|kind| entry(kind.name(), kind.about())).collect()
        }
        What::Topologies => {
            topology::networks().map(|known| entry(&known.pattern(), known.about)).collect()
        }
        What::Scenarios => {
            let about = |known: &BuiltIn| known.read().map(|read| sentence(&read));
            let about = |known: &BuiltIn| about(known).unwrap_or_default();
            BUILT_IN.iter().map(|known| entry(known.name, &about(known))).collect()
        }
        What::Settings => {
            let listed = keys::listed().into_iter();
            listed
                .map(|Listed { name, about, default, takes }| Entry {
                    name,
                    about,
                    default: Some(default),
                    takes,
                })
                .collect()
        }
        // There are no variants without a scenario; the command line requires one.
        What::Variants => Vec::new(),
    }
}

/// The runs of the scenario that `input` names.
fn variants(input: &Path) -> Result<Vec<Entry>, Failure> {
    let wrong = |found: &str, expected: &str| {
        let error = InputError::new(format!("`{}`, {found}", input.display()), expected);
        Failure::from(error.at("headrace list variants", 0, 0))
    };
    let scenario = experiment::scenario(input)?
        .ok_or_else(|| wrong("a matrix", "a scenario: FILE.toml, or a built-in one"))?;
    if !scenario.has_variants() {
        return Err(wrong("which is one run", "a scenario with variants"));
    }
    let about = |run: &Run| {
        let part = |part: &AxisPoint| format!("{} {}", part.axis, part.label);
        run.parts.iter().map(part).collect::<Vec<_>>().join(", ")
    };
    Ok(scenario.runs.iter().map(|run| Entry::new(&run.name, &about(run))).collect())
}

/// The scenario's own sentence, its figure, and how many runs it has.
fn sentence(scenario: &Scenario) -> String {
    let mut notes = Vec::new();
    if !scenario.figure.of.is_empty() {
        notes.push(scenario.figure.of.clone());
    }
    if scenario.has_variants() {
        notes.push(format!("{} runs", scenario.runs.len()));
    }
    match notes.is_empty() {
        true => scenario.about.clone(),
        false => format!("{} ({})", scenario.about, notes.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_registered_is_listed_with_a_sentence() {
        for what in What::value_variants().iter().filter(|what| **what != What::Variants) {
            let entries = entries(*what);
            assert!(!entries.is_empty(), "{what:?}");
            for entry in entries {
                assert!(!entry.about.is_empty(), "{what:?} {}", entry.name);
            }
        }
    }
}
