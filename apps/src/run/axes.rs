//! Flags with several values: a run for each combination of them, with a place on an axis a flag.
//!
//! `--transport a,b`, `--cc`, `--lb`, `--seed 1..5`, `--set key=a,b` and several matrices are axes,
//! as the variants and the grid of a scenario are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use experiments::input::InputError;
use experiments::plan::{Draft, Origin, keys};
use experiments::scenario::{AxisPoint, VARIANT};

use crate::args::{RunArgs, Seeds};
use crate::sweep_dir::CHANCE;

/// One run that a command line asks for.
pub(super) struct ChosenRun {
    /// The run's place on the axis of each flag with several values.
    pub(super) parts: Vec<AxisPoint>,
    /// The command line with one value for each flag.
    pub(super) args: RunArgs,
}

/// Sets a flag to the value of that number.
type Put = Box<dyn Fn(&mut RunArgs, usize)>;

/// A flag with several values.
struct Axis {
    name: String,
    flag: &'static str,
    labels: Vec<String>,
    put: Put,
}

/// The most runs of one command.
const RUNS_MAX: usize = 4096;

/// The runs of `args`: one without parts where each flag has one value, else one for each
/// combination, the values of the last flag next to each other.
///
/// # Errors
/// A value that is given twice, two axes of one name, more than [`RUNS_MAX`] runs.
pub(super) fn choices(args: &RunArgs) -> Result<Vec<ChosenRun>, InputError> {
    let axes = axes(args)?;
    let count = axes.iter().try_fold(1usize, |n, axis| n.checked_mul(axis.labels.len()));
    if let (true, Some(last)) = (count.is_none_or(|count| count > RUNS_MAX), axes.last()) {
        let expected = format!("at most {RUNS_MAX} runs");
        let error = InputError::new("more combinations of values than that", expected);
        return Err(error.at(last.flag, 0, 0));
    }
    let mut choices = vec![ChosenRun { parts: Vec::new(), args: args.clone() }];
    for (at, axis) in axes.iter().enumerate() {
        if axes[..at].iter().any(|other| other.name == axis.name) {
            let error = InputError::new(format!("a second axis `{}`", axis.name), "one");
            return Err(error.at(axis.flag, 0, 0).help("give all values in one place"));
        }
        let step = |choice: &ChosenRun, value: usize| {
            let (mut parts, mut args) = (choice.parts.clone(), choice.args.clone());
            parts.push(AxisPoint::new(&axis.name, &axis.labels[value]));
            (axis.put)(&mut args, value);
            ChosenRun { parts, args }
        };
        let values = 0..axis.labels.len();
        choices = choices
            .iter()
            .flat_map(|choice| values.clone().map(move |value| step(choice, value)))
            .collect();
    }
    Ok(choices)
}

fn axes(args: &RunArgs) -> Result<Vec<Axis>, InputError> {
    let mut axes = Vec::new();
    let inputs = args.inputs.clone();
    let names = matrices(&inputs)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    axes.extend(Axis::new(MATRIX, "MATRIX.cm", &names)?.map(|axis| {
        axis.putting(move |args: &mut RunArgs, at| args.inputs = vec![inputs[at].clone()])
    }));
    let policies = &args.policies;
    let chosen: [(&'static str, &'static str, _, Choose, PutName); 3] = [
        ("transport", "--transport", &policies.transport, Draft::set_transport, |args, name| {
            args.policies.transport = Some(name);
        }),
        ("cc", "--cc", &policies.cc, Draft::set_cc, |args, name| args.policies.cc = Some(name)),
        ("lb", "--lb", &policies.lb, Draft::set_lb, |args, name| args.policies.lb = Some(name)),
    ];
    for (key, flag, text, choose, put) in chosen {
        let values = values(text.as_deref(), |name| {
            meaning(key, name, |draft| choose(draft, name, Origin::Flag(key)))
        });
        // A name that was cut short is whole in names of runs.
        let values: Vec<Value> = values.into_iter().map(Value::spelled_out).collect();
        axes.extend(listed(key, flag, &values, put)?);
    }
    let mut named = BTreeMap::new();
    for (at, (key, value)) in policies.settings()?.into_iter().enumerate() {
        // Some values have commas of their own: they are one value.
        let takes = |value: &str| Draft::default().set(key, value, Origin::Set).is_ok();
        let first = value.split(',').next().unwrap_or_default().trim();
        let has_parts = value.split(',').skip(1).any(|part| part.contains('='));
        // A list that the setting takes as one value is refused as a whole when an entry is wrong.
        let is_wrong_list = || {
            takes(&format!("{first},{first}")) && !value.split(',').all(|part| takes(part.trim()))
        };
        if !value.contains(',') || has_parts || takes(value) || !takes(first) || is_wrong_list() {
            continue;
        }
        // The last word of its key names it, the whole key beside another that ends in that word.
        let (word, own) = (key.rsplit('.').next().unwrap_or(key), key.to_owned());
        let is_taken = match named.insert(word, key) {
            Some(other) => other != key,
            None => axes.iter().any(|axis| axis.name == word),
        };
        let name = if is_taken { key } else { word };
        let values = values(Some(value), |value| {
            meaning(keys::canonical(key), value, |draft| draft.set(key, value, Origin::Set))
        });
        axes.extend(listed(name, "--set", &values, move |args, value| {
            args.policies.set[at] = format!("{own}={value}");
        })?);
    }
    if let Some(Seeds(seeds)) = args.seed.clone() {
        let texts: Vec<String> = seeds.iter().map(u64::to_string).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        axes.extend(Axis::new(CHANCE, "--seed", &texts)?.map(|axis| {
            axis.putting(move |args: &mut RunArgs, at| args.seed = Some(Seeds(vec![seeds[at]])))
        }));
    }
    Ok(axes)
}

/// The axes along which the results of `choices` are compared; `None` where no flag has several
/// values.
pub(super) fn compared(choices: &[ChosenRun]) -> Option<Vec<String>> {
    let parts = &choices.first()?.parts;
    let axes = parts.iter().map(|part| part.axis.clone()).filter(|axis| axis != MATRIX);
    let all = axes.chain([VARIANT.to_owned()]).collect();
    (!parts.is_empty()).then_some(all)
}

/// The axis of matrices, each of which is another work.
pub(super) const MATRIX: &str = "matrix";

/// Sets the flag of a policy to a name.
type PutName = fn(&mut RunArgs, String);
/// Chooses a policy of a draft by its name.
type Choose = fn(&mut Draft, &str, Origin) -> Result<(), InputError>;

/// A value of a flag, as it was typed and as it is understood: two texts may mean one thing.
struct Value {
    typed: String,
    meant: String,
}

impl Value {
    fn spelled_out(self) -> Self {
        Self { typed: self.meant.clone(), ..self }
    }
}

/// The values of a flag, which stand with commas between them.
fn values(text: Option<&str>, meant: impl Fn(&str) -> String) -> Vec<Value> {
    let typed = text.unwrap_or_default().split(',').map(str::trim);
    typed.map(|typed| Value { typed: typed.to_owned(), meant: meant(typed) }).collect()
}

/// The text of the setting `key` once `set` has set it to `value`; `value` itself where it is
/// none of its values, which is refused later.
fn meaning(key: &str, value: &str, set: impl Fn(&mut Draft) -> Result<(), InputError>) -> String {
    let mut draft = Draft::default();
    let known = set(&mut draft).ok().and_then(|()| {
        draft.effective().into_iter().find(|(of, ..)| of == key).map(|(_, meant, _)| meant)
    });
    known.unwrap_or_else(|| value.to_owned())
}

/// The axis of a flag with these values.
fn listed(
    name: &str,
    flag: &'static str,
    values: &[Value],
    put: impl Fn(&mut RunArgs, String) + 'static,
) -> Result<Option<Axis>, InputError> {
    for (at, value) in values.iter().enumerate() {
        let same = |other: &&Value| other.meant == value.meant && other.typed != value.typed;
        if let Some(other) = values[..at].iter().find(same) {
            let found = format!("`{}` and `{}`, which are one value", other.typed, value.typed);
            return Err(InputError::new(found, "each value once").at(flag, 0, 0));
        }
    }
    let typed: Vec<&str> = values.iter().map(|value| value.typed.as_str()).collect();
    let owned: Vec<String> = values.iter().map(|value| value.typed.clone()).collect();
    let axis = Axis::new(name, flag, &typed)?;
    Ok(axis.map(|axis| axis.putting(move |args: &mut RunArgs, at| put(args, owned[at].clone()))))
}

impl Axis {
    /// An axis with these values, `None` for a single one.
    fn new(name: &str, flag: &'static str, values: &[&str]) -> Result<Option<Self>, InputError> {
        for (at, value) in values.iter().enumerate() {
            let found = match () {
                () if value.is_empty() && values.len() > 1 => "nothing between two commas".into(),
                () if values[..at].contains(value) => format!("a second `{value}`"),
                () => continue,
            };
            return Err(InputError::new(found, "each value once").at(flag, 0, 0));
        }
        if let Some((one, other)) = of_one_name(values) {
            let found = format!("`{one}` and `{other}`, whose runs would have one name");
            let expected = "values that differ in their letters, digits or `._+-`";
            return Err(InputError::new(found, expected).at(flag, 0, 0));
        }
        let labels: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        let put = Box::new(|_: &mut RunArgs, _| {});
        let axis = Self { name: name.to_owned(), flag, labels, put };
        Ok((values.len() > 1).then_some(axis))
    }

    fn putting(self, put: impl Fn(&mut RunArgs, usize) + 'static) -> Self {
        Self { put: Box::new(put), ..self }
    }
}

/// The name of a matrix: that of its file without the ending.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Two of `values` that are the same in the name of a run.
fn of_one_name<'a>(values: &[&'a str]) -> Option<(&'a str, &'a str)> {
    let label = |value: &str| AxisPoint::new("", value).label;
    let other = |at: usize| {
        let before = values[..at].iter().find(|before| label(before) == label(values[at]))?;
        Some((*before, values[at]))
    };
    (0..values.len()).find_map(other)
}

/// The names of matrices: those of their files without the endings, or their paths where files in
/// different places have one name.
///
/// # Errors
/// A matrix that is given twice.
fn matrices(paths: &[PathBuf]) -> Result<Vec<String>, InputError> {
    if let Some(at) = (1..paths.len()).find(|at| paths[..*at].contains(&paths[*at])) {
        let found = format!("a second `{}`", paths[at].display());
        return Err(InputError::new(found, "each matrix once").at("MATRIX.cm", 0, 0));
    }
    let stems: Vec<String> = paths.iter().map(|path| stem(path)).collect();
    if of_one_name(&stems.iter().map(String::as_str).collect::<Vec<_>>()).is_none() {
        return Ok(stems);
    }
    Ok(paths.iter().map(|path| path.with_extension("").to_string_lossy().into_owned()).collect())
}

/// The values of one setting in the runs of a scenario, and the flag that replaces one of them.
#[derive(Default)]
struct Replaced {
    values: Vec<String>,
    by: Option<Origin>,
}

/// Refuses a flag that replaces a setting in which the runs of a scenario differ: each run would
/// have other settings than its name says. For each run `before` has the settings without flags,
/// and `after` those with them.
///
/// # Errors
/// Names the first such setting, its values in the runs and the flag.
pub(super) fn check_kept<'a>(
    runs: impl Iterator<Item = (&'a Draft, &'a Draft)>,
) -> Result<(), InputError> {
    let mut settings: BTreeMap<String, Replaced> = BTreeMap::new();
    for (before, after) in runs {
        let kept = after.effective();
        for (key, value, from) in before.effective() {
            let stays = kept.iter().any(|other| (&other.0, &other.1) == (&key, &value));
            let by = after.origin(&key);
            let setting = settings.entry(key).or_default();
            if matches!(from, Origin::Scenario(..)) && !stays {
                setting.by.get_or_insert(by);
            }
            if !setting.values.contains(&value) {
                setting.values.push(value);
            }
        }
    }
    let lost =
        |(_, setting): &(&String, &Replaced)| setting.by.is_some() && setting.values.len() > 1;
    let Some((key, Replaced { values, by: Some(by) })) = settings.iter().find(lost) else {
        return Ok(());
    };
    Err(replaces(&by.to_string(), key, values))
}

/// The error about a flag that replaces the values of an axis.
pub(super) fn replaces(by: &str, key: &str, values: &[String]) -> InputError {
    let found = format!("`{key}` replaced by {by}, and the variants differ in it");
    let expected = format!("the values of the variants: {}", values.join(", "));
    let help = "leave the flag out, choose variants with --variant, or run the matrix itself";
    InputError::new(found, expected).at("command line", 0, 0).help(help)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn names(flags: &[&str]) -> Result<Vec<String>, String> {
        let line = ["headrace", "run", "a.cm"].iter().chain(flags);
        let Command::Run(args) = Cli::try_parse_from(line).unwrap().command else { panic!() };
        let choices = choices(&args).map_err(|error| error.to_string())?;
        let name = |choice: &ChosenRun| {
            choice.parts.iter().map(AxisPoint::to_string).collect::<Vec<_>>().join(",")
        };
        Ok(choices.iter().map(name).collect())
    }

    #[test]
    fn each_combination_of_values_is_a_run_and_single_values_are_no_axis() {
        assert_eq!(names(&["--cc", "swift", "--seed", "3"]).unwrap(), [""]);
        let all = names(&["--cc", "swift,dctcp", "--seed", "3..4"]).unwrap();
        assert_eq!(
            all,
            ["cc=swift,seed=3", "cc=swift,seed=4", "cc=dctcp,seed=3", "cc=dctcp,seed=4"]
        );
        let all = names(&["b/c.cm", "--set", "switch.queue=1MB,2MB", "--lb", "reps"]).unwrap();
        assert_eq!(all[1], "matrix=a,queue=2MB");
        assert_eq!(all.len(), 4);
        // Files of one name in different places are called by these.
        let all = names(&["b/a.cm", "c/a.cm"]).unwrap();
        assert_eq!(all, ["matrix=a", "matrix=b-a", "matrix=c-a"]);
        // Names that are cut short are whole here.
        let all = names(&["--transport", "swi,gem", "--lb", "rep,ecm"]).unwrap();
        assert_eq!(all[0], "transport=swift,lb=reps");
        assert_eq!(all[3], "transport=gemini,lb=ecmp");
    }

    #[test]
    fn a_value_that_has_commas_of_its_own_is_one() {
        assert_eq!(names(&["--set", "ec=8,2"]).unwrap(), [""]);
        // A value that is refused as a whole is not taken for several.
        let wrong = "fault=down@host:0,from_us=10,until_us=5";
        assert_eq!(names(&["--set", wrong]).unwrap(), [""]);
        for both in ["pfc@tor,none", "none,pfc@tor"] {
            assert_eq!(names(&["--set", &format!("switch.program={both}")]).unwrap().len(), 2);
        }
        for wrong in ["dci@border,pfc@tor,pfc@spine", "dci@border,pfc@bogus", "pfc@tor,"] {
            assert_eq!(names(&["--set", &format!("switch.program={wrong}")]).unwrap(), [""]);
        }
    }

    #[test]
    fn values_that_come_twice_and_axes_that_come_twice_are_refused() {
        for (flags, part) in [
            (&["--cc", "swift,swift"][..], "a second `swift`"),
            (&["--cc", "swift,,dctcp"], "nothing between two commas"),
            (&["--cc", "swi,swift"], "a second `swift`"),
            (&["--transport", "gem,smartt,gemini"], "a second `gemini`"),
            (&["--set", "switch.queue=1MB,1000KB"], "`1MB` and `1000KB`, which are one value"),
            (&["a.cm"], "a second `a.cm`"),
            (&["a b.cm", "a-b.cm"], "`a b` and `a-b`, whose runs would have one name"),
            (&["--set", "switch.queue=1MB,2MB", "--set", "switch.queue=3MB,4MB"], "a second axis"),
            (
                &[
                    "--seed",
                    "1..100",
                    "--cc",
                    "swift,dctcp",
                    "--set",
                    "switch.kmin=0.1,0.2,0.3,\
              0.4,0.5,0.6,0.7",
                    "--lb",
                    "reps,ecmp,spray",
                ],
                "at most 4096",
            ),
        ] {
            let error = names(flags).unwrap_err();
            assert!(error.contains(part), "{flags:?}: {error}");
        }
    }
}
