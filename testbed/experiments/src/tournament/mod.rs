//! Mixes of traffic, networks and faults that seeds draw from families, so that settings are
//! compared on more cases than those they were tuned on.
//!
//! ```text
//!   part       families of tuning                families set aside
//!   tuning     mixes of one stream of chance     none
//!   checking   mixes of another stream           mixes of that stream
//! ```
//!
//! Settings are chosen on the mixes of [`Purpose::Tuning`] and judged on those of
//! [`Purpose::Checking`], where every mix is new and half of the families are. A mix is a variant
//! of a scenario ([`scenario`]), which runs, is kept and is drawn as any other. Purpose, seed,
//! family and number give a mix, whatever else is drawn.

mod draw;
mod families;

use std::fmt::{self, Write as _};

use transport::Rng;

use self::draw::Draw;
pub use self::families::{FAMILIES, Family};
use crate::input::{InputError, did_you_mean};

/// The use of the mixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To choose settings: the families of tuning.
    Tuning,
    /// To judge them: mixes of every family that tuning does not draw.
    Checking,
}

/// The mixes to draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Draws {
    /// Their use.
    pub part: Purpose,
    /// Root of their chance.
    pub seed: u64,
    /// Mixes of each family, at least 1.
    pub mixes: u32,
    /// Bytes of a mix in multiples of 200 MB, above 0.
    pub scale: f64,
    /// Names of the families to draw from; all of the part when empty.
    pub families: Vec<String>,
}

/// One mix: a run but for its transport.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// The name of its family.
    pub family: &'static str,
    /// The name of the variant: the family's and a number from 1.
    pub name: String,
    /// The variant of a scenario that it is.
    toml: String,
}

impl Purpose {
    /// The part's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tuning => "tuning",
            Self::Checking => "checking",
        }
    }

    /// The families that it draws from.
    pub fn families(self) -> impl Iterator<Item = &'static Family> {
        FAMILIES.iter().filter(move |family| self == Self::Checking || !family.aside)
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Draws {
    /// The mixes, families in the order of [`FAMILIES`].
    ///
    /// # Errors
    /// A family that does not exist, or that the part sets aside.
    pub fn mixes(&self) -> Result<Vec<Mix>, InputError> {
        let names: Vec<&str> = self.part.families().map(|family| family.name).collect();
        for wanted in &self.families {
            if !names.contains(&wanted.as_str()) {
                let found = format!("family `{wanted}`");
                let error = InputError::new(found, format!("a family of {}", self.part));
                return Err(error.at("--family", 0, 0).help(did_you_mean(wanted, &names)));
            }
        }
        let root = Rng::new(self.seed).fork(self.part.name(), 0);
        let chosen = |family: &&Family| {
            self.families.is_empty() || self.families.iter().any(|name| name == family.name)
        };
        let mixes = self.part.families().filter(chosen).flat_map(|family| {
            let root = &root;
            (1..=self.mixes).map(move |number| self.mix(family, number, root))
        });
        Ok(mixes.collect())
    }

    fn mix(&self, family: &'static Family, number: u32, root: &Rng) -> Mix {
        let mut draw = Draw::new(root.fork(family.name, number.into()), self.scale);
        (family.draw)(&mut draw);
        let name = format!("{}-{number}", family.name);
        Mix { family: family.name, toml: draw.variant(&name), name }
    }
}

/// The scenario of `mixes`, each a variant; it leaves the transport to its caller.
#[must_use]
pub fn scenario(draws: &Draws, mixes: &[Mix]) -> String {
    let Draws { part, seed, mixes: each, scale, .. } = draws;
    let mut text = format!(
        "# Drawn by headrace tournament: {part}, seed {seed}, scale {scale}.\n\
         [scenario]\n\
         name = \"tournament-{part}-{seed}\"\n\
         about = \"{each} mixes of each family of {part}, drawn from seed {seed}\"\n\n\
         [set]\n\
         wire.data_overhead = 64\n\
         wire.control = 64\n\
         run.message = \"128KiB\"\n\
         msg_window = 1024\n\
         run.limit = \"{LIMIT}\"\n\
         loss.retries_max = 64\n",
    );
    for mix in mixes {
        // Writing to a String does not fail.
        let _ = write!(text, "\n{}", mix.toml);
    }
    text
}

/// Network time after which a run ends unfinished; an ideal one takes some tens of milliseconds.
const LIMIT: &str = "2s";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::Scenario;

    fn draws(part: Purpose, seed: u64, mixes: u32) -> Draws {
        Draws { part, seed, mixes, scale: 1.0, families: Vec::new() }
    }

    #[test]
    fn every_mix_of_many_seeds_is_a_sound_variant() {
        for seed in 0..40 {
            let draws = draws(Purpose::Checking, seed, 2);
            let mixes = draws.mixes().unwrap();
            assert_eq!(mixes.len(), 2 * FAMILIES.len());
            let text = scenario(&draws, &mixes);
            let read = Scenario::read(text.as_bytes(), "t.toml", Path::new("."))
                .unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(read.runs.len(), mixes.len());
            for run in &read.runs {
                let nodes = run.setup.topology.as_ref().unwrap().load().unwrap().nodes;
                let made = run.setup.traffic.matrix(
                    nodes,
                    crate::workload::cm::StartUnit::Us,
                    &mut Rng::new(run.setup.seed.unwrap()),
                );
                assert!(made.is_ok(), "{}: {made:?}", run.name);
            }
        }
    }

    #[test]
    fn the_same_seed_draws_the_same_and_the_parts_share_neither_mixes_nor_all_families() {
        let of = |part, seed, mixes| draws(part, seed, mixes).mixes().unwrap();
        assert_eq!(of(Purpose::Tuning, 3, 2), of(Purpose::Tuning, 3, 2));
        let more = of(Purpose::Tuning, 3, 5);
        assert!(
            of(Purpose::Tuning, 3, 2).iter().all(|mix| more.contains(mix)),
            "more keep the first"
        );
        let tuning = of(Purpose::Tuning, 3, 4);
        for other in [of(Purpose::Tuning, 4, 4), of(Purpose::Checking, 3, 4)] {
            assert!(tuning.iter().all(|mix| other.iter().all(|other| other.toml != mix.toml)));
        }
        let aside = FAMILIES.iter().filter(|family| family.aside).count();
        assert!(aside * 2 >= FAMILIES.len() && aside < FAMILIES.len());
    }

    #[test]
    fn a_family_set_aside_cannot_be_tuned_on() {
        let name = FAMILIES.iter().find(|family| family.aside).unwrap().name.to_owned();
        let of = |part| Draws { families: vec![name.clone()], ..draws(part, 1, 1) }.mixes();
        assert_eq!(of(Purpose::Checking).unwrap().len(), 1);
        let error = of(Purpose::Tuning).unwrap_err().to_string();
        assert!(error.contains("a family of tuning"), "{error}");
    }
}
