//! `headrace dci`: MLCC's border switch between real devices.
//!
//! `live::border` has the switch; here flags become its set-up, and what it has passed is printed.

use experiments::hosts_file::HostsFile;
use experiments::input::InputError;
use live::peers::MemoryMode;
use transport::{Duration, Rate};

use super::device;
use crate::args::OnOff;
use crate::args::dci::DciArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;

/// Passes frames until Ctrl-C, then prints the counters.
///
/// # Errors
/// Bad input, or an unfit machine.
pub(crate) fn run(args: &DciArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let setup = setup(args)?;
    let mut monitor = Shown { err: console.err, lan_rate: args.lan_rate };
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

fn setup(args: &DciArgs) -> Result<live::border::BorderSetup, Failure> {
    let [wan] = args.wan.as_slice() else {
        let found = format!("{} devices", args.wan.len());
        let error = InputError::new(found, "one device, which leads to the other sites");
        let help = "acknowledgements have to pass the switch that has the queue of their flow, and \
                    with several links only the routers of the site choose the switch; the worlds \
                    sim and vdev emulate several links and border switches (headrace run --topo \
                    two-dc-leaf:DELAY,GBPS,LINKS,HOSTS,BORDERS)";
        return Err(error.at("--wan", 0, 0).help(help).into());
    };
    let lan = args.lan.iter().map(|text| device::resolved("--lan", text));
    let lan = lan.collect::<Result<_, _>>()?;
    let parted = |text: &String| {
        let pair = text
            .split_once('=')
            .ok_or_else(|| InputError::new(format!("`{text}`"), "KEY=VALUE").at("--set", 0, 0))?;
        Ok::<_, InputError>((pair.0.trim().to_owned(), pair.1.trim().to_owned()))
    };
    Ok(live::border::BorderSetup {
        lan,
        wan: device::resolved("--wan", wan)?,
        hosts: HostsFile::read_path(&args.hosts)?,
        site: args.site.clone(),
        lan_rate: args.lan_rate,
        wan_rate: args.wan_rate,
        wan_delay: args.wan_delay,
        marks: args.ecn.map(|(kmin, kmax)| live::border::Marks { kmin, kmax }),
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
struct Shown<'a> {
    err: &'a mut dyn std::io::Write,
    lan_rate: Rate,
}

impl live::border::BorderMonitor for Shown<'_> {
    fn wants_end(&mut self) -> bool {
        crate::interrupt::requested()
    }

    fn on_opened(&mut self, device: &str) {
        // Where standard error fails there is no other place to report to.
        let _ = writeln!(self.err, "{device}");
    }

    fn on_no_link(&mut self, device: &str, interface: Option<&str>) {
        let mend = match interface {
            Some(name) => {
                format!("`ip link set dev {name} up` here and at the other end, or check")
            }
            None => "start the other end, or check".to_owned(),
        };
        let _ = writeln!(
            self.err,
            "{device}: no link yet, and no frame passes there until it is up: {mend} cable and \
             module"
        );
    }

    fn on_ready(&mut self) {
        let _ = writeln!(
            self.err,
            "frames pass; of the queues inside the site only this switch's are seen, and those of \
             switches that write INT: where none does, let hosts run with cc.mlcc.signal=delay"
        );
    }

    fn on_advice_refused(&mut self) {
        let _ = writeln!(
            self.err,
            "advice of a rate of zero, or of more than --lan-rate {}, came and is not followed \
             (advice_refused): where hosts of this site have faster links by their devices or by \
             --topo two-sites:HOSTS,GBPS, give that rate as --lan-rate",
            self.lan_rate
        );
    }
}

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
