//! Fuzzes the Headrace header decoder: the encoder reproduces accepted headers octet by octet.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transport::EntropyValue;
use transport::wire::Header;

fuzz_target!(|bytes: &[u8]| {
    let Ok((header, ext, len)) = Header::parse(EntropyValue(1), bytes) else { return };
    let mut out = [0; 256];
    assert_eq!(header.emit(&ext, &mut out), len);
    assert_eq!(out[..len], bytes[..len]);
});
