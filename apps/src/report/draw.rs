//! From curves to SVG. Panels of a row stand side by side, rows below each other.
//!
//! The same panels give the same bytes. Colours are those of Okabe and Ito, which people who see
//! fewer colours tell apart as well.

use plotters::coord::Shift;
use plotters::prelude::*;
use testbed::scenario::PlotKind;

use super::panel::{Curve, Panel};
use crate::failure::Failure;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>>;

/// The picture: rows of panels under a title.
///
/// # Errors
/// When the drawing library fails, which it has no reason to.
pub(super) fn svg(title: &str, rows: &[Vec<Panel>]) -> Result<String, Failure> {
    let columns = rows.iter().map(|row| row.len().clamp(1, COLUMNS_MAX)).max().unwrap_or(1);
    let heights: Vec<usize> = rows.iter().map(|row| row.len().div_ceil(COLUMNS_MAX)).collect();
    let lines = heights.iter().sum::<usize>().max(1);
    let pixels = |count: usize, each: u32| u32::try_from(count).unwrap_or(1).saturating_mul(each);
    let size = (pixels(columns, PANEL.0), pixels(lines, PANEL.1) + TITLE_HEIGHT);
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&area, title, rows, lines)
            .map_err(|error| Failure::Unfit(format!("the picture cannot be drawn: {error}")))?;
    }
    Ok(text)
}

const PANEL: (u32, u32) = (440, 300);
const COLUMNS_MAX: usize = 3;
const TITLE_HEIGHT: u32 = 34;
const FONT: &str = "sans-serif";

fn draw(area: &Area<'_>, title: &str, rows: &[Vec<Panel>], lines: usize) -> Drawn {
    area.fill(&WHITE)?;
    let area = area.titled(title, (FONT, 17))?;
    let mut places = area.split_evenly((lines, 1)).into_iter();
    for line in rows.iter().flat_map(|row| row.chunks(COLUMNS_MAX)) {
        let Some(place) = places.next() else { break };
        for (panel, place) in line.iter().zip(place.split_evenly((1, line.len()))) {
            chart(&place, panel)?;
        }
    }
    area.present()
}

fn chart(area: &Area<'_>, panel: &Panel) -> Drawn {
    let ((x_from, x_to), (y_from, y_to)) = bounds(panel);
    let mut builder = ChartBuilder::on(area);
    builder.margin(8).x_label_area_size(38).y_label_area_size(62);
    if !panel.title.is_empty() {
        builder.caption(&panel.title, (FONT, 15));
    }
    let mut chart = builder.build_cartesian_2d(x_from..x_to, y_from..y_to)?;
    let categories = &panel.categories;
    let x_label = |x: &f64| match categories.is_empty() {
        true => short(*x),
        false => category(categories, *x),
    };
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .disable_x_mesh()
        .x_labels(if categories.is_empty() { 6 } else { categories.len() + 1 })
        .y_labels(6)
        .x_label_formatter(&x_label)
        .y_label_formatter(&|y| short(*y))
        .label_style((FONT, 12))
        .x_desc(panel.x.as_str())
        .y_desc(panel.y.as_str())
        .draw()?;
    for (at, curve) in panel.curves.iter().enumerate() {
        let color = COLOURS[at % COLOURS.len()];
        let drawn = match panel.kind {
            PlotKind::Bars => {
                chart.draw_series(bars(curve, at, panel.curves.len(), color.filled()))?
            }
            _ => chart.draw_series(LineSeries::new(curve.points.clone(), line(color, at)))?,
        };
        if !curve.name.is_empty() {
            drawn.label(&curve.name).legend(move |(x, y)| {
                Rectangle::new([(x, y - 3), (x + 14, y + 3)], color.filled())
            });
        }
        if panel.kind == PlotKind::Lines {
            let dot = |point: &(f64, f64)| Circle::new(*point, 3, color.filled());
            chart.draw_series(curve.points.iter().map(dot))?;
        }
    }
    if panel.curves.iter().any(|curve| !curve.name.is_empty()) {
        let corner = match panel.kind {
            PlotKind::Cdf => SeriesLabelPosition::LowerRight,
            PlotKind::Bars | PlotKind::Lines => SeriesLabelPosition::UpperLeft,
            PlotKind::Series => SeriesLabelPosition::UpperRight,
        };
        chart
            .configure_series_labels()
            .position(corner)
            .label_font((FONT, 12))
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.25))
            .draw()?;
    }
    Ok(())
}

/// Later curves are thinner, so that one that lies on another does not hide it.
fn line(color: RGBColor, at: usize) -> ShapeStyle {
    color.stroke_width(if at == 0 { 3 } else { 2 })
}

/// The bars of one curve, beside those of the others.
fn bars(
    curve: &Curve,
    at: usize,
    of: usize,
    style: ShapeStyle,
) -> impl Iterator<Item = Rectangle<(f64, f64)>> {
    #[expect(clippy::cast_precision_loss, reason = "few curves")]
    let (at, width) = (at as f64, 0.8 / of.max(1) as f64);
    curve.points.iter().map(move |(x, y)| {
        let left = x - 0.4 + at * width;
        Rectangle::new([(left, 0.0), (left + width, *y)], style)
    })
}

/// What the axes show: all points, y from zero.
fn bounds(panel: &Panel) -> ((f64, f64), (f64, f64)) {
    let points = || panel.curves.iter().flat_map(|curve| &curve.points);
    let fold = |value: fn(&(f64, f64)) -> f64| {
        points()
            .map(value)
            .filter(|v| v.is_finite())
            .fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)))
    };
    #[expect(clippy::cast_precision_loss, reason = "few categories")]
    let (x_from, x_to) = match panel.categories.len() {
        0 => fold(|point| point.0),
        count => (-0.5, count as f64 - 0.5),
    };
    let y_to = fold(|point| point.1).1.max(0.0);
    let (x_from, x_to) = if x_from > x_to { (0.0, 1.0) } else { (x_from, x_to) };
    let x_to = if x_to > x_from { x_to } else { x_from + 1.0 };
    // Room for what lies at the top, and for a legend above bars.
    let room = match panel.kind {
        PlotKind::Cdf => 1.02,
        PlotKind::Series => 1.1,
        PlotKind::Bars | PlotKind::Lines => 1.25,
    };
    ((x_from, x_to), (0.0, if y_to > 0.0 { y_to * room } else { 1.0 }))
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
        _ => (value, ""),
    };
    let text = format!("{scaled:.2}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(180, 170, 20),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(kind: PlotKind, categories: &[&str]) -> Panel {
        Panel {
            kind,
            title: "1 MiB".to_owned(),
            x: "size".to_owned(),
            categories: categories.iter().map(|name| (*name).to_owned()).collect(),
            y: "slowdown".to_owned(),
            curves: ["reps", "<spray>"]
                .map(|name| Curve { name: name.to_owned(), points: vec![(0.0, 1.5), (1.0, 2.0)] })
                .into(),
        }
    }

    #[test]
    fn the_same_panels_give_the_same_picture_with_every_name_in_it() {
        for kind in [PlotKind::Cdf, PlotKind::Bars, PlotKind::Lines, PlotKind::Series] {
            let rows = [vec![panel(kind, &["a", "b"]); 4], vec![panel(kind, &[])]];
            let picture = svg("x & y", &rows).unwrap();
            assert_eq!(picture, svg("x & y", &rows).unwrap());
            for text in ["<svg", "reps", "&lt;spray&gt;", "slowdown", "x &amp; y", "</svg>"] {
                assert!(picture.contains(text), "{kind:?}: no {text}");
            }
        }
    }

    #[test]
    fn nothing_to_draw_is_drawn_as_nothing() {
        let empty = Panel { curves: Vec::new(), ..panel(PlotKind::Series, &[]) };
        assert!(svg("", &[vec![empty]]).unwrap().contains("</svg>"));
        assert!(svg("", &[]).is_ok());
    }

    #[test]
    fn numbers_on_axes_are_short() {
        let all = [0.0, 0.25, 1234.0, 10_000.0, 2.5e6, 3e9].map(short);
        assert_eq!(all, ["0", "0.25", "1234", "10k", "2.5M", "3G"]);
    }
}
