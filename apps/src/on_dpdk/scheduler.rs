//! `headrace scheduler`: the scheduler of Zeropod's pod on a real network.
//!
//! `live::nic::scheduler` has the process; here flags become its set-up, and what it has decided is
//! printed.

use experiments::hosts_file::HostsFile;
use experiments::input::InputError;
use experiments::plan::{Draft, Origin, check_matcher, keys};
use transport::wire::addressing::UDP_PORT;

use super::device;
use crate::args::scheduler::SchedulerArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;

/// Serves hosts until Ctrl-C, then prints the counters.
///
/// # Errors
/// Bad input, or an unfit machine.
pub(crate) fn run(args: &SchedulerArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let setup = setup(args)?;
    let mut monitor = Shown { err: console.err };
    let served = live::nic::scheduler::run(&setup, &mut monitor)?;
    let pods = &served.pods;
    let refusals = pods.refusals().filter(|(_, count)| *count > 0);
    if args.json {
        let refusals: std::collections::BTreeMap<_, _> = refusals.collect();
        let summary = serde_json::json!({
            "counters": served.counters,
            "scheduler": {
                "epochs": pods.epochs,
                "grants": pods.grants,
                "term": pods.term,
                "clock_error_ns": pods.clock_error.as_us_f64() * 1000.0,
                "refusals": refusals,
            },
        });
        writeln!(console.out, "{summary}")?;
    } else {
        for (name, count) in &served.counters {
            writeln!(console.out, "{name:>18} {count}")?;
        }
        for (name, count) in
            [("epochs", pods.epochs), ("grants", pods.grants)].into_iter().chain(refusals)
        {
            writeln!(console.out, "{name:>18} {count}")?;
        }
    }
    Ok(Exit::Finished)
}

fn setup(args: &SchedulerArgs) -> Result<live::nic::scheduler::SchedulerSetup, Failure> {
    let hosts = HostsFile::read_path(&args.hosts)?;
    let mut draft = Draft::default();
    draft.set_transport("zeropod", Origin::Default)?;
    for text in &args.set {
        let wrong = |found: String, expected: &str| {
            let help = format!("sched.zeropod. and one of {}", keys::OF_SCHEDULER.join(", "));
            InputError::new(found, expected).at("--set", 0, 0).help(help)
        };
        let (key, value) =
            text.split_once('=').ok_or_else(|| wrong(format!("`{text}`"), "KEY=VALUE"))?;
        let (key, value) = (key.trim(), value.trim());
        if !keys::is_of_scheduler(keys::canonical(key)) {
            let expected = "a key of the scheduler's decisions; hosts have all others";
            return Err(wrong(format!("`{key}`"), expected).into());
        }
        draft.set(key, value, Origin::Set).map_err(|error| error.at("--set", 0, 0))?;
    }
    let device = args.device.as_deref().map(|text| device::named("--device", text)).transpose()?;
    let udp_port = args.udp_port.or(hosts.udp_port).unwrap_or(UDP_PORT);
    let params = draft.settings.sched_params.zeropod;
    check_matcher(&params)?;
    Ok(live::nic::scheduler::SchedulerSetup { hosts, device, params, udp_port })
}

/// Shows what happens.
struct Shown<'a> {
    err: &'a mut dyn std::io::Write,
}

impl live::nic::scheduler::SchedulerMonitor for Shown<'_> {
    fn wants_end(&mut self) -> bool {
        crate::interrupt::requested()
    }

    fn on_event(&mut self, text: &str) {
        // Where standard error fails there is no other place to report to.
        let _ = writeln!(self.err, "{text}");
    }
}
