//! What a request of a host or of a Core asks for, and requests that wait for their decision.

use transport::wire::pod::{CoreRts, Delivered, Rts};

/// What a member asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) rts: Rts,
    /// From a Core: the pods for which it takes no more cells.
    pub(super) paused: u32,
    /// From a Core: a host, and cells of it that have been delivered.
    pub(super) delivered: Option<(u16, Delivered)>,
}

/// A request that waits for its decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// The epoch in which it left.
    pub(super) epoch: u64,
    /// The member that sent the request.
    pub(super) member: u16,
    pub(super) asked: Asked,
}

/// The requests that wait, in the order of the epochs in which they left. The next place has the
/// one that was read last. A request is read into its place, because a processor stalls when it
/// copies what it has just written field by field.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    /// A place more than requests that may wait.
    places: Vec<Waiting>,
    waiting: usize,
}

impl Requests {
    /// None yet, of `most` that may wait.
    pub(super) fn new(most: usize) -> Self {
        let asked = Asked { rts: Rts::VACANT, paused: 0, delivered: None };
        Self { places: vec![Waiting { epoch: 0, member: 0, asked }; most + 1], waiting: 0 }
    }

    /// Reads the next request, which `member` has sent; false where it is none.
    #[inline]
    pub(super) fn read(&mut self, member: u16, read: impl FnOnce(&mut Asked) -> bool) -> bool {
        let next = &mut self.places[self.waiting];
        next.member = member;
        read(&mut next.asked)
    }

    /// The request that was read last.
    #[inline]
    pub(super) fn last_read(&self) -> &Rts {
        &self.places[self.waiting].asked.rts
    }

    /// The request that was read last left in `epoch`, and waits. There is a place for the next
    /// one, by the bound of what waits. Requests come in the order of their epochs, unless one is
    /// late.
    #[inline]
    pub(super) fn keep(&mut self, epoch: u64) {
        let at = self.waiting;
        self.places[at].epoch = epoch;
        if at > 0 && self.places[at - 1].epoch > epoch {
            let behind = self.places[..at].partition_point(|other| other.epoch <= epoch);
            self.places[behind..=at].rotate_right(1);
        }
        self.waiting += 1;
    }

    /// The requests that wait.
    #[inline]
    pub(super) fn waiting(&self) -> &[Waiting] {
        &self.places[..self.waiting]
    }

    /// Takes the first `count` away.
    #[inline]
    pub(super) fn end(&mut self, count: usize) {
        self.places.copy_within(count..self.waiting, 0);
        self.waiting -= count;
    }

    /// Removes all that wait; the request that was read last may still be added.
    pub(super) fn clear(&mut self) {
        self.places.swap(0, self.waiting);
        self.waiting = 0;
    }
}

impl Asked {
    pub(super) const fn of_host(rts: Rts) -> Self {
        Self { rts, paused: 0, delivered: None }
    }

    pub(super) const fn of_core(rts: &CoreRts) -> Self {
        let CoreRts { term, epoch, update, paused, delivered, lost } = *rts;
        let rts = Rts { term, epoch, update, lost, ..Rts::VACANT };
        Self { rts, paused, delivered }
    }
}
