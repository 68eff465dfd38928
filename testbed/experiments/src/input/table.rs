//! Tables of a TOML file with places: every value has its line and column, every unknown key is an
//! error.
//!
//! A thin layer over the `toml` crate's spanned values. It does not depend on what a file contains.

use std::io::Read as _;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{InputError, Located, did_you_mean};

/// `bytes` as text, if they are text and no more than `most`; `name` is the file's name in errors,
/// `what` the expected content.
pub(crate) fn text_of<'b>(
    bytes: &'b [u8],
    name: &str,
    (what, most): (&str, usize),
) -> Result<&'b str, InputError> {
    if bytes.len() > most {
        let expected = format!("{what} of at most {most} bytes");
        return Err(InputError::new("a longer file", expected).at(name, 1, 0));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let lines = before.iter().filter(|&&byte| byte == b'\n').count();
        let line = u32::try_from(lines + 1).unwrap_or(u32::MAX);
        InputError::new("bytes that are not UTF-8", "text in UTF-8").at(name, line, 0)
    })
}

/// The bytes of the file at `path`: no more than one beyond `most`, so that a longer file shows.
pub(crate) fn bytes_of(path: &Path, most: usize) -> Result<Vec<u8>, InputError> {
    let name = path.display().to_string();
    let io = |error| InputError::io(&name, &error);
    let file = std::fs::File::open(path).map_err(io)?;
    let mut bytes = Vec::new();
    let limit = most as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

/// A text whose byte offsets can be turned into places.
#[derive(Debug)]
pub(crate) struct Document<'d> {
    name: &'d str,
    text: &'d str,
    /// Offset of each line's first byte.
    lines: Vec<usize>,
}

/// A table and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'d> {
    document: &'d Document<'d>,
    /// The table's name in errors, such as `[scenario]`.
    title: &'static str,
    entries: &'d DeTable<'d>,
    start: usize,
}

impl<'d> Document<'d> {
    /// Notes where the lines of `text` begin; `name` is what errors call it.
    pub(crate) fn new(name: &'d str, text: &'d str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { name, text, lines: std::iter::once(0).chain(after_breaks).collect() }
    }

    /// Parses the text.
    pub(crate) fn parse(&self) -> Result<Spanned<DeTable<'d>>, InputError> {
        DeTable::parse(self.text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let message = error.message().trim().replace('\n', "; ");
            self.error(start, format!("a text that is not TOML ({message})"), "valid TOML")
        })
    }

    /// Line and column, both from 1, of the byte at `offset`.
    fn place(&self, offset: usize) -> (u32, u32) {
        let line = self.lines.partition_point(|&start| start <= offset);
        let start = line.checked_sub(1).and_then(|at| self.lines.get(at)).copied().unwrap_or(0);
        let before = self.text.get(start..offset).unwrap_or_default();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        (number(line), number(before.chars().count()).saturating_add(1))
    }

    fn error(
        &self,
        offset: usize,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> InputError {
        let (line, column) = self.place(offset);
        InputError::new(found, expected).at(self.name, line, column)
    }

    fn located<T>(&self, offset: usize, value: T) -> Located<T> {
        let (line, column) = self.place(offset);
        Located { value, line, column }
    }
}

impl<'d> Table<'d> {
    /// The whole document as a table; `title` is what errors call it.
    pub(crate) fn root(
        document: &'d Document<'d>,
        title: &'static str,
        root: &'d Spanned<DeTable<'d>>,
    ) -> Self {
        Self { document, title, entries: root.get_ref(), start: 0 }
    }

    /// Another root in the place of this one, made of parts of the same document.
    pub(crate) fn replaced<'e>(&self, entries: &'e DeTable<'d>) -> Table<'e>
    where
        'd: 'e,
    {
        Table { document: self.document, title: self.title, entries, start: self.start }
    }

    /// The entries of the table.
    pub(crate) fn entries(&self) -> &'d DeTable<'d> {
        self.entries
    }

    /// An error at this byte of the document.
    pub(crate) fn error_at(&self, offset: usize, error: InputError) -> InputError {
        let (line, column) = self.document.place(offset);
        error.at(self.document.name, line, column)
    }

    /// Refuses keys that are not among `known`.
    pub(crate) fn expect_only(&self, known: &[&str]) -> Result<(), InputError> {
        let unknown = self.entries.keys().find(|key| !known.contains(&key.get_ref().as_ref()));
        match unknown {
            None => Ok(()),
            Some(key) => Err(self
                .document
                .error(
                    key.span().start,
                    format!("key `{}`", shorten(key.get_ref())),
                    format!("a key of {}", self.title),
                )
                .help(did_you_mean(key.get_ref(), known))),
        }
    }

    /// Whether there is a value of that key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// The table of that key.
    pub(crate) fn table(&self, key: &str, title: &'static str) -> Result<Option<Self>, InputError> {
        let Some(value) = self.entries.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Table(entries) => {
                let start = value.span().start;
                Ok(Some(Self { document: self.document, title, entries, start }))
            }
            _ => Err(self.mistyped(key, value, "a table")),
        }
    }

    /// The tables of the array of that key; none without it.
    pub(crate) fn tables(&self, key: &str, title: &'static str) -> Result<Vec<Self>, InputError> {
        let Some(value) = self.entries.get(key) else { return Ok(Vec::new()) };
        let DeValue::Array(items) = value.get_ref() else {
            return Err(self.mistyped(key, value, "an array of tables, `[[...]]`"));
        };
        let mut tables = Vec::new();
        for item in items.iter() {
            let DeValue::Table(entries) = item.get_ref() else {
                return Err(self.mistyped(key, item, "a table"));
            };
            let start = item.span().start;
            tables.push(Self { document: self.document, title, entries, start });
        }
        Ok(tables)
    }

    /// The string of that key.
    pub(crate) fn string(&self, key: &str) -> Result<Option<Located<String>>, InputError> {
        let Some(value) = self.entries.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(text) => {
                Ok(Some(self.document.located(value.span().start, text.to_string())))
            }
            _ => Err(self.mistyped(key, value, "a string in quotes")),
        }
    }

    /// The value of that key, `true` or `false`.
    pub(crate) fn boolean(&self, key: &str) -> Result<Option<Located<bool>>, InputError> {
        let Some(value) = self.entries.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Boolean(flag) => Ok(Some(self.document.located(value.span().start, *flag))),
            _ => Err(self.mistyped(key, value, "true or false")),
        }
    }

    /// The integer of that key, not negative.
    pub(crate) fn integer(&self, key: &str) -> Result<Option<Located<u64>>, InputError> {
        let Some(value) = self.entries.get(key) else { return Ok(None) };
        let integer = match value.get_ref() {
            DeValue::Integer(integer) => u64::from_str_radix(integer.as_str(), integer.radix()),
            _ => return Err(self.mistyped(key, value, "an integer that is not negative")),
        };
        match integer {
            Ok(integer) => Ok(Some(self.document.located(value.span().start, integer))),
            Err(_) => Err(self.mistyped(key, value, "an integer in 0..=2^64-1")),
        }
    }

    /// The value of that key as text: strings, numbers and flags.
    pub(crate) fn text(&self, key: &str) -> Result<Option<Located<String>>, InputError> {
        let Some(value) = self.entries.get(key) else { return Ok(None) };
        match scalar(value.get_ref()) {
            Some(text) => Ok(Some(self.document.located(value.span().start, text))),
            None => Err(self.mistyped(key, value, "a string, a number, true or false")),
        }
    }

    /// All keys in the order of the file, with their values as text. Tables inside are flattened,
    /// their keys joined by dots.
    pub(crate) fn flat(&self) -> Result<Vec<(String, Located<String>)>, InputError> {
        let mut flat = Vec::new();
        self.flatten("", self.entries, &mut flat)?;
        Ok(flat)
    }

    /// An error at the value of `key`, or at the table's beginning without it.
    pub(crate) fn error(&self, key: &str, error: InputError) -> InputError {
        let start = self.entries.get(key).map_or(self.start, |value| value.span().start);
        let (line, column) = self.document.place(start);
        error.at(self.document.name, line, column)
    }

    // The parser bounds how deep tables nest, and with it this recursion.
    fn flatten(
        &self,
        prefix: &str,
        entries: &DeTable<'_>,
        flat: &mut Vec<(String, Located<String>)>,
    ) -> Result<(), InputError> {
        for (key, value) in entries {
            let name = format!("{prefix}{}", key.get_ref());
            match (value.get_ref(), scalar(value.get_ref())) {
                (_, Some(text)) => {
                    flat.push((name, self.document.located(value.span().start, text)));
                }
                (DeValue::Table(inner), None) => self.flatten(&format!("{name}."), inner, flat)?,
                _ => return Err(self.mistyped(&name, value, "a string, a number, true or false")),
            }
        }
        Ok(())
    }

    fn mistyped(&self, key: &str, value: &Spanned<DeValue<'_>>, expected: &str) -> InputError {
        let found = match scalar(value.get_ref()) {
            Some(text) => format!("{} = {}", shorten(key), shorten(&text)),
            None => format!("{} = {} in it", shorten(key), value.get_ref().type_str()),
        };
        self.document.error(value.span().start, found, expected)
    }
}

/// The text of a string, a number or a flag.
pub(crate) fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(integer) if integer.radix() == 10 => Some(integer.as_str().to_owned()),
        DeValue::Integer(integer) => {
            let value = u64::from_str_radix(integer.as_str(), integer.radix()).ok()?;
            Some(value.to_string())
        }
        DeValue::Float(float) => Some(float.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}
