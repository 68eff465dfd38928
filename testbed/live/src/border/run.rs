//! The process of a border switch: opens the devices, polls them until it is to end, and reports.

use std::sync::Arc;

use experiments::hosts_file::HostsFile;
use experiments::input::InputError;
use experiments::measure::{Counters, MlccCounts};
use experiments::plan::{Draft, Origin, keys};
use fabric::Network;
use thiserror::Error;
use transport::{Bytes, Duration, Instant, Rate, Rng};
use transport_dpdk::{
    CALIBRATION_MIN, Calibration, ClockError, DeviceName, DevicePort, Eal, EalError, EalOptions,
    Idle, IdleMode, MbufError, MemoryMode, Pool, PoolConfig, PortConfig, PortError, QuietHold,
    Side, TimeScale, random,
};

use super::bridge::{Bridge, ForeignWay};
use super::network::{Marks, Shape};
use super::stations::Stations;
use crate::dpdk_error::DpdkError;

/// The settings of a process.
#[derive(Clone, Debug)]
pub struct BorderSetup {
    /// The devices inside the site.
    pub lan: Vec<DeviceName>,
    /// The device that leads to other sites.
    pub wan: DeviceName,
    /// The hosts of all sites.
    pub hosts: HostsFile,
    /// The site of this switch.
    pub site: String,
    /// Rate towards a host of the site.
    pub lan_rate: Rate,
    /// Rate towards other sites.
    pub wan_rate: Rate,
    /// Distance that is emulated outwards, one way.
    pub wan_delay: Duration,
    /// Where ports mark data that waits in no queue of its flow; none do without it.
    pub marks: Option<Marks>,
    /// The hosts' MTU; that of the devices unless given.
    pub mtu: Option<u16>,
    /// Settings of the program, by the keys `switch.dci.*`.
    pub settings: Vec<(String, String)>,
    /// Frames that can be held at once.
    pub buffers: u32,
    /// Hugepages or not.
    pub memory: MemoryMode,
    /// EAL arguments, unchanged.
    pub eal_arguments: Vec<String>,
    /// The core that polls.
    pub core: Option<usize>,
    /// How long other processes are waited for at devices that connect.
    pub wait: Duration,
}

/// Takes the events of a border switch, and may end it.
pub trait BorderMonitor {
    /// Whether to end as soon as may be.
    fn wants_end(&mut self) -> bool;
    /// A device is open; the text describes it in one line.
    fn on_opened(&mut self, device: &str);
    /// An open device has no link.
    fn on_no_link(&mut self, device: &str, interface: Option<&str>);
    /// All devices are open, and frames pass.
    fn on_ready(&mut self);
    /// Advice of a rate of zero, or beyond that towards a host, came for the first time. It is not
    /// followed.
    fn on_advice_refused(&mut self);
}

/// The work of a border switch.
#[derive(Clone, Debug)]
pub struct Passed {
    /// Frames by name.
    pub counters: Counters,
    /// What the program has counted.
    pub mlcc: Option<MlccCounts>,
    /// Whether each packet that came in has left, has ended or still waits.
    pub balanced: bool,
}

/// Why a border switch does not run.
#[derive(Debug, Error)]
pub enum BorderError {
    /// The machine is not fit.
    #[error(transparent)]
    Dpdk(DpdkError),
    /// The kernel gave no random bytes.
    #[error("cannot read /dev/urandom ({0}); mount /dev")]
    Chance(#[from] std::io::Error),
    /// An error in the user's input.
    #[error(transparent)]
    Input(#[from] InputError),
    /// No process answered at a device that connects.
    #[error("{device}: no process answered within {seconds} s; start the listening side first")]
    NotAnswered {
        /// The device.
        device: String,
        /// How long the command waited for an answer.
        seconds: u64,
    },
    /// The user wanted an end before the devices were open.
    #[error("ended before all devices were open")]
    Interrupted,
}

macro_rules! from_dpdk {
    ($($error:ty),+) => {$(
        impl From<$error> for BorderError {
            fn from(error: $error) -> Self {
                Self::Dpdk(error.into())
            }
        }
    )+};
}
from_dpdk!(EalError, MbufError, PortError, ClockError);

/// Buffers for copies and notes.
const COPIES: u32 = 4095;
/// Buffers that the thread keeps in its cache.
const CACHE: u32 = 128;
/// Memory that DPDK needs beside the pools.
const EAL_MB: u64 = 128;
/// Milliseconds in which the link of a card comes up after the port has started.
const LINK_MS: u32 = 2000;
/// Frames in a device's queue, each way.
const DEPTH: u16 = 1024;
/// Time between two checks of whether the user wants to end it.
const LOOK_EVERY: Duration = Duration::from_ms(20);
/// Octets of an Ethernet header.
const ETHERNET: u16 = 14;

/// Passes frames until the monitor ends it.
///
/// # Errors
/// [`BorderError`]; nothing that a host does is one.
pub fn run(setup: &BorderSetup, monitor: &mut dyn BorderMonitor) -> Result<Passed, BorderError> {
    let frame = check(setup)?;
    let stations = Stations::new(&setup.hosts, &setup.site)?;
    let draft = program(setup, frame)?;
    let devices = || setup.lan.iter().chain([&setup.wan]);
    let room = devices().map(|device| device.room(frame)).max().unwrap_or(frame);
    let eal = Eal::start(&eal_options(setup, room))?;
    let _lcore = eal.register_thread()?;
    if let Some(core) = setup.core {
        eal.pin(core)?;
    }
    let clock = Calibration::measure(CALIBRATION_MIN)?.clock(TimeScale::REAL);
    let pool = |count: u32| {
        let config = PoolConfig { count, room, cache: CACHE.min(count / 2), socket: -1 };
        Pool::new(&eal, config).map(Arc::new)
    };
    let (received, copies) = (pool(setup.buffers)?, pool(COPIES)?);
    let mut ports = Vec::new();
    for device in devices() {
        let port = open(&eal, device, (frame, &received), setup.wait, monitor)?;
        check_frame(device, port.caps().max_frame.bytes(), frame)?;
        monitor.on_opened(&format!("{device}: {}", port.caps()));
        // The other end of a device that meets another process may come later.
        let has_link = || port.wait_link(LINK_MS) && device.is_interface_up();
        if !device.meets() && !has_link() {
            monitor.on_no_link(&device.to_string(), device.interface());
        }
        ports.push(port);
    }
    let mut bridge = bridge(setup, (stations, &draft), (ports, copies), frame)?;
    let meets = devices().any(DeviceName::meets);
    let lines = Reconnector {
        devices: devices().cloned().collect(),
        hold: meets.then(|| QuietHold::new(&eal, clock.now())),
        eal: &eal,
        pool: received,
        frame,
        connecting: None,
        turns: Turns::default(),
    };
    monitor.on_ready();
    turn_until_over(&mut bridge, lines, || clock.now(), monitor);
    Ok(passed(&bridge))
}

/// The devices by name, to connect them again.
struct Reconnector<'a> {
    devices: Vec<DeviceName>,
    /// While this process polls devices whose other ends are processes.
    hold: Option<QuietHold>,
    eal: &'a Eal,
    pool: Arc<Pool>,
    frame: u16,
    connecting: Option<Connecting>,
    turns: Turns,
}

/// The order in which devices that are down are tried: one after the other, so that a device that
/// never gets an answer does not delay others. The value is the place at which the next search
/// begins.
#[derive(Default)]
struct Turns(usize);

impl Turns {
    /// What `tried` finds at the first of `count` places in turn. The next search begins behind it.
    fn next<T>(&mut self, count: usize, mut tried: impl FnMut(usize) -> Option<T>) -> Option<T> {
        let first = self.0.min(count);
        let mut places = (first..count).chain(0..first);
        let (place, found) = places.find_map(|place| Some((place, tried(place)?)))?;
        self.0 = place + 1;
        Some(found)
    }
}

/// A device that connects to another process, which has not answered yet.
struct Connecting {
    line: usize,
    port: DevicePort,
    /// When the attempt to connect is given up.
    until: Instant,
}

/// Time for the other process to answer: milliseconds are enough, unless the machine is busy.
const HANDSHAKE: Duration = Duration::from_s(1);
/// Time between two checks while a device connects: its handshake has some ten messages, each of
/// which waits for a check.
const HANDSHAKE_EVERY: Duration = Duration::from_ms(2);

impl Reconnector<'_> {
    /// Connects devices again whose other ends were gone and are back. The driver does not do that:
    /// its connecting side tries once. A device that listens is found by its peer. Frames pass at
    /// the other devices meanwhile: each call takes no longer than a device takes to open.
    fn reconnect(&mut self, bridge: &mut Bridge, now: Instant, monitor: &mut dyn BorderMonitor) {
        if let Some(Connecting { line, port, until }) = self.connecting.take() {
            if port.wait_link(0) {
                bridge.put_in(line, port);
                monitor.on_opened(&format!("{}: connected again", self.devices[line]));
            } else if now < until {
                // The handshake needs the thread that is held.
                self.hold.iter_mut().for_each(QuietHold::let_through);
                self.connecting = Some(Connecting { line, port, until });
                return;
            } else {
                // The thread is held, so no late handshake meets a device that is being closed.
                tracing::debug!("{}: not answered within {HANDSHAKE}", port.name());
            }
        }
        let (mut turns, count) = (std::mem::take(&mut self.turns), self.devices.len());
        self.connecting = turns.next(count, |line| {
            let port = self.opened(line, bridge)?;
            Some(Connecting { line, port, until: now + HANDSHAKE })
        });
        self.turns = turns;
    }

    /// The device of this place, where it connects, is down and could be opened again.
    fn opened(&self, line: usize, bridge: &mut Bridge) -> Option<DevicePort> {
        let device = &self.devices[line];
        if device.side() == Side::Listens || !bridge.is_down(line) {
            return None;
        }
        bridge.take_out(line);
        let config = port_config(device, self.frame);
        let device = device.clone().completed(device.side(), &config);
        if !device.is_served() || device.is_behind() {
            return None;
        }
        let opened = device.open(self.eal, &config, Arc::clone(&self.pool));
        opened
            .inspect_err(|error| tracing::debug!(%error, "{device}: not connected again yet"))
            .ok()
    }

    /// Time from one check to the next.
    const fn look_after(&self) -> Duration {
        if self.connecting.is_some() { HANDSHAKE_EVERY } else { LOOK_EVERY }
    }
}

/// Bytes that wait at one port at most, with frames of up to `frame` bytes.
fn port_buffer(setup: &BorderSetup, frame: u16) -> Bytes {
    Bytes(u64::from(setup.buffers / 4) * u64::from(frame))
}

/// The switch between `ports`, which carry frames of up to `frame` bytes.
fn bridge(
    setup: &BorderSetup,
    (stations, draft): (Stations, &Draft),
    (ports, copies): (Vec<DevicePort>, Arc<Pool>),
    frame: u16,
) -> Result<Bridge, BorderError> {
    let (near, far) = stations.counts();
    let shape = Shape {
        near,
        far,
        lan_rate: setup.lan_rate,
        wan_rate: setup.wan_rate,
        wan_delay: setup.wan_delay,
        frame: Bytes(frame.into()),
        buffer: port_buffer(setup, frame),
        marks: setup.marks,
    };
    let rng = Rng::new(random()?);
    let network = Network::new(shape.blueprint(draft), &rng.fork("network", 0));
    let foreign = ForeignWay::new(setup.wan_delay, setup.buffers);
    let network = (network, shape.port_of_others(), foreign);
    Ok(Bridge::new(network, stations, ports, copies, rng.fork("bridge", 0)))
}

/// The switch of `setup` between devices that are open already, the last of which leads to other
/// sites.
///
/// # Errors
/// [`BorderError`].
pub(crate) fn between(
    setup: &BorderSetup,
    ports: (Vec<DevicePort>, Arc<Pool>),
    frame: u16,
) -> Result<Bridge, BorderError> {
    let stations = Stations::new(&setup.hosts, &setup.site)?;
    let draft = program(setup, frame)?;
    bridge(setup, (stations, &draft), ports, frame)
}

fn turn_until_over(
    bridge: &mut Bridge,
    mut lines: Reconnector<'_>,
    clock: impl Fn() -> Instant,
    monitor: &mut dyn BorderMonitor,
) {
    let mut idle = Idle::new(IdleMode::Shared);
    let (mut look_at, mut was_refused) = (Instant::ZERO, false);
    loop {
        let busy = bridge.poll(&clock);
        let now = clock();
        if now >= look_at {
            if !was_refused && bridge.mlcc().is_some_and(|counts| counts.advice_refused > 0) {
                was_refused = true;
                monitor.on_advice_refused();
            }
            if monitor.wants_end() {
                return;
            }
            if let Some(hold) = &mut lines.hold {
                hold.look(bridge.counts().received, now);
            }
            lines.reconnect(bridge, now, monitor);
            look_at = now + lines.look_after();
        }
        idle.turn(busy);
    }
}

/// Checks the devices by their names; returns the longest frame.
fn check(setup: &BorderSetup) -> Result<u16, InputError> {
    let all: Vec<&DeviceName> = setup.lan.iter().chain([&setup.wan]).collect();
    for (place, device) in all.iter().enumerate() {
        if let Some(same) = all[..place].iter().find(|same| same.is_same(device)) {
            let found = match same == device {
                true => format!("`{device}` twice"),
                false => format!("`{same}` and `{device}`, one device or end of a link twice"),
            };
            let flag = if place < setup.lan.len() { "--lan" } else { "--wan" };
            let error = InputError::new(found, "each device once").at(flag, 0, 0);
            return Err(error.help(
                "devices of --lan lead into the site, that of --wan out of it; memifs need sockets \
                 or links of their own (socket=NAME, id=N)",
            ));
        }
    }
    let longest = all.iter().map(|device| device.frame_max()).max().unwrap_or(0);
    let frame = setup.mtu.map_or(longest, |mtu| mtu.saturating_add(ETHERNET));
    for device in all {
        check_frame(device, device.frame_max().into(), frame)?;
    }
    // A packet is marked by what it leaves behind it.
    let behind = port_buffer(setup, frame) - Bytes(frame.into());
    if let Some(Marks { kmin, .. }) = setup.marks.filter(|marks| marks.kmin >= behind) {
        let expected = format!("less than waits behind a packet at most, {}", behind.0);
        let error = InputError::new(format!("a KMIN of {} bytes", kmin.0), expected);
        return Err(error.at("--ecn", 0, 0).help("a smaller KMIN, or more frames with --buffers"));
    }
    Ok(frame)
}

fn check_frame(device: &DeviceName, carries: u32, frame: u16) -> Result<(), InputError> {
    if carries >= u32::from(frame) {
        return Ok(());
    }
    let found =
        format!("`{device}`, which carries an MTU of {}", carries.saturating_sub(ETHERNET.into()));
    let expected = format!("an MTU of at least that of the hosts, {}", frame - ETHERNET);
    let help = "raise the MTU of the interface, or give that of the hosts with --mtu";
    Err(InputError::new(found, expected).at("--lan, --wan", 0, 0).help(help))
}

/// The program's settings: what follows from the links, which carry frames of up to `frame` bytes,
/// then the user's.
fn program(setup: &BorderSetup, frame: u16) -> Result<Draft, InputError> {
    let mut draft = Draft::default();
    let round_trips = (setup.wan_delay * 8).max(Duration::from_ms(12));
    let mbps = setup.lan_rate.as_bps() / 1_000_000;
    let derived = [
        ("switch.dci.idle", format!("{}us", round_trips.as_ps() / 1_000_000)),
        ("switch.dci.host_gbps", format!("{}.{:03}", mbps / 1000, mbps % 1000)),
        ("switch.dci.buffer", format!("{}", u64::from(setup.buffers / 2) * 1024)),
    ];
    for (key, value) in &derived {
        draft.set(key, value, Origin::Topology)?;
    }
    for (key, value) in &setup.settings {
        if !keys::canonical(key).starts_with("switch.dci.") {
            let error =
                InputError::new(format!("`{key}`"), "a key of the program").at("--set", 0, 0);
            return Err(error.help("keys that begin with switch.dci. (headrace list settings)"));
        }
        draft.set(key, value, Origin::Set).map_err(|error| error.at("--set", 0, 0))?;
    }
    let buffer = draft.switch.programs.dci.buffer.filter(|bytes| bytes.0 < frame.into());
    if let (Some(buffer), Origin::Set) = (buffer, draft.origin("switch.dci.buffer")) {
        let found = format!("`switch.dci.buffer`, {} bytes", buffer.0);
        let error = InputError::new(found, format!("at least a frame of {frame} bytes"));
        return Err(error.at("--set", 0, 0).help("raise it, or leave it out"));
    }
    Ok(draft)
}

fn open(
    eal: &Eal,
    device: &DeviceName,
    (frame, pool): (u16, &Arc<Pool>),
    wait: Duration,
    monitor: &mut dyn BorderMonitor,
) -> Result<DevicePort, BorderError> {
    let config = port_config(device, frame);
    let end = |ends| if ends { Err(BorderError::Interrupted) } else { Ok(()) };
    let side = (device.side(), wait);
    let opened =
        device.clone().open_with_patience(eal, &config, pool, side, || end(monitor.wants_end()))?;
    let seconds = wait.as_ps() / 1_000_000_000_000;
    opened.ok_or_else(|| BorderError::NotAnswered { device: device.to_string(), seconds })
}

fn port_config(device: &DeviceName, frame: u16) -> PortConfig {
    PortConfig {
        rx_descriptors: DEPTH,
        tx_descriptors: DEPTH,
        max_frame: frame.into(),
        keep_mtu: device.interface().is_some(),
        times: false,
        ..PortConfig::default()
    }
}

fn eal_options(setup: &BorderSetup, room: u16) -> EalOptions {
    let bytes = Pool::memory(setup.buffers + COPIES, room);
    let mb = bytes.div_ceil(1 << 20) + EAL_MB;
    let options = EalOptions {
        memory: setup.memory,
        memory_mb: u32::try_from(mb).unwrap_or(u32::MAX),
        extra_args: setup.eal_arguments.clone(),
        ..EalOptions::default()
    };
    let devices = setup.lan.iter().chain([&setup.wan]);
    devices.fold(options, |options, device| device.allowed_in(options))
}

/// The counts of the process.
fn passed(bridge: &Bridge) -> Passed {
    let (counts, network) = (bridge.counts(), bridge.network());
    let audit = network.audit();
    let named = [
        ("received", counts.received),
        ("sent", counts.sent),
        ("foreign", counts.foreign),
        ("wrong_side", counts.wrong_side),
        ("device_full", counts.device_full),
        ("no_buffer", counts.no_buffer),
        ("reconnected", counts.reconnected),
        ("marked", network.totals().marked),
        ("originated", audit.originated),
        ("dropped", audit.dropped.total()),
    ];
    let counters = named.into_iter().filter(|(_, count)| *count > 0);
    Passed {
        counters: counters.map(|(name, count)| (name.to_owned(), count)).collect(),
        mlcc: bridge.mlcc(),
        balanced: audit.check().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_that_is_down_is_tried_before_one_is_tried_again() {
        let mut turns = Turns::default();
        let mut tried =
            |down: &[usize]| turns.next(4, |place| down.contains(&place).then_some(place));
        assert_eq!([0; 5].map(|_| tried(&[0, 2, 3])), [0, 2, 3, 0, 2].map(Some));
        assert_eq!([tried(&[0]), tried(&[]), tried(&[0, 1])], [Some(0), None, Some(1)]);
    }
}
