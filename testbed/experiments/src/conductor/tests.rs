//! Tests of the conductor: starts, triggers, connections, hosts apart.

use super::*;
use crate::workload::FlowSpec;
use crate::workload::matrix::TriggerKind;

fn flow(src: u32, dst: u32, size: u64) -> FlowSpec {
    FlowSpec::new(HostId(src), HostId(dst), Bytes(size))
}

#[test]
fn what_a_delayed_trigger_starts_is_due_so_much_later_among_what_starts_by_time() {
    let mut matrix = Matrix { nodes: 2, ..Matrix::default() };
    let delay = Duration::from_us(5);
    let trigger = matrix.push_delayed_trigger(TriggerKind::Oneshot, delay).unwrap();
    matrix.push_flow(FlowSpec { send_done: Some(trigger), ..flow(0, 1, 7) });
    matrix.push_flow(FlowSpec { start: Start::On(trigger), ..flow(0, 1, 7) });
    for us in [6, 9] {
        let start = Start::At(Duration::from_us(us));
        matrix.push_flow(FlowSpec { start, ..flow(0, 1, 7) });
    }
    let at = |us| Instant::ZERO + Duration::from_us(us);
    let mut conductor = Conductor::new(&matrix);
    assert_eq!(conductor.next_order(at(0)).unwrap().flow, FlowIndex(0));
    conductor.on_acked(FlowIndex(0), 7, at(3));
    assert!(!conductor.is_over());
    assert_eq!(conductor.next_order(at(5)), None);
    let order: Vec<_> = (6..=9)
        .flat_map(|us| std::iter::from_fn(|| conductor.next_order(at(us))).collect::<Vec<_>>())
        .map(|order| order.flow.0)
        .collect();
    assert_eq!(order, [2, 1, 3]);
    assert_eq!(conductor.next_start(), None);
}

#[test]
fn a_flow_longer_than_a_message_takes_several() {
    let order = PostOrder {
        flow: FlowIndex(0),
        connection: 0,
        src: HostId(0),
        dst: HostId(1),
        size: 25,
        message_max: 10,
        last: true,
        numbered: false,
    };
    let lens: Vec<u64> = order.messages().map(|len| u64::from(len.get())).collect();
    assert_eq!(lens, [10, 10, 5]);
    assert_eq!([0, 2].map(|number| order.tag_of(number)), [1, 1]);
    let order = PostOrder { numbered: true, ..order };
    assert_eq!([0, 2].map(|number| order.tag_of(number)), [1, 1 + (2 << 32)]);
}

#[test]
fn a_trigger_starts_its_flow_at_once_and_the_run_is_over_when_both_are_done() {
    let mut matrix = Matrix { nodes: 2, ..Matrix::default() };
    let trigger = matrix.push_trigger(TriggerKind::Oneshot).unwrap();
    matrix.push_flow(FlowSpec { send_done: Some(trigger), ..flow(0, 1, 10) });
    matrix.push_flow(FlowSpec { start: Start::On(trigger), ..flow(1, 0, 20) });
    let mut conductor = Conductor::new(&matrix);
    let at = Instant::from_ps(7);
    let first = conductor.next_order(at).unwrap();
    assert_eq!((first.flow, first.last, conductor.next_order(at)), (FlowIndex(0), true, None));
    conductor.on_delivered(first.flow, 10, at);
    conductor.on_acked(first.flow, 10, at);
    assert!(!conductor.is_over());
    let second = conductor.next_order(at).unwrap();
    conductor.on_delivered(second.flow, 20, at);
    conductor.on_acked(second.flow, 20, at);
    assert!(conductor.is_over());
    assert_eq!((conductor.finished(), conductor.delivered()), (2, Bytes(30)));
}

#[test]
fn a_triggered_flow_starts_no_sooner_than_its_event_whenever_the_report_is_taken() {
    let mut matrix = Matrix { nodes: 2, ..Matrix::default() };
    let trigger = matrix.push_trigger(TriggerKind::Oneshot).unwrap();
    matrix.push_flow(FlowSpec { recv_done: Some(trigger), ..flow(0, 1, 10) });
    matrix.push_flow(FlowSpec { start: Start::On(trigger), ..flow(1, 0, 20) });
    let at = |us| Instant::ZERO + Duration::from_us(us);
    for (event, now) in [(10, 9), (10, 11)] {
        let mut conductor = Conductor::new(&matrix);
        conductor.next_order(at(0)).unwrap();
        conductor.on_delivered(FlowIndex(0), 10, at(event));
        assert_eq!(conductor.next_order(at(now)).unwrap().flow, FlowIndex(1));
        assert_eq!(conductor.records[1].start, at(event.max(now)));
    }
}

#[test]
fn messages_on_a_connection_share_its_flow_and_only_the_last_closes_it() {
    let id = NonZeroU32::new(4);
    let mut matrix = Matrix { nodes: 2, ..Matrix::default() };
    matrix.flows.push(FlowSpec { id, ..flow(0, 1, 1) });
    matrix.flows.push(FlowSpec { id, message: LineMeaning::Next, ..flow(0, 1, 1) });
    matrix.flows.push(flow(0, 1, 1));
    let mut conductor = Conductor::new(&matrix);
    assert_eq!(conductor.connections(), 2);
    let orders: Vec<(u32, bool)> = std::iter::from_fn(|| conductor.next_order(Instant::ZERO))
        .map(|order| (order.connection, order.last))
        .collect();
    assert_eq!(orders, [(0, false), (0, true), (1, true)]);
}

#[test]
fn hosts_apart_start_each_others_flows_by_their_messages() {
    let mut matrix = Matrix { nodes: 3, ..Matrix::default() };
    let barrier = matrix.push_trigger(TriggerKind::Barrier(NonZeroU32::new(2).unwrap()));
    let barrier = barrier.unwrap();
    matrix.push_flow(FlowSpec { send_done: Some(barrier), ..flow(0, 1, 10) });
    matrix.push_flow(FlowSpec { recv_done: Some(barrier), ..flow(0, 2, 10) });
    matrix.push_flow(FlowSpec { start: Start::On(barrier), ..flow(1, 0, 5) });
    let mut hosts = [0, 1, 2].map(|host| Conductor::of_host(&matrix, HostId(host)));
    let at = Instant::from_ps(5);
    let orders: Vec<_> = std::iter::from_fn(|| hosts[0].next_order(at)).collect();
    assert_eq!(orders.len(), 2);
    assert!(!hosts[0].is_idle() && hosts[1].is_idle() && hosts[2].is_idle());
    hosts[1].on_delivered(FlowIndex(0), 10, at);
    hosts[2].on_delivered(FlowIndex(1), 10, at);
    hosts[0].on_acked(FlowIndex(0), 10, at);
    hosts[0].on_acked(FlowIndex(1), 10, at);
    let poked = hosts.each_mut().map(Conductor::take_pokes);
    let sent = Poke { flow: 0, received: false };
    let received = Poke { flow: 1, received: true };
    assert_eq!(poked, [vec![sent], vec![], vec![received]]);
    assert_eq!(hosts[1].next_order(at), None, "the barrier waits for both");
    hosts[1].on_poke(received, at);
    hosts[1].on_poke(sent, at);
    hosts[0].on_poke(received, at);
    assert_eq!(hosts[1].next_order(at).map(|order| order.flow), Some(FlowIndex(2)));
    assert!(hosts[0].is_idle() && hosts[0].next_order(at).is_none(), "it is another's flow");
    assert_eq!(hosts[1].counts().delivered, 1);
}

#[test]
fn a_failed_flow_ends_the_run_unfinished() {
    let mut matrix = Matrix { nodes: 2, ..Matrix::default() };
    matrix.push_flow(flow(0, 1, 10));
    let mut conductor = Conductor::new(&matrix);
    let order = conductor.next_order(Instant::ZERO).unwrap();
    conductor.on_failed(order.flow);
    conductor.on_failed(order.flow);
    assert!(conductor.is_over());
    assert_eq!(conductor.finished(), 0);
}

#[test]
fn flows_of_a_host_that_is_gone_fail_and_are_not_counted() {
    let mut matrix = Matrix { nodes: 3, ..Matrix::default() };
    let barrier = matrix.push_trigger(TriggerKind::Barrier(NonZeroU32::new(1).unwrap())).unwrap();
    matrix.push_flow(flow(0, 1, 10));
    matrix.push_flow(FlowSpec { send_done: Some(barrier), ..flow(0, 1, 10) });
    matrix.push_flow(flow(0, 2, 10));
    matrix.push_flow(flow(1, 0, 10));
    matrix.push_flow(FlowSpec { start: Start::On(barrier), ..flow(0, 1, 5) });
    matrix.push_flow(FlowSpec { start: Start::At(Duration::from_s(9)), ..flow(0, 1, 5) });
    let mut own = Conductor::of_host(&matrix, HostId(0));
    let at = Instant::from_ps(5);
    for _ in 0..3 {
        assert!(own.next_order(at).is_some());
    }
    own.on_acked(FlowIndex(1), 10, at);
    own.on_delivered(FlowIndex(3), 10, at);
    // The last flow is due and not ordered.
    for _ in 0..2 {
        own.on_gone(HostId(1));
        let counts = FlowCounts { ordered: 1, ..FlowCounts::default() };
        assert_eq!(own.counts(), counts);
    }
    assert_eq!(own.next_order(at), None);
    // Packets of it may still arrive, and the endpoint gives up later.
    own.on_acked(FlowIndex(0), 10, at);
    own.on_delivered(FlowIndex(3), 10, at);
    own.on_failed(FlowIndex(0));
    assert!(!own.is_idle(), "the flow to host 2 is under way");
    own.on_acked(FlowIndex(2), 10, at);
    assert!(own.is_idle());
    assert_eq!(own.counts(), FlowCounts { ordered: 1, acked: 1, ..FlowCounts::default() });
}
