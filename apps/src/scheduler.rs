//! `headrace scheduler`: the scheduler of Zeropod's pod on a real network.
//!
//! `live::nic::scheduler` has the process; here flags become its set-up, and what it has decided is
//! printed.

use std::path::PathBuf;

use clap::Args;

use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;

/// The hosts, and how the scheduler decides.
#[derive(Debug, Args)]
pub(crate) struct SchedulerArgs {
    /// The hosts of the run, one of them with role = "scheduler": its device, address, core and
    /// memory are this process's.
    #[arg(long, value_name = "HOSTS.toml")]
    pub(crate) hosts: PathBuf,
    /// Device in the place of the file's: a virtual device with its arguments, a netdev or a PCI
    /// address.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// Changes how it decides: sched.zeropod.KEY, with KEY one of matcher, iterations, kernel,
    /// classes, fair_every, block and ask_every; may be given several times. Hosts name all other
    /// settings; ask_every should be the one that the hosts have.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// UDP port of the traffic [default: that of the hosts file, or 4797].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) udp_port: Option<u16>,
    /// Prints what was decided as JSON and nothing else on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Serves hosts until Ctrl-C, then prints the counters.
///
/// # Errors
/// Bad input, or an unfit machine.
#[cfg(feature = "dpdk")]
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

#[cfg(feature = "dpdk")]
fn setup(args: &SchedulerArgs) -> Result<live::nic::scheduler::SchedulerSetup, Failure> {
    use experiments::hosts_file::HostsFile;
    use experiments::input::InputError;
    use experiments::plan::{Draft, Origin, check_kernel, keys};
    use transport::wire::addressing::UDP_PORT;

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
    let device = args.device.as_deref().map(crate::device::named).transpose()?;
    let udp_port = args.udp_port.or(hosts.udp_port).unwrap_or(UDP_PORT);
    let params = draft.settings.sched_params.zeropod;
    check_kernel(&params)?;
    Ok(live::nic::scheduler::SchedulerSetup { hosts, device, params, udp_port })
}

/// Shows what happens.
#[cfg(feature = "dpdk")]
struct Shown<'a> {
    err: &'a mut dyn std::io::Write,
}

#[cfg(feature = "dpdk")]
impl live::nic::scheduler::SchedulerMonitor for Shown<'_> {
    fn wants_end(&mut self) -> bool {
        crate::interrupt::requested()
    }

    fn on_event(&mut self, text: &str) {
        // Where standard error fails there is no other place to report to.
        let _ = writeln!(self.err, "{text}");
    }
}

/// This build has no DPDK.
///
/// # Errors
/// Always.
#[cfg(not(feature = "dpdk"))]
pub(crate) fn run(_args: &SchedulerArgs, _console: &mut Console<'_>) -> Result<Exit, Failure> {
    Err(Failure::Unfit(
        "this build of headrace has no DPDK; build it with the feature `dpdk`".to_owned(),
    ))
}
