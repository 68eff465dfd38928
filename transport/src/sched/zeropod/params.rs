//! The settings of a Zeropod: those of hosts, and those of the pod's scheduler, since both have to
//! agree on most of them.

use super::timing::TimingInputs;
use crate::params::{PolicyName, params, words};
use crate::path::NetworkFacts;
use crate::sched::SchedSetup;
use crate::time::Duration;
use crate::units::Bytes;
use crate::wire::pod::{CELLS_MAX, DemandEnd, Grant, MICE_MAX, RUN_MAX};
use crate::wire::{KEY_LEN, note};

// Ranges are shown as they are written.
const _: () = assert!(CELLS_MAX == 32 && MICE_MAX == 7 && RUN_MAX == 8);

words! {
    /// The code that the matcher runs on; every one decides alike.
    pub enum Kernel: "auto, scalar, avx2 or avx512" {
        /// The fastest that the processor has.
        Auto = "auto",
        /// Scalar code.
        Scalar = "scalar",
        /// Code with vectors of 256 bits.
        Avx2 = "avx2",
        /// Code with vectors of 512 bits.
        Avx512 = "avx512",
    }
}

words! {
    /// How sizes of demands become classes of priority.
    pub enum SizeClasses: "one, pias, mice or sizes" {
        /// All demands are alike.
        One = "one",
        /// The five levels of hosts.
        Pias = "pias",
        /// Four classes to a doubling up to 96 KiB, then two.
        Mice = "mice",
        /// Four classes to a doubling.
        Sizes = "sizes",
    }
}

/// Cells of an epoch and the delay of a decision in a network of several pods.
//= zeropod#V-A
const OF_SEVERAL: (u16, Duration) = (32, Duration::from_us(5));

/// The least guard of clocks that are off, where none is set.
const GUARD: Duration = Duration::from_ns(10);

params! {
    /// Settings of [`Zeropod`](super::Zeropod) and of the pod's scheduler.
    pub struct ZeropodParams {
        /// Data cells of an epoch, N; 32 where there are several pods.
        //= zeropod#V-A
        cells: u16 = 16, in 1..=32;
        /// The time from the beginning of a decision to its end; 5us where there are several pods.
        //= zeropod#V-A
        delay: Duration = Duration::from_us(15);
        /// The time at the end of an epoch in which nothing is sent.
        guard: Duration = Duration::ZERO;
        /// The destinations with the shortest flows that a request names.
        top_k: u16 = MICE_MAX, in 0..=7;
        /// How the scheduler decides which hosts send; `headrace list matchers` has the names.
        matcher: PolicyName = PolicyName::new("exact");
        /// Iterations of the matcher iterative.
        //= zeropod#V-A
        iterations: u16 = 6, in 1..=255;
        /// The code that the matcher runs on.
        kernel: Kernel = Kernel::Auto;
        /// How sizes of demands become classes of priority.
        classes: SizeClasses = SizeClasses::Sizes;
        /// Decisions among which one goes round and one by age instead of size; 0: none does.
        fair_every: u16 = 0, in 0..=65_535;
        /// Payload bytes of a data cell; 0: those of a full segment.
        cell: u16 = 0, in 0..=9000, of_network "0";
        /// Hosts of a ToR; 0: the network's.
        per_tor: u16 = 0, in 0..=32, of_network "0";
        /// Hosts of a pod; 0: the network's.
        hosts: u16 = 0, in 0..=1024, of_network "0";
        /// Aggregation switches of a pod; 0: the network's.
        aggs: u16 = 0, in 0..=32, of_network "0";
        /// Address of the scheduler of the first pod; 0: the network's.
        scheduler: u32 = 0, of_network "0";
        /// Flows of fewer bytes than so many cells also send them at once, without a grant, where
        /// the host has nothing granted; 0: none do.
        optimistic: u16 = 0, in 0..=64;
        /// Times that such a cell is sent without a grant.
        optimistic_copies: u16 = 1, in 1..=8;
        /// Address of the backup of the first pod's scheduler; 0: the network's, or none.
        backup: u32 = 0, of_network "0";
        /// Cores that carry mice alone, the last ones.
        //= zeropod#IV-B2
        mice_cores: u16 = 0, in 0..=255;
        /// Whether mice take an idle one of these first, instead of any Core.
        // DEVIATION(zeropod#IV-B2): the paper does not say which Core a mouse takes.
        mice_first: bool = true;
        /// Cells beyond which a Core's port asks for no more; they may flow again when an epoch's
        /// cells less wait.
        //= zeropod#V-A
        pause_cells: u32 = 320, in 1..=1_000_000;
        /// Epochs among which a host that asks for nothing new sends one request, with all arrivals
        /// that it has to report; where hosts follow the scheduler's clock, that one is answered.
        // DEVIATION(zeropod#IV-A): in the paper every host sends a request in every epoch; here, at
        // 1, a host without anything to say sends none, unless it follows a clock.
        ask_every: u16 = 1, in 1..=8;
        /// Epochs of a superepoch: a demand that fills what is left of its superepoch is granted
        /// all of it by one answer; 1 where there is a backup.
        // DEVIATION(zeropod#IV-A3): in the paper an answer grants one epoch.
        superepoch: u16 = 1, in 1..=8;
        /// Bytes of cells that wait in a Core at most.
        //= zeropod#V-A
        core_buffer: u32 = 32_000_000, in 1..=2_000_000_000;
        /// Pods; 0: the network's.
        pods: u16 = 0, in 0..=32, of_network "0";
        /// Cores; 0: the network's.
        cores: u16 = 0, in 0..=256, of_network "0";
        /// How long before its departure a host makes a packet: hosts in real time that are polled
        /// need some.
        early: Duration = Duration::ZERO, in Duration::ZERO..=Duration::from_s(1);
        /// Whether hosts keep the pod's time by requests and answers of every epoch; on where their
        /// clocks are off.
        //= zeropod#IV-E
        follow: bool = false;
        /// Propagation of a link; 0ns: the network's.
        hop: Duration = Duration::ZERO, in Duration::ZERO..=Duration::from_s(1), of_network "0ns";
        /// Whether cells of one message that leave back to back inside a pod are one event of a
        /// simulation, a train. Where something may happen to one cell alone (a fault, a clock that
        /// is off), and where a run keeps a capture or a journal, none are.
        trains: bool = true;
        /// The number of the run in the introductions of hosts to a scheduler that is a process of
        /// its own; 0: hosts and scheduler have the same settings.
        run: u16 = 0;
    }
}

impl ZeropodParams {
    pub(super) fn resolve(&mut self, facts: &NetworkFacts) {
        let Some(pod) = facts.pod else { return };
        (self.per_tor, self.hosts, self.aggs) = (pod.per_tor, pod.hosts, pod.aggs);
        (self.scheduler, self.backup, self.hop) = (pod.scheduler, pod.backup, pod.hop);
        (self.pods, self.cores) = (pod.pods, pod.cores);
        self.cell = pod.cell;
        if let Some(jitter) = pod.clock_jitter {
            (self.follow, self.guard) = (true, GUARD.max(jitter));
            // Readings are late by as much, and corrections by less.
            self.early = jitter * 2 + GUARD * 2;
        }
        if pod.pods > 1 {
            (self.cells, self.delay) = OF_SEVERAL;
        }
        if let Some(real) = pod.real {
            (self.run, self.follow) = (real.run, true);
            (self.cells, self.delay) = (real.cells, real.delay);
            (self.guard, self.early) = (real.guard, real.early);
        }
    }

    /// The inputs of the timing of a host's pod.
    pub(super) fn timing_inputs(&self, setup: &SchedSetup<'_>) -> TimingInputs {
        let sizes = &setup.wire_sizes;
        // Where hosts introduce themselves, requests and answers have keys.
        let key = if self.run > 0 { KEY_LEN } else { 0 };
        let control = sizes.frame_overhead + note::LEN + key + 32;
        TimingInputs {
            cell: setup.mtu,
            control: Bytes(sizes.accounted.control.unwrap_or(control).into()),
            rate: setup.line_rate,
            hop: self.hop,
            cells: self.cells,
            guard: self.guard,
            delay: self.delay,
            layers: self.layers(),
            early: self.early,
            guards_answers: self.follow,
        }
    }

    /// Cores of an aggregation switch at most; 0 without Cores.
    #[must_use]
    pub const fn layers(&self) -> u16 {
        if self.aggs == 0 { 0 } else { self.cores.div_ceil(self.aggs) }
    }

    /// Whether a grant's route exists.
    pub(super) const fn has_route(&self, grant: &Grant) -> bool {
        let agg = grant.agg as u16;
        let exists = match (grant.to, grant.layer) {
            (DemandEnd::Host(_), None) => true,
            (DemandEnd::Pod(_), Some(layer)) => layer as u16 * self.aggs + agg < self.cores,
            _ => false,
        };
        exists && agg < self.aggs
    }
}
