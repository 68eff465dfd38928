//! A controller of an application's own between two endpoints, without a change of the library:
//! `cargo run -p transport --example own_controller`.
//!
//! The controller is the smallest that adapts: one packet more a window of unmarked bytes, half the
//! window on a mark, at most once a round trip. The wire between the endpoints is a queue of one
//! link at 10 Gb/s that marks from 8 packets on.

use core::num::NonZeroU32;
use std::collections::VecDeque;
use std::io::{self, Write as _};

use transport::cc::{AckSample, CcKind, CongestionControl, Custom, LossSample, Path, Window};
use transport::{
    BURST, Burst, Bytes, Config, Duration, Endpoint, Event, HostId, Instant, MsgSpec, Placement,
    Rate, Rng, RxSegment, Settings,
};

/// Additive increase, multiplicative decrease.
#[derive(Clone, Debug)]
struct Aimd {
    cwnd: Bytes,
    /// Unmarked bytes since the last increase.
    gathered: Bytes,
    /// Marks of segments that left before this have been answered.
    answered: Instant,
}

impl Aimd {
    fn new(path: &Path) -> Self {
        Self { cwnd: path.bdp().max(path.mtu), gathered: Bytes(0), answered: Instant::ZERO }
    }

    fn decrease(&mut self, sent_at: Instant, now: Instant, path: &Path) {
        if sent_at >= self.answered {
            self.cwnd = Bytes(self.cwnd.0 / 2).max(path.mtu);
            self.answered = now;
        }
    }
}

impl CongestionControl for Aimd {
    fn window(&self) -> Window {
        Window { cwnd: self.cwnd, pacing: None, wake_at: None }
    }

    fn on_ack(&mut self, ack: &AckSample, path: &Path) {
        if ack.ecn {
            return self.decrease(ack.sent_at(), ack.now, path);
        }
        self.gathered += ack.acked;
        if self.gathered >= self.cwnd {
            self.gathered = Bytes(0);
            self.cwnd = (self.cwnd + path.mtu).min(LARGEST.max(path.mtu));
        }
    }

    fn on_nack(&mut self, loss: &LossSample, path: &Path) {
        self.decrease(loss.sent_at, loss.now, path);
    }

    fn on_timeout(&mut self, loss: &LossSample, path: &Path) {
        self.decrease(loss.sent_at, loss.now, path);
    }
}

/// Wire bytes.
const LARGEST: Bytes = Bytes(300_000);
const LINK: Rate = Rate::from_gbps(10);
/// The delay from one end to the other, without queues.
const DELAY: Duration = Duration::from_us(5);
/// Packets that wait from which on the link marks.
const MARKS_FROM: usize = 8;

/// The outcome of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageOutcome {
    /// When the sender had its last acknowledgement.
    pub(crate) sent_at: Instant,
    /// Bytes that the receiver was handed.
    pub(crate) delivered: u32,
    /// The most segments that ever waited for the link.
    pub(crate) queue_max: usize,
    /// Segments that were marked.
    pub(crate) marked: u32,
}

/// The configuration of both ends, with the application's controller.
#[must_use]
pub(crate) fn settings() -> Settings {
    let mut settings = Settings { cc: CcKind::Custom, line_rate: LINK, ..Settings::default() };
    settings.cc_params.custom = Custom::built_by(20.0, Aimd::new);
    settings
}

/// Sends `len` bytes from one endpoint to another.
///
/// # Panics
/// When `settings` are illegal.
#[must_use]
pub(crate) fn transfer(settings: Settings, len: NonZeroU32) -> MessageOutcome {
    let config = Config::new(settings).expect("legal settings");
    let mut hosts = [0, 1].map(|id| Endpoint::new(&config, HostId(id), Rng::new(7)));
    let mut now = Instant::ZERO;
    let flow = hosts[0].open_flow(HostId(1), config.default_path()).expect("room for a flow");
    let msg = hosts[0].post_send(now, MsgSpec { flow, len, tag: 1 }).expect("room for a message");
    let mut outcome =
        MessageOutcome { sent_at: Instant::ZERO, delivered: 0, queue_max: 0, marked: 0 };
    // Segments on their way, each with its receiver, in the order of arrival.
    let mut wires: [VecDeque<RxSegment>; 2] = [VecDeque::new(), VecDeque::new()];
    // Data one way, acknowledgements the other.
    let wire_len = [config.mtu(), config.ack_len()];
    let mut free_at = [Instant::ZERO; 2];
    while outcome.sent_at == Instant::ZERO {
        for from in [0, 1] {
            let mut burst = Burst::with_limit(BURST);
            hosts[from].poll_transmit(now, &mut burst);
            for sent in burst.iter() {
                let leaves = free_at[from].max(now) + LINK.time_for(wire_len[from]);
                let waiting = wires[from].iter().filter(|other| other.at > now + DELAY).count();
                let ce = waiting >= MARKS_FROM;
                free_at[from] = leaves;
                outcome.queue_max = outcome.queue_max.max(waiting);
                outcome.marked += u32::from(ce);
                wires[from].push_back(RxSegment {
                    hdr: sent.hdr,
                    at: leaves + DELAY,
                    from: hosts[from].host(),
                    payload_len: sent.payload.len,
                    ce,
                    trimmed: false,
                });
            }
        }
        now += Duration::from_us(1);
        for from in [0, 1] {
            while wires[from].front().is_some_and(|first| first.at <= now) {
                let arrived = wires[from].pop_front().expect("there is a first");
                hosts[1 - from].handle_burst(now, &[arrived], &mut [Placement::Release]);
            }
        }
        for host in &mut hosts {
            host.handle_timeout(now);
            while let Some(event) = host.poll_event() {
                match event {
                    Event::Delivered { len, .. } => outcome.delivered += len,
                    Event::Sent { msg: whole } if whole == msg => outcome.sent_at = now,
                    _ => {}
                }
            }
        }
    }
    outcome
}

fn main() -> io::Result<()> {
    let len = NonZeroU32::new(4 << 20).expect("not zero");
    writeln!(io::stdout(), "{:?}", transfer(settings(), len))
}
