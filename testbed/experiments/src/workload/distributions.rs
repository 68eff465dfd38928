//! Flow-size distributions that come with the program, by name.
//!
//! Each is a file of testbed/cdfs, whole in the program, with its source in its first lines.

use super::cdf::Cdf;
use crate::input::InputError;

/// A distribution inside the program.
#[derive(Clone, Copy, Debug)]
pub struct Distribution {
    /// The name of the distribution: the file's name without its ending.
    pub name: &'static str,
    /// One line for lists.
    pub about: &'static str,
    text: &'static str,
}

macro_rules! distributions {
    ($($name:literal, $about:literal;)+) => {
        /// All distributions.
        pub const DISTRIBUTIONS: &[Distribution] = &[$(Distribution {
            name: $name,
            about: $about,
            text: include_str!(concat!("../../../cdfs/", $name, ".csv")),
        }),+];
    };
}

distributions! {
    "websearch", "web search: 1.7 MB in the mean, two fifths below 50 KB (DCTCP, 2010)";
    "alibaba-wan", "between two datacentres of Alibaba: 64 MB in the mean (FlashPass, 2021)";
    "ali-storage", "Alibaba's storage: 41 KB in the mean, two thirds below 8 KB (2019)";
    "google-rpc", "Google's remote procedure calls: 2.9 KB in the mean, half below 260 B (2008)";
    "hadoop", "Hadoop at Facebook: 120 KB in the mean, half below 700 B (2015; points of Uno)";
    "hadoop-abm", "Hadoop in another reading: 3.4 MB in the mean, half below 73 KB (points of ABM)";
}

impl Distribution {
    /// The distribution itself.
    ///
    /// # Errors
    /// As [`Cdf::read`]; a test holds that there are none.
    pub fn cdf(&self) -> Result<Cdf, InputError> {
        Cdf::read(self.text.as_bytes(), &format!("built-in {}", self.name))
    }
}

/// The distribution of that name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Distribution> {
    DISTRIBUTIONS.iter().find(|known| known.name == name)
}

/// The names of all distributions.
#[must_use]
pub fn names() -> Vec<&'static str> {
    DISTRIBUTIONS.iter().map(|known| known.name).collect()
}

#[cfg(test)]
mod tests {
    use transport::{Bytes, Rng};

    use super::*;

    #[test]
    fn every_distribution_is_sound_and_names_its_source() {
        for known in DISTRIBUTIONS {
            known.cdf().unwrap_or_else(|error| panic!("{}: {error}", known.name));
            assert!(known.text.starts_with("# "), "{}", known.name);
        }
    }

    #[test]
    fn means_and_medians_are_those_of_the_published_points() {
        // (name, mean in bytes, median in bytes).
        for (name, mean, median) in [
            ("websearch", 1_711_250.0, 73_076),
            ("alibaba-wan", 63_957_661.4, 50_281_438),
            ("ali-storage", 40_869.8, 6_339),
            ("google-rpc", 2_891.6, 256),
            ("hadoop", 120_420.8, 700),
            ("hadoop-abm", 3_423_728.5, 72_853),
        ] {
            let cdf = by_name(name).unwrap().cdf().unwrap();
            let found = cdf.mean_bytes();
            assert!((found / mean - 1.0).abs() < 0.001, "{name}: mean {found}");
            assert_eq!(cdf.quantile(0.5), Bytes(median), "{name}");
        }
    }

    #[test]
    fn what_is_drawn_is_distributed_as_the_points_say() {
        for known in DISTRIBUTIONS {
            let cdf = known.cdf().unwrap();
            let mut rng = Rng::new(11);
            let drawn: Vec<Bytes> = (0..20_000).map(|_| cdf.sample(&mut rng)).collect();
            let distance = cdf.distance(drawn);
            // Kolmogorov: 1.63 / sqrt(20000) is exceeded once in a hundred seeds.
            assert!(distance < 0.0115, "{}: {distance}", known.name);
        }
        let other = by_name("websearch").unwrap().cdf().unwrap();
        let storage = by_name("ali-storage").unwrap().cdf().unwrap();
        let drawn = (0..1000).map(|i| storage.quantile(f64::from(i) / 1000.0)).collect();
        assert!(other.distance(drawn) > 0.5);
    }
}
