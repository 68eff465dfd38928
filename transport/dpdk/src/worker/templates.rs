//! The frame templates of the peers that a worker talks to.
//!
//! A small direct-mapped cache by host: making a template costs what writing a frame without one
//! costs, so peers that share a place lose nothing but the gain. Sized once.

use transport::HostId;
use transport::wire::addressing::Addressing;
use transport::wire::frame::{Ecn, FrameSpec, TrafficClass};
use transport::wire::template::FrameTemplate;

/// By host modulo [`PLACES`].
#[derive(Debug)]
pub(crate) struct Templates(Box<[Option<Entry>]>);

/// What is written to one peer.
#[derive(Debug)]
struct Entry {
    peer: HostId,
    data: FrameTemplate,
    control: FrameTemplate,
}

const PLACES: usize = 256;

impl Templates {
    pub(crate) fn new() -> Self {
        Self((0..PLACES).map(|_| None).collect())
    }

    /// The template of frames from `host` to `peer`; `None` when one of them has no address.
    #[inline]
    pub(crate) fn of(
        &mut self,
        addressing: &Addressing,
        (host, peer): (HostId, HostId),
        is_control: bool,
    ) -> Option<&FrameTemplate> {
        let slot = &mut self.0[peer.0 as usize % PLACES];
        if slot.as_ref().is_none_or(|entry| entry.peer != peer) {
            *slot = Some(Entry::new(addressing, host, peer)?);
        }
        slot.as_ref().map(|entry| if is_control { &entry.control } else { &entry.data })
    }
}

impl Entry {
    fn new(addressing: &Addressing, host: HostId, peer: HostId) -> Option<Self> {
        let addrs = addressing.pair(host, peer)?;
        let of = |ecn, class| FrameTemplate::new(&FrameSpec { addrs, ecn, class });
        Some(Self {
            peer,
            data: of(Ecn::Ect0, TrafficClass::Data),
            control: of(Ecn::NotEct, TrafficClass::Control),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::wire::addressing::IpVersion;

    #[test]
    fn peers_that_share_a_place_get_their_own_template_each_time() {
        let addressing = Addressing::emulated(IpVersion::V6);
        let mut templates = Templates::new();
        let far = HostId(1 + u32::try_from(PLACES).unwrap());
        for peer in [HostId(1), far, HostId(1), HostId(2)] {
            for is_control in [false, true] {
                let made = templates.of(&addressing, (HostId(0), peer), is_control).unwrap();
                let entry = Entry::new(&addressing, HostId(0), peer).unwrap();
                let fresh = if is_control { entry.control } else { entry.data };
                assert_eq!(format!("{made:?}"), format!("{fresh:?}"));
            }
        }
    }

    #[test]
    fn a_host_without_an_address_has_no_template() {
        let addressing = Addressing::emulated(IpVersion::V4);
        let nobody = HostId(Addressing::EMULATED_V4_HOSTS);
        assert!(Templates::new().of(&addressing, (HostId(0), nobody), true).is_none());
    }
}
