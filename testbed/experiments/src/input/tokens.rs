//! The lenient tokenizer behind `.cm` and `.topo`: lines of tokens with their places.
//!
//! White space of any kind and amount separates tokens, `#` starts a comment anywhere, blank lines
//! and carriage returns vanish, `->` is a token of its own with or without space around it. One
//! line is in memory at a time; a line longer than [`LINE_BYTES_MAX`] is an error, so memory is
//! bounded whatever the file. Columns count characters from 1 (bytes that are not UTF-8 count as
//! one each).

use std::io::BufRead;

use super::InputError;
use super::number::{self, NumberError};

/// The longest line that is read, in bytes.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// A source of lines: a reader and the name that errors give it.
#[derive(Debug)]
pub struct LineReader<R> {
    reader: R,
    name: String,
    /// The current line; capacity is kept between lines.
    buffer: Vec<u8>,
    /// Number of the current line, from 1.
    line: u32,
}

/// The rest of one line.
#[derive(Clone, Debug)]
pub struct TextLine<'a> {
    name: &'a str,
    /// Line number, from 1.
    pub number: u32,
    text: &'a [u8],
    /// The place from which the next token is searched, a byte offset into `text`.
    at: usize,
}

/// A run of bytes without white space, never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The bytes, not necessarily UTF-8.
    pub text: &'a [u8],
    /// Byte offset in the line, from 0.
    pub start: usize,
}

impl<R: BufRead> LineReader<R> {
    /// Reads `reader`; `name` is what errors call it.
    pub fn new(reader: R, name: &str) -> Self {
        Self { reader, name: name.to_owned(), buffer: Vec::new(), line: 0 }
    }

    /// The name errors give this source.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of the line read last, from 1; 0 before the first.
    pub fn line_number(&self) -> u32 {
        self.line
    }

    /// The next line that has a token, `None` at the end.
    ///
    /// # Errors
    /// When reading fails or a line is longer than [`LINE_BYTES_MAX`].
    pub fn next_line(&mut self) -> Result<Option<TextLine<'_>>, InputError> {
        loop {
            self.buffer.clear();
            let limit = LINE_BYTES_MAX as u64 + 1;
            let mut bounded = std::io::Read::take(&mut self.reader, limit);
            let count = bounded
                .read_until(b'\n', &mut self.buffer)
                .map_err(|error| InputError::io(&self.name, &error))?;
            if count == 0 {
                return Ok(None);
            }
            self.line = self.line.saturating_add(1);
            if count > LINE_BYTES_MAX {
                let expected = format!("lines of at most {LINE_BYTES_MAX} bytes");
                return Err(InputError::new("a longer line", expected)
                    .at(&self.name, self.line, 0)
                    .help("is this a text file? one statement goes on one line"));
            }
            if self.line == 1 && self.buffer.starts_with(BYTE_ORDER_MARK) {
                self.buffer.drain(..BYTE_ORDER_MARK.len());
            }
            if has_token(&self.buffer) {
                break;
            }
        }
        Ok(Some(TextLine { name: &self.name, number: self.line, text: &self.buffer, at: 0 }))
    }
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

fn has_token(line: &[u8]) -> bool {
    line.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|&byte| byte != b'#')
}

impl<'a> TextLine<'a> {
    /// The next token; `None` at the end of the line or at a comment.
    pub fn token(&mut self) -> Option<Token<'a>> {
        let rest = self.text.get(self.at..)?;
        let blank = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let rest = &rest[blank..];
        let start = self.at + blank;
        self.at = start;
        let len = match rest {
            [] | [b'#', ..] => return None,
            [b'-', b'>', ..] => 2,
            _ => token_len(rest),
        };
        self.at = start + len;
        Some(Token { text: &rest[..len], start })
    }

    /// The name of the source.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The next token without taking it.
    #[must_use]
    pub fn peek(&self) -> Option<Token<'a>> {
        self.clone().token()
    }

    /// The next token.
    ///
    /// # Errors
    /// At the end of the line, saying that `expected` should follow.
    pub fn require(&mut self, expected: &str) -> Result<Token<'a>, InputError> {
        self.token().ok_or_else(|| self.end_error(expected))
    }

    /// The next token as an integer in `min..=max`; `what` names it in errors.
    ///
    /// # Errors
    /// When there is none, it is no integer, or it is out of range.
    pub fn integer(&mut self, what: &str, min: u64, max: u64) -> Result<u64, InputError> {
        let expected = || format!("{what}, an integer in {min}..={max}");
        let Some(token) = self.token() else { return Err(self.end_error(&expected())) };
        match number::integer(token.text) {
            Ok(value) if (min..=max).contains(&value) => Ok(value),
            Err(NumberError::Malformed) => Err(self.error(token, expected())),
            _ => Err(self.error(token, expected()).help("the number is out of range")),
        }
    }

    /// The next token as a number with at most three decimals, in thousandths, of which there are
    /// `min..=max`; `what` names it in errors.
    ///
    /// # Errors
    /// As [`TextLine::integer`].
    pub fn thousandths(&mut self, what: &str, (min, max): (u64, u64)) -> Result<u64, InputError> {
        let [least, most] = [min, max].map(|thousandths| thousandths as f64 / 1000.0);
        let expected = || format!("{what}, a number in {least}..={most}, at most three decimals");
        let Some(token) = self.token() else { return Err(self.end_error(&expected())) };
        let [value, finer] = [3, 9].map(|scale| number::decimal(token.text, scale));
        match (value, finer) {
            (Ok(value), Ok(finer)) if value.checked_mul(1_000_000) != Some(finer) => {
                Err(self.error(token, expected()))
            }
            (Ok(value), _) if (min..=max).contains(&value) => Ok(value),
            (Err(NumberError::Malformed), _) => Err(self.error(token, expected())),
            _ => Err(self.error(token, expected()).help("the number is out of range")),
        }
    }

    /// [`TextLine::integer`] for values that fit 32 bits.
    ///
    /// # Errors
    /// As [`TextLine::integer`].
    pub fn integer_u32(&mut self, what: &str, min: u32, max: u32) -> Result<u32, InputError> {
        let value = self.integer(what, u64::from(min), u64::from(max))?;
        // In range by the check above, so the fallback is never taken.
        Ok(u32::try_from(value).unwrap_or(max))
    }

    /// Makes sure that nothing follows.
    ///
    /// # Errors
    /// When a token follows.
    pub fn finish(&mut self) -> Result<(), InputError> {
        match self.token() {
            None => Ok(()),
            Some(token) => Err(self.error(token, "the end of the line")),
        }
    }

    /// The line's two columns, separated by one comma or by white space.
    ///
    /// # Errors
    /// When there are fewer or more.
    pub fn columns(&mut self) -> Result<(Token<'a>, Token<'a>), InputError> {
        let mut cells = self.cells();
        let first = cells.next();
        let second = cells.next();
        let third = cells.next();
        self.at = cells.line.at;
        match (first, second, third) {
            (Some(first), Some(second), None) => Ok((first, second)),
            (_, _, Some(third)) => Err(self.error(third, "the end of the line")),
            _ => Err(self.end_error("a first and a second column")),
        }
    }

    /// This line from its beginning.
    #[must_use]
    pub fn restart(&self) -> Self {
        Self { at: 0, ..self.clone() }
    }

    /// The rest of the line cut at white space and commas.
    fn cells(&self) -> Cells<'a> {
        Cells { line: self.clone(), rest: None }
    }

    /// An error at `token`.
    #[must_use]
    pub fn error(&self, token: Token<'_>, expected: impl Into<String>) -> InputError {
        self.error_as(token, show(token.text), expected)
    }

    /// An error at `token` with a description of its own.
    #[must_use]
    pub fn error_as(
        &self,
        token: Token<'_>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> InputError {
        InputError::new(found, expected).at(self.name, self.number, self.column(token.start))
    }

    /// An error at the end of the line, where something is missing.
    #[must_use]
    pub fn end_error(&self, expected: &str) -> InputError {
        let end = self.text.len()
            - self.text.iter().rev().take_while(|b| b.is_ascii_whitespace()).count();
        let column = self.column(self.at.min(end));
        InputError::new("the end of the line", expected).at(self.name, self.number, column)
    }

    /// The column of byte `offset`, in characters from 1.
    #[must_use]
    pub fn column(&self, offset: usize) -> u32 {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let chars = String::from_utf8_lossy(before).chars().count();
        u32::try_from(chars).unwrap_or(u32::MAX).saturating_add(1)
    }
}

/// Tokens cut further at commas.
struct Cells<'a> {
    line: TextLine<'a>,
    /// The rest of a token that had a comma.
    rest: Option<Token<'a>>,
}

impl<'a> Iterator for Cells<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let token = self.rest.take().or_else(|| self.line.token())?;
            let commas = token.text.iter().take_while(|&&byte| byte == b',').count();
            let text = &token.text[commas..];
            let start = token.start + commas;
            let len = text.iter().position(|&byte| byte == b',').unwrap_or(text.len());
            if len < text.len() {
                self.rest = Some(Token { text: &text[len..], start: start + len });
            }
            if len > 0 {
                return Some(Token { text: &text[..len], start });
            }
        }
    }
}

/// Length of the token at the start of `rest`, which is not empty and starts with a token's byte.
fn token_len(rest: &[u8]) -> usize {
    let ends = |(at, &byte): (usize, &u8)| match byte {
        b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' | b'#' => true,
        b'-' => rest.get(at + 1) == Some(&b'>'),
        _ => false,
    };
    rest.iter().enumerate().position(ends).unwrap_or(rest.len())
}

/// `text` for an error: in back quotes, escaped, shortened.
#[must_use]
pub fn show(text: &[u8]) -> String {
    let lossy = String::from_utf8_lossy(&text[..text.len().min(4 * SHOWN_CHARS_MAX)]);
    let shown: String = lossy.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
    let dots = if lossy.chars().count() > SHOWN_CHARS_MAX { "..." } else { "" };
    format!("`{shown}{dots}`")
}

const SHOWN_CHARS_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<(u32, u32, String)> {
        let mut source = LineReader::new(text.as_bytes(), "t");
        let mut all = Vec::new();
        while let Some(mut line) = source.next_line().unwrap() {
            while let Some(token) = line.token() {
                let word = String::from_utf8_lossy(token.text).into_owned();
                all.push((line.number, line.column(token.start), word));
            }
        }
        all
    }

    #[test]
    fn white_space_comments_and_line_ends_of_any_kind_separate_tokens() {
        let found = tokens("\u{feff}\r\n# note\n a\tbb \r\n\n  1->22#end\n3 -> 4");
        let words: Vec<_> = found.iter().map(|(l, c, w)| (*l, *c, w.as_str())).collect();
        assert_eq!(
            words,
            [
                (3, 2, "a"),
                (3, 4, "bb"),
                (5, 3, "1"),
                (5, 4, "->"),
                (5, 6, "22"),
                (6, 1, "3"),
                (6, 3, "->"),
                (6, 6, "4"),
            ]
        );
    }

    #[test]
    fn columns_count_characters_and_not_bytes() {
        assert_eq!(tokens("\u{e9}\u{e9} x")[1].1, 4);
    }

    #[test]
    fn a_line_without_an_end_is_refused_and_not_collected() {
        let endless = std::io::BufReader::new(std::io::repeat(b'x'));
        let error = LineReader::new(endless, "e").next_line().unwrap_err();
        assert_eq!((error.line, error.found.as_str()), (1, "a longer line"));
    }

    #[test]
    fn what_is_missing_is_reported_at_the_end_of_the_line() {
        let mut source = LineReader::new(&b"size   \n"[..], "t");
        let mut line = source.next_line().unwrap().unwrap();
        line.token();
        let error = line.integer("a size", 1, 9).unwrap_err();
        assert_eq!(
            error.to_string(),
            "t:1:5: found the end of the line, expected a size, an integer in 1..=9"
        );
    }
}
