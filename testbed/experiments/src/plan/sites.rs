//! Near and far paths where border switches take part in control: a path is far that leads to
//! another site, however long it is.
//!
//! For endpoints a path is far whose base RTT is `far.rtt` or more. So base RTTs that were set, or
//! measured over polls that may be late, are brought to their side of it.

use transport::cc::CcKind;
use transport::{Duration, HostId};

use super::{Draft, Origin, Plan};
use crate::topology::{FatTreeSpec, TIERS_MAX};

/// The least difference between base RTTs inside a site and across: settings are text of whole
/// nanoseconds, so one that is between both needs two.
const APART: Duration = Duration::from_ns(2);
const LEAST: Duration = Duration::from_ps(1);

/// Whether sites decide which paths are far.
fn decide(draft: &Draft, topology: &FatTreeSpec) -> bool {
    topology.wan.is_some() && draft.settings.far.cc.is_some_and(CcKind::follows_borders)
}

/// Makes base RTTs inside a site shorter than those across, where sites decide; `rtts` are those of
/// paths by the tier at which they turn. Where they were measured and `far.rtt` was given, it is
/// between both.
pub(super) fn part(draft: &Draft, topology: &FatTreeSpec, rtts: &mut [Duration; TIERS_MAX]) {
    if !decide(draft, topology) {
        return;
    }
    let given = !matches!(draft.origin("far.rtt"), Origin::Default | Origin::Topology);
    let far = Some(draft.settings.far.rtt).filter(|_| given && draft.site_rtt.is_some());
    let (inside, across) = rtts.split_at_mut(usize::from(topology.tiers));
    let Some(longest) = across.first().copied() else { return };
    let most = far.map_or(longest - APART, |far| far - LEAST);
    inside.iter_mut().for_each(|rtt| *rtt = (*rtt).min(most));
    across.iter_mut().for_each(|rtt| *rtt = (*rtt).max(far.unwrap_or_default()));
}

impl Plan {
    /// Whether a flow between two hosts leaves its datacentre; `None` where there is only one.
    #[must_use]
    pub fn crosses(&self, src: HostId, dst: HostId) -> Option<bool> {
        let spec = self.tree.spec();
        let site_of = |host: HostId| host.0 / spec.site_hosts();
        (spec.sites() > 1).then(|| site_of(src) != site_of(dst))
    }

    /// The base RTT between the farthest hosts of a site.
    #[must_use]
    pub fn site_rtt(&self) -> Duration {
        self.base_rtts[usize::from(self.tree.spec().tiers - 1)]
    }

    /// The base RTT of a path that turns at `tier`, which was measured to be `rtt`.
    pub(super) fn on_its_side(&self, rtt: Duration, tier: u8) -> Duration {
        let (spec, far) = (self.tree.spec(), self.settings.far.rtt);
        match decide(&self.draft, spec) {
            true if tier == spec.tiers => rtt.max(far),
            true => rtt.min(far - LEAST),
            false => rtt,
        }
    }
}
