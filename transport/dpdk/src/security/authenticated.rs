//! What a seal's tag covers: the octets that are only authenticated, and those that are also
//! encrypted.

use transport::wire::seal::{self, FrameParts};

/// Space in which octets to be authenticated are put together.
pub(super) struct Authenticated(Vec<u8>);

impl Authenticated {
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(seal::AUTHENTICATED_MAX + usize::from(u16::MAX)))
    }

    /// The octets of `body`, a frame without its seal, that are authenticated, and those that are
    /// encrypted. Telemetry that switches write counts as zeros; octets are copied only where it
    /// lies in front of others.
    #[inline]
    pub(super) fn split<'a>(
        &'a mut self,
        parts: &FrameParts,
        body: &'a mut [u8],
        encrypted: bool,
    ) -> Option<(&'a [u8], &'a mut [u8])> {
        let covered = parts.authenticated();
        let Some(written) = parts.telemetry(body) else {
            let until = if encrypted { parts.payload_at } else { parts.end };
            let (head, text) = body.split_at_mut_checked(until)?;
            return Some((head.get(covered.start..)?, text));
        };
        let (head, payload) = body.split_at_mut_checked(parts.payload_at)?;
        let space = &mut self.0;
        space.clear();
        space.extend_from_slice(head.get(covered)?);
        space.get_mut(written)?.fill(0);
        if encrypted {
            return Some((space, payload));
        }
        space.extend_from_slice(payload);
        Some((space, &mut []))
    }
}
