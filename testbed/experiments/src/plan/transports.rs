//! Transports: presets of controller, load balancer, scheduler and switch features. One entry a
//! system.

mod parts;

use transport::cc::CcKind;
use transport::lb::LbKind;
use transport::sched::SchedKind;

use parts::{
    DCQCN_HPCC, DCSIM, DCSIM_BEYOND, DCSIM_IN_ORDER, DCTCP_ZEROPOD, DROP_TAIL, LONG_QUEUES, MLCC,
    MLCC_BEYOND, MLCC_PAPER, PFABRIC, PHANTOM, RED, RED_INSIDE, SHORT_QUEUES, SITES,
    TIMEOUTS_ACROSS, TOKENS, UNO_PAPER, ZEROPOD, one_path,
};

/// A named choice of parts.
#[derive(Clone, Copy, Debug)]
pub struct Transport {
    /// The name in scenarios and on the command line.
    pub name: &'static str,
    /// One line for lists.
    pub about: &'static str,
    /// Congestion control.
    pub cc: CcKind,
    /// Load balancer.
    pub lb: LbKind,
    /// Scheduler.
    pub sched: SchedKind,
    /// Whether switches trim.
    pub trim: bool,
    /// Parameters that differ from their policies' defaults, as `--set` takes them.
    set: &'static [Settings],
}

/// Parameters and their values, as `--set` takes them.
type Settings = &'static [(&'static str, &'static str)];

impl Transport {
    /// The parameters that it sets, and to what.
    pub fn set(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        self.set.iter().flat_map(|settings| settings.iter().copied())
    }

    /// Whether its runs are computed flow by flow, without packets. The only settings that such
    /// runs read are the sizes of packets.
    #[must_use]
    pub fn is_ideal(&self) -> bool {
        self.name == IDEAL.name
    }
}

//= zeropod#V-A: the ideal of the paper that it names, pfabric#3.
const IDEAL: Transport = Transport {
    name: "ideal",
    about: "no protocol: one scheduler sees all flows, the least left first; computed, sim alone",
    cc: CcKind::Fixed,
    lb: LbKind::Spray,
    sched: SchedKind::RoundRobin,
    trim: false,
    set: &[DROP_TAIL],
};

/// Every preset.
pub const TRANSPORTS: &[Transport] = &[
    Transport {
        name: "smartt",
        about: "SMaRTT over REPS with trimming (the basis of UEC NSCC), with improvements of ours",
        cc: CcKind::Smartt,
        lb: LbKind::Reps,
        sched: SchedKind::RoundRobin,
        trim: true,
        set: &[],
    },
    Transport {
        name: "smartt-paper",
        about: "SMaRTT over REPS with trimming, exactly as in its paper",
        cc: CcKind::Smartt,
        lb: LbKind::Reps,
        sched: SchedKind::RoundRobin,
        trim: true,
        set: &[&[
            ("cc.smartt.qa_share", "measured"),
            ("cc.smartt.share_split", "off"),
            ("cc.smartt.target_of", "path"),
            ("cc.smartt.window_start", "1.5"),
            ("cc.smartt.start_of", "path"),
            ("cc.smartt.eta", "0"),
            ("lb.explore_order", "uniform"),
        ]],
    },
    //= smartt#sec4
    // The paper gives all the schemes that it compares trimming, to show losses, and leaves
    // balancing out of the comparison: so they all recycle entropies.
    Transport {
        name: "swift",
        about: "Swift: delay against targets, over REPS with trimming",
        cc: CcKind::Swift,
        lb: LbKind::Reps,
        sched: SchedKind::RoundRobin,
        trim: true,
        set: &[],
    },
    Transport {
        name: "mprdma",
        about: "MPRDMA: ECN packet by packet, over REPS with trimming",
        cc: CcKind::Mprdma,
        lb: LbKind::Reps,
        sched: SchedKind::RoundRobin,
        trim: true,
        set: &[],
    },
    Transport {
        name: "dctcp",
        about: "DCTCP: the share of marks per window, over REPS with trimming",
        cc: CcKind::Dctcp,
        lb: LbKind::Reps,
        sched: SchedKind::RoundRobin,
        trim: true,
        set: &[],
    },
    //= uno#5.1
    // Switches drop; a phantom queue as large as the longest BDP beside each queue marks from a
    // small share of it on. Drain rate and thresholds, like UnoCC's own settings, are the better of
    // the paper's and its simulator's, or better than both where neither binds (docs/RESULTS.md).
    // The paper's balancer is `--lb subflow`, which moves subflows as `lb.reroute` says.
    Transport {
        name: "uno",
        about: "Uno: UnoCC over wary spraying with phantom queues, with improvements of ours",
        cc: CcKind::UnoCc,
        lb: LbKind::Wary,
        sched: SchedKind::RoundRobin,
        trim: false,
        set: &[
            TIMEOUTS_ACROSS,
            RED,
            PHANTOM,
            &[
                ("switch.qdisc", "phantom"),
                ("switch.phantom.drain", "0.96"),
                ("lb.reroute", "mixed"),
            ],
        ],
    },
    Transport {
        name: "uno-paper",
        about: "Uno to the letter of its paper, which cuts flows that have little to send",
        cc: CcKind::UnoCc,
        lb: LbKind::Subflow,
        sched: SchedKind::RoundRobin,
        trim: false,
        set: &[
            TIMEOUTS_ACROSS,
            RED,
            UNO_PAPER,
            &[
                ("cc.unocc.qa_in_flight", "off"),
                ("cc.unocc.empty_packets", "0"),
                ("cc.unocc.on_loss", "ignore"),
            ],
        ],
    },
    Transport {
        name: "uno-mended",
        about: "Uno as in its paper, with the least that its letter lacks",
        cc: CcKind::UnoCc,
        lb: LbKind::Subflow,
        sched: SchedKind::RoundRobin,
        trim: false,
        set: &[TIMEOUTS_ACROSS, RED, UNO_PAPER],
    },
    Transport {
        name: "uno-artifact",
        about: "Uno as the simulator behind its paper's figures runs it",
        cc: CcKind::UnoCc,
        lb: LbKind::Subflow,
        sched: SchedKind::RoundRobin,
        trim: false,
        set: &[
            TIMEOUTS_ACROSS,
            &[
                ("switch.qdisc", "phantom"),
                ("switch.phantom.drain", "0.952"),
                ("switch.phantom.kmin", "0.02"),
                ("switch.phantom.kmax", "0.6"),
                ("switch.phantom.physical", "off"),
                ("cc.unocc.k", "0.14016"),
                ("cc.unocc.alpha", "0.001"),
                ("cc.unocc.ewma_gain", "0.65"),
                ("cc.unocc.epoch", "rtt"),
                ("cc.unocc.gentle", "flat"),
                ("cc.unocc.md_scale", "0.35"),
                ("cc.unocc.on_ecn_falling", "increase"),
                ("cc.unocc.qa_scaling", "0.96"),
                ("cc.unocc.qa_rtts", "1.05"),
                ("cc.unocc.qa_measure", "bytes"),
                ("cc.unocc.qa_early", "0"),
                ("cc.unocc.qa_sent", "off"),
                ("cc.unocc.qa_in_flight", "off"),
                ("cc.unocc.empty_delay", "0ns"),
                ("cc.unocc.empty_rtts", "0.055"),
                ("cc.unocc.on_loss", "ignore"),
                ("cc.unocc.loss_max", "1"),
                ("cc.unocc.fast_increase", "0"),
                ("cc.unocc.share", "measured"),
                ("cc.unocc.window_min", "1"),
                ("lb.reroute", "drawn"),
                ("ec.block_timer", "whole"),
            ],
        ],
    },
    // Transports that Uno is compared with. Between the sites Gemini reacts to delay, and BBR to
    // bandwidth.
    one_path(
        "gemini",
        "Gemini: ECN inside a datacentre and delay across, one path a flow",
        CcKind::Gemini,
        &[TIMEOUTS_ACROSS, RED, RED_INSIDE],
    ),
    one_path(
        "mprdma-bbr",
        "MPRDMA inside a datacentre and BBR across, one path a flow",
        CcKind::MprdmaBbr,
        &[TIMEOUTS_ACROSS, RED, RED_INSIDE],
    ),
    // A host uses SMaRTT to its neighbours and Uno to the other datacentre at once. SMaRTT's target
    // must not follow the longest path of the network, which is Uno's, unless sites are so near
    // that no path is far: then all flows have SMaRTT, and one target. Where switches trim, only
    // marks limit the bytes that UnoCC has in flight (docs/RESULTS.md). SMaRTT fills a link, so a
    // slower phantom queue stays full, and keeps a queue that is no reason for UnoCC to give way.
    // `lb.reroute` is for `far.lb=subflow`: a far subflow that loses has a full path, as one
    // of `uno` with `--lb subflow`.
    Transport {
        name: "auto",
        about: "SMaRTT over REPS inside, UnoCC over wary spraying across, by the base RTT",
        cc: CcKind::Smartt,
        lb: LbKind::Reps,
        sched: SchedKind::RoundRobin,
        trim: true,
        set: &[
            TIMEOUTS_ACROSS,
            RED,
            PHANTOM,
            &[
                ("far.cc", "unocc"),
                ("far.lb", "wary"),
                ("lb.reroute", "mixed"),
                ("cc.smartt.target_of", "near"),
                ("cc.unocc.on_loss", "ignore"),
                ("cc.unocc.empty_delay", "15us"),
                ("switch.qdisc", "phantom-trim"),
                ("switch.phantom.drain", "1"),
            ],
        ],
    },
    // RoCEv2 is in order, so a flow has one path. Its go-back-N is not modelled: nothing is lost
    // unless a fault loses it, and then single segments are sent again as for all others. Its
    // timeouts are far longer than any pause, and it has no probes.
    one_path(
        "roce",
        "RoCEv2: DCQCN on one path a flow, over lossless Ethernet (PFC)",
        CcKind::Dcqcn,
        &[&[("switch.qdisc", "lossless"), ("loss.tail_probe", "off"), ("loss.rto_min", "4ms")]],
    ),
    one_path(
        "mlcc",
        "MLCC: loops inside both sites and across, with our improvements; PowerTCP inside",
        CcKind::PowerTcp,
        &[DROP_TAIL, SITES, SHORT_QUEUES, MLCC, MLCC_BEYOND],
    ),
    one_path(
        "mlcc-paper",
        "MLCC as in its paper, with the damping that its equations lack; HPCC inside",
        CcKind::Hpcc,
        &[DROP_TAIL, SITES, LONG_QUEUES, MLCC, MLCC_PAPER],
    ),
    one_path(
        "mlcc-literal",
        "MLCC as its equations are printed, which oscillates",
        CcKind::Hpcc,
        &[DROP_TAIL, SITES, LONG_QUEUES, MLCC, MLCC_PAPER, &[("rc.mlcc.leak", "off")]],
    ),
    // Six switches are on a path across; a packet with less room is never followed.
    one_path(
        "hpcc",
        "HPCC on one path a flow: the load of every link, by telemetry",
        CcKind::Hpcc,
        &[DROP_TAIL, SITES, LONG_QUEUES, &[("switch.int_room", "6")]],
    ),
    one_path(
        "powertcp",
        "PowerTCP on one path a flow: the power of the busiest link, by telemetry",
        CcKind::PowerTcp,
        &[DROP_TAIL, SITES, LONG_QUEUES, &[("switch.int_room", "6")]],
    ),
    one_path(
        "theta-powertcp",
        "Theta-PowerTCP on one path a flow: the power that round-trip times show",
        CcKind::ThetaPowerTcp,
        &[DROP_TAIL, SITES, LONG_QUEUES],
    ),
    one_path(
        "timely",
        "Timely on one path a flow: round-trip times and their gradient",
        CcKind::Timely,
        &[DROP_TAIL, SITES, LONG_QUEUES],
    ),
    one_path(
        "dcqcn-hpcc",
        "DCQCN as on network cards, with the settings of HPCC's authors, on one path a flow",
        CcKind::Dcqcn,
        &[SITES, LONG_QUEUES, DCQCN_HPCC],
    ),
    Transport {
        name: "fixed-window",
        about: "a constant window over oblivious spraying: no congestion control, for comparison",
        cc: CcKind::Fixed,
        lb: LbKind::Spray,
        sched: SchedKind::RoundRobin,
        trim: true,
        set: &[],
    },
    //= smartt#VI
    Transport {
        name: "eqds",
        about: "receivers give out credit at their link's rate, as EQDS and NDP do, over REPS",
        cc: CcKind::Fixed,
        lb: LbKind::Reps,
        sched: SchedKind::Credits,
        trim: true,
        // A tenth above what credit at the line rate keeps in flight. With nothing above it, a flow
        // whose round trip is longer for a while loses credit for good. With half above it, an
        // oversubscribed network gets half as much again, and trims it.
        set: &[&[("cc.fixed.bdps", "1.1")]],
    },
    Transport {
        name: "eqds-smartt",
        about: "EQDS with SMaRTT's window beside the credit, for congestion inside the network",
        cc: CcKind::Smartt,
        lb: LbKind::Reps,
        sched: SchedKind::Credits,
        trim: true,
        // Room for the first credit, which is one BDP of segments that open the flow.
        set: &[&[("cc.smartt.window_start", "1.5"), ("cc.smartt.start_of", "path")]],
    },
    Transport {
        name: "dcsim",
        about: "DCsim: a probe goes before each segment on its path, over plain switches",
        cc: CcKind::Fixed,
        lb: LbKind::Spray,
        sched: SchedKind::DcSim,
        trim: false,
        set: &[DCSIM, DCSIM_BEYOND, DCSIM_IN_ORDER],
    },
    // What is in bad order costs a receiver little here, and flows of a BDP take a third. Copies
    // take any path, so flows need not stay on their ports, which costs time where cores are slow.
    Transport {
        name: "dcsim-fast",
        about: "DCsim whose flows send a BDP unasked where lines are idle",
        cc: CcKind::Fixed,
        lb: LbKind::Spray,
        sched: SchedKind::DcSim,
        trim: false,
        set: &[DCSIM, DCSIM_BEYOND, &[("sched.dcsim.unscheduled", "bdp")]],
    },
    //= dcsim#2.3: a token bucket of size B.
    Transport {
        name: "dcsim-paper",
        about: "DCsim exactly as in its paper, whose buckets hold B tokens",
        cc: CcKind::Fixed,
        lb: LbKind::Spray,
        sched: SchedKind::DcSim,
        trim: false,
        //= dcsim#2.3: SIMs, SIM-ACKs and DATA-ACKs of 64 bytes, and as much around DATA's payload.
        set: &[
            DCSIM,
            &[
                ("switch.dcsim.bucket", "12"),
                //= dcsim#2.4: the association is made when a SIM-ACK comes.
                ("sched.dcsim.bind", "ack"),
                ("wire.data_overhead", "64"),
                ("wire.control", "64"),
                // Beyond the paper: where buckets are set to one or two tokens, no DATA is lost in
                // wide mixes. With the 12 tokens above this does nothing.
                ("sched.dcsim.drain", "two-tokens"),
            ],
        ],
    },
    //= dcsim#4.4
    Transport {
        name: "dcsim-async",
        about: "DCsim whose segments leave as soon as their probe is answered",
        cc: CcKind::Fixed,
        lb: LbKind::Spray,
        sched: SchedKind::DcSim,
        trim: false,
        set: &[DCSIM, DCSIM_BEYOND, DCSIM_IN_ORDER, &[("sched.dcsim.fraction", "0")]],
    },
    Transport {
        name: "phost",
        about: "pHost: a BDP unasked, then a token from the receiver for each segment, sprayed",
        cc: CcKind::Fixed,
        lb: LbKind::Spray,
        sched: SchedKind::Phost,
        trim: false,
        set: &[TOKENS],
    },
    Transport {
        name: "dcpim",
        about: "dcPIM: hosts matched in rounds, tokens over the channels matched, sprayed",
        cc: CcKind::Fixed,
        lb: LbKind::Spray,
        sched: SchedKind::DcPim,
        trim: false,
        set: &[TOKENS],
    },
    Transport {
        name: "pfabric",
        about: "pFabric: a BDP at line rate, the least left first at hosts and switches, sprayed",
        cc: CcKind::Pfabric,
        lb: LbKind::Spray,
        sched: SchedKind::Pfabric,
        trim: false,
        set: &[PFABRIC],
    },
    IDEAL,
    Transport {
        name: "zeropod",
        about: "Zeropod: granted slots over switches without buffers, with exact routing",
        cc: CcKind::Fixed,
        lb: LbKind::Spray,
        sched: SchedKind::Zeropod,
        trim: false,
        set: &[
            ZEROPOD,
            &[
                ("sched.zeropod.fair_every", "16"),
                ("sched.zeropod.classes", "mice"),
                ("sched.zeropod.optimistic", "5"),
                ("sched.zeropod.optimistic_copies", "3"),
            ],
        ],
    },
    Transport {
        name: "zeropod-paper",
        about: "Zeropod exactly as in its paper, with its iterative matcher",
        cc: CcKind::Fixed,
        lb: LbKind::Spray,
        sched: SchedKind::Zeropod,
        trim: false,
        set: &[ZEROPOD, &[("sched.zeropod.matcher", "iterative")]],
    },
    // The network that Zeropod's paper compares its pods with: the same tree, with buffers.
    one_path(
        "dctcp-zeropod",
        "the DCTCP with which Zeropod's paper compares: queues of 512 KB, one path a flow",
        CcKind::Dctcp,
        &[DCTCP_ZEROPOD],
    ),
    Transport {
        name: "dctcp-zeropod-spray",
        about: "the DCTCP with which Zeropod's paper compares: queues of 512 KB, sprayed",
        cc: CcKind::Dctcp,
        lb: LbKind::Spray,
        sched: SchedKind::RoundRobin,
        trim: false,
        set: &[DCTCP_ZEROPOD],
    },
    Transport {
        name: "eqds-mprdma",
        about: "EQDS with MPRDMA's window beside the credit, for comparison with eqds-smartt",
        cc: CcKind::Mprdma,
        lb: LbKind::Reps,
        sched: SchedKind::Credits,
        trim: true,
        set: &[],
    },
];

/// The preset called `name`.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Transport> {
    TRANSPORTS.iter().find(|transport| transport.name == name)
}

/// The names of all presets.
#[must_use]
pub fn names() -> Vec<&'static str> {
    TRANSPORTS.iter().map(|transport| transport.name).collect()
}

#[cfg(test)]
mod tests {
    use transport::Duration;
    use transport::cc::unocc::{Epoch, Gentle, OnLoss, QaMeasure, Share, UnoCcParams};

    use super::*;

    /// UnoCC's settings in a preset.
    fn unocc(preset: &str) -> UnoCcParams {
        let mut params = UnoCcParams::default();
        for (key, value) in by_name(preset).unwrap().set() {
            if let Some(key) = key.strip_prefix("cc.unocc.") {
                params.set(key, value).unwrap_or_else(|error| panic!("{key}: {error}"));
            }
        }
        params
    }

    #[test]
    fn each_preset_of_uno_departs_from_the_paper_in_named_settings() {
        let [default, letter, mended] = ["uno", "uno-paper", "uno-mended"].map(unocc);
        assert_eq!(default, UnoCcParams::default());
        let UnoCcParams { qa_in_flight, on_loss, empty_packets, .. } = default;
        // What the letter lacks, and nothing else.
        assert_eq!(UnoCcParams { qa_in_flight, on_loss, empty_packets, ..letter }, mended);
        assert_eq!((letter.qa_in_flight, letter.on_loss), (false, OnLoss::Ignore));
        assert_eq!((letter.empty_packets, letter.empty_delay), (0.0, Duration::ZERO));
        let UnoCcParams { empty_delay, ewma_gain, gentle, qa_measure, .. } = default;
        let UnoCcParams { qa_early, fast_increase, loss_max, epoch, window_min, .. } = default;
        let ours = UnoCcParams { empty_delay, ewma_gain, gentle, qa_measure, ..mended };
        let ours = UnoCcParams { qa_early, fast_increase, loss_max, epoch, window_min, ..ours };
        let UnoCcParams { share, qa_sent, .. } = default;
        assert_eq!(UnoCcParams { share, qa_sent, ..ours }, default);
        assert_eq!((letter.share, letter.qa_sent), (Share::Measured, false));
        assert_eq!((letter.ewma_gain, letter.gentle), (0.5, Gentle::Compound));
        assert_eq!((letter.qa_measure, letter.fast_increase), (QaMeasure::Bytes, 0.0));
        assert_eq!((letter.qa_early, letter.loss_max, letter.window_min), (0.0, 1.0, 1.0));
        assert_eq!((letter.epoch, default.epoch), (Epoch::Intra, Epoch::Least));
        let artifact = unocc("uno-artifact");
        assert_eq!((artifact.gentle, artifact.md_scale), (Gentle::Flat, 0.35));
        assert_eq!((artifact.qa_scaling, artifact.on_loss), (0.96, OnLoss::Ignore));
        assert_eq!((artifact.fast_increase, artifact.qa_early), (0.0, 0.0));
    }
}
