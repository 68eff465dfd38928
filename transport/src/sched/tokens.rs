//! Tokens from receivers, each good for one segment: those of pHost and dcPIM.
//!
//! Source: \[phost\] sec. 3 and, for facts, the public dcPIM simulator. `phost.rs` and `dcpim.rs`
//! decide which flow gets tokens and at which rate; this file says what a token is worth at both
//! ends.
//!
//! ```text
//!   sender (spender.rs)                            receiver (issuer.rs)
//!   granted  the last token received               granted  the last token sent
//!   spent    the last one used or dead             spent    the last one that a report names
//!   needs    segments that want tokens             needs    of the flow, behind that token
//!               --DATA, REQUEST: report-->
//!               <--CREDIT: granted--------         at most a window of tokens are outstanding
//! ```
//!
//! - Tokens have numbers, one after another. A CREDIT names the last token. So it makes up for
//!   CREDITs that were lost, and a CREDIT that comes twice or late gives nothing.
//! - A token dies when it has lain unused at the sender for a while, so that its receiver's link
//!   serves another sender. A report, in each DATA and REQUEST, says up to which number all tokens
//!   are used or dead.
//! - If tokens have been neither used nor reported for a timeout, their receiver counts them as
//!   dead and gives others, less and less often while the sender is silent.
//! - A flow that waits without a token asks by REQUEST, and again after a silence.

mod constants;
mod issuer;
mod spender;
#[cfg(test)]
mod tests;

pub(super) use constants::TokenConstants;
pub(super) use issuer::Issuer;
pub(super) use spender::{Spender, Unrequested};

use crate::units::Credit;

/// The most tokens of one flow that no report has covered. A sender refuses a CREDIT that names a
/// token further ahead, since a report could not name the tokens in between.
const AHEAD_MAX: u32 = 1 << 15;

/// The sending side of a scheduler whose flows spend tokens: that of its field `spender`.
macro_rules! spends_tokens {
    ($scheduler:ty) => {
        impl $crate::sched::Sending for $scheduler {
            fn on_open(
                &mut self,
                flow: $crate::units::FlowId,
                peer: $crate::units::HostId,
                _path: &$crate::path::Path,
                label: $crate::sched::Label,
            ) {
                self.spender.on_open(flow, peer, label);
            }

            fn on_reopened(&mut self, flow: $crate::units::FlowId) {
                self.spender.on_reopened(flow);
            }

            fn on_backlog(
                &mut self,
                flow: $crate::units::FlowId,
                backlog: &$crate::sched::Backlog,
                now: $crate::time::Instant,
            ) {
                self.spender.on_backlog(flow, backlog, now);
            }

            fn next_turn(
                &mut self,
                now: $crate::time::Instant,
                _until: $crate::time::Instant,
            ) -> Option<$crate::sched::Turn> {
                self.spender.next_turn(now)
            }

            fn on_sent(
                &mut self,
                flow: $crate::units::FlowId,
                segment: &mut $crate::segment::TxSegment,
                backlog: impl FnOnce() -> $crate::sched::Backlog,
                now: $crate::time::Instant,
            ) {
                self.spender.on_sent(flow, segment, &backlog(), now);
            }

            fn holds(&self, flow: $crate::units::FlowId) -> bool {
                self.spender.holds(flow)
            }
        }
    };
}

pub(super) use spends_tokens;

/// What a sender reports of a flow: the last token that is gone, and the segments that need tokens
/// after it. It takes the field in which other schedulers announce bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct TokenReport {
    /// The number of the token, its last 16 bits.
    spent: u16,
    /// Segments, at most [`TokenReport::NEEDS_MAX`].
    needs: u16,
}

impl TokenReport {
    /// The most needs that fit the field, whose value is never zero.
    const NEEDS_MAX: u16 = u16::MAX - 1;
    /// Tokens before the numbers of a report come again.
    const COUNT: u32 = 1 << 16;

    fn new(spent: Credit, needs: u32) -> Self {
        let [.., high, low] = spent.number().to_be_bytes();
        let needs = u16::try_from(needs).unwrap_or(u16::MAX).min(Self::NEEDS_MAX);
        Self { spent: u16::from_be_bytes([high, low]), needs }
    }

    fn to_field(self) -> Credit {
        let word = u32::from(self.spent) << 16 | (u32::from(self.needs) + 1);
        Credit::new(word).unwrap_or(Credit::START)
    }

    /// The report in a field; `None` for a field that holds none.
    fn of_field(field: Credit) -> Option<Self> {
        let [a, b, c, d] = field.number().to_be_bytes();
        let needs = u16::from_be_bytes([c, d]).checked_sub(1)?;
        Some(Self { spent: u16::from_be_bytes([a, b]), needs })
    }

    /// How many tokens before `granted` the token of the report is: the tokens that are still
    /// outstanding.
    fn outstanding(self, granted: Credit) -> u32 {
        let [.., high, low] = granted.number().to_be_bytes();
        u16::from_be_bytes([high, low]).wrapping_sub(self.spent).into()
    }

    /// How many tokens after `granted` the token of the report is, where a former process of the
    /// receiver can have given it: among the first [`AHEAD_MAX`] tokens of the flow.
    fn ahead(self, granted: Credit) -> Option<u32> {
        let ahead = Self::COUNT - self.outstanding(granted);
        let given = granted.number() - Credit::START.number();
        (given.saturating_add(ahead) <= AHEAD_MAX).then_some(ahead)
    }
}
