//! Which extensions follow the headers of a flow's packets: what its controller asks for, and what
//! the settings say.

use super::Settings;
use crate::cc::CcKind;
use crate::rc::RcKind;
use crate::units::Bytes;
use crate::wire::half::Half;
use crate::wire::int::Int;
use crate::wire::{Extent, ack, advice, frame, int, note, report};

/// What follows the headers of a flow's segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extended {
    /// Which extensions, and their length.
    pub extent: Extent,
    /// The half that the extensions name.
    pub half: Option<Half>,
}

impl Settings {
    /// What follows the headers of the segments of a flow whose controller is `cc`.
    #[must_use]
    pub fn extended(&self, cc: CcKind) -> Extended {
        let half = cc.half(&self.cc_params).map(RcKind::half);
        let has_int = self.int_room > 0 && (self.int_always || cc.reads_int(&self.cc_params));
        let mut extent = Extent::NONE;
        if half.is_some() {
            extent = extent.with_half();
        }
        if has_int {
            extent = extent.with_int(&Int::with_room(self.int_room));
        }
        Extended { extent, half }
    }

    /// Whether flows whose controller is `cc` read what border switches write, and follow it.
    #[must_use]
    pub fn follows_borders(&self, cc: CcKind) -> bool {
        cc.follows_borders() && cc.reads_int(&self.cc_params)
    }

    /// Whether uncoded flows with the controller `cc` probe silences.
    pub(crate) fn probes_silences(&self, cc: CcKind) -> bool {
        self.loss.silence_probe && self.follows_borders(cc)
    }

    /// Whether packets of some flows have extensions.
    #[must_use]
    pub fn has_extensions(&self) -> bool {
        self.of_flows().any(Extent::is_some)
    }

    /// Whether segments of some flows have room for telemetry.
    #[must_use]
    pub fn has_int(&self) -> bool {
        self.of_flows().any(Extent::has_int)
    }

    /// The least wire bytes of an acknowledgement of a segment that has `hops` hops of telemetry,
    /// in a flow whose controller is `cc`. Its advice may be missing.
    #[must_use]
    pub fn ack_least(&self, cc: CcKind, hops: u32) -> Bytes {
        let hops = u8::try_from(hops).unwrap_or(u8::MAX).min(self.int_room);
        let has_int = hops > 0 && self.extended(cc).extent.has_int();
        let headers =
            self.flow_overhead() + ack::LEN + if has_int { int::len_with(hops) } else { 0 };
        Bytes(self.accounted.control.unwrap_or(headers).into())
    }

    /// Wire bytes of the longest packet without data, as sizes are accounted: of an answer, a note,
    /// or a trimmed segment whose overhead a setting names.
    #[must_use]
    pub fn control_max(&self) -> Bytes {
        let note = self.frame_overhead + self.key_bytes + note::LEN + note::SAID_MAX;
        let answer = self.flow_overhead() + ack::LEN.max(report::LEN);
        let headers = note.max(answer) + self.ext_of_answers();
        let accounted = &self.accounted;
        let trimmed = accounted.data_overhead.map_or(0, |overhead| overhead + accounted.data_min);
        Bytes(accounted.control.unwrap_or(headers.max(trimmed)).into())
    }

    /// Octets that hold the headers of any segment.
    #[must_use]
    pub fn headers_max(&self) -> u16 {
        frame::PLAIN_HEADERS_MAX + self.ext_of_all() + self.ext_of_some()
    }

    /// The extensions of flows of each controller that flows may have.
    fn of_flows(&self) -> impl Iterator<Item = Extent> + '_ {
        let kinds = [Some(self.cc), self.far.cc].into_iter().flatten();
        kinds.map(|cc| self.extended(cc).extent)
    }

    /// Octets of extensions that every segment has at least.
    pub(super) fn ext_of_all(&self) -> u16 {
        self.of_flows().map(Extent::len).min().unwrap_or(0)
    }

    /// Most octets of extensions that some segments have beyond those of all.
    pub(super) fn ext_of_some(&self) -> u16 {
        self.of_flows().map(Extent::len).max().unwrap_or(0) - self.ext_of_all()
    }

    /// Most octets of extensions that an acknowledgement has.
    pub(super) fn ext_of_answers(&self) -> u16 {
        let answer = |extent: Extent| {
            let int = if extent.has_int() { int::len_with(self.int_room) } else { 0 };
            int + if extent.has_half() { advice::LEN } else { 0 }
        };
        self.of_flows().map(answer).max().unwrap_or(0)
    }
}
