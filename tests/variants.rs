//! Scenarios with variants through the command line: runs, their directories, and what report and
//! compare make of them.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use std::fs;
use std::path::Path;

use serde_json::Value;
use system_tests::examples::BALANCERS;

use program::{Ran, headrace};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn loads_whose_base_is_beyond_the_network_end_with_two_and_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = |topology: &str, loads: &str| {
        let text = format!(
            "topology = \"{topology}\"\n[workload]\nkind = \"poisson-two-dc\"\n\
             link_rate = \"25Gbps\"\nduration = \"50us\"\n{loads}"
        );
        let path = dir.path().join("loads.toml");
        fs::write(&path, text).unwrap();
        headrace(&["run", path.to_str().unwrap(), "--json"])
    };
    let loads = |intra: &str, inter: &str| {
        format!(
            "intra_load = \"0.1\"\nintra_base = \"{intra}\"\ninter_load = \"0.1\"\n\
             inter_base = \"{inter}\"\n"
        )
    };
    let network = "two-dc-leaf:10us,100,1,8";
    let ran = scenario(network, &loads("800Gbps", "100Gbps"));
    assert_eq!(ran.code, 0, "{ran:?}");
    for (topology, loads, words) in [
        (network, loads("801Gbps", "100Gbps"), "loads.toml:7:"),
        // Before the matrix is drawn, whose error would be another.
        (network, loads("99999Gbps", "100Gbps"), "intra_base = 99999.000Gbps"),
        (network, loads("801Gbps", "100Gbps"), "intra_base = 801.000Gbps, expected at most 800"),
        (network, loads("800Gbps", "101Gbps"), "loads.toml:9:"),
        (network, loads("800Gbps", "101Gbps"), "help: set inter_base to what the network has"),
    ] {
        let ran = scenario(topology, &loads);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        assert!(ran.err.contains(words), "{words}: {ran:?}");
    }
}

/// A directory with the scenario in it.
fn scenario() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("balancers.toml");
    fs::write(&path, BALANCERS).unwrap();
    (dir, path.to_str().unwrap().to_owned())
}

fn path(dir: &tempfile::TempDir, name: &str) -> String {
    dir.path().join(name).to_str().unwrap().to_owned()
}

/// The summaries of an array without what depends on the machine.
fn lasting(array: &Value) -> Vec<Value> {
    let mut all = array.as_array().unwrap().clone();
    for summary in &mut all {
        for key in ["wall_s", "hops_per_s", "peak_rss_bytes"] {
            summary.as_object_mut().unwrap().remove(key).unwrap();
        }
    }
    all
}

#[test]
fn every_variant_runs_and_is_an_element_of_the_array() {
    let (_dir, file) = scenario();
    let ran = headrace(&["run", &file, "--json", "--quiet"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let array = json(&ran.out);
    let of = |key: &str| -> Vec<&str> {
        array.as_array().unwrap().iter().map(|e| e[key].as_str().unwrap()).collect()
    };
    let names = ["reps,size=64KiB", "reps,size=256KiB", "ecmp,size=64KiB", "ecmp,size=256KiB"];
    assert_eq!(of("variant"), names);
    assert_eq!(of("lb"), ["reps", "reps", "ecmp", "ecmp"]);
    assert_eq!(array[1]["bytes"]["offered"], 16 * (256 << 10));
    let parallel = headrace(&["run", &file, "--json", "--quiet", "--jobs", "3"]);
    assert_eq!(lasting(&array), lasting(&json(&parallel.out)));
}

#[test]
fn a_variant_runs_alone_by_its_name_or_a_part_of_it() {
    let (_dir, file) = scenario();
    let one = headrace(&["run", &file, "--json", "--variant", "ecmp,size=64KiB"]);
    assert_eq!((one.code, json(&one.out).as_array().unwrap().len()), (0, 1), "{one:?}");
    let two = headrace(&["run", &file, "--json", "--variant", "size=64KiB", "--seed", "9"]);
    let array = json(&two.out);
    assert_eq!((array[0]["lb"].as_str(), array[1]["lb"].as_str()), (Some("reps"), Some("ecmp")));
    assert_eq!(array[1]["seed"], 9);
    let none = headrace(&["run", &file, "--variant", "ecpm"]);
    assert_eq!((none.code, none.out.as_str()), (2, ""), "{none:?}");
    assert_eq!(
        none.err,
        format!(
            "error: --variant: found `ecpm`, expected at most one value of each axis, joined by \
             commas\n  help: did you mean `ecmp`? the axes of 4 runs:\n    reps ecmp\n    \
             size=64KiB size=256KiB\n  all names: headrace list variants {file}\n"
        )
    );
    let plain = headrace(&["run", "incast-15to1", "--variant", "x"]);
    assert_eq!(plain.code, 2, "{plain:?}");
    assert!(plain.err.contains("leave --variant out"), "{plain:?}");
    let flows = headrace(&["run", &file, "--flows"]);
    assert_eq!(flows.code, 2, "{flows:?}");
}

#[test]
fn a_wrong_name_of_a_variant_is_answered_with_the_axes_however_many_runs_there_are() {
    let error = |name: &str| {
        let ran = headrace(&["run", "fig12-incast", "--variant", name]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        assert!(ran.err.lines().all(|line| line.len() <= 160), "{}", ran.err);
        ran.err
    };
    // One part of several, a value without its axis, two values of an axis, and an unknown name.
    for (name, parts) in [
        ("smartt,dgree=8", ["found `dgree=8` in `smartt,dgree=8`", "did you mean `degree=8`?"]),
        ("1MiB", ["found `1MiB`", "did you mean `size=1MiB`?"]),
        ("size=1MiB,size=4MiB", ["two values of one axis", "name each in a --variant of its own"]),
        ("quicksilver", ["found `quicksilver`", "help: the axes of"]),
    ] {
        let text = error(name);
        for part in parts.into_iter().chain(["headrace list variants fig12-incast"]) {
            assert!(text.contains(part), "no {part}: {text}");
        }
    }
}

#[test]
fn the_variants_of_a_scenario_are_listed() {
    let (_dir, file) = scenario();
    let listed = headrace(&["list", "variants", &file]);
    assert_eq!((listed.code, listed.out.lines().count()), (0, 4), "{listed:?}");
    assert_eq!(listed.out.lines().next(), Some("reps,size=64KiB   variant reps, size 64KiB"));
    let array = json(&headrace(&["list", "variants", "fig12-incast", "--json"]).out);
    let name = array.as_array().unwrap().last().unwrap()["name"].as_str().unwrap().to_owned();
    assert!(name.contains(",degree=") && name.contains(",size="), "{name}");
    for (wrong, part) in [
        (&["list", "variants"][..], "SCENARIO"),
        (&["list", "variants", "permutation-16"], "which is one run"),
        (&["list", "variants", "smart"], "a built-in scenario"),
        (&["list", "cc", "smartt"], "nothing behind it"),
    ] {
        let ran = headrace(wrong);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        assert!(ran.err.contains(part), "no {part}: {ran:?}");
    }
}

#[test]
fn a_person_gets_one_table_and_the_time_left() {
    let (_dir, file) = scenario();
    let ran = headrace(&["run", &file]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.out.matches("16/16").count(), 4, "{}", ran.out);
    assert!(ran.out.contains("slowdown") && ran.err.contains("[4/4]"), "{ran:?}");
    assert_eq!(ran.err.matches("s left").count(), 4, "{ran:?}");
}

#[test]
fn what_a_variant_leaves_unfinished_ends_with_one() {
    let (_dir, file) = scenario();
    let ran = headrace(&["run", &file, "--set", "run.limit=12us", "--quiet"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("0/16"), "{ran:?}");
}

#[test]
fn a_mistake_in_one_variant_is_named_before_any_runs() {
    let (dir, file) = scenario();
    let text = BALANCERS.replace("lb = \"ecmp\"", "lb = \"ecpm\"");
    fs::write(&file, text).unwrap();
    let out = path(&dir, "out");
    let ran = headrace(&["run", &file, "--out", &out]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    assert!(ran.err.contains("balancers.toml:15:6") && ran.err.contains("`ecmp`"), "{ran:?}");
    assert!(!Path::new(&out).exists());
    fs::write(&file, BALANCERS.replace("nodes = 16", "nodes = 16\nworld = 3")).unwrap();
    assert_eq!(headrace(&["run", &file]).code, 2);
    fs::write(&file, format!("world = \"smi\"\n{BALANCERS}")).unwrap();
    let ran = headrace(&["run", &file]);
    assert!(ran.err.contains("did you mean `sim`"), "{ran:?}");
}

#[test]
fn a_report_draws_the_same_picture_from_the_same_results() {
    let (dir, file) = scenario();
    let [one, two] = ["one", "two"].map(|name| {
        let (runs, drawn) = (path(&dir, name), path(&dir, &format!("{name}-drawn")));
        assert_eq!(headrace(&["run", &file, "--quiet", "--out", &runs]).code, 0);
        let ran = headrace(&["report", &runs, "-o", &drawn]);
        assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
        ["svg", "json"]
            .map(|ending| fs::read_to_string(format!("{drawn}/balancers.{ending}")).unwrap())
    });
    assert_eq!(one, two);
    let [svg, numbers] = one;
    for text in ["<svg", "smartt fig. 3", "size 64KiB", "reps", "longest switch queue"] {
        assert!(svg.contains(text), "no {text}");
    }
    assert!(svg.len() < 100_000, "{} bytes", svg.len());
    let numbers = json(&numbers);
    assert_eq!(numbers["plots"].as_array().unwrap().len(), 3);
    // The distribution of 16 flows has steps: each line to the next point is level or upright.
    let points = numbers["plots"][0][1]["curves"][0]["points"].as_array().unwrap();
    assert_eq!((&points[0][1], &points[points.len() - 1][1]), (&0.0.into(), &1.0.into()));
    let turns = |pair: &[Value]| (pair[0][0] == pair[1][0]) != (pair[0][1] == pair[1][1]);
    assert!(points.len() > 16 && points.windows(2).all(turns), "{points:?}");
    assert_eq!(numbers["runs"][3]["variant"], "ecmp,size=256KiB");
    assert_eq!(numbers["runs"][3]["summary"]["wall_s"], Value::Null);
}

#[test]
fn a_report_of_a_copy_that_broke_off_names_the_lines_that_it_lacks() {
    let (dir, file) = scenario();
    let (runs, drawn) = (path(&dir, "runs"), path(&dir, "drawn"));
    assert_eq!(headrace(&["run", &file, "--quiet", "--out", &runs]).code, 0);
    let flows = format!("{runs}/ecmp,size=256KiB/flows.jsonl");
    let text = fs::read_to_string(&flows).unwrap();
    for left in [0, 3] {
        let lines: String = text.split_inclusive('\n').take(left).collect();
        fs::write(&flows, lines).unwrap();
        let ran = headrace(&["report", &runs, "-o", &drawn]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(&format!("{flows}: found {left} lines, expected 16")), "{ran:?}");
    }
}

#[test]
fn a_report_has_the_formats_asked_for_and_no_others() {
    let (dir, file) = scenario();
    let (runs, drawn) = (path(&dir, "runs"), path(&dir, "drawn"));
    assert_eq!(headrace(&["run", &file, "--quiet", "--out", &runs]).code, 0);
    let ran = headrace(&["report", &runs, "-o", &drawn, "--format", "png,pdf,csv,html"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let names = fs::read_dir(&drawn).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    let wanted =
        ["-curves.csv", ".csv", ".json", ".pdf", ".png"].map(|end| format!("balancers{end}"));
    assert_eq!(names[..5], wanted);
    assert_eq!(names[5..], ["report.html"]);
    let bytes = |name: &str| fs::read(format!("{drawn}/{name}")).unwrap();
    assert!(
        bytes("balancers.png").starts_with(b"\x89PNG")
            && bytes("balancers.pdf").starts_with(b"%PDF")
    );
    let text = |name: &str| String::from_utf8(bytes(name)).unwrap();
    let (lines, points) = (text("balancers.csv"), text("balancers-curves.csv"));
    assert!(lines.starts_with("run,schema,world,"), "{lines}");
    assert_eq!(lines.lines().count(), 5, "a head and four runs: {lines}");
    assert!(lines.contains("\n\"ecmp,size=256KiB\",1,sim,"), "{lines}");
    let numbers = json(&text("balancers.json"));
    let curves =
        numbers["plots"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
    let curves = curves.flat_map(|panel| panel["curves"].as_array().unwrap());
    let counted: usize = curves.map(|curve| curve["points"].as_array().unwrap().len()).sum();
    assert_eq!(points.lines().count(), 1 + counted, "{points}");
    let again = path(&dir, "again");
    let ran = headrace(&["report", &runs, "-o", &again, "--format", "pdf,html"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for name in ["balancers.pdf", "report.html"] {
        assert_eq!(fs::read(format!("{again}/{name}")).unwrap(), bytes(name), "{name}");
    }
}

#[test]
fn a_report_brings_the_tables_of_a_page_up_to_date() {
    let (dir, file) = scenario();
    let (runs, drawn, page) = (path(&dir, "runs"), path(&dir, "drawn"), path(&dir, "page.md"));
    assert_eq!(headrace(&["run", &file, "--quiet", "--out", &runs]).code, 0);
    let reference = path(&dir, "other.json");
    let case = r#"{"scenario": "balancers", "variant": "ecmp,size=64KiB", "command": "x",
        "summary": {"slowdown": 9.5}}"#;
    let text = format!(r#"{{"name": "other", "provenance": "p", "cases": [{case}]}}"#);
    fs::write(&reference, text).unwrap();
    let report = ["report", &runs, "-o", &drawn, "--page", &page, "--reference", &reference]
        .map(str::to_owned);
    let report: Vec<&str> = report.iter().map(String::as_str).collect();
    fs::write(&page, "# Page\n").unwrap();
    let ran = headrace(&report);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("<!-- results: balancers -->"), "{ran:?}");
    fs::write(&page, "# Page\n<!-- results: balancers -->\n<!-- end -->\nbelow\n").unwrap();
    for _ in 0..2 {
        assert_eq!(headrace(&report).code, 0);
        let text = fs::read_to_string(&page).unwrap();
        for part in [
            "one path collides",
            "](drawn/balancers.svg)",
            "| ecmp (other) | 9.500 | - |",
            "\nbelow\n",
        ] {
            assert_eq!(text.matches(part).count(), 1, "{part}: {text}");
        }
    }
    let without = headrace(&[&report[..], &["--format", "csv"]].concat());
    assert_eq!(without.code, 2, "{without:?}");
    assert!(without.err.starts_with("error: --page links"), "{without:?}");
    assert!(without.err.contains("help: add svg or png"), "{without:?}");
}

#[test]
fn a_table_leaves_out_columns_that_no_run_has_a_value_for() {
    let (dir, file) = scenario();
    let (runs, page) = (path(&dir, "runs"), path(&dir, "page.md"));
    // No plot has an axis, so that the table has a line a run.
    fs::write(&file, BALANCERS.replace("kind = \"bars\"\nx = \"size\"", "kind = \"cdf\"")).unwrap();
    fs::write(&page, "<!-- results: balancers -->\n<!-- end -->\n").unwrap();
    for (code, title, limit) in [(1, "| run | sent", "1us"), (0, "| run | shortest", "1s")] {
        let (out, limit) = (format!("{runs}-{limit}"), format!("run.limit={limit}"));
        let ran = headrace(&["run", &file, "--quiet", "--set", &limit, "--out", &out]);
        assert_eq!(ran.code, code, "{ran:?}");
        let ran = headrace(&["report", &out, "-o", &path(&dir, "drawn"), "--page", &page]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let text = fs::read_to_string(&page).unwrap();
        assert!(text.contains(title), "{text}");
    }
}

#[test]
fn a_report_marks_runs_that_are_invalid_and_says_so() {
    let (dir, file) = scenario();
    let (runs, drawn, page) = (path(&dir, "runs"), path(&dir, "drawn"), path(&dir, "page.md"));
    assert_eq!(headrace(&["run", &file, "--quiet", "--out", &runs]).code, 0);
    let summary = format!("{runs}/ecmp,size=64KiB/summary.json");
    let text = fs::read_to_string(&summary).unwrap();
    let late = text.replace("\"lateness\": null", "\"lateness\": {\"valid\": false}");
    assert_ne!(text, late);
    fs::write(&summary, late).unwrap();
    fs::write(&page, "<!-- results: balancers -->\n<!-- end -->\n").unwrap();
    let ran = headrace(&["report", &runs, "-o", &drawn, "--page", &page]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("too busy to poll in time: `ecmp,size=64KiB`."), "{text}");
    let numbers = json(&fs::read_to_string(format!("{drawn}/balancers.json")).unwrap());
    assert_eq!(numbers["runs"].as_array().unwrap().len(), 3);
    assert_eq!(numbers["invalid"][0], "ecmp,size=64KiB");
    assert!(ran.err.contains("balancers: 4 runs drawn"), "{ran:?}");
    assert!(ran.err.contains("INVALID") && ran.err.contains("`ecmp,size=64KiB`"), "{ran:?}");
    let picture = fs::read_to_string(format!("{drawn}/balancers.svg")).unwrap();
    assert!(picture.contains("INVALID (late polls)"), "drawn and marked");
    let both = headrace(&["compare", &runs, &runs]);
    assert_eq!(both.code, 0, "{both:?}");
    assert!(both.out.contains("A is INVALID"), "{both:?}");
    // The numbers beside a picture are enough to draw it again.
    let again = path(&dir, "again");
    let redrawn = headrace(&["report", &format!("{drawn}/balancers.json"), "-o", &again]);
    assert_eq!(redrawn.code, 0, "{redrawn:?}");
    for name in ["balancers.svg", "balancers.json"] {
        let [a, b] = [&drawn, &again].map(|dir| fs::read(format!("{dir}/{name}")).unwrap());
        assert!(a == b, "{name}");
    }
}

/// Runs of two transports, sampled as `set` says, and a report of them with `flags`.
fn sampled_report(dir: &tempfile::TempDir, set: &[&str], flags: &[&str]) -> (Ran, String) {
    let (matrix, runs, drawn) = (matrix(dir, "m.cm"), path(dir, "runs"), path(dir, "drawn"));
    let line = ["run", &matrix, "--transport", "smartt,dctcp", "--quiet", "--out", &runs];
    let ran = headrace(&[&line[..], set].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    (headrace(&[&["report", &runs, "-o", &drawn], flags].concat()), drawn)
}

#[test]
fn chosen_flows_are_drawn_over_time_and_others_are_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let set = ["--set", "sampling.interval=1us", "--set", "sampling.flows=2,4"];
    let (ran, drawn) = sampled_report(&dir, &set, &["--flows", "4,2"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let numbers = json(&fs::read_to_string(format!("{drawn}/m.json")).unwrap());
    let rows = numbers["plots"].as_array().unwrap();
    let windows = rows.iter().find(|row| row[0]["y"] == "cwnd_bytes").unwrap();
    assert_eq!(windows.as_array().unwrap().len(), 2, "a panel for each run");
    for (at, name) in ["flow 2", "flow 4"].into_iter().enumerate() {
        let curve = &windows[0]["curves"][at];
        assert_eq!(curve["name"], name);
        assert!(curve["points"].as_array().unwrap().len() > 2, "{curve}");
    }
    let runs = path(&dir, "runs");
    let other = headrace(&["report", &runs, "-o", &drawn, "--flows", "1..2"]);
    assert_eq!(other.code, 2, "{other:?}");
    for part in ["--flows", "flow 1", "2,4", "--set sampling.flows=1..2"] {
        assert!(other.err.contains(part), "no {part}: {other:?}");
    }
    let none = headrace(&["report", &runs, "-o", &drawn, "--flows", "0"]);
    assert_eq!(none.code, 2, "{none:?}");
    assert!(none.err.contains("from 1"), "{none:?}");
    let m = path(&dir, "m.cm");
    let beyond = headrace(&["run", &m, "--set", "sampling.flows=5"]);
    assert_eq!(beyond.code, 2, "{beyond:?}");
    assert!(beyond.err.contains("sampling.flows") && beyond.err.contains("4"), "{beyond:?}");
    let idle = headrace(&["run", &m, "--set", "sampling.flows=1"]);
    assert!(idle.err.contains("sampling.interval"), "it changes nothing: {idle:?}");
}

#[test]
fn matrix_and_network_are_drawn_when_asked_for_and_axes_are_logarithmic() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--inputs", "--format", "svg,csv", "--log", "x"];
    let (ran, drawn) = sampled_report(&dir, &[], &flags);
    assert_eq!((ran.code, ran.err.contains("warning")), (0, false), "{ran:?}");
    let read = |name: &str| fs::read_to_string(format!("{drawn}/{name}")).unwrap();
    let picture = read("m-inputs.svg");
    for part in ["16 hosts", "4 ToR switches", "Bytes from host to host"] {
        assert!(picture.contains(part), "no {part}");
    }
    let cells = read("m-inputs.csv");
    assert_eq!(cells.lines().count(), 1 + 4, "{cells}");
    assert!(cells.contains("\n,0,4,1,65536,1\n"), "{cells}");
    let log = read("m.svg");
    // Drawn again from its numbers, and without logarithms.
    let (again, numbers) = (path(&dir, "again"), format!("{drawn}/m.json"));
    let redrawn = headrace(&["report", &numbers, "-o", &again, "--inputs"]);
    assert_eq!(redrawn.code, 0, "{redrawn:?}");
    let again = |name: &str| fs::read_to_string(format!("{again}/{name}")).unwrap();
    assert_eq!(again("m-inputs.svg"), picture);
    assert_ne!(again("m.svg"), log);
    let idle = headrace(&["report", &numbers, "-o", &drawn, "--log", "y", "--flows", "1"]);
    assert!(idle.err.contains("name the results"), "{idle:?}");
}

#[test]
fn a_report_of_what_is_no_result_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let drawn = path(&dir, "drawn");
    let ran = headrace(&["report", &path(&dir, "gone"), "-o", &drawn]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("gone") && ran.err.contains("headrace run --out"), "{ran:?}");
    fs::write(path(&dir, "scenario.json"), "{\n\"schema\": true}").unwrap();
    let ran = headrace(&["report", dir.path().to_str().unwrap(), "-o", &drawn]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("scenario.json:2:"), "{ran:?}");
    assert_eq!(headrace(&["report"]).code, 2);
}

#[test]
fn two_results_are_compared_number_by_number() {
    let (dir, file) = scenario();
    let outs = ["a", "b", "c"].map(|name| path(&dir, name));
    for (out, seed) in outs.iter().zip(["1", "2"]) {
        assert_eq!(headrace(&["run", &file, "--quiet", "--seed", seed, "--out", out]).code, 0);
    }
    let ran = headrace(&["compare", &outs[0], &outs[1]]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert_eq!(ran.out.matches("fct_us.max").count(), 4, "{ran:?}");
    assert!(ran.out.contains("ecmp,size=256KiB"), "{ran:?}");
    assert!(ran.out.contains(&outs[0]) && ran.out.contains(&outs[1]), "names both: {ran:?}");
    let seeds = ran.out.lines().filter(|line| line.contains("seed"));
    assert_eq!(seeds.count(), 4, "the input that differs: {ran:?}");
    let three = headrace(&["compare", &outs[0], &outs[1], &outs[0]]);
    assert!(three.out.contains("C / A"), "{three:?}");
    let single = headrace(&["run", "incast-15to1", "--quiet", "--out", &outs[2]]);
    assert_eq!(single.code, 0, "{single:?}");
    let same = headrace(&["compare", &outs[2], &outs[2]]);
    let ratio = same.out.lines().find(|line| line.contains("slowdown")).unwrap();
    assert!(ratio.contains("1.000"), "{same:?}");
    assert_eq!(headrace(&["compare", &outs[0], &outs[2]]).code, 2);
    // Networks of other speeds can be compared, and the inputs say first that they differ.
    let speeds = ["100", "800"].map(|gbps| {
        let (out, topo) = (path(&dir, gbps), format!("leaf-spine:4,4,4,{gbps}"));
        let line = ["run", "incast-15to1", "--topo", &topo, "--quiet", "--out", &out];
        assert_eq!(headrace(&line).code, 0);
        (out, topo)
    });
    let ran = headrace(&["compare", &speeds[0].0, &speeds[1].0]);
    let place = |part: &str| ran.out.find(part).unwrap_or_else(|| panic!("no {part}: {ran:?}"));
    assert!(speeds.iter().all(|(_, topo)| place(topo) < place("fct_us.max")), "{ran:?}");
}

/// A matrix of four short flows.
fn matrix(dir: &tempfile::TempDir, name: &str) -> String {
    let path = dir.path().join(name);
    let flows: String = (0..4).map(|i| format!("{i}->{} start 0 size 65536\n", i + 4)).collect();
    fs::write(&path, format!("Nodes 16\nConnections 4\n{flows}")).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn flags_with_several_values_are_compared_in_one_table() {
    let dir = tempfile::tempdir().unwrap();
    let (a, out) = (matrix(&dir, "a.cm"), path(&dir, "out"));
    let b = matrix(&dir, "b.cm");
    let line = ["run", &a, &b, "--transport", "smartt,dctcp", "--seed", "1..3", "--jobs", "2"];
    let ran = headrace(&[&line[..], &["--out", &out]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    for part in ["matrix=a,transport=smartt", "matrix=b,transport=dctcp", "12/12", "±", "rank"] {
        assert!(ran.out.contains(part), "no {part}: {ran:?}");
    }
    let array = json(&headrace(&[&line[..], &["--json"]].concat()).out);
    assert_eq!(array.as_array().unwrap().len(), 12);
    assert_eq!(array[4]["variant"], "matrix=a,transport=dctcp,seed=2");
    assert_eq!((&array[4]["cc"], &array[4]["seed"]), (&"dctcp".into(), &2.into()));
    let drawn = headrace(&["report", &out, "-o", &path(&dir, "pictures")]);
    assert_eq!(drawn.code, 0, "{drawn:?}");
    // A warning of all runs is printed once, one of some with their count.
    let ran = headrace(&[&line[..], &["-q", "--set", "cc.dctcp.gain=0.2"]].concat());
    assert!(ran.err.starts_with("matrix=a,transport=smartt,seed=1 and 5 others: --set"), "{ran:?}");
    assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    let ran = headrace(&[&line[..], &["-q", "--set", "cc.swift.ai=2"]].concat());
    assert!(ran.err.starts_with("--set: warning") && ran.err.lines().count() == 1, "{ran:?}");
}

#[test]
fn a_sweep_that_was_interrupted_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (a, out) = (matrix(&dir, "a.cm"), path(&dir, "out"));
    let line = ["run", &a, "--lb", "reps,ecmp", "--seed", "1,2", "--out", &out];
    assert_eq!(headrace(&line).code, 0);
    let flows = dir.path().join("out/lb=ecmp,seed=2/flows.jsonl");
    let first = fs::read(&flows).unwrap();
    fs::remove_file(dir.path().join("out/lb=ecmp,seed=2/summary.json")).unwrap();
    fs::write(dir.path().join("out/lb=ecmp,seed=1/flows.jsonl"), "kept\n".repeat(4)).unwrap();
    fs::write(&flows, "half a li").unwrap();
    // The number of threads changes no result.
    let again = headrace(&[&line[..], &["--resume", "--threads", "2"]].concat());
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.err.contains("3 of 4 runs are in"), "{again:?}");
    assert_eq!(fs::read(&flows).unwrap(), first);
    let kept = fs::read(dir.path().join("out/lb=ecmp,seed=1/flows.jsonl")).unwrap();
    assert_eq!(kept, b"kept\n".repeat(4));
    // A run whose flows were cut or removed is none that is kept.
    fs::write(&flows, &first[..first.len() / 2]).unwrap();
    fs::remove_file(dir.path().join("out/lb=reps,seed=1/flows.jsonl")).unwrap();
    let again = headrace(&[&line[..], &["--resume"]].concat());
    assert!(again.err.contains("2 of 4 runs are in"), "{again:?}");
    assert_eq!(fs::read(&flows).unwrap(), first);
    // Another setting makes all of them other runs.
    let other = ["--resume", "--set", "switch.kmin=0.3"];
    let other = headrace(&[&line[..], &other].concat());
    assert!(other.err.contains("0 of 4 runs are in"), "{other:?}");
    let one = headrace(&["run", &a, "--out", &out, "--resume"]);
    assert_eq!(one.code, 2, "{one:?}");
}

#[test]
fn parts_of_a_sweep_are_gathered_and_results_in_the_place_of_others_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let (a, out) = (matrix(&dir, "a.cm"), path(&dir, "out"));
    let line = ["run", &a, "--seed", "1..4", "--out", &out, "--quiet"];
    for part in ["0/2", "1/2"] {
        let ran = headrace(&[&line[..], &["--part", part]].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let gathered = headrace(&["gather", &out, "--json"]);
    assert_eq!(gathered.code, 0, "{gathered:?}");
    assert_eq!(json(&gathered.out).as_array().unwrap().len(), 4);
    let place = |seed: &str| format!("{out}/seed={seed}");
    for (from, to) in [("1", "x"), ("2", "1"), ("x", "2")] {
        fs::rename(place(from), place(to)).unwrap();
    }
    let wrong = headrace(&["gather", &out]);
    assert_eq!(wrong.code, 1, "{wrong:?}");
    assert!(wrong.err.contains("missing: seed=1") && wrong.err.contains("missing: seed=2"));
    assert!(wrong.err.contains("seed=1/manifest.json: found results of the run `seed=2`"));
    assert!(wrong.out.contains("8/8"), "{wrong:?}");
}

#[test]
fn a_full_disk_costs_files_and_no_result() {
    let (dir, file) = scenario();
    let matrix = matrix(&dir, "a.cm");
    let full = |out: &str| {
        fs::create_dir_all(out).unwrap();
        std::os::unix::fs::symlink("/dev/full", format!("{out}/flows.jsonl.part")).unwrap();
    };
    let out = path(&dir, "one");
    full(&out);
    let ran = headrace(&["run", &matrix, "--out", &out, "--set", "sampling.interval=1us"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.out.contains("completion") && ran.out.contains("4 of 4 finished"), "{ran:?}");
    assert!(ran.err.contains("flows.jsonl: cannot be written: No space left"), "{ran:?}");
    assert!(!ran.err.contains("results are in"), "{ran:?}");
    let is = |name: &str| fs::exists(format!("{out}/{name}")).unwrap();
    assert!(is("manifest.json.part") && is("summary.json.part"));
    assert!(!is("series.jsonl.part"), "samples leave their room to what is worth more");
    assert!(
        !is("manifest.json") && !is("summary.json") && !is("flows.jsonl") && !is("series.jsonl"),
        "not whole"
    );
    // A capture that is cut is said, and hides no result.
    let ran = headrace(&["run", &matrix, "--capture", "/dev/full"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.out.contains("completion") && ran.out.contains("4 of 4 finished"), "{ran:?}");
    assert!(ran.err.contains("/dev/full: cannot be written: no storage space"), "{ran:?}");
    // Of several runs those that have ended are shown, and no other starts.
    let out = path(&dir, "several");
    full(&format!("{out}/reps,size=256KiB"));
    let ran = headrace(&["run", &file, "--out", &out]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.out.contains("reps,size=64KiB") && ran.out.contains("reps,size=256KiB"), "{ran:?}");
    assert!(ran.out.contains("2 variants did not run"), "{ran:?}");
    assert!(!ran.err.contains("results are in"), "{ran:?}");
    // Without room for the summary the first file that is cut is still the one that is named, and
    // a capture that is cut hides neither.
    let out = path(&dir, "named");
    full(&out);
    fs::create_dir(format!("{out}/summary.json.part")).unwrap();
    let ran = headrace(&["run", &matrix, "--out", &out, "--capture", "/dev/full"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.err.contains("flows.jsonl: cannot be written"), "{ran:?}");
    assert!(ran.err.contains("/dev/full"), "{ran:?}");
}

#[test]
fn no_series_of_an_earlier_run_stays_beside_the_summary_of_one_that_was_not_sampled() {
    let (dir, _) = scenario();
    let (matrix, out) = (matrix(&dir, "a.cm"), path(&dir, "twice"));
    let run = ["run", &matrix, "--quiet", "--out", &out];
    let has_series = || fs::exists(format!("{out}/series.jsonl")).unwrap();
    for (set, sampled) in [(&["--set", "sampling.interval=1us"][..], true), (&[], false)] {
        assert_eq!(headrace(&[&run[..], set].concat()).code, 0);
        assert_eq!(has_series(), sampled);
    }
}

#[test]
fn a_result_that_was_cut_by_a_full_disk_is_not_kept_for_another_run() {
    let (dir, file) = scenario();
    let out = path(&dir, "again");
    let first = headrace(&["run", &file, "--out", &out, "--quiet"]);
    assert_eq!(first.code, 0, "{first:?}");
    let one = format!("{out}/reps,size=256KiB");
    let link = format!("{one}/flows.jsonl.part");
    let summary = || fs::read_to_string(format!("{one}/summary.json")).unwrap();
    let before = summary();
    std::os::unix::fs::symlink("/dev/full", &link).unwrap();
    let other = ["run", &file, "--out", &out, "--set", "mtu=1000"];
    assert_eq!(headrace(&other).code, 3);
    fs::remove_file(&link).unwrap();
    // A manifest that is cut leaves the flows of the earlier run in their place, too.
    let flows = || fs::read_to_string(format!("{one}/flows.jsonl")).unwrap();
    let (flows_before, link) = (flows(), format!("{one}/manifest.json.part"));
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("/dev/full", &link).unwrap();
    assert_eq!(headrace(&other).code, 3);
    assert_eq!((flows(), summary()), (flows_before, before.clone()), "the first run's");
    fs::remove_file(&link).unwrap();
    let again = headrace(&[&other[..], &["--resume"]].concat());
    assert_eq!(again.code, 0, "{again:?}");
    assert_ne!(summary(), before, "the summary is that of the other settings: {again:?}");
}

#[test]
fn a_flag_that_replaces_what_variants_differ_in_is_refused() {
    let (_dir, file) = scenario();
    for (flags, parts) in [
        (&["--lb", "spray"][..], ["`lb` replaced by flag --lb", "reps, ecmp"]),
        (&["--transport", "swift"], ["replaced by transport swift", "reps, ecmp"]),
        (&["--lb", "spray,plb"], ["`lb` replaced by flag --lb", "reps, ecmp"]),
    ] {
        let ran = headrace(&[&["run", &file], flags].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
        for part in parts {
            assert!(ran.err.contains(part), "{flags:?}: no {part}: {ran:?}");
        }
    }
    // What they agree in may be another for all of them.
    let ran = headrace(&["run", &file, "--cc", "dctcp", "--seed", "1,2", "--json", "--quiet"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let array = json(&ran.out);
    assert_eq!(array.as_array().unwrap().len(), 8);
    assert_eq!(array[1]["variant"], "reps,size=64KiB,seed=2");
    assert!(array.as_array().unwrap().iter().all(|run| run["cc"] == "dctcp"));
    // Faults of variants come on top of each other, and a flag leaves them.
    let faults = headrace(&["run", "link-degraded", "--variant", "nowhere", "--seed", "2"]);
    assert!(faults.err.contains("--variant: found"), "{faults:?}");
    let sweep = ["run", "fig12-incast", "--transport", "swift", "--variant", "size=1MiB,degree=8"];
    assert_eq!(headrace(&sweep).code, 2);
}
