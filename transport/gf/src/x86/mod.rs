//! The kernels for x86-64, one a file.
//!
//! What is unsafe here is reading and writing vectors, which goes through `load` and `store` of one
//! array or slice each, and calling a function that needs a feature of the processor.
#![allow(unsafe_code, reason = "vector intrinsics; the only files of this crate that may")]

/// Outputs that one pass over the sources computes.
const GROUP: usize = 4;

/// Sources of one sum at most. Decoding replaces a data packet by a parity packet, so they are as
/// many as a block has data packets.
const SOURCES: usize = transport::ec::DATA_MAX as usize;

/// What [`gfni`] needs.
pub(crate) fn has_gfni() -> bool {
    is_x86_feature_detected!("gfni")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
}

/// What [`avx2`] needs.
pub(crate) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

/// The `U` vectors from byte `at` on.
#[inline]
fn column<const W: usize, const U: usize>(bytes: &[u8], at: usize) -> &[[u8; W]; U] {
    bytes[at..].as_chunks().0.first_chunk().expect("columns are whole")
}

/// As [`column`].
#[inline]
fn column_mut<const W: usize, const U: usize>(bytes: &mut [u8], at: usize) -> &mut [[u8; W]; U] {
    bytes[at..].as_chunks_mut().0.first_chunk_mut().expect("columns are whole")
}

/// The two entries of a kernel, over its functions for `1..=GROUP` outputs.
macro_rules! entries {
    ($supported:path) => {
        /// See [`crate::kernel::Kernel::add`].
        pub(crate) fn add(rows: Coefficients<'_>, source: &[u8], outputs: &mut [&mut [u8]]) {
            debug_assert!($supported());
            for (group, outputs) in outputs.chunks_mut(GROUP).enumerate() {
                let rows = rows.outputs_from(group * GROUP);
                // SAFETY: the processor has the features, for no codec with this kernel exists on
                // another (`Codec::with_kernel`, `Kernel::best`).
                unsafe {
                    match outputs {
                        [a] => add_to([a], rows, source),
                        [a, b] => add_to([a, b], rows, source),
                        [a, b, c] => add_to([a, b, c], rows, source),
                        [a, b, c, d] => add_to([a, b, c, d], rows, source),
                        _ => {}
                    }
                }
            }
        }

        /// See [`crate::kernel::Kernel::combine`].
        pub(crate) fn combine(
            rows: Coefficients<'_>,
            sources: &[&[u8]],
            outputs: &mut [&mut [u8]],
            len: usize,
        ) {
            debug_assert!($supported());
            for (group, outputs) in outputs.chunks_mut(GROUP).enumerate() {
                let rows = rows.outputs_from(group * GROUP);
                let pairs = |first: usize| {
                    let rows = rows.outputs_from(first);
                    rows.exchange_neighbours(sources.len())
                };
                // SAFETY: as in `add`.
                unsafe {
                    match outputs {
                        [a] => combine_into::<1, ONE>([a], rows, sources, len),
                        [a, b] if pairs(0) => combine_pair([a, b], rows, sources, len),
                        [a, b] => combine_into::<2, TWO>([a, b], rows, sources, len),
                        [a, b, c] => combine_into::<3, FOUR>([a, b, c], rows, sources, len),
                        [a, b, c, d] if pairs(0) && pairs(2) => {
                            combine_pair([a, b], rows, sources, len);
                            combine_pair([c, d], rows.outputs_from(2), sources, len);
                        }
                        [a, b, c, d] => combine_into::<4, FOUR>([a, b, c, d], rows, sources, len),
                        _ => {}
                    }
                }
            }
        }
    };
}

pub(crate) mod avx2;
pub(crate) mod gfni;
