//! Flows' keys are made of the operating system's randomness where there may be hostile hosts.

use std::fs::File;
use std::io::{self, Read as _};

use transport::wire::KEY_LEN;
use transport::{Config, Settings};

/// `config` for an endpoint on a real network: with a secret of its own, and headers accounted as
/// they are on the wire.
///
/// # Errors
/// When the operating system gives no random octets.
pub fn keyed(config: &Config) -> io::Result<Config> {
    let mut octets = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut octets)?;
    let (a, b) = octets.split_at(8);
    let word = |half: &[u8]| half.iter().fold(0, |word, octet| word << 8 | u64::from(*octet));
    let settings =
        Settings { key_bytes: KEY_LEN, secret: [word(a), word(b)], ..(**config).clone() };
    Config::new(settings)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))
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
}
