//! Templates of the frames of each host: its last request, and the last answer to it. A request is
//! read by comparison with its template. An answer is a copy of its template with other content.

use transport::wire::checksum::Checksum;
use transport::wire::frame::{self, FrameSpec};
use transport::wire::note_frames::NoteFrames;
use transport::wire::{Ext, Header, Note, NoteView};
use transport::{EntropyValue, HostId, Key};

use super::addresses::Addresses;

/// The templates of all hosts. All of them are made anew when the MAC of a host changes.
#[derive(Debug)]
pub(super) struct FrameTemplates {
    /// The number of each host, and its last request that was read in full and had its key. The
    /// index is the entropy value of its frames, which is the number of a host that keeps the
    /// rules.
    requests: Vec<Option<(u16, NoteFrames)>>,
    /// By host: the key of its last answer, and frames like that.
    answers: Vec<Option<(Key, NoteFrames)>>,
    /// The changes of addresses up to which these are made.
    changes: u64,
}

impl FrameTemplates {
    /// For `hosts` hosts, none of which has a template yet.
    pub(super) fn new(hosts: usize) -> Self {
        let requests = (0..hosts).map(|_| None).collect();
        Self { requests, answers: (0..hosts).map(|_| None).collect(), changes: 0 }
    }

    /// The host and the note of a frame that is like the last request of that host. `None` does not
    /// mean that a frame is bad.
    #[inline]
    pub(super) fn read<'a>(
        &mut self,
        octets: &'a [u8],
        addresses: &Addresses,
    ) -> Option<(u16, NoteView<'a>)> {
        self.follow(addresses);
        let path = usize::from(frame::source_port(octets)?.0);
        let (host, frames) = self.requests.get(path)?.as_ref()?;
        Some((*host, frames.read(octets)?))
    }

    /// A frame of `host` with its key, a request, was read in full.
    pub(super) fn note(&mut self, host: u16, octets: &[u8], header: &Header) {
        if let Some(last) = self.requests.get_mut(usize::from(header.ev.0)) {
            *last = NoteFrames::like(octets, header).map(|frames| (host, frames));
        }
    }

    /// Frames of `host` have another key from now on.
    pub(super) fn forget(&mut self, host: u16) {
        for last in &mut self.requests {
            if last.as_ref().is_some_and(|(of, _)| *of == host) {
                *last = None;
            }
        }
    }

    /// No host has a key any more.
    pub(super) fn forget_all(&mut self) {
        self.requests.fill_with(|| None);
    }

    /// Writes the frame of a note under `key` from `own` to `host`; its length, or `None` where the
    /// host has no address.
    #[inline]
    pub(super) fn write(
        &mut self,
        (own, host): (HostId, u16),
        (note, key): (&Note, Key),
        addresses: &Addresses,
        out: &mut [u8],
    ) -> Option<usize> {
        self.follow(addresses);
        let last = self.answers.get(usize::from(host))?;
        if let Some((known, frames)) = last
            && *known == key
            && let Some(length) = frames.write(note, out)
        {
            return Some(length);
        }
        self.write_in_full((own, host), (note, key), addresses, out)
    }

    /// Writes the frame of a note that is unlike the last one to its host.
    fn write_in_full(
        &mut self,
        (own, host): (HostId, u16),
        (note, key): (&Note, Key),
        addresses: &Addresses,
        out: &mut [u8],
    ) -> Option<usize> {
        let addrs = addresses.addressing().pair(own, HostId(host.into()))?;
        let spec = FrameSpec { addrs, ecn: note.class.ecn(), class: note.class };
        let header = note.for_host(EntropyValue(host), key);
        let length = frame::emit(&spec, &header, &Ext::VACANT, 0, out);
        frame::finish_udp_checksum(&mut out[..length], Checksum::new());
        let alike = NoteFrames::like(&out[..length], &header).map(|frames| (key, frames));
        *self.answers.get_mut(usize::from(host))? = alike;
        Some(length)
    }

    /// Forgets all if the MAC of a host has changed.
    #[inline]
    fn follow(&mut self, addresses: &Addresses) {
        if self.changes != addresses.changes() {
            self.changes = addresses.changes();
            self.forget_all();
            self.answers.fill_with(|| None);
        }
    }
}
