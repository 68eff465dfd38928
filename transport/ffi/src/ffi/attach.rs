//! Attaching applications: two of them whose hosts rings join, or one at a device.

use std::ffi::c_char;
use std::net::IpAddr;
use std::ptr;
use std::slice;

use transport::Duration;
use transport::wire::addressing::UDP_PORT;
use transport_dpdk::Side;
use transport_dpdk::neighbour::Mac;

use super::headrace_code::{HEADRACE_INVALID, HEADRACE_OK};
use super::{device_name, environment, headrace_app, headrace_code, headrace_stack, text_of};
use crate::app::App;
use crate::device::DeviceSetup;
use crate::stack::{Attached, Stack};

/// One host of a network.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct headrace_address {
    /// The IPv4 or IPv6 address as text. All hosts of a network have addresses of one kind.
    pub ip: *const c_char,
    /// The MAC of the host, or of the next hop to it. All 0: the network is asked for the MAC of
    /// another host, and this host has that of its device.
    pub mac: [u8; 6],
}

/// A device, and the hosts that it reaches. headrace_device_init fills in defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct headrace_device {
    /// The size of this structure in bytes; set by headrace_device_init.
    pub size: u32,
    /// The place of this host in `hosts`.
    pub own: u32,
    /// The name of the device: a PCI address that is among the configuration's `cards`
    /// (0000:3b:00.0), an interface of the kernel (eth1), or a virtual device
    /// (net_memif0,socket=name).
    pub name: *const c_char,
    /// All hosts of the network with this one among them. The number of a host is its place here.
    pub hosts: *const headrace_address,
    /// The number of hosts.
    pub count: u32,
    /// For a memif: 1, this process connects and the other one listens; 0, this one listens.
    pub connects: i32,
    /// The longest wait for the other process, the link and the MACs of other hosts together,
    /// milliseconds.
    pub wait_ms: u32,
    /// The UDP port at which all hosts receive, 1 to 65535.
    pub udp_port: u32,
}

/// Fills in the defaults of a device, which has no name and no hosts yet.
///
/// # Safety
/// `device` is null or points to a place for a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_device_init(device: *mut headrace_device) {
    // SAFETY: the caller's promise; plain integers need no drop.
    if let Some(device) = unsafe { device.as_mut() } {
        *device = headrace_device {
            size: DEVICE_SIZE,
            own: 0,
            name: ptr::null(),
            hosts: ptr::null(),
            count: 0,
            connects: 0,
            wait_ms: 5000,
            udp_port: UDP_PORT.into(),
        };
    }
}

const DEVICE_SIZE: u32 = 40;
const _: () = assert!(size_of::<headrace_device>() == DEVICE_SIZE as usize);

/// Attaches two applications, each at a host of its own. Rings join the devices of the two hosts.
///
/// # Safety
/// `stack` is null or comes from headrace_start; `first` and `second` are null or point to places
/// for pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_attach_pair(
    stack: *mut headrace_stack,
    first: *mut *mut headrace_app,
    second: *mut *mut headrace_app,
) -> headrace_code {
    // SAFETY: the caller's promise.
    let Some(headrace_stack(stack)) = (unsafe { stack.as_mut() }) else { return HEADRACE_INVALID };
    if first.is_null() || second.is_null() || ptr::eq(first, second) {
        return HEADRACE_INVALID;
    }
    match stack.attach_pair() {
        Ok([one, two]) => {
            // SAFETY: not null, and a place for a pointer by the caller's promise.
            unsafe { first.write(app_of(stack, one)) };
            // SAFETY: likewise.
            unsafe { second.write(app_of(stack, two)) };
            HEADRACE_OK
        }
        Err(detail) => environment(&detail),
    }
}

fn app_of(stack: &Stack, attached: Attached) -> *mut headrace_app {
    let (connections, messages) = stack.limits();
    Box::into_raw(Box::new(headrace_app(App::new(attached, connections, messages))))
}

/// Attaches an application at a device of its own: a card, an interface of the kernel, or one end
/// of a memif. Waits at most `wait_ms` in all: for the link, for the other process of a memif, and
/// for the MACs of other hosts that are all 0 in `hosts`. From then on this host answers requests
/// for its own MAC.
///
/// # Safety
/// `stack` is null or comes from headrace_start. `device` is null or points to a device: its name
/// and its hosts' addresses are null or end with a NUL, and `hosts` is null or points to `count`
/// hosts. `app` is null or points to a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headrace_attach_device(
    stack: *mut headrace_stack,
    device: *const headrace_device,
    app: *mut *mut headrace_app,
) -> headrace_code {
    // SAFETY: the caller's promise.
    let Some(headrace_stack(stack)) = (unsafe { stack.as_mut() }) else { return HEADRACE_INVALID };
    // SAFETY: the caller's promise.
    let Some(device) = (unsafe { device.as_ref() }) else { return HEADRACE_INVALID };
    // SAFETY: the caller's promise.
    let Some(app) = (unsafe { app.as_mut() }) else { return HEADRACE_INVALID };
    // SAFETY: the caller's promise.
    let setup = match unsafe { device_setup(device) } {
        Ok(setup) => setup,
        Err(code) => return code,
    };
    match stack.attach_device(&setup) {
        Ok(attached) => {
            *app = app_of(stack, attached);
            HEADRACE_OK
        }
        Err(detail) => environment(&detail),
    }
}

/// # Safety
/// Texts are null or end with a NUL; `hosts` is null or points to `count` hosts.
unsafe fn device_setup(device: &headrace_device) -> Result<DeviceSetup, headrace_code> {
    let count = usize::try_from(device.count.min(HOSTS_MAX)).unwrap_or(0);
    let sound = device.size == DEVICE_SIZE && device.own < device.count && !device.hosts.is_null();
    if !sound || device.count > HOSTS_MAX {
        return Err(HEADRACE_INVALID);
    }
    let udp_port = u16::try_from(device.udp_port).ok().filter(|port| *port != 0);
    let udp_port = udp_port.ok_or(HEADRACE_INVALID)?;
    // SAFETY: the caller's promise.
    let name = unsafe { text_of(device.name) }?.ok_or(HEADRACE_INVALID)?;
    // SAFETY: not null, and the caller's promise.
    let hosts = unsafe { slice::from_raw_parts(device.hosts, count) };
    let host = |host: &headrace_address| -> Result<(IpAddr, Option<Mac>), headrace_code> {
        // SAFETY: the caller's promise.
        let ip = unsafe { text_of(host.ip) }?.ok_or(HEADRACE_INVALID)?;
        let ip = ip.parse().map_err(|_| environment(&format!("`{ip}` is no IP address")))?;
        Ok((ip, (host.mac != [0; 6]).then_some(host.mac)))
    };
    Ok(DeviceSetup {
        name: device_name(name)?,
        side: if device.connects == 0 { Side::Listens } else { Side::Connects },
        patience: Duration::from_ms(device.wait_ms.into()),
        hosts: hosts.iter().map(host).collect::<Result<_, _>>()?,
        own: device.own,
        udp_port,
    })
}

const HOSTS_MAX: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_refused_and_harmless() {
        let (stack, nowhere) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: null is allowed, by the function's own words.
        let pair = unsafe { headrace_attach_pair(stack, ptr::null_mut(), ptr::null_mut()) };
        // SAFETY: as above.
        let device = unsafe { headrace_attach_device(stack, ptr::null(), nowhere) };
        assert_eq!([pair, device], [HEADRACE_INVALID; 2]);
        // SAFETY: as above.
        unsafe { headrace_device_init(ptr::null_mut()) };
    }

    /// The code, and what is behind it.
    fn refused(device: &headrace_device) -> (headrace_code, String) {
        // SAFETY: texts of C, and as many hosts as are counted.
        let code = unsafe { device_setup(device) }.unwrap_err();
        // SAFETY: a text of this thread.
        let detail = unsafe { text_of(crate::ffi::headrace_error_detail()) };
        (code, detail.unwrap().unwrap_or_default().to_owned())
    }

    #[test]
    fn a_device_that_cannot_be_is_refused_before_it_is_opened() {
        let address =
            |ip: &'static std::ffi::CStr| headrace_address { ip: ip.as_ptr(), mac: [0; 6] };
        let hosts = [address(c"10.0.0.1"), address(c"10.0.0.2")];
        let mut good = headrace_device {
            size: 0,
            own: 0,
            name: ptr::null(),
            hosts: ptr::null(),
            count: 0,
            connects: 0,
            wait_ms: 0,
            udp_port: 0,
        };
        // SAFETY: a place for a device.
        unsafe { headrace_device_init(&raw mut good) };
        (good.name, good.hosts, good.count) = (c"net_null0".as_ptr(), hosts.as_ptr(), 2);
        // SAFETY: texts of C, and two hosts.
        let setup = unsafe { device_setup(&good) }.unwrap();
        assert_eq!((setup.hosts.len(), setup.own, setup.udp_port), (2, 0, UDP_PORT));
        assert_eq!(setup.hosts[1], ("10.0.0.2".parse().unwrap(), None));
        let changes: [fn(&mut headrace_device); 6] = [
            |device| device.udp_port = 1 << 16,
            |device| device.size = 8,
            |device| device.own = 2,
            |device| device.count = u32::MAX,
            |device| device.name = ptr::null(),
            |device| device.hosts = ptr::null(),
        ];
        for change in changes {
            let mut bad = good;
            change(&mut bad);
            assert_eq!(refused(&bad).0, HEADRACE_INVALID, "{bad:?}");
        }
        good.name = c"no device".as_ptr();
        assert!(refused(&good).1.contains("names no device"));
        let words = [address(c"10.0.0.1"), address(c"ten")];
        (good.name, good.hosts) = (c"net_null0".as_ptr(), words.as_ptr());
        assert!(refused(&good).1.contains("`ten` is no IP address"));
    }
}
