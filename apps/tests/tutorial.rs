//! The tutorial, command by command: each ends with exit code 0.
//!
//! One test in a process of its own, since the commands run in a directory of theirs.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use std::fs;

/// The contents of the blocks of `text` in the language `of`.
fn blocks<'t>(text: &'t str, of: &str) -> Vec<&'t str> {
    let begin = format!("```{of}\n");
    let block = |rest: &'t str| rest.split_once("```").map(|(block, _)| block);
    text.split(begin.as_str()).skip(1).filter_map(block).collect()
}

#[test]
fn every_command_of_the_tutorial_succeeds() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/TUTORIAL.md");
    let text = fs::read_to_string(page).unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::env::set_current_dir(dir.path()).unwrap();
    let matrices = blocks(&text, "text");
    assert_eq!(matrices.len(), 1, "the page has one matrix");
    fs::write("my.cm", matrices[0]).unwrap();
    let lines = blocks(&text, "sh");
    let commands: Vec<&str> = lines.iter().flat_map(|block| block.lines()).collect();
    assert!(commands.len() >= 10, "{commands:?}");
    for command in commands {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code =
            headrace::main_with(command.split_whitespace().map(Into::into), &mut out, &mut err);
        assert_eq!(code, 0, "{command}: {}", String::from_utf8_lossy(&err));
        let out = String::from_utf8_lossy(&out);
        if command == "headrace why first" {
            assert!(out.contains("3 flows to that host share it"), "{out}");
        }
    }
    for file in ["first/summary.json", "figures/report.html", "compared/scenario.json"] {
        assert!(fs::exists(file).unwrap(), "{file}");
    }
    let pictures = fs::read_dir("figures").unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = pictures.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert!(names.iter().any(|name| name.ends_with(".pdf")), "{names:?}");
}
