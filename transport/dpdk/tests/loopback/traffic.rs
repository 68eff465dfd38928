//! Numbered frames of known content, and a pump that sends them over a link and checks what
//! arrives.

use std::sync::Arc;

use transport_dpdk::{Eal, LinkConfig, Mbuf, MbufBurst, Pool, PoolConfig};

/// Data bytes of a segment in the pools of [`pools`].
pub(crate) const ROOM: u16 = 2048;

const HEADER: usize = 14 + 4;

/// A pool for tests.
pub(crate) fn pool(eal: &Eal, count: u32) -> Arc<Pool> {
    let config = PoolConfig { count, room: ROOM, cache: 64, socket: -1 };
    Arc::new(Pool::new(eal, config).unwrap())
}

/// A link configuration with two fresh pools.
pub(crate) fn link_config(eal: &Eal, max_frame: u32) -> LinkConfig {
    LinkConfig { max_frame, depth: 512, host_pool: pool(eal, 8191), switch_pool: pool(eal, 8191) }
}

/// Frame `number` of a stream: local addresses, an experimental EtherType, the number, and bytes
/// that depend on the number. `length` is in bytes, at least 60.
pub(crate) fn frame(number: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    bytes.extend(number.to_be_bytes());
    let start = number.wrapping_mul(0x9e37_79b1).to_be_bytes()[0];
    bytes.extend((HEADER..length).map(|at| start.wrapping_add(at.to_le_bytes()[0])));
    bytes
}

/// `bytes` in a chain of as many segments as they need.
pub(crate) fn packet(pool: &Pool, bytes: &[u8]) -> Option<Mbuf> {
    let mut chain: Option<Mbuf> = None;
    for piece in bytes.chunks(usize::from(ROOM)) {
        let mut segment = pool.alloc()?;
        segment.append(u16::try_from(piece.len()).unwrap())?.copy_from_slice(piece);
        match &mut chain {
            Some(head) => head.chain(segment).unwrap(),
            None => chain = Some(segment),
        }
    }
    chain
}

/// All bytes of a packet.
pub(crate) fn bytes(packet: &Mbuf) -> Vec<u8> {
    let mut out = vec![0; usize::try_from(packet.pkt_len()).unwrap()];
    assert!(packet.copy_out(0, &mut out));
    out
}

/// One direction of a link.
pub(crate) struct Pump<'a> {
    /// Sends from the front of the burst.
    pub(crate) send: &'a mut dyn FnMut(&mut MbufBurst) -> usize,
    /// Receives into the burst.
    pub(crate) receive: &'a mut dyn FnMut(&mut MbufBurst) -> usize,
    /// The pool of sent frames.
    pub(crate) pool: &'a Pool,
    /// Frames that may be on the way at once, for links that drop when they are full.
    pub(crate) window: u32,
}

impl Pump<'_> {
    /// Sends `count` frames of the given lengths in turn; all must arrive in order and intact.
    pub(crate) fn run(&mut self, count: u32, lengths: &[usize]) {
        let length_of = |number: u32| lengths[usize::try_from(number).unwrap() % lengths.len()];
        let (mut made, mut arrived, mut idle) = (0, 0, 0_u32);
        let mut out = MbufBurst::new();
        let mut got = MbufBurst::new();
        while arrived < count {
            while made < count && out.room() > 0 && made - arrived < self.window {
                let Some(packet) = packet(self.pool, &frame(made, length_of(made))) else { break };
                out.push(packet).unwrap();
                made += 1;
            }
            (self.send)(&mut out);
            let received = (self.receive)(&mut got);
            for packet in got.drain() {
                assert_eq!(packet.check(), Ok(()));
                assert!(bytes(&packet) == frame(arrived, length_of(arrived)), "frame {arrived}");
                arrived += 1;
            }
            idle = if received > 0 { 0 } else { idle + 1 };
            if idle > 64 {
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
            assert!(
                idle < 30_000,
                "{arrived} of {count} arrived, {made} sent, then nothing for 3 s"
            );
        }
        assert!(out.is_empty());
    }
}
