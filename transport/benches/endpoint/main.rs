//! The cost of a segment in the core, without any driver around it.
//!
//! Two endpoints exchange bursts over a link whose queue swings between nothing and one base RTT.
//! The benchmark times separately: sending, receiving with the acknowledgements sent, handling
//! acknowledgements; then a controller alone, and a balancer alone. Batches of the controllers
//! alternate, so that other load of the machine falls on all alike. It prints medians over bursts,
//! which leave interrupts out, and their ratios to the constant window (`fixed`) of the same run;
//! then the bytes that flows take. With `--instructions` it prints callgrind's counts instead,
//! where valgrind is installed, and with `--secrets` what keys and checks cost. Run: `cargo bench
//! -p transport`. Not a test: wall time on a busy machine means little, ratios and instructions
//! mean more.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]
#![allow(clippy::cast_precision_loss, reason = "figures to print")]

mod balancer;
mod callgrind;
mod controller;
mod exchange;
mod instructions;
mod lacks;
mod memory;
mod secrets;

use balancer::{Case, Steady};
use controller::Alone;
use exchange::{Exchange, Nanos, timed};
use transport::BURST;
use transport::cc::CcKind;
use transport::lb::LbKind;

const BATCHES: usize = 41;
const SEGMENTS: u64 = 20_000;
/// Controllers in the exchange of segments, where they differ by their on_ack alone. `custom` is
/// the reference as an application would bring it.
const EXCHANGED: [CcKind; 3] = [CcKind::Smartt, CcKind::Custom, REFERENCE];
/// The controller with which the others are compared.
const REFERENCE: CcKind = CcKind::Fixed;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == callgrind::CHILD) {
        instructions::child(&args[at + 1..]);
    } else if let Some(at) = args.iter().position(|arg| arg == secrets::CHILD) {
        secrets::child(&args[at + 1..]);
    } else if args.iter().any(|arg| arg == "--instructions") {
        instructions::print();
    } else if args.iter().any(|arg| arg == "--secrets") {
        secrets::print();
    } else {
        println!("ns a DATA segment, medians of {BATCHES} alternating batches of {SEGMENTS}:");
        for (flows, burst) in [(1, BURST), (64, BURST), (64, 1), (4096, BURST)] {
            segments(flows, burst);
        }
        controllers();
        balancers();
        memory::print();
    }
}

/// Prints the cost of a segment.
fn segments(flows: u32, burst: usize) {
    let mut runs = EXCHANGED.map(|cc| (cc, Exchange::new(cc, flows, burst), Nanos::default()));
    for (_, exchange, _) in &mut runs {
        exchange.run(2 * SEGMENTS, &mut Nanos::default());
    }
    for _ in 0..BATCHES {
        for (_, exchange, taken) in &mut runs {
            exchange.run(SEGMENTS, taken);
        }
    }
    // Reading the clock is shared by the segments of a burst.
    let clock = median((0..1000).map(|_| timed(|| ())).collect()) / burst as f64;
    println!("  {flows} flows, bursts of {burst}:");
    let medians = |taken: &Nanos| {
        [&taken.send, &taken.ack, &taken.receive].map(|part| median(part.clone()) - clock)
    };
    let reference = runs.iter().find(|run| run.0 == REFERENCE).map(|run| medians(&run.2));
    let reference = reference.unwrap_or([f64::NAN; 3]);
    for (cc, _, taken) in &runs {
        print!("    {:<10}", cc.name());
        let parts = ["send", "ack", "receive"].into_iter().zip(medians(taken)).zip(reference);
        for ((name, ns), reference) in parts {
            print!("  {name} {ns:>6.1} ({:.2})", ns / reference);
        }
        println!();
    }
}

/// Prints what `on_ack` of each controller costs.
fn controllers() {
    println!("ns a controller's on_ack alone, over acknowledgements of all kinds:");
    let mut runs: Vec<(CcKind, Alone, Vec<f64>)> =
        CcKind::ALL.iter().map(|&cc| (cc, Alone::new(cc), Vec::new())).collect();
    for _ in 0..BATCHES {
        for (_, alone, batches) in &mut runs {
            batches.push(alone.run(SEGMENTS));
        }
    }
    let reference = runs.iter().find(|run| run.0 == REFERENCE).map(|run| run.2.clone());
    let reference = median(reference.unwrap_or_default());
    for (cc, _, batches) in runs {
        let ns = median(batches);
        println!("    {:<10}  on_ack {ns:>6.1} ({:.2})", cc.name(), ns / reference);
    }
}

/// Prints what each balancer costs.
fn balancers() {
    println!("ns a balancer's next_ev and on_feedback alone, of 256 paths:");
    for &lb in LbKind::ALL {
        print!("    {:<10}", lb.name());
        for (name, case) in Case::ALL {
            let mut flow = Steady::new(lb, case);
            let batches = (0..BATCHES).map(|_| flow.run(SEGMENTS)).collect();
            print!("  {name} {:>5.1}", median(batches));
        }
        println!();
    }
}

fn median(values: Vec<f64>) -> f64 {
    quantile(values, 2)
}

/// The value at one `parts`-th of the values in their order: 2 gives the median, 10 the first
/// decile.
fn quantile(mut values: Vec<f64>, parts: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / parts).copied().unwrap_or(f64::NAN)
}
