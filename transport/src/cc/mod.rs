//! Congestion control: how much may be in flight. One file a controller, one line in the registry.
//!
//! A controller is a pure state machine: it takes samples of what happened and gives a [`Window`],
//! which the flow caches. It has no access to an endpoint, a socket or a clock.

mod bounds;
mod global_t;

pub use crate::path::Path;
pub use mlcc::note as mlcc_note;
pub use mlcc::{Law as MlccLaw, Signal as MlccSignal};

use crate::rc::RcKind;
use crate::registry::{Registered, registry};
use crate::time::{Duration, Instant, Rate};
use crate::units::Bytes;
use crate::wire::{ExtRefusal, Extensions, Note};

/// The limits that a controller sets for its flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Wire bytes that may be in flight. At least one packet.
    pub cwnd: Bytes,
    /// Spread segments at this rate instead of sending as fast as the window allows.
    pub pacing: Option<Rate>,
    /// Call [`CongestionControl::on_wake`] at this instant. In a flow without messages it is called
    /// when the first is posted, if the instant has passed.
    pub wake_at: Option<Instant>,
}

/// One acknowledgement, as a controller sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckSample {
    /// When the acknowledgement arrived.
    pub now: Instant,
    /// Round-trip time of the segment that caused the acknowledgement, without `held`.
    pub rtt: Duration,
    /// How long the receiver held the acknowledgement: the delay of the far end, which `rtt` leaves
    /// out.
    pub held: Duration,
    /// Wire bytes that are newly acknowledged; 0 when earlier acknowledgements covered all of it.
    pub acked: Bytes,
    /// Wire bytes in flight after the acknowledgement was taken into account.
    pub in_flight: Bytes,
    /// Whether the segment that caused the acknowledgement arrived with CE.
    pub ecn: bool,
    /// Flows that shared the receiver when it was sent; 0 where the receiver does not report it.
    pub sharers: u16,
}

impl AckSample {
    /// When the segment that caused the acknowledgement left, by the sender's clock.
    #[must_use]
    pub const fn sent_at(&self) -> Instant {
        let ago = self.rtt.as_ps().saturating_add(self.held.as_ps());
        Instant::from_ps(self.now.as_ps().saturating_sub(ago))
    }
}

/// Wire bytes that did not arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LossSample {
    /// When the loss was detected.
    pub now: Instant,
    /// When the lost segment last left: a controller that has reacted since then need not react
    /// again.
    pub sent_at: Instant,
    /// Wire bytes lost.
    pub bytes: Bytes,
    /// Wire bytes in flight after the lost ones were taken out.
    pub in_flight: Bytes,
    /// Flows that shared the receiver when the loss was reported; 0 where the receiver does not
    /// report it.
    pub sharers: u16,
    /// How the loss was inferred; `None` when a switch trimmed the segment.
    pub by: Option<Inference>,
}

/// How a loss became known that no switch reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inference {
    /// Segments sent well after this one were acknowledged.
    LaterAck,
    /// No answer to the segment arrived within a timeout.
    Silence,
    /// The receiver asked for packets of a coded block: for this one, or for others whose loss
    /// shows that the path of this one is dead.
    Block,
}

/// The behaviour of a controller. A switch reports a loss by a trimmed segment, or the loss is
/// inferred in one of the ways of [`Inference`]. Some say more about congestion than others.
pub trait CongestionControl {
    /// The limits that the flow has to obey now. Cheap: called after every event.
    fn window(&self) -> Window;
    /// A segment was acknowledged.
    fn on_ack(&mut self, ack: &AckSample, path: &Path);
    /// A segment was trimmed: a queue on the path was full.
    fn on_nack(&mut self, loss: &LossSample, path: &Path);
    /// A segment was inferred lost; `loss.by` says how.
    fn on_timeout(&mut self, loss: &LossSample, path: &Path);
    /// Called at the instant that [`Window::wake_at`] asked for.
    fn on_wake(&mut self, _now: Instant, _path: &Path) {}
    /// A segment was acknowledged, by a packet that has extensions: telemetry that switches wrote
    /// into the segment, a report of the controller's half at the receiver. A peer of another
    /// version may send reports of other halves: see [`Advice::half`](crate::wire::advice::Advice).
    /// Returns what of the extensions is refused; the acknowledgement counts all the same.
    fn on_ack_with(
        &mut self,
        ack: &AckSample,
        _extensions: Extensions<'_>,
        path: &Path,
    ) -> Option<ExtRefusal> {
        self.on_ack(ack, path);
        None
    }
    /// A note for this flow's controller arrived from the flow's peer. Returns what of it is
    /// refused.
    fn on_note(
        &mut self,
        _note: &Note,
        _extensions: Extensions<'_>,
        _now: Instant,
        _path: &Path,
    ) -> Result<(), ExtRefusal> {
        Err(ExtRefusal::Note)
    }
}

/// The registration of a controller, in its file.
pub trait Controller: CongestionControl + Registered {
    /// The controller of a new flow over `path`. `params` has the settings of all controllers,
    /// because a controller that contains other controllers reads the settings of those, too.
    fn build(params: &CcParams, path: &Path) -> Self;
    /// The largest window that the controller asks for, in BDPs of its path; one packet where that
    /// is more.
    fn window_max(params: &CcParams) -> f32;
    /// The controller's half at receivers, if it has one.
    fn half(_params: &CcParams) -> Option<RcKind> {
        None
    }
    /// Whether the controller reads the telemetry that switches write into packets; packets of its
    /// flows then have room for telemetry.
    fn reads_int(_params: &CcParams) -> bool {
        false
    }
    /// Whether flows that leave their site follow the border switches on their way, however near
    /// the sites are.
    fn follows_borders() -> bool {
        false
    }
}

/// Methods that a controller passes to the paced rate behind one of its fields.
macro_rules! as_paced {
    ($($field:ident).+) => {
        #[inline]
        fn window(&self) -> Window {
            self.$($field).+.window()
        }

        fn on_nack(&mut self, loss: &LossSample, path: &Path) {
            self.$($field).+.on_loss(loss, path);
        }

        fn on_timeout(&mut self, loss: &LossSample, path: &Path) {
            self.$($field).+.on_loss(loss, path);
        }
    };
}

registry! {
    /// Names the registered controllers.
    pub enum CcKind;
    /// One flow's controller, stored inline in the flow.
    pub enum Cc: CongestionControl;
    new: Controller::build(params: &CcParams, path: &Path);
    params {
        /// The settings of every controller, `cc.<name>.<key>`; a flow reads those of its
        /// controller.
        pub struct CcParams;
    }
    kinds {
        /// The largest window that a controller of this kind asks for, in BDPs of its path; one
        /// packet where that is more.
        fn window_max(params: &CcParams) -> f32;
        /// The half that a controller of this kind has at receivers.
        fn half(params: &CcParams) -> Option<RcKind>;
        /// Whether a controller of this kind reads what switches write into packets.
        fn reads_int(params: &CcParams) -> bool;
        /// Whether flows that leave their site follow the border switches on their way, however
        /// near the sites are.
        fn follows_borders() -> bool;
    }
    policies {
        "smartt" => smartt::Smartt,
        "swift" => swift::Swift,
        "mprdma" => mprdma::Mprdma,
        "dctcp" => dctcp::Dctcp,
        "dcqcn" => dcqcn::Dcqcn,
        "unocc" => unocc::UnoCc,
        "gemini" => gemini::Gemini,
        "bbr" => bbr::Bbr,
        "mprdma-bbr" => mprdma_bbr::MprdmaBbr,
        "hpcc" => hpcc::Hpcc,
        "powertcp" => powertcp::PowerTcp,
        "theta-powertcp" => theta_powertcp::ThetaPowerTcp,
        "timely" => timely::Timely,
        "mlcc" => mlcc::Mlcc,
        "pfabric" => pfabric::Pfabric,
        "fixed" => fixed::Fixed,
    }
    unlisted {
        "custom" => custom::Custom,
    }
    fn window(&self) -> Window;
    fn on_ack(&mut self, ack: &AckSample, path: &Path);
    fn on_ack_with(
        &mut self, ack: &AckSample, extensions: Extensions<'_>, path: &Path
    ) -> Option<ExtRefusal>;
    fn on_nack(&mut self, loss: &LossSample, path: &Path);
    fn on_timeout(&mut self, loss: &LossSample, path: &Path);
    fn on_wake(&mut self, now: Instant, path: &Path);
    fn on_note(
        &mut self, note: &Note, extensions: Extensions<'_>, now: Instant, path: &Path
    ) -> Result<(), ExtRefusal>;
}
