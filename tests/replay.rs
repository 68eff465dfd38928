//! A recorded endpoint, replayed: the same input gives the same answers, bit for bit, and a core
//! that decided otherwise would be named with the call. Recordings of real devices are replayed by
//! `dpdk_loopback`; here the recorder is driven in virtual time, so that it needs no DPDK.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod program;

use std::collections::VecDeque;
use std::num::NonZeroU32;

use transport::record::{Recorder, ReplayError, replay};
use transport::{
    BURST, Burst, Config, Duration, HostId, Instant, MsgSpec, Placement, Rng, RxSegment, Settings,
};

use program::{Ran, headrace};

/// Two recorded endpoints exchange messages over a link that loses every 17th segment. Their
/// recordings.
fn recorded_pair() -> [Vec<u8>; 2] {
    let config = Config::new(Settings::default()).unwrap();
    let mut hosts = [0, 1].map(|id| Recorder::on(&config, HostId(id), Rng::new(u64::from(id))));
    let mut now = Instant::ZERO;
    for (from, host) in hosts.iter_mut().enumerate() {
        let peer = HostId(1 - u32::try_from(from).unwrap());
        let flow = host.open_flow(peer, config.default_path()).unwrap();
        for len in [1, 70_000, 4096] {
            let spec = MsgSpec { flow, len: NonZeroU32::new(len).unwrap(), tag: u64::from(len) };
            host.post_send(now, spec).unwrap();
        }
    }
    let mut link: [VecDeque<RxSegment>; 2] = Default::default();
    let mut count = 0;
    for _ in 0..4000 {
        for from in 0..2 {
            let mut burst = Burst::with_limit(BURST);
            hosts[from].poll_transmit(now, &mut burst);
            for segment in burst.iter() {
                count += 1;
                if count % 17 != 0 {
                    link[1 - from].push_back(RxSegment {
                        hdr: segment.hdr,
                        at: now + Duration::from_us(3),
                        from: HostId(u32::try_from(from).unwrap()),
                        payload_len: segment.payload.len,
                        ce: count % 5 == 0,
                        trimmed: false,
                    });
                }
            }
        }
        now += Duration::from_us(3);
        for (host, arrived) in hosts.iter_mut().zip(&mut link) {
            while let Some(segment) = arrived.pop_front() {
                host.handle_burst(now, &[segment], &mut [Placement::Release]);
            }
            host.handle_timeout(now);
            while host.poll_event().is_some() {}
        }
    }
    assert_eq!(
        hosts[0].endpoint().stats().messages_sent,
        3,
        "the exchange has to end for the test to mean it"
    );
    assert!(hosts[0].endpoint().stats().retransmitted > 0);
    hosts.map(|mut host| host.finish())
}

#[test]
fn a_recording_replays_to_the_same_decisions() {
    for bytes in recorded_pair() {
        let report = replay(&bytes).unwrap();
        assert_eq!(report.stats.messages_delivered, 3);
        assert!(report.calls > 1000);
    }
}

#[test]
fn a_recording_that_says_otherwise_is_found_out() {
    let [bytes, _] = recorded_pair();
    let mut differs = 0;
    for at in (bytes.len() / 3..bytes.len() / 2).step_by(97) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        let error = replay(&damaged).expect_err("a changed octet goes unnoticed");
        differs += u32::from(matches!(error, ReplayError::Differs { .. }));
    }
    assert!(differs > 0);
}

#[test]
fn the_command_replays_a_directory_and_refuses_what_is_no_recording() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    assert_eq!(headrace(&["replay", path]).code, 2, "no recording there");
    for (host, bytes) in recorded_pair().iter().enumerate() {
        std::fs::write(dir.path().join(format!("host-{host}.rec")), bytes).unwrap();
    }
    let Ran { code, out, err } = headrace(&["replay", path]);
    assert_eq!((code, out.matches("the same").count()), (0, 2), "{out}{err}");
    std::fs::write(dir.path().join("host-1.rec"), b"no recording at all").unwrap();
    let Ran { code, err, .. } = headrace(&["replay", path]);
    assert_eq!(code, 2);
    assert!(err.contains("host-1.rec"), "{err}");
}
