//! What changes in a configuration where hosts are real. There may be hostile hosts, so keys of
//! flows are made from random numbers of the operating system; and hosts poll their devices.

use std::fs::File;
use std::io::{self, Read as _};

use transport::path::NetworkFacts;
use transport::wire::{KEY_LEN, seal};
use transport::{Config, Settings};

/// `config` for an endpoint on a real network: with a secret of its own, headers accounted as they
/// are on the wire, and policies set for a host that polls.
///
/// # Errors
/// When the operating system gives no random octets.
pub fn keyed(config: &Config) -> io::Result<Config> {
    let secret = [random()?, random()?];
    let mut settings = Settings { key_bytes: KEY_LEN, secret, ..(**config).clone() };
    settings.resolve(&NetworkFacts::of_devices());
    Config::new(settings)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))
}

/// `config` for an endpoint whose packets are sealed: accounted with their seals, and trimmed ones
/// taken for hints.
///
/// # Errors
/// When the settings do not fit with that.
pub fn sealed(config: &Config) -> io::Result<Config> {
    let frame_overhead = config.frame_overhead + seal::LEN;
    Config::new(Settings { frame_overhead, sealed: true, ..(**config).clone() })
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))
}

/// A number of the operating system's that no other host can guess.
///
/// # Errors
/// When the operating system gives no random octets.
pub fn random() -> io::Result<u64> {
    let mut octets = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut octets)?;
    Ok(u64::from_ne_bytes(octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_has_a_secret_of_its_own_and_counts_its_keys_octets() {
        let config = Config::new(Settings::default()).unwrap();
        let [one, two] = [(); 2].map(|()| keyed(&config).unwrap());
        assert!(one.secret != two.secret && one.secret != [0; 2]);
        assert_eq!(one.segment_overhead(), config.segment_overhead() + KEY_LEN);
    }

    #[test]
    fn tokens_live_long_enough_for_a_host_that_polls() {
        let life_of = |life| {
            let mut settings = Settings::default();
            settings.sched_params.phost.life = life;
            keyed(&Config::new(settings).unwrap()).unwrap().sched_params.phost.life
        };
        assert_eq!([1.5, 8.0, 64.0].map(life_of), [8.0, 8.0, 64.0]);
    }
}
