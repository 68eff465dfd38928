//! Files of the product that name a policy of a registry, and why. Other files ask a kind for the
//! facts that its policy states.
//!
//! The check finds variants of the registries' enums, modules of policies (`sched::dcsim::`, and in
//! a list of one line, `sched::{dcsim::X, Y}`) and the settings of one policy
//! (`sched_params.dcsim`). Below the folder of a registry its modules may be named.

use std::collections::BTreeSet;

use super::{File, Finding, is_test_file, words_in};

/// The enums of all `registry!` blocks: which policy, and the policy itself.
const ENUMS: &[&str] = &[
    "AnyProgram",
    "AnyQdisc",
    "Cc",
    "CcKind",
    "Ec",
    "EcKind",
    "Lb",
    "LbKind",
    "Matcher",
    "MatcherKind",
    "ProgramKind",
    "QdiscKind",
    "Rc",
    "RcKind",
    "Sched",
    "SchedKind",
];

/// Stands for the absence of a policy, and may be named anywhere.
const NONE: &str = "Uncoded";

/// Files that may name policies. A name that ends with `/` stands for all files below it.
const MAY_NAME: &[(&str, &str)] = &[
    ("transport/src/cc/", "policies and their registry"),
    ("testbed/fabric/src/pod/scheduler/", "the default of a pod's scheduler"),
    ("testbed/fabric/src/program/", "policies and their registry"),
    ("testbed/fabric/src/qdisc/", "policies and their registry"),
    ("transport/src/config.rs", "defaults"),
    ("testbed/fabric/src/blueprint.rs", "lossless ports need the program that pauses"),
    ("testbed/fabric/src/lib.rs", "names that other crates use"),
    ("testbed/fabric/src/network/build.rs", "the room that pauses need"),
    ("testbed/fabric/src/leaf_spine.rs", "a default network"),
    ("testbed/experiments/src/topology/fat_tree.rs", "a default network"),
    ("testbed/experiments/src/plan/transports.rs", "presets"),
    ("testbed/experiments/src/plan/transports/", "presets"),
    ("testbed/experiments/src/plan/draft.rs", "defaults"),
    ("testbed/experiments/src/plan/values.rs", "a preset of codes"),
    ("testbed/experiments/src/plan/mod.rs", "defaults"),
    ("testbed/experiments/src/plan/checks.rs", "bounds of one policy, in order"),
    ("testbed/experiments/src/plan/dcsim.rs", "what DCsim's hosts need of a network"),
    ("testbed/experiments/src/plan/mlcc.rs", "what MLCC needs of a network"),
    ("testbed/experiments/src/plan/pfc.rs", "what pauses need of a network"),
    ("testbed/experiments/src/plan/zeropod.rs", "what Zeropod needs of a network"),
    ("testbed/experiments/src/plan/real_pod.rs", "what Zeropod needs of a real network"),
    ("testbed/experiments/src/plan/trim.rs", "forms of disciplines that trim"),
    ("testbed/experiments/src/plan/pods.rs", "programs that a topology places"),
    ("testbed/experiments/src/plan/outages.rs", "schedulers of pods that fail"),
    ("testbed/experiments/src/plan/telemetry.rs", "switches that write telemetry for MLCC"),
    ("testbed/experiments/src/measure/own.rs", "results of DCsim and Zeropod"),
    ("testbed/experiments/src/measure/sampler.rs", "results of MLCC"),
    ("testbed/experiments/src/measure/scheduler.rs", "results of Zeropod"),
    ("testbed/experiments/src/measure/summary.rs", "results of MLCC and of pauses"),
    ("testbed/experiments/src/virtual_time/mod.rs", "threads of Zeropod's pods"),
    ("testbed/live/src/vdev/run.rs", "how early Zeropod's hosts begin in real time"),
    ("testbed/live/src/nic/scheduler/", "the process that decides for a pod"),
    ("testbed/live/src/nic/pod.rs", "Zeropod's hosts on a real network"),
    ("testbed/live/src/nic/run.rs", "the delay of DCsim's hosts, measured"),
    ("testbed/live/src/border/network.rs", "a benchmark of one program"),
    ("testbed/live/src/border/run.rs", "the program of a border switch"),
    ("testbed/live/src/datapath/", "a benchmark of policies"),
    ("apps/src/on_dpdk/scheduler.rs", "the process that decides for a pod"),
    ("apps/src/on_dpdk/bench/pod.rs", "a benchmark of that process"),
    ("apps/src/run/idle.rs", "a warning about Timely's target"),
];

/// Product files outside [`MAY_NAME`] that name a policy, and entries of the list without such a
/// file.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let modules = modules(files);
    let families: BTreeSet<&str> = modules.iter().map(|module| module.family).collect();
    let mut named = vec![false; MAY_NAME.len()];
    let mut declared = vec![false; ENUMS.len()];
    let mut found = Vec::new();
    for file in files.iter().filter(|file| is_product(&file.path)) {
        let entry = MAY_NAME.iter().position(|(may, _)| may_be(&file.path, may));
        let source = file.source();
        for (line, name) in registered(source.product_code()) {
            match ENUMS.iter().position(|known| *known == name) {
                Some(place) => declared[place] = true,
                None => {
                    let message = format!("registers {name}: list it in tests/tidy/seams.rs");
                    found.push(Finding::new(&file.path, line, message));
                }
            }
        }
        for (line, code) in source.product_code() {
            // Most lines name none, which is quickly seen.
            let may_name = families.iter().any(|family| code.contains(family));
            let of_module = || may_name.then(|| module_in(code, &file.path, &modules)).flatten();
            let Some(policy) = policy_in(code).or_else(of_module) else { continue };
            if let Some(entry) = entry {
                named[entry] = true;
                continue;
            }
            let message = format!(
                "names {policy}: ask its kind for a fact that the policy states, or list the file \
                 in tests/tidy/seams.rs"
            );
            found.push(Finding::new(&file.path, line, message));
        }
    }
    let stale = MAY_NAME.iter().zip(&named).filter(|(_, named)| !**named);
    let stale = stale.map(|((may, _), _)| Finding::new(may, 0, "names no policy: take it out"));
    found.extend(stale);
    let gone = ENUMS.iter().zip(&declared).filter(|(_, declared)| !**declared);
    let gone = gone.map(|(name, _)| format!("no registry declares {name}: take it out"));
    found.extend(gone.map(|message| Finding::new("tests/tidy/seams.rs", 0, message)));
    found
}

/// The module of a policy.
struct Module<'a> {
    /// The folder of its registry, with a `/` behind it.
    folder: &'a str,
    /// The last name of that folder.
    family: &'a str,
    name: &'a str,
    /// The ways to name it: its path and its settings.
    ways: [String; 3],
}

/// The modules that the lines of registries declare: `"dcsim" => dcsim::DcSim,`.
fn modules(files: &[File]) -> Vec<Module<'_>> {
    let registries = files.iter().filter(|file| {
        let is_registry = |line: &str| line.trim_end().ends_with("registry! {");
        is_product(&file.path) && file.text.lines().any(is_registry)
    });
    let of = registries.filter_map(|file| Some((file.path.strip_suffix("mod.rs")?, &file.text)));
    let of = of.flat_map(|(folder, text)| text.lines().map(move |line| (folder, line.trim())));
    of.filter_map(|(folder, line)| {
        let (policy, target) = line.split_once(" => ").filter(|_| line.ends_with(','))?;
        let (name, _) = target.split_once("::").filter(|_| policy.starts_with('"'))?;
        let family = folder.trim_end_matches('/').rsplit('/').next()?;
        let ways = ["::", "_params.", "s."].map(|way| format!("{family}{way}{name}"));
        Some(Module { folder, family, name, ways })
    })
    .collect()
}

/// The first path into the module of a policy, or to its settings, in a line of the file `path`.
fn module_in(code: &str, path: &str, modules: &[Module<'_>]) -> Option<String> {
    modules.iter().filter(|module| !path.starts_with(module.folder)).find_map(|module| {
        let listed = listed_in(code, module.family)
            .find(|path| path.strip_prefix(module.name).is_some_and(|rest| rest.starts_with("::")));
        if let Some(path) = listed {
            return Some(format!("{}::{path}", module.family));
        }
        let is_named =
            |way: &&String| words_in(code, way).any(|at| !code[at + way.len()..].starts_with('('));
        module.ways.iter().find(is_named).cloned()
    })
}

/// The paths that a line lists behind `family::{`.
fn listed_in<'a>(code: &'a str, family: &str) -> impl Iterator<Item = &'a str> {
    let list = words_in(code, family).find_map(|at| code[at + family.len()..].strip_prefix("::{"));
    list.into_iter().flat_map(|list| list.split([',', '{', '}'])).map(str::trim)
}

/// The enums that `registry!` blocks declare, each with its line.
fn registered<'a>(
    code: impl Iterator<Item = (usize, &'a str)>,
) -> impl Iterator<Item = (usize, &'a str)> {
    let mut inside = false;
    code.filter_map(move |(line, code)| {
        inside = code.ends_with("registry! {") || inside && !code.starts_with('}');
        let rest = code.trim_start().strip_prefix("pub enum ").filter(|_| inside)?;
        let name = rest.strip_suffix(';')?.split(':').next()?;
        (!name.starts_with('$')).then_some((line, name))
    })
}

fn is_product(path: &str) -> bool {
    let beside = is_test_file(path) || path.contains("/benches/") || path.contains("/examples/");
    path.ends_with(".rs") && !beside
}

fn may_be(path: &str, may: &str) -> bool {
    path == may
        || may.ends_with('/') && path.starts_with(may)
        || may.strip_suffix('/').is_some_and(|folder| path.strip_suffix(".rs") == Some(folder))
}

/// The first variant of a registry's enum in a line; constants have no lower case.
fn policy_in(code: &str) -> Option<String> {
    if !code.contains("::") {
        return None;
    }
    ENUMS.iter().find_map(|name| {
        let after =
            words_in(code, name).filter_map(|at| code[at + name.len()..].strip_prefix("::"));
        let variants = after.map(|rest| rest.split(|c| !super::is_word(c)).next().unwrap_or(""));
        let is_variant =
            |name: &str| name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
        let policy = variants.into_iter().find(|name| is_variant(name) && *name != NONE);
        policy.map(|policy| format!("{name}::{policy}"))
    })
}

mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<Finding> {
        let file = File::new(path, text);
        check(&[file]).into_iter().filter(|finding| finding.line > 0).collect()
    }

    #[test]
    fn a_file_that_is_not_listed_may_not_name_a_policy() {
        let text = "//! A.\nfn a(kind: SchedKind) -> bool {\n    kind == SchedKind::Zeropod\n}\n";
        let found = findings("testbed/experiments/src/forecast.rs", text);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 3);
        assert!(found[0].message.starts_with("names SchedKind::Zeropod: "), "{}", found[0]);
        assert_eq!(findings("testbed/experiments/src/plan/zeropod.rs", text), []);
        assert_eq!(findings("testbed/experiments/src/plan/tests.rs", text), []);
    }

    #[test]
    fn constants_functions_and_the_absence_of_a_code_are_no_policies() {
        let text = "let a = (CcKind::ALL, CcKind::by_name(b), EcKind::Uncoded, MyCcKind::Dctcp);\n";
        assert_eq!(findings("apps/src/list.rs", text), []);
    }

    #[test]
    fn modules_and_settings_of_a_policy_are_found_outside_its_registry() {
        let registry = "registry! {\n    \"dcsim\" => dcsim::DcSim,\n}\n";
        let of = |path: &str, text: &str| {
            let registry = File::new("transport/src/sched/mod.rs", registry);
            let found = check(&[registry, File::new(path, text)]);
            found.into_iter().filter(|found| found.line > 0).map(|found| found.message).collect()
        };
        for name in ["sched::dcsim", "sched_params.dcsim"] {
            let text = format!("let a = {name}::b;\nlet c = my{name}; let d = {name}s;\n");
            let found: Vec<_> = of("apps/src/list.rs", &text);
            assert!(
                found.len() == 1 && found[0].starts_with(&format!("names {name}: ")),
                "{found:?}"
            );
            assert_eq!(of("transport/src/sched/labels.rs", &text), [""; 0]);
            assert_eq!(of("testbed/experiments/src/plan/dcsim.rs", &text), [""; 0]);
        }
        let found: Vec<_> = of("apps/src/list.rs", "use transport::sched::{Kind, dcsim::B};\n");
        assert!(found.len() == 1 && found[0].starts_with("names sched::dcsim::B: "), "{found:?}");
        assert_eq!(of("apps/src/list.rs", "use transport::sched::{Kind, dcsims::B};\n"), [""; 0]);
    }

    #[test]
    fn the_enums_of_each_registry_are_listed() {
        let text = |kind: &str| {
            format!("registry! {{\n    pub enum {kind};\n    pub enum Cc: Controller;\n}}\n")
        };
        let path = "transport/src/cc/mod.rs";
        assert_eq!(findings(path, &text("CcKind")), []);
        let found = findings(path, &text("ShaperKind"));
        assert_eq!((found.len(), found[0].line), (1, 2));
        assert!(found[0].message.starts_with("registers ShaperKind: "), "{}", found[0]);
        let file = File::new(path, text("CcKind"));
        let gone: Vec<_> = check(&[file]).into_iter().filter(|found| found.line == 0).collect();
        let says = |name: &str| gone.iter().any(|found| found.message.contains(name));
        assert!(says("declares LbKind:") && !says("declares CcKind:") && !says("declares Cc:"));
    }

    #[test]
    fn an_entry_whose_file_names_no_policy_is_found() {
        let text = "fn a() { b(CcKind::Timely); }\n".to_owned();
        let path = "apps/src/run/idle.rs".to_owned();
        let of = |text: &str| check(&[File::new(path.as_str(), text)]);
        let is_stale = |found: Vec<Finding>| found.iter().any(|finding| finding.path == path);
        assert!(!is_stale(of(&text)));
        assert!(is_stale(of("fn a() {}\n")));
    }
}
