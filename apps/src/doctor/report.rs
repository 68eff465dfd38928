//! Prints a diagnosis: as lines for a person, as JSON, or only what stands in the way of one world.

use std::io::{self, Write};

use super::finding::{Finding, FitWorld, Status};
use super::{Diagnosis, Fit};

/// The whole diagnosis as lines; findings that are fine take one line, the others say why and what
/// to do.
///
/// # Errors
/// When `out` fails.
pub fn write_text(diagnosis: &Diagnosis, out: &mut dyn Write) -> io::Result<()> {
    for finding in &diagnosis.findings {
        write_finding(finding, out)?;
    }
    let Fit { sim, vdev, nic } = diagnosis.fit;
    let word = |fit| if fit { "fit" } else { "unfit" };
    writeln!(out, "\nsim: {}   vdev: {}   nic: {}", word(sim), word(vdev), word(nic))
}

/// The whole diagnosis as one JSON object.
///
/// # Errors
/// When `out` fails.
pub fn write_json(diagnosis: &Diagnosis, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, diagnosis)?;
    writeln!(out)
}

/// The findings that keep `world` from running, with their mending commands.
///
/// # Errors
/// When `out` fails.
pub fn write_blockers(
    diagnosis: &Diagnosis,
    world: FitWorld,
    out: &mut dyn Write,
) -> io::Result<()> {
    let blockers = diagnosis.findings.iter().filter(|finding| finding.blocks.contains(&world));
    blockers.into_iter().try_for_each(|finding| write_finding(finding, out))
}

fn write_finding(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let word = match finding.status {
        Status::Ok => "ok",
        Status::Warn => "warn",
        Status::Fail => "FAIL",
        Status::Info => "info",
    };
    writeln!(out, "{word:<5} {:<22} {}", finding.id, finding.what)?;
    if let Some(mend) = &finding.mend {
        writeln!(out, "      {:<22} why:  {}", "", finding.why)?;
        writeln!(out, "      {:<22} mend: {mend}", "")?;
    }
    Ok(())
}
