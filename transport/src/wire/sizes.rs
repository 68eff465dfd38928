//! The bytes that packets count as on the wire: those of our own headers, or those of a paper.
//!
//! A figure of a paper depends on its packet sizes: DCsim probes with 64 bytes, a control cell of
//! Zeropod has 40. A simulation may count such sizes instead of the lengths of our own headers, so
//! that a change of the headers moves no figure. Windows, schedulers, queues and links all count
//! the same bytes. Real frames have their own lengths. Emulated switches between hosts that send in
//! slots are the exception (`vdev` with Zeropod): their links take the time of the settings' sizes.

use super::{Body, Data, Extent, Header};
use crate::units::FlowId;

/// The sizes that a run accounts. Bytes, without preamble, FCS and gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireSizes {
    /// Ethernet, IP and UDP headers around a Headrace header.
    pub frame_overhead: u16,
    /// Bytes added to a header of a flow: the frame's headers, less the key where a run accounts
    /// none.
    pub flow_overhead: u16,
    /// Sizes that replace those of the headers; none where real frames take their own time.
    pub accounted: AccountedSizes,
}

/// Sizes that are accounted instead of those of the headers; `None` accounts the headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccountedSizes {
    /// Everything around the payload of a DATA or PARITY packet, 1..=1024.
    pub data_overhead: Option<u16>,
    /// A whole packet without payload, of every kind, and a trimmed DATA packet, 1..=255.
    pub control: Option<u16>,
    /// Payload that a DATA packet counts as at least on links, 0..=8960: shorter ones are padded.
    /// Only with `data_overhead`; windows count what is sent.
    pub data_min: u16,
}

impl WireSizes {
    /// Bytes that a packet with `hdr` and `payload_len` bytes of payload counts as.
    #[inline]
    #[must_use]
    pub fn of(&self, hdr: &Header, payload_len: u16) -> u16 {
        match &hdr.body {
            Body::Data(data) => self.of_data(data, hdr.ext, payload_len),
            Body::Note(_) if hdr.dst_flow == FlowId::UNKNOWN => {
                self.accounted.control.unwrap_or(self.frame_overhead + hdr.emit_len())
            }
            _ => self.accounted.control.unwrap_or(self.flow_overhead + hdr.emit_len()),
        }
    }

    /// Bytes that a DATA or PARITY packet with `payload_len` bytes of payload counts as, which
    /// extensions of the extent `ext` follow.
    #[inline]
    #[must_use]
    pub fn of_data(&self, data: &Data, ext: Extent, payload_len: u16) -> u16 {
        match self.accounted.data_overhead {
            Some(overhead) => overhead + payload_len.max(self.accounted.data_min),
            None => self.flow_overhead + data.emit_len() + ext.len() + payload_len,
        }
    }

    /// Bytes of a packet with `hdr` after a switch has trimmed it.
    #[inline]
    #[must_use]
    pub fn trimmed(&self, hdr: &Header) -> u16 {
        self.accounted.control.unwrap_or_else(|| self.of(hdr, 0))
    }
}

impl AccountedSizes {
    /// The sizes of the headers.
    pub const HEADERS: Self = Self { data_overhead: None, control: None, data_min: 0 };

    /// Whether a packet may count with another size than that of its headers and payload.
    #[must_use]
    pub fn differ(self) -> bool {
        self != Self::HEADERS
    }

    /// Whether both sizes are in their ranges.
    #[must_use]
    pub fn are_legal(self) -> bool {
        let fits = |size: Option<u16>, most| size.is_none_or(|size| (1..=most).contains(&size));
        fits(self.data_overhead, 1024) && fits(self.control, 255) && self.data_min <= 8960
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Credit, EntropyValue, Psn};
    use crate::wire::{Allowance, KEY_LEN, Note, Open};
    use core::num::NonZeroU32;

    fn header(body: Body) -> Header {
        Header::new(EntropyValue(1), FlowId::UNKNOWN, body)
    }

    fn data(opens: bool) -> Header {
        let open = Open { src_flow: FlowId::new(1, 1), msg_len: NonZeroU32::MIN };
        header(Body::Data(Data { psn: Psn(1), open: opens.then_some(open), ..Data::VACANT }))
    }

    const OWN: WireSizes =
        WireSizes { frame_overhead: 42, flow_overhead: 42, accounted: AccountedSizes::HEADERS };

    #[test]
    fn a_run_may_leave_keys_out_and_a_packet_of_no_flow_has_none() {
        let keyless = WireSizes { flow_overhead: 42 - KEY_LEN, ..OWN };
        let note =
            Header::new(EntropyValue(1), FlowId::UNKNOWN, Body::Note(Note::new(1, &[]).unwrap()));
        let flows = Header { dst_flow: FlowId::new(1, 1), ..note };
        assert_eq!((OWN.of(&note, 0), keyless.of(&note, 0)), (52, 52));
        assert_eq!((OWN.of(&flows, 0), keyless.of(&flows, 0)), (60, 52));
        assert_eq!(keyless.of(&data(true), 9) + KEY_LEN, OWN.of(&data(true), 9));
    }

    #[test]
    fn headers_count_as_they_are_unless_sizes_replace_them() {
        assert_eq!(OWN.of(&data(false), 1000), 42 + data(false).emit_len() + 1000);
        assert!(OWN.of(&data(true), 1000) > OWN.of(&data(false), 1000));
        assert_eq!(OWN.trimmed(&data(true)), OWN.of(&data(true), 0));
    }

    #[test]
    fn accounted_sizes_do_not_depend_on_the_fields_of_a_header() {
        let accounted = AccountedSizes { data_overhead: Some(40), control: Some(64), data_min: 9 };
        let paper = WireSizes { accounted, ..OWN };
        assert_eq!((paper.of(&data(false), 1), paper.of(&data(false), 9)), (49, 49));
        assert_eq!(paper.of(&data(false), 512), 552);
        assert_eq!(paper.of(&data(true), 512), 552);
        let request = Allowance { src_flow: FlowId::UNKNOWN, upto: Credit::START };
        assert_eq!(paper.of(&header(Body::Request(request)), 0), 64);
        assert_eq!(paper.trimmed(&data(true)), 64);
    }

    #[test]
    fn sizes_out_of_range_are_not_legal() {
        for (data_overhead, control, legal) in [
            (None, None, true),
            (Some(1), Some(255), true),
            (Some(1024), None, true),
            (Some(0), None, false),
            (Some(1025), None, false),
            (None, Some(0), false),
            (None, Some(256), false),
        ] {
            let sizes = AccountedSizes { data_overhead, control, data_min: 0 };
            assert_eq!(sizes.are_legal(), legal, "{sizes:?}");
        }
    }
}
