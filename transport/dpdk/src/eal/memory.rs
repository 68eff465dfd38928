//! The memory that this machine offers DPDK, and the choice between hugepages and ordinary pages.
//!
//! Source: /proc/meminfo, /proc/self/limits, /sys/kernel/mm/hugepages, and the memory limits of the
//! control groups (cgroups(7), versions 1 and 2) that hold the process: its own and all around it.
//! Sizes are bytes unless a name says mb (2^20 bytes). Parsing and choosing are plain
//! functions of text, so a machine that is not at hand can be tested. It changes nothing on the
//! machine and makes no EAL argument; `mod.rs` beside it turns the choice into arguments.

use std::fmt;
use std::fs;
use std::path::Path;

use thiserror::Error;

const MB: u64 = 1 << 20;
const KB: u64 = 1 << 10;

/// Memory of the machine that a DPDK process could use. `None` is "no limit" or "not known".
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MemoryFacts {
    /// Free hugepages: (page size in bytes, pages), ascending by size.
    pub hugepages_free: Vec<(u64, u64)>,
    /// Memory that can be had without swapping, below the limits of all control groups.
    pub available_bytes: Option<u64>,
    /// RLIMIT_AS, soft.
    pub address_space_bytes: Option<u64>,
    /// RLIMIT_MEMLOCK, soft; matters to vfio only.
    pub locked_bytes: Option<u64>,
}

/// The memory mode asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MemoryMode {
    /// Hugepages when enough are free, else ordinary pages.
    #[default]
    Auto,
    /// Anonymous hugepages; nothing is left on a hugetlbfs.
    Hugepages,
    /// Ordinary 4 KiB pages; about 2.7 times slower on large packets.
    NoHuge,
}

/// The memory mode chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// `--in-memory`: anonymous hugepages, taken as needed.
    Hugepages,
    /// `--no-huge` with this much memory, all of it reserved at start.
    NoHuge {
        /// Size of the reservation, 2^20 bytes.
        mb: u32,
    },
    /// The caller's own EAL arguments choose.
    FromArguments,
}

/// Why no memory mode fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MemoryError {
    /// Hugepages were demanded and too few are free.
    #[error(
        "{wanted_mb} MiB of hugepages wanted, {free_mb} MiB free; reserve them with \
         `sudo sysctl vm.nr_hugepages={pages}`, or run without hugepages"
    )]
    TooFewHugepages {
        /// Wanted, 2^20 bytes.
        wanted_mb: u64,
        /// Free, 2^20 bytes.
        free_mb: u64,
        /// The value that vm.nr_hugepages must have, counted in pages of 2 MiB.
        pages: u64,
    },
    /// Ordinary memory is short.
    #[error(
        "{wanted_mb} MiB of memory wanted, {available_mb} MiB available; end other programs, raise \
         the container's memory limit, or use fewer hosts"
    )]
    TooLittleMemory {
        /// Wanted, 2^20 bytes.
        wanted_mb: u64,
        /// Available, 2^20 bytes.
        available_mb: u64,
    },
    /// RLIMIT_AS would make EAL's reservation fail.
    #[error(
        "the address space of this process is limited to {limit_mb} MiB, and DPDK reserves \
         {wanted_mb} MiB; lift it with `ulimit -v unlimited`"
    )]
    AddressSpaceLimited {
        /// The limit, 2^20 bytes.
        limit_mb: u64,
        /// The memory that EAL reserves, 2^20 bytes.
        wanted_mb: u64,
    },
}

impl MemoryFacts {
    /// Reads this machine. What cannot be read stays unknown.
    #[must_use]
    pub fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let limits = text("/proc/self/limits");
        let free = available(&text("/proc/meminfo"));
        let cgroup = cgroup_room(Path::new("/"));
        Self {
            hugepages_free: hugepages_free(Path::new("/sys/kernel/mm/hugepages")),
            available_bytes: [free, cgroup].into_iter().flatten().min(),
            address_space_bytes: soft_limit(&limits, "Max address space"),
            locked_bytes: soft_limit(&limits, "Max locked memory"),
        }
    }

    /// Bytes in free hugepages of all sizes.
    #[must_use]
    pub fn hugepage_bytes(&self) -> u64 {
        self.hugepages_free
            .iter()
            .fold(0, |sum, (size, pages)| sum.saturating_add(size.saturating_mul(*pages)))
    }

    /// Chooses how to get `wanted_mb` of DPDK memory.
    ///
    /// # Errors
    /// [`MemoryError`] when the mode, or with [`MemoryMode::Auto`] both modes, cannot be had.
    pub fn choose(&self, mode: MemoryMode, wanted_mb: u32) -> Result<Memory, MemoryError> {
        let enough_huge = self.hugepage_bytes() >= u64::from(wanted_mb) * MB;
        match mode {
            MemoryMode::Hugepages if !enough_huge => Err(MemoryError::TooFewHugepages {
                wanted_mb: u64::from(wanted_mb),
                free_mb: self.hugepage_bytes() / MB,
                pages: u64::from(wanted_mb).div_ceil(2),
            }),
            MemoryMode::Hugepages => {
                self.check_address_space(HUGEPAGE_RESERVATION_MB).map(|()| Memory::Hugepages)
            }
            MemoryMode::NoHuge => self.choose_no_huge(wanted_mb),
            // A limited address space has no room for the hugepage tables; ordinary pages may fit.
            MemoryMode::Auto
                if enough_huge && self.check_address_space(HUGEPAGE_RESERVATION_MB).is_ok() =>
            {
                Ok(Memory::Hugepages)
            }
            MemoryMode::Auto => self.choose_no_huge(wanted_mb),
        }
    }

    fn choose_no_huge(&self, wanted_mb: u32) -> Result<Memory, MemoryError> {
        self.check_address_space(u64::from(wanted_mb) + PROCESS_RESERVATION_MB)?;
        match self.available_bytes {
            Some(bytes) if bytes < u64::from(wanted_mb) * MB => Err(MemoryError::TooLittleMemory {
                wanted_mb: u64::from(wanted_mb),
                available_mb: bytes / MB,
            }),
            _ => Ok(Memory::NoHuge { mb: wanted_mb }),
        }
    }

    fn check_address_space(&self, wanted_mb: u64) -> Result<(), MemoryError> {
        match self.address_space_bytes {
            Some(limit) if limit / MB < wanted_mb => {
                Err(MemoryError::AddressSpaceLimited { limit_mb: limit / MB, wanted_mb })
            }
            _ => Ok(()),
        }
    }
}

/// With hugepages EAL reserves tables for RTE_MAX_MEM_MB (512 GB) of each page size and node.
const HUGEPAGE_RESERVATION_MB: u64 = 512 * KB;
/// Libraries, drivers and thread stacks beside DPDK's own memory: measured below 600 MB.
const PROCESS_RESERVATION_MB: u64 = 1024;

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hugepages => write!(f, "hugepages, in memory"),
            Self::NoHuge { mb } => write!(f, "{mb} MiB of ordinary pages"),
            Self::FromArguments => write!(f, "memory as the EAL arguments say"),
        }
    }
}

fn hugepages_free(root: &Path) -> Vec<(u64, u64)> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let mut sizes: Vec<(u64, u64)> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let size = hugepage_size(entry.file_name().to_str()?)?;
            let pages = fs::read_to_string(entry.path().join("free_hugepages")).ok()?;
            Some((size, pages.trim().parse().ok()?))
        })
        .collect();
    sizes.sort_unstable();
    sizes
}

/// `hugepages-2048kB` -> 2 MiB.
fn hugepage_size(name: &str) -> Option<u64> {
    let kb: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    kb.checked_mul(KB)
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kb: u64 = line.split_whitespace().next()?.parse().ok()?;
    kb.checked_mul(KB)
}

/// Files of a version of control groups: the mount, the limit, the usage, and a field of
/// `memory.stat`. The field has the part of the usage that the kernel gives back when memory is
/// short.
struct CgroupFiles(&'static str, &'static str, &'static str, &'static str);

const VERSION_2: CgroupFiles =
    CgroupFiles("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file ");
const VERSION_1: CgroupFiles = CgroupFiles(
    "sys/fs/cgroup/memory",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "total_inactive_file ",
);

/// Room below the tightest limit of the control groups that hold this process; `None` when none of
/// them has a limit. A container may name a path that it does not see: the mount's own directory is
/// its group then. `apps` has the same search with findings, which works without DPDK.
fn cgroup_room(root: &Path) -> Option<u64> {
    let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let rooms = own.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or("-"), parts.next().unwrap_or(""));
        let is_of_memory = controllers.split(',').any(|name| name == "memory");
        let files = if is_of_memory { Some(VERSION_1) } else { None };
        let files = if controllers.is_empty() { Some(VERSION_2) } else { files };
        let groups = Path::new(path.trim_start_matches('/')).ancestors();
        files.into_iter().flat_map(move |files| {
            groups.filter_map(move |group| files.room(&root.join(files.0).join(group)))
        })
    });
    rooms.min()
}

impl CgroupFiles {
    /// Room below the limit of the group in `dir`.
    fn room(&self, dir: &Path) -> Option<u64> {
        let Self(_, limit, usage, cache) = self;
        let text = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let limit = number(&text(limit)).filter(|limit| *limit < UNLIMITED)?;
        let cached = text("memory.stat").lines().find_map(|line| number(line.strip_prefix(cache)?));
        let used = number(&text(usage)).unwrap_or(0).saturating_sub(cached.unwrap_or(0));
        Some(limit.saturating_sub(used))
    }
}

/// Version 1 shows a number near 2^63 where there is no limit.
const UNLIMITED: u64 = 1 << 60;

/// The soft column of one line of /proc/self/limits; `None` for unlimited.
fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roomy() -> MemoryFacts {
        MemoryFacts { available_bytes: Some(8 << 30), ..MemoryFacts::default() }
    }

    #[test]
    fn without_hugepages_auto_takes_ordinary_pages() {
        assert_eq!(roomy().choose(MemoryMode::Auto, 256), Ok(Memory::NoHuge { mb: 256 }));
    }

    #[test]
    fn with_enough_hugepages_of_any_size_auto_takes_them() {
        let mixed = MemoryFacts { hugepages_free: vec![(2 * MB, 1), (1 << 30, 1)], ..roomy() };
        assert_eq!(mixed.choose(MemoryMode::Auto, 1026), Ok(Memory::Hugepages));
        assert_eq!(mixed.choose(MemoryMode::Auto, 1027), Ok(Memory::NoHuge { mb: 1027 }));
    }

    #[test]
    fn demanded_hugepages_that_are_missing_name_the_command() {
        let message = roomy().choose(MemoryMode::Hugepages, 255).unwrap_err().to_string();
        assert!(message.contains("sysctl vm.nr_hugepages=128"), "{message}");
    }

    #[test]
    fn a_small_machine_is_refused_before_eal_fails_on_it() {
        let small = MemoryFacts { available_bytes: Some(100 * MB), ..MemoryFacts::default() };
        let wanted = MemoryError::TooLittleMemory { wanted_mb: 256, available_mb: 100 };
        assert_eq!(small.choose(MemoryMode::Auto, 256), Err(wanted));
    }

    #[test]
    fn a_limited_address_space_rules_hugepages_out_and_may_allow_ordinary_pages() {
        let limited = MemoryFacts {
            hugepages_free: vec![(2 * MB, 512)],
            address_space_bytes: Some(4 << 30),
            ..roomy()
        };
        assert_eq!(limited.choose(MemoryMode::Auto, 256), Ok(Memory::NoHuge { mb: 256 }));
        assert!(matches!(
            limited.choose(MemoryMode::NoHuge, 4096),
            Err(MemoryError::AddressSpaceLimited { limit_mb: 4096, wanted_mb: 5120 })
        ));
    }

    #[test]
    fn the_kernels_texts_are_read_and_nonsense_is_unknown() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\n\
                      Max locked memory         8388608              8388608              bytes\n\
                      Max address space         unlimited            unlimited            bytes\n";
        assert_eq!(soft_limit(limits, "Max locked memory"), Some(8 << 20));
        assert_eq!(soft_limit(limits, "Max address space"), None);
        assert_eq!(available("MemTotal: 5 kB\nMemAvailable:   24105 kB\n"), Some(24105 * KB));
        assert_eq!(available("MemAvailable: many kB"), None);
        assert_eq!(hugepage_size("hugepages-1048576kB"), Some(1 << 30));
        assert_eq!(hugepage_size("hugepages-99999999999999999999kB"), None);
    }

    /// A tree of the files that are named, with their texts, below a directory of its own.
    struct Tree(std::path::PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("headrace-{}-{name}", std::process::id()));
            for (file, text) in files {
                let path = root.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_tightest_limit_of_all_groups_around_a_process_holds() {
        let unified = Tree::new(
            "unified",
            &[
                ("proc/self/cgroup", "0::/job/step\n"),
                ("sys/fs/cgroup/job/step/memory.max", "max\n"),
                ("sys/fs/cgroup/job/memory.max", "100\n"),
                ("sys/fs/cgroup/job/memory.current", "60\n"),
                ("sys/fs/cgroup/job/memory.stat", "anon 40\ninactive_file 20\n"),
                ("sys/fs/cgroup/memory.max", "1000\n"),
                ("sys/fs/cgroup/memory.current", "70\n"),
            ],
        );
        assert_eq!(cgroup_room(&unified.0), Some(60), "the cache is given back");
        let container = Tree::new(
            "container",
            &[("proc/self/cgroup", "0::/unseen\n"), ("sys/fs/cgroup/memory.max", "90\n")],
        );
        assert_eq!(cgroup_room(&container.0), Some(90));
        let old = Tree::new(
            "version-1",
            &[
                ("proc/self/cgroup", "3:cpu,cpuacct:/job\n2:memory:/job\n0::/job\n"),
                ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "50\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n"),
                ("sys/fs/cgroup/cpu/job/memory.limit_in_bytes", "1\n"),
            ],
        );
        assert_eq!(cgroup_room(&old.0), Some(45));
        let free = Tree::new("free", &[("proc/self/cgroup", "0::/\n")]);
        assert_eq!(cgroup_room(&free.0), None);
    }
}
