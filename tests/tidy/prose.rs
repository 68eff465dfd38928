//! The language of comments, documents and texts: phrases that stand alone, about things.
//!
//! A doc line that begins with "The same" or "Those of" needs the line above it to be understood,
//! and so does such a sentence in the middle of a line. Words for persons hide what a machine does,
//! in texts for users and in names as well as in comments. Names in backticks, arguments of a
//! format and blocks of code are not prose; neither are strings of tests.

use std::collections::BTreeMap;

use super::{File, Finding};

/// Beginnings that no line of documentation has: each points at a neighbour.
const STARTS: &[&str] = &[
    "After which",
    "And",
    "As above",
    "As posted",
    "Beside that",
    "Ditto",
    "It grants",
    "It has",
    "It is",
    "It was",
    "Its",
    "Of that",
    "Of these",
    "Of this",
    "Of those",
    "One of them",
    "That of",
    "The same",
    "They",
    "This one of those",
    "Those for",
    "Those from",
    "Those in",
    "Those of",
    "Those that",
    "Those with",
    "Which of them",
];

/// Beginnings that no sentence has, in documentation and in documents: each points at the sentence
/// before it.
const SENTENCE_STARTS: &[&str] = &[
    "After which",
    "As above",
    "Ditto",
    "Of that",
    "Of these",
    "Of this",
    "Of those",
    "One of them",
    "That of",
    "The same",
    "Those",
    "Which of them",
];

/// Words for persons, or for what persons do, and what to write instead.
const PERSONS: &[(&str, &str)] = &[
    ("anybody", "what it is"),
    ("anyone", "what it is"),
    ("believed", "accepted, counted as"),
    ("believes", "accepts"),
    ("everybody", "all hosts, all threads, ..."),
    ("everyone", "all hosts, all threads, ..."),
    ("hear", "receive, be notified"),
    ("heard", "received, notified"),
    ("hears", "receives, is notified"),
    ("know", "have, read, be able to read"),
    ("knows", "has, is notified of, depends on"),
    ("likes", "needs, has to"),
    ("minds", "depends on"),
    ("nobody", "no host, no code, nothing"),
    ("remember", "keep, record"),
    ("remembered", "kept, recorded"),
    ("remembers", "keeps, records"),
    ("somebody", "another process, a caller, ..."),
    ("someone", "another process, a caller, ..."),
    ("tell", "report, pass, notify"),
    ("tells", "reports, passes, notifies"),
    ("thinks", "computes, waits"),
    ("tidings", "reports"),
    ("told", "notified, informed, passed"),
    ("trusts", "accepts without proof"),
    ("whoever", "the caller, the host that, ..."),
    ("whom", "which"),
];

/// Words for persons that documents need, for users, and that no name has.
const PERSONS_IN_NAMES: &[(&str, &str)] =
    &[("people", "common, ..."), ("who", "the host that, the process that, ...")];

/// Every finding in one file.
pub(crate) fn check(file: &File) -> Vec<Finding> {
    let path = file.path.as_str();
    let mut found = Vec::new();
    for (line, prose) in prose(file) {
        let documentation = prose.strip_prefix("///").or(prose.strip_prefix("//!"));
        let words = documentation.unwrap_or(&prose).trim_start();
        let begins = |start: &&&str| {
            words.strip_prefix(**start).is_some_and(|rest| !rest.starts_with(super::is_word))
        };
        if let Some(start) = STARTS.iter().find(|start| documentation.is_some() && begins(start)) {
            let message = format!("\"{start} ...\" needs the line above: name the thing");
            found.push(Finding::new(path, line, message));
        }
        if documentation.is_some() || !path.ends_with(".rs") {
            found.extend(sentences(path, line, words));
        }
        found.extend(persons(path, line, &prose));
    }
    for (line, names) in names(file).into_iter().chain(cases(file)) {
        found.extend(of_words(path, line, &names, PERSONS));
        found.extend(of_words(path, line, &names, PERSONS_IN_NAMES));
    }
    for (line, text) in texts(file) {
        found.extend(persons(path, line, &text));
    }
    found
}

/// Sentences of a line of prose that begin with one of [`SENTENCE_STARTS`]. The first words of a
/// line of documentation are left to [`STARTS`]; a line of a document may begin a sentence.
fn sentences<'a>(path: &'a str, line: usize, words: &'a str) -> impl Iterator<Item = Finding> + 'a {
    let of_document = if path.ends_with(".rs") { None } else { Some(words) };
    let later = words.match_indices(". ").map(|(at, end)| &words[at + end.len()..]);
    of_document.into_iter().chain(later).filter_map(move |sentence| {
        let bare = sentence.trim_start_matches(['*', '_', '|', '-', ' ']);
        let start = SENTENCE_STARTS
            .iter()
            .find(|start| bare.strip_prefix(**start).is_some_and(|rest| rest.starts_with(' ')))?;
        let message = format!("\"{start} ...\" needs the sentence before it: name the thing");
        Some(Finding::new(path, line, message))
    })
}

/// The words of the names in the code of each line: `last_heard` and `LastHeard` have two.
fn names(file: &File) -> Vec<(usize, String)> {
    if !file.is_rust() {
        return Vec::new();
    }
    let split = |code: &String| {
        let mut words = String::new();
        for c in code.chars() {
            if c.is_uppercase() && words.ends_with(char::is_lowercase) {
                words.push(' ');
            }
            words.push(if super::is_word(c) && c != '_' { c } else { ' ' });
        }
        words
    };
    file.source().code.iter().enumerate().map(|(at, code)| (at + 1, split(code))).collect()
}

/// The words of the names of cases, by line: a string of a test that has at least two underscores
/// and no other sign but letters and digits is the name of a case.
fn cases(file: &File) -> Vec<(usize, String)> {
    if !file.is_rust() {
        return Vec::new();
    }
    let source = file.source();
    let is_name = |word: &&str| word.matches('_').count() >= 2 && word.chars().all(super::is_word);
    let lines = source.texts.iter().zip(&source.test).enumerate();
    let tests = lines.filter(|(_, (text, is_test))| **is_test && text.contains('_'));
    let words = tests.map(|(at, (text, _))| {
        let names: Vec<&str> = text.split_whitespace().filter(is_name).collect();
        (at + 1, names.join(" ").replace('_', " "))
    });
    words.collect()
}

fn persons<'a>(path: &'a str, line: usize, prose: &str) -> impl Iterator<Item = Finding> + 'a {
    of_words(path, line, prose, PERSONS)
}

/// Findings for each word of `list` that `prose` contains.
fn of_words<'a>(
    path: &'a str,
    line: usize,
    prose: &str,
    list: &'static [(&'static str, &'static str)],
) -> impl Iterator<Item = Finding> + 'a {
    let lower = prose.to_lowercase();
    let words: Vec<&str> = lower.split(|c| !super::is_word(c)).collect();
    let named: Vec<_> = list.iter().filter(|(word, _)| words.contains(word)).collect();
    named.into_iter().map(move |(word, instead)| {
        Finding::new(path, line, format!("\"{word}\" is for persons: {instead}"))
    })
}

/// The strings of product code, by line from 1, without what is in backticks or braces.
fn texts(file: &File) -> Vec<(usize, String)> {
    if !file.is_rust() {
        return Vec::new();
    }
    let source = file.source();
    // Names of a format are not prose.
    let is_prose = |at: usize| !source.test[at] && !source.code[at].contains("serde(rename");
    let lines = source.texts.iter().enumerate();
    let product = lines.filter(|(at, text)| !text.is_empty() && is_prose(*at));
    product.map(|(at, text)| (at + 1, without_arguments(&outside_backticks(text)))).collect()
}

/// `text` without `{name}`, the arguments of a format.
fn without_arguments(text: &str) -> String {
    let mut rest = text;
    let mut found = String::new();
    while let Some((before, behind)) = rest.split_once('{') {
        found.push_str(before);
        rest = behind.split_once('}').map_or("", |(_, behind)| behind);
    }
    found + rest
}

fn outside_backticks(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// How many findings each folder has, the most first.
pub(crate) fn by_folder(found: &[Finding]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in found {
        let folder = finding.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *counts.entry(folder).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(folder, count)| (std::cmp::Reverse(*count), *folder));
    counts.iter().map(|(folder, count)| format!("{count:5} {folder}\n")).collect()
}

/// The lines that people read, from 1, without what is in backticks: comments of Rust, and
/// documents without their blocks of code.
fn prose(file: &File) -> Vec<(usize, String)> {
    let lines: Vec<&str> = match file.is_rust() {
        true => file.source().comments.iter().map(String::as_str).collect(),
        false => file.text.lines().collect(),
    };
    let mut fenced = false;
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let line = line.trim();
        if line.trim_start_matches(['/', '!', ' ']).starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !line.is_empty() {
            found.push((at + 1, outside_backticks(line)));
        }
    }
    found
}

mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&File::new(path, text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn doc_lines_that_need_their_neighbour_are_found() {
        for start in STARTS {
            assert_eq!(lines("a.rs", &format!("/// {start} a flow.\n")), [1], "{start}");
            assert_eq!(lines("a.rs", &format!("    //! {start}\n")), [1], "{start}");
        }
        let fine = "/// One of those.\n// Its end again.\nlet a = \"The same\";\n/// Itself.\n";
        assert_eq!(lines("a.rs", fine), []);
        assert_eq!(lines("docs/a.md", "It is so.\n"), []);
    }

    #[test]
    fn sentences_that_need_the_one_before_are_found() {
        for start in SENTENCE_STARTS {
            assert_eq!(lines("a.rs", &format!("/// A. {start} a flow.\n")), [1], "{start}");
            let document = format!("One. {start} two.\n\n- {start} three\nfour\n");
            assert_eq!(lines("docs/a.md", &document), [1, 3], "{start}");
        }
        assert_eq!(lines("a.rs", "// A. The same flow.\n/// All the same. Thoserows. \n"), []);
    }

    #[test]
    fn names_of_persons_deeds_are_found_in_code() {
        let text =
            "let told = 1;\nfn last_heard() {}\nstruct HostKnows;\nlet unheard = b\"told\";\n";
        assert_eq!(lines("tests/a.rs", text), [1, 2, 3]);
        assert_eq!(lines("a.rs", "fn who_leads() {}\n/// A user who may.\n"), [1]);
    }

    #[test]
    fn names_of_cases_in_strings_are_names() {
        let case = |word: &str| format!("(\"a_peer_is_{word}_of_it\", f),\n");
        let text = case("told") + &case("shown") + &case("who") + "[\"a peer told_it\"]\n";
        assert_eq!(lines("tests/a.rs", &text), [1, 3]);
        assert_eq!(lines("a.rs", &case("who")), []);
    }

    #[test]
    fn words_for_persons_are_found_in_comments_and_documents() {
        for (word, _) in PERSONS {
            assert_eq!(
                lines("a.rs", &format!("fn f() {{}} // A port {word} it.\n")),
                [1],
                "{word}"
            );
            assert_eq!(lines("docs/a.md", &format!("One\n{word}, two\n")), [2], "{word}");
        }
        assert_eq!(lines("a.rs", "/// Nobody else.\n"), [1]);
    }

    #[test]
    fn code_is_not_prose() {
        let text = "//! `tell` is a function.\n//! ```text\n//! it is told\n//! ```\nfn call() {}\n\
                    let a = \"`nobody` is {told}, {tell:?}\";\n";
        assert_eq!(lines("a.rs", text), []);
        assert_eq!(lines("docs/a.md", "```\ntell\n```\n`told`\n"), []);
    }

    #[test]
    fn words_for_persons_are_found_in_texts_of_products() {
        let text = "f(\"{a} nobody listens\");\ng(\"two \\\n    lines, told\");\n";
        assert_eq!(lines("a.rs", text), [1, 3]);
        assert_eq!(lines("tests/a.rs", text), []);
        assert_eq!(lines("a.rs", "#[serde(rename = \"told\")]\na: u8,\n"), []);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{text}}}\n");
        assert_eq!(lines("a.rs", &tests), []);
    }

    #[test]
    fn findings_are_counted_by_folder() {
        let found = [("a/b.rs", 1), ("a/c.rs", 2), ("d/e.rs", 3)];
        let found = found.map(|(path, line)| Finding::new(path, line, ""));
        assert_eq!(by_folder(&found), "    2 a\n    1 d\n");
    }
}
