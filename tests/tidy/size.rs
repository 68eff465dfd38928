//! Sizes: files, functions, lines, and that a file begins with a description.

use super::{File, Finding, Source, is_test_file, item_end, words_in};

const FILE_LINES: usize = 600;
const TEST_FILE_LINES: usize = 800;

const FUNCTION_LINES: usize = 70;
const TRAIT_METHODS: usize = 7;
const COLUMNS: usize = 100;

/// Checks one `.rs` file.
pub(crate) fn check(file: &File) -> Vec<Finding> {
    let (path, text, source) = (file.path.as_str(), file.text.as_str(), file.source());
    let mut found = Vec::new();
    if !text.starts_with("//!") {
        found.push(Finding::new(path, 1, "open the file with `//!`: what it is and is not"));
    }
    if path.ends_with("_tests.rs") {
        let to = path.replace("_tests.rs", "/tests.rs");
        found.push(Finding::new(path, 0, format!("tests beside their file: move it to {to}")));
    }
    let lines = text.lines().count();
    let most = if is_test_file(path) { TEST_FILE_LINES } else { FILE_LINES };
    if lines > most {
        found.push(Finding::new(path, 0, format!("{lines} lines, at most {most}: split it")));
    }
    for (at, line) in text.lines().enumerate() {
        let columns = line.chars().count();
        if columns > COLUMNS {
            let message = format!("{columns} columns, at most {COLUMNS}");
            found.push(Finding::new(path, at + 1, message));
        }
    }
    found.extend(functions(path, source));
    found.extend(traits(path, source));
    found
}

/// A function item has a name behind `fn`; a function pointer type has a parenthesis.
fn is_function(line: &str) -> bool {
    words_in(line, "fn").any(|at| line[at + 2..].trim_start().starts_with(super::is_word))
}

/// Traits with more methods than a reader keeps in mind.
fn traits(path: &str, source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, line) in source.code.iter().enumerate() {
        let rest = line.trim_start();
        let rest = rest.strip_prefix("pub").map_or(rest, |rest| {
            let rest = rest.strip_prefix("(super)").or(rest.strip_prefix("(crate)"));
            rest.unwrap_or(&line.trim_start()[3..]).trim_start()
        });
        if !rest.starts_with("trait ") {
            continue;
        }
        let indent = line.len() - line.trim_start().len() + 4;
        let body = &source.code[at..=item_end(&source.code, at).min(source.code.len() - 1)];
        let is_own = |line: &&String| line.len() - line.trim_start().len() == indent;
        let methods = body.iter().filter(is_own).filter(|line| is_function(line)).count();
        if methods > TRAIT_METHODS {
            let message = format!("trait of {methods} methods, at most {TRAIT_METHODS}: split it");
            found.push(Finding::new(path, at + 1, message));
        }
    }
    found
}

fn functions(path: &str, source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, line) in source.code.iter().enumerate() {
        if !is_function(line) {
            continue;
        }
        let lines = item_end(&source.code, at) + 1 - at;
        if lines > FUNCTION_LINES {
            let message = format!("function of {lines} lines, at most {FUNCTION_LINES}: delegate");
            found.push(Finding::new(path, at + 1, message));
        }
    }
    found
}

mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<(usize, String)> {
        check(&File::new("a.rs", text))
            .into_iter()
            .map(|finding| (finding.line, finding.message))
            .collect()
    }

    #[test]
    fn a_small_documented_file_passes() {
        assert_eq!(messages("//! Nothing.\nfn a(x: fn(u8)) {\n}\n"), []);
    }

    #[test]
    fn a_file_that_does_not_say_what_it_is_is_found() {
        assert_eq!(messages("fn a() {}\n").len(), 1);
    }

    #[test]
    fn a_long_file_is_found() {
        let text = |lines: usize| "//! A.\n".to_owned() + &"\n".repeat(lines - 1);
        assert_eq!(messages(&text(600)), []);
        assert_eq!(messages(&text(601)), [(0, "601 lines, at most 600: split it".into())]);
        assert_eq!(check(&File::new("a/tests.rs", text(800))), []);
        assert_eq!(check(&File::new("a/tests.rs", text(801))).len(), 1);
    }

    #[test]
    fn tests_beside_their_file_are_found() {
        let found = check(&File::new("b/a_tests.rs", "//! A.\n"));
        assert!(found.len() == 1 && found[0].message.ends_with("to b/a/tests.rs"), "{found:?}");
    }

    #[test]
    fn a_wide_line_is_found_and_counted_in_characters() {
        assert_eq!(messages(&format!("//! {}\n", "é".repeat(96))), []);
        assert_eq!(messages(&format!("//! {}\n", "é".repeat(97)))[0].0, 1);
    }

    #[test]
    fn a_long_function_is_found_and_its_neighbours_are_not() {
        let body = "    x(\"}\");\n".repeat(69);
        let text = format!("//! A.\nfn a() {{}}\nfn b(\n) {{\n{body}}}\nfn c();\n");
        let found = messages(&text);
        assert_eq!(found, [(3, "function of 72 lines, at most 70: delegate".into())]);
    }

    #[test]
    fn a_wide_trait_is_found_and_a_narrow_one_is_not() {
        let of = |methods: usize| {
            let methods = "    fn a(&self) {\n        fn inner() {}\n    }\n".repeat(methods);
            format!("//! A.\npub(super) trait A: B {{\n{methods}}}\nfn c() {{}}\n")
        };
        assert_eq!(messages(&of(7)), []);
        let found = (2, "trait of 8 methods, at most 7: split it".into());
        assert_eq!(messages(&of(8)), [found]);
    }
}
