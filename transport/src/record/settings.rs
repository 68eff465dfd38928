//! A configuration as 64-bit words, all of them in the order of declaration.
//!
//! Writing takes [`Settings`] apart by name, so a new setting that is not recorded does not
//! compile.

use alloc::vec::Vec;

use crate::cc::{CcKind, CcParams};
use crate::config::{Config, FarSettings, LossSettings, Settings, ShareMax};
use crate::ec::{BlockShape, CodeParams, EcKind, EcParams};
use crate::lb::{LbKind, LbParams};
use crate::rc::RcParams;
use crate::sched::{SchedKind, SchedParams};
use crate::time::{Duration, Rate};
use crate::wire::AccountedSizes;
use crate::wire::addressing::Groups;

/// Stands for `None` where a word is optional.
const NONE: u64 = u64::MAX;

/// Stands for a policy of the application's own, which a recording does not contain. No registered
/// policy has this word, so the recording is refused.
const UNLISTED: u64 = u64::MAX - 1;

/// All settings of `config` except accounted sizes: recorded frames are real, so their length is
/// that of their headers and payload.
pub(super) fn to_words(config: &Config) -> Vec<u64> {
    let Settings {
        payload_max,
        frame_overhead,
        accounted: _,
        sealed,
        key_bytes,
        secret,
        line_rate,
        base_rtt,
        cc,
        cc_params: _,
        lb,
        lb_params: _,
        rc_params: _,
        int_room,
        int_always,
        far,
        sched,
        sched_params: _,
        ec,
        ec_shape,
        ec_params: _,
        code_params: _,
        psn_window,
        msg_window,
        tx_flows_max,
        rx_flows_max,
        unproven_max,
        unproven_bytes,
        peer_max,
        group_max,
        groups,
        answers_max,
        msgs_max,
        acks_waiting_max,
        ack_every,
        ack_delay,
        loss,
        keep_alive,
        trace_capacity,
        incarnation,
    } = (**config).clone();
    let mut words = Vec::from([payload_max, frame_overhead, key_bytes].map(u64::from));
    words.extend([
        line_rate.as_bps(),
        base_rtt.as_ps(),
        place(CcKind::ALL, cc),
        lb as u64,
        sched as u64,
        ec as u64,
        u64::from(ec_shape.data()),
        u64::from(ec_shape.parity()),
        u64::from(psn_window),
        u64::from(msg_window),
        u64::from(tx_flows_max),
        u64::from(rx_flows_max),
        u64::from(msgs_max),
        u64::from(acks_waiting_max),
        u64::from(ack_every),
        ack_delay.map_or(NONE, Duration::as_ps),
        keep_alive.map_or(NONE, Duration::as_ps),
        u64::from(trace_capacity),
        u64::from(incarnation),
    ]);
    let strangers = [unproven_max.into(), unproven_bytes, answers_max.map_or(NONE, u64::from)];
    let peers = peer_words(strangers, [peer_max, group_max], &groups);
    let rest = [secret[0], secret[1], int_room.into(), int_always.into(), sealed.into()];
    [&words[..], &peers, &rest, &far_words(far), &loss_words(loss), &params_words(config)].concat()
}

/// The parameters of all policies.
fn params_words(settings: &Settings) -> Vec<u64> {
    let mut words = Vec::new();
    let mut push = |word| words.push(word);
    settings.cc_params.words(&mut push);
    settings.lb_params.words(&mut push);
    settings.sched_params.words(&mut push);
    settings.ec_params.words(&mut push);
    settings.rc_params.words(&mut push);
    settings.code_params.words(&mut push);
    words
}

fn far_words(far: FarSettings) -> [u64; 3] {
    let FarSettings { rtt, cc, lb } = far;
    let cc = cc.map_or(NONE, |kind| place(CcKind::ALL, kind));
    [rtt.as_ps(), cc, lb.map_or(NONE, |kind| kind as u64)]
}

/// What peers may do: as flows without proof and by answers to them, and as hosts and groups.
fn peer_words(strangers: [u64; 3], most: [ShareMax; 2], groups: &Groups) -> Vec<u64> {
    let shares = most.map(share_words).concat();
    [&strangers[..], &shares, &group_words(groups)].concat()
}

fn share_words(most: ShareMax) -> [u64; 3] {
    let ShareMax { flows, messages, bytes } = most;
    [flows.into(), messages.into(), bytes]
}

fn share(next: &mut dyn FnMut() -> Option<u64>) -> Option<ShareMax> {
    let (flows, messages) = (next()?.try_into().ok()?, next()?.try_into().ok()?);
    Some(ShareMax { flows, messages, bytes: next()? })
}

/// The words of [`Groups`] begin with 0 where no host is in one, 1 for runs, and 2 plus their count
/// for listed ones.
fn group_words(groups: &Groups) -> Vec<u64> {
    match groups {
        Groups::None => Vec::from([0]),
        Groups::Runs(length) => Vec::from([1, (*length).into()]),
        Groups::Listed(groups) => {
            let count = 2 + groups.len() as u64;
            core::iter::once(count).chain(groups.iter().map(|group| (*group).into())).collect()
        }
    }
}

fn groups(next: &mut dyn FnMut() -> Option<u64>) -> Option<Groups> {
    Some(match next()? {
        0 => Groups::None,
        1 => Groups::Runs(next()?.try_into().ok()?),
        // Ends where the words do, however many are claimed.
        more => Groups::Listed((2..more).map(|_| next()?.try_into().ok()).collect::<Option<_>>()?),
    })
}

fn loss_words(loss: LossSettings) -> [u64; 9] {
    let LossSettings {
        reorder_window_quarters,
        in_order,
        rto_quarters,
        rto_min,
        backoff_max,
        retries_max,
        give_up,
        tail_probe,
        silence_probe,
    } = loss;
    [
        reorder_window_quarters.map_or(NONE, u64::from),
        u64::from(in_order),
        u64::from(rto_quarters),
        rto_min.as_ps(),
        u64::from(backoff_max),
        u64::from(retries_max),
        give_up.as_ps(),
        u64::from(tail_probe),
        u64::from(silence_probe),
    ]
}

/// The configuration of these words; `None` when they are not one of this version's, or illegal.
pub(super) fn from_words(words: impl Iterator<Item = u64>) -> Option<Config> {
    let mut words = words;
    let mut next = || words.next();
    let settings = read(&mut next)?;
    if next().is_some() {
        return None;
    }
    Config::new(settings).ok()
}

fn loss(next: &mut dyn FnMut() -> Option<u64>) -> Option<LossSettings> {
    Some(LossSettings {
        reorder_window_quarters: match next()? {
            NONE => None,
            quarters => Some(quarters.try_into().ok()?),
        },
        in_order: flag(next()?)?,
        rto_quarters: next()?.try_into().ok()?,
        rto_min: Duration::from_ps(next()?),
        backoff_max: next()?.try_into().ok()?,
        retries_max: next()?.try_into().ok()?,
        give_up: Duration::from_ps(next()?),
        tail_probe: flag(next()?)?,
        silence_probe: flag(next()?)?,
    })
}

fn read(next: &mut dyn FnMut() -> Option<u64>) -> Option<Settings> {
    // In the order of writing; the fields of a struct are evaluated as they are written here.
    Some(Settings {
        payload_max: next()?.try_into().ok()?,
        frame_overhead: next()?.try_into().ok()?,
        accounted: AccountedSizes::HEADERS,
        key_bytes: next()?.try_into().ok()?,
        line_rate: Rate::from_bps(next()?),
        base_rtt: Duration::from_ps(next()?),
        cc: pick(CcKind::ALL, next()?)?,
        lb: pick(LbKind::ALL, next()?)?,
        sched: pick(SchedKind::ALL, next()?)?,
        ec: pick(EcKind::ALL, next()?)?,
        ec_shape: BlockShape::new(next()?.try_into().ok()?, next()?.try_into().ok()?).ok()?,
        psn_window: next()?.try_into().ok()?,
        msg_window: next()?.try_into().ok()?,
        tx_flows_max: next()?.try_into().ok()?,
        rx_flows_max: next()?.try_into().ok()?,
        msgs_max: next()?.try_into().ok()?,
        acks_waiting_max: next()?.try_into().ok()?,
        ack_every: next()?.try_into().ok()?,
        ack_delay: match next()? {
            NONE => None,
            delay => Some(Duration::from_ps(delay)),
        },
        keep_alive: match next()? {
            NONE => None,
            every => Some(Duration::from_ps(every)),
        },
        trace_capacity: next()?.try_into().ok()?,
        incarnation: next()?.try_into().ok()?,
        unproven_max: next()?.try_into().ok()?,
        unproven_bytes: next()?,
        answers_max: match next()? {
            NONE => None,
            most => Some(most.try_into().ok()?),
        },
        peer_max: share(next)?,
        group_max: share(next)?,
        groups: groups(next)?,
        secret: [next()?, next()?],
        int_room: next()?.try_into().ok()?,
        int_always: flag(next()?)?,
        sealed: flag(next()?)?,
        far: FarSettings {
            rtt: Duration::from_ps(next()?),
            cc: pick_or_none(CcKind::ALL, next()?)?,
            lb: pick_or_none(LbKind::ALL, next()?)?,
        },
        loss: loss(next)?,
        cc_params: CcParams::from_words(next)?,
        lb_params: LbParams::from_words(next)?,
        sched_params: SchedParams::from_words(next)?,
        ec_params: EcParams::from_words(next)?,
        rc_params: RcParams::from_words(next)?,
        code_params: CodeParams::from_words(next)?,
    })
}

fn flag(word: u64) -> Option<bool> {
    match word {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// The place of `kind` among all.
fn place<T: PartialEq>(all: &[T], kind: T) -> u64 {
    let place = all.iter().position(|known| *known == kind);
    place.and_then(|place| u64::try_from(place).ok()).unwrap_or(UNLISTED)
}

fn pick<T: Copy>(all: &[T], word: u64) -> Option<T> {
    all.get(usize::try_from(word).ok()?).copied()
}

/// The kind for `word`: `Some(None)` where the setting is `None`, `None` for an illegal word.
fn pick_or_none<T: Copy>(all: &[T], word: u64) -> Option<Option<T>> {
    if word == NONE { Some(None) } else { pick(all, word).map(Some) }
}
