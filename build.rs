//! The one build script of the workspace; `dpdk-sys` runs it.
//!
//! The script finds the system's libdpdk (22.11 or newer) by pkg-config, compiles `src/shim.c` with
//! cc, has bindgen read `src/shim.h`, and links. It downloads nothing, builds no DPDK, and reads
//! only what pkg-config names. Bindings are made at build time because struct layouts differ
//! between DPDK releases.

use std::env;
use std::fmt::Display;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

/// The oldest release whose headers the shim is written for.
const OLDEST: (u32, u32) = (22, 11);

/// Libraries that `pkg-config --libs` leaves out because they are drivers, but whose API is called.
const DRIVER_LIBS: [&str; 1] = ["rte_net_ring"];

/// A directory with headers of DPDK has one of these.
const DPDK_HEADERS: [&str; 2] = ["rte_version.h", "rte_build_config.h"];

/// The functions taken from DPDK itself; everything inline comes through the shim.
const FUNCTIONS: [&str; 15] = [
    "rdpdk_.*",
    "rte_eal_(init|cleanup|alarm_set|hotplug_add|hotplug_remove|get_runtime_dir|iova_mode)",
    "rte_thread_(register|unregister)",
    "rte_extmem_(register|unregister)",
    "rte_(version|strerror)",
    "rte_pktmbuf_(pool_create|copy)",
    "rte_mbuf_(check|dynfield_register|dynflag_register|dyn_(rx|tx)_timestamp_register)",
    "rte_mempool_(free|avail_count)",
    "rte_ring_(create|free)",
    "rte_eth_from_rings",
    "rte_eth_dev_(count_avail|get_port_by_name|start|stop|close|set_mtu|adjust_nb_rx_tx_desc)",
    "rte_eth_(rx|tx)_queue_setup",
    "rte_eth_(stats_get|xstats_get|xstats_get_names|macaddr_get)",
    "rte_eth_(promiscuous_enable|tx_done_cleanup)",
    "rte_tel(emetry_register_cmd|_data_(alloc|free|start_dict|add_array_string))",
];

fn main() {
    println!("cargo:rerun-if-changed=../build.rs");
    println!("cargo:rerun-if-changed=src/shim.h");
    println!("cargo:rerun-if-changed=src/shim.c");
    let library = find_dpdk();
    watch_release(&library.include_paths);
    let flags = other_cflags();
    compile_shim(&library.include_paths, &flags);
    generate_bindings(&library.include_paths, &flags);
    for driver in DRIVER_LIBS {
        println!("cargo:rustc-link-lib={driver}");
    }
}

/// Has the script run again once another release of DPDK has been installed: inline functions and
/// structs of one release must not be linked with libraries of another. Packages keep the times of
/// their files, so the directories are watched, which change when a file in them is replaced.
fn watch_release(includes: &[PathBuf]) {
    for path in includes {
        let headers = DPDK_HEADERS.map(|name| path.join(name));
        if path.ends_with("include") {
            // The directory is not DPDK's alone, and may be large.
            let there = headers.iter().filter(|header| header.exists());
            there.for_each(|header| println!("cargo:rerun-if-changed={}", header.display()));
        } else if headers.iter().any(|header| header.exists()) {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
}

/// Probes pkg-config, which also prints the link lines of the core libraries.
fn find_dpdk() -> pkg_config::Library {
    let found = match pkg_config::Config::new().cargo_metadata(false).probe("libdpdk") {
        Ok(library) => library,
        Err(pkg_config::Error::Command { cause, .. }) => {
            fail("pkg-config cannot be run", &cause);
        }
        Err(_) => fail("libdpdk was not found", &search_path()),
    };
    if release(&found.version) < Some(OLDEST) {
        fail("libdpdk is too old", &format!("found {}, need 22.11 or newer", found.version));
    }
    match pkg_config::Config::new().probe("libdpdk") {
        Ok(library) => library,
        Err(cause) => fail("libdpdk was found, but its link flags were not", &cause),
    }
}

/// Says where pkg-config is set to look, which is the usual reason for a miss.
fn search_path() -> String {
    let set = ["PKG_CONFIG_LIBDIR", "PKG_CONFIG_PATH"]
        .into_iter()
        .filter_map(|name| env::var(name).ok().map(|value| format!("{name}={value}")));
    let set: Vec<String> = set.collect();
    let place = if set.is_empty() { "its default directories".into() } else { set.join(" ") };
    format!("pkg-config looked in {place}")
}

/// `22.11.11` -> `(22, 11)`.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-']).map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

/// The compiler flags that the pkg-config crate drops: `-include rte_config.h` and `-march=...`,
/// without which the inlines do not compile.
fn other_cflags() -> Vec<String> {
    let tool = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    let output = Command::new(tool).args(["--cflags-only-other", "libdpdk"]).output();
    match output {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            text.split_whitespace().map(str::to_owned).collect()
        }
        Err(cause) => fail("pkg-config cannot be run", &cause),
    }
}

fn compile_shim(includes: &[PathBuf], flags: &[String]) {
    let mut build = cc::Build::new();
    // The shim exists for its inlines: at -O0 each would be several calls deep.
    build.file("src/shim.c").includes(includes).opt_level(3).warnings(true);
    for flag in flags {
        build.flag(flag);
    }
    if let Err(cause) = build.try_compile("headrace_shim") {
        fail("the C shim does not compile against this libdpdk", &cause);
    }
}

fn generate_bindings(includes: &[PathBuf], flags: &[String]) {
    require_libclang();
    let mut builder = bindgen::Builder::default()
        .header("src/shim.h")
        .clang_args(includes.iter().map(|path| format!("-I{}", path.display())))
        .clang_args(flags)
        .allowlist_var("RDPDK_.*|RTE_IOVA_VA|RTE_IOVA_PA")
        // Mirrored by hand in lib.rs: newer headers hide its fields in anonymous unions.
        .blocklist_type("rte_mbuf")
        .opaque_type("rte_mempool|rte_ring|rte_device")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .generate_comments(false)
        .layout_tests(false)
        .rust_edition(bindgen::RustEdition::Edition2024);
    for function in FUNCTIONS {
        builder = builder.allowlist_function(function);
    }
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    let written = builder.generate().map_err(|cause| cause.to_string()).and_then(|b| {
        b.write_to_file(Path::new(&out).join("bindings.rs")).map_err(|e| e.to_string())
    });
    if let Err(cause) = written {
        fail("bindgen cannot read the headers of libdpdk", &cause);
    }
}

/// bindgen panics when it cannot load libclang; this turns that into the same clear message.
fn require_libclang() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let loaded = panic::catch_unwind(bindgen::clang_version);
    panic::set_hook(hook);
    if loaded.is_err() {
        let place = env::var("LIBCLANG_PATH").map_or_else(
            |_| "looked in the default directories".into(),
            |path| format!("LIBCLANG_PATH={path}"),
        );
        fail("libclang was not found", &place);
    }
}

/// Ends the build with what is missing and the commands that mend it.
fn fail(what: &str, detail: &dyn Display) -> ! {
    // Cargo shows one `error:` per line of this form, and nothing else needs reading.
    let detail = detail.to_string();
    println!("cargo::error={what} ({})", detail.lines().next().unwrap_or("no detail"));
    println!(
        "cargo::error=Headrace's vdev and nic worlds need libdpdk 22.11 or newer. To install it:"
    );
    println!(
        "cargo::error=  Debian, Ubuntu: sudo apt-get install -y libdpdk-dev dpdk libclang-dev \
         clang pkg-config gcc"
    );
    println!(
        "cargo::error=  Fedora, RHEL:   sudo dnf install -y dpdk-devel dpdk clang-devel clang \
         pkgconf-pkg-config gcc"
    );
    println!(
        "cargo::error=Without it, `cargo build --no-default-features` builds all but the vdev and \
         nic worlds."
    );
    process::exit(1);
}
