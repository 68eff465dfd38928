//! Ranks of transports and settings on the mixes: how far each is ahead, and where it is beaten.
//!
//! Each measure of a run is divided by the best of all on the same mix, or by that of a reference,
//! so that long and short mixes count alike. The score of a run is the geometric mean of its
//! ratios. The score of a contestant is the geometric mean over its runs. So a third contestant,
//! which may be the best somewhere, changes the scores of two others by one factor, and not their
//! order. A run that leaves flows unfinished counts with the limit of a run in every measure. A run
//! whose audit found errors is no result, and its contestant has no rank.

use std::io::{self, Write};

use experiments::tournament::{Draws, Mix};
use serde::Serialize;
use serde_json::Value;

use crate::provenance::{COMMIT, SOURCES};
use crate::ranking::{self, geometric_interval, geometric_mean};
use crate::sweep_dir::{is_sound, is_success};
use crate::table::{markdown_head, markdown_row};

/// Measures of a run, the less the better: title and place in the summary. Below 100 flows the 99th
/// percentile is the longest. The last is the mean of flows of at most 100,000 bytes, where others
/// are beside them.
const MEASURES: [(&str, &str); COUNT] = [
    ("mean", "/fct_us/mean"),
    ("median", "/fct_us/p50"),
    ("longest", "/fct_us/max"),
    ("short", "/arrivals/mice_us/mean"),
];

/// How many measures there are.
const COUNT: usize = 4;

/// The ratio to another above which a contestant counts as beaten.
const BEATEN: f64 = 1.10;

/// One contestant on one mix.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct MixScore {
    mix: String,
    family: &'static str,
    contestant: String,
    ended: Completeness,
    /// The measures in the order of [`MEASURES`], microseconds; null where a mix has none, and in a
    /// run that is not finished.
    us: [Option<f64>; COUNT],
    /// The measures in multiples of the best, or of the reference, on the mix.
    ratios: [Option<f64>; COUNT],
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Completeness {
    /// All flows finished.
    Finished,
    /// Not all flows finished within the limit.
    Unfinished,
    /// The audit found errors, or there is no summary.
    Wrong,
}

/// All places, and the draws that they are of.
#[derive(Debug, Serialize)]
pub(super) struct Standings {
    schema: u32,
    version: &'static str,
    commit: &'static str,
    /// A hash of the program's sources.
    sources: &'static str,
    purpose: &'static str,
    seed: u64,
    mixes: u32,
    scale: f64,
    /// The network time after which a run ended, with which it counts where it is not finished.
    limit_us: f64,
    /// What ratios are to; null for the best on each mix.
    reference: Option<String>,
    contestants: Vec<String>,
    measures: [&'static str; COUNT],
    ranks: Vec<Rank>,
    places: Vec<MixScore>,
}

/// A contestant's line over all mixes.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Rank {
    /// One more than there are better ones; null for a contestant with a wrong run.
    rank: Option<usize>,
    contestant: String,
    finished: usize,
    unfinished: usize,
    wrong: usize,
    /// The geometric mean over the mixes, and its 95 % interval.
    score: Option<f64>,
    interval: Option<(f64, f64)>,
}

impl MixScore {
    /// The result in `summary`, whatever is missing there.
    pub(super) fn of(mix: &Mix, contestant: String, summary: &Value) -> Self {
        let ended = match (is_success(summary), is_sound(summary)) {
            (true, _) => Completeness::Finished,
            (false, true) => Completeness::Unfinished,
            (false, false) => Completeness::Wrong,
        };
        let us = MEASURES.map(|(_, path)| {
            let value = summary.pointer(path).and_then(Value::as_f64);
            value.filter(|us| ended == Completeness::Finished && *us > 0.0)
        });
        let (mix, family) = (mix.name.clone(), mix.family);
        Self { mix, family, contestant, ended, us, ratios: [None; COUNT] }
    }

    /// The measure as it counts; `has` says which measures the mix has.
    fn counted(&self, at: usize, has: [bool; COUNT], limit_us: f64) -> Option<f64> {
        match self.ended {
            Completeness::Finished => self.us[at],
            Completeness::Unfinished => has[at].then_some(limit_us),
            Completeness::Wrong => None,
        }
    }

    /// The geometric mean of the ratios; `None` without any.
    fn score(&self) -> Option<f64> {
        let ratios: Vec<f64> = self.ratios.into_iter().flatten().collect();
        (!ratios.is_empty()).then(|| geometric_mean(&ratios))
    }
}

impl Standings {
    /// The standings of `places`, measured against the contestant `reference` if there is one.
    pub(super) fn of(
        draws: &Draws,
        contestants: Vec<String>,
        reference: Option<&str>,
        mut places: Vec<MixScore>,
    ) -> Self {
        let (all, limit_us) = (places.clone(), draws.limit_us());
        for place in &mut places {
            let same = || all.iter().filter(|other| other.mix == place.mix);
            let has =
                std::array::from_fn(|at| at < 3 || same().any(|other| other.us[at].is_some()));
            place.ratios = std::array::from_fn(|at| {
                let is_base =
                    |other: &&MixScore| reference.is_none_or(|name| other.contestant == name);
                let bases = same().filter(is_base).filter_map(|o| o.counted(at, has, limit_us));
                let base = bases.reduce(f64::min)?;
                Some(place.counted(at, has, limit_us)? / base)
            });
        }
        let mut standings = Self {
            schema: 2,
            version: env!("CARGO_PKG_VERSION"),
            commit: COMMIT,
            sources: SOURCES,
            purpose: draws.purpose.name(),
            seed: draws.seed,
            mixes: draws.each,
            scale: draws.scale,
            limit_us,
            reference: reference.map(str::to_owned),
            contestants,
            measures: MEASURES.map(|(title, _)| title),
            ranks: Vec::new(),
            places,
        };
        standings.ranks = standings.ranked();
        standings
    }

    /// The names of the runs whose audit found errors.
    pub(super) fn wrong(&self) -> Vec<String> {
        let wrong = self.places.iter().filter(|place| place.ended == Completeness::Wrong);
        wrong.map(|place| format!("{} on {}", place.contestant, place.mix)).collect()
    }

    /// Writes all as JSON.
    pub(super) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    /// Writes ranks, families, and where each contestant is beaten, as tables of Markdown.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let base = self.reference.as_deref().unwrap_or("the best on each mix");
        writeln!(
            out,
            "{} of seed {}, scale {}: multiples of {base}, geometric means with 95 % intervals; \
             score is that of all measures; unfinished runs count with their limit, {:.0} s",
            self.purpose,
            self.seed,
            self.scale,
            self.limit_us / 1e6
        )?;
        write!(out, "{}", self.rank_table())?;
        writeln!(out, "\nscore in each family, mean / worst; ! unfinished runs, ? wrong ones")?;
        write!(out, "{}", self.family_table())?;
        writeln!(
            out,
            "\nfamilies where flows are unfinished, or another is more than {BEATEN:.2} times \
             better in a measure on the mixes that both finish"
        )?;
        write!(out, "{}", self.beaten_table())
    }

    /// The places of a contestant.
    fn own<'a>(&'a self, contestant: &'a str) -> impl Iterator<Item = &'a MixScore> {
        self.places.iter().filter(move |place| place.contestant == contestant)
    }

    /// The contestants, the best first and those without a rank last; equal ones in the order of
    /// the command line.
    fn ranked(&self) -> Vec<Rank> {
        let of = |contestant: &String| {
            let scores: Vec<f64> = self.own(contestant).filter_map(MixScore::score).collect();
            let count = |ended| self.own(contestant).filter(|place| place.ended == ended).count();
            Rank {
                rank: None,
                contestant: contestant.clone(),
                finished: count(Completeness::Finished),
                unfinished: count(Completeness::Unfinished),
                wrong: count(Completeness::Wrong),
                score: (!scores.is_empty()).then(|| geometric_mean(&scores)),
                interval: self.interval(&scores),
            }
        };
        let mut ranks: Vec<Rank> = self.contestants.iter().map(of).collect();
        // The same ratios in another order differ in their last digit.
        let digits = |rank: &Rank| rank.score.map_or(f64::INFINITY, |score| (score * 1e9).round());
        let has_rank = |rank: &Rank| rank.wrong == 0 && rank.score.is_some();
        let sound: Vec<f64> = ranks.iter().filter(|rank| has_rank(rank)).map(digits).collect();
        for rank in ranks.iter_mut().filter(|rank| has_rank(rank)) {
            rank.rank = Some(ranking::place(digits(rank), sound.iter().copied()));
        }
        ranks.sort_by_key(|rank| rank.rank.unwrap_or(usize::MAX));
        ranks
    }

    /// The interval of ratios; none to the best is below 1.
    fn interval(&self, ratios: &[f64]) -> Option<(f64, f64)> {
        let least = if self.reference.is_none() { 1.0 } else { 0.0 };
        geometric_interval(ratios).map(|(low, high)| (low.max(least), high))
    }

    fn shown(&self, ratios: &[f64]) -> String {
        match self.interval(ratios) {
            _ if ratios.is_empty() => "-".to_owned(),
            None => format!("{:.3}", geometric_mean(ratios)),
            Some((low, high)) => {
                format!("{:.3} ({low:.2} to {high:.2})", geometric_mean(ratios))
            }
        }
    }

    fn rank_table(&self) -> String {
        let head = ["rank", "contestant", "finished", "score"].map(str::to_owned);
        let titles = self.measures.map(str::to_owned);
        let worst = "worst, on which mix".to_owned();
        let mut rows = vec![head.into_iter().chain(titles).chain([worst]).collect::<Vec<_>>()];
        for line in &self.ranks {
            let own = || self.own(&line.contestant);
            let rank = line.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
            let all = line.finished + line.unfinished + line.wrong;
            let finished = format!("{}/{all}", line.finished);
            let scores: Vec<f64> = own().filter_map(MixScore::score).collect();
            let measures = [0, 1, 2, 3].map(|at| {
                self.shown(&own().filter_map(|place| place.ratios[at]).collect::<Vec<_>>())
            });
            let ratios = own().flat_map(|place| {
                let all = place.ratios.into_iter().zip(self.measures);
                all.filter_map(move |(ratio, title)| Some((ratio?, title, &place.mix)))
            });
            let worst = ratios.reduce(|worst, next| if next.0 > worst.0 { next } else { worst });
            let worst = worst.map_or_else(
                || "-".to_owned(),
                |(ratio, title, mix)| format!("{ratio:.2} {title} on {mix}"),
            );
            let head = [rank, line.contestant.clone(), finished, self.shown(&scores)];
            rows.push(head.into_iter().chain(measures).chain([worst]).collect());
        }
        aligned(&rows)
    }

    fn family_table(&self) -> String {
        let titles = self.ranks.iter().map(|line| line.contestant.clone());
        let mut rows = vec![["family".to_owned()].into_iter().chain(titles).collect::<Vec<_>>()];
        for family in self.families() {
            let cells = self.ranks.iter().map(|line| {
                let own: Vec<&MixScore> = self.of_family(family, &line.contestant).collect();
                let scores: Vec<f64> = own.iter().filter_map(|place| place.score()).collect();
                let has = |ended| own.iter().any(|place| place.ended == ended);
                let unfinished = if has(Completeness::Unfinished) { " !" } else { "" };
                let wrong = if has(Completeness::Wrong) { " ?" } else { "" };
                let worst = scores.iter().copied().reduce(f64::max);
                let text = worst.map_or_else(
                    || "-".to_owned(),
                    |worst| format!("{:.2} / {worst:.2}", geometric_mean(&scores)),
                );
                text + unfinished + wrong
            });
            rows.push([family.to_owned()].into_iter().chain(cells).collect());
        }
        aligned(&rows)
    }

    fn beaten_table(&self) -> String {
        let mut rows = vec![["contestant", "beaten in"].map(str::to_owned).to_vec()];
        for line in &self.ranks {
            let beaten = |family| self.beaten_in(&line.contestant, family);
            let texts: Vec<String> = self.families().filter_map(beaten).collect();
            let text = if texts.is_empty() { "-".to_owned() } else { texts.join("; ") };
            rows.push(vec![line.contestant.clone(), text]);
        }
        aligned(&rows)
    }

    /// The family with its unfinished or wrong runs, and with the measure in which another
    /// contestant is furthest ahead on the mixes that both finish. `None` where there is none of
    /// these.
    fn beaten_in(&self, contestant: &str, family: &str) -> Option<String> {
        let own: Vec<&MixScore> = self.of_family(family, contestant).collect();
        let mut texts = Vec::new();
        for (ended, word) in
            [(Completeness::Unfinished, "unfinished"), (Completeness::Wrong, "wrong")]
        {
            let count = own.iter().filter(|place| place.ended == ended).count();
            texts.extend((count > 0).then(|| format!("{word} {count} of {}", own.len())));
        }
        let rivals = self.contestants.iter().filter(|rival| *rival != contestant);
        let behind = rivals.flat_map(|rival| {
            let own = &own;
            (0..COUNT).filter_map(move |at| {
                let pairs = self.of_family(family, rival).filter_map(|other| {
                    let same = own.iter().find(|place| place.mix == other.mix)?;
                    Some(same.us[at]? / other.us[at]?)
                });
                let ratios: Vec<f64> = pairs.collect();
                (!ratios.is_empty()).then(|| (geometric_mean(&ratios), MEASURES[at].0, rival))
            })
        });
        let most = behind.reduce(|most, next| if next.0 > most.0 { next } else { most });
        if let Some((ratio, measure, by)) = most.filter(|(ratio, ..)| *ratio > BEATEN) {
            texts.push(format!("{measure} {ratio:.2}, {by}"));
        }
        (!texts.is_empty()).then(|| format!("{family} ({})", texts.join("; ")))
    }

    fn families(&self) -> impl Iterator<Item = &'static str> {
        let mut names: Vec<&'static str> = self.places.iter().map(|place| place.family).collect();
        names.dedup();
        names.into_iter()
    }

    fn of_family<'a>(
        &'a self,
        family: &'a str,
        contestant: &'a str,
    ) -> impl Iterator<Item = &'a MixScore> {
        self.own(contestant).filter(move |place| place.family == family)
    }
}

/// A table of Markdown whose columns stand below each other in a terminal, too; the first row is
/// its head.
fn aligned(rows: &[Vec<String>]) -> String {
    let len = |text: &String| text.chars().count();
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(len).max().unwrap_or(0);
    let padded = |row: &Vec<String>| -> Vec<String> {
        let cells = row.iter().enumerate();
        cells.map(|(at, cell)| format!("{cell:width$}", width = width(at))).collect()
    };
    let (head, body) = rows.split_at(rows.len().min(1));
    let head: String = head.iter().map(|row| markdown_head(&padded(row))).collect();
    body.iter().fold(head, |text, row| text + &markdown_row(&padded(row)))
}

#[cfg(test)]
mod tests {
    use experiments::tournament::Purpose;
    use serde_json::json;

    use super::*;

    fn finished(us: [f64; 3]) -> Value {
        json!({"flows": {"finished": 4, "total": 4}, "audit": {"ok": true},
            "fct_us": {"mean": us[0], "p50": us[1], "max": us[2]}})
    }

    fn unfinished() -> Value {
        json!({"flows": {"finished": 3, "total": 4}, "audit": {"ok": true},
            "fct_us": {"mean": 1.0, "p50": 1.0, "max": 1.0}})
    }

    /// Standings of contestants on two mixes of a family, each with its two summaries.
    fn standings(field: &[(&str, [Value; 2])], reference: Option<&str>) -> Standings {
        let purpose = Purpose::Tuning;
        let draws = Draws { purpose, seed: 1, each: 2, scale: 0.1, families: Vec::new() };
        let mixes = draws.mixes().unwrap();
        let names = field.iter().map(|(name, _)| (*name).to_owned()).collect();
        let of = |at: usize| {
            let mix = &mixes[at];
            field.iter().map(move |(name, all)| MixScore::of(mix, (*name).to_owned(), &all[at]))
        };
        Standings::of(&draws, names, reference, [0, 1].into_iter().flat_map(of).collect())
    }

    fn text(standings: &Standings) -> String {
        let mut out = Vec::new();
        standings.write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn ranks(standings: &Standings) -> Vec<(&str, Option<usize>)> {
        standings.ranks.iter().map(|line| (line.contestant.as_str(), line.rank)).collect()
    }

    #[test]
    fn ratios_are_to_the_best_of_each_mix_and_equal_scores_share_a_rank() {
        let standings = standings(
            &[
                ("a", [finished([20.0, 40.0, 80.0]), finished([3.0, 9.0, 9.0])]),
                ("b", [finished([10.0, 80.0, 80.0]), finished([3.0, 9.0, 9.0])]),
                ("c", [finished([40.0, 80.0, 80.0]), finished([3.0, 9.0, 9.0])]),
            ],
            None,
        );
        let first: Vec<f64> = standings.places[0].ratios.into_iter().flatten().collect();
        assert_eq!(first, [2.0, 1.0, 1.0], "no measure of short flows");
        assert_eq!(ranks(&standings), [("a", Some(1)), ("b", Some(1)), ("c", Some(3))]);
        let text = text(&standings);
        // Scores of `a` are 2^(1/3) and 1: half the logarithm is 0.1155, and its deviation over
        // sqrt(2) is that, too, times 12.706. No interval begins below 1.
        assert!(text.contains("1.122 (1.00 to 4.87)"), "{text}");
        assert!(text.contains("4.00 mean on near-incast-1"), "{text}");
        assert!(text.contains("near-incast (mean 1.41, b)"), "{text}");
    }

    #[test]
    fn a_third_contestant_changes_no_order() {
        let pair = [
            ("a", [finished([10.0; 3]), finished([26.0; 3])]),
            ("b", [finished([20.0; 3]), finished([14.0; 3])]),
        ];
        // The best on the second mix by far: arithmetic means of ratios would turn the order.
        let third = ("c", [finished([90.0; 3]), finished([1.0; 3])]);
        let without = standings(&pair, None);
        let with = standings(&[&pair[..], &[third]].concat(), None);
        assert_eq!(ranks(&without), [("a", Some(1)), ("b", Some(2))]);
        let order: Vec<&str> = with.ranks.iter().map(|line| line.contestant.as_str()).collect();
        assert!(
            order.iter().position(|name| *name == "a") < order.iter().position(|n| *n == "b"),
            "{order:?}"
        );
    }

    #[test]
    fn unfinished_runs_count_with_the_limit_and_are_named() {
        let standings = standings(
            &[
                ("a", [finished([1.0; 3]), unfinished()]),
                ("b", [finished([9.0; 3]), finished([9.0; 3])]),
            ],
            None,
        );
        assert_eq!(ranks(&standings), [("b", Some(1)), ("a", Some(2))]);
        let charged = standings.places[2].ratios;
        assert_eq!(charged[..3], [Some(2e6 / 9.0); 3]);
        let text = text(&standings);
        assert!(text.contains("near-incast (unfinished 1 of 2)"), "{text}");
        // The rival is compared where both finish.
        assert!(text.contains("near-incast (mean 9.00, a)"), "{text}");
        // The sign's meaning, and the one family of the one contestant.
        assert_eq!(text.matches(" !").count(), 2, "{text}");
    }

    #[test]
    fn a_run_with_a_wrong_audit_sets_no_best_and_has_no_rank() {
        let mut wrong = finished([1.0; 3]);
        wrong["audit"]["ok"] = json!(false);
        let field =
            [("a", [wrong, finished([1.0; 3])]), ("b", [finished([9.0; 3]), finished([9.0; 3])])];
        let standings = standings(&field, None);
        assert_eq!(ranks(&standings), [("b", Some(1)), ("a", None)]);
        assert_eq!(standings.wrong(), ["a on near-incast-1"]);
        let own = standings.places.iter().find(|place| place.contestant == "b").unwrap();
        assert_eq!(own.ratios[0], Some(1.0), "the wrong run is not the best");
        let text = text(&standings);
        assert!(text.contains("wrong 1 of 2") && text.matches(" ?").count() == 2, "{text}");
    }

    #[test]
    fn where_the_reference_has_no_sound_run_there_are_no_ranks() {
        let mut wrong = finished([1.0; 3]);
        wrong["audit"]["ok"] = json!(false);
        let field =
            [("a", [wrong.clone(), wrong]), ("b", [finished([9.0; 3]), finished([9.0; 3])])];
        let standings = standings(&field, Some("a"));
        assert_eq!(ranks(&standings), [("a", None), ("b", None)]);
        assert!(standings.ranks.iter().all(|line| line.score.is_none()));
    }

    #[test]
    fn a_reference_is_what_ratios_are_to() {
        let field = [
            ("a", [finished([2.0; 3]), finished([2.0; 3])]),
            ("b", [finished([1.0; 3]), finished([1.0; 3])]),
        ];
        let standings = standings(&field, Some("a"));
        assert_eq!(standings.places[1].ratios[0], Some(0.5));
        let text = text(&standings);
        assert!(
            text.contains("multiples of a,") && text.contains("0.500 (0.50 to 0.50)"),
            "{text}"
        );
    }

    #[test]
    fn short_flows_are_measured_where_there_are_some() {
        let with = |us: f64| {
            let mut summary = finished([5.0; 3]);
            summary["arrivals"] = json!({"mice_us": {"mean": us}});
            summary
        };
        let standings =
            standings(&[("a", [with(30.0), with(10.0)]), ("b", [with(10.0), unfinished()])], None);
        assert_eq!(standings.places[0].ratios[3], Some(3.0));
        assert_eq!(standings.places[3].ratios[3], Some(2e5), "charged with the limit");
    }
}
