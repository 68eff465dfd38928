//! The sending side of a flow: which segment is next, and how acknowledgements are handled.
//!
//! A sending side joins parts that the rest of the core keeps apart: messages to cut into segments,
//! the window of the controller, the paths of the balancer, and the fate of segments
//! ([`super::recovery`]).

mod again;
mod blocks;
mod feedback;
mod reopen;
mod send;
mod standing;

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::ahead::Ahead;
use super::pacer::Pacer;
use super::recovery::Recovery;
use super::round_trips::LongRoundTrips;
use crate::cc::{Cc, CongestionControl as _, Path, Window};
use crate::config::{Config, Extended, Policies};
use crate::ec::{Ec, LossWatch, PathLosses};
use crate::event::{Event, FailReason};
use crate::lb::Lb;
use crate::rng::Rng;
use crate::sched::Backlog;
use crate::slab::Slab;
use crate::stats::Stats;
use crate::time::{Duration, Instant, earliest};
use crate::units::{Bytes, FlowId, HostId, Key, MsgId, MsgNo, Psn};
use crate::wire::{Ext, data};
use again::Again;
use blocks::ParityDue;

pub use standing::Standing;

/// One message on its way out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxMsg {
    /// The message's number on the wire.
    pub(crate) no: MsgNo,
    /// Length, bytes, at least 1.
    pub(crate) len: core::num::NonZeroU32,
    /// First byte that has not been sent, 0..=len.
    pub(crate) next_offset: u32,
    /// Bytes acknowledged, 0..=len.
    pub(crate) acked: u32,
    /// The application's tag; 0 is none.
    pub(crate) tag: u64,
    /// Whether the receiver has acknowledged a segment, so that it has opened the message.
    pub(crate) opened: bool,
    /// How often the message was begun again from its start, 0 to 64.
    pub(crate) begun_again: u8,
    /// When the message was posted, or its flow was opened anew: no segment of it left before.
    pub(crate) since: Instant,
}

/// The reason why a flow is not sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// The application has posted no more, and all is acknowledged.
    Application,
    /// Segments in flight wait for acknowledgements; there is nothing more to send.
    Acknowledgement,
    /// The congestion window is full.
    Window,
    /// The scheduler does not let the flow send, for example for want of credit.
    Scheduler,
    /// The pacer's instant has not come.
    Pacing,
    /// The receiver has refused segments again and again: the next copy waits, or the one segment
    /// that may be in flight is.
    Refusals,
    /// The receiver has answered none of several attempts to open the flow, and the one segment
    /// that may be in flight is.
    Opening,
    /// Too many PSNs are outstanding: an old segment has to be acknowledged first.
    PsnWindow,
    /// Too many messages are unfinished: an old one has to finish first.
    MsgWindow,
    /// The peer did not answer and the flow was given up.
    Failed,
}

/// Parts of the endpoint that a sending flow borrows.
pub(crate) struct TxContext<'a> {
    pub(crate) config: &'a Config,
    pub(crate) msgs: &'a mut Slab<MsgId, TxMsg>,
    pub(crate) round_trips: &'a mut LongRoundTrips,
    pub(crate) losses: &'a mut PathLosses,
    pub(crate) stats: &'a mut Stats,
    pub(crate) events: &'a mut VecDeque<Event>,
}

/// The sending side of one flow.
#[derive(Clone, Debug)]
pub(crate) struct TxFlow {
    /// The cached answer of the controller.
    window: Window,
    pub(crate) id: FlowId,
    pub(crate) peer: HostId,
    dst_flow: FlowId,
    failed: bool,
    pub(crate) closing: bool,
    /// Whether the scheduler has chosen a path: the balancer gets no feedback from then on.
    steered: bool,
    /// Why the last poll yielded nothing.
    wait: Option<Wait>,
    recovery: Recovery,
    cc: Cc,
    lb: Lb,
    rng: Rng,
    path: Path,
    pacer: Pacer,
    /// Unfinished messages, of consecutive numbers; finished ones are taken off the front.
    unfinished: VecDeque<MsgId>,
    /// How many of the unfinished messages, at the end, have bytes that were never sent; the first
    /// of these is being sent.
    unsent: u32,
    next_msg: MsgNo,
    /// Segments of posted messages that were never sent.
    unsent_segments: u64,
    /// Wire bytes of these segments, without extensions that only some have.
    unsent_bytes: Bytes,
    /// The key that every packet of the flow carries. Its neighbours here are fields that each
    /// segment and each acknowledgement changes. Where the compiler keeps them together in memory,
    /// as it may, the key costs no cache line of its own.
    pub(crate) key: Key,
    /// Wire bytes that reports have acknowledged since the last acknowledgement: the controller's
    /// next sample has them.
    reported: Bytes,
    /// Wire bytes that the receiver has refused.
    refused: Bytes,
    /// [`Backlog::rtt`], wire time units.
    rtt: u32,
    /// How often in a row a segment that was in flight alone was sent again and refused again.
    refused_again: u8,
    /// Round trips in a row in which all segments that arrived were refused.
    refused_rounds: u8,
    /// Why one segment may be in flight, whatever the window; `None` while the window holds.
    alone: Option<Wait>,
    /// Instant before which nothing is sent after a refusal of the only segment in flight; while
    /// several are in flight, the end of the last of these round trips.
    held_until: Instant,
    /// The erasure code; `None` when its messages are sent as they are.
    code: Option<Ec>,
    /// Decides which blocks are coded, where losses of links do; `None` where all are, or none.
    watch: Option<Box<LossWatch>>,
    /// Parity that belongs right behind the last segment sent.
    parity: ParityDue,
    /// Instant before which packets on dead paths are not searched for again.
    swept_until: Instant,
    /// When the receiver was last reminded of this flow, or the flow had something to send.
    kept_at: Instant,
    /// The extensions that follow the headers of its segments.
    extended: Extended,
    /// Wire bytes of a packet beside its payload and extensions that only some of its packets have.
    overhead: u16,
    /// [`TxFlow::overhead`] and, where all blocks are coded, the extension that places a packet in
    /// its block.
    coded_overhead: u16,
    /// When the receiver was last sent proof of this host's address, and the cookie that proves it;
    /// zero before that.
    proved: (Instant, u64),
    /// Whether the receiver has reported that it has no room for the flow.
    refused_flow: bool,
    /// Segments without a report that were sent again.
    again: Again,
}

// One for each flow that sends. The controllers and balancers take more than half of it.
const _: () = assert!(size_of::<TxFlow>() <= 1040);

impl TxFlow {
    /// A flow to `peer` that has not sent anything.
    pub(crate) fn new(
        config: &Config,
        (id, key): (FlowId, Key),
        peer: HostId,
        path: Path,
        cc: Cc,
        lb: Lb,
        rng: Rng,
    ) -> Self {
        let code = config.code_of(&path);
        let rule = config.code_params.auto;
        let by_loss = code.as_ref().is_some_and(|code| code.kind().is_by_loss());
        let watch = by_loss.then(|| Box::new(LossWatch::new(rule, path.base_rtt, path.bdp())));
        let all_coded = code.is_some() && watch.is_none();
        let extended = config.extended(cc.kind());
        let overhead = config.segment_overhead() + config.ext_beside(extended.extent);
        let code_len = if all_coded { data::CODE_LEN } else { 0 };
        let mut loss = config.loss;
        if all_coded {
            // A gap is no loss as long as its block can be decoded; the receiver reports when it
            // cannot.
            loss.reorder_window_quarters = None;
        }
        // Paths differ in delay: only where there is one is each gap a loss.
        loss.in_order &= lb.kind().keeps_order();
        let recovery = Recovery::new(&loss, &path, config.rto(&path), id.0.to_le_bytes()[0]);
        // Receivers ask for what coded blocks lack.
        let probes = config.probes_silences(cc.kind()) && code.is_none();
        let recovery = if probes { recovery.with_probes(config, &path, key) } else { recovery };
        Self {
            window: cc.window(),
            id,
            key,
            peer,
            dst_flow: FlowId::UNKNOWN,
            failed: false,
            closing: false,
            steered: false,
            wait: None,
            recovery,
            cc,
            lb,
            rng,
            path,
            pacer: Pacer::default(),
            unfinished: VecDeque::new(),
            unsent: 0,
            next_msg: MsgNo(0),
            unsent_segments: 0,
            unsent_bytes: Bytes::ZERO,
            reported: Bytes::ZERO,
            refused: Bytes::ZERO,
            rtt: 0,
            refused_again: 0,
            refused_rounds: 0,
            alone: None,
            held_until: Instant::ZERO,
            code,
            watch,
            parity: ParityDue::default(),
            swept_until: Instant::ZERO,
            kept_at: Instant::ZERO,
            extended,
            overhead,
            coded_overhead: overhead + config.extensions(code_len),
            proved: (Instant::ZERO, 0),
            refused_flow: false,
            again: Again::default(),
        }
    }

    /// Takes a message of `len` bytes. Allocates so that sending does not have to.
    pub(crate) fn post(&mut self, config: &Config, id: MsgId, len: u32, now: Instant) {
        if self.next_msg == MsgNo(0) {
            self.wake(now);
        }
        if self.unfinished.is_empty() {
            // The last round trip is too old to say anything about queues.
            self.rtt = 0;
        }
        let (packets, payload) = self.packets_of(config, len);
        self.unsent_segments += packets;
        let overhead = packets * u64::from(self.coded_overhead);
        self.unsent_bytes += Bytes(payload + overhead);
        self.unsent += 1;
        // Half the window, so that the receiver's open part always covers the outstanding PSNs.
        self.recovery.reserve(self.unsent_packets(), config.psn_window / 2);
        self.unfinished.push_back(id);
        self.next_msg = self.next_msg.plus(1);
    }

    /// Wakes the controller if it asked for that.
    #[inline]
    fn wake(&mut self, now: Instant) {
        if self.window.wake_at.is_some_and(|at| at <= now) {
            self.cc.on_wake(now, &self.path);
            self.window = self.cc.window();
        }
    }

    /// Fills in the extensions of one of its segments.
    #[cold]
    pub(crate) fn extend(&self, config: &Config, ext: &mut Ext) {
        if self.extended.extent.has_int() {
            ext.int.reserve(config.int_room);
        }
        if let Some(half) = self.extended.half {
            ext.half = half;
        }
    }

    /// The flow's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The flow's controller and balancer.
    pub(crate) fn policies(&self) -> Policies {
        Policies { cc: self.cc.kind(), lb: self.lb.kind() }
    }

    /// The number of the next message on the wire.
    pub(crate) fn next_msg_no(&self) -> MsgNo {
        self.next_msg
    }

    /// The bytes that wait to be sent, and how many of them might leave now;
    /// [`TxFlow::poll_segment`] decides.
    #[inline]
    pub(crate) fn backlog(&self, msg_window: u16) -> Backlog {
        let (cwnd, refused) = (self.cwnd(), self.refused);
        if self.failed {
            return Backlog { cwnd, refused, ..Backlog::default() };
        }
        let in_flight = self.recovery.in_flight();
        let work = self.recovery.has_lost() || self.unsent > 0;
        let open = in_flight == Bytes::ZERO || in_flight < cwnd;
        let sendable = if work && open { self.path.mtu } else { Bytes::ZERO };
        let waiting = self.unsent_bytes + self.recovery.lost_bytes();
        let segments = self.unsent_segments + u64::from(self.recovery.lost());
        // Messages that cannot begin are the last ones.
        let blocked = (self.unfinished.len() as u64).saturating_sub(msg_window.into());
        let blocked = match u64::from(self.unsent) {
            unsent if blocked >= unsent => self.unsent_segments,
            unsent if blocked > 0 => self.unsent_segments * blocked / unsent,
            _ => 0,
        };
        let rtt = Duration::from_wire(self.rtt);
        Backlog { sendable, waiting, segments, blocked, in_flight, cwnd, refused, rtt }
    }

    /// The first packet number that the receiver has not acknowledged.
    pub(crate) fn base(&self) -> Psn {
        self.recovery.base()
    }

    /// True when nothing is outstanding and nothing is to be sent.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.unfinished.is_empty() || self.failed
    }

    /// The cached window and the bytes in flight, for traces and samples.
    #[inline]
    pub(crate) fn window(&self) -> (Window, Bytes) {
        (self.window, self.recovery.in_flight())
    }

    /// Why the flow did not send at the last poll; `None` when it sent.
    pub(crate) fn wait(&self) -> Option<Wait> {
        self.wait
    }

    /// When to call [`TxFlow::on_timer`]. The timer of a paced segment is `ahead` of its departure.
    /// Once that instant has passed without the segment being given, it is the departure itself.
    pub(crate) fn next_timer(
        &mut self,
        now: Instant,
        ahead: &Ahead,
        config: &Config,
    ) -> Option<Instant> {
        if self.failed {
            return None;
        }
        let work = self.recovery.has_lost() || self.unsent > 0;
        // Receivers ask for the tail of a coded flow themselves.
        let tail = self.unsent == 0 && !self.is_coding();
        let recovery = self.recovery.next_timer(now, tail, &config.loss);
        let due = earliest(recovery, self.window.wake_at);
        let probes = self.recovery.probes_silences();
        let is_free = self.window.pacing.is_none() && self.held_until == Instant::ZERO && !probes;
        if is_free && config.keep_alive.is_none() {
            return due;
        }
        let paced = self.window.pacing.map(|_| self.pacer.next_at());
        let paced = paced.map(|at| {
            let early = at.as_ps().saturating_sub(ahead.of(&self.path).as_ps());
            let early = Instant::from_ps(early);
            if early > now { early } else { at }
        });
        let leave_at = paced.map_or(self.held_until, |at| at.max(self.held_until));
        let leave_at = (leave_at > now && work).then_some(leave_at);
        // What waits for the pacer leaves soon, and is as good as a probe.
        let due = if probes && leave_at.is_none() {
            earliest(due, self.recovery.next_probe(now, Duration::from_wire(self.rtt)))
        } else {
            due
        };
        let keep_at = self.keep_at(now, config);
        earliest(due, earliest(leave_at, keep_at))
    }

    /// Fails every unfinished message, by name, because the peer does not answer.
    pub(crate) fn fail(&mut self, cx: &mut TxContext<'_>) {
        let reason = if self.refused_flow { FailReason::PeerFull } else { FailReason::PeerSilent };
        self.failed = true;
        self.unsent = 0;
        self.parity = ParityDue::default();
        self.recovery.clear();
        for msg in self.unfinished.drain(..) {
            if cx.msgs.remove(msg).is_some() {
                cx.stats.messages_failed += 1;
                cx.events.push_back(Event::Failed { msg, reason });
            }
        }
    }

    /// True when the flow was closed and is finished, so that its state is not needed any more.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.closing && self.is_idle()
    }

    /// True once the peer was given up.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }
}
