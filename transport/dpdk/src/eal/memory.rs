//! The memory that this machine offers DPDK, and the choice between hugepages and ordinary pages.
//!
//! Source: /proc/meminfo, /proc/self/limits, /sys/kernel/mm/hugepages, and the memory limit of the
//! cgroup. Sizes are bytes unless a name says mb (2^20 bytes). Parsing and choosing are plain
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
    /// Memory that can be had without swapping, the cgroup's limit included.
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
        let cgroup =
            cgroup_room(&text("/sys/fs/cgroup/memory.max"), &text("/sys/fs/cgroup/memory.current"));
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

fn cgroup_room(max: &str, current: &str) -> Option<u64> {
    let max: u64 = max.trim().parse().ok()?;
    let current: u64 = current.trim().parse().unwrap_or(0);
    Some(max.saturating_sub(current))
}

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
        assert_eq!(cgroup_room("max\n", "5"), None);
        assert_eq!(cgroup_room("100\n", "40\n"), Some(60));
    }
}
