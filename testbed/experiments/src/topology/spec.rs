//! A fat tree of two or three tiers in numbers, or two of them joined, and the counts and delays
//! that follow from them.
//!
//! ```text
//!   border =========================== border of the other site, if there is one
//!      |                                     one a site or more; every top switch has links to
//!      |                                     each, and each has links to each of the other site
//!   core        group 0 | group 1 | ...      tier 2, only with 3 tiers; group a holds the cores
//!                  |                         that aggregation switch a of every pod connects to
//!   pod:  agg 0   agg 1   ...                tier 1
//!            \     /
//!         ToR 0   ToR 1   ...                tier 0
//!           |       |
//!         hosts   hosts                      `radix_down` of tier 0 each
//! ```
//!
//! Source: `.topo` files of uet-htsim; two datacentres as \[uno\] sec. 5.1 joins them. A leaf-spine
//! network is a tree of two tiers with one pod. Hosts have one link. Speeds are in Gb/s, latencies
//! in nanoseconds, as the file has them.

mod speeds;
mod wan;

use std::fmt;

use transport::{Bytes, Duration, HostId, Rate};

pub use wan::{BORDERS_MAX, WanSpec};

/// A fat tree. [`FatTreeSpec::check`] checks that its numbers fit together; readers only return
/// checked ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FatTreeSpec {
    /// Number of hosts, `2..=NODES_MAX`; those of the first site come first.
    pub nodes: u32,
    /// Tiers of a site, 2 or 3.
    pub tiers: u8,
    /// Hosts in a pod; all of a site with two tiers.
    pub podsize: u32,
    /// Switches by tier, from the ToR up. Where there is a `wan`, the entry above the `tiers` of a
    /// site is its border switch, whose links up lead to the other site. The other entries are all
    /// zeros.
    pub tier: [TierSpec; TIERS_MAX],
    /// The links that join two sites, each a tree of its own and both alike; `None` for one site.
    pub wan: Option<WanSpec>,
    /// Schedulers of each pod, 0 to 2, the second one a backup. They are switches without hosts
    /// that have a link to every ToR and every aggregation switch of their pod, like the links
    /// below aggregation switches.
    pub schedulers: u32,
    /// Core switches that are dealt out in turn: Core c has one link to aggregation switch c modulo
    /// m of each pod, which has m of them. Any number is then possible; the first aggregation
    /// switches have `radix_up` links up, and the last ones may have one less. `None` where each
    /// aggregation switch has a group of Cores of its own, all of them alike.
    pub dealt_cores: Option<u32>,
    /// Faults that its links have from the start, as `--set fault=` takes them. A `.topo` file
    /// holds none.
    pub faults: &'static [&'static str],
}

/// The tiers of a site and its border switch.
pub const TIERS_MAX: usize = 4;

/// The switches of one tier and the links below them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierSpec {
    /// Speed of a link below this tier, both ways, Mbit/s, `1..=GBPS_MAX * 1000`. Devices of real
    /// networks have 2.5 Gbit/s, too.
    pub downlink_mbps: u32,
    /// Ports down.
    pub radix_down: u32,
    /// Ports up; 0 in the top tier.
    pub radix_up: u32,
    /// Buffer of a port down; `None` for the run's default.
    pub queue_down: Option<Bytes>,
    /// Buffer of a port up; `None` for the run's default, and in the top tier.
    pub queue_up: Option<Bytes>,
    /// Bandwidth down over bandwidth up, cut to an integer, at least 1.
    pub oversubscribed: u32,
    /// Parallel links between the same two switches, at least 1; exactly 1 in tier 0.
    pub bundle: u32,
    /// Traversal of a switch of this tier, `0..=LATENCY_NS_MAX`.
    pub switch_latency_ns: u32,
    /// Propagation of a link below this tier, `0..=LATENCY_NS_MAX`.
    pub downlink_latency_ns: u32,
}

/// The most hosts.
pub const NODES_MAX: u32 = 1 << 24;
/// The fastest link: 1 Pb/s.
pub const GBPS_MAX: u32 = 1_000_000;
/// The longest latency of one element: 1 s.
pub const LATENCY_NS_MAX: u32 = 1_000_000_000;
/// The most ports of a switch in one direction.
pub const RADIX_MAX: u32 = 1 << 16;
/// The most links between switches; beyond it a file is a mistake and not a network.
pub const LINKS_MAX: u64 = 1 << 22;

/// Numbers of a tree that contradict each other. `key` is the word of the file to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The tier whose section is wrong; `None` for the header.
    pub tier: Option<u8>,
    /// The word that is wrong, as the file spells it.
    pub key: &'static str,
    /// The value that was found.
    pub found: u64,
    /// The rule that the value breaks.
    pub rule: NumberRule,
}

/// A rule for a number of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberRule {
    /// Within these bounds.
    Range(u64, u64),
    /// A multiple of the number of this name.
    MultipleOf(&'static str, u64),
    /// Exactly this, because of the numbers named.
    Exactly(u64, &'static str),
}

impl FatTreeSpec {
    /// Whether the numbers fit together.
    ///
    /// # Errors
    /// The first contradiction, from the header upwards.
    pub fn check(&self) -> Result<(), SpecError> {
        let header = |key, found, rule| Err(SpecError { tier: None, key, found, rule });
        if !(2..=NODES_MAX).contains(&self.nodes) {
            let rule = NumberRule::Range(2, u64::from(NODES_MAX));
            return header("Nodes", u64::from(self.nodes), rule);
        }
        if !(2..=3).contains(&self.tiers) {
            return header("Tiers", u64::from(self.tiers), NumberRule::Range(2, 3));
        }
        if !self.nodes.is_multiple_of(self.sites()) {
            let rule = NumberRule::MultipleOf("Sites", u64::from(self.sites()));
            return header("Nodes", u64::from(self.nodes), rule);
        }
        let (nodes, podsize) = (u64::from(self.site_hosts()), u64::from(self.podsize));
        if podsize == 0 || podsize > nodes {
            return header("Podsize", podsize, NumberRule::Range(1, nodes));
        }
        if self.tiers == 2 && podsize != nodes {
            let rule = NumberRule::Exactly(nodes, "the hosts of a site, with two tiers");
            return header("Podsize", podsize, rule);
        }
        if !nodes.is_multiple_of(podsize) {
            let sites = u64::from(self.sites());
            return header(
                "Nodes",
                nodes * sites,
                NumberRule::MultipleOf("Podsize", podsize * sites),
            );
        }
        for tier in 0..self.levels() {
            self.check_tier(tier)?;
        }
        self.check_wan()?;
        self.check_cores()?;
        self.check_wiring()
    }

    /// Core switches that are dealt out have an aggregation switch each, and the last port up of
    /// the first one is used.
    fn check_cores(&self) -> Result<(), SpecError> {
        let Some(cores) = self.dealt_cores else { return Ok(()) };
        let header = |found: u64, rule| Err(SpecError { tier: None, key: "Cores", found, rule });
        if self.tiers != 3 || self.wan.is_some() {
            let why = "Cores are those of one site with three tiers";
            return header(cores.into(), NumberRule::Exactly(0, why));
        }
        let aggs = u64::from(self.aggs_per_pod());
        let most = aggs * u64::from(self.tier[1].radix_up);
        let least = (most - most.min(aggs)) + 1;
        if !(least..=most).contains(&cores.into()) {
            return header(cores.into(), NumberRule::Range(least, most));
        }
        let bundle = self.tier[2].bundle;
        if bundle != 1 {
            let (key, rule) = ("Bundle", NumberRule::Exactly(1, "with Cores"));
            return Err(SpecError { tier: Some(2), key, found: bundle.into(), rule });
        }
        Ok(())
    }

    /// The numbers of one tier by themselves.
    fn check_tier(&self, tier: u8) -> Result<(), SpecError> {
        let spec = &self.tier[usize::from(tier)];
        let top = tier + 1 == self.levels() && self.wan.is_none();
        let (radix_max, latency_max) = (u64::from(RADIX_MAX), u64::from(LATENCY_NS_MAX));
        let up = if top { (0, 0) } else { (1, radix_max) };
        for (key, found, (min, max)) in [
            ("Downlink_speed_Gbps", spec.downlink_mbps.div_ceil(1000), (1, u64::from(GBPS_MAX))),
            ("Radix_Down", spec.radix_down, (1, radix_max)),
            ("Radix_Up", spec.radix_up, up),
            ("Oversubscribed", spec.oversubscribed, (1, radix_max)),
            ("Bundle", spec.bundle, (1, if tier == 0 { 1 } else { radix_max })),
            ("Switch_Latency_ns", spec.switch_latency_ns, (0, latency_max)),
            ("Downlink_Latency_ns", spec.downlink_latency_ns, (0, latency_max)),
        ] {
            let found = u64::from(found);
            if !(min..=max).contains(&found) {
                return Err(SpecError {
                    tier: Some(tier),
                    key,
                    found,
                    rule: NumberRule::Range(min, max),
                });
            }
        }
        Ok(())
    }

    /// Checks the numbers of each tier against those of its neighbours.
    fn check_wiring(&self) -> Result<(), SpecError> {
        for tier in 0..self.levels() {
            let spec = &self.tier[usize::from(tier)];
            let error = |key, found: u32, rule| {
                Err(SpecError { tier: Some(tier), key, found: u64::from(found), rule })
            };
            let bundle = u64::from(spec.bundle);
            if !spec.radix_down.is_multiple_of(spec.bundle) {
                return error(
                    "Radix_Down",
                    spec.radix_down,
                    NumberRule::MultipleOf("Bundle", bundle),
                );
            }
            if tier + 1 < self.levels() {
                let above = self.tier[usize::from(tier) + 1].bundle;
                if !spec.radix_up.is_multiple_of(above) {
                    let rule = NumberRule::MultipleOf("Bundle of the tier above", u64::from(above));
                    return error("Radix_Up", spec.radix_up, rule);
                }
            }
            if tier == 0 && !self.podsize.is_multiple_of(spec.radix_down) {
                let rule =
                    NumberRule::MultipleOf("Radix_Down of tier 0", u64::from(spec.radix_down));
                let found = u64::from(self.podsize);
                return Err(SpecError { tier: None, key: "Podsize", found, rule });
            }
            let (below, why) = match tier {
                0 => continue,
                1 => (u64::from(self.tors_per_pod()), "ToRs in a pod times Bundle"),
                _ if tier == self.tiers => {
                    let group = if tier == 2 { 1 } else { self.cores_per_group() };
                    let tops = u64::from(self.aggs_per_pod()) * u64::from(group);
                    (tops, "top switches of a site times Bundle")
                }
                _ => (u64::from(self.pods_per_site()), "pods times Bundle"),
            };
            let needed = below * bundle;
            if u64::from(spec.radix_down) != needed {
                return error("Radix_Down", spec.radix_down, NumberRule::Exactly(needed, why));
            }
        }
        let links = u64::from(self.tors()) * u64::from(self.tier[0].radix_up);
        let links_up = u64::from(self.pods())
            * u64::from(self.aggs_per_pod())
            * u64::from(self.tier[1].radix_up);
        if links > LINKS_MAX || links_up > LINKS_MAX {
            let (tier, found) = if links > LINKS_MAX { (0, links) } else { (1, links_up) };
            let rule = NumberRule::Range(1, LINKS_MAX);
            return Err(SpecError { tier: Some(tier), key: "links up", found, rule });
        }
        Ok(())
    }

    /// Ports of a switch of `tier` to schedulers of its pod.
    #[must_use]
    pub const fn asides(&self, tier: u8) -> u32 {
        if tier < 2 { self.schedulers } else { 0 }
    }

    /// Sites: 2 where something joins them.
    #[must_use]
    pub const fn sites(&self) -> u32 {
        if self.wan.is_some() { 2 } else { 1 }
    }

    /// Hosts of a site.
    #[must_use]
    pub const fn site_hosts(&self) -> u32 {
        quotient(self.nodes, self.sites())
    }

    /// Tiers with the border switches', if there are any.
    #[must_use]
    pub const fn levels(&self) -> u8 {
        if self.wan.is_some() { self.tiers + 1 } else { self.tiers }
    }

    /// The border switches; all zeros without a `wan`.
    #[must_use]
    pub fn border(&self) -> TierSpec {
        self.tier.get(usize::from(self.tiers)).copied().unwrap_or_default()
    }

    /// Border switches of a site; 0 without a `wan`.
    #[must_use]
    pub const fn borders(&self) -> u32 {
        match self.wan {
            Some(wan) => wan.borders,
            None => 0,
        }
    }

    /// Pods of all sites: 1 a site with two tiers.
    #[must_use]
    pub const fn pods(&self) -> u32 {
        quotient(self.nodes, self.podsize)
    }

    /// Pods of a site.
    #[must_use]
    pub const fn pods_per_site(&self) -> u32 {
        quotient(self.site_hosts(), self.podsize)
    }

    /// Switches of the top tier of a site.
    #[must_use]
    pub const fn tops_per_site(&self) -> u32 {
        if self.tiers == 3 { self.cores_per_site() } else { self.aggs_per_pod() }
    }

    /// Core switches of a site: those that are dealt out, or as many groups as a pod has
    /// aggregation switches.
    #[must_use]
    pub const fn cores_per_site(&self) -> u32 {
        match self.dealt_cores {
            Some(cores) => cores,
            None => self.aggs_per_pod() * self.cores_per_group(),
        }
    }

    /// ToR switches of a pod.
    #[must_use]
    pub const fn tors_per_pod(&self) -> u32 {
        quotient(self.podsize, self.tier[0].radix_down)
    }

    /// Aggregation switches of a pod; the spines of a two-tier tree.
    #[must_use]
    pub const fn aggs_per_pod(&self) -> u32 {
        quotient(self.tier[0].radix_up, self.tier[1].bundle)
    }

    /// Core switches that one aggregation switch connects to, or the first one of a pod where they
    /// are dealt out: a group. 0 with two tiers.
    #[must_use]
    pub const fn cores_per_group(&self) -> u32 {
        if self.tiers == 3 { quotient(self.tier[1].radix_up, self.tier[2].bundle) } else { 0 }
    }

    /// ToR switches in all.
    #[must_use]
    pub const fn tors(&self) -> u32 {
        self.pods() * self.tors_per_pod()
    }

    /// Aggregation switches in all.
    #[must_use]
    pub const fn aggs(&self) -> u32 {
        self.pods() * self.aggs_per_pod()
    }

    /// Core switches in all.
    #[must_use]
    pub const fn cores(&self) -> u32 {
        self.sites() * self.cores_per_site()
    }

    /// Switches of a tier in all; those of the border are one above `tiers`.
    #[must_use]
    pub const fn switches(&self, tier: u8) -> u32 {
        match tier {
            0 => self.tors(),
            1 => self.aggs(),
            2 if self.tiers == 3 => self.cores(),
            _ if tier == self.tiers => self.sites() * self.borders(),
            _ => 0,
        }
    }

    /// The highest tier on the way between two hosts: 0 below one ToR, 1 inside a pod, 2 inside a
    /// site, else the border's.
    #[must_use]
    pub const fn meeting_tier(&self, a: HostId, b: HostId) -> u8 {
        let radix = self.tier[0].radix_down;
        if quotient(a.0, radix) == quotient(b.0, radix) {
            0
        } else if quotient(a.0, self.podsize) == quotient(b.0, self.podsize) {
            1
        } else if quotient(a.0, self.site_hosts()) == quotient(b.0, self.site_hosts()) {
            2
        } else {
            self.tiers
        }
    }

    /// The links that join the sites, on a path that turns at `top`.
    #[must_use]
    pub fn wan_via(&self, top: u8) -> Option<&WanSpec> {
        self.wan.as_ref().filter(|_| top >= self.tiers)
    }

    /// Links that a packet takes which turns at `top`.
    #[must_use]
    pub fn links_via(&self, top: u8) -> u64 {
        2 * (u64::from(top) + 1) + u64::from(self.wan_via(top).is_some())
    }

    /// One-way latency of links and switches on a path that turns at `top`, without serialisation.
    #[must_use]
    pub fn latency_via(&self, top: u8) -> Duration {
        let used = self.tiers_via(top);
        let links: u64 = used.iter().map(|tier| 2 * u64::from(tier.downlink_latency_ns)).sum();
        let switches: u64 = used.iter().map(|tier| 2 * u64::from(tier.switch_latency_ns)).sum();
        if let Some(wan) = self.wan_via(top) {
            return Duration::from_ns(links + switches + u64::from(wan.latency_ns));
        }
        let turned_once = used.last().map_or(0, |tier| u64::from(tier.switch_latency_ns));
        Duration::from_ns(links + switches - turned_once)
    }

    /// The tiers on a path that turns at `top`.
    #[must_use]
    pub fn tiers_via(&self, top: u8) -> &[TierSpec] {
        &self.tier[..=usize::from(top).min(TIERS_MAX - 1)]
    }

    /// One-way latency between the two farthest hosts, without serialisation.
    #[must_use]
    pub fn diameter_latency(&self) -> Duration {
        self.latency_via(self.levels().saturating_sub(1))
    }

    /// Round trip on an empty path that turns at `top`: `packet` bytes out, `ack` bytes back, each
    /// serialised on every link.
    #[must_use]
    pub fn rtt_via(&self, top: u8, packet: Bytes, ack: Bytes) -> Duration {
        let both = |rate: Rate| rate.time_for(packet) + rate.time_for(ack);
        let mut rtt = self.latency_via(top) * 2;
        for tier in self.tiers_via(top) {
            rtt += both(tier.link_rate()) * 2;
        }
        if let Some(wan) = self.wan_via(top) {
            rtt += both(wan.link_rate());
        }
        rtt
    }

    /// Round trip between the two farthest hosts on empty paths; see [`FatTreeSpec::rtt_via`].
    #[must_use]
    pub fn base_rtt(&self, packet: Bytes, ack: Bytes) -> Duration {
        self.rtt_via(self.levels().saturating_sub(1), packet, ack)
    }

    /// Round trip between the two farthest hosts of one site; see [`FatTreeSpec::rtt_via`].
    #[must_use]
    pub fn site_rtt(&self, packet: Bytes, ack: Bytes) -> Duration {
        self.rtt_via(self.tiers.saturating_sub(1), packet, ack)
    }
}

const fn quotient(a: u32, b: u32) -> u32 {
    match a.checked_div(b) {
        Some(quotient) => quotient,
        None => 0,
    }
}

impl TierSpec {
    /// Speed of a link below this tier.
    #[must_use]
    pub fn link_rate(&self) -> Rate {
        Rate::from_bps(u64::from(self.downlink_mbps) * 1_000_000)
    }

    /// The speed of a link below this tier as it is shown, Gbit/s: with as many decimals as it has.
    #[must_use]
    pub fn downlink_gbps(&self) -> f64 {
        f64::from(self.downlink_mbps) / 1000.0
    }

    /// Propagation of a link below this tier.
    #[must_use]
    pub fn link_latency(&self) -> Duration {
        Duration::from_ns(u64::from(self.downlink_latency_ns))
    }

    /// Traversal of a switch of this tier.
    #[must_use]
    pub fn switch_latency(&self) -> Duration {
        Duration::from_ns(u64::from(self.switch_latency_ns))
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found {} {}", self.key, self.found)?;
        if let Some(tier) = self.tier {
            write!(f, " in tier {tier}")?;
        }
        write!(f, ", expected {}", self.rule)
    }
}

impl fmt::Display for NumberRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(min, max) if min == max => write!(f, "{min}"),
            Self::Range(min, max) => write!(f, "{min}..={max}"),
            Self::MultipleOf(name, value) => write!(f, "a multiple of {value} ({name})"),
            Self::Exactly(value, why) => write!(f, "{value} ({why})"),
        }
    }
}

impl std::error::Error for SpecError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::by_name;

    #[test]
    fn counts_and_delays_of_the_papers_network_are_the_references() {
        let tree = by_name("ft1024-8os").unwrap();
        let counts = (tree.pods(), tree.tors(), tree.aggs(), tree.cores());
        assert_eq!(counts, (16, 128, 32, 8));
        assert_eq!(tree.diameter_latency(), Duration::from_ns(5_600));
        assert_eq!(tree.base_rtt(Bytes(4160), Bytes(64)), Duration::from_ps(11_453_440));
    }

    #[test]
    fn near_hosts_meet_low() {
        let tree = by_name("ft128-1os").unwrap();
        let tier = |a, b| tree.meeting_tier(HostId(a), HostId(b));
        assert_eq!((tier(0, 3), tier(0, 4), tier(15, 16)), (0, 1, 2));
        assert_eq!(tree.latency_via(0), Duration::from_ns(1_600));
        assert_eq!(tree.latency_via(1), Duration::from_ns(3_600));
    }

    #[test]
    fn contradictions_are_named() {
        let good = by_name("ft128-1os").unwrap();
        let broken = |change: fn(&mut FatTreeSpec)| {
            let mut tree = good.clone();
            change(&mut tree);
            tree.check().unwrap_err().to_string()
        };
        assert_eq!(
            broken(|t| t.nodes = 120),
            "found Nodes 120, expected a multiple of 16 (Podsize)"
        );
        assert!(broken(|t| t.podsize = 0).contains("Podsize 0"));
        assert!(
            broken(|t| t.tier[1].bundle = 3)
                .contains("Radix_Up 4 in tier 0, expected a multiple of 3")
        );
        assert!(broken(|t| t.tier[2].radix_down = 9).contains("expected 8 (pods times Bundle)"));
        assert!(broken(|t| t.tier[2].radix_up = 1).contains("Radix_Up 1 in tier 2, expected 0"));
        assert!(broken(|t| t.tier[0].bundle = 2).contains("Bundle 2 in tier 0, expected 1"));
        assert!(broken(|t| t.tiers = 2).contains("Podsize 16, expected 128"));
    }
}
