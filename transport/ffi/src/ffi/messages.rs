//! Messages, requests and responses. Their bytes are copied before a call returns.

use std::ffi::c_void;
use std::slice;

use transport::HostId;

use super::headrace_code::HEADRACE_INVALID;
use super::{code, headrace_app, headrace_code};
use crate::app::MessageSource;

/// Posts a message of `len` bytes, which are copied. One event with `cookie` ends it, HEADRACE_SENT
/// or HEADRACE_FAILED. Its receiver gets `tag`, which has at most 46 bits.
///
/// # Safety
/// `app` is null or attached; `bytes` is null or points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_post_send(
    app: *mut headrace_app,
    connection: u32,
    bytes: *const c_void,
    len: u32,
    tag: u64,
    cookie: u64,
) -> headrace_code {
    // SAFETY: the caller's promise.
    let Some(headrace_app(app)) = (unsafe { app.as_mut() }) else { return HEADRACE_INVALID };
    // SAFETY: the caller's promise.
    let Some(bytes) = (unsafe { bytes_of(bytes, len) }) else { return HEADRACE_INVALID };
    code(app.post(connection, MessageSource::Copied(bytes), tag, cookie))
}

/// Posts a request of `len` bytes, which are copied. One event with `cookie` ends it,
/// HEADRACE_RESPONSE or HEADRACE_FAILED. A request has no time limit: while its peer goes on and
/// does not answer, it stays open until headrace_cancel.
///
/// # Safety
/// `app` is null or attached; `bytes` is null or points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_request(
    app: *mut headrace_app,
    connection: u32,
    bytes: *const c_void,
    len: u32,
    cookie: u64,
) -> headrace_code {
    // SAFETY: the caller's promise.
    let Some(headrace_app(app)) = (unsafe { app.as_mut() }) else { return HEADRACE_INVALID };
    // SAFETY: the caller's promise.
    let Some(bytes) = (unsafe { bytes_of(bytes, len) }) else { return HEADRACE_INVALID };
    code(app.request(connection, bytes, cookie))
}

/// Gives up a request with `cookie` that has no response yet. After HEADRACE_OK no event of it
/// comes, and a response that is under way is dropped. Where several requests have the cookie, one
/// of them is given up.
///
/// # Safety
/// `app` is null or attached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_cancel(app: *mut headrace_app, cookie: u64) -> headrace_code {
    // SAFETY: the caller's promise.
    let Some(headrace_app(app)) = (unsafe { app.as_mut() }) else { return HEADRACE_INVALID };
    code(app.cancel(cookie))
}

/// Answers the request `token` of `peer` with `len` bytes, which are copied. One event with
/// `cookie` ends the response, HEADRACE_SENT or HEADRACE_FAILED.
///
/// # Safety
/// `app` is null or attached; `bytes` is null or points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_respond(
    app: *mut headrace_app,
    peer: u32,
    token: u64,
    bytes: *const c_void,
    len: u32,
    cookie: u64,
) -> headrace_code {
    // SAFETY: the caller's promise.
    let Some(headrace_app(app)) = (unsafe { app.as_mut() }) else { return HEADRACE_INVALID };
    // SAFETY: the caller's promise.
    let Some(bytes) = (unsafe { bytes_of(bytes, len) }) else { return HEADRACE_INVALID };
    code(app.respond(HostId(peer), token, bytes, cookie))
}

/// # Safety
/// `bytes` is null or points to `len` bytes that nothing changes during the call.
unsafe fn bytes_of<'a>(bytes: *const c_void, len: u32) -> Option<&'a [u8]> {
    if bytes.is_null() || len == 0 {
        return None;
    }
    // SAFETY: not null, and the caller's promise.
    Some(unsafe { slice::from_raw_parts(bytes.cast(), usize::try_from(len).ok()?) })
}
