//! Clients that a server cannot serve at once, on a network of three hosts: one that comes during
//! the session of another, and one that falls silent.

use system_tests::cases::Verdict::{self, Passed, Skipped};

use system_tests::lab::Lab;
use system_tests::process::Running;

/// `headrace ARGS` at `host`, which asks its peers for their MACs.
fn at(lab: &Lab, host: u32, what: &[&str]) -> Running {
    let addresses: Vec<String> =
        (0..3).map(|host| format!("{host}=192.0.2.{}", host + 1)).collect();
    let mut arguments = [what, &["--device", "eth0"]].concat();
    addresses.iter().for_each(|address| arguments.extend(["--at", address]));
    let host = host.to_string();
    if host != "0" {
        arguments.extend(["--host", &host]);
    }
    Running::start(Some(lab.name(host.parse().unwrap())), &arguments)
}

fn server(lab: &Lab) -> Running {
    let mut server = at(lab, 0, &["perf", "server", "--patience", "2"]);
    server.on_event("queue(s) of");
    server
}

/// A client of host 1 in a session that lasts until the client is ended.
fn endless(lab: &Lab) -> Running {
    let mut client = at(lab, 1, &["perf", "client", "--time", "90", "--json"]);
    client.on_event("session with");
    client
}

/// A client of host 2 that waits for so many seconds.
fn waiting(lab: &Lab, seconds: &str) -> Running {
    let what = ["perf", "client", "--bytes", "1MiB", "--verify", "--json", "--wait", seconds];
    at(lab, 2, &what)
}

/// A session goes on while another client asks for one. That client is answered where the server
/// has its MAC, and served once the session is over, however that ends.
pub(super) fn during_a_session() -> Verdict {
    let lab = match Lab::new(3, 9000) {
        Ok(lab) => lab,
        Err(reason) => return Skipped(reason),
    };
    let mut server = server(&lab);
    // The server would have to end the session to ask for the MAC of the second client.
    let first = endless(&lab);
    let unanswered = waiting(&lab, "2").wait();
    assert_eq!(unanswered.code, Some(1), "{unanswered:?}");
    assert!(unanswered.err.contains("no server answered"), "{unanswered:?}");
    let patient = waiting(&lab, "60");
    first.signal("INT");
    assert_eq!(first.wait().result()["stopped"], true);
    assert_eq!(patient.wait().result()["to_server"]["bytes"], 1 << 20);
    let first = endless(&lab);
    let refused = waiting(&lab, "2").wait();
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("host 1 has a session; one at a time"), "{refused:?}");
    let patient = waiting(&lab, "60");
    // A client that stands still is given up.
    first.signal("STOP");
    server.on_event("session with host 1 is over: nothing was received from its client for");
    assert_eq!(patient.wait().result()["to_server"]["bytes"], 1 << 20);
    first.signal("KILL");
    assert_eq!(first.wait().code, Some(-9));
    server.signal("INT");
    let ended = server.wait();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("3 sessions, 1 broken"), "{ended:?}");
    Passed
}
