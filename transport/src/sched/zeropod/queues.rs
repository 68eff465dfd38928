//! What a host has to send, by destination: virtual output queues, each with its flows by level.
//!
//! Source: \[zeropod\] III-B1, IV-B, with the levels of \[pias\]. A flow begins at the lowest level
//! and moves to the next one when it has sent a certain number of bytes. A destination sends from
//! its lowest level first, and within a level flow after flow. Demands are counted in whole cells,
//! since a cell carries bytes of one message.

use alloc::vec;
use alloc::vec::Vec;

use crate::units::FlowId;
use crate::wire::pod::DemandEnd;

/// Levels of flows.
pub(super) const LEVELS: usize = 5;

/// The levels of mice, the first ones.
const MICE_LEVELS: usize = LEVELS - 2;

/// Bytes sent at which a flow leaves its level. The first three lie below 100 KB, since flows up to
/// that size count as mice.
// DEVIATION(zeropod#IV-B): the paper names no thresholds, and those of PIAS begin at 1.3 MB.
pub(super) const THRESHOLDS: [u64; LEVELS - 1] = [2_500, 20_000, 100_000, 1_000_000];

const NIL: u32 = u32::MAX;
const NO_QUEUE: u16 = u16::MAX;

/// One outgoing flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    /// The flow that has this account; [`FlowId::UNKNOWN`] when none has.
    id: FlowId,
    /// The place of its queue.
    queue: u32,
    /// Cells that the flow could send now.
    pub(super) waiting: u32,
    /// Bytes sent so far, in granted epochs.
    pub(super) sent: u64,
    /// Copies of its cells that have left without a grant; `None` while it has not been looked at.
    pub(super) copied: Option<u32>,
    /// The neighbours in the list that the account is in; [`NIL`] at its ends.
    before: u32,
    next: u32,
    level: u8,
    /// Whether the flow waits with a lost train that was too long for its slots.
    pub(super) too_long: bool,
    /// Whether the flow has something in flight, where it is to another pod.
    in_flight: bool,
    /// The level of the list that the account is in; it may be behind the account's own level.
    /// [`UNLISTED`] when the account is in no list.
    list: u8,
}

/// The level of a queue that is in no list.
const UNLISTED: u8 = u8::MAX;

const VACANT: Account = Account {
    id: FlowId::UNKNOWN,
    queue: NIL,
    waiting: 0,
    sent: 0,
    copied: None,
    before: NIL,
    next: NIL,
    level: 0,
    too_long: false,
    in_flight: false,
    list: UNLISTED,
};

/// Flows of one level, first in first out.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

const EMPTY: List = List { head: NIL, tail: NIL };

/// The queue of one destination, and what the scheduler has been asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    /// The destination.
    pub(super) to: DemandEnd,
    /// Cells that flows could send now.
    pub(super) waiting: u32,
    /// Cells asked for so far, modulo 2^32.
    pub(super) asked: u32,
    /// Cells granted so far, modulo 2^32.
    pub(super) granted: u32,
    /// Cells of grants whose epoch is not over.
    pub(super) pending: u32,
    /// Whether the queue is in the list of queues that have something to ask for.
    pub(super) dirty: bool,
    /// The epoch of the last request for it, or of the last answer.
    pub(super) since: u64,
    /// How often its total has been asked for again since the last grant.
    pub(super) tries: u8,
    /// Examined when its answer should have come.
    pub(super) awaited: bool,
    /// Whether the queue is in the list of queues whose totals are asked for again.
    pub(super) overdue: bool,
    levels: [List; LEVELS],
}

impl Queue {
    /// Cells asked for and not granted.
    pub(super) fn outstanding(&self) -> u32 {
        self.asked.wrapping_sub(self.granted)
    }

    /// Cells that are still to be asked for: not yet asked for, and not covered by grants that are
    /// not used yet. No more than `most` may be outstanding.
    pub(super) fn lacking(&self, most: u32) -> u32 {
        let outstanding = self.outstanding();
        let lacking = self.waiting.saturating_sub(outstanding.saturating_add(self.pending));
        lacking.min(most.saturating_sub(outstanding))
    }
}

/// The queues of a host.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    accounts: Vec<Account>,
    queues: Vec<Queue>,
    /// For each destination, the hosts of the pod and then the pods: the place of its queue, or
    /// [`NO_QUEUE`].
    by_place: Vec<u16>,
    /// Which queues have cells that flows could send, a bit each by place.
    backlogged: Vec<u64>,
    /// Flows to other pods that have something in flight.
    across_in_flight: usize,
    hosts: usize,
}

impl Queues {
    /// No queues, with room for `flows` flows to `hosts` hosts and `pods` pods.
    pub(super) fn new(flows: usize, hosts: usize, pods: usize) -> Self {
        Self {
            accounts: vec![VACANT; flows],
            queues: Vec::new(),
            by_place: vec![NO_QUEUE; hosts + pods],
            backlogged: vec![0; (hosts + pods).div_ceil(64)],
            across_in_flight: 0,
            hosts,
        }
    }

    /// A flow to `to` has been opened. False when there is no such destination.
    pub(super) fn open(&mut self, flow: FlowId, to: DemandEnd) -> bool {
        let Some(queue) = self.queue_of(to) else { return false };
        let former = self.accounts[flow.index()].id;
        if former != FlowId::UNKNOWN {
            self.update(former, 0);
            self.set_in_flight(former, false);
        }
        // A former flow may still be in a list, which may not have another turn.
        self.unlist(flow.index());
        self.accounts[flow.index()] = Account { id: flow, queue, ..VACANT };
        true
    }

    #[expect(clippy::cast_possible_truncation, reason = "at most 1024 hosts and 32 pods")]
    fn queue_of(&mut self, to: DemandEnd) -> Option<u32> {
        let index = self.index(to)?;
        let place = &mut self.by_place[index];
        if *place == NO_QUEUE {
            *place = self.queues.len() as u16;
            self.queues.push(Queue {
                to,
                waiting: 0,
                asked: 0,
                granted: 0,
                pending: 0,
                dirty: false,
                since: 0,
                tries: 0,
                awaited: false,
                overdue: false,
                levels: [EMPTY; LEVELS],
            });
        }
        Some(u32::from(*place))
    }

    /// The number of a destination among all of them.
    fn index(&self, to: DemandEnd) -> Option<usize> {
        let (index, end) = match to {
            DemandEnd::Host(host) => (usize::from(host), self.hosts),
            DemandEnd::Pod(pod) => (self.hosts + usize::from(pod), self.by_place.len()),
        };
        (index < end).then_some(index)
    }

    /// The place of the queue of a destination.
    pub(super) fn place(&self, to: DemandEnd) -> Option<usize> {
        let place = self.by_place[self.index(to)?];
        (place != NO_QUEUE).then(|| place.into())
    }

    /// A queue by its place.
    pub(super) fn queue(&mut self, place: usize) -> &mut Queue {
        &mut self.queues[place]
    }

    /// How many queues there are; their places are below.
    pub(super) fn len(&self) -> usize {
        self.queues.len()
    }

    /// The queues with cells that flows could send, with their places.
    pub(super) fn backlogged(&self) -> impl Iterator<Item = (usize, &Queue)> {
        let words = (0..).step_by(64).zip(&self.backlogged);
        let places = words.flat_map(|(first, word)| {
            let left = |bits: &u64| Some(bits & (bits - 1)).filter(|bits| *bits != 0);
            let bits = core::iter::successors(Some(*word).filter(|bits| *bits != 0), left);
            bits.map(move |bits| first + bits.trailing_zeros() as usize)
        });
        places.map(|place| (place, &self.queues[place]))
    }

    /// Cells that a flow could send now; returns the place of its queue, `None` for a flow that has
    /// no account.
    pub(super) fn update(&mut self, flow: FlowId, waiting: u32) -> Option<usize> {
        let account = self.accounts.get_mut(flow.index()).filter(|known| known.id == flow)?;
        let place = account.queue as usize;
        let queue = &mut self.queues[place];
        queue.waiting = queue.waiting - account.waiting + waiting;
        account.waiting = waiting;
        let (word, bit) = (&mut self.backlogged[place / 64], 1 << (place % 64));
        *word = if queue.waiting > 0 { *word | bit } else { *word & !bit };
        if waiting > 0 && account.list == UNLISTED {
            self.list(flow.index());
        }
        Some(place)
    }

    /// Puts a flow behind the others of its level.
    #[expect(clippy::cast_possible_truncation, reason = "slab indices have 32 bits")]
    fn list(&mut self, index: usize) {
        let account = &mut self.accounts[index];
        let list = &mut self.queues[account.queue as usize].levels[usize::from(account.level)];
        let last = core::mem::replace(&mut list.tail, index as u32);
        (account.list, account.before, account.next) = (account.level, last, NIL);
        match last {
            NIL => list.head = index as u32,
            last => self.accounts[last as usize].next = index as u32,
        }
    }

    /// The flow that sends next to a destination, and its level; one of the levels of mice where
    /// only these may send.
    pub(super) fn front(&mut self, place: usize, mice_only: bool) -> Option<(FlowId, usize)> {
        for level in 0..if mice_only { MICE_LEVELS } else { LEVELS } {
            // Bounded: each turn ends the loop or takes a flow out of this level.
            while let Some(index) = self.head(place, level) {
                let account = &self.accounts[index];
                if usize::from(account.level) == level && account.waiting > 0 {
                    return Some((account.id, level));
                }
                self.unlist(index);
                if self.accounts[index].waiting > 0 {
                    self.list(index);
                }
            }
        }
        None
    }

    fn head(&self, place: usize, level: usize) -> Option<usize> {
        let head = self.queues[place].levels[level].head;
        (head != NIL).then_some(head as usize)
    }

    /// Takes an account out of the list that it is in, if it is in one.
    fn unlist(&mut self, index: usize) {
        let Account { queue, before, next, list, .. } = self.accounts[index];
        if list == UNLISTED {
            return;
        }
        self.accounts[index].list = UNLISTED;
        let list = &mut self.queues[queue as usize].levels[usize::from(list)];
        match before {
            NIL => list.head = next,
            before => self.accounts[before as usize].next = next,
        }
        match next {
            NIL => list.tail = before,
            next => self.accounts[next as usize].before = before,
        }
    }

    /// Cells of `cell` payload bytes that a flow may send together: those until it leaves its
    /// level, or any number where it waits with a lost train that was too long.
    pub(super) fn cells_together(&self, flow: FlowId, cell: u32) -> u64 {
        let Some(account) = self.known(flow) else { return 0 };
        if account.too_long {
            return u64::MAX;
        }
        let most = THRESHOLDS.get(usize::from(account.level));
        most.map_or(u64::MAX, |most| most.saturating_sub(account.sent).div_ceil(cell.into()))
    }

    /// A flow sends cells with `bytes` payload bytes together.
    pub(super) fn sent(&mut self, flow: FlowId, cells: u16, bytes: u16) {
        let Some(account) = self.account(flow) else { return };
        account.sent += u64::from(bytes);
        account.too_long = false;
        let left = account.waiting.saturating_sub(cells.into());
        let sent = account.sent;
        while THRESHOLDS.get(usize::from(account.level)).is_some_and(|most| sent >= *most) {
            account.level += 1;
        }
        self.update(flow, left);
    }

    /// Notes whether a flow to another pod has something in flight; true where that changes.
    pub(super) fn set_in_flight(&mut self, flow: FlowId, in_flight: bool) -> bool {
        let Some(account) = self.accounts.get_mut(flow.index()).filter(|it| it.id == flow) else {
            return false;
        };
        let across = matches!(self.queues[account.queue as usize].to, DemandEnd::Pod(_));
        if !across || account.in_flight == in_flight {
            return false;
        }
        account.in_flight = in_flight;
        let others = self.across_in_flight - usize::from(!in_flight);
        self.across_in_flight = others + usize::from(in_flight);
        true
    }

    /// How many flows to other pods have something in flight.
    pub(super) const fn across_in_flight(&self) -> usize {
        self.across_in_flight
    }

    /// The first flow to another pod that has something in flight, from the account at `from` on,
    /// and the place of its account.
    pub(super) fn across_in_flight_from(&self, from: usize) -> Option<(usize, FlowId)> {
        let mut accounts = self.accounts.iter().enumerate().skip(from);
        accounts.find(|(_, account)| account.in_flight).map(|(place, account)| (place, account.id))
    }

    /// A flow that waits for a grant. Looks at all accounts.
    pub(super) fn first_waiting(&self) -> Option<FlowId> {
        self.accounts.iter().find(|account| account.waiting > 0).map(|account| account.id)
    }

    /// Whether a flow waits for a grant.
    pub(super) fn holds(&self, flow: FlowId) -> bool {
        self.known(flow).is_some_and(|account| account.waiting > 0)
    }

    /// The account of a flow.
    pub(super) fn known(&self, flow: FlowId) -> Option<&Account> {
        self.accounts.get(flow.index()).filter(|account| account.id == flow)
    }

    /// The account of a flow.
    pub(super) fn account(&mut self, flow: FlowId) -> Option<&mut Account> {
        self.accounts.get_mut(flow.index()).filter(|account| account.id == flow)
    }

    /// The queue of an account.
    pub(super) fn of(&self, account: &Account) -> &Queue {
        &self.queues[account.queue as usize]
    }

    /// The bytes in the lowest level of a destination that has any, counted in whole cells; `None`
    /// where that level is no mouse's.
    pub(super) fn mouse(&self, place: usize, cell: u32) -> Option<u32> {
        for level in 0..MICE_LEVELS {
            let mut at = self.queues[place].levels[level].head;
            let mut cells = 0_u32;
            while at != NIL {
                let account = &self.accounts[at as usize];
                let own = usize::from(account.level) == level;
                cells = cells.saturating_add(if own { account.waiting } else { 0 });
                at = account.next;
            }
            if cells > 0 {
                return Some(cells.saturating_mul(cell));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(index: u32) -> FlowId {
        FlowId::new(index, 1)
    }

    fn queues() -> Queues {
        let mut queues = Queues::new(8, 16, 0);
        for index in 0..4 {
            assert!(queues.open(flow(index), DemandEnd::Host(5)));
        }
        queues
    }

    fn front(queues: &mut Queues) -> Option<FlowId> {
        let place = queues.place(DemandEnd::Host(5)).unwrap();
        queues.front(place, false).map(|(flow, _)| flow)
    }

    #[test]
    fn a_level_is_served_flow_after_flow_and_a_lower_level_first() {
        let mut queues = queues();
        for index in 0..3 {
            queues.update(flow(index), 10);
        }
        let mut order = Vec::new();
        while let Some(next) = front(&mut queues) {
            order.push(next.index());
            queues.sent(next, 1, 512);
        }
        // Five cells take a flow beyond 2500 bytes, then it waits for those that have sent less.
        let expected = [[0; 5], [1; 5], [2; 5], [0; 5], [1; 5], [2; 5]].concat();
        assert_eq!(order, expected);
        queues.update(flow(3), 1);
        queues.update(flow(0), 1);
        assert_eq!(front(&mut queues), Some(flow(3)), "a flow that has sent nothing");
    }

    #[test]
    fn a_flow_without_segments_loses_its_place_and_a_reused_account_is_the_new_flows() {
        let mut queues = queues();
        for index in 0..2 {
            queues.update(flow(index), 10);
        }
        queues.update(flow(0), 0);
        assert_eq!(front(&mut queues), Some(flow(1)));
        let new = FlowId::new(1, 2);
        assert!(queues.open(new, DemandEnd::Host(9)));
        assert_eq!(front(&mut queues), None, "its former flow is over");
        assert_eq!(queues.update(flow(1), 7), None);
        let place = queues.update(new, 3).unwrap();
        assert_eq!(queues.front(place, false), Some((new, 0)));
        assert!(queues.backlogged().map(|(at, queue)| (at, queue.waiting)).eq([(place, 3)]));
    }

    #[test]
    fn queues_with_something_to_send_are_found_by_place() {
        let mut queues = Queues::new(130, 130, 0);
        for host in 0..130 {
            assert!(queues.open(flow(u32::from(host)), DemandEnd::Host(host)));
        }
        for index in [129, 64, 63, 0] {
            queues.update(flow(index), index + 1);
        }
        let found = |queues: &Queues| -> Vec<_> {
            queues.backlogged().map(|(place, queue)| (place, queue.waiting)).collect()
        };
        assert_eq!(found(&queues), [(0, 1), (63, 64), (64, 65), (129, 130)]);
        queues.update(flow(64), 0);
        assert_eq!(found(&queues), [(0, 1), (63, 64), (129, 130)]);
    }

    #[test]
    fn a_reused_account_sends_though_its_former_destination_never_does_again() {
        let mut queues = queues();
        for index in 0..3 {
            queues.update(flow(index), 1);
            // Its last cell; nothing asks for the front of that queue afterwards.
            queues.sent(flow(index), 1, 512);
        }
        for (index, to) in [(1, 9), (0, 9), (2, 5)] {
            let new = FlowId::new(index, 2);
            assert!(queues.open(new, DemandEnd::Host(to)));
            let place = queues.update(new, 2).unwrap();
            assert_eq!(queues.mouse(place, 512), Some(if index == 0 { 2048 } else { 1024 }));
        }
        let mut order = Vec::new();
        for to in [9, 9, 9, 9, 9, 5, 5, 5] {
            let place = queues.place(DemandEnd::Host(to)).unwrap();
            let Some((next, _)) = queues.front(place, false) else { continue };
            order.push(next.index());
            queues.sent(next, 1, 512);
        }
        assert_eq!(order, [1, 1, 0, 0, 2, 2]);
    }

    #[test]
    fn what_is_lacking_is_what_was_neither_asked_for_nor_granted() {
        let mut queues = queues();
        let place = queues.update(flow(0), 10).unwrap();
        let queue = queues.queue(place);
        assert_eq!((queue.lacking(100), queue.lacking(4)), (10, 4));
        queue.asked = queue.asked.wrapping_add(10);
        assert_eq!((queue.lacking(100), queue.lacking(4)), (0, 0));
        (queue.granted, queue.pending) = (6, 6);
        assert_eq!(queue.lacking(100), 0);
        // A grant of two cells was lost, and four cells are sent.
        (queue.granted, queue.pending) = (8, 2);
        queues.update(flow(0), 6);
        assert_eq!(queues.queue(place).lacking(100), 2);
    }

    #[test]
    fn only_flows_that_have_sent_less_than_100_kb_are_mice() {
        let mut queues = queues();
        let place = queues.update(flow(0), 300).unwrap();
        for _ in 0..195 {
            assert!(queues.front(place, true).is_some());
            queues.sent(flow(0), 1, 512);
        }
        queues.sent(flow(0), 1, 512);
        assert_eq!(queues.front(place, true), None, "it has sent 100352 bytes");
        assert_eq!(queues.front(place, false), Some((flow(0), 3)));
        queues.update(flow(1), 1);
        assert_eq!(queues.front(place, true), Some((flow(1), 0)));
    }

    #[test]
    fn hosts_and_pods_are_destinations_of_their_own() {
        let mut queues = Queues::new(8, 16, 3);
        for (index, to) in (0..).zip([DemandEnd::Host(2), DemandEnd::Pod(2), DemandEnd::Host(15)]) {
            assert!(queues.open(flow(index), to));
            queues.update(flow(index), index + 1);
        }
        let waiting = |to| queues.place(to).map(|place| queues.queues[place].waiting);
        assert_eq!([DemandEnd::Host(2), DemandEnd::Pod(2)].map(waiting), [Some(1), Some(2)]);
        assert_eq!(
            [DemandEnd::Pod(1), DemandEnd::Pod(3), DemandEnd::Host(16)].map(waiting),
            [None; 3]
        );
        assert!(
            !queues.open(flow(5), DemandEnd::Pod(3)) && !queues.open(flow(5), DemandEnd::Host(16))
        );
    }

    #[test]
    fn the_lowest_level_of_a_destination_is_its_mouse_unless_it_is_beyond_100_kb() {
        let mut queues = queues();
        let place = queues.update(flow(0), 300).unwrap();
        assert_eq!(queues.mouse(place, 512), Some(300 * 512));
        for _ in 0..200 {
            queues.sent(flow(0), 1, 512);
            queues.front(place, false);
        }
        assert_eq!(queues.mouse(place, 512), None, "it has sent 102 KB");
        queues.update(flow(1), 2);
        assert_eq!(queues.mouse(place, 512), Some(1024));
        assert!(!queues.open(flow(7), DemandEnd::Host(16)), "no such host");
    }
}
