//! The settings of DCsim's hosts, and what follows from them: the fixed delay RTT_max.

use alloc::string::{String, ToString};

use super::drain::{FEW_TOKENS, LONG};
use crate::number;
use crate::params::{ParamValue, params, words};
use crate::path::NetworkFacts;
use crate::sched::SchedSetup;
use crate::time::{Duration, Rate};
use crate::token_bucket::ProbeShare;
use crate::units::Bytes;

/// The delay between a SIM and its DATA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RttMax {
    /// [`Tight`](Self::Tight) where hosts need not wait for a poll of theirs, and buckets are known
    /// to hold [`TIGHT_BUCKET`] tokens or more; [`Paper`](Self::Paper) elsewhere.
    Auto,
    /// The bound of the paper, equation 5.
    Paper,
    /// The bound for buckets of [`TIGHT_BUCKET`] tokens or more. A SIM waits at five of six ports,
    /// since its time counts from its departure on the line of its host. SIM-ACKs wait for no
    /// token.
    Tight,
    /// A fixed time.
    Time(Duration),
}

impl ParamValue for RttMax {
    const VALUES: &'static str =
        "auto, paper, tight, or a time of whole ns (600ns, 1.5ms, or 10 for 10us)";
    fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            "paper" => Some(Self::Paper),
            "tight" => Some(Self::Tight),
            _ => Duration::parse(text).map(Self::Time),
        }
    }
    fn to_word(self) -> u64 {
        match self {
            Self::Paper => u64::MAX,
            Self::Tight => u64::MAX - 1,
            Self::Auto => u64::MAX - 2,
            Self::Time(span) => span.as_ps().min(u64::MAX - 3),
        }
    }
    fn from_word(word: u64) -> Option<Self> {
        Some(match word {
            u64::MAX => Self::Paper,
            _ if word == u64::MAX - 1 => Self::Tight,
            _ if word == u64::MAX - 2 => Self::Auto,
            ps => Self::Time(Duration::from_ps(ps)),
        })
    }
    fn show(&self) -> String {
        match self {
            Self::Auto => "auto".to_string(),
            Self::Paper => "paper".to_string(),
            Self::Tight => "tight".to_string(),
            Self::Time(span) => span.show(),
        }
    }
}

/// The fewest tokens of a bucket with which [`RttMax::Tight`] is a bound. With one token SIMs take
/// longer in simulations (`testbed/experiments/tests/dcsim.rs`).
//= dcsim#3.2
pub const TIGHT_BUCKET: u16 = 2;

/// The part of a flow that leaves unasked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unscheduled {
    /// This number of bytes on the wire.
    Bytes(u64),
    /// What the host's line sends in one base RTT.
    Bdp,
}

impl ParamValue for Unscheduled {
    const VALUES: &'static str = "a size (65536, 64KiB, 1.5MB), or bdp";
    fn parse(text: &str) -> Option<Self> {
        match text {
            "bdp" => Some(Self::Bdp),
            _ => number::bytes(text).ok().map(|bytes| Self::Bytes(bytes.0)),
        }
    }
    fn to_word(self) -> u64 {
        match self {
            Self::Bdp => u64::MAX,
            Self::Bytes(bytes) => bytes.min(u64::MAX - 1),
        }
    }
    fn from_word(word: u64) -> Option<Self> {
        Some(if word == u64::MAX { Self::Bdp } else { Self::Bytes(word) })
    }
    fn show(&self) -> String {
        match self {
            Self::Bdp => "bdp".to_string(),
            Self::Bytes(bytes) => bytes.to_string(),
        }
    }
}

/// Which queues are long, counted in DATAs over all ports of a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub enum LongQueues {
    /// Queues of more than 44 DATAs; none where hosts poll devices.
    Auto,
    /// As [`Auto`](Self::Auto) where the host's bucket is known to hold one or two tokens; none
    /// elsewhere.
    TwoTokens,
    /// Queues of more than so many DATAs; none with 0.
    Datas(u16),
}

impl LongQueues {
    /// A queue of more DATAs is long; `None` where none is. `bucket` is the tokens that the host's
    /// bucket holds, 0 where that is not known.
    fn beyond(self, bucket: u16) -> Option<u16> {
        match self {
            Self::Auto => Some(LONG),
            Self::TwoTokens => (1..=FEW_TOKENS).contains(&bucket).then_some(LONG),
            Self::Datas(datas) => (datas > 0).then_some(datas),
        }
    }
}

impl ParamValue for LongQueues {
    const VALUES: &'static str = "auto, two-tokens, or an integer";
    fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            "two-tokens" => Some(Self::TwoTokens),
            _ => u16::parse(text).map(Self::Datas),
        }
    }
    fn to_word(self) -> u64 {
        match self {
            Self::Auto => u64::MAX,
            Self::TwoTokens => u64::MAX - 1,
            Self::Datas(datas) => datas.into(),
        }
    }
    fn from_word(word: u64) -> Option<Self> {
        match word {
            u64::MAX => Some(Self::Auto),
            _ if word == u64::MAX - 1 => Some(Self::TwoTokens),
            _ => u16::from_word(word).map(Self::Datas),
        }
    }
    fn show(&self) -> String {
        match self {
            Self::Auto => "auto".to_string(),
            Self::TwoTokens => "two-tokens".to_string(),
            Self::Datas(datas) => datas.to_string(),
        }
    }
}

words! {
    /// When a SIM-ACK gets its segments.
    pub enum Bind: "ack or departure" {
        /// When the SIM-ACK comes: it gets the first segments that have none.
        Ack = "ack",
        /// When its DATA leaves: it gets the first segments that wait.
        Departure = "departure",
    }
}

words! {
    /// Which flow of a host gets the next SIM.
    pub enum SimOrder: "collectives, flows, shortest or smallest" {
        /// The next collective in turn, and in it the next flow in turn.
        Collectives = "collectives",
        /// The next flow in turn.
        Flows = "flows",
        /// The flow with the fewest segments that have no SIM.
        Shortest = "shortest",
        /// The collective of which the host has the fewest flows, and in it the next flow in turn.
        Smallest = "smallest",
    }
}

params! {
    /// Settings of [`DcSim`](super::DcSim).
    pub struct DcSimParams {
        /// Delay between a SIM and its DATA: that of the paper, a tighter bound, the tighter one
        /// where it is known to hold, or a time.
        rtt_max: RttMax = RttMax::Paper;
        /// Share of `rtt_max` after which a DATA may leave once its SIM-ACK has come; 0: at once.
        fraction: f32 = 1.0, in 0.0..=1.0;
        /// When a SIM-ACK gets its segments: when it comes, as in the paper, or when they leave,
        /// which keeps mixes of collectives in better order and single flows in worse.
        bind: Bind = Bind::Departure;
        /// Which flow of a host gets the next SIM.
        order: SimOrder = SimOrder::Collectives;
        /// Whether a flow with at most 8 segments left may have two SIMs for each of them on their
        /// way, where no other flow of its host needs one.
        tail: bool = false;
        /// What a flow sends unasked after it opened, or was idle, where its host's line has no
        /// other packet to send: copies that switches serve last and drop first. Their segments
        /// still wait for SIM-ACKs.
        unscheduled: Unscheduled = Unscheduled::Bytes(0);
        /// Source ports of SIMs answered in time that a flow keeps for its next SIMs; a SIM without
        /// a kept port draws any port. So paths that failed lately are tried less often.
        recycle: u16 = 0, in 0..=8;
        /// Whether a flow sends all its SIMs from one port until a SIM is lost, where its host has
        /// four or more flows of its collective and priority. Its segments then stay in order. No
        /// effect with the orders `flows` and `shortest`.
        stay: bool = false;
        /// The token of a lost SIM is given back to the host while fewer DATAs than this wait for
        /// its line; 0: never.
        refund: u16 = 0, in 0..=1024;
        /// So that queues of DATA drain, a flow leaves one of eight SIM-ACKs unused while its
        /// segments meet long queues. Queues are long where a round trip exceeds the base RTT of
        /// its path by the time of so many DATAs on the host's line; 0: never; auto: 44, and 0
        /// where hosts poll devices; two-tokens: as auto where the host's bucket holds one or two
        /// tokens, else 0.
        drain: LongQueues = LongQueues::Datas(0), in LongQueues::Auto..=LongQueues::Datas(1024);
        /// DATAs that one SIM stands for; switches let so many fewer SIMs through.
        per_sim: u16 = 1, in 1..=64;
        /// Round trip of the longest path without what packets take to be sent, RTT_p; auto: the
        /// network's.
        rtt_p: Option<Duration> = None, of_network "auto";
        /// Links of the longest path one way, H; 0: the network's.
        hops: u16 = 0, in 0..=64, of_network "0";
        /// Time that the links of the longest path take to send a packet, over that of as many
        /// links of the host's rate; 0: the network's.
        stretch: f32 = 0.0, in 0.0..=1_000_000.0, of_network "0";
        /// SIMs that wait in the host, and SIM-ACKs: B; 0: as at switches.
        queue: u16 = 0, in 0..=1024, of_network "0";
        /// Tokens for SIMs that the host holds; 0: as at switches.
        bucket: u16 = 0, in 0..=1024, of_network "0";
        /// Packets as long as a SIM that the host's line leaves room for beside a DATA; 0: as at
        /// switches.
        overhead: f32 = 0.0, in 0.0..=64.0, of_network "0";
        /// DATAs that one DATA-ACK answers.
        //= dcsim#2.4
        ack_every: u16 = 16, in 1..=64;
    }
}

/// The longest path of a fat tree of three tiers, where nothing better is known.
//= dcsim#2.5
const HOPS: u16 = 6;

impl DcSimParams {
    pub(super) fn resolve(&mut self, facts: &NetworkFacts) {
        self.rtt_p = facts.propagation_rtt.or(self.rtt_p);
        self.hops = facts.hops.unwrap_or(self.hops);
        self.stretch = facts.stretch.unwrap_or(self.stretch);
        // A SIM-ACK waits for a poll, too, which no bound counts, and the tight one has the least
        // room for.
        if self.rtt_max == RttMax::Auto && facts.hosts_poll == Some(true) {
            self.rtt_max = RttMax::Paper;
        }
        if let Some(probes) = facts.probes {
            (self.queue, self.bucket) = (probes.queue, probes.bucket);
            self.overhead = probes.overhead;
        }
        // Round trips of such hosts contain waits for polls, which no queue causes.
        let chosen_here = !matches!(self.drain, LongQueues::Datas(_));
        if chosen_here && facts.hosts_poll == Some(true) && self.drain.beyond(self.bucket).is_some()
        {
            self.drain = LongQueues::Datas(0);
        }
    }
}

/// The constants of one host, computed once from its settings and its network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct HostConstants {
    /// Delay between a SIM and its DATA, and the time after which a SIM is lost.
    pub(super) rtt_max: Duration,
    /// Time after a SIM's departure from which on its DATA may leave.
    pub(super) delay: Duration,
    /// Round trip of the longest path without transmission times, RTT_p.
    pub(super) rtt_p: Duration,
    /// SIMs, and SIM-ACKs, that wait in the host at most: B.
    pub(super) queue: usize,
    pub(super) bucket: u32,
    /// DATAs that a SIM stands for.
    pub(super) per_sim: u32,
    /// Segments that a flow may send unasked.
    pub(super) unscheduled: u32,
    /// The time between tokens, T'.
    pub(super) slot: Duration,
    /// A segment that waited for longer met long queues; `None` where every SIM-ACK is used.
    pub(super) drain: Option<Duration>,
}

impl HostConstants {
    /// The constants of a host with `setup`; `probe` is the length of a SIM.
    pub(super) fn new(setup: &SchedSetup<'_>, probe: Bytes) -> Self {
        let params = &setup.params.dcsim;
        let or = |value: u16, default: u16| if value == 0 { default } else { value };
        //= dcsim#4.1
        let (queue, bucket) = (or(params.queue, 12), or(params.bucket, 2));
        //= dcsim#eq2
        let overhead = if params.overhead > 0.0 { params.overhead } else { 2.1 };
        let line = LongestPath {
            share: ProbeShare {
                data: Bytes(setup.mtu.0 * u64::from(params.per_sim)),
                probe,
                overhead,
            },
            full: setup.mtu,
            rate: setup.line_rate,
            rtt_p: params.rtt_p.unwrap_or(setup.base_rtt),
            hops: or(params.hops, HOPS).into(),
            stretch: if params.stretch > 0.0 { params.stretch } else { 1.0 },
            queue: queue.into(),
        };
        let rtt_max = match params.rtt_max {
            RttMax::Tight => line.tight(),
            RttMax::Auto if params.bucket >= TIGHT_BUCKET => line.tight(),
            RttMax::Auto | RttMax::Paper => line.paper(),
            RttMax::Time(span) => span,
        };
        let unasked = match params.unscheduled {
            Unscheduled::Bytes(bytes) => bytes,
            Unscheduled::Bdp => setup.line_rate.bytes_in(setup.base_rtt).0,
        };
        Self {
            rtt_max,
            delay: scaled(rtt_max, params.fraction),
            rtt_p: line.rtt_p,
            queue: queue.into(),
            bucket: bucket.into(),
            per_sim: params.per_sim.into(),
            unscheduled: u32::try_from(unasked.div_ceil(setup.mtu.0)).unwrap_or(u32::MAX),
            slot: line.share.interval(line.rate),
            drain: params
                .drain
                .beyond(params.bucket)
                .map(|datas| line.time(line.full.0) * u64::from(datas)),
        }
    }
}

/// `span * factor`, rounded down; exactly `span` for a factor of 1.
fn scaled(span: Duration, factor: f32) -> Duration {
    // In units of 2^-24, the precision of an f32 from 0 to 1.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0..=1,000,000")]
    let parts = (factor * 16_777_216.0) as u64;
    span.mul_ratio(parts, 1 << 24)
}

/// The longest path of a network.
struct LongestPath {
    share: ProbeShare,
    /// Bytes of a full DATA, L.
    full: Bytes,
    /// Rate of the host's line.
    rate: Rate,
    rtt_p: Duration,
    hops: u64,
    /// Mean over the links of the path of `rate` over the link's rate.
    stretch: f32,
    queue: u64,
}

impl LongestPath {
    /// The sum over the links of the path of a time that is `a_hop` at the host's rate. The paper
    /// has links of one rate; everything that a port adds to RTT_max is a number of bytes at the
    /// port's rate, so a slower link adds more.
    fn along(&self, a_hop: Duration) -> Duration {
        scaled(a_hop * self.hops, self.stretch)
    }

    fn time(&self, bytes: u64) -> Duration {
        self.rate.time_for(Bytes(bytes))
    }

    //= dcsim#eq5
    fn paper(&self) -> Duration {
        let slot = self.share.interval(self.rate);
        let a_hop = slot * self.queue + self.time(self.full.0 + self.share.probe.0);
        self.rtt_p + self.along(a_hop * 2)
    }

    /// The sum of RTT_p, of the longest waits in queues, and of the time that lines take to send
    /// both packets. A SIM waits at all ports but the first, a SIM-ACK at all, each behind one DATA
    /// that is being sent.
    fn tight(&self) -> Duration {
        let slot = self.share.interval(self.rate);
        let sim = slot * self.queue + self.time(self.full.0);
        let ack = self.time(self.full.0 + 2 * self.queue * self.share.probe.0);
        let lines = self.time(self.share.probe.0) * 2;
        self.rtt_p + self.along(sim).saturating_sub(sim) + self.along(ack) + self.along(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(full: u64, gbps: u64, queue: u64) -> LongestPath {
        let share = ProbeShare { data: Bytes(full), probe: Bytes(64), overhead: 2.1 };
        let rtt_p = Duration::from_ns(7800);
        let rate = Rate::from_gbps(gbps);
        LongestPath { share, full: Bytes(full), rate, rtt_p, hops: 6, stretch: 1.0, queue }
    }

    /// Within 0.1 %, as far as the tables' digits go.
    fn assert_is(span: Duration, us: f64) {
        assert!((span.as_us_f64() / us - 1.0).abs() < 0.001, "{span} is not {us} us");
    }

    #[test]
    fn rtt_max_is_equation_5() {
        for (full, gbps, queue, us) in [
            (9000, 800, 12, 22.041),
            (4096, 800, 12, 14.391),
            (1500, 800, 12, 10.341),
            (9000, 100, 12, 121.7),
            (1500, 100, 12, 28.13),
            (9000, 800, 2, 11.08),
            (9000, 800, 24, 35.20),
        ] {
            assert_is(line(full, gbps, queue).paper(), us);
        }
    }

    #[test]
    fn slow_links_of_a_path_add_their_own_time() {
        let queueing = |line: &LongestPath| line.paper() - line.rtt_p;
        let fast = queueing(&line(9000, 800, 12));
        // Two links of six have a 100th of the rate: (4 + 2 * 100) / 6.
        let slow = LongestPath { stretch: 34.0, ..line(9000, 800, 12) };
        assert_eq!(queueing(&slow), fast * 34);
        // The queue of the host itself, which the tight bound leaves out, is one of the fast ones.
        let tight = |line: &LongestPath| line.tight() - line.rtt_p;
        assert!(tight(&slow) >= tight(&line(9000, 800, 12)) * 34 && tight(&slow) < queueing(&slow));
        // As at the hosts' rate throughout where no line of the path is faster or slower.
        let equal = line(9000, 8, 12);
        let stretched = LongestPath { stretch: 100.0, ..line(9000, 800, 12) };
        assert_eq!(queueing(&stretched), queueing(&equal));
    }

    #[test]
    fn the_tight_bound_leaves_out_what_cannot_be() {
        assert_is(line(9000, 800, 12).tight(), 14.370);
        for queue in 1..100 {
            assert!(line(9000, 800, queue).tight() < line(9000, 800, queue).paper());
        }
    }

    #[test]
    fn a_share_of_the_delay_is_exact_at_its_ends() {
        let span = Duration::from_ps(22_040_992);
        assert_eq!(
            [0.0, 0.5, 1.0].map(|share| scaled(span, share)),
            [Duration::ZERO, span / 2, span]
        );
    }

    #[test]
    fn queues_drain_where_packets_wait_for_no_poll() {
        use LongQueues::{Auto, Datas, TwoTokens};
        for (drain, bucket, on_devices) in [
            (Auto, 12, Datas(0)),
            (TwoTokens, 2, Datas(0)),
            (TwoTokens, 12, TwoTokens),
            (Datas(0), 2, Datas(0)),
            (Datas(44), 2, Datas(44)),
        ] {
            let mut params = DcSimParams { drain, bucket, ..DcSimParams::default() };
            params.resolve(&NetworkFacts::default());
            assert_eq!(params.drain, drain);
            params.resolve(&NetworkFacts::of_devices());
            assert_eq!(params.drain, on_devices);
        }
    }

    #[test]
    fn queues_drain_with_two_tokens_where_the_bucket_is_known_to_hold_so_few() {
        use LongQueues::{Auto, Datas, TwoTokens};
        let beyond = |bucket| [Auto, TwoTokens, Datas(0), Datas(7)].map(|long| long.beyond(bucket));
        let (few, more) = ([Some(44), Some(44), None, Some(7)], [Some(44), None, None, Some(7)]);
        assert_eq!([0, 1, 2, 3].map(beyond), [more, few, few, more]);
    }

    #[test]
    fn long_queues_are_a_word_or_a_number() {
        for text in ["auto", "two-tokens", "0", "1024"] {
            let value = LongQueues::parse(text).unwrap();
            assert_eq!(LongQueues::from_word(value.to_word()), Some(value));
            assert_eq!(value.show(), text);
            assert!(DcSimParams::default().set("drain", text).is_ok());
        }
        for text in ["1025", "-1", "", "two"] {
            assert!(DcSimParams::default().set("drain", text).is_err(), "{text}");
        }
        assert_eq!([65_536, u64::MAX - 2].map(LongQueues::from_word), [None; 2]);
    }

    #[test]
    fn a_delay_is_a_word_or_a_time() {
        for (text, value) in [
            ("auto", RttMax::Auto),
            ("paper", RttMax::Paper),
            ("tight", RttMax::Tight),
            ("14us", RttMax::Time(Duration::from_us(14))),
        ] {
            assert_eq!(RttMax::parse(text), Some(value));
            assert_eq!(
                (value.show().as_str(), RttMax::from_word(value.to_word())),
                (text, Some(value))
            );
        }
        for text in ["", "eq5", "-1us", "14h"] {
            assert_eq!(RttMax::parse(text), None, "{text}");
        }
        // A number alone is in microseconds.
        assert_eq!(RttMax::parse("14"), RttMax::parse("14us"));
    }
}
