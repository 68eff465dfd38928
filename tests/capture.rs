//! A capture of a simulation: every packet that hosts sent and received, readable by our own
//! parser, the same on any number of threads.
#![allow(clippy::unwrap_used, reason = "tests")]

mod pcapng;

use std::path::Path;

use experiments::capture::Capture;
use experiments::measure::Outcome;
use experiments::observe::Observe;
use experiments::plan::{Draft, Origin, Plan};
use experiments::progress::Unwatched;
use experiments::workload::{self, Params};
use experiments::{topology, virtual_time};
use pcapng::{Seen, read};
use transport::Rng;
use transport::wire::Body;
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::frame::{self, Ecn, Parsed, UdpCheck};

/// An incast that marks, trims and loses, simulated on so many threads.
fn captured(file: &Path, limits: &str, threads: &str) -> Outcome {
    let mut draft = Draft::default();
    let settings =
        [("sim.threads", threads), ("fault", "loss:0.01@all"), ("switch.queue", "32KiB")];
    for (key, value) in settings {
        draft.set(key, value, Origin::Set).unwrap_or_else(|error| panic!("{error}"));
    }
    let incast = Params::from_pairs(vec![("degree", "7"), ("size", "256KiB")]);
    let matrix = workload::by_name("incast", &incast).unwrap().generate(8, &mut Rng::new(1));
    let topology = topology::by_name("leaf-spine:4,2,2").unwrap();
    let plan = Plan::new(&draft, matrix.unwrap(), &topology).unwrap();
    let capture = Capture::parse(&format!("{}{limits}", file.display())).unwrap();
    let observe = Observe { capture: Some(capture), ..Observe::default() };
    let outcome = virtual_time::run_observed(&plan, &observe, &mut Unwatched).unwrap();
    assert_eq!(outcome.summary.audit.findings, [""; 0]);
    outcome
}

fn parsed(Seen { len, bytes, .. }: &Seen) -> Parsed {
    // Payload is not in the file: zeros stand for it.
    let mut whole = bytes.clone();
    whole.resize(usize::try_from(*len).unwrap(), 0);
    let addressing = Addressing::emulated(IpVersion::V4);
    frame::parse(&whole, &addressing, UdpCheck::IfPresent)
        .unwrap_or_else(|error| panic!("{error:?}: {whole:?}"))
}

#[test]
fn a_simulated_capture_has_every_packet_in_order_of_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("whole.pcapng");
    let outcome = captured(&path, "", "1");
    let file = read(&path);
    assert_eq!((file.interfaces.len(), file.lost), (8, 0));
    assert_eq!(file.packets.len() as u64, file.seen);
    assert!(file.packets.is_sorted_by_key(|seen| seen.at));
    let (mut data, mut acks, mut trimmed, mut marked) = (0, 0, 0, 0);
    for seen in &file.packets {
        let (Seen { interface, sent, .. }, parsed) = (seen, parsed(seen));
        assert_eq!(if *sent { parsed.src.0 } else { parsed.dst.0 }, *interface);
        data += u64::from(*sent && matches!(parsed.header.body, Body::Data(_)));
        acks += u64::from(*sent && matches!(parsed.header.body, Body::Ack(_)));
        trimmed += u64::from(!*sent && parsed.trimmed);
        marked += u64::from(!*sent && parsed.ecn == Ecn::Ce);
    }
    let stats = &outcome.stats;
    assert_eq!((data, acks), (stats.data_new + stats.retransmitted, stats.acks_sent));
    assert_eq!(trimmed, stats.trimmed);
    assert!(trimmed > 0 && marked > 0, "{trimmed} trimmed, {marked} marked");
}

#[test]
fn a_simulated_capture_is_the_same_on_two_threads_and_leaves_the_run_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
    let outcomes = [captured(&one, "", "1"), captured(&two, "", "2")];
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
    assert_eq!(outcomes[0].stats, outcomes[1].stats);
}

#[test]
fn a_simulated_capture_keeps_its_limits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("limited.pcapng");
    captured(&path, ",every=4,host=0", "1");
    let file = read(&path);
    assert_eq!(file.interfaces, ["host0"]);
    assert_eq!(file.packets.len() as u64, file.seen.div_ceil(4));
    assert!(file.packets.iter().all(|seen| seen.interface == 0 && seen.bytes.len() <= 128));
}

/// Cells of a pod that move as one packet in a run without a capture.
#[test]
fn a_simulated_capture_of_a_pod_has_each_cell_and_leaves_the_run_as_it_is() {
    let mut draft = Draft::default();
    draft.set_transport("zeropod", Origin::Set).unwrap();
    let topology = topology::by_name("zeropod:8").unwrap();
    let incast = Params::from_pairs(vec![("degree", "3"), ("size", "64KiB")]);
    let matrix = workload::by_name("incast", &incast).unwrap();
    let matrix = matrix.generate(topology.nodes, &mut Rng::new(1)).unwrap();
    let plan = Plan::new(&draft, matrix, &topology).unwrap();
    let plain = virtual_time::run(&plan, &mut Unwatched).unwrap();
    assert!(plain.summary.counters["sched.zeropod.joined"] > 0, "{:?}", plain.summary.counters);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pod.pcapng");
    let capture = Capture::parse(&path.display().to_string()).unwrap();
    let observe = Observe { capture: Some(capture), ..Observe::default() };
    let captured = virtual_time::run_observed(&plan, &observe, &mut Unwatched).unwrap();
    assert_eq!((captured.records, captured.stats), (plain.records, plain.stats));
    let cells = read(&path).packets.into_iter().filter(|seen| {
        let parsed = parsed(seen);
        assert!(parsed.payload_len <= 512, "{parsed:?}");
        seen.sent && matches!(parsed.header.body, Body::Data(_))
    });
    assert_eq!(cells.count() as u64, plain.stats.data_new + plain.stats.copies);
}
