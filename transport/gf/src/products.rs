//! Inputs of kernels: sums of products of packets and constants, as plain data.

/// The coefficients of a sum of products: output `j` takes source `i` times
/// `bytes[j * stride + i]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coefficients<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) stride: usize,
}

impl Coefficients<'_> {
    pub(crate) fn at(&self, output: usize, source: usize) -> u8 {
        self.bytes[output * self.stride + source]
    }

    /// The coefficients of the outputs from `first` on.
    pub(crate) fn outputs_from(&self, first: usize) -> Self {
        Self { bytes: &self.bytes[first * self.stride..], stride: self.stride }
    }

    /// The coefficients of the sources from `first` on.
    pub(crate) fn sources_from(&self, first: usize) -> Self {
        Self { bytes: &self.bytes[first..], stride: self.stride }
    }
}

/// Two neighbours, x and y.
pub(crate) type Pair<'a> = [&'a [u8]; 2];

/// A pair adds the first times x + y and the second times y to a sum, and the third times x + y to
/// a difference.
pub(crate) type Factors = [u8; 3];

/// The last step of two outputs that are not just the sum, and the sum plus the difference. With
/// the two packets u and v `beside` it gives
///
/// ```text
///   s      = sum + by[0] u + by[1] v
///   first  = s + u
///   second = by[2] (s + difference) + v
/// ```
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail<'a> {
    pub(crate) beside: [&'a [u8]; 2],
    pub(crate) by: [u8; 3],
}

impl Tail<'_> {
    pub(crate) const NONE: Self = Self { beside: [&[], &[]], by: [0; 3] };
}
