//! Scheduling: which flow of a host sends next. One file a scheduler, one line in the registry.
//!
//! A scheduler has three roles, each a trait of [`roles`]. The endpoint calls them alike for every
//! scheduler:
//!
//! ```text
//!  Sending                                       Receiving
//!  on_open, on_backlog a flow, its backlog       on_arrival          a segment, whole or trimmed
//!  on_reopened         a flow that begins again  on_forgotten        a flow that is over
//!  next_turn, on_sent  its turn, its segment     ack_mode            how they are acknowledged
//!  holds               a flow kept from sending  rto_min             a segment's least timeout
//!  send_ahead          how early a device takes  next_granted        the ACK that may leave
//!                      packets                   may_acknowledge     whether an ACK may leave
//!                       \                        sends_at_its_times  none before a timeout
//!                        \                       /
//!                         Protocol: packets of its own, for flows and for hosts
//!                         on_control, on_host_control, poll_control
//!                         next_reported: segments that these packets acknowledge
//!                         poll_timeout, handle_timeout, next_given_up
//! ```
//!
//! Systems that decide *when* a segment may leave (SIM before DATA, slot grants, credits) are
//! schedulers: they keep a flow out of [`Sending::next_turn`] until it may send.

mod asking;
mod least;
mod place_queue;
pub mod roles;
mod tokens;

pub use roles::{
    AckMode, Arrival, Backlog, Choice, Granted, Label, Protocol, Receiving, Reported, Scheduler,
    Sending, Turn,
};
pub use zeropod::Slots;

use crate::path::Path;
use crate::registry::{Registered, registry};
use crate::rng::Rng;
use crate::segment::{Burst, TxSegment};
use crate::stats::DropReason;
use crate::time::{Duration, Instant, Rate};
use crate::units::{Bytes, EntropyValue, FlowId, HostId};
use crate::wire::{Header, Note, WireSizes};

/// The inputs from which a scheduler is built.
#[derive(Clone, Debug)]
pub struct SchedSetup<'a> {
    /// Parameters of all schedulers.
    pub params: &'a SchedParams,
    /// The host whose endpoint has the scheduler.
    pub host: HostId,
    /// Slab indices of outgoing flows are below this.
    pub tx_flows_max: u32,
    /// Slab indices of incoming flows are below this.
    pub rx_flows_max: u32,
    /// Rate of the host's link.
    pub line_rate: Rate,
    /// Base RTT of a path without one of its own.
    pub base_rtt: Duration,
    /// Wire bytes of a full segment.
    pub mtu: Bytes,
    /// Sizes of packets as they count on the wire.
    pub wire_sizes: WireSizes,
    /// Silence after which a packet is lost, without back-off.
    pub rto: Duration,
    /// The timeout doubles at most this often.
    pub backoff_max: u8,
    /// Timeouts in a row after which a flow is given up.
    pub retries_max: u8,
    /// Silence that a flow survives however many timeouts it has.
    pub give_up: Duration,
    /// The number of paths that control packets take in turn; at least one.
    pub control_evs: [EntropyValue; 8],
    /// The scheduler's own chance.
    pub rng: Rng,
    /// The endpoint's secret, zero where there is none: keys are made from it that no other host
    /// can guess.
    pub secret: [u64; 2],
}

impl SchedSetup<'_> {
    /// The silence after which a flow is given up, where its packets count as lost after `timeout`.
    fn patience(&self, timeout: Duration) -> Duration {
        let timeouts = (0..=self.retries_max).map(|n| 1_u64 << n.min(self.backoff_max));
        (timeout * timeouts.sum::<u64>()).max(self.give_up)
    }
}

/// The meaning of ranks of data, where ports look at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// What its flow has left to send, as its header says.
    Left,
    /// Whether its slot was granted, as the name of the cell says: a cell without a grant has the
    /// last rank.
    Granted,
}

/// Facts of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedFacts {
    /// Hosts need a network that works with the scheduler; a link between two hosts is not enough.
    pub needs_network: bool,
    /// Flows take turns, and nothing else: the scheduler has no packets of its own, and an arrival
    /// for one flow lets no other flow send.
    pub only_takes_turns: bool,
    /// Data departs in slots, on ways that hosts name.
    pub departs_in_slots: bool,
    /// What other hosts still have of a host that begins anew, so that flows to it may not end, as
    /// a clause about the transport; `None` where they have nothing.
    pub left_by_restarts: Option<&'static str>,
}

impl SchedFacts {
    /// The facts of most schedulers.
    pub const DEFAULT: Self = Self {
        needs_network: false,
        only_takes_turns: false,
        departs_in_slots: false,
        left_by_restarts: None,
    };
}

/// The registration of a scheduler, in its file.
pub trait Scheduling: Scheduler + Registered {
    /// The scheduler of an endpoint, without flows.
    fn build(setup: &SchedSetup<'_>) -> Self;
    /// Octets that the scheduler adds to every DATA header of its flows.
    #[must_use]
    fn data_overhead() -> u16 {
        0
    }
    /// Facts for plans, drivers and results.
    #[must_use]
    fn facts() -> SchedFacts {
        SchedFacts::DEFAULT
    }
    /// Whether flows are served by the priority of their [`Label`]. A priority that no scheduler
    /// serves is refused, so this has no default.
    #[must_use]
    fn serves_prio() -> bool;
    /// How data departs in slots; `None` where it departs in none.
    #[must_use]
    fn slots(_params: &SchedParams) -> Option<Slots> {
        None
    }
    /// Packets without data that so many segments cause, where a flow without a scheduler sends
    /// `acks` acknowledgements for them; an estimate.
    #[must_use]
    fn control_packets(_params: &SchedParams, _segments: u64, acks: u64) -> u64 {
        acks
    }
    /// The value in the headers of data by which ports can rank the data; `None` where headers have
    /// none.
    #[must_use]
    fn ranks() -> Option<Ranks> {
        None
    }
}

/// The roles beside [`Sending`] of a scheduler that looks at no incoming flow and has neither
/// packets nor timers of its own.
macro_rules! only_sends {
    ($scheduler:ty) => {
        impl Receiving for $scheduler {
            fn on_arrival(&mut self, _: FlowId, _: &$crate::sched::Arrival<'_>, _: Instant) {}

            fn on_forgotten(&mut self, _: FlowId) {}
        }

        impl Protocol for $scheduler {
            fn on_control(
                &mut self,
                _: FlowId,
                _: HostId,
                _: &$crate::wire::Header,
                _: Instant,
            ) -> bool {
                false
            }

            fn poll_control(
                &mut self,
                _: Instant,
                _: Instant,
                _: &mut $crate::segment::Burst<TxSegment>,
            ) {
            }

            fn poll_timeout(&self) -> Option<Instant> {
                None
            }

            fn handle_timeout(&mut self, _: Instant) {}

            fn next_given_up(&mut self) -> Option<FlowId> {
                None
            }
        }
    };
}

registry! {
    /// Names the registered schedulers.
    pub enum SchedKind;
    /// The scheduler of one endpoint, stored inline.
    pub enum Sched: Sending;
    new: Scheduling::build(setup: &SchedSetup<'_>);
    params {
        /// The settings of every scheduler, `sched.<name>.<key>`; an endpoint reads those of its
        /// scheduler.
        pub struct SchedParams;
    }
    kinds {
        /// Octets that this scheduler adds to every DATA header of its flows.
        fn data_overhead() -> u16;
        /// Facts for plans, drivers and results.
        fn facts() -> SchedFacts;
        /// Whether flows are served by the priority of their [`Label`].
        fn serves_prio() -> bool;
        /// How data departs in slots; `None` where it departs in none.
        fn slots(params: &SchedParams) -> Option<Slots>;
        /// Packets without data that so many segments cause, where a flow without a scheduler sends
        /// `acks` acknowledgements for them; an estimate.
        fn control_packets(params: &SchedParams, segments: u64, acks: u64) -> u64;
        /// The value in the headers of data by which ports can rank the data; `None` where headers
        /// have none.
        fn ranks() -> Option<Ranks>;
    }
    policies {
        "round-robin" => round_robin::RoundRobin,
        "credit" => credit::Credits,
        "dcsim" => dcsim::DcSim,
        "zeropod" => zeropod::Zeropod,
        "phost" => phost::Phost,
        "dcpim" => dcpim::DcPim,
        "pfabric" => pfabric::Pfabric,
    }
    fn on_open(&mut self, flow: FlowId, peer: HostId, path: &Path, label: Label);
    fn on_reopened(&mut self, flow: FlowId);
    fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, now: Instant);
    fn next_turn(&mut self, now: Instant, until: Instant) -> Option<Turn>;
    fn on_sent(
        &mut self,
        flow: FlowId,
        segment: &mut TxSegment,
        backlog: impl FnOnce() -> Backlog,
        now: Instant
    );
    fn holds(&self, flow: FlowId) -> bool;
    fn send_ahead(&mut self, horizon: Duration);
    for Receiving {
        fn on_arrival(&mut self, flow: FlowId, arrival: &Arrival<'_>, now: Instant);
        fn on_forgotten(&mut self, flow: FlowId);
        fn ack_mode(&self) -> AckMode;
        fn rto_min(&self) -> Duration;
        fn next_granted(&mut self, now: Instant, until: Instant) -> Option<Granted>;
        fn may_acknowledge(&mut self, len: u16, now: Instant) -> bool;
        fn sends_at_its_times(&self) -> bool;
    }
    for Protocol {
        fn on_control(&mut self, flow: FlowId, from: HostId, hdr: &Header, now: Instant) -> bool;
        fn on_host_control(
            &mut self,
            from: HostId,
            hdr: &Header,
            note: &Note,
            at: Instant
        ) -> Result<(), DropReason>;
        fn next_reported(&mut self) -> Option<Reported>;
        fn poll_control(&mut self, now: Instant, until: Instant, out: &mut Burst<TxSegment>);
        fn poll_timeout(&self) -> Option<Instant>;
        fn handle_timeout(&mut self, now: Instant);
        fn next_given_up(&mut self) -> Option<FlowId>;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ranks_by_grants_departs_in_slots_and_packets_for_slots_are_made_some_time_before() {
        for kind in SchedKind::ALL {
            let slots = kind.facts().departs_in_slots;
            assert!(slots || kind.ranks() != Some(Ranks::Granted), "{kind:?}");
            assert_eq!(kind.slots(&SchedParams::default()).is_some(), slots, "{kind:?}");
        }
    }
}
