//! Whether the parts of a matrix fit together: hosts, sizes, names, and triggers that can fire.
//!
//! Triggers form a graph: a trigger starts flows, which poke triggers when they are done. It must
//! have no cycle, and when every started flow finishes, every flow must have started. The first
//! violation is reported. Among triggers it is one whose own pokers all run, so it is the cause and
//! not a consequence. O(flows log flows).

use std::num::NonZeroU32;

use super::matrix::{
    FlowIndex, FlowSpec, HOSTS_MAX, LineMeaning, Matrix, TriggerIndex, TriggerKind,
};
use super::triggers::Waiting;
use crate::input::InputError;

/// An error of a matrix; printed with the names the matrix uses, not with places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Defect {
    /// No host at all, or more than [`HOSTS_MAX`].
    Hosts(u32),
    /// A host beyond the last.
    HostOutOfRange { flow: FlowIndex, host: u32, nodes: u32 },
    /// A flow from a host to itself.
    SelfFlow { flow: FlowIndex },
    /// A flow of no bytes.
    EmptyFlow { flow: FlowIndex },
    /// A second flow with the same id.
    DuplicateId { flow: FlowIndex, first: FlowIndex, id: NonZeroU32 },
    /// A message whose connection has other ends.
    OtherEnds { flow: FlowIndex, first: FlowIndex, id: NonZeroU32 },
    /// A message of another collective than the first line of its connection.
    OtherCollective { flow: FlowIndex, first: FlowIndex, of: u32, expected: u32 },
    /// A second message with the same number.
    DuplicateMessage { flow: FlowIndex, first: FlowIndex, number: NonZeroU32 },
    /// A message or a triggered flow without the id it needs.
    MissingId { flow: FlowIndex },
    /// A reference to a trigger that is not there.
    NoSuchTrigger { flow: FlowIndex },
    /// A second trigger with the same id.
    DuplicateTrigger { trigger: TriggerIndex, first: TriggerIndex, id: NonZeroU32 },
    /// Triggers that wait for each other, by name, in the order in which they would fire.
    Cycle { trigger: TriggerIndex, ids: Vec<NonZeroU32> },
    /// A trigger that can never start the flows that wait for it.
    NeverFires {
        trigger: TriggerIndex,
        id: NonZeroU32,
        kind: TriggerKind,
        waiting: u32,
        pokes: u32,
    },
}

/// The subject of a defect, for the reader that has its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The matrix as a whole.
    Whole,
    /// This flow.
    Flow(FlowIndex),
    /// This trigger.
    Trigger(TriggerIndex),
}

/// Checks everything, for matrices that come from no file.
///
/// # Errors
/// The first defect, without a place but with the names the matrix uses.
pub fn check(matrix: &Matrix) -> Result<(), InputError> {
    find_defect(matrix).map_err(|defect| defect.diagnose())
}

/// Checks everything; the first [`Defect`] if there is one.
pub(super) fn find_defect(matrix: &Matrix) -> Result<(), Defect> {
    if matrix.nodes == 0 || matrix.nodes > HOSTS_MAX {
        return Err(Defect::Hosts(matrix.nodes));
    }
    for (at, flow) in (0u32..).map(FlowIndex).zip(&matrix.flows) {
        check_flow(matrix, at, flow)?;
    }
    check_trigger_names(matrix)?;
    check_ids(&matrix.flows)?;
    check_triggers_fire(matrix)
}

fn check_flow(matrix: &Matrix, at: FlowIndex, flow: &FlowSpec) -> Result<(), Defect> {
    let nodes = matrix.nodes;
    if let Some(host) = [flow.src, flow.dst].into_iter().find(|host| host.0 >= nodes) {
        return Err(Defect::HostOutOfRange { flow: at, host: host.0, nodes });
    }
    if flow.src == flow.dst {
        return Err(Defect::SelfFlow { flow: at });
    }
    if flow.size.0 == 0 {
        return Err(Defect::EmptyFlow { flow: at });
    }
    let needs_id = flow.message != LineMeaning::Flow || flow.waits_for().is_some();
    if needs_id && flow.id.is_none() {
        return Err(Defect::MissingId { flow: at });
    }
    let exists = |trigger: TriggerIndex| trigger.index() < matrix.triggers.len();
    if !flow.waits_for().into_iter().chain(flow.pokes()).all(exists) {
        return Err(Defect::NoSuchTrigger { flow: at });
    }
    Ok(())
}

fn check_trigger_names(matrix: &Matrix) -> Result<(), Defect> {
    if matrix.triggers.is_sorted_by(|a, b| a.id < b.id) {
        return Ok(());
    }
    let mut named: Vec<_> =
        matrix.trigger_indices().map(|at| (matrix.triggers[at.index()].id, at)).collect();
    named.sort_unstable();
    match named.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        None => Ok(()),
        Some(pair) => {
            Err(Defect::DuplicateTrigger { trigger: pair[1].1, first: pair[0].1, id: pair[0].0 })
        }
    }
}

fn check_ids(flows: &[FlowSpec]) -> Result<(), Defect> {
    // Files usually count their flows upwards; then there is nothing to look for.
    let mut last = None;
    if flows.iter().filter_map(|flow| flow.id).all(|id| last.replace(id) < Some(id)) {
        return Ok(());
    }
    let mut named: Vec<_> = (0u32..)
        .map(FlowIndex)
        .zip(flows)
        .filter_map(|(at, flow)| flow.id.map(|id| (id, at)))
        .collect();
    named.sort_unstable();
    for same in named.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
        check_connection(flows, same)?;
    }
    Ok(())
}

/// Checks the lines that share an id, in file order: one connection, at most one flow, numbers
/// unique.
fn check_connection(flows: &[FlowSpec], lines: &[(NonZeroU32, FlowIndex)]) -> Result<(), Defect> {
    let (id, first) = lines[0];
    let ends = |at: FlowIndex| (flows[at.index()].src, flows[at.index()].dst);
    let message = |at: FlowIndex| flows[at.index()].message;
    let mut opener = None;
    let mut numbers = Vec::new();
    for &(_, flow) in lines {
        match message(flow) {
            LineMeaning::Flow => {
                if let Some(first) = opener.replace(flow) {
                    return Err(Defect::DuplicateId { flow, first, id });
                }
            }
            LineMeaning::Numbered(number) => numbers.push((number, flow)),
            LineMeaning::Next => {}
        }
        if ends(flow) != ends(first) {
            return Err(Defect::OtherEnds { flow, first, id });
        }
        let [of, expected] = [flow, first].map(|at| flows[at.index()].collective);
        if of != expected {
            return Err(Defect::OtherCollective { flow, first, of, expected });
        }
    }
    numbers.sort_unstable();
    match numbers.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        None => Ok(()),
        Some(pair) => {
            Err(Defect::DuplicateMessage { flow: pair[1].1, first: pair[0].1, number: pair[0].0 })
        }
    }
}

/// Fires every trigger in topological order (Kahn 1962), counting pokes.
fn check_triggers_fire(matrix: &Matrix) -> Result<(), Defect> {
    let count = matrix.triggers.len();
    let waiting = Waiting::new(matrix);
    let mut pokes = vec![0u32; count];
    let mut incoming = vec![0u32; count];
    for flow in &matrix.flows {
        let counted = if flow.waits_for().is_some() { &mut incoming } else { &mut pokes };
        for trigger in flow.pokes() {
            let poked = &mut counted[trigger.index()];
            *poked = poked.saturating_add(1);
        }
    }
    let mut ready: Vec<TriggerIndex> =
        matrix.trigger_indices().filter(|at| incoming[at.index()] == 0).collect();
    // Taken from the end, so that the first in the file is looked at first.
    ready.reverse();
    let mut fired = vec![false; count];
    while let Some(trigger) = ready.pop() {
        let at = trigger.index();
        fired[at] = true;
        let (id, kind) = (matrix.triggers[at].id, matrix.triggers[at].kind);
        let (waiting_count, pokes_count) = (waiting.count(at), pokes[at]);
        let starts_one = kind.started(1, pokes_count) == 1;
        if !starts_one || kind.started(waiting_count, pokes_count) < waiting_count {
            let (waiting, pokes) = (waiting_count, pokes_count);
            return Err(Defect::NeverFires { trigger, id, kind, waiting, pokes });
        }
        for poked in waiting.of(at).iter().flat_map(|flow| matrix.flows[flow.index()].pokes()) {
            let at = poked.index();
            pokes[at] = pokes[at].saturating_add(1);
            incoming[at] -= 1;
            if incoming[at] == 0 {
                ready.push(poked);
            }
        }
    }
    match matrix.trigger_indices().find(|at| !fired[at.index()]) {
        None => Ok(()),
        Some(unfired) => Err(cycle(matrix, &fired, unfired)),
    }
}

/// The cycle that is reached from the trigger `unfired` by going back from poked to poker.
fn cycle(matrix: &Matrix, fired: &[bool], unfired: TriggerIndex) -> Defect {
    let mut poker: Vec<Option<TriggerIndex>> = vec![None; fired.len()];
    for flow in &matrix.flows {
        let Some(from) = flow.waits_for().filter(|from| !fired[from.index()]) else { continue };
        for to in flow.pokes() {
            poker[to.index()] = Some(from);
        }
    }
    // Every unfired trigger has an unfired poker, so walking back never leaves them and must
    // repeat.
    let mut seen = vec![false; fired.len()];
    let mut trigger = unfired;
    while !std::mem::replace(&mut seen[trigger.index()], true) {
        trigger = poker[trigger.index()].unwrap_or(trigger);
    }
    let mut ids = vec![matrix.triggers[trigger.index()].id];
    let mut back = poker[trigger.index()];
    while let Some(earlier) = back.filter(|&earlier| earlier != trigger) {
        ids.push(matrix.triggers[earlier.index()].id);
        back = poker[earlier.index()];
    }
    ids.reverse();
    Defect::Cycle { trigger, ids }
}

impl Defect {
    /// The subject of the defect.
    #[must_use]
    pub(super) const fn subject(&self) -> Subject {
        match *self {
            Self::Hosts(_) => Subject::Whole,
            Self::HostOutOfRange { flow, .. }
            | Self::SelfFlow { flow }
            | Self::EmptyFlow { flow }
            | Self::DuplicateId { flow, .. }
            | Self::OtherEnds { flow, .. }
            | Self::OtherCollective { flow, .. }
            | Self::DuplicateMessage { flow, .. }
            | Self::MissingId { flow }
            | Self::NoSuchTrigger { flow } => Subject::Flow(flow),
            Self::DuplicateTrigger { trigger, .. }
            | Self::Cycle { trigger, .. }
            | Self::NeverFires { trigger, .. } => Subject::Trigger(trigger),
        }
    }

    /// The earlier thing that this one collides with, if that is the defect.
    #[must_use]
    pub(super) const fn collides_with(&self) -> Option<Subject> {
        match *self {
            Self::DuplicateId { first, .. }
            | Self::OtherEnds { first, .. }
            | Self::OtherCollective { first, .. }
            | Self::DuplicateMessage { first, .. } => Some(Subject::Flow(first)),
            Self::DuplicateTrigger { first, .. } => Some(Subject::Trigger(first)),
            _ => None,
        }
    }

    /// The defect as a diagnostic without a place.
    #[must_use]
    pub(super) fn diagnose(&self) -> InputError {
        match self {
            Self::Hosts(nodes) => {
                InputError::new(format!("{nodes} hosts"), format!("1 to {HOSTS_MAX} hosts"))
            }
            Self::HostOutOfRange { host, nodes, .. } => {
                InputError::new(format!("host {host}"), format!("a host in 0..={}", nodes - 1))
                    .help("name another host, or raise Nodes")
            }
            Self::SelfFlow { .. } => {
                InputError::new("a flow from a host to itself", "two different hosts")
            }
            Self::EmptyFlow { .. } => InputError::new("a flow of size 0", "at least one byte"),
            Self::DuplicateId { id, .. } => {
                InputError::new(format!("a second flow with id {id}"), "unique ids").help(
                    "choose an unused id, or add `msg` to send a message on the same connection",
                )
            }
            Self::OtherEnds { id, .. } => InputError::new(
                format!("id {id} between other hosts"),
                "the hosts of the first line with this id",
            )
            .help("a connection keeps its source and destination; choose an unused id"),
            Self::OtherCollective { of, expected, .. } => InputError::new(
                format!("`coll {of}` (0 where a line has none)"),
                format!("`coll {expected}` as on the first line with this id"),
            )
            .help("all lines of a connection have the same `coll`"),
            Self::DuplicateMessage { number, .. } => InputError::new(
                format!("a second message {number}"),
                "each message number once a connection",
            ),
            Self::MissingId { .. } => InputError::new("a line without `id`", "an id")
                .help("flows that a trigger starts and messages need one; add `id N`"),
            Self::NoSuchTrigger { .. } => {
                InputError::new("a trigger that is not declared", "a declared one")
                    .help("add a line `trigger id T oneshot` and count it in Triggers")
            }
            Self::DuplicateTrigger { id, .. } => {
                InputError::new(format!("a second trigger with id {id}"), "unique trigger ids")
            }
            Self::Cycle { ids, .. } => {
                InputError::new(format!("a cycle of triggers: {}", chain(ids)), "no cycle").help(
                    "each waits for the one before it; start one of their flows by time instead",
                )
            }
            Self::NeverFires { id, kind, waiting, pokes, .. } => {
                diagnose_starved(*id, *kind, *waiting, *pokes)
            }
        }
    }
}

fn diagnose_starved(id: NonZeroU32, kind: TriggerKind, waiting: u32, pokes: u32) -> InputError {
    if pokes == 0 {
        return InputError::new(
            format!("trigger {id} that nothing pokes"),
            "something that pokes it",
        )
        .help(format!("add `send_done_trigger {id}` to a flow, or remove the trigger"));
    }
    match kind {
        TriggerKind::Barrier(count) => InputError::new(
            format!("barrier {id} with count {count}, poked {pokes} times in all"),
            format!("a count of at most {pokes}"),
        )
        .help("lower the count, or let more flows poke the barrier"),
        TriggerKind::Oneshot | TriggerKind::Multishot => InputError::new(
            format!("multishot {id} with {waiting} flows, poked {pokes} times in all"),
            format!("at least {waiting} pokes"),
        )
        .help("each poke starts one flow; let more flows poke it, or make it a oneshot"),
    }
}

/// `3 -> 5 -> 3`, shortened in the middle when the cycle is long.
fn chain(ids: &[NonZeroU32]) -> String {
    let shown = ids.iter().take(CYCLE_SHOWN_MAX).map(|id| format!("{id} -> "));
    let dots = if ids.len() > CYCLE_SHOWN_MAX { "... -> " } else { "" };
    let first = ids.first().map(ToString::to_string).unwrap_or_default();
    format!("{}{dots}{first}", shown.collect::<String>())
}

const CYCLE_SHOWN_MAX: usize = 12;

#[cfg(test)]
mod tests {
    use transport::{Bytes, HostId};

    use super::*;
    use crate::workload::matrix::Start;

    /// Flows `(waits for, pokes)` by trigger place; `None` starts by time.
    fn matrix(kinds: &[TriggerKind], flows: &[(Option<usize>, Option<usize>)]) -> Matrix {
        let mut matrix = Matrix { nodes: 2, ..Matrix::default() };
        let triggers: Vec<_> = kinds.iter().map(|&k| matrix.push_trigger(k).unwrap()).collect();
        for &(waits_for, pokes) in flows {
            let mut flow = FlowSpec::new(HostId(0), HostId(1), Bytes(1));
            if let Some(at) = waits_for {
                flow.start = Start::On(triggers[at]);
            }
            flow.send_done = pokes.map(|at| triggers[at]);
            matrix.push_flow(flow);
        }
        matrix
    }

    const ONE: TriggerKind = TriggerKind::Oneshot;

    fn barrier(count: u32) -> TriggerKind {
        TriggerKind::Barrier(NonZeroU32::new(count).unwrap())
    }

    #[test]
    fn a_chain_of_triggers_passes() {
        let flows = [(None, Some(1)), (Some(1), Some(0)), (Some(0), None)];
        assert_eq!(check(&matrix(&[ONE, ONE], &flows)), Ok(()));
        let gathered = [(None, Some(0)), (None, Some(0)), (Some(0), None)];
        assert_eq!(check(&matrix(&[barrier(2)], &gathered)), Ok(()));
    }

    #[test]
    fn a_cycle_is_reported_with_its_triggers_in_order() {
        // 2 -> 3 -> 4 -> 2, and trigger 1 downstream of it.
        let flows =
            [(Some(1), Some(2)), (Some(2), Some(3)), (Some(3), Some(1)), (Some(3), Some(0))];
        let defect = check(&matrix(&[ONE; 4], &flows)).unwrap_err();
        let text = defect.found;
        let rotations = ["2 -> 3 -> 4 -> 2", "3 -> 4 -> 2 -> 3", "4 -> 2 -> 3 -> 4"];
        assert!(rotations.iter().any(|cycle| text.contains(cycle)), "{text}");
        let own = check(&matrix(&[ONE], &[(None, Some(0)), (Some(0), Some(0))])).unwrap_err();
        assert!(own.to_string().contains("1 -> 1"), "{own}");
    }

    #[test]
    fn triggers_that_starve_are_reported_with_the_cause() {
        let nothing = check(&matrix(&[ONE, ONE], &[(Some(1), Some(0)), (Some(0), None)]));
        assert!(nothing.unwrap_err().to_string().contains("trigger 2 that nothing pokes"));
        let few = check(&matrix(&[barrier(3)], &[(None, Some(0)), (Some(0), None)]));
        assert!(few.unwrap_err().to_string().contains("count 3, poked 1 times"));
        let flows = [(None, Some(0)), (Some(0), None), (Some(0), None)];
        let shots = check(&matrix(&[TriggerKind::Multishot], &flows));
        assert!(shots.unwrap_err().to_string().contains("with 2 flows, poked 1 times"));
    }

    #[test]
    fn ids_may_repeat_only_on_one_connection() {
        let mut matrix = matrix(&[], &[(None, None), (None, None)]);
        matrix.flows[1].id = matrix.flows[0].id;
        assert!(matches!(find_defect(&matrix), Err(Defect::DuplicateId { .. })));
        matrix.flows[1].message = LineMeaning::Next;
        assert_eq!(check(&matrix), Ok(()));
        matrix.flows[0].message = LineMeaning::Next;
        assert_eq!(check(&matrix), Ok(()));
        matrix.flows[1].dst = HostId(0);
        matrix.flows[1].src = HostId(1);
        assert!(matches!(find_defect(&matrix), Err(Defect::OtherEnds { .. })));
    }
}
