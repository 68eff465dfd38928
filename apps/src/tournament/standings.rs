//! Ranks of transports on the mixes: by how much each is ahead, and where it is beaten.
//!
//! Each measure of a run is divided by the best of all transports on the same mix, so that long and
//! short mixes count alike. The score of a run is the geometric mean of its three ratios; 1 is a
//! transport that no other beats in any of them.

use std::io::{self, Write};

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use experiments::tournament::{Draws, Mix};
use serde::Serialize;
use serde_json::Value;

use crate::ranking::{half_width, mean};

/// Measures of a run, the less the better: title and place in the summary.
const MEASURES: [(&str, &str); 3] =
    [("mean", "/fct_us/mean"), ("p99", "/fct_us/p99"), ("completion", "/completion_us")];

/// The ratio to the best above which a transport counts as beaten.
const BEATEN: f64 = 1.10;

/// One transport on one mix.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct MixScore {
    mix: String,
    family: &'static str,
    transport: String,
    /// The measures in the order of [`MEASURES`], microseconds; `None` where flows are unfinished.
    us: Option<[f64; 3]>,
    /// The measures in multiples of the best on the mix.
    ratios: Option<[f64; 3]>,
}

/// All places, and the draws that they are of.
#[derive(Debug, Serialize)]
pub(super) struct Standings {
    schema: u32,
    part: &'static str,
    seed: u64,
    mixes: u32,
    scale: f64,
    transports: Vec<String>,
    measures: [&'static str; 3],
    places: Vec<MixScore>,
}

/// A transport's line over all mixes.
struct Contender<'a> {
    transport: &'a str,
    runs: usize,
    finished: Vec<&'a MixScore>,
}

impl MixScore {
    /// The result in `summary`, null where there is none.
    pub(super) fn of(mix: &Mix, transport: &str, summary: &Value) -> Self {
        let number = |path: &str| summary.pointer(path).and_then(Value::as_f64);
        let whole = number("/flows/finished").is_some()
            && summary.pointer("/flows/finished") == summary.pointer("/flows/total");
        let [mean, p99, completion] = MEASURES.map(|(_, path)| number(path));
        let us = mean.zip(p99).zip(completion).map(|((mean, p99), last)| [mean, p99, last]);
        Self {
            mix: mix.name.clone(),
            family: mix.family,
            transport: transport.to_owned(),
            us: us.filter(|_| whole),
            ratios: None,
        }
    }

    /// The geometric mean of the ratios.
    fn score(&self) -> Option<f64> {
        self.ratios.map(|ratios| ratios.iter().product::<f64>().cbrt())
    }

    /// The measure that is furthest behind the best, with its ratio.
    fn worst(&self) -> Option<(usize, f64)> {
        let ratios = self.ratios?.into_iter().enumerate();
        ratios.max_by(|(_, a), (_, b)| a.total_cmp(b))
    }
}

impl Standings {
    /// The standings of `places`.
    pub(super) fn of(draws: &Draws, transports: &[String], mut places: Vec<MixScore>) -> Self {
        let all = places.clone();
        for place in &mut places {
            let same = || all.iter().filter(|other| other.mix == place.mix);
            place.ratios = place.us.map(|us| {
                std::array::from_fn(|at| {
                    let best = same().filter_map(|other| other.us).map(|us| us[at]);
                    us[at] / best.fold(f64::INFINITY, f64::min)
                })
            });
        }
        Self {
            schema: 1,
            part: draws.part.name(),
            seed: draws.seed,
            mixes: draws.mixes,
            scale: draws.scale,
            transports: transports.to_vec(),
            measures: MEASURES.map(|(title, _)| title),
            places,
        }
    }

    /// Writes all as JSON.
    pub(super) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    /// Writes ranks, families, and where each transport is beaten, as tables of Markdown.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let lines = self.lines();
        writeln!(
            out,
            "{} of seed {}, scale {}: multiples of the best on each mix, mean ± half the width of \
             its 95 % interval; score is the geometric mean of the three",
            self.part, self.seed, self.scale
        )?;
        writeln!(out, "\n{}", self.ranks(&lines))?;
        writeln!(out, "\nscore in each family, mean / worst; ! where flows are unfinished")?;
        writeln!(out, "\n{}", self.families(&lines))?;
        writeln!(
            out,
            "\nfamilies whose best transport is more than {BEATEN:.2} times better in the mean of \
             a measure"
        )?;
        writeln!(out, "\n{}", self.beaten(&lines))
    }

    /// The transports, the best first: those that finish more before those that finish less.
    fn lines(&self) -> Vec<Contender<'_>> {
        let mut lines: Vec<Contender<'_>> = self
            .transports
            .iter()
            .map(|transport| {
                let own = || self.places.iter().filter(move |place| place.transport == *transport);
                let finished = own().filter(|place| place.ratios.is_some()).collect();
                Contender { transport, runs: own().count(), finished }
            })
            .collect();
        lines.sort_by(|a, b| {
            let unfinished = |line: &Contender<'_>| line.runs - line.finished.len();
            unfinished(a).cmp(&unfinished(b)).then(a.score().total_cmp(&b.score()))
        });
        lines
    }

    fn ranks(&self, lines: &[Contender<'_>]) -> Table {
        let head = ["rank", "transport", "finished", "score"].map(str::to_owned);
        let titles = MEASURES.map(|(title, _)| title.to_owned());
        let head = head.into_iter().chain(titles).chain(["worst, on which mix".to_owned()]);
        let mut table = markdown(head, 2);
        for (at, line) in lines.iter().enumerate() {
            let count = format!("{}/{}", line.finished.len(), line.runs);
            let scores: Vec<f64> = line.finished.iter().filter_map(|place| place.score()).collect();
            let measures = [0, 1, 2].map(|at| spread(&line.measure(at)));
            let worst = line.finished.iter().filter_map(|place| {
                let (measure, ratio) = place.worst()?;
                Some((ratio, format!("{ratio:.2} {} on {}", MEASURES[measure].0, place.mix)))
            });
            let worst = worst.max_by(|(a, _), (b, _)| a.total_cmp(b));
            let worst = worst.map_or_else(|| "-".to_owned(), |(_, text)| text);
            let row = [(at + 1).to_string(), line.transport.to_owned(), count, spread(&scores)];
            table.add_row(row.into_iter().chain(measures).chain([worst]));
        }
        table
    }

    fn families(&self, lines: &[Contender<'_>]) -> Table {
        let titles = lines.iter().map(|line| line.transport.to_owned());
        let mut table = markdown(["family".to_owned()].into_iter().chain(titles), 1);
        for family in self.family_names() {
            let cells = lines.iter().map(|line| {
                let own: Vec<&MixScore> = self.of_family(family, line.transport).collect();
                let scores: Vec<f64> = own.iter().filter_map(|place| place.score()).collect();
                let mark = if scores.len() < own.len() { " !" } else { "" };
                match scores.iter().copied().max_by(f64::total_cmp) {
                    None => "!".to_owned(),
                    Some(worst) => format!("{:.2} / {worst:.2}{mark}", mean(&scores)),
                }
            });
            table.add_row([family.to_owned()].into_iter().chain(cells));
        }
        table
    }

    fn beaten(&self, lines: &[Contender<'_>]) -> Table {
        let head = ["transport", "beaten in"].map(str::to_owned);
        let mut table = markdown(head.into_iter(), 2);
        for line in lines {
            let texts: Vec<String> =
                self.family_names().filter_map(|family| self.beaten_in(line, family)).collect();
            let text = if texts.is_empty() { "-".to_owned() } else { texts.join("; ") };
            table.add_row([line.transport.to_owned(), text]);
        }
        table
    }

    /// The measure in which a transport is furthest behind the best of a family, if it is beaten.
    fn beaten_in(&self, line: &Contender<'_>, family: &str) -> Option<String> {
        let means = |transport: &str, at: usize| {
            let own: Vec<&MixScore> = self.of_family(family, transport).collect();
            let all: Vec<f64> = own.iter().filter_map(|p| Some(p.ratios?[at])).collect();
            (all.len() == own.len()).then(|| mean(&all))
        };
        let behind = (0..MEASURES.len()).filter_map(|at| {
            let own = means(line.transport, at)?;
            let others = self.transports.iter().filter_map(|t| Some((means(t, at)?, t)));
            let (best, by) = others.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
            Some((own / best, MEASURES[at].0, by))
        });
        let (ratio, measure, by) = behind.max_by(|(a, ..), (b, ..)| a.total_cmp(b))?;
        (ratio > BEATEN).then(|| format!("{family} ({measure} {ratio:.2}, {by})"))
    }

    fn family_names(&self) -> impl Iterator<Item = &'static str> {
        let mut names: Vec<&'static str> = self.places.iter().map(|place| place.family).collect();
        names.dedup();
        names.into_iter()
    }

    fn of_family<'a>(
        &'a self,
        family: &'a str,
        transport: &'a str,
    ) -> impl Iterator<Item = &'a MixScore> {
        let own = move |place: &&MixScore| place.family == family && place.transport == transport;
        self.places.iter().filter(own)
    }
}

impl Contender<'_> {
    fn score(&self) -> f64 {
        let scores: Vec<f64> = self.finished.iter().filter_map(|place| place.score()).collect();
        if scores.is_empty() { f64::INFINITY } else { mean(&scores) }
    }

    fn measure(&self, at: usize) -> Vec<f64> {
        self.finished.iter().filter_map(|place| Some(place.ratios?[at])).collect()
    }
}

fn spread(values: &[f64]) -> String {
    match values.len() {
        0 => "-".to_owned(),
        1 => format!("{:.3}", values[0]),
        _ => format!("{:.3} ± {:.3}", mean(values), half_width(values)),
    }
}

/// A table of Markdown, whose columns from `numbers` on stand to the right.
fn markdown(head: impl Iterator<Item = String>, numbers: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head);
    for column in table.column_iter_mut().skip(numbers) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use experiments::tournament::Purpose;
    use serde_json::json;

    use super::*;

    fn standings(values: &[(&str, Option<[f64; 3]>)]) -> Standings {
        let draws =
            Draws { part: Purpose::Tuning, seed: 1, mixes: 2, scale: 0.1, families: Vec::new() };
        let mixes = draws.mixes().unwrap();
        let transports = ["a".to_owned(), "b".to_owned()];
        let places = values.iter().enumerate().map(|(at, (transport, us))| {
            let finished = if us.is_some() { 4 } else { 3 };
            let [mean, p99, last] = us.unwrap_or([1.0; 3]);
            let summary = json!({"flows": {"finished": finished, "total": 4},
                "fct_us": {"mean": mean, "p99": p99}, "completion_us": last});
            MixScore::of(&mixes[at / 2], transport, &summary)
        });
        Standings::of(&draws, &transports, places.collect())
    }

    #[test]
    fn ratios_are_to_the_best_of_each_mix_and_rank_the_transports() {
        let standings = standings(&[
            ("a", Some([20.0, 40.0, 80.0])),
            ("b", Some([10.0, 80.0, 80.0])),
            ("a", Some([3.0, 9.0, 9.0])),
            ("b", Some([3.0, 9.0, 9.0])),
        ]);
        let ratios: Vec<_> = standings.places.iter().map(|place| place.ratios.unwrap()).collect();
        assert_eq!(ratios, [[2.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0; 3], [1.0; 3]]);
        let names: Vec<_> = standings.lines().iter().map(|line| line.transport).collect();
        assert_eq!(names, ["a", "b"], "equal scores keep the order of the command line");
        let mut out = Vec::new();
        standings.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        // Two values, 2 and 1: 12.706 * 0.7071 / sqrt(2) around 1.5.
        assert!(text.contains("1.500 ± 6.353"), "{text}");
        assert!(text.contains("2.00 mean on near-incast-1"), "{text}");
        assert!(text.contains("near-incast (mean 1.50, b)"), "{text}");
        assert!(text.contains("near-incast (p99 1.50, a)"), "{text}");
    }

    #[test]
    fn a_transport_that_leaves_flows_unfinished_is_behind_one_that_does_not() {
        let standings = standings(&[
            ("a", Some([1.0; 3])),
            ("b", Some([9.0; 3])),
            ("a", None),
            ("b", Some([9.0; 3])),
        ]);
        let names: Vec<_> = standings.lines().iter().map(|line| line.transport).collect();
        assert_eq!(names, ["b", "a"]);
        let mut out = Vec::new();
        standings.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("1.00 / 1.00 !"), "{text}");
        assert!(!text.contains("near-incast (mean"), "{text}");
    }
}
