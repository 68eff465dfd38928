//! `headrace dci` between `perf` processes, over memif.

use std::fs;
use std::path::Path;
use std::thread;

use serde_json::Value;
use socket2::{Domain, SockAddr, Socket, Type};

use system_tests::process::Running;

use super::{Stage, Verdict};

/// The hosts as `perf` numbers them: the server in the west, the client in the east.
const HOSTS: &str = r#"
[[host]]
name = "server"
address = "10.0.0.1/24"
device = "net_memif0"
control = "127.0.0.1:4798"
site = "west"

[[host]]
name = "client"
address = "10.0.0.2/24"
device = "net_memif0"
site = "east"
"#;

/// The arguments of a border switch of `site` between the sockets `lan` and `wan` of `dir`.
fn arguments(dir: &Path, site: &str, lan: &str, wan: &str) -> Vec<String> {
    let hosts = dir.join("hosts.toml");
    fs::write(&hosts, HOSTS).unwrap();
    let device =
        |number: u32, socket: &str| format!("net_memif{number},socket={}/{socket}", dir.display());
    let text = format!(
        "dci --json --hosts {} --site {site} --lan {} --wan {} --wan-delay 3ms --lan-rate 1Gbps \
         --wan-rate 4Gbps --mtu 1600 --buffers 8191",
        hosts.display(),
        device(0, lan),
        device(1, wan),
    );
    text.split_whitespace().map(str::to_owned).collect()
}

fn start(arguments: &[String]) -> Running {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Running::alone(&arguments)
}

/// Two border switches 3 ms apart: every byte arrives, at the pace of the receiver's loop.
pub(super) fn carried() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let stage = Stage::memif(dir.path(), &[]);
    let mut west = start(&arguments(dir.path(), "west", "memif.sock,role=client", "wan"));
    let mut east = start(&arguments(dir.path(), "east", "lan", "wan,role=client"));
    west.on_event("frames pass");
    east.on_event("frames pass");
    let device = format!("net_memif0,socket={}/lan", dir.path().display());
    let terms = "perf client --json --verify --bytes 16MiB --segment 1024 --cc mlcc --lb ecmp \
                 --rate 1Gbps --rtt 7ms --wait 30";
    let mut terms: Vec<&str> = terms.split_whitespace().collect();
    terms.extend(["--device", &device]);
    let result = Running::alone(&terms).wait().result();
    assert_eq!(result["to_server"]["bytes"], 16 << 20, "{result:#}");
    let mut books = Vec::new();
    for switch in [&mut east, &mut west] {
        switch.signal("INT");
    }
    for switch in [east, west] {
        let ended = switch.wait();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        books.push(serde_json::from_str::<Value>(&ended.out).unwrap());
    }
    let [east, west] = &books[..] else { panic!("two switches") };
    // The sender's switch sends notes, the receiver's takes advice; no frame is lost on the way.
    assert!(east["mlcc"]["switch_int"].as_u64() > Some(100), "{east:#}");
    assert!(west["mlcc"]["advised"].as_u64() > Some(100), "{west:#}");
    // The flow, and that of the session's own notes.
    assert_eq!(west["mlcc"]["queues_peak"], 2, "{west:#}");
    for books in [east, west] {
        assert_eq!(books["audit"]["ok"], true, "{books:#}");
        assert!(books["counters"]["wrong_side"].is_null(), "{books:#}");
    }
    drop(stage.end());
    Verdict::Passed
}

/// Either border switch is killed and started again while a transfer is under way: hosts listen, so
/// that the next process finds them, and the other switch connects again.
pub(super) fn killed() -> Verdict {
    for victim in ["east", "west"] {
        let dir = tempfile::tempdir().unwrap();
        let stage = Stage::memif(dir.path(), &[]);
        let device = format!("net_memif0,socket={}/lan,role=server", dir.path().display());
        let terms = "perf client --json --verify --bytes 24MiB --segment 1024 --cc mlcc --lb ecmp \
                     --rate 200Mbps --rtt 7ms --wait 60";
        let mut terms: Vec<&str> = terms.split_whitespace().collect();
        terms.extend(["--device", &device]);
        let mut client = Running::alone(&terms);
        client.on_event("queue(s) of");
        let begin = |site: &str| {
            let (lan, wan) =
                if site == "west" { ("memif.sock", "wan") } else { ("lan", "wan,role=client") };
            let lan = format!("{lan},role=client");
            let arguments = arguments(dir.path(), site, &lan, wan);
            let slow = |argument: String| argument.replace("1Gbps", "200Mbps");
            let mut switch = start(&arguments.into_iter().map(slow).collect::<Vec<_>>());
            switch.on_event(&format!("{}/{lan}", dir.path().display()));
            switch
        };
        let (mut west, mut east) = (begin("west"), begin("east"));
        west.on_event("frames pass");
        east.on_event("frames pass");
        client.on_event(" s  sent");
        let (dead, other) = if victim == "west" { (&mut west, &east) } else { (&mut east, &west) };
        dead.signal("KILL");
        let mut again = begin(victim);
        again.on_event("frames pass");
        let result = client.wait().result();
        assert_eq!(result["to_server"]["bytes"], 24 << 20, "{victim}: {result:#}");
        other.signal("INT");
        again.signal("INT");
        let other = if victim == "west" { east } else { west };
        for (name, switch) in [("the other", other), ("the next", again)] {
            let ended = switch.wait();
            assert_eq!(ended.code, Some(0), "{victim}, {name}: {ended:?}");
            let books: Value = serde_json::from_str(&ended.out).unwrap();
            assert_eq!(books["audit"]["ok"], true, "{victim}, {name}: {books:#}");
            let connected = books["counters"]["reconnected"].as_u64();
            let is_far = victim == "west" && name == "the other";
            assert_eq!(connected, is_far.then_some(1), "{victim}, {name}: {books:#}");
        }
        drop(stage.end());
    }
    Verdict::Passed
}

/// A process listens at the socket of a device that was lost, and never answers: the device behind
/// it is connected again all the same.
pub(super) fn unanswered() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let host = |socket: &str| {
        let device = format!("net_memif0,socket={}/{socket}", dir.path().display());
        let mut host = Running::alone(&["perf", "server", "--device", &device]);
        host.on_event("queue(s) of");
        host
    };
    let hosts = ["first", "second"].map(host);
    let mut arguments = arguments(dir.path(), "west", "first,role=client", "wan");
    let second = format!("net_memif2,socket={}/second,role=client", dir.path().display());
    arguments.extend(["--lan".to_owned(), second.clone()]);
    let mut switch = start(&arguments);
    switch.on_event("frames pass");
    for host in hosts {
        host.signal("KILL");
        assert_eq!(host.wait().code, Some(-9));
    }
    let silent = dir.path().join("first");
    fs::remove_file(&silent).unwrap();
    let listener = Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap();
    listener.bind(&SockAddr::unix(&silent).unwrap()).unwrap();
    listener.listen(8).unwrap();
    thread::spawn(move || {
        let mut held = Vec::new();
        while let Ok(connection) = listener.accept() {
            held.push(connection);
        }
    });
    let host = host("second");
    switch.on_event(&format!("{second}: connected again"));
    for process in [host, switch] {
        process.signal("INT");
        let ended = process.wait();
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    Verdict::Passed
}

/// Devices and hosts that cannot be are refused before DPDK starts.
pub(super) fn refused() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let wrong = |change: &dyn Fn(&mut Vec<String>), words: [&str; 2]| {
        let mut arguments = arguments(dir.path(), "west", "lan", "wan");
        change(&mut arguments);
        let ended = start(&arguments).wait();
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(words.iter().all(|word| ended.err.contains(word)), "{words:?}: {}", ended.err);
    };
    let value = |arguments: &mut Vec<String>, flag: &str, value: &str| {
        let at = arguments.iter().position(|argument| argument == flag).unwrap();
        arguments[at + 1] = value.to_owned();
    };
    let same = |arguments: &mut Vec<String>| {
        value(arguments, "--lan", "net_memif0");
        value(arguments, "--wan", "net_memif0");
    };
    wrong(&same, ["--wan: found `net_memif0` twice", "each device once"]);
    let in_site = |arguments: &mut Vec<String>| {
        let lan = arguments.iter().position(|argument| argument == "--lan").unwrap();
        let again = [arguments[lan].clone(), arguments[lan + 1].clone()];
        arguments.extend(again);
    };
    wrong(&in_site, ["--lan: found", "twice"]);
    let spelled = |arguments: &mut Vec<String>| {
        value(arguments, "--lan", "net_memif0");
        value(arguments, "--wan", "net_memif1,socket=headrace,role=server");
    };
    wrong(&spelled, ["`net_memif0` and `net_memif1", "one device or end of a link twice"]);
    let unmarked = |arguments: &mut Vec<String>| {
        arguments.extend(["--ecn", "1GB,2GB"].map(str::to_owned));
    };
    wrong(&unmarked, ["a KMIN of 1000000000 bytes", "--buffers"]);
    let distant = |arguments: &mut Vec<String>| value(arguments, "--wan-delay", "100s");
    wrong(&distant, ["'--wan-delay", "from 0us to 900ms"]);
    wrong(&|arguments| value(arguments, "--wan", "net_tap0"), ["an MTU of 1500", "1600"]);
    wrong(&|arguments| value(arguments, "--site", "north"), ["0 hosts at `north`", "hosts.toml"]);
    let twice = |arguments: &mut Vec<String>| {
        arguments.extend(["--wan", "net_memif7"].map(str::to_owned));
    };
    wrong(&twice, ["--wan: found 2 devices", "two-dc-leaf:"]);
    let set = |value: &str, words| {
        let with = |arguments: &mut Vec<String>| {
            arguments.extend(["--set".to_owned(), value.to_owned()]);
        };
        wrong(&with, words);
    };
    set("dci.queues=0", ["--set: found `dci.queues=0`", "in 1..=1048576"]);
    set("switch.dci.buffer=99", ["--set: found `switch.dci.buffer`, 99 bytes", "at least a frame"]);
    set("switch.queue=1MB", ["--set: found `switch.queue`", "switch.dci."]);
    let both = HOSTS.replace("10.0.0.2", "10.0.0.1");
    let both_sides = |arguments: &mut Vec<String>| {
        fs::write(dir.path().join("both.toml"), &both).unwrap();
        value(arguments, "--hosts", &dir.path().join("both.toml").display().to_string());
    };
    wrong(&both_sides, ["the address 10.0.0.1 again", "both.toml:11"]);
    Verdict::Passed
}
