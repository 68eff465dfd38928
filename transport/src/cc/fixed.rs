//! A window that never moves: the baseline that shows a network without control, and the smallest
//! example of a controller. Units: wire bytes. It reacts to nothing, not even to congestion
//! collapse.

use super::{AckSample, CcParams, CongestionControl, Controller, LossSample, Path, Window};
use crate::params::params;
use crate::registry::Registered;
use crate::units::Bytes;

params! {
    /// Settings of [`Fixed`].
    pub struct FixedParams {
        /// The window as a multiple of the path's BDP; never below one packet.
        bdps: f32 = 1.0, in 0.0..=1_000_000.0;
    }
}

/// A constant window.
#[derive(Clone, Debug)]
pub struct Fixed {
    cwnd: Bytes,
}

impl Fixed {
    /// The window for `path`, which never changes: later changes of the path do not move it.
    #[must_use]
    pub fn new(params: &FixedParams, path: &Path) -> Self {
        let cwnd = path.bdp().scaled(f64::from(params.bdps));
        Self { cwnd: cwnd.max(path.mtu) }
    }
}

impl Registered for Fixed {
    const ABOUT: &'static str = "a constant window, for comparison";
    type Params = FixedParams;
}

impl Controller for Fixed {
    fn build(params: &CcParams, path: &Path) -> Self {
        Self::new(&params.fixed, path)
    }

    fn window_max(params: &CcParams) -> f32 {
        params.fixed.bdps
    }
}

impl CongestionControl for Fixed {
    fn window(&self) -> Window {
        Window { cwnd: self.cwnd, pacing: None, wake_at: None }
    }
    fn on_ack(&mut self, _ack: &AckSample, _path: &Path) {}
    fn on_nack(&mut self, _loss: &LossSample, _path: &Path) {}
    fn on_timeout(&mut self, _loss: &LossSample, _path: &Path) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Duration, Rate};

    #[test]
    fn the_window_is_the_ratio_of_the_bdp_and_at_least_a_packet() {
        let path = Path {
            base_rtt: Duration::from_us(12),
            line_rate: Rate::from_gbps(100),
            mtu: Bytes(4160),
        };
        assert_eq!(Fixed::new(&FixedParams { bdps: 2.0 }, &path).window().cwnd, Bytes(300_000));
        assert_eq!(Fixed::new(&FixedParams { bdps: 0.0 }, &path).window().cwnd, Bytes(4160));
    }
}
