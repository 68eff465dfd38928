//! The looks of curves, and the legend that names them beside a row of panels.
//!
//! A curve looks the same in every panel of its row. Colours are those of Okabe and Ito, which
//! people who see fewer colours distinguish as well; dashes and shades distinguish more than eight.

use plotters::coord::Shift;
use plotters::element::Text;
use plotters::prelude::*;

use super::panel::Panel;
use experiments::scenario::PlotKind;

/// A part of a picture.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// What drawing gives.
pub(super) type Drawn =
    Result<(), DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>>;

/// The font of all texts.
pub(super) const FONT: &str = "sans-serif";

/// The look of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    /// Colour of lines and areas.
    pub(super) color: RGBColor,
    /// Pixels of a dash and of the gap behind it; a whole line when `None`.
    pub(super) dash: Option<(u32, u32)>,
    /// Share of the colour in areas.
    shade: f64,
}

impl Look {
    /// The look of the curve of that number.
    pub(super) fn of(number: usize) -> Self {
        let (dash, shade) = match number / COLOURS.len() {
            0 => (None, 1.0),
            1 => (Some((8, 4)), 0.55),
            2 => (Some((2, 3)), 0.3),
            _ => (Some((14, 8)), 0.15),
        };
        Self { color: COLOURS[number % COLOURS.len()], dash, shade }
    }

    /// The style of lines.
    pub(super) fn stroke(&self) -> ShapeStyle {
        self.color.stroke_width(2)
    }

    /// The style of areas.
    pub(super) fn fill(&self) -> ShapeStyle {
        self.color.mix(self.shade).filled()
    }
}

/// The names of the curves of a row, each once; the place of a name gives its look. Violins have
/// their names along the axis.
pub(super) fn names(row: &[Panel]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let named = row.iter().filter(|panel| panel.kind != PlotKind::Violin);
    for curve in named.flat_map(|panel| &panel.curves) {
        if !curve.name.is_empty() && !names.contains(&curve.name.as_str()) {
            names.push(&curve.name);
        }
    }
    names
}

/// Pixels from a line of a name to the next.
const LINE: u32 = 15;
/// Pixels between two names, beyond their lines.
const APART: u32 = 4;
/// Pixels above the first, so that it stands beside the data.
const ABOVE: u32 = 34;
/// Pixels that a letter takes on average.
const LETTER: u32 = 7;
/// The most letters of a line: longer names have several.
const LETTERS: u32 = 36;

/// The lines of a name.
fn lines(name: &str) -> Vec<String> {
    wrapped(name, LETTERS)
}

/// The width of the legend with these names, 0 without any.
pub(super) fn width(names: &[&str]) -> u32 {
    let lines = names.iter().flat_map(|name| lines(name));
    let longest = lines.map(|line| line.chars().count()).max();
    longest.map_or(0, |letters| 44 + u32::try_from(letters).unwrap_or(0) * LETTER)
}

/// The height of the legend with these names.
pub(super) fn height(names: &[&str]) -> u32 {
    ABOVE + names.iter().map(|name| pixels(lines(name).len(), LINE) + APART).sum::<u32>()
}

/// A length as a place in a picture.
pub(super) fn place(pixels: u32) -> i32 {
    i32::try_from(pixels).unwrap_or(i32::MAX)
}

/// `count` pieces of `each` pixels.
pub(super) fn pixels(count: usize, each: u32) -> u32 {
    u32::try_from(count).unwrap_or(1).saturating_mul(each)
}

/// The lines of a text with at most so many letters each, where its words allow it.
pub(super) fn wrapped(text: &str, letters: u32) -> Vec<String> {
    let letters = usize::try_from(letters).unwrap_or(usize::MAX);
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let length = lines[last].chars().count() + word.chars().count();
        if !lines[last].is_empty() && length >= letters {
            lines.push(word.to_owned());
            continue;
        }
        let space = if lines[last].is_empty() { "" } else { " " };
        lines[last] = format!("{}{space}{word}", lines[last]);
    }
    lines
}

/// Draws the names below each other, each beside a piece of its curve.
pub(super) fn draw(area: &Area<'_>, names: &[&str]) -> Drawn {
    let mut y = place(ABOVE);
    for (at, name) in names.iter().enumerate() {
        let look = Look::of(at);
        match look.dash {
            None => area.draw(&Rectangle::new([(8, y - 4), (30, y + 4)], look.fill()))?,
            Some((dash, gap)) => {
                let (dash, step) = (place(dash), place(dash + gap));
                for x in (8..30).step_by(usize::try_from(step).unwrap_or(1)) {
                    let end = (x + dash).min(30);
                    area.draw(&Rectangle::new([(x, y - 4), (end, y + 4)], look.fill()))?;
                }
            }
        }
        for line in lines(name) {
            area.draw(&Text::new(line, (38, y - 6), (FONT, 12).into_text_style(area)))?;
            y += place(LINE);
        }
        y += place(APART);
    }
    Ok(())
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

/// The colours as a picture has them.
#[cfg(test)]
pub(super) fn colours() -> Vec<String> {
    COLOURS.iter().map(|RGBColor(r, g, b)| format!("#{r:02X}{g:02X}{b:02X}")).collect()
}

/// Whether a picture has this colour for curves alone.
#[cfg(test)]
pub(super) fn is_colour(text: &str) -> bool {
    colours().iter().any(|colour| colour == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_has_several_lines_and_makes_the_legend_no_wider() {
        let long = "incast of 32 hosts, transport smartt-paper, size 4MiB, seed 3, INVALID";
        assert!(width(&[long]) <= 44 + LETTERS * LETTER, "{}", width(&[long]));
        assert_eq!(height(&[long]), height(&["a"]) + 2 * LINE);
    }

    #[test]
    fn curves_look_apart_up_to_four_times_the_colours() {
        for a in 0..4 * COLOURS.len() {
            assert!((0..a).all(|b| Look::of(b) != Look::of(a)), "{a}");
        }
    }
}
