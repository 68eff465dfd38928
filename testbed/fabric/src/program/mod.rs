//! Switch programs: code that runs in a switch, sees every packet that arrives and every one that
//! departs, and keeps time.
//!
//! A program is one file and one line of the registry below; both drivers have it then. A switch
//! has at most one program, a plain switch has none, and both kinds are joined in one network. A
//! program has access only to its [`Context`], not to the network. It routes and sends packets,
//! holds some, ends some and makes new ones. It reads and edits headers through the driver's
//! frames.
//!
//! The ports of a programmed switch are run together in the order of time. At one instant the
//! departures that are due come first, by port, then arrivals, by the port that each left, then the
//! program's own time. A departure that a call of the program makes possible follows right after
//! that call. What is due follows from state: a program says when its time comes (`poll_at`) and is
//! called at that instant, however late the driver polls.

mod context;
mod run;
mod turns;

pub(crate) use context::Surroundings;
pub use context::{Context, PortView, SendFate};
pub use dci::DciStats;
pub(super) use run::Programmed;

use std::ops::Range;

use transport::registry::{Registered, registry};
use transport::sched::SchedParams;
use transport::{HostId, Instant, Rng};

use run::{RunSpan, SwitchRun};

use super::calendar::Flight;
use super::elements::{Node, PortId, PortSpec, SwitchSpec};
use super::packet::Packet;
use super::qdisc::{QdiscKind, Queued};

/// What a program does with packets and time. Only arrivals have to be handled: by default a
/// program leaves departing packets as they are, has no time of its own, holds nothing, and is no
/// end of packets.
pub trait Program {
    /// Whether `on_departure` is called for packets that leave as soon as the program sends them,
    /// too. Where it is not, such a packet is put on its link at once, without a stay in the agenda
    /// of its switch.
    const HANDLES_ALL_DEPARTURES: bool = true;
    /// `packet` has arrived by a link; `from` is the port of this switch that leads back along it.
    /// The program sends it on, holds it, drops it or consumes it.
    fn on_arrival(&mut self, packet: Packet, from: PortId, now: Instant, cx: &mut Context<'_>);
    /// `packet` starts to be transmitted by `port`. The program may not change its length.
    fn on_departure(&mut self, _: &mut Packet, _port: PortId, _: Instant, _: &mut Context<'_>) {}
    /// When the program has something to do of its own; [`Instant::FAR_FUTURE`] when it has
    /// nothing. Some time after its last packet a program must have nothing more to do, since a
    /// simulation ends when no event is to come. Asked after every other call.
    fn poll_at(&self) -> Instant {
        Instant::FAR_FUTURE
    }
    /// The time of `poll_at` has come. `poll_at` is later afterwards.
    fn on_time(&mut self, _now: Instant, _cx: &mut Context<'_>) {}
    /// The switch crashes: the program loses the packets that it holds, by [`Context::drop_at`],
    /// and its state, as if it began anew. Its counters go on. A program whose state follows from
    /// the packets that are there has nothing to do.
    fn crash(&mut self, _now: Instant, _cx: &mut Context<'_>) {}
    /// Packets that the program holds itself, beside those in the queues of ports; `None` from a
    /// program that never holds any.
    fn held(&self) -> Option<Queued> {
        None
    }
    /// Whether hosts and other programs send packets to [`ProgramSetup::address`] of this switch.
    fn is_end(&self) -> bool {
        false
    }
}

/// The inputs from which a program is built.
#[derive(Clone, Copy, Debug)]
pub struct ProgramSetup<'a> {
    /// The number under which packets are sent to the program, if it is an end of packets.
    pub address: HostId,
    /// The addresses of the other switches that run this program, ascending.
    pub peers: &'a [HostId],
    /// The first port of its switch; the others follow.
    pub first_port: PortId,
    /// The links of its switch, in the order of ports.
    pub links: &'a [LinkSpec],
    /// Every switch of the network.
    pub switches: &'a [SwitchSpec],
    /// The settings of the hosts' schedulers.
    pub sched: &'a SchedParams,
    /// From when until when the program is down, ascending.
    pub outages: &'a [(Instant, Instant)],
    /// A stream of chance of its own.
    pub rng: &'a Rng,
}

impl ProgramSetup<'_> {
    /// The ports of the switch.
    pub(crate) fn ports(&self) -> Range<u32> {
        let count = u32::try_from(self.links.len()).unwrap_or(u32::MAX);
        self.first_port.0..self.first_port.0.saturating_add(count)
    }

    /// For each port of the switch, in their order: whether it leads up, to where none of the hosts
    /// below the switch is.
    pub(crate) fn lead_up(&self) -> impl Iterator<Item = bool> {
        self.links.iter().zip(self.first_port.0..).map(|(link, port)| {
            let Node::Switch(own) = link.port.owner else { return false };
            let spec = self.switches.get(own as usize);
            spec.is_some_and(|spec| spec.up_ports().contains(&port))
        })
    }
}

/// A link of a switch, in both directions.
#[derive(Clone, Copy, Debug)]
pub struct LinkSpec {
    /// The port of the switch.
    pub port: PortSpec,
    /// The port at the far end that leads back.
    pub back: PortSpec,
}

/// The way in which a program is built for its switch.
pub trait SwitchProgram: Registered + Program {
    /// The program in its initial state.
    fn build(settings: &ProgramSettings, setup: &ProgramSetup<'_>) -> Self;
    /// The discipline that the program needs at every port of its switch; `None` where it works
    /// with any that needs no pauses.
    #[must_use]
    fn qdisc() -> Option<QdiscKind> {
        None
    }
    /// Whether its switch may crash and come back: [`Program::crash`] then does all that is needed.
    #[must_use]
    fn begins_anew() -> bool {
        false
    }
    /// Whether its switch ends a control loop of the flows that pass it.
    #[must_use]
    fn ends_loops() -> bool {
        false
    }
}

registry! {
    /// Names the registered programs.
    pub enum ProgramKind;
    /// The program of one switch, stored inline.
    pub enum AnyProgram: Program;
    new: SwitchProgram::build(settings: &ProgramSettings, setup: &ProgramSetup<'_>);
    params {
        /// The settings of every program.
        pub struct ProgramSettings;
    }
    kinds {
        /// The discipline that the program needs at every port of its switch.
        fn qdisc() -> Option<QdiscKind>;
        /// Whether its switch may crash and come back.
        fn begins_anew() -> bool;
        /// Whether its switch ends a control loop of the flows that pass it.
        fn ends_loops() -> bool;
    }
    policies {
        "pfc" => pfc::Pfc,
        "dci" => dci::Dci,
        "pod-scheduler" => pod_scheduler::PodScheduler,
        "pod-core" => pod_core::PodCore,
    }
    unlisted {
        "example" => example::Example,
        "meddler" => meddler::Meddler,
    }
    fn on_arrival(&mut self, packet: Packet, from: PortId, now: Instant, cx: &mut Context<'_>);
    fn on_departure(
        &mut self, packet: &mut Packet, port: PortId, now: Instant, cx: &mut Context<'_>
    );
    fn poll_at(&self) -> Instant;
    fn on_time(&mut self, now: Instant, cx: &mut Context<'_>);
    fn crash(&mut self, now: Instant, cx: &mut Context<'_>);
    fn held(&self) -> Option<Queued>;
    fn is_end(&self) -> bool;
    for RunSpan {
        fn run_span(&mut self, run: SwitchRun<'_>, flights: &[Flight], last: Instant);
    }
}

#[cfg(test)]
mod tests;
