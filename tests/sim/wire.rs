//! Sizes of packets that a plan accounts: they, and not our own headers, decide every time.

use experiments::measure::Summary;
use transport::wire::addressing::IpVersion;
use transport::wire::frame::header_overhead;
use transport::wire::{KEY_LEN, ack, data};
use transport::{Bytes, Duration, HostId, Rate};

use super::{Matrix, run};
use experiments::workload::FlowSpec;

/// Links between hosts of different leaves.
const LINKS: u64 = 4;

/// The completion time of one segment of 512 bytes that is alone in a network of 100 Gb/s.
fn alone(overhead: &str, control: &str) -> (Duration, Summary) {
    alone_of(Bytes(512), &[("wire.data_overhead", overhead), ("wire.control", control)])
}

/// The completion time of one segment of `payload` that is alone, with `sizes` accounted.
fn alone_of(payload: Bytes, sizes: &[(&str, &str)]) -> (Duration, Summary) {
    let mut matrix = Matrix { nodes: 4, ..Matrix::default() };
    matrix.push_flow(FlowSpec::new(HostId(0), HostId(3), payload));
    let outcome = run(&[&[("mtu", "512")], sizes].concat(), matrix, "leaf-spine:2,1,2,100");
    (outcome.records[0].fct().unwrap(), outcome.summary)
}

#[test]
fn accounted_sizes_replace_those_of_the_headers_on_every_link() {
    let time = |bytes: u64| Rate::from_gbps(100).time_for(Bytes(bytes)) * LINKS;
    let (cells, summary) = alone("40", "40");
    assert_eq!(alone("140", "40").0, cells + time(100), "DATA");
    assert_eq!(alone("40", "240").0, cells + time(200), "acknowledgements");
    let wire = summary.wire.unwrap();
    assert_eq!((wire.data_overhead, wire.control), (Some(40), Some(40)), "the result says so");
}

#[test]
fn sizes_equal_to_those_of_the_headers_change_nothing() {
    let (own, summary) = alone("headers", "headers");
    assert_eq!(summary.wire, None);
    // The first segment of a flow opens it and carries the tag of its message. Simulations account
    // headers without the key.
    let frame = header_overhead(IpVersion::V4) - KEY_LEN;
    let opening = frame + data::LEN + data::OPEN_LEN + data::TAG_LEN;
    let (same, _) = alone(&opening.to_string(), &(frame + ack::LEN).to_string());
    assert_eq!(same, own);
}

#[test]
fn short_payload_is_padded_to_the_least_that_is_accounted() {
    let (around, control) = (("wire.data_overhead", "40"), ("wire.control", "40"));
    let padded = [around, control, ("wire.data_min", "512")];
    let (short, summary) = alone_of(Bytes(100), &padded);
    assert_eq!(short, alone("40", "40").0, "100 bytes as long as 512");
    assert!(alone_of(Bytes(100), &[around, control]).0 < short);
    assert_eq!(summary.wire.map(|wire| wire.data_min), Some(512), "the result says so");
}
