//! Cores, their quota, the instruction set and the clock.
//!
//! Source: /proc/cpuinfo, /proc/self/status, the CPU controller of cgroup versions 1 and 2,
//! /proc/sys/kernel/osrelease.

use super::cgroup::{Cgroup, groups};
use super::finding::Finding;
use super::machine::Machine;

/// All findings about processors and the kernel.
pub(crate) fn probe(machine: &Machine) -> Vec<Finding> {
    let flags = cpu_flags(machine);
    vec![
        kernel(machine),
        cores(machine),
        quota(machine),
        simd(machine, &flags),
        tsc(machine, &flags),
    ]
}

fn kernel(machine: &Machine) -> Finding {
    let version = machine.text("/proc/sys/kernel/osrelease");
    let what = version.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned());
    Finding::info("kernel", format!("Linux {what}"), "named in reports of problems")
}

/// The flags of the first processor, with a space before and after each.
fn cpu_flags(machine: &Machine) -> String {
    let text = machine.text("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    let flags = line.and_then(|line| line.split_once(':')).map_or("", |(_, flags)| flags.trim());
    format!(" {flags} ")
}

/// How many numbers a list like `0-3,8` has.
fn count_of_list(list: &str) -> Option<u32> {
    list.trim().split(',').try_fold(0u32, |count, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        count.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

fn cores(machine: &Machine) -> Finding {
    const WHY: &str = "a vdev run polls on every core it has; the fewer, the more it is dilated";
    let id = "cores";
    let online = machine.text("/sys/devices/system/cpu/online");
    let online = online.and_then(|list| count_of_list(&list));
    let allowed = machine.field("/proc/self/status", "Cpus_allowed_list");
    let usable = allowed.and_then(|list| count_of_list(&list)).or(online).unwrap_or(1);
    let what = match online {
        Some(online) if online != usable => format!("{usable} of {online} cores may be used"),
        _ => format!("{usable} cores"),
    };
    if usable >= 2 {
        return Finding::ok(id, what, WHY);
    }
    let mend = match online {
        Some(online) if online > 1 => format!("taskset -pc 0-{} $$", online - 1),
        _ => "nproc   # give the machine a second core".to_owned(),
    };
    Finding::warn(id, what, WHY, mend)
}

fn quota(machine: &Machine) -> Finding {
    const WHY: &str = "a polling process that has used up its quota stands still for milliseconds";
    let id = "cores.quota";
    // Hundredths of a core, the file that sets them, and what it has without a quota.
    let share = |Cgroup { dir, unified }| {
        let (quota, period, file, unlimited) = if unified {
            let file = format!("{dir}/cpu.max");
            let text = machine.text(&file)?;
            let mut words = text.split_whitespace().map(|word| word.parse::<u64>().ok());
            (words.next()??, words.next()??, file, "max")
        } else {
            let file = format!("{dir}/cpu.cfs_quota_us");
            let quota = machine.number(&file)?;
            (quota, machine.number(&format!("{dir}/cpu.cfs_period_us"))?, file, "-1")
        };
        Some((quota.saturating_mul(100).checked_div(period)?, file, unlimited))
    };
    match groups(machine, "cpu").into_iter().filter_map(share).min() {
        None => Finding::ok(id, "no quota on processor time", WHY),
        Some((percent, file, unlimited)) => Finding::warn(
            id,
            format!("processor time is limited to {percent} % of one core"),
            WHY,
            format!("echo {unlimited} | sudo tee {file}"),
        ),
    }
}

fn simd(machine: &Machine, flags: &str) -> Finding {
    const WHY: &str = "DPDK as distributions build it does not start without SSE4.2";
    let id = "cpu.simd";
    if machine.arch != "x86_64" {
        return Finding::info(id, format!("not an x86 processor: {}", machine.arch), WHY);
    }
    if flags.contains(" sse4_2 ") {
        return Finding::ok(id, "SSE4.2", WHY);
    }
    Finding::fail(
        id,
        "the processor has no SSE4.2, or the virtual machine hides it",
        WHY,
        "qemu-system-x86_64 -cpu Nehalem   # or another processor type with SSE4.2",
    )
}

fn tsc(machine: &Machine, flags: &str) -> Finding {
    const WHY: &str = "vdev and nic runs read time from the TSC";
    let id = "cpu.tsc";
    if machine.arch != "x86_64" {
        return Finding::info(id, "the architecture's own counter is used", WHY);
    }
    let missing: Vec<&str> = ["constant_tsc", "nonstop_tsc"]
        .into_iter()
        .filter(|flag| !flags.contains(&format!(" {flag} ")))
        .collect();
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = machine.text(source).unwrap_or_default();
    match missing.is_empty() {
        true => Finding::ok(id, "invariant: constant rate, never stops", WHY),
        false => Finding::warn(
            id,
            format!(
                "not invariant: {} missing; the kernel uses {}",
                missing.join(", "),
                source.trim()
            ),
            WHY,
            "qemu-system-x86_64 -cpu host,+invtsc   # or turn deep sleep states off in the BIOS",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_processors_is_counted() {
        assert_eq!(count_of_list("0-3,8\n"), Some(5));
        assert_eq!(count_of_list("7"), Some(1));
        assert_eq!(count_of_list("3-1"), None);
        assert_eq!(count_of_list("0-4294967295"), None);
        assert_eq!(count_of_list(""), None);
    }
}
