//! A listener whose driver and guests are sockets of the test.

use super::*;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;

use rustix::net::sockopt;

/// A place of this test, and a socket at which the test is the driver for it.
fn place(name: &str) -> (MemifSocket, Arc<Listener>, OwnedFd) {
    let text = format!("headrace-test-{}-{name}", process::id());
    let place = MemifSocket { name: text, is_file: false, owner: (None, None) };
    let listener = Listener::at(place.clone(), name).unwrap();
    let driver = packets();
    bind(&driver, &SocketAddrUnix::new(listener.driver.path()).unwrap()).unwrap();
    listen(&driver, 1).unwrap();
    listener.opens(|_| ());
    (place, listener, driver)
}

/// A socket at which nothing is waited for for ever.
fn packets() -> OwnedFd {
    timed(seqpacket(SocketFlags::CLOEXEC).unwrap())
}

fn accepted(driver: &OwnedFd) -> OwnedFd {
    timed(accept_with(driver, SocketFlags::CLOEXEC).unwrap())
}

fn timed(socket: OwnedFd) -> OwnedFd {
    let time = Some(core::time::Duration::from_secs(10));
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
fn a_socket_that_another_process_listens_at_is_an_error_and_a_file_goes_with_its_listener() {
    let path = env::temp_dir().join(format!("headrace-listener-{}", process::id()));
    let name = path.to_str().unwrap().to_owned();
    let place = MemifSocket { name, is_file: true, owner: (None, None) };
    let listener = Listener::at(place.clone(), "a").unwrap();
    assert!(Arc::ptr_eq(&listener, &Listener::at(place.clone(), "b").unwrap()));
    let again = Listener::open(&place, &listener.driver);
    assert!(again.is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse));
    let owned = MemifSocket { owner: (None, Some(1)), ..place };
    assert!(matches!(Listener::at(owned, "c"), Err(SocketError::Owner(_))));
    assert!(path.exists());
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn no_other_user_can_reach_the_driver_and_no_file_of_it_stays() {
    let text = format!("headrace-test-{}-private", process::id());
    let place = MemifSocket { name: text, is_file: false, owner: (None, None) };
    let listener = Listener::at(place.clone(), "private").unwrap();
    let (path, directory) = (listener.driver.path(), listener.driver.directory.clone());
    let mode = fs::metadata(&directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
    // A device that could not be opened.
    listener.opens(|_| ());
    drop(listener);
    assert!(!directory.exists());
    let listener = Listener::at(place.clone(), "private").unwrap();
    assert_ne!(listener.driver.path(), path);
    let driver = packets();
    let (path, directory) = (listener.driver.path(), listener.driver.directory.clone());
    bind(&driver, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&driver, 1).unwrap();
    listener.opens(|_| ());
    assert!(!directory.exists());
    // A device that attaches again finds the same driver.
    drop(listener);
    let listener = Listener::at(place.clone(), "private").unwrap();
    assert_eq!(listener.driver.path(), path);
    let guest = guest(&place);
    send(&accepted(&driver), b"hello").unwrap();
    assert_eq!(received(&guest), b"hello");
}

#[test]
fn a_process_that_comes_before_the_driver_listens_waits_and_hinders_no_end() {
    let text = format!("headrace-test-{}-early", process::id());
    let place = MemifSocket { name: text, is_file: false, owner: (None, None) };
    let listener = Listener::at(place.clone(), "early").unwrap();
    let early = [guest(&place), guest(&place)];
    thread::sleep(core::time::Duration::from_millis(50));
    let driver = packets();
    bind(&driver, &SocketAddrUnix::new(listener.driver.path()).unwrap()).unwrap();
    listen(&driver, 1).unwrap();
    listener.opens(|_| ());
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

#[test]
fn arguments_that_name_no_place_are_refused_with_what_they_must_be() {
    let text = "id=1,socket=/run/x,socket-abstract=no,owner-uid=7,bsize=2048";
    let (name, owner) = ("/run/x".to_owned(), (Some(7), None));
    let place = MemifSocket { name, is_file: true, owner };
    assert_eq!(MemifSocket::named("net_memif0", text).unwrap(), place);
    for (wrong, expected) in [
        ("owner-uid=abc", "a number below"),
        ("owner-gid=4294967295", "a number below"),
        ("owner-uid", "a number below"),
        ("socket-abstract=nope", "yes or no"),
    ] {
        let refused = MemifSocket::named("net_memif0", &format!("id=1,{wrong}")).unwrap_err();
        let text = refused.to_string();
        assert!(["`net_memif0`", wrong, expected].iter().all(|part| text.contains(part)), "{text}");
    }
}
