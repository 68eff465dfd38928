//! `headrace doctor`: what this machine can and cannot do, and the commands that mend what is
//! missing.
//!
//! The doctor runs before EAL and loads no library: it reads files (`machine.rs`) and judges them.
//! The doctor changes nothing on the machine. `sim` needs none of these things and always works.
//! `on_dpdk/inspection.rs` opens the device of `--device`, and `on_dpdk/keys.rs` judges the keys of
//! `--security`.
//!
//! | File | Looks at |
//! |---|---|
//! | `cpu.rs` | kernel, cores, quota, instruction set, clock |
//! | `memory.rs` | free memory, limits, hugepages |
//! | `dpdk.rs` | libdpdk and its drivers |
//! | `access.rs` | user, capabilities, TAP, VFIO, network cards |

mod access;
mod cgroup;
mod cpu;
mod dpdk;
mod finding;
mod machine;
mod memory;
mod report;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use finding::{Finding, FitWorld, Status};
pub use machine::Machine;
pub(crate) use memory::room_bytes;
pub use report::{write_blockers, write_json, write_text};

/// Which worlds this machine can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Fit {
    /// Virtual time: always.
    pub sim: bool,
    /// DPDK virtual devices.
    pub vdev: bool,
    /// Network cards.
    pub nic: bool,
}

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// Version of this format.
    pub schema: u32,
    /// The verdict for each world.
    pub fit: Fit,
    /// In a fixed order, so that two machines can be compared line by line.
    pub findings: Vec<Finding>,
}

/// Looks at everything.
#[must_use]
pub fn examine(machine: &Machine) -> Diagnosis {
    let probes = [cpu::probe, memory::probe, dpdk::probe, access::probe];
    let findings: Vec<Finding> = probes.iter().flat_map(|probe| probe(machine)).collect();
    let mut diagnosis = Diagnosis {
        schema: 1,
        fit: Fit { sim: true, vdev: true, nic: true },
        findings: Vec::new(),
    };
    diagnosis.add(findings);
    diagnosis
}

impl Diagnosis {
    /// Adds what was found; the verdicts follow.
    pub(crate) fn add(&mut self, found: Vec<Finding>) {
        let blocked = |world| found.iter().any(|finding| finding.blocks.contains(&world));
        self.fit.vdev &= !blocked(FitWorld::Vdev);
        self.fit.nic &= !blocked(FitWorld::Nic);
        self.findings.extend(found);
    }
}
