//! Devices opened by name: alone, or on one side of a link whose other side is another process.

use std::sync::Arc;
use std::thread;

use transport::Duration;

use crate::buffers::pool::Pool;
use crate::device::caps::PortConfig;
use crate::device::drivers::{PACKET_SLOTS, Side, packet_slot};
use crate::device::error::PortError;
use crate::device::ethdev::Keep;
use crate::device::link::MEMIF_GATHERS;
use crate::device::listener::Listener;
use crate::device::name::DeviceName;
use crate::device::port::DevicePort;
use crate::device::socket::MemifSocket;
use crate::eal::Eal;

/// Between two tries to connect.
const RETRY_MS: u64 = 100;
/// Time for the other process to answer: milliseconds are enough, unless the machine is busy.
const HANDSHAKE_MS: u32 = 1000;
const PS_A_MS: u64 = 1_000_000_000;

impl DeviceName {
    /// Opens it; received packets come from `pool`. The log has its effective configuration in a
    /// line, and one for each thing that software does instead.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn open(
        &self,
        eal: &Eal,
        config: &PortConfig,
        pool: Arc<Pool>,
    ) -> Result<DevicePort, PortError> {
        let port = self.set_up(eal, config, pool)?;
        tracing::info!("{}: {}", port.name(), port.caps());
        for lost in port.caps().lost(config) {
            tracing::info!("{}: {lost}", port.name());
        }
        Ok(port)
    }

    fn set_up(
        &self,
        eal: &Eal,
        config: &PortConfig,
        pool: Arc<Pool>,
    ) -> Result<DevicePort, PortError> {
        match self {
            Self::Pci { address, .. } => DevicePort::open(eal, address, config, pool),
            Self::Virtual { .. } if self.meets() => {
                self.clone().completed(self.side(), config).memif(eal, config, pool)
            }
            Self::Virtual { name, arguments } => {
                DevicePort::open_vdev(eal, (name, arguments), config, pool, Keep::Nothing)
            }
            Self::Interface(name) => {
                let device = format!("net_af_packet_{name}");
                let slot = packet_slot(config.max_frame);
                let sizes = format!("blocksz={},framesz={slot},framecnt={PACKET_SLOTS}", 4 * slot);
                let arguments = format!("iface={name},qdisc_bypass=1,{sizes}");
                let config = PortConfig { keep_mtu: true, ..*config };
                DevicePort::open_vdev(eal, (&device, &arguments), &config, pool, Keep::Nothing)
            }
        }
    }

    /// Opens it on its side of a link; a role in its name overrules `side`. Where it connects to
    /// another process, it is tried again and again for as long as `patience`, with `meanwhile`
    /// between, which may end it; `None` when no process answered.
    ///
    /// # Errors
    /// Errors of the device, and the error of `meanwhile`.
    pub fn open_with_patience<E: From<PortError>>(
        self,
        eal: &Eal,
        config: &PortConfig,
        pool: &Arc<Pool>,
        (side, patience): (Side, Duration),
        mut meanwhile: impl FnMut() -> Result<(), E>,
    ) -> Result<Option<DevicePort>, E> {
        let side = if self.argument("role").is_some() { self.side() } else { side };
        let device = self.completed(side, config);
        if device.meets() {
            let (name, arguments) = device.driver_arguments();
            MemifSocket::of(name, arguments).map_err(PortError::from)?;
        }
        if !device.meets() || side == Side::Listens {
            return Ok(Some(device.open(eal, config, Arc::clone(pool))?));
        }
        let mut left_ms = patience.as_ps() / PS_A_MS;
        loop {
            // It waits while another process does: one that connects to a listener without a place
            // for it stands still, and how many places there are depends on the listener.
            if device.is_awaited() && !device.is_behind() {
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

    /// Opens a memif that is [completed](Self::completed). Where it listens, the driver does so at
    /// a socket of its own behind a [`Listener`].
    fn memif(
        &self,
        eal: &Eal,
        config: &PortConfig,
        pool: Arc<Pool>,
    ) -> Result<DevicePort, PortError> {
        let (name, arguments) = self.driver_arguments();
        let place = MemifSocket::of(name, arguments)?;
        // See `Link::memif`.
        eal.keep_memory();
        let mut arguments: Vec<&str> =
            arguments.split(',').filter(|pair| !pair.is_empty()).collect();
        let buffer = format!("bsize={}", config.max_frame.next_multiple_of(64).max(2048));
        if self.argument("bsize").is_none() {
            arguments.push(&buffer);
        }
        let config = PortConfig { gather: config.gather || MEMIF_GATHERS, ..*config };
        let open = |arguments: &[&str], keep| {
            DevicePort::open_vdev(eal, (name, &arguments.join(",")), &config, pool, keep)
        };
        if self.side() == Side::Connects {
            return open(&arguments, Keep::Nothing);
        }
        arguments.retain(|pair| {
            let key = pair.split_once('=').map_or(*pair, |(key, _)| key);
            !["socket", "socket-abstract", "owner-uid", "owner-gid"].contains(&key)
        });
        let listener = Arc::new(Listener::at(&place, name)?);
        let keep = Keep::Listening(Arc::clone(&listener));
        let port = listener.driver().opens(|own| open(&[&arguments[..], &[own]].concat(), keep));
        if !matches!(port, Err(PortError::Eal(_) | PortError::TooMany(_))) {
            listener.is_kept_by(name);
        }
        port
    }

    /// Opens the connecting end; `None` when no listener answers. A listener refuses connections
    /// between the creation of its socket and its start, and the driver of 22.11 never tries again.
    fn connect(
        &self,
        eal: &Eal,
        config: &PortConfig,
        pool: &Arc<Pool>,
    ) -> Result<Option<DevicePort>, PortError> {
        let port = self.open(eal, config, Arc::clone(pool))?;
        if port.wait_link(HANDSHAKE_MS) {
            return Ok(Some(port));
        }
        tracing::debug!("{}: not answered within {HANDSHAKE_MS} ms", port.name());
        Ok(None)
    }
}
