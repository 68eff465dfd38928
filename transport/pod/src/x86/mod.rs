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

pub(crate) mod avx2;
pub(crate) mod avx512;
