//! What runs were of: the matrix, as bytes from host to host, and the network, as its tiers.
//!
//! Large ones are drawn in groups: hosts beside each other, switches of one pod. Inputs that
//! several runs have are drawn once.

mod matrix;
mod network;

use experiments::input::InputError;
use plotters::element::Text;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::{Deserialize, Serialize};

use super::draw::{lines, picture};
use super::legend::{Area, Drawn, FONT, wrapped};
use super::panel::called;
use super::read::{Results, RunResults};
use crate::failure::Failure;
use matrix::Matrix;
use network::NetworkPicture;

/// The matrices and the networks of some results.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Inputs {
    matrices: Vec<Of<Matrix>>,
    networks: Vec<Of<NetworkPicture>>,
    /// How many further inputs there are, which are not drawn.
    more: usize,
}

/// An input, and the runs that have it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Of<T> {
    /// What distinguishes the runs with this input from the others; empty where all runs have it.
    runs: String,
    #[serde(flatten)]
    it: T,
}

/// The most inputs of a kind that are drawn.
const DRAWN: usize = 6;

impl Inputs {
    /// The inputs of all runs.
    ///
    /// # Errors
    /// When the files of a run cannot be read.
    pub(super) fn of(results: &Results) -> Result<Self, InputError> {
        let mut networks: Vec<(String, Vec<&RunResults>)> = Vec::new();
        let mut matrices: Vec<(Matrix, Vec<&RunResults>)> = Vec::new();
        for run in results.all() {
            let text = run.network()?;
            let hosts = text.as_deref().map(network::hosts).transpose()?;
            group(&mut matrices, Matrix::of(run, hosts)?, run);
            if let Some(text) = text {
                group(&mut networks, text, run);
            }
        }
        let more = matrices.len().saturating_sub(DRAWN) + networks.len().saturating_sub(DRAWN);
        let matrix =
            |(it, runs): (Matrix, Vec<&RunResults>)| Of { runs: shared(&runs, results), it };
        let network = |(text, runs): (String, Vec<&RunResults>)| {
            Ok(Of { runs: shared(&runs, results), it: NetworkPicture::read(&text)? })
        };
        Ok(Self {
            matrices: matrices.into_iter().take(DRAWN).map(matrix).collect(),
            networks: networks
                .into_iter()
                .take(DRAWN)
                .map(network)
                .collect::<Result<_, InputError>>()?,
            more,
        })
    }

    /// All matrices and networks below each other, under a title.
    ///
    /// # Errors
    /// When the drawing library fails, which it has no reason to.
    pub(super) fn svg(&self, title: &str) -> Result<String, Failure> {
        let title = wrapped(title, WIDTH / 9);
        let top = TITLE * u32::try_from(title.len()).unwrap_or(1);
        let matrices = self.matrices.iter().map(|_| matrix::HEIGHT).sum::<u32>();
        let networks = self.networks.iter().map(|of| of.it.height()).sum::<u32>();
        let rest: Vec<String> = (self.more > 0)
            .then(|| format!("and {} more, which are not drawn", self.more))
            .into_iter()
            .collect();
        let foot = if rest.is_empty() { 0 } else { TITLE };
        picture((WIDTH, top + matrices + networks + foot), |area| {
            let (head, mut rest_of_it) = area.split_vertically(top);
            lines(&head, &title, (17, TITLE), &BLACK)?;
            for of in &self.networks {
                let (place, below) = rest_of_it.split_vertically(of.it.height());
                of.it.draw(&place, &of.runs)?;
                rest_of_it = below;
            }
            for of in &self.matrices {
                let (place, below) = rest_of_it.split_vertically(matrix::HEIGHT);
                of.it.draw(&place, &of.runs)?;
                rest_of_it = below;
            }
            lines(&rest_of_it, &rest, (13, TITLE), &BLACK)
        })
    }

    /// A line for each cell of each matrix, below a head.
    pub(super) fn lines(&self) -> Vec<Vec<String>> {
        let head = ["runs", "first sender", "first receiver", "hosts a cell", "bytes", "flows"];
        let head = std::iter::once(head.map(str::to_owned).into());
        head.chain(self.matrices.iter().flat_map(|of| of.it.lines(&of.runs))).collect()
    }
}

/// Pixels across a picture.
const WIDTH: u32 = 1000;
/// Pixels of a line of the title.
const TITLE: u32 = 26;

/// Writes a text at a place: its size, and which side of it the place is.
fn write(area: &Area<'_>, text: &str, at: (i32, i32), (size, side): (i32, HPos)) -> Drawn {
    let style = (FONT, size).into_text_style(area).pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text, at, style))
}

fn group<'a, T: PartialEq>(
    groups: &mut Vec<(T, Vec<&'a RunResults>)>,
    value: T,
    run: &'a RunResults,
) {
    match groups.iter_mut().find(|(known, _)| *known == value) {
        Some((_, runs)) => runs.push(run),
        None => groups.push((value, vec![run])),
    }
}

/// What `runs` have in common that not all results have: labels of axes, else a name.
fn shared(runs: &[&RunResults], results: &Results) -> String {
    let all = results.all().count();
    let Some(first) = runs.first().filter(|_| runs.len() < all) else { return String::new() };
    let distinguishes = |(axis, label): &(&String, &String)| {
        let has = |run: &&RunResults| run.parts.get(*axis) == Some(*label);
        runs.iter().all(has) && results.all().filter(has).count() == runs.len()
    };
    let labels: Vec<String> =
        first.parts.iter().filter(distinguishes).map(|(axis, label)| called(axis, label)).collect();
    match (labels.is_empty(), runs.len()) {
        (false, _) => labels.join(", "),
        (true, 1) => first.name.replace(',', ", "),
        (true, count) => format!("{} and {} more", first.name.replace(',', ", "), count - 1),
    }
}
