//! Whether runs that went apart are of one sweep: their manifests say by which program, from which
//! files and with which flags each ran.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use experiments::input::InputError;
use experiments::plan::keys;
use experiments::scenario::AxisPoint;

use crate::manifest::{self, Recorded, Setting};

/// A run of a sweep.
#[derive(Debug)]
pub(super) struct Piece {
    /// The path of the manifest.
    pub(super) of: PathBuf,
    /// The place on each axis of the sweep.
    pub(super) parts: Vec<AxisPoint>,
    /// What the manifest says.
    pub(super) manifest: Recorded,
}

/// Something of a run that is the same for all runs of a sweep: its name, and its value in words.
type Fact = (String, String);

/// Refuses runs of different sweeps.
///
/// # Errors
/// Names the first difference with the manifests that it is between.
pub(super) fn check(pieces: &[Piece]) -> Result<(), InputError> {
    same(pieces.iter().map(|piece| (piece, vec![program(piece)])))?;
    same(pieces.iter().map(|piece| (piece, files(piece))))?;
    let flags: BTreeSet<&str> = pieces.iter().flat_map(flags).collect();
    let given =
        |piece: &Piece| flags.iter().map(|key| ((*key).to_owned(), setting(piece, key))).collect();
    same(pieces.iter().map(|piece| (piece, given(piece))))
}

/// Compares facts of the same name.
fn same<'p>(facts: impl Iterator<Item = (&'p Piece, Vec<Fact>)>) -> Result<(), InputError> {
    let mut known: BTreeMap<String, (String, &Piece)> = BTreeMap::new();
    for (piece, facts) in facts {
        for (name, value) in facts {
            let (first, of) = known.entry(name.clone()).or_insert_with(|| (value.clone(), piece));
            if *first != value {
                let expected = format!("{first}, as in {}", of.of.display());
                let error = InputError::new(format!("{name} {value}"), expected);
                let help = "parts of one sweep have the same program, files and flags: run this \
                            part again, or gather the sweeps apart";
                return Err(error.at(&piece.of.display().to_string(), 0, 0).help(help));
            }
        }
    }
    Ok(())
}

fn program(piece: &Piece) -> Fact {
    let Recorded { version, commit, .. } = &piece.manifest;
    let commit = commit.as_deref().filter(|commit| !commit.is_empty());
    let commit = commit.map_or_else(String::new, |commit| format!(" ({commit})"));
    ("headrace".to_owned(), format!("{version}{commit}"))
}

/// The files of a run: those of a command line by their role, those that its scenario names by
/// their path.
fn files(piece: &Piece) -> Vec<Fact> {
    let inputs = &piece.manifest.inputs;
    let has_scenario = inputs.iter().any(|input| input.role == "scenario");
    let matrix = piece.parts.iter().find(|part| part.axis == "matrix");
    let name = |role: &str, path: &str| match (role, matrix) {
        ("scenario", _) => "the scenario file".to_owned(),
        ("matrix", Some(part)) => format!("the matrix `{}`", part.label),
        ("matrix", None) if !has_scenario => "the matrix".to_owned(),
        _ => format!("the {role} {path}"),
    };
    let fact = |input: &manifest::Input| {
        let hash: String = input.sha256.chars().take(HASH_SHOWN).collect();
        (name(&input.role, &input.path), format!("with SHA-256 {hash}"))
    };
    inputs.iter().map(fact).collect()
}

/// Digits of a hash that distinguish files.
const HASH_SHOWN: usize = 12;

/// The settings of a run that flags gave, and no axis: those are the same in all runs.
fn flags(piece: &Piece) -> impl Iterator<Item = &str> {
    let by_flag = |source: &str| source == "--set" || source.starts_with("flag --");
    let settings = piece.manifest.configuration.iter();
    let given: Vec<_> = settings.filter(|set| by_flag(&set.source)).collect();
    let on_axes: BTreeSet<&str> =
        piece.parts.iter().flat_map(|part| on_axis(part, &given)).collect();
    let fixed = move |key: &&str| !manifest::FREE.contains(key) && !on_axes.contains(key);
    given.into_iter().map(|set| set.key.as_str()).filter(fixed)
}

/// The settings among those `given` that a place on an axis has set. An axis is called by the last
/// word of either name of a key. Where several keys have that word, the value distinguishes them.
fn on_axis<'p>(part: &AxisPoint, given: &[&'p Setting]) -> Vec<&'p str> {
    let last = |key: &str| key.rsplit('.').next() == Some(part.axis.as_str());
    let named = given.iter().filter(|set| last(&set.key) || last(keys::familiar(&set.key)));
    let named: Vec<&&Setting> = named.collect();
    let has_value = |set: &&&Setting| AxisPoint::new(&part.axis, &set.value).label == part.label;
    let exact: Vec<&&Setting> = named.iter().copied().filter(has_value).collect();
    let chosen = if exact.is_empty() { named } else { exact };
    chosen.into_iter().map(|set| set.key.as_str()).collect()
}

/// The value of a setting in words; of a topology that is a file, its hash: it may be elsewhere on
/// another machine.
fn setting(piece: &Piece, key: &str) -> String {
    let file = piece.manifest.inputs.iter().find(|input| key == "topology" && input.role == key);
    if let Some(file) = file {
        return format!("a file with SHA-256 {}", file.sha256);
    }
    // A fault is a setting each.
    let sets = piece.manifest.configuration.iter().filter(|set| set.key == key);
    let values: Vec<String> = sets.map(|set| format!("`{}`", set.value)).collect();
    if values.is_empty() { "nothing".to_owned() } else { values.join(", ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn piece(
        label: &str,
        commit: &str,
        settings: &[(&str, &str, &str)],
        files: &[[&str; 3]],
    ) -> Piece {
        let configuration = settings
            .iter()
            .map(|(key, value, source)| json!({"key": key, "value": value, "source": source}));
        let inputs = files.iter().map(|[role, path, sha256]| {
            json!({"role": role, "path": path, "bytes": 1, "sha256": sha256})
        });
        let manifest = json!({
            "version": "0.1.0", "commit": commit, "arguments": [],
            "configuration": configuration.collect::<Vec<_>>(),
            "inputs": inputs.collect::<Vec<_>>(),
        });
        Piece {
            of: format!("{label}/manifest.json").into(),
            parts: vec![AxisPoint::new("transport", label)],
            manifest: serde_json::from_value(manifest).unwrap(),
        }
    }

    #[test]
    fn runs_of_one_sweep_differ_by_its_axes_by_defaults_and_by_where_files_are() {
        let swift =
            [("transport", "swift", "flag --transport"), ("cc", "swift", "transport swift")];
        let dctcp = [
            ("transport", "dctcp", "flag --transport"),
            ("cc", "dctcp", "transport dctcp"),
            ("sim.threads", "4", "flag --threads"),
        ];
        let here = [["matrix", "a.cm", "01"], ["topology", "/x/n.topo", "02"]];
        let there = [["matrix", "/home/a.cm", "01"], ["topology", "/y/n.topo", "02"]];
        let topo = |path: &'static str| [("topology", path, "flag --topo")];
        let left = [&swift[..], &topo("/x/n.topo")].concat();
        let right = [&dctcp[..], &topo("/y/n.topo")].concat();
        check(&[piece("swift", "c", &left, &here), piece("dctcp", "c", &right, &there)]).unwrap();
        check(&[]).unwrap();
    }

    #[test]
    fn an_axis_frees_its_own_key_alone_whichever_of_its_names_was_typed() {
        let at = |axis: &str, label: &str, settings: &[(&str, &str, &str)]| Piece {
            parts: vec![AxisPoint::new(axis, label)],
            ..piece(label, "c", settings, &[])
        };
        let drift = |value: &'static str| [("host.drift_ppm", value, "--set")];
        let both = [at("clock_drift", "1", &drift("1")), at("clock_drift", "2", &drift("2"))];
        check(&both).unwrap();
        let alpha = |own: &'static str, other: &'static str| {
            [("cc.x.alpha", own, "--set"), ("switch.pfc.alpha", other, "--set")]
        };
        check(&[at("alpha", "1", &alpha("1", "8")), at("alpha", "2", &alpha("2", "8"))]).unwrap();
        let differ = [at("alpha", "1", &alpha("1", "8")), at("alpha", "2", &alpha("2", "9"))];
        let error = check(&differ).unwrap_err().to_string();
        assert!(error.contains("switch.pfc.alpha `9`"), "{error}");
        let faults = |second: &'static str| [("fault", "A", "--set"), ("fault", second, "--set")];
        let error = check(&[at("seed", "1", &faults("B")), at("seed", "2", &faults("C"))]);
        assert!(error.unwrap_err().to_string().contains("fault `A`, `C`"));
    }

    #[test]
    fn runs_of_other_programs_files_and_flags_are_refused_by_name() {
        let matrix = [["matrix", "a.cm", "01"]];
        let first = || piece("one", "c", &[("trim", "off", "flag --trim")], &matrix);
        let trim = ("trim", "off", "flag --trim");
        let rtt = ("far.rtt", "1us", "--set");
        for (other, words) in [
            (piece("two", "d", &[trim], &matrix), "headrace 0.1.0 (d), expected 0.1.0 (c)"),
            (piece("two", "c", &[("trim", "on", "default")], &matrix), "trim `on`"),
            (piece("two", "c", &[trim, rtt], &matrix), "far.rtt `1us`, expected nothing"),
            (piece("two", "c", &[trim], &[["matrix", "a.cm", "02"]]), "the matrix with SHA-256 02"),
        ] {
            let error = check(&[first(), other]).unwrap_err().to_string();
            assert!(error.starts_with("two/manifest.json: found "), "{error}");
            assert!(error.contains(words) && error.contains("one/manifest.json"), "{error}");
        }
    }
}
