//! The scheduler of Zeropod's pod as a process: `fabric::PodServer` between real devices.
//!
//! ```text
//!   device --frames--> JOIN: the timing of a run's pod --> PodServer, in a later term than any
//!          --frames--> RTS of every host and epoch ------>    |
//!          <--frames-- SCHD of every host and epoch <---------+
//! ```
//!
//! Hosts have measured the network, and send the timing of their pod when they introduce
//! themselves. So this process needs no settings of the hosts, and can be started again in the
//! middle of a run. It begins no term before it has listened for [`Join::patience`], after which
//! hosts introduce themselves again. By then all of them have named the term that they were in, and
//! it begins a later one. A host has to introduce itself with a proof that this process has sent to
//! its address, so frames with forged addresses begin nothing and end nothing. One thread polls the
//! device. Times are of this process's clock, which is the pod's.
//!
//! [`Join::patience`]: transport::wire::pod::Join::patience

mod endpoint;

use experiments::hosts_file::{HostEntry, HostsFile};
use experiments::input::InputError;
use experiments::measure::Counters;
use experiments::plan::RunError;
use fabric::PodCounters;
use transport::sched::zeropod::ZeropodParams;
use transport::{Duration, Instant};
use transport_dpdk::{
    CALIBRATION_MIN, Calibration, DeviceName, DilatedClock, Idle, IdleMode, RegisteredThread,
    TimeScale, random,
};

use super::warm_up::{WarmUpDevice, device_of};
use crate::dpdk_error::unfit;
pub(crate) use endpoint::SchedulerEndpoint;

/// The set-up of a scheduler.
#[derive(Clone, Debug)]
pub struct SchedulerSetup {
    /// All hosts, and the scheduler among them.
    pub hosts: HostsFile,
    /// The scheduler's device, in the place of the file's.
    pub device: Option<DeviceName>,
    /// How the scheduler decides; settings that hosts introduce are not read from here.
    pub params: ZeropodParams,
    /// The UDP port of the traffic.
    pub udp_port: u16,
}

/// Takes the events of a scheduler, and may end it.
pub trait SchedulerMonitor {
    /// Whether to end as soon as may be.
    fn wants_end(&mut self) -> bool;
    /// Something has happened that the text describes in one line.
    fn on_event(&mut self, text: &str);
}

/// The work of a scheduler.
#[derive(Clone, Debug)]
pub struct PodsServed {
    /// Frames and notes by name.
    pub counters: Counters,
    /// The decisions of all pods.
    pub pods: PodCounters,
}

/// Time between two checks of whether the user wants to end it.
const LOOK_EVERY: Duration = Duration::from_ms(20);

/// Serves pods until the monitor ends it.
///
/// # Errors
/// [`RunError::Input`] where the file names no scheduler, [`RunError::Environment`] what this
/// machine lacks; nothing that a host does is one.
pub fn run(
    setup: &SchedulerSetup,
    monitor: &mut dyn SchedulerMonitor,
) -> Result<PodsServed, RunError> {
    let entry = entry(&setup.hosts)?;
    let device = match &setup.device {
        Some(device) => device.clone(),
        None => device_of(&setup.hosts, entry)?,
    };
    // An interface limits frames, and the card behind it does not.
    let frame = device.frame_max();
    let device = device.resolved().map_err(|error| unfit(&error))?;
    let rate = Calibration::measure(CALIBRATION_MIN).map_err(|error| unfit(&error))?;
    let clock = rate.clock(TimeScale::REAL);
    let mut device = {
        let mut meanwhile = || going_on(monitor);
        WarmUpDevice::open(frame, entry, (device, false), clock, &mut meanwhile)?
    };
    let _lcore: Option<RegisteredThread> = device.eal().register_thread().ok();
    if let Some(core) = entry.core {
        device.eal().pin(core).map_err(|error| unfit(&error))?;
    }
    device.wait_up(&mut || going_on(monitor))?;
    let caps = device.port().caps().to_string();
    monitor.on_event(&format!("{} at {}: {caps}", device.port().name(), entry.ip));
    let seed = random().map_err(|error| RunError::Environment(error.to_string()))?;
    let mut endpoint = SchedulerEndpoint::new(setup, (entry, device.mac()), (seed, clock.now()))?;
    monitor.on_event(&format!(
        "waits for hosts of {}: {} of them; any switches may lie between",
        setup.hosts.file,
        setup.hosts.hosts.len()
    ));
    serve(&mut device, &mut endpoint, clock, monitor)?;
    Ok(endpoint.served())
}

fn going_on(monitor: &mut dyn SchedulerMonitor) -> Result<(), RunError> {
    if monitor.wants_end() { Err(RunError::Interrupted) } else { Ok(()) }
}

/// The scheduler of the file.
fn entry(hosts: &HostsFile) -> Result<&HostEntry, InputError> {
    hosts.scheduler.as_ref().ok_or_else(|| {
        let found = format!("{} hosts and no scheduler", hosts.hosts.len());
        let error = InputError::new(found, "one more [[host]], with role = \"scheduler\"");
        error.at(&hosts.file, 0, 0).help("the hosts of the run read the same file")
    })
}

/// Moves frames until the monitor ends it.
fn serve(
    device: &mut WarmUpDevice,
    endpoint: &mut SchedulerEndpoint<'_>,
    clock: DilatedClock,
    monitor: &mut dyn SchedulerMonitor,
) -> Result<(), RunError> {
    let mut at_work = Idle::new(IdleMode::Shared);
    let mut idle = Idle::new(IdleMode::Sleepy);
    let mut look_at = Instant::ZERO;
    loop {
        let now = clock.now();
        let busy = device.enquire(|enquiry| {
            let received = endpoint.receive(enquiry, now);
            Ok(endpoint.answer(enquiry, clock.now()) || received)
        })?;
        device.look(now);
        let now = clock.now();
        if now >= look_at {
            look_at = now + LOOK_EVERY;
            if monitor.wants_end() {
                return Ok(());
            }
            while let Some(text) = endpoint.news(now) {
                monitor.on_event(&text);
            }
        }
        // Without a pod, hosts introduce themselves and wait.
        let turns = if endpoint.serves() { &mut at_work } else { &mut idle };
        turns.turn(busy);
    }
}
