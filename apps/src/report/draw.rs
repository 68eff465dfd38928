//! From curves to SVG. Panels of a row stand side by side, rows below each other.
//!
//! Equal panels give equal bytes.

mod axis;

use experiments::scenario::PlotKind;
use plotters::element::Text;
use plotters::prelude::*;
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(super) use axis::{Scales, scalable};

use super::legend::{self, Area, Drawn, FONT, Look, pixels, wrapped};
use super::panel::{Curve, Panel};
use crate::failure::Failure;
use axis::{Axis, axes, shortened};

/// A picture apart from its panels.
pub(super) struct PictureFrame<'a> {
    /// The title above all.
    pub(super) title: &'a str,
    /// Warnings for the reader, at the bottom, a line each.
    pub(super) notes: &'a [String],
    /// Which axes are logarithmic.
    pub(super) scales: Scales,
}

/// The picture: rows of panels under a title, a legend to the right of each row.
///
/// # Errors
/// When the drawing library fails, which it has no reason to.
pub(super) fn svg(frame: &PictureFrame<'_>, rows: &[Vec<Panel>]) -> Result<String, Failure> {
    let across = rows.iter().map(|row| columns(row.len())).max().unwrap_or(1);
    let width = if across == 1 { ALONE } else { PANEL.0 };
    let legends: Vec<Vec<&str>> = rows.iter().map(|row| legend::names(row)).collect();
    let aside = legends.iter().map(|names| legend::width(names)).max().unwrap_or(0);
    let height = |(row, names): (&Vec<Panel>, &Vec<&str>)| height(row, names, width);
    let heights: Vec<u32> = rows.iter().zip(&legends).map(height).collect();
    let size_x = pixels(across, width) + aside;
    let title = wrapped(frame.title, size_x / TITLE_LETTER);
    let top = pixels(title.len(), TITLE_HEIGHT);
    let panels = heights.iter().sum::<u32>().max(PANEL.1);
    let notes: Vec<String> =
        frame.notes.iter().flat_map(|note| wrapped(note, size_x / NOTE_LETTER)).collect();
    let size = (size_x, top + panels + pixels(notes.len(), NOTE_HEIGHT));
    picture(size, |area| {
        let (head, mut rest) = area.split_vertically(top);
        lines(&head, &title, (17, TITLE_HEIGHT), &BLACK)?;
        for ((panels, names), height) in rows.iter().zip(&legends).zip(&heights) {
            let (place, below) = rest.split_vertically(*height);
            rest = below;
            let (place, strip) = place.split_horizontally(size_x - aside);
            row(&place, panels, (names, frame.scales), across)?;
            legend::draw(&strip, names)?;
        }
        let (_, foot) = area.split_vertically(top + panels);
        lines(&foot, &notes, (13, NOTE_HEIGHT), &NOTE_COLOUR)
    })
}

/// A picture of that size in which `draw` has drawn.
///
/// # Errors
/// When the drawing library fails, which it has no reason to.
pub(super) fn picture(
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Drawn,
) -> Result<String, Failure> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        let drawn = area.fill(&WHITE).and_then(|()| draw(&area)).and_then(|()| area.present());
        drawn.map_err(|error| Failure::Unfit(format!("the picture cannot be drawn: {error}")))?;
    }
    Ok(text)
}

/// Writes lines below each other in the middle of `area`: pixels of a letter and of a line.
pub(super) fn lines(
    area: &Area<'_>,
    lines: &[String],
    (letter, height): (i32, u32),
    colour: &RGBColor,
) -> Drawn {
    let middle = legend::place(area.dim_in_pixel().0 / 2);
    for (at, line) in lines.iter().enumerate() {
        let place = (middle, legend::place(pixels(at, height)) + 10);
        let style = (FONT, letter).into_text_style(area).pos(MIDDLE).color(colour);
        area.draw(&Text::new(line.as_str(), place, style))?;
    }
    Ok(())
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
/// The width in pixels of a panel that has none beside it.
const ALONE: u32 = 640;
const TITLE_HEIGHT: u32 = 26;
/// Pixels that a letter of a title takes on average.
const TITLE_LETTER: u32 = 9;
const NOTE_HEIGHT: u32 = 20;
/// Pixels that a letter of a note takes on average.
const NOTE_LETTER: u32 = 7;
const NOTE_COLOUR: RGBColor = RGBColor(170, 30, 0);
/// Half the line across an end of an interval, in places of categories, and as a share of an axis
/// of numbers.
const END: f64 = 0.06;
const END_SHARE: f64 = 0.01;
/// Pixels around a chart, left of its axis along y, and below its axis along x.
const MARGIN: u32 = 8;
const LEFT: u32 = 62;
const BELOW: u32 = 38;
/// Pixels that a letter beside an axis takes on average.
const LABEL_LETTER: u32 = 7;
const MIDDLE: Pos = Pos { h_pos: HPos::Center, v_pos: VPos::Top };

/// The height of a row: of its lines of panels, and of its legend where that is higher.
fn height(row: &[Panel], names: &[&str], width: u32) -> u32 {
    let standing = row.iter().map(|panel| {
        let (x, _) = axes(panel, Scales::default());
        if lies(&x, width) { 0 } else { pixels(x.letters(), LABEL_LETTER) }
    });
    let each = PANEL.1 + standing.max().unwrap_or(0);
    pixels(row.len().div_ceil(columns(row.len())), each).max(legend::height(names))
}

/// Whether the labels of an axis along x fit side by side in a panel of that width; else they
/// stand upright.
fn lies(x: &Axis, width: u32) -> bool {
    let each = pixels(x.letters() + 1, LABEL_LETTER);
    pixels(x.count(), each) <= width.saturating_sub(LEFT + 2 * MARGIN)
}

/// The panels of a row, in lines below each other.
fn row(
    area: &Area<'_>,
    panels: &[Panel],
    (names, scales): (&[&str], Scales),
    across: usize,
) -> Drawn {
    let columns = columns(panels.len());
    let lines: Vec<&[Panel]> = panels.chunks(columns).collect();
    let places = area.split_evenly((lines.len().max(1), 1));
    for (line, place) in lines.iter().zip(places) {
        let places = place.split_evenly((1, if panels.len() == 1 { 1 } else { across }));
        for (panel, place) in line.iter().zip(places) {
            chart(&place, panel, names, scales)?;
        }
    }
    Ok(())
}

fn chart(area: &Area<'_>, panel: &Panel, names: &[&str], scales: Scales) -> Drawn {
    let (x, y) = axes(panel, scales);
    let (width, _) = area.dim_in_pixel();
    let lies = lies(&x, width);
    let below = if lies { 0 } else { pixels(x.letters(), LABEL_LETTER) };
    let mut builder = ChartBuilder::on(area);
    builder.margin(MARGIN).x_label_area_size(BELOW + below).y_label_area_size(LEFT);
    if !panel.title.is_empty() {
        let letters = usize::try_from(width / TITLE_LETTER).unwrap_or(usize::MAX);
        builder.caption(shortened(panel.title.clone(), letters), (FONT, 15));
    }
    let mut chart = builder.build_cartesian_2d(x.coordinates(), y.coordinates())?;
    chart
        .configure_mesh()
        .bold_line_style(BLACK.mix(0.12))
        .disable_x_mesh()
        .x_label_formatter(&|place| if lies { x.label(*place) } else { String::new() })
        .y_label_formatter(&|place| y.label(*place))
        .label_style((FONT, 12))
        .x_desc(x.title.as_str())
        .y_desc(y.title.as_str())
        .draw()?;
    if !lies {
        upright(area, &x, below)?;
    }
    for (at, curve) in panel.curves.iter().enumerate() {
        let look = Look::of(names.iter().position(|name| *name == curve.name).unwrap_or(at));
        let points = || curve.points.iter().map(|(px, py)| (x.at(*px), y.at(*py)));
        match panel.kind {
            PlotKind::Violin if curve.points.is_empty() => {}
            PlotKind::Violin => {
                let scaled = |(time, share): &(f64, f64)| (y.at(*time), *share);
                let points: Vec<(f64, f64)> = curve.points.iter().map(scaled).collect();
                let outline = violin(&points, at, y.span());
                chart.draw_series([Polygon::new(outline, look.color.mix(0.6).filled())])?;
                chart.draw_series(marks(&points, at))?;
            }
            PlotKind::Bars => {
                let of = panel.curves.len();
                chart.draw_series(bars(curve, (at, of), (y.foot(), look.fill())))?;
                let ends =
                    intervals(curve, (&x, &y), bar_offset(at, of), (0.2 / count(of)).min(END));
                chart.draw_series(ends.map(|ends| line(ends, BLACK)))?;
            }
            _ => {
                match look.dash {
                    None => _ = chart.draw_series(LineSeries::new(points(), look.stroke()))?,
                    Some((dash, gap)) => {
                        let dashed = DashedLineSeries::new(points(), dash, gap, look.stroke());
                        _ = chart.draw_series(dashed)?;
                    }
                }
                if matches!(panel.kind, PlotKind::Lines | PlotKind::Sizes) {
                    chart.draw_series(points().map(|at| Circle::new(at, 3, look.fill())))?;
                }
                // In the colour of their curve: those of several stand at one place.
                let half = if x.count() == 0 { END_SHARE * x.span() } else { END };
                let ends = intervals(curve, (&x, &y), 0.0, half);
                chart.draw_series(ends.map(|ends| line(ends, look.color)))?;
            }
        }
    }
    Ok(())
}

/// The labels of an axis along x, upright below it, where there is not room for them side by side.
fn upright(area: &Area<'_>, x: &Axis, below: u32) -> Drawn {
    let (width, height) = area.dim_in_pixel();
    let left = f64::from(MARGIN + LEFT);
    let across = f64::from(width) - left - f64::from(MARGIN);
    let top = legend::place(height - MARGIN - BELOW - below) + 6;
    for place in x.ticks() {
        #[expect(clippy::cast_possible_truncation, reason = "within the panel")]
        let at = (left + across * x.share(place)).round() as i32;
        let style = (FONT, 12).into_text_style(area).transform(FontTransform::Rotate90);
        let style = style.pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(x.label(place), (at, top), style))?;
    }
    Ok(())
}

/// The intervals around the points of a curve that are means, `aside` of their places along x.
/// Lines of twice `half` are across their ends. The intervals end at the foot of the axis.
fn intervals(
    curve: &Curve,
    (x, y): (&Axis, &Axis),
    aside: f64,
    half: f64,
) -> impl Iterator<Item = [(f64, f64); 2]> {
    let means = curve.points.iter().zip(&curve.half_widths).filter(|(_, half)| **half > 0.0);
    means.flat_map(move |((at, mean), width)| {
        let (x, low) = (x.at(*at) + aside, y.at(mean - width).max(y.foot()));
        let high = y.at(mean + width);
        let ends = [low, high].map(|end| [(x - half, end), (x + half, end)]);
        ends.into_iter().chain([[(x, low), (x, high)]])
    })
}

/// A line of an interval.
fn line(ends: [(f64, f64); 2], color: RGBColor) -> PathElement<(f64, f64)> {
    PathElement::new(ends, color.stroke_width(1))
}

#[expect(clippy::cast_precision_loss, reason = "few curves")]
fn count(of: usize) -> f64 {
    of.max(1) as f64
}

/// How far the middle of a bar is from that of its category.
#[expect(clippy::cast_precision_loss, reason = "few curves")]
fn bar_offset(at: usize, of: usize) -> f64 {
    0.8 * ((at as f64 + 0.5) / count(of) - 0.5)
}

/// The bars of one curve, beside those of the others, from the foot of the axis.
fn bars(
    curve: &Curve,
    (at, of): (usize, usize),
    (foot, style): (f64, ShapeStyle),
) -> impl Iterator<Item = Rectangle<(f64, f64)>> {
    let (offset, half) = (bar_offset(at, of), 0.4 / count(of));
    curve.points.iter().map(move |(x, y)| {
        let middle = x + offset;
        Rectangle::new([(middle - half, foot), (middle + half, *y)], style)
    })
}

/// The outline of a distribution around the place `at`: as wide at each time as flows are dense
/// there, and each violin as wide as the others where it is widest. `span` is the length of the
/// axis that times are on, in its scale.
fn violin(points: &[(f64, f64)], at: usize, span: f64) -> Vec<(f64, f64)> {
    let times: Vec<f64> = points.iter().map(|point| point.0).collect();
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Vec::new() };
    let (first, last) = (*first, *last);
    // Wide enough that single flows far out are seen, narrow against the whole; equal times are a
    // bar on the axis, wherever they are.
    let reach = (last - first).max(0.02 * span) / 12.0;
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
fn marks(points: &[(f64, f64)], at: usize) -> impl Iterator<Item = PathElement<(f64, f64)>> {
    #[expect(clippy::cast_precision_loss, reason = "few curves")]
    let middle = at as f64;
    let median = points.iter().find(|point| point.1 >= 0.5);
    let both = [(median, 0.16), (points.last(), 0.08)];
    both.into_iter().filter_map(move |(point, half)| {
        let time = point?.0;
        Some(PathElement::new(
            [(middle - half, time), (middle + half, time)],
            BLACK.stroke_width(2),
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PLAIN: PictureFrame<'_> =
        PictureFrame { title: "x & y", notes: &[], scales: Scales { x: false, y: false } };

    fn panel(kind: PlotKind, categories: &[&str]) -> Panel {
        let points = vec![(0.0, 1.5), (1.0, 2.0)];
        Panel {
            kind,
            title: "1 MiB".to_owned(),
            x: "size".to_owned(),
            categories: categories.iter().map(|name| (*name).to_owned()).collect(),
            y: "slowdown".to_owned(),
            curves: ["reps", "<spray>"]
                .map(|name| Curve::new(name.to_owned(), points.clone()))
                .into(),
        }
    }

    #[test]
    fn the_same_panels_give_the_same_picture_with_every_name_in_it() {
        let kinds = [PlotKind::Cdf, PlotKind::Bars, PlotKind::Lines, PlotKind::Series];
        for kind in kinds.into_iter().chain([PlotKind::Sizes]) {
            let rows = [vec![panel(kind, &["a", "b"]); 5], vec![panel(kind, &[])]];
            let picture = svg(&PLAIN, &rows).unwrap();
            assert_eq!(picture, svg(&PLAIN, &rows).unwrap());
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
        let points = violin(&times, 2, 33.0);
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
        assert_eq!(marks(&times, 2).count(), 2);
        assert_eq!(violin(&[], 0, 1.0), []);
        // Equal times, one of them the zero of a logarithmic axis.
        for time in [0.0, 3.0] {
            let points = violin(&[(time, 0.5), (time, 1.0)], 0, 6.0);
            let (low, high) = points.iter().fold((time, time), |(low, high), point| {
                assert!(point.0.is_finite() && point.0.abs() <= 0.4, "{point:?}");
                (low.min(point.1), high.max(point.1))
            });
            assert!((high - low - 0.02).abs() < 1e-9, "from {low} to {high}");
        }
    }

    #[test]
    fn nothing_to_draw_is_drawn_as_nothing() {
        for kind in [PlotKind::Cdf, PlotKind::Bars, PlotKind::Lines, PlotKind::Violin] {
            let empty = Panel { curves: Vec::new(), ..panel(kind, &["a", "b"]) };
            let gap = Curve::new("a".to_owned(), Vec::new());
            for curves in [Vec::new(), vec![gap]] {
                let panel = Panel { curves, ..empty.clone() };
                assert!(svg(&PLAIN, &[vec![panel]]).unwrap().contains("</svg>"));
            }
        }
        let empty = Panel { curves: Vec::new(), ..panel(PlotKind::Series, &[]) };
        assert!(svg(&PLAIN, &[vec![empty]]).unwrap().contains("</svg>"));
        assert!(svg(&PLAIN, &[]).is_ok());
    }

    /// The values of an attribute of the elements of that name, in their order.
    fn attributes<'p>(picture: &'p str, element: &str, name: &str) -> Vec<&'p str> {
        let (element, name) = (format!("<{element} "), format!(" {name}=\""));
        let elements = picture.split(element.as_str()).skip(1);
        let value = |text: &'p str| {
            let own = text.split_once('>')?.0;
            let own = own.split_once(name.trim_start()).map(|(_, rest)| rest);
            own?.split_once('"').map(|(value, _)| value)
        };
        elements.filter_map(value).collect()
    }

    #[test]
    fn names_stand_beside_the_data_and_cover_none() {
        let mut many = panel(PlotKind::Series, &[]);
        let curve = |at: usize| {
            let name = format!("a transport with a long name, number {at}, and other words");
            Curve::new(name, vec![(0.0, 1.0 + 0.1 * f64::from(u8::try_from(at).unwrap()))])
        };
        many.curves = (0..12).map(curve).collect();
        many.curves.iter_mut().for_each(|curve| curve.points.push((1.0, 3.0)));
        let picture = svg(&PLAIN, &[vec![many]]).unwrap();
        let ends = attributes(&picture, "polyline", "points");
        let data = ends.iter().flat_map(|points| points.split_whitespace());
        let right = data.filter_map(|point| point.split_once(',')?.0.parse::<i32>().ok()).max();
        let names = picture.match_indices("a transport with").map(|(at, _)| {
            let text = &picture[picture[..at].rfind("<text").unwrap()..at];
            attributes(text, "text", "x")[0].parse::<i32>().unwrap()
        });
        let left = names.min().unwrap();
        assert!(left > right.unwrap(), "names from {left}, data to {right:?}");
    }

    #[test]
    fn no_curve_is_thicker_than_another_and_all_look_apart() {
        let mut many = panel(PlotKind::Series, &[]);
        many.curves = (0..12)
            .map(|at| Curve::new(format!("curve {at}"), vec![(0.0, 1.0), (1.0, 2.0)]))
            .collect();
        let picture = svg(&PLAIN, &[vec![many]]).unwrap();
        let strokes = attributes(&picture, "polyline", "stroke");
        let used: BTreeSet<&str> =
            strokes.into_iter().filter(|stroke| legend::is_colour(stroke)).collect();
        assert_eq!(used.len(), 8, "{used:?}");
        let lines = picture.split("<polyline ").skip(1).filter(|line| {
            let own = line.split_once("/>").map_or(*line, |(own, _)| own);
            legend::colours().iter().any(|colour| own.contains(colour.as_str()))
        });
        let widths: BTreeSet<&str> = lines
            .filter_map(|line| line.split_once("stroke-width=\"")?.1.split('"').next())
            .collect();
        assert_eq!(widths.into_iter().collect::<Vec<_>>(), ["2"]);
    }

    #[test]
    fn means_have_intervals_that_end_at_the_axis() {
        let (mut one, axes_of) = (panel(PlotKind::Bars, &["a"]), |p: &Panel| axes(p, PLAIN.scales));
        one.curves.truncate(1);
        one.curves[0] = Curve::new("reps".to_owned(), vec![(0.0, 1.5)]);
        let without = svg(&PLAIN, &[vec![one.clone()]]).unwrap();
        one.curves[0].half_widths = vec![0.75];
        let with = svg(&PLAIN, &[vec![one.clone()]]).unwrap();
        one.curves[0].half_widths.clear();
        let ticks = axes_of(&one).1.ticks().len();
        one.curves[0].half_widths = vec![0.75];
        let more = axes_of(&one).1.ticks().len();
        let lines = |picture: &str| picture.matches("<polyline").count();
        let both = (lines(&with) - more, lines(&without) - ticks + 3);
        assert_eq!(both.0, both.1, "two ends and what joins them");
        let (x, y) = axes_of(&one);
        let ends: Vec<[(f64, f64); 2]> = intervals(&one.curves[0], (&x, &y), 0.0, 0.1).collect();
        assert_eq!(ends[0], [(-0.1, 1.0), (0.1, 1.0)], "no run is below its bound");
        assert_eq!(ends[1][0].1, 2.25);
    }

    #[test]
    fn intervals_stand_at_their_points_on_a_logarithmic_axis() {
        let mut sizes = panel(PlotKind::Sizes, &[]);
        sizes.x = "size_bytes".to_owned();
        sizes.curves.truncate(1);
        sizes.curves[0].points = vec![(1e3, 2.0), (1e6, 3.0)];
        sizes.curves[0].half_widths = vec![0.5, 0.5];
        let (x, y) = axes(&sizes, PLAIN.scales);
        let ends: Vec<[(f64, f64); 2]> = intervals(&sizes.curves[0], (&x, &y), 0.0, 0.03).collect();
        assert_eq!(ends[2], [(3.0, 1.5), (3.0, 2.5)]);
        assert_eq!(ends[5], [(6.0, 2.5), (6.0, 3.5)]);
    }

    #[test]
    fn labels_that_do_not_fit_side_by_side_stand_upright() {
        let long: Vec<String> = (0..9).map(|at| format!("transport-number-{at}")).collect();
        let names: Vec<&str> = long.iter().map(String::as_str).collect();
        let picture = svg(&PLAIN, &[vec![panel(PlotKind::Bars, &names)]]).unwrap();
        assert_eq!(picture.matches("rotate(90").count(), 9);
        let few = svg(&PLAIN, &[vec![panel(PlotKind::Bars, &["a", "b"])]]).unwrap();
        assert!(!few.contains("rotate(90"));
    }

    #[test]
    fn notes_stand_below_the_picture() {
        let notes = ["INVALID: `a`".to_owned()];
        let rows = [vec![panel(PlotKind::Bars, &["a"])]];
        let with = svg(&PictureFrame { notes: &notes, ..PLAIN }, &rows).unwrap();
        assert!(with.contains("INVALID: `a`"));
        let height =
            |picture: &str| attributes(picture, "svg", "height")[0].parse::<u32>().unwrap();
        assert_eq!(height(&with), height(&svg(&PLAIN, &rows).unwrap()) + NOTE_HEIGHT);
    }
}
