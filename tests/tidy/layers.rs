//! Which module of `transport` may name which: units <- wire <- policies <- flow <- endpoint.
//!
//! A module may use those of lower rank and itself, so policies never see each other. Modules that
//! are not listed are tools (containers, wheels): anyone may use them, they may use only rank 0.

use super::{Finding, Source, is_word};

const RANKS: &[(&str, u32)] = &[
    ("wire", 1),
    ("segment", 2),
    ("stats", 2),
    ("trace", 2),
    ("cc", 3),
    ("lb", 3),
    ("ec", 3),
    ("sched", 3),
    ("config", 4),
    ("flow", 5),
    ("endpoint", 6),
    ("record", 7),
    ("lib", 8),
];

fn rank(module: &str) -> u32 {
    RANKS.iter().find(|(name, _)| *name == module).map_or(0, |(_, rank)| *rank)
}

/// Checks one file of `transport/src`; other files pass.
pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    let Some(module) = path.strip_prefix("transport/src/") else { return Vec::new() };
    let parts: Vec<&str> = module.trim_end_matches(".rs").split('/').collect();
    let own = parts[0];
    // How many `super` lead from this file to the crate root.
    let depth = parts.len() - usize::from(parts.last() == Some(&"mod"));
    let to_root = "super::".repeat(depth);
    let source = Source::new(path, text);
    let mut found = Vec::new();
    let code: Vec<&str> = source.product_code().map(|(_, code)| code).collect();
    let numbers: Vec<usize> = source.product_code().map(|(line, _)| line).collect();
    let joined = code.join("\n");
    for prefix in ["crate::", to_root.as_str()] {
        for (at, _) in joined.match_indices(prefix) {
            let before = joined[..at].chars().next_back();
            if before.is_some_and(|c| is_word(c) || c == ':') {
                continue;
            }
            let line = numbers[joined[..at].matches('\n').count()];
            for used in first_names(&joined[at + prefix.len()..]) {
                let allowed = used == own || rank(used) < rank(own) || both_tools(used, own);
                if !allowed && used != "super" {
                    let message = format!("`{own}` must not use `{used}`: a layer above it");
                    found.push(Finding::new(path, line, message));
                }
            }
        }
    }
    found
}

fn both_tools(used: &str, own: &str) -> bool {
    rank(used) == 0 && rank(own) == 0
}

/// The modules that a path, or a group of paths in braces, starts with. Items of the crate root
/// have no lower-case module in front and are tools.
fn first_names(rest: &str) -> Vec<&str> {
    let name = |text: &str| text.chars().take_while(|c| is_word(*c)).map(char::len_utf8).sum();
    let Some(group) = rest.strip_prefix('{') else {
        let len: usize = name(rest);
        return vec![&rest[..len]];
    };
    let (mut names, mut depth, mut start) = (Vec::new(), 0usize, true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = true,
            c if depth == 0 && start && is_word(c) => {
                let len: usize = name(&group[at..]);
                names.push(&group[at..at + len]);
                start = false;
            }
            _ => {}
        }
    }
    names
}

mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(path, text).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_policy_may_not_use_the_endpoint_the_flow_or_another_policy() {
        let text = "use crate::units::Bytes;\nuse crate::flow::Flow;\nuse crate::{\n\
                    time::{Rate},\nendpoint::Endpoint,\n};\nfn a() { crate::lb::b() }\n";
        assert_eq!(lines("transport/src/cc/smartt.rs", text), [2, 3, 7]);
    }

    #[test]
    fn climbing_by_super_is_seen_through() {
        assert_eq!(lines("transport/src/cc/smartt.rs", "use super::super::flow::Flow;\n"), [1]);
        assert_eq!(lines("transport/src/cc/mod.rs", "use super::flow::Flow;\n"), [1]);
        assert_eq!(lines("transport/src/cc/smartt.rs", "use super::{Window, Path};\n"), []);
    }

    #[test]
    fn layers_may_use_what_lies_below_them() {
        let text = "use crate::cc::CcKind;\nuse crate::wire::Header;\nuse crate::{Rng, time};\n";
        assert_eq!(lines("transport/src/flow/tx.rs", text), []);
        assert_eq!(lines("transport/src/wire/mod.rs", "use crate::cc::CcKind;\n"), [1]);
        assert_eq!(lines("transport/src/slab.rs", "use crate::wire::Header;\n"), [1]);
    }

    #[test]
    fn tests_and_other_crates_may_use_anything() {
        let text = "#[cfg(test)]\nmod tests {\n    use crate::endpoint::Endpoint;\n}\n";
        assert_eq!(lines("transport/src/cc/smartt.rs", text), []);
        assert_eq!(lines("testbed/live/src/a.rs", "use crate::endpoint::Endpoint;\n"), []);
    }
}
