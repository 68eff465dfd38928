//! Adding a policy takes its own file and one line.
//!
//! The files of `tests/adding` are added to a copy of the tree, each with the line of its registry
//! and nothing else. All crates and all tests of the copy compile. Its program lists the policies,
//! takes their settings and runs them. Some of its tests that go over registries run, too
//! ([`TESTS`], [`OF_FABRIC`]). The copy is kept below `target`, so that a second run builds what
//! has changed.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// One policy.
struct Addition {
    /// The name of its file in `tests/adding` and in the folder of its registry, without `.rs`.
    module: &'static str,
    /// The file of its registry.
    registry: &'static str,
    /// The text in the registry that the line follows: the head of the table.
    head: &'static str,
    /// The line, without indentation.
    line: &'static str,
}

/// The head of a table of `registry!`.
const POLICIES: &str = "    policies {\n";

const ADDITIONS: [Addition; 10] = [
    Addition {
        module: "gentle",
        registry: "transport/src/cc/mod.rs",
        head: POLICIES,
        line: "\"gentle\" => gentle::Gentle,",
    },
    Addition {
        module: "quota",
        registry: "transport/src/rc/mod.rs",
        head: POLICIES,
        line: "\"quota\" => quota::Quota,",
    },
    Addition {
        module: "rotate",
        registry: "transport/src/lb/mod.rs",
        head: POLICIES,
        line: "\"rotate\" => rotate::Rotate,",
    },
    Addition {
        module: "turns",
        registry: "transport/src/sched/mod.rs",
        head: POLICIES,
        line: "\"turns\" => turns::Turns,",
    },
    Addition {
        module: "shallow",
        registry: "testbed/fabric/src/qdisc/mod.rs",
        head: POLICIES,
        line: "\"shallow\" => shallow::Shallow,",
    },
    Addition {
        module: "gather",
        registry: "testbed/experiments/src/workload/mod.rs",
        head: "\ngenerators! {\n",
        line: "\"gather\" => gather::Gather,",
    },
    Addition {
        module: "twin",
        registry: "testbed/experiments/src/topology/builtin/mod.rs",
        head: "\nnetworks! {\n",
        line: "twin,",
    },
    Addition {
        module: "single",
        registry: "transport/src/ec/mod.rs",
        head: POLICIES,
        line: "\"single\" => single::Single,",
    },
    Addition {
        module: "thin",
        registry: "testbed/fabric/src/program/mod.rs",
        head: POLICIES,
        line: "\"thin\" => thin::Thin,",
    },
    Addition {
        module: "slow",
        registry: "testbed/fabric/src/pod/matcher/mod.rs",
        head: POLICIES,
        line: "\"slow\" => slow::Slow,",
    },
];

impl Addition {
    fn file(&self) -> String {
        let folder = self.registry.strip_suffix("mod.rs").unwrap();
        format!("{folder}{}.rs", self.module)
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All files of the tree below `folder`, from the root; no build products, nothing hidden.
fn files(root: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        let path = folder.join(&name);
        if name == "target" || name.to_str().is_some_and(|name| name.starts_with('.')) {
            continue;
        }
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files(root, &path, found),
            kind if kind.is_file() => assert!(found.insert(path)),
            _ => {}
        }
    }
}

/// Writes `text` unless the file has it already: cargo looks at the time of a change.
fn write(path: &Path, text: &[u8]) {
    if fs::read(path).is_ok_and(|known| known == text) {
        return;
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A copy of the tree at `copy` with all additions: the file of each, its line, and nothing else.
fn add_to(copy: &Path) {
    let (root, mut tree) = (root(), BTreeSet::new());
    files(&root, Path::new(""), &mut tree);
    for path in &tree {
        let mut text = fs::read(root.join(path)).unwrap();
        for added in ADDITIONS.iter().filter(|added| Path::new(added.registry) == path) {
            let before = String::from_utf8(text).unwrap();
            assert_eq!(added.line.lines().count(), 1, "{}", added.module);
            assert!(before.contains(added.head), "{} has another head", added.registry);
            let line = format!("{}        {}\n", added.head, added.line);
            text = before.replacen(added.head, &line, 1).into_bytes();
        }
        write(&copy.join(path), &text);
    }
    let mut expected = tree;
    for added in &ADDITIONS {
        let own = root.join(format!("tests/adding/{}.rs", added.module));
        write(&copy.join(added.file()), &fs::read(own).unwrap());
        assert!(expected.insert(added.file().into()), "{} is there already", added.file());
    }
    let mut copied = BTreeSet::new();
    files(copy, Path::new(""), &mut copied);
    for stale in copied.difference(&expected) {
        fs::remove_file(copy.join(stale)).unwrap();
    }
}

fn succeeded(what: &str, output: Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{what}:\n{}", text(&output.stderr));
    text(&output.stdout)
}

/// Test targets of the copy that go over registries: schedulers between two hosts, disciplines in
/// networks, and what `docs/SCENARIOS.md` lists.
const TESTS: [&str; 3] = ["pair", "networks", "scenarios"];

/// Tests of one crate of the copy that go over registries: disciplines alone, and matchers.
const OF_FABRIC: [&str; 8] =
    ["-p", "fabric", "--lib", "--test", "pod", "--", "qdisc::", "matchers::"];

/// Tests of [`TESTS`] that take longer than all others together.
const LONG: [&str; 3] = ["gone::", "in_any_weather", "whatever_the_network"];

/// Leaves out the crates that need libdpdk.
const NEED_DPDK: [&str; 4] =
    ["--exclude=dpdk-sys", "--exclude=transport-dpdk", "--exclude=transport-ffi", "--exclude=live"];

/// Runs cargo's command `verb` on the copy below `place`.
fn cargo(place: &Path, verb: &str, args: &[&str]) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let crates = ["transport", "fabric", "experiments"]
        .map(|name| format!("--config=profile.dev.package.{name}.opt-level=0"));
    let ran = Command::new(cargo)
        .args([verb, "--offline", "--locked"])
        // Its runs are short, and optimising them would take longer.
        .args(crates)
        .arg("--target-dir")
        .arg(place.join("target"))
        .args(args)
        // Dependencies are those of the tests, built before.
        .env("CARGO_BUILD_BUILD_DIR", root().join("target"))
        // A few random networks of each discipline are enough: the tests themselves draw more.
        .env("PROPTEST_CASES", "8")
        // Its page of scenarios is written anew, as after every new topology.
        .env("UPDATE_DOCS", "1")
        .current_dir(place.join("tree"))
        .output();
    let ran = ran.unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    succeeded(&format!("cargo {verb}:\n{said}"), ran);
}

/// The program of the copy, and a folder to run it in.
struct Built {
    program: PathBuf,
    dir: tempfile::TempDir,
}

impl Built {
    /// Compiles all of the copy below `place`, and runs [`TESTS`], which need its program, and
    /// [`OF_FABRIC`].
    fn new(place: &Path) -> Self {
        let (features, left_out): (&[&str], &[&str]) = match cfg!(feature = "dpdk") {
            true => (&[], &[]),
            false => (&["--no-default-features"], &NEED_DPDK),
        };
        cargo(place, "check", &[&["--workspace", "--all-targets"], features, left_out].concat());
        let tests = TESTS.map(|name| ["--test", name]).concat();
        let skips = LONG.map(|name| ["--skip", name]).concat();
        let program = ["--workspace", "--no-default-features"];
        cargo(place, "test", &[&program, &tests[..], &["--"], &skips].concat());
        cargo(place, "test", &OF_FABRIC);
        let dir = tempfile::tempdir().unwrap();
        Self { program: place.join("target/debug/headrace"), dir }
    }

    /// The output of the program with `args`.
    fn run(&self, args: &[&str]) -> String {
        let ran = Command::new(&self.program).args(args).current_dir(self.dir.path()).output();
        succeeded(&args.join(" "), ran.unwrap())
    }

    /// What the program says when it refuses `args`.
    fn refused(&self, args: &[&str]) -> String {
        let ran = Command::new(&self.program).args(args).current_dir(self.dir.path()).output();
        let ran = ran.unwrap();
        assert_eq!(ran.status.code(), Some(2), "{args:?}");
        String::from_utf8(ran.stderr).unwrap()
    }

    /// The summary of a simulation of four flows to one host, all of which finish; its results are
    /// in the folder `out`.
    fn simulate(&self, out: &str, args: &[&str]) -> serde_json::Value {
        let start = ["run", "small.cm", "--world", "sim", "--out", out, "--json"];
        let summary: serde_json::Value =
            serde_json::from_str(&self.run(&[&start, args].concat())).unwrap();
        assert_eq!(summary["flows"]["finished"], 4);
        assert_eq!(summary["audit"]["ok"], true);
        summary
    }

    /// A file below the folder.
    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.dir.path().join(path)).unwrap()
    }
}

#[test]
fn a_policy_is_a_file_and_a_line() {
    let place = root().join("target/adding");
    add_to(&place.join("tree"));
    let built = Built::new(&place);
    all_are_listed(&built);
    let scenarios = fs::read_to_string(place.join("tree/docs/SCENARIOS.md")).unwrap();
    assert!(scenarios.contains("\n| `twin:HOSTS_PER_LEAF[,GBPS]` | "));
    built.run(&["gen", "incast", "--hosts", "16", "--degree", "4", "-o", "small.cm"]);
    policies_of_endpoints_run(&built);
    wrong_values_are_refused(&built);
    disciplines_and_programs_run(&built);
    matchers_decide(&built);
    topologies_and_workloads_are_made(&built);
}

fn all_are_listed(built: &Built) {
    for (list, name) in [
        ("cc", "gentle"),
        ("halves", "quota"),
        ("lb", "rotate"),
        ("schedulers", "turns"),
        ("ec", "single"),
        ("qdiscs", "shallow"),
        ("programs", "thin"),
        ("matchers", "slow"),
        ("workloads", "gather"),
        ("topologies", "twin:HOSTS_PER_LEAF[,GBPS]"),
    ] {
        let listed = built.run(&["list", list]);
        let line = listed.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
        assert!(line.ends_with("added by a test"), "{line}");
    }
    let settings = built.run(&["list", "settings"]);
    for key in SETTINGS {
        assert!(settings.lines().any(|line| line.split(' ').next() == Some(key)), "{key}");
    }
}

/// A setting of each policy that has settings.
const SETTINGS: [&str; 7] = [
    "cc.gentle.share",
    "rc.quota.share",
    "lb.rotate_after",
    "sched.turns.answer_every",
    "ec.single.losses",
    "switch.shallow.packets",
    "switch.thin.every",
];

/// A value that a setting does not take is refused, with its name and what it takes.
fn wrong_values_are_refused(built: &Built) {
    for key in SETTINGS {
        for value in ["many", "65000"] {
            let refused = built.refused(&["run", "small.cm", "--set", &format!("{key}={value}")]);
            assert!(refused.contains(key) && refused.contains(" in "), "{key}: {refused}");
        }
    }
    let gather = ["gen", "gather", "--hosts", "5", "--size", "many", "-o", "wrong.cm"];
    assert!(built.refused(&gather).contains("found size"));
    let twin = built.refused(&["run", "small.cm", "--topo", "twin:many"]);
    assert!(twin.contains("twin:HOSTS_PER_LEAF"), "{twin}");
}

fn policies_of_endpoints_run(built: &Built) {
    let policies = ["--cc", "gentle", "--lb", "rotate", "--set", "sched=turns"];
    let settings = ["--set", "cc.gentle.share=0.25", "--set", "lb.rotate_after=2"];
    let summary = built.simulate("policies", &[&policies[..], &settings].concat());
    assert_eq!((&summary["cc"], &summary["lb"]), (&"gentle".into(), &"rotate".into()));
    // Counters of its own are in the result, under the name of its settings.
    assert!(summary["counters"]["sched.turns.turns"].as_u64().unwrap() > 4);
    let manifest = built.read("policies/manifest.json");
    for key in ["cc.gentle.share", "lb.rotate_after", "turns"] {
        assert!(manifest.contains(key), "{key}");
    }

    // Fewer acknowledgements, a smaller window, another path for each segment.
    let of_turns = |every: &str| {
        let set = format!("sched.turns.answer_every={every}");
        let summary = built.simulate(&set, &["--set", "sched=turns", "--set", &set]);
        summary["packets"]["acks"].as_u64().unwrap()
    };
    assert!(2 * of_turns("1") > 3 * of_turns("16"));
    let of_gentle = |share: &str| {
        let set = format!("cc.gentle.share={share}");
        let summary = built.simulate(&set, &["--cc", "gentle", "--set", &set]);
        summary["completion_us"].as_f64().unwrap()
    };
    assert!(of_gentle("0.02") > 1.5 * of_gentle("0.5"));
    let of_rotate = |after: &str| {
        let set = format!("lb.rotate_after={after}");
        built.simulate(&set, &["--lb", "rotate", "--set", &set]);
        built.read(&format!("{set}/flows.jsonl"))
    };
    assert!(of_rotate("1") != of_rotate("64"), "as long on one path as on many");

    // The receiver's half says how much may be in flight.
    let asks = ["--cc", "gentle", "--set", "cc.gentle.asks=on", "--set"];
    let completion = |share: &str| {
        let summary = built.simulate(share, &[&asks[..], &[share]].concat());
        summary["completion_us"].as_f64().unwrap()
    };
    assert!(completion("rc.quota.share=20") > 1.5 * completion("rc.quota.share=500"));

    // Every flow is coded, and one of two losses in a block is sent again.
    let losses = ["--set", "ec.base_rtt_min=0us", "--set", "fault=loss:0.05@all"];
    let resent = |ec: &str, survived: &str| {
        let set = format!("ec.single.losses={survived}");
        let code = ["--ec", ec, "--set", &set];
        let summary = built.simulate(&format!("{ec}={survived}"), &[&code[..], &losses].concat());
        summary["packets"]["retransmitted"].as_u64().unwrap()
    };
    let [one, two] = ["1", "2"].map(|survived| resent("single:8,2", survived));
    assert!(one > two, "the weaker code sends more again");
    assert_eq!(two, resent("8,2", "1"), "as strong as the code of the tree");
    let manifest = built.read("single:8,2=2/manifest.json");
    assert!(manifest.contains("single:8,2") && manifest.contains("ec.single.losses"));
}

fn disciplines_and_programs_run(built: &Built) {
    // Drops are those that the policy has counted.
    let dropped = |trim, setting: &str, value: &str, counter: &str| {
        let args = ["--trim", trim, "--set", setting, "--set", value];
        let summary = built.simulate(value, &args);
        let dropped = summary["packets"]["dropped"].as_u64().unwrap();
        assert_eq!(summary["counters"][counter].as_u64().unwrap_or(0), dropped, "{counter}");
        dropped
    };
    let shallow = |value| dropped("off", "switch.qdisc=shallow", value, "switch.shallow.refused");
    let thin = |value| dropped("on", "switch.program=thin@tor:0", value, "switch.thin.dropped");
    // Four senders fill the port of one receiver: the number of packets that may wait there decides
    // how many are dropped.
    let short = shallow("switch.shallow.packets=2");
    let long = shallow("switch.shallow.packets=5000");
    assert!(short > long, "a shorter queue drops more");
    // Trimmed packets are not dropped: all lost packets were dropped by the program.
    let many = thin("switch.thin.every=10");
    let few = thin("switch.thin.every=1000");
    assert!(many > 50 * few.max(1), "{many} and {few}");
}

fn matchers_decide(built: &Built) {
    let completion = |matcher: &str| {
        let set = format!("sched.zeropod.matcher={matcher}");
        let pod = ["--topo", "zeropod:16", "--transport", "zeropod", "--set", &set];
        built.simulate(matcher, &pod)["completion_us"].as_f64().unwrap()
    };
    assert!(completion("slow") > 1.5 * completion("greedy"));
    // A wrong name is refused where no pod's scheduler runs, too.
    let wrong = ["--set", "sched.zeropod.matcher=fast"];
    for more in [&[][..], &["--topo", "zeropod:16", "--transport", "zeropod"]] {
        let refused = built.refused(&[&["run", "small.cm"], &wrong[..], more].concat());
        assert!(refused.contains("one of slow, iterative"), "{refused}");
    }
}

fn topologies_and_workloads_are_made(built: &Built) {
    built.run(&["gen", "gather", "--hosts", "5", "--size", "3KB", "-o", "gathered.cm"]);
    let gathered = built.read("gathered.cm");
    assert_eq!(gathered.matches("->0 ").count(), 4, "{gathered}");
    assert_eq!(gathered.matches("size 3000").count(), 4, "{gathered}");
    let summary = built.simulate("twin", &["--topo", "twin:9"]);
    assert_eq!(summary["hosts"], 18);
}
