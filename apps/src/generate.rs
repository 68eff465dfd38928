//! `headrace gen`: matrices made to order, written as `.cm` files.
//!
//! The flags of each workload are made from its registered parameters, so a new workload has them
//! without a line here. A few spellings with a unit in the flag's name (`--duration-us`) are added.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, FromArgMatches, value_parser};
use experiments::input::{InputError, is_standard_input};
use experiments::workload::by_name;
use experiments::workload::cm::StartUnit;
use experiments::workload::matrix::{HOSTS_MAX, Start};
use experiments::workload::{
    GENERATORS, Generator, Matrix, Parameter, Params, Workload, check, cm_write, stream,
};
use transport::{Duration, Rng};

use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;
use crate::table;

/// One matrix to make.
#[derive(Clone, Debug)]
pub(crate) struct MatrixOrder {
    workload: String,
    hosts: u32,
    seed: u64,
    start: Duration,
    output: Option<PathBuf>,
    /// (parameter, value, flag) as given.
    parameters: Vec<(&'static str, String, &'static str)>,
}

/// A second spelling of a parameter: its name, the parameter, and the unit that its value lacks.
const SPELLINGS: [(&str, &str, &str); 3] = [
    ("duration-us", "duration", "us"),
    ("link-gbps", "link_rate", "Gbps"),
    ("prefer-remote", "remote", ""),
];

/// The stream of random numbers that makes matrices, here and in scenarios.
pub(crate) fn rng(seed: u64) -> Rng {
    Rng::new(seed).fork("workload", 0)
}

/// Makes the matrix and writes it to its file or to standard output.
///
/// # Errors
/// When the parameters do not fit, or the file cannot be written.
pub(crate) fn run(order: &MatrixOrder, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let mut params = Params::from_pairs([]);
    for (name, value, flag) in &order.parameters {
        params.push_flag(name, value, &flag.replace('_', "-"));
    }
    let workload = by_name(&order.workload, &params)?;
    let Some(streamed) = workload.streamed() else {
        let matrix = make(&*workload, order)?;
        let flows = matrix.flows.len() as u64;
        return write(order, flows, console, &|out| cm_write::write(&matrix, StartUnit::Us, out));
    };
    let (hosts, rng) = (order.hosts, rng(order.seed));
    let counts = stream::count(streamed, hosts, &rng)?;
    check_start(order.start, counts.latest)?;
    write(order, counts.flows, console, &|out| {
        stream::write((streamed, counts), (hosts, &rng), order.start, out)
    })
}

/// Writes a matrix by `fill` to its file or to standard output; a warning comes before gigabytes.
fn write(
    order: &MatrixOrder,
    flows: u64,
    console: &mut Console<'_>,
    fill: &dyn Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<Exit, Failure> {
    let bytes = flows.saturating_mul(LINE_BYTES);
    if bytes >= WARN_BYTES {
        #[expect(clippy::cast_precision_loss, reason = "a display; 53 bits are plenty")]
        let size = table::size(bytes as f64);
        writeln!(
            console.err,
            "warning: about {size} of text; `| zstd > FILE.cm.zst` keeps it small, as run reads"
        )?;
    }
    match order.output.as_deref().filter(|path| !is_standard_input(path)) {
        None => fill(&mut *console.out)?,
        Some(path) => {
            output::write_file(path, |file| fill(file))?;
            writeln!(console.err, "{}: {flows} flows, {} hosts", path.display(), order.hosts)?;
        }
    }
    Ok(Exit::Finished)
}

/// Bytes of a line of a flow that a trigger starts, about.
const LINE_BYTES: u64 = 80;
/// Matrices of more bytes are worth a warning.
const WARN_BYTES: u64 = 1 << 30;

fn make(workload: &dyn Workload, order: &MatrixOrder) -> Result<Matrix, InputError> {
    let mut matrix = workload.generate(order.hosts, &mut rng(order.seed))?;
    let starts = matrix.flows.iter().filter_map(|flow| match flow.start {
        Start::At(at) => Some(at),
        Start::On(_) => None,
    });
    check_start(order.start, starts.max().unwrap_or_default())?;
    for flow in &mut matrix.flows {
        if let Start::At(at) = flow.start {
            flow.start = Start::At(at + order.start);
        }
    }
    check::check(&matrix)?;
    Ok(matrix)
}

/// Refuses to start flows, the latest of which would start at `latest`, so much later that their
/// times have no number.
fn check_start(start: Duration, latest: Duration) -> Result<(), InputError> {
    if latest <= Duration::MAX - start {
        return Ok(());
    }
    let found = format!("{} us, and a flow that starts {} us later", us(start), us(latest));
    let expected = format!("a sum of at most {} us (2^64 ps)", us(Duration::MAX));
    let error = InputError::new(found, expected).at("--start-us", 0, 0);
    Err(error.help(format!("these flows leave room for {} us", us(Duration::MAX - latest))))
}

/// Whole microseconds of a time.
fn us(time: Duration) -> u64 {
    time.as_ps() / 1_000_000
}

impl Args for MatrixOrder {
    fn augment_args(command: clap::Command) -> clap::Command {
        let workloads = GENERATORS.iter().map(subcommand);
        command.subcommand_required(true).arg_required_else_help(true).subcommands(workloads)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

fn subcommand(generator: &Generator) -> clap::Command {
    let mut command = clap::Command::new(generator.name)
        .about(generator.about)
        .arg(
            Arg::new("hosts")
                .long("hosts")
                .visible_alias("nodes")
                .value_name("N")
                .default_value("16")
                .value_parser(value_parser!(u32).range(1..=i64::from(HOSTS_MAX)))
                .help("Number of hosts"),
        )
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .default_value("1")
                .value_parser(value_parser!(u64))
                .help("Root of all chance"),
        )
        .arg(
            Arg::new("start-us")
                .long("start-us")
                .value_name("US")
                .default_value("0")
                .value_parser(|text: &str| start(text))
                .help("Adds this to every start time, microseconds"),
        )
        .arg(
            Arg::new("output")
                .short('o')
                .long("output")
                .visible_alias("out")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Writes to this file; to standard output, as without it, where it is -"),
        );
    for parameter in generator.parameters {
        command = command.arg(flag(parameter));
    }
    for (spelling, name, unit) in SPELLINGS {
        if generator.parameters.iter().any(|parameter| parameter.name == name) {
            let help = format!("The same as --{}, in {unit}", name.replace('_', "-"));
            let arg = Arg::new(spelling).long(spelling).allow_hyphen_values(true);
            command = command.arg(if unit.is_empty() {
                switch(arg).help(format!("The same as --{}", name.replace('_', "-")))
            } else {
                arg.value_name(unit.to_uppercase()).help(help).conflicts_with(name)
            });
        }
    }
    command
}

fn flag(parameter: &Parameter) -> Arg {
    let arg = Arg::new(parameter.name)
        .long(parameter.name.replace('_', "-"))
        .help(parameter.about)
        .allow_hyphen_values(true);
    // A flag whose default is `true` or `false` may stand without a value.
    if parameter.about.ends_with("(true)") || parameter.about.ends_with("(false)") {
        switch(arg)
    } else {
        arg.value_name("VALUE")
    }
}

fn switch(arg: Arg) -> Arg {
    arg.value_name("BOOL").num_args(0..=1).default_missing_value("true").require_equals(true)
}

fn start(text: &str) -> Result<Duration, String> {
    let decimal = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let parsed = experiments::input::number::duration(text).ok().filter(|_| decimal);
    parsed.ok_or_else(|| {
        "expected microseconds from 0 to 18446744073709 (2^64 ps), like 10 or 0.5".to_owned()
    })
}

impl FromArgMatches for MatrixOrder {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let Some((name, matches)) = matches.subcommand() else {
            return Err(clap::Error::new(clap::error::ErrorKind::MissingSubcommand));
        };
        let given = |id: &str| matches.try_get_one::<String>(id).ok().flatten();
        let generator = GENERATORS.iter().find(|generator| generator.name == name);
        let own = generator.map_or(&[][..], |generator| generator.parameters);
        let own = own.iter().map(|parameter| (parameter.name, parameter.name, ""));
        let parameters = own
            .chain(SPELLINGS)
            .filter_map(|(id, name, unit)| Some((name, format!("{}{unit}", given(id)?), id)))
            .collect();
        Ok(Self {
            workload: name.to_owned(),
            hosts: matches.get_one("hosts").copied().unwrap_or_default(),
            seed: matches.get_one("seed").copied().unwrap_or_default(),
            start: matches.get_one("start-us").copied().unwrap_or_default(),
            output: matches.get_one::<PathBuf>("output").cloned(),
            parameters,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_has_no_number_is_refused_with_the_most_that_has_one() {
        let latest = Duration::from_us(9);
        assert!(check_start(Duration::MAX - latest, latest).is_ok());
        let text = check_start(Duration::MAX, latest).unwrap_err().to_string();
        for part in ["--start-us", "starts 9 us later", "room for 18446744073700 us"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
