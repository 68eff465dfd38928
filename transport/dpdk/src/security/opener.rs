//! Frames that arrive: opened where they lie, before anything else reads them.
//!
//! Nothing is kept of a frame whose tag does not match. A frame is opened once: its number is taken
//! in the window of its derived key. When a derived key is dropped from the table, or this host
//! starts, its window is lost; so from then on frames of that sender are believed only under keys
//! of a later start, which senders take every second.

use std::fmt;

use aws_lc_rs::aead::{Aad, LessSafeKey};
use transport::Instant;
use transport::stats::DropReason;
use transport::wire::seal::{self, Parts, Seal, TAG_LEN};

use super::WallClock;
use super::contexts::{Context, Contexts};
use super::derive::{Name, key_of, nonce, wide};
use super::key_file::Keys;
use super::replay::ReplayWindow;
use super::sealer::Authenticated;

/// How far a sender's clock may be ahead of ours, and how old a start may be that is not at hand: a
/// minute. Senders take a new start every second.
const APART_NS: u64 = 60_000_000_000;
/// Senders share these by their address.
const SENDERS: usize = 1024;

/// What became of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opened {
    /// It is what its sender sealed, and now plain.
    Whole,
    /// It was trimmed, and its seal with it: plain now, and no more than a hint.
    Hint,
    /// It has no seal, and was not touched.
    Unsealed,
}

/// Opens frames for one host.
pub struct Opener {
    keys: Keys,
    wall: WallClock,
    contexts: Contexts<ReplayWindow>,
    /// A key that is not in the table has to start after this time, by sender; ns since 1970.
    floors: Box<[u64]>,
    authenticated: Authenticated,
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
            floors: vec![wall.at(now).saturating_sub(1); SENDERS].into_boxed_slice(),
            authenticated: Authenticated::new(),
        }
    }

    pub(super) fn rotate(&mut self, keys: Keys) {
        let Self { contexts, floors, keys: old, .. } = self;
        contexts.retain(|name| keys.shares(name.key, old), |name| raise(floors, name));
        self.keys = keys;
    }

    /// Opens `frame`, which arrived by `now`, where it lies. A frame that is not of this protocol
    /// is left as it is.
    ///
    /// # Errors
    /// Why it must be dropped; its content means nothing then.
    #[inline]
    pub fn open(&mut self, frame: &mut [u8], now: Instant) -> Result<Opened, DropReason> {
        let Ok(parts) = Parts::of(frame) else { return Ok(Opened::Unsealed) };
        if !parts.sealed {
            return Ok(Opened::Unsealed);
        }
        if parts.trimmed {
            parts.unmark(frame);
            return Ok(Opened::Hint);
        }
        let (body, seal) = frame.split_at_mut_checked(parts.end).ok_or(DropReason::Truncated)?;
        let octets = seal.first_chunk::<{ seal::LEN as usize }>().ok_or(DropReason::Truncated)?;
        let Seal { encrypted, key, number, start } = Seal::read(octets)?;
        let (src, dst) = parts.addresses(body);
        let (src, dst) = (wide(src), wide(dst));
        let name = Name { src, dst, flow: parts.flow_key, start, key, encrypted };
        let print = name.print();
        parts.clear_checksum(body);
        let Self { contexts, authenticated, .. } = self;
        let (tag, _) = octets.split_at(TAG_LEN);
        let sealed = Sealed { parts: &parts, number, encrypted, tag };
        if let Some(place) = contexts.find(print, |context| context.name == name) {
            let context = contexts.at(place).ok_or(DropReason::BadTag)?;
            if !context.state.is_new(number) {
                return Err(DropReason::Replayed);
            }
            sealed.open(&context.key, body, authenticated).ok_or(DropReason::BadTag)?;
            context.state.take(number);
        } else {
            let key = derive(&self.keys, &self.floors, &name, self.wall.at(now))?;
            sealed.open(&key, body, authenticated).ok_or(DropReason::BadTag)?;
            self.keep(name, print, key, number);
        }
        parts.unmark(frame);
        Ok(Opened::Whole)
    }

    /// Keeps a derived key that has opened a frame.
    #[cold]
    fn keep(&mut self, name: Name, print: u64, key: LessSafeKey, number: u64) {
        let mut window = ReplayWindow::new();
        window.take(number);
        if let Some(gone) = self.contexts.put(print, Context::new(name, key, window)) {
            raise(&mut self.floors, &gone.name);
        }
    }
}

/// A sealed frame in parts.
struct Sealed<'a> {
    parts: &'a Parts,
    number: u64,
    encrypted: bool,
    tag: &'a [u8],
}

impl Sealed<'_> {
    /// Opens `body`, the frame without its seal, where it lies; `None` when the tag does not match.
    #[inline]
    fn open(self, key: &LessSafeKey, body: &mut [u8], space: &mut Authenticated) -> Option<()> {
        let Self { parts, number, encrypted, tag } = self;
        let telemetry = parts.telemetry(body);
        let (head, payload) = body.split_at_mut_checked(parts.payload_at)?;
        let head = head.get(parts.authenticated())?;
        let (head, cipher) = if encrypted {
            let head = match telemetry {
                None => head,
                Some(range) => space.without(head, range, &[])?,
            };
            (head, payload)
        } else {
            (space.without(head, telemetry.unwrap_or(0..0), payload)?, &mut [][..])
        };
        key.open_in_place_separate_tag(nonce(number), Aad::from(head), tag, cipher).ok()?;
        Some(())
    }
}

/// From now on keys of this sender that are not in the table have to start later than `name`.
fn raise(floors: &mut [u64], name: &Name) {
    if let Some(floor) = floors.get_mut(sender_of(name)) {
        *floor = name.start.max(*floor);
    }
}

fn sender_of(name: &Name) -> usize {
    let Name { src, .. } = *name;
    let print = Name { src, dst: [0; 16], flow: 0, start: 0, key: 0, encrypted: false }.print();
    usize::try_from(print % SENDERS as u64).unwrap_or(0)
}

/// The key of a name that is not in the table, if a frame may have it.
#[cold]
fn derive(keys: &Keys, floors: &[u64], name: &Name, wall: u64) -> Result<LessSafeKey, DropReason> {
    let shared = keys.numbered(name.key).ok_or(DropReason::UnknownKey)?;
    let floor = floors.get(sender_of(name)).copied().unwrap_or(u64::MAX);
    let known_since = floor.max(wall.saturating_sub(APART_NS));
    if name.start <= known_since || name.start > wall.saturating_add(APART_NS) {
        return Err(DropReason::StaleSeal);
    }
    key_of(shared, name).ok_or(DropReason::BadTag)
}
