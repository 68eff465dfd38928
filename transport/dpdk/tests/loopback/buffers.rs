//! Pools, mbufs, bursts, attached memory, timestamps and rings.

use std::sync::Arc;

use transport_dpdk::{
    BURST, Eal, ExtBuf, HEADROOM, Link, Mbuf, MbufBurst, MbufError, Pool, PoolConfig, Region, Ring,
    RingError, TimestampField,
};

use crate::Outcome::{self, Passed};
use crate::traffic::{self, ROOM, bytes, frame, packet};

pub(crate) const CHECKS: &[crate::Check] = &[
    ("a_pool_counts_what_is_out_and_gets_all_of_it_back", counts),
    ("an_exhausted_pool_says_so_and_a_burst_is_all_or_nothing", exhausted),
    ("impossible_pools_are_errors_that_say_why", impossible_pools),
    ("a_packet_grows_and_shrinks_at_both_ends_within_its_buffer", both_ends),
    ("chains_copy_out_and_gather_and_count_their_segments", chains),
    ("a_deep_copy_shares_nothing_with_the_original", deep_copy),
    ("attached_memory_is_read_only_and_freed_with_its_last_holder", attached),
    ("a_frame_in_one_step_is_what_three_steps_make_and_refuses_what_they_refuse", framed),
    ("memory_has_a_limit_of_holders_that_cannot_be_passed", holders),
    ("a_timestamp_survives_a_ring_link_and_a_fresh_mbuf_has_none", timestamps),
    ("a_ring_keeps_order_says_when_it_is_full_and_frees_what_is_left", rings),
];

fn counts(eal: &Eal) -> Outcome {
    let pool = traffic::pool(eal, 1023);
    assert_eq!((pool.count(), pool.in_use()), (1023, 0));
    let one = pool.alloc().unwrap();
    let mut burst = MbufBurst::new();
    assert!(pool.alloc_burst(&mut burst, BURST));
    assert_eq!((burst.len(), burst.room(), pool.in_use()), (32, 0, 33));
    assert_eq!(one.refcnt(), 1);
    drop(one);
    let taken = burst.pop().unwrap();
    let moved = burst.swap_remove(0).unwrap();
    assert!(burst.swap_remove(30).is_none() && burst.get(30).is_none());
    assert_eq!(pool.in_use(), 32);
    burst.push(taken).unwrap();
    let mut rest = burst.drain();
    drop(rest.next());
    assert_eq!(pool.in_use(), 31);
    drop(rest);
    drop(moved);
    assert_eq!(pool.in_use(), 0);
    Passed
}

fn exhausted(eal: &Eal) -> Outcome {
    let config = PoolConfig { count: 40, room: 64, cache: 0, socket: -1 };
    let pool = Pool::new(eal, config).unwrap();
    let mut burst = MbufBurst::new();
    assert!(pool.alloc_burst(&mut burst, 32));
    let mut second = MbufBurst::new();
    assert!(!pool.alloc_burst(&mut second, 9));
    assert_eq!((second.len(), pool.in_use()), (0, 32));
    assert!(pool.alloc_burst(&mut second, 8));
    assert!(pool.alloc().is_none());
    assert!(!pool.alloc_burst(&mut second, 25));
    let extra = second.pop().unwrap();
    assert!(burst.push(extra).is_err(), "a full burst gives the mbuf back, here to be freed");
    burst.clear();
    drop(second);
    assert_eq!(pool.in_use(), 0);
    Passed
}

fn impossible_pools(eal: &Eal) -> Outcome {
    let sane = PoolConfig { count: 100, room: 2048, cache: 0, socket: -1 };
    for config in [
        PoolConfig { count: 0, ..sane },
        PoolConfig { room: 0, ..sane },
        PoolConfig { room: u16::MAX, ..sane },
        PoolConfig { cache: 67, ..sane },
        PoolConfig { count: 10_000, cache: 513, ..sane },
    ] {
        assert!(matches!(Pool::new(eal, config), Err(MbufError::Config { .. })), "{config:?}");
    }
    let huge = Pool::new(eal, PoolConfig { count: 1 << 24, ..sane }).unwrap_err();
    assert!(huge.to_string().contains("give DPDK more memory"), "{huge}");
    Passed
}

fn both_ends(eal: &Eal) -> Outcome {
    let pool = traffic::pool(eal, 127);
    let mut mbuf = pool.alloc().unwrap();
    assert_eq!((mbuf.headroom(), mbuf.tailroom(), mbuf.pkt_len()), (HEADROOM, ROOM, 0));
    mbuf.append(3).unwrap().copy_from_slice(b"cde");
    mbuf.prepend(2).unwrap().copy_from_slice(b"ab");
    assert_eq!((mbuf.data(), mbuf.pkt_len(), mbuf.headroom()), (&b"abcde"[..], 5, HEADROOM - 2));
    assert!(mbuf.adjust(1) && mbuf.trim(1));
    assert_eq!(mbuf.data(), b"bcd");
    mbuf.data_mut().unwrap()[0] = b'B';
    assert!(!mbuf.adjust(4) && !mbuf.trim(4));
    assert!(mbuf.prepend(HEADROOM).is_none() && mbuf.append(ROOM).is_none());
    assert_eq!((mbuf.data(), mbuf.pkt_len(), mbuf.check()), (&b"Bcd"[..], 3, Ok(())));
    Passed
}

fn chains(eal: &Eal) -> Outcome {
    let pool = traffic::pool(eal, 127);
    let jumbo = frame(7, 9014);
    let mut chain = packet(&pool, &jumbo).unwrap();
    assert_eq!((chain.nb_segs(), chain.pkt_len(), pool.in_use()), (5, 9014, 5));
    assert!(chain.segments().flatten().eq(jumbo.iter()));
    let mut middle = [0; 100];
    assert!(chain.copy_out(2000, &mut middle));
    assert_eq!(middle, jumbo[2000..2100]);
    assert!(chain.copy_out(8914, &mut middle) && !chain.copy_out(8915, &mut middle));
    assert!(!chain.copy_out(usize::MAX, &mut middle));
    assert!(!chain.linearize(), "9 KB do not fit in one segment of 2 KB");
    assert_eq!((bytes(&chain) == jumbo, chain.check()), (true, Ok(())));
    chain.append(10).unwrap().fill(1);
    assert_eq!(chain.pkt_len(), 9024);
    drop(chain);
    let mut short = pool.alloc().unwrap();
    short.append(10).unwrap().fill(1);
    let mut tail = pool.alloc().unwrap();
    tail.append(5).unwrap().fill(2);
    short.chain(tail).unwrap();
    assert!(short.linearize());
    assert_eq!(
        (short.nb_segs(), short.data()),
        (1, &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2][..])
    );
    drop(short);
    assert_eq!(pool.in_use(), 0);
    Passed
}

fn deep_copy(eal: &Eal) -> Outcome {
    let (pool, other) = (traffic::pool(eal, 127), traffic::pool(eal, 127));
    let jumbo = frame(1, 5000);
    let mut original = packet(&pool, &jumbo).unwrap();
    let copy = original.deep_copy(&other).unwrap();
    original.data_mut().unwrap().fill(0);
    drop(original);
    assert_eq!((pool.in_use(), other.in_use(), bytes(&copy) == jumbo), (0, 3, true));
    Passed
}

fn attached(eal: &Eal) -> Outcome {
    let pool = traffic::pool(eal, 127);
    let memory: Vec<u8> = (0..10_000).map(|i: u32| i.to_le_bytes()[0]).collect();
    let memory = match Region::new(eal, memory.into_boxed_slice()) {
        Ok(memory) => ExtBuf::over(Arc::new(memory)),
        Err(refused) => return Outcome::Skipped(refused.to_string()),
    };
    let payload = pool.alloc().unwrap().attach(&memory, 5000..9000).unwrap();
    assert_eq!((payload.pkt_len(), memory.holders()), (4000, 2));
    assert_eq!(payload.data(), memory.range(5000..9000).unwrap());
    let mut payload = payload;
    assert!(payload.data_mut().is_none() && payload.append(1).is_none());
    assert!(payload.prepend(1).is_none(), "memory before the range is not headroom");
    let payload = payload.attach(&memory, 0..1).unwrap_err();
    let mut header = pool.alloc().unwrap();
    header.append(42).unwrap().fill(9);
    header.chain(payload).unwrap();
    assert_eq!((header.nb_segs(), header.pkt_len(), header.check()), (2, 4042, Ok(())));
    let reversed = std::ops::Range { start: 2, end: 1 };
    for bad in [9_999..10_001, reversed] {
        assert!(pool.alloc().unwrap().attach(&memory, bad).is_err());
    }
    drop(memory);
    assert_eq!(header.segments().nth(1).unwrap()[0], 5000_u32.to_le_bytes()[0]);
    drop(header);
    assert_eq!(pool.in_use(), 0);
    Passed
}

fn framed(eal: &Eal) -> Outcome {
    let pool = traffic::pool(eal, 127);
    let memory = match Region::new(eal, (0..200).collect()) {
        Ok(memory) => ExtBuf::over(Arc::new(memory)),
        Err(refused) => return Outcome::Skipped(refused.to_string()),
    };
    let fresh = || pool.alloc().unwrap();
    let mut frame = Mbuf::frame(fresh(), 42, fresh(), &memory, 50..150).unwrap();
    frame.data_mut().unwrap().fill(9);
    assert_eq!((frame.nb_segs(), frame.pkt_len(), frame.check()), (2, 142, Ok(())));
    let pieces: Vec<&[u8]> = frame.segments().collect();
    assert_eq!(pieces, [&[9; 42][..], memory.range(50..150).unwrap()]);
    assert_eq!(memory.holders(), 2);
    drop(frame);
    assert_eq!((memory.holders(), pool.in_use()), (1, 0));
    let mut used = fresh();
    used.append(1).unwrap();
    let (used, piece) = Mbuf::frame(used, 42, fresh(), &memory, 0..10).unwrap_err();
    let (piece, used) = Mbuf::frame(piece, 42, used, &memory, 0..10).unwrap_err();
    let room = piece.tailroom();
    let (head, piece) = Mbuf::frame(piece, room + 1, fresh(), &memory, 0..10).unwrap_err();
    let (head, piece) = Mbuf::frame(head, 42, piece, &memory, 199..201).unwrap_err();
    assert_eq!((memory.holders(), used.pkt_len()), (1, 1));
    drop((head, piece, used));
    assert_eq!(pool.in_use(), 0);
    Passed
}

fn holders(eal: &Eal) -> Outcome {
    let config = PoolConfig { count: 60_100, room: 1, cache: 0, socket: -1 };
    let pool = Pool::new(eal, config).unwrap();
    let Ok(memory) = Region::new(eal, vec![7; 100].into_boxed_slice()) else {
        return Outcome::Skipped("devices use physical addresses".into());
    };
    let memory = ExtBuf::over(Arc::new(memory));
    let attach = || pool.alloc().unwrap().attach(&memory, 0..100);
    let held: Vec<_> = (0..59_999).map(|_| attach().unwrap()).collect();
    assert!(attach().is_err());
    drop(held);
    assert_eq!((memory.holders(), pool.in_use()), (1, 0));
    Passed
}

fn timestamps(eal: &Eal) -> Outcome {
    let field = TimestampField::register(eal).unwrap();
    assert_eq!(TimestampField::register(eal), Ok(field), "the second registration finds the first");
    let config = traffic::link_config(eal, 1514);
    let mut link = Link::ring(eal, &config).unwrap();
    let mut stamped = packet(&config.host_pool, &frame(0, 60)).unwrap();
    assert_eq!(field.get(&stamped), None);
    field.set(&mut stamped, 0x0123_4567_89ab_cdef);
    let mut burst = MbufBurst::new();
    burst.push(stamped).unwrap();
    assert_eq!(link.host.tx_burst(&mut burst), 1);
    assert_eq!(link.switch_side.rx_burst(&mut burst), 1);
    assert_eq!(field.get(burst.get(0).unwrap()), Some(0x0123_4567_89ab_cdef));
    drop(burst);
    let mut fresh = Vec::new();
    while let Some(mbuf) = config.host_pool.alloc() {
        assert_eq!(field.get(&mbuf), None);
        fresh.push(mbuf);
    }
    Passed
}

fn rings(eal: &Eal) -> Outcome {
    let pool = traffic::pool(eal, 255);
    assert!(matches!(Ring::spsc(eal, 0), Err(RingError::Size(0))));
    assert!(matches!(Ring::spsc(eal, 1 << 20), Err(RingError::Size(_))));
    let (mut tx, mut rx) = Ring::spsc(eal, 40).unwrap();
    assert_eq!((tx.room(), rx.count()), (63, 0), "40 entries round up to 64, less one");
    let mut burst = MbufBurst::new();
    for (number, put) in [(0, 32), (32, 31)] {
        for number in number..number + 32 {
            burst.push(packet(&pool, &frame(number, 60)).unwrap()).unwrap();
        }
        assert_eq!(tx.tx_burst(&mut burst), put);
    }
    assert_eq!((burst.len(), tx.room(), rx.count()), (1, 0, 63));
    assert_eq!(tx.tx_burst(&mut burst), 0);
    burst.clear();
    assert_eq!(rx.rx_burst(&mut burst), 32);
    assert!((0..).zip(burst.iter()).all(|(number, m)| bytes(m) == frame(number, 60)));
    burst.clear();
    drop(tx);
    assert_eq!(pool.in_use(), 31, "the ring holds them while its other half lives");
    drop(rx);
    assert_eq!(pool.in_use(), 0);
    Passed
}
