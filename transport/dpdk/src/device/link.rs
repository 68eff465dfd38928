//! Virtual links: a host's device on one side, the soft switch on the other.
//!
//! Source: DPDK's guides to the ring, memif, TAP, AF_PACKET and null drivers. Every kind is closed,
//! unplugged and freed when both sides are dropped; nothing is left in the file system or among the
//! kernel's network devices. Frame lengths are bytes without FCS.
//!
//! A link has no rate, delay or loss of its own: that is the fabric's part. Links of kind `ring`
//! use one of DPDK's 32 ports each, the others two.

use std::sync::Arc;

use crate::buffers::burst::MbufBurst;
use crate::buffers::pool::Pool;
use crate::buffers::ring::{Ring, RingRx, RingTx};
use crate::device::caps::PortConfig;
use crate::device::driver_socket::DriverSocket;
use crate::device::error::PortError;
use crate::device::ethdev::Keep;
use crate::device::port::DevicePort;
use crate::eal::netns::Netns;
use crate::eal::{self, Eal};

/// Both sides of a virtual link.
#[derive(Debug)]
pub struct Link {
    /// The switch's side. First, because a TAP's kernel side should be closed before the TAP.
    pub switch_side: LinkEnd,
    /// The host's device.
    pub host: DevicePort,
}

/// The switch's side of a link.
#[derive(Debug)]
pub enum LinkEnd {
    /// Raw rings. They are no device, so they do not count towards DPDK's limit of ports.
    Rings {
        /// The ring from the host.
        rx: RingRx,
        /// The ring to the host.
        tx: RingTx,
    },
    /// A device.
    Port(DevicePort),
    /// No device: the host's packets are dropped, and it receives none.
    None,
}

/// The settings of a link.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Longest frame, bytes without FCS.
    pub max_frame: u32,
    /// Packets that the link holds in each direction, 64 ..= 16 384; rounded up to a power of two.
    pub depth: u16,
    /// The pool for the host's received packets, for kinds that copy.
    pub host_pool: Arc<Pool>,
    /// The pool for the switch's received packets, for kinds that copy.
    pub switch_pool: Arc<Pool>,
}

/// Length of an Ethernet frame of MTU 1500; the TAP driver of DPDK 22.11 drops longer ones.
const TAP_FRAME_MAX: u32 = 1514;

/// The driver's `bsize` is 16 bits; a multiple of 64 stays aligned.
const MEMIF_FRAME_MAX: u32 = 65_472;

/// Whether the memif driver sends each segment of a chain in a descriptor of its own: a fast path
/// of 23.03, with the flag that is not cleared, repaired in 26.03. There, chains are gathered
/// first, and frames longer than a buffer of the sender's pool are refused and counted.
pub(crate) const MEMIF_GATHERS: bool =
    dpdk_sys::RDPDK_VERSION >= 0x1703_0000 && dpdk_sys::RDPDK_VERSION < 0x1a03_0000;

impl Link {
    /// Passes pointers through two rings: the fastest kind, any frame length, nothing copied.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn ring(eal: &Eal, config: &LinkConfig) -> Result<Self, PortError> {
        let entries = u32::from(config.depth());
        let (host_tx, rx) = Ring::spsc(eal, entries)?;
        let (tx, host_rx) = Ring::spsc(eal, entries)?;
        let pool = Arc::clone(&config.host_pool);
        let host = DevicePort::from_rings(eal, &config.port(), pool, vec![(host_tx, host_rx)])?;
        Ok(Self { switch_side: LinkEnd::Rings { rx, tx }, host })
    }

    /// Two devices, each of which receives the frames that the other sends, with no switch between
    /// them. They use two of DPDK's ports.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn ring_pair(
        eal: &Eal,
        config: &LinkConfig,
    ) -> Result<(DevicePort, DevicePort), PortError> {
        let entries = u32::from(config.depth());
        let (there, from_there) = Ring::spsc(eal, entries)?;
        let (back, from_back) = Ring::spsc(eal, entries)?;
        let open = |pool: &Arc<Pool>, rings| {
            DevicePort::from_rings(eal, &config.port(), Arc::clone(pool), vec![rings])
        };
        let one = open(&config.host_pool, (there, from_back))?;
        Ok((one, open(&config.switch_pool, (back, from_there))?))
    }

    /// Passes pointers through two rings a queue: a device of several queues, and the switch's
    /// side of each.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn ring_queues(
        eal: &Eal,
        config: &LinkConfig,
        queues: u16,
    ) -> Result<(DevicePort, Vec<LinkEnd>), PortError> {
        let entries = u32::from(config.depth());
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        for _ in 0..queues.max(1) {
            let (host_tx, rx) = Ring::spsc(eal, entries)?;
            let (tx, host_rx) = Ring::spsc(eal, entries)?;
            ours.push((host_tx, host_rx));
            theirs.push(LinkEnd::Rings { rx, tx });
        }
        let port = PortConfig { queues, ..config.port() };
        let host = DevicePort::from_rings(eal, &port, Arc::clone(&config.host_pool), ours)?;
        Ok((host, theirs))
    }

    /// Copies through shared memory between two memif devices. Frames longer than a buffer of the
    /// receiver's pool arrive as chains. The link comes up about a second after this returns: see
    /// [`Link::wait_up`]. It is taken down when both sides are dropped, not before.
    ///
    /// # Errors
    /// [`PortError::Frame`] above 65 472 bytes, else [`PortError`].
    pub fn memif(eal: &Eal, config: &LinkConfig) -> Result<Self, PortError> {
        if config.max_frame > MEMIF_FRAME_MAX {
            return Err(PortError::Frame { wanted: config.max_frame, most: MEMIF_FRAME_MAX });
        }
        // Before 26.03 the driver does not clear a descriptor's "continued" flag, which glues
        // packets together one lap after a frame took two descriptors. So a frame takes only one.
        let buffer = config.max_frame.next_multiple_of(64).max(2048);
        let name = eal::unique_name();
        let socket = Arc::new(DriverSocket::new()?);
        let depth_log2 = config.depth().trailing_zeros();
        let open = |role: &str, own: &str, pool: &Arc<Pool>| {
            let device = format!("net_memif_{name}_{role}");
            let sizes = format!("rsize={depth_log2},bsize={buffer}");
            let arguments = format!("role={role},id=0,{own},{sizes}");
            let (port, pool) =
                (PortConfig { gather: MEMIF_GATHERS, ..config.port() }, Arc::clone(pool));
            let keep = Keep::DriverSocket(Arc::clone(&socket));
            DevicePort::open_vdev(eal, (&device, &arguments), &port, pool, keep)
        };
        // The driver never takes its listening socket off the interrupt thread's list, nor closes
        // it: every link costs a descriptor until the process ends. No process can connect to it
        // once its file is gone.
        eal.keep_memory();
        let (mut switch, mut host) = socket.opens(|own| {
            let switch = open("server", own, &config.switch_pool)?;
            Ok::<_, PortError>((switch, open("client", own, &config.host_pool)?))
        })?;
        host.tie_to(&mut switch);
        Ok(Self { switch_side: LinkEnd::Port(switch), host })
    }

    /// A TAP device of the kernel, in `netns`; the switch's side is an AF_PACKET socket on its
    /// netdev. The kernel copies, drops when a side is slow, and takes microseconds a packet.
    ///
    /// # Errors
    /// [`PortError::Frame`] above 1514 bytes, else [`PortError`].
    pub fn tap(eal: &Eal, netns: &Arc<Netns>, config: &LinkConfig) -> Result<Self, PortError> {
        if config.max_frame > TAP_FRAME_MAX {
            return Err(PortError::Frame { wanted: config.max_frame, most: TAP_FRAME_MAX });
        }
        let name = eal::unique_name();
        let open = |device: String, arguments: String, pool: &Arc<Pool>| {
            let pool = Arc::clone(pool);
            let keep = Keep::Netns(Arc::clone(netns));
            // The devices' sockets stay in the namespace that they were opened in.
            netns.run(|| {
                DevicePort::open_vdev(eal, (&device, &arguments), &config.port(), pool, keep)
            })?
        };
        let interface = format!("t{name}");
        let host =
            open(format!("net_tap_{name}"), format!("iface={interface}"), &config.host_pool)?;
        let arguments = format!("iface={interface},qdisc_bypass=1,framecnt={}", config.depth());
        let switch = open(format!("net_af_packet_{name}"), arguments, &config.switch_pool)?;
        Ok(Self { switch_side: LinkEnd::Port(switch), host })
    }

    /// A device that drops the frames that it is given and receives nothing: for measuring the
    /// sender.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn null(eal: &Eal, config: &LinkConfig) -> Result<Self, PortError> {
        let device = format!("net_null_{}", eal::unique_name());
        let pool = Arc::clone(&config.host_pool);
        let host =
            DevicePort::open_vdev(eal, (&device, "no-rx=1"), &config.port(), pool, Keep::Nothing)?;
        Ok(Self { switch_side: LinkEnd::None, host })
    }

    /// Waits until both sides are up, each at most `timeout_ms` milliseconds; false when one is
    /// not.
    #[must_use]
    pub fn wait_up(&self, timeout_ms: u32) -> bool {
        let switch_up = match &self.switch_side {
            LinkEnd::Port(port) => port.wait_link(timeout_ms),
            LinkEnd::Rings { .. } | LinkEnd::None => true,
        };
        switch_up && self.host.wait_link(timeout_ms)
    }
}

impl LinkEnd {
    /// Takes up to `burst.room()` packets from the host, adds them to `burst`, and returns how
    /// many.
    #[inline]
    pub fn rx_burst(&mut self, burst: &mut MbufBurst) -> usize {
        match self {
            Self::Rings { rx, .. } => rx.rx_burst(burst),
            Self::Port(port) => port.rx_burst(burst),
            Self::None => 0,
        }
    }

    /// Sends packets from the front of `burst` to the host, keeps those for which there is no room,
    /// and returns how many were sent.
    #[inline]
    pub fn tx_burst(&mut self, burst: &mut MbufBurst) -> usize {
        match self {
            Self::Rings { tx, .. } => tx.tx_burst(burst),
            Self::Port(port) => port.tx_burst(burst),
            Self::None => {
                let swallowed = burst.len();
                burst.clear();
                swallowed
            }
        }
    }
}

impl LinkConfig {
    fn depth(&self) -> u16 {
        self.depth.clamp(64, 1 << 14).next_power_of_two()
    }

    fn port(&self) -> PortConfig {
        PortConfig {
            queues: 1,
            rx_descriptors: self.depth(),
            tx_descriptors: self.depth(),
            max_frame: self.max_frame,
            gather: false,
            times: true,
            keep_mtu: false,
            // TAP's are software's, in the driver, behind a copy: ours are made while copying.
            checksums: false,
        }
    }
}
