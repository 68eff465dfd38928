//! The traffic of a run: which flows, when they start, what starts them, which links are dead.
//!
//! A [`Matrix`] is plain data in the shape of a `.cm` file (see `cm.rs`). It is kept compact, 64
//! bytes a flow, since matrices of 10^7 flows are read. Whether its parts fit together is checked
//! by `check.rs`.

use std::num::NonZeroU32;

use transport::sched::Label;
use transport::{Bytes, Duration, HostId};

/// The priority of a flow that names none: the least urgent the field's tools use.
pub const PRIO_DEFAULT: u32 = Label::PRIO_NONE;

/// The most hosts a matrix may name.
pub const HOSTS_MAX: u32 = 1 << 24;

/// The most flows a matrix may hold: 6.4 GB of them.
pub const FLOWS_MAX: u32 = 100_000_000;

/// The most bytes of a flow, so that none outlasts the clock: 2^63 take 213 days at 4 Tb/s.
pub const FLOW_BYTES_MAX: u64 = i64::MAX as u64;

/// The most triggers, and the most failures, a matrix may hold.
pub const TRIGGERS_MAX: u32 = FLOWS_MAX;

/// A traffic matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    /// Number of hosts, `1..=HOSTS_MAX`.
    pub nodes: u32,
    /// The flows in file order, at most [`FLOWS_MAX`]; a [`FlowIndex`] counts along them.
    pub flows: Vec<FlowSpec>,
    /// The triggers in file order; a [`TriggerIndex`] counts along them.
    pub triggers: Vec<Trigger>,
    /// Links that are down for the whole run.
    pub failures: Vec<LinkFailure>,
    /// The longest message that carries part of a flow, bytes; [`MESSAGE_MAX`] when `None`. No part
    /// of a `.cm` file.
    pub message: Option<NonZeroU32>,
}

/// The longest message that is posted; longer flows take several.
pub const MESSAGE_MAX: u32 = 1 << 30;

/// One connection line: a flow, or a message on a flow that exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// The size of the flow, `1..=`[`FLOW_BYTES_MAX`] bytes.
    pub size: Bytes,
    /// When the flow starts.
    pub start: Start,
    /// The sender, below `nodes`.
    pub src: HostId,
    /// The receiver, below `nodes` and not the sender.
    pub dst: HostId,
    /// The name in the file. Unique, but for the messages of one connection, which share it.
    pub id: Option<NonZeroU32>,
    /// Lower is more urgent, for schemes that use it.
    pub prio: u32,
    /// Flows of one number are one collective; 0 is none.
    pub collective: u32,
    /// Poked when the sender has everything acknowledged.
    pub send_done: Option<TriggerIndex>,
    /// Poked when the receiver has everything.
    pub recv_done: Option<TriggerIndex>,
    /// Whether this opens a flow or is a message on one.
    pub message: LineMeaning,
}

const _: () = assert!(size_of::<FlowSpec>() == 64);

/// When a flow starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The flow starts this long after the run's beginning.
    At(Duration),
    /// The flow starts when this trigger fires for it.
    On(TriggerIndex),
}

/// The meaning of a connection line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineMeaning {
    /// A flow of its own.
    Flow,
    /// The next message on the connection with the same source, destination and id. The first such
    /// line opens the connection if no other does.
    Next,
    /// The next message on the connection, with a number that is unique there.
    Numbered(NonZeroU32),
}

/// A place in [`Matrix::flows`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowIndex(pub u32);

/// A place in [`Matrix::triggers`], kept plus one so that an `Option` costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TriggerIndex(NonZeroU32);

/// Starts flows when poked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// The name in the file, unique among triggers.
    pub id: NonZeroU32,
    /// When the trigger fires.
    pub kind: TriggerKind,
    /// The time from the trigger to the start of its flows, for example a host's computation.
    pub delay: Duration,
}

/// When a trigger fires, and for which of the flows that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerKind {
    /// All flows at the first poke.
    Oneshot,
    /// The n-th flow, in file order, at the n-th poke.
    Multishot,
    /// All flows at this poke, counted from 1.
    Barrier(NonZeroU32),
}

/// A link that is down for the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFailure {
    /// Tier of the switch.
    pub tier: SwitchTier,
    /// Number of the switch in its tier, from 0 across the whole network.
    pub switch: u32,
    /// Number of the uplink at that switch, from 0; at a switch without links up, number of the
    /// downlink.
    pub link: u32,
}

/// The tier a switch stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SwitchTier {
    /// Top of rack: hosts below it.
    Tor,
    /// Aggregation; the top tier of a two-tier tree.
    Agg,
    /// Core, in three tiers only.
    Core,
    /// The switch of a site that has the links to the other one.
    Border,
}

impl Matrix {
    /// All bytes that are to be delivered; saturates.
    #[must_use]
    pub fn total_bytes(&self) -> Bytes {
        let total = self.flows.iter().fold(0u64, |sum, flow| sum.saturating_add(flow.size.0));
        Bytes(total)
    }

    /// How long after its trigger a flow starts; zero for one that starts by time.
    #[must_use]
    pub fn delay_of(&self, flow: FlowIndex) -> Duration {
        let trigger = self.flows[flow.index()].waits_for();
        let trigger = trigger.and_then(|trigger| self.triggers.get(trigger.index()));
        trigger.map_or(Duration::ZERO, |trigger| trigger.delay)
    }

    /// The longest message that carries part of a flow, bytes.
    #[must_use]
    pub fn message_max(&self) -> u32 {
        self.message.map_or(MESSAGE_MAX, NonZeroU32::get)
    }

    /// How many messages carry a flow of that size.
    #[must_use]
    pub fn messages(&self, size: Bytes) -> u64 {
        size.0.div_ceil(u64::from(self.message_max()))
    }

    /// The places of all triggers, in file order.
    pub fn trigger_indices(&self) -> impl Iterator<Item = TriggerIndex> + use<> {
        (0..self.triggers.len()).map_while(TriggerIndex::new)
    }

    /// Appends a trigger without delay, named by its place; `None` when there are [`TRIGGERS_MAX`]
    /// already.
    pub fn push_trigger(&mut self, kind: TriggerKind) -> Option<TriggerIndex> {
        self.push_delayed_trigger(kind, Duration::ZERO)
    }

    /// [`Matrix::push_trigger`] with a delay.
    pub fn push_delayed_trigger(
        &mut self,
        kind: TriggerKind,
        delay: Duration,
    ) -> Option<TriggerIndex> {
        let index = TriggerIndex::new(self.triggers.len())?;
        if index.0.get() > TRIGGERS_MAX {
            return None;
        }
        self.triggers.push(Trigger { id: index.0, kind, delay });
        Some(index)
    }

    /// Appends a flow named by its place, counted from 1; `None` when there are [`FLOWS_MAX`]
    /// already.
    pub fn push_flow(&mut self, flow: FlowSpec) -> Option<FlowIndex> {
        let index = u32::try_from(self.flows.len()).ok().filter(|&index| index < FLOWS_MAX)?;
        self.flows.push(FlowSpec { id: NonZeroU32::new(index + 1), ..flow });
        Some(FlowIndex(index))
    }
}

impl FlowSpec {
    /// The flow's label for the scheduler of its sender.
    #[must_use]
    pub const fn label(&self) -> Label {
        Label { collective: self.collective, prio: self.prio }
    }

    /// A flow that starts at time zero, with no name and no trigger.
    #[must_use]
    pub const fn new(src: HostId, dst: HostId, size: Bytes) -> Self {
        Self {
            size,
            start: Start::At(Duration::ZERO),
            src,
            dst,
            id: None,
            prio: PRIO_DEFAULT,
            collective: 0,
            send_done: None,
            recv_done: None,
            message: LineMeaning::Flow,
        }
    }

    /// The trigger this flow waits for, if any.
    #[must_use]
    pub const fn waits_for(&self) -> Option<TriggerIndex> {
        match self.start {
            Start::At(_) => None,
            Start::On(trigger) => Some(trigger),
        }
    }

    /// The triggers this flow pokes: at most two, the sender's first.
    pub fn pokes(&self) -> impl Iterator<Item = TriggerIndex> + use<> {
        self.send_done.into_iter().chain(self.recv_done)
    }
}

impl FlowIndex {
    /// The place as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl TriggerIndex {
    /// The trigger at `index`; `None` beyond 2^32 - 2.
    #[must_use]
    pub fn new(index: usize) -> Option<Self> {
        let index = u32::try_from(index).ok()?;
        NonZeroU32::new(index.wrapping_add(1)).map(Self)
    }

    /// The place as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// Holds a trigger's name until its place is found; read back by [`TriggerIndex::name`].
    pub(super) const fn unresolved(name: NonZeroU32) -> Self {
        Self(name)
    }

    /// The name that [`TriggerIndex::unresolved`] holds.
    pub(super) const fn name(self) -> NonZeroU32 {
        self.0
    }
}

impl TriggerKind {
    /// The word in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Oneshot => "oneshot",
            Self::Multishot => "multishot",
            Self::Barrier(_) => "barrier",
        }
    }

    /// How many of `waiting` flows have started after `pokes` pokes.
    #[must_use]
    pub const fn started(self, waiting: u32, pokes: u32) -> u32 {
        match self {
            Self::Oneshot if pokes > 0 => waiting,
            Self::Barrier(count) if pokes >= count.get() => waiting,
            Self::Multishot if pokes < waiting => pokes,
            Self::Multishot => waiting,
            Self::Oneshot | Self::Barrier(_) => 0,
        }
    }
}

impl SwitchTier {
    /// The word in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tor => "TOR",
            Self::Agg => "AGG",
            Self::Core => "CORE",
            Self::Border => "BORDER",
        }
    }

    /// The word in the names of links and switches.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tor => "tor",
            Self::Agg => "agg",
            Self::Core => "core",
            Self::Border => "border",
        }
    }
}
