//! The hosts of a case: a process each.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use system_tests::lab::Lab;

pub(crate) use system_tests::process::{Ended, Running};

/// Files of a case.
pub(crate) struct Files {
    dir: TempDir,
    hosts: u32,
    lab: Option<Lab>,
}

impl Files {
    /// The matrix `cm`, and a hosts file with `host(number)` behind each host's name.
    pub(crate) fn new(
        hosts: u32,
        cm: &str,
        lab: Option<Lab>,
        host: impl Fn(u32) -> String,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("matrix.cm"), cm).unwrap();
        let mut text = String::new();
        for number in 0..hosts {
            writeln!(text, "[[host]]\nname = \"h{number}\"\n{}", host(number)).unwrap();
        }
        fs::write(dir.path().join("hosts.toml"), text).unwrap();
        Self { dir, hosts, lab }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Puts `text` in front of the hosts.
    pub(crate) fn begin_hosts_with(&self, text: &str) {
        let path = self.path("hosts.toml");
        let hosts = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{text}{hosts}")).unwrap();
    }

    /// Puts `text` behind the hosts.
    pub(crate) fn end_hosts_with(&self, text: &str) {
        let path = self.path("hosts.toml");
        let hosts = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{hosts}{text}")).unwrap();
    }

    /// Gives each host its site.
    pub(crate) fn name_sites(&self, sites: &[&str]) {
        let path = self.path("hosts.toml");
        let mut hosts = fs::read_to_string(&path).unwrap();
        for (number, site) in sites.iter().enumerate() {
            let name = format!("name = \"h{number}\"\n");
            hosts = hosts.replace(&name, &format!("{name}site = \"{site}\"\n"));
        }
        fs::write(path, hosts).unwrap();
    }

    /// `headrace ARGUMENTS` at the device of host `number`.
    pub(crate) fn beside(&self, number: u32, arguments: &[&str]) -> Running {
        Running::start(self.lab.as_ref().map(|lab| lab.name(number)), arguments)
    }

    /// Has frames to host `number` pass a queue, where hosts are on a bridge.
    pub(crate) fn limit(&self, number: u32, queue: &str) -> Result<(), String> {
        self.lab.as_ref().unwrap().limit(number, queue)
    }

    /// This binary with `arguments` at the bridge.
    pub(crate) fn at_bridge(&self, arguments: &[&str]) -> Running {
        let program = std::env::current_exe().unwrap();
        let mut command = self.lab.as_ref().unwrap().at_bridge(&program);
        command.args(arguments);
        Running::of(command)
    }

    /// Takes the link of host `number` down, or up again, where hosts are on a bridge.
    pub(crate) fn link(&self, number: u32, up: bool) {
        self.lab.as_ref().unwrap().link(number, up).unwrap();
    }

    /// Starts host `number` with more flags.
    pub(crate) fn start(&self, number: u32, more: &[&str]) -> Running {
        let [matrix, hosts] = ["matrix.cm", "hosts.toml"].map(|name| self.path(name));
        let [matrix, hosts] = [&matrix, &hosts].map(|path| path.to_str().unwrap());
        let host = format!("h{number}");
        let words = ["run", matrix, "--world", "nic", "--json", "--host", &host, "--hosts", hosts];
        self.beside(number, &[&words, more].concat())
    }

    /// Starts all hosts with the same flags and waits for them.
    pub(crate) fn run(&self, more: &[&str]) -> Vec<Ended> {
        let all: Vec<Running> = (0..self.hosts).map(|number| self.start(number, more)).collect();
        all.into_iter().map(Running::wait).collect()
    }
}

/// The summary that a host printed, which is whole and sound.
pub(crate) fn summary(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let summary: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(summary["world"], "nic");
    assert_eq!(summary["audit"]["findings"], Value::Array(Vec::new()), "{summary}");
    assert_eq!(summary["flows"]["finished"], summary["flows"]["total"]);
    assert_eq!(summary["bytes"]["delivered"], summary["bytes"]["offered"]);
    for unknown in ["/packets/hops", "/packets/ecn_marked", "/queue_bytes"] {
        assert_eq!(summary.pointer(unknown), Some(&Value::Null), "{unknown}");
    }
    summary
}

/// The lines of flows.jsonl in `dir`.
pub(crate) fn flows(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("flows.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The value of a setting that acted in the run whose results are in `out`.
pub(crate) fn kept_setting(out: &Path, key: &str) -> String {
    let manifest = fs::read_to_string(out.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let mut settings = manifest["configuration"].as_array().unwrap().iter();
    let shown = settings.find(|setting| setting["key"] == key).unwrap();
    shown["value"].as_str().unwrap().to_owned()
}
