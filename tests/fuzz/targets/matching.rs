//! Fuzzes the messages of dcPIM's matching.
//!
//! A message that is read is written again octet by octet. A host with flows to two others takes
//! any message of either at any time without a panic, and gives no turn to a flow without a token.
//! Another host gets nothing but the answer that the flow of its request is not here.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transport::sched::dcpim::DcPim;
use transport::sched::{Backlog, Label, Protocol, SchedKind, Sending};
use transport::segment::{BURST, Burst};
use transport::wire::class::TrafficClass;
use transport::wire::dcpim::{MatchStep, Offer, PROTOCOL};
use transport::wire::{Body, Header, Note};
use transport::{Bytes, Config, Duration, EntropyValue, FlowId, HostId, Instant, Rng, Settings};

fn host() -> (DcPim, Config) {
    let settings = Settings {
        payload_max: 512,
        sched: SchedKind::DcPim,
        tx_flows_max: 4,
        rx_flows_max: 4,
        ..Settings::default()
    };
    let config = Config::new(settings).expect("legal settings");
    (DcPim::new(&config.sched_setup(HostId(2), Rng::new(3))), config)
}

fuzz_target!(|bytes: &[u8]| {
    let (mut sched, config) = host();
    // More than a BDP, so that each segment needs a token.
    let waiting = Bytes(512 << 20);
    let backlog = Backlog {
        sendable: waiting,
        waiting,
        segments: 1 << 20,
        cwnd: Bytes(1 << 40),
        ..Backlog::default()
    };
    for (flow, peer) in [(0, 17), (1, 5)] {
        let flow = FlowId::new(flow, 1);
        sched.on_open(flow, HostId(peer), &config.default_path(), Label::NONE);
        sched.on_backlog(flow, &backlog, Instant::ZERO);
    }
    let mut now = Instant::ZERO;
    for said in bytes.chunks(34) {
        let [head, peer, octets @ ..] = said else { continue };
        now += Duration::from_ns(u64::from(*head) * 64);
        let Some(note) = Note::new(PROTOCOL, &octets[..octets.len() & !1]) else { continue };
        let note = Note { class: TrafficClass::Control, ..note };
        if let Some(offer) = Offer::of(&note) {
            assert_eq!(offer.note(), note);
        }
        let from = HostId([17, 5, 9][usize::from(*peer) % 3]);
        let header = Header::new(EntropyValue(0), FlowId::UNKNOWN, Body::Note(note));
        let known = sched.on_host_control(from, &header, &note, now).is_ok();
        assert!(!known || Offer::of(&note).is_some(), "takes what is no message");
        sched.handle_timeout(now);
        let mut out = Burst::with_limit(BURST);
        sched.poll_control(now, now, &mut out);
        for sent in out.iter().filter(|sent| sent.peer != HostId(17) && sent.peer != HostId(5)) {
            let Body::Note(note) = &sent.hdr.body else { panic!("{sent:?}") };
            let offer = Offer::of(note).expect("a message of the matching");
            let ended = (MatchStep::Return, 0, 0);
            assert_eq!((offer.step, offer.channels, offer.left), ended, "{offer:?}");
        }
        assert!(sched.next_turn(now, now).is_none(), "no token came");
        let due = sched.poll_timeout();
        assert!(due.is_none_or(|at| at > now), "due at or before the last call");
    }
});
