//! Tests of the scenario reader: accepted and refused inputs, and the places of errors.

use proptest::prelude::*;

use super::*;

/// The only run of a scenario without variants.
fn only(scenario: Scenario) -> Setup {
    assert!(!scenario.has_variants());
    scenario.runs.into_iter().next().unwrap().setup
}

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
    assert_eq!(scenario.figure, Figure::default());
    let scenario = only(scenario);
    assert_eq!(scenario.topology, Some(TopologySource::Builtin("ft128-1os".to_owned())));
    let trim = Located { value: true, line: 3, column: 8 };
    assert_eq!((scenario.trim, scenario.seed), (Some(trim), Some(16)));
    let cc = scenario.cc.unwrap();
    assert_eq!((cc.value.as_str(), cc.line, cc.column), ("smartt", 9, 6));
    let settings: Vec<_> =
        scenario.settings.iter().map(|s| (s.key.as_str(), s.value.value.as_str())).collect();
    assert_eq!(settings, [("cm.start_unit", "ps"), ("smartt.fi", "0.25")]);
    let faults: Vec<_> = scenario.faults.iter().map(|fault| fault.value.to_string()).collect();
    assert_eq!(faults, ["degrade:0.5@tor:0:up:2,from_us=10", "reorder:0.01@all,delay_us=2.5"]);
    let interval = Located { value: Duration::from_ns(500), line: 32, column: 15 };
    assert_eq!(scenario.sampling, Some(interval));
    let (matrix, warnings) =
        scenario.traffic.matrix(128, StartUnit::Us, &mut transport::Rng::new(1)).unwrap();
    assert_eq!((matrix.flows.len(), matrix.flows[0].src.0, warnings.len()), (8, 64, 0));
}

#[test]
fn files_are_relative_to_the_scenario_and_the_name_is_the_files() {
    let scenario = parse("[scenario]\nmatrix = \"a.cm\"\ntopology = \"b.topo\"\n").unwrap();
    assert_eq!(scenario.name, "fig5");
    let scenario = only(scenario);
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
        (edit("interval_us = 0.5", "interval_us = 0"), "fig5.toml:32:15: ", "at least"),
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

const VARIANTS: &str = r#"topology = "ft128-1os"
[scenario]
name = "fig7"
trim = true
[workload]
kind = "incast"
degree = 8
[set]
cc.smartt.fi = 0.25
[[fault]]
kind = "down"
[[variant]]
name = "a"
[[variant]]
name = "b"
trim = false
set = { "cc.smartt.fi" = 0.5, mtu = 1024 }
[[variant.fault]]
kind = "loss"
rate = 0.5
[[variant]]
name = "c"
workload = { kind = "ring", size = "9KiB" }
[grid]
workload.size = ["1KiB", "2KiB"]
topology = ["ft128-1os", "leaf-spine:16,2,8"]
[figure]
of = "smartt fig. 7"
[[plot]]
kind = "lines"
x = "size"
panel = "topology"
y = "fct_us.max"
without = "c"
[[plot]]
kind = "series"
flows = 2
from_us = 3.5
"#;

#[test]
fn variants_and_grid_make_every_combination_in_the_order_of_the_file() {
    let scenario = parse(VARIANTS).unwrap();
    let names: Vec<&str> = scenario.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!((names.len(), scenario.has_variants()), (12, true));
    assert_eq!(names[0], "a,size=1KiB,topology=ft128-1os");
    assert_eq!(names[1], "a,size=1KiB,topology=leaf-spine-16-2-8");
    assert_eq!(names[11], "c,size=2KiB,topology=leaf-spine-16-2-8");
    let wanted = |name: &str| scenario.runs.iter().filter(|run| picks(name, &run.parts)).count();
    let counts = ["b", "size=1KiB", "c,size=2KiB", names[3], "size", "d", ""].map(wanted);
    assert_eq!(counts, [4, 6, 2, 1, 0, 0, 0]);
}

#[test]
fn a_variant_is_laid_over_the_scenario_key_by_key() {
    let scenario = parse(VARIANTS).unwrap();
    let of = |name: &str| &scenario.runs.iter().find(|run| picks(name, &run.parts)).unwrap().setup;
    let settings = |setup: &Setup| -> Vec<(String, String)> {
        setup.settings.iter().map(|s| (s.key.clone(), s.value.value.clone())).collect()
    };
    let (a, b, c) = (of("a"), of("b"), of("c"));
    let trim = |setup: &Setup| setup.trim.as_ref().map(|trim| trim.value);
    assert_eq!((trim(a), trim(b)), (Some(true), Some(false)));
    assert_eq!((a.faults.len(), b.faults.len()), (1, 2));
    let text = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    };
    assert_eq!(settings(a), text(&[("cc.smartt.fi", "0.25")]));
    // The later one wins when they are applied.
    let both = [("cc.smartt.fi", "0.25"), ("cc.smartt.fi", "0.5"), ("mtu", "1024")];
    assert_eq!(settings(b), text(&both));
    let flows = |setup: &Setup| {
        let rng = &mut transport::Rng::new(1);
        let matrix = setup.traffic.matrix(4, StartUnit::Us, rng);
        matrix.map(|(matrix, _)| (matrix.flows.len(), matrix.flows[0].size.0))
    };
    assert!(flows(a).is_err(), "eight senders among four hosts");
    assert_eq!(flows(c).unwrap(), (12, 1024));
}

#[test]
fn a_figure_says_which_measure_goes_where() {
    let figure = parse(VARIANTS).unwrap().figure;
    assert_eq!((figure.of.as_str(), figure.plots.len()), ("smartt fig. 7", 2));
    let lines = &figure.plots[0];
    assert_eq!((lines.kind, lines.y.as_str()), (PlotKind::Lines, "fct_us.max"));
    assert_eq!((lines.x.as_deref(), lines.panel.as_deref()), (Some("size"), Some("topology")));
    assert_eq!(lines.without.as_deref(), Some("c"));
    let series = &figure.plots[1];
    assert_eq!((series.y.as_str(), series.flows, series.from_us), ("goodput_gbps", 2, 3.5));
}

#[test]
fn wrong_variants_grids_and_plots_are_refused_where_they_stand() {
    let edit = |from: &str, to: &str| VARIANTS.replacen(from, to, 1);
    for (text, place, words) in [
        (edit("name = \"b\"", "name = \"a\""), "fig5.toml:15:8: ", "a second variant `a`"),
        (edit("name = \"b\"", "name = \"../b\""), "fig5.toml:15:8: ", "names a directory"),
        (edit("name = \"b\"\n", ""), "fig5.toml:14:1: ", "without `name`"),
        (edit("trim = false", "trimm = false"), "fig5.toml:16:1: ", "did you mean `trim`"),
        (edit("trim = false", "trim = 0"), "fig5.toml:16:8: ", "true or false"),
        (edit("rate = 0.5", "rate = 5"), "fig5.toml:20:8: ", "a probability"),
        (edit("\"ring\"", "\"rnig\""), "fig5.toml:23:21: ", "did you mean `ring`"),
        (edit("[\"1KiB\", \"2KiB\"]", "\"1KiB\""), "fig5.toml:25:17: ", "an array"),
        (edit("[\"1KiB\", \"2KiB\"]", "[]"), "fig5.toml:25:17: ", "an array without values"),
        (edit("\"2KiB\"", "\"1KiB\""), "fig5.toml:25:26: ", "a second `1KiB`"),
        (edit("\"2KiB\"", "\"2KB?\""), "fig5.toml:25:26: ", "a size"),
        (edit("\"2KiB\"", "[1]"), "fig5.toml:25:26: ", "a string"),
        (edit("workload.size", "wrokload.size"), "fig5.toml:25:1: ", "did you mean `workload`"),
        (edit("topology = [", "set.size = ["), "fig5.toml:26:5: ", "a second axis `size`"),
        (edit("kind = \"lines\"", "kind = \"line\""), "fig5.toml:30:8: ", "did you mean `lines`"),
        (edit("x = \"size\"", "x = \"sise\""), "fig5.toml:31:5: ", "did you mean `size`"),
        (edit("x = \"size\"\n", ""), "fig5.toml:29:1: ", "no `x`"),
        (edit("fct_us.max", "fct_us.mx"), "fig5.toml:33:5: ", "did you mean `fct_us.max`"),
        (edit("without = \"c\"", "without = \"d\""), "fig5.toml:34:11: ", "a variant, or a value"),
        (edit("without = \"c\"", "beside = \"fct_us.mx\""), "fig5.toml:34:10: ", "did you mean"),
        (
            edit("without = \"c\"", "beside = \"fct_us.max\""),
            "fig5.toml:34:10: ",
            "another measure",
        ),
        (edit("flows = 2", "beside = \"flow_gbps\""), "fig5.toml:37:10: ", "bars or lines"),
        (edit("flows = 2", "flows = 0"), "fig5.toml:37:9: ", "1..=4096"),
        (edit("from_us = 3.5", "from_us = -1"), "fig5.toml:38:11: ", "microseconds"),
    ] {
        let error = parse(&text).err().unwrap_or_else(|| panic!("accepted: {text}")).to_string();
        assert!(error.starts_with(place) && error.contains(words), "{place}{words}\n{error}");
    }
    let many: Vec<String> = (0..20).map(|i| i.to_string()).collect();
    let many = many.join(", ");
    let grid = format!("matrix = \"a.cm\"\n[grid]\nseed = [{many}]\nset.mtu = [{many}]\n");
    let error = parse(&grid).unwrap_err().to_string();
    assert!(error.contains("at most 256 runs"), "{error}");
}

#[test]
fn a_file_that_is_not_there_is_named_with_the_line_that_asks_for_it() {
    let folder = std::env::temp_dir().join(format!("headrace-scenario-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let scenario = folder.join("s.toml");
    std::fs::write(&scenario, "matrix = \"a.cm\"\ntopology = \"b.topo\"\n").unwrap();
    let read = || Scenario::read_path(&scenario).unwrap().runs.remove(0).setup;
    let places = ["a.cm", "b.topo"].map(|missing| {
        let error = read().expect_files("s.toml", true).unwrap_err();
        assert!(error.found.contains(missing) && error.file == "s.toml", "{error}");
        assert_eq!(read().expect_files("s.toml", false).is_ok(), missing == "b.topo");
        std::fs::write(folder.join(missing), "").unwrap();
        (error.line, error.column)
    });
    assert_eq!(places, [(1, 10), (2, 12)]);
    read().expect_files("s.toml", true).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
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
        at in 0..SAMPLE.len(), byte: u8, cut in 0usize..6, with_variants: bool,
    ) {
        let text = if with_variants { VARIANTS } else { SAMPLE };
        let (mut text, at) = (text.as_bytes().to_vec(), at.min(text.len()));
        let end = (at + cut).min(text.len());
        text.splice(at..end, [byte]);
        if let Err(error) = Scenario::read(&text, "s.toml", Path::new(".")) {
            prop_assert!(error.line > 0, "{}", error);
        }
    }
}
