//! What the policies of a run count and measure of their own, summed over hosts and switches.
//!
//! Counters have the names of settings: `sched.<name>.<counter>` and `switch.<name>.<counter>`. A
//! count of 0 is left out. Measurements of DCsim and Zeropod have their own places in a result.

use fabric::Network;
use transport::sched::Sched;
use transport::sched::dcsim::Figures;
use transport::sched::zeropod::PodCounts;
use transport::{Duration, Endpoint, Stats};

use super::collectives::DcSimResult;
use super::following::Following;
use super::scheduler::SchedulerResult;
use super::{Counters, Summary, join};
use crate::plan::Plan;

/// Sums over some hosts.
#[derive(Clone, Debug, Default)]
pub struct OfHosts {
    /// The counters of endpoints.
    pub stats: Stats,
    /// The counters that schedulers keep of their own. Drivers add theirs.
    pub counters: Counters,
    /// The measurements of DCsim; `None` where no host runs it.
    pub dcsim: Option<OfDcSim>,
    /// Arrivals of SIMs and data, where they are counted: one for each group of hosts.
    pub following: Vec<Following>,
    /// The counts of hosts of pods.
    pub pod: PodCounts,
}

/// Measurements of hosts of DCsim.
#[derive(Clone, Debug, Default)]
pub struct OfDcSim {
    /// The longest delay between a SIM and its DATA.
    pub rtt_max: Duration,
    /// The longest slot T'.
    pub slot: Duration,
    /// SIMs on their way.
    pub open: u64,
    /// The sums of all figures.
    pub figures: Figures,
}

impl OfHosts {
    /// Adds what a host has counted and measured.
    pub fn add(&mut self, endpoint: &Endpoint) {
        self.stats.add(endpoint.stats());
        let sched = endpoint.scheduler();
        let policy = sched.kind().name();
        sched.own_counters(&mut |name, count| {
            add(("sched", policy, name), count, &mut self.counters);
        });
        match sched {
            Sched::DcSim(sched) => {
                let all = self.dcsim.get_or_insert_default();
                all.add((sched.rtt_max(), sched.slot()), sched.sims_open(), sched.figures());
            }
            Sched::Zeropod(sched) => self.pod.add(&sched.counts()),
            _ => {}
        }
    }

    /// Adds the sums over other hosts, but not their arrivals.
    pub fn join(&mut self, other: &Self) {
        self.stats.add(&other.stats);
        join(&mut self.counters, &other.counters);
        if let Some(OfDcSim { rtt_max, slot, open, figures }) = &other.dcsim {
            self.dcsim.get_or_insert_default().add((*rtt_max, *slot), *open, figures);
        }
        self.pod.add(&other.pod);
    }

    /// The counters of endpoints, in which each cell of a train counts as a segment. All trains
    /// count as sent and placed once, since what may be lost or repeated is no train: cells for
    /// other pods, copies, and all cells of a plan with faults ([`Plan::may_have_trains`]).
    #[must_use]
    pub fn by_cell(&self) -> Stats {
        let Stats { data_new, data_placed, .. } = self.stats;
        let PodCounts { joined, joined_here, .. } = self.pod;
        Stats { data_new: data_new + joined, data_placed: data_placed + joined_here, ..self.stats }
    }

    /// Puts all but the counters of endpoints into the summary of a run of `plan` whose switches
    /// are emulated, as `network`.
    pub fn show(&self, plan: &Plan, network: &Network, summary: &mut Summary) {
        let of_dcsim = |all: &OfDcSim| DcSimResult {
            follow: Following::best(&self.following),
            ..all.result(Some(network)).in_view(plan)
        };
        summary.dcsim = self.dcsim.as_ref().map(of_dcsim);
        summary.scheduler = SchedulerResult::of(network, &self.pod);
        join(&mut summary.counters, &self.counters);
    }
}

impl OfDcSim {
    fn add(&mut self, (rtt_max, slot): (Duration, Duration), open: u64, figures: &Figures) {
        self.rtt_max = self.rtt_max.max(rtt_max);
        self.slot = self.slot.max(slot);
        self.open += open;
        self.figures.add(figures);
    }

    /// The place of these measurements in a result; `network` is the emulated one, if it is.
    #[must_use]
    pub fn result(&self, network: Option<&Network>) -> DcSimResult {
        DcSimResult::of(self, network)
    }
}

/// The counters of all disciplines and programs of a network.
#[must_use]
pub fn of_network(network: &Network) -> Counters {
    let mut all = Counters::new();
    network.own_counters(|policy, name, count| add(("switch", policy, name), count, &mut all));
    all
}

/// Adds what endpoints count and no other part of a result has, by the names that workers report
/// it under: what controllers of hosts refused of extensions, how often hosts probed silences, and
/// what `ec=auto` chose.
pub fn count_unshown(stats: &Stats, all: &mut Counters) {
    let named = [
        ("int_refused", stats.int_refused),
        ("advice_refused", stats.advice_refused),
        ("probes", stats.probes),
        ("ec_auto_coded", stats.ec_auto_coded),
        ("ec_auto_uncoded", stats.ec_auto_uncoded),
    ];
    for (name, count) in named.into_iter().filter(|(_, count)| *count > 0) {
        *all.entry(name.to_owned()).or_default() += count;
    }
}

fn add((family, policy, name): (&str, &str, &str), count: u64, all: &mut Counters) {
    if count > 0 {
        *all.entry(format!("{family}.{policy}.{name}")).or_default() += count;
    }
}
