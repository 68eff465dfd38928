//! Hosts that begin anew in the middle of a run: what becomes of their flows.

use std::collections::BTreeSet;

use transport::{HostId, Instant};

use super::Conductor;
use crate::workload::FlowIndex;

impl Conductor<'_> {
    /// Another process takes the place of `host`. Flows that it sends have failed; those that are
    /// not due yet start in the new process. A message that it has received may be delivered again
    /// if its sender has no acknowledgement of it. So may messages of flows of which the network
    /// has packets, which have these `tags`: such packets may open the flow at the new process
    /// before the sender opens it anew. O(flows).
    pub(crate) fn on_restart(&mut self, host: HostId, tags: &BTreeSet<u64>) {
        for (line, spec) in self.matrix.flows.iter().enumerate() {
            let Ok(flow) = u32::try_from(line).map(FlowIndex) else { continue };
            let record = self.records[line];
            if record.start == Instant::FAR_FUTURE {
                continue;
            }
            if spec.src == host && record.acked_at == Instant::FAR_FUTURE {
                self.on_failed(flow);
            } else if spec.dst == host {
                let open = tags.contains(&(u64::from(flow.0) + 1));
                let unknown = record.delivered.saturating_sub(record.acked);
                let again = if open { record.delivered + spec.size.0 } else { unknown };
                self.again.insert(flow, again);
            }
        }
    }

    /// How many of `len` bytes of `flow` that are delivered now are so for the first time. Those
    /// that an earlier process of the receiver may have delivered count once.
    pub(super) fn first_of(&mut self, flow: FlowIndex, len: u64) -> u64 {
        let size = self.matrix.flows[flow.index()].size.0;
        let more = (self.records[flow.index()].delivered + len).saturating_sub(size);
        let Some(left) = self.again.get_mut(&flow) else { return len };
        let again = more.min(*left).min(len);
        *left -= again;
        len - again
    }
}
