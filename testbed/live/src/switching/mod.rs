//! Emulated switches over mbufs: what the soft switch of `vdev` and a border switch share.

mod mbuf_frames;
mod mbuf_slab;

pub(crate) use mbuf_frames::{
    HEADERS_MAX, MbufFrames, describe, described, edit, head_of, ranked, sized,
};
pub(crate) use mbuf_slab::MbufSlab;
