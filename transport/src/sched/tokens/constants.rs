//! Windows, timeouts and lives of tokens.

use crate::sched::{AckMode, SchedSetup};
use crate::time::Duration;
use crate::units::{Bytes, Credit, EntropyValue, FlowId};
use crate::wire::{Allowance, Body, Header};

/// The part of a host's line that its CREDITs take at most, as a divisor. Control goes before data
/// at every port. Where segments are hardly longer than a CREDIT and hosts share a slower link, one
/// CREDIT a segment would leave no room for data, nor for acknowledgements.
const CREDIT_SHARE: u64 = 8;

/// Windows, timeouts and lives of tokens, for one host.
#[derive(Clone, Copy, Debug)]
pub(in crate::sched) struct TokenConstants {
    /// Segments of a BDP, the last one whole.
    pub(in crate::sched) bdp: u32,
    /// Time that a full segment takes on the host's line.
    pub(in crate::sched) packet_time: Duration,
    /// How long a token lives: all tokens of a CREDIT as long as the last would if they came one
    /// packet time apart, so that a short life lets a sender use all of them.
    pub(in crate::sched) life: Duration,
    /// Round trip of an idle path.
    pub(in crate::sched) base_rtt: Duration,
    /// The least time between two CREDITs that give tokens.
    credit_time: Duration,
    /// Tokens that one CREDIT gives at most: one, unless segments are hardly longer than CREDITs.
    pub(in crate::sched) per_credit: u32,
}

impl TokenConstants {
    /// The constants where a token and its segment take `rtt`, the host's base RTT where that is
    /// not known.
    pub(in crate::sched) fn new(setup: &SchedSetup<'_>, rtt: Option<Duration>, life: f32) -> Self {
        let packet_time = setup.line_rate.time_for(setup.mtu);
        let rtt = rtt.unwrap_or(setup.base_rtt);
        let bdp = setup.line_rate.bytes_in(rtt).0.div_ceil(setup.mtu.0.max(1));
        let credit = Allowance { src_flow: FlowId::UNKNOWN, upto: Credit::START };
        let credit = Header::new(EntropyValue(0), FlowId::UNKNOWN, Body::Credit(credit));
        let credit_len = Bytes(setup.wire_sizes.of(&credit, 0).into());
        let credit_time = setup.line_rate.time_for(credit_len) * CREDIT_SHARE;
        let per_credit = credit_time.as_ps().div_ceil(packet_time.as_ps().max(1));
        let per_credit = u32::try_from(per_credit).unwrap_or(u32::MAX).max(1);
        let together = packet_time * u64::from(per_credit - 1);
        Self {
            bdp: u32::try_from(bdp).unwrap_or(u32::MAX).max(1),
            packet_time,
            life: packet_time.scaled(f64::from(life)) + together,
            base_rtt: setup.base_rtt,
            credit_time,
            per_credit,
        }
    }

    /// The time between a CREDIT that gives so many tokens and the next one.
    pub(in crate::sched) fn until_next(&self, tokens: u32) -> Duration {
        (self.packet_time * u64::from(tokens)).max(self.credit_time)
    }

    /// `bdps` BDPs in segments, at least one.
    pub(in crate::sched) fn window(&self, bdps: f32) -> u32 {
        let segments = Bytes(self.bdp.into()).scaled(f64::from(bdps)).0;
        u32::try_from(segments).unwrap_or(u32::MAX).clamp(1, 1 << 14)
    }

    /// Whole segments that fit into `bdps` BDPs of the line over a round trip of `rtt`. This is
    /// rounded down and [`TokenConstants::window`] is rounded up: in the public dcPIM simulator a
    /// flow of one BDP, whose last segment does not fit as a whole, is not a short flow.
    pub(in crate::sched) fn within(setup: &SchedSetup<'_>, rtt: Duration, bdps: f32) -> u32 {
        let bytes = setup.line_rate.bytes_in(rtt).scaled(f64::from(bdps)).0;
        u32::try_from(bytes / setup.mtu.0.max(1)).unwrap_or(u32::MAX)
    }

    /// How long `segments` take on the host's line, times `factor`.
    pub(in crate::sched) fn time(&self, segments: u32, factor: f32) -> Duration {
        (self.packet_time * u64::from(segments)).scaled(f64::from(factor))
    }

    /// How segments are acknowledged.
    pub(in crate::sched) fn ack_mode(&self, segments: u16) -> AckMode {
        AckMode::Every { segments, delay: self.base_rtt }
    }

    /// The least timeout of a segment: its acknowledgement may wait a round trip, and both may wait
    /// in queues.
    pub(in crate::sched) fn rto_min(&self) -> Duration {
        self.base_rtt * 6
    }
}
