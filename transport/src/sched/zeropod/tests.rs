//! Rules of Zeropod's hosts, one host at a time: what it asks for and sends when, and what it does
//! about answers that are not what they should be.

use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::config::{Config, Settings};
use crate::rng::Rng;
use crate::sched::{Arrival, Protocol, Receiving, SchedKind};
use crate::segment::{BURST, Burst, PayloadRef};
use crate::time::Rate;
use crate::units::{EntropyValue, Psn};
use crate::wire::class::TrafficClass;
use crate::wire::{AccountedSizes, Data, Header, Note};

/// The host, the third of its ToR, and its peer, the second of another.
pub(super) const HOST: HostId = HostId(2);
pub(super) const PEER: HostId = HostId(17);
pub(super) const SCHEDULER: HostId = HostId(288);
pub(super) const BACKUP: HostId = HostId(289);

pub(super) fn config() -> Config {
    config_with(0, 1)
}

/// Copies of cells of flows of less than `optimistic` cells leave so often without a grant.
pub(super) fn config_with(optimistic: u16, copies: u16) -> Config {
    let accounted = AccountedSizes { data_overhead: Some(40), control: Some(40), data_min: 512 };
    let mut settings = Settings {
        payload_max: 512,
        line_rate: Rate::from_gbps(100),
        accounted,
        sched: SchedKind::Zeropod,
        tx_flows_max: 8,
        ..Settings::default()
    };
    let params = &mut settings.sched_params.zeropod;
    (params.per_tor, params.hosts, params.cell, params.aggs) = (16, 256, 512, 16);
    (params.scheduler, params.hop) = (SCHEDULER.0, Duration::from_us(1));
    (params.optimistic, params.optimistic_copies) = (optimistic, copies);
    Config::new(settings).unwrap()
}

pub(super) struct Host {
    pub(super) sched: Zeropod,
    pub(super) now: Instant,
    /// Requests that left, and when.
    pub(super) requests: Vec<(Instant, Rts)>,
    /// Cells that left: the instant, the flow, the name.
    pub(super) cells: Vec<(Instant, FlowId, CellName)>,
    /// Segments that its polls found to have arrived or to be sent again.
    pub(super) reported: Vec<Reported>,
}

pub(super) fn flow(index: u32) -> FlowId {
    FlowId::new(index, 1)
}

pub(super) fn backlog(segments: u64) -> Backlog {
    Backlog { sendable: Bytes(512), segments, ..Backlog::default() }
}

fn cell(psn: u32) -> TxSegment {
    let data = Data { psn: Psn(psn), ..Data::VACANT };
    let hdr = Header::new(EntropyValue(0), FlowId::UNKNOWN, Body::Data(data));
    TxSegment { hdr, payload: PayloadRef { len: 512, ..PayloadRef::NONE }, peer: PEER }
}

impl Host {
    pub(super) fn new() -> Self {
        let sched = Zeropod::new(&config().sched_setup(HOST, Rng::new(3)));
        Self {
            sched,
            now: Instant::ZERO,
            requests: Vec::new(),
            cells: Vec::new(),
            reported: Vec::new(),
        }
    }

    pub(super) fn post(&mut self, index: u32, segments: u64) {
        let path = config().default_path();
        self.sched.on_open(flow(index), PEER, &path, Label::NONE);
        self.sched.on_backlog(flow(index), &backlog(segments), self.now);
    }

    fn poll(&mut self) {
        self.look();
        self.send();
    }

    /// Does what is due.
    fn look(&mut self) {
        self.sched.handle_timeout(self.now);
        self.reported.extend(core::iter::from_fn(|| self.sched.next_reported()));
    }

    fn send(&mut self) {
        let now = self.now;
        let mut burst = Burst::with_limit(BURST);
        self.sched.poll_control(now, now, &mut burst);
        for segment in burst.iter() {
            let Body::Note(note) = segment.hdr.body else { unreachable!() };
            assert!(self.sched.is_scheduler(segment.peer));
            assert_eq!(segment.hdr.ev, EntropyValue(2));
            self.requests.push((now, Rts::of(&note).unwrap()));
        }
        while let Some(turn) = self.sched.next_turn(now, now + Duration::from_us(100)) {
            let Choice { ev, at, copy, .. } = turn.choice.unwrap();
            assert!(!copy && at >= Some(now));
            self.cells.push((at.unwrap(), turn.flow, CellName::of(ev.unwrap())));
            let psn = u32::try_from(self.cells.len()).unwrap();
            self.sched.on_sent(turn.flow, &mut cell(psn), Backlog::default, now);
        }
    }

    /// Goes on to `end`.
    pub(super) fn run(&mut self, end: Instant) {
        self.poll();
        self.keep_times(end);
    }

    /// Goes on to `end`, with polls at the times alone that the host names.
    pub(super) fn keep_times(&mut self, end: Instant) {
        while let Some(at) = self.sched.poll_timeout().filter(|at| *at <= end) {
            assert!(at > self.now, "later than the last call");
            self.now = at;
            self.poll();
        }
        self.now = end;
    }

    pub(super) fn answer(&mut self, from: HostId, schd: &Schd) -> bool {
        let hdr = Header::new(EntropyValue(0), FlowId::UNKNOWN, Body::Note(schd.note()));
        self.sched.on_host_control(from, &hdr, &schd.note(), self.now).is_ok()
    }

    pub(super) fn epoch(&self, epoch: u64) -> Instant {
        self.sched.timing.start(epoch)
    }
}

pub(super) fn granted(epoch: u32, cells: u8, total: u32) -> Schd {
    let to = DemandEnd::Host(17);
    let (agg, layer, epochs, mice_only) = (5, None, 1, false);
    let grant = Grant { epoch, to, agg, layer, cells, epochs, total, mice_only };
    let (receipt, standing, delivered, stamp) = (None, None, None, None);
    Schd { term: 1, grant: Some(grant), receipt, also: 0, standing, delivered, stamp }
}

#[test]
fn a_request_asks_for_what_waits_and_leaves_in_its_slot() {
    let mut host = Host::new();
    host.post(0, 3);
    host.run(host.epoch(5));
    let [(at, rts)] = host.requests[..] else { panic!("{:?}", host.requests) };
    // Slot 2 is behind two cells.
    assert_eq!(at, Instant::from_ps(2 * 44_160));
    assert_eq!((rts.epoch, rts.update), (0, Some((DemandEnd::Host(17), 3 * 512))));
    assert_eq!(rts.mice(), [Mouse { to: DemandEnd::Host(17), size: Mouse::step(3 * 512) }]);
    // More for the same destination is asked for on top of that.
    host.post(1, 4);
    host.run(host.epoch(9));
    assert_eq!(host.requests[1].1.update, Some((DemandEnd::Host(17), 7 * 512)));
    assert_eq!(host.requests.len(), 2);
    // A host that has asked waits for as long as an answer takes.
    assert_eq!(host.sched.poll_timeout(), Some(host.epoch(30)));
}

#[test]
fn flows_that_are_open_make_room_for_what_they_ask_for() {
    let mut host = Host::new();
    for index in 0..8 {
        let path = config().default_path();
        host.sched.on_open(flow(index), HostId(17 + index), &path, Label::NONE);
    }
    let room = host.sched.dirty.capacity();
    assert!(room >= 8);
    (0..8).for_each(|index| host.sched.on_backlog(flow(index), &backlog(1), host.now));
    assert_eq!((host.sched.dirty.len(), host.sched.dirty.capacity()), (8, room));
}

#[test]
fn a_granted_epoch_is_filled_slot_by_slot() {
    let mut host = Host::new();
    host.post(0, 20);
    host.run(host.epoch(2));
    assert!(host.answer(SCHEDULER, &granted(30, 16, 16 * 512)));
    assert!(host.answer(SCHEDULER, &granted(33, 4, 20 * 512)));
    host.run(host.epoch(40));
    let timing = host.sched.timing;
    let slots = (0..16_u8).map(|slot| (30, slot)).chain((0..4).map(|slot| (33, slot)));
    let expected: Vec<_> = slots
        .map(|(epoch, slot)| {
            let modulo = if epoch == 30 { 2 } else { 1 };
            let name = CellName { agg: 5, layer: 0, slot, epoch: modulo, unscheduled: false };
            (timing.start(epoch) + timing.cell_at(slot.into(), 2, 1), flow(0), name)
        })
        .collect();
    assert_eq!(host.cells, expected);
    let counts = host.sched.counts();
    assert_eq!((counts.cells, counts.unused, counts.late, counts.refused()), (20, 0, 0, 0));
    // Nothing is left to be asked for; that no receipts come is said once of each epoch.
    assert_eq!(host.requests.len(), 1);
    host.run(host.epoch(60));
    let said: Vec<_> = host.requests[1..].iter().map(|(_, rts)| (rts.epoch, rts.lost)).collect();
    let to_lost = u32::try_from(timing.to_lost).unwrap();
    assert_eq!(said, [(30 + to_lost, true), (33 + to_lost, true)]);
    assert_eq!(host.sched.poll_timeout(), None);
}

#[test]
fn a_grant_that_has_come_leaves_nothing_to_ask_for() {
    let mut host = Host::new();
    host.post(0, 20);
    host.run(host.epoch(2));
    for (epoch, cells, total) in [(30, 16, 16), (33, 4, 20)] {
        assert!(host.answer(SCHEDULER, &granted(epoch, cells, total * 512)));
        // The host is called next for the granted epoch, not for a request.
        assert_eq!(host.sched.poll_timeout(), Some(host.epoch(30)));
    }
}

#[test]
fn the_request_of_a_granted_epoch_leaves_behind_the_gap_of_its_receiver() {
    let mut host = Host::new();
    host.post(0, 1);
    host.run(host.epoch(2));
    host.answer(SCHEDULER, &granted(30, 1, 512));
    host.run(host.epoch(30));
    host.post(1, 2);
    host.run(host.epoch(31));
    // Two cells and the gap of host number 1 are before slot 2.
    let at = host.epoch(30) + Duration::from_ps(2 * 44_160 + 3_200);
    assert_eq!(host.requests.last().unwrap().0, at);
}

#[test]
fn grants_that_cannot_be_used_are_asked_for_again() {
    let mut host = Host::new();
    host.post(0, 8);
    host.run(host.epoch(10));
    // An answer for an epoch that has begun: its bytes count as granted, and are asked for again.
    assert!(host.answer(SCHEDULER, &granted(10, 4, 4 * 512)));
    assert_eq!(host.sched.counts().late, 1);
    host.run(host.epoch(12));
    assert_eq!(host.requests.last().unwrap().1.update, Some((DemandEnd::Host(17), 12 * 512)));
    // An answer that was lost: the total of the next one says so.
    assert!(host.answer(SCHEDULER, &granted(20, 2, 12 * 512)));
    host.run(host.epoch(22));
    assert_eq!((host.cells.len(), host.sched.counts().unused), (2, 0));
    assert_eq!(host.requests.last().unwrap().1.update, Some((DemandEnd::Host(17), 18 * 512)));
}

#[test]
fn an_epoch_that_nothing_waits_for_stays_empty_and_is_counted() {
    let mut host = Host::new();
    host.post(0, 8);
    host.run(host.epoch(2));
    assert!(host.answer(SCHEDULER, &granted(30, 8, 8 * 512)));
    host.sched.on_backlog(flow(0), &backlog(3), host.now);
    host.run(host.epoch(30) + Duration::from_ps(1));
    host.sched.on_backlog(flow(0), &backlog(0), host.now);
    host.run(host.epoch(32));
    host.sched.on_backlog(flow(0), &backlog(2), host.now);
    host.run(host.epoch(34));
    assert_eq!((host.cells.len(), host.sched.counts().unused), (3, 5));
    assert_eq!(host.requests.last().unwrap().1.update, Some((DemandEnd::Host(17), 10 * 512)));
}

#[test]
fn answers_that_make_no_sense_are_counted_and_change_nothing() {
    let mut host = Host::new();
    host.post(0, 8);
    host.run(host.epoch(2));
    let good = granted(30, 8, 8 * 512);
    let with = |change: fn(&mut Grant)| {
        let mut schd = good;
        change(schd.grant.as_mut().unwrap());
        schd
    };
    for (from, schd) in [
        (HostId(1), good),
        (SCHEDULER, with(|grant| grant.total = 9 * 512)),
        (SCHEDULER, with(|grant| grant.total = u32::MAX)),
        (SCHEDULER, with(|grant| grant.to = DemandEnd::Host(18))),
        (SCHEDULER, with(|grant| grant.to = DemandEnd::Host(900))),
        (SCHEDULER, with(|grant| grant.to = DemandEnd::Pod(1))),
        (SCHEDULER, with(|grant| grant.cells = 17)),
        (SCHEDULER, with(|grant| grant.agg = 16)),
        (SCHEDULER, with(|grant| grant.layer = Some(0))),
    ] {
        let before = host.sched.counts().refused();
        assert!(!host.answer(from, &schd), "{from:?} {schd:?}");
        assert_eq!(host.sched.counts().refused(), before + 1);
    }
    // A term that has passed, and a note of another protocol.
    assert!(host.answer(
        SCHEDULER,
        &Schd { term: 4, grant: None, receipt: Some((0, !0)), ..granted(0, 1, 0) }
    ));
    assert!(!host.answer(SCHEDULER, &good));
    let hdr = Header::new(EntropyValue(0), FlowId::UNKNOWN, Body::Note(Note::new(9, &[]).unwrap()));
    let note = Note { class: TrafficClass::Control, ..Note::new(9, &[1; 26]).unwrap() };
    assert!(host.sched.on_host_control(SCHEDULER, &hdr, &note, host.now).is_err());
    // In a later term the host asks anew, and nothing that it asked for before can be granted.
    let new = |epoch, total| Schd { term: 4, ..granted(epoch, 4, total) };
    assert!(!host.answer(SCHEDULER, &new(30, 4 * 512)));
    host.run(host.epoch(4));
    // Nor does one for two epochs at once, or a second one for an epoch, take a cell twice.
    assert!(host.answer(SCHEDULER, &new(30, 4 * 512)));
    assert!(!host.answer(SCHEDULER, &new(30, 4 * 512)), "repeated");
    // One for an epoch that is over, and one for an epoch that no answer can be about.
    assert!(host.answer(SCHEDULER, &new(1, 4 * 512)));
    assert!(!host.answer(SCHEDULER, &new(200, 4 * 512)));
    host.run(host.epoch(40));
    assert_eq!((host.cells.len(), host.sched.counts().late), (4, 1));
    let named: Vec<_> = host.sched.counts().refusals().collect();
    let expected = [
        ("forged_answer", 1),
        ("old_answer", 1),
        ("unasked_answer", 6),
        ("malformed_answer", 1),
        ("far_answer", 1),
        ("doubled_answer", 1),
        ("routeless_answer", 3),
        ("early_answer", 0),
    ];
    assert_eq!(named, expected);
}

#[test]
fn an_outage_lasts_from_the_answer_that_is_due_to_the_fence_of_the_next_term() {
    outage_of_a_term(1);
    outage_of_a_term(4);
}

fn outage_of_a_term(superepoch: u16) {
    let mut host = Host::new();
    host.sched.params.superepoch = superepoch;
    host.sched.watch = PodWatch::new(Some(BACKUP));
    host.post(0, 8);
    host.run(host.epoch(1));
    let alone = |term| Schd { term, grant: None, ..granted(0, 8, 0) };
    assert!(host.answer(SCHEDULER, &alone(1)));
    // The backup begins its term in epoch 20, and its answers leave in the next window.
    let timing = host.sched.timing;
    let window = 21 - timing.answers_at.as_ps() / timing.epoch.as_ps();
    let leaves = host.epoch(window) + timing.answers_at + timing.answer_at(2, None);
    host.run(leaves + timing.control_flight);
    assert_eq!(host.sched.pod_end.scheduler, BACKUP, "its patience is over");
    let first = host.requests.iter().map(|(_, rts)| rts.epoch).find(|epoch| *epoch >= 1);
    assert!(host.answer(BACKUP, &alone(2)));
    let due = u64::from(first.unwrap()) + timing.round_trip;
    let outage = host.epoch(timing.fence(20) + u64::from(superepoch) - 1).since(host.epoch(due));
    assert_eq!(host.sched.counts().outage, outage);
    // All is answered again.
    for epoch in 26..60 {
        host.run(host.epoch(epoch));
        assert!(host.answer(BACKUP, &alone(2)));
    }
    assert_eq!(host.sched.counts().outage, outage);
}

#[test]
fn a_demand_that_waits_for_its_turn_is_no_outage_and_an_answer_that_does_not_come_is() {
    let mut host = Host::new();
    host.post(0, 8);
    let standing = Some((DemandEnd::Host(17), 0));
    let answer = Schd { grant: None, standing, ..granted(0, 8, 0) };
    // The total is repeated in epochs 30 and 119, and each is answered in time.
    for epoch in [59, 148] {
        host.run(host.epoch(epoch));
        assert!(host.answer(SCHEDULER, &answer));
    }
    assert_eq!((host.sched.counts().repeated, host.sched.counts().outage), (2, Duration::ZERO));
    host.run(host.epoch(400));
    assert_eq!(host.sched.counts().repeated, 3);
    let last = host.requests.last().unwrap().1.epoch;
    let due = host.epoch(u64::from(last) + host.sched.timing.request_to_data());
    let so_far = host.sched.counts().outage;
    assert!(so_far > Duration::ZERO && so_far == host.epoch(host.sched.epoch).since(due));
    assert!(host.answer(SCHEDULER, &answer));
    assert_eq!(host.sched.counts().outage, host.epoch(400).since(due));
}

#[test]
fn a_host_that_is_not_polled_for_long_finds_its_answer_and_has_had_no_outage() {
    let standing = Some((DemandEnd::Host(17), 0));
    let answer = Schd { grant: None, standing, ..granted(0, 8, 0) };
    // Without a backup the answer to the total of epoch 30 is awaited, which repeats the first.
    for (backup, asked) in [(None, 31), (Some(BACKUP), 5)] {
        let mut host = Host::new();
        host.sched.watch = PodWatch::new(backup);
        host.post(0, 8);
        host.run(host.epoch(asked));
        host.now = host.epoch(300);
        assert!(host.answer(SCHEDULER, &answer));
        assert_eq!(host.sched.counts().outage, Duration::ZERO, "{backup:?}");
    }
}

/// A scheduler of an earlier term may serve hosts that do not reach the later one.
#[test]
fn an_answer_of_an_earlier_term_is_refused_and_its_scheduler_gets_a_request_of_the_present_one() {
    let mut host = Host::new();
    host.sched.watch = PodWatch::new(Some(BACKUP));
    host.post(0, 8);
    host.run(host.epoch(1));
    let alone = |term| Schd { term, grant: None, ..granted(0, 8, 0) };
    assert!(host.answer(SCHEDULER, &alone(1)) && host.answer(BACKUP, &alone(2)));
    host.run(host.epoch(4));
    assert!(!host.sched.has_former(), "the former scheduler has had its request");
    assert!(!host.answer(SCHEDULER, &alone(1)) && host.sched.has_former());
    host.run(host.epoch(6));
    assert!(!host.sched.has_former());
    // An answer of the host's own scheduler does not make the other one the former.
    assert!(!host.answer(BACKUP, &alone(1)) && !host.sched.has_former());
}

#[test]
fn a_total_that_nothing_answers_is_asked_for_again_with_growing_patience() {
    let mut host = Host::new();
    host.post(0, 8);
    host.run(host.epoch(250));
    let asked: Vec<_> = host.requests.iter().map(|(_, rts)| (rts.epoch, rts.update)).collect();
    let update = Some((DemandEnd::Host(17), 8 * 512));
    assert_eq!(asked, [(0, update), (30, update), (90, update), (210, update)]);
    assert_eq!(host.sched.counts().repeated, 3);
    // An answer ends that, and a demand that grows is asked for before any that is repeated.
    assert!(host.answer(SCHEDULER, &granted(255, 8, 8 * 512)));
    host.run(host.epoch(600));
    // The last request says that no receipt came.
    assert_eq!((host.cells.len(), host.requests.len()), (8, 5));
    assert_eq!(host.sched.poll_timeout(), None);
}

#[test]
fn an_answer_that_was_lost_is_made_up_for_by_a_standing() {
    let mut host = Host::new();
    host.post(0, 8);
    host.run(host.epoch(31));
    // The scheduler granted all, and the host got nothing of it.
    let standing = |total| Schd {
        term: 1,
        grant: None,
        receipt: None,
        also: 0,
        standing: Some((DemandEnd::Host(17), total)),
        delivered: None,
        stamp: None,
    };
    assert!(!host.answer(SCHEDULER, &standing(9 * 512)), "more than was asked for");
    assert!(host.answer(SCHEDULER, &standing(8 * 512)));
    host.run(host.epoch(33));
    assert_eq!(host.requests.last().unwrap().1.update, Some((DemandEnd::Host(17), 16 * 512)));
    assert!(host.answer(SCHEDULER, &granted(60, 8, 16 * 512)));
    host.run(host.epoch(62));
    assert_eq!((host.cells.len(), host.sched.counts().late), (8, 0));
}

#[test]
fn more_than_a_gibibyte_waits_with_the_host() {
    let mut host = Host::new();
    let most = ASKED_MAX / 512;
    host.post(0, 3 * u64::from(most));
    host.run(host.epoch(20));
    let totals = |host: &Host| -> Vec<u32> {
        host.requests.iter().filter_map(|(_, rts)| Some(rts.update?.1)).collect()
    };
    assert_eq!(totals(&host), [ASKED_MAX]);
    assert!(host.answer(SCHEDULER, &granted(22, 16, 16 * 512)));
    host.run(host.epoch(24));
    assert_eq!(totals(&host), [ASKED_MAX, ASKED_MAX + 16 * 512]);
}

#[test]
fn a_grant_of_several_epochs_fills_each_that_has_not_begun() {
    let mut host = Host::new();
    host.post(0, 20);
    host.run(host.epoch(28));
    let mut schd = granted(27, 4, 20 * 512);
    schd.grant.as_mut().unwrap().epochs = 5;
    assert!(host.answer(SCHEDULER, &schd));
    host.run(host.epoch(40));
    let epochs: Vec<_> = host.cells.iter().map(|(.., name)| (name.epoch, name.slot)).collect();
    let slots = |epoch| (0..4).map(move |slot| (epoch, slot));
    // 27 and 28 have begun: their cells are asked for again.
    assert_eq!(epochs, slots(1).chain(slots(2)).chain(slots(3)).collect::<Vec<_>>());
    assert_eq!(host.sched.counts().late, 2);
    assert_eq!(host.requests.last().unwrap().1.update, Some((DemandEnd::Host(17), 28 * 512)));
    // One receipt is for all three.
    let receipt = Schd { receipt: Some((31, 0b1011)), also: 0b11, grant: None, ..schd };
    assert!(host.answer(SCHEDULER, &receipt));
    let count = |said: &Reported| match said {
        Reported::Segments { arrived, .. } => arrived.count_ones(),
        Reported::Before { .. } => 0,
    };
    let reported: u32 = host.sched.reports.iter().map(count).sum();
    assert_eq!(reported, 9);
}

#[test]
fn answers_for_epochs_far_ahead_take_no_place_of_others() {
    let mut host = Host::new();
    host.post(0, 200);
    host.run(host.epoch(2));
    for epoch in 0..100 {
        host.answer(SCHEDULER, &granted(1000 + epoch, 1, 512));
    }
    assert_eq!((host.sched.counts().refused(), host.sched.counts().late), (100, 0));
    assert!(host.answer(SCHEDULER, &granted(40, 2, 3 * 512)));
    host.run(host.epoch(41));
    assert_eq!(host.cells.len(), 2);
}

/// The slots that the request of `epoch` says arrived, when a cell with `name` came
/// at `arrived`, of which the driver informs the host `late` after that.
fn reported(name: CellName, arrived: Instant, late: Duration, epoch: u64) -> u32 {
    let mut host = Host::new();
    let data = Data { psn: Psn(7), ..Data::VACANT };
    let arrival = Arrival {
        from: PEER,
        at: arrived,
        src_flow: flow(0),
        ev: name.ev(),
        data: &data,
        len: 512,
        missing: Bytes::ZERO,
    };
    host.sched.on_arrival(flow(3), &arrival, arrived + late);
    host.now = arrived + late;
    host.run(host.epoch(epoch + 1));
    let requests = host.requests.iter().filter(|(_, rts)| u64::from(rts.epoch) == epoch);
    requests.map(|(_, rts)| rts.arrived).sum()
}

#[test]
fn a_late_look_at_an_arrival_changes_no_receipt() {
    let timing = *Host::new().sched.timing();
    let name = CellName { agg: 5, layer: 0, slot: 3, epoch: 2, unscheduled: false };
    let arrived = timing.start(10) + timing.cell_at(3, 1, 2) + timing.flight;
    for late in [Duration::ZERO, timing.epoch] {
        assert_eq!(reported(name, arrived, late, 10 + timing.to_receipt), 1 << 3);
    }
    // Behind its request the next one reports a cell, for no other epoch.
    let late = timing.epoch * 4;
    assert_eq!(reported(name, arrived, late, 10 + timing.to_receipt), 0);
    assert_eq!(reported(name, arrived, late, 13 + timing.to_receipt), 1 << 3);
}

/// What leaves a host that asks, is granted three epochs and receives a cell in each slot of 40
/// epochs, with a poll after each cell or without.
fn sent_beside_arrivals(early: Duration, polls: bool) -> (Vec<(Instant, Rts)>, Vec<Instant>) {
    let mut settings = (*config()).clone();
    settings.sched_params.zeropod.early = early;
    let config = Config::new(settings).unwrap();
    let mut host = Host::new();
    host.sched = Zeropod::new(&config.sched_setup(HOST, Rng::new(3)));
    let (timing, data) = (host.sched.timing, Data { psn: Psn(7), ..Data::VACANT });
    host.post(0, 48);
    host.run(host.epoch(5));
    for (epoch, total) in [(31, 16), (32, 32), (35, 48)] {
        host.answer(SCHEDULER, &granted(epoch, 16, total * 512));
    }
    for (epoch, slot) in (6..46).flat_map(|epoch| (0..16).map(move |slot| (epoch, slot))) {
        let epoch_of_4 = u8::try_from(epoch % 4).unwrap();
        let (agg, layer, unscheduled) = (5, 0, false);
        let name = CellName { agg, layer, slot, epoch: epoch_of_4, unscheduled };
        let at = timing.start(epoch) + timing.cell_at(slot.into(), 1, 2) + timing.flight;
        host.keep_times(at);
        let arrival = Arrival {
            from: PEER,
            at,
            src_flow: flow(0),
            ev: name.ev(),
            data: &data,
            len: 512,
            missing: Bytes::ZERO,
        };
        host.sched.on_arrival(flow(3), &arrival, at);
        if polls {
            host.poll();
        }
    }
    host.keep_times(host.epoch(60));
    (host.requests, host.cells.into_iter().map(|(at, ..)| at).collect())
}

#[test]
fn polls_after_arrivals_are_in_vain_where_a_host_says_so() {
    let (requests, cells) = sent_beside_arrivals(Duration::ZERO, true);
    assert_eq!((requests.len() > 40, cells.len()), (true, 48));
    assert_eq!(sent_beside_arrivals(Duration::ZERO, false), (requests, cells));
    assert!(Host::new().sched.sends_at_its_times());
    // A host that makes its packets early makes some of them at such a poll.
    let early = Duration::from_us(3);
    assert_ne!(sent_beside_arrivals(early, true), sent_beside_arrivals(early, false));
}

#[test]
fn a_host_that_is_early_misses_no_slot_when_it_is_polled_late() {
    // The host looks once an epoch and a half, with epochs of three cells and of all.
    for cells in [3, 16] {
        let mut config = config();
        let mut settings = (*config).clone();
        settings.sched_params.zeropod.early = Duration::from_us(3);
        config = Config::new(settings).unwrap();
        let mut host = Host::new();
        host.sched = Zeropod::new(&config.sched_setup(HOST, Rng::new(3)));
        host.post(0, 4 * u64::from(cells));
        host.poll();
        let at = |epoch| host.sched.timing.start(epoch);
        let (late, end) = (host.sched.timing.epoch.scaled(1.5), at(30));
        let mut granted_so_far = 0;
        for epoch in 20..24_u32 {
            granted_so_far += 512 * u32::from(cells);
            host.answer(SCHEDULER, &granted(epoch, cells, granted_so_far));
        }
        while host.now < end {
            host.now += late;
            host.poll();
        }
        let sent: Vec<_> = host.cells.iter().map(|(at, _, name)| (*at, name.slot)).collect();
        let timing = host.sched.timing;
        let all = (20..24).flat_map(|epoch| (0..u16::from(cells)).map(move |slot| (epoch, slot)));
        let due = all.map(|(epoch, slot)| {
            let own = timing.cell_at(slot, 2, 1);
            (timing.start(epoch) + own, u8::try_from(slot).unwrap())
        });
        assert_eq!(sent, due.collect::<Vec<_>>());
        assert_eq!(host.sched.counts().unused, 0);
    }
}

/// A worker sends before it does what is due, and begins epochs by that.
#[test]
fn a_host_that_sends_first_sends_all_again_that_no_receipt_can_name_any_more() {
    let mut settings = (*config()).clone();
    let params = &mut settings.sched_params.zeropod;
    (params.early, params.pods, params.cores) = (Duration::from_us(3), 2, 16);
    let config = Config::new(settings).unwrap();
    let sched = Zeropod::new(&config.sched_setup(HOST, Rng::new(3)));
    let mut host = Host { sched, ..Host::new() };
    host.post(0, 16 * 200);
    let (first, epochs) = (40, 150);
    for epoch in 1..first + epochs {
        host.now = host.epoch(epoch);
        if let Some(total) = (epoch + 30).checked_sub(first).filter(|at| *at < epochs) {
            let (epoch, total) = (epoch + 30, (total + 1) * 16 * 512);
            let granted = granted(epoch.try_into().unwrap(), 16, total.try_into().unwrap());
            assert!(host.answer(SCHEDULER, &granted));
        }
        host.send();
        if host.sched.poll_timeout().is_some_and(|due| due <= host.now) {
            host.look();
        }
    }
    let mut again = vec![0; host.cells.len() + 1];
    for reported in &host.reported {
        let Reported::Segments { first, arrived, again: true, .. } = *reported else { continue };
        let psns = (0..64).filter(|bit| arrived >> bit & 1 == 1).map(|bit| first.plus(bit).0);
        psns.for_each(|psn| again[psn as usize] += 1);
    }
    // The epochs that are kept have not been given up.
    let kept = 64 * 16;
    let given_up = host.cells.len() - kept;
    assert!(given_up > 80 * 16, "{given_up}");
    assert_eq!(again[1..=given_up], vec![1; given_up]);
}

#[test]
fn copies_without_a_grant_leave_behind_the_request_one_a_slot_and_never_in_a_granted_one() {
    let config = config_with(5, 2);
    let mut sched = Zeropod::new(&config.sched_setup(HOST, Rng::new(3)));
    let path = config.default_path();
    let wire = |cells: u64, last: u64| Backlog {
        waiting: Bytes(552 * (cells - 1) + 40 + last),
        ..backlog(cells)
    };
    // A granted epoch of an elephant is behind the short flow's request.
    let mut now = Instant::ZERO;
    sched.on_open(flow(0), PEER, &path, Label::NONE);
    sched.on_backlog(flow(0), &wire(40, 512), now);
    let mut host = Host { sched, now, ..Host::new() };
    host.run(host.epoch(20));
    assert!(host.answer(SCHEDULER, &granted(31, 16, 16 * 512)));
    host.run(host.epoch(29) + Duration::from_ps(1));
    assert!(host.cells.is_empty());
    now = host.now;
    host.sched.on_open(flow(1), HostId(18), &path, Label::NONE);
    host.sched.on_backlog(flow(1), &wire(5, 500), now);
    host.sched.on_open(flow(2), HostId(18), &path, Label::NONE);
    host.sched.on_backlog(flow(2), &wire(5, 512), now);

    let end = host.epoch(34);
    let (timing, mut copies) = (host.sched.timing, Vec::new());
    let mut granted_cells = Vec::new();
    while now < end {
        host.sched.handle_timeout(now);
        let mut burst = Burst::with_limit(BURST);
        host.sched.poll_control(now, now, &mut burst);
        while let Some(turn) = host.sched.next_turn(now, now + Duration::from_us(100)) {
            let Choice { ev, at, copy, .. } = turn.choice.unwrap();
            let name = CellName::of(ev.unwrap());
            assert_eq!(copy, name.unscheduled);
            if copy { &mut copies } else { &mut granted_cells }.push((
                at.unwrap(),
                turn.flow,
                name,
            ));
            host.sched.on_sent(turn.flow, &mut cell(9), Backlog::default, now);
        }
        now = host.sched.poll_timeout().unwrap_or(end).max(now + Duration::from_ps(1));
    }
    // Flow 1 has less than five cells, flow 2 has not.
    assert_eq!((granted_cells.len(), copies.len()), (16, 10));
    let request = timing.start(29) + timing.request_at(2, None);
    for (index, (at, of, name)) in copies.iter().enumerate() {
        assert!(*at > request && *of == flow(1), "{copies:?}");
        let slot = 2 + u16::try_from(index).unwrap();
        let free = timing.start(29) + timing.cell_at(slot, 2, u16::MAX);
        assert_eq!((*at, u16::from(name.slot)), (free, slot));
    }
    assert_eq!(host.sched.counts().optimistic_sent, 10);
    let took = granted_cells.iter().all(|(_, of, _)| *of == flow(0));
    assert!(took && granted_cells[0].0 == timing.start(31));
}

#[test]
fn a_grant_for_mice_alone_is_filled_from_their_levels_and_no_others() {
    let mut host = Host::new();
    host.post(0, 300);
    host.run(host.epoch(20));
    // 13 epochs of 16 cells: then the flow has sent more than 100 KB.
    for epoch in 0..13 {
        assert!(host.answer(SCHEDULER, &granted(31 + epoch, 16, 16 * 512 * (epoch + 1))));
    }
    let for_mice = |epoch, cells, total| {
        let mut schd = granted(epoch, cells, total);
        schd.grant.iter_mut().for_each(|grant| grant.mice_only = true);
        schd
    };
    assert!(host.answer(SCHEDULER, &for_mice(44, 16, 16 * 512 * 14)));
    host.run(host.epoch(46));
    assert_eq!(host.cells.len(), 208, "an elephant sends nothing in it");
    host.post(1, 2);
    assert_eq!(host.sched.counts().unused, 16);
    assert!(host.answer(SCHEDULER, &for_mice(50, 16, 16 * 512 * 15)));
    host.run(host.epoch(52));
    let flows: Vec<_> = host.cells[208..].iter().map(|(_, flow, _)| *flow).collect();
    assert_eq!(flows, [flow(1); 2], "a mouse beside it does");
}
