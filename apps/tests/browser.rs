//! The HTML page of a report in a browser without a window: no error, curves that come and go,
//! logarithmic axes, tables that are sorted, a picture. Where there is no Chromium, the test says
//! so and ends.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use std::fs;
use std::path::Path;
use std::process::Command;

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

fn browser() -> Option<&'static str> {
    let found = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(found)
}

fn headrace(args: &[&str]) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let line = std::iter::once("headrace").chain(args.iter().copied()).map(Into::into);
    let code = headrace::main_with(line, &mut out, &mut err);
    assert_eq!(code, 0, "{args:?}: {}", String::from_utf8_lossy(&err));
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

#[test]
fn the_page_of_a_report_works_in_a_browser() {
    let Some(browser) = browser() else {
        println!("skipped: there is no chromium here");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (matrix, runs, pages) = (path("p.cm"), path("runs"), path("pages"));
    headrace(&["gen", "permutation", "--hosts", "16", "--size", "64KiB", "-o", &matrix]);
    let transports = "smartt,swift,dctcp";
    headrace(&["run", &matrix, "--transport", transports, "--seed", "1..3", "--out", &runs, "-q"]);
    headrace(&["report", &runs, "-o", &pages, "--format", "html,svg"]);
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
}
