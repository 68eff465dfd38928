//! libdpdk and its drivers: what is installed, found as files, without loading any of it.
//!
//! Source: the library and plugin directories of Debian's, Fedora's and DPDK's own packages; DPDK
//! Programmer's Guide on plugins: only `*.so` and `*.so.<ABI>` files of a directory that not
//! every user may write are loaded. ABI n belongs to release (n - 1).11.

use super::finding::Finding;
use super::machine::Machine;

/// A driver, its purpose, and whether every vdev run needs it, whatever links are chosen.
struct PmdDriver {
    name: &'static str,
    why: &'static str,
    required: bool,
}

const DRIVERS: [PmdDriver; 9] = [
    PmdDriver { name: "bus_vdev", why: "every virtual device hangs on this bus", required: true },
    PmdDriver { name: "mempool_ring", why: "packet buffers come from it", required: true },
    PmdDriver {
        name: "net_ring",
        why: "the links of a vdev run unless another is chosen",
        required: true,
    },
    PmdDriver { name: "net_memif", why: "links through shared memory", required: false },
    PmdDriver { name: "net_tap", why: "links that the kernel's tools can watch", required: false },
    PmdDriver { name: "net_null", why: "measures transmission alone", required: false },
    PmdDriver { name: "net_af_packet", why: "links over the kernel's interfaces", required: false },
    PmdDriver { name: "net_pcap", why: "captures and replays packets", required: false },
    PmdDriver { name: "bus_pci", why: "network cards hang on this bus", required: false },
];

const PREFIXES: [&str; 2] = ["/usr/local", "/usr"];

/// All findings about DPDK.
pub(crate) fn probe(machine: &Machine) -> Vec<Finding> {
    let mut findings = vec![built_with(machine)];
    let dirs = lib_dirs(machine);
    findings.push(library(machine, &dirs));
    let plugins = plugin_dirs(machine, &dirs);
    findings.push(plugin_dir(machine, &plugins));
    findings.extend(DRIVERS.iter().map(|driver| driver_finding(machine, &plugins, driver)));
    findings
}

fn built_with(machine: &Machine) -> Finding {
    const WHY: &str = "vdev and nic runs send through DPDK";
    let id = "dpdk.built_with";
    if machine.has_dpdk {
        return Finding::ok(id, "this headrace was built with DPDK", WHY);
    }
    let install = machine.install("libdpdk-dev libclang-dev pkg-config", "dpdk-devel clang-devel");
    let what = "this headrace was built without DPDK";
    Finding::fail(id, what, WHY, format!("{install} && cargo build --release"))
}

/// Every directory of libraries: `lib`, `lib64`, and the architecture's own below `lib`.
fn lib_dirs(machine: &Machine) -> Vec<String> {
    let mut dirs = Vec::new();
    for prefix in PREFIXES {
        dirs.push(format!("{prefix}/lib64"));
        dirs.push(format!("{prefix}/lib"));
        let triples = machine.names(&format!("{prefix}/lib"));
        let triples = triples.into_iter().filter(|name| name.ends_with("-linux-gnu"));
        dirs.extend(triples.map(|triple| format!("{prefix}/lib/{triple}")));
    }
    dirs
}

fn library(machine: &Machine, dirs: &[String]) -> Finding {
    const WHY: &str = "vdev and nic runs send through DPDK";
    const PREFIX: &str = "librte_eal.so.";
    let id = "dpdk.library";
    let found = dirs.iter().find_map(|dir| {
        let names = machine.names(dir);
        let name = names.into_iter().rfind(|name| name.starts_with(PREFIX))?;
        Some((format!("{dir}/{name}"), name))
    });
    let Some((path, name)) = found else {
        let mend = machine.install("libdpdk-dev", "dpdk dpdk-devel");
        return Finding::fail(id, "libdpdk is not installed", WHY, mend);
    };
    let abi = name[PREFIX.len()..].split('.').next().and_then(|abi| abi.parse::<u32>().ok());
    match abi {
        Some(abi) if abi >= ABI_MIN => Finding::ok(id, format!("DPDK {}.11: {path}", abi - 1), WHY),
        Some(abi) => Finding::fail(
            id,
            format!(
                "DPDK {}.11 at {path} is too old; 22.11 is the first that works",
                abi.max(1) - 1
            ),
            WHY,
            machine.install("-t bookworm libdpdk-dev", "dpdk dpdk-devel"),
        ),
        None => Finding::info(id, format!("DPDK of an unknown release: {path}"), WHY),
    }
}

const ABI_MIN: u32 = 23;

/// Directories that hold DPDK's plugins.
fn plugin_dirs(machine: &Machine, dirs: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for dir in dirs {
        for sub in [dir.clone(), format!("{dir}/dpdk")] {
            let plugins = machine
                .names(&sub)
                .into_iter()
                .filter(|name| name.starts_with("pmds-") || name.starts_with("dpdk-pmds"));
            found.extend(plugins.map(|name| format!("{sub}/{name}")));
        }
    }
    found
}

fn plugin_dir(machine: &Machine, plugins: &[String]) -> Finding {
    const WHY: &str = "DPDK loads its drivers from there";
    let id = "dpdk.plugins";
    let Some(first) = plugins.first() else {
        let mend = machine.install("libdpdk-dev", "dpdk");
        let what = "no directory of DPDK drivers (/usr/lib/*/dpdk/pmds-*)";
        return Finding::fail(id, what, WHY, mend);
    };
    let open = plugins.iter().find(|dir| machine.mode(dir).is_some_and(|mode| mode & 0o002 != 0));
    if let Some(dir) = open {
        let what = format!("every user may write {dir}, so DPDK loads nothing from it");
        return Finding::fail(id, what, WHY, format!("sudo chmod o-w {dir}"));
    }
    let count = machine.names(first).iter().filter(|name| name.ends_with(".so")).count();
    let what = match plugins.len() {
        1 => format!("{count} drivers in {first}"),
        _ => format!("{count} drivers in {first}; also {}", plugins[1..].join(", ")),
    };
    Finding::ok(id, what, WHY)
}

fn driver_finding(machine: &Machine, plugins: &[String], driver: &PmdDriver) -> Finding {
    let id = format!("dpdk.pmd.{}", driver.name);
    let prefix = format!("librte_{}.so", driver.name);
    let is_it = |name: &String| {
        name.strip_prefix(&prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if plugins.iter().any(|dir| machine.names(dir).iter().any(is_it)) {
        return Finding::ok(&id, format!("driver {} is there", driver.name), driver.why);
    }
    let what = format!("driver {} is missing", driver.name);
    let package = format!("librte-{}[0-9]*", driver.name.replace('_', "-"));
    let mend = machine.install(&format!("'^{package}'"), "dpdk");
    if driver.required {
        Finding::fail(&id, what, driver.why, mend)
    } else if driver.name == "bus_pci" {
        Finding::warn(&id, what, driver.why, mend).blocks_nic()
    } else {
        Finding::warn(&id, what, driver.why, mend)
    }
}
