//! Results of another simulator for the same cases, from a file that names their source.

use std::path::Path;

use experiments::input::InputError;
use serde::Deserialize;
use serde_json::Value;

use super::read;
use crate::sweep_dir::Variant;

/// Results by scenario and variant.
#[derive(Debug, Deserialize)]
pub(super) struct Reference {
    /// The name of the simulator in tables.
    pub(super) name: String,
    /// The origin of the results: revision, build, set-up.
    #[expect(dead_code, reason = "for readers of the file")]
    provenance: String,
    cases: Vec<Case>,
}

/// One run of the other simulator.
#[derive(Debug, Deserialize)]
struct Case {
    scenario: String,
    /// Picks the variant, as `--variant` does.
    variant: String,
    /// The command line that gave these results.
    #[expect(dead_code, reason = "for readers of the file")]
    command: String,
    /// As summary.json, as far as there is something comparable.
    summary: Value,
}

impl Reference {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read or is something else.
    pub(super) fn read(path: &Path) -> Result<Self, InputError> {
        read::json(path)
    }

    /// A number for a variant of a scenario, if there is one.
    pub(super) fn measure(&self, scenario: &str, variant: &Variant, path: &str) -> Option<f64> {
        let case = self
            .cases
            .iter()
            .find(|case| case.scenario == scenario && variant.is(&case.variant))?;
        read::measure(&case.summary, path)
    }
}
