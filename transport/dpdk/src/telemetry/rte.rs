//! The boards under `/headrace/` of DPDK's own telemetry.
//!
//! Source: DPDK Programmer's Guide, "Telemetry Library". A command gets no pointer of the caller's
//! and stays registered while the process lives. So one static of the process holds the boards that
//! commands show; when these are gone, the answers are empty. Commands run on DPDK's telemetry
//! thread. A dictionary holds 256 entries, an array 512.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use dpdk_sys as sys;

use super::{Board, COUNTERS, HISTOGRAMS, HistogramName, Telemetry};
use crate::eal::{Eal, EalError, Errno};

/// The boards that DPDK's telemetry shows.
static SHOWN: Mutex<Weak<Mutex<Vec<Arc<Board>>>>> = Mutex::new(Weak::new());

type Answer = unsafe extern "C" fn(*const c_char, *const c_char, *mut sys::rte_tel_data) -> c_int;

/// Command, answer, help.
const COMMANDS: [(&CStr, Answer, &CStr); 5] = [
    (c"/headrace/list", list, c"Returns the commands of Headrace. No parameters"),
    (c"/headrace/workers", workers, c"Returns the numbers of the workers. No parameters"),
    (c"/headrace/worker", worker, c"Returns a worker's counters. Parameters: worker"),
    (c"/headrace/histograms", histograms, c"Returns the names of histograms. No parameters"),
    (c"/headrace/histogram", histogram, c"Returns a histogram. Parameters: worker,name"),
];

impl Telemetry {
    /// Shows these boards under `/headrace/`, instead of those shown before.
    ///
    /// # Errors
    /// [`EalError::Telemetry`] when DPDK refuses the commands.
    pub fn show(&self, _eal: &Eal) -> Result<(), EalError> {
        static REGISTERED: OnceLock<c_int> = OnceLock::new();
        *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&self.0);
        match *REGISTERED.get_or_init(register) {
            0 => Ok(()),
            error => Err(EalError::Telemetry(Errno(error.abs()))),
        }
    }
}

fn register() -> c_int {
    for (command, answer, help) in COMMANDS {
        // SAFETY: EAL has started (the caller has a handle); both strings are static, and the
        // function lives as long as the process.
        let ret = unsafe {
            sys::rte_telemetry_register_cmd(command.as_ptr(), Some(answer), help.as_ptr())
        };
        if ret != 0 {
            return ret;
        }
    }
    0
}

fn shown() -> Option<Telemetry> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner).upgrade().map(Telemetry)
}

/// An answer under construction; DPDK copies the values.
struct Out(*mut sys::rte_tel_data);

impl Out {
    fn texts<'a>(&self, texts: impl Iterator<Item = &'a CStr>) -> c_int {
        // SAFETY: DPDK hands the callback a place that is valid until it returns.
        unsafe { sys::rdpdk_tel_start_texts(self.0) };
        for text in texts {
            // SAFETY: as above; the string is NUL-terminated and copied.
            unsafe { sys::rte_tel_data_add_array_string(self.0, text.as_ptr()) };
        }
        0
    }

    fn numbers(&self, numbers: impl Iterator<Item = u64>) -> c_int {
        // SAFETY: DPDK hands the callback a place that is valid until it returns.
        unsafe { sys::rdpdk_tel_start_u64s(self.0) };
        for number in numbers {
            // SAFETY: as above.
            unsafe { sys::rdpdk_tel_push_u64(self.0, number) };
        }
        0
    }

    fn dictionary(&self, entries: impl Iterator<Item = (String, u64)>) -> c_int {
        // SAFETY: DPDK hands the callback a place that is valid until it returns.
        unsafe { sys::rte_tel_data_start_dict(self.0) };
        for (name, value) in entries {
            let Ok(name) = CString::new(name) else { continue };
            // SAFETY: as above; the string is NUL-terminated and copied.
            unsafe { sys::rdpdk_tel_add_u64(self.0, name.as_ptr(), value) };
        }
        0
    }
}

/// The parameters, as text; empty when there are none.
fn text<'a>(parameters: *const c_char) -> &'a str {
    if parameters.is_null() {
        return "";
    }
    // SAFETY: not null, and DPDK hands the callback a NUL-terminated string that outlives it.
    let parameters = unsafe { CStr::from_ptr(parameters) };
    parameters.to_str().unwrap_or("")
}

/// The worker that the first parameter names, and the other parameters.
fn named(parameters: &str) -> Option<(Arc<Board>, &str)> {
    let (worker, rest) = parameters.split_once(',').unwrap_or((parameters, ""));
    Some((shown()?.worker(worker.trim().parse().ok()?)?, rest.trim()))
}

unsafe extern "C" fn list(
    _: *const c_char,
    _: *const c_char,
    out: *mut sys::rte_tel_data,
) -> c_int {
    Out(out).texts(COMMANDS.iter().map(|(command, ..)| *command))
}

unsafe extern "C" fn workers(
    _: *const c_char,
    _: *const c_char,
    out: *mut sys::rte_tel_data,
) -> c_int {
    let workers = shown().map(|telemetry| telemetry.workers()).unwrap_or_default();
    Out(out).numbers(workers.iter().map(|board| u64::from(board.worker())))
}

/// The host and all counters fit a dictionary.
const _: () = assert!(COUNTERS.len() < 256);

unsafe extern "C" fn worker(
    _: *const c_char,
    parameters: *const c_char,
    out: *mut sys::rte_tel_data,
) -> c_int {
    let Some((board, _)) = named(text(parameters)) else { return -libc::EINVAL };
    let host = ("host".to_owned(), u64::from(board.host().0));
    let counters = COUNTERS.iter().zip(board.counters());
    let counters = counters.map(|(counter, value)| {
        let name = format!("{}_{}", counter.group.name(), counter.name);
        (name, value)
    });
    Out(out).dictionary(std::iter::once(host).chain(counters))
}

unsafe extern "C" fn histograms(
    _: *const c_char,
    _: *const c_char,
    out: *mut sys::rte_tel_data,
) -> c_int {
    let names = HISTOGRAMS.map(|histogram| CString::new(histogram.name()).unwrap_or_default());
    Out(out).texts(names.iter().map(CString::as_c_str))
}

unsafe extern "C" fn histogram(
    _: *const c_char,
    parameters: *const c_char,
    out: *mut sys::rte_tel_data,
) -> c_int {
    let Some((board, name)) = named(text(parameters)) else { return -libc::EINVAL };
    let Some(name) = HistogramName::by_name(name) else { return -libc::EINVAL };
    let picture = board.histogram(name).picture();
    let unit = if name.is_time() { "_ns" } else { "" };
    let mut entries = vec![
        ("count".to_owned(), picture.count()),
        (format!("sum{unit}"), picture.sum),
        (format!("max{unit}"), picture.max),
    ];
    for (quantile, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
        entries.push((format!("{quantile}{unit}"), picture.quantile(share)));
    }
    Out(out).dictionary(entries.into_iter())
}
