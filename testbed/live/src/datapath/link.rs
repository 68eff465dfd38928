//! The measured worker's device, and the far end of its link.
//!
//! A device that drops all frames has no far end: the heads of its frames are copied out before
//! they are handed over, and answers come in as if received. The time that this takes is counted
//! apart, in ticks, so that it can be taken out of the worker's time.

use transport::{BURST, Instant};
use transport_dpdk::{
    ExtBuf, HandedOver, InPlace, LinkEnd, MbufBurst, PacketIo, PortIo, RxFrame, TxFrame, Upkeep,
    eal,
};

use super::peer::{HEAD_MAX, Peer};

/// The worker's device.
#[derive(Debug)]
pub(super) struct MeasuredIo {
    io: PortIo,
    mirror: Option<Mirror>,
}

/// The substitute for the far end of a device that drops all frames.
#[derive(Debug)]
struct Mirror {
    /// Heads of frames and the lengths of the frames; at most a burst.
    heads: Vec<([u8; HEAD_MAX], usize)>,
    answers: MbufBurst,
    ticks: u64,
}

/// The peer's end of the link.
#[derive(Debug)]
pub(super) enum FarEnd {
    /// The far end of the link is `end`, polled by the worker's own thread.
    Link { end: LinkEnd, burst: Box<MbufBurst> },
    /// The far end is shown frames at the worker's own device.
    Mirror,
}

/// Ticks of one turn of the far end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FarTicks {
    /// Freeing the frames that were passed by pointer.
    pub(super) freeing: u64,
    /// All else.
    pub(super) peer: u64,
}

impl MeasuredIo {
    /// Measures `io` alone, without a mirror.
    pub(super) const fn plain(io: PortIo) -> Self {
        Self { io, mirror: None }
    }

    /// `io`, which drops all frames, with a mirror in front.
    pub(super) fn mirrored(io: PortIo) -> Self {
        let heads = Vec::with_capacity(BURST);
        let mirror = Mirror { heads, answers: MbufBurst::new(), ticks: 0 };
        Self { io, mirror: Some(mirror) }
    }

    /// Ticks that the mirror has taken so far.
    pub(super) fn mirror_ticks(&self) -> u64 {
        self.mirror.as_ref().map_or(0, |mirror| mirror.ticks)
    }
}

impl FarEnd {
    /// The peer's turn: frames in, acknowledgements out.
    pub(super) fn turn(&mut self, io: &mut MeasuredIo, peer: &mut Peer, now: Instant) -> FarTicks {
        let start = eal::tsc();
        let mut freeing = 0;
        match self {
            Self::Link { end, burst } => {
                if peer.is_ready() {
                    end.rx_burst(burst);
                }
                for mbuf in burst.iter() {
                    let len = usize::try_from(mbuf.pkt_len()).unwrap_or(usize::MAX);
                    peer.receive(mbuf.data(), len, now);
                }
                let before = eal::tsc();
                burst.clear();
                freeing = eal::tsc().wrapping_sub(before);
                end.tx_burst(peer.answer(now));
            }
            Self::Mirror => {
                let Some(mirror) = &mut io.mirror else { return FarTicks::default() };
                for (head, len) in mirror.heads.drain(..) {
                    peer.receive(&head[..len.min(HEAD_MAX)], len, now);
                }
                for mbuf in peer.answer(now).drain() {
                    // A full burst of answers has as many places here.
                    let kept = mirror.answers.push(mbuf);
                    debug_assert!(kept.is_ok(), "answers were not taken");
                }
            }
        }
        FarTicks { freeing, peer: eal::tsc().wrapping_sub(start) - freeing }
    }
}

impl PacketIo for MeasuredIo {
    #[inline]
    fn rx_burst(&mut self, now: Instant) -> usize {
        let received = self.io.rx_burst(now);
        let Some(mirror) = &mut self.mirror else { return received };
        let answers = mirror.answers.len();
        self.io.deliver(&mut mirror.answers);
        received + answers - mirror.answers.len()
    }

    #[inline]
    fn rx_frame(&mut self, index: usize) -> Option<RxFrame<'_>> {
        self.io.rx_frame(index)
    }

    #[inline]
    fn rx_release(&mut self) {
        self.io.rx_release();
    }

    #[inline]
    fn tx_room(&mut self, now: Instant) -> usize {
        self.io.tx_room(now)
    }

    #[inline]
    fn tx_frame(&mut self, frame: TxFrame<'_>) -> Option<&mut [u8]> {
        self.io.tx_frame(frame)
    }

    fn tx_cancel(&mut self) {
        self.io.tx_cancel();
    }

    #[inline]
    fn tx_burst(&mut self) -> HandedOver {
        if let Some(mirror) = &mut self.mirror {
            let start = eal::tsc();
            for mbuf in self.io.pending().take(BURST - mirror.heads.len()) {
                let mut head = [0; HEAD_MAX];
                let data = mbuf.data();
                let shown = data.len().min(HEAD_MAX);
                head[..shown].copy_from_slice(&data[..shown]);
                let len = usize::try_from(mbuf.pkt_len()).unwrap_or(usize::MAX);
                mirror.heads.push((head, len));
            }
            mirror.ticks += eal::tsc().wrapping_sub(start);
        }
        self.io.tx_burst()
    }
}

impl InPlace for MeasuredIo {
    #[inline]
    fn rx_edit(&mut self, index: usize) -> Option<&mut [u8]> {
        self.io.rx_edit(index)
    }
}

impl Upkeep for MeasuredIo {
    fn message_over(&mut self, memory: ExtBuf, acknowledged: bool) -> Option<ExtBuf> {
        self.io.message_over(memory, acknowledged)
    }

    fn tx_reclaim(&mut self) {
        self.io.tx_reclaim();
    }

    fn tx_discard(&mut self) -> usize {
        self.io.tx_discard()
    }
}
