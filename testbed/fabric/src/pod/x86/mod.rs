//! The kernels for x86-64, one a file.
//!
//! Three things are unsafe here: reading vectors, which goes through `load` of one array each,
//! calling a function that needs a feature of the processor, and the hint of [`prefetch`].
#![allow(unsafe_code, reason = "vector intrinsics; the only files of this crate that may")]

/// The processor's features for [`avx512`].
pub(super) fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vpopcntdq")
        && has_avx2()
}

/// The processor's features for [`avx2`].
pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("lzcnt")
}

/// Asks for the line of `place` to be brought into the cache.
#[inline]
pub(super) fn prefetch<T>(place: &T) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint; it reads nothing that the program could see.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(place).cast()) };
}

/// A kernel of the functions of its file: its operations, and `enter`, which runs a job with the
/// features that they need.
macro_rules! kernel {
    ($kernel:ident if $has:ident, $lacks:literal, $features:literal) => {
        /// The operations. Used inside [`enter`] alone.
        #[derive(Debug)]
        pub(in crate::pod) struct $kernel;

        /// Runs `job` with the features of this kernel.
        ///
        /// # Panics
        /// When the processor lacks one.
        pub(in crate::pod) fn enter<J: crate::pod::ops::KernelJob>(job: J) -> J::Out {
            assert!(super::$has(), $lacks);
            // SAFETY: the processor has every feature of `inside`, as the line above made sure.
            unsafe { inside(job) }
        }

        #[target_feature(enable = $features)]
        fn inside<J: crate::pod::ops::KernelJob>(job: J) -> J::Out {
            job.run::<$kernel>()
        }

        impl crate::pod::ops::Ops for $kernel {
            $crate::pod::x86::operations! {
                fn candidates(up: u32, down: &Words, row: &Words, free: &Words, wide: bool) -> u32;
                fn equal(bytes: &[u8], byte: u8) -> u32;
                fn nth_bit(mask: u32, n: u32) -> u32;
                fn count(row: &Words, free: &Words, counts: &mut Words, wide: bool) -> ();
                fn places(
                    left: &mut Words, mass: &mut Mass, down: (&Words, u32), lanes: &mut Words,
                    out: &mut Words, wide: bool
                ) -> ();
                fn advance(lanes: &mut Words, steps: u32, wide: bool) -> ();
                fn first(places: &Words, held: &Words, wide: bool) -> Option<(usize, u32)>;
            }
        }
    };
}

/// Operations that are the functions of the same names.
macro_rules! operations {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty;)*) => {
        $(
            #[inline(always)]
            fn $name($($arg: $type),*) -> $out {
                // SAFETY: only `inside` runs jobs with these operations, and it has the features.
                unsafe { $name($($arg),*) }
            }
        )*
    };
}

/// What the kernels of every width share: vectors to and from memory, and the functions of
/// [`crate::pod::ops`] in each lane. The file of a kernel names the instructions, as `mod lanes`.
macro_rules! lanes {
    ($count:literal x $ints:ident, $floats:ident, $features:literal) => {
        #[target_feature(enable = $features)]
        #[inline]
        fn load(words: &[u32; $count]) -> $ints {
            // SAFETY: reads the bytes of the array; no alignment is needed.
            unsafe { lanes::load_bits(words.as_ptr().cast()) }
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn store(words: &mut [u32; $count], vector: $ints) {
            // SAFETY: writes the bytes of the array; no alignment is needed.
            unsafe { lanes::store_bits(words.as_mut_ptr().cast(), vector) }
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn load_mass(mass: &[f32; $count]) -> $floats {
            // SAFETY: reads the bytes of the array; no alignment is needed.
            unsafe { lanes::load_ps(mass.as_ptr()) }
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn store_mass(mass: &mut [f32; $count], vector: $floats) {
            // SAFETY: writes the bytes of the array; no alignment is needed.
            unsafe { lanes::store_ps(mass.as_mut_ptr(), vector) }
        }

        /// See [`crate::pod::ops::xorshift`].
        #[target_feature(enable = $features)]
        #[inline]
        fn xorshift(bits: $ints) -> $ints {
            let bits = lanes::xor(bits, lanes::shift_left::<13>(bits));
            let bits = lanes::xor(bits, lanes::shift_right::<17>(bits));
            lanes::xor(bits, lanes::shift_left::<5>(bits))
        }

        /// See [`crate::pod::ops::Ops::advance`].
        #[target_feature(enable = $features)]
        #[inline]
        fn advance(lanes: &mut Words, steps: u32, wide: bool) {
            let count = if wide { LANES / $count } else { LANES / 2 / $count };
            for lanes in lanes.0.as_chunks_mut().0.iter_mut().take(count) {
                let mut bits = load(lanes);
                for _ in 0..steps {
                    bits = xorshift(bits);
                }
                store(lanes, bits);
            }
        }

        /// See [`crate::pod::ops::place`].
        #[target_feature(enable = $features)]
        #[inline]
        fn place(count: $ints, mass: $floats, bits: $ints) -> $floats {
            use lanes::{
                add_ps as add, all, all_ps as set, div_ps as div, mul_ps as mul, sub_ps as sub,
            };
            use $crate::pod::ops::{EXP2, LOG2, ULP};
            let one = set(1.0);
            let u = mul(add(lanes::to_floats(lanes::shift_right::<9>(bits)), set(0.5)), set(ULP));
            let u = lanes::to_bits(u);
            let exponent = lanes::to_floats(lanes::sub(lanes::shift_right::<23>(u), all(127)));
            let m = lanes::or(lanes::and(u, all(0x007F_FFFF)), all(0x3F80_0000));
            let m = lanes::from_bits(m);
            let z = div(sub(m, one), add(m, one));
            let z2 = mul(z, z);
            let log2 = add(set(LOG2[2]), mul(z2, set(LOG2[3])));
            let log2 = add(set(LOG2[0]), mul(z2, add(set(LOG2[1]), mul(z2, log2))));
            let log2 = add(exponent, mul(z, log2));
            let t = div(sub(set(0.0), log2), lanes::to_floats(count));
            let whole = lanes::to_ints(t);
            let f = sub(t, lanes::to_floats(whole));
            let r = sub(set(EXP2[3]), mul(f, sub(set(EXP2[4]), mul(f, set(EXP2[5])))));
            let r = sub(set(EXP2[1]), mul(f, sub(set(EXP2[2]), mul(f, r))));
            let r = mul(f, sub(set(EXP2[0]), mul(f, r)));
            let s = lanes::from_bits(lanes::shift_left::<23>(lanes::sub(all(127), whole)));
            mul(mass, add(sub(one, s), mul(s, r)))
        }
    };
}

use {kernel, lanes, operations};

pub(super) mod avx2;
pub(super) mod avx512;
