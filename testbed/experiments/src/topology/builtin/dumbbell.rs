//! Two switches with a third between them, whose two links each have half of DELAY.

use super::parameters::{GBPS_DEFAULT, Kind, optional, required};
use super::{NamedNetwork, shapes};

/// Dumbbells of any number of hosts a side.
pub(super) const NETWORKS: &[NamedNetwork] = &[NamedNetwork {
    name: "dumbbell",
    parameters: &[
        required("HOSTS_PER_SIDE", Kind::Number),
        optional("GBPS", Kind::Speed),
        optional("DELAY", Kind::Delay),
    ],
    about: "two leaves and one spine between them; DELAY from leaf to leaf",
    spec: |&[hosts, gbps, delay, ..]| {
        let (hosts, gbps) = (hosts.unwrap_or_default(), gbps.unwrap_or(GBPS_DEFAULT));
        let mut tree = shapes::leaf_spine(2, 1, hosts, gbps);
        if let Some(delay_ns) = delay {
            if !delay_ns.is_multiple_of(2) {
                return Err("a delay of an even number of nanoseconds: each link has half of it");
            }
            tree.tier[1].downlink_latency_ns = delay_ns / 2;
        }
        Ok(tree)
    },
}];

#[cfg(test)]
mod tests {
    use crate::topology::by_name;

    #[test]
    fn hosts_and_speed_are_parameters() {
        let tree = by_name("dumbbell:6,25").unwrap();
        assert_eq!((tree.nodes, tree.tors(), tree.aggs()), (12, 2, 1));
        assert_eq!(tree.tier[0].downlink_mbps, 25_000);
    }

    #[test]
    fn a_dumbbell_is_as_long_as_it_is_said_to_be() {
        assert!(by_name("dumbbell:2,100,3ns").is_err(), "half of it is no whole number");
        let tree = by_name("dumbbell:2,100,1ms").unwrap();
        let plain = by_name("dumbbell:2").unwrap();
        let longer = tree.latency_via(1).saturating_sub(plain.latency_via(1));
        assert_eq!(longer, transport::Duration::from_ns(2 * (500_000 - 600)));
        assert_eq!(tree.latency_via(0), plain.latency_via(0));
    }
}
