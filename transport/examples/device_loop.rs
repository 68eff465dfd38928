//! An endpoint at a device: two threads, each with a UDP socket as its card, a clock, and the loop
//! that a poll-mode driver runs: `cargo run --release -p transport --example device_loop`.
//!
//! A megabyte crosses the loopback interface and is compared. `transport/dpdk` has the same loop
//! around cards.
#![expect(clippy::disallowed_types, reason = "a driver owns a clock")]

use core::num::NonZeroU32;
use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{self, ErrorKind, Write as _};
use std::net::UdpSocket;
use std::{thread, time};

use transport::units::EntropyValue;
use transport::wire::Header;
use transport::{
    BURST, Burst, Config, Duration, Endpoint, Event, HostId, Instant, MsgSpec, Placement, Rng,
    RxSegment, Settings, TxSegment,
};

/// Bytes of a frame: the entropy value, which a UDP source port carries elsewhere, a header, and
/// payload.
const FRAME: usize = 9000;

/// A host: the protocol, its device, and the bytes of the application.
struct Host {
    endpoint: Endpoint,
    device: UdpSocket,
    began: time::Instant,
    /// What is sent.
    message: Vec<u8>,
    /// What has arrived, in its place.
    arrived: Vec<u8>,
}

impl Host {
    fn new(id: u32, config: &Config, device: UdpSocket, message: Vec<u8>) -> io::Result<Self> {
        device.set_nonblocking(true)?;
        let endpoint = Endpoint::new(config, HostId(id), Rng::new(id.into()));
        Ok(Self { endpoint, device, began: time::Instant::now(), message, arrived: Vec::new() })
    }

    /// One clock for everything that a turn of the loop does.
    fn now(&self) -> Instant {
        let elapsed = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::ZERO + Duration::from_ns(elapsed)
    }

    /// A turn: what has arrived, what is due, what can be sent. Returns what has happened.
    fn turn(&mut self) -> io::Result<Vec<Event>> {
        let now = self.now();
        self.receive(now)?;
        self.endpoint.handle_timeout(now);
        self.send(now)?;
        Ok(std::iter::from_fn(|| self.endpoint.poll_event()).collect())
    }

    /// Takes a burst from the device, and puts payload where the endpoint says.
    fn receive(&mut self, now: Instant) -> io::Result<()> {
        let mut frame = [0; FRAME];
        for _ in 0..BURST {
            let len = match self.device.recv(&mut frame) {
                Ok(len) => len,
                // The other host may have ended.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let Some((ev, rest)) = frame[..len].split_first_chunk() else { continue };
            let ev = EntropyValue(u16::from_be_bytes(*ev));
            // What is no packet of this protocol is ignored.
            let Ok((hdr, ext, at)) = Header::parse(ev, rest) else { continue };
            let payload = &rest[at..];
            let segment = RxSegment {
                hdr,
                at: now,
                from: HostId(1 - self.endpoint.host().0),
                payload_len: u16::try_from(payload.len()).unwrap_or(0),
                ce: false,
                trimmed: false,
            };
            let mut place = [Placement::Release];
            self.endpoint.handle_extended(now, (&[segment], &[ext]), &mut place);
            if let [Placement::Place { offset, msg_len, .. }] = place {
                self.arrived.resize(msg_len as usize, 0);
                self.arrived[offset as usize..][..payload.len()].copy_from_slice(payload);
            }
        }
        Ok(())
    }

    /// Gives the device what may leave now, with the bytes that each segment names.
    fn send(&mut self, now: Instant) -> io::Result<()> {
        let mut burst: Burst<TxSegment> = Burst::with_limit(BURST);
        self.endpoint.poll_transmit(now, &mut burst);
        for (at, TxSegment { hdr, payload, .. }) in burst.iter().enumerate() {
            let mut frame = [0; FRAME];
            frame[..2].copy_from_slice(&hdr.ev.0.to_be_bytes());
            let len = 2 + hdr.emit(burst.ext(at), &mut frame[2..]);
            let bytes = &self.message[payload.offset as usize..][..usize::from(payload.len)];
            frame[len..][..bytes.len()].copy_from_slice(bytes);
            match self.device.send(&frame[..len + bytes.len()]) {
                // A device without room loses the packet, as a network would: it is sent again.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                sent => drop(sent?),
            }
        }
        Ok(())
    }
}

pub(crate) fn main() -> io::Result<()> {
    let config = Config::new(Settings::default()).expect("legal settings");
    let devices = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    devices[0].connect(devices[1].local_addr()?)?;
    devices[1].connect(devices[0].local_addr()?)?;
    let [here, there] = devices;
    let message: Vec<u8> = (0..1u32 << 20).map(|at| at.to_le_bytes()[at as usize % 3]).collect();
    let mut receiver = Host::new(1, &config, there, Vec::new())?;
    let mut sender = Host::new(0, &config, here, message.clone())?;
    let now = sender.now();
    let flow = sender.endpoint.open_flow(HostId(1), config.default_path()).expect("room");
    let len = u32::try_from(message.len()).ok().and_then(NonZeroU32::new).expect("a megabyte");
    sender.endpoint.post_send(now, MsgSpec { flow, len, tag: 1 }).expect("room");
    let sender_ended = AtomicBool::new(false);
    let arrived = thread::scope(|scope| {
        // Acknowledgements may be lost: the receiver answers until the sender has ended.
        let receiving = scope.spawn(|| -> io::Result<Vec<u8>> {
            while !sender_ended.load(Ordering::Relaxed) {
                receiver.turn()?;
                thread::yield_now();
            }
            Ok(receiver.arrived)
        });
        let sent = loop {
            match sender.turn().as_deref() {
                Ok([]) if receiving.is_finished() => break Err(io::Error::other("no receiver")),
                Ok([]) => thread::yield_now(),
                Ok([Event::Sent { .. }, ..]) => break Ok(()),
                Ok(other) => break Err(io::Error::other(format!("{other:?}"))),
                Err(error) => break Err(io::Error::other(error.to_string())),
            }
        };
        sender_ended.store(true, Ordering::Relaxed);
        let arrived = receiving.join().expect("no panic")?;
        sent.map(|()| arrived)
    })?;
    assert!(arrived == message, "the bytes are those that were sent");
    let us = sender.now().since(now).as_us_f64();
    writeln!(io::stdout(), "{} bytes arrived as they were sent, in {us:.0} us", arrived.len())
}
