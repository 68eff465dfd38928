//! Counters of a worker: packets, and turns that ended with something waiting.

use transport::counters;

counters! {
    /// Packets through one worker, for the audit of the run. Frames kept are in
    /// `PortIo::kept`.
    pub struct WorkerCounts {
        /// Frames received: `parsed + malformed + foreign + refused`.
        pub received: u64,
        /// Given to the endpoint.
        pub parsed: u64,
        /// Damaged, cut short, or no Headrace frame; by reason in the endpoint's drops.
        pub malformed: u64,
        /// Frames for another host.
        pub foreign: u64,
        /// Segments refused for want of memory for the message that they would have begun, or for
        /// parity, and openings that are dropped before their payload is read, since no question
        /// for proof may leave.
        pub refused: u64,
        /// Parity among `refused`.
        pub parity_refused: u64,
        /// Blocks acknowledged that could not be restored: their sender contradicts itself, and its
        /// message is delivered as damaged as it was sent.
        pub unrestored: u64,
        /// How often a block's parity was computed from the memory of its message, because it was
        /// not accumulated or was sent again.
        pub parity_recomputed: u64,
        /// Frames filled: `handed_over + stuck + device.refused` and those kept.
        pub filled: u64,
        /// Taken by the device.
        pub handed_over: u64,
        /// Dropped because the device took nothing for too long.
        pub stuck: u64,
        /// Segments that could not be sent because their bytes or their peer's address were
        /// missing; never without a bug.
        pub unsendable: u64,
        /// Frames among `filled` whose payload was not copied.
        pub attached: u64,
        /// Turns that ended with something that an application's ring had no room for.
        pub completions_waited: u64,
        /// Turns.
        pub polls: u64,
    }
}

counters! {
    /// Turns that ended with something waiting: where back-pressure comes from.
    pub struct Pressure {
        /// Turns that ended with completions for which an application's ring has no room.
        pub application: u64,
        /// Turns that ended with frames that the device has not taken.
        pub device: u64,
        /// Turns that ended with messages whose memory the device still reads.
        pub lingering: u64,
    }
}
