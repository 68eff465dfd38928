//! Frames that leave: sealed in place, just before their device gets them.
//!
//! A number is used once with a derived key, whatever happens. Each frame counts the key's numbers
//! up, a retransmission too. A key is derived with a start of its own, later than every start
//! before, and a key that was dropped from the table is never derived again under its old start. No
//! key is in use for longer than [`RENEWED`], so it seals far fewer blocks than GCM allows.

use std::fmt;

use aws_lc_rs::aead::Aad;
use transport::wire::seal::{self, FrameParts, NUMBERS, Seal, TAG_LEN};
use transport::{Duration, Instant};

use super::authenticated::Authenticated;
use super::contexts::{Contexts, DerivedKey};
use super::derive::{KeyName, key_of, log_key, nonce, wide};
use super::key_file::Keys;
use super::key_log::KeyLog;
use super::{Payloads, WallClock};

/// How long a derived key is used. A receiver that starts later accepts a sender after this time at
/// most.
const RENEWED: Duration = Duration::from_s(1);

/// Seals frames of one host.
pub struct Sealer {
    keys: Keys,
    encrypts: bool,
    wall: WallClock,
    /// The start of the key derived last.
    latest: u64,
    contexts: Contexts<Use>,
    authenticated: Authenticated,
    pub(super) log: Option<KeyLog>,
}

/// How a derived key has been used.
struct Use {
    /// The next number, below [`NUMBERS`].
    number: u64,
    until: Instant,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({:?}, encrypts: {})", self.keys, self.encrypts)
    }
}

impl Sealer {
    pub(super) fn new(keys: Keys, payloads: Payloads, flows: u32, wall: WallClock) -> Self {
        Self {
            keys,
            encrypts: payloads == Payloads::Encrypted,
            wall,
            latest: 0,
            contexts: Contexts::with_room(flows),
            authenticated: Authenticated::new(),
            log: None,
        }
    }

    pub(super) fn rotate(&mut self, keys: Keys) {
        self.contexts.retain(|_| false, |_| ());
        self.keys = keys;
    }

    /// Seals `frame`, a plain one with [`seal::LEN`] octets of room behind it, which leaves at
    /// `now`. Returns false when it is no such frame; it must then not be sent. Its DSCP, ECN, TTL
    /// and hops of telemetry may change afterwards.
    #[inline]
    pub fn seal(&mut self, frame: &mut [u8], now: Instant) -> bool {
        self.try_seal(frame, now).is_some()
    }

    #[inline]
    fn try_seal(&mut self, frame: &mut [u8], now: Instant) -> Option<()> {
        let parts = FrameParts::of(frame).ok().filter(|parts| !parts.sealed)?;
        let (src, dst) = parts.addresses(frame);
        let name = KeyName {
            src: wide(src),
            dst: wide(dst),
            flow: parts.flow_key,
            start: 0,
            key: self.keys.first().number,
            encrypted: self.encrypts,
        };
        let print = name.print();
        let is = |context: &DerivedKey<Use>| KeyName { start: 0, ..context.name } == name;
        let known = self.contexts.find(print, is);
        let is_good = |state: &Use| now < state.until && state.number < NUMBERS;
        let place =
            match known.filter(|at| self.contexts.at(*at).is_some_and(|c| is_good(&c.state))) {
                Some(place) => place,
                None => self.derive(name, (print, known), now)?,
            };
        let context = self.contexts.at(place)?;
        let number = context.state.number;
        context.state.number += 1;
        parts.mark(frame);
        let seal_at = parts.end;
        let (body, seal) = frame.split_at_mut_checked(seal_at)?;
        let seal = seal.first_chunk_mut::<{ seal::LEN as usize }>()?;
        let start = context.name.start;
        Seal { encrypted: self.encrypts, key: name.key, number, start }.emit(seal);
        let (head, text) = self.authenticated.split(&parts, body, self.encrypts)?;
        let aad = Aad::from(head);
        let tag = context.key.seal_in_place_separate_tag(nonce(number), aad, text).ok()?;
        seal[..TAG_LEN].copy_from_slice(tag.as_ref());
        Some(())
    }

    /// Derives a key under a start that no key of this host has had, and puts it in the place of
    /// the flow's last key, if that is `known`.
    #[cold]
    fn derive(
        &mut self,
        name: KeyName,
        (print, known): (u64, Option<usize>),
        now: Instant,
    ) -> Option<usize> {
        let start = self.wall.at(now).max(self.latest + 1);
        self.latest = start;
        let name = KeyName { start, ..name };
        let key = key_of(self.keys.first(), &name)?;
        if let Some(log) = &self.log {
            log_key(self.keys.first(), &name, log);
        }
        let state = Use { number: 0, until: now + RENEWED };
        let context = DerivedKey::new(name, key, state);
        let _ = match known {
            Some(place) => self.contexts.replace(place, context),
            None => self.contexts.put(print, context),
        };
        // It is looked for by its name without a start.
        self.contexts.find(print, |context| context.name == name)
    }
}
