//! MPRDMA inside a datacentre, BBR across: the pair of separate loops that \[uno\] sec. 5.1
//! compares itself with. The base RTT of a flow when it opens decides which of the two controllers
//! it has. Both keep their own settings, `cc.mprdma.*` and `cc.bbr.*`.

use super::bbr::{Bbr, BbrParams};
use super::mprdma::{Mprdma, MprdmaParams};
use super::{AckSample, CcParams, CongestionControl, Controller, LossSample, Path, Window};
use crate::params::params;
use crate::path::NetworkFacts;
use crate::registry::Registered;
use crate::time::{Duration, Instant};

params! {
    /// Settings of [`MprdmaBbr`] beside those of its parts.
    pub struct MprdmaBbrParams {
        /// Base RTT from which on a path leads to another datacentre: far from both base RTTs of
        /// \[uno\], 14 us and 2 ms.
        inter_rtt: Duration = Duration::from_us(150), in Duration::ZERO..=Duration::from_s(2);
    }
}

/// One flow's controller.
#[derive(Clone, Debug)]
pub struct MprdmaBbr(Chosen);

#[derive(Clone, Debug)]
enum Chosen {
    Near(Mprdma),
    Far(Bbr),
}

impl MprdmaBbr {
    /// The part for `path`, in its initial state.
    #[must_use]
    pub fn new(
        params: &MprdmaBbrParams,
        near: &MprdmaParams,
        far: &BbrParams,
        path: &Path,
    ) -> Self {
        Self(if path.base_rtt < params.inter_rtt {
            Chosen::Near(Mprdma::new(near, path))
        } else {
            Chosen::Far(Bbr::new(far, path))
        })
    }
}

impl Registered for MprdmaBbr {
    const ABOUT: &'static str = "MPRDMA for paths inside a datacentre, BBR across";
    type Params = MprdmaBbrParams;

    fn resolve(params: &mut MprdmaBbrParams, facts: &NetworkFacts) {
        params.inter_rtt = facts.far_rtt.unwrap_or(params.inter_rtt);
    }
}

impl Controller for MprdmaBbr {
    fn build(params: &CcParams, path: &Path) -> Self {
        Self::new(&params.mprdma_bbr, &params.mprdma, &params.bbr, path)
    }

    fn window_max(params: &CcParams) -> f32 {
        params.mprdma.window_max.max(params.bbr.window_max)
    }
}

impl CongestionControl for MprdmaBbr {
    fn window(&self) -> Window {
        match &self.0 {
            Chosen::Near(cc) => cc.window(),
            Chosen::Far(cc) => cc.window(),
        }
    }
    fn on_ack(&mut self, ack: &AckSample, path: &Path) {
        match &mut self.0 {
            Chosen::Near(cc) => cc.on_ack(ack, path),
            Chosen::Far(cc) => cc.on_ack(ack, path),
        }
    }
    fn on_nack(&mut self, loss: &LossSample, path: &Path) {
        match &mut self.0 {
            Chosen::Near(cc) => cc.on_nack(loss, path),
            Chosen::Far(cc) => cc.on_nack(loss, path),
        }
    }
    fn on_timeout(&mut self, loss: &LossSample, path: &Path) {
        match &mut self.0 {
            Chosen::Near(cc) => cc.on_timeout(loss, path),
            Chosen::Far(cc) => cc.on_timeout(loss, path),
        }
    }
    fn on_wake(&mut self, now: Instant, path: &Path) {
        match &mut self.0 {
            Chosen::Near(cc) => cc.on_wake(now, path),
            Chosen::Far(cc) => cc.on_wake(now, path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Rate;
    use crate::units::Bytes;

    fn flow(base_rtt: Duration) -> MprdmaBbr {
        let path = Path { base_rtt, line_rate: Rate::from_gbps(100), mtu: Bytes(4160) };
        let (near, far) = (MprdmaParams::default(), BbrParams::default());
        MprdmaBbr::new(&MprdmaBbrParams::default(), &near, &far, &path)
    }

    #[test]
    fn a_near_flow_is_mprdmas_and_a_far_one_bbrs() {
        //= uno#5.1
        assert!(matches!(flow(Duration::from_us(14)).0, Chosen::Near(_)));
        let far = flow(Duration::from_ms(2));
        assert!(matches!(far.0, Chosen::Far(_)) && far.window().pacing.is_some());
    }

    #[test]
    fn a_mark_moves_a_near_window_and_not_a_far_one() {
        for (base_rtt, moves) in [(Duration::from_us(14), true), (Duration::from_ms(2), false)] {
            let mut cc = flow(base_rtt);
            let path = Path { base_rtt, line_rate: Rate::from_gbps(100), mtu: Bytes(4160) };
            let before = cc.window().cwnd;
            let ack = AckSample {
                now: Instant::ZERO + base_rtt,
                rtt: base_rtt,
                held: Duration::ZERO,
                acked: Bytes(4160),
                in_flight: before,
                ecn: true,
                sharers: 0,
            };
            cc.on_ack(&ack, &path);
            assert_eq!(cc.window().cwnd < before, moves, "{base_rtt:?}");
        }
    }
}
