//! Extensions: octets that may follow a header beside payload, whose content is not in the
//! [`Header`].
//!
//! A header says which extensions follow and how long they are ([`Extent`], two octets that were
//! padding). The content lies in a table beside the burst, `exts[i]` for segment i. It is read only
//! where the header names extensions, so a flow without extensions pays for none. One file an
//! extension; each says in its layout how long it is.
//!
//! [`Header`]: super::Header

use super::advice::{self, Advice};
use super::half::{self, Half};
use super::int::{self, Int};
use super::{Body, ParseError};

/// The extensions of one packet. Fields that the header's [`Extent`] does not name mean nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ext {
    /// Telemetry of switches: of DATA, PARITY and NOTE; on ACK and NACK that of the segment.
    pub int: Int,
    /// DATA and PARITY: the receiver's half of the flow's controller.
    pub half: Half,
    /// ACK and NACK: the advice of that half.
    pub advice: Advice,
}

// Eight hops of 16 octets: two cache lines and a bit, of tables that only users of INT touch.
const _: () = assert!(size_of::<Ext>() <= 152);

/// The extensions of one packet as its header names them, for receivers of packets.
#[derive(Clone, Copy, Debug)]
pub struct Extensions<'a> {
    extent: Extent,
    ext: &'a Ext,
}

impl<'a> Extensions<'a> {
    /// Zero extensions.
    pub const NONE: Extensions<'static> = Extensions { extent: Extent::NONE, ext: &Ext::VACANT };

    /// The extensions in `ext` that `extent` names.
    #[must_use]
    pub const fn new(extent: Extent, ext: &'a Ext) -> Self {
        Self { extent, ext }
    }

    /// True when there is some extension.
    #[must_use]
    pub const fn is_some(self) -> bool {
        self.extent.is_some()
    }

    /// The telemetry, if there is any.
    #[must_use]
    pub fn int(self) -> Option<&'a Int> {
        self.extent.int(self.ext)
    }

    /// The receiver's half, if it is named.
    #[must_use]
    pub fn half(self) -> Option<Half> {
        self.extent.half(self.ext)
    }

    /// The advice, if there is any.
    #[must_use]
    pub fn advice(self) -> Option<Advice> {
        self.extent.advice(self.ext)
    }
}

/// What of a packet a controller or its half refuses. Endpoints count refused telemetry and advice,
/// and take in the rest of the packet; a refused note is dropped as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtRefusal {
    /// Telemetry: time or counters of a port run backwards or stand still, or there are more hops
    /// than the path can have.
    Int,
    /// Advice: one of its rates is zero.
    Advice,
    /// A note that is not the controller's, or lacks what it has to have: it is dropped.
    Note,
}

/// Which extensions follow a header, and their octets together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extent {
    /// Bits of `INT`, `HALF` and `ADVICE`.
    named: u8,
    len: u8,
}

const INT: u8 = 1;
const HALF: u8 = 2;
const ADVICE: u8 = 4;

/// Octets of all extensions of one packet at most.
pub const LEN_MAX: u16 = int::LEN_MAX + max(half::LEN, advice::LEN);

const _: () = assert!(LEN_MAX <= 255, "an Extent has one octet for it");

const fn max(a: u16, b: u16) -> u16 {
    if a > b { a } else { b }
}

impl Ext {
    /// A place to be filled.
    pub const VACANT: Self = Self { int: Int::VACANT, half: Half::MIN, advice: Advice::VACANT };
}

impl Default for Ext {
    fn default() -> Self {
        Self::VACANT
    }
}

impl Extent {
    /// Zero extensions.
    pub const NONE: Self = Self { named: 0, len: 0 };

    /// This extent with telemetry.
    #[must_use]
    pub fn with_int(self, int: &Int) -> Self {
        self.with(INT, int.wire_len())
    }

    /// This extent with the name of the receiver's half.
    #[must_use]
    pub fn with_half(self) -> Self {
        self.with(HALF, half::LEN)
    }

    /// This extent with advice.
    #[must_use]
    pub fn with_advice(self) -> Self {
        self.with(ADVICE, advice::LEN)
    }

    fn with(self, bit: u8, len: u16) -> Self {
        debug_assert!(self.named & bit == 0, "an extension follows once");
        let len = u16::from(self.len) + len;
        Self { named: self.named | bit, len: u8::try_from(len).unwrap_or(u8::MAX) }
    }

    /// True when some extension follows.
    #[inline]
    #[must_use]
    pub const fn is_some(self) -> bool {
        self.named != 0
    }

    /// Octets of all extensions.
    #[inline]
    #[must_use]
    pub const fn len(self) -> u16 {
        self.len as u16
    }

    /// True when no extension follows.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.named == 0
    }

    /// Whether the extensions that it names have in `ext` the length that it states.
    #[must_use]
    pub fn fits(self, ext: &Ext) -> bool {
        let part = |named: u8, len: u16| if self.named & named != 0 { len } else { 0 };
        let int = part(INT, ext.int.wire_len());
        int + part(HALF, half::LEN) + part(ADVICE, advice::LEN) == self.len()
    }

    /// Whether there is telemetry, or room for it.
    #[inline]
    #[must_use]
    pub const fn has_int(self) -> bool {
        self.named & INT != 0
    }

    /// Whether a receiver's half is named.
    #[inline]
    #[must_use]
    pub const fn has_half(self) -> bool {
        self.named & HALF != 0
    }

    /// The telemetry, if there is any.
    #[must_use]
    pub fn int(self, ext: &Ext) -> Option<&Int> {
        (self.named & INT != 0).then_some(&ext.int)
    }

    /// The telemetry, to be written, if there is room for any.
    #[must_use]
    pub fn int_mut(self, ext: &mut Ext) -> Option<&mut Int> {
        (self.named & INT != 0).then_some(&mut ext.int)
    }

    /// The receiver's half, if it is named.
    #[must_use]
    pub fn half(self, ext: &Ext) -> Option<Half> {
        (self.named & HALF != 0).then_some(ext.half)
    }

    /// The advice, if there is any.
    #[must_use]
    pub fn advice(self, ext: &Ext) -> Option<Advice> {
        (self.named & ADVICE != 0).then_some(ext.advice)
    }

    /// The bits of this extent in the flags of a packet like `body`.
    pub(super) fn flags(self, body: &Body) -> u8 {
        let flags = flags_of(body);
        let bit = |named: u8, flag: u8| if self.named & named != 0 { flag } else { 0 };
        bit(INT, flags.int) | bit(HALF, flags.half) | bit(ADVICE, flags.advice)
    }

    /// Writes the extensions to `out`, which is as long as they are.
    pub(super) fn emit(self, ext: &Ext, out: &mut [u8]) {
        let mut at = 0;
        if self.named & HALF != 0 {
            at += half::emit(ext.half, &mut out[usize::from(at)..]);
        }
        if self.named & ADVICE != 0 {
            at += advice::emit(&ext.advice, &mut out[usize::from(at)..]);
        }
        if self.named & INT != 0 {
            at += int::emit(&ext.int, &mut out[usize::from(at)..]);
        }
        assert!(at == self.len(), "the header says how long its extensions are");
    }

    /// Reads the extensions that the flags of a packet like `body` name from the front of `bytes`
    /// into `ext`.
    pub(super) fn read(
        flags: u8,
        body: &Body,
        bytes: &[u8],
        ext: &mut Ext,
    ) -> Result<Self, ParseError> {
        let known = flags_of(body);
        let mut extent = Self::NONE;
        let rest = |extent: Self| bytes.get(usize::from(extent.len())..).unwrap_or_default();
        if flags & known.half != 0 {
            ext.half = half::read(rest(extent))?;
            extent = extent.with_half();
        }
        if flags & known.advice != 0 {
            ext.advice = advice::read(rest(extent))?;
            extent = extent.with_advice();
        }
        if flags & known.int != 0 {
            int::read(&mut ext.int, rest(extent))?;
            extent = extent.with_int(&ext.int);
        }
        Ok(extent)
    }
}

/// The flags that name extensions; 0 where a kind of packet has none.
struct Flags {
    int: u8,
    half: u8,
    advice: u8,
}

fn flags_of(body: &Body) -> Flags {
    match body {
        Body::Data(_) => Flags { int: DATA_INT, half: DATA_HALF, advice: 0 },
        Body::Ack(_) | Body::Nack(_) => Flags { int: ACK_INT, half: 0, advice: ACK_ADVICE },
        Body::Note(_) => Flags { int: NOTE_INT, half: 0, advice: 0 },
        _ => Flags { int: 0, half: 0, advice: 0 },
    }
}

/// DATA and PARITY: INT follows.
pub(super) const DATA_INT: u8 = 32;
/// DATA and PARITY: HALF follows.
pub(super) const DATA_HALF: u8 = 64;
/// ACK and NACK: INT follows.
pub(super) const ACK_INT: u8 = 8;
/// ACK and NACK: ADVICE follows.
pub(super) const ACK_ADVICE: u8 = 16;
/// NOTE: INT follows.
pub(super) const NOTE_INT: u8 = 1;
