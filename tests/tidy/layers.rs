//! The order of modules inside each crate, and files in circles.
//!
//! A module at the top of a crate, a file or a folder, may use modules of lower layers and itself.
//! Modules of one layer do not see each other, so policies never do. Modules that are not listed
//! are tools (containers, units): every module may use them, and they may use one another only.

use super::imports::{Crate, Use, circles};
use super::{File, Finding};

/// The sources of one crate, or a folder in them that uses nothing of its crate but itself; and the
/// layers inside, the lowest first, separated by spaces inside a layer.
struct Order {
    root: &'static str,
    layers: &'static [&'static str],
}

const CRATES: &[Order] = &[
    Order { root: "dpdk-sys/src/", layers: &["lib"] },
    Order {
        root: "transport/src/",
        layers: &[
            "wire",
            "segment stats histogram trace telemetry",
            "rc",
            "cc lb ec sched",
            "config",
            "flow",
            "endpoint",
            "record",
            "lib",
        ],
    },
    Order {
        root: "transport/dpdk/src/",
        layers: &[
            "eal neighbour security",
            "buffers",
            "clock payload",
            "device app",
            "io",
            "telemetry",
            "worker",
            "lib",
        ],
    },
    Order {
        root: "transport/gf/src/",
        layers: &["products interpolation", "x86", "kernel", "pairs", "codec", "lib"],
    },
    Order { root: "transport/ffi/src/", layers: &["stack", "app device", "ffi", "lib"] },
    Order {
        root: "testbed/fabric/src/",
        layers: &[
            "packet stats",
            "train",
            "qdisc calendar frames",
            "elements crossings time_window port",
            "routing wiring",
            "mesh",
            "transit pod",
            "program",
            "blueprint",
            "network",
            "parts leaf_spine",
            "lib",
        ],
    },
    Order {
        root: "testbed/fabric/src/pod/",
        layers: &["ops", "x86", "demands", "kernel ports", "matcher load", "scheduler", "mod"],
    },
    Order {
        root: "testbed/experiments/src/",
        layers: &[
            "input series shown flow_set",
            "workload",
            "topology hosts_file",
            "scenario",
            "plan",
            "conductor forecast capture tournament",
            "progress observe",
            "why",
            "measure",
            "ideal",
            "virtual_time",
            "lib",
        ],
    },
    Order {
        root: "testbed/live/src/",
        layers: &[
            "dpdk_error capture",
            "workers inspect switching",
            "vdev nic peers border",
            "datapath",
            "lib",
        ],
    },
    Order {
        root: "apps/src/",
        layers: &[
            "exit output stopwatch table",
            "failure interrupt",
            "args ranking",
            "progress observe generate doctor replay bench",
            "on_dpdk without_dpdk",
            "provenance",
            "run",
            "list report why gather tournament",
            "cli",
            "shell",
            "lib",
            "main",
        ],
    },
];

/// Checks every crate of the table.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let roots = roots(files);
    let unknown = roots.iter().filter(|root| CRATES.iter().all(|order| order.root != **root));
    let message = "a crate without layers: list it in tests/tidy/layers.rs";
    let unknown = unknown.map(|root| Finding::new(root, 0, message));
    let known = CRATES.iter().map(|order| order.check(&Crate::read(order.sources(), files).uses()));
    known.flatten().chain(unknown).collect()
}

/// Files that use one another in a circle from folder to folder, in the crate below `root`.
pub(crate) fn crossing_circles(root: &str, files: &[File]) -> Vec<Finding> {
    let found = circles(&Crate::read(root, files).uses());
    let crossing = found.into_iter().filter(|circle| crosses(circle, files));
    let message = |circle: &[String]| format!("a circle of files: {}", circle.join(", "));
    crossing.map(|circle| Finding::new(&circle[0], 0, message(&circle))).collect()
}

/// Circles of files inside one folder that are left, each with its files, and why.
const CIRCLES_KEPT: &[(&[&str], &str)] = &[];

/// Files of one folder that use one another in a circle, in the crate below `root`. A file and
/// those below it in a folder of its name may: they are one module in pieces.
pub(crate) fn circles_inside(root: &str, files: &[File]) -> Vec<Finding> {
    let found = circles(&Crate::read(root, files).uses());
    let inside = found.into_iter().filter(|circle| {
        let is_kept = |(kept, _): &(&[&str], &str)| circle.iter().all(|f| kept.contains(&&**f));
        !crosses(circle, files) && !is_one_module(circle) && !CIRCLES_KEPT.iter().any(is_kept)
    });
    let message = |circle: &[String]| format!("a circle of files: {}", circle.join(", "));
    inside.map(|circle| Finding::new(&circle[0], 0, message(&circle))).collect()
}

/// Whether one of the files is the module that all others are below.
fn is_one_module(circle: &[String]) -> bool {
    let stem = |file: &String| file.trim_end_matches(".rs").trim_end_matches("mod").to_owned();
    circle.iter().any(|top| {
        let below = stem(top).trim_end_matches('/').to_owned() + "/";
        circle.iter().all(|file| file == top || file.starts_with(&below))
    })
}

/// The roots of all crates: folders of a `Cargo.toml` with their `src/`.
pub(crate) fn roots(files: &[File]) -> Vec<String> {
    let manifests = files.iter().filter_map(|file| file.path.strip_suffix("Cargo.toml"));
    let sources = manifests.map(|folder| format!("{folder}src/"));
    sources.filter(|root| files.iter().any(|file| file.path.starts_with(root))).collect()
}

/// Whether a circle joins folders, other than a folder and those below it by its own `mod.rs`.
fn crosses(circle: &[String], files: &[File]) -> bool {
    let folders: Vec<&str> = circle.iter().map(|file| folder(file, files)).collect();
    let within = |path: &str, folder: &str| {
        path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let shared = |folder: &str| folders.iter().all(|other| within(other, folder));
    let is_top = |(file, folder): (&String, &&str)| {
        shared(folder) && (file.ends_with("/mod.rs") || !within(file, folder))
    };
    folders.iter().any(|other| *other != folders[0]) && !circle.iter().zip(&folders).any(is_top)
}

/// The folder a file belongs to: `a/b` for `a/b.rs` where there is such a folder, else its own.
fn folder<'a>(file: &'a str, files: &[File]) -> &'a str {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let own = format!("{stem}/");
    let is_product = |other: &File| !super::is_test_file(&other.path);
    if files.iter().any(|other| other.path.starts_with(&own) && is_product(other)) {
        return stem;
    }
    &file[..file.rfind('/').unwrap_or(0)]
}

impl Order {
    fn check(&self, uses: &[Use]) -> Vec<Finding> {
        let mut found = Vec::new();
        for arrow in uses.iter().filter(|arrow| arrow.from.starts_with(self.root)) {
            if !arrow.to.starts_with(self.root) {
                let message = format!("`{}` must use nothing outside its folder", arrow.from);
                found.push(Finding::new(&arrow.from, arrow.line, message));
                continue;
            }
            let (from, to) = (self.module(&arrow.from), self.module(&arrow.to));
            let are_tools = self.rank(from) == 0 && self.rank(to) == 0;
            if from == to || self.rank(to) < self.rank(from) || are_tools {
                continue;
            }
            let message = format!("`{from}` must not use `{to}`: not in a layer below it");
            found.push(Finding::new(&arrow.from, arrow.line, message));
        }
        found
    }

    /// The sources of the crate.
    fn sources(&self) -> &str {
        let end = self.root.find("src/").map_or(self.root.len(), |at| at + "src/".len());
        &self.root[..end]
    }

    /// The module at the top of the crate, or of the folder, that a file belongs to.
    fn module<'a>(&self, file: &'a str) -> &'a str {
        let inner = file.strip_prefix(self.root).unwrap_or(file);
        inner.split('/').next().unwrap_or(inner).trim_end_matches(".rs")
    }

    /// From 1; 0 for a tool.
    fn rank(&self, module: &str) -> usize {
        let layer = |layer: &&str| layer.split(' ').any(|name| name == module);
        self.layers.iter().position(layer).map_or(0, |at| at + 1)
    }
}

mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File::new(path, text)
    }

    /// The core, with `text` as `path` and a few modules that it may name.
    fn lines(path: &str, text: &str) -> Vec<usize> {
        let tree =
            ["units", "time", "rng", "wire/mod", "cc/mod", "lb/mod", "flow/mod", "endpoint/mod"];
        let mut files: Vec<File> =
            tree.iter().map(|name| file(&format!("transport/src/{name}.rs"), "")).collect();
        files.retain(|other| other.path != path);
        let shown = "mod flow;\nmod rng;\npub use flow::Flow;\npub use rng::Rng;\n";
        files.push(file("transport/src/lib.rs", shown));
        files.push(file(path, text));
        check(&files).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_policy_may_not_use_the_endpoint_the_flow_or_another_policy() {
        let text = "use crate::units::Bytes;\nuse crate::flow::Flow;\nuse crate::{\n\
                    time::{Rate},\nendpoint::Endpoint,\n};\nfn a() { crate::lb::b() }\n";
        assert_eq!(lines("transport/src/cc/smartt.rs", text), [3, 2, 7]);
    }

    #[test]
    fn climbing_by_super_and_names_that_the_crate_shows_are_seen_through() {
        assert_eq!(lines("transport/src/cc/smartt.rs", "use super::super::flow::Flow;\n"), [1]);
        assert_eq!(lines("transport/src/cc/mod.rs", "use super::flow::Flow;\n"), [1]);
        assert_eq!(lines("transport/src/cc/mod.rs", "use crate::Flow;\n"), [1]);
        assert_eq!(lines("transport/src/cc/smartt.rs", "use super::{Window, Path};\n"), []);
    }

    #[test]
    fn what_the_crate_itself_holds_is_above_all_modules() {
        assert_eq!(lines("transport/src/flow/tx.rs", "use crate::Held;\n"), [1]);
    }

    #[test]
    fn layers_may_use_what_lies_below_them() {
        let text = "use crate::cc::CcKind;\nuse crate::wire::Header;\nuse crate::{Rng, time};\n";
        assert_eq!(lines("transport/src/flow/tx.rs", text), []);
        assert_eq!(lines("transport/src/wire/mod.rs", "use crate::cc::CcKind;\n"), [1]);
        assert_eq!(lines("transport/src/slab.rs", "use crate::wire::Header;\n"), [1]);
    }

    #[test]
    fn tests_may_use_anything() {
        let text = "#[cfg(test)]\nmod tests {\n    use crate::endpoint::Endpoint;\n}\n";
        assert_eq!(lines("transport/src/cc/smartt.rs", text), []);
    }

    #[test]
    fn modules_of_one_layer_may_not_use_one_another() {
        let fabric = |path: &str, text| {
            let files = ["qdisc/mod", "calendar", "transit", "routing", "wiring"]
                .map(|name| file(&format!("testbed/fabric/src/{name}.rs"), ""));
            let files: Vec<File> = files.into_iter().filter(|other| other.path != path).collect();
            check(&[files, vec![file(path, text)]].concat()).len()
        };
        assert_eq!(fabric("testbed/fabric/src/calendar.rs", "use crate::qdisc::Qdisc;\n"), 1);
        assert_eq!(fabric("testbed/fabric/src/wiring.rs", "use crate::routing::Switch;\n"), 1);
        assert_eq!(fabric("testbed/fabric/src/transit.rs", "use crate::routing::Switch;\n"), 0);
    }

    #[test]
    fn a_visibility_is_no_use_of_the_module_that_it_names() {
        let text = "pub(in crate::flow) fn f() {}\nstruct A(pub(in crate::flow::tx) u8);\n";
        assert_eq!(lines("transport/src/cc/smartt.rs", text), []);
    }

    #[test]
    fn a_folder_that_stands_alone_may_use_neither_its_crate_nor_its_own_upper_layers() {
        let lines = |path: &str, text| {
            let tree = ["packet", "copies", "program/mod", "pod/mod", "pod/matcher/mod", "pod/ops"];
            let mut files: Vec<File> = tree
                .iter()
                .map(|name| file(&format!("testbed/fabric/src/{name}.rs"), ""))
                .collect();
            files.retain(|other| other.path != path);
            files.push(file(path, text));
            check(&files).iter().map(|finding| finding.line).collect::<Vec<usize>>()
        };
        let text = "use crate::packet::Packet;\nuse super::matcher::Match;\nuse crate::copies::A;\n\
                    use transport::Rng;\n";
        assert_eq!(lines("testbed/fabric/src/pod/ops.rs", text), [3, 1, 2]);
        let text = "use crate::pod::ops::Ops;\nuse super::X;\n";
        assert_eq!(lines("testbed/fabric/src/pod/matcher/exact.rs", text), []);
        let text = "use crate::pod::matcher::Match;\n";
        assert_eq!(lines("testbed/fabric/src/program/pod_core.rs", text), []);
        assert_eq!(lines("testbed/fabric/src/packet.rs", text), [1]);
    }

    fn crossing(texts: &[(&str, &str)]) -> usize {
        let files: Vec<File> =
            texts.iter().map(|(path, text)| file(&format!("x/src/{path}"), text)).collect();
        crossing_circles("x/src/", &files).len()
    }

    #[test]
    fn a_circle_from_folder_to_folder_is_found_through_what_they_show() {
        let shows = ("b/mod.rs", "mod y;\npub use y::Y;\n");
        let x = ("a/x.rs", "use crate::b::Y;\npub struct X(Y);\n");
        let back = ("b/y.rs", "use crate::a::x::X;\npub struct Y;\n");
        assert_eq!(crossing(&[shows, x, back]), 1);
        assert_eq!(crossing(&[shows, x, ("b/y.rs", "pub struct Y;\n")]), 0);
    }

    #[test]
    fn a_line_of_a_registry_declares_a_module_and_shows_its_policy() {
        let line = "registry! { policies { \"y\" => y::Y, \"z\" => z::Z, } }\n";
        let x = ("a/x.rs", "use crate::b::Z;\npub struct X(Z);\n");
        let back = ("b/z.rs", "use crate::a::x::X;\npub struct Z;\n");
        assert_eq!(crossing(&[("b/mod.rs", line), x, back]), 1);
        assert_eq!(crossing(&[("b/mod.rs", ""), x, back]), 0);
    }

    #[test]
    fn a_file_and_the_folder_of_its_name_are_one() {
        let parts = "mod part;\npub struct Y;\nfn f() { part::g() }\n";
        let part = ("a/y/part.rs", "use super::Y;\n");
        assert_eq!(crossing(&[("a/y.rs", parts), part]), 0);
    }

    #[test]
    fn circles_in_a_folder_and_below_it_by_its_own_module_pass() {
        let top = ("a/mod.rs", "mod x;\nfn f() { x::g() }\n");
        assert_eq!(crossing(&[top, ("a/x.rs", "use super::f;\n")]), 0);
        let top = ("a/mod.rs", "mod b;\nfn f() { b::x::g() }\n");
        assert_eq!(crossing(&[top, ("a/b/x.rs", "use super::super::f;\n")]), 0);
        let beside = ("a/y.rs", "use super::b::x::g;\n");
        assert_eq!(crossing(&[beside, ("a/b/x.rs", "use crate::a::y::h;\n")]), 1);
    }

    #[test]
    fn the_roots_of_crates_are_those_with_manifests_and_sources() {
        let files = [file("a/Cargo.toml", ""), file("a/src/lib.rs", ""), file("Cargo.toml", "")];
        assert_eq!(roots(&files), ["a/src/"]);
        assert_eq!(check(&files).len(), 1, "it has no layers");
    }
}
