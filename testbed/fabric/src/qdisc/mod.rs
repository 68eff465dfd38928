//! Queue disciplines: how a port treats packets that wait for its link.
//!
//! A discipline is one file and one line of `registry!` below; virtual and real time have it then.
//! Dispatch is by a closed enum, stored inline in the port. Units: bytes. A discipline decides
//! which packet leaves next and from when on it may; the port adds when its link is free.

/// Methods that a discipline passes to the queue that it is built on, one of its fields.
macro_rules! as_its {
    ($queue:ident) => {
        fn service(&self) -> $crate::qdisc::Service {
            self.$queue.service()
        }

        #[inline]
        fn ready_at(&self) -> Instant {
            self.$queue.ready_at()
        }

        fn set_link(&mut self, link: LinkState, now: Instant) {
            self.$queue.set_link(link, now);
        }

        #[inline]
        fn queued(&self) -> Queued {
            self.$queue.queued()
        }

        #[inline]
        fn passes(&mut self, packet: &Packet, now: Instant) -> bool {
            self.$queue.passes(packet, now)
        }
    };
}

mod classes;

pub use classes::{Classes, DataAndControl};
pub use phantom::PhantomParams;

use transport::registry::{Registered, registry};
use transport::{Bytes, Instant, Rate, Rng};

use super::packet::Packet;
use transport::DropReason;
use transport::sched::Ranks;

/// One queue discipline. Which packet leaves, and when, is a function of state and does not depend
/// on when a method is called, so a port that is polled late sends as a punctual one does.
pub trait Qdisc {
    /// Takes `packet` at `now`, or refuses it. Packets that wait already stay, unless the verdict
    /// is [`Verdict::Evicted`]: then `lost`, which is `None` before, is a packet that waited. With
    /// [`Verdict::Cut`] it is the packet that the link was sending. A packet that is queued leaves
    /// unchanged except for its marks, since the port counts what waits.
    fn enqueue(&mut self, packet: Packet, now: Instant, lost: &mut Option<Packet>) -> Verdict;
    /// Takes out the packet whose transmission starts at `now`. There is one whenever
    /// [`Qdisc::ready_at`] is no later than `now`.
    fn dequeue(&mut self, now: Instant, rng: &mut Rng) -> Option<Dequeued>;
    /// When the next departure may start as far as the discipline goes: [`Instant::ZERO`] when the
    /// link is free, [`Instant::FAR_FUTURE`] while nothing that waits may leave. Asked after every
    /// call that changes the discipline; it stays what it is until the next such call.
    fn ready_at(&self) -> Instant;
    /// How the discipline serves its link. Asked once, when the port is made.
    fn service(&self) -> Service {
        Service::default()
    }
    /// The link is in this state from `now` on; called before everything else, and when the state
    /// changes.
    fn set_link(&mut self, link: LinkState, now: Instant);
    /// The packets that wait.
    fn queued(&self) -> Queued;
    /// Lets a packet that meets an empty queue and an idle link leave at once, as it came and
    /// unmarked: the outcome of an enqueue and a dequeue, without touching the queue's memory.
    /// False when the packet is to go through `enqueue` after all; nothing has changed then.
    fn passes(&mut self, _packet: &Packet, _now: Instant) -> bool {
        false
    }
}

/// How a discipline serves its link, the same from its first packet to its last. The more a
/// discipline promises, the less often the port has to ask it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Anything that waits may leave as soon as the link is free, as long as data is not paused:
    /// [`Qdisc::ready_at`] is not asked then.
    pub work_conserving: bool,
    /// While data is not paused, [`Qdisc::passes`] lets every packet through that is no longer than
    /// this, and changes nothing: it is not asked then.
    pub passes: Bytes,
    /// Wire bytes of a cell, where longer packets are trains: cells back to back that go on one by
    /// one, so that the first is at the next switch before the last has left. `None` where every
    /// packet goes on as a whole. Only where `passes` is zero.
    pub cell: Option<Bytes>,
}

/// The fate of a packet given to a discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet waits as it came.
    Queued,
    /// The packet waits without its payload, above data.
    Trimmed,
    /// The packet is lost; nothing of it waits.
    Dropped(DropReason),
    /// The packet waits as it came, and data that waited is lost for it: the data queue was full.
    Evicted,
    /// The packet waits as it came, and the link is free for it at once: what the link was sending
    /// is cut off and lost.
    Cut,
    /// The packet leaves at once, in a gap of the train that the link is sending.
    Slips,
}

/// A packet that leaves its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dequeued {
    /// The packet; CE is set in it when `marked`.
    pub packet: Packet,
    /// Whether this dequeue set CE.
    pub marked: bool,
}

/// The state of the link behind a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// The rate, above zero.
    pub rate: Rate,
    /// Data may not leave.
    pub paused: bool,
}

/// The packets that wait in a discipline: data, and everything that has priority over data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// Bytes of data.
    pub data_bytes: u64,
    /// Packets of data.
    pub data_packets: usize,
    /// Bytes of all other classes.
    pub control_bytes: u64,
    /// Packets of all other classes.
    pub control_packets: usize,
}

impl Queued {
    /// Counts `packet` in.
    pub fn add(&mut self, packet: &Packet) {
        let (bytes, packets) = self.of(packet);
        *bytes += packet.wire_bytes();
        *packets += 1;
    }

    /// Counts `packet` out.
    pub fn remove(&mut self, packet: &Packet) {
        let (bytes, packets) = self.of(packet);
        *bytes -= packet.wire_bytes();
        *packets -= 1;
    }

    const fn of(&mut self, packet: &Packet) -> (&mut u64, &mut usize) {
        if packet.is_data() {
            (&mut self.data_bytes, &mut self.data_packets)
        } else {
            (&mut self.control_bytes, &mut self.control_packets)
        }
    }

    /// Packets of all classes.
    #[must_use]
    pub const fn packets(&self) -> usize {
        self.data_packets + self.control_packets
    }
}

/// The sizes of a port's queue. A discipline ignores those that it does not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QdiscParams {
    /// Most bytes in the data class; 1 BDP in the paper's set-up.
    pub data_limit: Bytes,
    /// Most bytes in the control class.
    pub control_limit: Bytes,
    /// Data bytes up to which nothing is marked.
    pub kmin: Bytes,
    /// Data bytes above which everything is marked; at least `kmin`.
    pub kmax: Bytes,
    /// BDP of the network's longest path; none at a NIC.
    pub path_bdp: Option<Bytes>,
    /// The longest packet of the data class.
    pub packet_max: Bytes,
    /// How long packets are.
    pub sizes: PacketSizes,
}

/// Lengths of packets on the wire that a discipline may count with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSizes {
    /// Data that one probe stands for: a full segment, or several.
    pub probed: Bytes,
    /// A probe.
    pub probe: Bytes,
}

impl QdiscParams {
    /// Kmin and Kmax of the paper as shares of the data buffer.
    //= smartt#III-J
    pub const MARK: (f64, f64) = (0.2, 0.8);
    /// Bytes of a probe on the wire, unless a topology says otherwise.
    //= dcsim#2.3
    pub const PROBE: Bytes = Bytes(64);

    /// Sizes for a buffer of `data_limit`, with as much again for the control class. Thresholds are
    /// at the shares `mark` of it (clamped to 0 ..= 1). They are whole packets of `mtu` bytes,
    /// rounded up, as in the reference simulator.
    #[must_use]
    pub fn for_buffer(data_limit: Bytes, mtu: Bytes, mark: (f64, f64)) -> Self {
        let mtu = mtu.0.max(1);
        let threshold = |share| Bytes(share_of(data_limit.0 / mtu, share).saturating_mul(mtu));
        let (kmin, kmax) = (threshold(mark.0), threshold(mark.1.max(mark.0)));
        let packet_max = Bytes(mtu);
        let sizes = PacketSizes { probed: packet_max, probe: Self::PROBE };
        let control_limit = data_limit;
        Self { data_limit, control_limit, kmin, kmax, path_bdp: None, packet_max, sizes }
    }
}

/// A share of a number of packets, rounded up.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "buffers are below 2^53 packets, and a share is not more than the whole"
)]
fn share_of(packets: u64, share: f64) -> u64 {
    (packets as f64 * share.clamp(0.0, 1.0)).ceil() as u64
}

/// The registration of a discipline, in its file.
pub trait Discipline: Qdisc + Registered {
    /// An empty queue of a port whose link has `rate` when nothing is wrong with it.
    fn build(settings: &QdiscSettings, port: &QdiscParams, rate: Rate) -> Self;
    /// Whether the discipline holds whatever comes, so that its switch has to pause links.
    #[must_use]
    fn needs_pauses() -> bool {
        false
    }
    /// Whether the discipline marks packets by how long its queue is.
    #[must_use]
    fn marks() -> bool {
        true
    }
    /// Whether packets of data leave in the order in which they came. A plan measures the delay of
    /// data behind such a discipline alone.
    #[must_use]
    fn keeps_order() -> bool {
        false
    }
    /// The meaning of the ranks by which the discipline chooses among data, if it does.
    #[must_use]
    fn ranks_by() -> Option<Ranks> {
        None
    }
}

/// The registry, with disciplines that tests alone have and no text chooses.
macro_rules! disciplines { ($($for_tests:tt)*) => { registry! {
    /// The names of the disciplines.
    pub enum QdiscKind;
    /// Any discipline, inline.
    pub enum AnyQdisc: Qdisc;
    new: Discipline::build(settings: &QdiscSettings, port: &QdiscParams, rate: Rate);
    params {
        /// The settings of every discipline.
        pub struct QdiscSettings;
    }
    kinds {
        /// Whether the discipline holds whatever comes, so that its switch has to pause links.
        fn needs_pauses() -> bool;
        /// Whether the discipline marks packets by how long its queue is.
        fn marks() -> bool;
        /// Whether packets of data leave in the order in which they came.
        fn keeps_order() -> bool;
        /// The meaning of the ranks by which the discipline chooses among data, if it does.
        fn ranks_by() -> Option<Ranks>;
    }
    policies {
        "drop-tail" => drop_tail::DropTail,
        "ecn" => ecn::Ecn,
        "trim" => trim::Trim,
        "lossless" => lossless::Lossless,
        "phantom" => phantom::PhantomEcn,
        "phantom-trim" => phantom_trim::PhantomTrim,
        "dcsim" => dcsim::DcSim,
        "bufferless" => bufferless::Bufferless,
        "pfabric" => pfabric::Pfabric,
    }
    unlisted { $($for_tests)* }
    fn enqueue(&mut self, packet: Packet, now: Instant, lost: &mut Option<Packet>) -> Verdict;
    fn dequeue(&mut self, now: Instant, rng: &mut Rng) -> Option<Dequeued>;
    fn ready_at(&self) -> Instant;
    fn service(&self) -> Service;
    fn set_link(&mut self, link: LinkState, now: Instant);
    fn queued(&self) -> Queued;
    fn passes(&mut self, packet: &Packet, now: Instant) -> bool;
} } }

#[cfg(not(test))]
disciplines! {}
#[cfg(test)]
disciplines! { "paced" => paced::Paced }

#[cfg(test)]
mod tests;
