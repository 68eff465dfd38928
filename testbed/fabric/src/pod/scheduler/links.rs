//! Which links may be used: those that the operator has taken down or receipts have accused may
//! not. Source: \[zeropod\] IV-E.
//!
//! ```text
//!              misses without a success in between
//!     works ------------------------------------> accused, for a time that doubles
//!       ^ ^                                          |    ^    ^
//!       | |               +--------------------------+    |    |
//!       | |               v     a grant                   |    |
//!       | |           on trial ---------> tried --- a miss     |
//!       | |               ^                 |  |               |
//!       | |               +-- no word of it +  |               |
//!       | +------------------- a success ------+               |
//!     repaired by the operator
//! ```
//!
//! A link on trial carries the cells of one grant. It is avoided until these are judged, so that a
//! broken link costs an epoch of one sender for each trial, however long its cells are under way.
//!
//! If cells of a host fail by several Aggs and arrive by none, no link is accused: the host or its
//! own link has failed. The last working link of a switch is never accused either: where all links
//! fail, the fault is behind the switch, and some hosts there may still send.

use crate::pod::ports::{Grant, IdlePorts};
use crate::pod::shape::{LANES, LAYERS, Shape};

/// A link of the pod, in one direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PodLink {
    /// The link from a ToR to an Agg.
    Up {
        /// The ToR.
        tor: u8,
        /// The Agg.
        agg: u8,
    },
    /// The link from an Agg to a ToR.
    Down {
        /// The ToR.
        tor: u8,
        /// The Agg.
        agg: u8,
    },
    /// The link to a Core from its Agg.
    ToCore(u16),
    /// The link from a Core to its Agg.
    FromCore(u16),
}

const PAIRS: usize = LANES * LANES;
const CORES: usize = LANES * LAYERS;
const LINKS: usize = 2 * PAIRS + 2 * CORES;

/// What receipts say of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LinkVerdict {
    Works,
    /// The link is avoided up to an epoch.
    Accused(u64),
    /// The next grant by the link shows whether it works.
    OnTrial,
    /// The link is avoided until the cells of its grant are judged, or up to an epoch.
    Tried(u64),
}

/// The state of one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    /// Taken down by the operator.
    down: bool,
    standing: LinkVerdict,
    /// Epochs in a row in which it may have lost cells.
    misses: u8,
    /// The other link of the path that failed last.
    partner: u16,
    /// Whether failed paths had more than one other link, or the link has been accused before.
    partners: bool,
    /// Accusations since the link last worked; each doubles how long the next one lasts.
    accusations: u8,
}

impl State {
    const fn is_avoided(&self) -> bool {
        self.down || matches!(self.standing, LinkVerdict::Accused(_) | LinkVerdict::Tried(_))
    }

    /// Whether a failure of its path is no evidence against the path's other link.
    const fn explains(&self) -> bool {
        self.down || matches!(self.standing, LinkVerdict::Accused(_))
    }
}

const WORKS: State = State {
    down: false,
    standing: LinkVerdict::Works,
    misses: 0,
    partner: NONE,
    partners: false,
    accusations: 0,
};
const NONE: u16 = u16::MAX;

/// Factor for the misses that accuse a link whose failed paths all had the same other link, because
/// the other one may be the broken one.
const ONE_PARTNER: u8 = 4;

/// Doublings of the time for which a link is avoided, at most.
const DOUBLINGS: u8 = 6;

/// The links of a pod.
#[derive(Clone, Debug)]
pub(super) struct Links {
    shape: Shape,
    states: Vec<State>,
    /// Links by which failed, and by which successful paths of one epoch went, a bit each.
    failed: [u64; LINKS / 64],
    worked: [u64; LINKS / 64],
    /// For each link of a failed path: the path's other link.
    partners: Vec<u16>,
    /// The Aggs by which each host's paths have failed since one of them worked, a bit each: of
    /// hosts that send, and of those that receive.
    failed_by: [Vec<u32>; 2],
    /// Links that have been accused and have not worked since.
    accused: usize,
    misses: u8,
    retry: u64,
    /// The pod with all links idle that may be used.
    pub(super) usable: IdlePorts,
}

impl Links {
    /// All links work. One is accused after `misses` epochs, or never where that is 0, and tried
    /// again after `retry` epochs.
    pub(super) fn new(shape: &Shape, misses: u8, retry: u64) -> Self {
        Self {
            shape: *shape,
            states: vec![WORKS; LINKS],
            failed: [0; LINKS / 64],
            worked: [0; LINKS / 64],
            partners: vec![NONE; LINKS],
            failed_by: [vec![0; shape.hosts()], vec![0; shape.hosts()]],
            accused: 0,
            misses,
            retry,
            usable: IdlePorts::idle(shape),
        }
    }

    /// Whether links are accused at all.
    pub(super) const fn accuses(&self) -> bool {
        self.misses > 0
    }

    /// Whether some link has been accused and has not worked since.
    pub(super) const fn any_accused(&self) -> bool {
        self.accused > 0
    }

    /// Whether the pod has such a link.
    pub(super) fn has(&self, link: PodLink) -> bool {
        match link {
            PodLink::Up { tor, agg } | PodLink::Down { tor, agg } => {
                usize::from(tor) < self.shape.tors() && usize::from(agg) < self.shape.aggs()
            }
            PodLink::ToCore(core) | PodLink::FromCore(core) => {
                usize::from(core) < self.shape.cores()
            }
        }
    }

    /// Takes a link down, or puts it to work again with a clean record.
    pub(super) fn set(&mut self, link: PodLink, works: bool) {
        let state = &mut self.states[index(link)];
        self.accused -= usize::from(state.standing != LinkVerdict::Works);
        *state = State { down: !works, ..WORKS };
        self.refresh(link);
    }

    /// Whether a link is avoided.
    pub(super) fn is_avoided(&self, link: PodLink) -> bool {
        self.states[index(link)].is_avoided()
    }

    /// Notes that cells which should have come by the route of a grant did, or did not. A failure
    /// by a link that has been accused since is no evidence against the other link. A failure of a
    /// host whose paths fail by other Aggs as well is no evidence against links.
    #[expect(clippy::cast_possible_truncation, reason = "numbers of links are below 2^16")]
    pub(super) fn note(&mut self, grant: &Grant, arrived: bool) {
        let [first, last] = self.route(grant).map(index);
        if !arrived && [first, last].iter().any(|at| self.states[*at].explains()) {
            return;
        }
        if self.is_of_a_host(grant, arrived) {
            return;
        }
        for (at, partner) in [(first, last), (last, first)] {
            let set = if arrived { &mut self.worked } else { &mut self.failed };
            set[at / 64] |= 1 << (at % 64);
            self.partners[at] = partner as u16;
        }
    }

    /// Notes by which Agg cells of these hosts failed; whether those of one of them have failed by
    /// others, too, since they arrived by any.
    fn is_of_a_host(&mut self, grant: &Grant, arrived: bool) -> bool {
        let receiver = match grant.to {
            crate::pod::To::Host(host) => Some(host),
            crate::pod::To::Pod(_) => None,
        };
        let mut several = false;
        for (failed_by, host) in self.failed_by.iter_mut().zip([Some(grant.sender), receiver]) {
            // Ports of Cores send, too.
            let aggs = host.and_then(|host| failed_by.get_mut(usize::from(host)));
            if let Some(aggs) = aggs {
                *aggs = if arrived { 0 } else { *aggs | 1 << grant.agg };
                several |= aggs.count_ones() > 1;
            }
        }
        several
    }

    /// Judges the paths noted for one epoch, and forgets them; how many links this accuses.
    ///
    /// The links of failed paths less those of paths that worked are suspect.
    //= zeropod#IV-E
    pub(super) fn judge(&mut self, epoch: u64) -> u64 {
        let mut accused = 0;
        for word in 0..LINKS / 64 {
            let (mut worked, failed) = (self.worked[word], self.failed[word]);
            let mut suspect = failed & !worked;
            (self.worked[word], self.failed[word]) = (0, 0);
            while worked != 0 {
                self.acquit(word * 64 + worked.trailing_zeros() as usize);
                worked &= worked - 1;
            }
            while suspect != 0 {
                let at = word * 64 + suspect.trailing_zeros() as usize;
                suspect &= suspect - 1;
                accused += u64::from(self.miss(at, epoch));
            }
        }
        accused
    }

    /// Counts a miss of a link; true when it is accused for it.
    fn miss(&mut self, at: usize, epoch: u64) -> bool {
        let state = &mut self.states[at];
        state.misses = state.misses.saturating_add(1);
        state.partners |= state.partner != NONE && state.partner != self.partners[at];
        state.partner = self.partners[at];
        let factor = if state.partners { 1 } else { ONE_PARTNER };
        let enough = state.misses >= self.misses.saturating_mul(factor);
        if self.misses == 0 || state.explains() || !enough || self.is_last(link_of(at)) {
            return false;
        }
        let state = &mut self.states[at];
        self.accused += usize::from(state.standing == LinkVerdict::Works);
        state.standing =
            LinkVerdict::Accused(epoch + (self.retry << state.accusations.min(DOUBLINGS)));
        state.accusations = state.accusations.saturating_add(1);
        self.refresh(link_of(at));
        true
    }

    /// A link has worked. One that was accused before it had a trial stays so: what worked may have
    /// left before.
    fn acquit(&mut self, at: usize) {
        let state = &mut self.states[at];
        (state.misses, state.accusations) = (0, 0);
        (state.partner, state.partners) = (NONE, false);
        if matches!(state.standing, LinkVerdict::OnTrial | LinkVerdict::Tried(_)) {
            state.standing = LinkVerdict::Works;
            self.accused -= 1;
            self.refresh(link_of(at));
        }
    }

    /// Whether no other link of a ToR in this direction works.
    fn is_last(&self, link: PodLink) -> bool {
        let other = |agg: u8| match link {
            PodLink::Up { tor, agg: own } if own != agg => Some(PodLink::Up { tor, agg }),
            PodLink::Down { tor, agg: own } if own != agg => Some(PodLink::Down { tor, agg }),
            _ => None,
        };
        let works = |link: PodLink| {
            let state = &self.states[index(link)];
            !state.down && state.standing == LinkVerdict::Works
        };
        let is_of_a_tor = matches!(link, PodLink::Up { .. } | PodLink::Down { .. });
        let aggs = u8::try_from(self.shape.aggs()).unwrap_or(u8::MAX);
        is_of_a_tor && !(0..aggs).filter_map(other).any(works)
    }

    /// Puts accused links on trial whose time has come.
    pub(super) fn retry(&mut self, epoch: u64) {
        if self.accused == 0 {
            return;
        }
        for at in 0..LINKS {
            let state = &mut self.states[at];
            let (LinkVerdict::Accused(until) | LinkVerdict::Tried(until)) = state.standing else {
                continue;
            };
            if until <= epoch {
                // One more miss is enough.
                (state.misses, state.partners) = (self.misses.saturating_sub(1), true);
                state.standing = LinkVerdict::OnTrial;
                self.refresh(link_of(at));
            }
        }
    }

    /// Links on trial that these grants use are avoided until the grants are judged, up to epoch
    /// `until`.
    pub(super) fn try_out(&mut self, grants: &[Grant], until: u64) {
        if self.accused == 0 {
            return;
        }
        for grant in grants {
            for link in self.route(grant) {
                let state = &mut self.states[index(link)];
                if state.standing == LinkVerdict::OnTrial {
                    state.standing = LinkVerdict::Tried(until);
                    self.refresh(link);
                }
            }
        }
    }

    /// The two links of a route.
    fn route(&self, grant: &Grant) -> [PodLink; 2] {
        let (sender, agg) = (usize::from(grant.sender), grant.agg);
        let tor = |host: usize| u8::try_from(self.shape.place(host).0).unwrap_or(u8::MAX);
        let first = match u16::try_from(sender.saturating_sub(self.shape.hosts())) {
            Ok(core) if sender >= self.shape.hosts() => PodLink::FromCore(core),
            _ => PodLink::Up { tor: tor(sender), agg },
        };
        let last = match (grant.to, grant.core) {
            (crate::pod::To::Host(host), _) => PodLink::Down { tor: tor(usize::from(host)), agg },
            (crate::pod::To::Pod(_), core) => PodLink::ToCore(core.unwrap_or(0)),
        };
        [first, last]
    }

    /// Brings `usable` in line with one link.
    fn refresh(&mut self, link: PodLink) {
        let usable = !self.is_avoided(link);
        let ports = &mut self.usable;
        let (word, agg) = match link {
            PodLink::Up { tor, agg } => (&mut ports.up.0[usize::from(tor)], usize::from(agg)),
            PodLink::Down { tor, agg } => (&mut ports.down.0[usize::from(tor)], usize::from(agg)),
            PodLink::ToCore(core) => {
                let (agg, layer) = self.shape.core_place(usize::from(core));
                (&mut ports.to_core[layer], agg)
            }
            PodLink::FromCore(core) => {
                let (agg, layer) = self.shape.core_place(usize::from(core));
                (&mut ports.from_core[layer], agg)
            }
        };
        *word = *word & !(1 << agg) | u32::from(usable) << agg;
    }
}

fn index(link: PodLink) -> usize {
    match link {
        PodLink::Up { tor, agg } => usize::from(tor) * LANES + usize::from(agg),
        PodLink::Down { tor, agg } => PAIRS + usize::from(tor) * LANES + usize::from(agg),
        PodLink::ToCore(core) => 2 * PAIRS + usize::from(core),
        PodLink::FromCore(core) => 2 * PAIRS + CORES + usize::from(core),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "each part is below its range")]
fn link_of(at: usize) -> PodLink {
    let pair = |at: usize| ((at / LANES) as u8, (at % LANES) as u8);
    if at < PAIRS {
        let (tor, agg) = pair(at);
        PodLink::Up { tor, agg }
    } else if at < 2 * PAIRS {
        let (tor, agg) = pair(at - PAIRS);
        PodLink::Down { tor, agg }
    } else if at < 2 * PAIRS + CORES {
        PodLink::ToCore((at - 2 * PAIRS) as u16)
    } else {
        PodLink::FromCore((at - 2 * PAIRS - CORES) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::To;

    #[test]
    fn links_and_their_numbers_are_inverse() {
        for at in 0..LINKS {
            assert_eq!(index(link_of(at)), at);
        }
    }

    #[test]
    fn the_link_that_failed_paths_share_is_accused_and_those_that_worked_are_not() {
        let shape = Shape::square(16).unwrap();
        let mut links = Links::new(&shape, 3, 100);
        let bad = PodLink::Down { tor: 2, agg: 1 };
        // From ToRs 0 and 3 by the bad link to ToR 2; ToR 0's link up is proved by a path to ToR 3.
        let failed = |epoch| {
            let sender = if epoch % 2 == 0 { 0 } else { 12 };
            Grant { sender, to: To::Host(8), agg: 1, core: None }
        };
        let worked = Grant { sender: 1, to: To::Host(12), agg: 1, core: None };
        for epoch in 0..3 {
            assert!(!links.is_avoided(bad) && links.usable.down_is_idle(2, 1));
            links.note(&failed(epoch), false);
            links.note(&worked, true);
            assert_eq!(links.judge(epoch), u64::from(epoch == 2));
        }
        assert!(links.is_avoided(bad) && !links.usable.down_is_idle(2, 1));
        assert!(links.usable.up_is_idle(0, 1) && links.usable.down_is_idle(3, 1));
        // On trial after its time; one more miss, and it is avoided for twice as long.
        links.retry(101);
        assert!(links.is_avoided(bad));
        links.retry(102);
        assert!(!links.is_avoided(bad));
        links.note(&failed(0), false);
        links.note(&worked, true);
        assert_eq!(links.judge(110), 1);
        links.retry(309);
        assert!(links.is_avoided(bad));
        links.retry(310);
        assert!(!links.is_avoided(bad));
        // Failures of paths by the link while it is avoided count against no other link.
        for epoch in 310..340 {
            links.set(bad, false);
            links.note(&failed(epoch), false);
            assert_eq!(links.judge(epoch), 0);
        }
        // On trial it carries one grant; without word of that it is tried again, and with good word
        // it works.
        links.set(bad, true);
        for epoch in 0..3 {
            links.note(&failed(epoch), false);
            links.note(&worked, true);
            links.judge(epoch);
        }
        let tried = failed(0);
        links.try_out(&[tried], 150);
        links.retry(102);
        links.try_out(&[worked], 150);
        assert!(!links.is_avoided(bad));
        links.try_out(&[tried], 150);
        assert!(links.is_avoided(bad));
        links.retry(150);
        assert!(!links.is_avoided(bad));
        links.try_out(&[tried], 200);
        links.note(&tried, true);
        links.judge(199);
        assert!(!links.is_avoided(bad) && links.accused == 0);
        // A success takes everything back.
        links.note(&failed(0), true);
        links.judge(311);
        for epoch in 312..314 {
            links.note(&failed(epoch), false);
            assert_eq!(links.judge(epoch), 0);
        }
    }

    /// Plays epochs in which some grants fail and others arrive; returns the least number of links
    /// that may be used at an end.
    fn least(links: &mut Links, epochs: u64, fail: &[Grant], arrive: &[Grant]) -> [u32; 2] {
        let mut least = [u32::MAX; 2];
        for epoch in 0..epochs {
            links.retry(epoch);
            links.try_out(fail, epoch + 20);
            fail.iter().for_each(|grant| links.note(grant, false));
            arrive.iter().for_each(|grant| links.note(grant, true));
            links.judge(epoch);
            let usable = [links.usable.up.0[0], links.usable.down.0[2]].map(u32::count_ones);
            least = [0, 1].map(|end| least[end].min(usable[end]));
        }
        least
    }

    #[test]
    fn the_last_link_of_a_switch_is_not_accused() {
        let shape = Shape::square(16).unwrap();
        let mut links = Links::new(&shape, 3, 100);
        // From each host of a ToR to one of another by an Agg of its own.
        let fail = [0, 1, 2, 3].map(|host| {
            let to = To::Host(8 + u16::from(host));
            Grant { sender: host.into(), to, agg: host, core: None }
        });
        assert_eq!(least(&mut links, 1000, &fail, &[]), [1, 1]);
        assert!(
            (0..4).any(|agg| links.usable.up_is_idle(0, agg) && links.usable.down_is_idle(2, agg))
        );
    }

    #[test]
    fn a_host_that_is_gone_accuses_no_link() {
        let shape = Shape::square(16).unwrap();
        let mut links = Links::new(&shape, 3, 100);
        // Host 8 is gone, whatever Agg its cells pass, and host 9 of its rack receives nothing.
        let fail = [0, 1, 2, 3].map(|host| Grant {
            sender: host.into(),
            to: To::Host(8),
            agg: host,
            core: None,
        });
        assert_eq!(least(&mut links, 1000, &fail, &[]), [4, 4]);
        // A link of the rack breaks, as cells to another host show: 12 misses with one partner.
        let fails = Grant { sender: 4, to: To::Host(9), agg: 1, core: None };
        let works = Grant { sender: 4, to: To::Host(0), agg: 1, core: None };
        least(&mut links, 12, &[&fail[..], &[fails]].concat(), &[works]);
        assert!(links.is_avoided(PodLink::Down { tor: 2, agg: 1 }) && links.accused == 1);
    }

    #[test]
    fn the_operator_takes_links_down_and_repairs_them() {
        let shape = Shape::square(16).unwrap().with_cores(7, 1, 8, 0).unwrap();
        let mut links = Links::new(&shape, 3, 100);
        let idle = links.usable;
        let all = [PodLink::Up { tor: 3, agg: 0 }, PodLink::ToCore(6), PodLink::FromCore(2)];
        for link in all {
            links.set(link, false);
            links.retry(u64::MAX);
            assert!(links.is_avoided(link));
        }
        assert!(!links.usable.up_is_idle(3, 0) && links.usable != idle);
        all.iter().for_each(|link| links.set(*link, true));
        assert_eq!(links.usable, idle);
    }
}
