//! The window of sequence numbers that fits a network.

use super::Settings;
use crate::ec::EcKind;
use crate::units::Bytes;

impl Settings {
    /// The `psn_window` of flows of at most `packets` packets of `mtu` bytes. It is four times the
    /// segments of the largest window, so that stragglers do not stop a flow, and no more than
    /// twice the packets that a flow has.
    #[must_use]
    pub fn psn_window_for(&self, mtu: Bytes, packets: u64) -> u32 {
        let bdp = self.line_rate.bytes_in(self.base_rtt).0;
        let window = (bdp * 3 / 2 / mtu.0.max(1)).saturating_mul(4).min(packets.saturating_mul(2));
        let least = if self.ec == EcKind::Uncoded { 128 } else { 256 };
        u32::try_from(window.clamp(least, 1 << 20)).unwrap_or(1 << 20).next_power_of_two()
    }
}
