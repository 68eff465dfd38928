//! Fuzzes the probes of DCsim and their answers.
//!
//! A SIM or SIM-ACK that is read is written again octet by octet. A host takes any at any time
//! without a panic, answers no more SIMs than came, and sends no segment without a SIM of its own
//! that was answered.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transport::sched::dcsim::DcSim;
use transport::sched::{Backlog, Label, Protocol, SchedKind, Sending};
use transport::segment::{BURST, Burst};
use transport::wire::class::TrafficClass;
use transport::wire::sim::{PROTOCOL, Sim};
use transport::wire::{Body, Header, Note};
use transport::{Bytes, Config, Duration, EntropyValue, FlowId, HostId, Instant, Rng, Settings};

const PEER: HostId = HostId(17);

fn host() -> (DcSim, Config) {
    let settings = Settings {
        payload_max: 512,
        sched: SchedKind::DcSim,
        tx_flows_max: 4,
        ..Settings::default()
    };
    let config = Config::new(settings).expect("legal settings");
    (DcSim::new(&config.sched_setup(HostId(2), Rng::new(3))), config)
}

fuzz_target!(|bytes: &[u8]| {
    let (mut sched, config) = host();
    let waiting = Bytes(512 << 10);
    let backlog = Backlog { sendable: waiting, waiting, segments: 1 << 10, ..Backlog::default() };
    let flow = FlowId::new(0, 1);
    sched.on_open(flow, PEER, &config.default_path(), Label::NONE);
    sched.on_backlog(flow, &backlog, Instant::ZERO);
    let mut now = Instant::ZERO;
    let (mut asked, mut answered, mut probes) = (0_u64, 0_u64, 0_u64);
    let mut own: Option<(Sim, EntropyValue)> = None;
    let (mut acks, mut segments) = (0_u64, 0_u64);
    for said in bytes.chunks(16) {
        let [head, what, port @ .., _, _] = said else { continue };
        now += Duration::from_ns(u64::from(*head) * 64);
        let class = [TrafficClass::Probe, TrafficClass::ProbeAck][usize::from(*what & 1)];
        let octets = &port[..port.len().min(12) & !1];
        let Some(note) = Note::new(PROTOCOL, octets) else { continue };
        let (mut note, mut ev) = (Note { class, ..note }, EntropyValue(u16::from(*what)));
        if let Some(sim) = Sim::of(&note) {
            let again = if class == TrafficClass::Probe { sim.probe() } else { sim.answer() };
            assert_eq!(again, note);
        }
        if *what & 6 == 6
            && let Some((sim, port)) = own
        {
            (note, ev) = (sim.answer(), port);
        }
        let from = if *what & 8 == 0 { PEER } else { HostId(5) };
        let header = Header::new(ev, FlowId::UNKNOWN, Body::Note(note));
        let known = sched.on_host_control(from, &header, &note, now).is_ok();
        asked += u64::from(known && note.class == TrafficClass::Probe);
        acks += u64::from(known && note.class == TrafficClass::ProbeAck);
        sched.handle_timeout(now);
        let mut out = Burst::with_limit(BURST);
        sched.poll_control(now, now, &mut out);
        for sent in out.iter() {
            let Body::Note(note) = sent.hdr.body else { panic!("{sent:?}") };
            match note.class {
                TrafficClass::ProbeAck => answered += 1,
                _ => {
                    probes += 1;
                    own = Sim::of(&note).map(|sim| (sim, sent.hdr.ev));
                }
            }
        }
        segments += u64::from(sched.next_turn(now, now).is_some());
        assert!(answered <= asked, "{answered} answers to {asked}");
        assert!(segments <= acks && segments <= probes, "{segments} of {acks}, {probes}");
        assert!(sched.figures().sims.sent == probes);
    }
});
