//! Settings of policies: a struct with documented, ranged fields that can also be set by name and
//! text, so that `--set cc.smartt.fi=0.5` needs no code per field. Values are checked when they are
//! set by text, and again as a whole by `validate`, because the fields are public.

use alloc::format;
/// Text of a setting's value; for [`params!`] and [`words!`], which crates with and without `std`
/// expand.
#[doc(hidden)]
pub use alloc::string::String;
use alloc::string::ToString;
use core::fmt;
use core::ops::RangeInclusive;

use crate::number;
use crate::time::Duration;
use crate::units::Bytes;

/// One setting as a list shows it.
#[derive(Clone, Copy, Debug)]
pub struct ParamKey {
    /// The last part of the setting's name.
    pub key: &'static str,
    /// The setting's rustdoc, one line a paragraph.
    pub doc: &'static str,
    /// The form of a value, without the range.
    pub values: &'static str,
    /// The range, each end as text that sets it; `None` where every value is taken.
    pub range: Option<fn() -> String>,
    /// The value that stands for the network's, as text that sets it; `None` where no value does.
    pub of_network: Option<&'static str>,
}

impl ParamKey {
    /// What the setting takes: the form of its values, and their range.
    #[must_use]
    pub fn takes(&self) -> String {
        let range = self.range.map_or(String::new(), |range| format!(" in {}", range()));
        format!("{}{range}", self.values)
    }
}

/// Settings of one name and description are the same setting.
impl PartialEq for ParamKey {
    fn eq(&self, other: &Self) -> bool {
        (self.key, self.doc) == (other.key, other.doc)
    }
}

impl Eq for ParamKey {}

/// Why a setting was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParamError {
    /// There is no setting of that name; the value lists all settings.
    UnknownKey(&'static [ParamKey]),
    /// The text is not a value of this setting.
    BadValue(&'static ParamKey),
    /// The value is outside the setting's range.
    OutOfRange(&'static ParamKey),
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey(keys) => {
                write!(f, "no such setting; there are")?;
                keys.iter().try_for_each(|known| write!(f, " {}", known.key))
            }
            Self::BadValue(known) | Self::OutOfRange(known) => {
                write!(f, "{} takes {}", known.key, known.takes())
            }
        }
    }
}

impl core::error::Error for ParamError {}

/// A type that a setting may have.
pub trait ParamValue: Sized {
    /// The form of its values, for messages.
    const VALUES: &'static str;
    /// The value that `text` stands for; `None` when it stands for none.
    fn parse(text: &str) -> Option<Self>;
    /// The whole value in 64 bits, for recordings.
    fn to_word(self) -> u64;
    /// The value of these bits; `None` when no value has them.
    fn from_word(word: u64) -> Option<Self>;
    /// The value as text that parses to it.
    fn show(&self) -> String;
}

macro_rules! number_values {
    ($($type:ty => $values:literal, $to:expr, $from:expr);* $(;)?) => {$(
        impl ParamValue for $type {
            const VALUES: &'static str = $values;
            fn parse(text: &str) -> Option<Self> {
                number::held(text)
            }
            fn to_word(self) -> u64 {
                $to(self)
            }
            fn from_word(word: u64) -> Option<Self> {
                $from(word)
            }
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

number_values! {
    f32 => "a number", |x: f32| u64::from(x.to_bits()),
        |word| u32::try_from(word).ok().map(f32::from_bits);
    f64 => "a number", f64::to_bits, |word| Some(f64::from_bits(word));
    u16 => "an integer", u64::from, |word| u16::try_from(word).ok();
    u32 => "an integer", u64::from, |word| u32::try_from(word).ok();
}

macro_rules! values_or_auto {
    ($($type:ty => $values:literal, $parse:expr, $to:expr, $from:expr, $show:expr);* $(;)?) => {$(
        /// A value, or `auto`: what the thing that has the value, or the network, makes of it.
        impl ParamValue for Option<$type> {
            const VALUES: &'static str = concat!($values, ", or auto");
            fn parse(text: &str) -> Option<Self> {
                if text == "auto" {
                    return Some(None);
                }
                // The largest word stands for `auto` in recordings.
                $parse(text).filter(|value: &$type| $to(*value) < u64::MAX).map(Some)
            }
            fn to_word(self) -> u64 {
                self.map_or(u64::MAX, $to)
            }
            fn from_word(word: u64) -> Option<Self> {
                if word == u64::MAX { Some(None) } else { $from(word).map(Some) }
            }
            fn show(&self) -> String {
                self.as_ref().map_or("auto".to_string(), $show)
            }
        }
    )*};
}

values_or_auto! {
    Bytes => "a size (65536, 64KiB, 1.5MB)", |text| number::bytes(text).ok(),
        |size: Bytes| size.0, |word| Some(Bytes(word)), Bytes::to_string;
    Duration => "a time of whole ns (600ns, 1.5ms, or 10 for 10us)", Duration::parse,
        Duration::as_ps, |word| Some(Duration::from_ps(word)), ParamValue::show;
    u16 => "an integer", <u16 as ParamValue>::parse,
        u64::from, <u16 as ParamValue>::from_word, ParamValue::show;
}

impl ParamValue for bool {
    const VALUES: &'static str = "on or off";
    fn parse(text: &str) -> Option<Self> {
        match text {
            "on" | "true" => Some(true),
            "off" | "false" => Some(false),
            _ => None,
        }
    }
    fn to_word(self) -> u64 {
        u64::from(self)
    }
    fn from_word(word: u64) -> Option<Self> {
        [false, true].into_iter().find(|value| u64::from(*value) == word)
    }
    fn show(&self) -> String {
        (if *self { "on" } else { "off" }).to_string()
    }
}

impl ParamValue for Duration {
    const VALUES: &'static str = "a time of whole ns (600ns, 1.5ms, or 10 for 10us)";
    fn parse(text: &str) -> Option<Self> {
        number::whole_ns(text).ok()
    }
    fn to_word(self) -> u64 {
        self.as_ps()
    }
    fn from_word(word: u64) -> Option<Self> {
        Some(Self::from_ps(word))
    }
    /// Whole nanoseconds, as every value that was parsed is.
    fn show(&self) -> String {
        let ns = self.as_ps() / 1000;
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
        let unit = units.into_iter().find(|(size, _)| ns > 0 && ns.is_multiple_of(*size));
        let (size, unit) = unit.unwrap_or((1, "ns"));
        format!("{}{unit}", ns / size)
    }
}

/// The name of a policy whose registry is in another crate, which looks it up: 1 to 12 small
/// letters and hyphens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PolicyName {
    /// Five bits a letter, the first in the lowest ones; 0 behind the last.
    letters: u64,
}

impl PolicyName {
    /// The name `name`.
    ///
    /// # Panics
    /// When `name` is none.
    #[must_use]
    pub const fn new(name: &str) -> Self {
        match Self::of(name) {
            Some(named) => named,
            None => panic!("no name of a policy"),
        }
    }

    const fn of(name: &str) -> Option<Self> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.len() > 12 {
            return None;
        }
        let (mut letters, mut at) = (0, 0);
        while at < bytes.len() {
            let letter = match bytes[at] {
                small @ b'a'..=b'z' => small - b'a' + 1,
                b'-' => HYPHEN,
                _ => return None,
            };
            letters |= (letter as u64) << (5 * at);
            at += 1;
        }
        Some(Self { letters })
    }
}

const HYPHEN: u8 = 27;

impl fmt::Debug for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.show())
    }
}

impl ParamValue for PolicyName {
    const VALUES: &'static str = "a name from its list";
    fn parse(text: &str) -> Option<Self> {
        Self::of(text)
    }
    fn to_word(self) -> u64 {
        self.letters
    }
    fn from_word(word: u64) -> Option<Self> {
        Self::of(&Self { letters: word }.show()).filter(|named| named.letters == word)
    }
    fn show(&self) -> String {
        let letters = (0..12).map(|at| (self.letters >> (5 * at)).to_le_bytes()[0] & 0x1f);
        let letters = letters.take_while(|letter| *letter != 0);
        letters
            .map(|letter| if letter < HYPHEN { letter + b'a' - 1 } else { b'-' } as char)
            .collect()
    }
}

/// True when `value` lies in `range`; a NaN lies in none.
#[doc(hidden)]
pub fn within<T: PartialOrd>(value: &T, range: &RangeInclusive<T>) -> bool {
    range.contains(value)
}

/// `range` with its ends as text that sets them.
#[doc(hidden)]
pub fn shown<T: ParamValue>(range: &RangeInclusive<T>) -> String {
    format!("{}..={}", range.start().show(), range.end().show())
}

/// Declares a struct of settings: `/// doc` then `name: type = default`, for numbers `in
/// low..=high`, and `of_network "value"` where that value stands for the network's. Gives the
/// struct, `Default`, `KEYS`, `set`, `show` and `validate`.
#[doc(hidden)]
#[macro_export]
macro_rules! params {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $type:ty = $default:expr $(, in $range:expr)?
                    $(, of_network $network:literal)?;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Debug)]
        $vis struct $name { $($(#[doc = $doc])+ $vis $field: $type),* }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }

        impl $name {
            /// Every setting, in the order of declaration.
            $vis const KEYS: &'static [$crate::params::ParamKey] = &[$($crate::params::ParamKey {
                key: stringify!($field),
                doc: concat!($($doc, "\n"),+),
                values: <$type as $crate::params::ParamValue>::VALUES,
                range: $crate::params::range!($type $(, $range)?),
                of_network: $crate::params::optional!($($network)?),
            }),*];

            fn key(name: &str) -> Option<&'static $crate::params::ParamKey> {
                Self::KEYS.iter().find(|known| known.key == name)
            }

            /// Sets the setting called `key` from text; `self` is unchanged on error.
            ///
            /// # Errors
            /// When there is no such setting, or `value` does not parse or is out of range.
            #[allow(unused, reason = "a struct without a field")]
            $vis fn set(
                &mut self,
                key: &str,
                value: &str,
            ) -> Result<(), $crate::params::ParamError> {
                use $crate::params::{ParamError, ParamValue};
                let known = Self::key(key).ok_or(ParamError::UnknownKey(Self::KEYS))?;
                let mut next = *self;
                $(if known.key == stringify!($field) {
                    next.$field = <$type as ParamValue>::parse(value)
                        .ok_or(ParamError::BadValue(known))?;
                })*
                next.validate()?;
                *self = next;
                Ok(())
            }

            /// Every value in 64 bits, in the order of declaration.
            #[allow(unused, reason = "a struct without a field")]
            $vis fn words(&self, out: &mut dyn FnMut(u64)) {
                $(out($crate::params::ParamValue::to_word(self.$field));)*
            }

            /// The settings of these words; `None` when the words end early or one is no value.
            /// Ranges are not checked.
            #[must_use]
            #[allow(unused, reason = "a struct without a field")]
            $vis fn from_words(next: &mut dyn FnMut() -> Option<u64>) -> Option<Self> {
                Some(Self { $($field: $crate::params::ParamValue::from_word(next()?)?),* })
            }

            /// The value of the setting called `key`, as text that sets it; `None` when there is no
            /// such setting.
            #[must_use]
            #[allow(unused, reason = "a struct without a field")]
            $vis fn show(&self, key: &str) -> Option<$crate::params::String> {
                $(if key == stringify!($field) {
                    return Some($crate::params::ParamValue::show(&self.$field));
                })*
                None
            }

            /// # Errors
            /// Names the first setting that is out of its range.
            $vis fn validate(&self) -> Result<(), $crate::params::ParamError> {
                $($(if !$crate::params::within(&self.$field, &$range) {
                    let known = Self::key(stringify!($field));
                    return Err(known.map_or(
                        $crate::params::ParamError::UnknownKey(Self::KEYS),
                        $crate::params::ParamError::OutOfRange,
                    ));
                })?)*
                Ok(())
            }
        }
    };
}

/// The text of a range that a setting may have, or `None`.
#[doc(hidden)]
#[macro_export]
macro_rules! range {
    ($type:ty) => {
        None
    };
    ($type:ty, $range:expr) => {
        Some(|| $crate::params::shown::<$type>(&$range))
    };
}

/// `Some` of a value that a setting may have, or `None`.
#[doc(hidden)]
#[macro_export]
macro_rules! optional {
    () => {
        None
    };
    ($value:literal) => {
        Some($value)
    };
}

/// Declares an enum whose values are words.
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident: $values:literal {
            $($(#[$vmeta:meta])* $variant:ident = $word:literal),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        $vis enum $name { $($(#[$vmeta])* $variant),+ }

        impl $crate::params::ParamValue for $name {
            const VALUES: &'static str = $values;
            fn parse(text: &str) -> Option<Self> {
                match text { $($word => Some(Self::$variant),)+ _ => None }
            }
            fn to_word(self) -> u64 {
                self as u64
            }
            fn from_word(word: u64) -> Option<Self> {
                [$(Self::$variant),+].into_iter().find(|value| *value as u64 == word)
            }
            fn show(&self) -> $crate::params::String {
                $crate::params::String::from(match self { $(Self::$variant => $word),+ })
            }
        }
    };
}

pub use {optional, params, range, words};

params! {
    /// Settings of a policy that has none.
    pub struct NoParams {}
}

/// The number of keys of all `parts` together.
#[doc(hidden)]
#[must_use]
pub const fn count(parts: &[&[ParamKey]]) -> usize {
    let (mut part, mut sum) = (0, 0);
    while part < parts.len() {
        sum += parts[part].len();
        part += 1;
    }
    sum
}

/// The keys of `parts` in one array of their [`count`].
#[doc(hidden)]
#[must_use]
pub const fn joined<const N: usize>(parts: &[&[ParamKey]]) -> [ParamKey; N] {
    let mut all = [ParamKey { key: "", doc: "", values: "", range: None, of_network: None }; N];
    let (mut part, mut filled) = (0, 0);
    while part < parts.len() {
        let mut key = 0;
        while key < parts[part].len() {
            all[filled] = parts[part][key];
            key += 1;
            filled += 1;
        }
        part += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    words! {
        /// A colour.
        enum Colour: "red or blue" { Red = "red", Blue = "blue" }
    }

    params! {
        /// Settings for the tests.
        struct Sample {
            /// How much.
            amount: f32 = 0.5, in 0.0..=1.0;
            /// How long.
            span: Duration = Duration::from_ms(1), in Duration::from_us(1)..=Duration::from_s(1);
            /// Which colour.
            colour: Colour = Colour::Red;
            /// Whether.
            flag: bool = false;
        }
    }

    #[test]
    fn a_size_has_a_unit_or_is_left_to_what_it_sizes() {
        type Size = Option<Bytes>;
        for (text, value, shown) in [
            ("auto", None, "auto"),
            ("0", Some(Bytes(0)), "0"),
            ("64KiB", Some(Bytes(65_536)), "65536"),
        ] {
            assert_eq!(<Size as ParamValue>::parse(text), Some(value), "{text}");
            assert_eq!(
                (value.show().as_str(), Size::from_word(value.to_word())),
                (shown, Some(value))
            );
        }
        for text in ["", "none", "-1", "18446744073709551615"] {
            assert_eq!(<Size as ParamValue>::parse(text), None, "{text}");
        }
        let numbers = [None, Some(0), Some(u16::MAX)];
        assert_eq!(["auto", "0", "65535"].map(Option::<u16>::parse), numbers.map(Some));
        assert_eq!(
            numbers.map(|number| Option::<u16>::from_word(number.to_word())),
            numbers.map(Some)
        );
        assert_eq!(["65536", "-1", ""].map(Option::<u16>::parse), [None; 3]);
        assert_eq!(numbers.map(|number| number.show()), ["auto", "0", "65535"]);
    }

    #[test]
    fn every_key_is_listed_with_its_doc_and_can_be_set_by_name() {
        let mut sample = Sample::default();
        for (key, value) in [("amount", "0.25"), ("span", "7"), ("colour", "blue"), ("flag", "on")]
        {
            sample.set(key, value).unwrap();
        }
        let expected =
            Sample { amount: 0.25, span: Duration::from_us(7), colour: Colour::Blue, flag: true };
        assert_eq!(sample, expected);
        let shown = |key| sample.show(key).unwrap();
        let values = ["amount", "span", "colour", "flag"].map(shown);
        assert_eq!(values, ["0.25", "7us", "blue", "on"]);
        assert_eq!(sample.show("amuont"), None);
        assert_eq!(Sample::KEYS.len(), 4);
        assert_eq!(Sample::KEYS[0].doc.trim(), "How much.");
    }

    #[test]
    fn every_value_survives_its_word_and_other_words_are_none() {
        let sample = Sample { amount: 0.25, colour: Colour::Blue, flag: true, ..Sample::default() };
        let mut words = alloc::vec::Vec::new();
        sample.words(&mut |word| words.push(word));
        let read = |words: &[u64]| {
            let mut words = words.iter().copied();
            Sample::from_words(&mut || words.next())
        };
        assert_eq!(read(&words), Some(sample));
        assert_eq!(read(&words[1..]), None);
        words[3] = 2;
        assert_eq!(read(&words), None);
    }

    #[test]
    fn a_time_has_the_forms_of_all_times_and_no_finer_part_than_is_shown() {
        let ns = |text: &str| Duration::parse(text).map(|span| span.as_ps() / 1000);
        let of = ["600ns", "1.5us", "2000ps", "7", "1e-3s"].map(ns);
        assert_eq!(of, [600, 1500, 2, 7000, 1_000_000].map(Some));
        assert_eq!(["1500ps", "0.1ns", "", "us", "-1us"].map(ns), [None; 5]);
        assert_eq!(["0.1ps", "1000.0004ns", "1000000.5ps"].map(ns), [None; 3]);
    }

    const OF_SPAN: &str =
        "span takes a time of whole ns (600ns, 1.5ms, or 10 for 10us) in 1us..=1s";

    #[test]
    fn a_refused_value_says_what_would_be_taken_and_changes_nothing() {
        let mut sample = Sample::default();
        for (key, value, says) in [
            ("amount", "2", "amount takes a number in 0..=1"),
            ("amount", "NaN", "amount takes a number in 0..=1"),
            ("amount", "1e-99", "amount takes a number in 0..=1"),
            ("span", "0.5us", OF_SPAN),
            ("span", "1000.5ns", OF_SPAN),
            ("span", "7h", OF_SPAN),
            ("colour", "green", "colour takes red or blue"),
            ("amuont", "1", "no such setting; there are amount span colour flag"),
        ] {
            assert_eq!(sample.set(key, value).unwrap_err().to_string(), says);
        }
        assert_eq!(sample, Sample::default());
    }

    #[test]
    fn a_name_of_a_policy_is_small_letters_and_hyphens_and_its_word_reads_back() {
        for name in ["a", "exact", "a-z", "twelvelettrs", "zzzzzzzzzzzz", "------------"] {
            let named = PolicyName::parse(name).unwrap();
            assert_eq!(named.show(), name);
            assert_eq!(PolicyName::from_word(named.to_word()), Some(named));
        }
        for wrong in ["", "thirteenlettr", "Exact", "exact2", "a b", "\u{e4}"] {
            assert_eq!(PolicyName::parse(wrong), None, "{wrong}");
        }
        // No letter, a letter that there is not, letters behind the end, bits beyond the last.
        for word in [0, 28, 1 | 1 << 10, 1 | 1 << 60] {
            assert_eq!(PolicyName::from_word(word), None, "{word}");
        }
    }
}
