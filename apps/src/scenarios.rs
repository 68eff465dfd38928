//! The scenarios that come with the program, by name.
//!
//! Each is a file of testbed/scenarios, whole in the program; `headrace run NAME` runs it.

use std::path::Path;

use testbed::input::InputError;
use testbed::scenario::Scenario;

/// A scenario inside the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuiltIn {
    /// What it is called: the file's name without its ending.
    pub(crate) name: &'static str,
    /// The file.
    pub(crate) text: &'static str,
}

macro_rules! built_in {
    ($($name:literal),+ $(,)?) => {
        /// All of them.
        pub(crate) const BUILT_IN: &[BuiltIn] = &[$(BuiltIn {
            name: $name,
            text: include_str!(concat!("../../testbed/scenarios/", $name, ".toml")),
        }),+];
    };
}

built_in! {
    "incast-15to1",
    "permutation-16",
    "incast-32to1",
    "lossy-16",
}

impl BuiltIn {
    /// Reads it.
    ///
    /// # Errors
    /// As any scenario; a test holds that there are none.
    pub(crate) fn read(&self) -> Result<Scenario, InputError> {
        Scenario::read(self.text.as_bytes(), &self.file(), Path::new("."))
    }

    /// What errors call it.
    pub(crate) fn file(&self) -> String {
        format!("built-in {}", self.name)
    }
}

/// The scenario of that name.
pub(crate) fn by_name(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|known| known.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_scenario_is_sound_and_bears_its_name() {
        for known in BUILT_IN {
            let scenario = known.read().unwrap();
            assert_eq!(scenario.name, known.name);
            assert!(!scenario.about.is_empty(), "{}", known.name);
        }
    }
}
