//! Memory of applications that devices read in place.

use std::ffi::c_void;
use std::sync::Arc;

use transport_dpdk::Region;

use super::headrace_code::{HEADRACE_INVALID, HEADRACE_OK};
use super::{code, environment, headrace_app, headrace_code, headrace_stack};
use crate::app::MessageSource;

/// Memory of an application that devices read in place.
pub struct headrace_region(Arc<Region>);

/// Makes a region of `len` bytes, all 0, and writes their address to `data`. Cards that were
/// attached before read it in place. The system then keeps its pages in place, and no other memory
/// is in them: make few and large regions, and send parts of them.
///
/// # Safety
/// `stack` is null or comes from headrace_start; `region` and `data` are null or point to places
/// for pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_region_alloc(
    stack: *mut headrace_stack,
    len: u64,
    region: *mut *mut headrace_region,
    data: *mut *mut c_void,
) -> headrace_code {
    // SAFETY: the caller's promise.
    let Some(headrace_stack(stack)) = (unsafe { stack.as_ref() }) else { return HEADRACE_INVALID };
    // SAFETY: the caller's promise.
    let Some(region) = (unsafe { region.as_mut() }) else { return HEADRACE_INVALID };
    // SAFETY: the caller's promise.
    let Some(data) = (unsafe { data.as_mut() }) else { return HEADRACE_INVALID };
    let len = usize::try_from(len).ok().filter(|len| (1..=REGION_MAX).contains(len));
    let Some(len) = len else { return HEADRACE_INVALID };
    match stack.region(len) {
        Ok(made) => {
            // Rust makes references to posted ranges only, so C may write all other bytes.
            *data = made.as_ptr().cast();
            *region = Box::into_raw(Box::new(headrace_region(Arc::new(made))));
            HEADRACE_OK
        }
        Err(detail) => environment(&detail),
    }
}

const REGION_MAX: usize = 1 << 40;

/// The number of uses of a region; 0 for null. A message that is under way is a use, and so is a
/// failed one of which a card still has frames. The bytes of these messages must not be changed.
///
/// # Safety
/// `region` is null or comes from headrace_region_alloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_region_uses(region: *const headrace_region) -> u64 {
    // SAFETY: the caller's promise.
    let region = unsafe { region.as_ref() };
    region.map_or(0, |headrace_region(region)| Arc::strong_count(region) as u64 - 1)
}

/// Gives up a region. Its memory is freed after its last use.
///
/// # Safety
/// `region` is null or comes from headrace_region_alloc, and neither it nor its bytes are used
/// again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_region_free(region: *mut headrace_region) {
    if !region.is_null() {
        // SAFETY: made by Box::into_raw in headrace_region_alloc, and given back once.
        drop(unsafe { Box::from_raw(region) });
    }
}

/// Posts a message of the `len` bytes of `region` from byte `first` on, which are not copied. One
/// event with `cookie` ends it, HEADRACE_SENT or HEADRACE_FAILED. The bytes must not be changed
/// before that event, nor after HEADRACE_FAILED while headrace_region_uses says that a card still
/// reads them.
///
/// # Safety
/// `app` is null or attached; `region` is null or comes from headrace_region_alloc of its stack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_post_region(
    app: *mut headrace_app,
    connection: u32,
    region: *const headrace_region,
    first: u64,
    len: u32,
    tag: u64,
    cookie: u64,
) -> headrace_code {
    // SAFETY: the caller's promise.
    let Some(headrace_app(app)) = (unsafe { app.as_mut() }) else { return HEADRACE_INVALID };
    // SAFETY: the caller's promise.
    let region = unsafe { region.as_ref() };
    let Some(headrace_region(region)) = region else { return HEADRACE_INVALID };
    code(app.post(connection, MessageSource::InRegion(region, first, len), tag, cookie))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn null_is_refused_and_harmless() {
        let (stack, app) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: null is allowed, by the function's own words.
        let alloc = unsafe { headrace_region_alloc(stack, 1, ptr::null_mut(), ptr::null_mut()) };
        // SAFETY: as above.
        let post = unsafe { headrace_post_region(app, 0, ptr::null(), 0, 1, 0, 0) };
        assert_eq!([alloc, post], [HEADRACE_INVALID; 2]);
        // SAFETY: as above.
        assert_eq!(unsafe { headrace_region_uses(ptr::null()) }, 0);
        // SAFETY: as above.
        unsafe { headrace_region_free(ptr::null_mut()) };
    }
}
