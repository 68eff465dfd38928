//! Buffers that a flow needs only while messages are on their way to it: lent when the first
//! segment arrives, taken back when all messages are whole.
//!
//! There is one place for each of a fixed number of flows. All places are reserved at once, and a
//! place is first touched when that many flows receive at the same time. The place that was given
//! back last is lent first. So an endpoint with many flows touches memory only for those that are
//! receiving. Nothing is allocated after [`RxBuffers::new`].

use alloc::vec::Vec;

use super::pending::Pending;
use super::reassembly::MsgState;
use crate::config::Config;

/// The place that is lent to a flow, if any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lease(u32);

impl Lease {
    /// A lease of no buffers.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// One place, borrowed.
pub(crate) struct RxBuffer<'a> {
    /// The ring of [`super::received::ReceivedPsns`].
    pub(crate) words: &'a mut [u64],
    /// The ring of [`super::reassembly::MsgWindow`].
    pub(crate) ring: &'a mut [MsgState],
    /// The newest segment not yet acknowledged, and how many there are.
    pub(crate) pending: &'a mut Pending,
}

/// All places of an endpoint. Places that are not lent are empty.
#[derive(Debug)]
pub(crate) struct RxBuffers {
    words: Vec<u64>,
    rings: Vec<MsgState>,
    pending: Vec<Pending>,
    free: Vec<u32>,
    /// Words and messages of a place.
    shape: (usize, usize),
    capacity: usize,
}

impl RxBuffers {
    /// A place for each incoming flow that `config` allows.
    pub(crate) fn new(config: &Config) -> Self {
        let capacity = config.rx_flows_max as usize;
        let words = (config.psn_window / 64) as usize;
        let ring = usize::from(config.msg_window).next_power_of_two();
        Self {
            words: Vec::with_capacity(words * capacity),
            rings: Vec::with_capacity(ring * capacity),
            pending: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            shape: (words, ring),
            capacity,
        }
    }

    /// Lends an empty place; `None` when all are lent.
    pub(crate) fn lend(&mut self) -> Option<Lease> {
        if let Some(index) = self.free.pop() {
            return Some(Lease(index));
        }
        let places = self.pending.len();
        if places == self.capacity {
            return None;
        }
        // Within the capacity that was reserved.
        self.words.resize((places + 1) * self.shape.0, 0);
        self.rings.resize((places + 1) * self.shape.1, MsgState::Unseen);
        self.pending.push(None);
        u32::try_from(places).ok().map(Lease)
    }

    /// Takes a place back, which the flow has emptied.
    pub(crate) fn take_back(&mut self, lease: Lease) {
        debug_assert!(self.get(lease).is_none_or(|place| {
            let vacant = place.ring.iter().all(|state| *state == MsgState::Unseen);
            vacant && place.words.iter().all(|word| *word == 0) && place.pending.is_none()
        }));
        self.free.push(lease.0);
    }

    /// The place of a lease.
    #[inline]
    pub(crate) fn get(&mut self, lease: Lease) -> Option<RxBuffer<'_>> {
        let (index, (words, ring)) = (lease.0 as usize, self.shape);
        Some(RxBuffer {
            pending: self.pending.get_mut(index)?,
            words: self.words.get_mut(index * words..(index + 1) * words)?,
            ring: self.rings.get_mut(index * ring..(index + 1) * ring)?,
        })
    }

    /// The PSN words of a lease; none without one.
    #[inline]
    pub(crate) fn words(&self, lease: Lease) -> &[u64] {
        let (index, words) = (lease.0 as usize, self.shape.0);
        self.words.get(index * words..(index + 1) * words).unwrap_or_default()
    }

    /// The message ring of a lease; none without one.
    pub(crate) fn ring(&self, lease: Lease) -> &[MsgState] {
        let (index, ring) = (lease.0 as usize, self.shape.1);
        self.rings.get(index * ring..(index + 1) * ring).unwrap_or_default()
    }

    /// The segments of a lease that wait to be acknowledged.
    #[inline]
    pub(crate) fn pending(&self, lease: Lease) -> Pending {
        self.pending.get(lease.0 as usize).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::units::MsgId;

    #[test]
    fn places_are_lent_last_in_first_out_and_only_as_many_as_there_are() {
        let config = Settings { rx_flows_max: 2, psn_window: 128, ..Settings::default() };
        let mut buffers = RxBuffers::new(&Config::new(config).unwrap());
        let (a, b) = (buffers.lend().unwrap(), buffers.lend().unwrap());
        assert!(a != b && buffers.lend().is_none());
        buffers.get(a).unwrap().words[1] = 7;
        buffers.get(b).unwrap().ring[0] = MsgState::Open(MsgId(3));
        assert_eq!((buffers.words(a), buffers.words(b)), (&[0, 7][..], &[0, 0][..]));
        assert_eq!(buffers.ring(b)[0], MsgState::Open(MsgId(3)));
        buffers.get(a).unwrap().words[1] = 0;
        buffers.take_back(a);
        assert_eq!(buffers.lend(), Some(a));
    }

    #[test]
    fn without_a_lease_there_is_nothing_to_see() {
        let mut buffers = RxBuffers::new(&Config::new(Settings::default()).unwrap());
        assert!(buffers.get(Lease::NONE).is_none() && buffers.pending(Lease::NONE).is_none());
        assert!(buffers.words(Lease::NONE).is_empty() && buffers.ring(Lease::NONE).is_empty());
    }
}
