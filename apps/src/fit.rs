//! Output that fits the width of a terminal: a table that is too wide goes on below with the
//! columns that are left, and a long line is broken between words.
//!
//! Where no terminal reads the output, tables and lines are not broken, since programs may read
//! them. Numbers are never broken.

use std::io;

use comfy_table::{ColumnConstraint, Table, Width};

use crate::console::Console;

/// Writes a table of numbers: what is too wide goes on below, each time behind the first column.
///
/// # Errors
/// When standard output fails.
pub(crate) fn write_columns(table: Table, console: &mut Console<'_>) -> io::Result<()> {
    let pieces = match console.out_width {
        Some(width) => pieces(table, width),
        None => vec![table],
    };
    pieces.iter().try_for_each(|piece| writeln!(console.out, "{piece}"))
}

/// Writes a table whose last column is text, which is broken between words.
///
/// # Errors
/// When standard output fails.
pub(crate) fn write_texts(mut table: Table, console: &mut Console<'_>) -> io::Result<()> {
    let last = table.column_count().saturating_sub(1);
    if let Some(width) = console.out_width {
        let widths = widths(&table);
        let room = width.saturating_sub(cost(&widths[..last]) + LINE);
        if widths.get(last).is_some_and(|wide| wide + PADDING > room) {
            bound(&mut table, last, room);
        }
    }
    writeln!(console.out, "{table}")
}

/// Writes a line of words; what is too long for it goes on below, `indent` columns from the left.
///
/// # Errors
/// When standard output fails.
pub(crate) fn write_line(text: &str, indent: usize, console: &mut Console<'_>) -> io::Result<()> {
    let lines = match console.out_width {
        Some(width) if text.chars().count() > width => broken(text, indent, width),
        _ => vec![text.to_owned()],
    };
    lines.iter().try_for_each(|line| writeln!(console.out, "{line}"))
}

/// Columns of a terminal below which nothing is made to fit.
pub(crate) const WIDTH_MIN: usize = 40;

/// The blanks at both sides of a column.
const PADDING: usize = 2;
/// A border, or what is between two columns.
const LINE: usize = 1;

/// Columns of the terminal that columns of these contents take, with the border to their left.
fn cost(widths: &[usize]) -> usize {
    LINE + widths.iter().map(|width| width + PADDING + LINE).sum::<usize>()
}

fn widths(table: &Table) -> Vec<usize> {
    table.column_max_content_widths().into_iter().map(usize::from).collect()
}

/// Breaks the texts of a column that are wider than `room`, blanks included.
fn bound(table: &mut Table, column: usize, room: usize) {
    let room = u16::try_from(room).unwrap_or(u16::MAX);
    if let Some(column) = table.column_mut(column) {
        column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(room)));
    }
}

/// `table` in pieces no wider than `width`: the first column with as many others as fit, and at
/// least one.
fn pieces(table: Table, width: usize) -> Vec<Table> {
    let widths = widths(&table);
    if cost(&widths) <= width || widths.len() < 2 {
        return vec![table];
    }
    let (mut pieces, mut from) = (Vec::new(), 1);
    while from < widths.len() {
        let head = (PADDING + widths[0]).min(width / 2);
        let fits = |to: &usize| LINE + head + cost(&widths[from..*to]) <= width;
        let to = (from + 1..=widths.len()).take_while(fits).last().unwrap_or(from + 1);
        let mut piece = table.clone();
        let hidden = (1..widths.len()).filter(|at| !(from..to).contains(at));
        for column in hidden {
            if let Some(column) = piece.column_mut(column) {
                column.set_constraint(ColumnConstraint::Hidden);
            }
        }
        bound(&mut piece, 0, head);
        if !fits(&to) {
            bound(&mut piece, from, width.saturating_sub(head + 3 * LINE));
        }
        pieces.push(piece);
        from = to;
    }
    pieces
}

/// `text` in lines of at most `width` characters, all but the first `indent` characters in. A word
/// that is longer stays whole.
fn broken(text: &str, indent: usize, width: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    let mut length = 0;
    // Blanks within a line stay as they are: names stand in columns.
    for word in text.split_inclusive(' ') {
        let word_length = word.trim_end().chars().count();
        if length + word_length > width && !line.trim().is_empty() {
            lines.push(line.trim_end().to_owned());
            line = " ".repeat(indent);
            length = indent;
        }
        line.push_str(word);
        length += word.chars().count();
    }
    lines.push(line.trim_end().to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::plain;

    fn widest(piece: &Table) -> usize {
        piece.lines().map(|line| line.chars().count()).max().unwrap()
    }

    /// A table with a name and `columns` numbers.
    fn numbers(name: &str, columns: usize) -> Table {
        let mut table = plain();
        table.set_header((0..=columns).map(|column| format!("title {column} us")));
        let number = |column: usize| format!("{column}2345678.91 ± 1.23");
        table.add_row([name.to_owned()].into_iter().chain((1..=columns).map(number)));
        table
    }

    #[test]
    fn a_table_that_is_too_wide_goes_on_below_and_keeps_every_number_whole() {
        for name in ["smartt", "topology=leaf-spine:4,2,8,transport=smartt,lb=reps,seed=1..10"] {
            for (columns, width) in [(1, 60), (3, 80), (9, 80), (9, 120), (30, 60)] {
                let pieces = pieces(numbers(name, columns), width);
                let text = pieces.iter().map(Table::to_string).collect::<Vec<_>>().join("\n");
                assert!(pieces.iter().all(|piece| widest(piece) <= width), "{width}:\n{text}");
                for column in 1..=columns {
                    let number = format!("{column}2345678.91 ± 1.23");
                    let count = text.matches(&format!(" {number}")).count();
                    assert_eq!(count, 1, "{column} at {width}:\n{text}");
                }
            }
        }
    }

    #[test]
    fn a_table_that_fits_is_one_piece_as_it_was() {
        let table = numbers("smartt", 3);
        let (text, width) = (table.to_string(), widest(&table));
        let whole = pieces(table.clone(), width);
        assert_eq!(whole.iter().map(Table::to_string).collect::<Vec<_>>(), [text]);
        assert_eq!(pieces(table, width - 1).len(), 2);
    }

    #[test]
    fn texts_are_broken_between_words_and_only_on_a_terminal() {
        let words = "12.5 us of network time, ".repeat(9);
        for (out_width, most) in [(Some(60), 60), (None, 500)] {
            let mut table = plain();
            table.add_row(["completion", words.trim_end()]);
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let mut console = Console { out_width, ..Console::plain(&mut out, &mut err) };
            write_texts(table, &mut console).unwrap();
            write_line(&format!("name  {words}"), 6, &mut console).unwrap();
            let text = String::from_utf8(out).unwrap();
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= most && widest + 30 > most.min(240), "{widest}:\n{text}");
            assert_eq!(text.matches("12.5").count(), 18, "{text}");
            assert_eq!(text.lines().count() > 4, out_width.is_some(), "{text}");
        }
    }

    #[test]
    fn a_word_that_is_longer_than_a_line_stays_whole() {
        let path = "d/".repeat(40);
        let lines = broken(&format!("a  matrix {path} of x"), 3, 30);
        assert_eq!(lines, ["a  matrix".to_owned(), format!("   {path}"), "   of x".to_owned()]);
    }
}
