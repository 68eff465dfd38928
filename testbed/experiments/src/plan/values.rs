//! The texts of settings: how values are read, and shown as text that sets them.
//!
//! A reader says what it expects where a text is no value; its setting's own line has the range.

use std::num::NonZeroU32;

use fabric::QdiscKind;
use transport::cc::CcKind;
use transport::ec::{BlockShape, EcKind};
use transport::lb::LbKind;
use transport::wire::int::HOPS_MAX;
use transport::{Bytes, Duration};

use crate::input::number;
use crate::series::INTERVAL_MIN;
use crate::workload::matrix::MESSAGE_MAX;

/// The code of a text that names none.
const CODE_DEFAULT: EcKind = EcKind::Mds;

/// An erasure code and its blocks.
pub(super) fn code(text: &str) -> Result<(EcKind, BlockShape), &'static str> {
    let expected = "off, auto, or X,Y or auto:X,Y: 1..=48 data and 1..=16 parity segments of a \
                    block, like 8,2";
    // A name alone has the blocks of the default.
    if let Some(kind) = EcKind::by_name(text) {
        return Ok((kind, BlockShape::default()));
    }
    let (kind, shape) = match text.split_once(':') {
        Some((name, shape)) => (EcKind::by_name(name).ok_or(expected)?, shape),
        None => (CODE_DEFAULT, text),
    };
    let shape: BlockShape = shape.parse().map_err(|_| expected)?;
    if shape.parity() > 0 && kind.number().is_some() { Ok((kind, shape)) } else { Err(expected) }
}

/// The text that [`code`] reads.
pub(super) fn shown_code(kind: EcKind, shape: BlockShape) -> String {
    match kind {
        CODE_DEFAULT => shape.to_string(),
        _ if kind.number().is_none() => kind.name().to_owned(),
        _ => format!("{}:{shape}", kind.name()),
    }
}

pub(super) fn shown<T: std::fmt::Display>(value: Option<T>, none: &str) -> String {
    value.map_or(none.to_owned(), |value| value.to_string())
}

/// In the largest unit in which it is a whole number.
pub(super) fn time(span: Duration) -> String {
    let ps = span.as_ps();
    let units = [("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1000)];
    let whole = units.into_iter().find(|(_, of)| ps > 0 && ps.is_multiple_of(*of));
    match whole {
        Some((unit, of)) => format!("{}{unit}", ps / of),
        None => format!("{ps}ps"),
    }
}

/// `None` for the word, else the parsed value.
pub(super) fn unless<T>(
    text: &str,
    word: &str,
    parse: impl Fn(&str) -> Result<T, &'static str>,
) -> Result<Option<T>, &'static str> {
    if text == word { Ok(None) } else { parse(text).map(Some) }
}

pub(super) fn integer<T: std::str::FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "a whole number in its range")
}

pub(super) fn payload(text: &str) -> Result<u16, &'static str> {
    integer(text)
        .and_then(|n| if (64..=8960).contains(&n) { Ok(n) } else { Err("64..=8960 bytes") })
}

/// A size of packets in bytes, 1 to `MOST`.
pub(super) fn size_up_to<const MOST: u16>(text: &str) -> Result<u16, &'static str> {
    let size = integer(text).ok().filter(|size| (1..=MOST).contains(size));
    size.ok_or("bytes in its range, or headers")
}

pub(super) fn at_most<const MOST: u16>(text: &str) -> Result<u16, &'static str> {
    integer(text).ok().filter(|size| *size <= MOST).ok_or("bytes in its range")
}

pub(super) fn routing(text: &str) -> Result<bool, &'static str> {
    match text {
        "hash" => Ok(false),
        "explicit" => Ok(true),
        _ => Err("hash or explicit"),
    }
}

pub(super) fn duration(text: &str) -> Result<Duration, &'static str> {
    number::duration(text).map_err(|_| "a time: 10us, 1.5ms, 600ns; without unit microseconds")
}

pub(super) fn up_to(text: &str, most: Duration) -> Result<Duration, &'static str> {
    duration(text).ok().filter(|span| *span <= most).ok_or("a time in its range: 10us, 600ns, 1ms")
}

pub(super) fn ppm(text: &str) -> Result<f64, &'static str> {
    real(text).ok().filter(|value| *value <= 10_000.0).ok_or("a number in 0..=10000")
}

pub(super) fn above_zero(text: &str) -> Result<Duration, &'static str> {
    duration(text).and_then(|span| if span > Duration::ZERO { Ok(span) } else { Err("above zero") })
}

pub(super) fn interval(text: &str) -> Result<Duration, &'static str> {
    // A run of a millisecond would have 10^5 samples, each with every port and flow.
    let is_long = |span: &Duration| *span >= INTERVAL_MIN;
    duration(text).and_then(|span| is_long(&span).then_some(span).ok_or("at least 10 ns"))
}

pub(super) fn bytes(text: &str) -> Result<Bytes, &'static str> {
    number::bytes(text).map_err(|_| "a size: 65536, 64KiB, 1.5MB")
}

pub(super) fn message(text: &str) -> Result<NonZeroU32, &'static str> {
    let len = bytes(text)?.0;
    let len = u32::try_from(len).ok().filter(|&len| len <= MESSAGE_MAX).and_then(NonZeroU32::new);
    len.ok_or("a size, 1..=1GiB")
}

pub(super) fn real(text: &str) -> Result<f64, &'static str> {
    text.parse()
        .ok()
        .filter(|value: &f64| value.is_finite() && *value >= 0.0)
        .ok_or("a number, 0 or more")
}

/// Base RTTs, in whole quarters where it is not 0.
pub(super) fn reorder_window(text: &str) -> Result<f64, &'static str> {
    let expected = "0, or base RTTs from 0.25 on, or off, or auto";
    real(text).ok().filter(|rtts| *rtts == 0.0 || *rtts >= 0.25).ok_or(expected)
}

pub(super) fn positive(text: &str) -> Result<f64, &'static str> {
    real(text).and_then(|value| {
        if value > 0.0 && value <= 1e6 { Ok(value) } else { Err("above 0, at most 1e6") }
    })
}

pub(super) fn share(text: &str) -> Result<f64, &'static str> {
    real(text).and_then(|value| if value <= 1.0 { Ok(value) } else { Err("a number in 0..=1") })
}

pub(super) fn at_least_one(text: &str) -> Result<f64, &'static str> {
    real(text)
        .and_then(|value| if (1.0..=1e6).contains(&value) { Ok(value) } else { Err("1..=1e6") })
}

pub(super) fn quarters(text: &str) -> Result<u16, &'static str> {
    let value = real(text)?;
    let range = "base RTTs, 1..=1000";
    if !(1.0..=1000.0).contains(&value) {
        return Err(range);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1..=1000 checked")]
    Ok((value * 4.0) as u16)
}

pub(super) fn workers(text: &str) -> Result<usize, &'static str> {
    integer(text).and_then(|n| if (1..=64).contains(&n) { Ok(n) } else { Err("1..=64 threads") })
}

pub(super) fn hops(text: &str) -> Result<u8, &'static str> {
    let count: u8 = integer(text).map_err(|_| "0..=8 hops")?;
    if usize::from(count) <= HOPS_MAX { Ok(count) } else { Err("0..=8 hops") }
}

pub(super) fn depth(text: &str) -> Result<usize, &'static str> {
    integer(text)
        .and_then(|n| if (1..=1024).contains(&n) { Ok(n) } else { Err("1..=1024 packets") })
}

pub(super) fn memory(text: &str) -> Result<u32, &'static str> {
    integer(text)
        .and_then(|n| if (64..=1 << 20).contains(&n) { Ok(n) } else { Err("64..=1048576 MiB") })
}

pub(super) fn udp_port(text: &str) -> Result<u16, &'static str> {
    text.parse().ok().filter(|port| *port != 0).ok_or("a port, 1..=65535")
}

pub(super) fn on_off(text: &str) -> Result<bool, &'static str> {
    match text {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err("on or off"),
    }
}

pub(super) fn word(text: &str, known: &[&'static str]) -> Result<String, &'static str> {
    if known.contains(&text) {
        return Ok(text.to_owned());
    }
    Err("net_ring, net_memif, net_tap or net_null")
}

pub(super) fn controller(text: &str) -> Result<CcKind, &'static str> {
    CcKind::by_name(text).ok_or("a controller; see `headrace list cc`")
}

pub(super) fn balancer(text: &str) -> Result<LbKind, &'static str> {
    LbKind::by_name(text).ok_or("a load balancer; see `headrace list lb`")
}

pub(super) fn qdisc(text: &str) -> Result<QdiscKind, &'static str> {
    QdiscKind::by_name(text).ok_or("a queue discipline; see `headrace list qdiscs`")
}
