//! Near and far paths where border switches take part in control: a path to another site is far,
//! whatever its length.
//!
//! For endpoints a path is far whose base RTT is `far.rtt` or more. So `far.rtt` lies between base
//! RTTs inside a site and across. A base RTT inside that was measured by late polls, and is longer
//! than one across, is cut.

use transport::{Duration, HostId};

use super::{Draft, Origin, Plan, RunError};
use crate::input::InputError;
use crate::topology::{FatTreeSpec, TIERS_MAX};

/// The least difference between base RTTs inside a site and across: `far.rtt` is rounded to whole
/// ns and must lie between both.
const APART: Duration = Duration::from_ns(2);
const LEAST: Duration = Duration::from_ps(1);

/// Whether sites decide which paths are far: where endpoints read what border switches write.
fn decide(draft: &Draft, topology: &FatTreeSpec) -> bool {
    let settings = &draft.settings;
    topology.wan.is_some() && settings.far.cc.is_some_and(|cc| settings.follows_borders(cc))
}

/// The longest base RTT inside a site, of which `inside` is known, where the shortest path to
/// another site has `across`.
#[must_use]
pub fn longest_inside(inside: Duration, across: Duration) -> Duration {
    inside.min(across - APART)
}

/// Makes base RTTs inside a site shorter than those across, where sites decide; `rtts` are those of
/// paths by the tier at which they turn. Measured ones stay where `far.rtt` was given.
pub(super) fn part(draft: &Draft, topology: &FatTreeSpec, rtts: &mut [Duration; TIERS_MAX]) {
    let is_fixed = is_far_given(draft) && draft.site_rtt.is_some();
    if is_fixed || !decide(draft, topology) {
        return;
    }
    let (inside, across) = rtts.split_at_mut(usize::from(topology.tiers));
    let Some(across) = across.first() else { return };
    inside.iter_mut().for_each(|rtt| *rtt = longest_inside(*rtt, *across));
}

/// Whether `far.rtt` does not follow from the network.
fn is_far_given(draft: &Draft) -> bool {
    !matches!(draft.origin("far.rtt"), Origin::Default | Origin::Topology)
}

impl Plan {
    /// Whether a flow between two hosts leaves its datacentre; `None` where there is only one.
    #[must_use]
    pub fn crosses(&self, src: HostId, dst: HostId) -> Option<bool> {
        let spec = self.tree.spec();
        let site_of = |host: HostId| host.0 / spec.site_hosts();
        (spec.sites() > 1).then(|| site_of(src) != site_of(dst))
    }

    /// Whether sites decide which paths are far.
    #[must_use]
    pub fn parts_by_site(&self) -> bool {
        decide(&self.draft, self.tree.spec())
    }

    /// The base RTT between the farthest hosts of a site.
    #[must_use]
    pub fn site_rtt(&self) -> Duration {
        self.base_rtts[usize::from(self.tree.spec().tiers - 1)]
    }

    /// The base RTT of a path that turns at `tier`, which was measured to be `rtt`.
    pub(super) fn on_its_side(&self, rtt: Duration, tier: u8) -> Duration {
        let is_inside = tier < self.tree.spec().tiers;
        let is_cut = is_inside && !is_far_given(&self.draft) && self.parts_by_site();
        if is_cut { rtt.min(self.settings.far.rtt - LEAST) } else { rtt }
    }

    /// Checks that sites and base RTTs that were measured agree about which paths are far.
    pub(super) fn check_sides(&self) -> Result<(), RunError> {
        if !decide(&self.draft, self.tree.spec()) {
            return Ok(());
        }
        let of = |is_across: bool| {
            let pairs = self.measured_rtts.keys();
            let pairs = pairs.filter(move |(a, b)| self.crosses(*a, *b) == Some(is_across));
            pairs.map(|(src, dst)| self.path(*src, *dst).base_rtt)
        };
        let far = self.settings.far.rtt;
        let (inside, across) = (of(false).max(), of(true).min());
        if inside.is_none_or(|rtt| rtt < far) && across.is_none_or(|rtt| rtt >= far) {
            return Ok(());
        }
        let shown = |rtt: Option<Duration>| rtt.map_or("none".to_owned(), |rtt| rtt.to_string());
        let expected = format!(
            "longer than the longest base RTT inside a site ({}) and at most the shortest across \
             ({}), as they were measured",
            shown(inside),
            shown(across)
        );
        let found = format!("{far}, by {}", self.draft.origin("far.rtt"));
        Err(InputError::new(found, expected).at("far.rtt", 0, 0).help("leave far.rtt out").into())
    }
}
