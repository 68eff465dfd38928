//! Collectives side by side, each an uneven all-to-all among members of its own.
//!
//! Source: \[dcsim\] sec. 4.1. Every member sends as many packets as an even exchange would, and
//! each packet goes to a random other member. The sizes of collectives are drawn from a list. A
//! host may be in several. One collective of all hosts is the paper's all-to-all-v. All flows start
//! at time zero, in random order, with the number of their collective.

use transport::{Bytes, HostId, Rng};

use super::matrix::{FLOWS_MAX, FlowSpec, Matrix};
use super::params::{Parameter, Params};
use super::permutation::shuffle;
use super::{Workload, does_not_fit};
use crate::input::InputError;

/// The parameters of collectives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collectives {
    /// How many collectives there are.
    pub count: u32,
    /// Sizes that are drawn from; a size above the number of hosts is all hosts.
    pub members: Vec<u32>,
    /// Packets that a member sends, by other members of its collective.
    pub packets: u32,
    /// Bytes of a packet's payload.
    pub packet: Bytes,
}

/// Most packets of a flow's mean, and most bytes of one.
const PACKETS_MAX: u32 = 1 << 20;

impl Collectives {
    /// The sentence that `headrace list` prints beside the name.
    pub const ABOUT: &'static str = "several collectives at once, each an all-to-all with packets \
                                     to random members";
    /// The parameters that [`Collectives::from_params`] reads.
    pub const PARAMETERS: &'static [Parameter] = &[
        Parameter { name: "count", about: "collectives (5)" },
        Parameter {
            name: "members",
            about: "sizes to draw from, with commas, each counted as the number of hosts at most \
                    (8,16,32,64)",
        },
        Parameter { name: "packets", about: "mean packets of a flow (174)" },
        Parameter { name: "packet", about: "payload of a packet, bytes (8936)" },
    ];

    /// Reads the parameters.
    ///
    /// # Errors
    /// When a value is wrong.
    pub fn from_params(params: &Params) -> Result<Self, InputError> {
        //= dcsim#4.1
        let text = params.text("members").unwrap_or("8,16,32,64");
        let size =
            |word: &str| word.trim().parse().ok().filter(|size| (2..=1 << 16).contains(size));
        let members: Option<Vec<u32>> = text.split(',').map(size).collect();
        let members = members.ok_or_else(|| {
            let found = format!("members = `{text}`");
            params.error("members", &found, "sizes of 2 to 65536 hosts with commas between")
        })?;
        Ok(Self {
            count: params.integer("count", 5, 1, 10_000)?,
            members,
            packets: params.integer("packets", 174, 1, PACKETS_MAX)?,
            packet: params.bytes("packet", Bytes(8936))?,
        })
    }
}

fn below(bound: u32, rng: &mut Rng) -> u32 {
    u32::try_from(rng.below(bound.into())).unwrap_or(0)
}

/// Packets, each of which draws its flow.
const DRAWS_MAX: u64 = 10_000_000_000;

impl Workload for Collectives {
    fn generate(&self, nodes: u32, rng: &mut Rng) -> Result<Matrix, InputError> {
        if nodes < 2 {
            return Err(does_not_fit(format!("{nodes} hosts"), "at least two"));
        }
        let members = self.members.iter().map(|size| u64::from((*size).min(nodes))).max();
        let members = members.unwrap_or(0);
        // All hosts are shuffled for each.
        let shuffled = u64::from(self.count).saturating_mul(nodes.into());
        if shuffled > DRAWS_MAX {
            let found = format!("{} collectives among {nodes} hosts", self.count);
            let expected = "at most 10^10 hosts to draw from in all; fewer collectives or hosts";
            return Err(does_not_fit(found, expected));
        }
        let pairs = u64::from(self.count).saturating_mul(members * members);
        if pairs > u64::from(FLOWS_MAX) || pairs.saturating_mul(self.packets.into()) > DRAWS_MAX {
            let found = format!("{} collectives of {members} hosts", self.count);
            let expected = "at most 10^8 flows of 10^10 packets; fewer or smaller collectives";
            return Err(does_not_fit(found, expected));
        }
        let mut flows = Vec::new();
        for collective in 1..=self.count {
            let drawn = below(u32::try_from(self.members.len()).unwrap_or(1), rng);
            let size = self.members[drawn as usize].min(nodes);
            let mut hosts: Vec<u32> = (0..nodes).collect();
            shuffle(&mut hosts, rng);
            for from in 0..size {
                let mut packets = vec![0u64; size as usize];
                for _ in 0..u64::from(self.packets) * u64::from(size - 1) {
                    // One of the others.
                    let to = (from + 1 + below(size - 1, rng)) % size;
                    packets[to as usize] += 1;
                }
                for (to, count) in (0..).zip(packets).filter(|(_, count)| *count > 0) {
                    let [src, dst] = [from, to].map(|member: u32| HostId(hosts[member as usize]));
                    let size = Bytes(count.saturating_mul(self.packet.0));
                    flows.push(FlowSpec { collective, ..FlowSpec::new(src, dst, size) });
                }
            }
        }
        let mut order: Vec<u32> = (0..u32::try_from(flows.len()).unwrap_or(0)).collect();
        shuffle(&mut order, rng);
        let mut matrix = Matrix { nodes, ..Matrix::default() };
        for flow in order {
            matrix.push_flow(flows[flow as usize]);
        }
        Ok(matrix)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn a_member_sends_as_many_packets_as_an_even_exchange_and_to_members_alone() {
        let all = Collectives { count: 3, members: vec![4, 8], packets: 10, packet: Bytes(100) };
        let matrix = all.generate(16, &mut Rng::new(1)).unwrap();
        let mut sent: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        let mut members: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for flow in &matrix.flows {
            *sent.entry((flow.collective, flow.src.0)).or_default() += flow.size.0 / 100;
            members.entry(flow.collective).or_default().extend([flow.src.0, flow.dst.0]);
        }
        assert_eq!(members.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        for (collective, hosts) in &members {
            assert!([4, 8].contains(&hosts.len()), "{hosts:?}");
            for host in hosts {
                let others = hosts.len() as u64 - 1;
                assert_eq!(sent[&(*collective, *host)], 10 * others);
            }
        }
    }

    #[test]
    fn more_flows_or_packets_than_a_matrix_holds_are_refused_at_once() {
        let small = Collectives { count: 1, members: vec![8], packets: 1, packet: Bytes(1) };
        assert!(small.generate(16, &mut Rng::new(1)).is_ok());
        for large in [
            Collectives { count: 10_000, members: vec![65_536], ..small.clone() },
            Collectives { members: vec![65_536], packets: 1 << 20, ..small.clone() },
        ] {
            let error = large.generate(65_536, &mut Rng::new(1)).unwrap_err();
            assert!(error.found.contains("65536 hosts"), "{error}");
        }
    }

    #[test]
    fn sizes_that_are_none_are_refused_with_their_place() {
        for text in ["", "1", "8,x", "8;16"] {
            let params = Params::from_pairs([("members", text)]);
            let error = Collectives::from_params(&params).unwrap_err();
            assert!(error.found.contains(text) && error.expected.contains("commas"), "{error}");
        }
    }
}
