//! Fuzzes the hosts file: an accepted one has unique names and addresses of one version.
#![no_main]

use experiments::hosts_file::HostsFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = HostsFile::read(bytes, "fuzz.toml") else { return };
    for (number, host) in (0..).zip(&file.hosts) {
        assert_eq!(file.number_of(&host.name), Ok(number));
        assert_eq!(host.ip.is_ipv4(), file.hosts[0].ip.is_ipv4());
    }
});
