//! The configuration of one endpoint. A [`Config`] that exists is legal.

mod extended;
mod lengths;
mod loss;
mod outage;
mod psn_window;

use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

use crate::cc::{CcKind, CcParams, Path};
use crate::ec::{BlockShape, CodeParams, Ec, EcKind, EcParams};
use crate::lb::{LbKind, LbParams, entropy};
use crate::params::ParamError;
use crate::path::NetworkFacts;
use crate::rc::RcParams;
use crate::rng::Rng;
use crate::sched::{AckMode, SchedKind, SchedParams, SchedSetup};
use crate::time::{Duration, Rate};
use crate::units::{FlowId, HostId};
use crate::wire::addressing::Groups;
use crate::wire::{AccountedSizes, KEY_LEN, WireSizes, int};

pub use extended::Extended;
pub use loss::LossSettings;

/// The open form of a configuration: change what differs from [`Settings::default`], then make a
/// [`Config`] of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Payload bytes of a full segment, 64..=8960.
    pub payload_max: u16,
    /// Bytes around a Headrace header on the wire: Ethernet, IP and UDP headers; 42 (IPv4) or 62.
    pub frame_overhead: u16,
    /// Sizes of packets that are accounted instead of those of the headers; for virtual time alone.
    pub accounted: AccountedSizes,
    /// Whether packets are sealed below this core. A trimmed packet has then lost its seal, so it
    /// is only a hint: it keeps no flow from being forgotten, and its times are not used.
    pub sealed: bool,
    /// Octets of a header's key as they are accounted: [`KEY_LEN`] as on the wire, or 0 where
    /// packets are to have the sizes of published evaluations, whose headers have no key.
    pub key_bytes: u16,
    /// The secret that flows' keys are made from. Where there may be hostile hosts, no other host
    /// may have it. Zeros: the endpoint draws one from its `Rng`.
    pub secret: [u64; 2],
    /// Rate of the host's link, above zero.
    pub line_rate: Rate,
    /// Base RTT of the network's longest path, and of every path without a base RTT of its own;
    /// above zero.
    pub base_rtt: Duration,
    /// The controller; far paths may have another, see `far`.
    pub cc: CcKind,
    /// Parameters of all controllers; only those of `cc` matter.
    pub cc_params: CcParams,
    /// The load balancer; far paths may have another, see `far`.
    pub lb: LbKind,
    /// Parameters of all load balancers; only those of `lb` matter.
    pub lb_params: LbParams,
    /// Parameters of all receivers' halves of controllers; each flow reads those of its own.
    pub rc_params: RcParams,
    /// Ports for whose telemetry (INT) a segment has room, in flows with telemetry, 0..=8; with 0
    /// no flow has telemetry.
    pub int_room: u8,
    /// Every flow has room for telemetry, not only those whose controllers read it.
    pub int_always: bool,
    /// The policies of far paths.
    pub far: FarSettings,
    /// The scheduler, which decides which flow sends next.
    pub sched: SchedKind,
    /// Parameters of all schedulers; only those of `sched` matter.
    pub sched_params: SchedParams,
    /// The erasure code. Both ends must agree on it and on its shape, and with a code also on
    /// `payload_max`.
    pub ec: EcKind,
    /// Data and parity packets of a full block.
    pub ec_shape: BlockShape,
    /// Which flows are coded, and when a receiver asks for missing packets.
    pub ec_params: EcParams,
    /// Settings of the codes.
    pub code_params: CodeParams,
    /// PSNs a flow may have outstanding; a power of two, 128..=2^20, from 256 with an erasure code.
    /// Both ends must agree.
    pub psn_window: u32,
    /// Messages a flow may have unfinished, 1..=1024. Both ends must agree.
    pub msg_window: u16,
    /// Outgoing flows this endpoint can hold, 1..=2^20.
    pub tx_flows_max: u32,
    /// Incoming flows this endpoint can hold, 1..=2^20.
    pub rx_flows_max: u32,
    /// While this many incoming flows have senders without a proven address, an unknown sender has
    /// to prove its address before its flow takes memory. `u32::MAX` where all hosts are trusted.
    pub unproven_max: u32,
    /// Bytes of all messages that such flows may open before their senders have proved their
    /// address; without effect where all hosts are trusted.
    pub unproven_bytes: u64,
    /// The most that the incoming flows of one host with a proven address may hold; without effect
    /// where all hosts are trusted.
    pub peer_max: ShareMax,
    /// The most that such flows of all hosts of a group may hold.
    pub group_max: ShareMax,
    /// Hosts that have one address prefix, as the driver groups them.
    pub groups: Groups,
    /// Answers a second that say that a flow is not here, 1..=1000000. `None` is 1000000 where all
    /// hosts are trusted, else [`Settings::ANSWERS_MAX`].
    pub answers_max: Option<u32>,
    /// Outgoing messages that this endpoint can hold, 1..=2^20; it can hold as many incoming ones.
    pub msgs_max: u32,
    /// Acknowledgements that wait for the device before the oldest is discarded, 32..=65536. Where
    /// a scheduler reports segments, fewer wait without a code, since none acknowledges a segment.
    pub acks_waiting_max: u32,
    /// Acknowledge every n-th segment, 1..=64; marked, retransmitted and last segments at once.
    pub ack_every: u16,
    /// How long a segment may wait for others to be acknowledged with it; `None` is a quarter of
    /// `base_rtt`. At most 2 s. A receiver does not measure how far its senders are, so with far
    /// and near ones a quarter of the near ones' RTT is better.
    pub ack_delay: Option<Duration>,
    /// How loss is inferred where no NACK reports it.
    pub loss: LossSettings,
    /// How often the receiver of an idle flow is reminded of it; `None` leaves idle flows alone. At
    /// least 8 times `base_rtt`, at most the silence after which a flow is given up.
    pub keep_alive: Option<Duration>,
    /// Records the trace ring keeps; 0 is no trace.
    pub trace_capacity: u32,
    /// First generation of flow identifiers, 1..=4095. Processes that follow each other at one
    /// address need different ones: peers keep flows for a while, and must not take flows of one
    /// process for flows of another.
    pub incarnation: u16,
}

/// Policies of far paths, which lead to another datacentre: latency and buffers differ there, and
/// other policies may be better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FarSettings {
    /// Base RTT from which on a path is far, above zero.
    pub rtt: Duration,
    /// Controller of far paths; `None` takes that of other paths.
    pub cc: Option<CcKind>,
    /// Load balancer of far paths; `None` takes that of other paths.
    pub lb: Option<LbKind>,
}

/// The policies of one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policies {
    /// The flow's controller.
    pub cc: CcKind,
    /// The flow's load balancer.
    pub lb: LbKind,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            payload_max: 4096,
            frame_overhead: 42,
            accounted: AccountedSizes::HEADERS,
            sealed: false,
            key_bytes: 0,
            secret: [0; 2],
            line_rate: Rate::from_gbps(100),
            base_rtt: Duration::from_us(12),
            cc: CcKind::Smartt,
            cc_params: CcParams::default(),
            lb: LbKind::Reps,
            lb_params: LbParams::default(),
            rc_params: RcParams::default(),
            int_room: 8,
            int_always: false,
            far: FarSettings::default(),
            sched: SchedKind::RoundRobin,
            sched_params: SchedParams::default(),
            ec: EcKind::Uncoded,
            ec_shape: BlockShape::default(),
            ec_params: EcParams::default(),
            code_params: CodeParams::default(),
            psn_window: 4096,
            msg_window: 64,
            tx_flows_max: 1024,
            rx_flows_max: 1024,
            unproven_max: u32::MAX,
            unproven_bytes: 16 << 20,
            peer_max: ShareMax::UNBOUNDED,
            group_max: ShareMax::UNBOUNDED,
            groups: Groups::None,
            answers_max: None,
            msgs_max: 4096,
            acks_waiting_max: 4096,
            ack_every: 1,
            ack_delay: None,
            loss: LossSettings::default(),
            keep_alive: None,
            trace_capacity: 0,
            incarnation: 1,
        }
    }
}

/// What incoming flows may hold at a receiver, at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShareMax {
    /// Flows.
    pub flows: u32,
    /// Messages that have begun and are not whole.
    pub messages: u32,
    /// Bytes of these messages, by their whole length.
    pub bytes: u64,
}

impl ShareMax {
    /// No bound but that of the tables.
    pub const UNBOUNDED: Self = Self { flows: u32::MAX, messages: u32::MAX, bytes: u64::MAX };
}

impl Default for FarSettings {
    fn default() -> Self {
        // Ten times the usual base RTT inside a datacentre; between two that are 15 km apart light
        // alone takes longer.
        Self { rtt: Duration::from_us(150), cc: None, lb: None }
    }
}

impl Settings {
    /// Answers a second where some hosts are not trusted, unless it is set.
    pub const ANSWERS_MAX: u32 = 8_000;
    /// Answers a second where all hosts are trusted, unless it is set; the most there can be.
    const ANSWERS_TRUSTING: u32 = 1_000_000;
    /// The longest base RTT: wire time wraps after 4.4 s, and half of that can be measured.
    pub const RTT_MAX: Duration = Duration::from_s(2);
    /// Questions for proof and refusals of flows a second, at most. That many leave a transfer
    /// about nine tenths of its throughput (docs/TESTING.md, floods).
    pub(crate) const QUESTIONS_MAX: u32 = 8_000;

    /// The sizes of packets as they count on the wire.
    #[must_use]
    pub const fn wire_sizes(&self) -> WireSizes {
        WireSizes {
            frame_overhead: self.frame_overhead,
            flow_overhead: self.flow_overhead(),
            accounted: self.accounted,
        }
    }

    /// Bytes that a packet of a flow counts beyond its header, as sizes are accounted.
    const fn flow_overhead(&self) -> u16 {
        self.frame_overhead + self.key_bytes - KEY_LEN
    }

    /// The policies of a flow over `path`: the only place where they are chosen, once a flow.
    #[must_use]
    pub fn policies(&self, path: &Path) -> Policies {
        let far = Some(self.far).filter(|far| path.base_rtt >= far.rtt);
        Policies {
            cc: far.and_then(|far| far.cc).unwrap_or(self.cc),
            lb: far.and_then(|far| far.lb).unwrap_or(self.lb),
        }
    }

    /// Whether a share of a bounded number of flows leaves a place to others, beside the flows
    /// without proof, which count in no share. A table of fewer than eight places is too small for
    /// that.
    fn leaves_room(&self, share: &ShareMax) -> bool {
        let trusting = self.unproven_max == u32::MAX || share.flows == u32::MAX;
        let taken = share.flows.saturating_add(self.unproven_max);
        trusting || self.rx_flows_max < 8 || taken < self.rx_flows_max
    }

    /// Answers a second that a flow is not here, at most; see `answers_max`.
    pub(crate) fn answers_max(&self) -> u32 {
        let trusting = self.unproven_max == u32::MAX;
        let auto = if trusting { Self::ANSWERS_TRUSTING } else { Self::ANSWERS_MAX };
        self.answers_max.unwrap_or(auto)
    }

    /// Whether flows may have the controller `cc`.
    #[must_use]
    pub fn chooses(&self, cc: CcKind) -> bool {
        self.cc == cc || self.far.cc == Some(cc)
    }

    fn check_balancers(&self) -> Result<(), ConfigError> {
        self.lb_params.validate()?;
        let (lbs, paths) = ([Some(self.lb), self.far.lb], self.lb_params.common.paths);
        match lbs.into_iter().flatten().find_map(|lb| lb.paths_expected(paths)) {
            Some(expected) => Err(ConfigError::Setting { name: "lb.paths", expected }),
            None => Ok(()),
        }
    }

    /// Passes the known facts of the network to every policy's parameters.
    pub fn resolve(&mut self, facts: &NetworkFacts) {
        self.cc_params.resolve(facts);
        self.lb_params.resolve(facts);
        self.rc_params.resolve(facts);
        self.sched_params.resolve(facts);
        self.ec_params.resolve(self.ec_shape, facts);
        self.code_params.resolve(facts);
    }

    /// Whether far paths have policies of their own.
    #[must_use]
    pub fn far_differs(&self) -> bool {
        let FarSettings { cc, lb, .. } = self.far;
        cc.is_some_and(|cc| cc != self.cc) || lb.is_some_and(|lb| lb != self.lb)
    }
}

/// A legal configuration. Clones share their settings, so that the many hosts of a simulation find
/// them in the cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    settings: Arc<Settings>,
    /// How an endpoint's scheduler has segments acknowledged.
    ack_mode: AckMode,
}

/// The setting that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// A field of [`Settings`].
    Setting {
        /// The setting, as the field is called.
        name: &'static str,
        /// The values that the setting may have.
        expected: &'static str,
    },
    /// A setting of a policy.
    Policy(ParamError),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting { name, expected } => write!(f, "setting {name}: expected {expected}"),
            Self::Policy(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ConfigError {}

impl From<ParamError> for ConfigError {
    fn from(error: ParamError) -> Self {
        Self::Policy(error)
    }
}

impl Config {
    /// Checks every range.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn new(mut settings: Settings) -> Result<Self, ConfigError> {
        let s = &settings;
        let generation = 1..=FlowId::GENERATION_MAX;
        let slab = 1..=u32::try_from(FlowId::CAPACITY).unwrap_or(u32::MAX);
        let rtts = s.base_rtt * 8;
        let answers = 1..=Settings::ANSWERS_TRUSTING;
        let waits = |wait| wait >= EcParams::BLOCK_TIMEOUT_MIN;
        let checks = [
            ("payload_max", "64..=8960 bytes", (64..=8960).contains(&s.payload_max)),
            ("frame_overhead", "42..=128 bytes", (42..=128).contains(&s.frame_overhead)),
            ("accounted", "1..=1024 around payload, 1..=255 without", s.accounted.are_legal()),
            ("key_bytes", "0..=8 bytes", s.key_bytes <= KEY_LEN),
            ("int_room", "0..=8 ports", usize::from(s.int_room) <= int::HOPS_MAX),
            ("line_rate", "above zero", s.line_rate > Rate::ZERO),
            ("base_rtt", "above zero and at most 2 s", in_rtt_range(s.base_rtt)),
            ("far.rtt", "above zero and at most 2 s", in_rtt_range(s.far.rtt)),
            ("psn_window", "a power of two, 128..=1048576", is_psn_window(s.psn_window)),
            // A block may end up to 63 PSNs after the PSNs that half the window covers.
            (
                "psn_window",
                "256..=1048576 with an erasure code",
                s.ec == EcKind::Uncoded || s.psn_window >= 256,
            ),
            (
                "cc_params.custom",
                "a controller of the application, which cc or far.cc chooses",
                s.cc_params.custom.is_given() || !s.chooses(CcKind::Custom),
            ),
            ("msg_window", "1..=1024", (1..=1024).contains(&s.msg_window)),
            ("tx_flows_max", "1..=1048576", slab.contains(&s.tx_flows_max)),
            ("rx_flows_max", "1..=1048576", slab.contains(&s.rx_flows_max)),
            ("msgs_max", "1..=1048576", slab.contains(&s.msgs_max)),
            ("answers_max", "1..=1000000", answers.contains(&s.answers_max())),
            ("acks_waiting_max", "32..=65536", (32..=65_536).contains(&s.acks_waiting_max)),
            ("ack_every", "1..=64", (1..=64).contains(&s.ack_every)),
            ("ack_delay", "at most 2 s", s.ack_delay.is_none_or(|d| d <= Duration::from_s(2))),
            ("keep_alive", "at least 8 base RTTs", s.keep_alive.is_none_or(|t| t >= rtts)),
            ("incarnation", "1..=4095", generation.contains(&s.incarnation.into())),
            ("loss.rto_quarters", "4..=4000", (4..=4000).contains(&s.loss.rto_quarters)),
            ("loss.backoff_max", "0..=16", s.loss.backoff_max <= 16),
            ("loss.retries_max", "1..=64", (1..=64).contains(&s.loss.retries_max)),
            ("loss.give_up", "at most 3600 s", s.loss.give_up <= Duration::from_s(3600)),
            ("ec.block_timeout", "auto, or 1us..=2s", s.ec_params.block_timeout.is_none_or(waits)),
            ("groups", "runs of one host or more", s.groups != Groups::Runs(0)),
            ("peer_max", SHARES_LEAVE, s.leaves_room(&s.peer_max)),
            ("group_max", SHARES_LEAVE, s.leaves_room(&s.group_max)),
        ];
        if let Some((name, expected, _)) = checks.into_iter().find(|(.., holds)| !holds) {
            return Err(ConfigError::Setting { name, expected });
        }
        settings.cc_params.validate()?;
        settings.check_balancers()?;
        settings.rc_params.validate()?;
        settings.sched_params.validate()?;
        settings.ec_params.validate()?;
        settings.code_params.validate()?;
        let base_rtt = Some(settings.base_rtt);
        let near_rtt = base_rtt.filter(|rtt| *rtt < settings.far.rtt);
        settings.resolve(&NetworkFacts { base_rtt, near_rtt, ..NetworkFacts::default() });
        let config = Self { settings: Arc::new(settings), ack_mode: AckMode::Free };
        // A receiver forgets after twice this silence; one reminder may be lost.
        let forgets = config.give_up_after(&config.default_path());
        if config.keep_alive.is_some_and(|every| every > forgets) {
            let expected =
                "at most the silence after which a flow is given up, which loss.give_up raises";
            return Err(ConfigError::Setting { name: "keep_alive", expected });
        }
        Ok(config)
    }

    /// The code of flows over `path`; `None` where they send no parity.
    //= uno#4.2: inter-DC traffic only.
    #[must_use]
    pub fn code_of(&self, path: &Path) -> Option<Ec> {
        let far = path.base_rtt >= self.ec_params.base_rtt_min;
        let code = Ec::new(self.ec, self.ec_shape, &self.code_params);
        (far && crate::ec::ErasureCode::shape(&code).parity() > 0).then_some(code)
    }

    /// Packets of a full block of a flow over `path`; 0 where it has no code, or not from its
    /// first block on.
    pub(crate) fn block_packets(&self, path: &Path) -> u8 {
        let code = self.code_of(path).filter(|_| !self.ec.is_by_loss());
        let shape = code.map(|code| crate::ec::ErasureCode::shape(&code));
        shape.map_or(0, |shape| shape.data() + shape.parity())
    }

    /// How long a receiver waits before it asks for the missing packets of a block.
    pub(crate) fn block_wait(&self) -> Duration {
        self.ec_params.wait(self.ec_shape, self.line_rate.time_for(self.mtu()))
    }

    /// A path of which only the defaults are known.
    #[must_use]
    pub fn default_path(&self) -> Path {
        Path { base_rtt: self.base_rtt, line_rate: self.line_rate, mtu: self.mtu() }
    }

    /// The timeout of a path, without back-off. A receiver does not measure the distance of its
    /// sender, so it may hold an acknowledgement for as long on the shortest path as on the
    /// longest.
    //= rfc9002#6.2.1: the receiver's delay is added to what the path may take.
    #[must_use]
    pub fn rto(&self, path: &Path) -> Duration {
        let silence = path.base_rtt.mul_ratio(u64::from(self.loss.rto_quarters), 4);
        (silence + self.ack_delay()).max(self.loss.rto_min)
    }

    /// How long a segment may wait at its receiver for others to be acknowledged with it.
    #[must_use]
    pub fn ack_delay(&self) -> Duration {
        let delay = self.ack_delay.unwrap_or(self.base_rtt / 4);
        if self.ack_every == 1 { Duration::ZERO } else { delay }
    }

    /// A copy in which segments are acknowledged as the scheduler demands, and timeouts are no
    /// shorter than the scheduler's own.
    #[must_use]
    pub(crate) fn acknowledging(&self, ack_mode: AckMode, rto_min: Duration) -> Self {
        let (every, delay) = match ack_mode {
            AckMode::Free => (self.ack_every, self.ack_delay),
            AckMode::Every { segments, delay } | AckMode::Paced { segments, delay } => {
                (segments.clamp(1, 64), Some(delay))
            }
            // A grant takes all pending acknowledgements; the scheduler decides when.
            AckMode::Granted => (64, Some(Duration::ZERO)),
            // None leaves, so none is due at once.
            AckMode::Reported => (64, self.ack_delay),
        };
        let mut config = Self { ack_mode, ..self.clone() };
        if (every, delay) != (self.ack_every, self.ack_delay) || rto_min > self.loss.rto_min {
            let settings = Arc::make_mut(&mut config.settings);
            (settings.ack_every, settings.ack_delay) = (every, delay);
            settings.loss.rto_min = settings.loss.rto_min.max(rto_min);
        }
        config
    }

    /// How segments are acknowledged.
    pub(crate) const fn ack_mode(&self) -> AckMode {
        self.ack_mode
    }

    /// The parameters that the scheduler of `host` is built from; `rng` is for it alone.
    #[must_use]
    pub fn sched_setup(&self, host: HostId, rng: Rng) -> SchedSetup<'_> {
        let paths = self.lb_params.common.paths;
        let spread = |i: u16| entropy(paths / 8 * i + (paths % 8) * i / 8);
        SchedSetup {
            params: &self.sched_params,
            host,
            tx_flows_max: self.tx_flows_max,
            rx_flows_max: self.rx_flows_max,
            line_rate: self.line_rate,
            base_rtt: self.base_rtt,
            mtu: self.mtu(),
            wire_sizes: self.wire_sizes(),
            rto: self.rto(&self.default_path()),
            backoff_max: self.loss.backoff_max,
            retries_max: self.loss.retries_max,
            give_up: self.loss.give_up,
            control_evs: [0, 1, 2, 3, 4, 5, 6, 7].map(spread),
            rng,
            secret: self.secret,
        }
    }

    /// The longest that a sender keeps resending before it gives up: the sum of all backed-off
    /// timeouts, or [`LossSettings::give_up`] and the timeouts before and after it where that is
    /// longer. A receiver keeps a flow for at least this long.
    #[must_use]
    pub fn give_up_after(&self, path: &Path) -> Duration {
        let rto = self.rto(path);
        let backed_off = |n: u8| rto * (1 << n.min(self.loss.backoff_max));
        let retries = (0..=self.loss.retries_max).map(backed_off);
        let counted = retries.fold(Duration::ZERO, |sum, wait| sum + wait);
        match self.loss.give_up {
            Duration::ZERO => counted,
            survived => counted.max(rto + survived + backed_off(u8::MAX)),
        }
    }
}

impl Deref for Config {
    type Target = Settings;
    fn deref(&self) -> &Settings {
        &self.settings
    }
}

const SHARES_LEAVE: &str = "flows that leave, with `unproven_max`, a place of `rx_flows_max`";

fn in_rtt_range(rtt: Duration) -> bool {
    rtt > Duration::ZERO && rtt <= Settings::RTT_MAX
}

fn is_psn_window(n: u32) -> bool {
    n.is_power_of_two() && (128..=1 << 20).contains(&n)
}

#[cfg(test)]
mod tests;
