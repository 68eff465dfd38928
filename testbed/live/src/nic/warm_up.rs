//! The device before the run: its link comes up, peers' MACs are asked for, round trips measured.
//!
//! All hosts do this at the same time, so a host that waits for others goes on answering them.

use std::net::IpAddr;
use std::sync::Arc;
use std::thread;

use experiments::hosts_file::{HostEntry, HostsFile};
use experiments::input::{InputError, Located};
use experiments::plan::RunError;
use transport::wire::addressing::{AddressTable, Addressing, HostAddr};
use transport::{Duration, HostId, Instant};
use transport_dpdk::neighbour::{Mac, ProbeResult, Prober, Reach, Resolution, Station};
use transport_dpdk::{
    DeviceName, DevicePort, DilatedClock, Eal, EalOptions, Enquiry, MbufError, MemoryMode, Pool,
    PoolConfig, PortConfig, QuietHold,
};

use super::meeting::Meanwhile;
use crate::dpdk_error::{Unfit, unfit};

/// Buffers of a host: full windows and rings at 100 Gb/s with room to spare. 2^k - 1 fits DPDK's
/// rings best.
const BUFFERS: u32 = 16_383;

/// Buffers that threads may keep in their caches.
const CACHE: u32 = 256;

/// Packets that the device's queues hold.
const DEPTH: u16 = 1024;

/// Memory that DPDK needs beside the pool, MiB.
const EAL_MB: u64 = 96;

/// Milliseconds within which a link comes up; cards that train need seconds.
const UP_MS: u32 = 20_000;

/// How long the other end of a virtual device is waited for, and the pauses between attempts.
const CONNECT_FOR: Duration = Duration::from_s(20);

/// How long a peer is asked for its MAC, and for an echo, at most: it may stand still.
const RESOLVE_FOR: Duration = Duration::from_s(10);

/// The device of this host before a worker has it. Field order: the device goes before EAL. The
/// hold may go first: a device that is closed holds the interrupt thread by itself.
pub(super) struct WarmUpDevice {
    /// Held from the time at which the link is up, for a device that leads to another process,
    /// which may end while this thread polls.
    hold: Option<QuietHold>,
    port: DevicePort,
    pool: Arc<Pool>,
    station: Station,
    clock: DilatedClock,
    full: u16,
    received: u64,
    /// Frames that were neither question nor answer.
    strays: u64,
    answers: u64,
    /// Whether the device leads to another process.
    meets: bool,
    eal: Eal,
}

/// The device and buffers that a worker takes over.
pub(super) struct OpenedDevice {
    pub(super) port: DevicePort,
    pub(super) pool: Arc<Pool>,
    pub(super) station: Station,
    pub(super) strays: u64,
    pub(super) answers: u64,
    /// The hold on DPDK's interrupt thread, for a device that leads to another process, which may
    /// be killed while a worker polls.
    pub(super) hold: Option<QuietHold>,
    pub(super) eal: Eal,
}

/// Checks the form of every host's device. Whether it is there is checked on its own machine.
///
/// # Errors
/// The first that is none, with its place.
pub(super) fn check_devices(network: &HostsFile) -> Result<(), InputError> {
    network.hosts.iter().try_for_each(|host| device_of(network, host).map(drop))
}

/// The device of one entry of the file.
///
/// # Errors
/// When it is none, with its place.
pub(super) fn device_of(network: &HostsFile, host: &HostEntry) -> Result<DeviceName, InputError> {
    let device = &host.device;
    device.value.parse().map_err(|_| {
        InputError::new(format!("device `{}`", device.value), "a device")
            .at(&network.file, device.line, device.column)
            .help(
                "a PCI address (0000:3b:00.0), an interface (eth1), or a virtual device \
                 (net_memif0,role=client)",
            )
    })
}

/// The device of one entry of the file, which is of this machine, by DPDK's name.
///
/// # Errors
/// When it is none, or one that is not there, with its place.
pub(super) fn device_here(network: &HostsFile, host: &HostEntry) -> Result<DeviceName, InputError> {
    let Located { value, line, column } = &host.device;
    device_of(network, host)?.resolved().map_err(|error| {
        InputError::new(format!("device `{value}`"), "a device of this machine")
            .at(&network.file, *line, *column)
            .help(error.to_string())
    })
}

impl WarmUpDevice {
    /// Opens `device` for `host` and frames of up to `full` octets, with DPDK's telemetry socket if
    /// asked for.
    pub(super) fn open(
        full: u16,
        host: &HostEntry,
        (device, telemetry): (DeviceName, bool),
        clock: DilatedClock,
        meanwhile: Meanwhile<'_>,
    ) -> Result<Self, RunError> {
        let room = device.room(full);
        let needed = Pool::memory(BUFFERS, room).div_ceil(1 << 20) + EAL_MB;
        let needed = u32::try_from(needed).unwrap_or(u32::MAX);
        let options = device.allowed_in(EalOptions {
            memory: match host.hugepages {
                None => MemoryMode::Auto,
                Some(true) => MemoryMode::Hugepages,
                Some(false) => MemoryMode::NoHuge,
            },
            memory_mb: host.memory_mb.unwrap_or(needed),
            telemetry,
            ..EalOptions::default()
        });
        let eal = Eal::start(&options).map_err(|error| unfit(&error))?;
        let config = PoolConfig { count: BUFFERS, room, cache: CACHE, socket: -1 };
        let pool = Pool::new(&eal, config).map_err(|error: MbufError| unfit(&error))?;
        let pool = Arc::new(pool);
        let config = PortConfig {
            rx_descriptors: DEPTH,
            tx_descriptors: DEPTH,
            max_frame: u32::from(full),
            ..PortConfig::default()
        };
        let (side, meets, name) = (device.side(), device.meets(), device.to_string());
        let going_on = || meanwhile().map_err(Unfit);
        let port = device
            .open_with_patience(&eal, &config, &pool, (side, CONNECT_FOR), going_on)
            .map_err(|Unfit(error)| error)?;
        let port = port.ok_or_else(|| {
            RunError::Environment(format!("no process listens at the other end of {name}"))
        })?;
        let (ip, prefix, gateway) = (host.ip, host.prefix, host.gateway);
        let station = Station { mac: host.mac.unwrap_or(port.mac()), ip, prefix, gateway };
        let (hold, received, strays, answers) = Default::default();
        Ok(Self { hold, port, pool, station, clock, full, received, strays, answers, meets, eal })
    }

    /// Limits the frames that are probed and sent, once the limits of all devices are known.
    pub(super) fn send_at_most(&mut self, full: u16) {
        self.full = self.full.min(full);
    }

    /// Waits until the link is up.
    pub(super) fn wait_up(&mut self, meanwhile: Meanwhile<'_>) -> Result<(), RunError> {
        const STEP_MS: u32 = 100;
        for _ in 0..UP_MS / STEP_MS {
            if self.port.wait_link(STEP_MS) {
                let hold = || QuietHold::new(&self.eal, self.clock.now());
                self.hold = self.meets.then(hold);
                return Ok(());
            }
            meanwhile()?;
        }
        Err(RunError::Environment(format!(
            "the link of {} did not come up within {UP_MS} ms: check cable, module and the \
             switch's port, or the other end of a virtual link",
            self.port.name()
        )))
    }

    /// DPDK's environment.
    pub(super) fn eal(&self) -> &Eal {
        &self.eal
    }

    /// The MAC of the device's station.
    pub(super) const fn mac(&self) -> Mac {
        self.station.mac
    }

    /// The device.
    pub(super) fn port(&self) -> &DevicePort {
        &self.port
    }

    /// Calls `what` with the device's first queue, and keeps the counts.
    pub(super) fn enquire<T>(
        &mut self,
        what: impl FnOnce(&mut Enquiry<'_>) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let Self { port, pool, station, .. } = self;
        let no_queue = || RunError::Environment("the device has no queue".to_owned());
        let queue = port.queue(0).ok_or_else(no_queue)?;
        let mut enquiry = Enquiry::new(queue, pool, *station);
        let done = what(&mut enquiry);
        let Enquiry { received, answers, strays, .. } = enquiry;
        self.received += received;
        self.answers += answers;
        self.strays += strays;
        done
    }

    /// Between two polls: lets DPDK's interrupt thread through if nothing has been received for a
    /// while; `polled` is an instant before the last poll. No host does so while hosts measure
    /// round trips: an echo that arrives meanwhile waits.
    pub(super) fn look(&mut self, polled: Instant) {
        if let Some(hold) = &mut self.hold {
            hold.look(self.received, polled);
        }
    }

    /// Answers requests to this host.
    pub(super) fn serve(&mut self) -> Result<(), RunError> {
        self.enquire(|enquiry| {
            enquiry.serve(|_| false);
            Ok(())
        })
    }

    /// The addresses of all hosts as this one writes them into frames; only those of `peers` are
    /// resolved, no other host is sent anything. They are asked for 10 s, or for `patience` where
    /// that is shorter.
    pub(super) fn resolve(
        &mut self,
        network: &HostsFile,
        (own, peers): (u32, &[u32]),
        patience: Duration,
        meanwhile: Meanwhile<'_>,
    ) -> Result<Addressing, RunError> {
        let all: Vec<&HostEntry> = ends(network, peers);
        let entry = |peer: &u32| all[*peer as usize];
        let wanted: Vec<(IpAddr, Option<Mac>)> =
            peers.iter().map(entry).map(|host| (host.ip, host.mac)).collect();
        let (clock, within) = (self.clock, patience.min(RESOLVE_FOR));
        let found = self.enquire(|enquiry| {
            enquiry.resolve(&wanted, within, || clock.now(), |_, _| meanwhile())
        })?;
        let mut macs: Vec<Mac> = vec![UNUSED_MAC; all.len()];
        macs[own as usize] = self.station.mac;
        for (found, &peer) in found.into_iter().zip(peers) {
            let host = all[peer as usize];
            let why = match found {
                Resolution::Known(mac) => {
                    macs[peer as usize] = mac;
                    continue;
                }
                Resolution::Unreachable => "is on another subnet and there is no `gateway`",
                Resolution::Asking | Resolution::Silent => "does not say its MAC",
            };
            let hop = self.station.next_hop(host.ip).unwrap_or(host.ip);
            let begin = if peer as usize == network.hosts.len() {
                format!("start headrace scheduler --hosts {} there; ", network.file)
            } else {
                String::new()
            };
            return Err(RunError::Environment(format!(
                "{} ({}) {why}: asked for {hop} over {}; {begin}check cabling, VLAN and `address` \
                 of both hosts, or give its `mac`",
                host.name,
                host.ip,
                self.port.name()
            )));
        }
        let hosts = all.iter().zip(macs).map(|(host, mac)| HostAddr { mac, ip: host.ip });
        let table = AddressTable::new(hosts.collect());
        table.map(Addressing::table).map_err(|error| unfit(&error))
    }

    /// The measurements of `peers`; full frames have passed. A peer that answers no echo is tried
    /// again for 10 s, or for `patience` where that is shorter.
    pub(super) fn probe(
        &mut self,
        network: &HostsFile,
        (peers, addressing): (&[u32], &Addressing),
        (id, patience): (u16, Duration),
        meanwhile: Meanwhile<'_>,
    ) -> Result<Probed, RunError> {
        let address = |peer: &u32| addressing.addr(HostId(*peer)).map(|addr| (addr.ip, addr.mac));
        let wanted: Vec<(IpAddr, Mac)> = peers.iter().filter_map(address).collect();
        let until = self.clock.now() + patience.min(RESOLVE_FOR);
        let mut prober = Prober::new(self.station, id, self.full, (&wanted, until));
        while !prober.is_over() {
            let clock = self.clock;
            self.enquire(|enquiry| {
                enquiry.send(|out| prober.poll_transmit(clock.now(), out));
                enquiry.serve(|frame| prober.handle_frame(clock.now(), frame));
                Ok(())
            })?;
            meanwhile()?;
            thread::yield_now();
        }
        let all = ends(network, peers);
        let reached: Vec<Reach> = prober.reached().collect();
        let mut rtts = Vec::with_capacity(peers.len());
        for (reach, &peer) in reached.iter().zip(peers) {
            let host = all[peer as usize];
            let (name, ip, full) = (&host.name, host.ip, self.full);
            rtts.push(match reach.verdict() {
                ProbeResult::Reached(rtt) => rtt,
                ProbeResult::FullFramesLost => {
                    return Err(RunError::Environment(format!(
                        "frames of {full} bytes do not reach {name} ({ip}), short ones do: raise \
                         the MTU to {} on both devices and every switch between, or send less \
                         with --set mtu=BYTES (1386 fits an MTU of 1500), unless its process \
                         stands still",
                        full - ETHERNET
                    )));
                }
                ProbeResult::Silent => {
                    return Err(RunError::Environment(format!(
                        "{name} ({ip}) has a MAC but answers no echo: does its process stand \
                         still, does another machine use its address, or does something between \
                         filter ICMP?"
                    )));
                }
            });
        }
        let longest = reached.iter().map(|reach| reach.longest).max().unwrap_or_default();
        let jitter = reached.iter().map(|reach| reach.jitter).max().unwrap_or_default();
        Ok(Probed { rtts, longest, jitter })
    }

    /// Hands the device over.
    pub(super) fn close(self) -> OpenedDevice {
        let Self { hold, port, pool, station, strays, answers, eal, .. } = self;
        OpenedDevice { port, pool, station, strays, answers, hold, eal }
    }
}

/// The measurements of peers.
pub(super) struct Probed {
    /// Base RTTs, in the order of the peers.
    pub(super) rtts: Vec<Duration>,
    /// The longest echo.
    pub(super) longest: Duration,
    /// Nine of ten echoes exceed the least of their peer and length by no more.
    pub(super) jitter: Duration,
}

/// The hosts of a network by number, and behind them its scheduler where it is among `peers`.
fn ends<'a>(network: &'a HostsFile, peers: &[u32]) -> Vec<&'a HostEntry> {
    let hosts = network.hosts.len();
    let has_scheduler = peers.iter().any(|peer| *peer as usize >= hosts);
    network.hosts.iter().chain(network.scheduler.as_ref().filter(|_| has_scheduler)).collect()
}

const ETHERNET: u16 = 14;

/// A locally administered MAC of no device, for hosts with which this one exchanges no packets.
const UNUSED_MAC: Mac = [0x02, 0, 0, 0, 0, 0];
