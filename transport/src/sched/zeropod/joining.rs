//! A host of a real network introduces itself to its pod's scheduler, a process that has the timing
//! of the pod from its hosts.
//!
//! Source: ours; \[zeropod\] has hosts and scheduler configured alike. A host introduces itself
//! until an answer comes, and again when none has come for [`Join::patience`]. A scheduler that
//! has been started again is in a later term, and its clock shows another time: the host forgets
//! what it was granted, takes the new time from the answers, and asks for all that waits anew.
//!
//! ```text
//!            JOIN every 10 ms                       RTS, SCHD of every epoch
//!   [joins] -------------------> first answer ---> [in the pod] ---+
//!      ^                                                |          | a later term: anew
//!      +------------- no answer for `patience` ---------+<---------+
//! ```

use super::clock::PodClock;
use super::timing::Terms;
use super::{Timing, Zeropod, ZeropodParams};
use crate::segment::{PayloadRef, TxSegment};
use crate::time::{Duration, Instant, Rate};
use crate::units::{Bytes, EntropyValue, FlowId};
use crate::wire::pod::Join;
use crate::wire::{Body, Header};

/// Time between two introductions.
const EVERY: Duration = Duration::from_ms(10);
/// Epochs without an answer after which a host introduces itself again, and the least time.
const SILENT_EPOCHS: u64 = 64;
const SILENT_MIN: Duration = Duration::from_ms(50);

/// The introduction of one host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joining {
    join: Join,
    patience: Duration,
    /// When it is sent next, by the host's clock.
    at: Instant,
}

/// Nanoseconds, up to what an introduction can say.
fn nanoseconds(span: Duration) -> u32 {
    u32::try_from(span.as_ps().div_ceil(1000)).unwrap_or(u32::MAX)
}

impl Joining {
    /// The introduction of a host of a pod with these settings and `terms`; `None` for one that no
    /// note can say, and where hosts introduce themselves to none.
    pub(super) fn new(params: &ZeropodParams, terms: &Terms) -> Option<Self> {
        let narrow = |bytes: Bytes| u16::try_from(bytes.0).ok();
        let join = Join {
            run: params.run,
            term: 0,
            hosts: u8::try_from(params.hosts).ok()?,
            cells: u8::try_from(terms.cells).ok()?,
            payload: params.cell,
            cell: narrow(terms.cell)?,
            control: narrow(terms.control)?,
            kbps: u32::try_from(terms.rate.as_bps() / 1000).ok()?,
            hop_ns: nanoseconds(terms.hop),
            guard_ns: nanoseconds(terms.guard),
            delay_ns: nanoseconds(terms.delay),
            early_ns: nanoseconds(terms.early),
        };
        let join = Join::of(&join.note())?;
        Some(Self { join, patience: join.patience(), at: Instant::ZERO })
    }

    /// The inputs of the timing as both ends have them.
    pub(super) fn terms(&self) -> Terms {
        self.join.terms()
    }
}

impl Join {
    /// Time without an answer after which a host introduces itself again.
    #[must_use]
    pub fn patience(&self) -> Duration {
        (Timing::new(&self.terms()).epoch * SILENT_EPOCHS).max(SILENT_MIN)
    }

    /// The inputs of the timing of the pod that is introduced.
    #[must_use]
    pub fn terms(&self) -> Terms {
        let ns = |count: u32| Duration::from_ns(count.into());
        Terms {
            cell: Bytes(self.cell.into()),
            control: Bytes(self.control.into()),
            rate: Rate::from_bps(u64::from(self.kbps) * 1000),
            hop: ns(self.hop_ns),
            cells: self.cells.into(),
            guard: ns(self.guard_ns),
            delay: ns(self.delay_ns),
            layers: 0,
            early: ns(self.early_ns),
            guards_answers: true,
        }
    }
}

impl Zeropod {
    /// The introduction that is due at `local` time.
    pub(super) fn next_join(&mut self, local: Instant) -> Option<TxSegment> {
        let joining = self.joining.as_mut().filter(|joining| joining.at <= local)?;
        joining.at = local + EVERY;
        self.counts.joins += 1;
        let join = Join { term: self.term, ..joining.join };
        let number = EntropyValue(self.seat.number);
        let hdr = Header::new(number, FlowId::UNKNOWN, Body::Note(join.note()));
        Some(TxSegment { hdr, payload: PayloadRef::NONE, peer: self.seat.scheduler })
    }

    /// When the next introduction is due, by the host's clock.
    pub(super) fn joins_at(&self) -> Option<Instant> {
        self.joining.map(|joining| joining.at)
    }

    /// An answer has come at `local` time.
    pub(super) fn note_answered(&mut self, local: Instant) {
        if let Some(joining) = &mut self.joining {
            joining.at = local + joining.patience;
        }
    }

    /// Forgets the pod's time and all epochs: they were those of a scheduler that is gone.
    pub(super) fn forget_time(&mut self) {
        let Some(lag) = self.clock.as_ref().map(|clock| clock.lag) else { return };
        self.clock = Some(alloc::boxed::Box::new(PodClock::new(lag)));
        (self.epoch, self.epoch_ends) = (0, Instant::ZERO);
        (self.request_from, self.asked_at) = (0, Instant::ZERO);
        self.filled.clear();
        self.arrivals.clear();
        self.records.clear();
        self.awaited.clear(&mut self.queues);
        self.watch.forget_epochs();
    }
}
