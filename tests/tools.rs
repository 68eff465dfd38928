//! What other programs make of what Headrace writes: the HTML page of a report in a browser without
//! a window, completions in shells. A case whose program is not installed prints that and counts as
//! skipped, never as passed. Arguments filter by name as with libtest; `--list` lists.
#![allow(clippy::unwrap_used, reason = "a failing case panics")]

mod program;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use system_tests::cases::{self, Verdict};
use system_tests::examples::BALANCERS;

use program::headrace;

/// A name and what runs under it.
type Case = (&'static str, fn() -> Verdict);

/// Every case.
const CASES: &[Case] = &[
    ("the_page_of_a_report_works_in_a_browser", page),
    ("curves_of_a_page_come_and_go_tables_are_sorted_and_the_wheel_zooms", zoom),
    ("bash_reads_its_completions", || completions("bash")),
    ("zsh_reads_its_completions", || completions("zsh")),
    ("fish_reads_its_completions", || completions("fish")),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return cases::list(CASES.iter().map(|(name, _)| *name));
    }
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    cases::run(CASES.iter().copied().filter(|(name, _)| cases::is_wanted(name, &filters)))
}

/// The first of `names` that is installed; else why a case cannot run.
fn installed(names: &[&'static str]) -> Result<&'static str, Verdict> {
    let is_here = |name: &&&str| {
        Command::new(name).arg("--version").output().is_ok_and(|ran| ran.status.success())
    };
    let none = || Verdict::Skipped(format!("there is no {} here", names.join(", no ")));
    names.iter().find(is_here).copied().ok_or_else(none)
}

/// A browser that runs without a window.
fn browser() -> Result<&'static str, Verdict> {
    installed(&["chromium", "chromium-browser", "google-chrome"])
}

/// Calls `headrace` with `args`, which must succeed.
fn done(args: &[&str]) {
    let ran = headrace(args);
    assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
}

/// The page at `page` in a browser: its document after all scripts, and its console.
fn opened(browser: &str, home: &Path, page: &Path, more: &[&str]) -> (String, String) {
    let ran = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"])
        .args(["--virtual-time-budget=5000", "--window-size=1200,1600"])
        .arg(format!("--user-data-dir={}", home.display()))
        .args(more)
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&ran.stdout), text(&ran.stderr))
}

/// Clicks through the page, and leaves what it saw in an attribute of its body.
const DRIVER: &str = r#"<script>
window.addEventListener("error", (event) => { document.body.dataset.error = event.message; });
window.addEventListener("load", () => {
  const count = (what) => document.querySelectorAll(what).length;
  const shapes = () => count("svg path, svg rect, svg polyline");
  const rows = () =>
    [...document.querySelectorAll("tbody tr")].map((row) => row.textContent).join("|");
  const saw = [count(".legend button"), shapes()];
  document.querySelector(".legend button").click();
  saw.push(shapes(), count(".legend button.off"));
  document.querySelector(".legend button").click();
  saw.push(shapes(), count(".legend button.off"));
  const titles = document.querySelectorAll("th"), title = titles[titles.length - 1];
  title.click();
  const once = rows();
  title.click();
  saw.push(once === rows() ? 0 : 1);
  const outlines = () =>
    [...document.querySelectorAll("svg path")].map((path) => path.outerHTML).join();
  const linear = outlines(), scales = document.querySelectorAll(".scales button");
  scales.forEach((button) => button.click());
  saw.push(scales.length, linear === outlines() ? 0 : 1);
  // Error bars; boxes of the network: 16 hosts, 4 ToRs, 4 spines; a cell of the matrix a flow.
  saw.push(count("path.interval"), count("svg.network rect"), count("svg.matrix rect"));
  document.body.dataset.saw = saw.join(" ");
});
</script>"#;

/// No error, curves that come and go, logarithmic axes, tables that are sorted, a picture.
fn page() -> Verdict {
    let browser = match browser() {
        Ok(browser) => browser,
        Err(skipped) => return skipped,
    };
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (matrix, runs, pages) = (path("p.cm"), path("runs"), path("pages"));
    done(&["gen", "permutation", "--hosts", "16", "--size", "64KiB", "-o", &matrix]);
    let transports = "smartt,swift,dctcp";
    done(&["run", &matrix, "--transport", transports, "--seed", "1..3", "--out", &runs, "-q"]);
    done(&["report", &runs, "-o", &pages, "--format", "html,svg"]);
    let page = fs::read_to_string(format!("{pages}/report.html")).unwrap();
    let driven = dir.path().join("driven.html");
    fs::write(&driven, page.replacen("<main>", &format!("{DRIVER}<main>"), 1)).unwrap();
    let home = dir.path().join("home");
    let (document, console) = opened(browser, &home, &driven, &["--dump-dom"]);
    assert!(!document.contains("data-error"), "{document}");
    assert!(!console.contains("CONSOLE"), "{console}");
    let saw = document.split_once("data-saw=\"").expect("the page ran to its end").1;
    let saw: Vec<usize> =
        saw.split_once('"').unwrap().0.split(' ').map(|number| number.parse().unwrap()).collect();
    let [buttons, all, fewer, off, again, on, sorted, scales, scaled, drawn @ ..] = &saw[..] else {
        panic!("{saw:?}")
    };
    assert_eq!(drawn, [3, 24, 16 + 2], "intervals, network, matrix with its frame and its scale");
    assert_eq!((*buttons, *off, *on, *sorted), (3, 1, 0, 1), "{saw:?}");
    assert_eq!((*scales, *scaled), (2, 1), "axes become logarithmic: {saw:?}");
    assert!(fewer < all && again == all, "{saw:?}");
    let picture = dir.path().join("page.png");
    let shot = format!("--screenshot={}", picture.display());
    opened(browser, &home, &dir.path().join("pages/report.html"), &[&shot]);
    assert!(fs::read(&picture).unwrap().starts_with(b"\x89PNG"));
    Verdict::Passed
}

/// A curve goes and comes back, a table is sorted, the wheel zooms, a double click shows all.
fn zoom() -> Verdict {
    let browser = match browser() {
        Ok(browser) => browser,
        Err(skipped) => return skipped,
    };
    let script = r#"<script>
        const svg = document.querySelector("svg"), drawn = () => svg.innerHTML;
        const whole = drawn(), name = document.querySelector(".legend button");
        name.click(); const fewer = drawn(); name.click(); const all = drawn();
        const title = document.querySelector("th");
        const first = () => document.querySelector("td").textContent;
        title.click(); const low = first(); title.click(); const high = first();
        svg.dispatchEvent(new WheelEvent("wheel", { deltaY: -1, clientX: 200, clientY: 150 }));
        const near = drawn(); svg.dispatchEvent(new MouseEvent("dblclick"));
        document.body.textContent = ["seen", fewer.length < whole.length, all === whole, low < high,
            near !== whole, drawn() === whole].join(" ");
        </script></body>"#;
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (scenario, runs, pages) = (path("balancers.toml"), path("runs"), path("pages"));
    fs::write(&scenario, BALANCERS).unwrap();
    done(&["run", &scenario, "--quiet", "--out", &runs]);
    done(&["report", &runs, "-o", &pages, "--format", "html"]);
    let page = fs::read_to_string(format!("{pages}/report.html")).unwrap();
    let driven = dir.path().join("page.html");
    fs::write(&driven, page.replace("</body>", script)).unwrap();
    let (shown, _) = opened(browser, &dir.path().join("home"), &driven, &["--dump-dom"]);
    assert!(shown.contains("seen true true true true true"), "{shown}");
    Verdict::Passed
}

/// What `shell` itself says of its script.
fn completions(shell: &'static str) -> Verdict {
    if let Err(skipped) = installed(&[shell]) {
        return skipped;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join(shell);
    let ran = headrace(&["completions", shell]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    fs::write(&script, ran.out).unwrap();
    let read = Command::new(shell).arg("-n").arg(&script).output().unwrap();
    assert!(read.status.success(), "{read:?}");
    Verdict::Passed
}
