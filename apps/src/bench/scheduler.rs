//! `headrace bench scheduler`: what a decision of the pod scheduler costs one core.
//!
//! | Field | Is |
//! |---|---|
//! | `ns_per_decision`, `ns_per_host` | the matcher alone, mean of the fastest quarter |
//! | `p99_ns` | the decision that one in a hundred is slower than |
//! | `matched` | the share of hosts that send, over all decisions |
//! | `epoch_us` | a whole epoch: a request of every host, the decision, all answers as plain data |
//! | `rts_per_s` | requests that a core so handles |

use fabric::pod::load::DemandPattern;
use fabric::pod::matcher::{Match, Matcher, MatcherKind, MatcherSetup};
use fabric::pod::scheduler::{Client, Rts, Settings, Update};
use fabric::pod::{Chance, Demands, IdlePorts, Kernel, Ladder, OutOfRange, PodDecider, Shape, To};
use serde::Serialize;

use super::shown::{self, ShownRow, header, round};
use crate::args::BenchSchedulerArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::stopwatch::Stopwatch;

/// Demands that take turns, so that a figure is not that of one draw.
const DRAWS: usize = 8;
/// Seconds of a measurement, and decisions in it at least.
const SECONDS: f64 = 0.3;
const DECISIONS: usize = 200;

/// One pod with one matcher.
#[derive(Debug, Serialize)]
struct Row {
    hosts: usize,
    matcher: &'static str,
    kernel: &'static str,
    demand: String,
    classes: usize,
    ns_per_decision: f64,
    ns_per_host: f64,
    p99_ns: f64,
    matched: f64,
    rts_per_s: f64,
    epoch_us: f64,
}

/// Measures each matcher in each pod.
///
/// # Errors
/// A matcher that does not exist, more receivers than other hosts, a pod out of range.
pub(crate) fn run(args: &BenchSchedulerArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let matchers = matchers(&args.matcher)?;
    let sizes = if args.hosts.is_empty() { &[16, 64, 256, 1024][..] } else { &args.hosts };
    let mut shapes = Vec::new();
    for hosts in sizes {
        shapes
            .push(Shape::square(usize::from(*hosts)).map_err(|error| refused("--hosts", &error))?);
        demand(&args.demand, usize::from(*hosts))?;
    }
    let setup = MatcherSetup { kernel: Kernel::best(), iterations: args.iterations.into() };
    let mut rows = Vec::new();
    for shape in &shapes {
        let load = demand(&args.demand, shape.hosts())?;
        for kind in &matchers {
            writeln!(console.err, "measuring {}, {} hosts", kind.name(), shape.hosts())?;
            rows.push(measure(shape, *kind, setup, (load, &args.demand), args));
        }
    }
    shown::write(&rows, args.json, console)
}

pub(crate) fn matchers(names: &[String]) -> Result<Vec<MatcherKind>, Failure> {
    let find = |name: &String| {
        MatcherKind::by_name(name).ok_or_else(|| {
            let known = MatcherKind::NAMES.join(", ");
            Failure::CommandLine(format!(
                "error: --matcher: there is no `{name}`\n  expected: one of {known}"
            ))
        })
    };
    let named = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    Ok(if named.is_empty() { MatcherKind::ALL.to_vec() } else { named })
}

/// The load that `text` names for a pod of `hosts` hosts.
pub(crate) fn demand(text: &str, hosts: usize) -> Result<DemandPattern, Failure> {
    if text == "all" {
        return Ok(DemandPattern::All);
    }
    match text.parse() {
        Ok(each) if (1..hosts).contains(&each) => Ok(DemandPattern::Some(each)),
        _ => Err(Failure::CommandLine(format!(
            "error: --demand: `{text}` in a pod of {hosts} hosts\n  expected: `all`, or the \
             receivers of a host, 1 to {}; give fewer, or more --hosts",
            hosts - 1
        ))),
    }
}

fn refused(option: &str, error: &OutOfRange) -> Failure {
    Failure::CommandLine(format!("error: {option}: {error}"))
}

fn measure(
    shape: &Shape,
    kind: MatcherKind,
    setup: MatcherSetup,
    (load, name): (DemandPattern, &str),
    args: &BenchSchedulerArgs,
) -> Row {
    let ladder = if args.classes { Ladder::Sizes } else { Ladder::One };
    let mut chance = Chance::new(args.seed);
    let draws: Vec<Demands> =
        (0..DRAWS).map(|_| load.demands(shape, ladder, &mut chance)).collect();
    let mut matcher = Matcher::new(kind, shape, setup);
    let mut grants = Vec::with_capacity(shape.senders());
    let idle = IdlePorts::idle(shape);
    let (mut times, mut granted) = (Vec::new(), 0);
    let whole = Stopwatch::start();
    while times.len() < DECISIONS || whole.seconds() < SECONDS {
        grants.clear();
        let mut ports = idle;
        let demands = &draws[times.len() % DRAWS];
        let watch = Stopwatch::start();
        matcher.decide(&[], demands, &mut ports, &mut chance, &mut grants);
        times.push(watch.seconds() * 1e9);
        granted += grants.len();
    }
    let hosts = number(shape.hosts());
    let matched = number(granted) / number(times.len()) / hosts;
    let ns = fastest(&mut times);
    let p99_ns = times[times.len() * 99 / 100];
    let settings = Settings { matcher: kind, setup, ladder, ..Settings::default() };
    let epoch =
        epoch_ns(PodDecider::new(*shape, settings, args.seed).ok(), shape, load, &mut chance);
    Row {
        hosts: shape.hosts(),
        matcher: kind.name(),
        kernel: setup.kernel.name(),
        demand: name.to_owned(),
        classes: ladder.classes(),
        ns_per_decision: round(ns),
        ns_per_host: round(ns / hosts),
        p99_ns: round(p99_ns),
        matched: (matched * 1e6).round() / 1e6,
        rts_per_s: (hosts * 1e9 / epoch).round(),
        epoch_us: round(epoch / 1000.0),
    }
}

/// A whole epoch: a request of every host for an epoch's bytes to one of its receivers, a decision,
/// its answers.
fn epoch_ns(
    scheduler: Option<PodDecider>,
    shape: &Shape,
    load: DemandPattern,
    chance: &mut Chance,
) -> f64 {
    let mut scheduler = scheduler.expect("the default settings are legal");
    let wanted = load.demands(shape, Ladder::One, chance);
    let mut receivers: Vec<Vec<(To, u32)>> = vec![Vec::new(); shape.hosts()];
    for (host, to) in wanted.in_order(fabric::pod::DemandOrder::Age) {
        receivers[host].push((to, 0));
    }
    let mut times = Vec::new();
    let whole = Stopwatch::start();
    let mut epoch = 0;
    while times.len() < DECISIONS || whole.seconds() < SECONDS {
        let watch = Stopwatch::start();
        for (from, receivers) in (0u16..).zip(&mut receivers) {
            let count = u32::try_from(receivers.len()).unwrap_or(u32::MAX);
            let (to, total) = &mut receivers[chance.below(count) as usize];
            *total = total.wrapping_add(8192);
            let updates = [Update { to: *to, total: *total }];
            let rts = Rts {
                from: Client::Host(from),
                pod: 0,
                term: 1,
                epoch,
                updates: &updates,
                mice: &[],
                paused: 0,
                arrived: None,
                lost: None,
            };
            scheduler.handle_rts(&rts, epoch);
        }
        scheduler.decide(epoch);
        while scheduler.poll_answer(epoch).is_some() {}
        times.push(watch.seconds() * 1e9);
        epoch += 1;
    }
    fastest(&mut times)
}

/// The mean of the fastest quarter: other programs only ever add to a time. Sorts.
fn fastest(times: &mut [f64]) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    let quarter = &times[..times.len().div_ceil(4)];
    quarter.iter().sum::<f64>() / number(quarter.len())
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn number(count: usize) -> f64 {
    count as f64
}

impl ShownRow for Row {
    const WORDS: usize = 4;

    fn header(_: &[Self]) -> Vec<String> {
        header([
            "hosts",
            "matcher",
            "kernel",
            "demand",
            "classes",
            "ns",
            "ns a host",
            "p99 ns",
            "matched",
            "M RTS/s",
            "epoch us",
        ])
    }

    fn lines(&self) -> Vec<Vec<String>> {
        vec![vec![
            self.hosts.to_string(),
            self.matcher.to_owned(),
            self.kernel.to_owned(),
            self.demand.clone(),
            self.classes.to_string(),
            format!("{:.0}", self.ns_per_decision),
            format!("{:.1}", self.ns_per_host),
            format!("{:.0}", self.p99_ns),
            format!("{:.4}", self.matched),
            format!("{:.2}", self.rts_per_s / 1e6),
            format!("{:.2}", self.epoch_us),
        ]]
    }
}
