//! The shim functions that need no EAL, called as C would. The others are mirrored by the loopback
//! test of `transport-dpdk`, through the safe type that wraps each.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use dpdk_sys as sys;

#[test]
fn the_counter_counts_up_on_one_thread() {
    // SAFETY: reads a counter.
    let first = unsafe { sys::rdpdk_tsc() };
    std::thread::sleep(std::time::Duration::from_millis(1));
    // SAFETY: reads a counter.
    let second = unsafe { sys::rdpdk_tsc() };
    // Any counter worth using counts faster than 1 MHz.
    assert!(second - first > 1000, "{first} {second}");
}

#[test]
fn a_thread_that_is_not_registered_has_the_lcore_id_of_none() {
    // SAFETY: reads a thread-local integer.
    assert_eq!(unsafe { sys::rdpdk_lcore_id() }, u32::MAX);
}

#[test]
fn errno_is_what_the_last_failing_call_of_this_thread_set() {
    let field = sys::rte_mbuf_dynfield { size: 1 << 20, align: 3, ..Default::default() };
    // SAFETY: a valid description with impossible numbers, which is refused before EAL is needed.
    let offset = unsafe { sys::rte_mbuf_dynfield_register(&raw const field) };
    assert_eq!(offset, -1);
    // SAFETY: reads a thread-local integer.
    assert_eq!(unsafe { sys::rdpdk_errno() }, 22);
}

#[test]
fn logs_can_be_sent_to_stderr_before_the_start() {
    // SAFETY: sets a global of the log library, which no other test here uses.
    assert_eq!(unsafe { sys::rdpdk_log_to_stderr() }, 0);
}

#[test]
fn a_dictionary_takes_u64_values_under_either_name_of_the_function() {
    // SAFETY: allocates.
    let data = unsafe { sys::rte_tel_data_alloc() };
    assert!(!data.is_null());
    // SAFETY: a live object.
    assert_eq!(unsafe { sys::rte_tel_data_start_dict(data) }, 0);
    // SAFETY: a live dictionary and a NUL-terminated name, which is copied.
    let added = unsafe { sys::rdpdk_tel_add_u64(data, c"segments".as_ptr(), u64::MAX) };
    assert_eq!(added, 0);
    let long = [b'x'.cast_signed(); 200].map(|byte| byte);
    let mut long = long.to_vec();
    long.push(0);
    // SAFETY: as above; the name is longer than telemetry takes.
    assert!(unsafe { sys::rdpdk_tel_add_u64(data, long.as_ptr(), 1) } != 0);
    // SAFETY: allocated above.
    unsafe { sys::rte_tel_data_free(data) };
}

static FREED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn count_free(_address: *mut c_void, _opaque: *mut c_void) {
    FREED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn external_memory_starts_with_one_holder() {
    let mut info = sys::rte_mbuf_ext_shared_info::default();
    // SAFETY: valid memory that is not shared yet.
    unsafe { sys::rdpdk_ext_init(&raw mut info, Some(count_free), ptr::null_mut()) };
    assert_eq!(info.refcnt, 1);
    // DPDK calls back when it detaches the last mbuf, and not before.
    assert_eq!(FREED.load(Ordering::Relaxed), 0);
}
