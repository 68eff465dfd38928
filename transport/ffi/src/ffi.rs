//! The functions of `headrace.h`. Pointers are checked here and nowhere else.
//!
//! Names and layouts are C's. A function that can fail returns a `headrace_code`. After
//! `HEADRACE_ENVIRONMENT`, `headrace_error_detail` has the reason in words. Start, stop and the
//! opening of a device block, and no other function does. No function unwinds into C: the code
//! behind them does not panic.
#![allow(unsafe_code)]
#![allow(non_camel_case_types, reason = "names of C")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::ptr;

use transport::sched::Label;
use transport::{Duration, HostId, Rate};
use transport_dpdk::{DeviceName, Failure, SharedKeys};

use crate::app::{App, Refusal};
use crate::stack::{Stack, StackSetup};

pub mod attach;
pub mod events;
pub mod messages;
pub mod region;

/// The result of a function, or the reason of a failure. All but `HEADRACE_OK` are negative.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum headrace_code {
    /// Done, or accepted.
    HEADRACE_OK = 0,
    /// A ring or a table is full: call headrace_poll, then try again.
    HEADRACE_AGAIN = -1,
    /// An argument has a value that is not allowed: a null pointer, a length of 0, a tag of more
    /// than 46 bits.
    HEADRACE_INVALID = -2,
    /// DPDK, memory or a device is not available; headrace_error_detail says which, and why.
    HEADRACE_ENVIRONMENT = -3,
    /// The stack has stopped.
    HEADRACE_GONE = -4,
    /// The application itself has opened as many connections as the configuration allows.
    HEADRACE_TOO_MANY = -5,
    /// No such connection is open.
    HEADRACE_NO_CONNECTION = -6,
    /// The peer acknowledged nothing through all retries.
    HEADRACE_PEER_SILENT = -7,
    /// An earlier message of the connection failed: close it and connect again.
    HEADRACE_CONNECTION_FAILED = -8,
    /// The peer has no address, or is this host itself.
    HEADRACE_NO_SUCH_HOST = -9,
    /// The worker refused the request as malformed: a bug of this library.
    HEADRACE_INTERNAL = -10,
    /// The peer has forgotten the connection. It may have delivered the message before that. The
    /// connection goes on.
    HEADRACE_PEER_FORGOT = -11,
    /// The peer had no room for the connection or message through all retries.
    HEADRACE_PEER_FULL = -12,
    /// Connections that were closed still take all places of this host, until their peers forget
    /// them: connect again later.
    HEADRACE_TABLE_FULL = -13,
    /// No request with this cookie waits for its response: it has ended already, or there was none.
    HEADRACE_NO_REQUEST = -14,
}

use headrace_code::{
    HEADRACE_AGAIN, HEADRACE_CONNECTION_FAILED, HEADRACE_ENVIRONMENT, HEADRACE_GONE,
    HEADRACE_INTERNAL, HEADRACE_INVALID, HEADRACE_NO_CONNECTION, HEADRACE_NO_REQUEST,
    HEADRACE_NO_SUCH_HOST, HEADRACE_OK, HEADRACE_PEER_FORGOT, HEADRACE_PEER_FULL,
    HEADRACE_PEER_SILENT, HEADRACE_TABLE_FULL, HEADRACE_TOO_MANY,
};

/// The settings of a stack. headrace_config_init fills in defaults, which may be changed then.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct headrace_config {
    /// The size of this structure in bytes; set by headrace_config_init.
    pub size: u32,
    /// The largest payload of a segment, 64 to 8960 bytes.
    pub payload_max: u32,
    /// The rate of the hosts' links, bit/s.
    pub line_rate_bps: u64,
    /// The round trip of the empty network, nanoseconds.
    pub base_rtt_ns: u64,
    /// The shortest silence after which a segment counts as lost, nanoseconds.
    pub rto_min_ns: u64,
    /// The most connections of an application.
    pub connections_max: u32,
    /// The most messages of an application that are under way at a time, in each direction.
    pub messages_max: u32,
    /// The most bytes of messages that an application has received and not released, above 0.
    pub memory_max: u64,
    /// The most requests that wait between an application and the stack, and the most events; at
    /// least 2.
    pub ring: u32,
    /// The memory that DPDK takes, in units of 2^20 bytes.
    pub dpdk_mb: u32,
    /// Whether that memory is in hugepages: 1, it is; 0, it is not; -1, it is where the machine has
    /// hugepages.
    pub hugepages: i32,
    /// The names of the cards that headrace_attach_device is to open, with spaces between; null for
    /// none. DPDK probes cards when it starts, so headrace_start alone reads this text.
    pub cards: *const c_char,
    /// The keys that seal the packets of every application, as `headrace --security` takes them:
    /// psk:FILE, or psk-auth:FILE, which leaves payloads readable. Null: packets are not sealed.
    /// headrace_start reads this text; the stack looks every second whether the file has changed.
    pub security: *const c_char,
}

/// DPDK and the thread that serves the applications of this process.
pub struct headrace_stack(Stack);

/// One application. One thread at a time may call functions with it.
pub struct headrace_app(App);

thread_local! {
    static DETAIL: RefCell<CString> = RefCell::default();
}

fn environment(detail: &str) -> headrace_code {
    let text = CString::new(detail.replace('\0', " ")).unwrap_or_default();
    DETAIL.set(text);
    HEADRACE_ENVIRONMENT
}

/// The text of `code`. For a number that is no code, the text says so.
#[unsafe(no_mangle)]
pub extern "C" fn headrace_strerror(code: i32) -> *const c_char {
    let all = [
        (HEADRACE_OK, c"done"),
        (HEADRACE_AGAIN, c"a ring or a table is full: call headrace_poll, then try again"),
        (HEADRACE_INVALID, c"an argument has a value that is not allowed"),
        (HEADRACE_ENVIRONMENT, c"DPDK, memory or a device is not available"),
        (HEADRACE_GONE, c"the stack has stopped"),
        (HEADRACE_TOO_MANY, c"all connections are taken: close one, or raise connections_max"),
        (HEADRACE_NO_CONNECTION, c"no such connection is open"),
        (HEADRACE_PEER_SILENT, c"the peer acknowledged nothing through all retries"),
        (HEADRACE_CONNECTION_FAILED, c"the connection has failed: close it and connect again"),
        (HEADRACE_NO_SUCH_HOST, c"the peer has no address, or is this host itself"),
        (HEADRACE_INTERNAL, c"a request was malformed: a bug of Headrace"),
        (HEADRACE_PEER_FULL, c"the peer had no room for the connection or message"),
        (HEADRACE_PEER_FORGOT, c"the peer has forgotten the connection, and may have the message"),
        (HEADRACE_TABLE_FULL, c"closed connections still take all places: connect again later"),
        (HEADRACE_NO_REQUEST, c"no request with this cookie waits for its response"),
    ];
    let text = all.into_iter().find(|(known, _)| *known as i32 == code);
    text.map_or(c"no code of Headrace", |(_, text)| text).as_ptr()
}

/// The reason of the last HEADRACE_ENVIRONMENT in this thread. The text is valid until the next.
#[unsafe(no_mangle)]
pub extern "C" fn headrace_error_detail() -> *const c_char {
    DETAIL.with_borrow(|detail| detail.as_ptr())
}

/// Fills in a configuration for two hosts on one machine.
///
/// # Safety
/// `config` is null or points to a place for a configuration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_config_init(config: *mut headrace_config) {
    // SAFETY: the caller's promise; plain integers need no drop.
    if let Some(config) = unsafe { config.as_mut() } {
        *config = headrace_config {
            size: SIZE,
            payload_max: 4096,
            line_rate_bps: 100_000_000_000,
            // The operating system interrupts polling threads, so that a round trip between two
            // of them takes this long now and then, however fast the network is.
            base_rtt_ns: 200_000,
            rto_min_ns: 100_000_000,
            connections_max: 64,
            messages_max: 256,
            memory_max: 256 << 20,
            ring: 256,
            dpdk_mb: 256,
            hugepages: -1,
            cards: ptr::null(),
            security: ptr::null(),
        };
    }
}

const SIZE: u32 = 80;
const _: () = assert!(size_of::<headrace_config>() == SIZE as usize);

/// The text, `None` for null, or the code of a text that is not UTF-8.
///
/// # Safety
/// `text` is null or ends with a NUL.
unsafe fn text_of<'a>(text: *const c_char) -> Result<Option<&'a str>, headrace_code> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    let wrong = || environment(&format!("`{}` is not UTF-8", text.to_string_lossy()));
    text.to_str().map(Some).map_err(|_| wrong())
}

/// The device that `name` names, or the code of what is wrong with the name.
fn device_name(name: &str) -> Result<DeviceName, headrace_code> {
    let parsed = name.parse::<DeviceName>().and_then(DeviceName::resolved);
    parsed.map_err(|error| environment(&error.to_string()))
}

/// The keys that `text` names, `None` without a text, or the code of why they cannot be used.
fn keys_of(text: Option<&str>) -> Result<Option<SharedKeys>, headrace_code> {
    let keys = text.map(SharedKeys::read).transpose();
    // The texts of these errors begin with the flag `--security`, which C does not have.
    keys.map_err(|error| environment(error.to_string().trim_start_matches('-')))
}

fn setup(
    config: &headrace_config,
    cards: Vec<DeviceName>,
    keys: Option<SharedKeys>,
) -> Option<StackSetup> {
    let within = |value: u32, most: u32| (1..=most).contains(&value).then_some(value);
    let span = |ns: u64| ns.checked_mul(1000).map(Duration::from_ps);
    Some(StackSetup {
        cards,
        line_rate: Rate::from_bps(config.line_rate_bps),
        base_rtt: span(config.base_rtt_ns)?,
        rto_min: span(config.rto_min_ns)?,
        payload_max: u16::try_from(config.payload_max).ok().filter(|most| *most <= 8960)?,
        connections_max: within(config.connections_max, 1 << 16)?,
        messages_max: within(config.messages_max, 1 << 16)?,
        memory_max: Some(config.memory_max).filter(|most| *most > 0)?,
        // A response takes two requests.
        ring: within(config.ring, 1 << 16).filter(|ring| *ring >= 2)?,
        dpdk_mb: within(config.dpdk_mb, 1 << 20)?,
        hugepages: match config.hugepages {
            -1 => None,
            0 => Some(false),
            1 => Some(true),
            _ => return None,
        },
        keys,
    })
}

/// Starts DPDK and the stack's thread, which takes half a second. A process can do so once.
///
/// # Safety
/// `config` is null or points to a configuration, whose texts are null or end with a NUL. `stack`
/// is null or points to a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_start(
    config: *const headrace_config,
    stack: *mut *mut headrace_stack,
) -> headrace_code {
    // SAFETY: the caller's promise.
    let Some(config) = (unsafe { config.as_ref() }) else { return HEADRACE_INVALID };
    // SAFETY: the caller's promise.
    let Some(stack) = (unsafe { stack.as_mut() }) else { return HEADRACE_INVALID };
    // SAFETY: the caller's promise.
    match unsafe { read_config(config) }
        .and_then(|setup| Stack::start(setup).map_err(|detail| environment(&detail)))
    {
        Ok(started) => {
            *stack = Box::into_raw(Box::new(headrace_stack(started)));
            HEADRACE_OK
        }
        Err(code) => code,
    }
}

/// # Safety
/// The texts of `config` are null or end with a NUL, if it has the size of today's.
unsafe fn read_config(config: &headrace_config) -> Result<StackSetup, headrace_code> {
    if config.size != SIZE {
        return Err(HEADRACE_INVALID);
    }
    // SAFETY: the caller's promise.
    let cards = unsafe { text_of(config.cards) }?.unwrap_or_default();
    let cards = cards.split_whitespace().map(device_name).collect::<Result<_, _>>()?;
    // SAFETY: as for `cards`.
    let keys = keys_of(unsafe { text_of(config.security) }?)?;
    setup(config, cards, keys).ok_or(HEADRACE_INVALID)
}

/// Stops the stack. Applications that are still attached get HEADRACE_GONE from then on. Messages
/// that they have not released stay valid.
///
/// # Safety
/// `stack` is null or comes from headrace_start, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_stop(stack: *mut headrace_stack) {
    if !stack.is_null() {
        // SAFETY: made by Box::into_raw in headrace_start, and the caller gives it back once.
        drop(unsafe { Box::from_raw(stack) });
    }
}

/// Detaches an application. Messages that it has posted are still sent.
///
/// # Safety
/// `app` is null or comes from this library, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_detach(app: *mut headrace_app) {
    if !app.is_null() {
        // SAFETY: made by Box::into_raw when it was attached, and given back once.
        drop(unsafe { Box::from_raw(app) });
    }
}

/// The number of the application's host; UINT32_MAX for null.
///
/// # Safety
/// `app` is null or attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_host(app: *const headrace_app) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { app.as_ref() }.map_or(u32::MAX, |headrace_app(app)| app.host().0)
}

/// Opens a connection to host `peer` and writes its number to `connection`. The number may be used
/// at once.
///
/// # Safety
/// `app` is null or attached; `connection` is null or points to a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_connect(
    app: *mut headrace_app,
    peer: u32,
    connection: *mut u32,
) -> headrace_code {
    // SAFETY: the caller's promise.
    let Some(headrace_app(app)) = (unsafe { app.as_mut() }) else { return HEADRACE_INVALID };
    // SAFETY: the caller's promise.
    let Some(connection) = (unsafe { connection.as_mut() }) else { return HEADRACE_INVALID };
    code(app.connect(HostId(peer), Label::NONE).map(|number| *connection = number))
}

/// Opens a connection as `headrace_connect` does, with a label for the scheduler. Connections of
/// one `collective` belong together; 0 is no collective. A lower `prio` is more urgent; 2000000 is
/// that of a connection without a priority.
///
/// # Safety
/// As for `headrace_connect`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_connect_labelled(
    app: *mut headrace_app,
    peer: u32,
    collective: u32,
    prio: u32,
    connection: *mut u32,
) -> headrace_code {
    // SAFETY: the caller's promise.
    let Some(headrace_app(app)) = (unsafe { app.as_mut() }) else { return HEADRACE_INVALID };
    // SAFETY: the caller's promise.
    let Some(connection) = (unsafe { connection.as_mut() }) else { return HEADRACE_INVALID };
    let label = Label { collective, prio };
    code(app.connect(HostId(peer), label).map(|number| *connection = number))
}

/// Closes a connection once all messages that were posted on it have ended.
///
/// # Safety
/// `app` is null or attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_close(app: *mut headrace_app, connection: u32) -> headrace_code {
    // SAFETY: the caller's promise.
    let Some(headrace_app(app)) = (unsafe { app.as_mut() }) else { return HEADRACE_INVALID };
    code(app.close(connection))
}

fn code(result: Result<(), Refusal>) -> headrace_code {
    match result {
        Ok(()) => HEADRACE_OK,
        Err(Refusal::Again) => HEADRACE_AGAIN,
        Err(Refusal::Invalid) => HEADRACE_INVALID,
        Err(Refusal::NoConnection) => HEADRACE_NO_CONNECTION,
        Err(Refusal::TooMany) => HEADRACE_TOO_MANY,
        Err(Refusal::NoRequest) => HEADRACE_NO_REQUEST,
        Err(Refusal::Gone) => HEADRACE_GONE,
    }
}

impl From<Failure> for headrace_code {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::PeerSilent => HEADRACE_PEER_SILENT,
            Failure::PeerForgot => HEADRACE_PEER_FORGOT,
            Failure::PeerFull => HEADRACE_PEER_FULL,
            Failure::FlowTableFull => HEADRACE_TABLE_FULL,
            Failure::FlowFailed => HEADRACE_CONNECTION_FAILED,
            Failure::NoSuchConnection => HEADRACE_NO_CONNECTION,
            Failure::SelfSend | Failure::NoSuchHost => HEADRACE_NO_SUCH_HOST,
            Failure::ConnectionTaken | Failure::ShortSource | Failure::Malformed => {
                HEADRACE_INTERNAL
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::messages::{
        headrace_cancel, headrace_post_send, headrace_request, headrace_respond,
    };
    use super::*;
    use crate::ffi::events::{headrace_poll, headrace_release};
    use std::collections::BTreeSet;
    use std::ffi::CStr;
    use std::mem::MaybeUninit;

    fn text(code: i32) -> String {
        // SAFETY: a static string.
        unsafe { CStr::from_ptr(headrace_strerror(code)) }.to_string_lossy().into_owned()
    }

    #[test]
    fn every_code_has_a_text_of_its_own_and_nothing_else_has() {
        let texts: BTreeSet<String> = (-14..=0).map(text).collect();
        assert_eq!(texts.len(), 15);
        for unknown in [1, -15, i32::MIN] {
            assert_eq!(text(unknown), "no code of Headrace");
        }
    }

    #[test]
    fn texts_that_are_not_utf_8_are_refused_and_not_taken_for_none() {
        let refused = |change: fn(&mut headrace_config)| {
            let mut config = MaybeUninit::<headrace_config>::zeroed();
            // SAFETY: a place for a configuration.
            unsafe { headrace_config_init(config.as_mut_ptr()) };
            // SAFETY: it is filled.
            let mut config = unsafe { config.assume_init() };
            change(&mut config);
            // SAFETY: a configuration whose texts end with a NUL.
            let code = unsafe { read_config(&config) }.map(drop).unwrap_err();
            // SAFETY: a text of this thread.
            let detail = unsafe { text_of(headrace_error_detail()) }.unwrap();
            assert!(detail.is_some_and(|text| text.contains("is not UTF-8")), "{detail:?}");
            code
        };
        let security = refused(|config| config.security = c"psk:/etc/\xe4.keys".as_ptr());
        let cards = refused(|config| config.cards = c"\xff".as_ptr());
        assert_eq!([security, cards], [HEADRACE_ENVIRONMENT; 2]);
    }

    #[test]
    fn null_is_refused_everywhere_and_harmless() {
        let null = ptr::null_mut::<headrace_app>();
        let (none, nowhere) = (ptr::null(), ptr::null_mut());
        let codes = [
            // SAFETY: null is allowed, by the function's own words.
            unsafe { headrace_start(ptr::null(), ptr::null_mut()) },
            // SAFETY: as above.
            unsafe { headrace_connect(null, 0, nowhere) },
            // SAFETY: null is allowed.
            unsafe { headrace_connect_labelled(null, 0, 1, 2, nowhere) },
            // SAFETY: as above.
            unsafe { headrace_close(null, 0) },
            // SAFETY: as above.
            unsafe { headrace_post_send(null, 0, none, 1, 0, 0) },
            // SAFETY: as above.
            unsafe { headrace_request(null, 0, none, 1, 0) },
            // SAFETY: as above.
            unsafe { headrace_cancel(null, 0) },
            // SAFETY: as above.
            unsafe { headrace_respond(null, 0, 1, none, 1, 0) },
        ];
        assert_eq!(codes, [HEADRACE_INVALID; 8]);
        // SAFETY: as above.
        assert_eq!(unsafe { headrace_poll(null, ptr::null_mut(), 1) }, HEADRACE_INVALID as i32);
        // SAFETY: as above.
        unsafe { headrace_stop(ptr::null_mut()) };
        // SAFETY: as above.
        unsafe { headrace_detach(null) };
        // SAFETY: as above.
        unsafe { headrace_release(ptr::null_mut()) };
    }

    #[test]
    fn a_configuration_that_cannot_be_is_refused_before_anything_starts() {
        let mut good = headrace_config {
            size: 0,
            payload_max: 0,
            line_rate_bps: 0,
            base_rtt_ns: 0,
            rto_min_ns: 0,
            connections_max: 0,
            messages_max: 0,
            memory_max: 0,
            ring: 0,
            dpdk_mb: 0,
            hugepages: 0,
            cards: ptr::null(),
            security: ptr::null(),
        };
        // SAFETY: a place for a configuration.
        unsafe { headrace_config_init(&raw mut good) };
        // SAFETY: texts are null.
        let is_legal = |config: &headrace_config| unsafe { read_config(config) }.is_ok();
        assert!(is_legal(&good));
        let changes: [fn(&mut headrace_config); 8] = [
            |config| config.size = 8,
            |config| config.payload_max = 70_000,
            |config| config.connections_max = 0,
            |config| config.messages_max = u32::MAX,
            |config| config.ring = 0,
            |config| config.memory_max = 0,
            |config| config.hugepages = 2,
            |config| config.base_rtt_ns = u64::MAX,
        ];
        for change in changes {
            let mut bad = good;
            change(&mut bad);
            assert!(!is_legal(&bad), "{bad:?}");
        }
    }
}
