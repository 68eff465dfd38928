//! Fuzzes the `.topo` reader and the built-in names: an accepted tree is sound and survives a file.
#![no_main]

use experiments::topology::{by_name, topo_file};
use libfuzzer_sys::fuzz_target;
use transport::Bytes;

fuzz_target!(|bytes: &[u8]| {
    let by_file = topo_file::read(bytes, "fuzz.topo").ok();
    let by_name = std::str::from_utf8(bytes).ok().and_then(|name| by_name(name).ok());
    for tree in by_file.into_iter().chain(by_name) {
        assert_eq!(tree.check(), Ok(()));
        let text = topo_file::to_text(&tree);
        let again = topo_file::read(text.as_bytes(), "again.topo").expect("what we write we read");
        assert_eq!(again, tree);
        assert!(tree.base_rtt(Bytes(4160), Bytes(64)) >= tree.diameter_latency() * 2);
    }
});
