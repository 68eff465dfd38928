//! Fuzzes the reader of flow-size distributions: an accepted one is finite, monotone, and survives
//! a file.
#![no_main]

use experiments::workload::Cdf;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(cdf) = Cdf::read(bytes, "fuzz.csv") else { return };
    assert!(cdf.mean_bytes().is_finite());
    let quantiles = [0.0, 0.001, 0.25, 0.5, 0.75, 0.999, 1.0].map(|p| cdf.quantile(p));
    assert!(quantiles.is_sorted() && quantiles[0].0 >= 1);
    assert_eq!(Cdf::read(cdf.to_text().as_bytes(), "again.csv"), Ok(cdf));
});
