//! Mixes of traffic, networks and faults that seeds draw from families, so that settings are
//! compared on more cases than those they were tuned on.
//!
//! ```text
//!   purpose    families of tuning                families set aside
//!   tuning     mixes of one stream of chance     none
//!   checking   mixes of another stream           mixes of that stream
//! ```
//!
//! Settings are chosen on the mixes of [`Purpose::Tuning`] and judged on those of
//! [`Purpose::Checking`], where every mix is new and more than half of the families are. A mix is a
//! variant of a scenario ([`scenario`]), which runs, is kept and is drawn as any other. A mix
//! depends only on purpose, seed, family and number, not on what else is drawn.

mod draw;
mod families;

use std::fmt::{self, Write as _};

use transport::Rng;

use self::draw::Draw;
pub use self::families::{FAMILIES, Family};
use crate::input::{InputError, did_you_mean};
use crate::scenario::RUNS_MAX;

/// What mixes are drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To choose settings: the families of tuning.
    Tuning,
    /// To judge settings: mixes of every family that tuning does not draw.
    Checking,
}

/// The mixes to draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Draws {
    /// The use of the mixes.
    pub purpose: Purpose,
    /// The seed from which all mixes are drawn.
    pub seed: u64,
    /// How many of each family, at least 1.
    pub each: u32,
    /// Bytes and times of a mix in multiples of those that families name: at 1 a port carries at
    /// most 200 MB. Above 0.
    pub scale: f64,
    /// Names of the families to draw from; all of the purpose when empty.
    pub families: Vec<String>,
}

/// One mix: a run without its transport.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// The name of its family.
    pub family: &'static str,
    /// The name of the variant: the family's and a number from 1.
    pub name: String,
    /// The settings that it draws.
    pub drawn: Vec<&'static str>,
    /// The variant of a scenario that it is.
    toml: String,
}

impl Purpose {
    /// Both, in the order of the words on the command line.
    pub const ALL: [Self; 2] = [Self::Tuning, Self::Checking];

    /// The purpose of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.name() == name)
    }

    /// The word on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tuning => "tuning",
            Self::Checking => "checking",
        }
    }

    /// The families that mixes of this purpose are drawn from.
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
    /// A family that does not exist, or that the purpose sets aside; more mixes than a scenario has
    /// runs.
    pub fn mixes(&self) -> Result<Vec<Mix>, InputError> {
        let names: Vec<&str> = self.purpose.families().map(|family| family.name).collect();
        for wanted in &self.families {
            if !names.contains(&wanted.as_str()) {
                let found = format!("family `{wanted}`");
                let error = InputError::new(found, format!("a family of {}", self.purpose));
                let is_aside = Purpose::Checking.families().any(|family| family.name == wanted);
                let help = match is_aside {
                    true => format!("{wanted} is of checking alone: --purpose checking"),
                    false => did_you_mean(wanted, &names),
                };
                return Err(error.at("--family", 0, 0).help(help));
            }
        }
        let chosen = |family: &&Family| {
            self.families.is_empty() || self.families.iter().any(|name| name == family.name)
        };
        let families: Vec<&Family> = self.purpose.families().filter(chosen).collect();
        let most = RUNS_MAX / families.len().max(1);
        if self.each as usize > most {
            let found = format!("{} mixes of each of {} families", self.each, families.len());
            let error = InputError::new(found, format!("at most {most}, {RUNS_MAX} in all"));
            return Err(error.at("--mixes", 0, 0).help("draw others with another --seed"));
        }
        let root = Rng::new(self.seed).fork(self.purpose.name(), 0);
        let of = |family| (1..=self.each).map(move |number| (family, number));
        let all = families.into_iter().flat_map(of);
        Ok(all.map(|(family, number)| self.mix(family, number, &root)).collect())
    }

    /// Network time after which a run ends with what is unfinished. An ideal run takes some tens of
    /// milliseconds at scale 1, and times at the ends of flows do not shrink with the scale.
    #[must_use]
    pub fn limit_us(&self) -> f64 {
        LIMIT_US * self.scale.max(1.0)
    }

    fn mix(&self, family: &'static Family, number: u32, root: &Rng) -> Mix {
        let mut draw = Draw::new(root.fork(family.name, number.into()), self.scale);
        (family.draw)(&mut draw);
        let name = format!("{}-{number}", family.name);
        Mix { family: family.name, toml: draw.variant(&name), name, drawn: draw.drawn() }
    }
}

/// The scenario of `mixes`, each a variant; it leaves the transport to its caller.
#[must_use]
pub fn scenario(draws: &Draws, mixes: &[Mix]) -> String {
    let Draws { purpose, seed, each, scale, .. } = draws;
    let limit_us = draws.limit_us();
    let mut text = format!(
        "# Drawn by headrace tournament: {purpose}, seed {seed}, scale {scale}.\n\
         [scenario]\n\
         name = \"tournament-{purpose}-{seed}\"\n\
         about = \"{each} mixes of each family of {purpose}, drawn from seed {seed}\"\n\n\
         [set]\n\
         wire.data_overhead = 64\n\
         wire.control = 64\n\
         run.message = \"128KiB\"\n\
         msg_window = 1024\n\
         run.limit = \"{limit_us:.0}us\"\n\
         loss.retries_max = 64\n",
    );
    for mix in mixes {
        // Writing to a String does not fail.
        let _ = write!(text, "\n{}", mix.toml);
    }
    text
}

/// The limit of a run at scale 1 and below.
const LIMIT_US: f64 = 2e6;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::{Scenario, Setup};
    use crate::workload::cm::StartUnit;
    use crate::workload::matrix::Start;
    use crate::workload::{Matrix, distributions};

    fn draws(purpose: Purpose, seed: u64, each: u32) -> Draws {
        Draws { purpose, seed, each, scale: 1.0, families: Vec::new() }
    }

    /// The matrices of the mixes, with their names and the settings of the scenario.
    fn matrices(draws: &Draws) -> Vec<(String, Setup, Matrix)> {
        let mixes = draws.mixes().unwrap();
        let text = scenario(draws, &mixes);
        let read = Scenario::read(text.as_bytes(), "t.toml", Path::new("."))
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(read.runs.len(), mixes.len());
        let made = read.runs.into_iter().map(|run| {
            let nodes = run.setup.topology.as_ref().unwrap().load().unwrap().nodes;
            let rng = &mut Rng::new(run.setup.seed.unwrap());
            let made = run.setup.traffic.matrix(nodes, StartUnit::Us, rng);
            let (matrix, _) = made.unwrap_or_else(|error| panic!("{}: {error}", run.name));
            (run.name, run.setup, matrix)
        });
        made.collect()
    }

    fn last_start_us(matrix: &Matrix) -> f64 {
        let starts = matrix.flows.iter().map(|flow| match flow.start {
            Start::At(at) => at.as_us_f64(),
            Start::On(_) => 0.0,
        });
        starts.fold(0.0, f64::max)
    }

    #[test]
    fn times_follow_the_scale() {
        for family in ["staggered", "mice", "workload", "other-sizes", "dead-link"] {
            let of = |scale| {
                let families = vec![family.to_owned()];
                let draws = Draws { scale, families, ..draws(Purpose::Checking, 5, 6) };
                matrices(&draws)
            };
            for ((name, large, long), (_, small, short)) in of(1.0).into_iter().zip(of(0.1)) {
                let ratio = match family {
                    "dead-link" => {
                        let from = |setup: &Setup| setup.faults[0].value.from.as_us_f64();
                        from(&large) / from(&small)
                    }
                    _ => last_start_us(&long) / last_start_us(&short),
                };
                // Last starts of a few drawn ones scatter.
                assert!((6.0..16.0).contains(&ratio), "{name}: {ratio}");
            }
        }
    }

    #[test]
    fn a_port_carries_at_most_200_mb_at_scale_1_and_a_tenth_at_a_tenth() {
        // Incasts carry a fourth of that at least, to their one port.
        let incast = 49_999_000;
        for (family, least) in
            [("near-incast", incast), ("mixed-incast", incast), ("pairs", 1), ("permutation", 1)]
        {
            let of = |scale| {
                let families = vec![family.to_owned()];
                matrices(&Draws { scale, families, ..draws(Purpose::Checking, 6, 8) })
            };
            for ((name, _, large), (_, _, small)) in of(1.0).into_iter().zip(of(0.1)) {
                let mut by_port = std::collections::BTreeMap::new();
                for flow in &large.flows {
                    *by_port.entry(flow.dst).or_insert(0) += flow.size.0;
                }
                let most = by_port.values().max().unwrap();
                assert!((least..=200_000_000).contains(most), "{name}: {most}");
                let ratio = large.total_bytes().as_f64() / small.total_bytes().as_f64();
                assert!((9.9..10.1).contains(&ratio), "{name}: {ratio}");
            }
        }
    }

    #[test]
    fn workloads_offer_their_load_for_milliseconds_and_several_sizes_across() {
        let families = vec!["workload".to_owned(), "other-sizes".to_owned()];
        let draws = Draws { families, ..draws(Purpose::Checking, 3, 12) };
        let text = scenario(&draws, &draws.mixes().unwrap());
        for name in ["hadoop-abm", "hadoop", "ali-storage"] {
            assert!(text.contains(&format!("inter_cdf = \"{name}\"")), "{name}: {text}");
        }
        for (mix, (name, _, matrix)) in draws.mixes().unwrap().iter().zip(matrices(&draws)) {
            let word = |key: &str| {
                let is_key = |line: &&str| line.starts_with(&format!("{key} = "));
                let line = mix.toml.lines().find(is_key).unwrap();
                line.split('"').nth(1).unwrap().to_owned()
            };
            let mean =
                |key| distributions::by_name(&word(key)).unwrap().cdf().unwrap().mean_bytes();
            let us: f64 = word("duration").trim_end_matches("us").parse().unwrap();
            let load: f64 = word("load").parse().unwrap();
            assert!((2000.0..=4000.0).contains(&us) && (0.2..=0.6).contains(&load), "{name}");
            // Arrivals of 32 hosts, four of five inside, at a line's 12,500 bytes a microsecond.
            let bytes = 0.8 * mean("intra_cdf") + 0.2 * mean("inter_cdf");
            let expected = 32.0 * load * 12_500.0 * us / bytes;
            #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 flows")]
            let flows = matrix.flows.len() as f64;
            assert!(
                (flows - expected).abs() < 5.0 * expected.sqrt(),
                "{name}: {flows}, {expected}"
            );
            assert!(last_start_us(&matrix) > 0.8 * us, "{name}");
        }
    }

    #[test]
    fn every_link_dies_about_as_often_as_another() {
        let mut links = std::collections::BTreeMap::new();
        for seed in 0..20 {
            let families = vec!["dead-link".to_owned()];
            for mix in (Draws { families, ..draws(Purpose::Checking, seed, 20) }).mixes().unwrap() {
                let link = mix.toml.lines().find(|line| line.starts_with("link")).unwrap();
                *links.entry(link.to_owned()).or_insert(0) += 1;
            }
        }
        // 400 draws, 50 expected of each of eight; a link by octaves had 126 or 21.
        assert_eq!(links.len(), 8);
        assert!(links.values().all(|count| (28..75).contains(count)), "{links:?}");
    }

    #[test]
    fn the_time_for_a_run_grows_with_its_bytes() {
        for (scale, limit) in [(0.001, 2e6), (1.0, 2e6), (1000.0, 2e9)] {
            let draws = Draws { scale, ..draws(Purpose::Tuning, 1, 1) };
            assert!((draws.limit_us() - limit).abs() < 1.0);
            let text = scenario(&draws, &draws.mixes().unwrap());
            assert!(text.contains(&format!("run.limit = \"{limit}us\"")), "{text}");
            matrices(&draws);
        }
    }

    #[test]
    fn more_mixes_than_a_scenario_has_runs_are_refused() {
        assert_eq!(draws(Purpose::Checking, 1, 14).mixes().unwrap().len(), 14 * 18);
        let error = draws(Purpose::Checking, 1, 15).mixes().unwrap_err().to_string();
        assert!(error.contains("at most 14, 256 in all"), "{error}");
    }

    #[test]
    fn every_mix_of_many_seeds_is_a_sound_variant() {
        for seed in 0..40 {
            let scale = if seed % 2 == 0 { 1.0 } else { 0.001 };
            let all = matrices(&Draws { scale, ..draws(Purpose::Checking, seed, 2) });
            assert_eq!(all.len(), 2 * FAMILIES.len());
            assert!(all.iter().all(|(_, _, matrix)| !matrix.flows.is_empty()));
        }
    }

    #[test]
    fn the_same_seed_draws_the_same_and_purposes_share_neither_mixes_nor_all_families() {
        let of = |purpose, seed, each| draws(purpose, seed, each).mixes().unwrap();
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
        let of = |purpose| Draws { families: vec![name.clone()], ..draws(purpose, 1, 1) }.mixes();
        assert_eq!(of(Purpose::Checking).unwrap().len(), 1);
        let error = of(Purpose::Tuning).unwrap_err().to_string();
        assert!(error.contains("a family of tuning"), "{error}");
    }
}
