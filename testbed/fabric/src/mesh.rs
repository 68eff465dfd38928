//! Two sites with several border switches each: the border switches that a packet passes.
//!
//! ```text
//!   site 0: border 0 ---- border 0 :site 1     a pair for each packet across, chosen by its hash
//!                  \    /                      among the pairs that some link joins: all switches
//!                   \  /                       on the way choose the same, and so do those on the
//!                   /  \                       way back, where the hash is that of both ends
//!           border 1 -- border 1
//! ```
//!
//! A border switch of MLCC keeps queues of flows, and the acknowledgements of a flow have to pass
//! the switch that has its queue. So both directions of a flow take one pair: a driver hashes the
//! ends of packets in ascending order ([`Ends::Either`](super::Ends)). All switches of both sites
//! avoid a dead link from the same instant on, one detection delay after it died. A pair is not
//! chosen while all links between its two switches are dead in one direction or the other, for
//! example when one of the two switches is down. The pair comes back with the first link. The state
//! of links is a function of time, as in `routing`, whose rules hold for all other decisions.

use transport::{HostId, Instant};

use super::elements::{Node, PortSpec, SwitchSpec};
use super::routing::pick;

/// What a switch has to do with border switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// No port leads to a border switch.
    Apart,
    /// The ports up lead to the border switches of the site.
    Below,
    /// The switch is the border switch of this place in the site.
    Border(u32),
}

/// The border switches of two sites.
#[derive(Clone, Debug)]
pub(super) struct Mesh {
    /// Border switches of a site.
    each: u32,
    /// For each switch.
    roles: Vec<Role>,
    /// For each switch: its hosts, then its ports up.
    reach: Vec<(u32, u32, u32, u32)>,
    /// For each pair, those of one switch of the first site together: the links between both, by
    /// the port at either end.
    links: Vec<Vec<[u32; 2]>>,
    /// When some pair may be without links: the first instant, and the last.
    outage: (Instant, Instant),
}

/// Chooses pairs alike in all switches.
const SALT: u32 = 0x9A12;
/// Mixed into the hash for the second choice where the first pair is not joined, since the flows of
/// that pair have similar hashes.
const SALT_AGAIN: u32 = 0x51C3;

impl Mesh {
    /// The mesh of `borders`, those of the first site first; `None` where a site has one or none.
    pub(super) fn new(
        borders: &[u32],
        ports: &[PortSpec],
        switches: &[SwitchSpec],
    ) -> Option<Self> {
        let each = u32::try_from(borders.len() / 2).ok().filter(|each| *each > 1)?;
        let place = |switch: u32| borders.iter().position(|border| *border == switch);
        let role = |switch: u32, spec: &SwitchSpec| match place(switch) {
            Some(at) => Role::Border(u32::try_from(at).unwrap_or(0) % each),
            None if leads_to(spec, ports, borders) => Role::Below,
            None => Role::Apart,
        };
        let roles = (0..).zip(switches).map(|(switch, spec)| role(switch, spec)).collect();
        let reach = |spec: &SwitchSpec| (spec.first_host, spec.hosts, spec.up_port, spec.ups);
        let ups = |border: u32| {
            let spec = &switches[borders[border as usize] as usize];
            (spec.up_port, spec.ups / each)
        };
        let pair = |(one, other): (u32, u32)| {
            let ((from, links), (back, _)) = (ups(one), ups(each + other));
            (0..links)
                .map(|link| [from + other * links + link, back + one * links + link])
                .collect()
        };
        let pairs = (0..each).flat_map(|one| (0..each).map(move |other| (one, other)));
        Some(Self {
            each,
            roles,
            reach: switches.iter().map(reach).collect(),
            links: pairs.map(pair).collect(),
            outage: (Instant::FAR_FUTURE, Instant::ZERO),
        })
    }

    /// Notes that some link is excluded at some time within `from .. until`.
    pub(super) fn widen_outage(&mut self, from: Instant, until: Instant) {
        self.outage = (self.outage.0.min(from), self.outage.1.max(until));
    }

    /// The port of `switch` by which a packet with this hash to `dst` leaves for the pair that it
    /// takes. `None` where the switch does not choose. Such a switch has no port to a border
    /// switch, has `dst` below it, or is a border switch that is not of the pair.
    #[inline(never)]
    pub(super) fn port(
        &self,
        switch: u32,
        (dst, hash): (HostId, u32),
        now: Instant,
        is_dead: &dyn Fn(u32) -> bool,
    ) -> Option<u32> {
        let role = self.roles[switch as usize];
        let (first_host, hosts, up_port, ups) = self.reach[switch as usize];
        if role == Role::Apart || dst.0.wrapping_sub(first_host) < hosts {
            return None;
        }
        // Both sites have as many hosts, so only those of the second one lie behind its switches.
        let second = first_host >= hosts;
        let pair = self.pair(hash, now, is_dead);
        let (one, other) = (pair / self.each, pair % self.each);
        let (here, there) = if second { (other, one) } else { (one, other) };
        let group = match role {
            Role::Border(own) if own == here => there,
            Role::Below => here,
            _ => return None,
        };
        let count = ups / self.each;
        let first = up_port + group * count;
        let is_alive = |port: &u32| !(self.is_outage(now) && is_dead(*port));
        let alive = (first..first + count).filter(is_alive).count();
        // Parallel links are chosen in each switch by itself.
        let count_alive = u32::try_from(alive).ok().filter(|alive| *alive > 0)?;
        let chosen = pick(hash, switch, count_alive);
        (first..first + count).filter(is_alive).nth(chosen as usize)
    }

    fn is_outage(&self, now: Instant) -> bool {
        now >= self.outage.0 && now < self.outage.1
    }

    /// The pair that a hash names while all pairs are joined, or when none is. Where that pair is
    /// not joined, it is a pair among those that are. So flows of joined pairs stay where they are.
    fn pair(&self, hash: u32, now: Instant, is_dead: &dyn Fn(u32) -> bool) -> u32 {
        let all = self.each * self.each;
        let first = pick(hash, SALT, all);
        if !self.is_outage(now) {
            return first;
        }
        let is_joined = |pair: &u32| {
            let links = &self.links[*pair as usize];
            links.iter().any(|ports| !ports.iter().any(|port| is_dead(*port)))
        };
        if is_joined(&first) {
            return first;
        }
        let joined = || (0..all).filter(is_joined);
        match u32::try_from(joined().count()).unwrap_or(0) {
            0 => first,
            count => joined().nth(pick(hash, SALT_AGAIN, count) as usize).unwrap_or(first),
        }
    }
}

/// Whether ports up of a switch lead to one of `borders`.
fn leads_to(spec: &SwitchSpec, ports: &[PortSpec], borders: &[u32]) -> bool {
    let ups = spec.up_ports();
    let mut far = ups.filter_map(|port| ports.get(port as usize)).map(|port| port.to);
    far.any(|to| matches!(to, Node::Switch(switch) if borders.contains(&switch)))
}

#[cfg(test)]
mod tests {
    use transport::{Duration, Rate};

    use super::*;
    use crate::qdisc::{QdiscKind, QdiscParams};

    /// Two sites of one host each, one switch above it, and two border switches: switches 0 and 1
    /// are those of hosts, 2 to 5 the border switches. A single link leads from each to each.
    fn mesh() -> (Mesh, Vec<SwitchSpec>) {
        let params = QdiscParams::for_buffer(
            transport::Bytes(9000),
            transport::Bytes(900),
            QdiscParams::MARK,
        );
        let mut ports = Vec::new();
        let mut link = |owner: Node, to: Node| {
            let (rate, delay) = (Rate::from_gbps(100), Duration::from_us(1));
            let (qdisc, stamps) = (QdiscKind::DropTail, false);
            ports.push(PortSpec { rate, delay, qdisc, params, stamps, owner, to });
        };
        let switch = Node::Switch;
        (0..2).for_each(|host| link(Node::Host(host), switch(host)));
        for site in 0..2 {
            link(switch(site), Node::Host(site));
            (0..2).for_each(|border| link(switch(site), switch(2 + 2 * site + border)));
        }
        for border in 0..4 {
            link(switch(2 + border), switch(border / 2));
            let others = 4 - border / 2 * 2;
            (0..2).for_each(|other| link(switch(2 + border), switch(others + other)));
        }
        let spec = |(number, site): (u32, u32)| SwitchSpec {
            first_host: site,
            hosts: 1,
            child_hosts: 1,
            bundle: 1,
            down_port: 2 + 3 * number,
            up_port: 3 + 3 * number,
            ups: 2,
            asides: 0,
        };
        let switches: Vec<_> = (0..).zip([0, 1, 0, 0, 1, 1]).map(spec).collect();
        (Mesh::new(&[2, 3, 4, 5], &ports, &switches).unwrap(), switches)
    }

    /// The border switches on the way from the host of a site to the other one.
    fn way(mesh: &Mesh, site: u32, hash: u32, now: Instant, dead: &[u32]) -> [u32; 2] {
        let is_dead = |port: u32| dead.contains(&port);
        let dst = HostId(1 - site);
        let up = mesh.port(site, (dst, hash), now, &is_dead).unwrap();
        let border = 2 + 2 * site + (up - (3 + 3 * site));
        let across = mesh.port(border, (dst, hash), now, &is_dead).unwrap();
        let other = 2 + 2 * (1 - site) + (across - (3 + 3 * border));
        assert_eq!(mesh.port(other, (dst, hash), now, &is_dead), None, "down from there");
        [border, other]
    }

    const NOW: Instant = Instant::from_ps(50);

    fn hashes() -> impl Iterator<Item = u32> {
        (0..4000u32).map(|hash| hash.wrapping_mul(0x9E37_79B9))
    }

    #[test]
    fn both_directions_take_one_pair_and_pairs_share_evenly() {
        let (mesh, _) = mesh();
        let mut counts = [[0; 2]; 2];
        for hash in hashes() {
            let [one, other] = way(&mesh, 0, hash, NOW, &[]);
            assert_eq!(way(&mesh, 1, hash, NOW, &[]), [other, one]);
            counts[one as usize - 2][other as usize - 4] += 1;
        }
        assert!(
            counts.as_flattened().iter().all(|count| (900..1100).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_pair_whose_link_is_dead_in_one_direction_is_left_out_in_both_while_it_is() {
        let (mut mesh, switches) = mesh();
        mesh.widen_outage(Instant::from_ps(10), Instant::from_ps(60));
        // From the second border switch of the second site to the first one of the first.
        let dead = [switches[5].up_port];
        let mut moved = [[0; 2]; 2];
        for hash in hashes() {
            let found = way(&mesh, 0, hash, NOW, &dead);
            assert_ne!(found, [2, 5]);
            assert_eq!(way(&mesh, 1, hash, NOW, &dead), [found[1], found[0]]);
            let before = way(&mesh, 0, hash, Instant::from_ps(9), &dead);
            assert_eq!(before, way(&mesh, 0, hash, Instant::from_ps(60), &dead), "it comes back");
            let [one, other] = found;
            moved[one as usize - 2][other as usize - 4] += u32::from(before == [2, 5]);
            assert!(found == before || before == [2, 5], "a flow of a joined pair stays");
        }
        // Hashes that named one pair are alike, and still share all others evenly.
        let [[a, none], [b, c]] = moved;
        assert!(none == 0 && [a, b, c].iter().all(|count| (280..390).contains(count)), "{moved:?}");
    }

    #[test]
    fn a_border_switch_that_is_down_is_of_no_pair() {
        let (mut mesh, switches) = mesh();
        mesh.widen_outage(Instant::from_ps(10), Instant::from_ps(60));
        let dead: Vec<u32> = switches[4].ports().collect();
        for hash in hashes() {
            assert_eq!(way(&mesh, 0, hash, NOW, &dead)[1], 5);
            assert_eq!(way(&mesh, 1, hash, NOW, &dead)[0], 5);
        }
    }

    #[test]
    fn sites_of_one_border_switch_have_no_mesh() {
        let (_, switches) = mesh();
        assert!(Mesh::new(&[2, 4], &[], &switches).is_none());
        assert!(Mesh::new(&[], &[], &switches).is_none());
    }
}
