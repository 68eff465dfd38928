//! Adding a policy takes its own file and one line.
//!
//! The files of `tests/adding` are added to a copy of the tree, each with the line of its registry
//! and nothing else. The copy is built, and its program lists the policies, takes their settings
//! and runs them. The copy is kept below `target`, so that a second run builds what has changed.
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
    /// What the line follows in it: the head of the table.
    head: &'static str,
    /// The line, without indentation.
    line: &'static str,
}

/// The head of a table of `registry!`.
const POLICIES: &str = "    policies {\n";

const ADDITIONS: [Addition; 5] = [
    Addition {
        module: "half",
        registry: "transport/src/cc/mod.rs",
        head: POLICIES,
        line: "\"half\" => half::Half,",
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

/// A copy of the tree at `copy` with all additions; how many lines of it are in no file of the tree
/// and in no added file.
fn add_to(copy: &Path) -> usize {
    let (root, mut tree) = (root(), BTreeSet::new());
    files(&root, Path::new(""), &mut tree);
    let mut lines = 0;
    for path in &tree {
        let mut text = fs::read(root.join(path)).unwrap();
        for added in ADDITIONS.iter().filter(|added| Path::new(added.registry) == path) {
            let before = String::from_utf8(text).unwrap();
            let line = format!("{}        {}\n", added.head, added.line);
            let after = before.replacen(added.head, &line, 1);
            lines += after.lines().count() - before.lines().count();
            text = after.into_bytes();
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
    lines
}

fn succeeded(what: &str, output: Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{what}:\n{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_policy_is_a_file_and_a_line() {
    let place = root().join("target/adding");
    let copy = place.join("tree");
    assert_eq!(add_to(&copy), ADDITIONS.len(), "one line each");

    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--offline", "--locked", "-p", "headrace", "--no-default-features"])
        .arg("--target-dir")
        .arg(place.join("target"))
        .current_dir(&copy)
        .output();
    succeeded("cargo build", built.unwrap());
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let program = place.join("target/debug/headrace");
        let ran = Command::new(program).args(args).current_dir(dir.path()).output();
        succeeded(&args.join(" "), ran.unwrap())
    };

    let lists = [("cc", "half"), ("lb", "rotate"), ("schedulers", "turns"), ("qdiscs", "shallow"), ("workloads", "gather")];
    for (list, name) in lists {
        let listed = run(&["list", list]);
        let line = listed.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.ends_with("added by a test"), "{line}");
    }
    let settings = run(&["list", "settings"]);
    for key in ["cc.half.share", "lb.rotate_after", "switch.shallow.packets"] {
        assert!(settings.lines().any(|line| line.split(' ').next() == Some(key)), "{key}");
    }
    run(&["gen", "incast", "--hosts", "16", "--degree", "4", "-o", "small.cm"]);
    let policies = ["--cc", "half", "--lb", "rotate", "--set", "sched=turns"];
    let settings = ["--set", "cc.half.share=0.25", "--set", "lb.rotate_after=2"];
    let start = ["run", "small.cm", "--world", "sim", "--out", "out", "--json"];
    let summary = run(&[&start[..], &policies, &settings].concat());
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!((&summary["cc"], &summary["lb"]), (&"half".into(), &"rotate".into()));
    assert_eq!(summary["flows"]["finished"], 4);
    assert_eq!(summary["audit"]["ok"], true);
    let manifest = fs::read_to_string(dir.path().join("out/manifest.json")).unwrap();
    for key in ["cc.half.share", "lb.rotate_after", "turns"] {
        assert!(manifest.contains(key), "{key}");
    }

    // Four senders fill the port of one receiver: what may wait there decides how many are dropped.
    let dropped = |packets: &str| {
        let depth = format!("switch.shallow.packets={packets}");
        let qdisc = ["--trim", "off", "--set", "switch.qdisc=shallow", "--set", &depth];
        let out = ["run", "small.cm", "--world", "sim", "--out", packets, "--json"];
        let summary = run(&[&out[..], &qdisc].concat());
        let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
        assert_eq!(summary["flows"]["finished"], 4);
        assert_eq!(summary["audit"]["ok"], true);
        summary["packets"]["dropped"].as_u64().unwrap()
    };
    assert!(dropped("2") > dropped("5000"), "a shorter queue drops more");
    run(&["gen", "gather", "--hosts", "5", "--size", "3KB", "-o", "gathered.cm"]);
    let gathered = fs::read_to_string(dir.path().join("gathered.cm")).unwrap();
    assert_eq!(gathered.matches("->0 ").count(), 4, "{gathered}");
    assert_eq!(gathered.matches("size 3000").count(), 4, "{gathered}");
}
