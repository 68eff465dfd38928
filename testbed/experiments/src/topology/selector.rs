//! From the links that text names to ports of a tree.
//!
//! A link has two directions, a port each. `all`, `hosts`, `fabric`, `border`, `wan`, a host and a
//! whole switch mean both directions of their links; `tor:0:up` or `tor:0:up:2` means only the
//! ports that go that way.

use core::ops::Range;

use fabric::PortId;

use super::fat_tree::FatTree;
use super::links::{LinkSelector, Ports, SelectorError};
use super::programs::Switches;
use crate::workload::matrix::SwitchTier;

/// The switches of one tier: how many, and the ports down and up of each.
#[derive(Clone, Copy)]
struct Tier {
    level: u8,
    switches: u32,
    downs: u32,
    ups: u32,
}

impl Tier {
    /// The tier as `switch` of it sees it: switches of one tier may differ in their ports up.
    fn of(self, tree: &FatTree, switch: u32) -> Self {
        Self { ups: tree.ups_of(self.level, switch), ..self }
    }
}

impl FatTree {
    /// The ports that `links` means; ascending, each once.
    ///
    /// # Errors
    /// When a number in it is not below what this tree has.
    pub fn select(&self, links: &LinkSelector) -> Result<Vec<PortId>, SelectorError> {
        let hosts = || (0..self.spec().nodes).flat_map(|host| self.host_link(host));
        let (tiers, levels) = (self.spec().tiers, self.spec().levels());
        let fabric = || (0..levels).flat_map(|level| self.links_up(level));
        let mut ports: Vec<u32> = match *links {
            LinkSelector::All => hosts().chain(fabric()).collect(),
            LinkSelector::Hosts => hosts().collect(),
            LinkSelector::Fabric => fabric().collect(),
            LinkSelector::Border | LinkSelector::Wan => {
                below("border switch", 0, self.spec().switches(tiers))?;
                let first = if *links == LinkSelector::Wan { tiers } else { tiers - 1 };
                (first..levels).flat_map(|level| self.links_up(level)).collect()
            }
            LinkSelector::Host(host) => {
                below("host", host, self.spec().nodes)?;
                self.host_link(host).into()
            }
            LinkSelector::Scheduler { pod, backup, link } => {
                self.scheduler_at(pod, backup)?;
                let ports = self.scheduler_ports(pod, backup);
                match link {
                    None => ports,
                    Some(link) => {
                        let links = self.scheduler_links();
                        below("link of that scheduler", link, links)?;
                        [link, link + links].map(|at| ports[at as usize]).into()
                    }
                }
            }
            LinkSelector::Switch { tier, switch, ports } => {
                self.switch_ports(&self.tier(tier), tier, switch, ports)?
            }
        };
        ports.sort_unstable();
        ports.dedup();
        Ok(ports.into_iter().map(PortId).collect())
    }

    /// The switch of the scheduler of a pod, or of its backup.
    ///
    /// # Errors
    /// When there is no such pod, or its scheduler has no backup.
    pub fn scheduler_at(&self, pod: u32, backup: bool) -> Result<u32, SelectorError> {
        let what = if backup { "backup" } else { "scheduler" };
        let is_there = self.spec().schedulers > u32::from(backup);
        below(what, pod, if is_there { self.spec().pods() } else { 0 })?;
        let found = if backup { self.backup_of(pod) } else { self.scheduler_of(pod) };
        found.ok_or(SelectorError { what, given: pod, count: 0 })
    }

    /// Both directions of the link at port `link` of a switch, counted among its ports up, or down
    /// in the top tier.
    ///
    /// # Errors
    /// When there is no such switch or link.
    pub fn link(
        &self,
        tier: SwitchTier,
        switch: u32,
        link: u32,
    ) -> Result<[PortId; 2], SelectorError> {
        let at = self.tier(tier).of(self, switch);
        let (first, ports) = match at.ups {
            0 => (0, Ports::DownPort(link)),
            _ => (at.downs, Ports::UpPort(link)),
        };
        self.switch_ports(&at, tier, switch, ports)?;
        Ok(self.link_at(at, switch, first + link).map(PortId))
    }

    /// The switches that `switches` means, as the fabric numbers them, ascending.
    ///
    /// # Errors
    /// When this tree has no such switch.
    pub fn switches(&self, switches: &Switches) -> Result<Range<u32>, SelectorError> {
        let tier_of = |tier| {
            let at = self.tier(tier);
            let first = self.first_switch(at.level);
            (first, at.switches)
        };
        match *switches {
            Switches::All => {
                let last = self.spec().levels().saturating_sub(1);
                Ok(0..self.first_switch(last) + self.spec().switches(last))
            }
            Switches::Tier(tier) => {
                let (first, count) = tier_of(tier);
                below(name_of(tier), 0, count)?;
                Ok(first..first + count)
            }
            Switches::One(tier, switch) => {
                let (first, count) = tier_of(tier);
                below(name_of(tier), switch, count)?;
                Ok(first + switch..first + switch + 1)
            }
        }
    }

    fn switch_ports(
        &self,
        at: &Tier,
        tier: SwitchTier,
        switch: u32,
        ports: Ports,
    ) -> Result<Vec<u32>, SelectorError> {
        below(name_of(tier), switch, at.switches)?;
        let at = &at.of(self, switch);
        let own = |i| self.link_at(*at, switch, i)[0];
        Ok(match ports {
            Ports::All => {
                (0..at.downs + at.ups).flat_map(|i| self.link_at(*at, switch, i)).collect()
            }
            Ports::Down => (0..at.downs).map(own).collect(),
            Ports::Up => (at.downs..at.downs + at.ups).map(own).collect(),
            Ports::DownPort(port) => {
                below("port down", port, at.downs)?;
                vec![own(port)]
            }
            Ports::UpPort(port) => {
                below("port up", port, at.ups)?;
                vec![own(at.downs + port)]
            }
        })
    }

    /// The narrowest name of the link that `port` transmits on. O(switches).
    #[must_use]
    pub fn selector_of(&self, port: PortId) -> Option<LinkSelector> {
        let PortId(port) = port;
        if port < self.spec().nodes {
            return Some(LinkSelector::Host(port));
        }
        let of_tier = |(tier, level): (SwitchTier, Tier)| {
            (0..level.switches).find_map(|switch| {
                let at = level.of(self, switch);
                let i = port.checked_sub(self.port(level.level, switch, 0))?;
                let ports = match i.checked_sub(at.downs) {
                    None => Ports::DownPort(i),
                    Some(up) if up < at.ups => Ports::UpPort(up),
                    Some(_) => return None,
                };
                Some(LinkSelector::Switch { tier, switch, ports })
            })
        };
        self.named_tiers().find_map(of_tier).or_else(|| self.scheduler_link_of(port))
    }

    /// The name of the link of a scheduler that `port` transmits on.
    fn scheduler_link_of(&self, port: u32) -> Option<LinkSelector> {
        (0..self.scheduler_count()).find_map(|number| {
            let (pods, links) = (self.spec().pods(), self.scheduler_links());
            let (pod, backup) = (number % pods, number >= pods);
            let ports = self.scheduler_ports(pod, backup);
            let at = ports.iter().position(|other| *other == port)?;
            let link = Some(u32::try_from(at).ok()? % links);
            Some(LinkSelector::Scheduler { pod, backup, link })
        })
    }

    /// The name of a switch by its number in the fabric.
    #[must_use]
    pub fn switch_name(&self, switch: u32) -> String {
        let of_tier = |(tier, level): (SwitchTier, Tier)| {
            let number = switch.checked_sub(self.first_switch(level.level))?;
            (number < level.switches).then(|| format!("{} {number}", tier.word()))
        };
        self.named_tiers().find_map(of_tier).unwrap_or_else(|| format!("switch {switch}"))
    }

    /// The tiers of this tree, each with its switches as the fabric numbers them.
    pub fn tiers(&self) -> impl Iterator<Item = (SwitchTier, Range<u32>)> + '_ {
        self.named_tiers().map(|(tier, level)| {
            let first = self.first_switch(level.level);
            (tier, first..first + level.switches)
        })
    }

    /// The tiers that this tree has.
    fn named_tiers(&self) -> impl Iterator<Item = (SwitchTier, Tier)> + '_ {
        use SwitchTier::{Agg, Border, Core, Tor};
        let levels = self.spec().levels();
        let named = move |tier| (tier, self.tier(tier));
        [Tor, Agg, Core, Border]
            .map(named)
            .into_iter()
            .filter(move |(_, tier)| tier.level < levels && tier.switches > 0)
    }

    fn tier(&self, tier: SwitchTier) -> Tier {
        let spec = self.spec();
        match tier {
            SwitchTier::Tor => self.level(0),
            SwitchTier::Agg => self.level(1),
            SwitchTier::Core if spec.tiers == 3 => self.level(2),
            SwitchTier::Core => Tier { level: 2, switches: 0, downs: 0, ups: 0 },
            SwitchTier::Border => self.level(spec.tiers),
        }
    }

    fn level(&self, level: u8) -> Tier {
        let switches = self.spec().switches(level);
        Tier { level, switches, downs: self.downs(level), ups: self.ups_of(level, 0) }
    }

    /// Both directions of the link of a host.
    fn host_link(&self, host: u32) -> [u32; 2] {
        let downs = self.spec().tier[0].radix_down;
        [host, self.port(0, host / downs, host % downs)]
    }

    /// Both directions of all links up from the switches of a tier.
    fn links_up(&self, level: u8) -> impl Iterator<Item = u32> + '_ {
        let at = self.level(level);
        (0..at.switches).flat_map(move |switch| {
            let at = at.of(self, switch);
            (at.downs..at.downs + at.ups).flat_map(move |i| self.link_at(at, switch, i))
        })
    }

    /// The port `i` (down ports first) of a switch and the other direction of its link.
    fn link_at(&self, at: Tier, switch: u32, i: u32) -> [u32; 2] {
        let own = self.port(at.level, switch, i);
        let other = match i.checked_sub(at.downs) {
            None if at.level == 0 => self.host_link(switch * at.downs + i)[0],
            None => {
                let (below, up) = self.below(at.level, switch, i);
                self.port(at.level - 1, below, self.downs(at.level - 1) + up)
            }
            Some(_) if at.level == self.spec().tiers => {
                let (other, up) = self.across(switch, i - at.downs);
                self.port(at.level, other, at.downs + up)
            }
            Some(up) => {
                let (above, down) = self.above(at.level, switch, up);
                self.port(at.level + 1, above, down)
            }
        };
        [own, other]
    }
}

const fn name_of(tier: SwitchTier) -> &'static str {
    match tier {
        SwitchTier::Tor => "ToR switch",
        SwitchTier::Agg => "aggregation switch",
        SwitchTier::Core => "core switch",
        SwitchTier::Border => "border switch",
    }
}

fn below(what: &'static str, given: u32, count: u32) -> Result<(), SelectorError> {
    if given < count { Ok(()) } else { Err(SelectorError { what, given, count }) }
}
