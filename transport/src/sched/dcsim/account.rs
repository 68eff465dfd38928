//! The state of one outgoing flow of DCsim: its SIMs, and the segments that wait for them.
//!
//! Source: \[dcsim\] sec. 2.4 (1), eq. 3. Units: segments and SIMs.

use crate::time::{Duration, Instant};
use crate::units::{FlowId, HostId};

/// How many more SIMs a flow that has been silent may have on their way for each SIM answered in
/// time; for each lost SIM it may have one less. So the number grows while one of four is answered.
const GROWTH: u32 = 3;

/// A flow is near its end when at most so many of its segments have no SIM-ACK.
pub(super) const TAIL: u32 = 8;

/// The limit of a flow that only equation 3 limits.
pub(super) const UNLIMITED: u32 = u32::MAX;

/// One outgoing flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    /// The flow that has this account; [`FlowId::UNKNOWN`] when none has.
    pub(super) id: FlowId,
    pub(super) peer: HostId,
    /// SIMs queued or sent that are neither answered nor given up: n_SIM.
    pub(super) sims: u32,
    /// Segments that a SIM-ACK has released and that have not left.
    pub(super) bound: u32,
    /// Segments that have not left, or must leave again, including bound ones.
    pub(super) waiting: u32,
    /// Whether the flow's window lets it send.
    pub(super) sendable: bool,
    /// When the first SIM since the last SIM-ACK was given up.
    pub(super) silent_since: Option<Instant>,
    /// The number of SIMs that may be on their way, as a limit besides equation 3. It is 0 while
    /// the flow rests, and small when no SIM has been answered in time for long. In that case the
    /// peer is gone, or the SIMs of all flows together are more than the path takes.
    pub(super) limit: u32,
    /// The place of this account in the slab is in `resting`.
    pub(super) listed: bool,
    /// SIM-ACKs have come since `silent_since`, all too late.
    pub(super) late: bool,
    /// Segments that may still leave as copies.
    pub(super) unasked: u32,
    /// The longest round trip of a segment that meets no long queue.
    pub(super) rtt_most: Duration,
    /// The segment that was acknowledged last took longer.
    pub(super) delayed: bool,
}

pub(super) const VACANT: Account = Account {
    id: FlowId::UNKNOWN,
    peer: HostId(0),
    sims: 0,
    bound: 0,
    waiting: 0,
    sendable: false,
    silent_since: None,
    limit: UNLIMITED,
    listed: false,
    late: false,
    unasked: 0,
    rtt_most: Duration::MAX,
    delayed: false,
};

// A host looks at the accounts of many flows in turn.
const _: () = assert!(size_of::<Account>() <= 64, "an account is no longer than a cache line");

/// SIMs for so many segments, where each stands for `per_sim`.
#[inline]
const fn sims_for(segments: u32, per_sim: u32) -> u32 {
    // The paper has one segment for each SIM, and a division would be a good part of a SIM's cost.
    if per_sim == 1 { segments } else { segments.div_ceil(per_sim) }
}

impl Account {
    /// Segments that no SIM-ACK has released: n_DATA.
    #[inline]
    pub(super) fn data(&self) -> u32 {
        self.waiting.saturating_sub(self.bound)
    }

    /// Segments that have no SIM, where each SIM stands for `per_sim`.
    //= dcsim#eq3: n_SIM <= n_DATA.
    #[inline]
    pub(super) fn lacking(&self, per_sim: u32) -> u32 {
        let most = if self.sendable { sims_for(self.data(), per_sim) } else { 0 };
        most.min(self.limit).saturating_sub(self.sims)
    }

    /// SIMs that a flow near its end lacks to two for each of its last segments.
    pub(super) fn lacking_at_tail(&self, per_sim: u32) -> u32 {
        let near = self.sendable && self.limit == UNLIMITED && self.data() <= TAIL;
        let most = if near { 2 * sims_for(self.data(), per_sim) } else { 0 };
        most.saturating_sub(self.sims)
    }

    /// Whether a flow has more SIMs than its segments may have.
    pub(super) fn has_needless(&self, per_sim: u32, tail: bool) -> bool {
        let twice = tail && self.data() <= TAIL;
        self.sims > sims_for(self.data(), per_sim) * if twice { 2 } else { 1 }
    }

    /// Takes in that the peer answers, or that nothing waits for its answers.
    pub(super) fn end_silence(&mut self) {
        self.silent_since = None;
        self.late = false;
    }

    /// Takes in that a SIM was answered in time; with `most` SIMs on their way a flow has the line
    /// to itself.
    pub(super) fn answered(&mut self, most: usize) {
        self.end_silence();
        if self.limit != UNLIMITED {
            self.limit += GROWTH;
            if self.limit as usize >= most {
                self.limit = UNLIMITED;
            }
        }
    }
}
