//! Cases of Zeropod: pods without buffers, each with a scheduler, alone or joined by Cores.
//!
//! Such hosts need a network of their own kind, so none of the other choices fit: these cases draw
//! networks, matrices, settings and faults that do. Links lose packets or break; anything that
//! moves a packet in time makes cells meet, which is an error there and not a fault of the network.

use experiments::topology;
use experiments::workload::FlowSpec;
use fabric::pod::matcher::MatcherKind;
use transport::sched::Label;
use transport::{Bytes, Rng};

use super::{Case, PACKETS, below, between, drawn, micros, pick};

/// Payload bytes of a cell.
const CELL: u64 = 512;

/// One case in so many.
const ONE_IN: u64 = 16;

/// Pods alone and joined, of one to four hosts a ToR.
const NETWORKS: &[&str] = &[
    "zeropod:4",
    "zeropod:6",
    "zeropod:8",
    "zeropod-2x:4",
    "zeropod:4,2,1",
    "zeropod:4,3,2",
    "zeropod:6,2,4",
    "zeropod-2x:4,3,3",
    "zeropod-ha:6",
    "zeropod-ha:4,2,2",
];

impl Case {
    /// Makes one case in so many one of pods; whether this is one.
    pub(super) fn pods(&mut self, rng: &mut Rng) -> bool {
        if rng.below(ONE_IN) > 0 {
            return false;
        }
        self.settings.clear();
        let network = pick(rng, NETWORKS);
        self.topology = topology::by_name(network).unwrap();
        self.set("transport", pick(rng, &["zeropod", "zeropod-paper"]));
        self.matrix = drawn(self.topology.nodes, rng);
        let share = PACKETS * CELL / self.matrix.flows.len() as u64;
        for flow in &mut self.matrix.flows {
            // Pods serve no priorities.
            let size = flow.size.min(Bytes(share.max(1)));
            *flow = FlowSpec { prio: Label::PRIO_NONE, size, ..*flow };
        }
        self.set("sched.zeropod.matcher", pick(rng, MatcherKind::NAMES));
        self.set("sched.zeropod.classes", pick(rng, &["one", "pias", "mice", "sizes"]));
        self.set("sched.zeropod.iterations", between(rng, 1, 6));
        self.set("sched.zeropod.top_k", between(rng, 0, 7));
        self.set("sched.zeropod.fair_every", pick(rng, &[0, 2, 16]));
        self.set("sched.zeropod.optimistic", pick(rng, &[0, 5, 20]));
        self.set("sched.zeropod.optimistic_copies", between(rng, 1, 3));
        self.set("sched.zeropod.guard", pick(rng, &["0ns", "20ns"]));
        self.set("sched.zeropod.delay", pick(rng, &["3us", "5us", "15us"]));
        if network.contains(',') {
            self.set("sched.zeropod.pause_cells", pick(rng, &[1, 32, 320]));
            if !network.ends_with(",1") {
                self.set("sched.zeropod.mice_cores", 1);
                self.set("sched.zeropod.mice_first", pick(rng, &["on", "off"]));
            }
        }
        if network.starts_with("zeropod-ha") {
            self.failure(rng);
        } else if rng.chance(0.5) {
            self.loss(rng);
        }
        self.set("seed", rng.next_u32());
        true
    }

    /// A link loses packets for a while, or is down.
    fn loss(&mut self, rng: &mut Rng) {
        let links = pick(rng, &["all", "hosts", "fabric", "host:1", "tor:0:up:0"]);
        let until = 1.0 + rng.next_f64() * 400.0;
        let fault = match below(rng, 3) {
            0 => format!("loss:0.02@{links},until_us={until:.6}"),
            1 => format!("corrupt:0.02@{links},until_us={until:.6}"),
            _ => {
                self.outage = micros(until);
                format!("down@tor:0:up:0,until_us={until:.6}")
            }
        };
        self.set("fault", fault);
    }

    /// The scheduler of the first pod ends, begins anew or is cut off, or its backup does.
    fn failure(&mut self, rng: &mut Rng) {
        let of = pick(rng, &["scheduler", "backup"]);
        let from = rng.next_f64() * 100.0;
        let until = from + 1.0 + rng.next_f64() * 300.0;
        let fault = match below(rng, 4) {
            0 => format!("kill@{of}:0,from_us={from:.6}"),
            1 => format!("kill@{of}:0,from_us={from:.6},until_us={until:.6}"),
            2 => format!("restart@{of}:0,from_us={from:.6}"),
            _ => format!("partition@{of}:0,from_us={from:.6},until_us={until:.6}"),
        };
        self.set("fault", fault);
    }
}
