//! The copy of the core without keys can be made. The benchmark of what keys cost (`cargo bench -p
//! transport --bench endpoint -- --secrets`) measures it beside the product.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use std::fs;
use std::path::Path;

#[path = "../benches/endpoint/lacks.rs"]
mod lacks;

/// The benchmark replaces these texts, and fails where a change of the core has moved or doubled
/// one. This test runs more often.
#[test]
fn each_line_that_the_copy_lacks_is_in_the_core_once() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (file, line, _) in lacks::LACKS {
        let text = fs::read_to_string(core.join(file)).unwrap();
        assert_eq!(text.matches(line).count(), 1, "{file}: {line}");
    }
}
