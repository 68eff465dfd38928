//! Tests of meetings: rounds, clocks, hosts that go or do not come, strangers.

use std::io::Write as _;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

use transport_dpdk::CALIBRATION_MIN;
use transport_dpdk::{Calibration, TimeScale};

use super::*;

/// A port at which nothing listens. It lies below those that the kernel chooses (32768 on), since
/// hosts of tests that run meanwhile listen at such ports.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut ports = std::iter::repeat_with(|| {
        let next =
            NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id().wrapping_mul(97));
        20_000 + u16::try_from(next % 12_000).unwrap()
    });
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

fn network(hosts: u32, port: u16) -> HostsFile {
    let mut text = String::new();
    for host in 0..hosts {
        text += &format!(
            "[[host]]\nname = \"h{host}\"\naddress = \"10.0.0.{}/24\"\ndevice = \"eth0\"\n\
             control = \"127.0.0.1:{port}\"\n",
            host + 1
        );
    }
    HostsFile::read(text.as_bytes(), "hosts.toml").unwrap()
}

fn clock() -> DilatedClock {
    Calibration::measure(CALIBRATION_MIN).unwrap().clock(TimeScale::REAL)
}

fn open(network: &HostsFile, host: u32, patience: Duration) -> Result<Meeting, RunError> {
    Meeting::open(network, &Hello::of_test(host), (clock(), patience), &mut || Ok(()))
}

/// Runs all hosts on threads of their own.
fn together<T: Send>(hosts: u32, act: impl Fn(Meeting) -> T + Sync) -> Vec<T> {
    let network = network(hosts, free_port());
    thread::scope(|scope| {
        let run = |host| {
            let (network, act) = (&network, &act);
            scope.spawn(move || act(open(network, host, Duration::from_s(60)).unwrap()))
        };
        let threads: Vec<_> = (0..hosts).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn every_host_gets_every_part_of_every_round() {
    let seen = together(3, |mut meeting| {
        let join = RoundPart::Join(Hello::of_test(meeting.own));
        let (parts, _) = meeting.gather(Round::Join, join, &mut || Ok(())).unwrap();
        let rtts_ps = vec![(meeting.own, 1)];
        let part = RoundPart::Measure(super::super::message::MeasurePart {
            rtts_ps,
            longest_ps: 2,
            jitter_ps: 1,
            scheduler_ps: None,
            chance: 7,
        });
        let (measured, at) = meeting.gather(Round::Measure, part, &mut || Ok(())).unwrap();
        meeting.part();
        (parts.len(), measured, at)
    });
    assert!(seen.iter().all(|host| host == &seen[0]) && seen[0].0 == 3);
    let RoundPart::Measure(last) = &seen[0].1[2] else { panic!("{seen:?}") };
    assert_eq!(last.rtts_ps, [(2, 1)]);
}

#[test]
fn clocks_are_compared_while_the_first_host_waits() {
    let errors = together(2, |mut meeting| {
        let join = RoundPart::Join(Hello::of_test(meeting.own));
        meeting.gather(Round::Join, join, &mut || Ok(())).unwrap();
        let offset = meeting.compare_clocks(&mut || Ok(())).unwrap();
        meeting.gather(Round::Synced, RoundPart::Synced, &mut || Ok(())).unwrap();
        meeting.part();
        offset.error()
    });
    assert_eq!(errors[0], Duration::ZERO);
    assert!(errors[1] < Duration::MAX);
}

#[test]
fn a_host_that_goes_is_named_by_all_others() {
    let ends = together(3, |mut meeting| {
        let join = RoundPart::Join(Hello::of_test(meeting.own));
        meeting.gather(Round::Join, join, &mut || Ok(())).unwrap();
        if meeting.own == 1 {
            return "gone".to_owned();
        }
        let armed = meeting.gather(Round::Armed, RoundPart::Armed, &mut || Ok(()));
        let error = armed.unwrap_err();
        assert_eq!(error.exit_code(), 3);
        error.to_string()
    });
    for end in [&ends[0], &ends[2]] {
        assert!(end.contains("`h1` failed before the run: its process has ended"), "{end}");
    }
}

#[test]
fn hosts_go_on_without_one_that_fails_during_the_run() {
    let ends = together(4, |mut meeting| {
        let join = RoundPart::Join(Hello::of_test(meeting.own));
        meeting.gather(Round::Join, join, &mut || Ok(())).unwrap();
        meeting.begin();
        match meeting.own {
            1 => return None,
            2 => meeting.give_up(&RunError::Environment("no hugepages".to_owned())),
            _ => {
                let parts = meeting.gather(Round::Armed, RoundPart::Armed, &mut || Ok(()));
                let (parts, _) = parts.unwrap();
                meeting.part();
                return Some((parts, [1, 2, 3].map(|host| meeting.has_lost(host))));
            }
        }
        None
    });
    let lost = |reason: &str| RoundPart::Lost { reason: reason.to_owned() };
    for end in [&ends[0], &ends[3]] {
        let (parts, known) = end.as_ref().unwrap();
        assert_eq!(known, &[true, true, false]);
        let [RoundPart::Armed, first, second, RoundPart::Armed] = &parts[..] else {
            panic!("{parts:?}")
        };
        assert_eq!(*first, lost("its process has ended"));
        assert!(format!("{second:?}").contains("no hugepages"), "{second:?}");
    }
}

#[test]
fn a_part_of_another_kind_than_its_round_is_refused_by_its_hosts_name() {
    let ends = together(3, |mut meeting| {
        let join = RoundPart::Join(Hello::of_test(meeting.own));
        meeting.gather(Round::Join, join, &mut || Ok(())).unwrap();
        let part = if meeting.own == 1 { RoundPart::Synced } else { RoundPart::Armed };
        let armed = meeting.gather(Round::Armed, part, &mut || Ok(()));
        armed.unwrap_err().to_string()
    });
    for end in &ends {
        assert!(end.contains("`h1` failed before the run: it said something out of turn"), "{end}");
    }
}

/// Host `own` introduces itself and begins. It leaves at once if it is one of `killed`; else the
/// result has the parts of a round, and the host that leads at its end.
fn go_on(mut meeting: Meeting, killed: &[u32]) -> Option<(Vec<RoundPart>, u32)> {
    let own = meeting.own;
    meeting.introduce(Hello::of_test(own), &mut || Ok(())).unwrap();
    meeting.begin();
    if killed.contains(&own) {
        return None;
    }
    let (parts, _) = meeting.gather(Round::Armed, RoundPart::Armed, &mut || Ok(())).unwrap();
    meeting.part();
    Some((parts, meeting.leader()))
}

#[test]
fn without_the_first_host_the_next_that_is_there_leads() {
    for killed in [&[0][..], &[0, 1], &[0, 1, 2], &[0, 3], &[0, 1, 2, 3]] {
        let ends = together(5, |meeting| go_on(meeting, killed));
        let leader = (0..5).find(|host| !killed.contains(host)).unwrap();
        for (host, end) in (0..).zip(&ends) {
            let Some((parts, led_by)) = end else {
                assert!(killed.contains(&host));
                continue;
            };
            assert_eq!(*led_by, leader, "host {host} without {killed:?}");
            for (of, part) in (0..).zip(parts) {
                let is_lost = matches!(part, RoundPart::Lost { .. });
                assert_eq!(is_lost, killed.contains(&of), "{killed:?}: host {of} {part:?}");
            }
        }
    }
}

#[test]
fn all_get_the_end_that_one_of_them_has() {
    let ends = together(3, |mut meeting| {
        let own = meeting.own;
        meeting.introduce(Hello::of_test(own), &mut || Ok(())).unwrap();
        meeting.begin();
        if own == 0 {
            // The last host alone is notified.
            let connection = meeting.connections[2].as_ref().unwrap();
            connection.say(&Say::End { stopped: true }).unwrap();
            return None;
        }
        let mut seen = Vec::new();
        loop {
            match meeting.poll().unwrap() {
                Some((_, Say::Lost { host, .. })) => seen.push(host),
                Some((_, Say::End { stopped })) => {
                    // It comes a second time with the host that leads.
                    meeting.gather(Round::Armed, RoundPart::Armed, &mut || Ok(())).unwrap();
                    meeting.part();
                    return Some((stopped, meeting.leader()));
                }
                _ => thread::yield_now(),
            }
        }
    });
    assert_eq!(ends[1..], [Some((true, 1)); 2]);
}

#[test]
fn a_host_that_one_other_has_lost_is_lost_for_all() {
    let ends = together(4, |mut meeting| {
        let own = meeting.own;
        meeting.introduce(Hello::of_test(own), &mut || Ok(())).unwrap();
        meeting.begin();
        if own == 0 {
            // The last host alone is notified.
            let lost = Say::Lost { host: 2, reason: "silent".to_owned() };
            meeting.connections[3].as_ref().unwrap().say(&lost).unwrap();
            return None;
        }
        if own == 3 {
            // Host 2 has come to the host that leads by then.
            thread::sleep(3 * RETRY);
        }
        let armed = meeting.gather(Round::Armed, RoundPart::Armed, &mut || Ok(()));
        if own != 2 {
            meeting.part();
        }
        Some(armed.ok().map(|(parts, _)| parts))
    });
    for (host, end) in ends.iter().enumerate().skip(1) {
        let Some(parts) = end.as_ref().unwrap() else {
            assert_eq!(host, 2, "it ends");
            continue;
        };
        let is_lost = |part: &RoundPart| matches!(part, RoundPart::Lost { .. });
        let lost: Vec<bool> = parts.iter().map(is_lost).collect();
        assert_eq!(lost, [true, false, true, false], "host {host}");
    }
}

/// Losses of these hosts, and a round with too few parts.
fn lines_out_of_turn(losses: &[u32]) -> Vec<Say> {
    let lost = |host: &u32| Say::Lost { host: *host, reason: "silent".to_owned() };
    let whole = Say::Whole { round: Round::Armed, parts: vec![RoundPart::Armed], now_ps: 0 };
    losses.iter().map(lost).chain([whole]).collect()
}

/// Host `own` introduces itself and begins. Host `from` sends `line` to all that it is connected
/// to, and leaves. The result has the parts of a round and whether the run is over.
fn claim(mut meeting: Meeting, from: u32, line: &Say) -> Option<(Vec<RoundPart>, Option<bool>)> {
    let own = meeting.own;
    meeting.introduce(Hello::of_test(own), &mut || Ok(())).unwrap();
    meeting.begin();
    if own == from {
        meeting.say_all(line).unwrap();
        // A connection that ends at once may lose the line.
        thread::sleep(RETRY);
        return None;
    }
    let (parts, _) = meeting.gather(Round::Armed, RoundPart::Armed, &mut || Ok(())).unwrap();
    meeting.part();
    Some((parts, meeting.over))
}

#[test]
fn a_host_that_claims_what_it_has_no_say_in_is_lost_and_no_other_is() {
    let of_follower = lines_out_of_turn(&[99, u32::MAX, 0, 1]).into_iter();
    let of_follower = of_follower.chain([Say::End { stopped: true }, Say::Ask]);
    let of_leader = lines_out_of_turn(&[99, u32::MAX, 0]).into_iter();
    for (from, line) in of_follower.map(|line| (3, line)).chain(of_leader.map(|line| (0, line))) {
        let ends = together(4, |meeting| claim(meeting, from, &line));
        for (host, end) in (0..).zip(&ends) {
            let Some((parts, over)) = end else {
                assert_eq!(host, from);
                continue;
            };
            assert_eq!((parts.len(), *over), (4, None), "{line:?}");
            for (of, part) in (0..).zip(parts) {
                let text = format!("{part:?}");
                assert_eq!(text.contains("out of turn"), of == from, "{line:?}: {text}");
            }
        }
    }
}

#[test]
fn a_host_that_does_not_exist_cannot_be_lost() {
    let ends = together(2, |mut meeting| {
        meeting.introduce(Hello::of_test(meeting.own), &mut || Ok(())).unwrap();
        meeting.begin();
        meeting.note_lost(2, "silent".to_owned());
        let others = [(7, "silent".to_owned()), (0, String::new()), (1, String::new())];
        meeting.note_others_lost(others.into(), 1 - meeting.own);
        let armed = meeting.gather(Round::Armed, RoundPart::Armed, &mut || Ok(()));
        meeting.part();
        (armed.unwrap().0, meeting.lost.len())
    });
    assert_eq!(ends, [(); 2].map(|()| (vec![RoundPart::Armed; 2], 0)));
}

#[test]
fn a_host_that_alone_has_lost_the_first_ends_and_the_others_go_on() {
    let over = std::sync::atomic::AtomicBool::new(false);
    let ends = together(3, |mut meeting| {
        let own = meeting.own;
        meeting.introduce(Hello::of_test(own), &mut || Ok(())).unwrap();
        meeting.begin();
        if own == 2 {
            meeting.connections[0].as_ref().unwrap().close();
        }
        while own == 1 && !over.load(Ordering::Acquire) {
            thread::sleep(RETRY / 10);
        }
        let armed = meeting.gather(Round::Armed, RoundPart::Armed, &mut || Ok(()));
        if own == 2 {
            over.store(true, Ordering::Release);
        } else {
            meeting.part();
        }
        armed.map(|(parts, _)| parts).map_err(|error| error.to_string())
    });
    for end in &ends[..2] {
        let parts = end.as_ref().unwrap();
        assert!(matches!(parts[..], [RoundPart::Armed, RoundPart::Armed, RoundPart::Lost { .. }]));
    }
    let error = ends[2].as_ref().unwrap_err();
    assert!(error.contains("`h0` failed during the run"), "{error}");
}

#[test]
fn a_stranger_is_not_followed_by_the_host_that_leads() {
    let addresses = std::sync::Mutex::new(Vec::new());
    let ends = together(3, |mut meeting| {
        let own = meeting.own;
        let hellos = meeting.introduce(Hello::of_test(own), &mut || Ok(())).unwrap();
        meeting.begin();
        if own == 0 {
            *addresses.lock().unwrap() = hellos.iter().map(|hello| hello.successor).collect();
            return None;
        }
        if own == 2 {
            // One without the number of the address says that it is this host.
            let address = hellos[1].successor.unwrap();
            let (lost, over) = (BTreeMap::from([(1, "x".to_owned())]), Some(true));
            let line = Say::Follow { host: 2, pass: address.pass ^ 1, lost, over }.line();
            let mut stream = TcpStream::connect(address.address).unwrap();
            stream.write_all(&line).unwrap();
            let (parts, _) =
                meeting.gather(Round::Armed, RoundPart::Armed, &mut || Ok(())).unwrap();
            meeting.part();
            return Some((parts.len(), meeting.over));
        }
        let (parts, _) = meeting.gather(Round::Armed, RoundPart::Armed, &mut || Ok(())).unwrap();
        meeting.part();
        Some((parts.len(), meeting.over))
    });
    assert_eq!(ends[1..], [Some((3, None)); 2]);
    let addresses = addresses.into_inner().unwrap();
    let passes: BTreeSet<u64> = addresses.iter().flatten().map(|address| address.pass).collect();
    assert_eq!((addresses[0], passes.len()), (None, 2), "each has a number of its own");
}

#[test]
fn the_first_host_leaves_last() {
    let last = std::sync::atomic::AtomicBool::new(false);
    together(4, |mut meeting| {
        let join = RoundPart::Join(Hello::of_test(meeting.own));
        meeting.gather(Round::Join, join, &mut || Ok(())).unwrap();
        if meeting.own == 3 {
            // The others have said `Bye` and ended their connections by then.
            thread::sleep(3 * RETRY);
            last.store(true, Ordering::Release);
        }
        meeting.part();
        let left = last.load(Ordering::Acquire);
        assert!(!meeting.leads() || left, "the first host left before the fourth");
    });
}

#[test]
fn a_reason_is_passed_on_to_all_hosts() {
    let ends = together(3, |mut meeting| {
        let join = RoundPart::Join(Hello::of_test(meeting.own));
        meeting.gather(Round::Join, join, &mut || Ok(())).unwrap();
        if meeting.own == 2 {
            meeting.give_up(&RunError::Environment("no hugepages".to_owned()));
            return String::new();
        }
        let armed = meeting.gather(Round::Armed, RoundPart::Armed, &mut || Ok(()));
        let error = armed.unwrap_err();
        assert_eq!(error.exit_code(), 3);
        error.to_string()
    });
    for end in &ends[..2] {
        assert!(end.contains("`h2` failed before the run: no hugepages"), "{end}");
    }
}

#[test]
fn a_host_that_does_not_come_is_named_by_the_first_host_and_a_host_that_comes_names_the_first() {
    let network = network(3, free_port());
    let brief = Duration::from_ms(300);
    let alone = open(&network, 2, brief).unwrap_err().to_string();
    assert!(alone.contains("`h0` failed") && alone.contains("127.0.0.1"), "{alone}");
    thread::scope(|scope| {
        let first = scope.spawn(|| open(&network, 0, Duration::from_s(3)));
        let second = open(&network, 2, Duration::from_s(30)).map(|mut meeting| {
            meeting.gather(Round::Join, RoundPart::Join(Hello::of_test(2)), &mut || Ok(()))
        });
        let [first, second] = [first.join().unwrap().unwrap_err(), second.unwrap().unwrap_err()];
        for error in [first.to_string(), second.to_string()] {
            assert!(error.contains("`h1`") && error.contains("did not connect"), "{error}");
        }
    });
}

#[test]
fn strangers_on_the_control_port_do_not_disturb() {
    let port = free_port();
    let network = network(2, port);
    thread::scope(|scope| {
        let joined = |host| {
            let meeting = open(&network, host, Duration::from_s(60));
            meeting.and_then(|mut meeting| {
                let join = RoundPart::Join(Hello::of_test(host));
                let parts = meeting.gather(Round::Join, join, &mut || Ok(()));
                meeting.part();
                parts.map(|(parts, _)| parts.len())
            })
        };
        let first = scope.spawn(move || joined(0));
        let stranger = |line: &[u8]| {
            let mut stream = loop {
                match TcpStream::connect(("127.0.0.1", port)) {
                    Ok(stream) => break stream,
                    Err(_) => thread::sleep(RETRY),
                }
            };
            stream.write_all(line).unwrap();
            stream
        };
        let unknown =
            Say::Part { round: Round::Join, part: RoundPart::Join(Hello::of_test(7)) }.line();
        let streams = [&b"GET / HTTP/1.0\r\n\r\n\n"[..], &unknown].map(stranger);
        assert_eq!(joined(1).unwrap(), 2);
        assert_eq!(first.join().unwrap().unwrap(), 2);
        drop(streams);
    });
}

#[test]
fn a_host_that_leaves_while_others_are_missing_may_come_again() {
    let network = network(3, free_port());
    let join = |host| {
        let mut meeting = open(&network, host, Duration::from_s(60))?;
        let parts =
            meeting.gather(Round::Join, RoundPart::Join(Hello::of_test(host)), &mut || Ok(()));
        meeting.part();
        parts.map(|(parts, _)| parts.len())
    };
    thread::scope(|scope| {
        let first = scope.spawn(|| join(0));
        // A process that has introduced itself, and ends with an error.
        let mut meeting = open(&network, 1, Duration::from_s(60)).unwrap();
        let part = RoundPart::Join(Hello::of_test(1));
        meeting.say(0, &Say::Part { round: Round::Join, part }).unwrap();
        thread::sleep(2 * RETRY);
        // The first host says why it refuses a second one of that name.
        let second = join(1).unwrap_err().to_string();
        let reason = "another process runs as host `h1` already";
        assert!(second.contains("`h0`") && second.contains(reason), "{second}");
        meeting.give_up(&RunError::Environment("no hugepages".to_owned()));
        drop(meeting);
        thread::sleep(2 * RETRY);
        let again = scope.spawn(|| join(1));
        assert_eq!(join(2).unwrap(), 3);
        assert_eq!((first.join().unwrap().unwrap(), again.join().unwrap().unwrap()), (3, 3));
    });
}

#[test]
fn a_stranger_that_sends_a_byte_now_and_then_holds_the_first_host_no_longer_than_its_patience() {
    let port = free_port();
    let network = network(2, port);
    let over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = None;
            while !over.load(Ordering::Relaxed) {
                match &mut stream {
                    None => stream = TcpStream::connect(("127.0.0.1", port)).ok(),
                    // The other end may close the connection.
                    Some(stream) => drop(stream.write_all(b"x")),
                }
                thread::sleep(RETRY);
            }
        });
        let clock = clock();
        let from = clock.now();
        let end = open(&network, 0, Duration::from_ms(700)).unwrap_err().to_string();
        assert!(clock.now().since(from) < Duration::from_s(2));
        assert!(end.contains("`h1`") && end.contains("did not connect"), "{end}");
        // The user's interrupt is not held up either.
        let mut asked = 0;
        let ended =
            Meeting::open(&network, &Hello::of_test(0), (clock, Duration::from_s(60)), &mut || {
                asked += 1;
                if asked < 20 { Ok(()) } else { Err(RunError::Environment("^C".to_owned())) }
            });
        assert_eq!(
            ended.unwrap_err().to_string(),
            RunError::Environment("^C".to_owned()).to_string()
        );
        over.store(true, Ordering::Relaxed);
    });
}
