//! The smallest and the largest window of a controller on its path, in packets. Shared by the
//! controllers that count in packets, as their papers do.
//!
//! Units: packets of one MTU as real numbers, because increases are fractions of a packet.

use super::Path;
use crate::time::Duration;
use crate::units::Bytes;

/// The bounds on one path, kept so that they are computed once and not with every acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) base_rtt: Duration,
    /// Bytes, at least 1.
    mtu: f64,
    /// Largest window, packets, at least 1.
    most: f64,
    /// BDP, packets, above 0.
    bdp: f64,
    /// Largest window in BDPs.
    window_max: f64,
}

impl Bounds {
    /// The bounds of a window on `path`, up to `window_max` BDPs.
    pub(super) fn new(path: &Path, window_max: f32) -> Self {
        let mtu = path.mtu.max(Bytes(1)).as_f64();
        let bdp = path.bdp().as_f64() / mtu;
        let window_max = f64::from(window_max);
        let most = (bdp * window_max).max(1.0);
        Self { base_rtt: path.base_rtt, mtu, most, bdp, window_max }
    }

    /// Takes over a changed base RTT; rate and MTU of a flow are fixed. True when it did.
    pub(super) fn follow(&mut self, path: &Path) -> bool {
        let changed = path.base_rtt != self.base_rtt;
        if changed {
            self.bdp = path.bdp().as_f64() / self.mtu;
            self.most = (self.bdp * self.window_max).max(1.0);
            self.base_rtt = path.base_rtt;
        }
        changed
    }

    /// `bytes` in packets.
    pub(super) fn packets(&self, bytes: Bytes) -> f64 {
        bytes.as_f64() / self.mtu
    }

    /// A window of `bdps` BDPs, within the bounds.
    pub(super) fn bdps(&self, bdps: f32) -> f64 {
        self.clamp(self.bdp * f64::from(bdps))
    }

    /// `cwnd` brought to at least one packet and at most the largest window.
    pub(super) const fn clamp(&self, cwnd: f64) -> f64 {
        cwnd.clamp(1.0, self.most)
    }

    /// The path's BDP, packets.
    pub(super) const fn bdp(&self) -> f64 {
        self.bdp
    }

    /// Largest window, packets.
    pub(super) const fn most(&self) -> f64 {
        self.most
    }

    /// `cwnd` in bytes; at least one packet.
    pub(super) fn bytes(&self, cwnd: f64) -> Bytes {
        Bytes(1).scaled((self.mtu * cwnd).max(self.mtu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Rate;

    const PATH: Path =
        Path { base_rtt: Duration::from_us(12), line_rate: Rate::from_gbps(800), mtu: Bytes(4000) };

    #[test]
    fn a_path_shorter_than_a_packet_still_has_a_window_of_one() {
        let bounds = Bounds::new(&Path { base_rtt: Duration::ZERO, ..PATH }, 1.5);
        assert_eq!((bounds.bdps(1.0), bounds.bytes(0.0)), (1.0, Bytes(4000)));
    }

    #[test]
    fn the_bounds_follow_the_base_rtt_and_nothing_else() {
        let mut bounds = Bounds::new(&PATH, 1.5);
        assert_eq!((bounds.bdps(1.0), bounds.clamp(1e9)), (300.0, 450.0));
        assert!(!bounds.follow(&Path { mtu: Bytes(1), ..PATH }));
        assert!(bounds.follow(&Path { base_rtt: Duration::from_us(24), ..PATH }));
        assert_eq!((bounds.bdps(1.0), bounds.clamp(1e9)), (600.0, 900.0));
    }
}
