//! `headrace bench scheduler --device NAME`: the pod scheduler at a device, as `headrace scheduler`
//! runs it, with generated requests.
//!
//! | Field | Is |
//! |---|---|
//! | `epoch_us` | the shortest epoch that one core keeps: all requests in, all answers out |
//! | `receive_us`, `answer_us` | its parts: frames and requests; the decision and answers |
//! | `ns_per_host`, `rts_per_s` | the same a request, and requests a second |
//! | `matched` | the share of hosts that are granted cells, over all epochs |
//! | `frames` | requests and answers, for each host and epoch |
//! | `paced_epoch_us` | the epoch in which waiting is measured |
//! | `p50_epochs` | epochs from a request to its grant |
//! | `p99_epochs` | what 99 in 100 are below, where other programs disturb least |
//! | `p99_all_epochs` | what 99 in 100 of all are below |
//!
//! `live::datapath` measures; the command asks for it and prints the result.

use experiments::plan::{Draft, Origin};
use fabric::pod::Kernel;
use fabric::pod::load::DemandPattern;
use fabric::pod::matcher::MatcherKind;
use live::datapath::{Bench, DeviceKind, PodCase, PodCost, PodWaiting};
use serde::Serialize;
use transport::Duration;
use transport::sched::zeropod::{SizeClasses, ZeropodParams};

use super::datapath::{devices, unfit};
use super::maybe;
use crate::args::BenchSchedulerArgs;
use crate::bench::scheduler::{demand, matchers};
use crate::bench::shown::{self, ShownRow, header, round};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;

/// The kinds of device whose far end can send frames.
const DEVICES: [DeviceKind; 2] = [DeviceKind::Ring, DeviceKind::Memif];
/// Hosts of a pod.
const HOSTS: [u16; 3] = [16, 64, 256];
/// Requests of a measurement, unless the epochs are given.
const REQUESTS: u64 = 2_000_000;

/// One pod with one matcher at one device.
#[derive(Debug, Serialize)]
struct Row {
    device: &'static str,
    hosts: u16,
    matcher: &'static str,
    kernel: &'static str,
    demand: String,
    epoch_us: f64,
    receive_us: f64,
    answer_us: f64,
    ns_per_host: f64,
    rts_per_s: f64,
    matched: f64,
    frames: f64,
    paced_epoch_us: Option<f64>,
    p50_epochs: Option<f64>,
    p99_epochs: Option<f64>,
    p99_all_epochs: Option<f64>,
}

impl Row {
    fn new(
        case: &PodCase,
        (matcher, demand): (&'static str, &str),
        cost: &PodCost,
        waiting: Option<&PodWaiting>,
    ) -> Self {
        let hosts = f64::from(case.hosts);
        let of = |value: fn(&PodWaiting) -> f64| waiting.map(|waiting| round(value(waiting)));
        Self {
            device: case.device.name(),
            hosts: case.hosts,
            matcher,
            kernel: Kernel::best().name(),
            demand: demand.to_owned(),
            epoch_us: round(cost.epoch_ns / 1000.0),
            receive_us: round(cost.receive_ns / 1000.0),
            answer_us: round(cost.answer_ns / 1000.0),
            ns_per_host: round(cost.epoch_ns / hosts),
            rts_per_s: (hosts * 1e9 / cost.epoch_ns.max(f64::MIN_POSITIVE)).round(),
            matched: round(cost.matched),
            frames: round(cost.frames),
            paced_epoch_us: of(|waiting| waiting.epoch.as_us_f64()),
            p50_epochs: of(|waiting| waiting.p50_epochs),
            p99_epochs: of(|waiting| waiting.p99_epochs),
            p99_all_epochs: of(|waiting| waiting.p99_all_epochs),
        }
    }
}

/// Measures, and reports progress on standard error.
///
/// # Errors
/// A device that cannot be measured, an impossible pod, or a machine that is not fit.
pub(super) fn run(args: &BenchSchedulerArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let devices = devices(&args.device, &DEVICES)?;
    let sizes = if args.hosts.is_empty() { &HOSTS[..] } else { &args.hosts };
    let kinds = matchers(&args.matcher)?;
    for hosts in sizes {
        demand(&args.demand, usize::from(*hosts))?;
    }
    let bench = Bench::start().map_err(unfit)?;
    let two_cores = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
    if !two_cores {
        writeln!(console.err, "one core alone: waiting for answers is not measured")?;
    }
    let mut rows = Vec::new();
    for device in devices {
        for &hosts in sizes {
            for &kind in &kinds {
                let name = device.name();
                writeln!(console.err, "measuring {name}, {}, {hosts} hosts", kind.name())?;
                let receivers = match demand(&args.demand, usize::from(hosts))? {
                    DemandPattern::All => hosts - 1,
                    DemandPattern::Some(each) => u16::try_from(each).unwrap_or(u16::MAX),
                };
                let case = PodCase {
                    device,
                    hosts,
                    receivers,
                    load: args.load,
                    params: params(args, kind)?,
                    epochs: args.epochs.unwrap_or((REQUESTS / u64::from(hosts)).max(1000)),
                    seed: args.seed,
                };
                let cost = bench.pod(&case).map_err(unfit)?;
                if cost.unreported > 0 {
                    let epochs = cost.unreported;
                    writeln!(console.err, "hosts did not report arrivals of {epochs} epochs")?;
                }
                let paced = match args.epoch_us {
                    Some(us) => Duration::from_us(us.into()),
                    None => paced(&cost),
                };
                let waiting = match two_cores {
                    true => bench.pod_waiting(&case, paced).map_err(unfit)?,
                    false => None,
                };
                let flows = args.load.map(|percent| format!("websearch {percent} %"));
                let chosen = (kind.name(), flows.as_deref().unwrap_or(&args.demand));
                rows.push(Row::new(&case, chosen, &cost, waiting.as_ref()));
            }
        }
    }
    shown::write(&rows, args.json, console)
}

/// Half as long again as an epoch costs.
fn paced(cost: &PodCost) -> Duration {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some microseconds"
    )]
    let ps = (cost.epoch_ns * 1500.0) as u64;
    Duration::from_ps(ps).max(Duration::from_us(1))
}

/// How `headrace scheduler` decides, but with this matcher and the values of flags.
fn params(args: &BenchSchedulerArgs, kind: MatcherKind) -> Result<ZeropodParams, Failure> {
    let mut draft = Draft::default();
    draft.set_transport("zeropod", Origin::Default)?;
    draft.set("sched.zeropod.matcher", kind.name(), Origin::Set)?;
    let preset = draft.settings.sched_params.zeropod;
    let classes = if args.classes { SizeClasses::Sizes } else { preset.classes };
    let (iterations, ask_every) = (args.iterations.into(), args.ask_every.into());
    Ok(ZeropodParams {
        iterations,
        classes,
        ask_every,
        superepoch: args.superepoch.into(),
        ..preset
    })
}

impl ShownRow for Row {
    const WORDS: usize = 5;

    fn header(_: &[Self]) -> Vec<String> {
        header([
            "device",
            "hosts",
            "matcher",
            "kernel",
            "demand",
            "epoch us",
            "receive",
            "answer",
            "ns a host",
            "matched",
            "frames",
            "paced us",
            "p50 epochs",
            "p99",
            "p99 of all",
        ])
    }

    fn lines(&self) -> Vec<Vec<String>> {
        vec![vec![
            self.device.to_owned(),
            self.hosts.to_string(),
            self.matcher.to_owned(),
            self.kernel.to_owned(),
            self.demand.clone(),
            format!("{:.2}", self.epoch_us),
            format!("{:.2}", self.receive_us),
            format!("{:.2}", self.answer_us),
            format!("{:.1}", self.ns_per_host),
            format!("{:.3}", self.matched),
            format!("{:.2}", self.frames),
            maybe(self.paced_epoch_us),
            maybe(self.p50_epochs),
            maybe(self.p99_epochs),
            maybe(self.p99_all_epochs),
        ]]
    }
}
