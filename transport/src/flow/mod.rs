//! The state of one flow: segments at the sender, messages at the receiver.

pub(crate) mod ahead;
pub(crate) mod halves;
pub(crate) mod notice;
pub(crate) mod open_blocks;
pub(crate) mod pacer;
pub(crate) mod pending;
pub(crate) mod reassembly;
pub(crate) mod received;
pub(crate) mod recovery;
pub(crate) mod round_trips;
pub(crate) mod rx;
pub(crate) mod rx_buffers;
pub(crate) mod sent_packets;
pub(crate) mod tx;
