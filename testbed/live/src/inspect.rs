//! The properties of a device, found out by opening it alone: nothing is sent, and the process that
//! a memif belongs to is not disturbed. A card is DPDK's as long as it is open.

use std::sync::Arc;

use transport_dpdk::{DeviceName, Eal, EalOptions, Pool, PoolConfig, PortConfig};

use crate::dpdk_error::DpdkError;

/// An opened device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// The device's effective configuration, one line.
    pub configuration: String,
    /// The requests that the device does not fulfil, a line each: software does them, or they are
    /// left out.
    pub lost: Vec<String>,
}

/// Memory that DPDK needs beside the pool: for queues, and a memif's rings.
const EAL_MB: u64 = 128;

/// Opens `device` for `queues` queues as measurements between processes do, and closes it again.
///
/// # Errors
/// [`DpdkError`]: DPDK does not start, or the device does not open.
pub fn inspect(device: &DeviceName, queues: u16) -> Result<Inspected, DpdkError> {
    let (frame, room) = (device.frame_max(), device.buffer_room());
    let config = PortConfig {
        queues,
        // Frames are as long as buffers are, where those are given by the device.
        max_frame: u32::from(frame.min(room)),
        keep_mtu: device.interface().is_some(),
        ..PortConfig::default()
    };
    // Every receive descriptor holds a buffer.
    let count = 2 * u32::from(queues) * u32::from(config.rx_descriptors) - 1;
    let count = count + device.buffers_kept();
    let mb = Pool::memory(count, room).div_ceil(1 << 20) + EAL_MB;
    let memory_mb = u32::try_from(mb).unwrap_or(u32::MAX);
    let eal = Eal::start(&device.allowed_in(EalOptions { memory_mb, ..EalOptions::default() }))?;
    let pool = Arc::new(Pool::new(&eal, PoolConfig { count, room, cache: 0, socket: -1 })?);
    let port = device.clone().alone(&config).open(&eal, &config, pool)?;
    let lost = port.caps().lost(&config).iter().map(ToString::to_string).collect();
    Ok(Inspected { configuration: port.caps().to_string(), lost })
}
