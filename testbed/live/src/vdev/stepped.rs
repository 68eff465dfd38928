//! The soft switch of a run without its hosts and without a clock: a caller puts frames on the
//! hosts' links and polls the switch at instants of its choice.
//!
//! Given frames and their stamps, the soft switch is a function of them, however late it is polled.
//! So a test can hold what comes out against a simulation, octet for octet.

use experiments::plan::{Plan, RunError};
use fabric::Network;
use transport::{HostId, Instant};
use transport_dpdk::{DevicePort, Eal, MbufBurst, Pool, TimestampField};

use super::links::{Devices, Pmd, Pools};
use super::run::soft_switch;
use super::soft_switch::SoftSwitch;

/// A frame that has come out of the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveredFrame {
    /// The host that gets it.
    pub host: HostId,
    /// The instant of its emulated arrival.
    pub at: Instant,
    /// The whole frame.
    pub frame: Vec<u8>,
}

/// The soft switch of a plan on `net_ring` devices, polled by its caller.
// In this order: devices hold buffers, and all of it is DPDK's memory.
#[derive(Debug)]
pub struct SteppedSwitch {
    switch: SoftSwitch,
    ports: Vec<DevicePort>,
    burst: MbufBurst,
    stamp: TimestampField,
    pools: Pools,
    _eal: Eal,
}

impl SteppedSwitch {
    /// Starts DPDK, and makes the switch of `plan` with a link to each host.
    ///
    /// # Errors
    /// [`RunError::Environment`] when this machine is not fit or DPDK has run in this process, and
    /// faults that the network does not have.
    pub fn open(plan: &Plan) -> Result<Self, RunError> {
        let Devices { ports, ends, pools, stamp, eal } = Devices::open(plan, Pmd::Ring, false)?;
        let switch = soft_switch(plan, ends, &pools, stamp)?;
        Ok(Self { switch, ports, burst: MbufBurst::new(), stamp, pools, _eal: eal })
    }

    /// Puts `frame` on the link of `host`, stamped with `at`. False when there is no buffer, or no
    /// room on the link until the switch is polled.
    pub fn send(&mut self, host: HostId, frame: &[u8], at: Instant) -> bool {
        let Some(port) = self.ports.get_mut(host.0 as usize) else { return false };
        let pool: &Pool = &self.pools.hosts;
        let length = u16::try_from(frame.len()).unwrap_or(u16::MAX);
        let Some(mut mbuf) = pool.alloc() else { return false };
        match mbuf.append(length) {
            Some(octets) => octets.copy_from_slice(frame),
            None => return false,
        }
        self.stamp.set(&mut mbuf, at.as_ps());
        let sent = self.burst.push(mbuf).is_ok() && port.tx_burst(&mut self.burst) == 1;
        self.burst.clear();
        sent
    }

    /// Runs the switch up to and at `now`: what hosts have been sent is added to `out`, in the
    /// order of each host's link. All frames stamped until `now` must be on their links.
    pub fn poll(&mut self, now: Instant, out: &mut Vec<DeliveredFrame>) {
        // A poll takes one burst from each link; the network runs once all have been taken.
        while self.switch.receive(now) {}
        self.switch.poll(now);
        loop {
            let before = out.len();
            for (host, port) in (0..).map(HostId).zip(&mut self.ports) {
                port.rx_burst(&mut self.burst);
                for mbuf in self.burst.drain() {
                    let at = self.stamp.get(&mbuf).map_or(now, Instant::from_ps);
                    let frame = mbuf.segments().flatten().copied().collect();
                    out.push(DeliveredFrame { host, at, frame });
                }
            }
            if out.len() == before {
                return;
            }
            // What had no room on a link has it now.
            self.switch.poll(now);
        }
    }

    /// The emulated network.
    #[must_use]
    pub fn network(&self) -> &Network {
        self.switch.network()
    }

    /// Frames that the switch has dropped outside of the network, which counts its own drops.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let counts = self.switch.counts();
        counts.not_headrace + counts.host_queue_full + counts.no_buffer + counts.slot_missed
    }
}
