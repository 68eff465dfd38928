//! The C interface from C: the header is current, and the example program does what it says.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

use cbindgen::{Builder, Config, DocumentationStyle, Language, Style};

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The header as the code is now.
fn header() -> String {
    let config = Config {
        language: Language::C,
        style: Style::Both,
        cpp_compat: true,
        usize_is_size_t: true,
        documentation_style: DocumentationStyle::C,
        line_length: 100,
        include_guard: Some("HEADRACE_H".to_owned()),
        header: Some(
            "/* Headrace: applications in the process of the stack. docs/C_API.md says how.\n * \
             Made by cbindgen: UPDATE_HEADER=1 cargo test -p transport-ffi --test c_api */"
                .to_owned(),
        ),
        no_includes: true,
        sys_includes: vec!["stdint.h".to_owned()],
        ..Config::default()
    };
    let builder = Builder::new().with_config(config).with_src(here().join("src/ffi.rs"));
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_header_is_that_of_the_code() {
    let path = here().join("include/headrace.h");
    let made = header();
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "include/headrace.h is out of date: UPDATE_HEADER=1 cargo test -p transport-ffi --test \
         c_api\n{made}"
    );
}

/// Where cargo has put the shared library of this build.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let places = program.ancestors().skip(1).take(2);
    let library = places.map(Path::to_owned).find(|dir| dir.join("libheadrace_c.so").exists());
    library.expect("libheadrace_c.so is built with the tests")
}

#[test]
fn two_applications_in_c_exchange_messages_a_request_and_a_response() {
    let build = tempfile::tempdir().unwrap();
    let program = build.path().join("exchange");
    let library = library();
    let output = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .arg(&program)
        .arg(here().join("example/exchange.c"))
        .arg("-I")
        .arg(here().join("include"))
        .arg("-L")
        .arg(&library)
        .arg("-lheadrace_c")
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let output = Command::new(&program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    println!("{said}{errors}");
    assert!(output.status.success(), "{said}{errors}");
    assert_eq!(said, "1000 messages, 1 request, 1 response, ring full now and then\n");
}
