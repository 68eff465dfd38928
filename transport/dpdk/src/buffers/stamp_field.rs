//! Times that travel in mbufs, in dynamic fields.
//!
//! Source: DPDK Programmer's Guide, "Dynamic fields and flags" of the mbuf library. A field is 8
//! bytes of every mbuf, and a flag that says whether they have a value.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};

use dpdk_sys as sys;

use crate::buffers::error::MbufError;
use crate::buffers::mbuf::Mbuf;
use crate::eal::{self, Eal};

/// How DPDK registers a field and a flag that drivers use: gives the offset and the flag.
type Registration = unsafe extern "C" fn(*mut c_int, *mut u64) -> c_int;

/// A dynamic field with a time in it; a flag marks the mbufs that have a time.
/// [`TimestampField::register`] makes our own, of picoseconds of network time, which an emulated
/// device fills as a NIC would; [`TimestampField::of_devices`] is DPDK's, of ticks of the receiving
/// device's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampField {
    offset: usize,
    flag: u64,
}

impl TimestampField {
    /// Registers the field, or finds it when it is registered already.
    ///
    /// # Errors
    /// [`MbufError::Field`] when the dynamic space of mbufs is used up.
    pub fn register(_eal: &Eal) -> Result<Self, MbufError> {
        let mut field = sys::rte_mbuf_dynfield { size: 8, align: 8, ..Default::default() };
        copy_name(c"headrace_rx_timestamp_ps", &mut field.name);
        // SAFETY: EAL runs; the description is valid and copied.
        let offset = unsafe { sys::rte_mbuf_dynfield_register(&raw const field) };
        let Ok(offset) = usize::try_from(offset) else {
            return Err(MbufError::Field(eal::last_errno()));
        };
        let mut flag = sys::rte_mbuf_dynflag::default();
        copy_name(c"headrace_rx_timestamp_valid", &mut flag.name);
        // SAFETY: as above.
        let bit = unsafe { sys::rte_mbuf_dynflag_register(&raw const flag) };
        match u32::try_from(bit) {
            Ok(bit @ 0..64) => Ok(Self { offset, flag: 1 << bit }),
            _ => Err(MbufError::Field(eal::last_errno())),
        }
    }

    /// The field that drivers fill at receiving, once they are asked to
    /// (`rte_mbuf_dyn_rx_timestamp_register`).
    ///
    /// # Errors
    /// As [`TimestampField::register`].
    pub fn of_devices(_eal: &Eal) -> Result<Self, MbufError> {
        Self::known_to_drivers(sys::rte_mbuf_dyn_rx_timestamp_register)
    }

    /// The field and the flag for departures: when a frame is to leave
    /// (`rte_mbuf_dyn_tx_timestamp_register`). Drivers look for it when they start.
    ///
    /// # Errors
    /// As [`TimestampField::register`].
    pub fn of_departures(_eal: &Eal) -> Result<Self, MbufError> {
        Self::known_to_drivers(sys::rte_mbuf_dyn_tx_timestamp_register)
    }

    /// The field and the flag that `register` returns.
    fn known_to_drivers(register: Registration) -> Result<Self, MbufError> {
        let (mut offset, mut flag) = (-1, 0);
        // SAFETY: one of DPDK's two registrations, as EAL runs, with two places for the answer.
        let ret = unsafe { register(&raw mut offset, &raw mut flag) };
        match usize::try_from(offset) {
            Ok(offset) if ret == 0 => Ok(Self { offset, flag }),
            _ => Err(MbufError::Field(eal::last_errno())),
        }
    }

    /// Stamps `mbuf` with a time: picoseconds in our field, ticks in that of devices.
    #[inline]
    pub fn set(self, mbuf: &mut Mbuf, time: u64) {
        mbuf.add_flags(self.flag);
        let place = mbuf.raw().cast::<u8>().wrapping_add(self.offset).cast::<u64>();
        // SAFETY: DPDK gave these 8 aligned bytes of every mbuf to this field.
        unsafe { place.write(time) };
    }

    /// The time, in the field's unit, when `mbuf` was stamped since it was allocated.
    #[inline]
    #[must_use]
    pub fn get(self, mbuf: &Mbuf) -> Option<u64> {
        let place = mbuf.raw().cast::<u8>().wrapping_add(self.offset).cast::<u64>();
        // SAFETY: DPDK gave these 8 aligned bytes of every mbuf to this field.
        (mbuf.ol_flags() & self.flag != 0).then(|| unsafe { place.read() })
    }
}

fn copy_name(name: &CStr, out: &mut [c_char]) {
    for (to, from) in out.iter_mut().zip(name.to_bytes_with_nul()) {
        *to = from.cast_signed();
    }
}
