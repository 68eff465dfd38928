//! A matrix as a square: senders from the top, receivers from the left, colours by bytes.

use std::collections::BTreeMap;

use experiments::input::InputError;
use plotters::element::Text;
use plotters::prelude::*;
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::{Deserialize, Serialize};

use super::super::legend::{Area, Drawn, FONT};
use super::super::read::RunResults;
use super::write;
use crate::table::size;

/// Bytes from host to host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Matrix {
    /// Hosts of the network, or those up to the last one that sends or receives.
    hosts: u32,
    /// Hosts that stand beside each other and have one cell.
    group: u32,
    /// Sender's group, receiver's group, bytes, flows; of groups that send, in their order.
    cells: Vec<(u32, u32, u64, u64)>,
}

/// The most cells along a side.
const CELLS: u32 = 64;

/// Pixels of the square, of what is left of it, and from the top of the picture to its foot.
const SIDE: i32 = 512;
const LEFT: i32 = 200;
const TOP: i32 = 44;
/// Pixels down.
pub(super) const HEIGHT: u32 = 610;

impl Matrix {
    /// The matrix of a run in a network of so many hosts, where that is known.
    pub(super) fn of(run: &RunResults, hosts: Option<u32>) -> Result<Self, InputError> {
        let flows = run.flows("")?;
        let last = flows.iter().map(|flow| flow.src.max(flow.dst)).max().unwrap_or(0);
        let hosts = hosts.unwrap_or(0).max(last.saturating_add(1));
        let group = hosts.div_ceil(CELLS);
        let mut cells: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
        for flow in flows {
            let cell = cells.entry((flow.src / group, flow.dst / group)).or_default();
            *cell = (cell.0.saturating_add(flow.size), cell.1 + 1);
        }
        let cells = cells.into_iter().map(|((a, b), (bytes, flows))| (a, b, bytes, flows));
        Ok(Self { hosts, group, cells: cells.collect() })
    }

    /// The least and the most bytes of a cell; `None` without any.
    fn range(&self) -> Option<(u64, u64)> {
        let bytes = || self.cells.iter().map(|cell| cell.2);
        Some((bytes().min()?, bytes().max()?))
    }

    /// A line for each cell.
    pub(super) fn lines(&self, runs: &str) -> Vec<Vec<String>> {
        let line = |(a, b, bytes, flows): &(u32, u32, u64, u64)| {
            let group = u64::from(self.group);
            let numbers = [u64::from(*a) * group, u64::from(*b) * group, group, *bytes, *flows];
            std::iter::once(runs.to_owned()).chain(numbers.map(|n| n.to_string())).collect()
        };
        self.cells.iter().map(line).collect()
    }

    /// Draws the matrix, with what distinguishes its `runs` above.
    pub(super) fn draw(&self, area: &Area<'_>, runs: &str) -> Drawn {
        let mut title = format!("Bytes from host to host, {} hosts", self.hosts);
        if self.group > 1 {
            title += &format!(" in groups of {}", self.group);
        }
        if !runs.is_empty() {
            title += &format!(" ({runs})");
        }
        write(area, &title, (LEFT + SIDE / 2, 12), (15, HPos::Center))?;
        let count = self.hosts.div_ceil(self.group);
        let at =
            |cell: u32| SIDE * i32::try_from(cell).unwrap_or(0) / i32::try_from(count).unwrap_or(1);
        if let Some(range) = self.range() {
            let mut cells = self.cells.iter().peekable();
            while let Some(&(from, to, bytes, _)) = cells.next() {
                let colour = colour(bytes, range);
                // Equal neighbours are one rectangle: matrices of all pairs have many.
                let mut end = to + 1;
                while cells
                    .next_if(|next| next.0 == from && next.1 == end && next.2 == bytes)
                    .is_some()
                {
                    end += 1;
                }
                let corners =
                    [(LEFT + at(to), TOP + at(from)), (LEFT + at(end), TOP + at(from + 1))];
                area.draw(&Rectangle::new(corners, colour.filled()))?;
            }
            scale(area, range)?;
        }
        let frame = [(LEFT, TOP), (LEFT + SIDE, TOP + SIDE)];
        area.draw(&Rectangle::new(frame, BLACK.mix(0.5).stroke_width(1)))?;
        for part in 0..=4u32 {
            let cell = count * part / 4;
            let host = (cell * self.group).min(self.hosts).to_string();
            write(area, &host, (LEFT + at(cell), TOP + SIDE + 12), (12, HPos::Center))?;
            write(area, &host, (LEFT - 6, TOP + at(cell)), (12, HPos::Right))?;
        }
        write(area, "to host", (LEFT + SIDE / 2, TOP + SIDE + 32), (13, HPos::Center))?;
        let style = (FONT, 13).into_text_style(area).transform(FontTransform::Rotate270);
        let style = style.pos(Pos::new(HPos::Center, VPos::Center));
        area.draw(&Text::new("from host", (LEFT - 60, TOP + SIDE / 2), style))
    }
}

/// The colours from the least to the most bytes, beside the square.
fn scale(area: &Area<'_>, (least, most): (u64, u64)) -> Drawn {
    let (left, high) = (LEFT + SIDE + 40, 20);
    let steps: i32 = if least == most { 1 } else { 8 };
    for step in 0..steps {
        let share = if steps == 1 { 1.0 } else { f64::from(step) / f64::from(steps - 1) };
        let top = TOP + step * high;
        area.draw(&Rectangle::new([(left, top), (left + 20, top + high)], shade(share).filled()))?;
    }
    #[expect(clippy::cast_precision_loss, reason = "a display; 53 bits are plenty")]
    let text = |bytes: u64| size(bytes as f64);
    let last = TOP + (steps - 1) * high + high / 2;
    if steps > 1 {
        write(area, &text(least), (left + 28, TOP + high / 2), (12, HPos::Left))?;
    }
    write(area, &text(most), (left + 28, last), (12, HPos::Left))
}

/// The colour of a cell: by the logarithm of its bytes between the least and the most of all.
fn colour(bytes: u64, (least, most): (u64, u64)) -> RGBColor {
    #[expect(clippy::cast_precision_loss, reason = "a colour")]
    let log = |bytes: u64| libm::log(bytes.max(1) as f64);
    let span = log(most) - log(least);
    shade(if span > 0.0 { (log(bytes) - log(least)) / span } else { 1.0 })
}

/// From a light to a dark blue, 0 to 1, so that even the fewest bytes are visible.
fn shade(share: f64) -> RGBColor {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 255")]
    let mix = |from: f64, to: f64| (from + (to - from) * share).round() as u8;
    RGBColor(mix(205.0, 0.0), mix(225.0, 50.0), mix(245.0, 120.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(cells: &[(u32, u32, u64, u64)]) -> Matrix {
        Matrix { hosts: 128, group: 2, cells: cells.to_vec() }
    }

    #[test]
    fn more_bytes_are_darker_and_the_fewest_are_seen() {
        let dark = |bytes| colour(bytes, (100, 10_000)).0;
        assert!(dark(100) < 255 && dark(1000) < dark(100) && dark(10_000) < dark(1000));
        assert_eq!(colour(5, (5, 5)), shade(1.0));
    }

    #[test]
    fn cells_are_listed_by_their_first_hosts() {
        let lines = matrix(&[(0, 1, 10, 2), (63, 5, 20, 1)]).lines("size 1MiB");
        assert_eq!(lines[1], ["size 1MiB", "126", "10", "2", "20", "1"]);
    }

    #[test]
    fn equal_neighbours_are_one_rectangle() {
        let draw = |cells: &[(u32, u32, u64, u64)]| {
            let draw = |area: &Area<'_>| matrix(cells).draw(area, "");
            super::super::picture((super::super::WIDTH, HEIGHT), draw).unwrap()
        };
        let count = |picture: String| picture.matches("<rect").count();
        let one = count(draw(&[(0, 0, 10, 1)]));
        assert_eq!(count(draw(&[(0, 0, 10, 1), (0, 1, 10, 1), (0, 2, 10, 1)])), one);
        assert_eq!(count(draw(&[(0, 0, 10, 1), (0, 2, 10, 1)])), one + 1);
    }
}
