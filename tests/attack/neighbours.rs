//! A host on the link that answers ARP and neighbour discovery in the place of the victims, without
//! being asked.

use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use transport::wire::addressing::IpPair;
use transport::wire::checksum::Checksum;
use transport::wire::{Body, Header, Presence};
use transport::{EntropyValue, FlowId};

use crate::forger::{PACE, PORT, frame_socket, framed_between, send_until_input_ends};
use crate::victims::{Attacker, Compared, LEFT, LONG, SLICE, addressed, client, observed, server};
use system_tests::lab::Lab;
use system_tests::process::Ended;

/// The victims' addresses by IP version.
pub(crate) const VERSIONS: [[&str; 2]; 2] = [["192.0.2.1", "192.0.2.2"], ["fd77::1", "fd77::2"]];

/// The attacker, and the host that asks for the victims' MACs as any does.
const LIAR: u32 = 2;
const OBSERVER: u32 = 3;

/// Where the kernel's own packets go: the control address of the first victim.
const ANYWHERE: &str = "192.168.177.1";

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

/// A frame from `mac` to all hosts of the link.
fn to_all(mac: [u8; 6], ethertype: [u8; 2], rest: &[&[u8]]) -> Vec<u8> {
    let all = [0xFF; 6];
    let mut frame = [&all[..], &mac, &ethertype, &rest.concat()].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// An answer to no request, or a request, that says `victim` had this MAC (RFC 826, 4861). With
/// IPv6 it is an advertisement that overrides others, or a solicitation.
fn falsehood(asks: bool, [victim, other]: [IpAddr; 2], mac: [u8; 6]) -> Vec<u8> {
    match (victim, other) {
        (IpAddr::V4(victim), IpAddr::V4(other)) => {
            let head = [0, 1, 8, 0, 6, 4, 0, if asks { 1 } else { 2 }];
            let says = [&mac[..], &victim.octets(), &[0; 6], &other.octets()].concat();
            to_all(mac, [0x08, 0x06], &[&head, &says])
        }
        (IpAddr::V6(victim), IpAddr::V6(other)) => {
            let (target, kind, flags, option) =
                if asks { (other, 135, 0, 1) } else { (victim, 136, 0x20, 2) };
            let all = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1).octets();
            let target = target.octets();
            let mut says =
                [&[kind, 0, 0, 0, flags, 0, 0, 0], &target[..], &[option, 1], &mac].concat();
            let mut sum = Checksum::new();
            let len = u8::try_from(says.len()).unwrap();
            // The pseudo-header: addresses, length, ICMPv6.
            sum.add(&[&victim.octets()[..], &all, &[0, 0, 0, len, 0, 0, 0, 58]].concat());
            sum.add(&says);
            says[2..4].copy_from_slice(&sum.finish().to_be_bytes());
            let head = [0x60, 0, 0, 0, 0, len, 58, 255];
            to_all(mac, [0x86, 0xDD], &[&head, &victim.octets(), &all, &says])
        }
        _ => unreachable!("addresses of one version"),
    }
}

/// A datagram to another port of a victim, which is as short and goes to all hosts, too.
fn past([victim, other]: [IpAddr; 2], mac: [u8; 6], port: u16) -> Vec<u8> {
    let ip = match (other, victim) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => IpPair::V4 { src, dst },
        (IpAddr::V6(src), IpAddr::V6(dst)) => IpPair::V6 { src, dst },
        _ => unreachable!("addresses of one version"),
    };
    let header = Header::new(EntropyValue(7), FlowId::UNKNOWN, Body::Presence(Presence::Keep));
    let mut frame = framed_between(ip, &header, &[], port);
    frame[..6].fill(0xFF);
    frame[6..12].copy_from_slice(&mac);
    frame
}

/// `ADDRESS ADDRESS MILLISECONDS`: says of both addresses that this host has them, until its input
/// ends. With slices, datagrams to another port of theirs take the place of every second slice.
pub(crate) fn lie(arguments: &[String]) -> ExitCode {
    let [one, other, slices] = arguments else { return ExitCode::FAILURE };
    let victims: [IpAddr; 2] = [one, other].map(|address| address.parse().unwrap());
    let text = std::fs::read_to_string("/sys/class/net/eth0/address").unwrap();
    let octet = |word| u8::from_str_radix(word, 16).unwrap();
    let mac: Vec<u8> = text.trim().split(':').map(octet).collect();
    let mac: [u8; 6] = mac.try_into().unwrap();
    let socket = frame_socket();
    // The address of the device is that of the first frame that passes it.
    knock(&[ANYWHERE.to_owned()]);
    let (_, device) = socket.recv_from(&mut [MaybeUninit::uninit()]).unwrap();
    send_until_input_ends(PACE, slices, |turn, port| {
        let named = if turn & 1 == 0 { victims } else { [victims[1], victims[0]] };
        let frame = match port {
            PORT => falsehood(turn & 2 == 0, named, mac),
            _ => past(named, mac, port),
        };
        socket.send_to(&frame, &device).is_ok()
    })
}

fn liar(lab: &Lab, victims: [&str; 2], slices: Option<Duration>) -> Attacker {
    Attacker::in_slices(lab, &["--lie", victims[0], victims[1]], slices)
}

/// The control: a host of the kernel that asks for a victim's MAC gets the attacker's. So the
/// attack that the victims withstand does work.
fn diverts(lab: &Lab, victims: [&str; 2]) -> Result<(), String> {
    let own = if victims[0].contains(':') { "fd77::9/64 nodad" } else { "192.0.2.9/24" };
    let words = ["address", "add", "dev", "eth0"].into_iter().chain(own.split(' '));
    let given = lab.command(OBSERVER, Path::new("ip")).args(words).status();
    if !given.is_ok_and(|status| status.success()) {
        return Err("the observer cannot have an address".to_owned());
    }
    let program = std::env::current_exe().unwrap();
    let false_mac = mac(lab, LIAR);
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
/// other's MAC. A long attack of `seconds` is compared with as many packets to another port.
pub(crate) fn suffer(victims: [&str; 2], seconds: u64) -> Result<String, String> {
    let lab = Lab::new(4, 9000)?;
    let (named, given) = (addressed(&victims), [0, 1].map(|host| mac(&lab, host)));
    let given: Vec<String> =
        victims.iter().zip(given).map(|(address, mac)| format!("{address},{mac}")).collect();
    let given = addressed(&given);
    let first = server(&lab, &named);
    let mut first_client = client(&lab, &named, &["--time", "0.5"]);
    first_client.on_event("session with");
    let attacker = liar(&lab, victims, None);
    let under_way = first_client.wait();
    first.signal("INT");
    assert_eq!(first.wait().code, Some(0));
    // While no victim answers for itself.
    diverts(&lab, victims)?;
    let second = server(&lab, &given);
    let later = client(&lab, &given, &["--bytes", "1MiB"]).wait().result();
    assert_eq!(later["to_server"]["bytes"], 1 << 20, "{later:#}");
    let sent = attacker.end();
    let reached = reached(&under_way);
    let mut left = "nothing ended".to_owned();
    if seconds >= LONG {
        let attacker = liar(&lab, victims, Some(SLICE));
        let (compared, _): (Compared, _) = observed(&lab, &given, 2 * seconds);
        attacker.end();
        left = compared.judge(LEFT);
    }
    second.signal("INT");
    assert_eq!(second.wait().code, Some(0));
    Ok(format!(
        "{sent} false answers, of which {reached} came to a transfer; {left}; a host of the kernel \
         was diverted"
    ))
}

/// False answers that came to a client under way.
fn reached(client: &Ended) -> u64 {
    let came = client.counter("counters", "not_headrace");
    assert!(came > LEAST, "few false answers came: {client:?}");
    came
}

/// False answers that must have come to a transfer of half a second.
const LEAST: u64 = 500;
