//! Hosts of two sites, and the border switches between them, a process each, over memif.

use serde_json::Value;

use crate::cases::{PATIENT, free_port, over_memif, same_story};
use crate::hosts::{Files, Running, flows, kept_setting};
use system_tests::cases::Verdict::{self, Passed};

/// A flow inside a site and a flow across.
const BOTH: &str = "Nodes 3\nConnections 2\n\
                    0->1 id 1 start 0 size 400000\n0->2 id 2 start 0 size 400000\n";
const MLCC: [&str; 4] = ["--transport", "mlcc", "--set", "mtu=1024"];

/// Hosts of these sites that wait for a border switch at sockets of their own; the name of the
/// socket of a host, by number.
fn sited(sites: &[&str]) -> (Files, impl Fn(usize) -> String) {
    let control = format!("control = \"127.0.0.1:{}\"", free_port());
    let run = format!("headrace-test-{}-{}", std::process::id(), free_port());
    let socket = move |host: usize| format!("socket={run}-{host},socket-abstract=yes");
    let hosts = u32::try_from(sites.len()).unwrap();
    let files = Files::new(hosts, BOTH, None, |host| {
        let (number, site) = (host + 1, sites[host as usize]);
        let device = format!("net_memif0,{},role=server", socket(host as usize));
        let site = if site.is_empty() { String::new() } else { format!("site = \"{site}\"\n") };
        format!("address = \"10.0.0.{number}/24\"\n{site}device = \"{device}\"\n{control}\n")
    });
    (files, socket)
}

/// Border switches 3 ms apart, between hosts 0 and 1 in the east and host 2 in the west. Devices
/// without a speed count as 100 Gb/s.
fn borders(files: &Files, socket: &impl Fn(usize) -> String, flags: &[&str]) -> [Running; 2] {
    let (wan, lans) = (socket(9), [vec![socket(0), socket(1)], vec![socket(2)]]);
    let ends = [("east", "role=server"), ("west", "role=client")];
    [0, 1].map(|end| {
        let (site, role) = ends[end];
        border(files, (site, flags), &lans[end], &format!("{wan},{role}"))
    })
}

/// The border switch of `site` between the devices of these sockets.
fn border(files: &Files, (site, flags): (&str, &[&str]), lan: &[String], wan: &str) -> Running {
    let hosts = files.path("hosts.toml");
    let fixed = "dci --json --wan-delay 3ms --mtu 1600 --buffers 16383 --wait 60";
    let mut words: Vec<String> = fixed.split_whitespace().map(str::to_owned).collect();
    let given = ["--site", site, "--hosts", hosts.to_str().unwrap()];
    words.extend(given.iter().chain(flags).map(|word| (*word).to_owned()));
    for (number, socket) in lan.iter().enumerate() {
        words.extend(["--lan".to_owned(), format!("net_memif{number},{socket},role=client")]);
    }
    words.extend(["--wan".to_owned(), format!("net_memif{},{wan}", lan.len())]);
    Running::alone(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Without a topology, MLCC controls the flow across and no other. Echoes between the sites take
/// the emulated distance, and the audit balances with the notes of the border switches.
pub(crate) fn bordered() -> Verdict {
    let (files, socket) = sited(&["east", "east", "west"]);
    let out = files.path("out0");
    let whole = [&PATIENT[..], &MLCC].concat();
    let first = [&whole[..], &["--out", out.to_str().unwrap()]].concat();
    let mut hosts = vec![files.start(0, &first)];
    hosts.extend([1, 2].map(|host| files.start(host, &whole)));
    let borders = borders(&files, &socket, &["--lan-rate", "100Gbps"]);
    let ended: Vec<_> = hosts.into_iter().map(Running::wait).collect();
    let switches = borders.map(|switch| {
        switch.signal("INT");
        switch.wait()
    });
    let summary = same_story(&ended);
    let lines = flows(&out);
    let controllers = [0, 1].map(|flow| (&lines[flow]["inter"], &lines[flow]["cc"]));
    assert_eq!(controllers, [(&false.into(), &"powertcp".into()), (&true.into(), &"mlcc".into())]);
    let longest = summary["per_host"][0]["base_rtt_max_us"].as_f64().unwrap();
    // Twice 3 ms, with some room for clocks: one switch without its distance is noticed.
    assert!(longest >= 5500.0, "{longest} us across");
    let books = switches.map(|ended| {
        assert_eq!(ended.code, Some(0), "{ended:?}");
        serde_json::from_str::<Value>(&ended.out).unwrap()
    });
    let noted: u64 = books.iter().map(|of| of["mlcc"]["switch_int"].as_u64().unwrap()).sum();
    let arrived = summary["counters"]["switch_notes"].as_u64().unwrap_or(0);
    assert!(arrived > 0 && arrived <= noted, "{arrived} of {noted}: {summary}");
    let west = &books[1]["mlcc"];
    assert!(west["advised"].as_u64() > Some(0) && west["advice_refused"] == 0, "{west}");
    Passed
}

/// Advice of more than the rate towards a host is not followed, and the operator can read why.
pub(crate) fn slow_lan() -> Verdict {
    let (files, socket) = sited(&["east", "east", "west"]);
    let hosts = [0, 1, 2].map(|host| files.start(host, &[&PATIENT[..], &MLCC].concat()));
    let borders = borders(&files, &socket, &["--lan-rate", "1Gbps"]);
    let ended = hosts.map(Running::wait);
    assert!(ended.iter().all(|host| host.code == Some(0)), "{ended:?}");
    let [_, west] = borders.map(|switch| {
        switch.signal("INT");
        switch.wait()
    });
    let counts: Value = serde_json::from_str(&west.out).unwrap();
    assert!(counts["mlcc"]["advice_refused"].as_u64() > Some(0), "{counts}");
    let line = "of more than --lan-rate 1.000Gbps, came and is not followed";
    assert_eq!(west.err.matches(line).count(), 1, "{}", west.err);
    Passed
}

/// Ports of a border switch mark data that leaves others behind, and none where a port never has
/// so many bytes.
pub(crate) fn marking() -> Verdict {
    let marked = |ecn: &str| {
        let (files, socket) = sited(&["east", "east", "west"]);
        let flags = [&PATIENT[..], &["--transport", "dcqcn", "--set", "mtu=1024"]].concat();
        let hosts = [0, 1, 2].map(|host| files.start(host, &flags));
        let borders = borders(&files, &socket, &["--lan-rate", "1Gbps", "--ecn", ecn]);
        let ended = hosts.map(Running::wait);
        assert!(ended.iter().all(|host| host.code == Some(0)), "{ended:?}");
        borders.map(|switch| {
            switch.signal("INT");
            let counts: Value = serde_json::from_str(&switch.wait().out).unwrap();
            counts["counters"]["marked"].as_u64().unwrap_or(0)
        })
    };
    let [east, west] = marked("2KB,9KB");
    assert!(east > 0 && west > 0, "{east} and {west} marks");
    assert_eq!(marked("5MB,6MB"), [0, 0]);
    Passed
}

/// UnoCC's alpha follows the sites that the hosts file names, where the topology has one.
pub(crate) fn alone_or_apart() -> Verdict {
    for (other, alpha) in [("west", "0.001"), ("east", "0.032")] {
        let files = over_memif("Nodes 2\nConnections 1\n0->1 id 1 start 0 size 400000\n");
        files.name_sites(&["east", other]);
        let out = files.path("out0");
        let whole = [&PATIENT[..], &["--transport", "uno", "--topo", "leaf-spine:1,1,2"]].concat();
        let first = [&whole[..], &["--out", out.to_str().unwrap()]].concat();
        let all = [files.start(0, &first), files.start(1, &whole)];
        same_story(&all.map(Running::wait));
        assert_eq!(kept_setting(&out, "cc.unocc.alpha"), alpha, "{other}");
    }
    Passed
}

/// Sites in an order that no assumed network has, a host without a site, and a topology with other
/// sites.
pub(crate) fn refused() -> Verdict {
    for (sites, topology, words) in [
        (["east", "west", "east"], None, ["east, west, east", "larger one before", "--topo"]),
        (["east", "west", "west"], Some("two-sites:2"), ["`h0` and `h1`", "two sites", "--topo"]),
        (["east", "", "west"], None, ["`h1` without a site", "site = ", "--topo"]),
        (["east"; 3], None, ["topology", "one site", "two sites with border switches"]),
    ] {
        let (files, _) = sited(&sites);
        let topology = topology.map(|name| vec!["--topo", name]).unwrap_or_default();
        let ended = files.start(0, &[&MLCC[..], &topology].concat()).wait();
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        assert!(words.iter().all(|word| ended.err.contains(word)), "{words:?}: {}", ended.err);
    }
    // No border switch is needed, so hosts wait for the others.
    let alone = ["--set", "cc.mlcc.signal=off", "--set", "nic.patience=1s"];
    for sites in [["east", "west", "east"], ["east", "", "west"]] {
        let ended = sited(&sites).0.start(0, &[&MLCC[..], &alone].concat()).wait();
        assert!(ended.code != Some(2) && ended.err.contains("h1"), "{ended:?}");
    }
    Passed
}
