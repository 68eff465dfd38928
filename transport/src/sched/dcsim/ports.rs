//! The source ports of a host's SIMs and DATAs.
//!
//! Source: \[dcsim\] sec. 2.4: a random port selects a random path, and differs from all ports in
//! use.
// DEVIATION(dcsim#2.4): ours, off in the paper's preset. A flow first uses ports on which SIMs of
// it were answered. A flow that stays sends SIM after SIM from one port until one is lost there, so
// that no DATA overtakes another of its flow; then it goes on to a port that it has kept, which may
// be the one before the last. Other flows may draw a port on which a flow stays.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::params::DcSimParams;
use crate::rng::Rng;
use crate::units::EntropyValue;

/// Ports to choose from: the dynamic range, of which a host uses a few hundred at a time.
const PORTS: u16 = 1 << 14;

const WORDS: usize = PORTS as usize / 64;

/// Flows of a collective stay on their ports where their host has at least so many of them. Fewer
/// flows, at up to the line's rate each, would meet on some paths and leave others idle.
const STAY_FLOWS_MIN: u32 = 4;

/// Which ports are in use.
#[derive(Clone, Debug)]
struct PortsInUse {
    busy: Box<[u64; WORDS]>,
    in_use: u16,
}

/// The first port of the dynamic range.
//= rfc6335#6
const FIRST: u16 = 49_152;

const _: () = assert!(u16::MAX - PORTS + 1 == FIRST, "ports end with the range");

impl PortsInUse {
    fn new() -> Self {
        Self { busy: Box::new([0; WORDS]), in_use: 0 }
    }

    /// Draws a port that is not in use; `None` when all are in use. Few draws are needed while few
    /// ports are in use.
    fn draw(&mut self, rng: &mut Rng) -> Option<EntropyValue> {
        if self.in_use == PORTS {
            return None;
        }
        let mut path = (rng.next_u64() >> 50) as u16;
        // Bounded: after a few draws the search goes on from port to port.
        for draw in 0..=PORTS {
            let bit = 1 << (path % 64);
            let word = &mut self.busy[usize::from(path / 64)];
            if *word & bit == 0 {
                *word |= bit;
                self.in_use += 1;
                return Some(EntropyValue(FIRST + path));
            }
            let next = if draw < 16 { (rng.next_u64() >> 50) as u16 } else { path + 1 };
            path = next % PORTS;
        }
        None
    }

    /// Takes the port `ev`; false when it is in use.
    fn take(&mut self, ev: EntropyValue) -> bool {
        let path = ev.0.wrapping_sub(FIRST);
        let Some(word) = self.busy.get_mut(usize::from(path / 64)) else { return false };
        let bit = 1 << (path % 64);
        let free = *word & bit == 0;
        *word |= bit;
        self.in_use += u16::from(free);
        free
    }

    /// Gives a port back that was drawn or taken.
    fn free(&mut self, ev: EntropyValue) {
        let path = ev.0.wrapping_sub(FIRST);
        let Some(word) = self.busy.get_mut(usize::from(path / 64)) else { return };
        let bit = 1 << (path % 64);
        debug_assert!(*word & bit != 0, "a port is given back once");
        self.in_use -= u16::from(*word & bit != 0);
        *word &= !bit;
    }
}

/// The ports that a flow keeps, first in first out, each once.
#[derive(Clone, Copy, Debug, Default)]
struct KeptPorts {
    ports: [EntropyValue; KeptPorts::MOST],
    len: u8,
}

impl KeptPorts {
    const MOST: usize = 8;

    fn push(&mut self, ev: EntropyValue, most: u16) {
        let len = usize::from(self.len);
        if len < Self::MOST.min(most.into()) && !self.ports[..len].contains(&ev) {
            self.ports[len] = ev;
            self.len += 1;
        }
    }

    fn pop(&mut self) -> Option<EntropyValue> {
        let first = (self.len > 0).then_some(self.ports[0])?;
        self.ports.rotate_left(1);
        self.len -= 1;
        Some(first)
    }
}

/// The port of a SIM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SourcePort {
    pub(super) ev: EntropyValue,
    /// Whether its flow stays on the port. The port is then shared by SIMs of the flow, and is not
    /// marked as in use.
    stays: bool,
}

impl SourcePort {
    /// A port that is marked as in use for one SIM.
    pub(super) const fn exclusive(ev: EntropyValue) -> Self {
        Self { ev, stays: false }
    }
}

/// The ports of one flow.
#[derive(Clone, Copy, Debug, Default)]
struct FlowPorts {
    /// The port on which the flow stays; `None` before its first SIM, after a loss, and while it
    /// does not stay.
    current: Option<EntropyValue>,
    kept: KeptPorts,
}

// A host looks at the ports of many flows in turn.
const _: () = assert!(size_of::<FlowPorts>() <= 24, "two or three flows share a cache line");

/// The ports of a host.
#[derive(Clone, Debug)]
pub(super) struct SourcePorts {
    in_use: PortsInUse,
    /// SIMs that have a port, marked as in use or not.
    held: u16,
    /// By slab index of the flow; empty where flows have no ports of their own.
    flows: Vec<FlowPorts>,
    /// Ports that a flow keeps at most.
    recycle: u16,
    stay: bool,
}

impl SourcePorts {
    /// Number of ports to choose from.
    pub(super) const COUNT: u16 = PORTS;

    pub(super) fn new(params: &DcSimParams, flows: usize) -> Self {
        let own_ports = params.recycle > 0 || params.stay;
        Self {
            in_use: PortsInUse::new(),
            held: 0,
            flows: vec![FlowPorts::default(); if own_ports { flows } else { 0 }],
            recycle: params.recycle,
            stay: params.stay,
        }
    }

    /// Draws a port, in use or not.
    pub(super) fn any(rng: &mut Rng) -> EntropyValue {
        EntropyValue(FIRST + (rng.next_u64() >> 50) as u16)
    }

    /// Forgets the ports of the former flow at `index`.
    pub(super) fn open(&mut self, index: usize) {
        self.flows.get_mut(index).into_iter().for_each(|flow| *flow = FlowPorts::default());
    }

    /// A port for the next SIM of the flow at `index`, one of `in_group` flows of its group; `None`
    /// for a second SIM of a segment, which leaves the flow where it stays. A flow that stays has
    /// the port of its last SIM, else one that it has kept, else any. Another SIM has a port that
    /// is not in use: one that the flow has kept, else any; `None` when there is none.
    #[inline]
    pub(super) fn next(
        &mut self,
        index: usize,
        in_group: Option<u32>,
        rng: &mut Rng,
    ) -> Option<SourcePort> {
        let stays = in_group.map(|flows| self.stay && flows >= STAY_FLOWS_MIN);
        let port = if stays == Some(true) {
            self.port_to_stay_on(index, rng)
        } else {
            if stays == Some(false)
                && let Some(flow) = self.flows.get_mut(index)
            {
                flow.current = None;
            }
            self.exclusive_port(index, rng)
        };
        self.held += u16::from(port.is_some());
        port
    }

    fn port_to_stay_on(&mut self, index: usize, rng: &mut Rng) -> Option<SourcePort> {
        let flow = self.flows.get_mut(index)?;
        let ev = flow.current.or_else(|| flow.kept.pop()).unwrap_or_else(|| Self::any(rng));
        flow.current = Some(ev);
        Some(SourcePort { ev, stays: true })
    }

    fn exclusive_port(&mut self, index: usize, rng: &mut Rng) -> Option<SourcePort> {
        if let Some(flow) = self.flows.get_mut(index) {
            // Bounded: each turn takes out a port.
            while let Some(ev) = flow.kept.pop() {
                if self.in_use.take(ev) {
                    return Some(SourcePort::exclusive(ev));
                }
            }
        }
        self.in_use.draw(rng).map(SourcePort::exclusive)
    }

    /// Takes in that a SIM that had `port` has ended, and its DATAs have left.
    #[inline]
    pub(super) fn free(&mut self, port: SourcePort) {
        debug_assert!(self.held > 0, "a port is given back once");
        self.held -= u16::from(self.held > 0);
        if !port.stays {
            self.in_use.free(port.ev);
        }
    }

    /// Lets the flow at `index` keep a port on which its SIM was answered in time. A flow that has
    /// just ended its stay there, and has no next port yet, does not keep it: it would go back.
    #[inline]
    pub(super) fn keep(&mut self, index: usize, port: SourcePort) {
        if let Some(flow) = self.flows.get_mut(index) {
            let leaves = port.stays && flow.current.is_none();
            if !leaves && flow.current != Some(port.ev) {
                flow.kept.push(port.ev, self.recycle);
            }
        }
    }

    /// Ends the stay of the flow at `index` on `port`, where a SIM was lost. Does nothing when the
    /// flow is on another port by now.
    pub(super) fn leave(&mut self, index: usize, port: SourcePort) {
        if let Some(flow) = self.flows.get_mut(index)
            && flow.current == Some(port.ev)
        {
            flow.current = None;
        }
    }

    /// SIMs that have a port.
    #[inline]
    pub(super) fn held(&self) -> u16 {
        self.held
    }

    /// Ports marked as in use.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> u16 {
        self.in_use.in_use
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn all_ports_can_be_in_use_and_none_is_twice() {
        let (mut ports, mut rng) = (PortsInUse::new(), Rng::new(1));
        let mut drawn = BTreeSet::new();
        while let Some(ev) = ports.draw(&mut rng) {
            assert!(ev.0 >= FIRST && drawn.insert(ev), "{ev:?}");
        }
        assert_eq!((drawn.len(), ports.in_use), (usize::from(PORTS), PORTS));
        let back = EntropyValue(60_000);
        ports.free(back);
        assert_eq!(ports.draw(&mut rng), Some(back), "the only one that is free");
        drawn.into_iter().for_each(|ev| ports.free(ev));
        assert_eq!(ports.in_use, 0);
    }

    #[test]
    fn a_port_that_lost_a_sim_is_not_kept_before_the_flow_is_on_another() {
        let params = DcSimParams { stay: true, recycle: 8, ..DcSimParams::default() };
        let (mut ports, mut rng) = (SourcePorts::new(&params, 1), Rng::new(1));
        let mut next = |ports: &mut SourcePorts| ports.next(0, Some(STAY_FLOWS_MIN), &mut rng);
        let lost = next(&mut ports).unwrap();
        ports.leave(0, lost);
        ports.keep(0, lost);
        let second = next(&mut ports).unwrap();
        assert_ne!(second, lost);
        // From then on the flow may go back.
        ports.keep(0, lost);
        ports.leave(0, second);
        assert_eq!(next(&mut ports), Some(lost));
    }
}
