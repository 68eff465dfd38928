//! Clients, whose server is the stranger.

use super::*;

#[test]
fn a_client_goes_by_the_memos_of_its_server_for_its_own_session() {
    let result = linked(|link| {
        let client = OtherEnd::start("client", link, SOON);
        let mut stranger = Stranger::open(end(link, SERVER));
        let session = stranger.is_asked();
        let say = |stranger: &mut Stranger, memo: &Memo| {
            let cookie = stranger.host.send_memo_once(CLIENT, session, memo);
            stranger.wait_for_end_by(cookie);
        };
        say(&mut stranger, &stop(session + 1));
        stranger.pose_as(2);
        say(&mut stranger, &stop(session));
        stranger.pose_as(SERVER.0);
        let reason = "not today".to_owned();
        say(&mut stranger, &Memo::Refused { session: 0, busy: false, reason });
        client.result()
    });
    assert_eq!(result, json!({"Err": "the server refuses: not today"}));
}

#[test]
fn a_client_asks_for_as_long_as_it_waits_for_a_server() {
    let result = asking("client", SOON, |stranger, _| {
        // The twelve timeouts after which a flow fails by default take 0.4 s.
        thread::sleep(std::time::Duration::from_secs(2));
        let (session, reason) = (stranger.is_asked(), "not today".to_owned());
        let refusal = Memo::Refused { session, busy: false, reason };
        let cookie = stranger.host.send_memo_once(CLIENT, session, &refusal);
        stranger.wait_for_end_by(cookie);
    });
    assert_eq!(result, json!({"Err": "the server refuses: not today"}));
}

#[test]
fn a_server_that_is_silent_is_given_up_whatever_another_host_sends() {
    let patience = Duration::from_ms(600);
    let result = asking("client", patience, |stranger, _| {
        let session = stranger.host_a_session();
        stranger.pose_as(2);
        stranger.outlast(patience, Some(&stop(session)));
    });
    assert!(result["Err"].as_str().is_some_and(|why| why.starts_with(SILENCE)), "{result}");
}

#[test]
fn a_client_whose_server_is_never_ready_gives_it_up() {
    let patience = Duration::from_ms(600);
    let result = asking("sender", patience, |stranger, _| {
        let session = stranger.wait_for_go();
        stranger.say(&Memo::Ready { session: session + 1 });
        stranger.outlast(patience, None);
        assert!(stranger.others.is_empty(), "{:?}", stranger.others);
        let ends = |memo: &Memo| matches!(memo, Memo::Stop { .. });
        assert!(stranger.memos.iter().any(ends), "{:?}", stranger.memos);
    });
    assert!(result["Err"].as_str().is_some_and(|why| why.starts_with(SILENCE)), "{result}");
}

#[test]
fn a_client_whose_ping_is_not_delivered_ends_with_that_reason() {
    let result = asking("hasty client", SOON, |stranger, _| {
        let session = stranger.host_a_session();
        let pong = Tag { kind: Kind::Pong, session: short(session), number: 0 };
        stranger.send(0, pong, &[0; 64]);
        // From here on nothing is polled, so the second ping is not acknowledged.
    });
    let why = "a message to the server was not delivered: ";
    assert!(result["Err"].as_str().is_some_and(|error| error.starts_with(why)), "{result}");
}

/// The stranger's flows are gone when the client's last memo comes, so it is not acknowledged.
#[test]
fn a_client_stays_until_its_last_memo_is_acknowledged() {
    let result = asking("sender", SOON, |stranger, _| {
        let session = stranger.host_a_session();
        let before = stranger.host.segments();
        stranger.host.send_memo(0, &report(session, Totals::default()));
        stranger.wait(|own| (own.host.segments() != before).then_some(()));
        thread::sleep(core::time::Duration::from_millis(300));
        stranger.enter(&terms());
        stranger.wait(|own| own.memos.contains(&Memo::Done { session }).then_some(()));
        stranger.wait_a_while();
    });
    assert!(result["Ok"].is_array(), "{result}");
}

#[test]
fn a_client_that_has_its_report_has_its_result_though_the_server_is_silent() {
    let result = asking("sender", Duration::from_ms(600), |stranger, _| {
        let session = stranger.host_a_session();
        stranger.say(&report(session, Totals::default()));
    });
    assert!(result["Ok"].is_array(), "{result}");
}

#[test]
fn a_client_that_is_interrupted_while_it_asks_notifies_the_server() {
    let result = asking("client", SOON, |stranger, client| {
        let session = stranger.is_asked();
        client.let_end();
        let ends = |memo: &Memo| matches!(memo, Memo::Stop { session: own, .. } if *own == session);
        stranger.wait(|own| own.memos.iter().any(ends).then_some(()));
    });
    assert_eq!(result, json!({"Err": "interrupted before there was a result"}));
}

#[test]
fn a_client_that_is_interrupted_before_its_server_is_ready_notifies_it() {
    let result = asking("sender", Duration::from_ms(600), |stranger, client| {
        let session = stranger.wait_for_go();
        client.let_end();
        let ends = |memo: &Memo| matches!(memo, Memo::Stop { session: own, .. } if *own == session);
        stranger.wait(|own| own.memos.iter().any(ends).then_some(()));
    });
    assert_eq!(result, json!({"Err": "interrupted before there was a result"}));
}

#[test]
fn data_of_the_server_shows_a_client_as_well_that_it_is_ready() {
    let result = asking("receiver", SOON, |stranger, _| {
        let session = stranger.wait_for_go();
        let data = Tag { kind: Kind::Data, session: short(session), number: 0 };
        stranger.send(1, data, &[0; 64]);
        let sent = Totals { messages: 1, bytes: 64, ..Totals::default() };
        stranger.say(&Memo::End { session, sent });
        let asks = |memo: &Memo| matches!(memo, Memo::Finish { .. });
        stranger.wait(|own| own.memos.iter().any(asks).then_some(()));
        stranger.report(session, Totals::default());
    });
    // The sums over the messages' numbers differ.
    let delivered = "from the server: 1 messages of 64 bytes acknowledged, 1 of 64 delivered";
    assert_eq!(result["Ok"][0], json!([delivered]));
}

/// A server that acknowledges everything is not silent.
#[test]
fn a_client_that_is_interrupted_waits_for_a_report_no_longer_than_it_has_patience() {
    let patience = Duration::from_ms(600);
    let interrupted = |reports: bool| {
        asking("endless sender", patience, |stranger, client| {
            let session = stranger.host_a_session();
            client.let_end();
            let asks = |memo: &Memo| matches!(memo, Memo::Finish { .. });
            stranger.wait(|own| own.memos.iter().any(asks).then_some(()));
            if reports {
                stranger.wait_a_while();
                stranger.report(session, Totals::default());
            }
            stranger.outlast(patience, None);
        })
    };
    assert_eq!(interrupted(false), json!({"Err": "interrupted before there was a result"}));
    let result = interrupted(true);
    assert!(result["Ok"].is_array(), "{result}");
}

#[test]
fn a_round_trip_ends_with_the_pong_of_its_session_from_its_server() {
    let mut least = Duration::ZERO;
    let result = asking("client", SOON, |stranger, _| {
        let session = stranger.host_a_session();
        let began = stranger.host.now();
        let pong = Tag { kind: Kind::Pong, session: short(session), number: 0 };
        stranger.send(0, Tag { kind: Kind::Ping, ..pong }, &[0; 64]);
        stranger.send(0, Tag { session: short(session + 1), ..pong }, &[0; 64]);
        stranger.send(0, Tag { number: 1, ..pong }, &[0; 64]);
        stranger.pose_as(2);
        stranger.send(0, pong, &[0; 64]);
        // Longer than the while that the client may have begun before.
        (0..3).for_each(|_| stranger.wait_a_while());
        stranger.pose_as(SERVER.0);
        // The client has begun before `began`: its round trip takes longer than this.
        least = stranger.host.now().since(began);
        stranger.send(0, pong, &[0; 64]);
        stranger.report(session, Totals::default());
    });
    let trips: [u64; 1] = serde_json::from_value(result["Ok"][1].clone()).unwrap();
    assert!(Duration::from_ns(trips[0]) > least, "{result}, at least {least:?}");
}

#[test]
fn counts_of_both_ends_that_contradict_each_other_are_findings() {
    let result = asking("sender", SOON, |stranger, _| {
        let session = stranger.host_a_session();
        let data = Tag { kind: Kind::Data, session: short(session), number: 0 };
        // One that is too short, one of another session, and one of another host.
        stranger.send(0, data, &[0; 10]);
        stranger.send(0, Tag { session: short(session + 1), ..data }, &[0; 64]);
        stranger.pose_as(2);
        stranger.send(0, data, &[0; 64]);
        stranger.pose_as(SERVER.0);
        let sent = Totals { messages: 3, bytes: 192, ..Totals::default() };
        stranger.say(&Memo::End { session, sent });
        stranger.report(session, Totals { wrong: 2, ..Totals::default() });
    });
    let findings = [
        "to the server: 1 messages of 64 bytes acknowledged, 0 of 0 delivered",
        "from the server: 3 messages of 192 bytes acknowledged, 1 of 10 delivered",
        "1 messages delivered here had wrong bytes",
        "2 messages delivered there had wrong bytes",
    ];
    assert_eq!(result["Ok"][0], json!(findings), "{result}");
}
