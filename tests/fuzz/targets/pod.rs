//! Fuzzes the packets between hosts of a pod and their scheduler, and the names of cells.
//!
//! A request or an answer that is read is written again octet by octet. A cell's name has its own
//! entropy value. A host takes any answer at any time without a panic, and without a grant for what
//! it did not ask for. It asks for no more than waits. A host that introduces itself takes nothing
//! under another key than its own.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transport::sched::zeropod::Zeropod;
use transport::sched::{Backlog, Label, Protocol, SchedKind, Sending};
use transport::wire::Note;
use transport::wire::class::TrafficClass;
use transport::wire::pod::{
    CORE_RTS, CellName, CoreRts, INVITE, Invite, JOIN, Join, RTS, Rts, SCHD, Schd,
};
use transport::{
    BURST, Burst, Bytes, Config, Duration, EntropyValue, FlowId, HostId, Instant, Key, Rng,
    Settings,
};

const SCHEDULER: HostId = HostId(288);

fn host(run: u16) -> (Zeropod, Config) {
    let mut settings =
        Settings { payload_max: 512, sched: SchedKind::Zeropod, ..Settings::default() };
    settings.tx_flows_max = 4;
    let params = &mut settings.sched_params.zeropod;
    (params.per_tor, params.hosts, params.cell, params.aggs) = (16, 256, 512, 16);
    (params.scheduler, params.hop) = (SCHEDULER.0, Duration::from_us(1));
    (params.run, params.follow) = (run, run > 0);
    let config = Config::new(settings).expect("legal settings");
    (Zeropod::new(&config.sched_setup(HostId(2), Rng::new(3))), config)
}

fuzz_target!(|bytes: &[u8]| {
    let (run, bytes) = bytes.split_first().map_or((0, bytes), |(run, rest)| (run % 2, rest));
    let (mut sched, config) = host(run.into());
    // The key of what it sent last.
    let mut key = Key::NONE;
    let backlog = Backlog { sendable: Bytes(512), segments: 1000, ..Backlog::default() };
    for (flow, peer) in [(0, 17), (1, 5)] {
        let flow = FlowId::new(flow, 1);
        sched.on_open(flow, HostId(peer), &config.default_path(), Label::NONE);
        sched.on_backlog(flow, &backlog, Instant::ZERO);
    }
    let mut now = Instant::ZERO;
    for said in bytes.chunks(34) {
        let [head, octets @ ..] = said else { continue };
        now += Duration::from_ns(u64::from(*head) * 16);
        let protocol = [RTS, SCHD, CORE_RTS, JOIN, INVITE][usize::from(head % 5)];
        let Some(note) = Note::new(protocol, &octets[..octets.len().min(32) & !1]) else {
            continue;
        };
        let note = Note { class: TrafficClass::Control, ..note };
        if let Some(rts) = Rts::of(&note) {
            assert_eq!(Rts::of(&rts.note()), Some(rts));
        }
        if let Some(rts) = CoreRts::of(&note) {
            assert_eq!(CoreRts::of(&rts.note()), Some(rts));
        }
        if let Some(join) = Join::of(&note) {
            assert_eq!(Join::of(&join.note()), Some(join));
            assert!(join.patience() > Duration::ZERO);
        }
        if let Some(invite) = Invite::of(&note) {
            assert_eq!(Invite::of(&invite.note()), Some(invite));
        }
        if let Some(schd) = Schd::of(&note) {
            assert_eq!(Schd::of(&schd.note()), Some(schd));
            let ev = EntropyValue(schd.term);
            assert_eq!(CellName::of(ev).ev(), ev);
        }
        let mut sent = Burst::with_limit(BURST);
        sched.poll_control(now, now, &mut sent);
        key = sent.iter().last().map_or(key, |segment| segment.hdr.key);
        let is_guessed = head & 0x80 != 0;
        let header = note.for_host(EntropyValue(0), if is_guessed { Key(!key.0) } else { key });
        let taken = sched.on_host_control(SCHEDULER, &header, &note, now).is_ok();
        // An invitation under the key before this one comes late.
        assert!(!taken || !is_guessed || Invite::of(&note).is_some());
        sched.poll_control(now, now, &mut sent);
        key = sent.iter().last().map_or(key, |segment| segment.hdr.key);
        sched.handle_timeout(now);
        while sched.next_given_up().is_some() {}
        while sched.next_turn(now, now).is_some_and(|turn| {
            assert!(turn.flow == FlowId::new(0, 1) || turn.flow == FlowId::new(1, 1));
            false
        }) {}
        let due = sched.poll_timeout();
        assert!(due.is_none_or(|at| at > now), "due at or before the last call");
    }
});
