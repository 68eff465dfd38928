//! The summary as a table for a person, and a table of flows on request.
//!
//! Shows the values of the summary and computes only units.

use std::io::{self, Write};

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use experiments::measure::scheduler::SilentScheduler;
use experiments::measure::summary::{AccountedBytes, ByteCounts, GoneHost, Provenance, QueueBytes};
use experiments::measure::{Outcome, Summary};
pub(crate) use experiments::shown::{size, time};
use experiments::workload::Matrix;
use serde_json::Value;
use transport::Instant;

use crate::console::Console;
use crate::fit;

/// Writes the summary, and below it the findings, invalid runs and early ends, which a reader must
/// not miss.
///
/// # Errors
/// When `out` fails.
pub(crate) fn write_summary(outcome: &Outcome, console: &mut Console<'_>) -> io::Result<()> {
    let summary = &outcome.summary;
    let mut table = plain();
    for (name, value) in rows(summary) {
        table.add_row([name.to_owned(), value]);
    }
    fit::write_texts(table, console)?;
    write_adapted(outcome, console.out)?;
    write_faults(outcome, console.out)
}

/// Writes why the run is no success, a line each; nothing when it is one.
///
/// # Errors
/// When `out` fails.
pub(crate) fn write_faults(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let summary = &outcome.summary;
    let (finished, total) = (summary.flows.finished, summary.flows.total);
    for GoneHost { name, reason } in &summary.gone {
        writeln!(
            out,
            "host `{name}` failed during the run: {reason}; its flows count as unfinished"
        )?;
    }
    if finished < total {
        writeln!(out, "unfinished: {} of {total} flows", total - finished)?;
    }
    let silent = summary.scheduler.as_ref().and_then(|scheduler| scheduler.silent);
    if let Some(SilentScheduler { pod, since_us, given_up }) = silent {
        writeln!(
            out,
            "no answer of the scheduler of pod {pod} since {since_us:.1} us; flows given up for \
             schedulers without an answer: {given_up} (loss.give_up)"
        )?;
    }
    for finding in &summary.audit.findings {
        writeln!(out, "audit: {finding}")?;
    }
    let lateness = summary.lateness.filter(|lateness| !lateness.valid);
    if lateness.is_some_and(|lateness| lateness.late_departures) {
        writeln!(
            out,
            "INVALID: one of 100 segments left a slot or more later than its SIM and its line \
             allowed: keep other work off these cores, or raise vdev.time_scale"
        )?;
    }
    if let Some(lateness) =
        lateness.filter(|lateness| lateness.late_share > lateness.late_share_max)
    {
        writeln!(
            out,
            "INVALID: {:.1} % of the time in late polls, at most {:.1} % allowed; the longest \
             break was {:.1} ms: keep other work off these cores, or raise vdev.time_scale",
            lateness.late_share * 100.0,
            lateness.late_share_max * 100.0,
            lateness.max_us / 1e3
        )?;
    }
    if outcome.stopped {
        writeln!(out, "stopped early, after {:.1} us of network time", outcome.end.as_us_f64())?;
    }
    Ok(())
}

/// Writes which settings the world changed to fit, a line each.
///
/// # Errors
/// When `out` fails.
pub(crate) fn write_adapted(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    for adapted in &outcome.adapted {
        writeln!(out, "{} is {}: {}", adapted.key, adapted.value, adapted.why)?;
    }
    Ok(())
}

/// Writes one line a flow, in the order of the matrix.
///
/// # Errors
/// When `out` fails.
pub(crate) fn write_flows(
    outcome: &Outcome,
    matrix: &Matrix,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let mut table = plain();
    table.set_header([
        "flow",
        "from",
        "to",
        "bytes",
        "start us",
        "fct us",
        "delivered us",
        "state",
    ]);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for (index, (spec, record)) in matrix.flows.iter().zip(&outcome.records).enumerate() {
        let state = match record.fct() {
            Some(_) => "finished",
            None if record.failed => "failed",
            None if record.start == Instant::FAR_FUTURE => "not started",
            None => "unfinished",
        };
        table.add_row([
            spec.id.map_or_else(|| format!("#{}", index + 1), |id| id.to_string()),
            spec.src.0.to_string(),
            spec.dst.0.to_string(),
            spec.size.0.to_string(),
            instant(record.start),
            record.fct().map_or_else(dash, |fct| format!("{:.2}", fct.as_us_f64())),
            instant(record.delivered_at),
            state.to_owned(),
        ]);
    }
    fit::write_columns(table, console)
}

/// Writes the summaries of variants side by side, a line each, from the elements of the array that
/// `--json` prints.
///
/// # Errors
/// When `out` fails.
pub(crate) fn write_variants(elements: &[&Value], console: &mut Console<'_>) -> io::Result<()> {
    let mut table = plain();
    let columns = COLUMNS.map(|(title, ..)| title);
    table.set_header(["variant", "finished"].into_iter().chain(columns));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for element in elements {
        let count = |key| element["flows"][key].to_string();
        let finished = format!("{}/{}", count("finished"), count("total"));
        let value = |(_, path, digits): (&str, &str, usize)| {
            let value = element.pointer(path).and_then(Value::as_f64);
            value.map_or_else(dash, |value| format!("{value:.digits$}"))
        };
        let name = element["variant"].as_str().unwrap_or_default().to_owned();
        table.add_row([name, finished].into_iter().chain(COLUMNS.map(value)));
    }
    fit::write_columns(table, console)
}

/// Writes the inputs of the results of variants: matrix and network in one line, program and
/// machine in another; several of a kind by their names.
///
/// # Errors
/// When `out` fails.
pub(crate) fn write_origins(elements: &[&Value], console: &mut Console<'_>) -> io::Result<()> {
    let origins: Vec<Provenance> = elements
        .iter()
        .filter_map(|element| serde_json::from_value(element["provenance"].clone()).ok())
        .collect();
    let distinct = |of: &dyn Fn(&Provenance) -> String, many: &str| {
        let mut texts: Vec<String> = origins.iter().map(of).collect();
        texts.sort();
        texts.dedup();
        if texts.len() > NAMED { format!("{} {many}", texts.len()) } else { texts.join(", ") }
    };
    if origins.is_empty() {
        return Ok(());
    }
    let matrix = distinct(&|of| of.matrix.clone(), "different ones");
    let topology =
        distinct(&|of| format!("{} ({})", of.topology, of.topology_source), "different ones");
    fit::write_line(&format!("matrix {matrix}; topology {topology}"), 2, console)?;
    let machine = distinct(&|of| of.machine.clone(), "machines");
    fit::write_line(&format!("{}; {machine}", distinct(&built, "builds")), 2, console)
}

/// Origins of a kind that are named.
const NAMED: usize = 3;

/// Writes what the audits of variants found, and which of them are invalid, a line each.
///
/// # Errors
/// When `out` fails.
pub(crate) fn write_findings(elements: &[&Value], out: &mut dyn Write) -> io::Result<()> {
    for element in elements {
        let name = element["variant"].as_str().unwrap_or_default();
        for finding in element["audit"]["findings"].as_array().into_iter().flatten() {
            writeln!(out, "{name}: audit: {}", finding.as_str().unwrap_or_default())?;
        }
        if element.pointer("/lateness/valid") == Some(&Value::Bool(false)) {
            writeln!(out, "{name}: INVALID: too much time in late polls; raise vdev.time_scale")?;
        }
    }
    Ok(())
}

/// Columns of [`write_variants`]: title, place in the summary, decimals.
const COLUMNS: [(&str, &str, usize); 9] = [
    ("fct p50 us", "/fct_us/p50", 2),
    ("p99 us", "/fct_us/p99", 2),
    ("max us", "/fct_us/max", 2),
    ("completion us", "/completion_us", 2),
    ("slowdown", "/slowdown", 3),
    ("Jain", "/jain", 4),
    ("sent again", "/packets/retransmitted", 0),
    ("trimmed", "/packets/trimmed", 0),
    ("wall s", "/wall_s", 2),
];

/// An empty table in the style that all tables have.
pub(crate) fn plain() -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// The head of a table of Markdown, with an empty line before it.
pub(crate) fn markdown_head(header: &[String]) -> String {
    let rule: Vec<String> = header.iter().map(|_| "---".to_owned()).collect();
    format!("\n{}{}", markdown_row(header), markdown_row(&rule))
}

/// A row of a table of Markdown.
pub(crate) fn markdown_row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn rows(summary: &Summary) -> Vec<(&'static str, String)> {
    let us = |value: Option<f64>| value.map_or_else(dash, time);
    let fct = &summary.fct_us;
    let packets = &summary.packets;
    let trio = [fct.min, fct.mean, fct.p50].map(us);
    let tail = [fct.p99, fct.p999, fct.max].map(us);
    let (transport, cc, lb) = (&summary.transport, &summary.cc, &summary.lb);
    let mut rows = summary.provenance.as_ref().map_or_else(Vec::new, origin);
    rows.extend([
        ("run", format!("{} of {transport} ({cc}, {lb}), seed {}", summary.world, summary.seed)),
        ("flows", format!("{} of {} finished", summary.flows.finished, summary.flows.total)),
        ("bytes", bytes(&summary.bytes)),
        ("fct", format!("min {}, mean {}, p50 {}", trio[0], trio[1], trio[2])),
        ("", format!("p99 {}, p99.9 {}, max {}", tail[0], tail[1], tail[2])),
        ("completion", us(summary.completion_us)),
        ("ideal", us(Some(summary.ideal_us))),
        ("slowdown", summary.slowdown.map_or_else(dash, |ratio| format!("{ratio:.3}"))),
        ("goodput", summary.goodput_gbps.map_or_else(dash, |gbps| format!("{gbps:.2} Gb/s"))),
        ("fairness", summary.jain.map_or_else(dash, |jain| format!("{jain:.4} (Jain)"))),
        (
            "packets",
            format!(
                "{} new, {} again, {} acks, {} nacks",
                packets.data_new, packets.retransmitted, packets.acks, packets.nacks
            ),
        ),
        (
            "",
            format!(
                "{} trimmed, {} dropped, {} marked, {} hops",
                packets.trimmed,
                packets.dropped,
                packets.ecn_marked.map_or_else(dash, |count| count.to_string()),
                packets.hops.map_or_else(dash, |count| count.to_string())
            ),
        ),
    ]);
    if !summary.drops.is_empty() {
        let by_reason = summary.drops.iter().map(|(reason, count)| format!("{count} {reason}"));
        rows.push(("drops", by_reason.collect::<Vec<_>>().join(", ")));
    }
    let queues = |queue: &QueueBytes| {
        #[expect(clippy::cast_precision_loss, reason = "a display; 53 bits are plenty")]
        let [p99, max] = [queue.p99, queue.max].map(|bytes| size(bytes as f64));
        format!("mean {}, p99 {p99}, max {max}", size(queue.mean))
    };
    rows.push(("queues", summary.queue_bytes.as_ref().map_or_else(dash, queues)));
    if let Some(wire) = &summary.wire {
        rows.push(("accounted", accounted(wire)));
    }
    if let Some(lateness) = &summary.lateness {
        rows.push(("time scale", format!("{:.1} real for 1 of network time", summary.time_scale)));
        rows.push((
            "polls",
            format!(
                "gaps p50 {:.1} us, p99 {:.1} us, max {:.1} us; {:.2} % of the time late",
                lateness.p50_us,
                lateness.p99_us,
                lateness.max_us,
                lateness.late_share * 100.0
            ),
        ));
    }
    let verdict = if summary.audit.ok { "ok" } else { "FAILED" };
    rows.push(("audit", verdict.to_owned()));
    rows.push(("cost", cost(summary)));
    rows
}

/// The program that made a result.
fn built(of: &Provenance) -> String {
    let built = [Some(format!("headrace {}", of.version)), of.commit.clone(), of.dpdk.clone()];
    built.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What the result is of.
fn origin(of: &Provenance) -> Vec<(&'static str, String)> {
    vec![
        ("matrix", of.matrix.clone()),
        ("topology", format!("{} ({})", of.topology, of.topology_source)),
        ("built", built(of)),
        ("machine", of.machine.clone()),
    ]
}

fn bytes(bytes: &ByteCounts) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a display; 53 bits are plenty")]
    let offered = size(bytes.offered as f64);
    #[expect(clippy::cast_precision_loss, reason = "a display; 53 bits are plenty")]
    let (part, begun) =
        (size(bytes.delivered as f64), bytes.placed.saturating_sub(bytes.delivered) as f64);
    let delivered = match bytes.delivered == bytes.offered {
        true => format!("{offered} delivered"),
        false if part == offered => {
            format!("{} of {} bytes delivered", bytes.delivered, bytes.offered)
        }
        false => format!("{part} of {offered} delivered"),
    };
    match begun > 0.0 {
        false => delivered,
        true => format!(
            "{delivered}, and {} of messages that name no flow yet or were sent anew",
            size(begun)
        ),
    }
}

fn cost(summary: &Summary) -> String {
    format!(
        "{:.2} s, {:.2} M hops/s, {} MB",
        summary.wall_s,
        summary.hops_per_s / 1e6,
        summary.peak_rss_bytes / 1_000_000
    )
}

fn accounted(wire: &AccountedBytes) -> String {
    let size = |size: Option<u16>| {
        size.map_or_else(|| "as our headers".to_owned(), |bytes| format!("{bytes} bytes"))
    };
    let (around, control) = (size(wire.data_overhead), size(wire.control));
    let padded = if wire.data_min == 0 {
        String::new()
    } else {
        format!(", payload at least {} bytes", wire.data_min)
    };
    format!("around payload {around}{padded}, without payload {control}")
}

fn instant(at: Instant) -> String {
    if at == Instant::FAR_FUTURE { dash() } else { format!("{:.2}", at.as_us_f64()) }
}

fn dash() -> String {
    "-".to_owned()
}
