//! A program that makes a network hostile, for tests. It passes every packet on at once. Beside
//! some packets it also sends a control packet that has passed before, or a copy with a wrong key
//! of the flow, in the name of the host that sent it. No text chooses this program.
//!
//! Packets that a meddler makes have no payload, so that they can end no message; data that comes
//! twice or late is the task of faults.

use transport::params::NoParams;
use transport::registry::Registered;
use transport::units::Key;
use transport::wire::{Ext, Header};
use transport::{DropReason, HostId, Instant, PayloadRef, Rng, TxSegment};

use super::{Context, Program, ProgramSettings, ProgramSetup, SwitchProgram};
use crate::elements::PortId;
use crate::packet::Packet;

/// The share of packets beside which another packet is made.
const MADE: f64 = 0.05;

/// Packets that are kept.
const KEPT: usize = 64;

/// The most packets that one switch makes, so that a network that answers each of them ends.
const MADE_MAX: u32 = 20_000;

/// A switch that forges and replays.
#[derive(Clone, Debug)]
pub struct Meddler {
    rng: Rng,
    /// Control packets seen: sender, header and extensions, receiver.
    seen: Vec<(HostId, Header, Ext, HostId)>,
    made: u32,
}

impl Registered for Meddler {
    const ABOUT: &'static str = "forges control packets, and sends old ones again";
    type Params = NoParams;
}

impl SwitchProgram for Meddler {
    fn build(_settings: &ProgramSettings, setup: &ProgramSetup<'_>) -> Self {
        let rng = setup.rng.fork("meddler", 0);
        Self { rng, seen: Vec::with_capacity(KEPT), made: 0 }
    }
}

impl Meddler {
    fn keep(&mut self, packet: &Packet, cx: &Context<'_>) {
        let Some((from, header, ext)) = cx.frame(packet).filter(|_| !packet.is_data()) else {
            return;
        };
        let entry = (from, header, ext, packet.dst);
        if self.seen.len() < KEPT {
            self.seen.push(entry);
        } else {
            let at = self.rng.below(KEPT as u64);
            self.seen[usize::try_from(at).unwrap_or(0)] = entry;
        }
    }

    /// A copy of a packet that has been seen, with its key or with another.
    fn make(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let at = usize::try_from(self.rng.below(self.seen.len() as u64)).unwrap_or(0);
        let (from, mut hdr, ext, peer) = *self.seen.get(at)?;
        if self.rng.chance(0.5) {
            hdr = hdr.keyed(Key(self.rng.next_u64()));
        }
        self.made += 1;
        cx.make(&TxSegment { hdr, payload: PayloadRef::NONE, peer }, &ext, from)
    }
}

impl Program for Meddler {
    fn on_arrival(&mut self, packet: Packet, from: PortId, _now: Instant, cx: &mut Context<'_>) {
        self.keep(&packet, cx);
        let made = if self.made < MADE_MAX && self.rng.chance(MADE) { self.make(cx) } else { None };
        for packet in [Some(packet), made].into_iter().flatten() {
            match cx.route(&packet) {
                Some(port) => {
                    cx.send(port, packet);
                }
                None => cx.drop_at(from, packet, DropReason::NoRoute),
            }
        }
    }
}
