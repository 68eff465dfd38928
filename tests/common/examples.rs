//! What several tests run: a scenario, and programs of switches that no text of a user chooses.

use experiments::plan::Draft;
use experiments::topology::programs::ProgramSpec;
use fabric::ProgramKind;

/// Two balancers and two sizes: four short runs.
pub const BALANCERS: &str = r#"topology = "paper-testbed"
[scenario]
name = "balancers"
about = "by balancer and size"
[workload]
kind = "permutation"
nodes = 16
[sampling]
interval_us = 5
[[variant]]
name = "reps"
lb = "reps"
[[variant]]
name = "ecmp"
lb = "ecmp"
[grid]
workload.size = ["64KiB", "256KiB"]
[figure]
of = "smartt fig. 3"
claim = "one path collides"
[[plot]]
kind = "cdf"
panel = "size"
[[plot]]
kind = "bars"
x = "size"
[[plot]]
kind = "series"
y = "queue_max_bytes"
"#;

/// `draft` with the programs of a text, in which `example` names the program that no text chooses.
///
/// # Panics
/// Where the text is none of programs.
#[must_use]
pub fn with_examples(mut draft: Draft, programs: &str) -> Draft {
    draft.programs.extend(programs.split(',').map(|text| {
        let read = text.replace("example@", "pfc@").parse();
        let mut spec: ProgramSpec = read.unwrap_or_else(|error| panic!("{error}"));
        if text.starts_with("example@") {
            spec.program = ProgramKind::Example;
        }
        spec
    }));
    draft
}
