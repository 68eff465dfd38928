//! A host on the link that answers ARP and neighbour discovery in the place of the victims.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use crate::lab::Lab;
use crate::victims::{CLIENT, addressed, server, start};

/// The victims' addresses, and the length of their prefix, by IP version.
pub(crate) const VERSIONS: [([&str; 2], u8); 2] =
    [(["192.0.2.1", "192.0.2.2"], 24), (["fd77::1", "fd77::2"], 64)];

/// The host that asks for the victims' MACs as any does.
const OBSERVER: u32 = 3;

/// Announcements of false addresses during a transfer.
const ANNOUNCEMENTS: u32 = 5;

/// Runs `ip` in the namespace of `host`, with these words.
fn ip(lab: &Lab, host: u32, words: &str) -> Result<(), String> {
    let run = lab.command(host, Path::new("ip")).args(words.split_whitespace()).output();
    let run = run.map_err(|error| error.to_string())?;
    if run.status.success() {
        return Ok(());
    }
    Err(format!("ip {words}: {}", String::from_utf8_lossy(&run.stderr).trim()))
}

/// The attacker's kernel has the server's address as its own, and says so each time when its link
/// comes up.
fn pose(lab: &Lab, (victims, len): ([&str; 2], u8)) -> Result<(), String> {
    for name in ["ipv4/conf/eth0/arp_notify", "ipv6/conf/eth0/ndisc_notify"] {
        let mut write = lab.command(2, Path::new("sh"));
        let ran = write.args(["-c", &format!("echo 1 > /proc/sys/net/{name}")]).status();
        if !ran.is_ok_and(|status| status.success()) {
            return Err(format!("{name} cannot be set"));
        }
    }
    let nodad = if len > 32 { "nodad" } else { "" };
    victims
        .iter()
        .try_for_each(|victim| ip(lab, 2, &format!("address add {victim}/{len} dev eth0 {nodad}")))
}

/// The MAC of `host`.
fn mac(lab: &Lab, host: u32) -> String {
    let mut cat = lab.command(host, Path::new("cat"));
    let read = cat.arg("/sys/class/net/eth0/address").output().unwrap();
    String::from_utf8(read.stdout).unwrap().trim().to_owned()
}

/// `ADDRESS`: sends an empty datagram there, so that this kernel asks for its MAC.
pub(crate) fn knock(arguments: &[String]) -> ExitCode {
    let to: IpAddr = arguments[0].parse().unwrap();
    let any: IpAddr =
        if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).unwrap();
    // That it is refused does not matter.
    let _ = socket.send_to(&[], (to, 9));
    ExitCode::SUCCESS
}

/// The control: a host of the kernel that asks for a victim's MAC is given the attacker's, so what
/// the victims withstand does work.
fn diverts(lab: &Lab, (victims, len): ([&str; 2], u8)) -> Result<(), String> {
    let own = if len > 32 { "fd77::9" } else { "192.0.2.9" };
    let nodad = if len > 32 { "nodad" } else { "" };
    ip(lab, OBSERVER, &format!("address add {own}/{len} dev eth0 {nodad}"))?;
    let program = std::env::current_exe().unwrap();
    let false_mac = mac(lab, 2);
    for victim in victims {
        let mut cached = String::new();
        let found = (0..50).any(|_| {
            let mut knock = lab.command(OBSERVER, &program);
            assert!(knock.args(["--knock", victim]).status().unwrap().success());
            sleep(Duration::from_millis(100));
            let mut show = lab.command(OBSERVER, Path::new("ip"));
            let shown = show.args(["neigh", "show", victim]).output().unwrap();
            cached = String::from_utf8_lossy(&shown.stdout).into_owned();
            cached.contains(&false_mac)
        });
        assert!(found, "the attack diverts nothing: {victim} is {cached}");
    }
    Ok(())
}

/// False answers change nothing for a transfer under way, nor for victims that were given each
/// other's MAC.
pub(crate) fn suffer(version: ([&str; 2], u8)) -> Result<String, String> {
    let lab = Lab::new(4, 9000)?;
    let (victims, len) = version;
    let (named, given) = (addressed(&victims), [0, 1].map(|host| mac(&lab, host)));
    let given: Vec<String> =
        victims.iter().zip(given).map(|(address, mac)| format!("{address},{mac}")).collect();
    let first = server(&lab, &named);
    let mut client = start(&lab, 1, &named, &[&CLIENT[..], &["--time", "2"]].concat());
    client.on_event("session with");
    pose(&lab, version)?;
    for _ in 0..ANNOUNCEMENTS {
        ip(&lab, 2, "link set eth0 down")?;
        ip(&lab, 2, "link set eth0 up")?;
        // The kernel drops addresses of IPv6 with the link.
        if len > 32 {
            pose(&lab, version)?;
        }
        sleep(Duration::from_millis(200));
    }
    client.end().result();
    first.signal("INT");
    assert_eq!(first.end().code, Some(0));
    // While no victim answers for itself.
    diverts(&lab, version)?;
    let second = server(&lab, &addressed(&given));
    let more = ["--bytes", "1MiB"];
    let later = start(&lab, 1, &addressed(&given), &[&CLIENT[..], &more].concat()).end().result();
    assert_eq!(later["to_server"]["bytes"], 1 << 20, "{later:#}");
    second.signal("INT");
    assert_eq!(second.end().code, Some(0));
    Ok("a transfer went on, another began; a host of the kernel was diverted".to_owned())
}
