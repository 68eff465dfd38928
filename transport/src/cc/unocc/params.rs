//! Settings of UnoCC: the paper's, what its simulator does where that differs, and choices of ours.
//!
//! Source: \[uno\] sec. 4.1, 5.1.

use crate::params::{params, words};
use crate::path::NetworkFacts;
use crate::time::Duration;

words! {
    /// How long an epoch is.
    pub enum Epoch: "intra, least or rtt" {
        /// One RTT inside a datacentre, for every flow.
        Intra = "intra",
        /// One RTT inside a datacentre, or the base RTT of a path that is shorter: flows below one
        /// switch give way as often as they gain.
        Least = "least",
        /// The RTT just measured, scaled down by the ratio of the flow's base RTT to that of a flow
        /// inside a datacentre.
        Rtt = "rtt",
    }
}

words! {
    /// How the gentle reduction behaves while only phantom queues are congested.
    pub enum Gentle: "compound or flat" {
        /// Each such epoch scales it down further, until a real queue restores it.
        Compound = "compound",
        /// The factor applies once, in each such epoch alike.
        Flat = "flat",
    }
}

words! {
    /// The effect of a marked epoch when the average of marks falls.
    pub enum OnEcnFalling: "decrease or increase" {
        /// A decrease, as in every marked epoch.
        Decrease = "decrease",
        /// One more additive increase for all packets that the epoch acknowledged, and no decrease.
        Increase = "increase",
    }
}

words! {
    /// The quantity by which QuickAdapt sets the window.
    pub enum QaMeasure: "bytes or rate" {
        /// The bytes acknowledged in its RTT.
        Bytes = "bytes",
        /// The rate at which bytes were acknowledged while acknowledgements came, times an RTT. A
        /// flow shorter than its path sends all it has in a part of an RTT, so that the bytes of an
        /// RTT do not show what the path carries.
        Rate = "rate",
    }
}

words! {
    /// The effect of a lost segment, about which the paper says nothing.
    pub enum OnLoss: "reduce or ignore" {
        /// Takes the lost bytes off the window, as the simulator does by default.
        Reduce = "reduce",
        /// The loss has no effect: marks and QuickAdapt alone move the window.
        Ignore = "ignore",
    }
}

words! {
    /// The part of the count of flows that the receiver reports.
    pub enum Share: "measured, across, leaving or receiver" {
        /// None: marks, losses and QuickAdapt alone move the window, as in the paper.
        Measured = "measured",
        /// As `receiver`, for paths longer than those inside a datacentre alone.
        Across = "across",
        /// As `across`. Besides, a flow, near or far, that meets no congestion for an RTT begins
        /// its fast increase as soon as the receiver counts fewer flows.
        Leaving = "leaving",
        /// When flows come, the window becomes at most an equal share of the receiver's line,
        /// unless it has more than two shares, which others leave to it. When flows leave, it gets
        /// back what the count took. An improvement of ours.
        Receiver = "receiver",
    }
}

params! {
    /// Settings of [`UnoCc`](super::UnoCc). The defaults are the paper's, with three exceptions,
    /// which the comment of a setting names. The paper gives no value, the paper can be read in two
    /// ways, or another value wins on mixes of traffic that a seed draws (docs/RESULTS.md). The
    /// preset `uno-paper` follows the paper to the letter; `uno-mended` adds what the letter lacks.
    pub struct UnoCcParams {
        /// RTT inside a datacentre: sets the epoch and K, alike for every flow.
        //= uno#5.1
        intra_rtt: Duration = Duration::from_us(14),
            in Duration::from_ns(100)..=Duration::from_s(1);
        /// AI factor: what an RTT without marks adds, in BDPs. Where the network is known to be one
        /// datacentre, it is 0.032 unless it is set.
        alpha: f32 = ALPHA, in 0.0..=1.0;
        /// K, MD constant, in BDPs of a flow inside a datacentre.
        k: f32 = 1.0 / 7.0, in 0.0..=16.0;
        /// Weight of the last epoch in E, the average of marked fractions. The paper has an EWMA
        /// but gives no weight. Near and far flows get a handful of acknowledgements in an epoch;
        /// the less the average jumps, the more alike they cut.
        ewma_gain: f32 = 0.125, in 0.0..=1.0;
        /// How long an epoch is.
        epoch: Epoch = Epoch::Least;
        /// How the gentle reduction behaves while only phantom queues are congested. Compounded, it
        /// vanishes after a few epochs without a real queue, and shares stay as they are; the
        /// simulator behind the paper's figures scales it once.
        gentle: Gentle = Gentle::Flat;
        /// MD_scale: the factor of the gentle reduction, algorithm 1 line 10.
        md_scale: f32 = 0.3, in 0.0..=1.0;
        /// Queueing delay up to which queues count as empty. The paper compares with zero, which no
        /// measurement is.
        empty_delay: Duration = Duration::from_us(1), in Duration::ZERO..=Duration::from_s(1);
        /// Queueing delay up to which queues count as empty, in packets at the line rate; the
        /// largest of this, `empty_delay` and `empty_rtts` counts.
        empty_packets: f32 = 2.0, in 0.0..=64.0;
        /// Queueing delay up to which queues count as empty, in base RTTs.
        empty_rtts: f32 = 0.0, in 0.0..=1.0;
        /// The effect of a marked epoch when E falls: decrease or increase.
        on_ecn_falling: OnEcnFalling = OnEcnFalling::Decrease;
        /// QuickAdapt, sec. 4.1.2.
        quick_adapt: bool = true;
        /// beta, QA factor: below this part of the window acknowledged in one RTT, QuickAdapt acts.
        qa_factor: f32 = 0.5, in 0.0..=1.0;
        /// The window that QuickAdapt sets, in multiples of the bytes acknowledged.
        qa_scaling: f32 = 1.0, in 0.01..=16.0;
        /// How long QuickAdapt counts, in base RTTs.
        qa_rtts: f32 = 1.0, in 0.1..=16.0;
        /// The measure that QuickAdapt takes for the bytes acknowledged in an RTT. The paper uses
        /// the bytes. For a flow that ends within an RTT or two, these are far fewer than its path
        /// carries, and alpha does not make up for the difference.
        qa_measure: QaMeasure = QaMeasure::Rate;
        /// QuickAdapt expects no more bytes than were in flight when it began to count. So a flow
        /// with little to send does not count as a starved one.
        qa_in_flight: bool = true;
        /// QuickAdapt expects no more bytes than the flow sent in the period before at its rate.
        /// Then a flow does not count as starved when lost packets fill its window, before their
        /// loss is found.
        qa_sent: bool = true;
        /// The share of the measured rate to which QuickAdapt by rate cuts at once when most of a
        /// burst is lost, instead of waiting for the end of its RTT; 0 always waits. The paper
        /// waits, and lost packets of a message shorter than its path are then sent again as fast
        /// as before. A little less than 1, so that queues drain.
        qa_early: f32 = 0.95, in 0.0..=1.0;
        /// The longest burst for which QuickAdapt acts early, in windows. A flow with a full window
        /// has packets on its path for all of an RTT, which shows its share. If ten such flows were
        /// cut early and grew back at once, they would lose packets again, and some would starve.
        qa_early_burst: f32 = 0.95, in 0.0..=1.0;
        /// Whether trimmed packets end the wait for the time of a burst, too. A trimmed packet is
        /// sent again at once. Where several hosts send short messages, all of these packets would
        /// meet again, and be trimmed again.
        qa_early_trimmed: bool = true;
        /// The effect of a lost segment: reduce or ignore.
        on_loss: OnLoss = OnLoss::Reduce;
        /// Largest part of a window that the losses of one window's packets take off it; 1 is no
        /// limit. Where half of a far flow's packets are lost, little would be left after two RTTs,
        /// and alpha does not make up for it once the other flows have ended.
        loss_max: f32 = 0.25, in 0.0..=1.0;
        /// Fast increase: the share of acknowledged packets that is added to the window after an
        /// RTT in which none was marked, lost or queued. After two, three and four such RTTs it is
        /// two, three and four times as large. The paper has no fast increase: alpha takes a
        /// thousand RTTs, two seconds across, to make up for the cut of one overload.
        fast_increase: f32 = 0.25, in 0.0..=1.0;
        /// The part of the count of flows at the receiver: measured, across, leaving or receiver.
        /// By marks alone, a flow across needs tens of its RTTs to come to an equal share. A near
        /// flow needs as many RTTs, but they are a hundred times shorter. The count would also cut
        /// a near flow where the others wait for a link that it does not use. Flows that leave show
        /// that capacity may be free. Beside flows across, an RTT without a mark does not show
        /// that: without the count, the fast increase waits until alpha has gained three packets.
        /// That takes a near flow about a millisecond at 100 Gb/s, and 10 ms at 10 Gb/s.
        share: Share = Share::Leaving;
        /// How long the receiver has to count more flows, or fewer, before windows follow, in RTTs
        /// inside a datacentre. The count changes for a moment when a flow of a few packets comes,
        /// and when a flow pauses between two messages: windows that followed would burst.
        share_wait: f32 = 8.0, in 0.0..=1024.0;
        /// Spread the window over one base RTT.
        pacing: bool = true;
        /// Initial window in BDPs: line rate at once, as in the simulator.
        initial: f32 = 1.0, in 0.0..=64.0;
        /// Smallest window in packets. One packet is in flight at least; a smaller window paces it.
        /// With 1, as in the simulator, 64 near flows send one and a half times what a port carries
        /// when marks ask all of them to send less, and far flows give way.
        window_min: f32 = 0.05, in 0.001..=1.0;
        /// Largest window in BDPs, as in the simulator.
        window_max: f32 = 1.0, in 0.01..=64.0;
    }
}

/// Alpha, where the network is several datacentres or not known.
//= uno#5.1
const ALPHA: f32 = 0.001;

/// Alpha where the network is one datacentre. A BDP there is some ten packets, of which 0.001 is a
/// few hundredths: a window that marks brought down to a packet stays there until its flow ends.
/// Beside far flows near ones would gain more in a time with a larger alpha, so there it is the
/// paper's. Chosen among 0.004, 0.016, 0.032 and 0.064 on 16 all-to-alls of drawn sizes; with 0.064
/// the longest flow takes 5 % more than with 0.032.
const ALPHA_ALONE: f32 = 0.032;

impl UnoCcParams {
    /// Takes over what is known of the network.
    pub(super) fn resolve(&mut self, facts: &NetworkFacts) {
        self.intra_rtt = facts.site_rtt.unwrap_or(self.intra_rtt);
        // DEVIATION(uno#4.1.1): a larger alpha where the network is one datacentre.
        self.alpha = match facts.sites {
            None => self.alpha,
            Some(1) => ALPHA_ALONE,
            Some(_) => ALPHA,
        };
    }

    /// Whether the fast increase of flows whose windows do not follow the count begins when flows
    /// leave. With an alpha as large as that of one datacentre, three packets are gained in a few
    /// RTTs.
    pub(super) fn increases_on_leave(&self) -> bool {
        self.share == Share::Leaving && self.alpha < ALPHA_ALONE
    }

    /// Whether the receiver's count moves windows of flows with this base RTT.
    pub(super) fn counts(&self, base_rtt: Duration) -> bool {
        match self.share {
            Share::Measured => false,
            // A longer path than those inside a datacentre leads to another one.
            Share::Across | Share::Leaving => base_rtt > self.intra_rtt,
            Share::Receiver => true,
        }
    }
}
