//! Tests of an application at a stack of its own. DPDK starts once in a process, so one test does
//! it all.

use std::time::Duration as Time;

use transport::{Duration, Rate};

use super::*;
use crate::stack::{Stack, StackSetup};

/// Two applications with one connection each.
fn stack() -> (Stack, [App; 2]) {
    let mut stack = Stack::start(StackSetup {
        keys: None,
        cards: Vec::new(),
        line_rate: Rate::from_gbps(10),
        base_rtt: Duration::from_us(200),
        rto_min: Duration::from_ms(100),
        payload_max: 1024,
        connections_max: 1,
        messages_max: 8,
        memory_max: 1 << 20,
        ring: 32,
        dpdk_mb: 128,
        hugepages: None,
    })
    .unwrap();
    let pair = stack.attach_pair().unwrap();
    let (connections, messages) = stack.limits();
    let apps = pair.map(|attached| App::new(attached, connections, messages));
    (stack, apps)
}

/// Repeats `act` once a millisecond until it has a result, for at least ten seconds.
fn patiently<T>(mut act: impl FnMut() -> Option<T>) -> T {
    for _ in 0..10_000 {
        if let Some(done) = act() {
            return done;
        }
        std::thread::sleep(Time::from_millis(1));
    }
    panic!("nothing in ten seconds");
}

/// Repeats `act` until its result is not [`Refusal::Again`]. Returns that result, and the events of
/// all applications until then.
fn accepted<T>(
    apps: &mut [App; 2],
    mut act: impl FnMut(&mut [App; 2]) -> Result<T, Refusal>,
) -> (T, Vec<Event>) {
    let mut events = Vec::new();
    let done = patiently(|| match act(apps) {
        Ok(done) => Some(done),
        Err(refusal) => {
            assert_eq!(refusal, Refusal::Again, "{events:?}");
            events.extend(apps.iter_mut().flat_map(|app| std::iter::from_fn(|| app.poll())));
            None
        }
    });
    (done, events)
}

/// The first event that `wanted` picks; those before it are left out, those after it are not.
fn event<T>(apps: &mut [App; 2], wanted: impl Fn(Event) -> Option<T>) -> T {
    patiently(|| {
        let mut events = apps.iter_mut().flat_map(|app| std::iter::from_fn(|| app.poll()));
        events.find_map(&wanted)
    })
}

/// As many requests as there may be have no response, and one of them is given up.
fn requests_without_response_are_given_up(apps: &mut [App; 2]) {
    let asked = |event| match event {
        Event::Request { peer, token, .. } => Some((peer, token)),
        _ => None,
    };
    let mut questions = Vec::new();
    for cookie in 10..18 {
        let (_, events) = accepted(apps, |apps| apps[0].request(0, b"question", cookie));
        questions.extend(events.into_iter().filter_map(asked));
    }
    while questions.len() < 8 {
        questions.push(event(apps, asked));
    }
    // All have been acknowledged, and none is answered: there is no room for another one.
    for _ in 0..100 {
        while apps[0].poll().is_some() {}
        assert_eq!(apps[0].request(0, b"question", 20), Err(Refusal::Again));
        std::thread::sleep(Time::from_millis(1));
    }
    assert_eq!(apps[0].cancel(9), Err(Refusal::NoRequest));
    assert_eq!(apps[0].cancel(12), Ok(()));
    assert_eq!(apps[0].cancel(12), Err(Refusal::NoRequest));
    apps[0].request(0, b"question", 20).unwrap();
    questions.push(event(apps, asked));
    // The response to the one that was given up is no event.
    let mut answered = Vec::new();
    let response = |event: &Event| match event {
        Event::Response { cookie, .. } => Some(*cookie).filter(|cookie| *cookie >= 10),
        _ => None,
    };
    for (peer, token) in questions {
        let (_, events) = accepted(apps, |apps| apps[1].respond(peer, token, b"answer", 8));
        answered.extend(events.iter().filter_map(response));
    }
    while answered.len() < 8 {
        answered.push(event(apps, |event| response(&event)));
    }
    answered.sort_unstable();
    assert_eq!(answered, [10, 11, 13, 14, 15, 16, 17, 20]);
    assert!(apps[0].asked.is_empty());
}

#[test]
fn a_response_on_a_connection_that_is_refused_fails_for_the_reason_of_that() {
    let (ring, _worker) = transport_dpdk::app_ring(4, 4);
    let path = transport::Config::new(transport::Settings::default()).unwrap().default_path();
    let mut app = App::new(Attached { ring, host: HostId(0), path }, 1, 2);
    let (connection, at, reason) = (0, Instant::ZERO, Failure::FlowTableFull);
    app.respond(HostId(1), 5, b"answer", 7).unwrap();
    let place = app.outgoing.iter().position(Option::is_some).unwrap() as u64;
    assert!(app.event_of(Completion::Refused { connection, reason, at }).is_none());
    let failed = |cookie, reason| Completion::Failed { cookie, connection, reason, at };
    let event = app.event_of(failed(place, Failure::NoSuchConnection)).unwrap();
    assert!(
        matches!(event, Event::Failed { cookie: 7, reason: r, .. } if r == reason),
        "{event:?}"
    );
    assert!(app.connections[0].is_none(), "its number is free");
}

#[test]
fn numbers_and_places_of_connections_come_back() {
    const NOWHERE: HostId = HostId(u32::MAX);
    let (stack, mut apps) = stack();
    let peer = apps[1].host();
    // A connection that is closed before its refusal is seen.
    assert_eq!(apps[0].connect(NOWHERE, Label::NONE), Ok(0));
    assert_eq!(apps[0].close(0), Ok(()));
    assert_eq!(apps[0].connect(peer, Label::NONE), Err(Refusal::Again));
    let (number, events) = accepted(&mut apps, |apps| apps[0].connect(peer, Label::NONE));
    assert_eq!(number, 0);
    let refusal = |event: &Event| matches!(event, Event::Refused { connection: 0, .. });
    assert!(events.len() == 1 && refusal(&events[0]), "{events:?}");
    assert_eq!(apps[0].connect(peer, Label::NONE), Err(Refusal::TooMany));
    // The new one is good, and stays so.
    apps[0].request(0, b"question", 5).unwrap();
    let asked = |event| match event {
        Event::Request { peer, token, .. } => Some((peer, token)),
        _ => None,
    };
    let (asker, token) = event(&mut apps, asked);
    apps[1].respond(asker, token, b"answer", 6).unwrap();
    let sent = |event| matches!(event, Event::Sent { cookie: 6, .. }).then_some(());
    event(&mut apps, sent);
    requests_without_response_are_given_up(&mut apps);
    // The answers' connection is closed for another peer as soon as it is idle.
    let other = HostId(asker.0 + 9);
    assert_eq!(apps[1].respond(other, 1, b"answer", 7), Err(Refusal::Again));
    accepted(&mut apps, |apps| apps[1].respond(other, 1, b"answer", 7));
    // More memory than there can be is refused.
    assert!(stack.region(usize::MAX >> 1).is_err());
}
