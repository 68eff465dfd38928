//! A device while no worker polls it: requests of other hosts are answered, and requests of this
//! host are sent.
//!
//! Requests and answers are `neighbour`'s; here frames are moved, a burst at a time. Lengths are
//! octets without FCS.

use std::net::IpAddr;
use std::thread;

use transport::{Duration, Instant};

use crate::buffers::burst::MbufBurst;
use crate::buffers::mbuf::Mbuf;
use crate::buffers::pool::Pool;
use crate::device::port::PortQueue;
use crate::neighbour::{Mac, Resolution, Resolver, Station};

/// Buffers that are allocated together.
const TOGETHER: usize = 8;

/// The first queue of a device, the station that answers there, and the counters.
#[derive(Debug)]
pub struct Enquiry<'a> {
    queue: &'a mut PortQueue,
    pool: &'a Pool,
    station: Station,
    /// Frames that wait for the next [`flush`](Self::flush).
    out: MbufBurst,
    /// Buffers for further frames.
    spare: MbufBurst,
    /// Frames that were received.
    pub received: u64,
    /// Answers that were sent.
    pub answers: u64,
    /// Frames that were neither question nor answer.
    pub strays: u64,
}

impl<'a> Enquiry<'a> {
    /// An enquiry in the name of `station`; `pool` has room for a full frame in a buffer.
    #[must_use]
    pub fn new(queue: &'a mut PortQueue, pool: &'a Pool, station: Station) -> Self {
        let (out, spare) = (MbufBurst::new(), MbufBurst::new());
        Self { queue, pool, station, out, spare, received: 0, answers: 0, strays: 0 }
    }

    /// Receives a burst: answers requests to the station, and shows all other frames to `see`,
    /// which returns whether a frame was waited for.
    pub fn serve(&mut self, mut see: impl FnMut(&[u8]) -> bool) {
        let mut burst = MbufBurst::new();
        self.queue.rx_burst(&mut burst);
        self.received += burst.len() as u64;
        burst.iter().for_each(Mbuf::prefetch_unread);
        // Frames in several pieces are rare.
        let mut whole = Vec::new();
        for mbuf in burst.iter() {
            let mut frame = mbuf.data();
            if mbuf.nb_segs() > 1 {
                whole.resize(usize::try_from(mbuf.pkt_len()).unwrap_or(0), 0);
                if !mbuf.copy_out(0, &mut whole) {
                    continue;
                }
                frame = &whole;
            }
            let station = self.station;
            if Station::may_answer(frame) && self.send(|out| station.answer(frame, out)) {
                self.answers += 1;
            } else if !see(frame) {
                self.strays += 1;
            }
        }
    }

    /// Sends the frame that `write` writes, if any, behind those that wait. A frame that the device
    /// has no room for is lost: a host that asks repeats its request.
    pub fn send(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        self.put(write) && self.flush() == 0
    }

    /// Keeps the frame that `write` writes for the next [`flush`](Self::flush); false where it
    /// writes none, or a full burst waits.
    #[inline]
    pub fn put(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        if self.out.room() == 0 {
            return false;
        }
        let Some(mut mbuf) = self.buffer() else { return false };
        let room = self.pool.room();
        let Some(length) = mbuf.append(room).and_then(write) else { return false };
        let rest = room - u16::try_from(length).unwrap_or(room);
        mbuf.trim(rest) && self.out.push(mbuf).is_ok()
    }

    /// An empty buffer. A first frame is usually followed by others, so their buffers are allocated
    /// together.
    #[inline]
    fn buffer(&mut self) -> Option<Mbuf> {
        if self.spare.is_empty() && !self.out.is_empty() {
            self.pool.alloc_burst(&mut self.spare, TOGETHER.min(self.out.room()));
        }
        self.spare.pop().or_else(|| self.pool.alloc())
    }

    /// Frames that may still wait for the next [`flush`](Self::flush).
    #[inline]
    #[must_use]
    pub const fn room(&self) -> usize {
        self.out.room()
    }

    /// Sends the frames that wait; returns how many the device did not take, which are lost.
    pub fn flush(&mut self) -> usize {
        if !self.out.is_empty() {
            self.queue.tx_burst(&mut self.out);
        }
        let lost = self.out.len();
        self.out.clear();
        lost
    }

    /// Sends the requests of `resolver` that are due by `now`, and receives a burst.
    fn ask(&mut self, resolver: &mut Resolver, now: Instant) {
        while self.send(|out| resolver.poll_transmit(now, out)) {}
        self.serve(|frame| resolver.handle_frame(frame));
    }

    /// Asks for the MACs of `peers` that are not given, for at most `patience`, and returns the
    /// state of each. `now` is the clock. `meanwhile` is called between polls with the number of
    /// frames that were received, and may end the wait.
    ///
    /// # Errors
    /// The error of `meanwhile`.
    pub fn resolve<E>(
        &mut self,
        peers: &[(IpAddr, Option<Mac>)],
        patience: Duration,
        mut now: impl FnMut() -> Instant,
        mut meanwhile: impl FnMut(u64, Instant) -> Result<(), E>,
    ) -> Result<Vec<Resolution>, E> {
        let mut resolver = Resolver::new(self.station, peers, now(), patience);
        while !resolver.is_over() {
            let polled = now();
            self.ask(&mut resolver, polled);
            meanwhile(self.received, polled)?;
            thread::yield_now();
        }
        Ok((0..peers.len()).map(|at| resolver.peer(at)).collect())
    }
}
