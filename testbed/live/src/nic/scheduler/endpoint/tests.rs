//! What the scheduler makes of introductions and notes.

use experiments::hosts_file::HostsFile;
use transport::EntropyValue;
use transport::sched::zeropod::ZeropodParams;
use transport::sched::zeropod::timing::Timing;
use transport::wire::addressing::UDP_PORT;
use transport::wire::checksum::Checksum;
use transport::wire::frame::FrameSpec;
use transport::wire::pod::{DemandEnd, Rts, Schd};

use super::*;

const MS: fn(u64) -> Instant = |ms| Instant::ZERO + Duration::from_ms(ms);

fn setup() -> SchedulerSetup {
    let host = |number: u8, role: &str| {
        format!(
            "[[host]]\nname = \"h{number}\"\naddress = \"10.0.0.{number}/24\"\n\
             mac = \"02:00:00:00:00:0{number}\"\ndevice = \"eth0\"\n\
             control = \"10.1.0.1:4798\"\n{role}"
        )
    };
    let text = [host(1, ""), host(2, ""), host(3, "role = \"scheduler\"\n")].concat();
    let hosts = HostsFile::read(text.as_bytes(), "hosts.toml").unwrap();
    SchedulerSetup { hosts, device: None, params: ZeropodParams::default(), udp_port: UDP_PORT }
}

fn endpoint(setup: &SchedulerSetup) -> SchedulerEndpoint<'_> {
    let entry = setup.hosts.scheduler.as_ref().unwrap();
    SchedulerEndpoint::new(setup, (entry, [2, 0, 0, 0, 0, 3]), (1, MS(0))).unwrap()
}

/// Epochs of some 0.2 ms: its hosts are patient for the least time, 50 ms.
fn join(run: u16, term: u16) -> Join {
    Join {
        run,
        term,
        hosts: 2,
        cells: 16,
        payload: 1024,
        cell: 1104,
        control: 92,
        kbps: 1_000_000,
        hop_ns: 20_000,
        guard_ns: 50_000,
        delay_ns: 300_000,
        early_ns: 50_000,
    }
}

/// Host `host` introduces itself in a frame, with the proof that it has been sent.
fn say(endpoint: &mut SchedulerEndpoint<'_>, host: u16, join: &Join, now: Instant) {
    let proof = proof(endpoint, (host, join.run), now);
    claim(endpoint, host, &under(&join.note(), proof), now);
}

/// The proof of a host of a run at `now`.
fn proof(endpoint: &SchedulerEndpoint<'_>, of: (u16, u16), now: Instant) -> Key {
    endpoint.proof_of(of, now.as_ps() / PROOF_PERIOD.as_ps())
}

fn under(note: &Note, key: Key) -> Header {
    note.for_host(EntropyValue(0), key)
}

/// A frame from the address of `host` comes.
fn claim(endpoint: &mut SchedulerEndpoint<'_>, host: u16, header: &Header, now: Instant) {
    let addrs = endpoint.addresses.addressing().pair(HostId(host.into()), endpoint.own).unwrap();
    let Body::Note(note) = header.body else { panic!("{header:?}") };
    let spec = FrameSpec { addrs, ecn: note.class.ecn(), class: note.class };
    let mut out = [0; 256];
    let length = frame::emit(&spec, header, &Ext::VACANT, 0, &mut out);
    frame::finish_udp_checksum(&mut out[..length], Checksum::new());
    assert!(endpoint.take(&out[..length], now));
}

/// The term that is served at `now`, and of which run.
fn served(endpoint: &mut SchedulerEndpoint<'_>, now: Instant) -> Option<(u16, u32)> {
    endpoint.poll(now);
    endpoint.pod.as_ref().map(|pod| (pod.run(), pod.term()))
}

/// The next note that is due by `now`: its host, and its key.
fn next_answer(endpoint: &mut SchedulerEndpoint<'_>, now: Instant) -> Option<(u16, Note, Key)> {
    endpoint.next_answer(now, |answer| (answer.host, *answer.note, answer.key))
}

#[test]
fn a_scheduler_that_has_been_started_gathers_the_terms_of_all_hosts() {
    let setup = setup();
    let mut endpoint = endpoint(&setup);
    say(&mut endpoint, 0, &join(1, 0), MS(1));
    assert_eq!(served(&mut endpoint, MS(49)), None);
    // The other host had an answer until this process began, and was patient.
    say(&mut endpoint, 1, &join(1, 5), MS(60));
    say(&mut endpoint, 0, &join(1, 0), MS(61));
    assert_eq!(served(&mut endpoint, MS(89)), None);
    assert_eq!(served(&mut endpoint, MS(90)), Some((1, 7)));
}

#[test]
fn a_scheduler_that_has_listened_for_long_begins_at_once() {
    let setup = setup();
    let mut endpoint = endpoint(&setup);
    say(&mut endpoint, 0, &join(1, 0), MS(1000));
    assert_eq!(served(&mut endpoint, MS(1000)), Some((1, 1)));
    // A host that could not reach it is in a later term of another scheduler.
    say(&mut endpoint, 1, &join(1, 8), MS(1001));
    assert_eq!(served(&mut endpoint, MS(1001)), Some((1, 9)));
    let news: Vec<String> = core::iter::from_fn(|| endpoint.news(MS(1001))).collect();
    assert!(news[1].contains("a host was in a later term"), "{news:?}");
}

#[test]
fn introductions_of_another_run_wait_until_the_first_one_is_silent() {
    let setup = setup();
    let mut endpoint = endpoint(&setup);
    // Whose hosts are patient for longer, and of a later term.
    let other = Join { kbps: 100_000, ..join(2, 4) };
    assert!(other.patience() > join(1, 0).patience());
    say(&mut endpoint, 0, &join(1, 0), MS(1));
    say(&mut endpoint, 1, &other, MS(2));
    assert_eq!(served(&mut endpoint, MS(90)), Some((1, 5)));
    assert_eq!(endpoint.counts.other_run, 1);
    say(&mut endpoint, 1, &other, MS(91));
    assert_eq!(served(&mut endpoint, MS(91)), Some((1, 5)));
    say(&mut endpoint, 1, &other, MS(290));
    assert_eq!(served(&mut endpoint, MS(290)), Some((2, 7)));
    let mut endpoint = self::endpoint(&setup);
    say(&mut endpoint, 0, &join(1, 0), MS(1));
    say(&mut endpoint, 1, &other, MS(201));
    assert_eq!(served(&mut endpoint, MS(1000)), Some((2, 5)), "the first one has gone");
}

#[test]
fn an_introduction_without_its_proof_gets_an_invitation_alone() {
    let setup = setup();
    let mut endpoint = endpoint(&setup);
    let now = MS(1000);
    let guessed =
        [Key::NONE, Key(7), endpoint.proof_of((1, 1), 1000), proof(&endpoint, (1, 2), now)];
    for key in guessed {
        claim(&mut endpoint, 1, &under(&join(1, 65_534).note(), key), now);
    }
    assert_eq!(served(&mut endpoint, now), None);
    assert!(endpoint.gathering.is_none());
    let mut proofs = Vec::new();
    for key in guessed {
        let (host, note, under) = next_answer(&mut endpoint, now).unwrap();
        assert_eq!((host, under), (1, key), "it shows to whom it answers");
        proofs.push(Invite::of(&note).unwrap().proof);
    }
    assert!(
        next_answer(&mut endpoint, now).is_none() && proofs.iter().all(|proof| *proof == proofs[0])
    );
    // What another host has been sent proves nothing, nor does what has been sent long ago.
    let known = |run| under(&join(run, 0).note(), proofs[0]);
    claim(&mut endpoint, 0, &known(1), now);
    claim(&mut endpoint, 1, &known(2), now);
    claim(&mut endpoint, 1, &known(1), MS(20_000));
    assert_eq!(served(&mut endpoint, MS(20_000)), None);
    claim(&mut endpoint, 1, &known(1), MS(19_999));
    assert_eq!(served(&mut endpoint, MS(20_000)), Some((1, 1)));
    assert_eq!((endpoint.counts.joins, endpoint.counts.unproven), (8, 7));
}

#[test]
fn forged_introductions_have_no_more_than_some_invitations_wait() {
    let setup = setup();
    let mut endpoint = endpoint(&setup);
    for key in 1..1000 {
        claim(&mut endpoint, 1, &under(&join(1, 0).note(), Key(key)), MS(1000));
    }
    assert_eq!(endpoint.invited.len(), INVITED_MAX);
}

#[test]
fn requests_count_under_the_key_of_their_host_alone() {
    let setup = setup();
    let mut endpoint = endpoint(&setup);
    say(&mut endpoint, 0, &join(1, 0), MS(1000));
    assert_eq!(served(&mut endpoint, MS(1000)), Some((1, 1)));
    let request = |ms| {
        let epoch = Timing::new(&join(1, 0).timing_inputs()).epoch_at(MS(ms));
        let epoch = u32::try_from(epoch).unwrap();
        Rts { term: 1, epoch, ..Rts::VACANT }.note()
    };
    let own = proof(&endpoint, (0, 1), MS(1000));
    let others =
        [Key::NONE, Key(1), proof(&endpoint, (1, 1), MS(1000)), proof(&endpoint, (0, 2), MS(1000))];
    for key in others {
        claim(&mut endpoint, 0, &under(&request(1100), key), MS(1100));
    }
    // This host has not introduced itself.
    claim(&mut endpoint, 1, &under(&request(1100), others[2]), MS(1100));
    assert_eq!((endpoint.asked_at, endpoint.counts.unproven), (MS(1000), 5));
    claim(&mut endpoint, 0, &under(&request(1100), own), MS(1100));
    assert_eq!((endpoint.asked_at, endpoint.counts.unproven), (MS(1100), 5));
    // Its answers have the same key.
    let (host, _, key) = next_answer(&mut endpoint, MS(1101)).unwrap();
    assert_eq!((host, key), (0, own));
}

/// Most requests are read by comparison with the last one of their host: they count as long as that
/// request would, and others count as without the comparison.
#[test]
fn requests_that_are_like_the_last_one_count_while_their_key_is_good() {
    let setup = setup();
    let mut endpoint = endpoint(&setup);
    say(&mut endpoint, 0, &join(1, 0), MS(1000));
    assert_eq!(served(&mut endpoint, MS(1000)), Some((1, 1)));
    say(&mut endpoint, 1, &join(1, 0), MS(1000));
    let timing = Timing::new(&join(1, 0).timing_inputs());
    let request = |ms, to| {
        let epoch = u32::try_from(timing.epoch_at(MS(ms))).unwrap();
        Rts { term: 1, epoch, update: to, ..Rts::VACANT }.note()
    };
    let keys = [proof(&endpoint, (0, 1), MS(1000)), proof(&endpoint, (1, 1), MS(1000))];
    let header = |ms, to, key| request(ms, to).for_host(EntropyValue(0), key);
    // Both hosts have the same entropy value, which would be that of the first alone.
    for ms in (1100..1200).step_by(10) {
        let total = u32::try_from(ms).unwrap() * 16;
        for (host, key) in (0..).zip(keys) {
            let update = Some((DemandEnd::Host(1 - host), total));
            claim(&mut endpoint, host, &header(ms, update, key), MS(ms));
            assert_eq!(endpoint.asked_at, MS(ms));
        }
    }
    let granted = |endpoint: &mut SchedulerEndpoint<'_>, until| {
        let answers = core::iter::from_fn(|| next_answer(endpoint, MS(until)));
        let granted = answers
            .filter_map(|(host, note, _)| Schd::of(&note)?.grant.map(|grant| (host, grant.total)));
        let mut last = [0; 2];
        granted.for_each(|(host, total)| last[usize::from(host)] = total);
        last
    };
    assert_eq!(
        granted(&mut endpoint, 1300),
        [1190 * 16; 2],
        "both are granted what they asked for"
    );
    claim(&mut endpoint, 0, &header(1310, None, keys[0]), MS(1310));
    let unproven = endpoint.counts.unproven;
    // It gets another proof in the next period, and introduces itself under it.
    let later = proof(&endpoint, (0, 1), MS(10_000));
    assert_ne!(later, keys[0]);
    claim(&mut endpoint, 0, &under(&join(1, 1).note(), later), MS(10_000));
    claim(&mut endpoint, 0, &header(10_010, None, keys[0]), MS(10_010));
    assert_eq!((endpoint.counts.unproven, endpoint.asked_at), (unproven + 1, MS(10_000)));
    for ms in [10_020, 10_030] {
        claim(&mut endpoint, 0, &header(ms, None, later), MS(ms));
        assert_eq!((endpoint.counts.unproven, endpoint.asked_at), (unproven + 1, MS(ms)));
    }
}

#[test]
fn no_term_of_a_host_is_the_last_one() {
    let setup = setup();
    let mut endpoint = endpoint(&setup);
    let mut now = 1000;
    let mut say_in = |run, term, terms: &[u32]| {
        say(&mut endpoint, 0, &join(run, term), MS(now));
        assert!(terms.contains(&served(&mut endpoint, MS(now)).unwrap().1), "{term}");
        now += 300;
    };
    say_in(1, 65_534, &[65_535]);
    say_in(2, 0, &[3]);
    say_in(3, 65_535, &[5]);
    say_in(4, 30_000, &[30_001]);
    say_in(5, 65_535, &[30_003]);
    say_in(6, 60_000, &[60_001]);
    say_in(7, 5, &[7]);
}

#[test]
fn notes_that_are_no_requests_of_its_pod_keep_it_for_no_host() {
    let setup = setup();
    let mut endpoint = endpoint(&setup);
    say(&mut endpoint, 0, &join(1, 0), MS(1000));
    assert_eq!(served(&mut endpoint, MS(1000)), Some((1, 1)));
    let other = Note::new(99, &[0; 8]).unwrap();
    let other = under(&other, proof(&endpoint, (0, 1), MS(1000)));
    for ms in (1010..1200).step_by(10) {
        claim(&mut endpoint, 0, &other, MS(ms));
        say(&mut endpoint, 1, &join(2, 0), MS(ms));
    }
    assert_eq!(served(&mut endpoint, MS(1199)), Some((1, 1)));
    say(&mut endpoint, 1, &join(2, 0), MS(1200));
    assert_eq!(served(&mut endpoint, MS(1200)), Some((2, 3)));
    // One of its hosts that has had no answer is there.
    say(&mut endpoint, 1, &join(2, 0), MS(1390));
    say(&mut endpoint, 0, &join(3, 0), MS(1589));
    assert_eq!(served(&mut endpoint, MS(1589)), Some((2, 3)));
}

#[test]
fn only_hosts_that_have_introduced_themselves_are_answered_until_all_are_silent() {
    let setup = setup();
    let mut endpoint = endpoint(&setup);
    let answered = |endpoint: &mut SchedulerEndpoint<'_>, now| {
        let answers = core::iter::from_fn(|| next_answer(endpoint, now));
        let mut hosts: Vec<u16> = answers.map(|(host, ..)| host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    };
    say(&mut endpoint, 0, &join(1, 0), MS(1000));
    assert_eq!(served(&mut endpoint, MS(1000)), Some((1, 1)));
    assert_eq!(answered(&mut endpoint, MS(1010)), [0]);
    say(&mut endpoint, 1, &join(1, 0), MS(1011));
    assert_eq!(answered(&mut endpoint, MS(1020)), [0, 1]);
    assert_eq!(answered(&mut endpoint, MS(1210)), [0, 1]);
    // Hosts of the next run may be there, and are not to take this pod for theirs.
    assert!(answered(&mut endpoint, MS(1211)).is_empty());
    say(&mut endpoint, 0, &join(1, 1), MS(1300));
    assert_eq!(answered(&mut endpoint, MS(1310)), [0, 1]);
}

#[test]
fn no_host_makes_a_scheduler_gather_for_ever() {
    let setup = setup();
    let mut endpoint = endpoint(&setup);
    let slow = Join { kbps: 1, ..join(1, 0) };
    assert!(slow.patience() > Duration::from_s(3600));
    say(&mut endpoint, 0, &slow, MS(1));
    assert_eq!(served(&mut endpoint, MS(10_039)), None);
    endpoint.poll(MS(10_040));
    assert!(endpoint.gathering.is_none());
}

#[test]
fn refused_introductions_are_said_now_and_then() {
    let setup = setup();
    let mut endpoint = endpoint(&setup);
    let wrong = Join { hosts: 3, ..join(1, 0) };
    for ms in (0..9_990).step_by(10) {
        say(&mut endpoint, 1, &wrong, MS(ms));
    }
    let line = endpoint.news(MS(9_990)).unwrap();
    for words in ["host `h2` of run 1", "has 3 hosts", "hosts.toml has 2", "same file"] {
        assert!(line.contains(words), "{words}: {line}");
    }
    assert_eq!(endpoint.news(MS(9_990)), None);
    say(&mut endpoint, 1, &wrong, MS(10_000));
    assert!(endpoint.news(MS(10_000)).is_some());
    // Decisions that take seconds in epochs of microseconds.
    let slow = Join { delay_ns: u32::MAX, kbps: 100_000_000, guard_ns: 0, ..join(1, 0) };
    say(&mut endpoint, 0, &slow, MS(11_000));
    endpoint.poll(MS(11_000));
    let line = endpoint.news(MS(11_000)).unwrap();
    assert!(line.contains("host `h1`") && line.contains("no pod has 16 cells"), "{line}");
    assert_eq!(endpoint.counts.no_pod, 1001);
}
