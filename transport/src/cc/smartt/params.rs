//! Settings of SMaRTT: parts and constants of the paper, its ablations, and improvements of
//! ours, each chosen separately.
//!
//! Source: \[smartt\] sec. III. The defaults are the paper's except for `window_start`,
//! `start_of`, `eta`, `target_of`, `qa_share` and `share_split`; the transport preset
//! `smartt-paper` has the paper's values of these, too.

use alloc::format;
use alloc::string::String;

use super::times;
use crate::params::{ParamValue, params, words};
use crate::path::NetworkFacts;
use crate::time::Duration;

words! {
    /// How the increase constants follow the path.
    pub enum Increase: "fair or additive" {
        /// Constants follow the path's own BDP: flows of any base RTT gain alike in one span of
        /// time.
        Fair = "fair",
        /// Constants follow the line rate alone: every flow gains alike in one of its own RTTs
        /// (fig. 6, left).
        Additive = "additive",
    }
}

words! {
    /// The effect of a mark while the delay is still below target.
    pub enum OnEcnLowDelay: "no-op or reduce" {
        /// Leave it to the load balancer.
        NoOp = "no-op",
        /// Take half of the marked bytes off the window, as MPRDMA does (fig. 11).
        Reduce = "reduce",
    }
}

words! {
    /// The quantity to which eq. 1 relates the excess delay.
    pub enum DecreaseBy: "rtt or queueing" {
        /// The average RTT, as the paper writes it.
        Rtt = "rtt",
        /// The average queueing delay, as in the reference simulator: cuts are deeper, and equally
        /// deep for flows of different base RTTs in one queue.
        Queueing = "queueing",
    }
}

words! {
    /// The signals that the core cases use (fig. 5).
    pub enum Signals: "both, ecn or delay" {
        /// Marks and delay.
        Both = "both",
        /// Marks alone: the MPRDMA-like loop that the paper starts from. FastIncrease, which needs
        /// delay, is out.
        EcnOnly = "ecn",
        /// Delay alone: above target counts as marked, below as not marked.
        DelayOnly = "delay",
    }
}

words! {
    /// The base RTT to which the target is relative.
    pub enum TargetOf: "path, near or network" {
        /// The base RTT of the flow's path, as in the paper. Where flows of different base RTTs
        /// share a queue, the far flows keep the queue at their own target, and at such a queue
        /// near flows only decrease.
        Path = "path",
        /// The base RTT of the network's longest path where no path is far ([`FarSettings`]), else
        /// the base RTT of the flow's path: far flows may have another controller.
        ///
        /// [`FarSettings`]: crate::FarSettings
        Near = "near",
        /// The base RTT of the network's longest path,
        /// [`Settings::base_rtt`](crate::Settings::base_rtt): one queueing delay for all flows, as
        /// the reference simulator has it.
        Network = "network",
    }
}

words! {
    /// The base RTT with which eq. 1 reckons.
    pub enum DecreaseOf: "path or network" {
        /// The base RTT of the flow's path. Of two flows that share a queue, the near one then cuts
        /// its window deeper, since the same excess is a larger part of its RTT, and more often.
        Path = "path",
        /// The base RTT of the network's longest path, as if each flow came by it: flows that share
        /// a queue cut their windows by the same part, at most once in the same time. Where all
        /// paths are equally long, nothing changes.
        Network = "network",
    }
}

words! {
    /// The window that QuickAdapt sets.
    pub enum QaShare: "measured or receiver" {
        /// The bytes that arrived in one target RTT, as the paper has it; receivers report nothing.
        Measured = "measured",
        /// At the first trim the window is cut to an equal share of the path among the flows that
        /// share the receiver, whose number the refusal reports. The paper's measurement follows.
        /// An improvement of ours: an incast converges half a base RTT after its first trim, and
        /// all its flows then have equal windows.
        Receiver = "receiver",
    }
}

words! {
    /// The window with which a flow starts.
    pub enum StartOf: "path or recent" {
        /// `window_start` of the path's BDP, whatever other flows meet.
        Path = "path",
        /// The moving average of the windows of the host's flows over equal paths, if it is below
        /// half of the start window and a flow took part within eight base RTTs. An improvement of
        /// ours; see `recent.rs`.
        Recent = "recent",
    }
}

/// How often the window is adjusted, sec. III-G.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Adjustment {
    /// Adapts the window on every acknowledgement.
    PerPacket,
    /// Increases gather until this many bytes are acknowledged or one base RTT has passed.
    Accumulate(u32),
    /// Only every n-th acknowledgement changes the window, and stands for the bytes of all n; 0
    /// counts as 1.
    Sample(u16),
}

impl ParamValue for Adjustment {
    const VALUES: &'static str = "packet, accumulate:BYTES or sample:N";
    fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None => (text == "packet").then_some(Self::PerPacket),
            Some(("accumulate", bytes)) => bytes.parse().ok().map(Self::Accumulate),
            Some(("sample", every)) => every.parse().ok().filter(|n| *n > 0).map(Self::Sample),
            Some(_) => None,
        }
    }
    fn to_word(self) -> u64 {
        match self {
            Self::PerPacket => 0,
            Self::Accumulate(bytes) => 1 << 32 | u64::from(bytes),
            Self::Sample(every) => 2 << 32 | u64::from(every),
        }
    }
    fn from_word(word: u64) -> Option<Self> {
        let value = u32::try_from(word & u64::from(u32::MAX)).ok()?;
        match word >> 32 {
            0 if value == 0 => Some(Self::PerPacket),
            1 => Some(Self::Accumulate(value)),
            2 => u16::try_from(value).ok().map(Self::Sample),
            _ => None,
        }
    }
    fn show(&self) -> String {
        match self {
            Self::PerPacket => String::from("packet"),
            Self::Accumulate(bytes) => format!("accumulate:{bytes}"),
            Self::Sample(every) => format!("sample:{every}"),
        }
    }
}

params! {
    /// Settings of [`Smartt`](super::Smartt). Where the paper gives no value, the comment gives
    /// the source.
    pub struct SmarttParams {
        /// QuickAdapt, sec. III-E.
        quick_adapt: bool = true;
        /// Ignore packets that were in flight when QuickAdapt acted, sec. III-E, fig. 9.
        ignore: bool = true;
        /// FastIncrease, sec. III-F.
        fast_increase: bool = true;
        /// Switches trim, so NACKs trigger QuickAdapt; without, RTT and acknowledged bytes also do.
        trimming: bool = true;
        /// How the increase constants follow the path: fair or additive.
        increase: Increase = Increase::Fair;
        /// The effect of a mark while the delay is below target: no-op or reduce.
        on_ecn_low_delay: OnEcnLowDelay = OnEcnLowDelay::NoOp;
        /// The signals that the core cases use.
        signals: Signals = Signals::Both;
        /// How often the window is adjusted, sec. III-G.
        adjustment: Adjustment = Adjustment::PerPacket;
        /// Target RTT in base RTTs, sec. III-J.
        target_rtt: f32 = 1.5, in 1.01..=16.0;
        /// The base RTT that `target_rtt` multiplies to give the queueing delay at the target:
        /// path, near or network.
        target_of: TargetOf = TargetOf::Network;
        /// Queueing delay at the target; 0 takes `target_rtt` and `target_of` instead.
        target_queue: Duration = Duration::ZERO, in Duration::ZERO..=TARGET_QUEUE_MAX;
        /// Fair increase, packets per RTT at the reference BDP of 150 KB; see `FI`.
        fi: f32 = FI, in 0.0..=64.0;
        /// Proportional increase, packets per RTT at an empty queue and the reference BDP: 1 is eq.
        /// 3's pi.
        pi: f32 = 1.0, in 0.0..=64.0;
        /// FastIncrease, packets per acknowledged packet.
        k: f32 = 2.0, in 0.0..=64.0;
        /// How far above the base RTT still counts as equal to it, in base RTTs; see `FAST_SLACK`.
        fast_slack: f32 = FAST_SLACK, in 0.0..=1.0;
        /// Weight of relative excess delay in the multiplicative decrease, eq. 1.
        md_factor: f32 = 0.8, in 0.0..=1.0;
        /// The quantity to which that excess is relative: rtt or queueing.
        decrease_by: DecreaseBy = DecreaseBy::Rtt;
        /// The base RTT that is part of eq. 1's RTT, and that is the least time between two
        /// decreases: path or network.
        decrease_of: DecreaseOf = DecreaseOf::Path;
        /// That base RTT, where it is longer than the path's own; 0 takes `decrease_of` instead.
        decrease_rtt: Duration = Duration::ZERO, in Duration::ZERO..=TARGET_QUEUE_MAX;
        /// Weight of a new sample in the average RTT; see `EWMA_GAIN`.
        ewma_gain: f32 = EWMA_GAIN, in 0.0..=1.0;
        /// Largest window in BDPs, sec. III-J.
        window_max: f32 = 1.5, in 0.01..=64.0;
        /// Initial window in BDPs, at most `window_max`; see `WINDOW_START`.
        window_start: f32 = WINDOW_START, in 0.01..=64.0;
        /// Packets that the initial window has at least, up to `window_max`; see
        /// `WINDOW_START_PACKETS`.
        window_start_packets: u16 = WINDOW_START_PACKETS, in 1..=4096;
        /// Whether a flow starts with that window or with that of its host's flows: path or recent.
        start_of: StartOf = StartOf::Recent;
        /// What a small window gains at the first acknowledgement of a base RTT in which no trim
        /// came first, packets at the reference BDP; nothing where the flow has its share of a
        /// receiver. See `ETA`.
        eta: f32 = ETA, in 0.0..=64.0;
        /// Windows below this one are small, BDPs; see `ETA_BELOW`.
        eta_below: f32 = ETA_BELOW, in 0.0..=64.0;
        /// The source of QuickAdapt's share: measured or receiver.
        qa_share: QaShare = QaShare::Receiver;
        /// When flows leave a shared receiver, those that stay split the freed share, as its
        /// acknowledgements report it, up to an equal share. An improvement of ours: FastIncrease
        /// waits for a window of acknowledgements over an empty path, which a busy last hop is not.
        share_split: bool = true;
        /// The window that QuickAdapt sets, in multiples of the bytes received in one target RTT.
        qa_scaling: f32 = 1.0, in 0.01..=16.0;
        /// Without trimming: the RTT is high when above this many target RTTs.
        qa_high_rtt: f32 = 1.0, in 0.1..=64.0;
        /// Without trimming: acknowledged bytes are low when below this part of the window in use.
        qa_low_acked: f32 = 0.5, in 0.0..=1.0;
    }
}

const TARGET_QUEUE_MAX: Duration = Duration::from_s(1);
/// The paper tunes fi without giving its value. These figures are of 8:1, 16:1 and 32:1 incasts of
/// 64 KiB to 4 MiB and five seeds in the simulated 128-host tree. The worst slowdown is 1.035 at
/// 0.3, 1.044 at 0.6 and 1.045 at 1. Larger values help oversubscribed permutations by up to 2 %.
/// With the reference simulator's 5, up to five times as many packets are trimmed (tests/model),
/// and the fastest flow finishes in a third of the slowest one's time.
const FI: f32 = 0.3;
/// The reference simulator's 1 us of queueing at a base RTT of 12 us.
const FAST_SLACK: f32 = 1.0 / 12.0;
/// The reference simulator's gain; the paper has an EWMA but gives no gain.
const EWMA_GAIN: f32 = 0.0125;
/// The paper bounds the window at 1.5 BDP "to manage transient bursts" (sec. III-J) and does not
/// say where it starts; the reference simulator starts at 1.5 BDP. One BDP fills an idle path for
/// the round trip until feedback comes. Packets beyond it are sent without any feedback. Where the
/// path gives an eighth of the line rate, nearly all of them are trimmed.
const WINDOW_START: f32 = 1.0;
/// Where a BDP is a few packets, a window that starts too small grows slowly, by one packet a round
/// trip. The BDP of the emulated testbed is eleven packets. Permutations there take 13 to 15 %
/// longer than the bound when they start with one BDP, and 3 % longer with one and a half.
const WINDOW_START_PACKETS: u16 = 32;

/// The reference simulator's eta.
const ETA: f32 = 0.15;
/// The reference simulator gives eta to every window, which makes the mean flow of an incast up to
/// 1.7 % longer here. At 8:1 and 800 Gb/s, 276 packets a BDP, flows of an all-to-all that have come
/// down to at most four packets stay there: without eta the longest of 16,256 flows takes 1.5 to
/// 2.2 times as long. Where a BDP has at most 64 packets, no window is so small, and eta has no
/// effect.
const ETA_BELOW: f32 = 1.0 / 64.0;

impl SmarttParams {
    /// Sets the target and eq. 1's base RTT by the network's longest path, and `trimming` by what
    /// the switches do.
    pub(super) fn resolve(&mut self, facts: &NetworkFacts) {
        self.trimming &= facts.trims.unwrap_or(true);
        let of_all = match self.target_of {
            TargetOf::Path => None,
            TargetOf::Near => facts.near_rtt,
            TargetOf::Network => facts.base_rtt,
        };
        if let (true, Some(base_rtt)) = (self.target_queue == Duration::ZERO, of_all) {
            let queue = times(base_rtt, f64::from(self.target_rtt) - 1.0);
            self.target_queue = queue.min(TARGET_QUEUE_MAX);
        }
        let by_network =
            self.decrease_of == DecreaseOf::Network && self.decrease_rtt == Duration::ZERO;
        if let (true, Some(base_rtt)) = (by_network, facts.base_rtt) {
            self.decrease_rtt = base_rtt.min(TARGET_QUEUE_MAX);
        }
    }
}
