//! The C interface from C: the header is current, and the example program does what it says.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

#[path = "c_api/killed.rs"]
mod killed;

use cbindgen::{Builder, Config, DocumentationStyle, Language, Style};

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The header that cbindgen makes of the code.
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
    let parts = ["attach", "events", "messages", "region"].map(|part| format!("src/ffi/{part}.rs"));
    let sources = ["src/ffi.rs".to_owned()].into_iter().chain(parts);
    let builder = Builder::new().with_config(config);
    let builder = sources.fold(builder, |builder, file| builder.with_src(here().join(file)));
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

/// The folder in which cargo has put the shared library of this build.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let places = program.ancestors().skip(1).take(2);
    let library = places.map(Path::to_owned).find(|dir| dir.join("libheadrace_c.so").exists());
    library.expect("libheadrace_c.so is built with the tests")
}

/// Compiles an example, and returns the path of the program.
fn compiled(build: &Path, name: &str) -> PathBuf {
    compiled_from(&here().join("example").join(name).with_extension("c"), build)
}

/// Compiles a file of C, and returns the path of the program.
fn compiled_from(source: &Path, build: &Path) -> PathBuf {
    let program = build.join(source.file_stem().unwrap());
    let library = library();
    let output = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .arg(&program)
        .arg(source)
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
    program
}

/// The output of a program, which must have ended well.
fn said(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    println!("{said}{errors}");
    assert!(output.status.success(), "{said}{errors}");
    said
}

#[test]
fn two_applications_in_c_exchange_messages_a_request_and_a_response() {
    let build = tempfile::tempdir().unwrap();
    let program = compiled(build.path(), "exchange");
    let said = said(&Command::new(&program).output().unwrap());
    assert_eq!(said, "1000 messages, 1 request, 1 response, ring full now and then\n");
}

#[test]
fn of_two_connections_in_c_the_more_urgent_one_is_served_first() {
    let build = tempfile::tempdir().unwrap();
    let program = compiled_from(&here().join("tests/c_api/prio.c"), build.path());
    let order = |prios: [&str; 2]| said(&Command::new(&program).args(prios).output().unwrap());
    assert_eq!(order(["1", "0"]), "bbaa\n", "the second one is more urgent");
    assert_eq!(order(["0", "1"]), "aabb\n", "the first one is more urgent");
    let alike = order(["3", "3"]);
    assert!(alike.starts_with('a') && alike != "aabb\n", "in turns: {alike}");
}

#[test]
fn two_processes_in_c_send_a_region_over_memif_and_use_it_again() {
    let build = tempfile::tempdir().unwrap();
    let program = compiled(build.path(), "peer");
    let (listens, connects) = started(&program, "plain", [None; 2]);
    all_parts_come([listens, connects]);
}

/// The two processes of the example peer over a memif of this `name`, each with the keys of a file.
fn started(program: &Path, name: &str, keys: [Option<&Path>; 2]) -> (Child, Child) {
    let device = format!("net_memif0,socket=headrace-c-{name}-{}", std::process::id());
    let start = |role: &str, keys: Option<&Path>| {
        let mut command = Command::new(program);
        command.args([role, &device]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.args(keys.map(|file| format!("psk:{}", file.display())));
        command.spawn().unwrap()
    };
    (start("listens", keys[0]), start("connects", keys[1]))
}

#[track_caller]
fn all_parts_come([mut listens, connects]: [Child; 2]) {
    let connects = connects.wait_with_output().unwrap();
    if !connects.status.success() {
        // The process would wait for ever.
        drop(listens.kill());
    }
    assert_eq!(said(&connects), "32 of 32 parts came whole\n");
    assert_eq!(said(&listens.wait_with_output().unwrap()), "32 parts came whole\n");
}

/// A file with one key of this octet and others, which no other user may read.
fn key_file(path: &Path, octet: u8) {
    let digits = format!("{octet:02x}{}", "5b".repeat(31));
    std::fs::write(path, format!("1 {digits}\n")).unwrap();
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn processes_in_c_that_share_keys_seal_their_packets_and_those_that_do_not_never_meet() {
    let build = tempfile::tempdir().unwrap();
    let program = compiled(build.path(), "peer");
    let [ours, other] = ["ours", "other"].map(|name| build.path().join(name));
    key_file(&ours, 1);
    key_file(&other, 2);
    let (listens, connects) = started(&program, "sealed", [Some(&ours); 2]);
    all_parts_come([listens, connects]);
    for (name, keys) in [("alone", [Some(&*ours), None]), ("apart", [Some(&ours), Some(&other)])] {
        let (mut listens, mut connects) = started(&program, name, keys);
        // Longer than all of it takes where they share keys.
        std::thread::sleep(Duration::from_secs(2));
        let over = [&mut listens, &mut connects].map(|child| {
            let over = child.try_wait().unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            over
        });
        assert_eq!(over, [None; 2], "{name}");
    }
    std::fs::set_permissions(&ours, Permissions::from_mode(0o644)).unwrap();
    let (mut listens, connects) = started(&program, "readable", [None, Some(&ours)]);
    listens.kill().unwrap();
    listens.wait().unwrap();
    let refused = connects.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("headrace_start") && text.contains("(security: other users"), "{text}");
}

#[test]
fn what_is_missing_at_a_device_is_reported_to_a_program_in_c() {
    let build = tempfile::tempdir().unwrap();
    let program = compiled(build.path(), "peer");
    let refusal = |device: &str| {
        let output = Command::new(&program).args(["listens", device]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = refusal("nosuchif0");
    assert!(text.contains("there is no interface `nosuchif0`"), "{text}");
    let text = refusal("0000:ff:1f.7");
    assert!(text.contains("there is no PCI device 0000:ff:1f.7"), "{text}");
}
