//! Tournaments as a user runs them.

use std::fs;

use experiments::plan::transports;
use experiments::tournament::FAMILIES;
use serde_json::Value;

use super::*;

#[test]
fn the_field_is_of_known_transports() {
    FIELD.iter().for_each(|name| assert!(transports::by_name(name).is_some(), "{name}"));
}

#[derive(Debug, clap::Parser)]
struct TournamentLine {
    #[command(flatten)]
    tournament: TournamentArgs,
}

#[test]
fn every_mix_takes_every_transport_of_the_field() {
    for (purpose, seed) in Purpose::ALL.into_iter().flat_map(|one| (1..=4).map(move |n| (one, n))) {
        let line = format!("tournament --purpose {} --seed {seed} --out unused", purpose.name());
        let TournamentLine { tournament } =
            TournamentLine::try_parse_from(line.split(' ')).unwrap();
        let draws = tournament.draws();
        let text = scenario(&draws, &draws.mixes().unwrap());
        let out = Path::new("unused");
        let words = tournament.run_line(&out.join("tournament.toml"), out);
        let RunLine { run } = RunLine::try_parse_from(&words).unwrap();
        if let Err(failure) = RunOrder::of_text(&run, &text) {
            panic!("{line}: {failure:?}");
        }
    }
}

fn headrace(line: &str) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let words = ["headrace", "tournament"].into_iter().chain(line.split('|'));
    let code = crate::main_with(words.map(OsString::from), &mut out, &mut err);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

/// The tournament with these flags, words apart by `|`, in `dir`.
fn held(dir: &tempfile::TempDir, flags: &str) -> (u8, String, String) {
    headrace(&format!("--scale=0.001|{flags}|--out|{}", dir.path().display()))
}

#[test]
fn a_small_mix_of_every_family_is_run_and_ranked() {
    let dir = tempfile::tempdir().unwrap();
    let flags = "--purpose=checking|--mixes=1|--transport|uno, smartt|--json";
    let (code, json, err) = held(&dir, flags);
    assert_eq!(code, 0, "{err}");
    let standings: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(standings["contestants"], serde_json::json!(["uno", "smartt"]));
    assert_eq!(standings["sources"], crate::provenance::SOURCES);
    let places = standings["places"].as_array().unwrap();
    assert_eq!(places.len(), 2 * FAMILIES.len());
    for place in places {
        let ratios = place["ratios"].as_array().unwrap_or_else(|| panic!("{place}"));
        assert!(ratios[..3].iter().all(|ratio| ratio.as_f64().unwrap() >= 1.0), "{place}");
        // Short flows have a measure of their own in families that are about them.
        let is_short = ["mice", "workload"].contains(&place["family"].as_str().unwrap());
        assert!(!is_short || ratios[3].is_f64(), "{place}");
    }
}

const LINE: &str = "--mixes=1|--family|pairs,near-incast";

#[test]
fn what_ran_on_the_same_mix_by_the_same_code_is_kept_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let kept = |flags: &str| {
        let (code, text, err) = held(&dir, flags);
        assert_eq!(code, 0, "{err}");
        let line = err.lines().find(|line| line.contains("runs are in")).unwrap();
        (line.split(" runs").next().unwrap().to_owned(), text)
    };
    assert_eq!(kept(&format!("{LINE}|--transport=uno,smartt")).0, "0 of 4");
    // One transport more, one mix more of each family, one family less.
    assert_eq!(kept(&format!("{LINE}|--transport=uno,smartt,swift")).0, "4 of 6");
    assert_eq!(kept("--mixes=2|--family=pairs,near-incast|--transport=uno,smartt").0, "4 of 8");
    let (count, text) = kept("--mixes=1|--family=pairs|--transport=uno,smartt,swift");
    assert_eq!(count, "3 of 3");
    assert_eq!(kept("--mixes=1|--family=pairs|--transport=uno,smartt,swift").1, text);
    // Another seed draws another mix of the same name.
    assert_eq!(kept(&format!("{LINE}|--seed=2|--transport=uno,smartt")).0, "0 of 4");
    // The code was another.
    let manifest = dir.path().join("pairs-1,transport=uno/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let changed = text.replace(crate::provenance::SOURCES, "0123456789abcdef");
    assert_ne!(text, changed);
    fs::write(&manifest, changed).unwrap();
    assert_eq!(kept(&format!("{LINE}|--seed=2|--transport=uno,smartt")).0, "3 of 4");
}

#[test]
fn values_of_a_setting_are_compared_and_measured_against_one_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let flags = "--mixes=1|--family=far-incast,pairs|--transport=uno|--set|cc.unocc.initial=1,0.25";
    let (code, text, err) = held(&dir, &format!("{flags}|--reference=initial=1"));
    assert_eq!(code, 0, "{err}");
    assert!(text.contains("initial=0.25") && text.contains("multiples of initial=1"), "{text}");
    let (code, _, err) = held(&dir, &format!("{flags}|--reference=initial=2"));
    assert!(code == 2 && err.contains("--reference") && err.contains("initial=1"), "{err}");
}

#[test]
fn what_cannot_be_compared_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tournament.toml");
    fs::write(&file, "of earlier mixes").unwrap();
    for (flags, part) in [
        ("--transport=uno", "one transport has no rank"),
        ("--family=dead-link", "a family of tuning"),
        ("--family=dead-link", "dead-link is of checking alone: --purpose checking"),
        ("--family=paris", "did you mean `pairs`"),
        ("--transport=uno,smrtt", "did you mean `smartt`"),
        ("--transport=uno,smartt|--mixes=200", "at most 32"),
        ("--purpose=checkin", "tuning"),
        ("--transport=uno,smartt|--set=switch.queue=1MB", "switch.queue"),
        ("--transport=uno,smartt|--set=run.limit=1s", "a limit that --scale gives"),
        ("--transport=uno,mlcc|--family=far-incast|--mixes=1", "`mlcc`, which sets switch.queue"),
    ] {
        let (code, _, err) = held(&dir, flags);
        assert!(code == 2 && err.contains(part), "{flags}: {code} {err}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "of earlier mixes", "{flags}");
    }
    for (flags, part) in [
        ("--transport=uno,smartt", "--out: found no --out, expected a directory"),
        ("--transport=uno,smrtt", "did you mean `smartt`"),
        ("--family=paris", "did you mean `pairs`"),
    ] {
        let (code, _, err) = headrace(flags);
        assert!(code == 2 && err.contains(part), "{flags}: {code} {err}");
    }
    let (code, _, err) = headrace("--scale=0|--out=x");
    assert!(code == 2 && err.contains("no number of 0.001 to 1000"), "{err}");
}

#[test]
fn families_are_listed_by_purpose_as_text_and_as_json() {
    let lines = |flags: &str| headrace(flags).1.lines().count();
    assert_eq!(lines("--list"), FAMILIES.len());
    assert_eq!(lines("--list|--purpose=checking"), FAMILIES.len());
    assert_eq!(lines("--list|--purpose=tuning"), Purpose::Tuning.families().count());
    let (code, json, _) = headrace("--list|--json|--purpose=tuning");
    let all: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, all.as_array().unwrap().len()), (0, Purpose::Tuning.families().count()));
    assert_eq!(all[0]["purpose"], "tuning");
}

#[test]
fn a_tournament_that_fails_leaves_no_standings_of_other_mixes() {
    let dir = tempfile::tempdir().unwrap();
    let standings = dir.path().join("standings.json");
    let flags = "--family=pairs|--transport=uno,smartt|--mixes";
    assert_eq!(held(&dir, &format!("{flags}=1")).0, 0);
    assert!(standings.exists());
    // The directory of one more run cannot be made.
    fs::write(dir.path().join("pairs-2,transport=uno"), "a file").unwrap();
    let (code, _, err) = held(&dir, &format!("{flags}=2"));
    assert!(code > 1 && err.contains("pairs-2,transport=uno"), "{code}: {err}");
    assert!(!standings.exists());
}

#[test]
fn each_flag_has_one_default_in_its_help() {
    let (code, help, _) = headrace("--help");
    assert_eq!(code, 0);
    for flag in help.split("\n      --") {
        assert!(flag.matches("[default").count() <= 1, "{flag}");
    }
}

#[test]
fn there_are_no_standings_of_runs_that_are_missing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tournament.toml");
    let draws = Draws {
        purpose: Purpose::Tuning,
        seed: 1,
        each: 1,
        scale: 0.001,
        families: vec!["pairs".to_owned()],
    };
    let mixes = draws.mixes().unwrap();
    let line = [OsString::from("run"), file.into(), "--transport=uno,swift".into()];
    let RunLine { run } = RunLine::try_parse_from(line).unwrap();
    let sweep = RunOrder::of_text(&run, &scenario(&draws, &mixes)).unwrap();
    let ended = || Some((Value::Null, true));
    assert!(places(&sweep, &mixes, &[ended(), None]).is_none());
    assert_eq!(places(&sweep, &mixes, &[ended(), ended()]).unwrap().len(), 2);
}
