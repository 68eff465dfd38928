//! Counters that policies keep of their own, by the names of their settings:
//! `sched.<name>.<counter>` and `switch.<name>.<counter>`. A count of 0 is left out.

use fabric::Network;
use transport::sched::Sched;

use super::Counters;

/// Adds the counters of the scheduler of a host.
pub fn of_scheduler(sched: &Sched, all: &mut Counters) {
    let policy = sched.kind().name();
    sched.own_counters(&mut |name, count| add(("sched", policy, name), count, all));
}

/// Adds the counters of all disciplines and programs of a network.
pub fn of_network(network: &Network, all: &mut Counters) {
    network.own_counters(|policy, name, count| add(("switch", policy, name), count, all));
}

/// Adds the counters of processes that are over.
pub fn add_all(before: &Counters, all: &mut Counters) {
    before.iter().for_each(|(name, count)| *all.entry(name.clone()).or_default() += count);
}

fn add((family, policy, name): (&str, &str, &str), count: u64, all: &mut Counters) {
    if count > 0 {
        *all.entry(format!("{family}.{policy}.{name}")).or_default() += count;
    }
}
