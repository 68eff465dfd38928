//! Packet buffers: pools, mbufs, bursts and rings of them, and memory that is attached to them.

pub mod burst;
pub mod error;
pub mod ext_buf;
pub mod mbuf;
pub(crate) mod pages;
pub mod pool;
pub mod region;
pub mod ring;
pub mod stamp_field;
