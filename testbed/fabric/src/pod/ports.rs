//! Ports that are idle or busy in one epoch: senders, receivers, links and Cores' ports.
//! Source: \[zeropod\] IV-A3.

use crate::pod::demands::To;
use crate::pod::shape::{LANES, LAYERS, PODS, Shape, Words, low_bits};

/// One demand that may send in an epoch, and its route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The sender: a host, or a Core as number `hosts + core`.
    pub sender: u16,
    /// The receiver.
    pub to: To,
    /// The Agg of the route.
    pub agg: u8,
    /// The Core of a route that leaves the pod.
    pub core: Option<u16>,
}

/// The idle ports of an epoch, a bit each. A bit that is not set is busy, down or avoided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdlePorts {
    /// Hosts that may send, a word a ToR.
    pub(super) send: Words,
    /// Hosts that may receive, a word a ToR.
    pub(super) recv: Words,
    /// For each ToR: Aggs to which its link is idle.
    pub(super) up: Words,
    /// For each ToR: Aggs from which its link is idle.
    pub(super) down: Words,
    /// For each layer: Aggs whose port to their Core is idle.
    pub(super) to_core: [u32; LAYERS],
    /// For each layer: Aggs whose port from their Core is idle; a Core is a sender by that.
    pub(super) from_core: [u32; LAYERS],
    /// For each pod and layer: Cores, by their Agg, that take cells for the pod.
    pub(super) relay: [[u32; LAYERS]; PODS],
    /// For each layer: Cores, by their Agg, that carry mice alone.
    pub(super) mice: [u32; LAYERS],
}

impl IdlePorts {
    /// A pod with nothing to do and nothing broken.
    #[must_use]
    pub fn idle(shape: &Shape) -> Self {
        let mut ports = Self {
            send: Words::ZERO,
            recv: Words::ZERO,
            up: Words::ZERO,
            down: Words::ZERO,
            to_core: [0; LAYERS],
            from_core: [0; LAYERS],
            relay: [[0; LAYERS]; PODS],
            mice: [0; LAYERS],
        };
        for tor in 0..shape.tors() {
            (ports.send.0[tor], ports.recv.0[tor]) = (shape.hosts_of(tor), shape.hosts_of(tor));
            (ports.up.0[tor], ports.down.0[tor]) = (shape.agg_mask(), shape.agg_mask());
        }
        for layer in 0..LAYERS {
            ports.mice[layer] = shape.layer_mask(layer, true);
            ports.to_core[layer] = ports.mice[layer] | shape.layer_mask(layer, false);
        }
        ports.from_core = ports.to_core;
        for pod in (0..shape.pods()).filter(|pod| *pod != shape.pod()) {
            ports.relay[pod] = ports.to_core;
        }
        ports
    }

    /// Whether a host may send.
    #[must_use]
    pub fn may_send(&self, shape: &Shape, host: usize) -> bool {
        let (tor, bit) = shape.place(host);
        self.send.0[tor] >> bit & 1 == 1
    }

    /// Whether a host may receive.
    #[must_use]
    pub fn may_receive(&self, shape: &Shape, host: usize) -> bool {
        let (tor, bit) = shape.place(host);
        self.recv.0[tor] >> bit & 1 == 1
    }

    /// Leaves a sender out: a host neither sends nor receives, a Core's port takes and gives
    /// nothing.
    pub(super) fn leave_out(&mut self, shape: &Shape, sender: usize) {
        if let Some(core) = sender.checked_sub(shape.hosts()) {
            let (agg, layer) = shape.core_place(core);
            self.from_core[layer] &= !(1 << agg);
            self.to_core[layer] &= !(1 << agg);
        } else {
            let (tor, bit) = shape.place(sender);
            self.send.0[tor] &= !(1 << bit);
            self.recv.0[tor] &= !(1 << bit);
        }
    }

    /// Whether there is a route of idle links for a demand; its entry exists.
    pub(super) fn has_route(&self, shape: &Shape, sender: usize, to: To, has_mouse: bool) -> bool {
        let up = match sender.checked_sub(shape.hosts()).map(|core| shape.core_place(core)) {
            Some((agg, layer)) => self.from_core[layer] & 1 << agg,
            None => self.up.0[shape.place(sender).0],
        };
        match to {
            To::Host(host) => up & self.down.0[shape.place(usize::from(host)).0] != 0,
            To::Pod(pod) => (0..shape.layers())
                .any(|layer| self.relays(up, usize::from(pod), layer, has_mouse) != 0),
        }
    }

    /// Whether the link from a ToR up to an Agg is idle.
    #[must_use]
    pub const fn up_is_idle(&self, tor: usize, agg: usize) -> bool {
        self.up.0[tor] >> agg & 1 == 1
    }

    /// Whether the link from an Agg down to a ToR is idle.
    #[must_use]
    pub const fn down_is_idle(&self, tor: usize, agg: usize) -> bool {
        self.down.0[tor] >> agg & 1 == 1
    }

    /// Aggs by which a Core of `layer` takes a cell for `pod` from a ToR with idle links `up`.
    #[inline(always)]
    pub(super) fn relays(&self, up: u32, pod: usize, layer: usize, has_mouse: bool) -> u32 {
        let kept = if has_mouse { 0 } else { self.mice[layer] };
        up & self.to_core[layer] & self.relay[pod][layer] & !kept
    }

    /// Marks all ports of a grant as busy. False, and nothing marked, when one is busy or does not
    /// exist.
    #[inline]
    #[must_use]
    pub fn occupy(&mut self, shape: &Shape, grant: &Grant) -> bool {
        let (sender, agg) = (usize::from(grant.sender), usize::from(grant.agg));
        if agg >= shape.aggs() || sender >= shape.senders() {
            return false;
        }
        // Whether all ports are idle is found out before one is taken, so none has to be put back.
        let idle = |word: u32, bit: usize| word >> bit & 1 == 1;
        match (sender.checked_sub(shape.hosts()), grant.to, grant.core) {
            (None, To::Host(host), None) if usize::from(host) < shape.hosts() => {
                let ((tor, bit), (to, to_bit)) =
                    (shape.place(sender), shape.place(usize::from(host)));
                let fits = idle(self.send.0[tor], bit)
                    & idle(self.up.0[tor], agg)
                    & idle(self.down.0[to], agg)
                    & idle(self.recv.0[to], to_bit);
                if fits {
                    self.send.0[tor] &= !(1 << bit);
                    self.up.0[tor] &= !(1 << agg);
                    self.down.0[to] &= !(1 << agg);
                    self.recv.0[to] &= !(1 << to_bit);
                }
                fits
            }
            (None, To::Pod(pod), Some(core))
                if usize::from(pod) < shape.pods() && usize::from(core) < shape.cores() =>
            {
                let (tor, bit) = shape.place(sender);
                let (at, layer) = shape.core_place(usize::from(core));
                let fits = at == agg
                    && idle(self.send.0[tor], bit)
                    && idle(self.up.0[tor], agg)
                    && idle(self.to_core[layer], agg)
                    && idle(self.relay[usize::from(pod)][layer], agg);
                if fits {
                    self.send.0[tor] &= !(1 << bit);
                    self.up.0[tor] &= !(1 << agg);
                    self.to_core[layer] &= !(1 << agg);
                }
                fits
            }
            (Some(core), To::Host(host), None) if usize::from(host) < shape.hosts() => {
                let (at, layer) = shape.core_place(core);
                let (to, to_bit) = shape.place(usize::from(host));
                let fits = at == agg
                    && idle(self.from_core[layer], agg)
                    && idle(self.down.0[to], agg)
                    && idle(self.recv.0[to], to_bit);
                if fits {
                    self.from_core[layer] &= !(1 << agg);
                    self.down.0[to] &= !(1 << agg);
                    self.recv.0[to] &= !(1 << to_bit);
                }
                fits
            }
            _ => false,
        }
    }
}

/// The bits of `mask` from number `first` on, cyclically, as the first of them; `mask` is not 0.
#[inline(always)]
pub(super) const fn first_from(mask: u32, first: u32) -> u32 {
    let above = mask & !low_bits(first as usize);
    let from = if above != 0 { above } else { mask };
    from.trailing_zeros()
}

/// The positions of the bits of a word, lowest first.
#[inline(always)]
pub(super) fn bits(mut mask: u32) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let at = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (at < LANES).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_taken_once() {
        let shape = Shape::square(16).unwrap().with_cores(7, 1, 8, 0).unwrap();
        let mut ports = IdlePorts::idle(&shape);
        let grant = |sender, to, agg, core| Grant { sender, to, agg, core };
        let first = grant(0, To::Host(5), 2, None);
        assert!(ports.occupy(&shape, &first));
        let before = ports;
        for busy in [
            first,
            grant(0, To::Host(9), 3, None),       // its sender
            grant(4, To::Host(5), 3, None),       // its receiver
            grant(1, To::Host(9), 2, None),       // its link up
            grant(8, To::Host(6), 2, None),       // its link down
            grant(1, To::Pod(3), 2, Some(2)),     // its link up
            grant(1, To::Pod(3), 3, Some(2)),     // not at this Agg
            grant(16 + 2, To::Host(6), 2, None),  // its link down
            grant(16 + 2, To::Host(12), 3, None), // not at this Agg
            grant(23, To::Host(12), 3, None),     // no such Core
            grant(1, To::Host(16), 3, None),      // no such host
            grant(1, To::Pod(0), 3, Some(3)),     // this very pod
            grant(1, To::Host(9), 4, None),       // no such Agg
            grant(16, To::Pod(3), 0, Some(4)),    // from Core to Core
        ] {
            assert!(!ports.occupy(&shape, &busy), "{busy:?}");
            assert_eq!(ports, before);
        }
        assert!(ports.occupy(&shape, &grant(1, To::Pod(3), 1, Some(5))));
        assert!(!ports.occupy(&shape, &grant(6, To::Pod(2), 1, Some(5))), "its port to the Core");
        assert!(ports.occupy(&shape, &grant(16 + 5, To::Host(12), 1, None)));
        assert!(!ports.occupy(&shape, &grant(16 + 5, To::Host(8), 1, None)), "its Core");
    }

    #[test]
    fn the_first_bit_is_found_cyclically() {
        assert_eq!(first_from(0b1001, 1), 3);
        assert_eq!(first_from(0b1001, 4), 0);
        assert_eq!(first_from(0b1001, 32), 0);
        assert_eq!(bits(0b1010_0001).collect::<Vec<_>>(), [0, 5, 7]);
    }
}
