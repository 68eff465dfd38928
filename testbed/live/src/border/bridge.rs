//! The devices of a border switch and the network between them: frames in, frames out.

use std::collections::VecDeque;
use std::sync::Arc;

use experiments::measure::MlccCounts;
use fabric::{Network, Output, Packet, PortId};
use transport::wire::frame::{self, IntPlace};
use transport::{Duration, HostId, Instant, Rng};
use transport_dpdk::{DevicePort, Mbuf, MbufBurst, Pool};

use super::stations::Stations;
use crate::switching::{MbufFrames, MbufQueue, MbufSlab, described, edit, with_head};

/// Frames that wait for a device's descriptors before they are dropped.
const WAITING_MAX: usize = 4096;
/// The part of the receive buffers that foreign frames may hold on the emulated way.
const FOREIGN_PART: u32 = 8;

/// Counters of the process; the network counts the rest. Frames, but for the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BridgeCounts {
    /// Received from devices.
    pub(super) received: u64,
    /// Given to devices.
    pub(super) sent: u64,
    /// Passed on unchanged: from no known host, or no packets of Headrace.
    pub(super) foreign: u64,
    /// Dropped: of a host of the other side.
    pub(super) wrong_side: u64,
    /// Dropped: a device took none for too long, or too many foreign frames were on the emulated
    /// way.
    pub(super) device_full: u64,
    /// Dropped: the pool had no buffer for a copy.
    pub(super) no_buffer: u64,
    /// Devices that were connected again, after the process at their other end had gone.
    pub(super) reconnected: u64,
}

/// A device and what waits for it.
#[derive(Debug)]
struct DeviceLine {
    /// `None` while the process at its other end is gone.
    port: Option<DevicePort>,
    waiting: MbufQueue,
}

/// Foreign frames on the emulated way to other sites, which do not pass the network. They hold
/// receive buffers meanwhile, so only a part of those is for them.
#[derive(Debug)]
pub(super) struct ForeignWay<T> {
    /// In the order of the instants at which they leave by the WAN device.
    frames: VecDeque<(Instant, T)>,
    /// The emulated distance to other sites.
    distance: Duration,
    most: usize,
}

impl<T> ForeignWay<T> {
    /// A way of `distance`, beside a pool of so many receive buffers.
    pub(super) fn new(distance: Duration, buffers: u32) -> Self {
        let most = usize::try_from(buffers / FOREIGN_PART).unwrap_or(usize::MAX);
        Self { frames: VecDeque::new(), distance, most }
    }

    /// Takes a frame that has come at `now`; false where there is no room for it.
    fn take(&mut self, frame: T, now: Instant) -> bool {
        let has_room = self.frames.len() < self.most;
        if has_room {
            self.frames.push_back((now + self.distance, frame));
        }
        has_room
    }
}

/// The kind of a frame that a device has received, as the switch treats it.
enum Received {
    /// The frame is from no known host, or is not of Headrace.
    Foreign,
    /// The frame is from a host of the other side.
    WrongSide,
    /// The frame is from a known host, and holds no packet.
    Unreadable,
    /// A packet, without handle, and the place of its telemetry.
    Packet(Packet, Option<IntPlace>),
}

/// The switch between its devices.
#[derive(Debug)]
pub(crate) struct Bridge {
    network: Network,
    stations: Stations,
    /// The LAN devices, then the WAN device.
    lines: Vec<DeviceLine>,
    /// Frames on the emulated way to other sites, in the order of the instants at which they leave
    /// by the WAN device.
    under_way: VecDeque<(Instant, Mbuf)>,
    foreign_under_way: ForeignWay<Mbuf>,
    /// The port that brings frames of other sites in.
    from_others: PortId,
    packets: MbufSlab,
    pool: Arc<Pool>,
    rng: Rng,
    burst: MbufBurst,
    out: Vec<Output>,
    counts: BridgeCounts,
}

impl Bridge {
    /// A bridge between `ports`, the last of which leads to other sites. Frames from there enter by
    /// the link of `from_others`, and foreign frames leave for there by `foreign_under_way`. Copies
    /// and notes come from `pool`.
    pub(super) fn new(
        (network, from_others, foreign_under_way): (Network, PortId, ForeignWay<Mbuf>),
        stations: Stations,
        ports: Vec<DevicePort>,
        pool: Arc<Pool>,
        rng: Rng,
    ) -> Self {
        let line = |port| DeviceLine { port: Some(port), waiting: MbufQueue::default() };
        Self {
            network,
            stations,
            lines: ports.into_iter().map(line).collect(),
            under_way: VecDeque::new(),
            foreign_under_way,
            from_others,
            packets: MbufSlab::default(),
            pool,
            rng,
            burst: MbufBurst::new(),
            out: Vec::new(),
            counts: BridgeCounts::default(),
        }
    }

    /// Moves all frames that are due by `clock`; whether there was anything to do.
    pub(super) fn poll(&mut self, clock: impl Fn() -> Instant) -> bool {
        let received = self.receive(&clock);
        let passed = self.pass(clock());
        self.send() || received || passed
    }

    /// Takes a burst from each device into the network. Frames have come when `clock` is read after
    /// that: they may have waited as long as this thread did not run, and none is to leave early.
    pub(crate) fn receive(&mut self, clock: impl Fn() -> Instant) -> bool {
        let mut any = false;
        for line in 0..self.lines.len() {
            let mut burst = std::mem::take(&mut self.burst);
            let port = self.lines[line].port.as_mut();
            any |= port.is_some_and(|port| port.rx_burst(&mut burst) > 0);
            let now = clock();
            burst.iter().for_each(Mbuf::prefetch_unread);
            for mbuf in burst.drain() {
                self.accept(line, mbuf, now);
            }
            self.burst = burst;
        }
        any
    }

    /// Runs the network, and queues what comes out of it at its device.
    pub(crate) fn pass(&mut self, now: Instant) -> bool {
        let mut frames = MbufFrames {
            packets: &mut self.packets,
            pool: &self.pool,
            addressing: self.stations.addressing(),
            ends: self.network.blueprint().ends(),
            sizes: None,
        };
        self.network.run_until(now, &mut frames, &mut self.out);
        let wan = self.wan();
        let mut any = false;
        while let Some(mbuf) =
            due(&mut self.under_way, now).or_else(|| due(&mut self.foreign_under_way.frames, now))
        {
            any = true;
            self.queue(wan, mbuf);
        }
        let mut out = std::mem::take(&mut self.out);
        any |= !out.is_empty();
        for output in out.drain(..) {
            // The frame of a packet that was dropped has ended.
            if let Output::Delivered { host, packet, at } = output {
                self.deliver(host, &packet, at);
            }
        }
        self.out = out;
        any
    }

    /// The place of the WAN device.
    fn wan(&self) -> usize {
        self.lines.len() - 1
    }

    fn accept(&mut self, line: usize, mbuf: Mbuf, now: Instant) {
        self.counts.received += 1;
        let from_wan = line == self.wan();
        let ends = self.network.blueprint().ends();
        let stations = &mut self.stations;
        // The link of a host of the site is that of the port with its number.
        let mut from = self.from_others;
        let read = |head: &[u8]| {
            let Ok(route) = frame::route_of(head, stations.addressing()) else {
                return Received::Foreign;
            };
            if stations.is_near(route.src) == from_wan {
                return Received::WrongSide;
            }
            stations.learn(route.src, head, (!from_wan).then_some(line));
            if !from_wan {
                from = PortId(route.src.0);
            }
            let described = described(&mbuf, head, (&route, stations.addressing()), ends);
            described.map_or(Received::Unreadable, |(packet, int)| Received::Packet(packet, int))
        };
        match with_head(&mbuf, read).unwrap_or(Received::Foreign) {
            Received::Packet(packet, int) => {
                let packet = Packet { handle: self.packets.insert(mbuf, int), ..packet };
                self.network.inject_behind(from, packet);
            }
            Received::Foreign => {
                self.counts.foreign += 1;
                self.flood(line, mbuf, now);
            }
            Received::Unreadable => self.counts.foreign += 1,
            Received::WrongSide => self.counts.wrong_side += 1,
        }
    }

    /// Queues a packet at its device, or keeps it on the emulated way until it is in the other site
    /// at `at`.
    fn deliver(&mut self, host: HostId, packet: &Packet, at: Instant) {
        let mbuf = self.packets.take(packet.handle, &self.pool);
        let Some(mbuf) = mbuf.and_then(|mbuf| edit(mbuf, packet, &self.pool, &mut self.rng)) else {
            self.counts.no_buffer += 1;
            return;
        };
        if !self.stations.is_near(host) {
            self.under_way.push_back((at, mbuf));
        } else if let Some(line) = self.stations.device_of(host) {
            self.queue(line, mbuf);
        } else {
            // No frame of this host has come yet.
            self.flood(self.wan(), mbuf, at);
        }
    }

    /// Gives a frame that has come at `now` to every device of the site but `from`, and sends it on
    /// the way to other sites unless it came from there.
    fn flood(&mut self, from: usize, mbuf: Mbuf, now: Instant) {
        let mut others = (0..self.lines.len()).filter(|line| *line != from);
        let Some(last) = others.next_back() else { return };
        for line in others {
            match mbuf.deep_copy(&self.pool) {
                Some(copy) => self.queue(line, copy),
                None => self.counts.no_buffer += 1,
            }
        }
        if last != self.wan() {
            self.queue(last, mbuf);
        } else if !self.foreign_under_way.take(mbuf, now) {
            self.counts.device_full += 1;
        }
    }

    #[inline(always)]
    fn queue(&mut self, line: usize, mbuf: Mbuf) {
        let line = &mut self.lines[line];
        if line.port.is_none() || !line.waiting.push(mbuf, WAITING_MAX) {
            self.counts.device_full += 1;
        }
    }

    /// Gives the devices what they take.
    pub(crate) fn send(&mut self) -> bool {
        let mut any = false;
        for line in &mut self.lines {
            let Some(port) = &mut line.port else { continue };
            let sent = line.waiting.send(|burst| port.tx_burst(burst));
            self.counts.sent += sent;
            any |= sent > 0;
        }
        any
    }

    /// Whether the device of this place has lost its link, or was taken out.
    pub(super) fn is_down(&self, line: usize) -> bool {
        self.lines[line].port.as_ref().is_none_or(|port| !port.wait_link(0))
    }

    /// Takes a device out; frames that wait for it are dropped.
    pub(super) fn take_out(&mut self, line: usize) {
        let line = &mut self.lines[line];
        self.counts.device_full += line.waiting.clear();
        line.port = None;
    }

    /// Puts a device into its place.
    pub(super) fn put_in(&mut self, line: usize, port: DevicePort) {
        self.lines[line].port = Some(port);
        self.counts.reconnected += 1;
    }

    /// What the switch did for MLCC.
    pub(crate) fn mlcc(&self) -> Option<MlccCounts> {
        MlccCounts::of(&self.network)
    }

    /// The network of the switch.
    pub(super) const fn network(&self) -> &Network {
        &self.network
    }

    /// The counters of the process.
    pub(super) const fn counts(&self) -> BridgeCounts {
        self.counts
    }
}

/// The first frame of `way`, where it has arrived by `now`.
fn due<T>(way: &mut VecDeque<(Instant, T)>, now: Instant) -> Option<T> {
    let is_due = way.front().is_some_and(|(at, _)| *at <= now);
    if is_due { way.pop_front().map(|(_, frame)| frame) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_frames_take_the_distance_and_hold_an_eighth_of_the_buffers() {
        let distance = Duration::from_ms(3);
        let (early, end) = (distance - Duration::from_ps(1), Instant::ZERO + distance);
        let mut way = ForeignWay::new(distance, 32);
        let taken = [0, 1, 2, 3, 4].map(|frame| way.take(frame, Instant::ZERO));
        assert_eq!(taken, [true, true, true, true, false]);
        assert_eq!(due(&mut way.frames, Instant::ZERO + early), None);
        assert_eq!(due(&mut way.frames, end), Some(0));
        assert!(way.take(5, end) && !way.take(6, end));
    }
}
