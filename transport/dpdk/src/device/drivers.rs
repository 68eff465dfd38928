//! Properties of each driver beyond a device's name: sizes, roles, and limits that were measured.
//!
//! A memif's role and socket and the sizes of AF_PACKET's ring are filled in where a name leaves
//! them out. Source: DPDK's guides to the memif, AF_PACKET, AF_XDP and TAP drivers, and
//! measurements (limits below). Frame lengths are bytes without FCS. Nothing here opens a device.

use std::fs;

use crate::device::caps::PortConfig;
use crate::device::name::DeviceName;

/// Which of two processes waits for the other, where a device connects two of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// This process opens the device first and waits for the other.
    Listens,
    /// This process connects to the other, which must be there.
    Connects,
}

/// Upper bound of the octets that AF_PACKET puts in front of a frame in its slot.
const PACKET_SLOT_HEAD: u32 = 128;

/// Slots of an AF_PACKET ring.
pub(crate) const PACKET_SLOTS: u32 = 512;

/// The driver whose other end may be a process.
pub(crate) const MEMIF: &str = "net_memif";

/// The drivers that need special treatment.
const DRIVERS: [&str; 4] = [MEMIF, "net_af_packet", "net_af_xdp", "net_tap"];
/// Frames that any device of ours can be asked for: 9 KB jumbo with room for all headers.
const FRAME_MAX: u16 = 9216;
/// An Ethernet frame of MTU 1500.
const FRAME_STANDARD: u16 = 1514;
const ETHERNET_HEADER: u16 = 14;
/// Data bytes of a buffer such that all of it fits a page: what an AF_XDP area is cut into.
const ROOM_XDP: u16 = 3712;
/// The longest frame over AF_XDP: the kernel keeps 256 bytes of each buffer for programs
/// (XDP_PACKET_HEADROOM), and drops longer frames.
const FRAME_XDP: u16 = ROOM_XDP - 256;
/// Name of the abstract socket that two memif devices meet at when none is given.
pub(crate) const SOCKET: &str = "headrace";

impl DeviceName {
    /// The driver, where the name contains it.
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

    /// Whether, as the kernel reports, the interface behind it carries frames; true without an
    /// interface.
    #[must_use]
    pub fn is_interface_up(&self) -> bool {
        let state = |name| fs::read_to_string(format!("/sys/class/net/{name}/operstate"));
        let down = |state: String| state.trim().ends_with("down");
        !self.interface().and_then(|name| state(name).ok()).is_some_and(down)
    }

    /// The longest frame that is worth asking the device for. An interface's follows from its
    /// MTU, where /sys has it.
    #[must_use]
    pub fn frame_max(&self) -> u16 {
        let by_mtu = self.interface().and_then(mtu).map(|mtu| mtu.saturating_add(ETHERNET_HEADER));
        match self.driver() {
            // DPDK 22.11 drops longer frames, whatever the interface's MTU.
            "net_tap" => FRAME_STANDARD,
            "net_af_xdp" => by_mtu.unwrap_or(FRAME_STANDARD).min(FRAME_XDP),
            "net_af_packet" => by_mtu.unwrap_or(FRAME_STANDARD).min(FRAME_MAX),
            _ => FRAME_MAX,
        }
    }

    /// The size of a buffer so that frames of `max_frame` bytes are received in one.
    #[must_use]
    pub fn room(&self, max_frame: u16) -> u16 {
        let slot = packet_slot(u32::from(max_frame));
        u16::try_from(slot).unwrap_or(u16::MAX).max(max_frame)
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
        self.driver() == MEMIF
    }

    /// This device with all that its driver needs on this side.
    #[must_use]
    pub fn completed(self, side: Side, config: &PortConfig) -> Self {
        let is_file = self.place().is_some_and(|place| place.is_file);
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

    /// This device, opened only for a look at it. A device that would meet another process listens
    /// at a socket of this process instead, so that the other process is not disturbed.
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

    /// The side that the arguments name; without one the process listens.
    #[must_use]
    pub fn side(&self) -> Side {
        let role = self.argument("role").filter(|_| self.meets());
        if matches!(role, Some("client" | "slave")) { Side::Connects } else { Side::Listens }
    }

    /// Whether both name one device, whatever other arguments each has: a card by its address, a
    /// virtual device by its name, an interface of the kernel by any driver. Two memifs with one
    /// role in one link of one socket are one, too.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pci { address, .. }, Self::Pci { address: to, .. }) => return address == to,
            (Self::Virtual { name, .. }, Self::Virtual { name: to, .. }) if name == to => {
                return true;
            }
            _ => {}
        }
        let interfaces = self.interface().zip(other.interface());
        interfaces.map_or_else(|| self.is_same_end(other), |(one, other)| one == other)
    }

    /// Whether both are memifs at one end of a link.
    fn is_same_end(&self, other: &Self) -> bool {
        let places = self.place().zip(other.place());
        let link =
            |device: &Self| device.argument("id").map_or(Some(0), |id| id.parse::<u32>().ok());
        places.is_some_and(|(one, other)| one.is_at(&other))
            && (self.side(), link(self)) == (other.side(), link(other))
    }

    pub(crate) fn argument(&self, key: &str) -> Option<&str> {
        value_of(self.driver_arguments().1, key)
    }

    /// The name and the arguments of a virtual device; others have none.
    pub(crate) fn driver_arguments(&self) -> (&str, &str) {
        let Self::Virtual { name, arguments } = self else { return ("", "") };
        (name, arguments)
    }
}

/// The slot of AF_PACKET's ring for a frame; four fill whole pages.
pub(crate) fn packet_slot(max_frame: u32) -> u32 {
    (max_frame + PACKET_SLOT_HEAD).next_multiple_of(1024).max(2048)
}

/// The value of `key` among `key=value,...`.
fn value_of<'a>(arguments: &'a str, key: &str) -> Option<&'a str> {
    arguments
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .find_map(|(known, value)| (known == key).then_some(value))
}

/// The MTU of an interface, where /sys shows this network namespace; the largest that is held where
/// it is larger, as that of the loopback.
fn mtu(name: &str) -> Option<u16> {
    let text = fs::read_to_string(format!("/sys/class/net/{name}/mtu")).ok()?;
    let mtu: u64 = text.trim().parse().ok()?;
    Some(u16::try_from(mtu).unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> DeviceName {
        text.parse().unwrap()
    }

    #[test]
    fn the_mtu_of_the_loopback_which_16_bits_do_not_hold_is_the_largest() {
        assert_eq!(mtu("lo"), Some(u16::MAX));
        assert_eq!(mtu("no such interface"), None);
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
    fn a_device_is_one_however_it_is_written() {
        let is_same = |one: &str, other: &str| {
            let (one, other) = (named(one), named(other));
            assert_eq!(one.is_same(&other), other.is_same(&one));
            one.is_same(&other)
        };
        for (one, other) in [
            ("net_ring0", "net_ring0,nodeaction=x"),
            ("3b:00.0", "0000:3B:00.0,mprq_en=1"),
            ("eth1", "net_af_packet7,iface=eth1"),
            ("net_memif0,socket=/a", "net_memif1,socket=/a,id=0,role=server"),
            ("net_memif0", "net_memif1,socket=headrace"),
        ] {
            assert!(is_same(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("net_ring0", "net_ring1"),
            ("3b:00.0", "3b:00.1"),
            ("eth1", "net_af_packet7,iface=eth2"),
            ("eth1", "net_memif0"),
            ("net_memif0,socket=/a", "net_memif1,socket=/a,role=client"),
            ("net_memif0,socket=/a", "net_memif1,socket=/a,id=1"),
            ("net_memif0,socket=/a", "net_memif1,socket=/b"),
        ] {
            assert!(!is_same(one, other), "{one} {other}");
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
    fn frames_fit_the_device_and_its_buffers_the_frames() {
        assert_eq!(named("net_tap0,iface=t0").frame_max(), 1514);
        assert_eq!(named("net_memif0").frame_max(), 9216);
        assert_eq!(named("nosuchnetdev0").frame_max(), 1514);
        assert_eq!(named("net_af_xdp0,iface=x").buffer_room(), 3712);
        assert_eq!(named("net_af_xdp0,iface=x").interface(), Some("x"));
        assert!(named("nosuchnetdev0").is_interface_up(), "no flag says that it is not");
    }

    #[test]
    fn slots_of_packet_rings_hold_the_frame_and_fill_pages_in_fours() {
        for frame in [60, 1514, 4180, 9014] {
            let slot = packet_slot(frame);
            assert!(slot >= frame + PACKET_SLOT_HEAD && (4 * slot).is_multiple_of(4096));
        }
        assert_eq!(named("eth0").room(1514), 2048);
    }
}
