//! Reads and writes `.topo` fat trees, the topology format of uet-htsim.
//!
//! ```text
//! Nodes N / Tiers 2|3 / Podsize P                header, in any order
//! Tier t                                         then one section a tier, keys in any order
//! Downlink_speed_Gbps, Radix_Down, Radix_Up, Queue_Down, Queue_Up, Oversubscribed, Bundle,
//! Switch_Latency_ns, Downlink_Latency_ns
//! ```
//!
//! These keys are ours. Two sites of `Tiers t` that border switches join have `Sites 2` in the
//! header, and a section `Tier t` of the border switches. Their links up are the links between the
//! sites. These have the keys Uplink_speed_Gbps and Uplink_Latency_ns. `Schedulers 1` in the header
//! gives each pod a scheduler with links to all its ToRs and aggregation switches.
//!
//! Source: the reader of uet-htsim. Keys are case-insensitive; white space and comments as in
//! `input/tokens.rs`. Every error names the line. What is written reads back as the same tree.

use std::fmt::Write as _;
use std::io::BufRead;
use std::path::Path;

use transport::Bytes;

use super::spec::{
    BORDERS_MAX, FatTreeSpec, GBPS_MAX, LATENCY_NS_MAX, NODES_MAX, RADIX_MAX, SpecError, TIERS_MAX,
    TierSpec, WanSpec,
};
use crate::input::{InputError, LineReader, TextLine, Token, did_you_mean, file};

/// Reads a tree; `name` is what errors call it.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn read(source: impl BufRead, name: &str) -> Result<FatTreeSpec, InputError> {
    let mut source = LineReader::new(source, name);
    read_all(&mut source)?.finish(name, source.line_number())
}

/// Reads the tree in the file at `path`.
///
/// # Errors
/// As [`read`], and when the file cannot be opened.
pub fn read_path(path: &Path) -> Result<FatTreeSpec, InputError> {
    let name = path.display().to_string();
    read(file::open(path)?, &name)
}

/// The line of a key of a tier, or of the header where `tier` is `None`, in the file at `path`,
/// found by reading it again. `None` where the file has no such line, for a file that can be read
/// only once, such as a pipe, and for one that has changed.
#[must_use]
pub fn line_of(path: &Path, tier: Option<u8>, key: &str) -> Option<u32> {
    let name = path.display().to_string();
    let reader = read_all(&mut LineReader::new(file::open_again(path)?, &name)).ok()?;
    let Some(tier) = tier else {
        let at = HEADER.iter().position(|&known| known == key)?;
        return reader.header[at].map(|(_, line)| line);
    };
    let (_, entries) = reader.sections.get(usize::from(tier)).copied().flatten()?;
    let at = KEYS.iter().position(|&(known, ..)| known == key)?;
    entries[at].map(|(_, line)| line)
}

fn read_all<R: BufRead>(source: &mut LineReader<R>) -> Result<Reader, InputError> {
    let mut reader = Reader::default();
    while let Some(mut line) = source.next_line()? {
        let Some(word) = line.token() else { continue };
        reader.statement(word, &mut line)?;
        line.finish()?;
    }
    Ok(reader)
}

/// `tree` as text, in the order of uet-htsim's own files.
#[must_use]
pub fn to_text(tree: &FatTreeSpec) -> String {
    let mut text =
        format!("Nodes {}\nTiers {}\nPodsize {}\n", tree.nodes, tree.tiers, tree.podsize);
    if tree.wan.is_some() {
        let _ = writeln!(text, "Sites {}", tree.sites());
    }
    if tree.borders() > 1 {
        let _ = writeln!(text, "Borders {}", tree.borders());
    }
    if tree.schedulers > 0 {
        let _ = writeln!(text, "Schedulers {}", tree.schedulers);
    }
    if let Some(cores) = tree.dealt_cores {
        let _ = writeln!(text, "Cores {cores}");
    }
    for (at, tier) in tree.tier.iter().enumerate().take(usize::from(tree.levels())) {
        let top = at + 1 == usize::from(tree.tiers) && tree.wan.is_none();
        let wan = tree.wan.as_ref().filter(|_| at == usize::from(tree.tiers));
        let rows = [
            ("Oversubscribed", Some(u64::from(tier.oversubscribed)).filter(|_| !top)),
            // Shown in Gbit/s.
            (KEYS[DOWNLINK_GBPS].0, Some(u64::from(tier.downlink_mbps))),
            ("Radix_Down", Some(u64::from(tier.radix_down))),
            ("Radix_Up", Some(u64::from(tier.radix_up)).filter(|_| !top)),
            ("Queue_Down", tier.queue_down.map(|bytes| bytes.0)),
            ("Queue_Up", tier.queue_up.map(|bytes| bytes.0)),
            ("Downlink_Latency_ns", Some(u64::from(tier.downlink_latency_ns))),
            ("Switch_Latency_ns", Some(u64::from(tier.switch_latency_ns))),
            ("Bundle", Some(u64::from(tier.bundle)).filter(|_| at > 0)),
            ("Uplink_speed_Gbps", wan.map(|wan| u64::from(wan.gbps))),
            ("Uplink_Latency_ns", wan.map(|wan| u64::from(wan.latency_ns))),
        ];
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\nTier {at}");
        for (key, value) in rows {
            let _ = match value {
                None => Ok(()),
                Some(_) if key == KEYS[DOWNLINK_GBPS].0 => {
                    writeln!(text, "{key} {}", tier.downlink_gbps())
                }
                Some(value) => writeln!(text, "{key} {value}"),
            };
        }
    }
    text
}

/// The header's words.
const HEADER: [&str; 7] = ["Nodes", "Tiers", "Podsize", "Sites", "Schedulers", "Cores", "Borders"];

/// The header's words that may be left out.
const SITES: usize = 3;
const SCHEDULERS: usize = 4;
const CORES: usize = 5;
const BORDERS: usize = 6;

/// The words of a section, with the bounds of their values.
const KEYS: [(&str, u64, u64); 11] = [
    ("Downlink_speed_Gbps", 1, GBPS_MAX as u64 * 1000),
    ("Radix_Down", 1, RADIX_MAX as u64),
    ("Radix_Up", 1, RADIX_MAX as u64),
    ("Queue_Down", 1, QUEUE_MAX),
    ("Queue_Up", 1, QUEUE_MAX),
    ("Oversubscribed", 1, RADIX_MAX as u64),
    ("Bundle", 1, RADIX_MAX as u64),
    ("Switch_Latency_ns", 0, LATENCY_NS_MAX as u64),
    ("Downlink_Latency_ns", 0, LATENCY_NS_MAX as u64),
    ("Uplink_speed_Gbps", 1, GBPS_MAX as u64),
    ("Uplink_Latency_ns", 0, LATENCY_NS_MAX as u64),
];

/// No port has a tebibyte of buffer.
const QUEUE_MAX: u64 = 1 << 40;

const DOWNLINK_GBPS: usize = 0;
const RADIX_DOWN: usize = 1;
const RADIX_UP: usize = 2;
const QUEUE_DOWN: usize = 3;
const QUEUE_UP: usize = 4;
const OVERSUBSCRIBED: usize = 5;
const BUNDLE: usize = 6;
const SWITCH_LATENCY: usize = 7;
const DOWNLINK_LATENCY: usize = 8;
const UPLINK_GBPS: usize = 9;
const UPLINK_LATENCY: usize = 10;

/// A value with its line in the file. The value of `Downlink_speed_Gbps` is in Mbit/s.
type Entry = Option<(u64, u32)>;

#[derive(Debug, Default)]
struct Reader {
    header: [Entry; HEADER.len()],
    /// Line of each `Tier t`, and its entries in the order of [`KEYS`].
    sections: [Option<(u32, [Entry; KEYS.len()])>; TIERS_MAX],
    current: Option<usize>,
}

impl Reader {
    fn statement(&mut self, word: Token<'_>, line: &mut TextLine<'_>) -> Result<(), InputError> {
        let text = String::from_utf8_lossy(word.text);
        let is = |known: &str| known.eq_ignore_ascii_case(&text);
        if is("Tier") {
            return self.section(line);
        }
        if let Some(at) = HEADER.iter().position(|known| is(known)) {
            if self.current.is_some() {
                return Err(line
                    .error(word, "a word of a section")
                    .help("the words of the header come before the first `Tier 0`"));
            }
            let (what, min, max) = match at {
                0 => ("the number of hosts", 2, u64::from(NODES_MAX)),
                1 => ("the number of tiers", 2, 3),
                SITES => ("the number of sites", 1, 2),
                SCHEDULERS => ("the schedulers of a pod", 0, 2),
                CORES => ("the Core switches", 1, u64::from(RADIX_MAX)),
                BORDERS => ("the border switches of a site", 1, u64::from(BORDERS_MAX)),
                _ => ("the hosts of a pod", 1, u64::from(NODES_MAX)),
            };
            return enter(&mut self.header[at], word, line, what, (min, max));
        }
        let Some(at) = KEYS.iter().position(|&(known, ..)| is(known)) else {
            let known: Vec<&str> =
                HEADER.into_iter().chain(["Tier"]).chain(KEYS.map(|(key, ..)| key)).collect();
            return Err(line.error(word, "a word of a topology").help(did_you_mean(&text, &known)));
        };
        let Some((_, entries)) = self.current.and_then(|tier| self.sections[tier].as_mut()) else {
            return Err(line
                .error(word, "a `Tier t` line before it")
                .help("this word belongs to a tier's section"));
        };
        let (key, min, max) = KEYS[at];
        if at == DOWNLINK_GBPS {
            let read = |line: &mut TextLine<'_>| line.thousandths(key, (min, max));
            return enter_as(&mut entries[at], word, line, read);
        }
        enter(&mut entries[at], word, line, key, (min, max))
    }

    fn section(&mut self, line: &mut TextLine<'_>) -> Result<(), InputError> {
        let tiers = self.header[1].map_or(3, |(tiers, _)| tiers);
        let at = line.peek();
        let tier = line.integer("a tier", 0, tiers - 1 + u64::from(self.has_border()))?;
        let tier = usize::try_from(tier).unwrap_or(0);
        if let (Some((earlier, _)), Some(token)) = (self.sections[tier], at) {
            return Err(line
                .error_as(token, format!("a second section of tier {tier}"), "each tier once")
                .help(format!("the first is on line {earlier}")));
        }
        self.sections[tier] = Some((line.number, [None; KEYS.len()]));
        self.current = Some(tier);
        Ok(())
    }

    fn has_border(&self) -> bool {
        self.header[SITES].is_some_and(|(sites, _)| sites > 1)
    }

    fn finish(self, name: &str, last_line: u32) -> Result<FatTreeSpec, InputError> {
        let missing = |what: &str, line: u32| {
            InputError::new("the end", format!("`{what}`"))
                .at(name, line.max(1), 0)
                .help("add that line")
        };
        let header = |at: usize| {
            let value = self.header[at].map(|(value, _)| value);
            value.ok_or_else(|| missing(HEADER[at], last_line))
        };
        let mut tree = FatTreeSpec {
            nodes: fit(header(0)?),
            tiers: u8::try_from(header(1)?).unwrap_or(u8::MAX),
            podsize: fit(header(2)?),
            schedulers: self.header[SCHEDULERS].map_or(0, |(count, _)| fit(count)),
            dealt_cores: self.header[CORES].map(|(count, _)| fit(count)),
            ..FatTreeSpec::default()
        };
        if let Some((count, line)) = self.header[BORDERS].filter(|_| !self.has_border()) {
            let error = InputError::new(format!("Borders {count}"), "two sites that they join");
            return Err(error.at(name, line, 0).help("write `Sites 2`, or leave the line out"));
        }
        let site = usize::from(tree.tiers).min(3);
        let tiers = site + usize::from(self.has_border());
        for (at, section) in self.sections.iter().enumerate() {
            match section {
                None if at < tiers => return Err(missing(&format!("Tier {at}"), last_line)),
                Some((line, _)) if at >= tiers => {
                    let found = format!("a section of tier {at}");
                    let expected = format!("tiers below {tiers}, as the header says");
                    return Err(InputError::new(found, expected).at(name, *line, 0));
                }
                None => {}
                Some((line, entries)) => {
                    let place = match at {
                        _ if at == site => TierKind::Border,
                        _ if at + 1 == tiers => TierKind::Top,
                        _ => TierKind::Within,
                    };
                    let missing = |what: &str| {
                        let mut error = missing(what, *line);
                        error.found = format!("tier {at} without `{what}`");
                        error
                    };
                    let wan;
                    (tree.tier[at], wan) = tier_spec(entries, place, &missing)?;
                    let borders = self.header[BORDERS].map_or(1, |(count, _)| fit(count));
                    tree.wan = tree.wan.or(wan.map(|wan| WanSpec { borders, ..wan }));
                }
            }
        }
        tree.check().map_err(|error| self.place(error, name))?;
        self.check_oversubscription(&mut tree, name)?;
        Ok(tree)
    }

    /// A file that states the factor has to state the right one; otherwise it is computed.
    fn check_oversubscription(&self, tree: &mut FatTreeSpec, name: &str) -> Result<(), InputError> {
        for tier in 0..tree.levels() {
            let at = usize::from(tier);
            let computed = tree.oversubscription(tier);
            let stated = self.sections[at].and_then(|(_, entries)| entries[OVERSUBSCRIBED]);
            if let Some((stated, line)) = stated
                && stated != u64::from(computed)
            {
                let found = format!("Oversubscribed {stated} in tier {tier}");
                let expected = format!("{computed}, by the radices and speeds");
                return Err(InputError::new(found, expected)
                    .at(name, line, 0)
                    .help("correct the factor, Radix_Down or Radix_Up"));
            }
            tree.tier[at].oversubscribed = computed;
        }
        Ok(())
    }

    /// The contradiction with the line of the number it names.
    fn place(&self, error: SpecError, name: &str) -> InputError {
        let entry = match error.tier.map(usize::from) {
            None => HEADER
                .iter()
                .position(|&key| key == error.key)
                .and_then(|at| self.header[at].map(|(_, line)| line)),
            Some(tier) => self.sections.get(tier).copied().flatten().map(|(line, entries)| {
                let at = KEYS.iter().position(|&(key, ..)| key == error.key);
                at.and_then(|at| entries[at]).map_or(line, |(_, line)| line)
            }),
        };
        let tier = error.tier.map(|tier| format!(" in tier {tier}")).unwrap_or_default();
        let found = format!("{} {}{tier}", error.key, error.found);
        InputError::new(found, error.rule.to_string()).at(name, entry.unwrap_or(0), 0).help(
            "hosts = pods x Podsize; see the counts in the error and correct one of the numbers",
        )
    }
}

fn enter(
    entry: &mut Entry,
    word: Token<'_>,
    line: &mut TextLine<'_>,
    what: &str,
    (min, max): (u64, u64),
) -> Result<(), InputError> {
    enter_as(entry, word, line, |line| line.integer(what, min, max))
}

/// [`enter`] of a value that `read` takes from the line.
fn enter_as(
    entry: &mut Entry,
    word: Token<'_>,
    line: &mut TextLine<'_>,
    read: impl FnOnce(&mut TextLine<'_>) -> Result<u64, InputError>,
) -> Result<(), InputError> {
    if let Some((_, earlier)) = entry {
        let help = format!("the first is on line {earlier}");
        return Err(line.error(word, "each word once a section").help(help));
    }
    *entry = Some((read(line)?, line.number));
    Ok(())
}

/// The part of the network above a tier.
#[derive(Clone, Copy, PartialEq)]
enum TierKind {
    /// Another tier.
    Within,
    /// The top tier: nothing is above it.
    Top,
    /// A border: the other site is above it.
    Border,
}

fn tier_spec(
    entries: &[Entry; KEYS.len()],
    place: TierKind,
    missing: &dyn Fn(&str) -> InputError,
) -> Result<(TierSpec, Option<WanSpec>), InputError> {
    let value = |at: usize| entries[at].map(|(value, _)| value);
    let required = |at: usize| value(at).map(fit).ok_or_else(|| missing(KEYS[at].0));
    let refused = |at: usize, line: u32, here: &str, help: &str| {
        let mut error = missing(KEYS[at].0).help(help);
        error.line = line;
        error.found = format!("{} in {here}", KEYS[at].0);
        error.expected = "none".to_owned();
        error
    };
    let top = place == TierKind::Top;
    for at in [RADIX_UP, QUEUE_UP] {
        if let Some((_, line)) = entries[at].filter(|_| top) {
            let help = "remove the line; the top tier has no links up";
            return Err(refused(at, line, "the top tier", help));
        }
    }
    for at in [UPLINK_GBPS, UPLINK_LATENCY] {
        if let Some((_, line)) = entries[at].filter(|_| place != TierKind::Border) {
            let help = "remove the line; only the tier above two sites has it";
            return Err(refused(at, line, "a tier of a site", help));
        }
    }
    let wan = match place {
        TierKind::Border => {
            let (gbps, latency_ns) = (required(UPLINK_GBPS)?, required(UPLINK_LATENCY)?);
            Some(WanSpec { gbps, latency_ns, borders: 1 })
        }
        TierKind::Within | TierKind::Top => None,
    };
    let tier = TierSpec {
        downlink_mbps: required(DOWNLINK_GBPS)?,
        radix_down: required(RADIX_DOWN)?,
        radix_up: if top { 0 } else { required(RADIX_UP)? },
        queue_down: value(QUEUE_DOWN).map(Bytes),
        queue_up: value(QUEUE_UP).map(Bytes),
        // Replaced by the computed factor once both tiers are known.
        oversubscribed: value(OVERSUBSCRIBED).map_or(1, fit),
        bundle: value(BUNDLE).map_or(1, fit),
        switch_latency_ns: value(SWITCH_LATENCY).map_or(0, fit),
        downlink_latency_ns: required(DOWNLINK_LATENCY)?,
    };
    Ok((tier, wan))
}

/// The bounds of every key but the queues are below 2^32.
fn fit(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
