//! The flags of `headrace scheduler`.

use std::path::PathBuf;

use clap::Args;

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
    /// classes, fair_every, superepoch and ask_every; may be given several times. Hosts name all
    /// other settings; ask_every should be the one that the hosts have.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// UDP port of the traffic [default: that of the hosts file, or 4797].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) udp_port: Option<u16>,
    /// Prints what was decided as JSON and nothing else on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}
