//! The observations of a run that flags ask for.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf, absolute};

use experiments::capture::Capture;
use experiments::input::InputError;
use experiments::observe::Observe;

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::manifest::Input;

/// The observations that `args` ask for.
///
/// # Errors
/// A capture that makes no sense.
pub(crate) fn of_run(args: &RunArgs) -> Result<Observe, InputError> {
    let capture = args.capture.as_deref().map(Capture::parse).transpose();
    let capture = capture.map_err(|error| error.at("--capture", 0, 0))?;
    Ok(Observe { capture, why: args.why, ..args.observe.wanted() })
}

/// Refuses observations that a simulation does not have.
///
/// # Errors
/// Names the flag.
pub(crate) fn check_simulation(observe: &Observe) -> Result<(), Failure> {
    match flags(observe).find(|flag| *flag != "--capture") {
        None => Ok(()),
        Some(flag) => Err(Failure::CommandLine(format!(
            "error: {flag} shows DPDK workers, and a simulation has none\n  \
             help: add --world vdev, or leave {flag} out"
        ))),
    }
}

/// Refuses to show anything of a scenario with variants.
///
/// # Errors
/// Names the flag.
pub(crate) fn check_variants(args: &RunArgs) -> Result<(), Failure> {
    match flags(&of_run(args)?).next() {
        None => Ok(()),
        Some(flag) => Err(Failure::CommandLine(format!(
            "error: {flag} shows one run, and this scenario has variants\n  \
             help: leave it out, or write one variant as a scenario of its own"
        ))),
    }
}

/// Refuses to write a file that the run reads, or one that has its results, which are files of
/// these names.
///
/// # Errors
/// Names the flag and the other use of the file.
pub(crate) fn check_files(
    args: &RunArgs,
    observe: &Observe,
    inputs: &[Input],
    results: &[&str],
) -> Result<(), InputError> {
    let read = inputs.iter().map(|input| (format!("the {} of the run", input.role), &*input.path));
    let keys = args.security.as_deref().and_then(|text| text.split_once(':'));
    let read = read.chain(keys.map(|(_, path)| ("the keys of --security".to_owned(), path)));
    let mut taken: Vec<(String, PathBuf)> =
        read.map(|(whose, path)| (whose, settled(Path::new(path)))).collect();
    for name in results {
        let path = args.out.iter().map(|out| settled(&out.join(name)));
        taken.extend(path.map(|path| ("a file of --out".to_owned(), path)));
    }
    let written = [
        ("--capture", observe.capture.as_ref().map(|capture| &capture.file)),
        ("--metrics", observe.metrics.as_ref()),
        ("--key-log", args.key_log.as_ref()),
    ];
    for (flag, path) in written {
        let Some(path) = path else { continue };
        let place = settled(path);
        if let Some((whose, _)) = taken.iter().find(|(_, other)| is_same(other, &place)) {
            let found = format!("`{}`, {whose}", path.display());
            let error = InputError::new(found, "a file that nothing else uses").at(flag, 0, 0);
            return Err(error.help("name another file"));
        }
        taken.push((format!("the file of {flag}"), place));
    }
    Ok(())
}

/// A path without links and relative parts, as far as it is there.
fn settled(path: &Path) -> PathBuf {
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = path.ancestors().find_map(|there| Some((there, there.canonicalize().ok()?)));
    let rest = there.and_then(|(there, real)| Some((real, path.strip_prefix(there).ok()?)));
    match rest {
        Some((real, rest)) if rest.as_os_str().is_empty() => real,
        Some((real, rest)) => real.join(rest),
        None => path,
    }
}

/// Whether two settled paths lead to one file: equal paths, or two names of one file (hard links).
fn is_same(a: &Path, b: &Path) -> bool {
    let file = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    a == b || file(a).is_some_and(|one| file(b) == Some(one))
}

/// The flags that were given.
fn flags(observe: &Observe) -> impl Iterator<Item = &'static str> {
    let given = [
        ("--metrics", observe.metrics.is_some()),
        ("--telemetry", observe.telemetry),
        ("--capture", observe.capture.is_some()),
    ];
    given.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn refusal(flags: &[&str], input: &str) -> String {
        let cli = Cli::try_parse_from([&["headrace", "run", input], flags].concat()).unwrap();
        let Command::Run(args) = cli.command else { panic!("a run") };
        let input = Input {
            role: "matrix".into(),
            path: input.to_owned(),
            bytes: 0,
            sha256: String::new(),
        };
        let checked =
            check_files(&args, &of_run(&args).unwrap(), &[input], &["summary.json", "flows.jsonl"]);
        checked.map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn a_file_that_is_read_or_has_results_is_no_place_for_a_capture() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let matrix = path("a.cm");
        fs::write(&matrix, "").unwrap();
        let links = path("links");
        std::os::unix::fs::symlink(dir.path(), &links).unwrap();
        let (out, linked) = (path("out"), path("b.cm"));
        fs::hard_link(&matrix, &linked).unwrap();
        for (capture, whose) in [
            (matrix.clone(), "the matrix of the run"),
            (linked, "the matrix of the run"),
            (format!("{links}/./a.cm,snap=64"), "the matrix of the run"),
            (format!("{links}/out/flows.jsonl"), "a file of --out"),
            (format!("{out}/summary.json"), "a file of --out"),
        ] {
            let said = refusal(&["--out", &out, "--capture", &capture], &matrix);
            for part in ["--capture", whose, "name another file"] {
                assert!(said.contains(part), "no {part}: {said}");
            }
        }
        let frames = format!("{out}/frames.pcapng");
        let flags = ["--out", &out, "--capture", &frames];
        assert_eq!(refusal(&flags, &matrix), "");
        let said = refusal(&[&flags[..], &["--metrics", &frames]].concat(), &matrix);
        assert!(said.contains("--metrics") && said.contains("the file of --capture"), "{said}");
        let keys = ["--security", "psk:k", "--key-log", "k"];
        assert!(refusal(&keys, &matrix).contains("the keys of --security"));
    }
}
