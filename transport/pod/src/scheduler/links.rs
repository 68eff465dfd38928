//! Which links may be used: those that the operator has taken down or receipts have accused may
//! not. Source: \[zeropod\] IV-E.
//!
//! ```text
//!              misses without a success in between
//!     works ------------------------------------> accused, for a time that doubles
//!       ^ ^                                          |        ^
//!       | +------ a success ----- on trial <---------+        |
//!       |                            +------ a miss ----------+
//!     repaired by the operator
//! ```

use crate::ports::{Grant, Ports};
use crate::shape::{LANES, LAYERS, Shape};

/// A link of the pod, in one direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Link {
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

/// The state of one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    /// Taken down by the operator.
    down: bool,
    /// Epochs in a row in which it may have lost cells.
    misses: u8,
    /// The other link of the path that failed last.
    partner: u16,
    /// Whether failed paths had more than one other link, or the link has been accused before.
    partners: bool,
    /// Accusations since it last worked; each doubles how long the next one lasts.
    accusations: u8,
    /// The epoch in which an accused link is tried again; 0 when it is not accused.
    until: u64,
}

const WORKS: State =
    State { down: false, misses: 0, partner: NONE, partners: false, accusations: 0, until: 0 };
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
    /// For each link of a failed path: the other one.
    partners: Vec<u16>,
    /// Accused links, whose time may come.
    accused: usize,
    misses: u8,
    retry: u64,
    /// The pod with all links idle that may be used.
    pub(super) usable: Ports,
}

impl Links {
    /// All links work. One is accused after `misses` epochs and tried again after `retry` epochs.
    pub(super) fn new(shape: &Shape, misses: u8, retry: u64) -> Self {
        Self {
            shape: *shape,
            states: vec![WORKS; LINKS],
            failed: [0; LINKS / 64],
            worked: [0; LINKS / 64],
            partners: vec![NONE; LINKS],
            accused: 0,
            misses,
            retry,
            usable: Ports::idle(shape),
        }
    }

    /// Whether the pod has such a link.
    pub(super) fn has(&self, link: Link) -> bool {
        match link {
            Link::Up { tor, agg } | Link::Down { tor, agg } => {
                usize::from(tor) < self.shape.tors() && usize::from(agg) < self.shape.aggs()
            }
            Link::ToCore(core) | Link::FromCore(core) => usize::from(core) < self.shape.cores(),
        }
    }

    /// Takes a link down, or puts it to work again with a clean record.
    pub(super) fn set(&mut self, link: Link, works: bool) {
        let state = &mut self.states[index(link)];
        self.accused -= usize::from(state.until > 0);
        *state = State { down: !works, ..WORKS };
        self.refresh(link);
    }

    /// Whether a link is avoided.
    pub(super) fn is_avoided(&self, link: Link) -> bool {
        let state = &self.states[index(link)];
        state.down || state.until > 0
    }

    /// Notes that cells which should have come by the route of a grant did, or did not. A failure
    /// by a link that has been accused since says nothing about the other one.
    #[expect(clippy::cast_possible_truncation, reason = "numbers of links are below 2^16")]
    pub(super) fn note(&mut self, grant: &Grant, arrived: bool) {
        let route = self.route(grant);
        if !arrived && route.iter().any(|link| self.is_avoided(*link)) {
            return;
        }
        let [first, last] = route.map(index);
        for (at, partner) in [(first, last), (last, first)] {
            let set = if arrived { &mut self.worked } else { &mut self.failed };
            set[at / 64] |= 1 << (at % 64);
            self.partners[at] = partner as u16;
        }
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
                let state = &mut self.states[word * 64 + worked.trailing_zeros() as usize];
                (state.misses, state.accusations) = (0, 0);
                (state.partner, state.partners) = (NONE, false);
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
        if state.until > 0 || state.down || !enough {
            return false;
        }
        state.until = epoch + (self.retry << state.accusations.min(DOUBLINGS));
        state.accusations = state.accusations.saturating_add(1);
        self.accused += 1;
        self.refresh(link_of(at));
        true
    }

    /// Tries accused links again whose time has come.
    pub(super) fn retry(&mut self, epoch: u64) {
        if self.accused == 0 {
            return;
        }
        for at in 0..LINKS {
            let state = &mut self.states[at];
            if state.until > 0 && state.until <= epoch {
                // One more miss is enough.
                (state.until, state.misses, state.partners) = (0, self.misses - 1, true);
                self.accused -= 1;
                self.refresh(link_of(at));
            }
        }
    }

    /// The two links of a route.
    fn route(&self, grant: &Grant) -> [Link; 2] {
        let (sender, agg) = (usize::from(grant.sender), grant.agg);
        let tor = |host: usize| u8::try_from(self.shape.place(host).0).unwrap_or(u8::MAX);
        let first = match u16::try_from(sender.saturating_sub(self.shape.hosts())) {
            Ok(core) if sender >= self.shape.hosts() => Link::FromCore(core),
            _ => Link::Up { tor: tor(sender), agg },
        };
        let last = match (grant.to, grant.core) {
            (crate::To::Host(host), _) => Link::Down { tor: tor(usize::from(host)), agg },
            (crate::To::Pod(_), core) => Link::ToCore(core.unwrap_or(0)),
        };
        [first, last]
    }

    /// Brings `usable` in line with one link.
    fn refresh(&mut self, link: Link) {
        let usable = !self.is_avoided(link);
        let ports = &mut self.usable;
        let (word, agg) = match link {
            Link::Up { tor, agg } => (&mut ports.up.0[usize::from(tor)], usize::from(agg)),
            Link::Down { tor, agg } => (&mut ports.down.0[usize::from(tor)], usize::from(agg)),
            Link::ToCore(core) => {
                let (agg, layer) = self.shape.core_place(usize::from(core));
                (&mut ports.to_core[layer], agg)
            }
            Link::FromCore(core) => {
                let (agg, layer) = self.shape.core_place(usize::from(core));
                (&mut ports.from_core[layer], agg)
            }
        };
        *word = *word & !(1 << agg) | u32::from(usable) << agg;
    }
}

fn index(link: Link) -> usize {
    match link {
        Link::Up { tor, agg } => usize::from(tor) * LANES + usize::from(agg),
        Link::Down { tor, agg } => PAIRS + usize::from(tor) * LANES + usize::from(agg),
        Link::ToCore(core) => 2 * PAIRS + usize::from(core),
        Link::FromCore(core) => 2 * PAIRS + CORES + usize::from(core),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "each part is below its range")]
fn link_of(at: usize) -> Link {
    let pair = |at: usize| ((at / LANES) as u8, (at % LANES) as u8);
    if at < PAIRS {
        let (tor, agg) = pair(at);
        Link::Up { tor, agg }
    } else if at < 2 * PAIRS {
        let (tor, agg) = pair(at - PAIRS);
        Link::Down { tor, agg }
    } else if at < 2 * PAIRS + CORES {
        Link::ToCore((at - 2 * PAIRS) as u16)
    } else {
        Link::FromCore((at - 2 * PAIRS - CORES) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::To;

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
        let bad = Link::Down { tor: 2, agg: 1 };
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
        links.set(bad, true);
        // A success takes everything back.
        links.note(&failed(0), true);
        links.judge(311);
        for epoch in 312..314 {
            links.note(&failed(epoch), false);
            assert_eq!(links.judge(epoch), 0);
        }
    }

    #[test]
    fn the_operator_takes_links_down_and_repairs_them() {
        let shape = Shape::square(16).unwrap().with_cores(7, 1, 8, 0).unwrap();
        let mut links = Links::new(&shape, 3, 100);
        let idle = links.usable;
        let all = [Link::Up { tor: 3, agg: 0 }, Link::ToCore(6), Link::FromCore(2)];
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
