//! The kernels for x86-64, one a file.
//!
//! Two things are unsafe here: reading vectors, which goes through `load` of one array each, and
//! calling a function that needs a feature of the processor.
#![allow(unsafe_code, reason = "vector intrinsics; the only files of this crate that may")]

/// The processor's features for [`avx512`].
pub(crate) fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vpopcntdq")
        && has_avx2()
}

/// The processor's features for [`avx2`].
pub(crate) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("lzcnt")
}

/// A kernel of the functions of its file: its operations, and `enter`, which runs a job with the
/// features that they need.
macro_rules! kernel {
    ($kernel:ident if $has:ident, $lacks:literal, $features:literal) => {
        /// The operations. Used inside [`enter`] alone.
        #[derive(Debug)]
        pub(crate) struct $kernel;

        /// Runs `job` with the features of this kernel.
        ///
        /// # Panics
        /// When the processor lacks one.
        pub(crate) fn enter<J: crate::ops::Job>(job: J) -> J::Out {
            assert!(super::$has(), $lacks);
            // SAFETY: the processor has every feature of `inside`, as the line above made sure.
            unsafe { inside(job) }
        }

        #[target_feature(enable = $features)]
        fn inside<J: crate::ops::Job>(job: J) -> J::Out {
            job.run::<$kernel>()
        }

        impl crate::ops::Ops for $kernel {
            $crate::x86::operations! {
                fn candidates(up: u32, down: &Words, row: &Words, free: &Words, wide: bool) -> u32;
                fn equal(bytes: &[u8], byte: u8) -> u32;
                fn nth_bit(mask: u32, n: u32) -> u32;
                fn count(row: &Words, free: &Words, counts: &mut Words, wide: bool) -> ();
                fn paths(up: u32, down: &Words, mass: &mut Mass, wide: bool) -> ();
                fn places(
                    left: &mut Words, mass: &mut Mass, down: (&Words, u32), lanes: &mut Words,
                    out: &mut Words, wide: bool
                ) -> ();
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

use {kernel, operations};

pub(crate) mod avx2;
pub(crate) mod avx512;
