//! A capture of a run holds every frame that hosts sent and received, as our own parser reads them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use experiments::capture::Capture;
use experiments::measure::Outcome;
use experiments::observe::Observe;
use experiments::progress::Unwatched;
use live::vdev;
use transport::wire::Body;
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::frame::{self, UdpCheck};

use crate::pcapng::{Seen, read};

use super::{Verdict, assert_whole, matrix, plan, show};

fn captured(name: &str, limits: &str, settings: &[(&str, &str)]) -> (PathBuf, Outcome) {
    let name = format!("headrace-{name}-{}.pcapng", std::process::id());
    let path = std::env::temp_dir().join(name);
    let capture = Capture::parse(&format!("{}{limits}", path.display())).unwrap();
    let matrix = matrix("permutation", 4, &[("size", "256KiB")]);
    let plan = plan(settings, matrix, "leaf-spine:2,2,2");
    let observe = Observe { capture: Some(capture), ..Observe::default() };
    let outcome = vdev::run_observed(&plan, &observe, &mut Unwatched).unwrap();
    show(&outcome);
    assert_whole(&outcome);
    (path, outcome)
}

pub(super) fn whole() -> Verdict {
    let (path, outcome) = captured("whole", "", &[("udp_port", "5001")]);
    let file = read(&path);
    assert_eq!(file.interfaces, ["host0", "host1", "host2", "host3"]);
    assert_eq!(file.packets.len() as u64 + file.lost, file.seen);
    let addressing = Addressing::emulated(IpVersion::V4).with_udp_port(5001);
    let (mut data, mut acks, mut received, mut bytes) = (0, 0, 0, 0);
    for seen in &file.packets {
        let Seen { interface, sent, len, bytes: frame, .. } = seen;
        assert_eq!(frame.len(), usize::try_from(*len).unwrap());
        let parsed = frame::parse(frame, &addressing, UdpCheck::Required).unwrap();
        let own = if *sent { parsed.src } else { parsed.dst };
        assert_eq!(own.0, *interface);
        received += u64::from(!*sent);
        match parsed.header.body {
            Body::Data(_) if *sent => {
                data += 1;
                bytes += u64::from(parsed.payload_len);
            }
            Body::Ack(_) if *sent => acks += 1,
            _ => {}
        }
    }
    // On a machine that stands still for long the ring may have been full.
    if file.lost == 0 {
        let stats = &outcome.stats;
        assert_eq!(data, stats.data_new + stats.retransmitted);
        assert_eq!(acks, stats.acks_sent);
        assert!(received >= stats.acks_received + stats.data_placed && bytes >= 4 << 18);
    }
    wireshark_agrees(&path, file.packets.len());
    fs::remove_file(&path).unwrap();
    Verdict::Passed
}

/// Wireshark's tools, where they are installed, count as many packets.
fn wireshark_agrees(path: &Path, packets: usize) {
    match Command::new("capinfos").args(["-M", "-c"]).arg(path).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let counted = text.lines().find_map(|line| line.strip_prefix("Number of packets:"));
            assert_eq!(counted.unwrap().trim().parse::<usize>().unwrap(), packets, "{text}");
        }
        Err(error) => println!("capinfos is not here ({error}): its count is not compared"),
    }
}

pub(super) fn limited() -> Verdict {
    let (path, _) = captured("limited", ",snap=64,every=3,host=2", &[]);
    let file = read(&path);
    fs::remove_file(&path).unwrap();
    assert_eq!(file.interfaces, ["host2"]);
    let taken = file.packets.len() as u64 + file.lost;
    assert_eq!(taken, file.seen.div_ceil(3), "one of three of {}", file.seen);
    assert!(file.packets.iter().all(|seen| seen.bytes.len() <= 64));
    assert!(file.packets.iter().any(|seen| seen.len > 1500));
    Verdict::Passed
}
