//! A switch program that `tests/adding.rs` adds: it drops every n-th data packet. It shows all that
//! a program's file has to state.

use transport::params::params;
use transport::registry::Registered;
use transport::{DropReason, Instant};

use super::{Context, Program, ProgramSettings, ProgramSetup, SwitchProgram};
use crate::elements::PortId;
use crate::packet::Packet;

params! {
    /// Settings of the program.
    pub struct ThinParams {
        /// One packet of this many is dropped.
        every: u32 = 10, in 2..=1000;
    }
}

/// A switch that thins out what passes.
#[derive(Clone, Debug)]
pub struct Thin {
    every: u32,
    /// Data packets since the last that was dropped.
    passed: u32,
    dropped: u64,
}

impl Registered for Thin {
    const ABOUT: &'static str = "one of some data packets is dropped, added by a test";
    type Params = ThinParams;

    fn own_counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("dropped", self.dropped);
    }
}

impl SwitchProgram for Thin {
    fn build(settings: &ProgramSettings, _setup: &ProgramSetup<'_>) -> Self {
        Self { every: settings.thin.every, passed: 0, dropped: 0 }
    }
}

impl Program for Thin {
    fn on_arrival(&mut self, packet: Packet, from: PortId, _now: Instant, cx: &mut Context<'_>) {
        self.passed += u32::from(packet.is_data());
        if packet.is_data() && self.passed == self.every {
            self.passed = 0;
            self.dropped += 1;
            cx.drop_at(from, packet, DropReason::RandomLoss);
            return;
        }
        match cx.route(&packet) {
            Some(port) => {
                cx.send(port, packet);
            }
            None => cx.drop_at(from, packet, DropReason::NoRoute),
        }
    }
}
