//! Frames that arrive: opened in place, before anything else reads them.
//!
//! Nothing is kept of a frame whose tag does not match. A frame is opened once: its number is taken
//! in the window of its derived key. When a derived key is dropped from the table, or this host
//! starts, its window is lost. From then on frames of that sender are accepted only under keys of a
//! later start. Senders take such a key every second.

use std::fmt;

use aws_lc_rs::aead::{Aad, LessSafeKey};
use transport::stats::DropReason;
use transport::wire::addressing::Addressing;
use transport::wire::frame;
use transport::wire::seal::{self, FrameParts, Seal, TAG_LEN};
use transport::{Duration, HostId, Instant};

use super::WallClock;
use super::authenticated::Authenticated;
use super::budget::{Budget, RENEWALS, STRANGERS};
use super::contexts::{Contexts, DerivedKey};
use super::derive::{KeyName, key_of, log_key, nonce, wide};
use super::floors::Floors;
use super::key_file::Keys;
use super::key_log::KeyLog;
use super::replay::ReplayWindow;

/// This is how far a sender's clock may be ahead of ours, how old a start that is not at hand may
/// be, and how long a derived key opens. Senders take a new start every second.
const APART: Duration = Duration::from_s(60);
const APART_NS: u64 = 60_000_000_000;
const SEAL: usize = seal::LEN as usize;

/// What became of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opened {
    /// The frame is as its sender sealed it, and plain now.
    Whole,
    /// The frame was trimmed, and its seal with it: plain now, and no more than a hint.
    Hint,
    /// The frame has no seal and is unchanged.
    Unsealed,
}

/// Opens frames for one host.
pub struct Opener {
    keys: Keys,
    wall: WallClock,
    contexts: Contexts<Use>,
    floors: Floors,
    /// Derivations for flows of which no key is at hand.
    strangers: Budget,
    authenticated: Authenticated,
    pub(super) log: Option<KeyLog>,
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opener({:?})", self.keys)
    }
}

impl Opener {
    pub(super) fn new(keys: Keys, flows: u32, wall: WallClock, now: Instant) -> Self {
        Self {
            keys,
            wall,
            contexts: Contexts::with_room(flows),
            floors: Floors::new(wall.at(now).saturating_sub(1)),
            strangers: STRANGERS,
            authenticated: Authenticated::new(),
            log: None,
        }
    }

    pub(super) fn rotate(&mut self, keys: Keys) {
        let Self { contexts, floors, keys: old, .. } = self;
        contexts.retain(|name| keys.shares(name.key, old), |name| floors.raise(name));
        self.keys = keys;
    }

    /// Opens `frame`, which arrived by `now`, where it lies. A frame that is not of this protocol
    /// or for another port than that of `here` is left as it is.
    ///
    /// # Errors
    /// Why it must be dropped; its content means nothing then.
    #[inline]
    pub fn open(
        &mut self,
        frame: &mut [u8],
        here: (&Addressing, HostId),
        now: Instant,
    ) -> Result<Opened, DropReason> {
        let Ok(parts) = FrameParts::of(frame) else { return Ok(Opened::Unsealed) };
        if !parts.sealed {
            return Ok(Opened::Unsealed);
        }
        if parts.trimmed {
            parts.unmark(frame);
            return Ok(Opened::Hint);
        }
        let octets = frame.get(parts.end..).and_then(<[u8]>::first_chunk::<SEAL>);
        let octets = octets.copied().ok_or(DropReason::Truncated)?;
        let Seal { encrypted, key, number, start } = Seal::read(&octets)?;
        let (src, dst) = parts.addresses(frame);
        let (src, dst) = (wide(src), wide(dst));
        let name = KeyName { src, dst, flow: parts.flow_key, start, key, encrypted };
        let print = name.print();
        let sealed = Sealed { parts, name, number, octets };
        let Some(place) = self.contexts.find(print, |context| context.name == name) else {
            return self.open_unknown(frame, &sealed, here, now);
        };
        let Self { contexts, authenticated, .. } = self;
        let context = contexts.at(place).ok_or(DropReason::BadTag)?;
        if now >= context.state.until {
            return Err(DropReason::StaleSeal);
        }
        if !context.state.window.is_new(number) {
            return Err(DropReason::Replayed);
        }
        sealed.open(&context.key, frame, authenticated).ok_or(DropReason::BadTag)?;
        context.state.window.take(number);
        parts.unmark(frame);
        Ok(Opened::Whole)
    }

    /// Opens a frame whose derived key is not at hand.
    #[cold]
    fn open_unknown(
        &mut self,
        frame: &mut [u8],
        sealed: &Sealed,
        (addressing, host): (&Addressing, HostId),
        now: Instant,
    ) -> Result<Opened, DropReason> {
        // The parser names what is wrong with a frame that is not for this port or of no host.
        let Ok(route) = frame::route_of(frame, addressing) else { return Ok(Opened::Unsealed) };
        if route.dst != host {
            return Err(DropReason::WrongHost);
        }
        let name = &sealed.name;
        let print = name.print();
        let shared = self.keys.numbered(name.key).ok_or(DropReason::UnknownKey)?;
        let wall = self.wall.at(now);
        let known_since = self.floors.of(name).max(wall.saturating_sub(APART_NS));
        if name.start <= known_since || name.start > wall.saturating_add(APART_NS) {
            return Err(DropReason::StaleSeal);
        }
        let known = self.contexts.find(print, |context| context.name.is_of_flow(name));
        let budget = match known.and_then(|place| self.contexts.at(place)) {
            Some(context) => &mut context.state.renewals,
            None => &mut self.strangers,
        };
        let before = *budget;
        *budget = before.after_one(now).ok_or(DropReason::SealFlood)?;
        let key = key_of(shared, name).ok_or(DropReason::BadTag)?;
        sealed.open(&key, frame, &mut self.authenticated).ok_or(DropReason::BadTag)?;
        *budget = before;
        // Not before the tag matches: strangers write no line.
        if let Some(log) = &self.log {
            log_key(shared, name, log);
        }
        let mut window = ReplayWindow::new();
        window.take(sealed.number);
        let renewals = if known.is_some() { before } else { RENEWALS };
        let state = Use { window, until: now + APART, renewals };
        if let Some(gone) = self.contexts.put(print, DerivedKey::new(*name, key, state)) {
            self.floors.raise(&gone.name);
        }
        sealed.parts.unmark(frame);
        Ok(Opened::Whole)
    }
}

/// A sealed frame.
struct Sealed {
    parts: FrameParts,
    name: KeyName,
    number: u64,
    /// The seal at the end of the frame.
    octets: [u8; SEAL],
}

impl Sealed {
    /// Opens `frame` where it lies; `None` when the tag does not match.
    #[inline]
    fn open(&self, key: &LessSafeKey, frame: &mut [u8], space: &mut Authenticated) -> Option<()> {
        let Self { parts, name, number, octets } = self;
        parts.clear_checksum(frame);
        let body = frame.get_mut(..parts.end)?;
        let (head, text) = space.split(parts, body, name.encrypted)?;
        let (tag, _) = octets.split_at(TAG_LEN);
        key.open_in_place_separate_tag(nonce(*number), Aad::from(head), tag, text).ok()?;
        Some(())
    }
}

/// The state of a derived key at its receiver.
struct Use {
    window: ReplayWindow,
    /// When frames of it are too old, whatever their number: senders take another key after a
    /// second.
    until: Instant,
    /// Derivations of further keys of its flow.
    renewals: Budget,
}
