//! The axes of a panel: ranges, ticks, logarithms, titles, numbers on them.
//!
//! An axis has a scale: its numbers as they are, or their logarithms. [`Axis::at`] gives the place
//! of a value in that scale; the drawing library sees places alone.

use std::ops::Range;

use experiments::scenario::PlotKind;
use plotters::coord::ranged1d::{BoldPoints, DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

use super::super::measures::in_words;
use super::super::panel::Panel;

/// Which axes are logarithmic, of panels where they can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Scales {
    /// The axes along x.
    pub(crate) x: bool,
    /// The axes along y.
    pub(crate) y: bool,
}

/// One axis.
pub(super) struct Axis {
    /// Words and unit of the axis.
    pub(super) title: String,
    is_log: bool,
    /// Both ends, as places.
    range: (f64, f64),
    /// The value that stands for 1 of the unit.
    unit: f64,
    /// Categories of the axis; empty where it has numbers.
    categories: Vec<String>,
}

/// Ticks of an axis of numbers, about.
const TICKS: usize = 6;
/// A logarithm's least value: smaller ones lie at its place.
const LEAST: f64 = 1e-9;

impl Axis {
    fn new(name: &str, (from, to): (f64, f64), is_log: bool) -> Self {
        let (title, unit) = titled(name, to);
        let mut axis = Self { title, is_log, range: (0.0, 0.0), unit, categories: Vec::new() };
        axis.range = (axis.at(from), axis.at(to));
        if axis.range.1 <= axis.range.0 {
            axis.range.1 = axis.range.0 + 1.0;
        }
        axis
    }

    /// The place of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        if self.is_log { libm::log10(value.max(LEAST)) } else { value }
    }

    /// The value at a place.
    fn value(&self, place: f64) -> f64 {
        if self.is_log { libm::pow(10.0, place) } else { place }
    }

    /// The place of the axis's foot.
    pub(super) fn foot(&self) -> f64 {
        self.range.0
    }

    /// The length of the axis, in places.
    pub(super) fn span(&self) -> f64 {
        self.range.1 - self.range.0
    }

    /// The axis as the drawing library has it, with its ticks.
    pub(super) fn coordinates(&self) -> OwnTicks {
        OwnTicks { all: RangedCoordf64::from(self.range.0..self.range.1), ticks: self.ticks() }
    }

    /// The places that have a label.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let (from, to) = self.range;
        #[expect(clippy::cast_precision_loss, reason = "few categories")]
        if !self.categories.is_empty() {
            return (0..self.categories.len()).map(|at| at as f64).collect();
        }
        if !self.is_log {
            return RangedCoordf64::from(from..to).key_points(BoldPoints(TICKS));
        }
        let steps = decades(from, to);
        if steps.len() > 1 {
            return steps;
        }
        // Less than a step of a decade: round numbers at their places.
        let values = RangedCoordf64::from(self.value(from)..self.value(to));
        values.key_points(BoldPoints(4)).into_iter().map(|value| self.at(value)).collect()
    }

    /// The text at a place.
    pub(super) fn label(&self, place: f64) -> String {
        match self.categories.is_empty() {
            true => short(self.value(place) / self.unit),
            false => shortened(category(&self.categories, place), CATEGORY_LETTERS),
        }
    }

    /// How far a place is along the axis, 0 to 1.
    pub(super) fn share(&self, place: f64) -> f64 {
        (place - self.range.0) / self.span()
    }

    /// How many categories the axis has.
    pub(super) fn count(&self) -> usize {
        self.categories.len()
    }

    /// How many letters the longest category has in a label.
    pub(super) fn letters(&self) -> usize {
        let letters = self.categories.iter().map(|name| name.chars().count());
        letters.max().unwrap_or(0).min(CATEGORY_LETTERS)
    }
}

/// The places of an axis, with ticks of its own at them.
pub(super) struct OwnTicks {
    all: RangedCoordf64,
    ticks: Vec<f64>,
}

impl Ranged for OwnTicks {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        self.all.map(place, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.all.range()
    }
}

/// The most letters of a category beside an axis.
const CATEGORY_LETTERS: usize = 24;

/// The axes of a panel.
pub(super) fn axes(panel: &Panel, scales: Scales) -> (Axis, Axis) {
    let can = scalable(panel);
    let by_log = panel.kind == PlotKind::Sizes;
    let is_log = Scales { x: can.x && (scales.x || by_log), y: can.y && scales.y };
    let (x, (mut y_from, y_to)) = bounds(panel);
    if is_log.y {
        let least = ys(panel).filter(|y| y.is_finite()).fold(f64::MAX, f64::min);
        y_from = least / 1.1;
    }
    let mut x = Axis::new(&panel.x, x, is_log.x);
    x.categories.clone_from(&panel.categories);
    let mut y = Axis::new(&panel.y, (y_from, y_to), is_log.y);
    if panel.curves.iter().any(|curve| !curve.half_widths.is_empty()) {
        y.title += ": mean, 95 %";
    }
    (x, y)
}

/// Which axes of a panel can be logarithmic: those of numbers above 0. Bars stand on a foot, which
/// a logarithm has not.
pub(crate) fn scalable(panel: &Panel) -> Scales {
    let points = || panel.curves.iter().flat_map(|curve| &curve.points);
    let some = points().next().is_some();
    let has_numbers = panel.categories.is_empty() && panel.kind != PlotKind::Violin;
    let has_no_foot = !matches!(panel.kind, PlotKind::Bars | PlotKind::Cdf);
    Scales {
        x: some && has_numbers && points().all(|point| point.0 > 0.0),
        y: some && has_no_foot && ys(panel).all(|y| y > 0.0),
    }
}

/// The values along y, with the ends of their intervals.
fn ys(panel: &Panel) -> impl Iterator<Item = f64> + '_ {
    let violin = panel.kind == PlotKind::Violin;
    panel.curves.iter().flat_map(move |curve| {
        let spans = curve.half_widths.iter().copied().chain(std::iter::repeat(0.0));
        curve
            .points
            .iter()
            .zip(spans)
            .flat_map(move |((x, y), half)| if violin { [*x, *x] } else { [y - half, y + half] })
    })
}

/// The ranges of the axes: all points, y from zero.
fn bounds(panel: &Panel) -> ((f64, f64), (f64, f64)) {
    let fold = |values: &mut dyn Iterator<Item = f64>| {
        values
            .filter(|v| v.is_finite())
            .fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)))
    };
    let points = || panel.curves.iter().flat_map(|curve| &curve.points);
    #[expect(clippy::cast_precision_loss, reason = "few categories")]
    let (x_from, x_to) = match panel.categories.len() {
        0 => fold(&mut points().map(|point| point.0)),
        count => (-0.5, count as f64 - 0.5),
    };
    let (y_least, y_most) = fold(&mut ys(panel));
    let y_to = y_most.max(0.0);
    let (x_from, x_to) = match x_from.total_cmp(&x_to) {
        std::cmp::Ordering::Less => (x_from, x_to),
        // A single value stands in the middle.
        std::cmp::Ordering::Equal => (0.9 * x_from, if x_to > 0.0 { 1.1 * x_to } else { 1.0 }),
        std::cmp::Ordering::Greater => (0.0, 1.0),
    };
    let place = |point: &(f64, f64)| if panel.kind == PlotKind::Violin { point.0 } else { point.1 };
    let none_below_one = || points().all(|point| place(point) >= 1.0);
    // Room for what lies at the top.
    let room = if panel.kind == PlotKind::Cdf { 1.02 } else { 1.08 };
    let (y_from, y_to) = match panel.kind {
        // Values that are nearly equal stay distinct; bars would lie.
        // Without any point the least is more than the most.
        PlotKind::Lines if (0.0..=y_to).contains(&y_least) && y_to < 1.5 * y_least => {
            let span = (y_to - y_least).max(0.01 * y_to);
            (y_least - 0.1 * span, y_to + 0.1 * span)
        }
        // A run at its bound has the slowdown 1: less is not possible. Runs within a hundredth of
        // their bounds look alike.
        _ if panel.y.contains("slowdown") && y_to > 1.0 && none_below_one() => {
            (1.0, 1.0 + (y_to - 1.0).max(0.01) * room)
        }
        // Where it ends below 1, the rest did not finish.
        PlotKind::Cdf => (0.0, room),
        _ if y_to > 0.0 => (0.0, y_to * room),
        _ => (0.0, 1.0),
    };
    ((x_from, x_to), (y_from, y_to))
}

/// 1, 2 and 5 of each power of ten between two logarithms, as places; the powers alone where they
/// are many.
fn decades(from: f64, to: f64) -> Vec<f64> {
    let parts: &[f64] = if to - from > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let every = ((to - from) / 8.0).ceil().max(1.0);
    let (mut all, mut power) = (Vec::new(), (from / every).floor() * every);
    while power <= to && all.len() < 40 {
        let places = parts.iter().map(|part| power + libm::log10(*part));
        all.extend(places.filter(|place| (from..=to).contains(place)));
        power += every;
    }
    all
}

/// The title of an axis that reaches to `most`, and the number that its unit stands for.
fn titled(name: &str, most: f64) -> (String, f64) {
    let words = in_words(name);
    let (unit, value) = match most {
        most if most >= 1e7 => ("s", 1e6),
        most if most >= 1e4 => ("ms", 1e3),
        _ => ("us", 1.0),
    };
    match words.strip_suffix(", us") {
        Some(words) => (format!("{words}, {unit}"), value),
        None => (words.to_owned(), 1.0),
    }
}

/// The category at `x`; nothing between two.
fn category(categories: &[String], x: f64) -> String {
    let nearest = x.round();
    if (x - nearest).abs() > 0.01 || nearest < 0.0 {
        return String::new();
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 or more")]
    let at = nearest as usize;
    categories.get(at).cloned().unwrap_or_default()
}

/// A number for an axis: 250, 1.5, 2.5M.
fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        v if v > 0.0 && v < 1e-3 => return format!("{value:.0e}"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A text of at most `most` letters, cut in its middle: names often differ in their ends.
pub(super) fn shortened(text: String, most: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= most {
        return text;
    }
    let head = most.saturating_sub(1) / 2;
    let tail = most.saturating_sub(1) - head;
    let (start, end) = (&letters[..head], &letters[letters.len() - tail..]);
    start.iter().chain(&['…']).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::panel::Curve;
    use super::*;

    fn panel(kind: PlotKind, points: &[(f64, f64)]) -> Panel {
        let curve = Curve::new("a".to_owned(), points.to_vec());
        Panel {
            kind,
            title: String::new(),
            x: "size_bytes".to_owned(),
            categories: Vec::new(),
            y: "fct_us".to_owned(),
            curves: vec![curve],
        }
    }

    const BOTH: Scales = Scales { x: true, y: true };

    #[test]
    fn logarithmic_axes_have_ticks_at_round_numbers() {
        let (x, y) = axes(&panel(PlotKind::Series, &[(10.0, 1.0), (1e5, 90.0)]), BOTH);
        let labels = |axis: &Axis| -> Vec<String> {
            axis.ticks().into_iter().map(|place| axis.label(place)).collect()
        };
        assert_eq!(labels(&x), ["10", "100", "1000", "10k", "100k"]);
        assert_eq!(labels(&y), ["1", "2", "5", "10", "20", "50"]);
        assert_eq!((x.at(1000.0), x.foot()), (3.0, 1.0));
        let (x, _) = axes(&panel(PlotKind::Series, &[(300.0, 1.0), (420.0, 2.0)]), BOTH);
        assert!(labels(&x).len() > 1, "{:?}", labels(&x));
    }

    #[test]
    fn only_numbers_above_zero_have_logarithms() {
        let can = |kind, points: &[(f64, f64)]| scalable(&panel(kind, points));
        let above = [(1.0, 2.0), (3.0, 4.0)];
        assert_eq!(can(PlotKind::Series, &above), BOTH);
        assert_eq!(can(PlotKind::Cdf, &above), Scales { x: true, y: false });
        assert_eq!(can(PlotKind::Series, &[(0.0, 2.0)]), Scales { x: false, y: true });
        assert_eq!(can(PlotKind::Series, &[]), Scales::default());
        // The interval of a mean can reach below 0.
        let mut bars = panel(PlotKind::Lines, &above);
        bars.curves[0].half_widths = vec![2.5, 0.0];
        assert_eq!(scalable(&bars), Scales { x: true, y: false });
    }

    #[test]
    fn a_slowdown_begins_at_one_and_a_single_value_stands_in_the_middle() {
        let mut bars = panel(PlotKind::Bars, &[(0.0, 1.5)]);
        bars.y = "slowdown".to_owned();
        assert_eq!(bounds(&bars).1.0, 1.0);
        bars.curves[0].points[0].1 = 1.0002;
        assert!(bounds(&bars).1.1 > 1.01, "what differs by little looks alike");
        let one = bounds(&panel(PlotKind::Cdf, &[(50.0, 0.0), (50.0, 1.0)]));
        assert!(one.0.0 < 50.0 && one.0.1 > 50.0, "{one:?}");
    }

    #[test]
    fn intervals_lie_within_the_axis() {
        let mut bars = panel(PlotKind::Bars, &[(0.0, 10.0)]);
        bars.curves[0].half_widths = vec![5.0];
        assert!(bounds(&bars).1.1 > 15.0);
    }

    #[test]
    fn nothing_has_axes_from_zero_to_one() {
        let empty = Panel { curves: Vec::new(), ..panel(PlotKind::Series, &[]) };
        assert_eq!(bounds(&empty), ((0.0, 1.0), (0.0, 1.0)));
    }

    #[test]
    fn a_share_of_flows_is_of_all_of_them() {
        let half = panel(PlotKind::Cdf, &[(1.0, 0.0), (2.0, 0.5)]);
        assert!(bounds(&half).1.1 >= 1.0);
    }

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(shortened("abcdefgh".to_owned(), 5), "ab…gh");
        assert_eq!(shortened("abcde".to_owned(), 5), "abcde");
    }

    #[test]
    fn numbers_on_axes_are_short() {
        let all = [0.0, 0.25, 1234.0, 10_000.0, 2.5e6, 3e9].map(short);
        assert_eq!(all, ["0", "0.25", "1234", "10k", "2.5M", "3G"]);
    }
}
