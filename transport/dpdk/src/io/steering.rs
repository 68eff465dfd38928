//! One device for several workers, a queue each.

use std::sync::Arc;

use transport::HostId;
use transport::wire::addressing::Addressing;

use crate::buffers::pool::Pool;
use crate::device::error::PortError;
use crate::device::port::DevicePort;
use crate::eal::Eal;
use crate::io::hand_over::HandOver;
use crate::io::port_io::PortIo;

/// Gives each of `hosts` a queue of `port`, for a worker of its own that sends from `pool`. The
/// device brings each queue the frames of its host, as far as it can: by rules, else by its hash,
/// else all frames to the first queue. Its effective configuration says which. The rest is handed
/// over through rings of `depth` frames.
///
/// # Errors
/// [`PortError::Queues`] when there are more hosts than queues, and those of rings.
pub fn share(
    eal: &Eal,
    mut port: DevicePort,
    pool: &Arc<Pool>,
    (hosts, addressing): (&[HostId], &Addressing),
    depth: u32,
) -> Result<Vec<PortIo>, PortError> {
    let queues = port.caps().queues;
    if hosts.len() > usize::from(queues) {
        let (port, workers) = (port.name().to_owned(), hosts.len());
        return Err(PortError::Queues { port, workers, queues });
    }
    let addresses = hosts.iter().filter_map(|host| Some(addressing.addr(*host)?.ip));
    port.steer(&addresses.collect::<Vec<_>>(), addressing.udp_port());
    let rings = HandOver::between(eal, addressing, hosts, depth)?;
    let queues = port.into_queues().into_iter().zip(rings);
    let io = |(queue, hand_over)| PortIo::new(queue, Arc::clone(pool), None).steered(hand_over);
    Ok(queues.map(io).collect())
}
