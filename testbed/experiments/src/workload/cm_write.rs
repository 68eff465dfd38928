//! Writes `.cm` connection matrices in the strict form that uet-htsim reads: one space between
//! tokens, no comment, the header in its usual order. What is written reads back as the same matrix
//! (see `cm.rs`).

use std::fmt::Write as _;
use std::io::{self, Write};

use transport::Duration;

use super::cm::StartUnit;
use super::matrix::{
    FlowSpec, LineMeaning, Matrix, PRIO_DEFAULT, Start, Trigger, TriggerIndex, TriggerKind,
};
use crate::input::number::write_us;

/// Writes `matrix` with start times in `unit`. Headers of absent things are left out.
///
/// # Errors
/// When `out` fails.
pub fn write(matrix: &Matrix, unit: StartUnit, out: impl Write) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(WRITE_BYTES, out);
    writeln!(out, "Nodes {}", matrix.nodes)?;
    writeln!(out, "Connections {}", matrix.flows.len())?;
    if !matrix.triggers.is_empty() {
        writeln!(out, "Triggers {}", matrix.triggers.len())?;
    }
    if !matrix.failures.is_empty() {
        writeln!(out, "Failures {}", matrix.failures.len())?;
    }
    let name = |trigger: TriggerIndex| {
        matrix.triggers.get(trigger.index()).map_or(0, |trigger| trigger.id.get() as usize)
    };
    let mut line = String::new();
    for flow in &matrix.flows {
        line.clear();
        // Writing to a string cannot fail; the error type is the trait's.
        flow_line(flow, &name, unit, &mut line).map_err(io::Error::other)?;
        out.write_all(line.as_bytes())?;
    }
    for trigger in &matrix.triggers {
        line.clear();
        trigger_line(trigger, unit, &mut line).map_err(io::Error::other)?;
        out.write_all(line.as_bytes())?;
    }
    for failure in &matrix.failures {
        let (tier, switch, link) = (failure.tier.name(), failure.switch, failure.link);
        writeln!(out, "failure switch_type {tier} switch_id {switch} link_id {link}")?;
    }
    out.flush()
}

const WRITE_BYTES: usize = 256 * 1024;

/// `matrix` as text, with start times in microseconds.
#[must_use]
pub fn to_text(matrix: &Matrix) -> String {
    let mut text = Vec::new();
    match write(matrix, StartUnit::Us, &mut text) {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => unreachable!("a vector takes every write: {error}"),
    }
}

fn write_time(line: &mut String, unit: StartUnit, time: Duration) -> std::fmt::Result {
    match unit {
        StartUnit::Ps => write!(line, "{}", time.as_ps()),
        StartUnit::Us => write_us(line, time),
    }
}

/// The line of a trigger.
pub(super) fn trigger_line(
    trigger: &Trigger,
    unit: StartUnit,
    line: &mut String,
) -> std::fmt::Result {
    write!(line, "trigger id {} {}", trigger.id, trigger.kind.name())?;
    if let TriggerKind::Barrier(count) = trigger.kind {
        write!(line, " count {count}")?;
    }
    if trigger.delay > Duration::ZERO {
        line.push_str(" delay ");
        write_time(line, unit, trigger.delay)?;
    }
    line.push('\n');
    Ok(())
}

/// The line of a flow; `name` is what triggers are called.
pub(super) fn flow_line(
    flow: &FlowSpec,
    name: &impl Fn(TriggerIndex) -> usize,
    unit: StartUnit,
    line: &mut String,
) -> std::fmt::Result {
    write!(line, "{}->{}", flow.src, flow.dst)?;
    if let Some(id) = flow.id {
        write!(line, " id {id}")?;
    }
    match flow.message {
        LineMeaning::Flow => {}
        LineMeaning::Next => line.push_str(" msg"),
        LineMeaning::Numbered(number) => write!(line, " msg {number}")?,
    }
    match flow.start {
        Start::On(trigger) => write!(line, " trigger {}", name(trigger))?,
        Start::At(start) => {
            line.push_str(" start ");
            write_time(line, unit, start)?;
        }
    }
    write!(line, " size {}", flow.size.0)?;
    if let Some(trigger) = flow.send_done {
        write!(line, " send_done_trigger {}", name(trigger))?;
    }
    if let Some(trigger) = flow.recv_done {
        write!(line, " recv_done_trigger {}", name(trigger))?;
    }
    if flow.prio != PRIO_DEFAULT {
        write!(line, " prio {}", flow.prio)?;
    }
    if flow.collective != 0 {
        write!(line, " coll {}", flow.collective)?;
    }
    line.push('\n');
    Ok(())
}
