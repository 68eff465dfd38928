//! One run in real time: makes it, drives it, and ends it with nothing left behind.

use experiments::conductor::Conductor;
use experiments::input::InputError;
use experiments::measure::sampler::{Sampler, Seen};
use experiments::measure::{Adapted, Outcome};
use experiments::observe::Observe;
use experiments::plan::{Plan, RunError};
use experiments::progress::{Progress, RecordFeed, Watch};
use experiments::workload::matrix::Start;
use fabric::Network;
use transport::number::us_text;
use transport::{Bytes, Duration, HostId, Instant, Rng};
use transport_dpdk::CALIBRATION_MIN;
use transport_dpdk::{
    Calibration, Idle, IdleMode, LinkEnd, RegisteredThread, TimeScale, TimestampField,
};

use super::links::{Devices, Pmd, Pools};
use super::result::{self, Ended};
use super::soft_switch::SoftSwitch;
use super::time_scale;
use crate::dpdk_error::unfit;
use crate::workers::control::Control;
use crate::workers::hosts::{self, HostSetup, Pollers, RunClock};
use crate::workers::lateness::Gaps;
use crate::workers::observers::Observers;
use crate::workers::{changed_by_polling, network_time};

/// Real time between two calls of the watch.
const LOOK_EVERY: Duration = Duration::from_ms(20);

/// Real time after which a device that takes nothing counts as stuck: longer than any scheduler's
/// break.
const STUCK_AFTER: Duration = Duration::from_s(1);

/// Real time of a run whose devices drop all frames, beyond the time for sending the first windows.
const NULL_EXTRA: Duration = Duration::from_ms(200);

/// The time that a poller needs to turn a packet around where stamps travel with packets: the time
/// between a host's stamp and the switch's next poll, both ways.
const TURN_AROUND_STAMPED: Duration = Duration::from_us(50);

/// The time that a poller needs where a packet's instants are those of the polls that find it: four
/// polls, two copies.
const TURN_AROUND_UNSTAMPED: Duration = Duration::from_us(400);

/// Real time by which hosts that send in slots make their packets before they leave.
const EARLY: Duration = Duration::from_ms(20);

const EARLY_WHY: &str = "20 ms of real time: longer than most breaks of a thread";

/// Runs `plan` to its end: all flows done or given up, the time limit, or the watch says stop.
///
/// # Errors
/// [`RunError::TooManyHosts`], [`RunError::Environment`] when this machine is not fit or DPDK has
/// run in this process before, and as in virtual time when the plan does not fit together.
pub fn run(plan: &Plan, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    run_observed(plan, &Observe::default(), watch)
}

/// Runs `plan` as [`run`] does, showing meanwhile what `observe` asks for.
///
/// # Errors
/// As [`run`], and [`RunError::Input`] for what cannot be shown where it should.
pub fn run_observed(
    plan: &Plan,
    observe: &Observe,
    watch: &mut dyn Watch,
) -> Result<Outcome, RunError> {
    plan.draft.check_soft_switch()?;
    let pmd = Pmd::by_name(&plan.draft.vdev.pmd);
    let (hosts, most) = (plan.hosts(), pmd.hosts_max());
    if !(2..=most).contains(&hosts) {
        let (matrix, pmd) = (plan.matrix.nodes, plan.draft.vdev.pmd.clone());
        return Err(RunError::TooManyHosts { hosts, matrix, most, pmd });
    }
    check_slots(plan, pmd)?;
    let rate = Calibration::measure(CALIBRATION_MIN).map_err(|error| unfit(&error))?;
    let threads = Threads::of(plan);
    let (plan, scale, adapted) = adapt(plan, pmd, rate, &threads)?;
    let observers = Observers::start(observe, plan.hosts())?;
    let devices = Devices::open(&plan, pmd, observers.wants_socket())?;
    observers.show(&devices.eal)?;
    let pools = devices.pools.clone();
    // An application's thread may be an lcore already.
    let lcore: Option<RegisteredThread> = devices.eal.register_thread().ok();
    let ended = drive(&plan, devices, (pmd, rate, scale), (&threads, &observers), watch)?;
    let outcome = result::outcome(&plan, ended, &pools, scale, pmd);
    drop::<(Option<RegisteredThread>, Pools)>((lcore, pools));
    Ok(Outcome { adapted, ..outcome })
}

/// Refuses devices without stamps for hosts that send in slots: without stamps a packet would miss
/// its slot.
fn check_slots(plan: &Plan, pmd: Pmd) -> Result<(), InputError> {
    if !plan.settings.sched.facts().departs_in_slots {
        return Ok(());
    }
    let refused = |key, found: String, expected| {
        Err(InputError::new(found, expected).at(key, 0, 0).help("leave it out, or use --world sim"))
    };
    if !pmd.keeps_stamps() {
        let expected = "net_ring, with sched=zeropod: packets carry the instant of their slot";
        return refused("vdev.pmd", format!("`{}`", plan.draft.vdev.pmd), expected);
    }
    if plan.draft.vdev.record {
        let expected = "off, with sched=zeropod: a recording has no sizes but those of headers";
        return refused("vdev.record", "`on`".to_owned(), expected);
    }
    Ok(())
}

/// Packets that may wait for a host on any network: as many as arrive while the scheduler stops its
/// thread.
const WAITING_MIN: usize = 4096;

const BREAKS: &str = "25 ms of real time: longer than a scheduler's breaks";

/// Which threads run hosts, by the core they are pinned to.
struct Threads {
    cores: Vec<Option<usize>>,
}

impl Threads {
    fn of(plan: &Plan) -> Self {
        let cores = core_affinity::get_core_ids().unwrap_or_default();
        let automatic = cores.len().saturating_sub(1).max(1);
        let count = plan.draft.vdev.workers.unwrap_or(automatic).min(plan.hosts() as usize);
        // Pinned only where a core is left for all others: on a shared core the scheduler's
        // choice is better than ours. The first core is the switch's.
        let pins = count + 1 < cores.len();
        let core = |index: usize| cores.get(index + 1).filter(|_| pins).map(|core| core.id);
        Self { cores: (0..count).map(core).collect() }
    }
}

/// Changes settings that real time, or the device, cannot keep. Returns the changed plan, the scale
/// and the changes, among them those that [`keyed`](crate::workers::keyed) makes to policies later.
fn adapt(
    plan: &Plan,
    pmd: Pmd,
    rate: Calibration,
    threads: &Threads,
) -> Result<(Plan, TimeScale, Vec<Adapted>), RunError> {
    let mut adapted = Vec::new();
    let mut note = |key: &str, value, why| adapted.push(Adapted::new(key, value, why));
    let mut plan = plan.clone();
    if let Some(payload) = pmd
        .payload_max(plan.settings.headers_max())
        .filter(|most| plan.settings.payload_max > *most)
    {
        plan = plan.with(|draft| draft.settings.payload_max = payload)?;
        note("mtu", payload.to_string(), "the device carries frames of MTU 1500 at most");
    }
    let scale = time_scale::choose(&plan, rate, pmd.packet_ns())?;
    if plan.draft.vdev.time_scale.is_none() {
        note("vdev.time_scale", scale.factor().to_string(), "what this machine sustains");
    }
    if plan.draft.vdev.workers != Some(threads.cores.len()) {
        let count = threads.cores.len().to_string();
        note("vdev.workers", count, "one core is the switch's, and a host is on one thread");
    }
    let turn_around = if pmd.keeps_stamps() { TURN_AROUND_STAMPED } else { TURN_AROUND_UNSTAMPED };
    let allowance = network_time(turn_around, scale);
    let rto_min = time_scale::rto_min(scale).max(plan.settings.loss.rto_min);
    let is_longer = rto_min > plan.settings.loss.rto_min;
    let block_timeout = time_scale::rto_min(scale);
    plan = plan.with(|draft| {
        draft.rtt_allowance = allowance;
        draft.settings.loss.rto_min = rto_min;
        draft.block_timeout_min = block_timeout;
    })?;
    if let Some(early) = early(&plan, scale) {
        plan = plan.with(|draft| draft.settings.sched_params.zeropod.early = early)?;
        note("sched.zeropod.early", us_text(early), EARLY_WHY);
    }
    if plan.draft.base_rtt.is_none() {
        let value = us_text(plan.settings.base_rtt);
        note(
            "base_rtt",
            value,
            "the longest path's, with an allowance for pollers to turn packets around",
        );
    }
    if is_longer {
        let value = us_text(rto_min);
        note("loss.rto_min", value, BREAKS);
    }
    if plan.raises_block_timeout() {
        note("ec.block_timeout", us_text(block_timeout), BREAKS);
    }
    adapted.extend(changed_by_polling(&plan));
    Ok((plan, scale, adapted))
}

/// How long before their departure hosts make packets that leave in slots, where no setting says
/// it.
fn early(plan: &Plan, scale: TimeScale) -> Option<Duration> {
    let set = plan.settings.sched.slots(&plan.settings.sched_params)?.early;
    (set == Duration::ZERO).then(|| network_time(EARLY, scale))
}

/// A run under way.
struct RunUnderWay<'a> {
    switch: SoftSwitch,
    control: Control<'a>,
    sampler: Sampler,
    feed: RecordFeed,
    gaps: Gaps,
    clock: RunClock,
    now: Instant,
    look_every: Duration,
    limit: Instant,
}

fn drive<'a>(
    plan: &'a Plan,
    devices: Devices,
    (pmd, rate, scale): (Pmd, Calibration, TimeScale),
    (threads, observers): (&Threads, &Observers),
    watch: &mut dyn Watch,
) -> Result<Ended<'a>, RunError> {
    let rng = Rng::new(plan.seed);
    let addressing = plan.addressing();
    let clock = RunClock::default();
    let setup = HostSetup {
        rng: &rng,
        clock: &clock,
        addressing: &addressing,
        stuck_after: network_time(STUCK_AFTER, scale),
        record: plan.draft.vdev.record,
        observers,
        rate: (plan.settings.line_rate, scale),
        // All hosts are in this process.
        keys: None,
    };
    let Devices { ports, ends, pools, stamp, eal } = devices;
    let (hosts, rings) = hosts::hosts(plan, ports, &pools.hosts, stamp, &setup)?;
    let shortest = plan.shortest_loop();
    let mut run = RunUnderWay {
        switch: soft_switch(plan, ends, &pools, stamp)?,
        control: Control::new(plan, Conductor::new(&plan.matrix), (HostId(0), rings)),
        sampler: Sampler::new(plan),
        feed: RecordFeed::default(),
        gaps: Gaps::new(shortest),
        now: Instant::ZERO,
        look_every: network_time(LOOK_EVERY, scale),
        limit: limit(plan, pmd, scale),
        clock,
    };
    let pollers = Pollers::start(&eal, hosts, &threads.cores, None, (&run.clock, shortest))?;
    let capture = observers.start_capture(scale)?;
    run.clock.start(rate.clock(scale));
    let stopped = run.turn_until_over(&pollers, watch);
    let polled = pollers.stop()?;
    let unwritten = observers.finish_capture(capture);
    // Packets that hosts have sent are in the network now, or counted as on their way.
    while run.switch.receive(run.now) {}
    let RunUnderWay { mut switch, control, mut sampler, gaps, now, limit, .. } = run;
    sampler.end(now.min(limit), watch, |lines| {
        Seen::without_senders(switch.network_mut(), control.conductor(), lines)
    });
    Ok(Ended { switch, control, sampler, gaps, now, polled, stopped, unwritten })
}

/// The soft switch of `plan`, with its faults, at the switch's `ends` of all links.
pub(super) fn soft_switch(
    plan: &Plan,
    ends: Vec<LinkEnd>,
    pools: &Pools,
    stamp: TimestampField,
) -> Result<SoftSwitch, RunError> {
    let rng = Rng::new(plan.seed);
    let mut network = Network::new(plan.blueprint(), &rng.fork("network", 0));
    for fault in plan.link_faults()? {
        network.add_fault(&fault.ports, fault.spec)?;
    }
    let (pool, addressing) = (pools.switch.clone(), plan.addressing());
    let corruption = rng.fork("corruption", 0);
    // Half of the buffers: a host whose thread stands still takes the buffers of other hosts last.
    let waiting_max = (pools.hosts.count() as usize / 2).max(WAITING_MIN);
    let switch = SoftSwitch::new(network, (ends, waiting_max), pool, stamp, addressing, corruption);
    Ok(switch
        .ranking(plan.ranks_data())
        .counting(plan.settings.wire_sizes())
        .slotted(plan.settings.sched.facts().departs_in_slots))
}

impl RunUnderWay<'_> {
    /// The loop of the calling thread. True when it was stopped before its end.
    fn turn_until_over(&mut self, pollers: &Pollers, watch: &mut dyn Watch) -> bool {
        let mut idle = Idle::new(IdleMode::Adaptive);
        let mut look_at = Instant::ZERO;
        loop {
            // The clock is read before the rings, so that no frame is stamped after the instant up
            // to which the network runs.
            self.now = self.clock.now().max(self.now);
            let now = self.now;
            self.gaps.poll(now);
            let (network, conductor) = (self.switch.network_mut(), self.control.conductor());
            self.sampler
                .catch_up(now, watch, |lines| Seen::without_senders(network, conductor, lines));
            let moved = self.switch.poll(now);
            let controlled = self.control.poll(now);
            if self.control.conductor().is_over() {
                return false;
            }
            if now > self.limit {
                return true;
            }
            if now >= look_at {
                look_at = now + self.look_every;
                self.sampler.show_to(watch);
                self.feed.pass_settled(watch, |line| self.control.conductor().settled(line));
                if pollers.is_broken() || !watch.goes_on(&self.progress()) {
                    return true;
                }
            }
            idle.turn(moved || controlled);
        }
    }

    fn progress(&self) -> Progress {
        let conductor = self.control.conductor();
        Progress {
            now: self.now.since(Instant::ZERO),
            flows_finished: conductor.finished() as u64,
            bytes_delivered: conductor.delivered().0,
            hops: self.switch.network().totals().hops,
        }
    }
}

/// When the run ends at the latest. Over devices that drop all frames nothing is ever acknowledged:
/// there the run ends when every flow has had the time to send its first window.
fn limit(plan: &Plan, pmd: Pmd, scale: TimeScale) -> Instant {
    let limit = plan.limit.map_or(Instant::FAR_FUTURE, |limit| Instant::ZERO + limit);
    if pmd != Pmd::Null {
        return limit;
    }
    let last_start = plan.matrix.flows.iter().map(|flow| match flow.start {
        Start::At(after) => after,
        Start::On(_) => Duration::ZERO,
    });
    let rate = plan.settings.line_rate;
    let window = rate.bytes_in(plan.settings.base_rtt).0 * 2;
    let windows = rate.time_for(Bytes(window * plan.matrix.flows.len() as u64));
    let extra = network_time(NULL_EXTRA, scale);
    let enough = last_start.max().unwrap_or_default() + windows + extra;
    limit.min(Instant::ZERO + enough)
}

#[cfg(test)]
mod tests {
    use experiments::plan::{Draft, Origin};
    use experiments::topology;
    use experiments::workload::{FlowSpec, Matrix};
    use transport::Bytes;

    use super::*;

    #[test]
    fn blocks_wait_as_long_as_real_time_needs_where_pollers_make_paths_long_enough_for_a_code() {
        let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(9), Bytes(1 << 20)));
        let mut draft = Draft::default();
        for (key, value) in [("ec", "8,2"), ("vdev.pmd", "net_memif"), ("vdev.time_scale", "1")] {
            draft.set(key, value, Origin::Set).unwrap();
        }
        let network = topology::by_name("leaf-spine:2,2,8").unwrap();
        let plan = Plan::new(&draft, matrix, &network).unwrap();
        assert!(!plan.codes(), "{}", plan.settings.base_rtt);
        let rate = Calibration::measure(CALIBRATION_MIN).unwrap();
        let (plan, scale, adapted) = adapt(&plan, Pmd::Memif, rate, &Threads::of(&plan)).unwrap();
        assert!(plan.codes(), "{}", plan.settings.base_rtt);
        assert_eq!(plan.settings.ec_params.patience(), time_scale::rto_min(scale));
        assert!(adapted.iter().any(|change| change.key == "ec.block_timeout"), "{adapted:?}");
    }

    #[test]
    fn settings_that_polling_hosts_change_are_in_the_list_of_adapted_ones() {
        let mut matrix = Matrix { nodes: 4, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(3), Bytes(1 << 20)));
        let network = topology::by_name("leaf-spine:1,1,4").unwrap();
        let rate = Calibration::measure(CALIBRATION_MIN).unwrap();
        for (sched, life, said) in
            [("phost", "1.5", Some("8")), ("phost", "64", None), ("round-robin", "1.5", None)]
        {
            let mut draft = Draft::default();
            for (key, value) in [("sched", sched), ("sched.phost.life", life)] {
                draft.set(key, value, Origin::Set).unwrap();
            }
            let plan = Plan::new(&draft, matrix.clone(), &network).unwrap();
            let (_, _, adapted) = adapt(&plan, Pmd::Ring, rate, &Threads::of(&plan)).unwrap();
            let mut lives = adapted.iter().filter(|change| change.key == "sched.phost.life");
            assert_eq!(lives.next().map(|change| &*change.value), said, "{sched} {life}");
        }
    }
}
