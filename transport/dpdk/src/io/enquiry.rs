//! A device while no worker polls it: requests of others are answered, and own ones sent.
//!
//! Requests and answers are `neighbour`'s; here frames are moved. Lengths are octets without
//! FCS. Not for the path of segments: every frame is copied.

use std::net::IpAddr;
use std::thread;

use transport::{Duration, Instant};

use crate::buffers::burst::MbufBurst;
use crate::buffers::pool::Pool;
use crate::device::port::PortQueue;
use crate::neighbour::{Mac, Resolution, Resolver, Station};

/// The first queue of a device, the station that answers there, and the counters.
#[derive(Debug)]
pub struct Enquiry<'a> {
    queue: &'a mut PortQueue,
    pool: &'a Pool,
    station: Station,
    /// Answers that were sent.
    pub answers: u64,
    /// Frames that were neither question nor answer.
    pub strays: u64,
}

impl<'a> Enquiry<'a> {
    /// An enquiry in the name of `station`; `pool` has room for a full frame in a buffer.
    #[must_use]
    pub const fn new(queue: &'a mut PortQueue, pool: &'a Pool, station: Station) -> Self {
        Self { queue, pool, station, answers: 0, strays: 0 }
    }

    /// Receives a burst: answers requests to the station, and shows all other frames to `see`,
    /// which returns whether a frame was waited for.
    pub fn serve(&mut self, mut see: impl FnMut(&[u8]) -> bool) {
        let mut burst = MbufBurst::new();
        self.queue.rx_burst(&mut burst);
        let mut frame = Vec::new();
        for mbuf in burst.drain() {
            frame.resize(usize::try_from(mbuf.pkt_len()).unwrap_or(0), 0);
            if !mbuf.copy_out(0, &mut frame) {
                continue;
            }
            let station = self.station;
            if self.send(|out| station.answer(&frame, out)) {
                self.answers += 1;
            } else if !see(&frame) {
                self.strays += 1;
            }
        }
    }

    /// Sends the frame that `write` writes, if any. A frame that the device has no room for is
    /// lost: a host that asks repeats its request.
    pub fn send(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        let Some(mut mbuf) = self.pool.alloc() else { return false };
        let room = self.pool.room();
        let Some(length) = mbuf.append(room).and_then(write) else { return false };
        let rest = room - u16::try_from(length).unwrap_or(room);
        let mut burst = MbufBurst::new();
        mbuf.trim(rest) && burst.push(mbuf).is_ok() && self.queue.tx_burst(&mut burst) > 0
    }

    /// Asks for the MACs of `peers` that are not given, for at most `patience`, and returns the
    /// state of each. `now` is the clock; `meanwhile` is called between polls and may end the wait.
    ///
    /// # Errors
    /// The error of `meanwhile`.
    pub fn resolve<E>(
        &mut self,
        peers: &[(IpAddr, Option<Mac>)],
        patience: Duration,
        mut now: impl FnMut() -> Instant,
        mut meanwhile: impl FnMut() -> Result<(), E>,
    ) -> Result<Vec<Resolution>, E> {
        let mut resolver = Resolver::new(self.station, peers, now(), patience);
        while !resolver.is_over() {
            let at = now();
            while self.send(|out| resolver.poll_transmit(at, out)) {}
            self.serve(|frame| resolver.handle_frame(frame));
            meanwhile()?;
            thread::yield_now();
        }
        Ok((0..peers.len()).map(|at| resolver.peer(at)).collect())
    }
}
