//! How EAL is started: options of ours, and the arguments that they become.

use crate::eal::memory::{Memory, MemoryMode};

/// How EAL is started. The default suits the virtual devices on any machine.
#[derive(Clone, Debug)]
pub struct EalOptions {
    /// Hugepages or not.
    pub memory: MemoryMode,
    /// Memory to provide, 2^20 bytes.
    pub memory_mb: u32,
    /// Whether to probe PCI devices; off for virtual devices only.
    pub pci: bool,
    /// Whether to open DPDK's telemetry socket.
    pub telemetry: bool,
    /// Which of its messages DPDK prints on stderr.
    pub log_level: LogLevel,
    /// Name of this process in DPDK's runtime directory; `None` makes one from the process id.
    pub file_prefix: Option<String>,
    /// The caller's EAL arguments, last and unchanged; those on memory or cores replace ours.
    pub extra_args: Vec<String>,
}

/// DPDK's log threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogLevel {
    /// Errors only.
    #[default]
    Error,
    /// Errors and warnings.
    Warning,
    /// Errors, warnings and what EAL found.
    Info,
    /// All messages.
    Debug,
}

impl Default for EalOptions {
    fn default() -> Self {
        Self {
            memory: MemoryMode::Auto,
            memory_mb: 256,
            pci: false,
            telemetry: false,
            log_level: LogLevel::default(),
            file_prefix: None,
            extra_args: Vec::new(),
        }
    }
}

pub(super) const MEMORY_ARGS: [&str; 8] = [
    "-m",
    "--in-memory",
    "--no-huge",
    "--socket-mem",
    "--numa-mem",
    "--legacy-mem",
    "--huge-dir",
    "--huge-unlink",
];
const CORE_ARGS: [&str; 5] = ["-l", "-c", "--lcores", "--lcore", "--coremask"];
const PCI_ARGS: [&str; 5] = ["-a", "--allow", "-b", "--block", "--no-pci"];

/// Whether the caller's arguments contain one of `names`, alone or with its value attached.
pub(super) fn decides(extra: &[String], names: &[&str]) -> bool {
    extra.iter().any(|argument| {
        names.iter().any(|name| match argument.strip_prefix(name) {
            Some("") => true,
            Some(value) if name.starts_with("--") => value.starts_with('='),
            // `-m512`, but not `--main-lcore`, which does not start with `-m`.
            Some(_) => true,
            None => false,
        })
    })
}

pub(super) fn arguments(
    options: &EalOptions,
    memory: Memory,
    core: usize,
    process: u32,
) -> Vec<String> {
    let mut arguments = vec!["headrace".to_owned()];
    let mut push = |argument: &str| arguments.push(argument.to_owned());
    let prefix = options.file_prefix.clone().unwrap_or_else(|| format!("{PREFIX}{process}"));
    push(&format!("--file-prefix={prefix}"));
    push(match options.log_level {
        LogLevel::Error => "--log-level=error",
        LogLevel::Warning => "--log-level=warning",
        LogLevel::Info => "--log-level=info",
        LogLevel::Debug => "--log-level=debug",
    });
    if !options.telemetry {
        push("--no-telemetry");
    }
    if !decides(&options.extra_args, &CORE_ARGS) {
        // One lcore for the starting thread; without this EAL starts a thread per core.
        push(&format!("--lcores=0@{core}"));
    }
    if !options.pci && !decides(&options.extra_args, &PCI_ARGS) {
        push("--no-pci");
    }
    match memory {
        Memory::Hugepages => push("--in-memory"),
        // `--in-memory --no-huge` is refused by 22.11: no-huge mode is "legacy memory" there.
        Memory::NoHuge { mb } => {
            push("--no-huge");
            push("--no-shconf");
            if !decides(&options.extra_args, &["--iova-mode"]) {
                push("--iova-mode=va");
            }
            push("-m");
            push(&mb.to_string());
        }
        Memory::FromArguments => {}
    }
    arguments.extend(options.extra_args.iter().cloned());
    arguments
}

/// Start of the names of runtime directories; the process id follows.
pub(super) const PREFIX: &str = "headrace-";

#[cfg(test)]
mod tests {
    use super::*;

    fn with(extra: &[&str]) -> EalOptions {
        let extra_args = extra.iter().map(ToString::to_string).collect();
        EalOptions { extra_args, ..EalOptions::default() }
    }

    #[test]
    fn without_hugepages_the_arguments_avoid_in_memory_which_is_refused_with_no_huge() {
        let line = arguments(&with(&[]), Memory::NoHuge { mb: 64 }, 3, 7).join(" ");
        assert_eq!(
            line,
            "headrace --file-prefix=headrace-7 --log-level=error --no-telemetry --lcores=0@3 \
             --no-pci --no-huge --no-shconf --iova-mode=va -m 64"
        );
        let given = arguments(&with(&["--iova-mode=va"]), Memory::NoHuge { mb: 64 }, 3, 7);
        assert_eq!(given.iter().filter(|word| word.starts_with("--iova-mode")).count(), 1);
    }

    #[test]
    fn the_callers_arguments_come_last_and_replace_ours_on_cores_and_devices() {
        let options = with(&["-l", "1", "-a", "0000:3b:00.0"]);
        let line = arguments(&options, Memory::Hugepages, 0, 7).join(" ");
        assert!(line.ends_with("--in-memory -l 1 -a 0000:3b:00.0"), "{line}");
        assert!(!line.contains("--lcores") && !line.contains("--no-pci"), "{line}");
    }

    #[test]
    fn a_callers_memory_argument_is_recognised_in_every_spelling() {
        for spelling in ["-m", "-m512", "--no-huge", "--socket-mem=1,1", "--in-memory"] {
            assert!(decides(&with(&[spelling]).extra_args, &MEMORY_ARGS), "{spelling}");
        }
        for other in ["--main-lcore=1", "--no-hugepages-at-all", "--vdev=net_null0"] {
            assert!(!decides(&with(&[other]).extra_args, &MEMORY_ARGS), "{other}");
        }
    }
}
