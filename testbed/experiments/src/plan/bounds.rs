//! The packets of flows, and the times that no run can be shorter than.

use transport::{Bytes, Duration, HostId, Instant};

use super::Plan;
use crate::topology::{Transfer, base_rtt, ideal_completion};
use crate::workload::matrix::Start;

impl Plan {
    /// Segments that carry a flow of `size` bytes: each message has segments of its own.
    #[must_use]
    pub fn segments(&self, size: Bytes) -> u64 {
        let payload = u64::from(self.settings.payload_max.max(1));
        let message = u64::from(self.matrix.message_max());
        let (whole, rest) = (size.0 / message, size.0 % message);
        whole.saturating_mul(message.div_ceil(payload)).saturating_add(rest.div_ceil(payload))
    }

    /// Payload of the first segment of a flow of `size` bytes, the longest that it has.
    #[must_use]
    pub fn first_segment(&self, size: Bytes) -> Bytes {
        let longest = self.matrix.message_max().min(self.settings.payload_max.into());
        size.min(Bytes(longest.into()))
    }

    /// Bytes on the wire of the packets that carry a flow of `size` bytes, each sent once.
    #[must_use]
    pub fn wire_bytes(&self, size: Bytes) -> u64 {
        let header = u64::from(self.fabric.mtu - self.settings.payload_max);
        size.0.saturating_add(self.segments(size).saturating_mul(header))
    }

    /// The completion time of a flow of `size` bytes that is alone in the network: all its packets
    /// at the line rate, the first one's round trip.
    #[must_use]
    pub fn fct_alone(&self, src: HostId, dst: HostId, size: Bytes) -> Duration {
        let header = u64::from(self.fabric.mtu - self.settings.payload_max);
        let first = self.first_segment(size).0 + header;
        let rest = self.wire_bytes(size).saturating_sub(first);
        let ack = u64::from(self.fabric.ack_len);
        base_rtt(&self.tree, src, dst, first, ack) + self.settings.line_rate.time_for(Bytes(rest))
    }

    /// When the matrix could be delivered at best.
    #[must_use]
    pub fn ideal(&self) -> Instant {
        let transfers: Vec<Transfer> = self
            .matrix
            .flows
            .iter()
            .map(|flow| {
                let start = match flow.start {
                    Start::At(after) => Instant::ZERO + after,
                    Start::On(_) => Instant::ZERO,
                };
                let (packets, wire_bytes) = (self.segments(flow.size), self.wire_bytes(flow.size));
                Transfer { src: flow.src, dst: flow.dst, wire_bytes, packets, start }
            })
            .collect();
        ideal_completion(&self.tree, &transfers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Draft, Origin};
    use crate::topology;
    use crate::workload::{FlowSpec, Matrix};

    fn plan(message: &str, size: u64) -> Plan {
        let mut draft = Draft::default();
        for (key, value) in [("mtu", "1000"), ("run.message", message)] {
            draft.set(key, value, Origin::Set).unwrap();
        }
        let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(8), Bytes(size)));
        Plan::new(&draft, matrix, &topology::by_name("paper-testbed").unwrap()).unwrap()
    }

    #[test]
    fn each_message_has_segments_of_its_own() {
        for (message, size, segments) in [
            ("none", 10_000, 10),
            ("1", 10_000, 10_000),
            ("400", 10_000, 25),
            ("1500", 10_000, 6 * 2 + 1),
            ("1500", 10_500, 7 * 2),
            ("2000", 10_001, 11),
        ] {
            let plan = plan(message, size);
            assert_eq!(plan.segments(Bytes(size)), segments, "{message}");
            let header = u64::from(plan.fabric.mtu) - 1000;
            assert_eq!(plan.wire_bytes(Bytes(size)), size + segments * header);
        }
    }

    #[test]
    fn short_messages_are_done_no_sooner_than_what_they_have_on_the_wire() {
        // Each is stored and sent on at every hop, so short ones are not held up for long; in all
        // they take the time of their headers, too.
        let ideal = |message| plan(message, 100_000).ideal();
        assert!(ideal("500") > ideal("1000") && ideal("1000") == ideal("none"));
        let alone = |message| plan(message, 4000).fct_alone(HostId(0), HostId(8), Bytes(4000));
        assert!(alone("4") > alone("400") && alone("1000") == alone("none"));
    }
}
