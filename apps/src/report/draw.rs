//! From curves to SVG. Panels of a row stand side by side, rows below each other.
//!
//! Equal panels give equal bytes.

use experiments::scenario::PlotKind;
use plotters::element::Text;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::legend::{self, Area, Drawn, FONT, Look};
use super::panel::{Curve, Panel};
use crate::failure::Failure;

/// The picture: rows of panels under a title, a legend to the right of each row.
///
/// # Errors
/// When the drawing library fails, which it has no reason to.
pub(super) fn svg(title: &str, rows: &[Vec<Panel>]) -> Result<String, Failure> {
    let across = rows.iter().map(|row| columns(row.len())).max().unwrap_or(1);
    let width = if across == 1 { ALONE } else { PANEL.0 };
    let legends: Vec<Vec<&str>> = rows.iter().map(|row| legend::names(row)).collect();
    let aside = legends.iter().map(|names| legend::width(names)).max().unwrap_or(0);
    let heights: Vec<u32> = rows.iter().zip(&legends).map(|(r, names)| height(r, names)).collect();
    let size_x = pixels(across, width) + aside;
    let title = wrapped(title, size_x);
    let top = pixels(title.len(), TITLE_HEIGHT);
    let size = (size_x, heights.iter().sum::<u32>().max(PANEL.1) + top);
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        let draw = || {
            area.fill(&WHITE)?;
            let (head, mut rest) = area.split_vertically(top);
            for (at, line) in title.iter().enumerate() {
                let place =
                    (legend::place(size_x / 2), legend::place(pixels(at, TITLE_HEIGHT) + 10));
                let style = (FONT, 17).into_text_style(&head).pos(MIDDLE);
                head.draw(&Text::new(line.as_str(), place, style))?;
            }
            for ((panels, names), height) in rows.iter().zip(&legends).zip(&heights) {
                let (place, below) = rest.split_vertically(*height);
                rest = below;
                let (place, strip) = place.split_horizontally(size_x - aside);
                row(&place, panels, names, across)?;
                legend::draw(&strip, names)?;
            }
            area.present()
        };
        draw().map_err(|error: DrawingAreaErrorKind<_>| {
            Failure::Unfit(format!("the picture cannot be drawn: {error}"))
        })?;
    }
    Ok(text)
}

/// How many of `panels` stand side by side: three, but two and two of four.
fn columns(panels: usize) -> usize {
    match panels {
        0 | 1 => 1,
        2 | 4 => 2,
        _ => 3,
    }
}

/// Pixels of a panel among others.
const PANEL: (u32, u32) = (440, 300);
/// Pixels across of one that has none beside it.
const ALONE: u32 = 640;
const TITLE_HEIGHT: u32 = 26;
/// Pixels that a letter of a title takes on average.
const TITLE_LETTER: u32 = 9;
const MIDDLE: Pos = Pos { h_pos: HPos::Center, v_pos: VPos::Top };

fn pixels(count: usize, each: u32) -> u32 {
    u32::try_from(count).unwrap_or(1).saturating_mul(each)
}

/// The height of a row: of its lines of panels, and of its legend where that is higher.
fn height(row: &[Panel], names: &[&str]) -> u32 {
    pixels(row.len().div_ceil(columns(row.len())), PANEL.1).max(legend::height(names))
}

/// The lines of a title in a picture of that width.
fn wrapped(title: &str, width: u32) -> Vec<String> {
    let letters = usize::try_from(width / TITLE_LETTER).unwrap_or(usize::MAX);
    let mut lines = vec![String::new()];
    for word in title.split_whitespace() {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].len() + word.len() >= letters {
            lines.push(word.to_owned());
            continue;
        }
        let space = if lines[last].is_empty() { "" } else { " " };
        lines[last] = format!("{}{space}{word}", lines[last]);
    }
    lines
}

/// The panels of a row, in lines below each other.
fn row(area: &Area<'_>, panels: &[Panel], names: &[&str], across: usize) -> Drawn {
    let columns = columns(panels.len());
    let lines: Vec<&[Panel]> = panels.chunks(columns).collect();
    let places = area.split_evenly((lines.len().max(1), 1));
    for (line, place) in lines.iter().zip(places) {
        let places = place.split_evenly((1, if panels.len() == 1 { 1 } else { across }));
        for (panel, place) in line.iter().zip(places) {
            chart(&place, panel, names)?;
        }
    }
    Ok(())
}

fn chart(area: &Area<'_>, panel: &Panel, names: &[&str]) -> Drawn {
    let ((x_from, x_to), (y_from, y_to)) = bounds(panel);
    let mut builder = ChartBuilder::on(area);
    builder.margin(8).x_label_area_size(38).y_label_area_size(62);
    if !panel.title.is_empty() {
        builder.caption(&panel.title, (FONT, 15));
    }
    let mut chart = builder.build_cartesian_2d(x_from..x_to, y_from..y_to)?;
    let categories = &panel.categories;
    let (x_words, x_unit) = axis(&panel.x, x_to);
    let (y_words, y_unit) = axis(&panel.y, y_to);
    let x_label = |x: &f64| match categories.is_empty() {
        true => short(*x / x_unit),
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
        .y_label_formatter(&|y| short(*y / y_unit))
        .label_style((FONT, 12))
        .x_desc(x_words)
        .y_desc(y_words)
        .draw()?;
    for (at, curve) in panel.curves.iter().enumerate() {
        let look = Look::of(names.iter().position(|name| *name == curve.name).unwrap_or(at));
        let points = || curve.points.iter().copied();
        match panel.kind {
            PlotKind::Violin if curve.points.is_empty() => {}
            PlotKind::Violin => {
                let outline = violin(curve, at);
                chart.draw_series([Polygon::new(outline, look.color.mix(0.6).filled())])?;
                chart.draw_series(marks(curve, at))?;
            }
            PlotKind::Bars => {
                let style = look.fill();
                chart.draw_series(bars(curve, at, panel.curves.len(), (y_from, style)))?;
            }
            _ => {
                match look.dash {
                    None => _ = chart.draw_series(LineSeries::new(points(), look.stroke()))?,
                    Some((dash, gap)) => {
                        let dashed = DashedLineSeries::new(points(), dash, gap, look.stroke());
                        _ = chart.draw_series(dashed)?;
                    }
                }
                if panel.kind == PlotKind::Lines {
                    chart.draw_series(points().map(|at| Circle::new(at, 3, look.fill())))?;
                }
            }
        }
    }
    Ok(())
}

/// The bars of one curve, beside those of the others, from the foot of the axis.
fn bars(
    curve: &Curve,
    at: usize,
    of: usize,
    (foot, style): (f64, ShapeStyle),
) -> impl Iterator<Item = Rectangle<(f64, f64)>> {
    #[expect(clippy::cast_precision_loss, reason = "few curves")]
    let (at, width) = (at as f64, 0.8 / of.max(1) as f64);
    curve.points.iter().map(move |(x, y)| {
        let left = x - 0.4 + at * width;
        Rectangle::new([(left, foot), (left + width, *y)], style)
    })
}

/// The outline of a distribution around the place `at`: as wide at each time as flows are dense
/// there, and each violin as wide as the others where it is widest.
fn violin(curve: &Curve, at: usize) -> Vec<(f64, f64)> {
    let times: Vec<f64> = curve.points.iter().map(|point| point.0).collect();
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Vec::new() };
    let (first, last) = (*first, *last);
    // Wide enough that single flows far out are seen, narrow against the whole.
    let reach = (last - first).max(0.02 * last) / 12.0;
    #[expect(clippy::cast_precision_loss, reason = "few steps")]
    let heights = (0..=OUTLINE)
        .map(|step| first - reach + (last - first + 2.0 * reach) * (step as f64 / OUTLINE as f64));
    // Epanechnikov's kernel: no function that differs from one machine to the next.
    let dense = |height: f64| -> f64 {
        let near = times.iter().map(|time| (time - height) / reach);
        near.map(|far| (1.0 - far * far).max(0.0)).sum()
    };
    let shape: Vec<(f64, f64)> = heights.map(|height| (dense(height), height)).collect();
    let widest = shape.iter().fold(f64::MIN_POSITIVE, |most, (dense, _)| most.max(*dense));
    #[expect(clippy::cast_precision_loss, reason = "few curves")]
    let middle = at as f64;
    let side = |sign: f64| {
        shape.iter().map(move |(dense, height)| (middle + sign * 0.4 * dense / widest, *height))
    };
    side(-1.0).chain(side(1.0).rev()).collect()
}

/// Steps of a violin's outline.
const OUTLINE: usize = 60;

/// Short lines across a violin at the median and the longest.
fn marks(curve: &Curve, at: usize) -> impl Iterator<Item = PathElement<(f64, f64)>> {
    #[expect(clippy::cast_precision_loss, reason = "few curves")]
    let middle = at as f64;
    let median = curve.points.iter().find(|point| point.1 >= 0.5);
    let both = [(median, 0.16), (curve.points.last(), 0.08)];
    both.into_iter().filter_map(move |(point, half)| {
        let time = point?.0;
        Some(PathElement::new(
            [(middle - half, time), (middle + half, time)],
            BLACK.stroke_width(2),
        ))
    })
}

/// The ranges of the axes: all points, y from zero.
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
    let (y_least, y_most) = match panel.kind {
        PlotKind::Violin => fold(|point| point.0),
        _ => fold(|point| point.1),
    };
    let y_to = y_most.max(0.0);
    let (x_from, x_to) = if x_from > x_to { (0.0, 1.0) } else { (x_from, x_to) };
    let x_to = if x_to > x_from { x_to } else { x_from + 1.0 };
    // Room for what lies at the top.
    let room = if panel.kind == PlotKind::Cdf { 1.02 } else { 1.08 };
    let (y_from, y_to) = match panel.kind {
        // Values that are nearly equal stay distinct; bars would lie.
        // Without any point the least is more than the most.
        PlotKind::Lines if (0.0..=y_to).contains(&y_least) && y_to < 1.5 * y_least => {
            let span = (y_to - y_least).max(0.01 * y_to);
            (y_least - 0.1 * span, y_to + 0.1 * span)
        }
        // A run at its bound has the slowdown 1: less is not possible.
        _ if panel.y.contains("slowdown") && y_to > 1.0 && y_least >= 1.0 => {
            (1.0, 1.0 + (y_to - 1.0) * room)
        }
        _ if y_to > 0.0 => (0.0, y_to * room),
        _ => (0.0, 1.0),
    };
    ((x_from, x_to), (y_from, y_to))
}

/// The title of an axis that reaches to `most`, and the number that its unit stands for.
fn axis(name: &str, most: f64) -> (String, f64) {
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

/// The title of an axis, times in microseconds.
fn in_words(name: &str) -> &str {
    match name {
        "t_us" => "time, us",
        "fct_us" => "flow completion time, us",
        "fct_us.mean" => "mean flow completion time, us",
        "fct_us.p99" => "99th percentile of flow completion times, us",
        "fct_intra_us" => "completion time of flows inside, us",
        "fct_intra_us.mean" => "mean completion time of flows inside, us",
        "fct_intra_us.p99" => "99th percentile of flows inside, us",
        "fct_intra_us.p999" => "99.9th percentile of flows inside, us",
        "fct_inter_us" => "completion time of flows across, us",
        "fct_inter_us.mean" => "mean completion time of flows across, us",
        "fct_inter_us.p99" => "99th percentile of flows across, us",
        "fct_inter_us.p999" => "99.9th percentile of flows across, us",
        "fct_slowdown.mean" => "mean of completion times over those alone",
        "fct_slowdown.p99" => "99th percentile over the same flow alone",
        "fct_us.max" => "longest flow completion time, us",
        "completion_us" => "completion, us",
        "slowdown" => "completion / ideal",
        "goodput_gbps" => "goodput of all flows, Gbps",
        "arrivals.host_gbps" => "goodput of a host while flows arrive, Gbps",
        "arrivals.mice_us.p50" => "median delivery of flows up to 100 KB, us",
        "arrivals.mice_us.p99" => "99th percentile of flows up to 100 KB, us",
        "arrivals.short_us.p50" => "median delivery of flows below 2560 bytes, us",
        "arrivals.short_us.p99" => "99th percentile of flows below 2560 bytes, us",
        "scheduler.core_cells_max" => "most cells in a port of a Core",
        "scheduler.core_bytes_max" => "most bytes in a Core",
        "flow_gbps" => "goodput of a flow, Gbps",
        "flows_jain" => "Jain's index of the flows' goodput",
        "cwnd_bytes" => "window of a flow, bytes",
        "cwnd_sum_bytes" => "windows of up to 64 flows, bytes",
        "queue_max_bytes" => "longest switch queue, bytes",
        "queue_sum_bytes" => "all switch queues, bytes",
        "dci_queue_bytes" => "queue of a flow at the border, bytes",
        "dci_queue_sum_bytes" => "queues of up to 64 flows at the border, bytes",
        "dci_rate_gbps" => "rate of a flow's queue at the border, Gbps",
        "rate_gbps" => "rate of a flow's sender, Gbps",
        "trimmed" => "packets trimmed",
        "window" => "flows a host has active at a time",
        "size" => "size of a flow",
        other => other,
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
        _ => (value, ""),
    };
    let text = format!("{scaled:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

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
            let rows = [vec![panel(kind, &["a", "b"]); 5], vec![panel(kind, &[])]];
            let picture = svg("x & y", &rows).unwrap();
            assert_eq!(picture, svg("x & y", &rows).unwrap());
            for text in
                ["<svg", "reps", "&lt;spray&gt;", "completion / ideal", "x &amp; y", "</svg>"]
            {
                assert!(picture.contains(text), "{kind:?}: no {text}");
            }
        }
    }

    #[test]
    fn a_violin_is_widest_where_most_flows_are_and_reaches_all_of_them() {
        let times = [(10.0, 0.0), (11.0, 0.25), (11.0, 0.5), (12.0, 0.75), (30.0, 1.0)];
        let curve = Curve { name: "uno".to_owned(), points: times.to_vec() };
        let points = violin(&curve, 2);
        let (left, right) = points.split_at(points.len() / 2);
        let widest = left.iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        assert!((10.5..11.5).contains(&widest.1) && (widest.0 - 1.6).abs() < 1e-9, "{widest:?}");
        assert!(right.iter().all(|point| (2.0..=2.4).contains(&point.0)), "{right:?}");
        // A single flow far out is seen; between it and the others there is none.
        let width = |from: f64, to: f64| {
            let there = right.iter().filter(|point| (from..to).contains(&point.1));
            there.fold(0.0, |most: f64, point| most.max(point.0 - 2.0))
        };
        assert!(width(29.0, 31.0) > 0.05 && width(15.0, 27.0) == 0.0, "{points:?}");
        assert_eq!(marks(&curve, 2).count(), 2);
        assert_eq!(violin(&Curve { name: String::new(), points: Vec::new() }, 0), []);
    }

    #[test]
    fn nothing_to_draw_is_drawn_as_nothing() {
        for kind in [PlotKind::Cdf, PlotKind::Bars, PlotKind::Lines, PlotKind::Violin] {
            let empty = Panel { curves: Vec::new(), ..panel(kind, &["a", "b"]) };
            let (x, y) = bounds(&empty);
            assert!(x.0 < x.1 && y == (0.0, 1.0), "{kind:?}: {x:?} {y:?}");
            let gap = Curve { name: "a".to_owned(), points: Vec::new() };
            for curves in [Vec::new(), vec![gap]] {
                let panel = Panel { curves, ..empty.clone() };
                assert!(svg("", &[vec![panel]]).unwrap().contains("</svg>"));
            }
        }
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
