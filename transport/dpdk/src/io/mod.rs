//! Packets between a worker and its device: the trait that a worker calls, and DPDK's queue behind
//! it.

pub mod enquiry;
pub mod hand_over;
pub mod in_place;
pub mod pacer;
pub mod packet_io;
pub mod port_io;
mod ring_watch;
pub mod steering;
pub mod tap;
pub mod timed;
pub mod upkeep;
