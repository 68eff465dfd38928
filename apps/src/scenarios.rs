//! The scenarios that come with the program, by name.
//!
//! Each is a file of testbed/scenarios, in the program with the matrix and the topology beside it
//! that it names; `headrace run NAME` runs it.

use std::path::Path;

use experiments::input::{InputError, meant};
use experiments::scenario::{Inside, Scenario};

/// A scenario inside the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuiltIn {
    /// The name of the scenario: the file's name without its ending.
    pub(crate) name: &'static str,
    /// The file.
    pub(crate) text: &'static str,
}

macro_rules! built_in {
    ($($folder:literal: $($name:literal),+;)+) => {
        /// All built-in scenarios.
        pub(crate) const BUILT_IN: &[BuiltIn] = &[$($(BuiltIn {
            name: $name,
            text: include_str!(concat!("../../testbed/scenarios/", $folder, $name, ".toml")),
        }),+),+];
    };
}

macro_rules! beside {
    ($folder:literal: $($name:literal),+) => {
        /// The files that built-in scenarios name.
        const BESIDE: &[Inside] = &[$(Inside {
            name: $name,
            text: include_str!(concat!("../../testbed/scenarios/", $folder, $name)),
        }),+];
    };
}

beside! {
    "mlcc/":
        "dumbbell.topo",
        "recv.cm",
        "recv-later.cm",
        "recv-staggered.cm",
        "sender.cm",
        "sender-staggered.cm"
}

built_in! {
    "": "incast-15to1", "permutation-16", "incast-32to1", "lossy-16";
    "smartt/":
        "fig01-permutation-8os",
        "fig03-load-balancers",
        "fig05-signals",
        "fig06-fair-increase",
        "fig07-trimming",
        "fig08-quickadapt",
        "fig09-ignore",
        "fig10-fast-increase",
        "fig11-no-op",
        "fig12-incast",
        "fig13-permutations",
        "fig13d-one-longer",
        "fig14-all-to-all",
        "fig15-testbed-incast",
        "fig16-testbed",
        "fig17-credits",
        "fig17b-credits-one-longer";
    "dcsim/":
        "dcsim-fig04-endless",
        "dcsim-fig05a-permutation",
        "dcsim-fig05b-all-to-all",
        "dcsim-fig06-all-to-all-v",
        "dcsim-fig07-five",
        "dcsim-fig08-half-cores",
        "dcsim-fig09a-packet-size",
        "dcsim-fig09b-buffers",
        "dcsim-fig09c-collectives",
        "dcsim-fig09d-members",
        "dcsim-fig09e-drift",
        "dcsim-fig10-follow",
        "dcsim-fig11-data-buffer",
        "dcsim-fig13-fractions",
        "dcsim-theorems";
    "uno/":
        "uno-fig03-fairness",
        "uno-fig04-phantom",
        "uno-fig08-incasts",
        "uno-fig09-permutation",
        "uno-fig10-workload",
        "uno-fig10b-text",
        "uno-fig11-distance",
        "uno-fig12-buffers",
        "uno-fig13a-link-down",
        "uno-fig13b-losses",
        "uno-fig13c-training";
    "mlcc/":
        "mlcc-fig02-receiver",
        "mlcc-fig03-sender",
        "mlcc-fig04-incast",
        "mlcc-fig04-pauses",
        "mlcc-fig07-sender",
        "mlcc-fig08-receiver",
        "mlcc-fig09-theta",
        "mlcc-fig10-staggered",
        "mlcc-fig11-websearch",
        "mlcc-fig11-hadoop",
        "mlcc-fig12-websearch",
        "mlcc-fig12-hadoop",
        "mlcc-fig13-websearch",
        "mlcc-fig13-hadoop",
        "mlcc-fig14-websearch",
        "mlcc-fig14-hadoop",
        "mlcc-fig15-websearch",
        "mlcc-fig15-hadoop",
        "mlcc-fig16-testbed",
        "mlcc-int-room";
    "zeropod/":
        "zeropod-fig03a-top-k",
        "zeropod-fig03b-optimistic",
        "zeropod-eq6-unscheduled",
        "zeropod-fig03c-incast",
        "zeropod-fig03d-all-to-all",
        "zeropod-fig03d-ring",
        "zeropod-fig04-load",
        "zeropod-fig04-buffered",
        "zeropod-fig05-cores",
        "zeropod-fig06-mice-core",
        "zeropod-fig07-pauses",
        "zeropod-fig08-core-buffers",
        "zeropod-fig09-incast-across",
        "zeropod-fig10-ring-across",
        "zeropod-fig11-load-across";
    "failures/": "link-down", "link-degraded", "link-flap";
}

impl BuiltIn {
    /// Reads the built-in scenario.
    ///
    /// # Errors
    /// As any scenario; a test holds that there are none.
    pub(crate) fn read(&self) -> Result<Scenario, InputError> {
        let scenario = Scenario::read(self.text.as_bytes(), &self.file(), Path::new("."))?;
        Ok(scenario.with_inside(BESIDE))
    }

    /// The name of the scenario in errors.
    pub(crate) fn file(&self) -> String {
        format!("built-in {}", self.name)
    }
}

/// The scenario of that name.
pub(crate) fn by_name(name: &str) -> Option<&'static BuiltIn> {
    let name = meant(name, BUILT_IN.iter().map(|known| known.name))?;
    BUILT_IN.iter().find(|known| known.name == name)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use experiments::plan::Plan;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::run::order::RunOrder;

    #[test]
    fn every_built_in_scenario_is_sound_and_bears_its_name() {
        for known in BUILT_IN {
            let scenario = known.read().unwrap();
            assert_eq!(scenario.name, known.name);
            assert!(!scenario.about.is_empty(), "{}", known.name);
        }
    }

    /// Figures of papers with runs whose packets have our own headers, and the reason.
    const OWN_HEADERS: [(&str, &str); 2] = [
        ("fig15-testbed-incast", "virtual and real time are compared, and frames are real there"),
        ("fig16-testbed", "virtual and real time are compared, and frames are real there"),
    ];

    #[test]
    fn every_run_of_every_built_in_scenario_can_be_planned_with_its_papers_sizes() {
        for known in BUILT_IN {
            let cli = Cli::try_parse_from(["headrace", "run", known.name]).unwrap();
            let Command::Run(args) = cli.command else { panic!("not a run") };
            let order =
                RunOrder::read(&args).unwrap_or_else(|error| panic!("{}: {error:?}", known.name));
            let runs = match order {
                RunOrder::One(experiment) => vec![(String::new(), *experiment)],
                RunOrder::Several(sweep) => sweep.chosen,
            };
            let scenario = known.read().unwrap();
            assert_eq!(runs.len(), scenario.runs.len(), "{}", known.name);
            if !scenario.figure.of.is_empty() {
                // A change of our headers must move no figure of a paper.
                let accounted = |plan: &Plan| plan.settings.accounted.data_overhead.is_some();
                let own = runs.iter().find(|(_, experiment)| !accounted(&experiment.plan));
                let listed = OWN_HEADERS.iter().any(|(name, _)| *name == known.name);
                assert_eq!(own.is_some(), listed, "{}: {:?}", known.name, own.map(|own| &own.0));
            }
        }
    }

    #[test]
    fn every_scenario_that_the_results_name_is_built_in() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let pages = std::fs::read_dir(docs.join("results")).unwrap();
        let pages = pages.map(|page| page.unwrap().path());
        let pages = pages.filter(|page| page.extension().is_some_and(|ending| ending == "md"));
        let text: String = pages
            .chain([docs.join("RESULTS.md")])
            .map(|page| std::fs::read_to_string(page).unwrap())
            .collect();
        let names = text.split("`headrace run ").skip(1).filter_map(|rest| {
            let name = rest.split([' ', '`']).next()?;
            (!name.contains('.')).then_some(name)
        });
        let names: Vec<&str> = names.collect();
        assert!(names.len() > 50, "{}", names.len());
        names.iter().for_each(|name| assert!(by_name(name).is_some(), "{name}"));
    }

    #[test]
    fn every_scenario_of_the_folders_is_built_in() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testbed/scenarios");
        let mut folders = vec![root];
        let mut found = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "toml") {
                    let name = path.file_stem().unwrap().to_str().unwrap();
                    assert!(by_name(name).is_some(), "{} is not built in", path.display());
                    found += 1;
                }
            }
        }
        assert_eq!(found, BUILT_IN.len());
    }
}
