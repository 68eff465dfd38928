//! Which crate may depend on which (docs/ARCHITECTURE.md), read from every `Cargo.toml`.

use toml::{Table, Value};

use super::{File, Finding, Source, words_in};

/// Our crates and what of ours each may depend on; `?` marks what must be optional.
const MAY: &[(&str, &[&str])] = &[
    ("dpdk-sys", &[]),
    ("transport", &[]),
    ("transport-gf", &["transport"]),
    ("transport-dpdk", &["transport", "transport-gf", "dpdk-sys"]),
    ("transport-ffi", &["transport", "transport-dpdk"]),
    ("fabric", &["transport"]),
    ("experiments", &["transport", "fabric"]),
    ("live", &["transport", "transport-dpdk", "fabric", "experiments"]),
    ("headrace", &["transport", "fabric", "experiments", "live?"]),
    ("system-tests", &["transport", "fabric", "experiments", "live?", "headrace"]),
    ("fuzz", &["transport", "transport-dpdk", "fabric", "experiments"]),
];

/// Checks one manifest.
pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::new(path, 0, format!("not TOML: {error}"))],
    };
    let Some(name) = manifest.get("package").and_then(|p| p.get("name")).and_then(Value::as_str)
    else {
        return Vec::new();
    };
    let Some((_, may)) = MAY.iter().find(|(of, _)| *of == name) else {
        let message =
            format!("crate `{name}` is unknown: say in tests/tidy/deps.rs what it may use");
        return vec![Finding::new(path, 0, message)];
    };
    let mut found = Vec::new();
    for (dependency, optional) in ours(&manifest) {
        let allowed = may.iter().any(|entry| match entry.strip_suffix('?') {
            Some(entry) => entry == dependency && optional,
            None => *entry == dependency,
        });
        if !allowed {
            let message = format!("`{name}` must not depend on `{dependency}`: see docs");
            let line = text.lines().position(|line| line.starts_with(&dependency));
            found.push(Finding::new(path, line.map_or(0, |at| at + 1), message));
        }
    }
    let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
    if lints != Some(&Value::Boolean(true)) && name != "fuzz" {
        found.push(Finding::new(path, 0, "add `[lints]` with `workspace = true`"));
    }
    found
}

/// Dependencies of a manifest that no code of the crate names.
pub(crate) fn unused(path: &str, text: &str, files: &[File]) -> Vec<Finding> {
    const FOLDERS: [&str; 5] = ["src/", "tests/", "benches/", "examples/", "targets/"];
    let Ok(manifest) = text.parse::<Table>() else { return Vec::new() };
    let folder = path.strip_suffix("Cargo.toml").unwrap_or_default();
    let build = manifest.get("package").and_then(|package| package.get("build"));
    // A build script beside the crate's folder lies in the root's.
    let build = build.and_then(Value::as_str).unwrap_or("build.rs");
    let build = build.strip_prefix("../").map_or_else(|| format!("{folder}{build}"), str::to_owned);
    let is_own = |file: &&File| {
        let own = file.path.strip_prefix(folder).unwrap_or_default();
        file.path == build || FOLDERS.iter().any(|inner| own.starts_with(inner))
    };
    let included: Vec<String> = files.iter().filter(is_own).flat_map(included).collect();
    let is_read = |file: &&File| is_own(file) || included.contains(&file.path);
    let files = files.iter().filter(|file| file.path.ends_with(".rs")).filter(is_read);
    let sources: Vec<&Source> = files.map(File::source).collect();
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let tables = targets.chain([&manifest]).flatten();
    let tables = tables.filter(|(key, _)| key.ends_with("dependencies"));
    let names = tables.filter_map(|(_, table)| table.as_table()).flat_map(Table::keys);
    let is_named = |name: &&String| {
        let word = name.replace('-', "_");
        let mut lines = sources.iter().flat_map(|source| &source.code);
        lines.any(|line| words_in(line, &word).next().is_some())
    };
    let unused = names.filter(|name| !is_named(name));
    unused.map(|name| Finding::new(path, 0, format!("no code here names `{name}`"))).collect()
}

/// Crates in a lock file beside the root's of which the root's lock file has other versions: what
/// is fuzzed would not be what is built.
pub(crate) fn other_versions(path: &str, text: &str, of_root: &str) -> Vec<Finding> {
    let (ours, theirs) = (locked(of_root), locked(text));
    let differs = |(name, version): &(String, String)| {
        let mut known = ours.iter().filter(|(of, _)| of == name).peekable();
        known.peek().is_some() && known.all(|(_, of_root)| of_root != version)
    };
    let differing = theirs.into_iter().filter(differs);
    let says = |(name, version)| format!("`{name}` {version}: take a version of /Cargo.lock");
    differing.map(|crate_of| Finding::new(path, 0, says(crate_of))).collect()
}

/// The names and versions of a lock file.
fn locked(text: &str) -> Vec<(String, String)> {
    let lock = text.parse::<Table>().unwrap_or_default();
    let packages = lock.get("package").and_then(Value::as_array).into_iter().flatten();
    let word = |of: &Value, key| of.get(key).and_then(Value::as_str).map(str::to_owned);
    packages.filter_map(|of| Some((word(of, "name")?, word(of, "version")?))).collect()
}

/// The files of other crates whose text a file takes in as a module: their paths from the root.
fn included(file: &File) -> Vec<String> {
    let paths = file.text.lines().filter_map(|line| {
        line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]").filter(|to| to.contains(".."))
    });
    let from_root = |to: &str| {
        let mut parts: Vec<&str> = file.path.split('/').collect();
        parts.pop();
        for part in to.split('/') {
            match part {
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        parts.join("/")
    };
    paths.map(from_root).collect()
}

/// Every dependency on a crate of ours, of every kind and target, with whether it is optional.
fn ours(manifest: &Table) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for (key, value) in manifest {
        let Some(table) = value.as_table() else { continue };
        if key.ends_with("dependencies") {
            for (name, spec) in table {
                let real = spec.get("package").and_then(Value::as_str).unwrap_or(name);
                if MAY.iter().any(|(ours, _)| *ours == real) {
                    let optional = spec.get("optional").and_then(Value::as_bool);
                    found.push((real.to_owned(), optional.unwrap_or(false)));
                }
            }
        } else if key == "target" {
            found.extend(table.values().filter_map(Value::as_table).flat_map(ours));
        }
    }
    found
}

mod tests {
    use super::*;

    fn messages(name: &str, rest: &str) -> Vec<String> {
        let text = format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n{rest}");
        check("Cargo.toml", &text).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn the_core_may_use_nothing_of_ours() {
        let found = messages("transport", "[dependencies]\nlibm = \"1\"\nfabric = \"1\"\n");
        assert_eq!(found, ["`transport` must not depend on `fabric`: see docs"]);
    }

    #[test]
    fn only_the_driver_names_the_binding_under_any_disguise() {
        for rest in [
            "[dependencies]\ndpdk-sys = \"1\"\n",
            "[dev-dependencies]\nother = { package = \"dpdk-sys\", version = \"1\" }\n",
            "[target.'cfg(unix)'.build-dependencies]\ndpdk-sys = { workspace = true }\n",
        ] {
            assert_eq!(messages("experiments", rest).len(), 1, "{rest}");
            assert_eq!(messages("transport-dpdk", rest), [""; 0], "{rest}");
        }
    }

    #[test]
    fn commands_take_what_runs_on_dpdk_only_as_an_option() {
        let optional = "[dependencies]\nlive = { workspace = true, optional = true }\n";
        let always = "[dependencies]\nlive = { workspace = true }\n";
        assert_eq!(messages("headrace", optional), [""; 0]);
        assert_eq!(messages("headrace", always).len(), 1);
    }

    #[test]
    fn the_fabric_depends_on_no_experiment_nor_these_on_what_runs_live() {
        let uses = |name| format!("[dev-dependencies]\n{name} = {{ workspace = true }}\n");
        assert_eq!(messages("fabric", &uses("experiments")).len(), 1);
        assert_eq!(messages("experiments", &uses("live")).len(), 1);
        assert_eq!(messages("experiments", &uses("transport-dpdk")).len(), 1);
        assert_eq!(messages("live", &uses("experiments")), [""; 0]);
    }

    #[test]
    fn a_dependency_that_no_code_names_is_found() {
        let file = |path: &str, text: &str| File::new(path, text);
        let files = [
            file("a/src/lib.rs", "use the_one::X;"),
            file("a/benches/b.rs", "fn f() { other_one::f() }"),
            file("a/tests/t.rs", "#[path = \"../../c/shared.rs\"]\nmod shared;"),
            file("a/b/src/lib.rs", "use gone::X; // the_ones"),
            file("c/shared.rs", "use taken_in::X;"),
        ];
        let text = "[dependencies]\nthe-one = \"1\"\ngone = \"1\"\n\
                    [dev-dependencies]\nother-one = \"1\"\ntaken-in = \"1\"\n";
        let found = unused("a/Cargo.toml", text, &files);
        assert_eq!(found, [Finding::new("a/Cargo.toml", 0, "no code here names `gone`")]);
    }

    #[test]
    fn a_version_that_the_root_does_not_lock_is_found() {
        let lock = |crates: &[(&str, &str)]| -> String {
            let entry = |(name, version): &(&str, &str)| {
                format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n")
            };
            crates.iter().map(entry).collect()
        };
        let root = lock(&[("one", "1.0"), ("two", "2.1"), ("two", "3.0")]);
        let same = lock(&[("one", "1.0"), ("two", "3.0"), ("alone", "9.0")]);
        assert_eq!(other_versions("Cargo.lock", &same, &root), []);
        let found = other_versions("Cargo.lock", &lock(&[("one", "1.0"), ("two", "2.2")]), &root);
        let message = "`two` 2.2: take a version of /Cargo.lock";
        assert_eq!(found, [Finding::new("Cargo.lock", 0, message)]);
    }

    #[test]
    fn unknown_crates_and_missing_lints_are_found() {
        assert_eq!(messages("stranger", "").len(), 1);
        assert_eq!(check("Cargo.toml", "[package]\nname = \"transport\"\n").len(), 1);
        assert_eq!(check("Cargo.toml", "not toml").len(), 1);
        assert_eq!(check("Cargo.toml", "[workspace]\n"), []);
    }
}
