//! Feeds a recording through a fresh endpoint and compares every answer.

use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU32;

use super::call::{CallKind, Digest, read_segment};
use super::reader::Reader;
use super::tape::{of_open, of_post};
use super::{FORMAT, FormatError, settings};
use crate::config::Config;
use crate::endpoint::{Endpoint, MsgSpec};
use crate::path::Path;
use crate::rng::Rng;
use crate::sched::Label;
use crate::segment::{BURST, Burst, Placement, RxSegment};
use crate::stats::Stats;
use crate::time::{Duration, Instant, Rate};
use crate::units::{Bytes, FlowId, HostId};
use crate::wire::Ext;

/// The report of a replay whose answers all agreed.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplayReport {
    /// The host whose endpoint was recorded.
    pub host: HostId,
    /// The configuration of that endpoint.
    pub config: Config,
    /// Number of calls, all answered as recorded.
    pub calls: u64,
    /// Segments received in all calls.
    pub received: u64,
    /// Segments sent in all calls.
    pub sent: u64,
    /// The time of the last call.
    pub until: Instant,
    /// The endpoint's counters; drops before the core are not recorded.
    pub stats: Stats,
}

/// Why a replay did not agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayError {
    /// The bytes are no whole recording.
    Format(FormatError),
    /// The answer to this call is not the recorded one.
    Differs {
        /// Counted from 0.
        call: u64,
        /// The kind of the call.
        kind: CallKind,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(error) => error.fmt(f),
            Self::Differs { call, kind } => write!(
                f,
                "the answer to call {call} ({kind:?}) differs from the recording: the core has \
                 changed; replay with the version that recorded"
            ),
        }
    }
}

impl core::error::Error for ReplayError {}

impl From<FormatError> for ReplayError {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

struct Replay {
    endpoint: Endpoint,
    digest: Digest,
    segments: Vec<RxSegment>,
    exts: Vec<Ext>,
    places: Vec<Placement>,
    burst: Burst<crate::segment::TxSegment>,
    report: ReplayReport,
}

/// Replays `bytes`, a whole recording.
///
/// # Errors
/// [`ReplayError`] names the first call that differs, or where the bytes stop being a recording.
pub fn replay(bytes: &[u8]) -> Result<ReplayReport, ReplayError> {
    let mut reader = Reader::new(bytes);
    let mut replay = Replay::start(&mut reader)?;
    loop {
        reader.begin();
        let kind = CallKind::of(reader.u8()?).ok_or(reader.malformed())?;
        replay.call(kind, &mut reader)?;
        if reader.u64()? != replay.digest.value() {
            return Err(ReplayError::Differs { call: replay.report.calls, kind });
        }
        if kind == CallKind::End {
            reader.end()?;
            replay.report.stats = *replay.endpoint.stats();
            return Ok(replay.report);
        }
        replay.report.calls += 1;
    }
}

impl Replay {
    fn start(reader: &mut Reader<'_>) -> Result<Self, ReplayError> {
        let format = reader.take(FORMAT.len()).map_err(|_| FormatError::NotARecording)?;
        if format != FORMAT {
            return Err(FormatError::NotARecording.into());
        }
        let host = HostId(reader.u32()?);
        let rng = Rng::from_name(reader.u64()?);
        let count = reader.u32()?;
        let words = usize::try_from(count).ok().and_then(|count| count.checked_mul(8));
        let words = reader.take(words.ok_or(FormatError::Configuration)?)?;
        let words = words.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut digest = Digest::new();
        digest.octets(reader.since_begin());
        // The digest is checked before anything is allocated for a damaged configuration.
        if reader.u64()? != digest.value() {
            return Err(reader.malformed().into());
        }
        let config = settings::from_words(words).ok_or(FormatError::Configuration)?;
        Ok(Self {
            endpoint: Endpoint::new(&config, host, rng),
            digest,
            segments: Vec::new(),
            exts: Vec::new(),
            places: Vec::new(),
            burst: Burst::with_limit(BURST),
            report: ReplayReport {
                host,
                config,
                calls: 0,
                received: 0,
                sent: 0,
                until: Instant::ZERO,
                stats: Stats::default(),
            },
        })
    }

    /// Repeats one call and updates the digest by its answer.
    fn call(&mut self, kind: CallKind, reader: &mut Reader<'_>) -> Result<(), ReplayError> {
        match kind {
            CallKind::OpenFlow | CallKind::OpenLabelled => self.open_flow(kind, reader)?,
            CallKind::CloseFlow => {
                let now = self.now(reader)?;
                let flow = FlowId(reader.u32()?);
                self.input(reader)?;
                self.endpoint.close_flow(now, flow);
            }
            CallKind::PostSend => self.post_send(reader)?,
            CallKind::HandleBurst => self.handle_burst(reader)?,
            CallKind::PollTransmit => {
                let now = self.now(reader)?;
                self.burst.reset(usize::from(reader.u8()?));
                self.input(reader)?;
                self.endpoint.poll_transmit(now, &mut self.burst);
                self.report.sent += self.burst.len() as u64;
                self.digest.sent(&self.burst, 0);
            }
            CallKind::SendAhead => {
                let horizon = Duration::from_ps(reader.u64()?);
                self.input(reader)?;
                self.endpoint.send_ahead(horizon);
            }
            CallKind::HandleTimeout => {
                let now = self.now(reader)?;
                self.input(reader)?;
                self.endpoint.handle_timeout(now);
            }
            CallKind::PollEvent => {
                self.input(reader)?;
                match self.endpoint.poll_event() {
                    Some(event) => self.digest.event(&event),
                    None => return Err(ReplayError::Differs { call: self.report.calls, kind }),
                }
            }
            CallKind::End => {
                let calls = reader.u64()?;
                self.input(reader)?;
                if calls != self.report.calls {
                    return Err(reader.malformed().into());
                }
            }
        }
        Ok(())
    }

    fn open_flow(&mut self, kind: CallKind, reader: &mut Reader<'_>) -> Result<(), ReplayError> {
        let peer = HostId(reader.u32()?);
        let base_rtt = Duration::from_ps(reader.u64()?);
        let line_rate = Rate::from_bps(reader.u64()?);
        let mtu = Bytes(reader.u64()?);
        let mut label = Label::NONE;
        if kind == CallKind::OpenLabelled {
            label = Label { collective: reader.u32()?, prio: reader.u32()? };
        }
        self.input(reader)?;
        let path = Path { base_rtt, line_rate, mtu };
        let answer = self.endpoint.open_labelled(peer, path, label);
        self.digest.word(of_open(answer));
        Ok(())
    }

    fn post_send(&mut self, reader: &mut Reader<'_>) -> Result<(), ReplayError> {
        let now = self.now(reader)?;
        let flow = FlowId(reader.u32()?);
        let len = NonZeroU32::new(reader.u32()?).ok_or(reader.malformed())?;
        let tag = reader.u64()?;
        self.input(reader)?;
        let answer = self.endpoint.post_send(now, MsgSpec { flow, len, tag });
        self.digest.word(of_post(answer));
        Ok(())
    }

    fn handle_burst(&mut self, reader: &mut Reader<'_>) -> Result<(), ReplayError> {
        let now = self.now(reader)?;
        let count = usize::from(reader.u16()?);
        self.segments.clear();
        self.exts.clear();
        for _ in 0..count {
            let (segment, ext) = read_segment(reader)?;
            self.segments.push(segment);
            self.exts.push(ext);
        }
        self.input(reader)?;
        self.places.resize(count.max(self.places.len()), Placement::Release);
        let received = (&self.segments[..], &self.exts[..]);
        self.endpoint.handle_extended(now, received, &mut self.places);
        self.report.received += count as u64;
        self.digest.placements(&self.places[..count]);
        self.digest.restores(self.endpoint.restores());
        Ok(())
    }

    /// Checks that the input that has been read is the one that was written.
    fn input(&mut self, reader: &mut Reader<'_>) -> Result<(), ReplayError> {
        self.digest.octets(reader.since_begin());
        let intact = reader.u32()? == self.digest.short();
        if intact { Ok(()) } else { Err(reader.malformed().into()) }
    }

    fn now(&mut self, reader: &mut Reader<'_>) -> Result<Instant, ReplayError> {
        let now = Instant::from_ps(reader.u64()?);
        self.report.until = now;
        Ok(now)
    }
}
