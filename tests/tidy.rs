//! The machine-checked part of the style guide, run over the whole repository.
//!
//! Each check is a function from text to findings, with tests of its own that feed it violations;
//! the tests here apply it to every file and print all findings. Formatting and lints are `make
//! check`.

#[path = "tidy/mod.rs"]
mod tidy;

use tidy::{File, Finding, deps, docs, files, gates, layers, prose, root, seams, size, words};

/// Fails with every finding of `check` over the files that `wanted` picks.
fn apply(wanted: impl Fn(&str) -> bool, check: impl Fn(&File) -> Vec<Finding>) {
    let files = files();
    let wanted: Vec<&File> = files.iter().filter(|file| wanted(&file.path)).collect();
    assert!(!wanted.is_empty(), "the check saw no file");
    report(wanted.into_iter().flat_map(check).collect());
}

fn report(found: Vec<Finding>) {
    let lines: Vec<String> = found.iter().map(Finding::to_string).collect();
    assert!(lines.is_empty(), "{} findings:\n{}", lines.len(), lines.join("\n"));
}

fn rust(path: &str) -> bool {
    path.ends_with(".rs")
}

fn document(path: &str) -> bool {
    path == "README.md" || path.starts_with("docs/") && path.ends_with(".md")
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(root().join(path)).ok()
}

#[test]
fn files_and_functions_are_small_narrow_and_introduced() {
    apply(rust, size::check);
}

#[test]
fn banned_words_do_not_occur() {
    apply(rust, words::banned);
}

#[test]
fn names_of_types_have_one_meaning() {
    report(words::second_meanings(files()));
}

#[test]
fn types_that_a_crate_shows_have_names_of_their_own() {
    report(words::namesakes(files()));
}

#[test]
fn unsafe_stays_in_its_files_and_gives_its_reason() {
    apply(rust, words::unsafety);
}

#[test]
fn citations_lead_to_the_list_of_papers() {
    let keys = words::keys(&read("docs/PAPERS.md").unwrap_or_default());
    assert!(!keys.is_empty(), "docs/PAPERS.md lists no keys");
    apply(rust, |file| words::citations(file, &keys));
}

#[test]
fn only_listed_files_name_policies() {
    report(seams::check(files()));
}

#[test]
fn only_listed_files_ask_for_dpdk() {
    report(gates::check(files()));
}

#[test]
fn crates_depend_inward() {
    let manifest = |path: &str| path == "Cargo.toml" || path.ends_with("/Cargo.toml");
    apply(manifest, |file| deps::check(&file.path, &file.text));
    let files = files();
    apply(manifest, |file| deps::unused(&file.path, &file.text, files));
}

#[test]
fn lock_files_have_the_versions_of_the_root() {
    let of_root = read("Cargo.lock").unwrap_or_default();
    let beside = |path: &str| path.ends_with("/Cargo.lock");
    apply(beside, |file| deps::other_versions(&file.path, &file.text, &of_root));
}

#[test]
fn modules_depend_downward_in_every_crate() {
    report(layers::check(files()));
}

#[test]
fn no_circle_of_files_goes_from_folder_to_folder() {
    let files = files();
    let roots = layers::roots(files);
    assert!(roots.len() > 5, "{roots:?}");
    report(roots.iter().flat_map(|root| layers::crossing_circles(root, files)).collect());
}

#[test]
fn no_circle_of_files_is_inside_a_folder() {
    let files = files();
    let roots = layers::roots(files);
    report(roots.iter().flat_map(|root| layers::circles_inside(root, files)).collect());
}

#[test]
fn prose_is_about_things_and_stands_alone() {
    let files = files();
    let wanted = files.iter().filter(|file| rust(&file.path) || document(&file.path));
    let found: Vec<Finding> = wanted.flat_map(prose::check).collect();
    println!("findings by folder:\n{}", prose::by_folder(&found));
    report(found);
}

#[test]
fn documents_link_to_what_exists() {
    apply(document, |file| docs::links(&file.path, &file.text, &root()));
}

#[test]
fn the_site_has_every_document() {
    let (path, files) = ("docs/SUMMARY.md", files());
    let documents = files.iter().map(|file| file.path.as_str());
    let documents: Vec<&str> =
        documents.filter(|path| document(path) && *path != "README.md").collect();
    assert!(documents.len() > 20, "{documents:?}");
    report(docs::contents(path, &read(path).unwrap_or_default(), &documents));
}

#[test]
fn documents_name_make_targets_that_exist() {
    let targets = docs::targets(&read("Makefile").unwrap_or_default());
    apply(document, |file| docs::make_targets(&file.path, &file.text, &targets));
}

#[test]
fn the_packet_journey_stops_at_functions_that_exist() {
    let path = "docs/PACKET_JOURNEY.md";
    if let Some(text) = read(path) {
        report(docs::stops(path, &text, files()));
    }
}

#[test]
fn checks_that_were_taken_out_have_the_tests_that_are_named() {
    let path = "tests/mutants/README.md";
    let text = read(path).unwrap_or_default();
    let found = docs::tests_named(path, &text, files());
    assert!(docs::tests_named(path, &text, &[]).len() > 20, "{path} names few tests");
    report(found);
}

#[test]
fn the_makefile_is_short() {
    apply(|path| path == "Makefile", |file| docs::makefile(&file.path, &file.text));
}

#[test]
fn the_root_holds_only_its_fixed_names() {
    let ignored = tidy::ignored(&root());
    let entries = std::fs::read_dir(root()).into_iter().flatten().flatten();
    let names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    report(docs::top_level(
        names.iter().map(String::as_str).filter(|name| !ignored.iter().any(|entry| entry == name)),
    ));
}
