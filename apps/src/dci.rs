//! `headrace dci`: MLCC's border switch between real devices.
//!
//! `live::border` has the switch; here flags become its set-up, and what it has passed is printed.

use std::path::PathBuf;

use clap::Args;
use experiments::input::number;
use transport::wire::int::Hop;
use transport::{Duration, Rate};

use crate::args::OnOff;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;

/// The devices, the distance, and the hosts of both sides.
#[derive(Debug, Args)]
pub(crate) struct DciArgs {
    /// Device into the site: a virtual device with its arguments, a netdev or a PCI address.
    /// Several devices are one site; a memif that is to connect has role=client.
    #[arg(long, value_name = "DEVICE", required = true)]
    pub(crate) lan: Vec<String>,
    /// Device to the other sites; a site has one border switch here, with one link.
    #[arg(long, value_name = "DEVICE", required = true)]
    pub(crate) wan: Vec<String>,
    /// The hosts of all sites, each with its `site`.
    #[arg(long, value_name = "HOSTS.toml")]
    pub(crate) hosts: PathBuf,
    /// The site of this switch.
    #[arg(long, value_name = "NAME")]
    pub(crate) site: String,
    /// Distance to emulate outwards, one way; that of the device is added.
    #[arg(long, value_name = "TIME", default_value = "0us", value_parser = duration)]
    pub(crate) wan_delay: Duration,
    /// Rate towards other sites.
    #[arg(long, value_name = "RATE", default_value = "100Gbps", value_parser = rate)]
    pub(crate) wan_rate: Rate,
    /// Rate towards one host of the site.
    #[arg(long, value_name = "RATE", default_value = "25Gbps", value_parser = rate)]
    pub(crate) lan_rate: Rate,
    /// MTU of the hosts [default: the largest of the devices].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(576..=9202))]
    pub(crate) mtu: Option<u16>,
    /// Changes a setting of the switch, switch.dci.KEY or its second name; may be given several
    /// times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Frames that can be held at once, on the emulated link too.
    #[arg(long, value_name = "N", default_value_t = 16_383,
          value_parser = clap::value_parser!(u32).range(4096..=4_194_303))]
    pub(crate) buffers: u32,
    /// Whether to use hugepages; without this flag they are used when there are enough.
    #[arg(long, value_enum)]
    pub(crate) hugepages: Option<OnOff>,
    /// Core to run on; without this flag any core.
    #[arg(long, value_name = "N")]
    pub(crate) core: Option<usize>,
    /// Argument for DPDK's EAL, unchanged; may be given several times.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) eal: Vec<String>,
    /// Seconds to wait for the process behind a device that connects.
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) wait: u64,
    /// Prints what has passed as JSON and nothing else on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    number::duration(text).map_err(|_| "expected a time like 500us or 3ms".to_owned())
}

fn rate(text: &str) -> Result<Rate, String> {
    // Telemetry says no rate below that: a controller would take a slower link for faster than it
    // is, and fill it.
    let read = number::rate(text).ok().filter(|rate| *rate >= Hop::RATE_LEAST);
    read.ok_or_else(|| "expected a rate of at least 100Mbps, like 40Gbps".to_owned())
}

/// Passes frames until Ctrl-C, then prints the counters.
///
/// # Errors
/// Bad input, or an unfit machine.
#[cfg(feature = "dpdk")]
pub(crate) fn run(args: &DciArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let setup = setup(args)?;
    let mut monitor = Shown { err: console.err };
    let passed = live::border::run(&setup, &mut monitor)?;
    if args.json {
        let summary = serde_json::json!({
            "site": args.site,
            "counters": passed.counters,
            "mlcc": passed.mlcc,
            "audit": { "ok": passed.balanced },
        });
        writeln!(console.out, "{summary}")?;
    } else {
        for (name, count) in &passed.counters {
            writeln!(console.out, "{name:>18} {count}")?;
        }
        let mlcc = serde_json::to_value(passed.mlcc).map_err(std::io::Error::from)?;
        for (name, count) in mlcc.as_object().into_iter().flatten() {
            writeln!(console.out, "{name:>18} {count}")?;
        }
    }
    Ok(if passed.balanced { Exit::Finished } else { Exit::Unfinished })
}

#[cfg(feature = "dpdk")]
fn setup(args: &DciArgs) -> Result<live::border::Setup, Failure> {
    use experiments::hosts_file::HostsFile;
    use experiments::input::InputError;
    use live::peers::MemoryMode;

    use crate::device;

    let [wan] = args.wan.as_slice() else {
        let found = format!("{} devices", args.wan.len());
        let error = InputError::new(found, "one device, which leads to the other sites");
        let help = "acknowledgements have to pass the switch that has the queue of their flow, and \
                    with several links only the routers of the site choose the switch; the worlds \
                    sim and vdev emulate several links and border switches (headrace run --topo \
                    two-dc-leaf:DELAY,GBPS,LINKS,HOSTS,BORDERS)";
        return Err(error.at("--wan", 0, 0).help(help).into());
    };
    let lan = args.lan.iter().map(|text| device::resolved(text)).collect::<Result<_, _>>()?;
    let parted = |text: &String| {
        let pair = text
            .split_once('=')
            .ok_or_else(|| InputError::new(format!("`{text}`"), "KEY=VALUE").at("--set", 0, 0))?;
        Ok::<_, InputError>((pair.0.trim().to_owned(), pair.1.trim().to_owned()))
    };
    Ok(live::border::Setup {
        lan,
        wan: device::resolved(wan)?,
        hosts: HostsFile::read_path(&args.hosts)?,
        site: args.site.clone(),
        lan_rate: args.lan_rate,
        wan_rate: args.wan_rate,
        wan_delay: args.wan_delay,
        mtu: args.mtu,
        settings: args.set.iter().map(parted).collect::<Result<_, _>>()?,
        buffers: args.buffers,
        memory: match args.hugepages {
            None => MemoryMode::Auto,
            Some(OnOff::On) => MemoryMode::Hugepages,
            Some(OnOff::Off) => MemoryMode::NoHuge,
        },
        eal_arguments: args.eal.clone(),
        core: args.core,
        wait: Duration::from_s(args.wait),
    })
}

/// Shows what happens.
#[cfg(feature = "dpdk")]
struct Shown<'a> {
    err: &'a mut dyn std::io::Write,
}

#[cfg(feature = "dpdk")]
impl live::border::BorderMonitor for Shown<'_> {
    fn wants_end(&mut self) -> bool {
        crate::interrupt::requested()
    }

    fn on_opened(&mut self, device: &str) {
        // Where standard error fails there is no other place to report to.
        let _ = writeln!(self.err, "{device}");
    }

    fn on_ready(&mut self) {
        let _ = writeln!(
            self.err,
            "frames pass; of the queues inside the site only this switch's are seen, and those of \
             switches that write INT: where none does, let hosts run with cc.mlcc.signal=delay"
        );
    }
}

#[cfg(feature = "dpdk")]
impl From<live::border::BorderError> for Failure {
    fn from(error: live::border::BorderError) -> Self {
        use live::border::BorderError;
        match error {
            BorderError::Input(error) => Self::Input(error),
            BorderError::Dpdk(_) | BorderError::Chance(_) => Self::Unfit(error.to_string()),
            BorderError::NotAnswered { .. } => Self::Peer(error.to_string()),
            BorderError::Interrupted => Self::Interrupted(error.to_string()),
        }
    }
}

/// This build has no DPDK.
///
/// # Errors
/// Always.
#[cfg(not(feature = "dpdk"))]
pub(crate) fn run(_args: &DciArgs, _console: &mut Console<'_>) -> Result<Exit, Failure> {
    Err(Failure::Unfit(
        "this build of headrace has no DPDK; build it with the feature `dpdk`".to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_telemetry_cannot_say_are_refused() {
        for text in ["0Gbps", "99Mbps", "fast"] {
            assert!(rate(text).unwrap_err().contains("at least 100Mbps"), "{text}");
        }
        assert_eq!(rate("100Mbps"), Ok(Rate::from_bps(100_000_000)));
    }
}
