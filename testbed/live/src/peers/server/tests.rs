//! What the server does with memos of clients, and when it begins and ends their sessions.

use transport_dpdk::MessageBytes;

use super::super::tests::{CLIENT, Monitor, SERVER, end, linked, terms};
use super::*;

/// Runs `act` on a server that has welcomed session 7 of a client, at a device without a peer.
fn welcoming(act: impl FnOnce(&mut Server<'_>)) {
    linked(|link| {
        let mut monitor = Monitor::default();
        let setup = ProcessSetup { device: "net_null0".parse().unwrap(), ..end(link, SERVER) };
        let host = PeerHost::open(setup, Duration::ZERO, &mut monitor).unwrap();
        let patience = Duration::from_s(9);
        let options = ServerOptions { patience, memory_bytes: 1 << 26, sessions_max: None };
        let until = Instant::FAR_FUTURE;
        let welcome = Welcome { peer: CLIENT, number: 7, terms: terms(), cookie: 1, until };
        let (session, broken, served, refusals) = Default::default();
        let (welcome, monitor) = (Some(welcome), &mut monitor);
        let mut server =
            Server { host, options, session, welcome, served, broken, refusals, monitor };
        act(&mut server);
    });
}

#[test]
fn a_session_begins_for_the_host_and_number_that_are_welcome() {
    welcoming(|server| {
        let mut begins = |host, session| {
            let go = Memo::Go { session };
            server.on_memo(host, &go.bytes(), Instant::ZERO).unwrap();
            server.session.is_some()
        };
        assert!(!begins(HostId(2), 7), "another host begins it");
        assert!(!begins(CLIENT, 8), "another number begins it");
        assert!(begins(CLIENT, 7));
    });
}

#[test]
fn the_welcome_to_a_client_that_ends_is_withdrawn() {
    welcoming(|server| {
        let mut stays = |host, session| {
            let stop = Memo::Stop { session, reason: "enough".to_owned() };
            server.on_memo(host, &stop.bytes(), Instant::ZERO).unwrap();
            server.welcome.is_some()
        };
        assert!(stays(HostId(2), 7), "another host ends it");
        assert!(stays(CLIENT, 8), "another number ends it");
        assert!(!stays(CLIENT, 7));
    });
}

/// What a client sends in session 7.
const PING: Tag = Tag { kind: Kind::Ping, session: 7, number: 0 };
const GO: Memo = Memo::Go { session: 7 };
const FINISH: Memo = Memo::Finish { session: 7 };

/// The memos that wait to be sent over `connection`.
fn memos_to_send(server: &Server<'_>, over: u32) -> Vec<Memo> {
    let octets = server.host.waiting.iter().filter_map(|request| match request {
        Request::Send { connection, source: MessageBytes::Owned(octets), .. } => {
            Some(octets).filter(|_| *connection == over)
        }
        _ => None,
    });
    octets.filter_map(|octets| Memo::read(octets).ok()).collect()
}

/// Go may come in one burst with the acknowledgement of the Welcome, at which the worker is built
/// anew.
#[test]
fn completions_of_the_lobby_are_read_in_the_session() {
    welcoming(|server| {
        server.host.waiting.push_back(Request::Close { connection: 9 });
        server.host.turn(server.monitor);
        server.on_welcomed(1).unwrap();
        let completion = server.host.poll();
        assert!(matches!(completion, Some(Completion::Refused { .. })), "{completion:?}");
        assert!(server.host.poll().is_none());
    });
}

#[test]
fn go_opens_connections_and_is_answered_once() {
    welcoming(|server| {
        server.on_welcomed(1).unwrap();
        server.host.waiting.clear();
        for _ in 0..2 {
            server.on_memo(CLIENT, &GO.bytes(), Instant::ZERO).unwrap();
        }
        assert!(matches!(server.host.waiting[0], Request::Open { connection: 0, .. }));
        assert_eq!(memos_to_send(server, 0), [Memo::Ready { session: 7 }]);
    });
}

#[test]
fn a_client_gets_answers_from_go_on_and_none_before() {
    welcoming(|server| {
        server.on_welcomed(1).unwrap();
        let mut answers = |go: bool| {
            if go {
                server.on_memo(CLIENT, &GO.bytes(), Instant::ZERO).unwrap();
            }
            server.host.waiting.clear();
            server.answer(PING, CLIENT);
            server.on_memo(CLIENT, &FINISH.bytes(), Instant::ZERO).unwrap();
            server.report(Instant::ZERO);
            server.host.waiting.len()
        };
        assert_eq!(answers(false), 0, "no connection is open");
        assert_eq!(answers(true), 2, "a pong and the report");
    });
}

#[test]
fn a_session_ends_as_agreed_once_its_client_has_the_report() {
    welcoming(|server| {
        let done = |session| Memo::Done { session }.bytes();
        server.on_memo(CLIENT, &GO.bytes(), Instant::ZERO).unwrap();
        server.on_memo(CLIENT, &done(7), Instant::ZERO).unwrap();
        server.on_memo(CLIENT, &FINISH.bytes(), Instant::ZERO).unwrap();
        server.on_memo(CLIENT, &done(7), Instant::ZERO).unwrap();
        server.report(Instant::ZERO);
        for (host, session) in [(HostId(2), 7), (CLIENT, 8)] {
            server.on_memo(host, &done(session), Instant::ZERO).unwrap();
        }
        assert!(server.session.is_some());
        for _ in 0..2 {
            server.on_memo(CLIENT, &done(7), Instant::ZERO).unwrap();
            assert!(server.session.is_none());
        }
        assert_eq!((server.served.complete, server.served.broken), (1, 0));
    });
}

#[test]
fn a_client_that_begins_a_session_that_is_over_is_notified() {
    welcoming(|server| {
        server.on_welcomed(1).unwrap();
        server.host.waiting.clear();
        server.on_memo(CLIENT, &Memo::Go { session: 8 }.bytes(), Instant::ZERO).unwrap();
        let [Memo::Stop { session: 8, reason }] = &memos_to_send(server, STRANGER)[..] else {
            panic!("{:?}", memos_to_send(server, STRANGER));
        };
        assert_eq!(reason, "it has no session of this number");
        assert_eq!(server.served.refused, 0);
    });
}

#[test]
fn a_client_that_takes_no_answers_gets_a_bounded_number_of_them() {
    welcoming(|server| {
        server.on_memo(CLIENT, &Memo::Go { session: 7 }.bytes(), Instant::ZERO).unwrap();
        let before = server.host.waiting.len();
        for number in 0..u32::try_from(WAITING_MAX).unwrap() + 9 {
            server.answer(Tag { kind: Kind::Ping, session: 7, number }, CLIENT);
            let answers = server.host.waiting.len() - before;
            assert!(answers > number as usize || answers + before == WAITING_MAX, "{number}");
        }
        assert_eq!(server.host.waiting.len(), WAITING_MAX);
    });
}

#[test]
fn a_client_that_was_given_up_is_notified_whatever_the_server_does_meanwhile() {
    welcoming(|server| {
        let is_of_broken = |server: &Server<'_>, from, kind, session, octets: &[u8]| {
            server.is_of_broken(from, Tag { kind, session, number: 0 }.pack(), octets)
        };
        let asks = Memo::Hello {
            protocol: super::super::protocol::PROTOCOL,
            version: String::new(),
            session: 7,
            terms: Box::new(terms()),
        };
        server.on_memo(CLIENT, &Memo::Go { session: 7 }.bytes(), Instant::ZERO).unwrap();
        assert!(!is_of_broken(server, CLIENT, Kind::Data, 7, &[0]), "it goes on");
        server.give_up("silence").unwrap();
        // Another host has a session, and it ends as agreed.
        let until = Instant::FAR_FUTURE;
        let other = Welcome { peer: HostId(2), number: 9, terms: terms(), cookie: 2, until };
        server.begin(other).unwrap();
        for ended in [false, true] {
            if ended {
                server.end(None).unwrap();
            }
            assert!(is_of_broken(server, CLIENT, Kind::Data, 7, &[0]));
            assert!(is_of_broken(server, CLIENT, Kind::Ping, 7, &[0]));
            assert!(is_of_broken(server, CLIENT, Kind::Memo, 7, &Memo::Go { session: 7 }.bytes()));
            assert!(!is_of_broken(server, CLIENT, Kind::Memo, 7, &asks.bytes()), "asks anew");
            assert!(!is_of_broken(server, CLIENT, Kind::Data, 8, &[0]), "of another session");
            assert!(!is_of_broken(server, HostId(2), Kind::Data, 7, &[0]), "another host");
        }
        server.notify_of_broken();
        assert!(!is_of_broken(server, CLIENT, Kind::Data, 7, &[0]), "notified once");
        // An end by the client itself is none that it has to be notified of.
        let again = Welcome { peer: CLIENT, number: 7, terms: terms(), cookie: 3, until };
        server.begin(again).unwrap();
        server.end(Some("the client ended it")).unwrap();
        assert!(!is_of_broken(server, CLIENT, Kind::Data, 7, &[0]));
    });
}
