//! Reads a recording's octets in order; never beyond their end, never panics.

use super::FormatError;

#[derive(Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The octet at which the present call starts, for errors.
    call_at: usize,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, call_at: 0 }
    }

    /// A call starts here.
    pub(super) fn begin(&mut self) {
        self.call_at = self.at;
    }

    /// The octets that have been read since the call started.
    pub(super) fn since_begin(&self) -> &'a [u8] {
        self.bytes.get(self.call_at..self.at).unwrap_or_default()
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], FormatError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = rest.get(..len).ok_or(FormatError::Truncated(self.call_at))?;
        self.at += len;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let truncated = FormatError::Truncated(self.call_at);
        self.take(N)?.try_into().map_err(|_| truncated)
    }

    pub(super) fn u8(&mut self) -> Result<u8, FormatError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, FormatError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, FormatError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, FormatError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) const fn malformed(&self) -> FormatError {
        FormatError::Malformed(self.call_at)
    }

    /// An error when something is left.
    pub(super) fn end(&self) -> Result<(), FormatError> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(FormatError::Trailing(self.at)) }
    }
}
