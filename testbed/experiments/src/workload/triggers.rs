//! Triggers at run time: which flows to start when a flow is done.
//!
//! ```text
//!   oneshot    first poke -> all flows             later pokes -> nothing
//!   multishot  n-th poke  -> the n-th flow         beyond the last -> nothing
//!   barrier K  K-th poke  -> all flows             any other poke -> nothing
//! ```
//!
//! Source: `.cm` files of uet-htsim. No time is kept here: flows that are returned start at the
//! instant of the call. Answers are slices of tables built once, so no call allocates. They depend
//! only on the order of calls.

use transport::{Duration, HostId};

use super::matrix::{FlowIndex, Matrix, Start, TriggerIndex, TriggerKind};

/// The state of all triggers of a matrix.
#[derive(Clone, Debug)]
pub struct Triggers {
    /// Flows that start by time, ascending by (start, place).
    timed: Vec<FlowIndex>,
    waiting: Waiting,
    /// Kind and pokes so far, by trigger.
    states: Vec<(TriggerKind, u32)>,
    /// For each flow: the triggers that it pokes when (sent, received); empty when the matrix has
    /// no triggers.
    pokes: Vec<(Option<TriggerIndex>, Option<TriggerIndex>)>,
}

/// The flows that wait for each trigger, in file order, one table for all.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// `flows[offsets[t]..offsets[t + 1]]` wait for trigger `t`; one longer than there are
    /// triggers.
    offsets: Vec<u32>,
    flows: Vec<FlowIndex>,
}

impl Triggers {
    /// The triggers of `matrix` before anything has happened. O(flows log flows).
    #[must_use]
    pub fn new(matrix: &Matrix) -> Self {
        let start_of = |flow: &FlowIndex| match matrix.flows[flow.index()].start {
            Start::At(start) => start,
            Start::On(_) => Duration::MAX,
        };
        let mut timed: Vec<FlowIndex> = indexed(matrix)
            .filter(|flow| matrix.flows[flow.index()].waits_for().is_none())
            .collect();
        timed.sort_by_key(start_of);
        let pokes = if matrix.triggers.is_empty() {
            Vec::new()
        } else {
            matrix.flows.iter().map(|flow| (flow.send_done, flow.recv_done)).collect()
        };
        let states = matrix.triggers.iter().map(|trigger| (trigger.kind, 0)).collect();
        Self { timed, waiting: Waiting::new(matrix), states, pokes }
    }

    /// Whether some trigger of `matrix` concerns several hosts, by the hosts that poke it or whose
    /// flows it starts. O(flows).
    #[must_use]
    pub fn couple_hosts(matrix: &Matrix) -> bool {
        let mut host_of: Vec<Option<HostId>> = vec![None; matrix.triggers.len()];
        let mut couples = false;
        let mut meet = |trigger: Option<TriggerIndex>, host: HostId| {
            let known = trigger.and_then(|trigger| host_of.get_mut(trigger.index()));
            if let Some(known) = known {
                couples |= *known.get_or_insert(host) != host;
            }
        };
        for flow in &matrix.flows {
            meet(flow.waits_for(), flow.src);
            meet(flow.send_done, flow.src);
            meet(flow.recv_done, flow.dst);
        }
        couples
    }

    /// Drops the flows that start by time and for which `is_kept` is false.
    pub(crate) fn keep_starts(&mut self, is_kept: impl Fn(FlowIndex) -> bool) {
        self.timed.retain(|&flow| is_kept(flow));
    }

    /// [`Triggers::keep_starts`] of the starts from place `from` on.
    pub(crate) fn keep_starts_from(&mut self, from: usize, is_kept: impl Fn(FlowIndex) -> bool) {
        let mut later = self.timed.split_off(from.min(self.timed.len()));
        later.retain(|&flow| is_kept(flow));
        self.timed.append(&mut later);
    }

    /// The flows that start by time, ascending by (start, place in the file).
    #[must_use]
    pub fn start(&self) -> &[FlowIndex] {
        &self.timed
    }

    /// The sender of `flow` has everything acknowledged: the flows that start now, in file order.
    /// To be called once a flow; O(1) beside the answer.
    pub fn on_send_done(&mut self, flow: FlowIndex) -> &[FlowIndex] {
        let poked = self.pokes.get(flow.index()).and_then(|&(send_done, _)| send_done);
        self.poke(poked)
    }

    /// The receiver of `flow` has everything: the flows that start now, in file order. To be called
    /// once a flow; O(1) beside the answer.
    pub fn on_recv_done(&mut self, flow: FlowIndex) -> &[FlowIndex] {
        let poked = self.pokes.get(flow.index()).and_then(|&(_, recv_done)| recv_done);
        self.poke(poked)
    }

    /// How many flows wait for a trigger still: zero at the end of every run that finished.
    #[must_use]
    pub fn still_waiting(&self) -> u64 {
        let of_one = |(at, &(kind, pokes)): (usize, &(TriggerKind, u32))| {
            let count = self.waiting.count(at);
            u64::from(count - kind.started(count, pokes))
        };
        self.states.iter().enumerate().map(of_one).sum()
    }

    fn poke(&mut self, trigger: Option<TriggerIndex>) -> &[FlowIndex] {
        let Some(trigger) = trigger else { return &[] };
        let Some((kind, pokes)) = self.states.get_mut(trigger.index()) else { return &[] };
        let waiting = self.waiting.of(trigger.index());
        let count = self.waiting.count(trigger.index());
        let before = kind.started(count, *pokes);
        *pokes = pokes.saturating_add(1);
        let after = kind.started(count, *pokes);
        &waiting[before as usize..after as usize]
    }
}

impl Waiting {
    /// The table of `matrix`, by counting sort. References to triggers that do not exist are left
    /// out.
    pub(super) fn new(matrix: &Matrix) -> Self {
        let mut offsets = vec![0u32; matrix.triggers.len() + 1];
        let waits_for = |flow: FlowIndex| {
            let trigger = matrix.flows[flow.index()].waits_for()?.index();
            (trigger < matrix.triggers.len()).then_some(trigger)
        };
        for trigger in indexed(matrix).filter_map(waits_for) {
            offsets[trigger + 1] += 1;
        }
        for at in 1..offsets.len() {
            offsets[at] += offsets[at - 1];
        }
        let mut next = offsets.clone();
        let count = offsets.last().copied().unwrap_or(0);
        let mut flows = vec![FlowIndex(0); count as usize];
        for flow in indexed(matrix) {
            if let Some(trigger) = waits_for(flow) {
                flows[next[trigger] as usize] = flow;
                next[trigger] += 1;
            }
        }
        Self { offsets, flows }
    }

    /// The flows that wait for `trigger`, in file order.
    pub(super) fn of(&self, trigger: usize) -> &[FlowIndex] {
        &self.flows[self.offsets[trigger] as usize..self.offsets[trigger + 1] as usize]
    }

    /// How many wait for `trigger`.
    pub(super) fn count(&self, trigger: usize) -> u32 {
        self.offsets[trigger + 1] - self.offsets[trigger]
    }
}

fn indexed(matrix: &Matrix) -> impl Iterator<Item = FlowIndex> + use<> {
    let count = u32::try_from(matrix.flows.len()).unwrap_or(u32::MAX);
    (0..count).map(FlowIndex)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use transport::Bytes;

    use super::*;
    use crate::workload::matrix::FlowSpec;

    /// Three flows by time that poke one trigger when sent, three flows that wait for it.
    fn three_and_three(kind: TriggerKind) -> Triggers {
        let mut matrix = Matrix { nodes: 2, ..Matrix::default() };
        let trigger = matrix.push_trigger(kind).unwrap();
        let flow = FlowSpec::new(HostId(0), HostId(1), Bytes(1));
        for us in [5, 3, 3] {
            let start = Start::At(Duration::from_us(us));
            matrix.push_flow(FlowSpec { start, send_done: Some(trigger), ..flow });
        }
        for _ in 0..3 {
            matrix.push_flow(FlowSpec { start: Start::On(trigger), ..flow });
        }
        Triggers::new(&matrix)
    }

    fn indices(flows: &[FlowIndex]) -> Vec<u32> {
        flows.iter().map(|flow| flow.0).collect()
    }

    #[test]
    fn a_trigger_between_two_hosts_couples_them_and_one_within_a_host_does_not() {
        let couples = |waiter: u32, by_receiver: bool| {
            let mut matrix = Matrix { nodes: 4, ..Matrix::default() };
            let trigger = matrix.push_trigger(TriggerKind::Oneshot);
            let flow = FlowSpec::new(HostId(1), HostId(2), Bytes(1));
            let (send_done, recv_done) =
                if by_receiver { (None, trigger) } else { (trigger, None) };
            matrix.push_flow(FlowSpec { send_done, recv_done, ..flow });
            let flow = FlowSpec::new(HostId(waiter), HostId(3), Bytes(1));
            matrix.push_flow(FlowSpec { start: Start::On(trigger.unwrap()), ..flow });
            Triggers::couple_hosts(&matrix)
        };
        assert!(!couples(1, false) && !couples(2, true));
        assert!(couples(2, false) && couples(1, true));
        assert!(!Triggers::couple_hosts(&Matrix::default()));
    }

    #[test]
    fn flows_by_time_come_in_the_order_of_time_and_file() {
        assert_eq!(indices(three_and_three(TriggerKind::Oneshot).start()), [1, 2, 0]);
    }

    #[test]
    fn a_oneshot_starts_all_its_flows_at_the_first_poke_and_none_later() {
        let mut triggers = three_and_three(TriggerKind::Oneshot);
        assert_eq!(triggers.still_waiting(), 3);
        assert_eq!(indices(triggers.on_send_done(FlowIndex(2))), [3, 4, 5]);
        assert_eq!(indices(triggers.on_send_done(FlowIndex(0))), [0u32; 0]);
        assert_eq!(triggers.still_waiting(), 0);
    }

    #[test]
    fn a_multishot_starts_one_flow_a_poke() {
        let mut triggers = three_and_three(TriggerKind::Multishot);
        for (done, started) in [(0, 3), (2, 4), (1, 5)] {
            assert_eq!(indices(triggers.on_send_done(FlowIndex(done))), [started]);
        }
        assert!(triggers.on_send_done(FlowIndex(1)).is_empty());
    }

    #[test]
    fn a_barrier_starts_all_at_the_last_of_its_pokes() {
        let mut triggers = three_and_three(TriggerKind::Barrier(NonZeroU32::new(3).unwrap()));
        assert!(triggers.on_send_done(FlowIndex(0)).is_empty());
        assert!(triggers.on_send_done(FlowIndex(1)).is_empty());
        assert_eq!(indices(triggers.on_send_done(FlowIndex(2))), [3, 4, 5]);
    }

    #[test]
    fn a_receiver_that_is_done_pokes_only_what_recv_done_names() {
        let mut triggers = three_and_three(TriggerKind::Oneshot);
        assert!(triggers.on_recv_done(FlowIndex(0)).is_empty());
        assert!(triggers.on_send_done(FlowIndex(99)).is_empty());
    }
}
