//! One run on one host of a real network, from the meeting to the outcome.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use experiments::capture::Unwritten;
use experiments::conductor::Conductor;
use experiments::hosts_file::{HostEntry, HostsFile};
use experiments::input::InputError;
use experiments::measure::{Adapted, HostSeen, Outcome};
use experiments::plan::{Draft, Origin, Plan, RunError};
use experiments::progress::{Progress, Watch};
use experiments::topology::topo_file;
use experiments::workload::cm_write;
use transport::number::us_text;
use transport::sched::SchedKind;
use transport::stats::DropReason;
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::frame::header_overhead;
use transport::wire::seal;
use transport::{Config, Duration, HostId, Instant, Rng};
use transport_dpdk::CALIBRATION_MIN;
use transport_dpdk::{
    AppEnd, Calibration, ClockCounts, DeviceClock, DeviceName, DilatedClock, Pool, PortIo,
    RegisteredThread, SharedKeys, TimeScale, app_ring, random,
};
use xxhash_rust::xxh3::xxh3_64;

use super::agreement::agree;
use super::connection::FLOWS_MAX;
use super::meeting::Meeting;
use super::message::{
    DevicePart, DriverPart, Hello, HostReport, MeasurePart, PROTOCOL, Round, RoundPart,
};
use super::offset::Offset;
use super::ongoing_run::OngoingRun;
use super::pod;
use super::real_network::RealNetwork;
use super::report;
use super::round_trips::{Bounds, of_pairs};
use super::warm_up::{OpenedDevice, WarmUpDevice, check_devices, device_here};
use crate::dpdk_error::unfit;
use crate::workers::changed_by_polling;
use crate::workers::control::Control;
use crate::workers::counters::{self, Workers};
use crate::workers::hosts::{Host, HostSetup, Polled, Pollers, RING, RunClock, needs};
use crate::workers::lateness::{self, Gaps};
use crate::workers::observers::Observers;

/// Real time after which a device that takes nothing counts as stuck.
const STUCK_AFTER: Duration = Duration::from_s(1);

/// Time from the last round to the start: longer than it takes to reach all hosts.
const START_IN: Duration = Duration::from_ms(100);

/// The shortest timeout, in longest echoes: polls that were late once will be as late again.
const RTO_LONGEST: u64 = 2;
/// The longest echo that DCsim waits for, in base RTTs.
const ECHOES_MOST: u64 = 8;
const LONGEST_OF_ALL: &str = "the longest echo between idle hosts, of all pairs";
const OUTAGE: &str =
    "a silent host is tried again four times a second, or each timeout where that is longer";
const LONGEST_TWICE: &str = "twice the longest echo: polls come as late again";

/// Runs this host's part of `plan` with all other hosts of `network`.
///
/// # Errors
/// [`RunError::Peer`] names a host that failed or did not come, [`RunError::Disagree`] what differs
/// between hosts, [`RunError::Environment`] what this machine lacks.
pub fn run(plan: &Plan, network: &RealNetwork, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    check_devices(&network.hosts)?;
    check(plan, network)?;
    let device = device_here(&network.hosts, &network.hosts.hosts[network.own as usize])?;
    let rate = Calibration::measure(CALIBRATION_MIN).map_err(|error| unfit(&error))?;
    let clock = rate.clock(TimeScale::REAL);
    let hello = hello(plan, network);
    let (first, at) = (&network.hosts.hosts[0].name, network.hosts.control());
    watch.on_wait(&match network.own {
        0 => format!("the other hosts, at {at}"),
        _ => format!("host `{first}` at {at}"),
    });
    let mut meeting = {
        let patience = plan.draft.nic.patience;
        let mut going_on = || going_on(watch);
        Meeting::open(&network.hosts, &hello, (clock, patience), &mut going_on)?
    };
    let mut attendance = Attendance { network, clock, rate, meeting: &mut meeting, watch };
    let outcome = attendance.run(plan, hello, device);
    match &outcome {
        Ok(_) => meeting.part(),
        Err(error) => meeting.give_up(error),
    }
    outcome
}

/// Octets around the payload of the longest frame: headers, and what keys add.
fn around(plan: &Plan, network: &RealNetwork) -> u16 {
    plan.settings.headers_max() + network.keys.as_ref().map_or(0, |_| seal::LEN)
}

/// A network must hold the hosts of the matrix, and be described for as many.
fn check(plan: &Plan, network: &RealNetwork) -> Result<(), RunError> {
    plan.draft.check_real_world()?;
    pod::check(plan, network)?;
    let hosts = u32::try_from(network.hosts.hosts.len()).unwrap_or(u32::MAX);
    let file = &network.hosts.file;
    let flows = plan.matrix.flows.len();
    if flows as u64 > FLOWS_MAX {
        let most = format!("at most {FLOWS_MAX}: hosts exchange a report of each over the network");
        return Err(InputError::new(format!("{flows} flows"), most).into());
    }
    network.hosts.check_matrix(plan.matrix.nodes)?;
    if plan.hosts() < hosts {
        let found = format!("a topology of {} hosts", plan.hosts());
        let error = InputError::new(found, format!("one for the {hosts} hosts of {file}"));
        let help = "without it one switch joins all hosts, or all hosts of a site";
        return Err(error.at("--topo", 0, 0).help(help).into());
    }
    if plan.tree.spec().sites() > 1 {
        let crosses = |a, b| plan.crosses(HostId(a), HostId(b)) == Some(true);
        network.hosts.check_sites(crosses)?;
    }
    Ok(())
}

/// The user may have had enough.
fn going_on(watch: &mut dyn Watch) -> Result<(), RunError> {
    if watch.goes_on(&Progress::default()) { Ok(()) } else { Err(RunError::Interrupted) }
}

/// The settings that all hosts must have in common.
fn hello(plan: &Plan, network: &RealNetwork) -> Hello {
    let print = |text: &str| format!("{:016x}", xxh3_64(text.as_bytes()));
    let inputs = [
        ("matrix", print(&cm_write::to_text(&plan.matrix))),
        ("topology", print(&topo_file::to_text(plan.tree.spec()))),
        ("hosts file", print(&common_of(&network.hosts))),
        ("--security", network.keys.as_ref().map_or("none", SharedKeys::mode).to_owned()),
    ];
    let settings = plan.draft.effective().into_iter().map(|(key, value, _)| (key, value));
    Hello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: network.own,
        inputs: inputs.into_iter().map(|(what, print)| (what.to_owned(), print)).collect(),
        settings: settings.collect(),
        successor: None,
    }
}

/// What all hosts must have in common of their hosts files.
fn common_of(hosts: &HostsFile) -> String {
    let of =
        |host: &HostEntry| format!("{} {} {:?} {:?}\n", host.name, host.ip, host.mac, host.site);
    hosts.hosts.iter().chain(hosts.scheduler.as_ref()).map(of).collect()
}

/// This host's view of the meeting.
struct Attendance<'n> {
    network: &'n RealNetwork,
    clock: DilatedClock,
    rate: Calibration,
    meeting: &'n mut Meeting,
    watch: &'n mut dyn Watch,
}

/// The run as it was fitted to the network, and how to reach all hosts.
struct Fitted {
    plan: Plan,
    adapted: Vec<Adapted>,
    addressing: Addressing,
    /// Least and greatest base RTT from here.
    rtts: Option<(Duration, Duration)>,
}

impl Attendance<'_> {
    fn entry(&self) -> &HostEntry {
        &self.network.hosts.hosts[self.network.own as usize]
    }

    /// Every round in turn.
    fn run(&mut self, plan: &Plan, hello: Hello, device: DeviceName) -> Result<Outcome, RunError> {
        let watch = &mut *self.watch;
        watch.on_wait("the other hosts");
        let hellos = self.meeting.introduce(hello, &mut || going_on(watch))?;
        agree(self.meeting.names(), &hellos)?;
        let observers = Observers::start(&self.network.observe, plan.hosts())?;
        let socket = observers.wants_socket();
        self.watch.on_wait(&format!("the device {device}"));
        let mut own_device = {
            let entry = &self.network.hosts.hosts[self.network.own as usize];
            let (meeting, watch) = (&mut *self.meeting, &mut *self.watch);
            let mut meanwhile = || meeting.look().and_then(|()| going_on(watch));
            let full = plan.settings.payload_max + around(plan, self.network);
            WarmUpDevice::open(full, entry, (device, socket), self.clock, &mut meanwhile)?
        };
        observers.show(own_device.eal())?;
        let Fitted { plan, adapted, addressing, rtts } = self.warm_up(plan, &mut own_device)?;
        let caps = own_device.port().caps().to_string();
        tracing::info!(device = own_device.port().name(), %caps, "ready");
        let opened = own_device.close();
        let lcore: Option<RegisteredThread> = opened.eal.register_thread().ok();
        let seen = HostSeen {
            name: self.entry().name.clone(),
            device: caps,
            base_rtt_min_us: rtts.map(|(least, _)| least.as_us_f64()),
            base_rtt_max_us: rtts.map(|(_, most)| most.as_us_f64()),
            strays: opened.strays,
            answers: opened.answers,
            ..HostSeen::default()
        };
        let (report, stopped, unwritten) =
            self.flows(&plan, opened, (&addressing, &observers), seen)?;
        let part = RoundPart::Report(Box::new(report));
        let (parts, _) = self.meeting.gather(Round::Report, part, &mut || Ok(()))?;
        drop(lcore);
        let (mut reports, mut gone) = (Vec::new(), BTreeMap::new());
        for (host, part) in (0..).zip(parts) {
            match part {
                RoundPart::Report(report) => reports.push(*report),
                RoundPart::Lost { reason } => drop(gone.insert(HostId(host), reason)),
                other => return Err(self.meeting.out_of_turn(host, &other)),
            }
        }
        let names = self.meeting.names();
        let outcome = report::outcome(&plan, &reports, (names, &gone), stopped);
        Ok(Outcome { adapted, unwritten, ..outcome })
    }

    /// Brings an open device to a plan that fits the network.
    fn warm_up(&mut self, plan: &Plan, own_device: &mut WarmUpDevice) -> Result<Fitted, RunError> {
        let (network, own, clock) = (&self.network.hosts, self.network.own, self.clock);
        let (meeting, watch) = (&mut *self.meeting, &mut *self.watch);
        watch.on_wait(&format!("the link of {}", own_device.port().name()));
        own_device.wait_up(&mut || meeting.look().and_then(|()| going_on(watch)))?;
        watch.on_wait("the devices of the other hosts");
        let caps = own_device.port().caps();
        let max_frame = caps.max_frame.bytes();
        let part = RoundPart::Device(DevicePart { link_mbps: caps.link_mbps, max_frame });
        let (parts, _) = meeting.gather(Round::Device, part, &mut || {
            let now = clock.now();
            own_device.serve()?;
            own_device.look(now);
            going_on(watch)
        })?;
        let device = |part| if let RoundPart::Device(device) = part { Some(device) } else { None };
        let devices: Vec<DevicePart> = parts.into_iter().filter_map(device).collect();
        let (plan, mut adapted) = fit_devices(plan, self.network, &devices)?;
        own_device.send_at_most(plan.settings.payload_max + around(&plan, self.network));
        let [sends_to, mut exchanges_with] = peers(&plan, own);
        let scheduler = pod::scheduler(&plan, network);
        let probed: Vec<u32> = sends_to.iter().copied().chain(scheduler).collect();
        exchanges_with.extend(scheduler);
        watch.on_wait("MACs and echoes of the hosts that it exchanges packets with");
        let mut meanwhile = || meeting.look().and_then(|()| going_on(watch));
        let patience = plan.draft.nic.patience;
        let addressing =
            own_device.resolve(network, (own, &exchanges_with), patience, &mut meanwhile)?;
        let addressing = addressing.with_udp_port(plan.draft.udp_port);
        let id = u16::try_from(own).unwrap_or(u16::MAX);
        let probed =
            own_device.probe(network, (&probed, &addressing), (id, patience), &mut meanwhile)?;
        let (rtts, to_scheduler) = probed.rtts.split_at(sends_to.len());
        let bounds = rtts.iter().min().copied().zip(rtts.iter().max().copied());
        let rtts_ps = sends_to.iter().copied().zip(rtts.iter().map(|rtt| rtt.as_ps())).collect();
        let part = RoundPart::Measure(MeasurePart {
            rtts_ps,
            longest_ps: probed.longest.as_ps(),
            jitter_ps: probed.jitter.as_ps(),
            scheduler_ps: to_scheduler.first().map(|rtt| rtt.as_ps()),
            chance: random().map_err(|error| RunError::Environment(error.to_string()))?,
        });
        watch.on_wait("the measurements of the other hosts");
        let (parts, _) = meeting.gather(Round::Measure, part, &mut || {
            own_device.serve()?;
            going_on(watch)
        })?;
        let measure = |part| if let RoundPart::Measure(part) = part { Some(part) } else { None };
        let measured: Vec<MeasurePart> = parts.into_iter().filter_map(measure).collect();
        let plan = fit_rtts(&plan, self.network, &measured, &mut adapted)?;
        adapted.extend(changed_by_polling(&plan));
        Ok(Fitted { plan, adapted, addressing, rtts: bounds })
    }

    /// The flows of this host: its report, whether they were stopped, and its capture if that is
    /// not whole.
    fn flows(
        &mut self,
        plan: &Plan,
        mut opened: OpenedDevice,
        (addressing, observers): (&Addressing, &Observers),
        seen: HostSeen,
    ) -> Result<(HostReport, bool, Option<Unwritten>), RunError> {
        let own = HostId(self.network.own);
        let (clock, rng) = (RunClock::default(), Rng::new(plan.seed));
        let setup = HostSetup {
            rng: &rng,
            clock: &clock,
            addressing,
            stuck_after: STUCK_AFTER,
            record: false,
            observers,
            rate: (plan.settings.line_rate, TimeScale::REAL),
            keys: self.network.keys.as_ref(),
        };
        let (pool, eal) = (Arc::clone(&opened.pool), opened.eal.clone());
        let hold = opened.hold.take();
        let (host, app) = worker(plan, own, &setup, (opened, self.clock))?;
        let cores = [self.entry().core];
        let pollers =
            Pollers::start(&eal, vec![host], &cores, hold, (&clock, plan.settings.base_rtt))?;
        let (before, start) = self.synchronised()?;
        let capture = observers.start_capture(TimeScale::REAL)?;
        // No worker polls before the start: segments due at the start would be sent at once.
        while self.clock.now() < start {
            self.meeting.look()?;
            thread::yield_now();
        }
        clock.start(self.rate.clock_from(self.clock, start));
        self.meeting.begin();
        let conductor = Conductor::of_host(&plan.matrix, own);
        let control = Control::new(plan, conductor, (own, vec![app]));
        let mut turn =
            OngoingRun::new(plan, self.meeting, control, clock, self.network.keys.clone());
        let stopped = turn.until_over(&pollers, self.watch)?;
        let mut polled = pollers.stop()?;
        let unwritten = observers.finish_capture(capture);
        let OngoingRun { mut control, gaps, now, clock, .. } = turn;
        control.end(&mut polled);
        let sum = counters::sum(&mut polled, clock.now());
        let silent = pod::findings(&sum.hosts.pod, plan, &self.network.hosts);
        let mut report = report(sum, &mut polled, &control, (own, gaps, now), seen);
        // Devices go first: they hold buffers of the pool.
        drop((polled, control));
        report.findings = findings(&pool);
        report.findings.extend(silent);
        // The leading host answers while it waits for reports.
        let after = self.meeting.compare_clocks(&mut || Ok(()))?;
        // Against the clock of another host than before, a change says nothing.
        let after = if self.meeting.leader() == 0 { after } else { before };
        report.seen.clock_error_us = before.error().max(after.error()).as_us_f64();
        report.offset_change_ps = after.ahead_ps().saturating_sub(before.ahead_ps());
        Ok((report, stopped, unwritten))
    }

    /// Waits until all hosts are ready. Returns how far the first host's clock is ahead, and the
    /// instant of the start by this host's clock.
    fn synchronised(&mut self) -> Result<(Offset, Instant), RunError> {
        let watch = &mut *self.watch;
        watch.on_wait("the other hosts, which are about to begin");
        let mut going = || going_on(watch);
        self.meeting.gather(Round::Armed, RoundPart::Armed, &mut going)?;
        let offset = self.meeting.compare_clocks(&mut going)?;
        let (_, at_ps) = self.meeting.gather(Round::Synced, RoundPart::Synced, &mut going)?;
        Ok((offset, offset.ours(at_ps) + START_IN))
    }
}

/// The worker of host `own` at its device, and its application's end of the ring.
fn worker(
    plan: &Plan,
    own: HostId,
    setup: &HostSetup<'_>,
    (opened, mut clock): (OpenedDevice, DilatedClock),
) -> Result<(Host, AppEnd), RunError> {
    let lacks = |what: &str| RunError::Environment(what.to_owned());
    let at = own.0 as usize;
    let config = plan.host_configs()?.into_iter().nth(at);
    let (Some(config), Some(need)) = (config, needs(plan).into_iter().nth(at)) else {
        return Err(lacks("this host is not in the topology"));
    };
    let (config, need) = need.among_strangers(&config, setup.addressing.groups())?;
    let io = PortIo::of_port(opened.port, opened.pool, None);
    let io = io.ok_or_else(|| lacks("the device has no queue"))?.answering(opened.station);
    // Runs may last for less than learning a clock's rate takes.
    let io = io.acquainted(&mut clock);
    let (app, ring) = app_ring(RING, RING);
    Ok((setup.host(own, &config, io, ring, need)?, app))
}

/// The report of this host, but for its buffers and its clock.
fn report(
    sum: Workers,
    polled: &mut [Polled],
    control: &Control<'_>,
    (own, gaps, now): (HostId, Gaps, Instant),
    seen: HostSeen,
) -> HostReport {
    let mut threads: Vec<Gaps> = polled.iter().map(|polled| polled.gaps.clone()).collect();
    threads.push(gaps);
    let lateness = report::of_real_network(lateness::judge(&threads, 1.0));
    let drops = &sum.hosts.stats.drops;
    let others = drops.of(DropReason::NotHeadrace) + drops.of(DropReason::OtherPort);
    let strays = seen.strays + others;
    let mut seen = HostSeen { lateness, strays, counters: sum.hosts.counters, ..seen };
    seen.counters.extend(pod::counters(&sum.hosts.pod));
    for host in polled.iter_mut().flat_map(|polled| &mut polled.hosts) {
        let stats = host.io().queue().stats();
        seen.device_missed += stats.rx_missed + stats.rx_no_mbuf;
        seen.answers += host.io().answers();
        let clock = host.io().device_clock().map(DeviceClock::counts).unwrap_or_default();
        seen.stamped += clock.stamped;
        seen.rtt_by = rtt_by(clock).to_owned();
    }
    let (sent, received) = report::flows(control.conductor(), own.0);
    HostReport {
        sent,
        received,
        stats: sum.hosts.stats,
        driver: DriverPart {
            taken: sum.taken,
            lost: sum.lost,
            stuck: sum.stuck,
            unsendable: sum.unsendable,
            received: sum.received,
            left: sum.left,
            asked: sum.hosts.pod.requests + sum.hosts.pod.joins,
            answered: sum.hosts.pod.answers,
        },
        wrong: control.wrong_deliveries(),
        findings: Vec::new(),
        end_ps: now.since(Instant::ZERO).as_ps(),
        offset_change_ps: 0,
        seen,
        dcsim: sum.hosts.dcsim.map(|dcsim| dcsim.result(None)),
    }
}

/// Buffers that did not come back. Exact, since no thread polls any more.
fn findings(pool: &Pool) -> Vec<String> {
    let out = pool.in_use();
    let text = || format!("buffers: {out} are not back in their pool");
    if out > 0 { vec![text()] } else { Vec::new() }
}

/// The name of the clock that measures round trips.
const fn rtt_by(clock: ClockCounts) -> &'static str {
    match (clock.stamped, clock.refused + clock.jumps + clock.lost) {
        (0, _) => "poll",
        (_, 0) => "device",
        _ => "device and poll",
    }
}

/// The hosts that a host sends flows to, and those it exchanges packets with.
fn peers(plan: &Plan, own: u32) -> [Vec<u32>; 2] {
    let flows = || plan.matrix.flows.iter().map(|flow| (flow.src.0, flow.dst.0));
    let mut to: Vec<u32> = flows().filter(|(src, _)| *src == own).map(|(_, dst)| dst).collect();
    let from = flows().filter(|(_, dst)| *dst == own).map(|(src, _)| src);
    let mut with: Vec<u32> = from.chain(to.iter().copied()).collect();
    for list in [&mut to, &mut with] {
        list.sort_unstable();
        list.dedup();
    }
    [to, with]
}

/// The longest segment that all devices carry, the IP version, and the rate of the slowest link.
fn fit_devices(
    plan: &Plan,
    network: &RealNetwork,
    devices: &[DevicePart],
) -> Result<(Plan, Vec<Adapted>), RunError> {
    let mut adapted = Vec::new();
    let mut note = |key: &str, value, why| adapted.push(Adapted::new(key, value, why));
    let shortest = devices.iter().map(|device| device.max_frame).min().unwrap_or(u32::MAX);
    let carried = shortest.saturating_sub(u32::from(around(plan, network)));
    let carried = u16::try_from(carried).unwrap_or(u16::MAX);
    let is_v4 = network.hosts.hosts.iter().all(|host| host.ip.is_ipv4());
    let version = if is_v4 { IpVersion::V4 } else { IpVersion::V6 };
    if carried < plan.settings.payload_max {
        note("mtu", carried.to_string(), "the longest segment that every device carries");
    }
    let mut draft = plan.draft.clone();
    draft.settings.payload_max = plan.settings.payload_max.min(carried);
    draft.settings.frame_overhead = header_overhead(version);
    let slowest = devices.iter().filter_map(|device| device.link_mbps).min();
    let mut spec = plan.tree.spec().clone();
    if let Some(mbps) = slowest.filter(|_| !network.topology_given) {
        spec = spec.with_hosts_at(mbps);
        let shape = if spec.wan.is_some() { "two sites" } else { "one switch" };
        let name = format!("{shape}, {} Gb/s", spec.tier[0].downlink_gbps());
        note("topology", name, "no --topo was given: the rate is that of the slowest device");
    }
    Ok((Plan::new(&draft, plan.matrix.clone(), &spec)?, adapted))
}

/// Base RTTs as they were measured, and a shortest timeout that spares slow polls.
fn fit_rtts(
    plan: &Plan,
    network: &RealNetwork,
    measured: &[MeasurePart],
    adapted: &mut Vec<Adapted>,
) -> Result<Plan, RunError> {
    let mut note = |key: &str, value, why| adapted.push(Adapted::new(key, value, why));
    let rtts = of_pairs(plan, measured);
    let mut draft = plan.draft.clone();
    let mut spec = plan.tree.spec().clone();
    if let Some(bounds) = Bounds::of(plan, &rtts).filter(|_| draft.base_rtt.is_none()) {
        let (least, most) = bounds.all;
        draft.base_rtt = Some(bounds.longest(plan));
        draft.site_rtt = plan.crosses(HostId(0), HostId(0)).map(|_| bounds.longest_inside(plan));
        let value = format!("{}..{}", us_text(least), us_text(most));
        note("base_rtt", value, "measured: the least of many echoes, for each pair of hosts");
        if !network.topology_given {
            bounds.set_latencies(&mut spec, plan);
        }
    }
    let longest = measured.iter().map(|part| part.longest_ps).max().unwrap_or(0);
    let rto_min = Duration::from_ps(longest.saturating_mul(RTO_LONGEST));
    if rto_min > draft.settings.loss.rto_min {
        draft.settings.loss.rto_min = rto_min;
        let value = us_text(rto_min);
        note("loss.rto_min", value, LONGEST_TWICE);
    }
    let base_rtt = plan.draft.base_rtt.or_else(|| rtts.values().max().copied());
    if let Some(rtt_p) = fit_dcsim(&mut draft, longest, base_rtt)? {
        note("sched.dcsim.rtt_p", rtt_p, LONGEST_OF_ALL);
    }
    draft.block_timeout_min = rto_min;
    for (key, value, why) in pod::fit(&mut draft, plan, (measured, rtts.values().max().copied()))? {
        note(key, value, why);
    }
    let mut fitted = Plan::new(&draft, plan.matrix.clone(), &spec)?;
    if fitted.raises_block_timeout() {
        note("ec.block_timeout", us_text(rto_min), LONGEST_TWICE);
    }
    if draft.origin("loss.backoff_max") == Origin::Default {
        let doublings = Config::new(fitted.settings.clone())?.doublings_in_outages();
        if doublings < fitted.settings.loss.backoff_max {
            fitted = fitted.with(|draft| draft.settings.loss.backoff_max = doublings)?;
            note("loss.backoff_max", doublings.to_string(), OUTAGE);
        }
    }
    let is_set = plan.draft.base_rtt.is_some();
    if is_set { Ok(fitted) } else { fitted.with_measured_rtts(rtts) }
}

/// DCsim's RTT_p from the longest echo of all pairs of hosts, unless it was given. RTT_max is RTT_p
/// plus the time that queues may add, and holds for every pair. The longest of a few hundred echoes
/// is the best bound that they have for the 99.9th percentile. It counts as a few base RTTs at
/// most, since the longest echo over a software switch is due to a late poll.
fn fit_dcsim(
    draft: &mut Draft,
    longest_ps: u64,
    base_rtt: Option<Duration>,
) -> Result<Option<String>, RunError> {
    const KEY: &str = "sched.dcsim.rtt_p";
    let given = !matches!(draft.origin(KEY), Origin::Default | Origin::Topology);
    if draft.settings.sched != SchedKind::DcSim || given || longest_ps == 0 {
        return Ok(None);
    }
    let most = base_rtt.map_or(u64::MAX, |rtt| rtt.as_ps().saturating_mul(ECHOES_MOST));
    let value = format!("{}ns", longest_ps.min(most).div_ceil(1000));
    draft.set(KEY, &value, Origin::World("nic"))?;
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_files_differ_where_a_host_is_at_another_site() {
        let common = |site: &str| {
            let text = format!(
                "[[host]]\nname = \"a\"\naddress = \"10.0.0.1/24\"\ndevice = \"eth1\"\n\
                 control = \"127.0.0.1:1\"\nsite = \"{site}\"\n[[host]]\nname = \"b\"\n\
                 address = \"10.0.0.2/24\"\ndevice = \"eth1\"\nsite = \"east\"\n"
            );
            common_of(&HostsFile::read(text.as_bytes(), "hosts.toml").unwrap())
        };
        assert_ne!(common("east"), common("west"));
    }
}
