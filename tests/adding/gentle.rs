//! A controller that `tests/adding.rs` adds: a constant share of the BDP, or what its half at the
//! receiver reports. It shows all that a controller's file has to state.

use super::{AckSample, CcParams, CongestionControl, Controller, LossSample, Path, Window};
use crate::params::params;
use crate::rc::RcKind;
use crate::registry::Registered;
use crate::units::Bytes;
use crate::wire::{ExtRefusal, Extensions};

params! {
    /// Settings of [`Gentle`].
    pub struct GentleParams {
        /// The window as a share of the path's BDP; never below one packet.
        share: f32 = 0.5, in 0.0..=1.0;
        /// Whether the receiver's half says the share.
        asks: bool = false;
    }
}

/// A share of the BDP.
#[derive(Clone, Debug)]
pub struct Gentle(Bytes);

impl Registered for Gentle {
    const ABOUT: &'static str = "a share of the BDP, added by a test";
    type Params = GentleParams;
}

impl Controller for Gentle {
    fn build(params: &CcParams, path: &Path) -> Self {
        Self(path.bdp().scaled(f64::from(params.gentle.share)).max(path.mtu))
    }

    fn window_max(params: &CcParams) -> f32 {
        if params.gentle.asks { 1.0 } else { params.gentle.share }
    }

    fn half(params: &CcParams) -> Option<RcKind> {
        params.gentle.asks.then_some(RcKind::Quota)
    }
}

impl CongestionControl for Gentle {
    fn window(&self) -> Window {
        Window { cwnd: self.0, pacing: None, wake_at: None }
    }
    fn on_ack(&mut self, _ack: &AckSample, _path: &Path) {}
    fn on_ack_with(
        &mut self,
        _ack: &AckSample,
        extensions: Extensions<'_>,
        path: &Path,
    ) -> Option<ExtRefusal> {
        if let Some(advice) = extensions.advice() {
            let share = f64::from(advice.values[0].min(1000)) / 1000.0;
            self.0 = path.bdp().scaled(share).max(path.mtu);
        }
        None
    }
    fn on_nack(&mut self, _loss: &LossSample, _path: &Path) {}
    fn on_timeout(&mut self, _loss: &LossSample, _path: &Path) {}
}
