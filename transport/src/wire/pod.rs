//! Messages between the hosts of a pod and their scheduler, and the names of cells.
//!
//! Source: \[zeropod\] III-A, IV-B1, IV-C, IV-E. A request (RTS) and an answer (SCHD) are NOTEs of
//! class Control. Both carry totals instead of differences, so that the next one makes up for one
//! that was lost. A Core's request also says for which pods the Core is full, and which cells that
//! came by it have been delivered. A cell is a DATA packet whose entropy value is its name: the
//! route, the slot and the epoch.

mod join;
mod schd;
mod stamp;

pub use join::{INVITE, Invite, JOIN, JOIN_HOSTS_MAX, Join, hosts_a_switch};
pub use schd::{Grant, Schd};
pub use stamp::{ClockState, Stamp};

use super::note::OCTETS_MAX;
use super::{Note, NoteView, TrafficClass};
use crate::units::{EntropyValue, FlowId, Psn};

/// The number of the protocol in NOTEs that are requests.
pub const RTS: u8 = 0x50;
/// The number of the protocol in NOTEs that are answers.
pub const SCHD: u8 = 0x51;
/// The number of the protocol in NOTEs that are requests of Cores.
pub const CORE_RTS: u8 = 0x52;

/// Data cells of an epoch at most: the bits of a receipt.
pub const CELLS_MAX: u16 = 32;
/// Aggregation switches of a pod at most, as a cell can name them.
pub const AGGS_MAX: u32 = 32;
/// Cores of an aggregation switch at most, as a cell can name them.
pub const LAYERS_MAX: u32 = 8;
/// Pods at most: a bit for each in the field of a Core's request that names the pods for which the
/// Core takes no cells.
pub const PODS_MAX: u32 = 32;
/// Mice that a request has room for.
pub const MICE_MAX: u16 = 7;
/// Mice that a request has room for which reports the arrivals of several epochs.
pub const FEW_MICE: u16 = MICE_MAX - 1;
/// Epochs whose arrivals one request, or one answer, can report.
pub const REPORTED_MAX: u64 = 16;
/// Epochs in a row that an answer can grant.
pub const RUN_MAX: u16 = 8;

/// The far end of a demand: a host of the pod by its number there, or another pod.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DemandEnd {
    /// A host of this pod, 0..=1023.
    Host(u16),
    /// Another pod, 0..=1023.
    Pod(u16),
}

const POD: u16 = 1 << 10;

impl DemandEnd {
    #[inline]
    const fn word(self) -> u16 {
        match self {
            Self::Host(host) => host & (POD - 1),
            Self::Pod(pod) => pod & (POD - 1) | POD,
        }
    }

    #[inline]
    const fn of(word: u16) -> Self {
        let number = word & (POD - 1);
        if word & POD == 0 { Self::Host(number) } else { Self::Pod(number) }
    }
}

/// A demand whose shortest flow is short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mouse {
    /// The receiver.
    pub to: DemandEnd,
    /// The step of [`Mouse::bytes`] that is just enough for the flow, 0..=31.
    pub size: u8,
}

impl Mouse {
    /// Steps of sizes: four to a doubling, from 512 bytes to 110 KB.
    pub const STEPS: u8 = 32;

    /// Bytes of step `size`.
    #[inline]
    #[must_use]
    pub const fn bytes(size: u8) -> u32 {
        // Quarters of a doubling: 1, 1.19, 1.41 and 1.68 in 256ths.
        let quarter = [256, 304, 362, 431][(size % 4) as usize];
        (512 << (size / 4)) / 256 * quarter
    }

    /// The least step with as many bytes; the last one for more.
    #[must_use]
    pub fn step(bytes: u32) -> u8 {
        (0..Self::STEPS).find(|step| Self::bytes(*step) >= bytes).unwrap_or(Self::STEPS - 1)
    }
}

/// A request to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rts {
    /// The term of the scheduler for which it is meant; 0 while its sender has had no answer.
    pub term: u16,
    /// The epoch in which the request leaves, modulo 2^32.
    pub epoch: u32,
    /// The receiver and the bytes asked for so far, modulo 2^32; `None` where nothing changed.
    pub update: Option<(DemandEnd, u32)>,
    /// Cells that arrived in an earlier epoch, a bit each; how much earlier is a constant of the
    /// pod.
    pub arrived: u32,
    /// Bit i: `arrived` is also what arrived in the epoch i before that one, where bit 0 is that
    /// one itself. 1 as a rule. With other values there is room for [`FEW_MICE`].
    pub arrived_in: u16,
    /// Whether its sender got no receipt for cells that it sent in an earlier epoch; how much
    /// earlier is another constant of the pod.
    pub lost: bool,
    /// The demands with the shortest flows; those from `mice_len` on mean nothing.
    pub mice: [Mouse; MICE_MAX as usize],
    /// Number of `mice`, 0..=[`MICE_MAX`].
    pub mice_len: u8,
    /// The state of its sender's clock; `None` where clocks are exact.
    pub clock: Option<ClockState>,
}

/// Cells of one flow that went by a Core: they are at their receiver, or are to be sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivered {
    /// The flow at its sender.
    pub flow: FlowId,
    /// The PSN that bit 0 of `arrived` stands for.
    pub first: Psn,
    /// Bit i: PSN `first + i` is among the cells.
    pub arrived: u32,
    /// Whether the cells are to be sent again, because no report of them can come any more. They
    /// may be at their receiver or not.
    pub again: bool,
}

impl Delivered {
    /// PSNs, from the first one on, that fit into an answer beside a receipt.
    pub const BESIDE_RECEIPT: u32 = 16;

    /// Takes off the first cells, as many as fit beside a receipt, and leaves the others.
    #[must_use]
    pub const fn take_few(&mut self) -> Self {
        let skipped = if self.arrived == 0 { 0 } else { self.arrived.trailing_zeros() };
        let arrived = self.arrived >> skipped & ((1 << Self::BESIDE_RECEIPT) - 1);
        self.arrived &= !(arrived << skipped);
        Self { first: self.first.plus(skipped), arrived, ..*self }
    }
}

/// A request of a Core's port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoreRts {
    /// The term of the scheduler for which it is meant; 0 while its sender has had no answer.
    pub term: u16,
    /// The epoch in which the request leaves, modulo 2^32.
    pub epoch: u32,
    /// The receiver and the bytes asked for so far, modulo 2^32; `None` where nothing changed.
    pub update: Option<(DemandEnd, u32)>,
    /// Pods for which the Core takes no more cells, a bit each.
    pub paused: u32,
    /// A host of the pod by its number there, and cells of it that have been delivered.
    pub delivered: Option<(u16, Delivered)>,
    /// Whether the Core got no receipt for cells that it sent in an earlier epoch, as in a host's
    /// request.
    pub lost: bool,
}

const HAS_UPDATE: u8 = 1;
const HAS_DELIVERED: u8 = 2;
const HAS_CLOCK: u8 = 4;
const BEHIND_GAP: u8 = 8;
const SETTLED: u8 = 16;
const HAS_LOST: u8 = 32;
const HAS_EPOCHS: u8 = 64;
const SEND_AGAIN: u8 = 128;

const RTS_FIXED: usize = 18;
/// [`FEW_MICE`] in the type of a request's count.
const FEW: u8 = 6;
const _: () = assert!(FEW as u16 == FEW_MICE && REPORTED_MAX == u16::BITS as u64);
const CORE_RTS_LEN: usize = 32;
const _: () = assert!(CORE_RTS_LEN <= OCTETS_MAX);
const _: () = assert!(RTS_FIXED + 2 * MICE_MAX as usize <= OCTETS_MAX);
const _: () = assert!(Mouse::STEPS as u16 <= 1 << (16 - 11), "a mouse has 16 bits");

/// Writes fields one behind the other.
struct Writer {
    octets: [u8; OCTETS_MAX],
    len: usize,
}

impl Writer {
    #[inline(always)]
    const fn new() -> Self {
        Self { octets: [0; OCTETS_MAX], len: 0 }
    }

    // Inlined, the place of every field is known to the compiler.
    #[inline(always)]
    fn put<const N: usize>(&mut self, field: [u8; N]) -> &mut Self {
        if let Some(place) = self.octets[self.len..].first_chunk_mut() {
            *place = field;
        }
        self.len += N;
        self
    }

    #[inline(always)]
    fn note(&self, protocol: u8) -> Note {
        let len = u8::try_from(self.len).unwrap_or(u8::MAX);
        Note { class: TrafficClass::Control, protocol, len, octets: self.octets }
    }
}

/// Reads fields one behind the other.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    #[inline(always)]
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }
}

impl Rts {
    /// The NOTE of this request.
    #[must_use]
    pub fn note(&self) -> Note {
        let (to, total) = self.update.unwrap_or((DemandEnd::Host(0), 0));
        let mut out = Writer::new();
        out.put(self.term.to_be_bytes()).put(self.epoch.to_be_bytes());
        let clock = self.clock.map_or(0, |clock| {
            let gap = if clock.behind_gap { BEHIND_GAP } else { 0 };
            HAS_CLOCK | gap | if clock.settled { SETTLED } else { 0 }
        });
        let update = if self.update.is_some() { HAS_UPDATE } else { 0 };
        let lost = if self.lost { HAS_LOST } else { 0 };
        let several = self.arrived_in != 1;
        let mice = if several { self.mice_len.min(FEW) } else { self.mice_len };
        out.put([clock | update | lost | if several { HAS_EPOCHS } else { 0 }, mice]);
        out.put(to.word().to_be_bytes()).put(total.to_be_bytes());
        out.put(self.arrived.to_be_bytes());
        if several {
            out.put(self.arrived_in.to_be_bytes());
        }
        for mouse in &self.mice()[..mice.into()] {
            out.put((u16::from(mouse.size) << 11 | mouse.to.word()).to_be_bytes());
        }
        out.note(RTS)
    }

    /// A request that asks for nothing.
    pub const VACANT: Self = Self {
        term: 0,
        epoch: 0,
        update: None,
        arrived: 0,
        arrived_in: 1,
        lost: false,
        mice: [Self::NO_MOUSE; MICE_MAX as usize],
        mice_len: 0,
        clock: None,
    };

    /// The request in a NOTE; `None` for any other NOTE.
    #[inline]
    #[must_use]
    pub fn of(note: &Note) -> Option<Self> {
        let mut rts = Self::VACANT;
        rts.read(note.view()).then_some(rts)
    }

    /// Reads the request in a NOTE into the place of a [vacant](Self::VACANT) one, which a caller
    /// has where requests wait; false for any other NOTE.
    #[inline]
    #[must_use]
    pub fn read(&mut self, note: NoteView<'_>) -> bool {
        if note.protocol != RTS || note.class != TrafficClass::Control {
            return false;
        }
        let Some((fixed, rest)) = note.said.split_first_chunk::<RTS_FIXED>() else { return false };
        let [t0, t1, e0, e1, e2, e3, flags, mice_len, of_demand @ ..] = *fixed;
        let [to0, to1, n0, n1, n2, n3, a0, a1, a2, a3] = of_demand;
        let count = usize::from(mice_len);
        let has_clock = flags & HAS_CLOCK != 0;
        let of_clock = if has_clock { HAS_CLOCK | BEHIND_GAP | SETTLED } else { 0 };
        let known = HAS_UPDATE | HAS_LOST | HAS_EPOCHS | of_clock;
        let (arrived_in, mice) = match rest.split_first_chunk::<2>() {
            Some((epochs, mice)) if flags & HAS_EPOCHS != 0 => (u16::from_be_bytes(*epochs), mice),
            None if flags & HAS_EPOCHS != 0 => return false,
            _ => (1, rest),
        };
        if flags & !known != 0 || count > usize::from(MICE_MAX) || mice.len() != 2 * count {
            return false;
        }
        self.term = u16::from_be_bytes([t0, t1]);
        self.epoch = u32::from_be_bytes([e0, e1, e2, e3]);
        let (behind_gap, settled) = (flags & BEHIND_GAP != 0, flags & SETTLED != 0);
        self.clock = has_clock.then_some(ClockState { behind_gap, settled });
        let to = DemandEnd::of(u16::from_be_bytes([to0, to1]));
        let total = u32::from_be_bytes([n0, n1, n2, n3]);
        self.update = (flags & HAS_UPDATE != 0).then_some((to, total));
        self.arrived = u32::from_be_bytes([a0, a1, a2, a3]);
        self.arrived_in = arrived_in;
        self.lost = flags & HAS_LOST != 0;
        self.mice_len = mice_len;
        for (at, word) in mice.as_chunks::<2>().0.iter().enumerate() {
            let word = u16::from_be_bytes(*word);
            self.mice[at] = Mouse { to: DemandEnd::of(word), size: (word >> 11) as u8 };
        }
        true
    }

    /// The value of an entry of `mice` that is not used.
    pub const NO_MOUSE: Mouse = Mouse { to: DemandEnd::Host(0), size: 0 };

    /// The mice.
    #[inline]
    #[must_use]
    pub fn mice(&self) -> &[Mouse] {
        &self.mice[..usize::from(self.mice_len).min(MICE_MAX.into())]
    }
}

impl CoreRts {
    /// The NOTE of this request.
    #[must_use]
    pub fn note(&self) -> Note {
        let (to, total) = self.update.unwrap_or((DemandEnd::Host(0), 0));
        let none = Delivered { flow: FlowId::UNKNOWN, first: Psn(0), arrived: 0, again: false };
        let (host, delivered) = self.delivered.unwrap_or((0, none));
        let flags = if self.update.is_some() { HAS_UPDATE } else { 0 }
            | if self.delivered.is_some() { HAS_DELIVERED } else { 0 }
            | if delivered.again { SEND_AGAIN } else { 0 }
            | if self.lost { HAS_LOST } else { 0 };
        let mut out = Writer::new();
        out.put(self.term.to_be_bytes()).put(self.epoch.to_be_bytes()).put([flags, 0]);
        out.put(to.word().to_be_bytes()).put(total.to_be_bytes());
        out.put(self.paused.to_be_bytes()).put(host.to_be_bytes());
        out.put(delivered.flow.0.to_be_bytes()).put(delivered.first.0.to_be_bytes());
        out.put(delivered.arrived.to_be_bytes());
        out.note(CORE_RTS)
    }

    /// The request in a NOTE; `None` for any other NOTE.
    #[inline]
    #[must_use]
    pub fn of(note: &Note) -> Option<Self> {
        if note.protocol != CORE_RTS || note.class != TrafficClass::Control {
            return None;
        }
        let mut from = Reader(note.said());
        let (term, epoch, [flags, reserved]) = (from.u16()?, from.u32()?, from.take()?);
        let (to, total, paused) = (DemandEnd::of(from.u16()?), from.u32()?, from.u32()?);
        let (host, flow, first) = (from.u16()?, FlowId(from.u32()?), Psn(from.u32()?));
        let again = flags & SEND_AGAIN != 0;
        let delivered = (host, Delivered { flow, first, arrived: from.u32()?, again });
        if flags & !(HAS_UPDATE | HAS_DELIVERED | SEND_AGAIN | HAS_LOST) != 0
            || (again && flags & HAS_DELIVERED == 0)
            || reserved != 0
            || !from.0.is_empty()
        {
            return None;
        }
        let update = (flags & HAS_UPDATE != 0).then_some((to, total));
        let delivered = (flags & HAS_DELIVERED != 0).then_some(delivered);
        let lost = flags & HAS_LOST != 0;
        Some(Self { term, epoch, update, paused, delivered, lost })
    }
}

/// The name of a cell: its route, and the slot in which it leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellName {
    /// The aggregation switch, below [`AGGS_MAX`].
    pub agg: u8,
    /// The Core of that switch, below [`LAYERS_MAX`]; of no meaning inside a pod.
    pub layer: u8,
    /// The slot of the epoch, below [`CELLS_MAX`].
    pub slot: u8,
    /// The epoch, modulo 4.
    pub epoch: u8,
    /// Whether the cell left without a grant: then it yields to every other packet that it meets.
    //= zeropod#IV-B3
    pub unscheduled: bool,
}

impl CellName {
    const UNSCHEDULED_AT: u32 = 15;

    /// Epochs that names on a real network distinguish: they have no route, so those bits are of
    /// the epoch, too.
    const EPOCHS: u64 = 1 << 10;

    /// This name on a real network, in `epoch`.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "10 bits")]
    pub const fn of_epoch(self, epoch: u64) -> Self {
        let bits = epoch % Self::EPOCHS;
        let (agg, layer) = ((bits >> 2) as u8 & 31, (bits >> 7) as u8 & 7);
        Self { agg, layer, epoch: bits as u8 & 3, ..self }
    }

    /// How many epochs before `epoch` the one of this name on a real network was, below 1024.
    #[must_use]
    pub const fn epochs_before(self, epoch: u64) -> u64 {
        let bits = self.epoch as u64 | (self.agg as u64) << 2 | (self.layer as u64) << 7;
        (epoch + Self::EPOCHS - bits) % Self::EPOCHS
    }

    /// The entropy value of the cell. From the low bits up it has 5 bits of the switch, 3 of the
    /// Core, 5 of the slot, 2 of the epoch, and 1 that is set in unscheduled cells.
    #[must_use]
    pub const fn ev(self) -> EntropyValue {
        let route = (self.agg as u16 & 31) | (self.layer as u16 & 7) << 5;
        let when = (self.slot as u16 & 31) << 8 | (self.epoch as u16 & 3) << 13;
        EntropyValue(route | when | (self.unscheduled as u16) << Self::UNSCHEDULED_AT)
    }

    /// The cell with that entropy value.
    #[inline]
    #[must_use]
    pub const fn of(ev: EntropyValue) -> Self {
        let bits = ev.0;
        Self {
            agg: (bits & 31) as u8,
            layer: (bits >> 5 & 7) as u8,
            slot: (bits >> 8 & 31) as u8,
            epoch: (bits >> 13 & 3) as u8,
            unscheduled: bits >> Self::UNSCHEDULED_AT == 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn demand_end() -> impl Strategy<Value = DemandEnd> {
        (any::<bool>(), 0_u16..1024)
            .prop_map(|(pod, n)| if pod { DemandEnd::Pod(n) } else { DemandEnd::Host(n) })
    }

    fn mouse() -> impl Strategy<Value = Mouse> {
        (demand_end(), 0..Mouse::STEPS).prop_map(|(to, size)| Mouse { to, size })
    }

    fn delivered() -> impl Strategy<Value = Delivered> {
        any::<(u32, u32, u32, bool)>().prop_map(|(flow, first, arrived, again)| {
            let (flow, first) = (FlowId(flow), Psn(first));
            Delivered { flow, first, arrived, again }
        })
    }

    #[test]
    fn a_name_on_a_real_network_distinguishes_a_thousand_epochs() {
        let name = CellName { agg: 0, layer: 0, slot: 31, epoch: 0, unscheduled: false };
        for epoch in [0, 3, 1023, 1024, 5_000_001] {
            for behind in [0, 1, 7, 1023] {
                let read = CellName::of(name.of_epoch(epoch).ev());
                assert_eq!((read.slot, read.unscheduled), (31, false));
                assert_eq!(read.epochs_before(epoch + behind), behind);
            }
        }
    }

    proptest! {
        #[test]
        fn a_request_of_a_core_is_read_as_it_was_written(
            (term, epoch, paused) in any::<(u16, u32, u32)>(),
            update in prop::option::of((demand_end(), any::<u32>())),
            delivered in prop::option::of((any::<u16>(), delivered())),
            lost: bool,
        ) {
            let rts = CoreRts { term, epoch, update, paused, delivered, lost };
            prop_assert_eq!(CoreRts::of(&rts.note()), Some(rts));
            prop_assert_eq!((Rts::of(&rts.note()), Schd::of(&rts.note())), (None, None));
        }

        #[test]
        fn a_request_is_read_as_it_was_written(
            (term, epoch, arrived) in any::<(u16, u32, u32)>(),
            update in prop::option::of((demand_end(), any::<u32>())),
            some in prop::collection::vec(mouse(), 0..=usize::from(MICE_MAX)),
            clock in prop::option::of(any::<(bool, bool)>()),
            lost: bool, several in prop::option::of(any::<u16>()),
        ) {
            let arrived_in = several.unwrap_or(1);
            let most = usize::from(if arrived_in == 1 { MICE_MAX } else { FEW_MICE });
            let some = &some[..some.len().min(most)];
            let clock = clock.map(|(behind_gap, settled)| ClockState { behind_gap, settled });
            let mut mice = [Rts::NO_MOUSE; MICE_MAX as usize];
            mice[..some.len()].copy_from_slice(some);
            let mice_len = u8::try_from(some.len()).unwrap();
            let rts =
                Rts { term, epoch, update, arrived, arrived_in, lost, mice, mice_len, clock };
            prop_assert_eq!(Rts::of(&rts.note()), Some(rts));
            prop_assert_eq!(Schd::of(&rts.note()), None);
        }

        #[test]
        fn an_answer_is_read_as_it_was_written(
            (term, epoch, total) in any::<(u16, u32, u32)>(),
            (to, agg, layer) in (demand_end(), 0_u8..32, prop::option::of(0_u8..8)),
            (cells, mice_only, granted) in (1_u8..=32, any::<bool>(), any::<bool>()),
            receipt in prop::option::of(any::<(u16, u32)>()),
            standing in prop::option::of((demand_end(), any::<u32>())),
            delivered in prop::option::of(delivered()),
            stamp in prop::option::of((any::<u32>(), any::<bool>(), -32_767_i16..)),
            (also, epochs) in (any::<u16>(), 1_u8..=8),
        ) {
            let also = if delivered.is_none() || standing.is_some() { also } else { 0 };
            let also = if receipt.is_some() { also } else { 0 };
            let epochs = if delivered.is_none() || standing.is_some() { epochs } else { 1 };
            let stamp = stamp.map(|(window, behind_gap, late)| Stamp {
                window: (!granted).then_some(window),
                behind_gap,
                late: (late != 7).then_some(late),
            });
            let grant = Grant { epoch, to, agg, layer, cells, epochs, total, mice_only };
            let delivered: Option<Delivered> = delivered.filter(|_| standing.is_none());
            let few = |mut run: Delivered| if receipt.is_some() { run.take_few() } else { run };
            let delivered = delivered.map(few);
            let grant = granted.then_some(grant);
            let schd = Schd { term, grant, receipt, also, standing, delivered, stamp };
            prop_assert_eq!(Schd::of(&schd.note()), Some(schd));
            prop_assert_eq!(Rts::of(&schd.note()), None);
        }

        #[test]
        fn any_octets_are_read_or_refused(
            protocol in prop::sample::select(&[RTS, SCHD, CORE_RTS][..]),
            octets in prop::collection::vec(any::<u8>(), 0..=OCTETS_MAX),
        ) {
            let note = Note::new(protocol, &octets).unwrap();
            if let Some(rts) = CoreRts::of(&note) {
                prop_assert_eq!(CoreRts::of(&rts.note()), Some(rts));
            }
            if let Some(rts) = Rts::of(&note) {
                prop_assert!(rts.mice().len() <= usize::from(MICE_MAX));
            }
            let schd = Schd::of(&note);
            if let Some(Grant { agg, layer, cells, epochs, .. }) = schd.and_then(|s| s.grant) {
                prop_assert!((1..=RUN_MAX).contains(&epochs.into()));
                prop_assert!(u32::from(agg) < AGGS_MAX && (1..=32).contains(&cells));
                prop_assert!(layer.is_none_or(|layer| u32::from(layer) < LAYERS_MAX));
            }
        }

        #[test]
        fn what_was_delivered_fits_beside_receipts_part_by_part(run in delivered()) {
            let (mut left, mut all, mut parts) = (run, 0_u64, 0);
            while left.arrived != 0 {
                let few = left.take_few();
                prop_assert!(few.flow == run.flow && few.arrived < 1 << 16 && parts < 3);
                let at = few.first.0.wrapping_sub(run.first.0);
                prop_assert_eq!(all & u64::from(few.arrived) << at, 0, "each once");
                all |= u64::from(few.arrived) << at;
                parts += 1;
            }
            prop_assert_eq!(all, u64::from(run.arrived));
        }

        #[test]
        fn a_cell_has_its_own_entropy_value(bits: u16) {
            prop_assert_eq!(CellName::of(EntropyValue(bits)).ev(), EntropyValue(bits));
        }
    }

    #[test]
    fn steps_of_mice_rise_by_a_quarter_of_a_doubling_from_a_cell_to_100_kb() {
        assert_eq!((Mouse::bytes(0), Mouse::bytes(4), Mouse::bytes(8)), (512, 1024, 2048));
        assert!((1..Mouse::STEPS).all(|step| Mouse::bytes(step) > Mouse::bytes(step - 1)));
        assert!(Mouse::bytes(Mouse::STEPS - 1) >= 100_000);
        for bytes in [1, 512, 513, 20_000, 99_999] {
            let step = Mouse::step(bytes);
            assert!(Mouse::bytes(step) >= bytes);
            assert!(step == 0 || Mouse::bytes(step - 1) < bytes);
        }
        assert_eq!(Mouse::step(u32::MAX), Mouse::STEPS - 1);
    }
}
