//! From a command line to its runs: one, or those of a scenario and of flags with several values.

use std::collections::BTreeSet;

use experiments::input::{InputError, is_standard_input};
use experiments::plan::Draft;
use experiments::scenario::{
    AxisPoint, Figure, Run, Scenario, Setup, Traffic, expect_variant, picks,
};

use super::axes::{self, ChosenRun};
use super::experiment::{Experiment, Reader, on_flag};
use crate::args::{PartOf, RunArgs};
use crate::failure::Failure;
use crate::sweep_dir::CHANCE;

/// The order of a command line.
#[derive(Debug)]
pub(crate) enum RunOrder {
    /// One run.
    One(Box<Experiment>),
    /// A scenario with variants.
    Several(Sweep),
}

/// A scenario with variants.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// The scenario's name.
    pub(crate) name: String,
    /// The scenario's sentence.
    pub(crate) about: String,
    /// How its results are drawn.
    pub(crate) figure: Figure,
    /// Every variant that it has: its name and its parts.
    pub(crate) variants: Vec<(String, Vec<AxisPoint>)>,
    /// The variants that were asked for, at least one.
    pub(crate) chosen: Vec<(String, Experiment)>,
    /// The axes of policies and settings, whose values are compared, where flags have several.
    pub(crate) compared: Option<Vec<String>>,
}

impl RunOrder {
    /// The runs that it consists of.
    pub(super) fn experiments_mut(&mut self) -> Vec<&mut Experiment> {
        match self {
            Self::One(experiment) => vec![experiment],
            Self::Several(sweep) => sweep.chosen.iter_mut().map(|(_, run)| run).collect(),
        }
    }

    /// Reads all that `args` name.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub(crate) fn read(args: &RunArgs) -> Result<Self, Failure> {
        let choices = axes::choices(args)?;
        let mut reader = Reader::default();
        let head = match reader.scenario(args.input())? {
            Some(scenario) => scenario,
            None => of_matrix(args, &choices),
        };
        only_matrices(&mut reader, args)?;
        Self::of(&reader, head, args, &choices)
    }

    /// The runs of `args`, whose input is a scenario of this text: the file need not be there yet.
    ///
    /// # Errors
    /// As [`RunOrder::read`], and a scenario without variants.
    pub(crate) fn of_text(args: &RunArgs, text: &str) -> Result<Sweep, Failure> {
        let choices = axes::choices(args)?;
        let mut reader = Reader::default();
        let head = reader.scenario_of(args.input(), text.as_bytes())?;
        match Self::of(&reader, head, args, &choices)? {
            Self::Several(sweep) => Ok(sweep),
            Self::One(_) => {
                let error = InputError::new("one run", "a scenario with variants");
                Err(error.at(&args.input().display().to_string(), 0, 0).into())
            }
        }
    }

    /// The runs of a scenario that has been read.
    fn of(
        reader: &Reader,
        head: Scenario,
        args: &RunArgs,
        choices: &[ChosenRun],
    ) -> Result<Self, Failure> {
        let Scenario { name, about, figure, runs } = head;
        let is_file = reader.scenario_file.is_empty();
        if let ([Run { parts, setup, .. }], [choice]) = (&runs[..], choices)
            && parts.is_empty()
            && choice.parts.is_empty()
        {
            no_variants(args)?;
            let scenario = (!is_file).then_some((name.as_str(), setup));
            let traffic = &setup.traffic;
            return Ok(Self::One(Box::new(reader.clone().experiment(args, scenario, traffic)?)));
        }
        if args.inputs.iter().any(|path| is_standard_input(path)) {
            let error = InputError::new("standard input for several runs", "a file for them");
            let help = "it can be read once: write the matrix to a file";
            return Err(error.at("command line", 0, 0).help(help).into());
        }
        check_kept(reader, &name, &runs, args, choices)?;
        let all = all_of(&runs, choices);
        let parts: Vec<_> = all.iter().map(|(_, _, parts)| parts.clone()).collect();
        for wanted in &args.variant {
            expect_variant(wanted, &parts).map_err(|error| no_variant(args, error))?;
        }
        let named = |parts: &Vec<AxisPoint>| (name_of(parts), parts.clone());
        let variants: Vec<_> = parts.iter().map(named).collect();
        let (mut chosen, mut at) = (Vec::new(), 0);
        for (run, choice, parts) in all {
            let wanted = |wanted: &String| picks(wanted, &parts);
            if args.variant.is_empty() || args.variant.iter().any(wanted) {
                let own = args.part.is_none_or(|part| at % part.count == part.number);
                at += 1;
                if !own {
                    continue;
                }
                let traffic = match is_file {
                    true => &Traffic::File(choice.args.input().to_owned()),
                    false => &run.setup.traffic,
                };
                let scenario = (!is_file).then_some((name.as_str(), &run.setup));
                let mut experiment = reader.clone().experiment(&choice.args, scenario, traffic)?;
                let name = name_of(&parts);
                experiment.variant = Some(name.clone());
                chosen.push((name, experiment));
            }
        }
        if let Some(PartOf { number, count }) = args.part.filter(|_| chosen.is_empty()) {
            let found = format!("part {number} of {count}, and {at} runs");
            let error = InputError::new(found, "no more parts than runs");
            return Err(on_flag("--part", error).into());
        }
        let compared = axes::compared(choices);
        Ok(Self::Several(Sweep { name, about, figure, variants, chosen, compared }))
    }
}

/// Each run of a scenario with each choice of flags: its parts are those of both.
fn all_of<'a>(
    runs: &'a [Run],
    choices: &'a [ChosenRun],
) -> Vec<(&'a Run, &'a ChosenRun, Vec<AxisPoint>)> {
    let parts = |run: &Run, choice: &ChosenRun| [&run.parts[..], &choice.parts[..]].concat();
    let with = |run| choices.iter().map(move |choice| (run, choice, parts(run, choice)));
    runs.iter().flat_map(with).collect()
}

/// The name of the run with these parts.
fn name_of(parts: &[AxisPoint]) -> String {
    parts.iter().map(AxisPoint::to_string).collect::<Vec<_>>().join(",")
}

/// Matrices as a scenario of one run, which has no settings.
fn of_matrix(args: &RunArgs, choices: &[ChosenRun]) -> Scenario {
    let (name, inputs) = match &args.inputs[..] {
        [path] => {
            let file = path.file_name().unwrap_or(path.as_os_str());
            (axes::stem(path), file.to_string_lossy().into_owned())
        }
        several => ("matrices".to_owned(), format!("{} matrices", several.len())),
    };
    let about = described(&inputs, choices);
    let axes: Vec<String> =
        choices.iter().flat_map(|choice| &choice.parts).map(|part| part.axis.clone()).collect();
    let setup = Setup::of(Traffic::File(args.input().to_owned()));
    let runs = vec![Run { name: String::new(), parts: Vec::new(), setup }];
    Scenario { name, about, figure: Figure::of_axes(&axes, CHANCE), runs }
}

/// What runs of `inputs` with these choices are about, as a title: by which axes they differ, and
/// over how many seeds.
fn described(inputs: &str, choices: &[ChosenRun]) -> String {
    let (mut by, mut seeds) = (Vec::new(), BTreeSet::new());
    for point in choices.iter().flat_map(|choice| &choice.parts) {
        if point.axis == CHANCE {
            seeds.insert(point.label.as_str());
        } else if point.axis != axes::MATRIX && !by.contains(&point.axis.as_str()) {
            by.push(&point.axis);
        }
    }
    let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(" and ")) };
    let over = if seeds.len() > 1 { format!(", {} seeds", seeds.len()) } else { String::new() };
    format!("{inputs}{by}{over}")
}

/// Several inputs are matrices: scenarios have runs of their own.
fn only_matrices(reader: &mut Reader, args: &RunArgs) -> Result<(), Failure> {
    for path in args.inputs.iter().filter(|_| args.inputs.len() > 1) {
        if reader.clone().scenario(path)?.is_some() {
            let found = format!("`{}`, a scenario among several inputs", path.display());
            let error = InputError::new(found, "several matrices (.cm), or one scenario");
            return Err(error
                .at("command line", 0, 0)
                .help("run each in a command of its own")
                .into());
        }
    }
    Ok(())
}

/// The error for a `--variant` that is none of the runs.
fn no_variant(args: &RunArgs, error: InputError) -> Failure {
    let all = match args.input().extension() {
        Some(ending) if ending == "cm" => error.help.clone(),
        _ => format!(
            "{}\n  all names: headrace list variants {}",
            error.help,
            args.input().display()
        ),
    };
    on_flag("--variant", error.help(all)).into()
}

/// Refuses flags that replace settings in which the runs of a scenario differ, and axes of flags
/// that the scenario has, too.
fn check_kept(
    reader: &Reader,
    name: &str,
    runs: &[Run],
    args: &RunArgs,
    choices: &[ChosenRun],
) -> Result<(), Failure> {
    if runs.len() < 2 {
        return Ok(());
    }
    let own = |part: &AxisPoint| runs[0].parts.iter().any(|other| other.axis == part.axis);
    if let Some(part) = choices[0].parts.iter().find(|part| own(part)) {
        let labels = runs.iter().flat_map(|run| &run.parts).filter(|p| p.axis == part.axis);
        let labels: BTreeSet<String> = labels.map(|part| part.label.clone()).collect();
        let labels: Vec<String> = labels.into_iter().collect();
        return Err(axes::replaces("a flag", &part.axis, &labels).into());
    }
    let topologies = runs.iter().map(|run| run.setup.topology.as_ref().map(ToString::to_string));
    let worlds = runs.iter().map(|run| run.setup.world.as_ref().map(|world| world.value.clone()));
    let distinct = |values: &mut dyn Iterator<Item = Option<String>>| {
        let default = || "default".to_owned();
        let values: BTreeSet<String> = values.map(|value| value.unwrap_or_else(default)).collect();
        values.into_iter().collect::<Vec<_>>()
    };
    let texts = [
        ("topology", "flag --topo", args.topo.is_some(), distinct(&mut { topologies })),
        ("world", "flag --world", args.world.is_some(), distinct(&mut { worlds })),
    ];
    for (key, flag, given, values) in texts {
        if given && values.len() > 1 {
            return Err(axes::replaces(flag, key, &values).into());
        }
    }
    let mut drafts = Vec::new();
    for run in runs {
        let mut before = Draft::default();
        reader.apply_scenario(name, &run.setup, &mut before)?;
        let mut after = before.clone();
        reader.apply_flags(&choices[0].args, &mut after)?;
        drafts.push((before, after));
    }
    let drafts = drafts.iter().map(|(before, after)| (before, after));
    Ok(axes::check_kept(drafts)?)
}

/// Refuses flags that make sense only for variants.
fn no_variants(args: &RunArgs) -> Result<(), InputError> {
    match args.variant.first() {
        None => Ok(()),
        Some(name) => {
            let error = InputError::new(format!("`{name}`"), "nothing: there are no variants here");
            Err(on_flag("--variant", error.help("leave --variant out")))
        }
    }
}
