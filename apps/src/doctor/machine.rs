//! The machine as the doctor sees it: text files of /proc, /sys and a few directories, below a
//! root.
//!
//! Everything is read through here, so a test puts a tree of its own in place of a machine that is
//! not at hand. What cannot be read is absent, never an error. It changes nothing and starts no
//! process.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A machine below a root directory, and the few facts that are in no file.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
    /// XDG_RUNTIME_DIR.
    pub(crate) runtime_dir: Option<String>,
    /// Whether this program was built with DPDK.
    pub(crate) has_dpdk: bool,
    /// The processor's family, as Rust names it.
    pub(crate) arch: &'static str,
}

impl Machine {
    /// The machine this program runs on.
    #[must_use]
    pub fn this() -> Self {
        Self {
            root: PathBuf::from("/"),
            runtime_dir: std::env::var("XDG_RUNTIME_DIR").ok().filter(|dir| !dir.is_empty()),
            has_dpdk: cfg!(feature = "dpdk"),
            arch: std::env::consts::ARCH,
        }
    }

    /// A machine whose /proc, /sys, /dev, /etc, /usr and /run lie below `root`.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), runtime_dir: None, has_dpdk: true, arch: "x86_64" }
    }

    /// A file as text.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A file that holds one number.
    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.trim().parse().ok()
    }

    /// The names in a directory, in order; none when there is no such directory.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names
    }

    /// The target of a symbolic link: the last part of its path.
    pub(crate) fn link_name(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        target.file_name()?.to_str().map(str::to_owned)
    }

    /// Whether there is anything at `path`.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Permission bits; `None` when there is nothing.
    pub(crate) fn mode(&self, path: &str) -> Option<u32> {
        fs::metadata(self.path(path)).ok().map(|meta| meta.permissions().mode())
    }

    /// The value behind `key` in a file of `key value` or `key: value` lines.
    pub(crate) fn field(&self, path: &str, key: &str) -> Option<String> {
        let text = self.text(path)?;
        text.lines().find_map(|line| {
            let rest = line.strip_prefix(key)?;
            let separated = rest.starts_with([':', '\t', ' ', '=']);
            separated.then(|| rest.trim_start_matches([':', '\t', ' ', '=']).trim().to_owned())
        })
    }

    /// The effective user, 0 being root; `None` when it is not known.
    pub(crate) fn euid(&self) -> Option<u32> {
        self.field("/proc/self/status", "Uid")?.split_whitespace().nth(1)?.parse().ok()
    }

    /// Whether this process holds a capability, counted as in capabilities(7).
    pub(crate) fn has_capability(&self, bit: u32) -> bool {
        let effective = self.field("/proc/self/status", "CapEff");
        let mask = effective.and_then(|mask| u64::from_str_radix(&mask, 16).ok()).unwrap_or(0);
        mask >> bit & 1 == 1
    }

    /// The soft limit called `name` of /proc/self/limits; `None` when unlimited or unknown.
    pub(crate) fn soft_limit(&self, name: &str) -> Option<u64> {
        self.field("/proc/self/limits", name)?.split_whitespace().next()?.parse().ok()
    }

    /// The command that installs a package, by what this system is: `apt` names, `dnf` names.
    pub(crate) fn install(&self, apt: &str, dnf: &str) -> String {
        let ids = ["ID", "ID_LIKE"].map(|key| self.field("/etc/os-release", key));
        let ids = ids.into_iter().flatten().collect::<Vec<_>>().join(" ");
        if ["fedora", "rhel", "centos"].iter().any(|id| ids.contains(id)) {
            format!("sudo dnf install {dnf}")
        } else {
            format!("sudo apt-get install {apt}")
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(Path::new(path.trim_start_matches('/')))
    }
}
