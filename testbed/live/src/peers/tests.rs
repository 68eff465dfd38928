//! A server, and a client, each with a stranger at the other end of its link. The stranger sends
//! what no client and no server sends, in the name of any host. The stranger is the test; the other
//! end is a process of its own.

use std::collections::VecDeque;
use std::io::Read as _;
use std::num::NonZeroU32;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::{Value, json};
use transport::wire::addressing::{Addressing, IpVersion};
use transport_dpdk::{Completion, Eal, Failure, MessageBytes, Request};

use super::client::{ClientOptions, run};
use super::host::PeerHost;
use super::protocol::{Kind, MEMO_MAX, Memo, PROTOCOL, Tag, Totals};
use super::server::{REFUSALS_A_HOST, REFUSALS_MAX, ServerOptions, serve};
use super::stream::short;
use super::*;

mod clients;

/// The time for which a test waits for something that must come, before it fails.
const SOON: Duration = Duration::from_s(30);

/// The time for which a test waits to show that something does not come.
const A_WHILE: Duration = Duration::from_ms(200);

pub(super) const SERVER: HostId = HostId(0);
pub(super) const CLIENT: HostId = HostId(1);

/// Links so far, and DPDK, which starts once in a process. Each link has devices of its own, and
/// one goes on at a time.
static LINKS: Mutex<(u32, Option<Eal>)> = Mutex::new((0, None));

/// The time between a hasty client's two pings.
const HASTY_PAUSE: Duration = Duration::from_s(2);

/// The arguments of the process at the other end of a link: its part, the name of the link, and
/// milliseconds of patience.
const OTHER_END: &str = "HEADRACE_OTHER_END";

/// The beginning of the line with the other end's result on standard error.
const RESULT: &str = "result: ";

/// What the other end notes of its sessions, and whether it is to end.
#[derive(Clone, Debug, Default)]
pub(super) struct Monitor {
    ends: Arc<AtomicBool>,
    begun: u32,
    broken: Vec<String>,
}

impl SessionMonitor for Monitor {
    fn wants_end(&mut self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    fn on_event(&mut self, event: &SessionEvent<'_>) {
        match event {
            SessionEvent::Begins(..) => self.begun += 1,
            SessionEvent::Ends(_, Some(why)) => self.broken.push((*why).to_owned()),
            _ => {}
        }
    }
}

/// The process at the other end of a link. It ends with its input, and also where a test fails.
struct OtherEnd(Child);

impl OtherEnd {
    fn start(part: &str, link: &str, patience: Duration) -> Self {
        let what = format!("{part},{link},{}", patience.as_ps() / 1_000_000_000);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "peers::tests::the_other_end", "--nocapture"]);
        let command = command.env(OTHER_END, what).stdin(Stdio::piped()).stdout(Stdio::null());
        Self(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Lets the other end's process end.
    fn let_end(&mut self) {
        drop(self.0.stdin.take());
    }

    /// The result of the process, once it has ended.
    #[track_caller]
    fn result(mut self) -> Value {
        self.let_end();
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let result = said.lines().find_map(|line| line.strip_prefix(RESULT));
        let result = result.unwrap_or_else(|| panic!("no result: {said}"));
        serde_json::from_str(result).unwrap()
    }
}

impl Drop for OtherEnd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This is no test. Where a test has started this process as its other end, this is that other end.
#[test]
fn the_other_end() {
    let Ok(what) = std::env::var(OTHER_END) else { return };
    let [part, link, ms] = what.split(',').collect::<Vec<_>>()[..] else { panic!("{what}") };
    let patience = Duration::from_ms(ms.parse().unwrap());
    let mut monitor = Monitor::default();
    let ends = Arc::clone(&monitor.ends);
    thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        ends.store(true, Ordering::Release);
    });
    let result = if part == "server" {
        let options = ServerOptions { patience, memory_bytes: 1 << 26, sessions_max: None };
        let served = serve(end(link, SERVER), &options, &mut monitor).unwrap();
        json!({
            "complete": served.complete, "refused": served.refused, "begun": monitor.begun,
            "broken": monitor.broken, "counters": served.counters,
        })
    } else {
        // A hasty client's flows fail long before its patience is over.
        let is_hasty = part == "hasty client";
        let (pings, interval) = if is_hasty { (2, HASTY_PAUSE) } else { (1, Duration::ZERO) };
        let options = ClientOptions { server: SERVER, wait: SOON, patience, pings, interval };
        let hasty = ("loss.give_up".to_owned(), "200ms".to_owned());
        let set = if is_hasty { vec![hasty] } else { Vec::new() };
        let job = match part {
            "sender" => Job::Perf { up: true, down: false, duration_ms: None, bytes: Some(64) },
            "receiver" => Job::Perf { up: false, down: true, duration_ms: None, bytes: Some(64) },
            "endless sender" => Job::Perf { up: true, down: false, duration_ms: None, bytes: None },
            _ => Job::Ping,
        };
        let terms = SessionTerms { job, set, ..terms() };
        let ran = run(end(link, CLIENT), &terms, &options, &mut monitor);
        let ran = ran.map(|outcome| json!([outcome.findings, outcome.round_trips]));
        json!(ran.map_err(|error| error.to_string()))
    };
    eprintln!("{RESULT}{result}");
}

/// Runs `act` on a link of its own.
pub(super) fn linked<T>(act: impl FnOnce(&str) -> T) -> T {
    let mut links = LINKS.lock().unwrap_or_else(PoisonError::into_inner);
    links.0 += 1;
    let link = format!("headrace-peers-{}-{}", std::process::id(), links.0);
    links.1.get_or_insert_with(|| {
        // With room for all links, since the memory that one gives back is in pieces.
        let one = end(&link, SERVER);
        let all = ProcessSetup { buffers: ROOM * one.buffers, ..one };
        Eal::start(&all.eal_options(all.device.buffer_room())).unwrap()
    });
    act(&link)
}

/// Links for which there is memory.
const ROOM: u32 = 16;

/// The server's or the client's end of a link. A process that has listened keeps its device and the
/// socket of that, so each link has a device of another name.
pub(super) fn end(link: &str, host: HostId) -> ProcessSetup {
    let number = link.rsplit('-').next().unwrap();
    ProcessSetup {
        device: format!("net_memif{number},socket={link}").parse().unwrap(),
        side: if host == SERVER { Side::Listens } else { Side::Connects },
        host,
        addressing: Addressing::emulated(IpVersion::V4),
        unresolved: Vec::new(),
        memory: MemoryMode::Auto,
        buffers: 511,
        depth: 256,
        eal_arguments: Vec::new(),
        core: None,
        keys: None,
    }
}

/// The end of a link that does as the test wants.
struct Stranger {
    host: PeerHost,
    /// The other end.
    peer: HostId,
    monitor: Monitor,
    memos: VecDeque<Memo>,
    /// Messages that are no memos.
    others: Vec<Tag>,
    /// Cookies of messages that were acknowledged.
    sent: Vec<u64>,
}

impl Stranger {
    fn open(setup: ProcessSetup) -> Self {
        let mut monitor = Monitor::default();
        let peer = if setup.host == SERVER { CLIENT } else { SERVER };
        let host = PeerHost::open(setup, SOON, &mut monitor).unwrap();
        let (memos, others, sent) = Default::default();
        Self { host, peer, monitor, memos, others, sent }
    }

    /// Acts as `host` from now on, without any earlier state.
    fn pose_as(&mut self, host: u32) {
        self.host.pose_as(HostId(host));
        self.enter(&SessionTerms::lobby());
    }

    /// Builds an endpoint of these terms, and connections to the other end.
    fn enter(&mut self, terms: &SessionTerms) {
        self.host.build(terms).unwrap();
        (self.memos, self.others, self.sent) = Default::default();
        self.host.meet(self.peer, terms.flows);
    }

    fn turn(&mut self) {
        self.host.turn(&mut self.monitor);
        while let Some(completion) = self.host.poll() {
            match completion {
                Completion::Delivered { tag, memory, .. } => match Tag::unpack(tag).unwrap() {
                    Tag { kind: Kind::Memo, .. } => {
                        self.memos.push_back(Memo::read(&memory).unwrap());
                    }
                    other => self.others.push(other),
                },
                Completion::Sent { cookie, .. }
                | Completion::Failed { cookie, reason: Failure::PeerForgot, .. } => {
                    self.sent.push(cookie);
                }
                _ => {}
            }
        }
        thread::yield_now();
    }

    /// Waits until `what` is there.
    #[track_caller]
    fn wait<T>(&mut self, mut what: impl FnMut(&mut Self) -> Option<T>) -> T {
        let until = self.host.now() + SOON;
        loop {
            if let Some(found) = what(self) {
                return found;
            }
            assert!(self.host.now() < until, "it does not come: {:?}", self.memos);
            self.turn();
        }
    }

    /// The next memo.
    #[track_caller]
    fn memo(&mut self) -> Memo {
        self.wait(|own| own.memos.pop_front())
    }

    /// Notes what comes in during a while.
    fn wait_a_while(&mut self) {
        let until = self.host.now() + A_WHILE;
        while self.host.now() < until {
            self.turn();
        }
    }

    /// Sends `memo` to the other end, which gets it before anything that is sent later.
    #[track_caller]
    fn say(&mut self, memo: &Memo) {
        let cookie = self.host.send_memo(0, memo);
        self.wait(|own| own.sent.contains(&cookie).then_some(()));
    }

    /// Sends these octets over `connection` under a label.
    #[track_caller]
    fn send(&mut self, connection: u32, tag: Tag, octets: &[u8]) {
        let tag = tag.pack();
        let len = NonZeroU32::new(u32::try_from(octets.len()).unwrap()).unwrap();
        let source = MessageBytes::Owned(octets.into());
        self.host.waiting.push_back(Request::Send { connection, source, len, tag, cookie: tag });
        self.wait(|own| own.sent.contains(&tag).then_some(()));
    }

    /// Asks for a session on these terms, to which the server agrees, and builds an endpoint for
    /// it.
    #[track_caller]
    fn agree(&mut self, session: u64, terms: &SessionTerms) {
        self.say(&asked(session, terms.clone()));
        assert_eq!(self.memo(), Memo::Welcome { session, payload_bytes: 1024 });
        self.enter(terms);
    }

    /// Asks for a session, and begins it.
    #[track_caller]
    fn begin(&mut self, session: u64) {
        self.agree(session, &terms());
        self.go(session);
    }

    /// Sends Go, which the server answers when it is ready.
    #[track_caller]
    fn go(&mut self, session: u64) {
        self.say(&Memo::Go { session });
        assert_eq!(self.memo(), Memo::Ready { session });
    }

    /// Goes on for twice the other end's patience, and sends `memo` all the time.
    fn outlast(&mut self, patience: Duration, memo: Option<&Memo>) {
        let until = self.host.now() + patience + patience;
        while self.host.now() < until {
            if let Some(memo) = memo {
                self.host.send_memo_once(self.peer, 0, memo);
            }
            self.wait_a_while();
        }
    }

    /// Reports these counts to the client, and waits until the client says that it has them.
    #[track_caller]
    fn report(&mut self, session: u64, received: Totals) {
        self.say(&report(session, received));
        self.wait(|own| own.memos.contains(&Memo::Done { session }).then_some(()));
        self.wait_a_while();
    }

    /// Asks the server for its report, and says that it has come. The session is over with that.
    #[track_caller]
    fn finish(&mut self, session: u64) {
        self.say(&Memo::Finish { session });
        let memo = self.memo();
        assert!(is_report(&memo, session), "{memo:?}");
        self.say(&Memo::Done { session });
        self.wait_a_while();
    }

    /// Waits until the other end has got a message by which it may end: until it is acknowledged or
    /// the link is down, since a process that ends takes its last acknowledgement with it.
    #[track_caller]
    fn wait_for_end_by(&mut self, cookie: u64) {
        self.wait(|own| (own.sent.contains(&cookie) || !own.host.is_link_up()).then_some(()));
    }

    /// The number of the session that the client asks for.
    #[track_caller]
    fn is_asked(&mut self) -> u64 {
        self.wait(|own| match own.memos.pop_front()? {
            Memo::Hello { session, .. } => Some(session),
            _ => None,
        })
    }

    /// Hosts the client's session, sends Ready, and goes on until the client has begun. Returns the
    /// session's number.
    #[track_caller]
    fn host_a_session(&mut self) -> u64 {
        let session = self.wait_for_go();
        self.say(&Memo::Ready { session });
        self.wait_a_while();
        session
    }

    /// Agrees to the session that the client asks for, and checks that the client sends nothing but
    /// Go while its server is not ready. Returns the session's number.
    #[track_caller]
    fn wait_for_go(&mut self) -> u64 {
        let session = self.is_asked();
        let welcome = Memo::Welcome { session, payload_bytes: 1024 };
        let cookie = self.host.send_memo_once(CLIENT, session, &welcome);
        let go = Memo::Go { session };
        self.wait(|own| (own.sent.contains(&cookie) || own.memos.contains(&go)).then_some(()));
        let began = self.memos.contains(&go);
        let early = std::mem::take(&mut self.others);
        self.enter(&terms());
        if !began {
            self.wait(|own| own.memos.contains(&go).then_some(()));
        }
        self.wait_a_while();
        let others = [early, std::mem::take(&mut self.others)].concat();
        assert!(others.is_empty(), "sent before the server is ready: {others:?}");
        let is_go = |memo: &Memo| *memo == go || matches!(memo, Memo::Hello { .. });
        assert!(self.memos.iter().all(is_go), "{:?}", self.memos);
        session
    }

    /// The server has the session of another host.
    #[track_caller]
    fn is_turned_away(&mut self) {
        self.say(&hello(99));
        let memo = self.memo();
        assert!(matches!(memo, Memo::Refused { session: 99, busy: true, .. }), "{memo:?}");
    }
}

pub(super) fn terms() -> SessionTerms {
    SessionTerms { interval_ms: 0, ..SessionTerms::default() }
}

fn asked(session: u64, terms: SessionTerms) -> Memo {
    let version = "0".to_owned();
    Memo::Hello { protocol: PROTOCOL, version, session, terms: Box::new(terms) }
}

fn hello(session: u64) -> Memo {
    asked(session, terms())
}

fn stop(session: u64) -> Memo {
    Memo::Stop { session, reason: "enough".to_owned() }
}

fn report(session: u64, received: Totals) -> Memo {
    let (counters, vitals) = Default::default();
    Memo::Report { session, received, counters, vitals }
}

fn is_report(memo: &Memo, number: u64) -> bool {
    matches!(memo, Memo::Report { session, .. } if *session == number)
}

/// Runs a server with this patience, and `act` as its client: what the server has served.
fn served(patience: Duration, act: impl FnOnce(&mut Stranger, &mut OtherEnd)) -> Value {
    linked(|link| {
        let mut server = OtherEnd::start("server", link, patience);
        let mut stranger = Stranger::open(end(link, CLIENT));
        stranger.pose_as(CLIENT.0);
        act(&mut stranger, &mut server);
        server.result()
    })
}

/// Checks how many sessions were complete, and why the others were broken.
#[track_caller]
fn assert_served(served: &Value, complete: u64, broken: &[&str]) {
    let (found, why) = (&served["complete"], &served["broken"]);
    assert_eq!((found, why), (&json!(complete), &json!(broken)), "{served:#}");
}

#[test]
fn what_is_no_request_for_a_session_is_refused_with_the_reason() {
    let served = served(SOON, |stranger, _| {
        let mut refused = |octets: &[u8]| {
            let tag =
                Tag { kind: Kind::Memo, session: 0, number: u32::try_from(octets.len()).unwrap() };
            stranger.send(0, tag, octets);
            let Memo::Refused { session, busy: false, reason } = stranger.memo() else { panic!() };
            (session, reason)
        };
        let other = br#"{"note":"greeting","protocol":99,"version":"9.9.9","session":3}"#;
        let (session, reason) = refused(other);
        assert!(session == 3 && reason.contains("protocol 99 of headrace 9.9.9"), "{reason}");
        assert!(refused(b"\xFF\xFE").1.contains("no JSON"));
        assert!(refused(&vec![b'['; MEMO_MAX + 1]).1.contains("at most"));
        let none = SessionTerms { flows: 0, ..terms() };
        assert_eq!(refused(&asked(5, none).bytes()), (5, "a session of no flows".to_owned()));
        let cc = Some("smrtt".to_owned());
        let (session, reason) = refused(&asked(6, SessionTerms { cc, ..terms() }).bytes());
        assert!(session == 6 && reason.contains("smartt"), "{reason}");
        let large = SessionTerms { message_bytes: 1 << 27, ..terms() };
        let (session, reason) = refused(&asked(7, large).bytes());
        assert!(session == 7 && reason.contains("more --memory"), "{reason}");
    });
    assert_served(&served, 0, &[]);
    assert_eq!(served["refused"], 6);
}

#[test]
fn a_request_that_comes_again_and_memos_of_another_session_end_none() {
    let served = served(SOON, |stranger, _| {
        stranger.begin(7);
        for memo in [hello(7), stop(8), Memo::Finish { session: 8 }, Memo::Done { session: 7 }] {
            stranger.say(&memo);
        }
        stranger.wait_a_while();
        assert!(stranger.memos.is_empty(), "{:?}", stranger.memos);
        stranger.finish(7);
    });
    assert_served(&served, 1, &[]);
    assert_eq!(served["begun"], 1);
}

#[test]
fn a_server_sends_once_its_client_is_ready_for_that_session() {
    let served = served(SOON, |stranger, _| {
        let job = Job::Perf { up: false, down: true, duration_ms: None, bytes: Some(64) };
        stranger.agree(7, &SessionTerms { job, ..terms() });
        stranger.say(&Memo::Go { session: 8 });
        assert!(matches!(stranger.memo(), Memo::Stop { session: 8, .. }));
        stranger.wait_a_while();
        assert!(stranger.others.is_empty(), "{:?}", stranger.others);
        stranger.go(7);
        stranger.wait(|own| (!own.others.is_empty()).then_some(()));
        stranger.say(&stop(7));
        stranger.wait_a_while();
    });
    assert_served(&served, 0, &["the client ended it: enough"]);
}

#[test]
fn a_host_that_asks_for_another_session_has_that_one() {
    let served = served(SOON, |stranger, _| {
        stranger.begin(7);
        // As after a restart.
        stranger.pose_as(CLIENT.0);
        stranger.begin(8);
        stranger.finish(8);
    });
    assert_served(&served, 1, &["its client began another"]);
}

#[test]
fn a_client_that_comes_back_to_a_session_that_is_over_is_notified_once() {
    let served = served(Duration::from_ms(600), |stranger, _| {
        stranger.begin(7);
        thread::sleep(core::time::Duration::from_millis(1500));
        let data = |session, number| Tag { kind: Kind::Data, session: short(session), number };
        stranger.send(1, data(8, 0), &[0; 64]);
        stranger.wait_a_while();
        assert!(stranger.memos.is_empty(), "of another session: {:?}", stranger.memos);
        stranger.send(1, data(7, 1), &[0; 64]);
        let memo = stranger.memo();
        let Memo::Stop { session: 7, reason } = memo else { panic!("{memo:?}") };
        assert!(reason.starts_with("nothing was received from its client for"), "{reason}");
        stranger.send(1, data(7, 2), &[0; 64]);
        stranger.wait_a_while();
        assert!(stranger.memos.is_empty(), "{:?}", stranger.memos);
    });
    assert_eq!((&served["complete"], &served["begun"]), (&json!(0), &json!(1)));
}

#[test]
fn memos_and_pings_of_another_host_are_of_no_session() {
    let served = served(SOON, |stranger, _| {
        stranger.begin(7);
        let ping = |session, number| Tag { kind: Kind::Ping, session: short(session), number };
        stranger.send(1, ping(8, 1), &[0; 64]);
        stranger.send(1, ping(7, 2), &[0; 64]);
        stranger.wait(|own| (!own.others.is_empty()).then_some(()));
        let pong = Tag { kind: Kind::Pong, ..ping(7, 2) };
        assert_eq!(stranger.others, [pong], "a ping of another session is not answered");
        stranger.pose_as(2);
        stranger.send(0, ping(7, 3), &[0; 64]);
        stranger.say(&Memo::Finish { session: 7 });
        stranger.say(&stop(7));
        stranger.is_turned_away();
        // Its own host ends it.
        stranger.pose_as(CLIENT.0);
        stranger.say(&stop(7));
        stranger.wait_a_while();
    });
    assert_served(&served, 0, &["the client ended it: enough"]);
}

#[test]
fn a_welcome_that_nothing_answers_is_withdrawn() {
    let served = served(Duration::from_ms(300), |stranger, _| {
        stranger.say(&hello(7));
        stranger.pose_as(2);
        let until = stranger.host.now() + SOON;
        loop {
            assert!(stranger.host.now() < until, "the welcome stays");
            stranger.say(&hello(9));
            match stranger.memo() {
                Memo::Welcome { session: 9, .. } => break,
                Memo::Refused { busy: true, .. } => stranger.wait_a_while(),
                other => panic!("{other:?}"),
            }
        }
    });
    assert_eq!(served["complete"], 0);
}

#[test]
fn one_host_gets_some_refusals_and_all_hosts_together_a_bounded_number() {
    let served = served(SOON, |stranger, _| {
        let none = SessionTerms { flows: 0, ..terms() };
        let mut ask = |host: u32, times: usize, refusals: usize| {
            stranger.pose_as(host);
            (0..times).for_each(|_| stranger.say(&asked(1, none.clone())));
            stranger.wait(|own| (own.memos.len() >= refusals).then_some(()));
            if times > refusals {
                stranger.wait_a_while();
            }
            assert_eq!(stranger.memos.len(), refusals, "host {host}");
        };
        ask(1, REFUSALS_A_HOST + 10, REFUSALS_A_HOST);
        let hosts = u32::try_from(REFUSALS_MAX / REFUSALS_A_HOST).unwrap();
        (2..=hosts).for_each(|host| ask(host, REFUSALS_A_HOST, REFUSALS_A_HOST));
        ask(hosts + 1, 1, 0);
    });
    assert_eq!(served["refused"], REFUSALS_MAX + 11);
}

#[test]
fn a_client_whose_welcome_is_under_way_gets_the_servers_end() {
    let served = served(SOON, |stranger, server| {
        stranger.say(&hello(7));
        server.let_end();
        // Nothing is received until the server has seen that it is to end, so the welcome is not
        // acknowledged before.
        thread::sleep(core::time::Duration::from_millis(150));
        let stops = |memo: &Memo| matches!(memo, Memo::Stop { session: 7, .. });
        stranger.wait(|own| own.memos.iter().any(stops).then_some(()));
    });
    assert_eq!(served["complete"], 0);
}

/// Runs a client of this kind with this patience, and `act` as its server: what the client says.
fn asking(part: &str, patience: Duration, act: impl FnOnce(&mut Stranger, &mut OtherEnd)) -> Value {
    linked(|link| {
        let mut client = OtherEnd::start(part, link, patience);
        let mut stranger = Stranger::open(end(link, SERVER));
        act(&mut stranger, &mut client);
        client.result()
    })
}

/// What a client and a server say of a peer's silence begins with this.
const SILENCE: &str = "nothing was received from ";

#[test]
fn a_client_that_is_silent_is_given_up_whatever_another_host_sends() {
    let patience = Duration::from_ms(600);
    let served = served(patience, |stranger, _| {
        stranger.begin(7);
        stranger.pose_as(2);
        stranger.outlast(patience, Some(&stop(7)));
    });
    let why = served["broken"].as_array().unwrap();
    let [why] = &why[..] else { panic!("{served:#}") };
    assert!(why.as_str().unwrap().starts_with(SILENCE), "{why}");
}
