//! GB/s of payload through the erasure code, hot in the cache, every kernel beside the crate
//! `reed-solomon-erasure`.
//!
//! Run: `cargo bench -p transport-gf --features simd-accel`, which compares with that crate's SIMD
//! code; without the feature, with its portable code. The codes take turns, and times are of the
//! fastest of many runs, for a busy machine only ever adds to them. Not a test: wall time on a busy
//! machine means little.
//!
//! Both crates decode the same packets from the same ones in the same order of memory: data packets
//! in place, parity not restored. The other crate keeps the matrices that it has inverted and looks
//! one up; here the factors are computed for each block.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use std::hint::black_box;
use std::time::Instant as Wall;

use reed_solomon_erasure::galois_8::ReedSolomon;
use transport::ec::BlockShape;
use transport_gf::{Codec, Kernel};

/// Payload of a packet.
const LEN: usize = 4096;
/// Turns of a code, and runs in a turn.
const TURNS: u32 = 6;
const RUNS: u32 = 500;
const BLOCKS_A_RUN: u32 = 20;

fn main() {
    let simd = if cfg!(feature = "simd-accel") { "simd-accel" } else { "portable" };
    let runs = TURNS * RUNS;
    println!("GB/s of payload, {LEN} B packets, hot, best of {runs} runs; rse is {simd}");
    println!("lost: data packets; no spare: one of them, and all parity but the last");
    println!("shape    code         encode      stream      lost 1    no spare      lost 2");
    for (data, parity) in [(8, 2), (4, 1), (16, 4)] {
        let shape = BlockShape::new(data, parity).expect("a shape");
        let mut codecs = Vec::new();
        for kernel in Kernel::ALL {
            codecs.extend(Codec::with_kernel(shape, *kernel));
        }
        let mut base = Figures::default();
        let mut figures = vec![Figures::default(); codecs.len()];
        for _ in 0..TURNS {
            faster(&mut base, oracle(shape));
            for (figures, codec) in figures.iter_mut().zip(&codecs) {
                faster(figures, measured(codec));
            }
        }
        line(shape, "rse", base, None);
        for (figures, codec) in figures.into_iter().zip(&codecs) {
            line(shape, codec.kernel().name(), figures, Some(base));
        }
    }
}

/// Encoding at once, packet by packet, and decoding: one lost data packet, the same without parity
/// to spare, two.
type Figures = [Option<f64>; 5];

fn faster(best: &mut Figures, figures: Figures) {
    for (best, figure) in best.iter_mut().zip(figures) {
        *best = figure.map(|figure| best.map_or(figure, |best| best.max(figure)));
    }
}

fn line(shape: BlockShape, name: &str, figures: Figures, base: Option<Figures>) {
    print!("({shape:<5}) {name:<9}");
    for (at, figure) in figures.iter().enumerate() {
        let ratio = base.and_then(|base| base[at]).zip(*figure).map(|(base, own)| own / base);
        let ratio = ratio.map_or(String::new(), |ratio| format!("x{ratio:.2}"));
        print!("{:>6} {ratio:<5}", figure.map_or("-".into(), |gbps| format!("{gbps:.1}")));
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

/// Bit i: packet i is there.
fn have(shape: BlockShape, (lost, spare): (u8, bool)) -> u64 {
    let all = (1_u64 << (shape.data() + shape.parity())) - 1;
    let first_parity = if spare { 0 } else { (1 << (shape.parity() - 1)) - 1 };
    all & !((1 << lost) - 1) & !(first_parity << shape.data())
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
    let decode = |lost: u8, spare: bool| {
        let mut packets = block(shape);
        let mut packets: Vec<&mut [u8]> = packets.iter_mut().map(Packet::as_mut).collect();
        let have = have(shape, (lost, spare));
        (shape.parity() >= lost)
            .then(|| {
                rate(shape, || {
                    let packets = black_box(&mut packets);
                    codec.decode(shape.data(), have, packets).expect("enough packets");
                })
            })
            .flatten()
    };
    [encode, stream, decode(1, true), decode(1, false), decode(2, true)]
}

/// The figures of `reed-solomon-erasure`.
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
    let decode = |lost: u8, spare: bool| {
        let have = have(shape, (lost, spare));
        let there = |number: usize| have >> number & 1 != 0;
        let mut packets: Vec<(Packet, bool)> =
            block(shape).into_iter().zip((0..).map(there)).collect();
        (shape.parity() >= lost)
            .then(|| {
                rate(shape, || {
                    packets[..usize::from(lost)].iter_mut().for_each(|packet| packet.1 = false);
                    code.reconstruct_data(black_box(&mut packets)).expect("enough packets");
                })
            })
            .flatten()
    };
    [encode, stream, decode(1, true), decode(1, false), decode(2, true)]
}
