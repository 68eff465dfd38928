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

/// The processor's features for [`gfni`].
pub(crate) fn has_gfni() -> bool {
    is_x86_feature_detected!("gfni")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
}

/// The processor's features for [`avx2`].
pub(crate) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

/// The `U` vectors from byte `at` on.
#[inline]
fn column<const W: usize, const U: usize>(bytes: &[u8], at: usize) -> &[[u8; W]; U] {
    bytes[at..].as_chunks().0.first_chunk().expect("columns are whole")
}

/// [`column`], for writing.
#[inline]
fn column_mut<const W: usize, const U: usize>(bytes: &mut [u8], at: usize) -> &mut [[u8; W]; U] {
    bytes[at..].as_chunks_mut().0.first_chunk_mut().expect("columns are whole")
}

/// A call with one to four pairs and their factors, as arrays.
macro_rules! each_count {
    ($all:expr, |$some:ident| $call:expr) => {
        if let Some($some) = $crate::x86::pairs::first::<4, _>($all) {
            $call
        } else if let Some($some) = $crate::x86::pairs::first::<3, _>($all) {
            $call
        } else if let Some($some) = $crate::x86::pairs::first::<2, _>($all) {
            $call
        } else if let Some($some) = $crate::x86::pairs::first::<1, _>($all) {
            $call
        }
    };
}

/// The entries of a kernel, over its functions for `1..=GROUP` outputs.
macro_rules! entries {
    ($supported:path) => {
        /// See [`crate::kernel::Kernel::add`].
        pub(crate) fn add(rows: &Coefficients<'_>, source: &[u8], outputs: &mut [&mut [u8]]) {
            debug_assert!($supported());
            for (group, outputs) in outputs.chunks_mut(GROUP).enumerate() {
                let rows = &rows.outputs_from(group * GROUP);
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
            rows: &Coefficients<'_>,
            sources: &[&[u8]],
            outputs: &mut [&mut [u8]],
            len: usize,
        ) {
            debug_assert!($supported());
            for (group, outputs) in outputs.chunks_mut(GROUP).enumerate() {
                let rows = &rows.outputs_from(group * GROUP);
                // SAFETY: as in `add`.
                unsafe {
                    match outputs {
                        [a] => combine_into::<1, ONE>([a], rows, sources, len),
                        [a, b] => combine_into::<2, TWO>([a, b], rows, sources, len),
                        [a, b, c] => combine_into::<3, FOUR>([a, b, c], rows, sources, len),
                        [a, b, c, d] => combine_into::<4, FOUR>([a, b, c, d], rows, sources, len),
                        _ => {}
                    }
                }
            }
        }

        /// See [`crate::kernel::Kernel::combine_pairs`].
        pub(crate) fn combine_pairs(
            (pairs, by): (&[Pair<'_>], &[Factors]),
            tail: Option<&Tail<'_>>,
            outputs: &mut [&mut [u8]; 2],
            len: usize,
        ) {
            debug_assert!($supported());
            let count = pairs.len();
            // SAFETY: as in `add`.
            unsafe {
                let mut left = (pairs, by);
                while let Some((four, pairs)) = left.0.split_first_chunk::<4>()
                    && let Some((four_by, by)) = left.1.split_first_chunk::<4>()
                    && !pairs.is_empty()
                {
                    let how = (len, left.0.len() == count);
                    pairs_into::<4, false>(outputs, (four, four_by), &Tail::NONE, how);
                    left = (pairs, by);
                }
                let how = (len, left.0.len() == count);
                match tail {
                    Some(tail) => {
                        each_count!(left, |some| pairs_into::<_, true>(outputs, some, tail, how))
                    }
                    None => each_count!(left, |some| pairs_into::<_, false>(
                        outputs,
                        some,
                        &Tail::NONE,
                        how
                    )),
                }
            }
        }

        /// See [`crate::kernel::Kernel::chain_pairs`].
        pub(crate) fn chain_pairs(
            (pairs, by): (&[Pair<'_>], &[u8]),
            beside: &[u8],
            output: &mut [u8],
            len: usize,
        ) {
            debug_assert!($supported());
            let count = pairs.len();
            // SAFETY: as in `add`.
            unsafe {
                let mut left = (pairs, by);
                while let Some((pairs, four)) = left.0.split_last_chunk::<4>()
                    && let Some((by, four_by)) = left.1.split_last_chunk::<4>()
                    && !pairs.is_empty()
                {
                    let how = (len, left.0.len() == count);
                    chain_into::<4, false>(output, (four, four_by), None, how);
                    left = (pairs, by);
                }
                if left.0.len() == count {
                    each_count!(left, |some| chain_into::<_, true>(
                        output,
                        some,
                        Some(beside),
                        (len, true)
                    ));
                } else {
                    each_count!(left, |some| chain_into::<_, false>(
                        output,
                        some,
                        Some(beside),
                        (len, false)
                    ));
                }
            }
        }
    };
}

pub(crate) mod avx2;
pub(crate) mod gfni;
mod pairs;
