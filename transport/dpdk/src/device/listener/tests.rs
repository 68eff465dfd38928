//! A listener whose driver and guests are sockets of the test.

use super::*;
use core::time::Duration;
use std::env;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process;

use rustix::net::{SocketAddrUnix, bind, connect, listen, sockopt};

/// An abstract place of this test.
fn named(name: &str) -> MemifSocket {
    let text = format!("socket=headrace-test-{}-{name}", process::id());
    MemifSocket::of(name, &text).unwrap()
}

/// A place of this test, and a socket at which the test is the driver for it.
fn place(name: &str) -> (MemifSocket, Listener, OwnedFd) {
    let place = named(name);
    let listener = Listener::at(&place, name).unwrap();
    let driver = listener.driver().opens(|_| listens(listener.driver().path()));
    (place, listener, driver)
}

/// A driver's socket that listens at a path.
pub(crate) fn listens(path: &Path) -> OwnedFd {
    let driver = packets();
    bind(&driver, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&driver, 1).unwrap();
    driver
}

/// A socket at which nothing is waited for for ever.
pub(crate) fn packets() -> OwnedFd {
    timed(seqpacket(SocketFlags::CLOEXEC).unwrap())
}

fn accepted(driver: &OwnedFd) -> OwnedFd {
    timed(accept_with(driver, SocketFlags::CLOEXEC).unwrap())
}

fn timed(socket: OwnedFd) -> OwnedFd {
    let time = Some(Duration::from_secs(10));
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, time).unwrap();
    socket
}

fn guest(place: &MemifSocket) -> OwnedFd {
    let guest = packets();
    connect(&guest, &place.address().unwrap()).unwrap();
    guest
}

fn send(socket: &OwnedFd, octets: &[u8]) -> rustix::io::Result<usize> {
    rustix::net::send(socket, octets, SendFlags::NOSIGNAL)
}

fn received(socket: &OwnedFd) -> Vec<u8> {
    let mut octets = [0; MESSAGE];
    let (got, _) = rustix::net::recv(socket, &mut octets[..], RecvFlags::empty()).unwrap();
    octets[..got].to_vec()
}

#[test]
fn a_process_that_is_gone_before_the_greeting_is_seen_to_be_gone_after_it() {
    let (place, _listener, driver) = place("gone");
    drop(guest(&place));
    let stays = guest(&place);
    let first = accepted(&driver);
    assert_eq!(send(&first, b"hello"), Ok(5), "the driver would take its end for closed");
    assert!(received(&first).is_empty(), "and this is the end, after the greeting");
    // The next one is served.
    let second = accepted(&driver);
    send(&second, b"hello").unwrap();
    assert_eq!(received(&stays), b"hello");
}

#[test]
fn messages_pass_with_their_descriptors_and_either_end_closes_both() {
    let (place, listener, driver) = place("passes");
    let guest = guest(&place);
    let host = accepted(&driver);
    send(&host, &[7; MESSAGE]).unwrap();
    assert_eq!(received(&guest), [7; MESSAGE]);
    let (mut here, there) = UnixStream::pair().unwrap();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let sent = [there.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&sent)));
    let slices = [IoSlice::new(b"take this")];
    sendmsg(&guest, &slices, &mut control, SendFlags::empty()).unwrap();
    let mut octets = [0; MESSAGE];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut octets)];
    recvmsg(&host, &mut slices, &mut control, RecvFlags::empty()).unwrap();
    let Some(RecvAncillaryMessage::ScmRights(mut got)) = control.drain().next() else {
        panic!("no descriptor came");
    };
    UnixStream::from(got.next().unwrap()).write_all(b"here").unwrap();
    let mut text = [0; 4];
    here.read_exact(&mut text).unwrap();
    assert_eq!((&octets[..9], &text), (&b"take this"[..], b"here"));
    drop(host);
    assert!(received(&guest).is_empty());
    drop(listener);
    assert!(connect(seqpacket(SocketFlags::CLOEXEC).unwrap(), &place.address().unwrap()).is_err());
}

#[test]
fn a_listener_that_ends_before_a_greeting_leaves_the_driver_a_connection_to_send_it_to() {
    let (place, listener, driver) = place("ungreeted");
    let _guest = guest(&place);
    let host = accepted(&driver);
    drop(listener);
    assert_eq!(send(&host, b"hello"), Ok(5), "the driver would take its end for closed");
}

#[test]
fn devices_share_a_socket_and_its_file_goes_with_the_last() {
    let path = env::temp_dir().join(format!("headrace-listener-{}", process::id()));
    let place = MemifSocket::of("a", &format!("socket={}", path.display())).unwrap();
    let one = Listener::at(&place, "a").unwrap();
    let two = Listener::at(&place, "b").unwrap();
    assert!(Arc::ptr_eq(&one.driver, &two.driver));
    let other = Serving::start(&place, &one.driver);
    assert!(matches!(other, Err(SocketError::InUse(_))), "as for another process");
    let owned = MemifSocket { owner: (None, Some(1)), ..place.clone() };
    assert!(matches!(Listener::at(&owned, "c"), Err(SocketError::Owner(_))));
    drop(one);
    assert!(path.exists() && Listener::at(&place, "a").is_ok());
    drop(two);
    assert!(!path.exists());
    // A file of a killed process.
    drop(listens(&path));
    assert!(path.exists());
    let again = Listener::at(&place, "a").unwrap();
    drop(guest(&place));
    drop(again);
    assert!(!path.exists());
}

#[test]
fn a_device_that_has_listened_finds_the_same_driver_and_has_no_other_place() {
    let (place, listener, driver) = place("kept");
    let path = listener.driver().path().to_owned();
    listener.is_kept_by("kept");
    drop(listener);
    let file = MemifSocket { is_file: true, ..place.clone() };
    for elsewhere in [&file, &named("other")] {
        let refused = Listener::at(elsewhere, "kept");
        assert!(matches!(refused, Err(SocketError::Kept { .. })), "{refused:?}");
    }
    let listener = Listener::at(&place, "kept").unwrap();
    assert_eq!(listener.driver().path(), path);
    let guest = guest(&place);
    send(&accepted(&driver), b"hello").unwrap();
    assert_eq!(received(&guest), b"hello");
}

#[test]
fn a_process_that_comes_before_the_driver_listens_waits_and_hinders_no_end() {
    let place = named("early");
    let listener = Listener::at(&place, "early").unwrap();
    let waiting = [guest(&place), guest(&place)];
    thread::sleep(Duration::from_millis(50));
    let ends = thread::spawn(move || drop(listener));
    for one in &waiting {
        let mut octets = [0; MESSAGE];
        let end = rustix::net::recv(one, &mut octets[..], RecvFlags::empty());
        assert!(matches!(end, Ok((0, _)) | Err(Errno::CONNRESET)), "{end:?}");
    }
    ends.join().unwrap();
    let listener = Listener::at(&place, "early").unwrap();
    let early = [guest(&place), guest(&place)];
    thread::sleep(Duration::from_millis(50));
    let driver = listener.driver().opens(|_| listens(listener.driver().path()));
    for one in &early {
        let host = accepted(&driver);
        send(&host, b"hello").unwrap();
        assert_eq!(received(one), b"hello");
    }
}

#[test]
fn silent_processes_keep_no_other_out_and_one_that_has_sent_stays() {
    let (place, _listener, driver) = place("silent");
    let greeted = || {
        let guest = guest(&place);
        let host = accepted(&driver);
        send(&host, b"hello").unwrap();
        assert_eq!(received(&guest), b"hello");
        (guest, host)
    };
    let (speaks, its_host) = greeted();
    send(&speaks, b"init").unwrap();
    assert_eq!(received(&its_host), b"init");
    let silent: Vec<_> = (0..=VISITS_MAX).map(|_| greeted()).collect();
    // There is room for one less than the limit beside the one that speaks.
    for (guest, host) in &silent[..2] {
        assert!(received(guest).is_empty() && received(host).is_empty());
    }
    for (guest, host) in &silent[2..] {
        send(guest, b"late").unwrap();
        assert_eq!(received(host), b"late");
    }
    send(&its_host, b"ack").unwrap();
    assert_eq!(received(&speaks), b"ack");
}
