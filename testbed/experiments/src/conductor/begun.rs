//! Messages that are not whole: what has been carried of them when a run is sampled or ends.

use transport::Endpoint;

use super::Conductor;

/// A message that is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The message's tag, [`super::PostOrder::tag_of`]; 0 at a receiver that has not seen its first
    /// segment.
    pub tag: u64,
    /// The message's length in bytes.
    pub len: u32,
    /// Whether its bytes are those acknowledged at the sender, else those at the receiver.
    pub acked: bool,
}

/// The messages of a host that are not whole. O(messages).
pub fn begun(endpoint: &Endpoint) -> impl Iterator<Item = Begun> + '_ {
    let arriving = endpoint.arriving().map(|(tag, len)| Begun { tag, len, acked: false });
    arriving.chain(endpoint.departing().map(|(tag, len)| Begun { tag, len, acked: true }))
}

impl Begun {
    /// The line of the matrix that its tag names, if it names one.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        super::tags::message_of(self.tag).map(|(flow, _)| flow.index())
    }
}

impl Conductor<'_> {
    /// Whether the bytes of a message that is not whole count. Bytes at the receiver do not where
    /// an earlier process of the receiver has delivered the message.
    pub(crate) fn counts_begun(&self, message: &Begun) -> bool {
        message.acked || !self.has_delivered(message.tag)
    }

    /// Notes a message that is not whole when the run ends, if its bytes count. A tag that names no
    /// flow is ignored, and so are bytes beyond the size of a flow.
    pub fn on_begun(&mut self, message: Begun) {
        if !self.counts_begun(&message) {
            return;
        }
        let (flow, Begun { len, acked, .. }) = (message.line(), message);
        let Some(record) = flow.and_then(|flow| self.records.get_mut(flow)) else { return };
        let size = flow.map_or(0, |flow| self.matrix.flows[flow].size.0);
        let (whole, begun) = if acked {
            (record.acked, &mut record.begun_acked)
        } else {
            (record.delivered, &mut record.begun)
        };
        *begun = (*begun + u64::from(len)).min(size.saturating_sub(whole));
    }
}
