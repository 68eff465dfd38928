//! The files that a report makes of a figure's numbers, by format.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::draw::{self, PictureFrame, Scales};
use super::{Numbers, html, notes, title};
use crate::args::Format;
use crate::failure::Failure;
use crate::output::OutDir;

/// The page of the format [`Format::Html`].
const PAGE: &str = "report.html";

/// Writes the figures in each of `formats`, those of the matrix and the network with `inputs`, too,
/// and always their numbers.
///
/// # Errors
/// When a file cannot be written, or the converter of pictures is missing or fails.
pub(super) fn write(
    out: &OutDir,
    figures: &[Numbers],
    (formats, inputs): (&[Format], bool),
    scales: Scales,
) -> Result<(), Failure> {
    // The numbers come first: they are there when a picture cannot be made.
    for numbers in figures {
        out.write(&format!("{}.json", numbers.name), |file| {
            serde_json::to_writer(&mut *file, numbers)?;
            file.write_all(b"\n")
        })?;
    }
    for numbers in figures {
        let (title, notes) = (title(numbers), notes(numbers));
        let frame = PictureFrame { title: &title, notes: &notes, scales };
        let svg = draw::svg(&frame, &numbers.plots)?;
        write_picture(out, &numbers.name, &svg, formats)?;
        if let Some(inputs) = numbers.inputs.as_ref().filter(|_| inputs) {
            let svg = inputs.svg(&title)?;
            write_picture(out, &format!("{}-inputs", numbers.name), &svg, formats)?;
        }
        if formats.contains(&Format::Csv) {
            write_lines(out, numbers, inputs)?;
        }
    }
    if formats.contains(&Format::Html) {
        let page = html::page(figures, scales)?;
        out.write(PAGE, |file| file.write_all(page.as_bytes()))?;
    }
    Ok(())
}

/// The ending of the picture to which a document links: the SVG where one is written.
///
/// # Errors
/// When no format of a picture that documents show is written.
pub(super) fn linked(formats: &[Format]) -> Result<&'static str, Failure> {
    match formats {
        _ if formats.contains(&Format::Svg) => Ok("svg"),
        _ if formats.contains(&Format::Png) => Ok("png"),
        _ => Err(Failure::CommandLine(
            "error: --page links to a picture, and --format writes none\n  help: add svg or png"
                .to_owned(),
        )),
    }
}

/// Writes a picture in those of `formats` that are pictures.
fn write_picture(out: &OutDir, name: &str, svg: &str, formats: &[Format]) -> Result<(), Failure> {
    for format in formats {
        match format {
            Format::Svg => {
                out.write(&format!("{name}.svg"), |file| file.write_all(svg.as_bytes()))?;
            }
            Format::Png | Format::Pdf => {
                let ending = if *format == Format::Png { "png" } else { "pdf" };
                let picture = converted(svg, ending)?;
                out.write(&format!("{name}.{ending}"), |file| file.write_all(&picture))?;
            }
            Format::Csv | Format::Html => {}
        }
    }
    Ok(())
}

/// Writes the runs, the points of the curves, and with `inputs` the bytes from host to host.
fn write_lines(out: &OutDir, numbers: &Numbers, inputs: bool) -> Result<(), Failure> {
    let (name, runs, points) = (&numbers.name, runs(numbers), points(numbers));
    out.write(&format!("{name}.csv"), |file| lines(file, &runs))?;
    out.write(&format!("{name}-curves.csv"), |file| lines(file, &points))?;
    if let Some(inputs) = numbers.inputs.as_ref().filter(|_| inputs) {
        let cells = inputs.lines();
        out.write(&format!("{name}-inputs.csv"), |file| lines(file, &cells))?;
    }
    Ok(())
}

/// The picture as librsvg converts it.
fn converted(svg: &str, ending: &str) -> Result<Vec<u8>, Failure> {
    let failed = |error: io::Error| {
        let help = match error.kind() {
            io::ErrorKind::NotFound => "; install it: apt-get install librsvg2-bin",
            _ => "",
        };
        Failure::Unfit(format!("rsvg-convert, which makes {ending} files: {error}{help}"))
    };
    let mut converter = Command::new("rsvg-convert")
        .args(["--format", ending, "--zoom", if ending == "png" { "2" } else { "1" }])
        // The same picture gives the same bytes, whatever the time of day.
        .env("SOURCE_DATE_EPOCH", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    // It reads all of its input before it writes, so that neither side waits for the other.
    let written =
        converter.stdin.take().map_or(Ok(()), |mut input| input.write_all(svg.as_bytes()));
    let ended = converter.wait_with_output().map_err(failed)?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
        return Err(failed(io::Error::other(format!("{}: {said}", ended.status))));
    }
    written.map_err(failed)?;
    Ok(ended.stdout)
}

/// A line a run: its name, then every number and word of its summary, by path.
fn runs(numbers: &Numbers) -> Vec<Vec<String>> {
    let all: Vec<Vec<(String, String)>> = numbers
        .runs
        .iter()
        .map(|run| {
            let mut cells = vec![("run".to_owned(), run.variant.clone())];
            flatten("", &run.summary, &mut cells);
            cells
        })
        .collect();
    let mut head: Vec<&String> = Vec::new();
    for (path, _) in all.iter().flatten() {
        if !head.contains(&path) {
            head.push(path);
        }
    }
    let line = |cells: &Vec<(String, String)>| {
        let cell = |path: &&String| cells.iter().find(|(known, _)| known == *path);
        head.iter().map(|path| cell(path).map_or(String::new(), |(_, text)| text.clone())).collect()
    };
    let lines: Vec<Vec<String>> = all.iter().map(line).collect();
    std::iter::once(head.into_iter().cloned().collect()).chain(lines).collect()
}

/// The leaves below `value` with their paths, as `fct_us.mean`. Lists are counted, not listed.
fn flatten(path: &str, value: &Value, cells: &mut Vec<(String, String)>) {
    match value {
        Value::Object(parts) => {
            for (name, part) in parts {
                let dot = if path.is_empty() { "" } else { "." };
                flatten(&format!("{path}{dot}{name}"), part, cells);
            }
        }
        Value::Array(parts) => cells.push((path.to_owned(), parts.len().to_string())),
        Value::Null => cells.push((path.to_owned(), String::new())),
        Value::String(text) => cells.push((path.to_owned(), text.clone())),
        other => cells.push((path.to_owned(), other.to_string())),
    }
}

/// A line a point of each curve.
fn points(numbers: &Numbers) -> Vec<Vec<String>> {
    let head = ["plot", "panel", "curve", "x measure", "y measure", "x", "y", "half width"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for (plot, row) in numbers.plots.iter().enumerate() {
        for panel in row {
            for curve in &panel.curves {
                let widths = curve.half_widths.iter().map(f64::to_string);
                let widths = widths.chain(std::iter::repeat(String::new()));
                for ((x, y), width) in curve.points.iter().zip(widths) {
                    let axes = [&panel.title, &curve.name, &panel.x, &panel.y].map(String::clone);
                    let plot = vec![plot.to_string()];
                    let values = vec![x.to_string(), y.to_string(), width];
                    lines.push([plot, axes.to_vec(), values].concat());
                }
            }
        }
    }
    lines
}

fn lines(file: &mut dyn io::Write, lines: &[Vec<String>]) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(file);
    for line in lines {
        writer.write_record(line)?;
    }
    writer.flush()
}
