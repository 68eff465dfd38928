//! The endpoint as its driver calls it, with or without a tape running.
//!
//! Without a tape a call costs one predicted branch more. With a tape each call appends tens of
//! bytes to memory; the driver takes them now and then ([`Recorder::take`]) and writes them to a
//! place of its choice.

use alloc::vec::Vec;
use core::mem;

use super::call::{CallKind, Digest, write_segment};
use super::{FORMAT, settings};
use crate::config::Config;
use crate::endpoint::error::PostError;
use crate::endpoint::{Endpoint, MsgSpec};
use crate::event::Event;
use crate::path::Path;
use crate::rng::Rng;
use crate::sched::Label;
use crate::segment::{Burst, Placement, Restore, RxSegment, TxSegment};
use crate::stats::DropReason;
use crate::time::{Duration, Instant};
use crate::units::{FlowId, HostId, MsgId};
use crate::wire::{Ext, Extent};

/// An endpoint, and its tape when it has one. Methods are the endpoint's.
#[derive(Debug)]
pub struct Recorder {
    endpoint: Endpoint,
    tape: Option<Tape>,
}

#[derive(Debug)]
struct Tape {
    bytes: Vec<u8>,
    /// The octet at which the present call starts.
    call_at: usize,
    digest: Digest,
    calls: u64,
}

/// Octets that [`Recorder::pending`] may reach between polls without another allocation.
const ROOM: usize = 1 << 20;

impl Recorder {
    /// An endpoint without a tape.
    #[must_use]
    pub fn off(config: &Config, host: HostId, rng: Rng) -> Self {
        Self { endpoint: Endpoint::new(config, host, rng), tape: None }
    }

    /// An endpoint whose whole life is recorded. `rng` may have been forked, but nothing may have
    /// been drawn from it yet.
    #[must_use]
    pub fn on(config: &Config, host: HostId, rng: Rng) -> Self {
        let tape = Tape::new(config, host, &rng);
        Self { endpoint: Endpoint::new(config, host, rng), tape: Some(tape) }
    }

    /// The endpoint, to look at.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Recorded octets not taken yet; 0 when off.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.tape.as_ref().map_or(0, |tape| tape.bytes.len())
    }

    /// Hands the recorded octets to `write` and drops them.
    pub fn take(&mut self, write: impl FnOnce(&[u8])) {
        if let Some(tape) = &mut self.tape {
            write(&tape.bytes);
            tape.bytes.clear();
        }
    }

    /// Ends the recording, and returns its remaining octets; empty when off. The endpoint goes on.
    pub fn finish(&mut self) -> Vec<u8> {
        let Some(mut tape) = self.tape.take() else { return Vec::new() };
        let calls = tape.calls;
        tape.begin(CallKind::End).extend(calls.to_le_bytes());
        tape.end(|_| ());
        mem::take(&mut tape.bytes)
    }

    /// [`Endpoint::open_flow`]
    ///
    /// # Errors
    /// As the endpoint's method.
    pub fn open_flow(&mut self, peer: HostId, path: Path) -> Result<FlowId, PostError> {
        let answer = self.endpoint.open_flow(peer, path);
        if let Some(tape) = &mut self.tape {
            let out = tape.begin(CallKind::OpenFlow);
            write_opening(peer, &path, out);
            tape.end(|digest| digest.word(of_open(answer)));
        }
        answer
    }

    /// [`Endpoint::open_labelled`]
    ///
    /// # Errors
    /// As the endpoint's method.
    pub fn open_labelled(
        &mut self,
        peer: HostId,
        path: Path,
        label: Label,
    ) -> Result<FlowId, PostError> {
        if label == Label::NONE {
            return self.open_flow(peer, path);
        }
        let answer = self.endpoint.open_labelled(peer, path, label);
        if let Some(tape) = &mut self.tape {
            let out = tape.begin(CallKind::OpenLabelled);
            write_opening(peer, &path, out);
            out.extend(label.collective.to_le_bytes());
            out.extend(label.prio.to_le_bytes());
            tape.end(|digest| digest.word(of_open(answer)));
        }
        answer
    }

    /// Records and calls [`Endpoint::close_flow`].
    pub fn close_flow(&mut self, now: Instant, flow: FlowId) {
        self.endpoint.close_flow(now, flow);
        if let Some(tape) = &mut self.tape {
            let out = tape.begin(CallKind::CloseFlow);
            out.extend(now.as_ps().to_le_bytes());
            out.extend(flow.0.to_le_bytes());
            tape.end(|_| ());
        }
    }

    /// [`Endpoint::post_send`]
    ///
    /// # Errors
    /// As the endpoint's method.
    pub fn post_send(&mut self, now: Instant, spec: MsgSpec) -> Result<MsgId, PostError> {
        let answer = self.endpoint.post_send(now, spec);
        if let Some(tape) = &mut self.tape {
            let out = tape.begin(CallKind::PostSend);
            out.extend(now.as_ps().to_le_bytes());
            out.extend(spec.flow.0.to_le_bytes());
            out.extend(spec.len.get().to_le_bytes());
            out.extend(spec.tag.to_le_bytes());
            tape.end(|digest| digest.word(of_post(answer)));
        }
        answer
    }

    /// [`Endpoint::handle_burst`]
    ///
    /// # Panics
    /// As the endpoint does.
    #[inline]
    pub fn handle_burst(&mut self, now: Instant, rx: &[RxSegment], out: &mut [Placement]) {
        self.handle_extended(now, (rx, &[]), out);
    }

    /// [`Endpoint::handle_extended`]
    ///
    /// # Panics
    /// As the endpoint does.
    #[inline]
    pub fn handle_extended(
        &mut self,
        now: Instant,
        (rx, exts): (&[RxSegment], &[Ext]),
        out: &mut [Placement],
    ) {
        self.endpoint.handle_extended(now, (rx, exts), out);
        if let Some(tape) = &mut self.tape {
            tape.burst(now, (rx, exts), out, self.endpoint.restores());
        }
    }

    /// [`Endpoint::poll_restore`]; its answers are recorded with the burst.
    #[inline]
    pub fn poll_restore(&mut self) -> Option<Restore> {
        self.endpoint.poll_restore()
    }

    /// Records and calls [`Endpoint::poll_transmit`].
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant, tx: &mut Burst<TxSegment>) {
        let (before, room) = (tx.len(), tx.room());
        self.endpoint.poll_transmit(now, tx);
        if let Some(tape) = &mut self.tape {
            let out = tape.begin(CallKind::PollTransmit);
            out.extend(now.as_ps().to_le_bytes());
            out.push(u8::try_from(room).unwrap_or(u8::MAX));
            tape.end(|digest| digest.sent(tx, before));
        }
    }

    /// Records and calls [`Endpoint::send_ahead`].
    pub fn send_ahead(&mut self, horizon: Duration) {
        self.endpoint.send_ahead(horizon);
        if let Some(tape) = &mut self.tape {
            tape.begin(CallKind::SendAhead).extend(horizon.as_ps().to_le_bytes());
            tape.end(|_| ());
        }
    }

    /// Records and calls [`Endpoint::handle_timeout`].
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
        if let Some(tape) = &mut self.tape {
            tape.begin(CallKind::HandleTimeout).extend(now.as_ps().to_le_bytes());
            tape.end(|_| ());
        }
    }

    /// [`Endpoint::poll_event`]; recorded when there is one.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.endpoint.poll_event()?;
        if let Some(tape) = &mut self.tape {
            tape.begin(CallKind::PollEvent);
            tape.end(|digest| digest.event(&event));
        }
        Some(event)
    }

    /// [`Endpoint::withhold_question`]; not recorded, because no later answer depends on it.
    #[inline]
    pub fn withhold_question(&mut self, rx: &RxSegment, earlier: &[RxSegment]) -> bool {
        self.endpoint.withhold_question(rx, earlier)
    }

    /// [`Endpoint::count_drop`]; not recorded, because no later answer depends on it.
    #[inline]
    pub fn count_drop(&mut self, reason: DropReason) {
        self.endpoint.count_drop(reason);
    }
}

impl Tape {
    fn new(config: &Config, host: HostId, rng: &Rng) -> Self {
        let words = settings::to_words(config);
        let mut bytes = Vec::with_capacity(ROOM);
        bytes.extend(FORMAT);
        bytes.extend(host.0.to_le_bytes());
        bytes.extend(rng.name().to_le_bytes());
        bytes.extend(u32::try_from(words.len()).unwrap_or(0).to_le_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        let mut digest = Digest::new();
        digest.octets(&bytes);
        bytes.extend(digest.value().to_le_bytes());
        Self { call_at: bytes.len(), bytes, digest, calls: 0 }
    }

    /// Starts a call; the caller appends its input to the buffer that this returns.
    fn begin(&mut self, kind: CallKind) -> &mut Vec<u8> {
        self.call_at = self.bytes.len();
        self.bytes.push(kind as u8);
        &mut self.bytes
    }

    /// Ends a call whose answer goes to the digest that `answer` is given.
    fn end(&mut self, answer: impl FnOnce(&mut Digest)) {
        self.digest.octets(&self.bytes[self.call_at..]);
        self.bytes.extend(self.digest.short().to_le_bytes());
        answer(&mut self.digest);
        self.bytes.extend(self.digest.value().to_le_bytes());
        self.calls += 1;
    }

    fn burst<'a>(
        &mut self,
        now: Instant,
        (rx, exts): (&[RxSegment], &[Ext]),
        places: &[Placement],
        restores: impl Iterator<Item = &'a Restore>,
    ) {
        let out = self.begin(CallKind::HandleBurst);
        out.extend(now.as_ps().to_le_bytes());
        out.extend(u16::try_from(rx.len()).unwrap_or(u16::MAX).to_le_bytes());
        for (index, segment) in rx.iter().enumerate() {
            match exts.get(index) {
                Some(ext) => write_segment(segment, ext, out),
                // Without their content extensions count for nothing.
                None => {
                    let hdr = segment.hdr.extended(Extent::NONE);
                    write_segment(&RxSegment { hdr, ..*segment }, &Ext::VACANT, out);
                }
            }
        }
        self.end(|digest| {
            digest.placements(&places[..rx.len()]);
            digest.restores(restores);
        });
    }
}

fn write_opening(peer: HostId, path: &Path, out: &mut Vec<u8>) {
    out.extend(peer.0.to_le_bytes());
    out.extend(path.base_rtt.as_ps().to_le_bytes());
    out.extend(path.line_rate.as_bps().to_le_bytes());
    out.extend(path.mtu.0.to_le_bytes());
}

/// The answer of `open_flow`, as a word of the digest.
pub(super) fn of_open(answer: Result<FlowId, PostError>) -> u64 {
    answer.map_or_else(|error| 1 << 32 | error as u64, |flow| u64::from(flow.0))
}

/// The answer of `post_send`, as a word of the digest.
pub(super) fn of_post(answer: Result<MsgId, PostError>) -> u64 {
    answer.map_or_else(|error| 1 << 32 | error as u64, |msg| u64::from(msg.0))
}
