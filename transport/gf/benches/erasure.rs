//! GB/s of payload through the erasure code, hot in the cache, every kernel beside the crate
//! `reed-solomon-erasure`.
//!
//! Run: `cargo bench -p transport-gf --features simd-accel`, which compares with that crate's SIMD
//! code; without the feature, with its portable code. Times are of the fastest of many runs, for a
//! busy machine only ever adds to them. Not a test: wall time on a busy machine means little.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use std::hint::black_box;
use std::time::Instant as Wall;

use reed_solomon_erasure::galois_8::ReedSolomon;
use transport::ec::BlockShape;
use transport_gf::{Codec, Kernel};

/// Payload of a packet.
const LEN: usize = 4096;
const RUNS: u32 = 3000;
const BLOCKS_A_RUN: u32 = 20;

fn main() {
    let simd = if cfg!(feature = "simd-accel") { "simd-accel" } else { "portable" };
    println!("GB/s of payload, {LEN} B packets, hot, best of {RUNS} runs; rse is {simd}");
    println!("shape    code      encode  stream  decode 1  decode 2");
    for (data, parity) in [(8, 2), (4, 1), (16, 4)] {
        let shape = BlockShape::new(data, parity).expect("a shape");
        let base = oracle(shape);
        line(shape, "rse", base, None);
        for kernel in Kernel::ALL {
            if let Some(codec) = Codec::with_kernel(shape, *kernel) {
                line(shape, kernel.name(), measured(&codec), Some(base));
            }
        }
    }
}

/// Encoding at once, packet by packet, and decoding one and two lost packets.
type Figures = [Option<f64>; 4];

fn line(shape: BlockShape, name: &str, figures: Figures, base: Option<Figures>) {
    let shown = figures.map(|figure| figure.map_or("-".into(), |gbps| format!("{gbps:.1}")));
    let [encode, stream, one, two] = shown;
    print!("({shape:<5}) {name:<9} {encode:>7} {stream:>7} {one:>9} {two:>9}");
    if let Some(base) = base {
        for (figure, base) in figures.iter().zip(base) {
            match (figure, base) {
                (Some(figure), Some(base)) => print!("  x{:.1}", figure / base),
                _ => print!("  -"),
            }
        }
    }
    println!();
}

/// GB/s when one call of `work` handles one block.
fn rate(shape: BlockShape, mut work: impl FnMut()) -> Option<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Wall::now();
        for _ in 0..BLOCKS_A_RUN {
            work();
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    let packets = f64::from(BLOCKS_A_RUN) * f64::from(shape.data());
    #[expect(clippy::cast_precision_loss, reason = "a figure to print")]
    Some(packets * LEN as f64 / best / 1e9)
}

/// Packets as a pool of buffers has them: aligned to cache lines, with room for headers between
/// them, so that they do not all fall into the same sets of the cache.
#[derive(Clone)]
#[repr(C, align(64))]
struct Packet {
    payload: [u8; LEN],
    room: [u8; 1088],
}

impl AsRef<[u8]> for Packet {
    fn as_ref(&self) -> &[u8] {
        &self.payload
    }
}

impl AsMut<[u8]> for Packet {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.payload
    }
}

/// A block of bytes that are not zero, whose parity is right.
fn block(shape: BlockShape) -> Vec<Packet> {
    let mut byte = 1_u8;
    let mut next = || {
        // Odd, so the sequence has the full period.
        byte = byte.wrapping_mul(165).wrapping_add(13);
        byte
    };
    let room = [0; 1088];
    let packet = |_| Packet { payload: core::array::from_fn(|_| next()), room };
    let mut packets: Vec<Packet> = (0..shape.data() + shape.parity()).map(packet).collect();
    let (data, parity) = packets.split_at_mut(usize::from(shape.data()));
    let data: Vec<&[u8]> = data.iter().map(Packet::as_ref).collect();
    let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(Packet::as_mut).collect();
    Codec::new(shape).encode(&data, &mut parity);
    packets
}

fn measured(codec: &Codec) -> Figures {
    let shape = codec.shape();
    let mut packets = block(shape);
    let (data, parity) = packets.split_at_mut(usize::from(shape.data()));
    let data: Vec<&[u8]> = data.iter().map(Packet::as_ref).collect();
    let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(Packet::as_mut).collect();
    let encode = rate(shape, || codec.encode(black_box(&data), black_box(&mut parity)));
    let stream = rate(shape, || {
        for (index, packet) in (0..).zip(&data) {
            codec.update(index, black_box(packet), black_box(&mut parity));
        }
    });
    let decode = |lost: u32| {
        let mut packets = block(shape);
        let mut packets: Vec<&mut [u8]> = packets.iter_mut().map(Packet::as_mut).collect();
        let have = u64::MAX << lost;
        (u32::from(shape.parity()) >= lost)
            .then(|| {
                rate(shape, || {
                    let packets = black_box(&mut packets);
                    codec.decode(shape.data(), have, packets).expect("enough packets");
                })
            })
            .flatten()
    };
    [encode, stream, decode(1), decode(2)]
}

/// The same of `reed-solomon-erasure`.
fn oracle(shape: BlockShape) -> Figures {
    let (data, parity) = (usize::from(shape.data()), usize::from(shape.parity()));
    let code = ReedSolomon::new(data, parity).expect("a shape");
    let mut packets = block(shape);
    let (sources, outputs) = packets.split_at_mut(data);
    let encode = rate(shape, || {
        code.encode_sep(black_box(sources), black_box(outputs)).expect("sound packets");
    });
    let stream = rate(shape, || {
        for (index, packet) in sources.iter().enumerate() {
            code.encode_single_sep(index, black_box(packet.as_ref()), black_box(outputs))
                .expect("sound packets");
        }
    });
    let decode = |lost: usize| {
        let mut packets: Vec<(Packet, bool)> =
            block(shape).into_iter().map(|packet| (packet, true)).collect();
        (parity >= lost)
            .then(|| {
                rate(shape, || {
                    packets[..lost].iter_mut().for_each(|packet| packet.1 = false);
                    code.reconstruct_data(black_box(&mut packets)).expect("enough packets");
                })
            })
            .flatten()
    };
    [encode, stream, decode(1), decode(2)]
}
