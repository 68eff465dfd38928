//! Settings that several presets share, or that are the switches and hosts of one.

use transport::cc::CcKind;
use transport::lb::LbKind;
use transport::sched::SchedKind;

use super::{Settings, Transport};

/// A preset whose flows have one path each, over switches that do not trim.
pub(super) const fn one_path(
    name: &'static str,
    about: &'static str,
    cc: CcKind,
    set: &'static [Settings],
) -> Transport {
    let (lb, sched) = (LbKind::Ecmp, SchedKind::RoundRobin);
    Transport { name, about, cc, lb, sched, trim: false, set }
}

/// Timeouts where paths are 14 us and 1.8 ms long. Seven round trips, which suit a datacentre, are
/// 12.5 ms across. The simulator behind Uno's figures uses a base RTT and the longest queueing, for
/// every transport: 14 + 400 us inside, 1792 + 640 us across.
pub(super) const TIMEOUTS_ACROSS: Settings = &[("loss.rto", "1.25"), ("loss.rto_min", "414us")];

//= uno#5.1
/// Marks from a quarter to three quarters of a queue.
pub(super) const RED: Settings = &[("switch.kmin", "0.25"), ("switch.kmax", "0.75")];

/// Marks by a phantom queue beside each queue, as large as the longest BDP.
pub(super) const PHANTOM: Settings =
    &[("switch.phantom.kmin", "0.005"), ("switch.phantom.kmax", "0.2")];

/// UnoCC and its switches as in the paper, with the few rules that the paper's letter lacks: all
/// that `uno-mended` sets. `uno-paper` takes these rules out again.
//= uno#4.1
pub(super) const UNO_PAPER: Settings = &[
    ("switch.qdisc", "phantom"),
    ("cc.unocc.alpha", "0.001"),
    ("cc.unocc.ewma_gain", "0.5"),
    ("cc.unocc.epoch", "intra"),
    ("cc.unocc.gentle", "compound"),
    ("cc.unocc.md_scale", "0.3"),
    ("cc.unocc.on_ecn_falling", "decrease"),
    ("cc.unocc.qa_scaling", "1"),
    ("cc.unocc.qa_rtts", "1"),
    ("cc.unocc.qa_measure", "bytes"),
    ("cc.unocc.qa_early", "0"),
    ("cc.unocc.qa_sent", "off"),
    ("cc.unocc.empty_delay", "0ns"),
    ("cc.unocc.empty_rtts", "0"),
    ("cc.unocc.loss_max", "1"),
    ("cc.unocc.fast_increase", "0"),
    ("cc.unocc.share", "measured"),
    ("cc.unocc.window_min", "1"),
    ("ec.block_timer", "whole"),
];

/// DCsim's hosts and switches. Its hosts decide when a segment leaves, so the window is so large
/// that it never holds a segment back. Only the flow's timer finds lost segments. The scheduler
/// sets a least timeout that is long enough.
pub(super) const DCSIM: Settings = &[
    ("switch.qdisc", "dcsim"),
    ("cc.fixed.bdps", "64"),
    ("loss.reorder_window", "off"),
    ("loss.tail_probe", "off"),
    //= dcsim#2.4
    ("loss.backoff_max", "4"),
];

/// What DCsim has beyond its paper; docs/results/dcsim.md has the gain and the price of each. Ports
/// on which SIMs were answered are used again: where half the cores are slow, that takes off two
/// fifths of the time. RTT_max is the tighter bound where that holds: every flow begins earlier.
/// Flows leave SIM-ACKs unused while their segments meet long queues: wide mixes lose no DATA.
pub(super) const DCSIM_BEYOND: Settings =
    &[("sched.dcsim.recycle", "8"), ("sched.dcsim.rtt_max", "auto"), ("sched.dcsim.drain", "auto")];

/// Also beyond the paper: flows of a collective of which a host has at least four send all SIMs
/// from one port until one is lost, so that their segments come in order.
pub(super) const DCSIM_IN_ORDER: Settings = &[("sched.dcsim.stay", "true")];

/// Hosts that send against tokens, over plain switches. Tokens say when a segment leaves, so the
/// window is so large that it never holds a segment back. Reordering is no sign of loss where
/// packets are sprayed.
pub(super) const TOKENS: Settings = &[
    ("switch.qdisc", "drop-tail"),
    ("cc.fixed.bdps", "64"),
    ("loss.reorder_window", "off"),
    ("loss.tail_probe", "off"),
];

/// pFabric's hosts and switches: a BDP at once, and a timer that is as short after many timeouts as
/// after one. A flow with much left waits until others have ended, so its silence does not mean
/// that its peer is gone.
//= pfabric#4
pub(super) const PFABRIC: Settings = &[
    ("switch.qdisc", "pfabric"),
    ("loss.reorder_window", "off"),
    ("loss.tail_probe", "off"),
    ("loss.backoff_max", "0"),
    ("loss.give_up", "1s"),
];

/// Zeropod's hosts and switches. Its hosts decide when a cell leaves, so the window is so large
/// that it never holds a cell back. A cell is lost when no receipt of it comes. A flow with much
/// left waits until others have ended, so its silence does not mean that its peer is gone.
pub(super) const ZEROPOD: Settings = &[
    ("switch.qdisc", "bufferless"),
    ("switch.routing", "explicit"),
    ("nic.qdisc", "bufferless"),
    ("cc.fixed.bdps", "64"),
    ("loss.reorder_window", "off"),
    ("loss.tail_probe", "off"),
    ("loss.give_up", "1s"),
    //= zeropod#V-A
    ("mtu", "512"),
    ("wire.data_overhead", "40"),
    ("wire.data_min", "512"),
    ("wire.control", "40"),
];

/// Switches and packets of the DCTCP with which Zeropod's paper compares. All packets are marked
/// from K on, a seventh of the BDP of one pod: 14.9 KB of the 512 KB of a port. Packets are as the
/// paper's TCP has them.
//= zeropod#V-A
pub(super) const DCTCP_ZEROPOD: Settings = &[
    ("switch.qdisc", "ecn"),
    ("switch.queue", "512KB"),
    ("switch.kmin", "0.0291"),
    ("switch.kmax", "0.0292"),
    ("mtu", "1460"),
    ("wire.data_overhead", "40"),
    ("wire.control", "40"),
];

/// Marks show queues inside a site alone: border switches have none.
pub(super) const RED_INSIDE: Settings =
    &[("switch.qdisc", "ecn"), ("switch.border_qdisc", "drop-tail")];

/// Switches that neither mark nor trim.
pub(super) const DROP_TAIL: Settings = &[("switch.qdisc", "drop-tail")];

/// Two sites whose switches drop instead of pausing: a link of 3 ms leaves no room for headroom.
/// Buffers are the paper's, for each port.
//= mlcc#4.1
pub(super) const SITES: Settings = &[
    ("switch.queue", "22MB"),
    ("switch.border_queue", "128MB"),
    ("loss.tail_probe", "off"),
    ("loss.rto_min", "4ms"),
];

/// Timeouts where a packet can wait at the far border for several round trips.
pub(super) const LONG_QUEUES: Settings = &[("loss.rto", "8")];

/// Timeouts where a packet waits at the far border for less than a round trip.
pub(super) const SHORT_QUEUES: Settings = &[("loss.rto", "3")];

/// DCQCN as on network cards, with the settings of HPCC's authors. Marks are a share of a port's
/// buffer, between those for 25 and for 100 Gb/s.
pub(super) const DCQCN_HPCC: Settings = &[
    ("switch.qdisc", "ecn"),
    ("switch.kmin", "0.009"),
    ("switch.kmax", "0.036"),
    ("cc.dcqcn.cnp_interval", "4us"),
    ("cc.dcqcn.alpha_timer", "1us"),
    ("cc.dcqcn.timer", "900us"),
    ("cc.dcqcn.byte_counter", "4294967295"),
    ("cc.dcqcn.fast_recovery", "1"),
    ("cc.dcqcn.clamp_target", "off"),
    ("cc.dcqcn.rate_ai", "0.002"),
    ("cc.dcqcn.rate_hai", "0.004"),
    ("cc.dcqcn.rate_min", "0.004"),
];

/// Flows across are MLCC's; border switches take part.
pub(super) const MLCC: Settings = &[
    ("far.cc", "mlcc"),
    ("switch.program", "dci@border"),
    ("switch.int_room", "4"),
    // Flows keep one path, on which a gap is a loss.
    ("loss.reorder_window", "0"),
];

/// Where MLCC leaves its paper. A queue is brought to D_t from below, too. theta and D_t follow the
/// distance: three RTT_C and a sixth of one are about the paper's 18 ms and 1 ms on its network.
/// With an RTT_C of 16 ms and a theta of 18 ms queues may oscillate until the border's buffer is
/// full.
pub(super) const MLCC_BEYOND: Settings =
    &[("rc.mlcc.below", "eq5"), ("rc.mlcc.theta_rtts", "3"), ("rc.mlcc.dt_rtts", "0.1666667")];

/// Settings of MLCC's paper that differ from our defaults: queues start at line rate and are
/// bounded by it alone. Packets are those of the simulator that its baselines come from: 90 bytes
/// around payload, 102 without.
pub(super) const MLCC_PAPER: Settings = &[
    ("cc.mlcc.first", "auto"),
    ("cc.mlcc.equal", "off"),
    ("rc.mlcc.initial", "line"),
    ("switch.dci.clock", "0"),
    ("switch.dci.equal", "off"),
    ("wire.data_overhead", "90"),
    ("wire.control", "102"),
];
