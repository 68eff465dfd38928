//! The codec against the crate `reed-solomon-erasure`, on every kernel that this processor has:
//! equal parity, and every erasure pattern decoded.
#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, reason = "a test")]

use proptest::prelude::*;
use reed_solomon_erasure::galois_8::ReedSolomon;
use transport::Rng;
use transport::ec::{BlockShape, DATA_MAX, PARITY_MAX};
use transport_gf::{Codec, Kernel, NotDecodable};

/// Codecs of one shape on all kernels.
fn codecs(shape: BlockShape) -> Vec<Codec> {
    Kernel::ALL.iter().filter_map(|kernel| Codec::with_kernel(shape, *kernel)).collect()
}

fn shape(data: u8, parity: u8) -> BlockShape {
    BlockShape::new(data, parity).unwrap()
}

fn bytes(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| u8::try_from(rng.below(256)).unwrap()).collect()
}

/// A full block, data and then the oracle's parity. Data packet i is as long as `lens` says; the
/// oracle sees it filled up with zeros.
fn block(shape: BlockShape, lens: &[usize], rng: &mut Rng) -> Vec<Vec<u8>> {
    let longest = lens.iter().copied().max().unwrap();
    let mut packets: Vec<Vec<u8>> = lens.iter().map(|len| bytes(rng, *len)).collect();
    let full = usize::from(shape.data());
    let mut padded: Vec<Vec<u8>> = packets.clone();
    padded.resize(full, Vec::new());
    padded.resize(full + usize::from(shape.parity()), Vec::new());
    padded.iter_mut().for_each(|packet| packet.resize(longest, 0));
    let oracle = ReedSolomon::new(full, usize::from(shape.parity())).unwrap();
    oracle.encode(&mut padded).unwrap();
    packets.extend(padded.drain(full..));
    packets
}

fn slices(packets: &mut [Vec<u8>]) -> Vec<&mut [u8]> {
    packets.iter_mut().map(Vec::as_mut_slice).collect()
}

/// Encodes the data of `expected` at once and packet by packet, and compares the parity.
fn check_parity(codec: &Codec, expected: &[Vec<u8>], data: usize) {
    let refs: Vec<&[u8]> = expected[..data].iter().map(Vec::as_slice).collect();
    let noise: Vec<Vec<u8>> = expected[data..].iter().map(|p| vec![0xA5; p.len()]).collect();
    let mut at_once = noise;
    codec.encode(&refs, &mut slices(&mut at_once));
    assert_eq!(at_once, expected[data..], "{:?} at once", codec.kernel());
    let mut streamed: Vec<Vec<u8>> = expected[data..].iter().map(|p| vec![0; p.len()]).collect();
    for (index, packet) in (0..).zip(&refs).collect::<Vec<_>>().into_iter().rev() {
        codec.update(index, packet, &mut slices(&mut streamed));
    }
    assert_eq!(streamed, expected[data..], "{:?} streamed", codec.kernel());
    // Accumulation begins with the longest packet, over arbitrary contents.
    let mut order: Vec<(u8, &&[u8])> = (0..).zip(&refs).collect();
    order.sort_by_key(|(_, packet)| std::cmp::Reverse(packet.len()));
    let mut begun: Vec<Vec<u8>> = expected[data..].iter().map(|p| vec![0xA5; p.len()]).collect();
    codec.start(order[0].0, order[0].1, &mut slices(&mut begun));
    for (index, packet) in &order[1..] {
        codec.update(*index, packet, &mut slices(&mut begun));
    }
    assert_eq!(begun, expected[data..], "{:?} begun", codec.kernel());
}

/// Loses the packets that are not in `have` and decodes; the packets in `have` must not change.
fn check_decode(codec: &Codec, expected: &[Vec<u8>], data: usize, have: u64) {
    let lost = |number: usize| have & 1 << number == 0;
    let mut packets = expected.to_vec();
    for (number, packet) in packets.iter_mut().enumerate() {
        if lost(number) {
            packet.fill(0x5A);
        }
    }
    let before = packets.clone();
    let count = u8::try_from(data).unwrap();
    let known = (0..expected.len()).filter(|number| !lost(*number)).count();
    let result = codec.decode(count, have, &mut slices(&mut packets));
    if known < data {
        assert_eq!((result, packets), (Err(NotDecodable), before));
        return;
    }
    assert_eq!(result, Ok(()));
    assert!(packets[..data] == expected[..data], "{:?} {have:b}", codec.kernel());
    assert_eq!(packets[data..], before[data..], "parity is not touched");
}

/// Every pattern of present packets of full blocks, those with too few included.
fn every_pattern(data: u8, parity: u8, len: usize) {
    every_pattern_of(shape(data, parity), usize::from(data), len);
}

/// Every pattern of present packets of blocks with `data` data packets.
fn every_pattern_of(shape: BlockShape, data: usize, len: usize) {
    let mut rng = Rng::new(u64::from(shape.data()));
    let expected = block(shape, &vec![len; data], &mut rng);
    for codec in codecs(shape) {
        check_parity(&codec, &expected, data);
        for have in 0..1_u64 << expected.len() {
            check_decode(&codec, &expected, data, have);
        }
    }
}

#[test]
fn every_erasure_pattern_of_small_blocks_decodes_or_is_refused() {
    every_pattern(8, 2, 333);
    every_pattern(4, 1, 257);
    every_pattern(2, 1, 64);
    every_pattern(1, 3, 1);
    every_pattern(5, 5, 130);
}

#[test]
fn every_erasure_pattern_decodes_at_every_length_of_the_last_column() {
    // Columns are 32, 64 and 128 bytes.
    for len in [1, 31, 32, 63, 64, 65, 127, 128, 129, 192, 255, 256] {
        every_pattern(8, 2, len);
    }
}

#[test]
fn every_erasure_pattern_of_short_blocks_decodes_or_is_refused() {
    for data in 1..8 {
        every_pattern_of(shape(8, 2), data, 200);
        every_pattern_of(shape(10, 3), data, 200);
    }
}

#[test]
fn one_and_two_lost_packets_of_long_blocks_are_restored_from_any_neighbours() {
    // From one pair of neighbours to more than are added at once, and all that there can be.
    for (data, parity) in [(2, 2), (4, 3), (6, 2), (10, 2), (18, 4), (20, 5), (48, 2)] {
        let mut rng = Rng::new(u64::from(data));
        let shape = shape(data, parity);
        let count = usize::from(data);
        let expected = block(shape, &vec![140; count], &mut rng);
        let all = (1_u64 << expected.len()) - 1;
        for codec in codecs(shape) {
            check_parity(&codec, &expected, count);
            for i in 0..expected.len() {
                for j in i..expected.len() {
                    check_decode(&codec, &expected, count, all & !(1 << i | 1 << j));
                }
            }
        }
    }
}

#[test]
fn every_erasure_pattern_of_16_and_4_that_decodes_does() {
    let mut rng = Rng::new(16);
    let shape = shape(16, 4);
    let expected = block(shape, &[96; 16], &mut rng);
    for codec in codecs(shape) {
        check_parity(&codec, &expected, 16);
        // All patterns of up to four of twenty, and the first pattern of every five.
        for have in 0..1_u64 << 20 {
            match 20 - have.count_ones() {
                0..=4 => check_decode(&codec, &expected, 16, have),
                5 if have % 64 == 0 => check_decode(&codec, &expected, 16, have),
                _ => {}
            }
        }
    }
}

#[test]
fn every_kernel_of_this_processor_is_tested() {
    let tested = codecs(shape(8, 2)).len();
    let supported = Kernel::ALL.iter().filter(|kernel| kernel.is_supported()).count();
    assert_eq!(tested, supported);
    assert_eq!(Codec::new(shape(8, 2)).kernel(), Kernel::best());
}

#[test]
fn a_full_packet_of_4_kib_and_its_neighbours_in_length_are_the_oracles() {
    let mut rng = Rng::new(4);
    for len in [4095, 4096, 4097, 4160] {
        let expected = block(shape(8, 2), &[len; 8], &mut rng);
        for codec in codecs(shape(8, 2)) {
            check_parity(&codec, &expected, 8);
            check_decode(&codec, &expected, 8, 0b11_1111_0110);
        }
    }
}

fn shapes() -> impl Strategy<Value = (u8, u8)> {
    let any = (1..=DATA_MAX, 1..=PARITY_MAX);
    prop_oneof![Just((8, 2)), Just((4, 1)), Just((16, 4)), Just((DATA_MAX, PARITY_MAX)), any]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Any shape up to the largest, short blocks, packets of unequal length, any losses.
    #[test]
    fn blocks_of_any_shape_and_lengths_are_the_oracles(
        (data, parity) in shapes(), cut in 0..u8::MAX, seed: u64, equal: bool,
        lens in prop::collection::vec(1..700_usize, 48),
        losses in prop::collection::vec(0..64_u8, 0..20),
    ) {
        let mut rng = Rng::new(seed);
        let count = usize::from(1 + cut % data);
        let lens = if equal { vec![lens[0]; count] } else { lens[..count].to_vec() };
        let shape = shape(data, parity);
        let expected = block(shape, &lens, &mut rng);
        let lost = losses.iter().fold(0_u64, |map, number| map | 1 << number);
        for codec in codecs(shape) {
            check_parity(&codec, &expected, count);
            check_decode(&codec, &expected, count, !lost);
        }
    }
}
