//! Two endpoints and a wire between them, in virtual time:
//! `cargo run -p transport --example two_endpoints`.

use core::num::NonZeroU32;
use std::collections::VecDeque;
use std::io::{self, Write as _};

use transport::{
    BURST, Burst, Config, Duration, Endpoint, Event, HostId, Instant, MsgSpec, Placement, Rng,
    RxSegment, Settings,
};

/// From one end to the other.
const DELAY: Duration = Duration::from_us(5);

pub(crate) fn main() -> io::Result<()> {
    let config = Config::new(Settings::default()).expect("legal settings");
    let mut hosts = [0, 1].map(|id| Endpoint::new(&config, HostId(id), Rng::new(7)));
    // Segments on their way to each host, in the order of arrival.
    let mut wires: [VecDeque<RxSegment>; 2] = Default::default();
    let mut now = Instant::ZERO;
    // The application: one flow, one message of a megabyte.
    let flow = hosts[0].open_flow(HostId(1), config.default_path()).expect("room for a flow");
    let len = NonZeroU32::new(1 << 20).expect("not zero");
    hosts[0].post_send(now, MsgSpec { flow, len, tag: 1 }).expect("room for a message");
    loop {
        for (at, host) in hosts.iter_mut().enumerate() {
            // What has arrived goes in, what has happened comes out.
            while wires[at].front().is_some_and(|first| first.at <= now) {
                let arrived = wires[at].pop_front().expect("there is a first");
                host.handle_burst(now, &[arrived], &mut [Placement::Release]);
            }
            host.handle_timeout(now);
            while let Some(event) = host.poll_event() {
                writeln!(io::stdout(), "{now:?} host {at}: {event:?}")?;
                if matches!(event, Event::Sent { .. }) {
                    return Ok(());
                }
            }
            // What the endpoint sends goes onto the wire. A burst that is full may not be all.
            loop {
                let mut burst = Burst::with_limit(BURST);
                host.poll_transmit(now, &mut burst);
                for sent in burst.iter() {
                    wires[1 - at].push_back(RxSegment {
                        hdr: sent.hdr,
                        at: now + DELAY,
                        from: host.host(),
                        payload_len: sent.payload.len,
                        ce: false,
                        trimmed: false,
                    });
                }
                if burst.room() > 0 {
                    break;
                }
            }
        }
        // To the next instant at which anything is due.
        let timers = hosts.iter().filter_map(Endpoint::poll_timeout);
        let arrivals = wires.iter().filter_map(|wire| wire.front().map(|first| first.at));
        now =
            timers.chain(arrivals).min().expect("something is due").max(now + Duration::from_ns(1));
    }
}
