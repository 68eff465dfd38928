//! Two processes that meet at a device: who waits for whom, and where.
//!
//! What the drivers need for that and a device's name leaves out is filled in here: a memif's role
//! and socket, the sizes of AF_PACKET's ring. Source: DPDK's guides to the memif, AF_PACKET, AF_XDP
//! and TAP drivers, and what was measured of them (limits below). Frame lengths are bytes without
//! FCS. It changes no interface of the kernel, and removes no file but the socket of a process that
//! is gone.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use thiserror::Error;
use transport::Duration;

use crate::buffers::mbuf::Pool;
use crate::device::caps::PortConfig;
use crate::device::error::PortError;
use crate::device::name::{DeviceName, packet_slot};
use crate::device::port::Port;
use crate::eal::Eal;
use crate::eal::interrupts::InterruptHold;

/// Which of two processes waits for the other, where a device connects two of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// It is there first.
    Listens,
    /// It needs the other to be there.
    Connects,
}

/// Why a listening socket's file cannot be made ready.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Somebody listens there.
    #[error("another process listens on {0}; end it, or name another socket=PATH")]
    InUse(String),
    /// Something of that name is no socket.
    #[error("{0} is there and no socket; remove it, or name another socket=PATH")]
    NoSocket(String),
    /// The file system refused.
    #[error("cannot replace the socket {0} ({1}); name another socket=PATH")]
    Io(String, io::Error),
}

/// The drivers that are treated in a way of their own.
const DRIVERS: [&str; 4] = ["net_memif", "net_af_packet", "net_af_xdp", "net_tap"];
/// Frames that any device of ours can be asked for: 9 KB jumbo with room for all headers.
const FRAME_MAX: u16 = 9216;
/// An Ethernet frame of MTU 1500.
const FRAME_STANDARD: u16 = 1514;
const ETHERNET_HEADER: u16 = 14;
/// Data bytes of a buffer such that all of it fits a page: what an AF_XDP area is cut into.
const ROOM_XDP: u16 = 3712;
/// The longest frame over AF_XDP: the kernel keeps 256 bytes of each buffer for programs
/// (XDP_PACKET_HEADROOM), and drops what is longer than the rest.
const FRAME_XDP: u16 = ROOM_XDP - 256;
/// Between two tries to connect.
const RETRY_MS: u64 = 100;
/// For the other process to answer: it takes milliseconds, unless the machine is busy.
const HANDSHAKE_MS: u32 = 1000;
const PS_A_MS: u64 = 1_000_000_000;
/// Name of the abstract socket that two memif devices meet at when none is given.
const SOCKET: &str = "headrace";

impl DeviceName {
    /// The driver, where the name says it.
    #[must_use]
    pub fn driver(&self) -> &str {
        match self {
            Self::Virtual { name, .. } => {
                let known = DRIVERS.iter().find(|known| name.starts_with(**known));
                known.map_or(name.as_str(), |known| known)
            }
            Self::Interface(_) => "net_af_packet",
            Self::Pci { .. } => "pci",
        }
    }

    /// The interface of the kernel behind it, if there is one.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Interface(name) => Some(name),
            Self::Virtual { .. } => self.argument("iface"),
            Self::Pci { .. } => None,
        }
    }

    /// Whether the kernel says that the interface behind it carries frames; true without one.
    #[must_use]
    pub fn is_interface_up(&self) -> bool {
        let state = |name| fs::read_to_string(format!("/sys/class/net/{name}/operstate"));
        let down = |state: String| state.trim().ends_with("down");
        !self.interface().and_then(|name| state(name).ok()).is_some_and(down)
    }

    /// The longest frame that is worth asking the device for. That of an interface follows from its
    /// MTU, where /sys tells it.
    #[must_use]
    pub fn frame_max(&self) -> u16 {
        let by_mtu = self.interface().and_then(mtu).map(|mtu| mtu.saturating_add(ETHERNET_HEADER));
        match self.driver() {
            // Of 22.11: it drops longer frames, whatever the interface's MTU.
            "net_tap" => FRAME_STANDARD,
            "net_af_xdp" => by_mtu.unwrap_or(FRAME_STANDARD).min(FRAME_XDP),
            "net_af_packet" => by_mtu.unwrap_or(FRAME_STANDARD).min(FRAME_MAX),
            _ => FRAME_MAX,
        }
    }

    /// Data bytes of a receive buffer for frames of [`Self::frame_max`] bytes.
    #[must_use]
    pub fn buffer_room(&self) -> u16 {
        match self.driver() {
            "net_af_xdp" => ROOM_XDP,
            _ => self.room(self.frame_max()),
        }
    }

    /// Receive buffers that the driver keeps for itself alone; a pool needs more.
    #[must_use]
    pub fn buffers_kept(&self) -> u32 {
        if self.driver() == "net_af_xdp" { 2048 } else { 0 }
    }

    /// Whether the device connects to another process, which must be there before it is opened.
    #[must_use]
    pub fn meets(&self) -> bool {
        self.driver() == "net_memif"
    }

    /// The same device with all that its driver needs on this side.
    #[must_use]
    pub fn completed(self, side: Side, config: &PortConfig) -> Self {
        let is_file = self.socket_path().is_some();
        let driver = self.driver().to_owned();
        let Self::Virtual { name, mut arguments } = self else { return self };
        let given = arguments.clone();
        let mut fill = |key: &str, value: String| {
            if value_of(&given, key).is_none() {
                let comma = if arguments.is_empty() { "" } else { "," };
                arguments = format!("{arguments}{comma}{key}={value}");
            }
        };
        let depth = config.rx_descriptors.clamp(64, 1 << 14).next_power_of_two();
        match driver.as_str() {
            "net_memif" => {
                let role = if side == Side::Listens { "server" } else { "client" };
                fill("role", role.to_owned());
                fill("socket", SOCKET.to_owned());
                fill("socket-abstract", (if is_file { "no" } else { "yes" }).to_owned());
                fill("rsize", depth.trailing_zeros().to_string());
            }
            "net_af_packet" => {
                let slot = packet_slot(config.max_frame);
                fill("blocksz", (slot * 4).to_string());
                fill("framesz", slot.to_string());
                fill("framecnt", depth.to_string());
                fill("qdisc_bypass", "1".to_owned());
            }
            _ => {}
        }
        Self::Virtual { name, arguments }
    }

    /// The same device for looking at it alone: one that meets another process listens at a socket
    /// of this process instead, so that nobody is disturbed.
    #[must_use]
    pub fn alone(self, config: &PortConfig) -> Self {
        if !self.meets() {
            return self.completed(Side::Listens, config);
        }
        let Self::Virtual { name, arguments } = self else { return self };
        let is_kept = |pair: &&str| {
            let key = pair.split_once('=').map_or(*pair, |(key, _)| key);
            !["role", "socket", "socket-abstract", "zero-copy"].contains(&key)
        };
        let kept = arguments.split(',').filter(|pair| !pair.is_empty()).filter(is_kept);
        let own = format!("socket=headrace-alone-{}", std::process::id());
        let arguments = kept.chain([own.as_str()]).collect::<Vec<_>>().join(",");
        Self::Virtual { name, arguments }.completed(Side::Listens, config)
    }

    /// Whether the other process is there, as far as can be seen without connecting to it.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        if !self.meets() {
            return true;
        }
        match self.socket_path() {
            Some(path) => fs::metadata(path).is_ok(),
            None => {
                let name = format!("@{}", self.argument("socket").unwrap_or(SOCKET));
                let all = fs::read_to_string("/proc/net/unix").unwrap_or_default();
                // Abstract names are shown with their padding, as more `@`.
                all.lines()
                    .filter_map(|line| line.split_whitespace().last())
                    .any(|shown| shown.trim_end_matches('@') == name)
            }
        }
    }

    /// The side that its arguments say; where they say nothing it listens.
    #[must_use]
    pub fn side(&self) -> Side {
        let role = self.argument("role").filter(|_| self.meets());
        if matches!(role, Some("client" | "slave")) { Side::Connects } else { Side::Listens }
    }

    /// Opens it on its side of a link. Where it connects to another process, it is tried again and
    /// again for as long as `patience`, with `meanwhile` between, which may end it; `None` when
    /// nobody answered.
    ///
    /// # Errors
    /// Of the device, and that of `meanwhile`.
    pub fn open_with_patience<E: From<PortError>>(
        self,
        eal: &Eal,
        config: &PortConfig,
        pool: &Arc<Pool>,
        (side, patience): (Side, Duration),
        mut meanwhile: impl FnMut() -> Result<(), E>,
    ) -> Result<Option<Port>, E> {
        let device = self.completed(side, config);
        if !device.meets() || side == Side::Listens {
            device.clear_socket().map_err(PortError::from)?;
            return Ok(Some(device.open(eal, config, Arc::clone(pool))?));
        }
        let mut left_ms = patience.as_ps() / PS_A_MS;
        loop {
            if device.is_awaited() {
                match device.connect(eal, config, pool) {
                    Err(error) if left_ms == 0 => return Err(error.into()),
                    Err(error) => tracing::debug!(%error, "not connected yet"),
                    Ok(Some(port)) => return Ok(Some(port)),
                    Ok(None) => left_ms = left_ms.saturating_sub(HANDSHAKE_MS.into()),
                }
            }
            if left_ms == 0 {
                return Ok(None);
            }
            meanwhile()?;
            let nap = left_ms.min(RETRY_MS);
            thread::sleep(core::time::Duration::from_millis(nap));
            left_ms -= nap;
        }
    }

    /// Opens the connecting end; `None` when it is not answered. A listener refuses whoever comes
    /// between its socket and its start, and the driver of 22.11 never asks again.
    fn connect(
        &self,
        eal: &Eal,
        config: &PortConfig,
        pool: &Arc<Pool>,
    ) -> Result<Option<Port>, PortError> {
        let port = self.open(eal, config, Arc::clone(pool))?;
        if port.wait_link(HANDSHAKE_MS) {
            return Ok(Some(port));
        }
        tracing::debug!("{}: not answered within {HANDSHAKE_MS} ms", port.name());
        // A handshake that is late after all would meet a device that is being closed.
        let _hold = InterruptHold::new(eal);
        drop(port);
        Ok(None)
    }

    /// Removes the socket of a process that was killed, for another to listen there.
    ///
    /// # Errors
    /// [`SocketError`], for example when somebody listens there.
    pub fn clear_socket(&self) -> Result<(), SocketError> {
        let Some(path) = self.socket_path().filter(|_| self.meets()) else { return Ok(()) };
        let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
        if !found.file_type().is_socket() {
            return Err(SocketError::NoSocket(path.to_owned()));
        }
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(|error| SocketError::Io(path.to_owned(), error))
            }
            // A listener of packets answers a stream with a protocol error: it is there.
            Ok(_) | Err(_) => Err(SocketError::InUse(path.to_owned())),
        }
    }

    /// The file of the socket; abstract ones have none.
    pub(crate) fn socket_path(&self) -> Option<&str> {
        let path = self.argument("socket").filter(|path| path.starts_with('/'));
        path.filter(|_| self.argument("socket-abstract") != Some("yes"))
    }

    fn argument(&self, key: &str) -> Option<&str> {
        let Self::Virtual { arguments, .. } = self else { return None };
        value_of(arguments, key)
    }
}

/// The value of `key` among `key=value,...`.
fn value_of<'a>(arguments: &'a str, key: &str) -> Option<&'a str> {
    arguments
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .find_map(|(known, value)| (known == key).then_some(value))
}

/// The MTU of an interface, where /sys shows this network namespace.
fn mtu(name: &str) -> Option<u16> {
    fs::read_to_string(format!("/sys/class/net/{name}/mtu")).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> DeviceName {
        text.parse().unwrap()
    }

    #[test]
    fn what_a_driver_needs_is_filled_in_behind_what_was_given() {
        let config = PortConfig { max_frame: 9014, ..PortConfig::default() };
        let completed = |text, side| named(text).completed(side, &config).to_string();
        assert_eq!(
            completed("net_memif0,rsize=8", Side::Connects),
            "net_memif0,rsize=8,role=client,socket=headrace,socket-abstract=yes"
        );
        assert_eq!(
            completed("net_memif0,socket=/tmp/x", Side::Listens),
            "net_memif0,socket=/tmp/x,role=server,socket-abstract=no,rsize=9"
        );
        assert_eq!(
            completed("net_af_packet0,iface=a", Side::Listens),
            "net_af_packet0,iface=a,blocksz=36864,framesz=9216,framecnt=512,qdisc_bypass=1"
        );
        for text in ["net_null0", "eth0", "0000:3b:00.0"] {
            assert_eq!(completed(text, Side::Listens), text);
        }
    }

    #[test]
    fn a_device_that_is_looked_at_alone_leaves_the_socket_of_others_be() {
        let config = PortConfig::default();
        let alone = |text| named(text).alone(&config).to_string();
        let own = format!("socket=headrace-alone-{}", std::process::id());
        assert_eq!(
            alone("net_memif0,id=1,role=client,socket=/tmp/x,socket-abstract=no,zero-copy=yes"),
            format!("net_memif0,id=1,{own},role=server,socket-abstract=yes,rsize=9")
        );
        assert_eq!(alone("net_null0,size=64"), "net_null0,size=64");
    }

    #[test]
    fn a_killed_processs_socket_is_removed_and_a_living_ones_is_not() {
        let path = std::env::temp_dir().join(format!("headrace-{}.sock", std::process::id()));
        let text = path.to_str().unwrap().to_owned();
        let device = named(&format!("net_memif0,socket={text}"));
        assert!(device.clear_socket().is_ok() && !device.is_awaited());
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(matches!(device.clear_socket(), Err(SocketError::InUse(_))));
        drop(listener);
        assert!(device.is_awaited(), "a killed process leaves the file");
        assert!(device.clear_socket().is_ok() && !path.exists());
        fs::write(&path, "no socket").unwrap();
        assert!(matches!(device.clear_socket(), Err(SocketError::NoSocket(_))));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn frames_fit_the_device_and_its_buffers_the_frames() {
        assert_eq!(named("net_tap0,iface=t0").frame_max(), 1514);
        assert_eq!(named("net_memif0").frame_max(), 9216);
        assert_eq!(named("nosuchnetdev0").frame_max(), 1514);
        assert_eq!(named("net_af_xdp0,iface=x").buffer_room(), 3712);
        assert_eq!(named("net_af_xdp0,iface=x").interface(), Some("x"));
        assert!(named("nosuchnetdev0").is_interface_up(), "nobody says that it is not");
    }
}
