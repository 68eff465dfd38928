//! The clock that a poll reads, and the parts of a poll that a clock may measure.

use transport::Instant;

/// Network time. Read once a poll.
pub trait Clock {
    /// Now; a worker does not let it run backwards.
    fn now(&mut self) -> Instant;
    /// Part `stage` of a poll ends here. For clocks that measure where a worker's time goes; it
    /// costs nothing with all others.
    #[inline]
    fn mark(&mut self, _stage: Stage) {}
}

/// The parts of a worker's poll, in the order of their first mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Requests from the application and completions to it.
    Ring,
    /// The device: receiving, sending, and freeing received frames.
    Device,
    /// Headers: parsing received ones and writing those of frames to send.
    Header,
    /// The endpoint: flows, messages, loss, congestion control, load balancing.
    Core,
    /// Payload: copied, summed, attached or placed.
    Payload,
}

impl Stage {
    /// All stages.
    pub const ALL: [Self; 5] = [Self::Ring, Self::Device, Self::Header, Self::Core, Self::Payload];

    /// The word of reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Device => "device",
            Self::Header => "header",
            Self::Core => "core",
            Self::Payload => "payload",
        }
    }
}
