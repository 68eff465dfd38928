//! The rows of a benchmark, as JSON and as a table.

use std::io;

use comfy_table::CellAlignment;
use serde::Serialize;

use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::table;

/// A row of a benchmark as people see it.
pub(crate) trait ShownRow: Serialize + Sized {
    /// Columns at the left that hold no numbers.
    const WORDS: usize;

    /// The names of the columns of `rows`.
    fn header(rows: &[Self]) -> Vec<String>;

    /// A line each of the table, of as many cells as [`ShownRow::header`] has.
    fn lines(&self) -> Vec<Vec<String>>;
}

/// Writes `rows` as JSON where `json` asks for it, else as a table.
///
/// # Errors
/// When the output fails.
pub(crate) fn write<R: ShownRow>(
    rows: &[R],
    json: bool,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    if json {
        let text = serde_json::to_string_pretty(rows).map_err(io::Error::from)?;
        writeln!(console.out, "{text}")?;
        return Ok(Exit::Finished);
    }
    let mut table = table::plain();
    table.set_header(R::header(rows));
    table.add_rows(rows.iter().flat_map(R::lines));
    for column in table.column_iter_mut().skip(R::WORDS) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(console.out, "{table}")?;
    Ok(Exit::Finished)
}

/// The names of columns.
pub(crate) fn header<const COLUMNS: usize>(names: [&str; COLUMNS]) -> Vec<String> {
    names.map(str::to_owned).into()
}

/// Rounds to a thousandth: more digits are noise.
pub(crate) fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
