//! Faults as plain data: what goes wrong, on which links, and when; and their one-line spelling.
//!
//! ```text
//! KIND[:VALUE][@LINKS][,burst=PACKETS][,block=PACKETS][,delay_us=T][,from_us=T][,until_us=T]
//!   loss:0.01@all                      burst-loss:0.01@fabric,burst=8       duplicate:0.001@hosts
//!   reorder:0.05@all,delay_us=20       corrupt:0.0001@host:3                degrade:0.5@tor:0:up:2
//!   down@tor:0:up:2,from_us=10,until_us=20                   crash@border:0,from_us=10,until_us=20
//!   kill@scheduler:0,from_us=50        restart@scheduler:0,from_us=90   partition@scheduler:0
//!   restart@host:3,from_us=40
//!   block-loss:3.0e-4/7.5e-5/1.6e-5@border,block=10
//! ```
//!
//! `topology/links.rs` has the spelling of LINKS. The value of `block-loss` is the probabilities
//! that exactly 1, 2, ... packets of a block are lost.
//!
//! Parsing and printing are inverse to each other. Rates are probabilities a packet; times are
//! microseconds in text and picoseconds in the data. Whether a named link exists
//! is for a tree to decide, and what a fault does to a packet is the fabric's part.

use std::fmt;
use std::str::FromStr;

use fabric::{BLOCK_MAX, LOSSES_MAX, PortId};
use transport::{Duration, Instant};

use crate::input::number::{self, write_us};
use crate::input::{InputError, did_you_mean};
use crate::topology::{FatTree, LinkSelector, Ports, SelectorError};

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultSpec {
    /// The kind of the fault.
    pub kind: FaultKind,
    /// The links with the fault, in both directions unless a port's direction is named.
    pub links: LinkSelector,
    /// Start of the fault.
    pub from: Duration,
    /// Until this time, later than `from`; `None` for ever.
    pub until: Option<Duration>,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// Each packet is lost with this probability, 0..=1.
    Loss(f64),
    /// Packets are lost in runs.
    BurstLoss {
        /// Share of packets lost in the long run, 0..=1.
        rate: f64,
        /// Mean length of a run in packets, 1..=[`BURST_MAX`].
        burst: u32,
    },
    /// Packets of a block are lost together.
    BlockLoss {
        /// Packets of a block, 1..=[`BLOCK_MAX`].
        block: u32,
        /// Probability that exactly 1, 2, ... of a block are lost.
        losses: [f64; LOSSES_MAX],
    },
    /// Each packet is sent twice with this probability, 0..=1.
    Duplicate(f64),
    /// Some packets are held back, so that later ones overtake them.
    Reorder {
        /// Probability a packet, 0..=1.
        rate: f64,
        /// The longest time it is held back, above zero.
        delay: Duration,
    },
    /// Each packet has a byte changed with this probability, 0..=1.
    Corrupt(f64),
    /// The link carries nothing.
    Down,
    /// A switch loses its packets and its program's state, and its links carry nothing.
    Crash,
    /// The link keeps this share of its rate, above 0 and at most 1.
    Degrade(f64),
    /// A pod's scheduler ends, and begins anew where there is an end of the fault.
    Kill,
    /// A pod's scheduler begins anew, whether it was killed before or not; or a host does, and has
    /// forgotten all flows.
    Restart,
    /// All links of a pod's scheduler carry nothing, or one of them that is named.
    Partition,
}

/// The longest mean run of lost packets.
pub const BURST_MAX: u32 = 1_000_000;

/// The mean run of lost packets when none is given.
pub const BURST_DEFAULT: u32 = 8;

/// The packets of a block by default.
pub const BLOCK_DEFAULT: u32 = 10;

/// The words for kinds of faults.
pub const KINDS: [&str; 12] = [
    "loss",
    "burst-loss",
    "block-loss",
    "duplicate",
    "reorder",
    "corrupt",
    "down",
    "crash",
    "degrade",
    "kill",
    "restart",
    "partition",
];

/// The parts of a fault as text, from either spelling, before they are checked together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FaultParts<'a> {
    pub(super) kind: &'a str,
    pub(super) rate: Option<&'a str>,
    pub(super) factor: Option<&'a str>,
    pub(super) links: Option<&'a str>,
    pub(super) burst: Option<&'a str>,
    pub(super) block: Option<&'a str>,
    pub(super) delay_us: Option<&'a str>,
    pub(super) from_us: Option<&'a str>,
    pub(super) until_us: Option<&'a str>,
}

impl FaultParts<'_> {
    /// The fault, or the part that is wrong (by its key) and why.
    pub(super) fn build(&self) -> Result<FaultSpec, (&'static str, InputError)> {
        let kind = self.kind()?;
        let unused = [
            ("rate", self.rate, !kind.has_chance()),
            ("factor", self.factor, !matches!(kind, FaultKind::Degrade(_))),
            ("burst", self.burst, !matches!(kind, FaultKind::BurstLoss { .. })),
            ("block", self.block, !matches!(kind, FaultKind::BlockLoss { .. })),
            ("delay_us", self.delay_us, !matches!(kind, FaultKind::Reorder { .. })),
        ];
        if let Some((key, ..)) = unused.into_iter().find(|(_, part, no)| part.is_some() && *no) {
            let error = InputError::new(format!("`{key}` on `{}`", kind.name()), "no such key");
            return Err((key, error.help("this kind of fault does not use it; remove it")));
        }
        let links = self.links.unwrap_or("all").parse().map_err(|error| ("link", error))?;
        if let Some((expected, help)) = kind.misses(&links) {
            let found = format!("`{links}` of `{}`", kind.name());
            return Err(("link", InputError::new(found, expected).help(help)));
        }
        let from = self.from_us.map_or(Ok(Duration::ZERO), |text| time("from_us", text))?;
        let until = self.until_us.map(|text| time("until_us", text)).transpose()?;
        if let Some(until) = until.filter(|&until| until <= from) {
            let error = InputError::new(format!("an end at {until}"), format!("later than {from}"));
            return Err(("until_us", error));
        }
        if kind == FaultKind::Restart && until.is_some() {
            let error = InputError::new("`until_us` on `restart`", "the instant of it alone");
            return Err(("until_us", error.help("write from_us, and leave until_us out")));
        }
        Ok(FaultSpec { kind, links, from, until })
    }

    fn kind(&self) -> Result<FaultKind, (&'static str, InputError)> {
        let rate = || share("rate", self.rate, false);
        Ok(match self.kind {
            "loss" => FaultKind::Loss(rate()?),
            "burst-loss" => {
                let burst = packets("burst", self.burst, BURST_DEFAULT, BURST_MAX)?;
                FaultKind::BurstLoss { rate: rate()?, burst }
            }
            "block-loss" => {
                let block = packets("block", self.block, BLOCK_DEFAULT, BLOCK_MAX)?;
                FaultKind::BlockLoss { block, losses: losses(self.rate, block)? }
            }
            "duplicate" => FaultKind::Duplicate(rate()?),
            "reorder" => {
                let delay = time("delay_us", self.delay_us.unwrap_or(""))?;
                if delay == Duration::ZERO {
                    let error = InputError::new("a delay of 0", "a time above zero");
                    return Err(("delay_us", error));
                }
                FaultKind::Reorder { rate: rate()?, delay }
            }
            "corrupt" => FaultKind::Corrupt(rate()?),
            "down" => FaultKind::Down,
            "crash" => FaultKind::Crash,
            "kill" => FaultKind::Kill,
            "restart" => FaultKind::Restart,
            "partition" => FaultKind::Partition,
            "degrade" => FaultKind::Degrade(share("factor", self.factor, true)?),
            other => {
                let error = InputError::new(format!("fault `{other}`"), "a known kind of fault");
                return Err(("kind", error.help(did_you_mean(other, &KINDS))));
            }
        })
    }
}

/// A probability, or a share that must not be zero.
fn share(
    key: &'static str,
    text: Option<&str>,
    above_zero: bool,
) -> Result<f64, (&'static str, InputError)> {
    let expected = if above_zero { "a share above 0 and up to 1" } else { "a probability in 0..1" };
    let Some(text) = text else {
        return Err((key, InputError::new(format!("no `{key}`"), expected)));
    };
    number::real(text.as_bytes())
        .ok()
        .filter(|value| (0.0..=1.0).contains(value) && !(above_zero && *value == 0.0))
        .ok_or_else(|| (key, InputError::new(format!("{key} `{text}`"), expected)))
}

/// A number of packets, at most `max`.
fn packets(
    key: &'static str,
    text: Option<&str>,
    default: u32,
    max: u32,
) -> Result<u32, (&'static str, InputError)> {
    let Some(text) = text else { return Ok(default) };
    let value = number::integer(text.as_bytes()).ok().and_then(|value| u32::try_from(value).ok());
    value
        .filter(|value| (1..=max).contains(value))
        .ok_or_else(|| (key, InputError::new(format!("`{text}`"), format!("packets, 1..={max}"))))
}

/// A table of losses in a block: probabilities separated by strokes, 1 at most together.
fn losses(text: Option<&str>, block: u32) -> Result<[f64; LOSSES_MAX], (&'static str, InputError)> {
    let most = LOSSES_MAX.min(block as usize);
    let wrong = |found: String| {
        let expected = format!("probabilities P1/P2/..., {most} at most, 1 at most together");
        let help = "P1 is that exactly one packet of a block is lost, P2 that two are, ...";
        ("rate", InputError::new(found, expected).help(help))
    };
    let text = text.ok_or_else(|| wrong("no `rate`".to_owned()))?;
    let mut table = [0.0; LOSSES_MAX];
    let mut slots = table.iter_mut().take(most);
    for word in text.split('/') {
        let value = number::real(word.trim().as_bytes()).ok();
        let value = value.filter(|value| (0.0..=1.0).contains(value));
        let (slot, value) =
            slots.next().zip(value).ok_or_else(|| wrong(format!("rate `{text}`")))?;
        *slot = value;
    }
    if table.iter().sum::<f64>() > 1.0 {
        return Err(wrong(format!("rate `{text}`")));
    }
    Ok(table)
}

fn time(key: &'static str, text: &str) -> Result<Duration, (&'static str, InputError)> {
    let span = number::decimal(text.as_bytes(), 6).map(Duration::from_ps);
    span.map_err(|_| (key, InputError::new(format!("{key} `{text}`"), "a time in microseconds")))
}

impl FaultKind {
    /// The word for it, one of [`KINDS`].
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Loss(_) => "loss",
            Self::BurstLoss { .. } => "burst-loss",
            Self::BlockLoss { .. } => "block-loss",
            Self::Duplicate(_) => "duplicate",
            Self::Reorder { .. } => "reorder",
            Self::Corrupt(_) => "corrupt",
            Self::Down => "down",
            Self::Crash => "crash",
            Self::Degrade(_) => "degrade",
            Self::Kill => "kill",
            Self::Restart => "restart",
            Self::Partition => "partition",
        }
    }

    /// The most packets that it loses in a row, except for a chance of about one in 10^12 at each
    /// packet. Infinitely many where nothing passes its links, or the host or switch at their end
    /// is gone.
    pub(crate) fn losses_in_a_row(&self) -> f64 {
        let row = |p: f64| if p < 1.0 { libm::log(1e-12) / libm::log(p) } else { f64::INFINITY };
        match *self {
            Self::Down | Self::Crash | Self::Kill | Self::Restart | Self::Partition => {
                f64::INFINITY
            }
            Self::Loss(p) | Self::Corrupt(p) => row(p),
            Self::BurstLoss { rate, burst } => match burst_chances(rate, f64::from(burst.max(1))) {
                [0.0, _] => 0.0,
                [_, leave] => 1.0 + row(1.0 - leave),
            },
            Self::BlockLoss { block, losses } => {
                // The end of one block and the beginning of the next, and whole blocks between.
                let most = losses.iter().rposition(|p| *p > 0.0).map_or(0, |last| last + 1);
                let all = block.checked_sub(1).and_then(|last| losses.get(last as usize));
                #[expect(clippy::cast_precision_loss, reason = "at most 8")]
                let ends = 2.0 * most as f64;
                ends + f64::from(block) * row(all.copied().unwrap_or(0.0))
            }
            Self::Duplicate(_) | Self::Reorder { .. } | Self::Degrade(_) => 0.0,
        }
    }

    /// Whether faults of this kind have a `rate`: probabilities for each packet.
    const fn has_chance(&self) -> bool {
        let has_none = matches!(self, Self::Down | Self::Crash | Self::Degrade(_));
        !has_none && !matches!(self, Self::Kill | Self::Restart | Self::Partition)
    }

    /// What the fault has to name instead of `links`, and how to write that; `None` where it may
    /// name them.
    fn misses(&self, links: &LinkSelector) -> Option<(&'static str, String)> {
        let name = self.name();
        match (self, links) {
            (Self::Crash, LinkSelector::Switch { ports: Ports::All, .. })
            | (Self::Kill | Self::Restart, LinkSelector::Scheduler { link: None, .. })
            | (Self::Restart, LinkSelector::Host(_))
            | (Self::Partition, LinkSelector::Scheduler { .. }) => None,
            (Self::Crash, _) => {
                Some(("one switch", format!("name the switch that crashes, like {name}@border:0")))
            }
            (Self::Restart, _) => {
                let help =
                    format!("write {name}@scheduler:POD, {name}@backup:POD or {name}@host:N");
                Some(("the scheduler of a pod, or a host", help))
            }
            (Self::Kill | Self::Partition, _) => {
                let help = format!("write {name}@scheduler:POD or {name}@backup:POD");
                Some(("the scheduler of a pod", help))
            }
            _ => None,
        }
    }

    /// Whether the fault is of the host or switch at the end of a link, and not of links.
    #[must_use]
    pub const fn is_of_end(&self) -> bool {
        matches!(self, Self::Kill | Self::Restart)
    }
}

impl FaultSpec {
    /// The host that begins anew, where the fault is that.
    #[must_use]
    pub const fn host_restart(&self) -> Option<u32> {
        match (self.kind, self.links) {
            (FaultKind::Restart, LinkSelector::Host(host)) => Some(host),
            _ => None,
        }
    }

    /// The fault as the fabric has it, and the ports of `tree` that it is for.
    ///
    /// # Errors
    /// When it names a link that is not there.
    pub fn on(&self, tree: &FatTree) -> Result<(Vec<PortId>, fabric::FaultSpec), SelectorError> {
        let spec = fabric::FaultSpec {
            from: Instant::ZERO + self.from,
            until: self.until.map_or(Instant::FAR_FUTURE, |until| Instant::ZERO + until),
            kind: kind_of_fabric(self.kind),
        };
        Ok((tree.select(&self.links)?, spec))
    }
}

fn kind_of_fabric(kind: FaultKind) -> fabric::FaultKind {
    match kind {
        FaultKind::Loss(p) => fabric::FaultKind::Loss { p },
        FaultKind::BurstLoss { rate, burst } => {
            let [enter, leave] = burst_chances(rate, f64::from(burst.max(1)));
            fabric::FaultKind::BurstLoss { enter, leave, loss: 1.0 }
        }
        FaultKind::BlockLoss { block, losses } => fabric::FaultKind::BlockLoss { block, losses },
        FaultKind::Duplicate(p) => fabric::FaultKind::Duplicate { p },
        FaultKind::Reorder { rate, delay } => {
            fabric::FaultKind::Reorder { p: rate, extra_max: delay }
        }
        FaultKind::Corrupt(p) => fabric::FaultKind::Corrupt { p },
        FaultKind::Down | FaultKind::Kill | FaultKind::Restart | FaultKind::Partition => {
            fabric::FaultKind::Down
        }
        FaultKind::Crash => fabric::FaultKind::Crash,
        FaultKind::Degrade(share) => fabric::FaultKind::Degrade { share },
    }
}

/// The probabilities of entering and leaving the lossy state. A share `rate` of packets is lost, in
/// runs of `burst` on average: enter / (enter + leave) = rate and 1 / leave = burst. Where both
/// cannot hold (high rates of short runs), the rate holds and the runs are longer.
fn burst_chances(rate: f64, burst: f64) -> [f64; 2] {
    if rate >= 1.0 {
        return [1.0, 0.0];
    }
    let leave = 1.0 / burst;
    let enter = leave * rate / (1.0 - rate);
    if enter <= 1.0 { [enter, leave] } else { [1.0, ((1.0 - rate) / rate).min(1.0)] }
}

impl FromStr for FaultSpec {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        let mut words = text.split(',').map(str::trim);
        let head = words.next().unwrap_or_default();
        let (kind, links) = match head.split_once('@') {
            None => (head, None),
            Some((kind, links)) => (kind, Some(links)),
        };
        let (kind, value) = match kind.split_once(':') {
            None => (kind, None),
            Some((kind, value)) => (kind, Some(value)),
        };
        let mut parts = FaultParts { kind, links, ..FaultParts::default() };
        *if kind == "degrade" { &mut parts.factor } else { &mut parts.rate } = value;
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let slot = match key {
                "burst" => &mut parts.burst,
                "block" => &mut parts.block,
                "delay_us" => &mut parts.delay_us,
                "from_us" => &mut parts.from_us,
                "until_us" => &mut parts.until_us,
                other => {
                    let known = ["burst", "block", "delay_us", "from_us", "until_us"];
                    return Err(InputError::new(
                        format!("`{other}`"),
                        "a key of a fault, KEY=VALUE",
                    )
                    .help(did_you_mean(other, &known)));
                }
            };
            if slot.replace(value).is_some() {
                return Err(InputError::new(format!("a second `{key}`"), "each key once"));
            }
        }
        parts.build().map_err(|(_, error)| {
            let help = "a fault is KIND[:VALUE][@LINKS][,KEY=VALUE], like loss:0.01@all";
            if error.help.is_empty() { error.help(help) } else { error }
        })
    }
}

impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        match self.kind {
            FaultKind::Loss(value)
            | FaultKind::BurstLoss { rate: value, .. }
            | FaultKind::Duplicate(value)
            | FaultKind::Reorder { rate: value, .. }
            | FaultKind::Corrupt(value)
            | FaultKind::Degrade(value) => write!(f, ":{value}")?,
            FaultKind::BlockLoss { losses, .. } => {
                let most = losses.iter().rposition(|p| *p != 0.0).unwrap_or(0);
                for (at, p) in losses[..=most].iter().enumerate() {
                    write!(f, "{}{p}", if at == 0 { ':' } else { '/' })?;
                }
            }
            FaultKind::Down
            | FaultKind::Crash
            | FaultKind::Kill
            | FaultKind::Restart
            | FaultKind::Partition => {}
        }
        write!(f, "@{}", self.links)?;
        match self.kind {
            FaultKind::BurstLoss { burst, .. } => write!(f, ",burst={burst}")?,
            FaultKind::BlockLoss { block, .. } => write!(f, ",block={block}")?,
            _ => {}
        }
        let delay = match self.kind {
            FaultKind::Reorder { delay, .. } => Some(delay),
            _ => None,
        };
        let from = Some(self.from).filter(|&from| from > Duration::ZERO);
        for (key, time) in [("delay_us", delay), ("from_us", from), ("until_us", self.until)] {
            if let Some(time) = time {
                write!(f, ",{key}=")?;
                write_us(f, time)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
