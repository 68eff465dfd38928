//! The byte codec of Headrace's erasure code: systematic Reed-Solomon over GF(2^8). Source: \[uno\]
//! sec. 4.2 for the code, \[rse\] for the field and the matrix, \[gfni\] and \[plank\] for the
//! kernels.
//!
//! The core decides which packets a block has and which of them are enough (`transport::ec`); this
//! crate computes the bytes. Parity is the same, byte for byte, as that of the crate
//! `reed-solomon-erasure`, on every kernel, so hosts with different processors interoperate.
//!
//! - [`Codec::update`] adds one segment to the parity of its block while the segment is in the
//!   cache anyway: how a sender works.
//! - [`Codec::encode`] takes a whole block at once.
//! - [`Codec::decode`] restores the missing data of a block from any x packets of it.
//!
//! Nothing here allocates but [`Codec::new`].
//!
//! # Packets of different lengths
//!
//! A packet that is shorter than its block's parity counts as followed by zeros. Parity is as long
//! as the longest packet of its block.

mod codec;
mod field;
mod interpolation;
mod kernel;
mod pairs;
mod portable;
mod products;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use codec::{Codec, NotDecodable};
pub use kernel::Kernel;
