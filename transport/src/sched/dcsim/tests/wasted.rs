//! Tests of SIM-ACKs that nothing makes use of.

use super::*;

#[test]
fn a_segment_acknowledged_meanwhile_wastes_the_sim_that_was_for_it() {
    let mut host = Host::new(|_| ());
    host.open(0, 0, 1);
    host.run(at(5.0));
    let (_, ev, sim) = host.sims[0];
    // Equation 3 does not hold before the SIM ends; nothing new is sent.
    host.sched.on_backlog(flow(0), &backlog(0), host.now);
    assert!(host.receive(PEER, ev, sim.answer()));
    assert_eq!(host.sched.figures().sims.wasted, 1);
    host.run(at(60.0));
    assert!(host.turns.is_empty() && host.sims.len() == 1);
    assert_eq!(host.sched.sender.ports_in_use(), (0, 0));
}

/// Gives the next DATA its turn, in which its flow has a segment for it or none.
fn turn(host: &mut Host, has_segment: bool) {
    let turn = (0..10_000).find_map(|_| {
        host.now += us(0.01);
        host.sched.handle_timeout(host.now);
        host.sched.next_turn(host.now, host.now)
    });
    let turn = turn.expect("a DATA whose time comes");
    if has_segment {
        host.sched.on_sent(turn.flow, &mut full(), || backlog(1), host.now);
    } else {
        host.sched.on_backlog(turn.flow, &backlog(2), host.now);
    }
}

#[test]
fn a_sim_for_two_is_wasted_where_neither_leaves() {
    for (segments, wasted) in
        [([true, true], 0), ([true, false], 0), ([false, true], 0), ([false, false], 1)]
    {
        let mut host = Host::new(|params| params.per_sim = 2);
        host.open(0, 0, 2);
        host.acknowledged = true;
        host.run(at(5.0));
        let (_, ev, sim) = host.sims[0];
        assert!(host.receive(PEER, ev, sim.answer()));
        for has_segment in segments {
            turn(&mut host, has_segment);
        }
        assert_eq!(host.sched.figures().sims.wasted, wasted, "{segments:?}");
    }
}
