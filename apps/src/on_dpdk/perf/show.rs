//! Output about two processes: progress a line a second, the result as a table or as JSON.

use std::io::{self, Write};

use experiments::measure::Counters;
use live::peers::{
    Interval, Job, Served, SessionEvent, SessionMonitor, SessionOutcome, SessionTerms, Totals,
    Vitals,
};
use serde::Serialize;
use transport::Duration;

use crate::console::Console;
use crate::fit;
use crate::interrupt;
use crate::table;

/// Shows progress, and passes Ctrl-C on.
pub(super) struct Shown<'a> {
    quiet: bool,
    err: &'a mut dyn Write,
}

/// The result of a client, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(super) struct Result<'a> {
    schema: u32,
    job: &'static str,
    device: &'a str,
    transport: &'a str,
    cc: &'a str,
    lb: &'a str,
    segment_bytes: u16,
    message_bytes: u32,
    flows: u16,
    depth: u16,
    verified: bool,
    udp_sums: bool,
    seconds: f64,
    to_server: Option<Direction>,
    from_server: Option<Direction>,
    round_trip_us: Option<RoundTrips>,
    /// What each end has measured of its own traffic.
    here: &'a Vitals,
    there: &'a Vitals,
    intervals: Vec<IntervalLine>,
    /// Intervals beyond those of the list.
    intervals_omitted: u64,
    counters: &'a Counters,
    server_counters: &'a Counters,
    stopped: bool,
    findings: &'a [String],
    ok: bool,
}

/// The totals of one direction.
#[derive(Debug, Serialize)]
struct Direction {
    messages: u64,
    bytes: u64,
    gbps: f64,
}

/// An interval of a session.
#[derive(Debug, Serialize)]
struct IntervalLine {
    /// From the start of the session to the end of the interval.
    until_s: f64,
    seconds: f64,
    sent_bytes: u64,
    sent_gbps: f64,
    received_bytes: u64,
    received_gbps: f64,
    retransmitted: u64,
    rtt_us: Option<live::peers::RoundTrips>,
    cwnd_bytes: Option<u64>,
}

/// Microseconds.
#[derive(Debug, Serialize)]
struct RoundTrips {
    count: usize,
    min: f64,
    mean: f64,
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl<'a> Shown<'a> {
    pub(super) fn new(quiet: bool, err: &'a mut dyn Write) -> Self {
        Self { quiet, err }
    }

    fn line(&mut self, event: &SessionEvent<'_>) -> io::Result<()> {
        match event {
            SessionEvent::Opened(device) => writeln!(self.err, "{device}"),
            SessionEvent::Link(true) => writeln!(self.err, "the link is up"),
            SessionEvent::Link(false) => writeln!(self.err, "the link is down"),
            SessionEvent::OtherPort(port) => writeln!(
                self.err,
                "UDP packets come to another port than {port}, at which this process listens; if a \
                 peer sends them, give both sides the same --udp-port"
            ),
            SessionEvent::Keys(None) => writeln!(self.err, "keys have changed and are in use"),
            SessionEvent::Keys(Some(error)) => {
                writeln!(self.err, "the keys read before stay in use: {error}")
            }
            SessionEvent::Begins(host, terms) => {
                writeln!(self.err, "session with host {host}: {}", line_of(terms))
            }
            SessionEvent::Interval(interval) => {
                let IntervalLine { until_s, sent_gbps, received_gbps, retransmitted, .. } =
                    IntervalLine::of(interval);
                write!(
                    self.err,
                    "{until_s:7.1} s  sent {sent_gbps:7.2} Gb/s  \
                     received {received_gbps:7.2} Gb/s  {retransmitted} segments again"
                )?;
                if let Some(rtt) = &interval.rtt {
                    write!(self.err, "  RTT {:.1} us", rtt.mean)?;
                }
                if let Some(cwnd) = interval.cwnd_bytes {
                    write!(self.err, "  window {}", kilobytes(cwnd))?;
                }
                writeln!(self.err)
            }
            SessionEvent::Ends(host, None) => {
                writeln!(self.err, "session with host {host} is over")
            }
            SessionEvent::Ends(host, Some(why)) => {
                writeln!(self.err, "session with host {host} is over: {why}")
            }
        }
    }
}

impl SessionMonitor for Shown<'_> {
    fn wants_end(&mut self) -> bool {
        interrupt::requested()
    }

    fn on_event(&mut self, event: &SessionEvent<'_>) {
        if !self.quiet {
            // Progress that cannot be written is no reason to stop.
            let _ = self.line(event);
        }
    }
}

impl<'a> Result<'a> {
    pub(super) fn of(outcome: &'a SessionOutcome, device: &'a str) -> Self {
        let SessionOutcome { terms, took, sent, received, .. } = outcome;
        let (up, down) = match terms.job {
            Job::Perf { up, down, .. } => (up, down),
            Job::Ping => (false, false),
        };
        let direction = |totals: &Totals| Direction {
            messages: totals.messages,
            bytes: totals.bytes,
            gbps: gbps(totals.bytes, *took),
        };
        Self {
            schema: 1,
            job: if terms.job == Job::Ping { "ping" } else { "perf" },
            device,
            transport: outcome.policies.transport,
            cc: outcome.policies.cc,
            lb: outcome.policies.lb,
            segment_bytes: terms.payload_bytes,
            message_bytes: terms.message_bytes,
            flows: terms.flows,
            depth: terms.depth,
            verified: terms.verify,
            udp_sums: terms.udp_sums,
            seconds: took.as_us_f64() / 1e6,
            to_server: up.then(|| direction(sent)),
            from_server: down.then(|| direction(received)),
            round_trip_us: RoundTrips::of(&outcome.round_trips),
            here: &outcome.vitals[0],
            there: &outcome.vitals[1],
            intervals: outcome.intervals.iter().map(IntervalLine::of).collect(),
            intervals_omitted: outcome.intervals_omitted,
            counters: &outcome.counters,
            server_counters: &outcome.server_counters,
            stopped: outcome.stopped,
            findings: &outcome.findings,
            ok: outcome.findings.is_empty(),
        }
    }

    pub(super) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    pub(super) fn write_text(&self, console: &mut Console<'_>) -> io::Result<()> {
        let mut table = table::plain();
        let mut row = |name: &str, value: String| {
            table.add_row([name.to_owned(), value]);
        };
        row("transport", format!("{} ({} over {})", self.transport, self.cc, self.lb));
        let checks = match (self.verified, self.udp_sums) {
            (true, _) => "every byte verified",
            (false, true) => "UDP checksums",
            (false, false) => "none",
        };
        row("segments", format!("{} bytes, checks: {checks}", self.segment_bytes));
        let (size, flows, depth) = (self.message_bytes, self.flows, self.depth);
        row("messages", format!("{size} bytes, {flows} flow(s), {depth} under way each"));
        row("time", format!("{:.3} s", self.seconds));
        let ways = [("to the server", &self.to_server), ("from the server", &self.from_server)];
        for (name, way) in ways {
            let Some(Direction { messages, bytes, gbps }) = way else { continue };
            #[expect(clippy::cast_precision_loss, reason = "a display; 53 bits are plenty")]
            let size = table::size(*bytes as f64);
            row(name, format!("{gbps:.2} Gb/s ({messages} messages, {size})"));
        }
        if let Some(trips) = &self.round_trip_us {
            let RoundTrips { count, min, mean, p50, p99, p999, max } = trips;
            row("round trips", count.to_string());
            row("min, mean", format!("{min:.2}, {mean:.2} us"));
            row("p50, p99, p99.9", format!("{p50:.2}, {p99:.2}, {p999:.2} us"));
            row("max", format!("{max:.2} us"));
        }
        for (name, end) in [("here", self.here), ("there", self.there)] {
            row(name, vitals(end));
        }
        row("counters here", list(self.counters));
        row("counters there", list(self.server_counters));
        fit::write_texts(table, console)?;
        for finding in self.findings {
            writeln!(console.out, "audit: {finding}")?;
        }
        if self.stopped {
            writeln!(console.out, "stopped early")?;
        }
        Ok(())
    }
}

impl IntervalLine {
    fn of(interval: &Interval) -> Self {
        let Interval { until, length, sent, received, retransmitted, rtt, cwnd_bytes } = *interval;
        Self {
            until_s: until.as_us_f64() / 1e6,
            seconds: length.as_us_f64() / 1e6,
            sent_bytes: sent,
            sent_gbps: gbps(sent, length),
            received_bytes: received,
            received_gbps: gbps(received, length),
            retransmitted,
            rtt_us: rtt,
            cwnd_bytes,
        }
    }
}

impl RoundTrips {
    /// Percentiles of sorted nanoseconds; `None` when there are none.
    fn of(sorted: &[u64]) -> Option<Self> {
        let at = |per_mille: usize| {
            let rank = (sorted.len() * per_mille).div_ceil(1000).saturating_sub(1);
            sorted.get(rank).copied().map(us)
        };
        let sum: u64 = sorted.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
        let mean = us(sum) / sorted.len() as f64;
        Some(Self {
            count: sorted.len(),
            min: at(0)?,
            mean,
            p50: at(500)?,
            p99: at(990)?,
            p999: at(999)?,
            max: at(1000)?,
        })
    }
}

/// Writes what a server has done.
pub(super) fn served_text(served: &Served, out: &mut dyn Write) -> io::Result<()> {
    let Served { complete, broken, refused, counters } = served;
    writeln!(out, "{complete} sessions, {broken} broken, {refused} refused")?;
    writeln!(out, "counters: {}", list(counters))
}

/// The result as JSON.
pub(super) fn served_json(served: &Served, out: &mut dyn Write) -> io::Result<()> {
    let Served { complete, broken, refused, counters } = served;
    let value = serde_json::json!({
        "schema": 1, "complete": complete, "broken": broken, "refused": refused,
        "counters": counters,
    });
    serde_json::to_writer_pretty(&mut *out, &value)?;
    writeln!(out)
}

fn line_of(terms: &SessionTerms) -> String {
    let SessionTerms { flows, message_bytes, payload_bytes, .. } = terms;
    let what = match terms.job {
        Job::Ping => "round trips",
        Job::Perf { up: true, down: true, .. } => "both ways",
        Job::Perf { up: true, .. } => "to the server",
        Job::Perf { .. } => "from the server",
    };
    format!("{what}, {flows} flow(s), {message_bytes} bytes in segments of {payload_bytes}")
}

/// What one end has measured of its own traffic, in lines.
fn vitals(end: &Vitals) -> String {
    let Vitals { cpu_percent, rtt_us, cwnd_bytes, segments, retransmitted } = end;
    let mut lines = Vec::new();
    let cpu = cpu_percent.map(|cpu| format!("CPU {cpu:.0} % of a core"));
    if *segments > 0 {
        #[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
        let share = 100.0 * *retransmitted as f64 / *segments as f64;
        let again = format!("{retransmitted} of {segments} segments sent again ({share:.3} %)");
        lines.push(cpu.into_iter().chain([again]).collect::<Vec<_>>().join(", "));
    } else {
        lines.extend(cpu);
    }
    if let Some(rtt) = rtt_us {
        let live::peers::RoundTrips { mean, p50, p99, max, .. } = rtt;
        lines.push(format!(
            "RTT of segments mean {mean:.1}, p50 {p50:.1}, p99 {p99:.1}, max {max:.1} us"
        ));
    }
    lines
        .extend(cwnd_bytes.map(|cwnd| format!("window of a flow {} in the mean", kilobytes(cwnd))));
    lines.join("\n")
}

#[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
fn kilobytes(bytes: u64) -> String {
    format!("{:.0} KB", bytes as f64 / 1e3)
}

fn list(counters: &Counters) -> String {
    if counters.is_empty() {
        return "none".to_owned();
    }
    let all: Vec<String> = counters.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let lines: Vec<String> = all.chunks(3).map(|some| some.join(", ")).collect();
    lines.join("\n")
}

#[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
fn gbps(bytes: u64, time: Duration) -> f64 {
    let ns = time.as_us_f64() * 1000.0;
    if ns > 0.0 { bytes as f64 * 8.0 / ns } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_round_trips_that_were_measured() {
        let trips: Vec<u64> = (1..=1000).map(|n| n * 1000).collect();
        let RoundTrips { min, p50, p99, p999, max, mean, count } = RoundTrips::of(&trips).unwrap();
        assert_eq!([min, p50, p99, p999, max], [1.0, 500.0, 990.0, 999.0, 1000.0]);
        assert_eq!((mean, count), (500.5, 1000));
        assert!(RoundTrips::of(&[]).is_none());
    }
}
