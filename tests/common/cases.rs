//! Runs the cases of a test without libtest: prints the outcome and the duration of each case.

#![allow(clippy::print_stdout, reason = "the output of a test harness")]
#![allow(clippy::disallowed_types, reason = "durations of tests, by the wall clock")]

use std::panic::{UnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// The outcome of a case that does not panic.
pub enum Verdict {
    /// Everything that the case checks holds.
    Passed,
    /// As [`Verdict::Passed`], with what was measured.
    Measured(String),
    /// The case cannot run on this machine, for this reason. It never counts as passed.
    Skipped(String),
    /// Something does not hold, as this text says. A panic counts as this, too.
    Failed(String),
}

/// Runs `cases`, which have a name each, one after the other. The exit code is that of a failure
/// when one case fails.
pub fn run<'a, C>(cases: impl IntoIterator<Item = (&'a str, C)>) -> ExitCode
where
    C: FnOnce() -> Verdict + UnwindSafe,
{
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, case) in cases {
        let start = Instant::now();
        let verdict = catch_unwind(case).unwrap_or_else(|_| Verdict::Failed(String::new()));
        let (count, text) = match verdict {
            Verdict::Passed => (&mut passed, "ok".to_owned()),
            Verdict::Measured(measured) => (&mut passed, format!("ok: {measured}")),
            Verdict::Skipped(reason) => (&mut skipped, format!("SKIP: {reason}")),
            Verdict::Failed(why) => (&mut failed, format!("FAILED {why}")),
        };
        *count += 1;
        println!("test {name} ({:.1} s) ... {text}", start.elapsed().as_secs_f64());
    }
    println!("\ntest result: {passed} passed; {failed} failed; {skipped} skipped\n");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a case called `name` is asked for: always without `filters`, else when one of them is a
/// part of its name, as with libtest.
#[must_use]
pub fn is_wanted<F: AsRef<str>>(name: &str, filters: &[F]) -> bool {
    filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_ref()))
}

/// Prints the names of all cases in the form of libtest's `--list`.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> ExitCode {
    names.into_iter().for_each(|name| println!("{name}: test"));
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a run of one case with this verdict passes; `None` panics.
    fn passes(verdict: Option<Verdict>) -> bool {
        let case = move || verdict.expect("a case that panics on purpose");
        format!("{:?}", run([("case", case)])) == format!("{:?}", ExitCode::SUCCESS)
    }

    #[test]
    fn a_failure_and_a_panic_fail_the_run_and_nothing_else_does() {
        assert!(passes(Some(Verdict::Passed)));
        assert!(passes(Some(Verdict::Measured("1".to_owned()))));
        assert!(passes(Some(Verdict::Skipped("no root".to_owned()))));
        assert!(!passes(Some(Verdict::Failed("why".to_owned()))));
        assert!(!passes(None));
    }

    #[test]
    fn a_filter_is_a_part_of_a_name_and_no_filter_wants_all() {
        assert!(is_wanted("one_case", &[] as &[&str]));
        assert!(is_wanted("one_case", &["two", "case"]) && !is_wanted("one_case", &["two"]));
    }
}
