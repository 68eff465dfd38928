//! Words: banned types and macros, marks of unfinished work, names of one meaning, `unsafe`,
//! citation keys.

use std::collections::BTreeMap;

use super::{File, Finding, Source, words_in};

/// A word that must not occur, where, and what to write instead.
struct Ban {
    word: &'static str,
    applies: fn(&str) -> bool,
    in_tests: bool,
    instead: &'static str,
}

const BANS: &[Ban] = &[
    Ban { word: "std::time", applies: is_core, in_tests: true, instead: CLOCK },
    Ban { word: "SystemTime", applies: is_core, in_tests: true, instead: CLOCK },
    Ban { word: "thread_local!", applies: is_core, in_tests: true, instead: "pass state in" },
    Ban { word: "thread_rng", applies: anywhere, in_tests: true, instead: CHANCE },
    Ban { word: "StdRng", applies: anywhere, in_tests: true, instead: CHANCE },
    Ban { word: "SmallRng", applies: anywhere, in_tests: true, instead: CHANCE },
    Ban { word: "HashMap", applies: anywhere, in_tests: true, instead: "a BTreeMap or a slab" },
    Ban { word: "HashSet", applies: anywhere, in_tests: true, instead: "a BTreeSet or a bitmap" },
    Ban { word: ".unwrap()", applies: not_build, in_tests: false, instead: "an error or assert!" },
    Ban { word: "todo!", applies: anywhere, in_tests: true, instead: "the code" },
    Ban { word: "unimplemented!", applies: anywhere, in_tests: true, instead: "the code" },
    Ban { word: "dbg!", applies: anywhere, in_tests: true, instead: "a trace record" },
    Ban { word: "println!", applies: may_not_print, in_tests: false, instead: PRINT },
    Ban { word: "print!", applies: may_not_print, in_tests: false, instead: PRINT },
    Ban { word: "eprintln!", applies: may_not_print, in_tests: false, instead: PRINT },
    Ban { word: "eprint!", applies: may_not_print, in_tests: false, instead: PRINT },
];

const CLOCK: &str = "transport::time; drivers hand the clock in";
const CHANCE: &str = "transport::Rng, forked for the component";
const PRINT: &str = "a value that apps/ prints, or tracing";

/// Spelt in halves, so that this file passes its own check.
const MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

const UNSAFE_ALLOWED: &[&str] = &[
    "transport/dpdk/src/buffers/mbuf.rs",
    "transport/dpdk/src/device/port.rs",
    "transport/dpdk/src/eal/mod.rs",
    "transport/dpdk/src/eal/error.rs",
    "transport/dpdk/src/eal/system.rs",
    "transport/dpdk/src/device/ethdev.rs",
    "transport/dpdk/src/buffers/ext_buf.rs",
    "transport/dpdk/src/buffers/pages.rs",
    "transport/dpdk/src/buffers/pool.rs",
    "transport/dpdk/src/buffers/region.rs",
    "transport/dpdk/src/eal/cards.rs",
    "transport/dpdk/src/payload/memory.rs",
    "transport/dpdk/src/buffers/ring.rs",
    "transport/dpdk/src/buffers/stamp_field.rs",
    "transport/dpdk/src/telemetry/rte.rs",
    "transport/ffi/src/ffi.rs",
    "transport/ffi/src/ffi/attach.rs",
    "transport/ffi/src/ffi/events.rs",
    "transport/ffi/src/ffi/messages.rs",
    "transport/ffi/src/ffi/region.rs",
    "transport/gf/src/x86/mod.rs",
    "transport/gf/src/x86/gfni.rs",
    "transport/gf/src/x86/avx2.rs",
    "testbed/fabric/src/pod/x86/mod.rs",
    "testbed/fabric/src/pod/x86/avx2.rs",
    "testbed/fabric/src/pod/x86/avx512.rs",
];

fn anywhere(_: &str) -> bool {
    true
}

fn not_build(path: &str) -> bool {
    path != "build.rs"
}

fn is_core(path: &str) -> bool {
    path.starts_with("transport/src/") || path.starts_with("testbed/fabric/src/")
}

fn may_not_print(path: &str) -> bool {
    !path.starts_with("apps/") && !path.contains("/benches/") && path != "build.rs"
}

/// Banned words in one `.rs` file.
pub(crate) fn banned(file: &File) -> Vec<Finding> {
    let (path, source) = (file.path.as_str(), file.source());
    let mut found = Vec::new();
    // A map with a named hasher has the same order in every run; std's has not.
    let names = |word: &str| source.code.iter().any(|code| words_in(code, word).next().is_some());
    let hashes_in_order =
        names("hashbrown") && (names("BuildHasherDefault") || names("BuildHasher"));
    let excused = |ban: &&Ban| hashes_in_order && ban.word.starts_with("Hash");
    for (at, (code, comment)) in source.code.iter().zip(&source.comments).enumerate() {
        for ban in BANS.iter().filter(|ban| (ban.applies)(path) && !excused(ban)) {
            if (ban.in_tests || !source.test[at]) && words_in(code, ban.word).next().is_some() {
                let message = format!("`{}` is banned here: use {}", ban.word, ban.instead);
                found.push(Finding::new(path, at + 1, message));
            }
        }
        for mark in MARKS {
            if words_in(comment, mark).next().is_some() {
                let message = format!("`{mark}` in a comment: do it, or open an issue");
                found.push(Finding::new(path, at + 1, message));
            }
        }
    }
    found
}

/// Names of types that once stood for several ideas: product code declares each at most once.
const ONE_MEANING: &[&str] = &[
    "Arrival",
    "Arrivals",
    "Audit",
    "Backlog",
    "Border",
    "Code",
    "Context",
    "Counts",
    "Crew",
    "DemandEnd",
    "Due",
    "Histogram",
    "Hop",
    "Key",
    "Line",
    "Link",
    "Links",
    "Memo",
    "Memory",
    "Message",
    "Monitor",
    "Network",
    "Note",
    "Offer",
    "Order",
    "Origin",
    "Outcome",
    "Outgoing",
    "Packets",
    "Part",
    "Places",
    "Plan",
    "PodDecider",
    "Port",
    "Ports",
    "Receiving",
    "Report",
    "Run",
    "Scheduler",
    "Setup",
    "Slot",
    "Source",
    "Step",
    "Switch",
    "Terms",
    "Turn",
    "Verdict",
    "Watch",
    "Window",
];

/// Names that have a meaning as a variant already, and the variant: no type has them.
const OF_VARIANTS: &[(&str, &str)] = &[("Place", "Placement::Place, where the bytes of data go")];

/// Second declarations of a name in [`ONE_MEANING`], and types with a name in [`OF_VARIANTS`].
pub(crate) fn second_meanings(files: &[File]) -> Vec<Finding> {
    let mut first: BTreeMap<&str, String> = BTreeMap::new();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        for (line, code) in file.source().product_code() {
            let Some(name) = declared(code) else { continue };
            if let Some((_, variant)) = OF_VARIANTS.iter().find(|(of, _)| *of == name) {
                let message = format!("`{name}` is {variant}: name this idea otherwise");
                found.push(Finding::new(&file.path, line, message));
            }
            let Some(name) = ONE_MEANING.iter().find(|one| **one == name) else { continue };
            let here = format!("{}:{line}", file.path);
            if let Some(other) = first.get(name) {
                let message = format!("`{name}` is a type at {other}: name this idea otherwise");
                found.push(Finding::new(&file.path, line, message));
            } else {
                first.insert(name, here);
            }
        }
    }
    found
}

/// Names that two types of one crate have, both visible beyond their files, and why.
const NAMESAKES: &[(&str, &str)] = &[
    ("", "a name that a macro makes"),
    ("Account", "an outgoing flow, as each scheduler keeps it"),
    ("Mlcc", "the halves of MLCC at the sender and at the receiver"),
    ("MlccParams", "their settings"),
    ("Pfabric", "the controller and the scheduler of pFabric"),
    ("Records", "what a scheduler has sent and not seen answered"),
    ("Signal", "what each half of MLCC follows"),
];

/// Types of one crate that have one name and are visible beyond their files.
pub(crate) fn namesakes(files: &[File]) -> Vec<Finding> {
    let mut first: BTreeMap<(&str, String), String> = BTreeMap::new();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let Some((root, _)) = file.path.split_once("/src/") else { continue };
        for (line, code) in file.source().product_code() {
            let shown = code.trim_start().starts_with("pub");
            let Some(name) = declared(code).filter(|_| shown) else { continue };
            if NAMESAKES.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let here = format!("{}:{line}", file.path);
            if let Some(other) = first.get(&(root, name.to_owned())) {
                let message = format!(
                    "`{name}` is a type at {other}, too: name one otherwise, or list the name in \
                     tests/tidy/words.rs"
                );
                found.push(Finding::new(&file.path, line, message));
            } else {
                first.insert((root, name.to_owned()), here);
            }
        }
    }
    found
}

/// The name of the type or trait that a line declares.
fn declared(code: &str) -> Option<&str> {
    let keywords = ["struct ", "enum ", "trait ", "type "];
    let (at, keyword) =
        keywords.iter().find_map(|word| words_in(code, word.trim()).next().zip(Some(word)))?;
    let name = code.get(at + keyword.len()..)?.trim_start();
    name.split(|c| !super::is_word(c)).next()
}

/// `unsafe` outside the files that may, and inside them without its `// SAFETY:`.
pub(crate) fn unsafety(file: &File) -> Vec<Finding> {
    let (path, source) = (file.path.as_str(), file.source());
    let allowed = path.starts_with("dpdk-sys/") || UNSAFE_ALLOWED.contains(&path);
    let mut found = Vec::new();
    for (at, code) in source.code.iter().enumerate() {
        let allows = code.contains("allow(unsafe_code") || code.contains("expect(unsafe_code");
        if !allowed && (allows || words_in(code, "unsafe").next().is_some()) {
            let message = "`unsafe` outside its files: move it behind one of them";
            found.push(Finding::new(path, at + 1, message));
        }
        let needs_reason = words_in(code, "unsafe").any(|word| {
            let next = code[word + "unsafe".len()..].trim_start();
            next.starts_with('{') || next.starts_with("impl") || next.is_empty()
        });
        if allowed && needs_reason && !has_reason(source, at) {
            let message =
                "`unsafe` needs `// SAFETY:` right above: the invariant and the code that keeps it";
            found.push(Finding::new(path, at + 1, message));
        }
    }
    found
}

/// Whether the comments on line `at`, or those directly above its statement, give a reason.
fn has_reason(source: &Source, at: usize) -> bool {
    if source.comments[at].contains("SAFETY:") {
        return true;
    }
    let mut above = at;
    while above > 0 {
        above -= 1;
        let code = source.code[above].trim();
        if source.comments[above].contains("SAFETY:") {
            return true;
        }
        // Go up through comments, attributes and the lines of the same statement.
        if code.ends_with([';', '{', '}']) || (code.is_empty() && source.comments[above].is_empty())
        {
            return false;
        }
    }
    false
}

/// The keys that docs/PAPERS.md defines: the first cell of each table row, in backticks.
pub(crate) fn keys(papers: &str) -> Vec<String> {
    let cells = papers.lines().filter_map(|line| line.strip_prefix("| `"));
    cells.filter_map(|rest| rest.split_once('`')).map(|(key, _)| key.to_owned()).collect()
}

/// Citations in comments whose key is neither listed nor an RFC (`rfc1624`): `//= key#place`,
/// `DEVIATION(key#place)` and, in a comment, the bare or escaped key in brackets.
pub(crate) fn citations(file: &File, keys: &[String]) -> Vec<Finding> {
    let (path, source) = (file.path.as_str(), file.source());
    let mut found = Vec::new();
    let mut fenced = false;
    for (at, comment) in source.comments.iter().enumerate() {
        // Blocks of code in rustdoc are not prose.
        if comment.trim_start_matches(['/', '!', ' ']).starts_with("```") {
            fenced = !fenced;
        }
        for key in cited(comment).into_iter().filter(|_| !fenced) {
            let rfc = key.strip_prefix("rfc").is_some_and(|number| number.parse::<u32>().is_ok());
            if !rfc && !keys.contains(&key) {
                let message = format!("citation key `{key}` is not in docs/PAPERS.md");
                found.push(Finding::new(path, at + 1, message));
            }
        }
    }
    found
}

fn cited(comment: &str) -> Vec<String> {
    let is_key = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let key_at = |text: &str| text.chars().take_while(|c| is_key(*c)).collect::<String>();
    let mut keys = Vec::new();
    if let Some(rest) = comment.trim_start().strip_prefix("//=") {
        keys.push(key_at(rest.trim_start()));
    }
    // Code spans are not citations: keep what lies outside of backticks.
    let prose: String = comment.split('`').step_by(2).collect::<Vec<_>>().join("`");
    for (at, word) in prose.match_indices("DEVIATION(") {
        keys.push(key_at(&prose[at + word.len()..]));
    }
    for (at, _) in prose.match_indices('[') {
        let key = key_at(&prose[at + 1..]);
        let behind = &prose[at + 1 + key.len()..];
        let closed = behind.strip_prefix(']').or(behind.strip_prefix("\\]"));
        let before = prose[..at].chars().next_back();
        let is_link = closed.is_some_and(|rest| rest.starts_with(['(', '[', ':']));
        let is_index = before.is_some_and(|c| super::is_word(c) || c == '#' || c == '!');
        let starts = key.starts_with(|c: char| c.is_ascii_lowercase());
        if closed.is_some() && starts && !is_link && !is_index {
            keys.push(key);
        }
    }
    keys
}

mod tests {
    use super::*;

    fn banned_in(path: &str, text: &str) -> Vec<Finding> {
        banned(&File::new(path, text))
    }

    fn unsafety_in(path: &str, text: &str) -> Vec<Finding> {
        unsafety(&File::new(path, text))
    }

    fn lines(found: &[Finding]) -> Vec<usize> {
        found.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn every_banned_word_is_found_where_it_is_banned() {
        for ban in BANS {
            let text = format!("//! A.\nfn a() {{ x{} }}\n", format_args!(" {}", ban.word));
            assert_eq!(lines(&banned_in("transport/src/a.rs", &text)), [2], "{}", ban.word);
        }
        for mark in MARKS {
            assert_eq!(lines(&banned_in("apps/src/a.rs", &format!("// {mark}: later\n"))), [1]);
        }
    }

    #[test]
    fn banned_words_pass_in_comments_strings_tests_and_the_crates_that_need_them() {
        let text = "//! No HashMap.\nconst A: &str = \"todo!\";\n\
                    #[cfg(test)]\nmod tests {\n fn a() { b.unwrap(); }\n}\n";
        assert_eq!(banned_in("transport/src/a.rs", text), []);
        assert_eq!(banned_in("apps/src/a.rs", "fn a() { println!(); }"), []);
        assert_eq!(banned_in("transport/dpdk/src/clock/tsc.rs", "use std::time::Duration;"), []);
        assert_eq!(banned_in("testbed/live/src/a.rs", "fn a() { writeln!(); MyHashMapper; }"), []);
        let map = "use hashbrown::HashMap;\ntype A = HashMap<u8, u8, BuildHasherDefault<H>>;\n";
        assert_eq!(banned_in("transport/src/a.rs", map), []);
        assert_eq!(lines(&banned_in("transport/src/a.rs", "use hashbrown::HashMap;\n")), [1]);
    }

    #[test]
    fn a_second_type_of_a_name_is_found_in_product_code() {
        let file = |path: &str, text: &str| File::new(path, text);
        for name in ONE_MEANING {
            let one = file("a/src/a.rs", &format!("pub(crate) struct {name}<T> {{}}\n"));
            let other = format!("struct {name}s;\n#[cfg(test)]\nenum {name} {{}}\n");
            let other = file("b/src/b.rs", &other);
            let second = file("c/src/c.rs", &format!("\ntrait {name}: Copy {{}}\n"));
            assert_eq!(second_meanings(&[one.clone(), other.clone()]), []);
            assert_eq!(lines(&second_meanings(&[one, other, second])), [2], "{name}");
        }
        for (name, _) in OF_VARIANTS {
            let text = format!("enum A {{\n    {name},\n}}\nenum {name} {{}}\n");
            assert_eq!(lines(&second_meanings(&[file("a/src/a.rs", &text)])), [4], "{name}");
        }
    }

    #[test]
    fn unsafe_is_found_outside_its_files() {
        let text = "fn a() { unsafe { b() } }\n#![allow(unsafe_code)]\n#![forbid(unsafe_code)]\n";
        assert_eq!(lines(&unsafety_in("testbed/live/src/a.rs", text)), [1, 2]);
    }

    #[test]
    fn unsafe_without_a_reason_is_found_in_its_files() {
        let bad = "fn a() {\n    b();\n    unsafe { c() }\n}\nunsafe impl Send for A {}\n";
        assert_eq!(lines(&unsafety_in("transport/dpdk/src/device/port.rs", bad)), [3, 5]);
        let good = "// SAFETY: the port is open.\nlet x =\n    unsafe { c() };\n\
                    // SAFETY: two\n// lines.\n#[inline]\nunsafe impl Send for A {}\n\
                    unsafe fn d();\nlet y = unsafe { e() }; // SAFETY: same line.\n";
        assert_eq!(unsafety_in("transport/dpdk/src/device/port.rs", good), []);
    }

    #[test]
    fn unknown_citation_keys_are_found_in_every_form() {
        let keys = keys("| key | what |\n|---|---|\n| `smartt` | A paper |\n");
        assert_eq!(keys, ["smartt"]);
        let text = "//! Source: [smartt] and [nowhere], \\[other\\].\n//= smartt#eq1\n\
                    //= gone#eq1\n// DEVIATION(lost#4): because\n\
                    /// See [`here`], [there](a.md), x[i], `[code]`, \\[rfc768\\].\n\
                    /// ```toml\n/// [section]\n/// ```\n\
                    #[attribute]\nlet a = [one];\n";
        assert_eq!(lines(&citations(&File::new("a.rs", text), &keys)), [1, 1, 3, 4]);
    }
}
