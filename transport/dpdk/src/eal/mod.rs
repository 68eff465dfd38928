//! The EAL: DPDK's process-wide environment, started once and ended cleanly.
//!
//! Source: DPDK Programmer's Guide, "Environment Abstraction Layer". One EAL per process life: DPDK
//! cannot start again after its end. An [`Eal`] is a counted handle; pools, rings, ports and
//! registered threads hold one, and when the last goes, `rte_eal_cleanup` runs. So nothing outlives
//! the memory it points into.
//!
//! EAL starts on a thread of its own that then ends: DPDK pins the thread that starts it, and the
//! caller's threads must not inherit that. Workers are std threads registered as lcores by
//! [`Eal::register_thread`]; `rte_eal_remote_launch` is not used. Logs go to stderr. There is no
//! multi-process support, and no argument parsing: the caller's own EAL arguments pass through.
#![allow(unsafe_code)]

mod arguments;
pub(crate) mod cards;
mod error;
pub(crate) mod interrupts;
pub mod memory;
pub mod netns;
pub mod quiet;
mod system;

use std::ffi::{CStr, CString, c_int, c_void};
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle};

use dpdk_sys as sys;

use crate::eal::cards::Cards;
use crate::eal::memory::{Memory, MemoryFacts};

use arguments::{MEMORY_ARGS, PREFIX, arguments, decides};

pub use arguments::{EalOptions, LogLevel};
pub use error::{EalError, Errno};
pub(crate) use error::{c_string, last_errno};
pub use system::{dpdk_version, tsc};
pub(crate) use system::{
    enter_network, is_set_to_receive_all, monotonic_raw_ns, packet_rings, receive_all,
    send_waiting, unshare_network,
};

/// A handle to the running EAL; clones share it, the last one dropped ends it.
#[derive(Clone, Debug)]
pub struct Eal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    memory: Memory,
    runtime_dir: Option<PathBuf>,
    /// Threads that hold an lcore at the moment.
    registered: AtomicUsize,
    /// See [`Eal::keep_memory`].
    keep_memory: AtomicBool,
    /// Device control is not thread-safe in DPDK.
    control: Mutex<()>,
    cards: Cards,
}

static STARTED: OnceLock<Result<Weak<Inner>, EalError>> = OnceLock::new();
static NEXT_NAME: AtomicU32 = AtomicU32::new(0);

impl Eal {
    /// Starts EAL, or returns the running one (whose options stay as they were). Takes 0.2 s.
    ///
    /// # Errors
    /// [`EalError`]; a failed start stays failed for the life of the process.
    pub fn start(options: &EalOptions) -> Result<Self, EalError> {
        let mut fresh = None;
        let state = STARTED.get_or_init(|| {
            let inner = Arc::new(Inner::start(options)?);
            fresh = Some(Arc::clone(&inner));
            Ok(Arc::downgrade(&inner))
        });
        match (fresh, state) {
            (Some(inner), _) => Ok(Self(inner)),
            (None, Ok(running)) => running.upgrade().map(Self).ok_or(EalError::Over),
            (None, Err(failed)) => Err(failed.clone()),
        }
    }

    /// The memory mode in use.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.0.memory
    }

    /// DPDK's runtime directory of this process; removed at the end.
    #[must_use]
    pub fn runtime_dir(&self) -> Option<&Path> {
        self.0.runtime_dir.as_deref()
    }

    /// Whether devices address memory by process addresses, so that any memory can be attached.
    #[must_use]
    pub fn iova_is_va(&self) -> bool {
        // SAFETY: EAL runs while `self` lives; the call only reads its configuration.
        let mode = unsafe { sys::rte_eal_iova_mode() };
        mode == sys::RTE_IOVA_VA
    }

    /// Makes the calling thread an lcore, which gives it pool caches (4 times faster single
    /// allocs).
    ///
    /// # Errors
    /// [`EalError::Register`] when 128 threads are registered already.
    pub fn register_thread(&self) -> Result<RegisteredThread, EalError> {
        if let Some(lcore) = lcore_id() {
            return Err(EalError::AlreadyRegistered(lcore));
        }
        // SAFETY: EAL has started, and this thread is not an lcore yet.
        let ret = unsafe { sys::rte_thread_register() };
        if ret != 0 {
            return Err(EalError::Register(last_errno()));
        }
        self.0.registered.fetch_add(1, Ordering::AcqRel);
        Ok(RegisteredThread { eal: self.clone(), not_send: PhantomData })
    }

    /// Pins the calling thread to `core` (an OS core number).
    ///
    /// # Errors
    /// [`EalError::Pin`] when this process may not run there.
    pub fn pin(&self, core: usize) -> Result<(), EalError> {
        let pinned = core_affinity::set_for_current(core_affinity::CoreId { id: core });
        if pinned { Ok(()) } else { Err(EalError::Pin(core)) }
    }

    /// Starts a thread that is pinned to `core` (an OS core number) when one is given, registered,
    /// and then runs `work`.
    ///
    /// # Errors
    /// [`EalError::Spawn`] here; [`EalError::Pin`] and [`EalError::Register`] from joining.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        core: Option<usize>,
        work: impl FnOnce(&RegisteredThread) -> T + Send + 'static,
    ) -> Result<JoinHandle<Result<T, EalError>>, EalError> {
        let eal = self.clone();
        let body = move || {
            // Pinned first: registration records the affinity.
            if let Some(core) = core {
                eal.pin(core)?;
            }
            let thread = eal.register_thread()?;
            Ok(work(&thread))
        };
        let builder = thread::Builder::new().name(name.to_owned());
        builder
            .spawn(body)
            .map_err(|error| EalError::Spawn { name: name.to_owned(), kind: error.kind() })
    }

    /// Adds the virtual device `name`, whose prefix chooses the driver, e.g. `net_null7`.
    ///
    /// # Errors
    /// [`EalError::Hotplug`] when there is no such driver or it refuses `arguments`.
    pub(crate) fn add_vdev(&self, name: &str, arguments: &str) -> Result<(), EalError> {
        let c_name = c_string(name)?;
        let c_arguments = c_string(arguments)?;
        let _control = self.control();
        // SAFETY: three NUL-terminated strings that live across the call; `control` is held.
        let ret = unsafe {
            sys::rte_eal_hotplug_add(VDEV.as_ptr(), c_name.as_ptr(), c_arguments.as_ptr())
        };
        match ret {
            0 => Ok(()),
            _ => Err(EalError::Hotplug {
                device: name.to_owned(),
                arguments: arguments.to_owned(),
                errno: Errno(ret.abs()),
            }),
        }
    }

    /// Removes a virtual device; the caller holds `control` and has closed its port.
    pub(crate) fn remove_vdev(&self, name: &CStr, _control: &MutexGuard<'_, ()>) {
        // SAFETY: two NUL-terminated strings that live across the call; `control` is held.
        let ret = unsafe { sys::rte_eal_hotplug_remove(VDEV.as_ptr(), name.as_ptr()) };
        if ret != 0 {
            tracing::warn!(device = ?name, error = %Errno(ret.abs()), "device not removed");
        }
    }

    /// Removes a virtual device that has no port.
    pub(crate) fn remove_vdev_by_name(&self, name: &str) {
        if let Ok(name) = c_string(name) {
            self.remove_vdev(&name, &self.control());
        }
    }

    /// Waits until DPDK's interrupt thread has ended the work that it had when this was called, at
    /// most a second. Drivers change device state on that thread.
    pub(crate) fn settle_interrupts(&self, _control: &MutexGuard<'_, ()>) {
        settle_interrupts();
    }

    /// Leaves DPDK's memory mapped when EAL ends, for the kernel to free with the process: a driver
    /// left something in it that the interrupt thread, which cannot be stopped, may still read.
    pub(crate) fn keep_memory(&self) {
        self.0.keep_memory.store(true, Ordering::Release);
    }

    /// Serialises device control.
    pub(crate) fn control(&self) -> MutexGuard<'_, ()> {
        self.0.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cards that read memory of applications.
    pub(crate) fn cards(&self) -> &Cards {
        &self.0.cards
    }

    /// Whether a thread other than the caller is an lcore, and so may be inside a pool's cache.
    pub(crate) fn others_registered(&self) -> bool {
        let own = usize::from(lcore_id().is_some());
        self.0.registered.load(Ordering::Acquire) > own
    }
}

/// Alarms that have run; only its change matters.
static SETTLED: AtomicU32 = AtomicU32::new(0);

/// Called with `control` held or at the end, so one at a time.
fn settle_interrupts() {
    let before = SETTLED.load(Ordering::Acquire);
    let mut naps = if set_alarm(settled) { 1000 } else { 0 };
    while SETTLED.load(Ordering::Acquire) == before && naps > 0 {
        thread::sleep(core::time::Duration::from_millis(1));
        naps -= 1;
    }
}

/// Has DPDK's interrupt thread run `callback` after its present work; false when it will not.
pub(crate) fn call_on_interrupt_thread(
    callback: extern "C" fn(*mut c_void),
    _control: &MutexGuard<'_, ()>,
) -> bool {
    set_alarm(callback)
}

fn set_alarm(callback: extern "C" fn(*mut c_void)) -> bool {
    // SAFETY: the callback uses no argument and lives for ever; it runs on the interrupt thread,
    // which does one thing after the other.
    unsafe { sys::rte_eal_alarm_set(1, Some(callback), std::ptr::null_mut()) == 0 }
}

extern "C" fn settled(_argument: *mut c_void) {
    SETTLED.fetch_add(1, Ordering::AcqRel);
}

const VDEV: &CStr = c"vdev";

impl Inner {
    fn start(options: &EalOptions) -> Result<Self, EalError> {
        let memory = if decides(&options.extra_args, &MEMORY_ARGS) {
            Memory::FromArguments
        } else {
            MemoryFacts::read().choose(options.memory, options.memory_mb)?
        };
        let core = core_affinity::get_core_ids().and_then(|ids| ids.first().map(|core| core.id));
        let arguments = arguments(options, memory, core.unwrap_or(0), std::process::id());
        let starter =
            thread::Builder::new().name("eal-start".into()).spawn(move || init(&arguments));
        let name = || "eal-start".to_owned();
        let starter =
            starter.map_err(|error| EalError::Spawn { name: name(), kind: error.kind() })?;
        let runtime_dir = starter
            .join()
            .map_err(|_| EalError::Spawn { name: name(), kind: io::ErrorKind::Other })??;
        if let Some(directory) = &runtime_dir {
            leave_nothing(directory);
        }
        Ok(Self {
            memory,
            runtime_dir,
            registered: AtomicUsize::new(0),
            keep_memory: AtomicBool::new(false),
            control: Mutex::new(()),
            cards: Cards::default(),
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(directory) = &self.runtime_dir {
            remove_runtime_dir(directory);
        }
        if *self.keep_memory.get_mut() {
            return;
        }
        // The end unmaps memory while the interrupt thread still runs; what closing the last
        // devices gave that thread to do must be done before.
        settle_interrupts();
        // SAFETY: the last handle is going, so no pool, ring, port or registered thread is left.
        let ret = unsafe { sys::rte_eal_cleanup() };
        if ret != 0 {
            tracing::warn!(error = %Errno(ret.abs()), "DPDK did not end cleanly");
        }
    }
}

/// DPDK leaves its directory behind; without shared files there are at most sockets in it, which
/// would go at the process's exit.
fn remove_runtime_dir(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with("dpdk_telemetry") {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    let _ = std::fs::remove_dir(directory);
}

/// Proof that this thread is an lcore; dropping it ends that. Not `Send`.
#[derive(Debug)]
pub struct RegisteredThread {
    eal: Eal,
    not_send: PhantomData<*const ()>,
}

impl RegisteredThread {
    /// The lcore id, 0 ..= 127.
    #[must_use]
    pub fn lcore(&self) -> u32 {
        lcore_id().unwrap_or(u32::MAX)
    }

    /// The EAL that the thread is registered with.
    #[must_use]
    pub fn eal(&self) -> &Eal {
        &self.eal
    }
}

impl Drop for RegisteredThread {
    fn drop(&mut self) {
        // SAFETY: this guard is not `Send`, so it is the thread that registered which unregisters.
        unsafe { sys::rte_thread_unregister() };
        self.eal.0.registered.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A name that is unique in this process, for pools, rings and devices: `hr` and a number.
pub(crate) fn unique_name() -> String {
    format!("hr{}", NEXT_NAME.fetch_add(1, Ordering::Relaxed))
}

/// The calling thread's lcore id, when it is registered.
fn lcore_id() -> Option<u32> {
    // SAFETY: reads a thread-local integer.
    let id = unsafe { sys::rdpdk_lcore_id() };
    (id < sys::RDPDK_MAX_LCORE).then_some(id)
}

/// Removes the runtime directories of this process and of killed ones. DPDK makes them and, without
/// shared files, puts nothing there. A directory that holds something stays.
fn leave_nothing(directory: &Path) {
    let _ = std::fs::remove_dir(directory);
    let Some(parent) = directory.parent() else { return };
    for entry in std::fs::read_dir(parent).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

/// Runs on the starting thread. Returns DPDK's runtime directory.
fn init(arguments: &[String]) -> Result<Option<PathBuf>, EalError> {
    let strings: Vec<CString> = arguments.iter().map(|a| c_string(a)).collect::<Result<_, _>>()?;
    let count = c_int::try_from(strings.len()).unwrap_or(c_int::MAX);
    // Kept for ever: DPDK keeps pointers into its arguments and permutes the array.
    let pointers: Vec<_> = strings.into_iter().map(CString::into_raw).collect();
    let pointers: &'static mut [_] = pointers.leak();
    // SAFETY: no argument; before rte_eal_init it sets a global that nothing else uses yet.
    let logs = unsafe { sys::rdpdk_log_to_stderr() };
    if logs != 0 {
        tracing::warn!(error = %Errno(logs.abs()), "DPDK's log stays on standard output");
    }
    // SAFETY: `count` writable pointers to NUL-terminated strings, all leaked; called once.
    let ret = unsafe { sys::rte_eal_init(count, pointers.as_mut_ptr()) };
    if ret < 0 {
        return Err(EalError::Init { errno: last_errno(), arguments: arguments.join(" ") });
    }
    // SAFETY: EAL has started; returns a pointer to a static buffer.
    let directory = unsafe { sys::rte_eal_get_runtime_dir() };
    if directory.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, NUL-terminated, and nothing writes it after the start.
    let directory = unsafe { CStr::from_ptr(directory) };
    Ok(Some(PathBuf::from(directory.to_string_lossy().into_owned())))
}

/// The address by which devices reach `address`, when any process memory can be reached.
pub(crate) fn iova_of(eal: &Eal, address: *const c_void) -> Option<u64> {
    eal.iova_is_va().then_some(address as u64)
}

#[cfg(test)]
impl Eal {
    /// The EAL of all unit tests of a process: it starts once. Devices address memory by process
    /// addresses, with hugepages, too, so that any memory can be attached.
    pub(crate) fn shared_by_tests() -> Self {
        static SHARED: OnceLock<Eal> = OnceLock::new();
        let extra_args = vec!["--iova-mode=va".to_owned()];
        let options = EalOptions { extra_args, ..EalOptions::default() };
        SHARED.get_or_init(|| Self::start(&options).unwrap()).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unregistered_threads_have_no_lcore() {
        assert_eq!(thread::spawn(lcore_id).join().unwrap(), None);
    }
}
