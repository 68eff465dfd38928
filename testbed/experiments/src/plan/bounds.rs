//! The packets of flows, and the times that no run can be shorter than.

use std::collections::BTreeSet;

use transport::{Bytes, Duration, HostId, Instant};

use super::{Plan, telemetry};
use crate::topology::{FlowPackets, Transfer, base_one_way, delivery_alone, ideal_completion};
use crate::workload::matrix::Start;
use crate::workload::{FlowIndex, FlowSpec, Matrix, Triggers};

impl Plan {
    /// The packets that carry a flow of `size` bytes, each sent once: each message has segments of
    /// its own. Parity of an erasure code is not among them, since a receiver may not need it.
    #[must_use]
    pub fn packets(&self, size: Bytes) -> FlowPackets {
        let payload = u64::from(self.settings.payload_max.max(1));
        let header = u64::from(self.fabric.mtu - self.settings.payload_max);
        let message = u64::from(self.matrix.message_max());
        let (whole, rest) = (size.0 / message, size.0 % message);
        let full = whole.saturating_mul(message / payload).saturating_add(rest / payload);
        let tails = if message.is_multiple_of(payload) { 0 } else { whole };
        let last = u64::from(!rest.is_multiple_of(payload));
        FlowPackets::new([
            (payload + header, full),
            (message % payload + header, tails),
            (rest % payload + header, last),
        ])
    }

    /// Segments that carry a flow of `size` bytes.
    #[must_use]
    pub fn segments(&self, size: Bytes) -> u64 {
        self.packets(size).count()
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
        self.packets(size).bytes()
    }

    /// The way of a flow's last acknowledgement, from its receiver `dst` to its sender, with the
    /// telemetry that the path of the flow writes at least.
    #[must_use]
    pub fn way_back(&self, src: HostId, dst: HostId) -> Duration {
        let spec = self.tree.spec();
        let hops = telemetry::hops_least(&self.draft, spec, spec.meeting_tier(src, dst));
        let cc = self.settings.policies(&self.path(src, dst)).cc;
        base_one_way(&self.tree, dst, src, self.settings.ack_least(cc, hops).0)
    }

    /// The least completion time of a flow of `size` bytes that is alone in the network: its
    /// delivery at best, and the way of its last acknowledgement.
    #[must_use]
    pub fn fct_alone(&self, src: HostId, dst: HostId, size: Bytes) -> Duration {
        delivery_alone(&self.tree, src, dst, &self.packets(size)) + self.way_back(src, dst)
    }

    /// When the matrix could be delivered at best. Flows that no trigger would start are left out.
    #[must_use]
    pub fn ideal(&self) -> Instant {
        let starts = self.starts();
        let lines = self.matrix.flows.iter().zip(starts);
        let transfers: Vec<Transfer> = lines
            .filter(|(_, start)| *start < Instant::FAR_FUTURE)
            .map(|(flow, start)| {
                let packets = self.packets(flow.size);
                Transfer { src: flow.src, dst: flow.dst, packets, start }
            })
            .collect();
        ideal_completion(&self.tree, &transfers)
    }

    /// When each flow could start at best: where triggers start flows, as if each flow that pokes
    /// one took as long as it does alone. No trigger fires later when its pokes come sooner.
    fn starts(&self) -> Vec<Instant> {
        let Matrix { flows, triggers, .. } = &self.matrix;
        let timed = |flow: &FlowSpec| match flow.start {
            Start::At(after) => Instant::ZERO + after,
            Start::On(_) => Instant::FAR_FUTURE,
        };
        let mut starts: Vec<Instant> = flows.iter().map(timed).collect();
        if triggers.is_empty() {
            return starts;
        }
        let mut triggers = Triggers::new(&self.matrix);
        let first =
            triggers.start().iter().map(|flow| (starts[flow.index()], FlowStep::Start, *flow));
        let mut due: BTreeSet<(Instant, FlowStep, FlowIndex)> = first.collect();
        // Bounded: each flow has each step once.
        while let Some((now, step, flow)) = due.pop_first() {
            let poked = match step {
                FlowStep::Delivered => triggers.on_recv_done(flow),
                FlowStep::Acked => triggers.on_send_done(flow),
                FlowStep::Start => {
                    starts[flow.index()] = now;
                    let FlowSpec { src, dst, size, .. } = flows[flow.index()];
                    let delivered = now + delivery_alone(&self.tree, src, dst, &self.packets(size));
                    due.insert((delivered, FlowStep::Delivered, flow));
                    due.insert((delivered + self.way_back(src, dst), FlowStep::Acked, flow));
                    continue;
                }
            };
            let start =
                |flow: &FlowIndex| (now + self.matrix.delay_of(*flow), FlowStep::Start, *flow);
            due.extend(poked.iter().map(start));
        }
        starts
    }
}

/// A step of a flow that could start others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FlowStep {
    Start,
    Delivered,
    Acked,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Draft, Origin};
    use crate::topology;
    use crate::workload::matrix::TriggerKind;

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

    #[test]
    fn a_triggered_flow_could_start_when_the_one_before_is_delivered_alone() {
        let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
        let delay = Duration::from_us(9);
        let trigger = matrix.push_delayed_trigger(TriggerKind::Oneshot, delay);
        let [first, second] = [(0, 8), (8, 3)]
            .map(|(src, dst)| FlowSpec::new(HostId(src), HostId(dst), Bytes(10_001)));
        let start = Start::At(Duration::from_us(4));
        matrix.push_flow(FlowSpec { start, recv_done: trigger, ..first }).unwrap();
        let start = Start::On(trigger.unwrap());
        matrix.push_flow(FlowSpec { start, ..second }).unwrap();
        let tree = topology::by_name("paper-testbed").unwrap();
        let plan = Plan::new(&Draft::default(), matrix, &tree).unwrap();
        let alone = |src, dst| {
            delivery_alone(&plan.tree, HostId(src), HostId(dst), &plan.packets(Bytes(10_001)))
        };
        let start = Instant::ZERO + Duration::from_us(4);
        let then = start + alone(0, 8) + delay;
        assert_eq!(plan.starts(), [start, then]);
        assert_eq!(plan.ideal(), then + alone(8, 3));
    }
}
