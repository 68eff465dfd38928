//! Checks that the things which documents name exist: functions, files, links and make targets; and
//! the fixed shape of the repository's root (docs/TESTING.md).

use std::collections::BTreeMap;
use std::path::Path;

use super::{File, Finding, Source, imports, words_in};

const MAKEFILE_LINES: usize = 100;

/// Names at the root of the repository, apart from dotfiles.
const TOP: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "build.rs",
    "Makefile",
    "README.md",
    "CITATION.cff",
    "LICENSE",
    "clippy.toml",
    "rustfmt.toml",
    "deny.toml",
    "dpdk-sys",
    "transport",
    "testbed",
    "apps",
    "docs",
    "tests",
];

/// Unknown names among those at the root.
pub(crate) fn top_level<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Finding> {
    let unknown = names.filter(|name| !name.starts_with('.') && !TOP.contains(name));
    unknown.map(|name| Finding::new(name, 0, "not a fixed top-level name: move it")).collect()
}

/// The targets of a Makefile.
pub(crate) fn targets(makefile: &str) -> Vec<String> {
    let rules = makefile.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
    let names = rules.filter_map(|line| line.split_once(':')).filter(|(_, r)| !r.starts_with('='));
    names.flat_map(|(names, _)| names.split_whitespace().map(String::from)).collect()
}

/// The Makefile itself.
pub(crate) fn makefile(path: &str, text: &str) -> Vec<Finding> {
    let lines = text.lines().count();
    if lines <= MAKEFILE_LINES {
        return Vec::new();
    }
    let message = format!("{lines} lines, at most {MAKEFILE_LINES}: one verb a job");
    vec![Finding::new(path, 0, message)]
}

/// `make X` in the code of a document, where X is no target.
pub(crate) fn make_targets(path: &str, text: &str, targets: &[String]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, code) in code_spans(text) {
        for at in words_in(&code, "make") {
            let rest = code[at + "make".len()..].trim_start();
            let is_target = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-';
            let target: String = rest.chars().take_while(is_target).collect();
            if !target.is_empty() && !targets.contains(&target) {
                let message = format!("`make {target}`: no such target in the Makefile");
                found.push(Finding::new(path, line, message));
            }
        }
    }
    found
}

/// Relative links of a document that lead nowhere, also on the site, which has the documents and
/// what lies beside them alone; and paths in backticks that do not exist.
pub(crate) fn links(path: &str, text: &str, root: &Path) -> Vec<Finding> {
    let folder = root.join(path).parent().map(Path::to_path_buf).unwrap_or_default();
    let on_site = |file: &str| match path.strip_prefix("docs/") {
        None => true,
        Some(page) => {
            let mut depth = page.matches('/').count();
            file.split('/').all(|part| match part {
                "" | "." => true,
                ".." => depth.checked_sub(1).is_some_and(|less| {
                    depth = less;
                    true
                }),
                _ => {
                    depth += 1;
                    true
                }
            })
        }
    };
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for (open, _) in line.match_indices("](") {
            let target = line[open + 2..].split(')').next().unwrap_or_default();
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let wrong = match file {
                "" => Some("leads nowhere").filter(|_| !has_heading(text, heading)),
                _ if !folder.join(file).exists() => Some("leads nowhere"),
                _ if !on_site(file) => Some("is not on the site: name the path in backticks"),
                _ => {
                    let there = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
                    Some("has no such heading").filter(|_| !has_heading(&there, heading))
                }
            };
            let finding = |wrong| Finding::new(path, at + 1, format!("link to `{target}` {wrong}"));
            found.extend(wrong.map(finding));
        }
    }
    for (line, code) in code_spans(text) {
        let file = code.split("::").next().unwrap_or_default();
        let is_path = TOP.iter().any(|top| file.starts_with(&format!("{top}/")));
        if is_path && !file.contains([' ', '<', '*', '{', '$']) && !root.join(file).exists() {
            found.push(Finding::new(path, line, format!("`{file}` does not exist")));
        }
    }
    found
}

/// Whether a document has the heading that `anchor` names; true without an anchor.
fn has_heading(text: &str, anchor: &str) -> bool {
    let name = |heading: &str| -> String {
        let kept = |c: char| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '_' || c == '-' => c.to_lowercase().next(),
            _ => None,
        };
        // Of a link its text alone.
        let mut parts = heading.split("](");
        let first = parts.next().unwrap_or_default().to_owned();
        let rest = parts.filter_map(|part| Some(part.split_once(')')?.1));
        rest.fold(first, |text, part| text + part).chars().filter_map(kept).collect()
    };
    let is = |line: &str| line.starts_with('#') && name(line.trim_matches(['#', ' '])) == anchor;
    // A line that begins with `#` inside a block of code is a comment.
    let mut outside = text.split("```").step_by(2).flat_map(str::lines);
    anchor.is_empty() || outside.any(is) || text.contains(&format!("id=\"{anchor}\""))
}

/// Documents that the contents of the site do not name.
pub(crate) fn contents(path: &str, text: &str, documents: &[&str]) -> Vec<Finding> {
    let named = |document: &&str| {
        let page = document.strip_prefix("docs/").unwrap_or(document);
        *document == path || text.contains(&format!("]({page})"))
    };
    let missing = documents.iter().filter(|document| !named(document));
    missing.map(|document| Finding::new(path, 0, format!("`{document}` is not in it"))).collect()
}

/// Stops of a journey, `path/to/file.rs::function` in backticks, whose function is not there or has
/// no caller outside tests, and numbered steps without a stop. A name in backticks behind a stop is
/// checked, too, where the stop's file has a function of that name.
pub(crate) fn stops(path: &str, text: &str, files: &[File]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut beside: Option<&Source> = None;
    let mut callers = Vec::new();
    let mut crates = BTreeMap::new();
    for (line, code) in code_spans(text) {
        let stop = code.split_once(".rs::");
        if let Some((file, _)) = stop {
            let file = files.iter().find(|known| known.path.strip_suffix(".rs") == Some(file));
            beside = file.map(File::source);
            callers =
                file.map(|file| possible_callers(file, files, &mut crates)).unwrap_or_default();
        }
        let Some(source) = beside else {
            if stop.is_some() {
                found.push(Finding::new(path, line, format!("`{code}`: no such file")));
            }
            continue;
        };
        let name = code.rsplit("::").next().unwrap_or(&code);
        let is_defined = source.product_code().any(|(_, line)| defines(line, name));
        if stop.is_some() && !is_defined {
            found.push(Finding::new(path, line, format!("`{code}`: no fn {name} in this file")));
        } else if is_defined && !is_called(name, &callers) {
            let message = format!("`{code}`: no caller outside tests");
            found.push(Finding::new(path, line, message));
        }
    }
    for (at, line) in text.lines().enumerate() {
        let numbered =
            line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if numbered && !line.contains(".rs::") {
            let message = "a stop names its `path/file.rs::function` on the numbered line";
            found.push(Finding::new(path, at + 1, message));
        }
    }
    found
}

/// Tests, which are sentences in backticks, that a document names and no file has.
pub(crate) fn tests_named(path: &str, text: &str, files: &[File]) -> Vec<Finding> {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_sentence = |name: &str| name.matches('_').count() >= 3 && name.chars().all(is_letter);
    let exists = |name: &str| {
        let begin = format!("fn {name}(");
        files.iter().any(|file| file.path.ends_with(".rs") && file.text.contains(&begin))
    };
    let missing =
        code_spans(text).into_iter().filter(|(_, name)| is_sentence(name) && !exists(name));
    missing
        .map(|(line, name)| Finding::new(path, line, format!("`{name}`: no such test")))
        .collect()
}

fn defines(code: &str, name: &str) -> bool {
    name.chars().all(super::is_word) && words_in(code, &format!("fn {name}")).next().is_some()
}

/// The files that may call what `file` defines: those of its crate that use it, directly or not,
/// and those of other crates that name its crate. Uses inside a crate are kept in `crates`.
fn possible_callers<'a>(
    file: &File,
    files: &'a [File],
    crates: &mut BTreeMap<String, Vec<imports::Use>>,
) -> Vec<&'a File> {
    let Some((folder, _)) = file.path.split_once("src/") else { return Vec::new() };
    let root = format!("{folder}src/");
    let read = || imports::Crate::read(&root, files).uses();
    let uses = crates.entry(root.clone()).or_insert_with(read);
    let users = imports::users(uses, &file.path);
    let manifest = files.iter().find(|file| file.path == format!("{folder}Cargo.toml"));
    let package = manifest.and_then(|file| file.text.split("name = \"").nth(1)?.split('"').next());
    let outside = package.map(|name| format!("{}::", name.replace('-', "_")));
    let may = |other: &&File| match other.path.strip_prefix(&root) {
        Some(_) => users.contains(other.path.as_str()),
        None => outside.as_ref().is_some_and(|name| other.text.contains(name)),
    };
    let code = files.iter().filter(|file| file.path.ends_with(".rs") && file.path.contains("src/"));
    code.filter(may).collect()
}

/// Whether the code of `files`, outside tests, calls a function of that name.
fn is_called(name: &str, files: &[&File]) -> bool {
    files.iter().filter(|file| file.text.contains(name)).any(|file| {
        file.source().product_code().any(|(_, code)| {
            !defines(code, name)
                && words_in(code, name).any(|at| code[at + name.len()..].starts_with(['(', ':']))
        })
    })
}

/// The code of a document with line numbers: spans in backticks, and lines of fenced or indented
/// blocks.
fn code_spans(text: &str) -> Vec<(usize, String)> {
    let mut spans = Vec::new();
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced || line.starts_with("    ") {
            spans.push((at + 1, line.to_owned()));
        } else {
            let odd = line.split('`').skip(1).step_by(2);
            spans.extend(odd.map(|span| (at + 1, span.to_owned())));
        }
    }
    spans
}

mod tests {
    use super::*;

    fn lines(found: &[Finding]) -> Vec<usize> {
        found.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_new_top_level_name_is_found() {
        let names = [".ci", "Cargo.toml", "scripts", "docs"];
        assert_eq!(top_level(names.into_iter())[0].path, "scripts");
        assert_eq!(top_level(names.into_iter()).len(), 1);
    }

    #[test]
    fn a_document_that_the_contents_lack_is_found() {
        let documents = ["docs/S.md", "docs/a.md", "docs/b/c.md", "docs/b/d.md"];
        let text = "- [A](a.md)\n  - [C](b/c.md)\n";
        let found = contents("docs/S.md", text, &documents);
        assert_eq!(found, [Finding::new("docs/S.md", 0, "`docs/b/d.md` is not in it".to_owned())]);
    }

    #[test]
    fn a_long_makefile_is_found() {
        assert_eq!(makefile("Makefile", &"a:\n".repeat(MAKEFILE_LINES)), []);
        assert_eq!(makefile("Makefile", &"a:\n".repeat(MAKEFILE_LINES + 1)).len(), 1);
    }

    #[test]
    fn make_targets_that_do_not_exist_are_found_in_code_only() {
        let targets = targets("x := 1\nall test-fast: build\n\techo a: b\n.PHONY: all\nbuild:\n");
        assert_eq!(targets, ["all", "test-fast", "build"]);
        let text = "make sure `make all`\n\n    make gone SEED=1\n```sh\n\
                    make lost && make build\n```\n`make`\n";
        assert_eq!(lines(&make_targets("README.md", text, &targets)), [3, 5]);
    }

    #[test]
    fn links_and_paths_that_lead_nowhere_are_found() {
        let text = "[a](WIRE.md) [b](gone.md)\n\
                    [c](https://x.org/) `docs/WIRE.md` `docs/no.md`\n\
                    `docs/<name>.md` [d](#over-here) `tests/tidy.rs::all`\n\
                    # Over [here](WIRE.md)\n\
                    [e](../README.md) [f](results/../WIRE.md)\n\
                    [g](TESTING.md#what-tidy-checks) [h](TESTING.md#what-it-does-not)\n\
                    [i](#nowhere)\n";
        let found = lines(&links("docs/a.md", text, &super::super::root()));
        assert_eq!(found, [1, 5, 6, 7, 2]);
        // A page beside the site has no such bounds.
        assert_eq!(
            links("README.md", "[a](docs/WIRE.md) [b](LICENSE)\n", &super::super::root()),
            []
        );
    }

    #[test]
    fn stops_without_function_file_or_name_are_found() {
        let files = journey("fn f(x: X) { x.go() }");
        let text = "1. `a/src/b.rs::go`\n2. `a/src/b.rs::X::go` and `a/src/b.rs::gone`\n\
                    3. `a/src/c.rs::go`\n4. none\n";
        assert_eq!(lines(&stops("docs/J.md", text, &files)), [2, 3, 4]);
    }

    #[test]
    fn tests_that_a_document_names_and_no_file_has_are_found() {
        let text = "fn a_word_is_a_name() {}\nfn a_word_is_a() {}\n".to_owned();
        let files = [File::new("a/tests/b.rs", text)];
        let text = "`a_word_is_a_name` `a.b_c_d_e`\n`a_word_is_gone`, `on_it`\n`a_word_is`\n";
        assert_eq!(lines(&tests_named("R.md", text, &files)), [2]);
    }

    fn journey(caller: &str) -> [File; 2] {
        let file = |path: &str, text: &str| File::new(path, text);
        let stop = "pub struct X;\nimpl X {\n fn go(&self) {}\n}\n";
        [file("a/src/b.rs", stop), file("a/src/d.rs", &format!("use crate::b::X; {caller}"))]
    }

    #[test]
    fn stops_without_a_caller_outside_tests_are_found_with_the_names_beside_them() {
        let text = "1. `a/src/d.rs::f` and then\n   `g`, or `h`.\n";
        let found = |caller: &str| lines(&stops("docs/J.md", text, &journey(caller)));
        assert_eq!(found("fn f() {}\nfn g() {}\nfn main() { f(); g() }\n"), []);
        assert_eq!(found("fn f() {}\nfn g() {}\nfn main() { f() }\n"), [2]);
        let tested = "fn f() {}\n#[cfg(test)]\nmod tests {\n fn a() { f() }\n}\n";
        assert_eq!(found(tested), [1]);
    }

    #[test]
    fn a_namesake_in_a_file_that_cannot_see_the_stop_is_no_caller() {
        let file = |path: &str, text: &str| File::new(path, text);
        let stop = file("a/src/b.rs", "pub fn go() {}\n");
        let manifest = file("a/Cargo.toml", "name = \"the-a\"\n");
        let found = |path: &str, text: &str| {
            let files = [stop.clone(), manifest.clone(), file(path, text)];
            stops("docs/J.md", "1. `a/src/b.rs::go`\n", &files).len()
        };
        assert_eq!(found("a/src/c.rs", "fn f(x: Y) { x.go() }\n"), 1);
        assert_eq!(found("a/src/c.rs", "use crate::b; fn f() { b::go() }\n"), 0);
        assert_eq!(found("z/src/c.rs", "use other::b; fn f() { b::go() }\n"), 1);
        assert_eq!(found("z/src/c.rs", "use the_a::b; fn f() { b::go() }\n"), 0);
    }
}
