//! Fuzzes the `.cm` reader: an accepted matrix is sound, survives a file, and its triggers run to
//! the end.
#![no_main]

use experiments::workload::cm::{StartUnit, read};
use experiments::workload::{Triggers, check, cm_write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = read(bytes, "fuzz.cm", StartUnit::Us) else { return };
    let matrix = file.matrix;
    assert_eq!(check::check(&matrix), Ok(()));
    let text = cm_write::to_text(&matrix);
    let again = read(text.as_bytes(), "again.cm", StartUnit::Us).expect("what we write we read");
    assert_eq!(again.matrix, matrix);
    let mut triggers = Triggers::new(&matrix);
    let mut running = triggers.start().to_vec();
    while let Some(flow) = running.pop() {
        running.extend_from_slice(triggers.on_send_done(flow));
        running.extend_from_slice(triggers.on_recv_done(flow));
    }
    assert_eq!(triggers.still_waiting(), 0);
});
