//! A topology that `tests/adding.rs` adds: two leaves and two spines. It shows all that the file of
//! a topology has to state.

use super::parameters::{GBPS_DEFAULT, Kind, optional, required};
use super::{NamedNetwork, shapes};

/// The family.
pub(super) const NETWORKS: &[NamedNetwork] = &[NamedNetwork {
    name: "twin",
    parameters: &[required("HOSTS_PER_LEAF", Kind::Number), optional("GBPS", Kind::Speed)],
    about: "two leaves and two spines, added by a test",
    spec: |&[hosts, gbps, ..]| {
        let (hosts, gbps) = (hosts.unwrap_or_default(), gbps.unwrap_or(GBPS_DEFAULT));
        Ok(shapes::leaf_spine(2, 2, hosts, gbps))
    },
}];
