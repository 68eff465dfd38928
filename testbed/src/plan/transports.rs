//! Transports: presets of controller, load balancer, scheduler and switch features. One entry a
//! system.

use transport::cc::CcKind;
use transport::lb::LbKind;
use transport::sched::SchedKind;

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
    pub set: &'static [(&'static str, &'static str)],
}

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
        set: &[
            ("cc.smartt.qa_share", "measured"),
            ("cc.smartt.share_split", "off"),
            ("cc.smartt.target_of", "path"),
            ("cc.smartt.window_start", "1.5"),
            ("lb.explore_order", "uniform"),
        ],
    },
    //= smartt#sec4
    // The paper gives all the schemes that it compares trimming, to tell of losses, and leaves
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
    // RoCEv2 is in order, so a flow has one path. Its go-back-N is not modelled: nothing is lost
    // unless a fault loses it, and then single segments are sent again as for everybody else. Its
    // timeouts are far longer than any pause, and it has no probes.
    Transport {
        name: "roce",
        about: "RoCEv2: DCQCN on one path a flow, over lossless Ethernet (PFC)",
        cc: CcKind::Dcqcn,
        lb: LbKind::Ecmp,
        sched: SchedKind::RoundRobin,
        trim: false,
        set: &[("switch.qdisc", "lossless"), ("loss.tail_probe", "off"), ("loss.rto_min", "4ms")],
    },
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
        // A tenth above what credit at the line rate keeps in flight: with none, a flow whose round
        // trip is longer for a while loses credit for good; with half, an oversubscribed network is
        // sent half as much again that it trims.
        set: &[("cc.fixed.bdps", "1.1")],
    },
    Transport {
        name: "eqds-smartt",
        about: "EQDS with SMaRTT's window beside the credit, for congestion inside the network",
        cc: CcKind::Smartt,
        lb: LbKind::Reps,
        sched: SchedKind::Credits,
        trim: true,
        // Room for the first credit, which is one BDP of segments that open the flow.
        set: &[("cc.smartt.window_start", "1.5")],
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
