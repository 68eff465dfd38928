//! A pod's hosts and their scheduler, and a host beside them that forges the packets between them.
//! The forger makes introductions that would begin and end pods, requests that would keep them, and
//! invitations and answers that would move clocks and grant epochs.

use std::net::Ipv4Addr;
use std::process::ExitCode;

use serde_json::Value;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use transport::units::Key;
use transport::wire::Note;
use transport::wire::addressing::IpPair;
use transport::wire::pod::{ClockState, DemandEnd, Grant, Invite, Join, Rts, Schd, Stamp};
use transport::{EntropyValue, Rng};

use crate::forger::{PACE, framed_between, send_until_input_ends};
use crate::victims::Attacker;
use system_tests::lab::Lab;
use system_tests::process::Running;

/// Hosts of the pod; behind them its scheduler, and the attacker.
const HOSTS: u8 = 2;

/// Forged packets that must have come to each victim.
const LEAST: u64 = 1000;

/// The address of a host, the scheduler or the attacker.
const fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, number + 1)
}

/// A forged packet. In the name of a host it is an introduction of a late term, of a slow pod or of
/// another run, or a request for any number of bytes. In the name of the scheduler it is an
/// invitation, or a grant with a clock.
fn forged(turn: u64, rng: &mut Rng) -> (u8, u8, Note) {
    let host = u8::try_from(turn % u64::from(HOSTS)).unwrap();
    let (to_scheduler, to_host) = ((host, HOSTS), (HOSTS, host));
    let [epoch, total] = [0; 2].map(|_: u32| rng.next_u32());
    let join = Join {
        run: 1 + u16::try_from(rng.below(1 << 15)).unwrap(),
        term: 65_534,
        hosts: HOSTS.into(),
        cells: 16,
        payload: 8192,
        cell: 8284,
        control: 92,
        kbps: 1_000_000,
        hop_ns: 20_000,
        guard_ns: 50_000,
        delay_ns: 300_000,
        early_ns: 50_000,
    };
    let term = u16::try_from(rng.below(9)).unwrap();
    let ((from, to), note) = match turn / u64::from(HOSTS) % 6 {
        0 => (to_scheduler, join.note()),
        1 => (to_scheduler, Join { kbps: 1, ..join }.note()),
        2 => (to_scheduler, Join { term, ..join }.note()),
        3 => {
            let clock = Some(ClockState { behind_gap: false, settled: true });
            let (mice, mice_len) = ([Rts::NO_MOUSE; _], 0);
            let update = Some((DemandEnd::Host(u16::from(1 - host)), total));
            let (arrived, arrived_in) = (total, 1 | u16::from(turn & 2 == 0) << 9);
            let lost = turn & 1 == 0;
            let rts = Rts { term, epoch, update, arrived, arrived_in, lost, mice, mice_len, clock };
            (to_scheduler, rts.note())
        }
        4 => (to_host, Invite { proof: Key(rng.next_u64() | 1) }.note()),
        _ => {
            let to = DemandEnd::Host(u16::from(1 - host));
            let (agg, layer, cells, mice_only) = (0, None, 16, false);
            let epochs = if turn & 16 == 0 { 1 } else { 8 };
            let grant = Grant { epoch, to, agg, layer, cells, epochs, total, mice_only };
            let stamp = Stamp { window: None, behind_gap: false, late: Some(-30_000) };
            let idle = Stamp { window: Some(epoch), ..stamp };
            let granted = turn & 8 == 0;
            let schd = Schd {
                term,
                grant: granted.then_some(grant),
                receipt: None,
                also: 0,
                standing: None,
                delivered: None,
                stamp: Some(if granted { stamp } else { idle }),
            };
            (to_host, schd.note())
        }
    };
    (from, to, note)
}

/// Sends forged notes until its input ends, and prints how many.
pub(crate) fn forge() -> ExitCode {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).unwrap();
    socket.set_header_included_v4(true).unwrap();
    let mut rng = Rng::new(7);
    send_until_input_ends(PACE, "0", |turn, port| {
        let (from, to, note) = forged(turn, &mut rng);
        let key = Key(rng.next_u64() | 1);
        let header = note.for_host(EntropyValue(from.into()), key);
        let ip = IpPair::V4 { src: address(from), dst: address(to) };
        let octets = framed_between(ip, &header, &[], port).split_off(14);
        let to = SockAddr::from(std::net::SocketAddrV4::new(address(to), 0));
        // A host may not be there yet.
        socket.send_to(&octets, &to).is_ok()
    })
}

/// Two flows one way, and one the other way.
const MATRIX: &str = "Nodes 2\nConnections 3\n0->1 id 1 start 0 size 400000\n\
                      1->0 id 2 start 0 size 300000\n0->1 id 3 start 500000 size 400000\n";

/// Makes the hosts file of a run of two hosts, and of their scheduler where ends are three, and the
/// file of its matrix.
pub(crate) fn files(dir: &std::path::Path, ends: u8, matrix: &str) {
    let mut hosts = String::new();
    for number in 0..ends {
        let (ip, control) = (address(number), Lab::control());
        let rest = if number == HOSTS {
            "role = \"scheduler\"\n".to_owned()
        } else {
            format!("control = \"{control}\"\n")
        };
        hosts += &format!(
            "[[host]]\nname = \"h{number}\"\naddress = \"{ip}/24\"\ndevice = \"eth0\"\n{rest}"
        );
    }
    std::fs::write(dir.join("hosts.toml"), hosts).unwrap();
    std::fs::write(dir.join("matrix.cm"), matrix).unwrap();
}

/// Two runs of a pod one after the other, while notes in the name of all of them come.
///
/// # Panics
/// When a flow does not end, a pod begins or ends that no host has asked for, or the forged notes
/// did not come.
pub(crate) fn suffer() -> Result<String, String> {
    let lab = Lab::new(u32::from(HOSTS) + 2, 9000)?;
    let mut own = lab.command(u32::from(HOSTS) + 1, std::path::Path::new("ip"));
    let given = format!("{}/24", address(HOSTS + 1));
    let given = own.args(["address", "add", &given, "dev", "eth0"]).status();
    assert!(given.is_ok_and(|status| status.success()), "the attacker has no address");
    let dir = tempfile::tempdir().unwrap();
    files(dir.path(), HOSTS + 1, MATRIX);
    let [hosts, matrix] = ["hosts.toml", "matrix.cm"].map(|name| dir.path().join(name));
    let [hosts, matrix] = [&hosts, &matrix].map(|path| path.to_str().unwrap());
    let at = |number: u8, words: &[&str]| {
        Running::start(Some(lab.name(number.into())), &[words, &["--hosts", hosts]].concat())
    };
    let mut scheduler = at(HOSTS, &["scheduler", "--json"]);
    scheduler.on_event("waits for hosts");
    let attacker = Attacker::with(&lab, u32::from(HOSTS) + 1, &["--forge-pod"]);
    let mut forged = 0;
    for _ in 0..2 {
        let run = |number: u8| {
            let name = format!("h{number}");
            let words = ["run", matrix, "--world", "nic", "--json", "--host", &name];
            let slots = ["--transport", "zeropod", "--set", "mtu=8192"];
            let patient = ["--set", "loss.retries_max=64", "--topo", "leaf-spine:1,1,2,1"];
            at(number, &[&words[..], &slots, &patient].concat())
        };
        let ended = [0, 1].map(run).map(Running::wait);
        for ended in &ended {
            assert_eq!(ended.code, Some(0), "{ended:?}");
        }
        let summary: Value = serde_json::from_str(&ended[0].out).unwrap();
        assert_eq!(summary["flows"]["finished"], 3, "{summary}");
        for host in summary["per_host"].as_array().unwrap() {
            let of_host = host["counters"]["zeropod_forged_answer"].as_u64().unwrap_or(0);
            assert!(of_host > LEAST / 10, "few forged answers came: {host}");
            forged += of_host;
        }
    }
    let sent = attacker.end();
    scheduler.signal("INT");
    let ended = scheduler.wait();
    let books: Value = serde_json::from_str(&ended.out).unwrap();
    let (pods, term) = (&books["counters"]["pods"], &books["scheduler"]["term"]);
    assert_eq!((pods, term), (&2.into(), &3.into()), "{books}");
    let unproven = books["counters"]["unproven"].as_u64().unwrap_or(0);
    assert!(unproven > LEAST, "few forged requests came: {books}");
    Ok(format!("{sent} forged notes, {unproven} of them at the scheduler, {forged} at hosts"))
}
