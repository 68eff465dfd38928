//! Events as C gets them, and the bytes of messages that have arrived.

use std::ptr;

use transport::{HostId, Instant};
use transport_dpdk::Received;

use super::headrace_code::{HEADRACE_GONE, HEADRACE_INVALID, HEADRACE_OK};
use super::{headrace_app, headrace_code};
use crate::app::Event;

/// The kind of an event.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum headrace_kind {
    /// A message or a response is acknowledged in full: `cookie` says which one.
    HEADRACE_SENT = 1,
    /// A message, a request or a response has failed: `cookie` says which one, `code` why.
    HEADRACE_FAILED = 2,
    /// A connection could not be opened: `connection` says which one, `code` why.
    HEADRACE_REFUSED = 3,
    /// A message has arrived; its fields are `peer`, `tag`, `data` and `len`.
    HEADRACE_MESSAGE = 4,
    /// A request has arrived; its fields are `peer`, `data`, `len`, and `token`, which
    /// headrace_respond takes.
    HEADRACE_REQUEST = 5,
    /// The response to a request of this application has arrived; its fields are `peer`, `data`,
    /// `len`, and the `cookie` of the request.
    HEADRACE_RESPONSE = 6,
    /// A message of `peer` has arrived in part, and the rest will not come.
    HEADRACE_ABORTED = 7,
}

/// The bytes of a message that has arrived; headrace_release gives them back.
pub struct headrace_message(Received);

/// One event. Its kind says which of the other fields are set.
#[repr(C)]
#[derive(Debug)]
pub struct headrace_event {
    /// The kind of event.
    pub kind: headrace_kind,
    /// The reason of a failure.
    pub code: headrace_code,
    /// The connection.
    pub connection: u32,
    /// The other host.
    pub peer: u32,
    /// The cookie that was posted.
    pub cookie: u64,
    /// The tag that the sender posted.
    pub tag: u64,
    /// The number of a request.
    pub token: u64,
    /// The time of the event, nanoseconds since the start of the stack.
    pub at_ns: u64,
    /// The bytes, which are valid until headrace_release; null where there are none.
    pub data: *const u8,
    /// The number of bytes at `data`.
    pub len: u32,
    /// The message to release; null for events without one.
    pub message: *mut headrace_message,
}

const _: () = assert!(size_of::<headrace_event>() == 72);

/// Writes at most `room` events to `events`, and returns how many. A negative result is a
/// headrace_code: HEADRACE_GONE once the stack has stopped and all events were reported. Never
/// waits.
///
/// # Safety
/// `app` is null or attached; `events` is null or points to `room` places for events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_poll(
    app: *mut headrace_app,
    events: *mut headrace_event,
    room: u32,
) -> i32 {
    // SAFETY: the caller's promise.
    let Some(headrace_app(app)) = (unsafe { app.as_mut() }) else { return HEADRACE_INVALID as i32 };
    if events.is_null() {
        return HEADRACE_INVALID as i32;
    }
    let room = usize::try_from(room.min(EVENTS_MAX)).unwrap_or(0);
    // Asked first: a stack that stops now may report its last events before the first look.
    let over = app.is_over();
    let mut written = 0;
    while written < room {
        let Some(event) = app.poll() else { break };
        // SAFETY: `written` is below `room`, so the place is one of the caller's.
        let place = unsafe { events.add(written) };
        // SAFETY: a place for an event; what was there before needs no drop.
        unsafe { place.write(headrace_event::of(event)) };
        written += 1;
    }
    if written == 0 && over && room > 0 {
        return HEADRACE_GONE as i32;
    }
    i32::try_from(written).unwrap_or(i32::MAX)
}

const EVENTS_MAX: u32 = 1 << 16;

/// Gives the bytes of a message back. Until then they count against `memory_max`.
///
/// # Safety
/// `message` is null or comes from an event, and is not used again, nor are its bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_release(message: *mut headrace_message) {
    if !message.is_null() {
        // SAFETY: made by Box::into_raw when the event was reported, and given back once.
        drop(unsafe { Box::from_raw(message) });
    }
}

impl headrace_event {
    /// An event without the fields that only some kinds have.
    fn plain(kind: headrace_kind, at: Instant) -> Self {
        Self {
            kind,
            code: HEADRACE_OK,
            connection: u32::MAX,
            peer: u32::MAX,
            cookie: 0,
            tag: 0,
            token: 0,
            at_ns: at.as_ps() / 1000,
            data: ptr::null(),
            len: 0,
            message: ptr::null_mut(),
        }
    }

    /// An event that owns the bytes of a message from `peer`.
    fn holding(kind: headrace_kind, peer: HostId, memory: Received, at: Instant) -> Self {
        let message = Box::into_raw(Box::new(headrace_message(memory)));
        // SAFETY: the box was made in the line before, and is borrowed for this call only. The
        // pointer that C gets is taken after the move into the box, and is that of the bytes' own
        // allocation.
        let bytes: &[u8] = unsafe { &(*message).0 };
        let (data, len) = (bytes.as_ptr(), bytes.len());
        Self {
            peer: peer.0,
            data,
            len: u32::try_from(len).unwrap_or(u32::MAX),
            message,
            ..Self::plain(kind, at)
        }
    }

    fn of(event: Event) -> Self {
        use headrace_kind::{
            HEADRACE_ABORTED, HEADRACE_FAILED, HEADRACE_MESSAGE, HEADRACE_REFUSED,
            HEADRACE_REQUEST, HEADRACE_RESPONSE, HEADRACE_SENT,
        };
        match event {
            Event::Sent { connection, cookie, at } => {
                Self { connection, cookie, ..Self::plain(HEADRACE_SENT, at) }
            }
            Event::Failed { connection, cookie, reason, at } => {
                let code = reason.into();
                Self { connection, cookie, code, ..Self::plain(HEADRACE_FAILED, at) }
            }
            Event::Refused { connection, reason, at } => {
                Self { connection, code: reason.into(), ..Self::plain(HEADRACE_REFUSED, at) }
            }
            Event::Message { peer, tag, memory, at } => {
                Self { tag, ..Self::holding(HEADRACE_MESSAGE, peer, memory, at) }
            }
            Event::Request { peer, token, memory, at } => {
                Self { token, ..Self::holding(HEADRACE_REQUEST, peer, memory, at) }
            }
            Event::Response { peer, cookie, memory, at } => {
                Self { cookie, ..Self::holding(HEADRACE_RESPONSE, peer, memory, at) }
            }
            Event::Aborted { peer, at } => {
                Self { peer: peer.0, ..Self::plain(HEADRACE_ABORTED, at) }
            }
        }
    }
}
