//! A DPDK queue beside the path of its packets: answers for its station, its clock, its counters.

use transport::Instant;

use super::PortIo;
use crate::buffers::burst::MbufBurst;
use crate::buffers::ext_buf::ExtBuf;
use crate::clock::device_clock::DeviceClock;
use crate::clock::poll_clock::Clock;
use crate::io::hand_over::HandOverCounts;
use crate::io::ring_watch::RingWatch;
use crate::io::timed::Timed;
use crate::io::upkeep::{IoCounts, Offers, Upkeep};

/// An IPv6 advertisement: 14 + 40 + 32, in answer to a solicitation that may leave out its sender.
const ANSWER_MIN: usize = 86;

impl Upkeep for PortIo {
    #[inline]
    fn offers(&self) -> Offers {
        let horizon = |timed: &Timed| timed.horizon(self.clock.as_deref());
        let send_ahead = self.timed.as_deref().map_or(self.keeps, horizon);
        Offers { send_ahead, udp_sums: self.tx_sums }
    }

    fn counts(&self) -> IoCounts {
        let HandOverCounts { given, taken, ring_full } = self.hand_over();
        let timed = self.timed.as_deref();
        let (starved, answers) = (self.starved, self.answers);
        let refused = self.queue.refused() + timed.map_or(0, Timed::refused);
        let clock = self.device_clock().map(DeviceClock::counts).unwrap_or_default();
        IoCounts {
            starved,
            refused,
            timed: timed.map_or(0, Timed::sent),
            answers,
            stamped: clock.stamped,
            stamps_refused: clock.refused,
            clock_readings: clock.readings,
            clock_jumps: clock.jumps,
            clock_lost: clock.lost,
            given,
            taken,
            ring_full,
        }
    }

    fn rx_stray(&mut self, index: usize) {
        // Most strays ask for nothing.
        let _ = self.answer(index);
    }

    #[inline]
    fn look_after<C: Clock>(&mut self, now: Instant, busy: bool, clock: &mut C) {
        if let Some(device) = &mut self.clock
            && device.is_due(now, busy)
        {
            device.read(clock);
        }
        if let Some(watch) = self.watch.as_mut().filter(|_| !busy) {
            watch.look(now, || self.queue.send_waiting());
        }
    }

    fn message_over(&mut self, memory: ExtBuf, acknowledged: bool) -> Option<ExtBuf> {
        self.queue.message_over(memory, acknowledged)
    }

    fn tx_reclaim(&mut self) {
        self.queue.reclaim();
        if let Some(timed) = &mut self.timed {
            timed.reclaim();
        }
    }

    fn tx_discard(&mut self) -> usize {
        let discarded = self.kept();
        self.tx.clear();
        if let Some(timed) = &mut self.timed {
            timed.discard();
        }
        discarded
    }
}

impl PortIo {
    /// Answers frame `index` if it is a request. An answer for which the device has no room is
    /// dropped: a host that asks repeats its request.
    #[cold]
    fn answer(&mut self, index: usize) -> Option<()> {
        let station = self.station?;
        let mbuf = self.rx.get(index)?;
        let length = usize::try_from(mbuf.pkt_len()).ok()?;
        let frame = if mbuf.nb_segs() == 1 {
            mbuf.data()
        } else {
            let room = self.gathered.get_mut(..length)?;
            mbuf.copy_out(0, room).then_some(&*room)?
        };
        let mut reply = self.pool.alloc()?;
        // An answer is as long as the question, or as the longest that the question may leave out.
        let room = u16::try_from(length.max(ANSWER_MIN)).ok()?;
        let out = reply.append(room)?;
        let length = station.answer(frame, out)?;
        let rest = room - u16::try_from(length).ok()?;
        let mut burst = MbufBurst::new();
        if reply.trim(rest) {
            burst.push(reply).ok()?;
        }
        self.answers += self.queue.tx_burst(&mut burst) as u64;
        self.watch.iter_mut().for_each(RingWatch::given);
        Some(())
    }
}
