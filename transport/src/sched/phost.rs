//! pHost: receivers send tokens at the rate of their link, to the flow with the least left.
//!
//! Source: \[phost\] sec. 3; the timeout and the acknowledgements are those with which the public
//! dcPIM simulator runs dcPIM. `tokens.rs` explains what a token is worth. A flow sends its first
//! window without tokens; in that simulator only a flow that fits into a window does (`first`).
//! Senders and receivers both prefer the flow with the least left. This scheduler decides no path
//! and infers no loss.
//! DEVIATION(phost#3): the paper has no priorities. A sender uses the tokens of its more urgent
//! flows first; tokens do not depend on priorities, since no packet reports these to receivers.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::least::Least;
use super::tokens::{Issuer, Spender, TokenConstants, Unrequested, spends_tokens};
use super::{AckMode, Arrival, Protocol, Receiving, SchedSetup, Scheduling};
use crate::params::{params, words};
use crate::path::NetworkFacts;
use crate::registry::Registered;
use crate::segment::{Burst, TxSegment};
use crate::time::{Duration, Instant};
use crate::timer::{TimerHandle, Wheel};
use crate::units::{FlowId, HostId};
use crate::wire::{Body, Header, data};

words! {
    /// Which flows send without tokens.
    pub enum Unasked: "short or all" {
        /// Flows of no more than the whole segments of a window; longer ones send nothing without a
        /// token.
        Short = "short",
        /// All flows, their first window.
        //= phost#3
        All = "all",
    }
}

words! {
    /// What a flow gets after each timeout, where its sender has left a window of tokens
    /// unanswered.
    pub enum Retry: "token or window" {
        /// One token, as in the simulator of pHost's authors.
        Token = "token",
        /// A window of tokens.
        Window = "window",
    }
}

params! {
    /// Settings of [`Phost`].
    pub struct PhostParams {
        /// Round trip of a token and its segment, of which a BDP is made; auto: that of the path
        /// that holds most.
        rtt: Option<Duration> = None, of_network "auto";
        /// Tokens that may be outstanding for a flow, and what it sends without any, in BDPs.
        window: f32 = 1.0, in 0.01..=16.0;
        /// Which flows send without tokens: the first window of all, as in the paper, or flows
        /// within the whole segments of a window alone, as in the public dcPIM simulator.
        first: Unasked = Unasked::All;
        /// Silence after which tokens are taken for dead, in the time that a BDP takes to send.
        timeout: f32 = 1.1, in 1.0..=64.0;
        /// How long a token lives at the sender, in the time that a full segment takes to send. So
        /// a sender loses the tokens that come while it sends for another flow, as in pHost's
        /// paper. Hosts that poll their devices keep tokens for at least 8.
        //= phost#3
        life: f32 = 1.5, in 1.0..=4096.0;
        /// What a flow gets after each timeout, where its sender has left a window of tokens
        /// unanswered.
        retry: Retry = Retry::Window;
        /// Segments that one acknowledgement answers.
        ack_every: u16 = 16, in 1..=64;
    }
}

/// The scheduler of one host.
#[derive(Clone, Debug)]
pub struct Phost {
    constants: TokenConstants,
    window: u32,
    ack_every: u16,
    spender: Spender,
    issuer: Issuer,
    /// Incoming flows that may get a token now, by what they have left.
    wanting: Least,
    /// Flows that may get one after a silence.
    silences: Box<Wheel<FlowId>>,
    /// The instant and the timer of each flow in `silences`, by slab index; a later flow at the
    /// same index inherits them.
    timed: Vec<Option<(Instant, TimerHandle)>>,
    /// When the segment of the last token will have arrived, at the rate of the link.
    next_at: Instant,
}

/// The least life of a token where hosts poll, in packet times. Over shared memory at 100 Gb/s a
/// host comes back to its device after several packet times. Tokens that live for 1.5 end there
/// before their sender sees them: a session of 300 KiB took 5.8 s, and 1.2 s with 8.
const POLLED_LIFE: f32 = 8.0;

/// Resolution of the timers: far below any timeout.
const TIMER_TICK: Duration = Duration::from_ps(1 << 18);

impl Phost {
    /// A scheduler without flows.
    #[must_use]
    pub fn new(setup: &SchedSetup<'_>) -> Self {
        let params = &setup.params.phost;
        let constants = TokenConstants::new(setup, params.rtt, params.life);
        let window = constants.window(params.window);
        let first = match params.first {
            Unasked::Short => {
                let rtt = params.rtt.unwrap_or(setup.base_rtt);
                Unrequested::Short(TokenConstants::within(setup, rtt, params.window))
            }
            Unasked::All => Unrequested::AtMost(window),
        };
        let retry = if params.retry == Retry::Token { 1 } else { window };
        let flows = setup.rx_flows_max as usize;
        Self {
            constants,
            window,
            ack_every: params.ack_every,
            spender: Spender::new(setup, first, constants.life),
            issuer: Issuer::new(setup, constants.time(constants.bdp, params.timeout), retry),
            wanting: Least::new(flows),
            silences: Box::new(Wheel::new(TIMER_TICK, flows)),
            timed: vec![None; flows],
            next_at: Instant::ZERO,
        }
    }

    /// Puts an incoming flow where it belongs: among those that may get a token, or behind a timer.
    fn review(&mut self, flow: FlowId, now: Instant) {
        let index = flow.index();
        match self.issuer.ready_at(index, self.window) {
            Some(at) if at <= now => {
                if self.wanting.is_empty() {
                    // Tokens that were not sent while no flow needed any are not made up for.
                    self.next_at = self.next_at.max(now);
                }
                self.wanting.set(index, (0, self.issuer.rank(index)));
            }
            later => {
                self.wanting.remove(index);
                if let Some(at) = later {
                    self.look_again(flow, at);
                }
            }
        }
    }

    /// Makes sure that a flow is examined by `at`. A timer that fires early is cheaper than one
    /// that is moved.
    fn look_again(&mut self, flow: FlowId, at: Instant) {
        let timed = &mut self.timed[flow.index()];
        if let Some((set_for, handle)) = *timed {
            if set_for <= at {
                return;
            }
            self.silences.cancel(handle);
        }
        *timed = Some((at, self.silences.insert(at, flow)));
    }

    /// Sends the tokens that are due by `now`: one in the time of a segment, or several together.
    fn issue(&mut self, now: Instant) {
        let floor = now.as_ps().saturating_sub(self.constants.base_rtt.as_ps());
        self.next_at = self.next_at.max(Instant::from_ps(floor));
        while self.next_at <= now
            && let Some(index) = self.wanting.first()
        {
            let most = self.constants.per_credit;
            let (flow, tokens) = self.issuer.issue_up_to(most, index, self.window, now);
            self.next_at += self.constants.until_next(tokens);
            self.review(flow, now);
        }
    }
}

impl Registered for Phost {
    const ABOUT: &'static str =
        "a BDP unasked, then a token for each segment at the receiver's rate, as pHost";
    type Params = PhostParams;
    fn resolve(params: &mut PhostParams, facts: &NetworkFacts) {
        params.rtt = facts.loop_rtt.or(params.rtt);
        if facts.hosts_poll == Some(true) {
            params.life = params.life.max(POLLED_LIFE);
        }
    }
}

impl Scheduling for Phost {
    fn build(setup: &SchedSetup<'_>) -> Self {
        Self::new(setup)
    }

    fn serves_prio() -> bool {
        true
    }

    fn data_overhead() -> u16 {
        data::DEMAND_LEN
    }
}

spends_tokens!(Phost);

impl Receiving for Phost {
    fn on_arrival(&mut self, flow: FlowId, arrival: &Arrival<'_>, now: Instant) {
        self.issuer.on_arrival(flow, arrival);
        self.review(flow, now);
        self.issue(now);
    }

    fn on_forgotten(&mut self, flow: FlowId) {
        self.issuer.on_forgotten(flow);
        self.wanting.remove(flow.index());
    }

    fn ack_mode(&self) -> AckMode {
        self.constants.ack_mode(self.ack_every)
    }

    fn rto_min(&self) -> Duration {
        self.constants.rto_min()
    }
}

impl Protocol for Phost {
    fn on_control(&mut self, flow: FlowId, from: HostId, hdr: &Header, now: Instant) -> bool {
        match hdr.body {
            Body::Credit(credit) => self.spender.on_credit(flow, credit.upto, now),
            Body::Request(request) => {
                let taken = self.issuer.on_request(flow, from, &request, hdr.ev);
                self.review(flow, now);
                self.issue(now);
                taken
            }
            _ => false,
        }
    }

    fn poll_control(&mut self, _now: Instant, _until: Instant, out: &mut Burst<TxSegment>) {
        self.issuer.poll_control(out);
        self.spender.poll_control(out);
    }

    fn next_given_up(&mut self) -> Option<FlowId> {
        self.spender.next_given_up()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let tokens = (!self.wanting.is_empty()).then_some(self.next_at);
        [tokens, self.silences.poll_at(), self.spender.poll_timeout()].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, flow)) = self.silences.expire(now) {
            self.timed[flow.index()] = None;
            self.review(flow, now);
        }
        self.issue(now);
        self.spender.handle_timeout(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Settings};
    use crate::rng::Rng;
    use crate::sched::{Backlog, Label, Sending};
    use crate::units::{Bytes, Credit, EntropyValue};
    use crate::wire::Allowance;

    /// A REQUEST of a flow that has had no token and needs one.
    fn request(flow: FlowId) -> Header {
        let spent = Credit::START.number() << 16;
        let upto = Credit::new(spent | 2).unwrap();
        let body = Body::Request(Allowance { src_flow: flow, upto });
        Header::new(EntropyValue(1), flow, body)
    }

    /// The CREDITs and the tokens that are sent before `until` to a flow that asks once, for
    /// `needs` segments, and is silent after that.
    fn given_to_a_silent_flow(phost: &mut Phost, needs: u32, until: Duration) -> (u64, u32) {
        let upto = Credit::new(Credit::START.number() << 16 | (needs + 1)).unwrap();
        let body = Body::Request(Allowance { src_flow: FlowId::new(0, 1), upto });
        let request = Header::new(EntropyValue(1), FlowId::new(0, 1), body);
        let (mut now, mut credits, mut given) = (Instant::ZERO, 0, Credit::START);
        assert!(phost.on_control(FlowId::new(0, 1), HostId(1), &request, now));
        while now.since(Instant::ZERO) < until {
            let mut out = Burst::with_limit(32);
            phost.poll_control(now, now, &mut out);
            for packet in out.iter() {
                let Body::Credit(credit) = packet.hdr.body else { continue };
                (credits, given) = (credits + 1, credit.upto);
            }
            now = phost.poll_timeout().unwrap();
            phost.handle_timeout(now);
        }
        (credits, given.ahead_of(Credit::START))
    }

    #[test]
    fn a_flow_beyond_a_window_begins_without_tokens_only_where_all_do() {
        for (first, of_long) in [(Unasked::Short, false), (Unasked::All, true)] {
            let mut settings = Settings::default();
            settings.sched_params.phost.first = first;
            let config = Config::new(settings).unwrap();
            let begins = |segments: u32| {
                let mut phost = Phost::new(&config.sched_setup(HostId(0), Rng::new(1)));
                let (flow, now) = (FlowId::new(0, 1), Instant::ZERO);
                phost.on_open(flow, HostId(1), &config.default_path(), Label::NONE);
                let sendable = Bytes(u64::from(segments) * config.mtu().0);
                let segments = segments.into();
                let backlog =
                    Backlog { sendable, waiting: sendable, segments, ..Backlog::default() };
                phost.on_backlog(flow, &backlog, now);
                phost.next_turn(now, now).is_some()
            };
            // The last segment of a window is only in part within a BDP.
            let window = Phost::new(&config.sched_setup(HostId(0), Rng::new(1))).window;
            assert!(window > 1);
            assert_eq!((begins(window - 1), begins(window)), (true, of_long), "{first:?}");
        }
    }

    #[test]
    fn credits_take_an_eighth_of_the_line_at_most_however_short_segments_are() {
        for (payload_max, together) in [(64, true), (256, true), (1000, false), (4096, false)] {
            let settings = Settings { payload_max, ..Settings::default() };
            let config = Config::new(settings).unwrap();
            let setup = config.sched_setup(HostId(0), Rng::new(1));
            let mut phost = Phost::new(&setup);
            let needs = phost.window;
            // Until the window is spent, nothing need arrive.
            let spent = config.line_rate.time_for(config.mtu()) * u64::from(phost.window - 1);
            let (credits, tokens) = given_to_a_silent_flow(&mut phost, needs, spent);
            let line = config.line_rate.bytes_in(spent);
            assert!(Bytes(credits * 66 * 8) < line.scaled(1.1), "{payload_max}: {credits} CREDITs");
            assert!(tokens * 10 > needs * 9, "{payload_max}: {tokens} of {needs}");
            assert_eq!(u64::from(tokens) > credits, together, "{payload_max}: {tokens}, {credits}");
        }
    }

    #[test]
    fn a_flow_that_left_a_window_unanswered_gets_what_the_setting_says() {
        let given = |retry: Retry| {
            let mut settings = Settings::default();
            settings.sched_params.phost.retry = retry;
            let config = Config::new(settings).unwrap();
            let mut phost = Phost::new(&config.sched_setup(HostId(0), Rng::new(1)));
            // A window, a timeout, and the time of another window.
            let until = phost.constants.time(phost.constants.bdp, 3.2);
            let (needs, window) = (4 * phost.window, phost.window);
            (given_to_a_silent_flow(&mut phost, needs, until).1, window)
        };
        let (given_token, window) = given(Retry::Token);
        assert!((window + 1..window + 4).contains(&given_token), "{given_token} of {window}");
        let (given_window, window) = given(Retry::Window);
        let two = window * 18..=window * 20;
        assert!(two.contains(&(given_window * 10)), "{given_window} of {window}");
    }

    #[test]
    fn a_flow_does_not_wait_for_the_late_timer_of_the_one_before_it() {
        let settings = Settings { rx_flows_max: 1, ..Settings::default() };
        let config = Config::new(settings).unwrap();
        let mut phost = Phost::new(&config.sched_setup(HostId(0), Rng::new(1)));
        let timeout = phost.constants.time(phost.constants.bdp, 1.1);
        let (old, new) = (FlowId::new(0, 1), FlowId::new(0, 2));
        let mut now = Instant::ZERO;
        assert!(phost.on_control(old, HostId(1), &request(old), now));
        // The sender stays silent until its tokens are taken for dead ever more rarely.
        while let Some(at) = phost.poll_timeout().filter(|at| at.since(now) < timeout * 8) {
            now = at;
            phost.handle_timeout(now);
        }
        phost.on_forgotten(old);
        assert!(phost.on_control(new, HostId(1), &request(new), now));
        let tick = TIMER_TICK * 2;
        let next = phost.poll_timeout().unwrap();
        assert!(next <= now + timeout + tick, "{next:?} at {now:?}, for {timeout}");
    }
}
