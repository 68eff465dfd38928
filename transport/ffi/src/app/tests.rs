//! Tests of an application at a stack of its own. DPDK starts once in a process, so one test does
//! it all.

use std::time::Duration as Time;

use transport::{Duration, Rate};

use super::*;
use crate::stack::{Setup, Stack};

/// Two applications with one connection each.
fn stack() -> (Stack, [App; 2]) {
    let mut stack = Stack::start(Setup {
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

/// Repeats `act` until its result is not [`Refusal::Again`]. Returns that result, and the events of
/// all applications until then.
fn patiently<T>(
    apps: &mut [App; 2],
    mut act: impl FnMut(&mut [App; 2]) -> Result<T, Refusal>,
) -> (T, Vec<Event>) {
    let mut events = Vec::new();
    // At least ten seconds.
    for _ in 0..10_000 {
        match act(apps) {
            Ok(done) => return (done, events),
            Err(refusal) => assert_eq!(refusal, Refusal::Again, "{events:?}"),
        }
        events.extend(apps.iter_mut().flat_map(|app| std::iter::from_fn(|| app.poll())));
        std::thread::sleep(Time::from_millis(1));
    }
    panic!("nothing but refusals: {events:?}");
}

/// The first event that `wanted` picks.
fn event<T>(apps: &mut [App; 2], wanted: impl Fn(Event) -> Option<T>) -> T {
    let next = |apps: &mut [App; 2]| {
        let mut events = apps.iter_mut().flat_map(|app| std::iter::from_fn(|| app.poll()));
        events.find_map(&wanted).ok_or(Refusal::Again)
    };
    patiently(apps, next).0
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
    let (number, events) = patiently(&mut apps, |apps| apps[0].connect(peer, Label::NONE));
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
    // The answer's connection is closed for another peer as soon as it is idle.
    apps[1].respond(asker, token, b"answer", 6).unwrap();
    let sent = |event| matches!(event, Event::Sent { cookie: 6, .. }).then_some(());
    event(&mut apps, sent);
    let other = HostId(asker.0 + 9);
    assert_eq!(apps[1].respond(other, 1, b"answer", 7), Err(Refusal::Again));
    patiently(&mut apps, |apps| apps[1].respond(other, 1, b"answer", 7));
    // More memory than there can be is refused.
    assert!(stack.region(usize::MAX >> 1).is_err());
}
