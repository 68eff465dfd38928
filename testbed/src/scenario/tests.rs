//! Tests of the scenario reader: what is understood, what is refused and where.

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<Scenario, InputError> {
    Scenario::read(text.as_bytes(), "fig5.toml", Path::new("dir"))
}

const SAMPLE: &str = r#"topology = "ft128-1os"
transport = "smartt"
trim = true
seed = 0x10

[scenario]
name = "incast 8:1"
about = "eight senders"
cc = "smartt"

[workload]
kind = "incast"
degree = 8
size = "64KiB"

[set]
cm.start_unit = "ps"
smartt.fi = 0.25

[[fault]]
link = "tor:0:up:2"
kind = "degrade"
factor = 0.5
from_us = 10

[[fault]]
kind = "reorder"
rate = 0.01
delay_us = 2.5

[sampling]
interval_us = 0.5
"#;

#[test]
fn every_part_of_a_scenario_is_understood() {
    let scenario = parse(SAMPLE).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.about.as_str()), ("incast 8:1", "eight senders"));
    assert_eq!(scenario.topology, Some(TopologySource::Builtin("ft128-1os".to_owned())));
    assert_eq!((scenario.trim, scenario.seed), (Some(true), Some(16)));
    let cc = scenario.cc.unwrap();
    assert_eq!((cc.value.as_str(), cc.line, cc.column), ("smartt", 9, 6));
    let settings: Vec<_> =
        scenario.settings.iter().map(|s| (s.key.as_str(), s.value.value.as_str())).collect();
    assert_eq!(settings, [("cm.start_unit", "ps"), ("smartt.fi", "0.25")]);
    let faults: Vec<_> = scenario.faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults, ["degrade:0.5@tor:0:up:2,from_us=10", "reorder:0.01@all,delay_us=2.5"]);
    assert_eq!(scenario.sampling, Some(Duration::from_ns(500)));
    let (matrix, warnings) =
        scenario.traffic.matrix(128, StartUnit::Us, &mut transport::Rng::new(1)).unwrap();
    assert_eq!((matrix.flows.len(), matrix.flows[0].src.0, warnings.len()), (8, 64, 0));
}

#[test]
fn files_are_relative_to_the_scenario_and_the_name_is_the_files() {
    let scenario = parse("[scenario]\nmatrix = \"a.cm\"\ntopology = \"b.topo\"\n").unwrap();
    assert_eq!(scenario.name, "fig5");
    assert!(matches!(scenario.traffic, Traffic::File(path) if path == Path::new("dir/a.cm")));
    assert_eq!(scenario.topology, Some(TopologySource::File(PathBuf::from("dir/b.topo"))));
}

#[test]
fn what_is_wrong_is_named_with_line_column_and_cure() {
    let edit = |from: &str, to: &str| SAMPLE.replacen(from, to, 1);
    for (text, place, words) in [
        (edit("transport =", "transprot ="), "fig5.toml:2:1: ", "did you mean `transport`"),
        (edit("name =", "nme ="), "fig5.toml:7:1: ", "did you mean `name`"),
        (edit("ft128-1os", "ft128-1so"), "fig5.toml:1:12: ", "did you mean `ft128-1os`"),
        (edit("trim = true", "trim = 1"), "fig5.toml:3:8: ", "true or false"),
        (edit("seed = 0x10", "seed = -1"), "fig5.toml:4:8: ", "0..=2^64-1"),
        (edit("\"incast\"", "\"incsat\""), "fig5.toml:12:8: ", "did you mean `incast`"),
        (edit("degree = 8", "degree = 0"), "fig5.toml:13:10: ", "an integer in 1.."),
        (edit("degree = 8", "degre = 8"), "fig5.toml:13:9: ", "did you mean `degree`"),
        (edit("degree = 8", "nodes = 0"), "fig5.toml:13:9: ", "a number of hosts"),
        (edit("kind = \"incast\"\n", ""), "fig5.toml:11:1: ", "without `kind`"),
        (edit("cc = \"smartt\"", "seed = 3"), "fig5.toml:9:8: ", "one place"),
        (edit("link = \"tor", "link = \"rack"), "fig5.toml:21:8: ", "links `rack:0:up:2`"),
        (edit("factor = 0.5", "rate = 0.5"), "fig5.toml:20:1: ", "no `factor`"),
        (edit("delay_us = 2.5", "delay = 2.5"), "fig5.toml:29:1: ", "did you mean `delay_us`"),
        (edit("interval_us = 0.5", "interval_us = 0"), "fig5.toml:32:15: ", "above zero"),
        (edit("[workload]", "[workload"), "fig5.toml:11:10: ", "not TOML"),
        (edit("[workload]", "[workload]\nx = [1]"), "fig5.toml:12:5: ", "a string, a number"),
        ("seed = 1".to_owned(), "fig5.toml:1:1: ", "no traffic"),
        (format!("matrix = \"a.cm\"\n{SAMPLE}"), "fig5.toml:1:10: ", "one of the two"),
        ("set = 3\nmatrix = 'a.cm'".to_owned(), "fig5.toml:1:7: ", "a table"),
    ] {
        let error = parse(&text).err().unwrap_or_else(|| panic!("accepted: {text}")).to_string();
        assert!(error.starts_with(place) && error.contains(words), "{place}{words}\n{error}");
    }
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_line() {
    let error = Scenario::read(b"seed = 1\n\xff", "s.toml", Path::new(".")).unwrap_err();
    assert_eq!((error.line, error.expected.as_str()), (2, "text in UTF-8"));
}

#[test]
fn deep_nesting_is_an_error_and_not_an_overflow() {
    for (open, close) in [("[", "]"), ("{a=", "}")] {
        let text = format!("x = {}{}", open.repeat(100_000), close.repeat(100_000));
        assert!(parse(&text).is_err());
    }
    let dotted = format!("[set]\n{}x = 1", "a.".repeat(100_000));
    let _ = parse(&dotted);
}

proptest! {
    #[test]
    fn any_bytes_give_a_scenario_or_an_error(bytes: Vec<u8>) {
        let _ = Scenario::read(&bytes, "s", Path::new("."));
    }

    #[test]
    fn a_mutated_file_gives_a_scenario_or_an_error_with_a_line(
        at in 0..SAMPLE.len(), byte: u8, cut in 0usize..6,
    ) {
        let mut text = SAMPLE.as_bytes().to_vec();
        let end = (at + cut).min(text.len());
        text.splice(at..end, [byte]);
        if let Err(error) = Scenario::read(&text, "s.toml", Path::new(".")) {
            prop_assert!(error.line > 0, "{}", error);
        }
    }
}
