//! Named parameters of a generator, as a scenario's table or a command line gives them.
//!
//! Values are text; the generator says what each has to be. Quantities take units
//! (`transport::number`). Parameters that no one asked for are errors with the nearest known name.

use std::path::PathBuf;

use transport::{Bytes, Duration, Rate};

use super::cdf::Cdf;
use super::distributions;
use super::matrix::FLOW_BYTES_MAX;
use crate::input::number::{self, NumberError};
use crate::input::{InputError, did_you_mean};

/// One parameter that a generator takes, for lists and for suggestions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name of the parameter, words joined by `_`.
    pub name: &'static str,
    /// The meaning of the parameter, with its unit and its default.
    pub about: &'static str,
}

/// Values by name, each with its place.
#[derive(Clone, Debug, Default)]
pub struct Params {
    /// The name of the source in errors; `None` where each parameter is a flag of its own.
    file: Option<String>,
    /// The folder from which relative paths start.
    base: PathBuf,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    name: String,
    value: String,
    /// The flag that has the value, where it is not that of the name.
    flag: Option<String>,
    line: u32,
    column: u32,
}

/// Where a parameter stands, for errors that are found later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ParamPlace {
    file: String,
    line: u32,
    column: u32,
}

impl ParamPlace {
    /// An error at this place.
    pub(super) fn error(&self, found: &str, expected: &str) -> InputError {
        InputError::new(found, expected).at(&self.file, self.line, self.column)
    }
}

impl Params {
    /// No parameters yet; `file` is what errors call the source, relative paths start at `base`.
    #[must_use]
    pub fn new(file: &str, base: impl Into<PathBuf>) -> Self {
        Self { file: Some(file.to_owned()), base: base.into(), entries: Vec::new() }
    }

    /// Parameters that are flags of a command line: `-` and `_` in names are the same.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut params = Self { base: ".".into(), ..Self::default() };
        for (name, value) in pairs {
            params.push(name, value, 0, 0);
        }
        params
    }

    /// Adds a parameter that stands at a place; zeros when there is none. The last of a name
    /// counts.
    pub fn push(&mut self, name: &str, value: &str, line: u32, column: u32) {
        let name = name.replace('-', "_");
        self.entries.retain(|entry| entry.name != name);
        self.entries.push(Entry { name, value: value.to_owned(), flag: None, line, column });
    }

    /// Adds a parameter that a flag of another name gives, which stands in errors. The last of a
    /// name counts.
    pub fn push_flag(&mut self, name: &str, value: &str, flag: &str) {
        self.push(name, value, 0, 0);
        if let Some(pushed) = self.entries.last_mut() {
            pushed.flag = Some(format!("--{flag}"));
        }
    }

    /// Whether a parameter of that name is there.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == name)
    }

    /// The value of that name as it was written.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.entries.iter().find(|entry| entry.name == name).map(|entry| entry.value.as_str())
    }

    /// Makes sure that every parameter is one of `known`.
    ///
    /// # Errors
    /// Names the first that is not, and the nearest that is.
    pub fn expect_only(&self, known: &[Parameter]) -> Result<(), InputError> {
        let names: Vec<&str> = known.iter().map(|parameter| parameter.name).collect();
        match self.entries.iter().find(|entry| !names.contains(&entry.name.as_str())) {
            None => Ok(()),
            Some(Entry { name, .. }) => {
                let found = format!("parameter `{name}`");
                let error = self.error(name, &found, "a parameter of this workload");
                Err(error.help(did_you_mean(name, &names)))
            }
        }
    }

    /// Makes sure that `name` is not given beside `other`, which takes its place.
    ///
    /// # Errors
    /// When both are given.
    pub(super) fn expect_alone(&self, name: &str, other: &str) -> Result<(), InputError> {
        if !self.has(name) || !self.has(other) {
            return Ok(());
        }
        let error = self.error(name, &format!("{name} beside {other}"), "one of the two");
        Err(error.help(format!("leave one of them out: {other} replaces {name}")))
    }

    /// An integer in `min..=max`, or `default`.
    ///
    /// # Errors
    /// When the value is something else.
    pub fn integer(&self, name: &str, default: u32, min: u32, max: u32) -> Result<u32, InputError> {
        let parse = |text: &str| {
            let value = number::integer(text.as_bytes())?;
            let value = u32::try_from(value).map_err(|_| NumberError::TooLarge)?;
            if (min..=max).contains(&value) { Ok(value) } else { Err(NumberError::TooLarge) }
        };
        self.parsed(name, default, &format!("an integer in {min}..={max}"), parse)
    }

    /// A number of bytes that a flow can have, or `default`.
    ///
    /// # Errors
    /// When the value is something else.
    pub fn bytes(&self, name: &str, default: Bytes) -> Result<Bytes, InputError> {
        let parse = |text: &str| match number::bytes(text)? {
            bytes @ Bytes(1..=FLOW_BYTES_MAX) => Ok(bytes),
            _ => Err(NumberError::TooLarge),
        };
        self.parsed(
            name,
            default,
            "a size of 1 to 2^63 - 1 whole bytes, like 65536 or 64KiB",
            parse,
        )
    }

    /// A span of time, or `default`.
    ///
    /// # Errors
    /// When the value is something else.
    pub fn duration(&self, name: &str, default: Duration) -> Result<Duration, InputError> {
        self.parsed(name, default, "a time, like 100us or 1.5ms", number::duration)
    }

    /// A span of time above zero, or `default`.
    ///
    /// # Errors
    /// When the value is something else.
    pub fn time_above_zero(&self, name: &str, default: Duration) -> Result<Duration, InputError> {
        let parse = |text: &str| match number::duration(text)? {
            Duration::ZERO => Err(NumberError::Malformed),
            span => Ok(span),
        };
        self.parsed(name, default, "a time above zero, like 100us or 1.5ms", parse)
    }

    /// A rate above zero, or `default`.
    ///
    /// # Errors
    /// When the value is something else.
    pub fn rate(&self, name: &str, default: Rate) -> Result<Rate, InputError> {
        let parse = |text: &str| match number::rate(text)? {
            Rate::ZERO => Err(NumberError::Malformed),
            rate => Ok(rate),
        };
        self.parsed(name, default, "a rate above zero, like 100Gbps", parse)
    }

    /// A real number in `min..=max`, or `default`.
    ///
    /// # Errors
    /// When the value is something else.
    pub fn real(&self, name: &str, default: f64, min: f64, max: f64) -> Result<f64, InputError> {
        let parse = |text: &str| {
            let value = number::real(text.as_bytes())?;
            if (min..=max).contains(&value) { Ok(value) } else { Err(NumberError::Malformed) }
        };
        self.parsed(name, default, &format!("a number in {min}..={max}"), parse)
    }

    /// A share of a capacity from `least` on, at most all of it, or `default`. `mend` is the advice
    /// where the value is more than all of it.
    ///
    /// # Errors
    /// When the value is something else, such as a load beyond its base.
    pub fn share(
        &self,
        name: &str,
        default: f64,
        least: f64,
        mend: &str,
    ) -> Result<f64, InputError> {
        self.real(name, default, least, 1.0).map_err(|error| {
            let read = self.text(name).and_then(|text| number::real(text.as_bytes()).ok());
            if read.is_some_and(|share| share > 1.0) { error.help(mend) } else { error }
        })
    }

    /// `true` or `false` (`on` or `off`), or `default`.
    ///
    /// # Errors
    /// When the value is something else.
    pub fn boolean(&self, name: &str, default: bool) -> Result<bool, InputError> {
        let parse = |text: &str| match text {
            "true" | "on" | "yes" | "1" => Ok(true),
            "false" | "off" | "no" | "0" => Ok(false),
            _ => Err(NumberError::Malformed),
        };
        self.parsed(name, default, "`true` or `false`", parse)
    }

    /// The flow-size distribution that `name` gives, `None` without it.
    ///
    /// # Errors
    /// As [`Params::cdf_or`].
    pub fn cdf(&self, name: &str) -> Result<Option<Cdf>, InputError> {
        self.text(name).map(|value| self.distribution(name, value)).transpose()
    }

    /// The flow-size distribution that `name` gives, or `default`: one that comes with the program,
    /// by name, or one in a file.
    ///
    /// # Errors
    /// When there is no such distribution and the file cannot be read or is wrong.
    pub fn cdf_or(&self, name: &str, default: &str) -> Result<Cdf, InputError> {
        self.distribution(name, self.text(name).unwrap_or(default))
    }

    fn distribution(&self, name: &str, value: &str) -> Result<Cdf, InputError> {
        if let Some(known) = distributions::by_name(value) {
            return known.cdf();
        }
        let path = self.base.join(value);
        if !path.exists() {
            let known = distributions::names();
            let found = format!("{name} = `{value}`, which is no file");
            let expected = "the name of a distribution, or a file with one";
            return Err(self.error(name, &found, expected).help(did_you_mean(value, &known)));
        }
        Cdf::read_path(&path)
    }

    /// An error at the place of the parameter `name`: its line, its flag, or the source alone where
    /// a file does not have it.
    #[must_use]
    pub fn error(&self, name: &str, found: &str, expected: &str) -> InputError {
        self.place(name).error(found, expected)
    }

    /// Where the parameter `name` stands: in a line, which is 0 when it was not given, or its flag.
    pub(super) fn place(&self, name: &str) -> ParamPlace {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        let (line, column) = entry.map_or((0, 0), |entry| (entry.line, entry.column));
        let written = entry.and_then(|entry| entry.flag.clone()).or_else(|| self.file.clone());
        let flag = || format!("--{}", name.replace('_', "-"));
        ParamPlace { file: written.unwrap_or_else(flag), line, column }
    }

    fn parsed<T>(
        &self,
        name: &str,
        default: T,
        expected: &str,
        parse: impl Fn(&str) -> Result<T, NumberError>,
    ) -> Result<T, InputError> {
        let Some(entry) = self.entries.iter().find(|entry| entry.name == name) else {
            return Ok(default);
        };
        parse(entry.value.trim()).map_err(|_| {
            let shown: String = entry.value.chars().take(40).collect();
            self.error(name, &format!("{name} = `{shown}`"), expected)
        })
    }
}

/// The parameter `first_size`: one flow that is longer than the others, or shorter.
pub(super) fn first_size(params: &Params) -> Result<Option<Bytes>, InputError> {
    params.bytes("first_size", Bytes(1)).map(|size| Some(size).filter(|_| params.has("first_size")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_with_their_units_and_defaults() {
        let params = Params::from_pairs([("flow-size", "64KiB"), ("load", "0.5")]);
        assert_eq!(params.bytes("flow_size", Bytes(1)), Ok(Bytes(65_536)));
        assert_eq!(params.real("load", 1.0, 0.0, 1.0), Ok(0.5));
        let sizes = [FLOW_BYTES_MAX, FLOW_BYTES_MAX + 1, 0].map(|size| {
            let text = size.to_string();
            Params::from_pairs([("size", text.as_str())]).bytes("size", Bytes(1)).is_ok()
        });
        assert_eq!(sizes, [true, false, false], "what .cm files can hold");
        assert_eq!(params.integer("degree", 8, 1, 9), Ok(8));
    }

    #[test]
    fn wrong_values_and_names_are_placed() {
        let mut params = Params::new("s.toml", ".");
        params.push("degree", "many", 4, 10);
        let error = params.integer("degree", 8, 1, 9).unwrap_err();
        assert_eq!(
            error.to_string(),
            "s.toml:4:10: found degree = `many`, expected an integer in 1..=9"
        );
        params.push("degre", "8", 5, 1);
        let known = [Parameter { name: "degree", about: "" }];
        let error = params.expect_only(&known).unwrap_err();
        assert!(error.help.contains("did you mean `degree`"), "{error}");
    }

    #[test]
    fn a_flag_is_the_place_of_its_value() {
        let error = Params::from_pairs([("first-size", "few")]).bytes("first_size", Bytes(1));
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("--first-size: found first_size = `few`, expected "), "{error}");
        let mut params = Params::from_pairs([]);
        params.push_flag("link_rate", "fewGbps", "link-gbps");
        let error = params.rate("link_rate", Rate::ZERO).unwrap_err().to_string();
        assert!(error.starts_with("--link-gbps: found link_rate = `fewGbps`"), "{error}");
    }
}
