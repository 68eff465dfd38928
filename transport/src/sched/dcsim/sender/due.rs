//! DATAs that may leave, and copies: whose turn it is, and what leaves.

use super::{Bind, Figures, Sender, SourcePort, SourcePorts};
use crate::time::Instant;
use crate::units::{EntropyValue, FlowId};

/// A DATA that may leave.
#[derive(Clone, Copy, Debug)]
pub(in crate::sched::dcsim) struct DueData {
    pub(in crate::sched::dcsim) flow: FlowId,
    pub(in crate::sched::dcsim) port: SourcePort,
    /// The instant from which on the DATA may leave.
    pub(in crate::sched::dcsim) at: Instant,
    /// Whether this is the last DATA of its SIM: once it has left, the port is free.
    pub(super) last: bool,
    /// When its segment was chosen, in the order of SIM-ACKs; wraps.
    pub(super) bound: u32,
    /// How many waiting segments are passed over for it; `None` where no segment is ever passed
    /// over.
    pub(in crate::sched::dcsim) nth: Option<u16>,
}

impl Sender {
    /// Whether a DATA waits for the line.
    #[inline]
    pub(in crate::sched::dcsim) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The flow that may send a copy next, and the copy's path.
    #[inline]
    pub(in crate::sched::dcsim) fn next_copy(&mut self) -> Option<(FlowId, EntropyValue)> {
        let flow = self.copies.next(&self.accounts)?;
        Some((flow, SourcePorts::any(&mut self.rng)))
    }

    /// Takes in that the copy that was to be sent leaves; returns since when it could have left.
    pub(in crate::sched::dcsim) fn on_copied(&mut self) -> Option<Instant> {
        self.copies.on_sent(&mut self.accounts)
    }

    /// The instant since which a DATA waits for the line, or a copy.
    #[inline]
    pub(in crate::sched::dcsim) fn data_since(&self) -> Option<Instant> {
        let due = self.due.front().map(|due| due.at);
        due.or_else(|| self.copies.since())
    }

    /// The DATA whose turn it is.
    pub(in crate::sched::dcsim) fn next_due(&mut self, figures: &mut Figures) -> Option<DueData> {
        self.void(figures);
        let mut due = self.due.pop_front()?;
        if self.bind == Bind::Ack {
            due.nth = Some(self.rank(&due));
        } else if self.copies.most() > 0 {
            due.nth = Some(0);
        }
        self.offered = Some(due);
        self.offered
    }

    /// How many segments of its flow that have not left were bound before that of `due`.
    fn rank(&self, due: &DueData) -> u16 {
        let account = &self.accounts[due.flow.index()];
        if account.bound <= 1 {
            return 0;
        }
        let before = |flow, bound: u32| {
            flow == due.flow && due.bound.wrapping_sub(bound).wrapping_sub(1) < u32::MAX / 2
        };
        let due = self.due.iter().filter(|other| before(other.flow, other.bound)).count();
        let unripe = self.records.bound().filter(|record| before(record.flow, record.order));
        let all = unripe.fold(due, |sum, record| sum + usize::from(record.bound));
        u16::try_from(all).unwrap_or(u16::MAX)
    }

    /// Takes in that a segment of the DATA that was offered leaves.
    pub(in crate::sched::dcsim) fn on_sent(&mut self, figures: &mut Figures) -> Option<DueData> {
        let due = self.offered.take()?;
        if let Some(account) = self.account(due.flow) {
            account.bound = account.bound.saturating_sub(1);
            account.waiting = account.waiting.saturating_sub(1);
        }
        self.used = true;
        self.end(&due, figures);
        Some(due)
    }

    /// Takes in that there was no segment for the DATA that was offered.
    pub(super) fn void(&mut self, figures: &mut Figures) {
        let Some(due) = self.offered.take() else { return };
        if let Some(account) = self.account(due.flow) {
            account.bound = account.bound.saturating_sub(1);
        }
        self.end(&due, figures);
    }

    /// Ends the turn of a DATA. With the last one of its SIM the port is free, and the SIM-ACK was
    /// wasted if none of them left.
    fn end(&mut self, due: &DueData, figures: &mut Figures) {
        if due.last {
            let used = core::mem::take(&mut self.used);
            figures.sims.wasted += u64::from(!used);
            self.free_good(due.flow, due.port);
        }
    }
}
