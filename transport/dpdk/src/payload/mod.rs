//! The bytes of messages: where they come from, where they are put, and the parity of their blocks.

mod coding;
pub mod memory;
pub mod message_bytes;
mod spare;
pub mod store;
