//! The links that join two sites, and the border switches at their ends. Speeds are in Gb/s,
//! latencies in nanoseconds.

use transport::Rate;

use super::{FatTreeSpec, GBPS_MAX, LATENCY_NS_MAX, NumberRule, SpecError};
use crate::workload::Capacities;

/// The links between two sites; how many there are is the border switches' `radix_up`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WanSpec {
    /// Speed of a link, both ways, `1..=GBPS_MAX`.
    pub gbps: u32,
    /// The propagation of the link, `0..=LATENCY_NS_MAX`.
    pub latency_ns: u32,
    /// Border switches of a site, `1..=BORDERS_MAX`. Each border switch has the same number of
    /// links to each border switch of the other site.
    pub borders: u32,
}

/// The most border switches of a site.
pub const BORDERS_MAX: u32 = 64;

impl WanSpec {
    /// Speed of a link between sites.
    #[must_use]
    pub fn link_rate(&self) -> Rate {
        Rate::from_gbps(u64::from(self.gbps))
    }
}

impl FatTreeSpec {
    /// The rates that bound what hosts can send.
    #[must_use]
    pub fn capacities(&self) -> Capacities {
        let across = self.wan.map(|wan| (wan.borders * self.border().radix_up, wan.link_rate()));
        Capacities { nodes: self.nodes, host: self.tier[0].link_rate(), across }
    }

    /// The links between sites, and those that lead to them.
    pub(super) fn check_wan(&self) -> Result<(), SpecError> {
        let Some(wan) = &self.wan else { return Ok(()) };
        for (key, found, min, max) in [
            ("Uplink_speed_Gbps", wan.gbps, 1, GBPS_MAX),
            ("Uplink_Latency_ns", wan.latency_ns, 0, LATENCY_NS_MAX),
        ] {
            if !(min..=max).contains(&found) {
                let rule = NumberRule::Range(u64::from(min), u64::from(max));
                let tier = Some(self.tiers);
                return Err(SpecError { tier, key, found: u64::from(found), rule });
            }
        }
        if !(1..=BORDERS_MAX).contains(&wan.borders) {
            let (found, rule) =
                (u64::from(wan.borders), NumberRule::Range(1, u64::from(BORDERS_MAX)));
            return Err(SpecError { tier: None, key: "Borders", found, rule });
        }
        let top = self.tiers - 1;
        let ups = u64::from(self.tier[usize::from(top)].radix_up);
        let needed = u64::from(self.border().bundle) * u64::from(wan.borders);
        if ups != needed {
            let rule =
                NumberRule::Exactly(needed, "Bundle of the border switches above, times Borders");
            return Err(SpecError { tier: Some(top), key: "Radix_Up", found: ups, rule });
        }
        let across = self.border().radix_up;
        if !across.is_multiple_of(wan.borders) {
            let rule = NumberRule::MultipleOf("Borders", u64::from(wan.borders));
            let (tier, key) = (Some(self.tiers), "Radix_Up");
            return Err(SpecError { tier, key, found: u64::from(across), rule });
        }
        Ok(())
    }
}
