//! Where both worlds are exact, they are equal octet for octet: the soft switch, given the frames
//! that hosts of a simulation sent, gives hosts the frames that the simulation gave them.
//!
//! The soft switch has real frames on real devices, and is polled late; the simulation has headers
//! in a table, and exact events on 1, 2 or 3 threads. Programs of switches read, edit, make and end
//! packets in both.

use std::collections::BTreeMap;
use std::path::Path;

use experiments::capture::Capture;
use experiments::measure::Outcome;
use experiments::observe::Observe;
use experiments::plan::{Draft, Plan};
use experiments::progress::Unwatched;
use experiments::virtual_time;
use experiments::workload::{FlowSpec, Matrix};
use live::vdev::{DeliveredFrame, SteppedSwitch};
use transport::wire::KEY_LEN;
use transport::wire::addressing::Addressing;
use transport::wire::checksum::Checksum;
use transport::wire::frame::{self, UdpCheck};
use transport::{Bytes, HostId, Instant, Rng};

use super::{Origin, Verdict, draft, matrix, topology, with_examples};
use crate::pcapng::{Seen, read};

/// Octets of the UDP checksum in an IPv4 frame. A simulation writes none.
const UDP_CHECKSUM: std::ops::Range<usize> = 40..42;

/// Most frames between two polls: less than a link holds.
const FRAMES_MAX: u64 = 200;

/// A frame that a host got: instant, length, and headers without the UDP checksum.
type Frame = (u64, u32, Vec<u8>);

/// What a host got, in its order.
type Received = Vec<Frame>;

/// Switches that hold, report and pause, among plain ones that mark, trim and duplicate.
pub(super) fn examples() -> Verdict {
    let draft = draft(&[("fault", "duplicate:0.01@all"), ("fault", "loss:0.002@all")]);
    let draft = with_examples(draft, "example@tor:0,example@tor:2,pfc@agg:1");
    let incast = matrix("incast", 16, &[("degree", "7"), ("size", "256KiB")]);
    let summary = compare(&draft, incast, "paper-testbed");
    for counter in ["switch.example.reports", "switch.example.reported"] {
        assert!(summary.counters[counter] > 20, "{:?}", summary.counters);
    }
    assert!(summary.drops["random_loss"] > 0 && summary.pfc.unwrap().pauses > 0);
    Verdict::Passed
}

/// Border switches of MLCC, which answer hosts in the receivers' names.
pub(super) fn borders() -> Verdict {
    let mut draft = Draft::default();
    draft.set_transport("mlcc", Origin::Set).unwrap();
    let mut matrix = Matrix { nodes: 32, ..Matrix::default() };
    for host in 0..4 {
        let flow = |src| FlowSpec::new(HostId(src), HostId(20 + host), Bytes(1_000_000));
        matrix.push_flow(flow(host));
        matrix.push_flow(flow(16 + host));
    }
    let summary = compare(&draft, matrix, "two-dc-leaf:1ms,100,1,4");
    assert!(summary.mlcc.unwrap().switch_int > 100);
    Verdict::Passed
}

/// The scheduler of a pod, which all hosts ask and which answers them all.
pub(super) fn pod() -> Verdict {
    let mut draft = Draft::default();
    draft.set_transport("zeropod", Origin::Set).unwrap();
    let all = matrix("all-to-all", 8, &[("size", "64KiB"), ("window", "0")]);
    let summary = compare(&draft, all, "zeropod:8");
    let grants = summary.scheduler.unwrap().grants;
    assert!(grants > 400, "{grants}");
    Verdict::Passed
}

/// Compares both worlds; the summary of the simulation.
fn compare(draft: &Draft, matrix: Matrix, topology: &str) -> experiments::measure::Summary {
    let network = topology::by_name(topology).unwrap();
    let plan = |threads: &str| {
        let mut draft = draft.clone();
        // Real frames have keys, which a simulation by default does not count.
        draft.settings.key_bytes = KEY_LEN;
        draft.set("sim.threads", threads, Origin::Set).unwrap();
        Plan::new(&draft, matrix.clone(), &network).unwrap()
    };
    let dir = tempfile::tempdir().unwrap();
    let file = |threads| dir.path().join(format!("{threads}.pcapng"));
    let outcome = simulate(&plan("1"), &file("1"));
    for threads in ["2", "3"] {
        simulate(&plan(threads), &file(threads));
        let captures = ["1", threads].map(|threads| std::fs::read(file(threads)).unwrap());
        assert!(captures[0] == captures[1], "{threads} threads send and get other octets");
    }
    let frames = read(&file("1")).packets;
    let plan = plan("1");
    let (arrivals, switch) = step(&plan, &frames, Instant::ZERO + outcome.end);
    let addressing = plan.addressing();
    let (simulated, emulated) = (by_host(&frames), verified(&arrivals, &addressing));
    assert_eq!(first_difference(&simulated, &emulated), None);
    let summary = &outcome.summary;
    let (audit, totals) = (switch.network().audit(), switch.network().totals());
    audit.check().unwrap();
    let packets = &summary.packets;
    println!("{} frames, {audit:?}", frames.len());
    assert_eq!(packets.originated.unwrap_or(0), audit.originated);
    assert_eq!(packets.consumed.unwrap_or(0), audit.consumed);
    assert_eq!((packets.hops, packets.ecn_marked), (Some(totals.hops), Some(totals.marked)));
    let mut own = BTreeMap::new();
    switch.network().own_counters(|policy, name, count| {
        *own.entry(format!("switch.{policy}.{name}")).or_insert(0) += count;
    });
    for (name, count) in summary.counters.iter().filter(|(name, _)| name.starts_with("switch.")) {
        assert_eq!(own.get(name), Some(count), "{name}");
    }
    outcome.summary
}

/// Runs `plan` in virtual time; all frames of hosts are in `file`.
fn simulate(plan: &Plan, file: &Path) -> Outcome {
    let capture = Capture::parse(&file.display().to_string()).unwrap();
    let observe = Observe { capture: Some(capture), ..Observe::default() };
    let outcome = virtual_time::run_observed(plan, &observe, &mut Unwatched).unwrap();
    assert_eq!(outcome.summary.audit.findings, [""; 0]);
    assert_eq!(outcome.summary.flows.finished, outcome.summary.flows.total);
    outcome
}

/// Gives the soft switch the frames that hosts sent, and polls it until `end`: after random numbers
/// of frames, and so late by as much.
fn step(plan: &Plan, frames: &[Seen], end: Instant) -> (Vec<DeliveredFrame>, SteppedSwitch) {
    let mut switch = SteppedSwitch::open(plan).unwrap_or_else(|error| panic!("{error}"));
    let (mut rng, mut arrivals) = (Rng::new(1), Vec::new());
    let mut sent = frames.iter().filter(|frame| frame.sent).peekable();
    while let Some(first) = sent.peek() {
        let mut last = first.at;
        for _ in 0..=rng.below(FRAMES_MAX) {
            let Some(frame) = sent.next() else { break };
            last = frame.at;
            let host = HostId(frame.interface);
            assert!(switch.send(host, &whole(frame), Instant::from_ps(frame.at)));
        }
        // Frames of one instant belong to one poll.
        while let Some(frame) = sent.next_if(|frame| frame.at == last) {
            let host = HostId(frame.interface);
            assert!(switch.send(host, &whole(frame), Instant::from_ps(frame.at)));
        }
        switch.poll(Instant::from_ps(last), &mut arrivals);
    }
    switch.poll(end, &mut arrivals);
    assert_eq!(switch.lost(), 0);
    (arrivals, switch)
}

/// A sent frame with a payload, and the UDP checksum of all.
fn whole(frame: &Seen) -> Vec<u8> {
    let mut whole = frame.bytes.clone();
    let seed = u8::try_from(frame.at % 251).unwrap();
    let payload = usize::try_from(frame.len).unwrap() - whole.len();
    let payload: Vec<u8> = (0..payload).map(|at| seed.wrapping_add(at.to_le_bytes()[0])).collect();
    let mut sum = Checksum::new();
    sum.add(&payload);
    let headers = whole.len();
    whole.extend_from_slice(&payload);
    frame::finish_udp_checksum(&mut whole[..headers], sum);
    whole
}

/// The first frame in time that differs, as each world has it, and its host.
fn first_difference(
    simulated: &BTreeMap<u32, Received>,
    emulated: &BTreeMap<u32, Received>,
) -> Option<(u64, u32, [Option<Frame>; 2])> {
    let none = Received::new();
    let of_host = |host: &u32| {
        let [one, other] = [simulated, emulated].map(|all| all.get(host).unwrap_or(&none));
        let at = (0..one.len().max(other.len())).find(|at| one.get(*at) != other.get(*at))?;
        let both = [one, other].map(|all| all.get(at).cloned());
        let first = both.iter().flatten().map(|(at, ..)| *at).min()?;
        Some((first, *host, both))
    };
    simulated.keys().chain(emulated.keys()).filter_map(of_host).min()
}

/// What hosts of the simulation got.
fn by_host(frames: &[Seen]) -> BTreeMap<u32, Received> {
    let mut all = BTreeMap::<u32, Received>::new();
    for Seen { interface, at, len, bytes, .. } in frames.iter().filter(|frame| !frame.sent) {
        all.entry(*interface).or_default().push((*at, *len, bytes.clone()));
    }
    all
}

/// What hosts of the soft switch got. Every checksum is right.
fn verified(arrivals: &[DeliveredFrame], addressing: &Addressing) -> BTreeMap<u32, Received> {
    let mut all = BTreeMap::<u32, Received>::new();
    for DeliveredFrame { host, at, frame } in arrivals {
        let parsed = frame::parse(frame, addressing, UdpCheck::Required);
        let parsed = parsed.unwrap_or_else(|error| panic!("{error:?} in {frame:?}"));
        let payload = if parsed.trimmed { 0 } else { usize::from(parsed.payload_len) };
        let headers = frame.len() - payload;
        let mut octets = frame[..headers].to_vec();
        octets[UDP_CHECKSUM].fill(0);
        let len = u32::try_from(frame.len()).unwrap();
        all.entry(host.0).or_default().push((at.as_ps(), len, octets));
    }
    all
}
