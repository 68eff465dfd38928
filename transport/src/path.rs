//! What the sending policies know of the network between two hosts. One value a flow: its paths
//! share one window. It says nothing of topology or of what else is on the way.

use crate::time::{Duration, Rate};
use crate::units::Bytes;

/// The path of one flow as its policies know it. All paths of a flow share one window, so this is
/// one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Round-trip time of a full segment and its acknowledgement in an idle network.
    pub base_rtt: Duration,
    /// Rate of the slowest link that the flow always crosses, normally the host's.
    pub line_rate: Rate,
    /// Wire bytes of a full segment.
    pub mtu: Bytes,
}

impl Path {
    /// Bandwidth-delay product, wire bytes.
    #[must_use]
    pub fn bdp(&self) -> Bytes {
        self.line_rate.bytes_in(self.base_rtt)
    }
}
