//! Emulated switches over mbufs: what the soft switch of `vdev` and a border switch share.

mod learnt;
mod mbuf_frames;
mod mbuf_queue;
mod mbuf_slab;

pub(crate) use learnt::LearntAddresses;
pub(crate) use mbuf_frames::{MbufFrames, describe, described, edit, ranked, sized, with_head};
pub(crate) use mbuf_queue::MbufQueue;
pub(crate) use mbuf_slab::MbufSlab;
