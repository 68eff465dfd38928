//! What a packet-hop costs: a permutation over 1024 hosts with 16 packets in flight a host.
//!
//! Prints nanoseconds a hop for the paper's trees without and with oversubscription, driver
//! included. Run: `cargo bench -p testbed --no-default-features --bench fabric_hops`. Not a test:
//! wall time on a busy machine means little.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use std::time::Instant as Wall;

use testbed::fabric::{Flags, Network, Output, Packet};
use testbed::topology::{FabricParams, FatTree, by_name};
use transport::rng::mix;
use transport::{HostId, Instant, Rng};

const HOPS: u64 = 20_000_000;
const IN_FLIGHT: u32 = 16;

fn main() {
    for name in ["ft1024-1os", "ft1024-8os"] {
        let mut best = f64::INFINITY;
        let mut hops = 0;
        for _ in 0..3 {
            let (ns, counted) = measure(name);
            best = best.min(ns);
            hops = counted;
        }
        println!("{name}: {best:.1} ns/hop ({hops} hops, best of 3)");
    }
}

/// Nanoseconds a hop, and the hops measured, after a warm-up.
fn measure(name: &str) -> (f64, u64) {
    let tree = by_name(name).map(FatTree::new).expect("a built-in name").expect("a sound tree");
    let blueprint = tree.blueprint(&FabricParams::default());
    let mut network = Network::new(blueprint, &Rng::new(1));
    let mut sent = 0;
    let mut out = Vec::new();
    for host in 0..1024 * IN_FLIGHT {
        send(&mut network, host % 1024, &mut sent, Instant::ZERO, &mut out);
    }
    run(&mut network, &mut sent, HOPS / 10);
    let before = network.totals().hops;
    let start = Wall::now();
    run(&mut network, &mut sent, HOPS);
    let spent = start.elapsed();
    let hops = network.totals().hops - before;
    network.audit().check().expect("conservation");
    #[expect(clippy::cast_precision_loss, reason = "a figure to print")]
    (spent.as_nanos() as f64 / hops as f64, hops)
}

/// Runs about `hops` hops: each packet delivered is followed by another from the same source.
fn run(network: &mut Network, sent: &mut u64, hops: u64) {
    let mut out = Vec::new();
    let mut more = Vec::new();
    let delivered_goal = hops / 6;
    let mut delivered = 0;
    while delivered < delivered_goal {
        let Some(at) = network.step(&mut out) else { return };
        for output in &out {
            if let Output::Delivered { packet, .. } = output {
                delivered += 1;
                send(network, packet.handle, sent, at, &mut more);
            }
        }
        out.clear();
        more.clear();
    }
}

fn send(network: &mut Network, src: u32, sent: &mut u64, at: Instant, out: &mut Vec<Output>) {
    *sent += 1;
    let packet = Packet {
        handle: src,
        dst: HostId((src + 512) % 1024),
        hash: u32::try_from(mix(*sent) >> 32).unwrap_or(0),
        len: 4160,
        trim_len: 64,
        flags: Flags::ECT.with(Flags::TRIMMABLE),
    };
    network.inject(HostId(src), packet, at, out);
}
