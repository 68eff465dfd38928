//! Stores of messages that are sent in erasure-coded blocks, against the crate
//! `reed-solomon-erasure`: parity of every block, and every pattern of lost packets restored.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use proptest::prelude::*;
use reed_solomon_erasure::galois_8::ReedSolomon;
use transport::ec::{Block, BlockShape, EcKind};
use transport::{Coding, Config, MsgId, PayloadRef, Restore, Rng, Settings};
use transport_dpdk::{AppMemory, MemoryConfig, MessageBytes, Pattern};
use transport_dpdk::{IncomingBytes as _, OutgoingBytes as _};

/// A message and how it is cut.
struct Case {
    config: Config,
    bytes: Vec<u8>,
    /// The incoming message.
    msg: MsgId,
    /// The packets of each block: its segments and then the oracle's parity.
    packets: Vec<Vec<Vec<u8>>>,
}

impl Case {
    fn new(shape: (u8, u8), payload_max: u16, len: usize) -> Self {
        let mut rng = Rng::new(len as u64);
        let bytes = (0..len).map(|_| u8::try_from(rng.below(256)).unwrap()).collect();
        Self::of(shape, payload_max, bytes)
    }

    /// A message of these bytes.
    fn of(shape: (u8, u8), payload_max: u16, bytes: Vec<u8>) -> Self {
        let (config, packets) = (config(shape, payload_max, 16), Vec::new());
        let mut case = Self { config, bytes, msg: MsgId::new(3, 7), packets };
        let oracle = ReedSolomon::new(shape.0.into(), shape.1.into()).unwrap();
        case.packets = case.blocks().iter().map(|block| case.encode(block, &oracle)).collect();
        case
    }

    fn payload_max(&self) -> usize {
        usize::from(self.config.payload_max)
    }

    fn len(&self) -> u32 {
        u32::try_from(self.bytes.len()).unwrap()
    }

    fn blocks(&self) -> Vec<Block> {
        let segments = self.bytes.len().div_ceil(self.payload_max());
        let blocks = self.config.ec_shape.blocks(u32::try_from(segments).unwrap());
        (0..blocks.count()).map(|index| blocks.get(index).unwrap()).collect()
    }

    fn offset(&self, block: &Block) -> u32 {
        block.first * u32::from(self.config.payload_max)
    }

    fn packets(&self, block: &Block) -> &[Vec<u8>] {
        &self.packets[block.first as usize / usize::from(self.config.ec_shape.data())]
    }

    fn encode(&self, block: &Block, oracle: &ReedSolomon) -> Vec<Vec<u8>> {
        let begin = self.offset(block) as usize;
        let segments = self.bytes[begin..].chunks(self.payload_max()).take(block.data.into());
        let mut packets: Vec<Vec<u8>> = segments.map(<[u8]>::to_vec).collect();
        let data = oracle.data_shard_count();
        let mut padded = packets.clone();
        padded.resize(oracle.total_shard_count(), Vec::new());
        let longest = packets[0].len();
        padded.iter_mut().for_each(|packet| packet.resize(longest, 0));
        oracle.encode(&mut padded).unwrap();
        packets.extend(padded.drain(data..));
        packets
    }

    /// How packet `number` of a block is asked for when it is sent the first time.
    fn asked(&self, msg: MsgId, block: &Block, number: u8, len: usize) -> PayloadRef {
        let own = self.offset(block) + u32::from(number) * u32::from(self.config.payload_max);
        let (offset, coding) = match number.checked_sub(block.data) {
            Some(index) => (self.offset(block), Coding::Parity(index)),
            None => (own, Coding::Block(number)),
        };
        PayloadRef { msg, offset, len: u16::try_from(len).unwrap(), coding }
    }

    /// Asks `store` for a packet as `how` changes the request, and compares.
    fn check(
        &self,
        store: &mut AppMemory,
        (msg, block, number): (MsgId, &Block, u8),
        how: impl Fn(PayloadRef) -> PayloadRef,
    ) {
        let expected = &self.packets(block)[usize::from(number)];
        let mut out = vec![0xA5; expected.len()];
        let asked = how(self.asked(msg, block, number, expected.len()));
        assert!(store.fill(&asked, &mut out, None), "{asked:?}");
        assert_eq!(&out, expected, "{asked:?} of {block:?}");
    }

    fn restore(&self, block: &Block, have: u64) -> Restore {
        let shape = self.config.ec_shape;
        Restore {
            msg: self.msg,
            offset: self.offset(block),
            msg_len: self.len(),
            full: shape.data(),
            data: block.data,
            parity: shape.parity(),
            have,
        }
    }

    /// Gives `store` the packets of a block that are in `have`; parity lies in two pieces.
    fn receive(&self, store: &mut AppMemory, block: &Block, have: u64) {
        let (msg, len, begin) = (self.msg, self.len(), self.offset(block));
        for (number, packet) in (0u8..).zip(self.packets(block)) {
            if have & 1 << number == 0 {
                continue;
            }
            if let Some(index) = number.checked_sub(block.data) {
                let halves = packet.split_at(packet.len() / 3);
                assert!(store.keep(msg, begin, len, index, halves));
            } else {
                let offset = begin + u32::from(number) * u32::from(self.config.payload_max);
                assert!(store.place(msg, offset, len, packet));
            }
        }
    }
}

fn config(shape: (u8, u8), payload_max: u16, tx_flows_max: u32) -> Config {
    let settings = Settings {
        ec: EcKind::Mds,
        ec_shape: BlockShape::new(shape.0, shape.1).unwrap(),
        payload_max,
        tx_flows_max,
        ..Settings::default()
    };
    Config::new(settings).unwrap()
}

fn store(config: &Config, parity_max: u64) -> AppMemory {
    AppMemory::new(config, &MemoryConfig { bytes_max: 1 << 30, messages_max: 16, parity_max })
}

fn sending(case: &Case, msg: MsgId) -> AppMemory {
    let mut store = store(&case.config, 0);
    store.insert(msg, case.len(), MessageBytes::Owned(Arc::from(&case.bytes[..])));
    store
}

fn same(asked: PayloadRef) -> PayloadRef {
    asked
}

fn again(asked: PayloadRef) -> PayloadRef {
    let coding = match asked.coding {
        Coding::Block(_) => Coding::Data,
        other => other,
    };
    PayloadRef { coding, ..asked }
}

const MSG: MsgId = MsgId(1 << 20 | 2);

/// Lengths around the borders of segments and blocks.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (shape, payload_max) in [((8, 2), 256), ((4, 3), 100), ((1, 1), 64), ((3, 1), 66)] {
        let (segment, block) = (usize::from(payload_max), usize::from(shape.0));
        for segments in [0, 1, block - 1, block, 2 * block + 1] {
            for more in [1, segment - 1, segment] {
                cases.push(Case::new(shape, payload_max, segments * segment + more));
            }
        }
    }
    cases
}

#[test]
fn parity_of_segments_sent_in_order_is_accumulated_and_right() {
    for case in cases() {
        let mut store = sending(&case, MSG);
        for block in case.blocks() {
            (0..block.packets()).for_each(|n| case.check(&mut store, (MSG, &block, n), same));
        }
        assert_eq!(store.parity_recomputed(), 0);
    }
}

#[test]
fn parity_that_is_sent_again_or_of_segments_that_were_not_seen_is_computed_anew() {
    for case in cases() {
        let mut store = sending(&case, MSG);
        let blocks = case.blocks();
        // Before, and long after.
        for _ in 0..2 {
            for block in &blocks {
                let parity = block.data..block.packets();
                parity.for_each(|n| case.check(&mut store, (MSG, block, n), again));
            }
        }
        let count = blocks.len() as u64;
        // With one block its parity is still there the second time.
        assert_eq!(store.parity_recomputed(), if count == 1 { 1 } else { 2 * count });
    }
}

#[test]
fn a_segment_that_is_sent_again_within_its_block_is_added_once() {
    let case = Case::new((8, 2), 256, 256 * 16);
    let mut store = sending(&case, MSG);
    for block in case.blocks() {
        for number in 0..block.packets() {
            case.check(&mut store, (MSG, &block, number), same);
            // The device could not attach the segment, so it is asked for twice.
            if number < block.data {
                case.check(&mut store, (MSG, &block, number), same);
            }
            let before = number / 2;
            case.check(&mut store, (MSG, &block, before), again);
        }
    }
    assert_eq!(store.parity_recomputed(), 0);
}

#[test]
fn after_a_segment_that_was_not_sent_parity_is_computed_anew() {
    let case = Case::new((8, 2), 256, 256 * 8);
    let block = case.blocks()[0];
    for missing in 0..8 {
        let mut store = sending(&case, MSG);
        let sent = (0..10).filter(|number| *number != missing);
        sent.for_each(|n| case.check(&mut store, (MSG, &block, n), same));
        assert_eq!(store.parity_recomputed(), 1, "without {missing}");
    }
}

#[test]
fn without_a_place_to_accumulate_it_parity_is_right_all_the_same() {
    let mut case = Case::new((8, 2), 256, 256 * 24 + 3);
    // One flow: one block at a time.
    case.config = config((8, 2), 256, 1);
    let others = [MsgId::new(4, 1), MsgId::new(5, 1)];
    let mut store = sending(&case, MSG);
    for msg in others {
        store.insert(msg, case.len(), MessageBytes::Owned(Arc::from(&case.bytes[..])));
    }
    for block in case.blocks() {
        for number in 0..block.packets() {
            for msg in [others[0], MSG, others[1]] {
                case.check(&mut store, (msg, &block, number), same);
            }
        }
    }
    // The first has the place whenever it begins a block; the others take turns, packet by packet.
    assert_eq!(store.parity_recomputed(), 2 * 2 * case.blocks().len() as u64);
}

#[test]
fn parity_of_a_pattern_is_that_of_its_bytes() {
    let pattern = Pattern { seed: 5, tag: 9 };
    let mut bytes = vec![0; 100_000];
    pattern.read(0, &mut bytes);
    let case = Case::of((8, 2), 4096, bytes);
    let mut store = store(&case.config, 0);
    store.insert(MSG, case.len(), MessageBytes::Pattern(pattern));
    for block in case.blocks() {
        (0..block.packets()).for_each(|n| case.check(&mut store, (MSG, &block, n), same));
    }
    let first = case.blocks()[0];
    case.check(&mut store, (MSG, &first, 9), same);
    assert_eq!(store.parity_recomputed(), 1);
}

#[test]
fn every_pattern_of_lost_packets_that_can_be_restored_is() {
    for case in cases() {
        let blocks = case.blocks();
        for block in &blocks {
            for have in 0..1_u64 << block.packets() {
                let parity = have >> block.data;
                if have.count_ones() != u32::from(block.data) || parity == 0 {
                    continue;
                }
                let mut store = store(&case.config, 0);
                for other in &blocks {
                    let all = if other == block { have } else { other.all_data() };
                    case.receive(&mut store, other, all);
                }
                assert!(store.restore(&case.restore(block, have)), "{have:b} of {block:?}");
                assert_eq!(store.parity_room(), 1, "the parity is gone");
                let got = store.deliver(case.msg).unwrap();
                assert!(*got == *case.bytes, "{have:b} of {block:?}");
            }
        }
    }
}

#[test]
fn too_few_packets_restore_nothing_and_that_is_said() {
    let case = Case::new((8, 2), 256, 256 * 8);
    let block = case.blocks()[0];
    let mut store = store(&case.config, 0);
    case.receive(&mut store, &block, 0b01_1011_1111);
    assert!(!store.restore(&case.restore(&block, 0b01_0011_1111)));
    assert!(!store.restore(&case.restore(&block, 0b01_1011_1111)), "it is gone");
}

#[test]
fn parity_that_no_block_asked_for_goes_with_its_message() {
    let case = Case::new((8, 2), 256, 256 * 16);
    let blocks = case.blocks();
    let mut store = store(&case.config, 1 << 20);
    let room = store.parity_room();
    blocks.iter().for_each(|block| case.receive(&mut store, block, block.all()));
    assert_eq!(store.parity_room(), room - blocks.len());
    assert!(store.deliver(case.msg).is_some());
    assert_eq!(store.parity_room(), room);
}

#[test]
fn memory_for_parity_is_bounded_and_comes_back_with_its_message() {
    let case = Case::new((8, 2), 256, 256 * 64);
    let blocks = case.blocks();
    let slot = 2 * 256;
    let mut store = store(&case.config, 3 * slot);
    assert_eq!(store.parity_room(), 3);
    let other = Case { msg: MsgId::new(1, 1), ..Case::new((8, 2), 256, 256 * 64) };
    case.receive(&mut store, &blocks[0], 1 << 8);
    other.receive(&mut store, &blocks[0], 3 << 8);
    case.receive(&mut store, &blocks[7], 1 << 9);
    assert_eq!(store.parity_room(), 0);
    // More parity of a block that has a place may arrive.
    case.receive(&mut store, &blocks[0], 1 << 9);
    let begin = case.offset(&blocks[1]);
    assert!(!store.keep(case.msg, begin, case.len(), 0, (&[1; 256], &[])));
    store.abort(case.msg);
    assert_eq!(store.parity_room(), 2);
    other.receive(&mut store, &blocks[0], 0b1011_1110);
    assert!(store.restore(&other.restore(&blocks[0], 0b11_1011_1110)));
    assert_eq!((store.parity_room(), store.held_messages()), (3, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn blocks_of_any_shape_come_back_from_any_packets_that_suffice(
        data in 1u8..=48, parity in 1u8..=16, payload_max in 64u16..300, extra in 0usize..40_000,
        seed: u64,
    ) {
        let case = Case::new((data, parity), payload_max, 1 + extra);
        let mut rng = Rng::new(seed);
        let mut sender = sending(&case, MSG);
        let mut receiver = store(&case.config, 1 << 20);
        for block in case.blocks() {
            for number in 0..block.packets() {
                case.check(&mut sender, (MSG, &block, number), same);
            }
            let mut have = block.all();
            while have.count_ones() > u32::from(block.data) {
                have &= !(1 << rng.below(u64::from(block.packets())));
            }
            case.receive(&mut receiver, &block, have);
            if have >> block.data != 0 {
                prop_assert!(receiver.restore(&case.restore(&block, have)));
            }
        }
        prop_assert_eq!(sender.parity_recomputed(), 0);
        prop_assert!(*receiver.deliver(case.msg).unwrap() == *case.bytes);
    }
}
