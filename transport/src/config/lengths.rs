//! How long packets are on the wire, as a run accounts them.

use core::num::NonZeroU16;

use super::Config;
use crate::ec::EcKind;
use crate::units::Bytes;
use crate::wire::{Extent, ack, data, sim};

impl Config {
    /// Wire bytes of every segment beside its payload: its header and the headers around that,
    /// without extensions that only some segments have.
    #[must_use]
    pub fn segment_overhead(&self) -> u16 {
        let ext = self.ext_of_all();
        let headers = self.flow_overhead() + data::LEN + self.sched.data_overhead() + ext;
        self.accounted.data_overhead.unwrap_or(headers)
    }

    /// Wire bytes of extensions that a segment of a flow with `extent` has beside those of all.
    pub(crate) fn ext_beside(&self, extent: Extent) -> u16 {
        self.extensions(extent.len().saturating_sub(self.ext_of_all()))
    }

    /// Wire bytes of extensions of `octets` that only some segments have: none where the sizes of
    /// segments are accounted.
    #[inline]
    #[must_use]
    pub fn extensions(&self, octets: u16) -> u16 {
        if self.accounted.data_overhead.is_some() { 0 } else { octets }
    }

    /// Wire bytes of a full segment without extensions that only some have: what controllers call
    /// the MTU.
    #[must_use]
    pub fn mtu(&self) -> Bytes {
        Bytes(u64::from(self.payload_max + self.segment_overhead()))
    }

    /// Wire bytes of the longest segment: a full one with every extension.
    #[must_use]
    pub fn packet_max(&self) -> Bytes {
        let code = if self.ec == EcKind::Uncoded { 0 } else { data::CODE_LEN };
        let some = self.extensions(data::OPEN_LEN + data::TAG_LEN + code + self.ext_of_some());
        self.mtu() + Bytes(some.into())
    }

    /// Segments of a train at most: its wire bytes are a number of 16 bits, and
    /// [`crate::Coding::Train`] has 8 bits for how many segments it has.
    pub(crate) fn train_max(&self) -> NonZeroU16 {
        let segments = u64::from(u16::MAX) / self.packet_max().0.max(1);
        let segments = u8::try_from(segments).unwrap_or(u8::MAX);
        NonZeroU16::new(segments.into()).unwrap_or(NonZeroU16::MIN)
    }

    /// Wire bytes of an acknowledgement, the longest where they have extensions.
    #[must_use]
    pub fn ack_len(&self) -> Bytes {
        let headers = self.flow_overhead() + ack::LEN + self.ext_of_answers();
        Bytes(self.accounted.control.unwrap_or(headers).into())
    }

    /// Wire bytes of a probe.
    #[must_use]
    pub fn probe_len(&self) -> Bytes {
        Bytes(self.accounted.control.unwrap_or(self.frame_overhead + sim::LEN).into())
    }
}
