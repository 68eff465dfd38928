//! When each packet is sent: epochs, their slots, and how long requests, decisions and answers
//! take.
//!
//! Source: \[zeropod\] IV-C, IV-D. Hosts and the pod's scheduler compute the same numbers from the
//! same settings, so no instant is ever agreed upon by packets. All links of a pod are alike, and
//! nothing waits in a switch, so a packet that leaves at a known instant is everywhere at a known
//! instant.
//!
//! ```text
//!   one epoch:  cell 0 | .. | cell i-1 | RTS | cell i | .. | cell j-1 | gap | cell j | .. | guard
//!                                      slot i                        slot j
//! ```
//!
//! Host number i of its ToR sends its request in control slot i, before cell i. It leaves slot j
//! empty, where j is the number of its receiver. There the scheduler's answer to the receiver slips
//! into the link from the ToR to the receiver.

use crate::time::{Duration, Instant, Rate};
use crate::units::Bytes;

/// Epochs between requests of a host at most, where its pod has a backup.
pub const ASK_EVERY: u64 = 2;

/// Decisions without a request that counts in them, while demands are open, after which a scheduler
/// with a backup stops: one of two requests in a row may be lost.
pub const SILENT_MAX: u64 = 2 * ASK_EVERY;

/// The inputs of the timing of a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimingInputs {
    /// Bytes of a data cell on the wire.
    pub cell: Bytes,
    /// Bytes of a request or an answer on the wire.
    pub control: Bytes,
    /// Rate of every link.
    pub rate: Rate,
    /// Propagation of every link.
    pub hop: Duration,
    /// Data cells of an epoch.
    pub cells: u16,
    /// The time at the end of an epoch in which nothing is sent.
    pub guard: Duration,
    /// The time that a decision takes.
    pub delay: Duration,
    /// Cores of an aggregation switch at most; 0 without Cores.
    pub layers: u16,
    /// How long before its departure a host makes a packet.
    pub early: Duration,
    /// Whether clocks of hosts may be off: an answer then has a guard before and behind it.
    pub guards_answers: bool,
}

/// The timing of a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Transmission of a data cell, Tc.
    pub cell: Duration,
    /// Transmission of a control cell, Tk.
    pub control: Duration,
    /// Data cells of an epoch, N.
    pub cells: u16,
    /// The room beside an answer in its gap, half before it and half behind it. It equals the
    /// guard, unless requests of two hosts, one with such a gap and one without, would then meet.
    //= zeropod#IV-E
    pub slot_guard: Duration,
    /// An epoch, T.
    pub epoch: Duration,
    /// Time from the departure of a cell to its arrival at the next switch. Epochs of Cores begin
    /// so much later than those of hosts, so that their cells, which take a hop less, are aligned
    /// with those of hosts where they meet.
    //= zeropod#IV-D
    pub hop: Duration,
    /// Time from the departure of a cell at its host to its arrival at another host of the pod.
    pub flight: Duration,
    /// Time from the departure of an answer at the scheduler, or of a request at a host, to its
    /// arrival.
    pub control_flight: Duration,
    /// Time from the beginning of an epoch at hosts to the instant at which the scheduler sends the
    /// first answer that slips in between the cells of that epoch.
    pub answers_at: Duration,
    /// Like `answers_at`, for answers to Cores, which slip in between cells that have a hop less
    /// behind them.
    pub core_answers_at: Duration,
    /// Epochs from the one in which a request leaves to the decision that it counts in.
    pub to_decision: u64,
    /// Epochs from a decision to the epoch between whose cells its answers slip in.
    pub to_answers: u64,
    /// Like `to_answers`, for answers to Cores.
    pub to_core_answers: u64,
    /// Epochs from a decision to the epoch that it is about.
    pub lead: u64,
    /// Epochs from the epoch of a cell to the epoch of the request that reports its arrival.
    pub to_receipt: u64,
    /// Epochs from the epoch in which a request leaves until its answer has come, which is at the
    /// beginning of an epoch. A scheduler that answers every request is assumed.
    pub round_trip: u64,
    /// Epochs from the one in which cells are sent to the request that says that no receipt has
    /// come for them.
    pub to_lost: u64,
    /// Epochs by which a receipt may take longer, as requests and answers wait for one another.
    pub to_gather: u64,
    /// How long before its departure a host makes a packet. An answer arrives twice that time
    /// before its epoch, and a cell twice that time before the request that reports it. So a host
    /// may look for arrivals late by that time.
    pub early: Duration,
}

impl Timing {
    /// The timing of a pod with these `inputs`.
    #[must_use]
    pub fn new(inputs: &TimingInputs) -> Self {
        let (cell, control) =
            (inputs.rate.time_for(inputs.cell), inputs.rate.time_for(inputs.control));
        let cells = u64::from(inputs.cells);
        let apart = Duration::from_ps(cell.saturating_sub(control * 2).as_ps() / 2);
        let slot_guard =
            if inputs.guards_answers { inputs.guard.min(apart) } else { Duration::ZERO };
        let epoch = cell * cells + control * 2 + slot_guard + inputs.guard;
        let hop = inputs.hop + cell;
        let flight = hop * 4;
        let control_flight = (inputs.hop + control) * 2;
        // An answer takes one hop to the ToR, where a cell has taken three.
        let answers_at = hop * 3 - (inputs.hop + control);
        let core_answers_at = answers_at - hop;
        // The start of the last control slot.
        let last_slot = cell * cells + control + slot_guard;
        let epochs = |span: Duration| span.as_ps().div_ceil(epoch.as_ps());
        let to_answers = epochs(inputs.delay.saturating_sub(answers_at));
        let to_core_answers = epochs(inputs.delay.saturating_sub(core_answers_at));
        let early = inputs.early * 2;
        let lead = to_answers + epochs(answers_at + last_slot + control_flight + early);
        // The last slot of a Core, from the beginning of its own epoch on.
        let last_layer = cell * u64::from(inputs.layers.saturating_sub(1)) + control + slot_guard;
        let to_core = (core_answers_at + last_layer + control_flight).saturating_sub(hop);
        let core_lead =
            if inputs.layers > 0 { to_core_answers + epochs(to_core + early) } else { 0 };
        let to_decision = epochs(last_slot + control_flight);
        // Answers leave in the window that opens within an epoch from the decision on. Where there
        // are Cores, it opens with answers to these, a hop before those to hosts.
        let behind = if inputs.layers > 0 { hop } else { Duration::ZERO };
        let to_answer = epoch + behind + last_slot + control_flight + early;
        let to_receipt = epochs(cell * (cells - 1) + control * 2 + slot_guard + flight + early);
        let round_trip = to_decision + epochs(to_answer);
        Self {
            cell,
            control,
            cells: inputs.cells,
            slot_guard,
            epoch,
            hop,
            flight,
            control_flight,
            answers_at,
            core_answers_at,
            to_decision,
            to_answers,
            to_core_answers,
            lead: lead.max(core_lead),
            to_receipt,
            round_trip,
            // The epoch at whose beginning the receipt is there, and one for a clock that is off.
            to_lost: to_receipt + round_trip + 1,
            to_gather: 0,
            early: inputs.early,
        }
    }

    /// This timing, where a host sends a request in one of `ask_every` epochs. Its receipts wait
    /// for that request, then for an answer to their sender that is as far away at most, and there
    /// one may be behind another one. Where cells of one host arrive in more than two ways in these
    /// epochs, more receipts are behind one another, and some may take longer.
    #[must_use]
    pub fn asking_every(self, ask_every: u16) -> Self {
        let to_gather = 3 * u64::from(ask_every.saturating_sub(1));
        Self { to_gather, to_lost: self.to_lost - self.to_gather + to_gather, ..self }
    }

    /// Epochs from the one in which a request leaves to the one in which its cells do, D.
    #[must_use]
    pub const fn request_to_data(&self) -> u64 {
        self.to_decision + self.lead
    }

    /// Epochs without an answer after which a host turns to the other scheduler of its pod, from
    /// the first request on that got none.
    ///
    /// Where a scheduler is cut off, its last grants are for epochs before the first for which the
    /// other one grants, even if no packet of the other one arrives. Say it is cut off in epoch c.
    /// A request that it got counts in decision c + 2 at the latest. So its last decision is in c +
    /// 2 + [`SILENT_MAX`], and its last grant is for the epoch `lead` later. The first request that
    /// is not answered leaves in epoch c + 1 - `round_trip` or later, so the other one begins in
    /// c + 1 + [`SILENT_MAX`] at the earliest. It grants from `lead` + 2 epochs later on, which is
    /// later than the last grant of the scheduler that is cut off.
    #[must_use]
    pub const fn patience(&self) -> u64 {
        SILENT_MAX + self.round_trip
    }

    /// The first epoch that a scheduler grants when it begins a term in `epoch`. Another scheduler
    /// may stop now, or only when a host stops it: the epoch is behind all that it may have granted
    /// until then.
    #[must_use]
    pub const fn fence(&self, epoch: u64) -> u64 {
        let stopped = 2 * self.to_decision;
        epoch + 2 + if self.lead > stopped { self.lead } else { stopped }
    }

    /// The first epoch that a scheduler with superepochs of so many epochs grants in a term that it
    /// begins in `epoch`: a grant of a superepoch of an earlier term may reach behind the fence.
    #[must_use]
    pub const fn term_fence(&self, epoch: u64, superepoch: u64) -> u64 {
        self.fence(epoch) + superepoch - 1
    }

    /// The most by which an answer corrects the clock of a host that has settled: half of a control
    /// cell, so that no cell leaves before the one in front of it.
    #[must_use]
    pub const fn clock_step(&self) -> Duration {
        Duration::from_ps(self.control.as_ps() / 2)
    }

    /// The epoch of an instant at hosts.
    #[inline]
    #[must_use]
    pub fn epoch_at(&self, at: Instant) -> u64 {
        at.as_ps() / self.epoch.as_ps()
    }

    /// The beginning of an epoch at hosts.
    #[inline]
    #[must_use]
    pub fn start(&self, epoch: u64) -> Instant {
        Instant::ZERO + self.epoch * epoch
    }

    /// When cell `slot` leaves, from the beginning of its epoch on, at host number `own` of its ToR
    /// that sends to host number `peer` of its own one.
    //= zeropod#IV-C
    #[must_use]
    pub fn cell_at(&self, slot: u16, own: u16, peer: u16) -> Duration {
        let (request, gap) = (u64::from(own <= slot), u64::from(peer <= slot));
        self.cell * u64::from(slot) + self.control * request + self.gap() * gap
    }

    /// The length of the gap that a sender leaves for its receiver's answer.
    #[inline]
    const fn gap(&self) -> Duration {
        Duration::from_ps(self.control.as_ps() + self.slot_guard.as_ps())
    }

    /// When the request of host number `own` of its ToR leaves, from the beginning of the epoch on;
    /// `peer` is the number of the host that it sends cells to, if it sends any.
    #[inline]
    #[must_use]
    pub fn request_at(&self, own: u16, peer: Option<u16>) -> Duration {
        self.request_behind(own, peer.is_some_and(|peer| peer < own))
    }

    /// Like [`Timing::request_at`], where the gap of the receiver is before it or not.
    #[inline]
    #[must_use]
    pub fn request_behind(&self, own: u16, gap: bool) -> Duration {
        self.cell * u64::from(own) + self.gap() * u64::from(gap)
    }

    /// When the answer to host number `own` of its ToR is there, from the arrival of the first cell
    /// of an epoch on. `peer` is the number of the host that sends the epoch's cells, if there are
    /// any. Where both slots are one, the request of that host was the first in it.
    #[inline]
    #[must_use]
    pub fn answer_at(&self, own: u16, peer: Option<u16>) -> Duration {
        self.answer_behind(own, peer.is_some_and(|peer| peer <= own))
    }

    /// Like [`Timing::answer_at`], where the request of the sender is before it or not.
    #[inline]
    #[must_use]
    pub fn answer_behind(&self, own: u16, request: bool) -> Duration {
        let before = Duration::from_ps(self.slot_guard.as_ps() / 2);
        self.cell * u64::from(own) + self.control * u64::from(request) + before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::Slots;
    use crate::units::HostId;
    use crate::wire::pod::CellName;

    fn inputs(gbps: u64, cells: u16, delay_us: u64) -> TimingInputs {
        TimingInputs {
            cell: Bytes(552),
            control: Bytes(40),
            rate: Rate::from_gbps(gbps),
            hop: Duration::from_us(1),
            cells,
            guard: Duration::ZERO,
            delay: Duration::from_us(delay_us),
            layers: 0,
            early: Duration::ZERO,
            guards_answers: false,
        }
    }

    /// Epoch in picoseconds and D of the paper's four set-ups: one pod and several, at 100 and at
    /// 200 Gb/s.
    #[test]
    fn epochs_and_delays_are_those_of_the_papers_set_ups() {
        for (gbps, cells, delay, epoch, to_data) in [
            (100, 16, 15, 712_960, 30),
            (200, 16, 15, 356_480, 57),
            (100, 32, 5, 1_419_520, 10),
            (200, 32, 5, 709_760, 16),
        ] {
            let timing = Timing::new(&inputs(gbps, cells, delay));
            assert_eq!(timing.epoch, Duration::from_ps(epoch));
            assert_eq!(timing.request_to_data(), to_data, "{gbps} Gb/s, {cells} cells");
        }
        let timing = Timing::new(&inputs(100, 16, 15));
        assert_eq!(timing.flight, Duration::from_ps(4_176_640));
        assert_eq!(timing.control_flight, Duration::from_ps(2_006_400));
    }

    #[test]
    fn a_train_has_its_gaps_where_its_cells_leave_late() {
        let timing = Timing::new(&inputs(100, 16, 15));
        let slots = Slots { early: Duration::ZERO, per_switch: 16 };
        let late = |slot: u16, (own, peer): (u16, u16)| {
            timing.cell_at(slot, own, peer) - timing.cell * u64::from(slot)
        };
        for ends in (0..16).flat_map(|own| (0..16).map(move |peer| (own, peer))) {
            // Hosts of other switches have the same numbers.
            let hosts = (HostId(u32::from(ends.0) + 32), HostId(u32::from(ends.1) + 240));
            for (slot, cells) in (0..16).flat_map(|slot| (1..=16 - slot).map(move |n| (slot, n))) {
                let (agg, layer, epoch, unscheduled) = (3, 0, 1, false);
                let name = CellName { agg, layer, slot, epoch, unscheduled };
                let gaps = slots.gaps(name.ev(), cells, hosts);
                assert!(gaps[0] <= gaps[1] || gaps[1] == 0, "ascending: {gaps:?}");
                for behind in 0..cells {
                    let before = |gap: &&u8| **gap > 0 && **gap <= behind;
                    let count = gaps.iter().filter(before).count() as u64;
                    let more = late((slot + behind).into(), ends) - late(slot.into(), ends);
                    assert_eq!(more, timing.control * count, "{ends:?} {slot} {behind}");
                }
            }
        }
    }

    #[test]
    fn a_request_is_there_before_its_decision_and_an_answer_before_its_epoch() {
        for guard in [0, 50, 700] {
            for (gbps, cells, delay) in [(100, 16, 15), (200, 32, 5), (400, 3, 1), (25, 31, 40)] {
                let inputs =
                    TimingInputs { guard: Duration::from_ns(guard), ..inputs(gbps, cells, delay) };
                let timing = Timing::new(&inputs);
                let last = timing.request_at(cells, Some(0)) + timing.control_flight;
                let decision = timing.epoch * timing.to_decision;
                assert!(last <= decision && last + timing.epoch > decision);
                let answers = timing.epoch * timing.to_answers + timing.answers_at;
                assert!(answers >= inputs.delay);
                let answer = answers + timing.answer_at(cells, Some(0)) + timing.control_flight;
                assert!(answer <= timing.epoch * timing.lead);
                // Answers to Cores are no sooner than decisions end, nor later than their epochs.
                for layers in 1..=cells.min(8) {
                    let timing = Timing::new(&TimingInputs { layers, ..inputs });
                    let answers = timing.epoch * timing.to_core_answers + timing.core_answers_at;
                    let slot = timing.answer_at(layers - 1, Some(0));
                    assert!(answers >= inputs.delay);
                    let core_epoch = timing.epoch * timing.lead + timing.hop;
                    assert!(answers + slot + timing.control_flight <= core_epoch);
                }
            }
        }
    }

    /// At whatever instant a scheduler is cut off: its last grant, and the first one of the
    /// scheduler that a host turns to then.
    #[test]
    fn a_scheduler_that_is_cut_off_has_stopped_when_the_other_one_grants() {
        for (gbps, cells, delay) in [(100, 16, 15), (100, 32, 5), (200, 32, 5), (400, 3, 1)] {
            for (layers, early) in [(0, 0), (0, 300), (2, 0), (4, 2500)] {
                let early = Duration::from_ns(early);
                let inputs = TimingInputs { layers, early, ..inputs(gbps, cells, delay) };
                let timing = Timing::new(&inputs);
                let opens = if layers > 0 { timing.core_answers_at } else { timing.answers_at };
                let opened = opens.as_ps() / timing.epoch.as_ps();
                for step in 0..200 {
                    let cut = timing.start(100) + timing.epoch * step / 200;
                    // The first host's request goes before the others'.
                    let got = |epoch: &u64| {
                        timing.start(*epoch) + timing.request_at(0, None) + timing.control_flight
                            <= cut
                    };
                    let last = (0..=100).filter(got).max().unwrap() + timing.to_decision;
                    let granted = last + SILENT_MAX + timing.lead;
                    // The last host's answer comes after the others'.
                    let is_answered = |epoch: &u64| {
                        let decision = timing.start(epoch + timing.to_decision);
                        let window = timing.epoch_at(decision).saturating_sub(opened);
                        debug_assert!(timing.start(window) + opens >= decision);
                        let leaves = timing.start(window) + timing.answers_at;
                        let at = leaves + timing.answer_at(cells, Some(0)) + timing.control_flight;
                        at + early <= cut
                    };
                    let unanswered = (0..=100).find(|epoch| !is_answered(epoch)).unwrap();
                    let other = timing.fence(unanswered + timing.patience());
                    assert!(granted < other, "{inputs:?}: {granted} and {other}");
                    assert!(other < granted + timing.round_trip, "{inputs:?}: later than needed");
                }
            }
        }
    }

    /// The transmissions of one epoch at one transmitter: beginning and length.
    type Spans = Vec<(Duration, Duration)>;

    use alloc::vec::Vec;

    fn assert_apart(mut spans: Spans, limit: Duration, what: &str) {
        spans.sort_unstable();
        for pair in spans.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{what}: {pair:?}");
        }
        assert!(spans.last().is_none_or(|(at, long)| *at + *long <= limit), "{what}: {spans:?}");
    }

    /// By brute force: at no transmitter of the pod do cells, requests and answers of one epoch
    /// meet, for any two hosts.
    #[test]
    fn control_cells_meet_neither_data_nor_each_other() {
        for hosts in 2..=32_u16 {
            let timing = Timing::new(&inputs(100, hosts - 1, 15));
            for own in 0..hosts {
                for peer in 0..hosts {
                    let cells = |n| (timing.cell_at(n, own, peer), timing.cell);
                    let cells: Spans = (0..hosts - 1).map(cells).collect();
                    let mut nic = cells.clone();
                    nic.push((timing.request_at(own, Some(peer)), timing.control));
                    assert_apart(nic, timing.epoch, "at the host");
                    let mut down = cells;
                    down.push((timing.answer_at(peer, Some(own)), timing.control));
                    assert_apart(down, timing.epoch, "at the receiver's ToR");
                }
            }
            // Two hosts of a ToR, each with or without a gap before its slot.
            for (first, second) in (1..hosts).map(|second| (second - 1, second)) {
                for gaps in 0..4 {
                    let gap = |bit: u16, own: u16| (gaps & bit != 0 && own > 0).then_some(0);
                    let requests = [(1, first), (2, second)]
                        .map(|(bit, own)| timing.request_at(own, gap(bit, own)));
                    let answers = [(1, first), (2, second)]
                        .map(|(bit, own)| timing.answer_at(own, gap(bit, own)));
                    for slots in [requests, answers] {
                        let spans = slots.map(|at| (at, timing.control)).to_vec();
                        assert_apart(spans, timing.epoch, "between ToR and scheduler");
                    }
                }
            }
        }
    }

    /// Cells of a sender whose clock is off by up to half of the slot guard do not meet its
    /// receiver's answer. Requests of two hosts whose clocks are off by as much do not meet either.
    #[test]
    fn clocks_off_by_half_a_guard_leave_answers_and_requests_alone() {
        for (guard_ns, slot_ps) in [(10, 10_000), (18, 18_000), (200, 18_880)] {
            let guard = Duration::from_ns(guard_ns);
            let inputs = TimingInputs { guard, guards_answers: true, ..inputs(100, 15, 15) };
            let timing = Timing::new(&inputs);
            assert_eq!(timing.slot_guard, Duration::from_ps(slot_ps));
            let half = Duration::from_ps(slot_ps / 2);
            assert_eq!(timing.epoch, timing.cell * 15 + timing.control * 2 + half * 2 + guard);
            for own in 0..16_u16 {
                for peer in 0..16_u16 {
                    // A span that is longer by what the clock may be off, before and behind.
                    let cells = |n| (timing.cell_at(n, own, peer) + half, timing.cell);
                    let answer = timing.answer_at(peer, Some(own)) + half;
                    for off in [-1_i64, 1] {
                        let shifted = |(at, long): (Duration, Duration)| {
                            let by = off * half.as_ps().cast_signed();
                            (Duration::from_ps(at.as_ps().saturating_add_signed(by)), long)
                        };
                        let mut down: Spans = (0..15).map(|n| shifted(cells(n))).collect();
                        down.push((answer, timing.control));
                        assert_apart(down, timing.epoch + half * 2, "at the receiver's ToR");
                    }
                    let gap = |of: u16| (peer < of).then_some(peer);
                    let (late, early) = (own, own + 1);
                    let first = timing.request_at(late, gap(late)) + half * 2;
                    for second in
                        [timing.request_at(early, None), timing.request_at(early, gap(early))]
                    {
                        let spans = [(first, timing.control), (second, timing.control)];
                        let limit = timing.epoch * 2;
                        if own < 15 {
                            assert_apart(spans.to_vec(), limit, "between ToR and scheduler");
                        }
                    }
                }
            }
        }
    }
}
