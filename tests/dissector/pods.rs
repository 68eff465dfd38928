//! Notes of pods and the fields that they have.

use transport::Key;
use transport::wire::pod::{
    ClockState, CoreRts, Delivered, DemandEnd, Grant, Invite, Join, MICE_MAX, Mouse, Rts, Schd,
    Stamp,
};

use super::*;

/// All forms of a pod's packets. Requests are without and with an update and a mouse, and those of
/// a Core without and with all parts. Answers are without and with all parts, two of them with
/// delivered cells, with and without a receipt. One packet is an introduction.
pub(super) fn of_pods(rng: &mut Rng) -> Vec<Note> {
    let mut mice = [Rts::NO_MOUSE; MICE_MAX as usize];
    mice[0] = Mouse { to: DemandEnd::Host(511), size: 17 };
    let [epoch, arrived, total] = [0; 3].map(|_: u32| word(rng));
    let (update, clock) = (None, None);
    let (idle, arrived_in) = (Rts { term: 3, epoch, mice, ..Rts::VACANT }, 0xa5a5);
    let idle = Rts { update, arrived, clock, ..idle };
    let asks = Rts { update: Some((DemandEnd::Pod(6), total)), mice_len: 1, ..idle };
    let clock = Some(ClockState { behind_gap: true, settled: true });
    let asks = Rts { clock, lost: true, ..asks };
    let reports = Rts { arrived_in, ..asks };
    let grant = Grant {
        epoch,
        to: DemandEnd::Host(77),
        agg: 30,
        layer: Some(2),
        cells: 32,
        epochs: 1,
        total,
        mice_only: true,
    };
    let receipt = Some((u16::try_from(epoch >> 16).unwrap(), arrived));
    let standing = Some((DemandEnd::Host(78), total));
    let clock = Stamp { window: Some(epoch), behind_gap: true, late: Some(-77) };
    let stamp = Some(clock);
    let (grant_of, stamp_of) = (Some(grant), Some(Stamp { window: None, ..clock }));
    let empty = Schd {
        term: 4,
        grant: None,
        receipt: None,
        also: 0,
        standing: None,
        delivered: None,
        stamp,
    };
    let full = Schd { grant: grant_of, receipt, standing, stamp: stamp_of, ..empty };
    let long = Grant { epochs: 8, ..grant };
    let long = Schd { grant: Some(long), also: 0x5a5a, ..full };
    let again = arrived & 1 == 1;
    let run = Delivered { flow: FlowId(total), first: Psn(epoch), arrived, again };
    let shown = Schd { grant: grant_of, delivered: Some(run), stamp: None, ..empty };
    let few = Delivered { arrived: arrived & 0xffff, ..run };
    let both = Schd { receipt, delivered: Some(few), ..shown };
    let (update, delivered) = (Some((DemandEnd::Host(9), total)), Some((12, run)));
    let core = CoreRts { term: 5, epoch, update, paused: arrived, delivered, lost: false };
    let idle_core = CoreRts { update: None, delivered: None, lost: true, ..core };
    let join = Join {
        run: 7,
        term: 8,
        hosts: 3,
        cells: 31,
        payload: 8192,
        cell: 8264,
        control: 92,
        kbps: arrived.max(1),
        hop_ns: total,
        guard_ns: epoch,
        delay_ns: !total,
        early_ns: !epoch,
    };
    let invite = Invite { proof: Key(u64::from(total) << 32 | 1) };
    let of_cores = [shown.note(), both.note(), core.note(), idle_core.note()].into_iter();
    let of_cores = of_cores.chain([join.note(), invite.note(), reports.note(), long.note()]);
    [idle.note(), asks.note(), empty.note(), full.note()].into_iter().chain(of_cores).collect()
}

/// A destination in a pod as its octets say.
fn demand_end(to: DemandEnd) -> u64 {
    match to {
        DemandEnd::Host(host) => u64::from(host),
        DemandEnd::Pod(pod) => u64::from(pod) + 1024,
    }
}

/// The fields of a request of a Core.
fn core_numbers(core: &CoreRts) -> Vec<(&'static str, u64)> {
    let (to, total) = core.update.unwrap_or((DemandEnd::Host(0), 0));
    let none = Delivered { flow: FlowId::UNKNOWN, first: Psn(0), arrived: 0, again: false };
    let (host, run) = core.delivered.unwrap_or((0, none));
    let flags = u64::from(core.update.is_some())
        | u64::from(core.delivered.is_some()) << 1
        | u64::from(core.lost) << 5
        | u64::from(run.again) << 7;
    vec![
        ("pod_term", core.term.into()),
        ("pod_epoch", core.epoch.into()),
        ("pod_flags", flags),
        ("pod_to", demand_end(to)),
        ("pod_total", total.into()),
        ("pod_paused", core.paused.into()),
        ("pod_host", host.into()),
        ("pod_flow", run.flow.0.into()),
        ("pod_first", run.first.0.into()),
        (if run.again { "pod_again" } else { "pod_delivered" }, run.arrived.into()),
    ]
}

/// What a request's flags say of its host's clock.
fn clock_flags(clock: Option<ClockState>) -> u64 {
    clock.map_or(0, |clock| 4 | u64::from(clock.behind_gap) << 3 | u64::from(clock.settled) << 4)
}

/// The fields of a request or an answer in a pod.
pub(super) fn pod_numbers(note: &Note) -> Vec<(&'static str, u64)> {
    if let Some(rts) = Rts::of(note) {
        let (to, total) = rts.update.unwrap_or((DemandEnd::Host(0), 0));
        let several = rts.arrived_in != 1;
        let flags = u64::from(rts.update.is_some())
            | clock_flags(rts.clock)
            | u64::from(rts.lost) << 5
            | u64::from(several) << 6;
        let mut numbers = vec![
            ("pod_term", rts.term.into()),
            ("pod_epoch", rts.epoch.into()),
            ("pod_flags", flags),
            ("pod_mice", rts.mice_len.into()),
            ("pod_to", demand_end(to)),
            ("pod_total", total.into()),
            ("pod_arrived", rts.arrived.into()),
        ];
        numbers.extend(several.then_some(("pod_arrived_in", rts.arrived_in.into())));
        let mice =
            rts.mice().iter().map(|mouse| u64::from(mouse.size) << 11 | demand_end(mouse.to));
        numbers.extend(mice.map(|mouse| ("pod_mouse", mouse)));
        return numbers;
    }
    if let Some(core) = CoreRts::of(note) {
        return core_numbers(&core);
    }
    if let Some(invite) = Invite::of(note) {
        return vec![("pod_proof", invite.proof.0)];
    }
    if let Some(join) = Join::of(note) {
        return vec![
            ("pod_run", join.run.into()),
            ("pod_term", join.term.into()),
            ("pod_hosts", join.hosts.into()),
            ("pod_epoch_cells", join.cells.into()),
            ("pod_payload", join.payload.into()),
            ("pod_cell", join.cell.into()),
            ("pod_control", join.control.into()),
            ("pod_kbps", join.kbps.into()),
            ("pod_hop", join.hop_ns.into()),
            ("pod_guard", join.guard_ns.into()),
            ("pod_delay", join.delay_ns.into()),
            ("pod_early", join.early_ns.into()),
        ];
    }
    Schd::of(note).map_or_else(Vec::new, |schd| answer_numbers(&schd))
}

/// The fields of an answer in a pod.
fn answer_numbers(schd: &Schd) -> Vec<(&'static str, u64)> {
    let Schd { term, grant, receipt, also, standing, delivered, stamp } = *schd;
    let mice_only = grant.is_some_and(|grant| grant.mice_only);
    let layer = grant.and_then(|grant| grant.layer);
    // An answer with a second receipt has no standing.
    let again = delivered.is_some_and(|run| run.again);
    let shown = [receipt.is_some(), standing.is_some() || again, delivered.is_some()];
    let parts = [grant.is_some(), mice_only].into_iter().chain(shown);
    let stamped = [stamp.is_some(), stamp.is_some_and(|stamp| stamp.behind_gap), layer.is_some()];
    let parts = parts.chain(stamped);
    let flags = parts.enumerate().map(|(bit, set)| u64::from(set) << bit).sum();
    let window = stamp.and_then(|stamp| stamp.window).unwrap_or(0);
    let late = stamp.map_or(0, |stamp| stamp.late.unwrap_or(i16::MIN));
    let of_grant = |field: fn(&Grant) -> u64| grant.as_ref().map_or(0, field);
    let mut numbers = vec![
        ("pod_term", term.into()),
        ("pod_epoch", grant.map_or(window, |grant| grant.epoch).into()),
        ("pod_flags", flags),
        ("pod_agg", of_grant(|grant| grant.agg.into())),
        ("pod_layer", layer.unwrap_or(0).into()),
        ("pod_cells", of_grant(|grant| u64::from(grant.cells) % 32)),
        ("pod_late", late.cast_unsigned().into()),
        ("pod_granted_cells_to", grant.map_or(0, |grant| demand_end(grant.to))),
        ("pod_total", of_grant(|grant| grant.total.into())),
        ("pod_arrived", receipt.map_or(0, |(_, arrived)| arrived).into()),
    ];
    numbers.push(match (receipt, delivered) {
        (None, Some(run)) => {
            let name = if again { "pod_again_more" } else { "pod_delivered_more" };
            (name, u64::from(run.arrived >> 16))
        }
        _ => ("pod_sent_in", receipt.map_or(0, |(sent_in, _)| sent_in).into()),
    });
    numbers.extend(match delivered {
        Some(run) => vec![
            ("pod_flow", run.flow.0.into()),
            ("pod_first", run.first.0.into()),
            (
                if again { "pod_again_few" } else { "pod_delivered_few" },
                u64::from(run.arrived & 0xffff),
            ),
        ],
        None => {
            let (to, granted) = standing.unwrap_or((DemandEnd::Host(0), 0));
            vec![
                ("pod_granted_to", demand_end(to)),
                ("pod_granted", granted.into()),
                ("pod_also", also.into()),
                ("pod_further", of_grant(|grant| u64::from(grant.epochs) - 1)),
            ]
        }
    });
    numbers
}
