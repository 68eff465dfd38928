//! Reads `.cm` connection matrices, the traffic format of uet-htsim and the tools around it.
//!
//! ```text
//! Nodes N / Connections C / Triggers T / Failures F        header, in any order, before the body
//! SRC->DST [id FLOW] (start T | trigger TRIG) size BYTES
//!          [send_done_trigger T] [recv_done_trigger T] [prio P] [msg [M]] [coll N]
//! trigger id T (oneshot | multishot | barrier) [count K] [delay D]
//! failure switch_type (TOR|AGG|CORE) switch_id S link_id L
//! ```
//!
//! Source: the reader of uet-htsim. Ours is lenient about white space, comments and line ends (see
//! `input/tokens.rs`) and strict about everything else. Start times are microseconds with a
//! fraction, or picoseconds on request. `coll` is ours: flows of one number are one collective.
//! `delay` is ours, too: the flows of a trigger start later by this time, in the unit of start
//! times. A file without `coll` and `delay` is one of uet-htsim's. The file is read line by line;
//! what a header promises reserves no memory.

use std::fmt;
use std::io::BufRead;
use std::num::NonZeroU32;
use std::path::Path;

use transport::{Bytes, Duration, HostId};

use super::check::{Subject, find_defect};
use super::lines::LineMap;
use super::matrix::{
    FLOW_BYTES_MAX, FLOWS_MAX, FlowIndex, FlowSpec, HOSTS_MAX, LineMeaning, LinkFailure, Matrix,
    Start, SwitchTier, TRIGGERS_MAX, Trigger, TriggerIndex, TriggerKind,
};
use crate::input::file;
use crate::input::number::{self, NumberError};
use crate::input::{InputError, LineReader, TextLine, Token, Warning, did_you_mean};

/// The unit of the number after `start`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartUnit {
    /// Microseconds, fractions kept down to a picosecond.
    #[default]
    Us,
    /// Picoseconds, as the generator scripts of uet-htsim write them.
    Ps,
}

impl StartUnit {
    /// The unit of that name, `us` or `ps`; the values of the setting `cm.start_unit`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "us" => Some(Self::Us),
            "ps" => Some(Self::Ps),
            _ => None,
        }
    }
}

/// A matrix that was read and found sound, with warnings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmFile {
    /// The matrix; `check` has passed it.
    pub matrix: Matrix,
    /// Oddities, at most one of a kind.
    pub warnings: Vec<Warning>,
}

/// Reads a matrix; `name` is what errors call it.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn read(source: impl BufRead, name: &str, unit: StartUnit) -> Result<CmFile, InputError> {
    let mut source = LineReader::new(source, name);
    let mut reader = Reader { unit, ..Reader::default() };
    while let Some(mut line) = source.next_line()? {
        reader.statement(&mut line)?;
    }
    reader.finish(name, source.line_number())
}

/// Reads the matrix in the file at `path`.
///
/// # Errors
/// As [`read`], and when the file cannot be opened.
pub fn read_path(path: &Path, unit: StartUnit) -> Result<CmFile, InputError> {
    read(file::open(path)?, &file::name_of(path), unit)
}

/// A line that an error may be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixLine {
    /// The header `Nodes`.
    Nodes,
    /// The line of a flow.
    Flow(FlowIndex),
    /// The line of the failure of this number, from 0.
    Failure(u32),
}

/// Writes the line as it is called where the matrix has no file.
impl fmt::Display for MatrixLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes => f.write_str("hosts of the matrix"),
            Self::Flow(flow) => write!(f, "flow {} of the matrix", flow.0.saturating_add(1)),
            Self::Failure(number) => {
                write!(f, "failure {} of the matrix", number.saturating_add(1))
            }
        }
    }
}

/// The place of a line in the file at `path`, found by reading it again; `None` for what can be
/// read only once, as a pipe, and when the file has changed.
#[must_use]
pub fn line_of(path: &Path, wanted: MatrixLine) -> Option<u32> {
    let name = path.display().to_string();
    let mut source = LineReader::new(file::open_again(path)?, &name);
    let mut reader = Reader::default();
    while let Some(mut line) = source.next_line().ok()? {
        reader.statement(&mut line).ok()?;
    }
    let line = match wanted {
        MatrixLine::Nodes => reader.nodes.map_or(0, |nodes| nodes.line),
        MatrixLine::Flow(flow) => reader.flow_lines.line(flow.0),
        MatrixLine::Failure(number) => reader.failure_lines.line(number),
    };
    Some(line).filter(|line| *line > 0)
}

/// A count from the header and where it stands.
#[derive(Clone, Copy, Debug, Default)]
struct Promise {
    count: u32,
    line: u32,
    column: u32,
}

#[derive(Debug, Default)]
struct Reader {
    unit: StartUnit,
    nodes: Option<Promise>,
    connections: Option<Promise>,
    triggers: Option<Promise>,
    failures: Option<Promise>,
    /// Trigger references in here are names until [`Reader::finish`].
    matrix: Matrix,
    flow_lines: LineMap,
    trigger_lines: LineMap,
    failure_lines: LineMap,
    warnings: Vec<Warning>,
    warned: Warned,
    body: bool,
}

/// The kinds of warning given so far, so that a long file warns once.
#[derive(Debug, Default)]
struct Warned {
    start: bool,
    count: bool,
}

impl Reader {
    fn statement(&mut self, line: &mut TextLine<'_>) -> Result<(), InputError> {
        let Some(first) = line.token() else { return Ok(()) };
        match first.text {
            b"Nodes" | b"Connections" | b"Triggers" | b"Failures" => self.header(first, line),
            b"trigger" => self.trigger(first, line),
            b"failure" => self.failure(first, line),
            [b'0'..=b'9', ..] => self.flow(first, line),
            other => {
                let word = String::from_utf8_lossy(other);
                Err(line.error(first, "a header, SRC->DST, `trigger` or `failure`").help(
                    did_you_mean(
                        &word,
                        &["Nodes", "Connections", "Triggers", "Failures", "trigger", "failure"],
                    ),
                ))
            }
        }?;
        line.finish()
    }

    fn header(&mut self, word: Token<'_>, line: &mut TextLine<'_>) -> Result<(), InputError> {
        if self.body {
            return Err(line
                .error(word, "a body line")
                .help("header lines come before the first connection, trigger or failure"));
        }
        let (slot, what, min, max) = match word.text {
            b"Nodes" => (&mut self.nodes, "the number of hosts", 1, HOSTS_MAX),
            b"Connections" => (&mut self.connections, "the number of connections", 0, FLOWS_MAX),
            b"Triggers" => (&mut self.triggers, "the number of triggers", 0, TRIGGERS_MAX),
            _ => (&mut self.failures, "the number of failures", 0, TRIGGERS_MAX),
        };
        if let Some(earlier) = slot {
            let help = format!("the first is on line {}", earlier.line);
            return Err(line.error(word, "each header once").help(help));
        }
        let column = line.peek().map_or(0, |token| line.column(token.start));
        let count = line.integer_u32(what, min, max)?;
        *slot = Some(Promise { count, line: line.number, column });
        Ok(())
    }

    /// Enters the body: the header must be complete.
    fn enter_body(&mut self, line: &TextLine<'_>) -> Result<u32, InputError> {
        self.body = true;
        let missing = |what: &str| {
            InputError::new("a body line", format!("the header `{what} N` before it")).at(
                line.name(),
                line.number,
                1,
            )
        };
        if self.connections.is_none() {
            return Err(missing("Connections"));
        }
        self.nodes.map(|nodes| nodes.count).ok_or_else(|| missing("Nodes"))
    }

    fn flow(&mut self, first: Token<'_>, line: &mut TextLine<'_>) -> Result<(), InputError> {
        let nodes = self.enter_body(line)?;
        let promised = self.connections.unwrap_or_default();
        within(self.matrix.flows.len(), promised, "connection", first, line)?;
        let (src, dst) = ends(first, line, nodes)?;
        let mut flow = FlowSpec::new(src, dst, Bytes::ZERO);
        let mut seen = SeenWords::default();
        while let Some(word) = line.token() {
            self.flow_word(word, line, &mut flow, &mut seen)?;
        }
        if !seen.has(START) && !seen.has(TRIGGER) {
            return Err(line.end_error("`start T` or `trigger T`"));
        }
        if !seen.has(SIZE) {
            return Err(line.end_error("`size BYTES`"));
        }
        let needs_id = flow.message != LineMeaning::Flow || flow.waits_for().is_some();
        if needs_id && flow.id.is_none() {
            return Err(line
                .end_error("`id FLOW`")
                .help("flows that a trigger starts and messages need an id"));
        }
        self.flow_lines.push(line.number);
        self.matrix.flows.push(flow);
        Ok(())
    }

    fn flow_word(
        &mut self,
        word: Token<'_>,
        line: &mut TextLine<'_>,
        flow: &mut FlowSpec,
        seen: &mut SeenWords,
    ) -> Result<(), InputError> {
        let Some(place) = FLOW_WORDS.iter().position(|known| known.as_bytes() == word.text) else {
            let help = did_you_mean(&String::from_utf8_lossy(word.text), &FLOW_WORDS);
            return Err(line.error(word, "a word of a connection line").help(help));
        };
        if !seen.add(place) {
            return Err(line.error(word, "each word once a line").help("leave one of the two out"));
        }
        match word.text {
            b"id" => flow.id = Some(nonzero("the flow's id", line)?),
            b"size" => flow.size = Bytes(line.integer("the size in bytes", 1, FLOW_BYTES_MAX)?),
            b"start" | b"trigger" if seen.has(START) && seen.has(TRIGGER) => {
                return Err(line
                    .error(word, "either `start` or `trigger`, not both")
                    .help("a flow starts by time or by a trigger; remove one of the two"));
            }
            b"start" => flow.start = Start::At(self.start_time(line)?),
            b"trigger" => flow.start = Start::On(trigger_name(line)?),
            b"send_done_trigger" => flow.send_done = Some(trigger_name(line)?),
            b"recv_done_trigger" => flow.recv_done = Some(trigger_name(line)?),
            b"prio" => flow.prio = line.integer_u32("the priority", 0, u32::MAX)?,
            b"coll" => {
                let number = line.integer_u32("the collective's number", 0, u32::MAX);
                let help = "flows of one number are one collective; `coll 0` is none";
                flow.collective = number.map_err(|error| error.help(help))?;
            }
            _ => {
                let number = line.peek().is_some_and(|next| next.text[0].is_ascii_digit());
                flow.message = if number {
                    LineMeaning::Numbered(nonzero("the message's number", line)?)
                } else {
                    LineMeaning::Next
                };
            }
        }
        Ok(())
    }

    fn start_time(&mut self, line: &mut TextLine<'_>) -> Result<Duration, InputError> {
        let (scale, expected) = match self.unit {
            StartUnit::Us => (6, "a start time in microseconds"),
            StartUnit::Ps => (0, "a start time in picoseconds"),
        };
        let token = line.require(expected)?;
        let start = number::decimal(token.text, scale).map_err(|error| match error {
            NumberError::Malformed => line.error(token, expected),
            NumberError::TooLarge => line
                .error(token, "a start time within 213 days")
                .help("is it in picoseconds? then use --set cm.start_unit=ps"),
        })?;
        let start = Duration::from_ps(start);
        if start > START_EXPECTED_MAX && !std::mem::replace(&mut self.warned.start, true) {
            let found = format!("a start at {start}");
            self.warnings.push(Warning(
                line.error_as(token, found, "starts within the first second")
                    .help("if the file counts picoseconds, use --set cm.start_unit=ps"),
            ));
        }
        Ok(start)
    }

    fn trigger(&mut self, first: Token<'_>, line: &mut TextLine<'_>) -> Result<(), InputError> {
        self.enter_body(line)?;
        let promised = self.triggers.unwrap_or_default();
        within(self.matrix.triggers.len(), promised, "trigger", first, line)?;
        let (mut id, mut kind, mut count, mut delay) = (None, None, None, None);
        while let Some(word) = line.token() {
            let fresh = match word.text {
                b"id" => id.replace(nonzero("the trigger's id", line)?).is_none(),
                b"count" => {
                    let number = nonzero("the number of pokes", line)?;
                    count.replace((word, number)).is_none()
                }
                b"delay" => delay.replace(self.start_time(line)?).is_none(),
                b"oneshot" | b"multishot" | b"barrier" => kind.replace(word.text).is_none(),
                other => {
                    let help = did_you_mean(&String::from_utf8_lossy(other), &TRIGGER_WORDS);
                    return Err(line.error(word, "a word of a trigger line").help(help));
                }
            };
            if !fresh {
                return Err(line.error(word, "each word once a line, and one kind"));
            }
        }
        let id = id.ok_or_else(|| line.end_error("`id T`"))?;
        let kind = match (kind, count) {
            (None, _) => return Err(line.end_error("`oneshot`, `multishot` or `barrier`")),
            (Some(b"barrier"), None) => return Err(line.end_error("`count K` of the barrier")),
            (Some(b"barrier"), Some((_, count))) => TriggerKind::Barrier(count),
            (Some(b"oneshot"), _) => TriggerKind::Oneshot,
            (Some(_), _) => TriggerKind::Multishot,
        };
        if let (TriggerKind::Oneshot | TriggerKind::Multishot, Some((word, _))) = (kind, count)
            && !std::mem::replace(&mut self.warned.count, true)
        {
            let odd = line.error(word, "a count on barriers only");
            self.warnings.push(Warning(odd.help("it has no effect here; remove `count K`")));
        }
        self.trigger_lines.push(line.number);
        let delay = delay.unwrap_or_default();
        self.matrix.triggers.push(Trigger { id, kind, delay });
        Ok(())
    }

    fn failure(&mut self, first: Token<'_>, line: &mut TextLine<'_>) -> Result<(), InputError> {
        self.enter_body(line)?;
        let promised = self.failures.unwrap_or_default();
        within(self.matrix.failures.len(), promised, "failure", first, line)?;
        let (mut tier, mut switch, mut link) = (None, None, None);
        while let Some(word) = line.token() {
            let fresh = match word.text {
                b"switch_type" => tier.replace(switch_tier(line)?).is_none(),
                b"switch_id" => {
                    switch.replace(line.integer_u32("a switch", 0, HOSTS_MAX)?).is_none()
                }
                b"link_id" => link.replace(line.integer_u32("a link", 0, HOSTS_MAX)?).is_none(),
                other => {
                    let help = did_you_mean(&String::from_utf8_lossy(other), &FAILURE_WORDS);
                    return Err(line.error(word, "a word of a failure line").help(help));
                }
            };
            if !fresh {
                return Err(line
                    .error(word, "each word once a line")
                    .help("leave one of the two out"));
            }
        }
        let tier = tier.ok_or_else(|| line.end_error("`switch_type TOR|AGG|CORE`"))?;
        let switch = switch.ok_or_else(|| line.end_error("`switch_id S`"))?;
        let link = link.ok_or_else(|| line.end_error("`link_id L`"))?;
        self.failure_lines.push(line.number);
        self.matrix.failures.push(LinkFailure { tier, switch, link });
        Ok(())
    }

    /// The end of the file: counts, trigger names, and whether it all fits together.
    fn finish(mut self, name: &str, last_line: u32) -> Result<CmFile, InputError> {
        let missing = |what: &str| {
            InputError::new("the end of the file", format!("the header `{what} N`")).at(
                name,
                last_line.max(1),
                0,
            )
        };
        self.matrix.nodes = self.nodes.ok_or_else(|| missing("Nodes"))?.count;
        let connections = self.connections.ok_or_else(|| missing("Connections"))?;
        let counts = [
            ("connection", connections, self.matrix.flows.len()),
            ("trigger", self.triggers.unwrap_or_default(), self.matrix.triggers.len()),
            ("failure", self.failures.unwrap_or_default(), self.matrix.failures.len()),
        ];
        for (what, promise, found) in counts {
            if promise.count as usize != found {
                let expected = format!("{}, as the header says", promise.count);
                let s = if found == 1 { "" } else { "s" };
                return Err(InputError::new(format!("{found} {what} line{s}"), expected)
                    .at(name, promise.line, promise.column)
                    .help("is the file cut off? if not, correct the header"));
            }
        }
        if self.matrix.flows.is_empty() {
            let found = InputError::new("a matrix without flows", "at least one connection");
            let place = found.at(name, connections.line, connections.column);
            self.warnings.push(Warning(place.help("nothing is sent; is the file a stub?")));
        }
        self.resolve_triggers(name)?;
        if let Err(defect) = find_defect(&self.matrix) {
            let (flows, triggers) = (&self.flow_lines, &self.trigger_lines);
            let line_of = |subject| match subject {
                Subject::Whole => 0,
                Subject::Flow(flow) => flows.line(flow.0),
                Subject::Trigger(trigger) => triggers.line_at(trigger.index()),
            };
            let mut error = defect.diagnose().at(name, line_of(defect.subject()), 0);
            if let Some(first) = defect.collides_with() {
                let place = format!("the first is on line {}", line_of(first));
                let joint = if error.help.is_empty() { "" } else { "; " };
                error.help = format!("{place}{joint}{}", error.help);
            }
            return Err(error);
        }
        Ok(CmFile { matrix: self.matrix, warnings: self.warnings })
    }

    /// Turns trigger names into places.
    fn resolve_triggers(&mut self, name: &str) -> Result<(), InputError> {
        let matrix = &mut self.matrix;
        let mut places: Vec<(NonZeroU32, TriggerIndex)> = (matrix.triggers.iter())
            .zip((0..).map_while(TriggerIndex::new))
            .map(|(trigger, at)| (trigger.id, at))
            .collect();
        places.sort_unstable();
        let place = |trigger: &mut TriggerIndex| {
            let found = places.binary_search_by_key(&trigger.name(), |&(id, _)| id);
            let at = found.map_err(|_| trigger.name())?;
            *trigger = places[at].1;
            Ok(())
        };
        for (flow, at) in matrix.flows.iter_mut().zip(0u32..) {
            let waits_for = match &mut flow.start {
                Start::On(trigger) => Some(trigger),
                Start::At(_) => None,
            };
            let mut references =
                waits_for.into_iter().chain(&mut flow.send_done).chain(&mut flow.recv_done);
            references.try_for_each(place).map_err(|id: NonZeroU32| {
                let help = format!("add a line `trigger id {id} oneshot` and count it in Triggers");
                InputError::new(format!("trigger {id}, not declared"), "a declared trigger")
                    .at(name, self.flow_lines.line(at), 0)
                    .help(help)
            })?;
        }
        Ok(())
    }
}

const FLOW_WORDS: [&str; 9] = [
    "id",
    "start",
    "trigger",
    "size",
    "send_done_trigger",
    "recv_done_trigger",
    "prio",
    "msg",
    "coll",
];
const START: usize = 1;
const TRIGGER: usize = 2;
const SIZE: usize = 3;
const TRIGGER_WORDS: [&str; 6] = ["id", "oneshot", "multishot", "barrier", "count", "delay"];
const FAILURE_WORDS: [&str; 3] = ["switch_type", "switch_id", "link_id"];

/// Beyond this a start time is probably in the wrong unit.
const START_EXPECTED_MAX: Duration = Duration::from_s(1);

/// The words of [`FLOW_WORDS`] that a line has had, one bit each.
#[derive(Default)]
struct SeenWords(u16);

impl SeenWords {
    fn has(&self, place: usize) -> bool {
        self.0 & (1 << place) != 0
    }

    /// Notes the word at that place of [`FLOW_WORDS`]; false when it was there.
    fn add(&mut self, place: usize) -> bool {
        let fresh = !self.has(place);
        self.0 |= 1 << place;
        fresh
    }
}

/// Refuses a line beyond the number the header promised, so that a long file stops early.
fn within(
    have: usize,
    promise: Promise,
    what: &str,
    token: Token<'_>,
    line: &TextLine<'_>,
) -> Result<(), InputError> {
    if have < promise.count as usize {
        return Ok(());
    }
    let expected = format!("{} {what} lines in all, as the header says", promise.count);
    Err(line.error_as(token, format!("one {what} line more"), expected).help(format!(
        "correct the header{}",
        if promise.line > 0 { format!(" on line {}", promise.line) } else { String::new() }
    )))
}

fn ends(
    first: Token<'_>,
    line: &mut TextLine<'_>,
    nodes: u32,
) -> Result<(HostId, HostId), InputError> {
    let src = host(first, line, nodes)?;
    let arrow = line.require("`->` and the destination")?;
    if arrow.text != b"->" {
        return Err(line.error(arrow, "`->` and the destination"));
    }
    let token = line.require("the destination host")?;
    let dst = host(token, line, nodes)?;
    if src == dst {
        return Err(line.error_as(
            token,
            format!("host {dst} sending to itself"),
            "another destination",
        ));
    }
    Ok((src, dst))
}

fn host(token: Token<'_>, line: &TextLine<'_>, nodes: u32) -> Result<HostId, InputError> {
    let expected = || format!("a host in 0..={}", nodes - 1);
    match number::integer(token.text).map(u32::try_from) {
        Ok(Ok(host)) if host < nodes => Ok(HostId(host)),
        Ok(_) | Err(NumberError::TooLarge) => Err(line
            .error(token, expected())
            .help("hosts count from 0; name another one, or raise Nodes")),
        Err(NumberError::Malformed) => Err(line.error(token, expected())),
    }
}

fn nonzero(what: &str, line: &mut TextLine<'_>) -> Result<NonZeroU32, InputError> {
    let value = line.integer_u32(what, 1, u32::MAX)?;
    Ok(NonZeroU32::new(value).unwrap_or(NonZeroU32::MIN))
}

fn trigger_name(line: &mut TextLine<'_>) -> Result<TriggerIndex, InputError> {
    nonzero("a trigger's id", line).map(TriggerIndex::unresolved)
}

fn switch_tier(line: &mut TextLine<'_>) -> Result<SwitchTier, InputError> {
    let token = line.require(SWITCH_TIERS)?;
    [SwitchTier::Tor, SwitchTier::Agg, SwitchTier::Core, SwitchTier::Border]
        .into_iter()
        .find(|tier| tier.name().as_bytes() == token.text)
        .ok_or_else(|| line.error(token, SWITCH_TIERS))
}

const SWITCH_TIERS: &str = "TOR, AGG, CORE or BORDER";

#[cfg(test)]
mod tests;
