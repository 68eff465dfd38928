//! Routing: the port by which a packet leaves a switch, by arithmetic on host numbers, without
//! tables.
//!
//! Hosts are dense, and every switch of a tree has a contiguous range of them below it. A division
//! gives the port down to a host below. A packet for another host goes up by equal-cost multipath:
//! a hash of the packet's hash and the switch's salt picks one of the parallel ports. A port whose
//! link has been down for the detection delay leaves its group until the link has been back for as
//! long. The state of links is a function of time (see `fault`), so nothing has to be updated, and
//! a late caller gets the same result as a punctual one. Only the switch at the link reacts: routes
//! are not recomputed upstream.
//!
//! In a network with explicit routes the entropy value of a packet names its ports up, and nothing
//! is drawn.

use transport::rng::mix;
use transport::wire::pod::CellName;
use transport::{HostId, Instant};

use super::elements::SwitchSpec;

/// What routing needs of a switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch {
    spec: SwitchSpec,
    salt: u32,
    /// When the exclusion of any of its ports first starts and last ends; empty without faults.
    outage: (Instant, Instant),
}

/// Ports that lead to the same place, and where in them the hash points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    first: u32,
    count: u32,
}

impl Switch {
    pub(super) fn new(spec: SwitchSpec, salt: u32) -> Self {
        Self { spec, salt, outage: (Instant::FAR_FUTURE, Instant::ZERO) }
    }

    /// Notes that some port is excluded at some time within `from .. until`.
    pub(super) fn widen_outage(&mut self, from: Instant, until: Instant) {
        self.outage = (self.outage.0.min(from), self.outage.1.max(until));
    }

    /// The port for a packet to `dst` at `now`; `None` when the switch has no way there.
    /// `is_dead(port)` is asked only while some port of this switch is excluded. A group that is
    /// dead as a whole is used as if alive: its packets are lost on the link, with that reason.
    #[inline]
    pub(super) fn route(
        &self,
        dst: HostId,
        hash: u32,
        now: Instant,
        is_dead: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let group = self.group(dst);
        let chosen = match group.count {
            0 => return None,
            1 => 0,
            count => pick(hash, self.salt, count),
        };
        if now < self.outage.0 || now >= self.outage.1 || group.count == 1 {
            return Some(group.first + chosen);
        }
        let alive = self.route_around(group, hash, is_dead);
        alive.or(Some(group.first + chosen))
    }

    /// The port of `group` that the hash picks among those that are not dead; `None` when all are.
    #[cold]
    #[inline(never)]
    fn route_around(&self, group: Group, hash: u32, is_dead: impl Fn(u32) -> bool) -> Option<u32> {
        let alive = || (group.first..group.first + group.count).filter(|port| !is_dead(*port));
        let count = u32::try_from(alive().count()).unwrap_or(0);
        if count == 0 { None } else { alive().nth(pick(hash, self.salt, count) as usize) }
    }

    /// Picks by the hash one of `ports` that is not dead; any when all are, `None` without ports.
    pub(super) fn choose(
        &self,
        ports: &[u32],
        hash: u32,
        is_dead: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let alive = || ports.iter().copied().filter(|port| !is_dead(*port));
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        match count(alive().count()) {
            0 if ports.is_empty() => None,
            0 => ports.get(pick(hash, self.salt, count(ports.len())) as usize).copied(),
            some => alive().nth(pick(hash, self.salt, some) as usize),
        }
    }

    /// The port for a packet to `dst` that names its way: a packet of a host goes up first, also to
    /// a host below. `None` when there is no such port.
    pub(super) fn route_named(&self, dst: HostId, name: CellName, of_host: bool) -> Option<u32> {
        let spec = &self.spec;
        let is_below = dst.0.wrapping_sub(spec.first_host) < spec.hosts;
        if is_below && !of_host {
            return Some(self.group(dst).first);
        }
        let way = u32::from(if spec.child_hosts == 1 { name.agg } else { name.layer });
        (way < spec.ups).then_some(spec.up_port + way)
    }

    #[inline]
    fn group(&self, dst: HostId) -> Group {
        let spec = &self.spec;
        let below = dst.0.wrapping_sub(spec.first_host);
        if below < spec.hosts {
            let child = below / spec.child_hosts;
            Group { first: spec.down_port + child * spec.bundle, count: spec.bundle }
        } else {
            Group { first: spec.up_port, count: spec.ups }
        }
    }
}

/// Picks one of `0..count` by the hash, with a multiplication instead of a remainder.
#[inline]
pub(super) fn pick(hash: u32, salt: u32, count: u32) -> u32 {
    let mixed = mix(u64::from(hash) << 32 | u64::from(salt)) >> 32;
    // The product of two 32-bit numbers; its high half is below `count`.
    u32::try_from((mixed * u64::from(count)) >> 32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second of the switches with 4 hosts below by bundles of 2, and 8 up ports.
    fn switch(salt: u32) -> Switch {
        let spec = SwitchSpec {
            first_host: 4,
            hosts: 4,
            child_hosts: 2,
            bundle: 2,
            down_port: 100,
            up_port: 200,
            ups: 8,
            asides: 0,
        };
        Switch::new(spec, salt)
    }

    fn routes(switch: &Switch, dst: u32, dead: u32) -> Vec<u32> {
        (0..8000u32)
            .filter_map(|hash| {
                let now = Instant::from_ps(50);
                switch.route(HostId(dst), hash.wrapping_mul(0x9E37_79B9), now, |port| port == dead)
            })
            .collect()
    }

    #[test]
    fn hosts_below_are_reached_by_their_childs_bundle() {
        for (dst, expected) in [(4, [100, 101]), (5, [100, 101]), (6, [102, 103])] {
            let mut used = routes(&switch(1), dst, 0);
            used.sort_unstable();
            used.dedup();
            assert_eq!(used, expected);
        }
    }

    #[test]
    fn other_hosts_are_spread_evenly_over_the_up_ports() {
        for dst in [0, 3, 8, 4000] {
            let used = routes(&switch(7), dst, 0);
            for port in 200..208 {
                let share = used.iter().filter(|p| **p == port).count();
                assert!((900..1100).contains(&share), "{share} of 8000 by port {port}");
            }
        }
    }

    #[test]
    fn two_switches_choose_independently() {
        let (a, b) = (routes(&switch(1), 0, 0), routes(&switch(2), 0, 0));
        let same = a.iter().zip(&b).filter(|(a, b)| a == b).count();
        assert!((800..1200).contains(&same), "{same} of 8000 agree");
    }

    #[test]
    fn a_dead_port_is_avoided_only_while_it_is_known_to_be_dead() {
        let mut switch = switch(1);
        assert!(routes(&switch, 0, 203).contains(&203));
        switch.widen_outage(Instant::from_ps(10), Instant::from_ps(60));
        let used = routes(&switch, 0, 203);
        assert_eq!(used.len(), 8000);
        assert!(!used.contains(&203));
    }

    #[test]
    fn a_switch_without_ups_has_no_way_to_other_hosts() {
        let mut top = switch(1);
        top.spec.ups = 0;
        assert_eq!(routes(&top, 0, 0), [0u32; 0]);
    }
}
