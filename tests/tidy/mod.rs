//! Parts that the checks share: findings, the tree of files, and a lexer that separates code,
//! comments and texts.

pub(crate) mod deps;
pub(crate) mod docs;
pub(crate) mod gates;
pub(crate) mod imports;
pub(crate) mod layers;
pub(crate) mod prose;
pub(crate) mod seams;
pub(crate) mod size;
pub(crate) mod words;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// One violation: where and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    /// Relative to the root of the repository.
    pub(crate) path: String,
    /// From 1; 0 when the whole file is meant.
    pub(crate) line: usize,
    /// The violation, and the form that is wanted.
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.into(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A text file of the repository.
#[derive(Clone)]
pub(crate) struct File {
    /// Relative to the root, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
    source: OnceLock<Source>,
}

impl File {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into(), source: OnceLock::new() }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The text as Rust source, which is split once for all checks.
    pub(crate) fn source(&self) -> &Source {
        self.source.get_or_init(|| Source::new(&self.path, &self.text))
    }
}

/// The root of the repository: where cargo runs the tests of the root package.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR");
    here.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from)
}

/// Every UTF-8 file of the repository, sorted by path; without dotfiles, build output and what
/// `.gitignore` names. They are read once for all checks.
pub(crate) fn files() -> &'static [File] {
    static FILES: OnceLock<Vec<File>> = OnceLock::new();
    FILES.get_or_init(|| {
        let ignored = ignored(&root());
        let mut found = Vec::new();
        collect(&root(), "", &ignored, &mut found);
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found
    })
}

/// The anchored entries of `.gitignore`, without their leading slash.
pub(crate) fn ignored(root: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix('/')).map(String::from).collect()
}

fn collect(root: &Path, under: &str, ignored: &[String], found: &mut Vec<File>) {
    let Ok(entries) = std::fs::read_dir(root.join(under)) else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if under.is_empty() { name.clone() } else { format!("{under}/{name}") };
        if name.starts_with('.') || name == "target" || ignored.contains(&path) {
            continue;
        }
        if entry.path().is_dir() {
            collect(root, &path, ignored, found);
        } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
            found.push(File::new(path, text));
        }
    }
}

/// Rust source, split line by line into code, comments and texts.
#[derive(Clone)]
pub(crate) struct Source {
    /// Code with the contents of literals and all comments blanked; columns are kept.
    pub(crate) code: Vec<String>,
    /// The comments of each line, with their slashes.
    pub(crate) comments: Vec<String>,
    /// The contents of string literals on each line, a space in place of each escape and quote.
    pub(crate) texts: Vec<String>,
    /// Whether the line belongs to a `#[cfg(test)]` item or a file of tests.
    pub(crate) test: Vec<bool>,
}

#[derive(Clone, Copy)]
enum Mode {
    Code,
    LineComment,
    BlockComment(u32),
    Text,
    RawText(usize),
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let (code, comments, texts) = split(text);
        let all = is_test_file(path);
        let test = if all { vec![true; code.len()] } else { test_lines(&code) };
        Self { code, comments, texts, test }
    }

    /// Lines of code outside tests, numbered from 1.
    pub(crate) fn product_code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.code.iter().zip(&self.test).enumerate();
        lines.filter(|(_, (_, test))| !**test).map(|(at, (code, _))| (at + 1, code.as_str()))
    }
}

fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// Splits into code, comments and texts; see [`Source`].
fn split(text: &str) -> (Vec<String>, Vec<String>, Vec<String>) {
    let chars: Vec<char> = text.chars().collect();
    let empty = || vec![String::new()];
    let (mut code, mut comments, mut texts) = (empty(), empty(), empty());
    let mut mode = Mode::Code;
    let mut at = 0;
    while at < chars.len() {
        if chars[at] == '\n' {
            code.push(String::new());
            comments.push(String::new());
            texts.push(String::new());
            mode = if matches!(mode, Mode::LineComment) { Mode::Code } else { mode };
            at += 1;
            continue;
        }
        let (next, step) = advance(mode, &chars[at..], at.checked_sub(1).map(|b| chars[b]));
        for c in &chars[at..at + step] {
            let comment = matches!(mode, Mode::LineComment | Mode::BlockComment(_))
                || matches!(next, Mode::LineComment | Mode::BlockComment(_));
            let shown = matches!(mode, Mode::Code) && matches!(next, Mode::Code) && step == 1;
            if let (Some(line), Some(comments)) = (code.last_mut(), comments.last_mut()) {
                line.push(if shown { *c } else { ' ' });
                if comment {
                    comments.push(*c);
                }
            }
        }
        let is_text = |mode| matches!(mode, Mode::Text | Mode::RawText(_));
        if let (true, Some(texts)) = (is_text(mode), texts.last_mut()) {
            texts.push(if is_text(next) && step == 1 { chars[at] } else { ' ' });
        }
        (mode, at) = (next, at + step);
    }
    (code, comments, texts)
}

/// The mode after the next few characters, and how many they are (never beyond the line).
fn advance(mode: Mode, rest: &[char], before: Option<char>) -> (Mode, usize) {
    let second = rest.get(1).copied();
    match (mode, rest[0]) {
        (Mode::Code, '/') if second == Some('/') => (Mode::LineComment, 2),
        (Mode::Code, '/') if second == Some('*') => (Mode::BlockComment(1), 2),
        (Mode::Code, '"') => (Mode::Text, 1),
        (Mode::Code, 'r') if !before.is_some_and(is_word) || before == Some('b') => {
            let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
            match rest.get(1 + hashes) {
                Some('"') => (Mode::RawText(hashes), hashes + 2),
                _ => (mode, 1),
            }
        }
        (Mode::Code, '\'') => (mode, char_literal(rest)),
        (Mode::BlockComment(1), '*') if second == Some('/') => (Mode::Code, 2),
        (Mode::BlockComment(n), '*') if second == Some('/') => (Mode::BlockComment(n - 1), 2),
        (Mode::BlockComment(n), '/') if second == Some('*') => (Mode::BlockComment(n + 1), 2),
        (Mode::Text, '\\') if second.is_some_and(|c| c != '\n') => (mode, 2),
        (Mode::Text, '"') => (Mode::Code, 1),
        (Mode::RawText(n), '"') if rest[1..].iter().take(n).filter(|c| **c == '#').count() == n => {
            (Mode::Code, 1 + n)
        }
        _ => (mode, 1),
    }
}

/// Length of the character literal at the front; 1 for a lifetime.
fn char_literal(rest: &[char]) -> usize {
    match rest {
        [_, '\\', tail @ ..] => match tail.iter().skip(1).position(|c| *c == '\'') {
            Some(end) if end < 10 => end + 4,
            _ => 1,
        },
        [_, c, '\'', ..] if *c != '\'' => 3,
        _ => 1,
    }
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Marks the lines of every `#[cfg(test)]` item.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut test = vec![false; code.len()];
    let mut at = 0;
    while at < code.len() {
        if code[at].trim_start().starts_with("#[cfg(test)]") {
            let end = item_end(code, at).min(code.len() - 1);
            test[at..=end].fill(true);
            at = end;
        }
        at += 1;
    }
    test
}

/// The line on which the item that starts on line `from` ends: its closing brace, or its semicolon
/// when it has no body.
pub(crate) fn item_end(code: &[String], from: usize) -> usize {
    let (mut braces, mut others) = (0i32, 0i32);
    for (at, line) in code.iter().enumerate().skip(from) {
        for c in line.chars() {
            match c {
                '{' => braces += 1,
                '(' | '[' => others += 1,
                ')' | ']' => others -= 1,
                ';' if braces == 0 && others == 0 => return at,
                '}' => {
                    braces -= 1;
                    if braces == 0 {
                        return at;
                    }
                }
                _ => {}
            }
        }
    }
    code.len()
}

/// Byte offsets at which `word` stands in `line` with no word character on either side.
pub(crate) fn words_in<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    line.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let edge = |c: Option<char>| !c.is_some_and(is_word);
        let starts = !word.starts_with(is_word) || edge(line[..*at].chars().next_back());
        let ends = !word.ends_with(is_word) || edge(line[at + word.len()..].chars().next());
        starts && ends
    })
}

mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_not_code() {
        let text =
            "let a = \"b // c\"; // d \"e\nlet r = r#\"x \" y\"#; /* f\ng */ h('\"', 'x');\n";
        let source = Source::new("a.rs", text);
        let words = |at: usize| source.code[at].split_whitespace().collect::<Vec<_>>();
        assert_eq!(words(0), ["let", "a", "=", ";"]);
        assert_eq!(source.comments[0], "// d \"e");
        assert_eq!(words(1), ["let", "r", "=", ";"]);
        assert_eq!(source.code[2].replace(' ', ""), "h(,);");
        assert_eq!(source.texts, ["b // c ", "x \" y ", "", ""]);
    }

    #[test]
    fn texts_of_several_lines_keep_their_words_apart() {
        let source = Source::new("a.rs", "f(\"one\\ntwo \\\n   three\", b\"four\");");
        assert_eq!(source.texts, ["one two \\", "   three four "]);
    }

    #[test]
    fn a_test_module_is_marked_to_its_closing_brace() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { '{'; }\n}\nfn c() {}\n";
        let source = Source::new("a.rs", text);
        assert_eq!(source.test, [false, true, true, true, true, false, false]);
    }

    #[test]
    fn lifetimes_do_not_swallow_code() {
        let source = Source::new("a.rs", "fn a<'a>(x: &'a str) -> &'static str { x.unwrap() }");
        assert!(source.code[0].contains(".unwrap()"));
    }
}
