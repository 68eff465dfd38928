//! The note by which a host introduces itself to a scheduler that is a process of its own, octet by
//! octet.
//!
//! Source: ours; \[zeropod\] has hosts and scheduler configured alike. Hosts of a real network
//! measure the values from which the timing of their pod follows, and pass these on to a scheduler
//! that has been started again. Times are whole nanoseconds, so that both ends compute the same
//! instants.
//!
//! All notes between such a scheduler and its hosts have keys. A host introduces itself under a
//! number that it has drawn. The scheduler answers by an invitation under the same number; the
//! invitation has a proof. The scheduler acts only on introductions under that proof, since a host
//! that forges the address of another does not receive the proof. The proof is then the key of
//! requests and answers.

use super::super::note::OCTETS_MAX;
use super::super::{Note, TrafficClass};
use super::{CELLS_MAX, Reader, Writer};
use crate::units::Key;

/// The number of the protocol in NOTEs that introduce hosts.
pub const JOIN: u8 = 0x53;
/// The number of the protocol in NOTEs that invite hosts to introduce themselves with a proof.
pub const INVITE: u8 = 0x54;

/// Hosts of a pod that introduces itself at most.
pub const JOIN_HOSTS_MAX: u16 = 1024;

/// Hosts at one switch at most: the bits of a word.
const SWITCH_HOSTS_MAX: u16 = 32;

/// Hosts that a pod of `hosts` hosts on a real network has at a switch, and ways between two of its
/// switches. No host can name the ways of such a network, so up to 32 hosts are at one switch.
/// Where there are more hosts, each switch has as many hosts as there are switches, so that the
/// ways suffice for any permutation. Each host of a switch has a control slot.
#[must_use]
pub const fn hosts_a_switch(hosts: u16) -> u16 {
    if hosts <= SWITCH_HOSTS_MAX {
        return hosts;
    }
    let root = hosts.isqrt();
    if root * root < hosts { root + 1 } else { root }
}

/// An introduction: the run of its host, and all that the timing of the pod follows from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Join {
    /// The number of the run, above 0: hosts of another run begin anew.
    pub run: u16,
    /// The last term that the host was in; 0 while it has had no answer.
    pub term: u16,
    /// Hosts of the pod, 2..=[`JOIN_HOSTS_MAX`].
    pub hosts: u16,
    /// Data cells of an epoch, 1..=[`CELLS_MAX`].
    pub cells: u8,
    /// Payload bytes of a data cell, above 0.
    pub payload: u16,
    /// Bytes of a data cell on the wire, more than those of two control cells.
    pub cell: u16,
    /// Bytes of a control cell on the wire, above 0.
    pub control: u16,
    /// Rate of links, kbit/s, above 0.
    pub kbps: u32,
    /// Propagation of a link, nanoseconds.
    pub hop_ns: u32,
    /// The time at the end of an epoch in which nothing is sent, nanoseconds.
    pub guard_ns: u32,
    /// The time that a decision takes, nanoseconds.
    pub delay_ns: u32,
    /// The time by which a host may be late, nanoseconds.
    pub early_ns: u32,
}

const LEN: usize = 32;
/// Where the cells are in the word that has the hosts.
const CELLS_AT: u32 = 11;
const _: () = assert!(JOIN_HOSTS_MAX < 1 << CELLS_AT);
const _: () = assert!(CELLS_MAX <= 1 << (16 - CELLS_AT), "0 stands for all of them");
const _: () = assert!(LEN <= OCTETS_MAX);

impl Join {
    /// The NOTE of this introduction.
    #[must_use]
    pub fn note(&self) -> Note {
        let mut out = Writer::new();
        out.put(self.run.to_be_bytes()).put(self.term.to_be_bytes());
        let cells = u16::from(self.cells) % CELLS_MAX;
        out.put((cells << CELLS_AT | self.hosts).to_be_bytes()).put(self.payload.to_be_bytes());
        out.put(self.cell.to_be_bytes()).put(self.control.to_be_bytes());
        out.put(self.kbps.to_be_bytes()).put(self.hop_ns.to_be_bytes());
        out.put(self.guard_ns.to_be_bytes()).put(self.delay_ns.to_be_bytes());
        out.put(self.early_ns.to_be_bytes());
        out.note(JOIN)
    }

    /// The introduction in a NOTE; `None` for any other NOTE.
    #[must_use]
    pub fn of(note: &Note) -> Option<Self> {
        if note.protocol != JOIN || note.class != TrafficClass::Control {
            return None;
        }
        let mut from = Reader(note.said());
        let (run, term, sizes) = (from.u16()?, from.u16()?, from.u16()?);
        let cells = Some(sizes >> CELLS_AT).filter(|cells| *cells > 0).unwrap_or(CELLS_MAX);
        let join = Self {
            run,
            term,
            hosts: sizes & ((1 << CELLS_AT) - 1),
            cells: u8::try_from(cells).ok()?,
            payload: from.u16()?,
            cell: from.u16()?,
            control: from.u16()?,
            kbps: from.u32()?,
            hop_ns: from.u32()?,
            guard_ns: from.u32()?,
            delay_ns: from.u32()?,
            early_ns: from.u32()?,
        };
        (from.0.is_empty() && join.is_sound()).then_some(join)
    }

    fn is_sound(&self) -> bool {
        let cells = (1..=CELLS_MAX).contains(&self.cells.into());
        let hosts = (2..=JOIN_HOSTS_MAX).contains(&self.hosts)
            && hosts_a_switch(self.hosts) <= u16::from(self.cells) + 1;
        let sizes = self.payload > 0 && self.control > 0 && self.control < self.cell.div_ceil(2);
        // No scheduler decides more often than every half microsecond.
        let bits = u64::from(self.cells) * u64::from(self.cell) * 8;
        let long = bits * 2000 >= u64::from(self.kbps);
        self.run > 0 && self.kbps > 0 && cells && hosts && sizes && long
    }
}

/// The scheduler's answer to an introduction without a valid proof, under the key of that
/// introduction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Invite {
    /// The key under which the host has to introduce itself, never [`Key::NONE`].
    pub proof: Key,
}

impl Invite {
    /// The NOTE of this invitation.
    #[must_use]
    pub fn note(&self) -> Note {
        let mut out = Writer::new();
        out.put(self.proof.0.to_be_bytes());
        out.note(INVITE)
    }

    /// The invitation in a NOTE; `None` for any other NOTE.
    #[must_use]
    pub fn of(note: &Note) -> Option<Self> {
        if note.protocol != INVITE || note.class != TrafficClass::Control {
            return None;
        }
        let proof = Key(u64::from_be_bytes(note.said().try_into().ok()?));
        (proof != Key::NONE).then_some(Self { proof })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::EntropyValue;
    use crate::wire::{Body, Ext, Header};

    const JOINED: Join = Join {
        run: 0x1234,
        term: 7,
        hosts: 3,
        cells: 16,
        payload: 1024,
        cell: 1104,
        control: 92,
        kbps: 10_000_000,
        hop_ns: 12_000,
        guard_ns: 90_000,
        delay_ns: 500_000,
        early_ns: 90_000,
    };

    #[test]
    fn an_introduction_reads_back() {
        assert_eq!(Join::of(&JOINED.note()), Some(JOINED));
        for hosts in [32, 33, 1024] {
            let last = Join { hosts, cells: 32, early_ns: u32::MAX, ..JOINED };
            assert_eq!(Join::of(&last.note()), Some(last));
        }
    }

    #[test]
    fn an_invitation_reads_back_and_its_proof_is_the_key_of_notes() {
        let invite = Invite { proof: Key(0x0102_0304_0506_0708) };
        assert_eq!(Invite::of(&invite.note()), Some(invite));
        for len in [0, 6, 10] {
            assert_eq!(Invite::of(&Note { len, ..invite.note() }), None);
        }
        assert_eq!(Invite::of(&Invite { proof: Key::NONE }.note()), None);
        assert_eq!(Invite::of(&JOINED.note()), None);
        for proof in [Key::NONE, invite.proof] {
            let header = JOINED.note().for_host(EntropyValue(2), proof);
            let mut out = [0; 128];
            let len = header.emit(&Ext::VACANT, &mut out);
            let (read, ..) = Header::parse(EntropyValue(2), &out[..len]).unwrap();
            assert_eq!((read.key, read.body), (proof, Body::Note(JOINED.note())));
        }
    }

    #[test]
    fn switches_have_as_many_hosts_as_there_are_switches_at_most() {
        for hosts in 2..=JOIN_HOSTS_MAX {
            let each = hosts_a_switch(hosts);
            assert!(each <= SWITCH_HOSTS_MAX && hosts.div_ceil(each) <= each, "{hosts}: {each}");
            assert_eq!(each == hosts, hosts <= SWITCH_HOSTS_MAX);
        }
    }

    #[test]
    fn introductions_of_no_pod_are_refused() {
        for wrong in [
            Join { run: 0, ..JOINED },
            Join { hosts: 1, ..JOINED },
            Join { hosts: 1025, cells: 32, ..JOINED },
            Join { hosts: 18, ..JOINED },
            Join { hosts: 17 * 17 + 1, ..JOINED },
            Join { payload: 0, ..JOINED },
            Join { control: 552, ..JOINED },
            Join { control: 0, ..JOINED },
            Join { kbps: 0, ..JOINED },
            Join { kbps: 16 * 1104 * 8 * 2000 + 1, ..JOINED },
        ] {
            assert_eq!(Join::of(&wrong.note()), None, "{wrong:?}");
        }
        let note = JOINED.note();
        for len in 0..note.len {
            assert_eq!(Join::of(&Note { len, ..note }), None);
        }
        assert_eq!(Join::of(&Note { class: TrafficClass::Probe, ..note }), None);
        assert_eq!(Join::of(&Note { protocol: super::super::RTS, ..note }), None);
    }
}
