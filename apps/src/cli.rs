//! The commands of the command line. Flags (`args.rs`) and exit codes are a contract with scripts.

use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand};
use clap_complete::Shell;

use crate::args::dci::DciArgs;
use crate::args::perf::{Perf, Ping};
use crate::args::scheduler::SchedulerArgs;
use crate::args::{Bench, ReportArgs, RunArgs};
use crate::gather::GatherArgs;
use crate::generate::MatrixOrder;
use crate::list::What;
use crate::tournament::TournamentArgs;
use crate::why::WhyArgs;

/// A userspace transport stack for AI and HPC datacentres: runs a traffic matrix, in virtual time
/// or through DPDK, and reports the results.
#[derive(Debug, Parser)]
#[command(name = "headrace", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Logs more; give it twice for debugging. The variable RUST_LOG overrules it.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 all flows finished and the audit holds; 1 flows are unfinished, the audit failed, or
the run is invalid; 2 bad input; 3 the environment is not fit (see headrace doctor); 130 interrupted
before a result; 141 the reader of the output ended before all was written";

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a traffic matrix or a scenario.
    Run(Box<RunArgs>),
    /// Reports what this machine can and cannot do, and the commands that mend what is missing.
    Doctor {
        /// Prints JSON.
        #[arg(long)]
        json: bool,
        /// Opens this device and reports how it is used: a virtual device, a netdev or a PCI
        /// address.
        #[arg(long, value_name = "DEVICE")]
        device: Option<String>,
        /// Queues to ask the device for, one for each worker.
        #[arg(long, value_name = "N", default_value_t = 1, requires = "device",
              value_parser = clap::value_parser!(u16).range(1..=16))]
        queues: u16,
        /// Checks this file of keys: psk:FILE or psk-auth:FILE, as `run` takes it.
        #[arg(long, value_name = "MODE:FILE", value_parser = keys)]
        security: Option<String>,
    },
    /// Makes a traffic matrix (.cm).
    Gen(MatrixOrder),
    /// Lists the names of one kind: transports, topologies, scenarios, settings and others.
    List {
        /// The kind of thing to list.
        what: What,
        /// The scenario of `variants`: a file or one of `headrace list scenarios`.
        #[arg(required_if_eq("what", "variants"), value_name = "SCENARIO")]
        of: Option<PathBuf>,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Puts results side by side: first the differences of their inputs, then every number.
    Compare {
        /// Directories of runs, or of scenarios with variants. Values of the second and all further
        /// ones are also shown as multiples of those of the first.
        #[arg(required = true, num_args = 2.., value_name = "DIR")]
        dirs: Vec<PathBuf>,
    },
    /// Draws the results of runs.
    Report(ReportArgs),
    /// Measures the data path, side by side with dpdk-testpmd.
    Bench {
        /// The measurement.
        #[command(subcommand)]
        what: Bench,
    },
    /// Measures throughput between two processes, each with a device of its own.
    Perf {
        /// The end of the link to run.
        #[command(subcommand)]
        what: Perf,
    },
    /// Measures round trips between two processes, each with a device of its own.
    Ping {
        /// The end of the link to run.
        #[command(subcommand)]
        what: Ping,
    },
    /// Runs MLCC's border switch between the devices of a site and the one to other sites.
    Dci(Box<DciArgs>),
    /// Runs the scheduler of Zeropod's hosts on a real network.
    Scheduler(SchedulerArgs),
    /// Puts the results of a sweep together that ran in parts, such as jobs of Slurm.
    Gather(GatherArgs),
    /// Explains where the time of the slowest flows of a run went, in words and numbers.
    ///
    /// For flows of Zeropod it also says what the decisions of their pods' schedulers did.
    Why(WhyArgs),
    /// Runs transports on mixes of traffic, networks and faults that a seed draws, and ranks them.
    /// Choose settings on the mixes of tuning, and judge them on the mixes of checking.
    Tournament(TournamentArgs),
    /// Feeds a recorded run through the core again and reports whether the core decides the same,
    /// bit for bit.
    Replay {
        /// Recordings, or directories of runs with --set vdev.record=on --out DIR.
        #[arg(required = true, value_name = "DIR|FILE.rec")]
        paths: Vec<PathBuf>,
    },
    /// Prints completions for a shell; put them into the shell's folder of completions.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Writes the manual pages, one for each command.
    Man {
        /// The directory, such as a `man1` folder of MANPATH; it is made when it is missing.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

/// The file of keys of `headrace doctor`, and what they are for.
fn keys(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        Some(("psk" | "psk-auth", _)) => Ok(text.to_owned()),
        _ => Err("expected psk:FILE, or psk-auth:FILE to leave payloads readable".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    /// The commands of the program in the blocks of shell lines of a document: without comments,
    /// with lines that continue put together.
    fn commands(text: &str) -> Vec<String> {
        let block = |rest: &str| rest.split("```").next().unwrap_or_default().replace("\\\n", " ");
        let mut found = Vec::new();
        for block in text.split("```sh\n").skip(1).map(block) {
            let mut ends = String::new();
            for line in block.lines() {
                let line = line.split(" #").next().unwrap_or_default();
                if let Some(value) = line.strip_prefix("ends=") {
                    ends = value.trim().trim_matches('"').to_owned();
                }
                let line = line.replace("$ends", &ends).replace("$headrace", "headrace");
                for part in line.split(['|', ';']) {
                    let words: Vec<&str> = part.split_whitespace().collect();
                    let name = |word: &&str| {
                        *word == "headrace" || (word.ends_with("/headrace") && !word.contains('='))
                    };
                    let Some(at) = words.iter().position(name) else { continue };
                    let end = |word: &&&str| !["&", "&&"].contains(*word) && !word.starts_with('>');
                    let words: Vec<&str> = words[at..].iter().take_while(end).copied().collect();
                    found.push(words.join(" "));
                }
            }
        }
        found
    }

    fn documents() -> Vec<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
        let pages = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
        pages.chain([root.join("README.md")]).collect()
    }

    #[test]
    fn every_command_of_the_documents_is_one() {
        let mut seen = 0;
        for page in documents() {
            for line in commands(&fs::read_to_string(&page).unwrap()) {
                let parsed = Cli::try_parse_from(line.split_whitespace());
                assert!(parsed.is_ok(), "{}: {line}: {}", page.display(), parsed.unwrap_err());
                seen += 1;
            }
        }
        assert!(seen > 40, "{seen} commands");
    }

    #[test]
    fn a_use_of_keys_that_there_is_not_is_refused_as_a_flag() {
        let parse = |text| Cli::try_parse_from(["headrace", "doctor", "--security", text]);
        for text in ["foo:/x", "/x", ""] {
            let said = parse(text).unwrap_err().to_string();
            assert!(said.contains("expected psk:FILE"), "{text}: {said}");
        }
        assert!(parse("psk:/x").is_ok() && parse("psk-auth:/x").is_ok());
    }

    #[test]
    fn commands_are_found_behind_variables_pipes_and_comments() {
        let text = "```sh\nheadrace=a/headrace\nends=\"--at 0=x\"\n\
                    a/headrace perf server $ends   # here\nls\n\
                    x | headrace list \\\n  cc > f\n```\nheadrace no\n";
        assert_eq!(commands(text), ["a/headrace perf server --at 0=x", "headrace list cc"]);
    }
}
