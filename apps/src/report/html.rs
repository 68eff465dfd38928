//! All figures on one page, which needs neither network nor other files.

use serde_json::{Map, Value, json};

use super::draw::Scales;
use super::measures::in_words;
use super::read::measure;
use super::{FigureRun, Numbers, notes, title};
use crate::failure::Failure;

/// The page, with a place for the numbers.
const TEMPLATE: &str = include_str!("html/page.html");
/// The place of the numbers in [`TEMPLATE`].
const PLACE: &str = "/*NUMBERS*/";
/// The place in [`TEMPLATE`] of the axes that are logarithmic at first.
const SCALES: &str = "/*SCALES*/";

/// The page of `figures`, with the axes of `scales` logarithmic at first.
///
/// # Errors
/// When the numbers cannot be written as JSON, which they have no reason to.
pub(super) fn page(figures: &[Numbers], scales: Scales) -> Result<String, Failure> {
    let numbers = serde_json::to_string(&shown(figures)).map_err(std::io::Error::from)?;
    let scales = serde_json::to_string(&scales).map_err(std::io::Error::from)?;
    // Text in a script ends at the first `</`; in JSON a `<` may be written by its number.
    let numbers = numbers.replace('<', "\\u003c");
    Ok(TEMPLATE.replacen(SCALES, &scales, 1).replacen(PLACE, &numbers, 1))
}

/// The figures with what the page shows of them: of summaries the measures of its table.
fn shown(figures: &[Numbers]) -> Vec<Value> {
    let cell =
        |summary: &Value, path: &str| measure(summary, path).map_or(Value::Null, Value::from);
    let of = |numbers: &Numbers| {
        let columns = COLUMNS.iter().filter(|(_, path)| {
            numbers.runs.iter().any(|run| measure(&run.summary, path).is_some())
        });
        let columns: Vec<&(&str, &str)> = columns.collect();
        let line = |run: &FigureRun| {
            let cells = columns.iter().map(|(_, path)| cell(&run.summary, path));
            let name = std::iter::once(Value::from(run.variant.replace(',', ", ")));
            name.chain(cells).collect::<Vec<Value>>()
        };
        json!({
            "name": numbers.name,
            "title": title(numbers),
            "claim": numbers.claim,
            "notes": notes(numbers),
            "columns": columns.iter().map(|(title, _)| *title).collect::<Vec<_>>(),
            "runs": numbers.runs.iter().map(line).collect::<Vec<_>>(),
            "words": words(numbers),
            "plots": numbers.plots,
            "inputs": numbers.inputs,
        })
    };
    figures.iter().map(of).collect()
}

/// The titles of the axes of all panels, by their measures.
fn words(numbers: &Numbers) -> Map<String, Value> {
    let panels = numbers.plots.iter().flatten();
    let names = panels.flat_map(|panel| [&panel.x, &panel.y]);
    names.map(|name| (name.clone(), in_words(name).into())).collect()
}

/// Columns of the table: title, place in the summary.
const COLUMNS: [(&str, &str); 13] = [
    ("finished", "flows.finished"),
    ("of", "flows.total"),
    ("mean FCT us", "fct_us.mean"),
    ("p99 us", "fct_us.p99"),
    ("longest us", "fct_us.max"),
    ("completion us", "completion_us"),
    ("slowdown", "slowdown"),
    ("goodput Gb/s", "goodput_gbps"),
    ("Jain", "jain"),
    ("sent again", "packets.retransmitted"),
    ("trimmed", "packets.trimmed"),
    ("dropped", "packets.dropped"),
    ("longest queue B", "queue_bytes.max"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_name_contains_stays_data() {
        let name = "</script><b>";
        let numbers = Numbers {
            schema: 1,
            name: name.to_owned(),
            of: String::new(),
            about: String::new(),
            claim: String::new(),
            runs: Vec::new(),
            invalid: Vec::new(),
            plots: Vec::new(),
            inputs: None,
        };
        let text = page(&[numbers], Scales { x: true, y: false }).unwrap();
        assert!(!text.contains(name) && !text.contains(PLACE) && !text.contains(SCALES));
        assert!(text.contains("{\"x\":true,\"y\":false}"));
        let data = text.split_once("id=\"numbers\">").unwrap().1.split_once("</script>").unwrap().0;
        let read: Vec<Value> = serde_json::from_str(data).unwrap();
        assert_eq!(read[0]["name"], name);
        // Nothing is fetched: the only address is the name of a language.
        let addresses = text.match_indices("http").count();
        assert_eq!(addresses, text.matches("http://www.w3.org/2000/svg").count());
    }
}
