//! How often a key may be derived for a frame that may be forged.
//!
//! A derivation, and the check of a tag that does not match, take a few microseconds. Any host can
//! cause them by a frame with a start that is not at hand. Each flow that has opened a frame before
//! has a budget of its own, so frames forged for other flows do not keep it from its next key. All
//! other frames share one budget. A frame that opens costs no budget.

use transport::token_bucket::TokenBucket;
use transport::{Duration, Instant};

/// Derivations for frames of flows that have not opened any: 20 000 a second, which take a tenth of
/// a core at most, and a first burst.
pub(super) const STRANGERS: Budget = Budget(TokenBucket::new(Duration::from_us(50), 256));
/// Derivations for a flow that has opened a frame: 2000 a second, under a hundredth of a core. It
/// needs one a second. The others are spent on forged starts, which only a host on the flow's path
/// can send; the bound keeps these rarer than true frames.
pub(super) const RENEWALS: Budget = Budget(TokenBucket::new(Duration::from_us(500), 16));

/// Attempts that are left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget(TokenBucket);

impl Budget {
    /// The budget after an attempt at `now`; `None` when no attempt is left.
    pub(super) fn after_one(self, now: Instant) -> Option<Self> {
        let Self(mut bucket) = self;
        if bucket.ready_at() > now {
            return None;
        }
        bucket.take(now);
        Some(Self(bucket))
    }
}
