//! Frames of a simulation in a capture: headers as the wire's code writes them, no payload.
//!
//! Hosts note what they send and receive; between two windows, which share no instant, it is put in
//! order of time and host and written. So the file is the same on any number of threads and however
//! time is cut. Stamps are picoseconds of network time since the start of the run.

use std::fs::File;
use std::io::{self, BufWriter};

use transport::wire::addressing::Addressing;
use transport::wire::frame::{self, Ecn, FrameSpec, TrafficClass};
use transport::wire::{Ext, Header};
use transport::{HostId, Instant};

use crate::capture::pcapng::{Direction, Interface, Packet, StampUnit, Statistics, Writer};
use crate::capture::{Capture, Unwritten};
use crate::plan::{Plan, RunError};

/// A frame that a host has sent or received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) at: Instant,
    pub(super) host: HostId,
    pub(super) peer: HostId,
    pub(super) sent: bool,
    pub(super) hdr: Header,
    /// The extensions that it names.
    pub(super) ext: Ext,
    /// Payload bytes, as sent.
    pub(super) payload_len: u16,
    pub(super) class: TrafficClass,
    pub(super) ecn: Ecn,
}

/// The frames that the hosts of a part note.
#[derive(Debug)]
pub(super) struct Tap {
    only: Option<HostId>,
    every: u64,
    first: u32,
    /// For each host of the part: frames so far.
    seen: Vec<u64>,
    taken: Vec<Taken>,
}

impl Tap {
    /// A tap for `hosts` hosts from `first` on.
    pub(super) fn new(capture: &Capture, first: u32, hosts: usize) -> Self {
        let every = u64::from(capture.every);
        Self { only: capture.host, every, first, seen: vec![0; hosts], taken: Vec::new() }
    }

    /// Notes a frame, if it is wanted.
    pub(super) fn note(&mut self, frame: Taken) {
        if self.only.is_some_and(|only| only != frame.host) {
            return;
        }
        let seen = &mut self.seen[(frame.host.0 - self.first) as usize];
        if seen.is_multiple_of(self.every) {
            self.taken.push(frame);
        }
        *seen += 1;
    }
}

/// The file.
#[derive(Debug)]
pub(super) struct Recording {
    writer: Writer<BufWriter<File>>,
    addressing: Addressing,
    only: Option<HostId>,
    snap: usize,
    /// Frames of the last window.
    taken: Vec<Taken>,
    /// The first error; nothing is written after it.
    failed: Option<io::Error>,
    capture: Capture,
}

impl Recording {
    /// Creates the file of `capture` for a run of `plan`.
    ///
    /// # Errors
    /// [`RunError::Input`] when it cannot be written, or the host is not in the run.
    pub(super) fn start(capture: &Capture, plan: &Plan) -> Result<Self, RunError> {
        let file = capture.create(plan.hosts())?;
        let begun = || {
            let comment = "simulated; without payload";
            let mut writer = Writer::new(BufWriter::new(file), comment, StampUnit::Picosecond)?;
            for host in (0..plan.hosts()).filter(|host| capture.wants(HostId(*host))) {
                writer.interface(&Interface {
                    name: &format!("host{host}"),
                    description: &format!("simulated host {host}"),
                    speed: plan.settings.line_rate.as_bps(),
                    snap: capture.snap,
                })?;
            }
            Ok(writer)
        };
        Ok(Self {
            writer: begun().map_err(|error| capture.unwritable(&error))?,
            addressing: plan.addressing(),
            only: capture.host,
            snap: usize::try_from(capture.snap).unwrap_or(usize::MAX),
            taken: Vec::new(),
            failed: None,
            capture: capture.clone(),
        })
    }

    /// Writes the frames that the taps of all parts have noted in a window.
    pub(super) fn take<'t>(&mut self, taps: impl Iterator<Item = &'t mut Tap>) {
        self.taken.clear();
        taps.for_each(|tap| self.taken.append(&mut tap.taken));
        // A host is of one part, and its frames are in their order.
        self.taken.sort_by_key(|frame| (frame.at, frame.host));
        for at in 0..self.taken.len() {
            if self.failed.is_none()
                && let Err(error) = self.write(&self.taken[at].clone())
            {
                self.failed = Some(error);
            }
        }
    }

    fn write(&mut self, frame: &Taken) -> io::Result<()> {
        let ends = if frame.sent { (frame.host, frame.peer) } else { (frame.peer, frame.host) };
        let Some(addrs) = self.addressing.pair(ends.0, ends.1) else { return Ok(()) };
        let trimmed = frame.class == TrafficClass::Trimmed;
        let class = if trimmed { TrafficClass::Data } else { frame.class };
        let spec = FrameSpec { addrs, ecn: frame.ecn, class };
        let mut bytes = [0; frame::HEADERS_MAX as usize];
        let headers = frame::emit(&spec, &frame.hdr, &frame.ext, frame.payload_len, &mut bytes);
        let mut len = u32::try_from(headers).unwrap_or(u32::MAX) + u32::from(frame.payload_len);
        if trimmed {
            // An octet of payload, so that there is something to cut off.
            len = u32::try_from(frame::trim(&mut bytes[..=headers])).unwrap_or(u32::MAX);
        }
        self.writer.packet(&Packet {
            interface: if self.only.is_some() { 0 } else { frame.host.0 },
            at: frame.at.as_ps(),
            direction: if frame.sent { Direction::Sent } else { Direction::Received },
            len,
            bytes: &bytes[..headers.min(self.snap)],
        })
    }

    /// Writes the frames until `end`; the file, if it is not whole.
    pub(super) fn finish<'t>(
        mut self,
        taps: impl Iterator<Item = &'t mut Tap>,
        end: Instant,
    ) -> Option<Unwritten> {
        let seen: Vec<u64> = taps.flat_map(|tap| tap.seen.clone()).collect();
        let wanted =
            (0..).zip(seen).filter(|(host, _)| self.only.is_none_or(|only| only.0 == *host));
        let wanted: Vec<(u32, u64)> = wanted.collect();
        let end_file = || {
            for (interface, (_, seen)) in (0..).zip(wanted) {
                let span = (0, end.as_ps());
                self.writer.statistics(interface, &Statistics { span, seen, lost: 0 })?;
            }
            self.writer.flush()
        };
        let ended = end_file();
        let failed = self.failed.or(ended.err());
        failed.map(|error| self.capture.not_whole(&error))
    }
}
