//! The memory of the machine: free memory, limits of the process and of its cgroup, hugepages.
//!
//! Source: /proc/meminfo, /proc/self/limits, /proc/self/cgroup with the cgroup files of versions 1
//! and 2, /sys/kernel/mm/hugepages, /sys/devices/system/node, /proc/mounts. Sizes are bytes, shown
//! in MiB.

use super::cgroup::{Cgroup, groups};
use super::finding::Finding;
use super::machine::Machine;

/// DPDK memory of a vdev run of sixteen hosts, and the program around it.
pub(crate) const VDEV_NEED_BYTES: u64 = 768 * MIB;

/// Address space of a run without hugepages: its memory, libraries, drivers and thread stacks.
const ADDRESS_SPACE_NEED_BYTES: u64 = VDEV_NEED_BYTES + 1024 * MIB;

/// DPDK memory of `headrace dci` with its default number of buffers for jumbo frames, and the
/// program around it.
const BORDER_NEED_BYTES: u64 = 384 * MIB;

const MIB: u64 = 1 << 20;

/// All findings about memory.
pub(crate) fn probe(machine: &Machine) -> Vec<Finding> {
    let mut findings = vec![available(machine)];
    findings.push(cgroup(machine));
    findings.push(address_space(machine));
    findings.push(locked(machine));
    findings.push(hugepages(machine));
    findings.push(hugepage_mount(machine));
    findings.push(border(machine));
    findings
}

/// Memory that this program can have without hugepages: what is free, what its cgroup leaves, and
/// what is left of its address space; `None` when the system does not say.
pub(crate) fn room_bytes(machine: &Machine) -> Option<u64> {
    let cgroup = cgroup_room(machine).map(|(room, _)| room);
    let limit = machine.soft_limit("Max address space");
    let mapped = kilobytes(machine, "/proc/self/status", "VmSize").unwrap_or(0);
    let address_space = limit.map(|limit| limit.saturating_sub(mapped));
    available_bytes(machine).into_iter().chain(cgroup).chain(address_space).min()
}

fn available_bytes(machine: &Machine) -> Option<u64> {
    kilobytes(machine, "/proc/meminfo", "MemAvailable")
}

/// The bytes of a field in kilobytes.
fn kilobytes(machine: &Machine, file: &str, field: &str) -> Option<u64> {
    let kb = machine.field(file, field)?;
    kb.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

fn available(machine: &Machine) -> Finding {
    const WHY: &str = "a vdev run keeps packet buffers and application data in memory";
    let id = "memory.available";
    let Some(bytes) = available_bytes(machine) else {
        return Finding::info(id, "free memory is unknown: no MemAvailable", WHY);
    };
    let what = format!("{} MiB available, {} MiB needed", bytes / MIB, VDEV_NEED_BYTES / MIB);
    let huge: u64 = pools(machine).iter().map(Pool::free_bytes).sum();
    if bytes >= VDEV_NEED_BYTES || huge >= VDEV_NEED_BYTES {
        return Finding::ok(id, what, WHY);
    }
    let mend = if bytes.saturating_add(huge) >= VDEV_NEED_BYTES {
        "sudo sysctl vm.nr_hugepages=0"
    } else {
        "ps -eo pid,rss,comm --sort=-rss | head   # end what is not needed, then try again"
    };
    Finding::fail(id, format!("too little memory: {what}"), WHY, mend)
}

/// Whether the buffers of a border switch fit.
fn border(machine: &Machine) -> Finding {
    const WHY: &str = "headrace dci holds what waits at the border of a site, and what is on an \
                       emulated link, in its buffers";
    let id = "dci.memory";
    let need = BORDER_NEED_BYTES / MIB;
    let Some(bytes) = room_bytes(machine) else {
        return Finding::info(id, format!("{need} MiB needed, free memory is unknown"), WHY);
    };
    let what = format!("{} MiB available to headrace dci, {need} MiB needed", bytes / MIB);
    if bytes >= BORDER_NEED_BYTES {
        return Finding::ok(id, what, WHY);
    }
    Finding::warn(id, what, WHY, "headrace dci --buffers 4096 ...   # fewer frames wait")
}

/// Room in the tightest memory cgroup of this process, and the file that sets its limit.
fn cgroup_room(machine: &Machine) -> Option<(u64, String)> {
    let room = |Cgroup { dir, unified }| {
        let (limit, usage, cache) = if unified {
            ("memory.max", "memory.current", "inactive_file")
        } else {
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        };
        let file = format!("{dir}/{limit}");
        let max = machine.number(&file).filter(|&max| max < UNLIMITED_BYTES)?;
        let used = machine.number(&format!("{dir}/{usage}")).unwrap_or(0);
        let cached = machine.field(&format!("{dir}/memory.stat"), cache);
        let cached = cached.and_then(|text| text.parse().ok()).unwrap_or(0);
        Some((max.saturating_sub(used.saturating_sub(cached)), file))
    };
    groups(machine, "memory").into_iter().filter_map(room).min()
}

/// Version 1 says "no limit" by a number near 2^63.
const UNLIMITED_BYTES: u64 = 1 << 60;

fn cgroup(machine: &Machine) -> Finding {
    const WHY: &str = "the kernel ends a process that outgrows its cgroup, whatever is free";
    let id = "memory.cgroup";
    match cgroup_room(machine) {
        None => Finding::ok(id, "no limit on this process's cgroup", WHY),
        Some((room, _)) if room >= VDEV_NEED_BYTES => {
            Finding::ok(id, format!("{} MiB below the cgroup's limit", room / MIB), WHY)
        }
        Some((room, file)) => Finding::fail(
            id,
            format!(
                "too little memory: {} MiB below the limit in {file}, {} MiB needed",
                room / MIB,
                VDEV_NEED_BYTES / MIB
            ),
            WHY,
            format!(
                "echo 2147483648 | sudo tee {file}   # or start the container with more memory"
            ),
        ),
    }
}

fn address_space(machine: &Machine) -> Finding {
    const WHY: &str = "DPDK reserves its address space at start, and dies when it may not";
    let id = "memory.address_space";
    match machine.soft_limit("Max address space") {
        Some(limit) if limit < ADDRESS_SPACE_NEED_BYTES => Finding::fail(
            id,
            format!(
                "limited to {} MiB, {} MiB needed",
                limit / MIB,
                ADDRESS_SPACE_NEED_BYTES / MIB
            ),
            WHY,
            "ulimit -v unlimited",
        ),
        Some(limit) => Finding::ok(id, format!("limited to {} MiB", limit / MIB), WHY),
        None => Finding::ok(id, "not limited", WHY),
    }
}

fn locked(machine: &Machine) -> Finding {
    const WHY: &str = "a network card reads locked memory only; virtual devices need none";
    let id = "memory.locked";
    match machine.soft_limit("Max locked memory") {
        Some(limit) if limit < VDEV_NEED_BYTES && machine.euid() != Some(0) => Finding::warn(
            id,
            format!("at most {} MiB may be locked", limit / MIB),
            WHY,
            "ulimit -l unlimited   # needs a higher hard limit: /etc/security/limits.conf, memlock",
        ),
        Some(limit) => Finding::ok(id, format!("at most {} MiB may be locked", limit / MIB), WHY),
        None => Finding::ok(id, "not limited", WHY),
    }
}

/// Hugepages of one size.
struct Pool {
    size_kb: u64,
    total: u64,
    free: u64,
}

impl Pool {
    fn free_bytes(&self) -> u64 {
        self.free.saturating_mul(self.size_kb).saturating_mul(1024)
    }
}

fn pools(machine: &Machine) -> Vec<Pool> {
    pools_in(machine, "/sys/kernel/mm/hugepages")
}

fn pools_in(machine: &Machine, dir: &str) -> Vec<Pool> {
    let pool = |name: String| {
        let size_kb = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let count = |file: &str| machine.number(&format!("{dir}/{name}/{file}")).unwrap_or(0);
        Some(Pool { size_kb, total: count("nr_hugepages"), free: count("free_hugepages") })
    };
    let mut pools: Vec<Pool> = machine.names(dir).into_iter().filter_map(pool).collect();
    pools.sort_by_key(|pool| pool.size_kb);
    pools
}

fn hugepages(machine: &Machine) -> Finding {
    const WHY: &str = "without hugepages vdev runs use --no-huge and move large packets about 2.7 \
                       times slower; network cards need them";
    let id = "hugepages";
    let pools = pools(machine);
    let free: u64 = pools.iter().map(Pool::free_bytes).sum();
    let mut parts: Vec<String> = pools
        .iter()
        .filter(|pool| pool.total > 0)
        .map(|pool| format!("{} of {} free of {} kB", pool.free, pool.total, pool.size_kb))
        .collect();
    parts.extend(by_node(machine));
    if free >= VDEV_NEED_BYTES {
        return Finding::ok(id, parts.join("; "), WHY);
    }
    let what = match parts.is_empty() {
        true => "no hugepages".to_owned(),
        false => format!("too few hugepages: {}", parts.join("; ")),
    };
    let mend = format!("sudo sysctl vm.nr_hugepages={}", VDEV_NEED_BYTES / (2 * MIB));
    Finding::warn(id, what, WHY, mend).blocks_nic()
}

/// Free hugepages of each NUMA node, when there is more than one.
fn by_node(machine: &Machine) -> Vec<String> {
    let is_node = |name: &String| {
        name.strip_prefix("node").is_some_and(|digits| digits.parse::<u32>().is_ok())
    };
    let dir = "/sys/devices/system/node";
    let nodes: Vec<String> = machine.names(dir).into_iter().filter(is_node).collect();
    if nodes.len() < 2 {
        return Vec::new();
    }
    let free_mb = |node: &String| {
        let pools = pools_in(machine, &format!("{dir}/{node}/hugepages"));
        pools.iter().map(Pool::free_bytes).sum::<u64>() / MIB
    };
    nodes.iter().map(|node| format!("{node} {} MiB free", free_mb(node))).collect()
}

fn hugepage_mount(machine: &Machine) -> Finding {
    const WHY: &str = "other DPDK programs map hugepages from there; headrace maps them without";
    let id = "hugepages.mount";
    let mounts = machine.text("/proc/mounts").unwrap_or_default();
    let points: Vec<&str> = mounts
        .lines()
        .filter(|line| line.split(' ').nth(2) == Some("hugetlbfs"))
        .filter_map(|line| line.split(' ').nth(1))
        .collect();
    match points.is_empty() {
        false => Finding::ok(id, format!("hugetlbfs at {}", points.join(", ")), WHY),
        true => Finding::info(id, "no hugetlbfs is mounted", WHY),
    }
}
