//! The result of a run in real time: the counts of workers, links, switch and pools in one outcome.

use experiments::capture::Unwritten;
use experiments::measure::audit::DriverCount;
use experiments::measure::sampler::Sampler;
use experiments::measure::{Audit, Outcome};
use experiments::plan::Plan;
use transport::Instant;
use transport_dpdk::TimeScale;

use super::links::{Pmd, Pools};
use super::soft_switch::SoftSwitch;
use crate::workers::control::Control;
use crate::workers::counters::{self, Workers};
use crate::workers::hosts::Polled;
use crate::workers::lateness::{self, Gaps};

/// A run whose threads have ended.
pub(super) struct Ended<'a> {
    pub(super) switch: SoftSwitch,
    pub(super) control: Control<'a>,
    pub(super) sampler: Sampler,
    /// The gaps of the switch's thread.
    pub(super) gaps: Gaps,
    pub(super) now: Instant,
    pub(super) polled: Vec<Polled>,
    pub(super) stopped: bool,
    pub(super) unwritten: Option<Unwritten>,
}

/// Shuts everything down and puts the outcome together.
pub(super) fn outcome(
    plan: &Plan,
    ended: Ended<'_>,
    pools: &Pools,
    scale: TimeScale,
    pmd: Pmd,
) -> Outcome {
    let Ended { switch, mut control, sampler, gaps, now, mut polled, stopped, unwritten } = ended;
    control.end(&mut polled);
    let workers = counters::sum(&mut polled, now);
    let (driver, drops) = books(&switch, &workers, pmd);
    let audit = Audit::of(control.conductor(), &workers.hosts.stats, switch.network(), driver);
    let conductor = control.conductor_mut();
    let stats = workers.hosts.stats;
    let mut outcome = Outcome::new(plan, conductor, stats, Some(switch.network()), audit, now);
    let mut threads: Vec<Gaps> = polled.iter().map(|polled| polled.gaps.clone()).collect();
    threads.push(gaps);
    let mut lateness = lateness::judge(&threads, scale.factor());
    if let Some(dcsim) = &workers.hosts.dcsim {
        lateness::judge_departures(&mut lateness, &dcsim.figures.departure_lateness, dcsim.slot);
    }
    workers.hosts.show(plan, switch.network(), &mut outcome.summary);
    let summary = &mut outcome.summary;
    summary.world = "vdev";
    summary.time_scale = scale.factor();
    summary.lateness = Some(lateness);
    for (name, count) in drops.into_iter().filter(|(_, count)| *count > 0) {
        *summary.drops.entry(name).or_insert(0) += count;
        summary.packets.dropped += count;
    }
    let wrong = control.wrong_deliveries();
    if wrong > 0 {
        summary.audit.find(format!("payload: {wrong} messages were delivered with wrong bytes"));
    }
    if workers.unsendable > 0 {
        let count = workers.unsendable;
        summary.audit.find(format!("packets: {count} segments without bytes or address"));
    }
    let recordings = if plan.draft.vdev.record { recordings(&mut polled) } else { Vec::new() };
    // Workers first: their devices hold buffers of the links. Then the switch's ends.
    drop((polled, control));
    drop(switch);
    for (whose, out) in pools.in_use().into_iter().filter(|(_, out)| *out > 0) {
        summary.audit.find(format!("buffers: {out} of the {whose}' are not back in their pool"));
    }
    let series = sampler.into_series();
    Outcome { series, recordings, stopped, unwritten, lateness: Some(lateness), ..outcome }
}

/// The counts of packets between endpoints and network, with losses that neither of them counts.
fn books(
    switch: &SoftSwitch,
    workers: &Workers,
    pmd: Pmd,
) -> (DriverCount, [(&'static str, u64); 6]) {
    let counts = switch.counts();
    let mut driver = DriverCount {
        handed_over: workers.taken,
        kept: switch.kept(),
        given: workers.received,
        lost_before: workers.lost + counts.slot_missed,
        waiting: 0,
        lost_after: counts.no_buffer + counts.host_queue_full + switch.waiting() + workers.left,
        dropped_sending: workers.stuck,
    };
    let fabric = switch.network().audit();
    let (mut kernel, mut swallowed) = (0, 0);
    if pmd == Pmd::Null {
        swallowed = driver.handed_over - driver.lost_before;
        driver.lost_before = driver.handed_over;
    } else if pmd.is_lossy() {
        // No counter names the kernel's drops; packets that the kernel adds were dropped by the
        // hosts.
        let before = driver.handed_over.saturating_sub(fabric.injected + driver.lost_before);
        let after = fabric.delivered.saturating_sub(driver.given + driver.lost_after);
        driver.lost_before += before;
        driver.lost_after += after;
        kernel = before + after;
    }
    let drops = [
        ("not_headrace", counts.not_headrace),
        ("no_buffer", counts.no_buffer),
        ("host_queue_full", counts.host_queue_full),
        ("slot_missed", counts.slot_missed),
        ("lost_in_kernel", kernel),
        ("swallowed_by_device", swallowed),
    ];
    (driver, drops)
}

/// The recorded input of every endpoint, by host.
fn recordings(polled: &mut [Polled]) -> Vec<Vec<u8>> {
    let mut hosts: Vec<_> = polled.iter_mut().flat_map(|polled| &mut polled.hosts).collect();
    hosts.sort_unstable_by_key(|host| host.endpoint().host());
    hosts.into_iter().map(|host| host.recorder().finish()).collect()
}
