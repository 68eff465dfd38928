//! Turns by age: so that a large demand is served beside small ones that never end.

use crate::chance::Chance;
use crate::demands::{Demands, To};
use crate::matcher::draw_core;
use crate::ops::Scalar;
use crate::ports::{Grant, Ports, first_from};

/// Demands that one turn looks at, for each sender.
const LOOKED_AT: usize = 4;

/// Grants demands in the order of age, as far as their ports are idle: the oldest [`LOOKED_AT`] for
/// each sender are looked at. Ports that stay idle are left to the matcher.
pub(super) fn serve(
    demands: &Demands,
    ports: &mut Ports,
    chance: &mut Chance,
    grants: &mut Vec<Grant>,
) {
    let shape = *demands.shape();
    #[expect(clippy::cast_possible_truncation, reason = "at most 32 Aggs")]
    let first = chance.below(shape.aggs() as u32);
    for (sender, to) in demands.by_age().take(LOOKED_AT * shape.senders()) {
        let core_place = sender.checked_sub(shape.hosts()).map(|core| shape.core_place(core));
        let up = match core_place {
            Some((agg, layer)) => ports.from_core[layer] & 1 << agg,
            None if ports.may_send(&shape, sender) => ports.up.0[shape.place(sender).0],
            None => 0,
        };
        let route = match to {
            To::Host(host) if ports.may_receive(&shape, usize::from(host)) => {
                let both = up & ports.down.0[shape.place(usize::from(host)).0];
                (both != 0).then(|| (first_from(both, first) as usize, None))
            }
            To::Pod(pod) if up != 0 => {
                let mouse = demands.has_mouse(sender, to);
                let drawn = draw_core::<Scalar>(&shape, ports, chance, up, usize::from(pod), mouse);
                drawn.map(|(agg, core)| (agg, Some(core)))
            }
            _ => None,
        };
        let Some((agg, core)) = route else { continue };
        #[expect(clippy::cast_possible_truncation, reason = "hosts, Cores and Aggs fit")]
        let grant =
            Grant { sender: sender as u16, to, agg: agg as u8, core: core.map(|core| core as u16) };
        let fits = ports.occupy(&shape, &grant);
        assert!(fits, "a route of idle ports");
        grants.push(grant);
    }
}
