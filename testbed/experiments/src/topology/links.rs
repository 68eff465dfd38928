//! Links as text names them: a whole network's, a host's, or those of a switch.
//!
//! ```text
//! LINKS: all | hosts | fabric | border | wan | host:N
//!        | TIER:N | TIER:N:up | TIER:N:down | TIER:N:up:PORT | TIER:N:down:PORT
//!        with TIER tor, agg, core or border
//!        | scheduler:POD[:LINK] | backup:POD[:LINK]
//! ```
//!
//! `wan` is the links between sites, `border` these and those that lead to them. Parsing and
//! printing are inverse to each other. Whether a named link exists is for a tree to decide
//! (`FatTree::select`).

use std::fmt;
use std::str::FromStr;

use crate::input::InputError;
use crate::input::number;
use crate::workload::matrix::SwitchTier;

/// A link that does not exist: the number is not below the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectorError {
    /// The kind of thing that the number counts.
    pub what: &'static str,
    /// The number.
    pub given: u32,
    /// How many there are.
    pub count: u32,
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, given, count } = self;
        match count {
            0 => write!(f, "{what} {given} does not exist: this network has none there"),
            1 => write!(f, "{what} {given} does not exist: the only one is 0"),
            _ => write!(f, "{what} {given} does not exist: they go from 0 to {}", count - 1),
        }
    }
}

impl std::error::Error for SelectorError {}

/// A set of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkSelector {
    /// Every link.
    All,
    /// The links between hosts and ToR switches.
    Hosts,
    /// The links between switches.
    Fabric,
    /// The links of border switches.
    Border,
    /// The links between sites.
    Wan,
    /// The link of this host.
    Host(u32),
    /// The links of the scheduler of a pod, or of its backup.
    Scheduler {
        /// The pod.
        pod: u32,
        /// The second scheduler of that pod.
        backup: bool,
        /// One of its links by its number, those to ToR switches first; `None` for all.
        link: Option<u32>,
    },
    /// Links of one switch.
    Switch {
        /// The switch's tier.
        tier: SwitchTier,
        /// Number of the switch in its tier, from 0 across the network.
        switch: u32,
        /// The ports of the switch.
        ports: Ports,
    },
}

/// Ports of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ports {
    /// All links, up and down.
    All,
    /// All links that go up.
    Up,
    /// All links that go down.
    Down,
    /// The link up of this number, from 0.
    UpPort(u32),
    /// The link down of this number, from 0.
    DownPort(u32),
}

impl FromStr for LinkSelector {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        let index = |word: &str| {
            let value = number::integer(word.as_bytes()).ok();
            value.and_then(|value| u32::try_from(value).ok())
        };
        let words: Vec<&str> = text.trim().splitn(5, ':').collect();
        let selector = match words[..] {
            ["all"] => Some(Self::All),
            ["hosts"] => Some(Self::Hosts),
            ["fabric"] => Some(Self::Fabric),
            ["border"] => Some(Self::Border),
            ["wan"] => Some(Self::Wan),
            ["host", host] => index(host).map(Self::Host),
            [end @ ("scheduler" | "backup"), pod, ref rest @ ..] => {
                let link = match rest {
                    [] => Some(None),
                    [link] => index(link).map(Some),
                    _ => None,
                };
                let backup = end == "backup";
                index(pod).zip(link).map(|(pod, link)| Self::Scheduler { pod, backup, link })
            }
            [tier, switch, ref rest @ ..] => {
                let ports = match rest {
                    [] => Some(Ports::All),
                    ["up"] => Some(Ports::Up),
                    ["down"] => Some(Ports::Down),
                    ["up", port] => index(port).map(Ports::UpPort),
                    ["down", port] => index(port).map(Ports::DownPort),
                    _ => None,
                };
                let tier = match tier {
                    "tor" => Some(SwitchTier::Tor),
                    "agg" => Some(SwitchTier::Agg),
                    "core" => Some(SwitchTier::Core),
                    "border" => Some(SwitchTier::Border),
                    _ => None,
                };
                tier.zip(index(switch)).zip(ports).map(|((tier, switch), ports)| Self::Switch {
                    tier,
                    switch,
                    ports,
                })
            }
            _ => None,
        };
        selector.ok_or_else(|| {
            let shown: String = text.chars().take(40).collect();
            InputError::new(format!("links `{shown}`"), "links of the network").help(
                "write all, hosts, fabric, border, wan, host:N, scheduler:POD[:LINK], \
                 backup:POD[:LINK], or TIER:N[:up|down[:PORT]] with TIER tor, agg, core or border",
            )
        })
    }
}

impl fmt::Display for LinkSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Hosts => f.write_str("hosts"),
            Self::Fabric => f.write_str("fabric"),
            Self::Border => f.write_str("border"),
            Self::Wan => f.write_str("wan"),
            Self::Host(host) => write!(f, "host:{host}"),
            Self::Scheduler { pod, backup, link } => {
                write!(f, "{}:{pod}", if *backup { "backup" } else { "scheduler" })?;
                link.map_or(Ok(()), |link| write!(f, ":{link}"))
            }
            Self::Switch { tier, switch, ports } => {
                write!(f, "{}:{switch}", tier.word())?;
                match ports {
                    Ports::All => Ok(()),
                    Ports::Up => f.write_str(":up"),
                    Ports::Down => f.write_str(":down"),
                    Ports::UpPort(port) => write!(f, ":up:{port}"),
                    Ports::DownPort(port) => write!(f, ":down:{port}"),
                }
            }
        }
    }
}
