//! A host of a real network introduces itself to its pod's scheduler, a process that has the timing
//! of the pod from its hosts.
//!
//! Source: ours; \[zeropod\] has hosts and scheduler configured alike. A host introduces itself
//! until an answer comes, and again when none has come for [`Join::patience`]. It does so under a
//! number that it has drawn. The scheduler invites it under that number, with a proof that only a
//! host at its own address gets. The host introduces itself under the proof, which is from then on
//! the key of its requests and of their answers. So no other host can invite it, ask in its name,
//! or answer it. A scheduler that has been started again is in a later term, and its clock shows
//! another time. The host then forgets its grants, takes the new time from the answers, and asks
//! anew for all that waits. When no answer has come for as long as a flow survives silence, all
//! flows that wait are given up. From then on until an answer comes, each flow that has something
//! to send is given up, too.
//!
//! ```text
//!            JOIN every 10 ms                       RTS, SCHD of every epoch
//!   [joins] -------------------> first answer ---> [in the pod] ---+
//!    ^   ^ |  INVITE: JOIN under                        |          | a later term: anew
//!    |   +-+  its proof at once                         |          |
//!    +--------------- no answer for `patience` ---------+<---------+
//! ```

use core::hash::Hasher as _;

use siphasher::sip::SipHasher24;

use super::clock::PodClock;
use super::counts::Odd;
use super::timing::TimingInputs;
use super::watch::is_later;
use super::{Timing, Zeropod, ZeropodParams};
use crate::sched::SchedSetup;
use crate::segment::{PayloadRef, TxSegment};
use crate::time::{Duration, Instant, Rate};
use crate::units::{Bytes, EntropyValue, Key};
use crate::wire::pod::{Invite, Join};

/// Time between two introductions.
const EVERY: Duration = Duration::from_ms(10);
/// Epochs without an answer after which a host introduces itself again, and the least time.
const SILENT_EPOCHS: u64 = 64;
const SILENT_MIN: Duration = Duration::from_ms(50);

/// The introduction of one host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joining {
    join: Join,
    /// The key of its notes: the proof from the scheduler's invitation or, before that, a number
    /// that the host has drawn.
    key: Key,
    /// The key before this one, under which an invitation may come late.
    former: Key,
    patience: Duration,
    /// When the introduction is sent next, by the host's clock.
    at: Instant,
}

/// Nanoseconds, at most the largest number that an introduction can hold.
fn nanoseconds(span: Duration) -> u32 {
    u32::try_from(span.as_ps().div_ceil(1000)).unwrap_or(u32::MAX)
}

/// A number that no other host can guess where the endpoint has a secret, never [`Key::NONE`].
fn drawn(setup: &SchedSetup<'_>) -> Key {
    let [one, two] = setup.secret;
    let mut hasher = SipHasher24::new_with_keys(one, two);
    hasher.write(b"introduction");
    // Hosts of a simulation have no secret.
    hasher.write_u64(setup.rng.fork("introduction", 0).next_u64());
    Key(hasher.finish().max(1))
}

impl Joining {
    /// The introduction of a host of a pod with these settings and `inputs`; `None` where a note
    /// cannot hold it, and where hosts do not introduce themselves.
    pub(super) fn new(
        params: &ZeropodParams,
        inputs: &TimingInputs,
        setup: &SchedSetup<'_>,
    ) -> Option<Self> {
        let narrow = |bytes: Bytes| u16::try_from(bytes.0).ok();
        let join = Join {
            run: params.run,
            term: 0,
            hosts: params.hosts,
            cells: u8::try_from(inputs.cells).ok()?,
            payload: params.cell,
            cell: narrow(inputs.cell)?,
            control: narrow(inputs.control)?,
            kbps: u32::try_from(inputs.rate.as_bps() / 1000).ok()?,
            hop_ns: nanoseconds(inputs.hop),
            guard_ns: nanoseconds(inputs.guard),
            delay_ns: nanoseconds(inputs.delay),
            early_ns: nanoseconds(inputs.early),
        };
        let join = Join::of(&join.note())?;
        let patience = join.patience();
        let (key, former, at) = (drawn(setup), Key::NONE, Instant::ZERO);
        Some(Self { join, key, former, patience, at })
    }

    /// Silence after which flows are given up that survive `give_up`: a scheduler that has been
    /// started again takes some time to serve.
    pub(super) fn gives_up_after(&self, give_up: Duration) -> Duration {
        give_up.max(self.patience * 2)
    }

    /// The inputs of the timing as both ends have them.
    pub(super) fn timing_inputs(&self) -> TimingInputs {
        self.join.timing_inputs()
    }
}

impl Join {
    /// Time without an answer after which a host introduces itself again.
    #[must_use]
    pub fn patience(&self) -> Duration {
        (Timing::new(&self.timing_inputs()).epoch * SILENT_EPOCHS).max(SILENT_MIN)
    }

    /// The inputs of the timing of the pod that is introduced.
    #[must_use]
    pub fn timing_inputs(&self) -> TimingInputs {
        let ns = |count: u32| Duration::from_ns(count.into());
        TimingInputs {
            cell: Bytes(self.cell.into()),
            control: Bytes(self.control.into()),
            rate: Rate::from_bps(u64::from(self.kbps) * 1000),
            hop: ns(self.hop_ns),
            cells: self.cells.into(),
            guard: ns(self.guard_ns),
            delay: ns(self.delay_ns),
            layers: 0,
            early: ns(self.early_ns),
            guards_answers: true,
        }
    }
}

impl Zeropod {
    /// The introduction that is due at `local` time.
    pub(super) fn next_join(&mut self, local: Instant) -> Option<TxSegment> {
        let joining = self.joining.as_mut().filter(|joining| joining.at <= local)?;
        joining.at = local + EVERY;
        self.silence.asked(local);
        self.silence.look(local);
        self.counts.joins += 1;
        let join = Join { term: self.term, ..joining.join };
        let number = EntropyValue(self.pod_end.number);
        let hdr = join.note().for_host(number, joining.key);
        Some(TxSegment { hdr, payload: PayloadRef::NONE, peer: self.pod_end.scheduler })
    }

    /// An invitation under `key` comes at `local` time. The host introduces itself under its proof
    /// at once where it waits for an answer.
    pub(super) fn on_invite(
        &mut self,
        invite: &Invite,
        key: Key,
        local: Instant,
    ) -> Result<(), Odd> {
        let lacks_answers = self.lacks_answers(local);
        let joining = self.joining.as_mut().ok_or(Odd::Malformed)?;
        if key != joining.key {
            // One that comes late, or twice.
            let is_late = key != Key::NONE && key == joining.former;
            return if is_late { Ok(()) } else { Err(Odd::Forged) };
        }
        if lacks_answers && invite.proof != key {
            (joining.key, joining.former) = (invite.proof, key);
            joining.at = joining.at.min(local);
        }
        Ok(())
    }

    /// The key of requests and answers; [`Key::NONE`] where hosts do not introduce themselves.
    pub(super) fn key(&self) -> Key {
        self.joining.as_ref().map_or(Key::NONE, |joining| joining.key)
    }

    /// Whether an answer of `term` at `local` time comes too soon: it is of a later term while
    /// answers of the present one come.
    pub(super) fn is_early(&self, term: u16, local: Instant) -> bool {
        let is_later = self.term != 0 && is_later(term, self.term);
        self.joining.is_some() && is_later && !self.lacks_answers(local)
    }

    /// Whether the host introduces itself at `local` time, as no answer has come for long.
    pub(super) fn lacks_answers(&self, local: Instant) -> bool {
        self.joining.as_ref().is_some_and(|joining| joining.at <= local + EVERY)
    }

    /// When the next introduction is due, or flows are to be given up, by the host's clock.
    pub(super) fn joins_at(&self) -> Option<Instant> {
        let joining = self.joining.as_ref()?;
        Some(self.silence.due().unwrap_or(joining.at))
    }

    /// An answer has come at `local` time.
    pub(super) fn note_answered(&mut self, local: Instant) {
        if let Some(joining) = &mut self.joining {
            joining.at = local + joining.patience;
        }
    }

    /// Forgets the pod's time and all epochs: they were those of a scheduler that is gone.
    pub(super) fn forget_time(&mut self) {
        let Some(lag) = self.clock.as_ref().map(|clock| clock.lag) else { return };
        self.clock = Some(alloc::boxed::Box::new(PodClock::new(lag)));
        (self.epoch, self.epoch_ends) = (0, Instant::ZERO);
        (self.request_from, self.asked_at) = (0, Instant::ZERO);
        self.filled.clear();
        self.arrivals.clear();
        self.records.clear();
        self.awaited.clear(&mut self.queues);
        self.watch.forget_epochs();
        self.outage.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{HOST, PEER, SCHEDULER, config_with};
    use super::*;
    use crate::rng::Rng;
    use crate::sched::{Backlog, Label, Protocol, Sending};
    use crate::segment::{BURST, Burst};
    use crate::units::FlowId;
    use crate::wire::pod::{Schd, Stamp};
    use crate::wire::{Body, Header, Note};
    use alloc::vec::Vec;

    const MS: fn(u64) -> Instant = |ms| Instant::ZERO + Duration::from_ms(ms);

    /// Polls at `now`; the flows that are given up.
    fn given_up(host: &mut Zeropod, now: Instant) -> Vec<FlowId> {
        let mut burst = Burst::with_limit(BURST);
        host.poll_control(now, now, &mut burst);
        // A driver calls it when it is due alone.
        if host.poll_timeout().is_none_or(|due| due > now) {
            return Vec::new();
        }
        host.handle_timeout(now);
        let given_up = core::iter::from_fn(|| host.next_given_up()).collect();
        assert!(host.poll_timeout() > Some(now), "all that was due is done");
        given_up
    }

    /// The host of a run, and what it asks for is given up after 300 ms.
    fn host() -> (Zeropod, crate::config::Config) {
        let config = config_with(0, 1);
        let mut params = config.sched_params.clone();
        (params.zeropod.run, params.zeropod.follow) = (1, true);
        let setup = config.sched_setup(HOST, Rng::new(3));
        let setup = SchedSetup { params: &params, give_up: Duration::from_ms(300), ..setup };
        (Zeropod::new(&setup), config)
    }

    /// The keys of the introductions that `host` sends at `now`.
    fn proofs(host: &mut Zeropod, now: Instant) -> Vec<Key> {
        let mut burst = Burst::with_limit(BURST);
        host.poll_control(now, now, &mut burst);
        let joins =
            |hdr: &Header| matches!(hdr.body, Body::Note(note) if Join::of(&note).is_some());
        burst.iter().filter(|s| joins(&s.hdr)).map(|s| s.hdr.key).collect()
    }

    /// A note comes under the host's own key.
    fn take(host: &mut Zeropod, note: &Note, now: Instant) -> bool {
        let key = host.key();
        take_under(host, key, note, now)
    }

    fn take_under(host: &mut Zeropod, key: Key, note: &Note, now: Instant) -> bool {
        let hdr = note.for_host(EntropyValue(0), key);
        host.on_host_control(SCHEDULER, &hdr, note, now).is_ok()
    }

    fn answer(term: u16) -> Note {
        let stamp = Some(Stamp { window: Some(9), behind_gap: false, late: None });
        let (grant, receipt, standing, delivered) = (None, None, None, None);
        Schd { term, grant, receipt, also: 0, standing, delivered, stamp }.note()
    }

    #[test]
    fn an_invited_host_introduces_itself_with_the_proof_at_once() {
        let (mut host, _) = host();
        let drawn = host.key();
        assert_eq!(proofs(&mut host, MS(0)), [drawn]);
        assert_eq!(proofs(&mut host, MS(1)), []);
        let invite = Invite { proof: Key(7) }.note();
        assert!(take(&mut host, &invite, MS(2)));
        assert_eq!(host.poll_timeout(), Some(MS(2)));
        assert_eq!(proofs(&mut host, MS(2)), [Key(7)]);
        assert!(take_under(&mut host, drawn, &invite, MS(3)), "it came twice");
        assert_eq!(proofs(&mut host, MS(3)), []);
        assert_eq!(proofs(&mut host, MS(12)), [Key(7)]);
        assert!(take(&mut host, &answer(1), MS(13)));
        assert!(take(&mut host, &Invite { proof: Key(8) }.note(), MS(14)), "it came late");
        assert_eq!((proofs(&mut host, MS(14)), host.counts().refused()), (Vec::new(), 0));
        // A scheduler that has been started again has another proof.
        assert_eq!(proofs(&mut host, MS(63)), [Key(7)]);
        assert!(take(&mut host, &Invite { proof: Key(9) }.note(), MS(64)));
        assert_eq!(proofs(&mut host, MS(64)), [Key(9)]);
    }

    #[test]
    fn notes_without_the_key_of_a_host_change_nothing() {
        let (mut host, _) = host();
        let drawn = host.key();
        let invite = Invite { proof: Key(7) }.note();
        assert_eq!(proofs(&mut host, MS(0)), [drawn]);
        let guessed = [Key::NONE, Key(7), Key(drawn.0 ^ 1)];
        for key in guessed {
            assert!(!take_under(&mut host, key, &invite, MS(1)));
            assert!(!take_under(&mut host, key, &answer(1), MS(1)));
        }
        assert_eq!((host.key(), host.term, host.counts().refused()), (drawn, 0, 6));
        assert!(take(&mut host, &invite, MS(2)) && take(&mut host, &answer(1), MS(3)));
        let before = (host.pod_time(MS(30)), host.poll_timeout());
        for key in [Key::NONE, drawn, Key(8)] {
            assert!(!take_under(&mut host, key, &answer(1), MS(30)), "it moves the clock");
        }
        assert_eq!((host.pod_time(MS(30)), host.poll_timeout()), before);
        assert_eq!(host.term, 1);
        // They are no answers: the host introduces itself again after its patience.
        assert_eq!(proofs(&mut host, MS(53)), [Key(7)]);
    }

    #[test]
    fn a_later_term_is_taken_once_the_present_one_has_been_silent() {
        let (mut host, _) = host();
        assert_eq!(proofs(&mut host, MS(0)).len(), 1);
        // The answer is of a run that is over, and the scheduler has no place for this host.
        assert!(!take_under(&mut host, Key(7), &answer(1), MS(0)));
        assert!(take(&mut host, &Invite { proof: Key(7) }.note(), MS(1)));
        assert!(take(&mut host, &answer(1), MS(1)));
        // It is forged: no scheduler begins a term while it serves one.
        assert!(!take(&mut host, &answer(65_535), MS(2)));
        assert_eq!((host.term, host.counts().refused()), (1, 2));
        assert_eq!(proofs(&mut host, MS(51)).len(), 1, "the forged one is no answer");
        assert!(take(&mut host, &answer(3), MS(52)));
        assert_eq!(host.term, 3);
    }

    #[test]
    fn flows_are_given_up_once_their_scheduler_has_been_silent_for_long() {
        let (mut host, config) = host();
        let post = |host: &mut Zeropod, index, now| {
            let flow = FlowId::new(index, 1);
            host.on_open(flow, PEER, &config.default_path(), Label::NONE);
            let segments = Backlog { sendable: Bytes(512), segments: 3, ..Backlog::default() };
            host.on_backlog(flow, &segments, now);
            flow
        };
        let first = post(&mut host, 0, MS(0));
        for ms in (0..300).step_by(10) {
            assert_eq!(given_up(&mut host, MS(ms)), [], "{ms}");
        }
        assert_eq!(given_up(&mut host, MS(300)), [first]);
        assert_eq!(given_up(&mut host, MS(310)), []);
        let second = post(&mut host, 1, MS(315));
        assert_eq!(given_up(&mut host, MS(320)), [second]);
        // An answer comes.
        host.silence.answered();
        host.note_answered(MS(325));
        post(&mut host, 2, MS(326));
        for ms in (330..670).step_by(10) {
            assert_eq!(given_up(&mut host, MS(ms)), [], "{ms}");
        }
        assert_eq!(host.counts().given_up, 2);
        // It introduces itself again 50 ms after the answer.
        assert!(!given_up(&mut host, MS(680)).is_empty(), "silent again");
    }
}
