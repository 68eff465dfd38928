//! The path of packets through a DPDK queue: receiving, filling frames, handing them over.

use transport::wire::frame::ETHERNET_LEN;
use transport::{BURST, Instant};

use super::PortIo;
use super::attaching::refill;
use crate::buffers::burst::MbufBurst;
use crate::buffers::mbuf::Mbuf;
use crate::io::in_place::InPlace;
use crate::io::packet_io::{HandedOver, PacketIo, RxCheck, RxFrame, TxFrame};
use crate::io::ring_watch::RingWatch;

/// Frames of a burst from a peer that waits for an answer, and does not stream.
const FEW: usize = 4;

impl PacketIo for PortIo {
    #[inline]
    fn rx_burst(&mut self, now: Instant) -> usize {
        self.rx.clear();
        if let Some(hand_over) = &mut self.hand_over {
            hand_over.receive(&mut self.rx, |rx| self.queue.rx_burst(rx));
        } else {
            self.queue.rx_burst(&mut self.rx);
        }
        // A burst's headers are read one after the other right behind: by then they are there. Of a
        // few frames each line would be waited for, after the header with its address.
        if self.rx.len() <= FEW {
            self.rx.iter().for_each(Mbuf::prefetch_unread);
        } else {
            self.rx.iter().for_each(Mbuf::prefetch);
        }
        if let Some(clock) = &mut self.clock {
            clock.stamp(&self.rx, now);
        }
        self.rx.len()
    }

    #[inline]
    fn rx_frame(&mut self, index: usize) -> Option<RxFrame<'_>> {
        let mbuf = self.rx.get(index)?;
        let stamp = match &self.clock {
            None => self.stamps.and_then(|field| field.get(mbuf)).map(Instant::from_ps),
            Some(clock) => clock.arrival(index),
        };
        let check = if mbuf.checksum_bad() {
            RxCheck::Bad
        } else if self.rx_checked && mbuf.checksum_good() {
            RxCheck::Good
        } else {
            RxCheck::Unknown
        };
        let (bytes, tail) = match mbuf.nb_segs() {
            1 => (mbuf.data(), &[][..]),
            2 => (mbuf.data(), mbuf.segments().nth(1)?),
            _ => {
                let length = usize::try_from(mbuf.pkt_len()).ok()?;
                let room = self.gathered.get_mut(..length)?;
                (mbuf.copy_out(0, room).then_some(&*room)?, &[][..])
            }
        };
        Some(RxFrame { bytes, tail, stamp, check })
    }

    #[inline]
    fn rx_release(&mut self) {
        self.rx.clear();
    }

    #[inline]
    fn tx_room(&mut self, now: Instant) -> usize {
        let pace = self.pacer.as_mut().map_or(BURST, |pacer| pacer.room(now));
        let mut wanted = pace.min(self.tx.room());
        if let Some(timed) = &self.timed {
            wanted = wanted.min(timed.frames().room());
            self.now = now;
        }
        if self.spare.len() < wanted {
            refill(&self.pool, &mut self.spare, wanted);
            self.starved += u64::from(self.spare.is_empty());
        }
        if let Some(small) = &mut self.attaching {
            small.refill(wanted);
        }
        wanted.min(self.spare.len())
    }

    fn tx_cancel(&mut self) {
        drop(self.burst_of_last().pop());
    }

    // In line also where it is called from two places: its checks are few and its answer is long.
    #[inline(always)]
    fn tx_frame(&mut self, frame: TxFrame<'_>) -> Option<&mut [u8]> {
        let TxFrame { len, attached, at, udp_sum } = frame;
        let (mut mbuf, length) = match attached {
            None => {
                let mut mbuf = self.spare.pop()?;
                mbuf.append(len)?;
                (mbuf, u64::from(len))
            }
            Some((memory, range)) => {
                if self.tx.room() == 0 || !self.queue.reads(memory, &range) {
                    return None;
                }
                let length = u64::from(len) + range.len() as u64;
                (self.attaching.as_mut()?.frame(len, memory, range)?, length)
            }
        };
        if let Some(field) = self.stamps {
            field.set(&mut mbuf, at.as_ps());
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.sent(length);
        }
        if let Some(ip) = udp_sum {
            mbuf.request_udp_checksum(ETHERNET_LEN, ip);
        }
        if self.timed.is_some() {
            return self.keep(mbuf, at);
        }
        let last = self.tx.len();
        self.tx.push(mbuf).ok()?;
        self.tx.get_mut(last)?.data_mut()
    }

    #[inline]
    fn tx_burst(&mut self) -> HandedOver {
        let ahead = self.timed.as_mut().map_or(0, |timed| timed.burst());
        let mut taken = ahead;
        if !self.tx.is_empty() {
            taken += self.queue.tx_burst(&mut self.tx);
            self.full += u64::from(!self.tx.is_empty());
            self.watch.iter_mut().for_each(RingWatch::given);
        }
        HandedOver { taken, kept: self.kept() }
    }
}

impl InPlace for PortIo {
    #[inline]
    fn rx_edit(&mut self, index: usize) -> Option<&mut [u8]> {
        let mbuf = self.rx.get_mut(index)?;
        if mbuf.nb_segs() > 1 || mbuf.data_mut().is_none() {
            // A buffer of this pool holds any frame.
            *mbuf = mbuf.deep_copy(&self.pool).filter(|copy| copy.nb_segs() == 1)?;
        }
        mbuf.data_mut()
    }
}

impl PortIo {
    /// Takes a frame that leaves at `at`, and lends its bytes. This is a function of its own, so
    /// that the path of devices that send at once stays short.
    #[inline(never)]
    fn keep(&mut self, frame: Mbuf, at: Instant) -> Option<&mut [u8]> {
        let plain = match self.timed.as_mut().filter(|_| at > self.now) {
            Some(timed) => timed.keep(frame, at, self.clock.as_deref()),
            None => Err(frame),
        };
        self.is_ahead = plain.is_ok();
        if let Err(frame) = plain {
            self.tx.push(frame).ok()?;
        }
        let burst = self.burst_of_last();
        let last = burst.len().checked_sub(1)?;
        burst.get_mut(last)?.data_mut()
    }

    /// The burst that has the frame given last.
    #[inline]
    fn burst_of_last(&mut self) -> &mut MbufBurst {
        match &mut self.timed {
            Some(timed) if self.is_ahead => timed.frames_mut(),
            _ => &mut self.tx,
        }
    }
}
