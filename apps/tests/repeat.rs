//! Tests of `headrace run manifest.json`, `headrace why` and what results say of themselves.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

mod common;

use std::fs;
use std::path::Path;

use serde_json::Value;

use common::headrace;

/// A directory with a matrix, and the results of a run of it.
fn ran(more: &[&str]) -> (tempfile::TempDir, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (matrix, out) = (path("small.cm"), path("out"));
    let made = headrace(&["gen", "incast", "--hosts", "16", "--degree", "4", "-o", &matrix]);
    assert_eq!(made.0, 0, "{made:?}");
    let run = headrace(&[&["run", &matrix, "--out", &out, "-q"], more].concat());
    assert_eq!(run.0, 0, "{run:?}");
    (dir, matrix, out)
}

fn json(path: &str) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_run_is_repeated_from_its_manifest_to_the_byte() {
    let (_dir, matrix, out) = ran(&["--transport", "swift", "--seed", "7"]);
    let manifest = format!("{out}/manifest.json");
    let (code, table, err) = headrace(&["run", &manifest, "-q"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("byte for byte") && table.contains("swift"), "{err}{table}");
    // Other flows than those of the run are seen, and their first line is named.
    let flows = format!("{out}/flows.jsonl");
    let lines = fs::read_to_string(&flows).unwrap();
    fs::write(&flows, lines.replacen("\"flow\":1", "\"flow\":9", 1)).unwrap();
    let (code, _, err) = headrace(&["run", &manifest, "-q"]);
    assert!(code == 1 && err.contains("differs from that of") && err.contains("line 2"), "{err}");
    // Another matrix under the old name is not run.
    let text = fs::read_to_string(&matrix).unwrap();
    fs::write(&matrix, format!("{text}\n")).unwrap();
    let (code, _, err) = headrace(&["run", &manifest, "-q"]);
    assert!(code == 2 && err.contains("has changed since that run"), "{err}");
    fs::write(&manifest, "{}").unwrap();
    let (code, _, err) = headrace(&["run", &manifest]);
    assert!(code == 2 && err.contains("no manifest"), "{err}");
}

#[test]
fn a_network_with_slow_switches_is_one_with_these_faults() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let across = path("across.cm");
    let line = |host| format!("{host}->{} id {} start 0 size 200000\n", 127 - host, host + 1);
    let lines: String = (0..8).map(line).collect();
    fs::write(&across, format!("Nodes 128\nConnections 8\n{lines}")).unwrap();
    let flows = |name: &str, more: &[&str]| {
        let out = path(name);
        let run = ["run", &across, "--transport", "dcsim", "-q", "--out", &out];
        let run = headrace(&[&run, more].concat());
        assert_eq!(run.0, 0, "{run:?}");
        fs::read_to_string(format!("{out}/flows.jsonl")).unwrap()
    };
    let slow: Vec<String> =
        (0..8).map(|n| format!("fault=degrade:0.01@core:{}:down", 2 * n)).collect();
    let set = slow.iter().flat_map(|fault| ["--set", fault.as_str()]);
    let set: Vec<&str> = ["--topo", "dcsim"].into_iter().chain(set).collect();
    let half = flows("half", &["--topo", "dcsim-half"]);
    assert_eq!(half, flows("set", &set));
    assert_ne!(half, flows("whole", &["--topo", "dcsim"]));
    let manifest = path("half/manifest.json");
    let settings = json(&manifest);
    let faults = settings["configuration"].as_array().unwrap().iter();
    let faults = faults.filter(|setting| setting["key"] == "fault");
    assert_eq!(faults.map(|fault| &fault["source"]).collect::<Vec<_>>(), ["topology"; 8]);
    let (code, _, err) = headrace(&["run", &manifest, "-q"]);
    assert!(code == 0 && err.contains("byte for byte"), "{err}");
    let ideal = ["run", &across, "--topo", "dcsim-half", "--transport", "ideal"];
    let (code, _, err) = headrace(&ideal);
    assert!(code == 2 && err.contains("a topology that has some"), "{err}");
}

#[test]
fn a_run_of_several_is_repeated_alone() {
    let (_dir, _, out) = ran(&["--transport", "smartt,dctcp", "--seed", "1..2"]);
    let run = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
    let run = run.filter(|path| path.is_dir()).max().unwrap();
    let manifest = run.join("manifest.json");
    let (code, table, err) = headrace(&["run", manifest.to_str().unwrap(), "-q"]);
    assert!(code == 0 && err.contains("byte for byte"), "{err}{table}");
    let (code, _, err) = headrace(&["why", &out]);
    assert!(code == 2 && err.contains("VARIANT"), "{err}");
}

#[test]
fn a_run_of_several_matrices_is_repeated_with_its_own() {
    let (dir, _, _) = ran(&[]);
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (first, second, out) = (path("a.cm"), path("b.cm"), path("both"));
    assert_eq!(headrace(&["gen", "incast", "--hosts", "16", "--degree", "4", "-o", &first]).0, 0);
    assert_eq!(headrace(&["gen", "permutation", "--hosts", "16", "-o", &second]).0, 0);
    assert_eq!(headrace(&["run", &first, &second, "--out", &out, "-q"]).0, 0);
    let again = |name: &str| headrace(&["run", &format!("{out}/{name}/manifest.json"), "-q"]);
    for name in ["matrix=a", "matrix=b"] {
        let (code, table, err) = again(name);
        assert!(code == 0 && err.contains("byte for byte"), "{err}{table}");
        let manifest = format!("{out}/{name}/manifest.json");
        let whole = json(&manifest);
        assert_eq!(whole["variant"], name);
        // Earlier versions named no run: it is the one of its inputs.
        let mut nameless = whole.clone();
        nameless.as_object_mut().unwrap().remove("variant");
        fs::write(&manifest, nameless.to_string()).unwrap();
        let (code, table, err) = again(name);
        assert!(code == 0 && err.contains("byte for byte"), "{err}{table}");
        // No other run takes the place of one that is not there, or that has other inputs.
        let mut other = whole.clone();
        other["variant"] = "matrix=c".into();
        fs::write(&manifest, other.to_string()).unwrap();
        let (code, _, err) = again(name);
        assert!(code == 2 && err.contains("`matrix=c`, which its command line no longer"), "{err}");
        other["variant"] = if name == "matrix=a" { "matrix=b" } else { "matrix=a" }.into();
        fs::write(&manifest, other.to_string()).unwrap();
        let (code, _, err) = again(name);
        assert!(code == 2 && err.contains("is no input of that run any more"), "{err}");
        fs::write(&manifest, whole.to_string()).unwrap();
    }
}

#[test]
fn a_repetition_over_the_results_that_it_repeats_is_compared_with_those_before() {
    let (_dir, _, out) = ran(&[]);
    let (manifest, flows) = (format!("{out}/manifest.json"), format!("{out}/flows.jsonl"));
    let again = || headrace(&["run", &manifest, "--out", &out, "-q"]);
    let (code, _, err) = again();
    assert!(code == 0 && err.contains("byte for byte"), "{err}");
    let lines = fs::read_to_string(&flows).unwrap();
    fs::write(&flows, lines.replacen("\"flow\":1", "\"flow\":9", 1)).unwrap();
    let (code, _, err) = again();
    assert!(code == 1 && err.contains("NOT the same") && err.contains("line 2"), "{err}");
    assert_eq!(fs::read_to_string(&flows).unwrap(), lines);
}

#[test]
fn flags_that_a_repetition_does_not_read_are_refused_by_name() {
    let (_dir, _, out) = ran(&[]);
    let manifest = format!("{out}/manifest.json");
    for (flags, named) in [
        (&["--seed", "9", "--transport", "swift"][..], &["--seed", "--transport"][..]),
        (&["--out", "d", "--why"], &["--why"]),
        (&["--out", "d", "--resume"], &["--resume"]),
        (&["--out", "d", "--part", "0/2"], &["--part"]),
        (&["--set", "mtu=1000", "--jobs", "2"], &["--set", "--jobs"]),
        (&["--variant", "x", "--metrics", "m"], &["--variant", "--metrics"]),
    ] {
        let (code, _, err) = headrace(&[&["run", &manifest, "-q"], flags].concat());
        assert_eq!(code, 2, "{flags:?}: {err}");
        let found = err.split_once(", expected").unwrap().0;
        assert!(named.iter().all(|flag| found.contains(flag)), "{flags:?}: {err}");
        assert!(!found.contains("--out") && !found.contains("--quiet"), "{err}");
    }
    let (code, table, err) = headrace(&["-v", "run", &manifest, "--flows", "--quiet"]);
    assert!(code == 0 && table.contains("fct"), "{err}{table}");
}

#[test]
fn a_repetition_whose_results_do_not_fit_on_the_disk_says_so() {
    let (dir, _, out) = ran(&[]);
    let again = dir.path().join("again");
    fs::create_dir(&again).unwrap();
    std::os::unix::fs::symlink("/dev/full", again.join("summary.json.part")).unwrap();
    let manifest = format!("{out}/manifest.json");
    let (code, _, err) = headrace(&["run", &manifest, "-q", "--out", again.to_str().unwrap()]);
    assert!(code == 3 && err.contains("cannot be written"), "{code}: {err}");
    assert!(err.contains("byte for byte"), "its flows are compared all the same: {err}");
}

/// A manifest of a run between real devices, which a user could have written. There is no such
/// device, so that nothing is sent.
#[test]
fn a_repetition_between_real_devices_reads_the_keys_that_the_run_had() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (matrix, hosts, keys) = (path("pair.cm"), path("hosts.toml"), path("no-such-keys"));
    fs::write(&matrix, "Nodes 2\nConnections 1\n0->1 id 1 start 0 size 100000\n").unwrap();
    let host = |number: u32| {
        format!(
            "[[host]]\nname = \"node{number}\"\naddress = \"10.9.8.{}/24\"\n\
             device = \"0000:ff:1f.7\"\ncontrol = \"127.0.0.1:4798\"\n",
            number + 1
        )
    };
    fs::write(&hosts, host(0) + &host(1)).unwrap();
    let security = format!("psk:{keys}");
    let line = ["headrace", "run", &matrix, "--world", "nic", "--hosts", &hosts, "--host", "node0"];
    let arguments = [&line[..], &["--security", &security]].concat();
    let manifest = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"), "arguments": arguments, "configuration": [],
        "inputs": [],
    });
    let file = path("manifest.json");
    fs::write(&file, manifest.to_string()).unwrap();
    let (code, _, err) = headrace(&["run", &file, "-q"]);
    assert!(code == 2 && err.contains(&keys), "{code}: {err}");
}

#[test]
fn why_explains_the_run_whose_results_are_there_and_no_earlier_one() {
    let (dir, matrix, out) = ran(&[]);
    let flows = || {
        let (code, text, err) = headrace(&["why", &out, "--json", "-q"]);
        assert_eq!(code, 0, "{err}");
        serde_json::from_str::<Value>(&text).unwrap().as_array().unwrap().len()
    };
    assert_eq!(flows(), 4);
    let more = dir.path().join("more.cm").to_str().unwrap().to_owned();
    assert_eq!(headrace(&["gen", "incast", "--hosts", "16", "--degree", "7", "-o", &more]).0, 0);
    assert_eq!(headrace(&["run", &more, "--out", &out, "-q"]).0, 0);
    assert_eq!(flows(), 7);
    // One that explains itself is explained as well.
    assert_eq!(headrace(&["run", &matrix, "--out", &out, "--why", "-q"]).0, 0);
    assert_eq!(flows(), 4);
}

#[test]
fn a_run_is_repeated_where_it_was_started() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (_kept, _, out) = ran(&[]);
    let manifest = fs::read_to_string(format!("{out}/manifest.json")).unwrap();
    let elsewhere = manifest.replace(&out.replace("/out", "/small.cm"), "small.cm");
    assert_ne!(manifest, elsewhere);
    fs::write(path("manifest.json"), elsewhere).unwrap();
    for line in [&["run", &path("manifest.json")][..], &["why", dir.path().to_str().unwrap()]] {
        let (code, _, err) = headrace(line);
        assert!(code == 2 && err.contains("`small.cm`, which is not here"), "{err}");
        assert!(err.contains("in the directory in which that run was started"), "{err}");
    }
}

#[test]
fn a_run_that_its_limit_has_cut_is_repeated_and_explained_like_any_other() {
    let (dir, matrix, _) = ran(&[]);
    let cut = dir.path().join("cut").to_str().unwrap().to_owned();
    let (code, _, err) =
        headrace(&["run", &matrix, "--set", "run.limit=20us", "--out", &cut, "-q"]);
    assert_eq!(code, 1, "{err}");
    let (code, text, err) = headrace(&["run", &format!("{cut}/manifest.json"), "-q"]);
    assert!(code == 1 && err.contains("byte for byte"), "{code} {err}{text}");
    let (code, text, err) = headrace(&["why", &cut, "-q"]);
    assert_eq!(code, 0, "{err}{text}");
}

#[test]
fn why_explains_a_run_whose_controllers_read_telemetry() {
    let (_dir, _, out) = ran(&["--transport", "hpcc"]);
    let (code, text, err) = headrace(&["why", &out, "-q"]);
    assert!(code == 0 && text.contains("flows to that host share it"), "{err}{text}");
}

#[test]
fn results_name_matrix_topology_program_and_machine() {
    let (_dir, matrix, out) = ran(&[]);
    for file in ["summary.json", "manifest.json"] {
        let of = &json(&format!("{out}/{file}"))["provenance"];
        assert_eq!(of["matrix"], matrix.as_str());
        assert_eq!(of["topology"], "paper-testbed");
        assert_eq!(of["topology_source"], "default for 16 hosts");
        assert!(of["machine"].as_str().unwrap().contains("cores"), "{of}");
        assert_eq!(of["version"], env!("CARGO_PKG_VERSION"));
    }
    let (code, table, _) = headrace(&["run", &matrix, "-q"]);
    assert_eq!(code, 0);
    for text in [matrix.as_str(), "paper-testbed (default for 16 hosts)", "machine", "built"] {
        assert!(table.contains(text), "{text} is not in {table}");
    }
    let (code, text, _) = headrace(&["--version"]);
    assert_eq!(code, 0);
    let of = &json(&format!("{out}/manifest.json"))["provenance"];
    let commit = of["commit"].as_str().unwrap_or("without a commit");
    let dpdk = of["dpdk"].as_str();
    assert_eq!(dpdk.is_some_and(|name| name.starts_with("DPDK 2")), cfg!(feature = "dpdk"), "{of}");
    let version = env!("CARGO_PKG_VERSION");
    let dpdk = dpdk.unwrap_or("no DPDK");
    assert_eq!(text, format!("headrace {version} ({commit}), {dpdk}\n"));
}

#[test]
fn why_repeats_a_run_that_did_not_explain_itself_and_keeps_the_answer() {
    let (_dir, _, out) = ran(&[]);
    let file = format!("{out}/why.jsonl");
    assert!(!Path::new(&file).exists());
    let (code, text, err) = headrace(&["why", &out, "-q"]);
    assert!(code == 0 && text.contains("flows to that host share it"), "{err}{text}");
    let kept = fs::read_to_string(&file).unwrap();
    assert_eq!(kept.lines().count(), 4);
    let (code, text, _) = headrace(&["why", &out, "--flow", "2"]);
    assert!(code == 0 && text.contains("fct") && text.contains("100.0"), "{text}");
    let (code, text, _) = headrace(&["why", &out, "--json"]);
    let flows: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, flows.as_array().unwrap().len()), (0, 4));
    for wrong in ["0", "5"] {
        let (code, _, err) = headrace(&["why", &out, "--flow", wrong]);
        assert!(code == 2 && err.contains("a flow from 1 to 4"), "{err}");
    }
    // A run that explains itself at once writes the same.
    let (_dir, _, out) = ran(&["--why"]);
    assert_eq!(fs::read_to_string(format!("{out}/why.jsonl")).unwrap(), kept);
    let (code, _, err) = headrace(&["why", "/no/such/place"]);
    assert!(code == 2 && err.contains("no such directory"), "{err}");
}
