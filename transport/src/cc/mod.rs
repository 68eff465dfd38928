//! Congestion control: how much may be in flight. One file a controller, one line in the registry.
//!
//! A controller is a pure state machine: it is told what happened and answers with a [`Window`],
//! which the flow caches. It never sees an endpoint, a socket or a clock.

pub mod bbr;
mod bounds;
pub mod dcqcn;
pub mod dctcp;
pub mod fixed;
pub mod gemini;
pub mod mprdma;
pub mod mprdma_bbr;
pub mod smartt;
pub mod swift;
pub mod unocc;

pub use bbr::{Bbr, BbrParams};
pub use dcqcn::{Dcqcn, DcqcnParams};
pub use dctcp::{Dctcp, DctcpParams};
pub use fixed::{Fixed, FixedParams};
pub use gemini::{Gemini, GeminiParams};
pub use mprdma::{Mprdma, MprdmaParams};
pub use mprdma_bbr::{MprdmaBbr, MprdmaBbrParams};
pub use smartt::{Smartt, SmarttParams};
pub use swift::{Swift, SwiftParams};
pub use unocc::{UnoCc, UnoCcParams};

pub use crate::path::Path;

use alloc::string::String;

use crate::params::{ParamError, ParamKey};
use crate::registry::registry;
use crate::time::{Duration, Instant, Rate};
use crate::units::Bytes;

/// What a controller asks the flow to obey.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Wire bytes that may be in flight. At least one packet.
    pub cwnd: Bytes,
    /// Spread segments at this rate instead of sending whatever the window allows.
    pub pacing: Option<Rate>,
    /// Call [`CongestionControl::on_wake`] at this instant.
    pub wake_at: Option<Instant>,
}

/// One acknowledgement, as a controller sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckSample {
    /// When it arrived.
    pub now: Instant,
    /// Round-trip time of the segment that caused it, without the time the receiver held it.
    pub rtt: Duration,
    /// How long the receiver held it: the delay of the far end, which `rtt` leaves out.
    pub held: Duration,
    /// Wire bytes that it newly acknowledges; 0 when all it says was known.
    pub acked: Bytes,
    /// Wire bytes in flight after it was taken into account.
    pub in_flight: Bytes,
    /// The segment that caused it arrived with CE.
    pub ecn: bool,
    /// Flows that shared the receiver when it was sent; 0 where nobody said.
    pub sharers: u16,
}

impl AckSample {
    /// When the segment that caused it left, by the sender's clock.
    #[must_use]
    pub const fn sent_at(&self) -> Instant {
        let ago = self.rtt.as_ps().saturating_add(self.held.as_ps());
        Instant::from_ps(self.now.as_ps().saturating_sub(ago))
    }
}

/// Wire bytes that did not arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LossSample {
    /// When the loss became known.
    pub now: Instant,
    /// When the lost segment last left: a controller that has reacted since then need not do so
    /// again.
    pub sent_at: Instant,
    /// Wire bytes lost.
    pub bytes: Bytes,
    /// Wire bytes in flight after they were taken out.
    pub in_flight: Bytes,
    /// Flows that shared the receiver when the loss was reported; 0 where nobody said.
    pub sharers: u16,
    /// Nothing was heard of the segment until its timer ran out. False when it was refused or
    /// overtaken.
    pub silent: bool,
}

/// The three ways of hearing of a loss differ in how much they say about congestion.
pub trait CongestionControl {
    /// What the flow has to obey now. Cheap: called after every event.
    fn window(&self) -> Window;
    /// A segment was acknowledged.
    fn on_ack(&mut self, ack: &AckSample, path: &Path);
    /// A segment was trimmed: a queue on the path was full.
    fn on_nack(&mut self, loss: &LossSample, path: &Path);
    /// A segment was inferred lost, from acknowledgements of later ones or from silence.
    fn on_timeout(&mut self, loss: &LossSample, path: &Path);
    /// The instant asked for by [`Window::wake_at`] has come.
    fn on_wake(&mut self, _now: Instant, _path: &Path) {}
}

registry! {
    /// Names the registered controllers.
    pub enum CcKind;
    /// One flow's controller, stored inline in the flow.
    pub enum Cc: CongestionControl;
    new(params: &CcParams, path: &Path);
    {
        /// [`Smartt`].
        "smartt" => Smartt: Smartt::new(&params.smartt, path),
        /// [`Swift`].
        "swift" => Swift: Swift::new(&params.swift, path),
        /// [`Mprdma`].
        "mprdma" => Mprdma: Mprdma::new(&params.mprdma, path),
        /// [`Dctcp`].
        "dctcp" => Dctcp: Dctcp::new(&params.dctcp, path),
        /// [`Dcqcn`].
        "dcqcn" => Dcqcn: Dcqcn::new(&params.dcqcn, path),
        /// [`UnoCc`].
        "unocc" => UnoCc: UnoCc::new(&params.unocc, path),
        /// [`Gemini`].
        "gemini" => Gemini: Gemini::new(&params.gemini, path),
        /// [`Bbr`].
        "bbr" => Bbr: Bbr::new(&params.bbr, path),
        /// [`MprdmaBbr`].
        "mprdma-bbr" => MprdmaBbr: MprdmaBbr::new(
            &params.mprdma_bbr, &params.mprdma, &params.bbr, path,
        ),
        /// [`Fixed`].
        "fixed" => Fixed: Fixed::new(&params.fixed, path),
    }
    fn window(&self) -> Window;
    fn on_ack(&mut self, ack: &AckSample, path: &Path);
    fn on_nack(&mut self, loss: &LossSample, path: &Path);
    fn on_timeout(&mut self, loss: &LossSample, path: &Path);
    fn on_wake(&mut self, now: Instant, path: &Path);
}

/// The settings of every controller; each flow reads those of its own.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CcParams {
    /// `cc.smartt.*`
    pub smartt: SmarttParams,
    /// `cc.swift.*`
    pub swift: SwiftParams,
    /// `cc.mprdma.*`
    pub mprdma: MprdmaParams,
    /// `cc.dctcp.*`
    pub dctcp: DctcpParams,
    /// `cc.dcqcn.*`
    pub dcqcn: DcqcnParams,
    /// `cc.unocc.*`
    pub unocc: UnoCcParams,
    /// `cc.gemini.*`
    pub gemini: GeminiParams,
    /// `cc.bbr.*`
    pub bbr: BbrParams,
    /// `cc.mprdma-bbr.*`
    pub mprdma_bbr: MprdmaBbrParams,
    /// `cc.fixed.*`
    pub fixed: FixedParams,
}

impl CcParams {
    /// The keys that `cc.<kind>.` takes, in the order of declaration.
    #[must_use]
    pub const fn keys(kind: CcKind) -> &'static [ParamKey] {
        match kind {
            CcKind::Smartt => SmarttParams::KEYS,
            CcKind::Swift => SwiftParams::KEYS,
            CcKind::Mprdma => MprdmaParams::KEYS,
            CcKind::Dctcp => DctcpParams::KEYS,
            CcKind::Dcqcn => DcqcnParams::KEYS,
            CcKind::UnoCc => UnoCcParams::KEYS,
            CcKind::Gemini => GeminiParams::KEYS,
            CcKind::Bbr => BbrParams::KEYS,
            CcKind::MprdmaBbr => MprdmaBbrParams::KEYS,
            CcKind::Fixed => FixedParams::KEYS,
        }
    }

    /// Sets `cc.<kind>.<key>` from text.
    ///
    /// # Errors
    /// When there is no such key, or `value` is not one of its values or out of its range.
    pub fn set(&mut self, kind: CcKind, key: &str, value: &str) -> Result<(), ParamError> {
        match kind {
            CcKind::Smartt => self.smartt.set(key, value),
            CcKind::Swift => self.swift.set(key, value),
            CcKind::Mprdma => self.mprdma.set(key, value),
            CcKind::Dctcp => self.dctcp.set(key, value),
            CcKind::Dcqcn => self.dcqcn.set(key, value),
            CcKind::UnoCc => self.unocc.set(key, value),
            CcKind::Gemini => self.gemini.set(key, value),
            CcKind::Bbr => self.bbr.set(key, value),
            CcKind::MprdmaBbr => self.mprdma_bbr.set(key, value),
            CcKind::Fixed => self.fixed.set(key, value),
        }
    }

    /// The value of `cc.<kind>.<key>` as text that sets it; `None` when there is no such key.
    #[must_use]
    pub fn show(&self, kind: CcKind, key: &str) -> Option<String> {
        match kind {
            CcKind::Smartt => self.smartt.show(key),
            CcKind::Swift => self.swift.show(key),
            CcKind::Mprdma => self.mprdma.show(key),
            CcKind::Dctcp => self.dctcp.show(key),
            CcKind::Dcqcn => self.dcqcn.show(key),
            CcKind::UnoCc => self.unocc.show(key),
            CcKind::Gemini => self.gemini.show(key),
            CcKind::Bbr => self.bbr.show(key),
            CcKind::MprdmaBbr => self.mprdma_bbr.show(key),
            CcKind::Fixed => self.fixed.show(key),
        }
    }

    /// The largest window that a controller of this kind asks for, in BDPs of its path; one packet
    /// where that is more.
    #[must_use]
    pub const fn window_max(&self, kind: CcKind) -> f32 {
        match kind {
            CcKind::Smartt => self.smartt.window_max,
            CcKind::Swift => self.swift.window_max,
            CcKind::Mprdma => self.mprdma.window_max,
            CcKind::Dctcp => self.dctcp.window_max,
            CcKind::Dcqcn => self.dcqcn.window_max,
            CcKind::UnoCc => self.unocc.window_max,
            CcKind::Gemini => self.gemini.window_max,
            CcKind::Bbr => self.bbr.window_max,
            CcKind::MprdmaBbr => self.mprdma.window_max.max(self.bbr.window_max),
            CcKind::Fixed => self.fixed.bdps,
        }
    }

    /// Fills in what follows from the base RTT of the network's longest path.
    pub(crate) fn resolve(&mut self, network_base_rtt: Duration) {
        self.smartt.resolve(network_base_rtt);
    }

    /// # Errors
    /// Names the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ParamError> {
        self.smartt.validate()?;
        self.swift.validate()?;
        self.mprdma.validate()?;
        self.dctcp.validate()?;
        self.dcqcn.validate()?;
        self.unocc.validate()?;
        self.gemini.validate()?;
        self.bbr.validate()?;
        self.mprdma_bbr.validate()?;
        self.fixed.validate()
    }
}
