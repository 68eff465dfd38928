//! The frame templates of the peers that a worker sends to.
//!
//! This is a small direct-mapped cache by host and class. Making a template costs as much as
//! writing a frame without one, so peers that share a slot cost as much as without a cache. The
//! size of the cache is fixed. A template is made when the first frame of its class leaves for its
//! peer.

use transport::HostId;
use transport::wire::addressing::Addressing;
use transport::wire::class::TrafficClass;
use transport::wire::frame::FrameSpec;
use transport::wire::template::FrameTemplate;

/// [`SLOTS`] for each class, by host modulo [`SLOTS`].
#[derive(Debug)]
pub(crate) struct Templates(Box<[Option<Entry>]>);

/// Frames of one class to one peer.
#[derive(Debug)]
struct Entry {
    peer: HostId,
    template: FrameTemplate,
}

const SLOTS: usize = 256;

impl Templates {
    pub(crate) fn new() -> Self {
        Self((0..SLOTS * TrafficClass::ALL.len()).map(|_| None).collect())
    }

    /// The template of frames of `class` from `host` to `peer`; `None` when one of them has no
    /// address.
    #[inline]
    pub(crate) fn of(
        &mut self,
        addressing: &Addressing,
        (host, peer): (HostId, HostId),
        class: TrafficClass,
    ) -> Option<&FrameTemplate> {
        let slot = &mut self.0[class as usize * SLOTS + peer.0 as usize % SLOTS];
        if slot.as_ref().is_none_or(|entry| entry.peer != peer) {
            *slot = Some(Entry::new(addressing, (host, peer), class)?);
        }
        slot.as_ref().map(|entry| &entry.template)
    }
}

impl Entry {
    fn new(
        addressing: &Addressing,
        (host, peer): (HostId, HostId),
        class: TrafficClass,
    ) -> Option<Self> {
        let addrs = addressing.pair(host, peer)?;
        let template = FrameTemplate::new(&FrameSpec { addrs, ecn: class.ecn(), class });
        Some(Self { peer, template })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::wire::addressing::IpVersion;

    #[test]
    fn peers_that_share_a_slot_get_their_own_template_each_time() {
        let addressing = Addressing::emulated(IpVersion::V6);
        let mut templates = Templates::new();
        let far = HostId(1 + u32::try_from(SLOTS).unwrap());
        for peer in [HostId(1), far, HostId(1), HostId(2)] {
            for class in TrafficClass::ALL {
                let made = templates.of(&addressing, (HostId(0), peer), class).unwrap();
                let fresh = Entry::new(&addressing, (HostId(0), peer), class).unwrap().template;
                assert_eq!(format!("{made:?}"), format!("{fresh:?}"));
            }
        }
    }

    #[test]
    fn a_template_is_made_when_its_class_is_first_used() {
        let addressing = Addressing::emulated(IpVersion::V4);
        let mut templates = Templates::new();
        let made = |templates: &Templates| templates.0.iter().flatten().count();
        assert_eq!(made(&templates), 0);
        for count in [1, 1] {
            templates.of(&addressing, (HostId(0), HostId(1)), TrafficClass::Data).unwrap();
            assert_eq!(made(&templates), count);
        }
        templates.of(&addressing, (HostId(0), HostId(1)), TrafficClass::Control).unwrap();
        assert_eq!(made(&templates), 2);
    }

    #[test]
    fn a_host_without_an_address_has_no_template() {
        let addressing = Addressing::emulated(IpVersion::V4);
        let unknown = HostId(Addressing::EMULATED_V4_HOSTS);
        let class = TrafficClass::Control;
        assert!(Templates::new().of(&addressing, (HostId(0), unknown), class).is_none());
    }
}
