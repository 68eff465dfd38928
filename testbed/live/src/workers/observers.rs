//! The observers of a run: those that [`Observe`] asks for, made before the run and ended with it.

use std::cell::RefCell;
use std::fs::File;

use experiments::capture::{Capture, Unwritten};
use experiments::input::InputError;
use experiments::observe::Observe;
use experiments::plan::RunError;
use transport::{Duration, HostId, Rate};
use transport_dpdk::{
    AppMemory, Clock, Eal, InPlace, MetricsError, MetricsServer, PacketIo, Telemetry, TimeScale,
    Upkeep, Worker, tap,
};

use super::network_time;
use crate::capture::{CaptureThread, TappedWorker};
use crate::dpdk_error::unfit;

/// Real time after which a worker's counters are shown anew.
const SHOWN_EVERY: Duration = Duration::from_ms(5);

/// Bytes between a worker and its capture, which comes every millisecond: 1000 frames of 4 KiB.
const TAP_RING: usize = 4 << 20;

/// The observers of one run.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    telemetry: Option<Telemetry>,
    shown: bool,
    #[allow(dead_code, reason = "held, not read")]
    server: Option<MetricsServer>,
    capture: Option<(Capture, File)>,
    tapped: RefCell<Vec<TappedWorker>>,
}

impl Observers {
    /// The observers that `observe` asks for, of a run of so many `hosts`.
    ///
    /// # Errors
    /// [`RunError::Input`] when metrics or capture cannot be where they should.
    pub(crate) fn start(observe: &Observe, hosts: u32) -> Result<Self, RunError> {
        let wanted = observe.metrics.is_some() || observe.telemetry;
        let telemetry = wanted.then(Telemetry::default);
        let server = match (&observe.metrics, &telemetry) {
            (Some(path), Some(telemetry)) => {
                let server = MetricsServer::start(path, telemetry.clone());
                Some(server.map_err(|error| no_metrics(&error))?)
            }
            _ => None,
        };
        let capture = match &observe.capture {
            None => None,
            Some(capture) => Some((capture.clone(), capture.create(hosts)?)),
        };
        let tapped = RefCell::default();
        Ok(Self { telemetry, shown: observe.telemetry, server, capture, tapped })
    }

    /// Whether DPDK opens its telemetry socket.
    pub(crate) const fn wants_socket(&self) -> bool {
        self.shown
    }

    /// Shows the workers to come in DPDK's telemetry, if asked to.
    ///
    /// # Errors
    /// [`RunError::Environment`] when DPDK refuses.
    pub(crate) fn show(&self, eal: &Eal) -> Result<(), RunError> {
        let shown = self.telemetry.as_ref().filter(|_| self.shown);
        shown.map_or(Ok(()), |telemetry| telemetry.show(eal).map_err(|error| unfit(&error)))
    }

    /// Attaches them to `worker` of `host`, whose endpoint has `msgs_max` messages.
    pub(crate) fn look_at<Io: PacketIo + Upkeep + InPlace, C: Clock>(
        &self,
        worker: &mut Worker<Io, AppMemory, C>,
        (host, msgs_max): (HostId, u32),
        (rate, scale): (Rate, TimeScale),
    ) {
        if let Some(telemetry) = &self.telemetry {
            let interval = network_time(SHOWN_EVERY, scale);
            worker.observe(telemetry.meter(host, msgs_max, interval));
        }
        if let Some((capture, _)) = self.capture.as_ref().filter(|(wanted, _)| wanted.wants(host)) {
            let (tap, reader) = tap(TAP_RING, capture.snap, capture.every);
            worker.capture(tap);
            let name = format!("host{}", host.0);
            let description = format!("worker of host {}", host.0);
            let speed = rate.as_bps();
            self.tapped.borrow_mut().push(TappedWorker { name, description, speed, reader });
        }
    }

    /// Starts the capture of all workers that have observers; just before the clock starts.
    ///
    /// # Errors
    /// [`RunError::Input`] for a file that cannot be written.
    pub(crate) fn start_capture(
        &self,
        scale: TimeScale,
    ) -> Result<Option<CaptureThread>, RunError> {
        let Some((capture, file)) = &self.capture else { return Ok(None) };
        let tapped = self.tapped.take();
        if tapped.is_empty() {
            let host = capture.host.unwrap_or(HostId(0));
            let found = format!("host={}, which is not in this run", host.0);
            return Err(RunError::Input(InputError::new(found, "a host of the topology").at(
                "--capture",
                0,
                0,
            )));
        }
        let comment = format!("network time at scale {}, as sent and received", scale.factor());
        let thread = file
            .try_clone()
            .and_then(|file| CaptureThread::start(file, tapped, capture.snap, &comment));
        Ok(Some(thread.map_err(|error| capture.unwritable(&error))?))
    }

    /// Ends the capture; the file, if it is not whole.
    pub(crate) fn finish_capture(&self, thread: Option<CaptureThread>) -> Option<Unwritten> {
        let (capture, _) = self.capture.as_ref()?;
        thread?.finish().err().map(|error| capture.not_whole(&error))
    }
}

fn no_metrics(error: &MetricsError) -> RunError {
    let found = match error {
        MetricsError::InUse(path) => format!("`{}`, which another process serves", path.display()),
        MetricsError::NoSocket(path) => format!("`{}`, which is no socket", path.display()),
        MetricsError::Io { path, error } => format!("`{}` ({error})", path.display()),
    };
    let expected = "a path for a unix socket: in a writable directory, at most 107 bytes";
    RunError::Input(InputError::new(found, expected).at("--metrics", 0, 0))
}
