//! The next port of packets that do not follow the routes of a plain switch. These are packets to
//! other switches, by one of several border switches, or by routes of their own.

use transport::Instant;
use transport::wire::pod::CellName;

use super::{Driver, Packet, PortState, Transit};

impl Transit {
    /// The port of `switch` for a packet to another switch, or where a site has several border
    /// switches.
    #[cold]
    #[inline(never)]
    pub(super) fn route_specially(&self, switch: u32, packet: &Packet, at: Instant) -> Option<u32> {
        if packet.dst.0 >= self.hosts {
            return self.route_to_switch(switch, packet, at);
        }
        let is_dead = |port: u32| self.is_dead(port, at);
        let mesh = self.mesh.as_ref();
        let by_pair = mesh.and_then(|m| m.port(switch, (packet.dst, packet.hash), at, &is_dead));
        by_pair
            .or_else(|| self.switches[switch as usize].route(packet.dst, packet.hash, at, is_dead))
    }

    /// The port of `switch` that `packet`, which comes from the port of `state`, names.
    #[inline(never)]
    pub(super) fn route_named(
        &self,
        switch: u32,
        (state, packet): (&PortState, &Packet),
        at: Instant,
        driver: &Driver<'_>,
    ) -> Option<u32> {
        if packet.dst.0 >= self.hosts {
            return self.route_to_switch(switch, packet, at);
        }
        let name = CellName::of(driver.frames.header(packet)?.ev);
        // NICs are not measured.
        self.switches[switch as usize].route_named(packet.dst, name, !state.measured)
    }

    /// The port of `switch` on a way to the switch that `packet` is for; `None` at its end.
    #[cold]
    fn route_to_switch(&self, switch: u32, packet: &Packet, at: Instant) -> Option<u32> {
        let ways = self.ways.get((packet.dst.0 - self.hosts) as usize)?.as_ref()?;
        let is_dead = |port: u32| self.is_dead(port, at);
        self.switches[switch as usize].choose(&ways[switch as usize], packet.hash, is_dead)
    }
}
