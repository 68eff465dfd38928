//! Names of links, for faults: `host:3`, `tor:0:up:2`, `agg:1:down:0`, `core:5`, `all`, `hosts`,
//! `fabric`.
//!
//! A link is named from either end and means both directions. A switch without a port means all its
//! links. Switches count from 0 through the whole tier, ports from 0 among the up or down ports of
//! their switch.

use core::fmt;

use super::fat_tree::FatTree;
use crate::fabric::PortId;

/// Why a name names no link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectorError {
    /// It is not of any known form.
    Form,
    /// A number in it is not below what there is.
    Range {
        /// What it counts.
        what: &'static str,
        /// The number.
        given: u32,
        /// How many there are.
        count: u32,
    },
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => write!(
                f,
                "link: expected all, hosts, fabric, host:H, or tor|agg|core:S, which may go on \
                 with :up:P or :down:P"
            ),
            Self::Range { what, given, count: 0 } => {
                write!(f, "link: {what} {given} does not exist; this topology has none")
            }
            Self::Range { what, given, count } => {
                write!(f, "link: {what} {given} does not exist; they go from 0 to {}", count - 1)
            }
        }
    }
}

impl std::error::Error for SelectorError {}

/// One tier of switches: how many, ports down and up of each.
struct Tier {
    what: &'static str,
    switches: u32,
    downs: u32,
    ups: u32,
}

impl FatTree {
    /// The ports, both directions, of the links that `name` means; ascending, each once.
    ///
    /// # Errors
    /// When the name is of no known form or names something that is not there.
    pub fn select(&self, name: &str) -> Result<Vec<PortId>, SelectorError> {
        let mut ports = match name {
            "hosts" => (0..self.spec().hosts).flat_map(|host| self.host_link(host)).collect(),
            "fabric" => self.fabric_ports(),
            "all" => {
                let hosts = (0..self.spec().hosts).flat_map(|host| self.host_link(host));
                hosts.chain(self.fabric_ports()).collect()
            }
            _ => self.select_some(name)?,
        };
        ports.sort_unstable();
        ports.dedup();
        Ok(ports.into_iter().map(PortId).collect())
    }

    fn select_some(&self, name: &str) -> Result<Vec<u32>, SelectorError> {
        let parts: Vec<&str> = name.split(':').collect();
        let number = |text: &str| text.parse::<u32>().map_err(|_| SelectorError::Form);
        let (level, at) = match parts.as_slice() {
            ["host", host, ..] => {
                let host = number(host)?;
                below("host", host, self.spec().hosts)?;
                return if parts.len() == 2 {
                    Ok(self.host_link(host).into())
                } else {
                    Err(SelectorError::Form)
                };
            }
            ["tor", at, ..] => (0, number(at)?),
            ["agg", at, ..] => (1, number(at)?),
            ["core", at, ..] => (2, number(at)?),
            _ => return Err(SelectorError::Form),
        };
        let tier = self.tier(level);
        below(tier.what, at, tier.switches)?;
        let own: Vec<u32> = match &parts[2..] {
            [] => (0..tier.downs + tier.ups).collect(),
            ["down", port] => {
                let port = number(port)?;
                below("down port", port, tier.downs)?;
                vec![port]
            }
            ["up", port] => {
                let port = number(port)?;
                below("up port", port, tier.ups)?;
                vec![tier.downs + port]
            }
            _ => return Err(SelectorError::Form),
        };
        Ok(own.into_iter().flat_map(|i| self.link_at(level, at, i)).collect())
    }

    fn tier(&self, level: usize) -> Tier {
        let spec = &self.spec().tiers;
        match level {
            0 => Tier {
                what: "ToR",
                switches: self.tors,
                downs: spec[0].radix_down,
                ups: spec[0].radix_up,
            },
            1 => Tier {
                what: "aggregation switch",
                switches: self.aggs,
                downs: spec[1].radix_down,
                ups: self.agg_ups(),
            },
            _ => Tier { what: "core", switches: self.cores, downs: self.core_downs(), ups: 0 },
        }
    }

    /// Both directions of the link of a host.
    fn host_link(&self, host: u32) -> [u32; 2] {
        let downs = self.spec().tiers[0].radix_down;
        [host, self.tor_port(host / downs, host % downs)]
    }

    /// Every port between switches.
    fn fabric_ports(&self) -> Vec<u32> {
        let tors = (0..self.tors).flat_map(|tor| {
            let tier = self.tier(0);
            (tier.downs..tier.downs + tier.ups).flat_map(move |i| self.link_at(0, tor, i))
        });
        let aggs = (0..self.aggs).flat_map(|agg| {
            let tier = self.tier(1);
            (tier.downs..tier.downs + tier.ups).flat_map(move |i| self.link_at(1, agg, i))
        });
        tors.chain(aggs).collect()
    }

    /// Both directions of the link at port `i` (down ports first) of a switch.
    fn link_at(&self, level: usize, at: u32, i: u32) -> [u32; 2] {
        let tiers = &self.spec().tiers;
        let downs = self.tier(level).downs;
        match (level, i.checked_sub(downs)) {
            (0, None) => self.host_link(at * downs + i),
            (0, Some(up)) => {
                let (agg, down) = self.above_tor(at, up);
                [self.tor_port(at, i), self.agg_port(agg, down)]
            }
            (1, None) => {
                // The reverse of `above_tor`.
                let bundle = tiers[1].bundle;
                let tor = at / self.aggs_per_pod * self.tors_per_pod + i / bundle;
                let up = at % self.aggs_per_pod * bundle + i % bundle;
                [self.agg_port(at, i), self.tor_port(tor, tiers[0].radix_down + up)]
            }
            (1, Some(up)) => {
                let (core, down) = self.above_agg(at, up);
                [self.agg_port(at, i), self.core_port(core, down)]
            }
            _ => {
                // The reverse of `above_agg`.
                let bundle = tiers[2].bundle;
                let cores_per_group = self.agg_ups() / bundle;
                let agg = i / bundle * self.aggs_per_pod + at / cores_per_group;
                let up = at % cores_per_group * bundle + i % bundle;
                [self.core_port(at, i), self.agg_port(agg, tiers[1].radix_down + up)]
            }
        }
    }
}

fn below(what: &'static str, given: u32, count: u32) -> Result<(), SelectorError> {
    if given < count { Ok(()) } else { Err(SelectorError::Range { what, given, count }) }
}
