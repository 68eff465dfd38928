//! Trains: cells of one message that leave in slots behind one another, and that a simulation
//! carries as one packet.
//!
//! Source: ours. Cells of a pod wait nowhere, so what is behind one another when it leaves is so on
//! its whole way, and each cell is where and when it would be by itself. Cells for another pod wait
//! in a Core, which sends them one by one: they are no trains.

use core::num::NonZeroU16;

use super::timing::Timing;
use super::{Filling, Zeropod};
use crate::sched::SchedSetup;
use crate::time::Duration;
use crate::units::FlowId;
use crate::wire::pod::{CELLS_MAX, DemandEnd};

/// Cells of a train at most; 1 where there are none.
pub(super) fn longest(setup: &SchedSetup<'_>, timing: &Timing) -> u16 {
    let (params, sizes) = (&setup.params.zeropod, setup.wire_sizes.accounted);
    // All cells are as long, and a control packet has the bytes that gaps are for.
    let is_regular = sizes.data_overhead.is_some() && sizes.data_min == params.cell;
    let has_gaps = sizes.control.is_some() && timing.slot_guard == Duration::ZERO;
    // A host that makes its packets early may be too late for some of the slots.
    if !params.trains || !is_regular || !has_gaps || params.early > Duration::ZERO {
        return 1;
    }
    // The length of a packet has 16 bits.
    let most = u64::from(u16::MAX) / setup.mtu.0.max(1);
    u16::try_from(most).unwrap_or(u16::MAX).clamp(1, CELLS_MAX)
}

impl Zeropod {
    /// Cells of a flow that may leave together in the next slots: those that leave before another
    /// flow has its turn. A train that was lost leaves as it was.
    pub(super) fn train(&self, flow: FlowId, filling: &Filling) -> NonZeroU16 {
        let room = self.train_max.min(filling.end - filling.slot);
        let cells = match filling.grant.to {
            DemandEnd::Pod(_) => 1,
            DemandEnd::Host(_) => {
                let cells = self.queues.cells_together(flow, self.cell);
                u16::try_from(cells).unwrap_or(u16::MAX).min(room)
            }
        };
        NonZeroU16::new(cells).unwrap_or(NonZeroU16::MIN)
    }

    /// Cells that a segment of so many payload bytes takes; at least 1.
    #[inline]
    pub(super) fn cells_of(&self, len: u16) -> u16 {
        let (cell, len) = (self.cell, u32::from(len));
        if len <= cell { 1 } else { u16::try_from(len.div_ceil(cell)).unwrap_or(u16::MAX) }
    }

    /// The cells that a flow with so many `segments` waits for; a lost train is one segment. An
    /// offer that is still open means that a lost train did not fit: its slots stay empty, and the
    /// flow asks for an epoch more.
    pub(super) fn review_train(&mut self, flow: FlowId, segments: u64) -> u64 {
        let offered = self.offered.take_if(|(of, name)| *of == flow && !name.unscheduled);
        let is_void = offered.is_some() && segments > 0;
        if is_void {
            self.pass_over_slots(u16::MAX);
        }
        let Some(account) = self.queues.account(flow) else { return segments };
        account.too_long = segments > 0 && (account.too_long || is_void);
        if account.too_long { segments + u64::from(self.timing.cells) } else { segments }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::tests::{HOST, PEER, config_with};
    use super::*;
    use crate::config::{Config, Settings};
    use crate::rng::Rng;
    use crate::sched::{Backlog, Label, Sending};
    use crate::segment::{PayloadRef, TxSegment};
    use crate::time::Instant;
    use crate::units::{Bytes, HostId};
    use crate::wire::pod::Grant;

    const FLOW: FlowId = FlowId::new(0, 1);

    /// A host with settings that `change` changes, with 100 cells to send, and an epoch of 16
    /// cells for `to`.
    fn host(to: DemandEnd, change: impl FnOnce(&mut Settings)) -> Zeropod {
        let mut settings = (*config_with(0, 1)).clone();
        change(&mut settings);
        let config = Config::new(settings).unwrap();
        let mut sched = Zeropod::new(&config.sched_setup(HOST, Rng::new(3)));
        sched.on_open(FLOW, PEER, &config.default_path(), Label::NONE);
        sched.on_backlog(FLOW, &waiting(100), Instant::ZERO);
        let (agg, layer, total, mice_only) = (5, None, 0, false);
        let grant = Grant { epoch: 0, to, agg, layer, cells: 16, epochs: 1, total, mice_only };
        sched.filling = Some(Filling { grant, epoch: 0, queue: 0, slot: 0, end: 16 });
        sched
    }

    fn waiting(segments: u64) -> Backlog {
        let waiting = Bytes(segments * 552);
        Backlog { sendable: Bytes(552), segments, waiting, ..Backlog::default() }
    }

    /// The trains that leave in the epoch.
    fn trains(mut sched: Zeropod) -> Vec<u16> {
        let mut trains = Vec::new();
        while let Some(turn) = sched.next_turn(Instant::ZERO, Instant::FAR_FUTURE) {
            let train = turn.choice.unwrap().train.get();
            let payload = PayloadRef { len: 512 * train, ..PayloadRef::NONE };
            let mut segment = TxSegment { payload, ..TxSegment::VACANT };
            sched.on_sent(turn.flow, &mut segment, Backlog::default, Instant::ZERO);
            trains.push(train);
        }
        trains
    }

    #[test]
    fn a_train_ends_with_its_level_and_its_grant() {
        let to = DemandEnd::Host(17);
        // Five cells take a flow beyond 2500 bytes.
        assert_eq!(trains(host(to, |_| ())), [5, 11]);
        // A packet has at most 65,535 bytes: seven cells of 9,000.
        let jumbo = |s: &mut Settings| {
            (s.payload_max, s.accounted.data_min) = (8_960, 8_960);
            s.sched_params.zeropod.cell = 8_960;
        };
        assert_eq!(host(to, jumbo).train_max, 7);
    }

    #[test]
    fn cells_leave_one_by_one_where_something_may_happen_to_one_alone() {
        let alone = [1; 16];
        let to = DemandEnd::Host(17);
        assert_eq!(trains(host(to, |s| s.sched_params.zeropod.trains = false)), alone);
        assert_eq!(trains(host(to, |s| s.accounted.control = None)), alone);
        assert_eq!(trains(host(to, |s| s.accounted.data_min = 511)), alone);
        // Gaps are of the length of control packets alone.
        let guarded = |s: &mut Settings| {
            let params = &mut s.sched_params.zeropod;
            (params.follow, params.guard) = (true, Duration::from_ns(20));
        };
        assert_eq!(host(to, guarded).train_max, 1);
        let early = Duration::from_ps(1);
        assert_eq!(host(to, |s| s.sched_params.zeropod.early = early).train_max, 1);
        // A Core sends them one by one.
        assert_eq!(trains(host(DemandEnd::Pod(1), |_| ())), alone);
    }

    #[test]
    fn a_train_that_is_too_long_for_its_slots_waits_for_a_slot_for_each_of_its_cells() {
        let mut sched = host(DemandEnd::Host(17), |_| ());
        let filling = sched.filling;
        let turn = sched.next_turn(Instant::ZERO, Instant::FAR_FUTURE).unwrap();
        assert_eq!(turn.choice.unwrap().train.get(), 5);
        // What is left is one train of more than five cells, which the level has no room for.
        sched.on_backlog(FLOW, &waiting(1), Instant::ZERO);
        assert_eq!(sched.queues.queue(0).waiting, 17);
        assert_eq!(sched.counts.unused, 16);
        assert_eq!(sched.next_turn(Instant::ZERO, Instant::FAR_FUTURE), None);
        // The next epoch is wholly for it.
        sched.filling = filling;
        let turn = sched.next_turn(Instant::ZERO, Instant::FAR_FUTURE).unwrap();
        assert_eq!(turn.choice.unwrap().train.get(), 16);
        let payload = PayloadRef { len: 512 * 11, ..PayloadRef::NONE };
        let mut segment = TxSegment { payload, ..TxSegment::VACANT };
        sched.on_sent(FLOW, &mut segment, Backlog::default, Instant::ZERO);
        sched.on_backlog(FLOW, &waiting(3), Instant::ZERO);
        assert_eq!(sched.queues.queue(0).waiting, 3);
    }

    #[test]
    fn flows_whose_lost_trains_are_too_long_do_not_hold_each_other_up() {
        let mut sched = host(DemandEnd::Host(17), |_| ());
        let other = FlowId::new(1, 1);
        sched.on_open(other, HostId(18), &config_with(0, 1).default_path(), Label::NONE);
        sched.on_backlog(other, &waiting(100), Instant::ZERO);
        let first = sched.filling.unwrap();
        let grant = Grant { to: DemandEnd::Host(18), ..first.grant };
        let epochs = [(FLOW, first), (other, Filling { grant, queue: 1, ..first })];
        // Both trains have more than the five cells that a level has room for.
        for room in [5, 16] {
            for (flow, filling) in epochs {
                sched.filling = Some(filling);
                let turn = sched.next_turn(Instant::ZERO, Instant::FAR_FUTURE).unwrap();
                assert_eq!((turn.flow, turn.choice.unwrap().train.get()), (flow, room));
                sched.on_backlog(flow, &waiting(1), Instant::ZERO);
            }
        }
        // The end of a flow's backlog is the end of its lost trains.
        sched.on_backlog(FLOW, &waiting(0), Instant::ZERO);
        sched.on_backlog(FLOW, &waiting(2), Instant::ZERO);
        assert_eq!(sched.queues.queue(0).waiting, 2);
    }
}
