//! scenario.json: the description of a scenario with variants in its directory.

use std::collections::BTreeMap;

use experiments::scenario::{AxisPoint, Figure, picks};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The name of the file.
pub(crate) const FILE: &str = "scenario.json";

/// A scenario with variants. Their results are in directories of their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SweepDir {
    /// Version of this format.
    pub(crate) schema: u32,
    /// The scenario's name.
    pub(crate) name: String,
    /// The scenario's sentence.
    pub(crate) about: String,
    /// How the figure is drawn.
    pub(crate) figure: Figure,
    /// All variants, those that did not run too.
    pub(crate) variants: Vec<Variant>,
    /// The axes whose values are compared, where flags have several.
    #[serde(default)]
    pub(crate) compared: Option<Vec<String>>,
}

/// Whether a run's summary in JSON is of a success, as `Summary::is_success` has it.
pub(crate) fn is_success(summary: &Value) -> bool {
    let flows = summary.pointer("/flows/total");
    flows.is_some() && summary.pointer("/flows/finished") == flows && is_sound(summary)
}

/// Whether a run's summary in JSON is a valid result, whether its flows finished or not: its audit
/// found nothing, it was in time, and no machine failed.
pub(crate) fn is_sound(summary: &Value) -> bool {
    let gone = summary.get("gone").and_then(Value::as_array);
    summary.pointer("/flows/total").is_some()
        && summary.pointer("/audit/ok") == Some(&Value::Bool(true))
        && summary.pointer("/lateness/valid") != Some(&Value::Bool(false))
        && gone.is_none_or(Vec::is_empty)
}

/// The axis of seeds: runs that differ in it alone are one.
pub(crate) const CHANCE: &str = "seed";

/// A variant: where it stands on each axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Variant {
    /// The name of the variant.
    pub(crate) name: String,
    /// Label by axis.
    pub(crate) parts: BTreeMap<String, String>,
}

impl Variant {
    /// Whether `name` picks this variant, as `--variant` does.
    pub(crate) fn is(&self, name: &str) -> bool {
        let part = |(axis, label): (&String, &String)| AxisPoint {
            axis: axis.clone(),
            label: label.clone(),
        };
        picks(name, &self.parts.iter().map(part).collect::<Vec<_>>())
    }
}
