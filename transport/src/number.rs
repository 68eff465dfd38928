//! Numbers as text: integers, exact decimals, and quantities with a unit.
//!
//! Decimals are scaled in integers, never through a float, so `0.1` microseconds is 100000 ps
//! exactly. Digits finer than the scale are cut off.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use crate::time::{Duration, Rate};
use crate::units::Bytes;

/// Why a text is not the number that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberError {
    /// The text is no number of the expected form.
    Malformed,
    /// The number is too large to hold.
    TooLarge,
}

impl fmt::Display for NumberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => {
                "not a number of this form; write digits, then the unit if it has one"
            }
            Self::TooLarge => "a number too large to hold; write a smaller one",
        })
    }
}

/// An integer of decimal digits only.
///
/// # Errors
/// Returns [`NumberError`] when there are no digits, when other characters are among them, or when
/// the number does not fit into 64 bits.
pub fn integer(text: &[u8]) -> Result<u64, NumberError> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(NumberError::Malformed);
    }
    text.iter()
        .try_fold(0u64, |value, &digit| {
            let shifted = value.checked_mul(10)?;
            shifted.checked_add(u64::from(digit - b'0'))
        })
        .ok_or(NumberError::TooLarge)
}

/// `12`, `0.5`, `1e-3`: the value times 10^`scale`, cut to an integer.
///
/// # Errors
/// [`NumberError`] when `text` is not of that form (signs included) or the result needs more than
/// 64 bits.
pub fn decimal(text: &[u8], scale: u32) -> Result<u64, NumberError> {
    cut(text, scale).map(|(value, _)| value)
}

/// What [`decimal`] gives, and whether nothing but zeros was cut off.
fn cut(text: &[u8], scale: u32) -> Result<(u64, bool), NumberError> {
    let at_e = text.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (mantissa, exponent) = match at_e {
        None => (text, 0),
        Some(at) => (&text[..at], exponent(&text[at + 1..])?),
    };
    let at_point = mantissa.iter().position(|&byte| byte == b'.').unwrap_or(mantissa.len());
    let whole = &mantissa[..at_point];
    let fraction = mantissa.get(at_point + 1..).unwrap_or(&[]);
    let mut digits = whole.iter().chain(fraction);
    if whole.len() + fraction.len() == 0 || !digits.clone().all(u8::is_ascii_digit) {
        return Err(NumberError::Malformed);
    }
    // The digits that count are those before the decimal point once it has moved by the scale.
    let whole_len = i64::try_from(whole.len()).map_err(|_| NumberError::TooLarge)?;
    let mut left = whole_len + exponent + i64::from(scale);
    let mut value = 0u64;
    while left > 0 {
        let Some(&digit) = digits.next() else {
            if value == 0 {
                break;
            }
            value = value.checked_mul(10).ok_or(NumberError::TooLarge)?;
            left -= 1;
            continue;
        };
        let shifted = value.checked_mul(10).ok_or(NumberError::TooLarge)?;
        value = shifted.checked_add(u64::from(digit - b'0')).ok_or(NumberError::TooLarge)?;
        left -= 1;
    }
    Ok((value, digits.all(|digit| *digit == b'0')))
}

fn exponent(text: &[u8]) -> Result<i64, NumberError> {
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        rest => (1, rest),
    };
    let size = integer(digits)?;
    if size > EXPONENT_MAX {
        return Err(NumberError::TooLarge);
    }
    i64::try_from(size).map(|size| sign * size).map_err(|_| NumberError::TooLarge)
}

/// Largest exponent: no quantity here needs a larger one, and it bounds the work of [`decimal`].
const EXPONENT_MAX: u64 = 400;

/// A count of bytes: `65536`, `64KiB`, `1.5MB`; no unit means bytes.
///
/// # Errors
/// [`NumberError`] when it is no number, has an unknown unit, or does not fit.
pub fn bytes(text: &str) -> Result<Bytes, NumberError> {
    let (digits, unit) = split_unit(text);
    let (scale, factor) = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => (0, 1),
        "kb" | "k" => (3, 1),
        "mb" | "m" => (6, 1),
        "gb" | "g" => (9, 1),
        "kib" => (0, 1u64 << 10),
        "mib" => (0, 1 << 20),
        "gib" => (0, 1 << 30),
        _ => return Err(NumberError::Malformed),
    };
    if factor == 1 {
        let (count, is_whole) = cut(digits.as_bytes(), scale)?;
        // A part of a byte is a slip where the unit is the byte.
        let is_slip = scale == 0 && !is_whole;
        return if is_slip { Err(NumberError::Malformed) } else { Ok(Bytes(count)) };
    }
    // Three decimals of a binary unit are kept: 1.5KiB is 1536.
    let milli = u128::from(decimal(digits.as_bytes(), 3)?) * u128::from(factor) / 1000;
    u64::try_from(milli).map(Bytes).map_err(|_| NumberError::TooLarge)
}

/// A span of time: `10us`, `1.5ms`, `600ns`, `2s`, `41600ps`; no unit means microseconds.
///
/// # Errors
/// [`NumberError`] when it is no number, has an unknown unit, exceeds 2^64 ps, or is shorter than a
/// picosecond and not zero.
pub fn duration(text: &str) -> Result<Duration, NumberError> {
    let (span, is_whole) = span(text)?;
    // What is cut off a longer span is no loss.
    if span == Duration::ZERO && !is_whole { Err(NumberError::Malformed) } else { Ok(span) }
}

/// [`duration`], of whole nanoseconds.
///
/// # Errors
/// [`NumberError`], also when a part of a nanosecond is left.
pub fn whole_ns(text: &str) -> Result<Duration, NumberError> {
    let (span, is_whole) = span(text)?;
    let is_whole = is_whole && span.as_ps().is_multiple_of(1000);
    if is_whole { Ok(span) } else { Err(NumberError::Malformed) }
}

/// A span of time, cut to picoseconds, and whether nothing but zeros was cut off.
fn span(text: &str) -> Result<(Duration, bool), NumberError> {
    let (digits, unit) = split_unit(text);
    let scale = match unit {
        "ps" => 0,
        "ns" => 3,
        "" | "us" => 6,
        "ms" => 9,
        "s" => 12,
        _ => return Err(NumberError::Malformed),
    };
    cut(digits.as_bytes(), scale).map(|(ps, is_whole)| (Duration::from_ps(ps), is_whole))
}

/// A rate: `100Gbps`, `2.5Gbps`, `800Mbps`; no unit means Gbps.
///
/// # Errors
/// [`NumberError`] when it is no number, has an unknown unit, or exceeds 2^64 bit/s.
pub fn rate(text: &str) -> Result<Rate, NumberError> {
    let (digits, unit) = split_unit(text);
    let scale = match unit.to_ascii_lowercase().as_str() {
        "bps" => 0,
        "kbps" => 3,
        "mbps" => 6,
        "" | "gbps" => 9,
        "tbps" => 12,
        _ => return Err(NumberError::Malformed),
    };
    decimal(digits.as_bytes(), scale).map(Rate::from_bps)
}

/// A finite decimal number; for probabilities and factors.
///
/// # Errors
/// [`NumberError::Malformed`] when it is none, `inf` and `nan` included, or so small that it would
/// be held as zero.
pub fn real(text: &[u8]) -> Result<f64, NumberError> {
    let value = core::str::from_utf8(text).ok().and_then(held::<f64>);
    value.filter(|value| value.is_finite()).ok_or(NumberError::Malformed)
}

/// A number that its type holds; `None` where `text` is no such number, or where it would be held
/// as zero and is not, since zero often means something else.
#[must_use]
pub fn held<T: FromStr + Default + PartialEq>(text: &str) -> Option<T> {
    let value: T = text.parse().ok()?;
    let mut mantissa = text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E'));
    let is_zero = mantissa.all(|byte| !matches!(byte, b'1'..=b'9'));
    (is_zero || value != T::default()).then_some(value)
}

/// Writes `span` in microseconds, with the fraction that is there and no trailing zeros.
///
/// # Errors
/// When `f` refuses text.
pub fn write_us(f: &mut impl fmt::Write, span: Duration) -> fmt::Result {
    let (whole, fraction) = (span.as_ps() / PS_PER_US, span.as_ps() % PS_PER_US);
    write!(f, "{whole}")?;
    if fraction > 0 {
        let digits = format!("{fraction:06}");
        write!(f, ".{}", digits.trim_end_matches('0'))?;
    }
    Ok(())
}

/// The text of `span` in microseconds, exactly, as [`duration`] reads it: `8.571918us`.
#[must_use]
pub fn us_text(span: Duration) -> String {
    let mut text = String::new();
    // A string takes all that is written to it.
    let _ = write_us(&mut text, span);
    text + "us"
}

const PS_PER_US: u64 = 1_000_000;

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    (digits.trim_end(), &text[digits.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_where_a_float_would_not_be() {
        assert_eq!(decimal(b"0.1", 6), Ok(100_000));
        assert_eq!(decimal(b"12.000001", 6), Ok(12_000_001));
        assert_eq!(decimal(b"1e-05", 6), Ok(10));
        assert_eq!(decimal(b"1.5e3", 0), Ok(1_500));
        assert_eq!(decimal(b".5", 1), Ok(5));
        assert_eq!(decimal(b"0.0000009", 6), Ok(0));
        assert_eq!(decimal(b"18446744073709551615", 0), Ok(u64::MAX));
    }

    #[test]
    fn numbers_too_large_and_malformed_ones_differ() {
        assert_eq!(decimal(b"18446744073709551616", 0), Err(NumberError::TooLarge));
        assert_eq!(decimal(b"1e300", 0), Err(NumberError::TooLarge));
        assert_eq!(decimal(b"1e99999999999999999999", 0), Err(NumberError::TooLarge));
        assert_eq!(decimal(b"0e300", 0), Ok(0));
        for text in ["", ".", "-1", "+1", "1.2.3", "0x10", "1_000", "nan", "e5", "1e"] {
            assert_eq!(decimal(text.as_bytes(), 6), Err(NumberError::Malformed), "{text}");
        }
        assert_eq!(integer(b"99999999999999999999"), Err(NumberError::TooLarge));
    }

    #[test]
    fn quantities_take_the_units_of_common_use() {
        assert_eq!(bytes("64KiB"), Ok(Bytes(65_536)));
        assert_eq!(bytes("1.5 MiB"), Ok(Bytes(1_572_864)));
        assert_eq!(bytes("2MB"), Ok(Bytes(2_000_000)));
        assert_eq!(bytes("2.0"), Ok(Bytes(2)));
        assert_eq!(bytes("1.5e3B"), Ok(Bytes(1500)));
        for part in ["1.5", "0.5b", "1.0004", "18446744073709551615.1"] {
            assert_eq!(bytes(part), Err(NumberError::Malformed), "{part}");
        }
        assert_eq!(bytes("1.0001KB"), Ok(Bytes(1000)));
        assert_eq!(bytes("18446744073709551615"), Ok(Bytes(u64::MAX)));
        assert_eq!(duration("1.5ms"), Ok(Duration::from_us(1_500)));
        assert_eq!(duration("7"), Ok(Duration::from_us(7)));
        assert_eq!(rate("2.5Gbps"), Ok(Rate::from_bps(2_500_000_000)));
        assert_eq!(bytes("3 parsecs"), Err(NumberError::Malformed));
        assert_eq!(real(b"inf"), Err(NumberError::Malformed));
    }

    #[test]
    fn numbers_that_are_too_small_to_hold_are_no_zeros() {
        for (text, held) in [("0", 0), ("0.0ns", 0), ("0e-9s", 0), ("1ps", 1), ("1.7ps", 1)] {
            assert_eq!(duration(text), Ok(Duration::from_ps(held)), "{text}");
        }
        for text in ["0.1ps", "0.0004ns", "1e-13s"] {
            assert_eq!(duration(text), Err(NumberError::Malformed), "{text}");
        }
        for (text, held) in [("0", Ok(0.0)), ("0e-999", Ok(0.0)), ("1e-300", Ok(1e-300))] {
            assert_eq!(real(text.as_bytes()), held, "{text}");
        }
        assert_eq!(real(b"1e-999"), Err(NumberError::Malformed));
        let floats = ["0", "0.00", "0e-9", "1e-8", "1e-300", "0.0e", "-1e-99"].map(held::<f32>);
        let zero = Some(0.0);
        assert_eq!(floats, [zero, zero, zero, Some(1e-8), None, None, None]);
        assert_eq!([held::<u16>("0"), held("10"), held("65536")], [Some(0), Some(10), None]);
    }

    #[test]
    fn microseconds_are_written_back_without_loss() {
        for ps in [0, 1, 100_000, 1_000_000, 1_500_000, 12_000_001, u64::MAX] {
            let mut text = String::new();
            write_us(&mut text, Duration::from_ps(ps)).unwrap();
            assert_eq!(decimal(text.as_bytes(), 6), Ok(ps), "{text}");
        }
    }
}
