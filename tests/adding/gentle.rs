//! A controller that `tests/adding.rs` adds: a constant share of the BDP. It shows all that a
//! controller's file has to state.

use super::{AckSample, CcParams, CongestionControl, Controller, LossSample, Path, Window};
use crate::params::params;
use crate::registry::Registered;
use crate::units::Bytes;

params! {
    /// Settings of [`Gentle`].
    pub struct GentleParams {
        /// The window as a share of the path's BDP; never below one packet.
        share: f32 = 0.5, in 0.0..=1.0;
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
        params.gentle.share
    }
}

impl CongestionControl for Gentle {
    fn window(&self) -> Window {
        Window { cwnd: self.0, pacing: None, wake_at: None }
    }
    fn on_ack(&mut self, _ack: &AckSample, _path: &Path) {}
    fn on_nack(&mut self, _loss: &LossSample, _path: &Path) {}
    fn on_timeout(&mut self, _loss: &LossSample, _path: &Path) {}
}
