//! Queue disciplines: what a port does with packets that wait for its link.
//!
//! A discipline is one file and one line of `registry!` below; both drivers have it then. Dispatch
//! is by a closed enum, stored inline in the port. Units: bytes. A discipline decides about
//! packets and never about time: when a departure starts is the port's business.

/// What a discipline leaves to the queue that it is built on, a field of it.
macro_rules! as_its {
    ($queue:ident) => {
        #[inline]
        fn dequeue_control(&mut self, now: Instant) -> Option<Departure> {
            self.$queue.dequeue_control(now)
        }

        #[inline]
        fn backlog(&self) -> Backlog {
            self.$queue.backlog()
        }

        #[inline]
        fn pass(&mut self, packet: Packet, now: Instant) -> Result<Departure, Packet> {
            self.$queue.pass(packet, now)
        }
    };
}

mod drop_tail;
mod ecn;
mod lossless;
mod phantom;
mod prio;
mod trim;

pub use drop_tail::DropTail;
pub use ecn::Ecn;
pub use lossless::Lossless;
pub use phantom::{PhantomEcn, PhantomParams, PhantomShares, PhantomTrim};
pub use prio::TwoClass;
pub use trim::Trim;

use transport::{Bytes, Instant, Rng};

use super::packet::Packet;
use transport::DropReason;

/// One queue discipline.
pub trait Qdisc {
    /// Takes `packet` at `now`, or refuses it.
    fn enqueue(&mut self, packet: Packet, now: Instant, rng: &mut Rng) -> Verdict;
    /// Gives up the packet whose transmission starts at `now`; `None` when nothing waits.
    fn dequeue(&mut self, now: Instant, rng: &mut Rng) -> Option<Departure>;
    /// [`Qdisc::dequeue`] of the control class alone, for a link whose data class is paused.
    fn dequeue_control(&mut self, now: Instant) -> Option<Departure>;
    /// What waits.
    fn backlog(&self) -> Backlog;
    /// An enqueue and a dequeue at once, for a packet that meets an empty queue and an idle link:
    /// the same outcome, without touching the queue's memory. `Err` when the packet is to go
    /// through `enqueue` after all.
    ///
    /// # Errors
    /// The packet back, untouched.
    fn pass(&mut self, packet: Packet, now: Instant) -> Result<Departure, Packet>;
}

/// What became of a packet given to a discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It waits as it came.
    Queued,
    /// It waits in the control class, without its payload.
    Trimmed,
    /// It is lost; nothing of it waits.
    Dropped(DropReason),
}

/// A packet that leaves its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The packet; CE is set in it when `marked`.
    pub packet: Packet,
    /// Whether this dequeue set CE.
    pub marked: bool,
    /// Data bytes that still wait behind it.
    pub data_left: u64,
    /// When its transmission starts: the instant given to `dequeue`.
    pub start: Instant,
}

/// What waits in a discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Bytes in the data class.
    pub data_bytes: u64,
    /// Bytes in the control class.
    pub control_bytes: u64,
    /// Packets in both.
    pub packets: usize,
}

/// The sizes of a discipline. What one does not use it ignores.
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
    /// The phantom queue beside it.
    pub phantom: PhantomParams,
    /// When a lossless switch pauses.
    pub pause: PauseParams,
}

/// When a lossless switch pauses what comes by a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseParams {
    /// The longest packet of the data class.
    pub packet_max: Bytes,
    /// Bytes of one link above which it is paused; what the buffer leaves for it when `None`.
    pub xoff: Option<Bytes>,
    /// Bytes of one link at which it goes on, at most `xoff`; two packets less when `None`.
    pub xon: Option<Bytes>,
}

impl QdiscParams {
    /// Kmin and Kmax of the paper as shares of the data buffer.
    //= smartt#III-J
    pub const MARK: (f64, f64) = (0.2, 0.8);

    /// Sizes for a buffer of `data_limit`, with as much again for the control class and thresholds
    /// at the shares `mark` of it (clamped to 0 ..= 1): whole packets of `mtu` bytes, rounded up,
    /// as the reference simulator has them.
    #[must_use]
    pub fn for_buffer(data_limit: Bytes, mtu: Bytes, mark: (f64, f64)) -> Self {
        let mtu = mtu.0.max(1);
        let threshold = |share| Bytes(share_of(data_limit.0 / mtu, share).saturating_mul(mtu));
        let (kmin, kmax) = (threshold(mark.0), threshold(mark.1.max(mark.0)));
        let pause = PauseParams { packet_max: Bytes(mtu), xoff: None, xon: None };
        let phantom = PhantomParams::NONE;
        Self { data_limit, control_limit: data_limit, kmin, kmax, phantom, pause }
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

macro_rules! registry {
    ($($(#[doc = $doc:literal])+ $name:literal => $variant:ident),+ $(,)?) => {
        /// The names of the disciplines.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum QdiscKind {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl QdiscKind {
            /// Every kind, in the order of `NAMES`.
            pub const ALL: &[Self] = &[$(Self::$variant),+];
            /// What `by_name` accepts.
            pub const NAMES: &[&str] = &[$($name),+];

            /// The kind called `name`.
            #[must_use]
            pub fn by_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// The name of this kind.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// An empty queue of this kind.
            #[must_use]
            pub fn build(self, params: &QdiscParams) -> AnyQdisc {
                match self { $(Self::$variant => AnyQdisc::$variant($variant::new(params)),)+ }
            }
        }

        /// Any discipline, inline.
        #[derive(Clone, Debug)]
        pub enum AnyQdisc {
            $($(#[doc = $doc])+ $variant($variant),)+
        }

        impl Qdisc for AnyQdisc {
            #[inline]
            fn enqueue(&mut self, packet: Packet, now: Instant, rng: &mut Rng) -> Verdict {
                match self { $(Self::$variant(qdisc) => qdisc.enqueue(packet, now, rng),)+ }
            }

            #[inline]
            fn dequeue(&mut self, now: Instant, rng: &mut Rng) -> Option<Departure> {
                match self { $(Self::$variant(qdisc) => qdisc.dequeue(now, rng),)+ }
            }

            #[inline]
            fn dequeue_control(&mut self, now: Instant) -> Option<Departure> {
                match self { $(Self::$variant(qdisc) => qdisc.dequeue_control(now),)+ }
            }

            #[inline]
            fn backlog(&self) -> Backlog {
                match self { $(Self::$variant(qdisc) => qdisc.backlog(),)+ }
            }

            #[inline]
            fn pass(&mut self, packet: Packet, now: Instant) -> Result<Departure, Packet> {
                match self { $(Self::$variant(qdisc) => qdisc.pass(packet, now),)+ }
            }
        }
    };
}

registry! {
    /// Two classes, no marks; a packet that does not fit is dropped.
    "drop-tail" => DropTail,
    /// Drop-tail with RED marks at dequeue.
    "ecn" => Ecn,
    /// RED marks at dequeue, and a data packet that does not fit keeps its headers.
    "trim" => Trim,
    /// RED marks at dequeue; links that send too much are paused (PFC), so that data never drops.
    "lossless" => Lossless,
    /// As ecn, and a phantom queue marks what its slower drain would hold up.
    "phantom" => PhantomEcn,
    /// As trim, and a phantom queue marks what its slower drain would hold up.
    "phantom-trim" => PhantomTrim,
}

#[cfg(test)]
mod tests;
