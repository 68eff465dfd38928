//! Fuzzes the scenario reader and the one-line spelling of faults: accepted faults survive being
//! printed.
#![no_main]

use std::path::Path;

use experiments::scenario::{FaultSpec, Scenario};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let by_file = Scenario::read(bytes, "fuzz.toml", Path::new("/nonexistent"));
    let by_line = std::str::from_utf8(bytes).ok();
    let by_line: Option<FaultSpec> = by_line.and_then(|text| text.parse().ok());
    let runs = by_file.map(|scenario| scenario.runs).unwrap_or_default();
    let faults = runs.into_iter().flat_map(|run| run.setup.faults).map(|fault| fault.value);
    for fault in faults.chain(by_line) {
        assert_eq!(fault.to_string().parse::<FaultSpec>(), Ok(fault));
    }
});
