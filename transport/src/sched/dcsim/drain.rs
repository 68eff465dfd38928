//! How long queues of DATA drain.
//!
//! Ours. The paper's preset has it where buckets hold one or two tokens, and not with its 12,
//! whose bursts lose DATA anyway. Equation 2 leaves room for one DATA-ACK for every 10 DATAs.
//! A host that receives many flows sends most DATA-ACKs because 3 RTT_p have passed, not because 16
//! DATAs have come. In mixes that lost DATA there was one for every 1 to 3 DATAs. Then a link that
//! is busy both ways gets 0.1 to 0.6 % more than it can send, and a queue of DATA grows at it until
//! it fills the buffer. So while its segments meet long queues, a flow leaves some SIM-ACKs unused.
//! Their SIMs have taken tokens of the ports on their path, so no DATA comes for these tokens.
//= dcsim#eq2

use super::account::{Account, TAIL};
use crate::path::Path;
use crate::rng::Rng;
use crate::time::Duration;

/// One of so many SIM-ACKs of a flow whose segments meet long queues stays unused. With one of 16
/// the longest queues were as long (docs/results/dcsim.md).
const UNUSED_OF: u32 = 8;

/// With `auto`, queues are long beyond so many DATAs, over all ports of a path. One buffer of
/// 500 KB holds 55 of 9000 bytes.
pub(super) const LONG: u16 = 44;

/// With `two-tokens`, the most tokens of a bucket with which queues drain: DATA comes in bursts of
/// as many.
pub(super) const FEW_TOKENS: u16 = 2;

/// Which SIM-ACKs of a host stay unused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    /// A segment that waited for longer met long queues; `None` where every SIM-ACK is used.
    wait: Option<Duration>,
}

impl Drain {
    pub(super) const fn new(wait: Option<Duration>) -> Self {
        Self { wait }
    }

    /// The longest round trip of a segment on `path` that meets no long queue.
    pub(super) fn rtt_most(self, path: &Path) -> Duration {
        self.wait.map_or(Duration::MAX, |wait| path.base_rtt + wait)
    }

    /// Whether this SIM-ACK, which could bind segments of `account`, stays unused. The segments of
    /// a flow near its end would leave RTT_max later, and no other would take their place.
    #[inline]
    pub(super) fn leaves_unused(self, account: &Account, rng: &mut Rng) -> bool {
        account.delayed && account.data() > TAIL && rng.next_u32().is_multiple_of(UNUSED_OF)
    }
}
