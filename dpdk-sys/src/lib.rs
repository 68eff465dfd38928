//! The FFI floor: bindings to the system's libdpdk (22.11 and newer) and the burst-level C shim.
//!
//! Source: the installed DPDK headers, read by bindgen at build time through `shim.h`; functions
//! called `rdpdk_*` are the shim's. The mirror of `rte_mbuf` below is written by hand, because
//! newer releases wrap the same fields at the same offsets in anonymous unions; the asserts compare
//! every offset with the C compiler's. Lengths are bytes.
//!
//! What it does not do: nothing here is safe, counted or owned. That is `transport-dpdk`'s part,
//! and no other crate names this one.
#![allow(unsafe_code)]

use core::ffi::c_void;
use core::mem::{offset_of, size_of};
use core::sync::atomic::AtomicU16;

#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unused_qualifications,
    clippy::all,
    clippy::cast_possible_truncation,
    clippy::multiple_unsafe_ops_per_block,
    clippy::undocumented_unsafe_blocks,
    reason = "generated from the headers of whichever release is installed"
)]
mod bindings {
    use super::rte_mbuf;

    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;

/// One packet buffer header: the stable fields of `struct rte_mbuf`, 128 bytes in two cache lines.
///
/// `refcnt` is atomic because drivers change it concurrently. The second cache line starts at
/// `next`; it is touched on transmit and for chains only.
#[repr(C, align(64))]
#[allow(non_camel_case_types, reason = "DPDK's name")]
pub struct rte_mbuf {
    /// Start of the data buffer, headroom included.
    pub buf_addr: *mut c_void,
    /// The address as the device sees it.
    pub buf_iova: u64,
    /// Bytes from `buf_addr` to the first byte of data.
    pub data_off: u16,
    /// References to this segment, at least 1 while it is out of its pool.
    pub refcnt: AtomicU16,
    /// Segments in the chain; valid in the first one.
    pub nb_segs: u16,
    /// Port it was received on, `u16::MAX` when on none.
    pub port: u16,
    /// `RDPDK_MBUF_F_*` and dynamic flags.
    pub ol_flags: u64,
    /// What the device parsed; 0 is unknown.
    pub packet_type: u32,
    /// Bytes of data in the whole chain; valid in the first segment.
    pub pkt_len: u32,
    /// Bytes of data in this segment.
    pub data_len: u16,
    /// VLAN tag, when the flags say so.
    pub vlan_tci: u16,
    /// RSS hash, when the flags say so; the low half of a union of 8 bytes.
    pub hash_rss: u32,
    /// The high half of that union.
    pub hash_high: u32,
    /// Outer VLAN tag, when the flags say so.
    pub vlan_tci_outer: u16,
    /// Bytes of the data buffer, headroom included.
    pub buf_len: u16,
    /// The pool it returns to.
    pub pool: *mut rte_mempool,
    /// Next segment of the chain, or null.
    pub next: *mut rte_mbuf,
    /// Header lengths for offloads, packed: l2 in bits 0..7, l3 in 7..16, l4 in 16..24.
    pub tx_offload: u64,
    /// The count of mbufs that share the external buffer, when the flags name one.
    pub shinfo: *mut rte_mbuf_ext_shared_info,
    /// Bytes of private data between header and buffer.
    pub priv_size: u16,
    /// IEEE 1588 flags.
    pub timesync: u16,
    /// Space handed out by `rte_mbuf_dynfield_register`.
    pub dynfield1: [u32; 9],
}

macro_rules! same_offset {
    ($($field:ident = $offset:ident),* $(,)?) => {
        $(const _: () = assert!(offset_of!(rte_mbuf, $field) == $offset as usize);)*
    };
}

const _: () = assert!(size_of::<rte_mbuf>() == 128);
const _: () = assert!(RDPDK_MBUF_SIZE == 128);
same_offset! {
    buf_addr = RDPDK_OFF_BUF_ADDR,
    data_off = RDPDK_OFF_DATA_OFF,
    refcnt = RDPDK_OFF_REFCNT,
    nb_segs = RDPDK_OFF_NB_SEGS,
    port = RDPDK_OFF_PORT,
    ol_flags = RDPDK_OFF_OL_FLAGS,
    packet_type = RDPDK_OFF_PACKET_TYPE,
    pkt_len = RDPDK_OFF_PKT_LEN,
    data_len = RDPDK_OFF_DATA_LEN,
    vlan_tci = RDPDK_OFF_VLAN_TCI,
    hash_rss = RDPDK_OFF_HASH,
    buf_len = RDPDK_OFF_BUF_LEN,
    pool = RDPDK_OFF_POOL,
    next = RDPDK_OFF_NEXT,
    tx_offload = RDPDK_OFF_TX_OFFLOAD,
    shinfo = RDPDK_OFF_SHINFO,
    priv_size = RDPDK_OFF_PRIV_SIZE,
    dynfield1 = RDPDK_OFF_DYNFIELD1,
}
