//! Tests of the ports that flows send SIMs from.

use super::*;

#[test]
fn ports_of_sims_that_were_answered_are_used_again_and_those_of_lost_ones_are_not() {
    let ports = |recycle| {
        let mut host = Host::new(|params| params.recycle = recycle);
        host.open(0, 0, 4);
        host.run(at(5.0));
        let first = host.sims.clone();
        for (_, ev, sim) in [first[1], first[3]] {
            host.receive(PEER, ev, sim.answer());
        }
        host.run(at(30.0));
        host.acknowledged = true;
        host.sched.on_backlog(flow(0), &backlog(9), host.now);
        host.run(at(60.0));
        let evs: Vec<_> = host.sims.iter().map(|(_, ev, _)| *ev).collect();
        let again = |index: usize| evs[4..].contains(&evs[index]);
        [0, 1, 2, 3].map(again)
    };
    assert_eq!(ports(0), [false; 4]);
    assert_eq!(ports(8), [false, true, false, true]);
}

/// The ports of flow 0's SIMs in the order in which they left.
fn ports_of_first(host: &Host) -> Vec<EntropyValue> {
    let of_first = |(_, _, sim): &&(Instant, EntropyValue, Sim)| sim.src_flow.index() == 0;
    host.sims.iter().filter(of_first).map(|(_, ev, _)| *ev).collect()
}

fn distinct(mut ports: Vec<EntropyValue>) -> usize {
    ports.sort_unstable();
    ports.dedup();
    ports.len()
}

/// The ports of flow 0's SIMs, with settings after `change` and one open flow of four segments for
/// each of `labels`.
fn ports_beside(labels: [Label; 4], change: impl FnOnce(&mut DcSimParams)) -> Vec<EntropyValue> {
    let mut host = Host::new(|params| {
        params.stay = true;
        change(params);
    });
    host.acknowledged = true;
    for (index, label) in (0..).zip(labels) {
        let path = config(|_| ()).default_path();
        host.sched.on_open(flow(index), PEER, &path, label);
        host.sched.on_backlog(flow(index), &backlog(4), host.now);
    }
    host.run(at(5.0));
    ports_of_first(&host)
}

#[test]
fn a_flow_stays_on_its_port_where_the_host_has_four_of_its_collective() {
    let of = |collectives: [u32; 4], change: fn(&mut DcSimParams)| {
        let labels = collectives.map(|collective| Label { collective, ..Label::NONE });
        let ports = ports_beside(labels, change);
        (ports.len(), distinct(ports))
    };
    assert_eq!(of([7; 4], |_| ()), (4, 1));
    assert_eq!(of([7; 4], |params| params.order = SimOrder::Smallest), (4, 1));
    assert_eq!(of([7; 4], |params| params.stay = false), (4, 4));
    assert_eq!(of([7, 7, 7, 8], |_| ()), (4, 4), "three of the collective");
    assert_eq!(of([0; 4], |_| ()), (4, 4), "no collective");
    for order in [SimOrder::Flows, SimOrder::Shortest] {
        let labels = [Label { collective: 7, ..Label::NONE }; 4];
        assert_eq!(distinct(ports_beside(labels, |params| params.order = order)), 4, "{order:?}");
    }
    let prios = [1, 1, 1, 2].map(|prio| Label { collective: 7, prio });
    assert_eq!(distinct(ports_beside(prios, |_| ())), 4, "priorities part a collective");
    // Second SIMs near the end take paths of their own.
    assert_eq!(of([7; 4], |params| params.tail = true), (8, 5));
}

/// Answers all SIMs but those of the given places until `end`.
fn answer(host: &mut Host, lost: &[usize], end: Instant) {
    let mut next = host.sims.len();
    while host.now < end {
        host.run(host.now + us(0.5));
        for place in next..host.sims.len() {
            let (_, ev, sim) = host.sims[place];
            if !lost.contains(&place) {
                assert!(host.receive(PEER, ev, sim.answer()));
            }
        }
        next = host.sims.len();
    }
}

#[test]
fn a_flow_stays_on_its_port_as_long_as_its_sims_are_answered() {
    for recycle in [0, 8] {
        let mut host = Host::new(|params| (params.stay, params.recycle) = (true, recycle));
        (0..4).for_each(|index| host.open(index, 7, 300));
        // The 601st SIM is one of flow 0, and is lost.
        answer(&mut host, &[600], at(300.0));
        assert_eq!(host.sims[600].2.src_flow, flow(0));
        let ports = ports_of_first(&host);
        let mut runs = ports.clone();
        runs.dedup();
        assert_eq!(runs.len(), 2, "the port changes once: {runs:?}");
        assert!(ports.iter().filter(|ev| **ev == runs[0]).count() > 150);
        // DATA leaves from the port of its SIM, RTT_max behind it.
        let data: Vec<_> = host.turns.iter().filter(|(_, of, _)| *of == flow(0)).collect();
        assert_eq!(data.len(), 300);
        assert!(data.windows(2).filter(|two| two[0].2 != two[1].2).count() <= 1);
        assert_eq!(host.sched.sender.ports_in_use(), (0, 0));
    }
}

#[test]
fn several_losses_on_one_port_end_one_stay_only() {
    let mut host = Host::new(|params| params.stay = true);
    (0..4).for_each(|index| host.open(index, 7, 400));
    // Three and a half RTT_max, in which nothing is answered.
    host.run(at(77.0));
    let mut runs = ports_of_first(&host);
    runs.dedup();
    // SIMs that were on their way on a port do not end the stay on the next one.
    assert_eq!(runs.len(), 4, "{runs:?}");
    let rtt_max = host.sched.rtt_max();
    let first_of = |ev| host.sims.iter().find(|(_, port, _)| *port == ev).unwrap().0;
    for pair in runs.windows(2) {
        let stay = first_of(pair[1]).since(first_of(pair[0]));
        // A SIM has its port when it is queued, behind at most B others.
        assert!((rtt_max..rtt_max + us(1.5)).contains(&stay), "{stay:?}");
    }
}

#[test]
fn a_flow_returns_to_a_port_that_it_has_kept_but_not_at_once() {
    let mut host = Host::new(|params| (params.stay, params.recycle) = (true, 8));
    (0..4).for_each(|index| host.open(index, 7, 400));
    // The flows have their turns in order: the first SIM is of flow 0. It is lost, the others of
    // the first 20 us have answers, and later SIMs have none.
    answer(&mut host, &[0], at(20.0));
    assert_eq!(host.sims[0].2.src_flow, flow(0));
    host.run(at(80.0));
    let mut runs = ports_of_first(&host);
    runs.dedup();
    // DATA of the first port leaves while the flow is on the second, so the flow has kept the
    // first for its third stay.
    assert!(runs.len() >= 3 && runs[1] != runs[0] && runs[2] == runs[0], "{runs:?}");
    // No DATA left from the second port, so a fourth stay is on a new one.
    assert!(runs[3..].iter().all(|ev| !runs[..3].contains(ev)), "{runs:?}");
}

#[test]
fn a_flow_that_reuses_a_place_has_none_of_the_ports_of_the_former_one() {
    let mut host = Host::new(|params| (params.stay, params.recycle) = (true, 8));
    (0..4).for_each(|index| host.open(index, 7, 400));
    host.run(at(2.0));
    let (before, old) = (host.sims.len(), ports_of_first(&host)[0]);
    let (_, _, sim) = *host.sims.iter().find(|(.., sim)| sim.src_flow == flow(0)).unwrap();
    let path = config(|_| ()).default_path();
    let new = FlowId::new(0, 2);
    host.acknowledged = true;
    host.sched.on_open(new, PEER, &path, Label { collective: 7, ..Label::NONE });
    host.sched.on_backlog(new, &backlog(100), host.now);
    // Whether or not the SIM-ACK is taken, the port is not the new flow's.
    host.receive(PEER, old, sim.answer());
    // The new flow's SIMs are lost, so it goes from port to port.
    host.run(at(80.0));
    let of_new = host.sims[before..].iter().filter(|(.., sim)| sim.src_flow == new);
    let mut ports: Vec<_> = of_new.map(|(_, ev, _)| *ev).collect();
    ports.dedup();
    assert!(ports.len() >= 3 && !ports.contains(&old), "{ports:?} {old:?}");
}

#[test]
fn a_flow_begins_and_ends_to_stay_as_its_collective_grows_and_shrinks() {
    let mut host = Host::new(|params| params.stay = true);
    host.acknowledged = true;
    (0..3).for_each(|index| host.open(index, 7, 40));
    host.run(at(1.0));
    let sprayed = ports_of_first(&host);
    assert_eq!(distinct(sprayed.clone()), sprayed.len());
    host.open(3, 7, 40);
    // SIMs that wait for the line have their ports already.
    host.run(at(3.0));
    let before = host.sims.len();
    host.run(at(4.0));
    let since = |host: &Host, place: usize| {
        let sims = host.sims[place..].iter().filter(|(.., sim)| sim.src_flow == flow(0));
        sims.map(|(_, ev, _)| *ev).collect::<Vec<_>>()
    };
    let stays = since(&host, before);
    assert!(stays.len() > 1 && distinct(stays.clone()) == 1, "{stays:?}");
    // A flow of another collective takes the fourth flow's place.
    let path = config(|_| ()).default_path();
    host.sched.on_open(FlowId::new(3, 2), PEER, &path, Label { collective: 8, ..Label::NONE });
    host.run(at(6.0));
    let before = host.sims.len();
    host.run(at(8.0));
    let sprayed = since(&host, before);
    assert!(sprayed.len() > 1 && distinct(sprayed.clone()) == sprayed.len(), "{sprayed:?}");
    assert!(!sprayed.contains(&stays[0]));
    // All SIMs end.
    (0..4).for_each(|index| host.sched.on_backlog(flow(index), &backlog(0), host.now));
    host.run(at(100.0));
    assert_eq!(host.sched.sender.ports_in_use(), (0, 0));
}

#[test]
fn second_sims_near_the_end_leave_a_flow_on_its_port() {
    let mut host = Host::new(|params| (params.stay, params.tail) = (true, true));
    host.acknowledged = true;
    (0..4).for_each(|index| host.open(index, 7, 4));
    host.run(at(5.0));
    let ports = ports_of_first(&host);
    assert_eq!((ports.len(), distinct(ports.clone())), (8, 5));
    // More segments come before any SIM is lost.
    host.sched.on_backlog(flow(0), &backlog(12), host.now);
    host.run(at(8.0));
    let later = ports_of_first(&host).split_off(8);
    assert!(later.len() >= 4 && later.iter().all(|ev| *ev == ports[0]), "{later:?} {ports:?}");
}
