//! The NICs of hosts: their turns, what waits at them, and pauses of their links.
//!
//! Port `h` is the NIC of host `h`. A driver that gives hosts their turns runs it from here; the
//! network itself runs it among the packets that arrive at the host.

use transport::{Bytes, Duration, HostId, Instant};

use super::{Network, before};
use crate::calendar::Flight;
use crate::elements::PortId;
use crate::frames::{Driver, Frames};
use crate::packet::{Output, Packet};
use crate::qdisc::Queued;
use crate::time_window::{Group, TimeWindow};

impl Network {
    /// Pushes the packets that arrive at a host to `out`, where switches may pause links: packets
    /// that drivers hand in and pauses have their turns in between.
    pub(super) fn deliver_among_pauses(
        &mut self,
        group: Group,
        window: &TimeWindow,
        frames: &mut dyn Frames,
        out: &mut Vec<Output>,
    ) {
        let host = HostId(group.target);
        for flight in window.flights(group).iter().filter(|flight| !flight.is_wake()) {
            let Flight { at, packet, .. } = *flight;
            if let Some(paused) = flight.pause() {
                self.pause_nic(host, paused, at, frames, out);
            } else if flight.is_handed_in() {
                self.links.counts.on_wire -= 1;
                let driver = &mut Driver { out, frames: &mut *frames };
                self.links.arrive(&mut self.ports[host.0 as usize], &packet, at, driver);
            } else {
                self.count_delivered(1);
                out.push(Output::Delivered { host, packet, at });
            }
        }
    }

    /// Handles a pause or resume frame of the switch at the NIC of `host`.
    #[cold]
    pub fn pause_nic(
        &mut self,
        host: HostId,
        paused: bool,
        at: Instant,
        frames: &mut dyn Frames,
        out: &mut Vec<Output>,
    ) {
        self.run_nic(host, at, frames, out);
        self.links.obey(&mut self.ports[host.0 as usize], paused, at);
        self.run_nic(host, at, frames, out);
    }

    /// Whether the NIC of `host` may send no data.
    #[inline]
    pub fn nic_is_paused(&self, host: HostId) -> bool {
        self.ports[host.0 as usize].port.is_paused()
    }

    /// The window that ends at `end` is over for `host`; its next turn is in that of `at`, unless
    /// something arrives earlier.
    #[inline]
    pub fn wake_host(&mut self, host: HostId, end: Instant, at: Instant) {
        let state = &mut self.ports[host.0 as usize];
        state.wakes_used_up(before(end));
        self.links.wake(state, at);
    }

    /// When the NIC of `host` has its next turn: a packet that waits starts to be sent, or the rate
    /// of the link changes. [`Instant::FAR_FUTURE`] when it has none.
    #[inline]
    pub fn nic_turn(&self, host: HostId) -> Instant {
        self.links.next_turn(&self.ports[host.0 as usize])
    }

    /// Packets that wait at the NIC of `host`.
    #[inline]
    pub fn nic_waiting(&self, host: HostId) -> usize {
        self.ports[host.0 as usize].port.waiting()
    }

    /// When the NIC of `host` starts to send data that comes to it at `now`, behind what waits
    /// there: for a NIC that sends in order and is not paused. Of a train, its last cell.
    #[must_use]
    pub fn nic_start(&self, host: HostId, packet: &Packet, now: Instant) -> Instant {
        let port = &self.ports[host.0 as usize].port;
        let Queued { data_bytes, control_bytes, .. } = port.queued();
        let start = port.busy_until().max(now);
        let start = start + port.rate().time_for(Bytes(data_bytes + control_bytes));
        start + port.train(packet).map_or(Duration::ZERO, |train| train.span() - train.cell)
    }

    /// The cells of a packet at the NIC of `host`: more than one for a train.
    #[must_use]
    pub fn nic_cells(&self, host: HostId, packet: &Packet) -> u64 {
        self.ports[host.0 as usize].port.train(packet).map_or(1, |train| train.cells)
    }

    /// Runs the departures of the NIC of `host` that are due by `at`.
    #[inline]
    pub fn run_nic(
        &mut self,
        host: HostId,
        at: Instant,
        frames: &mut dyn Frames,
        out: &mut Vec<Output>,
    ) {
        let driver = &mut Driver { out, frames };
        self.links.depart_until(&mut self.ports[host.0 as usize], at, driver);
    }

    /// The queue of the NIC of `host`, without the packet being sent; empty for a host that does
    /// not exist.
    #[must_use]
    pub fn nic_queued(&self, host: HostId) -> Queued {
        if host.0 < self.blueprint.hosts { self.queued(PortId(host.0)) } else { Queued::default() }
    }
}
