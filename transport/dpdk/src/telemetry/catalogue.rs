//! The published counters and histograms and their names: one list for DPDK's telemetry,
//! OpenMetrics and the page.
//!
//! Counters are those that endpoint, worker and device keep in any case, by their fields' names and
//! texts. docs/TELEMETRY.md has the same list; a test compares the two.

use transport::stats::{DropCounts, DropReason};

use crate::io::upkeep::IoCounts;
use crate::telemetry::counts::{Pressure, WorkerCounts};

/// The owner of the counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// The protocol core's.
    Endpoint,
    /// Received packets dropped, by reason.
    Drops,
    /// The poll loop's.
    Worker,
    /// The device's and its buffers'.
    Device,
    /// Turns in which something had to wait.
    Pressure,
}

/// One counter of every worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// The part of a worker that counts.
    pub group: Group,
    /// The counter's name in the group, snake case.
    pub name: &'static str,
    /// The counter's text; may start with a space.
    pub help: &'static str,
}

type Named = &'static [(&'static str, &'static str)];

const COUNT: usize = transport::Stats::COUNTERS.len()
    + DropReason::ALL.len()
    + WorkerCounts::COUNTERS.len()
    + IoCounts::COUNTERS.len()
    + Pressure::COUNTERS.len();

/// Every counter, group by group; a board's counters are in this order.
pub const COUNTERS: [Counter; COUNT] = all();

const fn all() -> [Counter; COUNT] {
    let mut list = [Counter { group: Group::Endpoint, name: "", help: "" }; COUNT];
    let mut at = fill(&mut list, 0, Group::Endpoint, transport::Stats::COUNTERS);
    let mut reason = 0;
    while reason < DropReason::ALL.len() {
        let name = DropReason::ALL[reason].name();
        list[at] = Counter { group: Group::Drops, name, help: "Received packets dropped." };
        at += 1;
        reason += 1;
    }
    at = fill(&mut list, at, Group::Worker, WorkerCounts::COUNTERS);
    at = fill(&mut list, at, Group::Device, IoCounts::COUNTERS);
    at = fill(&mut list, at, Group::Pressure, Pressure::COUNTERS);
    assert!(at == COUNT, "every counter is in the list");
    list
}

const fn fill(list: &mut [Counter; COUNT], from: usize, group: Group, named: Named) -> usize {
    let mut at = 0;
    while at < named.len() {
        let (name, help) = named[at];
        list[from + at] = Counter { group, name, help };
        at += 1;
    }
    from + named.len()
}

/// The values of all counters, in the order of [`COUNTERS`].
pub(super) fn values(
    stats: &transport::Stats,
    counts: &WorkerCounts,
    io: &IoCounts,
    pressure: &Pressure,
) -> impl Iterator<Item = u64> {
    let drops: DropCounts = stats.drops;
    let drops = DropReason::ALL.iter().map(move |reason| drops.of(*reason));
    let own = stats.values().into_iter().chain(drops).chain(counts.values());
    own.chain(io.values()).chain(pressure.values())
}

impl Group {
    /// All groups, in the order of [`COUNTERS`].
    pub const ALL: [Self; 5] =
        [Self::Endpoint, Self::Drops, Self::Worker, Self::Device, Self::Pressure];

    /// The word in names of metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::Drops => "drops",
            Self::Worker => "worker",
            Self::Device => "device",
            Self::Pressure => "pressure",
        }
    }
}

/// The histograms of every worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HistogramName {
    /// Round trips of acknowledged segments, nanoseconds.
    Rtt,
    /// Times from a message's request to its last acknowledgement, nanoseconds.
    MessageTime,
    /// Frames of a received burst; polls that found none are not counted.
    RxBurst,
    /// Frames that the device took at once; polls that sent none are not counted.
    TxBurst,
    /// Times from the start of a turn that did something to the start of the next, nanoseconds.
    Poll,
}

impl HistogramName {
    /// All histograms.
    pub const ALL: [Self; 5] =
        [Self::Rtt, Self::MessageTime, Self::RxBurst, Self::TxBurst, Self::Poll];

    /// The histogram's name, snake case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rtt => "rtt",
            Self::MessageTime => "message_time",
            Self::RxBurst => "rx_burst",
            Self::TxBurst => "tx_burst",
            Self::Poll => "poll",
        }
    }

    /// The histogram called `name`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|histogram| histogram.name() == name)
    }

    /// The histogram's text.
    #[must_use]
    pub const fn help(self) -> &'static str {
        match self {
            Self::Rtt => "Round trips of acknowledged segments, without the time they were held.",
            Self::MessageTime => "From a message's request to its last acknowledgement.",
            Self::RxBurst => "Frames of a received burst.",
            Self::TxBurst => "Frames that the device took at once.",
            Self::Poll => "From the start of a turn that did something to the start of the next.",
        }
    }

    /// Whether the histogram is of nanoseconds; else it is of frames.
    #[must_use]
    pub const fn is_time(self) -> bool {
        matches!(self, Self::Rtt | Self::MessageTime | Self::Poll)
    }

    /// The least and the largest power of two between which it is exposed.
    #[must_use]
    pub const fn octaves(self) -> (u32, u32) {
        // 128 ns to 2.1 s, and 1 to 32 frames.
        if self.is_time() { (7, 31) } else { (0, 5) }
    }
}

/// Every histogram.
pub const HISTOGRAMS: [HistogramName; 5] = HistogramName::ALL;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Names in backticks at the front of the page's tables, by the group of their heading.
    fn page() -> BTreeSet<(String, String)> {
        let page = include_str!("../../../../docs/TELEMETRY.md");
        let mut found = BTreeSet::new();
        let mut group = String::new();
        for line in page.lines() {
            if let Some(heading) = line.strip_prefix("### ") {
                group = heading.split('`').nth(1).unwrap_or_default().to_owned();
            }
            let name = line.strip_prefix("| `").and_then(|rest| rest.split_once('`'));
            if let Some((name, _)) = name.filter(|_| !group.is_empty()) {
                found.insert((group.clone(), name.to_owned()));
            }
        }
        found
    }

    #[test]
    fn the_page_lists_what_there_is_and_nothing_else() {
        let counters =
            COUNTERS.iter().map(|counter| (counter.group.name().to_owned(), counter.name.into()));
        let histograms =
            HISTOGRAMS.iter().map(|histogram| ("histogram".to_owned(), histogram.name().into()));
        let known: BTreeSet<(String, String)> = counters.chain(histograms).collect();
        let page = page();
        let missing: Vec<_> = known.difference(&page).collect();
        let gone: Vec<_> = page.difference(&known).collect();
        assert!(missing.is_empty() && gone.is_empty(), "add {missing:?}, remove {gone:?}");
    }

    #[test]
    fn the_page_says_of_each_counter_what_the_code_says() {
        let page = include_str!("../../../../docs/TELEMETRY.md");
        // Drops are one family of metrics, with the reason as label; reasons have no text of their
        // own.
        for counter in COUNTERS.iter().filter(|counter| counter.group != Group::Drops) {
            let row = format!("| `{}` | {} |", counter.name, counter.help.trim());
            let of_group = page.split("### `").find(|part| part.starts_with(counter.group.name()));
            assert!(of_group.unwrap().lines().any(|line| line == row), "expected {row}");
        }
    }

    #[test]
    fn names_are_distinct_in_their_groups_and_values_come_in_their_order() {
        let names: BTreeSet<_> = COUNTERS.iter().map(|c| (c.group.name(), c.name)).collect();
        assert_eq!(names.len(), COUNTERS.len());
        let stats = transport::Stats { data_new: 1, ..Default::default() };
        let pressure = Pressure { lingering: 2, ..Default::default() };
        let counts = WorkerCounts { polls: 3, ..Default::default() };
        let values: Vec<u64> = values(&stats, &counts, &IoCounts::default(), &pressure).collect();
        let of = |group, name| {
            let found = COUNTERS.iter().position(|c| c.group == group && c.name == name);
            values[found.unwrap()]
        };
        assert_eq!(values.len(), COUNTERS.len());
        assert_eq!(of(Group::Endpoint, "data_new"), 1);
        assert_eq!(of(Group::Pressure, "lingering"), 2);
        assert_eq!(of(Group::Worker, "polls"), 3);
    }
}
