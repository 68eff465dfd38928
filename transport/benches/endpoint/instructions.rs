//! Instructions by callgrind: this benchmark runs itself under valgrind, one part at a time, and
//! counts the instructions executed below the part's function. Without valgrind it prints a remark.

use transport::BURST;
use transport::cc::{CcKind, Smartt};
use transport::lb::LbKind;

use crate::balancer::{self, Steady};
use crate::callgrind::count;
use crate::controller::{Alone, Case};
use crate::exchange::{Exchange, Nanos};
use crate::secrets;

/// Segments of a counted exchange.
pub(crate) const SEGMENTS: u64 = 50_000;
const ACKS: u64 = 10_000;

/// `--counted exchange CC FLOWS BURST`, `--counted proven FLOWS`, `--counted on_ack CC CASE`,
/// `--counted balance LB CASE` or `--counted header KIND`.
pub(crate) fn child(args: &[String]) {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let controller = |name: &str| {
        let exchanged = crate::EXCHANGED.into_iter().find(|cc| cc.name() == name);
        exchanged.or(CcKind::by_name(name)).expect("a controller")
    };
    match args[..] {
        ["exchange", cc, flows, burst, ..] => {
            let burst = number(burst) as usize;
            let mut exchange = Exchange::new(controller(cc), number(flows), burst);
            exchange.run(SEGMENTS, &mut Nanos::default());
        }
        ["proven", flows, ..] => {
            Exchange::proven(crate::REFERENCE, number(flows)).run(SEGMENTS, &mut Nanos::default());
        }
        ["on_ack", cc, case, ..] => {
            let (_, case) = *Case::ALL.iter().find(|(name, _)| *name == case).expect("a case");
            let mut alone = Alone::new(controller(cc));
            (0..ACKS).for_each(|_| alone.ack(case));
        }
        ["balance", lb, case, ..] => {
            let known = balancer::Case::ALL.iter().find(|(name, _)| *name == case);
            let (lb, (_, case)) = (LbKind::by_name(lb), known.expect("a case"));
            Steady::new(lb.expect("a balancer"), *case).run(SEGMENTS);
        }
        ["header", kind, ..] => secrets::count_headers(kind),
        _ => panic!("not a part: {args:?}"),
    }
}

/// Prints all counts.
pub(crate) fn print() {
    let program = std::env::current_exe().expect("this program has a path");
    println!("instructions a DATA segment, by callgrind:");
    for (flows, burst) in [(1, BURST), (64, BURST), (64, 1)] {
        println!("  {flows} flows, bursts of {burst}:");
        for cc in crate::EXCHANGED {
            print!("    {:<10}", cc.name());
            for (name, part) in
                [("send", "part_send"), ("ack", "part_ack"), ("receive", "part_receive")]
            {
                let args = ["exchange", cc.name(), &flows.to_string(), &burst.to_string()];
                match count(&program, part, &args) {
                    Ok(total) => print!("  {name} {:>5.0}", total as f64 / SEGMENTS as f64),
                    Err(why) => return println!("{why}"),
                }
            }
            println!();
        }
    }
    //= smartt#III-G
    println!("instructions an acknowledgement (SMaRTT's paper: 59 on QuickAdapt .. 94):");
    for (name, _) in Case::ALL {
        print!("    {name:<22}");
        for cc in [CcKind::Smartt, CcKind::UnoCc] {
            match count(&program, "part_on_ack", &["on_ack", cc.name(), name]) {
                Ok(total) => print!("  {} {:>4.0}", cc.name(), total as f64 / ACKS as f64),
                Err(why) => return println!("{why}"),
            }
        }
        println!();
    }
    println!("instructions a packet of a balancer, next_ev and on_feedback:");
    for &lb in LbKind::ALL {
        print!("    {:<10}", lb.name());
        for (name, _) in balancer::Case::ALL {
            print!("  {name}");
            for part in ["part_next_ev", "part_on_feedback"] {
                match count(&program, part, &["balance", lb.name(), name]) {
                    Ok(total) => print!(" {:>4.0}", total as f64 / SEGMENTS as f64),
                    Err(why) => return println!("{why}"),
                }
            }
        }
        println!();
    }
    let (flow, shared) = (size_of::<Smartt>(), Smartt::SHARED_BYTES);
    println!("bytes of SMaRTT state (the paper: 19 a flow, 28 globally):");
    println!("    {flow} a flow, {shared} a path and its settings");
}
