//! The least and the greatest of the base RTTs that hosts have measured, inside sites and across.

use std::collections::BTreeMap;

use experiments::plan::{Plan, longest_inside};
use experiments::topology::FatTreeSpec;
use experiments::topology::spec::LATENCY_NS_MAX;
use transport::{Bytes, Duration, HostId};

use super::message::MeasurePart;

/// The least and the greatest of some base RTTs.
pub(super) type Range = (Duration, Duration);

/// Bounds of measured base RTTs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The least and the longest base RTT of all pairs of hosts.
    pub(super) all: Range,
    /// The least and the longest base RTT of two hosts in one site; `None` where none was measured.
    /// In a network of one site these are the base RTTs of all pairs.
    inside: Option<Range>,
    /// The least and the longest base RTT of two hosts in different sites; `None` where none was
    /// measured.
    across: Option<Range>,
}

impl Bounds {
    /// The bounds of `rtts`, which are those of pairs of hosts; `None` where `rtts` is empty.
    pub(super) fn of(plan: &Plan, rtts: &BTreeMap<(HostId, HostId), Duration>) -> Option<Self> {
        let range = |crosses: Option<bool>| {
            let is_meant = |src, dst| {
                crosses.is_none_or(|meant| plan.crosses(src, dst).unwrap_or(false) == meant)
            };
            let of = rtts.iter().filter(|((src, dst), _)| is_meant(*src, *dst));
            let of = of.map(|(_, rtt)| *rtt);
            of.clone().min().zip(of.max())
        };
        Some(Self { all: range(None)?, inside: range(Some(false)), across: range(Some(true)) })
    }

    /// The longest base RTT inside a site: that of the topology of `plan` where none was measured.
    /// Where sites decide which paths are far, it is shorter than all that were measured across.
    pub(super) fn longest_inside(&self, plan: &Plan) -> Duration {
        let inside = self.inside.map_or_else(|| plan.site_rtt(), |(_, most)| most);
        match self.across {
            Some((least, _)) if plan.parts_by_site() => longest_inside(inside, least),
            _ => inside,
        }
    }

    /// The longest base RTT: between sites that of the topology of `plan` where none was measured.
    pub(super) fn longest(&self, plan: &Plan) -> Duration {
        let has_sites = plan.tree.spec().sites() > 1;
        match self.across {
            Some((_, most)) => most,
            None if has_sites => plan.settings.base_rtt,
            None => self.all.1,
        }
    }

    /// Gives the links of an assumed network the delays that were measured, so that the ideal time
    /// of a run has them.
    pub(super) fn set_latencies(&self, spec: &mut FatTreeSpec, plan: &Plan) {
        let mtu = Bytes(u64::from(plan.fabric.mtu));
        let sending = plan.settings.line_rate.time_for(mtu) * 2;
        if let Some((least, _)) = self.inside {
            for tier in &mut spec.tier {
                (tier.switch_latency_ns, tier.downlink_latency_ns) = (0, 0);
            }
            // A host's link is passed twice each way.
            spec.tier[0].downlink_latency_ns = share(least - sending, 4);
        }
        if let (Some(wan), Some((least, _))) = (&mut spec.wan, self.across) {
            let inside = self.inside.map_or_else(|| plan.site_rtt(), |(least, _)| least);
            wan.latency_ns = share(least - inside, 2);
        }
    }
}

/// The base RTTs of pairs of hosts, from what each host has measured. A number that no host of
/// `plan` has is left out: other processes have sent it.
pub(super) fn of_pairs(
    plan: &Plan,
    measured: &[MeasurePart],
) -> BTreeMap<(HostId, HostId), Duration> {
    let pairs = (0..).zip(measured).flat_map(|(src, part)| {
        let known = part.rtts_ps.iter().filter(|(dst, _)| *dst < plan.hosts());
        known.map(move |(dst, ps)| ((HostId(src), HostId(*dst)), Duration::from_ps(*ps)))
    });
    pairs.collect()
}

/// A part of `parts` of a round trip, in the unit and the range of a link's latency.
fn share(rtt: Duration, parts: u64) -> u32 {
    let ns = rtt.as_ps() / (1000 * parts);
    u32::try_from(ns).unwrap_or(u32::MAX).min(LATENCY_NS_MAX)
}

#[cfg(test)]
mod tests {
    use experiments::plan::{Draft, Origin};
    use experiments::topology::by_name;
    use experiments::workload::{FlowSpec, Matrix};

    use super::*;

    fn bounds(topology: &str, rtts: &[(u32, u32, u64)]) -> (Option<Bounds>, Plan, FatTreeSpec) {
        let mut spec = by_name(topology).unwrap();
        let mut matrix = Matrix { nodes: spec.nodes, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(1), Bytes(1000))).unwrap();
        let plan = Plan::new(&Draft::default(), matrix, &spec).unwrap();
        let pair = |(src, dst, us): &(u32, u32, u64)| {
            ((HostId(*src), HostId(*dst)), Duration::from_us(*us))
        };
        let bounds = Bounds::of(&plan, &rtts.iter().map(pair).collect());
        bounds.iter().for_each(|bounds| bounds.set_latencies(&mut spec, &plan));
        (bounds, plan, spec)
    }

    #[test]
    fn round_trips_inside_sites_and_across_have_bounds_of_their_own() {
        let us = Duration::from_us;
        let (found, plan, spec) =
            bounds("two-sites:2", &[(0, 1, 400), (2, 3, 300), (0, 2, 6400), (3, 1, 6300)]);
        let found = found.unwrap();
        assert_eq!((found.longest_inside(&plan), found.longest(&plan)), (us(400), us(6400)));
        assert_eq!(found.all, (us(300), us(6400)));
        assert_eq!(found.inside, Some((us(300), us(400))));
        assert_eq!(found.across, Some((us(6300), us(6400))));
        assert_eq!(spec.wan.map(|wan| wan.latency_ns), Some(3_000_000));
        let rtt = spec.site_rtt(Bytes(4160), Bytes(64)).as_us_f64();
        assert!((299.0..301.0).contains(&rtt), "{rtt}");
        let (found, plan, spec) = bounds("leaf-spine:1,1,4", &[(0, 1, 400), (2, 3, 300)]);
        assert_eq!(
            found.map(|found| (found.inside, found.across)),
            Some((Some((us(300), us(400))), None))
        );
        assert!(spec.tier[0].downlink_latency_ns > 74_000, "{spec:?}");
        assert_eq!(found.map(|found| found.longest(&plan)), Some(us(400)));
        assert_eq!(bounds("two-sites:2", &[]).0, None);
    }

    #[test]
    fn round_trips_to_hosts_that_do_not_exist_are_left_out() {
        let (_, plan, _) = bounds("two-sites:2", &[]);
        let measured = [(1, 400_000_000), (3, 6_400_000_000), (4, 1), (u32::MAX, u64::MAX)];
        let part = MeasurePart {
            rtts_ps: measured.into(),
            longest_ps: 0,
            jitter_ps: 0,
            scheduler_ps: None,
            chance: 0,
        };
        let rtts = of_pairs(&plan, &[part]);
        assert_eq!(rtts.keys().map(|(_, dst)| dst.0).collect::<Vec<_>>(), [1, 3]);
        assert!(plan.with_measured_rtts(rtts).is_ok());
    }

    #[test]
    fn what_was_not_measured_is_as_in_the_topology_and_a_site_is_shorter_than_the_way_out() {
        let us = Duration::from_us;
        let (found, plan, _) = bounds("two-sites:2", &[(0, 1, 400), (2, 3, 300)]);
        let found = found.unwrap();
        assert!(plan.settings.base_rtt > us(6000), "{}", plan.settings.base_rtt);
        assert_eq!(found.longest(&plan), plan.settings.base_rtt);
        let (found, plan, _) = bounds("two-sites:2", &[(0, 2, 6400), (1, 2, 6100)]);
        assert_eq!(found.unwrap().longest_inside(&plan), plan.site_rtt());
        // A path inside was measured by late polls.
        let (found, plan, _) = bounds("two-sites:2", &[(0, 1, 9000), (0, 2, 6400), (1, 2, 6100)]);
        let found = found.unwrap();
        assert_eq!(found.longest_inside(&plan), us(9000), "no border switch is asked");
        let mlcc = plan.with(|draft| draft.set_transport("mlcc", Origin::Set).unwrap()).unwrap();
        assert_eq!(found.longest_inside(&mlcc), us(6100) - Duration::from_ns(2));
        assert_eq!(found.longest(&plan), us(6400));
    }
}
