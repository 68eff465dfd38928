//! Speeds of links, and the oversubscription that follows from them.

use super::{FatTreeSpec, GBPS_MAX};

impl FatTreeSpec {
    /// Bandwidth below `tier`'s switches over the bandwidth above them, cut to an integer; 1 at the
    /// top.
    #[must_use]
    pub fn oversubscription(&self, tier: u8) -> u32 {
        let at = usize::from(tier);
        let above = match &self.wan {
            Some(wan) if tier == self.tiers => u64::from(wan.gbps) * 1000,
            _ if tier + 1 < self.levels() => self.tier[at + 1].downlink_mbps.into(),
            _ => return 1,
        };
        let spec = &self.tier[at];
        let down = u64::from(spec.radix_down) * u64::from(spec.downlink_mbps);
        let up = u64::from(spec.radix_up) * above;
        let ratio = down.checked_div(up).unwrap_or(1).max(1);
        u32::try_from(ratio).unwrap_or(u32::MAX)
    }

    /// This network with the oversubscription of its tiers, which follows from the other numbers.
    #[must_use]
    pub(in crate::topology) fn with_oversubscription(mut self) -> Self {
        for tier in 0..self.levels() {
            self.tier[usize::from(tier)].oversubscribed = self.oversubscription(tier);
        }
        self
    }

    /// This network with links of hosts of `mbps`, Mbit/s. In a network of one site all other links
    /// have that speed, too. Of two sites, each link between switches carries what all hosts of a
    /// site send.
    #[must_use]
    pub fn with_hosts_at(mut self, mbps: u32) -> Self {
        let most = GBPS_MAX.saturating_mul(1000);
        let hosts = if self.wan.is_some() { self.site_hosts() } else { 1 };
        let all = mbps.saturating_mul(hosts).min(most);
        let levels = usize::from(self.levels());
        self.tier[..levels].iter_mut().for_each(|tier| tier.downlink_mbps = all);
        self.tier[0].downlink_mbps = mbps;
        if let Some(wan) = &mut self.wan {
            wan.gbps = all.div_ceil(1000);
        }
        self.with_oversubscription()
    }
}
